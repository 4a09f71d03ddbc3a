//! The database of a store, open for writing: how it is opened, watched and closed. The store decides what follows from damage.

use crate::database::{self, BUSY, LogPages, LogRecorder, PresentFiles};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// Bytes of the write-ahead log that stay after it was copied into the database.
const LOG_MAX: i64 = 4 << 20;

/// The directories of a store.
#[derive(Debug, Clone)]
pub(crate) struct StorePlaces {
    /// Directory of its files.
    pub(crate) state: PathBuf,
    /// Where the end of its log is recorded; lasts until the next reboot.
    pub(crate) run: PathBuf,
}

/// The tables of a database, and how it is written.
pub(super) struct StoreSchema {
    /// The statements that make its tables.
    pub(super) tables: &'static str,
    /// Whether a commit is on the disk when it returns. Otherwise it is in the page cache, which outlives fnd, and the log is
    /// synced when it is copied into the database.
    pub(super) is_synced: bool,
    /// Page cache in negative KiB: fnd should be small.
    pub(super) cache_kib: i64,
}

impl StoreSchema {
    /// Makes the tables in a new database.
    pub(super) fn make(&self, db: &Connection) -> rusqlite::Result<()> {
        // In one transaction, so that a kill leaves all tables or none.
        db.execute_batch(&format!("BEGIN IMMEDIATE; {} COMMIT", self.tables))
    }
}

/// A database that is open.
#[derive(Debug)]
pub(super) struct StoreDatabase {
    pub(super) db: Connection,
    pub(super) present: PresentFiles,
    /// Absent if the log could not be opened.
    log: Option<LogRecorder>,
}

impl StoreDatabase {
    /// Opens a database, or makes it. `check` sees it before anything is written.
    ///
    /// # Errors
    /// From SQLite and from `check`.
    pub(super) fn open(
        path: &Path,
        run: &Path,
        schema: &StoreSchema,
        check: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Self> {
        let db = Connection::open(path)?;
        // Only a planned stop may empty the log, and records that it is empty. A log that SQLite has removed by itself
        // would look like a loss to the next start.
        database::keep_log_on_close(&db, true)?;
        // `fndctl verify --repair` may write to the same file while fnd runs.
        db.busy_timeout(BUSY)?;
        check(&db)?;
        // The tables are made once: so that rows can be read on a full disk, opening them again writes nothing.
        let is_new = database::has_no_tables(&db)?;
        if is_new {
            db.pragma_update(None, "auto_vacuum", "incremental")?; // before the first page is written
        }
        db.pragma_update(None, "journal_mode", "wal")?;
        let synchronous = if schema.is_synced { "full" } else { "normal" };
        db.pragma_update(None, "synchronous", synchronous)?;
        db.pragma_update(None, "cache_size", schema.cache_kib)?;
        db.pragma_update(None, "journal_size_limit", LOG_MAX)?;
        if is_new {
            schema.make(&db)?;
        }
        let log = LogRecorder::begin(run, path, &db).inspect_err(|error| {
            tracing::warn!("failed to record the end of the log of `{}`: {error}", path.display());
        });
        let present = PresentFiles::of(path);
        Ok(Self {
            present: present.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?,
            // If the end of the log cannot be recorded, damage of the log may go unnoticed, but the store itself works.
            log: log.ok(),
            db,
        })
    }

    /// Records the end of the log and the sizes of the files, before anybody is told what was committed.
    pub(super) fn written(&mut self) {
        if let (Some(log), Ok(pages)) = (&mut self.log, LogPages::of(&self.db)) {
            log.record(pages);
        }
        self.present.written();
    }

    /// Gives free pages back to the disk if there are many. A few stay, because SQLite uses them again: giving back each of them
    /// would write the file anew all the time.
    pub(super) fn shrink(&self, free_max: u64) -> rusqlite::Result<()> {
        let sql = "SELECT freelist_count * page_size FROM pragma_freelist_count(), pragma_page_size()";
        let free: u64 = self.db.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        if free > free_max {
            self.db.execute_batch("PRAGMA incremental_vacuum")?;
        }
        Ok(())
    }

    /// Copies the log into the database, at a planned stop.
    pub(super) fn close(mut self) {
        if let Some(log) = self.log.as_mut().filter(|_| self.present.wrong_or_short().is_none()) {
            log.close(&self.db);
        }
    }
}
