//! Lists the files of directories in pieces, so that messages of fnd and events are read in between.

use super::disk::{facts, open_below, open_directory};
use super::watched::Watched;
use super::watches::Watches;
use fnd_core::triggers::file::machine::Event;
use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;
use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd as _, OwnedFd};

/// Names of one piece.
const PIECE: usize = 512;

/// The scans that are wanted, and the one that is under way.
#[derive(Default)]
pub(super) struct Scans {
    wanted: BTreeSet<u16>,
    parts: VecDeque<(u16, Vec<u8>)>,
    active: Option<Scan>,
}

struct Scan {
    directory: u16,
    is_complete: bool,
    /// Directories that are still to be listed.
    paths: Vec<Vec<u8>>,
    listing: Option<(Vec<u8>, OwnedFd, Dir)>,
    device: Option<u64>,
    failed: bool,
}

impl Scans {
    /// Lists all files of a directory.
    pub(super) fn all(&mut self, directory: u16) {
        self.wanted.insert(directory);
    }

    /// Lists the files of a new directory below a watched one.
    pub(super) fn part(&mut self, directory: u16, path: Vec<u8>) {
        match &mut self.active {
            Some(active) if active.directory == directory => active.paths.push(path),
            _ => self.parts.push_back((directory, path)),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.active.is_none() && self.wanted.is_empty() && self.parts.is_empty()
    }

    /// Lists a piece. Returns the error of a watch that cannot be set, with its directory.
    pub(super) fn step(
        &mut self,
        watched: &[Watched],
        watches: &mut Watches,
        events: &mut Vec<Event>,
    ) -> Option<(u16, Errno)> {
        if self.active.is_none() {
            self.active = self.next();
            if let Some(scan) = &self.active {
                events.push(Event::ScanBegan(scan.directory, scan.is_complete));
            }
        }
        let scan = self.active.as_mut()?;
        let Some(watched) = watched.iter().find(|watched| watched.number == scan.directory) else {
            self.active = None;
            return None;
        };
        let mut problem = None;
        if scan.listing.is_none() {
            match scan.paths.pop() {
                Some(path) => problem = scan.open(watched, path, watches, events),
                None => {
                    let device = scan.device.filter(|_| scan.is_complete && !scan.failed);
                    events.push(Event::ScanEnded(scan.directory, device));
                    self.active = None;
                    return None;
                }
            }
        }
        scan.list(watched.is_recursive, events);
        problem.map(|error| (watched.number, error))
    }

    fn next(&mut self) -> Option<Scan> {
        let (directory, path, is_complete) = match self.wanted.pop_first() {
            Some(directory) => (directory, Vec::new(), true),
            None => {
                let (directory, path) = self.parts.pop_front()?;
                (directory, path, false)
            }
        };
        Some(Scan {
            directory,
            is_complete,
            paths: vec![path],
            listing: None,
            device: None,
            failed: false,
        })
    }
}

impl Scan {
    /// Opens a directory, which is watched before it is listed: a file is in the list, or is reported, or both.
    fn open(
        &mut self,
        watched: &Watched,
        path: Vec<u8>,
        watches: &mut Watches,
        events: &mut Vec<Event>,
    ) -> Option<Errno> {
        let root = open_directory(&watched.path).ok();
        let Some((root, identity)) = root.filter(|(_, identity)| watched.identity == Some(*identity)) else {
            // It is examined when the kernel reports what happened to it.
            self.failed = true;
            return None;
        };
        self.device = Some(identity.0);
        let opened = match open_below(root.as_fd(), &path) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return None, // its files are gone with it
            Err(_) => {
                events.push(Event::Unreadable(self.directory, path));
                return None;
            }
        };
        let problem = watches.add(self.directory, &path, opened.as_fd()).err();
        match Dir::read_from(&opened) {
            Ok(listing) => self.listing = Some((path, opened, listing)),
            Err(_) => self.failed = true,
        }
        problem
    }

    fn list(&mut self, is_recursive: bool, events: &mut Vec<Event>) {
        for _ in 0..PIECE {
            let Some((above, directory, listing)) = &mut self.listing else {
                return;
            };
            let entry = match listing.read() {
                Some(Ok(entry)) => entry,
                Some(Err(_)) => {
                    self.failed = true;
                    self.listing = None;
                    return;
                }
                None => {
                    self.listing = None;
                    return;
                }
            };
            let name = entry.file_name().to_bytes();
            let path = || {
                if above.is_empty() {
                    name.to_vec()
                } else {
                    [above, name].join(b"/".as_slice())
                }
            };
            let mut kind = entry.file_type();
            if !matches!(kind, FileType::Directory | FileType::RegularFile | FileType::Unknown) {
                continue;
            }
            let stat = match kind {
                FileType::Directory => None,
                _ => statat(&*directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok(),
            };
            if let Some(stat) = &stat {
                kind = FileType::from_raw_mode(stat.st_mode);
            }
            if kind == FileType::Directory && is_recursive && !name.starts_with(b".") {
                self.paths.push(path());
            } else if let Some(facts) = stat.as_ref().and_then(facts) {
                events.push(Event::Scanned(self.directory, path(), facts));
            }
        }
    }
}
