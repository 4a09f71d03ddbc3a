//! Has the syntax of changed files checked, by fnd's own function `fnd-check`. [`fnd_core::checks`] decides which check runs next.

use super::{State, message};
use crate::functions::catalog::Candidate;
use crate::functions::install::Change;
use fnd_core::checks::CheckResult;
use fnd_core::instant;
use fnd_core::outcome::{Reason, Trigger};
use fnd_core::record::InvocationRecord;
use fnd_core::supervisor::{Event, Submit};
use fnd_wire::frame::{Installed, NeedsBuild, Prune, Request};
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::plan::CHECK;
use std::collections::{HashMap, HashSet};

/// The files that wait for their checks.
#[derive(Debug, Default)]
pub(crate) struct WaitingChecks {
    /// The requests of checks that the spawner has not answered.
    asked: HashSet<u32>,
    /// The files that are installed or refused after their checks.
    files: HashMap<FunctionName, Candidate>,
    /// The versions of `fnd-check` that check them.
    versions: HashMap<Version, Installed>,
}

impl WaitingChecks {
    /// Stores which request asked the spawner for a check.
    pub(super) fn asked(&mut self, request: u32) {
        self.asked.insert(request);
    }

    /// Returns whether a request that is answered asked for a check.
    pub(super) fn was_asked(&mut self, request: u32) -> bool {
        self.asked.remove(&request)
    }
}

/// The end of an invocation of `fnd-check`.
#[derive(Debug)]
pub(crate) struct CheckEnd {
    id: InvocationId,
    result: CheckResult,
}

impl CheckEnd {
    /// Returns the end of an invocation, if it is one of `fnd-check`; `output` is the last lines that it printed, `state` the
    /// state directory, which they may name.
    pub(super) fn of(record: &InvocationRecord, output: &str, state: &str) -> Option<Self> {
        if record.function.as_str() != CHECK || !record.state.is_final() {
            return None;
        }
        let lines: Vec<_> = output.lines().map(|line| message::shown(state, line)).collect();
        let result = result(record.reason, &record.message, &lines.join("\n"));
        Some(Self { id: record.id, result })
    }
}

/// Returns what the end of a check says of the code. An interpreter names an error by its exit code; 126 and 127 are a shell's that
/// has not found the interpreter.
fn result(reason: Option<Reason>, message: &str, output: &str) -> CheckResult {
    match reason {
        Some(Reason::Ok) => CheckResult::Passed,
        Some(Reason::Exit(126 | 127)) => unchecked(reason, message),
        Some(Reason::Failed | Reason::ExecuteAgain | Reason::Exit(_)) => CheckResult::Wrong(output.to_owned()),
        _ => unchecked(reason, message),
    }
}

fn unchecked(reason: Option<Reason>, message: &str) -> CheckResult {
    let reason = reason.map(|reason| reason.to_string()).unwrap_or_default();
    CheckResult::Unchecked(format!("({reason}): {}", message.replace('\n', " ")))
}

/// Returns the name of the function that checks.
pub(crate) fn checker() -> FunctionName {
    FunctionName::new(CHECK).expect("a name")
}

impl State {
    /// Says that the file of a function waits for its check, or that the version that serves was not checked.
    pub(super) fn check_words(&self, function: &FunctionName, serving: Option<Version>) -> Option<String> {
        let checks = &self.functions.installer.checks;
        if let Some((_, since_ms)) = checks.waiting(function) {
            let since = instant::text(since_ms);
            return Some(format!("the syntax of its code is being checked since {since}"));
        }
        match checks.result(function, serving?)? {
            CheckResult::Unchecked(why) => Some(format!("the syntax of its code could not be checked {why}")),
            CheckResult::Passed | CheckResult::Wrong(_) => None,
        }
    }

    /// Handles the answer that the check of a file cannot be prepared. If the file itself is the reason, its installation
    /// finds that, too.
    pub(super) fn check_refused(&mut self, request: u32, why: &str) {
        if let Some(candidate) = self.functions.installer.answered(request) {
            let checks = &mut self.functions.installer.checks;
            checks.cannot(&candidate.function, &format!("(not started): {why}"));
            self.functions.installer.want_again(candidate);
        }
    }

    /// Handles the answer that the check of a file is prepared.
    pub(super) fn needs_check(&mut self, request: u32, needs: NeedsBuild) {
        let NeedsBuild { function, build, .. } = needs;
        let Some(candidate) = self.functions.installer.answered(request) else {
            return;
        };
        // A check of an earlier fnd may run: it must not count as one of a deleted function.
        if self.functions.registry.get(&checker()).is_none() {
            self.install_own(checker(), &build);
        }
        self.functions.installer.checks.ready(&function, build.version);
        self.checks.versions.insert(build.version, build);
        self.checks.files.insert(function, candidate);
        self.run_checks();
    }

    /// Starts the next check, if none runs. If a check of an earlier fnd still runs, its end is waited for.
    fn run_checks(&mut self) {
        if self.supervisor.live_of(&checker()).is_some() {
            return;
        }
        let next = self.functions.installer.checks.next_ready();
        let Some(installed) = next.and_then(|version| self.checks.versions.get(&version).cloned()) else {
            return;
        };
        self.install_own(checker(), &installed);
        let id = self.ids.next(self.clock.now().unix_ms);
        self.functions.installer.checks.started(id);
        // It need not be durable: a next fnd checks anew. A failure is no dead letter, either.
        let submit = Submit {
            wait: true,
            ..Submit::new(id, checker(), Trigger::Manual)
        };
        self.step(Event::Submit(Box::new(submit)));
        if self.supervisor.live_of(&checker()).is_none() {
            let known = self.supervisor.version_and_error(&checker());
            let why = known
                .and_then(|(_, error)| error)
                .unwrap_or("fnd takes no new work now");
            let result = CheckResult::Unchecked(format!("(not started): {why}"));
            self.turn.checks.push_back(CheckEnd { id, result });
        }
    }

    /// Handles the end of an invocation of `fnd-check`.
    pub(super) fn check_ended(&mut self, end: CheckEnd) {
        let ended = self.functions.installer.checks.ended(end.id, end.result);
        if let Some((function, result)) = ended
            && let Some(candidate) = self.checks.files.remove(&function)
        {
            if let CheckResult::Unchecked(why) = result {
                tracing::warn!("{function}  the syntax of its code could not be checked {why}; it serves unchecked");
            }
            // The answer about the file finds the result.
            self.functions.installer.want_again(candidate);
        }
        self.run_checks();
        self.prune_checks();
        self.settle();
    }

    /// Lets the spawner delete the versions of `fnd-check` that are not needed any more, once none is.
    fn prune_checks(&mut self) {
        let keep = self.functions.installer.checks.needed();
        // The spawner may have made the version of a check that it was asked for, and its answer is on the way. An answer about
        // files that have changed since is dropped.
        let installer = &self.functions.installer;
        self.checks
            .asked
            .retain(|request| installer.candidate(*request).is_some());
        if !keep.is_empty() || !self.checks.asked.is_empty() {
            return;
        }
        self.checks.versions.clear();
        self.checks.files.clear();
        let serving = self.functions.registry.get(&checker());
        let keep = serving.and_then(|known| Some(known.newest.as_ref()?.version));
        let function = checker();
        let keep = keep.into_iter().collect();
        self.workers
            .request(&Request::Prune(Prune { function, keep }), Vec::new());
    }

    /// Forgets the checks of functions that are gone.
    pub(super) fn check_is_over(&mut self, change: &Change) {
        if let Change::Removed(function) = change {
            self.functions.installer.checks.forget(function);
            self.checks.files.remove(function);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::outcome::Skip;

    #[test]
    fn only_an_exit_code_of_the_interpreter_says_that_code_is_wrong() {
        let of = |reason| result(reason, "a\nb", "a.sh: line 3: x");
        assert_eq!(of(Some(Reason::Ok)), CheckResult::Passed);
        for reason in [Reason::Exit(1), Reason::Exit(255), Reason::Failed, Reason::ExecuteAgain] {
            assert_eq!(of(Some(reason)), CheckResult::Wrong("a.sh: line 3: x".to_owned()));
        }
        let unknown = [
            Reason::Transient,
            Reason::Exit(126),
            Reason::Exit(127),
            Reason::Timeout,
            Reason::Oom,
            Reason::Signal(6),
            Reason::Spawn,
            Reason::Interrupted,
            Reason::Cancelled,
            Reason::Skipped(Skip::Disabled),
        ];
        for reason in unknown {
            assert_eq!(of(Some(reason)), CheckResult::Unchecked(format!("({reason}): a b")));
        }
    }
}
