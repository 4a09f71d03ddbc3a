//! Makes invocations of accepted requests: they are stored, then wait for their turn in the queue of their function.

use super::Supervisor;
use crate::messages::action::{Action, Answer};
use crate::messages::rules::Rules;
use crate::messages::submit::Submit;
use crate::messages::{Now, ReplyTo, on_wall};
use crate::records::cause::Cause;
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
        now: Now,
        (key, serving): (FunctionKey, &ServingRelease),
        (submit, load_key, queue_key): (Submit, Option<Version>, Option<Arc<str>>),
        out: &mut Vec<Action>,
    ) {
        let rules = &serving.rules;
        let own = rules.deadline.map(|limit| now.mono.saturating_add(limit));
        let callers = self.caller_ends_at(&submit);
        let deadline = own.into_iter().chain(callers).min().map(|at| Deadline {
            at,
            unix_ms: on_wall(now, at),
            of_caller: own.is_none_or(|own| at < own),
        });
        let payload = filled_in(submit.payload, rules);
        let timeout_ms = submit.timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
        let durable = !submit.wait;
        // Only with them, an attempt of another node is lost.
        let begun = submit.message.as_ref().map_or(0, |message| message.begun);
        let taken_over = submit.taken_over.filter(|_| durable && begun > 0);
        let of_stream = submit.message.as_ref().is_some_and(|message| !message.is_accepted);
        // Input that cannot be read never begins, and somebody has to look at it.
        let fails = |(reason, _): &(Reason, Box<str>)| *reason == Reason::Input;
        let may_fail = durable && submit.skipped.as_ref().is_none_or(fails);
        let dead_letter = may_fail && may_become_dead_letter(submit.trigger, &submit.function, submit.asks_dead_letter);
        out.push(Action::Store(Box::new(Accepted {
            id: submit.id,
            function: submit.function,
            trigger: submit.trigger,
            accepted_ms: now.unix_ms,
            payload: payload.clone(),
            durable,
            dead_letter,
            load_key,
            timeout_ms,
            not_before_ms: submit.not_before_ms,
            expires_ms: submit.expires_ms,
            deadline_ms: deadline.map(|deadline| deadline.unix_ms),
            priority: submit.priority,
            key: submit.idempotency_key.clone(),
            origin: submit.origin,
            mark: submit.mark,
            files: submit.files,
            message: submit.message,
            skipped: submit.skipped.clone(),
        })));
        let not_before = submit.not_before_ms.map(|unix_ms| WallTime::new(now, unix_ms));
        let (acknowledge, waiters) = if submit.wait {
            (None, submit.reply)
        } else {
            (submit.reply, None)
        };
        let invocation = Invocation {
            id: submit.id,
            function: key,
            trigger: submit.trigger,
            accepted_ms: now.unix_ms,
            load_key,
            timeout: submit.timeout,
            deadline,
            expires: submit.expires_ms.map(|unix_ms| WallTime::new(now, unix_ms)),
            priority: submit.priority,
            number: self.next_number(),
            stage: InvocationStage::Storing { not_before, end: None },
            durable,
            of_stream,
            order_key: payload.cause.as_deref().and_then(Cause::order_key).map(Arc::from),
            queue_key,
            payload,
            key: submit.idempotency_key,
            acknowledge: acknowledge.into_iter().collect(),
            waiters: waiters.into_iter().collect(),
            caller_gone: false,
            attempts: begun,
            taken_over,
            polls: 0,
            started: None,
            last: None,
            version: None,
            previous: None,
            has_tmp: false,
        };
        self.insert_invocation(invocation);
        // A call does not wait for the disk: its caller has no promise that it outlives a power cut.
        if !durable {
            self.settle_in(now, submit.id, not_before);
        }
        if let Some((reason, why)) = submit.skipped {
            self.end(now, submit.id, InvocationEnd::new(reason, why), out);
        }
    }

    /// Adds an invocation to the map and its queue and arms its timers.
    pub(super) fn insert_invocation(&mut self, invocation: Invocation) {
        self.functions[invocation.function].queue.add(&invocation);
        self.waited.add(&invocation);
        if let Some(deadline) = invocation.deadline {
            self.timers.arm(deadline.at, Timer::Deadline(invocation.id));
        }
        if let Some(expires) = invocation.expires {
            self.timers.arm(expires.at, Timer::Expire(invocation.id));
        }
        self.invocations.insert(invocation.id, invocation);
    }

    /// Lets an invocation wait for its turn, from `not_before` on if that is in the future.
    pub(super) fn settle_in(&mut self, now: Now, id: InvocationId, not_before: Option<WallTime>) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        match not_before {
            Some(until) if until.at > now.mono => {
                let queue = &mut self.functions[invocation.function].queue;
                queue.change(invocation, InvocationStage::Delayed { until });
                self.timers.arm(until.at, Timer::Begin(id));
            }
            _ => self.make_ready(now, id),
        }
    }

    /// Lets an invocation begin, or be claimed, when its turn comes.
    pub(super) fn make_ready(&mut self, now: Now, id: InvocationId) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        let key = invocation.function;
        self.functions[key].queue.change(invocation, InvocationStage::Ready);
        self.line_up(now, key);
    }

    /// Makes an invocation durable for a caller who does not wait; that caller is answered once this is on disk.
    pub(super) fn make_durable(
        &mut self,
        now: Now,
        id: InvocationId,
        (submit, reply): (&Submit, ReplyTo),
        out: &mut Vec<Action>,
    ) {
        let Some(invocation) = self.set_durable(now, id, true) else {
            return;
        };
        let dead_letter = may_become_dead_letter(invocation.trigger, &submit.function, submit.asks_dead_letter);
        let claims = matches!(
            invocation.stage,
            InvocationStage::Claiming { .. } | InvocationStage::Claimed
        );
        // A claim is on its way to the disk, or there. The claim says more than this record, which would replace it.
        if invocation.attempts > 0 && !claims {
            // This comes first: an fnd that finds the invocation durable must know that the attempt has begun.
            out.push(Action::Update(Box::new(invocation.record(&submit.function))));
        }
        out.push(Action::MakeDurable { id, dead_letter });
        self.joining.insert(id, vec![reply]);
    }

    fn set_durable(&mut self, now: Now, id: InvocationId, durable: bool) -> Option<&Invocation> {
        let invocation = self.invocations.get_mut(&id)?;
        let key = invocation.function;
        self.functions[key].queue.set_durable(invocation, durable);
        // A durable one has to be claimed, and another one may begin at once.
        self.line_up(now, key);
        self.invocations.get(&id)
    }

    /// Handles a durable invocation that is on disk.
    pub(super) fn stored(&mut self, now: Now, id: InvocationId, out: &mut Vec<Action>) {
        // It may have ended meanwhile.
        for reply in self.joining.remove(&id).into_iter().flatten() {
            out.push(Action::Reply(reply, Box::new(Answer::Queued(id))));
        }
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        let InvocationStage::Storing { not_before, end } = &invocation.stage else {
            // One that was made durable goes on, and a second answer of the ledger is ignored.
            return;
        };
        let (not_before, end) = (*not_before, end.clone());
        for reply in invocation.acknowledge.drain(..) {
            out.push(Action::Reply(reply, Box::new(Answer::Queued(id))));
        }
        if invocation.taken_over.is_some() {
            let key = invocation.function;
            self.functions[key].queue.change(invocation, InvocationStage::Lost);
            return self.follow_lost(now, (key, id), end, out);
        }
        match end {
            Some(end) => self.finish(now, id, end, out),
            None => self.settle_in(now, id, not_before),
        }
    }

    /// Decides what follows an attempt of another node whose end nobody knows. `end` is why the invocation was ended while it was
    /// being stored.
    fn follow_lost(
        &mut self,
        now: Now,
        (key, id): (FunctionKey, InvocationId),
        end: Option<InvocationEnd>,
        out: &mut Vec<Action>,
    ) {
        if let Some(end) = end {
            return self.end(now, id, end, out);
        }
        // Without a version the invocation stays lost, until the function is installed or deleted.
        if let Some(serving) = self.functions[key].serving().cloned()
            && let Some(attempt) = self.lost_attempt(now, id)
        {
            self.conclude(now, &serving, (attempt, None), out);
        }
    }

    /// Handles a durable invocation that could not be stored: the callers get an error, nothing runs, nothing is
    /// recorded.
    pub(super) fn store_failed(&mut self, now: Now, id: InvocationId, out: &mut Vec<Action>) {
        if let Some(joining) = self.joining.remove(&id) {
            for reply in joining {
                out.push(Action::Reply(reply, Box::new(Answer::StoreFailed)));
            }
            // It goes on as it was before they came.
            let left = self.set_durable(now, id, false).map(|invocation| &invocation.stage);
            if left.is_some_and(|stage| !matches!(stage, InvocationStage::Running { .. })) && !self.phase.is_serving() {
                self.release(now, id, out);
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
        if let Some(content) = invocation.load_key {
            // The content has not run: the next installation, enabling or start tries again.
            self.functions[invocation.function]
                .loaded
                .retain(|loaded| *loaded != content);
        }
        for reply in invocation.acknowledge.into_iter().chain(invocation.waiters) {
            out.push(Action::Reply(reply, Box::new(Answer::StoreFailed)));
        }
        // The next one of its key may begin.
        self.line_up(now, invocation.function);
        // The next run of a service waits as after a failed one.
        self.service_over(now, invocation.function, (Reason::Spawn, Duration::ZERO), out);
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
