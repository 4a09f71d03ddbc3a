//! Plans the rounds that forget: one for each function, or one for several functions together.

use super::Sweeper;
use super::forget::{KeepBounds, Round, Scope};
use super::jobs::SweepJob;
use fnd_wire::ids::FunctionName;

/// If functions are checked together: most invocations that are checked for each one that is forgotten. Checking one
/// costs about a twentieth of forgetting one that has no neighbour.
const WORTH: u64 = 16;

/// A function that may be checked together with others.
#[derive(Debug)]
pub(super) struct GatheredRounds {
    function: FunctionName,
    bounds: KeepBounds,
    /// The check begins after this invocation.
    from: u128,
    /// How many invocations of this function have ended, and how many of all functions in the same time.
    count: u64,
    among: u64,
}

impl Sweeper {
    /// Returns the round that forgets the function's records by these bounds, without those that an earlier round has
    /// checked. Returns nothing if there are none, or if the function is checked together with others.
    pub(super) fn round_of(&mut self, function: FunctionName, bounds: KeepBounds) -> Option<Round> {
        let since = self.now_at.take();
        let passed = self.passed.get(&function).copied();
        // `keep_failed` kept older failed invocations beyond the others, and some of them exceed it now. They can be
        // anywhere in the history.
        let has_older = self.retention.of(&function).keep_failed > 0 && bounds.failed > 0;
        let (Some(since), Some(passed), false) = (since, passed, has_older) else {
            return Some(Round::new(Scope::Of(function), bounds));
        };
        if since.first <= passed {
            // An invocation ended after a round had passed it.
            let mut round = Round::new(Scope::Of(function), bounds);
            round.at = since.first.saturating_sub(1);
            round.until = if bounds.end() > passed { u128::MAX } else { since.last };
            return Some(round);
        }
        if bounds.end() > passed {
            self.gathered.push(GatheredRounds {
                function,
                bounds,
                from: passed,
                count: u64::from(since.count),
                among: self.total.saturating_sub(since.all),
            });
        }
        None
    }

    /// Plans one round over the whole history for several functions, if enough of the invocations there belong to them;
    /// the other functions get a round each.
    pub(super) fn go_together(&mut self) {
        let mut all = std::mem::take(&mut self.gathered);
        all.sort_by_key(|one| one.among);
        let (mut count, mut together) = (0, 0);
        for (number, one) in all.iter().enumerate() {
            count += one.count;
            if one.among <= count.saturating_mul(WORTH) {
                together = number + 1;
            }
        }
        // One function alone is checked along its own index, without a look at the records of others.
        if together < 2 {
            together = 0;
        }
        let rest = all.split_off(together);
        if let Some(from) = all.iter().map(|one| one.from).min() {
            let bounds = all.into_iter().map(|one| (one.function, one.bounds));
            let mut round = Round::each(bounds.collect());
            round.at = from;
            self.jobs.push_back(SweepJob::Going(round));
        }
        for one in rest {
            let mut round = Round::new(Scope::Of(one.function), one.bounds);
            round.at = one.from;
            self.jobs.push_back(SweepJob::Going(round));
        }
    }

    /// Notes up to which invocation a round has checked. The last run of a function that only was kept because it is the
    /// last one is checked again when there is a newer one.
    pub(super) fn has_passed(&mut self, round: Round) {
        let end = round.bounds.end();
        match round.scope {
            Scope::All => {}
            Scope::Of(function) => {
                let passed = self.passed.entry(function).or_insert(end);
                *passed = end.max(*passed);
            }
            Scope::Each(all) => {
                let all = all.into_iter().map(|(function, bounds)| (function, bounds.end()));
                self.passed.extend(all);
            }
        }
        for (function, id) in round.kept {
            if let Some(passed) = self.passed.get_mut(&function) {
                *passed = (*passed).min(id.saturating_sub(1));
            }
            self.overdue.insert(function);
        }
    }
}
