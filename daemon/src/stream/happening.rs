//! A happening in the form in which it is kept: small, and put into words only when it is read.

use fnd_core::api::milliseconds;
use fnd_core::api::stream::{Kind, Seq, StreamEvent};
use fnd_core::instant;
use fnd_core::outcome::{Exhausted, Reason, State, Trigger};
use fnd_core::supervisor::FunctionState;
use fnd_core::trace::TraceId;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, Version, WorkerId};
use std::time::Duration;

/// Something that happened to a function, or to the node.
#[derive(Debug)]
pub(crate) struct Happening {
    pub(crate) unix_ms: u64,
    pub(crate) function: Option<FunctionName>,
    pub(crate) what: What,
}

/// The kind of a happening, with its data.
#[derive(Debug)]
pub(crate) enum What {
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
        state: State,
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
            What::Loaded(_) => Kind::Loaded,
            What::Refused { .. } => Kind::Refused,
            What::Removed => Kind::Removed,
            What::State(..) => Kind::State,
            What::Accepted(..) => Kind::Accepted,
            What::Started { .. } => Kind::Started,
            What::Ended { .. } => Kind::Ended,
            What::Retried { reason, .. } if *reason == Reason::ExecuteAgain => Kind::Polled,
            What::Retried { .. } => Kind::Retried,
            What::GaveUp(..) => Kind::GaveUp,
            What::Scaled(..) => Kind::Scaled,
            What::Dropped(..) => Kind::Dropped,
            What::Requested { .. } => Kind::Request,
            What::Problem { lasts: true, .. } => Kind::Problem,
            What::Problem { lasts: false, .. } => Kind::Solved,
        }
    }

    /// Returns about how many bytes it holds beside itself.
    pub(crate) fn size(&self) -> usize {
        let own = self.function.as_ref().map_or(0, |function| function.as_str().len());
        match &self.what {
            What::Refused { message, diagnostics } => {
                let each = diagnostics.iter().map(|diagnostic| {
                    let notes = diagnostic.notes.iter().map(String::len).sum::<usize>();
                    size_of::<Diagnostic>() + diagnostic.line().len() + notes
                });
                own + message.len() + each.sum::<usize>()
            }
            What::Ended { message, .. } | What::Requested { message, .. } => own + message.len(),
            What::Problem { text, .. } => own + text.len(),
            What::Loaded(_)
            | What::Removed
            | What::State(..)
            | What::Accepted(..)
            | What::Started { .. }
            | What::Retried { .. }
            | What::GaveUp(..)
            | What::Scaled(..)
            | What::Dropped(..) => own,
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
            What::Loaded(version) => StreamEvent {
                version: Some(*version),
                ..base
            },
            What::Refused { message, diagnostics } => StreamEvent {
                message: text(message),
                diagnostics: diagnostics.to_vec(),
                ..base
            },
            What::Removed => base,
            What::State(from, to) => StreamEvent {
                states: Some((*from, *to)),
                ..base
            },
            What::Accepted(invocation, trigger) => StreamEvent {
                invocation: Some(*invocation),
                trigger: Some(*trigger),
                ..base
            },
            What::Started {
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
            What::Ended {
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
            What::Retried {
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
            What::GaveUp(invocation, reason, exhausted) => StreamEvent {
                invocation: Some(*invocation),
                reason: *reason,
                exhausted: Some(*exhausted),
                ..base
            },
            What::Scaled(from, to) => StreamEvent {
                workers: Some((*from, *to)),
                ..base
            },
            What::Dropped(invocation, reason, trigger) => StreamEvent {
                invocation: *invocation,
                reason: *reason,
                trigger: Some(*trigger),
                ..base
            },
            What::Requested {
                invocation,
                message,
                took,
            } => StreamEvent {
                invocation: *invocation,
                message: text(message),
                duration_ms: Some(milliseconds(u64::try_from(took.as_micros()).unwrap_or(u64::MAX))),
                ..base
            },
            What::Problem {
                code, text: message, ..
            } => StreamEvent {
                code: Some((*code).to_owned()),
                message: text(message),
                ..base
            },
        }
    }
}
