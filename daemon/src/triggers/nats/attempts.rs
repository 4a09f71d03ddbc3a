//! Attempts of messages: whether they may begin, and in which workers they run. Also messages that are given back, or that another node
//! has.

use super::books::MessageAttempt;
use super::{MessageEffect, Messages};
use fnd_core::records::cause::{Cause, NatsCause};
use fnd_core::run::{AttemptOrder, Now};
use fnd_core::triggers::nats::claim::ClaimLimit;
use fnd_core::triggers::nats::rules::lease;
use fnd_wire::ids::{Attempt, InvocationId, WorkerId};
use std::time::Duration;

/// How soon a message comes again that this node gives back before it has begun.
const GIVEN_BACK: Duration = Duration::from_secs(1);

impl Messages {
    /// An attempt begins. Returns when the spawner is to end its worker; nothing if it does not end with the lease.
    pub(crate) fn attempt_begins(&mut self, now: Now, id: InvocationId, attempt: MessageAttempt) -> Option<Duration> {
        // The attempt of a handler is claimed before it waits for a free worker.
        let ends_too_early = self.ends_too_early(now, id);
        let message = self.open.get_mut(&id)?;
        message.attempt = Some(attempt);
        if ends_too_early {
            message.keep_at = now.mono;
            self.keep_claim(now, id);
        }
        self.lease.starts(id, (attempt.worker, attempt.ends_at));
        let until = match self.lease.has(id) {
            true => self.deadline_of(now, attempt.worker),
            // Its time may have ended since the supervisor let it begin, and nothing else would end it if fnd were stopped now.
            false => self.lease.is_over(id).then_some(now.mono),
        };
        until.filter(|_| self.has_fence)
    }

    /// Tells an attempt which claim it has: a database that remembers the greatest one can refuse what a node writes too late.
    pub(crate) fn name_claim(&self, attempt: &mut AttemptOrder) {
        let claim = self.revision(attempt.invocation);
        let named = match (claim, attempt.payload.cause.as_deref()) {
            (Some(claim), Some(Cause::Nats(cause))) => NatsCause {
                claim: Some(claim),
                ..cause.clone()
            },
            // Only a message of NATS with a claim has a number to name.
            _ => return,
        };
        attempt.payload.cause = Some(Cause::Nats(named).into());
    }

    /// An attempt has ended, or has not begun.
    pub(crate) fn attempt_ended(&mut self, now: Now, id: InvocationId, number: Attempt) {
        // Also that of other work: a group and the node have room for all.
        self.has_new_room = true;
        let Some(message) = self.open.get_mut(&id) else { return };
        // After a restart of fnd the end of an attempt may come after the next one was adopted, which goes on.
        if message.attempt.is_some_and(|running| running.number > number) {
            return;
        }
        let attempt = message.attempt.take();
        // An fnd before this one may have given its worker a deadline.
        let may_have_lease = message.adopts.take().is_some() || message.lease.is_some();
        self.lease.ended(id);
        let Some(MessageAttempt { worker, .. }) = attempt.filter(|_| may_have_lease) else {
            return;
        };
        self.left
            .retain(|id| self.open.get(id).is_some_and(|message| message.adopts.is_some()));
        let mut others = self.left.iter().filter_map(|id| self.open.get(id)?.attempt);
        let has_others = others.any(|attempt| attempt.worker == worker);
        // A worker that stays has other calls, or none. Also after a fence: it would end without a reason. A call that is not adopted
        // yet needs the deadline that the worker has.
        if !has_others {
            self.tell_deadline(now, worker);
        }
    }

    /// Has the lease count for an attempt that an fnd before this one has begun, whose claim has this limit: the manifest may say
    /// something else by now. Until then the worker has the deadline that the spawner knows from that fnd.
    pub(super) fn adopt_attempt(&mut self, now: Now, id: InvocationId, limit: ClaimLimit) {
        let Some(message) = self.open.get_mut(&id) else { return };
        let (Some(grace), Some(attempt), ClaimLimit::Silence(ms)) = (message.adopts.take(), message.attempt, limit)
        else {
            return;
        };
        let MessageAttempt { worker, ends_at, .. } = attempt;
        let lease = lease(Duration::from_millis(ms), grace);
        message.lease = Some(lease);
        self.lease.adopt(id, lease, (worker, ends_at));
        // Without a renewal that was answered there is no new deadline yet.
        if self.lease.end_of_worker(worker).is_some() {
            self.tell_deadline(now, worker);
        }
    }

    /// Returns until when a worker may run; nothing if it has no attempt that ends with the lease.
    fn deadline_of(&self, now: Now, worker: WorkerId) -> Option<Duration> {
        self.lease.end_of_worker(worker).map(|end| end.max(now.mono))
    }

    /// Tells the spawner until when a worker may run.
    fn tell_deadline(&mut self, now: Now, worker: WorkerId) {
        if self.lease.is_fenced(worker) {
            return; // it keeps the deadline that it has
        }
        let deadline = self.deadline_of(now, worker);
        self.out.push(MessageEffect::Lease(worker, deadline));
    }

    /// The supervisor has given a message back of which nothing has begun.
    pub(crate) fn withdrawn(&mut self, now: Now, id: InvocationId) {
        let Some(message) = self.forget(id) else { return };
        self.let_go_of(now, id, &message);
        self.give_back(message.mark.ack, GIVEN_BACK);
    }

    /// The supervisor has ended an invocation with which another node goes on.
    pub(crate) fn superseded(&mut self, id: InvocationId) {
        self.forget(id);
    }
}

#[cfg(test)]
mod tests;
