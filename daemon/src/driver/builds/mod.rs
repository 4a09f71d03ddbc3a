//! Has the dependencies of functions installed, by fnd's own function `fnd-build`. [`fnd_core::lifecycle::builds`] decides which tree is built
//! next.
//!
//! Files:
//! - `lanes`: the functions in which builds run

mod lanes;

pub(crate) use lanes::builders;

use super::Driver;
use crate::functions::install::CatalogChange;
use crate::workers::PendingRequest;
use fnd_core::lifecycle::waiting_builds::{BuildEnd, BuildTask, LaneOrder, WaitingBuild};
use fnd_core::supervisor::Event;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{NeedsBuild, Prune, Request};
use fnd_wire::ids::FunctionName;
use tokio::sync::oneshot;

impl Driver {
    /// Handles the answer that a function's dependencies have to be installed first.
    pub(super) fn needs_build(&mut self, request: u32, needs: NeedsBuild) {
        let NeedsBuild {
            function,
            document,
            build,
        } = needs;
        let tree = build.version;
        let task = BuildTask::of(&document);
        let is_poll = self.functions.sources.is_poll(&function);
        if let Some(why) = self.builds.failure(&function, tree).filter(|_| is_poll) {
            let why = why.to_owned();
            return self.is_as_before(request, &document, &why);
        }
        // A poll fetches the code again. An error in the code that was fetched before stays until other code is there.
        let keeps_error = is_poll && task == BuildTask::Fetch;
        let Some(candidate) = self.functions.waits_for_build(request, &document, keeps_error) else {
            return;
        };
        if task == BuildTask::Install {
            let tree = fnd_core::lifecycle::release::short(tree);
            tracing::info!("{function}  waits for its dependencies {tree}");
        }
        // A build of an earlier fnd may run: it must not count as one of a deleted function.
        if self.functions.registry.get(&build.function).is_none() {
            self.install_own(build.function.clone(), &build);
        }
        let known = self.functions.registry.get(&function);
        let is_file = candidate.copy().is_none();
        let is_news = is_file && !keeps_error && known.is_none_or(|known| !known.is_unfetched());
        let waiting = WaitingBuild {
            file: candidate,
            document,
            since_ms: self.clock.now().unix_ms,
            task,
            tree,
        };
        // A reload may have changed `[build] jobs` since the last build.
        let orders = self.builds.needs(waiting, build, self.lanes());
        if is_news {
            self.step(Event::Building(function));
        }
        self.build_orders(orders);
    }

    /// Handles code that was fetched again and is the code whose dependencies could not be installed: they are not tried again
    /// until a person asks, or other code is there.
    fn is_as_before(&mut self, request: u32, document: &Bytes, why: &str) {
        let Some(candidate) = self.functions.installer.answered(request) else {
            return;
        };
        self.functions.sources.no_poll(&candidate.function);
        let dirs = &self.workers.welcome.functions_dirs;
        let change = self.functions.build_failed(candidate, document, why, dirs);
        if let Some(change) = change {
            self.changed(change);
        }
    }

    /// Handles the answer that there is a tree, or why there is none.
    pub(super) fn sealed(&mut self, request: u32, why: Option<String>) {
        if let Some(PendingRequest::Seal(lane)) = self.workers.asked.remove(&request) {
            // The size of all trees is counted anew when the next status asks for it.
            self.trees.changed();
            let orders = self.builds.sealed(&lane, why.map_or(Ok(()), Err));
            self.build_orders(orders);
        }
    }

    /// Handles the end of an invocation of `fnd-build`.
    pub(super) fn build_ended(&mut self, end: BuildEnd) {
        let last = end.last.clone();
        let (fetched, orders) = self.builds.ended(end);
        for function in fetched {
            self.functions.sources.fetched(&function, last.clone());
        }
        self.build_orders(orders);
    }

    fn build_orders(&mut self, orders: Vec<LaneOrder>) {
        for order in orders {
            match order {
                LaneOrder::Clear(lane) => self.seal(lane, None),
                LaneOrder::Seal(lane, tree) => self.seal(lane, Some(tree)),
                LaneOrder::Build(lane, build) => self.build(lane, &build),
                LaneOrder::Install(files) => {
                    // The tree is there now, so the same request to the spawner makes the version.
                    files
                        .into_iter()
                        .for_each(|file| self.functions.installer.requeue(file));
                    self.prune_builds();
                    self.settle();
                }
                LaneOrder::Refuse(waiting, why) => {
                    for WaitingBuild { file, document, .. } in waiting {
                        let dirs = &self.workers.welcome.functions_dirs;
                        let change = self.functions.build_failed(file, &document, &why, dirs);
                        if let Some(change) = change {
                            self.changed(change);
                        }
                    }
                    self.prune_builds();
                    self.settle();
                }
            }
        }
    }

    /// Lets the spawner delete the versions of `fnd-build` that are not needed any more.
    fn prune_builds(&mut self) {
        let trees = self.builds.needed();
        for (function, newest) in self.functions.registry.builders() {
            let mut keep = trees.clone();
            keep.extend(newest);
            self.workers
                .request(&Request::Prune(Prune { function, keep }), Vec::new());
        }
    }

    /// Lets the spawner delete dependencies that no version has.
    pub(super) fn prune_trees(&mut self) {
        if !self.workers.welcome.is_of_0_1() {
            self.trees.changed();
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
        // A person asks, so a remembered result of the syntax check does not count.
        self.functions.installer.checks.forget(function);
        let (send, wait) = oneshot::channel();
        if clean && self.workers.welcome.is_of_0_1() {
            let why = "the running fnd-spawner is older than clean builds: `systemctl stop fnd && systemctl start fnd`";
            let _ = send.send(Err(why.to_owned())); // the receiver is below
            return Some(wait);
        }
        if clean {
            self.functions.rebuilt.insert(function.clone());
        }
        self.functions.build_callers.push((function.clone(), send));
        self.functions.sources.ask(function);
        self.functions.installer.requeue(candidate);
        self.settle();
        Some(wait)
    }

    /// Tells the callers that wait for a function what has become of it.
    pub(super) fn build_is_over(&mut self, change: &CatalogChange) {
        let (function, outcome) = match change {
            CatalogChange::Installed(installed, _) => (&installed.function, Ok(())),
            // A release is held: the file is installed, and does not serve.
            CatalogChange::Waits { function, .. } => (function, Ok(())),
            CatalogChange::Refused { function, error, .. } | CatalogChange::Clash { function, error } => {
                (function, Err(error.clone()))
            }
            CatalogChange::Removed(function) => (function, Err("it was removed".to_owned())),
            _ => return,
        };
        if let CatalogChange::Installed(installed, _) = change {
            let version = installed.version;
            let serving = self
                .functions
                .registry
                .get(function)
                .and_then(|known| known.serving(Some(version)));
            let tree = serving.and_then(|serving| serving.tree.as_deref().copied());
            let build = match tree {
                Some(tree) => self.builds.maker(tree),
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
        if matches!(change, CatalogChange::Removed(_)) {
            self.builds.remove(function);
        }
        if self.functions.sources.is_asked(function) || outcome.is_ok() && self.builds.is_fetching(function) {
            return; // the answer that they wait for is still to come
        }
        for (_, caller) in self
            .functions
            .build_callers
            .extract_if(.., |(name, _)| name == function)
        {
            let _ = caller.send(outcome.clone()); // an error: nobody waits any more
        }
    }
}
