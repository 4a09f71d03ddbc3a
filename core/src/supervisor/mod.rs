//! The state of everything that runs or wants to: one pure machine.
//!
//! [`Supervisor::handle`] takes what happened and the time, changes the state and appends what shall be done. It starts
//! nothing, reads no clock and waits for nothing; [`Supervisor::next_deadline`] says when it wants a [`Event::Tick`].
//!
//! The way through: `submit` (accept or reject) → `admission` (budget, rate) → `claims` (on disk before it begins) → `attempt` (start, end,
//! what follows) with `starts` (whether the node can start anything),
//! `worker` (its phases) and `verdict` (reason and words), for handlers `pool` (which workers there are) and `calls` (what they
//! answer); `ending` is what ends an invocation from outside, `versions` what
//! changes functions, `restore`, `takeover` and `shutdown` the edges of its life, `view` what people see.

mod action;
mod admission;
mod attempt;
mod calls;
mod claims;
mod ending;
mod event;
mod function;
mod handover;
mod invocation;
mod pool;
mod restore;
mod rules;
mod service;
mod shutdown;
mod starts;
mod submit;
mod takeover;
#[cfg(test)]
mod tests;
mod timers;
mod verdict;
mod versions;
mod view;
mod words;
mod worker;

pub use action::{Action, Answer, AttemptOrder, CallOrder, Notice, Rejection, SpawnOrder};
pub use calls::Answered;
pub use event::{Event, Exited, Installed, LAST_RESULT_MAX, LastAttempt, Now, ReplyTo, Restored, Submit};
pub use handover::{AdoptedMember, CallNote, MemberNote};
pub use rules::{Http, NodeBudget, Overlap, Poll, Pool, Queue, Retry, Rules, Service};
pub use takeover::{Adopted, Note, Times};
pub use view::{FunctionView, Trial};

use admission::Node;
use fnd_wire::ids::{InvocationId, WorkerId};
use function::Functions;
use invocation::Invocation;
use serde::{Deserialize, Serialize};
use shutdown::Phase;
use std::collections::BTreeMap;
use std::time::Duration;
use timers::Timers;
use worker::Worker;

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

impl FunctionState {
    /// Returns the word of the contract.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Disabled => "disabled",
            Self::Invalid => "invalid",
            Self::CrashLooping => "crash-looping",
        }
    }
}

/// The machine. Ordered maps throughout, so that the same seed and events give the same actions.
#[derive(Debug)]
pub struct Supervisor {
    functions: Functions,
    invocations: BTreeMap<InvocationId, Invocation>,
    workers: BTreeMap<WorkerId, Worker>,
    timers: Timers,
    node: Node,
    phase: Phase,
    /// Whether there is a spawner.
    spawner: bool,
    /// Invocations being made durable.
    storing: usize,
    /// How claims go.
    claim_rate: claims::ClaimRate,
    /// How starts go.
    starts: starts::Starts,
    /// Whether the first scan of the functions directories is over.
    looked: bool,
    /// Whether all of them could be read since: what is not known then is not there.
    scanned: bool,
    /// Ends of workers of an earlier fnd that wait for it.
    early: Vec<takeover::EarlyEnd>,
    next_worker: u64,
    /// The last call to a handler's worker.
    next_call: u64,
    /// Order of acceptance of the next invocation.
    next_number: u64,
    random: fastrand::Rng,
}

impl Supervisor {
    /// Returns a supervisor that knows nothing yet. `seed` is for the random part of delays, `next_worker` the number of the
    /// first worker, from the spawner.
    #[must_use]
    pub fn new(seed: u64, budget: NodeBudget, next_worker: WorkerId) -> Self {
        Self {
            functions: Functions::default(),
            invocations: BTreeMap::new(),
            workers: BTreeMap::new(),
            timers: Timers::default(),
            node: Node::new(budget),
            phase: Phase::Serving,
            spawner: true,
            storing: 0,
            claim_rate: claims::ClaimRate::default(),
            starts: starts::Starts::default(),
            looked: false,
            scanned: false,
            early: Vec::new(),
            next_worker: next_worker.0,
            next_call: 0,
            next_number: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Handles what happened and appends what shall be done, in this order. `now` never goes back.
    ///
    /// What happened comes before what is due at the same instant: a worker that ended just in time ended in time, however
    /// late the driver came to say so.
    pub fn handle(&mut self, now: Now, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::Restored(restored) => self.restored(now, restored, out),
            Event::Installed(installed) => self.installed(now, *installed, out),
            Event::Refused { function, error } => self.refused(&function, error, out),
            Event::Removed(function) => self.removed(now, &function, out),
            Event::Scanned { whole } => self.scanned(now, whole, out),
            Event::Submit(submit) => self.submit(now, *submit, out),
            Event::Stored(id) => self.stored(now, id, out),
            Event::StoreFailed(id) => self.store_failed(now, id, out),
            Event::Claimed(ids) => self.claimed(now, &ids, out),
            Event::ClaimFailed(ids) => self.claim_failed(now, &ids),
            Event::Cancel { id, reply } => self.cancel(now, id, reply, out),
            Event::CallerLeft { id, reply } => self.caller_left(now, id, reply, out),
            Event::SetEnabled {
                function,
                enabled,
                reply,
            } => self.set_enabled(now, function, (enabled, reply), out),
            Event::Drain => self.drain(now, out),
            Event::HandOver => self.hand_over(now, out),
            Event::StopNow => self.stop_now(now, out),
            Event::Spawned(worker) => self.spawned(now, worker, out),
            Event::SpawnFailed { worker, message } => self.spawn_failed(now, worker, message, out),
            Event::NodeCannotStart { worker, message } => self.node_cannot_start(now, worker, &message, out),
            Event::SpawnerAnswers(answers) => self.spawner_answers(now, answers, out),
            Event::Exited(exited) => self.exited(now, &exited, out),
            Event::WorkerReady { worker, concurrency } => self.worker_ready(now, worker, concurrency, out),
            Event::NotReady { worker, why } => self.not_ready_yet(worker, why),
            Event::LoadFailed { worker, message } => self.load_failed(now, worker, message, out),
            Event::Answered(answered) => self.answered(now, *answered, out),
            Event::Closed(worker) => self.closed(now, worker),
            Event::Broken { worker, message } => self.broken(now, worker, message, out),
            Event::SpawnerLost => self.spawner_lost(now, out),
            Event::Tick => {}
        }
        loop {
            while let Some(timer) = self.timers.pop_due(now.mono) {
                self.fire(now, timer, out);
            }
            self.dispatch(now, out);
            // A timeout or back-off of zero is due at once.
            if self.timers.next().is_none_or(|at| at > now.mono) {
                break;
            }
        }
        self.notice_drained(out);
    }

    /// Returns when the next [`Event::Tick`] is wanted, on the clock of [`Now::mono`]; absent when nothing is planned.
    /// Always later than the last event.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers.next()
    }

    fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}
