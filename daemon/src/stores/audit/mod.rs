//! The audit: who did what on the control socket. It is kept apart from the history, with a retention of its own.
//!
//! ```text
//! control/routes ─▶ Audit::record (memory, under a lock) ─▶ thread: journal, `audit.db` ─▶ GET /v1/audit
//!                        equal refusals are counted                 100 ms of calls in one transaction
//! ```
//! A call whose run has a record makes no entry: the record has the caller (`ledger/reader/audited.rs`), and the API merges both. It
//! comes here only if it is to be a line of the journal.
//!
//! A call that only runs functions does not wait for its entry. The answer to a call that changes something waits until
//! its entry is written, at most [`WAIT_MAX`]. The file is not synced: an entry that is written survives the end of fnd, not
//! the end of the machine.
//!
//! Files:
//! - `store`: the database, its bounds, and queries
//! - `writer`: the thread, and the lines of the journal

mod store;
mod writer;

use super::database::StorePlaces;
use super::thread::StoreThread;
use crate::lock::lock;
use fnd_core::audit::{AuditFilter, AuditKind, AuditPart, AuditedCalls, GatheredRefusals, WAITING_MAX};
use fnd_manifest::settings::{AuditSettings, AuditedRuns};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// File name of the database in the state directory; SQLite keeps `-wal` and `-shm` files beside it.
pub(crate) const FILE: &str = "audit.db";
/// Most bytes of the database. `[audit] keep_for` is for the age; a flood must not fill the disk before.
pub(crate) const BYTES_MAX: u64 = 128 << 20;
/// How long an answer waits for its entry: a disk that does not respond holds no caller for longer.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The handle of the audit; clones share it.
#[derive(Clone)]
pub(crate) struct Audit {
    shared: Arc<SharedAudit>,
    thread: Arc<StoreThread<Write>>,
}

/// Something has gathered that is to be written. One command in the queue is enough: the thread takes all that has gathered.
struct Write;

/// The state that the handle and the thread share.
struct SharedAudit {
    places: StorePlaces,
    state: Mutex<AuditState>,
    /// Called when the problem has changed.
    changed: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct AuditState {
    gathered: GatheredRefusals,
    /// Those who wait until what was gathered is written.
    waiting: Vec<oneshot::Sender<()>>,
    settings: AuditSettings,
    /// Why the last write failed.
    failing: Option<String>,
    /// A description of earlier entries that are lost.
    gap: Option<String>,
    /// How many calls were lost since fnd started.
    lost: u64,
}

impl AuditState {
    /// Returns what resolves when all that has gathered is written, or could not be.
    fn wait(&mut self) -> oneshot::Receiver<()> {
        let (sender, written) = oneshot::channel();
        self.waiting.push(sender);
        written
    }
}

impl Audit {
    /// Starts the thread, which opens the database. `now_ms` is the time by which entries become too old; `changed` is called
    /// on the thread when [`Self::problem`] has changed.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub(crate) fn start(
        places: StorePlaces,
        (settings, bytes_max): (AuditSettings, u64),
        now_ms: impl Fn() -> u64 + Send + 'static,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let state = AuditState {
            settings,
            ..AuditState::default()
        };
        let shared = Arc::new(SharedAudit {
            places,
            state: Mutex::new(state),
            changed: Box::new(changed),
        });
        let own = Arc::clone(&shared);
        let open = move || writer::AuditWriter::open(own, bytes_max, Box::new(now_ms));
        Ok(Self {
            shared,
            thread: Arc::new(StoreThread::start("audit", 1, open)?),
        })
    }

    /// Returns an audit without a thread: nobody writes its entries.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn detached(places: StorePlaces) -> Self {
        let shared = SharedAudit {
            places,
            state: Mutex::default(),
            changed: Box::new(|| ()),
        };
        Self {
            shared: Arc::new(shared),
            thread: Arc::new(StoreThread::detached()),
        }
    }

    /// Sets how long entries are kept, and which calls are lines of the journal.
    pub(crate) fn set(&self, settings: &AuditSettings) {
        lock(&self.shared.state).settings.clone_from(settings);
    }

    /// Says whether the journal has a line for each run.
    pub(crate) fn tells_runs(&self) -> bool {
        lock(&self.shared.state).settings.runs == AuditedRuns::Journal
    }

    /// Says whether each call that runs a function is an entry.
    pub(crate) fn keeps_runs(&self) -> bool {
        lock(&self.shared.state).settings.runs == AuditedRuns::Entry
    }

    /// Records a call. Returns a future that resolves when the entry is written, or could not be, or time is up; nothing
    /// for a call that only ran a function, and for a refusal, which are not waited for.
    pub(crate) fn record(&self, entry: AuditedCalls) -> Option<impl Future<Output = ()> + use<>> {
        let mut state = lock(&self.shared.state);
        let was_empty = state.gathered.is_empty();
        let waits = entry.kind() == AuditKind::Change;
        state.gathered.add(entry);
        let written = waits.then(|| state.wait());
        // Exactly at half: with more entries the thread has been woken already.
        let is_half_full = state.gathered.entries.len() == WAITING_MAX / 2;
        drop(state);
        // While the thread gathers, waking it would cost each call as much as the call's own work.
        if waits || was_empty || is_half_full {
            self.thread.send(Write);
        }
        let written = written?;
        Some(async move {
            // An error: the thread has ended, or time is up.
            let _ = tokio::time::timeout(WAIT_MAX, written).await;
        })
    }

    /// Returns the entries of a page, with everything that was recorded before.
    ///
    /// # Errors
    /// The database cannot be read, as text for people.
    pub(crate) async fn list(&self, filter: AuditFilter) -> Result<AuditPart, String> {
        let written = lock(&self.shared.state).wait();
        self.thread.send(Write);
        // If the disk does not respond, the page lacks the newest calls: that is better than no page.
        let _ = tokio::time::timeout(WAIT_MAX, written).await;
        let path = self.shared.places.state.join(FILE);
        let read = tokio::task::spawn_blocking(move || store::list(&path, &filter));
        let read = read.await.map_err(|error| error.to_string())?;
        read.map_err(|error| error.to_string())
    }

    /// Returns why the audit cannot be written, or how many calls were lost since fnd started.
    pub(crate) fn problem(&self) -> Option<String> {
        let state = lock(&self.shared.state);
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
        self.thread.stop();
    }
}

#[cfg(test)]
mod tests;
