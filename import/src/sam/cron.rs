//! Times of EventBridge, `rate(...)` and `cron(...)`, in the words of fnd.

use fnd_manifest::cron::Cron;

/// A time of a schedule.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SamTime {
    /// The value of `schedule.every`.
    Every(String),
    /// The line of `schedule.cron`.
    Cron(String),
}

/// Reads the expression of a schedule.
///
/// # Errors
/// Why it is refused.
pub(super) fn time(text: &str) -> Result<SamTime, String> {
    let text = text.trim();
    let inside = |word: &str| text.strip_prefix(word)?.strip_suffix(')');
    if let Some(rate) = inside("rate(") {
        return every(rate).map(SamTime::Every);
    }
    if inside("at(").is_some() {
        return Err("fnd has no schedule for one run: `fndctl invoke F --at TIME` queues it".to_owned());
    }
    let line = inside("cron(").ok_or("expected `rate(5 minutes)` or `cron(0 12 * * ? *)`")?;
    let fields: Vec<&str> = line.split_whitespace().collect();
    let Ok(fields) = <[&str; 6]>::try_from(fields) else {
        return Err("expected six fields: minute, hour, day, month, day of the week, year".to_owned());
    };
    cron(fields).map(SamTime::Cron)
}

/// `5 minutes`
fn every(rate: &str) -> Result<String, String> {
    let words: Vec<&str> = rate.split_whitespace().collect();
    let [number, unit] = words.as_slice() else {
        return Err("expected a number and a unit, such as `rate(5 minutes)`".to_owned());
    };
    let unit = match *unit {
        "minute" | "minutes" => "m",
        "hour" | "hours" => "h",
        "day" | "days" => "d",
        other => return Err(format!("`{other}` is none of `minutes`, `hours` and `days`")),
    };
    match number.parse::<u32>() {
        Ok(number) if number > 0 => Ok(format!("{number}{unit}")),
        _ => Err(format!("`{number}` is no whole number from 1")),
    }
}

fn cron([minute, hour, day, month, weekday, year]: [&str; 6]) -> Result<String, String> {
    if day != "?" && weekday != "?" {
        return Err("one of the day and the day of the week must be `?`, as AWS wants it".to_owned());
    }
    if year != "*" {
        return Err(format!("fnd's `cron` has no years: write `*` for `{year}`"));
    }
    let line = [
        stepped(minute, 59),
        stepped(hour, 23),
        any(day, 31),
        stepped(month, 12),
        weekdays(weekday)?,
    ];
    let line = line.join(" ");
    Cron::parse(&line, 0).map(|_| line)
}

/// Returns a field in which `?` is `*`.
fn any(field: &str, most: u32) -> String {
    if field == "?" {
        "*".to_owned()
    } else {
        stepped(field, most)
    }
}

/// Returns a field in which a step from a number on has an end: `0/15` is `0-59/15`.
fn stepped(field: &str, most: u32) -> String {
    let item = |item: &str| match item.split_once('/') {
        Some((from, step)) if !from.is_empty() && from.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{from}-{most}/{step}")
        }
        _ => item.to_owned(),
    };
    field.split(',').map(item).collect::<Vec<_>>().join(",")
}

/// Returns the days of the week with the numbers of cron: Sunday is 1 for EventBridge and 0 for cron.
fn weekdays(field: &str) -> Result<String, String> {
    // Alone it is the last day of the week.
    let field = if field == "L" { "7".to_owned() } else { any(field, 7) };
    let mut line = String::new();
    let mut number = String::new();
    let mut in_step = false;
    // A last character that no number has ends the last number.
    for c in field.chars().chain(std::iter::once(' ')) {
        if c.is_ascii_digit() {
            number.push(c);
            continue;
        }
        if !number.is_empty() {
            line.push_str(&weekday(&number, in_step)?);
            number.clear();
        }
        // Behind `/` is a distance, and behind `#` the number of a week.
        in_step = c == '/' || c == '#';
        line.push(c);
    }
    Ok(line.trim_end().to_owned())
}

fn weekday(number: &str, is_distance: bool) -> Result<String, String> {
    if is_distance {
        return Ok(number.to_owned());
    }
    match number.parse::<u32>() {
        Ok(number @ 1..=7) => Ok((number - 1).to_string()),
        _ => Err(format!("`{number}` is no day of the week: 1 (Sunday) to 7")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_eventbridge() {
        for (text, expected) in [
            ("rate(1 minute)", SamTime::Every("1m".to_owned())),
            ("rate(12 hours)", SamTime::Every("12h".to_owned())),
            ("rate(7 days)", SamTime::Every("7d".to_owned())),
            ("cron(0 12 * * ? *)", SamTime::Cron("0 12 * * *".to_owned())),
            (
                "cron(0/15 9-17 ? * 2-6 *)",
                SamTime::Cron("0-59/15 9-17 * * 1-5".to_owned()),
            ),
            ("cron(15 3 ? * MON-FRI *)", SamTime::Cron("15 3 * * MON-FRI".to_owned())),
            ("cron(0 8 1 JAN,JUL ? *)", SamTime::Cron("0 8 1 JAN,JUL *".to_owned())),
            ("cron(0 0 ? * 1,7 *)", SamTime::Cron("0 0 * * 0,6".to_owned())),
            ("cron(0 10 L * ? *)", SamTime::Cron("0 10 L * *".to_owned())),
            ("cron(0 10 ? * L *)", SamTime::Cron("0 10 * * 6".to_owned())),
            ("cron(0 10 ? * 6L *)", SamTime::Cron("0 10 * * 5L".to_owned())),
            ("cron(0 10 15W * ? *)", SamTime::Cron("0 10 15W * *".to_owned())),
            ("cron(0 10 ? * 3#2 *)", SamTime::Cron("0 10 * * 2#2".to_owned())),
        ] {
            assert_eq!(time(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_times_are_refused_with_words() {
        for (text, why) in [
            ("5 minutes", "expected `rate(5 minutes)`"),
            ("rate(5)", "a number and a unit"),
            ("rate(0 hours)", "from 1"),
            ("rate(5 seconds)", "none of"),
            ("cron(0 12 * * ?)", "six fields"),
            ("cron(0 12 * * ? 2027)", "no years"),
            ("cron(0 12 1 * MON *)", "must be `?`"),
            ("cron(0 12 ? * 8 *)", "1 (Sunday) to 7"),
            ("at(2027-01-01T00:00:00)", "fndctl invoke F --at"),
        ] {
            let found = time(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
        assert!(time("cron(61 12 * * ? *)").is_err());
    }
}
