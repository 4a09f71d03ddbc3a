//! Gives facts about functions and about the node to the alerts, and makes the calls of alerts. A change and its call
//! are stored in one transaction. If the end of an invocation caused the change, its record is in the same transaction.

use super::Driver;
use super::follow_ups::{Called, FollowUpCall};
use crate::ledger::LedgerCommand;
use crate::report::problems::ReportedProblem;
use fnd_core::records::InvocationRecord;
use fnd_core::records::cause::AlertCondition;
use fnd_core::records::cause::{AlertCause, Cause};
use fnd_core::records::outcome::Trigger;
use fnd_core::report::ReportEvent;
use fnd_core::run::Now;
use fnd_core::triggers::alerts::payload::payload;
use fnd_core::triggers::alerts::{Alert, AlertChange, AlertFacts, AlertRules, NodeHealth};
use fnd_manifest::function::AlertOn;
use fnd_wire::ids::FunctionName;
use std::time::Duration;

impl Driver {
    /// Returns when [`Self::alerts_due`] is to be called.
    pub(super) fn alerts_next_due(&self) -> Option<Duration> {
        let follow_ups = &self.follow_ups;
        let due = [follow_ups.alerts.next_due_ms(), follow_ups.node.due_ms()];
        let at_ms = due
            .into_iter()
            .flatten()
            .min()
            // Before the end of the first scan `alerts_due` does nothing. A time in the past would keep the main loop
            // awake until then.
            .filter(|_| self.supervisor.has_scanned())?;
        let Now { mono, unix_ms } = self.clock.now();
        Some(mono.saturating_add(Duration::from_millis(at_ms.saturating_sub(unix_ms))))
    }

    /// Makes the calls that the passing of time causes.
    pub(super) fn alerts_due(&mut self) {
        if !self.supervisor.has_scanned() {
            return;
        }
        let now_ms = self.clock.now().unix_ms;
        for change in self.follow_ups.alerts.tick(now_ms) {
            let parts = self.tell_change(change, "");
            self.store_together(parts);
        }
        let over = self.follow_ups.node.tick(now_ms);
        self.node_changed(over);
        self.catch_up();
    }

    /// Returns the commands to store for the change that a final record causes.
    pub(super) fn after_end_alerts(&mut self, record: &InvocationRecord, output: &str) -> Vec<LedgerCommand> {
        if !self.follow_ups.alerts.watches(&record.function) {
            return Vec::new();
        }
        let now_ms = self.clock.now().unix_ms;
        match self.follow_ups.alerts.ended(now_ms, record) {
            Some(change) => self.tell_change(change, output),
            None => Vec::new(),
        }
    }

    /// Applies the rules and the present state of a function to its alerts.
    pub(super) fn check_alert(&mut self, function: &FunctionName) {
        let rules = self.alert_rules(function);
        let now_ms = self.clock.now().unix_ms;
        let change = self.follow_ups.alerts.set(now_ms, function, rules);
        self.store_change(change);
        self.check_facts(function);
    }

    /// Calls [`Self::check_alert`] for every function: the configuration has changed, or the first scan is over.
    pub(super) fn check_alerts(&mut self) {
        let functions: Vec<_> = self.lifecycle.registry.iter().map(|(name, _)| name.clone()).collect();
        for function in &functions {
            self.check_alert(function);
        }
        if self.supervisor.is_scanned() {
            let gone: Vec<_> = self.follow_ups.alerts.unknown().cloned().collect();
            for function in gone {
                // Without rules no time counts.
                let change = self.follow_ups.alerts.set(0, &function, None);
                self.store_change(change);
            }
        }
    }

    /// Applies the present state of a function to its alerts.
    pub(super) fn check_facts(&mut self, function: &FunctionName) {
        // Before the first scan is over, the function to call may not be known.
        if !self.follow_ups.alerts.watches(function) || !self.supervisor.has_scanned() {
            return;
        }
        let Some(view) = self.supervisor.function(function) else {
            return;
        };
        let refused = self
            .lifecycle
            .registry
            .get(function)
            .and_then(|known| known.findings.error.clone());
        let error = refused.or_else(|| view.error.as_deref().map(str::to_owned));
        let Some(facts) = AlertFacts::of(view.state, error.as_deref()) else {
            return;
        };
        let now_ms = self.clock.now().unix_ms;
        let change = self.follow_ups.alerts.facts(now_ms, function, facts);
        self.store_change(change);
    }

    fn alert_rules(&self, function: &FunctionName) -> Option<AlertRules> {
        self.lifecycle.registry.get(function)?;
        let own = self
            .serving(function)
            .and_then(|serving| serving.manifest.alert.clone());
        let may_call = |called: &FunctionName| self.node.settings.may_call(&self.lifecycle, function, called);
        AlertRules::of(function, own, &self.node.settings.settings.alert, may_call)
    }

    fn store_change(&mut self, change: Option<AlertChange>) {
        if let Some(change) = change {
            let parts = self.tell_change(change, "");
            self.store_together(parts);
        }
    }

    /// Returns the commands to store for a change: the state, and the call if there is one.
    fn tell_change(&mut self, mut change: AlertChange, output: &str) -> Vec<LedgerCommand> {
        let function = &change.function;
        let call = self.follow_ups.alerts.call(function).cloned();
        let called = match (&change.alert, call) {
            (Some(alert), Some(call)) => self.tell(alert, call, output),
            _ => Called::default(),
        };
        if let Some(why) = called.refused {
            let noted = self.follow_ups.alerts.note_not_delivered(function, &why);
            change.health = noted.or(change.health);
        }
        let health = change.health.as_ref();
        let state = LedgerCommand::StoreAlert {
            about: function.to_string(),
            health: health.and_then(|health| serde_json::to_string(health).ok()),
        };
        std::iter::once(state).chain(called.parts).collect()
    }

    fn tell(&mut self, alert: &Alert, function: FunctionName, output: &str) -> Called {
        self.report(ReportEvent::Alert {
            alert,
            called: &function,
        });
        self.call(FollowUpCall {
            function,
            trigger: Trigger::Alert,
            data: payload(alert, output),
            cause: Cause::Alert(AlertCause {
                alert: alert.word,
                function: alert.about.clone(),
            }),
            trace: None,
            skip: None,
            // The ledger could store this call only when the disk works again, and that is too late.
            at_once: alert.word == AlertCondition::DiskFull,
        })
    }

    /// Makes the calls about problems of the node that are new and about those that are over. `now` has all present
    /// problems. After a start of fnd, the function to call is known only when the first scan is over.
    pub(super) fn check_problems(&mut self, now: &[ReportedProblem]) {
        if !self.supervisor.has_scanned() {
            return;
        }
        let word = |problem: &'_ ReportedProblem| NodeHealth::word(problem.code);
        let lasting: Vec<_> = now
            .iter()
            .filter_map(|problem| Some((word(problem)?, &*problem.text)))
            .collect();
        let (now_ms, tells) = (self.clock.now().unix_ms, self.is_told_of_the_node());
        for alert in self.follow_ups.node.compare(now_ms, &lasting, tells) {
            self.node_changed(Some(alert));
        }
    }

    /// Makes the call about a problem of the node, if it is new.
    pub(super) fn node_problem(&mut self, word: AlertCondition, message: &str) {
        if self.is_told_of_the_node() {
            let alert = self.follow_ups.node.begins(self.clock.now().unix_ms, word, message);
            self.node_changed(alert);
        }
    }

    /// Makes the call about a queue that refused work, if that is new.
    pub(super) fn queue_full(&mut self, function: &FunctionName) {
        if self.is_told_of_the_node() {
            let alert = self.follow_ups.node.queue_full(self.clock.now().unix_ms, function);
            self.node_changed(alert);
        }
    }

    fn is_told_of_the_node(&self) -> bool {
        let settings = &self.node.settings.settings.alert;
        settings.call.is_some() && settings.on.contains(&AlertOn::Node)
    }

    fn node_changed(&mut self, alert: Option<Alert>) {
        let Some(alert) = alert else { return };
        // The state is stored even if nobody is called: the next fnd must not tell of the same problem as a new one.
        let mut parts = vec![LedgerCommand::StoreAlert {
            about: String::new(),
            health: serde_json::to_string(&self.follow_ups.node).ok(),
        }];
        let settings = &self.node.settings.settings.alert;
        let is_wanted = alert.word != AlertCondition::Recovered || settings.on.contains(&AlertOn::Recovered);
        if let Some(call) = settings.call.clone().filter(|_| is_wanted) {
            parts.extend(self.tell(&alert, call, "").parts);
        }
        self.store_together(parts);
    }
}
