//! The messages of tasks to the driver, and the one way in. This folder is the ground floor of the daemon: it knows the types of
//! fnd-core, of fnd-wire and of `buffers`, and neither the driver nor a part.
//!
//! Files:
//! - `tasks`: the tasks of the main thread

mod tasks;

pub(crate) use tasks::TaskOwner;

use crate::buffers::Reservation;
use fnd_core::quota::Measured;
use fnd_core::records::RunResult;
use fnd_core::records::outcome::Reason;
use fnd_core::records::protocol::WorkerMessage;
use fnd_core::run::Event;
use fnd_core::triggers::file::message::FromWatcher;
use fnd_wire::frame::Exited;
use fnd_wire::ids::{FunctionName, WorkerId};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;
use tasks::Tasks;

/// Why the alarm rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AlarmCause {
    /// The time that was set has come.
    Due,
    /// The wall clock was set. The timer has to be set again.
    ClockSet,
}

/// An input of the driver.
pub(crate) enum Input {
    /// An event for the supervisor.
    Event(Event),
    /// The service manager's watchdog was told that fnd lives; with the time at which that was due.
    Pulse(Instant),
    /// A message of a worker; with the room for its result.
    WorkerMessage(WorkerId, WorkerMessage, Option<Reservation>),
    /// A call is over, and how.
    Answered(WorkerId, u64, (Reason, String), Option<RunResult>),
    /// The last answers of a worker that has ended were read.
    ReadOut(Exited),
    /// A file on the way to an interpreter may have changed.
    Interpreters,
    /// A message of a watcher of files, or why its message cannot be read.
    Watcher(WorkerId, Result<FromWatcher, String>),
    /// The result of a process that measures; absent if it has none.
    Measured(WorkerId, Option<Measured>),
    /// The ledger knows files of this function, which may no longer exist.
    FilesOf(FunctionName),
    /// The alarm of the schedules rings.
    Alarm(AlarmCause),
    /// The problem of a place where metrics are exposed, or that it has none.
    MetricsPlace(&'static str, Option<String>),
    /// A task ended unexpectedly, and why.
    TaskEnded(TaskOwner, String),
}

/// The way in for tasks. It also starts them.
#[derive(Clone)]
pub(crate) struct Inbox {
    /// Handles an input; returns whether fnd goes on.
    send: Rc<dyn Fn(Input) -> bool>,
    tasks: Rc<Tasks>,
    is_leaving: Rc<Cell<bool>>,
}

impl Inbox {
    /// Returns the way in. `send` handles an input now, and returns whether fnd goes on.
    pub(crate) fn new(send: impl Fn(Input) -> bool + 'static) -> Self {
        Self {
            send: Rc::new(send),
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
        (self.send)(input)
    }
}
