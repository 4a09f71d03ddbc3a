//! Frames between fnd and fnd-spawner, over a `SOCK_SEQPACKET` Unix socket: one frame a packet, at most [`FRAME_MAX`].
//!
//! A frame is a `u32` request number, echoed by the answer (0 in a [`Reply`] nobody asked for), then the tagged structure
//! in [`wire`](crate::wire) form. Descriptors travel beside it (`SCM_RIGHTS`), in the order the structure states. Requests
//! are idempotent by worker, so that one whose answer was lost can be sent again.

use crate::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use crate::wire::{Bytes, Wire, WireError, wire_enum, wire_structs};

/// Largest frame in bytes.
pub const FRAME_MAX: usize = 32 * 1024;
/// Largest document inside a frame; a larger one is passed as a descriptor.
pub const INLINE_MAX: usize = 24 * 1024;
/// Oldest protocol this build speaks.
pub const PROTOCOL_MIN: u16 = 1;
/// Newest protocol this build speaks.
pub const PROTOCOL_MAX: u16 = 1;
/// Most descriptors beside one frame.
pub const DESCRIPTORS_MAX: usize = 10;

wire_enum! {
    /// Bytes that may be too many for a frame.
    pub enum Document {
        /// Here.
        0 = Inline(Bytes),
        /// In the next descriptor: a sealed memfd, from its start.
        1 = Descriptor,
    }
}

wire_structs! {
    /// First frame on a connection.
    pub struct Hello {
        /// Oldest protocol fnd speaks.
        pub min: u16,
        /// Newest protocol fnd speaks.
        pub max: u16,
    }

    /// Reads a function's files, has them judged and copies them; nothing runs yet.
    pub struct Install {
        /// Index into the spawner's functions directories.
        pub directory: u16,
        /// The function.
        pub function: FunctionName,
        /// The code file, or in directory form the directory; relative to the functions directory.
        pub source: String,
        /// The sidecar manifest, if there is one, relative likewise.
        pub sidecar: Option<String>,
        /// Whether `source` is a directory with `function.toml`.
        pub directory_form: bool,
    }

    /// Starts one attempt. Descriptors: `environment` if it is one, standard input if `input`, the previous result if `previous`.
    pub struct Spawn {
        /// The worker's number, given by fnd, above every earlier one.
        pub worker: WorkerId,
        /// The function.
        pub function: FunctionId,
        /// The installed version to run.
        pub version: Version,
        /// The invocation; `TMPDIR` is its own until [`Request::Release`].
        pub invocation: InvocationId,
        /// Variables of this attempt (`FND_*`, `DATA`, `KEPTN_CONTEXT`, `CONTEXT`, `TRACEPARENT`; any other name is refused), a
        /// list of name and value in wire form.
        pub environment: Document,
        /// Whether standard input is passed; `/dev/null` otherwise.
        pub input: bool,
        /// Whether the previous result is passed; its copy in `TMPDIR` is named by `FND_PREVIOUS`.
        pub previous: bool,
    }

    /// Names an invocation of a function.
    pub struct Release {
        /// The function.
        pub function: FunctionId,
        /// The invocation whose `TMPDIR` goes.
        pub invocation: InvocationId,
    }
}

wire_enum! {
    /// What fnd asks of the spawner.
    pub enum Request {
        /// Answered by [`Reply::Welcome`]. Workers of an earlier connection are killed (taking them over is not built yet).
        1 = Hello(Hello),
        /// Reads configuration and runtimes again: [`Reply::Settings`].
        2 = Reload,
        /// Answered by [`Reply::Installed`] or [`Reply::Refused`].
        3 = Install(Install),
        /// Forgets a function and ends its launcher when nothing of it runs: [`Reply::Done`].
        4 = Remove(FunctionName),
        /// Answered by [`Reply::Spawned`] or [`Reply::SpawnFailed`], later [`Reply::Exited`].
        5 = Spawn(Spawn),
        /// SIGTERM to every process of the worker: [`Reply::Done`]. One that is gone is no error.
        6 = Term(WorkerId),
        /// SIGKILL to every process of the worker: [`Reply::Done`]. One that is gone is no error.
        7 = Kill(WorkerId),
        /// Removes an invocation's `TMPDIR`: [`Reply::Done`].
        8 = Release(Release),
        /// The exit of this worker was received and may be forgotten: no answer.
        9 = Acknowledge(WorkerId),
        /// Deletes installed versions of a function but these: [`Reply::Done`].
        10 = Prune(Prune),
    }
}

wire_structs! {
    /// Which versions of a function to keep.
    pub struct Prune {
        /// The function.
        pub function: FunctionName,
        /// Versions that stay.
        pub keep: Vec<Version>,
    }

    /// What the spawner is and what it can enforce here.
    pub struct Welcome {
        /// Protocol spoken from now on.
        pub protocol: u16,
        /// The spawner's version, `0.1.0`.
        pub version: String,
        /// How process trees are contained and killed.
        pub containment: Containment,
        /// cgroup layout in words for `status`: `v2`, `hybrid`, `none`.
        pub layout: String,
        /// Names of the limits that can't be enforced here (`memory`, `cpu`, `io_read` ...), and why, for people.
        pub missing: Vec<(String, String)>,
        /// Numbers below it are used.
        pub next_worker: WorkerId,
        /// Functions directories, absolute, in the order of their index.
        pub functions_dirs: Vec<String>,
    }

    /// Something wrong with a function's files, found by the spawner itself.
    pub struct Problem {
        /// The file.
        pub file: String,
        /// What is wrong.
        pub message: String,
        /// What to do.
        pub help: String,
    }

    /// A version is installed (or was already).
    pub struct Installed {
        /// The function.
        pub function: FunctionName,
        /// Its number.
        pub id: FunctionId,
        /// The version.
        pub version: Version,
        /// Code and own manifest only: what "runs once per content" goes by.
        pub load_key: Version,
        /// The interpreter found, real path; empty where the entry is executed itself.
        pub interpreter: String,
        /// Uid it runs as.
        pub uid: u32,
        /// Warnings of the spawner.
        pub warnings: Vec<Problem>,
        /// The judge's document: manifest and warnings.
        pub document: Document,
    }

    /// A function's files can't be used; what served before goes on.
    pub struct Refused {
        /// The function.
        pub function: FunctionName,
        /// What the spawner found.
        pub problems: Vec<Problem>,
        /// The judge's document, if it came that far.
        pub document: Option<Document>,
    }

    /// A process started. Descriptors, each only where its flag is set, in this order.
    pub struct Spawned {
        /// The worker.
        pub worker: WorkerId,
        /// Process id, for people.
        pub pid: u32,
        /// Read end of standard output.
        pub stdout: bool,
        /// Read end of standard error.
        pub stderr: bool,
        /// `$FND_RESULT`, for reading.
        pub result: bool,
        /// Write end of the leaf's `cgroup.kill`.
        pub kill: bool,
    }

    /// No process was started.
    pub struct SpawnFailed {
        /// The worker.
        pub worker: WorkerId,
        /// What failed, with the system's words.
        pub message: String,
    }

    /// A worker ended: its process was reaped and no process of it is left.
    pub struct Exited {
        /// The worker.
        pub worker: WorkerId,
        /// How its first process ended.
        pub status: ExitStatus,
        /// CPU time of the whole tree in microseconds.
        pub cpu_us: u64,
        /// Peak memory in bytes, where known.
        pub memory_peak: Option<u64>,
        /// Whether `memory_peak` is of the largest process only (`ru_maxrss`), not of the tree.
        pub peak_of_largest: bool,
        /// Processes the kernel killed because memory ran out.
        pub oom_kills: u64,
        /// Whether those can't be told apart from kills in the function's other workers (cgroup v1).
        pub oom_shared: bool,
        /// Forks the pids limit refused.
        pub pids_refused: u64,
        /// Microseconds the CPU quota held it back.
        pub throttled_us: u64,
        /// Whether processes were still there when the first one ended and were killed.
        pub stragglers: bool,
    }
}

wire_enum! {
    /// How a process ended, from `waitid(2)`.
    #[derive(Copy)]
    pub enum ExitStatus {
        /// It exited with this code.
        0 = Code(u8),
        /// A signal ended it.
        1 = Signal(u8),
    }
}

wire_enum! {
    /// How a process tree is held together and killed, best first.
    #[derive(Copy)]
    pub enum Containment {
        /// A cgroup of its own with `cgroup.kill`.
        0 = Cgroup,
        /// A pid namespace of its own.
        1 = PidNamespace,
        /// A subreaper that kills what it finds below itself: best effort.
        2 = Subreaper,
    }
}

wire_structs! {
    /// Configuration was read.
    pub struct SettingsRead {
        /// The judge's document: settings or diagnostics.
        pub document: Document,
        /// What the spawner found wrong with the files.
        pub problems: Vec<Problem>,
        /// Whether they are in force; otherwise the earlier ones stay.
        pub applied: bool,
    }
}

wire_enum! {
    /// What the spawner answers or reports.
    pub enum Reply {
        /// To Hello.
        1 = Welcome(Welcome),
        /// To Reload, and once after Welcome.
        2 = Settings(SettingsRead),
        /// To Install.
        3 = Installed(Installed),
        /// To Install.
        4 = Refused(Refused),
        /// To Spawn.
        5 = Spawned(Spawned),
        /// To Spawn.
        6 = SpawnFailed(SpawnFailed),
        /// A worker's end; sent again on a new connection until acknowledged.
        7 = Exited(Exited),
        /// Done.
        8 = Done,
        /// The request can't be carried out: why.
        9 = Failed(String),
    }
}

/// Returns the bytes of a frame.
pub fn encode<T: Wire>(request: u32, body: &T) -> Vec<u8> {
    let mut out = request.to_wire();
    body.put(&mut out);
    out
}

/// Returns request number and structure of a frame.
///
/// # Errors
/// Any [`WireError`]; the connection is then of no more use.
pub fn decode<T: Wire>(frame: &[u8]) -> Result<(u32, T), WireError> {
    <(u32, T)>::from_wire(frame)
}
