//! The list of the faults that are still to come, and the state of the faults that last for a while. The module `fault_effects`
//! carries them out.

use super::facts::Death;
use super::faults::Fault;
use super::plan::WorldPlan;
use std::collections::VecDeque;
use std::time::Duration;

/// The faults that are to come, and those that last.
pub(super) struct Outages {
    pub(super) faults: VecDeque<(Duration, Fault)>,
    /// Until when the disk is full.
    pub(super) full_until: Option<Duration>,
    /// The sum of all steps of the wall clock, and the greatest sum until now: work may wait for a time that the clock showed then.
    pub(super) stepped_ms: i64,
    pub(super) furthest_ms: i64,
    /// Whether the faults of this world have stopped.
    pub(super) are_over: bool,
    /// How fnd dies when its fuse has burnt.
    pub(super) death: Option<Death>,
}

impl Outages {
    pub(super) fn new(plan: &WorldPlan) -> Self {
        let faults = plan.faults.iter();
        Self {
            faults: faults
                .map(|(at_ms, fault)| (Duration::from_millis(*at_ms), *fault))
                .collect(),
            full_until: None,
            stepped_ms: 0,
            furthest_ms: 0,
            are_over: false,
            death: None,
        }
    }

    /// Returns when the next fault happens or ends, since the begin of the simulation.
    pub(super) fn wakes_at(&self) -> Option<Duration> {
        let next = self.faults.front().map(|(at, _)| *at);
        next.into_iter().chain(self.full_until).min()
    }
}
