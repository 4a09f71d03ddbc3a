//! Whether the files of the open database are still those that have its names: somebody may delete, replace or truncate them
//! while fnd runs, and what is written then is in no file that the next start finds.

use super::FILE;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, open, openat, statat};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Page size of a ledger.
const PAGE: u64 = 4096;

/// The files as they were when the database was opened.
#[derive(Debug)]
pub(super) struct Present {
    state: PathBuf,
    database: OwnedFd,
    /// The log of changes, and its index.
    beside: Vec<(String, OwnedFd)>,
    /// Bytes of the log after the last write; only a writer makes it shorter.
    log: AtomicU64,
    /// The database has a header; its first one is in the log until that is copied.
    begun: AtomicBool,
}

impl Present {
    /// Looks at the files of a database that has just been opened and read.
    ///
    /// The database itself stays open for reading until the connections are closed: closing it earlier would take their locks
    /// (fcntl(2), "Advisory record locking").
    ///
    /// # Errors
    /// From opening.
    pub(super) fn of(state: &Path) -> rustix::io::Result<Self> {
        let database = open(state.join(FILE), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut beside = Vec::new();
        for suffix in ["-wal", "-shm"] {
            let name = format!("{FILE}{suffix}");
            match openat(CWD, state.join(&name), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
                Ok(file) => beside.push((name, file)),
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        let present = Self {
            state: state.into(),
            database,
            beside,
            log: AtomicU64::new(0),
            begun: AtomicBool::new(false),
        };
        present.written();
        Ok(present)
    }

    /// Remembers how long the log is after a write of one's own.
    pub(super) fn written(&self) {
        self.log.store(self.log_bytes(), Ordering::Relaxed);
        let begun = fstat(&self.database).is_ok_and(|stat| size(&stat) > 0);
        // Once it has begun it has.
        self.begun.fetch_or(begun, Ordering::Relaxed);
    }

    fn log_bytes(&self) -> u64 {
        let log = self.beside.iter().find(|(name, _)| name.ends_with("-wal"));
        log.and_then(|(_, file)| fstat(file).ok()).map_or(0, |stat| size(&stat))
    }

    /// Says what is wrong, for people; nothing where the names lead to the open files. For any thread.
    pub(super) fn wrong(&self) -> Option<String> {
        let database = [(FILE, &self.database)];
        let beside = self.beside.iter().map(|(name, file)| (name.as_str(), file));
        database.into_iter().chain(beside).find_map(|(name, file)| {
            let what = self.replaced(name, file)?;
            let path = self.state.join(name);
            Some(format!("`{}` {what} while fnd was running", path.display()))
        })
    }

    /// Says the same, and whether they were truncated. For the thread that writes, before it does.
    pub(super) fn wrong_or_short(&self) -> Option<String> {
        self.wrong().or_else(|| {
            let path = self.state.join(FILE);
            let short = self.is_short() || self.log_bytes() < self.log.load(Ordering::Relaxed);
            short.then(|| format!("`{}` was truncated while fnd was running", path.display()))
        })
    }

    fn replaced(&self, name: &str, file: &OwnedFd) -> Option<String> {
        let open = match fstat(file) {
            Ok(open) => open,
            Err(error) => return Some(format!("cannot be looked at ({error})")),
        };
        match statat(CWD, self.state.join(name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) if (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino) => None,
            Ok(_) => Some("was replaced by another file".to_owned()),
            Err(rustix::io::Errno::NOENT) if open.st_nlink == 0 => Some("was deleted".to_owned()),
            Err(rustix::io::Errno::NOENT) => Some("was moved away".to_owned()),
            Err(error) => Some(format!("cannot be looked at ({error})")),
        }
    }

    /// Says whether the file is shorter than its own header says: a checkpoint writes the size there and then cuts the file.
    fn is_short(&self) -> bool {
        let mut header = [0; 100];
        let Ok(stat) = fstat(&self.database) else {
            return false;
        };
        match rustix::io::pread(&self.database, &mut header, 0) {
            Ok(100) => {
                let number = |at: usize| {
                    header
                        .get(at..at + 4)
                        .and_then(|bytes| bytes.try_into().ok())
                        .map(u32::from_be_bytes)
                };
                // Written by a checkpoint, both are the same.
                let counts = number(24) == number(92);
                counts && number(28).is_some_and(|pages| size(&stat) < u64::from(pages) * PAGE)
            }
            Ok(_) => self.begun.load(Ordering::Relaxed),
            // The disk does not answer: what is written next says so.
            Err(_) => false,
        }
    }
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}
