//! The files that are known or wait, by path and by inode; and those that are ready, by age.
//!
//! A known content has one name. Every look-up is by path, by inode or by age: nothing passes through all files, except
//! the end of a scan.

use super::content::FileContent;
use super::record::{FileId, FileRecord, FileState, Wait};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::rc::Rc;

/// The files of one entry that are on their way.
#[derive(Debug, Default)]
pub(super) struct FileQueue {
    /// Ready, the oldest first: time of change, path.
    pub(super) ready: BTreeSet<(i64, Rc<[u8]>, FileId)>,
    /// Number of files in their quiet time.
    pub(super) quiet: usize,
    /// When the first of `ready` came, in nanoseconds of the monotonic clock.
    pub(super) since: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct FileBooks {
    records: Vec<Option<FileRecord>>,
    free: Vec<FileId>,
    /// The files of each watched directory, by their path below it.
    paths: Vec<BTreeMap<Rc<[u8]>, FileId>>,
    /// Known contents by directory and inode.
    inodes: HashMap<(u16, u64), FileId>,
    /// The queue of each entry of `[[file]]`.
    pub(super) lines: Vec<FileQueue>,
    /// Number of files that are ready or offered.
    pub(super) waiting: u64,
}

impl FileBooks {
    pub(super) fn new(entries: usize) -> Self {
        Self {
            paths: (0..entries).map(|_| BTreeMap::new()).collect(),
            lines: (0..entries).map(|_| FileQueue::default()).collect(),
            ..Self::default()
        }
    }

    pub(super) fn get(&self, id: FileId) -> Option<&FileRecord> {
        self.records.get(usize::try_from(id).ok()?)?.as_ref()
    }

    pub(super) fn state(&self, id: FileId) -> Option<FileState> {
        self.get(id).map(|record| record.state)
    }

    pub(super) fn get_mut(&mut self, id: FileId) -> Option<&mut FileRecord> {
        self.records.get_mut(usize::try_from(id).ok()?)?.as_mut()
    }

    pub(super) fn find(&self, directory: u16, path: &[u8]) -> Option<FileId> {
        self.paths.get(usize::from(directory))?.get(path).copied()
    }

    /// Returns the file with the known content of an inode.
    pub(super) fn holder(&self, directory: u16, inode: u64) -> Option<FileId> {
        self.inodes.get(&(directory, inode)).copied()
    }

    /// Returns what the books have of that file.
    pub(super) fn of_inode(&self, directory: u16, inode: u64) -> Option<&FileRecord> {
        self.get(self.holder(directory, inode)?)
    }

    /// Returns the file with this path, which is added if it is new.
    pub(super) fn add(&mut self, directory: u16, path: &[u8], entry: Option<u16>) -> Option<FileId> {
        if let Some(id) = self.find(directory, path) {
            return Some(id);
        }
        self.paths.get(usize::from(directory))?;
        let path: Rc<[u8]> = path.into();
        let id = self.push(FileRecord::new(directory, Rc::clone(&path), entry))?;
        self.paths.get_mut(usize::from(directory))?.insert(path, id);
        Some(id)
    }

    fn push(&mut self, record: FileRecord) -> Option<FileId> {
        let id = match self.free.pop() {
            Some(id) => id,
            None => u32::try_from(self.records.len()).ok()?,
        };
        match self.records.get_mut(usize::try_from(id).ok()?) {
            Some(slot) => *slot = Some(record),
            None => self.records.push(Some(record)),
        }
        Some(id)
    }

    /// Moves a file to another state, and drops it from the books when nothing is known or due any more.
    pub(super) fn set(&mut self, id: FileId, state: FileState) {
        // The keys of the books contain the state of the record, so the record leaves them before its state changes.
        self.count(id, false);
        let Some(record) = self.get_mut(id) else { return };
        record.state = state;
        if state == FileState::Idle {
            record.wait = None;
            record.closed = false;
            record.changed = false;
            record.renewed = false;
            if record.known.is_none() {
                self.drop(id);
                return;
            }
        }
        self.count(id, true);
    }

    /// The age by which a ready file waits for its turn.
    fn age(record: &FileRecord) -> i64 {
        let looked = record.wait.as_ref().and_then(|wait| wait.looked);
        match (record.state, record.known, looked) {
            (FileState::ReadyGone, Some(known), _) => known.facts.modified_ns,
            (_, _, Some((_, modified))) => modified,
            (_, _, None) => i64::MIN,
        }
    }

    /// Counts a file in the books of its state, or takes it out of them.
    fn count(&mut self, id: FileId, is_there: bool) {
        let Some(record) = self.get(id) else { return };
        let (state, entry) = (record.state, record.entry);
        let key = (Self::age(record), Rc::clone(&record.path), id);
        let change: i8 = if is_there { 1 } else { -1 };
        if state.is_ready() || matches!(state, FileState::Offered | FileState::OfferedGone) {
            self.waiting = self.waiting.saturating_add_signed(change.into());
        }
        let Some(line) = entry.and_then(|entry| self.lines.get_mut(usize::from(entry))) else {
            return;
        };
        if state.is_quiet() {
            line.quiet = line.quiet.saturating_add_signed(change.into());
        }
        if state.is_ready() {
            match is_there {
                true => line.ready.insert(key),
                false => line.ready.remove(&key),
            };
            if line.ready.is_empty() {
                line.since = None;
            }
        }
    }

    fn drop(&mut self, id: FileId) {
        let slot = usize::try_from(id).ok().and_then(|at| self.records.get_mut(at));
        let Some(record) = slot.and_then(Option::take) else {
            return;
        };
        // A file without a name has the path of another file, which keeps its place.
        if let Some(paths) = self.paths.get_mut(usize::from(record.directory))
            && paths.get(&record.path) == Some(&id)
        {
            paths.remove(&record.path);
        }
        self.free.push(id);
    }

    /// Makes a content the known one of a file. The content that was known under this name before goes to a file without
    /// a name, which is returned: it may be found under another name.
    pub(super) fn learn(&mut self, id: FileId, content: FileContent) -> Option<FileId> {
        let directory = self.get(id)?.directory;
        let inode = content.facts.inode;
        if let Some(holder) = self.holder(directory, inode).filter(|holder| *holder != id) {
            self.lose(holder);
        }
        let before = self.get(id)?.known.filter(|known| known.facts.inode != inode);
        let nameless = before.and_then(|_| self.detach(id));
        self.inodes.insert((directory, inode), id);
        let record = self.get_mut(id)?;
        record.known = Some(content);
        record.linked |= content.facts.is_linked;
        nameless
    }

    /// Moves the known content of a file to a file without a name, which is returned.
    pub(super) fn detach(&mut self, id: FileId) -> Option<FileId> {
        let record = self.get_mut(id)?;
        let known = record.known.take()?;
        let linked = std::mem::take(&mut record.linked);
        let (directory, path) = (record.directory, Rc::clone(&record.path));
        let nameless = self.push(FileRecord {
            known: Some(known),
            linked,
            ..FileRecord::new(directory, path, None)
        })?;
        self.inodes.insert((directory, known.facts.inode), nameless);
        Some(nameless)
    }

    /// The content of a file has another name now.
    fn lose(&mut self, id: FileId) {
        let Some(record) = self.get_mut(id) else { return };
        if record.state == FileState::MovedAway {
            // The name keeps its window: a program that keeps the old file under another name writes it again at once.
            record.known = None;
            record.linked = false;
            record.renewed = true;
            return;
        }
        if record.state.is_gone() {
            // The key of a deletion that waits has the time of the content.
            self.set(id, FileState::Idle);
        }
        let Some(record) = self.get_mut(id) else { return };
        record.known = None;
        record.linked = false;
        if record.state == FileState::Idle {
            self.set(id, FileState::Idle);
        } else {
            record.renewed = true;
        }
    }

    /// Forgets the content of a file. Returns its inode.
    pub(super) fn forget(&mut self, id: FileId) -> Option<u64> {
        // The key of a deletion that waits has the time of the content, so it leaves `ready` before the content is
        // removed.
        if self.get(id)?.state == FileState::ReadyGone {
            self.set(id, FileState::Vanishing);
        }
        let record = self.get_mut(id)?;
        record.linked = false;
        let inode = record.known.take()?.facts.inode;
        let key = (record.directory, inode);
        if self.inodes.get(&key) == Some(&id) {
            self.inodes.remove(&key);
        }
        Some(inode)
    }

    /// Returns the files below a path of a directory; of the whole directory if the path is empty.
    pub(super) fn below(&self, directory: u16, path: &[u8]) -> Vec<FileId> {
        let Some(paths) = self.paths.get(usize::from(directory)) else {
            return Vec::new();
        };
        let mut start = path.to_vec();
        // With the slash, `a` does not find the files below `ab`.
        if !start.is_empty() {
            start.push(b'/');
        }
        paths
            .range::<[u8], _>((Bound::Included(start.as_slice()), Bound::Unbounded))
            .take_while(|(path, _)| path.starts_with(&start))
            .map(|(_, id)| *id)
            .collect()
    }

    /// Returns the times of a file, which are made if it has none.
    pub(super) fn wait(&mut self, id: FileId) -> Option<&mut Wait> {
        let record = self.get_mut(id)?;
        let new = || {
            Box::new(Wait {
                until: 0,
                queued: u64::MAX,
                looked: None,
            })
        };
        Some(record.wait.get_or_insert_with(new))
    }

    /// Keeps what a look has shown. The file must not be ready: its age would change.
    pub(super) fn looked(&mut self, id: FileId, looked: (u64, i64)) {
        debug_assert!(self.get(id).is_none_or(|record| !record.state.is_ready()));
        if let Some(wait) = self.wait(id) {
            wait.looked = Some(looked);
        }
    }
}
