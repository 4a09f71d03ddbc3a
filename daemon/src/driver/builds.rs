//! Has the dependencies of functions installed, by fnd's own function `fnd-build`. [`fnd_core::builds`] decides which tree is built
//! next.

use super::State;
use super::view::tree_bytes;
use crate::functions::catalog::Candidate;
use crate::functions::install::{Change, read_document};
use crate::functions::rules::rules;
use crate::workers::Asked;
use fnd_core::builds::{Builds, Order, Waiter};
use fnd_core::instant;
use fnd_core::outcome::{State as InvocationState, Trigger};
use fnd_core::record::InvocationRecord;
use fnd_core::supervisor::{self, Event, Submit};
use fnd_manifest::judge::Verdict;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Installed, NeedsBuild, PROTOCOL_BUILDS, Prune, Request, STORED};
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::plan::BUILD;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use tokio::sync::oneshot;

/// How many of the last lines of a failed installation are shown with the function.
const LINES: usize = 5;

/// The functions that wait for their dependencies.
#[derive(Debug, Default)]
pub(crate) struct WaitingBuilds {
    books: Builds,
    waiting: HashMap<Waiter, Waiting>,
    /// The newest build of each function.
    last: HashMap<FunctionName, InvocationId>,
    /// The builds that made trees, since fnd started.
    made: HashMap<Version, InvocationId>,
    /// The versions of `fnd-build` that build the wanted trees.
    versions: HashMap<Version, Installed>,
    /// Bytes of all trees; absent: to be counted.
    bytes: Cell<Option<u64>>,
    /// Callers that wait until a function is installed, or cannot be.
    callers: Vec<(FunctionName, oneshot::Sender<Result<(), String>>)>,
}

/// A function that waits.
#[derive(Debug)]
struct Waiting {
    candidate: Candidate,
    document: Bytes,
    since_ms: u64,
    task: Task,
}

/// The work of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// It fetches the code.
    Fetch,
    /// It installs the dependencies.
    Install,
    /// It compiles the code.
    Compile,
}

impl Task {
    fn of(document: &Bytes) -> Self {
        match read_document::<Verdict>(document) {
            Ok(verdict) if verdict.to_fetch().is_some() => Self::Fetch,
            Ok(verdict) if verdict.compiled => Self::Compile,
            _ => Self::Install,
        }
    }
}

/// The end of an invocation of `fnd-build`.
#[derive(Debug)]
pub(crate) struct BuildEnd {
    id: InvocationId,
    outcome: Result<(), String>,
    /// Its last line of output.
    last: String,
}

impl BuildEnd {
    /// Returns the end of an invocation, if it is one of `fnd-build`; `output` is the last lines that it printed.
    pub(super) fn of(record: &InvocationRecord, output: &str) -> Option<Self> {
        if record.function.as_str() != BUILD || !record.state.is_final() {
            return None;
        }
        let lines: Vec<_> = output.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
        let reason = record.reason.map(|reason| reason.to_string()).unwrap_or_default();
        let why = format!("({reason}): {}\n{}", record.message.replace('\n', " "), last.join("\n"));
        Some(Self {
            id: record.id,
            outcome: (record.state == InvocationState::Succeeded).then_some(()).ok_or(why),
            last: last.last().copied().unwrap_or_default().to_owned(),
        })
    }
}

/// Returns the name of the function that installs dependencies.
pub(crate) fn builder() -> FunctionName {
    FunctionName::new(BUILD).expect("a name")
}

impl WaitingBuilds {
    /// Says that the file of a function waits for its dependencies, if it does.
    pub(super) fn words(&self, function: &FunctionName) -> Option<String> {
        let file = Waiter {
            function: function.clone(),
            copy: false,
        };
        let waiting = self.waiting.get(&file)?;
        let since = instant::text(waiting.since_ms);
        let has_begun = self.books.invocation_for(&file).is_some();
        let step = match (waiting.task, has_begun) {
            (Task::Install, true) => "dependencies are being installed",
            (Task::Install, false) => "dependencies wait for another installation",
            (Task::Fetch, true) => "code is being fetched",
            (Task::Compile, true) => "code is being compiled",
            (Task::Fetch | Task::Compile, false) => "code waits for an installation",
        };
        Some(format!("its {step} since {since}: `fndctl logs {function} --build -f`"))
    }

    /// Returns the newest build of a function, since fnd started.
    pub(super) fn last(&self, function: &FunctionName) -> Option<InvocationId> {
        self.last.get(function).copied()
    }

    /// Returns the bytes of all trees in a directory.
    pub(super) fn bytes(&self, trees: &Path) -> u64 {
        if self.bytes.get().is_none() {
            let all = std::fs::read_dir(trees).into_iter().flatten().flatten();
            self.bytes
                .set(Some(all.filter_map(|tree| tree_bytes(&tree.path())).sum()));
        }
        self.bytes.get().unwrap_or_default()
    }

    /// Notes which functions the current build is for.
    fn note(&mut self) {
        for waiter in self.waiting.keys() {
            if let Some(id) = self.books.invocation_for(waiter) {
                self.last.insert(waiter.function.clone(), id);
            }
        }
    }

    /// Forgets what is gone, or was judged anew.
    pub(super) fn forget(&mut self, waiter: &Waiter) {
        if self.waiting.remove(waiter).is_some() {
            self.books.forget(waiter);
        }
    }
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
        if self.functions.registry.get(&builder()).is_none() {
            self.install_builder(&build);
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
        let order = self.builds.books.want(waiter, tree);
        self.builds.note();
        if is_news {
            self.step(Event::Building(function));
        }
        self.build_orders(order);
    }

    /// Handles the answer that there is a tree, or why there is none.
    pub(super) fn sealed(&mut self, request: u32, why: Option<String>) {
        if let Some(Asked::Seal(tree)) = self.workers.asked.remove(&request) {
            self.builds.bytes.set(None);
            let orders = self.builds.books.sealed(tree, why.map_or(Ok(()), Err));
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
        let is_own = self.builds.last.values().any(|id| *id == end.id);
        if let Some(tree) = self
            .builds
            .books
            .trees()
            .first()
            .filter(|_| is_own && end.outcome.is_ok())
        {
            self.builds.made.insert(*tree, end.id);
        }
        let orders = self.builds.books.ended(end.id, end.outcome);
        self.build_orders(orders);
    }

    fn build_orders(&mut self, orders: impl IntoIterator<Item = Order>) {
        for order in orders {
            match order {
                Order::Clear(tree) => self.seal(tree, None),
                Order::Seal(tree) => self.seal(tree, Some(tree)),
                Order::Build(tree) => self.build(tree),
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

    fn seal(&mut self, current: Version, tree: Option<Version>) {
        if let Some(number) = self.workers.send(&Request::Seal(tree), Vec::new()) {
            self.workers.asked.insert(number, Asked::Seal(current));
        }
    }

    /// Starts the build of a tree. If a build of an earlier fnd still runs, its end is waited for.
    fn build(&mut self, tree: Version) {
        let Some(installed) = self.builds.versions.get(&tree).cloned() else {
            return; // it cannot be: each wanted tree has one
        };
        self.install_builder(&installed);
        if let Some(id) = self.supervisor.live_of(&builder()) {
            self.builds.books.started(id, false);
            return;
        }
        let id = self.ids.next(self.clock.now().unix_ms);
        self.builds.books.started(id, true);
        self.builds.note();
        let submit = Submit::new(id, builder(), Trigger::Manual);
        self.step(Event::Submit(Box::new(submit)));
        if self.supervisor.live_of(&builder()).is_none() {
            let known = self.supervisor.version_and_error(&builder());
            let why = known
                .and_then(|(_, error)| error)
                .unwrap_or("fnd takes no new work now");
            let outcome = Err(format!("(not started): {why}"));
            let last = String::new();
            self.turn.builds.push_back(BuildEnd { id, outcome, last });
        }
    }

    /// Lets a version of `fnd-build` serve.
    fn install_builder(&mut self, installed: &Installed) {
        self.install_own(builder(), installed);
    }

    /// Lets a version of a function of fnd's own serve.
    pub(super) fn install_own(&mut self, own: FunctionName, installed: &Installed) {
        let verdict = read_document::<Verdict>(&installed.document)
            .inspect_err(|error| tracing::error!("the verdict on `{own}` cannot be read: {error}"));
        let Ok(verdict) = verdict else { return };
        let candidate = Candidate {
            function: own.clone(),
            directory: STORED,
            source: installed.version.hex(),
            sidecar: None,
            directory_form: false,
        };
        let registry = &mut self.functions.registry;
        let Some(serving) = registry.installed(candidate, installed, verdict, None) else {
            return;
        };
        let mut rules = rules(&serving.manifest, &self.node.settings.host);
        // Its reservation must leave room for functions that run, also on a machine with less than `[build] memory`.
        rules.memory = rules.memory.min(self.node.settings.budget().memory / 4);
        self.step(Event::Installed(Box::new(supervisor::Installed {
            function: own,
            id: installed.id,
            version: installed.version,
            load_key: installed.load_key,
            load_id: InvocationId(0),
            rules,
        })));
    }

    /// Lets the spawner delete the versions of `fnd-build` that are not needed any more.
    fn prune_builds(&mut self) {
        let mut keep = self.builds.books.trees();
        self.builds.versions.retain(|tree, _| keep.contains(tree));
        let serving = self.functions.registry.get(&builder());
        keep.extend(serving.and_then(|known| Some(known.newest.as_ref()?.version)));
        let function = builder();
        self.workers
            .request(&Request::Prune(Prune { function, keep }), Vec::new());
    }

    /// Lets the spawner delete dependencies that no version has.
    pub(super) fn prune_trees(&mut self) {
        if self.workers.welcome.protocol >= PROTOCOL_BUILDS {
            self.builds.bytes.set(None);
            let keep = self.node.settings.settings.build.keep.as_secs();
            self.workers.request(&Request::PruneTrees(keep), Vec::new());
        }
    }

    /// Installs a function again, and its dependencies if they are not there. Resolves when it is installed or cannot be;
    /// nothing if there is no function of that name.
    pub(crate) fn build_again(&mut self, function: &FunctionName) -> Option<oneshot::Receiver<Result<(), String>>> {
        let candidate = self.functions.registry.get(function)?.candidate.clone();
        self.functions.installer.checks.forget(function);
        let (send, wait) = oneshot::channel();
        self.builds.callers.push((function.clone(), send));
        self.functions.sources.ask(function);
        self.functions.installer.want_again(candidate);
        self.settle();
        Some(wait)
    }

    /// Tells the callers that wait for a function what has become of it.
    pub(super) fn build_is_over(&mut self, change: &Change) {
        let (function, outcome) = match change {
            Change::Installed(installed, _) => (&installed.function, Ok(())),
            // A release is held: the file is installed, and does not serve.
            Change::Waits { function, .. } => (function, Ok(())),
            Change::Refused { function, error, .. } | Change::Clash { function, error } => {
                (function, Err(error.clone()))
            }
            Change::Removed(function) => (function, Err("it was removed".to_owned())),
            _ => return,
        };
        if let Change::Installed(installed, _) = change {
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
