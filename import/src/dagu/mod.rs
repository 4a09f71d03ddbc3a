//! `fndctl import dagu`: a function for each step of a DAG whose steps are one chain. The first one has the schedule, and each
//! one calls the next.
//!
//! Files:
//! - `chain`: the order of the steps
//! - `keys`: the names of the keys
//! - `step`: the keys of a step, and its script

mod chain;
mod keys;
mod step;

use super::Imported;
use super::names::{ImportedNames, is_settable, stem};
use super::rows::{absent, reported, unknown_key};
use super::tree::{self, NamedValue};
use crate::failure::ImportFailure;
use fnd_manifest::foreign::yaml::Document;
use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use std::path::Path;
use toml::Value;

/// # Errors
/// It cannot be read.
pub fn import(file: &Path) -> Result<Imported, ImportFailure> {
    let shown = file.display().to_string();
    Ok(dag(&tree::read(file)?, &shown))
}

/// The keys of a DAG that hold for all its functions.
#[derive(Debug, Default)]
struct WholeDag {
    /// Times: the line of cron, its zone and origin.
    schedules: Vec<(String, Option<String>, Field)>,
    env: Vec<(String, String, Field)>,
    timeout: Option<(String, Field)>,
    description: Option<(String, Field)>,
    directory: Option<String>,
    is_chain: bool,
}

/// Makes functions of a DAG.
pub(super) fn dag(documents: &[Document], file: &str) -> Imported {
    let mut imported = Imported::new(format!(
        "Made of {file} by `fndctl import dagu`. Each step is a function, which calls the next one."
    ));
    match functions(documents, file, &mut imported.report) {
        // A chain with a gap would stop there.
        Ok(functions) if !imported.report.is_refused() => imported.functions = functions,
        Ok(_) => {}
        Err((field, why)) => imported.report.refused(&field, &why),
    }
    imported
}

/// Makes the functions of the steps; an error is what is wrong with the whole DAG, and where.
fn functions(
    documents: &[Document],
    file: &str,
    report: &mut ConversionReport,
) -> Result<Vec<MadeManifest>, (Field, String)> {
    let whole = tree::whole(file, "steps");
    let [document] = documents else {
        return Err((whole, "expected one DAG in the file".to_owned()));
    };
    let root = NamedValue::root(document);
    if !root.is_map() {
        return Err((root.named("steps"), "expected a map with `steps`".to_owned()));
    }
    // Keys for all steps may stand behind the steps, so they are read first.
    let mut common = WholeDag::default();
    for item in root.items() {
        common.item(&item, report);
    }
    let steps = root.get("steps");
    if let Some(steps) = steps.filter(|steps| chain::is_plain(steps) && !common.is_chain) {
        let note = "no step has `depends`: they run in the order of the file, one after the other; dagu runs them so by its type \
                    `chain`, and at once by `graph`, and its versions differ in what they take without `type`";
        report.differs(&steps.field(), "hooks.on_success", note);
        common.is_chain = true;
    }
    absent(keys::ABSENT, report, |key| {
        entry(&root, key).is_none().then(|| root.named(key))
    });
    let steps = steps.map(|steps| chain::ordered(&steps, common.is_chain)).transpose()?;
    let steps = steps.filter(|steps| !steps.is_empty());
    let steps = steps.ok_or((whole, "the DAG has no steps".to_owned()))?;
    // dagu names a DAG after its file, unless the file has a name.
    let name = root.text_of("name").unwrap_or_else(|| stem(file).to_owned());
    let mut names = ImportedNames::default();
    let title = |step: &chain::DagStep<'_>| match steps.len() {
        1 => name.clone(),
        _ => format!("{name}-{}", step.name),
    };
    let titles: Vec<String> = steps.iter().map(|step| names.unique(&title(step))).collect();
    let mut functions = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let mut made = MadeManifest::new(titles.get(number).map_or("", String::as_str));
        common.put(&mut made, number == 0);
        step::keys(&mut made, report, step, (name.as_str(), common.directory.as_deref()));
        if let Some(next) = titles.get(number + 1) {
            let lenient = entry(&step.item, "continueOn").is_some_and(|on| match on.text() {
                Some(word) => word == "failure" || word == "failed",
                None => on.get("failure").and_then(|on| on.truth()).unwrap_or_default(),
            });
            let end = if lenient { "completion" } else { "success" };
            let hook = format!("hooks.on_{end}");
            made.manifest.set(&hook, vec![next.as_str()], None);
        }
        functions.push(made);
    }
    Ok(functions)
}

impl WholeDag {
    fn item(&mut self, item: &NamedValue<'_>, report: &mut ConversionReport) {
        let field = item.field();
        let scalar = ["name", "description", "timeoutSec", "workingDir", "type", "shell"];
        let key = camel(item.key);
        if scalar.contains(&key.as_str()) && !item.is_scalar(report, &field) {
            return;
        }
        match key.as_str() {
            "shell" if ["sh", "bash"].contains(&stem(&item.text().unwrap_or_default())) => {
                report.works(&field, "entry");
            }
            "description" => {
                report.works(&field, "description");
                self.description = item.text().map(|text| (text, field));
            }
            "type" if item.text().as_deref() == Some("chain") => {
                report.works(&field, "hooks.on_success");
                self.is_chain = true;
            }
            "type" if item.text().as_deref() == Some("graph") => report.works(&field, ""),
            "workingDir" if !item.text().is_some_and(|text| is_place(&text)) => report.refused(&field, PLACE),
            "workingDir" => {
                report.works(&field, "entry");
                self.directory = item.text();
            }
            "schedule" => {
                let lines: Vec<NamedValue<'_>> = if item.is_list() { item.items() } else { vec![*item] };
                for line in lines {
                    self.schedule(&line, report);
                }
            }
            "env" => self.env.extend(variables(item, "env", report)),
            "timeoutSec" => match item.text().and_then(|text| text.parse::<u64>().ok()) {
                Some(0) => report.works(&field, ""),
                Some(seconds) => {
                    report.differs(&field, "limits.timeout", "the time counts for each step");
                    self.timeout = Some((format!("{seconds}s"), field));
                }
                None => report.refused(&field, "expected a number of seconds"),
            },
            key if reported(keys::DAG, key, report, &field) => {}
            key => report.unknown(&field, &unknown_key("dagu has no such key", key, keys::DAG, "")),
        }
    }

    fn schedule(&mut self, line: &NamedValue<'_>, report: &mut ConversionReport) {
        let field = line.named("schedule");
        let text = line.text().unwrap_or_default();
        let (zone, cron) = match text
            .strip_prefix("CRON_TZ=")
            .or_else(|| text.strip_prefix("TZ="))
            .and_then(|rest| rest.split_once(' '))
        {
            Some((zone, cron)) => (Some(zone), cron),
            None => (None, text.as_str()),
        };
        match fnd_manifest::cron::Cron::parse(cron.trim(), 0) {
            _ if zone.is_some_and(|zone| fnd_manifest::cron::zone(zone).is_none()) => {
                report.refused(&field, "no time zone has this name");
            }
            Ok(_) => {
                report.works(&field, "schedule.cron");
                let (cron, zone) = (cron.trim().to_owned(), zone.map(str::to_owned));
                self.schedules.push((cron, zone, field));
            }
            Err(_) if line.is_map() => report.refused(&field, "fnd has one kind of schedule: it starts a run"),
            Err(why) => report.refused(&field, &why),
        }
    }

    fn put(&self, made: &mut MadeManifest, first: bool) {
        if let Some((text, field)) = self.description.as_ref().filter(|_| first) {
            made.manifest.set("description", text.clone(), Some(field));
        }
        // The steps behind the first one are called by the step before them.
        for (line, zone, field) in self.schedules.iter().filter(|_| first) {
            let mut items = vec![("cron", Value::from(line.as_str()), Some(field.clone()))];
            items.extend(zone.iter().map(|zone| ("timezone", Value::from(zone.as_str()), None)));
            made.manifest.push("schedule", items);
        }
        // Otherwise a step without a trigger would run when it is saved.
        if self.schedules.is_empty() || !first {
            made.manifest.set("on_load", false, None);
        }
        for (name, value, field) in &self.env {
            made.manifest.set_in("env", name, value.clone(), Some(field));
        }
        // dagu ends no step unless the file says so.
        let (timeout, field) = self
            .timeout
            .as_ref()
            .map_or(("none", None), |(timeout, field)| (timeout, Some(field)));
        made.manifest.set("limits.timeout", timeout, field);
    }
}

/// The rule for places of steps.
const PLACE: &str = "write an absolute path without variables: dagu begins a relative one where it runs itself";

/// Says whether a text is a place that the script can name as it is.
fn is_place(text: &str) -> bool {
    text.starts_with('/') && !text.contains(['$', '`'])
}

/// Returns a key as earlier versions of dagu wrote it: `retry_policy` is `retryPolicy`.
fn camel(key: &str) -> String {
    let mut name = String::new();
    let mut parts = key.split('_');
    name.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (first, rest) = part.split_at(part.chars().next().map_or(0, char::len_utf8));
        name.push_str(&first.to_uppercase());
        name.push_str(rest);
    }
    name
}

/// Returns the entry of a map, by the name of either version.
fn entry<'a>(item: &NamedValue<'a>, key: &str) -> Option<NamedValue<'a>> {
    item.items().into_iter().find(|found| camel(found.key) == key)
}

/// Reads variables: a map, a list of maps, or a list of `NAME=VALUE`.
fn variables(env: &NamedValue<'_>, prefix: &str, report: &mut ConversionReport) -> Vec<(String, String, Field)> {
    let mut found = Vec::new();
    let mut add = |item: &NamedValue<'_>, name: &str, value: Option<String>| {
        let field = item.named(&format!("{prefix}.{name}"));
        match value {
            // dagu fills in variables there, and runs a command between backquotes.
            Some(value) if value.contains(['$', '`']) => report.refused(
                &field,
                "fnd expands nothing in `[env]`: write the value, or set it in the script",
            ),
            Some(value) if is_settable(name) => {
                report.works(&field, &format!("env.{name}"));
                found.push((name.to_owned(), value, field));
            }
            _ => report.refused(&field, "it is no name or no value of a variable"),
        }
    };
    let maps = if env.is_list() { env.items() } else { vec![*env] };
    for map in &maps {
        match map.text() {
            Some(pair) => match pair.split_once('=') {
                Some((name, value)) => add(map, name, Some(value.to_owned())),
                None => add(map, &pair, None),
            },
            None => map.items().iter().for_each(|item| add(item, item.key, item.text())),
        }
    }
    found
}

#[cfg(test)]
mod tests;
