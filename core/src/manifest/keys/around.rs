//! Keys for notifications at a function's end, for its view of the machine, and for programs that stay running.

use super::{FUNCTIONS, NAMES, TEXTS};
use crate::schema::Kind::{Duration, List, Size, Text, Whole, Word};
use crate::schema::{Form, Key, Zero, key, optional, required};

pub(super) const CALL: &[Key] = &[
    required("call", Text(Form::Function), "\"notify\"", "The function to call."),
    key(
        "on_failure",
        Word(&["continue", "retry"]),
        "\"continue\"",
        "\"continue\"",
        "What a failing hook means.",
    ),
];

pub(super) const HOOKS: &[Key] = &[
    optional(
        "on_success",
        FUNCTIONS,
        "[\"notify\"]",
        "After an invocation that succeeded.",
    ),
    optional("on_failure", FUNCTIONS, "[\"page\"]", "After one that failed."),
    optional("on_completion", FUNCTIONS, "[\"notify\"]", "After any."),
];

pub(super) const ALERT: &[Key] = &[
    optional(
        "call",
        Text(Form::Function),
        "\"page\"",
        "The function to call, once per change.",
    ),
    optional(
        "on",
        List(&Word(&["failed", "recovered", "missed"])),
        "[\"failed\", \"recovered\"]",
        "At which changes.",
    ),
    optional(
        "expect_success_every",
        Duration(Zero::Refused),
        "\"26h\"",
        "Missed when no success was seen for so long.",
    ),
];

pub(super) const SANDBOX: &[Key] = &[
    key(
        "profile",
        Word(&["strict", "standard", "off"]),
        "\"strict\"",
        "\"off\"",
        "`off`: own user, no privileges, cgroup and rlimits stay.",
    ),
    key(
        "network",
        Word(&["host", "none", "loopback"]),
        "\"host\"",
        "\"none\"",
        "Which network it sees.",
    ),
    optional(
        "user",
        Text(Form::Name),
        "\"postgres\"",
        "An existing user instead of an own one; only where `[users]` of `fnd.toml` allows it and root owns the file.",
    ),
    optional(
        "groups",
        NAMES,
        "[\"adm\"]",
        "Supplementary groups; allowed like a user.",
    ),
    optional(
        "read_write",
        List(&Text(Form::Absolute)),
        "[\"/srv/out\"]",
        "Directories it may write.",
    ),
];

pub(super) const HISTORY: &[Key] = &[
    key("keep", Whole(0..=10_000_000), "1000", "100", "Invocations."),
    key("keep_for", Duration(Zero::Refused), "\"30d\"", "\"7d\"", "By age."),
    optional(
        "keep_failed",
        Whole(0..=10_000_000),
        "100",
        "Failed ones kept beside those.",
    ),
    optional(
        "keep_bytes",
        Size((64 << 10)..=(1 << 50)),
        "\"64M\"",
        "By bytes: payloads, results and records.",
    ),
];

pub(super) const LOGS: &[Key] = &[
    key("keep_for", Duration(Zero::Refused), "\"30d\"", "\"7d\"", "By age."),
    key(
        "keep_bytes",
        Size((16 << 20)..=(1 << 50)),
        "\"64M\"",
        "\"1G\"",
        "By bytes, in segments of 16M.",
    ),
];

pub(super) const SERVICE: &[Key] = &[
    optional("command", TEXTS, "[\"./worker\"]", "Default: the entry."),
    key("replicas", Whole(1..=1000), "1", "2", "Processes kept running."),
    key(
        "ready",
        Text(Form::Some),
        "\"none\"",
        "\"path:/healthz\"",
        "How it is known to be ready.",
    ),
    key(
        "start_timeout",
        Duration(Zero::Refused),
        "\"30s\"",
        "\"1m\"",
        "It has to be ready within.",
    ),
];

pub(super) const HTTP_SERVER: &[Key] = &[
    optional("command", TEXTS, "[\"./server\"]", "Default: the entry."),
    optional("port", Whole(1..=65_535), "8080", "Default: a free one in `$PORT`."),
    optional(
        "listen",
        Word(&["unix"]),
        "\"unix\"",
        "A Unix socket at `$FND_SOCKET_PATH` instead of a port.",
    ),
    optional(
        "ready",
        Text(Form::UrlPath),
        "\"/healthz\"",
        "It is ready when this path answers.",
    ),
    key(
        "start_timeout",
        Duration(Zero::Refused),
        "\"30s\"",
        "\"1m\"",
        "It has to be ready within.",
    ),
];
