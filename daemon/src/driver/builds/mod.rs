//! Has the dependencies of functions installed, by fnd's own function `fnd-build`. [`fnd_core::builds`] decides which tree is built
//! next.
//!
//! Files:
//! - `waiting`: the functions that wait, and the ends of the builds that they wait for

mod waiting;

pub(crate) use waiting::{BuildEnd, WaitingBuilds};

use super::State;
use crate::functions::catalog::Candidate;
use crate::functions::install::{Change, read_document};
use crate::functions::rules::rules;
use crate::workers::Asked;
use fnd_core::builds::{Lane, Order, Waiter};
use fnd_core::outcome::Trigger;
use fnd_core::supervisor::{self, Event, Submit};
use fnd_manifest::judge::Verdict;
use fnd_wire::frame::{
    Install, Installed, NeedsBuild, PROTOCOL_BUILDS, PROTOCOL_LANES, Prune, Refused, Request, STORED, SealIn,
};
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::plan::BUILD;
use std::path::Path;
use tokio::sync::oneshot;
use waiting::{Task, Waiting};

/// As many as `[build] jobs` may be.
const LANES_MAX: Lane = 64;

/// Returns the name of the function that installs dependencies in a lane.
fn builder(lane: Lane) -> FunctionName {
    let name = if lane == 1 {
        BUILD.to_owned()
    } else {
        format!("{BUILD}-{lane}")
    };
    FunctionName::new(&name).expect("a name")
}

/// Returns the names of all functions that may install dependencies.
pub(crate) fn builders() -> impl Iterator<Item = FunctionName> {
    (1..=LANES_MAX).map(builder)
}

impl State {
    /// Handles the answer that a function's dependencies have to be installed first.
    pub(super) fn needs_build(&mut self, request: u32, needs: NeedsBuild) {
        let NeedsBuild {
            function,
            document,
            build,
        } = needs;
        let Some(candidate) = self.functions.waits_for_build(request, &document) else {
            return;
        };
        let tree = build.version;
        let task = Task::of(&document);
        if task == Task::Install {
            let tree = fnd_core::release::short(tree);
            tracing::info!("{function}  waits for its dependencies {tree}");
        }
        // A build of an earlier fnd may run: it must not count as one of a deleted function.
        if self.functions.registry.get(&builder(1)).is_none() {
            self.install_builder(1, &build);
        }
        self.builds.versions.insert(tree, build);
        let waiter = Waiter {
            function: function.clone(),
            copy: candidate.copy().is_some(),
        };
        let waiting = Waiting {
            candidate,
            document,
            since_ms: self.clock.now().unix_ms,
            task,
        };
        self.builds.waiting.insert(waiter.clone(), waiting);
        let known = self.functions.registry.get(&function);
        let is_news = !waiter.copy && known.is_none_or(|known| !known.is_unfetched());
        self.builds.books.allow(self.lanes());
        let orders = self.builds.books.want(waiter, tree);
        self.builds.note();
        if is_news {
            self.step(Event::Building(function));
        }
        self.build_orders(orders);
    }

    /// Handles the answer that there is a tree, or why there is none.
    pub(super) fn sealed(&mut self, request: u32, why: Option<String>) {
        if let Some(Asked::Seal(lane)) = self.workers.asked.remove(&request) {
            self.builds.bytes.set(None);
            let orders = self.builds.books.sealed(lane, why.map_or(Ok(()), Err));
            self.build_orders(orders);
        }
    }

    /// Handles the end of an invocation of `fnd-build`.
    pub(super) fn build_ended(&mut self, end: BuildEnd) {
        if end.outcome.is_ok() {
            let fetched = self.builds.waiting.iter().filter(|(waiter, waiting)| {
                waiting.task == Task::Fetch && !waiter.copy && self.builds.books.invocation_for(waiter) == Some(end.id)
            });
            for (waiter, _) in fetched {
                self.functions.sources.fetched(&waiter.function, end.last.clone());
            }
        }
        if let Some(tree) = self.builds.books.built_by(end.id).filter(|_| end.outcome.is_ok()) {
            self.builds.made.insert(tree, end.id);
        }
        let orders = self.builds.books.ended(end.id, end.outcome);
        self.build_orders(orders);
    }

    fn build_orders(&mut self, orders: impl IntoIterator<Item = Order>) {
        for order in orders {
            match order {
                Order::Clear(lane) => self.seal(lane, None),
                Order::Seal(lane, tree) => self.seal(lane, Some(tree)),
                Order::Build(lane, tree) => self.build(lane, tree),
                Order::Install(waiters) => {
                    for waiter in waiters {
                        if let Some(waiting) = self.builds.waiting.remove(&waiter) {
                            self.functions.installer.want_again(waiting.candidate);
                        }
                    }
                    self.prune_builds();
                    self.settle();
                }
                Order::Refuse(waiters, why) => {
                    for waiter in waiters {
                        let Some(waiting) = self.builds.waiting.remove(&waiter) else {
                            continue;
                        };
                        let dirs = &self.workers.welcome.functions_dirs;
                        let Waiting {
                            candidate, document, ..
                        } = waiting;
                        let change = self.functions.build_failed(candidate, &document, &why, dirs);
                        if let Some(change) = change {
                            self.changed(change);
                        }
                    }
                    self.prune_builds();
                }
            }
        }
    }

    /// Returns how many trees are built at once.
    fn lanes(&self) -> Lane {
        match self.workers.welcome.protocol {
            PROTOCOL_LANES.. => self.node.settings.settings.build.jobs,
            _ => 1,
        }
    }

    fn seal(&mut self, lane: Lane, tree: Option<Version>) {
        let function = builder(lane);
        let request = match lane {
            1 => Request::Seal(tree),
            _ => Request::SealIn(SealIn { function, tree }),
        };
        if let Some(number) = self.workers.send(&request, Vec::new()) {
            self.workers.asked.insert(number, Asked::Seal(lane));
        }
    }

    /// Removes what builds of an earlier fnd have left, if it was killed.
    pub(super) fn sweep_builds(&mut self) {
        if std::mem::replace(&mut self.builds.is_swept, true) {
            return;
        }
        let homes = Path::new(&self.node.places.state).join("home");
        for lane in (1..=LANES_MAX).filter(|lane| homes.join(builder(*lane).as_str()).exists()) {
            let live = self.supervisor.live_of(&builder(lane));
            let order = self.builds.books.sweep(lane, live);
            self.build_orders(order);
        }
    }

    /// Starts the build of a tree. The first lane has its version already; another one gets it first.
    fn build(&mut self, lane: Lane, tree: Version) {
        let Some(installed) = self.builds.versions.get(&tree).cloned() else {
            return; // it cannot be: each wanted tree has one
        };
        if lane == 1 {
            return self.start_build(lane, &installed);
        }
        let request = Request::Install(Install {
            directory: STORED,
            function: builder(lane),
            source: tree.hex(),
            sidecar: None,
            directory_form: false,
        });
        if let Some(number) = self.workers.send(&request, Vec::new()) {
            self.workers.asked.insert(number, Asked::Lend(lane, tree));
        }
    }

    /// Says whether a request gives a version to a lane.
    pub(super) fn is_lent(&self, request: u32) -> bool {
        matches!(self.workers.asked.get(&request), Some(Asked::Lend(..)))
    }

    /// Handles the answer that a lane gets no version, if the request asked for that; says whether it did.
    pub(super) fn not_lent(&mut self, request: u32, refused: &Refused) -> bool {
        let why = refused.problems.first().map(|problem| problem.message.clone());
        self.is_lent(request) && self.lent(request, Err(why.unwrap_or_default()))
    }

    /// Handles the answer that a lane has the version that builds its tree, or why it has not. Says whether the request asked
    /// for that.
    pub(super) fn lent(&mut self, request: u32, lent: Result<Installed, String>) -> bool {
        let Some(Asked::Lend(lane, tree)) = self.workers.asked.get(&request) else {
            return false;
        };
        let (lane, tree) = (*lane, *tree);
        self.workers.asked.remove(&request);
        let known = self.builds.versions.get(&tree);
        match lent.map(|lent| known.map(|known| (lent, known.document.clone()))) {
            Ok(Some((lent, document))) => self.start_build(lane, &Installed { document, ..lent }),
            failed => {
                let why = failed.err().unwrap_or_default();
                let orders = self.builds.books.not_started(lane, format!("(not started): {why}"));
                self.build_orders(orders);
            }
        }
        true
    }

    /// Starts a build in its lane. If a build of an earlier fnd still runs there, its end is waited for.
    fn start_build(&mut self, lane: Lane, installed: &Installed) {
        self.install_builder(lane, installed);
        if let Some(id) = self.supervisor.live_of(&builder(lane)) {
            self.builds.books.started(lane, id, false);
            return;
        }
        let id = self.ids.next(self.clock.now().unix_ms);
        self.builds.books.started(lane, id, true);
        self.builds.note();
        let submit = Submit::new(id, builder(lane), Trigger::Manual);
        self.step(Event::Submit(Box::new(submit)));
        if self.supervisor.live_of(&builder(lane)).is_none() {
            let known = self.supervisor.version_and_error(&builder(lane));
            let why = known
                .and_then(|(_, error)| error)
                .unwrap_or("fnd takes no new work now");
            let outcome = Err(format!("(not started): {why}"));
            let last = String::new();
            self.turn.builds.push_back(BuildEnd { id, outcome, last });
        }
    }

    /// Lets a version of `fnd-build` serve in a lane.
    fn install_builder(&mut self, lane: Lane, installed: &Installed) {
        let verdict = read_document::<Verdict>(&installed.document)
            .inspect_err(|error| tracing::error!("the verdict on `{BUILD}` cannot be read: {error}"));
        let Ok(verdict) = verdict else { return };
        let candidate = Candidate {
            function: builder(lane),
            directory: STORED,
            source: installed.version.hex(),
            sidecar: None,
            directory_form: false,
        };
        let registry = &mut self.functions.registry;
        let Some(serving) = registry.installed(candidate, installed.clone(), verdict, None) else {
            return;
        };
        let mut rules = rules(&serving.manifest, &self.node.settings.host);
        // The reservations of builds must leave room for functions that run, also on a machine with less than `[build] memory`.
        let room = self.node.settings.budget().memory / 4 / u64::from(self.lanes());
        rules.memory = rules.memory.min(room);
        self.step(Event::Installed(Box::new(supervisor::Installed {
            function: builder(lane),
            id: installed.id,
            version: installed.version,
            load_key: installed.load_key,
            load_id: InvocationId(0),
            rules,
        })));
    }

    /// Lets the spawner delete the versions of `fnd-build` that are not needed any more.
    fn prune_builds(&mut self) {
        let trees = self.builds.books.trees();
        self.builds.versions.retain(|tree, _| trees.contains(tree));
        for function in builders() {
            let Some(serving) = self.functions.registry.get(&function) else {
                continue;
            };
            let mut keep = trees.clone();
            keep.extend(serving.newest.as_ref().map(|newest| newest.version));
            self.workers
                .request(&Request::Prune(Prune { function, keep }), Vec::new());
        }
    }

    /// Lets the spawner delete dependencies that no version has.
    pub(super) fn prune_trees(&mut self) {
        if self.workers.welcome.protocol >= PROTOCOL_BUILDS {
            self.builds.bytes.set(None);
            let keep = self.node.settings.settings.build.keep.as_secs();
            self.workers.request(&Request::PruneTrees(keep), Vec::new());
        }
    }

    /// Installs a function again, and its dependencies if they are not there, or in any case (`clean`). Resolves when it is
    /// installed or cannot be; nothing if there is no function of that name.
    pub(crate) fn build_again(
        &mut self,
        function: &FunctionName,
        clean: bool,
    ) -> Option<oneshot::Receiver<Result<(), String>>> {
        let candidate = self.functions.registry.get(function)?.candidate.clone();
        let (send, wait) = oneshot::channel();
        if clean && self.workers.welcome.protocol < PROTOCOL_LANES {
            let why = "the running fnd-spawner is older than clean builds: `systemctl stop fnd && systemctl start fnd`";
            let _ = send.send(Err(why.to_owned())); // the receiver is below
            return Some(wait);
        }
        if clean {
            self.functions.rebuilt.insert(function.clone());
        }
        self.builds.callers.push((function.clone(), send));
        self.functions.sources.ask(function);
        self.functions.installer.want_again(candidate);
        self.settle();
        Some(wait)
    }

    /// Tells the callers that wait for a function what has become of it.
    pub(super) fn build_is_over(&mut self, change: &Change) {
        let (function, outcome) = match change {
            Change::Installed(installed) => (&installed.function, Ok(())),
            // A release is held: the file is installed, and does not serve.
            Change::Waits { function, .. } => (function, Ok(())),
            Change::Refused { function, error, .. } | Change::Clash { function, error } => {
                (function, Err(error.clone()))
            }
            Change::Removed(function) => (function, Err("it was removed".to_owned())),
            _ => return,
        };
        if let Change::Installed(installed) = change {
            let version = installed.version;
            let serving = self
                .functions
                .registry
                .get(function)
                .and_then(|known| known.serving(Some(version)));
            let tree = serving.and_then(|serving| serving.tree);
            let build = match tree {
                Some(tree) => self.builds.made.get(&tree).copied(),
                // Without a tree, only the fetching of its code can be a build of this version.
                None => self
                    .builds
                    .last(function)
                    .filter(|_| self.functions.sources.has_fetched(function)),
            };
            if let Some(id) = build {
                self.functions
                    .releases
                    .change(function, |releases| releases.built(version, id));
            }
        }
        if matches!(change, Change::Removed(_)) {
            self.builds.last.remove(function);
            for copy in [false, true] {
                let function = function.clone();
                self.builds.forget(&Waiter { function, copy });
            }
        }
        if self.functions.sources.is_asked(function) {
            return; // the answer that they wait for is still to come
        }
        for (_, caller) in self.builds.callers.extract_if(.., |(name, _)| name == function) {
            let _ = caller.send(outcome.clone()); // an error: nobody waits any more
        }
    }
}
