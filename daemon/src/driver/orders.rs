//! Hands facts to the lifecycle, carries out its orders, and stores the releases that have changed.

use super::Driver;
use crate::functions::authors::{FunctionPlaces, author};
use crate::ledger::LedgerCommand;
use fnd_core::lifecycle::{Lifecycle, NodeFacts, Order, Running, SourceFiles};
use fnd_core::report::ReportEvent;
use fnd_core::run::Event;
use fnd_wire::ids::FunctionName;

impl Driver {
    /// Has the lifecycle decide, carries out its orders at once, and stores the releases that have changed.
    pub(super) fn decide_lifecycle<T>(
        &mut self,
        decide: impl FnOnce(&mut Lifecycle, NodeFacts<'_>, &mut Vec<Order>) -> T,
    ) -> T {
        let lanes = self.lanes();
        let places = FunctionPlaces {
            dirs: &self.workers.welcome.functions_dirs,
            state: &self.node.places.state,
            own_uid: self.node.settings.own_uid,
        };
        let settings = &self.node.settings;
        let node = NodeFacts {
            host: &settings.host,
            now: self.clock.now(),
            dirs: places.dirs,
            is_spawner_of_0_1: self.workers.welcome.is_of_0_1(),
            lanes,
            internal_memory: &|| settings.budget().memory / 4 / u64::from(lanes),
            author: &|files: &SourceFiles, trusted| author(files, trusted, places),
        };
        let mut orders = Vec::new();
        let result = decide(&mut self.lifecycle, node, &mut orders);
        orders.into_iter().for_each(|order| self.carry_out(order));
        self.store_releases();
        result
    }

    /// Stores the releases that have changed, and answers the callers whose release can no longer come.
    pub(super) fn store_releases(&mut self) {
        let mut orders = Vec::new();
        for (function, releases) in self.lifecycle.take_changed(&mut orders) {
            self.records.store(LedgerCommand::StoreReleases { function, releases });
        }
        orders.into_iter().for_each(|order| self.carry_out(order));
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Supervise(event) => self.step(event),
            Order::Serve(mut installed) => {
                installed.load_id = self.next_id();
                self.step(Event::Installed(installed));
            }
            Order::Share(mut installed, percent) => {
                installed.load_id = self.next_id();
                self.step(Event::Canary { installed, percent });
            }
            Order::Confirm(request, files) => self.functions.catalog.confirm(request, files),
            Order::Request(request) => self.workers.request(&request, Vec::new()),
            Order::Seal(lane, tree) => self.workers.seal(lane, tree),
            Order::Lend(lane, tree) => self.workers.lend(lane, tree),
            Order::Build(lane) => self.start_build(&lane),
            Order::RunChecks => self.run_checks(),
            Order::Check(input) => self.start_checks(input),
            Order::PruneChecks => self.decide_lifecycle(|lifecycle, _, out| lifecycle.prune_checks(out)),
            Order::Prune(function) => self.prune(&function),
            Order::FollowCanary(function) => {
                let running = self.running(&function);
                self.decide_lifecycle(|lifecycle, _, out| lifecycle.follow_canary(&function, running, out));
            }
            Order::EnqueueCanary(function) => {
                let running = self.running(&function);
                self.lifecycle.enqueue_canary(&function, running);
                self.ask_for_installs();
            }
            Order::Settle => self.settle(),
            Order::StoreVersions(function, installed) => {
                self.records.store(LedgerCommand::StoreVersions { function, installed });
            }
            Order::Answer(caller, outcome) => self.callers.outcomes.answer(caller, outcome),
            Order::UploadSeen(function, seen) => self.functions.uploads.seen(&function, seen),
            Order::Remove(function) => self.remove(&function),
            Order::Listen(function) => self.listen_for(&function),
            Order::CheckAlert(function) => {
                self.check_alert(&function);
                self.catch_up();
            }
            Order::Status(function) => self.status_changed(&function),
            Order::AskForSecrets(function) => self.ask_for_secrets(&function),
            Order::ReportRefused {
                function,
                error,
                serving,
            } => self.report(ReportEvent::ContentRefused {
                function: &function,
                error: &error,
                serving,
            }),
            Order::News(function, news) => self.report(ReportEvent::News(&function, &news)),
        }
    }

    /// Returns the versions of a function that the supervisor has besides the one that serves.
    pub(super) fn running(&self, function: &FunctionName) -> Running {
        let Some(view) = self.supervisor.function(function) else {
            return Running::default();
        };
        Running {
            trial: view.trial.map(|trial| (trial.version, trial.canary)),
            canary: view.canary.map(|canary| canary.version),
        }
    }
}
