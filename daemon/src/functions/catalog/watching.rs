//! Watches the directories with inotify, and interprets the events.
//!
//! Each functions directory is watched with everything below it. Its parent is watched too, so that a directory that is
//! removed and created again is noticed, and the directory of the marks.

use super::marks;
use super::presence::DirectoryIdentity;
use super::walk::identity;
use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{
    Config, ErrorKind, EventHandler, EventKind, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The meaning of an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hint {
    /// Paths that were closed after writing, or renamed into place.
    pub(super) complete: Vec<PathBuf>,
    /// Files that were written to.
    pub(super) written: Vec<PathBuf>,
    /// Paths that were removed or renamed.
    pub(super) removed: Vec<PathBuf>,
    /// Whether all watches must be set anew: a functions directory appeared or vanished, or events were lost, and with
    /// them perhaps the event of a new directory.
    pub(super) rewatch: bool,
}

/// Makes a watcher for what [`hint`] and [`mark`] understand. Files that are opened or read cause no event: fnd and the
/// spawner read each file, in the same directories.
///
/// # Errors
/// If the kernel gives no inotify instance.
pub(super) fn watcher(handler: impl EventHandler) -> notify::Result<RecommendedWatcher> {
    let kinds = EventKindMask::CORE | EventKindMask::ACCESS_CLOSE;
    RecommendedWatcher::new(handler, Config::default().with_event_kinds(kinds))
}

/// Returns the meaning of an event; nothing if it needs no scan.
pub(super) fn hint(event: notify::Result<notify::Event>, directories: &[PathBuf]) -> Option<Hint> {
    let rewatch = Some(Hint {
        rewatch: true,
        ..Hint::default()
    });
    let event = match event {
        Ok(event) => event,
        // A directory that fnd may not read: to watch it again would fail again. The scan says so, and is repeated.
        Err(error) if is_denied(&error) => return Some(Hint::default()),
        Err(_) => return rewatch,
    };
    // Queue overflow: the lost events are unknown, and a scan finds the changes. Checked before the paths, because this
    // event has none.
    if event.need_rescan() {
        return rewatch;
    }
    // The parents are watched for changes of the directories themselves; their other contents do not matter.
    let ours = |path: &PathBuf| directories.iter().any(|directory| path.starts_with(directory));
    if !event.paths.is_empty() && !event.paths.iter().any(ours) {
        return None;
    }
    let itself = event.paths.iter().any(|path| directories.contains(path));
    let mut hint = Hint::default();
    match event.kind {
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) if itself => return rewatch,
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => hint.removed = event.paths,
        // The first path is the old name, which has an event of its own.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => {
            hint.complete = event.paths.into_iter().skip(1).collect();
        }
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(_))
        | EventKind::Create(CreateKind::Folder) => hint.complete = event.paths,
        EventKind::Modify(ModifyKind::Data(_)) => hint.written = event.paths,
        // Otherwise fnd's own scans and the spawner's reads would cause the next scan.
        EventKind::Access(_) => return None,
        // Such an event says only that something has changed, and the scan finds what.
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Other => {}
    }
    Some(hint)
}

/// Returns the mark that an event is about.
pub(super) fn mark(event: &notify::Result<notify::Event>, directory: &Path) -> Option<u64> {
    let event = event.as_ref().ok()?;
    event.paths.iter().find_map(|path| marks::mark(path, directory))
}

pub(super) struct Watching {
    directories: Vec<PathBuf>,
    /// The directory of the marks.
    marks: PathBuf,
    /// Each watched path, with the identity of the directory that is watched.
    watched: HashMap<PathBuf, DirectoryIdentity>,
    watcher: Option<RecommendedWatcher>,
}

impl Watching {
    pub(super) fn new(directories: Vec<PathBuf>, marks: PathBuf, watcher: Option<RecommendedWatcher>) -> Self {
        Self {
            directories,
            marks,
            watched: HashMap::new(),
            watcher,
        }
    }

    /// Returns whether every change causes an event.
    pub(super) fn is_complete(&self) -> bool {
        self.directories.iter().all(|directory| self.is_watched(directory))
    }

    /// Returns whether a mark causes an event.
    pub(super) fn sees_marks(&self) -> bool {
        self.is_watched(&self.marks)
    }

    fn is_watched(&self, path: &Path) -> bool {
        identity(path).is_ok_and(|identity| self.watched.get(path) == Some(&identity))
    }

    /// Makes the next [`Watching::refresh`] set all watches anew. Comparing inodes is not enough: a file system may
    /// give the inode number of a removed directory to the next one.
    pub(super) fn forget(&mut self) {
        self.watched.clear();
    }

    /// Watches the existing directories that are not yet watched. Returns why a directory cannot be watched.
    pub(super) fn refresh(&mut self) -> Option<String> {
        if self.watcher.is_none() {
            return Some("the kernel gives no inotify instance; changes are found within seconds, by scanning".into());
        }
        let mut problem = None;
        let marks = self.marks.clone();
        if !self.is_watched(&marks) {
            problem = self.watch(marks, RecursiveMode::NonRecursive);
        }
        for directory in self.directories.clone() {
            let parent = directory.parent().unwrap_or(&directory).to_owned();
            for (path, mode) in [
                (directory, RecursiveMode::Recursive),
                (parent, RecursiveMode::NonRecursive),
            ] {
                if !self.is_watched(&path) {
                    problem = self.watch(path, mode).or(problem);
                }
            }
        }
        problem
    }

    fn watch(&mut self, path: PathBuf, mode: RecursiveMode) -> Option<String> {
        let identity = identity(&path).ok()?;
        let watcher = self.watcher.as_mut()?;
        // If notify believes that it watches this path, `watch` does nothing. After lost events that may be wrong: another
        // directory has the name now, or notify has not seen a directory below. So notify forgets the path first. `unwatch` fails
        // only for a path that notify does not know.
        let _ = watcher.unwatch(&path);
        match watcher.watch(&path, mode) {
            Ok(()) => {
                self.watched.insert(path, identity);
                None
            }
            // The path, or a directory in it, vanished in the meantime; the next scan retries this.
            Err(notify::Error {
                kind: ErrorKind::PathNotFound,
                ..
            }) => None,
            // A watch on a parent only reports that the directory itself was replaced. A parent that fnd may not read,
            // such as `/var/lib/fnd` of a system install, belongs to root, who does not replace it while fnd runs; a
            // rescan would notice it.
            Err(error) if !self.directories.contains(&path) && is_denied(&error) => None,
            Err(error) => Some(format!(
                "failed to watch `{}`: {error}; raise fs.inotify.max_user_watches; changes are found within seconds, by scanning",
                path.display()
            )),
        }
    }
}

fn is_denied(error: &notify::Error) -> bool {
    matches!(&error.kind, ErrorKind::Io(source) if source.kind() == std::io::ErrorKind::PermissionDenied)
}
