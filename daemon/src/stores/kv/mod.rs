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
//! - `store`: opens the database, and has its statements
//! - `tables`: the tables, and the checks of a database
//! - `worker`: answers requests on the thread

pub(crate) mod examine;
mod salvage;
mod store;
mod tables;
mod worker;

use super::database::StorePlaces;
use super::thread::{StoreNotice, StoreThread};
use fnd_core::kv::{KvRefusal, KvRequest, KvResponse};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// File name of the database in the state directory; SQLite keeps `-wal` and `-shm` files beside it.
pub(crate) const FILE: &str = "state.db";
/// Most requests that wait for the thread; further callers wait for a place. Each has a value of at most 1 MiB.
const WAITING_MAX: usize = 64;

/// The answer of the thread: from the state, or why it cannot be used.
type StoreAnswer = Result<Result<KvResponse, KvRefusal>, String>;

/// A command, with its place in the queue.
type QueuedCommand = (KvCommand, OwnedSemaphorePermit);

enum KvCommand {
    Ask(KvRequest, oneshot::Sender<StoreAnswer>),
    /// Look again whether a damaged database lies beside.
    Look,
}

/// The handle of the state; clones share it.
#[derive(Clone)]
pub(crate) struct StateStore {
    notices: Arc<KvNotices>,
    thread: Arc<StoreThread<QueuedCommand>>,
    /// The places in the queue.
    room: Arc<Semaphore>,
}

/// The state that the handle and the thread share.
struct KvNotices {
    /// Why the last request failed.
    failing: StoreNotice,
    /// The damaged databases that were set aside.
    aside: StoreNotice,
}

impl KvNotices {
    fn new(changed: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let changed: Arc<dyn Fn() + Send + Sync> = Arc::new(changed);
        let [failing, aside] = [(); 2].map(|()| StoreNotice::new(&changed));
        Arc::new(Self { failing, aside })
    }
}

impl StateStore {
    /// Starts the thread, which opens the database. `now_ms` is the time of changes; `changed` is called on the thread when
    /// [`Self::problems`] have changed.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub(crate) fn start(
        places: StorePlaces,
        now_ms: impl Fn() -> u64 + Send + 'static,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let notices = KvNotices::new(changed);
        let own = Arc::clone(&notices);
        let open = move || worker::KvWorker::open(places, own, Box::new(now_ms));
        Ok(Self {
            notices,
            thread: Arc::new(StoreThread::start("state", WAITING_MAX, open)?),
            room: Arc::new(Semaphore::new(WAITING_MAX)),
        })
    }

    /// Returns a state without a thread: it refuses all requests.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn detached() -> Self {
        Self {
            notices: KvNotices::new(|| ()),
            thread: Arc::new(StoreThread::detached()),
            room: Arc::new(Semaphore::new(WAITING_MAX)),
        }
    }

    /// Answers a request, a change after it is on the disk.
    ///
    /// # Errors
    /// The state cannot be used, as text for people.
    pub(crate) fn ask(&self, ask: KvRequest) -> impl Future<Output = StoreAnswer> + use<> {
        let (sender, room) = (self.thread.sender(), Arc::clone(&self.room));
        async move {
            let stops = || "fnd is stopping".to_owned();
            let sender = sender.ok_or_else(stops)?;
            // The place is waited for here. A send to a full queue would stop the main thread.
            let place = room.acquire_owned().await.map_err(|_| stops())?;
            let (answer, answered) = oneshot::channel();
            // With a place there is room in the queue: an error says that the thread has ended.
            let sent = sender.try_send((KvCommand::Ask(ask, answer), place));
            drop(sender);
            sent.map_err(|_| stops())?;
            answered.await.map_err(|_| stops())?
        }
    }

    /// Looks again whether a damaged database lies beside, which a person may have moved away.
    pub(crate) fn look_again(&self) {
        // A busy thread looks at the next reload.
        if let Ok(place) = Arc::clone(&self.room).try_acquire_owned() {
            self.thread.send((KvCommand::Look, place));
        }
    }

    /// Returns the problems, each with its code.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let failing = self.notices.failing.get();
        let failing = failing.map(|why| ("state-failing", format!("the state of functions cannot be used: {why}")));
        let aside = self.notices.aside.get().map(|text| ("state-set-aside", text));
        failing.into_iter().chain(aside)
    }

    /// Ends the thread once every waiting request is answered.
    pub(crate) fn stop(&self) {
        self.thread.stop();
    }
}

#[cfg(test)]
mod tests;
