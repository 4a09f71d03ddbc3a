//! The events that `run` waits for beside the function's end: Ctrl-C and other signals, and changes of the function's files.

use super::subject::RunSubject;
use crate::exit::CommandFailure;
use futures_util::StreamExt as _;
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;

/// The person's wish to stop.
pub(super) struct WaitStop {
    signals: Signals,
    asked: bool,
}

impl WaitStop {
    /// Takes over the signals that end a process.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn new() -> Result<Self, CommandFailure> {
        // A terminal that is closed sends SIGHUP. The private fnd must end then, too.
        let failed = |error| CommandFailure::usage(format!("failed to watch for signals: {error}"));
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
        Ok(Self { signals, asked: false })
    }

    /// Waits for the next signal.
    pub(super) async fn asked(&mut self) {
        self.signals.next().await;
        self.asked = true;
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked
    }
}

/// Changes of the function's files.
pub(super) struct WaitChanges {
    changes: mpsc::Receiver<()>,
    /// Whether a change was told that nothing has run since.
    is_new: bool,
    _watcher: RecommendedWatcher,
}

/// Editors save in several steps; a change counts when nothing has followed for this time.
const QUIET: Duration = Duration::from_millis(100);

impl WaitChanges {
    /// Watches the files of a function: their directory, since editors replace files.
    ///
    /// # Errors
    /// The directory cannot be watched.
    pub(super) fn of(subject: &RunSubject) -> Result<Self, CommandFailure> {
        let beside = subject.beside();
        let failed = |error: &dyn std::fmt::Display| {
            CommandFailure::usage(format!("failed to watch `{}`: {error}", beside.display()))
        };
        // The watcher reports paths that begin like the watched one, so all of them are made absolute.
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|error| failed(&error));
        let code = absolute(&subject.code)?;
        let is_directory = subject.is_directory();
        let manifest = code.with_file_name(format!("{}.toml", subject.name()));
        // Room for one is enough: a change that finds it full is announced by the one before.
        let (tell, changes) = mpsc::channel(1);
        let handler = move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            let is_change = match event.kind {
                EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
                EventKind::Create(_) | EventKind::Modify(_) => true,
                // A removed file cannot run. An editor that replaces the file creates it again.
                EventKind::Any | EventKind::Remove(_) | EventKind::Other => false,
            };
            let is_its =
                |path: &PathBuf| *path == code || *path == manifest || (is_directory && path.starts_with(&code));
            if is_change && event.paths.iter().any(is_its) {
                let _ = tell.try_send(()); // full: see above
            }
        };
        let mut watcher = notify::recommended_watcher(handler).map_err(|error| failed(&error))?;
        let (path, depth) = match is_directory {
            true => (&subject.code, RecursiveMode::Recursive),
            false => (&beside, RecursiveMode::NonRecursive),
        };
        watcher.watch(&absolute(path)?, depth).map_err(|error| failed(&error))?;
        Ok(Self {
            changes,
            is_new: false,
            _watcher: watcher,
        })
    }

    /// Waits for the next change, and until it is complete.
    pub(super) async fn next(&mut self) {
        // The watcher has ended, so no change will come. Ctrl-C still ends the verb.
        if self.changes.recv().await.is_none() {
            return std::future::pending().await;
        }
        while let Ok(Some(())) = tokio::time::timeout(QUIET, self.changes.recv()).await {}
        self.is_new = true;
    }

    /// Says whether there was a change since the last call.
    pub(super) fn take(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }
}
