//! A schedule as the manifest has it, with its zone, and the slots that follow from it.

use crate::data::Data;
use fnd_manifest::cron::Cron;
use fnd_manifest::function::{Overlap, Schedule};
use fnd_wire::ids::FunctionName;
use fnd_wire::units::print_duration;
use jiff::tz::TimeZone;
use std::sync::Arc;
use std::time::Duration;

/// A schedule of a function.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The schedule within its function.
    pub key: Arc<str>,
    /// When its slots are.
    pub timing: Timing,
    /// Longest random delay of a slot, in milliseconds.
    pub jitter_ms: u64,
    /// How long ago a missed slot may be to run still, in milliseconds.
    pub catch_up_ms: u64,
    /// What happens if all processes are busy.
    pub overlap: Overlap,
    /// The payload, JSON.
    pub data: Option<Data>,
    /// Decides `H` and the jitter: another one for each function and host.
    seed: u64,
}

/// When the slots of a schedule are.
#[derive(Debug, Clone)]
pub enum Timing {
    /// A line of cron. Only its text is kept: it is read in 16 us, and takes 5 KiB when it is read.
    Cron {
        /// The line.
        line: Arc<str>,
        /// The zone in which it counts.
        zone: TimeZone,
    },
    /// So many milliseconds after the slot before.
    Every(u64),
}

/// The slots of a plan, ready to be asked for.
pub(super) enum Slots<'a> {
    Cron(Box<Cron>, &'a TimeZone),
    Every(u64),
}

impl Plan {
    /// Returns the plans of a function. `zone` gives the time zone of a name, and that of the machine without a name.
    pub fn of(
        schedules: &[Schedule],
        (function, host): (&FunctionName, &str),
        zone: impl Fn(Option<&str>) -> TimeZone,
    ) -> Vec<Self> {
        let seed = seed(&[host, function.as_str()]);
        let mut plans: Vec<Self> = Vec::new();
        for schedule in schedules {
            let (timing, text) = match (&schedule.cron, schedule.every) {
                (Some(line), _) => {
                    let name = schedule.timezone.as_deref();
                    let zone = zone(name);
                    let line: Arc<str> = line.as_str().into();
                    let text = format!("{line} {}", name.unwrap_or_default());
                    (Timing::Cron { line, zone }, text)
                }
                (None, Some(every)) => (Timing::Every(milliseconds(every).max(1)), print_duration(every)),
                // The judge refuses a schedule without both.
                (None, None) => continue,
            };
            let same = plans.iter().filter(|plan| plan.key.starts_with(&text)).count();
            let data = schedule.data.as_ref().map(|data| data.to_string().into_bytes().into());
            plans.push(Self {
                key: format!("{text}#{same}").into(),
                timing,
                jitter_ms: milliseconds(schedule.jitter),
                catch_up_ms: milliseconds(schedule.catch_up),
                overlap: schedule.overlap,
                data,
                seed,
            });
        }
        plans
    }

    /// Returns the slots; absent: the line cannot be read, which the judge refuses.
    pub(super) fn slots(&self) -> Option<Slots<'_>> {
        match &self.timing {
            Timing::Cron { line, zone } => Some(Slots::Cron(Box::new(Cron::parse(line, self.seed).ok()?), zone)),
            Timing::Every(every) => Some(Slots::Every(*every)),
        }
    }

    /// Returns when a slot is due: after its jitter, which is the same for the same slot.
    #[must_use]
    pub fn due_at(&self, slot_ms: u64) -> u64 {
        let text = slot_ms.to_le_bytes();
        let jitter = hash(self.seed, &text) % self.jitter_ms.saturating_add(1);
        slot_ms.saturating_add(jitter)
    }

    /// Returns when the first slot after a mark is due. `not_before` keeps a slot of the past from being due at an
    /// instant that has passed.
    pub(super) fn next_due(&self, last_ms: u64, not_before: u64) -> Option<u64> {
        let slot = self.slots()?.next_after(last_ms)?;
        Some(self.due_at(slot).max(not_before))
    }

    /// Returns the next slots after an instant, at most `count`.
    #[must_use]
    pub fn upcoming(&self, last_ms: u64, count: usize) -> Vec<u64> {
        let slots = self.slots();
        let next = |after: &u64| slots.as_ref()?.next_after(*after);
        std::iter::successors(next(&last_ms), next).take(count).collect()
    }
}

impl Slots<'_> {
    /// Returns the first slot after an instant; for `every` the instant is a slot.
    pub(super) fn next_after(&self, unix_ms: u64) -> Option<u64> {
        match self {
            Self::Cron(cron, zone) => cron.next_after(unix_ms, zone),
            Self::Every(every) => unix_ms.checked_add(*every),
        }
    }

    /// Returns the latest slot after `last_ms` and not after `until_ms`.
    pub(super) fn latest(&self, last_ms: u64, until_ms: u64) -> Option<u64> {
        let first = self.next_after(last_ms).filter(|slot| *slot <= until_ms)?;
        if let Self::Every(every) = self {
            return Some(until_ms - (until_ms - first) % every);
        }
        // Most often there is one. If not: the slot after an instant is at most `until_ms` up to the latest slot, and not
        // from there on.
        if self.next_after(first).is_none_or(|second| second > until_ms) {
            return Some(first);
        }
        let (mut before, mut behind) = (first, until_ms);
        while behind - before > 1 {
            let middle = before + (behind - before) / 2;
            match self.next_after(middle) {
                Some(slot) if slot <= until_ms => before = middle,
                _ => behind = middle,
            }
        }
        self.next_after(before)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn seed(texts: &[&str]) -> u64 {
    texts
        .iter()
        .fold(FNV_BASIS, |seed, text| hash(hash(seed, text.as_bytes()), &[0]))
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, a hash that stays the same between programs and versions, with a last step that spreads its low bits.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = bytes.iter().fold(seed, step);
    hash ^ (hash >> 32)
}
