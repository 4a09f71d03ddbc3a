//! Restores the state that the previous fnd left in the ledger and at the spawner.

use super::Supervisor;
use super::conclude::ON_REQUEST;
use crate::messages::action::{Action, Notice};
use crate::messages::end_cause::EndCause;
use crate::messages::event::{LAST_RESULT_MAX, Restored};
use crate::records::outcome::{Reason, RunState};
use crate::records::{AttemptRecord, Unfinished, Usage};
use crate::run_state::FunctionKey;
use crate::run_state::invocation::{Deadline, Invocation, InvocationEnd, InvocationStage, Started, WallTime};
use crate::run_state::releases::ServingRelease;
use fnd_wire::ids::{Attempt, InvocationId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(super) const LOST: &str = "fnd went down during the attempt";
const NOBODY: &str = "fnd went down, which ended the caller's connection";

impl Supervisor {
    /// Restores the state from the ledger and adopts workers.
    pub(super) fn restored(&mut self, mut restored: Restored) {
        let (adopted, members) = self.worth_adopting(&mut restored);
        let calls = members.iter().flat_map(|member| &member.record.calls);
        let runs = adopted.iter().map(|adopted| &adopted.record.run);
        // The newest attempt of each invocation that a worker still has.
        let mut newest = BTreeMap::<InvocationId, u32>::new();
        for run in runs.chain(calls.map(|call| &call.run)) {
            let attempt = newest.entry(run.invocation).or_default();
            *attempt = run.attempt.max(*attempt);
        }
        for (name, content) in restored.loaded {
            self.functions.get_or_add(&name).loaded.push(content);
        }
        for name in restored.disabled {
            self.functions.get_or_add(&name).disabled = true;
        }
        for (name, runs, failures) in restored.counts {
            let function = self.functions.get_or_add(&name);
            (function.runs, function.failures) = (runs, failures);
        }
        for mut last in restored.last {
            last.result = last.result.filter(|result| result.data.len() <= LAST_RESULT_MAX);
            let function = self.functions.get_or_add(&last.attempt.function);
            function.last = Some(Box::new(last));
        }
        // Invocations come before their workers: an adopted worker goes on with the invocation that is there, and makes
        // one only where the ledger has none.
        let mut over = BTreeSet::new();
        for unfinished in restored.unfinished {
            let (id, known) = (unfinished.accepted.id, unfinished.record.attempts);
            // The spawner keeps the end of an attempt until it is on disk: a later attempt may be over, too.
            let goes_on = newest.get(&id).is_some_and(|attempt| known <= *attempt);
            self.take_over(unfinished, goes_on);
            if !self.invocations.contains_key(&id) {
                over.insert(id);
            }
        }
        for adopted in adopted {
            match over.contains(&adopted.record.run.invocation) {
                true => self.out.push(Action::Kill(adopted.worker)),
                false => self.adopt(adopted),
            }
        }
        for member in members {
            self.adopt_member(member);
        }
        // Which callers still run is known only now that all workers are adopted.
        self.end_orphans();
        for id in restored.cancelled {
            #[cfg(feature = "simulate")]
            if crate::mutants::Mutant::CancelForgotten.is_on() {
                continue;
            }
            // One of a worker that is being ended goes on ending.
            self.end_all(id, EndCause::Cancelled(ON_REQUEST.into()));
        }
    }

    /// Adds an unfinished invocation. One that `goes_on` has a worker, which is adopted next.
    fn take_over(&mut self, unfinished: Unfinished, goes_on: bool) {
        let Unfinished { accepted, record } = unfinished;
        let id = accepted.id;
        if self.invocations.contains_key(&id) || record.state.is_final() {
            let defect = format!("the ledger handed over {id}, which is {}", record.state.as_str());
            self.out.push(Action::Notice(Notice::Defect(defect)));
            return;
        }
        let key = self.functions.find_or_add(&accepted.function);
        let not_started = record.attempts == 0 && !goes_on;
        let stage = match record.state {
            _ if goes_on => InvocationStage::Lost,
            RunState::Running => InvocationStage::Lost,
            RunState::Waiting | RunState::Polling => {
                let unix_ms = record.next_attempt_ms.unwrap_or(self.now.unix_ms);
                let until = WallTime::new(self.now, unix_ms);
                InvocationStage::BackingOff { until }
            }
            // Final states were refused above.
            _ => match accepted.not_before_ms.map(|unix_ms| WallTime::new(self.now, unix_ms)) {
                Some(until) if until.at > self.now.mono => InvocationStage::Delayed { until },
                _ => InvocationStage::Ready,
            },
        };
        let deadline = accepted.deadline_ms.map(|unix_ms| {
            // If the clock was set back, the invocation still gets no more time than it had at first.
            let most = Duration::from_millis(unix_ms.saturating_sub(accepted.accepted_ms));
            let at = WallTime::new(self.now, unix_ms).at;
            Deadline {
                at: at.min(self.now.mono.saturating_add(most)),
                unix_ms,
                of_caller: false,
            }
        });
        let fresh = Invocation::of(&accepted, key, self.next_number(), self.now);
        let invocation = Invocation {
            deadline,
            expires: fresh.expires.filter(|_| not_started),
            stage,
            caller_gone: !accepted.durable,
            attempts: record.attempts,
            polls: record.polls,
            started: record.started_ms.map(|unix_ms| Started {
                unix_ms,
                at: self.now.mono,
                before: Duration::from_millis(self.now.unix_ms.saturating_sub(unix_ms)),
            }),
            last: record.reason.map(|reason| (reason, record.message)),
            version: record.version,
            previous: record.result,
            // The sweep at the start keeps the files of all unfinished invocations, also those of an attempt that the ledger does
            // not know because of a power cut. To release files that do not exist does nothing.
            has_tmp: true,
            ..fresh
        };
        let is_ready = matches!(invocation.stage, InvocationStage::Ready);
        self.insert_invocation(invocation);
        if is_ready {
            self.line_up(key);
        }
        if !accepted.durable && !goes_on {
            // Its caller waited on a connection that is gone and will send the request again: running it now would run
            // it twice.
            let ran = record.state == RunState::Running;
            let message = if ran { LOST } else { NOBODY };
            self.end(id, InvocationEnd::new(Reason::Interrupted, message));
        }
    }

    /// Ends each lost attempt of a function, now that the rules for what follows are known.
    pub(super) fn resolve_lost(&mut self, key: FunctionKey, serving: &ServingRelease) {
        let live: Vec<_> = self.functions[key].work.queue.live().iter().copied().collect();
        for id in live {
            self.conclude_lost(id, serving);
        }
    }

    /// Ends the lost attempt of an invocation, if it has one.
    pub(super) fn conclude_lost(&mut self, id: InvocationId, serving: &ServingRelease) {
        if let Some(attempt) = self.lost_attempt(id) {
            self.conclude(serving, attempt, None);
        }
    }

    /// Shortens each pause before a retry or a poll to the longest one that could start now. Due times are stored by
    /// the wall clock, which may have been set back.
    pub(super) fn bound_pauses(&mut self, key: FunctionKey, serving: &ServingRelease) {
        let rules = &serving.rules;
        let waiting = self.functions[key].work.queue.backing_off().clone();
        for (_, id) in waiting {
            let Some(invocation) = self.invocations.get(&id) else {
                continue;
            };
            let longest = match (&invocation.last, rules.poll) {
                (Some((Reason::ExecuteAgain, _)), Some(poll)) => poll.repeat,
                _ => rules.retry.backoff.delay(invocation.retries().saturating_add(1), 1.0),
            };
            let sooner = self.now.mono.saturating_add(longest);
            if invocation.stage.begins_at().is_some_and(|until| sooner < until) {
                let until = WallTime::of_instant(self.now, sooner);
                self.change(id, InvocationStage::BackingOff { until });
            }
        }
    }

    /// Returns the attempt that was running when fnd went down, or when another node did; absent unless the invocation is in stage
    /// `Lost`.
    pub(super) fn lost_attempt(&self, id: InvocationId) -> Option<AttemptRecord> {
        let invocation = self.invocations.get(&id)?;
        if !matches!(invocation.stage, InvocationStage::Lost) {
            return None;
        }
        // The start is known for first attempts only, and the duration for none.
        let started_ms = match invocation.started {
            Some(started) if invocation.attempts <= 1 => started.unix_ms,
            _ => self.now.unix_ms,
        };
        let taken_over = invocation.taken_over.as_ref();
        Some(AttemptRecord {
            invocation: id,
            function: self.functions[invocation.function].name.clone(),
            attempt: Attempt(invocation.attempts.max(1)),
            poll: invocation.polls,
            worker: None,
            cold: None,
            version: invocation.version,
            started_ms,
            ended_ms: self.now.unix_ms,
            duration_us: 0,
            reason: Reason::Interrupted,
            message: taken_over.map_or(LOST, |taken_over| &taken_over.message).to_owned(),
            exit_code: None,
            signal: None,
            usage: Usage::default(),
            next_attempt_ms: None,
        })
    }
}
