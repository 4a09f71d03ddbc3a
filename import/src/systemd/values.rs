//! Values of units in the words of fnd's manifest.

use super::calendar;
use crate::text::within;
use fnd_wire::units::{print_cpu, print_duration, print_size};
use std::time::Duration;

/// Reads a truth value.
pub(super) fn truth(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Ok(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Ok(false),
        _ => Err(format!("`{text}` is neither `yes` nor `no`")),
    }
}

/// Reads a duration; `"none"` is `infinity`, and zero where that means the same.
pub(super) fn duration(text: &str) -> Result<String, String> {
    Ok(match calendar::duration(text)? {
        None | Some(Duration::ZERO) => "none".to_owned(),
        Some(duration) => print_duration(duration),
    })
}

/// Reads a size in bytes: `512M`; a share of the machine's memory is none.
pub(super) fn size(text: &str) -> Result<String, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "%" => return Err("fnd has no shares of the machine's memory: write a size such as `512M`".to_owned()),
        _ => return Err(format!("`{text}` is no size such as `512M`")),
    };
    let bytes = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift));
    let bytes = bytes.filter(|bytes| *bytes > 0 && *bytes < 1 << 60);
    bytes
        .map(print_size)
        .ok_or_else(|| format!("`{text}` is no size such as `512M`"))
}

/// Reads a quota of the CPU: `50%`.
pub(super) fn cpu(text: &str) -> Result<String, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<u32>().ok());
    // For both programs 100 % is one CPU.
    let milli = percent
        .and_then(|percent| percent.checked_mul(10))
        .filter(|milli| *milli > 0);
    milli
        .map(print_cpu)
        .ok_or_else(|| format!("`{text}` is no share of the CPU such as `50%`"))
}

/// Reads a whole number within bounds.
pub(super) fn number(text: &str, least: i64, most: i64) -> Result<i64, String> {
    let number = within(text, least..=most);
    number.ok_or_else(|| format!("`{text}` is no whole number from {least} to {most}"))
}

/// Returns the weight that stands to the others as the kernel's scheduler has it for a nice value.
pub(super) fn weight_of_nice(nice: i64) -> i64 {
    let mut weight: f64 = 100.0;
    // In the kernel's scheduler one step of the nice value is a factor of 1.25.
    for _ in 0..nice.unsigned_abs().min(20) {
        weight = if nice > 0 { weight / 1.25 } else { weight * 1.25 };
    }
    // Between 1 and 10,000 for nice values from -20 to 19.
    format!("{weight:.0}").parse().unwrap_or(100).clamp(1, 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_units_of_fnd() {
        assert_eq!(size("512M").unwrap(), "512M");
        assert_eq!(size("1048576").unwrap(), "1M");
        assert_eq!(cpu("150%").unwrap(), "1500m");
        assert_eq!(duration("1min 30s").unwrap(), "90s");
        assert_eq!(duration("infinity").unwrap(), "none");
        assert_eq!(
            (weight_of_nice(0), weight_of_nice(10), weight_of_nice(-20)),
            (100, 11, 8674)
        );
        for wrong in ["10%", "x", "0", "-1", "99999999999999999999", "1X", ""] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        for wrong in ["50", "0%", "-1%", "9999999999%", ""] {
            assert!(cpu(wrong).is_err(), "{wrong}");
        }
        assert!(truth("maybe").is_err());
    }
}
