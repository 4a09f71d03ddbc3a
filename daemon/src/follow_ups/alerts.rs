//! The changes of the health of functions and of the node, and the calls that tell of them.

use super::{FollowUpCall, FollowUps};
use crate::ledger::LedgerCommand;
use fnd_core::records::cause::{AlertCause, AlertCondition, Cause};
use fnd_core::records::outcome::Trigger;
use fnd_core::triggers::alerts::payload::payload;
use fnd_core::triggers::alerts::{Alert, AlertChange, Alerts, NodeHealth};
use fnd_manifest::function::AlertOn;
use fnd_manifest::settings::NodeAlert;
use fnd_wire::ids::FunctionName;

/// A change to store, and the call that goes with it.
#[derive(Debug)]
pub(crate) struct HealthChange {
    /// The function whose health changed; absent: the node.
    about: Option<FunctionName>,
    /// The state as JSON; absent if there is nothing to remember.
    health: Option<String>,
    /// The alert to report, and its call.
    pub(crate) call: Option<(Alert, FollowUpCall)>,
    /// The function whose status shows another alert than before.
    pub(crate) shown: Option<FunctionName>,
}

impl FollowUps {
    /// Returns when [`Self::alerts_due`] is to be called.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        let due = [self.alerts.next_due_ms(), self.node.due_ms()];
        due.into_iter().flatten().min()
    }

    /// Returns the changes that the passing of time causes.
    pub(crate) fn alerts_due(&mut self, now_ms: u64, settings: &NodeAlert) -> Vec<HealthChange> {
        let changes = self.alerts.tick(now_ms).into_iter();
        let mut changes: Vec<_> = changes.map(|change| self.change(change, "")).collect();
        let over = self.node.tick(now_ms);
        changes.extend(over.map(|alert| self.node_change(alert, settings)));
        changes
    }

    /// Returns the change that `step` makes to the health of a function. `output` has the last lines that it printed.
    pub(crate) fn function_change(
        &mut self,
        output: &str,
        step: impl FnOnce(&mut Alerts) -> Option<AlertChange>,
    ) -> Option<HealthChange> {
        let change = step(&mut self.alerts)?;
        Some(self.change(change, output))
    }

    /// Forgets the states that an earlier fnd stored of functions that are gone.
    pub(crate) fn forget_unknown(&mut self) -> Vec<HealthChange> {
        let gone: Vec<_> = self.alerts.unknown().cloned().collect();
        // Without rules no time counts.
        let forget = |function| self.function_change("", |alerts| alerts.set(0, function, None));
        gone.iter().filter_map(forget).collect()
    }

    /// Compares all present problems of the node, each with its code and its text, with those about which a call was made.
    pub(crate) fn compare_problems<'a>(
        &mut self,
        now_ms: u64,
        settings: &NodeAlert,
        problems: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Vec<HealthChange> {
        let lasting: Vec<_> = problems
            .filter_map(|(code, text)| Some((NodeHealth::word(code)?, text)))
            .collect();
        let alerts = self.node.compare(now_ms, &lasting, is_told_of_the_node(settings));
        let changes = alerts.into_iter().map(|alert| self.node_change(alert, settings));
        changes.collect()
    }

    /// Returns the change that `step` makes to the health of the node when a problem begins.
    pub(crate) fn node_problem(
        &mut self,
        settings: &NodeAlert,
        step: impl FnOnce(&mut NodeHealth) -> Option<Alert>,
    ) -> Option<HealthChange> {
        let node = is_told_of_the_node(settings).then_some(&mut self.node)?;
        let alert = step(node)?;
        Some(self.node_change(alert, settings))
    }

    /// Returns the command that stores a change. `refused` says why its call reached nobody.
    pub(crate) fn store_health(&mut self, change: HealthChange, refused: Option<&str>) -> LedgerCommand {
        let about = change.about.as_ref();
        let noted = about
            .zip(refused)
            .and_then(|(function, why)| self.alerts.note_not_delivered(function, why));
        LedgerCommand::StoreAlert {
            health: noted.map_or(change.health, |health| serde_json::to_string(&health).ok()),
            about: about.map(ToString::to_string).unwrap_or_default(),
        }
    }

    fn change(&self, change: AlertChange, output: &str) -> HealthChange {
        let called = self.alerts.call(&change.function).cloned();
        let health = change.health.as_ref();
        HealthChange {
            health: health.and_then(|health| serde_json::to_string(health).ok()),
            call: change
                .alert
                .zip(called)
                .map(|(alert, called)| tell(alert, called, output)),
            shown: change.is_shown.then(|| change.function.clone()),
            about: Some(change.function),
        }
    }

    fn node_change(&self, alert: Alert, settings: &NodeAlert) -> HealthChange {
        let is_wanted = alert.word != AlertCondition::Recovered || settings.on.contains(&AlertOn::Recovered);
        let called = settings.call.clone().filter(|_| is_wanted);
        HealthChange {
            about: None,
            // The state is stored even if nobody is called: the next fnd must not tell of the same problem as a new one.
            health: serde_json::to_string(&self.node).ok(),
            call: called.map(|called| tell(alert, called, "")),
            shown: None,
        }
    }
}

fn is_told_of_the_node(settings: &NodeAlert) -> bool {
    settings.call.is_some() && settings.on.contains(&AlertOn::Node)
}

fn tell(alert: Alert, called: FunctionName, output: &str) -> (Alert, FollowUpCall) {
    let cause = AlertCause {
        alert: alert.word,
        function: alert.about.clone(),
    };
    let mut call = FollowUpCall::new(called, Trigger::Alert, payload(&alert, output), Cause::Alert(cause));
    // The ledger could store this call only when the disk works again, and that is too late.
    call.at_once = alert.word == AlertCondition::DiskFull;
    (alert, call)
}
