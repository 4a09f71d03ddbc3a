//! Holds the state of all functions, invocations and workers, as one pure state machine.
//!
//! [`Supervisor::handle`] takes an event and the time, changes the state and appends the actions to carry out. It
//! starts no process, reads no clock and never blocks; [`Supervisor::next_deadline`] returns when it needs the next
//! [`Event::Tick`].
//!
//! Events and actions stand in `messages`, the state in `run_state`. The path of a request: `submit` (accept or reject)
//! → `acceptance` (stored, queued) → `admission` (budget, rate) → `claims` (on disk before it begins) → `attempt`
//! (start and end) → `conclude` (what follows).
//!
//! Beside that path: `attempt` uses `starts` (whether workers can be started) and `worker` (a worker's phases).
//! Handlers also have `pool` (the set of workers) and `calls` (calls and their answers). `conclude` also ends
//! invocations that do not run, `chain` invocations whose caller has ended, and `register` gives up invocations that
//! another node has taken over. `versions` changes functions; `trial` tries a release before it serves.
//! `restore`, `takeover` and `shutdown` begin and end the life of the state machine. `view` shows the state.
//!
//! Files:
//! - `acceptance`: makes invocations of accepted requests, which may wait for a time of the wall clock
//! - `admission`: decides which work may begin, by budget and rate
//! - `attempt`: starts and ends attempts
//! - `calls`: calls of ready workers, their answers, and the end of one of several calls
//! - `chain`: functions that call functions
//! - `claims`: work that is stored as begun before it begins
//! - `conclude`: what follows an attempt; the end of invocations, cancellation, deadline, expiry
//! - `flow`: how many attempts of a group, or with one value of `[queue] key`, may run at once
//! - `pool`: the workers of a handler or an HTTP program
//! - `publish`: events: one invocation for each function that takes the event
//! - `register`: invocations that the register of all nodes gives to another node
//! - `restore`: the state that an earlier fnd left
//! - `service`: processes that always run
//! - `shutdown`: drain, stop, hand over
//! - `starts`: whether workers can be started; crash loops
//! - `submit`: decides about requests
//! - `takeover`: workers that an earlier fnd started or handed over
//! - `trial`: a new release, before it serves: its trial, and its share of the calls as a canary
//! - `versions`: new, changed and deleted functions
//! - `view`: snapshots for the API, records for the next fnd
//! - `worker`: leads a worker through its phases

mod acceptance;
mod admission;
mod attempt;
mod calls;
mod chain;
mod claims;
mod conclude;
mod flow;
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
use crate::run_state::queue::QueueBooks;
use crate::run_state::timers::{Timer, Timers};
use crate::run_state::worker::{Run, Worker};
use admission::BudgetQueue;
use fnd_wire::ids::{InvocationId, WorkerId};
use shutdown::ShutdownPhase;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long no worker is started after the first failed start, and no claim sent after the first failed claim; the pause doubles
/// with each further failure.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Counts one more failure in a row, and returns the pause after it.
fn pause_after(failures: &mut u32) -> Duration {
    let times = 1_u32.checked_shl(*failures).unwrap_or(u32::MAX);
    *failures = failures.saturating_add(1);
    PAUSE.saturating_mul(times).min(PAUSE_MAX)
}

/// Most invocations, and most functions, that an assertion counts after each event.
const RECOUNT_MAX: usize = 256;

/// The state machine. All maps are ordered, so that the same seed and events give the same actions.
#[derive(Debug)]
pub struct Supervisor {
    /// The time of the event that is being handled.
    now: Now,
    /// The actions of the event that is being handled, in order.
    out: Vec<Action>,
    functions: SupervisedFunctions,
    invocations: BTreeMap<InvocationId, Invocation>,
    /// The invocations that others wait for.
    waited: chain::Waited,
    workers: BTreeMap<WorkerId, Worker>,
    timers: Timers,
    node: BudgetQueue,
    groups: flow::Groups,
    phase: ShutdownPhase,
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
    early: Vec<attempt::EndedAttempt>,
    /// Events whose shares are being stored.
    publishing: BTreeMap<u64, publish::Publishing>,
    /// Callers who share an invocation by its idempotency key and do not wait for its end. They are answered when the
    /// invocation is on disk as durable.
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
            now: Now::default(),
            out: Vec::new(),
            functions: SupervisedFunctions::default(),
            invocations: BTreeMap::new(),
            waited: chain::Waited::default(),
            workers: BTreeMap::new(),
            timers: Timers::default(),
            node: BudgetQueue::new(budget),
            groups: flow::Groups::default(),
            phase: ShutdownPhase::Serving,
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
        self.now = now;
        match event {
            Event::Restored(restored) => self.restored(*restored),
            Event::Installed(installed) => self.installed(*installed),
            Event::Canary { installed, percent } => self.begin_canary(*installed, percent),
            Event::CanaryOver(function) => self.canary_over(&function),
            Event::Refused { function, error } => self.refused(&function, error),
            Event::Building(function) => self.building(&function),
            Event::Removed(function) => self.removed(&function),
            Event::Scanned { whole } => self.scanned(whole),
            Event::Quiet(held) => self.directories_quiet(&held),
            Event::Submit(submit) => self.submit(*submit),
            Event::Publish(publish) => self.publish(*publish),
            Event::Published { number, earlier } => self.published(number, earlier),
            Event::PublishFailed(number) => self.publish_failed(number),
            Event::Stored(id) => self.stored(id),
            Event::StoreFailed(id) => self.store_failed(id),
            Event::Claimed(ids) => self.claimed(&ids),
            Event::ClaimFailed(ids) => self.claim_failed(&ids),
            Event::ClaimPutOff { id, pause } => self.claim_put_off(id, pause),
            Event::LeaseLost(lost) => self.lease_lost(&lost),
            Event::Superseded { id, node } => self.superseded(id, node),
            Event::Withdraw(id) => self.withdraw(id),
            Event::Cancel { id, reply } => self.cancel(id, reply),
            Event::CallerLeft { id, reply } => self.caller_left(id, reply),
            Event::SetEnabled {
                function,
                enabled,
                reply,
            } => self.set_enabled(function, enabled, reply),
            Event::Restart(function) => self.restart(&function),
            Event::Full { function, why } => self.set_full(&function, why),
            Event::ViewChanged(function) => self.view_changed(&function),
            Event::ClockSet => self.clock_set(),
            Event::Drain => self.drain(),
            Event::CancelDrain => self.cancel_drain(),
            Event::HandOver => self.hand_over(),
            Event::StopNow => self.stop_now(),
            Event::Spawned(worker) => self.spawned(worker),
            Event::SpawnFailed { worker, message } => self.spawn_failed(worker, message),
            Event::NodeCannotStart { worker, message } => self.node_cannot_start(worker, &message),
            Event::SpawnerAnswers(answers) => self.spawner_answers(answers),
            Event::EndsLater(worker) => self.ends_later(worker),
            Event::Exited(exited) => self.exited(&exited),
            Event::WorkerReady {
                worker,
                concurrency,
                cancels,
            } => self.worker_ready(worker, concurrency, cancels),
            Event::NotReady { worker, why } => self.not_ready_yet(worker, why),
            Event::LoadFailed { worker, message } => self.load_failed(worker, message),
            Event::Answered(answered) => self.answered(*answered),
            Event::Closed(worker) => self.closed(worker),
            Event::Broken { worker, message } => self.broken(worker, message),
            Event::SpawnerLost => self.spawner_lost(),
            // Due timers are handled after every event, so a tick has nothing of its own to do.
            Event::Tick => {}
        }
        // The event may have been the answer to the last claim, for which a cancelled drain waits.
        self.end_cancelled_drain();
        loop {
            // Timers come before starts, so that an invocation whose time is over now is not started.
            while let Some(timer) = self.timers.pop_due(now.mono) {
                self.fire(timer);
            }
            self.dispatch();
            // A timeout or backoff of zero is due at once, so timers are checked again.
            if self.timers.next().is_none_or(|at| at > now.mono) {
                break;
            }
        }
        self.notice_drained();
        self.report_changes();
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
        out.append(&mut self.out);
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

    /// Answers a caller, if there is one.
    fn answer(&mut self, to: impl Into<Option<ReplyTo>>, answer: Answer) {
        self.out.extend(to.into().map(|to| Action::Reply(to, answer)));
    }

    /// Gives several callers the same answer.
    fn answer_all(&mut self, to: impl IntoIterator<Item = ReplyTo>, answer: impl Fn() -> Answer) {
        let replies = to.into_iter().map(|to| Action::Reply(to, answer()));
        self.out.extend(replies);
    }

    /// Answers all callers that wait for an invocation before it has ended.
    fn answer_waiters(&mut self, id: InvocationId, answer: impl Fn() -> Answer) {
        let invocation = self.invocations.get_mut(&id);
        let waiters = invocation.map(|invocation| std::mem::take(&mut invocation.waiters));
        self.answer_all(waiters.into_iter().flatten(), answer);
    }

    /// Returns the attempt of an invocation that runs, and its worker.
    fn attempt_of(&self, id: InvocationId) -> Option<(&Worker, &Run)> {
        let worker = self.workers.get(&self.invocations.get(&id)?.stage.worker()?)?;
        Some((worker, worker.run(id)?))
    }

    /// Returns the live invocations for which a condition holds, oldest first.
    fn invocations_with(&self, is_so: impl Fn(&Invocation) -> bool) -> Vec<InvocationId> {
        let all = self.invocations.values().filter(|invocation| is_so(invocation));
        all.map(|invocation| invocation.id).collect()
    }

    /// Moves an invocation to another stage, in the books of its function and in the timers. Returns its function.
    fn change(&mut self, id: InvocationId, to: InvocationStage) -> Option<FunctionKey> {
        let invocation = self.invocations.get_mut(&id)?;
        self.timers.disarm(invocation.stage.begins_at(), Timer::Begin(id));
        self.timers.arm(to.begins_at(), Timer::Begin(id));
        self.functions[invocation.function].work.queue.change(invocation, to);
        Some(invocation.function)
    }

    /// Stores the current state of an invocation.
    fn update(&mut self, id: InvocationId) {
        if let Some(invocation) = self.invocations.get(&id) {
            let record = invocation.record(&self.functions[invocation.function].name);
            self.out.push(Action::Update(Box::new(record)));
        }
    }

    /// Returns the workers of a function, oldest first.
    fn workers_of(&self, key: FunctionKey) -> impl Iterator<Item = (WorkerId, &Worker)> {
        let running = self.functions[key].work.running.iter();
        running.filter_map(|id| Some((*id, self.workers.get(id)?)))
    }

    /// Inserts, before each [`Action::Status`], the actions that say what has changed of that function, such as
    /// [`Action::Serves`] or [`Action::Gone`].
    fn report_changes(&mut self) {
        let mut at = 0;
        while let Some(action) = self.out.get(at) {
            if let Action::Status(name) = action
                && let Some(key) = self.functions.find(name)
            {
                let mut changes = Vec::new();
                self.functions[key].report_changes(self.now.unix_ms, &mut changes);
                let count = changes.len();
                self.out.splice(at..at, changes);
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
        let mut counted = BTreeMap::<FunctionKey, QueueBooks>::new();
        // In the order of acceptance, in which the lanes were filled.
        let mut invocations: Vec<&Invocation> = self.invocations.values().collect();
        invocations.sort_unstable_by_key(|invocation| invocation.number);
        for invocation in invocations {
            let empty = || self.functions[invocation.function].work.queue.emptied();
            counted.entry(invocation.function).or_insert_with(empty).add(invocation);
        }
        let mut keys = self.functions.keys().take(RECOUNT_MAX);
        keys.all(|key| {
            let queue = &self.functions[key].work.queue;
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
        let claims = self.invocations.values();
        let claims = claims.filter_map(|invocation| Some((invocation.claim_group()?, 1)));
        let mut counted = BTreeMap::<&str, usize>::new();
        for (group, number) in attempts.chain(claims).filter(|(_, number)| *number > 0) {
            *counted.entry(group).or_default() += number;
        }
        counted == self.groups.used()
    }
}
