//! Workers: processes that the spawner runs for fnd.
//!
//! Files:
//! - `adoption`: workers of an earlier fnd go on
//! - `environment`: what a worker is given at its start
//! - `handler`: workers that stay
//! - `http`: workers that serve HTTP themselves
//! - `link`: the connection to fnd-spawner
//! - `listening`: the ports on which functions listen
//! - `masks`: the fingerprints of the secrets that each worker can print
//! - `requests`: requests to fnd-spawner whose answers something waits for
//! - `silence`: detects whether fnd-spawner answers
//! - `starting`: starts workers
//! - `usage`: the memory that workers use

pub(crate) mod adoption;
pub mod environment;
pub mod handler;
pub mod http;
pub mod link;
pub(crate) mod listening;
pub(crate) mod masks;
pub(crate) mod requests;
pub(crate) mod silence;
pub(crate) mod starting;
pub mod usage;

use crate::buffers::{Buffers, SMALL};
use crate::clock::Clock;
use crate::effects;
use crate::input::Inbox;
use crate::output::{AttemptKey, Captured};
use crate::workers::handler::WarmWorker;
use crate::workers::http::{ReadinessProbe, Upload};
use crate::workers::link::{ConnectionError, SpawnerConnection};
use crate::workers::masks::WorkerMasks;
use crate::workers::requests::PendingRequest;
use crate::workers::silence::Silence;
use fnd_core::run::Answered;
use fnd_wire::frame::{Lease, Release, Request, Welcome};
use fnd_wire::ids::{FunctionId, InvocationId, WorkerId};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

/// Takes the output of a call that has ended, once the output thread has read all of it; called on that thread.
pub(crate) type OutputRead = dyn Fn(AttemptKey, Box<Captured>) + Send + Sync;

/// The workers, and the link to the spawner that runs them.
pub(crate) struct Workers {
    pub(crate) connection: Option<SpawnerConnection>,
    pub(crate) welcome: Welcome,
    /// The process id of the spawner, where it is fnd's child.
    pub(crate) spawner_pid: Option<i32>,
    /// Functions that no longer existed when the spawner checked, and left files; in file form.
    pub(crate) left_behind: Vec<String>,
    /// The purpose of each outstanding request.
    pub(crate) pending: HashMap<u32, PendingRequest>,
    /// Ordered, because the next fnd gets the workers in this order.
    pub(crate) attached: BTreeMap<WorkerId, Attached>,
    /// The fingerprints of secrets, by worker.
    pub(crate) masks: WorkerMasks,
    /// Bodies on their way to programs that serve HTTP, and the channels for their answers; `None` once the caller has
    /// gone.
    pub(crate) uploads: BTreeMap<InvocationId, Option<Upload>>,
    /// The directory in which the spawner makes directories for sockets of programs that serve HTTP.
    pub(crate) sockets: PathBuf,
    /// Calls of an earlier fnd whose connections ended with it.
    pub(crate) lost: Vec<(WorkerId, u64)>,
    /// Failures whose messages are in output that is not read yet.
    pub(crate) unexplained: Vec<(AttemptKey, Box<Answered>)>,
    /// Whether a request was lost because the connection to the spawner had ended.
    pub(crate) is_cut: bool,
    /// Whether the spawner answers.
    pub(crate) silence: Silence,
    clock: Clock,
    /// Takes messages of workers and ends of calls.
    inbox: Inbox,
    output_read: Arc<OutputRead>,
    /// The budget in which large results of handlers need room.
    buffers: Arc<Buffers>,
}

impl Workers {
    /// Returns the part without a worker. `child` is the spawner, where it is fnd's child.
    pub(crate) fn new(
        connection: SpawnerConnection,
        (welcome, sockets): (Welcome, PathBuf),
        child: Option<&Child>,
        (clock, inbox, buffers): (Clock, Inbox, Arc<Buffers>),
        output_read: Arc<OutputRead>,
    ) -> Self {
        Self {
            connection: Some(connection),
            welcome,
            spawner_pid: child.and_then(|child| i32::try_from(child.id()).ok()),
            left_behind: Vec::new(),
            pending: HashMap::new(),
            attached: BTreeMap::new(),
            masks: WorkerMasks::default(),
            uploads: BTreeMap::new(),
            sockets,
            lost: Vec::new(),
            unexplained: Vec::new(),
            is_cut: false,
            silence: Silence::default(),
            clock,
            inbox,
            output_read,
            buffers,
        }
    }

    /// Returns the size of the result file of a script; 0 where it needs no room.
    pub(crate) fn result_size(&self, worker: WorkerId) -> u64 {
        let file = self.attached.get(&worker).and_then(|attached| attached.result.as_ref());
        let size = file
            .and_then(|file| rustix::fs::fstat(file).ok())
            .map_or(0, |stat| stat.st_size);
        u64::try_from(size).ok().filter(|size| *size > SMALL).unwrap_or(0)
    }

    /// Sends a request whose answer does not matter.
    pub(crate) fn request(&mut self, request: &Request) {
        self.send(request, Vec::new());
    }

    /// Sends a request; returns nothing where the connection is broken, which the main loop detects by itself.
    pub(crate) fn send(&mut self, request: &Request, descriptors: Vec<OwnedFd>) -> Option<u32> {
        match self.connection.as_mut()?.send(request, descriptors) {
            Ok(number) => {
                // An acknowledgement has no answer, so a spawner that sends none is not silent.
                if !matches!(request, Request::Acknowledge(_)) {
                    self.await_answer();
                }
                Some(number)
            }
            Err(error) => {
                tracing::error!("{error}");
                self.is_cut |= matches!(error, ConnectionError::Closed);
                None
            }
        }
    }

    /// Kills a worker's process tree: by its kill descriptor where there is one, without the help of the spawner.
    pub(crate) fn kill(&mut self, worker: WorkerId) {
        let kill = self.attached.get(&worker).and_then(|attached| attached.kill.as_ref());
        if kill.is_some() && !effects::leaves() {
            return;
        }
        // Without cgroups there is no such descriptor, and after the end of the worker its file is gone. The spawner
        // handles both.
        if kill.is_none_or(|kill| rustix::io::write(kill, b"1").is_err()) {
            self.request(&Request::Kill(worker));
        }
    }

    /// Has the spawner end a worker at this instant of [`Now::mono`](fnd_core::run::Now::mono), also if fnd is stopped then; absent:
    /// at none any more. It replaces the time with which the worker was started, so it must not be after the limits of the attempt
    /// itself. It can be called from the order to start the worker on; a worker that is gone has none, and so has every worker of a
    /// spawner of fnd 0.1 ([`Welcome::is_of_0_1`]).
    pub(crate) fn lease(&mut self, worker: WorkerId, deadline: Option<Duration>) {
        let starts =
            |purpose: &PendingRequest| matches!(purpose, PendingRequest::Spawn(starting) if starting.worker == worker);
        let is_there = self.attached.contains_key(&worker) || self.pending.values().any(starts);
        if is_there && !self.welcome.is_of_0_1() {
            // A worker may end earlier, and never later.
            let until_ms = deadline.map(|at| u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
            self.request(&Request::Lease(Lease { worker, until_ms }));
        }
    }

    /// Removes the temporary files of an invocation that is over, or of a handler's worker that has ended.
    pub(crate) fn release_tmp(&mut self, tmp: Option<(FunctionId, InvocationId)>) {
        if let Some((function, invocation)) = tmp {
            self.request(&Request::Release(Release { function, invocation }));
        }
    }
}

/// The descriptors and other parts that are attached to a running worker.
#[derive(Default)]
pub(crate) struct Attached {
    pub(crate) kill: Option<OwnedFd>,
    pub(crate) result: Option<OwnedFd>,
    /// Present where the worker serves a handler.
    pub(crate) member: Option<WarmWorker>,
    /// Checks whether the worker is ready.
    pub(crate) readiness_probe: Option<ReadinessProbe>,
    /// The temporary files to remove when a handler's worker has ended.
    pub(crate) tmp: Option<(FunctionId, InvocationId)>,
}

#[cfg(test)]
mod tests;
