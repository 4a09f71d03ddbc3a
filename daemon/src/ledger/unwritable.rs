//! A start with a ledger that can be read but not written, usually because the disk is full: how the start reads it,
//! and how fnd stores the rest when there is room.
//!
//! No state is guessed: the start either reads all it needs, or is refused. In WAL mode reading needs room too, for the
//! index of the write-ahead log. SQLite's `unix-excl` keeps that index in memory, but then no other program can open
//! the database. So both connections are *makeshifts* until the ledger can be opened in the usual way.

use super::in_flight::{Earlier, InFlight};
use super::{OpenError, schema};
use crate::database::{PresentFiles, has_no_tables, keep_log_on_close};
use crate::free_space::FreeSpace;
use crate::lock::lock;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The connection for queries; it is replaced when the makeshift ends.
pub(super) type Reading = Arc<Mutex<Connection>>;

/// Returns whether SQLite may have failed because there is no room, or because the disk cannot be written.
pub(super) fn is_unwritable(error: &OpenError, state: &Path) -> bool {
    let OpenError::Sqlite { source, .. } = error else {
        return false;
    };
    match source.sqlite_error_code() {
        // `SystemIoFailure` covers other write errors, such as an exceeded quota. If the error came from reading, a
        // makeshift fails too.
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => true,
        // SQLite could not create the write-ahead log or its index. A directory without write permission is another
        // problem.
        Some(ErrorCode::CannotOpen) => FreeSpace::at(state).is_some_and(|free| free.is_low()),
        _ => false,
    }
}

/// Returns the error as text, with the free space if it is low: for some of these errors SQLite reports only "I/O
/// error".
pub(super) fn in_words(error: &OpenError, path: &Path) -> String {
    let free = path.parent().and_then(FreeSpace::at).filter(FreeSpace::is_low);
    let free = free.map(|FreeSpace { bytes, inodes }| {
        let inodes = inodes.map_or_else(String::new, |inodes| format!(" and {inodes} inodes"));
        format!(" (the disk has {bytes} bytes{inodes} left)")
    });
    crate::chain(error) + &free.unwrap_or_default()
}

/// Opens the connections for writing and reading, as makeshifts if the database cannot be written: then the reason is returned, too.
///
/// # Errors
/// [`OpenError`].
pub(super) fn connect(path: &Path, state: &Path) -> Result<(Connection, Connection, Option<OpenError>), OpenError> {
    match usual(path) {
        Ok((db, reading)) => Ok((db, reading, None)),
        Err(error) if is_unwritable(&error, state) => match makeshifts(path) {
            Ok((db, reading)) => Ok((db, reading, Some(error))),
            Err(_) => Err(error), // the first error says more
        },
        Err(error) => Err(error),
    }
}

fn usual(path: &Path) -> Result<(Connection, Connection), OpenError> {
    Ok((schema::open(path)?, schema::open_read_only(path)?))
}

/// Opens both connections as makeshifts. If the schema is that of this program, nothing is written; another schema is an
/// error.
fn makeshifts(path: &Path) -> Result<(Connection, Connection), OpenError> {
    let failed = |source| OpenError::of(path, source);
    let mut db = private(path).map_err(failed)?;
    schema::check(path, &db)?;
    schema::create(&mut db).map_err(failed)?;
    let reading = private(path).map_err(failed)?;
    // Not opened read-only: that would take a lock that breaks the lock of the other connection.
    reading.pragma_update(None, "query_only", true).map_err(failed)?;
    Ok((db, reading))
}

/// Opens a database without an index of its log on the disk. If there is none, or if it never had room for its tables, this is a new one in
/// memory.
fn private(path: &Path) -> rusqlite::Result<Connection> {
    if std::fs::metadata(path).map_or(true, |meta| meta.len() == 0) {
        return schema::in_memory();
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags_and_vfs(path, flags, c"unix-excl")?;
    schema::configure_reading(&db)?;
    keep_log_on_close(&db, true)?;
    match has_no_tables(&db) {
        Ok(true) => schema::in_memory(),
        Ok(false) | Err(_) => Ok(db),
    }
}

/// The changes that a start could not write.
pub(super) struct Later {
    /// Why they could not be written.
    pub(super) reason: Arc<str>,
    /// The table that an earlier fnd left.
    pub(super) earlier: Earlier,
    /// The connection for queries, if the connections are makeshifts.
    pub(super) makeshift: Option<Reading>,
}

impl Later {
    /// Opens the ledger in the usual way, and stores the state that the start used. Must run before any other write.
    ///
    /// # Errors
    /// [`OpenError`]; nothing has changed then, and the call can be retried.
    pub(super) fn make_up(
        &mut self,
        path: &Path,
        db: &mut Connection,
        present: &PresentFiles,
        in_flight: &InFlight,
    ) -> Result<(), OpenError> {
        if let Some(reading) = &self.makeshift {
            reopen(path, db, reading, present)?;
            self.makeshift = None;
        }
        let settled = db.transaction().and_then(|transaction| {
            let running = self.earlier.settle(&transaction)?;
            transaction.commit().map(|()| running)
        });
        let running = settled.map_err(|source| OpenError::of(path, source))?;
        // The slots are emptied after the commit: until then the table is the only place that has their attempts.
        self.earlier.went_on(in_flight, &running);
        Ok(())
    }
}

/// Replaces makeshifts with the usual connections; opens makeshifts again if that fails.
fn reopen(path: &Path, db: &mut Connection, reading: &Reading, present: &PresentFiles) -> Result<(), OpenError> {
    let nothing = || Connection::open_in_memory().map_err(|source| OpenError::of(path, source));
    let mut reading = lock(reading);
    // Close all descriptors of this file first: the two kinds of connections share their locks, and closing any
    // descriptor of a file releases the locks of all others (fcntl(2), "Advisory record locking").
    (*db, *reading) = (nothing()?, nothing()?);
    present.close();
    let (both, result) = match usual(path) {
        Ok(both) => (both, Ok(())),
        Err(error) => (makeshifts(path)?, Err(error)),
    };
    (*db, *reading) = both;
    if let Err(error) = present.open() {
        tracing::warn!("failed to examine the files of the ledger ({error}): fnd will not notice if they are replaced");
    }
    result
}
