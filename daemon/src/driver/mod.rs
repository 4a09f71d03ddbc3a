//! The one task that owns the state: sources → [`Event`] → supervisor → [`perform`](crate::driver::perform). It decides
//! nothing.
//!
//! The control server calls [`Daemon::step`] inline, on the same thread: no channel lies between a request and its
//! worker.

pub(crate) mod ends;
mod perform;
mod requests;
mod view;

use crate::buffers::Buffers;
use crate::clock::{Clock, Ids};
use crate::driver::ends::Ends;
use crate::functions::catalog::{Catalog, CatalogEvent, Versions};
use crate::functions::installer::Installer;
use crate::functions::interpreters::Interpreters;
use crate::functions::registry::Functions;
use crate::http::connections::Connections;
use crate::ledger::{self, Acknowledged};
use crate::metrics::Exposed;
use crate::output::{Captured, Meta, Output};
use crate::report::{Reporter, StatusFiles};
use crate::settings::Current;
use crate::telemetry;
use crate::workers::handler::{AwaitedOutput, Member};
use crate::workers::http::endpoint::Endpoint;
use crate::workers::http::{ReadinessProbe, Upload};
use crate::workers::link::{Connection, ConnectionError, has_room};
use crate::workers::silence::Silence;
use fnd_core::api::NodePlaces;
use fnd_core::diagnostic::Diagnostic;
use fnd_core::supervisor::{Action, Answer, Event, Exited, ReplyTo, Rules, Supervisor};
use fnd_wire::frame::{Exited as ExitFrame, Welcome};
use fnd_wire::ids::{Attempt, FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc, oneshot};

/// Frames taken from the spawner before other sources get a turn.
const FRAMES_PER_TURN: u32 = 256;

/// How long fnd waits for the last answers of a spawner that ends with it: the spawner has to remove directories.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// The messages that other threads send to the driver. The channel is unbounded: each message answers something the
/// driver asked for, so there are never more of them than running attempts and unacknowledged invocations. The messages
/// of the catalog are bounded by the number of files in its directories.
#[derive(Debug)]
pub enum Message {
    /// Something changed in the functions directories.
    Catalog(CatalogEvent),
    /// The ledger has stored what it was given, or failed to.
    Stored(ledger::Acknowledged),
    /// A worker ended and its output is complete.
    Captured(Box<(ExitFrame, Captured)>),
    /// The problems of a part that has a thread of its own may have changed.
    ProblemsChanged,
    /// All output of a call that has ended was read.
    OutputRead((InvocationId, Attempt), Box<Captured>),
}

/// The descriptors and other parts that are attached to a running worker.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) kill: Option<OwnedFd>,
    pub(crate) result: Option<OwnedFd>,
    /// Present where the worker serves a handler.
    pub(crate) member: Option<Member>,
    /// Checks whether the worker is ready.
    pub(crate) readiness_probe: Option<ReadinessProbe>,
    /// The temporary files to remove when a handler's worker has ended.
    pub(crate) tmp: Option<(FunctionId, InvocationId)>,
}

/// The purpose of an outstanding request to the spawner.
#[derive(Debug)]
pub(crate) enum Asked {
    Reload,
    Spawn(Box<Starting>),
    /// The function, and the versions to keep.
    Prune(Box<(FunctionName, Vec<Version>)>),
}

/// A worker that is being started.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) worker: WorkerId,
    /// The invocation whose output it is; the output of a handler's worker belongs to none yet.
    pub(crate) meta: Meta,
    pub(crate) rules: Arc<Rules>,
    pub(crate) tmp: Option<(FunctionId, InvocationId)>,
    /// The address and key of a worker that serves HTTP.
    pub(crate) endpoint: Endpoint,
}

/// Everything the driver owns.
pub(crate) struct State {
    pub(crate) clock: Clock,
    pub(crate) ids: Ids,
    pub(crate) supervisor: Supervisor,
    pub(crate) functions: Functions,
    pub(crate) interpreters: Interpreters,
    pub(crate) installer: Installer,
    pub(crate) versions: Versions,
    /// Functions whose scripts may run because their file is there, once the directories are quiet.
    pub(crate) loading: HashSet<FunctionName>,
    /// Whether the directories have been quiet since the last change in them.
    pub(crate) quiet: bool,
    pub(crate) catalog: Catalog,
    /// Problems that the catalog saw in names and places.
    pub(crate) name_problems: Vec<Diagnostic>,
    /// Directories and files that the catalog could not read.
    pub(crate) unread: crate::functions::directories::Unread,
    /// Answers of the spawner about files that may have changed since it read them, by request.
    pub(crate) judged: HashMap<u32, crate::functions::confirming::Judged>,
    pub(crate) settings: Current,
    pub(crate) connection: Option<Connection>,
    pub(crate) welcome: Welcome,
    /// Functions that no longer existed when the spawner checked, and left files; in file form.
    pub(crate) left_behind: Vec<String>,
    pub(crate) asked: HashMap<u32, Asked>,
    pub(crate) attached: HashMap<WorkerId, Attached>,
    pub(crate) ledger: ledger::Writer,
    pub(crate) output: Output,
    pub(crate) log_keeper: crate::output::kept::Keeper,
    pub(crate) status: StatusFiles,
    pub(crate) messages: mpsc::UnboundedSender<Message>,
    pub(crate) replies: HashMap<ReplyTo, oneshot::Sender<Answer>>,
    pub(crate) last_reply: u64,
    /// Bodies and answers that are held for callers.
    pub(crate) buffers: Arc<Buffers>,
    /// The connections of the control socket.
    pub(crate) connections: Rc<Connections>,
    /// The callers that wait for the end of an invocation.
    pub(crate) ends: Ends,
    /// Bodies on their way to programs that serve HTTP, and the channels for their answers; `None` once the caller has
    /// gone.
    pub(crate) uploads: HashMap<InvocationId, Option<Upload>>,
    /// The directory in which the spawner makes directories for sockets of programs that serve HTTP; absent where the
    /// spawner is older than that.
    pub(crate) sockets: Option<PathBuf>,
    /// Calls of an earlier fnd whose connections ended with it.
    pub(crate) lost: Vec<(WorkerId, u64)>,
    /// The callers that wait until a scan is over and everything it saw is installed or refused.
    pub(crate) settling: Vec<(u64, oneshot::Sender<()>)>,
    pub(crate) reporter: Reporter,
    pub(crate) exposed: Exposed,
    pub(crate) reported_problems: crate::report::problems::Reported,
    /// Whether the service manager waits for the end of a reload.
    pub(crate) reloading: bool,
    /// The callers that wait for the end of a drain; `None` once the drain is over.
    pub(crate) drained: Option<Vec<oneshot::Sender<()>>>,
    pub(crate) started_ms: u64,
    /// Configuration, runtimes and state as fnd was started with; the spawner names the functions directories.
    pub(crate) places: NodePlaces,
    /// The process id of the spawner, where it is fnd's child.
    pub(crate) spawner_pid: Option<i32>,
    /// Events that follow at once from performing an action; handled before anything else.
    pub(crate) follow_up: VecDeque<Event>,
    /// The actions of the last event that are not performed yet: no caller waits for them.
    pub(crate) rest: VecDeque<Action>,
    /// Space for the actions of one event, used again for each.
    pub(crate) actions: Vec<Action>,
    /// When the main loop wakes by itself.
    pub(crate) wakes_at: Option<Duration>,
    /// Calls that have ended and whose output is not counted yet.
    pub(crate) awaited_output: AwaitedOutput,
    /// Whether the spawner answers.
    pub(crate) silence: Silence,
    /// For the tasks of the conversations, which call the daemon.
    pub(crate) daemon: Weak<Daemon>,
}

/// The daemon: shared by the main loop and the control server, both on one thread.
pub struct Daemon {
    pub(crate) state: RefCell<State>,
    /// Something is due sooner, or frames wait for the socket: the main loop takes another turn.
    pub(crate) changed: Notify,
    /// [`State::rest`] has something.
    pub(crate) put_off: Notify,
    /// The spawner was asked something, and no task checks yet whether it answers.
    pub(crate) asked: Notify,
}

impl State {
    /// Counts by how much the main loop woke too late.
    pub(crate) fn late(&self, wanted: Option<Instant>) {
        let late = wanted.map(|wanted| crate::clock::monotonic().saturating_duration_since(wanted));
        if let Some(late) = late {
            self.reporter.metrics.borrow_mut().late(late);
        }
    }

    fn next_deadline(&self) -> Option<Duration> {
        let due = [
            self.supervisor.next_deadline(),
            self.status.next_due(),
            self.installer.next_due(),
        ];
        due.into_iter().flatten().min()
    }
}

impl State {
    /// Ends what was started: writes status files and kept output, and closes the spawner's socket.
    pub(crate) fn close(&mut self) {
        self.catch_up();
        self.store_awaiting_output(None);
        for function in self.status.all_due() {
            self.write_status(&function);
        }
        self.output.stop();
        self.connection = None;
    }
}

impl Daemon {
    /// Handles one event and everything that follows from it at once.
    pub fn step(&self, event: Event) {
        self.state.borrow_mut().step(event);
        self.wake_if_due();
    }

    /// Handles one event and does what a caller waits for. The rest is done once the callers had their turn.
    pub(crate) fn answer_first(&self, event: Event) {
        self.state.borrow_mut().answer_first(event);
        self.put_off.notify_one();
    }

    /// Does the actions that were put off, whenever there are some.
    pub(crate) async fn catch_up(self: Rc<Self>) {
        loop {
            self.put_off.notified().await;
            self.state.borrow_mut().catch_up();
            self.wake_if_due();
        }
    }

    /// Wakes the main loop if it would wake too late. It is not woken otherwise: a turn of it costs as much as a call.
    pub(crate) fn wake_if_due(&self) {
        let state = self.state.borrow();
        let next = state.next_deadline();
        let sooner = next.is_some_and(|next| state.wakes_at.is_none_or(|at| next < at));
        let waiting = state
            .connection
            .as_ref()
            .is_some_and(|connection| connection.room().is_some());
        if sooner || waiting {
            self.changed.notify_one();
        }
    }

    /// Runs until the spawner is gone. Everything the spawner had started is dead then and is recorded as interrupted,
    /// and fnd ends. The service manager (or a person) starts both again.
    ///
    /// # Errors
    /// Always: how the connection broke.
    pub async fn run(&self, messages: &mut mpsc::UnboundedReceiver<Message>) -> ConnectionError {
        match self.turn(messages).await {
            Ok(never) => match never {},
            Err(error) => {
                self.step(Event::SpawnerLost);
                error
            }
        }
    }

    async fn turn(&self, messages: &mut mpsc::UnboundedReceiver<Message>) -> Result<Infallible, ConnectionError> {
        loop {
            let (deadline, socket, room) = {
                let mut state = self.state.borrow_mut();
                state.report_problems();
                state.wakes_at = state.next_deadline();
                let deadline = state.wakes_at.map(|mono| state.clock.instant(mono));
                let connection = state.connection.as_ref().ok_or(ConnectionError::Closed)?;
                (deadline, connection.socket(), connection.room())
            };
            let timer = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Cancel-safe, as its comment says.
                exchanged = self.exchange(&socket, room.as_deref()) => exchanged?,
                // Cancel-safe: a message is taken or stays (tokio, `UnboundedReceiver::recv`).
                Some(message) = messages.recv() => self.message(message),
                // Cancel-safe: the next turn computes the deadline anew.
                () = timer => {
                    self.state.borrow().late(deadline);
                    self.step(Event::Tick);
                    self.state.borrow_mut().write_due();
                    self.state.borrow_mut().install_due();
                }
                // Cancel-safe: a notification is kept until a task waits for it.
                () = self.changed.notified() => {}
            }
        }
    }

    /// Waits until the spawner has answered everything. The spawner ends with the connection, so a directory that it
    /// was asked to remove last would stay otherwise.
    pub(crate) async fn last_answers(&self) {
        // An error is ignored: the connection is closed a moment later anyway.
        if tokio::time::timeout(LAST_ANSWERS, self.answers()).await.is_err() {
            tracing::warn!("fnd-spawner has not answered within {LAST_ANSWERS:?}: directories of workers may stay");
        }
    }

    async fn answers(&self) -> Result<(), ConnectionError> {
        loop {
            let (socket, room) = {
                let state = self.state.borrow();
                let connection = state.connection.as_ref().ok_or(ConnectionError::Closed)?;
                if connection.is_answered() {
                    return Ok(());
                }
                (connection.socket(), connection.room())
            };
            self.exchange(&socket, room.as_deref()).await?;
        }
    }

    /// Waits for frames, and for room where frames wait to be sent; receives or sends them. Cancel-safe: readiness is
    /// cleared only after a read that returned nothing. Room that was seen and not used is seen again, since frames
    /// still wait.
    async fn exchange(
        &self,
        socket: &AsyncFd<OwnedFd>,
        room: Option<&AsyncFd<OwnedFd>>,
    ) -> Result<(), ConnectionError> {
        tokio::select! {
            ready = socket.readable() => {
                let mut ready = ready.map_err(ConnectionError::Io)?;
                if self.frames()? {
                    ready.clear_ready();
                }
            }
            ready = has_room(room) => {
                ready?;
                let mut state = self.state.borrow_mut();
                state.connection.as_mut().ok_or(ConnectionError::Closed)?.flush()?;
            }
        }
        Ok(())
    }

    /// Receives frames; returns whether there are no more for now.
    fn frames(&self) -> Result<bool, ConnectionError> {
        for _ in 0..FRAMES_PER_TURN {
            let mut state = self.state.borrow_mut();
            let connection = state.connection.as_mut().ok_or(ConnectionError::Closed)?;
            let Some(incoming) = connection.receive()? else {
                return Ok(true);
            };
            state.heard_spawner();
            state.incoming(incoming);
            state.settle();
        }
        Ok(false)
    }

    fn message(&self, message: Message) {
        let mut state = self.state.borrow_mut();
        // Actions on the subject of the message may have been put off.
        state.catch_up();
        match message {
            Message::Catalog(event) => state.catalog_event(event),
            Message::Stored(Acknowledged::Stored { id, result }) => {
                if let Err(error) = &result {
                    tracing::error!("failed to store the invocation {id}: {error}");
                }
                state.step(match result {
                    Ok(()) => Event::Stored(id),
                    Err(_) => Event::StoreFailed(id),
                });
            }
            Message::Stored(Acknowledged::Claimed { ids, result }) => {
                if let Err(error) = &result {
                    let count = ids.len();
                    tracing::error!(
                        "failed to claim {count} queued invocations: {error}; they wait and are claimed again"
                    );
                }
                state.step(match result {
                    Ok(()) => Event::Claimed(ids),
                    Err(_) => Event::ClaimFailed(ids),
                });
            }
            Message::Stored(Acknowledged::HealthChanged) => state.problems_changed(),
            // The spawner may forget the workers only now: until they are recorded, the next fnd would have to ask it
            // about them.
            Message::Stored(Acknowledged::Recorded(workers)) => {
                for worker in workers {
                    state.forget(worker);
                }
            }
            Message::ProblemsChanged => state.problems_changed(),
            Message::OutputRead(key, captured) => state.output_counted(key, &captured),
            Message::Captured(both) => {
                let (frame, captured) = *both;
                // A caller that started a script reads its status file next, so the file is written before the answer.
                state.step(Event::Exited(Box::new(exited(&frame, captured))));
            }
        }
        state.settle();
    }
}

/// Joins the reports of the spawner and of the output thread about a worker's end.
fn exited(frame: &ExitFrame, captured: Captured) -> Exited {
    Exited {
        worker: frame.worker,
        late: frame
            .late
            .map(|(ago, lasted)| (Duration::from_micros(ago), Duration::from_micros(lasted))),
        status: frame.status,
        usage: fnd_core::record::Usage {
            cpu_us: frame.cpu_us,
            memory_peak_bytes: frame.memory_peak,
            peak_of_largest: frame.peak_of_largest,
            throttled_us: frame.throttled_us,
            stdout_bytes: captured.stdout_bytes,
            stderr_bytes: captured.stderr_bytes,
            dropped_bytes: captured.dropped_bytes,
            scope_worker: false,
        },
        oom_kills: frame.oom_kills,
        oom_shared: frame.oom_shared,
        pids_refused: frame.pids_refused,
        result: captured.result,
        result_too_large: captured.result_too_large,
        // Escape sequences are removed, so that printing the line later cannot control a terminal.
        last_error_line: captured
            .last_error_line
            .map(|line| telemetry::escape(&line).into_owned()),
    }
}
