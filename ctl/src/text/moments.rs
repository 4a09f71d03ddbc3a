//! Instants in the words of systemd.time(7): `now`, `today`, `yesterday 18:00`, `09:00`, `2 hours ago`, `-2h`.

use fnd_manifest::duration_words::short;
use fnd_wire::units::parse_duration;
use jiff::civil::Time;
use jiff::{Timestamp, Zoned};

/// Returns the instant that a text means; nothing if it is none of these forms.
pub(super) fn instant(typed: &str, now: &Zoned) -> Option<Timestamp> {
    let text = typed.trim().to_ascii_lowercase();
    if let Some(ago) = text.strip_suffix(" ago").or_else(|| text.strip_prefix('-')) {
        return before(ago.trim(), now);
    }
    let (day, time) = match text.split_once(' ') {
        Some((day, time)) => (day, Some(time)),
        None => (text.as_str(), None),
    };
    let day = match (day, time) {
        ("now", None) => return Some(now.timestamp()),
        ("today", _) => now.date(),
        ("yesterday", _) => now.date().yesterday().ok()?,
        (time, None) => return last(clock(time)?, now),
        _ => return None,
    };
    let time = time.map_or_else(|| Some(Time::midnight()), |time| clock(time.trim()))?;
    let at = day.to_datetime(time).to_zoned(now.time_zone().clone());
    Some(at.ok()?.timestamp())
}

/// Returns the instant that is so long ago: `2 hours`, `90m`.
fn before(ago: &str, now: &Zoned) -> Option<Timestamp> {
    let ago = short(ago).unwrap_or_else(|| ago.to_owned());
    now.timestamp().checked_sub(parse_duration(&ago).ok()?).ok()
}

/// Returns the last instant at which the clock showed this time: of today, or else of yesterday.
fn last(time: Time, now: &Zoned) -> Option<Timestamp> {
    let at = |day: jiff::civil::Date| {
        let at = day.to_datetime(time).to_zoned(now.time_zone().clone());
        at.ok().map(|at| at.timestamp())
    };
    let today = at(now.date()).filter(|at| *at <= now.timestamp());
    today.or_else(|| at(now.date().yesterday().ok()?))
}

/// Reads a time of a day: `09:00`, `9:00`.
fn clock(text: &str) -> Option<Time> {
    let zero = if text.find(':') == Some(1) { "0" } else { "" };
    // Without a colon a number would be a time, too.
    text.contains(':').then(|| format!("{zero}{text}").parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::instant;
    use jiff::Zoned;

    #[test]
    fn a_day_on_which_the_clock_is_set_has_its_own_length() {
        // At 02:00 the clock went to 03:00.
        let now: Zoned = "2026-03-29T03:10:00+02:00[Europe/Berlin]".parse().unwrap();
        for (typed, expected) in [
            ("today", "2026-03-28T23:00:00Z"),
            ("yesterday 18:00", "2026-03-28T17:00:00Z"),
            ("2h ago", "2026-03-28T23:10:00Z"),
            // There was none today: 03:30 is still to come.
            ("02:30", "2026-03-28T01:30:00Z"),
        ] {
            let found = instant(typed, &now).map(|at| at.to_string());
            assert_eq!(found.as_deref(), Some(expected), "{typed}");
        }
    }

    #[test]
    fn words_are_instants_by_the_clock_of_the_zone() {
        let now: Zoned = "2026-11-21T10:30:00+01:00[Europe/Berlin]".parse().unwrap();
        for (typed, expected) in [
            ("now", Some("2026-11-21T09:30:00Z")),
            ("today", Some("2026-11-20T23:00:00Z")),
            ("Yesterday", Some("2026-11-19T23:00:00Z")),
            ("yesterday  18:00", Some("2026-11-20T17:00:00Z")),
            ("09:00", Some("2026-11-21T08:00:00Z")),
            ("9:00", Some("2026-11-21T08:00:00Z")),
            ("23:00", Some("2026-11-20T22:00:00Z")),
            ("2 hours ago", Some("2026-11-21T07:30:00Z")),
            ("15 min ago", Some("2026-11-21T09:15:00Z")),
            ("-2h", Some("2026-11-21T07:30:00Z")),
            ("1h ago", Some("2026-11-21T08:30:00Z")),
            ("soon", None),
            ("2026", None),
            ("tomorrow", None),
            ("25:00", None),
        ] {
            let found = instant(typed, &now).map(|at| at.to_string());
            assert_eq!(found.as_deref(), expected, "{typed}");
        }
    }
}
