//! A process, from the order to start it until fnd has acknowledged its end.

use super::*;
use fnd_wire::frame::{RetainedWorker, Spawned};

/// The spawner's copies of a worker's descriptors, for the next fnd.
#[derive(Debug)]
pub(super) struct KeptEnds {
    /// The reading ends of its output, and its result.
    pub(super) output: [OwnedFd; 3],
    pub(super) channel: Option<OwnedFd>,
}

/// How far a process has come.
pub(super) enum ProcessStage {
    Starting(RequestId),
    Running(Box<WorkerModel>),
    /// It has ended, and fnd has not been told.
    Over(Exited),
    /// fnd was told, or no fnd is connected. It ran so long, and ended at this time by the wall clock.
    Ended {
        exited: Exited,
        lasted: Duration,
        at_ms: u64,
    },
}

pub(super) struct ProcessRecord {
    pub(super) function: FunctionName,
    pub(super) version: Version,
    pub(super) invocation: InvocationId,
    /// The number of the attempt; 0 for a handler's worker.
    pub(super) attempt: u32,
    pub(super) id: FunctionId,
    pub(super) record: Bytes,
    pub(super) began: Duration,
    pub(super) until: Option<Duration>,
    pub(super) termed: Option<(Duration, TermCause)>,
    pub(super) killed: bool,
    pub(super) kept: Option<KeptEnds>,
    pub(super) stage: ProcessStage,
}

impl ProcessRecord {
    /// Returns whether no process runs or is about to run.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, ProcessStage::Over(_) | ProcessStage::Ended { .. })
    }

    /// Returns whether it is about to run.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.stage, ProcessStage::Starting(_))
    }

    /// Returns the report that it runs or has run, with copies of its descriptors.
    pub(super) fn spawned(&self, worker: WorkerId) -> (Spawned, Vec<OwnedFd>) {
        let kept = self.kept.as_ref();
        let copies = kept
            .into_iter()
            .flat_map(|kept| kept.output.iter().chain(&kept.channel));
        let copies = copies.map(|end| end.try_clone().expect("the machine has room for descriptors"));
        let has_ends = kept.is_some();
        let pid = u32::try_from(worker.0).unwrap_or(u32::MAX);
        let spawned = Spawned {
            worker,
            pid: if self.is_over() { 0 } else { pid },
            stdout: has_ends,
            stderr: has_ends,
            result: has_ends,
            // Without it fnd asks the spawner to kill, and the request is seen here.
            kill: false,
        };
        (spawned, copies.collect())
    }

    /// Returns the report for a new fnd.
    pub(super) fn retained(&self, worker: WorkerId, now: Now) -> (Reply, Vec<OwnedFd>) {
        let since = |then: Duration| u64::try_from(now.mono.saturating_sub(then).as_millis()).unwrap_or(u64::MAX);
        let (spawned, descriptors) = self.spawned(worker);
        let retained = RetainedWorker {
            spawned,
            age_ms: since(self.began),
            termed: self.termed.map(|(at, cause)| (since(at), cause)),
            record: self.record.clone(),
        };
        let has_channel = self.kept.as_ref().is_some_and(|kept| kept.channel.is_some());
        let reply = if has_channel {
            Reply::HeldWithChannel
        } else {
            Reply::Held
        };
        (reply(retained), descriptors)
    }
}
