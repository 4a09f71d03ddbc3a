//! Moves and deletes files after their invocation. An act is only for the content that the invocation had: a file that
//! changed since then is a new content, and stays.

use super::content::FileContent;
use super::content::FileStamp;
use super::machine::{Act, Acted, FileClock, FileMachine, MOVE_WINDOW, TURN_MAX};
use super::message::{FileRunEnded, FromWatcher, RunContent};
use super::record::FileState;
use fnd_manifest::function::file::FileAction;
use std::path::Path;
use std::rc::Rc;

impl FileMachine {
    pub(super) fn ended(&mut self, ended: &FileRunEnded) {
        let invocation = ended.id;
        let was_known = self.offers.running.contains(&invocation);
        self.resume(invocation);
        // fnd may say an end twice: once from the ledger, and once when it records the end. While the acts of the first
        // time are not over, nothing is settled: fnd would forget them, and a kill would lose them.
        if self.settling.contains_key(&invocation) {
            return;
        }
        let contents = match self.after.remove(&invocation) {
            Some(contents) => contents,
            // No file of the run waits for an act, so fnd waits for no `Settled`.
            None if was_known => return,
            // Of a run that repeats another, or of an earlier watcher, whose files are all gone.
            None => self.contents_of(ended),
        };
        let mut count = 0;
        for (entry, content) in contents {
            let Some(trigger) = self.entries.get(Some(entry)) else {
                continue;
            };
            let action = if ended.success { &trigger.then } else { &trigger.failed };
            let directory = self.entries.directory(entry);
            let Some(record) = self.books.of_inode(directory, content.0) else {
                continue;
            };
            if *action == FileAction::Keep || !is_still(record.known, content) {
                continue;
            }
            count += 1;
            self.acts.push_back(Act {
                after: invocation,
                entry,
                directory,
                path: Rc::clone(&record.path),
                content,
                action: action.clone(),
            });
        }
        if count == 0 {
            self.outbox.say(FromWatcher::Settled(invocation));
        } else {
            self.settling.insert(invocation, count);
        }
    }

    /// Returns the contents that fnd has of a run, each with the entry that takes its file now.
    fn contents_of(&self, ended: &FileRunEnded) -> Vec<(u16, FileStamp)> {
        let content = |content: &RunContent| {
            let entry = self.books.of_inode(content.directory, content.inode)?.entry?;
            Some((entry, (content.inode, content.size, content.modified_ns)))
        };
        ended.contents.iter().filter_map(content).collect()
    }

    /// Returns whether an act can be carried out.
    fn may_act(&self, act: &Act) -> bool {
        let directory = self.directories.get(usize::from(act.directory));
        let is_there = directory.is_some_and(|directory| directory.state.present && directory.scanned);
        if !is_there || self.unreached.contains(&(act.directory, act.content.0)) {
            return false;
        }
        let record = self.books.of_inode(act.directory, act.content.0);
        match record.map(|record| record.state) {
            Some(FileState::Arriving | FileState::MovedAway | FileState::Removed | FileState::Vanishing) => false,
            // The look that follows a first attempt is not answered yet.
            Some(FileState::Quiet | FileState::Resting | FileState::Checking) => {
                !self.again.contains(&(act.after, act.content.0))
            }
            _ => true,
        }
    }

    pub(super) fn is_act_due(&self) -> bool {
        self.acts.iter().any(|act| self.may_act(act))
    }

    /// Returns the acts that are due, with the present paths.
    pub(super) fn acts_due(&mut self) -> Vec<Act> {
        let mut due = Vec::new();
        for mut act in std::mem::take(&mut self.acts) {
            if due.len() >= TURN_MAX || !self.may_act(&act) {
                self.acts.push_back(act);
                continue;
            }
            match self.books.of_inode(act.directory, act.content.0) {
                Some(record) if is_still(record.known, act.content) => {
                    act.path = Rc::clone(&record.path);
                    due.push(act);
                }
                _ => self.act_over(&act),
            }
        }
        due
    }

    /// Has a content that an act did not find looked at once more: its events may still be on their way. Returns whether
    /// the act waits for that.
    fn look_again(&mut self, at: FileClock, act: &Act) -> bool {
        let holder = self.books.holder(act.directory, act.content.0);
        let Some((id, record)) = holder.and_then(|id| Some((id, self.books.get(id)?))) else {
            return false;
        };
        let state = record.state;
        if !is_still(record.known, act.content) || !self.again.insert((act.after, act.content.0)) {
            return false;
        }
        if state == FileState::Idle {
            self.wait_in(at, id, FileState::Quiet, MOVE_WINDOW);
        }
        self.acts.push_back(act.clone());
        true
    }

    /// A look could not reach a file: acts on its content wait for the next scan.
    pub(super) fn unreached(&mut self, directory: u16, content: FileContent) {
        let inode = content.facts.inode;
        let mut is_waited_for = false;
        for act in &self.acts {
            if (act.directory, act.content.0) == (directory, inode) {
                self.again.remove(&(act.after, inode));
                is_waited_for = true;
            }
        }
        if is_waited_for {
            self.unreached.insert((directory, inode));
        }
    }

    pub(super) fn acted(&mut self, at: FileClock, act: &Act, acted: Acted) {
        let failure = self.failures.get_mut(usize::from(act.entry));
        match acted {
            Acted::Deleted(is_linked) => {
                failure.map(Option::take);
                self.act_done(at, act, is_linked);
            }
            Acted::Moved(to, facts) => {
                failure.map(Option::take);
                let known = self.act_done(at, act, facts.is_some_and(|facts| facts.is_linked));
                if let (Some(facts), Some(known)) = (facts, known) {
                    self.moved_into(at, &to, FileContent { facts, ..known });
                }
            }
            Acted::Changed => {
                if self.look_again(at, act) {
                    return;
                }
            }
            Acted::Failed(problem) => {
                if let Some(failure) = failure {
                    *failure = Some(problem);
                }
            }
        }
        self.act_over(act);
    }

    /// Nothing is left to be done for an act.
    fn act_over(&mut self, act: &Act) {
        self.again.remove(&(act.after, act.content.0));
        if let Some(count) = self.settling.get_mut(&act.after) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.settling.remove(&act.after);
                self.outbox.say(FromWatcher::Settled(act.after));
            }
        }
    }

    /// Forgets a file that an act deleted or moved: its events find nothing that could be deleted. Returns its content.
    fn act_done(&mut self, at: FileClock, act: &Act, is_linked: bool) -> Option<FileContent> {
        let id = self.books.holder(act.directory, act.content.0)?;
        let record = self.books.get_mut(id)?;
        let known = record.known.filter(|known| is_still(Some(*known), act.content))?;
        // The event of a new name may not be read yet.
        record.linked |= is_linked;
        let state = record.state;
        if record.linked {
            // Its content still has another name, under which it is handled too: a scan finds it.
            self.loses_content(at, id);
        } else {
            self.books.forget(id);
            self.outbox.gone(act.directory, act.content.0);
        }
        // A change that is on its way goes on: a look shows what has this name now.
        if state == FileState::Idle || state.is_gone() {
            self.books.set(id, FileState::Idle);
        }
        Some(known)
    }

    /// Remembers a file that an act moved into a watched directory: it must not run the function again.
    fn moved_into(&mut self, at: FileClock, to: &[u8], content: FileContent) {
        use std::os::unix::ffi::OsStrExt as _;
        let to = Path::new(std::ffi::OsStr::from_bytes(to));
        let numbers: Vec<_> = self
            .entries
            .directories()
            .filter_map(|(number, path, _)| Some((number, to.strip_prefix(path).ok()?.as_os_str().as_bytes())))
            .collect();
        for (number, path) in numbers {
            let entry = self.entries.take(number, path);
            if entry.is_none() {
                continue;
            }
            if let Some(id) = self.books.add(number, path, entry) {
                self.learn(at, id, content);
                self.say_seen(number, id);
                self.books.set(id, FileState::Idle);
            }
        }
    }
}

/// Returns whether a known content is the one that an invocation had.
fn is_still(known: Option<FileContent>, content: FileStamp) -> bool {
    known.is_some_and(|known| known.facts.stamp() == content)
}
