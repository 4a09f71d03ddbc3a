//! The model of fnd-spawner. It reads and writes real frames over a real socket, judges with the real judge, and has the files of
//! the real spawner as tables in memory. It goes on while fnd ends and starts again.
//!
//! The model does nothing by itself. [`SpawnerModel::steps`] lists the steps that it and its processes could do now, and the seed
//! chooses one. So every order of answers comes that the real spawner can give: answers to installations of different functions
//! overtake each other, a start is answered before its end is reported, and the requests of a killed fnd are carried out before
//! the next fnd is answered.
//!
//! A process is a row in a table of the spawner; its [`WorkerModel`] decides about its behaviour.
//!
//! Not simulated: programs of fnd itself that watch or measure, cgroups, namespaces and users, secrets, the HTTP sockets of
//! workers, sources of code that are fetched.
//!
//! Files:
//! - `answers`: carries out requests, and answers them
//! - `builds`: the homes of builds, and the trees that are made of them
//! - `contents`: the contents that files can have
//! - `ends`: the ends of processes: time limits, signals, reports
//! - `faults`: the spawner is killed, stopped, replaced by another version, silent, or short of something
//! - `fnd_link`: the connection with fnd
//! - `handshake`: the frames that a new fnd gets first
//! - `installs`: answers installations
//! - `process`: a process, from the order to start it until its end is acknowledged
//! - `starts`: starts of processes
//! - `steps`: lists the possible steps of the spawner and its processes, and does one
//! - `verdicts`: the judge's verdicts on contents and on the configuration

mod answers;
mod builds;
pub(crate) mod contents;
pub(super) mod ends;
mod faults;
mod fnd_link;
mod handshake;
mod installs;
mod process;
mod starts;
mod steps;
#[cfg(test)]
mod tests;
pub(super) mod verdicts;

use self::builds::BuildHomesModel;
use self::fnd_link::FndLink;
use self::process::{KeptEnds, ProcessRecord, ProcessStage};
pub(crate) use self::steps::SpawnerStep;
use crate::simulate::facts::{Fact, FactLog};
use crate::simulate::files::Files;
use crate::simulate::workers::{Temper, WorkerModel, WorkerTurn};
use fastrand::Rng;
use fnd_core::run::Now;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Exited, Install, PROTOCOL_MAX, Reply, Request, TermCause};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The things besides the spawner that a step may look at and change.
pub(crate) struct SpawnerTurn<'a> {
    pub(crate) now: Now,
    /// The functions directories, as they are now.
    pub(crate) files: &'a Files,
    pub(crate) facts: &'a mut FactLog,
    /// The faults that workers may have.
    pub(crate) temper: Temper,
    /// The random numbers of the workers. The spawner itself draws none.
    pub(crate) random: &'a mut Rng,
}

impl SpawnerTurn<'_> {
    /// Returns the part of it that a worker may use.
    fn of_worker(&mut self) -> WorkerTurn<'_> {
        WorkerTurn {
            now: self.now.mono,
            temper: self.temper,
            random: self.random,
            facts: self.facts,
        }
    }

    /// Reports that fnd has broken a rule of the protocol.
    fn defect(&mut self, text: String) {
        self.facts.push(Fact::Violation(text));
    }
}

/// The number of a request, and the connection on which it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestId {
    connection: u32,
    number: u32,
}

/// The request that an installation answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InstallPurpose {
    Install,
    Check,
    Rebuild,
    Files,
}

/// Work of the judge. Work for one function is done in order, and no work overtakes a reload.
#[derive(Debug)]
enum JudgeWork {
    Reload(RequestId),
    Install(RequestId, Install, InstallPurpose),
}

/// Work of the helpers, which end in any order.
#[derive(Debug)]
enum HelperWork {
    Release(FunctionId, InvocationId),
    Prune(Vec<(FunctionName, Version)>),
    Seal(FunctionName, Version),
    Clear(FunctionName),
    PruneTrees,
}

/// The files of the real spawner, as tables. They outlive it.
#[derive(Debug, Default)]
pub(crate) struct SpawnerDisk {
    /// All functions that were ever installed; the index of a name is the number of the function.
    names: Vec<FunctionName>,
    /// The versions of all functions that are installed.
    pub(crate) stored: BTreeSet<(FunctionName, Version)>,
    pub(crate) trees: BTreeSet<Version>,
    /// The newest generation of each content's tree, where there is more than one.
    generations: BTreeMap<u8, u8>,
    /// The homes of builds in which files lie.
    build_homes: BTreeSet<FunctionName>,
    /// The temporary directories of invocations.
    pub(crate) tmp: BTreeSet<(FunctionId, InvocationId)>,
}

pub(crate) struct SpawnerModel {
    link: FndLink,
    /// The name of the node in `[events.nats]`; absent: it has no server.
    pub(crate) nats_node: Option<String>,
    /// The newest protocol of the spawner that runs, and of the one that starts next.
    protocol: u16,
    next_protocol: u16,
    /// The number of the connection.
    connection: u32,
    is_welcomed: bool,
    pub(crate) disk: SpawnerDisk,
    processes: BTreeMap<WorkerId, ProcessRecord>,
    /// The first number of a worker that was not used yet.
    next_worker: WorkerId,
    judge_queue: VecDeque<JudgeWork>,
    helpers: Vec<(RequestId, HelperWork)>,
    homes: BuildHomesModel,
    /// Until when the spawner does nothing at all.
    silent_until: Option<Duration>,
    /// So many of the next starts fail, because the node is short of something.
    cannot_start: u32,
}

impl SpawnerModel {
    /// Returns a spawner on an empty disk, to which no fnd is connected.
    pub(crate) fn new() -> Self {
        Self {
            link: FndLink::default(),
            nats_node: None,
            protocol: PROTOCOL_MAX,
            next_protocol: PROTOCOL_MAX,
            connection: 0,
            is_welcomed: false,
            disk: SpawnerDisk::default(),
            processes: BTreeMap::new(),
            next_worker: WorkerId(1),
            judge_queue: VecDeque::new(),
            helpers: Vec::new(),
            homes: BuildHomesModel::default(),
            silent_until: None,
            cannot_start: 0,
        }
    }

    /// Returns the number of things of each kind that should be gone when all work has ended.
    pub(crate) fn left(&self) -> Vec<(&'static str, usize)> {
        let is_used = |(id, invocation): &&(FunctionId, InvocationId)| {
            let is_it = |process: &ProcessRecord| process.id == *id && process.invocation == *invocation;
            self.processes.values().any(is_it)
        };
        let over = self.processes.values().filter(|process| process.is_over());
        vec![
            ("end that fnd has not acknowledged", over.count()),
            ("request to the spawner", self.link.requests.len()),
            ("installation", self.judge_queue.len()),
            ("helper of the spawner", self.helpers.len()),
            (
                "temporary directory",
                self.disk.tmp.iter().filter(|tmp| !is_used(tmp)).count(),
            ),
        ]
    }

    /// Answers a request. An fnd that did not ask gets the number 0.
    fn reply(&mut self, request: RequestId, reply: &Reply, descriptors: Vec<OwnedFd>) {
        let is_asked = request.connection == self.connection;
        self.link
            .send(if is_asked { request.number } else { 0 }, reply, descriptors);
    }

    /// Returns the number of a function.
    fn id(&mut self, function: &FunctionName) -> FunctionId {
        let names = &mut self.disk.names;
        let known = names.iter().position(|name| name == function);
        let index = known.unwrap_or_else(|| {
            names.push(function.clone());
            names.len() - 1
        });
        FunctionId(u32::try_from(index).expect("there are few functions"))
    }

    fn name(&self, id: FunctionId) -> Option<&FunctionName> {
        self.disk.names.get(usize::try_from(id.0).ok()?)
    }
}
