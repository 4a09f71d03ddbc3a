//! What inotify watches, and what its events mean.
//!
//! Each functions directory is watched with everything below it, and its parent too, so that a directory that is removed and
//! made again is found again.

use super::presence::Identity;
use super::walk::identity;
use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{ErrorKind, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What an event says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hint {
    /// Paths that were closed, or renamed into place.
    pub(super) complete: Vec<PathBuf>,
    /// Files that were written to.
    pub(super) written: Vec<PathBuf>,
    /// Paths that are gone, or have another name.
    pub(super) removed: Vec<PathBuf>,
    /// Whether what is watched has to be watched anew: a functions directory came or went, or events were lost, and with
    /// them perhaps the one of a new directory.
    pub(super) rewatch: bool,
}

/// Returns what an event says, or nothing where it calls for no look.
pub(super) fn hint(event: notify::Result<notify::Event>, directories: &[PathBuf]) -> Option<Hint> {
    let rewatch = Some(Hint {
        rewatch: true,
        ..Hint::default()
    });
    let Ok(event) = event else { return rewatch };
    // Overflow: what was missed is not known, a look finds it. Checked before the paths, of which there are none.
    if event.need_rescan() {
        return rewatch;
    }
    // The parents are watched too, for what happens to the directories themselves; their other content is nobody's.
    let ours = |path: &PathBuf| directories.iter().any(|directory| path.starts_with(directory));
    if !event.paths.is_empty() && !event.paths.iter().any(ours) {
        return None;
    }
    let itself = event.paths.iter().any(|path| directories.contains(path));
    let mut hint = Hint::default();
    match event.kind {
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) if itself => return rewatch,
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => hint.removed = event.paths,
        // The first of both is the old name, which was told by itself.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => {
            hint.complete = event.paths.into_iter().skip(1).collect();
        }
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(_))
        | EventKind::Create(CreateKind::Folder) => hint.complete = event.paths,
        EventKind::Modify(ModifyKind::Data(_)) => hint.written = event.paths,
        // Our own looks and the spawner's reads would otherwise call for the next look.
        EventKind::Access(_) => return None,
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Other => {}
    }
    Some(hint)
}

/// Which directories are watched.
pub(super) struct Watching {
    directories: Vec<PathBuf>,
    /// Directory and which one is watched under its name.
    watched: HashMap<PathBuf, Identity>,
    watcher: Option<RecommendedWatcher>,
}

impl Watching {
    pub(super) fn new(directories: Vec<PathBuf>, watcher: Option<RecommendedWatcher>) -> Self {
        Self {
            directories,
            watched: HashMap::new(),
            watcher,
        }
    }

    /// Says whether every change is an event.
    pub(super) fn is_complete(&self) -> bool {
        self.directories.iter().all(|directory| self.is_watched(directory))
    }

    fn is_watched(&self, path: &Path) -> bool {
        identity(path).is_ok_and(|identity| self.watched.get(path) == Some(&identity))
    }

    /// The next [`Watching::refresh`] watches everything anew. Comparing inodes is not enough: a file system gives the
    /// number of a removed directory to the next one.
    pub(super) fn forget(&mut self) {
        self.watched.clear();
    }

    /// Watches what is there and not yet watched. Returns why something cannot be.
    pub(super) fn refresh(&mut self) -> Option<String> {
        if self.watcher.is_none() {
            return Some("the kernel gives no inotify instance; changes are found within seconds, by looking".into());
        }
        let mut problem = None;
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
        match self.watcher.as_mut()?.watch(&path, mode) {
            Ok(()) => {
                self.watched.insert(path, identity);
                None
            }
            // It, or a directory in it, vanished meanwhile; the next look tries again.
            Err(notify::Error {
                kind: ErrorKind::PathNotFound,
                ..
            }) => None,
            // Only tells that the directory itself was replaced. One that fnd may not read, as `/var/lib/fnd` of a system install,
            // is root's, who does not do that under a running fnd; the rescan would find it.
            Err(error) if !self.directories.contains(&path) && is_denied(&error) => None,
            Err(error) => Some(format!(
                "failed to watch `{}`: {error}; raise fs.inotify.max_user_watches; changes are found within seconds, by looking",
                path.display()
            )),
        }
    }
}

fn is_denied(error: &notify::Error) -> bool {
    matches!(&error.kind, ErrorKind::Io(source) if source.kind() == std::io::ErrorKind::PermissionDenied)
}
