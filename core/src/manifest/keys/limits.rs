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
    pub struct Limits {
        /// Of one attempt: then SIGTERM.
        timeout: Option<Duration> [with = "text::duration_or_none"]
            = DurationOrNone(Zero::Refused), default "180s", example "30s";
        /// Of the whole invocation: queue, attempts, retries and polls.
        deadline: Option<Duration> [with = "text::duration_or_none"]
            = DurationOrNone(Zero::Refused), default "none", example "1h";
        /// From SIGTERM to SIGKILL.
        grace: Duration [with = "text::duration"] = Duration(Zero::Fine), default "5s", example "10s";
        /// Memory of all its processes together; powers of 1024.
        memory: u64 [with = "text::size"] = Size(MIB..=(1 << 50)), default "256M", example "512M";
        /// Swap of all its processes together.
        swap: u64 [with = "text::size"] = Size(ANY_SIZE), default "0", example "64M";
        /// From here its memory is reclaimed and it is slowed.
        memory_high: Option<u64> [with = "text::size_or_none"] = Size(MIB..=(1 << 50)), example "200M";
        /// CPU quota in cores: `"500m"`, `"0.5"` and `"50%"` are half a core. Default: no quota, weight only.
        cpu: Option<u32> [with = "text::cpu_or_none"] = Cpu, example "500m";
        /// Its share of the CPU when there is not enough for all.
        cpu_weight: u32 = Whole(1..=10_000), default 100, example 50;
        /// Processes and threads.
        pids: u32 = Whole(1..=4_194_304), default 64, example 128;
        /// Open files of one process.
        open_files: u64 = Whole(16..=1_048_576), default 1024, example 4096;
        /// Largest file it may write.
        file_size: Option<u64> [with = "text::size_or_none"]
            = SizeOrNone(ANY_SIZE), default "none", example "1G";
        /// Size of its private /tmp, charged to its memory.
        tmp = Size(ANY_SIZE), default "64M", example "256M", not_yet [];
        /// Its share of the disk, where the controller exists.
        io_weight: u32 = Whole(1..=10_000), default 100, example 50;
        /// Bytes read per second from the device that holds the state directory; an error where it cannot be enforced.
        io_read: Option<u64> [with = "text::byte_rate_or_none"] = ByteRate, example "10M/s";
        /// Bytes written per second to that device; an error where it cannot be enforced.
        io_write: Option<u64> [with = "text::byte_rate_or_none"] = ByteRate, example "10M/s";
        /// Kept of each output per attempt, half of it the head and half the tail.
        output: u64 [with = "text::size"] = Size(HELD), default "1M", example "64K";
        /// Largest result.
        result: u64 [with = "text::size"] = Size(HELD), default "6M", example "1M";
        /// Largest payload.
        body: u64 [with = "text::size"] = Size(HELD), default "6M", example "1M";
    } and {
        /// Keys of `[limits]` in the function's own manifest, sorted. If one of them cannot be enforced, the function is
        /// refused; a default or a size never refuses it.
        asked: Vec<String>,
    }
}
