//! Every key of a function's manifest: its values, its default and its meaning. The top-level keys are here; each kind
//! of table has its own file.

mod around;
mod limits;
mod runs;
mod triggers;

pub use limits::Limits;
pub use runs::{Backoff, Isolation, Jitter, Overlap, Poll, Pool, Queue, Rate, Retry, RetryOn};

use crate::schema::Kind::{Bool, Either, Json, JsonTable, List, Map, Table, Tables, Text, Word};
use crate::schema::read::Schema;
use crate::schema::{Form, Key, Kind, key, not_yet, optional, required, table};
use around::{ALERT, CALL, HOOKS};
pub use around::{History, HttpServer, Listen, Logs, Sandbox, Service};
use triggers::{EVENT, FILE, HTTP, SCHEDULE};

/// The manifest of a function.
pub const SCHEMA: Schema = Schema {
    keys: MANIFEST,
    not_yet: not_yet::MANIFEST,
    what: "a function's manifest",
};

const NAMES: Kind = List(&Text(Form::Name));
const TEXTS: Kind = List(&Text(Form::Any));
const FUNCTION: Kind = Either(&Text(Form::Function), &Table(CALL));

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
        "The function that is called, as module.function; the module is the file without its suffix. Default: the one found in the code.",
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
    table("limits", Table(Limits::KEYS), "What it may use."),
    table(
        "retry",
        Table(Retry::KEYS),
        "When a failed attempt is followed by another.",
    ),
    table(
        "poll",
        Table(Poll::KEYS),
        "What follows exit 99 and ExecuteAgainException (execute again). Without this table scripts never poll and exit 99 is an error; handlers have these defaults.",
    ),
    table("pool", Table(Pool::KEYS), "Its processes."),
    table("queue", Table(Queue::KEYS), "What waits when all processes are busy."),
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
    table("sandbox", Table(Sandbox::KEYS), "What it sees of the machine."),
    table(
        "history",
        Table(History::KEYS),
        "How many of its invocations are remembered.",
    ),
    table("logs", Table(Logs::KEYS), "How much of its output is kept."),
    table(
        "service",
        Table(Service::KEYS),
        "Mode `service`: kept running, restarted with the back-off of `[retry]`, without an end.",
    ),
    table(
        "http_server",
        Table(HttpServer::KEYS),
        "Mode `http`: a program that serves HTTP itself; requests are proxied to it.",
    ),
];
