//! Problems of the node itself: one call when a problem begins, and one call when it is over.

use super::{Alert, AlertCondition};
use fnd_wire::ids::FunctionName;
use fnd_wire::units::print_duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A queue counts as full until no work was refused for this long.
pub const QUEUE_FULL_LASTS_MS: u64 = 5 * 60 * 1000;

/// The problems that were sent as alerts, each with the time when it began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHealth {
    // The name in the ledger.
    #[serde(default, rename = "told")]
    notified: BTreeMap<AlertCondition, u64>,
    /// When work was last refused because a queue was full.
    #[serde(skip)]
    refused_ms: Option<u64>,
}

impl NodeHealth {
    /// Returns the word for the code of a problem; nothing if problems with this code cause no alert.
    #[must_use]
    pub fn word(code: &str) -> Option<AlertCondition> {
        match code {
            "history-failing" | "history-forgotten" => Some(AlertCondition::DiskFull),
            "history-lost" => Some(AlertCondition::HistoryLost),
            "spawner-silent" => Some(AlertCondition::SpawnerLost),
            _ => None,
        }
    }

    /// Continues with the state that an earlier fnd stored. A full queue counts as full for the usual time from now on.
    pub fn restored(&mut self, now_ms: u64) {
        if self.notified.contains_key(&AlertCondition::QueueFull) {
            self.refused_ms = Some(now_ms);
        }
    }

    /// Handles a problem that exists. Returns the call if the problem is new.
    pub fn begins(&mut self, now_ms: u64, word: AlertCondition, message: &str) -> Option<Alert> {
        if self.notified.contains_key(&word) {
            return None;
        }
        self.notified.insert(word, now_ms);
        Some(Alert::new(word, now_ms, message.to_owned(), None))
    }

    /// Handles a queue that refused work of a function.
    pub fn queue_full(&mut self, now_ms: u64, function: &FunctionName) -> Option<Alert> {
        self.refused_ms = Some(now_ms);
        let message = format!("the queue of `{function}` is full (`queue.max`): work was refused");
        let mut alert = self.begins(now_ms, AlertCondition::QueueFull, &message)?;
        alert.about = Some(function.clone());
        Some(alert)
    }

    /// Handles the end of a problem. Returns the call if there was an alert about it.
    pub fn ends(&mut self, now_ms: u64, word: AlertCondition) -> Option<Alert> {
        let since_ms = self.notified.remove(&word)?;
        let lasted = print_duration(Duration::from_secs(now_ms.saturating_sub(since_ms) / 1000));
        let message = format!("over after {lasted}: {}", word.as_str());
        Some(Alert::new(AlertCondition::Recovered, now_ms, message, None))
    }

    /// Compares the alerts that were sent, also by an earlier fnd, with all present problems. `tells` says whether new
    /// problems cause alerts.
    pub fn compare(&mut self, now_ms: u64, lasting: &[(AlertCondition, &str)], tells: bool) -> Vec<Alert> {
        let holds = |word: AlertCondition| lasting.iter().any(|(lasting, _)| *lasting == word);
        // A full queue ends after a time: see `tick`.
        let over = |word: &AlertCondition| *word != AlertCondition::QueueFull && !holds(*word);
        let over: Vec<_> = self.notified.keys().copied().filter(over).collect();
        let mut alerts: Vec<_> = over.into_iter().filter_map(|word| self.ends(now_ms, word)).collect();
        for (word, message) in lasting.iter().filter(|_| tells) {
            alerts.extend(self.begins(now_ms, *word, message));
        }
        alerts
    }

    /// Returns when [`Self::tick`] is due.
    #[must_use]
    pub fn due_ms(&self) -> Option<u64> {
        let notified = self.notified.contains_key(&AlertCondition::QueueFull);
        let at = self.refused_ms.filter(|_| notified)?;
        Some(at.saturating_add(QUEUE_FULL_LASTS_MS))
    }

    /// Returns the call about a queue that refused no work for long enough.
    pub fn tick(&mut self, now_ms: u64) -> Option<Alert> {
        self.due_ms().filter(|due| *due <= now_ms)?;
        self.ends(now_ms, AlertCondition::QueueFull)
    }

    /// Returns when a problem began that was sent as an alert and is not over.
    #[must_use]
    pub fn since_ms(&self, code: &str) -> Option<u64> {
        self.notified.get(&Self::word(code)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_told_once_and_its_end_once() {
        let mut node = NodeHealth::default();
        let first = node.begins(1000, AlertCondition::DiskFull, "no space").unwrap();
        assert_eq!(
            (first.word, first.since_ms, first.message.as_str()),
            (AlertCondition::DiskFull, 1000, "no space")
        );
        assert_eq!(node.begins(2000, AlertCondition::DiskFull, "no space"), None);
        assert_eq!(node.ends(3000, AlertCondition::SpawnerLost), None);
        let over = node.ends(63_000, AlertCondition::DiskFull).unwrap();
        assert_eq!(
            (over.word, over.message.as_str()),
            (AlertCondition::Recovered, "over after 62s: disk-full")
        );
        assert_eq!(node.ends(4000, AlertCondition::DiskFull), None);
    }

    #[test]
    fn a_queue_is_full_until_it_refuses_nothing_for_a_while() {
        let mut node = NodeHealth::default();
        let function = FunctionName::new("f").unwrap();
        assert!(node.queue_full(0, &function).is_some());
        assert!(node.queue_full(100_000, &function).is_none());
        assert_eq!(node.due_ms(), Some(100_000 + QUEUE_FULL_LASTS_MS));
        assert_eq!(node.tick(QUEUE_FULL_LASTS_MS), None);
        assert_eq!(
            node.tick(100_000 + QUEUE_FULL_LASTS_MS).unwrap().word,
            AlertCondition::Recovered
        );
        assert_eq!(node.due_ms(), None);
    }

    #[test]
    fn problems_are_compared_with_what_was_told_also_by_the_earlier_fnd() {
        let mut node = NodeHealth::default();
        node.begins(1000, AlertCondition::DiskFull, "x");
        node.begins(1000, AlertCondition::SpawnerLost, "x");
        let text = serde_json::to_string(&node).unwrap();
        let mut node: NodeHealth = serde_json::from_str(&text).unwrap();
        node.restored(5000);
        let mut words = |lasting: &[(AlertCondition, &str)], tells| {
            let alerts = node.compare(6000, lasting, tells);
            alerts
                .into_iter()
                .map(|alert| (alert.word, alert.message))
                .collect::<Vec<_>>()
        };
        let over = |text: &str| (AlertCondition::Recovered, text.to_owned());
        let full = (AlertCondition::DiskFull, "x");
        assert_eq!(words(&[full], true), [over("over after 5s: spawner-lost")]);
        let lost = (AlertCondition::HistoryLost, "3 records");
        assert_eq!(words(&[full, lost], false), []);
        assert_eq!(
            words(&[full, lost, lost], true),
            [(AlertCondition::HistoryLost, "3 records".to_owned())]
        );
        assert_eq!(words(&[lost], true), [over("over after 5s: disk-full")]);
    }
}
