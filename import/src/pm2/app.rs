//! The keys of an app.

use crate::places;
use crate::script::quoted;
use crate::script::{ScriptCode, split};
use crate::tree::NamedValue;
use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use fnd_wire::units::{parse_size, print_duration, print_size};
use std::path::Path;
use std::time::Duration;
use toml::Value;

/// Keys about files of output, which fnd keeps itself.
const OUTPUT: [&str; 14] = [
    "out_file",
    "error_file",
    "log_file",
    "output",
    "error",
    "log",
    "pid_file",
    "pid",
    "merge_logs",
    "combine_logs",
    "log_date_format",
    "log_type",
    "time",
    "disable_logs",
];

/// Keys that change nothing in what runs.
const NOTHING: [&str; 8] = [
    "name",
    "vizion",
    "automation",
    "pmx",
    "filter_env",
    "append_env_to_name",
    "treekill",
    "namespace",
];

/// Keys whose value is a text, a number, or `true` or `false`.
const SCALARS: [&str; 12] = [
    "name",
    "script",
    "cwd",
    "interpreter",
    "exec_interpreter",
    "exec_mode",
    "instances",
    "max_memory_restart",
    "restart_delay",
    "exp_backoff_restart_delay",
    "kill_timeout",
    "cron_restart",
];

/// A function on its way.
pub(super) struct App<'a> {
    pub(super) made: MadeManifest,
    pub(super) report: ConversionReport,
    base: &'a Path,
    env: Option<&'a str>,
    own: bool,
}

impl<'a> App<'a> {
    pub(super) fn new(name: &str, base: &'a Path, env: Option<&'a str>, own: bool) -> Self {
        Self {
            made: MadeManifest::new(name),
            report: ConversionReport::default(),
            base,
            env,
            own,
        }
    }

    /// Takes an app over.
    pub(super) fn read(&mut self, app: &NamedValue<'_>) {
        let restarts = app.truth_of("autorestart", true, &mut self.report);
        let instances = app.get("instances").map_or(1, |item| self.instances(&item, restarts));
        if restarts {
            self.made.manifest.set("mode", "service", None);
        } else {
            // pm2 gives a program any time.
            self.made.manifest.set("limits.timeout", "none", None);
        }
        for item in app.items() {
            self.item(&item, restarts, instances);
        }
        self.script(app);
    }

    fn item(&mut self, item: &NamedValue<'_>, restarts: bool, instances: u64) {
        let (report, field, made) = (&mut self.report, item.field(), &mut self.made);
        let text = item.text().unwrap_or_default();
        if SCALARS.contains(&item.key) && !item.is_scalar(report, &field) {
            return;
        }
        let milliseconds = || {
            text.parse::<u64>()
                .ok()
                .filter(|ms| *ms > 0)
                .map(Duration::from_millis)
                .map(print_duration)
        };
        match item.key {
            "script" | "args" | "interpreter" | "exec_interpreter" | "interpreter_args" | "node_args" | "cwd"
            | "instances" => {}
            "exec_mode" if text.starts_with("cluster") => {
                report.differs(
                    &field,
                    "service.replicas",
                    "processes of a function share no port: let it take a free one, or use `[http_server]`",
                );
            }
            "exec_mode" => report.works(&field, ""),
            "env" => self.variables(item),
            key if key.starts_with("env_") => {
                if key.strip_prefix("env_") == self.env {
                    self.variables(item);
                } else {
                    report.not_here(&field, "`--env NAME` takes it over");
                }
            }
            // pm2 counts each process by itself, while the limit of a function holds for all of them together.
            "max_memory_restart" => match parse_size(&text)
                .ok()
                .and_then(|size| size.checked_mul(instances))
                .filter(|size| *size > 0)
            {
                Some(size) => {
                    let note = "a limit of the kernel for all processes of the function: the one that exceeds it is ended, and started again";
                    made.differs(report, ("limits.memory", print_size(size)), &field, note);
                }
                None => report.refused(&field, &format!("`{text}` is no size such as `200M`")),
            },
            // Without `autorestart` pm2 starts the program only at these times.
            "cron_restart" | "cron" if !restarts => self.schedule(&field, &text),
            "cron_restart" | "cron" => report.not_here(
                &field,
                "fnd does not restart a service at a time; a schedule can: `fndctl cancel --all F` in a crontab",
            ),
            "autorestart" if restarts => report.works(&field, ""),
            "autorestart" => report.differs(
                &field,
                "mode",
                "a script: it runs by its schedule, or once when it is saved",
            ),
            "restart_delay" | "exp_backoff_restart_delay" => match milliseconds() {
                Some(delay) if restarts => {
                    report.works(&field, "retry.interval");
                    made.manifest.set("retry.interval", delay, Some(&field));
                    // This pause is the same each time; the other one grows.
                    if item.key == "restart_delay" {
                        made.manifest.set("retry.backoff", "fixed", None);
                        made.manifest.set("retry.jitter", "none", None);
                    } else {
                        // pm2 does not wait longer, either.
                        made.manifest.set("retry.max_interval", "15s", None);
                    }
                }
                _ => report.works(&field, ""),
            },
            "kill_timeout" => match milliseconds() {
                Some(grace) => made.works(report, "limits.grace", grace, &field),
                None => report.refused(&field, "expected a number of milliseconds"),
            },
            "max_restarts" | "min_uptime" | "stop_exit_codes" => {
                report.differs(
                    &field,
                    "",
                    "fnd never gives up; after five ends in a minute a service is `crash-looping`",
                );
            }
            "wait_ready" | "listen_timeout" => report.not_here(&field, "`[service] ready` asks a path of the program"),
            "shutdown_with_message" => report.not_here(&field, "fnd sends SIGTERM"),
            "watch" | "ignore_watch" | "watch_delay" | "watch_options" => report.not_here(
                &field,
                "fnd notices a saved function; it does not watch code in other directories",
            ),
            "uid" | "user" if !self.own => places::user(made, report, &text, &field),
            "gid" if !self.own => {
                let note = "fnd.toml must allow the group: `allow` in `[users]`";
                made.differs(
                    report,
                    ("sandbox.groups", Value::Array(vec![Value::from(text)])),
                    &field,
                    note,
                );
            }
            key if OUTPUT.contains(&key) => report.not_here(&field, "fnd keeps the output itself: `fndctl logs`"),
            key if NOTHING.contains(&key) => report.works(&field, ""),
            "source_map_support" | "instance_var" | "increment_var" | "post_update" | "force" | "uid" | "user"
            | "gid" | "max_memory" | "trace" | "disable_trace" | "port" => {
                report.not_here(&field, "fnd has nothing like it");
            }
            _ => report.unknown(&field, "pm2 has no such key"),
        }
    }

    fn instances(&mut self, item: &NamedValue<'_>, restarts: bool) -> u64 {
        let text = item.text().unwrap_or_default();
        let field = item.field();
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        // `-1`: all CPUs but one, and at least one.
        let fewer = text.strip_prefix('-').map(str::parse::<u64>);
        // For pm2 `0` means `max`, too.
        let every = matches!(text.as_str(), "max" | "0") || matches!(fewer, Some(Ok(_)));
        let count = match fewer {
            Some(Ok(fewer)) => cpus.saturating_sub(fewer).max(1),
            _ if every => cpus,
            _ => text.parse().unwrap_or(0),
        };
        match i64::try_from(count).ok().filter(|count| (1..=1000).contains(count)) {
            Some(_) if !restarts => self.report.not_here(&field, "a script runs once at a time"),
            Some(number) if every => {
                let note = "by the number of CPUs of this machine";
                self.made
                    .differs(&mut self.report, ("service.replicas", number), &field, note);
            }
            Some(number) => self.made.works(&mut self.report, "service.replicas", number, &field),
            None => self.report.refused(&field, "expected a number of processes, or `max`"),
        }
        count.max(1)
    }

    fn variables(&mut self, item: &NamedValue<'_>) {
        for variable in item.items() {
            let name = variable.key;
            let field = variable.named(&format!("{}.{name}", item.key));
            let valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && !name.starts_with(|c: char| c.is_ascii_digit());
            match variable
                .text()
                .filter(|_| valid && !name.is_empty() && !name.starts_with("FND_"))
            {
                Some(value) => {
                    self.report.works(&field, &format!("env.{name}"));
                    self.made.manifest.set_in("env", name, value, Some(&field));
                }
                None => self.report.refused(&field, "it is no name or no value of a variable"),
            }
        }
    }

    fn schedule(&mut self, field: &Field, line: &str) {
        match fnd_manifest::cron::Cron::parse(line, 0) {
            Ok(_) => {
                self.report.works(field, "schedule.cron");
                self.made
                    .manifest
                    .push("schedule", [("cron", Value::from(line), Some(field.clone()))]);
            }
            Err(why) => self.report.refused(field, &why),
        }
    }

    /// Returns the words of a key: a list, or a text that is split.
    fn words(&mut self, app: &NamedValue<'_>, key: &str) -> Vec<String> {
        let Some(item) = app.get(key) else {
            return Vec::new();
        };
        self.report.works(&item.field(), "entry");
        if item.is_list() {
            return item.items().iter().filter_map(NamedValue::text).collect();
        }
        let words = split(&item.text().unwrap_or_default());
        if words.is_none() {
            self.report.refused(&item.field(), "a quote is not closed");
        }
        words.unwrap_or_default()
    }

    /// Writes the script: it starts the program where it is.
    fn script(&mut self, app: &NamedValue<'_>) {
        let Some(item) = app.get("script") else {
            return;
        };
        let mut code = ScriptCode::new("/bin/bash");
        let directory = match app.get("cwd") {
            Some(cwd) => {
                self.report.works(&cwd.field(), "entry");
                self.base.join(cwd.text().unwrap_or_default())
            }
            None => self.base.to_owned(),
        };
        // Parts such as `.` are left out, since `add` would not show a place with them.
        let directory = directory
            .components()
            .collect::<std::path::PathBuf>()
            .display()
            .to_string();
        code.places.add(&directory, false);
        code.line(format!("cd {} || exit", quoted(&directory)));
        let script = item.text().unwrap_or_default();
        if script.starts_with('/') {
            code.places.add(&script, false);
        }
        let interpreter = app.get("interpreter").or_else(|| app.get("exec_interpreter"));
        if let Some(item) = &interpreter {
            self.report.works(&item.field(), "entry");
        }
        let interpreter = interpreter
            .and_then(|item| item.text())
            .or_else(|| by_suffix(&script).map(str::to_owned));
        // With the interpreter `none` pm2 starts the file itself.
        let mut words: Vec<String> = interpreter.into_iter().filter(|name| name != "none").collect();
        words.extend(self.words(app, "node_args"));
        words.extend(self.words(app, "interpreter_args"));
        let is_program = words.is_empty();
        words.push(script.clone());
        words.extend(self.words(app, "args"));
        if is_program && script.contains('/') && !script.starts_with('/') {
            words[0] = format!("./{}", script.trim_start_matches("./"));
        }
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        // The program replaces the shell, so that it gets SIGTERM itself.
        code.line(format!("exec {}", words.join(" ")));
        let notes = code.put(&mut self.made);
        let note = format!(
            "the program stays where it is; it runs in the sandbox, as a user of its own, with the default limits{notes}"
        );
        self.report.differs(&item.field(), "entry", &note);
    }
}

/// Returns the interpreter by which pm2 starts a file; nothing for a program such as `npm`.
fn by_suffix(script: &str) -> Option<&'static str> {
    Some(match script.rsplit_once('.')?.1 {
        "js" | "cjs" | "mjs" => "node",
        "py" => "python3",
        "sh" => "bash",
        "rb" => "ruby",
        "pl" => "perl",
        "php" => "php",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
