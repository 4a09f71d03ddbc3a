//! Reads the result of a run of `fnd-check`.

use super::checks::CheckResult;
use crate::records::InvocationRecord;
use crate::records::outcome::Reason;
use fnd_wire::ids::{FunctionName, InvocationId};
use fnd_wire::plan::CHECK;
use std::collections::BTreeMap;

/// The end of an invocation of `fnd-check`.
#[derive(Debug)]
pub struct CheckEnd {
    pub(super) id: InvocationId,
    /// The results of those functions that it names.
    pub(super) results: BTreeMap<FunctionName, CheckResult>,
    /// The result of a function that it does not name.
    pub(super) otherwise: CheckResult,
}

impl CheckEnd {
    /// Returns the end of an invocation, if it is one of `fnd-check`. `shown` changes a line of its output to the form that
    /// people see: with the paths of the function's own files.
    #[must_use]
    pub fn of(record: &InvocationRecord, shown: impl Fn(&str) -> String) -> Option<Self> {
        if record.function.as_str() != CHECK || !record.state.is_final() {
            return None;
        }
        // The output of a run that was killed may end within the lines of a file, which would pass for all of them.
        let result = record.result.as_ref().filter(|_| record.reason == Some(Reason::Ok));
        let result = result.map(|result| String::from_utf8_lossy(&result.data));
        let reason = record.reason.map(|reason| reason.to_string()).unwrap_or_default();
        Some(Self {
            id: record.id,
            results: results(&result.unwrap_or_default(), shown),
            otherwise: unchecked(&reason, &record.message),
        })
    }

    /// Returns the end of a run that could not be started.
    #[must_use]
    pub fn not_started(id: InvocationId, why: &str) -> Self {
        Self {
            id,
            results: BTreeMap::new(),
            otherwise: unchecked("not started", why),
        }
    }
}

/// Reads the output of a run of `fnd-check`. For each function it has a line `FUNCTION EXIT-CODE`, and after that the lines that
/// the interpreter printed, each with a space in front.
fn results(text: &str, shown: impl Fn(&str) -> String) -> BTreeMap<FunctionName, CheckResult> {
    let mut all = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let mut output = Vec::new();
        while let Some(line) = lines.peek().and_then(|line| line.strip_prefix(' ')) {
            output.push(shown(line));
            lines.next();
        }
        let (function, code) = line.rsplit_once(' ').unwrap_or_default();
        if let (Ok(function), Ok(code)) = (FunctionName::of_file_form(function), code.parse()) {
            all.insert(function, result(code, output.join("\n").trim_end()));
        }
    }
    all
}

/// Returns what the exit code of an interpreter says about the code. Some say nothing about it: 75 is a temporary failure
/// (sysexits.h), with 126 and 127 a shell says that it could not run the interpreter, and a code above 128 is the number of a
/// signal.
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
        let found = results(
            "a 0\ngroup.b 1\n b.sh: line 3\n c 0\n \nd 127\nbroken\n\ne x\n f",
            str::to_owned,
        );
        let of = |name: &str| found.get(&FunctionName::new(name).unwrap()).cloned();
        assert_eq!(of("a"), Some(CheckResult::Passed));
        assert_eq!(of("group/b"), Some(CheckResult::Wrong("b.sh: line 3\nc 0".to_owned())));
        assert_eq!(of("d"), Some(CheckResult::Unchecked("(exit-127): ".to_owned())));
        assert_eq!(found.len(), 3);
    }
}
