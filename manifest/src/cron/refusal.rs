//! Lines that are no line of cron: which field is wrong, and what to write for the form of another scheduler.

use crate::duration_words::short;
use croner::parser::CronParser;

/// The fields from the seconds on, and the numbers and words of each.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31 or `L`"),
    ("month", "1 to 12 or `JAN` to `DEC`"),
    ("day of the week", "0 to 7 or `SUN` to `SAT`"),
];

/// The days of the week; cron names them by three letters.
const WEEKDAYS: [&str; 7] = [
    "SUNDAY",
    "MONDAY",
    "TUESDAY",
    "WEDNESDAY",
    "THURSDAY",
    "FRIDAY",
    "SATURDAY",
];

/// Says why the parser refuses a line. `spread` is the line with a number in place of each `H`.
pub(super) fn why(line: &str, spread: &str, parser: CronParser) -> String {
    let typed: Vec<&str> = line.split_whitespace().collect();
    if typed.is_empty() {
        return "it is empty".to_owned();
    }
    if line.trim_start().starts_with('@') {
        return "its words are `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly`".to_owned();
    }
    let Some(skipped) = FIELDS.len().checked_sub(typed.len()).filter(|skipped| *skipped < 2) else {
        return format!("a line of cron has 5 or 6 fields, this one has {}", typed.len());
    };
    let fields = typed.iter().zip(spread.split_whitespace());
    let mut fields = fields.zip(FIELDS.iter().enumerate().skip(skipped));
    let wrong = fields.find(|((_, field), (place, _))| parser.parse(&alone(field, *place)).is_err());
    match wrong {
        Some(((field, _), (_, (name, values)))) => {
            format!(
                "the {name} `{field}` is wrong: expected {values}, `*`, a list `1,2`, a range `1-5` or a step `*/5`"
            )
        }
        None => "its fields do not fit together".to_owned(),
    }
}

/// Returns a line in which all fields but one are `*`.
fn alone(field: &str, place: usize) -> String {
    let fields = (0..FIELDS.len()).map(|number| if number == place { field } else { "*" });
    fields.collect::<Vec<_>>().join(" ")
}

/// Returns what to write for a line that has the form of another scheduler; absent for any other line.
#[must_use]
pub fn instead(line: &str) -> Option<String> {
    let line = line.trim().to_ascii_lowercase();
    match line.as_str() {
        "@reboot" | "@startup" | "@boot" => Some(
            "write `at = \"boot\"` in place of `cron`: then the function runs once after each start of the machine"
                .to_owned(),
        ),
        "@midnight" | "midnight" => Some(written("@daily")),
        "@minutely" | "minutely" => Some(written("* * * * *")),
        "hourly" | "daily" | "weekly" | "monthly" | "yearly" | "annually" => Some(written(&format!("@{line}"))),
        _ => interval(&line).or_else(|| calendar(&line)).or_else(|| with_year(&line)),
    }
}

fn written(line: &str) -> String {
    format!("write `cron = \"{line}\"`")
}

/// `@every 5m` of Go, `every 5 minutes`, `rate(5 minutes)` of AWS.
fn interval(line: &str) -> Option<String> {
    let rate = || line.strip_prefix("rate(")?.strip_suffix(')');
    let length = line.strip_prefix("@every ").or_else(|| line.strip_prefix("every "));
    let length = length.or_else(rate)?.trim();
    if let Some(every) = short(length) {
        return Some(format!("write `every = \"{every}\"` in place of `cron`"));
    }
    let other = "write an interval as `every = \"5m\"` in place of `cron`, and a time of day as `cron = \"0 3 * * *\"`";
    Some(weekdays(length).map_or_else(|| other.to_owned(), |day| written(&format!("0 0 * * {day}"))))
}

/// `Mon..Fri 02:30` of systemd.time(7), and times of a day alone.
fn calendar(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut time = words.iter().find(|word| word.contains(':'))?.split(':');
    let mut number = |most: u8| time.next()?.parse::<u8>().ok().filter(|number| *number <= most);
    let (Some(hour), Some(minute)) = (number(23), number(59)) else {
        return Some(SYSTEMD.to_owned());
    };
    let days = words.first().and_then(|word| weekdays(word));
    let is_known = |word: &&str| word.contains(':') || *word == "*-*-*" || weekdays(word).is_some();
    if !words.iter().all(is_known) {
        return Some(SYSTEMD.to_owned());
    }
    let days = days.unwrap_or_else(|| "*".to_owned());
    Some(format!(
        "this is systemd's form: {}",
        written(&format!("{minute} {hour} * * {days}"))
    ))
}

const SYSTEMD: &str = "this is systemd's form: write five fields, such as `cron = \"30 2 1 * *\"` for 02:30 on the first of \
                       each month";

/// Returns days of the week in cron's form: `mon..fri` as `MON-FRI`.
fn weekdays(word: &str) -> Option<String> {
    let day = |name: &str| {
        let name = name.to_ascii_uppercase();
        let day = WEEKDAYS.into_iter().find(|day| day.starts_with(&name));
        day.filter(|_| name.len() >= 3)?.get(..3)
    };
    let range = |range: &str| match range.split_once("..").or_else(|| range.split_once('-')) {
        Some((from, to)) => Some(format!("{}-{}", day(from)?, day(to)?)),
        None => day(range).map(str::to_owned),
    };
    let days: Option<Vec<String>> = word.split(',').map(range).collect();
    days.map(|days| days.join(","))
}

/// `cron(0 12 * * ? *)` of AWS, and seven fields of Quartz: the last field is the year.
fn with_year(line: &str) -> Option<String> {
    let inner = line.strip_prefix("cron(").and_then(|line| line.strip_suffix(')'));
    let mut fields: Vec<&str> = inner.unwrap_or(line).split_whitespace().collect();
    // EventBridge has `?` as one of its days, the third or the fifth field; with seconds it would be the fourth or the sixth.
    let is_of_aws = fields.len() == 6 && [2, 4].iter().any(|place| fields.get(*place) == Some(&"?"));
    if inner.is_none() && fields.len() != 7 && !is_of_aws {
        return None;
    }
    fields.pop();
    let has_digit = |days: &&str| days.contains(|letter: char| letter.is_ascii_digit());
    let days = if fields.last().is_some_and(has_digit) {
        ", and the days of the week are better written by name: 1 is `MON`, for AWS and Quartz `SUN`"
    } else {
        ""
    };
    // A step from a number on has no end in this form: `0/15` is `*/15`.
    let step = |field: &&str| {
        field
            .strip_prefix("0/")
            .map_or_else(|| (*field).to_owned(), |step| format!("*/{step}"))
    };
    let fields: Vec<String> = fields.iter().map(step).collect();
    let line = written(&fields.join(" ").to_ascii_uppercase());
    Some(format!("{line}: there is no field for the year{days}"))
}

#[cfg(test)]
mod tests {
    use super::instead;
    use crate::cron::Cron;

    #[test]
    fn forms_of_other_schedulers_have_the_line_to_write() {
        for (line, expected) in [
            ("@reboot", "`at = \"boot\"`"),
            ("@midnight", "`cron = \"@daily\"`"),
            ("hourly", "`cron = \"@hourly\"`"),
            ("@every 5m", "`every = \"5m\"`"),
            ("@every 1h30m", "`every = \"5m\"`"),
            ("every 5 minutes", "`every = \"5m\"`"),
            ("every hour", "`every = \"1h\"`"),
            ("every Monday", "`cron = \"0 0 * * MON\"`"),
            ("rate(10 minutes)", "`every = \"10m\"`"),
            ("Mon..Fri 02:30", "`cron = \"30 2 * * MON-FRI\"`"),
            ("Mon,Thu *-*-* 04:00:00", "`cron = \"0 4 * * MON,THU\"`"),
            ("*-*-* 04:05", "`cron = \"5 4 * * *\"`"),
            ("*-*-01 04:00", "this is systemd's form"),
            ("03:15", "`cron = \"15 3 * * *\"`"),
            ("every month", "`cron = \"0 3 * * *\"`"),
            ("every fri", "`cron = \"0 0 * * FRI\"`"),
            ("cron(0 12 * * ? *)", "`cron = \"0 12 * * ?\"`"),
            ("cron(0 12 ? * 2 *)", "1 is `MON`"),
            ("0 12 * * ? *", "`cron = \"0 12 * * ?\"`"),
            ("0/15 9 ? * MON-FRI *", "`cron = \"*/15 9 ? * MON-FRI\"`"),
            ("0 0 12 * * ? 2027", "`cron = \"0 0 12 * * ?\"`"),
        ] {
            assert!(Cron::parse(line, 0).is_err(), "{line}");
            let instead = instead(line).unwrap_or_default();
            assert!(instead.contains(expected), "{line}: {instead}");
        }
        for line in ["61 * * * *", "* * *", "", "0 3 * * XYZ"] {
            assert_eq!(instead(line), None, "{line}");
        }
    }
}
