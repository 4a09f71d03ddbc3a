//! Workers of a handler or an HTTP program: starts them on demand or ahead, keeps them while they are used and replaces
//! them.
//!
//! A worker takes calls from `WorkerReady` until it is *retired*: because another version serves, because the worker
//! has served or lived long enough, or because nothing needs it. Then it finishes its calls and is told to stop. A new
//! version is tried first (`trial`).

use super::Supervisor;
use crate::messages::Now;
use crate::messages::action::Action;
use crate::messages::rules::{FunctionKind, Pool};
use crate::run_state::function::SupervisedFunction;
use crate::run_state::releases::ServingRelease;
use crate::run_state::worker::{HandlerWorker, Worker, WorkerKind, WorkerPhase};
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::ids::{FunctionName, Version, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// Shortest time after which fnd looks again whether an idle worker is needed whose function waits for its group.
const HELD_UP_MIN: Duration = Duration::from_secs(1);

/// A start that a function waits for: an attempt of a script, or a worker of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// An attempt of a script.
    Attempt,
    /// An invocation waits for the worker.
    Demand,
    /// A new version must be tried.
    Trial,
    /// A canary had no worker for a call of its own.
    Canary,
    /// `pool.min`, or a fresh worker for the next invocation.
    Ahead,
}

/// Counts of workers of the serving version that take calls or will.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Members {
    pub(super) all: usize,
    /// Calls that the workers can take that are not ready yet.
    pub(super) coming: usize,
    busy: usize,
    /// Workers out of service that still finish their last calls.
    last_calls: usize,
}

impl Worker {
    /// Says whether the worker takes calls, or will.
    fn is_in_service(&self) -> bool {
        let retiring = self.member().is_none_or(|member| member.retiring);
        let lives = self.phase == WorkerPhase::Starting || self.phase.goes_on();
        lives && !retiring
    }
}

impl SupervisedFunction {
    /// Says whether fresh workers are kept ready now: after a call, for as long as an idle worker is kept.
    fn is_active(&self, now: Now, pool: &Pool) -> bool {
        let lately = |at: Duration| pool.idle.is_none_or(|idle| now.mono < at.saturating_add(idle));
        pool.min > 0 || self.work.last_call.is_some_and(lately)
    }
}

impl Supervisor {
    pub(super) fn members(&self, key: FunctionKey, serving: &ServingRelease) -> Members {
        let slots = serving.rules.kind.pool().map_or(1, |pool| to_usize(pool.concurrency));
        let mut members = Members::default();
        let workers = self.workers_of(key).map(|(_, worker)| worker);
        for worker in workers.filter(|worker| worker.serving.version == serving.version) {
            if !worker.is_in_service() {
                members.last_calls += usize::from(worker.phase == WorkerPhase::Busy);
                continue;
            }
            members.all += 1;
            match worker.phase {
                WorkerPhase::Starting | WorkerPhase::Loading { .. } => members.coming += slots,
                WorkerPhase::Busy => members.busy += 1,
                // An idle worker counts in `all` only.
                _ => {}
            }
        }
        members
    }

    /// Says whether a function with these `members` may have one more worker of a version, as far as its pool decides.
    pub(super) fn may_have_more(&self, key: FunctionKey, serving: &ServingRelease, members: Members) -> bool {
        let running = &self.functions[key].work.running;
        let has_room = |pool: &Pool| {
            // A worker that must be alone starts only after the previous one, of whatever version, has ended.
            let is_taken = pool.alone && !running.is_empty();
            members.all < to_usize(pool.most) && !is_taken
        };
        serving.rules.kind.pool().is_some_and(has_room)
    }

    /// Says whether and why a function needs one more worker, and of which release.
    pub(super) fn wants_member(&self, key: FunctionKey) -> Option<(Want, &Arc<ServingRelease>)> {
        let function = &self.functions[key];
        let serving = function.serving().filter(|_| function.is_enabled())?;
        let pool = serving.rules.kind.pool()?;
        // One that its group holds up needs no worker yet.
        let in_group = self.group_room(serving.group(), key);
        let waiting = function.work.queue.startable().min(in_group);
        // Even if the version that serves never fits the node, or in the pause of its crash loop: the new one may be the remedy.
        if let Some(candidate) = &function.candidate
            && candidate.wanted
            && self.node.refusal(&candidate.serving.rules).is_none()
        {
            return Some((Want::Trial, &candidate.serving));
        }
        if function.is_held() {
            return None;
        }
        if self.node.refusal(&serving.rules).is_some() {
            // Waiting invocations are refused instead. One whose claim is being stored comes back here afterwards.
            return function.work.queue.has_first(true).then_some((Want::Demand, serving));
        }
        let members = self.members(key, serving);
        let room = self.may_have_more(key, serving, members);
        // The workers that start now will take as many invocations as they have room for. Only further ones need a
        // worker.
        if room && waiting > members.coming && self.next_free(key).is_none() {
            return Some((Want::Demand, serving));
        }
        if let Some(canary) = self.canary_wants(key) {
            return Some((Want::Canary, canary));
        }
        let unused = members.all - members.busy;
        // No fresh worker starts while a call runs, since both would share the CPU, unless the next call would find no
        // worker.
        let calm = members.busy + members.last_calls == 0;
        let fresh = match pool.spare {
            Some(spare) if function.is_active(self.now, pool) && (calm || unused == 0) => to_usize(spare),
            _ => 0,
        };
        let ahead = members.all < to_usize(pool.min) || unused < fresh;
        (room && ahead).then_some((Want::Ahead, serving))
    }

    /// Starts a worker. Its place in the budget is already taken.
    pub(super) fn start_member(&mut self, key: FunctionKey, want: Want, serving: Arc<ServingRelease>) {
        let id = self.next_worker();
        let function = &mut self.functions[key];
        if let (Want::Trial, Some(candidate)) = (want, &mut function.candidate) {
            (candidate.worker, candidate.wanted) = (Some(id), false);
        }
        if let (Want::Canary, Some(canary)) = (want, &mut function.canary) {
            canary.lacks_worker = false;
        }
        let Some(pool) = serving.rules.kind.pool().copied() else {
            // `wants_member` names no such release.
            return self.node.give_back(function);
        };
        let member = HandlerWorker {
            pool,
            cold: want == Want::Demand,
            ..HandlerWorker::default()
        };
        let kind = WorkerKind::Member(Box::new(member));
        self.spawn(id, Worker::new(key, serving, self.now, kind), None, None);
    }

    /// Handles a started process, whose code is being loaded.
    pub(super) fn member_spawned(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        let Some(member) = worker.member() else { return };
        let until = self.now.mono.saturating_add(member.pool.load_max);
        let retiring = !worker.is_in_service();
        self.enter(id, WorkerPhase::Loading { until });
        if retiring {
            self.leave(id);
        }
    }

    /// Handles a worker whose code is loaded.
    pub(super) fn worker_ready(&mut self, id: WorkerId, concurrency: u32, cancels: bool) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let member = match &mut worker.kind {
            WorkerKind::Member(member) if matches!(worker.phase, WorkerPhase::Loading { .. }) => member,
            WorkerKind::Service(_) => return self.service_ready(id),
            // The worker is already stopping, or reports its readiness twice. A script reports nothing.
            WorkerKind::Member(_) | WorkerKind::Script => return,
        };
        member.ready = true;
        // The worker says how many calls it can take, the manifest how many it may. With 0 it would never get one.
        member.concurrency = concurrency.min(member.pool.concurrency).max(1);
        // A request to a program that serves HTTP ends with its connection.
        member.cancels = cancels || worker.serving.rules.kind.http().is_some();
        let (key, version) = (worker.function, worker.serving.version);
        if self.functions[key].tried_with(id).is_some() {
            self.switch(key);
        }
        if !self.functions[key].gets_calls(version) {
            return self.leave(id);
        }
        self.spawn_worked(key);
        self.rest(id);
    }

    /// Lets a worker without calls wait for the next call, or stops it.
    pub(super) fn rest(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        let (key, version) = (worker.function, worker.serving.version);
        if !worker.is_in_service() {
            self.leave(id);
            // A fresh worker in its place may have waited for the end of this call.
            return self.line_up(key);
        }
        let until = worker.member().and_then(|member| {
            let idle = member.pool.idle_until(self.now.mono);
            idle.into_iter().chain(member.pool.age_over(worker.started)).min()
        });
        let since = self.now.mono;
        self.enter(id, WorkerPhase::Idle { since, until });
        let free = self.functions[key].free_of(version);
        if !free.contains(&id) {
            free.push(id);
        }
        self.line_up(key);
    }

    /// Handles a worker that has been idle or has lived for its time.
    pub(super) fn idle_due(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        let (WorkerPhase::Idle { since, .. }, WorkerKind::Member(member)) = (worker.phase, &worker.kind) else {
            return;
        };
        let pool = &member.pool;
        let age = pool.age_over(worker.started);
        let function = &self.functions[worker.function];
        // A worker that is too old leaves, even if the pool keeps some workers.
        if age.is_none_or(|at| at > self.now.mono) {
            let again = match pool.idle {
                // Its turn in the group comes sooner or later, and another worker would have to be started then.
                Some(idle) if self.is_held_up(worker.function) => {
                    Some(self.now.mono.saturating_add(idle.max(HELD_UP_MIN)))
                }
                // A fresh worker is kept as long as the function is in use, which only the function's last call shows.
                Some(idle) if pool.spare.is_some() && function.is_active(self.now, pool) => {
                    let used_until = function.work.last_call.map(|used| used.saturating_add(idle));
                    used_until.filter(|at| *at > self.now.mono)
                }
                _ => None,
            };
            let kept = self.members(worker.function, &worker.serving).all <= to_usize(pool.kept());
            if kept || again.is_some() {
                let until = again.filter(|_| !kept).into_iter().chain(age).min();
                return self.enter(id, WorkerPhase::Idle { since, until });
            }
        }
        self.leave(id);
    }

    /// Takes a worker out of service: it finishes its calls and stops.
    pub(super) fn retire(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let Some(member) = worker.member_mut() else { return };
        member.retiring = true;
        let idle = worker.runs.is_empty();
        // A starting worker is stopped once it is there, a busy one after its last call; the others are already
        // stopping.
        if idle && worker.phase.goes_on() {
            self.leave(id);
        } else {
            self.out_of_service(id);
        }
    }

    /// Retires every worker of a function whose version is neither `but` nor the canary.
    pub(super) fn retire_all(&mut self, key: FunctionKey, but: Option<Version>) {
        let function = &self.functions[key];
        let on_trial = function.candidate.as_ref().and_then(|candidate| candidate.worker);
        let is_other = |(id, worker): &(WorkerId, &Worker)| {
            let version = worker.serving.version;
            but.is_none_or(|but| version != but && !function.is_canary(version) && on_trial != Some(*id))
        };
        let others: Vec<_> = self.workers_of(key).filter(is_other).map(|(id, _)| id).collect();
        for id in others {
            self.retire(id);
        }
    }

    /// Replaces the workers of a function, because they see other directories than a new one would.
    pub(super) fn view_changed(&mut self, name: &FunctionName) {
        let Some(key) = self.functions.find(name) else { return };
        let function = &self.functions[key];
        // One on trial was started a moment ago, and without it its version would be refused.
        let on_trial = function.candidate.as_ref().and_then(|candidate| candidate.worker);
        let running = function.work.running.iter().copied();
        let workers: Vec<_> = running.filter(|id| on_trial != Some(*id)).collect();
        for id in workers {
            self.retire(id);
        }
        self.line_up(key);
    }

    /// Tells a worker to stop.
    pub(super) fn leave(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        if let Some(member) = worker.member_mut() {
            member.retiring = true;
        }
        let is_http = matches!(worker.serving.rules.kind, FunctionKind::Http(..));
        if is_http || worker.member().is_some_and(|member| !member.dropped.is_empty()) {
            // An HTTP worker knows no stop message, and it has no calls now. A worker that was told to stop would first
            // finish the calls that were dropped.
            return self.terminate(id);
        }
        let until = self.now.mono.saturating_add(worker.serving.rules.grace);
        self.out.push(Action::Stop(id));
        self.enter(id, WorkerPhase::Leaving { until });
        self.out_of_service(id);
    }

    /// Gives a worker no more calls.
    pub(super) fn out_of_service(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get(&id) {
            let free = self.functions[worker.function].free_of(worker.serving.version);
            free.retain(|free| *free != id);
        }
    }

    /// Makes room on the node for what waits: stops the worker that has been idle longest. Workers that a function
    /// always keeps are stopped last; they are started again when there is room.
    pub(super) fn evict(&mut self) {
        let leaving = |worker: &Worker| worker.member().is_some() && worker.phase.is_stopping();
        // A worker that is stopping makes room soon, and a second one would perhaps be stopped in vain.
        if self.workers.values().any(leaving) {
            return;
        }
        let idle = self.workers.iter().filter_map(|(id, worker)| {
            let WorkerPhase::Idle { since, .. } = worker.phase else {
                return None;
            };
            let kept = worker.member().map_or(0, |member| to_usize(member.pool.kept()));
            let kept = self.members(worker.function, &worker.serving).all <= kept;
            // `min` compares from left to right: workers that a pool keeps come last, then the longest idle time
            // decides.
            Some((kept, since, *id))
        });
        if let Some((_, _, id)) = idle.min() {
            self.leave(id);
        }
    }
}

impl Pool {
    /// Returns when a worker reaches its maximum age.
    pub(super) fn age_over(&self, started: Now) -> Option<Duration> {
        self.max_age.map(|age| started.mono.saturating_add(age))
    }
}
