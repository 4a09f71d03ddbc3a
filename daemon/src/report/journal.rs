//! fnd's messages about events: the words for people, and the fields for queries.

use crate::telemetry::{escape, plain_duration};
use fnd_core::lifecycle::release::short;
use fnd_core::records::outcome::{Class, Reason};
use fnd_core::records::{AttemptRecord, InvocationRecord};
use fnd_core::report::{FunctionNews, ReportEvent, RequestEnd, Upgraded};
use fnd_core::run::{FunctionState, Notice};
use fnd_core::trace::Span;
use fnd_core::triggers::alerts::Alert;
use fnd_wire::ids::FunctionName;
use std::path::Path;
use std::time::Duration;

pub(super) fn write(event: ReportEvent<'_>) {
    match event {
        ReportEvent::ContentRefused {
            function,
            error,
            serving,
        } => refused(function, error, serving),
        ReportEvent::News(function, given) => news(function, given),
        ReportEvent::InterpreterChanged { path, real, functions } => interpreter_changed(path, real, functions),
        ReportEvent::Notice(given) => notice(given),
        ReportEvent::AttemptEnded { attempt, span, .. } => attempt_ended(attempt, span),
        ReportEvent::EndedWaiting(record) => ended_waiting(record),
        ReportEvent::Requested(request) => requested(request),
        ReportEvent::Alert { alert, called } => notified(alert, called),
        ReportEvent::NodeError(text) => tracing::error!("{text}"),
        ReportEvent::NodeWarning(text) => tracing::warn!("{text}"),
        ReportEvent::Problem { text, lasts: true, .. } => tracing::error!("{text}"),
        ReportEvent::Problem { text, lasts: false, .. } => tracing::info!("over: {text}"),
        // Another message tells of each, or nobody has to act on it.
        ReportEvent::FunctionKnown(_)
        | ReportEvent::FunctionRemoved(_)
        | ReportEvent::VersionLoaded(..)
        | ReportEvent::VersionRefused { .. }
        | ReportEvent::Rescanned
        | ReportEvent::StatusChanged(_)
        | ReportEvent::Accepted { .. }
        | ReportEvent::WorkerRequested(_)
        | ReportEvent::WorkerEnded(..)
        | ReportEvent::PoolScaled(..)
        | ReportEvent::AttemptPutBack
        | ReportEvent::SlotsDue { .. }
        | ReportEvent::EventsSent { .. }
        | ReportEvent::WokeLate(_)
        | ReportEvent::InvocationEnded(_) => {}
    }
}

/// Logs a call of `[alert]`.
fn notified(alert: &Alert, called: &FunctionName) {
    let about = alert.about.as_ref().map_or("the node", FunctionName::as_str);
    tracing::info!(
        fnd_event = "alert",
        fnd_function = alert.about.as_ref().map(FunctionName::as_str),
        fnd_invocation = alert.invocation.as_ref().map(display),
        "{about}  {}: {called} is told: {}",
        alert.word.as_str(),
        escape(&alert.message)
    );
}

/// Logs a request to the public listener.
fn requested(request: &RequestEnd<'_>) {
    if !request.is_logged {
        return;
    }
    let RequestEnd {
        route,
        method,
        caller,
        took,
        ..
    } = *request;
    let path = escape(request.path);
    let ms = took.as_secs_f64() * 1000.0;
    let end = match (request.status, request.bytes) {
        (None, _) => "-, the caller left before the answer".to_owned(),
        (Some(status), None) => status.to_string(),
        (Some(status), Some(bytes)) => format!("{status} {bytes} B"),
    };
    let after = request.upgraded.map(|upgraded| {
        let Upgraded {
            to_caller,
            from_caller,
            lasted,
        } = upgraded;
        let seconds = lasted.as_secs_f64();
        format!("; then {to_caller} B to it and {from_caller} B from it in {seconds:.1} s")
    });
    let after = after.unwrap_or_default();
    tracing::info!(
        fnd_event = "request",
        fnd_function = route.map(|(function, _)| function.as_str()),
        fnd_invocation = request.invocation.map(display),
        route = route.map(|(_, path)| path),
        status = request.status,
        caller,
        "{method} {path} {end}, {ms:.1} ms, from {caller}{after}"
    );
}

/// Logs a notice of the supervisor.
fn notice(notice: &Notice) {
    match notice {
        Notice::AttemptStarted {
            function,
            invocation,
            attempt,
            worker,
            trigger,
        } => tracing::debug!(
            fnd_event = "attempt-started",
            fnd_function = function.as_str(),
            fnd_invocation = display(invocation),
            fnd_attempt = u64::from(attempt.0),
            "{function}  attempt {} started as {worker} ({})",
            attempt.0,
            trigger.as_str()
        ),
        Notice::Rejected {
            function,
            trigger,
            skip,
        } => tracing::debug!(
            fnd_event = "rejected",
            fnd_function = function.as_str(),
            "{function}  a request was refused ({}, {})",
            Reason::Skipped(*skip),
            trigger.as_str()
        ),
        Notice::StateChanged { function, from, to } => state_changed(function, *from, *to),
        Notice::Unkillable { worker, function } => tracing::error!(
            fnd_event = "unkillable",
            fnd_function = function.as_str(),
            "{function}  processes of {worker} did not end after SIGKILL (they wait in the kernel, often for a disk or a \
             network file system), no other attempt takes their place until they do"
        ),
        // Reported as a problem of the node.
        Notice::StartsChanged => {}
        Notice::Defect(what) => tracing::error!(fnd_event = "defect", "a defect of fnd, made safe: {what}"),
    }
}

/// Logs that a function's state changed.
fn state_changed(function: &FunctionName, from: FunctionState, to: FunctionState) {
    let name = function.as_str();
    // The arguments of a macro of `tracing` cost nothing while its level is off.
    macro_rules! say {
        ($level:ident, $($words:tt)+) => {
            tracing::$level!(fnd_event = "state-changed", fnd_function = name, $($words)+)
        };
    }
    match (from, to) {
        // Each run does that; the run's end is logged.
        (FunctionState::Ready, FunctionState::Running) | (FunctionState::Running, FunctionState::Ready) => {
            say!(debug, "{name}  is {}", to.as_str());
        }
        (_, FunctionState::CrashLooping | FunctionState::Invalid) => {
            say!(warn, "{name}  is {}, was {}", to.as_str(), from.as_str());
        }
        (_, FunctionState::Building | FunctionState::Ready | FunctionState::Running | FunctionState::Disabled) => {
            say!(info, "{name}  is {}, was {}", to.as_str(), from.as_str());
        }
    }
}

/// Logs that an attempt ended, and when the next one begins if there is one. The fields describe it as a span of a
/// trace.
fn attempt_ended(attempt: &AttemptRecord, span: Span) {
    // The arguments of a macro of `tracing` cost nothing while its level is off.
    macro_rules! say {
        ($level:ident) => {
            tracing::$level!(
                fnd_event = "attempt-ended",
                fnd_function = attempt.function.as_str(),
                fnd_invocation = display(attempt.invocation),
                fnd_attempt = u64::from(attempt.attempt.0),
                fnd_reason = tracing::field::display(attempt.reason),
                fnd_trace_id = tracing::field::display(span.trace),
                fnd_span_id = tracing::field::display(span.id),
                fnd_parent_span_id = span.parent.map(tracing::field::display),
                fnd_duration_us = attempt.duration_us,
                "{}",
                attempt_words(attempt)
            )
        };
    }
    match attempt.reason.class() {
        Class::Success | Class::ExecuteAgain | Class::Cancelled | Class::Skipped => say!(info),
        Class::Transient
        | Class::Failed
        | Class::Error
        | Class::Timeout
        | Class::Oom
        | Class::Signal
        | Class::Spawn
        | Class::Interrupted
        | Class::Deadline => say!(warn),
    }
}

fn attempt_words(attempt: &AttemptRecord) -> String {
    let took = plain_duration(Duration::from_micros(attempt.duration_us));
    let (function, number) = (&attempt.function, attempt.attempt.0);
    let next = match attempt.next_attempt_ms {
        Some(next) => {
            let delay = Duration::from_millis(next.saturating_sub(attempt.ended_ms));
            format!(", attempt {} in {}", attempt.attempt.next().0, plain_duration(delay))
        }
        None => String::new(),
    };
    if attempt.reason.class() == Class::Success {
        return format!("{function}  attempt {number} succeeded in {took}");
    }
    let verb = match attempt.reason.class() {
        Class::ExecuteAgain => "asked to be executed again",
        Class::Cancelled => "was cancelled",
        Class::Interrupted => "was interrupted",
        _ => "failed",
    };
    let message = escape(attempt.message.trim());
    let colon = if message.is_empty() { "" } else { ": " };
    format!(
        "{function}  attempt {number} {verb} after {took} ({}{colon}{message}){next}",
        attempt.reason
    )
}

/// Logs that an invocation ended without an attempt of its own: skipped, cancelled in the queue, or exhausted.
fn ended_waiting(record: &InvocationRecord) {
    let reason = record.reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let message = escape(record.message.trim());
    tracing::info!(
        fnd_event = "invocation-ended",
        fnd_function = record.function.as_str(),
        fnd_invocation = display(record.id),
        "{}  invocation {} {}{reason}: {message}",
        record.function,
        record.id,
        record.state.as_str()
    );
}

/// Logs that a function's newest content was refused, and the consequence.
fn refused(function: &FunctionName, error: &str, serving: bool) {
    let follows = if serving {
        "keeping the previous version"
    } else {
        "it cannot run"
    };
    tracing::warn!(
        fnd_event = "refused",
        fnd_function = function.as_str(),
        "{function}  was refused, {follows}\n{error}"
    );
}

fn news(function: &FunctionName, news: &FunctionNews) {
    match news {
        FunctionNews::CanaryBegan(version) => {
            tracing::info!("{function}: release {} gets a share of the calls", short(*version));
        }
        FunctionNews::CanaryRolledBack(version, why) => {
            tracing::warn!("{function}: release {} is rolled back: {why}", short(*version));
        }
        FunctionNews::CanaryPromoted => tracing::info!("{function}: its canary is promoted"),
        FunctionNews::CanaryNotPromoted(why) => tracing::error!("{function}: its canary cannot be promoted: {why}"),
        FunctionNews::WaitsForBuild(tree) => {
            tracing::info!("{function}  waits for its dependencies {}", short(*tree));
        }
        FunctionNews::VerdictUnread(why) => tracing::error!("the verdict on `{function}` cannot be read: {why}"),
        FunctionNews::Warning(text) => tracing::warn!("{function}  {text}"),
        FunctionNews::QuotaExceeded(why) => tracing::warn!(
            FND_FUNCTION = %function,
            "`{function}` is over its quota, new runs of it are refused: {why}"
        ),
        FunctionNews::QuotaKept => tracing::info!(FND_FUNCTION = %function, "`{function}` is within its quota again"),
        FunctionNews::SchedulesBeginAnew => tracing::warn!(
            FND_FUNCTION = %function,
            "the clock was set back by more than a day: the schedules of `{function}` begin anew"
        ),
        FunctionNews::CallPostponed => {
            tracing::error!("the call of `{function}` waits for the next start of fnd: the ledger has no room for it");
        }
    }
}

/// Logs that an interpreter has changed, and the consequence.
fn interpreter_changed(path: &str, real: Option<&Path>, functions: usize) {
    let Some(real) = real else {
        tracing::warn!(
            fnd_event = "interpreter-gone",
            "the interpreter `{path}` no longer exists: {functions} functions may need it; running workers continue"
        );
        return;
    };
    tracing::info!(
        fnd_event = "interpreter-changed",
        "the interpreter `{path}` was replaced by `{}`: {functions} functions are prepared again",
        real.display()
    );
}

#[cfg(test)]
mod tests {
    use super::super::examples;
    use super::*;
    use fnd_core::records::Usage;
    use fnd_wire::ids::{Attempt, InvocationId, Version};
    use std::io::Seek as _;
    use std::sync::Arc;

    fn attempt(reason: Reason, message: &str) -> AttemptRecord {
        AttemptRecord {
            invocation: InvocationId(1),
            function: FunctionName::new("hello").unwrap(),
            attempt: Attempt(1),
            poll: 0,
            worker: None,
            cold: None,
            version: None,
            started_ms: 0,
            ended_ms: 1000,
            duration_us: 12_000,
            reason,
            message: message.to_owned(),
            exit_code: None,
            signal: None,
            usage: Usage::default(),
            next_attempt_ms: None,
        }
    }

    #[test]
    fn ends_read_as_one_line() {
        assert_eq!(
            attempt_words(&attempt(Reason::Ok, "")),
            "hello  attempt 1 succeeded in 12 ms"
        );
        let failed = AttemptRecord {
            next_attempt_ms: Some(3000),
            ..attempt(Reason::Exit(3), "no\nroute\x1b[1m\n")
        };
        let expected = "hello  attempt 1 failed after 12 ms (exit-3: no\\nroute\\x1b[1m), attempt 2 in 2.00 s";
        assert_eq!(attempt_words(&failed), expected);
        let signal = attempt(Reason::Signal(11), "");
        assert_eq!(
            attempt_words(&signal),
            "hello  attempt 1 failed after 12 ms (signal-SEGV)"
        );
    }

    /// Returns the messages of events, each with its level and fields.
    fn written(events: &[ReportEvent<'_>]) -> String {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(Arc::clone(&file))
            .with_ansi(false)
            .with_target(false)
            .without_time();
        tracing::subscriber::with_default(subscriber.finish(), || events.iter().for_each(|event| write(*event)));
        (&*file).rewind().unwrap();
        std::io::read_to_string(&*file).unwrap()
    }

    #[test]
    fn each_event_with_words_is_one_message() {
        let (failed, record) = examples::failed();
        let name = examples::name();
        let rejected = examples::rejected();
        let code = "metrics";
        let events = [
            examples::attempt_ended(&failed, &record),
            ReportEvent::EndedWaiting(&record),
            ReportEvent::InvocationEnded(&record),
            ReportEvent::Notice(&rejected),
            ReportEvent::ContentRefused {
                function: &name,
                error: "bad",
                serving: true,
            },
            ReportEvent::InterpreterChanged {
                path: "/usr/bin/python3",
                real: None,
                functions: 2,
            },
            ReportEvent::Problem {
                code,
                text: "the port is taken",
                lasts: true,
            },
            ReportEvent::Problem {
                code,
                text: "the port is taken",
                lasts: false,
            },
            ReportEvent::FunctionRemoved(&name),
        ];
        let written = written(&events);
        let expected = [
            (" WARN", "hello  attempt 1 failed after 20 ms (exit-3)"),
            (" INFO", "failed (exit-3): in words"),
            ("DEBUG", "hello  a request was refused (skipped-queue-full, manual)"),
            (" WARN", "hello  was refused, keeping the previous version"),
            ("bad", ""),
            (
                " WARN",
                "the interpreter `/usr/bin/python3` no longer exists: 2 functions may need it",
            ),
            ("ERROR", "the port is taken"),
            (" INFO", "over: the port is taken"),
        ];
        assert_eq!(written.lines().count(), expected.len(), "{written}");
        for (line, (begin, words)) in written.lines().zip(expected) {
            assert!(line.starts_with(begin) && line.contains(words), "{line}");
        }
        assert!(
            written.contains("fnd_event=\"attempt-ended\" fnd_function=\"hello\""),
            "{written}"
        );
    }

    #[test]
    fn news_of_a_function_are_lines_that_name_it() {
        let version = Version([0xab; 32]);
        let text = || "why".to_owned();
        let all = [
            (
                FunctionNews::CanaryBegan(version),
                " INFO hello: release abababababab gets a share of the calls",
            ),
            (
                FunctionNews::CanaryRolledBack(version, text()),
                " WARN hello: release abababababab is rolled back: why",
            ),
            (FunctionNews::CanaryPromoted, " INFO hello: its canary is promoted"),
            (
                FunctionNews::CanaryNotPromoted(text()),
                "ERROR hello: its canary cannot be promoted: why",
            ),
            (
                FunctionNews::WaitsForBuild(version),
                " INFO hello  waits for its dependencies abababababab",
            ),
            (
                FunctionNews::VerdictUnread(text()),
                "ERROR the verdict on `hello` cannot be read: why",
            ),
            (FunctionNews::Warning(text()), " WARN hello  why"),
            (
                FunctionNews::QuotaExceeded(text()),
                " WARN `hello` is over its quota, new runs of it are refused: why FND_FUNCTION=hello",
            ),
            (
                FunctionNews::QuotaKept,
                " INFO `hello` is within its quota again FND_FUNCTION=hello",
            ),
            (
                FunctionNews::SchedulesBeginAnew,
                " WARN the clock was set back by more than a day: the schedules of `hello` begin anew FND_FUNCTION=hello",
            ),
            (
                FunctionNews::CallPostponed,
                "ERROR the call of `hello` waits for the next start of fnd: the ledger has no room for it",
            ),
        ];
        let name = examples::name();
        for (news, line) in &all {
            assert_eq!(written(&[ReportEvent::News(&name, news)]).trim_end(), *line);
        }
    }
}
