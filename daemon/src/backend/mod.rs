//! The requests of callers to the daemon, by resource: [`Backend`] reads the supervisor, the ledger and the kept output, and hands
//! the supervisor events. The control API, the public listener and the sockets of functions use it.
//!
//! Everything runs on one `current_thread` runtime, so nothing here is `Send`. Data in memory is returned at once; methods
//! for data on disk and slow operations are `async`. It knows nothing about routes and answers of HTTP.
//!
//! Files:
//! - `answering`: the answers of the supervisor, and callers that leave before theirs
//! - `audit`: the audit
//! - `deploy`: uploads and removes functions
//! - `events`: events
//! - `functions`: functions
//! - `idempotency`: idempotency keys
//! - `invocations`: invocations
//! - `lists`: makes the long lists of the API in pieces, and says whether the one that a caller has is the present one
//! - `nats`: NATS, and events that go through the stream of all nodes
//! - `new_event`: events that come in a request
//! - `node`: the node, and copies for a backup
//! - `overview`: the node at a glance, and what its caller may do
//! - `releases`: releases
//! - `streams`: output, first what is kept and then live lines; and events
//! - `upload`: the files that a caller uploads, the result, and what has to hold before that
//! - `watch_functions`: sends the watchers of the list of functions what has changed

mod answering;
mod audit;
mod deploy;
mod events;
mod functions;
pub(crate) mod idempotency;
mod invocations;
mod lists;
mod nats;
mod new_event;
mod node;
mod overview;
mod releases;
mod streams;
mod upload;
mod watch_functions;

pub(crate) use answering::Answering;
pub(crate) use functions::PageBounds;
pub(crate) use invocations::{LiveCaller, PassedOn, Repeated};
pub(crate) use new_event::{EventOrigin, EventSender, NewEvent, NotPublished};
pub(crate) use node::Database;
pub(crate) use streams::LogQuery;
pub(crate) use upload::{Deployed, NotDone, Upload, UploadCondition};

pub(crate) use crate::views::lists::{ATTENTION, FunctionFilter, ListPart, ListedState};
pub(crate) use fnd_core::lifecycle::ReleaseChange;

use crate::driver::{Daemon, Driver};
use crate::input::TaskOwner;
use crate::ledger::{self, LedgerCommand};
use crate::stores::audit::Audit;
use crate::stores::kv::StateStore;
use fnd_core::run::{Event, ReplyTo};
use fnd_core::triggers::route::Routes;
use std::cell::RefMut;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Why the daemon could not do an operation that usually works (for example, a read of the ledger failed). The text is
/// for the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(pub(crate) String);

/// Why a change was not made: it could not be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotStored(pub(crate) Arc<str>);

/// The daemon, and the parts that read for it.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) daemon: Rc<Daemon>,
    pub(crate) reader: ledger::LedgerReader,
    /// The directory of kept output.
    pub(crate) logs: PathBuf,
    /// The configuration file and the directories of runtimes.
    pub(crate) places: Arc<(String, Vec<String>)>,
    pub(crate) audit: Audit,
    /// The values that functions share.
    pub(crate) state: StateStore,
    /// Idempotency keys that are being looked up.
    pub(crate) keys: crate::backend::idempotency::Keys,
}

/// How long a caller waits for the disk.
const STORED: Duration = Duration::from_secs(10);

impl Backend {
    /// Waits until the ledger has stored what is known now, also which releases serve.
    async fn stored(&self) -> Result<(), NotStored> {
        // The ledger stores in order, so the answer to a change without parts comes after everything that waited before
        // it.
        let stored = tokio::time::timeout(STORED, self.store_change(Vec::new())).await;
        stored.unwrap_or_else(|_| Err(NotStored("the disk does not respond".into())))
    }

    /// Waits until the ledger has the end of every run that was answered.
    async fn ends_stored(&self) -> Result<(), Failure> {
        let counted = self.settled().records.wait_for_output();
        if let Some(counted) = counted {
            let _ = tokio::time::timeout(STORED, counted).await; // such a record says later that its output is lost
        }
        self.stored().await.map_err(failure)
    }

    /// Has the ledger store a change, before it is made. A change that cannot be stored now is not kept for later.
    fn store_change(&self, parts: Vec<LedgerCommand>) -> impl Future<Output = Result<(), NotStored>> + use<> {
        let mut state = self.settled();
        let (number, stored) = state.callers.expect_change();
        if state
            .records
            .ledger
            .submit(LedgerCommand::Change { number, parts })
            .is_err()
        {
            let why = "the disk is so far behind that the ledger takes nothing more";
            state.callers.change_stored(number, Err(why.into()));
        }
        // Without a limit: a change that is given up here could still be stored.
        async move {
            match stored.await {
                Ok(result) => result.map_err(NotStored),
                Err(_) => Err(NotStored("fnd is stopping".into())),
            }
        }
    }

    /// Does something as a task of its own, and then answers. If the caller leaves, it still comes to its end: otherwise the ledger
    /// would have another state than fnd. Nothing is answered if fnd stops before.
    fn to_the_end<T: 'static>(&self, work: impl Future<Output = Option<T>> + 'static) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        self.daemon.inbox.spawn(TaskOwner::Caller, async move {
            if let Some(answer) = work.await {
                let _ = sender.send(answer); // an error: the caller has left
            }
        });
        receiver
    }

    /// Returns the reader of the ledger. Records that were put off go there first, so that it finds them.
    fn history(&self) -> &ledger::LedgerReader {
        drop(self.settled());
        &self.reader
    }

    /// Hands the supervisor an event, does everything that follows from it, and then returns its answer. So an answer to a
    /// cancellation comes after the order to the spawner.
    fn ask_for_all(&self, event: impl FnOnce(ReplyTo) -> Event) -> Answering {
        let (receiver, reply) = self.daemon.state.borrow_mut().callers.expect_answer();
        self.daemon.step(event(reply));
        receiver.into()
    }

    /// Returns the state with nothing put off: the ledger has every record of what is over.
    pub(crate) fn settled(&self) -> RefMut<'_, Driver> {
        let mut state = self.daemon.state.borrow_mut();
        state.catch_up();
        state
    }

    /// Returns the present Unix time in milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.daemon.state.borrow().clock.now().unix_ms
    }

    /// Returns the routes of the functions that serve.
    pub(crate) fn routes(&self) -> Rc<Routes> {
        self.daemon.state.borrow_mut().lifecycle.route_table()
    }

    /// Makes a place for an answer, and hands the supervisor an event that leads to it.
    pub(crate) fn ask(&self, event: impl FnOnce(ReplyTo) -> Event) -> Answering {
        let (receiver, reply) = self.daemon.state.borrow_mut().callers.expect_answer();
        self.daemon.answer_first(event(reply));
        receiver.into()
    }
}

pub(crate) fn failure(error: impl std::fmt::Display) -> Failure {
    Failure(error.to_string())
}
