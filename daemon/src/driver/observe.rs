//! Makes report events of the supervisor's events and actions. It sees an event before the supervisor handles it, and an action
//! when it is performed. It changes neither, and it starts nothing: `perform` does what follows from an action.

use super::Driver;
use fnd_core::records::{AttemptRecord, InvocationRecord, Usage};
use fnd_core::report::ReportEvent;
use fnd_core::supervisor::{AttemptOrder, Event, Restored, SpawnOrder};
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, WorkerId};

impl Driver {
    /// Reports what an event says, before the supervisor handles it.
    pub(crate) fn observe_event(&mut self, event: &Event) {
        match event {
            Event::Restored(restored) => self.report_restored(restored),
            Event::Exited(exited) => self.report_worker_end(exited.worker, Some(&exited.usage)),
            Event::SpawnFailed { worker, .. } | Event::NodeCannotStart { worker, .. } => {
                self.report_worker_end(*worker, None);
            }
            Event::SpawnerLost => {
                // No `Exited` comes for these workers any more: the spawner would have sent it.
                for worker in self.reporter.books.workers() {
                    self.report_worker_end(worker, None);
                }
            }
            // The effects of these events are seen in actions.
            Event::Installed(_)
            | Event::Canary { .. }
            | Event::CanaryOver(_)
            | Event::Building(_)
            | Event::Refused { .. }
            | Event::Removed(_)
            | Event::Scanned { .. }
            | Event::Quiet(_)
            | Event::Submit(_)
            | Event::Publish(_)
            | Event::Published { .. }
            | Event::PublishFailed(_)
            | Event::Stored(_)
            | Event::StoreFailed(_)
            | Event::Claimed(_)
            | Event::ClaimFailed(_)
            | Event::Cancel { .. }
            | Event::CallerLeft { .. }
            | Event::SetEnabled { .. }
            | Event::Full { .. }
            | Event::ViewChanged(_)
            | Event::Drain
            | Event::CancelDrain
            | Event::HandOver
            | Event::StopNow
            | Event::Spawned(_)
            | Event::EndsLater(_)
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

    /// Continues with what an earlier fnd had reported.
    fn report_restored(&mut self, restored: &Restored) {
        let mut metrics = self.reporter.metrics.borrow_mut();
        for last in &restored.last {
            metrics.ran_before(&last.attempt, restored.successes.get(&last.attempt.function).copied());
        }
        drop(metrics);
        self.reporter.books.restored(restored);
    }

    /// Reports a process that has ended, or that could not be started and has no usage.
    fn report_worker_end(&mut self, worker: WorkerId, usage: Option<&Usage>) {
        let Some((function, scaled)) = self.reporter.books.worker_ended(worker) else {
            return;
        };
        if let Some(usage) = usage {
            self.report(ReportEvent::WorkerEnded(&function, usage));
        }
        if let Some(scaled) = scaled {
            self.report(ReportEvent::PoolScaled(&function, scaled));
        }
    }

    /// Reports a process that is about to be started.
    pub(crate) fn report_worker(&mut self, order: &SpawnOrder) {
        self.report(ReportEvent::WorkerRequested(&order.function));
        if let Some(attempt) = &order.attempt {
            self.observe_attempt(attempt);
        }
        if let Some(scaled) = self.reporter.books.worker_requested(order) {
            self.report(ReportEvent::PoolScaled(&order.function, scaled));
        }
    }

    /// Remembers an attempt that is about to begin, for the report of its end. Its begin is a notice of the supervisor.
    pub(crate) fn observe_attempt(&mut self, attempt: &AttemptOrder) {
        self.reporter.books.attempt_begins(attempt);
    }

    /// Reports an attempt that could not be started and waits again.
    pub(crate) fn report_put_back(&mut self, invocation: InvocationId, attempt: Attempt) {
        self.reporter.books.attempt_put_back(invocation, attempt);
        self.report(ReportEvent::AttemptPutBack);
    }

    /// Reports an attempt that has ended, when its output is counted.
    pub(crate) fn report_attempt_end(&mut self, attempt: &AttemptRecord, record: &InvocationRecord) {
        let (span, method) = self.reporter.books.attempt_ended(attempt);
        self.report(ReportEvent::AttemptEnded {
            attempt,
            record,
            span,
            method,
        });
        if attempt.next_attempt_ms.is_none() && record.state.is_final() {
            self.report(ReportEvent::InvocationEnded(record));
        }
    }

    /// Reports that the newest content of a function does not serve, and why.
    pub(crate) fn report_refused(&self, function: &FunctionName, message: &str) {
        let known = self.functions.registry.get(function);
        self.reporter.report(ReportEvent::VersionRefused {
            function,
            message,
            diagnostics: known.map_or(&[], |known| &known.findings.diagnostics),
        });
    }
}
