//! Frames between fnd and fnd-spawner, over a `SOCK_SEQPACKET` Unix socket.
//!
//! A frame is a `u32` request number, then the tagged structure in [`wire`](crate::form) form. The answer repeats the
//! request's number; a [`Reply`] that answers no request has 0. A frame travels in as many [`packets`] as it needs.
//! Descriptors travel with the last packet (`SCM_RIGHTS`), in the order that the structure states. Requests are
//! idempotent by worker, so a request whose answer was lost can be sent again.

use crate::archive::Format;
use crate::form::{Bytes, Wire, WireError, wire_enum, wire_structs};
use crate::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use crate::mask::Masks;
use crate::naming;
use crate::plan::JudgedFile;

/// Largest packet in bytes; far below the size of a socket's buffer.
pub const PACKET_MAX: usize = 32 * 1024;
/// Largest frame in bytes, the sum of its packets.
pub const FRAME_MAX: usize = 16 << 20;
/// Oldest protocol that this build supports.
pub const PROTOCOL_MIN: u16 = 1;
/// Newest protocol that this build supports. Protocol 2 adds functions of mode `handler`, and the replies
/// [`Reply::SpawnedWithChannel`] and [`Reply::HeldWithChannel`] for their workers. Protocol 3 adds [`Request::Sweep`],
/// [`Reply::NodeCannotStart`], [`Request::Ping`], [`Reply::Sockets`] and longer adoption records. Protocol 4 adds
/// [`Request::Secret`] and the variables of requests. Protocol 5 adds [`Request::Watch`]. In protocol 6 the judge answers
/// with the sandbox of a function. Protocol 7 adds secrets of functions, and [`Reply::Masks`]. In protocol 8 the judge
/// says where the key of encrypted secrets is. Protocol 9 adds [`Request::Measure`]. Protocol 10 adds installing from a
/// stored version ([`STORED`]) and [`Request::Files`]. Protocol 11 adds dependencies: [`Reply::NeedsBuild`],
/// [`Request::Seal`] and [`Request::Fetch`]. In protocol 12 several builds run at once ([`Request::SealIn`]), a build is repeated
/// ([`Request::Rebuild`]), and code is checked ([`Request::Check`]). Everything else is protocol 1.
pub const PROTOCOL_MAX: u16 = PROTOCOL_LANES;
/// First protocol in which functions of mode `handler` can be started.
pub const PROTOCOL_HANDLERS: u16 = 2;
/// First protocol that has [`Request::Sweep`].
pub const PROTOCOL_SWEEP: u16 = 3;
/// First protocol in which the spawner reports a start that failed because of the node with [`Reply::NodeCannotStart`].
pub const PROTOCOL_SHORTAGES: u16 = 3;
/// First protocol in which the spawner makes the directories of sockets and sends their path ([`Reply::Sockets`]).
pub const PROTOCOL_SOCKETS: u16 = 3;
/// First protocol in which fnd can serve requests from outside: the spawner opens secrets ([`Request::Secret`]), the
/// judge names them, and an attempt may have the variables of a request ([`Spawn::environment`]).
pub const PROTOCOL_REQUESTS: u16 = 4;
/// First protocol that has [`Request::Watch`].
pub const PROTOCOL_WATCHERS: u16 = 5;
/// First protocol in which the judge says the sandbox of a function.
pub const PROTOCOL_SANDBOX: u16 = 6;
/// First protocol in which functions have secrets, and the spawner reports their fingerprints ([`Reply::Masks`]).
pub const PROTOCOL_SECRETS: u16 = 7;
/// First protocol in which the judge says where the key of encrypted secrets is.
pub const PROTOCOL_AGE: u16 = 8;
/// First protocol that has [`Request::Measure`].
pub const PROTOCOL_QUOTAS: u16 = 9;
/// First protocol in which a stored version can be installed again ([`STORED`]), and that has [`Request::Files`].
pub const PROTOCOL_RELEASES: u16 = 10;
/// First protocol in which functions have dependencies that are built ([`Reply::NeedsBuild`]).
pub const PROTOCOL_BUILDS: u16 = 11;
/// First protocol that has [`Request::Check`].
pub const PROTOCOL_CHECKS: u16 = 12;
/// First protocol in which several builds run at once: each in a function of its own
/// ([`is_builder`](crate::plan::is_builder)), which gets a version of [`BUILD`](crate::plan::BUILD) by installing it as
/// [`STORED`].
pub const PROTOCOL_LANES: u16 = 12;
/// [`Install::directory`] of a stored version: `source` is its hash, and nothing else of the request is used.
pub const STORED: u16 = u16::MAX;
/// Largest secret in bytes.
pub const SECRET_MAX: u64 = 64 * 1024;
/// Largest file of `[http] tls` in bytes.
pub const TLS_FILE_MAX: u64 = 1 << 20;
/// Largest number of names in [`Swept`].
pub const SWEPT_MAX: usize = 100;
/// Largest adoption record ([`Spawn::record`]) in bytes: enough for a worker with 10,000 calls in flight
/// (`pool.concurrency`), and the same again for the part that comes from a manifest.
pub const RECORD_MAX: usize = 8 << 20;
/// Largest adoption record in older protocols.
const RECORD_MAX_BEFORE_3: usize = 64 * 1024;
/// Largest sum of the bytes of all adoption records.
pub const RECORDS_MAX: usize = 64 << 20;
/// [`SecretAsked::name`] of the certificates in `[http] tls`.
pub const CERTIFICATE: &str = "certificate";
/// [`SecretAsked::name`] of the private key in `[http] tls`.
pub const KEY: &str = "key";
/// The beginning of [`SecretAsked::name`] of a secret that the configuration names. No secret has a `:` in its name.
pub const NAMED: &str = "secret:";
/// Largest number of descriptors with one frame.
pub const DESCRIPTORS_MAX: usize = 10;

wire_structs! {
    /// First request on a connection.
    pub struct Hello {
        /// Oldest protocol that fnd supports.
        pub min: u16,
        /// Newest protocol that fnd supports.
        pub max: u16,
    }

    /// Reads a function's files, has the judge check them and copies them. Nothing of the function runs yet.
    pub struct Install {
        /// Index into the spawner's functions directories.
        pub directory: u16,
        /// The function.
        pub function: FunctionName,
        /// The code file, the directory in directory form, or the manifest of a function without code beside it; relative to
        /// the functions directory.
        pub source: String,
        /// The sidecar manifest, if there is one; relative to the functions directory.
        pub sidecar: Option<String>,
        /// Whether `source` is a directory with `function.toml`.
        pub directory_form: bool,
    }

    /// Starts one attempt. Descriptors: standard input if `input` is set, the previous result if `previous` is set.
    pub struct Spawn {
        /// The worker's number. fnd chooses it, above every earlier one.
        pub worker: WorkerId,
        /// The function.
        pub function: FunctionId,
        /// The installed version to run.
        pub version: Version,
        /// The invocation. It keeps its own `TMPDIR` until [`Request::Release`].
        pub invocation: InvocationId,
        /// Variables of this attempt: `FND_*` (but not `FND_RESULT` or `FND_PREVIOUS`), `DATA`, `KEPTN_CONTEXT`,
        /// `CONTEXT`, `TRACEPARENT`, `TRACESTATE`, `B3`, `RUNTIME`, `PORT`; from protocol 4 on also those of a request:
        /// the names of CGI/1.1 and `HTTP_*`, but not `HTTP_PROXY`. The spawner refuses a start with any other name.
        pub environment: Vec<(String, Bytes)>,
        /// Whether standard input is passed; otherwise it is `/dev/null`.
        pub input: bool,
        /// Whether the previous result is passed. The spawner copies it, and `FND_PREVIOUS` names the copy.
        pub previous: bool,
        /// Milliseconds the attempt may run; 0: without limit. If fnd does not end the attempt in time, the spawner
        /// does: SIGTERM, grace, SIGKILL.
        pub lasts_ms: u64,
        /// The adoption record, at most [`RECORD_MAX`] bytes: the spawner keeps it unread and passes it to the
        /// next fnd in [`Held`].
        pub record: Bytes,
    }

    /// Asks to remove an invocation's `TMPDIR`.
    pub struct Release {
        /// The function.
        pub function: FunctionId,
        /// The invocation whose `TMPDIR` is removed.
        pub invocation: InvocationId,
    }
}

impl Install {
    /// Returns whether a function has files of a directory although its source is one file: an archive, or a manifest whose
    /// code comes from elsewhere.
    #[must_use]
    pub fn is_one_of_many(&self) -> bool {
        let source = &self.source;
        let is_many = || Format::of(source).is_some() || naming::is_manifest(source) || naming::is_foreign(source);
        !self.directory_form && is_many()
    }

    /// Returns whether the files of a function are in a directory, or would be: all but the manifest come from elsewhere.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.directory_form || naming::is_manifest(&self.source)
    }

    /// Returns the name that the function's one file has among its files.
    #[must_use]
    pub fn file_name(&self) -> &str {
        if naming::is_manifest(&self.source) {
            return "function.toml";
        }
        self.source.rsplit('/').next().unwrap_or(&self.source)
    }
}

wire_enum! {
    /// A request from fnd to the spawner.
    pub enum Request {
        /// Begins the connection. Answered by [`Reply::Welcome`]; from protocol 3 on [`Reply::Sockets`] follows. Then
        /// come one [`Reply::Held`] or [`Reply::HeldWithChannel`] for each worker of an earlier connection whose exit
        /// was not acknowledged, [`Reply::Exited`] for those of them that have ended, and [`Reply::Settings`]. The
        /// answer waits until no start is under way; a start that takes too long fails.
        1 = Hello(Hello),
        /// Reads configuration and runtimes again. Answered by [`Reply::Settings`].
        2 = Reload,
        /// Installs a function. Answered by [`Reply::Installed`] or [`Reply::Refused`].
        3 = Install(Install),
        /// Retires a function's launchers: each ends once nothing that it started runs. Answered by [`Reply::Done`].
        4 = Remove(FunctionName),
        /// Starts an attempt. Answered by [`Reply::Spawned`], [`Reply::SpawnedWithChannel`], [`Reply::SpawnFailed`] or
        /// [`Reply::NodeCannotStart`]. After the first two, [`Reply::Exited`] follows when the worker has ended.
        5 = Spawn(Spawn),
        /// Sends SIGTERM to every process of the worker. Answered by [`Reply::Done`], also if the worker has ended.
        6 = Term(WorkerId),
        /// Sends SIGKILL to every process of the worker. Answered by [`Reply::Done`], also if the worker has ended.
        7 = Kill(WorkerId),
        /// Removes an invocation's `TMPDIR`. Answered by [`Reply::Done`].
        8 = Release(Release),
        /// Confirms that fnd received this worker's exit, so that the spawner may forget it. There is no answer.
        9 = Acknowledge(WorkerId),
        /// Deletes installed versions of a function except those listed. Answered by [`Reply::Done`].
        10 = Prune(Prune),
        /// Replaces a worker's adoption record ([`Spawn::record`]); from protocol 2 on. Answered by [`Reply::Done`].
        11 = AdoptionRecord(AdoptionRecord),
        /// Removes the directories of unknown invocations; from protocol 3 on. Answered by [`Reply::Swept`].
        12 = Sweep(Sweep),
        /// Asks whether the spawner answers; from protocol 3 on. Answered by [`Reply::Done`].
        13 = Ping,
        /// Asks for a secret; from protocol 4 on. Answered by [`Reply::Secret`] or [`Reply::SecretRefused`]; by
        /// [`Reply::Failed`] if the node has run out of something.
        14 = Secret(SecretAsked),
        /// Starts the watcher of a version's files, `fnd --watch`, in the function's cgroup and as its user; from protocol 5
        /// on. The rules are in the installed plan ([`WATCHED`](crate::plan::WATCHED)), so fnd names no path. Descriptor:
        /// a pipe as standard input. `environment` and `previous` are not used. Answered like [`Request::Spawn`], without
        /// a channel.
        15 = Watch(Spawn),
        /// Starts `fnd --measure HOME CACHE` with the function's own directories, in its cgroup and as its user; from
        /// protocol 9 on. `input`, `environment` and `previous` are not used. Answered like [`Request::Watch`].
        16 = Measure(Spawn),
        /// Reads the files of a stored version ([`STORED`]); from protocol 10 on. Answered by [`Reply::Files`] or
        /// [`Reply::Refused`].
        20 = Files(Install),
        /// Makes this tree of what a build has left in the home of [`BUILD`](crate::plan::BUILD), unless there is a tree of
        /// that name; then, as without a tree, empties that home. From protocol 11 on. Answered by [`Reply::Sealed`].
        21 = Seal(Option<Version>),
        /// Deletes the trees that no installed version has and that no version has got for so many seconds; from protocol
        /// 11 on. Answered by [`Reply::Done`].
        22 = PruneTrees(u64),
        /// Installs a function as [`Request::Install`] does, and has its code fetched again if it has a source; from protocol 11
        /// on. Answered like [`Request::Install`].
        23 = Fetch(Install),
        /// Prepares the check of a function's code; from protocol 12 on. Answered by [`Reply::NeedsBuild`] with a version of
        /// [`CHECK`](crate::plan::CHECK); if there is nothing to check, like [`Request::Install`].
        24 = Check(Install),
        /// As [`Request::Seal`], for one of the functions that build. From protocol 12 on. Answered by [`Reply::Sealed`].
        25 = SealIn(SealIn),
        /// Installs a function as [`Request::Install`] does, but has its dependencies built anew into another tree. From
        /// protocol 12 on. Answered like [`Request::Install`].
        26 = Rebuild(Install),
    }
}

wire_structs! {
    /// Names a secret that fnd needs to check requests or to serve TLS.
    pub struct SecretAsked {
        /// The function whose routes name the secret; absent for the files of `[http] tls`.
        pub function: Option<FunctionName>,
        /// Name of the secret; without a function [`CERTIFICATE`] or [`KEY`].
        pub name: String,
    }

    /// The functions and invocations that fnd knows. The invocations of workers that the spawner holds count as known,
    /// too.
    pub struct Sweep {
        /// All functions that exist.
        pub functions: Vec<FunctionName>,
        /// Invocations that have not ended.
        pub invocations: Vec<InvocationId>,
    }

    /// Functions that no longer exist and whose directories are still there.
    pub struct Swept {
        /// How many functions that no longer exist still have a home or a cache.
        pub count: u32,
        /// Their names in file form, at most [`SWEPT_MAX`].
        pub names: Vec<String>,
    }

    /// The source of a stored version, as it was when the version was installed from it. The spawner keeps it beside the
    /// version, so that the version can be installed again when the source has changed.
    pub struct Origin {
        /// The request.
        pub install: Install,
        /// Whether root owned all files.
        pub trusted: bool,
        /// Owner of the code.
        pub owner: u32,
        /// Path of the code, for people.
        pub shown: String,
        /// [`Installed::load_key`].
        pub load_key: Version,
        /// Hash of the stored files. It shows whether they are complete after a power cut.
        pub stored: Version,
        /// The manifest, if it is not one of the files.
        pub manifest: Option<JudgedFile>,
    }

    /// A file of a stored version.
    pub struct StoredFile {
        /// Path in the function; the path of a manifest that lies beside it is absolute.
        pub path: String,
        /// Whether it is executable.
        pub executable: bool,
        /// Length in bytes.
        pub length: u64,
        /// SHA-256 of its content.
        pub digest: [u8; 32],
        /// Its content, at most the first [`CODE_MAX`](crate::plan::CODE_MAX) bytes; empty if there was no room for it.
        pub front: Bytes,
    }

    /// The installed versions of a function to keep.
    pub struct Prune {
        /// The function.
        pub function: FunctionName,
        /// Versions to keep.
        pub keep: Vec<Version>,
    }

    /// What a build has left in its home is to be made a tree.
    pub struct SealIn {
        /// The function that builds.
        pub function: FunctionName,
        /// The tree; absent: nothing is to be made, and the home is only emptied.
        pub tree: Option<Version>,
    }

    /// A function can be installed when its dependencies are built.
    pub struct NeedsBuild {
        /// The function.
        pub function: FunctionName,
        /// The judge's document about it.
        pub document: Bytes,
        /// The version of [`BUILD`](crate::plan::BUILD) that builds them. Its hash is the name of the tree.
        pub build: Installed,
    }

    /// A version was installed that has dependencies.
    pub struct InstalledWithTree {
        /// The version.
        pub installed: Installed,
        /// The name of the tree.
        pub tree: Version,
    }

    /// A worker's new adoption record.
    pub struct AdoptionRecord {
        /// The worker.
        pub worker: WorkerId,
        /// At most [`RECORD_MAX`] bytes; the spawner does not interpret them.
        pub record: Bytes,
    }

    /// Describes the spawner and what it can enforce on this machine.
    pub struct Welcome {
        /// Protocol of this connection from now on.
        pub protocol: u16,
        /// The spawner's version, `0.1.0`.
        pub version: String,
        /// How process trees are contained and killed.
        pub containment: Containment,
        /// cgroup layout for `status`: `v2`, `hybrid`, `none`.
        pub layout: String,
        /// Names of the limits that can't be enforced here (`memory`, `cpu`, `io_read` ...), each with the reason, for
        /// people.
        pub missing: Vec<(String, String)>,
        /// The first unused worker number; all numbers below are used.
        pub next_worker: WorkerId,
        /// Functions directories, absolute, in the order of their index.
        pub functions_dirs: Vec<String>,
        /// Where fnd can read the memory use of each function.
        pub memory: MemoryGroups,
    }

    /// A problem with a function's files that the spawner found.
    pub struct Problem {
        /// The file.
        pub file: String,
        /// The problem, for people.
        pub message: String,
        /// How to solve it, for people.
        pub help: String,
    }

    /// A version was installed, or was installed already.
    pub struct Installed {
        /// The function.
        pub function: FunctionName,
        /// Its number.
        pub id: FunctionId,
        /// The version.
        pub version: Version,
        /// Hash of code and own manifest only; "runs once per content" uses it as its key.
        pub load_key: Version,
        /// Path of the interpreter, as it is executed (a spawner before protocol 11 sends the real path); empty if the entry is
        /// executed itself.
        pub interpreter: String,
        /// Uid the function runs as.
        pub uid: u32,
        /// Warnings from the spawner.
        pub warnings: Vec<Problem>,
        /// The judge's document: manifest and warnings.
        pub document: Bytes,
    }

    /// A function's files can't be used. The version that was in service stays in service.
    pub struct Refused {
        /// The function.
        pub function: FunctionName,
        /// Problems that the spawner found.
        pub problems: Vec<Problem>,
        /// The judge's document; absent if the judge was not reached.
        pub document: Option<Bytes>,
    }

    /// A process was started. Descriptors in this order, each only if its flag is set; see also
    /// [`Reply::SpawnedWithChannel`].
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

    /// A worker of an earlier connection that still runs, or whose exit follows. Descriptors as in [`Spawned`].
    pub struct Held {
        /// The answer to its start; `pid` is 0 if the worker has ended.
        pub spawned: Spawned,
        /// Milliseconds since the worker's start.
        pub age_ms: u64,
        /// If the worker got SIGTERM: milliseconds since then, and the cause.
        pub termed: Option<(u64, TermCause)>,
        /// The adoption record ([`Spawn::record`]).
        pub record: Bytes,
    }

    /// A worker's exit that no fnd has acknowledged. It is on disk (`spawner/exits`) from a stop of the spawner until
    /// fnd has acknowledged every exit in that file.
    pub struct Kept {
        /// The worker as it is reported to fnd.
        pub held: Held,
        /// The worker's exit.
        pub exited: Exited,
        /// When the worker ended, Unix milliseconds.
        pub at_ms: u64,
        /// Unread data of standard output and standard error, and the result, in this order.
        pub rest: Vec<Bytes>,
    }

    /// No process was started.
    pub struct SpawnFailed {
        /// The worker.
        pub worker: WorkerId,
        /// Which step failed, with the system's error message.
        pub message: String,
    }

    /// A worker ended: its first process was reaped, and no other process of the worker remains.
    pub struct Exited {
        /// The worker.
        pub worker: WorkerId,
        /// If the spawner ended the worker for its time, or could not report the exit at once: microseconds since the
        /// end, and microseconds from the start to the end.
        pub late: Option<(u64, u64)>,
        /// How its first process ended.
        pub status: ExitStatus,
        /// CPU time of the whole tree in microseconds.
        pub cpu_us: u64,
        /// Peak memory in bytes; absent if unknown.
        pub memory_peak: Option<u64>,
        /// Whether `memory_peak` is that of the largest process (`ru_maxrss`), not of the process tree.
        pub peak_of_largest: bool,
        /// Number of processes the kernel killed because memory ran out.
        pub oom_kills: u64,
        /// Whether `oom_kills` may include kills in the function's other workers (cgroup v1).
        pub oom_shared: bool,
        /// Number of forks that the pids limit refused.
        pub pids_refused: u64,
        /// Microseconds the worker was throttled by the CPU quota.
        pub throttled_us: u64,
        /// Whether other processes still ran when the first one ended; these were killed.
        pub stragglers: bool,
    }
}

wire_enum! {
    /// How a process ended, from `waitid(2)`.
    #[derive(Copy)]
    pub enum ExitStatus {
        /// The process exited with this code.
        0 = Code(u8),
        /// This signal ended the process.
        1 = Signal(u8),
    }
}

wire_enum! {
    /// Why a worker got SIGTERM.
    #[derive(Copy)]
    pub enum TermCause {
        /// [`Request::Term`].
        0 = Asked,
        /// The attempt's time was up, and no fnd was connected, or the connected one did nothing.
        1 = TimeUp,
        /// The spawner was stopped.
        2 = Stopped,
    }
}

wire_enum! {
    /// Where the memory of functions is counted: a directory with one group for each function, named by its file form.
    pub enum MemoryGroups {
        /// Memory is not counted.
        0 = None,
        /// cgroup v2, groups `GROUP.NAME`.
        1 = V2(String),
        /// cgroup v1, memory hierarchy, groups `f.GROUP.NAME`.
        2 = V1(String),
    }
}

wire_enum! {
    /// How a process tree is contained and killed, best first.
    #[derive(Copy)]
    pub enum Containment {
        /// Each attempt has a cgroup with `cgroup.kill`.
        0 = Cgroup,
        /// Each attempt has a pid namespace.
        1 = PidNamespace,
        /// A subreaper kills the processes that it finds below itself: best effort.
        2 = Subreaper,
    }
}

wire_structs! {
    /// The result of reading the configuration.
    pub struct SettingsRead {
        /// The judge's document: settings or diagnostics.
        pub document: Bytes,
        /// Problems that the spawner found in the files.
        pub problems: Vec<Problem>,
        /// Whether the new settings are in force; otherwise the earlier ones stay.
        pub applied: bool,
    }
}

wire_enum! {
    /// An answer or a report from the spawner.
    pub enum Reply {
        /// Answers [`Request::Hello`].
        1 = Welcome(Welcome),
        /// Answers [`Request::Reload`], and ends the replies to [`Request::Hello`].
        2 = Settings(SettingsRead),
        /// Answers [`Request::Install`]: the version is installed.
        3 = Installed(Installed),
        /// Answers [`Request::Install`]: the function's files can't be used.
        4 = Refused(Refused),
        /// Answers [`Request::Spawn`]: a process was started.
        5 = Spawned(Spawned),
        /// Answers [`Request::Spawn`]: no process was started. From protocol 3 on the function is the reason.
        6 = SpawnFailed(SpawnFailed),
        /// Reports a worker's end. It is sent again on each new connection until fnd has acknowledged it.
        7 = Exited(Exited),
        /// Reports a worker of an earlier connection.
        10 = Held(Held),
        /// Answers [`Request::Spawn`] for a function of mode `handler`. After the descriptors of [`Spawned`] comes
        /// fnd's end of the worker protocol's socket. If there was no room for copies, it is absent like the others.
        11 = SpawnedWithChannel(Spawned),
        /// Reports a worker of an earlier connection that has such a socket; a copy of fnd's end is the last
        /// descriptor.
        12 = HeldWithChannel(Held),
        /// Answers [`Request::Spawn`] from protocol 3 on: the node is the reason, not the function. The node has run
        /// out of descriptors, processes, memory or disk space; the same start may succeed later.
        13 = NodeCannotStart(SpawnFailed),
        /// The request was carried out.
        8 = Done,
        /// The request can't be carried out, for this reason.
        9 = Failed(String),
        /// Answers [`Request::Sweep`].
        14 = Swept(Swept),
        /// Follows [`Reply::Welcome`] from protocol 3 on: the directory of the sockets of programs that serve HTTP. A
        /// worker whose `FND_SOCKET_PATH` is `DIRECTORY/NUMBER/http.sock` gets `DIRECTORY/NUMBER` for itself; any other
        /// path is refused.
        15 = Sockets(String),
        /// Answers [`Request::Secret`]. The one descriptor is a memory file with the content, sealed against every
        /// change.
        16 = Secret,
        /// Answers [`Request::Secret`]: there is no such secret, its file can't be used, or no function that root
        /// trusts names it.
        17 = SecretRefused(Problem),
        /// Precedes [`Reply::Spawned`] or [`Reply::Held`] of a worker whose function has secrets, from protocol 7 on.
        18 = Masks(Masked),
        /// Answers [`Request::Files`]: the files, sorted by path; a manifest that lies beside the code is the last one.
        25 = Files(Vec<StoredFile>),
        /// Answers [`Request::Install`] from protocol 11 on: nothing was installed yet.
        26 = NeedsBuild(NeedsBuild),
        /// Answers [`Request::Install`] from protocol 11 on, if the version has dependencies.
        27 = InstalledWithTree(InstalledWithTree),
        /// Answers [`Request::Seal`]: absent if it was done, otherwise the reason.
        28 = Sealed(Option<String>),
    }
}

wire_structs! {
    /// The secrets that a worker can print.
    pub struct Masked {
        /// The worker.
        pub worker: WorkerId,
        /// Fingerprints of their values.
        pub masks: Masks,
    }
}

/// Returns the largest size of an adoption record in bytes.
#[must_use]
pub fn adoption_record_max(protocol: u16) -> usize {
    if protocol >= PROTOCOL_SHORTAGES {
        RECORD_MAX
    } else {
        RECORD_MAX_BEFORE_3
    }
}

/// Returns whether an error means that the machine has run out of a shared resource: memory, processes, descriptors,
/// disk space or a working disk. The numbers are those of Linux (`errno(3)`).
#[must_use]
pub fn is_shortage(error: &std::io::Error) -> bool {
    const EIO: i32 = 5;
    const EAGAIN: i32 = 11;
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOSPC: i32 = 28;
    const EROFS: i32 = 30;
    const ENOBUFS: i32 = 105;
    const ETOOMANYREFS: i32 = 109;
    let shortages = [
        EIO,
        EAGAIN,
        ENOMEM,
        ENFILE,
        EMFILE,
        ENOSPC,
        EROFS,
        ENOBUFS,
        ETOOMANYREFS,
    ];
    error.raw_os_error().is_some_and(|number| shortages.contains(&number))
}

/// Returns the packets of a frame, in order: each is a byte that is 1 if more packets follow, then a part of the frame.
#[must_use]
pub fn packets(frame: &[u8]) -> Vec<Vec<u8>> {
    let parts: Vec<&[u8]> = frame.chunks(PACKET_MAX - 1).collect();
    let packet = |(index, part): (usize, &&[u8])| [&[u8::from(index + 1 < parts.len())], *part].concat();
    parts.iter().enumerate().map(packet).collect()
}

/// A frame of which only some packets have come so far.
#[derive(Debug, Default)]
pub struct Partial(Vec<u8>);

impl Partial {
    /// Adds a packet and returns the frame once it is complete.
    ///
    /// # Errors
    /// [`WireError::Short`] if the packet is empty, [`WireError::Value`] if the frame is larger than [`FRAME_MAX`] or
    /// the packet begins with a byte other than 0 or 1.
    pub fn add(&mut self, packet: &[u8]) -> Result<Option<Vec<u8>>, WireError> {
        let (more, part) = packet.split_first().ok_or(WireError::Short)?;
        if *more > 1 || self.0.len() + part.len() > FRAME_MAX {
            return Err(WireError::Value);
        }
        self.0.extend_from_slice(part);
        Ok((*more == 0).then(|| std::mem::take(&mut self.0)))
    }
}

/// Returns the bytes of a frame.
pub fn encode<T: Wire>(request: u32, body: &T) -> Vec<u8> {
    let mut out = request.to_wire();
    body.put(&mut out);
    out
}

/// Returns the request number and the structure of a frame.
///
/// # Errors
/// Any [`WireError`]; the connection can't be used any more then.
pub fn decode<T: Wire>(frame: &[u8]) -> Result<(u32, T), WireError> {
    <(u32, T)>::from_wire(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_has_run_out_of_is_no_functions_fault() {
        let of = |number| is_shortage(&std::io::Error::from_raw_os_error(number));
        // EMFILE, ENFILE, ENOSPC, EAGAIN, ENOMEM.
        assert!([24, 23, 28, 11, 12].into_iter().all(of));
        // ENOENT, EACCES, ENOEXEC, E2BIG, EDQUOT.
        assert!(![2, 13, 8, 7, 122].into_iter().any(of));
        assert!(!is_shortage(&std::io::Error::other("said by nobody")));
    }

    #[test]
    fn a_frame_of_many_packets_comes_together_again() {
        for length in [1, PACKET_MAX - 1, PACKET_MAX, 3 * PACKET_MAX] {
            let frame = vec![7; length];
            let mut partial = Partial::default();
            let parts = packets(&frame);
            assert!(parts.iter().all(|packet| packet.len() <= PACKET_MAX));
            let (last, others) = parts.split_last().unwrap();
            assert!(others.iter().all(|packet| partial.add(packet) == Ok(None)));
            assert_eq!(partial.add(last), Ok(Some(frame)));
        }
    }

    /// A spawner of protocol 1 may be connected to an fnd of protocol 2, and the other way round.
    #[test]
    fn what_protocol_1_says_of_a_start_is_unchanged() {
        let spawned = Spawned {
            worker: WorkerId(3),
            pid: 7,
            stdout: true,
            stderr: true,
            result: true,
            kill: false,
        };
        let flat = [&[5][..], &3_u64.to_le_bytes(), &7_u32.to_le_bytes(), &[1, 1, 1, 0]].concat();
        assert_eq!(Reply::Spawned(spawned.clone()).to_wire(), flat);
        let with = Reply::SpawnedWithChannel(spawned).to_wire();
        assert_eq!((with.first(), with.get(1..)), (Some(&11), flat.get(1..)));
    }

    #[test]
    fn what_is_no_packet_or_too_much_is_refused() {
        assert_eq!(Partial::default().add(&[]), Err(WireError::Short));
        assert_eq!(Partial::default().add(&[2, 0]), Err(WireError::Value));
        let mut partial = Partial(vec![0; FRAME_MAX]);
        assert_eq!(partial.add(&[0, 1]), Err(WireError::Value));
    }
}
