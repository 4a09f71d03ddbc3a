//! Frames between fnd and fnd-spawner, over a `SOCK_SEQPACKET` Unix socket.
//!
//! A frame is a `u32` request number, echoed by the answer (0 in a [`Reply`] nobody asked for), then the tagged structure
//! in [`wire`](crate::form) form. It travels in as many [`packets`] as it needs. Descriptors travel beside the last one
//! (`SCM_RIGHTS`), in the order the structure states. Requests are idempotent by worker, so that one whose answer was lost
//! can be sent again.

use crate::form::{Bytes, Wire, WireError, wire_enum, wire_structs};
use crate::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};

/// Largest packet in bytes: far below what a socket's buffer holds.
pub const PACKET_MAX: usize = 32 * 1024;
/// Largest frame in bytes, all its packets together.
pub const FRAME_MAX: usize = 16 << 20;
/// Oldest protocol this build speaks.
pub const PROTOCOL_MIN: u16 = 1;
/// Newest protocol this build speaks. Protocol 2 adds functions of mode `handler`, and says of their workers
/// [`Reply::SpawnedWithChannel`] and [`Reply::HeldWithChannel`]; protocol 3 adds [`Request::Sweep`], [`Reply::NodeCannotStart`],
/// [`Request::Ping`], [`Reply::Sockets`] and longer notes; all else is protocol 1.
pub const PROTOCOL_MAX: u16 = PROTOCOL_SHORTAGES;
/// The protocol from which on functions of mode `handler` can be started.
pub const PROTOCOL_HANDLERS: u16 = 2;
/// The protocol from which on [`Request::Sweep`] is known.
pub const PROTOCOL_SWEEP: u16 = 3;
/// The protocol from which on the spawner tells a start that failed for the node's reason from others.
pub const PROTOCOL_SHORTAGES: u16 = 3;
/// The protocol from which on the spawner makes the directories of sockets, and says where ([`Reply::Sockets`]).
pub const PROTOCOL_SOCKETS: u16 = 3;
/// Most names in [`Swept`].
pub const SWEPT_MAX: usize = 100;
/// Largest [`Spawn::note`], bytes: what a worker with 10,000 calls in flight (`pool.concurrency`) needs, and as much again for
/// what a manifest says.
pub const NOTE_MAX: usize = 8 << 20;
/// Largest note of an older protocol.
const NOTE_MAX_BEFORE: usize = 64 * 1024;
/// Most bytes of all notes together.
pub const NOTES_MAX: usize = 64 << 20;
/// Most descriptors beside one frame.
pub const DESCRIPTORS_MAX: usize = 10;

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

    /// Starts one attempt. Descriptors: standard input if `input`, the previous result if `previous`.
    pub struct Spawn {
        /// The worker's number, given by fnd, above every earlier one.
        pub worker: WorkerId,
        /// The function.
        pub function: FunctionId,
        /// The installed version to run.
        pub version: Version,
        /// The invocation; `TMPDIR` is its own until [`Request::Release`].
        pub invocation: InvocationId,
        /// Variables of this attempt (`FND_*`, `DATA`, `KEPTN_CONTEXT`, `CONTEXT`, `TRACEPARENT`, `TRACESTATE`, `B3`; any other name is refused).
        pub environment: Vec<(String, Bytes)>,
        /// Whether standard input is passed; `/dev/null` otherwise.
        pub input: bool,
        /// Whether the previous result is passed; its copy in `TMPDIR` is named by `FND_PREVIOUS`.
        pub previous: bool,
        /// Milliseconds it may run; 0: for ever. Where fnd does not end it then, the spawner does: SIGTERM, grace, SIGKILL.
        pub lasts_ms: u64,
        /// What the next fnd has to know of it, at most [`NOTE_MAX`] bytes: kept unread, and told in [`Held`].
        pub note: Bytes,
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
        /// Answered by [`Reply::Welcome`] and, from protocol 3 on, [`Reply::Sockets`], then one [`Reply::Held`] or [`Reply::HeldWithChannel`] for each worker of an earlier
        /// connection whose exit was not acknowledged, [`Reply::Exited`] for those of them that have ended, and [`Reply::Settings`]. It waits until no start is
        /// under way.
        1 = Hello(Hello),
        /// Reads configuration and runtimes again: [`Reply::Settings`].
        2 = Reload,
        /// Answered by [`Reply::Installed`] or [`Reply::Refused`].
        3 = Install(Install),
        /// Forgets a function and ends its launcher when nothing of it runs: [`Reply::Done`].
        4 = Remove(FunctionName),
        /// Answered by [`Reply::Spawned`], [`Reply::SpawnedWithChannel`], [`Reply::SpawnFailed`] or [`Reply::NodeCannotStart`],
        /// after the first two later by [`Reply::Exited`].
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
        /// Replaces what the next fnd has to know of a worker ([`Spawn::note`]); from protocol 2 on: [`Reply::Done`].
        11 = Note(Note),
        /// Removes the directories of invocations that nobody knows any more; from protocol 3 on: [`Reply::Swept`].
        12 = Sweep(Sweep),
        /// Asks whether the spawner answers; from protocol 3 on: [`Reply::Done`].
        13 = Ping,
    }
}

wire_structs! {
    /// What fnd knows of. The workers that the spawner holds are known as well.
    pub struct Sweep {
        /// Functions that are there.
        pub functions: Vec<FunctionName>,
        /// Invocations that have not ended.
        pub invocations: Vec<InvocationId>,
    }

    /// What else is left.
    pub struct Swept {
        /// How many functions that are no more left a home or a cache.
        pub count: u32,
        /// Their names in file form, at most [`SWEPT_MAX`].
        pub names: Vec<String>,
    }

    /// Which versions of a function to keep.
    pub struct Prune {
        /// The function.
        pub function: FunctionName,
        /// Versions that stay.
        pub keep: Vec<Version>,
    }

    /// What the next fnd has to know of a worker.
    pub struct Note {
        /// The worker.
        pub worker: WorkerId,
        /// At most [`NOTE_MAX`] bytes, kept unread.
        pub note: Bytes,
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
        /// Where the memory of each function is counted, for reading.
        pub memory: MemoryGroups,
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
        pub document: Bytes,
    }

    /// A function's files can't be used; what served before goes on.
    pub struct Refused {
        /// The function.
        pub function: FunctionName,
        /// What the spawner found.
        pub problems: Vec<Problem>,
        /// The judge's document, if it came that far.
        pub document: Option<Bytes>,
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

    /// A worker of an earlier connection: it runs, or its exit follows. Descriptors as of [`Spawned`].
    pub struct Held {
        /// What was said when it started, `pid` 0 where it has ended.
        pub spawned: Spawned,
        /// Milliseconds since its start.
        pub age_ms: u64,
        /// Its SIGTERM, if it got one: milliseconds since then, and why.
        pub termed: Option<(u64, TermCause)>,
        /// [`Spawn::note`].
        pub note: Bytes,
    }

    /// The end of a worker that no fnd has acknowledged, on disk (`spawner/exits`) from a stop of the spawner to its next start.
    pub struct Kept {
        /// As it is told.
        pub held: Held,
        /// Its end.
        pub exited: Exited,
        /// When that was, Unix milliseconds.
        pub at_ms: u64,
        /// What nobody has read of standard output and error, and the result.
        pub rest: Vec<Bytes>,
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
        /// Where it could not be told at once: microseconds since then, and from its start until then.
        pub late: Option<(u64, u64)>,
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
    /// Why a worker got SIGTERM.
    #[derive(Copy)]
    pub enum TermCause {
        /// [`Request::Term`].
        0 = Asked,
        /// Its time was up, and no fnd was there or it did nothing.
        1 = TimeUp,
        /// The spawner was stopped.
        2 = Stopped,
    }
}

wire_enum! {
    /// Where the memory of functions is counted: a directory with one group for each, named by its file form.
    pub enum MemoryGroups {
        /// Nowhere.
        0 = None,
        /// cgroup v2, groups `GROUP.NAME`.
        1 = V2(String),
        /// cgroup v1, memory hierarchy, groups `f.GROUP.NAME`.
        2 = V1(String),
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
        pub document: Bytes,
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
        /// To Reload, and last of what follows Welcome.
        2 = Settings(SettingsRead),
        /// To Install.
        3 = Installed(Installed),
        /// To Install.
        4 = Refused(Refused),
        /// To Spawn.
        5 = Spawned(Spawned),
        /// To Spawn. From protocol 3 on the function is the reason.
        6 = SpawnFailed(SpawnFailed),
        /// A worker's end; sent again on a new connection until acknowledged.
        7 = Exited(Exited),
        /// A worker of an earlier connection.
        10 = Held(Held),
        /// To Spawn, for a function of mode `handler`; last of its descriptors, behind those of [`Spawned`], is fnd's end of the
        /// worker protocol's socket. Absent like those where there was no room for copies.
        11 = SpawnedWithChannel(Spawned),
        /// A worker of an earlier connection that has such a socket: its other copy is last of the descriptors.
        12 = HeldWithChannel(Held),
        /// To Spawn, from protocol 3 on: the node is the reason, not the function. It has run out of descriptors, processes, memory or
        /// room, and the same may work later.
        13 = NodeCannotStart(SpawnFailed),
        /// Done.
        8 = Done,
        /// The request can't be carried out: why.
        9 = Failed(String),
        /// To Sweep.
        14 = Swept(Swept),
        /// After Welcome, from protocol 3 on: the directory of the sockets of programs that serve HTTP. A worker whose
        /// `FND_SOCKET_PATH` is `DIRECTORY/NUMBER/http.sock` gets `DIRECTORY/NUMBER` for itself; another path is refused.
        15 = Sockets(String),
    }
}

/// Returns how large a note may be.
#[must_use]
pub fn note_max(protocol: u16) -> usize {
    if protocol >= PROTOCOL_SHORTAGES {
        NOTE_MAX
    } else {
        NOTE_MAX_BEFORE
    }
}

/// Says whether an error means that the machine has run out of something which no function has for itself: memory, processes,
/// descriptors, room on a disk, a disk that works. `errno(3)`; the numbers are those of Linux.
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

/// Returns the packets of a frame, in order: a byte that is 1 where more follow, then a part of the frame.
#[must_use]
pub fn packets(frame: &[u8]) -> Vec<Vec<u8>> {
    let parts: Vec<&[u8]> = frame.chunks(PACKET_MAX - 1).collect();
    let packet = |(index, part): (usize, &&[u8])| [&[u8::from(index + 1 < parts.len())], *part].concat();
    parts.iter().enumerate().map(packet).collect()
}

/// A frame of which only some packets came.
#[derive(Debug, Default)]
pub struct Partial(Vec<u8>);

impl Partial {
    /// Adds a packet; returns the frame when it is whole.
    ///
    /// # Errors
    /// [`WireError::Short`] for an empty packet, [`WireError::Value`] where the frame is larger than [`FRAME_MAX`] or the
    /// packet is none of ours.
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

/// Returns request number and structure of a frame.
///
/// # Errors
/// Any [`WireError`]; the connection is then of no more use.
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

    /// A spawner of protocol 1 may meet an fnd of protocol 2, and the other way round.
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
