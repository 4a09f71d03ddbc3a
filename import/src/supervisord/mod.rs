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
use super::rows::{KeyTexts, absent, refuse, reported, unknown_key};
use super::script::{self, ReadScript, ScriptCode, is_mask, split};
use super::stop_signal::{is_killed_at_once, stop_signal};
use super::text::{self, ImportText, within};
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
    let here = text::directory_of(file).display().to_string();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = SupervisordMachine {
        read: script::reader(link),
        users,
        here: &here,
        host: host.trim(),
    };
    Ok(programs(&ImportText::read(file)?, machine))
}

/// The facts about the machine.
#[derive(Debug, Clone, Copy)]
struct SupervisordMachine<'a> {
    read: ReadScript,
    users: ImportedUsers,
    /// The directory of the file.
    here: &'a str,
    /// The name of this machine.
    host: &'a str,
}

/// The note on a missing `autorestart`: supervisord has another default than fnd.
const RESTARTS: &str = "fnd starts it again after an exit code 0, too, and supervisord only after one that `exitcodes` \
                        does not have";

/// The note on a program that runs once.
const ONCE: &str = "a script: it runs once when it is saved, and not at each start of fnd";

/// The note on sections and keys that no program needs. Of `[supervisord]` some keys reach the programs.
const OWN: &str = "it is about supervisord itself";

/// The note on a program for which no user is named.
const NO_USER: &str = "supervisord runs it as its own user, which is root where the system starts supervisord; here it has a user of its \
                       own: what of this needs root?";

/// Keys without which supervisord does something else than fnd.
const ABSENT: KeyTexts = fnd_manifest::texts! {
    "autorestart mode": RESTARTS,
    "user": NO_USER,
    "startretries": "after three starts that fail supervisord gives up; fnd never does, and waits longer each time (`[retry]`)",
    "directory entry": "supervisord begins where it was started; the program begins in the directory of its code",
    "environment env": "supervisord passes on its own environment; a function gets only `[env]`",
};

/// The rows of sections; behind a colon a section has a name of its own.
const SECTIONS: KeyTexts = fnd_manifest::texts! {
    "not-here group:": "a directory of the functions directory is a group: move them there",
    "not-here eventlistener:": "use `[alert]`, `[hooks]`, or `fndctl events -f`",
    "not-here include": "import the files that it names one by one",
    "not-here rpcinterface: ctlplugin: supervisorctl unix_http_server inet_http_server": OWN,
};

/// The rows of a program's keys whose value does not matter, or is not one of those that the program's reader names.
const ROWS: KeyTexts = fnd_manifest::texts! {
    // fnd ends every process of a function in any case, so the last two keys work, too.
    "works process_name numprocs numprocs_start redirect_stderr stopasgroup killasgroup": "",
    "differs:mode autorestart": "a service is always started again; a script, without `mode`, runs once",
    "differs:mode exitcodes": "fnd starts a service again after each exit code",
    "differs startsecs startretries": "fnd never gives up; after five ends in a minute a service is `crash-looping`",
    "not-here priority": "functions have no order: a service is started again until it works",
    "not-here serverurl": "there is no supervisord",
    "refused umask": "expected a mask such as `022`",
    "not-here \
     stdout_logfile stdout_logfile_maxbytes stdout_logfile_backups stdout_capture_maxbytes stdout_events_enabled stdout_syslog \
     stderr_logfile stderr_logfile_maxbytes stderr_logfile_backups stderr_capture_maxbytes stderr_events_enabled stderr_syslog":
        "fnd keeps the output itself: `fndctl logs`",
    "refused socket socket_backlog socket_owner socket_mode": "fnd opens no FastCGI socket for a program",
};

/// Keys of a program that are not in [`ROWS`].
const OTHERS: &str = "command directory environment user autostart stopsignal stopwaitsecs";

/// Why a directory is refused.
const NO_DIRECTORY: &str =
    "write an absolute path: supervisord begins a relative one where it runs itself, and `~` is the home of its user";

/// How long supervisord waits between its signal and SIGKILL.
const GRACE: &str = "10s";

/// The most functions of one program.
const PROCESSES_MAX: u32 = 100;

/// Makes functions of the programs.
fn programs(text: &ImportText, machine: SupervisordMachine<'_>) -> Imported {
    let mut imported = Imported::new(format!("Made of {} by `fndctl import supervisord`.", text.name));
    let (sections, bad) = sections(text);
    let report = &mut imported.report;
    for field in bad {
        report.refused(&field, "expected `key=value`, a section or a comment");
    }
    let mut names = ImportedNames::default();
    let common = CommonSettings::of(&sections, machine, report);
    for section in &sections {
        let report = &mut imported.report;
        let kind = section.name.split_inclusive(':').next().unwrap_or_default();
        match section.name.split_once(':') {
            // A FastCGI program is read like another one. Its key `socket` is refused.
            Some(("program" | "fcgi-program", name)) => {
                let (made, rows) = program(section, name.trim(), &mut names, &common);
                imported.functions.extend(made);
                imported.report.rows.extend(rows.rows);
            }
            // `CommonSettings` has reported it.
            None if section.name == "supervisord" => {}
            _ if reported(SECTIONS, kind, report, &section.field) => {}
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
    let differs = |key: &str| value(key).is_some_and(|item| item.value.contains("%(process_num)"));
    let differ = ["command", "environment", "directory"].into_iter().any(differs);
    let (number, replicas) = if differ { (count, 1) } else { (1, count) };
    let is = |key: &str, values: &[&str]| {
        let found = value(key).map(|item| item.value.to_ascii_lowercase());
        found.is_some_and(|text| values.contains(&text.as_str()))
    };
    let mut functions = Vec::new();
    for process in first..first + number {
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
            replicas,
            once: replicas == 1 && is("autorestart", &["false", "no", "off", "0"]) && is("startsecs", &["0"]),
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
    /// Whether it runs once, and supervisord does not wait for it to stay up.
    once: bool,
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
        if self.once {
            // supervisord gives a program any time.
            self.made.manifest.set("limits.timeout", "none", None);
        } else {
            self.made.manifest.set("mode", "service", None);
        }
        self.made.manifest.set("limits.grace", GRACE, None);
        for (name, value, field) in &self.common.variables {
            self.made.manifest.set_in("env", name, value.as_str(), Some(field));
        }
        let says = |key: &str| section.items.iter().any(|item| item.key == key);
        if let Some((user, field)) = self.common.user.as_ref().filter(|_| !says("user")) {
            let users = self.common.machine.users;
            users.named(&mut self.made, &mut self.report, user, field);
        }
        // The command comes last: it writes the script, which needs the directory and the mask.
        let (command, others): (Vec<&SupervisordSetting>, Vec<&SupervisordSetting>) =
            section.items.iter().partition(|item| item.key == "command");
        for item in others {
            let value = self.expanded(&item.value);
            let taken = value.and_then(|value| self.item(item, &value));
            refuse(&mut self.report, taken, &item.field);
        }
        absent(ABSENT, &mut self.report, |key| {
            let is_common = match key {
                "user" => self.common.user.is_some() || self.common.machine.users.is_caller(),
                "directory" => self.common.directory.is_some(),
                "environment" => !self.common.variables.is_empty(),
                _ => false,
            };
            let is_of_services = key == "startretries" && self.once;
            (!is_common && !is_of_services && !says(key)).then(|| Field {
                name: key.to_owned(),
                ..section.field.clone()
            })
        });
        let Some(item) = command.last() else {
            return self.report.refused(&section.field, "the program has no `command`");
        };
        let taken = self.command(item);
        refuse(&mut self.report, taken, &item.field);
    }

    fn item(&mut self, item: &SupervisordSetting, value: &str) -> Result<(), String> {
        let (report, field, made) = (&mut self.report, &item.field, &mut self.made);
        let truth = matches!(value.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1");
        let boolean = truth || matches!(value.to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0");
        match item.key.as_str() {
            "autostart" | "redirect_stderr" | "stopasgroup" | "killasgroup" if !boolean => {
                return Err(format!("`{value}` is neither `true` nor `false`"));
            }
            "autorestart" if !boolean && !value.eq_ignore_ascii_case("unexpected") => {
                return Err(format!("`{value}` is none of `true`, `false` and `unexpected`"));
            }
            "numprocs" if self.replicas > 1 => made.works(report, "service.replicas", i64::from(self.replicas), field),
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
            "environment" => {
                for (name, value) in variables(value)? {
                    made.manifest.set_in("env", &name, value, Some(field));
                }
                report.works(field, "env");
            }
            "user" => self.common.machine.users.named(made, report, value, field),
            "autostart" if truth => report.works(field, ""),
            "autostart" => made.differs(report, ("enabled", false), field, "`fndctl enable F` starts it"),
            "autorestart" if truth => report.works(field, "mode"),
            "autorestart" if value.eq_ignore_ascii_case("unexpected") => report.differs(field, "mode", RESTARTS),
            "autorestart" if self.once => report.differs(field, "mode", ONCE),
            "startsecs" if self.once => report.works(field, "mode"),
            "startretries" if self.once => report.works(field, ""),
            "stopsignal" => stop_signal(made, report, (field, value), !self.once),
            "stopwaitsecs" if is_killed_at_once(made, report, field) => {}
            "stopwaitsecs" => {
                let seconds = within(value, 1..=u32::MAX).ok_or("expected a number of seconds")?;
                made.works(report, "limits.grace", format!("{seconds}s"), field);
            }
            key if reported(ROWS, key, report, field) => {}
            key => report.unknown(field, &unknown_key("supervisord has no such key", key, ROWS, OTHERS)),
        }
        Ok(())
    }

    fn command(&mut self, item: &SupervisordSetting) -> Result<(), String> {
        let words = split(&self.expanded(&item.value)?).ok_or("a quote is not closed")?;
        let (program, arguments) = words.split_first().ok_or("there is no command")?;
        let mut code = std::mem::replace(&mut self.code, ScriptCode::new("/bin/bash"));
        if let Some(mask) = &self.umask {
            code.line(format!("umask {mask}"));
        }
        // supervisord looks for a name without a directory in its `PATH`, and so does bash.
        let start = code.program(program, self.common.machine.read);
        code.places.of_command(&words.join(" "));
        if let Some(directory) = &self.directory {
            code.begin_in(directory);
        }
        let arguments: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
        code.line(format!("exec {}", [&[start][..], &arguments].concat().join(" ")));
        let what = "it runs in the sandbox, as a user of its own, with the default limits";
        let note = code.put_noted(&mut self.made, what);
        self.report.differs(&item.field, "entry", &note);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
