//! Functions that call functions: which invocation calls, how long the chain of calls is, and what ends with a caller.
//!
//! ```text
//! a (waits) ──▶ b (waits) ──▶ c        the end of a ends b and c: nobody is left who waits for them
//!     └─ queues ──▶ d                  d goes on: nobody waits for it
//! ```
//! A call is an invocation whose cause is [`Cause::Call`]. The stored row of a call says whether its caller waits: not if the
//! call is durable. Only in memory a call may be both: somebody waits for it, and a request that does not wait shares it. This
//! module does not decide which function may call which: `[access]` of the manifest does.

use super::Supervisor;
use super::flow::value_of;
use crate::messages::action::{ChainRefusal, Rejection};
use crate::messages::end_cause::EndCause;
use crate::messages::submit::{Calling, Submit};
use crate::records::cause::DEPTH_MAX;
use crate::records::cause::{CallCause, Cause};
use crate::records::outcome::{Reason, Trigger};
use crate::run_state::FunctionKey;
use crate::run_state::invocation::Invocation;
use crate::run_state::worker::Run;
use crate::trace::{Span, Trace};
use fnd_wire::ids::InvocationId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Why an invocation ends that its caller waited for.
pub(super) const CALLER_ENDS: &str = "its caller waited for it, and was ended";
const CALLER_ENDED: &str = "its caller waited for it, and has ended";
pub(super) const CALLER_LEFT: &str = "its caller closed the connection";

/// An invocation that runs, and its attempt.
type RunningCall<'a> = (&'a Invocation, &'a Run);

/// The live invocations that another one waits for, each behind its caller.
#[derive(Debug, Default)]
pub(super) struct Waited(BTreeSet<(InvocationId, InvocationId)>);

impl Waited {
    /// Adds an invocation, if another one waits for it.
    pub(super) fn add(&mut self, invocation: &Invocation) {
        self.0
            .extend(invocation.waiting_caller().map(|caller| (caller, invocation.id)));
    }

    pub(super) fn remove(&mut self, invocation: &Invocation) {
        // Its caller may have been answered before its end.
        if let Some(caller) = invocation.called().and_then(|call| call.invocation) {
            self.0.remove(&(caller, invocation.id));
        }
    }

    fn of(&self, caller: InvocationId) -> Vec<InvocationId> {
        let all = (caller, InvocationId(0))..=(caller, InvocationId(u128::MAX));
        self.0.range(all).map(|(_, id)| *id).collect()
    }
}

impl Supervisor {
    /// Completes a request of a function with its caller: the cause, the trigger and the trace.
    ///
    /// # Errors
    /// The chain of calls does not allow the request.
    pub(super) fn with_caller(&self, submit: &mut Submit) -> Result<(), Rejection> {
        let Some(calling) = &submit.calling else { return Ok(()) };
        let (depth, caller) = self.caller(calling, submit.payload.trace.as_ref())?;
        let invocation = caller.map(|(invocation, _)| invocation.id);
        if let Some((invocation, run)) = caller {
            if submit.wait && self.would_wait_for_itself(invocation, submit) {
                return Err(Rejection::Chain(ChainRefusal::WaitsForItself));
            }
            // A trace that the function has sent itself is kept.
            submit.payload.trace.get_or_insert_with(|| continued(invocation, run));
        }
        submit.trigger = Trigger::Function;
        submit.payload.cause = Some(Arc::new(Cause::Call(CallCause {
            invocation,
            function: calling.function.clone(),
            depth,
        })));
        Ok(())
    }

    /// Returns how many calls in a chain a request of a function is, and the invocation that sends it. The invocation is
    /// unknown if several run and the request names none; then the longest of their chains counts.
    ///
    /// # Errors
    /// As [`Self::with_caller`].
    pub fn call_depth(
        &self,
        calling: &Calling,
        trace: Option<&Trace>,
    ) -> Result<(u8, Option<InvocationId>), Rejection> {
        let (depth, caller) = self.caller(calling, trace)?;
        Ok((depth, caller.map(|(invocation, _)| invocation.id)))
    }

    /// As [`Self::call_depth`], with the attempt of the invocation.
    fn caller(&self, calling: &Calling, trace: Option<&Trace>) -> Result<(u8, Option<RunningCall<'_>>), Rejection> {
        let key = self.functions.find(&calling.function);
        let running = key.map(|key| self.running_of(key)).unwrap_or_default();
        let by_trace =
            |(invocation, run): &&RunningCall<'_>| trace.is_some_and(|trace| trace.parent == span(invocation, run).id);
        let caller = match calling.invocation {
            Some(named) => {
                let named = running.iter().find(|(invocation, _)| invocation.id == named);
                let refusal = || Rejection::Chain(ChainRefusal::NotRunning(calling.function.clone()));
                Some(named.ok_or_else(refusal)?)
            }
            None => match running.as_slice() {
                // If only one invocation runs, it is the caller, even if the request has no trace or a foreign one.
                [one] => Some(one),
                several => several.iter().find(by_trace),
            },
        };
        let depth = |(invocation, _): &RunningCall<'_>| invocation.payload.cause.as_deref().map_or(0, Cause::depth);
        let before = match caller {
            Some(caller) => depth(caller),
            None => running.iter().map(depth).max().unwrap_or(0),
        };
        let depth = before.saturating_add(1);
        if depth > DEPTH_MAX {
            return Err(Rejection::Chain(ChainRefusal::TooLong));
        }
        Ok((depth, caller.copied()))
    }

    /// Returns the invocations of a function that run, with their attempts.
    fn running_of(&self, key: FunctionKey) -> Vec<RunningCall<'_>> {
        let runs = self.workers_of(key).flat_map(|(_, worker)| &worker.runs);
        runs.filter_map(|run| Some((self.invocations.get(&run.invocation)?, run)))
            .collect()
    }

    /// Says whether a call has to wait for one of the invocations that would wait for it: for a place of its function, of its
    /// group, or of the value of its key.
    fn would_wait_for_itself(&self, caller: &Invocation, submit: &Submit) -> bool {
        let Some(key) = self.functions.find(&submit.function) else {
            return false;
        };
        let Some(serving) = self.functions[key].serving() else {
            return false;
        };
        let is_full = !self.has_place(key, serving);
        let group = serving.group().filter(|group| self.group_room(Some(group), key) == 0);
        // The payload can be large, so it is read only if one of the callers has a value whose lane is full.
        let is_of_full_lane = |value: &Arc<str>| {
            let is_full = !self.functions[key].work.queue.has_place_for(value);
            is_full && value_of(&submit.payload, &serving.rules).as_ref() == Some(value)
        };
        let mut waiting = Some(caller);
        // The chain has no circle: each invocation is older than those that it calls.
        while let Some(invocation) = waiting {
            let has_value = || invocation.queue_key.as_ref().is_some_and(is_of_full_lane);
            let is_same = invocation.function == key && (is_full || has_value());
            if is_same || (group.is_some() && self.group_of(invocation) == group) {
                return true;
            }
            waiting = invocation.waiting_caller().and_then(|id| self.invocations.get(&id));
        }
        false
    }

    /// Returns the group in which the attempt of an invocation counts that runs.
    fn group_of(&self, invocation: &Invocation) -> Option<&str> {
        self.workers.get(&invocation.stage.worker()?)?.serving.group()
    }

    /// Returns when a caller that waits will have ended: by the timeout of its attempt or its own deadline.
    pub(super) fn caller_ends_at(&self, submit: &Submit) -> Option<Duration> {
        let Some(Cause::Call(call)) = submit.payload.cause.as_deref() else {
            return None;
        };
        // A call that is only queued goes on after its caller, so the time of the caller does not bound it.
        let caller = self.invocations.get(&call.invocation.filter(|_| submit.wait)?)?;
        let runs = self.running_of(caller.function);
        let run = runs.iter().find(|(invocation, _)| invocation.id == caller.id);
        let timeout_at = run.and_then(|(_, run)| run.timeout_at);
        timeout_at.into_iter().chain(caller.deadline_at()).min()
    }

    /// Says whether the caller that waited for an invocation does not run any more. If both ran in one worker, the worker has
    /// ended with both.
    pub(super) fn has_lost_caller(&self, invocation: &Invocation) -> bool {
        let caller = invocation.waiting_caller().filter(|_| !invocation.is_shared());
        caller.is_some_and(|caller| self.attempt_of(caller).is_none())
    }

    /// Ends the invocations that an ended attempt waited for. When everything ends, each says by itself why.
    pub(super) fn end_unwaited(&mut self, caller: InvocationId) {
        if self.spawner && !self.phase.is_stopping() {
            self.end_calls(caller, CALLER_ENDED);
        }
    }

    /// Ends the invocations whose caller, which waited for them, ended while no fnd was running.
    pub(super) fn end_orphans(&mut self) {
        let mut gone: Vec<InvocationId> = self.waited.0.iter().map(|(caller, _)| *caller).collect();
        gone.dedup();
        gone.retain(|caller| self.attempt_of(*caller).is_none());
        for caller in gone {
            self.end_calls(caller, CALLER_ENDED);
        }
    }

    /// Ends a call. The first reason stays if no retry can follow it.
    pub(super) fn end_call(&mut self, id: InvocationId, why: &'static str) {
        let mut runs = self.workers.values().filter_map(|worker| worker.run(id));
        let is_last = |ending: &EndCause| matches!(ending.reason(), Reason::Cancelled | Reason::Deadline);
        if !runs.any(|run| run.ending.as_ref().is_some_and(is_last)) {
            self.end_all(id, EndCause::Cancelled(why.into()));
        }
    }

    /// Ends the invocations that another one waits for.
    pub(super) fn end_calls(&mut self, caller: InvocationId, why: &'static str) {
        for id in self.waited.of(caller) {
            let invocation = self.invocations.get(&id);
            if invocation.is_some_and(|invocation| !invocation.is_shared()) {
                self.end_call(id, why);
            }
        }
    }
}

fn span(invocation: &Invocation, run: &Run) -> Span {
    Span::of(invocation.payload.trace.as_ref(), invocation.id, run.attempt)
}

/// Returns the trace of a call, which continues the caller's.
fn continued(invocation: &Invocation, run: &Run) -> Trace {
    let span = span(invocation, run);
    let before = invocation.payload.trace.as_ref();
    Trace {
        id: span.trace,
        parent: span.id,
        flags: span.flags,
        state: before.and_then(|before| before.state.clone()),
        b3: before.is_some_and(|before| before.b3),
    }
}
