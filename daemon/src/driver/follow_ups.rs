//! Does what follows from a change: status files, reports of news and problems, and the calls of hooks and alerts, which `follow_ups`
//! decides. A call is stored in one transaction with the record or the change that causes it, so after a kill of fnd both are
//! there or neither is.

use super::Driver;
use crate::chain;
use crate::follow_ups::{self, FollowUpCall, FollowUps, HealthChange, hooks};
use crate::ledger::{LedgerCommand, Unfollowed};
use crate::report::problems::ReportedProblem;
use crate::views::View;
use crate::views::trees::trees;
use fnd_core::api::NodeStatus;
use fnd_core::records::cause::AlertCondition;
use fnd_core::records::outcome::Skip;
use fnd_core::records::{InvocationRecord, Payload};
use fnd_core::report::{FunctionNews, ReportEvent};
use fnd_core::run::{Event, Now};
use fnd_core::triggers::alerts::{AlertFacts, AlertRules};
use fnd_manifest::settings::NodeAlert;
use fnd_wire::ids::FunctionName;
use std::time::Duration;

impl Driver {
    /// Returns a view of the supervisor and the parts, from which documents and problems are read.
    pub(crate) fn look(&self) -> View<'_> {
        View {
            now: self.clock.now(),
            supervisor: &self.supervisor,
            lifecycle: &self.lifecycle,
            functions: &self.functions,
            workers: &self.workers,
            node: &self.node,
            ledger: &self.records.ledger,
            output: &self.output,
            quotas: &self.quotas,
            schedules: &self.schedules,
            watchers: &self.watchers,
            nats: &self.nats,
            secrets: &self.secrets,
            alerts: &self.follow_ups.alerts,
            node_health: &self.follow_ups.node,
            reporter: &self.reporter,
            callers: &self.callers,
            listener: &self.listener,
            audit: &self.audit,
            state: &self.state,
        }
    }

    /// Returns the status of the node, without its functions.
    pub(crate) fn node_status(&self) -> NodeStatus {
        let packages_bytes = self.trees.bytes(&trees(&self.node.places.state));
        self.look().node(self.left_behind(), packages_bytes)
    }

    /// Reports an event everywhere: whoever has news calls this.
    pub(crate) fn report(&mut self, event: ReportEvent<'_>) {
        self.changes += 1;
        if let Some(function) = self.reporter.report(event) {
            self.write_status_soon(function);
        }
    }

    /// Reports that the newest content of a function does not serve, and why.
    pub(super) fn report_refused(&mut self, function: &FunctionName, message: &str) {
        let known = self.lifecycle.registry.get(function);
        let diagnostics = known.map_or_else(Vec::new, |known| known.findings.diagnostics.clone());
        self.report(ReportEvent::VersionRefused {
            function,
            message,
            diagnostics: &diagnostics,
        });
    }

    /// Reports that the status of a function has changed, and checks its alerts, whose conditions are facts of the status.
    pub(super) fn status_changed(&mut self, function: &FunctionName) {
        self.check_facts(function);
        self.report(ReportEvent::StatusChanged(function));
        self.wake_waiting_for(function); // each end of a trial changes the status
    }

    /// Removes the status files of functions that went away while fnd was not running.
    pub(crate) fn forget_statuses(&mut self) {
        let known = self.supervisor.functions().map(|view| view.name.clone()).collect();
        if let Err(error) = self.reporter.status_files.keep_only(&known) {
            self.report(ReportEvent::NodeWarning(format_args!("{}", chain(&error))));
        }
    }

    /// Writes a function's status file now, or with its next changes if it was just written.
    fn write_status_soon(&mut self, function: &FunctionName) {
        if self.reporter.status_files.changed(function, self.clock.mono()) {
            self.write_status(function);
        }
    }

    /// Replaces a function's status file, or removes it where the function is gone.
    pub(crate) fn write_status(&mut self, function: &FunctionName) {
        let view = self.supervisor.function(function);
        let status = view.map(|view| self.look().function_status(&view));
        // The status shows that an attempt has ended, which is when the home of the function may have grown.
        status.iter().for_each(|status| self.quota_after(status));
        let written = match status {
            Some(status) => self.reporter.status_files.write(&status),
            // Perhaps the function is not installed yet. The end of the first scan removes the files of functions that are
            // gone.
            None if !self.supervisor.is_scanned() => return,
            None => self.reporter.status_files.remove(function),
        };
        let mono = self.clock.now().mono;
        if self.reporter.status_files.tried(function, mono, written.is_ok())
            && let Err(error) = written
        {
            self.report(ReportEvent::NodeWarning(format_args!(
                "{}, it is tried again every second",
                chain(&error)
            )));
        }
    }

    /// Writes the status files whose changes waited for their next write.
    pub(crate) fn write_due(&mut self) {
        for function in self.reporter.status_files.due(self.clock.now().mono) {
            self.write_status(&function);
        }
    }

    /// Has the main loop compare the problems with those reported last.
    pub(crate) fn problems_changed(&mut self) {
        self.reporter.problems.due = true;
        self.changed.notify_one();
    }

    /// Reports which problems began and which are over, if they may have changed.
    pub(crate) fn report_problems(&mut self) {
        if !std::mem::take(&mut self.reporter.problems.due) {
            return;
        }
        let now = self.look().problems();
        // Alerts make a comparison of their own: they also know the problems about which an earlier fnd has made a call.
        self.check_problems(&now);
        self.reporter.compare_problems(self.clock.now().unix_ms, now);
        self.catch_up();
    }
}

impl Driver {
    /// Stores the record of an end together with [the calls that follow](Self::after_end).
    pub(super) fn store_end(&mut self, end: LedgerCommand, mut parts: Vec<LedgerCommand>) {
        if parts.is_empty() {
            return self.records.store(end);
        }
        #[cfg(feature = "simulate")]
        if fnd_core::mutants::Mutant::HooksApart.is_on() {
            self.records.store(end);
            return self.store_together(parts);
        }
        // The end comes first: by the first part the ledger decides whether the transaction has to be synced at once.
        parts.insert(0, end);
        self.store_together(parts);
    }

    /// Stores commands in one transaction. If the ledger has no room for them, the calls among them do not begin: the end is
    /// stored without them, and the next fnd makes them.
    fn store_together(&mut self, parts: Vec<LedgerCommand>) {
        let Err(LedgerCommand::Together(parts)) = self.records.ledger.submit(LedgerCommand::Together(parts)) else {
            return;
        };
        let (kept, calls) = follow_ups::without_room(parts);
        for call in calls {
            self.report(ReportEvent::News(&call.function, &FunctionNews::CallPostponed));
            self.turn.follow_up.push_back(Event::StoreFailed(call.id));
        }
        if !kept.is_empty() {
            self.records.store(LedgerCommand::Together(kept));
        }
    }

    /// Returns the commands to store with a record, if it is final. `output` has the last lines that the function
    /// printed.
    pub(super) fn after_end(&mut self, record: &InvocationRecord, output: &str) -> Vec<LedgerCommand> {
        if !record.state.is_final() {
            return Vec::new();
        }
        let payload = self.follow_ups.payloads.remove(&record.id);
        if self.knows_hooks(&record.function) {
            return self.follow(record, payload.as_ref(), output);
        }
        vec![self.follow_ups.follow_later(record, payload, output)]
    }

    /// Says whether the hooks of a function are known, and the functions that they call. A release that cannot be installed now
    /// (a full disk, an interpreter that is away) has hooks that nobody knows.
    fn knows_hooks(&self, function: &FunctionName) -> bool {
        self.supervisor.has_scanned() && !self.lifecycle.lacks_release(function)
    }

    /// Makes the calls for the ends that came before the hooks of their functions were known.
    pub(super) fn follow_late(&mut self) {
        // Each function that is installed comes here, and before the end of the first scan the hooks of none are known.
        if self.follow_ups.late.is_empty() || !self.supervisor.has_scanned() {
            return;
        }
        let late = std::mem::take(&mut self.follow_ups.late);
        let (known, late) = late
            .into_iter()
            .partition::<Vec<_>, _>(|(end, _)| self.knows_hooks(&end.record.function));
        self.follow_ups.late = late;
        for (Unfollowed { record, payload }, output) in known {
            let mut parts = self.follow(&record, Some(&payload), &output);
            // One transaction has the calls and this removal: a kill of fnd neither repeats a call nor loses one.
            parts.push(LedgerCommand::Followed(record.id));
            self.store_together(parts);
        }
    }

    /// Returns the commands that follow from a final record. If there is no payload, the function has no hooks.
    fn follow(&mut self, record: &InvocationRecord, payload: Option<&Payload>, output: &str) -> Vec<LedgerCommand> {
        let mut parts = Vec::new();
        if let Some(payload) = payload {
            let function = &record.function;
            let are_on = !self.lifecycle.are_hooks_off(function);
            let serving = self.serving(function).filter(|_| are_on);
            let hooks = serving.map(|serving| &serving.manifest.hooks);
            let may_call = |called: &FunctionName| self.may_call(function, called);
            let after = hooks::after_end((record, payload, output), hooks, may_call);
            for news in &after.news {
                self.report(ReportEvent::News(&record.function, news));
            }
            parts.extend(after.marks);
            for call in after.calls {
                parts.extend(self.call(call).0);
            }
        }
        let (books, now_ms) = (&mut self.follow_ups, self.clock.now().unix_ms);
        if let Some(change) = books.function_change(output, |alerts| alerts.ended(now_ms, record)) {
            parts.extend(self.tell(change));
        }
        parts
    }

    fn may_call(&self, function: &FunctionName, called: &FunctionName) -> bool {
        self.node.settings.may_call(&self.lifecycle, function, called)
    }

    /// Submits a call. Returns the commands to store (the accepted invocation, or the record of a refused call), and why it was
    /// refused.
    fn call(&mut self, call: FollowUpCall) -> (Vec<LedgerCommand>, Option<String>) {
        let mut submit = self.new_submit(call.function, call.trigger);
        let now = self.clock.now();
        // An invocation with a waiting caller is not durable, so it begins without the disk.
        submit.wait = call.at_once;
        submit.payload = call.payload;
        self.hold_body(&mut submit);
        let refusal = self.supervisor.refusal(now, &submit);
        let refusal = refusal.map(|rejection| follow_ups::words(&submit.function, rejection));
        let Some(why) = call.skip.or(refusal) else {
            return (self.submit_together(submit), None);
        };
        if why.0 == Skip::Quota {
            self.quota_refused(&submit.function);
        }
        let (record, mark) = follow_ups::refused(submit, now.unix_ms, why);
        self.report(ReportEvent::EndedWaiting(&record));
        self.report(ReportEvent::InvocationEnded(&record));
        let message = record.message.clone();
        let parts = [LedgerCommand::Update(record)].into_iter().chain(mark);
        (parts.collect(), Some(message))
    }
}

/// The alerts. Before the first scan is over, the functions to call may not be known.
impl Driver {
    /// Returns when [`Self::alerts_due`] is to be called.
    pub(super) fn alerts_next_due(&self) -> Option<Duration> {
        // Before the end of the first scan `alerts_due` does nothing. A time in the past would keep the main loop awake
        // until then.
        let at_ms = self.follow_ups.next_due_ms();
        let at_ms = at_ms.filter(|_| self.supervisor.has_scanned())?;
        let Now { mono, unix_ms } = self.clock.now();
        Some(mono.saturating_add(Duration::from_millis(at_ms.saturating_sub(unix_ms))))
    }

    /// Makes the calls that the passing of time causes.
    pub(super) fn alerts_due(&mut self) {
        if !self.supervisor.has_scanned() {
            return;
        }
        self.alert(FollowUps::alerts_due);
        self.catch_up();
    }

    /// Applies the rules and the present state of a function to its alerts.
    pub(super) fn check_alert(&mut self, function: &FunctionName) {
        let rules = self.lifecycle.registry.get(function).and_then(|_| {
            let serving = self.serving(function);
            let own = serving.and_then(|serving| serving.manifest.alert.clone());
            let may_call = |called: &FunctionName| self.may_call(function, called);
            AlertRules::of(function, own, &self.node.settings.settings.alert, may_call)
        });
        let before = self.follow_ups.alerts.unhealthy(function);
        self.alert(|books, now_ms, _| books.function_change("", |alerts| alerts.set(now_ms, function, rules)));
        // A state that an earlier fnd stored is no change, and the status shows it from now on.
        if before.is_none() && self.follow_ups.alerts.unhealthy(function).is_some() {
            self.report(ReportEvent::StatusChanged(function));
        }
        self.check_facts(function);
    }

    /// Calls [`Self::check_alert`] for every function: the configuration has changed, or the first scan is over.
    pub(super) fn check_alerts(&mut self) {
        let functions: Vec<_> = self.lifecycle.registry.iter().map(|(name, _)| name.clone()).collect();
        for function in &functions {
            self.check_alert(function);
        }
        if self.supervisor.is_scanned() {
            self.alert(|books, _, _| books.forget_unknown());
        }
    }

    /// Applies the present state of a function to its alerts.
    pub(super) fn check_facts(&mut self, function: &FunctionName) {
        if !self.follow_ups.alerts.watches(function) || !self.supervisor.has_scanned() {
            return;
        }
        let Some(view) = self.supervisor.function(function) else {
            return;
        };
        let known = self.lifecycle.registry.get(function);
        let refused = known.and_then(|known| known.findings.error.as_deref());
        let error = refused.or(view.error.as_deref()).map(str::to_owned);
        if let Some(facts) = AlertFacts::of(view.state, error.as_deref()) {
            self.alert(|books, now_ms, _| books.function_change("", |alerts| alerts.facts(now_ms, function, facts)));
        }
    }

    /// Makes the calls about problems of the node that are new and about those that are over. `now` has all present
    /// problems.
    pub(super) fn check_problems(&mut self, now: &[ReportedProblem]) {
        if !self.supervisor.has_scanned() {
            return;
        }
        let problems = now.iter().map(|problem| (problem.code, &*problem.text));
        self.alert(|books, now_ms, settings| books.compare_problems(now_ms, settings, problems));
    }

    /// Makes the call about a problem of the node, if it is new.
    pub(super) fn node_problem(&mut self, word: AlertCondition, message: &str) {
        self.alert(|books, now_ms, settings| books.node_problem(settings, |node| node.begins(now_ms, word, message)));
    }

    /// Makes the call about a queue that refused work, if that is new.
    pub(super) fn queue_full(&mut self, function: &FunctionName) {
        self.alert(|books, now_ms, settings| books.node_problem(settings, |node| node.queue_full(now_ms, function)));
    }

    /// Has `step` decide which changes of health there are: it gets the present time and `[alert]` of the node. Makes the call
    /// about each change, and stores the change together with its call.
    fn alert<C: IntoIterator<Item = HealthChange>>(&mut self, step: impl FnOnce(&mut FollowUps, u64, &NodeAlert) -> C) {
        let (now_ms, settings) = (self.clock.now().unix_ms, &self.node.settings.settings.alert);
        for change in step(&mut self.follow_ups, now_ms, settings) {
            let parts = self.tell(change);
            self.store_together(parts);
        }
    }

    /// Makes the call about a change, if there is one. Returns the commands to store: the state, then the call.
    fn tell(&mut self, mut change: HealthChange) -> Vec<LedgerCommand> {
        let shown = change.shown.take();
        let (mut called, mut refused) = (Vec::new(), None);
        if let Some((alert, call)) = change.call.take() {
            self.report(ReportEvent::Alert {
                alert: &alert,
                called: &call.function,
            });
            (called, refused) = self.call(call);
        }
        let state = self.follow_ups.store_health(change, refused.as_deref());
        // After that the status also says whether the call reached somebody.
        if let Some(function) = &shown {
            self.report(ReportEvent::StatusChanged(function));
        }
        [state].into_iter().chain(called).collect()
    }
}
