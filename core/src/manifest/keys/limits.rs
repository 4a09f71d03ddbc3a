//! `[limits]`: what a function may use.

use crate::schema::Kind::{ByteRate, Cpu, Duration, DurationOrNone, Size, SizeOrNone, Whole};
use crate::schema::{ANY_SIZE, Key, Zero, key, optional};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Range of sizes that are held in memory per invocation; larger data belongs in a file.
const HELD: std::ops::RangeInclusive<u64> = 0..=GIB;

/// `[limits]`.
pub const LIMITS: &[Key] = &[
    key(
        "timeout",
        DurationOrNone(Zero::Refused),
        "\"180s\"",
        "\"30s\"",
        "Of one attempt: then SIGTERM.",
    ),
    key(
        "deadline",
        DurationOrNone(Zero::Refused),
        "\"none\"",
        "\"1h\"",
        "Of the whole invocation: queue, attempts, retries and polls.",
    ),
    key(
        "grace",
        Duration(Zero::Fine),
        "\"5s\"",
        "\"10s\"",
        "From SIGTERM to SIGKILL.",
    ),
    key(
        "memory",
        Size(MIB..=(1 << 50)),
        "\"256M\"",
        "\"512M\"",
        "Memory of all its processes together; powers of 1024.",
    ),
    key(
        "swap",
        Size(ANY_SIZE),
        "\"0\"",
        "\"64M\"",
        "Swap of all its processes together.",
    ),
    optional(
        "memory_high",
        Size(MIB..=(1 << 50)),
        "\"200M\"",
        "From here its memory is reclaimed and it is slowed.",
    ),
    optional(
        "cpu",
        Cpu,
        "\"500m\"",
        "CPU quota in cores: `\"500m\"`, `\"0.5\"` and `\"50%\"` are half a core. Default: no quota, weight only.",
    ),
    key(
        "cpu_weight",
        Whole(1..=10_000),
        "100",
        "50",
        "Its share of the CPU when there is not enough for all.",
    ),
    key("pids", Whole(1..=4_194_304), "64", "128", "Processes and threads."),
    key(
        "open_files",
        Whole(16..=1_048_576),
        "1024",
        "4096",
        "Open files of one process.",
    ),
    key(
        "file_size",
        SizeOrNone(ANY_SIZE),
        "\"none\"",
        "\"1G\"",
        "Largest file it may write.",
    ),
    key(
        "tmp",
        Size(ANY_SIZE),
        "\"64M\"",
        "\"256M\"",
        "Size of its private /tmp, charged to its memory.",
    ),
    key(
        "io_weight",
        Whole(1..=10_000),
        "100",
        "50",
        "Its share of the disk, where the controller exists.",
    ),
    optional(
        "io_read",
        ByteRate,
        "\"10M/s\"",
        "Bytes read per second from the device that holds the state directory; an error where it cannot be enforced.",
    ),
    optional(
        "io_write",
        ByteRate,
        "\"10M/s\"",
        "Bytes written per second to that device; an error where it cannot be enforced.",
    ),
    key(
        "output",
        Size(HELD),
        "\"1M\"",
        "\"64K\"",
        "Kept of each output per attempt, half of it the head and half the tail.",
    ),
    key("result", Size(HELD), "\"6M\"", "\"1M\"", "Largest result."),
    key("body", Size(HELD), "\"6M\"", "\"1M\"", "Largest payload."),
];
