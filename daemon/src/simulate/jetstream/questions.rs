//! The requests that wait for an answer. Each request gets exactly one: the server's answer, or that the result is unknown.

use crate::triggers::nats::fact::{NatsAnswer, NatsFact, SettleFailed, WriteRefused};
use crate::triggers::nats::request::{KeyWrite, NatsRequest};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Read(u64),
    ReadMessage(u64),
    Write(u64),
    Settle(u64),
}

/// The questions with the times at which they were sent.
#[derive(Debug, Default)]
pub(super) struct Questions(BTreeMap<Question, Duration>);

impl Questions {
    /// Takes a request that is sent now, if it is a question.
    pub(super) fn ask(&mut self, request: &NatsRequest, now: Duration) {
        self.0.extend(Question::of(request).map(|question| (question, now)));
    }

    /// Returns whether a question waits for this answer; from now on none does.
    pub(super) fn take(&mut self, fact: &NatsFact) -> bool {
        let NatsFact::Answer(number, answer) = fact else {
            return false;
        };
        let question = match answer {
            NatsAnswer::Key(_) => Question::Read(*number),
            NatsAnswer::Message(_) => Question::ReadMessage(*number),
            NatsAnswer::Written(_) => Question::Write(*number),
            NatsAnswer::Settled(_) => Question::Settle(*number),
            NatsAnswer::Published(_) => return false,
        };
        self.0.remove(&question).is_some()
    }

    /// Removes the questions whose time is over, and returns what fnd is told.
    pub(super) fn overdue(&mut self, now: Duration) -> Vec<NatsFact> {
        let overdue = self.0.extract_if(.., |_, sent| *sent + ANSWER_MAX <= now);
        overdue.map(|(question, _)| question.unanswered()).collect()
    }

    /// Removes all questions, because the connection was lost, and returns what fnd is told.
    pub(super) fn lost(&mut self) -> Vec<NatsFact> {
        let lost = std::mem::take(&mut self.0).into_keys();
        lost.map(Question::unanswered).collect()
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.0.values().min().map(|sent| *sent + ANSWER_MAX)
    }
}

/// Returns what fnd is told where there is no connection.
pub(super) fn refused(request: &NatsRequest) -> Option<NatsFact> {
    Question::of(request).map(Question::unanswered)
}

impl Question {
    fn of(request: &NatsRequest) -> Option<Self> {
        match request {
            NatsRequest::Read { number, .. } => Some(Self::Read(*number)),
            NatsRequest::ReadMessage { number, .. } => Some(Self::ReadMessage(*number)),
            NatsRequest::Write(KeyWrite { number, .. }) => Some(Self::Write(*number)),
            NatsRequest::Settle { number, .. } => Some(Self::Settle(*number)),
            _ => None,
        }
    }

    fn unanswered(self) -> NatsFact {
        let why = "there is no answer".to_owned();
        let (number, answer) = match self {
            Self::Read(number) => (number, NatsAnswer::Key(Err(why))),
            Self::ReadMessage(number) => (number, NatsAnswer::Message(Err(why))),
            Self::Write(number) => (number, NatsAnswer::Written(Err(WriteRefused::Unknown(why)))),
            Self::Settle(number) => (number, NatsAnswer::Settled(Err(SettleFailed::Timeout))),
        };
        NatsFact::Answer(number, answer)
    }
}
