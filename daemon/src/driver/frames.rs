//! Turns frames of the spawner and messages of workers into events of the supervisor.

use super::{Driver, DriverMessage};
use crate::buffers::{Reservation, SMALL};
use crate::output::{AttemptKey, message};
use crate::triggers::secrets::SecretsAnswer;
use crate::workers::adoption::PipeEnds;
use crate::workers::link::Incoming;
use crate::workers::requests::PendingRequest;
use fnd_core::lifecycle::{InstallAnswer, refused_by_0_1};
use fnd_core::records::RunResult;
use fnd_core::records::outcome::Reason;
use fnd_core::records::protocol::{FailureKind, WorkerMessage};
use fnd_core::report::ReportEvent;
use fnd_core::run::{Answered, Event};
use fnd_wire::frame::{Exited, InstalledWithTree, Refused, Reply, Spawned};
use fnd_wire::ids::{InvocationId, WorkerId};
use std::os::fd::OwnedFd;

impl Driver {
    /// Handles a frame of the spawner.
    pub(super) fn incoming(&mut self, incoming: Incoming) {
        let Incoming {
            request,
            reply,
            descriptors,
        } = incoming;
        match reply {
            Reply::Installed(installed) => match self.workers.pending.remove(&request) {
                Some(PendingRequest::Lend(lane, tree)) => self.lent((lane, tree), Ok(installed)),
                // Installations are not among these requests: the lifecycle knows them.
                _ => self.judged(request, InstallAnswer::Installed(Box::new(installed), None)),
            },
            Reply::InstalledWithTree(InstalledWithTree { installed, tree }) => {
                self.judged(request, InstallAnswer::Installed(Box::new(installed), Some(tree)));
            }
            Reply::NeedsBuild(needs) => self.judged(request, InstallAnswer::NeedsBuild(Box::new(needs))),
            Reply::Sealed(why) => {
                if let Some(PendingRequest::Seal(lane)) = self.workers.pending.remove(&request) {
                    self.sealed(&lane, why);
                }
            }
            Reply::Refused(refused) => self.refused(request, refused),
            Reply::Files(files) => {
                if let Some(PendingRequest::Files(sender)) = self.workers.pending.remove(&request) {
                    let _ = sender.send(Ok(files)); // an error: the caller has gone
                }
            }
            Reply::Spawned(spawned) | Reply::SpawnedWithChannel(spawned) => {
                self.started(request, &spawned, descriptors);
            }
            // A program of fnd's own runs no attempt, so its failed start never reaches the supervisor.
            Reply::SpawnFailed(failed) | Reply::NodeCannotStart(failed)
                if matches!(
                    self.workers.pending.get(&request),
                    Some(PendingRequest::Watch(_) | PendingRequest::Measure(_))
                ) =>
            {
                self.request_failed(request, &failed.message);
            }
            Reply::SpawnFailed(failed) => {
                let (worker, message) = (failed.worker, message::shown(&self.node.places.state, &failed.message));
                self.workers.forget_start(request, worker);
                self.step(Event::SpawnFailed { worker, message });
            }
            Reply::NodeCannotStart(failed) => {
                let (worker, message) = (failed.worker, failed.message);
                self.workers.forget_start(request, worker);
                self.step(Event::NodeCannotStart { worker, message });
            }
            // Watchers and measurements have numbers of workers, but the supervisor knows none of them.
            Reply::Exited(exited) if self.watcher_exited(&exited) || self.measurement_exited(&exited) => {}
            Reply::Exited(exited) => self.exited(exited),
            Reply::Settings(read) => {
                self.workers.pending.remove(&request);
                self.settings_read(read);
            }
            // The spawner sends the fingerprints before `Spawned`, so no output is read without them.
            Reply::Masks(masked) => self.workers.masks.keep(masked),
            Reply::Failed(message) => self.failed(request, &message),
            Reply::Done => {
                // For other requests `Done` has no further meaning.
                if let Some(PendingRequest::Prune(asked)) = self.workers.pending.remove(&request) {
                    self.pruned(*asked, true);
                }
            }
            Reply::Secret => {
                let memory = descriptors.into_iter().next();
                // The kernel drops a descriptor for which there is no room.
                let full = || SecretsAnswer::Failed("too many files are open in fnd".to_owned());
                self.secret_answered(request, memory.map_or_else(full, SecretsAnswer::Value));
            }
            Reply::SecretRefused(problem) => {
                self.secret_answered(request, SecretsAnswer::Refused(problem));
            }
            Reply::Swept(swept) => self.workers.left_behind = swept.names,
            // These answer only Hello, which was sent once, before the driver began.
            Reply::Welcome(_) | Reply::Sockets(_) | Reply::Held(_) | Reply::HeldWithChannel(_) => {
                self.report(ReportEvent::NodeError(format_args!(
                    "fnd-spawner answered the handshake twice"
                )));
            }
        }
    }

    /// Handles a refusal. The spawner refuses reads of releases and copies for lanes with the same frame as files.
    fn refused(&mut self, request: u32, mut refused: Refused) {
        let purpose = self.workers.pending.get(&request);
        if let Some(PendingRequest::Files(_) | PendingRequest::Lend(..)) = purpose {
            let why = refused.problems.first().map_or("", |problem| problem.message.as_str());
            return self.request_failed(request, why);
        }
        // A request that stays here would count as unanswered for ever, such as a reload.
        self.workers.pending.remove(&request);
        if self.workers.welcome.is_of_0_1() {
            refused_by_0_1(&mut refused);
        }
        self.judged(request, InstallAnswer::Refused(Box::new(refused)));
    }

    fn failed(&mut self, request: u32, message: &str) {
        self.report(ReportEvent::NodeError(format_args!("fnd-spawner: {message}")));
        if self.secret_answered(request, SecretsAnswer::Failed(message.to_owned())) {
            return;
        }
        // Actions that were put off may be about this function, and the decision must know them.
        self.catch_up();
        // A failure does not say which kind of request it answers, so each book of requests is asked.
        self.decide_lifecycle(|lifecycle, node, out| lifecycle.failed(request, message, node.now.mono, out));
        self.request_failed(request, message);
    }

    /// Handles a request that has failed, or a program of fnd that could not be started as a function's user.
    fn request_failed(&mut self, request: u32, message: &str) {
        match self.workers.pending.remove(&request) {
            Some(PendingRequest::Spawn(asked)) => {
                self.workers.release_tmp(asked.tmp);
                self.workers.masks.forget(asked.worker);
                let (worker, message) = (asked.worker, message.to_owned());
                self.step(Event::SpawnFailed { worker, message });
            }
            Some(PendingRequest::Prune(asked)) => self.pruned(*asked, false),
            Some(PendingRequest::Seal(lane)) => self.sealed(&lane, Some(message.to_owned())),
            Some(PendingRequest::Lend(lane, tree)) => self.lent((lane, tree), Err(message.to_owned())),
            Some(PendingRequest::Watch(asked)) => self.watcher_failed(&asked.0, message),
            Some(PendingRequest::Measure(worker)) => self.measurement_failed(worker, message),
            // An error: the caller has gone.
            Some(PendingRequest::Files(sender)) => drop(sender.send(Err(message.to_owned()))),
            Some(PendingRequest::Reload) | None => {}
        }
    }

    /// Handles the start of a worker or of a program of fnd.
    fn started(&mut self, request: u32, spawned: &Spawned, descriptors: Vec<OwnedFd>) {
        let ends = PipeEnds::take(spawned, descriptors);
        match self.workers.pending.remove(&request) {
            Some(PendingRequest::Watch(asked)) => self.watcher_runs(*asked, ends),
            Some(PendingRequest::Measure(worker)) => self.measurement_runs(worker, ends),
            Some(PendingRequest::Spawn(starting)) => {
                let user = self.serving(&starting.meta.function).map(|serving| serving.uid);
                let event = self.workers.started(*starting, ends, &self.output, user);
                self.step(event);
            }
            // Nothing is started for the other requests.
            _ => {}
        }
    }

    /// Handles a worker whose leaf is empty. Its end is complete once its output is.
    pub(crate) fn exited(&mut self, frame: Exited) {
        // An answer that the worker sent before it ended counts, so it is read before the end is handled.
        self.drain_messages(frame.worker);
        if !self.workers.read_out(&frame) {
            self.ended_with_all(frame);
        }
    }

    /// Ends a worker whose last messages and answers were read, once there is room for its result.
    pub(super) fn ended_with_all(&mut self, frame: Exited) {
        let size = self.workers.result_size(frame.worker);
        if size == 0 {
            // Most runs have no result file, or an empty one: they wait for nothing.
            return self.finish(frame, None);
        }
        match self.callers.buffers.reserve_now(size) {
            Some(reserved) => self.finish(frame, Some(reserved)),
            None => self.wait_for_room(size, (frame, None)),
        }
    }

    /// Reads the rest of the output of a worker that has ended, and its result.
    pub(super) fn finish(&mut self, frame: Exited, reserved: Option<Reservation>) {
        let (mut result, printed) = self.workers.detach(frame.worker);
        // The records of these calls come with the event of the end, so the wait must be noted before.
        printed.into_iter().for_each(|call| self.records.await_output(call));
        // A script that printed nothing is answered at once, without waking the output thread.
        if let Some(captured) = self.output.finish_silent(frame.worker, &mut result) {
            return self.captured(&frame, captured, reserved);
        }
        let messages = self.messages.clone();
        self.output.finish(frame.worker, result, move |captured| {
            let _ = messages.send(DriverMessage::Captured(Box::new((frame, captured, reserved)))); // an error: fnd is stopping
        });
    }
}

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
            WorkerMessage::Part { call, head, data } => {
                let find = |id: InvocationId| self.callers.live.get(&id).cloned();
                self.workers.pass_part((worker, call), (head, &data), find);
            }
            WorkerMessage::Result { call, head, data } => {
                self.workers.complete_stream(worker, call);
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

    /// Counts a large result against the budget for bodies and answers until its bytes are freed.
    pub(super) fn carry(&self, result: &mut Option<RunResult>, reserved: Reservation) {
        if let Some(result) = result.as_mut().filter(|result| result.data.len() as u64 > SMALL) {
            result.data = self.callers.buffers.carry(std::mem::take(&mut result.data), reserved);
        }
    }

    /// Handles the messages that a worker sent before it ended: the end of the worker may be reported before its messages
    /// are read. The worker gets no more calls.
    pub(super) fn drain_messages(&mut self, worker: WorkerId) {
        let Some(member) = self.workers.member(worker) else {
            return;
        };
        // The conversation is still needed after `Closed`. From then on the supervisor sends this worker no call.
        let conversation = member.conversation();
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
        let (masks, state) = (&self.workers.masks, &self.node.places.state);
        let answered = masks.answered(state, (worker, call), how, result);
        // The output is marked before the answer is handled: the next call may be sent in the same step. The record
        // must also find that its output is awaited.
        if let Some(printed) = self.workers.end_call(worker, call) {
            self.records.await_output(printed);
        }
        self.answer_first(Event::Answered(answered));
    }

    /// Handles a failure whose message is the last line that the call printed. If the call printed something, the answer
    /// waits until the output thread has read the output.
    fn answered_as_printed(&mut self, worker: WorkerId, call: u64, how: (Reason, String), result: Option<RunResult>) {
        let (masks, state) = (&self.workers.masks, &self.node.places.state);
        let answered = masks.answered(state, (worker, call), how, result);
        let Some(key) = self.workers.end_call(worker, call) else {
            return self.answer_first(Event::Answered(answered));
        };
        self.records.await_output(key);
        self.workers.unexplained.push((key, answered));
    }

    /// Reports the failures that waited for the last line that their calls printed. Without a line, a failure keeps its
    /// message.
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
