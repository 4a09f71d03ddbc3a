//! Checks whether the paths of the database still lead to the open files. A user may delete, replace or truncate the
//! files while fnd runs; then the next start would not find the records that are written after that. The history, the state
//! of functions and the audit check it before they write.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, open, statat};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of the header of a database; a file without one is never a database in use. Source: "Database File Format",
/// section 1.3, of SQLite.
const HEADER: u64 = 100;

/// The files as they were when the database was opened.
#[derive(Debug)]
pub(crate) struct PresentFiles {
    path: PathBuf,
    /// Nothing if there is no database yet.
    files: Mutex<Option<DatabaseFiles>>,
    /// Bytes of the log and of the database after the last write; only the writer makes them shorter. The size in the
    /// database header is no measure: on a full disk a checkpoint may have written the header but not the pages, which
    /// are then still in the log.
    log: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug)]
struct DatabaseFiles {
    database: OwnedFd,
    /// The write-ahead log and its index.
    beside: Vec<(&'static str, OwnedFd)>,
}

impl DatabaseFiles {
    fn of(path: &Path) -> rustix::io::Result<Self> {
        // Closing a file that was opened without `PATH` would release all locks of SQLite on it (fcntl(2), "Advisory record
        // locking").
        let open = |path: &Path| open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let database = open(path)?;
        let mut beside = Vec::new();
        for suffix in ["-wal", "-shm"] {
            match open(&super::beside(path, suffix)) {
                Ok(file) => beside.push((suffix, file)),
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
        let log = self.beside.iter().find(|(suffix, _)| *suffix == "-wal");
        log.and_then(|(_, file)| fstat(file).ok()).map_or(0, |stat| size(&stat))
    }
}

impl PresentFiles {
    /// Opens the files of a database that has just been opened and read.
    ///
    /// # Errors
    /// From opening the files; a missing database is not an error.
    pub(crate) fn of(path: &Path) -> rustix::io::Result<Self> {
        let present = Self {
            path: path.into(),
            files: Mutex::new(None),
            log: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        };
        match present.open() {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(present),
            Err(error) => Err(error),
        }
    }

    /// Opens the files again, after [`PresentFiles::close`] and after the database was reopened.
    ///
    /// # Errors
    /// From opening the files.
    pub(crate) fn open(&self) -> rustix::io::Result<()> {
        *self.lock() = Some(DatabaseFiles::of(&self.path)?);
        self.written();
        Ok(())
    }

    /// Closes the files, because the database is about to be reopened; no connection is open.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<DatabaseFiles>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the sizes of the files after a write by fnd, whether the write succeeded or not.
    pub(crate) fn written(&self) {
        if let Some(files) = &*self.lock() {
            self.log.store(files.log_bytes(), Ordering::Relaxed);
            self.bytes.store(files.database_bytes(), Ordering::Relaxed);
        }
    }

    /// Returns what is wrong, as text for people; nothing if the paths lead to the open files. Any thread may call it.
    pub(crate) fn wrong(&self) -> Option<String> {
        let files = self.lock();
        let files = files.as_ref()?;
        let database = [("", &files.database)];
        let beside = files.beside.iter().map(|(suffix, file)| (*suffix, file));
        database.into_iter().chain(beside).find_map(|(suffix, file)| {
            let path = super::beside(&self.path, suffix);
            let what = replaced(&path, file)?;
            Some(format!("`{}` {what} while fnd was running", path.display()))
        })
    }

    /// Like [`PresentFiles::wrong`], and also checks whether the files were truncated. Only the writer's thread calls it,
    /// before it writes.
    pub(crate) fn wrong_or_short(&self) -> Option<String> {
        self.wrong().or_else(|| {
            let files = self.lock();
            let files = files.as_ref()?;
            let is_shorter = |now: u64, before: &AtomicU64| now < before.load(Ordering::Relaxed);
            let bytes = files.database_bytes();
            // Bytes that were cut off during a write of fnd are missing in the size noted after it.
            let short = bytes < HEADER || is_shorter(bytes, &self.bytes) || is_shorter(files.log_bytes(), &self.log);
            short.then(|| format!("`{}` was truncated while fnd was running", self.path.display()))
        })
    }
}

/// Returns what has become of the path of an open file; nothing if it still leads there.
fn replaced(path: &Path, file: &OwnedFd) -> Option<String> {
    let open = match fstat(file) {
        Ok(open) => open,
        Err(error) => return Some(format!("cannot be examined ({error})")),
    };
    match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) if (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino) => None,
        Ok(_) => Some("was replaced by another file".to_owned()),
        Err(rustix::io::Errno::NOENT) if open.st_nlink == 0 => Some("was deleted".to_owned()),
        Err(rustix::io::Errno::NOENT) => Some("was moved away".to_owned()),
        Err(error) => Some(format!("cannot be examined ({error})")),
    }
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}
