//! Functions whose code comes from a source (`[source]`): when it is fetched again, and what was fetched. This module reads
//! no clock.

use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// The functions with a source.
#[derive(Debug, Default)]
pub struct Sources {
    /// The functions whose code is fetched again after a pause.
    scheduled: BTreeMap<FunctionName, Scheduled>,
    /// The earliest of their times, kept because the main loop asks for it in each turn.
    next: Option<Duration>,
    /// The functions whose code their next installation fetches again, because a person asked. The value says whether the spawner
    /// was asked since: an answer to an earlier request is not the one that the person waits for.
    asked: HashMap<FunctionName, bool>,
    /// The functions that are being installed again only because their pause is over: the same code as before is no news.
    polled: HashSet<FunctionName>,
    /// The name of the code that was fetched last: `commit 1f2e3d`.
    fetched: HashMap<FunctionName, String>,
}

#[derive(Debug)]
struct Scheduled {
    every: Duration,
    at: Duration,
}

impl Sources {
    /// Handles the spawner's answer about a function. `every_s` is the pause after which its code is fetched again; absent: it is
    /// not.
    pub fn judged(&mut self, function: &FunctionName, every_s: Option<u64>, mono: Duration) {
        // A request that was sent before the person asked may have fetched nothing. Its answer does not end the wait.
        self.asked.retain(|asked, is_sent| asked != function || !*is_sent);
        let Some(every) = every_s.map(Duration::from_secs) else {
            self.unschedule(function);
            return;
        };
        let at = mono + every;
        self.scheduled.insert(function.clone(), Scheduled { every, at });
        self.count();
    }

    /// Forgets a function that is gone.
    pub fn remove(&mut self, function: &FunctionName) {
        self.unschedule(function);
        self.asked.remove(function);
        self.polled.remove(function);
        self.fetched.remove(function);
    }

    /// Returns when [`due`](Self::due) has something to return.
    pub fn next_due(&self) -> Option<Duration> {
        self.next
    }

    fn unschedule(&mut self, function: &FunctionName) {
        if self.scheduled.remove(function).is_some() {
            self.count();
        }
    }

    fn count(&mut self) {
        self.next = self.scheduled.values().map(|scheduled| scheduled.at).min();
    }

    /// Returns the functions to install again now; each is due again after its pause. A function that `is_busy` is left out: the
    /// code that was fetched before is still being installed, and with a shorter pause that would never end.
    pub fn due(&mut self, mono: Duration, is_busy: impl Fn(&FunctionName) -> bool) -> Vec<FunctionName> {
        if self.next.is_none_or(|next| next > mono) {
            return Vec::new();
        }
        let is_due = self.scheduled.iter_mut().filter(|(_, scheduled)| scheduled.at <= mono);
        let due = is_due.map(|(function, scheduled)| {
            // The next time counts from now: times that were missed are not made up for.
            scheduled.at = mono + scheduled.every;
            function.clone()
        });
        let due: Vec<_> = due.filter(|function| !is_busy(function)).collect();
        self.count();
        self.polled.extend(due.iter().cloned());
        due
    }

    /// Returns whether a function is being installed again only because its pause is over.
    pub fn is_poll(&self, function: &FunctionName) -> bool {
        self.polled.contains(function)
    }

    /// Notes that a function is installed because somebody wants it, or that a poll of it is over.
    pub fn no_poll(&mut self, function: &FunctionName) {
        self.polled.remove(function);
    }

    /// Has the code of a function fetched by its next installation, because a person asks for that.
    pub fn ask(&mut self, function: &FunctionName) {
        self.polled.remove(function);
        self.asked.insert(function.clone(), false);
    }

    /// Returns whether a person waits until a function is fetched.
    pub fn is_asked(&self, function: &FunctionName) -> bool {
        self.asked.contains_key(function)
    }

    /// Returns whether the installation that the spawner is asked for now has to fetch the code.
    pub fn sent(&mut self, function: &FunctionName) -> bool {
        let asked = self.asked.get_mut(function);
        asked.map(|is_sent| *is_sent = true).is_some()
    }

    /// Notes what was fetched.
    pub fn fetched(&mut self, function: &FunctionName, what: String) {
        self.fetched.insert(function.clone(), what);
    }

    /// Returns whether the code of a function was fetched since fnd started.
    pub fn has_fetched(&self, function: &FunctionName) -> bool {
        self.fetched.contains_key(function)
    }

    /// Returns the name of a function's code for people: its file, and what was fetched.
    pub fn name(&self, function: &FunctionName, file: &str) -> String {
        match self.fetched.get(function) {
            Some(what) => format!("{file} ({what})"),
            None => file.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_due_after_each_of_its_pauses_until_it_has_none() {
        let at = Duration::from_secs;
        let function = FunctionName::new("shop").unwrap();
        let mut sources = Sources::default();
        let free = |_: &FunctionName| false;
        assert_eq!((sources.next_due(), sources.due(at(9), free).len()), (None, 0));
        sources.judged(&function, Some(60), at(5));
        assert_eq!((sources.next_due(), sources.due(at(64), free).len()), (Some(at(65)), 0));
        assert!(!sources.is_poll(&function));
        assert_eq!(sources.due(at(70), free).as_slice(), std::slice::from_ref(&function));
        assert_eq!(sources.next_due(), Some(at(130)));
        assert!(sources.is_poll(&function));
        sources.ask(&function);
        assert!(!sources.is_poll(&function), "a person wants it");
        assert_eq!(sources.due(at(130), |_| true), [], "it is still being installed");
        assert_eq!((sources.next_due(), sources.is_poll(&function)), (Some(at(190)), false));
        sources.judged(&function, None, at(71));
        assert_eq!(sources.next_due(), None);
    }

    #[test]
    fn functions_that_are_due_at_once_are_in_the_order_of_their_names() {
        let mut sources = Sources::default();
        let names = ('a'..='h').map(|letter| FunctionName::new(&letter.to_string()));
        let sorted: Vec<_> = names.collect::<Result<_, _>>().unwrap();
        for function in sorted.iter().rev() {
            sources.judged(function, Some(60), Duration::ZERO);
        }
        assert_eq!(sources.due(Duration::from_secs(60), |_| false), sorted);
    }

    #[test]
    fn a_person_asks_for_one_answer_and_a_name_has_what_was_fetched() {
        let function = FunctionName::new("shop").unwrap();
        let mut sources = Sources::default();
        sources.ask(&function);
        sources.judged(&function, None, Duration::ZERO);
        assert!(sources.is_asked(&function), "that was an answer to an earlier request");
        assert!(sources.sent(&function) && sources.is_asked(&function));
        sources.judged(&function, None, Duration::ZERO);
        assert!(!sources.is_asked(&function) && !sources.sent(&function));
        assert_eq!(sources.name(&function, "shop"), "shop");
        sources.fetched(&function, "commit 1f2e".to_owned());
        assert_eq!(sources.name(&function, "shop"), "shop (commit 1f2e)");
        sources.remove(&function);
        assert_eq!(sources.name(&function, "shop"), "shop");
    }
}
