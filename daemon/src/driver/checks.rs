//! Has the syntax of changed files checked, by fnd's own function `fnd-check`. [`fnd_core::lifecycle::checks`] decides which check runs next.

use super::{Driver, message};
use crate::functions::install::{CatalogChange, read_document};
use fnd_core::instant;
use fnd_core::lifecycle::checks::CheckResult;
use fnd_core::records::outcome::{Reason, Trigger};
use fnd_core::records::{InvocationRecord, Payload};
use fnd_core::supervisor::Submit;
use fnd_manifest::judge::Verdict;
use fnd_wire::frame::{NeedsBuild, Prune, Request};
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::plan::CHECK;
use std::collections::BTreeMap;

/// The bytes that end an archive.
const ARCHIVE_END: [u8; 1024] = [0; 1024];

/// The end of an invocation of `fnd-check`.
#[derive(Debug)]
pub(crate) struct CheckEnd {
    id: InvocationId,
    /// The results of those functions that it names.
    results: BTreeMap<FunctionName, CheckResult>,
    /// The result of a function that it does not name.
    otherwise: CheckResult,
}

impl CheckEnd {
    /// Returns the end of an invocation, if it is one of `fnd-check`; `state` is the state directory, which its output may name.
    pub(super) fn of(record: &InvocationRecord, state: &str) -> Option<Self> {
        if record.function.as_str() != CHECK || !record.state.is_final() {
            return None;
        }
        let result = record.result.as_ref().filter(|_| record.reason == Some(Reason::Ok));
        let result = result.map(|result| String::from_utf8_lossy(&result.data));
        let reason = record.reason.map(|reason| reason.to_string()).unwrap_or_default();
        Some(Self {
            id: record.id,
            results: results(&result.unwrap_or_default(), state),
            otherwise: unchecked(&reason, &record.message),
        })
    }
}

/// Returns what a run of `fnd-check` says of each function: a line `FUNCTION EXIT-CODE`, and behind it lines that begin with a
/// space and are the output.
fn results(text: &str, state: &str) -> BTreeMap<FunctionName, CheckResult> {
    let mut all = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let mut output = Vec::new();
        while let Some(line) = lines.peek().and_then(|line| line.strip_prefix(' ')) {
            output.push(message::shown(state, line));
            lines.next();
        }
        let (function, code) = line.rsplit_once(' ').unwrap_or_default();
        if let (Ok(function), Ok(code)) = (FunctionName::of_file_form(function), code.parse()) {
            all.insert(function, result(code, output.join("\n").trim_end()));
        }
    }
    all
}

/// Returns what the exit code of an interpreter says of the code. 75 is no error of the code, 126 and 127 are a shell's that has
/// not found the interpreter, and above 128 is the number of a signal.
fn result(code: u8, output: &str) -> CheckResult {
    match code {
        0 => CheckResult::Passed,
        75 | 126 | 127 => unchecked(&Reason::Exit(code).to_string(), output),
        129..=192 => unchecked(&Reason::Signal(code - 128).to_string(), output),
        _ => CheckResult::Wrong(output.to_owned()),
    }
}

fn unchecked(reason: &str, message: &str) -> CheckResult {
    CheckResult::Unchecked(format!("({reason}): {}", message.replace('\n', " ")))
}

/// Returns the name of the function that checks.
pub(crate) fn checker() -> FunctionName {
    FunctionName::new(CHECK).expect("a name")
}

impl Driver {
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
            self.functions.installer.requeue(candidate);
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
        let checked = read_document::<Verdict>(&build.document).ok();
        let Some(files) = checked.and_then(|verdict| verdict.checked_files()) else {
            let checks = &mut self.functions.installer.checks;
            checks.cannot(&function, "(not started): the judge is that of another fnd");
            return self.functions.installer.requeue(candidate);
        };
        self.functions.installer.checks.ready((candidate, files), build);
        self.run_checks();
    }

    /// Starts the next run of checks, if there is none. If a run of an earlier fnd goes on, its end is waited for.
    fn run_checks(&mut self) {
        if self.supervisor.live_of(&checker()).is_some() {
            return;
        }
        let Some(mut batch) = self.functions.installer.checks.next_batch() else {
            return;
        };
        self.install_own(checker(), &batch.by);
        let submit = self.new_submit(checker(), Trigger::Manual);
        let id = submit.id;
        self.functions.installer.checks.started(id);
        // One run checks many files, because starting a process in a new sandbox takes longer than all else of an edit.
        batch.input.extend_from_slice(&ARCHIVE_END);
        // It need not be durable: a next fnd checks anew. A failure is no dead letter, either.
        let submit = Submit {
            wait: true,
            payload: Payload {
                data: Some(batch.input.into()),
                ..Payload::default()
            },
            ..submit
        };
        if let Err(why) = self.submit_own(submit) {
            self.turn.checks.push_back(CheckEnd {
                id,
                results: BTreeMap::new(),
                otherwise: unchecked("not started", &why),
            });
        }
    }

    /// Handles the end of an invocation of `fnd-check`.
    pub(super) fn check_ended(&mut self, end: CheckEnd) {
        let checks = &mut self.functions.installer.checks;
        for (file, result) in checks.ended(end.id, end.results, &end.otherwise) {
            if let CheckResult::Unchecked(why) = result {
                let function = &file.function;
                tracing::warn!("{function}  the syntax of its code could not be checked {why}; it serves unchecked");
            }
            // The answer about the file finds the result.
            self.functions.installer.requeue(file);
        }
        // Files that became ready during the run are the next batch.
        self.run_checks();
        self.prune_checks();
        self.settle();
    }

    /// Lets the spawner delete the versions of `fnd-check` that are not needed any more, once none is.
    fn prune_checks(&mut self) {
        if !self.functions.installer.needs_no_check() {
            return;
        }
        let serving = self.functions.registry.get(&checker());
        let keep = serving.and_then(|known| Some(known.newest.as_ref()?.version));
        let function = checker();
        let keep = keep.into_iter().collect();
        self.workers
            .request(&Request::Prune(Prune { function, keep }), Vec::new());
    }

    /// Forgets the checks of functions that are gone.
    pub(super) fn check_is_over(&mut self, change: &CatalogChange) {
        if let CatalogChange::Removed(function) = change {
            self.functions.installer.checks.forget(function);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exit_code_of_the_interpreter_says_that_code_is_wrong() {
        assert_eq!(result(0, ""), CheckResult::Passed);
        for code in [1, 2, 128, 255] {
            assert_eq!(
                result(code, "a.sh: line 3: x"),
                CheckResult::Wrong("a.sh: line 3: x".to_owned())
            );
        }
        for (code, reason) in [
            (75, "exit-75"),
            (126, "exit-126"),
            (127, "exit-127"),
            (134, "signal-ABRT"),
        ] {
            assert_eq!(result(code, "a\nb"), CheckResult::Unchecked(format!("({reason}): a b")));
        }
    }

    #[test]
    fn each_function_has_its_result_and_no_output_looks_like_one() {
        let found = results("a 0\ngroup.b 1\n b.sh: line 3\n c 0\n \nd 127\nbroken\n\ne x\n f", "/s");
        let of = |name: &str| found.get(&FunctionName::new(name).unwrap()).cloned();
        assert_eq!(of("a"), Some(CheckResult::Passed));
        assert_eq!(of("group/b"), Some(CheckResult::Wrong("b.sh: line 3\nc 0".to_owned())));
        assert_eq!(of("d"), Some(CheckResult::Unchecked("(exit-127): ".to_owned())));
        assert_eq!(found.len(), 3);
    }
}
