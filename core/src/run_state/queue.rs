//! The queue of one function: every accepted invocation that has not ended, in the books that say what it waits for.
//!
//! The stage of an invocation decides in which books it is. [`QueueBooks::change`] changes the stage and the books together,
//! and no other file changes the books.
//!
//! | stage | books, besides `live` |
//! |---|---|
//! | Storing | `storing`; if it was ended meanwhile, `ended` and not `live` |
//! | Ready | `unclaimed` if it is durable, else `ready`; `held_back` instead, if its lane has no place for it |
//! | Claiming | `claiming`, and `held` if it holds a place in the node's budget |
//! | Claimed | `claimed` and `ready`; `held_back` instead of `ready`, if its lane has no place for it |
//! | `BackingOff` | `backing_off` |
//! | Delayed, Running, Lost | none |
//!
//! Invocations with one value of a key are in a *lane*, all but delayed ones, which come into it when their time comes. In a
//! lane come first those that have begun or are claimed (also while they wait for a retry or a poll: otherwise a later one would
//! overtake an earlier one that is not done), then those that wait, each in the order of acceptance. As many of the first as the
//! lane is wide may begin. So the books depend on the stages alone, also after a restart, and where a release changes the key.
//!
//! The queue does not decide when a stage changes. It has no clock and arms no timer.

use super::invocation::{Invocation, InvocationStage, QueueOrder};
use crate::idempotency::IdempotencyKey;
use fnd_wire::ids::InvocationId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// State of the invocation at the head of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// The invocation may begin.
    Ready,
    /// The invocation must be claimed first.
    Unclaimed,
}

/// The queue of one function. Its books are allocated when the first invocation comes: of ten thousand functions, most do not
/// run for a long time.
#[derive(Debug, Default)]
pub(crate) struct Queue(Option<Box<QueueBooks>>);

impl Deref for Queue {
    type Target = QueueBooks;

    fn deref(&self) -> &QueueBooks {
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for Queue {
    fn deref_mut(&mut self) -> &mut QueueBooks {
        self.0.get_or_insert_default()
    }
}

impl PartialEq for Queue {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// The books of a function that has had no invocation.
static EMPTY: QueueBooks = QueueBooks {
    live: BTreeSet::new(),
    keys: BTreeMap::new(),
    lanes: BTreeMap::new(),
    in_lanes: BTreeMap::new(),
    held_back: BTreeSet::new(),
    per_key: 1,
    storing: 0,
    ended: 0,
    backing_off: BTreeSet::new(),
    unclaimed: BTreeMap::new(),
    claiming: 0,
    held: 0,
    claimed: 0,
    ready: BTreeMap::new(),
};

/// The invocations of a function with one value of a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// Of `key` of `[[event]]`.
    Event(Arc<str>),
    /// Of `[queue] key`.
    Queue(Arc<str>),
}

/// The place in a lane: whether it waits, and its number.
type LanePlace = (bool, u64);

/// An invocation in lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InLanes {
    lanes: Vec<Lane>,
    at: LanePlace,
    /// Where it is in the queue and whether it must be claimed, if nothing but its lanes holds it back.
    begins: Option<(QueueOrder, bool)>,
}

/// The books of one function.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueBooks {
    /// Invocations that are accepted and not ended.
    live: BTreeSet<InvocationId>,
    /// The identities of their idempotency keys.
    keys: BTreeMap<Arc<str>, InvocationId>,
    /// Those with a key, by value.
    lanes: BTreeMap<Lane, BTreeMap<LanePlace, InvocationId>>,
    in_lanes: BTreeMap<InvocationId, InLanes>,
    /// Those that only their lanes keep from beginning.
    held_back: BTreeSet<InvocationId>,
    /// The width of the lanes of `[queue] key`.
    per_key: usize,
    /// Number of invocations that are being stored and then run.
    storing: usize,
    /// Number of invocations that are being stored and were ended meanwhile.
    ended: usize,
    /// Invocations that wait for a retry or a poll, with the due time in Unix milliseconds.
    backing_off: BTreeSet<(u64, InvocationId)>,
    /// Durable invocations that wait to be claimed.
    unclaimed: BTreeMap<QueueOrder, InvocationId>,
    /// Number of claims that are being stored.
    claiming: usize,
    /// Number of those claims that hold a place in the budget.
    held: usize,
    /// Number of invocations that are claimed and have not begun.
    claimed: usize,
    /// Invocations that may begin; durable ones are here once they are claimed.
    ready: BTreeMap<QueueOrder, InvocationId>,
}

impl Default for QueueBooks {
    fn default() -> Self {
        Self::of_width(1)
    }
}

impl Queue {
    /// Returns an empty queue with the same width of lanes.
    pub(crate) fn emptied(&self) -> Self {
        match self.per_key {
            1 => Self::default(),
            width => Self(Some(Box::new(QueueBooks::of_width(width)))),
        }
    }
}

impl QueueBooks {
    fn of_width(per_key: usize) -> Self {
        Self {
            live: BTreeSet::new(),
            keys: BTreeMap::new(),
            lanes: BTreeMap::new(),
            in_lanes: BTreeMap::new(),
            held_back: BTreeSet::new(),
            per_key,
            storing: 0,
            ended: 0,
            backing_off: BTreeSet::new(),
            unclaimed: BTreeMap::new(),
            claiming: 0,
            held: 0,
            claimed: 0,
            ready: BTreeMap::new(),
        }
    }

    /// Adds an invocation in its stage.
    pub(crate) fn add(&mut self, invocation: &Invocation) {
        self.live.insert(invocation.id);
        if let Some(key) = &invocation.key {
            self.keys.insert(key.identity().into(), invocation.id);
        }
        self.enter(invocation);
    }

    /// Moves an invocation to another stage. Its place must not change before that.
    pub(crate) fn change(&mut self, invocation: &mut Invocation, to: InvocationStage) {
        self.leave(invocation);
        invocation.stage = to;
        self.enter(invocation);
    }

    /// Sets whether an invocation outlives this fnd: a durable one must be claimed.
    pub(crate) fn set_durable(&mut self, invocation: &mut Invocation, durable: bool) {
        self.leave(invocation);
        invocation.durable = durable;
        self.enter(invocation);
    }

    /// Removes an invocation that ends.
    pub(crate) fn remove(&mut self, invocation: &Invocation) {
        self.leave(invocation);
        if let Some(key) = &invocation.key {
            self.keys.remove(key.identity());
        }
        // `leave` puts one that was ended while it was stored back into `live`, so this comes after it.
        self.live.remove(&invocation.id);
    }

    /// Sets the value of an invocation's key.
    pub(crate) fn set_key(&mut self, invocation: &mut Invocation, key: Option<Arc<str>>) {
        self.leave(invocation);
        invocation.queue_key = key;
        self.enter(invocation);
    }

    pub(crate) fn per_key(&self) -> usize {
        self.per_key
    }

    /// Sets how many invocations of one value of `[queue] key` may run. No invocation is in such a lane.
    pub(crate) fn set_per_key(&mut self, per_key: usize) {
        self.per_key = per_key;
    }

    fn width(&self, lane: &Lane) -> usize {
        match lane {
            Lane::Event(_) => 1,
            Lane::Queue(_) => self.per_key,
        }
    }

    /// Puts an invocation into its lanes.
    fn enter_lanes(&mut self, invocation: &Invocation, begins: Option<(QueueOrder, bool)>) {
        let lanes = lanes_of(invocation);
        let waits = matches!(
            invocation.stage,
            InvocationStage::Storing { .. } | InvocationStage::Ready
        );
        let at = (waits && invocation.attempts == 0, invocation.number);
        for lane in &lanes {
            self.lanes.entry(lane.clone()).or_default().insert(at, invocation.id);
        }
        let own = InLanes { lanes, at, begins };
        self.in_lanes.insert(invocation.id, own.clone());
        self.settle(invocation.id);
        // The one behind the last that may begin may have lost its place.
        for lane in &own.lanes {
            self.settle_nth(lane, self.width(lane));
        }
    }

    /// Takes an invocation out of its lanes, so that others may begin.
    fn leave_lanes(&mut self, id: InvocationId) {
        self.held_back.remove(&id);
        let Some(own) = self.in_lanes.remove(&id) else { return };
        for lane in &own.lanes {
            let Some(others) = self.lanes.get_mut(lane) else {
                continue;
            };
            others.remove(&own.at);
            if others.is_empty() {
                self.lanes.remove(lane);
            }
            self.settle_nth(lane, self.width(lane).saturating_sub(1));
        }
    }

    fn settle_nth(&mut self, lane: &Lane, n: usize) {
        let nth = self.lanes.get(lane).and_then(|lane| lane.values().nth(n));
        if let Some(id) = nth.copied() {
            self.settle(id);
        }
    }

    /// Lets an invocation begin if each of its lanes has a place for it, and holds it back otherwise.
    fn settle(&mut self, id: InvocationId) {
        let Some(own) = self.in_lanes.get(&id) else { return };
        let Some((place, claims)) = own.begins else { return };
        let has_place = |lane: &Lane| {
            let first = self.lanes.get(lane).into_iter().flat_map(BTreeMap::keys);
            first.take(self.width(lane)).any(|at| *at == own.at)
        };
        if own.lanes.iter().all(has_place) {
            self.held_back.remove(&id);
            self.let_begin(id, place, claims);
        } else if self.held_back.insert(id) {
            let book = if claims { &mut self.unclaimed } else { &mut self.ready };
            book.remove(&place);
        }
    }

    /// Returns the invocations with a value of `[queue] key`, in the order of their lane; and whether one more would find a
    /// place there.
    pub(crate) fn with_queue_key(&self, value: &Arc<str>) -> (Vec<InvocationId>, bool) {
        let lane = self.lanes.get(&Lane::Queue(Arc::clone(value)));
        let ids: Vec<_> = lane.into_iter().flat_map(BTreeMap::values).copied().collect();
        let has_place = ids.len() < self.per_key;
        (ids, has_place)
    }

    /// Returns the invocations that only their lanes keep from beginning.
    pub(crate) fn held_back(&self) -> &BTreeSet<InvocationId> {
        &self.held_back
    }

    fn let_begin(&mut self, id: InvocationId, place: QueueOrder, durable: bool) {
        let book = if durable { &mut self.unclaimed } else { &mut self.ready };
        book.insert(place, id);
    }

    fn enter(&mut self, invocation: &Invocation) {
        let (id, place) = (invocation.id, invocation.place());
        let begins = match invocation.stage {
            InvocationStage::Ready => Some((place, invocation.durable)),
            InvocationStage::Claimed => Some((place, false)),
            _ => None,
        };
        match invocation.stage {
            InvocationStage::Storing { end: None, .. } => self.storing += 1,
            InvocationStage::Storing { end: Some(_), .. } => {
                self.ended += 1;
                // It frees its place at once, although its end is recorded only after its acceptance.
                self.live.remove(&id);
            }
            InvocationStage::Claiming { holds, .. } => {
                self.claiming += 1;
                self.held += usize::from(holds);
            }
            InvocationStage::Claimed => self.claimed += 1,
            InvocationStage::BackingOff { unix_ms, .. } => {
                self.backing_off.insert((unix_ms, id));
            }
            InvocationStage::Ready
            | InvocationStage::Delayed { .. }
            | InvocationStage::Running { .. }
            | InvocationStage::Lost => {}
        }
        let has_lanes = invocation.order_key.is_some() || invocation.queue_key.is_some();
        if has_lanes && !matches!(invocation.stage, InvocationStage::Delayed { .. }) {
            self.enter_lanes(invocation, begins);
        } else if let Some((place, claims)) = begins {
            self.let_begin(id, place, claims);
        }
    }

    fn leave(&mut self, invocation: &Invocation) {
        let (id, place) = (invocation.id, invocation.place());
        match invocation.stage {
            InvocationStage::Storing { end: None, .. } => self.storing = self.storing.saturating_sub(1),
            InvocationStage::Storing { end: Some(_), .. } => {
                self.ended = self.ended.saturating_sub(1);
                self.live.insert(id);
            }
            // Where it is held back, or `take_unclaimed` or `take_ready` has removed it already, it is in neither book.
            InvocationStage::Ready if invocation.durable => {
                self.unclaimed.remove(&place);
            }
            InvocationStage::Ready => {
                self.ready.remove(&place);
            }
            InvocationStage::Claiming { holds, .. } => {
                self.claiming = self.claiming.saturating_sub(1);
                self.held = self.held.saturating_sub(usize::from(holds));
            }
            InvocationStage::Claimed => {
                self.claimed = self.claimed.saturating_sub(1);
                self.ready.remove(&place);
            }
            InvocationStage::BackingOff { unix_ms, .. } => {
                self.backing_off.remove(&(unix_ms, id));
            }
            InvocationStage::Delayed { .. } | InvocationStage::Running { .. } | InvocationStage::Lost => {}
        }
        if !self.in_lanes.is_empty() {
            self.leave_lanes(id);
        }
    }

    /// Returns the first invocation that may begin.
    pub(crate) fn first_ready(&self) -> Option<InvocationId> {
        self.ready.first_key_value().map(|(_, id)| *id)
    }

    /// Removes the first invocation that may begin. It begins, or ends, next.
    pub(crate) fn take_ready(&mut self) -> Option<InvocationId> {
        self.ready.pop_first().map(|(_, id)| id)
    }

    /// Removes the first invocation that must be claimed. Its claim, or its end, follows.
    pub(crate) fn take_unclaimed(&mut self) -> Option<InvocationId> {
        self.unclaimed.pop_first().map(|(_, id)| id)
    }

    /// Removes the first of all waiting invocations, claimed or not; used for one that will not run.
    pub(crate) fn take_first(&mut self) -> Option<InvocationId> {
        match self.first(true)? {
            First::Ready => self.take_ready(),
            First::Unclaimed => self.take_unclaimed(),
        }
    }

    /// Returns the state of the first of all waiting invocations. Unclaimed ones count only if `may_claim` is set.
    pub(crate) fn first(&self, may_claim: bool) -> Option<First> {
        let ready = self.ready.first_key_value().map(|(place, _)| place);
        let unclaimed = self.unclaimed.first_key_value().map(|(place, _)| place);
        // Both books have the same order, so the smaller place comes first.
        match (ready, unclaimed.filter(|_| may_claim)) {
            (None, None) => None,
            (Some(ready), Some(unclaimed)) if unclaimed < ready => Some(First::Unclaimed),
            (Some(_), _) => Some(First::Ready),
            (None, Some(_)) => Some(First::Unclaimed),
        }
    }

    /// Returns how many invocations wait to be claimed, are being claimed, may begin, or wait for another one of their
    /// key.
    pub(crate) fn waiting(&self) -> usize {
        self.ready.len() + self.unclaimed.len() + self.claiming + self.held_back.len()
    }

    /// Returns how many of those could have a worker: all but those that wait for another one of their key.
    pub(crate) fn startable(&self) -> usize {
        self.waiting() - self.held_back.len()
    }

    /// Returns the invocations that may begin, then those that must be claimed first, then those that wait for another
    /// one of their key, each in order.
    pub(crate) fn ready_and_unclaimed(&self) -> impl Iterator<Item = InvocationId> {
        let held_back = &self.held_back;
        self.ready
            .values()
            .chain(self.unclaimed.values())
            .chain(held_back)
            .copied()
    }

    /// Says whether an invocation must be claimed.
    pub(crate) fn has_unclaimed(&self) -> bool {
        !self.unclaimed.is_empty()
    }

    /// Returns how many claims are being stored.
    pub(crate) fn claiming(&self) -> usize {
        self.claiming
    }

    /// Returns how many invocations are claimed, or are being claimed, and have not begun.
    pub(crate) fn claimed_ahead(&self) -> usize {
        self.claimed + self.claiming
    }

    /// Returns how many claims that are being stored hold a place in the budget.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns how many invocations are being stored and then run.
    pub(crate) fn storing(&self) -> usize {
        self.storing
    }

    /// Says whether the ledger is storing an invocation, even one that was ended meanwhile.
    pub(crate) fn is_storing(&self) -> bool {
        self.storing + self.ended > 0
    }

    /// Returns the invocations that are accepted and not ended, oldest first.
    pub(crate) fn live(&self) -> &BTreeSet<InvocationId> {
        &self.live
    }

    /// Returns the invocations that wait for a retry or a poll, with the due time in Unix milliseconds, by that time.
    pub(crate) fn backing_off(&self) -> &BTreeSet<(u64, InvocationId)> {
        &self.backing_off
    }

    /// Returns the live invocation of an idempotency key, whatever its content.
    pub(crate) fn with_key(&self, key: &IdempotencyKey) -> Option<InvocationId> {
        self.keys.get(key.identity()).copied()
    }
}

fn lanes_of(invocation: &Invocation) -> Vec<Lane> {
    let event = invocation.order_key.clone().map(Lane::Event);
    let queue = invocation.queue_key.clone().map(Lane::Queue);
    event.into_iter().chain(queue).collect()
}
