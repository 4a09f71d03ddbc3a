//! The callers who wait until a release serves, or a function is installed.

use fnd_core::lifecycle::{CallerNumber, InstallResult};
use std::collections::HashMap;
use tokio::sync::oneshot;

/// The callers, by number.
#[derive(Debug, Default)]
pub(crate) struct OutcomeCallers {
    last: CallerNumber,
    waiting: HashMap<CallerNumber, oneshot::Sender<InstallResult>>,
}

impl OutcomeCallers {
    /// Adds a caller, and forgets those who have left. Returns its number, and where its answer will arrive.
    pub(crate) fn expect(&mut self) -> (CallerNumber, oneshot::Receiver<InstallResult>) {
        // No event tells that a caller has left, so callers that have left are removed when the next one comes.
        self.waiting.retain(|_, caller| !caller.is_closed());
        let (sender, receiver) = oneshot::channel();
        self.last += 1;
        self.waiting.insert(self.last, sender);
        (self.last, receiver)
    }

    /// Returns whether a caller is no longer there.
    pub(crate) fn has_left(&self, caller: CallerNumber) -> bool {
        !self.waiting.contains_key(&caller)
    }

    pub(crate) fn answer(&mut self, caller: CallerNumber, outcome: InstallResult) {
        if let Some(waiting) = self.waiting.remove(&caller) {
            let _ = waiting.send(outcome); // an error: the caller has left
        }
    }
}
