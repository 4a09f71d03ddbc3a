//! Builds and checks, which run as functions of fnd's own: which files wait for them, and what follows from their ends.
//! [`builds`] decides which tree is built next, [`checks`] which files are checked next.
//!
//! [`builds`]: super::builds
//! [`checks`]: super::checks

use super::answers::{read_document, read_verdict};
use super::builds::{BuildFailure, BuildOrder, Lane};
use super::check_end::CheckEnd;
use super::checks::CheckResult;
use super::installed::for_supervisor;
use super::manifest_rules::rules;
use super::order::{CallerNumber, Order};
use super::waiting_builds::{BuildEnd, BuildTask, WaitingBuild};
use super::{BuildCaller, Lifecycle, NodeFacts, SourceFiles};
use crate::report::FunctionNews;
use crate::run::Event;
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
    pub(super) fn needs_check(
        &mut self,
        files: SourceFiles,
        needs: NeedsBuild,
        node: NodeFacts<'_>,
        out: &mut Vec<Order>,
    ) {
        let build = needs.build;
        self.know_own(&checker(), &build, node, out);
        let checked = read_document(&build.document).ok();
        // The judge puts the files into its document. During an upgrade the judge may belong to another fnd, which does
        // not.
        let Some(input) = checked.and_then(|verdict| verdict.checked_files()) else {
            return self.check_refused(files, "the judge is that of another fnd");
        };
        self.installer.checks.ready((files, input), build);
        self.next_checks(node, out);
    }

    /// Handles the answer that the check of a file cannot be prepared. The file is then installed without a check. If the file
    /// itself is the reason, the installation finds that, too.
    pub(super) fn check_refused(&mut self, files: SourceFiles, why: &str) {
        let checks = &mut self.installer.checks;
        checks.cannot(&files.function, &format!("(not started): {why}"));
        self.installer.requeue(files);
    }

    /// Starts the next run of checks, if none runs. If a run of an earlier fnd goes on, fnd waits for its end first.
    fn next_checks(&mut self, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        if (node.is_live)(&checker()) {
            return;
        }
        let Some((by, mut input)) = self.installer.checks.next_batch() else {
            return;
        };
        self.install_own(&checker(), &by, node, out);
        input.extend_from_slice(&ARCHIVE_END);
        out.push(Order::Check(input));
    }

    /// Handles the end of a run of checks.
    pub fn check_ended(&mut self, end: CheckEnd, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        for (files, result) in self.installer.checks.ended(end.id, end.results, &end.otherwise) {
            if let CheckResult::Unchecked(why) = result {
                let text = format!("the syntax of its code could not be checked {why}; it serves unchecked");
                out.push(Order::News(files.function.clone(), FunctionNews::Warning(text)));
            }
            // The file is installed once more. The handler of that answer finds the result of the check.
            self.installer.requeue(files);
        }
        // Files that became ready during the run are the next batch.
        self.next_checks(node, out);
        self.prune_checks(out);
        out.push(Order::Settle);
    }

    /// Has the spawner delete the versions of `fnd-check`, once no check needs one.
    fn prune_checks(&mut self, out: &mut Vec<Order>) {
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
        (files, is_clean): (SourceFiles, bool),
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
            self.clean_builds.insert(function.clone());
        } else if is_clean {
            self.is_built_from_scratch(&function, tree);
        }
        let waiting = WaitingBuild {
            file: files,
            document,
            since_ms: node.now.unix_ms,
            task,
            tree,
            is_clean: is_clean && !is_fetch,
        };
        self.builds.lanes.repeat_cancelled(tree, node.is_cancelled);
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
        self.registry.waits(files.clone(), verdict, keeps_error);
        // Until its build has ended, the release that served last serves, also after a start of fnd.
        self.decide_refused(function);
        true
    }

    /// Handles the answer to [`Order::Seal`]: the lane is empty or its tree exists, or the reason why not.
    pub fn sealed(&mut self, lane: &Lane, sealed: Result<(), String>, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        if let Some(tree) = self.builds.lanes.sealing(lane).filter(|_| sealed.is_ok()) {
            self.enqueue_list(tree, out);
        }
        let orders = self.builds.lanes.sealed(lane, sealed);
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
                let orders = self.builds.lanes.not_started(&lane, why);
                self.build_orders(orders, node, out);
            }
        }
    }

    /// Handles the end of an invocation of `fnd-build`.
    pub fn build_ended(&mut self, end: BuildEnd, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        self.answer_cancelled(&end, out);
        let last = end.last.clone();
        let (fetched, orders) = self.builds.ended(end);
        for function in fetched {
            self.sources.fetched(&function, last.clone());
        }
        self.build_orders(orders, node, out);
    }

    /// Answers the callers who have asked for a build before it was cancelled, if it has failed and others have asked after that.
    fn answer_cancelled(&mut self, end: &BuildEnd, out: &mut Vec<Order>) {
        let Err(why) = &end.outcome else { return };
        let why = why.to_string();
        let why = format!("its build failed {}", why.lines().next().unwrap_or_default());
        let asked = self
            .build_callers
            .extract_if(.., |caller| caller.cancelled == Some(end.id));
        out.extend(asked.map(|caller| Order::Answer(caller.number, Err(why.clone()))));
    }

    /// Empties a lane in which an earlier fnd may have left something; `live` is its build that still runs there.
    pub fn sweep_lane(&mut self, lane: Lane, live: Option<InvocationId>, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        let order = self.builds.lanes.sweep(lane, live);
        self.build_orders(order, node, out);
    }

    /// Returns whether a build may start in its lane, in which nothing runs now. If files may lie there that are not its own, the
    /// lane is emptied once more, and [`Order::Build`] comes again.
    pub fn is_empty_lane(&mut self, lane: &Lane, node: NodeFacts<'_>, out: &mut Vec<Order>) -> bool {
        let order = self.builds.lanes.clear_again(lane);
        let is_empty = order.is_none();
        self.build_orders(order, node, out);
        is_empty
    }

    fn build_orders(
        &mut self,
        orders: impl IntoIterator<Item = BuildOrder>,
        node: NodeFacts<'_>,
        out: &mut Vec<Order>,
    ) {
        for order in orders {
            match order {
                BuildOrder::Clear(lane) => {
                    // The end of this run may come only after a version was lent to the lane, so nothing waits for it here.
                    if (node.is_live)(&lane.builder()) {
                        self.builds.lanes.is_shared(&lane);
                    }
                    out.push(Order::Seal(lane, None));
                }
                BuildOrder::Seal(lane, tree) => out.push(Order::Seal(lane, Some(tree))),
                // The first lane has the version that builds already; another one gets it first.
                BuildOrder::Build(lane, tree) if lane.number == 1 => {
                    // The version cannot be absent: `needs` stores one for each wanted tree.
                    let Some(build) = self.builds.version(tree).cloned() else {
                        continue;
                    };
                    self.install_own(&lane.builder(), &build, node, out);
                    out.push(Order::Build(lane));
                }
                BuildOrder::Build(lane, tree) => out.push(Order::Lend(lane, tree)),
                BuildOrder::Install(waiters) => {
                    // The tree is there now, so the same request to the spawner makes the version.
                    for waiting in self.builds.take(&waiters) {
                        self.installer.requeue(waiting.file);
                    }
                    self.prune_builds(out);
                }
                BuildOrder::Refuse(waiters, why) => {
                    let words = why.to_string();
                    for WaitingBuild { file, document, .. } in self.builds.take_refused(&waiters, &why) {
                        self.build_failed((file.clone(), &document), &words, node.dirs, out);
                        let is_final = matches!(why, BuildFailure::Failed(_));
                        self.installer.is_over(&file, (!is_final).then_some(node.now.mono));
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
        let Some(serving) = self.registry.installed(files, (installed, None), verdict, None) else {
            return;
        };
        let mut rules = rules(&serving.manifest, node.host);
        // The reservations of builds must leave room for functions that run, also on a machine with less than `[build] memory`.
        rules.memory = rules.memory.min((node.internal_memory)());
        let installed = for_supervisor(own, serving, Arc::new(rules));
        out.push(Order::Serve(Box::new(installed), None));
    }

    /// Installs a function again, and its dependencies if they are missing; with `clean` in any case. The caller is answered when
    /// the function is installed or refused. Returns false if there is no function of that name. `is_cancelled` says whether a run
    /// was cancelled and has not ended yet: the earlier callers are answered at the end of such a build, and this one after the next.
    pub fn build_again(
        &mut self,
        function: &FunctionName,
        clean: bool,
        caller: CallerNumber,
        is_cancelled: impl Fn(InvocationId) -> bool,
    ) -> bool {
        let Some(files) = self.registry.get(function).map(|known| known.candidate.clone()) else {
            return false;
        };
        // A person asks, so a remembered result of the syntax check does not count.
        self.installer.checks.forget(function);
        if clean {
            self.clean_builds.insert(function.clone());
        }
        let cancelled = self.builds.build_of(function).filter(|id| is_cancelled(*id));
        let callers = self.build_callers.iter_mut();
        let earlier = callers.filter(|one| one.function == *function && one.after != cancelled);
        earlier.for_each(|one| one.cancelled = one.cancelled.or(cancelled));
        self.build_callers.push(BuildCaller {
            function: function.clone(),
            number: caller,
            after: cancelled,
            cancelled: None,
        });
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
