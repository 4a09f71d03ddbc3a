//! Starts of processes: the order, and the answer when the process has begun or could not.

use super::contents::{Fate, SourceContent};
use super::*;
use crate::simulate::facts::StartedWorker;
use crate::simulate::workers::{WorkerEnds, WorkerStart, WorkerTask};
use fnd_wire::frame::{Spawn, SpawnFailed};
use fnd_wire::plan::{CHECK, is_builder};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

/// The variable with the number of an attempt.
const ATTEMPT: &str = "FND_ATTEMPT";

impl SpawnerModel {
    /// Takes an order to start a process. It begins when the seed chooses.
    pub(super) fn order(
        &mut self,
        id: RequestId,
        spawn: Spawn,
        descriptors: &VecDeque<OwnedFd>,
        turn: &mut SpawnerTurn<'_>,
    ) {
        let worker = spawn.worker;
        if worker < self.next_worker {
            turn.defect(format!("{worker} was used before"));
        }
        self.next_worker = WorkerId(worker.0 + 1);
        if descriptors.len() != usize::from(spawn.input) + usize::from(spawn.previous) {
            turn.defect(format!(
                "{} descriptors come with the start of {worker}",
                descriptors.len()
            ));
        }
        if let Err(why) = self.admits(&spawn) {
            return self.reply(
                id,
                &Reply::SpawnFailed(SpawnFailed { worker, message: why }),
                Vec::new(),
            );
        }
        self.disk.tmp.insert((spawn.function, spawn.invocation));
        let attempt = spawn.environment.iter().find(|(name, _)| name == ATTEMPT);
        let attempt = attempt.and_then(|(_, value)| str::from_utf8(&value.0).ok()?.parse().ok());
        let process = ProcessRecord {
            function: self.name(spawn.function).expect("it was admitted").clone(),
            version: spawn.version,
            invocation: spawn.invocation,
            attempt: attempt.unwrap_or(0),
            id: spawn.function,
            record: spawn.record,
            began: turn.now.mono,
            until: (spawn.lasts_ms > 0).then(|| turn.now.mono + Duration::from_millis(spawn.lasts_ms)),
            termed: None,
            killed: false,
            kept: None,
            stage: ProcessStage::Starting(id),
        };
        self.processes.insert(worker, process);
    }

    /// Checks whether a start can be tried, and prepares the home of a build.
    ///
    /// # Errors
    /// The reason for which the spawner refuses the start.
    fn admits(&mut self, spawn: &Spawn) -> Result<(), String> {
        let Some(function) = self.name(spawn.function).cloned() else {
            return Err("no function has this number".to_owned());
        };
        // A launcher that runs starts more of its version although the files are gone.
        let is_there = self.disk.stored.contains(&(function.clone(), spawn.version));
        if !is_there && !self.uses(&function, spawn.version) {
            return Err(format!("failed to read the installed version {}", spawn.version));
        }
        if is_builder(function.as_str()) {
            self.homes.starts(&function, spawn.version, spawn.worker)?;
            self.disk.build_homes.insert(function);
        }
        Ok(())
    }

    /// Begins a process, and answers its start.
    pub(super) fn start(&mut self, worker: WorkerId, turn: &mut SpawnerTurn<'_>) {
        let Some(process) = self.processes.get_mut(&worker) else {
            return;
        };
        let ProcessStage::Starting(id) = process.stage else {
            return;
        };
        if let Some(left) = self.cannot_start.checked_sub(1) {
            self.cannot_start = left;
            self.processes.remove(&worker);
            let message = "failed to order the start: too many files are open in the system".to_owned();
            return self.reply(id, &Reply::NodeCannotStart(SpawnFailed { worker, message }), Vec::new());
        }
        let task = process.task(&self.disk.names);
        let is_handler = matches!(task, WorkerTask::Handler);
        let (ends, kept) = ends(is_handler);
        process.kept = Some(kept);
        turn.facts.push(Fact::Started(StartedWorker {
            worker,
            function: process.function.clone(),
            version: process.version,
        }));
        let start = WorkerStart {
            worker,
            function: process.function.clone(),
            version: process.version,
            task,
            ends,
        };
        process.stage = ProcessStage::Running(Box::new(WorkerModel::begin(start, &mut turn.of_worker())));
        let (is_termed, is_killed) = (process.termed.is_some(), process.killed);
        let (spawned, descriptors) = process.spawned(worker);
        let reply = if is_handler {
            Reply::SpawnedWithChannel(spawned)
        } else {
            Reply::Spawned(spawned)
        };
        self.reply(id, &reply, descriptors);
        // Signals that were asked for before the process existed.
        if is_killed {
            self.kill(worker, turn);
        } else if is_termed {
            self.signal(worker, turn);
        }
    }
}

impl ProcessRecord {
    /// Returns the task of the process.
    fn task(&self, names: &[FunctionName]) -> WorkerTask {
        let content = SourceContent::of(self.version);
        if self.function.as_str() == CHECK {
            let code = u8::from(content.fate() == Fate::Wrong);
            // Each content has a check of its own, so the result is the same for all functions that wait for this one.
            let lines: String = names
                .iter()
                .map(|name| format!("{} {code}\n", name.file_form()))
                .collect();
            return WorkerTask::Internal {
                result: lines.into_bytes(),
                code: 0,
            };
        }
        if is_builder(self.function.as_str()) {
            return WorkerTask::Internal {
                result: Vec::new(),
                code: u8::from(content.fate() == Fate::NotBuilt),
            };
        }
        if content.is_handler() {
            WorkerTask::Handler
        } else {
            WorkerTask::Script(self.invocation, self.attempt)
        }
    }
}

/// Makes the descriptors of a process: its own, and those for fnd.
fn ends(has_channel: bool) -> (WorkerEnds, KeptEnds) {
    let room = "the machine has room for descriptors";
    let result = memfd_create(c"result", MemfdFlags::CLOEXEC).expect(room);
    let (out, stdout) = pipe_with(PipeFlags::CLOEXEC).expect(room);
    let (err, stderr) = pipe_with(PipeFlags::CLOEXEC).expect(room);
    let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect(room);
    let (ours, channel) = has_channel.then(pair).unzip();
    let kept = KeptEnds {
        output: [out, err, result.try_clone().expect(room)],
        channel: ours,
    };
    let ends = WorkerEnds {
        stdout,
        stderr,
        result,
        channel,
    };
    (ends, kept)
}
