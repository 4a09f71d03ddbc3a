//! Decides when to scan the functions directories, and what the end of a scan means. Uses neither a clock nor files.
//!
//! All times are on the monotonic clock. [`RescanTimer::due`] is the earliest of all reasons to scan, and every report
//! (a scan is over, nothing changes) follows from a scan. So there is only one time to wait for.

use std::time::Duration;

/// Time without a change after which `load` scripts run: a copied directory is complete then.
const QUIET: Duration = Duration::from_secs(1);
/// Events come in bursts; one scan serves all events of this time.
const BURST: Duration = Duration::from_millis(20);
/// Inotify does not see everything (NFS, bind mounts, the target of a link), so scan this often anyway.
const RESCAN: Duration = Duration::from_secs(600);
/// How soon to scan again if directories are missing or cannot be watched.
const REWATCH: Duration = Duration::from_secs(5);
/// Longest time that incomplete files delay everything else: a file may be written to forever.
const PATIENCE: Duration = Duration::from_secs(5);

/// A scan of the directories that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct FinishedScan {
    pub(super) began: Duration,
    pub(super) ended: Duration,
    /// Whether the scan reported a change.
    pub(super) moved: bool,
    /// How soon a scan can decide about files that are not complete, or have not been gone for long enough; without
    /// another event.
    pub(super) unsettled: Option<Duration>,
    /// Whether every change causes an event.
    pub(super) watched: bool,
}

/// The report of the catalog to the driver when a scan has ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// Nothing has changed for a while; reported once after each change.
    pub(super) quiet: bool,
    /// The requested scans that are over.
    pub(super) over: Vec<u64>,
}

/// The reasons to scan.
#[derive(Debug, Default)]
pub(super) struct RescanTimer {
    last: Option<FinishedScan>,
    /// The requested scans that are not over, and when they were requested.
    asked: Vec<(u64, Duration)>,
    /// When the first change or request since the last scan came.
    pub(super) dirty_since: Option<Duration>,
    /// When a scan last reported a change.
    changed: Duration,
    /// Since when every scan has found files that are not complete.
    unsettled_since: Option<Duration>,
    quiet: bool,
}

impl RescanTimer {
    /// Returns a timer that waits for the first request.
    pub(super) fn new() -> Self {
        Self {
            quiet: true,
            ..Self::default()
        }
    }

    /// Notes a change in the directories: a scan is due soon.
    pub(super) fn mark_dirty(&mut self, now: Duration) {
        // The first one counts, so that endless changes do not delay the scan.
        self.dirty_since.get_or_insert(now);
    }

    /// Notes a request: the requester wants to know when everything that exists now has been scanned.
    pub(super) fn ask(&mut self, number: u64, now: Duration) {
        self.asked.push((number, now));
        self.mark_dirty(now);
    }

    /// Returns when to scan; nothing if only a request can cause the first scan.
    pub(super) fn due(&self) -> Option<Duration> {
        let Some(last) = self.last else {
            return self.asked.first().map(|(_, at)| *at);
        };
        let reasons = [
            self.dirty_since.map(|at| at + BURST),
            last.unsettled.map(|after| last.ended + after.max(BURST)),
            self.asked.iter().map(|(_, at)| *at + PATIENCE).min(),
            (!self.quiet).then(|| self.quiet_at()),
            Some(last.ended + if last.watched { RESCAN } else { REWATCH }),
        ];
        // Rest as long as the scan took: scans then use at most half of one core, whatever happens.
        let rested = last.ended + last.ended.saturating_sub(last.began);
        reasons.into_iter().flatten().min().map(|due| due.max(rested))
    }

    /// Takes the result of a scan.
    pub(super) fn finished(&mut self, scan: FinishedScan) -> Settled {
        self.dirty_since = None;
        if scan.moved {
            self.changed = scan.ended;
            self.quiet = false;
        }
        self.unsettled_since = scan.unsettled.map(|_| self.unsettled_since.unwrap_or(scan.began));
        self.last = Some(scan);
        // The start of the scan counts: if the kernel was too busy to report a change, this scan finds the change
        // before it is called quiet.
        let quiet = !self.quiet && scan.began >= self.quiet_at();
        self.quiet |= quiet;
        let settled = scan.unsettled.is_none();
        let over = self
            .asked
            .extract_if(.., |(_, at)| settled || scan.began >= *at + PATIENCE);
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
