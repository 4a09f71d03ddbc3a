//! Decides whether a request to run is accepted, and what that means for other invocations of the function.

use super::Supervisor;
use super::admission::{rate_cost, rate_wait};
use super::flow::{NoPlace, value_of};
use crate::messages::Now;
use crate::messages::action::{Action, Answer, Notice, Rejection};
use crate::messages::end_cause::EndCause;
use crate::messages::rules::{Overlap, QueueRules, Rules};
use crate::messages::submit::Submit;
use crate::records::outcome::{Reason, Skip, Trigger};
use crate::run_state::function::Presence;
use crate::run_state::invocation::{InvocationEnd, InvocationStage};
use crate::run_state::releases::ServingRelease;
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::ids::{InvocationId, WorkerId};
use std::sync::Arc;

/// Why an invocation is skipped that must not run beside another one.
const OVERLAPS: &str = "another invocation was running (`overlap`)";

/// Why an invocation ends in favour of another one.
const REPLACED: &str = "replaced by a newer invocation (queue.overlap)";

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
    /// Handles a request: the caller shares an invocation, or the request is accepted, or it is refused.
    pub(super) fn submit(&mut self, mut submit: Submit) {
        if self.invocations.contains_key(&submit.id) {
            let defect = format!("the id {} was submitted twice", submit.id);
            self.out.push(Action::Notice(Notice::Defect(defect)));
            let rejection = Rejection::unavailable("its id is in use");
            return self.answer(submit.reply, Answer::Rejected(rejection));
        }
        // This comes before everything that may refuse the run. A run that is still counted as requested is not
        // requested again, so a refused one would leave the service without a process for ever.
        if submit.trigger == Trigger::Load
            && let Some(key) = self.functions.find(&submit.function)
        {
            let requested = &mut self.functions[key].work.requested;
            *requested = requested.saturating_sub(1);
        }
        if let Err(rejection) = self.with_caller(&mut submit) {
            return self.answer(submit.reply, Answer::Rejected(rejection));
        }
        // A request that shares an invocation needs no room, so it comes before the checks of the queue.
        if self.join(&submit) {
            return;
        }
        let id = submit.id;
        match self.take(submit) {
            Ok((key, Some(no_place))) => self.replace(key, id, no_place),
            Ok((_, None)) => {}
            Err(refused) => {
                let (submit, rejection) = *refused;
                if let Some(reason) = recorded_as(&submit, &rejection) {
                    return self.record_refusal(submit, reason, &rejection);
                }
                let skip = rejection.skip();
                self.answer(submit.reply, Answer::Rejected(rejection));
                let (function, trigger) = (submit.function, submit.trigger);
                // Files and messages are not refused: they wait in their directory and in their stream.
                if let Some(skip) = skip.filter(|_| !trigger.waits_elsewhere()) {
                    let notice = Notice::Rejected {
                        function,
                        trigger,
                        skip,
                    };
                    self.out.push(Action::Notice(notice));
                }
            }
        }
    }

    /// Accepts a request if its function takes it now. Returns the function. If an older invocation has to end in
    /// favour of the new one, also returns where there is no place: the caller then calls [`Self::replace`].
    pub(super) fn take(&mut self, mut submit: Submit) -> Result<(FunctionKey, Option<NoPlace>), RefusedRequest> {
        let checked = self.admit(self.now, &submit).and_then(|admitted| {
            check_input(&submit, &admitted.serving.rules)?;
            Ok(admitted)
        });
        let admitted = match checked {
            Ok(admitted) => admitted,
            Err(rejection) => return Err(Box::new((submit, rejection))),
        };
        let (key, serving, no_place) = (admitted.key, admitted.serving, admitted.no_place);
        let QueueRules { overlap, rate, .. } = serving.rules.queue;
        let overlap = submit.overlap.unwrap_or(overlap);
        let value = match overlap {
            Overlap::Queue => value_of(&submit.payload, &serving.rules),
            // The body can be large, and lie on the disk, so it is not read a second time.
            _ => admitted.value,
        };
        if no_place.is_some() && overlap == Overlap::Skip && submit.skipped.is_none() {
            submit.skipped = Some((Reason::Skipped(Skip::Overlap), OVERLAPS.into()));
        }
        let skipped = submit.skipped.is_some();
        // A skipped request does not count for the rate.
        if let Some(rate) = rate.filter(|_| !skipped) {
            let paid = &mut self.functions[key].work.rate_paid;
            *paid = (*paid).max(self.now.mono).saturating_add(rate_cost(rate));
        }
        self.accept((key, &serving), (submit, None, value));
        Ok((key, no_place.filter(|_| overlap == Overlap::Replace && !skipped)))
    }

    /// Ends the oldest invocation in favour of an accepted one: of all of the function, or of those with the value of its key.
    pub(super) fn replace(&mut self, key: FunctionKey, id: InvocationId, no_place: NoPlace) {
        let oldest = match no_place {
            NoPlace::Key => self.oldest_with_its_key(key, id),
            NoPlace::Function => self.oldest_with_a_place(key, id),
        };
        match oldest {
            Some((oldest, Some(worker))) => self.ask_to_end(worker, oldest, EndCause::Cancelled(REPLACED.into())),
            Some((oldest, None)) => self.give_up(oldest, (Skip::Overlap, REPLACED)),
            None => {}
        }
    }

    /// Records a refused run of a trigger. No caller waits for the answer, so only the history can show the refusal.
    fn record_refusal(&mut self, mut submit: Submit, reason: Reason, rejection: &Rejection) {
        let why = match reason {
            Reason::Skipped(Skip::Overlap) => OVERLAPS.to_owned(),
            _ => rejection.words(&submit.function),
        };
        let key = self.functions.find(&submit.function);
        let known = key.and_then(|key| Some((key, self.functions[key].serving()?.clone())));
        if let Some((key, serving)) = known {
            submit.skipped = Some((reason, why.into()));
            // It ends at once, so it waits for no other one of its key.
            self.accept((key, &serving), (submit, None, None));
        }
    }

    /// Lets a request share the live invocation of the same idempotency key, if there is one. A caller who does not wait is
    /// promised that the invocation outlives this fnd.
    fn join(&mut self, submit: &Submit) -> bool {
        let Some(idempotency_key) = &submit.idempotency_key else {
            return false;
        };
        let function = self.functions.get(&submit.function);
        let Some(id) = function.and_then(|function| function.work.queue.with_key(idempotency_key)) else {
            return false;
        };
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return false;
        };
        let Some(reply) = submit.reply else { return true };
        // The queue finds a key by its owner and word alone. The request must be the same, too.
        if invocation.key.as_ref() != Some(idempotency_key) {
            self.answer(reply, Answer::Rejected(Rejection::KeyReused));
            return true;
        }
        match (submit.wait, &invocation.stage) {
            (true, _) => invocation.waiters.push(reply),
            (false, InvocationStage::Storing { .. }) => invocation.acknowledge.push(reply),
            (false, _) => match self.joining.get_mut(&id) {
                Some(joining) => joining.push(reply),
                None if invocation.durable => self.answer(reply, Answer::Queued(id)),
                None => self.make_durable(id, submit, reply),
            },
        }
        true
    }

    /// Says whether one more invocation would find a place at once, apart from the node's budget. An invocation that is
    /// about to take a place counts as well, so that two requests in one instant overlap.
    pub(super) fn has_place(&self, key: FunctionKey, serving: &ServingRelease) -> bool {
        let function = &self.functions[key];
        // `startable` leaves out invocations that wait for another one with the same key: they take no process soon.
        let entitled = function.work.busy + function.work.queue.startable() + function.work.queue.storing();
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
                return Err(Rejection::unavailable("its dependencies are being installed"));
            }
            Presence::Invalid => {
                let error = function.error.as_deref();
                let error = error.unwrap_or("no version of it could run").to_owned();
                return Err(Rejection::Invalid { error });
            }
        };
        if let Some(error) = self.node.refusal(&serving.rules) {
            return Err(Rejection::Invalid { error });
        }
        if !function.is_enabled() {
            return skipped(Skip::Disabled, None);
        }
        // Hooks and alerts are accepted also during a drain. Their cause is stored, and nobody would repeat the call.
        // So the call is stored, too, and the next fnd runs it.
        let follows = matches!(submit.trigger, Trigger::Hook | Trigger::Alert) && !submit.wait;
        if !self.phase.is_serving() && !follows {
            let reason = "fnd is draining: it finishes running work and accepts nothing new; `fndctl drain --cancel` ends the drain";
            return Err(Rejection::unavailable(reason));
        }
        if submit.expires_ms.is_some_and(|at| at <= now.unix_ms) {
            return skipped(Skip::Expired, None);
        }
        if let Some(reason) = self.start_refusal(key).filter(|_| submit.wait) {
            return Err(Rejection::unavailable(reason));
        }
        // A skipped run is only recorded. It writes no files, so a full quota does not matter.
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
            admitted.no_place = self.no_place(key, serving, admitted.value.as_ref(), overlap);
        }
        let place = admitted.no_place.is_none();
        // Every accepted invocation counts, also one that waits for a retry: otherwise failing invocations would pile
        // up without bound.
        let held = to_usize(serving.rules.places()).saturating_add(to_usize(queue.max));
        match overlap {
            Overlap::Reject if !place => skipped(Skip::Overlap, None),
            // A replacing invocation frees as much as it takes, and a skipped one does not wait.
            Overlap::Replace | Overlap::Skip if !place => Ok(admitted),
            _ if function.work.queue.live().len() >= held => skipped(Skip::QueueFull, None),
            _ => Ok(admitted),
        }
    }

    /// Returns the oldest invocation that has, or is about to have, a place, and its worker if it runs.
    fn oldest_with_a_place(&self, key: FunctionKey, newest: InvocationId) -> Option<(InvocationId, Option<WorkerId>)> {
        let workers = self.workers_of(key);
        let runs = workers.flat_map(|(id, worker)| worker.runs.iter().map(move |run| (id, run)));
        let going_on = runs.filter(|(_, run)| run.ending.is_none());
        let oldest = going_on.min_by_key(|(id, run)| (run.started.mono, *id));
        if let Some((worker, run)) = oldest {
            return Some((run.invocation, Some(worker)));
        }
        // All running invocations are already ending: the oldest one that waits is given up instead.
        let mut live = self.functions[key].work.queue.live().iter().copied();
        let oldest = live.find(|id| self.is_waiting(*id) && *id != newest)?;
        Some((oldest, None))
    }

    fn is_waiting(&self, id: InvocationId) -> bool {
        self.invocations.get(&id).is_some_and(|invocation| {
            let stage = &invocation.stage;
            stage.is_claimed()
                || matches!(
                    stage,
                    InvocationStage::Ready | InvocationStage::Storing { end: None, .. }
                )
        })
    }

    /// Ends an invocation that does not run, for a reason outside of it. If it was never started, it is skipped;
    /// otherwise it keeps the reason of its last attempt and is not retried.
    pub(super) fn give_up(&mut self, id: InvocationId, (skip, why): (Skip, &str)) {
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
        self.end(id, end);
    }
}

/// Returns the reason with which a refused request is recorded; nothing if its caller learns of the refusal, or its
/// trigger brings the request again.
fn recorded_as(submit: &Submit, rejection: &Rejection) -> Option<Reason> {
    if matches!(rejection, Rejection::Input(_)) {
        // Without a record, a file or a message would bring the same payload again and again. A redrive is recorded
        // although its caller learns of the refusal: the record takes the place of the dead letter.
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
