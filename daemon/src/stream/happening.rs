//! A happening in the form in which it is kept: small, and put into words only when it is read.

use fnd_core::api::milliseconds;
use fnd_core::api::stream::{Kind, Seq, StreamEvent};
use fnd_core::instant;
use fnd_core::records::outcome::{Exhausted, Reason, RunState, Trigger};
use fnd_core::run::FunctionState;
use fnd_core::trace::TraceId;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, Version, WorkerId};
use std::time::Duration;

/// Something that happened to a function, or to the node.
#[derive(Debug)]
pub(crate) struct Happening {
    pub(crate) unix_ms: u64,
    pub(crate) function: Option<FunctionName>,
    pub(crate) what: EventKind,
}

/// The kind of a happening, with its data.
#[derive(Debug)]
pub(crate) enum EventKind {
    Loaded(Version),
    Refused {
        message: Box<str>,
        diagnostics: Box<[Diagnostic]>,
    },
    Removed,
    State(FunctionState, FunctionState),
    Accepted(InvocationId, Trigger),
    Started {
        invocation: InvocationId,
        attempt: Attempt,
        worker: WorkerId,
        trigger: Trigger,
    },
    Ended {
        invocation: InvocationId,
        /// The attempt, how long it took, and its trace.
        attempt: Option<(Attempt, u64, TraceId)>,
        version: Option<Version>,
        reason: Option<Reason>,
        message: Box<str>,
        state: RunState,
    },
    Retried {
        invocation: InvocationId,
        attempt: Attempt,
        reason: Reason,
        next_ms: u64,
    },
    GaveUp(InvocationId, Option<Reason>, Exhausted),
    Scaled(u32, u32),
    Dropped(Option<InvocationId>, Option<Reason>, Trigger),
    /// A request to the public listener is over.
    Requested {
        invocation: Option<InvocationId>,
        message: Box<str>,
        took: Duration,
    },
    /// A problem of the node began, or is over.
    Problem {
        code: &'static str,
        text: Box<str>,
        lasts: bool,
    },
}

impl Happening {
    pub(crate) fn kind(&self) -> Kind {
        match &self.what {
            EventKind::Loaded(_) => Kind::Loaded,
            EventKind::Refused { .. } => Kind::Refused,
            EventKind::Removed => Kind::Removed,
            EventKind::State(..) => Kind::State,
            EventKind::Accepted(..) => Kind::Accepted,
            EventKind::Started { .. } => Kind::Started,
            EventKind::Ended { .. } => Kind::Ended,
            EventKind::Retried { reason, .. } if *reason == Reason::ExecuteAgain => Kind::Polled,
            EventKind::Retried { .. } => Kind::Retried,
            EventKind::GaveUp(..) => Kind::GaveUp,
            EventKind::Scaled(..) => Kind::Scaled,
            EventKind::Dropped(..) => Kind::Dropped,
            EventKind::Requested { .. } => Kind::Request,
            EventKind::Problem { lasts: true, .. } => Kind::Problem,
            EventKind::Problem { lasts: false, .. } => Kind::Solved,
        }
    }

    /// Returns about how many bytes it holds beside itself.
    pub(crate) fn size(&self) -> usize {
        let own = self.function.as_ref().map_or(0, |function| function.as_str().len());
        match &self.what {
            EventKind::Refused { message, diagnostics } => {
                let each = diagnostics.iter().map(|diagnostic| {
                    let notes = diagnostic.notes.iter().map(String::len).sum::<usize>();
                    size_of::<Diagnostic>() + diagnostic.line().len() + notes
                });
                own + message.len() + each.sum::<usize>()
            }
            EventKind::Ended { message, .. } | EventKind::Requested { message, .. } => own + message.len(),
            EventKind::Problem { text, .. } => own + text.len(),
            EventKind::Loaded(_)
            | EventKind::Removed
            | EventKind::State(..)
            | EventKind::Accepted(..)
            | EventKind::Started { .. }
            | EventKind::Retried { .. }
            | EventKind::GaveUp(..)
            | EventKind::Scaled(..)
            | EventKind::Dropped(..) => own,
        }
    }

    /// Returns it as an event of the stream.
    pub(crate) fn view(&self, seq: Seq) -> StreamEvent {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let base = StreamEvent {
            function: self.function.clone(),
            ..StreamEvent::new(seq, self.unix_ms, self.kind())
        };
        match &self.what {
            EventKind::Loaded(version) => StreamEvent {
                version: Some(*version),
                ..base
            },
            EventKind::Refused { message, diagnostics } => StreamEvent {
                message: text(message),
                diagnostics: diagnostics.to_vec(),
                ..base
            },
            EventKind::Removed => base,
            EventKind::State(from, to) => StreamEvent {
                states: Some((*from, *to)),
                ..base
            },
            EventKind::Accepted(invocation, trigger) => StreamEvent {
                invocation: Some(*invocation),
                trigger: Some(*trigger),
                ..base
            },
            EventKind::Started {
                invocation,
                attempt,
                worker,
                trigger,
            } => StreamEvent {
                invocation: Some(*invocation),
                attempt: Some(attempt.0),
                worker: Some(worker.0),
                trigger: Some(*trigger),
                ..base
            },
            EventKind::Ended {
                invocation,
                attempt,
                version,
                reason,
                message,
                state,
            } => StreamEvent {
                invocation: Some(*invocation),
                attempt: attempt.map(|(attempt, ..)| attempt.0),
                duration_ms: attempt.map(|(_, duration_us, _)| milliseconds(duration_us)),
                trace_id: attempt.map(|(.., trace)| trace.to_string()),
                version: *version,
                reason: *reason,
                message: text(message),
                state: Some(*state),
                ..base
            },
            EventKind::Retried {
                invocation,
                attempt,
                reason,
                next_ms,
            } => StreamEvent {
                invocation: Some(*invocation),
                attempt: Some(attempt.0),
                reason: Some(*reason),
                next_attempt_at: Some(instant::text(*next_ms)),
                ..base
            },
            EventKind::GaveUp(invocation, reason, exhausted) => StreamEvent {
                invocation: Some(*invocation),
                reason: *reason,
                exhausted: Some(*exhausted),
                ..base
            },
            EventKind::Scaled(from, to) => StreamEvent {
                workers: Some((*from, *to)),
                ..base
            },
            EventKind::Dropped(invocation, reason, trigger) => StreamEvent {
                invocation: *invocation,
                reason: *reason,
                trigger: Some(*trigger),
                ..base
            },
            EventKind::Requested {
                invocation,
                message,
                took,
            } => StreamEvent {
                invocation: *invocation,
                message: text(message),
                duration_ms: Some(milliseconds(u64::try_from(took.as_micros()).unwrap_or(u64::MAX))),
                ..base
            },
            EventKind::Problem {
                code, text: message, ..
            } => StreamEvent {
                code: Some((*code).to_owned()),
                message: text(message),
                ..base
            },
        }
    }
}
