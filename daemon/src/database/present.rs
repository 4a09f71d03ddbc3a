//! Checks whether the paths of the database still lead to the open files. A user may delete, replace or truncate the
//! files while fnd runs; then the next start would not find the records that are written after that. The history, the state
//! of functions and the audit check it before they write.

use super::aside::SUFFIXES;
use crate::lock::lock;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, open, statat};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Bytes of the header of a database; a file without one is never a database in use. Source: "Database File Format",
/// section 1.3, of SQLite.
const HEADER: u64 = 100;

/// The files as they were when the database was opened.
#[derive(Debug, Default)]
pub(crate) struct PresentFiles {
    path: PathBuf,
    /// The database, and behind it its write-ahead log and the index of that. Empty if there is no database yet.
    files: Mutex<Vec<OpenFile>>,
}

#[derive(Debug)]
struct OpenFile {
    suffix: &'static str,
    path: PathBuf,
    file: OwnedFd,
    /// Device and inode: an open file keeps both, so they are read once.
    identity: (u64, u64),
    /// Bytes of the database or of the log after the last write; only the writer makes them shorter. The size in the
    /// database header is no measure: on a full disk a checkpoint may have written the header but not the pages, which
    /// are then still in the log. 0 for the index of the log.
    bytes: u64,
}

impl OpenFile {
    fn size(&self) -> u64 {
        let stat = fstat(&self.file);
        stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
    }
}

fn open_files(path: &Path) -> rustix::io::Result<Vec<OpenFile>> {
    let mut files = Vec::new();
    for suffix in SUFFIXES {
        let path = super::beside(path, suffix);
        // Closing a file that was opened without `PATH` would release all locks of SQLite on it (fcntl(2), "Advisory record
        // locking").
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match open(&path, flags, Mode::empty()) {
            Ok(file) => {
                let identity = identity(&fstat(&file)?);
                files.push(OpenFile {
                    suffix,
                    path,
                    file,
                    identity,
                    bytes: 0,
                });
            }
            // The files of the log need not be there; the database must.
            Err(rustix::io::Errno::NOENT) if !suffix.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

impl PresentFiles {
    /// Opens the files of a database that has just been opened and read.
    ///
    /// # Errors
    /// From opening the files; a missing database is not an error.
    pub(crate) fn of(path: &Path) -> rustix::io::Result<Self> {
        let present = Self {
            path: path.into(),
            ..Self::default()
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
        *lock(&self.files) = open_files(&self.path)?;
        self.written();
        Ok(())
    }

    /// Closes the files, because the database is about to be reopened; no connection is open.
    pub(crate) fn close(&self) {
        lock(&self.files).clear();
    }

    /// Notes the sizes of the files after a write by fnd, whether the write succeeded or not.
    pub(crate) fn written(&self) {
        let mut files = lock(&self.files);
        for file in files.iter_mut().filter(|file| file.suffix != "-shm") {
            file.bytes = file.size();
        }
    }

    /// Returns what is wrong, as text for people; nothing if the paths lead to the open files. Any thread may call it.
    pub(crate) fn wrong(&self) -> Option<String> {
        lock(&self.files).iter().find_map(|file| {
            let what = replaced(file)?;
            Some(format!("`{}` {what} while fnd was running", file.path.display()))
        })
    }

    /// Like [`PresentFiles::wrong`], and also checks whether the files were truncated. Only the writer's thread calls it,
    /// before it writes.
    pub(crate) fn wrong_or_short(&self) -> Option<String> {
        self.wrong().or_else(|| {
            let is_short = |file: &OpenFile| match file.suffix {
                // Bytes that were cut off during a write of fnd are missing in the size noted after it.
                "" => file.size() < file.bytes.max(HEADER),
                "-wal" => file.size() < file.bytes,
                _ => false,
            };
            let short = lock(&self.files).iter().any(is_short);
            short.then(|| format!("`{}` was truncated while fnd was running", self.path.display()))
        })
    }
}

/// Returns what has become of the path of an open file; nothing if it still leads there.
fn replaced(file: &OpenFile) -> Option<String> {
    match statat(CWD, &file.path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) if identity(&named) == file.identity => None,
        Ok(_) => Some("was replaced by another file".to_owned()),
        Err(rustix::io::Errno::NOENT) if fstat(&file.file).is_ok_and(|open| open.st_nlink == 0) => {
            Some("was deleted".to_owned())
        }
        Err(rustix::io::Errno::NOENT) => Some("was moved away".to_owned()),
        Err(error) => Some(format!("cannot be examined ({error})")),
    }
}
