//! `fndctl import supervisord`: a service for each program of `supervisord.conf`.
//!
//! The keys are those of supervisor 4.2 (its `options.py` and docs/configuration.rst).
//!
//! Files:
//! - `common`: what holds for all programs: `[supervisord]` and the groups
//! - `fuzzing`: what the fuzzer and tests may call
//! - `parse`: the lines of the file

mod common;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod parse;

use super::Imported;
use super::names::ImportedNames;
use super::script::{self, ScriptCode, Scripts, split};
use super::text::ImportText;
use super::users::ImportedUsers;
use crate::failure::ImportFailure;
use crate::script::quoted;
use common::CommonSettings;
use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use parse::{Section, SupervisordSetting, expand, sections, variables};
use std::path::Path;

/// Reads a file of supervisord.
///
/// # Errors
/// It cannot be read.
pub fn import(file: &Path, link: bool, users: ImportedUsers) -> Result<Imported, ImportFailure> {
    let full = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let here = full.parent().unwrap_or(Path::new("/")).display().to_string();
    let scripts = Scripts {
        link,
        read: script::read,
    };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = SupervisordMachine {
        scripts,
        users,
        here: &here,
        host: host.trim(),
    };
    Ok(programs(&ImportText::read(file)?, machine))
}

/// The facts about the machine.
#[derive(Debug, Clone, Copy)]
struct SupervisordMachine<'a> {
    scripts: Scripts,
    users: ImportedUsers,
    /// The directory of the file.
    here: &'a str,
    /// The name of this machine.
    host: &'a str,
}

/// The note on a missing `autorestart`: supervisord has another default than fnd.
const RESTARTS: &str = "fnd starts it again after an exit code 0, too, and supervisord only after one that `exitcodes` \
                        does not have";

/// Sections about supervisord itself. Of `[supervisord]` some keys reach the programs.
const OWN: [&str; 3] = ["supervisorctl", "unix_http_server", "inet_http_server"];

/// The note on a program for which no user is named.
const NO_USER: &str = "supervisord runs it as its own user, which is root where the system starts supervisord; here it has a user of its \
                       own: what of this needs root?";

/// Keys without which supervisord does something else than fnd.
const ABSENT: [(&str, &str, &str); 3] = [
    ("autorestart", "mode", RESTARTS),
    ("user", "", NO_USER),
    (
        "startretries",
        "",
        "after three starts that fail supervisord gives up; fnd never does, and waits longer each time (`[retry]`)",
    ),
];

/// Why a directory is refused.
const NO_DIRECTORY: &str =
    "write an absolute path: supervisord begins a relative one where it runs itself, and `~` is the home of its user";

/// How long supervisord waits between its signal and SIGKILL.
const GRACE: &str = "10s";

/// The most functions of one program.
const PROCESSES_MAX: u32 = 100;

/// Makes functions of the programs.
fn programs(text: &ImportText, machine: SupervisordMachine<'_>) -> Imported {
    let mut imported = Imported {
        head: format!("Made of {} by `fndctl import supervisord`.", text.name),
        ..Imported::default()
    };
    let (sections, bad) = sections(text);
    for field in bad {
        imported
            .report
            .refused(&field, "expected `key=value`, a section or a comment");
    }
    let mut names = ImportedNames::default();
    let common = CommonSettings::of(&sections, machine, &mut imported.report);
    for section in &sections {
        let report = &mut imported.report;
        match section.name.split_once(':') {
            // A FastCGI program is read like another one. Its key `socket` is refused.
            Some(("program" | "fcgi-program", name)) => {
                let (made, rows) = program(section, name.trim(), &mut names, &common);
                imported.functions.extend(made);
                imported.report.rows.extend(rows.rows);
            }
            Some(("group", _)) => report.not_here(
                &section.field,
                "a directory of the functions directory is a group: move them there",
            ),
            Some(("eventlistener", _)) => {
                report.not_here(&section.field, "use `[alert]`, `[hooks]`, or `fndctl events -f`");
            }
            _ if section.name == "include" => {
                report.not_here(&section.field, "import the files that it names one by one");
            }
            Some(("rpcinterface" | "ctlplugin", _)) => {
                report.not_here(&section.field, "it is about supervisord itself");
            }
            // `CommonSettings` has reported it.
            None if section.name == "supervisord" => {}
            None if OWN.contains(&section.name.as_str()) => {
                report.not_here(&section.field, "it is about supervisord itself");
            }
            _ => report.unknown(&section.field, "supervisord has no such section"),
        }
    }
    if !sections.iter().any(|section| section.name.contains("program:")) {
        imported
            .report
            .refused(&text.whole("[program:x]"), "there is no program");
    }
    imported
}

/// Makes the functions of a program: one, or one for each process if their commands differ.
fn program(
    section: &Section,
    name: &str,
    names: &mut ImportedNames,
    common: &CommonSettings<'_>,
) -> (Vec<MadeManifest>, ConversionReport) {
    let mut report = ConversionReport::default();
    let value = |key: &str| section.items.iter().rfind(|item| item.key == key);
    let number = |key: &str, otherwise: u32| value(key).map_or(Some(otherwise), |item| item.value.parse().ok());
    let (count, first) = (number("numprocs", 1), number("numprocs_start", 0));
    let (Some(count @ 1..=PROCESSES_MAX), Some(first @ 0..=100_000)) = (count, first) else {
        let item = value("numprocs").filter(|_| !matches!(count, Some(1..=PROCESSES_MAX)));
        let item = item.or_else(|| value("numprocs_start"));
        report.refused(
            item.map_or(&section.field, |item| &item.field),
            &format!("expected `numprocs` from 1 to {PROCESSES_MAX}, and `numprocs_start` from 0 to 100000"),
        );
        return (Vec::new(), report);
    };
    // All processes of a function have one command, so processes whose commands differ become functions of their own.
    let differ = ["command", "environment", "directory"]
        .iter()
        .any(|key| value(key).is_some_and(|item| item.value.contains("%(process_num)")));
    let mut functions = Vec::new();
    for process in first..first + if differ { count } else { 1 } {
        let function = if differ && count > 1 {
            format!("{name}-{process}")
        } else {
            name.to_owned()
        };
        let mut maker = SupervisordImport {
            made: MadeManifest::new(&names.unique(&function)),
            report: ConversionReport::default(),
            code: ScriptCode::new("/bin/bash"),
            common,
            name,
            process,
            count,
            replicas: if differ { 1 } else { count },
            directory: common.directory.clone(),
            umask: common.umask.clone(),
        };
        maker.read(section);
        let refused = maker.report.is_refused();
        // The rows of all processes are the same.
        if functions.is_empty() && report.rows.is_empty() {
            report = maker.report;
        }
        functions.extend((!refused).then_some(maker.made));
    }
    (functions, report)
}

/// Says whether a text is a mask, such as `022`.
fn is_mask(text: &str) -> bool {
    !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| (b'0'..=b'7').contains(&b))
}

/// A function on its way.
struct SupervisordImport<'a> {
    made: MadeManifest,
    report: ConversionReport,
    code: ScriptCode,
    common: &'a CommonSettings<'a>,
    name: &'a str,
    process: u32,
    /// The number of all processes.
    count: u32,
    replicas: u32,
    directory: Option<String>,
    umask: Option<String>,
}

impl SupervisordImport<'_> {
    fn expanded(&self, text: &str) -> Result<String, String> {
        let machine = self.common.machine;
        let known = |name: &str| match name {
            "here" => Some(machine.here.to_owned()),
            "host_node_name" => Some(machine.host.to_owned()),
            "program_name" => Some(self.name.to_owned()),
            "group_name" => Some(self.common.group(self.name).to_owned()),
            "process_num" => Some(self.process.to_string()),
            "numprocs" => Some(self.count.to_string()),
            _ => None,
        };
        expand(text, &known)
    }

    fn read(&mut self, section: &Section) {
        self.made.manifest.set("mode", "service", None);
        self.made.manifest.set("limits.grace", GRACE, None);
        for (name, value, field) in &self.common.variables {
            self.made.manifest.set_in("env", name, value.as_str(), Some(field));
        }
        let says = |key: &str| section.items.iter().any(|item| item.key == key);
        if let Some((user, field)) = self.common.user.as_ref().filter(|_| !says("user")) {
            let users = self.common.machine.users;
            users.named(&mut self.made, &mut self.report, user, field);
        }
        if let Some(directory) = self.directory.as_deref().filter(|_| !says("directory")) {
            self.code.places.add(directory, false);
        }
        // The command comes last: it writes the script, which needs the directory and the mask.
        let (command, others): (Vec<&SupervisordSetting>, Vec<&SupervisordSetting>) =
            section.items.iter().partition(|item| item.key == "command");
        for item in others {
            match self.expanded(&item.value) {
                Ok(value) => self.item(item, &value),
                Err(why) => self.report.refused(&item.field, &why),
            }
        }
        for (key, becomes, note) in ABSENT {
            let is_common = key == "user" && (self.common.user.is_some() || self.common.machine.users.is_caller());
            if !is_common && !says(key) {
                let field = Field {
                    name: key.to_owned(),
                    ..section.field.clone()
                };
                self.report.differs(&field, becomes, note);
            }
        }
        match command.last() {
            Some(item) => self.command(item),
            None => self.report.refused(&section.field, "the program has no `command`"),
        }
    }

    fn item(&mut self, item: &SupervisordSetting, value: &str) {
        let (report, field, made) = (&mut self.report, &item.field, &mut self.made);
        let truth = matches!(value.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1");
        let boolean = truth || matches!(value.to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0");
        match item.key.as_str() {
            "autostart" | "redirect_stderr" | "stopasgroup" | "killasgroup" if !boolean => {
                report.refused(field, &format!("`{value}` is neither `true` nor `false`"));
            }
            "autorestart" if !boolean && !value.eq_ignore_ascii_case("unexpected") => {
                report.refused(field, &format!("`{value}` is none of `true`, `false` and `unexpected`"));
            }
            "process_name" | "numprocs_start" => report.works(field, ""),
            "numprocs" if self.replicas > 1 => made.works(report, "service.replicas", i64::from(self.replicas), field),
            "numprocs" => report.works(field, ""),
            "directory" if !value.starts_with('/') => report.refused(field, NO_DIRECTORY),
            "directory" => {
                report.works(field, "entry");
                self.code.places.add(value, false);
                self.directory = Some(value.to_owned());
            }
            "umask" if is_mask(value) => {
                report.works(field, "entry");
                self.umask = Some(value.to_owned());
            }
            "umask" => report.refused(field, "expected a mask such as `022`"),
            "environment" => match variables(value) {
                Ok(variables) => {
                    for (name, value) in variables {
                        made.manifest.set_in("env", &name, value, Some(field));
                    }
                    report.works(field, "env");
                }
                Err(why) => report.refused(field, &why),
            },
            "user" => self.common.machine.users.named(made, report, value, field),
            "autostart" if truth => report.works(field, ""),
            "autostart" => made.differs(report, ("enabled", false), field, "`fndctl enable F` starts it"),
            "autorestart" if truth => report.works(field, "mode"),
            "autorestart" if value.eq_ignore_ascii_case("unexpected") => report.differs(field, "mode", RESTARTS),
            "autorestart" => report.differs(
                field,
                "mode",
                "a service is always started again; a script, without `mode`, runs once",
            ),
            "exitcodes" => report.differs(field, "mode", "fnd starts a service again after each exit code"),
            "startsecs" | "startretries" => report.differs(
                field,
                "",
                "fnd never gives up; after five ends in a minute a service is `crash-looping`",
            ),
            "stopsignal" if ["TERM", "SIGTERM", "15"].contains(&value) => report.works(field, ""),
            "stopsignal" if ["KILL", "SIGKILL", "9"].contains(&value) => {
                let note = "SIGTERM comes first, and SIGKILL at once behind it";
                made.differs(report, ("limits.grace", "0"), field, note);
            }
            "stopsignal" => report.differs(
                field,
                "",
                "fnd sends SIGTERM to every process: let the program end by it as by the other signal",
            ),
            "stopwaitsecs" => match value.parse::<u32>().ok().filter(|seconds| *seconds > 0) {
                Some(seconds) => made.works(report, "limits.grace", format!("{seconds}s"), field),
                None => report.refused(field, "expected a number of seconds"),
            },
            // fnd ends every process of a function in any case.
            "stopasgroup" | "killasgroup" => report.works(field, ""),
            "priority" => report.not_here(
                field,
                "functions have no order: a service is started again until it works",
            ),
            "redirect_stderr" => report.works(field, ""),
            key if key.starts_with("stdout_") || key.starts_with("stderr_") => {
                report.not_here(field, "fnd keeps the output itself: `fndctl logs`");
            }
            "socket" | "socket_backlog" | "socket_owner" | "socket_mode" => {
                report.refused(field, "fnd opens no FastCGI socket for a program");
            }
            "serverurl" => report.not_here(field, "there is no supervisord"),
            _ => report.unknown(field, "supervisord has no such key"),
        }
    }

    fn command(&mut self, item: &SupervisordSetting) {
        let words = self
            .expanded(&item.value)
            .and_then(|line| split(&line).ok_or_else(|| "a quote is not closed".to_owned()));
        let words = match words {
            Ok(words) => words,
            Err(why) => return self.report.refused(&item.field, &why),
        };
        let Some((program, arguments)) = words.split_first() else {
            return self.report.refused(&item.field, "there is no command");
        };
        let mut code = std::mem::replace(&mut self.code, ScriptCode::new("/bin/bash"));
        if let Some(mask) = &self.umask {
            code.line(format!("umask {mask}"));
        }
        // supervisord looks for a name without a directory in its `PATH`, and so does bash.
        let start = if program.starts_with('/') {
            code.program(program, self.common.machine.scripts)
        } else {
            quoted(program)
        };
        code.places.of_command(&words.join(" "));
        if let Some(directory) = &self.directory {
            code.line(format!("cd {} || exit", quoted(directory)));
        }
        let arguments: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
        code.line(format!("exec {}", [&[start][..], &arguments].concat().join(" ")));
        let copied = if code.copied() { "the script was copied; " } else { "" };
        let notes = code.put(&mut self.made);
        let note = format!("{copied}it runs in the sandbox, as a user of its own, with the default limits{notes}");
        self.report.differs(&item.field, "entry", &note);
    }
}

#[cfg(test)]
mod tests;
