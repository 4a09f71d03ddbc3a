//! The keys of an app.

use super::Pm2Machine;
use super::keys::{ABSENT, OTHERS, ROWS, SCALARS, canonical, entry};
use crate::names::{is_settable, lists};
use crate::rows::{absent, reported, take, unknown_key};
use crate::text::within;
use crate::tree::NamedValue;
use fnd_manifest::foreign::yaml::Value as YamlValue;
use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use fnd_wire::units::{parse_size, print_duration, print_size};
use std::time::Duration;
use toml::Value;

/// How long pm2 waits between its signal and SIGKILL, in milliseconds.
const GRACE: &str = "1600ms";

/// The signal of pm2.
const STOP_SIGNAL: &str = "INT";

/// A function on its way.
pub(super) struct App<'a> {
    pub(super) made: MadeManifest,
    pub(super) report: ConversionReport,
    pub(super) machine: Pm2Machine<'a>,
}

impl App<'_> {
    /// Takes an app over.
    pub(super) fn read(&mut self, app: &NamedValue<'_>) {
        let restarts = entry(app, "autorestart").is_none_or(|item| item.truth_or(true, &mut self.report));
        let instances = entry(app, "instances").map_or(1, |item| self.instances(&item, restarts, has_port(app)));
        self.made.manifest.set("limits.grace", GRACE, None);
        if restarts {
            self.made.manifest.set("mode", "service", None);
            // With a message pm2 sends no signal.
            if entry(app, "shutdown_with_message").is_none_or(|item| item.truth() == Some(false)) {
                self.made.manifest.set("service.stop_signal", STOP_SIGNAL, None);
            }
        } else {
            // pm2 gives a program any time.
            self.made.manifest.set("limits.timeout", "none", None);
        }
        // Variables of one environment replace those of `env`, wherever they stand.
        let (of_one, others): (Vec<_>, Vec<_>) = app.items().into_iter().partition(|item| item.key.starts_with("env_"));
        let grows = restarts && entry(app, "exp_backoff_restart_delay").is_some();
        for item in others.iter().chain(&of_one) {
            if grows && canonical(item.key) == "restart_delay" {
                let note = "`exp_backoff_restart_delay` wins in pm2, so this has no effect";
                self.report.differs(&item.field(), "", note);
            } else {
                self.item(item, restarts, instances);
            }
        }
        absent(ABSENT, &mut self.report, |key| {
            // A service has the signal of pm2.
            let is_said = restarts && key == "shutdown_with_message";
            (!is_said && entry(app, key).is_none()).then(|| app.named(key))
        });
        self.script(app);
    }

    fn item(&mut self, item: &NamedValue<'_>, restarts: bool, instances: u64) {
        let (report, field, made) = (&mut self.report, item.field(), &mut self.made);
        let text = item.text().unwrap_or_default();
        let key = canonical(item.key);
        if lists(SCALARS, &key) && !item.is_scalar(report, &field) {
            return;
        }
        let milliseconds = || {
            within(&text, 1..=u64::MAX)
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
            "env" => self.variables(item),
            key if key.starts_with("env_") => {
                if key.strip_prefix("env_") == self.machine.env {
                    self.variables(item);
                } else {
                    report.not_here(&field, "`--env NAME` takes it over");
                }
            }
            "port" => made.works(report, "env.PORT", text, &field),
            "filter_env" if item.truth() == Some(true) => report.works(&field, "env"),
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
            "autorestart" if restarts => {
                report.differs(&field, "mode", "after each end, also after many: fnd never gives up");
            }
            "autostart" if off => made.differs(report, ("enabled", false), &field, "`fndctl enable F` starts it"),
            "restart_delay" | "exp_backoff_restart_delay" => match milliseconds() {
                Some(delay) if restarts => {
                    report.works(&field, "retry.interval");
                    made.manifest.set("retry.interval", delay, Some(&field));
                    // This pause is the same each time; the other one grows.
                    made.manifest.set("retry.jitter", "none", None);
                    if key == "restart_delay" {
                        made.manifest.set("retry.backoff", "fixed", None);
                    } else {
                        // pm2's own numbers.
                        made.manifest.set("retry.factor", 1.5, None);
                        made.manifest.set("retry.max_interval", "15s", None);
                    }
                }
                _ => report.works(&field, ""),
            },
            "kill_timeout" => {
                let grace = milliseconds().ok_or("expected a number of milliseconds");
                take(made, report, "limits.grace", grace, &field);
            }
            "treekill" if off => report.differs(&field, "", "fnd ends every process of a function, also its children"),
            "watch" | "wait_ready" | "shutdown_with_message" if off => report.works(&field, ""),
            "uid" => self.machine.users.named(made, report, &text, &field),
            "gid" if self.machine.users.is_caller() => report.not_here(&field, "functions of your own fnd run as you"),
            "gid" => {
                let note = "fnd.toml must allow the group: `allow` in `[users]`";
                made.differs(report, ("sandbox.groups", vec![text]), &field, note);
            }
            key if reported(ROWS, key, report, &field) => {}
            key => {
                let more = [SCALARS, OTHERS].join(" ");
                report.unknown(&field, &unknown_key("pm2 has no such key", key, ROWS, &more));
            }
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
            let value = match &variable.node.value {
                // node makes this text of it.
                YamlValue::Null => Some("null".to_owned()),
                _ => variable.text(),
            };
            let value = value.filter(|_| is_settable(name));
            let value = value.ok_or("it is no name or no value of a variable");
            take(&mut self.made, &mut self.report, &format!("env.{name}"), value, &field);
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
