//! The tables of the ledger, and the code that opens a database so that no data is lost or misread.
//!
//! There are tables only for data that is used. The `queue` of ARCHITECTURE.md is the unfinished part of `invocation`
//! (index `unfinished`). Every attempt has a row in `attempt`: this gives one shape to read, for one more insert on the
//! ledger's thread.

use super::OpenError;
use super::rows::UNFINISHED;
use crate::database::{LogPages, keep_log_on_close};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};
use std::path::Path;

/// The schema that this program writes. An older database is migrated to it; a newer one is refused and not changed.
pub const VERSION: u32 = 4;

/// Largest database that is checked as a whole when it is opened: reading 64 MiB takes under a second, and functions
/// wait for it. Damage in a larger database is found when the damaged part is read.
const CHECK_MAX: u64 = 64 << 20;

/// Largest database of an older schema that is rewritten so that it can shrink; this temporarily needs as much disk
/// space again.
const REWRITE_MAX: u64 = 256 << 20;

/// Ids are 16 bytes, big-endian, so that they sort by time. Times are Unix milliseconds. Enumerated values are the
/// words of the API.
const TABLES: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE function (
        name TEXT PRIMARY KEY,
        enabled INTEGER NOT NULL DEFAULT 1,
        runs INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0,
        last_invocation BLOB,
        last_attempt INTEGER
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE invocation (
        id BLOB PRIMARY KEY,
        function TEXT NOT NULL,
        trigger TEXT NOT NULL,
        state TEXT NOT NULL,
        durable INTEGER NOT NULL,
        accepted_ms INTEGER NOT NULL,
        started_ms INTEGER,
        ended_ms INTEGER,
        attempts INTEGER NOT NULL,
        polls INTEGER NOT NULL,
        reason TEXT,
        message TEXT NOT NULL,
        exhausted TEXT,
        next_attempt_ms INTEGER,
        version BLOB,
        timeout_ms INTEGER,
        not_before_ms INTEGER,
        expires_ms INTEGER,
        deadline_ms INTEGER,
        content_type TEXT,
        context TEXT,
        traceparent TEXT,
        -- 1: JSON, 0: other bytes, null: no result. The bytes are here, or in `body` if they are many.
        result_json INTEGER,
        result BLOB
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX by_function ON invocation (function, id);
    CREATE INDEX unfinished ON invocation (id) WHERE state IN ('queued', 'running', 'waiting', 'polling');
    CREATE TABLE attempt (
        invocation BLOB NOT NULL,
        n INTEGER NOT NULL,
        poll INTEGER NOT NULL,
        worker INTEGER,
        version BLOB,
        started_ms INTEGER NOT NULL,
        ended_ms INTEGER NOT NULL,
        duration_us INTEGER NOT NULL,
        reason TEXT NOT NULL,
        message TEXT NOT NULL,
        exit_code INTEGER,
        signal INTEGER,
        cpu_us INTEGER NOT NULL,
        memory_peak_bytes INTEGER,
        peak_of_largest INTEGER NOT NULL,
        throttled_us INTEGER NOT NULL,
        stdout_bytes INTEGER NOT NULL,
        stderr_bytes INTEGER NOT NULL,
        dropped_bytes INTEGER NOT NULL,
        next_attempt_ms INTEGER,
        PRIMARY KEY (invocation, n)
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE body (
        invocation BLOB NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('payload', 'result')),
        data BLOB NOT NULL,
        PRIMARY KEY (invocation, kind)
    ) STRICT;
    -- Contents that have run as `load`. Never deleted from: they must not run again.
    CREATE TABLE load (function TEXT NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (function, hash)) WITHOUT ROWID, STRICT;
";

/// Columns for handlers: the request behind an invocation, and the response data that the function chose beside the
/// bytes of its result, both as JSON of core; and whether an attempt started or shared its worker.
const HANDLERS: &str = "
    ALTER TABLE invocation ADD COLUMN request TEXT;
    ALTER TABLE invocation ADD COLUMN response TEXT;
    ALTER TABLE attempt ADD COLUMN cold INTEGER;
    ALTER TABLE attempt ADD COLUMN scope_worker INTEGER NOT NULL DEFAULT 0;
";

/// Columns for asynchronous work: its priority in the queue, its idempotency key, the invocation that it repeats, and
/// whether it is a dead letter.
///
/// `priority` is null in rows whose payload was not kept: rows of older schemas, and rows that were first stored with
/// their end. `dead` is 1 while an invocation is a dead letter, and 0 if it never becomes one; the number of dead letters is
/// kept for each function.
const ASYNCHRONOUS: &str = "
    ALTER TABLE invocation ADD COLUMN priority INTEGER;
    ALTER TABLE invocation ADD COLUMN key TEXT;
    ALTER TABLE invocation ADD COLUMN origin BLOB;
    ALTER TABLE invocation ADD COLUMN dead INTEGER;
    ALTER TABLE function ADD COLUMN dead INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX by_key ON invocation (function, key, id) WHERE key IS NOT NULL;
    CREATE INDEX dead ON invocation (id) WHERE dead = 1;
    CREATE INDEX failed ON invocation (id) WHERE state IN ('failed', 'interrupted');
    CREATE INDEX failed_of ON invocation (function, id) WHERE state IN ('failed', 'interrupted');
    CREATE TRIGGER dies AFTER UPDATE OF dead ON invocation WHEN NEW.dead IS 1 AND OLD.dead IS NOT 1 BEGIN
        INSERT INTO function (name, dead) VALUES (NEW.function, 1) ON CONFLICT (name) DO UPDATE SET dead = dead + 1;
    END;
    CREATE TRIGGER revives AFTER UPDATE OF dead ON invocation WHEN OLD.dead IS 1 AND NEW.dead IS NOT 1 BEGIN
        UPDATE function SET dead = dead - 1 WHERE name = OLD.function;
    END;
    CREATE TRIGGER goes AFTER DELETE ON invocation WHEN OLD.dead IS 1 BEGIN
        UPDATE function SET dead = dead - 1 WHERE name = OLD.function;
    END;
";

/// The column for what made a trigger run the function, as JSON of core; it is kept as long as the row. The marks of
/// schedules: the last slot of each that was handled. And `failed` in `hook` if a function that a hook of the invocation
/// called has failed.
const TRIGGERS: &str = "
    ALTER TABLE invocation ADD COLUMN cause TEXT;
    ALTER TABLE invocation ADD COLUMN hook TEXT;
    ALTER TABLE function ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE schedule (
        function TEXT NOT NULL,
        key TEXT NOT NULL,
        last_ms INTEGER NOT NULL,
        PRIMARY KEY (function, key)
    ) WITHOUT ROWID, STRICT;
";

/// The migration from each schema version to the next, starting with an empty database: a new database takes the same
/// steps as an old one.
pub(super) const STEPS: [&str; VERSION as usize] = [TABLES, HANDLERS, ASYNCHRONOUS, TRIGGERS];

/// Tables that were added later; programs without them work as before, so the schema version did not change.
const ADDED: &str = "
    -- Installed versions that are on the disk, oldest first, 32 bytes each.
    CREATE TABLE IF NOT EXISTS versions (function TEXT PRIMARY KEY, installed BLOB NOT NULL) WITHOUT ROWID, STRICT;
    -- Releases of a function and which one is held, as JSON of core.
    CREATE TABLE IF NOT EXISTS release (function TEXT PRIMARY KEY, releases TEXT NOT NULL) WITHOUT ROWID, STRICT;
    -- Events that were accepted: a digest of source and id, and what came of the event, as JSON of core.
    CREATE TABLE IF NOT EXISTS event (key TEXT PRIMARY KEY, accepted_ms INTEGER NOT NULL, delivered TEXT NOT NULL)
        WITHOUT ROWID, STRICT;
    CREATE INDEX IF NOT EXISTS event_by_time ON event (accepted_ms);
    -- Ended invocations of which it is not decided yet what follows: hooks and alerts.
    CREATE TABLE IF NOT EXISTS unfollowed (invocation BLOB PRIMARY KEY) WITHOUT ROWID, STRICT;
    -- What was told of a function, as JSON of core; the empty name stands for the node.
    CREATE TABLE IF NOT EXISTS alert (about TEXT PRIMARY KEY, health TEXT NOT NULL) WITHOUT ROWID, STRICT;
    -- Files whose content is handled, and the invocation after which something is to be done with them.
    CREATE TABLE IF NOT EXISTS file (
        function TEXT NOT NULL,
        directory TEXT NOT NULL,
        inode INTEGER NOT NULL,
        path BLOB NOT NULL,
        device INTEGER NOT NULL,
        size INTEGER NOT NULL,
        modified_ns INTEGER NOT NULL,
        changed_ns INTEGER NOT NULL,
        hash INTEGER,
        after BLOB,
        PRIMARY KEY (function, directory, inode)
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX IF NOT EXISTS file_after ON file (after) WHERE after IS NOT NULL;
    -- Since when functions watch directories.
    CREATE TABLE IF NOT EXISTS watched (
        function TEXT NOT NULL,
        directory TEXT NOT NULL,
        since_ms INTEGER NOT NULL,
        PRIMARY KEY (function, directory)
    ) WITHOUT ROWID, STRICT;
    -- What functions have called, by the invocation that called. The condition and the expression are those of `CALLED`
    -- and `PARENT` in rows.rs. A damaged cause has no parent.
    CREATE INDEX IF NOT EXISTS children ON invocation
        (CASE WHEN json_valid(cause) THEN json_extract(cause, '$.call.invocation') END, id) WHERE trigger = 'function';
";

/// Columns that were added later: an earlier fnd goes on writing rows without them. `body` has the checksums of payloads and
/// results. `file` has the run that had the content first, where something is to be done with the file after it: a run that
/// repeats that one finds the file by it.
const ADDED_COLUMNS: [(&str, &str, &str); 2] = [("body", "checksum", "INTEGER"), ("file", "run", "BLOB")];

/// Opens the database for writing; creates it if it does not exist, and checks it if it does.
///
/// # Errors
/// [`OpenError::Newer`] and [`OpenError::Corrupt`] leave the file as it was; [`OpenError::Sqlite`] for everything else.
pub(super) fn open(path: &Path) -> Result<Connection, OpenError> {
    if path.exists() {
        inspect(path)?;
    }
    let failed = |source| OpenError::of(path, source);
    let mut db = Connection::open(path).map_err(failed)?;
    configure(&db).map_err(failed)?;
    create(&mut db).map_err(failed)?;
    let can_shrink: i64 = db
        .query_row("PRAGMA auto_vacuum", [], |row| row.get(0))
        .map_err(failed)?;
    let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
    if can_shrink != SHRINKS && size <= REWRITE_MAX {
        // A file of an earlier fnd cannot shrink. If there is no room to rewrite it, it keeps its size, and its free
        // pages are used again.
        if let Err(error) = db.execute_batch("PRAGMA auto_vacuum = incremental; VACUUM") {
            tracing::warn!("failed to write the ledger anew ({error}), its file will not shrink");
        }
    }
    Ok(db)
}

/// Creates a database that no other program sees before it is complete, so nothing of it is synced.
///
/// # Errors
/// From the database.
pub(super) fn build(path: &Path) -> rusqlite::Result<Connection> {
    let mut db = Connection::open(path)?;
    db.pragma_update(None, "auto_vacuum", SHRINKS)?;
    db.pragma_update(None, "journal_mode", "off")?;
    db.pragma_update(None, "synchronous", "off")?;
    create(&mut db)?;
    Ok(db)
}

/// Opens the database for reading only.
///
/// # Errors
/// [`OpenError::Sqlite`].
pub(super) fn open_read_only(path: &Path) -> Result<Connection, OpenError> {
    let failed = |source| OpenError::of(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(failed)?;
    configure_reading(&db).map_err(failed)?;
    Ok(db)
}

/// Makes a new database in memory.
///
/// # Errors
/// From the database.
pub(super) fn in_memory() -> rusqlite::Result<Connection> {
    let mut db = Connection::open_in_memory()?;
    create(&mut db)?;
    Ok(db)
}

pub(super) fn configure_reading(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(BUSY)?;
    db.pragma_update(None, "cache_size", CACHE_KIB)
}

/// How long a statement waits for a lock; only a user's `sqlite3` beside fnd can hold one.
const BUSY: std::time::Duration = std::time::Duration::from_secs(2);

/// `auto_vacuum = incremental`: free pages can be given back to the disk.
const SHRINKS: i64 = 2;

/// Page cache of each connection, in negative KiB: the kernel caches the file anyway, and fnd should be small.
const CACHE_KIB: i64 = -1024;

/// Number of 4 KiB pages in the write-ahead log from which [`checkpoint`] copies them into the database. New work waits
/// behind the copy: with SQLite's default of 1000 pages the p99 of a retention step, in ten million rows, was 21 ms; with
/// this value it was 11 to 16 ms.
const CHECKPOINT_PAGES: u32 = 250;

/// Copies the write-ahead log into the database if it has become long. The writer does this after it has acknowledged a
/// commit; SQLite would do it inside the commit, and the caller would wait for it.
pub(super) fn checkpoint(db: &Connection, LogPages { pages, copied }: LogPages) {
    if pages >= CHECKPOINT_PAGES && copied < pages {
        // Nothing is lost if this fails: what is in the log is stored, and the next call tries again.
        let _ = db.query_row("PRAGMA wal_checkpoint(passive)", (), |_| Ok(()));
    }
}

fn configure(db: &Connection) -> rusqlite::Result<()> {
    keep_log_on_close(db, true)?;
    db.busy_timeout(BUSY)?;
    // Before the first write: later it takes effect only when the file is rewritten.
    db.pragma_update(None, "auto_vacuum", SHRINKS)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    // With `normal` a power cut could lose commits that were acknowledged: SQLite syncs the log only before it copies it.
    db.pragma_update(None, "synchronous", "full")?;
    db.pragma_update(None, "cache_size", CACHE_KIB)?;
    // See `checkpoint`.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    // A burst must not leave a large file behind forever.
    db.pragma_update(None, "journal_size_limit", 16 << 20)?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Migrates a database to this schema; one that already has it is not written.
pub(super) fn create(db: &mut Connection) -> rusqlite::Result<()> {
    // The lock for writing is taken at once, so that no other program writes between the reading of the version and the
    // steps.
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // A version that is not a number was refused before.
    let found = schema_version(&transaction)?.and_then(|found| found.parse().ok());
    for step in STEPS.iter().skip(found.unwrap_or(0)) {
        transaction.execute_batch(step)?;
    }
    if found != Some(STEPS.len()) {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('schema', ?1)";
        transaction.execute(sql, [VERSION.to_string()])?;
    }
    transaction.execute_batch(ADDED)?;
    for (table, column, kind) in ADDED_COLUMNS {
        if !transaction.column_exists(None, table, column)? {
            transaction.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {kind}"))?;
        }
    }
    transaction.execute_batch("CREATE INDEX IF NOT EXISTS file_run ON file (run) WHERE run IS NOT NULL")?;
    transaction.commit()
}

/// Returns whether a database has the schema of this program.
pub(super) fn is_current(db: &Connection) -> rusqlite::Result<bool> {
    for (table, column, _) in ADDED_COLUMNS {
        if !db.column_exists(None, table, column)? {
            return Ok(false);
        }
    }
    Ok(schema_version(db)?.is_some_and(|found| found == VERSION.to_string()))
}

/// Returns the schema version; nothing for an empty database.
fn schema_version(db: &Connection) -> rusqlite::Result<Option<String>> {
    if !db.table_exists(None, "meta")? {
        return Ok(None);
    }
    db.query_row("SELECT value FROM meta WHERE key = 'schema'", [], |row| row.get(0))
        .optional()
}

/// Checks an existing database without changing it.
pub(super) fn inspect(path: &Path) -> Result<(), OpenError> {
    let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
    if size == 0 {
        // Created by an fnd that died before its first transaction: the file cannot have held data.
        return Ok(());
    }
    check(path, &open_read_only(path)?)
}

/// Like [`inspect`], with a connection that is open.
pub(super) fn check_existing(path: &Path, db: &Connection) -> Result<(), OpenError> {
    let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
    if size == 0 { Ok(()) } else { check(path, db) }
}

/// Returns whether the database has no tables.
pub(super) fn has_no_tables(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

/// Checks an open database without changing it.
pub(super) fn check(path: &Path, db: &Connection) -> Result<(), OpenError> {
    let failed = |source| OpenError::of(path, source);
    match schema_version(db).map_err(failed)? {
        Some(found) if found.parse().is_ok_and(|found| (1..=VERSION).contains(&found)) => {}
        Some(found) if found.parse::<u32>().is_ok_and(|found| found > VERSION) => {
            return Err(OpenError::Newer {
                path: path.into(),
                found,
            });
        }
        // No fnd has ever written such a version.
        Some(found) => return Err(OpenError::corrupt(path, format!("its schema version is `{found}`"))),
        // An empty database.
        None if has_no_tables(db).map_err(failed)? => {}
        None => {
            return Err(OpenError::corrupt(
                path,
                "it has tables, but not those of a ledger".to_owned(),
            ));
        }
    }
    let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
    if size > CHECK_MAX {
        return Ok(());
    }
    let verdict: String = db
        // Does not compare indexes with tables, which would be slow; `finds_what_waits` does that for the indexes of queued
        // work.
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(failed)?;
    if verdict != "ok" {
        return Err(OpenError::corrupt(path, verdict));
    }
    finds_what_waits(path, db)
}

/// Queued work is found by one index, and its payload by another. Work that they do not list would be lost silently.
fn finds_what_waits(path: &Path, db: &Connection) -> Result<(), OpenError> {
    let count = |sql: &str| {
        db.query_row(sql, [], |row| row.get::<_, u64>(0))
            .map_err(|source| OpenError::of(path, source))
    };
    // The `+` keeps SQLite from using the partial index for the condition; `NOT INDEXED` does not prevent that.
    let waiting = "SELECT count(*) FROM invocation WHERE";
    let there = count(&format!("{waiting} +{UNFINISHED}"))?;
    let found = count(&format!("{waiting} {UNFINISHED}"))?;
    let payloads = count(&format!(
        "SELECT count(*) FROM body WHERE +kind = 'payload'
        AND +invocation IN (SELECT id FROM invocation WHERE {UNFINISHED})"
    ))?;
    let found_payloads = count(&format!(
        "{waiting} {UNFINISHED} AND EXISTS (SELECT 1 FROM body WHERE invocation = id AND kind = 'payload')"
    ))?;
    if (there, payloads) != (found, found_payloads) {
        let what = format!(
            "{there} invocations have no end, and the index finds {found}; {payloads} payloads of those, and the index finds \
             {found_payloads}"
        );
        return Err(OpenError::corrupt(path, what));
    }
    Ok(())
}
