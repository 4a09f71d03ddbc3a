//! Requests that wait for the server's answer, with a deadline each. All answers come to one subscription: the last
//! part of their subject is the number of the request.
//!
//! The client has requests of its own. They are not used where the order counts: here a request is on its way when the
//! call returns, so a renewal goes before the signs of life that follow it. And an answer that never comes leaves
//! nothing behind.

use crate::triggers::nats::fact::{NatsAnswer, NatsFact, SettleFailed, WriteRefused};
use crate::triggers::nats::request::KeyWrite;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the server may take for an answer: a cluster has to agree on what it makes.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A request that waits for its answer, with the values that are needed to read the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    Read {
        number: u64,
    },
    Write(KeyWrite),
    /// Whether the key that should not be there is only the mark of a deleted one. Then that one is replaced.
    Deleted(KeyWrite),
    Settle {
        number: u64,
    },
    Publish {
        number: u64,
    },
    /// Nobody waits for the answer: only a missing consumer is of interest. The address of the delivery.
    Signal {
        ack: Arc<str>,
    },
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// Nothing listens to the subject of the request.
    NoResponders,
    /// The time for the answer is over.
    Timeout,
    /// There is no connection, or it was lost before the answer.
    Disconnected,
}

impl NoAnswer {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::NoResponders => "nobody takes it: the stream is missing, or JetStream is off",
            Self::Timeout => "the server has not answered for 5s",
            Self::Disconnected => "there is no connection to the server",
        }
    }
}

/// A request that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingReply {
    pub(super) question: Question,
    pub(super) sent: Instant,
}

/// All of one connection.
#[derive(Debug)]
pub(super) struct PendingReplies {
    /// The beginning of the subjects of answers, with a dot at its end.
    inbox: String,
    next: u64,
    waiting: BTreeMap<u64, PendingReply>,
}

impl PendingReplies {
    pub(super) fn new(inbox: &str) -> Self {
        Self {
            inbox: format!("{inbox}."),
            next: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// Returns the subject of all answers.
    pub(super) fn subject(&self) -> String {
        format!("{}*", self.inbox)
    }

    /// Takes a question that is sent at `now`, and returns where its answer is expected.
    pub(super) fn add(&mut self, question: Question, now: Instant) -> String {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.waiting.insert(number, PendingReply { question, sent: now });
        format!("{}{number}", self.inbox)
    }

    /// Removes and returns the question that an answer with this subject is for; nothing if the answer comes too late.
    pub(super) fn take(&mut self, subject: &str) -> Option<PendingReply> {
        let number = subject.strip_prefix(&self.inbox)?.parse().ok()?;
        self.waiting.remove(&number)
    }

    /// Removes and returns the questions whose time is over.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<PendingReply> {
        // All have the same time, so the oldest are the first.
        let is_over = |reply: &PendingReply| now.saturating_duration_since(reply.sent) >= ANSWER_MAX;
        let first = self.waiting.iter().find(|(_, reply)| !is_over(reply));
        let waiting = match first.map(|(number, _)| *number) {
            Some(number) => self.waiting.split_off(&number),
            None => BTreeMap::new(),
        };
        std::mem::replace(&mut self.waiting, waiting).into_values().collect()
    }

    /// Removes and returns all questions: the connection was lost.
    pub(super) fn drain(&mut self) -> Vec<PendingReply> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    /// Returns when a question is overdue.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let (_, oldest) = self.waiting.first_key_value()?;
        oldest.sent.checked_add(ANSWER_MAX)
    }
}

/// Returns the fact about a question that has no answer.
pub(super) fn unanswered(question: &Question, why: NoAnswer) -> Option<NatsFact> {
    let words = why.words().to_owned();
    let (number, answer) = match question {
        Question::Read { number } => (*number, NatsAnswer::Key(Err(words))),
        Question::Write(KeyWrite { number, .. }) | Question::Deleted(KeyWrite { number, .. }) => {
            (*number, NatsAnswer::Written(Err(WriteRefused::Unknown(words))))
        }
        Question::Settle { number } => {
            let failed = match why {
                NoAnswer::NoResponders => SettleFailed::NoResponders,
                NoAnswer::Timeout | NoAnswer::Disconnected => SettleFailed::Timeout,
            };
            (*number, NatsAnswer::Settled(Err(failed)))
        }
        Question::Publish { number } => (*number, NatsAnswer::Published(Err(words))),
        Question::Signal { .. } => return None,
    };
    Some(NatsFact::Answer(number, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(number: u64) -> Question {
        Question::Read { number }
    }

    fn numbers(replies: &[PendingReply]) -> Vec<Question> {
        replies.iter().map(|reply| reply.question.clone()).collect()
    }

    #[test]
    fn an_answer_finds_its_question_once() {
        let start = crate::clock::monotonic();
        let mut pending = PendingReplies::new("_INBOX.a.r");
        assert_eq!(pending.subject(), "_INBOX.a.r.*");
        let (one, two) = (pending.add(read(1), start), pending.add(read(2), start));
        assert_eq!(pending.take(&two).map(|reply| reply.question), Some(read(2)));
        assert_eq!(pending.take(&two), None);
        assert_eq!(
            (pending.take("_INBOX.b.r.0"), pending.take("_INBOX.a.r.x")),
            (None, None)
        );
        assert_eq!(pending.take(&one).map(|reply| reply.question), Some(read(1)));
        assert_eq!(pending.next_due(), None);
    }

    #[test]
    fn the_oldest_questions_are_overdue_first() {
        let start = crate::clock::monotonic();
        let second = Duration::from_secs(1);
        let mut pending = PendingReplies::new("i");
        for number in 0..3_u32 {
            pending.add(read(number.into()), start + second * number);
        }
        assert_eq!(pending.next_due(), Some(start + ANSWER_MAX));
        assert!(pending.overdue(start + ANSWER_MAX - second).is_empty());
        assert_eq!(
            numbers(&pending.overdue(start + ANSWER_MAX + second)),
            [read(0), read(1)]
        );
        assert_eq!(numbers(&pending.drain()), [read(2)]);
        assert!(pending.overdue(start + ANSWER_MAX * 2).is_empty());
    }
}
