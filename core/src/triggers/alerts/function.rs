//! The health of one function.

use super::{Alert, AlertCondition};
use crate::instant;
use crate::records::InvocationRecord;
use crate::run::FunctionState;
use fnd_manifest::function::{Alert as OwnAlert, AlertOn};
use fnd_manifest::settings::NodeAlert;
use fnd_wire::ids::FunctionName;
use fnd_wire::units::print_duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// If an earlier fnd stored a crash loop and it is not seen again within this time, it is over. A crash loop is noticed
/// within a minute, and the pause between two starts is at most five minutes by default.
const LOOP_SHOWS_MS: u64 = 6 * 60 * 1000;

/// `[alert]` of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertRules {
    /// The function to call.
    pub call: FunctionName,
    /// The changes that call it.
    pub on: Vec<AlertOn>,
    /// Failures in a row that make it bad.
    pub after: u32,
    /// Longest time without success.
    pub every: Option<Duration>,
}

impl AlertRules {
    /// Returns the rules of a function: its own rules, else those of the node; absent if its alerts call no function. The
    /// function that alerts call has no rules, so it is never called about itself. `may_call` says whether the function's own
    /// rules may name a certain function to call.
    pub fn of(
        function: &FunctionName,
        own: Option<OwnAlert>,
        node: &NodeAlert,
        may_call: impl Fn(&FunctionName) -> bool,
    ) -> Option<Self> {
        let own_call = own.as_ref().and_then(|own| own.call.clone());
        // An owner may name only functions that the owner may call. The node's `call` stands in the configuration, so
        // it is allowed for every function.
        let call = own_call.filter(may_call).or_else(|| node.call.clone())?;
        if call == *function {
            return None;
        }
        let (on, after, every) = match own {
            Some(own) => (own.on, own.after, own.expect_success_every),
            None => (node.on.clone(), 1, None),
        };
        Some(Self { call, on, after, every })
    }

    fn names(&self, word: AlertCondition) -> bool {
        let on = match word {
            AlertCondition::Failed => AlertOn::Failed,
            AlertCondition::CrashLooping => AlertOn::CrashLooping,
            AlertCondition::Invalid => AlertOn::Invalid,
            AlertCondition::Missed => AlertOn::Missed,
            AlertCondition::Recovered => AlertOn::Recovered,
            AlertCondition::DiskFull
            | AlertCondition::HistoryLost
            | AlertCondition::SpawnerLost
            | AlertCondition::QueueFull => AlertOn::Node,
        };
        self.on.contains(&on)
    }

    fn every_ms(&self) -> Option<u64> {
        let every = self.every.filter(|_| self.names(AlertCondition::Missed))?;
        Some(u64::try_from(every.as_millis()).unwrap_or(u64::MAX))
    }
}

/// The state of a function, as the ledger keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Failures in a row. The count stops at the number that makes the function bad.
    failures: u32,
    /// The conditions that hold, each with the time when it began.
    bad: BTreeMap<AlertCondition, u64>,
    /// The word and the time of the call that said that the function is bad. Absent: the function is well.
    // The name in the ledger.
    #[serde(rename = "told")]
    pub(super) notified: Option<(AlertCondition, u64)>,
    /// Why the function to call was not called then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_delivered: Option<String>,
    /// The last success, or the time from which a success is expected.
    expected_from_ms: Option<u64>,
}

/// Facts about a function that were seen since fnd started.
#[derive(Debug)]
pub(super) struct AlertsSeen {
    /// Until when fnd waits to see a crash loop of the earlier fnd again. Absent: it was seen, or the wait is over.
    pub(super) loop_until_ms: Option<u64>,
    is_enabled: bool,
}

impl AlertsSeen {
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            loop_until_ms: Some(now_ms.saturating_add(LOOP_SHOWS_MS)),
            is_enabled: true,
        }
    }
}

/// Facts about a function.
#[derive(Debug, Clone, Copy)]
pub struct AlertFacts<'a> {
    /// Whether it may run at all.
    pub enabled: bool,
    /// Whether its workers die before they are ready.
    pub crash_looping: bool,
    /// Why its newest content does not serve; absent if it serves.
    pub invalid: Option<&'a str>,
}

impl<'a> AlertFacts<'a> {
    /// Returns the facts of a state; absent during a build, because its result is not known yet. `error` says why the newest
    /// content does not serve.
    #[must_use]
    pub fn of(state: FunctionState, error: Option<&'a str>) -> Option<Self> {
        let invalid = match state {
            FunctionState::Building => return None,
            FunctionState::Disabled | FunctionState::CrashLooping => None,
            FunctionState::Ready | FunctionState::Running | FunctionState::Invalid => error,
        };
        Some(Self {
            enabled: state != FunctionState::Disabled,
            crash_looping: state == FunctionState::CrashLooping,
            invalid,
        })
    }
}

impl Health {
    /// Begins or ends to expect successes, as the rules say. If `on` no longer names a condition, its end causes no
    /// call.
    pub(super) fn expect(&mut self, now_ms: u64, rules: &AlertRules) {
        if rules.every_ms().is_none() {
            self.expected_from_ms = None;
            self.bad.remove(&AlertCondition::Missed);
        } else if self.expected_from_ms.is_none() {
            self.expected_from_ms = Some(now_ms);
        }
        self.failures = self.failures.min(rules.after);
        if !self.is_bad(rules) {
            self.notified = None;
        }
    }

    pub(super) fn bad_since(&self, condition: AlertCondition) -> Option<u64> {
        self.bad.get(&condition).copied()
    }

    fn is_bad(&self, rules: &AlertRules) -> bool {
        self.bad.keys().any(|word| rules.names(*word))
    }

    pub(super) fn failed(&mut self, now_ms: u64, rules: &AlertRules, record: &InvocationRecord) -> Option<Alert> {
        self.failures = self.failures.saturating_add(1).min(rules.after);
        if self.failures < rules.after {
            return None;
        }
        let message = match rules.after {
            0 | 1 => record.message.clone(),
            after => format!("{after} invocations in a row failed; the last one: {}", record.message),
        };
        self.begins(now_ms, rules, (AlertCondition::Failed, message, Some(record)))
    }

    pub(super) fn succeeded(
        &mut self,
        now_ms: u64,
        rules: &AlertRules,
        (at_ms, record): (u64, &InvocationRecord),
    ) -> Option<Alert> {
        self.failures = 0;
        self.bad.remove(&AlertCondition::Failed);
        self.bad.remove(&AlertCondition::Missed);
        // A function that answers has a worker that became ready.
        self.bad.remove(&AlertCondition::CrashLooping);
        if let Some(from) = &mut self.expected_from_ms {
            *from = (*from).max(at_ms);
        }
        self.may_recover(now_ms, rules, Some(record))
    }

    pub(super) fn facts(
        &mut self,
        now_ms: u64,
        (rules, seen): (&AlertRules, &mut AlertsSeen),
        facts: AlertFacts<'_>,
    ) -> Option<Alert> {
        if facts.enabled && !seen.is_enabled && self.expected_from_ms.is_some() {
            // While a function is disabled, no success is expected. So the time begins anew.
            self.expected_from_ms = Some(now_ms);
        }
        seen.is_enabled = facts.enabled;
        let mut alert = None;
        match facts.invalid {
            Some(why) => alert = self.begins(now_ms, rules, (AlertCondition::Invalid, why.to_owned(), None)),
            None => drop(self.bad.remove(&AlertCondition::Invalid)),
        }
        if facts.crash_looping {
            seen.loop_until_ms = None;
            let message = "its processes die before they are ready".to_owned();
            let looping = self.begins(now_ms, rules, (AlertCondition::CrashLooping, message, None));
            // Only the first condition makes a call, so at most one of the two is there.
            alert = alert.or(looping);
        // A crash loop that an earlier fnd stored counts until `loop_until_ms`, although this fnd has not seen it.
        } else if seen.loop_until_ms.is_none() {
            self.bad.remove(&AlertCondition::CrashLooping);
        }
        alert.or_else(|| self.may_recover(now_ms, rules, None))
    }

    pub(super) fn tick(&mut self, now_ms: u64, rules: &AlertRules, seen: &mut AlertsSeen) -> Option<Alert> {
        if seen.loop_until_ms.is_some_and(|until| until <= now_ms) {
            seen.loop_until_ms = None;
            self.bad.remove(&AlertCondition::CrashLooping);
        }
        if let (Some(from), Some(every)) = (self.expected_from_ms, rules.every_ms()) {
            // If the last success is in the future, the clock was ahead when it was recorded.
            let from = from.min(now_ms);
            self.expected_from_ms = Some(from);
            if seen.is_enabled && from.saturating_add(every) <= now_ms {
                let (every, since) = (print_duration(Duration::from_millis(every)), instant::text(from));
                let message = format!("no invocation has succeeded for {every}, since {since}");
                let alert = self.begins(now_ms, rules, (AlertCondition::Missed, message, None));
                return alert.or_else(|| self.may_recover(now_ms, rules, None));
            }
        }
        self.may_recover(now_ms, rules, None)
    }

    /// Returns when [`Self::tick`] is due.
    pub(super) fn due_ms(&self, rules: &AlertRules, seen: &AlertsSeen) -> Option<u64> {
        let missed = || {
            let is_awaited = seen.is_enabled && !self.bad.contains_key(&AlertCondition::Missed);
            let from = self.expected_from_ms.filter(|_| is_awaited)?;
            Some(from.saturating_add(rules.every_ms()?))
        };
        let may_show = self.bad.contains_key(&AlertCondition::CrashLooping);
        let shows = seen.loop_until_ms.filter(|_| may_show);
        missed().into_iter().chain(shows).min()
    }

    /// Handles a condition that begins. Returns a call for the first condition that `on` names.
    fn begins(
        &mut self,
        now_ms: u64,
        rules: &AlertRules,
        (word, message, record): (AlertCondition, String, Option<&InvocationRecord>),
    ) -> Option<Alert> {
        self.bad.entry(word).or_insert(now_ms);
        if self.notified.is_some() || !rules.names(word) {
            return None;
        }
        self.notified = Some((word, now_ms));
        self.not_delivered = None;
        Some(Alert::new(word, now_ms, message, record))
    }

    /// Returns the call `recovered` if no condition holds any more.
    fn may_recover(&mut self, now_ms: u64, rules: &AlertRules, record: Option<&InvocationRecord>) -> Option<Alert> {
        if self.is_bad(rules) {
            return None;
        }
        // If nobody heard that the function is bad, nobody hears that it works again.
        let (word, since_ms) = self.notified.take()?;
        let lasted = print_duration(Duration::from_secs((now_ms.saturating_sub(since_ms) / 1000).max(1)));
        let message = format!("it works again after {lasted}; it was `{}`", word.as_str());
        let recovered = AlertCondition::Recovered;
        rules
            .names(recovered)
            .then(|| Alert::new(recovered, now_ms, message, record))
    }
}
