//! Settings of `[Service]` that are a key of `[limits]`.

use super::parse::UnitSetting;
use super::unit::UnitImport;
use super::values::{cpu, duration, number, size, weight_of_nice};
use crate::rows::take;
use crate::stop_signal::is_killed_at_once;
use toml::Value;

/// Takes a setting over, if it is one of these.
///
/// # Errors
/// Why it is refused.
pub(super) fn limit(maker: &mut UnitImport<'_>, item: &UnitSetting) -> Result<bool, String> {
    let value = item.value.as_str();
    // Of a limit with a soft and a hard part, the hard one counts.
    let hard = value.rsplit(':').next().unwrap_or(value);
    let unlimited = value == "infinity";
    let whole = |least, most| number(hard, least, most).map(Value::from);
    let (key, value): (&str, Result<Value, String>) = match item.key.as_str() {
        "MemoryMax" | "MemoryLimit" => ("limits.memory", size(value).map(Value::from)),
        "MemoryHigh" => ("limits.memory_high", size(value).map(Value::from)),
        // `size` refuses 0, which means here that nothing is swapped.
        "MemorySwapMax" if value == "0" => ("limits.swap", Ok(Value::from("0"))),
        "MemorySwapMax" => ("limits.swap", size(value).map(Value::from)),
        "CPUQuota" => ("limits.cpu", cpu(value).map(Value::from)),
        // For the kernel `idle` is less than any weight, so the smallest weight comes nearest to it.
        "CPUWeight" | "StartupCPUWeight" if value == "idle" => ("limits.cpu_weight", Ok(Value::from(1))),
        "CPUWeight" => ("limits.cpu_weight", whole(1, 10_000)),
        "IOWeight" => ("limits.io_weight", whole(1, 10_000)),
        "TasksMax" => ("limits.pids", whole(1, 4_194_304)),
        "LimitNOFILE" => ("limits.open_files", whole(16, 1_048_576)),
        "LimitFSIZE" if unlimited => ("limits.file_size", Ok(Value::from("none"))),
        "LimitFSIZE" => ("limits.file_size", size(hard).map(Value::from)),
        "Nice" => {
            let note = "the share of the CPU is that of all processes together";
            let key = ("limits.cpu_weight", number(value, -20, 19).map(weight_of_nice)?);
            maker.made.differs(&mut maker.report, key, &item.field, note);
            return Ok(true);
        }
        "TimeoutStopSec" | "TimeoutSec" => {
            // It bounds the start, too, and a script is over when it has started.
            if item.key == "TimeoutSec" && !maker.service {
                let time = duration(value);
                take(&mut maker.made, &mut maker.report, "limits.timeout", time, &item.field);
            }
            if is_killed_at_once(&maker.made, &mut maker.report, &item.field) {
                return Ok(true);
            }
            ("limits.grace", duration(value).map(Value::from))
        }
        "TimeoutStartSec" | "RuntimeMaxSec" if maker.service => {
            let why = "a service runs without a timeout, and may take any time to start";
            maker.report.not_here(&item.field, why);
            return Ok(true);
        }
        // For a unit that ends by itself, systemd takes the whole run for its start.
        "TimeoutStartSec" | "RuntimeMaxSec" => ("limits.timeout", duration(value).map(Value::from)),
        _ => return Ok(false),
    };
    let never = matches!(&value, Ok(Value::String(text)) if text == "none") && key == "limits.grace";
    let key_takes_none = ["limits.timeout", "limits.file_size"].contains(&key);
    if (unlimited || never) && !key_takes_none {
        let why = format!("fnd has no such thing without a bound: set `{key}`");
        maker.report.not_here(&item.field, &why);
    } else {
        maker.made.works(&mut maker.report, key, value?, &item.field);
    }
    Ok(true)
}
