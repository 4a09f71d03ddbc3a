//! Keys of `[[schedule]]`, `[[http]]`, `[[event]]` and `[[file]]`: the triggers of a function.

use super::Overlap;
use crate::schema::Kind::{Bool, Duration, Json, List, Text, Word};
use crate::schema::{Form, Key, Zero, key, optional, required};

pub(super) const SCHEDULE: &[Key] = &[
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
        Word(Overlap::WORDS),
        "\"skip\"",
        "\"queue\"",
        "What happens when it is still running.",
    ),
    optional("data", Json, "{ any = \"json\" }", "Payload."),
];

pub(super) const HTTP: &[Key] = &[
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

pub(super) const EVENT: &[Key] = &[
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

pub(super) const FILE: &[Key] = &[
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
