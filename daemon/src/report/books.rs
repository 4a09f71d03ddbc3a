//! Facts that reports need besides the event at hand: the processes and the running attempts.

use crate::metrics;
use fnd_core::records::AttemptRecord;
use fnd_core::run::{AttemptOrder, Restored, SpawnOrder};
use fnd_core::trace::{Span, Trace};
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, WorkerId};
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Default)]
pub(crate) struct ReportBooks {
    /// The function of each process, and whether the process belongs to a pool.
    workers: BTreeMap<WorkerId, (FunctionName, bool)>,
    /// Processes in each pool.
    pools: HashMap<FunctionName, u32>,
    /// Running attempts: the span, and the method of the request.
    attempts: BTreeMap<(InvocationId, Attempt), (Span, &'static str)>,
}

impl ReportBooks {
    /// Adds the attempts and workers of an earlier fnd from their records.
    pub(crate) fn restored(&mut self, restored: &Restored) {
        let traces: HashMap<InvocationId, &Trace> = restored
            .unfinished
            .iter()
            .filter_map(|unfinished| Some((unfinished.accepted.id, unfinished.accepted.payload.trace.as_ref()?)))
            .collect();
        let scripts = restored.adopted.iter().map(|adopted| &adopted.record);
        let calls = restored.members.iter().flat_map(|member| &member.record.calls);
        let running = scripts
            .map(|script| (script.run.invocation, script.run.attempt))
            .chain(calls.map(|call| (call.run.invocation, call.run.attempt)));
        for (invocation, attempt) in running {
            let attempt = Attempt(attempt);
            let span = Span::of(traces.get(&invocation).copied(), invocation, attempt);
            // No record says which request started the invocation.
            self.attempts
                .insert((invocation, attempt), (span, metrics::method(None)));
        }
        for adopted in &restored.adopted {
            let function = adopted.record.function.clone().into_owned();
            self.workers.insert(adopted.worker, (function, false));
        }
        for member in &restored.members {
            let function = member.record.function.clone().into_owned();
            self.scale(&function, 1);
            self.workers.insert(member.worker, (function, true));
        }
    }

    /// Adds a process. If it belongs to a pool, returns the pool's numbers of processes before and after.
    pub(crate) fn worker_requested(&mut self, order: &SpawnOrder) -> Option<(u32, u32)> {
        let is_member = order.attempt.is_none();
        self.workers.insert(order.worker, (order.function.clone(), is_member));
        is_member.then(|| self.scale(&order.function, 1))
    }

    /// Removes a process. Returns its function and, if it belonged to a pool, the pool's numbers of processes before
    /// and after. Returns nothing for a process that is not known.
    pub(crate) fn worker_ended(&mut self, worker: WorkerId) -> Option<(FunctionName, Option<(u32, u32)>)> {
        let (function, is_member) = self.workers.remove(&worker)?;
        let scaled = is_member.then(|| self.scale(&function, -1));
        Some((function, scaled))
    }

    /// Returns the processes in the order of their numbers.
    pub(crate) fn workers(&self) -> Vec<WorkerId> {
        self.workers.keys().copied().collect()
    }

    fn scale(&mut self, function: &FunctionName, change: i32) -> (u32, u32) {
        let before = self.pools.get(function).copied().unwrap_or(0);
        let now = before.saturating_add_signed(change);
        if now == 0 {
            self.pools.remove(function);
        } else {
            self.pools.insert(function.clone(), now);
        }
        (before, now)
    }

    /// Adds an attempt that is about to begin.
    pub(crate) fn attempt_begins(&mut self, attempt: &AttemptOrder) {
        let method = attempt
            .payload
            .request
            .as_deref()
            .map(|request| request.method.as_str());
        let (invocation, number) = (attempt.invocation, attempt.attempt);
        let span = Span::of(attempt.payload.trace.as_ref(), invocation, number);
        self.attempts
            .insert((invocation, number), (span, metrics::method(method)));
    }

    /// Removes an attempt that could not be started.
    pub(crate) fn attempt_put_back(&mut self, invocation: InvocationId, attempt: Attempt) {
        self.attempts.remove(&(invocation, attempt));
    }

    /// Removes an attempt that has ended; returns its span and the method of its request.
    pub(crate) fn attempt_ended(&mut self, attempt: &AttemptRecord) -> (Span, &'static str) {
        let (invocation, number) = (attempt.invocation, attempt.attempt);
        let known = self.attempts.remove(&(invocation, number));
        known.unwrap_or_else(|| (Span::of(None, invocation, number), metrics::method(None)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::records::Payload;
    use fnd_core::records::outcome::Trigger;
    use fnd_core::records::protocol::HttpRequest;
    use fnd_core::trace::{SpanId, TraceId};

    fn name() -> FunctionName {
        FunctionName::new("hello").unwrap()
    }

    #[test]
    fn a_pool_has_as_many_processes_as_began_and_did_not_end() {
        let mut books = ReportBooks::default();
        for (n, is_member) in [(1, true), (2, false), (3, true)] {
            books.workers.insert(WorkerId(n), (name(), is_member));
        }
        assert_eq!((books.scale(&name(), 1), books.scale(&name(), 1)), ((0, 1), (1, 2)));
        assert_eq!(books.worker_ended(WorkerId(2)), Some((name(), None)));
        assert_eq!(books.worker_ended(WorkerId(1)), Some((name(), Some((2, 1)))));
        assert_eq!(books.worker_ended(WorkerId(1)), None, "it is gone");
        assert_eq!(books.worker_ended(WorkerId(3)), Some((name(), Some((1, 0)))));
        assert!(books.pools.is_empty() && books.workers().is_empty());
    }

    #[test]
    fn processes_are_in_the_order_of_their_numbers() {
        let mut books = ReportBooks::default();
        let numbers = (1..=8).map(WorkerId);
        for worker in numbers.clone().rev() {
            books.workers.insert(worker, (name(), false));
        }
        assert!(books.workers().into_iter().eq(numbers));
    }

    #[test]
    fn an_attempt_ends_in_the_trace_of_its_caller() {
        let mut books = ReportBooks::default();
        let caller = Trace {
            id: TraceId(7),
            parent: SpanId(8),
            flags: 1,
            state: None,
            b3: false,
        };
        let order = AttemptOrder {
            invocation: InvocationId(1),
            attempt: Attempt(1),
            poll: 0,
            trigger: Trigger::Manual,
            payload: Payload {
                trace: Some(caller),
                request: Some(
                    HttpRequest {
                        method: "PUT".to_owned(),
                        ..HttpRequest::default()
                    }
                    .into(),
                ),
                ..Payload::default()
            },
            previous: None,
            deadline_ms: None,
        };
        let record = crate::metrics::tests::attempt("hello", fnd_core::records::outcome::Reason::Ok);
        books.attempt_begins(&order);
        let (span, method) = books.attempt_ended(&record);
        assert_eq!((span.trace, span.parent, method), (TraceId(7), Some(SpanId(8)), "PUT"));
        let (span, method) = books.attempt_ended(&record);
        assert_eq!(
            (span.trace, span.parent, method),
            (TraceId(1), None, "NONE"),
            "nothing is known of it"
        );
        books.attempt_begins(&order);
        books.attempt_put_back(order.invocation, order.attempt);
        assert!(books.attempts.is_empty());
    }
}
