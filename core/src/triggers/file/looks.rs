//! Draws the conclusions from a look at a file.

use super::content::{Compared, FileContent, FileStat, Hash};
use super::machine::{FileClock, FileMachine, Look, MOVE_WINDOW};
use super::record::{FileId, FileState};
use fnd_manifest::function::file::FileChange;
use std::time::Duration;

/// The verdict on a content after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookVerdict {
    /// It is handled already; the books have its present name and facts.
    Handled,
    /// Only the hash can decide.
    AskHash,
    /// The content is new, by this kind of change.
    New(FileChange),
    /// Its inode is about to be known, or forgotten: fnd's answer decides.
    Later,
}

impl FileMachine {
    pub(super) fn looked(&mut self, at: FileClock, id: FileId, look: Look) {
        let Some(record) = self.books.get(id) else { return };
        let (state, known, directory) = (record.state, record.known, record.directory);
        // Else an event came in between, and the next look decides.
        if !state.is_looked_at() {
            return;
        }
        match look {
            Look::File(facts, hash) => self.judge(at, id, state, (facts, hash)),
            // A name or a right has changed, and not the content: another look finds whether it is known.
            Look::Changing(facts) if self.has_times_of_known(directory, &facts) => self.ask(id, state, true),
            Look::Changing(facts) => {
                self.books.set(id, FileState::Resting);
                self.unrested(at, id, facts);
            }
            // It may have been renamed while the directory was read, of which the events come next.
            Look::Absent(_) if state == FileState::Vanishing => {
                self.wait_in(at, id, FileState::Removed, MOVE_WINDOW);
            }
            Look::Absent(device) => match known {
                // It may be on its way to another name, of which the event comes next.
                Some(known) if known.facts.device == device => self.wait_in(at, id, FileState::Removed, MOVE_WINDOW),
                // Not known, or of a file system that is not mounted now.
                _ => {
                    known.into_iter().for_each(|known| self.unreached(directory, known));
                    self.books.set(id, FileState::Idle);
                }
            },
            // A scan finds what is there when the directory can be reached again.
            Look::Unreachable => {
                known.into_iter().for_each(|known| self.unreached(directory, known));
                self.books.set(id, FileState::Idle);
                self.scan_later(at, directory);
            }
        }
    }

    /// Returns whether the known content of an inode has the size and the time of these facts.
    fn has_times_of_known(&self, directory: u16, facts: &FileStat) -> bool {
        let record = self.books.of_inode(directory, facts.inode);
        let known = record.and_then(|record| record.known);
        known.is_some_and(|known| known.facts.looked() == facts.looked())
    }

    /// Decides what a file is, whose facts are known now.
    fn judge(&mut self, at: FileClock, id: FileId, state: FileState, (facts, hash): (FileStat, Hash)) {
        let verdict = self.verdict(at, id, (facts, hash));
        let Some(record) = self.books.get(id) else { return };
        let (entry, closed) = (record.entry, record.closed);
        let looked = record.wait.as_ref().and_then(|wait| wait.looked);
        let same = looked == Some(facts.looked());
        match verdict {
            LookVerdict::Handled => self.books.set(id, FileState::Idle),
            LookVerdict::AskHash => self.ask(id, state, true),
            LookVerdict::Later => {
                let place = (record.directory, facts.inode);
                self.judge_after(id, place);
            }
            LookVerdict::New(_) if entry.is_none() => self.ignore(at, id, facts.inode),
            LookVerdict::New(_) if state == FileState::Arriving => {
                let time = self.entries.quiet_time(entry, closed);
                self.wait_in(at, id, FileState::Quiet, time);
            }
            LookVerdict::New(change) => {
                let rests = match state {
                    // It was at rest when it became ready.
                    FileState::Checking => same || self.rested(at, entry, &facts).is_zero(),
                    _ => closed || same || self.rested(at, entry, &facts).is_zero(),
                };
                if !rests {
                    self.unrested(at, id, facts);
                } else if state == FileState::Checking && self.entries.wants(entry, change) {
                    let place = (record.directory, facts.inode);
                    if self.free_inode(at, id, place) {
                        let hash = hash.known();
                        self.books.set(id, FileState::Offered);
                        self.offers.add(place.0, id, (change, FileContent { facts, hash }));
                    } else {
                        self.judge_after(id, place);
                    }
                } else {
                    self.rests(at, id, change, (facts, hash));
                }
            }
        }
    }

    /// Has a file judged when fnd has answered about another one with the same inode.
    fn judge_after(&mut self, id: FileId, place: (u16, u64)) {
        self.books.set(id, FileState::Quiet);
        self.later.entry(place).or_default().push(id);
    }

    /// Has fnd forget the earlier content of an inode, which another file had. It must do so before it stores the content
    /// that is offered now: afterwards the message would delete that one. Returns whether the inode is free.
    fn free_inode(&mut self, at: FileClock, id: FileId, (directory, inode): (u16, u64)) -> bool {
        let Some(holder) = self.books.holder(directory, inode).filter(|holder| *holder != id) else {
            return true;
        };
        let Some(record) = self.books.get_mut(holder) else {
            return true;
        };
        // Its other names have the new content too.
        record.linked = false;
        let state = record.state;
        if matches!(state, FileState::MovedAway | FileState::Removed) {
            // Its deletion may count.
            self.vanish(at, holder);
            return self.books.holder(directory, inode).is_none();
        }
        record.renewed = true;
        self.books.forget(holder);
        self.outbox.gone(directory, inode);
        if state == FileState::Idle {
            self.books.set(holder, FileState::Idle);
        }
        true
    }

    /// No entry takes the name. A known content that had it may have lost it.
    pub(super) fn ignore(&mut self, at: FileClock, id: FileId, inode: u64) {
        let known = self.books.get(id).and_then(|record| record.known);
        if known.is_some_and(|known| known.facts.inode != inode) {
            self.loses_content(at, id);
        }
        self.books.set(id, FileState::Idle);
    }

    /// A new content is at rest.
    pub(super) fn rests(&mut self, at: FileClock, id: FileId, change: FileChange, (facts, hash): (FileStat, Hash)) {
        let Some(record) = self.books.get(id) else { return };
        let (directory, entry) = (record.directory, record.entry);
        if self.entries.wants(entry, change) {
            // A ready file is sorted by the time of its last look, so the look is noted before the file becomes ready.
            self.books.set(id, FileState::Resting);
            self.books.looked(id, facts.looked());
            self.books.set(id, FileState::Ready);
        } else if hash == Hash::NotAsked {
            self.ask(id, FileState::Resting, true);
        } else {
            let hash = hash.known();
            self.learn(at, id, FileContent { facts, hash });
            self.say_seen(directory, id);
            self.books.set(id, FileState::Idle);
        }
    }

    /// A new content is not at rest yet.
    pub(super) fn unrested(&mut self, at: FileClock, id: FileId, facts: FileStat) {
        let Some(record) = self.books.get_mut(id) else { return };
        record.closed = false;
        let entry = record.entry;
        let rest = self.rested(at, entry, &facts);
        let settle = self.entries.quiet_time(entry, false);
        self.wait_in(at, id, FileState::Quiet, if rest.is_zero() { settle } else { rest });
        self.books.looked(id, facts.looked());
    }

    /// Returns how long a file must still rest by the wall clock, at most `settle`.
    pub(super) fn rested(&self, at: FileClock, entry: Option<u16>, facts: &FileStat) -> Duration {
        let newest = facts.modified_ns.max(facts.changed_ns);
        // A time in the future says nothing: the file must rest as long as any.
        let age = u64::try_from(at.wall_ns.saturating_sub(newest)).unwrap_or(0);
        let settle = self.entries.quiet_time(entry, false);
        settle.saturating_sub(Duration::from_nanos(age))
    }

    /// Compares a content with those that are known, and keeps the books in step with names and facts.
    pub(super) fn verdict(&mut self, at: FileClock, id: FileId, (facts, hash): (FileStat, Hash)) -> LookVerdict {
        let Some(record) = self.books.get(id) else {
            return LookVerdict::Handled;
        };
        let directory = record.directory;
        let named = record.known.is_some() || record.renewed;
        let new = LookVerdict::New(if named {
            FileChange::Modified
        } else {
            FileChange::Created
        });
        if self.offers.holds(directory, facts.inode) {
            return LookVerdict::Later;
        }
        let Some(holder) = self.books.holder(directory, facts.inode) else {
            return new;
        };
        let Some(other) = self.books.get(holder) else {
            return new;
        };
        let (Some(known), state) = (other.known, other.state) else {
            return new;
        };
        let is_named = self.books.find(directory, &other.path) == Some(holder);
        match known.compare(&facts, hash) {
            Compared::AskHash => LookVerdict::AskHash,
            Compared::Same if holder == id => {
                self.refresh(id, known, facts);
                LookVerdict::Handled
            }
            Compared::Same if state == FileState::OfferedGone => LookVerdict::Later,
            Compared::Same if state.is_gone() => {
                // The file was moved: its content has another name.
                self.learn(at, id, FileContent { facts, ..known });
                self.say_seen(directory, id);
                LookVerdict::Handled
            }
            Compared::Same => {
                // Two names at the same time: a hard link, or a move of which only the second half is known yet.
                if let Some(other) = self.books.get_mut(holder) {
                    other.linked = true;
                }
                self.refresh(holder, known, facts);
                // The content that had this name before has lost it.
                self.loses_content(at, id);
                LookVerdict::Handled
            }
            Compared::Different if holder == id => new,
            // The inode is used again. fnd must forget the deleted file first.
            Compared::Different if matches!(state, FileState::ReadyGone | FileState::OfferedGone) => LookVerdict::Later,
            Compared::Different if state == FileState::Removed => {
                self.vanish(at, holder);
                self.verdict(at, id, (facts, hash))
            }
            // A file that was written under another name of its own, or moved and then written.
            Compared::Different if other.linked || state == FileState::MovedAway && is_named => {
                LookVerdict::New(FileChange::Modified)
            }
            Compared::Different => new,
        }
    }

    /// Keeps new facts of a known content.
    fn refresh(&mut self, id: FileId, known: FileContent, facts: FileStat) {
        if known.facts != facts
            && let Some(record) = self.books.get_mut(id)
        {
            record.known = Some(FileContent { facts, ..known });
            record.linked |= facts.is_linked;
            let directory = record.directory;
            self.say_seen(directory, id);
        }
    }

    /// The known content of a file has left this name: it may be found under another name. Returns whether there was one.
    pub(super) fn loses_content(&mut self, at: FileClock, id: FileId) -> bool {
        let nameless = self.books.detach(id);
        if let Some(nameless) = nameless {
            self.wait_in(at, nameless, FileState::MovedAway, MOVE_WINDOW);
        }
        nameless.is_some()
    }

    /// Makes a content the known one of a file. The one that it replaces is forgotten unless it is found under another name.
    pub(super) fn learn(&mut self, at: FileClock, id: FileId, content: FileContent) {
        if let Some(nameless) = self.books.learn(id, content) {
            self.wait_in(at, nameless, FileState::MovedAway, MOVE_WINDOW);
        }
    }

    /// Has fnd remember the known content of a file.
    pub(super) fn say_seen(&mut self, directory: u16, id: FileId) {
        if let Some(record) = self.books.get(id)
            && let Some(known) = record.known
        {
            let file = known.file(directory, &record.path);
            self.outbox.seen(file);
        }
    }
}
