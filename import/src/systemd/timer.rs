//! The settings of `[Timer]`.

use super::parse::UnitSetting;
use super::unit::UnitImport;
use super::values::{duration, truth};
use super::{calendar, keys, parse};
use crate::rows::reported;
use fnd_manifest::foreign::Field;
use toml::Value;

/// The note on the exactness of runs; without a word about it, systemd delays them by up to a minute.
const EXACT: &str = "fnd runs it at its time, and does not gather runs";

/// A key of a schedule, its value and its origin.
type TimerKey = (&'static str, Value, Option<Field>);

/// The schedules that the settings of a timer mean.
#[derive(Debug, Default)]
pub(super) struct UnitTimer {
    schedules: Vec<Vec<TimerKey>>,
    /// Keys of every schedule.
    common: Vec<TimerKey>,
    /// Starts after a boot: `OnBootSec=` and its like.
    first: Vec<Field>,
    /// Whether it says how exact it is.
    is_exact: bool,
}

impl UnitTimer {
    /// Takes a setting over.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) fn item(&mut self, maker: &mut UnitImport<'_>, item: &UnitSetting) -> Result<(), String> {
        let (report, field, value) = (&mut maker.report, &item.field, item.value.as_str());
        let origin = Some(field.clone());
        match item.key.as_str() {
            "OnCalendar" => {
                let found = calendar::calendar(value)?;
                report.works(field, "schedule.cron");
                let mut keys = vec![("cron", Value::from(found.cron), origin.clone())];
                keys.extend(found.zone.map(|zone| ("timezone", Value::from(zone), origin)));
                self.schedules.push(keys);
            }
            "OnUnitActiveSec" | "OnUnitInactiveSec" => {
                let every = duration(value)?;
                if every == "none" {
                    return Err("expected a time longer than 0".to_owned());
                }
                let note = match item.key.as_str() {
                    "OnUnitActiveSec" => "the time counts from one planned run to the next",
                    _ => "the time counts from one planned run to the next, not from the end of a run",
                };
                report.differs(field, "schedule.every", note);
                self.schedules.push(vec![("every", Value::from(every), origin)]);
            }
            "OnBootSec" | "OnStartupSec" | "OnActiveSec" => self.first.push(field.clone()),
            "RandomizedDelaySec" => match duration(value)?.as_str() {
                "none" => report.works(field, ""),
                delay => {
                    report.works(field, "schedule.jitter");
                    self.common.push(("jitter", Value::from(delay), origin));
                }
            },
            "Persistent" if truth(value)? => {
                // systemd makes up for a run however old it is, and `catch_up` is a duration.
                let note = "one run makes up for missed ones that are at most 30 days old";
                report.differs(field, "schedule.catch_up", note);
                self.common.push(("catch_up", Value::from("30d"), origin));
            }
            "Persistent" => report.works(field, ""),
            "AccuracySec" => {
                self.is_exact = true;
                report.differs(field, "", EXACT);
            }
            key if reported(keys::TIMER, key, report, field) => {}
            _ => report.unknown(field, "systemd has no such setting in `[Timer]`"),
        }
        Ok(())
    }

    /// Writes the schedules.
    pub(super) fn put(mut self, maker: &mut UnitImport<'_>, timer: &parse::UnitSetting) {
        for field in &self.first {
            let note = "it runs after each boot as soon as fnd does, and not that long after it";
            maker.report.differs(field, "schedule.at", note);
        }
        // Several of these settings name one boot.
        let first = self.first.first().cloned();
        self.schedules
            .extend(first.map(|field| vec![("at", Value::from("boot"), Some(field))]));
        if !self.is_exact {
            let field = Field {
                name: "AccuracySec=".to_owned(),
                ..timer.field.clone()
            };
            maker.report.differs(&field, "", EXACT);
        }
        if self.schedules.is_empty() {
            maker.report.refused(&timer.field, "the timer has no time");
        }
        let is_calendar = |keys: &&Vec<TimerKey>| keys.iter().any(|(name, ..)| *name == "cron");
        let calendars = self.schedules.iter().filter(is_calendar);
        let catch_up = self.common.iter().find(|(name, ..)| *name == "catch_up");
        if let (2.., Some((_, _, Some(field)))) = (calendars.count(), catch_up) {
            let note = "each `OnCalendar=` is a schedule of its own and makes up for its own missed run; systemd makes up once";
            maker.report.differs(field, "", note);
        }
        for mut keys in self.schedules {
            // A fixed interval is never made up for: the next run is near. The run of a boot is never missed.
            let every = keys.iter().any(|(name, ..)| ["every", "at"].contains(name));
            let common = self.common.iter().filter(|(name, ..)| !every || *name != "catch_up");
            keys.extend(common.cloned());
            // fnd refuses a delay that reaches the next run.
            let time = |key: &str| {
                let found = keys.iter().find(|(name, ..)| *name == key);
                found.and_then(|(_, value, _)| calendar::duration(value.as_str()?).ok().flatten())
            };
            if let (Some(every), Some(delay)) = (time("every"), time("jitter"))
                && every <= delay
            {
                let why = "`RandomizedDelaySec=` reaches the next run: write a shorter one";
                maker.report.refused(&timer.field, why);
            }
            maker.made.manifest.push("schedule", keys);
        }
    }
}
