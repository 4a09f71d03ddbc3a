//! Keeps the schedules in step with the functions that serve, and submits the invocations that are due.

use super::Driver;
use crate::input::AlarmCause;
use crate::ledger::LedgerCommand;
use crate::triggers::schedule::submissions;
use fnd_core::api::{ScheduleState, ScheduleView};
use fnd_core::instant;
use fnd_core::report::ReportEvent;
use fnd_core::triggers::schedule::{Marks, Timing};
use fnd_wire::ids::FunctionName;
use fnd_wire::units::print_duration;
use std::time::Duration;

impl Driver {
    /// Gives the table the schedules of a function. Called when another version serves, and when the function was
    /// enabled, disabled, paused or deleted.
    pub(crate) fn reschedule(&mut self, function: &FunctionName) {
        let enabled = self.supervisor.function(function).is_some_and(|view| view.enabled);
        let serving = self.serving(function).map(|serving| serving.manifest.schedule.clone());
        if serving.is_none() && self.lifecycle.registry.get(function).is_some() {
            // It cannot serve yet, and its marks count when it does.
            return;
        }
        let now_ms = self.clock.now().unix_ms;
        let schedules = serving.unwrap_or_default();
        let marks = self.schedules.set(now_ms, function, (&schedules, enabled));
        self.store_marks(marks);
    }

    /// Forgets the schedules of functions that no longer exist.
    pub(super) fn forget_schedules(&mut self) {
        let registry = &self.lifecycle.registry;
        let gone = self.schedules.table.forget_others(|name| registry.get(name).is_some());
        self.store_marks(gone);
    }

    /// Returns whether a function has schedules.
    pub(crate) fn has_schedules(&self, function: &FunctionName) -> bool {
        self.serving(function)
            .is_some_and(|serving| !serving.manifest.schedule.is_empty())
    }

    /// Pauses or resumes the schedules of a function; the ledger has stored it.
    pub(crate) fn pause_schedules(&mut self, function: &FunctionName, paused: bool) {
        if self.schedules.pause(function, paused) {
            self.reschedule(function);
            self.report(ReportEvent::StatusChanged(function));
        }
    }

    /// Returns the schedules of a function, each with its next slots (`next` is their number).
    pub(crate) fn schedules_of(&self, function: &FunctionName, next: usize) -> Vec<ScheduleView> {
        let schedules = self.schedules.table.of(function).map(|(plan, last_ms, active)| {
            let (schedule, timezone) = match &plan.timing {
                Timing::Cron { line, zone } => (line.to_string(), Some(zone)),
                Timing::Every(every) => (format!("every {}", print_duration(Duration::from_millis(*every))), None),
            };
            let state = match active {
                true => ScheduleState::Active,
                false if self.schedules.is_paused(function) => ScheduleState::Paused,
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

    /// Submits the invocations that are due by the wall clock.
    pub(super) fn alarm(&mut self, cause: AlarmCause) {
        let now_ms = self.clock.now().unix_ms;
        if cause == AlarmCause::ClockSet {
            let changed = self.schedules.table.clock_was_set(now_ms);
            for marks in &changed {
                tracing::warn!(
                    FND_FUNCTION = %marks.function,
                    "the clock was set back by more than a day: the schedules of `{}` begin anew",
                    marks.function
                );
            }
            self.store_marks(changed);
        }
        for occurrence in self.schedules.due(now_ms) {
            self.report(ReportEvent::SlotsDue {
                function: &occurrence.function,
                late: Duration::from_millis(occurrence.late_ms),
                runs: occurrence.run.is_some(),
                missed: occurrence.missed.map_or(0, |missed| missed.count),
            });
            let (function, before) = (occurrence.function.clone(), occurrence.before.clone());
            for submit in submissions(occurrence, |function, trigger| self.new_submit(function, trigger)) {
                let (id, is_last) = (submit.id, submit.mark.is_some());
                if is_last {
                    // This comes before the step: a ledger without room is answered within the step, and then the mark
                    // goes back to `before`.
                    self.schedules.storing(id, &function, before.clone());
                }
                let is_known = self.submit(submit);
                // The invocation was refused without a record, for example because fnd is draining. If the function
                // cannot run at all, its status is `invalid`.
                if is_last && !is_known {
                    self.schedules.stored(id, !self.supervisor.is_draining(), now_ms);
                }
            }
        }
    }

    fn store_marks(&mut self, marks: impl IntoIterator<Item = Marks>) {
        for marks in marks {
            self.records.store(LedgerCommand::StoreMarks(marks));
        }
    }
}
