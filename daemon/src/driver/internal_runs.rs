//! Starts the runs of fnd's own functions: builds in their lanes, and checks. The lifecycle decides what is built and checked.

use super::Driver;
use fnd_core::instant;
use fnd_core::lifecycle::builds::Lane;
use fnd_core::lifecycle::checks::CheckResult;
use fnd_core::lifecycle::waiting_builds::BuildEnd;
use fnd_core::lifecycle::{CheckEnd, checker};
use fnd_core::records::Payload;
use fnd_core::records::outcome::Trigger;
use fnd_core::run::Submit;
use fnd_wire::frame::Installed;
use fnd_wire::ids::{FunctionName, Version};
use std::path::Path;

impl Driver {
    /// Returns how many trees are built at once.
    pub(super) fn lanes(&self) -> u32 {
        if self.workers.welcome.is_of_0_1() {
            return 1;
        }
        self.node.settings.settings.build.jobs
    }

    /// Handles the spawner's answer about a lane that was to be sealed: the work is done, or `why` it is not.
    pub(super) fn sealed(&mut self, lane: &Lane, why: Option<String>) {
        // The size of all trees is counted anew when the next status asks for it.
        self.trees.changed();
        let sealed = why.map_or(Ok(()), Err);
        self.decide_lifecycle(|lifecycle, node, out| lifecycle.sealed(lane, sealed, node, out));
    }

    /// Handles the answer that a lane has the version that builds its tree, or the reason why not.
    pub(super) fn lent(&mut self, lent_to: (Lane, Version), lent: Result<Installed, String>) {
        self.decide_lifecycle(|lifecycle, node, out| lifecycle.lent(lent_to, lent, node, out));
    }

    /// Starts a build in its lane. If a build of an earlier fnd still runs there, its end is waited for.
    pub(super) fn start_build(&mut self, lane: &Lane) {
        let builder = lane.builder();
        if let Some(id) = self.supervisor.live_of(&builder) {
            self.lifecycle.builds.started(lane, id, false);
            return;
        }
        let submit = self.new_submit(builder, Trigger::Manual);
        let id = submit.id;
        self.lifecycle.builds.started(lane, id, true);
        // The supervisor has refused the build. Its end is handled later, because other orders may still have to be carried out.
        if let Err(why) = self.submit_own(submit) {
            let outcome = Err(format!("(not started): {why}"));
            let last = String::new();
            self.turn.builds.push_back(BuildEnd { id, outcome, last });
        }
    }

    /// Handles the end of an invocation of `fnd-build`.
    pub(super) fn build_ended(&mut self, end: BuildEnd) {
        self.decide_lifecycle(|lifecycle, node, out| lifecycle.build_ended(end, node, out));
    }

    /// Removes the files that builds of an earlier fnd have left, if that fnd was killed.
    pub(super) fn sweep_builds(&mut self) {
        // The spawner of fnd 0.1 builds nothing, and ends the connection at a request that it does not know.
        if self.workers.welcome.is_of_0_1() || std::mem::replace(&mut self.trees.is_swept, true) {
            return;
        }
        let homes = Path::new(&self.node.places.state).join("home");
        // Other lanes are emptied when something is built there: fnd may not list the homes.
        for lane in Lane::of_root().filter(|lane| homes.join(lane.builder().as_str()).exists()) {
            let live = self.supervisor.live_of(&lane.builder());
            self.decide_lifecycle(|lifecycle, node, out| lifecycle.sweep_lane(lane, live, node, out));
        }
    }

    /// Starts the next run of checks, if there is none.
    pub(super) fn run_checks(&mut self) {
        let is_busy = self.supervisor.live_of(&checker()).is_some();
        self.decide_lifecycle(|lifecycle, node, out| lifecycle.next_checks(is_busy, node, out));
    }

    /// Starts a run of checks with this input. It has many files, because the start of a process in a new sandbox takes longer
    /// than all other steps of an edit.
    pub(super) fn start_checks(&mut self, input: Vec<u8>) {
        let submit = self.new_submit(checker(), Trigger::Manual);
        let id = submit.id;
        self.lifecycle.installer.checks.started(id);
        // A run that is waited for is not made durable, and this one need not be: the next fnd checks the files anew. A failed
        // check is no dead letter, either.
        let submit = Submit {
            wait: true,
            payload: Payload {
                data: Some(input.into()),
                ..Payload::default()
            },
            ..submit
        };
        if let Err(why) = self.submit_own(submit) {
            self.turn.checks.push_back(CheckEnd::not_started(id, &why));
        }
    }

    /// Handles the end of an invocation of `fnd-check`.
    pub(super) fn check_ended(&mut self, end: CheckEnd) {
        self.decide_lifecycle(|lifecycle, _, out| lifecycle.check_ended(end, out));
    }

    /// Returns the words of `status` if the file of a function waits for its check, or if the version that serves was not
    /// checked.
    pub(super) fn check_words(&self, function: &FunctionName, serving: Option<Version>) -> Option<String> {
        let checks = &self.lifecycle.installer.checks;
        if let Some((_, since_ms)) = checks.waiting(function) {
            let since = instant::text(since_ms);
            return Some(format!("the syntax of its code is being checked since {since}"));
        }
        match checks.result(function, serving?)? {
            CheckResult::Unchecked(why) => Some(format!("the syntax of its code could not be checked {why}")),
            CheckResult::Passed | CheckResult::Wrong(_) => None,
        }
    }
}
