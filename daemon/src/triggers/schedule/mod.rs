//! Schedules: the machine's side. `fnd_core::triggers::schedule` decides which slots are due; this room has the timer, the
//! time zones, and the submissions that follow.
//!
//! Files:
//! - `alarm`: one timer of the wall clock for all schedules

mod alarm;
#[cfg(test)]
mod tests;

pub(crate) use alarm::Alarm;

use crate::input::AlarmCause;
use crate::ledger::StoredSchedules;
use fnd_core::api::{ScheduleState, ScheduleView};
use fnd_core::instant;
use fnd_core::lifecycle::manifest_rules::overlap;
use fnd_core::records::LastSlot;
use fnd_core::records::Payload;
use fnd_core::records::cause::{Cause, CauseSlots};
use fnd_core::records::outcome::{Reason, Skip, Trigger};
use fnd_core::report::ReportEvent;
use fnd_core::run::Submit;
use fnd_core::triggers::schedule::{Marks, Occurrence, PresentBoot, SchedulePlan, Schedules, SlotSpan, Timing};
use fnd_manifest::cron;
use fnd_manifest::function::Schedule;
use fnd_wire::ids::{FunctionName, InvocationId};
use fnd_wire::units::{counted, print_duration};
use jiff::tz::TimeZone;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

/// How long after a failure to store it a slot is due again, in milliseconds.
const AGAIN_MS: u64 = 10_000;

/// The schedules of all functions, and their timer.
pub(crate) struct ScheduleTimer {
    pub(crate) table: Schedules,
    /// Functions whose schedules a person has paused.
    paused: BTreeSet<FunctionName>,
    pub(crate) alarm: Rc<Alarm>,
    /// Submissions that the ledger has not stored yet: the function, and the mark before it.
    storing: HashMap<InvocationId, (FunctionName, LastSlot)>,
    /// The name of this machine: `H` and the jitter differ between machines.
    host: String,
    /// The id of this boot: schedules may run once after each boot.
    boot: String,
}

impl ScheduleTimer {
    /// Returns the schedules as the ledger has them, without functions.
    pub(crate) fn new(stored: StoredSchedules, (host, boot): (String, String), alarm: Alarm) -> Self {
        Self {
            table: Schedules::new(stored.marks),
            paused: stored.paused,
            alarm: Rc::new(alarm),
            storing: HashMap::new(),
            host,
            boot,
        }
    }

    /// Gives a function the schedules of the version that serves. Returns the marks if they changed.
    pub(crate) fn set(
        &mut self,
        now_ms: u64,
        function: &FunctionName,
        (schedules, enabled): (&[Schedule], bool),
    ) -> Option<Marks> {
        let boot = PresentBoot { id: &self.boot, now_ms };
        let plans = SchedulePlan::of(schedules, (function, &self.host), boot, zone);
        let active = enabled && !self.paused.contains(function);
        let marks = self.table.set(now_ms, function, plans, active);
        self.arm();
        marks
    }

    /// Pauses the schedules of a function or lets them go on. Returns whether that changes anything.
    pub(crate) fn pause(&mut self, function: &FunctionName, paused: bool) -> bool {
        match paused {
            true => self.paused.insert(function.clone()),
            false => self.paused.remove(function),
        }
    }

    /// Returns the schedules of a function, each with its next slots (`next` is their number).
    pub(crate) fn views_of(&self, function: &FunctionName, next: usize) -> Vec<ScheduleView> {
        let schedules = self.table.of(function).map(|(plan, last_ms, active)| {
            let (schedule, timezone) = match &plan.timing {
                Timing::Cron { line, zone } => (line.to_string(), Some(zone)),
                Timing::Every(every) => (format!("every {}", print_duration(Duration::from_millis(*every))), None),
                Timing::Boot(_) => ("at boot".to_owned(), None),
            };
            let state = match active {
                true => ScheduleState::Active,
                false if self.paused.contains(function) => ScheduleState::Paused,
                false => ScheduleState::Disabled,
            };
            let slots = if active {
                plan.upcoming(last_ms, next)
            } else {
                Vec::new()
            };
            ScheduleView {
                function: function.clone(),
                schedule,
                timezone: timezone.map(|zone| zone.iana_name().unwrap_or("local").to_owned()),
                state,
                next: slots.into_iter().map(instant::text).collect(),
                last: None,
            }
        });
        schedules.collect()
    }

    /// Handles a ring of the alarm. Returns the marks that begin anew because the clock was set back, and what is due. Sets the
    /// timer to what comes next.
    pub(crate) fn rings(&mut self, cause: AlarmCause, now_ms: u64) -> (Vec<Marks>, Vec<Occurrence>) {
        let changed = match cause {
            AlarmCause::ClockSet => self.table.clock_was_set(now_ms),
            AlarmCause::Due => Vec::new(),
        };
        let due = self.table.due(now_ms);
        self.arm();
        (changed, due)
    }

    /// Keeps the mark before a submission until the ledger has stored the mark that comes with it. Until then the next slots
    /// of the schedule wait.
    pub(crate) fn storing(&mut self, submit: &Submit, before: &LastSlot) {
        self.storing
            .insert(submit.id, (submit.function.clone(), before.clone()));
        self.table.hold(&submit.function, &before.key);
        self.arm();
    }

    /// Handles the answer of the ledger, or that there will be none. What could not be stored is due again a little later:
    /// then it runs, or counts as missed.
    pub(crate) fn stored(&mut self, id: InvocationId, is_stored: bool, now_ms: u64) {
        let Some((function, before)) = self.storing.remove(&id) else {
            return;
        };
        self.table.release(&function, &before.key);
        if !is_stored {
            self.table
                .take_back(&function, &before, now_ms.saturating_add(AGAIN_MS));
        }
        self.arm();
    }

    /// Sets the timer to the next slot that is due.
    pub(crate) fn arm(&self) {
        self.alarm.set(self.table.next_due());
    }
}

/// Returns the time zone of a name, that of the machine without a name. A zone that the machine has not is in this
/// program; the judge refuses one that is not.
fn zone(name: Option<&str>) -> TimeZone {
    match name {
        None => TimeZone::system(),
        Some(name) => TimeZone::get(name)
            .ok()
            .or_else(|| cron::zone(name))
            .unwrap_or(TimeZone::UTC),
    }
}

/// Returns the report of an occurrence.
pub(crate) fn slots_due(occurrence: &Occurrence) -> ReportEvent<'_> {
    ReportEvent::SlotsDue {
        function: &occurrence.function,
        late: Duration::from_millis(occurrence.late_ms),
        runs: occurrence.run.is_some(),
        missed: occurrence.missed.map_or(0, |missed| missed.count),
    }
}

/// Returns the submission of an occurrence: the record of missed slots, or the run, with the mark after it.
pub(crate) fn submission(
    occurrence: Occurrence,
    new_submit: impl FnOnce(FunctionName, Trigger) -> Submit,
) -> Option<Submit> {
    let missed = occurrence.missed;
    let span = missed.or(occurrence.run)?;
    let slots = CauseSlots::new(span.first_ms, span.last_ms, span.count);
    let payload = Payload {
        content_type: occurrence.data.as_ref().map(|_| "application/json".into()),
        data: occurrence.data,
        cause: Some(Cause::Schedule(slots).into()),
        ..Payload::default()
    };
    Some(Submit {
        payload,
        overlap: Some(overlap(occurrence.overlap)),
        asks_dead_letter: occurrence.dead_letters,
        skipped: missed.map(|span| (Reason::Skipped(Skip::Missed), missed_why(&span).into())),
        mark: Some(occurrence.mark),
        ..new_submit(occurrence.function, Trigger::Schedule)
    })
}

fn missed_why(span: &SlotSpan) -> String {
    let (first, last) = (instant::text(span.first_ms), instant::text(span.last_ms));
    let why = "fnd or the machine was not running, or the clock was set; `catch_up` makes up for missed runs";
    match span.count {
        1 => format!("the run of {last} was missed: {why}"),
        count => format!(
            "{} from {first} to {last} were missed: {why}",
            counted(count, "run", "runs")
        ),
    }
}
