//! Decides whether a request to run is accepted, and what that means for other invocations of the function.

use super::Supervisor;
use super::admission::{rate_cost, rate_wait};
use super::keys::{NoPlace, value_of};
use crate::messages::action::{Action, Answer, Notice, Rejection};
use crate::messages::end_cause::EndCause;
use crate::messages::rules::{Overlap, QueueRules, Rules};
use crate::messages::submit::Submit;
use crate::messages::{Now, ReplyTo};
use crate::records::outcome::{Reason, Skip, Trigger};
use crate::run_state::function::Presence;
use crate::run_state::invocation::{InvocationEnd, InvocationStage};
use crate::run_state::releases::ServingRelease;
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::ids::InvocationId;
use std::sync::Arc;

/// Why an invocation is skipped that must not run beside another one.
const OVERLAPS: &str = "another invocation was running (`overlap`)";

/// Why an invocation ends in favour of another one.
const REPLACED: &str = "replaced by a newer invocation (queue.overlap)";

/// The effect of an acceptance while all places are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// No other invocation is touched.
    Nothing,
    /// The oldest invocation ends in its favour: of all of the function, or of those with the value of its key.
    Replace(Option<NoPlace>),
}

/// A request that its function does not take, and why.
pub(super) type RefusedRequest = Box<(Submit, Rejection)>;

/// A request that its function takes. With `overlap = "queue"`, neither the value nor the place matters, and both are absent.
#[derive(Debug)]
struct Admitted {
    key: FunctionKey,
    serving: Arc<ServingRelease>,
    /// The value of the function's key.
    value: Option<Arc<str>>,
    /// Why the new invocation finds no place at once.
    no_place: Option<NoPlace>,
}

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
        if self.join(now, &submit, out) {
            return;
        }
        let id = submit.id;
        match self.take(now, submit, out) {
            Ok((key, after)) => self.follow(now, (key, id), after, out),
            Err(refused) => {
                let (submit, rejection) = *refused;
                if let Some(reason) = recorded_as(&submit, &rejection) {
                    return self.record_refusal(now, submit, (reason, &rejection), out);
                }
                let skip = rejection.skip();
                reject(submit.reply, rejection, out);
                let (function, trigger) = (submit.function, submit.trigger);
                // Files and messages are not refused: they wait in their directory and in their stream.
                let waits = matches!(trigger, Trigger::File | Trigger::Nats);
                out.extend(skip.filter(|_| !waits).map(|skip| {
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
        mut submit: Submit,
        out: &mut Vec<Action>,
    ) -> Result<(FunctionKey, After), RefusedRequest> {
        let admitted = match self.admit(now, &submit) {
            Ok(admitted) => admitted,
            Err(rejection) => return Err(Box::new((submit, rejection))),
        };
        if let Err(rejection) = check_input(&submit, &admitted.serving.rules) {
            return Err(Box::new((submit, rejection)));
        }
        let (key, serving, no_place) = (admitted.key, admitted.serving, admitted.no_place);
        let QueueRules { overlap, rate, .. } = serving.rules.queue;
        let overlap = submit.overlap.unwrap_or(overlap);
        let value = match overlap {
            Overlap::Queue => value_of(&submit.payload, &serving.rules),
            // The body can be large, and lie on the disk, so it is not read a second time.
            Overlap::Skip | Overlap::Reject | Overlap::Replace => admitted.value,
        };
        let overlaps = no_place.is_some();
        if overlaps && overlap == Overlap::Skip && submit.skipped.is_none() {
            submit.skipped = Some((Reason::Skipped(Skip::Overlap), OVERLAPS.into()));
        }
        let skipped = submit.skipped.is_some();
        // A skipped request does not count for the rate.
        if let Some(rate) = rate.filter(|_| !skipped) {
            let paid = &mut self.functions[key].work.rate_paid;
            *paid = (*paid).max(now.mono).saturating_add(rate_cost(rate));
        }
        self.accept(now, (key, &serving), (submit, None, value), out);
        let after = match overlap {
            Overlap::Replace if overlaps && !skipped => After::Replace(no_place),
            Overlap::Queue | Overlap::Reject | Overlap::Replace | Overlap::Skip => After::Nothing,
        };
        Ok((key, after))
    }

    /// Does what follows from an acceptance for other invocations.
    pub(super) fn follow(
        &mut self,
        now: Now,
        (key, id): (FunctionKey, InvocationId),
        after: After,
        out: &mut Vec<Action>,
    ) {
        match after {
            After::Nothing => {}
            After::Replace(Some(NoPlace::Key)) => self.replace_with_its_key(now, key, id, out),
            After::Replace(_) => self.replace_oldest(now, key, id, out),
        }
    }

    /// Records a run that a trigger wanted and that is refused: nobody waits who would learn of it otherwise.
    fn record_refusal(
        &mut self,
        now: Now,
        mut submit: Submit,
        (reason, rejection): (Reason, &Rejection),
        out: &mut Vec<Action>,
    ) {
        let why = match reason {
            Reason::Skipped(Skip::Overlap) => OVERLAPS.to_owned(),
            _ => rejection.words(&submit.function),
        };
        let key = self.functions.find(&submit.function);
        let known = key.and_then(|key| Some((key, self.functions[key].serving()?.clone())));
        if let Some((key, serving)) = known {
            submit.skipped = Some((reason, why.into()));
            // It ends at once, so it waits for no other one of its key.
            self.accept(now, (key, &serving), (submit, None, None), out);
        }
    }

    /// Lets a request share the live invocation of the same idempotency key, if there is one. A caller who does not wait is
    /// promised that the invocation outlives this fnd.
    fn join(&mut self, now: Now, submit: &Submit, out: &mut Vec<Action>) -> bool {
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
            (false, _) => match self.joining.get_mut(&invocation.id) {
                Some(joining) => joining.push(reply),
                None if invocation.durable => out.push(Action::Reply(reply, Box::new(Answer::Queued(invocation.id)))),
                None => {
                    let id = invocation.id;
                    self.make_durable(now, id, (submit, reply), out);
                }
            },
        }
        true
    }

    /// Says whether one more invocation would find a place at once, apart from the node's budget. An invocation that is
    /// about to take a place counts as well, so that two requests in one instant overlap.
    pub(super) fn has_place(&self, key: FunctionKey, serving: &ServingRelease) -> bool {
        let function = &self.functions[key];
        // One that waits for another one of its key takes no process soon.
        let entitled = function.work.busy + function.queue.startable() + function.queue.storing();
        entitled < to_usize(serving.rules.places())
    }

    /// Returns why a request would not be accepted now, if it would not.
    #[must_use]
    pub fn refusal(&self, now: Now, submit: &Submit) -> Option<Rejection> {
        self.admit(now, submit).err()
    }

    fn admit(&self, now: Now, submit: &Submit) -> Result<Admitted, Rejection> {
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
            let reason = "fnd is draining: it finishes running work and accepts nothing new; `fndctl drain --cancel` ends the drain".to_owned();
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
        let mut admitted = Admitted {
            key,
            serving: Arc::clone(serving),
            value: None,
            no_place: None,
        };
        match (serving.rules.kind.is_service(), submit.trigger == Trigger::Load) {
            // A service requests no more runs than it has replicas, so its runs do not overlap.
            (true, true) => return Ok(admitted),
            (true, false) => return Err(Rejection::Service),
            // The run was requested while the function was a service.
            (false, true) => return skipped(Skip::Overlap, None),
            (false, false) => {}
        }
        if submit.skipped.is_some() {
            return Ok(admitted);
        }
        let queue = &serving.rules.queue;
        if let Some(wait) = queue
            .rate
            .and_then(|rate| rate_wait(rate, function.work.rate_paid, now.mono))
        {
            return skipped(Skip::Rate, Some(wait));
        }
        let overlap = submit.overlap.unwrap_or(queue.overlap);
        if overlap != Overlap::Queue {
            admitted.value = value_of(&submit.payload, &serving.rules);
            admitted.no_place = self.no_place(key, serving, (admitted.value.as_ref(), overlap));
        }
        let place = admitted.no_place.is_none();
        // Every accepted invocation counts, also one that waits for a retry: otherwise failing invocations would pile
        // up without bound.
        let held = to_usize(serving.rules.places()).saturating_add(to_usize(queue.max));
        match overlap {
            Overlap::Reject if !place => skipped(Skip::Overlap, None),
            // A replacing invocation frees as much as it takes, and a skipped one does not wait.
            Overlap::Replace | Overlap::Skip if !place => Ok(admitted),
            Overlap::Queue | Overlap::Reject | Overlap::Replace | Overlap::Skip
                if function.queue.live().len() >= held =>
            {
                skipped(Skip::QueueFull, None)
            }
            Overlap::Queue | Overlap::Reject | Overlap::Replace | Overlap::Skip => Ok(admitted),
        }
    }

    /// Ends the oldest invocation that has, or is about to have, a place, in favour of the newest.
    fn replace_oldest(&mut self, now: Now, key: FunctionKey, newest: InvocationId, out: &mut Vec<Action>) {
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
            return self.ask_to_end(now, (worker, run), EndCause::Cancelled(REPLACED.into()), out);
        }
        // All running invocations are already ending: the oldest one that waits is given up instead.
        if let Some(oldest) = function
            .queue
            .live()
            .iter()
            .find(|id| self.is_waiting(**id) && **id != newest)
            .copied()
        {
            self.give_up(now, oldest, (Skip::Overlap, REPLACED), out);
        }
    }

    /// Ends the oldest invocation with the value of the newest one's key, in favour of the newest.
    fn replace_with_its_key(&mut self, now: Now, key: FunctionKey, newest: InvocationId, out: &mut Vec<Action>) {
        let Some(oldest) = self.oldest_with_its_key(key, newest) else {
            return;
        };
        match self.invocations.get(&oldest).map(|invocation| &invocation.stage) {
            Some(InvocationStage::Running { worker }) => {
                let worker = *worker;
                self.ask_to_end(now, (worker, oldest), EndCause::Cancelled(REPLACED.into()), out);
            }
            _ => self.give_up(now, oldest, (Skip::Overlap, REPLACED), out),
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
            _ if matches!(invocation.stage, InvocationStage::Lost) || invocation.taken_over.is_some() => {
                InvocationEnd::new(Reason::Interrupted, super::restore::LOST)
            }
            Some((reason, message)) => InvocationEnd::new(*reason, message.clone()),
            None => InvocationEnd::new(Reason::Skipped(skip), why),
        };
        self.end(now, id, end, out);
    }
}

/// Returns the reason with which a refused request is recorded; nothing if its caller learns of it, or its trigger brings it again.
fn recorded_as(submit: &Submit, rejection: &Rejection) -> Option<Reason> {
    if matches!(rejection, Rejection::Input(_)) {
        // The record of a redrive takes the place of its dead letter. Files and messages would bring the same payload again.
        let is_told = submit.reply.is_some() && submit.trigger != Trigger::Redrive;
        return (!is_told).then_some(Reason::Input);
    }
    let skip = rejection.skip()?;
    (submit.is_unattended() && skip != Skip::Disabled).then_some(Reason::Skipped(skip))
}

/// Refuses a payload that does not match the schema of its function. A run without a payload gets `data` of the manifest, which the
/// judge has checked.
fn check_input(submit: &Submit, rules: &Rules) -> Result<(), Rejection> {
    let Some(schema) = rules.input.as_ref().filter(|_| submit.skipped.is_none()) else {
        return Ok(());
    };
    if submit.payload.data.is_none() && rules.default_payload.data.is_some() {
        return Ok(());
    }
    match schema.mistakes(&submit.payload) {
        mistakes if mistakes.is_empty() => Ok(()),
        mistakes => Err(Rejection::Input(mistakes)),
    }
}

fn reject(reply: Option<ReplyTo>, rejection: Rejection, out: &mut Vec<Action>) {
    if let Some(reply) = reply {
        out.push(Action::Reply(reply, Box::new(Answer::Rejected(rejection))));
    }
}
