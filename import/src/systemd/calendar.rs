//! Times and durations of timers, as systemd.time(7) describes them, in the words of fnd.

use crate::text::within;
use std::time::Duration;

/// Names of the days, from Sunday, which is 0.
const DAYS: &str = "sunday monday tuesday wednesday thursday friday saturday";

/// A line of `schedule.cron`, and its time zone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Calendar {
    pub(super) cron: String,
    pub(super) zone: Option<String>,
}

/// Reads `OnCalendar=`.
///
/// # Errors
/// Why there is no line of cron for it.
pub(super) fn calendar(text: &str) -> Result<Calendar, String> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let named = |name: &&&str| fnd_manifest::cron::zone(name).is_some();
    // The zone is the last word (systemd.time(7)).
    let zone = words.last().filter(named).map(|name| (*name).to_owned());
    if zone.is_some() {
        words.pop();
    }
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let shorthand = match lower.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["minutely"] => Some("* * * * *"),
        ["hourly"] => Some("0 * * * *"),
        ["daily"] => Some("0 0 * * *"),
        ["monthly"] => Some("0 0 1 * *"),
        // The week of systemd begins on Monday, that of cron's `@weekly` on Sunday.
        ["weekly"] => Some("0 0 * * 1"),
        ["yearly" | "annually"] => Some("0 0 1 1 *"),
        ["quarterly"] => Some("0 0 1 1,4,7,10 *"),
        ["semiannually"] => Some("0 0 1 1,7 *"),
        _ => None,
    };
    let cron = match shorthand {
        Some(line) => line.to_owned(),
        None => line(&lower)?,
    };
    let parsed = fnd_manifest::cron::Cron::parse(&cron, 0).map_err(|why| format!("`{cron}`: {why}"))?;
    // From any instant on: a line that does not come within years never comes.
    if parsed.next_after(0, &jiff::tz::TimeZone::UTC).is_none() {
        return Err("no date fits: it never comes".to_owned());
    }
    Ok(Calendar { cron, zone })
}

fn line(words: &[String]) -> Result<String, String> {
    let mut words = words.iter().map(String::as_str).peekable();
    let days = words.next_if(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
    let date = words.next_if(|word| !word.contains(':'));
    let time = words.next();
    if words.next().is_some() || (days, date, time) == (None, None, None) {
        return Err("expected WEEKDAY YEAR-MONTH-DAY HOUR:MINUTE:SECOND and a time zone".to_owned());
    }
    let weekdays = days.map(weekdays).transpose()?;
    let (month, day) = date.map_or(Ok(("*".to_owned(), "*".to_owned())), self::date)?;
    // Without a time it is midnight (systemd.time(7)).
    let mut parts = time.unwrap_or("0:0").splitn(3, ':');
    let hour = component(parts.next().unwrap_or("0"), "hour", 0, 23)?;
    let minute = component(parts.next().unwrap_or("0"), "minute", 0, 59)?;
    let second = component(parts.next().unwrap_or("0"), "second", 0, 59)?;
    let weekday = match weekdays {
        // Both must fit, which `+` says.
        Some(days) if day != "*" => format!("+{days}"),
        Some(days) => days,
        None => "*".to_owned(),
    };
    let five = format!("{minute} {hour} {day} {month} {weekday}");
    Ok(if second == "0" {
        five
    } else {
        format!("{second} {five}")
    })
}

/// Reads `Mon`, `Mon..Fri,Sun`.
fn weekdays(text: &str) -> Result<String, String> {
    let number = |name: &str| {
        // The name of a day is whole, or has three letters.
        let is = |day: &&str| name.len() >= 3 && (name.len() == 3 && day.starts_with(name) || *day == name);
        let number = DAYS.split(' ').position(|day| is(&day));
        number.ok_or_else(|| format!("`{name}` is no weekday and no time zone"))
    };
    let mut days = std::collections::BTreeSet::new();
    for item in text.trim_end_matches(',').split(',') {
        let (from, to) = item
            .split_once("..")
            .or_else(|| item.split_once('-'))
            .unwrap_or((item, item));
        let (mut day, last) = (number(from)?, number(to)?);
        days.insert(day);
        // A range such as `Fri..Mon` goes over the end of the week.
        while day != last {
            day = (day + 1) % 7;
            days.insert(day);
        }
    }
    let days: Vec<String> = days.iter().map(usize::to_string).collect();
    Ok(days.join(","))
}

/// Reads `*-*-01`, `10-15`, `*-*~01`; returns month and day.
fn date(text: &str) -> Result<(String, String), String> {
    if let Some((start, "1" | "01")) = text.split_once('~') {
        let (month, _) = date(&format!("{start}-1"))?;
        return Ok((month, "L".to_owned()));
    }
    if text.contains('~') {
        return Err("of days from the end of a month, fnd has only the last one: `L`".to_owned());
    }
    let parts: Vec<&str> = text.split('-').collect();
    let (year, month, day) = match parts.as_slice() {
        [year, month, day] => (*year, *month, *day),
        [month, day] => ("*", *month, *day),
        _ => return Err(format!("`{text}` is no date")),
    };
    if year != "*" {
        return Err("schedules of fnd have no year: write `*`, and let the script look at the year".to_owned());
    }
    Ok((component(month, "month", 1, 12)?, component(day, "day", 1, 31)?))
}

/// Reads a list of numbers, ranges and repetitions.
fn component(text: &str, name: &str, least: u32, most: u32) -> Result<String, String> {
    let wrong = |text: &str| format!("{name}: `{text}` is no number from {least} to {most}");
    let number = |text: &str| {
        let number = within(text, least..=most).filter(|_| text.len() <= 4);
        number.ok_or_else(|| wrong(text))
    };
    let item = |item: &str| -> Result<String, String> {
        let (range, step) = item
            .split_once('/')
            .map_or((item, None), |(range, step)| (range, Some(step)));
        if item.contains('.') && !item.contains("..") {
            return Err(format!("{name}: fnd has whole numbers only"));
        }
        let (from, to) = match range.split_once("..") {
            _ if range == "*" && step.is_none() => return Ok("*".to_owned()),
            _ if range == "*" => (least, most),
            Some((from, to)) => (number(from)?, number(to)?),
            // A repetition without an end goes up to the largest number.
            None if step.is_some() => (number(range)?, most),
            None => return number(range).map(|number| number.to_string()),
        };
        let step = step.map_or(Ok(1), |step| within(step, 1..=u32::MAX).ok_or_else(|| wrong(step)))?;
        Ok(match () {
            () if from > to => return Err(format!("{name}: `{item}` goes backwards")),
            () if step > to - from => from.to_string(),
            () if step == 1 => format!("{from}-{to}"),
            () => format!("{from}-{to}/{step}"),
        })
    };
    let items: Result<Vec<String>, String> = text.split(',').map(item).collect();
    items.map(|items| items.join(","))
}

/// Reads a duration: `5min 20s`, `1h30`, `90` (seconds). `None` is `infinity`.
///
/// # Errors
/// It is none.
pub(super) fn duration(text: &str) -> Result<Option<Duration>, String> {
    if text == "infinity" {
        return Ok(None);
    }
    let wrong = || format!("`{}` is no duration", text.chars().take(40).collect::<String>());
    let mut total = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, behind) = rest.split_at(end);
        let behind = behind.trim_start();
        let end = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let seconds = match unit {
            "us" | "usec" | "µs" => 1e-6,
            "ms" | "msec" => 1e-3,
            "" | "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            "w" | "week" | "weeks" => 604_800.0,
            // A month of 30.44 days and a year of 365.25 days, as in systemd.time(7).
            "M" | "month" | "months" => 2_629_800.0,
            "y" | "year" | "years" => 31_557_600.0,
            _ => return Err(wrong()),
        };
        total += number.parse::<f64>().map_err(|_| wrong())? * seconds;
        rest = behind.trim_start();
    }
    // fnd's durations have whole milliseconds.
    let rounded = (total * 1000.0).round() / 1000.0;
    Duration::try_from_secs_f64(rounded)
        .ok()
        .filter(|duration| duration.as_secs() < 100 * 31_557_600)
        .map(Some)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendars_are_lines_of_cron() {
        for (text, cron, zone) in [
            ("daily", "0 0 * * *", None),
            ("Weekly", "0 0 * * 1", None),
            ("quarterly UTC", "0 0 1 1,4,7,10 *", Some("UTC")),
            ("*-*-* 02:30 Europe/Berlin", "30 2 * * *", Some("Europe/Berlin")),
            ("02:30:00", "30 2 * * *", None),
            ("*:0/15", "0-59/15 * * * *", None),
            ("Mon..Fri *-*-* 9..17:00:00", "0 9-17 * * 1,2,3,4,5", None),
            ("Sat,Sun 20:00", "0 20 * * 0,6", None),
            ("Sat..Mon", "0 0 * * 0,1,6", None),
            ("Mon *-*-1..7 04:00", "0 4 1-7 * +1", None),
            ("*-*-01,15 00:00", "0 0 1,15 * *", None),
            ("*-02/3-1", "0 0 1 2-12/3 *", None),
            ("12-24 18:30", "30 18 24 12 *", None),
            ("*-*~01", "0 0 L * *", None),
            ("*-*-* *:*:00/10", "0-59/10 * * * * *", None),
            ("*-*-* *:*", "* * * * *", None),
        ] {
            let found = calendar(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!((found.cron.as_str(), found.zone.as_deref()), (cron, zone), "{text}");
        }
    }

    #[test]
    fn what_is_no_line_of_cron_says_why() {
        for (text, why) in [
            ("2027-01-01", "no year"),
            ("*-*~03", "the last one"),
            ("Foo 10:00", "no weekday"),
            ("25:00", "hour: `25`"),
            ("*-13-01", "month"),
            ("*-2-30", "never comes"),
            ("10:00:00.5", "whole numbers"),
            ("10:00 11:00 12:00", "expected WEEKDAY"),
            ("", "expected WEEKDAY"),
            ("5..3:00", "goes backwards"),
            ("0/0:00", "is no number"),
        ] {
            let message = calendar(text).unwrap_err();
            assert!(message.contains(why), "{text}: {message}");
        }
    }

    #[test]
    fn durations_add_up() {
        for (text, seconds) in [
            ("90", 90.0),
            ("5min 20s", 320.0),
            ("1h30min", 5400.0),
            ("1.5h", 5400.0),
            ("100ms", 0.1),
            ("2 d", 172_800.0),
        ] {
            assert_eq!(duration(text), Ok(Some(Duration::from_secs_f64(seconds))), "{text}");
        }
        assert_eq!(duration("infinity"), Ok(None));
        for text in ["", "x", "5 parsecs", "-1", "1e9", "99999999999999999999y", "1..2"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
