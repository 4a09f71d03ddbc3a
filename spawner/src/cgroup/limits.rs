//! Writes limits to the kernel's files and reads them back: the kernel rounds and clamps, and a limit that is not in
//! force must not be reported as one that is.

use super::*;
use fnd_wire::plan::PIDS_MAX;

/// A limit of the manifest: its name, its controller, its file in cgroup2 and in v1 (none: v1 has no such limit).
pub(super) type Limit = (&'static str, &'static str, &'static str, Option<&'static str>);

pub(super) const LIMITS: [Limit; 9] = [
    ("memory", "memory", "memory.max", Some("memory.limit_in_bytes")),
    ("memory_high", "memory", "memory.high", None),
    ("swap", "memory", "memory.swap.max", Some("memory.memsw.limit_in_bytes")),
    ("cpu", "cpu", "cpu.max", Some("cpu.cfs_quota_us")),
    ("cpu_weight", "cpu", "cpu.weight", Some("cpu.shares")),
    // The root directory of v1 `pids` has no `pids.max`, but the functions' groups are below it.
    ("pids", "pids", "pids.max", Some("pids.max")),
    ("io_weight", "io", "io.weight", None),
    ("io_read", "io", "io.max", None),
    ("io_write", "io", "io.max", None),
];

/// A limit's name, a file and the value for it. An empty name means an intermediate step.
type Setting = (&'static str, &'static str, String);

/// Returns the values to write for a function's limits of one controller, in this order.
fn settings(home: &Home, limits: &Limits, device: Option<&str>) -> Vec<Setting> {
    let or = |none: &str, value: Option<u64>| value.map_or_else(|| none.to_owned(), |value| value.to_string());
    let (quota, period) = quota(limits.cpu_milli);
    match (home.controller, home.v1) {
        ("memory", false) => vec![
            ("memory", "memory.max", limits.memory.to_string()),
            ("memory_high", "memory.high", or("max", limits.memory_high)),
            ("swap", "memory.swap.max", limits.swap.to_string()),
        ],
        ("memory", true) => vec![
            // Memory and swap together may never be below memory alone, so that limit is lifted first.
            ("", "memory.memsw.limit_in_bytes", "-1".to_owned()),
            ("memory", "memory.limit_in_bytes", limits.memory.to_string()),
            ("swap", "memory.memsw.limit_in_bytes", limits.memory.saturating_add(limits.swap).to_string()),
        ],
        ("cpu", false) => vec![
            ("cpu_weight", "cpu.weight", limits.cpu_weight.to_string()),
            ("cpu", "cpu.max", format!("{} {period}", or("max", quota))),
        ],
        ("cpu", true) => vec![
            // The range 1 to 10000 with default 100 becomes 2 to 262144 with default 1024.
            ("cpu_weight", "cpu.shares", (u64::from(limits.cpu_weight) * 1024 / 100).clamp(2, 262_144).to_string()),
            // The kernel checks quota and period together, so the old quota is lifted before the period changes.
            ("", "cpu.cfs_quota_us", "-1".to_owned()),
            ("cpu", "cpu.cfs_period_us", period.to_string()),
            ("cpu", "cpu.cfs_quota_us", or("-1", quota)),
        ],
        // One more, for the launcher. The kernel takes no number above the largest `pid_max`.
        ("pids", _) => vec![("pids", "pids.max", limits.pids.saturating_add(1).min(PIDS_MAX).to_string())],
        ("io", false) => {
            let mut settings = vec![("io_weight", "io.weight", format!("default {}", limits.io_weight))];
            if let Some(device) = device.filter(|_| limits.io_read.is_some() || limits.io_write.is_some()) {
                // The kernel keeps one line for a device, so both limits are written at once, under one of the names.
                let limit = if limits.io_read.is_some() { "io_read" } else { "io_write" };
                let value = format!("{device} rbps={} wbps={}", or("max", limits.io_read), or("max", limits.io_write));
                settings.push((limit, "io.max", value));
            }
            settings
        }
        _ => Vec::new(),
    }
}

/// Writes the limits of one controller and reads each back. Limits that are not in force are added to `failed`, with
/// the reason.
pub(super) fn apply(home: &Home, limits: &Limits, device: Option<&str>, failed: &mut Vec<String>) {
    for (limit, file, value) in settings(home, limits, device) {
        let path = home.dir.join(file);
        let written = fs::write(&path, &value);
        // If the kernel has no such file, swap and IO weight are skipped: `missing` lists them since the start.
        if limit.is_empty() || (matches!(limit, "swap" | "io_weight") && !path.exists()) {
            continue;
        }
        let why = match written.and_then(|()| fs::read_to_string(&path)) {
            Ok(text) if agrees(&value, &text) => continue,
            Ok(text) => format!("wrote `{value}` to `{}`, but it contains `{}`", path.display(), text.trim()),
            Err(error) => format!("failed to write `{value}` to `{}`: {error}", path.display()),
        };
        failed.push(format!("`{limit}`: {why}"));
    }
}

/// Returns why a limit can't be enforced; none if it can.
pub(super) fn lacking(limit: &Limit, homes: &[Home], base: &Path, device: Option<&str>) -> Option<String> {
    let (limit, controller, file, v1_file) = *limit;
    let Some(home) = homes.iter().find(|home| home.controller == controller) else {
        return Some(format!("the cgroup controller `{controller}` is not available in `{}`", base.display()));
    };
    let Some(file) = (if home.v1 { v1_file } else { Some(file) }) else {
        return Some(format!("`{limit}` needs the controller `{controller}` in cgroup2, but it is mounted as v1"));
    };
    if !home.dir.join(file).exists() {
        return Some(format!("the kernel has no `{file}` here"));
    }
    let no_device = matches!(limit, "io_read" | "io_write") && device.is_none();
    no_device.then(|| "the state directory is not on a block device".to_owned())
}

/// Returns whether the value read back is the written one: the same, or a size rounded down to a page (at most 64 KiB).
fn agrees(written: &str, read: &str) -> bool {
    let read = read.trim();
    if written == read {
        return true;
    }
    if let (Ok(written), Ok(read)) = (written.parse::<u64>(), read.parse::<u64>()) {
        return read <= written && written - read < 65_536;
    }
    // `io.max` and `io.weight` list several devices; one line must hold every word that was written.
    read.lines().any(|line| written.split(' ').all(|word| line.split(' ').any(|found| found == word)))
}

/// Returns quota (none: unlimited) and period in microseconds for thousandths of a core.
///
/// The kernel accepts no quota below 1 ms, so the smallest shares get the longest period.
pub(super) fn quota(cpu_milli: Option<u32>) -> (Option<u64>, u64) {
    let period = if cpu_milli.is_some_and(|milli| milli < 10) { 1_000_000 } else { 100_000 };
    (cpu_milli.map(|milli| (u64::from(milli) * period / 1000).max(1000)), period)
}

#[cfg(test)]
mod tests {
    use super::super::tests::limits;
    use super::*;
    use crate::process::rlimits;
    use rustix::process::Resource;

    /// Returns all settings of the kernel for these limits.
    fn kernel(limits: &Limits) -> (Vec<Setting>, Vec<(Resource, u64)>) {
        let home = |controller| Home { controller, v1: false, dir: "/".into() };
        let of = |controller| settings(&home(controller), limits, Some("8:0"));
        (["memory", "cpu", "pids", "io"].into_iter().flat_map(of).collect(), rlimits::of(limits))
    }

    /// The pattern names every field, so that the compiler names a new limit, and the variable of a new limit must be
    /// used: by a change of the limit that changes a setting.
    #[test]
    fn every_limit_is_set() {
        #[rustfmt::skip]
        let Limits {
            memory, memory_high, swap, cpu_milli, cpu_weight, pids, open_files, file_size, io_weight, io_read, io_write,
            // Time limits and the size of a result are no settings of the kernel; `asked` names limits.
            timeout_ms: _, grace_ms: _, result: _, asked: _,
        } = limits();
        let other = |value: Option<u64>| Some(value.map_or(1 << 20, |value| value * 2));
        for changed in [
            Limits { memory: memory * 2, ..limits() },
            Limits { memory_high: other(memory_high), ..limits() },
            Limits { swap: swap * 2, ..limits() },
            Limits { cpu_milli: cpu_milli.map(|milli| milli * 2), ..limits() },
            Limits { cpu_weight: cpu_weight * 2, ..limits() },
            Limits { pids: pids * 2, ..limits() },
            Limits { open_files: open_files / 2, ..limits() },
            Limits { file_size: other(file_size), ..limits() },
            Limits { io_weight: io_weight * 2, ..limits() },
            Limits { io_read: other(io_read), ..limits() },
            Limits { io_write: other(io_write), ..limits() },
        ] {
            assert_ne!(kernel(&changed), kernel(&limits()), "{changed:?}");
        }
    }

    #[test]
    fn what_is_read_back_may_be_rounded_down_to_a_page_only() {
        assert!(agrees("1000000", "999424\n"));
        assert!(!agrees("1000000", "1003520\n"));
        assert!(!agrees("268435456", "9223372036854771712\n"));
        assert!(agrees("max 100000", "max 100000\n"));
        assert!(agrees(
            "8:0 rbps=1048576 wbps=max",
            "8:16 rbps=1 wbps=2\n8:0 rbps=1048576 wbps=max riops=max wiops=max\n"
        ));
        assert!(!agrees("8:0 rbps=1048576 wbps=max", "8:0 rbps=max wbps=max riops=max wiops=max\n"));
    }

    #[test]
    fn a_quota_is_never_below_a_millisecond() {
        assert_eq!(quota(Some(500)), (Some(50_000), 100_000));
        assert_eq!(quota(Some(1)), (Some(1000), 1_000_000));
        assert_eq!(quota(None), (None, 100_000));
    }
}
