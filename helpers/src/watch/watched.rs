//! The watched directories: whether each is there, whether it is still the same, and what hinders the watcher.

use super::disk::{InodeIdentity, open_directory};
use super::found::ScanFindings;
use super::mounts::below;
use super::watches::Watches;
use fnd_core::path_steps;
use fnd_core::triggers::file::entries::Entries;
use fnd_core::triggers::file::machine::{DirectoryState, FileEvent, POLL_INTERVAL};
use rustix::io::Errno;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

pub(super) struct WatchedDirectory {
    pub(super) number: u16,
    pub(super) path: PathBuf,
    pub(super) is_recursive: bool,
    /// The directory that the path leads to; nothing if there is none that can be read.
    pub(super) identity: Option<InodeIdentity>,
    found: ScanFindings,
    /// The same for the scan that is under way.
    scan: ScanFindings,
    /// A directory above cannot be watched.
    is_hidden: bool,
    /// The mounts below, where directories below count.
    mounts: Vec<(Vec<u8>, PathBuf)>,
    state: DirectoryState,
    said: Option<DirectoryState>,
}

impl WatchedDirectory {
    pub(super) fn all(entries: &Entries) -> Vec<Self> {
        let watched = |(number, path, is_recursive): (u16, &str, bool)| Self {
            number,
            path: path.into(),
            is_recursive,
            identity: None,
            found: ScanFindings::default(),
            scan: ScanFindings::default(),
            is_hidden: false,
            mounts: Vec::new(),
            state: DirectoryState::default(),
            said: None,
        };
        entries.directories().map(watched).collect()
    }
}

/// Notes what the scan that is under way has found.
pub(super) fn scanned(watched: &mut [WatchedDirectory], number: u16, found: ScanFindings) {
    if let Some(watched) = watched.iter_mut().find(|watched| watched.number == number) {
        watched.scan.add(found);
    }
}

/// Notes what was found without a scan. Returns whether it changes what is to be reported.
pub(super) fn noticed(watched: &mut [WatchedDirectory], number: u16, found: ScanFindings) -> bool {
    let watched = watched.iter_mut().find(|watched| watched.number == number);
    watched.is_some_and(|watched| {
        let before = watched.found.clone();
        watched.found.add(found);
        watched.found != before
    })
}

/// Returns whether the path that is told as too long is this one, or below it.
pub(super) fn is_long(watched: &[WatchedDirectory], number: u16, path: &[u8]) -> bool {
    let watched = watched.iter().find(|watched| watched.number == number);
    let long = watched.and_then(|watched| watched.found.long.as_ref());
    long.is_some_and(|long| long.starts_with(path))
}

/// Notes the end of a scan. Returns whether it changes what is to be reported.
pub(super) fn scan_ended(watched: &mut [WatchedDirectory], number: u16, is_complete: bool) -> bool {
    let watched = watched.iter_mut().find(|watched| watched.number == number);
    watched.is_some_and(|watched| {
        let scanned = std::mem::take(&mut watched.scan);
        // A part says nothing about the other directories.
        let mut found = if is_complete {
            ScanFindings::default()
        } else {
            watched.found.clone()
        };
        found.add(scanned);
        let is_lost = std::mem::take(&mut found.is_lost);
        let is_changed = found != watched.found;
        watched.found = found;
        is_changed || is_lost
    })
}

/// Returns whether the ways to the directories are to be examined from time to time. All files are not looked at for that.
pub(super) fn is_hidden(watched: &[WatchedDirectory]) -> bool {
    watched.iter().any(|watched| watched.is_hidden)
}

/// Scans directories below which something was mounted or unmounted.
pub(super) fn mounts_changed(watched: &mut [WatchedDirectory], table: &[u8], mut scan: impl FnMut(u16)) {
    for watched in watched.iter_mut().filter(|watched| watched.is_recursive) {
        // The table of mounts has paths without links.
        let path = std::fs::canonicalize(&watched.path).unwrap_or_else(|_| watched.path.clone());
        let mounts = below(table, &path);
        if watched.mounts != mounts {
            watched.mounts = mounts;
            scan(watched.number);
        }
    }
}

/// Returns a number for where the paths lead now and for the mounts below.
pub(super) fn places(watched: &[WatchedDirectory]) -> u64 {
    // With fixed keys, since fnd compares the number with that of an earlier watcher.
    let mut hasher = DefaultHasher::new();
    for watched in watched {
        (watched.number, watched.identity, &watched.mounts).hash(&mut hasher);
    }
    hasher.finish()
}

fn way(path: &Path) -> Vec<(PathBuf, OsString)> {
    path_steps::way(path, |path| std::fs::read_link(path).ok())
}

/// Examines where the paths lead now. A directory that appeared or was replaced is scanned.
pub(super) fn examine(watched: &mut [WatchedDirectory], watches: &mut Watches, mut scan: impl FnMut(u16)) {
    // The directories along each path are watched before the path is followed. So every later change is reported.
    let ways: Vec<Vec<(PathBuf, OsString)>> = watched.iter().map(|watched| way(&watched.path)).collect();
    let hidden = watches.watch_ways(ways.iter());
    for watched in watched {
        let opened = open_directory(&watched.path);
        let identity = opened.as_ref().ok().map(|(_, identity)| *identity);
        let is_replaced = identity != watched.identity;
        if is_replaced {
            watches.remove(watched.number, b"");
            watched.identity = identity;
            watched.found = ScanFindings::default();
        }
        if let Ok((directory, _)) = &opened
            && !watches.has(watched.number)
        {
            let error = watches.add(watched.number, b"", directory.as_fd()).err();
            if is_replaced || error.is_none() {
                scan(watched.number);
            }
            watched.found.blind = error;
        }
        let hidden = hidden.as_ref().filter(|(above, _)| {
            let way = way(&watched.path);
            way.iter().any(|(at, name)| at == above || at.join(name) == *above)
        });
        watched.is_hidden = hidden.is_some();
        watched.state = match opened {
            Err(error) => DirectoryState {
                present: false,
                // A changed mode is not reported by the directories above.
                polled: !matches!(error, Errno::NOENT | Errno::NOTDIR) || hidden.is_some(),
                problem: Some(absent(&watched.path, error)),
            },
            Ok(_) => present(watched, watches, hidden),
        };
    }
}

/// Returns the state of a directory that is there. `hidden` is a directory above that cannot be watched.
fn present(watched: &WatchedDirectory, watches: &Watches, hidden: Option<&(PathBuf, Errno)>) -> DirectoryState {
    let interval = POLL_INTERVAL.as_secs();
    let path = watched.path.display();
    let unavailable = watches.unavailable().map(|error| {
        format!(
            "the kernel reports no changes ({}), so all files are looked at every {interval} s: raise \
             `fs.inotify.max_user_instances` with sysctl",
            std::io::Error::from(error)
        )
    });
    let hidden = hidden.map(|(above, error)| {
        let above = above.display();
        format!(
            "`{above}` cannot be watched ({}), so a replaced `{path}` is found every {interval} s only: let the user of \
             the function read `{above}`",
            std::io::Error::from(*error)
        )
    });
    DirectoryState {
        present: true,
        polled: unavailable.is_some() || watched.found.is_polled(),
        problem: unavailable
            .or_else(|| watched.found.problem(&watched.path))
            .or(hidden)
            .or_else(|| watched.found.too_long(&watched.path)),
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
pub(super) fn states(watched: &mut [WatchedDirectory]) -> Vec<FileEvent> {
    let changed = |watched: &mut WatchedDirectory| {
        // The same state again would put off the next scan.
        if watched.said.as_ref() == Some(&watched.state) {
            return None;
        }
        watched.said = Some(watched.state.clone());
        Some(FileEvent::Directory(watched.number, watched.state.clone()))
    };
    watched.iter_mut().filter_map(changed).collect()
}
