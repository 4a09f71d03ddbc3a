//! Makes report events of the supervisor's events and actions. It sees an event before the supervisor handles it, and an action
//! when it is performed. It changes neither, and it starts nothing: `perform` does what follows from an action. It also writes
//! status files, and reports problems of the node.

use super::Driver;
use crate::chain;
use crate::report::problems::ReportedProblem;
use crate::views::trees::trees;
use crate::views::{FileWork, View};
use fnd_core::api::NodeStatus;
use fnd_core::records::{AttemptRecord, InvocationRecord, Usage};
use fnd_core::report::ReportEvent;
use fnd_core::run::{AttemptOrder, Event, Restored, SpawnOrder};
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
        let known = self.lifecycle.registry.get(function);
        self.reporter.report(ReportEvent::VersionRefused {
            function,
            message,
            diagnostics: known.map_or(&[], |known| &known.findings.diagnostics),
        });
    }
}

impl Driver {
    /// Returns a view of the supervisor and the parts, from which documents and problems are read.
    pub(crate) fn look(&self) -> View<'_> {
        View {
            now: self.clock.now(),
            supervisor: &self.supervisor,
            lifecycle: &self.lifecycle,
            functions: &self.functions,
            workers: &self.workers,
            node: &self.node,
            ledger: &self.records.ledger,
            output: &self.output,
            quotas: &self.quotas,
            schedules: &self.schedules,
            watchers: &self.watchers,
            secrets: &self.secrets,
            alerts: &self.follow_ups.alerts,
            reporter: &self.reporter,
            callers: &self.callers,
            listener: &self.listener,
            audit: &self.audit,
            state: &self.state,
        }
    }

    /// Returns the internal runs for a function's file.
    pub(crate) fn file_work(&self, function: &FunctionName) -> FileWork {
        let known = self.supervisor.version_and_error(function);
        FileWork {
            build: self.lifecycle.builds.words(function),
            check: self.check_words(function, known.and_then(|(version, _)| version)),
            last_build: self.lifecycle.builds.last(function),
        }
    }

    /// Returns the status of the node, without its functions.
    pub(crate) fn node_status(&self) -> NodeStatus {
        let packages_bytes = self.trees.bytes(&trees(&self.node.places.state));
        self.look().node(self.left_behind(), packages_bytes)
    }

    pub(crate) fn report(&mut self, event: ReportEvent<'_>) {
        if let Some(function) = self.reporter.report(event) {
            self.write_status_soon(function);
        }
    }

    /// Reports that the status of a function has changed, and checks its alerts, whose conditions are facts of the status.
    pub(super) fn status_changed(&mut self, function: &FunctionName) {
        self.check_facts(function);
        self.report(ReportEvent::StatusChanged(function));
    }

    /// Removes the status files of functions that went away while fnd was not running.
    pub(crate) fn forget_statuses(&mut self) {
        let known = self.supervisor.functions().map(|view| view.name.clone()).collect();
        if let Err(error) = self.reporter.status_files.keep_only(&known) {
            tracing::warn!("{}", chain(&error));
        }
    }

    /// Writes a function's status file now, or with its next changes if it was just written.
    fn write_status_soon(&mut self, function: &FunctionName) {
        if self.reporter.status_files.changed(function, self.clock.now().mono) {
            self.write_status(function);
        }
    }

    /// Replaces a function's status file, or removes it where the function is gone.
    pub(crate) fn write_status(&mut self, function: &FunctionName) {
        let status = self.look().function_status(function, self.file_work(function));
        // The status shows that an attempt has ended, which is when the home of the function may have grown.
        status.iter().for_each(|status| self.quota_after(status));
        let written = match status {
            Some(status) => self.reporter.status_files.write(&status),
            // Perhaps the function is not installed yet. The end of the first scan removes the files of functions that are
            // gone.
            None if !self.supervisor.is_scanned() => return,
            None => self.reporter.status_files.remove(function),
        };
        let mono = self.clock.now().mono;
        if self.reporter.status_files.tried(function, mono, written.is_ok())
            && let Err(error) = written
        {
            tracing::warn!("{}, it is tried again every second", chain(&error));
        }
    }

    /// Writes the status files whose changes waited for their next write.
    pub(crate) fn write_due(&mut self) {
        for function in self.reporter.status_files.due(self.clock.now().mono) {
            self.write_status(&function);
        }
    }

    /// Has metrics served in the places that the configuration names.
    pub(crate) fn expose_metrics(&mut self) {
        self.reporter.exposed.serve(&self.node.settings.settings.metrics);
    }

    /// Has the main loop compare the problems with those reported last.
    pub(crate) fn problems_changed(&mut self) {
        self.reporter.problems.due = true;
        self.changed.notify_one();
    }

    /// Reports which problems began and which are over, if they may have changed.
    pub(crate) fn report_problems(&mut self) {
        if !std::mem::take(&mut self.reporter.problems.due) {
            return;
        }
        let now = self.look().problems();
        // Alerts make a comparison of their own: they also know the problems about which an earlier fnd has made a call.
        self.check_problems(&now);
        let (began, over) = self.reporter.problems.update(now);
        for ReportedProblem { code, text, .. } in &over {
            self.report(ReportEvent::Problem {
                code,
                text,
                lasts: false,
            });
        }
        for ReportedProblem { code, text, .. } in &began {
            self.report(ReportEvent::Problem {
                code,
                text,
                lasts: true,
            });
        }
        self.catch_up();
    }
}
