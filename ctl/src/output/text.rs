//! Text for people: control characters as escapes, local times, long lines broken between words.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Returns text for standard output: escaped if that is a terminal.
pub(super) fn escape_for(terminal: bool, text: &str) -> String {
    if terminal { escape(text, true) } else { text.to_owned() }
}

/// Returns an instant as the local time of a zone. `--since` and `--until` accept the same form.
pub(super) fn local(text: &str, zone: &TimeZone) -> String {
    match text.parse::<Timestamp>() {
        Ok(instant) => instant
            .to_zoned(zone.clone())
            .strftime("%Y-%m-%d %H:%M:%S%.3f")
            .to_string(),
        Err(_) => text.to_owned(),
    }
}

/// Returns a text in lines that are not wider than `width`, unless a word is.
pub(crate) fn wrap(text: &str, width: Option<u16>, indent: usize) -> String {
    let width = width.map_or(usize::MAX, usize::from);
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split_inclusive(' ') {
        // The blank behind the last word of a line may stand beyond the width.
        if column > indent && column + word.trim_end().chars().count() > width {
            lines.truncate(lines.trim_end().len());
            lines.push_str(&format!("\n{:indent$}", ""));
            column = indent;
        }
        lines.push_str(word);
        column += word.chars().count();
    }
    lines
}

/// Returns text in which characters that control a terminal are shown as escapes. Line ends and tabs may stay.
#[must_use]
pub(crate) fn escape(text: &str, keep_lines: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        // Direction marks reorder the text after them, so they are as bad as control characters.
        let direction = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (c.is_control() && !(keep_lines && matches!(c, '\n' | '\t'))) || direction {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_break_between_words() {
        for (width, expected) in [
            (None, "error  disk  there is no room left on it"),
            (Some(20), "error  disk  there\n    is no room left\n    on it"),
            (
                Some(3),
                "error\n    disk\n    there\n    is\n    no\n    room\n    left\n    on\n    it",
            ),
        ] {
            assert_eq!(wrap("error  disk  there is no room left on it", width, 4), expected);
        }
    }

    #[test]
    fn instants_are_local() {
        let zone = TimeZone::posix("JST-9").unwrap();
        assert_eq!(local("2026-11-21T23:00:00.120Z", &zone), "2026-11-22 08:00:00.120");
        assert_eq!(local("-", &zone), "-");
    }

    #[test]
    fn text_of_functions_does_not_control_a_terminal() {
        assert_eq!(
            escape("a\u{1b}[31mb\r\n\tc\u{9b}d", true),
            "a\\u{1b}[31mb\\r\n\tc\\u{9b}d"
        );
        assert_eq!(escape("a\nb\u{202e}c", false), "a\\nb\\u{202e}c");
        assert_eq!(escape("žluťoučký 🐎", false), "žluťoučký 🐎");
    }
}
