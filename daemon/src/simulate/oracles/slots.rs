//! O5: each slot of a schedule is one invocation or counts as missed, and never two, even if the clock was set. If it was set back
//! by more than a day, the schedule begins anew with the time that the clock has now (`docs/schedules.md`). The slots from there
//! on are others, although a clock that was ahead has gone past the same times. If the clock comes to the time before, no slot up
//! to it comes again.
//!
//! Each event is one invocation of each function that subscribes to it, as long as fnd remembers the event.

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
/// A clock that was set back by more than this was wrong before.
const WRONG_MS: i64 = 86_400_000;
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
    /// The furthest time that the wall clock has shown.
    furthest_ms: i64,
    /// For each time that the clock was set back by more than a day: the last slot with which a schedule can begin anew.
    anew: Vec<i64>,
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
                // No other act changes the schedules of a function.
                _ => continue,
            };
        }
        functions.retain(|function| !without.contains(function) && !stopped.contains(function));
        Self {
            functions,
            without,
            was_set_back: false,
            furthest_ms: 0,
            anew: Vec::new(),
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

    /// Returns the slots that were handled twice. `spans` are in the order in which fnd has accepted them.
    fn doubled(&self, function: &FunctionName, spans: Vec<(i64, i64)>) -> Result<Vec<i64>, String> {
        let mut doubled = Vec::new();
        let mut anew = self.anew.clone();
        // The last slot, and the last one of the times before the schedule began anew.
        let (mut mark, mut ahead): (Option<i64>, Option<i64>) = (None, None);
        for (first, last) in spans {
            let before = mark.replace(last);
            if let Some(before) = before.filter(|before| first <= *before) {
                match anew.iter().position(|latest| first <= *latest) {
                    Some(nth) => {
                        anew.remove(nth);
                        ahead = ahead.max(Some(before));
                    }
                    None => doubled.push(first),
                }
            }
            // The clock has come to that time: the slots up to it were handled.
            let passed = ahead.take_if(|ahead| *ahead <= last);
            if passed.is_some_and(|ahead| first <= ahead) {
                doubled.push(first);
            }
            let left_out = before.filter(|before| first - before > EVERY_MS);
            if let Some(before) = left_out.filter(|_| self.functions.contains(function)) {
                return Err(format!(
                    "O5: `{function}` has neither run for a slot after {before}, nor missed it"
                ));
            }
        }
        Ok(doubled)
    }

    /// Notes what the wall clock shows, and by how much it was set.
    fn clock_was_set(&mut self, unix_ms: u64, step_ms: i64) {
        let now_ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
        // The clock went on until it was set.
        self.furthest_ms = self.furthest_ms.max(now_ms.saturating_sub(step_ms));
        let wrong_until_ms = self.furthest_ms.saturating_sub(WRONG_MS);
        if step_ms < 0 && now_ms < wrong_until_ms {
            self.anew.push(wrong_until_ms.saturating_add(EVERY_MS));
        }
        self.was_set_back |= step_ms < 0;
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
    fn see(&mut self, now: Now, fact: &Fact) -> PromiseCheck {
        match fact {
            // A clock that is set may leave out slots, and fnd does not make up for all of them. Only doubled slots are faults
            // then.
            Fact::ClockStepped(step_ms) => {
                self.functions.clear();
                self.clock_was_set(now.unix_ms, *step_ms);
            }
            Fact::Committed(commit) if commit.is_done && commit.is_denied => self.unknown_commits += 1,
            // No other fact changes which slots are due.
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
