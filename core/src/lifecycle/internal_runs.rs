//! Builds and checks, which run as functions of fnd's own: which files wait for them, and what follows from their ends.
//! [`builds`] decides which tree is built next, [`checks`] which files are checked next.
//!
//! [`builds`]: super::builds
//! [`checks`]: super::checks

use super::answers::{read_document, read_verdict};
use super::builds::{BuildFailure, Lane};
use super::check_end::CheckEnd;
use super::checks::CheckResult;
use super::installed::for_supervisor;
use super::order::{CallerNumber, Order};
use super::rules::rules;
use super::waiting_builds::{BuildEnd, BuildTask, LaneOrder, WaitingBuild};
use super::{Lifecycle, NodeFacts, SourceFiles};
use crate::report::FunctionNews;
use crate::run::Event;
use fnd_manifest::judge::Verdict;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Installed, NeedsBuild, Prune, Request};
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::plan::CHECK;
use std::sync::Arc;

/// The bytes that end an archive.
const ARCHIVE_END: [u8; 1024] = [0; 1024];

/// Returns the name of the function that checks.
///
/// # Panics
/// Never: it is a name.
#[must_use]
pub fn checker() -> FunctionName {
    FunctionName::new(CHECK).expect("a name")
}

impl Lifecycle {
    /// Handles the answer that the check of a file is prepared.
    pub(super) fn needs_check(&mut self, request: u32, needs: NeedsBuild, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        let NeedsBuild { function, build, .. } = needs;
        let Some(files) = self.installer.answered(request) else {
            return;
        };
        self.know_own(&checker(), &build, node, out);
        let checked = read_document::<Verdict>(&build.document).ok();
        // The judge puts the files into its document. During an upgrade the judge may belong to another fnd, which does
        // not.
        let Some(input) = checked.and_then(|verdict| verdict.checked_files()) else {
            let checks = &mut self.installer.checks;
            checks.cannot(&function, "(not started): the judge is that of another fnd");
            return self.installer.requeue(files);
        };
        self.installer.checks.ready((files, input), build);
        out.push(Order::RunChecks);
    }

    /// Handles the answer that the check of a file cannot be prepared. The file is then installed without a check. If the file
    /// itself is the reason, the installation finds that, too.
    pub(super) fn check_refused(&mut self, request: u32, why: &str) {
        if let Some(files) = self.installer.answered(request) {
            let checks = &mut self.installer.checks;
            checks.cannot(&files.function, &format!("(not started): {why}"));
            self.installer.requeue(files);
        }
    }

    /// Starts the next run of checks, if none runs. `is_busy` says that a run of an earlier fnd goes on; fnd waits for its end
    /// first.
    pub fn next_checks(&mut self, is_busy: bool, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        if is_busy {
            return;
        }
        let Some(mut batch) = self.installer.checks.next_batch() else {
            return;
        };
        self.install_own(&checker(), &batch.by, node, out);
        batch.input.extend_from_slice(&ARCHIVE_END);
        out.push(Order::Check(batch.input));
    }

    /// Handles the end of a run of checks.
    pub fn check_ended(&mut self, end: CheckEnd, out: &mut Vec<Order>) {
        for (files, result) in self.installer.checks.ended(end.id, end.results, &end.otherwise) {
            if let CheckResult::Unchecked(why) = result {
                let text = format!("the syntax of its code could not be checked {why}; it serves unchecked");
                out.push(Order::News(files.function.clone(), FunctionNews::Warning(text)));
            }
            // The file is installed once more. The handler of that answer finds the result of the check.
            self.installer.requeue(files);
        }
        // Files that became ready during the run are the next batch.
        out.push(Order::RunChecks);
        out.push(Order::PruneChecks);
        out.push(Order::Settle);
    }

    /// Has the spawner delete the versions of `fnd-check`, once no check needs one.
    pub fn prune_checks(&mut self, out: &mut Vec<Order>) {
        if !self.installer.needs_no_check() {
            return;
        }
        let function = checker();
        let newest = self.registry.get(&function).and_then(|known| known.newest.as_ref());
        let keep = newest.map(|newest| newest.version).into_iter().collect();
        out.push(Order::Request(Request::Prune(Prune { function, keep })));
    }

    /// Handles the answer that a function's dependencies have to be installed first; `is_clean`: from scratch, because a person
    /// asked for that.
    pub(super) fn needs_build(
        &mut self,
        (request, is_clean): (u32, bool),
        needs: NeedsBuild,
        node: NodeFacts<'_>,
        out: &mut Vec<Order>,
    ) {
        let NeedsBuild {
            function,
            document,
            build,
        } = needs;
        let (tree, task) = (build.version, BuildTask::of(&document));
        let is_poll = self.sources.is_poll(&function);
        let Some(files) = self.installer.answered(request) else {
            return;
        };
        // The poll has brought the same code again, and its dependencies could not be installed before. They are tried again only
        // if a person asks, or other code is there.
        if let Some(why) = self.builds.failure(&function, tree).filter(|_| is_poll) {
            let why = why.to_owned();
            self.sources.no_poll(&files.function);
            return self.build_failed((files, &document), &why, node.dirs, out);
        }
        // A poll fetches the code again. An error in the code that was fetched before stays until other code is there.
        let keeps_error = is_poll && task == BuildTask::Fetch;
        let is_file = files.copy().is_none();
        if is_file && !self.waits_for_build(&files, &document, keeps_error, out) {
            return;
        }
        if task == BuildTask::Install {
            out.push(Order::News(function.clone(), FunctionNews::WaitsForBuild(tree)));
        }
        self.know_own(&build.function, &build, node, out);
        let known = self.registry.get(&function);
        let is_news = is_file && !keeps_error && known.is_none_or(|known| !known.is_unfetched());
        let is_fetch = task == BuildTask::Fetch;
        if is_clean && is_fetch {
            // Only the code comes now. The request after that asks for the build from scratch again.
            self.clean_builds.want(function.clone());
        } else if is_clean {
            self.is_built_anew(&function, tree);
        }
        let waiting = WaitingBuild {
            file: files,
            document,
            since_ms: node.now.unix_ms,
            task,
            tree,
            is_clean: is_clean && !is_fetch,
        };
        // A reload may have changed `[build] jobs` since the last build.
        let orders = self.builds.needs(waiting, build, node.lanes);
        if is_news {
            out.push(Order::Supervise(Event::Building(function)));
        }
        self.build_orders(orders, node, out);
    }

    /// Stores that a file waits for its dependencies. With `keeps_error`, the error of the earlier code stays until other code is
    /// there. Returns false if the verdict on the file cannot be read.
    fn waits_for_build(
        &mut self,
        files: &SourceFiles,
        document: &Bytes,
        keeps_error: bool,
        out: &mut Vec<Order>,
    ) -> bool {
        let function = &files.function;
        let Some(verdict) = read_verdict(function, document, out) else {
            self.installer.is_final(files);
            return false;
        };
        if keeps_error {
            self.registry.waits_as_before(files.clone(), verdict);
        } else {
            self.registry.waits(files.clone(), verdict);
        }
        // Until its build has ended, the release that served last serves, also after a start of fnd.
        self.decide_refused(function);
        true
    }

    /// Handles the answer to [`Order::Seal`]: the lane is empty or its tree exists, or the reason why not.
    pub fn sealed(&mut self, lane: &Lane, sealed: Result<(), String>, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        if let Some(tree) = self.builds.sealing(lane).filter(|_| sealed.is_ok()) {
            self.enqueue_list(tree, out);
        }
        let orders = self.builds.sealed(lane, sealed);
        self.build_orders(orders, node, out);
    }

    /// Handles the answer to [`Order::Lend`]: the version that builds `tree` in this lane, or the reason why the lane gets none.
    pub fn lent(
        &mut self,
        (lane, tree): (Lane, Version),
        lent: Result<Installed, String>,
        node: NodeFacts<'_>,
        out: &mut Vec<Order>,
    ) {
        let known = self.builds.version(tree);
        match lent.map(|lent| known.map(|known| (lent, known.document.clone()))) {
            Ok(Some((lent, document))) => {
                self.install_own(&lane.builder(), &Installed { document, ..lent }, node, out);
                out.push(Order::Build(lane));
            }
            failed => {
                let why = failed.err().unwrap_or_default();
                let orders = self.builds.not_started(&lane, why);
                self.build_orders(orders, node, out);
            }
        }
    }

    /// Handles the end of an invocation of `fnd-build`.
    pub fn build_ended(&mut self, end: BuildEnd, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        let last = end.last.clone();
        let (fetched, orders) = self.builds.ended(end);
        for function in fetched {
            self.sources.fetched(&function, last.clone());
        }
        self.build_orders(orders, node, out);
    }

    /// Empties a lane in which an earlier fnd may have left something; `live` is its build that still runs there.
    pub fn sweep_lane(&mut self, lane: Lane, live: Option<InvocationId>, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        let orders = self.builds.sweep(lane, live);
        self.build_orders(orders, node, out);
    }

    /// Returns whether a build may start in its lane, in which nothing runs now. If files may lie there that are not its own, the
    /// lane is emptied once more, and [`Order::Build`] comes again.
    pub fn is_empty_lane(&mut self, lane: &Lane, node: NodeFacts<'_>, out: &mut Vec<Order>) -> bool {
        let orders = self.builds.clear_again(lane);
        let is_empty = orders.is_empty();
        self.build_orders(orders, node, out);
        is_empty
    }

    fn build_orders(&mut self, orders: Vec<LaneOrder>, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        for order in orders {
            match order {
                LaneOrder::Clear(lane) => {
                    // The end of this run may come only after a version was lent to the lane, so nothing waits for it here.
                    if (node.is_live)(&lane.builder()) {
                        self.builds.is_shared(&lane);
                    }
                    out.push(Order::Seal(lane, None));
                }
                LaneOrder::Seal(lane, tree) => out.push(Order::Seal(lane, Some(tree))),
                // The first lane has the version that builds already; another one gets it first.
                LaneOrder::Build(lane, build) if lane.number == 1 => {
                    self.install_own(&lane.builder(), &build, node, out);
                    out.push(Order::Build(lane));
                }
                LaneOrder::Build(lane, build) => out.push(Order::Lend(lane, build.version)),
                LaneOrder::Install(waiting) => {
                    // The tree is there now, so the same request to the spawner makes the version.
                    let files = waiting.into_iter().map(|waiting| waiting.file);
                    files.for_each(|file| self.installer.requeue(file));
                    self.prune_builds(out);
                }
                LaneOrder::Refuse(waiting, why) => {
                    let words = why.to_string();
                    for WaitingBuild { file, document, .. } in waiting {
                        self.build_failed((file.clone(), &document), &words, node.dirs, out);
                        match why {
                            BuildFailure::NotStarted(_) | BuildFailure::Disturbed(_) => {
                                self.installer.refused(file, node.now.mono);
                            }
                            BuildFailure::Failed(_) => self.installer.is_final(&file),
                        }
                    }
                    self.prune_builds(out);
                }
            }
        }
    }

    /// Has the spawner delete the versions of `fnd-build` that are not needed any more, and installs the files that have waited.
    fn prune_builds(&mut self, out: &mut Vec<Order>) {
        let trees = self.builds.needed();
        // The answer to an installation that is under way may need another version, and the spawner would delete it. The end of
        // the next build deletes the others.
        if !self.installer.is_asking() {
            for (function, newest) in self.registry.builders() {
                let mut keep = trees.clone();
                keep.extend(newest);
                out.push(Order::Request(Request::Prune(Prune { function, keep })));
            }
        }
        out.push(Order::Settle);
    }

    /// Installs a function of fnd's own that is not known yet. Otherwise its run that an earlier fnd has started would count as a
    /// run of a deleted function.
    fn know_own(&mut self, own: &FunctionName, installed: &Installed, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        if self.registry.get(own).is_none() {
            self.install_own(own, installed, node, out);
        }
    }

    /// Lets a version of a function of fnd's own serve.
    fn install_own(&mut self, own: &FunctionName, installed: &Installed, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        let Some(verdict) = read_verdict(own, &installed.document, out) else {
            return;
        };
        let files = SourceFiles::of_copy(own.clone(), installed.version);
        let Some(serving) = self.registry.installed(files, installed, verdict, None) else {
            return;
        };
        let mut rules = rules(&serving.manifest, node.host);
        // The reservations of builds must leave room for functions that run, also on a machine with less than `[build] memory`.
        rules.memory = rules.memory.min((node.internal_memory)());
        out.push(Order::Serve(Box::new(for_supervisor(own, serving, Arc::new(rules)))));
    }

    /// Installs a function again, and its dependencies if they are missing; with `clean` in any case. The caller is answered when
    /// the function is installed or refused. Returns false if there is no function of that name.
    pub fn build_again(&mut self, function: &FunctionName, clean: bool, caller: CallerNumber) -> bool {
        let Some(files) = self.registry.get(function).map(|known| known.candidate.clone()) else {
            return false;
        };
        // A person asks, so a remembered result of the syntax check does not count.
        self.installer.checks.forget(function);
        if clean {
            self.clean_builds.want(function.clone());
        }
        self.build_callers.push((function.clone(), caller));
        self.sources.ask(function);
        self.installer.requeue(files);
        true
    }

    /// Stores for an installed release which build made its tree or fetched its code.
    pub(super) fn is_built(&mut self, function: &FunctionName, version: Version) {
        let known = self.registry.get(function);
        let serving = known.and_then(|known| known.serving(Some(version)));
        let build = match serving.and_then(|serving| serving.tree.as_deref().copied()) {
            Some(tree) => self.builds.maker(tree),
            // Without a tree, only the fetching of its code can be a build of this version.
            None => self
                .builds
                .last(function)
                .filter(|_| self.sources.has_fetched(function)),
        };
        if let Some(id) = build {
            self.releases.change(function, |releases| releases.built(version, id));
        }
    }
}
