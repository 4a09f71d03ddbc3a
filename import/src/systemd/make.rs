//! Makes a function of a service, and of the timer that starts it.

use super::parse::{Specifiers, UnitSetting, effective, items, words};
use super::timer::UnitTimer;
use super::unit::{SystemdMachine, Unit, UnitImport, UnitStep};
use super::values::truth;
use super::{keys, service};
use crate::names::lists;
use crate::rows::{absent, refuse, reported, table};
use crate::script::{ScriptCode, quoted};
use crate::text::ImportText;
use fnd_manifest::foreign::{ConversionReport, MadeManifest};
use fnd_wire::units::print_duration;
use std::time::Duration;
use toml::Value;

/// Makes a function; nothing if something is refused.
pub(super) fn make(
    name: &str,
    unit: &Unit,
    timer: Option<&Unit>,
    machine: SystemdMachine<'_>,
) -> (Option<MadeManifest>, ConversionReport) {
    let mut report = ConversionReport::default();
    let settings = settings(unit, &mut report);
    let last = |key: &str| {
        let found = settings
            .iter()
            .rfind(|item| item.section == "Service" && item.key == key);
        found.map(|item| (item.value.as_str(), &item.field))
    };
    let kind = last("Type");
    let mut specifiers = Specifiers {
        unit: unit.name.clone(),
        of_user: machine.users.is_caller(),
        ..Specifiers::default()
    };
    // A name with a specifier that is not known is refused where the key is read.
    let user = last("User").map_or(machine.user, |(user, _)| user);
    specifiers.user = specifiers.fill(user).unwrap_or_default();
    specifiers.home = (machine.home)(&specifiers.user);
    if let Some((kind, field)) = kind
        && !reported(keys::TYPES, kind, &mut report, field)
    {
        report.refused(field, &format!("`{kind}` is no type of a service"));
    }
    let mut maker = UnitImport {
        made: MadeManifest::new(name),
        report,
        specifiers,
        code: ScriptCode::new("/bin/bash"),
        // A unit that a timer starts is a script: it is not kept running.
        service: timer.is_none() && kind.is_none_or(|(kind, _)| kind != "oneshot"),
        starts: timer.is_none() && kind.is_some_and(|(kind, _)| kind == "oneshot"),
        machine,
        steps: Vec::new(),
        directory: None,
        umask: None,
        groups: Vec::new(),
        hide: Vec::new(),
        pause: None,
        grows: false,
    };
    for item in &settings {
        maker.item(item);
    }
    maker.absent(&settings, &unit.text);
    // A manager of the system starts a unit that names no user as root (systemd.exec(5)).
    let has_user = settings.iter().any(|item| {
        item.section == "Service" && (item.key == "User" || item.key == "DynamicUser" && truth(&item.value) == Ok(true))
    });
    if !has_user {
        machine.users.root(&mut maker.report, &unit.text.whole("User="));
    }
    if let Some(timer) = timer {
        maker.timer(timer);
    }
    maker.finish(unit)
}

/// Returns the settings of a unit that count.
fn settings(unit: &Unit, report: &mut ConversionReport) -> Vec<UnitSetting> {
    let mut all = Vec::new();
    for text in unit.texts() {
        let (items, bad) = items(text);
        all.extend(items);
        for (field, why) in bad {
            report.refused(&field, &why);
        }
    }
    let (kept, replaced) = effective(all);
    for item in replaced {
        report.not_here(&item.field, "a later line replaces it");
    }
    // A list that a line empties has nothing to say.
    kept.into_iter().filter(|item| !item.value.is_empty()).collect()
}

/// Units that every boot starts, those of a user at the login (systemd.special(7)).
const BOOT: &str = "\
    basic.target cloud-init.target default.target graphical.target graphical-session.target local-fs.target \
    multi-user.target network.target network-online.target network-pre.target paths.target remote-fs.target \
    sockets.target sysinit.target time-sync.target timers.target";

/// Says whether one of these units starts at every boot.
fn of_boot(units: &str) -> bool {
    units.split_whitespace().any(|unit| lists(BOOT, unit))
}

impl UnitImport<'_> {
    fn item(&mut self, item: &UnitSetting) {
        let (report, field) = (&mut self.report, &item.field);
        match (item.section.as_str(), item.key.as_str()) {
            ("Service", _) => {
                let taken = service::item(self, item);
                refuse(&mut self.report, taken, field);
            }
            ("Unit", "Description") => match self.specifiers.fill(&item.value) {
                Ok(text) => self.made.works(report, "description", text, field),
                Err(why) => report.not_here(field, &why),
            },
            ("Install", "WantedBy" | "RequiredBy" | "UpheldBy") if !of_boot(&item.value) => {
                let why =
                    "fnd starts nothing with another unit than those of a boot: call the function where that happens";
                match self.starts {
                    true => report.refused(field, why),
                    false => report.differs(field, "", "it is started in any case, and not with this unit"),
                }
            }
            ("Install", "WantedBy" | "RequiredBy" | "UpheldBy") if std::mem::take(&mut self.starts) => {
                report.works(field, "schedule.at");
                self.made
                    .manifest
                    .push("schedule", [("at", Value::from("boot"), Some(field.clone()))]);
            }
            ("Install", "WantedBy" | "RequiredBy" | "UpheldBy") => report.works(field, ""),
            ("Unit", key) if reported(keys::UNIT_ROWS, key, report, field) => {}
            ("Unit", key) if key.starts_with("StartLimit") => {
                let note = "fnd never gives up; after five ends in a minute a service is `crash-looping`";
                report.differs(field, "", note);
            }
            ("Unit", key) if key.starts_with("Condition") || key.starts_with("Assert") => {
                let note = "it runs in any case: test it in the script, for example `[ -e /FILE ] || exit 0`";
                report.differs(field, "", note);
            }
            (section @ ("Unit" | "Install"), key) if !keys::is_known(section, key) => {
                report.unknown(field, &keys::unknown(section, key));
            }
            ("Unit", _) => report.not_here(
                field,
                "functions have no order: a service is started again until it works, and `[retry]` tries a script again",
            ),
            ("Install", _) => report.not_here(field, "a function is in force while its file exists"),
            (section, _) if section.starts_with("X-") => report.works(field, ""),
            (section, _) => report.unknown(field, &format!("a service has no section `[{section}]`")),
        }
    }

    /// Reports settings that the unit does not have, where systemd does something else without them than fnd.
    fn absent(&mut self, settings: &[UnitSetting], text: &ImportText) {
        let has = |key: &str| settings.iter().any(|item| item.key == key);
        let restarts = settings.iter().rfind(|item| item.key == "Restart");
        let restarts = restarts.is_some_and(|item| item.value != "no");
        let sets_path = |item: &UnitSetting| {
            let words = words(&item.value).unwrap_or_default();
            item.key == "Environment" && words.iter().any(|word| word.starts_with("PATH="))
        };
        absent(keys::ABSENT, &mut self.report, |key| {
            let counts = match key {
                // These two hold for scripts as well; the first one is a variable.
                "PATH" => !settings.iter().any(sets_path),
                "IgnoreSIGPIPE" => true,
                "Restart" => self.service,
                "RestartSec" => self.service && restarts,
                _ => self.service && restarts && !has("StartLimitIntervalSec") && !has("StartLimitInterval"),
            };
            (counts && !has(key)).then(|| text.whole(&format!("{key}=")))
        });
        // Nothing has started the unit by itself: neither a timer nor a boot.
        if std::mem::take(&mut self.starts) {
            let note = "nothing starts the unit by itself; it runs by `fndctl invoke` only";
            self.made
                .differs(&mut self.report, ("on_load", false), &text.whole("WantedBy="), note);
        }
    }

    fn timer(&mut self, unit: &Unit) {
        let settings = settings(unit, &mut self.report);
        let mut timer = UnitTimer::default();
        for item in &settings {
            match item.section.as_str() {
                "Timer" => {
                    let taken = timer.item(self, item);
                    refuse(&mut self.report, taken, &item.field);
                }
                // The service has its own description.
                "Unit" if item.key == "Description" => self.report.works(&item.field, ""),
                _ => self.item(item),
            }
        }
        match settings.iter().find(|item| item.section == "Timer") {
            Some(first) => timer.put(self, first),
            None => self
                .report
                .refused(&unit.text.whole("[Timer]"), "the timer has no time"),
        }
    }

    /// Makes a variable a secret.
    pub(super) fn secret(&mut self, item: &UnitSetting, name: &str, value: &str) {
        let valid = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(valid) || name.starts_with("FND_") {
            return self
                .report
                .refused(&item.field, "a line of the file is no `NAME=VALUE`");
        }
        let secret = format!("{}-{}", self.made.name, name.to_ascii_lowercase().replace('_', "-"));
        let table = table([("secret", secret.as_str()), ("as", "env")]);
        self.made.manifest.set_in("secrets", name, table, Some(&item.field));
        let note = format!("not everybody may read the file, so `{name}` is a secret: `fndctl secret set {secret}`");
        self.report.differs(&item.field, &format!("secrets.{name}"), &note);
        self.made.secrets.push((secret, value.as_bytes().to_vec()));
    }

    fn finish(mut self, unit: &Unit) -> (Option<MadeManifest>, ConversionReport) {
        // The sort is stable: commands of one key stay in their order.
        self.steps.sort_by_key(|(step, ..)| *step);
        let starts = self.steps.iter().filter(|(step, ..)| *step == UnitStep::Start).count();
        let field = unit.text.whole("ExecStart=");
        match starts {
            0 if !self.report.is_refused() => self.report.refused(&field, "the unit has no `ExecStart=`"),
            2.. if self.service => self.report.refused(&field, "only `Type=oneshot` may have several"),
            _ => {}
        }
        self.keys();
        self.script();
        let refused = self.report.is_refused();
        ((!refused).then_some(self.made), self.report)
    }

    /// Sets the keys that follow from several settings.
    fn keys(&mut self) {
        let manifest = &mut self.made.manifest;
        if self.service {
            manifest.set("mode", "service", None);
            if manifest.get("limits.grace").is_none() {
                // The default of `TimeoutStopSec=`.
                manifest.set("limits.grace", "90s", None);
            }
        } else if manifest.get("limits.timeout").is_none() {
            manifest.set("limits.timeout", "none", None);
        }
        if let Some(pause) = self.pause {
            if !self.grows {
                manifest.set("retry.backoff", "fixed", None);
            }
            // systemd waits exactly this pause.
            manifest.set("retry.jitter", "none", None);
            // The default of `retry.max_interval` would shorten a longer pause.
            if pause > Duration::from_secs(300) && manifest.get("retry.max_interval").is_none() {
                manifest.set("retry.max_interval", print_duration(pause), None);
            }
        }
        if !self.hide.is_empty() {
            manifest.set("sandbox.hide", Value::Array(std::mem::take(&mut self.hide)), None);
        }
    }

    /// Writes the script: its directory, and the commands in their order.
    fn script(&mut self) {
        let mut code = std::mem::replace(&mut self.code, ScriptCode::new("/bin/bash"));
        if self.steps.iter().any(|(_, exec, _)| exec.splits) {
            // A variable without quotes is split into words, but systemd does not expand patterns in it, as a shell
            // would.
            code.line("set -f");
        }
        if let Some(mask) = &self.umask {
            code.line(format!("umask {mask}"));
        }
        code.line(match &self.directory {
            Some((directory, _)) if directory == "$HOME" => "cd \"$HOME\" || exit".to_owned(),
            Some((directory, true)) => format!("cd {} 2>/dev/null || cd /", quoted(directory)),
            Some((directory, false)) => format!("cd {} || exit", quoted(directory)),
            // The defaults of `WorkingDirectory=` (systemd.exec(5)).
            None if self.specifiers.of_user => "cd \"$HOME\" || exit".to_owned(),
            None => "cd / || exit".to_owned(),
        });
        let count = self.steps.len();
        for (number, (step, exec, _)) in self.steps.iter().enumerate() {
            // The last command replaces the shell: it gets the signals, and its exit code is that of the run.
            let last = number + 1 == count && !exec.lenient;
            let command = exec.render(&mut code, self.machine.script, last);
            code.line(match step {
                _ if last => command,
                _ if exec.lenient => format!("{command} || true"),
                // A condition that fails skips the unit and is no failure (systemd.service(5)).
                UnitStep::Condition => format!("{command} || exit 0"),
                _ => format!("{command} || exit"),
            });
        }
        let what = "it runs in the sandbox, with the default limits where the unit has none";
        let note = code.put_noted(&mut self.made, what);
        let mut first = true;
        for (step, _, field) in &self.steps {
            if *step == UnitStep::Start && std::mem::take(&mut first) {
                self.report.differs(field, "entry", &note);
            } else {
                self.report.works(field, "entry");
            }
        }
    }
}

#[cfg(test)]
mod tests;
