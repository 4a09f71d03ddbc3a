//! Instants, durations, sizes and counts for people.

use fnd_core::records::outcome::Reason;
use fnd_wire::ids::Version;
use jiff::Timestamp;
use maud::{Markup, html};

/// Returns an instant of the API. Script makes it local time; without script it is UTC: the time of today, else with the date.
pub(crate) fn time(instant: &str, now: Timestamp) -> Markup {
    html! { time datetime=(instant) { (utc(instant, now)) } }
}

/// Returns an instant that may be absent.
pub(crate) fn time_or_dash(instant: Option<&str>, now: Timestamp) -> Markup {
    match instant {
        Some(instant) => time(instant, now),
        None => dash(),
    }
}

/// Returns what stands where a value is absent; a reader reads the word.
pub(crate) fn dash() -> Markup {
    html! { span.none aria-label="none" role="img" { "–" } }
}

/// Returns a text, or a dash.
pub(crate) fn or_dash(text: &str) -> Markup {
    if text.is_empty() {
        dash()
    } else {
        html! { (text) }
    }
}

fn utc(instant: &str, now: Timestamp) -> String {
    // The form of the API is fixed, `2026-11-21T08:00:00.123Z`; another text is shown as it is.
    let (Some(date), Some(clock)) = (instant.get(..10), instant.get(11..19)) else {
        return instant.to_owned();
    };
    if now.to_string().starts_with(date) {
        format!("{clock} UTC")
    } else {
        format!("{date} {} UTC", clock.get(..5).unwrap_or(clock))
    }
}

/// Returns an instant as Unix milliseconds.
pub(crate) fn unix_ms(instant: &str) -> Option<i64> {
    instant.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

/// Returns the time between two instants, or from the first until now.
pub(crate) fn between(start: Option<&str>, end: Option<&str>, now: Timestamp) -> String {
    let Some(start) = start.and_then(unix_ms) else {
        return String::new();
    };
    let end = end.and_then(unix_ms).unwrap_or(now.as_millisecond());
    span(end.saturating_sub(start))
}

/// Returns milliseconds in their largest unit: `850 ms`, `42 s`, `3 min`, `5 h`, `12 d`.
fn span(ms: i64) -> String {
    // Less than nothing: the clock was set back.
    match ms.max(0) {
        ms @ 0..1000 => format!("{ms} ms"),
        ms @ 1000..120_000 => format!("{} s", ms / 1000),
        ms @ 120_000..7_200_000 => format!("{} min", ms / 60_000),
        ms @ 7_200_000..172_800_000 => format!("{} h", ms / 3_600_000),
        ms => format!("{} d", ms / 86_400_000),
    }
}

/// Returns a duration with two digits or more: `0.4 ms`, `12 ms`, `1.2 s`, `3 min`.
pub(crate) fn duration(ms: Option<f64>) -> String {
    match ms {
        None => String::new(),
        Some(ms) if ms < 9.95 => format!("{ms:.1} ms"),
        Some(ms) if ms < 999.5 => format!("{ms:.0} ms"),
        Some(ms) if ms < 9950.0 => format!("{:.1} s", ms / 1000.0),
        Some(ms) if ms < 120_000.0 => format!("{:.0} s", ms / 1000.0),
        Some(ms) => format!("{:.0} min", (ms / 60_000.0).floor()),
    }
}

/// Returns a size: `512 B`, `9.2 MiB`.
pub(crate) fn size(bytes: Option<u64>) -> String {
    let Some(bytes) = bytes else { return String::new() };
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        None => format!("{bytes} B"),
        Some((unit, shift)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            if tenths < 100 {
                format!("{}.{} {unit}", tenths / 10, tenths % 10)
            } else {
                format!("{} {unit}", tenths / 10)
            }
        }
    }
}

/// Returns a number with its noun.
pub(crate) fn amount(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// Returns a number with a thin space between thousands.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// Returns reason and message of an end; the message may begin with the reason.
pub(crate) fn why(reason: Option<Reason>, message: &str) -> String {
    let reason = reason.map(|reason| reason.to_string()).unwrap_or_default();
    if message.starts_with(&reason) || message.is_empty() {
        format!("{reason}{}", message.strip_prefix(&reason).unwrap_or_default())
    } else {
        format!("{reason}: {message}")
    }
}

/// Returns the first characters of a text, with dots where it is longer.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}

/// Returns a message as a sentence of a page: it begins with a capital, and what stands between backticks is code.
pub(crate) fn marked(message: &str) -> Markup {
    let mut first = message.chars();
    let capital = first.next().into_iter().flat_map(char::to_uppercase);
    let sentence = capital.collect::<String>() + first.as_str();
    let parts: Vec<_> = sentence.split('`').collect();
    // An even number of parts: a backtick has no second one, so nothing is code.
    if parts.len().is_multiple_of(2) {
        return html! { (sentence) };
    }
    html! {
        @for (place, part) in parts.iter().enumerate() {
            @if place.is_multiple_of(2) { (part) } @else { code { (part) } }
        }
    }
}

/// Returns the beginning of a version, for tables.
pub(crate) fn version(version: Version) -> String {
    let mut hex = version.hex();
    hex.truncate(12);
    hex
}

/// Returns the end of an id, for tables, as `fndctl history` shows it: ids begin with the time, and only their ends differ.
pub(crate) fn short(id: &str) -> &str {
    id.get(id.len().saturating_sub(8)..).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-21T08:00:00Z".parse().unwrap()
    }

    #[test]
    fn an_instant_is_the_clock_of_today_or_has_its_date() {
        for (instant, expected) in [
            ("2026-11-21T07:59:58.500Z", "07:59:58 UTC"),
            ("2026-11-20T23:10:00.000Z", "2026-11-20 23:10 UTC"),
            ("soon", "soon"),
        ] {
            let html = format!("<time datetime=\"{instant}\">{expected}</time>");
            assert_eq!(time(instant, now()).into_string(), html);
        }
    }

    #[test]
    fn spans_sizes_and_numbers_have_units() {
        let since = |start| between(Some(start), None, now());
        assert_eq!(since("2026-11-21T07:59:59.500Z"), "500 ms");
        assert_eq!(since("2026-11-21T07:00:00.000Z"), "60 min");
        assert_eq!(since("2026-11-21T08:00:01.000Z"), "0 ms");
        assert_eq!(since("2026-11-19T08:00:00.000Z"), "2 d");
        assert_eq!(between(None, None, now()), "");
        let durations = [0.42, 12.3, 1204.0, 59_900.0, 185_900.0].map(|ms| duration(Some(ms)));
        assert_eq!(durations, ["0.4 ms", "12 ms", "1.2 s", "60 s", "3 min"]);
        let sizes = [512, 9_650_000, 268_435_456].map(|bytes| size(Some(bytes)));
        assert_eq!(sizes, ["512 B", "9.2 MiB", "256 MiB"]);
        assert_eq!(number(1_234_567), "1\u{2009}234\u{2009}567");
        assert_eq!((number(0), number(999)), ("0".to_owned(), "999".to_owned()));
        let amounts = [0, 1, 2000].map(|count| amount(count, "run", "runs"));
        assert_eq!(amounts, ["0 runs", "1 run", "2\u{2009}000 runs"]);
    }

    #[test]
    fn a_message_is_a_sentence_with_its_code() {
        for (message, expected) in [
            (
                "there is no `<a>`: see `b`",
                "There is no <code>&lt;a&gt;</code>: see <code>b</code>",
            ),
            ("near `fi'", "Near `fi'"),
            ("`a` is wrong", "<code>a</code> is wrong"),
            ("élan", "Élan"),
            ("", ""),
        ] {
            assert_eq!(marked(message).into_string(), expected);
        }
    }

    #[test]
    fn texts_are_cut_at_characters_and_a_reason_stands_once() {
        assert_eq!((cut("äöü", 2), cut("äö", 2)), ("äö…".to_owned(), "äö".to_owned()));
        assert_eq!(why(Some(Reason::Oom), "at the limit"), "oom: at the limit");
        assert_eq!(why(Some(Reason::Failed), "failed: no host"), "failed: no host");
        assert_eq!(short("01934567-89ab-7def-8123-456789abcdef"), "89abcdef");
    }
}
