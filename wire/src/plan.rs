//! The messages between the spawner and the judge: flat structures that need no further parsing.
//!
//! The judge (`fnd --judge`) has no files, no network and no privileges; it turns manifest bytes into these structures.
//! The spawner trusts nothing in them except their form: it checks users, groups, interpreters and limits against facts
//! that root owns.

use crate::form::{Bytes, wire_enum, wire_structs};
use crate::frame::{PROTOCOL_AGE, PROTOCOL_BUILDS, PROTOCOL_REQUESTS, PROTOCOL_SANDBOX, PROTOCOL_SECRETS};
use crate::ids::FunctionName;
use crate::sandbox::{Profile, Sandbox};
use crate::trust::is_secret;

wire_enum! {
    /// How a function is run.
    pub enum RunMode {
        /// One process per attempt.
        0 = Script,
        /// A worker that uses the worker protocol on descriptor 3 (`runtimes/PROTOCOL.md`). The value is the absolute
        /// path of the runtime's shim, which the function's user must be able to read; it is empty if the program
        /// itself uses the protocol.
        1 = Handler(String),
    }
}

impl RunMode {
    /// Returns the shim of a handler; empty if the handler has none, absent for other modes.
    #[must_use]
    pub fn handler(&self) -> Option<&str> {
        match self {
            Self::Script => None,
            Self::Handler(shim) => Some(shim),
        }
    }
}

wire_enum! {
    /// How the files of a function lie on the disk. Before archives this was one byte, whether they are in a directory.
    pub enum Form {
        /// The code is one file; its path in [`JudgeFunction::files`] is absolute.
        0 = File,
        /// The code is a directory, and the paths of its files are relative to it.
        1 = Directory,
        /// The code is the archive of this path, and the paths of its files are those in the function.
        2 = Archive(String),
        /// The code was fetched (`[source]`) and lies beside `function.toml`, as in a directory.
        3 = Source,
        /// The function was made of the file of another system of this path, with `function.toml`.
        4 = Foreign(String),
    }
}

impl Form {
    /// Returns whether the function has files of its own below a directory.
    #[must_use]
    pub fn is_tree(&self) -> bool {
        *self != Self::File
    }

    /// Returns the word for what holds the files.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::File | Self::Directory => "directory",
            Self::Archive(_) => "archive",
            Self::Source => "source",
            Self::Foreign(_) => "file",
        }
    }
}

wire_enum! {
    /// The user that a function runs as.
    pub enum User {
        /// The function's own user, from the uid table.
        0 = Own,
        /// A user by name. The user must be in `[users] allow`; or be root, with `allow_root` set and root as the owner
        /// of code and manifest.
        1 = Named(String),
    }
}

wire_structs! {
    /// An argument of a command line, or the value of an environment variable.
    pub struct Text {
        /// The text.
        pub text: String,
        /// Whether placeholders in the text are replaced: `{code}` `{entry}` `{tmp}` `{state}` `{cache}` `{result}`
        /// `{credentials}` `{bindings}` `{deps}` `{interpreter}` by paths, `{shim}` by the path in [`RunMode::Handler`],
        /// `{socket}` by the path at which the worker connects to fnd, `{user}` and `{zone}` by the names of user and time
        /// zone. True only for texts of [`ALWAYS`] and of a runtime's `runtime.toml`, never for texts of a manifest.
        pub template: bool,
    }

    /// The limits of a function. Sizes in bytes, durations in milliseconds.
    pub struct Limits {
        /// Time from an attempt's start to its SIGTERM; absent: no limit.
        pub timeout_ms: Option<u64>,
        /// Time from SIGTERM to SIGKILL.
        pub grace_ms: u64,
        /// Memory of all workers of the function together (`memory.max`).
        pub memory: u64,
        /// Memory use above which the kernel reclaims (`memory.high`).
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
        /// IO weight, 1 to 10000 (`io.weight`); in force only if the controller exists.
        pub io_weight: u32,
        /// Bytes read per second from the device of the state directory (`io.max rbps`).
        pub io_read: Option<u64>,
        /// Bytes written per second to that device (`io.max wbps`).
        pub io_write: Option<u64>,
        /// Largest result in `$FND_RESULT`, in bytes.
        pub result: u64,
        /// Names of the limits that the manifest itself sets. If one of them cannot be enforced, the function is
        /// refused.
        pub asked: Vec<String>,
    }

    /// A function version, ready to be installed and started.
    pub struct Plan {
        /// The function.
        pub function: FunctionName,
        /// How the function is run.
        pub mode: RunMode,
        /// Runtime id, such as `python`.
        pub runtime: String,
        /// Interpreters to try in this order, as absolute paths. The first one that exists, is executable and is safe
        /// is used. Empty: the entry is executed itself.
        pub interpreters: Vec<String>,
        /// How many of `interpreters`, from the front, come from the file's `#!` line. The spawner warns for each of
        /// these that it can't use. If no interpreter at all can be used, the function is refused.
        pub asked_interpreters: u32,
        /// Help text for people if no interpreter can be used.
        pub interpreter_help: String,
        /// Arguments after the interpreter (or after the entry, if there is no interpreter).
        pub argv: Vec<Text>,
        /// Environment from [`ALWAYS`], the runtime and the manifest; each name once.
        pub environment: Vec<(String, Text)>,
        /// The file to run, relative to the code directory.
        pub entry: String,
        /// Whether a byte-order mark and carriage returns at line ends are removed from the installed entry (bash
        /// accepts neither).
        pub unix_text: bool,
        /// The user the function runs as.
        pub user: User,
        /// Supplementary groups by name; each must be in `[users] allow`.
        pub groups: Vec<String>,
        /// The function's limits.
        pub limits: Limits,
    }

    /// The settings of `fnd.toml` that the spawner needs.
    pub struct Policy {
        /// First and last uid of the users that functions have of their own.
        pub uid_range: (u32, u32),
        /// Existing users and groups that a manifest may name.
        pub allow_users: Vec<String>,
        /// Whether a manifest may name root.
        pub allow_root: bool,
        /// Whether a function runs although a limit cannot be enforced.
        pub best_effort_limits: bool,
        /// Memory of all functions together in bytes; absent: the machine's memory less the reserve.
        pub memory: Option<u64>,
        /// Bytes reserved for the rest of the machine if `memory` is absent.
        pub reserve_memory: u64,
    }

    /// A file passed to the judge.
    pub struct JudgedFile {
        /// The file's path, for diagnostics.
        pub path: String,
        /// The file's content; of code at most the first [`CODE_MAX`] bytes.
        pub bytes: Bytes,
        /// Permission bits (`st_mode & 0o7777`).
        pub mode: u32,
        /// Whether root owns the file (or the spawner's user, if the spawner is not root): only then may the file ask
        /// for more rights.
        pub trusted: bool,
    }

    /// Asks the judge for a verdict on a function.
    pub struct JudgeFunction {
        /// The function's name, from the file name.
        pub name: FunctionName,
        /// The code file. In directory form every regular file of the directory, sorted by name, with the beginning of
        /// each as far as there is room.
        pub files: Vec<JudgedFile>,
        /// The sidecar manifest or `function.toml`, if there is one.
        pub manifest: Option<JudgedFile>,
        /// How the files lie on the disk.
        pub form: Form,
    }

    /// Configuration and runtimes, in the order in which they are merged.
    pub struct JudgeSettings {
        /// `fnd.toml`, then `conf.d/*.toml`.
        pub files: Vec<JudgedFile>,
        /// `runtimes/ID/runtime.toml`, the shipped ones first; a later file replaces an earlier one of the same id.
        pub runtimes: Vec<JudgedFile>,
    }

    /// The judge's verdict on a function.
    pub struct FunctionVerdict {
        /// The plan; absent if the function is refused.
        pub plan: Option<Plan>,
        /// `fnd_manifest::judge::Verdict` as JSON, for fnd; the spawner passes it on without reading it.
        pub document: Bytes,
    }

    /// A verdict, and the secrets that the routes of the function name.
    pub struct FunctionAndSecrets {
        /// The verdict.
        pub verdict: FunctionVerdict,
        /// Names of secrets, sorted, each once; empty if the function is refused.
        pub secrets: Vec<String>,
    }

    /// A verdict with its secrets, and the sandbox.
    pub struct FunctionAndSandbox {
        /// Verdict and secrets.
        pub function: FunctionAndSecrets,
        /// The sandbox; absent if the function is refused.
        pub sandbox: Option<Sandbox>,
    }

    /// A secret that a function gets.
    pub struct Mapped {
        /// The name that it has for the function: of a file below `CREDENTIALS_DIRECTORY`.
        pub name: String,
        /// The name of the secret.
        pub secret: String,
        /// Whether it is also a variable of the environment.
        pub variable: bool,
    }

    /// The secrets and service bindings that a function gets.
    #[derive(Default)]
    pub struct Credentials {
        /// Secrets, at most [`MAPPED_MAX`].
        pub secrets: Vec<Mapped>,
        /// Names of service bindings, at most [`MAPPED_MAX`]: directories below `SERVICE_BINDING_ROOT`.
        pub bindings: Vec<String>,
    }

    /// A verdict with its sandbox, and what the function gets.
    pub struct FunctionAndCredentials {
        /// Verdict, secrets of routes, and sandbox.
        pub function: FunctionAndSandbox,
        /// Secrets and service bindings of the function.
        pub credentials: Credentials,
    }

    /// A function's dependencies, and how they are built. Nothing in it depends on the function's name, so functions with
    /// the same dependencies share one tree. In a verdict without a plan, it is the code itself that is fetched.
    pub struct Build {
        /// The plan of [`BUILD`].
        pub plan: Plan,
        /// Its sandbox.
        pub sandbox: Sandbox,
        /// `fnd_manifest::judge::Verdict` about it as JSON, for fnd.
        pub document: Bytes,
        /// The files of the function that the build reads, at most [`INPUTS_MAX`].
        pub inputs: Vec<String>,
        /// Name and content of a file for the build that the judge makes.
        pub made: (String, Bytes),
        /// The secrets that the build gets.
        pub credentials: Credentials,
        /// For how many seconds fetched code is new enough; absent: for ever.
        pub fresh_for: Option<u64>,
    }

    /// A verdict with everything that the function gets, and the build of its dependencies.
    pub struct FunctionAndBuild {
        /// Verdict, secrets, sandbox and credentials.
        pub function: FunctionAndCredentials,
        /// The build; absent if nothing is to be built.
        pub build: Option<Build>,
    }

    /// A verdict on the settings, and the key of encrypted secrets.
    pub struct SettingsAndKey {
        /// Verdict, files, secrets and profile.
        pub settings: SettingsAndSandbox,
        /// `[secrets] age_key`; absent: `age.key` beside fnd.toml.
        pub age_key: Option<String>,
    }

    /// A verdict with its files and secrets, and the profile of functions that name none.
    pub struct SettingsAndSandbox {
        /// Verdict, files and secrets.
        pub settings: SettingsAndTls,
        /// `[sandbox] profile`.
        pub profile: Profile,
    }

    /// A verdict, and the files and secrets that the listener needs.
    pub struct SettingsAndTls {
        /// The verdict.
        pub verdict: SettingsVerdict,
        /// Absolute paths of the certificates and of the private key in `[http] tls`.
        pub tls: Option<(String, String)>,
        /// Names of the secrets of `[http] events`.
        pub secrets: Vec<String>,
    }

    /// The judge's verdict on the settings.
    pub struct SettingsVerdict {
        /// The policy; absent if the settings are refused.
        pub policy: Option<Policy>,
        /// Settings or diagnostics as JSON, for fnd.
        pub document: Bytes,
    }
}

impl Plan {
    /// Returns whether the function may do something at fnd itself ([`SOCKET`]).
    #[must_use]
    pub fn calls(&self) -> bool {
        self.environment.iter().any(|(name, _)| name == SOCKET.0)
    }

    /// Returns why the plan is invalid in itself; absent if it is valid. The spawner trusts no judge to have checked it.
    ///
    /// `asked_for` is the function that the plan has to be for, `has_entry` whether its entry is among the files.
    #[must_use]
    pub fn flaw(&self, asked_for: &FunctionName, has_entry: bool) -> Option<String> {
        let limits = &self.limits;
        let texts = || {
            let variables = self.environment.iter().map(|(_, text)| &text.text);
            self.argv.iter().map(|text| &text.text).chain(variables)
        };
        let name_ok = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        let weights = [limits.cpu_weight, limits.io_weight];
        let checks = [
            (self.function == *asked_for, "it is for another function"),
            (has_entry, "its entry is not among the files"),
            (
                self.interpreters.len() <= 64 && self.groups.len() <= 32,
                "it lists too many interpreters or groups",
            ),
            (
                self.argv.len() <= 1024 && self.environment.len() <= 1024,
                "it has too many arguments or variables",
            ),
            (
                texts().map(String::len).sum::<usize>() <= 256 * 1024,
                "arguments and variables are longer than 256 KiB",
            ),
            (
                self.environment.iter().all(|(name, _)| name_ok(name)),
                "a variable has an invalid name",
            ),
            (texts().all(|text| !text.contains('\0')), "a text has a NUL byte"),
            (
                (1 << 16..1 << 62).contains(&limits.memory) && limits.swap < 1 << 62,
                "memory or swap is out of bounds",
            ),
            ((1..=4_000_000).contains(&limits.pids), "pids is out of bounds"),
            (
                limits.open_files >= 8 && limits.open_files <= 1 << 30,
                "open_files is out of bounds",
            ),
            (
                weights.iter().all(|weight| (1..=10_000).contains(weight)),
                "a weight is out of bounds",
            ),
            (
                limits.cpu_milli.is_none_or(|milli| (1..=1_000_000).contains(&milli)),
                "cpu is out of bounds",
            ),
            (limits.grace_ms <= 86_400_000, "grace is longer than a day"),
        ];
        let flaw = checks.iter().find(|(fine, _)| !fine);
        flaw.map(|(_, why)| format!("the plan can't be used: {why}"))
    }
}

/// Returns whether fnd may set a variable of this name: one of those in docs/writing-functions.md that only fnd knows.
/// fnd may never set a variable that controls the loader, a shell or an interpreter, nor one that the spawner sets.
#[must_use]
pub fn may_be_given(name: &str) -> bool {
    let is_upper = |rest: &str, digits: bool| {
        let fits = |b: u8| b.is_ascii_uppercase() || b == b'_' || digits && b.is_ascii_digit();
        !rest.is_empty() && rest.bytes().all(fits)
    };
    let own = name
        .strip_prefix("FND_")
        .is_some_and(|rest| !matches!(rest, "RESULT" | "PREVIOUS") && is_upper(rest, false));
    // Of a request: the caller chooses the rest of these names. Programs take `HTTP_PROXY` for their proxy.
    let of_request = ["FND_PARAM_", "HTTP_"]
        .iter()
        .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| is_upper(rest, true)) && name != "HTTP_PROXY");
    let names = [
        "DATA",
        "KEPTN_CONTEXT",
        "CONTEXT",
        "TRACEPARENT",
        "TRACESTATE",
        "B3",
        "RUNTIME",
        "PORT",
    ];
    own || of_request || names.contains(&name) || CGI.contains(&name)
}

/// The variables of CGI/1.1 (RFC 3875, section 4.1) that describe a request, without those of headers.
pub const CGI: [&str; 14] = [
    "GATEWAY_INTERFACE",
    "SERVER_SOFTWARE",
    "SERVER_PROTOCOL",
    "SERVER_NAME",
    "SERVER_PORT",
    "REQUEST_METHOD",
    "REQUEST_URI",
    "SCRIPT_NAME",
    "PATH_INFO",
    "QUERY_STRING",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "REMOTE_ADDR",
    "HTTPS",
];

/// Variables that every function has unless its runtime or manifest sets them, as templates.
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

/// Variables that a handler's worker has in addition, with the names and meanings of Kubeless (`runtimes/PROTOCOL.md`).
pub const HANDLER_VARIABLES: [&str; 6] = [
    "MOD_NAME",
    "FUNC_HANDLER",
    "FUNC_TIMEOUT",
    "FUNC_RUNTIME",
    "FUNC_MEMORY_LIMIT",
    "FUNC_PORT",
];

/// The variable in [`Plan::environment`] that has the rules of the function's watcher (`[[file]]`). Only the watcher gets
/// it ([`Request::Watch`](crate::frame::Request::Watch)), and it gets no other variable.
pub const WATCHED: &str = "FND_WATCHED";

/// The variable with the socket at which a function may do what `[access]` of its manifest says. A function whose plan has
/// it gets a directory for that socket ([`Plan::calls`]).
pub const SOCKET: (&str, &str) = ("FND_SOCKET", "{api}/fnd.sock");

/// Path below the state directory of the last settings that were put in force, stored as the message
/// ([`JudgeRequest::Settings`]) that the judge accepted.
pub const LAST_SETTINGS: &str = "spawner/settings";

/// Largest answer of the judge in bytes. The spawner passes the judge's document to fnd in a frame that holds a little
/// more.
pub const ANSWER_MAX: usize = crate::frame::FRAME_MAX / 2;

/// The function of fnd's own that builds dependencies. A function of people can't have this name.
pub const BUILD: &str = "fnd-build";

/// Says whether a function of this name builds dependencies: [`BUILD`], and `fnd-build-2` and so on, which build beside it.
#[must_use]
pub fn is_builder(name: &str) -> bool {
    let number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let rest = name.strip_prefix(BUILD);
    rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(number))
}

/// The function of fnd's own that checks the syntax of code. A function of people can't have this name.
pub const CHECK: &str = "fnd-check";

/// Says whether a name is that of a function of fnd's own.
#[must_use]
pub fn is_own(name: &str) -> bool {
    name == CHECK || is_builder(name)
}

/// The file by which a build says that a tree is complete. A line for each package: its name, a space, its version.
pub const COMPLETE: &str = ".fnd-packages";

/// The file of a tree that says how many bytes its files have.
pub const TREE_SIZE: &str = ".fnd-size";

/// The variable that tells a build to fetch nothing. It makes no other tree.
pub const OFFLINE: &str = "FND_OFFLINE";

/// Most files of a function that its build reads.
pub const INPUTS_MAX: usize = 256;

/// As the first argument: the second one is the program that runs, and the interpreter does not.
pub const INSTEAD: &str = "{instead}";

/// Most secrets, and most service bindings, of a function.
pub const MAPPED_MAX: usize = 64;

impl Credentials {
    /// Returns whether the function gets nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty() && self.bindings.is_empty()
    }

    /// Returns why they are invalid in themselves; absent if they are valid. The spawner trusts no judge to have checked
    /// them.
    #[must_use]
    pub fn flaw(&self) -> Option<&'static str> {
        let secrets = self.secrets.iter().flat_map(|mapped| [&mapped.name, &mapped.secret]);
        if self.secrets.len().max(self.bindings.len()) > MAPPED_MAX {
            Some("it has too many secrets or service bindings")
        } else if secrets.chain(&self.bindings).any(|name| !is_secret(name)) {
            Some("a secret or a service binding has an invalid name")
        } else {
            None
        }
    }
}

/// How many bytes of a code file the judge gets.
pub const CODE_MAX: usize = 1 << 20;

wire_enum! {
    /// A message to the judge, in [`packets`](crate::frame::packets).
    pub enum JudgeRequest {
        /// Settings and runtimes; the judge keeps them for the functions that follow.
        1 = Settings(JudgeSettings),
        /// A function to judge.
        2 = Function(JudgeFunction),
        /// A function whose code is to be checked; from protocol 12 on. Answered like [`JudgeRequest::Function`]: the build
        /// is that of [`CHECK`], and absent if there is nothing to check.
        3 = Check(JudgeFunction),
    }
}

wire_enum! {
    /// The judge's answer, in the order of the requests; in packets, too.
    pub enum JudgeReply {
        /// Answers [`JudgeRequest::Settings`] to a spawner before protocol 4.
        1 = OldSettings(SettingsVerdict),
        /// Answers [`JudgeRequest::Function`] to a spawner before protocol 4.
        2 = OldFunction(Box<FunctionVerdict>),
        /// Answers [`JudgeRequest::Settings`] to a spawner before protocol 6.
        3 = SettingsBefore6(SettingsAndTls),
        /// Answers [`JudgeRequest::Function`] to a spawner before protocol 6.
        4 = FunctionBefore6(Box<FunctionAndSecrets>),
        /// Answers [`JudgeRequest::Settings`] to a spawner before protocol 8.
        5 = SettingsBefore8(SettingsAndSandbox),
        /// Answers [`JudgeRequest::Function`] to a spawner before protocol 7.
        6 = FunctionBefore7(Box<FunctionAndSandbox>),
        /// Answers [`JudgeRequest::Function`] to a spawner before protocol 11.
        7 = FunctionBefore11(Box<FunctionAndCredentials>),
        /// Answers [`JudgeRequest::Settings`].
        8 = Settings(SettingsAndKey),
        /// Answers [`JudgeRequest::Function`].
        9 = Function(Box<FunctionAndBuild>),
    }
}

impl JudgeReply {
    /// Returns the answer in the form that a spawner of a protocol reads. After an upgrade the old spawner may start
    /// the judge of the new fnd.
    #[must_use]
    pub fn in_protocol(self, protocol: u16) -> Self {
        match self {
            Self::Function(all) if protocol < PROTOCOL_BUILDS => {
                let mut function = all.function;
                if all.build.is_some() {
                    // Such a spawner would start it without its dependencies.
                    function.function.function.verdict.plan = None;
                }
                Self::FunctionBefore11(Box::new(function)).in_protocol(protocol)
            }
            Self::Settings(all) if protocol < PROTOCOL_REQUESTS => Self::OldSettings(all.settings.settings.verdict),
            Self::FunctionBefore11(all) if protocol < PROTOCOL_REQUESTS => {
                Self::OldFunction(Box::new(all.function.function.verdict))
            }
            Self::Settings(all) if protocol < PROTOCOL_SANDBOX => Self::SettingsBefore6(all.settings.settings),
            Self::FunctionBefore11(all) if protocol < PROTOCOL_SANDBOX => {
                Self::FunctionBefore6(Box::new(all.function.function))
            }
            Self::Settings(all) if protocol < PROTOCOL_AGE => Self::SettingsBefore8(all.settings),
            Self::FunctionBefore11(all) if protocol < PROTOCOL_SECRETS => Self::FunctionBefore7(Box::new(all.function)),
            reply => reply,
        }
    }
}
