//! The code that all databases share: statements, logs, damage, findings about it, and copies. Each database decides what
//! follows from damage: the history in `ledger/salvage/damage.rs`, the values of functions in `stores/kv/salvage.rs`; the audit only
//! sets a damaged file aside.
//!
//! Files:
//! - `aside`: replaces a damaged database in steps
//! - `log`: reads a write-ahead log, and writes a damaged one anew
//! - `log_record`: records where a log ends, so that a start notices what is missing
//! - `present`: checks whether the paths of a database still lead to the open files
//! - `source`: the files that a salvage reads instead of a damaged database
//! - `table`: reads one table from both ends as far as possible; rows between two damaged places are reached by key

mod aside;
pub(crate) mod log;
mod log_record;
mod present;
mod source;
pub(crate) mod table;

pub(crate) use aside::Replacement;
pub(crate) use log_record::{LogPages, LogRecorder, LostCommits, beside, boot, lost_commits, lost_commits_beside_fnd};
pub(crate) use present::PresentFiles;
pub(crate) use source::{Copies, linked};

use fnd_core::verify_report::{FindingLevel, LedgerFinding};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, Params, Row};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns a note if a directory is on a read-only file system: for a write there SQLite reports only "disk
/// I/O error". The kernel makes a file system read-only when its disk has an error.
pub(crate) fn read_only_note(directory: &Path) -> Option<String> {
    // statvfs(3) and access(2) do not show that ext4 refuses writes since an error. The probe is a file without a name:
    // to open and close a file of the database would release the locks of SQLite.
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let probe = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR);
    let is_read_only = probe.err() == Some(Errno::ROFS);
    is_read_only.then(|| format!(" (`{}` is on a read-only file system)", directory.display()))
}

/// Returns why a write to a database in this directory failed, in words.
pub(crate) fn write_error(error: &dyn std::error::Error, directory: &Path) -> String {
    crate::chain(error) + &read_only_note(directory).unwrap_or_default()
}

/// How long a statement waits for a lock; only another program, such as a user's `sqlite3`, can hold one.
pub(crate) const BUSY: Duration = Duration::from_secs(2);

/// Opens a database for reading only.
pub(crate) fn open_read_only(path: &Path) -> rusqlite::Result<Connection> {
    // A `Connection` is used by one thread at a time, so SQLite's own locks would only cost time.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY)?;
    Ok(db)
}

/// Executes a statement, which stays prepared for the next time. Returns how many rows it has changed. A parameter is written
/// `LIMIT +?1`, here and below: without the `+` SQLite compiles the statement anew at each use, for a plan that fits the number.
pub(crate) fn execute(db: &Connection, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
    db.prepare_cached(sql)?.execute(params)
}

/// Reads the first row that a statement finds, if there is one.
pub(crate) fn first<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    db.prepare_cached(sql)?.query_row(params, read).optional()
}

/// Reads all rows that a statement finds.
pub(crate) fn all<T, C: FromIterator<T>>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<C> {
    db.prepare_cached(sql)?.query_map(params, read)?.collect()
}

/// Returns whether a database has no tables.
pub(crate) fn has_no_tables(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

/// Has SQLite check a database by one of its pragmas.
///
/// # Errors
/// Also for damage that it finds.
pub(crate) fn check_pages(db: &Connection, pragma: &str) -> rusqlite::Result<()> {
    let verdict: String = db.query_row(&format!("PRAGMA {pragma}(1)"), [], |row| row.get(0))?;
    match verdict.as_str() {
        "ok" => Ok(()),
        _ => Err(damaged(verdict)),
    }
}

/// Returns whether an error says that the file is no database that can be read.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Returns the kind of an error. All statements are fnd's own, so one that names a table or column that is not there says that the
/// file's schema is damaged.
pub(crate) fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    match error {
        rusqlite::Error::SqlInputError { .. } => Some(ErrorCode::DatabaseCorrupt),
        _ => error.sqlite_error_code(),
    }
}

/// Returns an error that says that the file is damaged.
pub(crate) fn damaged(why: impl Into<String>) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
        Some(why.into()),
    )
}

/// Copies a database in its present state to a new file, which is then finished, opened, and loses its name: it is freed
/// when its reader closes it or dies.
///
/// # Errors
/// From SQLite; the inner error is that of the file.
pub(crate) fn copy(
    db: &Connection,
    to: &Path,
    finish: impl FnOnce(&Path) -> rusqlite::Result<()>,
) -> rusqlite::Result<io::Result<File>> {
    // It writes one moment of the database and only the pages in use, and fnd can write to the database meanwhile.
    let copied = db.execute("VACUUM INTO ?1", [to.to_string_lossy()]);
    let copied = copied.and_then(|_| finish(to));
    let opened = File::open(to);
    // The name goes in every case, also if the copy has failed: nobody else would remove it.
    let removed = std::fs::remove_file(to);
    copied?;
    Ok(removed.and(opened))
}

/// The command that repairs a database.
pub(crate) const REPAIR: &str = "fndctl verify --repair";

/// Returns a finding of a check, with the command that helps.
pub(crate) fn finding(level: FindingLevel, check: &str, what: String, fix: Option<String>) -> LedgerFinding {
    let check = check.to_owned();
    LedgerFinding {
        level,
        check,
        what,
        fix,
    }
}

/// Returns the finding that a database is damaged.
pub(crate) fn damage_finding(path: &Path, check: &str, damage: &str) -> LedgerFinding {
    let what = format!("`{}` is damaged: {damage}", path.display());
    let fix = format!("stop fnd, then: {REPAIR} (or restore a backup)");
    finding(FindingLevel::Error, check, what, Some(fix))
}

/// Opens a database to confirm what was set aside, also beside an fnd that runs.
pub(crate) fn open_to_confirm(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    // The record of the end of the log says that the log is there.
    keep_log_on_close(&db, true)?;
    db.busy_timeout(Duration::from_secs(5))?;
    Ok(db)
}

/// Prefix of the names of copies.
const COPY: &str = "backup-";

/// Returns a path for a copy of a database of the state directory.
pub(crate) fn copy_path(state: &Path) -> PathBuf {
    state.join(format!("{COPY}{}.db", fastrand::u64(..)))
}

/// Removes copies that were left behind when a program was killed while it made them.
pub(crate) fn remove_copies(state: &Path) {
    for entry in std::fs::read_dir(state).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(COPY.as_bytes())
            && let Err(error) = std::fs::remove_file(entry.path())
        {
            tracing::warn!("failed to remove `{}`: {error}", entry.path().display());
        }
    }
}

/// Sets whether the log stays when the last connection closes the database. SQLite would copy the log into the database and
/// remove it, also when fnd gives up in the middle of a start: only [`LogRecorder::close`] does that, and records it.
pub(crate) fn keep_log_on_close(db: &Connection, keeps: bool) -> rusqlite::Result<()> {
    let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    db.set_db_config(config, keeps).map(drop)
}
