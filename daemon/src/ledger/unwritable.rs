//! A start whose ledger can be read and not written, usually since the disk is full: what it reads by, and what it makes up
//! for when there is room.
//!
//! Nothing of it is decided by guessing: what has to be read is read, or the start is refused. In WAL mode also reading needs
//! room, for the index of the log of changes. SQLite's `unix-excl` keeps that in memory, at the price that no other program can
//! open the database. So both connections are *makeshifts* until the ledger can be opened as always.

use super::in_flight::{Earlier, InFlight};
use super::present::Present;
use super::{Free, OpenError, schema};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The connection that questions are asked on: another one when the makeshift is over.
pub(super) type Reading = Arc<Mutex<Connection>>;

/// Says whether it may be for want of room that SQLite could not, or because the disk cannot be written.
pub(super) fn is_unwritable(error: &OpenError, state: &Path) -> bool {
    let OpenError::Sqlite { source, .. } = error else {
        return false;
    };
    match source.sqlite_error_code() {
        // The second: other errors of writing, such as a quota that is used up. Where it was reading, a makeshift fails as well.
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => true,
        // The log of changes or its index could not be made; a directory that may not be written is another matter.
        Some(ErrorCode::CannotOpen) => Free::at(state).is_some_and(|free| free.is_low()),
        _ => false,
    }
}

/// Says why, and how little room there is: SQLite says of some of these errors only that they are of input or output.
pub(super) fn in_words(error: &OpenError, path: &Path) -> String {
    let free = path.parent().and_then(Free::at).filter(Free::is_low);
    let free = free.map(|Free { bytes, inodes }| {
        let inodes = inodes.map_or_else(String::new, |inodes| format!(" and {inodes} inodes"));
        format!(" (the disk has {bytes} bytes{inodes} left)")
    });
    crate::chain(error) + &free.unwrap_or_default()
}

/// Opens a database as a makeshift. Nothing is written where its schema is this program's; where it is not, that is an error.
///
/// # Errors
/// [`OpenError`].
pub(super) fn open(path: &Path) -> Result<Connection, OpenError> {
    let failed = |source| OpenError::of(path, source);
    let Some(mut db) = private(path).map_err(failed)? else {
        return schema::in_memory().map_err(failed);
    };
    schema::check(path, &db)?;
    schema::create(&mut db).map_err(failed)?;
    Ok(db)
}

/// Opens it once more, for reading.
///
/// # Errors
/// [`OpenError`].
pub(super) fn open_read_only(path: &Path) -> Result<Connection, OpenError> {
    let failed = |source| OpenError::of(path, source);
    let Some(db) = private(path).map_err(failed)? else {
        return schema::in_memory().map_err(failed);
    };
    // Opened for reading only it would take a lock that undoes the other connection's.
    db.pragma_update(None, "query_only", true).map_err(failed)?;
    Ok(db)
}

/// Nothing where there is no database, or none that ever had room for its tables.
fn private(path: &Path) -> rusqlite::Result<Option<Connection>> {
    if std::fs::metadata(path).map_or(true, |meta| meta.len() == 0) {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags_and_vfs(path, flags, c"unix-excl")?;
    schema::configure_reading(&db)?;
    Ok(Some(db).filter(|db| !schema::has_no_tables(db).is_ok_and(|none| none)))
}

/// What a start could not write.
pub(super) struct Later {
    /// Why.
    pub(super) reason: Arc<str>,
    /// What an earlier fnd has left in the table of what is in flight.
    pub(super) earlier: Earlier,
    /// The connections are makeshifts.
    pub(super) makeshift: Option<Reading>,
}

impl Later {
    /// Makes up for it: opens the ledger as always, and stores what the start has gone by. Before anything else is written.
    ///
    /// # Errors
    /// [`OpenError`]: then all is as before, and it can be tried again.
    pub(super) fn make_up(
        &mut self,
        path: &Path,
        db: &mut Connection,
        present: &Present,
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
        self.earlier.went_on(in_flight, &running);
        Ok(())
    }
}

/// Puts the usual connections in the place of makeshifts, or makeshifts again.
fn reopen(path: &Path, db: &mut Connection, reading: &Reading, present: &Present) -> Result<(), OpenError> {
    let nothing = || Connection::open_in_memory().map_err(|source| OpenError::of(path, source));
    let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
    // All of this file that is open goes first: connections of two kinds share their locks, and closing any descriptor of a file
    // gives up those of all others (fcntl(2), "Advisory record locking").
    (*db, *reading) = (nothing()?, nothing()?);
    present.close();
    let usual = schema::open(path).and_then(|db| Ok((db, schema::open_read_only(path)?)));
    let (both, result) = match usual {
        Ok(both) => (both, Ok(())),
        Err(error) => ((open(path)?, open_read_only(path)?), Err(error)),
    };
    (*db, *reading) = both;
    if let Err(error) = present.look() {
        tracing::warn!("failed to look at the files of the ledger ({error}): nobody will see that they are replaced");
    }
    result
}
