//! `fndctl import webhook`: a function with a route for each hook of <https://github.com/adnanh/webhook>.
//!
//! Files:
//! - `answer`: what the caller gets
//! - `rules`: trigger rules
//! - `values`: values of a request

mod answer;
mod rules;
mod values;

use super::Imported;
use super::names::ImportedNames;
use super::script::{self, ScriptCode, Scripts};
use super::tree::{self, NamedValue};
use crate::failure::ImportFailure;
use crate::script::quoted;
use fnd_manifest::foreign::yaml::Document;
use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use rules::WebhookRules;
use std::path::Path;
use toml::Value;
use values::{FIELD, Needs, PAYLOAD, word};

/// Reads a file of hooks.
///
/// # Errors
/// It cannot be read.
pub fn import(file: &Path, link: bool) -> Result<Imported, ImportFailure> {
    let scripts = Scripts {
        link,
        read: script::read,
    };
    Ok(hooks(&tree::read(file)?, &file.display().to_string(), scripts))
}

/// Makes functions of the hooks.
pub(super) fn hooks(documents: &[Document], file: &str, scripts: Scripts) -> Imported {
    let mut imported = Imported {
        head: format!("Made of {file} by `fndctl import webhook`. webhook has no timeout, so `timeout` is \"none\"."),
        ..Imported::default()
    };
    let mut names = ImportedNames::default();
    let mut any = false;
    for root in documents.iter().map(NamedValue::root) {
        if !root.is_list() {
            imported
                .report
                .refused(&root.named("hooks"), "expected a list of hooks");
        }
        for hook in root.items() {
            any = true;
            let mut maker = WebhookImport::new(&names.unique(&hook.text_of("id").unwrap_or_default()), scripts);
            maker.hook(&hook);
            imported
                .functions
                .extend((!maker.report.is_refused()).then_some(maker.made));
            imported.report.rows.extend(maker.report.rows);
        }
    }
    if !any && !imported.report.is_refused() {
        let field = Field {
            file: file.to_owned(),
            name: "hooks".to_owned(),
            line: 1,
            column: 1,
            excerpt: String::new(),
        };
        imported.report.refused(&field, "there is no hook");
    }
    imported
}

/// Keys whose value is a text, a number, or `true` or `false`.
const SCALARS: [&str; 5] = [
    "id",
    "execute-command",
    "command-working-directory",
    "response-message",
    "incoming-payload-content-type",
];

/// Keys whose value is a list.
const LISTS: [&str; 5] = [
    "pass-arguments-to-command",
    "pass-environment-to-command",
    "pass-file-to-command",
    "parse-parameters-as-json",
    "response-headers",
];

/// A function on its way.
struct WebhookImport {
    made: MadeManifest,
    report: ConversionReport,
    scripts: Scripts,
    needs: Needs,
    code: ScriptCode,
    route: Vec<(&'static str, Value, Option<Field>)>,
    /// Lines that set variables.
    exports: Vec<String>,
    arguments: Vec<String>,
    /// Headers of the answer.
    headers: Vec<(String, String)>,
    rules: WebhookRules,
}

impl WebhookImport {
    fn new(name: &str, scripts: Scripts) -> Self {
        Self {
            made: MadeManifest::new(name),
            report: ConversionReport::default(),
            scripts,
            needs: Needs::default(),
            code: ScriptCode::new("/bin/bash"),
            route: Vec::new(),
            exports: Vec::new(),
            arguments: Vec::new(),
            headers: Vec::new(),
            rules: WebhookRules::default(),
        }
    }

    fn hook(&mut self, hook: &NamedValue<'_>) {
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
        for item in hook.items() {
            self.item(&item);
        }
        let output = hook.truth_of("include-command-output-in-response", false, &mut self.report);
        self.answer(hook, output);
        self.credentials();
        self.route();
        self.script(hook);
        // webhook waits for its command without a limit.
        self.made.manifest.set("limits.timeout", "none", None);
    }

    fn item(&mut self, item: &NamedValue<'_>) {
        let field = item.field();
        let report = &mut self.report;
        if SCALARS.contains(&item.key) && !item.is_scalar(report, &field) {
            return;
        }
        if LISTS.contains(&item.key) && !item.is_list() {
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
                    match word(&parameter, &mut self.needs) {
                        Ok(word) => self.arguments.push(word),
                        Err(why) => self.report.refused(&parameter.named("pass-arguments-to-command"), &why),
                    }
                }
                self.report.works(&field, "entry");
            }
            "pass-environment-to-command" => self.variables(item, false),
            "pass-file-to-command" => self.variables(item, true),
            "trigger-rule" => {
                self.rules.add(item, report, &mut self.needs);
                if !self.rules.when.is_empty() {
                    let note = "a request for which it does not hold is answered with 204, and not with a sentence";
                    report.differs(&field, "http.when", note);
                }
            }
            "trigger-rule-mismatch-http-response-code" => {
                report.not_here(
                    &field,
                    "a condition that does not hold is answered with 204, a missing credential with 401",
                );
            }
            "incoming-payload-content-type" if item.text().is_some_and(|kind| kind.contains("json")) => {
                report.works(&field, "");
            }
            "incoming-payload-content-type" => {
                report.not_here(
                    &field,
                    "a form is read as a form by its own content type, every other body as JSON",
                );
            }
            "parse-parameters-as-json" if item.items().is_empty() => report.works(&field, ""),
            "parse-parameters-as-json" => report.refused(
                &field,
                "fnd does not look into JSON inside a field: let the sender send JSON, or read it in the script",
            ),
            "pre-hook-command" => report.refused(&field, "fnd runs nothing before the conditions: do it in the script"),
            "trigger-signature-soft-failures" => {
                report.not_here(&field, "a wrong signature is always answered with 401");
            }
            "keep-file-environment" => report.not_here(&field, "`$TMPDIR` is removed after the run"),
            // `answer` and `script` read the keys of this arm.
            "execute-command"
            | "command-working-directory"
            | "response-message"
            | "response-headers"
            | "success-http-response-code"
            | "include-command-output-in-response"
            | "include-command-output-in-response-on-error" => {}
            _ => report.unknown(&field, "a hook has no such key"),
        }
    }

    /// `pass-environment-to-command`, and `pass-file-to-command`, whose variables name files.
    fn variables(&mut self, list: &NamedValue<'_>, files: bool) {
        for parameter in list.items() {
            let name = parameter.text_of("name").unwrap_or_default();
            // webhook puts this prefix before the name of a parameter without `envname`.
            let name = parameter.text_of("envname").unwrap_or_else(|| format!("HOOK_{name}"));
            let valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.is_empty();
            // Names that begin with `FND_` are fnd's own.
            if !valid || name.starts_with("FND_") || name.starts_with(|c: char| c.is_ascii_digit()) {
                self.report.refused(
                    &parameter.named(list.key),
                    &format!("`{name}` is no name of a variable: write `envname`"),
                );
                continue;
            }
            match word(&parameter, &mut self.needs) {
                Ok(word) if files => {
                    let decode = if parameter
                        .get("base64decode")
                        .and_then(|item| item.truth())
                        .unwrap_or_default()
                    {
                        " | base64 -d"
                    } else {
                        ""
                    };
                    self.exports.push(format!(
                        // webhook removes these files after the command, and `$TMPDIR` goes with the run.
                        "export {name}=$TMPDIR/{name}; printf %s {word}{decode} >\"${name}\""
                    ));
                }
                Ok(word) => self.exports.push(format!("export {name}={word}")),
                Err(why) => self.report.refused(&parameter.named(list.key), &why),
            }
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
            let table = conditions
                .into_iter()
                .map(|(place, (value, _))| (place, value))
                .collect();
            self.route.push(("when", Value::Table(table), field));
        }
        self.made.manifest.push("http", std::mem::take(&mut self.route));
    }

    fn script(&mut self, hook: &NamedValue<'_>) {
        let mut code = std::mem::replace(&mut self.code, ScriptCode::new("/bin/bash"));
        let mut conditions = String::new();
        // webhook answers with this sentence, and with success.
        for expression in &self.rules.script {
            conditions.push_str(&format!(
                "{expression} || {{ echo 'Hook rules were not satisfied.'; exit; }}\n"
            ));
        }
        if self.needs.body {
            // Standard input can be read once, and several values may come from it.
            code.line("body=$TMPDIR/body; cat >\"$body\"");
        }
        for (needed, function) in [(self.needs.field, FIELD), (self.needs.payload, PAYLOAD)] {
            if needed {
                code.line(function);
            }
        }
        // The headers come first, since the sentence about the rules below is already the body.
        if !self.headers.is_empty() {
            let headers: String = self
                .headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}\n"))
                .collect();
            let own = self
                .headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            // The type that Go's HTTP server, and so webhook, gives to text.
            let kind = if own {
                ""
            } else {
                "Content-Type: text/plain; charset=utf-8\n"
            };
            code.line(format!("printf %s\\\\n {}", quoted(&format!("{headers}{kind}"))));
        }
        if !conditions.is_empty() {
            code.line(conditions.trim_end());
        }
        for line in std::mem::take(&mut self.exports) {
            code.line(line);
        }
        if let Some(item) = hook.get("command-working-directory") {
            let directory = item.text().unwrap_or_default();
            code.places.add(&directory, false);
            code.line(format!("cd {} || exit", quoted(&directory)));
            self.report.works(&item.field(), "entry");
        }
        let Some(item) = hook.get("execute-command") else {
            return;
        };
        let command = item.text().unwrap_or_default();
        let program = if command.starts_with('/') {
            code.program(&command, self.scripts)
        } else {
            quoted(&command)
        };
        let words = [&[program][..], &self.arguments].concat().join(" ");
        // webhook answers with both outputs of a command together.
        code.line(format!("exec {words} 2>&1"));
        let copied = if code.copied() { "the script was copied; " } else { "" };
        let jq = if self.needs.payload { "; it needs `jq`" } else { "" };
        let notes = code.put(&mut self.made);
        let note = format!("{copied}it runs in the sandbox, as a user of its own, with the default limits{jq}{notes}");
        self.report.differs(&item.field(), "entry", &note);
    }
}

#[cfg(test)]
mod tests;
