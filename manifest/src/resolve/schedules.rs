//! Checks the schedules of a function: lines of cron that come some time, zones that exist, keys that exclude each other.

use super::subject::{FunctionProblems, ResolvedSubject};
use crate::cron::{self, Cron};
use crate::diagnostic::Diagnostic;
use crate::function::Mode;
use crate::function::keys::Schedule;
use crate::schema::tree::{TomlTable, entries, place};
use crate::warning::Warning;
use fnd_wire::units::print_duration;
use jiff::tz::TimeZone;

/// Reports what is wrong with the schedules; `own` is the manifest in which they are written.
pub(super) fn check(
    schedules: &[Schedule],
    own: &TomlTable,
    subject: &ResolvedSubject<'_>,
    report: &mut FunctionProblems<'_>,
) {
    let written = entries(own, "schedule");
    for (number, schedule) in schedules.iter().enumerate() {
        let node = written.get(number);
        for (key, message, help) in wrong(schedule, subject.mode) {
            report.impossible(place(node, key), message, help);
        }
        if let Some((message, help)) = schedule.cron.as_deref().and_then(each_second) {
            let problem = Diagnostic::warning(Warning::EachSecond, message).with_help(help);
            report.add(place(node, "cron"), problem);
        }
    }
}

/// Returns what is wrong with a schedule: the key, the message and what to do.
fn wrong(schedule: &Schedule, mode: Mode) -> Vec<(&'static str, String, String)> {
    let mut wrong = Vec::new();
    let mut add = |key, message: &str, help: &str| wrong.push((key, message.to_owned(), help.to_owned()));
    if mode == Mode::Service {
        let message = "`[[schedule]]` has no effect on a service, which is kept running and never invoked";
        add("cron", message, "remove it, or use `mode = \"script\"`");
    }
    if schedule.at.is_some() && (schedule.cron.is_some() || schedule.every.is_some()) {
        let message = "`at` and the times of a schedule exclude each other";
        add("at", message, "write an entry of its own for `at`");
    }
    if schedule.at.is_some() && !schedule.catch_up.is_zero() {
        let message = "`catch_up` has no effect with `at`: the run of a boot comes whenever fnd begins after it";
        add("catch_up", message, "remove it");
    }
    match (&schedule.cron, schedule.every) {
        (None, None) if schedule.at.is_none() => {
            let help = "write `cron = \"0 3 * * *\"` for every night at three, `every = \"30s\"`, or `at = \"boot\"`";
            add("cron", "the schedule says neither `cron` nor `every`", help);
        }
        (Some(_), Some(_)) => {
            let message = "`every` and `cron` exclude each other";
            add("every", message, "remove one of the two");
        }
        (None, _) => {}
        (Some(line), None) => {
            if let Err((message, help)) = comes(line) {
                add("cron", &message, &help);
            }
        }
    }
    if let Some(zone) = &schedule.timezone {
        if schedule.cron.is_none() {
            add("timezone", "`timezone` is for `cron`; `every` counts time", "remove it");
        } else if cron::zone(zone).is_none() {
            let message = format!("no time zone has the name `{zone}`");
            let help = "use a name such as `Europe/Berlin` or `UTC` (`timedatectl list-timezones`)";
            add("timezone", &message, help);
        }
    }
    if let Some(every) = schedule.every.filter(|every| *every <= schedule.jitter) {
        let message = format!("a `jitter` of {} reaches the next run", print_duration(schedule.jitter));
        let help = format!("use less than {}", print_duration(every));
        add("jitter", &message, &help);
    }
    wrong
}

/// Says what is wrong with a line of cron, and what to do.
fn comes(line: &str) -> Result<(), (String, String)> {
    let help = match line.trim().eq_ignore_ascii_case("@reboot") {
        true => "write `at = \"boot\"` in place of `cron`",
        false => "five fields: minute, hour, day of the month, month, day of the week; `fndctl explain schedule.cron`",
    };
    let cron =
        // The seed chooses only among numbers that every month, day and hour has, so any seed gives the same answer.
        Cron::parse(line, 0).map_err(|error| {
            let help = cron::instead(line).unwrap_or_else(|| help.to_owned());
            (format!("`{line}` is no line of cron: {error}"), help)
        })?;
    // From any instant on: a line that does not come within years never comes.
    match cron.next_after(0, &TimeZone::UTC) {
        Some(_) => Ok(()),
        None => Err((
            format!("`{line}` never comes: no date fits"),
            "correct the day of the month or the month".to_owned(),
        )),
    }
}

/// Returns a warning for a line of six fields that runs in each second of a minute, but not in each minute: its author most
/// likely meant five fields.
fn each_second(line: &str) -> Option<(String, String)> {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (6, Ok(cron)) = (fields.len(), Cron::parse(line, 0)) else {
        return None;
    };
    let after = |from: &u64| cron.next_after(*from, &TimeZone::UTC);
    // From a midnight on, so that the times can be read as times of a day.
    let slots: Vec<u64> = std::iter::successors(after(&(DAY_MS - 1)), after).take(61).collect();
    let [first, .., sixtieth, next] = slots[..] else {
        return None;
    };
    // Sixty slots without a gap and then a gap. `* * * * * *` has no gap: its author means each second.
    if sixtieth - first != 59_000 || next - sixtieth == 1000 {
        return None;
    }
    let time = |ms: &u64| {
        let seconds = ms % DAY_MS / 1000;
        format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    };
    let times: Vec<String> = slots.iter().take(5).map(time).collect();
    let message = format!(
        "`{line}` has a field of seconds, so it runs 60 times in a minute: at {}, ...",
        times.join(", ")
    );
    let rest = fields.get(1..)?.join(" ");
    Some((message, format!("write `{rest}` for one run in each of these minutes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::ScheduledAt;
    use std::time::Duration;

    fn schedule(cron: &str) -> Schedule {
        Schedule {
            cron: Some(cron.to_owned()),
            ..crate::schema::pick::FromValue::from_value(None).unwrap()
        }
    }

    #[track_caller]
    fn check(schedule: &Schedule, expected: &[(&str, &str)]) {
        let wrong = wrong(schedule, Mode::Script);
        assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
        for ((key, message, help), (expected_key, part)) in wrong.iter().zip(expected) {
            assert_eq!(key, expected_key, "{message}");
            assert!(message.contains(part), "{message}");
            assert!(!help.is_empty());
        }
    }

    /// Five fields with one too many before them: sixty runs where one is meant.
    #[test]
    fn a_run_in_each_second_is_a_warning_with_the_times() {
        for line in ["* */15 * * * *", "* 0 3 * * *", "*/1 5 * * * *", "0-59 H * * * *"] {
            assert!(each_second(line).is_some(), "{line}");
        }
        for line in [
            "* * * * * *",
            "0 */15 * * * *",
            "*/5 0 * * * *",
            "*/15 * * * *",
            "@hourly",
            "nonsense",
        ] {
            assert_eq!(each_second(line), None, "{line}");
        }
        let (message, help) = each_second("* */15 * * * *").unwrap();
        assert!(
            message.ends_with("at 00:00:00, 00:00:01, 00:00:02, 00:00:03, 00:00:04, ..."),
            "{message}"
        );
        assert!(help.contains("`*/15 * * * *`"), "{help}");
    }

    #[test]
    fn each_mistake_is_named_at_its_key() {
        check(&schedule("*/5 * * * *"), &[]);
        check(&schedule("H 3 * * *"), &[]);
        check(&schedule("0 0 30 2 *"), &[("cron", "never comes")]);
        check(&schedule("99 * * * *"), &[("cron", "no line of cron")]);
        let (_, help) = comes("@reboot").unwrap_err();
        assert!(help.contains("at = \"boot\""), "{help}");
        let zoned = |zone: &str| Schedule {
            timezone: Some(zone.to_owned()),
            ..schedule("0 3 * * *")
        };
        check(&zoned("Europe/Berlin"), &[]);
        check(&zoned("Europe/Berln"), &[("timezone", "Europe/Berln")]);
        let every = |jitter| Schedule {
            cron: None,
            every: Some(Duration::from_secs(30)),
            jitter: Duration::from_secs(jitter),
            ..schedule("")
        };
        check(&every(10), &[]);
        check(&every(30), &[("jitter", "reaches the next run")]);
        let zone = Some("UTC".to_owned());
        check(
            &Schedule {
                timezone: zone,
                ..every(0)
            },
            &[("timezone", "counts time")],
        );
        let boot = |schedule: Schedule| Schedule {
            at: Some(ScheduledAt::Boot),
            ..schedule
        };
        check(
            &boot(Schedule {
                cron: None,
                ..schedule("")
            }),
            &[],
        );
        check(&boot(schedule("* * * * *")), &[("at", "exclude each other")]);
        check(&boot(every(0)), &[("at", "exclude each other")]);
        let late = Schedule {
            cron: None,
            catch_up: Duration::from_secs(60),
            ..schedule("")
        };
        check(&boot(late), &[("catch_up", "no effect")]);
        let both = Schedule {
            every: Some(Duration::from_secs(1)),
            ..schedule("* * * * *")
        };
        check(&both, &[("every", "exclude each other")]);
        let neither = Schedule {
            cron: None,
            ..schedule("")
        };
        check(&neither, &[("cron", "neither")]);
        assert!(!super::wrong(&schedule("* * * * *"), Mode::Service).is_empty());
    }
}
