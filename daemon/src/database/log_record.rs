//! The record of where the write-ahead log of a database ends. SQLite takes a damaged frame of a log, and a log that is gone,
//! for the end of what was written ([`super::log`]): without a word, commits that were answered would be missing.
//!
//! The record is a file in the run directory. Its writer records the end after each commit and before anything is
//! acknowledged; the next start compares it with the log before SQLite opens the database.
//!
//! - **After a kill** the log has at least what is recorded: both are in the memory of the kernel, in the order in which they
//!   were written. A commit that was not recorded any more makes the log longer, or begins it anew; nobody was told of it.
//! - **After a power cut** the end of a log may be torn, if it was not synced and so not acknowledged. The record does not
//!   speak then: it lies in memory, and it names the boot in case it does not.
//! - **At a planned stop** all of the log is copied into the database before the log is emptied. While that is going on the
//!   record says so, and then that the log is empty.
//! - **A database that was restored**, set aside or made anew is another file, for which the record does not speak, unless
//!   the log of the old file lies beside it. Nothing is compared if there is no record, as after an upgrade.

use super::log::{self, LogEnd, LogHeader, LogScan};
use rusqlite::Connection;
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Bytes of a record: `crc32 u32, closes u32`, the identities, the end, the boot.
const LENGTH: usize = 108;
/// How often a log that misses something is read: fnd hardly begins it anew each time.
const TRIES: u32 = 5;
/// Characters of the id of a boot.
const BOOT: usize = 36;

/// Identity of a file or directory: device, inode, and time of its creation, because inodes are used again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FileIdentity([u64; 3]);

impl FileIdentity {
    fn of(meta: &Metadata) -> Self {
        let created = meta.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        // Nanoseconds, whose highest bits do not matter.
        let created = created.map_or(0, |since| {
            since.as_secs().wrapping_mul(1_000_000_000) + u64::from(since.subsec_nanos())
        });
        Self([meta.dev(), meta.ino(), created])
    }
}

/// Commits that are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostCommits {
    /// The loss, as text for people.
    pub(crate) what: String,
    /// The end of the log, if what the log still has belongs to the database.
    pub(crate) log: Option<LogEnd>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LogRecordContent {
    /// The log is being emptied after all of it was copied into the database.
    closes: bool,
    directory: FileIdentity,
    database: FileIdentity,
    end: LogEnd,
    boot: String,
}

impl LogRecordContent {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend(u32::from(self.closes).to_le_bytes());
        for number in self.directory.0.into_iter().chain(self.database.0) {
            bytes.extend(number.to_le_bytes());
        }
        let [first, second] = self.end.salts;
        for number in [first, second, self.end.frames, 0] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.boot.bytes().take(BOOT));
        bytes.resize(LENGTH, 0);
        let checksum = crc32fast::hash(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..LENGTH)?;
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from(number(at)?) | u64::from(number(at + 4)?) << 32);
        let identity = |at: usize| Some(FileIdentity([long(at)?, long(at + 8)?, long(at + 16)?]));
        if number(0)? != crc32fast::hash(&bytes[4..]) {
            return None;
        }
        let boot = bytes[LENGTH - BOOT..].split(|byte| *byte == 0).next()?;
        Some(Self {
            closes: number(4)? != 0,
            directory: identity(8)?,
            database: identity(32)?,
            end: LogEnd {
                salts: [number(56)?, number(60)?],
                frames: number(64)?,
            },
            boot: String::from_utf8_lossy(boot).into_owned(),
        })
    }

    /// Compares what is recorded with the files. They are not changed.
    fn lost(&self, database: &Path) -> io::Result<Option<LostCommits>> {
        let directory = std::fs::metadata(database.parent().unwrap_or(Path::new("/")))?;
        // A power cut may have taken commits that were not synced, and nobody was told of those. So a record counts for
        // its own boot.
        if self.boot.is_empty() || self.boot != boot() || self.directory != FileIdentity::of(&directory) {
            return Ok(None);
        }
        let lost = |what: &str| {
            Ok(Some(LostCommits {
                what: what.to_owned(),
                log: None,
            }))
        };
        let meta = match std::fs::metadata(database) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return lost("it is gone"),
            Err(error) => return Err(error),
        };
        if meta.len() == 0 {
            return lost("it is empty");
        }
        let scan = scan(database)?;
        if FileIdentity::of(&meta) != self.database {
            let is_of_old = self.end.frames > 0 && scan.header == LogHeader::Whole(self.end.salts);
            return match is_of_old {
                true => lost("it was replaced, and the log beside it is that of the file before"),
                false => Ok(None),
            };
        }
        // The planned stop was killed after it had emptied the log, and before it could record that.
        if self.closes && scan.header == LogHeader::Absent {
            return Ok(None);
        }
        let missing = self.end.missing_in(&scan);
        // If the header is damaged, the salts of the frames say whether they belong to the log; those of another log are not read.
        let can_be_read = [LogHeader::Damaged, LogHeader::Whole(self.end.salts)].contains(&scan.header);
        let log = can_be_read.then_some(self.end);
        Ok(missing.map(|what| LostCommits { what, log }))
    }
}

/// Reads the log of a database.
fn scan(database: &Path) -> io::Result<LogScan> {
    match File::open(beside(database, "-wal")) {
        Ok(file) => log::scan(BufReader::new(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => log::scan(io::empty()),
        Err(error) => Err(error),
    }
}

/// Returns the path of a file that SQLite keeps beside a database.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(suffix);
    name.into()
}

/// Returns the path of the record of a database.
fn place(run: &Path, database: &Path) -> PathBuf {
    beside(&run.join(database.file_name().unwrap_or_default()), "-end")
}

/// Returns which commits of a database are missing, as far as an fnd of this boot recorded its end. Nothing is changed.
///
/// # Errors
/// From reading the log.
pub(crate) fn lost_commits(run: &Path, database: &Path) -> io::Result<Option<LostCommits>> {
    let path = place(run, database);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match LogRecordContent::parse(&bytes) {
        Some(content) => content.lost(database),
        // A new file, whose first record was not written any more.
        None if bytes.is_empty() => Ok(None),
        None => {
            let (path, database) = (path.display(), database.display());
            tracing::warn!("`{path}` is damaged: nothing says whether `{database}` has all that was written");
            Ok(None)
        }
    }
}

/// Like [`lost_commits`], for a program beside fnd, which may begin its log anew between two reads of this program.
///
/// # Errors
/// From reading the log.
pub(crate) fn lost_commits_beside_fnd(run: &Path, database: &Path) -> io::Result<Option<LostCommits>> {
    let mut lost = None;
    for _ in 0..TRIES {
        lost = lost_commits(run, database)?;
        if lost.is_none() {
            break;
        }
    }
    Ok(lost)
}

/// Returns the id of this boot; empty if the kernel provides none.
pub(crate) fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Number of pages in a log, and how many of them are copied into the database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogPages {
    pub(crate) pages: u32,
    pub(crate) copied: u32,
}

impl LogPages {
    /// Asks SQLite.
    pub(crate) fn of(db: &Connection) -> rusqlite::Result<Self> {
        db.prepare_cached("PRAGMA wal_checkpoint(noop)")?.query_row([], |row| {
            // Both are -1 if the database has no log.
            let count = |n| row.get(n).map(|count: i64| u32::try_from(count).unwrap_or(0));
            Ok(Self {
                pages: count(1)?,
                copied: count(2)?,
            })
        })
    }
}

/// Records the ends of a log while its database is open for writing.
#[derive(Debug)]
pub(crate) struct LogRecorder {
    database: PathBuf,
    path: PathBuf,
    /// Absent if it could not be made.
    file: Option<File>,
    log: File,
    content: LogRecordContent,
    /// The last write failed; logged once.
    failing: bool,
}

impl LogRecorder {
    /// Begins to record the log of a database that is open and was written to, so its log exists.
    ///
    /// # Errors
    /// From opening the log, and from SQLite.
    pub(crate) fn begin(run: &Path, database: &Path, db: &Connection) -> io::Result<Self> {
        let path = place(run, database);
        let directory = std::fs::metadata(database.parent().unwrap_or(Path::new("/")))?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).inspect_err(|error| {
            let (path, database) = (path.display(), database.display());
            tracing::warn!("failed to make `{path}` ({error}): damage of the log of `{database}` may not be noticed");
        });
        let mut recorder = Self {
            database: database.to_owned(),
            path,
            file: file.ok(),
            log: File::open(beside(database, "-wal"))?,
            content: LogRecordContent {
                closes: false,
                directory: FileIdentity::of(&directory),
                database: FileIdentity::of(&std::fs::metadata(database)?),
                end: LogEnd::default(),
                boot: boot(),
            },
            failing: false,
        };
        let end = recorder.end(LogPages::of(db).map_err(io::Error::other)?);
        recorder.write(end, false);
        Ok(recorder)
    }

    /// Records the end after a commit, if it is another one.
    pub(crate) fn record(&mut self, pages: LogPages) {
        let end = self.end(pages);
        if end != self.content.end || self.failing {
            self.write(end, false);
        }
    }

    fn end(&self, LogPages { pages, .. }: LogPages) -> LogEnd {
        let mut header = [0; 32];
        match self.log.read_exact_at(&mut header, 0) {
            Ok(()) if pages > 0 => LogEnd {
                salts: log::salts(&header),
                frames: pages,
            },
            _ => LogEnd::default(),
        }
    }

    fn write(&mut self, end: LogEnd, closes: bool) {
        (self.content.end, self.content.closes) = (end, closes);
        let Some(file) = &self.file else { return };
        // One call: a kill does not tear it.
        let written = file.write_all_at(&self.content.bytes(), 0);
        if let Err(error) = &written
            && !self.failing
        {
            tracing::warn!("failed to write `{}`: {error}", self.path.display());
        }
        self.failing = written.is_err();
    }

    /// Copies all of the log into the database and empties the log, at a planned stop. If that fails, the log stays, and the
    /// next start reads it.
    pub(crate) fn close(&mut self, db: &Connection) {
        // Nothing damaged is copied into the database: SQLite compares no checksums while it has the database open.
        if let Ok(found) = scan(&self.database)
            && let Some(missing) = self.content.end.missing_in(&found)
        {
            tracing::error!("`{}` stays as it is: {missing}", self.database.display());
            return;
        }
        // This is written first: a kill after the next line leaves an empty log, which must not count as a lost one.
        self.write(self.content.end, true);
        let is_busy = db.query_row("PRAGMA wal_checkpoint(truncate)", [], |row| row.get::<_, bool>(0));
        if is_busy == Ok(false) {
            self.write(LogEnd::default(), false);
            // Now closing the database may remove the log.
            let _ = super::keep_log_on_close(db, false);
        } else {
            self.write(self.content.end, false);
        }
    }
}

#[cfg(test)]
mod tests;
