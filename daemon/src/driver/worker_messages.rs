//! Turns messages of workers into events of the supervisor.

use super::Driver;
use crate::buffers::{Reservation, SMALL};
use crate::output::{AttemptKey, message};
use fnd_core::records::RunResult;
use fnd_core::records::outcome::Reason;
use fnd_core::records::protocol::{FailureKind, WorkerMessage};
use fnd_core::supervisor::{Answered, Event};
use fnd_wire::ids::WorkerId;

impl Driver {
    /// Handles a message of a worker.
    pub(super) fn handle_message(&mut self, worker: WorkerId, message: WorkerMessage, reserved: Option<Reservation>) {
        match message {
            WorkerMessage::Ready(ready) => {
                let (concurrency, cancels) = (ready.concurrency, ready.cancel);
                // A call may be sent in the step below, and it must know already whether the worker wants variables.
                self.workers.give_variables(worker, ready.variables);
                self.step(match self.workers.serves_at(worker, ready.port) {
                    Ok(()) => Event::WorkerReady {
                        worker,
                        concurrency,
                        cancels,
                    },
                    Err(message) => Event::Broken { worker, message },
                });
            }
            WorkerMessage::Result { call, head, data } => {
                let mut result = RunResult::of(head, data);
                self.carry(&mut result, reserved.unwrap_or_default());
                self.answered(worker, call, (Reason::Ok, String::new()), result);
            }
            // Calls are numbered from 1. The number 0 stands for loading the code.
            WorkerMessage::Error { call: 0, failure } => {
                self.workers.keep_stack(worker, 0, &failure);
                let masks = &self.workers.masks;
                let message = masks.shown(&self.node.places.state, worker, failure.message);
                self.step(Event::LoadFailed { worker, message });
            }
            WorkerMessage::Error { call, failure } => {
                self.workers.keep_stack(worker, call, &failure);
                // Only the next poll reads the data of a failure (`previous`).
                let data = failure.data.filter(|_| failure.kind == FailureKind::ExecuteAgain);
                let result = data.map(|data| RunResult {
                    json: true,
                    data: data.to_string().into_bytes().into(),
                    response: None,
                    kept: None,
                });
                let how = (failure.kind.reason(), failure.message);
                if failure.printed {
                    self.answered_as_printed(worker, call, how, result);
                } else {
                    self.answered(worker, call, how, result);
                }
            }
            WorkerMessage::Log { call, record } => self.workers.log(worker, call, &record),
        }
    }

    /// Counts a large result until its bytes are gone.
    pub(super) fn carry(&self, result: &mut Option<RunResult>, reserved: Reservation) {
        if let Some(result) = result.as_mut().filter(|result| result.data.len() as u64 > SMALL) {
            result.data = self.callers.buffers.carry(std::mem::take(&mut result.data), reserved);
        }
    }

    /// Handles the messages that a worker sent before it ended: its end may be reported before they are read. It gets
    /// no more calls.
    pub(super) fn drain_messages(&mut self, worker: WorkerId) {
        let attached = self.workers.attached.get(&worker);
        if attached.is_none_or(|attached| attached.member.is_none()) {
            return;
        }
        // The conversation is kept over `Closed`, after which the supervisor sends this worker no call.
        let conversation = self.workers.conversation(worker);
        self.step(Event::Closed(worker));
        let Some(conversation) = conversation else { return };
        let mut last = Vec::new();
        // The messages are collected first, because handling one borrows the books of the worker.
        conversation.drain_messages(|message| last.push(message));
        for message in last {
            self.handle_message(worker, message, None);
        }
        self.catch_up();
    }

    pub(super) fn answered(&mut self, worker: WorkerId, call: u64, how: (Reason, String), result: Option<RunResult>) {
        let answered = self.answer(worker, call, how, result);
        // The output is marked before the answer is handled: the next call may be sent in the same step. The record
        // must also find that its output is awaited.
        if let Some(printed) = self.workers.end_call(worker, call) {
            self.records.await_output(printed);
        }
        self.answer_first(Event::Answered(answered));
    }

    /// Handles a failure whose message is the last line that the call printed. If it printed something, the answer waits
    /// until the output thread has read that.
    fn answered_as_printed(&mut self, worker: WorkerId, call: u64, how: (Reason, String), result: Option<RunResult>) {
        let answered = self.answer(worker, call, how, result);
        let Some(key) = self.workers.end_call(worker, call) else {
            return self.answer_first(Event::Answered(answered));
        };
        self.records.await_output(key);
        self.workers.unexplained.push((key, answered));
    }

    fn answer(&self, worker: WorkerId, call: u64, how: (Reason, String), result: Option<RunResult>) -> Box<Answered> {
        let masks = &self.workers.masks;
        masks.answered(&self.node.places.state, (worker, call), how, result)
    }

    /// Reports the failures that waited for the last line that they printed; without a line they keep their message.
    pub(crate) fn explain(&mut self, line: Option<&str>, is: impl Fn(AttemptKey, &Answered) -> bool) {
        let ready = |(key, answered): &mut (AttemptKey, Box<Answered>)| is(*key, answered);
        // The failures are taken out before the first step, because a step can end other calls.
        let ready: Vec<_> = self.workers.unexplained.extract_if(.., ready).collect();
        for (_, mut answered) in ready {
            if let Some(line) = line {
                answered.message = message::shown(&self.node.places.state, line);
            }
            self.step(Event::Answered(answered));
        }
    }

    /// Reports the calls whose connections ended with an earlier fnd.
    pub(crate) fn report_lost(&mut self) {
        for (worker, call) in std::mem::take(&mut self.workers.lost) {
            let message = "fnd was restarted during the attempt, which ended its connection".to_owned();
            self.answered(worker, call, (Reason::Interrupted, message), None);
        }
    }
}
