//! The keys of an app.

use super::Pm2Machine;
use super::keys::{NONE, NOTHING, OUTPUT, SCALARS, canonical, entry};
use crate::names::lists;
use crate::tree::NamedValue;
use fnd_manifest::foreign::yaml::Value as YamlValue;
use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use fnd_wire::units::{parse_size, print_duration, print_size};
use std::time::Duration;
use toml::Value;

/// How long pm2 waits between its signal and SIGKILL, in milliseconds.
const GRACE: &str = "1600ms";

/// Keys without which pm2 does something else than fnd, and the difference.
const ABSENT: [(&str, &str, &str); 3] = [
    (
        "filter_env",
        "env",
        "pm2 passes on the environment of the shell that starts it; a function gets only `[env]`",
    ),
    (
        "shutdown_with_message",
        "",
        "pm2 ends a program with SIGINT, and fnd with SIGTERM: what cleans up at SIGINT has to do so at SIGTERM",
    ),
    (
        "autorestart",
        "mode",
        "pm2 starts it again at once, and gives up after 16 ends within a second each; fnd waits 1s and longer each time, and never gives up",
    ),
];

/// A function on its way.
pub(super) struct App<'a> {
    pub(super) made: MadeManifest,
    pub(super) report: ConversionReport,
    pub(super) machine: Pm2Machine<'a>,
}

impl<'a> App<'a> {
    pub(super) fn new(name: &str, machine: Pm2Machine<'a>) -> Self {
        Self {
            made: MadeManifest::new(name),
            report: ConversionReport::default(),
            machine,
        }
    }

    /// Takes an app over.
    pub(super) fn read(&mut self, app: &NamedValue<'_>) {
        let restarts = match entry(app, "autorestart") {
            Some(item) => self.truth(&item).unwrap_or(true),
            None => true,
        };
        let instances = entry(app, "instances").map_or(1, |item| self.instances(&item, restarts, has_port(app)));
        self.made.manifest.set("limits.grace", GRACE, None);
        if restarts {
            self.made.manifest.set("mode", "service", None);
        } else {
            // pm2 gives a program any time.
            self.made.manifest.set("limits.timeout", "none", None);
        }
        // Variables of one environment replace those of `env`, wherever they stand.
        let (of_one, others): (Vec<_>, Vec<_>) = app.items().into_iter().partition(|item| item.key.starts_with("env_"));
        for item in others.iter().chain(&of_one) {
            self.item(item, restarts, instances);
        }
        for (key, becomes, note) in ABSENT {
            self.missing(app, key, (becomes, note));
        }
        self.script(app);
    }

    /// Reports a key that the app does not have, where pm2 does something else without it than fnd.
    pub(super) fn missing(&mut self, app: &NamedValue<'_>, key: &str, (becomes, note): (&str, &str)) {
        if entry(app, key).is_none() {
            self.report.differs(&app.named(key), becomes, note);
        }
    }

    /// Returns a truth value; reports another one.
    fn truth(&mut self, item: &NamedValue<'_>) -> Option<bool> {
        let truth = item.truth();
        if truth.is_none() {
            self.report.refused(&item.field(), "expected `true` or `false`");
        }
        truth
    }

    fn item(&mut self, item: &NamedValue<'_>, restarts: bool, instances: u64) {
        let (report, field, made) = (&mut self.report, item.field(), &mut self.made);
        let text = item.text().unwrap_or_default();
        let key = canonical(item.key);
        if lists(SCALARS, &key) && !item.is_scalar(report, &field) {
            return;
        }
        let milliseconds = || {
            text.parse::<u64>()
                .ok()
                .filter(|ms| *ms > 0)
                .map(Duration::from_millis)
                .map(print_duration)
        };
        // Of these keys `false` is what happens without them.
        let off = item.truth() == Some(false);
        match key.as_str() {
            // The script and `instances` are read by themselves.
            "script" | "args" | "exec_interpreter" | "node_args" | "cwd" | "instances" => {}
            "exec_mode" if ["cluster", "cluster_mode"].contains(&text.as_str()) => {
                report.differs(&field, "service.replicas", SHARED);
            }
            "exec_mode" if ["fork", "fork_mode"].contains(&text.as_str()) => report.works(&field, ""),
            "exec_mode" => report.refused(&field, "it is neither `fork` nor `cluster`"),
            "env" => self.variables(item),
            key if key.starts_with("env_") => {
                if key.strip_prefix("env_") == self.machine.env {
                    self.variables(item);
                } else {
                    report.not_here(&field, "`--env NAME` takes it over");
                }
            }
            "port" => {
                report.works(&field, "env.PORT");
                made.manifest.set_in("env", "PORT", text, Some(&field));
            }
            "filter_env" if item.truth() == Some(true) => report.works(&field, "env"),
            "filter_env" => report.differs(&field, "env", "a function gets only `[env]`"),
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
            "cron_restart" if text == "0" => report.works(&field, ""),
            // Without `autorestart` pm2 starts the program only at these times.
            "cron_restart" if !restarts => self.schedule(&field, &text),
            "cron_restart" => report.not_here(
                &field,
                "fnd does not restart a service at a time; a schedule can: `fndctl cancel --all F` in a crontab",
            ),
            "autorestart" if restarts => {
                report.differs(&field, "mode", "after each end, also after many: fnd never gives up");
            }
            "autorestart" => report.differs(
                &field,
                "mode",
                "a script: it runs by its schedule, or once when it is saved",
            ),
            "autostart" if off => made.differs(report, ("enabled", false), &field, "`fndctl enable F` starts it"),
            "autostart" => report.works(&field, ""),
            "restart_delay" | "exp_backoff_restart_delay" => match milliseconds() {
                Some(delay) if restarts => {
                    report.works(&field, "retry.interval");
                    made.manifest.set("retry.interval", delay, Some(&field));
                    // This pause is the same each time; the other one grows.
                    if key == "restart_delay" {
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
            "watch" | "wait_ready" | "shutdown_with_message" if off => report.works(&field, ""),
            "wait_ready" | "listen_timeout" => report.not_here(&field, "`[service] ready` asks a path of the program"),
            "shutdown_with_message" => report.differs(&field, "", "fnd sends SIGTERM, and no message"),
            "watch" | "ignore_watch" | "watch_delay" | "watch_options" => report.not_here(
                &field,
                "fnd notices a saved function; it does not watch code in other directories",
            ),
            "uid" => self.machine.users.named(made, report, &text, &field),
            "gid" if self.machine.users.is_caller() => report.not_here(&field, "functions of your own fnd run as you"),
            "gid" => {
                let note = "fnd.toml must allow the group: `allow` in `[users]`";
                made.differs(
                    report,
                    ("sandbox.groups", Value::Array(vec![Value::from(text)])),
                    &field,
                    note,
                );
            }
            key if lists(OUTPUT, key) => report.not_here(&field, "fnd keeps the output itself: `fndctl logs`"),
            key if lists(NOTHING, key) => report.works(&field, ""),
            key if lists(NONE, key) => report.not_here(&field, "fnd has nothing like it"),
            _ => report.unknown(&field, "pm2 has no such key"),
        }
    }

    /// Takes the number of processes over, and returns it.
    fn instances(&mut self, item: &NamedValue<'_>, restarts: bool, has_port: bool) -> u64 {
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
            // All but the first one would fail.
            Some(2..) if has_port => {
                self.report.differs(&field, "", ONE_PORT);
                return 1;
            }
            Some(number) if every => {
                let note = format!("by the number of CPUs of this machine; {SHARED}");
                self.made
                    .differs(&mut self.report, ("service.replicas", number), &field, &note);
            }
            Some(number @ 2..) => self
                .made
                .differs(&mut self.report, ("service.replicas", number), &field, SHARED),
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
            let value = match &variable.node.value {
                // node makes this text of it.
                YamlValue::Null => Some("null".to_owned()),
                _ => variable.text(),
            };
            match value.filter(|_| valid && !name.is_empty() && !name.starts_with("FND_")) {
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
}

/// Says whether the file gives the app a port.
fn has_port(app: &NamedValue<'_>) -> bool {
    let of_env = |item: &NamedValue<'_>| item.key.starts_with("env") && item.get("PORT").is_some();
    entry(app, "port").is_some() || app.items().iter().any(of_env)
}

/// The note on several processes of one app that has one port.
const ONE_PORT: &str = "one process: processes of a function share no port, and this app has one, `PORT`; for more of them, use `[http_server]`, \
                        or `service.replicas` with a port for each";

/// The note on several processes of one app.
const SHARED: &str = "processes of a function share no port, and have no `NODE_APP_INSTANCE`: let each take a free port, or use `[http_server]`";

#[cfg(test)]
mod tests;
