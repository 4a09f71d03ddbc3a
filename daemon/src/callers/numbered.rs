//! Callers by number, each of whom gets one answer.

use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// The callers that wait.
#[derive(Debug)]
pub(crate) struct NumberedCallers<T> {
    last: u64,
    pub(super) waiting: BTreeMap<u64, oneshot::Sender<T>>,
}

impl<T> NumberedCallers<T> {
    pub(super) fn new() -> Self {
        Self {
            last: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// Makes a place for an answer. Returns the number of the caller, and where its answer will arrive.
    pub(crate) fn expect(&mut self) -> (u64, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        // No number is used twice, so a late answer cannot reach another caller.
        self.last += 1;
        self.waiting.insert(self.last, sender);
        (self.last, receiver)
    }

    /// Answers a caller. If the caller has gone, the answer is dropped.
    pub(crate) fn answer(&mut self, caller: u64, answer: T) {
        if let Some(waiting) = self.waiting.remove(&caller) {
            let _ = waiting.send(answer); // an error: the caller has gone
        }
    }

    /// Returns whether a caller waits.
    pub(crate) fn waits(&self, caller: u64) -> bool {
        self.waiting.contains_key(&caller)
    }

    /// Removes all callers that have gone.
    pub(crate) fn forget_left(&mut self) {
        self.waiting.retain(|_, caller| !caller.is_closed());
    }
}
