//! Requests about the node: everything that belongs to no function.

use super::releases::TRIAL;
use super::{Backend, Failure, failure};
use crate::buffers::Buffers;
use crate::http::connections::Connections;
use crate::input::TaskOwner;
use crate::ledger;
use crate::stores::kv;
use crate::telemetry::level;
use fnd_core::api::{ReloadReport, SizeView, ValidateReport, ValidateRequest};
use fnd_manifest::check;
use fnd_manifest::check::Disk;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::runtime::RuntimeSummary;
use fnd_wire::units;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

impl Backend {
    /// Returns the memory budget of bodies and answers.
    pub(crate) fn buffers(&self) -> Arc<Buffers> {
        Arc::clone(&self.daemon.state.borrow().callers.buffers)
    }

    /// Returns the accounting of the server's connections.
    pub(crate) fn connections(&self) -> Rc<Connections> {
        Rc::clone(&self.daemon.state.borrow().callers.connections)
    }

    /// Returns a copy of a database in its present state: its size and its bytes.
    pub(crate) async fn backup(&self, of: Database) -> Result<(u64, BundlePieces), Failure> {
        if of == Database::Ledger {
            // Otherwise the copy could miss the end of a call that was answered, and a restore would call the run
            // interrupted.
            self.ends_stored().await?;
        }
        copied(self.logs.with_file_name("state"), of).await
    }

    /// Reads configuration and functions again, and waits until every difference is applied or refused, or is still being tried after
    /// the time of a trial.
    pub(crate) async fn reload(&self, accept_empty: bool) -> Result<ReloadReport, Failure> {
        let before = {
            let state = self.settled();
            state.functions.before_reload(&state.lifecycle)
        };
        let settled = self.daemon.reload(accept_empty);
        settled.await.map_err(|_| Failure("fnd is stopping".into()))?;
        let undecided = self.settled().undecided();
        self.decided(undecided, TRIAL).await;
        let state = &mut *self.settled();
        let undecided = state.undecided();
        let settings = &state.node.settings;
        // Not only once the directories are quiet: the person who reloads should see the warning.
        let (functions, lifecycle) = (&mut state.functions, &state.lifecycle);
        let dirs = &state.workers.welcome.functions_dirs;
        functions.find_projects(&lifecycle.registry, dirs);
        let mut report = functions.report(lifecycle, dirs, (&before, undecided));
        report.configuration_refused = settings.refused;
        report.diagnostics.splice(0..0, settings.diagnostics.iter().cloned());
        Ok(report)
    }

    /// Checks a file as if it were in the functions directory; the file is neither run nor kept.
    pub(crate) async fn validate(&self, request: ValidateRequest) -> Result<ValidateReport, Failure> {
        let places = Arc::clone(&self.places);
        // This reads configuration and runtimes, so it must not run on the thread that answers all callers.
        let judged = tokio::task::spawn_blocking(move || {
            let (config, runtimes) = &*places;
            let (judge, mut diagnostics) = check::judge(&Disk, config, runtimes);
            if let Some(judge) = judge {
                let checked = check::text(&judge, &request.name, request.content.as_bytes());
                diagnostics.extend(checked.all().cloned());
            }
            diagnostics
        });
        let diagnostics = judged.await.map_err(failure)?;
        let valid = !diagnostics.iter().any(Diagnostic::is_error);
        Ok(ValidateReport { valid, diagnostics })
    }

    /// Accepts no new work from now on; resolves with true when nothing runs any more, or with false when the drain is
    /// cancelled. Calling it twice has the same effect as once.
    pub(crate) fn drain(&self) -> oneshot::Receiver<bool> {
        self.daemon.drain()
    }

    /// Accepts and starts work again. Returns false if fnd stops.
    pub(crate) fn cancel_drain(&self) -> bool {
        self.daemon.cancel_drain()
    }

    /// Sets the level from which fnd logs its own messages, for a time or until the next change.
    ///
    /// # Errors
    /// The reason why it is no level, for people.
    pub(crate) fn set_log_level(&self, level: &str, time: Option<Duration>) -> Result<(), String> {
        if let Some(restored) = level::set(level, time)? {
            self.daemon.inbox.spawn(TaskOwner::Caller, restored);
        }
        Ok(())
    }

    /// Returns the runtimes, sorted by id.
    pub(crate) fn runtimes(&self) -> Vec<RuntimeSummary> {
        let mut runtimes = self.daemon.state.borrow().node.settings.runtimes.clone();
        for version in runtimes.iter_mut().flat_map(|runtime| &mut runtime.versions) {
            version.path = installed(&version.interpreter);
            version.installed = version.path.is_some();
        }
        runtimes
    }

    /// Returns the sizes, smallest first.
    pub(crate) fn sizes(&self) -> Vec<SizeView> {
        let state = self.daemon.state.borrow();
        let sizes = state.node.settings.settings.sizes.iter();
        let mut views: Vec<SizeView> = sizes
            .map(|(name, limits)| SizeView {
                name: name.clone(),
                limits: limits.clone(),
            })
            .collect();
        // Smallest first: by memory, then by CPU; a limit that a size does not set counts as nothing.
        views.sort_by_key(|view| {
            let memory = view.limits.get("memory").and_then(|text| units::parse_size(text).ok());
            let cpu = view.limits.get("cpu").and_then(|text| units::parse_cpu(text).ok());
            (memory, cpu)
        });
        views
    }
}

/// Returns the real path of a program; nothing where it is not there.
fn installed(path: &str) -> Option<String> {
    let real = std::fs::canonicalize(path).ok()?;
    let about = std::fs::metadata(&real).ok()?;
    (about.is_file() && about.permissions().mode() & 0o111 != 0).then(|| real.display().to_string())
}

/// A database that a backup has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    /// The history, `ledger.db`.
    Ledger,
    /// The values that functions share.
    State,
}

/// A file in pieces; the channel closes after the last piece, or when the file could not be read further.
pub(crate) type BundlePieces = mpsc::Receiver<Vec<u8>>;

/// Size of a piece, in bytes.
const PIECE: usize = 256 << 10;
/// Most pieces between the disk and the caller.
const PIECES: usize = 4;

/// Copies a database of a state directory: the copy is complete and of one moment, while fnd goes on. Returns the size and the bytes
/// of the copy, whose file has no name any more.
async fn copied(state: PathBuf, of: Database) -> Result<(u64, BundlePieces), Failure> {
    let copied = tokio::task::spawn_blocking(move || match of {
        Database::Ledger => ledger::copy(&state).map_err(|error| crate::chain(&error)),
        Database::State => kv::examine::copy(&state),
    });
    let mut file: File = copied.await.map_err(failure)?.map_err(Failure)?;
    let size = file.metadata().map_err(failure)?.len();
    let (sender, pieces) = mpsc::channel(PIECES);
    // The task ends with the file or with the caller.
    drop(tokio::task::spawn_blocking(move || {
        loop {
            let mut piece = vec![0; PIECE];
            match file.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => piece.truncate(count),
                Err(error) => {
                    tracing::error!("failed to read the copy of a database: {error}");
                    return;
                }
            }
            if sender.blocking_send(piece).is_err() {
                return;
            }
        }
    }));
    Ok((size, pieces))
}
