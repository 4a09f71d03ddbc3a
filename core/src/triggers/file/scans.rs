//! Draws the conclusions from the list of a directory: files that nobody reported, and files that are gone.

use super::content::{FileContent, FileStat, Hash};
use super::looks::LookVerdict;
use super::machine::{DirectoryState, FileClock, FileMachine, MOVE_WINDOW, POLL_INTERVAL};
use super::record::FileState;
use fnd_manifest::function::file::FileChange;
use std::time::Duration;

impl FileMachine {
    pub(super) fn directory_changed(&mut self, at: FileClock, number: u16, state: DirectoryState) {
        let Some(directory) = self.directories.get_mut(usize::from(number)) else {
            return;
        };
        if !state.present {
            // Files that are there when the directory appears came later than the function.
            directory.first = false;
            directory.scanned = false;
            directory.foreign = None;
        }
        directory.state = state;
        self.plan_scan(at, number);
    }

    /// Sets the time of the next scan, counted from now.
    fn plan_scan(&mut self, at: FileClock, number: u16) {
        let every = self.entries.every(number);
        let Some(directory) = self.directories.get_mut(usize::from(number)) else {
            return;
        };
        let polled = (directory.state.polled || directory.unreached).then_some(POLL_INTERVAL);
        let every = every.filter(|_| directory.state.present);
        let interval = every.into_iter().chain(polled).min();
        directory.next = interval.map(|interval| at.now.saturating_add(interval));
    }

    /// Has the files looked at when the cause that hid one of them may be over.
    pub(super) fn scan_later(&mut self, at: FileClock, number: u16) {
        let directory = self.directories.get_mut(usize::from(number));
        if directory.is_some_and(|directory| !std::mem::replace(&mut directory.unreached, true)) {
            self.plan_scan(at, number);
        }
    }

    pub(super) fn scans_due(&mut self, at: FileClock) {
        for number in 0..self.directories.len() {
            let Some(directory) = self.directories.get_mut(number) else {
                continue;
            };
            if let (Some(due), Ok(number)) = (directory.next, u16::try_from(number))
                && due <= at.now
            {
                directory.unreached = false;
                self.scan(number);
                self.plan_scan(at, number);
            }
        }
    }

    /// Returns whether a complete scan of a directory is over, since the watcher began or the directory appeared.
    pub(super) fn is_first_scan_over(&self, directory: u16) -> bool {
        let directory = self.directories.get(usize::from(directory));
        directory.is_none_or(|directory| directory.scanned)
    }

    /// Returns whether a scan may still find files under other names. The scans are made one after the other, so one of
    /// this directory may wait for the end of another, and begins right after it.
    pub(super) fn is_scanned(&self, at: FileClock) -> bool {
        self.scans_until > at.now || self.directories.iter().any(|directory| directory.scanning > 0)
    }

    pub(super) fn scan_began(&mut self, number: u16, complete: bool) {
        let Some(directory) = self.directories.get_mut(usize::from(number)) else {
            return;
        };
        directory.scanning += 1;
        if complete {
            directory.complete = true;
            directory.mark = directory.mark.wrapping_add(1);
            directory.others.clear();
            directory.devices.clear();
        }
    }

    pub(super) fn scanned(&mut self, at: FileClock, number: u16, path: &[u8], facts: FileStat) {
        let Some(directory) = self.directories.get_mut(usize::from(number)) else {
            return;
        };
        directory.devices.insert(facts.device);
        let (mark, first) = (directory.mark, directory.first && directory.complete);
        let entry = self.entries.take(number, path);
        let holder = self.books.holder(number, facts.inode);
        let found = self.books.find(number, path);
        // Whether the content was moved here or is linked is known when all names are.
        if let Some(holder) = holder.filter(|holder| Some(*holder) != found) {
            directory.others.push((holder, path.to_vec()));
        }
        let id = match found {
            Some(id) => id,
            // A file that is offered may have a name by now that no entry takes, and is known after fnd's answer.
            None if holder.is_some() || entry.is_none() && !self.offers.holds(number, facts.inode) => return,
            None => match self.books.add(number, path, entry) {
                Some(id) => id,
                None => return,
            },
        };
        let Some(record) = self.books.get_mut(id) else { return };
        record.mark = mark;
        let known = record.known;
        match record.state {
            FileState::Idle => {}
            // The event of a deletion came before the file was there again.
            FileState::MovedAway | FileState::Removed | FileState::Vanishing | FileState::ReadyGone => {
                record.closed = false;
                let inode = known.map(|known| known.facts.inode);
                self.ask(id, FileState::Resting, false);
                if let Some(inode) = inode {
                    self.judge_later(number, inode);
                }
                return;
            }
            FileState::Offered | FileState::OfferedGone => {
                let looked = record.wait.as_ref().and_then(|wait| wait.looked);
                if record.state == FileState::OfferedGone || looked != Some(facts.looked()) {
                    self.changed_while_offered(id);
                }
                return;
            }
            // The file that is offered has this name by now, and fnd's answer comes before the quiet time is over.
            FileState::Quiet | FileState::Ready if self.offers.holds(number, facts.inode) => {
                return self.ask(id, FileState::Arriving, false);
            }
            // An event was there before, and its look comes.
            FileState::Arriving | FileState::Quiet | FileState::Resting | FileState::Ready | FileState::Checking => {
                return;
            }
        }
        // After a reboot the same file system may have another device number. The earlier number counts as present,
        // too, so that files with this number which were not found count as gone.
        if let (Some(known), Some(directory)) = (known, self.directories.get_mut(usize::from(number)))
            && known.facts.device != facts.device
            && known.facts.inode == facts.inode
        {
            directory.devices.insert(known.facts.device);
        }
        let existing = self.entries.get(entry).is_none_or(|trigger| trigger.existing);
        match self.verdict(at, id, (facts, Hash::NotAsked)) {
            LookVerdict::Handled => self.books.set(id, FileState::Idle),
            LookVerdict::AskHash | LookVerdict::Later => self.ask(id, FileState::Resting, false),
            LookVerdict::New(_) if entry.is_none() => self.ignore(at, id, facts.inode),
            // The file was there before the function, as `st_ctime` says. `st_mtime` would not tell: a program can set
            // it, and a file that was moved here keeps it.
            LookVerdict::New(FileChange::Created)
                if first && !existing && self.since(number) > Some(facts.changed_ns) =>
            {
                // The content is not hashed: all that was there would have to be read.
                self.learn(at, id, FileContent { facts, hash: None });
                self.say_seen(number, id);
                self.books.set(id, FileState::Idle);
            }
            LookVerdict::New(change) if self.rested(at, entry, &facts) == Duration::ZERO => {
                self.rests(at, id, change, (facts, Hash::NotAsked));
            }
            LookVerdict::New(_) => self.unrested(at, id, facts),
        }
    }

    /// Returns since when a directory is watched.
    fn since(&self, directory: u16) -> Option<i64> {
        self.since_ns.as_ref()?.get(usize::from(directory)).copied()
    }

    /// Returns the number of the complete scan of a directory that is under way, or of the last one.
    pub(super) fn mark_of(&self, directory: u16) -> u8 {
        let directory = self.directories.get(usize::from(directory));
        directory.map_or(0, |directory| directory.mark)
    }

    /// The files below a path count as found: nothing shows that they are gone.
    pub(super) fn unreadable(&mut self, number: u16, path: &[u8]) {
        let mark = self.mark_of(number);
        for id in self.books.below(number, path) {
            if let Some(record) = self.books.get_mut(id) {
                record.mark = mark;
            }
        }
    }

    pub(super) fn scan_ended(&mut self, at: FileClock, number: u16, device: Option<u64>) {
        self.scans_until = at.now.saturating_add(MOVE_WINDOW);
        let Some(directory) = self.directories.get_mut(usize::from(number)) else {
            return;
        };
        directory.scanning = directory.scanning.saturating_sub(1);
        let others = std::mem::take(&mut directory.others);
        if directory.scanning == 0 && directory.complete {
            directory.complete = false;
            directory.first = false;
            directory.scanned = true;
            self.unreached.retain(|(other, _)| *other != number);
        }
        let mark = directory.mark;
        for (holder, path) in others {
            // Only a complete scan has a device. After a scan of a part, a name that was not found may exist, so the
            // file does not count as moved away.
            if device.is_some()
                && let Some(record) = self.books.get_mut(holder)
                && record.mark != mark
                && record.known.is_some()
                && record.state == FileState::Idle
            {
                record.linked = false;
                self.wait_in(at, holder, FileState::MovedAway, MOVE_WINDOW);
            }
            self.other_name(number, &path);
        }
        let (Some(device), Some(directory)) = (device, self.directories.get_mut(usize::from(number))) else {
            return;
        };
        let mut devices = std::mem::take(&mut directory.devices);
        devices.insert(device);
        let (mut here, mut elsewhere) = (0_u64, 0_u64);
        for id in self.books.below(number, b"") {
            let Some(record) = self.books.get(id) else { continue };
            if record.state == FileState::Offered && record.mark != mark {
                self.changed_while_offered(id);
                continue;
            }
            let Some(known) = record.known else { continue };
            // A directory below may be another file system, which is not mounted now.
            if !devices.contains(&known.facts.device) {
                elsewhere += 1;
                continue;
            }
            here += 1;
            if record.mark != mark && record.state == FileState::Idle {
                // A directory is not read in one moment: a scan may find neither name of a file that is renamed
                // meanwhile. So a look decides.
                self.ask(id, FileState::Vanishing, false);
            }
        }
        let path = self
            .entries
            .directories()
            .find(|(other, ..)| *other == number)
            .map(|(_, path, _)| path);
        let foreign = path.filter(|_| here == 0 && elsewhere > 0).map(|path| {
            format!(
                "another file system is at `{path}` than before: if one is not mounted, mount it. The {elsewhere} files \
                 that were there are remembered"
            )
        });
        if let Some(directory) = self.directories.get_mut(usize::from(number)) {
            directory.foreign = foreign;
        }
    }

    /// Looks at another name of a known inode.
    fn other_name(&mut self, directory: u16, path: &[u8]) {
        let entry = self.entries.take(directory, path);
        if let Some(id) = self.books.add(directory, path, entry) {
            let state = self.books.state(id);
            // In the other states a look comes anyway.
            if matches!(state, Some(FileState::Idle | FileState::Quiet | FileState::Ready)) {
                self.ask(id, FileState::Arriving, false);
            }
        }
    }
}
