//! Makes invocations of accepted requests: they are stored, then wait for their turn in the queue of their function.
//!
//! Some wait for a time of the wall clock: they must not begin before one, or must have begun by one. fnd waits on the monotonic
//! clock, which nobody can set. So each time the wall clock was set, the instants are computed anew.

use super::Supervisor;
use crate::messages::ReplyTo;
use crate::messages::action::{Action, Answer};
use crate::messages::rules::Rules;
use crate::messages::submit::Submit;
use crate::records::outcome::Reason;
use crate::records::{Accepted, Payload, may_become_dead_letter};
use crate::run_state::FunctionKey;
use crate::run_state::invocation::{Deadline, Invocation, InvocationEnd, InvocationStage, WallTime};
use crate::run_state::releases::ServingRelease;
use crate::run_state::timers::Timer;
use fnd_wire::ids::{InvocationId, Version};
use std::sync::Arc;
use std::time::Duration;

impl Supervisor {
    /// Makes an invocation of a request, and ends it if it never begins. `load_key` is the content that runs by itself, if it is
    /// such a run; `queue_key` is the value of the function's key.
    pub(super) fn accept(
        &mut self,
        (key, serving): (FunctionKey, &ServingRelease),
        (submit, load_key, queue_key): (Submit, Option<Version>, Option<Arc<str>>),
    ) {
        let rules = &serving.rules;
        let own = rules.deadline.map(|limit| self.now.mono.saturating_add(limit));
        let callers = self.caller_ends_at(&submit);
        let deadline = own.into_iter().chain(callers).min().map(|at| Deadline {
            at,
            unix_ms: WallTime::of_instant(self.now, at).unix_ms,
            of_caller: own.is_none_or(|own| at < own),
        });
        let timeout_ms = submit.timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
        let durable = !submit.wait;
        // Only with them, an attempt of another node is lost.
        let begun = submit.message.as_ref().map_or(0, |message| message.begun);
        let taken_over = submit.taken_over.filter(|_| durable && begun > 0);
        // Input that cannot be read never begins, and somebody has to look at it.
        let fails = |(reason, _): &(Reason, Box<str>)| *reason == Reason::Input;
        let may_fail = durable && submit.skipped.as_ref().is_none_or(fails);
        let dead_letter = may_fail && may_become_dead_letter(submit.trigger, &submit.function, submit.asks_dead_letter);
        let accepted = Accepted {
            id: submit.id,
            function: submit.function,
            trigger: submit.trigger,
            accepted_ms: self.now.unix_ms,
            payload: filled_in(submit.payload, rules),
            durable,
            dead_letter,
            load_key,
            timeout_ms,
            not_before_ms: submit.not_before_ms,
            expires_ms: submit.expires_ms,
            deadline_ms: deadline.map(|deadline| deadline.unix_ms),
            priority: submit.priority,
            key: submit.idempotency_key,
            origin: submit.origin,
            caller: submit.caller,
            mark: submit.mark,
            files: submit.files,
            message: submit.message,
            skipped: submit.skipped.clone(),
        };
        let not_before = submit.not_before_ms.map(|unix_ms| WallTime::new(self.now, unix_ms));
        let mut invocation = Invocation {
            timeout: submit.timeout,
            deadline,
            stage: InvocationStage::Storing { not_before, end: None },
            queue_key,
            attempts: begun,
            taken_over,
            ..Invocation::of(&accepted, key, self.next_number(), self.now)
        };
        let callers = match submit.wait {
            true => &mut invocation.waiters,
            false => &mut invocation.acknowledge,
        };
        callers.extend(submit.reply);
        self.out.push(Action::Store(Box::new(accepted)));
        self.insert_invocation(invocation);
        // A call does not wait for the disk: its caller has no promise that it outlives a power cut.
        if !durable {
            self.settle_in(submit.id, not_before);
        }
        if let Some((reason, why)) = submit.skipped {
            self.end(submit.id, InvocationEnd::new(reason, why));
        }
    }

    /// Adds an invocation to the map and its queue and arms its timers.
    pub(super) fn insert_invocation(&mut self, invocation: Invocation) {
        let id = invocation.id;
        self.functions[invocation.function].work.queue.add(&invocation);
        self.waited.add(&invocation);
        self.timers.arm(invocation.deadline_at(), Timer::Deadline(id));
        self.timers.arm(invocation.expires_at(), Timer::Expire(id));
        self.timers.arm(invocation.stage.begins_at(), Timer::Begin(id));
        self.invocations.insert(id, invocation);
    }

    /// Lets an invocation wait for its turn, from `not_before` on if that is in the future.
    pub(super) fn settle_in(&mut self, id: InvocationId, not_before: Option<WallTime>) {
        match not_before.filter(|until| until.at > self.now.mono) {
            Some(until) => {
                self.change(id, InvocationStage::Delayed { until });
            }
            None => self.make_ready(id),
        }
    }

    /// Lets all delayed and expiring invocations follow the wall clock.
    pub(super) fn clock_set(&mut self) {
        for (id, invocation) in &mut self.invocations {
            match &mut invocation.stage {
                InvocationStage::Delayed { until } => {
                    self.timers.disarm(until.at, Timer::Begin(*id));
                    *until = WallTime::new(self.now, until.unix_ms);
                    self.timers.arm(until.at, Timer::Begin(*id));
                }
                // Its timer is armed once it is stored.
                InvocationStage::Storing {
                    not_before: Some(until),
                    ..
                } => *until = WallTime::new(self.now, until.unix_ms),
                // The other stages wait for no time of the wall clock.
                _ => {}
            }
            if let Some(expires) = &mut invocation.expires {
                let has_begun = invocation.attempts > 0;
                self.timers.disarm(expires.at, Timer::Expire(*id));
                *expires = WallTime::new(self.now, expires.unix_ms);
                // The expiry of one that has begun is kept only for the case that its start fails.
                if !has_begun {
                    self.timers.arm(expires.at, Timer::Expire(*id));
                }
            }
        }
    }

    /// Lets an invocation begin, or be claimed, when its turn comes.
    pub(super) fn make_ready(&mut self, id: InvocationId) {
        if let Some(key) = self.change(id, InvocationStage::Ready) {
            self.line_up(key);
        }
    }

    /// Makes an invocation durable for a caller who does not wait; that caller is answered once this is on disk.
    pub(super) fn make_durable(&mut self, id: InvocationId, submit: &Submit, reply: ReplyTo) {
        self.set_durable(id, true);
        let Some(invocation) = self.invocations.get(&id) else {
            return;
        };
        let dead_letter = may_become_dead_letter(invocation.trigger, &submit.function, submit.asks_dead_letter);
        // A claim is on its way to the disk, or there. The claim says more than this record, which would replace it.
        if invocation.attempts > 0 && !invocation.stage.is_claimed() {
            // This comes first: an fnd that finds the invocation durable must know that the attempt has begun.
            self.update(id);
        }
        self.out.push(Action::MakeDurable { id, dead_letter });
        self.joining.insert(id, vec![reply]);
    }

    fn set_durable(&mut self, id: InvocationId, durable: bool) {
        if let Some(invocation) = self.invocations.get_mut(&id) {
            let key = invocation.function;
            self.functions[key].work.queue.set_durable(invocation, durable);
            // A durable one has to be claimed, and another one may begin at once.
            self.line_up(key);
        }
    }

    /// Handles a durable invocation that is on disk.
    pub(super) fn stored(&mut self, id: InvocationId) {
        // It may have ended meanwhile.
        let joining = self.joining.remove(&id);
        self.answer_all(joining.into_iter().flatten(), || Answer::Queued(id));
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        let InvocationStage::Storing { not_before, end } = &invocation.stage else {
            // One that was made durable goes on, and a second answer of the ledger is ignored.
            return;
        };
        let (not_before, end) = (*not_before, end.clone());
        let key = invocation.function;
        let is_lost = invocation.taken_over.is_some();
        let callers = std::mem::take(&mut invocation.acknowledge);
        if is_lost {
            self.change(id, InvocationStage::Lost);
        }
        self.answer_all(callers, || Answer::Queued(id));
        match end {
            // It was ended while it was being stored.
            Some(end) if is_lost => self.end(id, end),
            Some(end) => self.finish(id, end),
            // Nobody knows the end of an attempt of another node. Without a version the invocation stays lost, until the function
            // is installed or deleted.
            None if is_lost => {
                if let Some(serving) = self.functions[key].serving().cloned() {
                    self.conclude_lost(id, &serving);
                }
            }
            None => self.settle_in(id, not_before),
        }
    }

    /// Handles a durable invocation that could not be stored: the callers get an error, nothing runs, nothing is
    /// recorded.
    pub(super) fn store_failed(&mut self, id: InvocationId) {
        if let Some(joining) = self.joining.remove(&id) {
            self.answer_all(joining, || Answer::StoreFailed);
            // It goes on as it was before they came.
            self.set_durable(id, false);
            let left = self.invocations.get(&id);
            if left.is_some_and(|left| left.stage.worker().is_none()) && !self.phase.is_serving() {
                self.release(id);
            }
            return;
        }
        let stage = self.invocations.get(&id).map(|invocation| &invocation.stage);
        if !matches!(stage, Some(InvocationStage::Storing { .. })) {
            return;
        }
        let Some(invocation) = self.remove_invocation(id) else {
            return;
        };
        self.out.push(Action::Dropped(id));
        if let Some(content) = invocation.load_key {
            // The content has not run: the next installation, enabling or start tries again.
            self.functions[invocation.function]
                .loaded
                .retain(|loaded| *loaded != content);
        }
        let callers = invocation.acknowledge.into_iter().chain(invocation.waiters);
        self.answer_all(callers, || Answer::StoreFailed);
        // The next one of its key may begin.
        self.line_up(invocation.function);
        // The next run of a service waits as after a failed one.
        self.service_over(invocation.function, Reason::Spawn, Duration::ZERO);
    }
}

/// Returns a payload with the values of the manifest where it has none.
pub(super) fn filled_in(mut payload: Payload, rules: &Rules) -> Payload {
    if payload.data.is_none() {
        payload.data.clone_from(&rules.default_payload.data);
        payload.content_type.clone_from(&rules.default_payload.content_type);
    }
    if payload.context.is_none() {
        payload.context.clone_from(&rules.default_payload.context);
    }
    payload
}
