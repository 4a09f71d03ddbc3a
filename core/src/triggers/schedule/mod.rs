//! Schedules: which slots are due, which were missed, and when the next one comes. Pure: the wall clock and the marks
//! of the ledger are arguments.
//!
//! A slot is an instant of the wall clock. Each schedule has a *mark*: the last slot that was handled. Only slots after
//! the mark count, and the mark never goes back. So a slot is handled once, even if the clock goes back. If the mark is
//! more than a day ahead of the clock, one of the two times is wrong, and the schedule begins anew with the present one. The
//! mark ahead is kept: if the clock comes to it after all, the slots up to that mark do not run a second time.
//!
//! A schedule that runs after each boot has one slot in each boot. The key of its mark has the id of the boot: where only the
//! mark of an earlier boot is there, the slot of this boot is still to come. A new schedule waits for the next boot.
//!
//! Files:
//! - `occurrence`: the slots that are due at once, divided into those that run and those that were missed
//! - `plan`: a schedule as the manifest has it, and its slots

mod occurrence;
mod plan;
#[cfg(test)]
mod tests;

pub use occurrence::SlotSpan;
pub use plan::{PresentBoot, SchedulePlan, Timing};

use crate::data::Data;
use crate::records::LastSlot;
use fnd_manifest::function::OverlapKey;
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// Most occurrences at once. After a long time without fnd each may have many slots to count, and other work must not wait
/// for all of them.
pub const DUE_MAX: usize = 64;

/// How far a mark may be ahead of the clock.
const AHEAD_MAX_MS: u64 = 24 * 3600 * 1000;

/// All marks of a function. They replace those in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// The function whose marks these are.
    pub function: FunctionName,
    /// Its marks; empty if the function has no schedule any more.
    pub marks: Vec<LastSlot>,
}

/// One or more slots of a schedule that are due: either missed ones, or those of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Occurrence {
    /// The function that the schedule belongs to.
    pub function: FunctionName,
    /// The slots for which the function runs once now.
    pub run: Option<SlotSpan>,
    /// The slots that were missed by more than `catch_up`. The slots after them are another occurrence.
    pub missed: Option<SlotSpan>,
    /// The mark before the occurrence.
    pub before: LastSlot,
    /// The mark after the occurrence.
    pub mark: LastSlot,
    /// The effect of a run while all processes are busy.
    pub overlap: OverlapKey,
    /// The payload, JSON. Absent: the payload of the function's manifest.
    pub data: Option<Data>,
    /// Whether a run that failed becomes a dead letter.
    pub dead_letters: bool,
    /// Time since the last of these slots was due, its jitter included.
    pub late_ms: u64,
}

/// The schedules of all functions.
#[derive(Debug, Default)]
pub struct Schedules {
    functions: BTreeMap<FunctionName, Scheduled>,
    /// When each entry is due, in order: instant, function, number of the entry.
    due: BTreeSet<(u64, FunctionName, usize)>,
    /// The schedules, by function and key, whose mark the ledger is storing. Their next slots wait for its answer.
    held: BTreeSet<(FunctionName, Arc<str>)>,
    /// The functions of which the clock has come to a mark that was too far ahead, until their marks are stored.
    reached: BTreeSet<FunctionName>,
    /// Marks of the ledger whose functions are not set yet.
    restored: BTreeMap<FunctionName, Vec<LastSlot>>,
}

/// The schedules of a function.
#[derive(Debug)]
struct Scheduled {
    entries: Vec<ScheduledEntry>,
    /// Whether slots run: false if the schedules are paused or the function is disabled.
    active: bool,
}

#[derive(Debug)]
struct ScheduledEntry {
    plan: SchedulePlan,
    last_ms: u64,
    /// The mark that was too far ahead of the clock: the slots up to it have been handled.
    ahead_ms: Option<u64>,
    /// When the next slot is due, its jitter included. Absent: there is no next slot.
    due_ms: Option<u64>,
}

impl Schedules {
    /// Returns schedules that have no function yet. `marks` are the marks in the ledger.
    #[must_use]
    pub fn new(marks: Vec<Marks>) -> Self {
        let restored = marks.into_iter().map(|of| (of.function, of.marks)).collect();
        Self {
            restored,
            ..Self::default()
        }
    }

    /// Replaces the schedules of a function. `active` says whether its slots run. A schedule whose text stays keeps its
    /// mark; a new schedule begins now. Slots that pass while the function is not active do not count as missed.
    /// Returns the marks if they differ from those in the ledger.
    pub fn set(
        &mut self,
        now_ms: u64,
        function: &FunctionName,
        plans: Vec<SchedulePlan>,
        active: bool,
    ) -> Option<Marks> {
        let resumes = active && self.functions.get(function).is_some_and(|scheduled| !scheduled.active);
        let before = self.remove(function);
        if plans.is_empty() {
            return (!before.is_empty()).then(|| self.marks(function));
        }
        let entry = |plan: SchedulePlan| {
            let known = before.iter().find(|mark| mark.key == plan.key);
            let mut entry = ScheduledEntry {
                last_ms: match known {
                    Some(mark) => mark.last_ms,
                    None if active => plan.first_mark(&before, now_ms),
                    // The slot of a boot passes, as the others do.
                    None => now_ms,
                },
                ahead_ms: known.and_then(|mark| mark.ahead_ms),
                due_ms: None,
                plan,
            };
            entry.begin_anew_if_ahead(now_ms);
            // Slots during the pause do not count as missed. The later of the two times is taken, since a mark never
            // goes back.
            if resumes {
                entry.last_ms = entry.last_ms.max(now_ms);
            }
            entry
        };
        let entries = plans.into_iter().map(entry).collect();
        self.functions.insert(function.clone(), Scheduled { entries, active });
        self.arm(function);
        let marks = self.marks(function);
        // At a start every function is set, and most have the marks that the ledger has: these need no write.
        (marks.marks != before).then_some(marks)
    }

    /// Forgets a function. Returns the marks that it had.
    fn remove(&mut self, function: &FunctionName) -> Vec<LastSlot> {
        let restored = self.restored.remove(function).unwrap_or_default();
        self.disarm(function);
        match self.functions.remove(function) {
            Some(scheduled) => scheduled.marks(),
            // After a start the marks of the ledger stand for a function that is set for the first time.
            None => restored,
        }
    }

    /// Sets marks that are too far ahead of the clock to the present time: somebody has set the clock back. Returns the
    /// marks that changed.
    pub fn clock_was_set(&mut self, now_ms: u64) -> Vec<Marks> {
        let ahead = |entry: &ScheduledEntry| entry.is_ahead(now_ms);
        let functions = self.functions.iter();
        let wrong: Vec<_> = functions
            .filter(|(_, scheduled)| scheduled.entries.iter().any(ahead))
            .map(|(name, _)| name.clone())
            .collect();
        for function in &wrong {
            self.disarm(function);
            let entries = self.functions.get_mut(function).map(|scheduled| &mut scheduled.entries);
            for entry in entries.into_iter().flatten() {
                entry.begin_anew_if_ahead(now_ms);
            }
            self.arm(function);
        }
        wrong.iter().map(|function| self.marks(function)).collect()
    }

    /// Forgets the marks of the ledger whose functions do not exist any more, and returns them without marks. A function
    /// that exists and cannot serve yet keeps its marks.
    pub fn forget_others(&mut self, exists: impl Fn(&FunctionName) -> bool) -> Vec<Marks> {
        let gone = self.restored.extract_if(.., |name, _| !exists(name));
        let without = |(function, _)| Marks {
            function,
            marks: Vec::new(),
        };
        gone.map(without).collect()
    }

    /// Returns when the next entry is due, Unix milliseconds.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// Returns occurrences that are due, at most [`DUE_MAX`] and one of each schedule, and moves their marks. The others
    /// stay due.
    pub fn due(&mut self, now_ms: u64) -> Vec<Occurrence> {
        let (mut due, mut next) = (Vec::new(), Vec::new());
        while let Some((_, function, nth)) = self.due.first().filter(|(at, ..)| *at <= now_ms).cloned() {
            if due.len() >= DUE_MAX {
                break;
            }
            self.due.pop_first();
            let entry = self
                .functions
                .get_mut(&function)
                .and_then(|scheduled| scheduled.entries.get_mut(nth));
            // `due` and the entries change together, so the entry is there.
            let Some(entry) = entry else { continue };
            if let Some(ahead) = entry.ahead_ms.take_if(|ahead| *ahead <= now_ms) {
                entry.last_ms = entry.last_ms.max(ahead);
                self.reached.insert(function.clone());
            }
            let before = entry.mark();
            if let Some((slots, is_missed)) = occurrence::due(&entry.plan, entry.last_ms, now_ms) {
                entry.last_ms = slots.last_ms;
                due.push(Occurrence {
                    function: function.clone(),
                    run: (!is_missed).then_some(slots),
                    missed: is_missed.then_some(slots),
                    before,
                    mark: entry.mark(),
                    overlap: entry.plan.overlap,
                    data: entry.plan.data.clone(),
                    dead_letters: entry.plan.dead_letters,
                    late_ms: now_ms.saturating_sub(entry.plan.due_at(slots.last_ms)),
                });
            }
            entry.due_ms = entry.plan.next_due(entry.last_ms, now_ms);
            next.extend(entry.due_ms.map(|at| (at, function, nth)));
        }
        self.due.extend(next);
        due
    }

    /// Returns the marks to store of functions whose clock has come to a mark that was too far ahead. Without a slot since then,
    /// nothing else stores that: if the clock goes back by hours and fnd starts anew, the slots of these hours would be handled again.
    /// While the ledger is storing a mark of a function, that function waits: its other marks may still be taken back.
    pub fn take_reached(&mut self) -> Vec<Marks> {
        let held: BTreeSet<_> = self.held.iter().map(|(function, _)| function).collect();
        let reached: Vec<_> = self
            .reached
            .extract_if(.., |function| !held.contains(function))
            .collect();
        let known = reached.into_iter().filter(|name| self.functions.contains_key(name));
        known.map(|function| self.marks(&function)).collect()
    }

    /// Lets the next slots of a schedule wait until [`release`](Self::release): the ledger is storing its mark. If the ledger
    /// stored a later mark and refused this one, the slots between them would either be lost or run twice.
    pub fn hold(&mut self, function: &FunctionName, key: &Arc<str>) {
        self.held.insert((function.clone(), Arc::clone(key)));
        for slot in self.next_slots(function, |entry| entry.plan.key == *key) {
            self.due.remove(&slot);
        }
    }

    /// Lets the slots of a schedule be due again: the ledger has answered.
    pub fn release(&mut self, function: &FunctionName, key: &Arc<str>) {
        self.held.remove(&(function.clone(), Arc::clone(key)));
        if self.functions.get(function).is_some_and(|scheduled| scheduled.active) {
            let slots = self.next_slots(function, |entry| entry.plan.key == *key);
            self.due.extend(slots);
        }
    }

    /// Takes back an occurrence that could not be stored: its slots are due again at `again_ms`. `before` is the mark
    /// of the schedule before the occurrence.
    pub fn take_back(&mut self, function: &FunctionName, before: &LastSlot, again_ms: u64) {
        // `due` has the entries by their instants, so they leave it before the mark changes.
        self.disarm(function);
        let scheduled = self.functions.get_mut(function);
        let entries = scheduled.into_iter().flat_map(|scheduled| &mut scheduled.entries);
        for entry in entries.filter(|entry| entry.plan.key == before.key) {
            if entry.last_ms < before.last_ms {
                // The clock was set back meanwhile, and the schedule has begun anew: with the mark before, it would wait for days.
                entry.ahead_ms = before.ahead_ms.max(Some(before.last_ms));
            } else {
                (entry.last_ms, entry.ahead_ms) = (before.last_ms, before.ahead_ms);
            }
        }
        self.arm(function);
        // `arm` makes the slots due at once. The ledger could not store them a moment ago, so they wait.
        let Some(scheduled) = self.functions.get_mut(function).filter(|scheduled| scheduled.active) else {
            return;
        };
        for (nth, entry) in scheduled.entries.iter_mut().enumerate() {
            if let Some(at) = entry.due_ms.filter(|at| entry.plan.key == before.key && *at < again_ms) {
                self.due.remove(&(at, function.clone(), nth));
                self.due.insert((again_ms, function.clone(), nth));
                entry.due_ms = Some(again_ms);
            }
        }
    }

    /// Returns when a function runs next, Unix milliseconds.
    #[must_use]
    pub fn next_of(&self, function: &FunctionName) -> Option<u64> {
        let scheduled = self.functions.get(function).filter(|scheduled| scheduled.active)?;
        scheduled.entries.iter().filter_map(|entry| entry.due_ms).min()
    }

    /// Returns the schedules of a function: the plan, the mark, and whether slots run.
    pub fn of(&self, function: &FunctionName) -> impl Iterator<Item = (&SchedulePlan, u64, bool)> {
        self.functions.get(function).into_iter().flat_map(|scheduled| {
            let entries = scheduled.entries.iter();
            entries.map(move |entry| (&entry.plan, entry.last_ms, scheduled.active))
        })
    }

    /// Returns the functions with schedules whose names come after this one, by name.
    pub fn functions_after(&self, name: Option<&FunctionName>) -> impl Iterator<Item = &FunctionName> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.functions
            .range::<FunctionName, _>((from, Bound::Unbounded))
            .map(|(name, _)| name)
    }

    /// Returns the number of schedules.
    #[must_use]
    pub fn count(&self) -> usize {
        self.functions.values().map(|scheduled| scheduled.entries.len()).sum()
    }

    fn arm(&mut self, function: &FunctionName) {
        let Some(scheduled) = self.functions.get_mut(function) else {
            return;
        };
        for (nth, entry) in scheduled.entries.iter_mut().enumerate() {
            entry.due_ms = entry.plan.next_due(entry.last_ms, 0);
            let is_held = self.held.contains(&(function.clone(), Arc::clone(&entry.plan.key)));
            if let Some(at) = entry.due_ms.filter(|_| scheduled.active && !is_held) {
                self.due.insert((at, function.clone(), nth));
            }
        }
    }

    fn disarm(&mut self, function: &FunctionName) {
        for slot in self.next_slots(function, |_| true) {
            self.due.remove(&slot);
        }
    }

    /// Returns the next slots of these schedules of a function, as `due` has them.
    fn next_slots(
        &self,
        function: &FunctionName,
        is_meant: impl Fn(&ScheduledEntry) -> bool,
    ) -> Vec<(u64, FunctionName, usize)> {
        let scheduled = self.functions.get(function).into_iter();
        let entries = scheduled.flat_map(|scheduled| scheduled.entries.iter().enumerate());
        entries
            .filter(|(_, entry)| is_meant(entry))
            .filter_map(|(nth, entry)| Some((entry.due_ms?, function.clone(), nth)))
            .collect()
    }

    fn marks(&self, function: &FunctionName) -> Marks {
        let function = function.clone();
        let marks = self.functions.get(&function).map(Scheduled::marks).unwrap_or_default();
        Marks { function, marks }
    }
}

impl Scheduled {
    /// Returns the marks in the order of their keys. The ledger uses the same order.
    fn marks(&self) -> Vec<LastSlot> {
        let mut marks: Vec<_> = self.entries.iter().map(ScheduledEntry::mark).collect();
        marks.sort_by(|a, b| a.key.cmp(&b.key));
        marks
    }
}

impl ScheduledEntry {
    fn is_ahead(&self, now_ms: u64) -> bool {
        self.last_ms > now_ms.saturating_add(AHEAD_MAX_MS)
    }

    /// Sets a mark that is too far ahead of the clock to the present time, and remembers it.
    fn begin_anew_if_ahead(&mut self, now_ms: u64) {
        if self.is_ahead(now_ms) {
            // Of several marks the one that is farthest ahead stays.
            self.ahead_ms = self.ahead_ms.max(Some(self.last_ms));
            self.last_ms = now_ms;
        }
    }

    fn mark(&self) -> LastSlot {
        LastSlot {
            key: Arc::clone(&self.plan.key),
            last_ms: self.last_ms,
            ahead_ms: self.ahead_ms,
        }
    }
}
