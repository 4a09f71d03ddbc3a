//! Decides what follows an attempt, and ends invocations: after their last attempt, or for a reason outside of the attempt
//! (cancellation, deadline, expiry).

use super::Supervisor;
use super::chain::CALLER_LEFT;
use super::service::STEADY_AFTER;
use crate::messages::ReplyTo;
use crate::messages::action::{Action, Answer, Notice};
use crate::messages::end_cause::EndCause;
use crate::messages::event::{LAST_RESULT_MAX, LastAttempt};
use crate::records::cause::Cause;
use crate::records::outcome::{Class, Exhausted, Reason, Skip, Trigger};
use crate::records::{AttemptRecord, InvocationRecord, RunResult};
use crate::run_state::function::{Presence, SupervisedFunction};
use crate::run_state::invocation::{Invocation, InvocationEnd, InvocationStage, WallTime};
use crate::run_state::releases::ServingRelease;
use crate::run_state::timers::Timer;
use fnd_wire::ids::InvocationId;
use std::time::Duration;

/// Message of an invocation that somebody has cancelled.
pub(super) const ON_REQUEST: &str = "cancelled on request";

/// The next step of an invocation after an attempt.
enum AfterAttempt {
    /// Another attempt at this instant.
    Again(Duration),
    /// No further attempt; the limit that ran out, if any did.
    End(Option<Exhausted>),
}

impl Supervisor {
    /// Records an ended attempt and decides what becomes of its invocation, by the rules of the version that ran.
    pub(super) fn conclude(&mut self, serving: &ServingRelease, mut record: AttemptRecord, result: Option<RunResult>) {
        let id = record.invocation;
        let Some(invocation) = self.invocations.get_mut(&id) else {
            let defect = format!(
                "attempt {} of {id} ended, but there is no such invocation",
                record.attempt.0
            );
            self.out.push(Action::Notice(Notice::Defect(defect)));
            return;
        };
        let key = invocation.function;
        if record.attempt.0 < invocation.attempts {
            // The previous fnd started the next attempt, then went down before this end was on disk.
            let function = &mut self.functions[key];
            keep_last(function, &record, invocation.trigger, result);
            let stands = Box::new(invocation.record(&function.name));
            self.out.push(Action::Record(Box::new(record), stands));
            return;
        }
        invocation.last = Some((record.reason, record.message.clone()));
        // A poll without a result keeps the result of the poll before it.
        if record.reason == Reason::ExecuteAgain && result.is_some() {
            invocation.previous.clone_from(&result);
        }
        match self.next(serving, &record) {
            AfterAttempt::Again(at) => {
                let until = WallTime::of_instant(self.now, at);
                record.next_attempt_ms = Some(until.unix_ms);
                self.change(id, InvocationStage::BackingOff { until });
                let function = &mut self.functions[key];
                if let Some(invocation) = self.invocations.get_mut(&id) {
                    invocation.taken_over = None;
                    keep_last(function, &record, invocation.trigger, result);
                    let stands = Box::new(invocation.record(&function.name));
                    self.out.push(Action::Record(Box::new(record), stands));
                }
                self.out.push(Action::Status(function.name.clone()));
                if !self.phase.is_serving() {
                    self.send_away(id, true);
                }
            }
            AfterAttempt::End(exhausted) => {
                // If the deadline cut the attempt short, the invocation ran out of its deadline, as if a retry no
                // longer fitted.
                let cut = (record.reason == Reason::Deadline).then_some(Exhausted::Deadline);
                let exhausted = exhausted.or(cut);
                let end = InvocationEnd {
                    reason: record.reason,
                    message: record.message.clone(),
                    exhausted,
                    attempt: Some(Box::new((record, result))),
                };
                self.finish(id, end);
            }
        }
    }

    fn next(&mut self, serving: &ServingRelease, record: &AttemptRecord) -> AfterAttempt {
        let Some(invocation) = self.invocations.get(&record.invocation) else {
            return AfterAttempt::End(None);
        };
        let function = &self.functions[invocation.function];
        // A retry waits for an invalid file until that is mended, as all other work of the function does.
        let is_gone = matches!(function.presence, Presence::Absent) || !function.is_enabled();
        // The run of a content by itself is not retried once other content serves: that content has its own run.
        let newest = function.serving().map(|newest| newest.load_key);
        let superseded = newest.is_some_and(|newest| invocation.load_key.is_some_and(|content| content != newest));
        // A caller who waits could not be answered after a retry that only the next fnd makes, or that waits for a file.
        let unanswerable = !invocation.durable
            && (newest.is_none()
                || invocation.caller_gone
                || !self.phase.is_serving()
                || self.has_lost_caller(invocation));
        // Each run of a service is an invocation with one attempt.
        if is_gone || serving.rules.kind.is_service() || superseded || unanswerable {
            return AfterAttempt::End(None);
        }
        let again = |at: Duration| match invocation.deadline {
            Some(deadline) if at >= deadline.at => AfterAttempt::End(Some(Exhausted::Deadline)),
            _ => AfterAttempt::Again(at),
        };
        let class = record.reason.class();
        if let (Class::ExecuteAgain, Some(poll)) = (class, serving.rules.poll) {
            let at = self.now.mono.saturating_add(poll.repeat);
            let started = invocation.started;
            return match started.is_some_and(|started| started.elapsed(at) > poll.until) {
                true => AfterAttempt::End(Some(Exhausted::Poll)),
                false => again(at),
            };
        }
        let retry = &serving.rules.retry;
        // The exit code counts only where it is the reason. After a timeout it says only how the program reacted to
        // SIGTERM.
        let by_code = matches!(class, Class::Error | Class::Transient);
        let excepted = by_code && record.exit_code.is_some_and(|code| retry.not_on_exit.contains(&code));
        if excepted || !retry.on.contains(&class) {
            return AfterAttempt::End(None);
        }
        let taken_over = invocation.taken_over.as_ref();
        if taken_over.is_some_and(|taken_over| taken_over.is_last) {
            return AfterAttempt::End(Some(Exhausted::Retries));
        }
        if invocation.retries() >= retry.retries {
            // Where the manifest allows no retry, no limit ran out.
            return AfterAttempt::End((retry.retries > 0).then_some(Exhausted::Retries));
        }
        let delay = retry.backoff.delay(invocation.retries() + 1, self.random.f64());
        again(self.now.mono.saturating_add(delay))
    }

    /// Ends an invocation: writes its one final record, with the attempt that ended with it if there was one.
    pub(super) fn finish(&mut self, id: InvocationId, mut end: InvocationEnd) {
        let attempt = end.attempt.take();
        let Some(invocation) = self.remove_invocation(id) else {
            return;
        };
        let function = &mut self.functions[invocation.function];
        // Without a last attempt, the result is the one of the attempt before.
        let result = match attempt.as_deref() {
            Some((_, result)) => result.clone(),
            None => invocation.previous.clone(),
        };
        let lasted = attempt.as_deref().map_or(Duration::ZERO, |(attempt, _)| {
            Duration::from_micros(attempt.duration_us)
        });
        let (reason, key) = (end.reason, invocation.function);
        // The next invocation with the same key may begin, or another invocation may be claimed in this place.
        let has_lane = invocation.order_key.is_some() || invocation.queue_key.is_some();
        let frees = matches!(invocation.stage, InvocationStage::Claiming { .. }) || has_lane;
        let record = invocation.ended(&function.name, self.now, end, result);
        debug_assert!(record.state.is_final(), "{:?}", record.state);
        if record.has_run() {
            function.runs = function.runs.saturating_add(1);
            function.failures = function.failures.saturating_add(record.state.is_failure().into());
        }
        // A failed call of a hook may be shown in the record of the invocation that it follows.
        let marks = invocation.payload.cause.as_deref().and_then(Cause::marks);
        let may_have_hooks = match &function.presence {
            Presence::Serving(serving) => serving.rules.has_hooks,
            Presence::Building | Presence::Invalid => true,
            // Before the first scan is over, its file may still be found.
            Presence::Absent => !self.first_scan_done,
        };
        // The calls that follow the end are stored in the transaction of the final record, so `Follow` comes before it.
        if marks.is_some() || may_have_hooks {
            self.out.push(Action::Follow(id, Box::new(invocation.payload.clone())));
        }
        // Only callers who wait get the result as it is. The history gets it with the values of secrets masked.
        let kept = Box::new(record.to_kept());
        if let Some(ended) = attempt {
            let (attempt, result) = *ended;
            keep_last(function, &attempt, invocation.trigger, result);
            self.out.push(Action::Record(Box::new(attempt), kept));
            self.out.push(Action::Status(function.name.clone()));
        } else {
            self.out.push(Action::Update(kept));
        }
        self.after_end(&invocation, record);
        if frees {
            self.line_up(key);
        }
        // The run is out of the queue by now, so the function counts its process as missing.
        self.service_over(key, reason, lasted);
    }

    /// Removes an invocation from the map and its queue and disarms its timers.
    pub(super) fn remove_invocation(&mut self, id: InvocationId) -> Option<Invocation> {
        let invocation = self.invocations.remove(&id)?;
        self.waited.remove(&invocation);
        let function = &mut self.functions[invocation.function];
        // `give_back` keeps the charge while a claim holds a place, so the claim leaves the queue first.
        function.work.queue.remove(&invocation);
        if matches!(invocation.stage, InvocationStage::Claiming { holds: true, .. }) {
            self.node.give_back(function);
        }
        self.groups.give_back(invocation.claim_group());
        self.timers.disarm(invocation.deadline_at(), Timer::Deadline(id));
        self.timers.disarm(invocation.expires_at(), Timer::Expire(id));
        self.timers.disarm(invocation.stage.begins_at(), Timer::Begin(id));
        Some(invocation)
    }

    /// Tells the callers that wait for an invocation of its end, and has its temporary files deleted.
    pub(super) fn after_end(&mut self, invocation: &Invocation, record: InvocationRecord) {
        if let Some((last, others)) = invocation.waiters.split_last() {
            for reply in others {
                self.answer(*reply, Answer::Finished(Box::new(record.clone())));
            }
            self.answer(*last, Answer::Finished(Box::new(record)));
        }
        self.release_files(invocation);
    }

    /// Has the temporary files of an ended invocation deleted.
    pub(super) fn release_files(&mut self, invocation: &Invocation) {
        let (function, id) = (&mut self.functions[invocation.function], invocation.id);
        match function.id {
            // An invocation without an attempt of a script has no files of its own.
            _ if !invocation.has_tmp => {}
            Some(function) => self.out.push(Action::Release {
                function,
                invocation: id,
            }),
            // It ran under an earlier fnd, and its function is not installed yet.
            None => function.work.unreleased.push(id),
        }
    }

    /// Cancels an invocation on request.
    pub(super) fn cancel(&mut self, id: InvocationId, reply: ReplyTo) {
        let answer = match self.end_all(id, EndCause::Cancelled(ON_REQUEST.into())) {
            true => Answer::Done,
            false => Answer::NotFound,
        };
        self.answer(reply, answer);
    }

    /// Handles a caller that closed its connection before the answer.
    pub(super) fn caller_left(&mut self, id: InvocationId, reply: ReplyTo) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            // The invocation has ended, was refused, or is shared by idempotency key with another caller and goes on.
            // An answer to a caller that has left is dropped.
            return;
        };
        invocation.waiters.retain(|waiter| *waiter != reply);
        // A caller with a key comes back with it, and a durable invocation must run.
        let unwanted = invocation.waiters.is_empty() && invocation.key.is_none() && !invocation.durable;
        if unwanted && invocation.called().is_some() {
            // The caller is another function here. Its process that waited for this call has ended, or has closed the
            // connection.
            self.end_call(id, CALLER_LEFT);
        } else if unwanted && invocation.attempts == 0 && matches!(invocation.stage, InvocationStage::Ready) {
            let why = "its caller closed the connection before it started";
            self.end(id, InvocationEnd::new(Reason::Cancelled, why));
        }
    }

    /// Handles a timer that is due.
    pub(super) fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Deadline(id) => {
                let deadline = self.invocations.get(&id).and_then(|invocation| invocation.deadline);
                let ending = match deadline {
                    Some(deadline) if deadline.of_caller => EndCause::CallersDeadline,
                    _ => EndCause::Deadline,
                };
                self.end_all(id, ending);
            }
            Timer::Expire(id) => {
                self.give_up(id, (Skip::Expired, "it expired before it started"));
            }
            Timer::Attempt(worker, id) => self.attempt_due(worker, id),
            Timer::Worker(id) => self.worker_due(id),
            Timer::ServiceCheck(id) => self.check_service(id),
            Timer::Begin(id) => self.make_ready(id),
            Timer::Hold(key) => self.hold_over(key),
            Timer::Claims => self.claim_again(),
            Timer::Starts => self.starts_due(),
            Timer::Trial(key) => {
                self.try_again(key, false);
                self.refuse_trial(key);
                self.line_up(key);
            }
        }
    }

    /// Ends an invocation in any stage; says whether the invocation exists.
    pub(super) fn end_all(&mut self, id: InvocationId, ending: EndCause) -> bool {
        let Some(invocation) = self.invocations.get(&id) else {
            return false;
        };
        let is_deadline = ending.reason() == Reason::Deadline;
        if let Some(worker) = invocation.stage.worker() {
            // Callers of an attempt that is already ending hear of its end anyway.
            let goes_on = self.attempt_of(id).is_some_and(|(_, run)| run.ending.is_none());
            self.end_attempt(worker, id, ending, is_deadline && goes_on);
            return true;
        }
        let serving = self.functions[invocation.function].serving();
        let message = ending.words(serving.map(|serving| &*serving.rules), None);
        let end = InvocationEnd {
            // Without an attempt there was nothing to try again, so no limit ended the tries.
            exhausted: (is_deadline && invocation.attempts > 0).then_some(Exhausted::Deadline),
            ..InvocationEnd::new(ending.reason(), message)
        };
        self.end(id, end);
        true
    }

    /// Ends an invocation that does not run.
    pub(super) fn end(&mut self, id: InvocationId, end: InvocationEnd) {
        let Some(invocation) = self.invocations.get(&id) else {
            return;
        };
        match invocation.stage {
            // The end is kept until the acceptance is stored, because callers get the acceptance first. The first end
            // stays. From now on the invocation takes no place.
            InvocationStage::Storing { not_before, end: None } => {
                let key = invocation.function;
                let end = Some(end);
                self.change(id, InvocationStage::Storing { not_before, end });
                // The next invocation with the same key may begin.
                self.line_up(key);
            }
            InvocationStage::Storing { end: Some(_), .. } => {}
            InvocationStage::Lost => {
                let attempt = self.lost_attempt(id).map(|attempt| Box::new((attempt, None)));
                self.finish(id, InvocationEnd { attempt, ..end });
            }
            // If the invocation is being claimed, the ledger has got its claim before, and writes the final record
            // after that.
            _ => self.finish(id, end),
        }
    }
}

/// Keeps an attempt as its function's last.
fn keep_last(function: &mut SupervisedFunction, record: &AttemptRecord, trigger: Trigger, result: Option<RunResult>) {
    let kept = result.map(|result| result.to_kept());
    let before = function.last.as_ref().and_then(|last| last.failing_since_ms);
    // A service may never succeed. It was well if it ran for a while.
    let was_well = function.service().is_some() && Duration::from_micros(record.duration_us) >= STEADY_AFTER;
    function.last = Some(Box::new(LastAttempt {
        attempt: record.clone(),
        trigger,
        result: kept.filter(|result| result.data.len() <= LAST_RESULT_MAX),
        failing_since_ms: record.failing_since(before.filter(|_| !was_well)),
    }));
}
