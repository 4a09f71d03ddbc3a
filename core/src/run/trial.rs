//! Trials of a version of a handler, before it serves or gets a share of the calls: one worker of it must become ready. So a
//! version that cannot be loaded replaces nothing.

use super::Supervisor;
use crate::messages::action::Action;
use crate::messages::rules::Pool;
use crate::run_state::FunctionKey;
use crate::run_state::function::SupervisedFunction;
use crate::run_state::releases::{Canary, ServingRelease, SpareCandidate};
use crate::run_state::timers::Timer;
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
        candidate.again = (candidate.failures < TRIALS_MAX).then(|| self.now.after(pause));
        let given_up = match candidate.again {
            Some(again) => {
                self.timers.arm(again.mono, Timer::Trial(key));
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
            .disarm(candidate.again.take().map(|again| again.mono), Timer::Trial(key));
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
        let wanted = self.functions[key]
            .candidate
            .as_mut()
            .filter(|candidate| candidate.wanted);
        let refusal = wanted.and_then(|candidate| {
            let refusal = self.node.refusal(&candidate.serving.rules)?;
            candidate.wanted = false;
            Some(refusal)
        });
        if let Some(refusal) = refusal {
            self.trial_failed(key, "started", &refusal);
        }
    }

    /// Gives up the version that is on trial, and its worker.
    pub(super) fn give_up_candidate(&mut self, key: FunctionKey) {
        let Some(candidate) = self.functions[key].candidate.take() else {
            return;
        };
        self.timers
            .disarm(candidate.again.map(|again| again.mono), Timer::Trial(key));
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
        self.retire_all(key, Some(&candidate.serving));
    }
}
