//! Turns the supervisor's events and decisions into the stream, the metrics, and the span of each attempt.
//!
//! It sees every event before the supervisor and every action when it is performed, and changes neither.

use crate::driver::State;
use crate::metrics::{self, Metrics};
use crate::stream::{Happening, Ring, What};
use fnd_core::outcome::{Reason, State as InvocationState};
use fnd_core::record::{AttemptRecord, InvocationRecord};
use fnd_core::supervisor::{Action, AttemptOrder, Event, Notice, Restored};
use fnd_core::trace::{Span, Trace};
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, Version, WorkerId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The state of the observer.
pub(crate) struct Observer {
    pub(crate) ring: Rc<Ring>,
    pub(crate) metrics: Rc<RefCell<Metrics>>,
    /// The version and the error of each function as reported last.
    reported: HashMap<FunctionName, (Option<Version>, Option<Box<str>>)>,
    /// The function of each process, and whether the process belongs to a pool.
    workers: HashMap<WorkerId, (FunctionName, bool)>,
    /// Processes in each pool.
    pools: HashMap<FunctionName, u32>,
    /// Running attempts: the caller's trace and the method of the request.
    flights: HashMap<(InvocationId, Attempt), (Option<Trace>, &'static str)>,
}

impl Observer {
    /// Returns an observer that has seen nothing; `epoch` is when this fnd was started.
    pub(crate) fn new(epoch: u64) -> Self {
        Self {
            ring: Rc::new(Ring::new(epoch)),
            metrics: Rc::new(RefCell::new(Metrics::new())),
            reported: HashMap::new(),
            workers: HashMap::new(),
            pools: HashMap::new(),
            flights: HashMap::new(),
        }
    }

    /// Counts a pool's processes; returns the numbers before and after.
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

    fn takes_off(&mut self, attempt: &AttemptOrder) {
        let method = attempt
            .payload
            .request
            .as_deref()
            .map(|request| request.method.as_str());
        let flight = (attempt.payload.trace.clone(), metrics::method(method));
        self.flights.insert((attempt.invocation, attempt.attempt), flight);
    }

    /// Restores the attempts and workers of an earlier fnd from their records.
    fn restored(&mut self, restored: &Restored) {
        for last in &restored.last {
            self.metrics.borrow_mut().succeeded_before(&last.attempt);
        }
        let traces: HashMap<InvocationId, &Trace> = restored
            .unfinished
            .iter()
            .filter_map(|unfinished| Some((unfinished.accepted.id, unfinished.accepted.payload.trace.as_ref()?)))
            .collect();
        let mut flies = |invocation: InvocationId, attempt: u32| {
            let trace = traces.get(&invocation).map(|trace| (*trace).clone());
            self.flights
                .insert((invocation, Attempt(attempt)), (trace, metrics::method(None)));
        };
        for adopted in &restored.adopted {
            flies(adopted.record.invocation, adopted.record.attempt);
        }
        for call in restored.members.iter().flat_map(|member| &member.record.calls) {
            flies(call.invocation, call.attempt);
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
}

impl State {
    fn happened(&self, function: &FunctionName, what: What) {
        self.observer.ring.push(Happening {
            unix_ms: self.clock.now().unix_ms,
            function: Some(function.clone()),
            what,
        });
    }

    /// Observes an event before the supervisor handles it.
    pub(crate) fn observe_event(&mut self, event: &Event) {
        match event {
            Event::Restored(restored) => self.observer.restored(restored),
            Event::Exited(exited) => {
                if let Some((function, _)) = self.observer.workers.get(&exited.worker) {
                    self.observer.metrics.borrow_mut().worker_ended(function, &exited.usage);
                }
                self.worker_gone(exited.worker);
            }
            Event::SpawnFailed { worker, .. } | Event::NodeCannotStart { worker, .. } => self.worker_gone(*worker),
            Event::SpawnerLost => {
                let workers: Vec<WorkerId> = self.observer.workers.keys().copied().collect();
                workers.into_iter().for_each(|worker| self.worker_gone(worker));
            }
            // The effects of these events are seen in actions.
            Event::Installed(_)
            | Event::Refused { .. }
            | Event::Removed(_)
            | Event::Scanned { .. }
            | Event::Submit(_)
            | Event::Stored(_)
            | Event::StoreFailed(_)
            | Event::Claimed(_)
            | Event::ClaimFailed(_)
            | Event::Cancel { .. }
            | Event::CallerLeft { .. }
            | Event::SetEnabled { .. }
            | Event::Drain
            | Event::HandOver
            | Event::StopNow
            | Event::Spawned(_)
            | Event::WorkerReady { .. }
            | Event::NotReady { .. }
            | Event::LoadFailed { .. }
            | Event::Answered(_)
            | Event::Closed(_)
            | Event::Broken { .. }
            | Event::SpawnerAnswers(_)
            | Event::Tick => {}
        }
    }

    fn worker_gone(&mut self, worker: WorkerId) {
        if let Some((function, true)) = self.observer.workers.remove(&worker) {
            let (from, to) = self.observer.scale(&function, -1);
            self.happened(&function, What::Scaled(from, to));
        }
    }

    /// Observes an action that is about to be performed.
    pub(crate) fn observe(&mut self, action: &Action) {
        match action {
            Action::Store(accepted) => {
                self.happened(&accepted.function, What::Accepted(accepted.id, accepted.trigger));
            }
            Action::Spawn(order) => {
                self.observer.metrics.borrow_mut().worker_started(&order.function);
                let is_member = order.attempt.is_none();
                self.observer
                    .workers
                    .insert(order.worker, (order.function.clone(), is_member));
                match &order.attempt {
                    Some(attempt) => self.observer.takes_off(attempt),
                    None => {
                        let (from, to) = self.observer.scale(&order.function, 1);
                        self.happened(&order.function, What::Scaled(from, to));
                    }
                }
            }
            Action::Call(order) => self.observer.takes_off(&order.attempt),
            Action::Update(record) if record.state.is_final() => self.invocation_ended(record),
            Action::PutBack(attempt, record) => {
                self.observer.flights.remove(&(record.id, *attempt));
                self.observer.metrics.borrow_mut().put_back();
            }
            Action::Notice(Notice::StartsChanged) => self.problems_changed(),
            Action::Notice(notice) => self.noticed(notice),
            Action::Status(function) => self.report_version(function),
            // The end of an attempt is reported when its output is counted; the others are not reported.
            Action::Record(..)
            | Action::Update(_)
            | Action::Claim(_)
            | Action::Run(_)
            | Action::Stop(_)
            | Action::Term(_)
            | Action::Kill(_)
            | Action::Forget(_)
            | Action::Release { .. }
            | Action::Reply(..)
            | Action::StoreEnabled { .. }
            | Action::Drained => {}
        }
    }

    fn noticed(&self, notice: &Notice) {
        match notice {
            Notice::AttemptStarted {
                function,
                invocation,
                attempt,
                worker,
                trigger,
            } => self.happened(
                function,
                What::Started {
                    invocation: *invocation,
                    attempt: *attempt,
                    worker: *worker,
                    trigger: *trigger,
                },
            ),
            Notice::StateChanged { function, from, to } => self.happened(function, What::State(*from, *to)),
            Notice::Rejected {
                function,
                trigger,
                skip,
            } => {
                let reason = Reason::Skipped(*skip);
                self.observer.metrics.borrow_mut().dropped(function, reason);
                self.happened(function, What::Dropped(None, Some(reason), *trigger));
            }
            // These are not part of the stream.
            Notice::Unkillable { .. } | Notice::StartsChanged | Notice::Defect(_) => {}
        }
    }

    /// Reports which version serves and what is wrong with newer content, if that has changed.
    fn report_version(&mut self, function: &FunctionName) {
        let Some((version, error)) = self.supervisor.version_and_error(function) else {
            if self.observer.reported.remove(function).is_some() {
                self.observer.metrics.borrow_mut().forget(function);
                self.happened(function, What::Removed);
            }
            return;
        };
        let before = self.observer.reported.get(function);
        let is_new = before.is_none();
        let (known, reported) = before.map_or((None, None), |(version, error)| (*version, error.as_deref()));
        if (known, reported) == (version, error) && !is_new {
            return;
        }
        let loaded = version.filter(|version| known != Some(*version));
        let refused = error.filter(|error| reported != Some(*error)).map(Box::<str>::from);
        let now = (version, error.map(Into::into));
        self.observer.reported.insert(function.clone(), now);
        if is_new {
            self.observer.metrics.borrow_mut().known(function);
        }
        if let Some(version) = loaded {
            self.happened(function, What::Loaded(version));
        }
        if let Some(message) = refused {
            let known = self.functions.get(function);
            let diagnostics = known
                .map(|known| known.diagnostics.as_slice().into())
                .unwrap_or_default();
            self.happened(function, What::Refused { message, diagnostics });
        }
    }

    /// Reports an attempt that has ended, with its usage and output. Returns its span.
    pub(crate) fn attempt_ended(&mut self, attempt: &AttemptRecord, record: &InvocationRecord) -> Span {
        let flight = self.observer.flights.remove(&(attempt.invocation, attempt.attempt));
        let (trace, method) = flight.unwrap_or((None, metrics::method(None)));
        let span = Span::of(trace.as_ref(), attempt.invocation, attempt.attempt);
        self.observer.metrics.borrow_mut().attempt_ended(attempt, method);
        self.happened(
            &attempt.function,
            What::Ended {
                invocation: attempt.invocation,
                attempt: Some((attempt.attempt, attempt.duration_us, span.trace)),
                version: attempt.version,
                reason: Some(attempt.reason),
                message: attempt.message.as_str().into(),
                state: record.state,
            },
        );
        if let Some(next_ms) = attempt.next_attempt_ms {
            let what = What::Retried {
                invocation: attempt.invocation,
                attempt: attempt.attempt.next(),
                reason: attempt.reason,
                next_ms,
            };
            self.happened(&attempt.function, what);
        } else if record.state.is_final() {
            self.concluded(record);
        }
        span
    }

    /// Reports an invocation that ended without an attempt: skipped, cancelled while it waited, or out of time.
    fn invocation_ended(&self, record: &InvocationRecord) {
        let what = if record.state == InvocationState::Skipped {
            if let Some(reason) = record.reason {
                self.observer.metrics.borrow_mut().dropped(&record.function, reason);
            }
            What::Dropped(Some(record.id), record.reason, record.trigger)
        } else {
            What::Ended {
                invocation: record.id,
                attempt: None,
                version: record.version,
                reason: record.reason,
                message: record.message.as_str().into(),
                state: record.state,
            }
        };
        self.happened(&record.function, what);
        self.concluded(record);
    }

    fn concluded(&self, record: &InvocationRecord) {
        let gave_up = record.exhausted.filter(|_| record.state == InvocationState::Failed);
        let mut metrics = self.observer.metrics.borrow_mut();
        metrics.invocation_ended(&record.function, record.state, gave_up.is_some());
        if let Some(exhausted) = gave_up {
            self.happened(&record.function, What::GaveUp(record.id, record.reason, exhausted));
        }
    }
}
