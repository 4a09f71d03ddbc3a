//! The releases of all functions, and the callers who wait for one of them.

use super::order::{CallerNumber, InstallResult, Order};
use super::release::{Canary, HoldKind, Releases, canary_words, short};
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet};

/// The event that a caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwaitedRelease {
    /// The release that is held serves.
    Held,
    /// The canary gets its share of the calls.
    Canary,
    /// The canary was promoted and serves.
    Promoted,
}

impl AwaitedRelease {
    /// Returns whether this event can still happen.
    fn is_wanted(self, releases: &Releases) -> bool {
        match self {
            Self::Held => releases.hold().is_some(),
            Self::Canary => releases.canary().is_some(),
            Self::Promoted => releases.canary().is_some_and(|canary| canary.promoted),
        }
    }
}

/// The releases of all functions.
#[derive(Debug, Default)]
pub struct AllReleases {
    of: BTreeMap<FunctionName, Box<Releases>>,
    /// Functions whose releases have changed since they were stored.
    changed: BTreeSet<FunctionName>,
    /// How many writes of the releases of a function are on their way to the ledger.
    writes: BTreeMap<FunctionName, usize>,
    /// When canaries are promoted, Unix milliseconds.
    promotions: BTreeMap<FunctionName, u64>,
    /// Callers that wait until the release that they asked for serves.
    waiting: BTreeMap<FunctionName, Vec<(AwaitedRelease, CallerNumber)>>,
}

impl AllReleases {
    /// Returns the releases that the ledger knows.
    #[must_use]
    pub fn new(stored: Vec<(FunctionName, Releases)>) -> Self {
        let boxed = |(function, mut releases): (FunctionName, Releases)| {
            releases.shrink();
            (function, Box::new(releases))
        };
        let promoted = |(function, releases): &(FunctionName, Releases)| {
            Some((function.clone(), releases.canary()?.promote_at_ms()?))
        };
        Self {
            promotions: stored.iter().filter_map(promoted).collect(),
            of: stored.into_iter().map(boxed).collect(),
            ..Self::default()
        }
    }

    /// Returns the releases of a function; nothing if it never had one.
    #[must_use]
    pub fn get(&self, function: &FunctionName) -> Option<&Releases> {
        self.of.get(function).map(|releases| &**releases)
    }

    /// Changes the releases of a function.
    pub fn change<T>(&mut self, function: &FunctionName, change: impl FnOnce(&mut Releases) -> T) -> T {
        let releases = self.of.entry(function.clone()).or_default();
        let before = releases.clone();
        let result = change(releases);
        // A change of parts that are not stored needs no write.
        if !releases.is_stored_like(&before) {
            self.changed.insert(function.clone());
            match releases.canary().and_then(Canary::promote_at_ms) {
                Some(at_ms) => drop(self.promotions.insert(function.clone(), at_ms)),
                None => drop(self.promotions.remove(function)),
            }
        }
        result
    }

    /// Has the releases of a function stored as they are, because the ledger has stored a plan that was not carried out.
    pub fn store_again(&mut self, function: &FunctionName) {
        self.changed.insert(function.clone());
    }

    /// Notes that the file of a function has changed.
    pub fn file_changed(&mut self, function: &FunctionName) {
        if let Some(releases) = self.of.get_mut(function) {
            releases.file_changed();
        }
    }

    /// Forgets a function that is gone.
    pub fn remove(&mut self, function: &FunctionName, out: &mut Vec<Order>) {
        self.promotions.remove(function);
        if self.of.remove(function).is_some() {
            self.changed.insert(function.clone());
        }
        self.answer(function, &Err("the function was deleted".to_owned()), out);
    }

    /// Forgets the functions that are not known.
    pub fn keep_known(&mut self, is_known: impl Fn(&FunctionName) -> bool, out: &mut Vec<Order>) {
        let gone: Vec<_> = self.of.keys().filter(|name| !is_known(name)).cloned().collect();
        gone.iter().for_each(|name| self.remove(name, out));
    }

    /// Returns the functions whose releases have changed since the last call, each with its releases as JSON.
    pub fn take_changed(&mut self) -> Vec<(FunctionName, Option<String>)> {
        #[cfg(feature = "simulate")]
        if crate::mutants::Mutant::ReleaseStoredLate.is_on() && self.changed.len() < 2 {
            return Vec::new();
        }
        let changed = std::mem::take(&mut self.changed);
        for name in &changed {
            *self.writes.entry(name.clone()).or_default() += 1;
        }
        let of = |name: FunctionName| {
            let releases = self.of.get(&name);
            // Releases consist of texts and numbers, so this cannot fail.
            let json = releases.and_then(|releases| serde_json::to_string(releases).ok());
            (name, json)
        };
        changed.into_iter().map(of).collect()
    }

    /// Notes that a write of the releases of a function is over: the ledger has stored them, or given them up.
    pub fn stored(&mut self, function: &FunctionName) {
        if let Some(writes) = self.writes.get_mut(function) {
            *writes = writes.saturating_sub(1);
            if *writes == 0 {
                self.writes.remove(function);
            }
        }
    }

    /// Returns whether the ledger has the releases of a function as they are. If not, the next fnd may find earlier ones.
    #[must_use]
    pub fn is_stored(&self, function: &FunctionName) -> bool {
        !self.changed.contains(function) && !self.writes.contains_key(function)
    }

    /// Returns when the next canary of the known functions is promoted, Unix milliseconds. Canaries of other functions wait:
    /// after a start, fnd knows a function once its file is installed.
    #[must_use]
    pub fn next_promotion_ms(&self, is_known: impl Fn(&FunctionName) -> bool) -> Option<u64> {
        let known = self.promotions.iter().filter(|(function, _)| is_known(function));
        known.map(|(_, at_ms)| *at_ms).min()
    }

    /// Returns the known functions whose canary is to be promoted now.
    #[must_use]
    pub fn promotions_due(&self, now_ms: u64, is_known: impl Fn(&FunctionName) -> bool) -> Vec<FunctionName> {
        let due = self.promotions.iter().filter(|(_, at_ms)| **at_ms <= now_ms);
        let known = due.filter(|(function, _)| is_known(function));
        known.map(|(function, _)| function.clone()).collect()
    }

    /// Stores a caller, who is answered when the awaited event happens, or no longer can.
    pub fn wait(&mut self, function: &FunctionName, awaited: AwaitedRelease, caller: CallerNumber) {
        let waiting = self.waiting.entry(function.clone()).or_default();
        waiting.push((awaited, caller));
    }

    /// Forgets the callers who have left.
    pub fn forget_callers(&mut self, has_left: impl Fn(CallerNumber) -> bool) {
        for waiting in self.waiting.values_mut() {
            waiting.retain(|(_, caller)| !has_left(*caller));
        }
        self.waiting.retain(|_, waiting| !waiting.is_empty());
    }

    /// Answers the callers who wait for a release of a function.
    pub fn answer(&mut self, function: &FunctionName, outcome: &InstallResult, out: &mut Vec<Order>) {
        let waiting = self.waiting.remove(function).into_iter().flatten();
        out.extend(waiting.map(|(_, caller)| Order::Answer(caller, outcome.clone())));
    }

    /// Answers the callers whose release can no longer come, because somebody has chosen another release or the file has changed.
    pub fn answer_unwanted(&mut self, out: &mut Vec<Order>) {
        for (function, waiting) in &mut self.waiting {
            let releases = self.of.get(function);
            let is_wanted = |awaited: AwaitedRelease| releases.is_some_and(|releases| awaited.is_wanted(releases));
            for (_, caller) in waiting.extract_if(.., |(awaited, _)| !is_wanted(*awaited)) {
                let why = "the function's file has changed, or somebody has chosen another release, before it served";
                out.push(Order::Answer(caller, Err(why.to_owned())));
            }
        }
        self.waiting.retain(|_, waiting| !waiting.is_empty());
    }
}

/// Returns the words of `status` for a function with a canary or a held release.
#[must_use]
pub fn held_words(function: &FunctionName, releases: &Releases) -> Option<String> {
    if let Some(canary) = releases.canary() {
        return Some(canary_words(canary));
    }
    let hold = releases.hold()?;
    let name = short(hold.version);
    Some(match hold.kind {
        HoldKind::Rollback => format!("rolled back to release {name}, until its file changes"),
        HoldKind::Pin => match releases.waiting() {
            Some(waiting) => {
                let waiting = short(waiting);
                format!(
                    "pinned to release {name}, and release {waiting} waits: `fndctl unpin {function}` lets it serve"
                )
            }
            None => format!("pinned to release {name}, until `fndctl unpin {function}`"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight functions, the last name first.
    fn names() -> Vec<FunctionName> {
        let names = ('a'..='h').rev().map(|letter| FunctionName::new(&letter.to_string()));
        names.collect::<Result<_, _>>().unwrap()
    }

    /// Returns releases of these functions with one caller each; the caller of `a` has the number 0.
    fn all_with_callers() -> AllReleases {
        let mut all = AllReleases::default();
        for (number, name) in (0..8).rev().zip(names()) {
            all.change(&name, |_| ());
            all.promotions.insert(name.clone(), 5);
            all.wait(&name, AwaitedRelease::Held, number);
        }
        all
    }

    fn answered(orders: &[Order]) -> Vec<CallerNumber> {
        let caller = |order: &Order| match order {
            Order::Answer(caller, _) => Some(*caller),
            _ => None,
        };
        orders.iter().filter_map(caller).collect()
    }

    #[test]
    fn releases_are_stored_once_their_last_write_is_over() {
        let (mut all, function) = (AllReleases::default(), FunctionName::new("f").unwrap());
        assert!(all.is_stored(&function), "there is nothing to store");
        for _ in 0..2 {
            all.store_again(&function);
            assert!(!all.is_stored(&function), "the write has not left");
            assert_eq!(all.take_changed().len(), 1);
        }
        for is_stored in [false, true] {
            assert!(!all.is_stored(&function));
            all.stored(&function);
            assert_eq!(all.is_stored(&function), is_stored);
        }
    }

    #[test]
    fn functions_have_their_turn_in_the_order_of_their_names() {
        let mut sorted = names();
        sorted.sort();
        let in_order: Vec<_> = (0..8).collect();
        let mut all = all_with_callers();
        assert_eq!(all.promotions_due(5, |_| true), sorted);
        let mut orders = Vec::new();
        all.answer_unwanted(&mut orders);
        assert_eq!(answered(&orders), in_order);
        let mut orders = Vec::new();
        all_with_callers().keep_known(|_| false, &mut orders);
        assert_eq!(answered(&orders), in_order);
    }
}
