//! The counters that an event increases.

use crate::metrics::Metrics;
use fnd_core::records::outcome::{Reason, RunState, Trigger};
use fnd_core::report::ReportEvent;
use fnd_core::run::Notice;

pub(super) fn count(metrics: &mut Metrics, event: ReportEvent<'_>) {
    match event {
        ReportEvent::FunctionKnown(function) => metrics.known(function),
        ReportEvent::FunctionRemoved(function) => metrics.forget(function),
        ReportEvent::Rescanned => {
            metrics.counted.rescans.inc();
        }
        ReportEvent::SlotsDue {
            function,
            late,
            runs,
            missed,
        } => metrics.slots_due(function, runs.then_some(late), missed),
        ReportEvent::EventsSent { outcome, count } => metrics.events(outcome, count),
        ReportEvent::WokeLate(by) => metrics.counted.lag.observe(by.as_secs_f64()),
        ReportEvent::Requested(request) => metrics.requested(request),
        ReportEvent::WorkerRequested(function) => metrics.worker_started(function),
        ReportEvent::WorkerEnded(function, usage) => metrics.worker_ended(function, usage),
        ReportEvent::AttemptPutBack => {
            metrics.counted.put_back.inc();
        }
        ReportEvent::AttemptEnded {
            attempt,
            record,
            method,
            ..
        } => {
            metrics.attempt_ended(attempt, method);
            if record.state.is_final() {
                metrics.call_ended(record, method);
            }
        }
        ReportEvent::EndedWaiting(record) => {
            // It ended while it waited for another attempt, so a call is over that has run before.
            if record.has_run() {
                metrics.call_ended(record, crate::metrics::method(None));
            }
            if let Some(reason) = record.reason.filter(|_| record.state == RunState::Skipped) {
                metrics.dropped(&record.function, reason);
            }
        }
        ReportEvent::InvocationEnded(record) => {
            metrics.invocation_ended(&record.function, record.state);
            if record.trigger == Trigger::Hook {
                metrics.hooks(record.state).inc();
            }
        }
        ReportEvent::Alert { alert, .. } => {
            metrics.alerts(alert.word).inc();
        }
        ReportEvent::Notice(Notice::Rejected { function, skip, .. }) => {
            metrics.dropped(function, Reason::Skipped(*skip));
        }
        // Problems, states and processes are gauges, which are read for each scrape.
        ReportEvent::Notice(
            Notice::AttemptStarted { .. }
            | Notice::StateChanged { .. }
            | Notice::Unkillable { .. }
            | Notice::StartsChanged
            | Notice::Defect(_),
        )
        | ReportEvent::VersionLoaded(..)
        | ReportEvent::VersionRefused { .. }
        | ReportEvent::ContentRefused { .. }
        | ReportEvent::InterpreterChanged { .. }
        | ReportEvent::StatusChanged(_)
        | ReportEvent::News(..)
        | ReportEvent::Accepted { .. }
        | ReportEvent::PoolScaled(..)
        | ReportEvent::NodeError(_)
        | ReportEvent::NodeWarning(_)
        | ReportEvent::Problem { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{attempt_ended, ended, failed, name, rejected};
    use super::*;
    use crate::metrics::tests::text;
    use fnd_core::records::outcome::Skip;
    use fnd_core::records::{InvocationRecord, Usage};
    use fnd_core::report::ReportEvent;

    /// Counts events and checks which lines of the metrics are there with the value 1 then, and not before.
    fn check(events: &[ReportEvent<'_>], expected: &[&str]) {
        let mut metrics = Metrics::new();
        events.iter().for_each(|event| count(&mut metrics, *event));
        let text = text(&metrics);
        let is_counted = |line: &&str| !line.starts_with('#') && line.ends_with(" 1") && !line.contains("_bucket");
        let mut found: Vec<_> = text.lines().filter(is_counted).collect();
        // Information on fnd itself, and series that do not depend on events.
        found.retain(|line| !line.starts_with("fnd_info"));
        let mut expected: Vec<_> = expected.iter().map(|line| format!("{line} 1")).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{events:?}");
    }

    #[test]
    fn each_event_is_counted_where_it_belongs() {
        let (attempt, record) = failed();
        check(
            &[attempt_ended(&attempt, &record), ReportEvent::InvocationEnded(&record)],
            &[
                r#"function_calls_total{function="hello",method="POST"}"#,
                r#"function_failures_total{function="hello",method="POST"}"#,
                r#"function_duration_seconds_count{function="hello",method="POST"}"#,
                r#"fnd_attempts_total{function="hello",reason="exit"}"#,
                r#"fnd_cold_starts_total{function="hello"}"#,
                r#"fnd_invocations_total{function="hello",state="failed"}"#,
                r#"fnd_gave_up_total{function="hello"}"#,
            ],
        );
        let unbegun = |reason| InvocationRecord {
            attempts: 0,
            ..ended(reason)
        };
        let skipped = unbegun(Reason::Skipped(Skip::Expired));
        check(
            &[
                ReportEvent::EndedWaiting(&skipped),
                ReportEvent::InvocationEnded(&skipped),
            ],
            &[
                r#"fnd_requests_dropped_total{function="hello",reason="skipped-expired"}"#,
                r#"fnd_invocations_total{function="hello",state="skipped"}"#,
            ],
        );
        let cancelled = unbegun(Reason::Cancelled);
        check(
            &[
                ReportEvent::EndedWaiting(&cancelled),
                ReportEvent::InvocationEnded(&cancelled),
            ],
            &[r#"fnd_invocations_total{function="hello",state="cancelled"}"#],
        );
        let between_attempts = ended(Reason::Cancelled);
        check(
            &[
                ReportEvent::EndedWaiting(&between_attempts),
                ReportEvent::InvocationEnded(&between_attempts),
            ],
            &[
                r#"function_calls_total{function="hello",method="NONE"}"#,
                r#"fnd_invocations_total{function="hello",state="cancelled"}"#,
            ],
        );
        check(
            &[ReportEvent::Notice(&rejected())],
            &[r#"fnd_requests_dropped_total{function="hello",reason="skipped-queue-full"}"#],
        );
        check(
            &[ReportEvent::WorkerRequested(&name())],
            &[r#"fnd_workers_started_total{function="hello"}"#],
        );
        check(&[ReportEvent::Rescanned], &["fnd_rescans_total"]);
        check(&[ReportEvent::AttemptPutBack], &["fnd_starts_put_back_total"]);
        let (outcome, count) = ("duplicate", 1);
        check(
            &[ReportEvent::EventsSent { outcome, count }],
            &[r#"fnd_events_total{outcome="duplicate"}"#],
        );
        check(&[ReportEvent::PoolScaled(&name(), (0, 1))], &[]);
    }

    #[test]
    fn a_removed_function_leaves_nothing() {
        let usage = Usage {
            cpu_us: 1_000_000,
            ..Usage::default()
        };
        let events = [
            ReportEvent::FunctionKnown(&name()),
            ReportEvent::WorkerEnded(&name(), &usage),
        ];
        let mut metrics = Metrics::new();
        let empty = text(&metrics);
        events.iter().for_each(|event| count(&mut metrics, *event));
        assert!(text(&metrics).contains("fnd_cpu_seconds_total{function=\"hello\"} 1.0\n"));
        count(&mut metrics, ReportEvent::FunctionRemoved(&name()));
        assert_eq!(text(&metrics), empty);
    }
}
