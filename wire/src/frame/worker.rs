//! Reports of the spawner about workers: their start, their end, and that they outlived an fnd.

use super::*;

wire_structs! {
    /// A process was started. Descriptors in this order, each only if its flag is set; see also
    /// [`Reply::SpawnedWithChannel`].
    pub struct Spawned {
        /// The worker, by the number in [`Spawn::worker`].
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
        /// The worker, by the number in [`Spawn::worker`].
        pub worker: WorkerId,
        /// Which step failed, with the system's error message.
        pub message: String,
    }

    /// A worker of an earlier connection that still runs, or whose exit follows. Descriptors as in [`Spawned`].
    pub struct RetainedWorker {
        /// The answer to its start; `pid` is 0 if the worker has ended.
        pub spawned: Spawned,
        /// Milliseconds since the worker's start.
        pub age_ms: u64,
        /// If the worker got SIGTERM: milliseconds since then, and the cause.
        pub termed: Option<(u64, TermCause)>,
        /// The adoption record ([`Spawn::record`]).
        pub record: Bytes,
    }

    /// A worker ended: its first process was reaped, and no other process of the worker remains.
    pub struct Exited {
        /// The worker, by the number in [`Spawn::worker`].
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

    /// A worker's exit that no fnd has acknowledged. It is on disk (`spawner/exits`) from a stop of the spawner until
    /// fnd has acknowledged every exit in that file.
    pub struct StoredExit {
        /// The worker as it is reported to fnd.
        pub held: RetainedWorker,
        /// The worker's exit.
        pub exited: Exited,
        /// When the worker ended, Unix milliseconds.
        pub at_ms: u64,
        /// Unread data of standard output and standard error, and the result, in this order.
        pub rest: Vec<Bytes>,
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
