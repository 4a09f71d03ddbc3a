//! A worker of a handler: it loads its code, takes calls, and answers them, late or not at all, in pieces, or in ways that the
//! worker protocol forbids; it stops when fnd asks for it.
//!
//! ```text
//! loading -> ready -> call -> answer -> call -> ... -> asked to stop, last answer -> exit
//!    |                 |
//!    v                 v
//!   exit              exit at any byte of the answer
//! ```

use super::deeds::{Deed, Deeds, takes};
use super::messages;
use super::{Temper, WorkerStart, WorkerTurn};
use crate::simulate::facts::{Began, Fact, FactLog};
use crate::simulate::spawner::contents::{Fate, Manner, SourceContent};
use fnd_core::records::protocol::FailureKind;
use fnd_core::records::protocol::worker_side::{FndDecoder, FndMessage, ready};
use fnd_wire::frame::ExitStatus;
use fnd_wire::ids::{FunctionName, InvocationId, Version, WorkerId};
use rustix::net::{RecvFlags, recv};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The state of a handler's worker.
#[derive(Debug)]
pub(super) struct HandlerModel {
    worker: WorkerId,
    function: FunctionName,
    version: Version,
    /// Most calls at once.
    concurrency: usize,
    is_ready: bool,
    is_stopping: bool,
    decoder: FndDecoder,
    /// The calls that are not answered.
    calls: BTreeMap<u64, (InvocationId, u32)>,
    /// The number of the newest call.
    last_call: u64,
}

impl HandlerModel {
    /// Begins to load the code.
    pub(super) fn load(start: &WorkerStart, deeds: &mut Deeds, turn: &mut WorkerTurn<'_>) -> Self {
        let content = SourceContent::of(start.version);
        let concurrency = if content.manner() == Manner::Concurrent { 4 } else { 1 };
        // `slow` makes a step last up to two minutes. A load must end within the time that fnd allows, so it is never
        // slow.
        let slow = false;
        let at = turn.now + takes(turn.random, Temper { slow, ..turn.temper });
        if content.fate() == Fate::NotLoaded {
            if turn.random.bool() {
                deeds.plan(at, Deed::Send(messages::error(0, FailureKind::Error), None));
            }
            deeds.plan(at, Deed::Exit(ExitStatus::Code(1)));
        } else {
            deeds.plan(at, Deed::Send(ready(concurrency), None));
        }
        Self {
            worker: start.worker,
            function: start.function.clone(),
            version: start.version,
            concurrency: concurrency as usize,
            is_ready: false,
            is_stopping: false,
            decoder: FndDecoder::default(),
            calls: BTreeMap::new(),
            last_call: 0,
        }
    }

    /// Reads the messages of fnd, and plans the deeds that follow from them.
    pub(super) fn read(&mut self, channel: &OwnedFd, deeds: &mut Deeds, turn: &mut WorkerTurn<'_>) {
        let mut bytes = [0; 16 << 10];
        while let Ok((_, count @ 1..)) = recv(channel, &mut bytes[..], RecvFlags::DONTWAIT) {
            self.decoder.push(&bytes[..count]);
        }
        while let Some(message) = self.decoder.take().expect("fnd keeps to the protocol") {
            match message {
                FndMessage::Invoke { call, content } => {
                    // An fnd that was killed may have asked it to stop. It takes no call any more.
                    if self.is_stopping {
                        continue;
                    }
                    assert!(self.is_ready, "{} gets a call too early", self.worker);
                    assert!(
                        call > self.last_call,
                        "{} gets the call {call} after {}",
                        self.worker,
                        self.last_call
                    );
                    self.last_call = call;
                    let (invocation, attempt) = messages::invoked(&content);
                    self.calls.insert(call, (invocation, attempt));
                    assert!(
                        self.calls.len() <= self.concurrency,
                        "{} gets too many calls",
                        self.worker
                    );
                    turn.facts.push(Fact::Began(Began {
                        worker: self.worker,
                        function: self.function.clone(),
                        version: self.version,
                        invocation,
                        attempt,
                        is_call: true,
                    }));
                    self.plan_call(call, deeds, turn);
                }
                FndMessage::Stop => {
                    self.is_stopping = true;
                    // A slow one may not listen.
                    if !(turn.temper.slow && turn.random.u8(0..8) == 0) {
                        self.exit_if_done(deeds, turn);
                    }
                }
            }
        }
    }

    fn plan_call(&self, call: u64, deeds: &mut Deeds, turn: &mut WorkerTurn<'_>) {
        let temper = turn.temper;
        let at = turn.now + takes(turn.random, temper);
        if turn.random.u8(0..8) == 0 {
            deeds.plan(turn.now, Deed::Send(messages::log(call, 1), None));
            deeds.plan(turn.now, Deed::Print(format!("call {call}\n")));
        }
        match turn.random.u8(0..100) {
            0..5 if temper.dies => self.plan_death(call, at, deeds, turn),
            5..10 if temper.lies => plan_lie(call, at, deeds, turn),
            // This call never gets an answer.
            10..12 if temper.slow => {}
            _ => {
                let answer = self.answer(call, turn);
                self.plan_answer((at, call), answer, deeds, turn);
            }
        }
    }

    /// Plans an answer, in one piece or in two.
    fn plan_answer(
        &self,
        (at, call): (Duration, u64),
        mut answer: Vec<u8>,
        deeds: &mut Deeds,
        turn: &mut WorkerTurn<'_>,
    ) {
        // Two answers whose pieces alternate would be no messages.
        if self.concurrency == 1 && turn.random.u8(0..8) == 0 {
            let rest = answer.split_off(turn.random.usize(0..answer.len()));
            deeds.plan(at, Deed::Send(answer, None));
            let later = at + Duration::from_millis(turn.random.u64(0..500));
            deeds.plan(later, Deed::Send(rest, Some(call)));
        } else {
            deeds.plan(at, Deed::Send(answer, Some(call)));
        }
    }

    /// Draws an answer: a result, or one of the failures that the protocol has.
    fn answer(&self, call: u64, turn: &mut WorkerTurn<'_>) -> Vec<u8> {
        let is_polled = SourceContent::of(self.version).manner() == Manner::Polled;
        match turn.random.u8(0..100) {
            0..8 => messages::error(call, FailureKind::Error),
            8..14 => messages::error(call, FailureKind::Transient),
            14..17 => messages::error(call, FailureKind::Failed),
            17..19 => messages::error(call, FailureKind::BadAnswer),
            19..50 if is_polled => messages::error(call, FailureKind::ExecuteAgain),
            // Often larger than a frame, and than the bytes that fnd reads at once.
            99 => messages::result(call, &vec![b'1'; turn.random.usize(1..600_000)]),
            _ => messages::result(call, format!("{{\"call\":{call}}}").as_bytes()),
        }
    }

    /// The worker ends before its answer, in the middle of it, or right behind it.
    fn plan_death(&self, call: u64, at: Duration, deeds: &mut Deeds, turn: &mut WorkerTurn<'_>) {
        let answer = self.answer(call, turn);
        match turn.random.u8(0..3) {
            // Without a planned deed it ends before its answer.
            0 => {}
            1 => {
                let cut = turn.random.usize(0..answer.len());
                deeds.plan(at, Deed::Send(answer[..cut].to_vec(), None));
            }
            _ => deeds.plan(at, Deed::Send(answer, Some(call))),
        }
        let deed = match turn.random.u8(0..4) {
            0 => Deed::Exit(ExitStatus::Code(0)),
            1 => Deed::Exit(ExitStatus::Code(3)),
            2 => Deed::RunOutOfMemory,
            _ => Deed::Exit(ExitStatus::Signal(11)),
        };
        deeds.plan(at, deed);
    }

    /// An answer, or something else, is sent.
    pub(super) fn has_sent(&mut self, call: Option<u64>, deeds: &mut Deeds, turn: &mut WorkerTurn<'_>) {
        // The first message is `Ready`, or the error of a worker that cannot serve.
        self.is_ready = true;
        if let Some((invocation, attempt)) = call.and_then(|call| self.calls.remove(&call)) {
            turn.facts.push(Fact::Over(invocation, attempt));
            if self.is_stopping {
                self.exit_if_done(deeds, turn);
            }
        }
    }

    fn exit_if_done(&self, deeds: &mut Deeds, turn: &mut WorkerTurn<'_>) {
        if self.calls.is_empty() {
            let at = turn.now + Duration::from_millis(turn.random.u64(0..100));
            deeds.plan(at, Deed::Exit(ExitStatus::Code(0)));
        }
    }

    /// The process is gone: the calls that it has not answered are over.
    pub(super) fn give_up(self, facts: &mut FactLog) {
        for (invocation, attempt) in self.calls.into_values() {
            facts.push(Fact::Over(invocation, attempt));
        }
    }
}

/// Plans something that the protocol forbids. fnd ends the worker for it.
fn plan_lie(call: u64, at: Duration, deeds: &mut Deeds, turn: &mut WorkerTurn<'_>) {
    let result = messages::result(call, b"1");
    let bytes = match turn.random.u8(0..6) {
        0 => {
            // The first answer counts.
            deeds.plan(at, Deed::Send(result.clone(), Some(call)));
            result
        }
        1 => messages::result(call + 7, b"1"),
        2 => messages::unknown(call),
        3 => messages::too_long(call),
        4 => ready(1),
        _ => return deeds.plan(at, Deed::CloseWriting),
    };
    deeds.plan(at, Deed::Send(bytes, None));
}
