//! A new release before it serves: a trial, and a canary.
//!
//! A version of a handler is tried before it serves or gets a share of the calls: one worker of it must become ready. So a version
//! that cannot be loaded replaces nothing.
//!
//! A canary gets a share of the calls while another release serves, so that a fault of the canary meets few callers.
//!
//! No call waits for a canary: if the next call is its own and all its workers are busy or starting, or as many processes of
//! its script run as its own `pool.max` allows, the serving release takes the call, and the canary gets a later one. So its
//! share is exact in the long run as far as its workers keep up, and a canary that hangs or cannot start delays nobody. A retry
//! is chosen anew, like a call.
//!
//! Whether a canary is promoted or ended is decided outside ([`release`](crate::lifecycle::release)): this module counts.

use super::Supervisor;
use crate::messages::action::Action;
use crate::messages::event::InstalledVersion;
use crate::messages::rules::Pool;
use crate::records::outcome::{Reason, RunState};
use crate::run_state::function::SupervisedFunction;
use crate::run_state::invocation::WallTime;
use crate::run_state::releases::{CALL, Canary, ServingRelease, SpareCandidate, shares_calls};
use crate::run_state::timers::Timer;
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::ids::{FunctionName, Version, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// Most trials of a version. With the default backoff they take an hour. After that fnd stops, because starting an
/// interpreter in vain every few minutes costs too much.
const TRIALS_MAX: u32 = 20;

/// Shortest pause between two trials, whatever the backoff says.
const TRIAL_PAUSE_MIN: Duration = Duration::from_secs(1);

impl SupervisedFunction {
    /// Says whether a new version of a handler is tried first. That needs another version that serves meanwhile.
    pub(super) fn is_worth_a_trial(&self, newest: &ServingRelease) -> bool {
        // A worker that must be alone cannot be tried beside one of the version that serves.
        let beside = |pool: &Pool| !pool.alone;
        let pooled = |serving: &ServingRelease| serving.rules.kind.pool().is_some_and(beside) && serving.rules.enabled;
        !self.disabled
            && !newest.rules.unchecked
            && pooled(newest)
            && self.serving().is_some_and(|serving| pooled(serving))
    }

    /// Forgets the error of a trial that is over. The error of a newer file that was refused meanwhile stays.
    pub(super) fn forget_error_of(&mut self, trial: Option<&str>) {
        self.error.take_if(|error| Some(&**error) == trial);
    }

    /// Returns the canary, if the next call is for it.
    fn due_canary(&self) -> Option<&Canary> {
        self.canary.as_deref().filter(|canary| canary.is_due())
    }

    /// Returns the version on trial that is to replace the one that serves and has the same content: a secret, an
    /// interpreter or a setting has changed.
    fn renewal(&mut self) -> Option<&mut SpareCandidate> {
        let content = self.serving().map(|serving| serving.load_key);
        let candidate = self.candidate.as_deref_mut()?;
        let is_renewal = candidate.canary.is_none() && Some(candidate.serving.load_key) == content;
        is_renewal.then_some(candidate)
    }

    /// Returns the workers that can take a call now.
    pub(super) fn all_free(&self) -> impl Iterator<Item = &WorkerId> {
        let canary = self.due_canary().into_iter().flat_map(|canary| &canary.free);
        self.work.free.iter().chain(canary)
    }

    /// Returns the version on trial, if it is tried with this worker.
    pub(super) fn tried_with(&mut self, worker: WorkerId) -> Option<&mut SpareCandidate> {
        let candidate = self.candidate.as_deref_mut();
        candidate.filter(|candidate| candidate.worker == Some(worker))
    }

    fn canary_of(&mut self, version: Version) -> Option<&mut Canary> {
        let canary = self.canary.as_deref_mut();
        canary.filter(|canary| canary.serving.version == version)
    }

    /// Returns the list of free workers of a version.
    pub(super) fn free_of(&mut self, version: Version) -> &mut Vec<WorkerId> {
        match &mut self.canary {
            Some(canary) if canary.serving.version == version => &mut canary.free,
            _ => &mut self.work.free,
        }
    }

    /// Says whether a version gets calls.
    pub(super) fn gets_calls(&self, version: Version) -> bool {
        let is_it = |serving: &Arc<ServingRelease>| serving.version == version;
        self.serving().is_some_and(is_it) || self.is_canary(version)
    }

    /// Says whether a version is the canary.
    pub(super) fn is_canary(&self, version: Version) -> bool {
        self.canary
            .as_ref()
            .is_some_and(|canary| canary.serving.version == version)
    }

    /// Counts an attempt that begins with a version.
    pub(super) fn begins_with(&mut self, version: Version) {
        if let Some(canary) = &mut self.canary {
            let own = canary.serving.version == version;
            canary.begins(own);
        }
    }
}

impl Supervisor {
    /// Handles a failed trial: the version is tried again, with growing pauses, up to [`TRIALS_MAX`] times.
    pub(super) fn trial_failed(&mut self, key: FunctionKey, what: &str, why: &str) {
        let random = self.random.f64();
        let function = &mut self.functions[key];
        let Some(candidate) = &mut function.candidate else {
            return;
        };
        candidate.worker = None;
        candidate.failures = candidate.failures.saturating_add(1);
        let backoff = &candidate.serving.rules.retry.backoff;
        let pause = backoff.delay(candidate.failures, random).max(TRIAL_PAUSE_MIN);
        candidate.again = (candidate.failures < TRIALS_MAX).then(|| WallTime::after(self.now, pause));
        let given_up = match candidate.again {
            Some(again) => {
                self.timers.arm(again.at, Timer::Trial(key));
                ""
            }
            None => " and is not tried again until it changes or `fndctl reload` is run",
        };
        let error = format!("the new version could not be {what}{given_up}; the previous version serves: {why}");
        candidate.error = Some(error.into());
        function.error.clone_from(&candidate.error);
    }

    /// Tries a version again that could not be loaded. If somebody `asked` for it, failures are counted from zero.
    pub(super) fn try_again(&mut self, key: FunctionKey, asked: bool) {
        let Some(candidate) = &mut self.functions[key].candidate else {
            return;
        };
        self.timers
            .disarm(candidate.again.take().map(|again| again.at), Timer::Trial(key));
        // A trial that is under way goes on, and is not made a second time.
        if candidate.worker.is_none() {
            candidate.wanted = true;
        }
        if asked {
            candidate.failures = 0;
            // The caller waits for the end of this trial, even if it is the same failure again.
            self.functions[key].forget_trial();
        }
    }

    /// Fails the trial of a version that can never fit the node.
    pub(super) fn refuse_trial(&mut self, key: FunctionKey) {
        let candidate = self.functions[key].candidate.as_mut();
        let Some(candidate) = candidate.filter(|candidate| candidate.wanted) else {
            return;
        };
        if let Some(refusal) = self.node.refusal(&candidate.serving.rules) {
            candidate.wanted = false;
            self.trial_failed(key, "started", &refusal);
        }
    }

    /// Gives up the version that is on trial, and its worker.
    pub(super) fn give_up_candidate(&mut self, key: FunctionKey) {
        let Some(candidate) = self.functions[key].candidate.take() else {
            return;
        };
        self.timers
            .disarm(candidate.again.map(|again| again.at), Timer::Trial(key));
        if let Some(worker) = candidate.worker {
            self.retire(worker);
        }
    }

    /// Lets the version that was tried serve, or have its share of the calls.
    pub(super) fn switch(&mut self, key: FunctionKey) {
        let function = &mut self.functions[key];
        let Some(candidate) = function.candidate.take() else {
            return;
        };
        function.forget_error_of(candidate.error.as_deref());
        self.out.push(Action::Status(function.name.clone()));
        if let Some(percent) = candidate.canary {
            function.canary = Some(Box::new(Canary::new(candidate.serving, percent)));
            return;
        }
        self.let_serve(key, Arc::clone(&candidate.serving));
        if let Some((canary, percent)) = candidate.behind {
            self.functions[key].candidate = Some(Box::new(SpareCandidate::new(canary, Some(percent))));
            self.refuse_trial(key);
        }
        self.retire_all(key, Some(candidate.serving.version));
    }

    /// Returns the worker that takes the next call of a function.
    pub(super) fn next_free(&self, key: FunctionKey) -> Option<WorkerId> {
        let function = &self.functions[key];
        // If the canary cannot take the call now, the version that serves takes it, because no call waits for a canary.
        let canary = function
            .due_canary()
            .filter(|canary| self.group_lets_begin(key, canary));
        let worker = canary.and_then(|canary| canary.free.last());
        worker.or(function.work.free.last()).copied()
    }

    fn group_lets_begin(&self, key: FunctionKey, canary: &Canary) -> bool {
        self.group_room(canary.serving.group(), key) > 0
    }

    /// Says whether the canary of a script may have one more process. The `pool.max` of the release that serves bounds the
    /// processes of both, and the canary's own may be smaller.
    fn pool_lets_begin(&self, key: FunctionKey, canary: &Canary) -> bool {
        let own = self
            .workers_of(key)
            .filter(|(_, worker)| worker.serving.version == canary.serving.version);
        own.count() < to_usize(canary.serving.rules.max_running)
    }

    /// Handles an installed version that is to get `percent` of the calls while another one serves. A handler is tried first.
    /// The version that serves already gets all of them.
    pub(super) fn begin_canary(&mut self, installed: InstalledVersion, percent: u32) {
        let key = self.functions.find_or_add(&installed.function);
        let function = &mut self.functions[key];
        let percent = percent.clamp(1, CALL);
        let can_share = |serving: &Arc<ServingRelease>| {
            serving.version != installed.version && shares_calls(&serving.rules, &installed.rules)
        };
        // Without another version to share the calls with, this one serves like every installed version.
        if !function.serving().is_some_and(can_share) {
            return self.installed(installed);
        }
        self.out.push(Action::Status(function.name.clone()));
        let serving = Arc::new(ServingRelease::of(installed));
        if let Some(canary) = function.canary_of(serving.version) {
            // Only the share has changed, so the canary keeps its workers and its counts.
            canary.set_share(percent);
            // A file that is refused is reported again after this.
            function.error = None;
            return;
        }
        let on_trial = function.candidate.as_mut();
        if let Some(candidate) = on_trial.filter(|candidate| candidate.serving.version == serving.version) {
            candidate.canary = Some(percent);
            function.error.clone_from(&candidate.error);
            self.try_again(key, true);
            self.refuse_trial(key);
            return self.line_up(key);
        }
        // A function has one canary at a time, so the earlier one ends.
        self.end_canary(key);
        let function = &mut self.functions[key];
        if let Some(renewed) = function.renewal() {
            // The release that serves needs the new secret or interpreter no less than its canary.
            renewed.behind = Some((serving, percent));
            return;
        }
        // A function tries one version at a time, and new code on trial gives way to the canary.
        self.give_up_candidate(key);
        let function = &mut self.functions[key];
        function.error = self.node.refusal(&serving.rules).map(Into::into);
        if function.error.is_some() {
            return;
        }
        if function.is_worth_a_trial(&serving) {
            function.candidate = Some(Box::new(SpareCandidate::new(serving, Some(percent))));
        } else {
            function.canary = Some(Box::new(Canary::new(serving, percent)));
        }
        self.line_up(key);
    }

    /// Takes the calls from a canary: its running ones end by themselves.
    pub(super) fn canary_over(&mut self, name: &FunctionName) {
        let Some(key) = self.functions.find(name) else { return };
        let on_trial = self.functions[key].candidate.as_ref();
        if let Some(canary) = on_trial.filter(|candidate| candidate.canary.is_some()) {
            let error = canary.error.clone();
            self.give_up_candidate(key);
            self.functions[key].forget_error_of(error.as_deref());
        } else if let Some(candidate) = &mut self.functions[key].candidate {
            candidate.behind = None;
        }
        self.end_canary(key);
        self.out.push(Action::Status(name.clone()));
        self.line_up(key);
    }

    /// Forgets the canary of a function and retires its workers.
    pub(super) fn end_canary(&mut self, key: FunctionKey) {
        let function = &mut self.functions[key];
        // `retire_all` spares the workers of a canary, so the canary is forgotten first.
        if function.canary.take().is_some() {
            let serving = function.serving().map(|serving| serving.version);
            self.retire_all(key, serving);
        }
    }

    /// Lets the canary serve. Its workers stay, and those of the release before are retired.
    pub(super) fn promote(&mut self, key: FunctionKey, serving: &Arc<ServingRelease>) {
        let function = &mut self.functions[key];
        let Some(canary) = function.canary.take() else { return };
        // The workers of the version before leave this list below, when they are retired.
        function.work.free.extend(canary.free);
        self.let_serve(key, Arc::clone(serving));
        self.retire_all(key, Some(serving.version));
    }

    /// Returns the canary of a handler, if it needs one more worker.
    pub(super) fn canary_wants(&self, key: FunctionKey) -> Option<&Arc<ServingRelease>> {
        let canary = self.functions[key].canary.as_ref()?;
        let pool = canary.serving.rules.kind.pool()?;
        let members = self.members(key, &canary.serving);
        // Nobody waits for the workers of a canary, so they start one after the other.
        let room = members.all < to_usize(pool.most) && members.coming == 0;
        let is_wanted = canary.lacks_worker && canary.free.is_empty() && room;
        (is_wanted && self.node.refusal(&canary.serving.rules).is_none()).then_some(&canary.serving)
    }

    /// Returns the version of a script's next attempt. The run of a content by itself is never the canary's.
    pub(super) fn next_version(&self, key: FunctionKey) -> Option<&Arc<ServingRelease>> {
        let function = &self.functions[key];
        let is_load = || {
            let first = function.work.queue.first_ready();
            let next = first.and_then(|id| self.invocations.get(&id));
            next.is_some_and(|invocation| invocation.load_key.is_some())
        };
        let fits = |canary: &&Canary| {
            !is_load()
                && self.node.refusal(&canary.serving.rules).is_none()
                && self.pool_lets_begin(key, canary)
                && self.group_lets_begin(key, canary)
        };
        let canary = function.due_canary().filter(fits);
        canary.map(|canary| &canary.serving).or(function.serving())
    }

    /// Counts an ended attempt of a canary.
    pub(super) fn count_canary(&mut self, key: FunctionKey, version: Version, reason: Reason) {
        let function = &mut self.functions[key];
        let Some(canary) = function.canary_of(version) else {
            return;
        };
        canary.attempts = canary.attempts.saturating_add(1);
        if is_fault(reason) {
            canary.failures = canary.failures.saturating_add(1);
            self.out.push(Action::CanaryFailed(function.name.clone()));
        }
    }

    /// Handles a worker of the canary that ended before it was ready. No call waited for it; the next one is tried when the
    /// canary is owed a call again.
    pub(super) fn canary_not_ready(&mut self, key: FunctionKey) {
        let function = &mut self.functions[key];
        if let Some(canary) = &mut function.canary {
            (canary.owed, canary.lacks_worker) = (0, false);
            canary.failures = canary.failures.saturating_add(1);
            self.out.push(Action::CanaryFailed(function.name.clone()));
        }
    }
}

/// Says whether an attempt that ends so speaks against its release. A poll goes on, and a deadline is that of the invocation.
fn is_fault(reason: Reason) -> bool {
    reason.final_state() == RunState::Failed && !matches!(reason, Reason::ExecuteAgain | Reason::Deadline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::outcome::Skip;

    #[test]
    fn only_an_attempt_that_failed_by_itself_is_a_fault() {
        let faults = [
            Reason::Transient,
            Reason::Failed,
            Reason::Exit(1),
            Reason::Error,
            Reason::Timeout,
            Reason::Oom,
            Reason::Signal(9),
            Reason::Spawn,
            Reason::Load,
            Reason::BadAnswer,
            Reason::ResultTooLarge,
            Reason::Pids,
            Reason::Input,
        ];
        let others = [
            Reason::Ok,
            Reason::ExecuteAgain,
            Reason::Interrupted,
            Reason::LeaseLost,
            Reason::Cancelled,
            Reason::Deadline,
            Reason::Skipped(Skip::Overlap),
        ];
        for reason in faults.into_iter().chain(others) {
            assert_eq!(is_fault(reason), faults.contains(&reason), "{reason}");
        }
    }
}
