//! The fields of a crontab's time, as crontab(5) means them, in the words of fnd's `cron`.

/// A field: its name, its least and its largest number, the names of its numbers from 0 on.
struct TimeField {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static str,
}

const KINDS: [TimeField; 5] = [
    kind("minute", 0, 59, ""),
    kind("hour", 0, 23, ""),
    kind("day of the month", 1, 31, ""),
    // No number of a month is 0, so its name is none that a field can have: a field is split at `/` first.
    kind("month", 1, 12, "/ JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"),
    kind("day of the week", 0, 7, "SUN MON TUE WED THU FRI SAT"),
];

const fn kind(name: &'static str, least: u32, most: u32, names: &'static str) -> TimeField {
    TimeField {
        name,
        least,
        most,
        names,
    }
}

/// A time in the words of fnd.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cron {
    /// The line of `schedule.cron`.
    pub(super) line: String,
    /// Whether cron would choose a number anew at each start, and fnd chooses one for good.
    pub(super) random: bool,
}

/// Returns what `@daily` and its like stand for; `@reboot` stands for no time.
pub(super) fn word(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "@daily",
        "@hourly" => "@hourly",
        _ => return None,
    })
}

/// # Errors
/// The number of the first bad field, and what is wrong with it.
pub(super) fn fields(fields: &[&str; 5]) -> Result<Cron, (usize, String)> {
    let mut parts = Vec::new();
    for (number, (field, kind)) in fields.iter().zip(&KINDS).enumerate() {
        let part = one(field, kind).map_err(|why| (number, format!("{}: {why}", kind.name)))?;
        parts.push(part);
    }
    let [_, _, day, _, weekday] = fields;
    // For cron, both must fit if one of them *begins* with a star; for fnd, only if one of them *is* a star, or with a `+`.
    let both = (day.starts_with('*') || weekday.starts_with('*')) && *day != "*" && *weekday != "*";
    if let Some(weekday) = parts.last_mut().filter(|_| both) {
        weekday.insert(0, '+');
    }
    let line = parts.join(" ");
    // A line that fnd would refuse is refused here, at the place in the crontab.
    fnd_manifest::cron::Cron::parse(&line, 0).map_err(|why| (0, why))?;
    Ok(Cron {
        random: line.contains('H') && fields.iter().any(|field| field.contains('~')),
        line,
    })
}

/// Reads one field: a list of ranges with steps.
fn one(field: &str, kind: &TimeField) -> Result<String, String> {
    let items: Result<Vec<String>, String> = field.split(',').map(|item| range(item, kind)).collect();
    items.map(|items| items.join(","))
}

fn range(item: &str, kind: &TimeField) -> Result<String, String> {
    let (range, step) = match item.split_once('/') {
        None => (item, None),
        Some((range, step)) => match step.parse::<u32>() {
            Ok(number) if number > 0 && step.len() <= 3 => (range, Some(number)),
            _ => return Err(format!("`{step}` is no step: a whole number from 1")),
        },
    };
    if let Some((from, to)) = range.split_once('~') {
        let from = if from.is_empty() {
            kind.least
        } else {
            number(from, kind)?
        };
        // Not 31 and not 7: `H` knows only days that every month has, and Sunday once.
        let most = match kind.most {
            31 => 28,
            7 => 6,
            most => most,
        };
        let to = if to.is_empty() { most } else { number(to, kind)? };
        let fits = step.is_none() && from <= to && to <= most;
        return if fits {
            Ok(format!("H({from}-{to})"))
        } else {
            Err(format!("fnd cannot choose from `{item}`"))
        };
    }
    let (from, to) = if range == "*" {
        // 7 is Sunday once more.
        (kind.least, if kind.most == 7 { 6 } else { kind.most })
    } else if let Some((from, to)) = range.split_once('-') {
        let (from, to) = (number(from, kind)?, number(to, kind)?);
        if from > to {
            return Err(format!("the range `{range}` goes backwards: cron refuses it, too"));
        }
        (from, to)
    } else if step.is_some() {
        return Err(format!(
            "`{item}` has a step without a range: write `{range}-{}/N`",
            kind.most
        ));
    } else {
        return number(range, kind).map(|number| number.to_string());
    };
    Ok(match step {
        // The step leads out of the range: the first number is the only one.
        Some(step) if step > to - from => from.to_string(),
        Some(step) if range == "*" => format!("*/{step}"),
        Some(step) => format!("{from}-{to}/{step}"),
        None if range == "*" => "*".to_owned(),
        None => format!("{from}-{to}"),
    })
}

fn number(text: &str, kind: &TimeField) -> Result<u32, String> {
    let upper = text.to_ascii_uppercase();
    let named = kind.names.split_ascii_whitespace().position(|name| name == upper);
    let number = match named.and_then(|at| u32::try_from(at).ok()) {
        Some(number) => number,
        None if text.is_empty() => return Err("a number is missing".to_owned()),
        None if text.len() > 3 || !text.bytes().all(|b| b.is_ascii_digit()) => {
            return Err(format!("`{}` is no number", text.chars().take(40).collect::<String>()));
        }
        None => text.parse().map_err(|_| format!("`{text}` is no number"))?,
    };
    if (kind.least..=kind.most).contains(&number) {
        Ok(number)
    } else {
        Err(format!("{number} is not from {} to {}", kind.least, kind.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_cron() {
        for (line, expected) in [
            ("30 2 * * *", "30 2 * * *"),
            ("*/15 0-6,22,23 1 jan-Mar Mon", "*/15 0-6,22,23 1 1-3 1"),
            ("0 0 13 * FRI", "0 0 13 * 5"),
            // Both must fit, since one begins with a star.
            ("0 0 */2 * mon", "0 0 */2 * +1"),
            ("0 0 1-7 * */2", "0 0 1-7 * +*/2"),
            ("0 0 * * 5-7", "0 0 * * 5-7"),
            ("*/90 * * * *", "0 * * * *"),
            ("10-20/30 * * * *", "10 * * * *"),
            ("5-59/10 08 * * 7", "5-59/10 8 * * 7"),
            ("~ 1~3 * * *", "H(0-59) H(1-3) * * *"),
        ] {
            let mut words = line.split(' ');
            let parts = std::array::from_fn(|_| words.next().unwrap());
            let cron = fields(&parts).unwrap_or_else(|why| panic!("{line}: {why:?}"));
            assert_eq!(
                (cron.line.as_str(), cron.random),
                (expected, line.contains('~')),
                "{line}"
            );
        }
    }

    #[test]
    fn the_days_are_those_of_cron() {
        use jiff::tz::TimeZone;
        // 2026-11-26 is a Thursday.
        let start = "2026-11-26T12:00:00Z"
            .parse::<jiff::Timestamp>()
            .unwrap()
            .as_millisecond();
        let days = |parts: [&str; 5]| {
            let cron = fnd_manifest::cron::Cron::parse(&fields(&parts).unwrap().line, 0).unwrap();
            let mut at = u64::try_from(start).unwrap();
            let next = |_| {
                at = cron.next_after(at, &TimeZone::UTC).unwrap();
                let day = jiff::Timestamp::from_millisecond(i64::try_from(at).unwrap()).unwrap();
                day.strftime("%a %m-%d").to_string()
            };
            (0..3).map(next).collect::<Vec<_>>()
        };
        assert_eq!(
            days(["0", "0", "1", "*", "mon"]),
            ["Mon 11-30", "Tue 12-01", "Mon 12-07"]
        );
        assert_eq!(
            days(["0", "0", "*/2", "*", "mon"]),
            ["Mon 12-07", "Mon 12-21", "Mon 01-11"]
        );
        assert_eq!(days(["0", "0", "*", "*", "7"]), ["Sun 11-29", "Sun 12-06", "Sun 12-13"]);
        assert_eq!(
            days(["0", "0", "*", "*", "6-7"]),
            ["Sat 11-28", "Sun 11-29", "Sat 12-05"]
        );
    }

    #[test]
    fn a_bad_field_is_named() {
        for (line, number, why) in [
            ("60 * * * *", 0, "minute: 60 is not from 0 to 59"),
            ("* 24 * * *", 1, "hour: 24"),
            ("* * 0 * *", 2, "day of the month: 0 is not from 1 to 31"),
            ("* * * foo *", 3, "month: `foo` is no number"),
            ("* * * * fri-mon", 4, "goes backwards"),
            ("*/0 * * * *", 0, "no step"),
            ("5/15 * * * *", 0, "write `5-59/N`"),
            ("* * L * *", 2, "`L` is no number"),
            ("1,,2 * * * *", 0, "a number is missing"),
            ("H * * * *", 0, "`H` is no number"),
            ("? * * * *", 0, "`?` is no number"),
            ("99999999999999999999 * * * *", 0, "no number"),
        ] {
            let mut words = line.split(' ');
            let parts = std::array::from_fn(|_| words.next().unwrap());
            let (at, message) = fields(&parts).unwrap_err();
            assert_eq!(at, number, "{line}: {message}");
            assert!(message.contains(why), "{line}: {message}");
        }
    }
}
