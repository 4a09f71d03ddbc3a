//! The state: versioned values that functions and people share (`/v1/state`), in a database of its own.
//!
//! ```text
//! control/routes/state ─▶ StateStore::ask ─▶ thread: requests that wait share a transaction ─▶ synced ─▶ answers
//! ```
//! A change is answered after its transaction is synced, so no answered change is lost. `core/src/kv.rs` decides what is
//! changed. fnd sets a damaged database aside and makes a new one of all values that it can read. The new one is held until
//! somebody confirms it: fnd starts, `fndctl status` shows it, and all requests get 503.
//!
//! Files:
//! - `examine`: checks a database for `fndctl verify`, and copies it for `fndctl backup`
//! - `salvage`: replaces a damaged database with one that is held
//! - `store`: the tables and the statements
//! - `thread`: the thread that owns the database

pub(crate) mod examine;
mod salvage;
mod store;
mod thread;

use fnd_core::kv::{KvRefusal, KvRequest, KvResponse};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// File name of the database in the state directory; SQLite keeps `-wal` and `-shm` files beside it.
pub(crate) const FILE: &str = "state.db";
/// Most requests that wait for the thread; further callers wait for a place. Each has a value of at most 1 MiB.
const WAITING_MAX: usize = 64;
/// How long the end of fnd waits for the thread.
const STOP_MAX: Duration = Duration::from_secs(2);

/// The answer of the thread: from the state, or why it cannot be used.
type StoreAnswer = Result<Result<KvResponse, KvRefusal>, String>;

/// A message for the thread.
enum StoreMessage {
    Ask(KvRequest, oneshot::Sender<StoreAnswer>),
    /// Look again whether a damaged database lies beside.
    Look,
}

/// The handle of the state; clones share it.
#[derive(Clone)]
pub(crate) struct StateStore(Arc<SharedStore>);

/// The state that the handle and the thread share.
struct SharedStore {
    places: store::StatePlaces,
    state: Mutex<StoreState>,
    /// Called when the problems have changed.
    changed: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct StoreState {
    /// Absent once fnd stops.
    sender: Option<mpsc::Sender<StoreMessage>>,
    /// Present until fnd has stopped; the other end is the thread's.
    ended: Option<std::sync::mpsc::Receiver<()>>,
    /// Why the last request failed.
    failing: Option<String>,
    /// Which damaged databases lie beside.
    aside: Option<String>,
}

impl SharedStore {
    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateStore {
    /// Starts the thread, which opens the database of a state directory; the end of its log is recorded in the directory `run`,
    /// which lasts until the next reboot. `now_ms` is the time of changes; `changed` is
    /// called on the thread when [`Self::problems`] have changed.
    ///
    /// # Errors
    /// The kernel gives no thread or no timer.
    pub(crate) fn start(
        (directory, run): (&Path, &Path),
        now_ms: impl Fn() -> u64 + Send + 'static,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let (sender, messages) = mpsc::channel(WAITING_MAX);
        let (ends, ended) = std::sync::mpsc::sync_channel(0);
        let shared = Arc::new(SharedStore {
            places: store::StatePlaces {
                state: directory.to_owned(),
                run: run.to_owned(),
            },
            state: Mutex::new(StoreState {
                sender: Some(sender),
                ended: Some(ended),
                ..StoreState::default()
            }),
            changed: Box::new(changed),
        });
        let timer = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let own = Arc::clone(&shared);
        std::thread::Builder::new().name("state".into()).spawn(move || {
            thread::run(&own, messages, now_ms, &timer);
            drop(ends); // the handle notices
        })?;
        Ok(Self(shared))
    }

    /// Answers a request, a change after it is on the disk.
    ///
    /// # Errors
    /// The state cannot be used, as text for people.
    pub(crate) fn ask(&self, ask: KvRequest) -> impl Future<Output = StoreAnswer> + use<> {
        let sender = self.0.lock().sender.clone();
        async move {
            let stops = || "fnd is stopping".to_owned();
            let (answer, answered) = oneshot::channel();
            let sender = sender.ok_or_else(stops)?;
            let sent = sender.send(StoreMessage::Ask(ask, answer)).await;
            drop(sender);
            sent.map_err(|_| stops())?;
            answered.await.map_err(|_| stops())?
        }
    }

    /// Looks again whether a damaged database lies beside, which a person may have moved away.
    pub(crate) fn look_again(&self) {
        if let Some(sender) = &self.0.lock().sender {
            let _ = sender.try_send(StoreMessage::Look); // a busy thread looks at the next reload
        }
    }

    /// Returns the problems, each with its code.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let state = self.0.lock();
        let failing = state.failing.as_ref();
        let failing = failing.map(|why| ("state-failing", format!("the state of functions cannot be used: {why}")));
        let aside = state.aside.clone().map(|text| ("state-set-aside", text));
        failing.into_iter().chain(aside)
    }

    /// Ends the thread when what waits is answered; a disk that does not respond is waited for a moment only.
    pub(crate) fn stop(&self) {
        let ended = {
            let mut state = self.0.lock();
            state.sender = None;
            state.ended.take()
        };
        if let Some(ended) = ended {
            let _ = ended.recv_timeout(STOP_MAX); // nothing is sent: it is over when the thread drops its end
        }
    }
}

#[cfg(test)]
mod tests;
