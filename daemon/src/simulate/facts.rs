//! Facts: the events of a simulation that can be seen from outside of fnd. The models push facts; after each step the world
//! hands them to the oracles, the hash and the trace. No fact says anything that only fnd knows.

use super::people::{AnsweredAct, PersonAct};
use fnd_wire::frame::Request;
use fnd_wire::ids::{FunctionName, InvocationId, Version, WorkerId};

/// Something that has happened.
#[derive(Debug)]
pub(crate) enum Fact {
    /// An fnd begins its work. The lives of a node have numbers from 1 on.
    Life(u32),
    Death(Death),
    /// The spawner has ended without fnd. The next one begins with the first number that no kept worker has.
    SpawnerEnded,
    /// A person begins the act with this number.
    Asked(usize, PersonAct),
    /// A person gets the answer to an act.
    Answered(AnsweredAct),
    /// The spawner has received a request of fnd, with this number.
    Requested(u32, Request),
    /// The process of a worker has started.
    Started(StartedWorker),
    /// A function sees an attempt.
    Began(Began),
    /// The process of a script has ended, or a handler has answered a call or will never answer it.
    Over(InvocationId, u32),
    /// The process of a worker has ended.
    Gone(WorkerId),
    Committed(Commit),
    /// The node's wall clock was set, by so many milliseconds.
    ClockStepped(i64),
    /// fnd asks the spawner for something that no fnd may ask for.
    Violation(String),
    /// The journal of fnd has this message about a defect of fnd itself.
    Defect(String),
}

/// A way in which an fnd ends, alone or with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// fnd was killed; the spawner and its workers go on.
    Killed,
    /// fnd has stopped in order, and has handed its workers over.
    Stopped,
    /// fnd and the spawner were killed, and so were all workers.
    Both,
    /// The machine has lost its power.
    PowerCut,
}

/// A process of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartedWorker {
    pub(crate) worker: WorkerId,
    pub(crate) function: FunctionName,
    pub(crate) version: Version,
}

/// An attempt that a function sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Began {
    pub(crate) worker: WorkerId,
    pub(crate) function: FunctionName,
    pub(crate) version: Version,
    pub(crate) invocation: InvocationId,
    pub(crate) attempt: u32,
    /// Whether it is a call of a handler.
    pub(crate) is_call: bool,
}

/// The end of a batch of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Whether the batch is in the database. fnd may have been told otherwise.
    pub(crate) is_done: bool,
    /// Whether fnd was told that the batch is not there.
    pub(crate) is_denied: bool,
    /// Whether a power cut cannot undo it any more.
    pub(crate) is_synced: bool,
    /// Whether nothing waits to be stored after it.
    pub(crate) is_complete: bool,
}

/// The facts of one step.
#[derive(Debug, Default)]
pub(crate) struct FactLog {
    new: Vec<Fact>,
}

impl FactLog {
    pub(crate) fn push(&mut self, fact: Fact) {
        self.new.push(fact);
    }

    pub(crate) fn extend(&mut self, facts: impl IntoIterator<Item = Fact>) {
        self.new.extend(facts);
    }

    /// Returns the facts since the last call.
    pub(crate) fn take(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.new)
    }
}

impl Fact {
    /// Returns three numbers for the hash of all events: the kind and two of its values. Ids of invocations are from the
    /// seed, so they are the same when a seed runs again.
    pub(crate) fn numbers(&self) -> [u64; 3] {
        match self {
            Self::Life(number) => [1, u64::from(*number), 0],
            Self::Death(death) => [2, *death as u64, 0],
            Self::Asked(number, _) => [3, *number as u64, 0],
            Self::Answered(told) => [4, told.number as u64, told.heard.kind()],
            Self::Requested(number, request) => [5, u64::from(*number), kind(request)],
            Self::Began(began) => [6, low(began.invocation), u64::from(began.attempt)],
            Self::Over(invocation, attempt) => [7, low(*invocation), u64::from(*attempt)],
            Self::Gone(worker) => [8, worker.0, 0],
            Self::Committed(commit) => {
                let flags = [commit.is_done, commit.is_denied, commit.is_synced, commit.is_complete];
                [9, flags.iter().fold(0, |all, flag| all * 2 + u64::from(*flag)), 0]
            }
            Self::ClockStepped(step_ms) => [10, step_ms.cast_unsigned(), 0],
            Self::Violation(_) => [11, 0, 0],
            Self::Started(started) => [12, started.worker.0, 0],
            Self::SpawnerEnded => [13, 0, 0],
            Self::Defect(_) => [14, 0, 0],
        }
    }
}

/// Returns the random half of an id.
fn low(id: InvocationId) -> u64 {
    u64::try_from(id.0 & u128::from(u64::MAX)).unwrap_or_default()
}

/// Returns a number of a request: its kind, and the worker that it names.
fn kind(request: &Request) -> u64 {
    let (kind, worker) = match request {
        Request::Hello(_) => (1, 0),
        Request::Reload => (2, 0),
        Request::Install(_) => (3, 0),
        Request::Remove(_) => (4, 0),
        Request::Spawn(spawn) => (5, spawn.worker.0),
        Request::Term(worker) => (6, worker.0),
        Request::Kill(worker) => (7, worker.0),
        Request::Release(_) => (8, 0),
        Request::Acknowledge(worker) => (9, worker.0),
        Request::Prune(_) => (10, 0),
        Request::AdoptionRecord(replaced) => (11, replaced.worker.0),
        Request::Sweep(_) => (12, 0),
        Request::Ping => (13, 0),
        Request::Secret(_) => (14, 0),
        Request::Watch(spawn) => (15, spawn.worker.0),
        Request::Measure(spawn) => (16, spawn.worker.0),
        Request::Files(_) => (20, 0),
        Request::PruneTrees(_) => (22, 0),
        Request::Fetch(_) => (23, 0),
        Request::Check(_) => (24, 0),
        Request::Seal(_) => (25, 0),
        Request::Rebuild(_) => (26, 0),
        Request::Retire(_) => (27, 0),
        Request::Lease(lease) => (28, lease.worker.0),
    };
    worker << 8 | kind
}
