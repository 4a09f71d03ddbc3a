//! `fndctl import webhook`: a function with a route for each hook of <https://github.com/adnanh/webhook>.
//!
//! Files:
//! - `answer`: what the caller gets
//! - `keys`: the names of a hook's keys
//! - `rules`: trigger rules
//! - `values`: values of a request

mod answer;
mod keys;
mod rules;
mod values;

use super::Imported;
use super::names::{ImportedNames, is_settable, lists};
use super::rows::{absent, reported};
use super::script::{self, ReadScript, ScriptCode};
use super::tree::{self, NamedValue};
use crate::failure::ImportFailure;
use crate::script::quoted;
use fnd_manifest::foreign::yaml::Document;
use fnd_manifest::foreign::{ConversionReport, Field, FieldVerdict, MadeManifest};
use rules::WebhookRules;
use std::collections::BTreeSet;
use std::path::Path;
use toml::Value;
use values::{HookFunction, HookValue, Needs, value};

/// Reads a file of hooks.
///
/// # Errors
/// It cannot be read.
pub fn import(file: &Path, link: bool) -> Result<Imported, ImportFailure> {
    let documents = tree::read(file).map_err(|failure| {
        // In a text of JSON the quotes of a template end the text.
        if crate::text::read(file).is_ok_and(|bytes| bytes.windows(2).any(|two| two == b"{{")) {
            return failure.help(TEMPLATE);
        }
        failure
    })?;
    Ok(hooks(&documents, &file.display().to_string(), script::reader(link)))
}

/// The advice about a file for `webhook -template`.
const TEMPLATE: &str = "it is a template of Go (`webhook -template`): write the values, and import that file";

/// Makes functions of the hooks.
pub(super) fn hooks(documents: &[Document], file: &str, read: ReadScript) -> Imported {
    let mut imported = Imported::new(format!(
        "Made of {file} by `fndctl import webhook`. webhook has no timeout, so `timeout` is \"none\"."
    ));
    let mut names = ImportedNames::default();
    let mut any = false;
    for root in documents.iter().map(NamedValue::root) {
        if !root.is_list() {
            let report = &mut imported.report;
            report.refused(&root.named("hooks"), "expected a list of hooks");
            continue;
        }
        let mut ids = BTreeSet::new();
        for hook in root.items() {
            any = true;
            let id = hook.text_of("id").unwrap_or_default();
            if hook.get("id").is_some() && !ids.insert(id.clone()) {
                let why = "another hook has this id: webhook refuses the whole file";
                imported.report.refused(&hook.named("id"), why);
                continue;
            }
            let mut maker = WebhookImport {
                made: MadeManifest::new(&names.unique(&id)),
                ..WebhookImport::default()
            };
            maker.hook(&hook, read);
            imported.add(maker.made, maker.report);
        }
    }
    if !any && !imported.report.is_refused() {
        let field = tree::whole(file, "hooks");
        imported.report.refused(&field, "there is no hook");
    }
    imported
}

/// Returns a value with an action of a template; one of the source `template` is a value of the request.
fn templated<'a>(item: &NamedValue<'a>) -> Option<NamedValue<'a>> {
    if item.text_of("source").as_deref() == Some("template") {
        return None;
    }
    if item.text().is_some_and(|text| text.contains("{{")) {
        return Some(*item);
    }
    item.items().iter().find_map(templated)
}

/// Variables that bash lets nobody set. Names that begin with `FND_` are fnd's own, those with `_` are of the script.
const READ_ONLY: [&str; 6] = ["BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"];

/// Why a path is refused.
const ABSOLUTE: &str = "write an absolute path: webhook begins a relative one where it was started";

/// A function on its way.
#[derive(Default)]
struct WebhookImport {
    made: MadeManifest,
    report: ConversionReport,
    needs: Needs,
    route: Vec<(&'static str, Value, Option<Field>)>,
    /// Lines that read values, before any variable of the hook is set.
    reads: Vec<String>,
    /// Lines that set variables.
    exports: Vec<String>,
    arguments: Vec<String>,
    /// Headers of the answer.
    headers: Vec<(String, String)>,
    rules: WebhookRules,
}

impl WebhookImport {
    fn hook(&mut self, hook: &NamedValue<'_>, read: ReadScript) {
        if !hook.is_map() {
            return self
                .report
                .refused(&hook.named("hook"), "expected a hook with `id` and `execute-command`");
        }
        for key in ["id", "execute-command"] {
            if hook.get(key).is_none() {
                self.report.refused(&hook.named(key), "the hook has none");
            }
        }
        if let Some(item) = templated(hook) {
            return self.report.refused(&item.named("{{"), TEMPLATE);
        }
        for item in hook.items() {
            self.item(&item);
        }
        self.absent(hook);
        let output = hook.get("include-command-output-in-response");
        let output = output.is_some_and(|item| item.truth_or(false, &mut self.report));
        self.answer(hook, output);
        self.credentials();
        self.route();
        self.script(hook, read);
        // webhook waits for its command without a limit.
        self.made.manifest.set("limits.timeout", "none", None);
    }

    /// Reports keys that the hook does not have, where webhook does something else without them than fnd.
    fn absent(&mut self, hook: &NamedValue<'_>) {
        absent(keys::ABSENT, &mut self.report, |key| {
            hook.get(key).is_none().then(|| hook.named(key))
        });
        if hook.get("trigger-rule").is_none() {
            let note = "anybody who reaches the route may run it, as before: `http.auth` asks for a credential";
            self.report.add(
                &hook.named("trigger-rule"),
                FieldVerdict::Works,
                Some("http.auth"),
                Some(note),
            );
        }
    }

    fn item(&mut self, item: &NamedValue<'_>) {
        let field = item.field();
        let report = &mut self.report;
        if lists(keys::SCALARS, item.key) && !item.is_scalar(report, &field) {
            return;
        }
        if lists(keys::LISTS, item.key) && !item.is_list() {
            return report.refused(&field, "expected a list");
        }
        match item.key {
            "id" => {
                // `hooks` is webhook's default of `-urlprefix`.
                let path = format!("/hooks/{}", item.text().unwrap_or_default());
                // For webhook a brace is a character of the id; in a route it would begin a parameter.
                if fnd_manifest::function::route::is_pattern(&path) && !path.contains('{') {
                    report.works(&field, "http.path");
                    self.route.push(("path", Value::from(path), Some(field)));
                } else {
                    report.refused(&field, "the id is no path of a route");
                }
            }
            "http-methods" => {
                let Some(methods) = item.texts(report, &field) else {
                    return;
                };
                let methods = methods.iter().map(|text| Value::from(text.trim().to_ascii_uppercase()));
                let methods: Vec<Value> = methods.collect();
                report.works(&field, "http.methods");
                self.route.push(("methods", Value::Array(methods), Some(field)));
            }
            "pass-arguments-to-command" => {
                for parameter in item.items() {
                    self.argument(&parameter);
                }
                self.report.works(&field, "entry");
            }
            "pass-environment-to-command" | "pass-file-to-command" => self.variables(item),
            "trigger-rule" => {
                self.rule(item);
                if !self.rules.when.is_empty() {
                    let note = "a request for which it does not hold is answered with 204, and not with a sentence";
                    self.report.differs(&field, "http.when", note);
                }
            }
            "incoming-payload-content-type" if item.text().is_some_and(|kind| kind.contains("xml")) => {
                report.refused(&field, "fnd reads no XML: let the sender send JSON, or read the body in the script");
            }
            // Conditions of the route read a form as a form by its own content type, every other body as JSON.
            "incoming-payload-content-type" => report.differs(&field, "entry", "the values of the script are read by this type; `http.when` reads a form by the type that it has, every other body as JSON"),
            "parse-parameters-as-json" if item.items().is_empty() => report.works(&field, ""),
            // `answer` and `script` read the keys of this arm.
            "execute-command"
            | "command-working-directory"
            | "response-message"
            | "response-headers"
            | "success-http-response-code"
            | "include-command-output-in-response"
            | "include-command-output-in-response-on-error" => {}
            key if reported(keys::ROWS, key, report, &field) => {}
            // Without its rule, the hook would run for everybody.
            key if keys::may_be_rule(key) => {
                let why = format!("{}; a hook whose rule is misspelt would run for everybody", keys::unknown(key));
                report.refused(&field, &why);
            }
            key => report.unknown(&field, &keys::unknown(key)),
        }
    }

    /// Returns the name of a new variable of the script.
    fn temporary(&self) -> String {
        format!("_{}", self.reads.len() + 1)
    }

    /// An argument of the command. One that the request does not have is empty, as in webhook.
    fn argument(&mut self, parameter: &NamedValue<'_>) {
        let field = parameter.named("pass-arguments-to-command");
        match value(parameter, &mut self.needs) {
            Ok(found) => {
                self.note(parameter, &field);
                match found {
                    HookValue::Word(word) => self.arguments.push(word),
                    HookValue::Command(command) => {
                        let name = self.temporary();
                        self.reads.push(format!("{command}; {name}=$REPLY"));
                        self.arguments.push(format!("\"${name}\""));
                    }
                }
            }
            Err(why) => self.report.refused(&field, &why),
        }
    }

    /// Reports a value that is not quite what webhook passes.
    fn note(&mut self, parameter: &NamedValue<'_>, field: &Field) {
        let name = parameter.text_of("name").unwrap_or_default();
        if parameter.text_of("source").as_deref() == Some("request") && name.eq_ignore_ascii_case("remote-addr") {
            let note = "it is the address without the port; webhook passes `ADDRESS:PORT`";
            self.report.differs(field, "entry", note);
        }
    }

    /// A variable of the command. webhook sets none whose value the request does not have.
    fn variable(&mut self, list: &str, name: &str, parameter: &NamedValue<'_>) {
        let field = parameter.named(list);
        let found = match value(parameter, &mut self.needs) {
            Ok(found) => found,
            Err(why) => return self.report.refused(&field, &why),
        };
        self.note(parameter, &field);
        let (command, word) = match &found {
            HookValue::Word(word) => (None, word.as_str()),
            HookValue::Command(command) => (Some(command.as_str()), "\"$REPLY\""),
        };
        let temporary = self.temporary();
        let set = if list == "pass-file-to-command" {
            let decodes = parameter.get("base64decode").and_then(|item| item.truth()) == Some(true);
            let decode = if decodes { " | base64 -d" } else { "" };
            // webhook removes these files after the command, and `$TMPDIR` goes with the run.
            format!("{{ {temporary}=$TMPDIR/{name}; printf %s {word}{decode} >\"${temporary}\"; }}")
        } else if command.is_some() {
            format!("{temporary}=$REPLY")
        } else {
            return self.exports.push(format!("export {name}={word}"));
        };
        self.reads.push(match command {
            Some(command) => format!("{command} && {set}"),
            None => set,
        });
        self.exports
            .push(format!("[[ -v {temporary} ]] && export {name}=\"${temporary}\""));
    }

    /// `pass-environment-to-command`, and `pass-file-to-command`, whose variables name files.
    fn variables(&mut self, list: &NamedValue<'_>) {
        for parameter in list.items() {
            let name = parameter.text_of("name").unwrap_or_default();
            // webhook puts this prefix before the name of a parameter without `envname`.
            let name = parameter.text_of("envname").unwrap_or_else(|| match list.key {
                "pass-file-to-command" => format!("HOOK_{}", name.to_ascii_uppercase()),
                _ => format!("HOOK_{name}"),
            });
            let own = name.starts_with('_') || READ_ONLY.contains(&name.as_str());
            if !is_settable(&name) || own {
                self.report.refused(
                    &parameter.named(list.key),
                    &format!("`{name}` is no name that a variable can have here: write `envname` with another one"),
                );
                continue;
            }
            self.variable(list.key, &name, &parameter);
        }
        self.report.works(&list.field(), "entry");
    }

    fn credentials(&mut self) {
        let Some((scheme, value, field)) = self.rules.auth.take() else {
            self.route.push(("auth", Value::from("none"), None));
            // The script may test this header. Without this key a route for everybody does not pass it on.
            self.route.push(("authorization", Value::from(true), None));
            return;
        };
        let secret = format!("{}-hook", self.made.name);
        self.route
            .push(("auth", Value::from(format!("{scheme}:{secret}")), Some(field)));
        self.made.secrets.push((secret, value.into_bytes()));
    }

    fn route(&mut self) {
        let conditions = std::mem::take(&mut self.rules.when);
        if !conditions.is_empty() {
            let field = conditions.values().next().map(|(_, field)| field.clone());
            let conditions = conditions.into_iter().map(|(place, (value, _))| (place, value));
            self.route.push(("when", Value::Table(conditions.collect()), field));
        }
        self.made.manifest.push("http", std::mem::take(&mut self.route));
    }

    fn script(&mut self, hook: &NamedValue<'_>, read: ReadScript) {
        let mut code = ScriptCode::new("/bin/bash");
        let mut conditions = String::new();
        // webhook answers with this sentence, and with success.
        for expression in &self.rules.script {
            conditions.push_str(&format!(
                "missing=; {expression} && [[ -z $missing ]] || {{ echo 'Hook rules were not satisfied.'; exit; }}\n"
            ));
        }
        if self.needs.contains(&HookFunction::Payload) || self.needs.contains(&HookFunction::Entire) {
            // webhook reads the body by this type.
            let kind = hook.text_of("incoming-payload-content-type");
            let kind = kind.map_or_else(|| "${CONTENT_TYPE-}".to_owned(), |kind| quoted(&kind));
            code.line(format!("_kind={kind}"));
        }
        for function in &self.needs {
            code.line(function.text());
        }
        // The headers come first, since the sentence about the rules below is already the body.
        if !self.headers.is_empty() {
            let is_type = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
            if !self.headers.iter().any(is_type) {
                // The type that Go's HTTP server, and so webhook, gives to text.
                let kind = ("Content-Type".to_owned(), "text/plain; charset=utf-8".to_owned());
                self.headers.push(kind);
            }
            let lines = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
            code.line(format!("printf %s\\\\n {}", quoted(&lines.collect::<String>())));
        }
        if !conditions.is_empty() {
            code.line(conditions.trim_end());
        }
        for line in self.reads.drain(..).chain(self.exports.drain(..)) {
            code.line(line);
        }
        let directory = hook.text_of("command-working-directory").unwrap_or_default();
        if let Some(item) = hook.get("command-working-directory") {
            match directory.is_empty() || directory.starts_with('/') {
                true => self.report.works(&item.field(), "entry"),
                false => self.report.refused(&item.field(), ABSOLUTE),
            }
        }
        if !directory.is_empty() {
            code.begin_in(&directory);
        }
        let Some(item) = hook.get("execute-command") else {
            return;
        };
        let mut command = item.text().unwrap_or_default();
        if !command.starts_with('/') && !directory.is_empty() {
            // webhook looks for the command in this directory then, and not in `PATH`.
            command = format!(
                "{}/{}",
                directory.trim_end_matches('/'),
                command.trim_start_matches("./")
            );
        }
        let program = code.program(&command, read);
        if program.contains('/') && !command.starts_with('/') {
            return self.report.refused(&item.field(), ABSOLUTE);
        }
        let words = [&[program][..], &self.arguments].concat().join(" ");
        // webhook answers with both outputs of a command together.
        code.line(format!("exec {words} 2>&1"));
        let mut what = "it runs in the sandbox, as a user of its own, with the default limits".to_owned();
        if self.needs.contains(&HookFunction::Json) {
            what.push_str("; it needs `jq`");
        }
        let note = code.put_noted(&mut self.made, &what);
        self.report.differs(&item.field(), "entry", &note);
    }
}

#[cfg(test)]
mod tests;
