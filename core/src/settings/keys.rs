//! Every key of `fnd.toml`: its values, its default and its meaning.

use crate::manifest::Limits;
use crate::schema::Kind::{Bool, Cpu, Defaults, Duration, List, Map, Mode, Size, Table, Tables, Text, Whole, Word};
use crate::schema::read::Schema;
use crate::schema::{ANY_SIZE, Form, Key, Kind, Zero, key, not_yet, optional, required, table};

/// The configuration of the daemon.
pub const SCHEMA: Schema = Schema {
    keys: SETTINGS,
    not_yet: not_yet::SETTINGS,
    what: "the configuration",
};

const PATHS: Kind = List(&Text(Form::Absolute));
const NAMES: Kind = List(&Text(Form::Name));
const MIB: u64 = 1 << 20;

/// The built-in sizes.
pub const SIZES: &str = "{ XS = { cpu = \"150m\", memory = \"256M\" }, S = { cpu = \"200m\", memory = \"256M\" }, \
    M = { cpu = \"400m\", memory = \"512M\" }, L = { cpu = \"800m\", memory = \"1G\" }, XL = { cpu = \"1600m\", memory = \"2G\" } }";

/// The top of the configuration.
pub const SETTINGS: &[Key] = &[
    key(
        "functions_dirs",
        PATHS,
        "[\"/etc/fnd/functions\"]",
        "[\"/srv/functions\"]",
        "Where functions are looked for. With `--user` the default is `$XDG_CONFIG_HOME/fnd/functions`.",
    ),
    key(
        "keep_versions",
        Whole(1..=1000),
        "5",
        "10",
        "Versions of a function kept for a roll-back.",
    ),
    key(
        "best_effort_limits",
        Bool,
        "false",
        "true",
        "Go on where a limit that a manifest itself asks for cannot be enforced.",
    ),
    table(
        "defaults",
        Defaults,
        "The same keys as a function's manifest, for all functions.",
    ),
    key(
        "sizes",
        Map(Form::Name, &Table(Limits::KEYS)),
        SIZES,
        "{ M = { cpu = \"400m\", memory = \"512M\" } }",
        "Presets of `[limits]` by name, for `size`. Those given are added to the built-in ones.",
    ),
    table("node", Table(NODE), "Budget of all functions together."),
    table("users", Table(USERS), "As whom functions run."),
    key(
        "access",
        Tables(ACCESS),
        "[{ group = \"fnd\", role = \"operator\" }]",
        "",
        "Roles on the control socket; root is admin.",
    ),
    table(
        "http",
        Table(HTTP),
        "The listener for `[[http]]` routes, off until `listen` is set.",
    ),
    table("metrics", Table(METRICS), "Where metrics are to be found."),
    table("history", Table(HISTORY), "How long records of invocations are kept."),
    table("logs", Table(LOGS), "How long output is kept."),
    table("status", Table(STATUS), "Status files."),
    table("build", Table(BUILD), "Install and compile phases."),
    table(
        "runtimes",
        Map(Form::Name, &Table(RUNTIME)),
        "Interpreters and switches by runtime.",
    ),
    table("events", Table(EVENTS), "Where events come from."),
    table("ui", Table(UI), "The page to see and change functions."),
];

const NODE: &[Key] = &[
    key(
        "reserve_memory",
        Size(ANY_SIZE),
        "\"256M\"",
        "\"1G\"",
        "Memory of the machine that functions do not get.",
    ),
    key(
        "max_workers",
        Whole(1..=1_000_000),
        "1000",
        "100",
        "Processes of all functions at once.",
    ),
    key(
        "buffers",
        Size(MIB..=(1 << 50)),
        "\"64M\"",
        "\"256M\"",
        "Memory for bodies and answers of all callers together; what is beyond it lies on the disk.",
    ),
    optional(
        "memory",
        Size(MIB..=(1 << 50)),
        "\"4G\"",
        "Memory of all functions. Default: the machine's but the reserve.",
    ),
    optional("cpu", Cpu, "\"3\"", "Cores for all functions. Default: all."),
];

const USERS: &[Key] = &[
    key(
        "range",
        List(&Whole(1..=4_294_967_294)),
        "[70000, 99999]",
        "[300000, 309999]",
        "First and last uid of own users: one per function, persisted, not reused for 30 days.",
    ),
    key(
        "allow",
        NAMES,
        "[]",
        "[\"postgres\", \"adm\"]",
        "Existing users and groups a manifest may name.",
    ),
    key("allow_root", Bool, "false", "true", "Whether a manifest may name root."),
];

const ACCESS: &[Key] = &[
    required("group", Text(Form::Name), "\"fnd\"", "Group."),
    required(
        "role",
        Word(&["viewer", "operator", "admin"]),
        "\"operator\"",
        "`viewer` reads; `operator` invokes, cancels and enables too; `admin` may do all.",
    ),
];

const HTTP: &[Key] = &[
    optional(
        "listen",
        Text(Form::Some),
        "\"127.0.0.1:8080\"",
        "Address and port, or `unix:` and a path.",
    ),
    key(
        "public",
        Bool,
        "false",
        "true",
        "Must be true for an address that is not loopback.",
    ),
    optional(
        "tls",
        Table(TLS),
        "{ certificate = \"/etc/fnd/tls/cert.pem\", key = \"/etc/fnd/tls/key.pem\" }",
        "Certificate and key.",
    ),
    optional(
        "events",
        Table(HTTP_EVENTS),
        "{ path = \"/events\", auth = \"token:events-token\" }",
        "Takes CloudEvents.",
    ),
    key("access_log", Bool, "true", "false", "Whether requests are logged."),
];

const TLS: &[Key] = &[
    required(
        "certificate",
        Text(Form::Absolute),
        "\"/etc/fnd/tls/cert.pem\"",
        "Certificates, PEM.",
    ),
    required(
        "key",
        Text(Form::Absolute),
        "\"/etc/fnd/tls/key.pem\"",
        "Private key, PEM.",
    ),
];

const HTTP_EVENTS: &[Key] = &[
    required("path", Text(Form::UrlPath), "\"/events\"", "Path."),
    required("auth", Text(Form::Auth), "\"token:events-token\"", "Who may."),
];

const METRICS: &[Key] = &[
    optional(
        "listen",
        Text(Form::Socket),
        "\"127.0.0.1:9640\"",
        "Address and port of a plain HTTP listener for `/metrics` alone, open to whoever reaches it.",
    ),
    optional(
        "textfile",
        Text(Form::Absolute),
        "\"/var/lib/prometheus/node-exporter/fnd.prom\"",
        "A file for the node exporter.",
    ),
];

const HISTORY: &[Key] = &[
    key(
        "on_damage",
        Word(&["set-aside", "refuse"]),
        "\"set-aside\"",
        "\"refuse\"",
        "A damaged ledger: `set-aside` keeps all that can be read in a new one, `refuse` keeps fnd from starting.",
    ),
    key("keep_for", Duration(Zero::Refused), "\"30d\"", "\"7d\"", "By age."),
    key(
        "keep_bytes",
        Size(MIB..=(1 << 50)),
        "\"1G\"",
        "\"100M\"",
        "By bytes of all records.",
    ),
];

const LOGS: &[Key] = &[
    key("keep_for", Duration(Zero::Refused), "\"30d\"", "\"7d\"", "By age."),
    key(
        "keep_bytes",
        Size(MIB..=(1 << 50)),
        "\"2G\"",
        "\"500M\"",
        "By bytes of all output.",
    ),
    key(
        "journal",
        Bool,
        "true",
        "false",
        "Whether output goes to the journal too.",
    ),
];

const STATUS: &[Key] = &[key(
    "mode",
    Mode,
    "\"0640\"",
    "\"0644\"",
    "Permission bits of status files, which may hold results.",
)];

const BUILD: &[Key] = &[
    key("timeout", Duration(Zero::Refused), "\"30m\"", "\"1h\"", "Of one phase."),
    key("memory", Size(MIB..=(1 << 50)), "\"2G\"", "\"4G\"", "Of one phase."),
    optional(
        "env",
        Map(Form::Variable, &Text(Form::Any)),
        "{ PIP_INDEX_URL = \"https://pypi.example.com/simple\" }",
        "Environment.",
    ),
    optional("secrets", NAMES, "[\"npmrc\"]", "Secrets phases get."),
];

const RUNTIME: &[Key] = &[
    optional(
        "interpreters",
        Map(Form::Name, &Text(Form::Absolute)),
        "{ \"3.12\" = \"/opt/py/bin/python3.12\" }",
        "Interpreters by version, tried before the runtime's own.",
    ),
    key("enabled", Bool, "true", "false", "Whether functions may use it."),
];

const EVENTS: &[Key] = &[optional(
    "nats",
    Table(NATS),
    "{ servers = [\"nats://127.0.0.1:4222\"], stream = \"fnd\" }",
    "A JetStream work queue.",
)];

const NATS: &[Key] = &[
    required(
        "servers",
        List(&Text(Form::Some)),
        "[\"nats://127.0.0.1:4222\"]",
        "Servers.",
    ),
    required("stream", Text(Form::Name), "\"fnd\"", "Stream."),
    optional(
        "credentials",
        Text(Form::Name),
        "\"nats-creds\"",
        "Secret with the credentials.",
    ),
];

const UI: &[Key] = &[key("enabled", Bool, "false", "true", "Whether it is served.")];
