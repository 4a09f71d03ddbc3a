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
    /// The message, and the diagnostics.
    Refused(Box<str>, Box<[Diagnostic]>),
    Removed,
    State(FunctionState, FunctionState),
    Accepted(InvocationId, Trigger),
    Started(InvocationId, Attempt, WorkerId, Trigger),
    Ended {
        invocation: InvocationId,
        /// The attempt, how long it took, and its trace.
        attempt: Option<(Attempt, u64, TraceId)>,
        version: Option<Version>,
        reason: Option<Reason>,
        message: Box<str>,
        state: RunState,
    },
    /// The next attempt, why it follows, and when it begins.
    Retried(InvocationId, Attempt, Reason, u64),
    GaveUp(InvocationId, Option<Reason>, Exhausted),
    Scaled(u32, u32),
    Dropped(Option<InvocationId>, Option<Reason>, Trigger),
    /// A request to the public listener is over: the request and its answer in words, and how long it took.
    Requested(Option<InvocationId>, Box<str>, Duration),
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
            EventKind::Refused(..) => Kind::Refused,
            EventKind::Removed => Kind::Removed,
            EventKind::State(..) => Kind::State,
            EventKind::Accepted(..) => Kind::Accepted,
            EventKind::Started(..) => Kind::Started,
            EventKind::Ended { .. } => Kind::Ended,
            EventKind::Retried(_, _, Reason::ExecuteAgain, _) => Kind::Polled,
            EventKind::Retried(..) => Kind::Retried,
            EventKind::GaveUp(..) => Kind::GaveUp,
            EventKind::Scaled(..) => Kind::Scaled,
            EventKind::Dropped(..) => Kind::Dropped,
            EventKind::Requested(..) => Kind::Request,
            EventKind::Problem { lasts: true, .. } => Kind::Problem,
            EventKind::Problem { lasts: false, .. } => Kind::Solved,
        }
    }

    /// Returns about how many bytes it holds beside itself.
    pub(crate) fn size(&self) -> usize {
        let own = self.function.as_ref().map_or(0, |function| function.as_str().len());
        match &self.what {
            EventKind::Refused(message, diagnostics) => {
                let each = diagnostics.iter().map(|diagnostic| {
                    let notes = diagnostic.notes.iter().map(String::len).sum::<usize>();
                    size_of::<Diagnostic>() + diagnostic.line().len() + notes
                });
                own + message.len() + each.sum::<usize>()
            }
            EventKind::Ended { message, .. } | EventKind::Requested(_, message, _) => own + message.len(),
            EventKind::Problem { text, .. } => own + text.len(),
            EventKind::Loaded(_)
            | EventKind::Removed
            | EventKind::State(..)
            | EventKind::Accepted(..)
            | EventKind::Started(..)
            | EventKind::Retried(..)
            | EventKind::GaveUp(..)
            | EventKind::Scaled(..)
            | EventKind::Dropped(..) => own,
        }
    }

    /// Returns it as an event of the stream.
    pub(crate) fn view(&self, seq: Seq) -> StreamEvent {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mut event = StreamEvent {
            function: self.function.clone(),
            ..StreamEvent::new(seq, self.unix_ms, self.kind())
        };
        match &self.what {
            EventKind::Loaded(version) => event.version = Some(*version),
            EventKind::Refused(message, diagnostics) => {
                event.message = text(message);
                event.diagnostics = diagnostics.to_vec();
            }
            EventKind::Removed => {}
            EventKind::State(from, to) => event.states = Some((*from, *to)),
            EventKind::Accepted(invocation, trigger) => {
                event.invocation = Some(*invocation);
                event.trigger = Some(*trigger);
            }
            EventKind::Started(invocation, attempt, worker, trigger) => {
                event.invocation = Some(*invocation);
                event.attempt = Some(attempt.0);
                event.worker = Some(worker.0);
                event.trigger = Some(*trigger);
            }
            EventKind::Ended {
                invocation,
                attempt,
                version,
                reason,
                message,
                state,
            } => {
                event.invocation = Some(*invocation);
                event.attempt = attempt.map(|(attempt, ..)| attempt.0);
                event.duration_ms = attempt.map(|(_, duration_us, _)| milliseconds(duration_us));
                event.trace_id = attempt.map(|(.., trace)| trace.to_string());
                event.version = *version;
                event.reason = *reason;
                event.message = text(message);
                event.state = Some(*state);
            }
            EventKind::Retried(invocation, attempt, reason, next_ms) => {
                event.invocation = Some(*invocation);
                event.attempt = Some(attempt.0);
                event.reason = Some(*reason);
                event.next_attempt_at = Some(instant::text(*next_ms));
            }
            EventKind::GaveUp(invocation, reason, exhausted) => {
                event.invocation = Some(*invocation);
                event.reason = *reason;
                event.exhausted = Some(*exhausted);
            }
            EventKind::Scaled(from, to) => event.workers = Some((*from, *to)),
            EventKind::Dropped(invocation, reason, trigger) => {
                event.invocation = *invocation;
                event.reason = *reason;
                event.trigger = Some(*trigger);
            }
            EventKind::Requested(invocation, message, took) => {
                event.invocation = *invocation;
                event.message = text(message);
                event.duration_ms = Some(milliseconds(u64::try_from(took.as_micros()).unwrap_or(u64::MAX)));
            }
            EventKind::Problem {
                code, text: message, ..
            } => {
                event.code = Some((*code).to_owned());
                event.message = text(message);
            }
        }
        event
    }
}
