//! Retries of files that were refused for a reason outside of the file: no room on the disk, no descriptors, a
//! directory above that others may write to. No event tells when such a reason is over, so the pauses grow. This module
//! reads no clock.

use super::SourceFiles;
use fnd_wire::ids::FunctionName;
use std::collections::BTreeMap;
use std::time::Duration;

/// The first pause; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(2);
/// The longest pause: as often as directories are scanned without an event.
const LONGEST: Duration = Duration::from_secs(600);

/// The functions to retry.
#[derive(Debug, Default)]
pub(super) struct Retries {
    /// The refused files; the flag in the key says whether the entry is for a copy.
    refused: BTreeMap<(FunctionName, bool), RefusedFile>,
    /// The earliest retry of all, kept because the main loop asks for it in each turn.
    next: Option<Duration>,
}

#[derive(Debug)]
struct RefusedFile {
    candidate: SourceFiles,
    pause: Duration,
    /// When it is retried; nothing while a retry is under way.
    at: Option<Duration>,
}

impl Retries {
    /// Schedules a retry of a file that was refused for a reason outside of it.
    pub(super) fn refused(&mut self, candidate: SourceFiles, mono: Duration) {
        let key = key(&candidate);
        let before = self.refused.get(&key);
        let pause = before.map_or(FIRST, |before| before.pause.saturating_mul(2).min(LONGEST));
        let at = mono.saturating_add(pause);
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
        let refused = RefusedFile {
            candidate,
            pause,
            at: Some(at),
        };
        self.refused.insert(key, refused);
    }

    /// Returns whether a retry of files is under way.
    pub(super) fn is_under_way(&self, files: &SourceFiles) -> bool {
        self.refused
            .get(&key(files))
            .is_some_and(|refused| refused.at.is_none())
    }

    /// Ends the retries of a function that is gone or has changed.
    pub(super) fn forget(&mut self, function: &FunctionName) {
        let known = [false, true].map(|is_copy| self.refused.remove(&(function.clone(), is_copy)));
        if known.iter().any(Option::is_some) {
            self.count();
        }
    }

    /// Ends the retries of files that are installed, or were refused for their content. Those of another copy go on.
    pub(super) fn is_final(&mut self, files: &SourceFiles) {
        let known = self.refused.get(&key(files));
        if known.is_some_and(|known| files.copy().is_none() || known.candidate == *files) {
            self.refused.remove(&key(files));
            self.count();
        }
    }

    /// Returns when the next retry is due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.next
    }

    /// Returns the retries that are due now.
    pub(super) fn due(&mut self, mono: Duration) -> Vec<SourceFiles> {
        let mut due = Vec::new();
        for refused in self.refused.values_mut() {
            if refused.at.is_some_and(|at| at <= mono) {
                refused.at = None;
                due.push(refused.candidate.clone());
            }
        }
        self.count();
        due
    }

    fn count(&mut self) {
        self.next = self.refused.values().filter_map(|refused| refused.at).min();
    }
}

fn key(files: &SourceFiles) -> (FunctionName, bool) {
    (files.function.clone(), files.copy().is_some())
}

#[cfg(test)]
mod tests {
    use super::super::tests::candidate;
    use super::*;

    #[test]
    fn pauses_grow_until_it_works() {
        let mut again = Retries::default();
        let name = candidate("a").function;
        let mut mono = Duration::from_secs(100);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            again.refused(candidate("a"), mono);
            assert!(!again.is_under_way(&candidate("a")));
            let at = again.next().unwrap();
            assert_eq!(again.due(at - Duration::from_millis(1)), []);
            assert_eq!(again.due(at), [candidate("a")]);
            assert!(again.is_under_way(&candidate("a")));
            assert_eq!((again.next(), again.due(at)), (None, vec![]), "once");
            pauses.push((at - mono).as_secs());
            mono = at;
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]);
        again.forget(&name);
        again.refused(candidate("a"), mono);
        assert_eq!(again.next(), Some(mono + FIRST), "begins anew");
    }

    #[test]
    fn a_copy_has_its_own_retries() {
        let mut again = Retries::default();
        let at = Duration::from_secs;
        let copy = SourceFiles::of_copy(candidate("a").function, fnd_wire::ids::Version([1; 32]));
        again.refused(candidate("a"), at(1));
        again.refused(copy.clone(), at(2));
        again.is_final(&candidate("a"));
        assert_eq!(again.next(), Some(at(4)));
        assert_eq!(again.due(at(4)), std::slice::from_ref(&copy));
        again.refused(copy.clone(), at(4));
        again.forget(&copy.function);
        assert_eq!(again.next(), None);
    }

    #[test]
    fn files_that_are_due_at_once_are_in_the_order_of_their_names() {
        let mut again = Retries::default();
        let sorted: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(candidate).into();
        for file in sorted.iter().rev() {
            again.refused(file.clone(), Duration::ZERO);
        }
        assert_eq!(again.due(FIRST), sorted);
    }

    #[test]
    fn the_earliest_is_waited_for() {
        let mut again = Retries::default();
        let at = Duration::from_secs;
        again.refused(candidate("b"), at(5));
        again.refused(candidate("a"), at(1));
        assert_eq!(again.next(), Some(at(3)));
        assert_eq!(again.due(at(3)), [candidate("a")]);
        assert_eq!(again.next(), Some(at(7)));
        again.forget(&candidate("b").function);
        assert_eq!(again.next(), None);
    }
}
