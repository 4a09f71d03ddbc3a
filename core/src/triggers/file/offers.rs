//! Which files are offered to fnd, and what follows from its answers.
//!
//! Only so many invocations are without an end at a time: the function's queue is not filled by files alone, and all other
//! files wait in their directory. When fnd refuses an offer, fewer are made until it accepts again.

use super::content::FileContent;
use super::machine::{FileClock, FileMachine, nanos};
use super::message::{FromWatcher, SeenChange, WatcherReady};
use super::outbox::PATHS_MAX;
use super::record::{FileId, FileState};
use fnd_manifest::function::file::FileChange;
use fnd_manifest::function::keys::FileTrigger;
use fnd_wire::ids::InvocationId;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// Most invocations that have no end, offers included. It is enough to keep every worker of a small pool busy while fnd
/// commits, and small beside the default of `queue.max`.
pub(super) const WINDOW_MAX: usize = 16;
/// When refused files are offered again, unless an invocation ends before.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// The offers and the invocations that they became.
#[derive(Debug, Default)]
pub(super) struct Offers {
    number: u64,
    open: BTreeMap<u64, Offer>,
    /// The offer that is being made: its files get a last look.
    next: Option<Offer>,
    /// Files of that one may have been looked at in other directories than those that are there now.
    in_doubt: bool,
    /// Contents that are offered, by directory and inode.
    held: HashSet<(u16, u64)>,
    /// Invocations that have not ended.
    pub(super) running: HashSet<InvocationId>,
    window: usize,
    paused: Option<Duration>,
    /// Number of files that changed after they were offered: their names may have contents of other names.
    pub(super) changed: usize,
}

#[derive(Debug)]
struct Offer {
    entry: u16,
    checking: Vec<FileId>,
    changes: Vec<(FileId, FileChange, FileContent)>,
}

impl Offers {
    pub(super) fn new() -> Self {
        Self {
            window: WINDOW_MAX,
            ..Self::default()
        }
    }

    /// Returns whether a content with this inode is offered.
    pub(super) fn holds(&self, directory: u16, inode: u64) -> bool {
        self.held.contains(&(directory, inode))
    }

    /// The directories lead elsewhere: what the last looks have shown does not count.
    pub(super) fn doubt(&mut self) {
        self.in_doubt = self.next.is_some();
    }

    /// Adds a file whose last look has shown what it should.
    pub(super) fn add(&mut self, directory: u16, id: FileId, (change, content): (FileChange, FileContent)) {
        if let Some(next) = &mut self.next {
            if change != FileChange::Deleted {
                self.held.insert((directory, content.facts.inode));
            }
            next.changes.push((id, change, content));
        }
    }

    fn is_full(&self) -> bool {
        self.running.len() + self.open.len() >= self.window
    }
}

impl FileMachine {
    /// Makes the offers that are due.
    pub(super) fn offer(&mut self, at: FileClock) {
        for line in &mut self.books.lines {
            if !line.ready.is_empty() {
                line.since.get_or_insert(nanos(at.now));
            }
        }
        if self.offers.paused.is_some_and(|until| until <= at.now) {
            self.offers.paused = None;
        }
        for _ in 0..=WINDOW_MAX {
            if !self.finish_offer(at) || self.offers.is_full() || self.offers.paused.is_some() {
                return;
            }
            let Some(entry) = self.next_entry(at) else { return };
            self.begin_offer(at, entry);
        }
    }

    /// Returns the entry whose oldest file is next.
    fn next_entry(&self, at: FileClock) -> Option<u16> {
        let due = (0..).zip(&self.books.lines).filter_map(|(entry, line)| {
            let is_due = self.line_due(entry)? <= at.now;
            is_due.then_some((line.ready.first()?, entry))
        });
        due.min().map(|(_, entry)| entry)
    }

    /// Returns when an entry's ready files are offered, if nothing hinders it; nothing if there are none.
    fn line_due(&self, entry: u16) -> Option<Duration> {
        let line = self.books.lines.get(usize::from(entry))?;
        let trigger = self.entries.get(Some(entry))?;
        if line.ready.is_empty() {
            return None;
        }
        // A batch waits for the files that are in their quiet time, so that files which come together run together, but
        // it waits no longer than `debounce`.
        let is_whole = line.quiet == 0 || line.ready.len() >= batch(trigger);
        match line.since {
            Some(since) if !is_whole => Some(Duration::from_nanos(since).saturating_add(trigger.debounce)),
            _ => Some(Duration::ZERO),
        }
    }

    pub(super) fn offer_due(&self) -> Option<Duration> {
        if self.offers.next.is_some() {
            return Some(Duration::ZERO);
        }
        if self.offers.is_full() {
            return None; // until fnd says more
        }
        let entries = (0..).zip(&self.books.lines);
        let due = entries.filter_map(|(entry, _)| self.line_due(entry)).min()?;
        Some(due.max(self.offers.paused.unwrap_or_default()))
    }

    /// Has the oldest files of an entry looked at a last time.
    fn begin_offer(&mut self, at: FileClock, entry: u16) {
        let Some(trigger) = self.entries.get(Some(entry)) else {
            return;
        };
        let batch = batch(trigger);
        let Some(line) = self.books.lines.get_mut(usize::from(entry)) else {
            return;
        };
        // Files that stay behind wait for a new batch, whose time begins now.
        line.since = Some(nanos(at.now));
        let mut bytes = 0;
        // With longer paths the offer could exceed `MESSAGE_MAX`, which would end the connection with fnd.
        let ready = line.ready.iter().take(batch).take_while(|(_, path, _)| {
            bytes += path.len();
            bytes <= PATHS_MAX
        });
        let ids: Vec<_> = ready.map(|(_, _, id)| *id).collect();
        self.offers.next = Some(Offer {
            entry,
            checking: Vec::new(),
            changes: Vec::new(),
        });
        for id in ids {
            let Some(record) = self.books.get(id) else { continue };
            let directory = record.directory;
            match (record.state, record.known) {
                (FileState::ReadyGone, Some(content)) => {
                    self.books.set(id, FileState::OfferedGone);
                    self.offers.add(directory, id, (FileChange::Deleted, content));
                }
                _ => {
                    // fnd remembers the hash with the offer, so this look reads the content.
                    self.ask(id, FileState::Checking, true);
                    if let Some(next) = &mut self.offers.next {
                        next.checking.push(id);
                    }
                }
            }
        }
    }

    /// Sends the offer that is being made when all of its files are looked at. Returns whether none is being made.
    fn finish_offer(&mut self, at: FileClock) -> bool {
        let Some(mut offer) = self.offers.next.take() else {
            return true;
        };
        let is_checking = |id: &FileId| self.books.state(*id) == Some(FileState::Checking);
        offer.checking.retain(is_checking);
        if !offer.checking.is_empty() {
            self.offers.next = Some(offer);
            return false;
        }
        let in_doubt = std::mem::take(&mut self.offers.in_doubt);
        if offer.changes.is_empty() {
            return true;
        }
        self.offers.number += 1;
        let number = self.offers.number;
        let change = |(id, change, content): &(FileId, FileChange, FileContent)| {
            let record = self.books.get(*id)?;
            Some(SeenChange {
                kind: kind(*change),
                file: content.file(record.directory, &record.path),
            })
        };
        let changes = offer.changes.iter().filter_map(change).collect();
        let entry = offer.entry;
        self.offers.open.insert(number, offer);
        // The last looks saw the earlier directories, so the files stay ready and are looked at once more.
        if in_doubt {
            self.refused(at, number);
        } else {
            self.outbox
                .say(FromWatcher::Ready(WatcherReady { number, entry, changes }));
        }
        true
    }

    pub(super) fn accepted(&mut self, at: FileClock, number: u64, invocation: InvocationId) {
        let Some(offer) = self.offers.open.remove(&number) else {
            return;
        };
        self.offers.running.insert(invocation);
        self.offers.window = (self.offers.window + 1).min(WINDOW_MAX);
        let acts = self.entries.get(Some(offer.entry)).is_some_and(FileTrigger::acts);
        for (id, change, content) in offer.changes {
            let Some(record) = self.books.get(id) else { continue };
            let directory = record.directory;
            if change == FileChange::Deleted {
                // fnd forgot it in the transaction that stored the invocation.
                self.books.forget(id);
            } else {
                self.offers.held.remove(&(directory, content.facts.inode));
                self.learn(at, id, content);
                if acts {
                    let stamp = content.facts.stamp();
                    self.after.entry(invocation).or_default().push((offer.entry, stamp));
                }
            }
            self.answered(id, FileState::Idle);
            self.judge_later(directory, content.facts.inode);
        }
        // An invocation of deletions alone has an entry, too, so that its end is settled and fnd forgets it.
        if acts {
            self.after.entry(invocation).or_default();
        }
    }

    pub(super) fn refused(&mut self, at: FileClock, number: u64) {
        let Some(offer) = self.offers.open.remove(&number) else {
            return;
        };
        for (id, change, content) in offer.changes {
            let Some(record) = self.books.get(id) else { continue };
            let directory = record.directory;
            if change == FileChange::Deleted {
                self.answered(id, FileState::ReadyGone);
            } else {
                self.offers.held.remove(&(directory, content.facts.inode));
                self.answered(id, FileState::Ready);
            }
            self.judge_later(directory, content.facts.inode);
        }
        // The other offers that are open came before this answer: they may be refused as well.
        // So many invocations had room. One offer stays possible: without an answer the window could never grow again.
        self.offers.window = self.offers.running.len().max(1);
        self.offers.paused = Some(at.now.saturating_add(REFUSED_PAUSE));
    }

    /// An invocation has ended, so that fnd may take another.
    pub(super) fn resume(&mut self, invocation: InvocationId) {
        self.offers.running.remove(&invocation);
        self.offers.paused = None;
    }

    /// Moves a file to a state after fnd's answer, unless it has changed since it was offered.
    fn answered(&mut self, id: FileId, state: FileState) {
        let Some(record) = self.books.get_mut(id) else { return };
        if std::mem::take(&mut record.changed) {
            self.offers.changed = self.offers.changed.saturating_sub(1);
            self.ask(id, FileState::Arriving, false);
        } else {
            self.books.set(id, state);
        }
    }
}

fn batch(trigger: &FileTrigger) -> usize {
    usize::try_from(trigger.batch).unwrap_or(usize::MAX).max(1)
}

fn kind(change: FileChange) -> u8 {
    match change {
        FileChange::Created => 0,
        FileChange::Modified => 1,
        FileChange::Deleted => 2,
    }
}
