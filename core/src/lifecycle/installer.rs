//! The queue of functions to install, a bounded number at a time. A scan is settled when all its functions are
//! installed or refused.

use super::SourceFiles;
use super::checks::Checks;
use super::retries::Retries;
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

/// Most installations that the spawner is asked for at once: enough to keep it and the judge busy, few enough that a
/// spawn between them does not wait.
const WINDOW: usize = 256;

/// Most scans that are asked for because files have changed while they were being installed: an author may write to a file without
/// end.
const REPEATS: u8 = 5;

/// The kind of a request to install files. The spawner answers all of them by the same frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// It installs the files.
    Install,
    /// It prepares a check of their syntax.
    Check,
    /// It has their dependencies built from scratch.
    CleanBuild,
}

/// The functions to install.
#[derive(Debug, Default)]
pub struct Installer {
    waiting: VecDeque<SourceFiles>,
    /// Candidates that the spawner is installing, by request number.
    asked: BTreeMap<u32, (SourceFiles, RequestKind)>,
    /// Files whose syntax is checked before they serve.
    pub checks: Checks,
    /// Installations to retry later; no scan waits for them.
    again: Retries,
    /// The number of the scan that was asked for last; below, that of the last scan that is over.
    asked_scan: u64,
    done_scan: u64,
    /// The number of the scan for which all others wait, and how many such scans were asked for.
    repeated_scan: u64,
    repeats: u8,
    /// Whether one more such scan was needed.
    is_given_up: bool,
}

impl Installer {
    /// Queues files, in place of older entries and retries of the same functions.
    pub fn enqueue(&mut self, candidates: Vec<SourceFiles>) {
        for candidate in &candidates {
            self.again.forget(&candidate.function);
        }
        self.append(candidates);
    }

    /// Queues a copy, or a file once more. If the file of the function waits already, nothing is queued: the waiting file is
    /// newer, and the answer about it asks for the copy again.
    pub fn requeue(&mut self, candidate: SourceFiles) {
        let is_file = |waiting: &SourceFiles| waiting.function == candidate.function && waiting.copy().is_none();
        if !self.waiting.iter().any(is_file) {
            self.append(vec![candidate]);
        }
    }

    /// As [`Self::requeue`], for many files at once.
    pub fn requeue_all(&mut self, mut candidates: Vec<SourceFiles>) {
        let files = self.waiting.iter().filter(|waiting| waiting.copy().is_none());
        let waiting: HashSet<_> = files.map(|waiting| waiting.function.clone()).collect();
        candidates.retain(|candidate| !waiting.contains(&candidate.function));
        self.append(candidates);
    }

    fn append(&mut self, candidates: Vec<SourceFiles>) {
        // Each installation calls this with the functions whose routes it has set free: as a rule none. Then there is nothing to
        // do, and a walk over a long queue would take time.
        if candidates.is_empty() {
            return;
        }
        if !self.waiting.is_empty() {
            let newer: HashSet<_> = candidates.iter().map(|candidate| &candidate.function).collect();
            self.waiting.retain(|old| !newer.contains(&old.function));
        }
        self.waiting.extend(candidates);
    }

    /// Drops the queued entries and the retries of a function that is gone.
    pub fn forget(&mut self, function: &FunctionName) {
        self.waiting.retain(|candidate| candidate.function != *function);
        self.again.forget(function);
    }

    /// Ends the retries of a candidate that is installed, or was refused for the content of its files.
    pub fn is_final(&mut self, files: &SourceFiles) {
        self.again.is_final(files);
    }

    /// Handles a candidate that was refused, and that is tried again if `retry` is the time now: the reason may disappear without a
    /// change of the files. Returns whether this was a retry already, and another one follows.
    pub fn is_over(&mut self, files: &SourceFiles, retry: Option<Duration>) -> bool {
        let Some(mono) = retry else {
            self.is_final(files);
            return false;
        };
        let again = self.again.is_under_way(files);
        // A waiting entry of the function is newer than the refused files.
        if !self.is_waiting(&files.function) {
            self.again.refused(files.clone(), mono);
        }
        again
    }

    /// Returns when [`Installer::try_again`] has something to do.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        self.again.next()
    }

    /// Queues the retries that are due.
    pub fn try_again(&mut self, mono: Duration) {
        let due = self.again.due(mono).into_iter();
        let (copies, files): (Vec<_>, Vec<_>) = due.partition(|files| files.copy().is_some());
        // Files come first: a copy is not queued while the file of its function waits.
        self.append(files);
        copies.into_iter().for_each(|copy| self.requeue(copy));
    }

    /// Returns the next candidate that is not `held` back, while the window has room. [`Installer::asked`] or
    /// [`Installer::not_asked`] must follow.
    pub fn next_request(&mut self, held: impl Fn(&FunctionName) -> bool) -> Option<SourceFiles> {
        if self.asked.len() >= WINDOW {
            return None;
        }
        let checks = &self.checks;
        let is_held = |function: &FunctionName| held(function) || checks.is_held(function);
        // The first candidate that is not held back is taken: those behind a held one do not wait for it.
        let mut waiting = self.waiting.iter();
        let next = waiting.position(|candidate| !is_held(&candidate.function))?;
        self.waiting.remove(next)
    }

    /// Returns whether files of a function are to be installed, are being installed, or wait for their check.
    #[must_use]
    pub fn has_work(&self, function: &FunctionName) -> bool {
        self.is_waiting(function) || self.is_asked(function) || self.checks.waiting(function).is_some()
    }

    fn is_waiting(&self, function: &FunctionName) -> bool {
        self.waiting.iter().any(|waiting| waiting.function == *function)
    }

    /// Returns whether an installation of a function is under way.
    #[must_use]
    pub fn is_asked(&self, function: &FunctionName) -> bool {
        self.asked
            .values()
            .any(|(candidate, _)| candidate.function == *function)
    }

    /// Returns whether an installation of any function is under way.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Stores which request asked for a candidate.
    pub fn asked(&mut self, request: u32, candidate: SourceFiles, kind: RequestKind) {
        self.asked.insert(request, (candidate, kind));
    }

    /// Puts a candidate back for which the spawner could not be asked. If it were dropped, a scan would be settled without it,
    /// and its function would count as deleted.
    pub fn not_asked(&mut self, candidate: SourceFiles) {
        self.waiting.push_front(candidate);
    }

    /// Returns the files that a request asks for.
    #[must_use]
    pub fn candidate(&self, request: u32) -> Option<&SourceFiles> {
        self.asked.get(&request).map(|(candidate, _)| candidate)
    }

    /// Removes a request that is over. Returns its candidate and its kind.
    pub fn answered(&mut self, request: u32) -> Option<(SourceFiles, RequestKind)> {
        self.asked.remove(&request)
    }

    /// Returns whether no version of `fnd-check` is needed any more. The spawner may have made one for a request that it has not
    /// answered.
    pub fn needs_no_check(&mut self) -> bool {
        let is_asked = self.asked.values().any(|(_, kind)| *kind == RequestKind::Check);
        !is_asked && self.checks.needs_none()
    }

    /// Returns the number for a new scan. Everything is settled when that scan is over and nothing waits.
    pub fn new_scan(&mut self) -> u64 {
        self.asked_scan += 1;
        self.asked_scan
    }

    /// Stores that a scan is over.
    pub fn scanned(&mut self, number: u64) {
        self.done_scan = self.done_scan.max(number);
    }

    /// Has every scan wait for one that reports the files of a function again, if they are still there: they have changed, so the
    /// answer about them was dropped, and nothing else is known of their function. Without them a scan would be settled, and the
    /// function would count as deleted. Returns the number of that scan if it is to be asked for.
    pub fn repeat_scan(&mut self) -> Option<u64> {
        // The catalog reports the changed files before it says that a scan is over.
        if self.done_scan < self.asked_scan {
            self.repeated_scan = self.asked_scan;
            return None;
        }
        if self.repeats >= REPEATS {
            self.is_given_up = true;
            return None;
        }
        self.repeats += 1;
        self.repeated_scan = self.new_scan();
        Some(self.repeated_scan)
    }

    /// Returns whether a function may exist of which nothing is known, since its files have changed too often. From now on scans are
    /// asked for again.
    pub fn take_given_up(&mut self) -> bool {
        let is_given_up = std::mem::take(&mut self.is_given_up);
        if is_given_up {
            self.repeats = 0;
        }
        is_given_up
    }

    /// Returns whether the scan of that number is over and everything it saw is installed or refused.
    #[must_use]
    pub fn is_settled(&self, scan: u64) -> bool {
        self.done_scan >= scan.max(self.repeated_scan) && self.is_idle()
    }

    /// Returns whether nothing is to be installed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty()
    }

    /// Gives back the memory of the queue once it is empty: at the start all functions were in it.
    pub fn shrink(&mut self) {
        self.waiting.shrink_to(WINDOW);
    }
}
