//! Lines of cron: the instants at which a schedule runs. croner reads and evaluates them; the letter `H` is fnd's own.
//!
//! | form | meaning |
//! |---|---|
//! | five fields | minute, hour, day of the month, month, day of the week |
//! | six fields | the same after a field of seconds |
//! | `@hourly`, `@daily`, ... | a word for five fields |
//! | `L W # ?` | as in croner: last, nearest weekday, n-th weekday, any |
//! | `H`, `H/15`, `H(0-5)` | a number that is fixed by a seed: for each function and host another one |
//!
//! Files:
//! - `refusal`: lines that are no line of cron, and what to write

mod refusal;

pub use refusal::instead;

use croner::Cron as Pattern;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A line of cron that comes some time.
#[derive(Debug, Clone)]
pub struct Cron(Pattern);

impl Cron {
    /// Reads a line of cron. `seed` decides the numbers that `H` stands for.
    ///
    /// # Errors
    /// A sentence that says why the line is none.
    pub fn parse(line: &str, seed: u64) -> Result<Self, String> {
        // croner takes `,` for a field without values, and then looks for its next slot for many seconds.
        if line.split_whitespace().any(|field| field.split(',').any(str::is_empty)) {
            return Err("an item of a list is empty: write `1,2`".to_owned());
        }
        let spread = spread(line, seed)?;
        let parser = CronParser::builder()
            .seconds(Seconds::Optional)
            .year(Year::Disallowed)
            .build();
        // The messages of croner name its own options, and no field.
        let pattern = parser.parse(&spread);
        pattern.map(Self).map_err(|_| refusal::why(line, &spread, parser))
    }

    /// Returns the first slot after an instant; both are Unix milliseconds. Absent: the line never comes again, such as
    /// the 30th of February. A slot in an hour that daylight saving leaves out is at the end of that hour; a slot in an
    /// hour that comes twice is in the first one, unless the line has a slot in every hour.
    #[must_use]
    pub fn next_after(&self, unix_ms: u64, zone: &TimeZone) -> Option<u64> {
        let after = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
        let next = self.0.find_next_occurrence(&after.to_zoned(zone.clone()), false).ok()?;
        let next = u64::try_from(next.timestamp().as_millisecond()).ok()?;
        // An evaluation that stands still would never end.
        (next > unix_ms).then_some(next)
    }
}

/// The ranges of the fields behind the seconds. The 29th to the 31st do not come every month, so `H` does not choose
/// them; Sunday is 0.
const RANGES: [(u64, u64); 6] = [(0, 59), (0, 59), (0, 23), (1, 28), (1, 12), (0, 6)];

/// Replaces each `H` by a number.
fn spread(line: &str, seed: u64) -> Result<String, String> {
    // A word such as `@HOURLY` stands for all fields, so it has no field in which `H` could be replaced.
    if !line.contains('H') || line.starts_with('@') {
        return Ok(line.to_owned());
    }
    let fields: Vec<&str> = line.split_whitespace().collect();
    // A line of five fields has no seconds, so it begins with the range of minutes.
    let ranges = RANGES
        .get(RANGES.len().saturating_sub(fields.len())..)
        .unwrap_or_default();
    let spread = fields.iter().zip(ranges).enumerate().map(|(place, (field, range))| {
        let parts = field.split(',').enumerate();
        // Each field gets a number of its own: otherwise minute and hour would be related.
        let parts = parts.map(|(nth, part)| chosen(part, *range, mixed(seed, place * 16 + nth)));
        parts.collect::<Result<Vec<_>, _>>().map(|parts| parts.join(","))
    });
    let spread = spread.collect::<Result<Vec<_>, _>>()?;
    if spread.len() != fields.len() {
        return Err("a line of cron has 5 or 6 fields".to_owned());
    }
    Ok(spread.join(" "))
}

/// Returns a part of a field with the number in place of `H`: `H`, `H/STEP`, `H(FROM-TO)` or `H(FROM-TO)/STEP`.
fn chosen(part: &str, (least, most): (u64, u64), number: u64) -> Result<String, String> {
    let Some(rest) = part.strip_prefix('H') else {
        return Ok(part.to_owned());
    };
    // Names of weekdays and months have an H too, but none begins with one.
    let wrong = || format!("`{part}` is none of `H`, `H/STEP`, `H(FROM-TO)` and `H(FROM-TO)/STEP`");
    let (range, step) = match rest.split_once('/') {
        Some((range, step)) => (range, Some(step.parse::<u64>().map_err(|_| wrong())?)),
        None => (rest, None),
    };
    let (from, to) = if range.is_empty() {
        (least, most)
    } else {
        let inner = range.strip_prefix('(').and_then(|range| range.strip_suffix(')'));
        let ends = inner.and_then(|inner| inner.split_once('-')).ok_or_else(wrong)?;
        (
            ends.0.parse().map_err(|_| wrong())?,
            ends.1.parse().map_err(|_| wrong())?,
        )
    };
    if from > to || from < least || to > most {
        return Err(format!("`{part}` is not within {least}-{most}"));
    }
    match step {
        None => Ok((from + number % (to - from + 1)).to_string()),
        Some(step) if step == 0 || step > to - from + 1 => {
            Err(format!("the step of `{part}` is not from 1 to {}", to - from + 1))
        }
        // Only the first slot is spread, within one step: the distance between two slots stays `step`.
        Some(step) => Ok(format!("{}-{to}/{step}", from + number % step)),
    }
}

/// Returns a number that another `place` or seed changes as a whole (the finalizer of SplitMix64).
fn mixed(seed: u64, place: usize) -> u64 {
    let mut mixed = seed.wrapping_add((place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns a time zone of the database that is part of this program; absent: there is none of that name.
#[must_use]
pub fn zone(name: &str) -> Option<TimeZone> {
    // The judge can open no file, so it cannot read the machine's database. fnd uses the same one, so that both agree.
    jiff::tz::TimeZoneDatabase::bundled().get(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Zoned;

    /// The slots of a line after an instant, by the clock of the zone.
    #[track_caller]
    fn check(line: &str, after: &str, expected: &[&str]) {
        let start: Zoned = after.parse().unwrap();
        let cron = Cron::parse(line, 0).unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut at = u64::try_from(start.timestamp().as_millisecond()).unwrap();
        for expected in expected {
            at = cron.next_after(at, start.time_zone()).unwrap();
            let slot = Timestamp::from_millisecond(i64::try_from(at).unwrap()).unwrap();
            let text = slot
                .to_zoned(start.time_zone().clone())
                .strftime("%m-%d %H:%M:%S%:z")
                .to_string();
            assert_eq!(text, *expected, "{line} after {after}");
        }
    }

    #[test]
    fn slots_follow_the_clock_of_the_zone() {
        let berlin = "2026-11-22T10:00:00[Europe/Berlin]";
        check("*/5 * * * *", berlin, &["11-22 10:05:00+01:00", "11-22 10:10:00+01:00"]);
        check("*/10 * * * * *", berlin, &["11-22 10:00:10+01:00"]);
        check("@daily", berlin, &["11-23 00:00:00+01:00"]);
        check("0 9 * * MON-FRI", berlin, &["11-23 09:00:00+01:00"]);
        check("0 0 L * *", berlin, &["11-30 00:00:00+01:00", "12-31 00:00:00+01:00"]);
        check("0 0 29 2 *", berlin, &["02-29 00:00:00+01:00"]);
    }

    #[test]
    fn a_slot_in_the_gap_is_at_its_end_and_one_in_the_overlap_comes_once() {
        let spring = "2027-03-27T12:00:00[Europe/Berlin]";
        check("30 2 * * *", spring, &["03-28 03:00:00+02:00", "03-29 02:30:00+02:00"]);
        let autumn = "2026-10-24T12:00:00[Europe/Berlin]";
        check("30 2 * * *", autumn, &["10-25 02:30:00+02:00", "10-26 02:30:00+01:00"]);
        let overlap = "2026-10-25T01:30:00[Europe/Berlin]";
        let hours = ["10-25 02:00:00+02:00", "10-25 02:00:00+01:00", "10-25 03:00:00+01:00"];
        check("0 * * * *", overlap, &hours);
    }

    const QUARTER: u64 = 15 * 60 * 1000;

    /// The days of 2026 and 2027 around the changes of a zone, each as two instants; for a zone without changes, the first two
    /// days. On all other days a zone is like UTC.
    fn days_of_change(zone: &TimeZone) -> Vec<(u64, u64)> {
        const DAY: u64 = 96 * QUARTER;
        // The beginnings of 2026 and 2028.
        const START: i64 = 1_767_225_600_000;
        const END: i64 = 1_830_297_600_000;
        let first = Timestamp::from_millisecond(START).unwrap();
        let changes = zone.following(first);
        let changes = changes.map(|change| change.timestamp().as_millisecond());
        let changes = changes.take_while(|change| *change < END);
        let around = changes.map(|change| u64::try_from(change).unwrap());
        let around: Vec<_> = around.map(|change| (change - DAY - QUARTER, change + DAY)).collect();
        if around.is_empty() {
            let start = START.unsigned_abs();
            vec![(start, start + 2 * DAY)]
        } else {
            around
        }
    }

    /// Each quarter of an hour is looked at: every offset of these zones is a multiple of that.
    #[test]
    fn slots_are_those_of_a_clock_on_the_wall_on_days_of_change() {
        let mut changes = 0;
        for name in [
            "UTC",
            "Asia/Kolkata",
            "Europe/Berlin",
            "Europe/Dublin",
            "America/New_York",
            "America/St_Johns",
            // The clock changes at midnight.
            "America/Havana",
            "America/Santiago",
            "Africa/Cairo",
            // By half an hour.
            "Australia/Lord_Howe",
            // 45 minutes beside the full hour.
            "Pacific/Chatham",
            // The clock goes back for Ramadan.
            "Africa/Casablanca",
        ] {
            let zone = zone(name).unwrap();
            for (start, end) in days_of_change(&zone) {
                changes += 1;
                let local = |at: u64| {
                    let at = Timestamp::from_millisecond(i64::try_from(at).unwrap()).unwrap();
                    at.to_zoned(zone.clone())
                };
                let quarters: Vec<(u64, Zoned)> = (1..=(end - start) / QUARTER)
                    .map(|number| start + number * QUARTER)
                    .map(|at| (at, local(at)))
                    .collect();
                let slots = |line: &str, fits: &mut dyn FnMut(&Zoned) -> bool| {
                    let cron = Cron::parse(line, 0).unwrap();
                    let mut at = start;
                    for (expected, _) in quarters.iter().filter(|(_, local)| fits(local)) {
                        at = cron.next_after(at, &zone).unwrap();
                        assert_eq!(at, *expected, "`{line}` in {name} at {}", local(*expected));
                    }
                    let next = cron.next_after(at, &zone).unwrap();
                    assert!(next > end, "`{line}` in {name} at {}", local(next));
                };
                // Each quarter of an hour, also in the hour that comes twice.
                slots("*/15 * * * *", &mut |_| true);
                slots("30 * * * *", &mut |at| at.minute() == 30);
                // Once a day: the first instant that shows the time; where none does, the first one after the gap.
                for (hour, minute) in [(2, 30), (0, 0), (3, 15)] {
                    let time = jiff::civil::time(hour, minute, 0, 0);
                    let before = local(start);
                    let mut last = (before.time() >= time).then(|| before.date());
                    slots(&format!("{minute} {hour} * * *"), &mut |at| {
                        let is_new = at.time() >= time && last.is_none_or(|last| at.date() > last);
                        if is_new {
                            last = Some(at.date());
                        }
                        is_new
                    });
                }
            }
        }
        assert!(changes > 35, "only {changes}");
    }

    #[test]
    fn a_line_that_is_none_says_why() {
        for (line, why) in [
            ("61 * * * *", "the minute `61` is wrong: expected 0 to 59"),
            ("0 24 * * *", "the hour `24` is wrong: expected 0 to 23"),
            ("0 0 32 * *", "the day of the month `32` is wrong"),
            (
                "0 0 1 Januar *",
                "the month `Januar` is wrong: expected 1 to 12 or `JAN`",
            ),
            ("0 0 1 * XYZ", "the day of the week `XYZ` is wrong"),
            ("61 0 0 1 * *", "the second `61` is wrong"),
            ("* * *", "5 or 6 fields, this one has 3"),
            ("@reboot", "`@hourly`, `@daily`"),
            ("*/0 * * * *", "the minute `*/0` is wrong"),
            ("", "empty"),
            ("H * *", "5 or 6 fields"),
            ("H/0 * * * *", "the step of `H/0`"),
            ("H(0-99) * * * *", "not within 0-59"),
            ("H(5-1) * * * *", "not within 0-59"),
            ("HX * * * *", "`HX` is none of"),
            ("é * * * *", "the minute `é` is wrong"),
            (", */4 * * *", "an item of a list is empty"),
            ("0 9 * * MON,", "an item of a list is empty"),
        ] {
            let error = Cron::parse(line, 1).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
            assert!(!error.ends_with('.'), "{error}");
        }
    }

    #[test]
    fn the_thirtieth_of_february_never_comes() {
        let cron = Cron::parse("0 0 30 2 *", 0).unwrap();
        assert_eq!(cron.next_after(0, &TimeZone::UTC), None);
    }

    #[test]
    fn h_is_within_its_field_and_differs_between_seeds() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let text = spread("H H H H H", seed).unwrap();
            let numbers: Vec<u64> = text.split(' ').map(|field| field.parse().unwrap()).collect();
            for (number, (least, most)) in numbers.iter().zip(&RANGES[1..]) {
                assert!((*least..=*most).contains(number), "{text}");
            }
            seen.insert(numbers[0]);
            let steps = spread("H/15 H(9-17) * * *", seed).unwrap();
            assert!(Cron::parse(&steps, 0).is_ok(), "{steps}");
            assert!(steps.split_once('-').unwrap().0.parse::<u64>().unwrap() < 15, "{steps}");
        }
        assert!(seen.len() > 50, "{seen:?}");
        assert_eq!(spread("0 9 * * THU,MON", 7).unwrap(), "0 9 * * THU,MON");
        assert_eq!(spread("@hourly", 7).unwrap(), "@hourly");
    }
}
