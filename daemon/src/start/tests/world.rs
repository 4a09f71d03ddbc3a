//! The whole daemon in one process, with a [`Spawner`] that the test plays. The functions directory is a table in memory, and the
//! test takes the place of the catalog's thread.

use super::spawner::{Content, Spawner};
use crate::backend::Backend;
use crate::buffers::Buffers;
use crate::cli::DaemonCli;
use crate::clock::Clock;
use crate::driver::releases::HoldResult;
use crate::driver::{Daemon, DriverMessage};
use crate::functions::catalog::{Catalog, CatalogEvent, CatalogRequest, DetachedCatalog, Findings};
use crate::settings::CurrentSettings;
use crate::simulate::{files_of, places_below};
use crate::start::connected::Connected;
use crate::start::opened::OpenedStores;
use crate::start::serving::ServingDaemon;
use crate::workers::link::SpawnerConnection;
use clap::Parser as _;
use fnd_core::lifecycle::release::{HoldKind, NotHeld};
use fnd_core::lifecycle::{InstallResult, ReleaseChange};
use fnd_core::run::{Event, Trial};
use fnd_wire::ids::{FunctionName, Version, WorkerId};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Most time that the test waits until everything has ended.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of turns that other tasks get before the test takes them for done.
const TURNS: usize = 12;

/// A daemon that runs.
struct Running {
    serving: ServingDaemon,
    catalog: DetachedCatalog,
}

impl Running {
    /// Ends the threads of fnd. Otherwise these would still write beside the next fnd, and thousands of cases would have thousands of them.
    fn end_threads(&self) {
        self.serving.writer.stop();
        {
            let all = self.serving.daemon.state.borrow();
            all.audit.stop();
            all.state.stop();
            all.output.stop();
        }
        self.serving.daemon.inbox.end_tasks();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.running.iter().for_each(Running::end_threads);
    }
}

pub(crate) struct World {
    runtime: Runtime,
    tasks: LocalSet,
    directory: tempfile::TempDir,
    running: Option<Running>,
    pub(crate) spawner: Spawner,
    /// The contents that the catalog has reported last.
    reported: BTreeMap<FunctionName, Content>,
    /// The functions whose files had changed when fnd asked whether they are still the same.
    dropped: BTreeSet<FunctionName>,
    /// Whether the scan at the start was answered.
    is_scanned: bool,
    next_worker: u64,
    /// The memory budget of bodies and answers in bytes, in place of that of the configuration. The disk then takes none of them.
    body_budget: Option<u64>,
    /// Callers who wait for a release.
    pub(crate) callers: Vec<oneshot::Receiver<InstallResult>>,
}

impl World {
    /// Returns a world in which fnd has started for the first time.
    pub(crate) fn new() -> Self {
        Self::with_body_budget(None)
    }

    /// The same, with a budget in bytes for bodies and answers, of which the disk takes none.
    pub(crate) fn with_body_budget(body_budget: Option<u64>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (spawner, ours) = Spawner::new();
        let mut world = Self {
            runtime: runtime.unwrap(),
            tasks: LocalSet::new(),
            directory: tempfile::tempdir_in("/dev/shm")
                .or_else(|_| tempfile::tempdir())
                .unwrap(),
            running: None,
            spawner,
            reported: BTreeMap::new(),
            dropped: BTreeSet::new(),
            is_scanned: false,
            next_worker: 1,
            body_budget,
            callers: Vec::new(),
        };
        world.start(ours);
        world
    }

    pub(crate) fn daemon(&self) -> Rc<Daemon> {
        Rc::clone(&self.running.as_ref().expect("fnd runs").serving.daemon)
    }

    pub(crate) fn backend(&self) -> Backend {
        self.running.as_ref().expect("fnd runs").serving.control.clone()
    }

    /// Returns the directory of everything that fnd writes.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn start(&mut self, ours: OwnedFd) {
        let _inside = self.runtime.enter();
        let places = places_below(self.directory.path());
        crate::start::prepare(&places).unwrap();
        let connection = SpawnerConnection::new(ours).unwrap();
        let document = crate::settings::settings_document(self.spawner.settings()).unwrap();
        let connected = Connected {
            clock: Clock::start(),
            child: None,
            current: CurrentSettings::new(document, connection.peer_uid()).expect("an empty configuration"),
            connection,
            welcome: Spawner::welcome(WorkerId(self.next_worker)),
            sockets: self.directory.path().join("http"),
            held: Vec::new(),
            masks: Vec::new(),
            exits: Vec::new(),
        };
        let mut opened = OpenedStores::new(connected, &places).unwrap();
        let (catalog, requests) = Catalog::detached();
        opened.catalog = catalog;
        if let Some(bytes) = self.body_budget {
            opened.buffers = Buffers::new(bytes, "/nonexistent".into());
        }
        let buffers = Arc::clone(&opened.buffers);
        let cli = DaemonCli::try_parse_from(["fnd"]).unwrap();
        let serving = self
            .tasks
            .block_on(&self.runtime, async { ServingDaemon::new(opened, &cli, &places) })
            .unwrap();
        // The start has set the budget of the configuration.
        self.body_budget.inspect(|bytes| buffers.resize(*bytes));
        let scanned = serving.daemon.scan();
        let daemon = Rc::clone(&serving.daemon);
        self.tasks.spawn_local(async move {
            let _ = scanned.await;
            daemon.step(Event::Scanned { whole: true });
            daemon.state.borrow_mut().all_known();
        });
        self.is_scanned = false;
        self.running = Some(Running {
            serving,
            catalog: requests,
        });
        self.turn();
    }

    /// Ends fnd and the workers, and starts another fnd.
    pub(crate) fn restart(&mut self, is_killed: bool) {
        let running = self.running.take().expect("fnd runs");
        if !is_killed {
            running.serving.daemon.state.borrow_mut().close();
        }
        self.next_worker = self.spawner.last_worker + 1;
        running.end_threads();
        self.tasks = LocalSet::new();
        drop(running);
        self.callers.clear();
        let ours = self.spawner.connect();
        self.start(ours);
    }

    /// Saves the file of a function, or deletes it, and reports the change.
    pub(crate) fn write(&mut self, name: &FunctionName, content: Option<Content>) {
        match content {
            Some(content) => drop(self.spawner.files.insert(name.clone(), content)),
            None => drop(self.spawner.files.remove(name)),
        }
        self.report(name);
    }

    /// Reports the files of a function as the catalog does, if they have changed since the last report. Returns whether they
    /// have changed.
    pub(crate) fn report(&mut self, name: &FunctionName) -> bool {
        let now = self.spawner.files.get(name).copied();
        if self.reported.get(name).copied() == now && !self.dropped.remove(name) {
            return false;
        }
        self.dropped.remove(name);
        let event = match now {
            Some(content) => {
                self.reported.insert(name.clone(), content);
                CatalogEvent::Changed(vec![files_of(name)])
            }
            None => {
                self.reported.remove(name);
                CatalogEvent::Removed(vec![name.clone()])
            }
        };
        self.send(DriverMessage::Catalog(event));
        self.send(DriverMessage::Catalog(CatalogEvent::Quiet));
        self.turn();
        if now.is_none() {
            self.wait_for_ledger(name);
        }
        true
    }

    /// Waits until the ledger has the releases of a function. The versions of a deleted function go after that.
    fn wait_for_ledger(&mut self, name: &FunctionName) {
        let (daemon, since) = (self.daemon(), crate::clock::monotonic());
        let is_stored = || daemon.state.borrow().lifecycle.releases.is_stored(name);
        while !is_stored() {
            assert!(since.elapsed() < PATIENCE, "the ledger does not store the releases");
            std::thread::yield_now();
            self.turn();
        }
        self.turn();
    }

    /// Returns the content that was saved and is not reported yet.
    pub(crate) fn unreported(&self, name: &FunctionName) -> Option<Content> {
        let saved = self.spawner.files.get(name).copied();
        saved.filter(|content| self.reported.get(name) != Some(content))
    }

    fn send(&self, message: DriverMessage) {
        let _ = self.daemon().state.borrow().messages.send(message);
    }

    /// Lets everything happen that does not wait for the test: fnd handles its messages, and the spawner and the catalog answer.
    pub(crate) fn turn(&mut self) {
        let mut quiet = 0;
        while quiet < 2 {
            let heard = self.spawner.take_requests() | self.spawner.hear_workers() | self.answer_catalog();
            quiet = if heard { 0 } else { quiet + 1 };
            self.run(TURNS);
        }
    }

    fn run(&mut self, turns: usize) {
        self.run_until(async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        });
    }

    /// Runs fnd until something else has ended.
    pub(crate) fn run_until<T>(&mut self, until: impl Future<Output = T>) -> T {
        let Running { serving, .. } = self.running.as_mut().expect("fnd runs");
        let daemon = Rc::clone(&serving.daemon);
        let messages = &mut serving.messages;
        self.tasks.block_on(&self.runtime, async {
            tokio::select! {
                biased;
                broken = daemon.run(messages) => panic!("{broken}"),
                ended = until => ended,
            }
        })
    }

    /// Lets everything go on that waits for the spawner.
    pub(crate) fn go_on_all(&mut self) {
        self.turn();
        while !self.spawner.asked.is_empty() {
            self.install_one(0);
        }
        for worker in self.spawner.unfinished() {
            self.spawner.go_on(worker);
        }
    }

    /// Answers the requests of fnd to the catalog. Returns whether there were some.
    fn answer_catalog(&mut self) -> bool {
        let asked = self.running.as_ref().expect("fnd runs").catalog.requests();
        let has_asked = !asked.is_empty();
        for request in asked {
            match request {
                CatalogRequest::Rescan(number, _) => {
                    if !self.is_scanned {
                        self.is_scanned = true;
                        self.reported = self.spawner.files.clone();
                        self.dropped.clear();
                        let all = self.reported.keys().map(files_of).collect();
                        self.send(DriverMessage::Catalog(CatalogEvent::Changed(all)));
                    }
                    self.send(DriverMessage::Catalog(CatalogEvent::Findings(Findings::default())));
                    self.send(DriverMessage::Catalog(CatalogEvent::Scanned(number)));
                }
                CatalogRequest::Reported(number) => {
                    self.send(DriverMessage::Catalog(CatalogEvent::Reported(number, true)));
                }
                CatalogRequest::Confirm(number, function) => {
                    // Somebody may have saved the file since the catalog reported it.
                    let now = self.spawner.files.get(&function);
                    let same = now.is_some() && self.reported.get(&function) == now;
                    if now.is_some() && !same {
                        // The catalog reports the files again, even if the same content comes back.
                        self.dropped.insert(function);
                    }
                    self.send(DriverMessage::Catalog(CatalogEvent::Confirmed(number, same)));
                }
            }
        }
        has_asked
    }

    /// Returns what is under way: installations, builds, checks, trials and runs.
    fn under_way(&self) -> Vec<&'static str> {
        let daemon = self.daemon();
        let state = daemon.state.borrow();
        let lifecycle = &state.lifecycle;
        let is_answered = state
            .workers
            .connection
            .as_ref()
            .is_some_and(SpawnerConnection::is_answered);
        let is_built = |name: &FunctionName| state.lifecycle.builds.is_waiting(name);
        // The ledger is a thread of its own. Versions that nobody needs are deleted once it has the releases.
        let is_unstored = |(name, _): &(FunctionName, Version)| !lifecycle.releases.is_stored(name);
        // A trial that has failed waits for its next start, which may take long. It counts as ended.
        let is_tried = |trial: Trial| trial.failures == 0;
        let all = [
            ("a request", !is_answered),
            ("a worker that loads or runs", !self.spawner.unfinished().is_empty()),
            // fnd handles the end of a worker once another thread has read the output.
            (
                "the end of a worker",
                state.supervisor.workers() != self.spawner.workers.len(),
            ),
            ("a file to install", !lifecycle.installer.is_idle()),
            ("a check", !lifecycle.installer.checks.is_idle()),
            ("a build", self.spawner.files.keys().any(is_built)),
            (
                "releases that the ledger stores",
                self.spawner.stored.iter().any(is_unstored),
            ),
            (
                "a trial",
                state
                    .supervisor
                    .functions()
                    .any(|view| view.trial.is_some_and(is_tried)),
            ),
            ("a run", state.supervisor.live_invocations().next().is_some()),
            ("work that was put off", state.turn.is_put_off()),
        ];
        all.into_iter()
            .filter(|(_, is_there)| *is_there)
            .map(|(what, _)| what)
            .collect()
    }

    /// Returns the parts of fnd and of the spawner that still know a function.
    pub(crate) fn remains(&self, name: &FunctionName) -> Vec<&'static str> {
        let daemon = self.daemon();
        let state = daemon.state.borrow();
        let lifecycle = &state.lifecycle;
        let remains = [
            ("supervisor", state.supervisor.function(name).is_some()),
            ("registry", lifecycle.registry.get(name).is_some()),
            ("releases", lifecycle.releases.get(name).is_some()),
            ("installer", lifecycle.installer.has_work(name)),
            ("builds", state.lifecycle.builds.is_waiting(name)),
            ("versions", self.spawner.stored.iter().any(|(stored, _)| stored == name)),
        ];
        remains
            .into_iter()
            .filter(|(_, is_left)| *is_left)
            .map(|(what, _)| what)
            .collect()
    }

    /// Lets the spawner answer one of the installations that wait.
    pub(crate) fn install_one(&mut self, which: usize) {
        let asked = self.spawner.asked.len();
        if asked > 0 {
            self.spawner.install(which % asked);
            self.turn();
        }
    }

    /// Lets one of the workers that load or run become ready or end.
    pub(crate) fn go_on_one(&mut self, which: usize) {
        let workers = self.spawner.unfinished();
        if !workers.is_empty() {
            self.spawner.go_on(workers[which % workers.len()]);
            self.turn();
        }
    }

    /// Ends everything that is under way, in the order in which it began.
    pub(crate) fn settle(&mut self) {
        let since = crate::clock::monotonic();
        loop {
            self.turn();
            if !self.spawner.asked.is_empty() {
                self.spawner.install(0);
                continue;
            }
            if let Some(worker) = self.spawner.unfinished().first() {
                self.spawner.go_on(*worker);
                continue;
            }
            let under_way = self.under_way();
            if under_way.is_empty() {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "it does not end: {under_way:?}");
            std::thread::yield_now();
        }
    }

    /// Carries out a request of a person, and keeps the caller if the answer comes later.
    pub(crate) fn change(&mut self, name: &FunctionName, change: &ReleaseChange) -> Result<Option<Version>, NotHeld> {
        let daemon = self.daemon();
        let asked = daemon.state.borrow_mut().change_release(name, change)?;
        self.turn();
        match asked {
            HoldResult::Done(version, _) => Ok(version),
            HoldResult::Asked(version, _, caller) => {
                self.callers.push(caller);
                Ok(Some(version))
            }
        }
    }

    /// Returns one of the releases of a function.
    pub(crate) fn release(&self, name: &FunctionName, which: u8) -> Option<Version> {
        let daemon = self.daemon();
        let state = daemon.state.borrow();
        let releases = state.lifecycle.releases.get(name)?.list();
        releases
            .get(usize::from(which) % releases.len().max(1))
            .map(|release| release.version)
    }

    /// Returns why the newest content of a function does not serve.
    pub(crate) fn error(&self, name: &FunctionName) -> Option<String> {
        let daemon = self.daemon();
        let state = daemon.state.borrow();
        state.supervisor.version_and_error(name)?.1.map(str::to_owned)
    }

    /// Returns what people see: the content that serves, the canary, and the hold.
    pub(crate) fn shown(&self, name: &FunctionName) -> (Option<Content>, Option<Content>, Option<(HoldKind, Content)>) {
        let daemon = self.daemon();
        let state = daemon.state.borrow();
        let serving = state
            .supervisor
            .version_and_error(name)
            .and_then(|(version, _)| version);
        let releases = state.lifecycle.releases.get(name);
        let canary = releases
            .and_then(|releases| releases.canary())
            .map(|canary| canary.version);
        let shares = state
            .supervisor
            .function(name)
            .and_then(|view| view.canary)
            .map(|canary| canary.version);
        assert!(
            shares.is_none() || shares == canary,
            "{shares:?} gets a share of the calls, but the canary is {canary:?}"
        );
        let hold = releases.and_then(|releases| releases.hold());
        let hold = hold.map(|hold| (hold.kind, Content::of(hold.version)));
        (serving.map(Content::of), canary.map(Content::of), hold)
    }
}
