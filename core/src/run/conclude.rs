//! Decides what follows an attempt, and ends invocations: after their last attempt, or for a reason outside of the attempt
//! (cancellation, deadline, expiry).

use super::Supervisor;
use super::chain::CALLER_LEFT;
use crate::messages::action::{Action, Answer, Notice};
use crate::messages::end_cause::{CALLERS_DEADLINE, EndCause, deadline_words};
use crate::messages::event::{LAST_RESULT_MAX, LastAttempt};
use crate::messages::{Now, ReplyTo, on_wall};
use crate::records::outcome::{Class, Exhausted, Reason, Skip, Trigger};
use crate::records::{AttemptRecord, RunResult};
use crate::run_state::function::{Presence, SupervisedFunction};
use crate::run_state::invocation::{Invocation, InvocationEnd, InvocationStage};
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
    pub(super) fn conclude(
        &mut self,
        now: Now,
        serving: &ServingRelease,
        (mut record, result): (AttemptRecord, Option<RunResult>),
        out: &mut Vec<Action>,
    ) {
        let id = record.invocation;
        let Some(invocation) = self.invocations.get_mut(&id) else {
            let defect = format!(
                "attempt {} of {id} ended, but there is no such invocation",
                record.attempt.0
            );
            out.push(Action::Notice(Notice::Defect(defect)));
            return;
        };
        let key = invocation.function;
        if record.attempt.0 < invocation.attempts {
            // The previous fnd started the next attempt, then went down before this end was on disk.
            let function = &mut self.functions[key];
            keep_last(function, &record, invocation.trigger, result);
            let stands = Box::new(invocation.record(&function.name));
            out.push(Action::Record(Box::new(record), stands));
            return;
        }
        invocation.last = Some((record.reason, record.message.clone()));
        // A poll without a result keeps the result of the poll before it.
        if record.reason == Reason::ExecuteAgain && result.is_some() {
            invocation.previous.clone_from(&result);
        }
        match self.next(now, serving, &record) {
            AfterAttempt::Again(at) => {
                let unix_ms = on_wall(now, at);
                record.next_attempt_ms = Some(unix_ms);
                let function = &mut self.functions[key];
                if let Some(invocation) = self.invocations.get_mut(&id) {
                    invocation.taken_over = None;
                    keep_last(function, &record, invocation.trigger, result);
                    let stage = InvocationStage::BackingOff { until: at, unix_ms };
                    function.queue.change(invocation, stage);
                    let stands = Box::new(invocation.record(&function.name));
                    out.push(Action::Record(Box::new(record), stands));
                }
                out.push(Action::Status(function.name.clone()));
                self.timers.arm(at, Timer::Begin(id));
                if !self.phase.is_serving() {
                    self.send_away(id, true, out);
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
                self.finish(now, id, end, out);
            }
        }
    }

    fn next(&mut self, now: Now, serving: &ServingRelease, record: &AttemptRecord) -> AfterAttempt {
        let Some(invocation) = self.invocations.get(&record.invocation) else {
            return AfterAttempt::End(None);
        };
        let function = &self.functions[invocation.function];
        // A retry waits for an invalid file until that is mended, as all other work of the function does.
        if matches!(function.presence, Presence::Absent) || !function.is_enabled() {
            return AfterAttempt::End(None);
        }
        // Each run of a service is an invocation with one attempt.
        if serving.rules.kind.is_service() {
            return AfterAttempt::End(None);
        }
        // The run of a content by itself is not retried once other content serves: that content has its own run.
        let newest = function.serving().map(|newest| newest.load_key);
        let superseded = newest.is_some_and(|newest| invocation.load_key.is_some_and(|content| content != newest));
        // A caller who waits could not be answered after a retry that only the next fnd makes, or that waits for a file.
        let unanswerable = !invocation.durable
            && (newest.is_none()
                || invocation.caller_gone
                || !self.phase.is_serving()
                || self.has_lost_caller(invocation));
        if superseded || unanswerable {
            return AfterAttempt::End(None);
        }
        let before_deadline = |at| invocation.deadline.is_none_or(|deadline| at < deadline.at);
        let class = record.reason.class();
        if let (Class::ExecuteAgain, Some(poll)) = (class, serving.rules.poll) {
            let at = now.mono.saturating_add(poll.repeat);
            return if invocation
                .started
                .is_some_and(|started| started.elapsed(at) > poll.until)
            {
                AfterAttempt::End(Some(Exhausted::Poll))
            } else if before_deadline(at) {
                AfterAttempt::Again(at)
            } else {
                AfterAttempt::End(Some(Exhausted::Deadline))
            };
        }
        let retry = &serving.rules.retry;
        let never = matches!(
            class,
            Class::Success | Class::Failed | Class::Cancelled | Class::Deadline
        );
        // The exit code counts only where it is the reason. After a timeout it says only how the program reacted to
        // SIGTERM.
        let by_code = matches!(class, Class::Error | Class::Transient);
        let excepted = by_code && record.exit_code.is_some_and(|code| retry.not_on_exit.contains(&code));
        if never || excepted || !retry.on.contains(&class) {
            return AfterAttempt::End(None);
        }
        if invocation
            .taken_over
            .as_ref()
            .is_some_and(|taken_over| taken_over.is_last)
        {
            return AfterAttempt::End(Some(Exhausted::Retries));
        }
        if invocation.retries() >= retry.retries {
            // Where the manifest allows no retry, no limit ran out.
            return AfterAttempt::End((retry.retries > 0).then_some(Exhausted::Retries));
        }
        let delay = retry.backoff.delay(invocation.retries() + 1, self.random.f64());
        let at = now.mono.saturating_add(delay);
        if before_deadline(at) {
            AfterAttempt::Again(at)
        } else {
            AfterAttempt::End(Some(Exhausted::Deadline))
        }
    }

    /// Ends an invocation: writes its one final record, with the attempt that ended with it if there was one.
    pub(super) fn finish(&mut self, now: Now, id: InvocationId, mut end: InvocationEnd, out: &mut Vec<Action>) {
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
        let over = (end.reason, lasted);
        let key = invocation.function;
        // The next one of its key may begin, or another one may be claimed in its place.
        let has_lane = invocation.order_key.is_some() || invocation.queue_key.is_some();
        let frees = matches!(invocation.stage, InvocationStage::Claiming { .. }) || has_lane;
        let record = Box::new(invocation.ended(&function.name, now, end, result));
        debug_assert!(record.state.is_final(), "{:?}", record.state);
        if record.has_run() {
            function.runs = function.runs.saturating_add(1);
            function.failures = function.failures.saturating_add(record.state.is_failure().into());
        }
        let marks = invocation
            .payload
            .cause
            .as_ref()
            .is_some_and(|cause| cause.marks().is_some());
        let may_have_hooks = match &function.presence {
            Presence::Serving(serving) => serving.rules.has_hooks,
            Presence::Building | Presence::Invalid => true,
            // Before the first scan is over, its file may still be found.
            Presence::Absent => !self.first_scan_done,
        };
        // The calls that follow the end are stored in the transaction of the final record, so `Follow` comes before it.
        if marks || may_have_hooks {
            out.push(Action::Follow(id, Box::new(invocation.payload.clone())));
        }
        // Only callers who wait get the result as it is.
        let kept = Box::new(record.to_kept());
        if let Some(ended) = attempt {
            let (attempt, result) = *ended;
            keep_last(function, &attempt, invocation.trigger, result);
            out.push(Action::Record(Box::new(attempt), kept));
            out.push(Action::Status(function.name.clone()));
        } else {
            out.push(Action::Update(kept));
        }
        for reply in invocation.waiters {
            out.push(Action::Reply(reply, Box::new(Answer::Finished(record.clone()))));
        }
        if invocation.has_tmp {
            release_files(function, id, out);
        }
        if frees {
            self.line_up(now, key);
        }
        // The run is out of the queue by now, so the function counts its process as missing.
        self.service_over(now, key, over, out);
    }

    /// Removes an invocation from the map and its queue and disarms its timers.
    pub(super) fn remove_invocation(&mut self, id: InvocationId) -> Option<Invocation> {
        let invocation = self.invocations.remove(&id)?;
        self.waited.remove(&invocation);
        let function = &mut self.functions[invocation.function];
        // `give_back` keeps the charge while a claim holds a place, so the claim leaves the queue first.
        function.queue.remove(&invocation);
        if invocation.holds_place() {
            self.node.give_back(function);
        }
        self.groups.give_back(invocation.claim_group().as_deref());
        if let Some(deadline) = invocation.deadline {
            self.timers.disarm(deadline.at, Timer::Deadline(id));
        }
        if let Some(expires) = invocation.expires {
            self.timers.disarm(expires.at, Timer::Expire(id));
        }
        if let Some(until) = invocation.stage.begins_at() {
            self.timers.disarm(until, Timer::Begin(id));
        }
        Some(invocation)
    }
}

/// Has the temporary files of an ended invocation deleted.
pub(super) fn release_files(function: &mut SupervisedFunction, invocation: InvocationId, out: &mut Vec<Action>) {
    match function.id {
        Some(function) => out.push(Action::Release { function, invocation }),
        // It ran under an earlier fnd, and its function is not installed yet.
        None => function.work.unreleased.push(invocation),
    }
}

/// Keeps an attempt as its function's last.
fn keep_last(function: &mut SupervisedFunction, record: &AttemptRecord, trigger: Trigger, result: Option<RunResult>) {
    let kept = result.map(|result| result.to_kept());
    function.last = Some(Box::new(LastAttempt {
        attempt: record.clone(),
        trigger,
        result: kept.filter(|result| result.data.len() <= LAST_RESULT_MAX),
    }));
}

impl Supervisor {
    /// Cancels an invocation on request.
    pub(super) fn cancel(&mut self, now: Now, id: InvocationId, reply: ReplyTo, out: &mut Vec<Action>) {
        let answer = if self.end_all(now, id, EndCause::Cancelled(ON_REQUEST.into()), out) {
            Answer::Done
        } else {
            Answer::NotFound
        };
        out.push(Action::Reply(reply, Box::new(answer)));
    }

    /// Handles a caller that closed its connection before the answer.
    pub(super) fn caller_left(&mut self, now: Now, id: InvocationId, reply: ReplyTo, out: &mut Vec<Action>) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            // The invocation has ended, was refused, or is shared by idempotency key with another caller and goes on.
            // An answer to a caller that has left is dropped.
            return;
        };
        invocation.waiters.retain(|waiter| *waiter != reply);
        // A caller with a key comes back with it, and a durable invocation must run.
        let unwanted = invocation.waiters.is_empty() && invocation.key.is_none() && !invocation.durable;
        if unwanted && invocation.called().is_some() {
            // The caller of a call that nobody waits for is a part of the function that has ended, or has given up.
            self.end_call(now, id, CALLER_LEFT, out);
        } else if unwanted && invocation.attempts == 0 && matches!(invocation.stage, InvocationStage::Ready) {
            let why = "its caller closed the connection before it started";
            self.end(now, id, InvocationEnd::new(Reason::Cancelled, why), out);
        }
    }

    /// Handles a timer that is due.
    pub(super) fn fire(&mut self, now: Now, timer: Timer, out: &mut Vec<Action>) {
        match timer {
            Timer::Deadline(id) => {
                let deadline = self.invocations.get(&id).and_then(|invocation| invocation.deadline);
                let ending = match deadline {
                    Some(deadline) if deadline.of_caller => EndCause::CallersDeadline,
                    _ => EndCause::Deadline,
                };
                self.end_all(now, id, ending, out);
            }
            Timer::Expire(id) => {
                self.give_up(now, id, (Skip::Expired, "it expired before it started"), out);
            }
            Timer::Attempt(worker, id) => self.attempt_due(now, worker, id, out),
            Timer::Worker(id) => self.worker_due(now, id, out),
            Timer::ServiceCheck(id) => self.check_service(now, id, out),
            Timer::Begin(id) => self.make_ready(now, id),
            Timer::Hold(key) => self.hold_over(now, key, out),
            Timer::Claims => self.claim_again(now),
            Timer::Starts => self.starts_due(out),
            Timer::Trial(key) => {
                self.try_again(key, false);
                self.refuse_trial(now, key);
                self.line_up(now, key);
            }
        }
    }

    /// Ends an invocation in any stage; says whether the invocation exists.
    pub(super) fn end_all(&mut self, now: Now, id: InvocationId, ending: EndCause, out: &mut Vec<Action>) -> bool {
        let Some(invocation) = self.invocations.get(&id) else {
            return false;
        };
        let is_deadline = matches!(ending, EndCause::Deadline | EndCause::CallersDeadline);
        if let InvocationStage::Running { worker } = invocation.stage {
            // Callers of an attempt that is already ending hear of its end anyway.
            let found = self
                .workers
                .get(&worker)
                .and_then(|worker| Some((worker, worker.run(id)?)));
            let going_on = found.filter(|(_, run)| is_deadline && run.ending.is_none());
            let words = going_on.map(|(worker, run)| ending.words(&worker.serving.rules, run.timeout));
            self.ask_to_end(now, (worker, id), ending, out);
            if let Some(words) = words {
                self.reply_timed_out(id, &words, out);
            }
            self.end_waited_for(now, id, out);
            return true;
        }
        let end = match ending {
            EndCause::Deadline => InvocationEnd {
                // Without an attempt there was nothing to try again, so no limit ended the tries.
                exhausted: (invocation.attempts > 0).then_some(Exhausted::Deadline),
                ..InvocationEnd::new(
                    Reason::Deadline,
                    deadline_words(self.functions[invocation.function].serving().map(|s| &*s.rules)),
                )
            },
            EndCause::CallersDeadline => InvocationEnd {
                exhausted: (invocation.attempts > 0).then_some(Exhausted::Deadline),
                ..InvocationEnd::new(Reason::Deadline, CALLERS_DEADLINE)
            },
            EndCause::Cancelled(why) => InvocationEnd::new(Reason::Cancelled, why),
            EndCause::Timeout | EndCause::LeaseLost(_) | EndCause::Stopped | EndCause::NotReady(_) => {
                InvocationEnd::new(Reason::Interrupted, "fnd stopped")
            }
        };
        self.end(now, id, end, out);
        true
    }

    /// Ends an invocation that does not run.
    pub(super) fn end(&mut self, now: Now, id: InvocationId, end: InvocationEnd, out: &mut Vec<Action>) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        match invocation.stage {
            // The callers first hear of the acceptance, and the first end stays. The invocation no longer counts for a
            // place.
            InvocationStage::Storing { not_before, end: None } => {
                let (end, key) = (Some(end), invocation.function);
                let queue = &mut self.functions[key].queue;
                queue.change(invocation, InvocationStage::Storing { not_before, end });
                // The next one of its key may begin.
                self.line_up(now, key);
            }
            InvocationStage::Storing { end: Some(_), .. } => {}
            InvocationStage::Lost => {
                let attempt = self.lost_attempt(now, id).map(|attempt| Box::new((attempt, None)));
                self.finish(now, id, InvocationEnd { attempt, ..end }, out);
            }
            // For one that is being claimed, the final record reaches the disk after the claim. A claim that is still on its way to
            // the register of all nodes does not reach the disk any more: `is_claiming`.
            InvocationStage::Delayed { .. }
            | InvocationStage::Ready
            | InvocationStage::Claiming { .. }
            | InvocationStage::Claimed
            | InvocationStage::BackingOff { .. }
            | InvocationStage::Running { .. } => {
                self.finish(now, id, end, out);
            }
        }
    }
}
