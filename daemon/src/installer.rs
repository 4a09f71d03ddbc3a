//! Which functions are to be installed, a bounded number at a time, and who waits for all of it to be over.

use crate::catalog::Candidate;
use crate::reinstall::Reinstall;
use fnd_wire::ids::FunctionName;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

/// Most installations asked of the spawner at once: enough to keep it and the judge busy, few enough that a spawn between
/// them does not wait.
const WINDOW: usize = 32;

/// Installations.
#[derive(Debug, Default)]
pub struct Installer {
    waiting: VecDeque<Candidate>,
    /// By request number.
    asked: HashMap<u32, Candidate>,
    /// What is tried again later; nobody waits for it.
    again: Reinstall,
    /// The scan that was asked for last, and the last one that is over.
    asked_scan: u64,
    done_scan: u64,
}

impl Installer {
    /// Takes in what a scan found, replacing older wishes for the same functions.
    pub fn want(&mut self, candidates: Vec<Candidate>) {
        for candidate in &candidates {
            self.again.forget(&candidate.function);
        }
        self.enqueue(candidates);
    }

    fn enqueue(&mut self, candidates: Vec<Candidate>) {
        if !self.waiting.is_empty() {
            let newer: HashSet<_> = candidates.iter().map(|candidate| &candidate.function).collect();
            self.waiting.retain(|old| !newer.contains(&old.function));
        }
        self.waiting.extend(candidates);
    }

    /// Drops what is wished for a function that is gone.
    pub fn forget(&mut self, function: &FunctionName) {
        self.waiting.retain(|candidate| candidate.function != *function);
        self.again.forget(function);
    }

    /// A candidate is installed, or was refused for what is in its files.
    pub fn is_final(&mut self, function: &FunctionName) {
        self.again.forget(function);
    }

    /// A candidate was refused for a reason that is not in its files: it is tried again later. Says whether it was tried again
    /// already.
    pub fn refused(&mut self, candidate: Candidate, mono: Duration) -> bool {
        let again = self.again.is_under_way(&candidate.function);
        // What waits is newer.
        if !self
            .waiting
            .iter()
            .any(|waiting| waiting.function == candidate.function)
        {
            self.again.refused(candidate, mono);
        }
        again
    }

    /// Returns when [`Installer::try_again`] has something to do.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        self.again.next()
    }

    /// Wishes for what is due to be tried again.
    pub fn try_again(&mut self, mono: Duration) {
        let due = self.again.due(mono);
        self.enqueue(due);
    }

    /// Returns the next to ask for that is not `held` back, while the window has room. [`Installer::asked`] must follow.
    pub fn next_request(&mut self, held: impl Fn(&FunctionName) -> bool) -> Option<Candidate> {
        if self.asked.len() >= WINDOW {
            return None;
        }
        let next = self.waiting.iter().position(|candidate| !held(&candidate.function))?;
        self.waiting.remove(next)
    }

    /// Says whether an installation of a function is under way.
    #[must_use]
    pub fn is_asked(&self, function: &FunctionName) -> bool {
        self.asked.values().any(|candidate| candidate.function == *function)
    }

    /// Remembers which request asked for a candidate.
    pub fn asked(&mut self, request: u32, candidate: Candidate) {
        self.asked.insert(request, candidate);
    }

    /// Returns the candidate a request asks for.
    #[must_use]
    pub fn candidate(&self, request: u32) -> Option<&Candidate> {
        self.asked.get(&request)
    }

    /// Returns the candidate a request asked for; it is over.
    pub fn answered(&mut self, request: u32) -> Option<Candidate> {
        self.asked.remove(&request)
    }

    /// Returns the number for a new scan; everything is over when it is and nothing waits.
    pub fn new_scan(&mut self) -> u64 {
        self.asked_scan += 1;
        self.asked_scan
    }

    /// Remembers that a scan is over.
    pub fn scanned(&mut self, number: u64) {
        self.done_scan = self.done_scan.max(number);
    }

    /// Says whether the scan of that number is over and everything it found is installed or refused.
    #[must_use]
    pub fn is_settled(&self, scan: u64) -> bool {
        self.done_scan >= scan && self.is_idle()
    }

    /// Says whether nothing is to be installed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty()
    }

    /// The spawner is gone: what was asked of it is wished again.
    pub fn lost(&mut self) {
        let again: Vec<_> = self.asked.drain().map(|(_, candidate)| candidate).collect();
        self.enqueue(again);
    }
}
