//! How attempts and invocations end: class, reason and their words (docs/errors-and-reasons.md). Verdicts, records
//! and messages all use this one table.

use super::cause::Cause;
use fnd_manifest::words;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

words! {
    /// The class of an end, by which retry and poll policies decide. Classes that `retry.on` can name have its words.
    pub enum Class {
        /// The attempt succeeded.
        Success = "success",
        /// The function asked for a retry (exit 75).
        Transient = "transient",
        /// The function asked for a poll (exit 99 with a `[poll]` table).
        ExecuteAgain = "execute-again",
        /// The function stated that a retry is useless (exit 65): never retried.
        Failed = "failed",
        /// Any other exit code, or an invalid answer.
        Error = "error",
        /// The attempt reached its timeout.
        Timeout = "timeout",
        /// The attempt exceeded the memory limit.
        Oom = "oom",
        /// A signal that fnd did not send.
        Signal = "signal",
        /// The attempt could not be started.
        Spawn = "spawn",
        /// fnd, the spawner or the machine went down during the attempt.
        Interrupted = "interrupted",
        /// Somebody cancelled the invocation.
        Cancelled = "cancelled",
        /// The invocation reached its deadline.
        Deadline = "deadline",
        /// The invocation was never started.
        Skipped = "skipped",
    }
}

/// Why an invocation was never started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Skip {
    /// Overlap policy: another invocation was running.
    Overlap,
    /// The queue was full.
    QueueFull,
    /// The rate limit was reached.
    Rate,
    /// The invocation expired while it waited.
    Expired,
    /// The function is disabled.
    Disabled,
    /// The function was deleted while it waited.
    Deleted,
    /// The scheduled time passed while fnd was not running.
    Missed,
    /// A hook or an alert names a function that does not exist.
    Unknown,
    /// A hook or an alert names a function that cannot be called: no version of it could run, or it is a service.
    Invalid,
    /// A chain of hooks had too many calls.
    Depth,
    /// The home or the cache of the function was over its quota.
    Quota,
}

/// The reason of an end, as people and scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The function succeeded: exit code 0 of a script, or an answer of a handler.
    Ok,
    /// The function asked for a retry: exit code 75 (`EX_TEMPFAIL` of `sysexits.h`).
    Transient,
    /// The function asked to be polled: exit code 99.
    ExecuteAgain,
    /// The function failed for good, so that no retry follows: exit code 65 (`EX_DATAERR` of `sysexits.h`).
    Failed,
    /// Exit with any other code.
    Exit(u8),
    /// The handler raised an exception.
    Error,
    /// The attempt reached its timeout.
    Timeout,
    /// The attempt exceeded the memory limit.
    Oom,
    /// A signal ended the attempt.
    Signal(u8),
    /// The attempt could not be started.
    Spawn,
    /// The function's code could not be loaded.
    Load,
    /// The handler's answer was invalid or missing.
    BadAnswer,
    /// The result exceeded `limits.result`.
    ResultTooLarge,
    /// The pids limit refused a fork, and the attempt failed.
    Pids,
    /// fnd, the spawner or the machine went down during the attempt.
    Interrupted,
    /// The node could not show the others in time that it still has the message, so it ended the attempt before another node
    /// begins one.
    LeaseLost,
    /// The payload or the message that was to be the input is none that the function takes.
    Input,
    /// Somebody cancelled the invocation.
    Cancelled,
    /// The invocation reached its deadline.
    Deadline,
    /// The invocation was never started.
    Skipped(Skip),
}

/// Names of Linux signals by number, without `SIG` (signal(7), x86 and ARM).
const SIGNALS: [&str; 32] = [
    "0", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
    "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH",
    "IO", "PWR", "SYS",
];

/// The reasons without a number, with their words.
const TABLE: [(Reason, &str); 28] = [
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
    (Reason::LeaseLost, "lease-lost"),
    (Reason::Input, "input"),
    (Reason::Cancelled, "cancelled"),
    (Reason::Deadline, "deadline"),
    (Reason::Skipped(Skip::Overlap), "skipped-overlap"),
    (Reason::Skipped(Skip::QueueFull), "skipped-queue-full"),
    (Reason::Skipped(Skip::Rate), "skipped-rate"),
    (Reason::Skipped(Skip::Expired), "skipped-expired"),
    (Reason::Skipped(Skip::Disabled), "skipped-disabled"),
    (Reason::Skipped(Skip::Deleted), "skipped-deleted"),
    (Reason::Skipped(Skip::Missed), "skipped-missed"),
    (Reason::Skipped(Skip::Unknown), "skipped-unknown"),
    (Reason::Skipped(Skip::Invalid), "skipped-invalid"),
    (Reason::Skipped(Skip::Depth), "skipped-depth"),
    (Reason::Skipped(Skip::Quota), "skipped-quota"),
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
            Self::Interrupted | Self::LeaseLost => Class::Interrupted,
            // The same message would be refused again.
            Self::Input => Class::Failed,
            Self::Cancelled => Class::Cancelled,
            Self::Deadline => Class::Deadline,
            Self::Skipped(_) => Class::Skipped,
        }
    }

    /// Returns whether fnd gives this reason to an attempt that it ends: at a limit of its time, a cancel, a lost lease, a stop of fnd, or
    /// as a service is not ready in time. All other reasons are the function's own doing.
    #[must_use]
    pub fn is_given_by_fnd(self) -> bool {
        matches!(
            self,
            Self::Timeout | Self::Deadline | Self::Cancelled | Self::LeaseLost | Self::Interrupted | Self::Load
        )
    }

    /// Returns the reason's word without a number: `exit` for `exit-3`. It is one of [`Reason::words`].
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Exit(_) => "exit",
            Self::Signal(_) => "signal",
            other => {
                // Every reason without a number has a row, which a test checks, so the word `error` stands for `Error`
                // only.
                let row = TABLE.iter().find(|(reason, _)| *reason == other);
                row.map_or("error", |(_, word)| word)
            }
        }
    }

    /// Returns all words of reasons.
    pub fn words() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|(_, word)| *word).chain(["exit", "signal"])
    }

    /// Parses the text form of a reason.
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
            // A signal above 31 has no name in the table, and is written as its number.
            return number.or_else(|| name.parse().ok()).map(Self::Signal);
        }
        TABLE.iter().find(|row| row.1 == text).map(|row| row.0)
    }

    /// Returns the final state of an invocation that ended with this reason.
    #[must_use]
    pub fn final_state(self) -> RunState {
        match self.class() {
            Class::Success => RunState::Succeeded,
            Class::Cancelled => RunState::Cancelled,
            Class::Interrupted => RunState::Interrupted,
            Class::Skipped => RunState::Skipped,
            Class::Transient
            | Class::ExecuteAgain
            | Class::Failed
            | Class::Error
            | Class::Timeout
            | Class::Oom
            | Class::Signal
            | Class::Spawn
            | Class::Deadline => RunState::Failed,
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

impl schemars::JsonSchema for Reason {
    fn schema_name() -> Cow<'static, str> {
        "Reason".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let words: Vec<&str> = TABLE.iter().map(|(_, word)| *word).collect();
        schemars::json_schema!({
            "type": "string",
            "anyOf": [{"enum": words}, {"pattern": "^exit-[0-9]+$"}, {"pattern": "^signal-[A-Z0-9]+$"}],
            "description": "Why an attempt or an invocation ended. `fndctl explain REASON` explains a reason.",
        })
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("expected a reason such as `ok` or `exit-1`"))
    }
}

words! {
    /// State of an invocation.
    pub enum RunState as "State" {
        /// Accepted; waits for a place.
        Queued = "queued",
        /// An attempt is running.
        Running = "running",
        /// Waits for a retry.
        Waiting = "waiting",
        /// Waits for a poll.
        Polling = "polling",
        /// Ended with success.
        Succeeded = "succeeded",
        /// Ended with a failure.
        Failed = "failed",
        /// Ended because somebody cancelled it.
        Cancelled = "cancelled",
        /// Ended because fnd, the spawner or the machine went down.
        Interrupted = "interrupted",
        /// Never started.
        Skipped = "skipped",
    }

    /// The limit that ended an invocation although the policy would have tried again.
    pub enum Exhausted {
        /// `retry.retries`.
        Retries = "retries",
        /// `poll.until`.
        Poll = "poll",
        /// `limits.deadline`.
        Deadline = "deadline",
    }

    /// The trigger that started an invocation; the function sees it as `FND_TRIGGER`.
    pub enum Trigger {
        /// A script without triggers runs once per content.
        Load = "load",
        /// A person or program used the control socket.
        Manual = "manual",
        /// A request to a route of the public listener.
        Http = "http",
        /// A slot of a schedule.
        Schedule = "schedule",
        /// A CloudEvent that the function subscribes to.
        Event = "event",
        /// A change of a file in a directory that the function watches.
        File = "file",
        /// A message of a stream, or a request, of NATS.
        Nats = "nats",
        /// The end of an invocation of another function.
        Hook = "hook",
        /// A function turned bad, or well again.
        Alert = "alert",
        /// Another function called it.
        Function = "function",
        /// Somebody ran an earlier invocation again with the same payload.
        Replay = "replay",
        /// Somebody ran a dead letter again.
        Redrive = "redrive",
    }
}

impl RunState {
    /// Says whether the state is final.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Waiting | Self::Polling)
    }

    /// Says whether the invocation failed. One that was cancelled or skipped did not: somebody wanted that.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Interrupted)
    }
}

impl Trigger {
    /// Says whether its work comes once, so that the work is lost if it fails. `asked` says whether the manifest asks for dead
    /// letters of this trigger.
    #[must_use]
    pub fn comes_once(self, asked: bool) -> bool {
        match self {
            // A script that runs because it was saved runs again once it is corrected; a service is started again.
            Self::Load => false,
            // The next slot brings the same payload.
            Self::Schedule => asked,
            // A payload, a request, an event, a file, a message, the end that a hook follows and the change that an alert names come
            // once. A replay and a redrive are the wish of a person.
            Self::Manual
            | Self::Http
            | Self::Event
            | Self::File
            | Self::Nats
            | Self::Hook
            | Self::Alert
            | Self::Function
            | Self::Replay
            | Self::Redrive => true,
        }
    }

    /// Says whether refused work waits elsewhere and comes again: a file in its directory, a message in its stream.
    #[must_use]
    pub fn waits_elsewhere(self) -> bool {
        matches!(self, Self::File | Self::Nats)
    }

    /// Says whether somebody asked for the result of a run: a caller, or a function that called it. Nobody asks for the result of
    /// a schedule, an event or a file: there standard output is log first. A run that is repeated has the `cause` of the first one.
    #[must_use]
    pub fn asks_for_result(self, cause: Option<&Cause>) -> bool {
        match self {
            Self::Manual | Self::Http | Self::Function => true,
            Self::Nats => matches!(cause, Some(Cause::Nats(message)) if message.answers),
            Self::Replay | Self::Redrive => cause.is_none_or(|cause| matches!(cause, Cause::Call(_))),
            Self::Load | Self::Schedule | Self::Event | Self::File | Self::Hook | Self::Alert => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_survives_its_text() {
        let numbered = [Reason::Exit(3), Reason::Signal(11), Reason::Signal(34)];
        for reason in TABLE.iter().map(|(r, _)| *r).chain(numbered) {
            assert_eq!(Reason::parse(&reason.to_string()), Some(reason));
            assert!(Reason::words().any(|word| word == reason.word()));
        }
        assert_eq!(Reason::Signal(11).to_string(), "signal-SEGV");
        assert_eq!(Reason::parse("exit-256"), None);
    }
}
