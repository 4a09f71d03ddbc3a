//! The counters, and the bounds of their labels.

use super::labels::FUNCTIONS_MAX;
use super::*;
use crate::report::examples::ended;
use fnd_wire::ids::{Attempt, InvocationId};

fn name(text: &str) -> FunctionName {
    FunctionName::new(text).unwrap()
}

pub(crate) fn attempt(function: &str, reason: Reason) -> AttemptRecord {
    AttemptRecord {
        invocation: InvocationId(1),
        function: name(function),
        attempt: Attempt(1),
        poll: 0,
        worker: None,
        cold: Some(true),
        version: None,
        started_ms: 0,
        ended_ms: 1500,
        duration_us: 20_000,
        reason,
        message: String::new(),
        exit_code: None,
        signal: None,
        usage: Usage {
            dropped_bytes: 7,
            ..Usage::default()
        },
        next_attempt_ms: None,
    }
}

pub(crate) fn text(metrics: &Metrics) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &metrics.registry).unwrap();
    text
}

#[test]
fn attempts_are_counted_under_their_documented_names() {
    let mut metrics = Metrics::new();
    metrics.attempt_ended(&attempt("hello", Reason::Ok), "POST");
    let again = AttemptRecord {
        next_attempt_ms: Some(9),
        ..attempt("hello", Reason::Exit(3))
    };
    metrics.attempt_ended(&again, "POST");
    // Retries and polls are no calls of their own, and a cancelled call is no failure.
    for reason in [Reason::Ok, Reason::Exit(3), Reason::Cancelled] {
        metrics.call_ended(&ended(reason), "POST");
    }
    metrics.invocation_ended(&name("hello"), RunState::Failed);
    metrics.dropped(
        &name("hello"),
        Reason::Skipped(fnd_core::records::outcome::Skip::QueueFull),
    );
    let usage = Usage {
        cpu_us: 1_500_000,
        memory_peak_bytes: Some(4096),
        ..Usage::default()
    };
    metrics.worker_ended(&name("hello"), &usage);
    let text = text(&metrics);
    for line in [
        r#"function_calls_total{function="hello",method="POST"} 3"#,
        r#"function_failures_total{function="hello",method="POST"} 1"#,
        r#"function_duration_seconds_bucket{le="0.05",function="hello",method="POST"} 2"#,
        r#"function_duration_seconds_bucket{le="0.01",function="hello",method="POST"} 0"#,
        r#"function_duration_seconds_count{function="hello",method="POST"} 2"#,
        r#"fnd_attempts_total{function="hello",reason="ok"} 1"#,
        r#"fnd_attempts_total{function="hello",reason="exit"} 1"#,
        r#"fnd_retries_total{function="hello"} 1"#,
        r#"fnd_gave_up_total{function="hello"} 1"#,
        r#"fnd_invocations_total{function="hello",state="failed"} 1"#,
        r#"fnd_requests_dropped_total{function="hello",reason="skipped-queue-full"} 1"#,
        r#"fnd_cold_starts_total{function="hello"} 2"#,
        r#"fnd_output_dropped_bytes_total{function="hello"} 14"#,
        r#"fnd_cpu_seconds_total{function="hello"} 1.5"#,
        r#"fnd_memory_peak_bytes{function="hello"} 4096.0"#,
        r#"fnd_last_success_timestamp_seconds{function="hello"} 1.5"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

/// Otherwise the first one would be no increase, and no alert.
#[test]
fn what_alerts_watch_begins_at_zero() {
    let mut metrics = Metrics::new();
    metrics.known(&name("hello"));
    let text = text(&metrics);
    for line in [
        r#"fnd_gave_up_total{function="hello"} 0"#,
        r#"fnd_attempts_total{function="hello",reason="oom"} 0"#,
        r#"fnd_requests_dropped_total{function="hello",reason="skipped-queue-full"} 0"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_function_that_is_gone_leaves_no_series() {
    let mut metrics = Metrics::new();
    let empty = text(&metrics);
    metrics.known(&name("hello"));
    for reason in [Reason::Ok, Reason::Oom, Reason::Signal(9)] {
        metrics.attempt_ended(&attempt("hello", reason), "GET");
        metrics.dropped(&name("hello"), reason);
    }
    metrics.invocation_ended(&name("hello"), RunState::Interrupted);
    metrics.worker_started(&name("hello"));
    metrics.worker_ended(&name("hello"), &Usage::default());
    assert_ne!(text(&metrics), empty);
    metrics.forget(&name("hello"));
    assert_eq!(text(&metrics), empty);
}

#[test]
fn functions_beyond_the_most_share_one_series() {
    let mut metrics = Metrics::new();
    for number in 0..FUNCTIONS_MAX + 5 {
        metrics.worker_started(&name(&format!("f{number}")));
    }
    let text = text(&metrics);
    let series = text
        .lines()
        .filter(|line| line.starts_with("fnd_workers_started_total{"));
    assert_eq!(series.count(), FUNCTIONS_MAX + 1);
    assert!(
        text.contains("fnd_workers_started_total{function=\"_other\"} 5\n"),
        "{text}"
    );
    // Room that is free again is taken again.
    metrics.forget(&name("f0"));
    assert_eq!(&*metrics.label(&name("late")), "late");
}

#[test]
fn methods_are_a_closed_list() {
    for (of_request, expected) in [
        (None, "NONE"),
        (Some("GET"), "GET"),
        (Some("get"), "OTHER"),
        (Some("NONE"), "OTHER"),
        (Some("PROPFIND"), "OTHER"),
    ] {
        assert_eq!(method(of_request), expected);
    }
}

#[test]
fn a_route_that_is_gone_has_no_series() {
    let mut metrics = Metrics::new();
    let function = name("hello");
    let mut request = |path, status| {
        metrics.requested(&RequestEnd {
            route: Some((&function, path)),
            invocation: None,
            method: "GET",
            path,
            status,
            bytes: None,
            caller: "unix",
            took: Duration::ZERO,
            upgraded: Some(fnd_core::report::Upgraded {
                to_caller: 1,
                from_caller: 2,
                lasted: Duration::ZERO,
            }),
            is_logged: false,
        });
    };
    for status in [None, Some(101), Some(204), Some(304), Some(404), Some(500)] {
        request("/gone", status);
        request("/stays", status);
    }
    assert!(text(&metrics).contains("\"/gone\""));
    metrics.keep_routes(&["/stays", "/other"].into());
    let text = text(&metrics);
    assert!(!text.contains("\"/gone\"") && text.contains("\"/stays\""), "{text}");
}
