//! What the processes of functions do. The spawner's model says when a process begins and which signals it gets; here it prints,
//! writes its result, speaks the worker protocol, and ends, at times that the seed chooses.
//!
//! A process is a list of deeds, each with its time ([`Deeds`]). A script has all of them from its start. A handler gets those of
//! a call when the call comes. So a deed that ends the process in the middle of an answer needs nothing but a time.
//!
//! Files:
//! - `deeds`: what processes do, and when
//! - `handler`: a worker of a handler: loads, takes calls, answers or breaks the protocol, stops
//! - `messages`: the worker protocol as a worker sees it
//! - `script`: a script: output, result, exit code

mod deeds;
mod handler;
mod messages;
mod script;

use self::deeds::{Deed, Deeds};
use self::handler::Handler;
use super::facts::{Began, Fact, Facts};
use super::spawner::{Process, Program, SpawnerEvent, SpawnerModel, WorkerEnds};
use fastrand::Rng;
use fnd_wire::frame::ExitStatus;
use fnd_wire::ids::{InvocationId, WorkerId};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::collections::BTreeMap;
use std::time::Duration;

/// The faults that workers may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Temper {
    /// They may need minutes, never answer, and ignore what asks them to end.
    pub(crate) slow: bool,
    /// They may end in each phase.
    pub(crate) dies: bool,
    /// They may break the worker protocol.
    pub(crate) lies: bool,
}

/// The moment of a step, and what a step may use and tell.
pub(crate) struct WorkerTurn<'a> {
    /// Time by the monotonic clock.
    pub(crate) now: Duration,
    pub(crate) random: &'a mut Rng,
    pub(crate) facts: &'a mut Facts,
}

/// What a process is for.
#[derive(Debug)]
enum Task {
    Script(InvocationId, u32),
    Handler(Handler),
}

/// A process of a function.
#[derive(Debug)]
struct RunningWorker {
    ends: WorkerEnds,
    deeds: Deeds,
    task: Task,
}

/// All processes of functions that run.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    temper: Temper,
    running: BTreeMap<WorkerId, RunningWorker>,
}

impl Workers {
    pub(crate) fn new(temper: Temper) -> Self {
        let running = BTreeMap::new();
        Self { temper, running }
    }

    /// Ends the faults. What a process has planned already still comes, up to a process that never ends by itself.
    pub(crate) fn recover(&mut self) {
        self.temper = Temper::default();
    }

    /// Does what an event of the spawner means for a process.
    pub(crate) fn handle(&mut self, event: &SpawnerEvent, spawner: &mut SpawnerModel, turn: &mut WorkerTurn<'_>) {
        match event {
            SpawnerEvent::Started(worker) => {
                let is_ours = |process: &&Process| process.program == Program::Attempt;
                if spawner.process(*worker).filter(is_ours).is_some()
                    && let Some(ends) = spawner.take_ends(*worker)
                    && let Some(process) = spawner.process(*worker)
                {
                    self.begin(*worker, process, ends, turn);
                }
            }
            SpawnerEvent::Term(worker) => {
                if let Some(running) = self.running.get_mut(worker) {
                    deeds::term(&mut running.deeds, self.temper, turn);
                }
            }
            SpawnerEvent::Killed(worker) => {
                self.end(*worker, turn.facts);
            }
            SpawnerEvent::Asked(..)
            | SpawnerEvent::Answered(..)
            | SpawnerEvent::Reported(_)
            | SpawnerEvent::Violation(_) => {}
        }
    }

    fn begin(&mut self, worker: WorkerId, process: &Process, ends: WorkerEnds, turn: &mut WorkerTurn<'_>) {
        let mut deeds = Deeds::default();
        let task = if process.is_handler() {
            Task::Handler(Handler::load(worker, process, (&mut deeds, self.temper), turn))
        } else {
            let began = began(worker, process);
            let task = Task::Script(began.invocation, began.attempt);
            turn.facts.push(Fact::Began(began));
            script::plan(process, (&mut deeds, self.temper), turn);
            task
        };
        let running = RunningWorker { ends, deeds, task };
        self.running.insert(worker, running);
    }

    /// Lets the handlers read what fnd has sent.
    pub(crate) fn read(&mut self, turn: &mut WorkerTurn<'_>) {
        for running in self.running.values_mut() {
            if let Task::Handler(handler) = &mut running.task
                && let Some(channel) = &running.ends.channel
            {
                handler.read(channel, (&mut running.deeds, self.temper), turn);
            }
        }
    }

    /// Adds the workers that could do something now.
    pub(crate) fn due(&self, now: Duration, out: &mut Vec<WorkerId>) {
        let is_due = |running: &RunningWorker| running.deeds.wakes_at().is_some_and(|at| at <= now);
        out.extend(
            self.running
                .iter()
                .filter(|(_, running)| is_due(running))
                .map(|(worker, _)| *worker),
        );
    }

    /// Returns when a worker does something next.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        self.running
            .values()
            .filter_map(|running| running.deeds.wakes_at())
            .min()
    }

    /// Lets a worker do the next of its deeds that are due.
    pub(crate) fn step(&mut self, worker: WorkerId, spawner: &mut SpawnerModel, turn: &mut WorkerTurn<'_>) {
        let Some(running) = self.running.get_mut(&worker) else {
            return;
        };
        let Some(deed) = running.deeds.take(turn.now) else {
            return;
        };
        if let Some((status, is_oom)) = running.perform(deed, turn) {
            // Its descriptors are closed before anybody can see that it has ended.
            self.end(worker, turn.facts);
            spawner.ended(worker, status, is_oom);
        }
    }

    /// Removes a process that has ended.
    fn end(&mut self, worker: WorkerId, facts: &mut Facts) {
        let Some(running) = self.running.remove(&worker) else {
            return;
        };
        match running.task {
            Task::Script(invocation, attempt) => facts.push(Fact::Over(invocation, attempt)),
            Task::Handler(handler) => handler.give_up(facts),
        }
        facts.push(Fact::Gone(worker));
    }
}

impl RunningWorker {
    /// Does a deed. Returns how the process has ended, if it has.
    fn perform(&mut self, deed: Deed, turn: &mut WorkerTurn<'_>) -> Option<(ExitStatus, bool)> {
        // fnd may have closed its ends: what is written then is lost, as everywhere.
        match deed {
            Deed::Print(line) => drop(rustix::io::write(&self.ends.stdout, line.as_bytes())),
            Deed::PrintError(line) => drop(rustix::io::write(&self.ends.stderr, line.as_bytes())),
            Deed::WriteResult(bytes) => drop(rustix::io::write(&self.ends.result, &bytes)),
            Deed::Send(bytes, call) => self.send(bytes, call, turn),
            Deed::CloseWriting => {
                if let Some(channel) = &self.ends.channel {
                    let _ = shutdown(channel, Shutdown::Write);
                }
            }
            Deed::Exit(status) => return Some((status, false)),
            Deed::RunOutOfMemory => return Some((ExitStatus::Signal(9), true)),
        }
        None
    }

    /// Sends bytes to fnd. `call` is the call whose answer ends with them.
    fn send(&mut self, mut bytes: Vec<u8>, call: Option<u64>, turn: &mut WorkerTurn<'_>) {
        let (Some(channel), Task::Handler(handler)) = (&self.ends.channel, &mut self.task) else {
            return;
        };
        let taken = match send(channel, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(taken) => taken,
            Err(Errno::AGAIN) => 0,
            Err(_) => bytes.len(), // nobody reads it any more
        };
        if taken < bytes.len() {
            drop(bytes.drain(..taken));
            // The rest follows when fnd has read. Anything else in between would tear the message.
            self.deeds.plan_first(Deed::Send(bytes, call));
        } else {
            handler.has_sent(call, &mut self.deeds, turn);
        }
    }
}

/// Returns the attempt that a script sees.
fn began(worker: WorkerId, process: &Process) -> Began {
    let attempt = process.environment.iter().find(|(name, _)| name == "FND_ATTEMPT");
    let attempt = attempt.and_then(|(_, value)| str::from_utf8(&value.0).ok()?.parse().ok());
    Began {
        worker,
        function: process.function.clone(),
        version: process.version,
        invocation: process.invocation,
        attempt: attempt.expect("fnd numbers the attempts of scripts"),
        is_call: false,
    }
}
