//! Events for the tests of the destinations.

use super::{Reporter, StatusFiles};
use crate::metrics::tests::attempt;
use fnd_core::records::outcome::{Exhausted, Reason, Skip, Trigger};
use fnd_core::records::{Accepted, AttemptRecord, InvocationRecord};
use fnd_core::report::ReportEvent;
use fnd_core::run::Notice;
use fnd_core::trace::Span;
use fnd_wire::ids::{FunctionName, InvocationId};

pub(super) fn name() -> FunctionName {
    FunctionName::new("hello").unwrap()
}

/// Returns a reporter without any event. It can write no status files.
pub(super) fn reporter() -> Reporter {
    let directory = tempfile::tempdir().unwrap();
    Reporter::new(0, StatusFiles::open(directory.path(), 0o640).unwrap())
}

/// Returns a request that was refused because the queue was full.
pub(super) fn rejected() -> Notice {
    Notice::Rejected {
        function: name(),
        trigger: Trigger::Manual,
        skip: Skip::QueueFull,
    }
}

/// Returns an attempt that failed, and the invocation that has used up its retries with it.
pub(super) fn failed() -> (AttemptRecord, InvocationRecord) {
    (attempt("hello", Reason::Exit(3)), ended(Reason::Exit(3)))
}

/// Returns an invocation that ended for a reason.
pub(crate) fn ended(reason: Reason) -> InvocationRecord {
    InvocationRecord {
        state: reason.final_state(),
        ended_ms: Some(2),
        attempts: 1,
        reason: Some(reason),
        message: "in words".to_owned(),
        exhausted: Some(Exhausted::Retries),
        ..InvocationRecord::of(&Accepted::new(InvocationId(1), name(), Trigger::Manual, 1))
    }
}

/// Returns the event of an attempt's end.
pub(super) fn attempt_ended<'a>(attempt: &'a AttemptRecord, record: &'a InvocationRecord) -> ReportEvent<'a> {
    ReportEvent::AttemptEnded {
        attempt,
        record,
        span: Span::of(None, attempt.invocation, attempt.attempt),
        method: "POST",
    }
}
