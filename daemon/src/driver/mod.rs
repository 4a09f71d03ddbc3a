//! The one task that owns the state: sources → [`Event`] → supervisor → [`perform`]. The supervisor decides about runs, the
//! lifecycle about versions. This folder carries out what they decide.
//!
//! Callers (through `backend`) and tasks (through [`Inbox`]) call it inline, on the same thread: no channel lies between
//! a request and its worker.
//!
//! Files:
//! - `follow_ups`: what follows from a change: status files, reports, and the calls of hooks and alerts
//! - `frames`: turns frames of the spawner and messages of workers into events of the supervisor
//! - `inputs`: handles the inputs of the driver, and requests about the whole node
//! - `orders`: carries out the orders of the lifecycle, and has functions measured
//! - `perform`: carries out what the supervisor decides, and submits runs
//! - `releases`: hands what is seen and asked about files and releases to the lifecycle
//! - `triggers`: keeps schedules, watchers of files, messages of NATS and secrets in step with the functions that serve

mod follow_ups;
mod frames;
mod inputs;
mod orders;
mod perform;
pub(crate) mod releases;
mod triggers;

use crate::buffers::Reservation;
use crate::callers::Callers;
use crate::callers::spin::Spin;
use crate::clock::{Clock, Ids};
use crate::follow_ups::FollowUps;
use crate::functions::Functions;
use crate::functions::api_sockets::FunctionSockets;
use crate::functions::catalog::CatalogEvent;
use crate::input::{Inbox, Input, TaskOwner};
use crate::ledger;
use crate::output::{Captured, Output, Records, message};
use crate::quotas::Measurements;
use crate::report::Reporter;
use crate::settings::NodeInfo;
use crate::stores::audit::Audit;
use crate::stores::kv::StateStore;
use crate::triggers::files::Watchers;
use crate::triggers::http::Listener;
use crate::triggers::nats::Messages;
use crate::triggers::nats::fact::NatsFact;
use crate::triggers::nats::port::NatsPort;
use crate::triggers::schedule;
use crate::triggers::secrets::TriggerSecrets;
use crate::views::trees::TreesOnDisk;
use crate::workers::Workers;
use crate::workers::link::{ConnectionError, has_room};
use fnd_core::lifecycle::installed_version::ServingVersion;
use fnd_core::lifecycle::waiting_builds::BuildEnd;
use fnd_core::lifecycle::{CheckEnd, Lifecycle};
use fnd_core::records::cause::AlertCondition;
use fnd_core::report::ReportEvent;
use fnd_core::run::{Action, Answer, Event, Supervisor};
use fnd_core::triggers::nats::memory::KnownMessage;
use fnd_wire::frame::Exited as ExitFrame;
use fnd_wire::ids::{Attempt, FunctionName, InvocationId};
pub(crate) use inputs::LoopInput;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// Frames taken from the spawner before other sources get a turn.
const FRAMES_PER_TURN: u32 = 256;

/// How long fnd waits for the last answers of a spawner that ends with it: the spawner has to remove directories.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// The messages that other threads send to the driver. The channel is unbounded: each message answers something the
/// driver asked for, so there are never more of them than running attempts and unacknowledged invocations. The messages
/// of the catalog are bounded by the number of files in its directories.
#[derive(Debug)]
pub enum DriverMessage {
    /// Something changed in the functions directories.
    Catalog(CatalogEvent),
    /// The ledger has stored what it was given, or failed to.
    Stored(ledger::Acknowledged),
    /// A worker ended and its output is complete.
    Captured(Box<(ExitFrame, Captured, Option<Reservation>)>),
    /// The problems of a part that has a thread of its own may have changed.
    ProblemsChanged,
    /// All output of a call that has ended was read.
    OutputRead((InvocationId, Attempt), Box<Captured>),
    /// There is room for the result of a script that has ended. The output thread still has to read the result, or has
    /// captured it already.
    Room(Box<(ExitFrame, Option<Captured>)>, Reservation),
    /// The thread of NATS says something. Its own channel is bounded; the main loop reads it.
    Nats(NatsFact),
    /// The number of a delivery of NATS, and the row that the ledger has of its message, or why the ledger does not
    /// answer.
    MessageKnown(u64, Result<Option<Box<KnownMessage>>, String>),
    /// The ended invocation of a message, or why the ledger does not answer.
    MessageEndRead(InvocationId, Result<Option<Box<ledger::StoredInvocation>>, String>),
    /// The answer to a request that somebody has sent by NATS, for this inbox.
    RequestAnswered(FunctionName, Arc<str>, Box<Answer>),
}

/// Everything the driver owns: the supervisor, which decides, and the parts, which do.
pub(crate) struct Driver {
    pub(crate) clock: Clock,
    pub(crate) ids: Ids,
    pub(crate) supervisor: Supervisor,
    pub(crate) turn: PendingWork,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) functions: Functions,
    pub(crate) trees: TreesOnDisk,
    pub(crate) workers: Workers,
    pub(crate) secrets: TriggerSecrets,
    pub(crate) schedules: schedule::ScheduleTimer,
    pub(crate) watchers: Watchers,
    /// The messages of NATS, and the thread that brings them.
    pub(crate) nats: Messages,
    pub(crate) nats_port: NatsPort,
    pub(crate) quotas: Measurements,
    pub(crate) records: Records,
    pub(crate) follow_ups: FollowUps,
    pub(crate) output: Output,
    pub(crate) reporter: Reporter,
    pub(crate) callers: Callers,
    pub(crate) spin: Rc<Spin>,
    pub(crate) listener: Rc<Listener>,
    pub(crate) audit: Audit,
    /// The values that functions share.
    pub(crate) state: StateStore,
    /// The sockets of functions that may do something here.
    pub(crate) function_sockets: Rc<FunctionSockets>,
    pub(crate) node: NodeInfo,
    pub(crate) inbox: Inbox,
    /// The way in for other threads, and for tasks whose message may wait for the main loop.
    pub(crate) messages: mpsc::UnboundedSender<DriverMessage>,
    /// Wakes the main loop for another turn.
    pub(crate) changed: Rc<Notify>,
    /// Grows with each input, decision, action and report. While it stays, a list of functions differs at most in values that are
    /// measured, and in the numbers of dead letters.
    pub(crate) changes: u64,
}

/// The work that handled events have left to do.
#[derive(Default)]
pub(crate) struct PendingWork {
    /// Events that follow at once from performing an action; handled before anything else.
    pub(crate) follow_up: VecDeque<Event>,
    /// Functions whose watcher of files is to be started. The spawner wants the numbers of workers in their order, so this
    /// waits until every action is performed.
    pub(crate) watchers: VecDeque<FunctionName>,
    /// Functions that are to be measured; this waits for the same reason.
    pub(crate) measurements: VecDeque<FunctionName>,
    /// Ends of `fnd-build`, whose functions are handled once every action is performed.
    pub(crate) builds: VecDeque<BuildEnd>,
    /// Ends of `fnd-check`, for the same reason.
    pub(crate) checks: VecDeque<CheckEnd>,
    /// The actions of the last event that are not performed yet: no caller waits for them.
    pub(crate) rest: VecDeque<Action>,
    /// Space for the actions of one event, used again for each.
    pub(crate) actions: Vec<Action>,
    /// Why fnd cannot go on.
    pub(crate) failed: Option<String>,
    /// When the main loop wakes by itself.
    pub(crate) wakes_at: Option<Duration>,
}

impl PendingWork {
    /// Returns whether something is to be done yet.
    pub(crate) fn is_put_off(&self) -> bool {
        !self.rest.is_empty()
            || !self.follow_up.is_empty()
            || !self.watchers.is_empty()
            || !self.builds.is_empty()
            || !self.checks.is_empty()
            || !self.measurements.is_empty()
    }
}

/// The daemon: shared by the main loop and the control server, both on one thread.
pub struct Daemon {
    pub(crate) state: RefCell<Driver>,
    /// Wakes the main loop for another turn.
    pub(crate) changed: Rc<Notify>,
    /// Wakes the task that does work that was put off: [`PendingWork::is_put_off`].
    pub(crate) put_off: Notify,
    /// The way in for tasks and threads, which also starts tasks.
    pub(crate) inbox: Inbox,
}

impl Driver {
    /// Returns the version of a function that serves.
    pub(crate) fn serving(&self, name: &FunctionName) -> Option<&ServingVersion> {
        self.lifecycle.serving(name)
    }

    /// Reports by how much the main loop woke too late.
    pub(crate) fn late(&mut self, wanted: Option<Instant>) {
        if let Some(wanted) = wanted {
            let late = crate::clock::monotonic().saturating_duration_since(wanted);
            self.report(ReportEvent::WokeLate(late));
        }
    }

    fn next_deadline(&self) -> Option<Duration> {
        let due = [
            self.supervisor.next_deadline(),
            self.reporter.status_files.next_due(),
            self.lifecycle.next_due(),
            self.alerts_next_due(),
            self.next_promotion(),
            self.triggers_next_due(),
            self.quotas.books.next_due(),
        ];
        due.into_iter().flatten().min()
    }

    /// Ends what was started: writes status files and kept output, and closes the spawner's socket.
    pub(crate) fn close(&mut self) {
        // The actions that were put off hold records and changes of status, which are written below.
        self.catch_up();
        self.record_due(None);
        for function in self.reporter.status_files.all_due() {
            self.write_status(&function);
        }
        self.output.stop();
        self.nats_port.thread.end();
        // The spawner in development ends with this socket. Every last request has been sent before.
        self.workers.connection = None;
    }
}

impl Daemon {
    /// Returns the daemon with its state, which is made with the way in for tasks and threads.
    pub(crate) fn new(state: impl FnOnce(Inbox, Rc<Notify>) -> Driver) -> Rc<Self> {
        Rc::new_cyclic(|daemon: &Weak<Self>| {
            let changed = Rc::new(Notify::new());
            let daemon = Weak::clone(daemon);
            let inbox = Inbox::new(move |input| {
                let daemon = daemon.upgrade();
                if let Some(daemon) = &daemon {
                    daemon.input(input);
                }
                daemon.is_some()
            });
            Self {
                state: RefCell::new(state(inbox.clone(), Rc::clone(&changed))),
                inbox,
                changed,
                put_off: Notify::new(),
            }
        })
    }

    /// Handles one event and everything that follows from it at once.
    pub fn step(&self, event: Event) {
        self.input(Input::Event(event));
    }

    /// Handles one event and does the work that a caller waits for. The rest follows after the tasks of the callers.
    pub(crate) fn answer_first(&self, event: Event) {
        self.state.borrow_mut().answer_first(event);
        self.put_off.notify_one();
    }

    /// Does the actions that were put off, whenever there are some.
    pub(crate) async fn catch_up(self: Rc<Self>) {
        loop {
            self.put_off.notified().await;
            self.catch_up_now();
        }
    }

    /// Does the actions that were put off.
    pub(crate) fn catch_up_now(&self) {
        {
            let mut state = self.state.borrow_mut();
            state.catch_up();
            // The end of an attempt may have made room for a message.
            state.ask_for_messages();
            state.catch_up();
        }
        self.wake_if_due();
    }

    /// Checks whether the spawner answers. Returns when to check again.
    pub(crate) fn check_silence(&self) -> Option<Duration> {
        let (next, event) = self.state.borrow_mut().workers.check_silence();
        if let Some(event) = event {
            self.step(event);
        }
        self.wake_if_due();
        next
    }

    /// Wakes the main loop if it would wake too late. It is not woken otherwise: a turn of it costs as much as a call.
    pub(crate) fn wake_if_due(&self) {
        let state = self.state.borrow();
        let next = state.next_deadline();
        let sooner = next.is_some_and(|next| state.turn.wakes_at.is_none_or(|at| next < at));
        let connection = state.workers.connection.as_ref();
        let waiting = connection.is_some_and(|connection| connection.room().is_some());
        // The main loop watches the spawner's socket for room only in turns in which frames waited at their begin.
        if sooner || waiting {
            self.changed.notify_one();
        }
    }

    /// Runs until the spawner is gone. Everything the spawner had started is dead then and is recorded as interrupted,
    /// and fnd ends. The service manager (or a person) starts both again.
    ///
    /// # Errors
    /// Always: how the connection broke.
    pub async fn run(&self, messages: &mut mpsc::UnboundedReceiver<DriverMessage>) -> ConnectionError {
        let Err(error) = self.turn(messages).await;
        self.spawner_is_lost();
        error
    }

    /// Handles the end of the connection to the spawner.
    pub(crate) fn spawner_is_lost(&self) {
        // The main loop takes no further turn. So the ends of all attempts, and the alert about the spawner, are handled
        // here.
        self.step(Event::SpawnerLost);
        let mut state = self.state.borrow_mut();
        state.node_problem(
            AlertCondition::SpawnerLost,
            "fnd-spawner is gone, and every function with it",
        );
        state.catch_up();
    }

    async fn turn(&self, messages: &mut mpsc::UnboundedReceiver<DriverMessage>) -> Result<Infallible, ConnectionError> {
        loop {
            let deadline = self.before_waiting()?;
            let timer = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Cancel-safe, as its comment says.
                exchanged = self.exchange() => exchanged?,
                // Cancel-safe: a message is taken or stays (tokio, `UnboundedReceiver::recv`).
                Some(message) = messages.recv() => {
                    if self.input_of_loop(LoopInput::Message(message)) {
                        // Callers have their answers now. Their tasks run before the work that was put off, which the
                        // next message would do first.
                        tokio::task::yield_now().await;
                    }
                }
                // Cancel-safe: a fact is taken or stays.
                said = poll_fn(|context| self.state.borrow_mut().nats_port.thread.poll(context)) => {
                    let input = match said {
                        Some(fact) => LoopInput::Message(DriverMessage::Nats(fact)),
                        None => {
                            let why = "its thread has ended".to_owned();
                            LoopInput::Input(Input::TaskEnded(TaskOwner::Fnd("the connection to NATS"), why))
                        }
                    };
                    if self.input_of_loop(input) {
                        tokio::task::yield_now().await; // as after a message
                    }
                }
                // Cancel-safe: the next turn computes the deadline anew.
                () = timer => drop(self.input_of_loop(LoopInput::Tick(deadline))),
                // Cancel-safe: a notification is kept until a task waits for it.
                () = self.changed.notified() => {}
            }
        }
    }

    /// Begins a turn of the main loop: reports problems and computes the deadline, which it returns.
    pub(crate) fn before_waiting(&self) -> Result<Option<Instant>, ConnectionError> {
        // The state is borrowed here only. Tasks and the control server borrow it while the loop waits.
        let mut state = self.state.borrow_mut();
        if let Some(why) = state.turn.failed.take() {
            state.report(ReportEvent::NodeError(format_args!(
                "{why}; fnd ends, its functions go on"
            )));
            // fnd ends as after a panic of the main loop: its functions go on.
            resume_unwind(Box::new(why));
        }
        // A problem may set a deadline (a status file, an alert), so the problems come before the deadline is computed.
        state.report_problems();
        state.turn.wakes_at = state.next_deadline();
        state.workers.connection.as_ref().ok_or(ConnectionError::Closed)?;
        Ok(state.turn.wakes_at.map(|mono| state.clock.instant(mono)))
    }

    /// Waits until the spawner has answered everything. The spawner ends with the connection, so a directory that it
    /// was asked to remove last would stay otherwise.
    pub(crate) async fn last_answers(&self) {
        self.state.borrow_mut().end_measurements();
        // An error is ignored: the connection is closed a moment later anyway.
        if tokio::time::timeout(LAST_ANSWERS, self.answers()).await.is_err() {
            self.state.borrow_mut().report(ReportEvent::NodeWarning(format_args!(
                "fnd-spawner has not answered within {LAST_ANSWERS:?}: directories of workers may stay"
            )));
        }
    }

    async fn answers(&self) -> Result<(), ConnectionError> {
        loop {
            let is_over = {
                let state = self.state.borrow();
                let connection = state.workers.connection.as_ref().ok_or(ConnectionError::Closed)?;
                // A measurement that was killed asks for the removal of its directory only when its end is reported.
                connection.is_answered() && state.quotas.is_idle()
            };
            if is_over {
                return Ok(());
            }
            self.exchange().await?;
        }
    }

    /// Waits for frames, and for room where frames wait to be sent; receives or sends them. Cancel-safe: readiness is
    /// cleared only after a read that returned nothing. Room that was seen and not used is seen again, since frames
    /// still wait.
    async fn exchange(&self) -> Result<(), ConnectionError> {
        let (socket, room) = {
            let state = self.state.borrow();
            let connection = state.workers.connection.as_ref().ok_or(ConnectionError::Closed)?;
            (connection.socket(), connection.room())
        };
        tokio::select! {
            ready = socket.readable() => {
                let mut ready = ready.map_err(ConnectionError::Io)?;
                if self.frames()? {
                    ready.clear_ready();
                }
            }
            ready = has_room(room.as_deref()) => {
                ready?;
                let mut state = self.state.borrow_mut();
                state.workers.connection.as_mut().ok_or(ConnectionError::Closed)?.flush()?;
            }
        }
        Ok(())
    }

    /// Receives frames; returns whether there are no more for now.
    fn frames(&self) -> Result<bool, ConnectionError> {
        for _ in 0..FRAMES_PER_TURN {
            if !self.frame()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Receives and handles one frame; returns whether there was one.
    pub(crate) fn frame(&self) -> Result<bool, ConnectionError> {
        // The frame is handled without the borrow that received it, because handling a frame borrows the state again.
        let incoming = {
            let mut state = self.state.borrow_mut();
            let connection = state.workers.connection.as_mut().ok_or(ConnectionError::Closed)?;
            connection.receive()?
        };
        let Some(incoming) = incoming else { return Ok(false) };
        self.input_of_loop(LoopInput::Frame(incoming));
        Ok(true)
    }
}
