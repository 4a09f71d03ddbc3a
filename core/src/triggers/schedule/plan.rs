//! A schedule of a manifest with its time zone, and the slots of this schedule.

use crate::data::Data;
use crate::records::LastSlot;
use fnd_manifest::cron::Cron;
use fnd_manifest::function::{OverlapKey, Schedule, ScheduledAt};
use fnd_wire::ids::FunctionName;
use fnd_wire::units::print_duration;
use jiff::tz::TimeZone;
use std::sync::Arc;
use std::time::Duration;

/// A schedule of a function.
#[derive(Debug, Clone)]
pub struct SchedulePlan {
    /// The schedule within its function.
    pub key: Arc<str>,
    /// When its slots are.
    pub timing: Timing,
    /// Longest random delay of a slot, in milliseconds.
    pub jitter_ms: u64,
    /// A missed slot still runs if it is at most this old, in milliseconds.
    pub catch_up_ms: u64,
    /// The effect of a run while all processes are busy.
    pub overlap: OverlapKey,
    /// The payload, JSON.
    pub data: Option<Data>,
    /// Whether a run that failed becomes a dead letter.
    pub dead_letters: bool,
    /// Determines `H` and the jitter. It differs between functions and between hosts.
    seed: u64,
}

/// When the slots of a schedule are.
#[derive(Debug, Clone)]
pub enum Timing {
    /// A line of cron. Only its text is kept: parsing takes 16 us, and a parsed line takes 5.5 KiB.
    Cron {
        /// The text of the line, as the manifest has it.
        line: Arc<str>,
        /// The time zone of the line.
        zone: TimeZone,
    },
    /// Each slot is this many milliseconds after the slot before.
    Every(u64),
    /// Once after each boot: at this instant, Unix milliseconds, if the mark says that the run of this boot is still to come.
    Boot(u64),
}

/// The present boot of the machine.
#[derive(Debug, Clone, Copy)]
pub struct PresentBoot<'a> {
    /// Its id: another one after each boot.
    pub id: &'a str,
    /// The instant at which a run that is still to come is due, Unix milliseconds.
    pub now_ms: u64,
}

/// The mark of a schedule whose run of the present boot is still to come. No slot is at this instant.
pub(super) const TO_COME_MS: u64 = 0;

/// The beginning of the keys of schedules that run after a boot. No line of cron and no duration begins with it.
const BOOT: &str = "boot ";

/// The slots of a plan, with the line of cron parsed.
pub(super) enum PlannedSlots<'a> {
    Cron(Box<Cron>, &'a TimeZone),
    Every(u64),
    Boot(u64),
}

impl SchedulePlan {
    /// Returns the plans of a function. `zone` returns the time zone with a name, or without a name that of the
    /// machine.
    pub fn of(
        schedules: &[Schedule],
        (function, host): (&FunctionName, &str),
        boot: PresentBoot<'_>,
        zone: impl Fn(Option<&str>) -> TimeZone,
    ) -> Vec<Self> {
        let seed = seed(&[host, function.as_str()]);
        let mut plans: Vec<Self> = Vec::new();
        for schedule in schedules {
            let (timing, text) = match (&schedule.cron, schedule.every) {
                // The key has the boot, so a mark of an earlier boot is the mark of another key.
                _ if schedule.at.is_some() => (Timing::Boot(boot.now_ms), format!("{BOOT}{}", boot.id)),
                (Some(line), _) => {
                    let name = schedule.timezone.as_deref();
                    let zone = zone(name);
                    let line: Arc<str> = line.as_str().into();
                    let text = format!("{line} {}", name.unwrap_or_default());
                    (Timing::Cron { line, zone }, text)
                }
                // With a distance of 0 there would be no next slot, and `latest` would divide by it.
                (None, Some(every)) => (Timing::Every(milliseconds(every).max(1)), print_duration(every)),
                // The judge refuses a schedule without both.
                (None, None) => continue,
            };
            // Two schedules may have the same text, so a number keeps their marks apart. A line of cron may contain `#`
            // (`5#2` is the second Friday), so only the last `#` separates text and number.
            let same = plans
                .iter()
                .filter(|plan| plan.key.rsplit_once('#').is_some_and(|(before, _)| before == text))
                .count();
            let data = schedule.data.as_ref().map(|data| data.to_string().into_bytes().into());
            plans.push(Self {
                key: format!("{text}#{same}").into(),
                timing,
                jitter_ms: milliseconds(schedule.jitter),
                // The run of a boot is never missed: fnd may begin long after the boot.
                catch_up_ms: match schedule.at {
                    Some(ScheduledAt::Boot) => u64::MAX,
                    None => milliseconds(schedule.catch_up),
                },
                overlap: schedule.overlap,
                data,
                dead_letters: schedule.dead_letters,
                seed,
            });
        }
        plans
    }

    /// Returns the slots. Absent: the line cannot be parsed; the judge refuses such a line.
    pub(super) fn slots(&self) -> Option<PlannedSlots<'_>> {
        match &self.timing {
            Timing::Cron { line, zone } => Some(PlannedSlots::Cron(Box::new(Cron::parse(line, self.seed).ok()?), zone)),
            Timing::Every(every) => Some(PlannedSlots::Every(*every)),
            Timing::Boot(at) => Some(PlannedSlots::Boot(*at)),
        }
    }

    /// Returns the first mark of a schedule that has none; `before` are the marks that its function had. A schedule begins at
    /// the present time. After a boot, the run of one that ran after an earlier boot is still to come.
    pub(super) fn first_mark(&self, before: &[LastSlot], now_ms: u64) -> u64 {
        let number = |key: &str| key.rsplit_once('#').map(|(_, number)| number.to_owned());
        let is_earlier = |mark: &LastSlot| mark.key.starts_with(BOOT) && number(&mark.key) == number(&self.key);
        match self.timing {
            Timing::Boot(_) if before.iter().any(is_earlier) => TO_COME_MS,
            _ => now_ms,
        }
    }

    /// Returns when a slot is due: after its jitter. The same slot always has the same jitter.
    #[must_use]
    pub fn due_at(&self, slot_ms: u64) -> u64 {
        let text = slot_ms.to_le_bytes();
        // The delay is not random: after a restart the slot must be due at the same instant as before. The seed
        // contains the host, so that many machines with one manifest do not call at once.
        let jitter = hash(self.seed, &text) % self.jitter_ms.saturating_add(1);
        slot_ms.saturating_add(jitter)
    }

    /// Returns when the first slot after a mark is due, but no earlier than `not_before`: a slot of the past is due
    /// now.
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

impl PlannedSlots<'_> {
    /// Returns the first slot after an instant. For `every`, the instant must be a slot.
    pub(super) fn next_after(&self, unix_ms: u64) -> Option<u64> {
        match self {
            Self::Cron(cron, zone) => cron.next_after(unix_ms, zone),
            Self::Every(every) => unix_ms.checked_add(*every),
            Self::Boot(at) => (unix_ms == TO_COME_MS).then_some(*at),
        }
    }

    /// Returns the latest slot after `last_ms` and not after `until_ms`.
    pub(super) fn latest(&self, last_ms: u64, until_ms: u64) -> Option<u64> {
        let first = self.next_after(last_ms).filter(|slot| *slot <= until_ms)?;
        if let Self::Every(every) = self {
            return Some(until_ms - (until_ms - first) % every);
        }
        // Usually there is only one slot. If there are more, search by halves: `next_after` returns a slot of at most
        // `until_ms` for each instant before the latest slot, and for no instant from there on.
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

/// FNV-1a with a last step that spreads its low bits. The hash is the same in every program and version.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = bytes.iter().fold(seed, step);
    hash ^ (hash >> 32)
}
