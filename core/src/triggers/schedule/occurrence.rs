//! The slots of one schedule that are due at the same time. Usually there is one slot. After a stop of fnd, a suspend
//! of the machine or a step of the clock there may be many slots, and one run stands for them. Missed slots come first and
//! alone: one transaction then stores all that the mark says.

use super::plan::{PlannedSlots, SchedulePlan};

/// A slot that is late by at most this many milliseconds was not missed: a restart or an upgrade of fnd takes less.
pub(super) const TOLERANCE_MS: u64 = 30_000;

/// Most slots that are counted. If fnd did not run for a long time, counting more slots would delay its start.
pub(super) const COUNT_MAX: u64 = 1_000;

/// Slots that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotSpan {
    /// The first slot, Unix milliseconds.
    pub first_ms: u64,
    /// The last slot, Unix milliseconds.
    pub last_ms: u64,
    /// Number of slots; 1,000 means 1,000 or more.
    pub count: u64,
}

/// Returns the slots that are due after the mark `last_ms`, the last of which is the next mark, and whether they were missed. Else
/// they are those of a run.
pub(super) fn due(plan: &SchedulePlan, last_ms: u64, now_ms: u64) -> Option<(SlotSpan, bool)> {
    let slots = plan.slots()?;
    let latest = latest(plan, &slots, last_ms, now_ms)?;
    // The jitter delays a slot on purpose, so it does not make the slot late.
    let tolerated = plan.catch_up_ms.max(TOLERANCE_MS).saturating_add(plan.jitter_ms);
    // Slots at this instant or later still run.
    let boundary = now_ms.saturating_sub(tolerated);
    let before = boundary.saturating_sub(1).min(latest);
    let missed_last = slots.latest(last_ms, before);
    // Without a missed slot, the latest one is not before the boundary.
    let last = missed_last.unwrap_or(latest);
    Some((span(&slots, last_ms, last), missed_last.is_some()))
}

/// Returns the latest slot whose jitter is over.
fn latest(plan: &SchedulePlan, slots: &PlannedSlots<'_>, last_ms: u64, now_ms: u64) -> Option<u64> {
    let latest = slots.latest(last_ms, now_ms)?;
    if plan.due_at(latest) <= now_ms {
        return Some(latest);
    }
    // A slot that is older than the longest jitter is certainly due. Of the later slots, only the first 100 are
    // checked.
    let mut over = slots.latest(last_ms, now_ms.saturating_sub(plan.jitter_ms));
    let mut slot = over.unwrap_or(last_ms);
    for _ in 0..100 {
        match slots.next_after(slot) {
            Some(next) if next <= now_ms => slot = next,
            _ => break,
        }
        if plan.due_at(slot) <= now_ms {
            over = Some(slot);
        }
    }
    over
}

/// Returns the slots after `after_ms` up to the slot `last_ms`.
fn span(slots: &PlannedSlots<'_>, after_ms: u64, last_ms: u64) -> SlotSpan {
    let first_ms = slots.next_after(after_ms).unwrap_or(last_ms);
    let mut count = 1;
    if let PlannedSlots::Every(every) = slots {
        count = (last_ms.saturating_sub(first_ms) / every + 1).min(COUNT_MAX);
    } else {
        let mut slot = first_ms;
        while slot < last_ms && count < COUNT_MAX {
            let Some(next) = slots.next_after(slot) else { break };
            slot = next;
            count += 1;
        }
    }
    SlotSpan {
        first_ms,
        last_ms,
        count,
    }
}
