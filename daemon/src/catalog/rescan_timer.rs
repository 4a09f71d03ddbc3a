//! When to look at the functions directories, and what a look's end means; no clock and no files.
//!
//! All instants are on the monotonic clock. [`RescanTimer::due`] is the earliest of all reasons to look, and whatever is told (a scan
//! is over, it is quiet) follows from a look alone: so there is one thing to wait for, and no other wait to miss.

use std::time::Duration;

/// Time without a change after which scripts run by being there: a copied directory is then complete.
const QUIET: Duration = Duration::from_secs(1);
/// Events come in bursts; one look serves all of this long.
const BURST: Duration = Duration::from_millis(20);
/// Inotify does not see everything (NFS, bind mounts, a link's target): look anyway.
const RESCAN: Duration = Duration::from_secs(600);
/// How soon to look again at directories that are not there or cannot be watched.
const REWATCH: Duration = Duration::from_secs(5);
/// Longest that what is not complete holds up everything else: a file may be written to for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// A look at the directories.
#[derive(Debug, Clone, Copy)]
pub(super) struct FinishedScan {
    pub(super) began: Duration,
    pub(super) ended: Duration,
    /// Whether something was handed on.
    pub(super) moved: bool,
    /// How soon something that is not complete, or gone for too short a time, can be decided without another event.
    pub(super) unsettled: Option<Duration>,
    /// Whether changes are events.
    pub(super) watched: bool,
}

/// What a look's end means.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// Nothing changed for a while; said once after each change.
    pub(super) quiet: bool,
    /// The scans that are over.
    pub(super) over: Vec<u64>,
}

/// What is waited for.
#[derive(Debug)]
pub(super) struct RescanTimer {
    last: Option<FinishedScan>,
    /// Scans asked for and not over, and when that was.
    asked: Vec<(u64, Duration)>,
    /// The first hint or wish since the last look.
    hinted: Option<Duration>,
    /// When something was handed on last.
    changed: Duration,
    /// Since when there is always something that is not complete.
    unsettled_since: Option<Duration>,
    quiet: bool,
}

impl RescanTimer {
    /// Returns one that waits for the first wish.
    pub(super) fn new() -> Self {
        Self {
            last: None,
            asked: Vec::new(),
            hinted: None,
            changed: Duration::ZERO,
            unsettled_since: None,
            quiet: true,
        }
    }

    /// Something happened in the directories.
    pub(super) fn hint(&mut self, now: Duration) {
        // The first one counts: hints that never cease delay nothing.
        self.hinted.get_or_insert(now);
    }

    /// Somebody wants to know when all that is there now was looked at.
    pub(super) fn ask(&mut self, number: u64, now: Duration) {
        self.asked.push((number, now));
        self.hint(now);
    }

    /// Returns when to look; nothing where only a wish begins it.
    pub(super) fn due(&self) -> Option<Duration> {
        let Some(last) = self.last else {
            return self.asked.first().map(|(_, at)| *at);
        };
        let reasons = [
            self.hinted.map(|at| at + BURST),
            last.unsettled.map(|after| last.ended + after.max(BURST)),
            self.asked.iter().map(|(_, at)| *at + PATIENCE).min(),
            (!self.quiet).then(|| self.quiet_at()),
            Some(last.ended + if last.watched { RESCAN } else { REWATCH }),
        ];
        // A rest as long as the look was: at most half of one core goes into looking, whatever happens.
        let rested = last.ended + last.ended.saturating_sub(last.began);
        reasons.into_iter().flatten().min().map(|due| due.max(rested))
    }

    /// Takes in what a look was like.
    pub(super) fn finished(&mut self, look: FinishedScan) -> Settled {
        self.hinted = None;
        if look.moved {
            self.changed = look.ended;
            self.quiet = false;
        }
        self.unsettled_since = look.unsettled.map(|_| self.unsettled_since.unwrap_or(look.began));
        self.last = Some(look);
        // By when it began: what a kernel too busy to say so let pass is then found before it is called quiet.
        let quiet = !self.quiet && look.began >= self.quiet_at();
        self.quiet |= quiet;
        let settled = look.unsettled.is_none();
        let over = self
            .asked
            .extract_if(.., |(_, at)| settled || look.began >= *at + PATIENCE);
        let over = over.map(|(number, _)| number).collect();
        Settled { quiet, over }
    }

    fn quiet_at(&self) -> Duration {
        let complete = self.unsettled_since.map_or(Duration::ZERO, |since| since + PATIENCE);
        complete.max(self.changed + QUIET)
    }
}

#[cfg(test)]
mod tests;
