//! The watched directories: whether each is there, whether it is still the same, and what hinders the watcher.

use super::disk::{Identity, open_directory};
use super::mounts::below;
use super::scans::Scans;
use super::watches::Watches;
use crate::way::way;
use fnd_core::triggers::file::entries::Entries;
use fnd_core::triggers::file::machine::{DirectoryState, Event, POLL_INTERVAL};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// A watched directory.
pub(super) struct Watched {
    pub(super) number: u16,
    pub(super) path: PathBuf,
    pub(super) is_recursive: bool,
    /// The directory that the path leads to; nothing if there is none that can be read.
    pub(super) identity: Option<Identity>,
    /// Why the kernel does not report all changes.
    blind: Option<Errno>,
    /// The same for the scan that is under way.
    blind_scan: Option<Errno>,
    /// The mounts below, where directories below count.
    mounts: Vec<(Vec<u8>, PathBuf)>,
    state: Option<DirectoryState>,
}

impl Watched {
    pub(super) fn all(entries: &Entries) -> Vec<Self> {
        let watched = |(number, path, is_recursive): (u16, &str, bool)| Self {
            number,
            path: path.into(),
            is_recursive,
            identity: None,
            blind: None,
            blind_scan: None,
            mounts: Vec::new(),
            state: None,
        };
        entries.directories().map(watched).collect()
    }
}

/// Notes that a watch could not be set in a scan.
pub(super) fn is_blind(watched: &mut [Watched], number: u16, error: Errno) {
    if let Some(watched) = watched.iter_mut().find(|watched| watched.number == number) {
        watched.blind_scan = Some(error);
    }
}

/// Notes the end of a scan. Returns whether it changes what is to be reported.
pub(super) fn scan_ended(watched: &mut [Watched], number: u16, is_complete: bool) -> bool {
    let watched = watched.iter_mut().find(|watched| watched.number == number);
    watched.is_some_and(|watched| {
        let blind = watched.blind_scan.take();
        // A part says nothing about the other directories.
        let is_changed = blind.is_some() != watched.blind.is_some() && (is_complete || blind.is_some());
        if is_changed {
            watched.blind = blind;
        }
        is_changed
    })
}

/// Scans directories below which something was mounted or unmounted.
pub(super) fn mounts_changed(watched: &mut [Watched], table: &[u8], scans: &mut Scans) {
    for watched in watched.iter_mut().filter(|watched| watched.is_recursive) {
        let path = std::fs::canonicalize(&watched.path).unwrap_or_else(|_| watched.path.clone());
        let mounts = below(table, &path);
        if watched.mounts != mounts {
            watched.mounts = mounts;
            scans.all(watched.number);
        }
    }
}

/// Examines where the paths lead now. A directory that appeared or was replaced is scanned.
pub(super) fn examine(watched: &mut [Watched], watches: &mut Watches, scans: &mut Scans) {
    // The ways are watched first: what changes afterwards is reported.
    let ways: Vec<(PathBuf, OsString)> = watched.iter().flat_map(|watched| way(&watched.path)).collect();
    let hidden = watches.watch_ways(ways.iter());
    for watched in watched {
        let opened = open_directory(&watched.path);
        let identity = opened.as_ref().ok().map(|(_, identity)| *identity);
        let is_replaced = identity != watched.identity;
        if is_replaced {
            watches.remove(watched.number, b"");
            watched.identity = identity;
            watched.blind = None;
        }
        if let Ok((directory, _)) = &opened
            && !watches.has(watched.number)
        {
            let error = watches.add(watched.number, b"", directory.as_fd()).err();
            if is_replaced || error.is_none() {
                scans.all(watched.number);
            }
            watched.blind = error;
        }
        watched.state = Some(match opened {
            Err(error) => DirectoryState {
                present: false,
                // A changed mode is not reported by the directories above.
                polled: !matches!(error, Errno::NOENT | Errno::NOTDIR) || hidden.is_some(),
                problem: Some(absent(&watched.path, error)),
            },
            Ok(_) => present(watched, watches, hidden.as_ref()),
        });
    }
}

/// Returns the state of a directory that is there.
fn present(watched: &Watched, watches: &Watches, hidden: Option<&(PathBuf, Errno)>) -> DirectoryState {
    let interval = POLL_INTERVAL.as_secs();
    let path = watched.path.display();
    let problem = if let Some(error) = watches.unavailable() {
        Some(format!(
            "the kernel reports no changes ({}), so all files are looked at every {interval} s: raise \
             `fs.inotify.max_user_instances` with sysctl",
            std::io::Error::from(error)
        ))
    } else if watched.blind == Some(Errno::NOSPC) {
        Some(format!(
            "`{path}` has more directories than can be watched, so all files are looked at every {interval} s: raise \
             `fs.inotify.max_user_watches` with sysctl"
        ))
    } else if let Some(error) = watched.blind {
        Some(format!(
            "`{path}` cannot be watched ({}), so all files are looked at every {interval} s",
            std::io::Error::from(error)
        ))
    } else {
        let ours = hidden.filter(|(above, _)| {
            way(&watched.path)
                .iter()
                .any(|(at, name)| at == above || at.join(name) == *above)
        });
        ours.map(|(above, error)| {
            let above = above.display();
            format!(
                "`{above}` cannot be watched ({}), so a replaced `{path}` is found every {interval} s only: let the user \
                 of the function read `{above}`",
                std::io::Error::from(*error)
            )
        })
    };
    DirectoryState {
        present: true,
        polled: problem.is_some(),
        problem,
    }
}

/// Returns the problem of a directory that cannot be opened.
fn absent(path: &Path, error: Errno) -> String {
    let path = path.display();
    let cause = std::io::Error::from(error);
    match error {
        Errno::NOENT => format!("`{path}` is missing: it is watched as soon as it is there"),
        Errno::NOTDIR => format!("`{path}` is not a directory: remove what has this name, or name another directory"),
        Errno::ACCESS | Errno::PERM => format!(
            "`{path}` cannot be read ({cause}): let the user of the function read it and pass the directories above"
        ),
        _ => format!("`{path}` cannot be read: {cause}"),
    }
}

/// Returns the states that are not reported yet.
pub(super) fn states(watched: &mut [Watched]) -> Vec<Event> {
    let states = watched.iter_mut();
    states
        .filter_map(|watched| Some(Event::Directory(watched.number, watched.state.take()?)))
        .collect()
}
