//! The events of the machine of runs, its actions and answers, and the values in them.
//!
//! Nothing here knows the state of the machine: `run_state` has it, and `run` decides. Other folders and crates use these
//! types as `run::Event`, `run::Action` and so on.
//!
//! Files:
//! - `action`: orders to the edges, and answers to callers
//! - `adoption_records`: what the next fnd reads of the workers that go on
//! - `end_cause`: why fnd ends an attempt
//! - `event`: facts and requests that come in
//! - `publication`: events and their shares
//! - `rules`: the part of a manifest that is used here
//! - `submit`: a request to run

pub(crate) mod action;
pub(crate) mod adoption_records;
pub(crate) mod end_cause;
pub(crate) mod event;
pub(crate) mod publication;
pub(crate) mod rules;
pub(crate) mod submit;

use std::time::Duration;

fnd_manifest::words! {
    /// State of a function.
    pub enum FunctionState {
        /// The first version is being prepared.
        Building = "building",
        /// The function can run.
        Ready = "ready",
        /// At least one attempt runs.
        Running = "running",
        /// The manifest or a person disabled the function.
        Disabled = "disabled",
        /// The function has no version that could run.
        Invalid = "invalid",
        /// The workers die before they are ready.
        CrashLooping = "crash-looping",
    }
}

/// The time at which an event is handled: both clocks, read once by the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Now {
    /// Time since boot on a clock that never goes back; deadlines and delays use it.
    pub mono: Duration,
    /// Unix milliseconds; used only for records.
    pub unix_ms: u64,
}

impl Now {
    /// Returns the instant that is `pause` later.
    #[must_use]
    pub fn after(self, pause: Duration) -> Self {
        Self {
            mono: self.mono.saturating_add(pause),
            unix_ms: self
                .unix_ms
                .saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Converts a wall-clock instant to the monotonic clock. Returns now for one that has passed.
pub(crate) fn on_mono(now: Now, unix_ms: u64) -> Duration {
    let ahead = Duration::from_millis(unix_ms.saturating_sub(now.unix_ms));
    now.mono.saturating_add(ahead)
}

/// Converts an instant on the monotonic clock, not in the past, to the wall clock.
pub(crate) fn on_wall(now: Now, at: Duration) -> u64 {
    let ahead = u64::try_from(at.saturating_sub(now.mono).as_millis()).unwrap_or(u64::MAX);
    now.unix_ms.saturating_add(ahead)
}

/// Identifies the receiver of an answer: a number from the driver, used at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyTo(pub u64);
