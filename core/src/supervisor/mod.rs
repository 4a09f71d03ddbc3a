//! The state of everything that runs or wants to: one pure machine.
//!
//! [`Supervisor::handle`] takes what happened and the time, changes the state and appends what shall be done. It starts
//! nothing, reads no clock and waits for nothing; [`Supervisor::next_deadline`] says when it wants a [`Event::Tick`].

mod action;
mod event;
mod rules;

pub use action::{Action, Answer, Notice, Rejection, SpawnOrder};
pub use event::{Event, Exited, Installed, Now, ReplyTo, Restored, Submit};
pub use rules::{NodeBudget, Overlap, Poll, Queue, Retry, Rules};

use serde::{Deserialize, Serialize};

/// Public states of a function (contract, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FunctionState {
    /// Its first version is being prepared.
    Building,
    /// It can run.
    Ready,
    /// At least one attempt runs.
    Running,
    /// Disabled by its manifest or a person.
    Disabled,
    /// It has no version that could run.
    Invalid,
    /// Its workers die before they are ready.
    CrashLooping,
}
