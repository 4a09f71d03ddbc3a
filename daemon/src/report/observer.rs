//! Makes report events of the supervisor's events and actions. It sees an event before the supervisor handles it, and an action
//! when it is performed. It changes neither, and it starts nothing: the driver does what follows.

use super::Reporter;
use super::problems::ReportedProblem;
use fnd_core::records::{AttemptRecord, InvocationRecord, Usage};
use fnd_core::report::ReportEvent;
use fnd_core::run::{AttemptOrder, Event, Restored, SpawnOrder};
use fnd_wire::ids::{Attempt, InvocationId, WorkerId};

impl Reporter {
    /// Reports an event that no status file shows: each event but [`ReportEvent::StatusChanged`].
    fn tell(&self, event: ReportEvent<'_>) {
        let shown = self.report(event);
        debug_assert!(shown.is_none(), "nobody writes the status file of {shown:?}");
    }

    /// Reports what an event of the supervisor says, before the supervisor handles it.
    pub(crate) fn observe(&mut self, event: &Event) {
        match event {
            Event::Restored(restored) => self.restored(restored),
            Event::Exited(exited) => self.worker_ended(exited.worker, Some(&exited.usage)),
            Event::SpawnFailed { worker, .. } | Event::NodeCannotStart { worker, .. } => {
                self.worker_ended(*worker, None);
            }
            Event::SpawnerLost => {
                // No `Exited` comes for these workers any more: the spawner would have sent it.
                for worker in self.books.workers() {
                    self.worker_ended(worker, None);
                }
            }
            // The effects of these events are seen in actions.
            Event::ClockSet
            | Event::Installed(_)
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
            | Event::ClaimPutOff { .. }
            | Event::LeaseLost(_)
            | Event::Superseded { .. }
            | Event::Withdraw(_)
            | Event::Cancel { .. }
            | Event::CallerLeft { .. }
            | Event::SetEnabled { .. }
            | Event::Restart(_)
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
    fn restored(&mut self, restored: &Restored) {
        let mut metrics = self.metrics.borrow_mut();
        for last in &restored.last {
            metrics.ran_before(&last.attempt, restored.successes.get(&last.attempt.function).copied());
        }
        drop(metrics);
        self.books.restored(restored);
    }

    /// Reports a process that has ended, or that could not be started and has no usage.
    fn worker_ended(&mut self, worker: WorkerId, usage: Option<&Usage>) {
        let Some((function, scaled)) = self.books.worker_ended(worker) else {
            return;
        };
        if let Some(usage) = usage {
            self.tell(ReportEvent::WorkerEnded(&function, usage));
        }
        if let Some(scaled) = scaled {
            self.tell(ReportEvent::PoolScaled(&function, scaled));
        }
    }

    /// Reports a process that is about to be started.
    pub(crate) fn worker_requested(&mut self, order: &SpawnOrder) {
        self.tell(ReportEvent::WorkerRequested(&order.function));
        if let Some(attempt) = &order.attempt {
            self.attempt_begins(attempt);
        }
        if let Some(scaled) = self.books.worker_requested(order) {
            self.tell(ReportEvent::PoolScaled(&order.function, scaled));
        }
    }

    /// Remembers an attempt that is about to begin, for the report of its end. A notice reports that it began.
    pub(crate) fn attempt_begins(&mut self, attempt: &AttemptOrder) {
        self.books.attempt_begins(attempt);
    }

    /// Reports an attempt that could not be started and waits again.
    pub(crate) fn put_back(&mut self, invocation: InvocationId, attempt: Attempt) {
        self.books.attempt_put_back(invocation, attempt);
        self.tell(ReportEvent::AttemptPutBack);
    }

    /// Reports an attempt that has ended, when its output is counted.
    pub(crate) fn attempt_ended(&mut self, attempt: &AttemptRecord, record: &InvocationRecord) {
        let (span, method) = self.books.attempt_ended(attempt);
        self.tell(ReportEvent::AttemptEnded {
            attempt,
            record,
            span,
            method,
        });
        if attempt.next_attempt_ms.is_none() && record.state.is_final() {
            self.tell(ReportEvent::InvocationEnded(record));
        }
    }

    /// Reports which problems of the node are over and which began, by comparison with those reported last.
    pub(crate) fn compare_problems(&mut self, now_ms: u64, now: Vec<ReportedProblem>) {
        let (began, over) = self.problems.update(now_ms, now);
        for (problems, lasts) in [(over, false), (began, true)] {
            for ReportedProblem { code, text, .. } in &problems {
                self.tell(ReportEvent::Problem { code, text, lasts });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{failed, reporter};
    use super::*;
    use crate::metrics::tests::text;
    use crate::stream::{Since, StreamQuery, subscribe};
    use crate::workers::environment::tests::order;
    use fnd_core::access::Permissions;
    use fnd_core::api::stream::{Kind, StreamEvent};
    use fnd_core::run::Exited;
    use fnd_wire::frame::ExitStatus;
    use futures_util::FutureExt as _;

    fn streamed(reporter: &Reporter) -> Vec<StreamEvent> {
        let query = StreamQuery {
            function: None,
            kinds: Vec::new(),
            from: Since::Kept,
            limit: None,
            follow: false,
            reach: Permissions::own(),
        };
        let (mut events, sending) = subscribe(&reporter.ring, query, 0);
        sending.now_or_never().expect("there is room for all events");
        std::iter::from_fn(|| events.try_recv().ok()).collect()
    }

    fn kinds(reporter: &Reporter) -> Vec<Kind> {
        streamed(reporter).iter().map(|event| event.kind).collect()
    }

    fn is_counted(reporter: &Reporter, line: &str) -> bool {
        text(&reporter.metrics.borrow()).lines().any(|counted| counted == line)
    }

    #[test]
    fn a_process_is_reported_once_from_its_request_to_its_end() {
        let mut reporter = reporter();
        let script = order(None);
        let member = SpawnOrder {
            worker: WorkerId(8),
            attempt: None,
            ..script.clone()
        };
        reporter.worker_requested(&script);
        reporter.worker_requested(&member);
        assert!(is_counted(
            &reporter,
            r#"fnd_workers_started_total{function="ops/hello"} 2"#
        ));
        let exited = Exited {
            worker: script.worker,
            late: None,
            status: ExitStatus::Code(0),
            usage: Usage {
                cpu_us: 1_000_000,
                ..Usage::default()
            },
            oom_kills: 0,
            oom_shared: false,
            pids_refused: 0,
            stragglers: false,
            result: None,
            result_too_large: None,
            bad_answer: None,
            last_error_line: None,
        };
        let ends = [Event::Exited(Box::new(exited)), Event::SpawnerLost];
        for _ in 0..2 {
            ends.iter().for_each(|end| reporter.observe(end));
        }
        assert!(is_counted(
            &reporter,
            r#"fnd_cpu_seconds_total{function="ops/hello"} 1.0"#
        ));
        // The script is in no pool.
        let pools: Vec<_> = streamed(&reporter).iter().map(|event| event.workers).collect();
        assert_eq!(pools, [Some((0, 1)), Some((1, 0))]);
    }

    #[test]
    fn the_end_of_an_invocation_follows_its_last_attempt() {
        let mut reporter = reporter();
        let (attempt, record) = failed();
        reporter.put_back(attempt.invocation, attempt.attempt);
        assert!(is_counted(&reporter, "fnd_starts_put_back_total 1"));
        let first = AttemptRecord {
            next_attempt_ms: Some(9),
            ..attempt.clone()
        };
        reporter.attempt_ended(&first, &record);
        assert_eq!(kinds(&reporter), [Kind::Ended, Kind::Retried]);
        reporter.attempt_ended(&attempt, &record);
        assert_eq!(kinds(&reporter)[2..], [Kind::Ended, Kind::GaveUp]);
        let ended = r#"fnd_invocations_total{function="hello",state="failed"} 1"#;
        assert!(is_counted(&reporter, ended));
    }

    #[test]
    fn problems_that_are_over_come_before_new_ones() {
        let mut reporter = reporter();
        let [metrics, files] = ["metrics", "files"].map(|code| vec![ReportedProblem::new(code, "text")]);
        reporter.compare_problems(1, metrics);
        reporter.compare_problems(2, files);
        let codes: Vec<_> = streamed(&reporter)
            .into_iter()
            .map(|event| (event.kind, event.code.unwrap_or_default()))
            .collect();
        let expected = [
            (Kind::Problem, "metrics"),
            (Kind::Solved, "metrics"),
            (Kind::Problem, "files"),
        ];
        assert_eq!(codes, expected.map(|(kind, code)| (kind, code.to_owned())));
    }
}
