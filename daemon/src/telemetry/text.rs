//! Messages as text for people: escaped, with level, time and colour where they help.

use super::entry::LogEntry;
use fnd_core::instant;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;
use tracing::Level;

/// Returns text in which characters that control a terminal are shown as escapes: control characters, and those that
/// change the direction of writing, become `\x1b` and `\u{202e}`; tabs stay.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a String cannot fail.
        let _ = match c {
            '\n' => escaped.write_str("\\n"),
            '\r' => escaped.write_str("\\r"),
            c if !obeyed(c) => escaped.write_char(c),
            c if c.is_ascii() => write!(escaped, "\\x{:02x}", u32::from(c)),
            c => write!(escaped, "\\u{{{:x}}}", u32::from(c)),
        };
    }
    Cow::Owned(escaped)
}

fn obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\t') || turns
}

/// Returns a duration as people write it: `12 ms`, `1.25 s`, `2 min 5 s`, `3 h 20 min`.
#[must_use]
pub fn plain_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    match seconds {
        0 if millis == 0 => format!("{:.1} ms", duration.as_secs_f64() * 1000.0),
        0 => format!("{millis} ms"),
        1..60 => format!("{:.2} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Returns the line, or lines, of a message. Lines after the first are indented, so that no part of a message looks
/// like another message.
pub(super) fn line(entry: &LogEntry, time: bool, color: bool) -> String {
    let mut text = String::with_capacity(entry.message.len() + 48);
    let mut put = |style: &str, part: &str| {
        let (on, off) = if color && !style.is_empty() {
            (style, "\x1b[0m")
        } else {
            ("", "")
        };
        let _ = write!(text, "{on}{part}{off}"); // writing to a String cannot fail
    };
    if time {
        let stamp = instant::text(entry.time_ms);
        // A person at the terminal knows the day.
        put("\x1b[2m", stamp.get(11..23).unwrap_or(&stamp));
        put("", " ");
    }
    match entry.level {
        Level::ERROR => put("\x1b[1;31m", "error: "),
        Level::WARN => put("\x1b[1;33m", "warning: "),
        Level::DEBUG => put("\x1b[2m", "debug: "),
        Level::TRACE => put("\x1b[2m", "trace: "),
        // Most lines are information, and need no word in front.
        _ => {}
    }
    for (number, part) in entry.message.lines().enumerate() {
        put("", if number == 0 { "" } else { "\n    " });
        let style = if entry.get("fnd_stream").is_some() {
            "\x1b[2m"
        } else {
            ""
        };
        put(style, &escape(part));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_obey_nothing_of_a_message() {
        assert_eq!(escape("plain\tütf"), "plain\tütf");
        assert_eq!(
            escape("\x1b[2J\r\nx\x7f\u{9b}\u{202e}"),
            "\\x1b[2J\\r\\nx\\x7f\\u{9b}\\u{202e}"
        );
    }

    #[test]
    fn lines_have_what_their_place_needs() {
        let mut entry = LogEntry::new(Level::WARN, 1_795_248_000_123);
        entry.message = "first\nsecond\x1b[0m".to_owned();
        assert_eq!(line(&entry, false, false), "warning: first\n    second\\x1b[0m\n");
        assert_eq!(
            line(&entry, true, false),
            "08:00:00.123 warning: first\n    second\\x1b[0m\n"
        );
        assert!(line(&entry, true, true).contains("\x1b[1;33mwarning: \x1b[0mfirst"));
    }

    #[test]
    fn durations_read_well() {
        let check = |micros, expected: &str| assert_eq!(plain_duration(Duration::from_micros(micros)), expected);
        check(400, "0.4 ms");
        check(12_300, "12 ms");
        check(1_250_000, "1.25 s");
        check(125_000_000, "2 min 5 s");
        check(12_000_000_000, "3 h 20 min");
    }
}
