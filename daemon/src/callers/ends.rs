//! The callers that wait for the end of an invocation.
//!
//! A caller's place is kept only while the caller waits: an invocation may take days, and its callers may leave after a
//! second.

use fnd_wire::ids::InvocationId;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// The places of each invocation, by number.
type EndPlaces = HashMap<InvocationId, HashMap<u64, oneshot::Sender<()>>>;

#[derive(Debug, Default)]
pub(crate) struct EndWaiters {
    places: Rc<RefCell<EndPlaces>>,
    /// The last number given to a place. No number is used twice: a caller that was woken removes its place by number,
    /// when new callers may already wait.
    last: Cell<u64>,
}

impl EndWaiters {
    /// Returns a future that resolves when an invocation has ended, or when fnd stops.
    pub(crate) fn wait(&self, id: InvocationId) -> EndWaiter {
        let (sender, receiver) = oneshot::channel();
        let number = self.last.get() + 1;
        self.last.set(number);
        self.places.borrow_mut().entry(id).or_default().insert(number, sender);
        EndWaiter {
            receiver,
            id,
            number,
            of: Rc::downgrade(&self.places),
        }
    }

    /// Wakes all callers that wait for an invocation's end.
    pub(crate) fn wake(&self, id: InvocationId) {
        let waiting = self.places.borrow_mut().remove(&id);
        for (_, sender) in waiting.into_iter().flatten() {
            let _ = sender.send(()); // cannot fail: a receiver that leaves removes its place first
        }
    }

    /// Returns whether a caller waits for an invocation.
    pub(crate) fn has(&self, id: InvocationId) -> bool {
        self.places.borrow().contains_key(&id)
    }
}

/// Resolves at the end of an invocation. Dropped, it removes its caller's place.
#[derive(Debug)]
pub(crate) struct EndWaiter {
    receiver: oneshot::Receiver<()>,
    id: InvocationId,
    number: u64,
    /// Weak, so that the senders are dropped when fnd ends, which wakes the callers.
    of: Weak<RefCell<EndPlaces>>,
}

impl Future for EndWaiter {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // A dropped sender also means that there is nothing more to wait for.
        Pin::new(&mut self.receiver).poll(cx).map(drop)
    }
}

impl Drop for EndWaiter {
    fn drop(&mut self) {
        let Some(all) = self.of.upgrade() else { return };
        let mut all = all.borrow_mut();
        if let Some(waiting) = all.get_mut(&self.id) {
            waiting.remove(&self.number);
            if waiting.is_empty() {
                all.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const ONE: InvocationId = InvocationId(1);
    const OTHER: InvocationId = InvocationId(2);

    #[test]
    fn a_caller_that_leaves_leaves_nothing_behind() {
        let ends = EndWaiters::default();
        let mut stays = ends.wait(ONE);
        for _ in 0..1000 {
            assert_eq!((&mut ends.wait(ONE)).now_or_never(), None);
            drop(ends.wait(OTHER));
        }
        let kept: Vec<usize> = ends.places.borrow().values().map(HashMap::len).collect();
        assert_eq!(kept, [1]);
        assert_eq!((&mut stays).now_or_never(), None);
        drop(stays);
        assert!(!ends.has(ONE) && ends.places.borrow().is_empty());
    }

    #[test]
    fn each_waiter_is_woken_by_its_own_end_only() {
        let ends = EndWaiters::default();
        let (mut first, mut second, mut other) = (ends.wait(ONE), ends.wait(ONE), ends.wait(OTHER));
        ends.wake(ONE);
        assert_eq!((&mut first).now_or_never(), Some(()));
        // A new place stays although the last waiters of the same invocation have not gone yet.
        let later = ends.wait(ONE);
        drop(first);
        assert_eq!((&mut second).now_or_never(), Some(()));
        drop(second);
        assert!(ends.has(ONE) && ends.has(OTHER));
        assert_eq!((&mut other).now_or_never(), None);
        drop(ends);
        assert_eq!((other.now_or_never(), later.now_or_never()), (Some(()), Some(())));
    }
}
