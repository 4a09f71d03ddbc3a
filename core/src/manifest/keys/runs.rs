//! Keys of `[retry]`, `[poll]`, `[pool]` and `[queue]`.

use crate::schema::Kind::{Duration, DurationOrNone, List, Rate, Real, Whole, Word};
use crate::schema::{Key, Zero, key, optional};

/// The classes that `retry.on` may name.
pub const RETRY_ON: &[&str] = &["error", "transient", "timeout", "oom", "signal", "spawn", "interrupted"];

pub(super) const RETRY: &[Key] = &[
    key(
        "retries",
        Whole(0..=10_000),
        "0",
        "3",
        "Attempts after the first; polls are not counted.",
    ),
    key(
        "interval",
        Duration(Zero::Fine),
        "\"1s\"",
        "\"10s\"",
        "Delay before the first retry.",
    ),
    key(
        "backoff",
        Word(&["exponential", "fixed"]),
        "\"exponential\"",
        "\"fixed\"",
        "How the delay grows.",
    ),
    key(
        "factor",
        Real(1.0..=100.0),
        "2.0",
        "1.5",
        "By how much an exponential delay grows each time.",
    ),
    key(
        "max_interval",
        Duration(Zero::Refused),
        "\"5m\"",
        "\"1m\"",
        "Largest delay.",
    ),
    key(
        "jitter",
        Word(&["equal", "full", "none"]),
        "\"equal\"",
        "\"none\"",
        "Which part of the delay is random: half, all, none.",
    ),
    key(
        "on",
        List(&Word(RETRY_ON)),
        "[\"error\", \"transient\", \"timeout\", \"oom\", \"signal\", \"spawn\"]",
        "[\"transient\"]",
        "After which ends there is a retry; `interrupted` may be added, `failed` never.",
    ),
    key(
        "not_on_exit",
        List(&Whole(1..=255)),
        "[]",
        "[2]",
        "Exit codes after which there is none.",
    ),
];

pub(super) const POLL: &[Key] = &[
    key(
        "repeat",
        Duration(Zero::Refused),
        "\"15s\"",
        "\"1m\"",
        "Delay before it is executed again.",
    ),
    key(
        "until",
        Duration(Zero::Refused),
        "\"1h\"",
        "\"1d\"",
        "From the first attempt's start; then it has failed.",
    ),
];

pub(super) const POOL: &[Key] = &[
    key(
        "min",
        Whole(0..=10_000),
        "0",
        "1",
        "Workers started ahead and kept. For handlers and HTTP programs only, as are all keys here but `max`.",
    ),
    key(
        "max",
        Whole(1..=10_000),
        "4",
        "1",
        "Processes at once. For scripts with a schedule or `on_load` the default is 1; workers of a handler are never more than `limits.memory` can hold.",
    ),
    key(
        "concurrency",
        Whole(1..=10_000),
        "1",
        "10",
        "Invocations at once in one worker.",
    ),
    key(
        "idle",
        DurationOrNone(Zero::Fine),
        "\"5m\"",
        "\"1h\"",
        "An idle worker is stopped then, down to `min`.",
    ),
    key(
        "max_invocations",
        Whole(0..=1_000_000_000),
        "0",
        "1000",
        "A worker is replaced after so many; 0: no limit.",
    ),
    key(
        "max_age",
        DurationOrNone(Zero::Refused),
        "\"24h\"",
        "\"1h\"",
        "A worker is replaced at that age.",
    ),
    key(
        "isolation",
        Word(&["worker", "invocation"]),
        "\"worker\"",
        "\"invocation\"",
        "`invocation`: a process no other invocation has seen.",
    ),
    key(
        "spare",
        Whole(0..=1000),
        "2",
        "1",
        "Fresh workers kept ready for `isolation = \"invocation\"`, as far as `limits.memory` can hold them.",
    ),
];

/// What happens to an invocation that finds all processes busy.
pub(super) const OVERLAP: &[&str] = &["queue", "skip", "replace", "reject"];

pub(super) const QUEUE: &[Key] = &[
    key("max", Whole(0..=1_000_000), "100", "10", "Invocations waiting."),
    key(
        "overlap",
        Word(OVERLAP),
        "\"queue\"",
        "\"skip\"",
        "What happens when all processes are busy; `replace` cancels the oldest running one.",
    ),
    optional(
        "rate",
        Rate,
        "\"10/s\"",
        "How many invocations are accepted in which time.",
    ),
];
