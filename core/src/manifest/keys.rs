//! Every key of a function's manifest: what it may hold, its default, what it means.

use crate::schema::Kind::{
    Bool, ByteRate, Cpu, Duration, DurationOrNone, Either, Json, JsonTable, List, Map, Rate, Real, Size, SizeOrNone,
    Table, Tables, Text, Whole, Word,
};
use crate::schema::read::Schema;
use crate::schema::{ANY_SIZE, Form, Key, Kind, Zero, key, not_yet, optional, required, table};

/// The manifest of a function.
pub const SCHEMA: Schema = Schema {
    keys: MANIFEST,
    not_yet: not_yet::MANIFEST,
    what: "a function's manifest",
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What is held in memory per invocation: above that it belongs in a file.
const HELD: std::ops::RangeInclusive<u64> = 0..=GIB;

const NAMES: Kind = List(&Text(Form::Name));
const TEXTS: Kind = List(&Text(Form::Any));
const FUNCTIONS: Kind = List(&Either(&Text(Form::Function), &Table(CALL)));

const CALL: &[Key] = &[
    required("call", Text(Form::Function), "\"notify\"", "The function to call."),
    key(
        "on_failure",
        Word(&["continue", "retry"]),
        "\"continue\"",
        "\"continue\"",
        "What a failing hook means.",
    ),
];

const SECRET: &[Key] = &[
    required("secret", Text(Form::Name), "\"db-password\"", "Name of the secret."),
    key(
        "as",
        Word(&["file", "env"]),
        "\"file\"",
        "\"env\"",
        "How the function gets it: a file below `$CREDENTIALS_DIRECTORY`, or a variable too.",
    ),
];

/// The top of a manifest.
pub const MANIFEST: &[Key] = &[
    key("enabled", Bool, "true", "false", "Whether the function runs at all."),
    key(
        "mode",
        Word(&["auto", "script", "handler", "service", "http"]),
        "\"auto\"",
        "\"script\"",
        "How it is run; `auto` finds out from the code without running it.",
    ),
    key(
        "on_load",
        Either(&Bool, &Word(&["auto"])),
        "\"auto\"",
        "false",
        "Whether it runs once per content when its file appears or changes; `auto`: a script without any trigger does.",
    ),
    optional(
        "description",
        Text(Form::Any),
        "\"Checks the disk\"",
        "What it does, for people.",
    ),
    optional(
        "labels",
        Map(Form::Name, &Text(Form::Any)),
        "{ team = \"ops\" }",
        "Labels to filter lists by.",
    ),
    optional(
        "runtime",
        Text(Form::Name),
        "\"python\"",
        "Runtime, or one of its versions such as `python3.11`. Default: from the suffix, else from `#!`, else `[defaults] runtime`.",
    ),
    optional(
        "entry",
        Text(Form::Relative),
        "\"main.py\"",
        "In directory form, the file that is run. Default: the one of `main.*`, `handler.*`, `index.*` that exists.",
    ),
    optional(
        "handler",
        Text(Form::Some),
        "\"main.handler\"",
        "The function that is called, as module.function.",
    ),
    optional("args", TEXTS, "[\"-i\", \"test.txt\"]", "Arguments of the script."),
    optional(
        "interpreter_args",
        TEXTS,
        "[\"-u\"]",
        "Arguments of the interpreter, before the script; in `CMD_ARGS` too.",
    ),
    optional(
        "data",
        Json,
        "{ url = \"https://example.com\" }",
        "Payload when the trigger brings none.",
    ),
    optional(
        "context",
        JsonTable,
        "{ appName = \"shop\" }",
        "Given as JSON in `KEPTN_CONTEXT` and `CONTEXT`.",
    ),
    optional(
        "dependencies",
        Either(&List(&Text(Form::Some)), &Text(Form::Relative)),
        "[\"requests>=2\"]",
        "What it needs, as a list or a file of its directory.",
    ),
    optional(
        "permissions",
        List(&Text(Form::Permission)),
        "[\"net\", \"read=/srv/in\"]",
        "What deno is granted beside what it always has; `keptn` is `net`, `read` and `write`.",
    ),
    optional(
        "env_file",
        Text(Form::Relative),
        "\"x.env\"",
        "A file of `KEY=VALUE` lines beside the code; `[env]` wins over it.",
    ),
    optional(
        "secrets",
        Map(Form::Variable, &Either(&Text(Form::Name), &Table(SECRET))),
        "{ DB_PASSWORD = \"db-password\" }",
        "Secrets: name in the function = name of the secret.",
    ),
    optional(
        "bindings",
        NAMES,
        "[\"orders-db\"]",
        "Service bindings below `$SERVICE_BINDING_ROOT`.",
    ),
    optional(
        "size",
        Text(Form::Name),
        "\"M\"",
        "A preset of `[limits]` from `[sizes]` of `fnd.toml`; what `[limits]` says itself wins.",
    ),
    optional(
        "nodes",
        List(&Text(Form::Some)),
        "[\"web-*\"]",
        "Host names the function runs on, `*` stands for anything. Default: all.",
    ),
    table("limits", Table(LIMITS), "What it may use."),
    table("retry", Table(RETRY), "When a failed attempt is followed by another."),
    table(
        "poll",
        Table(POLL),
        "What follows exit 99 (execute again). Without this table scripts never poll and exit 99 is an error.",
    ),
    table("pool", Table(POOL), "Its processes."),
    table("queue", Table(QUEUE), "What waits when all processes are busy."),
    table("schedule", Tables(SCHEDULE), "Runs it at times."),
    table("http", Tables(HTTP), "Runs it on HTTP requests."),
    table("event", Tables(EVENT), "Runs it on CloudEvents."),
    table("file", Tables(FILE), "Runs it when files change."),
    table(
        "hooks",
        Table(HOOKS),
        "Functions called when an invocation ends; their payload is its final record.",
    ),
    table("alert", Table(ALERT), "Tells when something is wrong, once per change."),
    table(
        "env",
        Map(Form::Variable, &Text(Form::Any)),
        "Its environment, beside what fnd always sets.",
    ),
    table("sandbox", Table(SANDBOX), "What it sees of the machine."),
    table("history", Table(HISTORY), "How many of its invocations are remembered."),
    table(
        "service",
        Table(SERVICE),
        "Mode `service`: kept running, restarted with the back-off of `[retry]`, without an end.",
    ),
    table(
        "http_server",
        Table(HTTP_SERVER),
        "Mode `http`: a program that serves HTTP itself; requests are proxied to it.",
    ),
];

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

/// The classes `retry.on` may name.
pub const RETRY_ON: &[&str] = &["error", "transient", "timeout", "oom", "signal", "spawn", "interrupted"];

const RETRY: &[Key] = &[
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

const POLL: &[Key] = &[
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

const POOL: &[Key] = &[
    key("min", Whole(0..=10_000), "0", "1", "Started ahead and kept."),
    key(
        "max",
        Whole(1..=10_000),
        "4",
        "1",
        "Processes at once. For scripts with a schedule or `on_load` the default is 1.",
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
        "Fresh workers kept ready for `isolation = \"invocation\"`.",
    ),
];

/// What an invocation does that finds all processes busy.
const OVERLAP: &[&str] = &["queue", "skip", "replace", "reject"];

const QUEUE: &[Key] = &[
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

const SCHEDULE: &[Key] = &[
    optional(
        "cron",
        Text(Form::Some),
        "\"*/5 * * * *\"",
        "Five fields, six with seconds, or `@hourly` and the like.",
    ),
    optional(
        "every",
        Duration(Zero::Refused),
        "\"30s\"",
        "Instead of `cron`: so often.",
    ),
    optional(
        "timezone",
        Text(Form::Some),
        "\"Europe/Berlin\"",
        "Default: the machine's.",
    ),
    optional("jitter", Duration(Zero::Fine), "\"10s\"", "Up to so much later."),
    key(
        "catch_up",
        Duration(Zero::Fine),
        "\"0\"",
        "\"1h\"",
        "A time missed less than this ago runs once on start.",
    ),
    key(
        "overlap",
        Word(OVERLAP),
        "\"skip\"",
        "\"queue\"",
        "What happens when it is still running.",
    ),
    optional("data", Json, "{ any = \"json\" }", "Payload."),
];

const HTTP: &[Key] = &[
    required("path", Text(Form::UrlPath), "\"/hello\"", "Path."),
    key(
        "methods",
        List(&Word(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])),
        "[\"GET\", \"POST\"]",
        "[\"POST\"]",
        "Methods.",
    ),
    required(
        "auth",
        Text(Form::Auth),
        "\"token:hello-token\"",
        "Who may: `token:SECRET`, `basic:SECRET`, `hmac:SECRET` or `none`.",
    ),
    key("async", Bool, "false", "true", "Answer 202 with the id."),
    optional("cors", List(&Text(Form::Some)), "[\"*\"]", "Origins whose pages may."),
];

const EVENT: &[Key] = &[
    required(
        "type",
        Text(Form::Some),
        "\"order.created\"",
        "CloudEvents type; a trailing `*` matches the rest.",
    ),
    optional("source", Text(Form::Some), "\"shop\"", "CloudEvents source."),
    optional("version", Text(Form::Some), "\"v1\"", "Version of the type."),
    optional(
        "schema",
        Text(Form::Relative),
        "\"order.schema.json\"",
        "JSON schema its data has to match.",
    ),
];

const FILE: &[Key] = &[
    required("path", Text(Form::Absolute), "\"/srv/in\"", "Directory."),
    key("pattern", Text(Form::Some), "\"*\"", "\"*.csv\"", "Names."),
    key(
        "on",
        List(&Word(&["created", "modified", "deleted"])),
        "[\"created\", \"modified\"]",
        "[\"created\"]",
        "What has to happen.",
    ),
    key(
        "debounce",
        Duration(Zero::Fine),
        "\"500ms\"",
        "\"2s\"",
        "Quiet time before it runs.",
    ),
];

const HOOKS: &[Key] = &[
    optional(
        "on_success",
        FUNCTIONS,
        "[\"notify\"]",
        "After an invocation that succeeded.",
    ),
    optional("on_failure", FUNCTIONS, "[\"page\"]", "After one that failed."),
    optional("on_completion", FUNCTIONS, "[\"notify\"]", "After any."),
];

const ALERT: &[Key] = &[
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

const SANDBOX: &[Key] = &[
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

const HISTORY: &[Key] = &[
    key("keep", Whole(0..=10_000_000), "1000", "100", "Invocations."),
    key("keep_for", Duration(Zero::Refused), "\"30d\"", "\"7d\"", "By age."),
    optional(
        "keep_failed",
        Whole(0..=10_000_000),
        "100",
        "Failed ones kept beside those.",
    ),
];

const SERVICE: &[Key] = &[
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

const HTTP_SERVER: &[Key] = &[
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
