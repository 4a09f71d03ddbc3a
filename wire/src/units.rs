//! Parses and prints durations, sizes, CPU shares, rates and permission bits as people write them. No other module
//! knows the suffixes.
//!
//! Each value is printed in one canonical form, which parses to the same value.

use std::time::Duration;

/// Longest duration that is accepted: a hundred years. Sums of milliseconds then stay far from overflow.
pub const DURATION_MAX: Duration = Duration::from_secs(36_500 * 86_400);

/// Why a text could not be parsed. The message says what was expected, not what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a duration.
    #[error("expected a duration such as `500ms`, `30s`, `5m`, `1h30m` or `30d`")]
    Duration,
    /// A duration without unit.
    #[error("expected a duration with its unit, `ms`, `s`, `m`, `h` or `d`, such as `30s`")]
    DurationUnit,
    /// A duration above [`DURATION_MAX`].
    #[error("expected a duration of at most `36500d`")]
    DurationRange,
    /// The text is not a size in bytes.
    #[error("expected a size in bytes with an optional unit `K`, `M`, `G` or `T` (powers of 1024), such as `256M`")]
    Size,
    /// A size of 2^63 bytes or more.
    #[error("expected a size below `8388608T`")]
    SizeRange,
    /// Not a share of the CPU.
    #[error("expected a number of cores such as `500m`, `0.5` or `50%`")]
    Cpu,
    /// Not a number of bytes per second.
    #[error("expected a size per second such as `10M/s`")]
    ByteRate,
    /// Not a number per time.
    #[error("expected a whole number from 1 per `s`, `m`, `h` or `d`, such as `10/s`")]
    Rate,
    /// The text is not three or four octal digits.
    #[error("expected permission bits as three or four octal digits, such as `0640`")]
    Mode,
    /// Not a number of microseconds.
    #[error("expected a number of microseconds such as `50us`, or `0`")]
    Micros,
}

/// Largest CPU quota that is accepted, in thousandths of a core: ten thousand cores.
pub const CPU_MILLI_MAX: u32 = 10_000_000;

const MILLISECOND: u64 = 1;
const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Suffixes of durations in milliseconds, largest first.
const DURATION_UNITS: [(&str, u64); 5] = [
    ("d", DAY),
    ("h", HOUR),
    ("m", MINUTE),
    ("s", SECOND),
    ("ms", MILLISECOND),
];

/// Parses a duration: whole numbers with units, largest first, such as `1h30m`; `0` needs no unit.
///
/// # Errors
/// [`UnitError::Duration`], [`UnitError::DurationUnit`] for a number without unit, [`UnitError::DurationRange`].
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total: u64 = 0;
    let mut below = u64::MAX;
    if rest.is_empty() {
        return Err(UnitError::Duration);
    }
    while !rest.is_empty() {
        let (digits, after) = split_digits(rest);
        // All letters are the unit: `ms` is not `m` and a wrong `s`.
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, after) = after.split_at(letters);
        if digits.is_empty() {
            return Err(UnitError::Duration);
        }
        // A number alone is a common mistake, so it has an error of its own.
        if unit.is_empty() && after.is_empty() {
            return Err(UnitError::DurationUnit);
        }
        let &(_, unit) = DURATION_UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or(UnitError::Duration)?;
        // `30m1h` is probably a mistake.
        if unit >= below {
            return Err(UnitError::Duration);
        }
        below = unit;
        // The text has only digits, so `parse` fails only for a number that is too large.
        let number: u64 = digits.parse().map_err(|_| UnitError::DurationRange)?;
        total = number
            .checked_mul(unit)
            .and_then(|part| total.checked_add(part))
            .ok_or(UnitError::DurationRange)?;
        rest = after;
    }
    let total = Duration::from_millis(total);
    if total > DURATION_MAX {
        Err(UnitError::DurationRange)
    } else {
        Ok(total)
    }
}

/// Returns the canonical text of a duration, rounded down to milliseconds: `90s` stays `90s`, `1h30m` becomes `90m`.
#[must_use]
pub fn print_duration(duration: Duration) -> String {
    let total = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if total == 0 {
        return "0".to_owned();
    }
    let (name, unit) = DURATION_UNITS
        .into_iter()
        .find(|(_, unit)| total.is_multiple_of(*unit))
        .expect("one millisecond divides every number of milliseconds");
    // A person who wrote `180s` reads `180s` more easily than `3m`. Days and hours are never printed in the smaller
    // unit.
    if unit == MINUTE && total < 10 * MINUTE && !total.is_multiple_of(5 * MINUTE) {
        return format!("{}s", total / SECOND);
    }
    format!("{}{name}", total / unit)
}

/// Suffixes of sizes as powers of 1024, largest first.
const SIZE_UNITS: [(&str, u32); 5] = [("T", 40), ("G", 30), ("M", 20), ("K", 10), ("", 0)];

/// Parses a size in bytes: a number, `256M`, `256Mi`, `1.5G`; powers of 1024 as in systemd.
///
/// # Errors
/// [`UnitError::Size`] and [`UnitError::SizeRange`].
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let (whole, rest) = split_digits(text);
    let (fraction, unit) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("0", rest),
    };
    // Kubernetes writes `Mi` for powers of 1024, which `M` is here, too.
    let plain = unit.strip_suffix('i').filter(|plain| !plain.is_empty()).unwrap_or(unit);
    let &(_, shift) = SIZE_UNITS
        .iter()
        .find(|(name, _)| *name == plain)
        .ok_or(UnitError::Size)?;
    // A size has no use for more digits after the dot.
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 6 || (shift == 0 && rest.starts_with('.')) {
        return Err(UnitError::Size);
    }
    // With 128 bits, a size that does not fit into 64 is seen as such.
    let whole: u128 = whole.parse().map_err(|_| UnitError::SizeRange)?;
    let scale = 10u128.pow(u32::try_from(fraction.len()).map_err(|_| UnitError::Size)?);
    let fraction: u128 = fraction.parse().map_err(|_| UnitError::Size)?;
    let whole = whole.checked_mul(1 << shift).ok_or(UnitError::SizeRange)?;
    let bytes = whole
        .checked_add((fraction << shift) / scale)
        .ok_or(UnitError::SizeRange)?;
    // The kernel counts bytes in signed 64-bit numbers.
    i64::try_from(bytes)
        .map(i64::unsigned_abs)
        .map_err(|_| UnitError::SizeRange)
}

/// Returns the canonical text of a size: `256M`, or `1000` if no unit divides it.
#[must_use]
pub fn print_size(bytes: u64) -> String {
    let (name, shift) = SIZE_UNITS
        .into_iter()
        // Zero has 64 zero bits at its end and would become `0T`.
        .find(|(_, shift)| bytes.trailing_zeros() >= *shift && bytes != 0)
        .unwrap_or(("", 0));
    format!("{}{name}", bytes >> shift)
}

/// Returns a size in the largest unit that divides it, as sentences have it: `256 MiB`.
#[must_use]
pub fn spell_size(bytes: u64) -> String {
    let printed = print_size(bytes);
    let (number, unit) = split_digits(&printed);
    match unit {
        "" => format!("{number} bytes"),
        unit => format!("{number} {unit}iB"),
    }
}

/// Parses a share of the CPU in thousandths of a core: `500m`, `0.5` or `50%`.
///
/// # Errors
/// [`UnitError::Cpu`], also for zero and for more than 10,000 cores.
pub fn parse_cpu(text: &str) -> Result<u32, UnitError> {
    // The number, and how many thousandths of a core one unit of it is.
    let (number, worth) = match (text.strip_suffix('m'), text.strip_suffix('%')) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 10),
        _ => (text, 1000),
    };
    let (whole, rest) = split_digits(number);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("0", rest),
    };
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 3 || !rest.is_empty() {
        return Err(UnitError::Cpu);
    }
    let whole: u64 = whole.parse().map_err(|_| UnitError::Cpu)?;
    let part: u64 = format!("{fraction:0<3}").parse().map_err(|_| UnitError::Cpu)?;
    let thousandths = whole
        .checked_mul(1000)
        .and_then(|n| n.checked_add(part))
        .ok_or(UnitError::Cpu)?;
    let milli = thousandths.checked_mul(worth).ok_or(UnitError::Cpu)?;
    // A share is a whole number of thousandths of a core.
    if milli == 0 || !milli.is_multiple_of(1000) || milli > u64::from(CPU_MILLI_MAX) * 1000 {
        return Err(UnitError::Cpu);
    }
    u32::try_from(milli / 1000).map_err(|_| UnitError::Cpu)
}

/// Returns the canonical text of thousandths of a core: `500m`, `2`.
#[must_use]
pub fn print_cpu(milli: u32) -> String {
    if milli.is_multiple_of(1000) {
        (milli / 1000).to_string()
    } else {
        format!("{milli}m")
    }
}

/// Parses bytes per second, such as `10M/s`.
///
/// # Errors
/// [`UnitError::ByteRate`], also for zero.
pub fn parse_byte_rate(text: &str) -> Result<u64, UnitError> {
    let size = text.strip_suffix("/s").ok_or(UnitError::ByteRate)?;
    parse_size(size)
        .ok()
        .filter(|bytes| *bytes > 0)
        .ok_or(UnitError::ByteRate)
}

/// Returns the canonical text of bytes per second.
#[must_use]
pub fn print_byte_rate(bytes: u64) -> String {
    format!("{}/s", print_size(bytes))
}

/// Parses a rate such as `10/s`; returns the count and the time.
///
/// # Errors
/// [`UnitError::Rate`], also for a count of zero.
pub fn parse_rate(text: &str) -> Result<(u32, Duration), UnitError> {
    let (count, unit) = text.split_once('/').ok_or(UnitError::Rate)?;
    let &(_, unit) = DURATION_UNITS
        .iter()
        .find(|(name, _)| *name == unit && *name != "ms")
        .ok_or(UnitError::Rate)?;
    // `parse` alone would accept a sign, too.
    if !split_digits(count).1.is_empty() {
        return Err(UnitError::Rate);
    }
    let count: u32 = count.parse().map_err(|_| UnitError::Rate)?;
    if count == 0 {
        Err(UnitError::Rate)
    } else {
        Ok((count, Duration::from_millis(unit)))
    }
}

/// Returns the canonical text of a rate: `10/s`. If the time is not one unit, which no parsed rate has, it is `10/7s`.
#[must_use]
pub fn print_rate(count: u32, per: Duration) -> String {
    let unit = DURATION_UNITS
        .iter()
        .find(|(_, unit)| u128::from(*unit) == per.as_millis());
    match unit {
        Some((name, _)) => format!("{count}/{name}"),
        None => format!("{count}/{}", print_duration(per)),
    }
}

/// Parses permission bits as octal text: `0640` or `640`.
///
/// # Errors
/// [`UnitError::Mode`].
pub fn parse_mode(text: &str) -> Result<u32, UnitError> {
    // `from_str_radix` alone would accept a sign, too.
    let octal = text.bytes().all(|b| (b'0'..=b'7').contains(&b));
    if !octal || !(3..=4).contains(&text.len()) {
        return Err(UnitError::Mode);
    }
    u32::from_str_radix(text, 8).map_err(|_| UnitError::Mode)
}

/// Returns the canonical text of permission bits: four octal digits.
#[must_use]
pub fn print_mode(mode: u32) -> String {
    format!("{mode:04o}")
}

/// Parses a number of microseconds: `50us`; `0` needs no unit.
///
/// # Errors
/// [`UnitError::Micros`].
pub fn parse_micros(text: &str) -> Result<u32, UnitError> {
    let digits = if text == "0" {
        Some(text)
    } else {
        text.strip_suffix("us")
    };
    let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or(UnitError::Micros)
}

/// Returns the canonical text of a number of microseconds.
#[must_use]
pub fn print_micros(micros: u32) -> String {
    if micros == 0 {
        "0".to_owned()
    } else {
        format!("{micros}us")
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.split_at(text.len() - rest.len())
}

/// Returns a count with its noun: `1 error`, `2 errors`.
#[must_use]
pub fn counted<N: Copy + std::fmt::Display + From<u8> + PartialEq>(count: N, one: &str, many: &str) -> String {
    let noun = if count == N::from(1) { one } else { many };
    format!("{count} {noun}")
}

#[cfg(test)]
mod tests;
