//! How an attempt ended: class, reason and words (contract, section 4). One table, used for verdicts, records and texts.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of end an attempt had: what retry and poll policies go by. The words of `retry.on` where they have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It did what it should.
    Success,
    /// It asked to be tried again (exit 75).
    Transient,
    /// It asked to be polled (exit 99 with a `[poll]` table).
    ExecuteAgain,
    /// It said that trying again is useless (exit 65): never retried.
    Failed,
    /// Any other exit code, or an answer that is none.
    Error,
    /// The attempt's timeout.
    Timeout,
    /// The memory limit.
    Oom,
    /// A signal nobody of fnd sent.
    Signal,
    /// It could not be started.
    Spawn,
    /// fnd, the spawner or the machine went down under it.
    Interrupted,
    /// Somebody asked for its end.
    Cancelled,
    /// The invocation's deadline.
    Deadline,
    /// It was never started.
    Skipped,
}

/// Why an invocation was never started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Skip {
    /// The overlap policy: another one was running.
    Overlap,
    /// The queue was full.
    QueueFull,
    /// The rate limit.
    Rate,
    /// It waited past its expiry.
    Expired,
    /// The function is disabled.
    Disabled,
    /// The function was deleted while it waited.
    Deleted,
    /// Its time had passed while fnd was not running.
    Missed,
}

/// The reason of an end, as people and scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Exit 0.
    Ok,
    /// Exit 75.
    Transient,
    /// Exit 99.
    ExecuteAgain,
    /// Exit 65.
    Failed,
    /// Exit with any other code.
    Exit(u8),
    /// An exception.
    Error,
    /// The timeout of one attempt.
    Timeout,
    /// The memory limit.
    Oom,
    /// A signal.
    Signal(u8),
    /// It could not be started.
    Spawn,
    /// Its code could not be loaded.
    Load,
    /// Its answer was none.
    BadAnswer,
    /// Its result exceeded `limits.result`.
    ResultTooLarge,
    /// The pids limit refused a fork, and the attempt failed.
    Pids,
    /// fnd, the spawner or the machine went down under it.
    Interrupted,
    /// Somebody asked for its end.
    Cancelled,
    /// The invocation's deadline passed.
    Deadline,
    /// It was never started.
    Skipped(Skip),
}

/// Names of Linux signals by number, without `SIG` (signal(7), x86 and ARM).
const SIGNALS: [&str; 32] = [
    "0", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
    "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH",
    "IO", "PWR", "SYS",
];

const PLAIN: [(Reason, &str); 13] = [
    (Reason::Ok, "ok"),
    (Reason::Transient, "transient"),
    (Reason::ExecuteAgain, "execute-again"),
    (Reason::Failed, "failed"),
    (Reason::Error, "error"),
    (Reason::Timeout, "timeout"),
    (Reason::Oom, "oom"),
    (Reason::Spawn, "spawn"),
    (Reason::Load, "load"),
    (Reason::BadAnswer, "bad-answer"),
    (Reason::ResultTooLarge, "result-too-large"),
    (Reason::Pids, "pids"),
    (Reason::Interrupted, "interrupted"),
];

const PLAIN_ENDS: [(Reason, &str); 9] = [
    (Reason::Cancelled, "cancelled"),
    (Reason::Deadline, "deadline"),
    (Reason::Skipped(Skip::Overlap), "skipped-overlap"),
    (Reason::Skipped(Skip::QueueFull), "skipped-queue-full"),
    (Reason::Skipped(Skip::Rate), "skipped-rate"),
    (Reason::Skipped(Skip::Expired), "skipped-expired"),
    (Reason::Skipped(Skip::Disabled), "skipped-disabled"),
    (Reason::Skipped(Skip::Deleted), "skipped-deleted"),
    (Reason::Skipped(Skip::Missed), "skipped-missed"),
];

impl Reason {
    /// Returns the class of the reason.
    #[must_use]
    pub fn class(self) -> Class {
        match self {
            Self::Ok => Class::Success,
            Self::Transient => Class::Transient,
            Self::ExecuteAgain => Class::ExecuteAgain,
            Self::Failed => Class::Failed,
            Self::Exit(_) | Self::Error | Self::Load | Self::BadAnswer | Self::ResultTooLarge | Self::Pids => {
                Class::Error
            }
            Self::Timeout => Class::Timeout,
            Self::Oom => Class::Oom,
            Self::Signal(_) => Class::Signal,
            Self::Spawn => Class::Spawn,
            Self::Interrupted => Class::Interrupted,
            Self::Cancelled => Class::Cancelled,
            Self::Deadline => Class::Deadline,
            Self::Skipped(_) => Class::Skipped,
        }
    }

    /// Returns its word without a number, `exit` of `exit-3`: one of [`Reason::words`].
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Exit(_) => "exit",
            Self::Signal(_) => "signal",
            other => {
                let mut known = PLAIN.iter().chain(&PLAIN_ENDS);
                known
                    .find(|(reason, _)| *reason == other)
                    .map_or("error", |(_, text)| text)
            }
        }
    }

    /// Returns every word.
    pub fn words() -> impl Iterator<Item = &'static str> {
        let plain = PLAIN.iter().chain(&PLAIN_ENDS).map(|(_, text)| *text);
        plain.chain(["exit", "signal"])
    }

    /// Returns the reason of its text form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(code) = text.strip_prefix("exit-") {
            return code.parse().ok().map(Self::Exit);
        }
        if let Some(name) = text.strip_prefix("signal-") {
            let number = SIGNALS
                .iter()
                .position(|s| *s == name)
                .and_then(|n| u8::try_from(n).ok());
            return number.or_else(|| name.parse().ok()).map(Self::Signal);
        }
        PLAIN
            .iter()
            .chain(&PLAIN_ENDS)
            .find(|(_, t)| *t == text)
            .map(|(reason, _)| *reason)
    }

    /// Returns the state an invocation has when this reason is its last.
    #[must_use]
    pub fn final_state(self) -> State {
        match self.class() {
            Class::Success => State::Succeeded,
            Class::Cancelled => State::Cancelled,
            Class::Interrupted => State::Interrupted,
            Class::Skipped => State::Skipped,
            Class::Transient
            | Class::ExecuteAgain
            | Class::Failed
            | Class::Error
            | Class::Timeout
            | Class::Oom
            | Class::Signal
            | Class::Spawn
            | Class::Deadline => State::Failed,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit-{code}"),
            Self::Signal(number) => match SIGNALS.get(usize::from(*number)) {
                Some(name) => write!(f, "signal-{name}"),
                None => write!(f, "signal-{number}"),
            },
            other => f.write_str(other.word()),
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("expected a reason such as `ok` or `exit-1`"))
    }
}

/// Public states of an invocation (contract, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Accepted, waiting for a place.
    Queued,
    /// An attempt is running.
    Running,
    /// Waiting for a retry.
    Waiting,
    /// Waiting for a poll.
    Polling,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Ended because somebody asked for it.
    Cancelled,
    /// Ended because what ran it went down.
    Interrupted,
    /// Never started.
    Skipped,
}

impl State {
    /// Every state, in the order of the contract.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Polling,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Interrupted,
        Self::Skipped,
    ];

    /// Says whether nothing can follow.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Waiting | Self::Polling)
    }

    /// Returns the word of the contract.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Polling => "polling",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Skipped => "skipped",
        }
    }

    /// Returns the state of its word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What ran out when an invocation ended although policy would have tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exhausted {
    /// `retry.retries`.
    Retries,
    /// `poll.until`.
    Poll,
    /// `limits.deadline`.
    Deadline,
}

/// What made an invocation (the words of `FND_TRIGGER`; those not built yet come with their issue).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// A script without triggers, once per content.
    Load,
    /// A person or program on the control socket.
    Manual,
    /// Somebody had an earlier one run again with the same payload.
    Replay,
    /// Somebody had a dead letter run again.
    Redrive,
}

impl Trigger {
    /// Returns the word of the contract.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Manual => "manual",
            Self::Replay => "replay",
            Self::Redrive => "redrive",
        }
    }

    /// Returns the trigger of its word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Load, Self::Manual, Self::Replay, Self::Redrive]
            .into_iter()
            .find(|trigger| trigger.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_survives_its_text() {
        let numbered = [Reason::Exit(3), Reason::Signal(11), Reason::Signal(34)];
        for reason in PLAIN.iter().chain(&PLAIN_ENDS).map(|(r, _)| *r).chain(numbered) {
            assert_eq!(Reason::parse(&reason.to_string()), Some(reason));
            assert!(Reason::words().any(|word| word == reason.word()));
        }
        assert_eq!(Reason::Signal(11).to_string(), "signal-SEGV");
        assert_eq!(Reason::parse("exit-256"), None);
    }
}
