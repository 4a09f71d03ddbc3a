//! `fndctl import compose`: a service for each service of a compose file that runs a program of the machine. An image is not run.
//!
//! Files:
//! - `keys`: keys whose value does not matter

mod keys;

use super::Imported;
use super::names::{ImportedNames, is_settable, lists};
use super::rows::{KeyTexts, RESTARTS, absent, reported, take, unknown_key};
use super::script::{ScriptCode, split};
use super::stop_signal::{is_killed_at_once, stop_signal};
use super::systemd;
use super::text::{self, within};
use super::tree::{self, NamedValue};
use super::users::ImportedUsers;
use crate::failure::ImportFailure;
use fnd_manifest::foreign::yaml::Document;
use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use fnd_wire::units::{parse_cpu, parse_size, print_cpu, print_duration, print_size};
use std::path::{Path, PathBuf};
use toml::Value;

/// Reads a compose file.
///
/// # Errors
/// It cannot be read.
pub fn import(file: &Path, users: ImportedUsers) -> Result<Imported, ImportFailure> {
    let (shown, base) = (file.display().to_string(), text::directory_of(file));
    Ok(services(&tree::read(file)?, &shown, &base, users))
}

/// Makes functions of the services.
pub(super) fn services(documents: &[Document], file: &str, base: &Path, users: ImportedUsers) -> Imported {
    let mut imported = Imported::new(format!(
        "Made of {file} by `fndctl import compose`. The program stays where it is."
    ));
    let mut names = ImportedNames::default();
    let mut any = false;
    for root in documents.iter().map(NamedValue::root) {
        let services = root.get("services");
        if let Some(wrong) = [Some(root), services].into_iter().flatten().find(|item| !item.is_map()) {
            any = true;
            let why = "expected a map `services` with a service for each name";
            imported.report.refused(&wrong.named("services"), why);
            continue;
        }
        for item in root.items() {
            let (report, field) = (&mut imported.report, item.field());
            match item.key {
                "services" => {}
                // Keys that begin with `x-` are extensions, which compose itself ignores.
                key if key.starts_with("x-") => report.works(&field, ""),
                key if reported(keys::FILE, key, report, &field) => {}
                key => report.unknown(
                    &field,
                    &unknown_key("compose has no such key", key, keys::FILE, "services"),
                ),
            }
        }
        for item in services.iter().flat_map(NamedValue::items) {
            any = true;
            if !item.is_map() {
                imported.report.refused(&item.field(), "expected a map with `command`");
                continue;
            }
            let mut maker = ComposeImport {
                made: MadeManifest::new(&names.unique(item.key)),
                report: ConversionReport::default(),
                directory: base.to_owned(),
                users,
                // YAML 1.1 reads `no` as false.
                service: !matches!(item.text_of("restart").as_deref(), Some("no" | "false")),
            };
            maker.read(&item);
            imported.add(maker.made, maker.report);
        }
    }
    if !any {
        let field = tree::whole(file, "services");
        imported.report.refused(&field, "there is no service");
    }
    imported
}

/// How long compose waits between its signal and SIGKILL.
const GRACE: &str = "10s";

/// Keys without which compose does something else than fnd.
const ABSENT: KeyTexts = fnd_manifest::texts! {
    "restart mode": "without it compose leaves a service that has ended, and fnd starts it again",
    "network_mode": "compose gives it a network of its own; here it uses the machine's: `sandbox.network` says otherwise",
};

/// Keys whose value is a text, a number, or `true` or `false`.
const SCALARS: &str = "\
    working_dir restart mem_limit cpus pids_limit scale stop_grace_period stop_signal user network_mode \
    container_name";

/// A function on its way.
struct ComposeImport {
    made: MadeManifest,
    report: ConversionReport,
    directory: PathBuf,
    users: ImportedUsers,
    /// Whether it is kept running.
    service: bool,
}

impl ComposeImport {
    fn read(&mut self, service: &NamedValue<'_>) {
        // One reason is enough, since the other keys are about the program in the image.
        if let Some(image) = service.get("image").or_else(|| service.get("build")) {
            let why = "fnd runs no images: install the program, name it in `command`, and remove this line";
            let field = image.named(&format!("{}.{}", service.key, image.key));
            return self.report.refused(&field, why);
        }
        absent(ABSENT, &mut self.report, |key| {
            let name = format!("{}.{key}", service.key);
            service.get(key).is_none().then(|| service.named(&name))
        });
        self.made.manifest.set("limits.grace", GRACE, None);
        if self.service {
            self.made.manifest.set("mode", "service", None);
        } else {
            // compose ends no command, however long it takes.
            self.made.manifest.set("limits.timeout", "none", None);
        }
        for item in service.items() {
            self.item(service.key, &item);
        }
        self.script(service);
    }

    fn item(&mut self, name: &str, item: &NamedValue<'_>) {
        let field = item.named(&format!("{name}.{}", item.key));
        let (report, made) = (&mut self.report, &mut self.made);
        let text = item.text().unwrap_or_default();
        if lists(SCALARS, item.key) && !item.is_scalar(report, &field) {
            return;
        }
        match item.key {
            // `script` reads both, in the order in which they are one command.
            "command" | "entrypoint" => {}
            "environment" => self.variables(name, item),
            "working_dir" => match literal(&text) {
                Ok(text) => {
                    report.works(&field, "entry");
                    self.directory = self.directory.join(text);
                }
                Err(why) => report.refused(&field, why),
            },
            "restart" => match text.as_str() {
                "always" | "unless-stopped" => report.works(&field, "mode"),
                "no" | "false" => report.differs(&field, "mode", "a script: it runs once when it is saved"),
                other if other == "on-failure" || other.starts_with("on-failure:") => {
                    report.differs(&field, "mode", RESTARTS);
                }
                other => report.refused(
                    &field,
                    &format!("`{other}` is none of `no`, `always`, `on-failure` and `unless-stopped`"),
                ),
            },
            "deploy" => self.deploy(name, item),
            "mem_limit" | "cpus" | "pids_limit" => self.limit(item.key, &text, &field),
            "scale" => self.replicas(&text, &field),
            "stop_grace_period" if is_killed_at_once(made, report, &field) => {}
            "stop_grace_period" => match systemd::seconds(&text).filter(|time| !time.is_zero()) {
                Some(time) => made.works(report, "limits.grace", print_duration(time), &field),
                None => report.refused(&field, "expected a duration such as `10s`"),
            },
            "stop_signal" => stop_signal(made, report, (&field, text.as_str()), self.service),
            "profiles" => made.differs(
                report,
                ("enabled", false),
                &field,
                "compose starts it for these profiles only, and fnd by `fndctl enable F`",
            ),
            "user" => {
                let user = text.split(':').next().unwrap_or_default();
                self.users.named(made, report, user, &field);
            }
            "network_mode" if text == "none" => made.works(report, "sandbox.network", "none", &field),
            // A function has the machine's network already.
            "network_mode" if text == "host" => report.works(&field, ""),
            key if key.starts_with("x-") => report.works(&field, ""),
            key if reported(keys::SERVICE, key, report, &field) => {}
            key => report.unknown(&field, &unknown_key("compose has no such key", key, keys::SERVICE, "")),
        }
    }

    fn deploy(&mut self, name: &str, deploy: &NamedValue<'_>) {
        for item in deploy.items() {
            let field = item.named(&format!("{name}.deploy.{}", item.key));
            match item.key {
                "replicas" => self.replicas(&item.text().unwrap_or_default(), &field),
                "restart_policy" => {
                    let note = format!("{RESTARTS}; `[retry]` has the pauses");
                    self.report.differs(&field, "mode", &note);
                }
                "resources" => {
                    for other in item.items().iter().filter(|other| other.key != "limits") {
                        let field = other.named(&format!("{name}.deploy.resources.{}", other.key));
                        self.report
                            .not_here(&field, "fnd reserves nothing for a function; `[limits]` bounds it");
                    }
                    for limit in item.get("limits").iter().flat_map(NamedValue::items) {
                        let field = limit.named(&format!("{name}.deploy.resources.limits.{}", limit.key));
                        let key = match limit.key {
                            "memory" => "mem_limit",
                            "pids" => "pids_limit",
                            key => key,
                        };
                        self.limit(key, &limit.text().unwrap_or_default(), &field);
                    }
                }
                _ => self.report.not_here(&field, "it is about a cluster"),
            }
        }
    }

    fn limit(&mut self, key: &str, text: &str, field: &Field) {
        let (key, value): (_, Option<Value>) = match key {
            "mem_limit" => {
                // Compose writes `512m` and `1gb`.
                let size = text.to_ascii_uppercase();
                let size = parse_size(size.trim_end_matches('B')).ok().filter(|size| *size > 0);
                ("limits.memory", size.map(|size| print_size(size).into()))
            }
            "cpus" => ("limits.cpu", parse_cpu(text).ok().map(|milli| print_cpu(milli).into())),
            "pids_limit" | "pids" => ("limits.pids", within(text, 1..=i64::MAX).map(Value::from)),
            _ => return self.report.not_here(field, "fnd has no such limit"),
        };
        let value = value.ok_or_else(|| format!("`{text}` is no value that fnd knows"));
        take(&mut self.made, &mut self.report, key, value, field);
    }

    fn replicas(&mut self, text: &str, field: &Field) {
        match within(text, 1..=1000_i64) {
            Some(count) if self.service => self.made.works(&mut self.report, "service.replicas", count, field),
            Some(_) => self.report.not_here(field, "a script runs once at a time"),
            None => self.report.refused(field, "expected a number from 1 to 1000"),
        }
    }

    fn variables(&mut self, name: &str, item: &NamedValue<'_>) {
        if !item.is_list() && !item.is_map() {
            let field = item.named(&format!("{name}.environment"));
            return self.report.refused(&field, "expected a map, or a list of `NAME=VALUE`");
        }
        for variable in item.items() {
            // `A: b`, or `- A=b`.
            let text = variable.text();
            let pair = match variable.key {
                "" => text.as_deref().and_then(|text| text.split_once('=')),
                key => text.as_deref().map(|value| (key, value)),
            };
            let field = variable.named(&format!("{name}.environment"));
            let Some((name, value)) = pair.filter(|(name, _)| is_settable(name)) else {
                self.report.refused(
                    &field,
                    "a variable has a name and a value: compose would take it from its own environment",
                );
                continue;
            };
            let key = format!("env.{name}");
            take(&mut self.made, &mut self.report, &key, literal(value), &field);
        }
    }

    /// Returns the words of a command: a list, or a text that is split.
    fn words(&mut self, service: &NamedValue<'_>, key: &str) -> Vec<String> {
        let Some(item) = service.get(key) else {
            return Vec::new();
        };
        let field = item.named(&format!("{}.{key}", service.key));
        let words: Result<Vec<String>, &str> = if item.is_list() {
            let texts: Option<Vec<String>> = item.items().iter().map(NamedValue::text).collect();
            texts.ok_or("expected a list of texts")
        } else if item.is_map() {
            Err("expected a list of texts, or one text")
        } else {
            split(&item.text().unwrap_or_default()).ok_or("a quote is not closed")
        };
        let words: Result<Vec<String>, &str> = words.and_then(|words| words.iter().map(|word| literal(word)).collect());
        match words {
            Ok(words) => {
                let note =
                    "the program of the machine; it runs in the sandbox, as a user of its own, with the default limits";
                self.report.differs(&field, "entry", note);
                words
            }
            Err(why) => {
                self.report.refused(&field, why);
                Vec::new()
            }
        }
    }

    fn script(&mut self, service: &NamedValue<'_>) {
        let mut words = self.words(service, "entrypoint");
        // Behind an entrypoint the command is its arguments.
        words.extend(self.words(service, "command"));
        if words.is_empty() && !self.report.is_refused() {
            return self.report.refused(
                &service.named(service.key),
                "the service has neither `command` nor `entrypoint`",
            );
        }
        let mut code = ScriptCode::new("/bin/bash");
        code.begin_in(&self.directory.display().to_string());
        code.places.of_command(&words.join(" "));
        code.exec(&words);
        code.put(&mut self.made);
    }
}

/// Returns a value in which nothing is to be replaced; `$$` is a `$`.
fn literal(value: &str) -> Result<String, &'static str> {
    if value.replace("$$", "").contains('$') {
        return Err("compose would replace a variable there: write its value");
    }
    Ok(value.replace("$$", "$"))
}

#[cfg(test)]
mod tests;
