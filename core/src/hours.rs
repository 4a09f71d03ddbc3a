//! Counts how invocations ended in each of the last 24 hours, since the start of fnd.

use crate::instant;
use crate::records::outcome::RunState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Hours that are counted, with the one that has not ended.
const HOURS: u64 = 24;
const SLOTS: usize = 24;
const HOUR_MS: u64 = 3_600_000;

/// The ends in an hour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HourCount {
    /// When the hour begins.
    #[schemars(extend("format" = "date-time"))]
    pub start: String,
    /// Invocations that succeeded.
    pub succeeded: u64,
    /// Invocations that failed or were interrupted.
    pub failed: u64,
}

/// The ends of the last hours.
#[derive(Debug, Default)]
pub struct Hours {
    /// By the number of the hour modulo 24: the number, what succeeded, what failed.
    slots: [(u64, u64, u64); SLOTS],
}

impl Hours {
    /// Counts an end. One that was cancelled or skipped is neither a success nor a failure.
    pub fn ended(&mut self, at_ms: u64, state: RunState) {
        let (succeeded, failed) = match state {
            RunState::Succeeded => (1, 0),
            state if state.is_failure() => (0, 1),
            _ => return,
        };
        let hour = at_ms / HOUR_MS;
        let Some(slot) = self.slots.get_mut(place(hour)) else {
            return;
        };
        // An end of the hour 24 hours ago was counted here.
        if slot.0 != hour {
            *slot = (hour, 0, 0);
        }
        slot.1 += succeeded;
        slot.2 += failed;
    }

    /// Returns the last 24 hours, oldest first.
    #[must_use]
    pub fn last(&self, now_ms: u64) -> Vec<HourCount> {
        let now = now_ms / HOUR_MS;
        let count = |hour| {
            let slot = self.slots.get(place(hour)).filter(|slot| slot.0 == hour);
            let (_, succeeded, failed) = slot.copied().unwrap_or_default();
            HourCount {
                start: instant::text(hour * HOUR_MS),
                succeeded,
                failed,
            }
        };
        (now.saturating_sub(HOURS - 1)..=now).map(count).collect()
    }
}

fn place(hour: u64) -> usize {
    usize::try_from(hour % HOURS).unwrap_or_default() // less than 24
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_is_counted_in_its_hour_for_a_day() {
        let mut hours = Hours::default();
        let start = 1000 * HOUR_MS;
        for (at, state) in [
            (start, RunState::Succeeded),
            (start + 1, RunState::Interrupted),
            (start + 2, RunState::Skipped),
            (start + HOUR_MS, RunState::Failed),
        ] {
            hours.ended(at, state);
        }
        let counts = |hours: &Hours, now| -> Vec<_> {
            let last = hours.last(now).into_iter().enumerate();
            let last = last.map(|(place, hour)| (place, hour.succeeded, hour.failed));
            last.filter(|(_, succeeded, failed)| succeeded + failed > 0).collect()
        };
        assert_eq!(counts(&hours, start + HOUR_MS), [(22, 1, 1), (23, 0, 1)]);
        assert_eq!(counts(&hours, start + 24 * HOUR_MS), [(0, 0, 1)]);
        hours.ended(start + 24 * HOUR_MS, RunState::Succeeded);
        assert_eq!(counts(&hours, start + 24 * HOUR_MS), [(0, 0, 1), (23, 1, 0)]);
        assert_eq!(hours.last(start)[0].start, instant::text(start - 23 * HOUR_MS));
        assert_eq!(hours.last(start).len(), 24);
    }
}
