//! The callers that wait for an answer, for the end of an invocation or for the end of a drain.
//!
//! Files:
//! - `numbered`: callers by number, each of whom gets one answer
//! - `spin`: keeps the main thread awake for a moment while one caller waits

mod numbered;
pub(crate) mod spin;

use crate::buffers::Buffers;
use crate::effects;
use crate::http::connections::Connections;
use crate::http::live_answer::LiveAnswer;
use fnd_core::lifecycle::InstallResult;
use fnd_core::run::{Answer, ReplyTo};
use fnd_wire::ids::InvocationId;
use numbered::NumberedCallers;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// The callers, and the answers and bodies that are held for them.
#[derive(Debug)]
pub(crate) struct Callers {
    /// Bodies and answers that are held for callers.
    pub(crate) buffers: Arc<Buffers>,
    /// The connections of the control socket.
    pub(crate) connections: Rc<Connections>,
    replies: NumberedCallers<Answer>,
    /// The callers whose changes are being stored.
    changes: NumberedCallers<Result<(), Arc<str>>>,
    /// The callers who wait until a release serves, or a function is installed.
    pub(crate) outcomes: NumberedCallers<InstallResult>,
    /// The invocations for whose ends callers wait or have waited. The end drops the sender, and so wakes them.
    ends: RefCell<HashMap<InvocationId, watch::Sender<()>>>,
    /// The callers that get a result as it comes, if it comes as a stream.
    pub(crate) live: HashMap<InvocationId, Rc<LiveAnswer>>,
    /// The callers that wait for the end of a drain; `None` once the drain is over.
    drained: Option<Vec<oneshot::Sender<bool>>>,
    /// Whether fnd stops after the drain.
    stops: bool,
}

impl Callers {
    /// Returns a table without callers.
    pub(crate) fn new(buffers: Arc<Buffers>, connections: Rc<Connections>) -> Self {
        Self {
            buffers,
            connections,
            replies: NumberedCallers::new(),
            changes: NumberedCallers::new(),
            outcomes: NumberedCallers::new(),
            ends: RefCell::default(),
            live: HashMap::new(),
            drained: Some(Vec::new()),
            stops: false,
        }
    }

    /// Makes a place for an answer. Returns where it will arrive, and its number.
    pub(crate) fn expect_answer(&mut self) -> (oneshot::Receiver<Answer>, ReplyTo) {
        let (number, receiver) = self.replies.expect();
        (receiver, ReplyTo(number))
    }

    /// Answers a caller. If the caller has gone, the answer is dropped: the invocation goes on without its caller.
    pub(crate) fn answer(&mut self, to: ReplyTo, answer: Answer) {
        if effects::leaves() {
            self.replies.answer(to.0, answer);
        }
    }

    /// Makes a place for the outcome of storing a change. Returns its number, and where it will arrive.
    pub(crate) fn expect_change(&mut self) -> (u64, oneshot::Receiver<Result<(), Arc<str>>>) {
        self.changes.expect()
    }

    /// Tells the caller of a change whether it is stored.
    pub(crate) fn change_stored(&mut self, number: u64, result: Result<(), Arc<str>>) {
        if effects::leaves() {
            self.changes.answer(number, result);
        }
    }

    /// Returns how many callers wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.replies.waiting.len()
    }

    /// Removes the place of a caller that has gone.
    pub(crate) fn left(&mut self, reply: ReplyTo) {
        self.replies.waiting.remove(&reply.0);
    }

    /// Returns a future that resolves when an invocation has ended, or when fnd stops.
    pub(crate) fn wait_for_end(&self, id: InvocationId) -> impl Future<Output = ()> + use<> {
        let mut ends = self.ends.borrow_mut();
        // An entry stays until its invocation ends. Callers may have left long before, so the map does not grow with them in it.
        if ends.len() == ends.capacity() {
            ends.retain(|_, end| end.receiver_count() > 0);
        }
        let mut end = ends.entry(id).or_insert_with(|| watch::Sender::new(())).subscribe();
        async move {
            let _ = end.changed().await; // an error is the end: nothing is ever sent
        }
    }

    /// Returns whether a caller waits for the end of an invocation.
    pub(crate) fn wait_for(&self, id: InvocationId) -> bool {
        let ends = self.ends.borrow();
        ends.get(&id).is_some_and(|end| end.receiver_count() > 0)
    }

    /// Wakes the callers that wait for the end of an invocation.
    pub(crate) fn ended(&self, id: InvocationId) {
        let mut ends = self.ends.borrow_mut();
        // Mostly nobody waits, and a removal from an empty map would hash the id, too.
        if !ends.is_empty() {
            ends.remove(&id);
        }
    }

    /// Returns a receiver for the end of the drain. Its sender is gone if the drain is over already.
    pub(crate) fn wait_for_drain(&mut self) -> oneshot::Receiver<bool> {
        let (sender, drained) = oneshot::channel();
        if let Some(waiting) = &mut self.drained {
            waiting.push(sender);
        }
        drained
    }

    /// Wakes the callers that wait for the end of the drain.
    pub(crate) fn drained(&mut self) {
        for waiting in self.drained.take().into_iter().flatten() {
            let _ = waiting.send(true); // an error: the caller has gone
        }
    }

    /// From now on a drain ends with the stop of fnd.
    pub(crate) fn stops(&mut self) {
        self.stops = true;
    }

    /// Wakes the callers that wait for the end of the drain, which is cancelled. Returns false if fnd stops.
    pub(crate) fn cancel_drain(&mut self) -> bool {
        if self.stops {
            return false;
        }
        // A new list takes the place of the old one: `None` would say that a drain is over.
        for waiting in self.drained.replace(Vec::new()).into_iter().flatten() {
            let _ = waiting.send(false); // an error: the caller has gone
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::path::PathBuf;

    fn callers() -> Callers {
        let connections = Rc::new(Connections::new("the control socket", crate::control::limits::PLACES));
        Callers::new(Buffers::new(1 << 20, PathBuf::new()), connections)
    }

    #[test]
    fn each_answer_reaches_its_caller_once() {
        let mut callers = callers();
        let (first, to_first) = callers.expect_answer();
        let (second, to_second) = callers.expect_answer();
        let (gone, to_gone) = callers.expect_answer();
        drop(gone);
        callers.left(to_gone);
        callers.answer(to_gone, Answer::Queued(InvocationId(3)));
        callers.answer(to_second, Answer::Queued(InvocationId(2)));
        callers.answer(to_second, Answer::Queued(InvocationId(4)));
        assert!(matches!(
            second.now_or_never(),
            Some(Ok(Answer::Queued(InvocationId(2))))
        ));
        assert!(first.now_or_never().is_none());
        assert_eq!((callers.waiting(), to_first), (1, ReplyTo(1)));
    }

    #[test]
    fn a_drain_that_is_over_is_not_waited_for() {
        let mut callers = callers();
        let mut waits = callers.wait_for_drain();
        assert!((&mut waits).now_or_never().is_none());
        callers.drained();
        assert_eq!(waits.now_or_never(), Some(Ok(true)));
        assert!(
            callers
                .wait_for_drain()
                .now_or_never()
                .is_some_and(|over| over.is_err())
        );
    }

    #[test]
    fn a_cancelled_drain_wakes_who_waits_and_a_stop_is_not_cancelled() {
        let mut callers = callers();
        let waits = callers.wait_for_drain();
        assert!(callers.cancel_drain());
        assert_eq!(waits.now_or_never(), Some(Ok(false)));
        callers.drained();
        assert!(callers.cancel_drain());
        assert!(callers.wait_for_drain().now_or_never().is_none(), "there is no drain");
        callers.stops();
        assert!(!callers.cancel_drain());
    }

    const ONE: InvocationId = InvocationId(1);
    const OTHER: InvocationId = InvocationId(2);

    #[test]
    fn a_caller_that_leaves_does_not_wait_for_an_end_any_more() {
        let callers = callers();
        let mut stays = Box::pin(callers.wait_for_end(ONE));
        for _ in 0..1000 {
            assert_eq!(callers.wait_for_end(ONE).now_or_never(), None);
            drop(callers.wait_for_end(OTHER));
        }
        assert!(callers.wait_for(ONE) && !callers.wait_for(OTHER));
        assert_eq!((&mut stays).now_or_never(), None);
        drop(stays);
        assert!(!callers.wait_for(ONE));
    }

    #[test]
    fn each_waiter_is_woken_by_its_own_end_only() {
        let callers = callers();
        let [first, second, mut other] = [ONE, ONE, OTHER].map(|id| Box::pin(callers.wait_for_end(id)));
        callers.ended(ONE);
        assert_eq!(first.now_or_never(), Some(()));
        // A new place stays although the last waiters of the same invocation have not gone yet.
        let later = callers.wait_for_end(ONE);
        assert_eq!(second.now_or_never(), Some(()));
        assert!(callers.wait_for(ONE) && callers.wait_for(OTHER));
        assert_eq!((&mut other).now_or_never(), None);
        drop(callers);
        assert_eq!((other.now_or_never(), later.now_or_never()), (Some(()), Some(())));
    }
}
