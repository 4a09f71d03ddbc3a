//! The model of fnd-spawner. It reads and writes real frames over a real socket, judges with the real judge, and keeps in memory
//! what the real spawner has on the disk. It goes on while fnd ends and starts again.
//!
//! It does nothing by itself. [`SpawnerModel::steps`] says what it and its processes could do now, and the seed chooses. So every order of answers
//! comes that the real spawner can give: answers to installations overtake each other unless one judge gives both, a start is
//! answered before its end is reported, and everything that fnd asked before it was killed is carried out before the next fnd is
//! answered.
//!
//! A process is a row here; what it does is decided by its [`WorkerModel`].
//!
//! Not simulated: programs of fnd itself that watch or measure, cgroups, namespaces and users, secrets, the HTTP sockets of workers, sources of code that are fetched.
//!
//! Files:
//! - `answers`: carries out requests, and answers them
//! - `builds`: the homes of builds, and the trees that are made of them
//! - `contents`: the contents that files can have, and the judge's verdicts on them
//! - `ends`: the ends of processes: time limits, signals, reports
//! - `faults`: the spawner is killed, stopped, replaced by another version, silent, or short of something
//! - `fnd_link`: the connection with fnd
//! - `handshake`: what a new fnd is told
//! - `installs`: answers installations
//! - `process`: a process, from the order to start it until its end is acknowledged
//! - `starts`: starts of processes

mod answers;
mod builds;
pub(crate) mod contents;
mod ends;
mod faults;
mod fnd_link;
mod handshake;
mod installs;
mod process;
mod starts;

use self::builds::BuildHomes;
use self::fnd_link::FndLink;
pub(crate) use self::process::Process;
use self::process::{KeptEnds, Stage};
use crate::simulate::facts::{Fact, Facts};
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

/// Something that the spawner could do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnerStep {
    /// It carries out the oldest request that has come.
    Request,
    /// It answers one of the installations that wait, or a reload.
    Install(usize),
    /// A helper that removes or copies files ends.
    Helper(usize),
    /// A process begins, and the start is answered.
    Start(WorkerId),
    /// A process does one thing.
    Work(WorkerId),
    /// The end of a process is reported.
    Report(WorkerId),
    /// It ends the processes whose time is up.
    Enforce,
    /// It sends what fnd's socket did not take before.
    Flush,
}

/// What a step may look at and change besides the spawner.
pub(crate) struct SpawnerTurn<'a> {
    pub(crate) now: Now,
    /// The functions directory.
    pub(crate) files: &'a Files,
    pub(crate) facts: &'a mut Facts,
    /// What the workers do depends on both.
    pub(crate) temper: Temper,
    pub(crate) random: &'a mut Rng,
}

impl SpawnerTurn<'_> {
    /// Returns the same for a worker.
    fn of_worker(&mut self) -> WorkerTurn<'_> {
        WorkerTurn {
            now: self.now.mono,
            temper: self.temper,
            random: self.random,
            facts: self.facts,
        }
    }

    /// fnd has broken a rule of the protocol.
    fn defect(&mut self, text: String) {
        self.facts.push(Fact::Defect(text));
    }
}

/// The number of a request, and the connection on which it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestId {
    connection: u32,
    number: u32,
}

/// Why a version is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Install,
    Check,
    Rebuild,
    Files,
}

/// Work that is done in order: the judge reads one after the other.
#[derive(Debug)]
enum Job {
    Reload(RequestId),
    Install(RequestId, Install, Purpose),
}

/// Work that a helper does: these end in any order.
#[derive(Debug)]
enum HelperWork {
    Release(FunctionId, InvocationId),
    Prune(Vec<(FunctionName, Version)>),
    Seal(FunctionName, Version),
    Clear(FunctionName),
    PruneTrees,
}

/// What the real spawner has on the disk.
#[derive(Debug, Default)]
pub(crate) struct SpawnerDisk {
    /// All functions that were ever installed; the index of a name is the number of the function.
    names: Vec<FunctionName>,
    /// The installed versions.
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
    /// The newest protocol of the spawner that runs, and of the one that starts next.
    protocol: u16,
    next_protocol: u16,
    /// The number of the connection.
    connection: u32,
    is_welcomed: bool,
    pub(crate) disk: SpawnerDisk,
    processes: BTreeMap<WorkerId, Process>,
    /// The first number of a worker that was not used yet.
    next_worker: WorkerId,
    jobs: VecDeque<Job>,
    helpers: Vec<(RequestId, HelperWork)>,
    homes: BuildHomes,
    /// Until when it does nothing at all.
    silent_until: Option<Duration>,
    /// So many starts fail because the node is short of something.
    cannot_start: u32,
}

impl SpawnerModel {
    /// Returns a spawner on an empty disk, to which no fnd is connected.
    pub(crate) fn new() -> Self {
        Self {
            link: FndLink::default(),
            protocol: PROTOCOL_MAX,
            next_protocol: PROTOCOL_MAX,
            connection: 0,
            is_welcomed: false,
            disk: SpawnerDisk::default(),
            processes: BTreeMap::new(),
            next_worker: WorkerId(1),
            jobs: VecDeque::new(),
            helpers: Vec::new(),
            homes: BuildHomes::default(),
            silent_until: None,
            cannot_start: 0,
        }
    }

    /// Takes everything that fnd has sent to the spawner and to workers. What it means is decided step by step.
    pub(crate) fn hear(&mut self, turn: &mut SpawnerTurn<'_>) {
        // Frames stay in the socket of a silent spawner, so that the socket may become full.
        if !self.is_silent(turn.now) {
            self.link.read();
        }
        for process in self.processes.values_mut() {
            if let Stage::Running(model) = &mut process.stage {
                model.read(&mut turn.of_worker());
            }
        }
    }

    /// Adds everything that the spawner and its processes could do now.
    pub(crate) fn steps(&self, now: Now, out: &mut Vec<SpawnerStep>) {
        let is_silent = self.is_silent(now);
        let mut launchers = BTreeSet::new();
        for (worker, process) in &self.processes {
            match &process.stage {
                // Each launcher starts its processes in order.
                Stage::Starting(_) if !is_silent && launchers.insert((process.id, process.version)) => {
                    out.push(SpawnerStep::Start(*worker));
                }
                Stage::Running(model) if model.wakes_at().is_some_and(|at| at <= now.mono) => {
                    out.push(SpawnerStep::Work(*worker));
                }
                Stage::Over(_) if !is_silent => out.push(SpawnerStep::Report(*worker)),
                Stage::Starting(_) | Stage::Running(_) | Stage::Over(_) | Stage::Ended { .. } => {}
            }
        }
        if is_silent {
            return;
        }
        out.extend((!self.link.requests.is_empty()).then_some(SpawnerStep::Request));
        out.extend(self.link.is_full().then_some(SpawnerStep::Flush));
        out.extend(self.jobs_in_any_order().map(SpawnerStep::Install));
        out.extend((0..self.helpers.len()).map(SpawnerStep::Helper));
        let is_due = self.enforces_at().is_some_and(|at| at <= now.mono);
        out.extend(is_due.then_some(SpawnerStep::Enforce));
    }

    /// Does one of the steps that [`SpawnerModel::steps`] has named.
    pub(crate) fn step(&mut self, step: SpawnerStep, turn: &mut SpawnerTurn<'_>) {
        match step {
            SpawnerStep::Request => self.carry_out(turn),
            SpawnerStep::Install(index) => {
                if let Some(job) = self.jobs.remove(index) {
                    self.finish_job(job, turn.files);
                }
            }
            SpawnerStep::Helper(index) => {
                let (request, work) = self.helpers.remove(index);
                self.finish_helper(request, work);
            }
            SpawnerStep::Start(worker) => self.start(worker, turn),
            SpawnerStep::Work(worker) => self.work(worker, turn),
            SpawnerStep::Report(worker) => self.report(worker, turn.now),
            SpawnerStep::Enforce => self.enforce(turn),
            SpawnerStep::Flush => self.link.flush(),
        }
    }

    /// Returns all processes that are not acknowledged.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (WorkerId, &Process)> {
        self.processes.iter().map(|(worker, process)| (*worker, process))
    }

    /// Returns when there is a step again that only waits for its time.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        let of_worker = |process: &Process| match &process.stage {
            Stage::Running(model) => model.wakes_at(),
            Stage::Starting(_) | Stage::Over(_) | Stage::Ended { .. } => None,
        };
        let workers = self.processes.values().filter_map(of_worker);
        // A silent spawner ends nobody.
        let own = [self.silent_until.or_else(|| self.enforces_at())];
        workers.chain(own.into_iter().flatten()).min()
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
