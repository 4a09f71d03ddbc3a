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

/// Identifies the receiver of an answer: a number from the driver, used at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyTo(pub u64);
