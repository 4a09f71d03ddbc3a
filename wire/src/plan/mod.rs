//! The messages between the spawner and the judge: flat structures that need no further parsing.
//!
//! The judge (`fnd-helper --judge`) has no files, no network and no privileges; it turns manifest bytes into these structures.
//! The spawner trusts nothing in them except their form: it checks users, groups, interpreters and limits against facts
//! that root owns.
//!
//! Files:
//! - `capabilities`: capabilities of Linux
//! - `judge`: the messages
//! - `internal_functions`: functions of fnd's own
//! - `variables`: names of variables

mod capabilities;
mod internal_functions;
mod judge;
mod variables;

pub use capabilities::*;
pub use internal_functions::*;
pub use judge::*;
pub use variables::*;

use crate::form::{Bytes, wire_enum, wire_structs};
use crate::ids::FunctionName;
use crate::sandbox::{Profile, Sandbox};
use crate::trust::is_secret;
use crate::units::{CPU_MILLI_MAX, DURATION_MAX};

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
    pub enum CodeLayout {
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

impl CodeLayout {
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
    pub struct PlanText {
        /// The text, in which placeholders are not replaced yet.
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
        /// The name of the function, or of fnd's own one that builds or checks.
        pub function: FunctionName,
        /// How the function is run.
        pub mode: RunMode,
        /// Runtime id, such as `python`.
        pub runtime: String,
        /// Interpreters to try in this order, as absolute paths. The first one that exists, is executable and is safe
        /// is used. Empty: the entry is executed itself.
        pub interpreters: Vec<String>,
        /// How many of `interpreters`, from the front, come from the file's `#!` line: none or all. They may belong
        /// to the file's owner.
        pub asked_interpreters: u32,
        /// Help text for people if no interpreter can be used.
        pub interpreter_help: String,
        /// Arguments after the interpreter (or after the entry, if there is no interpreter).
        pub argv: Vec<PlanText>,
        /// Environment from [`ALWAYS`], the runtime and the manifest; each name once.
        pub environment: Vec<(String, PlanText)>,
        /// The file to run, relative to the code directory.
        pub entry: String,
        /// Whether a byte-order mark and carriage returns at line ends are removed from the installed entry (bash
        /// accepts neither).
        pub unix_text: bool,
        /// The user the function runs as.
        pub user: User,
        /// Supplementary groups by name, and capabilities ([`CAPABILITY`]); `[users]` must allow each.
        pub groups: Vec<String>,
        /// The function's limits.
        pub limits: Limits,
    }

    /// The settings of `fnd.toml` that the spawner needs.
    pub struct Policy {
        /// First and last uid of the users that functions have of their own.
        pub uid_range: (u32, u32),
        /// Existing users and groups that a manifest may name, and capabilities ([`CAPABILITY`]).
        pub allow_users: Vec<String>,
        /// Whether a manifest may name root, or a capability that is as good as root.
        pub allow_root: bool,
        /// Whether a function runs although a limit cannot be enforced.
        pub best_effort_limits: bool,
        /// Memory of all functions together in bytes; absent: the machine's memory less the reserve.
        pub memory: Option<u64>,
        /// Bytes reserved for the rest of the machine if `memory` is absent.
        pub reserve_memory: u64,
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

    /// A function's dependencies, and how they are built. Nothing in it depends on the function's name, so functions with
    /// the same dependencies share one tree. In a verdict without a plan, it is the code itself that is fetched.
    pub struct PlannedBuild {
        /// The plan of [`BUILD`].
        pub plan: Plan,
        /// The sandbox of the build.
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
}

impl Plan {
    /// Returns whether the function may do something at fnd itself ([`SOCKET`]).
    #[must_use]
    pub fn calls(&self) -> bool {
        self.environment.iter().any(|(name, _)| name == SOCKET.0)
    }

    /// Returns the number of the signal that asks the function's processes to end: one of [`STOP_SIGNALS`], whatever the judge
    /// has written. Absent: SIGTERM.
    #[must_use]
    pub fn stop_signal(&self) -> Option<i32> {
        let (_, written) = self.environment.iter().find(|(name, _)| name == STOP_SIGNAL)?;
        variables::known_stop_signal(&written.text)
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
        // In the environment of execve(2) a variable is `NAME=VALUE` with a NUL at its end.
        let name_ok = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        let weights = [limits.cpu_weight, limits.io_weight];
        let checks = [
            (self.function == *asked_for, "it is for another function"),
            // The paths of the files have no `..`, so no entry leads out of the function.
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
            // For execve(2) a text ends at its first NUL.
            (texts().all(|text| !text.contains('\0')), "a text has a NUL byte"),
            (
                (1 << 16..1 << 62).contains(&limits.memory) && limits.swap < 1 << 62,
                "memory or swap is out of bounds",
            ),
            ((1..=PIDS_MAX).contains(&limits.pids), "pids is out of bounds"),
            (
                limits.open_files >= 8 && limits.open_files <= 1 << 30,
                "open_files is out of bounds",
            ),
            (
                // cgroup v2 takes weights from 1 to 10,000.
                weights.iter().all(|weight| (1..=10_000).contains(weight)),
                "a weight is out of bounds",
            ),
            (
                limits
                    .cpu_milli
                    .is_none_or(|milli| (1..=CPU_MILLI_MAX).contains(&milli)),
                "cpu is out of bounds",
            ),
            (
                u128::from(limits.grace_ms) <= DURATION_MAX.as_millis(),
                "grace is out of bounds",
            ),
        ];
        let flaw = checks.iter().find(|(fine, _)| !fine);
        flaw.map(|(_, why)| format!("the plan can't be used: {why}"))
    }
}

/// Most processes of a function: as many as a kernel can have (proc_sys_kernel(5), `pid_max`).
pub const PIDS_MAX: u32 = 4_194_304;
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
