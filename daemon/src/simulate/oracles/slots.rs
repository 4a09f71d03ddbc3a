//! O5: each slot of a schedule is one invocation or counts as missed, and never two, even if the clock was set. Each event is
//! one invocation of each function that subscribes to it, as long as fnd remembers the event.

use super::{Oracle, PromiseCheck};
use crate::simulate::facts::{Death, Fact};
use crate::simulate::people::{PersonAct, name};
use crate::simulate::plan::WorldPlan;
use crate::simulate::rows::{InvocationRow, LedgerRows};
use crate::simulate::spawner::contents::Manner;
use fnd_core::records::cause::{Cause, CauseSlots};
use fnd_core::records::outcome::Trigger;
use fnd_core::run::Now;
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet};

/// The time between two slots of every schedule (`spawner/contents.rs`).
const EVERY_MS: i64 = 30_000;
/// How long fnd remembers an event, by the wall clock (`[events] remember`).
const REMEMBERED_MS: u128 = 86_400_000;

#[derive(Debug)]
pub(super) struct SlotsOracle {
    /// The functions that have a schedule with each of their contents, and whose schedule no person stops.
    functions: BTreeSet<FunctionName>,
    /// The functions that lose their schedule for a while. fnd forgets its slots with it.
    without: BTreeSet<FunctionName>,
    /// Whether the clock was set back.
    was_set_back: bool,
    /// How many commits were done although fnd was told that they had failed. The slots of such a commit, one of each function,
    /// are due again, and may run a second time.
    unknown_commits: usize,
}

impl SlotsOracle {
    pub(super) fn new(plan: &WorldPlan) -> Self {
        let (mut functions, mut without, mut stopped) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (_, act) in &plan.acts {
            match act {
                PersonAct::Save(function, content) if content.manner() == Manner::Scheduled => {
                    functions.insert(name(*function))
                }
                PersonAct::Save(function, _) | PersonAct::Remove(function) => without.insert(name(*function)),
                PersonAct::SetEnabled(function, _) | PersonAct::Pause(function, _) => stopped.insert(name(*function)),
                _ => continue,
            };
        }
        functions.retain(|function| !without.contains(function) && !stopped.contains(function));
        Self {
            functions,
            without,
            was_set_back: false,
            unknown_commits: 0,
        }
    }

    fn compare(&self, rows: &LedgerRows) -> PromiseCheck {
        let mut slots: BTreeMap<&FunctionName, Vec<(i64, i64)>> = BTreeMap::new();
        let mut events = BTreeMap::new();
        for (id, row) in rows.invocations.iter().filter(|(_, row)| is_own(row)) {
            match &row.cause {
                Some(Cause::Schedule(cause)) => slots.entry(&row.function).or_default().push(span(cause)),
                Some(Cause::Event(cause)) => {
                    let event = (&row.function, &cause.attributes.source, &cause.attributes.id);
                    // Identifiers begin with the time of acceptance.
                    let accepted_ms = id.0 >> 80;
                    let before = events.insert(event, accepted_ms);
                    if before.is_some_and(|before| accepted_ms.saturating_sub(before) < REMEMBERED_MS) {
                        return Err(format!(
                            "O5: `{}` has an event twice: {}",
                            row.function, cause.attributes.id
                        ));
                    }
                }
                _ => {}
            }
        }
        for (function, spans) in slots {
            let doubled = self.doubled(function, spans)?;
            if self.was_set_back && self.without.contains(function) {
                continue;
            }
            // One commit can have a slot of each function.
            if let Some(slot) = doubled.last().filter(|_| doubled.len() > self.unknown_commits) {
                return Err(format!("O5: `{function}` has run twice for the slot {slot}"));
            }
        }
        Ok(())
    }

    /// Returns the slots that were handled twice.
    fn doubled(&self, function: &FunctionName, mut spans: Vec<(i64, i64)>) -> Result<Vec<i64>, String> {
        let mut doubled = Vec::new();
        spans.sort_unstable();
        for pair in spans.windows(2) {
            let [(_, before), (after, _)] = pair else { continue };
            let distance = after - before;
            if distance <= 0 {
                doubled.push(*after);
            }
            if distance > EVERY_MS && self.functions.contains(function) {
                return Err(format!(
                    "O5: `{function}` has neither run for a slot after {before}, nor missed it"
                ));
            }
        }
        Ok(doubled)
    }
}

/// Returns whether a row is of the trigger that its cause names: a replay has the cause of the run that it repeats.
fn is_own(row: &InvocationRow) -> bool {
    matches!(row.trigger, Trigger::Schedule | Trigger::Event)
}

/// Returns the first and the last slot, in Unix milliseconds.
fn span(cause: &CauseSlots) -> (i64, i64) {
    let ms = |text: &String| text.parse::<jiff::Timestamp>().expect("an instant").as_millisecond();
    let last = ms(&cause.scheduled_at);
    (cause.first.as_ref().map_or(last, ms), last)
}

impl Oracle for SlotsOracle {
    fn see(&mut self, _: Now, fact: &Fact) -> PromiseCheck {
        match fact {
            // A clock that is set may leave out slots, and fnd does not make up for all of them. Only doubled slots are faults
            // then.
            Fact::ClockStepped(step_ms) => {
                self.functions.clear();
                self.was_set_back |= *step_ms < 0;
            }
            Fact::Committed(commit) if commit.is_done && commit.is_denied => self.unknown_commits += 1,
            _ => {}
        }
        Ok(())
    }

    fn at_death(&mut self, _: Death, rows: &LedgerRows) -> PromiseCheck {
        self.compare(rows)
    }

    fn at_end(&mut self, rows: &LedgerRows) -> PromiseCheck {
        self.compare(rows)
    }
}
