//! The record of an attempt, and what attempts used.

use super::outcome::{Class, Reason, RunState};
use fnd_wire::form::wire_structs;
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, Version, WorkerId};
use serde::{Deserialize, Serialize};

/// One attempt that has ended, as it is stored in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The invocation of which this was an attempt.
    pub invocation: InvocationId,
    /// The function that runs.
    pub function: FunctionName,
    /// Number of the attempt; counts from 1 over retries and polls.
    pub attempt: Attempt,
    /// Number of polls before it.
    pub poll: u32,
    /// The worker; absent if none could be started.
    pub worker: Option<WorkerId>,
    /// Whether the call waited for the worker to start; absent for scripts, where each attempt is a process of its own.
    pub cold: Option<bool>,
    /// The version that ran.
    pub version: Option<Version>,
    /// Start of the attempt, Unix milliseconds.
    pub started_ms: u64,
    /// End: the instant when the leaf was empty.
    pub ended_ms: u64,
    /// Time from start to end by the monotonic clock.
    pub duration_us: u64,
    /// Reason of the end.
    pub reason: Reason,
    /// Message to the reason, at most 4 KiB.
    pub message: String,
    /// Exit code; absent if the process did not exit.
    pub exit_code: Option<u8>,
    /// Signal number; absent if no signal ended the process.
    pub signal: Option<u8>,
    /// Resource usage and output counts.
    pub usage: Usage,
    /// When the next attempt begins; absent if none follows.
    pub next_attempt_ms: Option<u64>,
}

impl AttemptRecord {
    /// Returns whether the attempt failed. One that was cancelled did not, and a poll goes on.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.reason.class() != Class::ExecuteAgain && self.reason.final_state().is_failure()
    }

    /// Returns since when the function fails, Unix milliseconds, after the attempt; `before` is the same before it. Only a
    /// success ends that.
    #[must_use]
    pub fn failing_since(&self, before: Option<u64>) -> Option<u64> {
        match self.reason.final_state() {
            RunState::Succeeded => None,
            _ if self.is_failure() => before.or(Some(self.ended_ms)),
            _ => before,
        }
    }
}

wire_structs! {
    /// Resource usage and output counts of an attempt.
    #[derive(Copy, Default, Serialize, Deserialize)]
    pub struct Usage {
        /// CPU time of the whole process tree.
        pub cpu_us: u64,
        /// Peak memory; absent where it cannot be measured.
        pub memory_peak_bytes: Option<u64>,
        /// Whether the peak is that of the largest process only.
        pub peak_of_largest: bool,
        /// Time during which the CPU quota held the attempt back.
        pub throttled_us: u64,
        /// Bytes on standard output.
        pub stdout_bytes: u64,
        /// Bytes on standard error.
        pub stderr_bytes: u64,
        /// Output bytes that were not kept.
        pub dropped_bytes: u64,
        /// Whether the attempt shared its worker with others. Then CPU time, memory and throttling cannot be assigned to
        /// it.
        pub scope_worker: bool,
    }
}

impl Usage {
    /// Returns the CPU time in microseconds; absent where it cannot be separated from other attempts.
    #[must_use]
    pub fn cpu(&self) -> Option<u64> {
        (!self.scope_worker).then_some(self.cpu_us)
    }

    /// Returns the peak memory in bytes; absent where it cannot be measured, or separated from other attempts.
    #[must_use]
    pub fn memory_peak(&self) -> Option<u64> {
        self.memory_peak_bytes.filter(|_| !self.scope_worker)
    }
}

/// The sum of the usage of an invocation's attempts. Attempts that shared their worker do not count, because their usage cannot
/// be separated; absent if all did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageSum {
    /// CPU time in microseconds.
    pub cpu_us: Option<u64>,
    /// The highest peak of memory.
    pub memory_peak_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(at_ms: u64, reason: Reason) -> AttemptRecord {
        AttemptRecord {
            invocation: InvocationId(1),
            function: FunctionName::new("f").unwrap(),
            attempt: Attempt(1),
            poll: 0,
            worker: None,
            cold: None,
            version: None,
            started_ms: 0,
            ended_ms: at_ms,
            duration_us: 0,
            reason,
            message: String::new(),
            exit_code: None,
            signal: None,
            usage: Usage::default(),
            next_attempt_ms: None,
        }
    }

    #[test]
    fn a_function_fails_since_its_first_failure_after_a_success() {
        let mut since = None;
        for (at_ms, reason, expected) in [
            (1, Reason::Ok, None),
            (2, Reason::Exit(3), Some(2)),
            (3, Reason::Timeout, Some(2)),
            (4, Reason::Cancelled, Some(2)),
            (5, Reason::Oom, Some(2)),
            (6, Reason::Ok, None),
            (7, Reason::Cancelled, None),
            (8, Reason::Interrupted, Some(8)),
        ] {
            since = ended(at_ms, reason).failing_since(since);
            assert_eq!(since, expected, "{at_ms} {reason}");
        }
    }
}
