//! What the judge hands to the spawner: flat structures without anything left to parse.
//!
//! The judge (`fnd --judge`) has no files, no network and no privileges; it turns manifest bytes into these. The spawner
//! trusts none of it beyond its form: users, groups, interpreters and limits are checked against root-owned facts.

use crate::form::{Bytes, wire_enum, wire_structs};
use crate::ids::FunctionName;

wire_enum! {
    /// How a function is run (contract, section 2).
    pub enum RunMode {
        /// One process per attempt.
        0 = Script,
        /// A worker that speaks the worker protocol on descriptor 3 (`runtimes/PROTOCOL.md`). Holds the absolute path of the
        /// runtime's shim, which the function's user has to be able to read; empty where the program itself speaks it.
        1 = Handler(String),
    }
}

impl RunMode {
    /// Returns the shim of a handler, empty where there is none; nothing for other modes.
    #[must_use]
    pub fn handler(&self) -> Option<&str> {
        match self {
            Self::Script => None,
            Self::Handler(shim) => Some(shim),
        }
    }
}

wire_enum! {
    /// As whom a function runs.
    pub enum User {
        /// The function's own user, from the uid table.
        0 = Own,
        /// A user by name; must be in `[users] allow`, or be root with `allow_root`, and the manifest root's.
        1 = Named(String),
    }
}

wire_structs! {
    /// A piece of a command line or an environment value.
    pub struct Text {
        /// The text.
        pub text: String,
        /// Whether `{code}` `{entry}` `{tmp}` `{state}` `{cache}` `{result}` `{credentials}` `{bindings}` in it are replaced by
        /// paths, `{shim}` by that of [`RunMode::Handler`], `{user}` and `{zone}` by the user's and the time zone's name. True
        /// only for what [`ALWAYS`] and a runtime's `runtime.toml` say, never for what a manifest says.
        pub template: bool,
    }

    /// The limits of a function. Sizes in bytes, durations in milliseconds.
    pub struct Limits {
        /// From start to SIGTERM of one attempt; absent: none.
        pub timeout_ms: Option<u64>,
        /// From SIGTERM to SIGKILL.
        pub grace_ms: u64,
        /// Memory of all workers together (`memory.max`).
        pub memory: u64,
        /// Where reclaim begins (`memory.high`).
        pub memory_high: Option<u64>,
        /// Swap (`memory.swap.max`).
        pub swap: u64,
        /// CPU quota in thousandths of a core (`cpu.max`).
        pub cpu_milli: Option<u32>,
        /// CPU weight, 1 to 10000 (`cpu.weight`).
        pub cpu_weight: u32,
        /// Processes and threads (`pids.max`); the launcher is not counted.
        pub pids: u32,
        /// Open files of one process (`RLIMIT_NOFILE`).
        pub open_files: u64,
        /// Largest file a process may write (`RLIMIT_FSIZE`).
        pub file_size: Option<u64>,
        /// IO weight, 1 to 10000 (`io.weight`), where the controller exists.
        pub io_weight: u32,
        /// Bytes read per second from the device of the state directory (`io.max rbps`).
        pub io_read: Option<u64>,
        /// Bytes written per second to it (`io.max wbps`).
        pub io_write: Option<u64>,
        /// Largest result in `$FND_RESULT`.
        pub result: u64,
        /// Names of the limits the manifest itself asks for: where one of them cannot be enforced the function is refused.
        pub asked: Vec<String>,
    }

    /// A function version, ready to be installed and started.
    pub struct Plan {
        /// The function.
        pub function: FunctionName,
        /// How it is run.
        pub mode: RunMode,
        /// Runtime id, `python`.
        pub runtime: String,
        /// Interpreters to try, in order, as absolute paths; the first that exists, is executable and is safe is used. Empty: the
        /// entry is executed itself.
        pub interpreters: Vec<String>,
        /// How many of `interpreters`, from the front, were asked for by the file's `#!` line: passing over those is a warning,
        /// having none of the rest is a refusal.
        pub asked_interpreters: u32,
        /// What to do where none of them can be used, for people.
        pub interpreter_help: String,
        /// Command line behind the interpreter (or behind the entry, where there is none).
        pub argv: Vec<Text>,
        /// Environment: what is [`ALWAYS`] set, of the runtime and the manifest; each name once.
        pub environment: Vec<(String, Text)>,
        /// The file that is run, relative to the code directory.
        pub entry: String,
        /// Whether a byte-order mark and carriage returns at line ends are removed from the installed entry (bash takes neither).
        pub unix_text: bool,
        /// As whom.
        pub user: User,
        /// Supplementary groups by name; each must be allowed like a user.
        pub groups: Vec<String>,
        /// Its limits.
        pub limits: Limits,
    }

    /// What of `fnd.toml` concerns the spawner.
    pub struct Policy {
        /// First and last uid of own users.
        pub uid_range: (u32, u32),
        /// Existing users and groups a manifest may name.
        pub allow_users: Vec<String>,
        /// Whether a manifest may name root.
        pub allow_root: bool,
        /// Go on where a limit cannot be enforced.
        pub best_effort_limits: bool,
        /// Memory of all functions together, in bytes; absent: the machine's but the reserve.
        pub memory: Option<u64>,
        /// What is left to the rest of the machine then.
        pub reserve_memory: u64,
    }

    /// A file handed to the judge.
    pub struct JudgedFile {
        /// Its path, for diagnostics.
        pub path: String,
        /// Its bytes; of code at most [`CODE_MAX`], from the front.
        pub bytes: Bytes,
        /// Permission bits (`st_mode & 0o7777`).
        pub mode: u32,
        /// Whether root owns it (or, where the spawner is not root, the spawner's user): only then may it grant itself more.
        pub trusted: bool,
    }

    /// Asks for a verdict on a function.
    pub struct JudgeFunction {
        /// Its name, from the file name.
        pub name: FunctionName,
        /// Code file, or in directory form every regular file of the directory by name with the bytes of the entry candidates.
        pub files: Vec<JudgedFile>,
        /// Sidecar or `function.toml`.
        pub manifest: Option<JudgedFile>,
        /// Whether it is the directory form; paths of `files` are then relative to it.
        pub directory: bool,
    }

    /// Configuration and runtimes, in the order in which they are merged.
    pub struct JudgeSettings {
        /// `fnd.toml`, then `conf.d/*.toml`.
        pub files: Vec<JudgedFile>,
        /// `runtimes/ID/runtime.toml`, shipped ones first; a later one of the same id replaces.
        pub runtimes: Vec<JudgedFile>,
    }

    /// Verdict on a function.
    pub struct FunctionVerdict {
        /// The plan, unless refused.
        pub plan: Option<Plan>,
        /// `core::judge::Verdict` as JSON, for fnd; the spawner passes it on unread.
        pub document: Bytes,
    }

    /// Verdict on the settings.
    pub struct SettingsVerdict {
        /// The policy, unless refused.
        pub policy: Option<Policy>,
        /// Settings or diagnostics as JSON, for fnd.
        pub document: Bytes,
    }
}

/// Variables every function has unless its runtime or manifest says otherwise, as templates (contract, section 3).
pub const ALWAYS: [(&str, &str); 14] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("HOME", "{state}"),
    ("USER", "{user}"),
    ("LOGNAME", "{user}"),
    ("SHELL", "/bin/sh"),
    ("LANG", "C.UTF-8"),
    ("TZ", "{zone}"),
    ("TMPDIR", "{tmp}"),
    ("STATE_DIRECTORY", "{state}"),
    ("CACHE_DIRECTORY", "{cache}"),
    ("CREDENTIALS_DIRECTORY", "{credentials}"),
    ("SERVICE_BINDING_ROOT", "{bindings}"),
    ("FND_RESULT", "{result}"),
    ("SCRIPT", "{entry}"),
];

/// Variables a handler's worker has beside those, with the names and meanings of Kubeless (`runtimes/PROTOCOL.md`).
pub const HANDLER_VARIABLES: [&str; 6] = [
    "MOD_NAME",
    "FUNC_HANDLER",
    "FUNC_TIMEOUT",
    "FUNC_RUNTIME",
    "FUNC_MEMORY_LIMIT",
    "FUNC_PORT",
];

/// Below the state directory: the files of the last configuration that was put in force, as the message
/// ([`JudgeRequest::Settings`]) that the judge took.
pub const LAST_SETTINGS: &str = "spawner/settings";

/// Largest answer of the judge: what it says goes on to fnd in a frame that holds a little more.
pub const ANSWER_MAX: usize = crate::frame::FRAME_MAX / 2;

/// How much of a code file the judge is shown.
pub const CODE_MAX: usize = 1 << 20;

wire_enum! {
    /// A message to the judge, in [`packets`](crate::frame::packets).
    pub enum JudgeRequest {
        /// Settings and runtimes; kept for the functions after it.
        1 = Settings(JudgeSettings),
        /// A function.
        2 = Function(JudgeFunction),
    }
}

wire_enum! {
    /// The judge's answer, in the order of the requests; in packets likewise.
    pub enum JudgeReply {
        /// To [`JudgeRequest::Settings`].
        1 = Settings(SettingsVerdict),
        /// To [`JudgeRequest::Function`].
        2 = Function(Box<FunctionVerdict>),
    }
}
