//! `[alert]`: decides when a function turns bad and when it works again, and makes one call for each of these changes.
//!
//! ```text
//!            a condition begins that `on` names
//!   well ────────────────────────────────────▶ bad      one call, with the word of the condition
//!     ▲                                         │       further conditions and failures cause no call
//!     └─────────────────────────────────────────┘       one call, `recovered`, when no condition holds any more
//! ```
//! Conditions are: failures in a row, a crash loop, refused content, no success for too long. The state of a function
//! survives a restart: the daemon stores each change in one transaction with the call and with the record that caused
//! it. Times are Unix milliseconds, because the time without a success continues over restarts.
//!
//! Files:
//! - `function`: the state of one function
//! - `node`: problems of the node itself
//! - `payload`: the payload of a call

mod function;
mod node;
pub mod payload;

pub use function::{AlertFacts, AlertRules, Health};
pub use node::{NodeHealth, QUEUE_FULL_LASTS_MS};

use crate::records::InvocationRecord;
use crate::records::cause::AlertCondition;
use crate::records::outcome::{RunState, Trigger};
use fnd_wire::ids::{FunctionName, InvocationId};
use std::collections::{BTreeMap, BTreeSet};

/// A call that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The function that the call is about; absent if it is about the node.
    pub about: Option<FunctionName>,
    /// The condition that began; `Recovered` if an earlier one ended.
    pub word: AlertCondition,
    /// When the change happened.
    pub since_ms: u64,
    /// The change in words.
    pub message: String,
    /// The invocation that caused the change.
    pub invocation: Option<InvocationId>,
}

impl Alert {
    fn new(word: AlertCondition, since_ms: u64, message: String, record: Option<&InvocationRecord>) -> Self {
        Self {
            about: None,
            word,
            since_ms,
            message,
            invocation: record.map(|record| record.id),
        }
    }
}

/// A change to store, and the call that goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertChange {
    /// The function whose health changed.
    pub function: FunctionName,
    /// Its state now; absent if no state has to be stored for it.
    pub health: Option<Health>,
    /// The call that tells of the change; absent if the state only has to be stored.
    pub alert: Option<Alert>,
    /// Whether the status of the function shows another alert than before, or no alert any more.
    pub is_shown: bool,
}

/// The state of every function that has an `[alert]`.
#[derive(Debug, Default)]
pub struct Alerts {
    functions: BTreeMap<FunctionName, Watched>,
    /// When [`Alerts::tick`] must check each function.
    due: BTreeSet<(u64, FunctionName)>,
    /// States that an earlier fnd stored, of functions that are not known yet.
    restored: BTreeMap<FunctionName, Health>,
}

#[derive(Debug)]
struct Watched {
    rules: AlertRules,
    health: Health,
    /// Facts that were seen since fnd started.
    seen: function::AlertsSeen,
    /// Its instant in [`Alerts::due`].
    due_ms: Option<u64>,
}

impl Alerts {
    /// Continues with the state that an earlier fnd stored.
    pub fn restore(&mut self, function: FunctionName, health: Health) {
        self.restored.insert(function, health);
    }

    /// Sets the rules of a function. Without rules, no function is called about it.
    pub fn set(&mut self, now_ms: u64, function: &FunctionName, rules: Option<AlertRules>) -> Option<AlertChange> {
        let Some(rules) = rules else {
            let known = self.functions.remove(function);
            if let Some(due_ms) = known.as_ref().and_then(|known| known.due_ms) {
                self.due.remove(&(due_ms, function.clone()));
            }
            let restored = self.restored.remove(function).is_some();
            let is_shown = known.as_ref().is_some_and(|known| known.health.notified.is_some());
            return (known.is_some() || restored).then(|| AlertChange {
                function: function.clone(),
                health: None,
                alert: None,
                is_shown,
            });
        };
        let restored = self.restored.remove(function);
        let known = self.functions.remove(function);
        let (is_new, before) = (known.is_none(), known.as_ref().map(|known| known.health.clone()));
        let mut watched = match known {
            Some(known) => Watched { rules, ..known },
            None => Watched {
                rules,
                health: restored.clone().unwrap_or_default(),
                seen: function::AlertsSeen::new(now_ms),
                due_ms: None,
            },
        };
        watched.health.expect(now_ms, &watched.rules);
        let change = self.changed(function, watched, before.as_ref(), None);
        // A restored state that has not changed is in the ledger already.
        change.filter(|change| !is_new || restored.is_none() || change.health != restored)
    }

    /// Handles the final record of an invocation. Calls of alerts do not count: otherwise, if the called function
    /// failed, its failure would cause the next alert.
    pub fn ended(&mut self, now_ms: u64, record: &InvocationRecord) -> Option<AlertChange> {
        if record.trigger == Trigger::Alert {
            return None;
        }
        let failed = match record.state {
            RunState::Succeeded => false,
            RunState::Failed | RunState::Interrupted => true,
            // A person ended a cancelled invocation, and a skipped one never began: neither shows whether the function
            // works.
            RunState::Cancelled
            | RunState::Skipped
            | RunState::Queued
            | RunState::Running
            | RunState::Waiting
            | RunState::Polling => {
                return None;
            }
        };
        let at_ms = record.ended_ms.unwrap_or(now_ms);
        self.of_known(&record.function, |watched| {
            if failed {
                watched.health.failed(now_ms, &watched.rules, record)
            } else {
                watched.health.succeeded(now_ms, &watched.rules, (at_ms, record))
            }
        })
    }

    /// Handles facts about a function's state.
    pub fn facts(&mut self, now_ms: u64, function: &FunctionName, facts: AlertFacts<'_>) -> Option<AlertChange> {
        self.of_known(function, |watched| {
            watched.health.facts(now_ms, (&watched.rules, &mut watched.seen), facts)
        })
    }

    /// Returns the changes that the passing of time causes.
    pub fn tick(&mut self, now_ms: u64) -> Vec<AlertChange> {
        let due = self.due.iter().take_while(|(at_ms, _)| *at_ms <= now_ms);
        let due: Vec<_> = due.map(|(_, function)| function.clone()).collect();
        let tick = |function| {
            self.of_known(function, |watched| {
                watched.health.tick(now_ms, &watched.rules, &mut watched.seen)
            })
        };
        due.iter().filter_map(tick).collect()
    }

    /// Returns when [`Self::tick`] is due.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(at_ms, _)| *at_ms)
    }

    /// Returns the alert that was sent about a function and its time, if the function is still bad.
    #[must_use]
    pub fn unhealthy(&self, function: &FunctionName) -> Option<(AlertCondition, u64)> {
        self.functions.get(function)?.health.notified
    }

    /// Returns since when a condition of a function holds, also over restarts of fnd; nothing if nobody is to be told of the function.
    #[must_use]
    pub fn bad_since(&self, function: &FunctionName, condition: AlertCondition) -> Option<u64> {
        self.functions.get(function)?.health.bad_since(condition)
    }

    /// Notes that the call about a function that is bad reached nobody. Returns the state to store.
    pub fn note_not_delivered(&mut self, function: &FunctionName, why: &str) -> Option<Health> {
        let health = &mut self.functions.get_mut(function)?.health;
        health.notified?;
        health.not_delivered = Some(why.to_owned());
        Some(health.clone())
    }

    /// Returns why the last call about a function that is bad reached nobody.
    #[must_use]
    pub fn not_delivered(&self, function: &FunctionName) -> Option<&str> {
        let health = &self.functions.get(function)?.health;
        health.notified?;
        health.not_delivered.as_deref()
    }

    /// Says whether a function has rules.
    #[must_use]
    pub fn watches(&self, function: &FunctionName) -> bool {
        self.functions.contains_key(function)
    }

    /// Returns the function that alerts about this function call.
    #[must_use]
    pub fn call(&self, function: &FunctionName) -> Option<&FunctionName> {
        Some(&self.functions.get(function)?.rules.call)
    }

    /// Returns the functions whose state an earlier fnd stored and that are not known now.
    pub fn unknown(&self) -> impl Iterator<Item = &FunctionName> {
        self.restored.keys()
    }

    fn of_known(
        &mut self,
        function: &FunctionName,
        step: impl FnOnce(&mut Watched) -> Option<Alert>,
    ) -> Option<AlertChange> {
        let mut watched = self.functions.remove(function)?;
        let before = watched.health.clone();
        let alert = step(&mut watched);
        self.changed(function, watched, Some(&before), alert)
    }

    /// Keeps the state of a function, and returns the change to store. `before` is the state that was there; absent: none was.
    fn changed(
        &mut self,
        function: &FunctionName,
        mut watched: Watched,
        before: Option<&Health>,
        alert: Option<Alert>,
    ) -> Option<AlertChange> {
        let due_ms = watched.health.due_ms(&watched.rules, &watched.seen);
        let due_before = std::mem::replace(&mut watched.due_ms, due_ms);
        if due_before != due_ms {
            self.due.extend(due_ms.map(|due_ms| (due_ms, function.clone())));
            if let Some(due_before) = due_before {
                self.due.remove(&(due_before, function.clone()));
            }
        }
        let health = Some(watched.health.clone());
        self.functions.insert(function.clone(), watched);
        let notified = |health: Option<&Health>| health.and_then(|health| health.notified);
        (health.as_ref() != before || alert.is_some()).then(|| AlertChange {
            function: function.clone(),
            is_shown: notified(health.as_ref()) != notified(before),
            health,
            alert: alert.map(|alert| Alert {
                about: Some(function.clone()),
                ..alert
            }),
        })
    }
}

#[cfg(test)]
mod tests;
