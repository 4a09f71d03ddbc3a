//! The decisions of one watcher: events come in, actions go out, and one number says when something is due.
//!
//! The watcher's edge hands every event to [`FileMachine::handle`], then calls [`FileMachine::turn`] and carries out its actions;
//! it answers each look and each act before it hands over anything else. It repeats that until a turn gives no action.
//! The machine does not open files, and does not wait: a deadline that passed is due in the next turn.

use super::books::FileBooks;
pub use super::content::FileStamp;
use super::content::{FileStat, Hash};
use super::entries::Entries;
use super::message::{FromWatcher, KnownFile, PROTOCOL, ToWatcher, Trouble};
use super::offers::Offers;
use super::outbox::Outbox;
pub use super::record::FileId;
use super::record::FileState;
use crate::records::SeenFile;
use fnd_manifest::function::file::FileAction;
use fnd_manifest::function::keys::FileTrigger;
use fnd_wire::ids::InvocationId;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// How long a name may be without a file before it counts as deleted. A move gives two events, and programs that delete a
/// file before they write it again leave a moment between.
pub(super) const MOVE_WINDOW: Duration = Duration::from_millis(50);
/// Most looks and acts of one turn: between turns the edge sees whether its input has ended.
pub(super) const TURN_MAX: usize = 256;
/// Time between looks at all files where the kernel reports no changes.
pub const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest time between two reports of the number of files that wait.
const WAITING_INTERVAL: Duration = Duration::from_secs(1);

/// The time of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileClock {
    /// Monotonic clock, for quiet times and pauses.
    pub now: Duration,
    /// Wall clock, nanoseconds since 1970.
    pub wall_ns: i64,
}

/// A change of a name in a watched directory, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedFile {
    /// A file was made, or linked.
    Created,
    /// A file was written.
    Written,
    /// A file was closed after writing.
    Closed,
    /// A file was moved to this name.
    MovedHere,
    /// A file was moved away from this name.
    MovedAway,
    /// The name was deleted.
    Removed,
    /// A directory was moved away, or cannot be reached any more, with all that is below.
    DirectoryMoved,
}

/// The result of a look at a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// A regular file, whose facts did not change while it was hashed.
    File(FileStat, Hash),
    /// A regular file that changed while it was hashed.
    Changing(FileStat),
    /// No regular file has this name. The device is that of the directory in which it is not.
    Absent(u64),
    /// The directory cannot be reached: nothing is known about the file.
    Unreachable,
}

/// The result of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acted {
    /// The file is deleted; whether its content still has another name.
    Deleted(bool),
    /// The file is moved to this path, which is absolute; its facts there, if they are known.
    Moved(Vec<u8>, Option<FileStat>),
    /// The file has another content, or is gone: nothing was done.
    Changed,
    /// It cannot be done: the problem, for people.
    Failed(String),
}

/// An event of the watcher's machine: a message of fnd, a change of a file, or the result of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEvent {
    /// A message of fnd.
    Message(ToWatcher),
    /// A name of a directory changed.
    Named(u16, Vec<u8>, NamedFile),
    /// A scan of a directory begins. With `false` only of a part: files that are not found there are not gone.
    ScanBegan(u16, bool),
    /// A scan has found a file.
    Scanned(u16, Vec<u8>, FileStat),
    /// A scan has found a directory that cannot be read: nothing is known about the files below.
    Unreadable(u16, Vec<u8>),
    /// A scan has ended. For a complete scan: the device of the directory. Nothing if it was of a part, or if something could
    /// not be read.
    ScanEnded(u16, Option<u64>),
    /// A look is answered.
    Looked(FileId, Look),
    /// An act is answered.
    Acted(Act, Acted),
    /// The kernel dropped events.
    Overflow,
    /// The watched directories lead elsewhere, or something else is mounted below them: the number for that.
    Places(u64),
    /// The state of a directory changed.
    Directory(u16, DirectoryState),
}

/// Whether a directory is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectoryState {
    /// Whether it is there.
    pub present: bool,
    /// Whether only repeated scans show its changes.
    pub polled: bool,
    /// The problem, for people.
    pub problem: Option<String>,
}

/// Something to be done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// The invocation that has ended.
    pub after: InvocationId,
    /// Position of the entry of `[[file]]` that says what to do.
    pub entry: u16,
    /// Number of the watched directory that has the file.
    pub directory: u16,
    /// The path below it.
    pub path: Rc<[u8]>,
    /// The content: another one stays where it is.
    pub content: FileStamp,
    /// `Delete` or `Move`.
    pub action: FileAction,
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchAction {
    /// Send a message to fnd.
    Say(FromWatcher),
    /// Look at a file: directory, path, and whether its content is hashed.
    Look(FileId, u16, Rc<[u8]>, bool),
    /// Do something to a file.
    Act(Act),
    /// Look at all files of a directory. One that is under way begins again afterwards.
    Scan(u16),
}

/// The known facts about a watched directory.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) state: DirectoryState,
    /// The first scan after the start has not ended: `existing` counts.
    pub(super) first: bool,
    /// Number of scans that are under way, parts included.
    pub(super) scanning: usize,
    /// A complete scan is under way.
    pub(super) complete: bool,
    /// Number of the complete scan.
    pub(super) mark: u8,
    /// Names of known inodes whose known name this scan had not found: links, or moves.
    pub(super) others: Vec<(FileId, Vec<u8>)>,
    /// A complete scan has ended since the directory is there: the books have the present names.
    pub(super) scanned: bool,
    /// A look could not reach a file: a scan is due.
    pub(super) unreached: bool,
    /// Devices of the files that this scan has found, and those that the same files had before.
    pub(super) devices: BTreeSet<u64>,
    /// Another file system is there, for people.
    pub(super) foreign: Option<String>,
    /// When the next scan is due.
    pub(super) next: Option<Duration>,
}

/// The decisions of one watcher.
#[derive(Debug, Default)]
pub struct FileMachine {
    pub(super) entries: Entries,
    pub(super) books: FileBooks,
    pub(super) outbox: Outbox,
    pub(super) offers: Offers,
    /// One for each entry; only those of the first entry with a path are used.
    pub(super) directories: Vec<Directory>,
    /// Times at which a file is due, in nanoseconds.
    pub(super) due: BinaryHeap<Reverse<(u64, FileId)>>,
    /// Files to look at, and whether they are hashed.
    pub(super) asked: VecDeque<(FileId, bool)>,
    /// Acts that are not carried out yet; their paths are set when they are.
    pub(super) acts: VecDeque<Act>,
    /// Acts that have not found their content once: invocation and inode.
    pub(super) again: HashSet<(InvocationId, u64)>,
    /// Contents that could not be reached, by directory and inode: acts wait for the next scan.
    pub(super) unreached: HashSet<(u16, u64)>,
    /// Files whose content cannot be judged before fnd has answered about another file with the same inode.
    pub(super) later: HashMap<(u16, u64), Vec<FileId>>,
    /// Contents to do something with after the end of an invocation: entry, directory, and inode, size, time of change.
    pub(super) after: HashMap<InvocationId, Vec<(u16, FileStamp)>>,
    /// Number of acts of an invocation that are not answered.
    pub(super) settling: HashMap<InvocationId, usize>,
    /// The last failure of an action of each entry.
    pub(super) failures: Vec<Option<String>>,
    said: Vec<Option<String>>,
    scans: BTreeSet<u16>,
    /// After the end of a scan: until when the next one may begin.
    pub(super) scans_until: Duration,
    /// Since when the directory of each entry is watched, in nanoseconds since 1970. Absent before `Begin`.
    pub(super) since_ns: Option<Vec<i64>>,
    /// Where the directories lead.
    places: Option<u64>,
    /// The places that the function's processes see.
    shown: Option<u64>,
    waiting_said: u64,
    waiting_due: Option<Duration>,
}

impl FileMachine {
    /// Returns the machine for these entries. Its first turn greets fnd.
    #[must_use]
    pub fn new(triggers: Vec<FileTrigger>) -> Self {
        let entries = Entries::new(triggers);
        let count = entries.len();
        let mut outbox = Outbox::default();
        outbox.say(FromWatcher::Hello(PROTOCOL));
        Self {
            entries,
            books: FileBooks::new(count),
            outbox,
            offers: Offers::new(),
            directories: (0..count).map(|_| Directory::default()).collect(),
            failures: vec![None; count],
            said: vec![None; count],
            ..Self::default()
        }
    }

    /// Returns the entries of `[[file]]` with their compiled patterns.
    #[must_use]
    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    /// Takes an event into the books.
    pub fn handle(&mut self, at: FileClock, event: FileEvent) {
        match event {
            FileEvent::Message(message) => self.message(at, message),
            FileEvent::Named(directory, path, named) => self.named(at, directory, &path, named),
            FileEvent::ScanBegan(directory, complete) => self.scan_began(directory, complete),
            FileEvent::Scanned(directory, path, facts) => self.scanned(at, directory, &path, facts),
            FileEvent::Unreadable(directory, path) => self.unreadable(directory, &path),
            FileEvent::ScanEnded(directory, device) => self.scan_ended(at, directory, device),
            FileEvent::Looked(id, look) => self.looked(at, id, look),
            FileEvent::Acted(act, acted) => self.acted(at, &act, acted),
            // The scan shows what the lost events said.
            FileEvent::Overflow => self.scans.extend(self.entries.directories().map(|(number, ..)| number)),
            FileEvent::Directory(number, state) => self.directory_changed(at, number, state),
            FileEvent::Places(places) => {
                // A process of the function may not see yet what is mounted now, so nothing is offered until fnd
                // answers `Shown`.
                self.places = Some(places);
                self.offers.doubt();
                self.outbox.say(FromWatcher::Places(places));
            }
        }
    }

    fn message(&mut self, at: FileClock, message: ToWatcher) {
        match message {
            ToWatcher::Known(known) => known.into_iter().for_each(|known| self.remember(at, &known)),
            ToWatcher::Begin(since_ms) => {
                let ns = |ms: u64| i64::try_from(ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
                self.since_ns = Some(since_ms.into_iter().map(ns).collect());
                for directory in &mut self.directories {
                    directory.first = true;
                }
            }
            ToWatcher::Accepted(accepted) => self.accepted(at, accepted.number, accepted.id),
            ToWatcher::Refused(number) => self.refused(at, number),
            ToWatcher::Ended(ended) => self.ended(&ended),
            ToWatcher::Shown(places) => self.shown = Some(places),
        }
    }

    /// Takes a content that an earlier watcher handled.
    fn remember(&mut self, at: FileClock, known: &KnownFile) {
        let SeenFile { directory, path, .. } = &known.file;
        let content = super::content::FileContent::of(&known.file);
        let entry = self.entries.take(*directory, &path.0);
        let Some(id) = self.books.add(*directory, &path.0, entry) else {
            return; // of an entry that is gone
        };
        let before = self.books.get(id).and_then(|record| record.known);
        let mut nameless = self.books.learn(id, content);
        // fnd may know two contents under this name: the one with the later change is the present one.
        if let Some(before) = before.filter(|before| before.facts.changed_ns > content.facts.changed_ns) {
            nameless = self.books.learn(id, before);
        }
        if let Some(nameless) = nameless {
            // A file was replaced, and the watcher ended before it said what became of the earlier content. The first scan
            // may find that under another name.
            self.wait_in(at, nameless, FileState::MovedAway, MOVE_WINDOW);
        }
        if let Some(after) = known.after {
            // The invocation was accepted for an earlier watcher. It has no end yet, so it counts in the window.
            self.offers.running.insert(after);
            // After an edit of the manifest no entry may take the file. Then the first entry of its directory says what
            // follows the run.
            if let Some(entry) = entry.or_else(|| self.entries.of(*directory).map(|(entry, _)| entry).next()) {
                let stamp = content.facts.stamp();
                self.after.entry(after).or_default().push((entry, stamp));
            }
        }
    }

    /// Does what is due now, at most a bounded number of actions.
    pub fn turn(&mut self, at: FileClock, actions: &mut Vec<WatchAction>) {
        // Before `Begin` fnd has not sent all that it remembers, so a handled file would count as new.
        if self.since_ns.is_some() {
            self.expire(at);
            self.scans_due(at);
        }
        if self.may_offer() {
            self.offer(at);
        }
        // An act that has become pointless adds a message, so the acts come before the messages are taken.
        let acts = self.acts_due();
        self.report_waiting(at);
        self.report_problems();
        actions.extend(self.outbox.drain().map(WatchAction::Say));
        actions.extend(std::mem::take(&mut self.scans).into_iter().map(WatchAction::Scan));
        while actions.len() < TURN_MAX {
            let Some((id, hash)) = self.asked.pop_front() else {
                break;
            };
            // An event after the request may have moved the file to a state that needs no look.
            if let Some(record) = self.books.get(id).filter(|record| record.state.is_looked_at()) {
                actions.push(WatchAction::Look(id, record.directory, Rc::clone(&record.path), hash));
            }
        }
        actions.extend(acts.into_iter().map(WatchAction::Act));
    }

    /// Returns when the next turn is due; in the past if it is due at once.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let is_due = !self.asked.is_empty() || self.is_act_due() || !self.scans.is_empty();
        if is_due || !self.outbox.is_empty() {
            return Some(Duration::ZERO);
        }
        let file = self.due.peek().map(|Reverse((time, _))| Duration::from_nanos(*time));
        let scan = self.directories.iter().filter_map(|directory| directory.next).min();
        let offer = if self.may_offer() { self.offer_due() } else { None };
        [file, scan, offer, self.waiting_due].into_iter().flatten().min()
    }

    /// Returns whether fnd takes offers: it has sent what it knows, and the function's processes see the same directories.
    fn may_offer(&self) -> bool {
        self.since_ns.is_some() && self.places == self.shown
    }

    /// Returns whether the time of a file is over. The edge reads the events until now before the next turn, because one of
    /// them may say where the file is.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        self.due.peek().is_some_and(|Reverse((time, _))| *time <= nanos(now))
    }

    /// Ends the times that are over.
    fn expire(&mut self, at: FileClock) {
        let now = nanos(at.now);
        for _ in 0..TURN_MAX {
            match self.due.peek() {
                Some(Reverse((time, _))) if *time <= now => {}
                _ => return,
            }
            let Some(Reverse((time, id))) = self.due.pop() else {
                return;
            };
            // The file was dropped. Its time stayed here, since a heap cannot remove an entry.
            let Some(record) = self.books.get_mut(id) else { continue };
            let (state, directory) = (record.state, record.directory);
            let Some(wait) = record.wait.as_mut().filter(|wait| wait.queued == time) else {
                continue; // an earlier time of the same file, or a file that had its number before
            };
            wait.queued = u64::MAX;
            if wait.until > now {
                let until = wait.until;
                self.queue(id, until);
                continue;
            }
            match state {
                FileState::Quiet => self.ask(id, FileState::Resting, false),
                // A scan, a look that is due, or one after an answer of fnd, may find it under another name.
                FileState::MovedAway | FileState::Removed
                    if self.is_scanned(at) || !self.asked.is_empty() || self.offers.changed > 0 =>
                {
                    self.queue(id, now.saturating_add(nanos(MOVE_WINDOW)));
                }
                // After a start the first scan may still find the content under another name.
                FileState::MovedAway if !self.is_first_scan_over(directory) => {
                    self.queue(id, now.saturating_add(nanos(POLL_INTERVAL)));
                }
                FileState::MovedAway | FileState::Removed => self.vanish(at, id),
                // The time is of an earlier state, which an event has ended.
                _ => {}
            }
        }
    }

    /// Puts a file into the queue of deadlines, unless it is there with an earlier time.
    pub(super) fn queue(&mut self, id: FileId, until: u64) {
        let Some(wait) = self.books.wait(id) else { return };
        wait.until = until;
        // A heap cannot change an entry. A later time is noted only, and queued when the earlier entry comes up.
        if until < wait.queued {
            wait.queued = until;
            self.due.push(Reverse((until, id)));
        }
    }

    /// Moves a file to a state that lasts for a time.
    pub(super) fn wait_in(&mut self, at: FileClock, id: FileId, state: FileState, time: Duration) {
        self.books.set(id, state);
        self.queue(id, nanos(at.now.saturating_add(time)));
    }

    /// Moves a file to a state that lasts until a look is answered.
    pub(super) fn ask(&mut self, id: FileId, state: FileState, hash: bool) {
        self.books.set(id, state);
        self.asked.push_back((id, hash));
    }

    /// Judges the files that waited for an answer about an inode.
    pub(super) fn judge_later(&mut self, directory: u16, inode: u64) {
        for id in self.later.remove(&(directory, inode)).unwrap_or_default() {
            if self.books.state(id) == Some(FileState::Quiet) {
                self.ask(id, FileState::Resting, false);
            }
        }
    }

    pub(super) fn scan(&mut self, directory: u16) {
        self.scans.insert(directory);
    }

    fn report_waiting(&mut self, at: FileClock) {
        if self.books.waiting == self.waiting_said {
            self.waiting_due = None;
            return;
        }
        let due = *self.waiting_due.get_or_insert(at.now.saturating_add(WAITING_INTERVAL));
        if due <= at.now {
            self.waiting_due = None;
            self.waiting_said = self.books.waiting;
            self.outbox.say(FromWatcher::Waiting(self.books.waiting));
        }
    }

    /// Reports the problem of each entry if it has changed.
    fn report_problems(&mut self) {
        for (number, _, _) in self.entries.directories() {
            let directory = self.directories.get(usize::from(number));
            let of_directory = directory.and_then(|directory| {
                let problem = directory.state.problem.as_ref();
                problem.or(directory.foreign.as_ref())
            });
            for (entry, _) in self.entries.of(number) {
                let failure = self.failures.get(usize::from(entry)).and_then(Option::as_ref);
                let problem = of_directory.or(failure);
                let Some(said) = self.said.get_mut(usize::from(entry)) else {
                    continue;
                };
                if said.as_ref() != problem {
                    *said = problem.cloned();
                    let problem = problem.cloned();
                    self.outbox.say(FromWatcher::Trouble(Trouble { entry, problem }));
                }
            }
        }
    }
}

/// Nanoseconds of the monotonic clock: 584 years.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
