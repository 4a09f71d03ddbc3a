//! The queue of one function: every accepted invocation that has not ended, in the books that say what it waits for.
//!
//! The stage of an invocation decides in which books it is. [`QueueBooks::change`] changes the stage and the books together,
//! and no other file changes the books.
//!
//! | stage | books, besides `live` |
//! |---|---|
//! | Storing | `storing`; if it was ended meanwhile, `ended` and not `live` |
//! | Ready | `held_back` if an earlier one with the same order key is live, else `unclaimed` if it is durable, else `ready` |
//! | Claiming | `claiming`, and `held` if it holds a place in the node's budget |
//! | Claimed | `claimed` and `ready` |
//! | `BackingOff` | `backing_off` |
//! | Delayed, Running, Lost | none |
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
    held_back: BTreeMap::new(),
    storing: 0,
    ended: 0,
    backing_off: BTreeSet::new(),
    unclaimed: BTreeMap::new(),
    claiming: 0,
    held: 0,
    claimed: 0,
    ready: BTreeMap::new(),
};

/// The books of one function.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueBooks {
    /// Invocations that are accepted and not ended.
    live: BTreeSet<InvocationId>,
    /// The identities of their idempotency keys.
    keys: BTreeMap<Arc<str>, InvocationId>,
    /// Those with an order key, by key, in the order of acceptance. Only the first of each may begin.
    lanes: BTreeMap<Arc<str>, BTreeMap<u64, InvocationId>>,
    /// Ready ones that are not the first of their lane: their place, and whether they must be claimed.
    held_back: BTreeMap<InvocationId, (QueueOrder, bool)>,
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

impl QueueBooks {
    /// Adds an invocation in its stage.
    pub(crate) fn add(&mut self, invocation: &Invocation) {
        self.live.insert(invocation.id);
        if let Some(key) = &invocation.key {
            self.keys.insert(key.identity().into(), invocation.id);
        }
        if let Some(key) = &invocation.order_key {
            let lane = self.lanes.entry(Arc::clone(key)).or_default();
            lane.insert(invocation.number, invocation.id);
        }
        // `enter` asks whether the invocation is the first of its lane, so it comes after the lane.
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
        self.leave_lane(invocation);
    }

    /// Lets the next invocation of a lane begin.
    fn leave_lane(&mut self, invocation: &Invocation) {
        let Some(key) = &invocation.order_key else { return };
        let Some(lane) = self.lanes.get_mut(key) else { return };
        lane.remove(&invocation.number);
        match lane.first_key_value().map(|(_, id)| *id) {
            None => {
                self.lanes.remove(key);
            }
            Some(next) => {
                // If the next one is not ready yet, it finds its lane free when it enters.
                if let Some((place, durable)) = self.held_back.remove(&next) {
                    self.let_begin(next, place, durable);
                }
            }
        }
    }

    /// Says whether an invocation waits for an earlier one with the same order key.
    fn is_held_back(&self, invocation: &Invocation) -> bool {
        let lane = invocation.order_key.as_ref().and_then(|key| self.lanes.get(key));
        lane.and_then(|lane| lane.first_key_value())
            .is_some_and(|(first, _)| *first != invocation.number)
    }

    fn let_begin(&mut self, id: InvocationId, place: QueueOrder, durable: bool) {
        let book = if durable { &mut self.unclaimed } else { &mut self.ready };
        book.insert(place, id);
    }

    fn enter(&mut self, invocation: &Invocation) {
        let (id, place) = (invocation.id, invocation.place());
        match invocation.stage {
            InvocationStage::Storing { end: None, .. } => self.storing += 1,
            InvocationStage::Storing { end: Some(_), .. } => {
                self.ended += 1;
                // It frees its place at once, although its end is recorded only after its acceptance.
                self.live.remove(&id);
            }
            InvocationStage::Ready if self.is_held_back(invocation) => {
                self.held_back.insert(id, (place, invocation.durable));
            }
            InvocationStage::Ready => self.let_begin(id, place, invocation.durable),
            InvocationStage::Claiming { holds, .. } => {
                self.claiming += 1;
                self.held += usize::from(holds);
            }
            InvocationStage::Claimed => {
                self.claimed += 1;
                self.ready.insert(place, id);
            }
            InvocationStage::BackingOff { unix_ms, .. } => {
                self.backing_off.insert((unix_ms, id));
            }
            InvocationStage::Delayed { .. } | InvocationStage::Running { .. } | InvocationStage::Lost => {}
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
            InvocationStage::Ready if self.held_back.remove(&id).is_some() => {}
            // `take_unclaimed` and `take_ready` may have removed the invocation already.
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
    /// order key.
    pub(crate) fn waiting(&self) -> usize {
        self.ready.len() + self.unclaimed.len() + self.claiming + self.held_back.len()
    }

    /// Returns how many of those could have a worker: all but those that wait for another one of their order key.
    pub(crate) fn startable(&self) -> usize {
        self.waiting() - self.held_back.len()
    }

    /// Returns the invocations that may begin, then those that must be claimed first, then those that wait for another
    /// one of their order key, each in order.
    pub(crate) fn ready_and_unclaimed(&self) -> impl Iterator<Item = InvocationId> {
        let held_back = self.held_back.keys();
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
