//! The lanes of a function's queue: the invocations with one value of a key, in their order.
//!
//! In a lane come first the invocations that have begun, also while they wait for a retry or a poll: otherwise a later one would
//! overtake an earlier one that is not done. Then come those that are claimed, then those that wait, each in the order of
//! acceptance. As many of the first as the lane is wide may begin. So a lane depends on the stages alone, also after a restart,
//! and where a release changes the key.

use super::invocation::{Invocation, InvocationStage, QueueOrder};
use fnd_wire::ids::InvocationId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The invocations of a function with one value of a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// Of `key` of `[[event]]`.
    Event(Arc<str>),
    /// Of `[queue] key`.
    Queue(Arc<str>),
}

/// How far an invocation of a lane has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Begun,
    Claimed,
    Waits,
}

/// The place in a lane: how far the invocation has come, and its number.
type LanePlace = (Progress, u64);

/// An invocation in lanes.
#[derive(Debug, PartialEq, Eq)]
struct InLanes {
    lanes: Vec<Lane>,
    at: LanePlace,
    begins: Option<Begins>,
}

/// An invocation that only its lanes keep from beginning: its place in the queue, and whether it must be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begins {
    pub(super) place: QueueOrder,
    pub(super) claims: bool,
}

/// All lanes of one function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lanes {
    lanes: BTreeMap<Lane, BTreeMap<LanePlace, InvocationId>>,
    members: BTreeMap<InvocationId, InLanes>,
    /// The width of the lanes of `[queue] key`.
    pub(super) per_key: usize,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            lanes: BTreeMap::new(),
            members: BTreeMap::new(),
            per_key: 1,
        }
    }
}

impl Lanes {
    fn width(&self, lane: &Lane) -> usize {
        match lane {
            Lane::Event(_) => 1,
            Lane::Queue(_) => self.per_key,
        }
    }

    /// Says whether an invocation is in lanes in its stage.
    pub(super) fn has(invocation: &Invocation) -> bool {
        let has_key = invocation.order_key.is_some() || invocation.queue_key.is_some();
        // A delayed invocation has no place before its time, also while it is being stored. If something ends an invocation
        // while it is being stored, it has no place any more.
        let has_no_place = matches!(
            invocation.stage,
            InvocationStage::Delayed { .. }
                | InvocationStage::Storing {
                    not_before: Some(_),
                    ..
                }
                | InvocationStage::Storing { end: Some(_), .. }
        );
        has_key && !has_no_place
    }

    /// Puts an invocation into its lanes. Returns those that may have got or lost a place by that.
    pub(super) fn enter(&mut self, invocation: &Invocation, begins: Option<Begins>) -> Vec<InvocationId> {
        let event = invocation.order_key.clone().map(Lane::Event);
        let queue = invocation.queue_key.clone().map(Lane::Queue);
        let lanes: Vec<Lane> = event.into_iter().chain(queue).collect();
        let progress = match invocation.stage {
            _ if invocation.attempts > 0 => Progress::Begun,
            InvocationStage::Running { .. } | InvocationStage::Lost => Progress::Begun,
            // A new release may bring the key when invocations are claimed already. They must not begin beside one that runs.
            InvocationStage::Claiming { .. } | InvocationStage::Claimed | InvocationStage::BackingOff { .. } => {
                Progress::Claimed
            }
            InvocationStage::Storing { .. } | InvocationStage::Ready | InvocationStage::Delayed { .. } => {
                Progress::Waits
            }
        };
        let at = (progress, invocation.number);
        let mut changed = vec![invocation.id];
        for lane in &lanes {
            self.lanes.entry(lane.clone()).or_default().insert(at, invocation.id);
            // The one behind the last that may begin may have lost its place.
            changed.extend(self.nth(lane, self.width(lane)));
        }
        self.members.insert(invocation.id, InLanes { lanes, at, begins });
        changed
    }

    /// Takes an invocation out of its lanes. Returns those that may have got a place by that.
    pub(super) fn leave(&mut self, id: InvocationId) -> Vec<InvocationId> {
        let Some(own) = self.members.remove(&id) else {
            return Vec::new();
        };
        let mut changed = Vec::new();
        for lane in &own.lanes {
            let Some(others) = self.lanes.get_mut(lane) else {
                continue;
            };
            others.remove(&own.at);
            if others.is_empty() {
                self.lanes.remove(lane);
            }
            changed.extend(self.nth(lane, self.width(lane).saturating_sub(1)));
        }
        changed
    }

    fn nth(&self, lane: &Lane, n: usize) -> Option<InvocationId> {
        self.lanes.get(lane)?.values().nth(n).copied()
    }

    /// Returns what an invocation needs to begin, and whether each of its lanes has a place for it; absent if it could not begin
    /// anyway.
    pub(super) fn place(&self, id: InvocationId) -> Option<(Begins, bool)> {
        let own = self.members.get(&id)?;
        let has_place = |lane: &Lane| {
            let first = self.lanes.get(lane).into_iter().flat_map(BTreeMap::keys);
            first.take(self.width(lane)).any(|at| *at == own.at)
        };
        Some((own.begins?, own.lanes.iter().all(has_place)))
    }

    /// Returns the invocations with a value of `[queue] key`, in the order of their lane.
    pub(super) fn with_queue_key(&self, value: &Arc<str>) -> impl Iterator<Item = InvocationId> {
        let lane = self.lanes.get(&Lane::Queue(Arc::clone(value)));
        lane.into_iter().flat_map(BTreeMap::values).copied()
    }
}
