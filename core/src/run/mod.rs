//! Holds the state of all functions, invocations and workers, as one pure state machine.
//!
//! [`Supervisor::handle`] takes an event and the time, changes the state and appends the actions to carry out. It
//! starts no process, reads no clock and never blocks; [`Supervisor::next_deadline`] returns when it needs the next
//! [`Event::Tick`].
//!
//! Events and actions stand in `messages`, the state in `run_state`. The path of a request: `submit` (accept or reject)
//! → `acceptance` (stored, queued) → `admission` (budget, rate) → `claims` (on disk before it begins) → `attempt` (start and end)
//! → `conclude` (what follows). `register` takes back what another node has. `attempt` uses `starts` (whether workers can be started) and `worker` (a worker's phases); for
//! handlers there are also `pool` (the set of workers) and `calls` (their answers). `conclude` also ends invocations from outside,
//! `chain` those whose caller has ended. `versions` changes functions, `trial` and `canary` try releases first. `restore`,
//! `takeover` and `shutdown` begin and end the life of the state machine. `view` shows the state.
//!
//! Files:
//! - `acceptance`: makes invocations of accepted requests
//! - `admission`: decides which work may begin, by budget and rate
//! - `attempt`: starts and ends attempts
//! - `calls`: calls of ready workers, and their answers
//! - `calls_ended`: ends one of several calls of a worker
//! - `canary`: a release that gets a share of the calls
//! - `chain`: functions that call functions
//! - `claims`: work that is stored as begun before it begins
//! - `conclude`: what follows an attempt; the end of invocations, cancellation, deadline, expiry
//! - `groups`: functions that share a number of attempts
//! - `keys`: the value of `[queue] key` of each invocation
//! - `pool`: the workers of a handler or an HTTP program
//! - `publish`: the shares of events
//! - `register`: work that several nodes share: what their register says of it
//! - `restore`: the state that an earlier fnd left
//! - `service`: processes that are always there
//! - `shutdown`: drain, stop, hand over
//! - `starts`: whether workers can be started; crash loops
//! - `submit`: decides about requests
//! - `takeover`: workers that an earlier fnd started or handed over
//! - `trial`: a version of a handler, before it serves
//! - `versions`: new, changed and deleted functions
//! - `view`: snapshots for the API, records for the next fnd
//! - `wall_times`: what waits for a time of the wall clock
//! - `worker`: leads a worker through its phases

mod acceptance;
mod admission;
mod attempt;
mod calls;
mod calls_ended;
mod canary;
mod chain;
mod claims;
mod conclude;
mod groups;
mod keys;
mod pool;
mod publish;
mod register;
mod restore;
mod service;
mod shutdown;
mod starts;
mod submit;
mod takeover;
#[cfg(test)]
mod tests;
mod trial;
mod versions;
mod view;
mod wall_times;
mod worker;

pub use crate::messages::action::{
    Action, Answer, AttemptOrder, CallOrder, ChainRefusal, Notice, Rejection, SpawnOrder, skip_words,
};
pub use crate::messages::adoption_records::{
    Adopted, AdoptedMember, CallRecord, MemberRecord, RunRecord, ScriptRecord, Times,
};
pub use crate::messages::event::{
    Answered, Event, Exited, InstalledVersion, LAST_RESULT_MAX, LastAttempt, Restored, TooLarge,
};
pub use crate::messages::publication::{
    Delivered, EventShares, NotTaken, Publication, Publish, Shares, StreamedEvent, Taken,
};
pub use crate::messages::rules::{
    FunctionKind, Http, NodeBudget, Overlap, Poll, Pool, QueueRules, Retry, Rules, Service,
};
pub use crate::messages::submit::{Calling, Submit, TakenOver};
pub use crate::messages::{FunctionState, Now, ReplyTo};
pub use view::{CanaryCounts, FunctionView, RoomForMessages, Trial};

use crate::run_state::FunctionKey;
use crate::run_state::function::CountedFunction;
use crate::run_state::functions::{Counts, SupervisedFunctions};
use crate::run_state::invocation::{Invocation, InvocationStage};
use crate::run_state::queue::Queue;
use crate::run_state::timers::Timers;
use crate::run_state::worker::Worker;
use admission::BudgetQueue;
use fnd_wire::ids::{InvocationId, WorkerId};
use shutdown::ShutdownPhase;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Most invocations, and most functions, that an assertion counts after each event.
const RECOUNT_MAX: usize = 256;

/// The state machine. All maps are ordered, so that the same seed and events give the same actions.
#[derive(Debug)]
pub struct Supervisor {
    functions: SupervisedFunctions,
    invocations: BTreeMap<InvocationId, Invocation>,
    /// The invocations that others wait for.
    waited: chain::Waited,
    workers: BTreeMap<WorkerId, Worker>,
    timers: Timers,
    node: BudgetQueue,
    groups: groups::Groups,
    phase: ShutdownPhase,
    /// Whether the drain was cancelled, and ends when every claim is answered.
    cancels_drain: bool,
    /// Whether fnd has a spawner.
    spawner: bool,
    /// How fast and how well the ledger takes claims.
    claim_rate: claims::ClaimRate,
    /// Whether workers can be started.
    starts: starts::Starts,
    /// Whether the first scan of the functions directories is over.
    first_scan_done: bool,
    /// Whether all functions directories were readable since the start. If so, an unknown function does not exist.
    scanned: bool,
    /// Functions with a version that was installed after the last [`Event::Quiet`].
    unsettled: BTreeSet<FunctionKey>,
    /// Ends of an earlier fnd's workers that wait for the first complete scan.
    early: Vec<takeover::EarlyEnd>,
    /// Events whose shares are being stored.
    publishing: BTreeMap<u64, publish::Publishing>,
    /// Callers who do not wait for the invocation that they share, until it is on disk as durable.
    joining: BTreeMap<InvocationId, Vec<ReplyTo>>,
    next_worker: u64,
    /// Number of the last call to a handler's worker.
    next_call: u64,
    /// Order number of the last accepted invocation.
    next_number: u64,
    random: fastrand::Rng,
}

impl Supervisor {
    /// Returns a supervisor without any state. `seed` seeds the random part of delays. `next_worker` is the number of
    /// the first worker; it comes from the spawner.
    #[must_use]
    pub fn new(seed: u64, budget: NodeBudget, next_worker: WorkerId) -> Self {
        Self {
            functions: SupervisedFunctions::default(),
            invocations: BTreeMap::new(),
            waited: chain::Waited::default(),
            workers: BTreeMap::new(),
            timers: Timers::default(),
            node: BudgetQueue::new(budget),
            groups: groups::Groups::default(),
            phase: ShutdownPhase::Serving,
            cancels_drain: false,
            spawner: true,
            claim_rate: claims::ClaimRate::default(),
            starts: starts::Starts::default(),
            first_scan_done: false,
            scanned: false,
            unsettled: BTreeSet::new(),
            early: Vec::new(),
            publishing: BTreeMap::new(),
            joining: BTreeMap::new(),
            next_worker: next_worker.0,
            next_call: 0,
            next_number: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Handles an event and appends the actions to carry out, in order. `now` never goes back.
    ///
    /// The event is handled before the timers that are due at the same instant: a worker that ended in time counts as
    /// in time, even if the driver reports it late.
    pub fn handle(&mut self, now: Now, event: Event, out: &mut Vec<Action>) {
        let first = out.len();
        match event {
            Event::Restored(restored) => self.restored(now, restored, out),
            Event::Installed(installed) => self.installed(now, *installed, out),
            Event::Canary { installed, percent } => self.begin_canary(now, *installed, percent, out),
            Event::CanaryOver(function) => self.canary_over(now, &function, out),
            Event::Refused { function, error } => self.refused(&function, error, out),
            Event::Building(function) => self.building(&function, out),
            Event::Removed(function) => self.removed(now, &function, out),
            Event::Scanned { whole } => self.scanned(now, whole, out),
            Event::Quiet(held) => self.directories_quiet(now, &held, out),
            Event::Submit(submit) => self.submit(now, *submit, out),
            Event::Publish(publish) => self.publish(now, *publish, out),
            Event::Published { number, earlier } => self.published(now, number, earlier, out),
            Event::PublishFailed(number) => self.publish_failed(now, number, out),
            Event::Stored(id) => self.stored(now, id, out),
            Event::StoreFailed(id) => self.store_failed(now, id, out),
            Event::Claimed(ids) => self.claimed(now, &ids, out),
            Event::ClaimFailed(ids) => self.claim_failed(now, &ids),
            Event::ClaimPutOff { id, pause } => self.claim_put_off(now, id, pause, out),
            Event::LeaseLost(lost) => self.lease_lost(now, &lost, out),
            Event::Superseded { id, node } => self.superseded(now, id, node, out),
            Event::Withdraw(id) => self.withdraw(now, id, out),
            Event::Cancel { id, reply } => self.cancel(now, id, reply, out),
            Event::CallerLeft { id, reply } => self.caller_left(now, id, reply, out),
            Event::SetEnabled {
                function,
                enabled,
                reply,
            } => self.set_enabled(now, function, (enabled, reply), out),
            Event::Full { function, why } => self.set_full(now, &function, why, out),
            Event::ViewChanged(function) => self.view_changed(now, &function, out),
            Event::ClockSet => self.clock_set(now),
            Event::Drain => self.drain(now, out),
            Event::CancelDrain => self.cancel_drain(),
            Event::HandOver => self.hand_over(now, out),
            Event::StopNow => self.stop_now(now, out),
            Event::Spawned(worker) => self.spawned(now, worker, out),
            Event::SpawnFailed { worker, message } => self.spawn_failed(now, worker, message, out),
            Event::NodeCannotStart { worker, message } => self.node_cannot_start(now, worker, &message, out),
            Event::SpawnerAnswers(answers) => self.spawner_answers(now, answers, out),
            Event::EndsLater(worker) => self.ends_later(now, worker),
            Event::Exited(exited) => self.exited(now, &exited, out),
            Event::WorkerReady {
                worker,
                concurrency,
                cancels,
            } => self.worker_ready(now, worker, (concurrency, cancels), out),
            Event::NotReady { worker, why } => self.not_ready_yet(worker, why),
            Event::LoadFailed { worker, message } => self.load_failed(now, worker, message, out),
            Event::Answered(answered) => self.answered(now, *answered, out),
            Event::Closed(worker) => self.closed(now, worker),
            Event::Broken { worker, message } => self.broken(now, worker, message, out),
            Event::SpawnerLost => self.spawner_lost(now, out),
            // Due timers are handled after every event, so a tick has nothing of its own to do.
            Event::Tick => {}
        }
        // The event may have been the answer to the last claim, for which a cancelled drain waits.
        self.end_cancelled_drain(now, out);
        loop {
            // Timers come before starts, so that an invocation whose time is over now is not started.
            while let Some(timer) = self.timers.pop_due(now.mono) {
                self.fire(now, timer, out);
            }
            self.dispatch(now, out);
            // A timeout or backoff of zero is due at once, so timers are checked again.
            if self.timers.next().is_none_or(|at| at > now.mono) {
                break;
            }
        }
        self.notice_drained(out);
        self.report_changes(first, out);
        // Each changed function is counted once, when all changes of this event are made.
        self.functions.count();
        debug_assert!(
            self.books_agree(),
            "the books of waiting work do not agree with the stages"
        );
        debug_assert!(
            self.counts_agree(),
            "the counts of functions do not agree with the functions"
        );
    }

    /// Returns when the next [`Event::Tick`] is needed, on the clock of [`Now::mono`]; absent without armed timers.
    /// Always later than the last event.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers.next()
    }

    fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Puts before each change of a status what has changed of the function; `from`: where the actions of this event begin.
    fn report_changes(&mut self, from: usize, out: &mut Vec<Action>) {
        let mut at = from;
        while let Some(action) = out.get(at) {
            if let Action::Status(name) = action
                && let Some(key) = self.functions.find(name)
            {
                let mut changes = Vec::new();
                self.functions[key].report_changes(&mut changes);
                let count = changes.len();
                out.splice(at..at, changes);
                at += count;
            }
            at += 1;
        }
    }

    /// Counts the books anew from the stages of all invocations; says whether the counts agree with the books. Counts
    /// nothing where that would take too long for an assertion after each event.
    fn books_agree(&self) -> bool {
        if self.invocations.len() > RECOUNT_MAX {
            return true;
        }
        let mut counted = BTreeMap::<FunctionKey, Queue>::new();
        // In the order of acceptance, in which the lanes were filled.
        let mut invocations: Vec<&Invocation> = self.invocations.values().collect();
        invocations.sort_unstable_by_key(|invocation| invocation.number);
        for invocation in invocations {
            let empty = || self.functions[invocation.function].queue.emptied();
            counted.entry(invocation.function).or_insert_with(empty).add(invocation);
        }
        let mut keys = self.functions.keys().take(RECOUNT_MAX);
        keys.all(|key| {
            let queue = &self.functions[key].queue;
            *queue == counted.remove(&key).unwrap_or_else(|| queue.emptied())
        })
    }

    /// Counts all functions and workers anew; says whether the kept counts agree. Counts nothing where that would take too
    /// long for an assertion after each event.
    fn counts_agree(&self) -> bool {
        if self.functions.keys().nth(RECOUNT_MAX).is_some() {
            return true;
        }
        let mut counts = Counts::default();
        for key in self.functions.keys() {
            counts.replace(CountedFunction::default(), CountedFunction::of(&self.functions[key]));
        }
        let running: usize = self.workers.values().map(|worker| worker.runs.len()).sum();
        counts == *self.functions.counts() && running == counts.running && self.groups_agree()
    }

    /// Counts the attempts and claims of each group anew; says whether the groups have the same numbers.
    fn groups_agree(&self) -> bool {
        if self.invocations.len() > RECOUNT_MAX {
            return true;
        }
        let workers = self.workers.values();
        let attempts = workers.filter_map(|worker| Some((worker.serving.group()?, worker.runs.len())));
        let claims = self
            .invocations
            .values()
            .filter_map(|invocation| match &invocation.stage {
                InvocationStage::Claiming { group, .. } => Some((group.as_deref()?, 1)),
                _ => None,
            });
        let mut counted = BTreeMap::<&str, usize>::new();
        for (group, number) in attempts.chain(claims).filter(|(_, number)| *number > 0) {
            *counted.entry(group).or_default() += number;
        }
        counted == self.groups.used()
    }
}
