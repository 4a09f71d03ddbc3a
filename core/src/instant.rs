//! Writes instants as text: RFC 3339 in UTC with milliseconds, the form in all bodies and status files.

use std::fmt::Write as _;

/// Returns the text of Unix milliseconds: `2026-11-21T08:00:00.123Z`. Years above 9999 have more digits.
#[must_use]
pub fn text(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000, unix_ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let mut text = String::with_capacity("2026-11-21T08:00:00.123Z".len());
    let _ = write!(text, "{year:04}"); // writing to a String cannot fail
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Each call of a handler has a time, and `write!` would take ten times as long for these.
    for (before, number, digits) in [
        ('-', month, 2),
        ('-', day, 2),
        ('T', hour, 2),
        (':', minute, 2),
        (':', second, 2),
        ('.', ms, 3),
    ] {
        text.push(before);
        for place in (0..digits).rev() {
            let digit = u8::try_from(number / 10_u64.pow(place) % 10);
            text.push(char::from(b'0' + digit.unwrap_or_default()));
        }
    }
    text.push('Z');
    text
}

/// Converts a number of days since 1970-01-01 to year, month and day of the Gregorian calendar.
///
/// Years begin in March here, so that the leap day is the last day of a year. 719,468 days lie between 0000-03-01 and
/// 1970-01-01; 400 years have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_rfc_3339() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_795_248_000_123, "2026-11-21T08:00:00.123Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "10000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(text(ms), expected);
        }
    }
}
