//! Keys for a function's view of the machine, for what is kept, and for programs that stay running.

use super::{NAMES, TEXTS};
use crate::function::network::{CONNECT, Network};
use crate::function::sandbox::{Processes, Profile};
use crate::schema::ValueKind::{List, Text};
use crate::schema::keys::keys;
use crate::schema::pick::FromValue;
use crate::schema::tree::TomlValue;
use crate::schema::{TextKind, ValueKind};
use crate::text;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const PATHS: ValueKind = List(&Text(TextKind::Below));

keys! {
    /// `[sandbox]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SandboxKeys {
        /// How strictly the function is isolated; `off` leaves its own user, no privileges, cgroup and rlimits. Default: that of `[sandbox]` in `fnd.toml`.
        profile: Profile [default] = Word(Profile::WORDS), default "strict", example "standard";
        /// The network that the function can use: the machine's (`host`), local sockets only (`none`), a network of its own with nothing but a loopback interface (`loopback`), or the machine's with TCP connections to these ports only (`["connect:443"]`).
        network: Network [default] = Either(&Word(Network::WORDS), &List(&Text(TextKind::Grammar(&CONNECT)))), default "host", example ["connect:443"];
        /// An existing user instead of the function's own; only if `[users]` of `fnd.toml` allows it and root owns the file.
        user: Option<String> = Text(TextKind::Name), example "postgres";
        /// Supplementary groups; they must be allowed in the same way as the user.
        groups: Vec<String> = NAMES, example ["adm"];
        /// Files and directories that are visible, read-only, although the profile hides them.
        read_only: Vec<String> [default] = PATHS, example ["/home/ada/.pyenv"];
        /// Directories that the function may write to, as far as its user may.
        read_write: Vec<String> [default] = PATHS, example ["/srv/out"];
        /// Files and directories that are hidden although the profile shows them.
        hide: Vec<String> [default] = PATHS, example ["/opt/other"];
        /// Makes the processes of the whole machine visible. Default: only the function's own.
        proc: Option<Processes> [default, skip_serializing_if = "Option::is_none"] = Word(Processes::WORDS), example "full";
        /// Which system calls are allowed: those of this profile. Default: those of `profile`.
        syscalls: Option<Profile> [default, skip_serializing_if = "Option::is_none"] = Word(Profile::WORDS), example "standard";
        /// Device files that are visible in addition to `/dev/null` and similar ones.
        devices: Vec<String> [default] = List(&Text(TextKind::Device)), example ["/dev/fuse"];
        /// Capabilities of Linux that the function has; only if `[users]` of `fnd.toml` allows them and root owns the file.
        capabilities: Vec<String> [default, skip_serializing_if = "Vec::is_empty"] = NAMES, example ["chown"];
    } and {
        /// Layers that must be in force, else the function is refused: those that its own manifest asks for, or all of
        /// them with `missing = "refuse"` in `[sandbox]` of `fnd.toml`.
        #[serde(default)]
        asked: Vec<String>,
    }
}

keys! {
    /// `[history]`: which records of invocations are kept.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct History {
        /// How many records of invocations are kept.
        keep: u32 = Whole(0..=10_000_000), default 1000, example 100;
        /// How long records are kept.
        keep_for: Duration [with = "text::duration"] = Duration(Zero::Refused), default "30d", example "7d";
        /// How many records of failed invocations are kept in addition.
        keep_failed: Option<u32> = Whole(0..=10_000_000), example 100;
        /// How many bytes of payloads, results and records are kept.
        keep_bytes: Option<u64> [default, with = "text::size_or_none"]
            = Size((64 << 10)..=(1 << 50)), example "64M";
    }
}

keys! {
    /// `[logs]`: which output is kept.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Logs: Default {
        /// How long output is kept.
        keep_for: Duration [with = "text::duration"] = Duration(Zero::Refused), default "30d", example "7d";
        /// How many bytes of output are kept, in segments of 16M.
        keep_bytes: u64 [with = "text::size"] = Size((16 << 20)..=(1 << 50)), default "64M", example "1G";
    }
}

/// The words of `service.stop_signal`: the names of [`STOP_SIGNALS`](fnd_wire::plan::STOP_SIGNALS), without and with `SIG`.
const STOP_SIGNAL_WORDS: &[&str] = &[
    "TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "WINCH", "SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1",
    "SIGUSR2", "SIGWINCH",
];

keys! {
    /// `[service]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ServiceKeys {
        /// Command line of the service. Default: the entry.
        command: Vec<String> = TEXTS, example ["./worker"];
        /// Number of processes that are kept running.
        replicas: u32 = Whole(1..=1000), default 1, example 2;
        /// How fnd finds out that a process is ready.
        ready: Option<String> [default, skip_serializing_if = "Option::is_none"]
            = Text(TextKind::Some), default "none", example "path:/healthz";
        /// Time within which a process must be ready.
        start_timeout: Duration [with = "text::duration"] = Duration(Zero::Refused), default "30s", example "1m";
        /// The signal that asks a process to end, with or without `SIG`; SIGKILL follows after `limits.grace`.
        stop_signal: Option<String> [default, skip_serializing_if = "Option::is_none"]
            = Word(STOP_SIGNAL_WORDS), default "TERM", example "INT";
    }
}

keys! {
    /// `[http_server]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct HttpServer {
        /// Command line of the server. Default: the entry.
        command: Vec<String> = TEXTS, example ["./server"];
        /// Port that the server listens on. Default: a free one in `$PORT`.
        port = Whole(1..=65_535), example 8080;
        /// Where the server listens instead of a port: a Unix socket at `$FND_SOCKET_PATH`.
        listen: Listen = Word(&["unix"]), example "unix";
        /// Path of the readiness probe: a worker is ready when it answers there.
        ready: Option<String> [default, skip_serializing_if = "Option::is_none"]
            = Text(TextKind::UrlPath), example "/healthz";
        /// Time within which a worker must be ready.
        start_timeout: Duration [with = "text::duration"] = Duration(Zero::Refused), default "30s", example "1m";
    }
}

/// Where a program that serves HTTP listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listen {
    /// On a free port of the loopback, which `$PORT` contains.
    Free,
    /// On this port of the loopback, which `$PORT` contains too.
    Port(u16),
    /// On a Unix socket, `$FND_SOCKET_PATH`.
    Unix,
    /// On a port of its own choice, which it reports on descriptor 3 (`export default { fetch }`).
    Told,
}

/// `unix`, or without a value a free port; the resolver sets the others.
impl FromValue for Listen {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        Some(value.map_or(Self::Free, |_| Self::Unix))
    }
}

#[cfg(test)]
mod tests {
    use super::STOP_SIGNAL_WORDS;
    use fnd_wire::plan::STOP_SIGNALS;

    #[test]
    fn a_stop_signal_has_its_two_names() {
        let names = STOP_SIGNALS.map(|(name, _)| name.to_owned());
        let long = STOP_SIGNALS.map(|(name, _)| format!("SIG{name}"));
        assert_eq!(STOP_SIGNAL_WORDS, [names, long].concat());
    }
}
