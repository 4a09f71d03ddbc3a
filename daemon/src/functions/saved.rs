//! The callers who wait until a function serves its files as they are on the disk.

use fnd_wire::ids::FunctionName;
use tokio::sync::oneshot;

/// The callers.
#[derive(Debug, Default)]
pub(crate) struct SavedFiles {
    last: u32,
    waiting: Vec<WaitingCall>,
}

#[derive(Debug)]
struct WaitingCall {
    number: u32,
    function: FunctionName,
    /// The catalog's answer: whether the files were handed on, or are being written. Absent until it comes.
    reported: Option<bool>,
    caller: oneshot::Sender<()>,
}

impl SavedFiles {
    /// Adds a caller. Returns its number, with which the catalog is to be asked, and what ends its wait.
    pub(crate) fn wait(&mut self, function: FunctionName) -> (u32, oneshot::Receiver<()>) {
        // No event tells that a caller has left, so the list is cleaned whenever it grows.
        self.waiting.retain(|waiting| !waiting.caller.is_closed());
        self.last = self.last.wrapping_add(1);
        let (caller, receiver) = oneshot::channel();
        self.waiting.push(WaitingCall {
            number: self.last,
            function,
            reported: None,
            caller,
        });
        (self.last, receiver)
    }

    /// Handles an answer of the catalog: whether the files were reported as they are.
    pub(crate) fn reported(&mut self, number: u32, reported: bool) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.number == number) {
            waiting.reported = Some(reported);
        }
    }

    /// Ends the waits for functions whose files were reported, and are not `under_way` to serve or to be refused.
    pub(crate) fn wake(&mut self, under_way: impl Fn(&FunctionName) -> bool) {
        let is_over = |waiting: &mut WaitingCall| waiting.reported == Some(true) && !under_way(&waiting.function);
        for waiting in self.waiting.extract_if(.., is_over) {
            let _ = waiting.caller.send(()); // an error: the caller has gone
        }
    }

    /// Ends a wait that took too long. Returns whether the function has files that do not serve yet; false if the catalog did
    /// not answer, so that nothing is known.
    pub(crate) fn give_up(&mut self, number: u32) -> bool {
        let mut gone = self.waiting.extract_if(.., |waiting| waiting.number == number);
        gone.any(|waiting| waiting.reported.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns callers with one for `f`, and what ends its wait.
    fn one() -> (SavedFiles, u32, oneshot::Receiver<()>) {
        let mut saved = SavedFiles::default();
        let (number, receiver) = saved.wait(FunctionName::new("f").unwrap());
        (saved, number, receiver)
    }

    #[test]
    fn a_wait_ends_when_the_files_are_reported_and_nothing_is_under_way() {
        let (mut saved, number, mut receiver) = one();
        let mut step = |saved: &mut SavedFiles, under_way: bool| {
            saved.wake(|_| under_way);
            receiver.try_recv().is_ok()
        };
        assert!(!step(&mut saved, false), "the catalog has not answered");
        saved.reported(number, false);
        assert!(!step(&mut saved, false), "somebody writes");
        saved.reported(number.wrapping_add(1), true);
        assert!(!step(&mut saved, false), "an answer to somebody else");
        saved.reported(number, true);
        assert!(!step(&mut saved, true), "it is being checked");
        assert!(step(&mut saved, false));
        assert!(saved.waiting.is_empty() && !saved.give_up(number));
    }

    #[test]
    fn only_files_that_the_catalog_knows_are_being_checked() {
        for (answer, expected) in [(None, false), (Some(false), true), (Some(true), true)] {
            let (mut saved, number, _receiver) = one();
            answer.into_iter().for_each(|reported| saved.reported(number, reported));
            assert_eq!(saved.give_up(number), expected, "{answer:?}");
            assert!(saved.waiting.is_empty());
        }
    }

    #[test]
    fn a_caller_that_leaves_is_forgotten() {
        let (mut saved, _, receiver) = one();
        drop(receiver);
        let _other = saved.wait(FunctionName::new("g").unwrap());
        assert_eq!(saved.waiting.len(), 1);
    }
}
