//! `[limits]`: what a function may use.

use crate::schema::keys::keys;
use crate::text;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Range of sizes that are held in memory per invocation; larger data belongs in a file.
const HELD: RangeInclusive<u64> = 0..=GIB;

keys! {
    /// `[limits]`: what a function may use. Sizes are bytes, `cpu` is thousandths of a core.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct LimitKeys {
        // Kubeless and Kyma have the same default.
        /// Longest time of one attempt; after it the attempt gets SIGTERM.
        timeout: Option<Duration> [with = "text::duration_or_none"]
            = DurationOrNone(Zero::Refused), default "180s", example "30s";
        /// Longest time of the whole invocation: queue, attempts, retries and polls.
        deadline: Option<Duration> [with = "text::duration_or_none"]
            = DurationOrNone(Zero::Refused), default "none", example "1h";
        /// From SIGTERM to SIGKILL.
        grace: Duration [with = "text::duration"] = Duration(Zero::Fine), default "5s", example "10s";
        /// Memory of all processes of the function together; units are powers of 1024.
        memory: u64 [with = "text::size"] = Size(MIB..=(1 << 50)), default "256M", example "512M";
        /// Swap of all processes of the function together.
        swap: u64 [with = "text::size"] = Size(ANY_SIZE), default "0", example "64M";
        /// Memory use from which the kernel reclaims memory and slows the function down.
        memory_high: Option<u64> [with = "text::size_or_none"] = Size(MIB..=(1 << 50)), example "200M";
        /// CPU quota in cores: `"500m"`, `"0.5"` and `"50%"` are half a core. Default: no quota, weight only.
        cpu: Option<u32> [with = "text::cpu_or_none"] = Cpu, example "500m";
        /// Share of the CPU if there is not enough for all functions.
        cpu_weight: u32 = Whole(1..=10_000), default 100, example 50;
        /// Number of processes and threads of the function.
        pids: u32 = Whole(1..=4_194_304), default 64, example 128;
        /// Number of open files of one process.
        open_files: u64 = Whole(16..=1_048_576), default 1024, example 4096;
        /// Size of the largest file that the function may write.
        file_size: Option<u64> [with = "text::size_or_none"]
            = SizeOrNone(ANY_SIZE), default "none", example "1G";
        /// Size of the function's private /tmp, /var/tmp and /dev/shm together; and of the TMPDIRs of its runs together. They count as its memory.
        tmp: u64 [default = "tmp", with = "text::size"] = Size((64 << 10)..=(1 << 49)), default "64M", example "256M";
        /// Share of the disk's bandwidth, if the controller exists.
        io_weight: u32 = Whole(1..=10_000), default 100, example 50;
        /// Bytes per second read from the device of the state directory; an error if the limit cannot be enforced.
        io_read: Option<u64> [with = "text::byte_rate_or_none"] = ByteRate, example "10M/s";
        /// Bytes per second written to that device; an error if the limit cannot be enforced.
        io_write: Option<u64> [with = "text::byte_rate_or_none"] = ByteRate, example "10M/s";
        /// Size of the function's home (`STATE_DIRECTORY`). It is measured after runs; above it, new runs are refused.
        home: Option<u64> [default = "quota", with = "text::size_or_none"]
            = SizeOrNone(ANY_SIZE), default "1G", example "5G";
        /// Size of `CACHE_DIRECTORY`, with the same rule.
        cache: Option<u64> [default = "quota", with = "text::size_or_none"]
            = SizeOrNone(ANY_SIZE), default "1G", example "none";
        /// How much is kept of each output of an attempt: half from its beginning, half from its end.
        output: u64 [with = "text::size"] = Size(HELD), default "1M", example "64K";
        /// Size of the largest result.
        result: u64 [with = "text::size"] = Size(HELD), default "6M", example "1M";
        /// Size of the largest payload.
        body: u64 [with = "text::size"] = Size(HELD), default "6M", example "1M";
    } and {
        /// Keys of `[limits]` in the function's own manifest, sorted. If one of them cannot be enforced, the function is
        /// refused; a default or a size never refuses it.
        asked: Vec<String>,
    }
}

/// The size for a manifest from an fnd that did not have this key.
fn tmp() -> u64 {
    64 * MIB
}

/// The quota for a manifest from an fnd that did not have these keys.
#[expect(clippy::unnecessary_wraps, reason = "the field has this type")]
fn quota() -> Option<u64> {
    Some(GIB)
}
