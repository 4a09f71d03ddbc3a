//! The lanes of builds: functions of fnd's own (`fnd-build`, `fnd-build-2`, `fnd-build-u1000` and so on), in each of which one build runs at a
//! time. The spawner says which of them may build for a function. It does not decide what is built.

use super::Driver;
use crate::functions::install::read_document;
use crate::functions::rules::rules;
use crate::workers::PendingRequest;
use fnd_core::lifecycle::SourceFiles;
use fnd_core::lifecycle::builds::Lane;
use fnd_core::lifecycle::waiting_builds::BuildEnd;
use fnd_core::records::outcome::Trigger;
use fnd_core::supervisor::{self, Event};
use fnd_manifest::judge::Verdict;
use fnd_wire::frame::{Install, Installed, Refused, Request, STORED, SealTree};
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::plan::BUILD;
use std::path::Path;
use std::sync::Arc;

/// As many as `[build] jobs` may be.
const LANES_MAX: u32 = 64;

/// Returns the lanes for functions of root.
fn lanes_of_root() -> impl Iterator<Item = Lane> {
    let first = FunctionName::new(BUILD).expect("a name");
    (1..=LANES_MAX).map(move |number| Lane {
        first: first.clone(),
        number,
    })
}

/// Returns the names of all functions that may install dependencies of functions of root.
pub(crate) fn builders() -> impl Iterator<Item = FunctionName> {
    lanes_of_root().map(|lane| lane.builder())
}

impl Driver {
    /// Returns how many trees are built at once.
    pub(super) fn lanes(&self) -> u32 {
        if self.workers.welcome.is_of_0_1() {
            return 1;
        }
        self.node.settings.settings.build.jobs
    }

    pub(super) fn seal(&mut self, lane: Lane, tree: Option<Version>) {
        let function = lane.builder();
        let request = Request::Seal(SealTree { function, tree });
        if let Some(number) = self.workers.send(&request, Vec::new()) {
            self.workers.asked.insert(number, PendingRequest::Seal(lane));
        }
    }

    /// Removes what builds of an earlier fnd have left, if it was killed.
    pub(in crate::driver) fn sweep_builds(&mut self) {
        // The spawner of fnd 0.1 builds nothing, and ends the connection at a request that it does not know.
        if self.workers.welcome.is_of_0_1() || std::mem::replace(&mut self.trees.is_swept, true) {
            return;
        }
        let homes = Path::new(&self.node.places.state).join("home");
        // Other lanes are emptied when something is built there: fnd may not list the homes.
        for lane in lanes_of_root().filter(|lane| homes.join(lane.builder().as_str()).exists()) {
            let live = self.supervisor.live_of(&lane.builder());
            let orders = self.builds.sweep(lane, live);
            self.build_orders(orders);
        }
    }

    /// Starts the build of a tree. The first lane has its version already; another one gets it first.
    pub(super) fn build(&mut self, lane: Lane, build: &Installed) {
        if lane.number == 1 {
            return self.start_build(&lane, build);
        }
        let request = Request::Install(Install {
            directory: STORED,
            function: lane.builder(),
            source: build.version.hex(),
            sidecar: None,
            directory_form: false,
        });
        if let Some(number) = self.workers.send(&request, Vec::new()) {
            self.workers
                .asked
                .insert(number, PendingRequest::Lend(lane, build.version));
        }
    }

    /// Says whether a request gives a version to a lane.
    pub(in crate::driver) fn is_lent(&self, request: u32) -> bool {
        matches!(self.workers.asked.get(&request), Some(PendingRequest::Lend(..)))
    }

    /// Handles the answer that a lane gets no version, if the request asked for that; says whether it did.
    pub(in crate::driver) fn not_lent(&mut self, request: u32, refused: &Refused) -> bool {
        let why = refused.problems.first().map(|problem| problem.message.clone());
        self.is_lent(request) && self.lent(request, Err(why.unwrap_or_default()))
    }

    /// Handles the answer that a lane has the version that builds its tree, or why it has not. Says whether the request asked
    /// for that.
    pub(in crate::driver) fn lent(&mut self, request: u32, lent: Result<Installed, String>) -> bool {
        let Some(PendingRequest::Lend(lane, tree)) = self.workers.asked.get(&request) else {
            return false;
        };
        let (lane, tree) = (lane.clone(), *tree);
        self.workers.asked.remove(&request);
        let known = self.builds.version(tree);
        match lent.map(|lent| known.map(|known| (lent, known.document.clone()))) {
            Ok(Some((lent, document))) => self.start_build(&lane, &Installed { document, ..lent }),
            failed => {
                let why = failed.err().unwrap_or_default();
                let orders = self.builds.not_started(&lane, format!("(not started): {why}"));
                self.build_orders(orders);
            }
        }
        true
    }

    /// Starts a build in its lane. If a build of an earlier fnd still runs there, its end is waited for.
    fn start_build(&mut self, lane: &Lane, installed: &Installed) {
        let builder = lane.builder();
        self.install_own(builder.clone(), installed);
        if let Some(id) = self.supervisor.live_of(&builder) {
            self.builds.started(lane, id, false);
            return;
        }
        let submit = self.new_submit(builder, Trigger::Manual);
        let id = submit.id;
        self.builds.started(lane, id, true);
        // The supervisor has refused the build. Its end is handled later, because other orders of the books may still
        // have to be carried out.
        if let Err(why) = self.submit_own(submit) {
            let outcome = Err(format!("(not started): {why}"));
            let last = String::new();
            self.turn.builds.push_back(BuildEnd { id, outcome, last });
        }
    }

    /// Lets a version of a function of fnd's own serve.
    pub(in crate::driver) fn install_own(&mut self, own: FunctionName, installed: &Installed) {
        let verdict = read_document::<Verdict>(&installed.document)
            .inspect_err(|error| tracing::error!("the verdict on `{own}` cannot be read: {error}"));
        let Ok(verdict) = verdict else { return };
        let candidate = SourceFiles::of_copy(own.clone(), installed.version);
        let registry = &mut self.functions.registry;
        let Some(serving) = registry.installed(candidate, installed, verdict, None) else {
            return;
        };
        let mut rules = rules(&serving.manifest, &self.node.settings.host);
        // The reservations of builds must leave room for functions that run, also on a machine with less than `[build] memory`.
        let room = self.node.settings.budget().memory / 4 / u64::from(self.lanes());
        rules.memory = rules.memory.min(room);
        self.step(Event::Installed(Box::new(supervisor::InstalledVersion {
            function: own,
            id: installed.id,
            version: installed.version,
            load_key: installed.load_key,
            load_id: InvocationId(0),
            rules: Arc::new(rules),
        })));
    }
}
