//! The keys of a step, and its script.

use super::chain::DagStep;
use super::keys::{LOG_VARIABLES, STEP, STEP_SCALARS, is_filled, names_variable};
use super::{PLACE, camel, entry, is_place, variables};
use crate::names::{lists, stem};
use crate::rows::{reported, unknown_key};
use crate::script::{ScriptCode, quoted};
use crate::text::within;
use crate::tree::NamedValue;
use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};

/// Takes the keys of a step over; `dag` and `directory` are the name and the directory of the whole DAG.
pub(super) fn keys(
    made: &mut MadeManifest,
    report: &mut ConversionReport,
    step: &DagStep<'_>,
    (dag, directory): (&str, Option<&str>),
) {
    let mut code = ScriptCode::new("/bin/bash");
    let mut directory = directory.map(str::to_owned);
    let mut output = Vec::new();
    let (mut command, mut script) = (None, None);
    if step.item.text().is_some() {
        command = Some((step.item, step.item.named(&step.name)));
    }
    for item in step.item.items() {
        let field = item.named(&format!("{}.{}", step.name, item.key));
        let key = camel(item.key);
        if lists(STEP_SCALARS, &key) && !item.is_scalar(report, &field) {
            continue;
        }
        let text = item.text().unwrap_or_default();
        if ["dir", "workingDir", "stdout", "stderr"].contains(&key.as_str()) && !is_place(&text) {
            report.refused(&field, PLACE);
            continue;
        }
        match key.as_str() {
            "description" => made.works(report, "description", text, &field),
            // For some versions of dagu it names another DAG.
            "run" | "call" if !item.is_list() && text.split_whitespace().count() < 2 => report.refused(
                &field,
                "it starts another DAG: import that one, too, and name its first function in `[hooks]`; a command is `command`",
            ),
            // Only newer versions have `run`, and there a list is commands.
            "command" if item.is_list() && item.items().len() > 1 => match item.texts(report, &field) {
                Some(_) => report.refused(
                    &field,
                    "for dagu 2 these are commands, one after the other (`run`), and before they were words of one: write one text",
                ),
                None => return,
            },
            "run" if text.contains('\n') => script = Some((text, field)),
            "command" | "run" => command = command.or(Some((item, field))),
            "script" => script = Some((text, field)),
            // bash runs scripts for `sh` as well.
            "shell" if ["sh", "bash"].contains(&stem(&text)) => report.works(&field, "entry"),
            "dir" | "workingDir" => {
                report.works(&field, "entry");
                directory = Some(text);
            }
            "env" => {
                for (name, value, field) in variables(&item, &format!("{}.env", step.name), report) {
                    made.manifest.set_in("env", &name, value, Some(&field));
                }
            }
            "stdout" | "stderr" => {
                let number = if key == "stdout" { "1" } else { "2" };
                report.differs(&field, "entry", "the file has the output, and `fndctl logs` does not");
                code.places.add(&text, true);
                output.push(format!("exec {number}>>{}", quoted(&text)));
            }
            "continueOn" => continues(&item, &field, report),
            "retryPolicy" => retries(made, report, &item, &field),
            "timeoutSec" => match within(&text, 1..=u64::MAX) {
                Some(seconds) => made.works(report, "limits.timeout", format!("{seconds}s"), &field),
                None => report.refused(&field, "expected a number of seconds"),
            },
            key if reported(STEP, key, report, &field) => {}
            key => report.unknown(&field, &unknown_key("dagu has no such key of a step", key, STEP, "")),
        }
    }
    if let Some(directory) = directory {
        code.begin_in(&directory);
    }
    output.into_iter().for_each(|line| code.line(line));
    // dagu starts `sh -e`, unless the step names its shell.
    let strict = entry(&step.item, "shell").is_none();
    let text = match &command {
        Some((item, field)) if item.is_list() => match item.texts(report, field) {
            // Each command has a shell of its own, and the first that fails is the last. Before `||` the shell would ignore `-e`.
            Some(commands) => {
                let end = if strict { "" } else { " || exit" };
                let each = commands.iter().map(|command| format!("(\n{command}\n){end}"));
                each.collect::<Vec<_>>().join("\n")
            }
            None => return,
        },
        Some((item, field)) if !item.is_scalar(report, field) => return,
        Some((item, _)) => item.text().unwrap_or_default(),
        None => String::new(),
    };
    let of_command = command.iter().map(|(_, field)| (&text, field));
    for (text, field) in of_command.chain(script.iter().map(|(script, field)| (script, field))) {
        if is_filled(text) {
            let why = "dagu fills in a value there, such as an output of another step: write the value";
            report.refused(field, why);
        }
        if let Some(name) = LOG_VARIABLES.split(' ').find(|name| names_variable(text, name)) {
            let why = format!("there is no `{name}`: fnd keeps the output itself, and `fndctl logs` prints it");
            report.refused(field, &why);
        }
    }
    let texts = || [Some(text.as_str()), script.as_ref().map(|(script, _)| script.as_str())];
    let is_named = |name: &str| texts().into_iter().flatten().any(|text| names_variable(text, name));
    for (name, value) in [("DAG_NAME", dag), ("DAG_RUN_STEP_NAME", step.name.as_str())] {
        if is_named(name) {
            made.manifest.set_in("env", name, value, None);
        }
    }
    // For dagu all steps are one run; here each one is a run of its own.
    for name in ["DAG_RUN_ID", "DAG_REQUEST_ID"]
        .into_iter()
        .filter(|name| is_named(name))
    {
        code.line(format!("export {name}=$FND_INVOCATION"));
    }
    code.places.of_command(&text);
    // A program stays where it is, and is shown even in a place that commands write to, such as `/tmp`.
    if let Some(program) = text.split_whitespace().next().filter(|word| word.starts_with('/')) {
        code.places.add(program, false);
    }
    // If the command is only a shell, the lines of the script can stand in this one.
    let shell = text.is_empty() || ["sh", "bash"].contains(&text.trim().rsplit('/').next().unwrap_or_default());
    let line = match &script {
        None if text.trim().is_empty() => {
            return report.refused(&step.item.named(&step.name), "the step has no command");
        }
        None => text.trim_end().to_owned(),
        Some((script, _)) => {
            code.places.of_command(script);
            let mut program = || code.beside("step", script.clone().into_bytes());
            match (shell, script.starts_with("#!")) {
                (true, false) => script.trim_end().to_owned(),
                // Its first line names its interpreter.
                (true, true) => format!("exec {}", program()),
                (false, _) => format!("exec {} {}", text.trim(), program()),
            }
        }
    };
    let is_own = script.is_none() || text.is_empty();
    if strict && is_own && line.contains(['\n', ';', '&']) {
        code.line("set -e");
    }
    code.line(line);
    let notes = code.put(made);
    let note = format!("it runs with bash in the sandbox, as a user of its own, with the default limits{notes}");
    let of_command = command.map(|(_, field)| field);
    let fields = script.map(|(_, field)| field).into_iter().chain(of_command);
    for (field, first) in fields.zip([true, false]) {
        if first {
            report.differs(&field, "entry", &note);
        } else {
            report.works(&field, "entry");
        }
    }
}

/// `continueOn`: a word, or a map of conditions.
fn continues(on: &NamedValue<'_>, field: &Field, report: &mut ConversionReport) {
    let known = match on.text() {
        Some(word) => word == "failure" || word == "failed",
        None => !on.items().is_empty() && on.items().iter().all(|on| on.key == "failure" && on.truth().is_some()),
    };
    if known {
        report.works(field, "hooks.on_completion");
    } else {
        let why = "fnd knows `failure` only: let the script end with 0 where the next step shall run";
        report.refused(field, why);
    }
}

/// `retryPolicy`.
fn retries(made: &mut MadeManifest, report: &mut ConversionReport, policy: &NamedValue<'_>, field: &Field) {
    let number = |key: &str| entry(policy, key).and_then(|item| item.text()?.parse::<i64>().ok());
    let (Some(limit @ 0..=10_000), Some(interval @ 0..=86_400)) =
        (number("limit"), number("intervalSec").or(policy.is_map().then_some(1)))
    else {
        return report.refused(field, "expected `limit` and `intervalSec`");
    };
    made.works(report, "retry.retries", limit, field);
    let interval = interval.max(1);
    made.manifest.set("retry.interval", format!("{interval}s"), Some(field));
    // dagu waits exactly this pause.
    made.manifest.set("retry.jitter", "none", None);
    let factor = entry(policy, "backoff").map(|item| match item.truth() {
        Some(true) => Some(2.0),
        Some(false) => Some(1.0),
        None => {
            let factor = item.text().and_then(|text| text.parse::<f64>().ok());
            factor.filter(|factor| (1.0..=10.0).contains(factor))
        }
    });
    match factor {
        None | Some(Some(1.0)) => made.manifest.set("retry.backoff", "fixed", None),
        Some(Some(factor)) => made.manifest.set("retry.factor", factor, Some(field)),
        Some(None) => report.refused(field, "expected a `backoff` from 1 to 10"),
    }
    let most = number("maxIntervalSec").filter(|most| (1..=86_400).contains(most));
    // fnd's own longest pause is 300 s.
    if let Some(most) = most.or(Some(interval).filter(|interval| *interval > 300)) {
        made.manifest
            .set("retry.max_interval", format!("{}s", most.max(interval)), Some(field));
    }
    for item in policy.items() {
        match camel(item.key).as_str() {
            "limit" | "intervalSec" | "backoff" | "maxIntervalSec" => {}
            "exitCode" => report.refused(
                &item.field(),
                "fnd retries after each exit code but those of `retry.not_on_exit`: write these, and remove `exitCode`",
            ),
            _ => report.unknown(&item.field(), "dagu has no such key"),
        }
    }
}
