//! Every key of `fnd.toml`: its values, its default and its meaning.

use crate::function;
use crate::function::nats;
use crate::function::route::{AUTH, Credentials};
use crate::function::sandbox::Profile;
use crate::function::{AlertOn, BuildNetwork, LimitKeys};
use crate::schema::ValueKind::{List, Text};
use crate::schema::keys::keys;
use crate::schema::pick::FromValue;
use crate::schema::tree::TomlValue;
use crate::schema::{Schema, TextKind, ValueKind};
use crate::text;
use crate::words;
use fnd_wire::ids::FunctionName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// The configuration of the daemon.
pub const SCHEMA: Schema = Schema {
    keys: Settings::KEYS,
    what: "the configuration",
};

const PATHS: ValueKind = List(&Text(TextKind::Absolute));
const NAMES: ValueKind = List(&Text(TextKind::Name));
const MIB: u64 = 1 << 20;

/// The built-in sizes.
pub const SIZES: &str = "{ XS = { cpu = \"150m\", memory = \"256M\" }, S = { cpu = \"200m\", memory = \"256M\" }, \
    M = { cpu = \"400m\", memory = \"512M\" }, L = { cpu = \"800m\", memory = \"1G\" }, XL = { cpu = \"1600m\", memory = \"2G\" } }";

keys! {
    /// `fnd.toml` with everything of `conf.d` merged over it. Durations and sizes are serialized as the file writes them.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Settings {
        /// Directories with functions. With `--user` the default is `$XDG_CONFIG_HOME/fnd/functions`.
        functions_dirs = PATHS, default ["/etc/fnd/functions"], example ["/srv/functions"];
        /// Number of versions of a function that are kept for a rollback.
        keep_versions: u32 = Whole(1..=1000), default 5, example 10;
        /// Whether a function runs although a limit of its manifest cannot be enforced.
        best_effort_limits: bool = Bool, default false, example true;
        /// Defaults for all functions, with the same keys as a manifest.
        defaults = Defaults(&function::keys::SCHEMA);
        // The built-in ones have the names and the limits of Kyma's presets.
        /// Presets of `[limits]` by name, for `size`. They are added to the built-in ones.
        sizes = Map(TextKind::Name, &Table(LimitKeys::KEYS)), built_in SIZES,
            example { M = { cpu = "400m", memory = "512M" } };
        /// Limits of all functions together.
        node: NodeSettings = Table(NodeSettings::KEYS);
        /// The users that functions run as.
        users: UserSettings = Table(UserSettings::KEYS);
        /// Roles on the control socket; root is admin.
        access: Vec<AccessSettings> = Tables(AccessSettings::KEYS), default [{ group = "fnd", role = "operator" }];
        /// The listener for `[[http]]` routes, off until `listen` is set.
        http: HttpSettings [default] = Table(HttpSettings::KEYS);
        /// Where metrics are available.
        metrics: MetricsSettings = Table(MetricsSettings::KEYS);
        /// How long records of invocations are kept.
        history: HistorySettings = Table(HistorySettings::KEYS);
        /// How long output is kept.
        logs: LogSettings = Table(LogSettings::KEYS);
        /// Access to status files.
        status: Status = Table(Status::KEYS);
        /// How dependencies are installed.
        build: BuildSettings [default] = Table(BuildSettings::KEYS);
        /// Interpreters of runtimes, and whether a runtime is enabled.
        runtimes: BTreeMap<String, RuntimeSettings> = Map(TextKind::Name, &Table(RuntimeSettings::KEYS));
        /// How CloudEvents are accepted.
        events: EventSettings [default] = Table(EventSettings::KEYS);
        /// How functions are isolated whose manifest does not say it.
        sandbox: SandboxSettings [default] = Table(SandboxSettings::KEYS);
        /// Secrets that lie encrypted beside functions (docs/secrets.md).
        secrets: SecretSettings [default] = Table(SecretSettings::KEYS);
        /// Alerts of the node's own problems, and of every function without an `[alert]` of its own.
        alert: NodeAlert [default] = Table(NodeAlert::KEYS);
        /// How long the audit is kept: who did what on the control socket.
        audit: AuditSettings [default] = Table(AuditSettings::KEYS);
        /// Groups of functions that share something, such as a database or a licence: `[queue] group` of a function names one.
        groups: BTreeMap<String, GroupSettings> [default, skip_serializing_if = "BTreeMap::is_empty"] = Map(TextKind::Name, &Table(GroupSettings::KEYS)), example { db = { max = 2 } };
        /// The web page that shows and manages functions.
        ui = Table(UI);
    } and {
        /// Functions directories, absolute paths; absent: the directory of the installation.
        functions_dirs: Option<Vec<String>>,
        /// `[defaults] runtime`: if set, a file without a suffix and without `#!` is a function.
        default_runtime: Option<String>,
        /// `[sizes]`: for each size the values that it sets in `[limits]`, key to value as written (`memory` to `"256M"`).
        sizes: BTreeMap<String, BTreeMap<String, String>>,
    }
}

keys! {
    /// `[node]`: the budget of all functions together. Sizes are bytes, `cpu` is thousandths of a core.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct NodeSettings {
        /// Memory of the machine that functions do not get, if `memory` is not set.
        reserve_memory: u64 [with = "text::size"] = Size(ANY_SIZE), default "256M", example "1G";
        /// Number of processes of all functions at once.
        max_workers: u32 = Whole(1..=1_000_000), default 1000, example 100;
        /// Memory for bodies and answers of all callers; more is kept on the disk. Callers without a credential have a quarter of it.
        buffers: u64 [with = "text::size"] = Size(MIB..=(1 << 50)), default "64M", example "256M";
        /// How long fnd looks for the next message before it sleeps, while one caller waits. Needs more than one CPU.
        spin: u32 [default, with = "text::micros"] = Micros(0..=1000), default "0", example "50us";
        /// Memory of all functions together. Default: the machine's memory without the reserve.
        memory: Option<u64> [with = "text::size_or_none"] = Size(MIB..=(1 << 50)), example "4G";
        /// Cores for all functions together. Default: all.
        cpu: Option<u32> [rename = "cpu_milli"] = Cpu, example "3";
    }
}

keys! {
    /// `[users]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct UserSettings {
        // The default lies above the uids of people and of systemd's dynamic users (up to 65519), and below subordinate
        // uids (from 100000, login.defs(5)).
        /// First and last uid of the users that fnd gives to functions: one for each function, never given to another one.
        range: (u32, u32) = List(&Whole(1..=4_294_967_294)), default [70000, 99999], example [300000, 309999];
        /// Existing users and groups that a manifest may name.
        allow: Vec<String> = NAMES, default [], example ["postgres", "adm"];
        /// Whether a manifest may name root, or a capability that is as good as root.
        allow_root: bool = Bool, default false, example true;
        /// Capabilities of Linux that a manifest may name.
        capabilities: Vec<String> [default, skip_serializing_if = "Vec::is_empty"] = NAMES, default [], example ["chown"];
    }
}

keys! {
    /// An entry of `[[access]]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AccessSettings {
        /// Name of the group; an entry names either a group or a user.
        group: Option<String> [default] = Text(TextKind::Name), example "fnd";
        /// Name of the user.
        user: Option<String> [default] = Text(TextKind::Name), example "ada";
        /// `viewer` reads; `operator` also invokes, cancels and enables; `admin` may do everything.
        role: Role = Word(Role::WORDS), example "operator", required true;
        /// The functions that the role is for: names, and patterns of names. Default: all functions, and the node.
        functions: Option<Vec<String>> [default] = List(&Text(TextKind::Functions)), example ["web/*"];
    }
}

words! {
    /// What a peer on the control socket may do; each role includes the ones before.
    pub enum Role {
        /// May read.
        Viewer = "viewer",
        /// May invoke, cancel, enable and disable.
        Operator = "operator",
        /// May do everything.
        Admin = "admin",
    }
}

keys! {
    /// `[http]`: the public listener.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct HttpSettings: Default {
        /// Address and port, or `unix:` and a path; or a list of them.
        listen: OneOrMore = Either(&Text(TextKind::Listen), &List(&Text(TextKind::Listen))), example "127.0.0.1:8080";
        // Nobody shall open a port to other machines by mistake.
        /// Must be true for an address that is not loopback.
        public: bool = Bool, default false, example true;
        /// Certificate and key: with them every TCP address speaks TLS.
        tls: Option<TlsSettings> = Table(TlsSettings::KEYS), example { certificate = "/etc/fnd/tls/cert.pem", key = "/etc/fnd/tls/key.pem" };
        /// The address at which the public listener accepts CloudEvents.
        events: Option<HttpEvents> [default] = Table(HttpEvents::KEYS), example { path = "/events", auth = "token:events-token" };
        // Anybody else could write any address into such a header.
        /// Proxies whose `Forwarded` or `X-Forwarded-For` names the caller: addresses, networks, `unix`.
        trusted_proxies: Vec<String> = List(&Text(TextKind::Network)), example ["127.0.0.1"];
        /// Most connections at once.
        connections: u32 = Whole(1..=1_000_000), default 1024, example 10000;
        /// Most connections of one address at once; trusted proxies and Unix sockets have no such limit.
        connections_per_address: u32 = Whole(1..=1_000_000), default 64, example 16;
        /// Whether requests are logged, one line each.
        access_log: bool = Bool, default true, example false;
    }
}

keys! {
    /// `[http] tls`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct TlsSettings {
        /// File with the certificates, PEM.
        certificate: String = Text(TextKind::Absolute), example "/etc/fnd/tls/cert.pem", required true;
        /// File with the private key, PEM.
        key: String = Text(TextKind::Absolute), example "/etc/fnd/tls/key.pem", required true;
    }
}

/// One text or a list of texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OneOrMore(pub Vec<String>);

/// Absent is the empty list.
impl FromValue for OneOrMore {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        Some(Self(value.map(|value| value.texts()).unwrap_or_default()))
    }
}

keys! {
    /// `[http] events`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct HttpEvents {
        /// Path of the address. No function can have a route with it.
        path: String = Text(TextKind::UrlPath), example "/events", required true;
        /// How a sender proves that it may send events: `FORM:SECRET` or `none`, as in `auth` of a route.
        auth: Credentials = Text(TextKind::Grammar(&AUTH)), example "token:events-token", required true;
    }
}

keys! {
    /// `[metrics]`: where metrics are available besides the control socket.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct MetricsSettings {
        // Prometheus cannot read metrics from a Unix socket.
        /// Address and port of a plain HTTP listener for `/metrics` only; everybody who reaches it may read it.
        listen: Option<SocketAddr> = Text(TextKind::Socket), example "127.0.0.1:9640";
        /// File for the node exporter.
        textfile: Option<String> = Text(TextKind::Absolute), example "/var/lib/prometheus/node-exporter/fnd.prom";
    }
}

keys! {
    /// `[history]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct HistorySettings {
        /// What fnd does about a damaged ledger: `set-aside` copies all readable rows into a new one, `refuse` does not start fnd.
        on_damage: OnDamage = Word(OnDamage::WORDS), default "set-aside", example "refuse";
        /// How long records are kept.
        keep_for: Duration [with = "text::duration"] = Duration(Zero::Refused), default "30d", example "7d";
        /// How many bytes of records are kept.
        keep_bytes: u64 [with = "text::size"] = Size(MIB..=(1 << 50)), default "1G", example "100M";
    }
}

words! {
    /// The treatment of a damaged ledger.
    pub enum OnDamage {
        /// Everything that can be read is copied into a new ledger.
        SetAside = "set-aside",
        /// fnd does not start.
        Refuse = "refuse",
    }
}

keys! {
    /// `[logs]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct LogSettings {
        /// How long output is kept.
        keep_for: Duration [with = "text::duration"] = Duration(Zero::Refused), default "30d", example "7d";
        /// How many bytes of output are kept.
        keep_bytes: u64 [with = "text::size"] = Size(MIB..=(1 << 50)), default "2G", example "500M";
        /// Whether output also goes to the journal.
        journal: bool = Bool, default true, example false;
    }
}

keys! {
    /// `[status]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Status {
        /// Permission bits of status files, which may hold results.
        mode: u32 [with = "text::mode"] = Mode, default "0640", example "0644";
    }
}

keys! {
    /// `[build]`: how dependencies are installed.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct BuildSettings: Default {
        /// Longest time of one installation; then it fails.
        timeout: Duration [with = "text::duration"] = Duration(Zero::Refused), default "30m", example "1h";
        /// Memory of one installation.
        memory: u64 [with = "text::size"] = Size(MIB..=(1 << 50)), default "2G", example "4G";
        /// CPU of one installation. Default: no limit; functions that run have five times its share.
        cpu: Option<u32> [with = "text::cpu_or_none"] = Cpu, example "1";
        /// Installations that run at the same time.
        jobs: u32 [default = "one"] = Whole(1..=64), default 1, example 2;
        /// The network of installations: the machine's, or none. A change installs everything anew. `[source]` is fetched all the same.
        network: BuildNetwork [default] = Word(BuildNetwork::WORDS), default "host", example "none";
        /// Whether installations use only what was downloaded before; nothing is fetched.
        offline: bool = Bool, default false, example true;
        /// Environment of installations, such as the index of packages or a proxy. A change installs everything anew.
        env: BTreeMap<String, String> = Map(TextKind::Variable, &Text(TextKind::Any)),
            example { PIP_INDEX_URL = "https://pypi.example.com/simple" };
        /// Secrets that the installations of functions of root get: `npmrc`, `pip.conf`, `netrc`, `auth.json`, or others.
        secrets: Vec<String> = NAMES, example ["npmrc"];
        /// How long installed dependencies are kept after no version has them any more.
        keep: Duration [with = "text::duration"] = Duration(Zero::Fine), default "7d", example "1d";
    }
}

/// `[build] jobs` for a configuration from an fnd that did not have this key.
fn one() -> u32 {
    1
}

keys! {
    /// `[runtimes] ID`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct RuntimeSettings {
        /// Interpreters by version; fnd tries them before the runtime's own.
        interpreters: BTreeMap<String, String>
            = Map(TextKind::Name, &Text(TextKind::Absolute)), example { "3.12" = "/opt/py/bin/python3.12" };
        /// Whether functions may use the runtime.
        enabled: bool = Bool, default true, example false;
    }
}

keys! {
    /// A group of `[groups]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct GroupSettings {
        /// Attempts at once of all functions whose `[queue]` names the group.
        max: u32 = Whole(1..=10_000), example 2, required true;
    }
}

keys! {
    /// `[events]`: CloudEvents.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct EventSettings: Default {
        /// How long fnd remembers an event. If an event with the same source and id comes again within this time, it runs nothing, and the sender gets the first answer again.
        remember: Duration [with = "text::duration"] = Duration(Zero::Refused), default "24h", example "1h";
        /// Servers of NATS, whose streams several nodes share: `[[nats]]` of functions needs them.
        nats: Option<NatsSettings> [default, skip_serializing_if = "Option::is_none"] = Table(NatsSettings::KEYS),
            example { servers = ["nats://127.0.0.1:4222"], stream = "fnd" };
    }
}

impl EventSettings {
    /// Returns the Unix time, in milliseconds, since when events are remembered.
    #[must_use]
    pub fn since_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(u64::try_from(self.remember.as_millis()).unwrap_or(u64::MAX))
    }
}

keys! {
    /// `[events.nats]`: servers of NATS, with whose JetStream several nodes share work.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct NatsSettings {
        /// Address of a server, or a list of the addresses of a cluster; `tls://` for a server with TLS.
        servers: OneOrMore = Either(&Text(TextKind::Grammar(&nats::SERVER)), &List(&Text(TextKind::Grammar(&nats::SERVER)))), example ["tls://n1:4222", "tls://n2:4222"], required true;
        /// Name of the secret with the credentials: the content of a `.creds` file, the seed of an nkey, a token, or `user:password`.
        credentials: Option<String> = Text(TextKind::Name), example "nats-creds";
        /// File with the certificates of the authority that signs those of the servers, PEM. Default: those of the machine.
        ca: Option<String> = Text(TextKind::Absolute), example "/etc/fnd/tls/nats-ca.pem";
        /// File with the certificate of this node, PEM, for servers that ask for one. User `fnd` must be able to read it.
        certificate: Option<String> = Text(TextKind::Absolute), example "/etc/fnd/tls/nats.pem";
        /// File with the private key of this certificate, PEM. User `fnd` must be able to read it, and nobody else but root.
        key: Option<String> = Text(TextKind::Absolute), example "/etc/fnd/tls/nats.key";
        /// Whether TLS begins before the server says anything (`handshake_first` of the server).
        tls_first: bool = Bool, default false, example true;
        /// The name of this node. Each node needs another one. Default: the host name.
        node: Option<String> = Text(TextKind::Grammar(&nats::NODE)), example "vm1";
        /// The bucket of keys and values in which nodes claim messages. fnd makes it if it does not exist.
        claims: String = Text(TextKind::Grammar(&nats::BUCKET)), default "fnd-claims", example "claims";
        /// Number of servers that store what fnd makes: the bucket, and streams with `create`.
        replicas: u32 = Whole(1..=5), default 1, example 3;
        /// The stream through which the events of all nodes go. Default: the events of a node stay there.
        stream: Option<String> = Text(TextKind::Grammar(&nats::STREAM)), example "fnd";
    }
}

keys! {
    /// `[sandbox]`: the isolation of functions whose manifest does not say it.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SandboxSettings: Default {
        /// The profile of functions whose manifest names none, as `sandbox.profile` in `[defaults]`, which wins.
        profile: Profile = Word(Profile::WORDS), default "strict", example "standard";
        /// What happens if the machine cannot give a part of a profile that no manifest asks for: fnd can `say` so and run the function, or `refuse` it.
        missing: Missing = Word(Missing::WORDS), default "say", example "refuse";
    }
}

words! {
    /// The treatment of a function if the machine cannot give a part of its default profile.
    pub enum Missing {
        /// It runs, and its status names the part.
        Say = "say",
        /// It is refused.
        Refuse = "refuse",
    }
}

keys! {
    /// `[secrets]`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SecretSettings {
        /// The file with the keys that decrypt `NAME.age` beside functions. Only root can read it. Default: `age.key` beside fnd.toml.
        age_key: Option<String> [default, skip_serializing_if = "Option::is_none"]
            = Text(TextKind::Absolute), example "/etc/fnd/age.key";
    }
}

keys! {
    /// `[alert]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct NodeAlert: Default {
        /// The function to call.
        call: Option<FunctionName> [with = "text::id_or_null"] = Text(TextKind::Function), example "page";
        /// Which changes to call for: those of `alert.on` in a manifest, and `node`: problems of the machine and of fnd itself.
        on: Vec<AlertOn> = List(&Word(AlertOn::WORDS)), default ["failed", "crash-looping", "invalid", "missed", "recovered", "node"],
            example ["failed", "node"];
    }
}

keys! {
    /// `[audit]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AuditSettings: Default {
        /// How long entries are kept.
        keep_for: Duration [with = "text::duration"] = Duration(Zero::Refused), default "90d", example "365d";
        /// Where calls that run functions are told: `record`: in the record of the run; `journal`: also in the journal; `entry`: in entries.
        runs: AuditedRuns [default] = Word(AuditedRuns::WORDS), default "record", example "journal";
    }
}

words! {
    /// Where calls that run functions are told.
    pub enum AuditedRuns {
        /// The record of a run has its caller.
        Record = "record",
        /// The journal has a line for each call, too.
        Journal = "journal",
        /// Each call is an entry of the audit, and no record has a caller.
        Entry = "entry",
    }
}

#[expect(clippy::derivable_impls, reason = "`words!` makes the enum, and derives no default")]
impl Default for AuditedRuns {
    fn default() -> Self {
        Self::Record
    }
}

keys! {
    const UI {
        /// Whether fnd itself serves the page. `fndctl web` serves it without this key, with the rights of its caller.
        enabled = Bool, default false, example true, not_yet [false];
    }
}
