//! The callers who wait until it is decided whether newer versions can be loaded.

use fnd_wire::ids::FunctionName;
use std::collections::BTreeSet;
use tokio::sync::oneshot;

/// The callers, each with the functions that are not decided yet.
#[derive(Debug, Default)]
pub(crate) struct TrialCallers(Vec<(BTreeSet<FunctionName>, oneshot::Sender<()>)>);

impl TrialCallers {
    /// Adds a caller. Returns what ends its wait.
    pub(crate) fn wait(&mut self, functions: BTreeSet<FunctionName>) -> oneshot::Receiver<()> {
        // No event tells that a caller has left, so the list is cleaned whenever it grows.
        self.0.retain(|(_, caller)| !caller.is_closed());
        let (caller, decided) = oneshot::channel();
        self.0.push((functions, caller));
        decided
    }

    /// Handles a function that is decided. It counts as decided for these callers, also if a newer version of it comes.
    pub(crate) fn decided(&mut self, function: &FunctionName) {
        for (functions, _) in &mut self.0 {
            functions.remove(function);
        }
        self.answer();
    }

    /// Ends the waits in which no function is undecided any more. Only the first functions of each wait are asked about, up to one that
    /// is undecided: this is called often, and ten thousand functions may wait for their trials at once.
    pub(crate) fn wake(&mut self, is_undecided: impl Fn(&FunctionName) -> bool) {
        for (functions, _) in &mut self.0 {
            while functions.first().is_some_and(|function| !is_undecided(function)) {
                functions.pop_first();
            }
        }
        self.answer();
    }

    fn answer(&mut self) {
        for (_, caller) in self.0.extract_if(.., |(functions, _)| functions.is_empty()) {
            let _ = caller.send(()); // an error: the caller has gone
        }
    }

    /// Returns whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_each_of_its_functions_was_decided_once() {
        let mut callers = TrialCallers::default();
        let [f, g] = ["f", "g"].map(|name| FunctionName::new(name).unwrap());
        let mut both = callers.wait(BTreeSet::from([f, g.clone()]));
        let mut one = callers.wait(BTreeSet::from([g.clone()]));
        callers.wake(|_| true);
        assert!(both.try_recv().is_err() && one.try_recv().is_err());
        callers.decided(&g);
        assert_eq!(one.try_recv(), Ok(()));
        assert!(both.try_recv().is_err(), "the other one is tried");
        callers.wake(|function| *function == g);
        assert_eq!(both.try_recv(), Ok(()), "its newer version is not waited for");
        assert!(callers.is_empty());
    }

    #[test]
    fn a_wait_ends_without_a_word_about_each_function() {
        let mut callers = TrialCallers::default();
        let [f, g] = ["f", "g"].map(|name| FunctionName::new(name).unwrap());
        let mut both = callers.wait(BTreeSet::from([f.clone(), g.clone()]));
        let asked = std::cell::Cell::new(0);
        let mut wake = |undecided: Option<&FunctionName>| {
            asked.set(0);
            callers.wake(|function| {
                asked.set(asked.get() + 1);
                Some(function) == undecided
            });
            (asked.get(), both.try_recv().is_ok())
        };
        assert_eq!(wake(Some(&f)), (1, false), "the first one is enough");
        assert_eq!(wake(Some(&g)), (2, false));
        assert_eq!(wake(None), (1, true));
    }

    #[test]
    fn a_caller_that_leaves_is_forgotten() {
        let mut callers = TrialCallers::default();
        let f = BTreeSet::from([FunctionName::new("f").unwrap()]);
        drop(callers.wait(f.clone()));
        let _other = callers.wait(f);
        assert_eq!(callers.0.len(), 1);
    }
}
