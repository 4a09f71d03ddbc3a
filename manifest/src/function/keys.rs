//! Every key of a function's manifest: its values, its default and its meaning. The top-level keys are here; each kind
//! of table has its own file.
//!
//! Files:
//! - `access`: `[access]`
//! - `around`: what is kept, what it sees, programs that stay
//! - `build`: `[build]` and `[release]`
//! - `follow_ups`: `[hooks]` and `[alert]`
//! - `limits`: `[limits]`
//! - `nats`: `[[nats]]`
//! - `runs`: `[retry]`, `[poll]`, `[pool]`, `[queue]`
//! - `source`: `[source]`
//! - `triggers`: `[[schedule]]`, `[[http]]`, `[[event]]`, `[[file]]`

mod access;
mod around;
mod build;
mod follow_ups;
mod limits;
mod nats;
mod runs;
mod source;
mod triggers;

pub use access::AccessRule;
pub use around::{History, HttpServer, Listen, Logs, SandboxKeys, ServiceKeys};
pub use build::{Build, BuildNetwork, ReleaseRules};
pub use follow_ups::{Alert, AlertOn, HookCall, Hooks, OnHookFailure};
pub use limits::LimitKeys;
pub use nats::NatsTrigger;
pub use runs::{
    BackoffKeys, Isolation, JitterKey, OverlapKey, PollKeys, PoolKeys, QueueKeys, Rate, RetryKeys, RetryOn,
};
pub use source::SourceTable;
pub use triggers::{EventSubscription, FileTrigger, HttpRoute, RouteAnswer, Schedule, ScheduledAt};

use super::{MappedSecret, Mode};
use crate::json_text::JsonText;
use crate::schema::ValueKind::{List, Text};
use crate::schema::keys::keys;
use crate::schema::{Schema, TextKind, ValueKind};
use crate::text;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The manifest of a function.
pub const SCHEMA: Schema = Schema {
    keys: Manifest::KEYS,
    what: crate::schema::MANIFEST,
};

const NAMES: ValueKind = List(&Text(TextKind::Name));
const TEXTS: ValueKind = List(&Text(TextKind::Any));

keys! {
    const SECRET {
        /// Name of the secret.
        secret = Text(TextKind::Name), example "db-password", required true;
        /// How the function gets it: a file below `$CREDENTIALS_DIRECTORY`, or a variable too.
        as = Word(&["file", "env"]), default "file", example "env";
    }
}

keys! {
    const INPUT {
        /// JSON Schema (2020-12) that each payload must match: a file beside the code, or the schema itself as a table.
        schema = Either(&Text(TextKind::Relative), &JsonTable), example "input.schema.json", required true;
    }
}

/// The umask where the manifest says none.
pub(crate) const UMASK_DEFAULT: u32 = 0o022;

/// The umask for a manifest from an fnd that did not have this key.
fn umask() -> u32 {
    UMASK_DEFAULT
}

keys! {
    /// A function's manifest with every key resolved. Durations and sizes are serialized as a manifest writes them
    /// (`"180s"`, `"256M"`, absent durations and sizes as `"none"`).
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Manifest {
        /// Whether the function runs at all.
        enabled: bool = Bool, default true, example false;
        /// How the function is run; `auto` finds out from the code, without running it.
        mode = Word(&["auto", "script", "handler", "service", "http"]), default "auto", example "script";
        /// Whether the function runs once for each content of its file; `auto`: only a script without any trigger, `[input]` and `mcp` does.
        on_load = Either(&Bool, &Word(&["auto"])), default "auto", example false;
        /// What the function does, for people.
        description: String = Text(TextKind::Any), example "Checks the disk";
        /// Labels, by which lists can be filtered.
        labels: BTreeMap<String, String> = Map(TextKind::Name, &Text(TextKind::Any)), example { team = "ops" };
        /// Runtime, or one of its versions such as `python3.11`. Default: `lambda` for an executable `bootstrap`, else from the suffix, else from `#!`, else `[defaults] runtime`.
        runtime = Text(TextKind::Name), example "python";
        /// In directory form, the file that is run. Default: an executable `bootstrap`, else the one of `main.*`, `handler.*`, `index.*` that exists.
        entry = Text(TextKind::Relative), example "main.py";
        /// The function that is called, as module.function; the module is the file without its suffix. Default: the one found in the code. With the runtime `lambda` any text, `_HANDLER`.
        handler: Option<String> = Text(TextKind::Some), example "main.handler";
        /// Arguments of the script.
        args: Vec<String> = TEXTS, example ["-i", "test.txt"];
        /// Arguments of the interpreter, before the script; in `CMD_ARGS` too.
        interpreter_args: Vec<String> = TEXTS, example ["-u"];
        /// Payload if the trigger has none.
        data: Option<Json> = Json, example { url = "https://example.com" };
        /// The payloads that the function takes.
        input = Table(INPUT);
        /// Whether agents may call the function as a tool of the Model Context Protocol.
        mcp: bool [default, skip_serializing_if = "std::ops::Not::not"] = Bool, default false, example true;
        /// Context that the function gets, as JSON in `KEPTN_CONTEXT` and `CONTEXT`.
        context: Option<JsonText> = JsonTable, example { appName = "shop" };
        /// Packages that the function needs: a list, or a file of its directory. Default: what its runtime finds in the file or the directory; `[]` installs nothing.
        dependencies = Either(&List(&Text(TextKind::Some)), &Text(TextKind::Relative)), example ["requests>=2"];
        /// Where its code comes from: a repository, or a file of a web server.
        source: Option<SourceTable> [default, skip_serializing_if = "Option::is_none"] = Table(SourceTable::KEYS);
        /// How its packages are installed, or it is compiled.
        build: Build [default, skip_serializing_if = "Build::is_empty"] = Table(Build::KEYS);
        /// What happens before a new version serves.
        release: ReleaseRules [default, skip_serializing_if = "ReleaseRules::is_default"] = Table(ReleaseRules::KEYS);
        /// Permissions that deno gets in addition to those it always has; `keptn` is `net`, `read` and `write`.
        permissions: Vec<String> = List(&Text(TextKind::Permission)), example ["net", "read=/srv/in"];
        /// A file of `KEY=VALUE` lines beside the code; `[env]` wins over it.
        env_file = Text(TextKind::Relative), example "x.env";
        /// Secrets: name in the function = name of the secret.
        secrets: BTreeMap<String, MappedSecret> [default, skip_serializing_if = "BTreeMap::is_empty"] = Map(TextKind::Variable, &Either(&Text(TextKind::Name), &Table(SECRET))),
            example { DB_PASSWORD = "db-password" };
        /// Service bindings below `$SERVICE_BINDING_ROOT`.
        bindings: Vec<String> [default, skip_serializing_if = "Vec::is_empty"] = NAMES, example ["orders-db"];
        /// A preset of `[limits]` from `[sizes]` of `fnd.toml`; keys in `[limits]` win over it.
        size: Option<String> = Text(TextKind::Name), example "M";
        /// Names of the hosts that the function runs on; `*` matches any text. Default: all hosts.
        nodes: Vec<String> = List(&Text(TextKind::Some)), example ["web-*"];
        // A web server must be able to read what functions write.
        /// Permission bits that files which the function makes do not get, in octal. Its home and `$TMPDIR` are closed to others in any case.
        umask: u32 [default = "umask", with = "text::mode"] = Mode, default "022", example "027";
        /// Resources that the function may use.
        limits: LimitKeys = Table(LimitKeys::KEYS);
        /// When and how a failed attempt is retried.
        retry: RetryKeys = Table(RetryKeys::KEYS);
        /// How an attempt that ended with exit 99 or ExecuteAgainException is executed again. Without this table, exit 99 of a script is an error; handlers have these defaults.
        poll: Option<PollKeys> = Table(PollKeys::KEYS);
        /// The processes of the function.
        pool: PoolKeys = Table(PoolKeys::KEYS);
        /// Invocations that wait because all processes are busy.
        queue: QueueKeys = Table(QueueKeys::KEYS);
        /// Runs the function at given times.
        schedule: Vec<Schedule> [default] = Tables(Schedule::KEYS);
        /// Runs the function on HTTP requests.
        http: Vec<HttpRoute> [default] = Tables(HttpRoute::KEYS);
        /// Runs the function on CloudEvents.
        event: Vec<EventSubscription> [default] = Tables(EventSubscription::KEYS);
        /// Runs the function on messages of NATS JetStream, which all nodes with the function share.
        nats: Vec<NatsTrigger> [default, skip_serializing_if = "Vec::is_empty"] = Tables(NatsTrigger::KEYS);
        /// Runs the function when files change.
        file: Vec<FileTrigger> [default] = Tables(FileTrigger::KEYS);
        /// Functions called when an invocation ends; their payload is its final record.
        hooks: Hooks [default, skip_serializing_if = "Hooks::is_empty"] = Table(Hooks::KEYS);
        /// Calls a function once when this one turns bad, and once when it is well again.
        alert: Option<Alert> [default, skip_serializing_if = "Option::is_none"] = Table(Alert::KEYS);
        /// What it may do at fnd itself, at the socket in `FND_SOCKET`: call functions and send events.
        access: AccessRule [default, skip_serializing_if = "AccessRule::is_empty"] = Table(AccessRule::KEYS);
        /// Environment of the function, in addition to the variables that fnd always sets.
        env: BTreeMap<String, String> = Map(TextKind::Variable, &Text(TextKind::Any));
        /// What it sees of the machine.
        sandbox: SandboxKeys = Table(SandboxKeys::KEYS);
        /// How many of its invocations are remembered.
        history: History = Table(History::KEYS);
        /// How much of its output is kept.
        logs: Logs [default] = Table(Logs::KEYS);
        /// Mode `service`: kept running, restarted with the back-off of `[retry]`, without an end.
        service: Option<ServiceKeys> [default, skip_serializing_if = "Option::is_none"] = Table(ServiceKeys::KEYS);
        /// Mode `http`: a program that serves HTTP itself; requests are proxied to it.
        http_server: Option<HttpServer> [default, skip_serializing_if = "Option::is_none"] = Table(HttpServer::KEYS);
    } and {
        /// How it is run, with `auto` decided.
        mode: Mode,
        /// Whether it runs once per content, with `auto` decided.
        on_load: bool,
        /// Runtime id without the version.
        runtime: String,
        /// The file that runs, relative to the code directory.
        entry: String,
        /// The schema of its payloads (`[input] schema`), wherever it is written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_schema: Option<Json>,
        /// Paths of the keys in the function's own manifest, such as `limits.timeout`, sorted. All other values are defaults.
        #[serde(default)]
        written: Vec<String>,
        /// Paths of the keys of `[defaults]` that it does without, because only functions of root may have them, sorted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<String>,
    }
}
