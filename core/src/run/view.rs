//! Read-only snapshots: for the API, and as adoption records for the next fnd.

use super::Supervisor;
use crate::durations;
use crate::idempotency::IdempotencyKey;
use crate::messages::FunctionState;
use crate::messages::action::Rejection;
use crate::messages::adoption_records::{CallRecord, MemberRecord, RunRecord, ScriptRecord};
use crate::messages::end_cause::EndCause;
use crate::messages::event::LastAttempt;
use crate::records::InvocationRecord;
use crate::records::outcome::{Reason, RunState};
use crate::run_state::function::SupervisedFunction;
use crate::run_state::invocation::{InvocationStage, WallTime};
use crate::run_state::worker::{Worker, WorkerKind, WorkerPhase};
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use fnd_wire::plan;
use std::borrow::Cow;
use std::num::NonZeroU64;
use std::ops::Bound;

/// A snapshot of a function.
#[derive(Debug)]
pub struct FunctionView<'a> {
    /// The function's name.
    pub name: &'a FunctionName,
    /// The function's number at the spawner, once a version was installed.
    pub id: Option<FunctionId>,
    /// The state that the API shows.
    pub state: FunctionState,
    /// Whether neither its manifest nor a person disabled it.
    pub enabled: bool,
    /// The version that serves.
    pub version: Option<Version>,
    /// Why the newest content does not serve, or why it can't run here.
    pub error: Option<Cow<'a, str>>,
    /// Since when its newest content does not serve, or its processes do not start, Unix milliseconds; absent while all is well.
    pub bad_since_ms: Option<u64>,
    /// A newer version that is tried before it serves.
    pub trial: Option<Trial>,
    /// A version that gets a share of the calls.
    pub canary: Option<CanaryCounts>,
    /// Number of invocations that ran and are over.
    pub runs: u64,
    /// Number of those that failed or were interrupted.
    pub failures: u64,
    /// Since when the service's oldest process runs, Unix milliseconds; absent for others, and while none runs.
    pub up_since_ms: Option<u64>,
    /// Number of attempts that run or are being started.
    pub running: usize,
    /// Number of workers, busy or not.
    pub workers: usize,
    /// Number of accepted invocations that are not running: queued, delayed, waiting for a retry or a poll.
    pub queued: usize,
    /// The group that holds it up: its name, the places that are taken, and all its places.
    pub held_up_by: Option<(&'a str, usize, usize)>,
    /// How many invocations wait for others with the same value of a key, and the value of the oldest one.
    pub held_back: Option<(usize, &'a str)>,
    /// Why its home or its cache is over its quota.
    pub full: Option<&'a str>,
    /// When the earliest retry or poll is due, Unix milliseconds.
    pub next_attempt_ms: Option<u64>,
    /// The last attempt that has ended; absent where the history has none.
    pub last: Option<&'a LastAttempt>,
    durations_us: &'a [u64],
}

/// A version that gets a share of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CanaryCounts {
    /// The version that gets the share.
    pub version: Version,
    /// The share that is in effect now. Another one that a person has asked for is in effect once the version is installed again.
    pub percent: u32,
    /// Its attempts that have ended since fnd started.
    pub attempts: u64,
    /// Those of them that failed.
    pub failures: u64,
}

/// A newer version that is tried before it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// The version that is tried.
    pub version: Version,
    /// Whether it is to get a share of the calls first.
    pub canary: bool,
    /// Failed trials since the version came or somebody asked for a new trial.
    pub failures: u32,
    /// When the next trial starts, Unix milliseconds; absent during a trial, and where none follows.
    pub again_ms: Option<u64>,
}

/// The room of a function for messages that are not asked for yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomForMessages {
    /// Attempts that could begin now: its places without those that run, are about to begin, or wait for a place. Runs that
    /// wait for another one of their key count as waiting.
    pub places: usize,
    /// Attempts that its group has room for; absent: it is in no group.
    pub group: Option<usize>,
    /// Attempts for which the node has workers.
    pub node: usize,
    /// Whether it begins nothing now: it is disabled, over its quota, in the pause of a crash loop, or fnd drains.
    pub is_held: bool,
}

impl FunctionView<'_> {
    /// Returns a quantile (`0.5`, `0.99`) of the durations of the last hundred attempts since fnd's start, in
    /// microseconds, by the nearest rank; absent before the first.
    #[must_use]
    pub fn duration_us(&self, quantile: f64) -> Option<u64> {
        durations::quantile(self.durations_us, quantile)
    }
}

impl Supervisor {
    /// Returns a function; absent when it is unknown or deleted and nothing of it runs any more.
    #[must_use]
    pub fn function(&self, name: &FunctionName) -> Option<FunctionView<'_>> {
        let key = self.functions.find(name)?;
        self.functions[key].is_shown().then(|| self.view(key))
    }

    /// Returns every shown function, by name; not fnd's own.
    pub fn functions(&self) -> impl Iterator<Item = FunctionView<'_>> {
        self.functions_after(None)
    }

    /// Returns the shown functions whose names come after this one, by name; not fnd's own. A list that is made in pieces
    /// goes on with it.
    pub fn functions_after(&self, name: Option<&FunctionName>) -> impl Iterator<Item = FunctionView<'_>> {
        let is_own = |key: &FunctionKey| plan::is_own(self.functions[*key].name.as_str());
        let shown = self
            .functions
            .keys_after(name)
            .filter(move |key| self.functions[*key].is_shown() && !is_own(key));
        shown.map(|key| self.view(key))
    }

    /// Returns the version that serves and why newer content does not; absent where the function is not shown.
    #[must_use]
    pub fn version_and_error(&self, name: &FunctionName) -> Option<(Option<Version>, Option<&str>)> {
        let function = self.functions.get(name)?;
        let version = function.serving().map(|serving| serving.version);
        function.is_shown().then_some((version, function.error.as_deref()))
    }

    /// Returns whether a newer version of a function is to be tried, or has its first trial since a person or a change of the file
    /// asked for one: nobody knows yet whether that version can be loaded. A disabled function tries nothing.
    #[must_use]
    pub fn is_undecided(&self, name: &FunctionName) -> bool {
        self.functions.get(name).is_some_and(|function| {
            let candidate = function.candidate.as_ref();
            function.is_enabled() && candidate.is_some_and(|candidate| candidate.failures == 0)
        })
    }

    /// Returns why the home or the cache of a function is over its quota, as it was told last.
    #[must_use]
    pub fn full(&self, name: &FunctionName) -> Option<&str> {
        self.functions.get(name)?.full.as_deref()
    }

    /// Returns the workers that were started after this one, oldest first: each with its function and its phase, as a word
    /// for people.
    pub fn workers_after(
        &self,
        worker: Option<WorkerId>,
    ) -> impl Iterator<Item = (WorkerId, &FunctionName, &'static str)> {
        let word = |phase| match phase {
            WorkerPhase::Starting | WorkerPhase::Loading { .. } => "starting",
            WorkerPhase::Idle { .. } => "idle",
            WorkerPhase::Busy => "busy",
            WorkerPhase::Leaving { .. }
            | WorkerPhase::Terminating { .. }
            | WorkerPhase::Killed { .. }
            | WorkerPhase::Over => "ending",
        };
        let from = worker.map_or(Bound::Unbounded, Bound::Excluded);
        let workers = self.workers.range((from, Bound::Unbounded));
        workers.map(move |(id, worker)| (*id, &self.functions[worker.function].name, word(worker.phase)))
    }

    /// Returns the record of a live invocation; absent once it has ended (then the ledger has it). The record of one that was put
    /// off says when it begins.
    #[must_use]
    pub fn invocation(&self, id: InvocationId) -> Option<InvocationRecord> {
        let invocation = self.invocations.get(&id)?;
        let mut record = invocation.record(&self.functions[invocation.function].name);
        if let InvocationStage::Delayed { until } = invocation.stage {
            record.next_attempt_ms = Some(until.unix_ms);
        }
        Some(record)
    }

    /// Says whether the first scan of the functions directories is over, so that the functions of all readable ones are
    /// known.
    #[must_use]
    pub fn has_scanned(&self) -> bool {
        self.first_scan_done
    }

    /// Says whether a live invocation of a function has an idempotency key.
    #[must_use]
    pub fn has_key(&self, name: &FunctionName, key: &IdempotencyKey) -> bool {
        let function = self.functions.get(name);
        function.is_some_and(|function| function.work.queue.with_key(key).is_some())
    }

    /// Returns the versions of a function that run or are being started.
    #[must_use]
    pub fn versions_in_use(&self, name: &FunctionName) -> Vec<Version> {
        let Some(key) = self.functions.find(name) else {
            return Vec::new();
        };
        let function = &self.functions[key];
        let running = self.workers_of(key).map(|(_, worker)| &worker.serving);
        // While another version is on trial, the serving version is not the newest.
        let canary = function.canary.as_ref().map(|canary| &canary.serving);
        let versions = running.chain(function.serving()).chain(canary);
        versions.map(|serving| serving.version).collect()
    }

    /// Returns a live invocation of a function, if there is one.
    #[must_use]
    pub fn live_of(&self, name: &FunctionName) -> Option<InvocationId> {
        self.functions.get(name)?.work.queue.live().first().copied()
    }

    /// Says whether an invocation was cancelled and has not ended yet.
    #[must_use]
    pub fn is_cancelled(&self, id: InvocationId) -> bool {
        match self.invocations.get(&id).map(|invocation| &invocation.stage) {
            Some(InvocationStage::Storing { end, .. }) => {
                end.as_ref().is_some_and(|end| end.reason == Reason::Cancelled)
            }
            Some(InvocationStage::Running { .. }) => {
                let attempt = self.attempt_of(id);
                attempt.is_some_and(|(_, run)| matches!(run.ending, Some(EndCause::Cancelled(_))))
            }
            _ => false,
        }
    }

    /// Returns how many shown functions are in each state that any is in; fnd's own do not count.
    pub fn by_state(&self) -> impl Iterator<Item = (FunctionState, usize)> {
        let numbers = self.functions.counts().by_state;
        FunctionState::ALL
            .into_iter()
            .zip(numbers)
            .filter(|(_, number)| *number > 0)
    }

    /// Returns how many attempts run or are being started.
    #[must_use]
    pub fn running(&self) -> usize {
        self.functions.counts().running
    }

    /// Returns how many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Returns how many accepted invocations are not running.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.invocations.len().saturating_sub(self.running())
    }

    /// Returns the invocations that have not ended.
    pub fn live_invocations(&self) -> impl Iterator<Item = InvocationId> {
        self.invocations.keys().copied()
    }

    /// Returns the invocations that run now, oldest first.
    pub fn running_invocations(&self) -> impl Iterator<Item = InvocationId> {
        let all = self.invocations.iter();
        all.filter(|(_, invocation)| invocation.state() == RunState::Running)
            .map(|(id, _)| *id)
    }

    /// Says whether every functions directory was read since the start. If so, an unknown function does not exist.
    #[must_use]
    pub fn is_scanned(&self) -> bool {
        self.scanned
    }

    /// Returns why an absent function cannot run. A function that the history knows may be in a directory that could
    /// not be read since the start.
    #[must_use]
    pub fn unknown(&self, name: &FunctionName) -> Rejection {
        if self.first_scan_done && !self.scanned && self.functions.find(name).is_some() {
            let reason =
                "its functions directory may be one that has been away since fnd started; `fndctl status` says which";
            return Rejection::unavailable(reason);
        }
        Rejection::NoSuchFunction
    }

    /// Returns how many messages a function could begin now; absent where it has no version that can run.
    #[must_use]
    pub fn room_for_messages(&self, name: &FunctionName) -> Option<RoomForMessages> {
        let key = self.functions.find(name)?;
        let function = &self.functions[key];
        let serving = function.serving()?;
        // Waiting invocations take the places, and the room of the group, that become free.
        let waiting = function.work.queue.waiting() + function.work.queue.storing();
        let places = to_usize(serving.rules.places());
        let group = self.group_of_next(key);
        let is_held = !function.is_enabled()
            || function.is_held()
            || function.full.is_some()
            || self.is_draining()
            || !self.starts.may_start()
            || self.node.refusal(&serving.rules).is_some();
        Some(RoomForMessages {
            places: places.saturating_sub(function.work.busy + waiting),
            group: group.map(|group| self.group_room(Some(group), key).saturating_sub(waiting)),
            node: self.node_room(key).saturating_sub(waiting),
            is_held,
        })
    }

    /// Returns the group of the next attempt of a function.
    #[must_use]
    pub fn next_group(&self, name: &FunctionName) -> Option<&str> {
        self.group_of_next(self.functions.find(name)?)
    }

    /// Says whether no new requests are accepted any more.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        !self.phase.is_serving()
    }

    /// Returns the adoption record of a script's worker.
    #[must_use]
    pub fn script_record(&self, id: WorkerId) -> Option<ScriptRecord<'_>> {
        let worker = self.workers.get(&id)?;
        let run = worker.runs.first()?;
        let invocation = self.invocations.get(&run.invocation)?;
        Some(ScriptRecord {
            function: Cow::Borrowed(&self.functions[worker.function].name),
            id: worker.serving.id.0,
            version: worker.serving.version,
            load_key: worker.serving.load_key,
            run: RunRecord::of(worker, run, invocation),
            rules: Cow::Borrowed(&*worker.serving.rules),
        })
    }

    /// Returns the adoption record of a script that is being ended: the next fnd records why.
    #[must_use]
    pub fn record_of_ending(&self, id: WorkerId) -> Option<ScriptRecord<'_>> {
        let worker = self.workers.get(&id)?;
        let is_script = worker.member().is_none() && worker.runs.iter().any(|run| run.ending.is_some());
        is_script.then(|| self.script_record(id))?
    }

    /// Returns the adoption record of a handler's worker; absent for one that is being ended, since the next fnd has
    /// nothing to do with it.
    #[must_use]
    pub fn member_record(&self, id: WorkerId) -> Option<MemberRecord<'_>> {
        let worker = self.workers.get(&id)?;
        let member = worker.member()?;
        if !worker.phase.goes_on() {
            return None;
        }
        let calls = worker.runs.iter().filter_map(|run| {
            let (call, cold) = run.call?;
            let invocation = self.invocations.get(&run.invocation)?;
            Some(CallRecord {
                call,
                run: RunRecord::of(worker, run, invocation),
                cold,
            })
        });
        Some(MemberRecord {
            function: Cow::Borrowed(&self.functions[worker.function].name),
            id: worker.serving.id.0,
            version: worker.serving.version,
            load_key: worker.serving.load_key,
            concurrency: member.ready.then_some(member.concurrency),
            cancels: member.cancels,
            dropped: member.dropped.clone(),
            served: member.served,
            retiring: member.retiring,
            last_call: self.next_call,
            calls: calls.collect(),
            rules: Cow::Borrowed(&*worker.serving.rules),
        })
    }

    fn up_since_ms(&self, key: FunctionKey) -> Option<u64> {
        let is_ready = |worker: &&Worker| matches!(&worker.kind, WorkerKind::Service(readiness) if readiness.ready);
        let workers = self.workers_of(key).map(|(_, worker)| worker);
        workers.filter(is_ready).map(|worker| worker.started.unix_ms).min()
    }

    /// Returns when the first invocation that waits begins again, or the process of a service that has ended.
    fn next_attempt_ms(&self, function: &SupervisedFunction) -> Option<u64> {
        let waiting = function.work.queue.backing_off().first();
        waiting.map(|(unix_ms, _)| *unix_ms).or_else(|| {
            function.service().filter(|_| function.is_enabled())?;
            let hold = function.start_failures.as_ref()?.hold?;
            Some(WallTime::of_instant(self.now, hold).unix_ms)
        })
    }

    fn held_back(&self, function: &SupervisedFunction) -> Option<(usize, &str)> {
        let held_back = function.work.queue.held_back();
        let oldest = self.invocations.get(held_back.first()?)?;
        let value = oldest.queue_key.as_deref().or(oldest.order_key.as_deref())?;
        Some((held_back.len(), value))
    }

    fn view(&self, key: FunctionKey) -> FunctionView<'_> {
        let function: &SupervisedFunction = &self.functions[key];
        let serving = function.serving();
        // The budget of the node may have shrunk since the version was installed.
        let refusal = serving.and_then(|serving| self.node.refusal(&serving.rules));
        FunctionView {
            name: &function.name,
            id: function.id,
            state: function.state(),
            enabled: function.is_enabled(),
            version: serving.map(|serving| serving.version),
            trial: function.candidate.as_ref().map(|candidate| Trial {
                version: candidate.serving.version,
                canary: candidate.canary.is_some(),
                failures: candidate.failures,
                again_ms: candidate.again.map(|again| again.unix_ms),
            }),
            canary: function.canary.as_ref().map(|canary| CanaryCounts {
                version: canary.serving.version,
                percent: canary.percent,
                attempts: canary.attempts,
                failures: canary.failures,
            }),
            error: function.error.as_deref().map(Cow::Borrowed).or(refusal.map(Cow::Owned)),
            bad_since_ms: function.bad_since_ms.map(NonZeroU64::get),
            runs: function.runs,
            failures: function.failures,
            up_since_ms: self.up_since_ms(key),
            running: function.work.busy,
            workers: function.work.running.len(),
            queued: function.work.queue.live().len().saturating_sub(function.work.busy),
            held_up_by: self.held_up_by(key),
            held_back: self.held_back(function),
            full: function.full.as_deref(),
            next_attempt_ms: self.next_attempt_ms(function),
            last: function.last.as_deref(),
            durations_us: function.work.durations.as_slice(),
        }
    }
}
