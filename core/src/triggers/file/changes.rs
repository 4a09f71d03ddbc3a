//! Events about paths: they start a quiet time, or end the way of a name.

use super::machine::{FileClock, FileMachine, MOVE_WINDOW, NamedFile};
use super::record::{FileId, FileState};
use fnd_manifest::function::file::FileChange;
use std::rc::Rc;

impl FileMachine {
    pub(super) fn named(&mut self, at: FileClock, directory: u16, path: &[u8], named: NamedFile) {
        match named {
            NamedFile::DirectoryMoved => {
                // The kernel reports a moved directory once, and not the files in it.
                for id in self.books.below(directory, path) {
                    self.name_gone(at, id, FileState::MovedAway);
                }
            }
            NamedFile::MovedAway => self.gone(at, directory, path, FileState::MovedAway),
            NamedFile::Removed => self.gone(at, directory, path, FileState::Removed),
            NamedFile::Created | NamedFile::Written | NamedFile::Closed | NamedFile::MovedHere => {
                let entry = self.entries.take(directory, path);
                // A known file may be moved or linked to a name that no entry takes, and come back.
                if entry.is_some() || matches!(named, NamedFile::MovedHere | NamedFile::Created) {
                    // A scan that is under way may have passed this name already, and must not take its file for one
                    // that is gone.
                    let mark = self.mark_of(directory);
                    if let Some(id) = self.books.add(directory, path, entry) {
                        if let Some(record) = self.books.get_mut(id) {
                            record.mark = mark;
                        }
                        self.touched(at, id, named);
                    }
                }
            }
        }
    }

    /// A file was written, closed, or is new under its name.
    fn touched(&mut self, at: FileClock, id: FileId, named: NamedFile) {
        let Some(record) = self.books.get_mut(id) else { return };
        if let (FileState::ReadyGone, Some(known)) = (record.state, record.known) {
            // The name is there again: it counts as modified.
            let (directory, inode) = (record.directory, known.facts.inode);
            self.judge_later(directory, inode);
        }
        // The known content has left this name for good, and is not mixed up with the one that has it now.
        let is_renewed = self.books.state(id) == Some(FileState::MovedAway)
            && matches!(named, NamedFile::Created | NamedFile::MovedHere)
            && self.loses_content(at, id);
        let Some(record) = self.books.get_mut(id) else { return };
        record.renewed |= is_renewed;
        let closed = matches!(named, NamedFile::Closed | NamedFile::MovedHere);
        let time = self.entries.quiet_time(record.entry, closed);
        record.closed = closed;
        match record.state {
            FileState::Offered | FileState::OfferedGone => self.changed_while_offered(id),
            // A look decides whether the content came from another name: then it is handled already.
            _ if matches!(named, NamedFile::MovedHere | NamedFile::Created) => {
                self.ask(id, FileState::Arriving, false);
            }
            state => {
                // Only looks after the last write show that it rests.
                if let Some(wait) = record.wait.as_mut().filter(|_| !closed && !state.is_ready()) {
                    wait.looked = None;
                }
                match state {
                    // The look is still to come, and may find a content that is known under a name that is gone. The quiet
                    // time begins after it.
                    FileState::Arriving | FileState::Resting | FileState::Checking => {
                        self.books.set(id, FileState::Arriving);
                    }
                    _ => self.wait_in(at, id, FileState::Quiet, time),
                }
            }
        }
    }

    /// A look after fnd's answer shows what became of it.
    pub(super) fn changed_while_offered(&mut self, id: FileId) {
        if let Some(record) = self.books.get_mut(id)
            && !std::mem::replace(&mut record.changed, true)
        {
            self.offers.changed += 1;
        }
    }

    fn gone(&mut self, at: FileClock, directory: u16, path: &[u8], state: FileState) {
        if let Some(id) = self.books.find(directory, path) {
            self.name_gone(at, id, state);
        }
    }

    /// A name has no file any more.
    fn name_gone(&mut self, at: FileClock, id: FileId, state: FileState) {
        let Some(record) = self.books.get_mut(id) else { return };
        match record.state {
            FileState::Offered => self.changed_while_offered(id),
            // The deletion is on its way to fnd already.
            FileState::ReadyGone | FileState::OfferedGone => {}
            _ if record.known.is_some() => self.wait_in(at, id, state, MOVE_WINDOW),
            // It is not known, and so nothing is lost.
            _ => self.books.set(id, FileState::Idle),
        }
    }

    /// A known file is gone.
    pub(super) fn vanish(&mut self, at: FileClock, id: FileId) {
        let Some(record) = self.books.get_mut(id) else { return };
        let (directory, entry) = (record.directory, record.entry);
        let path = Rc::clone(&record.path);
        if record.known.is_some() && record.linked {
            // The content may still have its other name: a complete scan decides.
            record.linked = false;
            let is_nameless = self.books.find(directory, &path) != Some(id);
            if is_nameless {
                self.wait_in(at, id, FileState::MovedAway, MOVE_WINDOW);
            } else {
                self.books.set(id, FileState::Idle);
            }
            self.scan(directory);
        } else if record.known.is_some() && self.entries.wants(entry, FileChange::Deleted) {
            self.books.set(id, FileState::ReadyGone);
        } else {
            // The file system may give the inode to the next file, whose content must not be compared with that of this
            // one.
            if let Some(inode) = self.books.forget(id) {
                self.outbox.gone(directory, inode);
            }
            self.books.set(id, FileState::Idle);
        }
    }
}
