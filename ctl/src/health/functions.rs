//! Checks the functions directories for functions that are invalid and for files that are no functions. If the daemon
//! answers, its judgement counts; else they are judged here, by the same code.

use super::finding::Finding;
use fnd_core::api::NodeStatus;
use fnd_core::run::FunctionState;
use fnd_manifest::check::Checked;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::listing::UNCLAIMED_HELP;
use fnd_wire::units::counted;

const CHECK: &str = "functions";
const CONFIGURATION: &str = "configuration";

#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionFacts<'a> {
    /// The daemon's status, if it answers.
    pub(crate) node: Option<&'a NodeStatus>,
    /// Problems of the configuration and the runtimes, judged here.
    pub(crate) configuration: &'a [Diagnostic],
    /// The functions directories, judged here; nothing where the configuration is refused.
    pub(crate) checked: Option<&'a Checked>,
    /// Whether root runs this. For other users, a file that they cannot read is no error.
    pub(crate) root: bool,
}

pub(crate) fn judge(facts: &FunctionFacts<'_>) -> Vec<Finding> {
    let mut findings = match facts.node {
        Some(node) => reported(node),
        None => seen(facts),
    };
    let unclaimed = facts.checked.into_iter().flat_map(|checked| &checked.unclaimed);
    findings.extend(unclaimed.map(|file| {
        let what = "no rule makes it a function";
        Finding::warning(CHECK, what).at(file).fix(UNCLAIMED_HELP)
    }));
    findings
}

/// Judges the daemon's status of its functions and of the node.
fn reported(node: &NodeStatus) -> Vec<Finding> {
    // Problems of the configuration begin with their severity. All others are errors.
    let problem = |problem: &String| match problem.strip_prefix("warning: ") {
        Some(what) => Finding::warning(CONFIGURATION, what),
        None => Finding::error(CONFIGURATION, problem.strip_prefix("error: ").unwrap_or(problem)),
    };
    let mut findings: Vec<Finding> = node.problems.iter().map(problem).collect();
    for function in &node.functions {
        let name = &function.function;
        let warnings = function.warning.iter().flat_map(|text| text.lines());
        let warning = warnings.map(|warning| {
            // The mistakes of a file after its first one are among them.
            let found = match warning.starts_with("error: ") {
                true => Finding::error(CHECK, warning),
                false => Finding::warning(CHECK, warning),
            };
            let found = found.at(name.to_string());
            found.fix(format!("fndctl show {name} shows the line and what to do"))
        });
        findings.extend(warning);
        let fix = format!("fndctl show {name} shows the line; the file is checked again when it changes");
        let found = match (&function.error, function.state) {
            (Some(error), FunctionState::Invalid) => Finding::error(CHECK, error.clone()).fix(fix),
            (Some(error), _) => Finding::error(CHECK, format!("an older version serves: {error}")).fix(fix),
            (None, FunctionState::Invalid) => Finding::error(CHECK, "it is invalid").fix(fix),
            (None, FunctionState::CrashLooping) => Finding::error(CHECK, "its workers end before they are ready")
                .fix(format!("fndctl logs {name} says why")),
            (
                None,
                FunctionState::Building | FunctionState::Ready | FunctionState::Running | FunctionState::Disabled,
            ) => {
                continue;
            }
        };
        findings.push(found.at(name.to_string()));
    }
    if findings.is_empty() {
        findings.push(all_valid(node.functions.len()));
    }
    findings
}

fn all_valid(count: usize) -> Finding {
    let functions = counted(count, "function", "functions");
    Finding::ok(CHECK, format!("{functions}, all valid"))
}

/// Judges the functions that were checked here.
fn seen(facts: &FunctionFacts<'_>) -> Vec<Finding> {
    let problems = facts.configuration.iter();
    let mut findings: Vec<Finding> = problems.map(|problem| finding(problem, CONFIGURATION, facts)).collect();
    if let Some(checked) = facts.checked {
        let problems: Vec<Finding> = checked.all().map(|problem| finding(problem, CHECK, facts)).collect();
        if problems.is_empty() {
            findings.push(all_valid(checked.verdicts.len()));
        }
        findings.extend(problems);
    }
    findings
}

fn finding(problem: &Diagnostic, check: &'static str, facts: &FunctionFacts<'_>) -> Finding {
    if problem.code == "unreadable" && !facts.root {
        let found = Finding::unknown(check, &problem.message).at(problem.file.clone().unwrap_or_default());
        return found.fix("run doctor as root");
    }
    let found = match problem.is_error() {
        true => Finding::error(check, &problem.message),
        false => Finding::warning(check, &problem.message),
    };
    let place = problem.file.as_ref().map(|file| match &problem.place {
        Some(place) => format!("{file}:{}:{}", place.line, place.column),
        None => file.clone(),
    });
    let fix = problem.help.as_deref().unwrap_or("fndctl validate shows the line");
    Finding { place, ..found }.fix(fix)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{brief, node};
    use super::*;
    use fnd_manifest::warning::Warning;
    use serde_json::json;

    fn function(state: &str, error: Option<&str>) -> serde_json::Value {
        json!({
            "status": "pending", "message": "", "timestamp": "", "function": "hello", "state": state, "runs": 0,
            "failures": 0, "error": error,
        })
    }

    #[test]
    fn the_daemons_judgement_counts() {
        for (answer, expected) in [
            (
                json!({"functions": [function("ready", None)]}),
                vec!["ok 1 function, all valid"],
            ),
            (
                json!({"functions": [function("invalid", Some("bad"))]}),
                vec!["error bad"],
            ),
            (
                json!({"functions": [function("ready", Some("bad"))]}),
                vec!["error an older version serves: bad"],
            ),
            (
                json!({"functions": [{
                    "status": "pending", "message": "", "timestamp": "", "function": "hello", "state": "ready",
                    "runs": 0, "failures": 0, "error": null, "warning": "it looks like a handler",
                }]}),
                vec!["warning it looks like a handler"],
            ),
            (
                json!({"problems": ["warning: odd", "error: bad", "the history cannot be written"]}),
                vec!["warning odd", "error bad", "error the history cannot be written"],
            ),
        ] {
            let facts = FunctionFacts {
                node: Some(&node(&answer)),
                configuration: &[Diagnostic::error("x", "not asked for")],
                checked: None,
                root: true,
            };
            assert_eq!(brief(&judge(&facts)), expected);
        }
    }

    #[test]
    fn without_a_daemon_files_are_judged_here() {
        let checked = Checked {
            diagnostics: vec![
                Diagnostic::error("unreadable", "it cannot be read").in_file("/f/a.sh"),
                Diagnostic::warning(Warning::Pointless, "odd").in_file("/f/b.sh"),
            ],
            unclaimed: vec!["/f/README.md".into()],
            ..Checked::default()
        };
        for (root, first) in [(true, "error"), (false, "unknown")] {
            let facts = FunctionFacts {
                node: None,
                configuration: &[],
                checked: Some(&checked),
                root,
            };
            assert_eq!(
                brief(&judge(&facts)),
                [
                    &format!("{first} it cannot be read"),
                    "warning odd",
                    "warning no rule makes it a function"
                ]
            );
        }
        let facts = FunctionFacts {
            node: None,
            configuration: &[Diagnostic::error("x", "refused")],
            checked: None,
            root: true,
        };
        assert_eq!(brief(&judge(&facts)), ["error refused"]);
    }
}
