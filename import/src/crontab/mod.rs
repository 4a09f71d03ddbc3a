//! `fndctl import crontab`: a function for each line of a crontab.
//!
//! Files:
//! - `background`: programs that a command leaves in the background
//! - `fuzzing`: what the fuzzer and tests may call
//! - `parse`: the lines of a crontab
//! - `times`: its times in the words of fnd

mod background;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod parse;
mod times;

use super::Imported;
use super::names::{ImportedNames, of_command};
use super::rows::{KeyTexts, absent};
use super::script::{self, ReadScript, ScriptCode};
use super::text::ImportText;
use super::users::ImportedUsers;
use crate::failure::{FailureKind, ImportFailure};
use fnd_manifest::foreign::{ConversionReport, Field, FieldVerdict, MadeManifest, Row};
use nix::unistd::User;
use parse::{CrontabEntry, CrontabLine, EntryTime};
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

/// # Errors
/// It cannot be read.
pub fn import(args: &CrontabOptions, users: ImportedUsers) -> Result<Imported, ImportFailure> {
    let (text, has_users) = match (&args.file, &args.user_of) {
        (Some(file), _) => (ImportText::read(file)?, args.user_column || names_users(file)),
        // A crontab of one user has no column with users (crontab(5)).
        (None, user) => (listed(user.as_deref().unwrap_or_default())?, false),
    };
    let machine = CrontabMachine {
        read: script::reader(args.link),
        users,
        user: args.user_of.clone(),
        is_user: &is_user,
    };
    Ok(CrontabImport::new(&text, machine).make(&parse::lines(&text, has_users)))
}

/// The facts about the machine.
struct CrontabMachine<'a> {
    read: ReadScript,
    users: ImportedUsers,
    /// The user whose crontab it is, if that is known.
    user: Option<String>,
    /// Says whether a word is a user of the machine, and no program.
    is_user: &'a dyn Fn(&str) -> bool,
}

/// Users that many machines have, also if this one has not.
const USERS: [&str; 5] = ["root", "nobody", "www-data", "ubuntu", "ec2-user"];

fn is_user(word: &str) -> bool {
    let mut directories = "/usr/local/bin /usr/bin /bin /usr/local/sbin /usr/sbin /sbin".split(' ');
    let mut is_program = || directories.any(|directory| Path::new(directory).join(word).is_file());
    !word.contains('/')
        && (USERS.contains(&word) || User::from_name(word).is_ok_and(|user| user.is_some()) && !is_program())
}

/// Says whether the lines of a file name users, by its place.
fn names_users(file: &Path) -> bool {
    let full = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let directory = full.parent().and_then(Path::file_name);
    directory.is_some_and(|name| name == "cron.d") || full == Path::new("/etc/crontab")
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
    let text = String::from_utf8(output.stdout)
        .map_err(|_| ImportFailure::invalid(format!("the crontab of {user} is no text in UTF-8")))?;
    Ok(ImportText::new(&format!("crontab of {user}"), &text))
}

/// Makes functions of the lines, in their order: a variable holds for the lines after it.
struct CrontabImport<'a> {
    text: &'a ImportText,
    machine: CrontabMachine<'a>,
    names: ImportedNames,
    report: ConversionReport,
    /// The variables in force.
    env: Vec<(String, String, Field)>,
    shell: String,
    zone: Option<(String, Field)>,
    delay: Option<(u64, Field)>,
}

/// Variables without which cron does something else than fnd.
const ABSENT: KeyTexts = fnd_manifest::texts! {
    "MAILTO": "cron mails each output to the owner of the crontab; fnd keeps it (`fndctl logs`), and `[alert]` tells of failures",
    "PATH env.PATH": "cron's is /usr/bin:/bin; a function's begins with /usr/local/bin",
};

const LIMITS: &str = "it runs in the sandbox, in a home of its own, with the default limits of memory and processes, and one run at a time";

impl<'a> CrontabImport<'a> {
    fn new(text: &'a ImportText, machine: CrontabMachine<'a>) -> Self {
        Self {
            text,
            machine,
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
        let has_column = self.has_column(lines);
        if has_column {
            let why = "each line names a user before the command: say `--user-column`";
            self.report.refused(&self.text.whole("user"), why);
        }
        for line in lines.iter().filter(|_| !has_column) {
            match line {
                CrontabLine::Variable { line, name, value } => self.variable(*line, name, value),
                CrontabLine::Entry(entry) => functions.extend(self.entry(entry)),
                CrontabLine::Bad { line, column, why } => {
                    self.report.refused(&self.text.field("line", *line, *column), why);
                }
            }
        }
        if !functions.is_empty() {
            self.absent(lines);
        }
        if lines.is_empty() {
            self.report
                .refused(&self.text.whole("crontab"), "there is no line with a command");
        }
        Imported {
            functions,
            report: self.report,
            ..Imported::new(format!(
                "Made of {} by `fndctl import crontab`. cron limits nothing, so `timeout` is \"none\": write your own\n\
                 limits.",
                self.text.name
            ))
        }
    }

    /// Reports variables and users that no line names.
    fn absent(&mut self, lines: &[CrontabLine]) {
        absent(ABSENT, &mut self.report, |name| {
            let is_set = |line: &CrontabLine| matches!(line, CrontabLine::Variable { name: set, .. } if set == name);
            (!lines.iter().any(is_set)).then(|| self.text.whole(name))
        });
        let has_user = |line: &CrontabLine| matches!(line, CrontabLine::Entry(entry) if entry.user.is_some());
        if self.machine.user.is_none() && !self.machine.users.is_caller() && !lines.iter().any(has_user) {
            let note = "the file does not say whose crontab it is: each function has a user of its own; `-u USER` reads that of a user";
            self.report.differs(&self.text.whole("user"), "", note);
        }
    }

    /// Says whether each line names a user, though nobody said so.
    fn has_column(&self, lines: &[CrontabLine]) -> bool {
        let mut entries = lines.iter().filter_map(|line| match line {
            CrontabLine::Entry(entry) => Some(entry),
            _ => None,
        });
        let names_user = |entry: &CrontabEntry| self.user_before(entry).is_some();
        entries.clone().next().is_some() && entries.all(names_user)
    }

    /// Returns the first word of a command, if it is a user and no program.
    fn user_before<'e>(&self, entry: &'e CrontabEntry) -> Option<&'e str> {
        let mut words = entry.command.split_whitespace();
        let first = words.next().filter(|_| entry.user.is_none() && words.next().is_some());
        first.filter(|word| (self.machine.is_user)(word))
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
                let note = "cronie uses it; Debian's cron ignores it (crontab(5)), and its jobs run in the zone of the machine";
                report.differs(&field, "schedule.timezone", note);
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

    /// Makes the function of a line; nothing if it is refused.
    fn entry(&mut self, entry: &CrontabEntry) -> Option<MadeManifest> {
        let before = self.report.rows.len();
        let made = self.function(entry);
        let is_refused = |row: &Row| row.verdict == FieldVerdict::Refused;
        let refused = self.report.rows.iter().skip(before).any(is_refused);
        (!refused).then_some(made)
    }

    fn function(&mut self, entry: &CrontabEntry) -> MadeManifest {
        let mut made = MadeManifest::new(&self.names.unique(&of_command(&entry.command)));
        if let Some(comment) = &entry.comment {
            made.manifest.set("description", comment.clone(), None);
        }
        self.time(&mut made, entry);
        // cron ends no command, however long it takes.
        made.manifest.set("limits.timeout", "none", None);
        let field = |name: &str, column| self.text.field(name, entry.line, column);
        let CrontabMachine { users, user, .. } = &self.machine;
        match (&entry.user, user) {
            (Some((user, column)), _) => users.named(&mut made, &mut self.report, user, &field("user", *column)),
            // Somebody's own fnd runs every function as this person.
            _ if users.is_caller() => {}
            (None, Some(user)) => users.named(&mut made, &mut self.report, user, &field("user", 1)),
            (None, None) => {}
        }
        if let Some(word) = self.user_before(entry) {
            let why = format!(
                "`{word}` is a user: if each line names one, say `--user-column`; write a program of this name with its path"
            );
            self.report.refused(&field("command", entry.command_column), &why);
        }
        for (name, value, field) in &self.env {
            made.manifest.set_in("env", name, value.clone(), Some(field));
        }
        let note = self.code(entry).put_noted(&mut made, LIMITS) + background::note(&entry.command);
        let field = field("command", entry.command_column);
        self.report.differs(&field, "entry", &note);
        made
    }

    fn time(&mut self, made: &mut MadeManifest, entry: &CrontabEntry) {
        let field = |name: &str| self.text.field(name, entry.line, entry.time_column);
        let (key, value, field) = match &entry.time {
            EntryTime::Boot => ("at", "boot", field("@reboot")),
            EntryTime::Cron(cron) => ("cron", cron.line.as_str(), field("schedule")),
        };
        let mut keys = vec![(key, Value::from(value), Some(field.clone()))];
        if let (EntryTime::Cron(_), Some((zone, field))) = (&entry.time, &self.zone) {
            keys.push(("timezone", Value::from(zone.as_str()), Some(field.clone())));
        }
        if let Some((minutes, field)) = &self.delay {
            keys.push(("jitter", Value::from(format!("{minutes}m")), Some(field.clone())));
        }
        made.manifest.push("schedule", keys);
        match &entry.time {
            EntryTime::Boot => {
                let note = "a program that goes on running is rather a service: `[service]` starts it again, too";
                self.report
                    .add(&field, FieldVerdict::Works, Some("schedule.at"), Some(note));
            }
            EntryTime::Cron(cron) if cron.random => {
                let note = "fnd chooses the number once for this function and host, not at each start";
                self.report.differs(&field, "schedule.cron", note);
            }
            EntryTime::Cron(_) => self.report.works(&field, "schedule.cron"),
        }
    }

    /// Returns the script: in the home directory, as cron runs it.
    fn code(&self, entry: &CrontabEntry) -> ScriptCode {
        let mut code = ScriptCode::new(&self.shell);
        // In a command with several parts, `exec` would end the line with its first part.
        let (line, _) = background::foreground(&entry.command);
        let words = script::simple(line);
        let command = match words.as_deref() {
            Some([program, arguments @ ..]) => {
                let program = code.program(program, self.machine.read);
                format!("exec {}", [&[program.as_str()], arguments].concat().join(" "))
            }
            _ => line.to_owned(),
        };
        code.places.of_command(line);
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
    use crate::tests::testing::check_refused;

    fn made(text: &str, users: bool, link: bool) -> Imported {
        made_for(ImportedUsers::OwnForRoot, text, users, link)
    }

    fn made_for(users: ImportedUsers, text: &str, has_users: bool, link: bool) -> Imported {
        let text = ImportText::new("/etc/cron.d/shop", text);
        let read: ReadScript = |path| (path == "/opt/dump.sh").then(|| b"#!/bin/sh\n".to_vec());
        let machine = CrontabMachine {
            read: if link { script::LINK } else { read },
            users,
            user: None,
            is_user: &|word| word == "root" || word == "ada",
        };
        CrontabImport::new(&text, machine).make(&parse::lines(&text, has_users))
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
        assert_eq!(table["schedule"][0]["at"].as_str(), Some("boot"));
        assert!(!table.contains_key("on_load"));
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
        assert_eq!(row(3, "CRON_TZ").verdict, FieldVerdict::Differs);
        assert_eq!(row(2, "PATH").becomes.as_deref(), Some("env.PATH"));
        let user = row(6, "user");
        assert_eq!((user.verdict, user.column), (FieldVerdict::Differs, 12));
        assert!(user.note.as_ref().unwrap().contains("allow = [\"shop\"]"));
        assert!(row(9, "user").note.as_ref().unwrap().contains("allow_root"));
        let bad = row(10, "line");
        assert_eq!((bad.verdict, bad.column), (FieldVerdict::Refused, 1));
        assert_eq!(row(11, "@reboot").becomes.as_deref(), Some("schedule.at"));
        assert_eq!(rows.len(), 15);
    }

    #[test]
    fn what_root_ran_is_refused_unless_an_own_user_is_asked_for() {
        let imported = made_for(ImportedUsers::Named, SHOP, true, false);
        let names: Vec<_> = imported.functions.iter().map(|made| made.name.as_str()).collect();
        assert_eq!(names, ["dump", "cat"]);
        check_refused(&imported.report, "what of this needs root?", SHOP);
    }

    #[test]
    fn a_user_of_a_line_is_named_for_somebodys_own_fnd_too() {
        let imported = made_for(ImportedUsers::Caller, "@daily root /bin/true\n", true, false);
        let user = imported.report.rows.iter().find(|row| row.field == "user").unwrap();
        assert_eq!((user.verdict, imported.functions.len()), (FieldVerdict::NotHere, 1));
    }

    /// A file with users under a name that does not say so: the user must not become the command.
    #[test]
    fn a_user_is_no_command() {
        let imported = made(
            "0 3 * * * root /opt/dump.sh\n@daily ada\n@daily ada=1 x\n0 4 * * * /bin/ls x\n",
            false,
            false,
        );
        let names: Vec<_> = imported.functions.iter().map(|made| made.name.as_str()).collect();
        assert_eq!(names, ["ada", "x", "ls"]);
        check_refused(&imported.report, "`root` is a user", "");
        let whose = imported.report.rows.iter().find(|row| row.field == "user").unwrap();
        assert!(whose.note.as_ref().unwrap().contains("whose crontab"));
        // Where each line has one, one row says so.
        let imported = made("A=b\n0 3 * * * root /opt/dump.sh\n0 4 * * * ada /opt/x\n", false, false);
        check_refused(&imported.report, "say `--user-column`", "");
        assert_eq!((imported.functions.len(), imported.report.rows.len()), (0, 1));
        // And the other way round.
        let imported = made("0 3 * * * /opt/dump.sh --all\n", true, false);
        check_refused(&imported.report, "`/opt/dump.sh` is no user", "");
    }

    #[test]
    fn a_program_in_the_background_is_the_run() {
        let imported = made("@reboot /opt/dump.sh --all &\n", false, false);
        assert!(code(&imported.functions[0]).ends_with("exec \"$code\"/dump.sh --all\n"));
        let rows = &imported.report.rows;
        let command = rows.iter().find(|row| row.field == "command").unwrap();
        assert!(
            command
                .note
                .as_ref()
                .unwrap()
                .contains("the `&` at the end was left out")
        );
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
