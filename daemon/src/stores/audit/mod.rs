//! The audit: who did what on the control socket. It is kept apart from the history, with a retention of its own.
//!
//! ```text
//! control/routes ─▶ Audit::record (memory, under a lock) ─▶ thread: journal, `audit.db` ─▶ GET /v1/audit
//!                        equal refusals are counted                 100 ms of calls in one transaction
//! ```
//! A call that only runs functions does not wait for its entry. The answer to a call that changes something waits until
//! its entry is written, at most [`WAIT_MAX`]. The file is not synced: an entry that is written survives the end of fnd, not
//! the end of the machine.
//!
//! Files:
//! - `store`: the database, its bounds, and queries
//! - `writer`: the thread, and the lines of the journal

mod store;
mod writer;

use fnd_core::api::AuditList;
use fnd_core::audit::{AuditFilter, AuditKind, AuditedCalls, GatheredRefusals, WAITING_MAX};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// File name of the database in the state directory; SQLite keeps `-wal` and `-shm` files beside it.
pub(crate) const FILE: &str = "audit.db";
/// Most bytes of the database. `[audit] keep_for` is for the age; a flood must not fill the disk before.
const BYTES_MAX: u64 = 128 << 20;
/// How long an answer waits for its entry: a disk that does not respond holds no caller for longer.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How long the end of fnd waits for the thread.
const STOP_MAX: Duration = Duration::from_secs(2);

/// The handle of the audit; clones share it.
#[derive(Clone)]
pub(crate) struct Audit(Arc<SharedAudit>);

/// The state that the handle and the thread share.
struct SharedAudit {
    path: PathBuf,
    /// Where the end of the log is recorded.
    run: PathBuf,
    state: Mutex<AuditState>,
    /// Wakes the thread: there is something to write.
    wake: Condvar,
    /// Called when the problem has changed.
    changed: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct AuditState {
    gathered: GatheredRefusals,
    /// Those who wait until what was gathered is written.
    waiting: Vec<oneshot::Sender<()>>,
    keep_for: Duration,
    /// Why the last write failed.
    failing: Option<String>,
    /// A description of earlier entries that are lost.
    gap: Option<String>,
    /// How many calls were lost since fnd started.
    lost: u64,
    /// Present once fnd stops; the thread drops it at its end.
    stop: Option<std::sync::mpsc::SyncSender<()>>,
}

impl SharedAudit {
    fn lock(&self) -> MutexGuard<'_, AuditState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audit {
    /// Starts the thread, which opens the database of a state directory; the end of its log is recorded in the directory `run`,
    /// which lasts until the next reboot. `now_ms` is the time by which entries become too
    /// old; `changed` is called on the thread when [`Self::problem`] has changed.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub(crate) fn start(
        places: (&Path, &Path),
        keep_for: Duration,
        now_ms: impl Fn() -> u64 + Send + 'static,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        Self::start_within(places, keep_for, BYTES_MAX, now_ms, changed)
    }

    fn start_within(
        (directory, run): (&Path, &Path),
        keep_for: Duration,
        bytes_max: u64,
        now_ms: impl Fn() -> u64 + Send + 'static,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(SharedAudit {
            path: directory.join(FILE),
            run: run.to_owned(),
            state: Mutex::new(AuditState {
                keep_for,
                ..AuditState::default()
            }),
            wake: Condvar::new(),
            changed: Box::new(changed),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("audit".into());
        thread.spawn(move || writer::run(&own, bytes_max, now_ms))?;
        Ok(Self(shared))
    }

    /// Sets how long entries are kept.
    pub(crate) fn retain(&self, keep_for: Duration) {
        self.0.lock().keep_for = keep_for;
    }

    /// Records a call. Returns a future that resolves when the entry is written, or could not be, or time is up; nothing
    /// for a call that only ran a function, and for a refusal, which are not waited for.
    pub(crate) fn record(&self, entry: AuditedCalls) -> Option<impl Future<Output = ()> + use<>> {
        let mut state = self.0.lock();
        let was_empty = state.gathered.is_empty();
        let waits = entry.kind() == AuditKind::Change;
        state.gathered.add(entry);
        let written = waits.then(|| {
            let (sender, written) = oneshot::channel();
            state.waiting.push(sender);
            written
        });
        // While the thread gathers, waking it would cost each call as much as the call's own work.
        if waits || was_empty || state.gathered.entries.len() == WAITING_MAX / 2 {
            self.0.wake.notify_one();
        }
        let written = written?;
        Some(async move {
            // An error: the thread has ended, or time is up.
            let _ = tokio::time::timeout(WAIT_MAX, written).await;
        })
    }

    /// Returns a page, with everything that was recorded before.
    ///
    /// # Errors
    /// The database cannot be read, as text for people.
    pub(crate) async fn list(&self, filter: AuditFilter) -> Result<AuditList, String> {
        let (sender, written) = oneshot::channel();
        {
            let mut state = self.0.lock();
            state.waiting.push(sender);
            self.0.wake.notify_one();
        }
        let _ = tokio::time::timeout(WAIT_MAX, written).await;
        let path = self.0.path.clone();
        let read = tokio::task::spawn_blocking(move || store::list(&path, &filter));
        let read = read.await.map_err(|error| error.to_string())?;
        read.map_err(|error| error.to_string())
    }

    /// Returns why the audit cannot be written, or how many calls were lost since fnd started.
    pub(crate) fn problem(&self) -> Option<String> {
        let state = self.0.lock();
        let lost = match state.lost {
            0 => String::new(),
            1 => "; 1 call is lost".to_owned(),
            lost => format!("; {lost} calls are lost"),
        };
        match &state.failing {
            Some(why) => Some(format!("the audit cannot be written: {why}{lost}")),
            None if state.gap.is_some() => state.gap.as_ref().map(|gap| format!("{gap}{lost}")),
            None if state.lost > 0 => Some(format!("the audit has a gap, which `fndctl audit` shows{lost}")),
            None => None,
        }
    }

    /// Writes what was recorded and ends the thread; a disk that does not respond is waited for a moment only.
    pub(crate) fn stop(&self) {
        let (ended, end) = std::sync::mpsc::sync_channel(0);
        self.0.lock().stop = Some(ended);
        self.0.wake.notify_one();
        let _ = end.recv_timeout(STOP_MAX); // nothing is sent: it is over when the thread drops its end
    }
}

#[cfg(test)]
mod tests;
