//! The acts of people.

use crate::simulate::spawner::contents::{AFTER, SourceContent};
use fastrand::Rng;
use fnd_wire::ids::FunctionName;

/// Returns the name of a function. Hooks and alerts call function 0.
pub(crate) fn name(number: u8) -> FunctionName {
    let name = match number {
        0 => AFTER.to_owned(),
        number => format!("f{number}"),
    };
    FunctionName::new(&name).expect("a name of a function")
}

/// An act of a person. Functions have numbers. The number of an act that concerns an invocation, a caller, a release or a dead
/// letter chooses one of those that are there when the person acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PersonAct {
    /// Saves this content as the file of a function.
    Save(u8, SourceContent),
    /// Deletes the file of a function.
    Remove(u8),
    Submit(PersonRequest),
    /// Sends the event with this id to all that subscribe to it.
    Publish(u8),
    Cancel(u8),
    /// Closes the connection of one of the callers that wait.
    Leave(u8),
    /// Goes back to one of the releases, or to the one before.
    Rollback(u8, Option<u8>),
    /// Pins one of the releases, or the one that serves.
    Pin(u8, Option<u8>),
    Unpin(u8),
    /// Gives the release that waits this share of the calls, in percent.
    Canary(u8, u8),
    Promote(u8),
    StopCanary(u8),
    SetEnabled(u8, bool),
    /// Pauses the schedules of a function, or lets them go on.
    Pause(u8, bool),
    Drain,
    CancelDrain,
    Redrive(u8),
    Discard(u8),
    /// Runs an earlier invocation again.
    Replay(u8),
    Reload,
    /// Installs a function again, its dependencies from scratch or not.
    Rebuild(u8, bool),
}

/// A request to run a function.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PersonRequest {
    pub(crate) function: u8,
    /// Whether the caller waits for the end.
    pub(crate) wait: bool,
    /// The number of an idempotency key; few requests have one.
    pub(crate) key: Option<u8>,
    /// How much later it is to begin.
    pub(crate) delay_ms: u64,
    /// How long it may wait until it begins.
    pub(crate) patience_ms: Option<u64>,
    pub(crate) priority: i8,
}

/// Number of idempotency keys, and of ids of events: few, so that some come twice.
const KEYS: u8 = 12;

impl PersonAct {
    /// Draws an act that concerns a function, whose file may have these contents.
    pub(crate) fn any(people: &mut Rng, function: u8, contents: &[SourceContent]) -> Self {
        let which = people.u8(..);
        let release = people.bool().then_some(which);
        match people.u8(..100) {
            0..=64 => Self::Submit(PersonRequest::any(people, function)),
            65..=68 => Self::Publish(people.u8(..KEYS)),
            69..=72 => Self::Cancel(which),
            73 => Self::Leave(which),
            74..=79 => Self::Save(function, people.choice(contents).copied().unwrap_or(SourceContent(0))),
            80 => Self::Remove(function),
            81 => Self::Rollback(function, release),
            82 => Self::Pin(function, release),
            83 => Self::Unpin(function),
            84..=85 => Self::Canary(function, people.u8(1..=100)),
            86 => Self::Promote(function),
            87 => Self::StopCanary(function),
            88..=89 => Self::SetEnabled(function, people.u8(..3) > 0),
            90 => Self::Pause(function, people.bool()),
            91 => Self::Drain,
            92 => Self::CancelDrain,
            93..=94 => Self::Redrive(which),
            95 => Self::Discard(which),
            96 => Self::Replay(which),
            97 => Self::Reload,
            _ => Self::Rebuild(function, people.bool()),
        }
    }

    /// Returns the acts that come once the faults have stopped, so that all accepted work can end. fnd repeats a build that a
    /// fault has broken only if a person asks for it.
    pub(crate) fn last(functions: u8) -> impl Iterator<Item = Self> {
        let enabled = (0..functions).map(|function| Self::SetEnabled(function, true));
        let built = (0..functions).map(|function| Self::Rebuild(function, false));
        [Self::CancelDrain].into_iter().chain(enabled).chain(built)
    }

    /// Returns the function whose file or releases it may change.
    pub(crate) fn changes(&self) -> Option<u8> {
        match *self {
            Self::Save(function, _)
            | Self::Remove(function)
            | Self::Rollback(function, _)
            | Self::Pin(function, _)
            | Self::Unpin(function)
            | Self::Canary(function, _)
            | Self::Promote(function)
            | Self::StopCanary(function) => Some(function),
            Self::Submit(_)
            | Self::Publish(_)
            | Self::Cancel(_)
            | Self::Leave(_)
            | Self::SetEnabled(..)
            | Self::Pause(..)
            | Self::Drain
            | Self::CancelDrain
            | Self::Redrive(_)
            | Self::Discard(_)
            | Self::Replay(_)
            | Self::Reload
            | Self::Rebuild(..) => None,
        }
    }
}

impl PersonRequest {
    fn any(people: &mut Rng, function: u8) -> Self {
        Self {
            function,
            wait: people.bool(),
            key: (people.u8(..5) == 0).then(|| people.u8(..KEYS)),
            delay_ms: if people.u8(..10) == 0 { people.u64(1..20_000) } else { 0 },
            patience_ms: (people.u8(..10) == 0).then(|| people.u64(1..5_000)),
            priority: people.i8(-2..=2),
        }
    }
}
