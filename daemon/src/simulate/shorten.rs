//! Makes a history that breaks a promise shorter: fewer faults, fewer acts, fewer steps. The seed stays, so that the world
//! draws the same numbers. The events may change all the same, so a shorter plan counts only if it breaks the same promise.

use super::WorldOutcome;
use super::plan::WorldPlan;
use super::seeds::attempt;
use crate::clock;
use std::time::{Duration, Instant};

/// Most attempts, and the longest time, that are spent on one seed.
const ATTEMPTS_MAX: u32 = 300;
const LASTS_MAX: Duration = Duration::from_secs(20);

/// Returns the shortest plan that was found, and its result. `broken` is the promise that the plan breaks.
pub(super) fn shorten(plan: &WorldPlan, broken: &str) -> (WorldPlan, WorldOutcome) {
    let mut search = PlanSearch {
        kind: kind(broken).to_owned(),
        until: clock::monotonic() + LASTS_MAX,
        attempts: 0,
    };
    let mut plan = plan.clone();
    search.fewer(&mut plan, |plan| &mut plan.faults);
    search.fewer(&mut plan, |plan| &mut plan.acts);
    search.sooner(&mut plan);
    // Without some acts, more faults may be of no use.
    search.fewer(&mut plan, |plan| &mut plan.faults);
    let outcome = attempt(&plan, true);
    (plan, outcome)
}

struct PlanSearch {
    /// The kind of the broken promise. A shorter plan has to break the same one.
    kind: String,
    until: Instant,
    attempts: u32,
}

impl PlanSearch {
    /// Removes as many parts of a list as possible: first halves of it, then smaller pieces, at last single parts.
    fn fewer<T: Clone>(&mut self, plan: &mut WorldPlan, list: impl Fn(&mut WorldPlan) -> &mut Vec<T>) {
        let mut size = list(plan).len();
        while size > 0 {
            let mut begin = 0;
            while begin < list(plan).len() {
                let mut shorter = plan.clone();
                let parts = list(&mut shorter);
                let end = (begin + size).min(parts.len());
                parts.drain(begin..end);
                if self.breaks(&shorter) {
                    *plan = shorter;
                } else {
                    begin += size;
                }
            }
            size /= 2;
        }
    }

    /// Halves the number of steps as long as that is possible.
    fn sooner(&mut self, plan: &mut WorldPlan) {
        let mut shorter = plan.clone();
        while shorter.steps > 1 {
            shorter.steps /= 2;
            if !self.breaks(&shorter) {
                return;
            }
            plan.clone_from(&shorter);
        }
    }

    /// Returns whether a plan breaks the same promise. Once the search has taken long enough, none does.
    fn breaks(&mut self, plan: &WorldPlan) -> bool {
        self.attempts += 1;
        if self.attempts > ATTEMPTS_MAX || clock::monotonic() > self.until {
            return false;
        }
        let broken = attempt(plan, false).broken;
        broken.is_some_and(|broken| kind(&broken) == self.kind)
    }
}

/// Returns the kind of a broken promise: the number of its oracle, or the place of the panic.
fn kind(broken: &str) -> &str {
    // `O1: ...`, and `panicked at FILE:LINE:COLUMN: ...`.
    broken.split(": ").next().unwrap_or(broken)
}
