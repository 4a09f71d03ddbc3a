//! Detects whether the interpreters of functions are still the same files: a package upgrade replaces them, a link is
//! set to another version, an interpreter is removed and put back.
//!
//! The kernel reports changes in every directory that the path of an interpreter leads through, links included, so that
//! any change of `/opt/python/current/bin/python3` is seen. This module has an inotify instance of its own, which
//! the main thread reads: one of notify needs a thread more.

use crate::descriptors;
use fnd_core::path_steps::way;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A package manager replaces many files; one check serves all changes within this time.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);
/// How long changes may stay unseen that the kernel does not report (network file systems).
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(600);
/// The properties that distinguish one program from another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InterpreterStamp {
    real: PathBuf,
    inode: u64,
    mode: u32,
    size: u64,
    modified: (i64, i64),
}

impl InterpreterStamp {
    /// Returns the stamp of a path; nothing where no file is there.
    fn of(path: &Path) -> Option<Self> {
        let real = std::fs::canonicalize(path).ok()?;
        let meta = std::fs::metadata(&real).ok()?;
        Some(Self {
            real,
            inode: meta.ino(),
            mode: meta.mode(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
        })
    }
}

/// The interpreters that functions can be run by.
pub(crate) struct Interpreters {
    /// Absent where the kernel gives no inotify instance: then the interpreters are only checked from time to time.
    pub(crate) watch: Option<Rc<AsyncFd<OwnedFd>>>,
    seen: BTreeMap<String, Option<InterpreterStamp>>,
    /// The names that matter in each watched directory, by watch number.
    names: HashMap<i32, HashSet<OsString>>,
}

/// An interpreter that has changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChangedInterpreter {
    /// The path by which functions name it.
    pub(crate) path: String,
    /// The file it leads to now, if any.
    pub(crate) real: Option<PathBuf>,
}

impl Interpreters {
    /// Returns a watcher that follows no interpreter yet.
    pub(crate) fn new() -> Self {
        let made = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(io::Error::from);
        let watch = made.and_then(|inotify| descriptors::watch(inotify, Interest::READABLE)).inspect_err(|error| {
            tracing::warn!("failed to watch interpreters: {error}; a replaced one is found within ten minutes, or by `fndctl reload`");
        });
        Self {
            watch: watch.ok().map(Rc::new),
            seen: BTreeMap::new(),
            names: HashMap::new(),
        }
    }

    /// Follows these interpreters and no others.
    pub(crate) fn follow(&mut self, paths: &BTreeSet<&str>) {
        if self.seen.keys().map(String::as_str).eq(paths.iter().copied()) {
            return;
        }
        self.seen.retain(|path, _| paths.contains(path.as_str()));
        for path in paths {
            self.seen
                .entry((*path).to_owned())
                .or_insert_with(|| InterpreterStamp::of(Path::new(path)));
        }
        self.watch_ways();
    }

    /// Checks all interpreters and returns those that changed since the last check.
    pub(crate) fn check(&mut self) -> Vec<ChangedInterpreter> {
        // Watch first: then changes after the check are reported.
        self.watch_ways();
        let mut changed = Vec::new();
        for (path, seen) in &mut self.seen {
            let now = InterpreterStamp::of(Path::new(path));
            if *seen != now {
                seen.clone_from(&now);
                changed.push(ChangedInterpreter {
                    path: path.clone(),
                    real: now.map(|now| now.real),
                });
            }
        }
        changed
    }

    /// Watches every directory that the paths of the interpreters lead through now.
    fn watch_ways(&mut self) {
        let Some(watch) = &self.watch else { return };
        // `ATTRIB` is among them because a change of the mode makes a program usable or unusable.
        let events = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR;
        // Every watch is added again: a directory that is watched already keeps its number (inotify_add_watch(2)).
        let mut names: HashMap<i32, HashSet<OsString>> = HashMap::new();
        let link = |path: &Path| std::fs::read_link(path).ok();
        for (directory, name) in self.seen.keys().flat_map(|path| way(Path::new(path), link)) {
            // A directory that is missing or closed to fnd is not watched: the nearest directory above reports when it
            // appears.
            if let Ok(number) = inotify::add_watch(watch, &directory, events) {
                names.entry(number).or_default().insert(name);
            }
        }
        for old in self.names.keys().filter(|old| !names.contains_key(old)) {
            let _ = inotify::remove_watch(watch, *old); // an error: the directory is gone, and its watch too
        }
        self.names = names;
    }

    /// Reads the kernel's events; returns whether one is about an interpreter.
    pub(crate) fn concerns_an_interpreter(&self, watch: &AsyncFd<OwnedFd>) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(watch, &mut buffer);
        let mut ours = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    let known = |names: &HashSet<OsString>| name.is_some_and(|name| names.contains(name));
                    let lost = event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                    ours |= lost || self.names.get(&event.wd()).is_some_and(known);
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(ours),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns the real path of an interpreter. Where fnd may not see the interpreter, the given path has to do.
pub(crate) fn real_path(interpreter: &str) -> String {
    std::fs::canonicalize(interpreter).map_or_else(|_| interpreter.to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[tokio::test]
    async fn every_way_of_replacing_one_is_reported_and_seen() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("one/bin")).unwrap();
        fs::create_dir_all(at("two/bin")).unwrap();
        for version in ["one", "two"] {
            fs::write(at(version).join("bin/lang"), version).unwrap();
        }
        symlink("one", at("current")).unwrap();
        let path = at("current/bin/lang").display().to_string();
        let mut interpreters = Interpreters::new();
        interpreters.follow(&BTreeSet::from([path.as_str()]));
        let watch = interpreters.watch.clone().unwrap();
        assert!(interpreters.check().is_empty());
        let replace_link = || {
            symlink("two", at("next")).unwrap();
            fs::rename(at("next"), at("current")).unwrap();
        };
        let replace_file = || {
            fs::write(at("two/bin/new"), "other").unwrap();
            fs::rename(at("two/bin/new"), at("two/bin/lang")).unwrap();
        };
        let remove_directory = || fs::remove_dir_all(at("two")).unwrap();
        let come_back = || {
            fs::create_dir_all(at("two/bin")).unwrap();
            fs::write(at("two/bin/lang"), "again").unwrap();
        };
        let steps: [(&dyn Fn(), bool); 4] = [
            (&replace_link, true),
            (&replace_file, true),
            (&remove_directory, false),
            (&come_back, true),
        ];
        for (number, (step, there)) in steps.into_iter().enumerate() {
            step();
            assert!(
                interpreters.concerns_an_interpreter(&watch).unwrap(),
                "step {number} is told"
            );
            let changed = interpreters.check();
            assert_eq!(changed.len(), 1, "step {number}");
            assert_eq!(changed[0].real.is_some(), there, "step {number}");
            assert!(interpreters.check().is_empty(), "step {number}");
            let _ = interpreters.concerns_an_interpreter(&watch).unwrap();
        }
        // Other changes beside the interpreter are not reported.
        fs::write(at("two/bin/other"), "").unwrap();
        assert!(!interpreters.concerns_an_interpreter(&watch).unwrap());
    }
}
