//! Durations in words, as people write them: `5 minutes`.

/// Returns the short form of a number and a unit in words: `5m` for `5 minutes`, `1h` for `hour`; nothing for another
/// text.
#[must_use]
pub fn short(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let end_of_number = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, word) = text.split_at(end_of_number);
    let number = if number.is_empty() { "1" } else { number };
    let unit = match word.trim() {
        "ms" | "millisecond" | "milliseconds" => "ms",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        "d" | "day" | "days" => "d",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn units_in_words_become_letters() {
        for (text, expected) in [
            ("5 minutes", Some("5m")),
            ("30 Sec", Some("30s")),
            ("hour", Some("1h")),
            ("2days", Some("2d")),
            ("250ms", Some("250ms")),
            ("", None),
            ("30", None),
            ("1h30m", None),
            ("monday", None),
        ] {
            assert_eq!(short(text).as_deref(), expected, "{text}");
        }
    }
}
