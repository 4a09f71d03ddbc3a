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
//! Invocations with a value of a key are in lanes (`lanes` beside it), which let only the first ones begin. A delayed one comes into
//! its lanes when its time comes.
//!
//! The queue does not decide when a stage changes. It has no clock and arms no timer.

use super::invocation::{Invocation, InvocationStage, QueueOrder};
use super::lanes::{Begins, Lanes};
use crate::idempotency::IdempotencyKey;
use fnd_wire::ids::InvocationId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The books of one function.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueBooks {
    /// Invocations that are accepted and not ended.
    live: BTreeSet<InvocationId>,
    /// The identities of their idempotency keys.
    keys: BTreeMap<Arc<str>, InvocationId>,
    /// Those with a key.
    lanes: Lanes,
    /// Those that only their lanes keep from beginning.
    held_back: BTreeSet<InvocationId>,
    /// Number of invocations that are being stored and then run.
    storing: usize,
    /// Number of invocations that are being stored and were ended meanwhile.
    ended: usize,
    /// Invocations that wait for a retry, a poll or their next claim, with the due time in Unix milliseconds.
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
    /// Returns empty books with the same width of lanes.
    pub(crate) fn emptied(&self) -> Self {
        let mut empty = Self::default();
        empty.set_per_key(self.per_key());
        empty
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

    /// Returns how many invocations of one value of `[queue] key` may run.
    pub(crate) fn per_key(&self) -> usize {
        self.lanes.per_key
    }

    /// Sets how many invocations of one value of `[queue] key` may run. No invocation is in such a lane.
    pub(crate) fn set_per_key(&mut self, per_key: usize) {
        self.lanes.per_key = per_key;
    }

    /// Lets each of these invocations begin if its lanes have a place for it, and holds it back otherwise.
    fn settle(&mut self, ids: Vec<InvocationId>) {
        for id in ids {
            let Some((begins, has_place)) = self.lanes.place(id) else {
                continue;
            };
            if has_place {
                self.held_back.remove(&id);
                self.book(begins.claims).insert(begins.place, id);
            } else if self.held_back.insert(id) {
                self.book(begins.claims).remove(&begins.place);
            }
        }
    }

    /// Returns the invocations with a value of `[queue] key`, in the order of their lane.
    pub(crate) fn with_queue_key(&self, value: &Arc<str>) -> impl Iterator<Item = InvocationId> {
        self.lanes.with_queue_key(value)
    }

    /// Says whether one more invocation with a value of `[queue] key` would find a place in its lane.
    pub(crate) fn has_place_for(&self, value: &Arc<str>) -> bool {
        self.with_queue_key(value).take(self.per_key()).count() < self.per_key()
    }

    /// Returns the invocations that only their lanes keep from beginning.
    pub(crate) fn held_back(&self) -> &BTreeSet<InvocationId> {
        &self.held_back
    }

    fn book(&mut self, claims: bool) -> &mut BTreeMap<QueueOrder, InvocationId> {
        match claims {
            true => &mut self.unclaimed,
            false => &mut self.ready,
        }
    }

    fn enter(&mut self, invocation: &Invocation) {
        let (id, place) = (invocation.id, invocation.place());
        let claims = match invocation.stage {
            InvocationStage::Ready => Some(invocation.durable),
            InvocationStage::Claimed => Some(false),
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
            InvocationStage::BackingOff { until } => {
                self.backing_off.insert((until.unix_ms, id));
            }
            InvocationStage::Ready
            | InvocationStage::Delayed { .. }
            | InvocationStage::Running { .. }
            | InvocationStage::Lost => {}
        }
        let begins = claims.map(|claims| Begins { place, claims });
        if Lanes::has(invocation) {
            let changed = self.lanes.enter(invocation, begins);
            self.settle(changed);
        } else if let Some(begins) = begins {
            self.book(begins.claims).insert(begins.place, id);
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
            InvocationStage::Ready => {
                self.book(invocation.durable).remove(&place);
            }
            InvocationStage::Claiming { holds, .. } => {
                self.claiming = self.claiming.saturating_sub(1);
                self.held = self.held.saturating_sub(usize::from(holds));
            }
            InvocationStage::Claimed => {
                self.claimed = self.claimed.saturating_sub(1);
                self.ready.remove(&place);
            }
            InvocationStage::BackingOff { until } => {
                self.backing_off.remove(&(until.unix_ms, id));
            }
            InvocationStage::Delayed { .. } | InvocationStage::Running { .. } | InvocationStage::Lost => {}
        }
        self.held_back.remove(&id);
        let changed = self.lanes.leave(id);
        self.settle(changed);
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
        match self.is_first_unclaimed() {
            true => self.take_unclaimed(),
            false => self.take_ready(),
        }
    }

    /// Says whether an invocation waits that may begin, or may be claimed if `may_claim` is set.
    pub(crate) fn has_first(&self, may_claim: bool) -> bool {
        !self.ready.is_empty() || (may_claim && !self.unclaimed.is_empty())
    }

    /// Says whether the first of all waiting invocations must be claimed.
    pub(crate) fn is_first_unclaimed(&self) -> bool {
        let ready = self.ready.first_key_value().map(|(place, _)| place);
        let unclaimed = self.unclaimed.first_key_value().map(|(place, _)| place);
        // Both books have the same order, so the smaller place comes first.
        unclaimed.is_some_and(|unclaimed| ready.is_none_or(|ready| unclaimed < ready))
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

    /// Returns the first invocation that must be claimed.
    pub(crate) fn first_unclaimed(&self) -> Option<InvocationId> {
        self.unclaimed.first_key_value().map(|(_, id)| *id)
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
