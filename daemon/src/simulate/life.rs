//! One fnd, from its start to its end. It is made of the parts of the real one, without their threads and without the main loop:
//! the world does the work of a thread or of the main loop when it chooses to.

use super::node::Node;
use super::oracles::CanaryShare;
use super::people::People;
use super::tasks::FndTasks;
use crate::backend::Backend;
use crate::buffers::Buffers;
use crate::driver::{Daemon, DriverMessage};
use crate::effects::fuse;
use crate::functions::catalog::{Catalog, DetachedCatalog};
use crate::functions::retention_policy;
use crate::ledger::{self, HistoryThread, LedgerQuery, LedgerThread};
use crate::output::log_store::Keeper;
use crate::output::{Output, OutputThread, SpoolPlaces};
use crate::report::StatusFiles;
use crate::start::opened::OpenedStores;
use crate::start::serving::{MachineParts, ServingDaemon};
use crate::start::{hand_over, own_state, signals};
use crate::stores::audit::Audit;
use crate::stores::database::StorePlaces;
use crate::stores::kv::StateStore;
use crate::stores::replays::Replays;
use crate::triggers::http::Listener;
use crate::triggers::nats::fact::NatsFact;
use crate::triggers::nats::link::{DetachedThread, NatsLink};
use crate::triggers::passwords::Passwords;
use crate::triggers::schedule::Alarm;
use crate::workers::adoption::AdoptedWorker;
use fnd_core::run::FunctionState;
use fnd_wire::ids::FunctionName;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;

pub(super) struct FndLife {
    pub(super) serving: ServingDaemon,
    pub(super) tasks: FndTasks,
    pub(super) ledger: LedgerThread,
    pub(super) history: HistoryThread,
    /// The queries that wait for the reader of the ledger.
    pub(super) queries: Vec<LedgerQuery>,
    pub(super) output: OutputThread,
    pub(super) catalog: DetachedCatalog,
    /// The place of the thread of NATS: the requests to it, and the way in for what it says.
    pub(super) nats: DetachedThread,
    /// Facts of the thread of NATS that the main loop has not read.
    pub(super) said: mpsc::Receiver<NatsFact>,
    /// Whether every function is known. Until then people are not served.
    is_serving: Rc<Cell<bool>>,
    /// Present once fnd was asked to stop; true when it has handed over everything.
    stopped: Option<Rc<Cell<bool>>>,
    /// The work that the main loop and the threads have to do or wait for.
    pub(super) due: DueWork,
}

/// The work of the main loop and of the threads that is due now or later.
#[derive(Default)]
pub(super) struct DueWork {
    /// Frames may have come.
    pub(super) frames: bool,
    /// Sockets or pipes of tasks may be ready.
    pub(super) tasks: bool,
    /// Work was put off.
    pub(super) catch_up: bool,
    /// The clock was set, and the alarm has not rung yet.
    pub(super) clock_was_set: bool,
    /// When the silence of the spawner is checked.
    pub(super) silence_at: Option<Duration>,
    /// When the ledger has something to do although nothing came.
    pub(super) ledger_at: Duration,
    pub(super) output_at: Option<Duration>,
}

impl FndLife {
    /// Starts fnd; `seed` decides its random numbers.
    pub(super) fn start(node: &mut Node<'_>, seed: u64) -> Self {
        fastrand::seed(seed);
        fuse::set(None);
        crate::start::prepare(&node.places).expect("there is room for directories");
        node.files.begin();
        let tasks = FndTasks::new();
        let inside = tasks.enter();
        let connected = node.connect_fnd();
        let places = node.places.clone();
        let (sender, messages) = mpsc::unbounded_channel();
        let settings = &connected.current.settings;
        let held: Vec<_> = connected.held.iter().flat_map(AdoptedWorker::attempts).collect();
        let (own, run) = (own_state(&places), places.run_dir.join(ledger::RUN));
        let site = ledger::Site {
            state: &own,
            run: &run,
            on_damage: settings.history.on_damage,
        };
        let stored = sender.clone();
        let acknowledge = move |acknowledged| drop(stored.send(DriverMessage::Stored(acknowledged)));
        let retention = retention_policy::at_first(settings);
        let opened = ledger::prepare(site, retention, &held, node.disk.rule(), acknowledge);
        let (ledger, writing, history) = opened.expect("the ledger can be opened");
        node.disk.opened();
        let logs = places.state.join("logs");
        let spool = SpoolPlaces {
            state: own.join("spool"),
            memory: places.run_dir.join("spool"),
        };
        let output = Output::prepare(logs.clone(), spool, Keeper::default(), Box::new(|_, _| {}));
        let (output, mut reading) = output.expect("the machine has room for descriptors");
        reading.find_spooled();
        let (catalog, requests) = Catalog::detached();
        let (link, said, nats) = NatsLink::detached();
        let status = StatusFiles::open(&places.run_dir.join("status"), settings.status.mode);
        let opened = OpenedStores {
            buffers: Buffers::new(settings.node.buffers, own.clone()),
            status_files: status.expect("there is room for a directory"),
            connected,
            sender,
            messages,
            ledger,
            logs,
            output,
            catalog,
            audit: Audit::detached(StorePlaces { state: own, run }),
            state: StateStore::detached(),
            nats: link,
        };
        let machine = MachineParts {
            alarm: Alarm::silent(),
            listener: Listener::with(Passwords::detached(), Replays::detached(), None),
            real_path: str::to_owned,
        };
        let (serving, inheritance) = ServingDaemon::assemble(opened, &places, machine);
        serving.take_over(inheritance);
        drop(inside);
        let mut life = Self {
            serving,
            tasks,
            ledger: writing,
            history,
            queries: Vec::new(),
            output: reading,
            catalog: requests,
            nats,
            said,
            is_serving: Rc::default(),
            stopped: None,
            due: DueWork {
                frames: true,
                ..DueWork::default()
            },
        };
        life.scan();
        life
    }

    /// Looks for functions; people are served when all are known.
    fn scan(&mut self) {
        let (daemon, is_serving) = (Rc::clone(&self.serving.daemon), Rc::clone(&self.is_serving));
        let scanned = daemon.scan();
        self.tasks.spawn(async move {
            let _ = scanned.await;
            daemon.all_is_scanned();
            is_serving.set(true);
        });
    }

    pub(super) fn daemon(&self) -> &Rc<Daemon> {
        &self.serving.daemon
    }

    /// Returns the backend, which people ask; absent before every function is known, and after fnd was asked to stop.
    pub(super) fn backend(&self) -> Option<&Backend> {
        (self.is_serving.get() && self.stopped.is_none()).then_some(&self.serving.control)
    }

    /// Asks fnd to stop, as the service manager does.
    pub(super) fn ask_to_stop(&mut self) {
        if self.stopped.is_some() {
            return;
        }
        let is_over = Rc::new(Cell::new(false));
        self.stopped = Some(Rc::clone(&is_over));
        let daemon = Rc::clone(&self.serving.daemon);
        daemon.inbox.leaves();
        self.tasks.spawn(async move {
            signals::handed_over(Rc::clone(&daemon)).await;
            hand_over::workers(&daemon).await;
            is_over.set(true);
        });
    }

    /// Returns whether fnd was asked to stop and has handed over everything.
    pub(super) fn has_handed_over(&self) -> bool {
        self.stopped.as_ref().is_some_and(|is_over| is_over.get())
    }

    /// Ends fnd as its own stop does, after its tasks have handed over.
    pub(super) fn close(&mut self) {
        let _inside = self.tasks.enter();
        self.daemon().state.borrow_mut().close();
        self.serving.writer.stop();
    }

    /// Closes the connection to the spawner, as the end of the process does. So the parts of fnd that are dropped after this
    /// cannot send a request.
    pub(super) fn hang_up(&self) {
        self.daemon().state.borrow_mut().workers.connection = None;
    }

    /// Returns the canary of a function that gets its share of the calls now. Until its copy is installed again, a share that a
    /// person has asked for is not in effect, and the person has no answer.
    pub(super) fn canary(&self, function: &FunctionName) -> CanaryShare {
        let state = self.daemon().state.borrow();
        let canary = state.supervisor.function(function)?.canary?;
        Some((canary.version, canary.percent))
    }

    /// Returns whether a live invocation is one of a function in a crash loop: its next start waits until a pause is over.
    pub(super) fn waits_for_crash_loop(&self) -> bool {
        let state = self.daemon().state.borrow();
        let supervisor = &state.supervisor;
        let functions = supervisor
            .live_invocations()
            .filter_map(|id| supervisor.invocation(id).map(|invocation| invocation.function));
        let mut views = functions.filter_map(|function| supervisor.function(&function));
        views.any(|view| view.state == FunctionState::CrashLooping)
    }

    /// Returns how many things of each kind there are that should be gone when all work has ended.
    pub(super) fn left(&self, people: &People) -> Vec<(&'static str, usize)> {
        let state = self.daemon().state.borrow();
        vec![
            ("live invocation", state.supervisor.live_invocations().count()),
            ("message of a thread", self.serving.messages.len()),
            ("fact of NATS", self.said.len()),
            (
                "command of the ledger",
                self.ledger.waiting().0 + self.ledger.waiting().1,
            ),
            ("work that was put off", usize::from(state.turn.is_put_off())),
            ("call whose output is not counted", state.records.awaited()),
            ("person who waits", people.waiting()),
        ]
    }
}
