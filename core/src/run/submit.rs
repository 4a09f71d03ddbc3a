//! Accepts or rejects requests to run, has them made durable and puts them into their queue.

use super::Supervisor;
use super::admission::{rate_cost, rate_wait};
use crate::messages::action::{Action, Answer, Notice, Rejection};
use crate::messages::end_cause::EndCause;
use crate::messages::rules::{Overlap, QueueRules, Rules};
use crate::messages::submit::Submit;
use crate::messages::{Now, ReplyTo, on_mono, on_wall};
use crate::records::cause::Cause;
use crate::records::outcome::{Reason, Skip, Trigger};
use crate::records::{Accepted, Payload, may_become_dead_letter};
use crate::run_state::function::Presence;
use crate::run_state::invocation::{Deadline, Invocation, InvocationEnd, InvocationStage};
use crate::run_state::releases::ServingRelease;
use crate::run_state::timers::Timer;
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::ids::{InvocationId, Version};
use std::sync::Arc;
use std::time::Duration;

/// Why an invocation is skipped that must not run beside another one.
const OVERLAPS: &str = "another invocation was running (`overlap`)";

/// The effect of an acceptance while all places are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// The new invocation waits or runs, and no other one is touched.
    Nothing,
    /// The new invocation ends as skipped.
    Skip,
    /// The oldest invocation ends in its favour.
    Replace,
}

/// A request that its function does not take, and why.
pub(super) type RefusedRequest = Box<(Submit, Rejection)>;

impl Supervisor {
    pub(super) fn submit(&mut self, now: Now, mut submit: Submit, out: &mut Vec<Action>) {
        if self.invocations.contains_key(&submit.id) {
            let defect = format!("the id {} was submitted twice", submit.id);
            out.push(Action::Notice(Notice::Defect(defect)));
            let reason = "its id is in use".to_owned();
            return reject(submit.reply, Rejection::Unavailable { reason }, out);
        }
        // This comes before everything that may refuse the run: otherwise the service would wait for a refused run for
        // ever.
        if let Some(key) = self
            .functions
            .find(&submit.function)
            .filter(|_| submit.trigger == Trigger::Load)
        {
            let requested = &mut self.functions[key].work.requested;
            *requested = requested.saturating_sub(1);
        }
        if let Err(rejection) = self.with_caller(&mut submit) {
            return reject(submit.reply, rejection, out);
        }
        // A request that shares an invocation needs no room, so it comes before the checks of the queue.
        if self.join(&submit, out) {
            return;
        }
        let id = submit.id;
        let wanted = submit.skipped.clone();
        match self.take(now, submit, out) {
            Ok((key, after)) => match wanted {
                Some((skip, why)) => self.give_up(now, id, (skip, &why), out),
                None => self.follow(now, (key, id), after, out),
            },
            Err(refused) => {
                let (submit, rejection) = *refused;
                let skip = rejection.skip();
                if let Some(skip) = skip.filter(|skip| submit.is_unattended() && *skip != Skip::Disabled) {
                    return self.record_refusal(now, submit, (skip, &rejection), out);
                }
                reject(submit.reply, rejection, out);
                let (function, trigger) = (submit.function, submit.trigger);
                // Files are not refused: they wait in their directory.
                out.extend(skip.filter(|_| trigger != Trigger::File).map(|skip| {
                    Action::Notice(Notice::Rejected {
                        function,
                        trigger,
                        skip,
                    })
                }));
            }
        }
    }

    /// Accepts a request if its function takes it now. What it means for other invocations follows later.
    pub(super) fn take(
        &mut self,
        now: Now,
        submit: Submit,
        out: &mut Vec<Action>,
    ) -> Result<(FunctionKey, After), RefusedRequest> {
        let (key, serving) = match self.admit(now, &submit) {
            Ok(admitted) => admitted,
            Err(rejection) => return Err(Box::new((submit, rejection))),
        };
        // A service requests no more runs than it has replicas, so its runs do not overlap.
        let overlaps = !serving.rules.kind.is_service() && !self.has_place(key, &serving);
        let QueueRules { overlap, rate, .. } = serving.rules.queue;
        let overlap = submit.overlap.unwrap_or(overlap);
        let skipped = submit.skipped.is_some() || (overlaps && overlap == Overlap::Skip);
        // A skipped request does not count for the rate.
        if let Some(rate) = rate.filter(|_| !skipped) {
            let paid = &mut self.functions[key].work.rate_paid;
            *paid = (*paid).max(now.mono).saturating_add(rate_cost(rate));
        }
        self.accept(now, (key, &serving), (submit, None), out);
        let after = match overlap {
            Overlap::Skip if overlaps => After::Skip,
            Overlap::Replace if overlaps => After::Replace,
            Overlap::Queue | Overlap::Reject | Overlap::Replace | Overlap::Skip => After::Nothing,
        };
        Ok((key, after))
    }

    /// Does what follows from an acceptance for the invocation itself and for others.
    pub(super) fn follow(
        &mut self,
        now: Now,
        (key, id): (FunctionKey, InvocationId),
        after: After,
        out: &mut Vec<Action>,
    ) {
        match after {
            After::Nothing => {}
            After::Skip => self.give_up(now, id, (Skip::Overlap, OVERLAPS), out),
            After::Replace => self.replace_oldest(now, key, id, out),
        }
    }

    /// Records a run that a trigger wanted and that is refused: nobody waits who would learn of it otherwise.
    fn record_refusal(
        &mut self,
        now: Now,
        submit: Submit,
        (skip, rejection): (Skip, &Rejection),
        out: &mut Vec<Action>,
    ) {
        let why = match skip {
            Skip::Overlap => OVERLAPS.to_owned(),
            _ => rejection.words(&submit.function),
        };
        let key = self.functions.find(&submit.function);
        let known = key.and_then(|key| Some((key, self.functions[key].serving()?.clone())));
        if let Some((key, serving)) = known {
            let id = submit.id;
            self.accept(now, (key, &serving), (submit, None), out);
            self.give_up(now, id, (skip, &why), out);
        }
    }

    /// Lets a request share the live invocation of the same idempotency key, if there is one.
    fn join(&mut self, submit: &Submit, out: &mut Vec<Action>) -> bool {
        let Some(idempotency_key) = &submit.idempotency_key else {
            return false;
        };
        let function = self.functions.find(&submit.function).map(|key| &self.functions[key]);
        let id = function.and_then(|function| function.queue.with_key(idempotency_key));
        let Some(invocation) = id.and_then(|id| self.invocations.get_mut(&id)) else {
            return false;
        };
        let Some(reply) = submit.reply else { return true };
        // The queue finds a key by its owner and word alone. The request must be the same, too.
        if invocation.key.as_ref() != Some(idempotency_key) {
            reject(Some(reply), Rejection::KeyReused, out);
            return true;
        }
        match (submit.wait, &invocation.stage) {
            (true, _) => invocation.waiters.push(reply),
            (false, InvocationStage::Storing { .. }) => invocation.acknowledge.push(reply),
            (false, _) => out.push(Action::Reply(reply, Box::new(Answer::Queued(invocation.id)))),
        }
        true
    }

    /// Says whether one more invocation would find a place at once, apart from the node's budget. An invocation that is
    /// about to take a place counts as well, so that two requests in one instant overlap.
    pub(super) fn has_place(&self, key: FunctionKey, serving: &ServingRelease) -> bool {
        let function = &self.functions[key];
        let entitled = function.work.busy + function.queue.waiting() + function.queue.storing();
        entitled < to_usize(serving.rules.places())
    }

    /// Returns why a request would not be accepted now, if it would not.
    #[must_use]
    pub fn refusal(&self, now: Now, submit: &Submit) -> Option<Rejection> {
        self.admit(now, submit).err()
    }

    fn admit(&self, now: Now, submit: &Submit) -> Result<(FunctionKey, Arc<ServingRelease>), Rejection> {
        let skipped = |skip, retry_after| Err(Rejection::Skipped { skip, retry_after });
        let key = self.functions.find(&submit.function).ok_or(Rejection::NoSuchFunction)?;
        let function = &self.functions[key];
        let serving = match &function.presence {
            Presence::Serving(serving) => serving,
            Presence::Absent => return Err(self.unknown(&submit.function)),
            Presence::Building => {
                let reason = "its dependencies are being installed".to_owned();
                return Err(Rejection::Unavailable { reason });
            }
            Presence::Invalid => {
                let error = function
                    .error
                    .as_deref()
                    .unwrap_or("no version of it could run")
                    .to_owned();
                return Err(Rejection::Invalid { error });
            }
        };
        if let Some(error) = self.node.refusal(&serving.rules) {
            return Err(Rejection::Invalid { error });
        }
        if !function.is_enabled() {
            return skipped(Skip::Disabled, None);
        }
        // Nobody could repeat a call that follows something stored: it is stored too, and the next fnd runs it.
        let follows = matches!(submit.trigger, Trigger::Hook | Trigger::Alert) && !submit.wait;
        if !self.phase.is_serving() && !follows {
            let reason = "fnd is draining: it finishes running work and accepts nothing new".to_owned();
            return Err(Rejection::Unavailable { reason });
        }
        if submit.expires_ms.is_some_and(|at| at <= now.unix_ms) {
            return skipped(Skip::Expired, None);
        }
        if let Some(reason) = self.start_refusal(key).filter(|_| submit.wait) {
            return Err(Rejection::Unavailable { reason });
        }
        // A run that is only recorded writes nothing.
        if let Some(why) = function.full.as_deref().filter(|_| submit.skipped.is_none()) {
            return Err(Rejection::Quota { why: why.to_owned() });
        }
        match (serving.rules.kind.is_service(), submit.trigger == Trigger::Load) {
            (true, true) => return Ok((key, Arc::clone(serving))),
            (true, false) => return Err(Rejection::Service),
            // The run was requested while the function was a service.
            (false, true) => return skipped(Skip::Overlap, None),
            (false, false) => {}
        }
        if submit.skipped.is_some() {
            return Ok((key, Arc::clone(serving)));
        }
        let queue = &serving.rules.queue;
        if let Some(wait) = queue
            .rate
            .and_then(|rate| rate_wait(rate, function.work.rate_paid, now.mono))
        {
            return skipped(Skip::Rate, Some(wait));
        }
        let place = self.has_place(key, serving);
        // Every accepted invocation counts, also one that waits for a retry: otherwise failing invocations would pile
        // up without bound.
        let held = to_usize(serving.rules.places()).saturating_add(to_usize(queue.max));
        match submit.overlap.unwrap_or(queue.overlap) {
            Overlap::Reject if !place => skipped(Skip::Overlap, None),
            // A replacing invocation frees as much as it takes, and a skipped one does not wait.
            Overlap::Replace | Overlap::Skip if !place => Ok((key, Arc::clone(serving))),
            Overlap::Queue | Overlap::Reject | Overlap::Replace | Overlap::Skip
                if function.queue.live().len() >= held =>
            {
                skipped(Skip::QueueFull, None)
            }
            Overlap::Queue | Overlap::Reject | Overlap::Replace | Overlap::Skip => Ok((key, Arc::clone(serving))),
        }
    }

    /// Makes an invocation of a request. `load_key` is the content that runs by itself, if it is such a run.
    pub(super) fn accept(
        &mut self,
        now: Now,
        (key, serving): (FunctionKey, &ServingRelease),
        (submit, load_key): (Submit, Option<Version>),
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
        let dead_letter = durable && may_become_dead_letter(submit.trigger, &submit.function, submit.asks_dead_letter);
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
        })));
        let not_before = submit.not_before_ms.map(|at| on_mono(now, at));
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
            expires: submit.expires_ms.map(|at| on_mono(now, at)),
            priority: submit.priority,
            number: self.next_number(),
            stage: InvocationStage::Storing { not_before, end: None },
            durable,
            order_key: payload.cause.as_deref().and_then(Cause::order_key).map(Arc::from),
            payload,
            key: submit.idempotency_key,
            acknowledge: acknowledge.into_iter().collect(),
            waiters: waiters.into_iter().collect(),
            caller_gone: false,
            attempts: 0,
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
    }

    /// Adds an invocation to the map and its queue and arms its timers.
    pub(super) fn insert_invocation(&mut self, invocation: Invocation) {
        self.functions[invocation.function].queue.add(&invocation);
        self.waited.add(&invocation);
        if let Some(deadline) = invocation.deadline {
            self.timers.arm(deadline.at, Timer::Deadline(invocation.id));
        }
        if let Some(at) = invocation.expires {
            self.timers.arm(at, Timer::Expire(invocation.id));
        }
        self.invocations.insert(invocation.id, invocation);
    }

    /// Lets an invocation wait for its turn, from `not_before` on if that is in the future.
    pub(super) fn settle_in(&mut self, now: Now, id: InvocationId, not_before: Option<Duration>) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        match not_before {
            Some(until) if until > now.mono => {
                let queue = &mut self.functions[invocation.function].queue;
                queue.change(invocation, InvocationStage::Delayed { until });
                self.timers.arm(until, Timer::Begin(id));
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

    /// Handles a durable invocation that is on disk.
    pub(super) fn stored(&mut self, now: Now, id: InvocationId, out: &mut Vec<Action>) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        let InvocationStage::Storing { not_before, end } = &invocation.stage else {
            // One that is not durable runs whether it was stored or not, and a second answer of the ledger is ignored.
            return;
        };
        let (not_before, end) = (*not_before, end.clone());
        for reply in invocation.acknowledge.drain(..) {
            out.push(Action::Reply(reply, Box::new(Answer::Queued(id))));
        }
        match end {
            Some(end) => self.finish(now, id, end, out),
            None => self.settle_in(now, id, not_before),
        }
    }

    /// Handles a durable invocation that could not be stored: the callers get an error, nothing runs, nothing is
    /// recorded.
    pub(super) fn store_failed(&mut self, now: Now, id: InvocationId, out: &mut Vec<Action>) {
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
        // The next one of its order key may begin.
        self.line_up(now, invocation.function);
        // The next run of a service waits as after a failed one.
        self.service_over(now, invocation.function, (Reason::Spawn, Duration::ZERO), out);
    }

    /// Ends the oldest invocation that has, or is about to have, a place, in favour of the newest.
    fn replace_oldest(&mut self, now: Now, key: FunctionKey, newest: InvocationId, out: &mut Vec<Action>) {
        const WHY: &str = "replaced by a newer invocation (queue.overlap)";
        let function = &self.functions[key];
        let workers = function
            .work
            .running
            .iter()
            .filter_map(|id| Some((*id, self.workers.get(id)?)));
        let runs = workers.flat_map(|(id, worker)| worker.runs.iter().map(move |run| (id, run)));
        let going_on = runs.filter(|(_, run)| run.ending.is_none());
        let oldest = going_on.min_by_key(|(id, run)| (run.started.mono, *id));
        if let Some((worker, run)) = oldest {
            let run = run.invocation;
            return self.ask_to_end(now, (worker, run), EndCause::Cancelled(WHY.into()), out);
        }
        // All running invocations are already ending: the oldest one that waits is given up instead.
        if let Some(oldest) = function
            .queue
            .live()
            .iter()
            .find(|id| self.is_waiting(**id) && **id != newest)
            .copied()
        {
            self.give_up(now, oldest, (Skip::Overlap, WHY), out);
        }
    }

    fn is_waiting(&self, id: InvocationId) -> bool {
        self.invocations
            .get(&id)
            .is_some_and(|invocation| match &invocation.stage {
                InvocationStage::Ready
                | InvocationStage::Claiming { .. }
                | InvocationStage::Claimed
                | InvocationStage::Storing { end: None, .. } => true,
                InvocationStage::Storing { end: Some(_), .. }
                | InvocationStage::Delayed { .. }
                | InvocationStage::Running { .. }
                | InvocationStage::BackingOff { .. }
                | InvocationStage::Lost => false,
            })
    }

    /// Ends an invocation that does not run, for a reason outside of it. If it was never started, it is skipped;
    /// otherwise it keeps the reason of its last attempt and is not retried.
    pub(super) fn give_up(&mut self, now: Now, id: InvocationId, (skip, why): (Skip, &str), out: &mut Vec<Action>) {
        let Some(invocation) = self.invocations.get(&id) else {
            return;
        };
        let end = match &invocation.last {
            _ if matches!(invocation.stage, InvocationStage::Lost) => {
                InvocationEnd::new(Reason::Interrupted, super::restore::LOST)
            }
            Some((reason, message)) => InvocationEnd::new(*reason, message.clone()),
            None => InvocationEnd::new(Reason::Skipped(skip), why),
        };
        self.end(now, id, end, out);
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

fn reject(reply: Option<ReplyTo>, rejection: Rejection, out: &mut Vec<Action>) {
    if let Some(reply) = reply {
        out.push(Action::Reply(reply, Box::new(Answer::Rejected(rejection))));
    }
}
