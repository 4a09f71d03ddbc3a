//! The processes of functions. The spawner's model decides when a process begins and which signals it gets; the model of the
//! process prints, writes its result, speaks the worker protocol, and ends, at times that the seed chooses.
//!
//! A process is a list of deeds, each with its time ([`Deeds`]). A script has all of them from its start. A handler gets those of
//! a call when the call comes. So a deed that ends the process in the middle of an answer needs nothing but a time.
//!
//! Files:
//! - `deeds`: single acts of processes, with their times
//! - `handler`: a worker of a handler: loads, takes calls, answers or breaks the protocol, stops
//! - `messages`: the content of messages between workers and fnd
//! - `script`: a script: output, result, exit code

mod deeds;
mod handler;
mod messages;
mod script;

use self::deeds::{Deed, Deeds};
use self::handler::HandlerModel;
use super::facts::{Began, Fact, FactLog};
use fastrand::Rng;
use fnd_wire::frame::ExitStatus;
use fnd_wire::ids::{FunctionName, InvocationId, Version, WorkerId};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The faults that workers may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Temper {
    /// They may need minutes, never answer, and ignore SIGTERM and `Stop`.
    pub(crate) slow: bool,
    /// They may end in each phase.
    pub(crate) dies: bool,
    /// They may break the worker protocol.
    pub(crate) lies: bool,
    /// They often run for longer than a lease, and ignore SIGTERM.
    pub(crate) lasts: bool,
}

/// The moment of a step, and the things that the step may use.
pub(crate) struct WorkerTurn<'a> {
    /// Time by the monotonic clock.
    pub(crate) now: Duration,
    pub(crate) temper: Temper,
    pub(crate) random: &'a mut Rng,
    pub(crate) facts: &'a mut FactLog,
}

/// A process that begins.
pub(crate) struct WorkerStart {
    pub(crate) worker: WorkerId,
    pub(crate) function: FunctionName,
    pub(crate) version: Version,
    pub(crate) task: WorkerTask,
    pub(crate) ends: WorkerEnds,
}

/// The task for which a process begins.
#[derive(Debug)]
pub(crate) enum WorkerTask {
    /// An attempt of an invocation, by its number.
    Script(InvocationId, u32),
    Handler,
    /// A build or a check of fnd itself: it writes this result, and ends with this code.
    Internal {
        result: Vec<u8>,
        code: u8,
    },
}

/// The ends of a process's descriptors that the process has.
#[derive(Debug)]
pub(crate) struct WorkerEnds {
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) result: OwnedFd,
    /// The worker protocol's socket of a handler.
    pub(crate) channel: Option<OwnedFd>,
}

/// The task of a process that runs, with its state.
#[derive(Debug)]
enum RunningTask {
    Script(InvocationId, u32),
    Handler(HandlerModel),
    Internal,
}

/// A process that runs.
#[derive(Debug)]
pub(crate) struct WorkerModel {
    worker: WorkerId,
    ends: WorkerEnds,
    deeds: Deeds,
    task: RunningTask,
}

impl WorkerModel {
    pub(crate) fn begin(start: WorkerStart, turn: &mut WorkerTurn<'_>) -> Self {
        let mut deeds = Deeds::default();
        let worker = start.worker;
        let task = match start.task {
            WorkerTask::Handler => RunningTask::Handler(HandlerModel::load(&start, &mut deeds, turn)),
            WorkerTask::Script(invocation, attempt) => {
                turn.facts.push(Fact::Began(Began {
                    worker,
                    function: start.function,
                    version: start.version,
                    invocation,
                    attempt,
                    is_call: false,
                }));
                script::plan(start.version, &mut deeds, turn);
                RunningTask::Script(invocation, attempt)
            }
            WorkerTask::Internal { result, code } => {
                let at = turn.now + deeds::takes(turn.random, turn.temper);
                deeds.plan(at, Deed::WriteResult(result));
                deeds.plan(at, Deed::Exit(ExitStatus::Code(code)));
                RunningTask::Internal
            }
        };
        Self {
            worker,
            ends: start.ends,
            deeds,
            task,
        }
    }

    /// Lets a handler read the messages of fnd.
    pub(crate) fn read(&mut self, turn: &mut WorkerTurn<'_>) {
        if let (RunningTask::Handler(handler), Some(channel)) = (&mut self.task, &self.ends.channel) {
            handler.read(channel, &mut self.deeds, turn);
        }
    }

    /// Returns when the process does something next.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        self.deeds.wakes_at()
    }

    /// Lets the process do the next of its deeds that are due. Returns how it has ended, if it has, and whether memory ran out.
    pub(crate) fn step(&mut self, turn: &mut WorkerTurn<'_>) -> Option<(ExitStatus, bool)> {
        let deed = self.deeds.take(turn.now)?;
        self.perform(deed, turn)
    }

    /// The process gets SIGTERM.
    pub(crate) fn term(&mut self, turn: &mut WorkerTurn<'_>) {
        deeds::term(&mut self.deeds, turn);
    }

    /// Ends the process: its descriptors are closed, and its other deeds are never done.
    pub(crate) fn end(self, facts: &mut FactLog) {
        match self.task {
            RunningTask::Script(invocation, attempt) => facts.push(Fact::Over(invocation, attempt)),
            RunningTask::Handler(handler) => handler.give_up(facts),
            RunningTask::Internal => {}
        }
        facts.push(Fact::Gone(self.worker));
    }

    /// Does a deed. Returns how the process has ended, if it has.
    fn perform(&mut self, deed: Deed, turn: &mut WorkerTurn<'_>) -> Option<(ExitStatus, bool)> {
        // fnd may have closed its ends. Bytes that are written then are lost, as on a real machine.
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
        let (Some(channel), RunningTask::Handler(handler)) = (&self.ends.channel, &mut self.task) else {
            return;
        };
        let taken = match send(channel, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(taken) => taken,
            Err(Errno::AGAIN) => 0,
            Err(_) => bytes.len(), // fnd has closed its end, so the bytes are lost
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
