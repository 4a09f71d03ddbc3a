//! Whether the files of the open database are still those that have its names: somebody may delete, replace or truncate them
//! while fnd runs, and what is written then is in no file that the next start finds.

use super::FILE;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, open, openat, statat};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files as they were when the database was opened.
#[derive(Debug)]
pub(super) struct Present {
    state: PathBuf,
    /// None where there is no database yet.
    files: Mutex<Option<Files>>,
    /// Bytes of the log and of the database after the last write; only the writer makes them shorter. What the header says is no
    /// measure: on a full disk a checkpoint has written that and not the pages behind it, which are in the log still.
    log: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug)]
struct Files {
    database: OwnedFd,
    /// The log of changes, and its index.
    beside: Vec<(String, OwnedFd)>,
}

impl Files {
    fn of(state: &Path) -> rustix::io::Result<Self> {
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
        Ok(Self { database, beside })
    }

    fn database_bytes(&self) -> u64 {
        fstat(&self.database).map_or(0, |stat| size(&stat))
    }

    fn log_bytes(&self) -> u64 {
        let log = self.beside.iter().find(|(name, _)| name.ends_with("-wal"));
        log.and_then(|(_, file)| fstat(file).ok()).map_or(0, |stat| size(&stat))
    }
}

impl Present {
    /// Looks at the files of a database that has just been opened and read.
    ///
    /// The database itself stays open for reading until the connections are closed: closing it earlier would take their locks
    /// (fcntl(2), "Advisory record locking").
    ///
    /// # Errors
    /// From opening; a database that is not there is none.
    pub(super) fn of(state: &Path) -> rustix::io::Result<Self> {
        let present = Self {
            state: state.into(),
            files: Mutex::new(None),
            log: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        };
        match present.look() {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(present),
            Err(error) => Err(error),
        }
    }

    /// Looks again, at files that were opened anew after [`Present::close`].
    ///
    /// # Errors
    /// From opening.
    pub(super) fn look(&self) -> rustix::io::Result<()> {
        *self.lock() = Some(Files::of(&self.state)?);
        self.written();
        Ok(())
    }

    /// Lets the files go, since they are about to be opened anew: no connection is open.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Files>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers how long the files are after a write of one's own, whether it went well or not.
    pub(super) fn written(&self) {
        if let Some(files) = &*self.lock() {
            self.log.store(files.log_bytes(), Ordering::Relaxed);
            self.bytes.store(files.database_bytes(), Ordering::Relaxed);
        }
    }

    /// Says what is wrong, for people; nothing where the names lead to the open files. For any thread.
    pub(super) fn wrong(&self) -> Option<String> {
        let files = self.lock();
        let files = files.as_ref()?;
        let database = [(FILE, &files.database)];
        let beside = files.beside.iter().map(|(name, file)| (name.as_str(), file));
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
            let files = self.lock();
            let files = files.as_ref()?;
            let is_shorter = |now: u64, before: &AtomicU64| now < before.load(Ordering::Relaxed);
            let short = is_shorter(files.database_bytes(), &self.bytes) || is_shorter(files.log_bytes(), &self.log);
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
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}
