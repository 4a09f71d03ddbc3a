//! `fndctl import crontab`: a function for each line of a crontab.
//!
//! Files:
//! - `fuzzing`: what the fuzzer may call
//! - `parse`: the lines of a crontab
//! - `times`: its times in the words of fnd

#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod parse;
mod times;

use super::Imported;
use super::names::{ImportedNames, of_command};
use super::places;
use super::script::{self, ScriptCode, Scripts};
use super::text::ImportText;
use crate::failure::{FailureKind, ImportFailure};
use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use parse::{CrontabEntry, CrontabLine, Time};
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::Value;

/// Which crontab is read, and how.
#[derive(Debug)]
pub struct CrontabOptions {
    /// The file; absent for the crontab of a user.
    pub file: Option<PathBuf>,
    /// The user whose crontab is read; absent for a file.
    pub user_of: Option<String>,
    /// Whether each line names a user, wherever the file is.
    pub user_column: bool,
    /// Whether scripts stay where they are; otherwise they are copied.
    pub link: bool,
}

/// Reads a crontab.
///
/// # Errors
/// It cannot be read.
pub fn import(args: &CrontabOptions, own: bool) -> Result<Imported, ImportFailure> {
    let (text, users) = match (&args.file, &args.user_of) {
        (Some(file), _) => (ImportText::read(file)?, args.user_column || names_users(file)),
        // A crontab of one user has no column with users (crontab(5)).
        (None, user) => (listed(user.as_deref().unwrap_or_default())?, false),
    };
    let scripts = Scripts {
        link: args.link,
        read: script::read,
    };
    // Somebody's own fnd runs every function as this person.
    let user = args.user_of.clone().filter(|_| !own);
    Ok(CrontabImport::new(&text, scripts, user, own).make(&parse::lines(&text, users)))
}

/// Says whether the lines of a file name users, by its place.
fn names_users(file: &Path) -> bool {
    let directory = file.parent().and_then(Path::file_name);
    directory.is_some_and(|name| name == "cron.d") || file == Path::new("/etc/crontab")
}

/// Returns what `crontab -l` prints.
fn listed(user: &str) -> Result<ImportText, ImportFailure> {
    // Only cron's own program may read the directory of crontabs.
    let output = Command::new("crontab").args(["-l", "-u", user]).output();
    let output = output.map_err(|error| {
        ImportFailure::usage(format!("failed to run `crontab -l -u {user}`: {error}"))
            .help("name the file of the crontab")
    })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        let message = format!("`crontab -l -u {user}` failed: {}", message.trim());
        return Err(ImportFailure::new(FailureKind::NoSuchThing, message));
    }
    let text = String::from_utf8(output.stdout).map_err(|_| {
        ImportFailure::new(
            FailureKind::InvalidManifest,
            format!("the crontab of {user} is no text in UTF-8"),
        )
    })?;
    Ok(ImportText::new(&format!("crontab of {user}"), &text))
}

/// Makes functions of the lines, in their order: a variable holds for the lines after it.
struct CrontabImport<'a> {
    text: &'a ImportText,
    scripts: Scripts,
    /// The user whose crontab it is.
    user: Option<String>,
    /// Whether the functions are for somebody's own fnd, which has one user.
    own: bool,
    names: ImportedNames,
    report: ConversionReport,
    /// The variables in force.
    env: Vec<(String, String, Field)>,
    shell: String,
    zone: Option<(String, Field)>,
    delay: Option<(u64, Field)>,
}

const LIMITS: &str = "it runs in the sandbox, in a home of its own, with the default limits of memory and processes, and one run at a time";

impl<'a> CrontabImport<'a> {
    fn new(text: &'a ImportText, scripts: Scripts, user: Option<String>, own: bool) -> Self {
        Self {
            text,
            scripts,
            user,
            own,
            names: ImportedNames::default(),
            report: ConversionReport::default(),
            env: Vec::new(),
            shell: "/bin/sh".to_owned(),
            zone: None,
            delay: None,
        }
    }

    fn make(mut self, lines: &[CrontabLine]) -> Imported {
        let mut functions = Vec::new();
        for line in lines {
            match line {
                CrontabLine::Variable { line, name, value } => self.variable(*line, name, value),
                CrontabLine::Entry(entry) => functions.push(self.entry(entry)),
                CrontabLine::Bad { line, column, why } => {
                    self.report.refused(&self.text.field("line", *line, *column), why);
                }
            }
        }
        if lines.is_empty() {
            self.report
                .refused(&self.text.whole("crontab"), "there is no line with a command");
        }
        Imported {
            functions,
            report: self.report,
            head: format!(
                "Made of {} by `fndctl import crontab`. cron limits nothing, so `timeout` is \"none\": write your own\n\
                 limits.",
                self.text.name
            ),
            ..Imported::default()
        }
    }

    /// Takes a variable over, for the lines after it.
    fn variable(&mut self, line: usize, name: &str, value: &str) {
        let field = self.text.field(name, line, 1);
        let report = &mut self.report;
        match name {
            // cron sends no mail then, so fnd does the same.
            "MAILTO" if value.is_empty() => report.works(&field, ""),
            "MAILTO" | "MAILFROM" => report.not_here(
                &field,
                "fnd sends no mail for each output, which it keeps (`fndctl logs`); to be told of failures, use `[alert]` with \
                 the example `mail.py` (docs/alerts.md)",
            ),
            "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => report.not_here(&field, "it is about mails"),
            "CRON_TZ" if fnd_manifest::cron::zone(value).is_some() => {
                report.works(&field, "schedule.timezone");
                self.zone = Some((value.to_owned(), field));
            }
            "CRON_TZ" => report.refused(&field, &format!("no time zone has the name `{value}`")),
            "RANDOM_DELAY" => match value.parse::<u64>() {
                Ok(minutes) if minutes <= 24 * 60 => {
                    report.works(&field, "schedule.jitter");
                    self.delay = Some((minutes, field)).filter(|(minutes, _)| *minutes > 0);
                }
                _ => report.refused(&field, "expected a number of minutes"),
            },
            "SHELL" if value.starts_with('/') && !value.contains([' ', '\t']) => {
                report.works(&field, "entry");
                value.clone_into(&mut self.shell);
                // cron passes `SHELL` to the command, too.
                self.set(name, value, field);
            }
            "SHELL" => report.refused(&field, "expected the absolute path of a shell"),
            "LOGNAME" | "USER" => report.not_here(&field, "cron does not let a crontab change it, either"),
            _ if name.starts_with("FND_") => report.refused(&field, "fnd itself sets variables with names like this"),
            _ => {
                report.works(&field, &format!("env.{name}"));
                self.set(name, value, field);
            }
        }
    }

    fn set(&mut self, name: &str, value: &str, field: Field) {
        self.env.retain(|(known, ..)| known != name);
        self.env.push((name.to_owned(), value.to_owned(), field));
    }

    fn entry(&mut self, entry: &CrontabEntry) -> MadeManifest {
        let mut made = MadeManifest::new(&self.names.unique(&of_command(&entry.command)));
        if let Some(comment) = &entry.comment {
            made.manifest.set("description", comment.clone(), None);
        }
        self.time(&mut made, entry);
        // cron ends no command, however long it takes.
        made.manifest.set("limits.timeout", "none", None);
        let field = |name: &str, column| self.text.field(name, entry.line, column);
        match (&entry.user, &self.user) {
            _ if self.own => {}
            (Some((user, column)), _) => places::user(&mut made, &mut self.report, user, &field("user", *column)),
            (None, Some(user)) => places::user(&mut made, &mut self.report, user, &field("user", 1)),
            (None, None) => {}
        }
        for (name, value, field) in &self.env {
            made.manifest.set_in("env", name, value.clone(), Some(field));
        }
        let code = self.code(entry);
        let copied = if code.copied() { "the script was copied; " } else { "" };
        let notes = code.put(&mut made);
        let field = field("command", entry.command_column);
        self.report
            .differs(&field, "entry", &format!("{copied}{LIMITS}{notes}"));
        made
    }

    fn time(&mut self, made: &mut MadeManifest, entry: &CrontabEntry) {
        let field = |name: &str| self.text.field(name, entry.line, entry.time_column);
        let Time::Cron(cron) = &entry.time else {
            let note =
                "it runs once when it is saved, not at each boot; a program that stays is a service: `[service]`";
            made.differs(&mut self.report, ("on_load", true), &field("@reboot"), note);
            return;
        };
        let field = field("schedule");
        let mut keys = vec![("cron", Value::from(cron.line.as_str()), Some(field.clone()))];
        if let Some((zone, field)) = &self.zone {
            keys.push(("timezone", Value::from(zone.as_str()), Some(field.clone())));
        }
        if let Some((minutes, field)) = &self.delay {
            keys.push(("jitter", Value::from(format!("{minutes}m")), Some(field.clone())));
        }
        made.manifest.push("schedule", keys);
        if cron.random {
            let note = "fnd chooses the number once for this function and host, not at each start";
            self.report.differs(&field, "schedule.cron", note);
        } else {
            self.report.works(&field, "schedule.cron");
        }
    }

    /// Returns the script: in the home directory, as cron runs it.
    fn code(&self, entry: &CrontabEntry) -> ScriptCode {
        let mut code = ScriptCode::new(&self.shell);
        // In a command with several parts, `exec` would end the line with its first part.
        let words = script::simple(&entry.command);
        let command = match words.as_deref() {
            Some([program, arguments @ ..]) => {
                let program = code.program(program, self.scripts);
                format!("exec {}", [&[program.as_str()], arguments].concat().join(" "))
            }
            _ => entry.command.clone(),
        };
        code.places.of_command(&entry.command);
        // The command begins in this directory, so the sandbox must show it.
        for (_, value, _) in self.env.iter().filter(|(name, ..)| name == "HOME") {
            code.places.add(value, false);
        }
        code.line("cd \"$HOME\" || exit");
        if let Some(input) = &entry.input {
            // A word that is no line of the input.
            let mut end = "END".to_owned();
            while input.lines().any(|line| line == end) {
                end.push('_');
            }
            // As the input of the shell, the text reaches whichever command of the line reads first, as with cron.
            code.line(format!("exec <<'{end}'\n{input}{end}"));
        }
        code.line(command);
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_manifest::foreign::FieldVerdict;

    fn made(text: &str, users: bool, link: bool) -> Imported {
        let text = ImportText::new("/etc/cron.d/shop", text);
        let read = |path: &str| (path == "/opt/dump.sh").then(|| b"#!/bin/sh\n".to_vec());
        CrontabImport::new(&text, Scripts { link, read }, None, false).make(&parse::lines(&text, users))
    }

    fn manifest(made: &MadeManifest) -> toml::Table {
        toml::from_str(&made.manifest.render("x").0).unwrap()
    }

    fn code(made: &MadeManifest) -> &str {
        str::from_utf8(&made.files[0].bytes).unwrap()
    }

    const SHOP: &str = "\
        MAILTO=ada@example.com\nPATH=/usr/bin:/bin\nCRON_TZ=Europe/Berlin\n\n# Dumps the shop\n30 2 * * * shop /opt/dump.sh --all\n\
        SHELL=/bin/bash\nMODE=quick\n*/5 * * * * root cd /srv/shop && ./check &>>/var/log/check.log\n\
        99 * * * * root true\n@reboot shop cat%a%b\n";

    #[test]
    fn each_line_is_a_function_with_the_variables_above_it() {
        let imported = made(SHOP, true, false);
        let names: Vec<_> = imported.functions.iter().map(|made| made.name.as_str()).collect();
        assert_eq!(names, ["dump", "check", "cat"]);
        let [dump, check, cat] = imported.functions.as_slice() else {
            panic!();
        };
        let table = manifest(dump);
        assert_eq!(table["description"].as_str(), Some("Dumps the shop"));
        assert_eq!(table["schedule"][0]["cron"].as_str(), Some("30 2 * * *"));
        assert_eq!(table["schedule"][0]["timezone"].as_str(), Some("Europe/Berlin"));
        assert_eq!(table["sandbox"]["user"].as_str(), Some("shop"));
        assert_eq!(table["env"].as_table().unwrap().len(), 1);
        assert_eq!(
            (table["entry"].as_str(), table["runtime"].as_str()),
            (Some("run"), Some("exec"))
        );
        assert_eq!(
            code(dump),
            "#!/bin/sh\ncode=$PWD\ncd \"$HOME\" || exit\nexec \"$code\"/dump.sh --all\n"
        );
        assert_eq!(
            (dump.files[1].path.as_str(), dump.files[1].executable),
            ("dump.sh", true)
        );
        let table = manifest(check);
        assert_eq!(table["env"]["MODE"].as_str(), Some("quick"));
        assert!(!table["sandbox"].as_table().unwrap().contains_key("user"));
        assert_eq!(table["sandbox"]["read_write"][0].as_str(), Some("/var/log"));
        assert_eq!(
            code(check),
            "#!/usr/bin/env bash\ncd \"$HOME\" || exit\ncd /srv/shop && ./check &>>/var/log/check.log\n"
        );
        let table = manifest(cat);
        assert_eq!(table["on_load"].as_bool(), Some(true));
        assert_eq!(
            code(cat),
            "#!/usr/bin/env bash\ncd \"$HOME\" || exit\nexec <<'END'\na\nb\nEND\nexec cat\n"
        );
    }

    #[test]
    fn every_field_is_reported_at_its_place() {
        let rows = made(SHOP, true, false).report.rows;
        let row = |line: u32, field: &str| rows.iter().find(|row| row.line == line && row.field == field).unwrap();
        assert_eq!(row(1, "MAILTO").verdict, FieldVerdict::NotHere);
        assert_eq!(row(2, "PATH").becomes.as_deref(), Some("env.PATH"));
        let user = row(6, "user");
        assert_eq!((user.verdict, user.column), (FieldVerdict::Differs, 12));
        assert!(user.note.as_ref().unwrap().contains("allow = [\"shop\"]"));
        assert!(row(9, "user").note.as_ref().unwrap().contains("allow_root"));
        let bad = row(10, "line");
        assert_eq!((bad.verdict, bad.column), (FieldVerdict::Refused, 1));
        assert_eq!(row(11, "@reboot").verdict, FieldVerdict::Differs);
        assert_eq!(rows.len(), 15);
    }

    #[test]
    fn a_linked_script_stays_where_it_is() {
        let imported = made("@daily /opt/dump.sh --all\n@daily /srv/x.sh\n", false, true);
        let [dump, x] = imported.functions.as_slice() else {
            panic!();
        };
        assert_eq!(code(dump), "#!/bin/sh\ncd \"$HOME\" || exit\nexec /opt/dump.sh --all\n");
        assert_eq!(dump.files.len(), 1);
        assert_eq!(manifest(x)["sandbox"]["read_only"][0].as_str(), Some("/srv/x.sh"));
    }

    #[test]
    fn a_crontab_without_lines_is_refused() {
        assert!(made("# nothing\n\n", false, false).report.is_refused());
        assert!(!made("A=b\n", false, false).report.is_refused());
    }
}
