//! Lists the files of directories in pieces, so that messages of fnd and events are read in between.

use super::disk::{facts, open_below, open_directory};
use super::found::{ScanFindings, is_lost_and_found};
use super::watched::WatchedDirectory;
use super::watches::Watches;
use fnd_core::triggers::file::machine::FileEvent;
use fnd_core::triggers::file::message::PATH_MAX;
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
            // The scan that is under way can take the new directory with it.
            Some(active) if active.directory == directory => active.paths.push(path),
            _ => self.parts.push_back((directory, path)),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.active.is_none() && self.wanted.is_empty() && self.parts.is_empty()
    }

    /// Lists a piece. Returns what hinders in its directory.
    pub(super) fn step(
        &mut self,
        watched: &[WatchedDirectory],
        watches: &mut Watches,
        events: &mut Vec<FileEvent>,
    ) -> Option<(u16, ScanFindings)> {
        if self.active.is_none() {
            self.active = self.next();
            if let Some(scan) = &self.active {
                events.push(FileEvent::ScanBegan(scan.directory, scan.is_complete));
            }
        }
        let scan = self.active.as_mut()?;
        let Some(watched) = watched.iter().find(|watched| watched.number == scan.directory) else {
            self.active = None;
            return None;
        };
        let mut found = ScanFindings::default();
        if scan.listing.is_none() {
            match scan.paths.pop() {
                Some(path) => found = scan.open(watched, path, watches, events),
                None => {
                    let device = scan.device.filter(|_| scan.is_complete && !scan.failed);
                    events.push(FileEvent::ScanEnded(scan.directory, device));
                    self.active = None;
                    return None;
                }
            }
        }
        scan.list(watched.is_recursive, events, &mut found);
        Some((watched.number, found))
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
    /// Returns what hinders.
    fn open(
        &mut self,
        watched: &WatchedDirectory,
        path: Vec<u8>,
        watches: &mut Watches,
        events: &mut Vec<FileEvent>,
    ) -> ScanFindings {
        let mut found = ScanFindings::default();
        let (root, identity) = match open_directory(&watched.path) {
            Ok(opened) if watched.identity == Some(opened.1) => opened,
            other => {
                // The kernel does not report that its mode has changed.
                found.is_lost = true;
                found.unreadable = other.err().map(|error| (Vec::new(), error));
                self.failed = true;
                return found;
            }
        };
        self.device = Some(identity.0);
        let opened = match open_below(root.as_fd(), &path) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return found, // its files are gone with it
            Err(error) => {
                let is_usual = is_lost_and_found(root.as_fd(), &path);
                found.unreadable = (!is_usual).then(|| (path.clone(), error));
                events.push(FileEvent::Unreadable(self.directory, path));
                return found;
            }
        };
        found.blind = watches.add(self.directory, &path, opened.as_fd()).err();
        match Dir::read_from(&opened) {
            Ok(listing) => self.listing = Some((path, opened, listing)),
            Err(error) => self.unreadable(path, error, events, &mut found),
        }
        found
    }

    /// Ends the list of a directory whose files cannot be seen.
    fn unreadable(&mut self, path: Vec<u8>, error: Errno, events: &mut Vec<FileEvent>, found: &mut ScanFindings) {
        self.failed = true;
        self.listing = None;
        events.push(FileEvent::Unreadable(self.directory, path.clone()));
        found.unreadable.get_or_insert((path, error));
    }

    fn list(&mut self, is_recursive: bool, events: &mut Vec<FileEvent>, found: &mut ScanFindings) {
        for _ in 0..PIECE {
            let Some((above, directory, listing)) = &mut self.listing else {
                return;
            };
            let entry = match listing.read() {
                Some(Ok(entry)) => entry,
                Some(Err(error)) => {
                    let above = above.clone();
                    return self.unreadable(above, error, events, found);
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
                _ => match statat(&*directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => Some(stat),
                    // It may be listed, but not passed.
                    Err(error @ (Errno::ACCESS | Errno::PERM)) => {
                        let above = above.clone();
                        return self.unreadable(above, error, events, found);
                    }
                    // The file has gone. The directory is watched before it is listed, so its end is reported.
                    Err(_) => None,
                },
            };
            if let Some(stat) = &stat {
                kind = FileType::from_raw_mode(stat.st_mode);
            }
            let is_entered = kind == FileType::Directory && is_recursive && !name.starts_with(b".");
            let facts = stat.as_ref().and_then(facts);
            if (is_entered || facts.is_some()) && above.len() + 1 + name.len() > PATH_MAX {
                found.long.get_or_insert_with(path);
            } else if is_entered {
                self.paths.push(path());
            } else if let Some(facts) = facts {
                events.push(FileEvent::Scanned(self.directory, path(), facts));
            }
        }
    }
}
