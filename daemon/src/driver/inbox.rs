//! The inputs of the driver, and the one way in.

use super::tasks::{TaskOwner, Tasks};
use super::{Daemon, Driver, DriverMessage, exited};
use crate::buffers::{Reservation, SMALL};
use crate::ledger::Acknowledged;
use crate::output::Captured;
use crate::triggers::schedule::Ring;
use crate::workers::link::Incoming;
use fnd_core::quota::Measured;
use fnd_core::records::RunResult;
use fnd_core::records::outcome::{Reason, Trigger};
use fnd_core::records::protocol::WorkerMessage;
use fnd_core::report::ReportEvent;
use fnd_core::supervisor::Event;
use fnd_core::triggers::file::message::FromWatcher;
use fnd_wire::frame::{ExitStatus, Exited};
use fnd_wire::ids::{FunctionName, WorkerId};
use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;

/// An input of the driver.
pub(crate) enum Input {
    /// An event for the supervisor.
    Event(Event),
    /// A frame of the spawner.
    Frame(Incoming),
    /// A message of another thread.
    Message(DriverMessage),
    /// The time for which the main loop waited has come.
    Tick(Option<Instant>),
    /// The service manager's watchdog was told that fnd lives; with the time at which that was due.
    Pulse(Instant),
    /// A worker says something; with the room for its result.
    WorkerMessage(WorkerId, WorkerMessage, Option<Reservation>),
    /// There is room for the result of a script that has ended: it can be read, or was captured already.
    Room(Box<(Exited, Option<Captured>)>, Reservation),
    /// A call is over, and how.
    Answered(WorkerId, u64, (Reason, String), Option<RunResult>),
    /// The last answers of a worker that has ended were read.
    ReadOut(Exited),
    /// A file on the way to an interpreter may have changed.
    Interpreters,
    /// A watcher of files says something, or something that cannot be read, and why.
    Watcher(WorkerId, Result<FromWatcher, String>),
    /// What a process has measured; nothing if it has no result.
    Measured(WorkerId, Option<Measured>),
    /// The ledger knows files of this function, which may no longer exist.
    FilesOf(FunctionName),
    /// The timer of the schedules rings.
    Alarm(Ring),
    /// The problem of a place where metrics are exposed, or that it has none.
    MetricsPlace(&'static str, Option<String>),
    /// A task ended unexpectedly, and why.
    TaskEnded(TaskOwner, String),
}

/// The way in for tasks and threads.
#[derive(Clone)]
pub(crate) struct Inbox {
    daemon: Weak<Daemon>,
    messages: mpsc::UnboundedSender<DriverMessage>,
    pub(super) tasks: Rc<Tasks>,
    is_leaving: Rc<Cell<bool>>,
}

impl Inbox {
    pub(crate) fn new(daemon: Weak<Daemon>, messages: mpsc::UnboundedSender<DriverMessage>) -> Self {
        Self {
            daemon,
            messages,
            tasks: Rc::default(),
            is_leaving: Rc::default(),
        }
    }

    /// Says that fnd ends: it closes the connections that are still open.
    pub(crate) fn leaves(&self) {
        self.is_leaving.set(true);
    }

    /// Returns whether fnd ends, so that a caller whose connection is closed may not have left.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    /// Handles an input now. Returns whether fnd goes on; the input of a task that outlives fnd is dropped.
    pub(crate) fn input(&self, input: Input) -> bool {
        let daemon = self.daemon.upgrade();
        if let Some(daemon) = &daemon {
            daemon.input(input);
        }
        daemon.is_some()
    }

    /// Returns the daemon, while fnd runs.
    pub(crate) fn daemon(&self) -> Option<Rc<Daemon>> {
        self.daemon.upgrade()
    }

    /// Returns the way in for another thread. A message that comes while fnd stops is dropped.
    pub(crate) fn for_threads(&self) -> mpsc::UnboundedSender<DriverMessage> {
        self.messages.clone()
    }
}

impl Daemon {
    /// Handles an input. Actions that no caller waits for may be performed a moment later.
    pub(crate) fn input(&self, input: Input) {
        if !self.input_of_loop(input) {
            self.wake_if_due();
        }
    }

    /// The same for the main loop, which need not be woken. Returns whether something was put off.
    pub(super) fn input_of_loop(&self, input: Input) -> bool {
        let put_off = {
            let mut state = self.state.borrow_mut();
            state.input(input);
            state.turn.is_put_off()
        };
        if put_off {
            self.put_off.notify_one();
        }
        put_off
    }
}

impl Driver {
    fn input(&mut self, input: Input) {
        match input {
            Input::Event(event) => self.step(event),
            Input::Frame(incoming) => {
                // Any frame shows that the spawner works. The supervisor learns that before it handles what the frame
                // says.
                if let Some(event) = self.workers.heard() {
                    self.step(event);
                }
                self.incoming(incoming);
                self.settle();
            }
            Input::Message(message) => {
                // Actions on the subject of the message may have been put off.
                self.catch_up();
                self.message(message);
                self.settle();
            }
            Input::Tick(wanted) => {
                self.late(wanted);
                self.step(Event::Tick);
                self.write_due();
                self.install_due();
                self.promote_due();
                self.alerts_due();
                self.ask_for_tls_if_due();
                self.watchers_due();
                self.measure_due();
            }
            Input::Pulse(wanted) => {
                self.late(Some(wanted));
                self.workers.ping();
            }
            Input::WorkerMessage(worker, message, reserved) => self.handle_message(worker, message, reserved),
            Input::Room(both, reserved) => {
                let (frame, captured) = *both;
                match captured {
                    None => self.finish(frame, Some(reserved)),
                    Some(captured) => self.captured_with_room(&frame, captured, reserved),
                }
            }
            Input::Answered(worker, call, how, result) => self.answered(worker, call, how, result),
            Input::ReadOut(frame) => self.ended_with_all(frame),
            Input::TaskEnded(owner, why) => self.task_ended(owner, &why),
            Input::Interpreters => self.check_interpreters(),
            Input::Watcher(worker, said) => self.watcher_said(worker, said),
            Input::Measured(worker, said) => self.measurement_said(worker, said),
            Input::FilesOf(function) => self.forget_files_of(function),
            Input::Alarm(ring) => self.alarm(ring),
            Input::MetricsPlace(place, problem) => {
                if self.reporter.exposed.set_problem(place, problem) {
                    self.problems_changed();
                }
            }
        }
    }

    fn message(&mut self, message: DriverMessage) {
        match message {
            DriverMessage::Catalog(event) => self.catalog_event(event),
            DriverMessage::Stored(Acknowledged::Stored { id, result }) => {
                if let Err(error) = &result {
                    tracing::error!("failed to store the invocation {id}: {error}");
                }
                // The mark of a slot is in the transaction of its invocation: a slot that is not stored is due again
                // later.
                self.schedules.stored(id, result.is_ok(), self.clock.now().unix_ms);
                // The invocation may be over already: its watcher hears of its end after this.
                self.files_stored(id, result.is_ok());
                self.answer_first(match result {
                    Ok(()) => Event::Stored(id),
                    Err(_) => Event::StoreFailed(id),
                });
            }
            DriverMessage::Stored(Acknowledged::Published { number, result }) => match result {
                Ok(shares) => {
                    // The shares are reported only now: if the ledger knew the event already, these shares were
                    // dropped.
                    for (function, id) in &shares.invocations {
                        self.report(ReportEvent::Accepted {
                            function,
                            id: *id,
                            trigger: Trigger::Event,
                        });
                    }
                    // A hundred functions may start now; the sender of the event does not wait for that.
                    self.answer_first(Event::Published {
                        number,
                        earlier: shares.earlier,
                    });
                }
                Err(error) => {
                    tracing::error!("failed to store the invocations of an event: {error}");
                    self.step(Event::PublishFailed(number));
                }
            },
            DriverMessage::Stored(Acknowledged::Claimed { ids, result }) => {
                if let Err(error) = &result {
                    let count = ids.len();
                    tracing::error!(
                        "failed to claim {count} queued invocations: {error}; they wait and are claimed again"
                    );
                }
                self.step(match result {
                    Ok(()) => Event::Claimed(ids),
                    Err(_) => Event::ClaimFailed(ids),
                });
            }
            DriverMessage::Stored(Acknowledged::Changed { number, result }) => {
                if let Err(error) = &result {
                    tracing::error!("failed to store a change that somebody has asked for: {error}");
                }
                self.callers.change_stored(number, result);
            }
            DriverMessage::Stored(Acknowledged::FilesEnded {
                function,
                id,
                success,
                contents,
            }) => self.files_ended(&function, (id, success), contents),
            DriverMessage::Stored(Acknowledged::HealthChanged) => self.problems_changed(),
            // The spawner may forget the workers only now: until they are recorded, the next fnd would have to ask it
            // about them.
            DriverMessage::Stored(Acknowledged::Recorded(workers)) => {
                for worker in workers {
                    self.forget(worker);
                }
            }
            DriverMessage::ProblemsChanged => self.problems_changed(),
            DriverMessage::OutputRead(key, captured) => {
                self.explain(captured.last_error_line.as_deref(), |waiting, _| waiting == key);
                if let Some(ended) = self.records.output_counted(key, &captured) {
                    self.record(ended, &captured.last_lines);
                }
            }
            DriverMessage::Captured(all) => {
                let (frame, captured, reserved) = *all;
                self.captured(&frame, captured, reserved);
            }
        }
    }

    /// Handles the end of a worker of which all output was read. A large result that was printed has no room yet.
    pub(super) fn captured(&mut self, frame: &Exited, captured: Captured, reserved: Option<Reservation>) {
        let size = captured.result.as_ref().map_or(0, |result| result.data.len() as u64);
        if size <= SMALL {
            // A small result needs no reservation. One that was made by the size of the result file is given back here.
            return self.captured_with_room(frame, captured, Reservation::default());
        }
        match reserved.or_else(|| self.callers.buffers.reserve_now(size)) {
            Some(reserved) => self.captured_with_room(frame, captured, reserved),
            None => self.wait_for_room(size, (frame.clone(), Some(captured))),
        }
    }

    /// Waits for room for the result of a script, which has ended.
    pub(super) fn wait_for_room(&mut self, size: u64, both: (Exited, Option<Captured>)) {
        let (inbox, worker) = (self.inbox.clone(), both.0.worker);
        let room = Arc::clone(&self.callers.buffers).reserve(size);
        // The worker has ended and only the disk is late, so no time limit of the attempt may count any more.
        self.step(Event::EndsLater(worker));
        self.inbox.spawn(TaskOwner::Worker(worker), async move {
            inbox.input(Input::Room(Box::new(both), room.await));
        });
    }

    /// Handles the end of a worker whose result has room.
    fn captured_with_room(&mut self, frame: &Exited, mut captured: Captured, reserved: Reservation) {
        // What the next attempt gets as the result of this one stays in memory for long.
        if frame.status != ExitStatus::Code(99) {
            self.carry(&mut captured.result, reserved);
        }
        let output = std::mem::take(&mut captured.last_lines);
        if !output.is_empty() {
            self.follow_ups.outputs.insert(frame.worker, output);
        }
        // The worker has answered before it ended.
        self.explain(None, |_, answered| answered.worker == frame.worker);
        let exited = exited(frame, captured, &self.node.places.state);
        self.show_and_answer_first(Event::Exited(Box::new(exited)));
        // The masks go last: until here a message about the worker may contain a value.
        self.workers.masks.forget(frame.worker);
    }
}
