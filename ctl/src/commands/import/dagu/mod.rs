//! `fndctl import dagu`: a function for each step of a DAG whose steps are one chain. The first one has the schedule, and each
//! one calls the next.
//!
//! Files:
//! - `chain`: the order of the steps

mod chain;

use super::Imported;
use super::names::{Names, stem};
use super::script::Code;
use super::tree::{self, Item};
use crate::exit::Failure;
use crate::habits::quoted;
use fnd_manifest::foreign::yaml::Document;
use fnd_manifest::foreign::{Field, Made, Report};
use std::path::PathBuf;
use toml::Value;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  fndctl import dagu nightly.yaml --dry-run")]
pub(crate) struct Args {
    /// The file of a DAG.
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
}

/// Reads a DAG.
///
/// # Errors
/// It cannot be read.
pub(crate) fn import(args: &Args) -> Result<Imported, Failure> {
    let file = args.file.display().to_string();
    Ok(dag(&tree::read(&args.file)?, &file))
}

/// The keys of a DAG that hold for all its functions.
#[derive(Debug, Default)]
struct Whole {
    schedules: Vec<(String, Field)>,
    env: Vec<(String, String, Field)>,
    timeout: Option<(String, Field)>,
    description: Option<(String, Field)>,
    is_chain: bool,
}

/// Makes functions of a DAG.
fn dag(documents: &[Document], file: &str) -> Imported {
    let mut imported = Imported {
        head: format!("Made of {file} by `fndctl import dagu`. Each step is a function, which calls the next one."),
        ..Imported::default()
    };
    let report = &mut imported.report;
    let whole = Field {
        file: file.to_owned(),
        name: "steps".to_owned(),
        line: 1,
        column: 1,
        excerpt: String::new(),
    };
    let [document] = documents else {
        report.refused(&whole, "expected one DAG in the file");
        return imported;
    };
    let root = Item::root(document);
    let mut common = Whole::default();
    for item in root.items() {
        common.item(&item, report);
    }
    let steps = root.get("steps").map(|steps| chain::ordered(&steps, common.is_chain));
    let steps = match steps {
        Some(Ok(steps)) if !steps.is_empty() => steps,
        Some(Err((field, why))) => {
            report.refused(&field, &why);
            return imported;
        }
        _ => {
            report.refused(&whole, "the DAG has no steps");
            return imported;
        }
    };
    let name = root.text_of("name").unwrap_or_else(|| stem(file).to_owned());
    let mut names = Names::default();
    let title = |step: &chain::Step<'_>| {
        if steps.len() == 1 {
            name.clone()
        } else {
            format!("{name}-{}", step.name)
        }
    };
    let titles: Vec<String> = steps.iter().map(|step| names.unique(&title(step))).collect();
    let mut functions = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let mut made = Made::new(titles.get(number).map_or("", String::as_str));
        common.put(&mut made, number == 0);
        step_keys(&mut made, report, step);
        if let Some(next) = titles.get(number + 1) {
            let lenient = step
                .item
                .get("continueOn")
                .and_then(|on| on.get("failure")?.truth())
                .unwrap_or_default();
            let hook = if lenient {
                "hooks.on_completion"
            } else {
                "hooks.on_success"
            };
            made.manifest
                .set(hook, Value::Array(vec![Value::from(next.as_str())]), None);
        }
        functions.push(made);
    }
    // A chain with a gap would stop there.
    if !report.is_refused() {
        imported.functions = functions;
    }
    imported
}

impl Whole {
    fn item(&mut self, item: &Item<'_>, report: &mut Report) {
        let field = item.field();
        match item.key {
            "name" | "steps" | "tags" | "group" | "logDir" | "histRetentionDays" => report.works(&field, ""),
            "description" => {
                report.works(&field, "description");
                self.description = item.text().map(|text| (text, field));
            }
            "type" if item.text().as_deref() == Some("chain") => {
                report.works(&field, "hooks.on_success");
                self.is_chain = true;
            }
            "type" => report.works(&field, ""),
            "schedule" => {
                let lines: Vec<Item<'_>> = if item.is_list() { item.items() } else { vec![*item] };
                for line in lines {
                    self.schedule(&line, report);
                }
            }
            "env" => {
                // A map, or a list of maps.
                let maps = if item.is_list() { item.items() } else { vec![*item] };
                for variable in maps.iter().flat_map(Item::items) {
                    self.variable(&variable, report);
                }
            }
            "timeoutSec" => match item.text().and_then(|text| text.parse::<u64>().ok()) {
                Some(0) => report.works(&field, ""),
                Some(seconds) => {
                    report.differs(&field, "limits.timeout", "the time counts for each step");
                    self.timeout = Some((format!("{seconds}s"), field));
                }
                None => report.refused(&field, "expected a number of seconds"),
            },
            "maxActiveRuns" | "maxActiveSteps" | "delaySec" | "skipIfSuccessful" => report.not_here(
                &field,
                "a scheduled run that would overlap is skipped; `[queue]` and `[pool]` say more",
            ),
            "mailOn" | "smtp" | "errorMail" | "infoMail" => {
                report.not_here(&field, "`[alert]` with the example `mail.py` (docs/alerts.md)");
            }
            "handlerOn" => report.refused(
                &field,
                "make a function of each handler, and name it in `[hooks]` of the last step's function",
            ),
            "params" => report.refused(
                &field,
                "fnd has no parameters of a DAG: write the values in `env`, or send them as the payload",
            ),
            "preconditions" | "precondition" => {
                report.refused(&field, "test it in the first step: exit with 65 to end the chain");
            }
            "dotenv" | "secrets" => report.refused(
                &field,
                "name variables in `env`, and secrets in `secrets` of the functions",
            ),
            _ => report.not_here(&field, "fnd has nothing like it, or dagu has no such key"),
        }
    }

    fn schedule(&mut self, line: &Item<'_>, report: &mut Report) {
        let field = line.named("schedule");
        let text = line.text().unwrap_or_default();
        let (zone, cron) = match text.strip_prefix("CRON_TZ=").and_then(|rest| rest.split_once(' ')) {
            Some((zone, cron)) => (Some(zone), cron),
            None => (None, text.as_str()),
        };
        match fnd_manifest::cron::Cron::parse(cron, 0) {
            _ if zone.is_some() => report.refused(&field, "write the zone as `timezone` of `[[schedule]]` yourself"),
            Ok(_) => {
                report.works(&field, "schedule.cron");
                self.schedules.push((text, field));
            }
            Err(_) if line.is_map() => report.refused(&field, "fnd has one kind of schedule: it starts a run"),
            Err(why) => report.refused(&field, &why),
        }
    }

    fn variable(&mut self, variable: &Item<'_>, report: &mut Report) {
        let field = variable.named(&format!("env.{}", variable.key));
        let name = variable.key;
        let valid = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with("FND_");
        match variable.text() {
            Some(value) if value.contains(['$', '`']) => report.refused(
                &field,
                "fnd expands nothing in `[env]`: write the value, or set it in the script",
            ),
            Some(value) if valid && !name.starts_with(|c: char| c.is_ascii_digit()) => {
                report.works(&field, &field.name);
                self.env.push((name.to_owned(), value, field));
            }
            _ => report.refused(&field, "it is no name or no value of a variable"),
        }
    }

    fn put(&self, made: &mut Made, first: bool) {
        if let Some((text, field)) = self.description.as_ref().filter(|_| first) {
            made.manifest.set("description", text.clone(), Some(field));
        }
        for (line, field) in self.schedules.iter().filter(|_| first) {
            made.manifest
                .push("schedule", [("cron", Value::from(line.as_str()), Some(field.clone()))]);
        }
        // Otherwise a step without a trigger would run when it is saved.
        if self.schedules.is_empty() || !first {
            made.manifest.set("on_load", false, None);
        }
        for (name, value, field) in &self.env {
            made.manifest.set_in("env", name, value.clone(), Some(field));
        }
        let (timeout, field) = self
            .timeout
            .as_ref()
            .map_or(("none", None), |(timeout, field)| (timeout, Some(field)));
        made.manifest.set("limits.timeout", timeout, field);
    }
}

fn step_keys(made: &mut Made, report: &mut Report, step: &chain::Step<'_>) {
    let mut code = Code::new("/bin/bash");
    let mut command = None;
    for item in step.item.items() {
        let field = item.named(&format!("{}.{}", step.name, item.key));
        match item.key {
            "name" | "depends" | "stdout" | "stderr" | "id" => report.works(&field, ""),
            "description" => {
                let text = item.text().unwrap_or_default();
                made.works(report, "description", text, &field);
            }
            "command" | "script" | "run" => {
                command = command.or(Some((item, field)));
            }
            "dir" | "workingDir" => {
                report.works(&field, "entry");
                let directory = item.text().unwrap_or_default();
                code.places.add(&directory, false);
                code.line(format!("cd {} || exit", quoted(&directory)));
            }
            "continueOn" if item.items().iter().all(|on| on.key == "failure") => {
                report.works(&field, "hooks.on_completion");
            }
            "retryPolicy" | "retry_policy" => {
                let number = |key: &str| item.text_of(key).and_then(|text| text.parse::<i64>().ok());
                match (number("limit"), number("intervalSec")) {
                    (Some(limit @ 0..=10_000), interval) => {
                        made.works(report, "retry.retries", limit, &field);
                        made.manifest.set(
                            "retry.interval",
                            format!("{}s", interval.unwrap_or(1).clamp(1, 300)),
                            Some(&field),
                        );
                        made.manifest.set("retry.backoff", "fixed", None);
                        made.manifest.set("retry.jitter", "none", None);
                    }
                    _ => report.refused(&field, "expected `limit` and `intervalSec`"),
                }
            }
            "mailOnError" | "signalOnStop" => report.not_here(&field, "`[alert]` tells of failures; fnd sends SIGTERM"),
            "timeoutSec" => {
                let seconds = item
                    .text()
                    .and_then(|text| text.parse::<u64>().ok())
                    .filter(|seconds| *seconds > 0);
                match seconds {
                    Some(seconds) => made.works(report, "limits.timeout", format!("{seconds}s"), &field),
                    None => report.refused(&field, "expected a number of seconds"),
                }
            }
            _ => report.refused(&field, "fnd has no such thing for a step: do it in the script"),
        }
    }
    let Some((item, field)) = command else {
        return report.refused(&step.item.named(&step.name), "the step has no command");
    };
    let text = match item.text() {
        Some(text) => text,
        None => item
            .items()
            .iter()
            .filter_map(Item::text)
            .map(|word| quoted(&word))
            .collect::<Vec<_>>()
            .join(" "),
    };
    code.places.of_command(&text);
    code.line(text.trim_end());
    let notes = code.put(made);
    report.differs(
        &field,
        "entry",
        &format!("it runs with bash in the sandbox, as a user of its own, with the default limits{notes}"),
    );
}

#[cfg(test)]
mod tests;
