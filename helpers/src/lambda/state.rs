//! The state that the tasks of the shim share. It belongs to one thread.

use super::calls::{CallBook, Invocation};
use super::child::FunctionFacts;
use super::extensions::{ExtensionEvent, ExtensionRefusal, Extensions};
use super::{api, complain};
use crate::clock;
use fnd_core::records::protocol::{ProtocolFailure, worker_side};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

/// Parts of streamed results that may wait for fnd. If it reads slower than a client sends, the client waits.
const PARTS_MAX: usize = 4;
/// How long the function waits for its extensions: Lambda's limit for a start. fnd gives a worker longer.
const REGISTER_MAX: Duration = Duration::from_secs(10);

/// Bytes for fnd.
#[derive(Default)]
pub(super) struct OutgoingFrames {
    pub(super) bytes: Vec<u8>,
    /// Of a part of a stream: its place among [`PARTS_MAX`], until it is written.
    _place: Option<OwnedSemaphorePermit>,
    /// Gets a message as soon as these bytes are written.
    pub(super) written: Option<oneshot::Sender<()>>,
    /// Nothing is written after them.
    pub(super) is_last: bool,
}

pub(super) struct WorkerState {
    pub(super) facts: FunctionFacts,
    calls: RefCell<CallBook>,
    /// One permit for each call that waits for a `next`.
    called: Notify,
    pub(super) extensions: RefCell<Extensions>,
    /// Events for extensions have come.
    announced: Notify,
    /// Its length is bounded by the calls in flight: each has one answer, and its parts have places.
    outgoing: UnboundedSender<OutgoingFrames>,
    places: Arc<Semaphore>,
    is_ready: Cell<bool>,
    is_stopping: Cell<bool>,
    load_failure: RefCell<Option<ProtocolFailure>>,
    /// Any of the three before, the calls in flight, or the register of extensions changed.
    changed: Notify,
}

impl WorkerState {
    /// Returns the state of a worker that has just started, and the queue of its bytes for fnd.
    pub(super) fn new(facts: FunctionFacts) -> (Self, UnboundedReceiver<OutgoingFrames>) {
        let (outgoing, queue) = unbounded_channel();
        let state = Self {
            facts,
            calls: RefCell::default(),
            called: Notify::new(),
            extensions: RefCell::default(),
            announced: Notify::new(),
            outgoing,
            places: Arc::new(Semaphore::new(PARTS_MAX)),
            is_ready: Cell::new(false),
            is_stopping: Cell::new(false),
            load_failure: RefCell::default(),
            changed: Notify::new(),
        };
        (state, queue)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.get()
    }

    /// Takes a call of fnd.
    pub(super) fn add_call(&self, invocation: Invocation) {
        self.calls.borrow_mut().add(invocation);
        self.called.notify_one();
    }

    /// See [`Extensions::register`].
    pub(super) fn register(&self, name: &str, body: &[u8]) -> Result<String, ExtensionRefusal> {
        let registered = self.extensions.borrow_mut().register(name, body);
        self.changed.notify_waiters();
        registered
    }

    /// Waits until the extensions have registered, so that none misses a call. One that does not register in time is waited for no
    /// longer, and the log says so.
    async fn extensions_registered(&self) {
        let all = until(&self.changed, || {
            self.extensions.borrow().have_registered().then_some(())
        });
        if tokio::time::timeout(REGISTER_MAX, all).await.is_ok() {
            return;
        }
        let missing = self.extensions.borrow_mut().give_up();
        if !missing.is_empty() {
            let names = missing.join("`, `");
            complain(&format!(
                "the function starts without events for `{names}`, which has not registered with this name within {} s",
                REGISTER_MAX.as_secs()
            ));
        }
        self.changed.notify_waiters();
    }

    /// Takes a `next`, and waits for a call. The first `next` says that the function is loaded, once its extensions are.
    pub(super) async fn next_call(&self) -> Invocation {
        if !self.is_ready() {
            self.extensions_registered().await;
        }
        if !self.is_ready.replace(true) {
            self.send(worker_side::ready(self.facts.concurrency));
        }
        loop {
            let next = self.calls.borrow_mut().next();
            if let Some(invocation) = next {
                let event = api::invoke_event(&invocation, &self.facts.arn, now_ms());
                self.announce(ExtensionEvent::Invoke, &event);
                return invocation;
            }
            // A `next` whose client breaks off passes its permit to another one.
            self.called.notified().await;
        }
    }

    /// See [`CallBook::begin_answer`].
    pub(super) fn begin_answer(&self, id: &str, number: Option<&str>) -> Option<u64> {
        self.calls.borrow_mut().begin_answer(id, number)
    }

    /// Sends the end of the answer to a call, unless the call has failed meanwhile.
    pub(super) fn end_call(&self, call: u64, frames: Vec<u8>) {
        if self.calls.borrow_mut().end(call) {
            self.send(frames);
            self.changed.notify_waiters();
        }
    }

    /// Fails all calls that have no answer.
    pub(super) fn fail_calls(&self, failure: &ProtocolFailure) {
        let calls = self.calls.borrow_mut().take_all();
        for call in calls {
            self.send(worker_side::failure(call, failure));
        }
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.borrow().is_empty()
    }

    /// Waits until no call is in flight after fnd has asked the worker to stop.
    pub(super) async fn stopped(&self) {
        let is_over = || self.is_stopping.get() && !self.has_calls();
        until(&self.changed, || is_over().then_some(())).await;
    }

    pub(super) fn stop(&self) {
        self.is_stopping.set(true);
        self.changed.notify_waiters();
    }

    /// Takes the reason why the function cannot be loaded. The first one counts.
    pub(super) fn fail_load(&self, failure: ProtocolFailure) {
        let mut first = self.load_failure.borrow_mut();
        if first.is_none() {
            *first = Some(failure);
        }
        self.changed.notify_waiters();
    }

    /// Waits for the reason why the function cannot be loaded.
    pub(super) async fn load_failed(&self) -> ProtocolFailure {
        until(&self.changed, || self.load_failure.borrow().clone()).await
    }

    /// Waits for the next event of an extension.
    pub(super) async fn next_event(&self, id: &str) -> Value {
        until(&self.announced, || self.extensions.borrow_mut().next(id)).await
    }

    /// Tells the extensions that the worker ends within a time, and says whether one of them asked for that.
    pub(super) fn announce_end(&self, reason: &str, within: Duration) -> bool {
        let within = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let deadline = now_ms().saturating_add(within);
        let event = json!({ "eventType": "SHUTDOWN", "shutdownReason": reason, "deadlineMs": deadline });
        self.announce(ExtensionEvent::Shutdown, &event)
    }

    fn announce(&self, kind: ExtensionEvent, event: &Value) -> bool {
        let is_asked = self.extensions.borrow_mut().add(kind, event);
        self.announced.notify_waiters();
        is_asked
    }

    pub(super) fn send(&self, bytes: Vec<u8>) {
        self.queue(OutgoingFrames {
            bytes,
            ..OutgoingFrames::default()
        });
    }

    /// Tells fnd that this worker takes no further call: `bootstrap` is gone, and extensions may still have time. With calls in
    /// flight it tells nothing, because their failure is the end of the worker, which may last longer than fnd would wait.
    pub(super) fn retire(&self) {
        if self.is_ready() && !self.has_calls() {
            self.queue(OutgoingFrames {
                is_last: true,
                ..OutgoingFrames::default()
            });
        }
    }

    /// Sends a part of a streamed result, as soon as few others wait, unless the call has failed meanwhile.
    pub(super) async fn send_part(&self, call: u64, bytes: Vec<u8>) {
        let place = Arc::clone(&self.places).acquire_owned().await;
        if self.calls.borrow().is_given(call) {
            self.queue(OutgoingFrames {
                bytes,
                _place: place.ok(),
                ..OutgoingFrames::default()
            });
        }
    }

    /// Waits until everything is written.
    pub(super) async fn flush(&self) {
        let (written, all) = oneshot::channel();
        self.queue(OutgoingFrames {
            written: Some(written),
            ..OutgoingFrames::default()
        });
        // An error: fnd has closed its end, or the worker has retired.
        let _ = all.await;
    }

    fn queue(&self, outgoing: OutgoingFrames) {
        // An error: fnd has closed its end, which the reader of its messages reports, or the worker has retired.
        let _ = self.outgoing.send(outgoing);
    }
}

/// Waits until `look` returns something; it looks again after each notice.
async fn until<T>(notices: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        // Made before the look: so it gets a notice that comes between the look and the wait, too.
        let notice = notices.notified();
        if let Some(found) = look() {
            return found;
        }
        notice.await;
    }
}

/// Returns the time in Unix milliseconds.
pub(super) fn now_ms() -> u64 {
    u64::try_from(clock::unix_ns() / 1_000_000).unwrap_or_default()
}
