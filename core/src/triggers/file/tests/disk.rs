//! A directory in memory: files by name, and the events that the kernel would report. Inodes are used again, as most
//! file systems do.

use super::super::content::{FileStat, Hash};
use super::super::machine::{Acted, FileEvent, FileStamp, Look, NamedFile};
use std::collections::BTreeMap;

pub(super) const DEVICE: u64 = 1;

/// A content that was written: its number is its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inode {
    pub(super) facts: FileStat,
    pub(super) content: u64,
    pub(super) is_open: bool,
}

#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) names: BTreeMap<String, u64>,
    pub(super) inodes: BTreeMap<u64, Inode>,
    /// Events that were not read yet.
    pub(super) events: Vec<FileEvent>,
    pub(super) contents: u64,
    pub(super) wall_ns: i64,
}

impl Disk {
    fn report(&mut self, name: &str, named: NamedFile) {
        self.events.push(FileEvent::Named(0, name.as_bytes().to_vec(), named));
    }

    /// Times differ from each other, as those of a clock in nanoseconds do.
    fn time(&mut self) -> i64 {
        self.wall_ns += 1;
        self.wall_ns
    }

    fn links(&self, inode: u64) -> usize {
        self.names.values().filter(|other| **other == inode).count()
    }

    pub(super) fn has_links(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|inode| self.links(*inode) > 1)
    }

    fn free(&mut self, inode: u64) {
        if self.links(inode) == 0 {
            self.inodes.remove(&inode);
        }
    }

    /// Writes a file, and closes it unless `open`.
    pub(super) fn write(&mut self, name: &str, open: bool) {
        let time = self.time();
        let inode = if let Some(inode) = self.names.get(name) {
            *inode
        } else {
            let free = (1..).find(|inode| !self.inodes.contains_key(inode)).unwrap();
            self.names.insert(name.to_owned(), free);
            self.report(name, NamedFile::Created);
            free
        };
        self.contents += 1;
        let facts = FileStat {
            inode,
            device: DEVICE,
            size: 1 + self.contents % 2,
            modified_ns: time,
            changed_ns: time,
            is_linked: false,
        };
        let content = self.contents;
        self.inodes.insert(
            inode,
            Inode {
                facts,
                content,
                is_open: open,
            },
        );
        self.report(name, NamedFile::Written);
        if !open {
            self.report(name, NamedFile::Closed);
        }
    }

    pub(super) fn close(&mut self, name: &str) {
        let inode = self.names.get(name).and_then(|inode| self.inodes.get_mut(inode));
        if inode.is_some_and(|inode| std::mem::take(&mut inode.is_open)) {
            self.report(name, NamedFile::Closed);
        }
    }

    /// Changes owner or mode.
    pub(super) fn chmod(&mut self, name: &str) {
        let time = self.time();
        if let Some(inode) = self.names.get(name).and_then(|inode| self.inodes.get_mut(inode)) {
            inode.facts.changed_ns = time;
        }
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        if from == to || self.names.get(from) == self.names.get(to) {
            return;
        }
        if let Some(inode) = self.names.remove(from) {
            let time = self.time();
            self.inodes.get_mut(&inode).unwrap().facts.changed_ns = time;
            let replaced = self.names.insert(to.to_owned(), inode);
            self.report(from, NamedFile::MovedAway);
            self.report(to, NamedFile::MovedHere);
            if let Some(replaced) = replaced {
                self.free(replaced);
            }
        }
    }

    /// Writes a content under a name that no entry takes, and moves it over this one.
    pub(super) fn replace(&mut self, name: &str) {
        self.write(".new", false);
        self.rename(".new", name);
    }

    pub(super) fn link(&mut self, from: &str, to: &str) {
        if let (Some(inode), false) = (self.names.get(from).copied(), self.names.contains_key(to)) {
            let time = self.time();
            self.inodes.get_mut(&inode).unwrap().facts.changed_ns = time;
            self.names.insert(to.to_owned(), inode);
            self.report(to, NamedFile::Created);
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(inode) = self.names.remove(name) {
            self.free(inode);
            self.report(name, NamedFile::Removed);
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<Inode> {
        let number = self.names.get(name)?;
        let mut inode = *self.inodes.get(number)?;
        inode.facts.is_linked = self.links(*number) > 1;
        Some(inode)
    }

    pub(super) fn look(&self, name: &str, hash: bool) -> Look {
        match self.get(name) {
            None => Look::Absent(DEVICE),
            Some(inode) if hash => Look::File(inode.facts, Hash::Is(inode.content)),
            Some(inode) => Look::File(inode.facts, Hash::NotAsked),
        }
    }

    /// Deletes a file if it has this content.
    pub(super) fn act(&mut self, name: &str, stamp: FileStamp) -> Acted {
        let facts = self.get(name).map(|inode| inode.facts);
        match facts.filter(|facts| (facts.inode, facts.size, facts.modified_ns) == stamp) {
            Some(facts) => {
                self.remove(name);
                Acted::Deleted(facts.is_linked)
            }
            None => Acted::Changed,
        }
    }

    /// Returns the events of a scan.
    pub(super) fn scan(&self) -> Vec<FileEvent> {
        let mut events = vec![FileEvent::ScanBegan(0, true)];
        for name in self.names.keys() {
            let facts = self.get(name).unwrap().facts;
            events.push(FileEvent::Scanned(0, name.as_bytes().to_vec(), facts));
        }
        events.push(FileEvent::ScanEnded(0, Some(DEVICE)));
        events
    }
}
