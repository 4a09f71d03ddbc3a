//! The events of the stream.

use crate::stream::EventKind;
use fnd_core::records::outcome::{Reason, RunState};
use fnd_core::records::{AttemptRecord, InvocationRecord};
use fnd_core::report::{ReportEvent, RequestEnd};
use fnd_core::run::Notice;
use fnd_core::trace::Span;
use fnd_wire::ids::FunctionName;

/// Passes on what the stream shows of an event: nothing, one happening, or several in their order.
pub(super) fn describe(event: ReportEvent<'_>, mut push: impl FnMut(Option<&FunctionName>, EventKind)) {
    match event {
        ReportEvent::FunctionRemoved(function) => push(Some(function), EventKind::Removed),
        ReportEvent::VersionLoaded(function, version) => push(Some(function), EventKind::Loaded(version)),
        ReportEvent::VersionRefused {
            function,
            message,
            diagnostics,
        } => push(Some(function), EventKind::Refused(message.into(), diagnostics.into())),
        ReportEvent::Notice(notice) => describe_notice(notice, push),
        ReportEvent::Accepted { function, id, trigger } => {
            push(Some(function), EventKind::Accepted(id, trigger));
        }
        ReportEvent::PoolScaled(function, (from, to)) => push(Some(function), EventKind::Scaled(from, to)),
        ReportEvent::AttemptEnded {
            attempt, record, span, ..
        } => {
            push(Some(&attempt.function), attempt_ended(attempt, record.state, span));
            if let Some(next_ms) = attempt.next_attempt_ms {
                let what = EventKind::Retried(attempt.invocation, attempt.attempt.next(), attempt.reason, next_ms);
                push(Some(&attempt.function), what);
            }
        }
        ReportEvent::EndedWaiting(record) => push(Some(&record.function), ended_waiting(record)),
        ReportEvent::InvocationEnded(record) => {
            if let Some(exhausted) = record.gave_up() {
                push(
                    Some(&record.function),
                    EventKind::GaveUp(record.id, record.reason, exhausted),
                );
            }
        }
        ReportEvent::Requested(request) => {
            let what = EventKind::Requested(request.invocation, line(request).into(), request.took);
            push(request.route.map(|(function, _)| function), what);
        }
        ReportEvent::Problem { code, text, lasts } => {
            let text = text.into();
            push(None, EventKind::Problem { code, text, lasts });
        }
        // The call of the function is an event of its own.
        ReportEvent::Alert { .. }
        // `VersionRefused` follows where this is news.
        | ReportEvent::ContentRefused { .. }
        | ReportEvent::FunctionKnown(_)
        | ReportEvent::InterpreterChanged { .. }
        | ReportEvent::Rescanned
        | ReportEvent::StatusChanged(_)
        | ReportEvent::News(..)
        | ReportEvent::WorkerRequested(_)
        | ReportEvent::WorkerEnded(..)
        | ReportEvent::SlotsDue { .. }
        | ReportEvent::EventsSent { .. }
        | ReportEvent::WokeLate(_)
        | ReportEvent::NodeError(_)
        | ReportEvent::NodeWarning(_)
        | ReportEvent::AttemptPutBack => {}
    }
}

/// Returns a request and its answer in one line: `POST /hello 200 from 192.0.2.1`.
fn line(request: &RequestEnd<'_>) -> String {
    let RequestEnd {
        method, path, caller, ..
    } = request;
    let status = request
        .status
        .map_or_else(|| "-".to_owned(), |status| status.to_string());
    format!("{method} {path} {status} from {caller}")
}

fn describe_notice(notice: &Notice, mut push: impl FnMut(Option<&FunctionName>, EventKind)) {
    match notice {
        Notice::AttemptStarted {
            function,
            invocation,
            attempt,
            worker,
            trigger,
        } => push(
            Some(function),
            EventKind::Started(*invocation, *attempt, *worker, *trigger),
        ),
        Notice::StateChanged { function, from, to } => push(Some(function), EventKind::State(*from, *to)),
        Notice::Rejected {
            function,
            trigger,
            skip,
        } => push(
            Some(function),
            EventKind::Dropped(None, Some(Reason::Skipped(*skip)), *trigger),
        ),
        Notice::Unkillable { .. } | Notice::StartsChanged | Notice::Defect(_) => {}
    }
}

fn attempt_ended(attempt: &AttemptRecord, state: RunState, span: Span) -> EventKind {
    EventKind::Ended {
        invocation: attempt.invocation,
        attempt: Some((attempt.attempt, attempt.duration_us, span.trace)),
        version: attempt.version,
        reason: Some(attempt.reason),
        message: attempt.message.as_str().into(),
        state,
    }
}

fn ended_waiting(record: &InvocationRecord) -> EventKind {
    if record.state == RunState::Skipped {
        return EventKind::Dropped(Some(record.id), record.reason, record.trigger);
    }
    EventKind::Ended {
        invocation: record.id,
        attempt: None,
        version: record.version,
        reason: record.reason,
        message: record.message.as_str().into(),
        state: record.state,
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{attempt_ended, ended, failed, name, rejected};
    use super::*;
    use crate::stream::Happening;
    use fnd_core::api::stream::{Kind, Seq, StreamEvent};
    use fnd_core::records::outcome::{Exhausted, Skip, Trigger};
    use fnd_manifest::diagnostic::Diagnostic;
    use fnd_wire::ids::{InvocationId, Version};

    fn event(kind: Kind) -> StreamEvent {
        let seq = Seq { epoch: 0, number: 0 };
        StreamEvent::new(seq, 0, kind)
    }

    /// An event of the function, and of its invocation.
    fn of_invocation(kind: Kind) -> StreamEvent {
        StreamEvent {
            function: Some(name()),
            invocation: Some(InvocationId(1)),
            ..event(kind)
        }
    }

    fn check(reported: ReportEvent<'_>, expected: &[StreamEvent]) {
        let mut found = Vec::new();
        describe(reported, |function, what| {
            let happening = Happening {
                unix_ms: 0,
                function: function.cloned(),
                what,
            };
            found.push(happening.view(Seq { epoch: 0, number: 0 }));
        });
        assert_eq!(found, expected, "{reported:?}");
    }

    #[test]
    fn the_end_of_an_attempt_comes_before_what_follows_from_it() {
        let (attempt, record) = failed();
        let end = StreamEvent {
            attempt: Some(1),
            trace_id: Some(format!("{:032x}", 1)),
            duration_ms: Some(20.0),
            reason: Some(Reason::Exit(3)),
            state: Some(RunState::Failed),
            ..of_invocation(Kind::Ended)
        };
        check(attempt_ended(&attempt, &record), std::slice::from_ref(&end));
        let gave_up = StreamEvent {
            reason: Some(Reason::Exit(3)),
            exhausted: Some(Exhausted::Retries),
            ..of_invocation(Kind::GaveUp)
        };
        check(ReportEvent::InvocationEnded(&record), &[gave_up]);
        check(ReportEvent::InvocationEnded(&ended(Reason::Ok)), &[]);

        let again = AttemptRecord {
            next_attempt_ms: Some(0),
            ..attempt
        };
        let retried = StreamEvent {
            attempt: Some(2),
            reason: Some(Reason::Exit(3)),
            next_attempt_at: Some(fnd_core::instant::text(0)),
            ..of_invocation(Kind::Retried)
        };
        check(attempt_ended(&again, &record), &[end, retried]);
    }

    #[test]
    fn what_did_not_run_is_dropped_or_has_ended() {
        let skipped = Reason::Skipped(Skip::QueueFull);
        let dropped = StreamEvent {
            reason: Some(skipped),
            trigger: Some(Trigger::Manual),
            ..of_invocation(Kind::Dropped)
        };
        check(
            ReportEvent::EndedWaiting(&ended(skipped)),
            std::slice::from_ref(&dropped),
        );
        let on_arrival = StreamEvent {
            invocation: None,
            ..dropped
        };
        check(ReportEvent::Notice(&rejected()), &[on_arrival]);
        let cancelled = StreamEvent {
            reason: Some(Reason::Cancelled),
            message: Some("in words".to_owned()),
            state: Some(RunState::Cancelled),
            ..of_invocation(Kind::Ended)
        };
        check(ReportEvent::EndedWaiting(&ended(Reason::Cancelled)), &[cancelled]);
    }

    #[test]
    fn functions_and_problems_come_and_go() {
        let function = name();
        let of_function = |kind| StreamEvent {
            function: Some(name()),
            ..event(kind)
        };
        let version = Version([1; 32]);
        let loaded = StreamEvent {
            version: Some(version),
            ..of_function(Kind::Loaded)
        };
        check(ReportEvent::VersionLoaded(&function, version), &[loaded]);
        let diagnostics = [Diagnostic::error("clash", "two files")];
        let refused = StreamEvent {
            message: Some("bad".to_owned()),
            diagnostics: diagnostics.to_vec(),
            ..of_function(Kind::Refused)
        };
        let reported = ReportEvent::VersionRefused {
            function: &function,
            message: "bad",
            diagnostics: &diagnostics,
        };
        check(reported, &[refused]);
        let scaled = StreamEvent {
            workers: Some((1, 2)),
            ..of_function(Kind::Scaled)
        };
        check(ReportEvent::PoolScaled(&function, (1, 2)), &[scaled]);
        check(ReportEvent::FunctionRemoved(&function), &[of_function(Kind::Removed)]);
        check(ReportEvent::FunctionKnown(&function), &[]);

        let (code, text) = ("metrics", "the port is taken");
        let problem = |kind| StreamEvent {
            code: Some(code.to_owned()),
            message: Some(text.to_owned()),
            ..event(kind)
        };
        for (lasts, kind) in [(true, Kind::Problem), (false, Kind::Solved)] {
            check(ReportEvent::Problem { code, text, lasts }, &[problem(kind)]);
        }
    }
}
