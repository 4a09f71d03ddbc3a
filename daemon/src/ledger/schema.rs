//! The tables of the ledger, and the code that opens a database so that no data is lost or misread.
//!
//! There are tables only for data that is used. Queued work has none: it is the unfinished part of `invocation` (index
//! `unfinished`). Every attempt has a row in `attempt`: this gives one shape to read, for one more insert on the
//! ledger's thread.

use super::rows::{UNFINISHED, UNFINISHED_OF_0_1_0};
use super::{OpenError, meta};
use crate::database::{self, BUSY, LogPages, keep_log_on_close};
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;

/// The schema that this program writes. A newer one is refused and not changed.
pub const VERSION: u32 = 10;

/// The schema of release 0.1.0, which is migrated. All other ones below [`VERSION`] were in no release, and are refused: development
/// versions wrote the same number with different tables.
pub(super) const RELEASED: u32 = 3;

/// Largest database that is checked as a whole when it is opened: reading 64 MiB takes under a second, and functions
/// wait for it. Damage in a larger database is found when the damaged part is read.
const CHECK_MAX: u64 = 64 << 20;

/// The tables of 0.1.0, with the columns that they have now. Ids are 16 bytes, big-endian, so that they sort by time. Times
/// are Unix milliseconds. Enumerated values are the words of the API.
///
/// The order of tables, indexes and columns is that of a migrated database: `salvage` gives a damaged database the first
/// page of a new one, and then the trees must begin at the same pages.
const TABLES: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE function (
        name TEXT PRIMARY KEY,
        enabled INTEGER NOT NULL DEFAULT 1,
        runs INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0,
        last_invocation BLOB,
        last_attempt INTEGER,
        -- Number of its dead letters.
        dead INTEGER NOT NULL DEFAULT 0,
        -- Whether a user has paused its schedules.
        paused INTEGER NOT NULL DEFAULT 0,
        -- The user who has disabled it, and when.
        disabled_uid INTEGER,
        disabled_ms INTEGER
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
        result BLOB,
        -- For a handler, as JSON of core: the request, and what the function chose beside the bytes of its result.
        request TEXT,
        response TEXT,
        -- Null if the payload was not kept: the row was first stored with its end.
        priority INTEGER,
        -- The idempotency key.
        key TEXT,
        -- The invocation that this one repeats.
        origin BLOB,
        -- 1: a dead letter, 0: never becomes one.
        dead INTEGER,
        -- What made a trigger run the function, as JSON of core; kept as long as the row.
        cause TEXT,
        -- `failed` if a function that a hook of the invocation called has failed.
        hook TEXT,
        -- The node whose record of the same work counts, in place of this one.
        superseded_by TEXT,
        -- The caller of the control socket, where the audit finds the call in this row.
        caller_uid INTEGER,
        caller_pid INTEGER,
        caller_exe TEXT,
        caller_verb TEXT
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX by_function ON invocation (function, id);
    CREATE INDEX unfinished ON invocation (id)
        WHERE (state = 'queued' OR state = 'running' OR state = 'waiting' OR state = 'polling');
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
        -- Whether the attempt started its worker, and whether the numbers are those of a shared worker.
        cold INTEGER,
        scope_worker INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (invocation, n)
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE body (
        invocation BLOB NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('payload', 'result')),
        data BLOB NOT NULL,
        -- Null in a row of 0.1.0.
        checksum INTEGER,
        PRIMARY KEY (invocation, kind)
    ) STRICT;
    -- Contents that have run as `load`. Never deleted from: they must not run again.
    CREATE TABLE load (function TEXT NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (function, hash)) WITHOUT ROWID, STRICT;
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
    -- Installed versions that are on the disk, oldest first, 32 bytes each.
    CREATE TABLE versions (function TEXT PRIMARY KEY, installed BLOB NOT NULL) WITHOUT ROWID, STRICT;
";

/// The columns that the tables of 0.1.0 lack.
const NEW_COLUMNS: &str = "
    ALTER TABLE invocation ADD COLUMN cause TEXT;
    ALTER TABLE invocation ADD COLUMN hook TEXT;
    ALTER TABLE invocation ADD COLUMN superseded_by TEXT;
    ALTER TABLE invocation ADD COLUMN caller_uid INTEGER;
    ALTER TABLE invocation ADD COLUMN caller_pid INTEGER;
    ALTER TABLE invocation ADD COLUMN caller_exe TEXT;
    ALTER TABLE invocation ADD COLUMN caller_verb TEXT;
    ALTER TABLE function ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE function ADD COLUMN disabled_uid INTEGER;
    ALTER TABLE function ADD COLUMN disabled_ms INTEGER;
    ALTER TABLE body ADD COLUMN checksum INTEGER;
";

/// The tables and indexes that 0.1.0 lacks.
const NEW_TABLES: &str = "
    -- The last slot of each schedule that was handled.
    CREATE TABLE schedule (
        function TEXT NOT NULL,
        key TEXT NOT NULL,
        last_ms INTEGER NOT NULL,
        -- An earlier mark that was too far ahead of the clock: the slots up to it were handled, too.
        ahead_ms INTEGER,
        PRIMARY KEY (function, key)
    ) WITHOUT ROWID, STRICT;
    -- Releases of a function and which one is held, as JSON of core.
    CREATE TABLE release (function TEXT PRIMARY KEY, releases TEXT NOT NULL) WITHOUT ROWID, STRICT;
    -- Events that were accepted: a digest of source and id, and what came of the event, as JSON of core.
    CREATE TABLE event (key TEXT PRIMARY KEY, accepted_ms INTEGER NOT NULL, delivered TEXT NOT NULL) WITHOUT ROWID, STRICT;
    CREATE INDEX event_by_time ON event (accepted_ms);
    -- Ended invocations of which it is not decided yet what follows: hooks and alerts.
    CREATE TABLE unfollowed (invocation BLOB PRIMARY KEY) WITHOUT ROWID, STRICT;
    -- What was told of a function, as JSON of core; the empty name stands for the node.
    CREATE TABLE alert (about TEXT PRIMARY KEY, health TEXT NOT NULL) WITHOUT ROWID, STRICT;
    -- Files whose content is handled, and the invocation after which something is to be done with them. `run` is the run
    -- that had the content first: a run that repeats that one finds the file by it.
    CREATE TABLE file (
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
        run BLOB,
        PRIMARY KEY (function, directory, inode)
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX file_after ON file (after) WHERE after IS NOT NULL;
    CREATE INDEX file_run ON file (run) WHERE run IS NOT NULL;
    -- Since when functions watch directories.
    CREATE TABLE watched (
        function TEXT NOT NULL,
        directory TEXT NOT NULL,
        since_ms INTEGER NOT NULL,
        PRIMARY KEY (function, directory)
    ) WITHOUT ROWID, STRICT;
    -- What functions have called, by the invocation that called. The condition and the expression are those of `CALLED`
    -- and `PARENT` in rows.rs. A damaged cause has no parent.
    CREATE INDEX children ON invocation
        (CASE WHEN json_valid(cause) THEN json_extract(cause, '$.call.invocation') END, id) WHERE trigger = 'function';
    -- Messages of NATS that this node has, or had within the time that events are remembered; the key is that of the claim.
    CREATE TABLE message (
        invocation BLOB PRIMARY KEY,
        function TEXT NOT NULL,
        key TEXT NOT NULL,
        stream TEXT NOT NULL,
        -- When the stream was made, nanoseconds since 1970.
        created_ns INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        consumer TEXT NOT NULL,
        -- Where the server expects the acknowledgement, also after a restart.
        ack TEXT NOT NULL,
        -- The revision of the claim, as this node wrote it; null if it does not know one.
        revision INTEGER,
        step TEXT NOT NULL,
        received_ms INTEGER NOT NULL,
        -- Attempts that other nodes have begun; the end of the last one is not known.
        begun INTEGER NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE UNIQUE INDEX message_key ON message (function, key);
    CREATE INDEX message_open ON message (invocation) WHERE (step = 'open' OR step = 'accepted' OR step = 'ending');
    CREATE INDEX message_by_time ON message (received_ms);
    -- The runs that the audit lists.
    CREATE INDEX audited ON invocation (id) WHERE caller_uid IS NOT NULL;
";

/// Opens the database for writing; creates it if it does not exist, and checks it if it does.
///
/// # Errors
/// [`OpenError::Newer`], [`OpenError::Older`] and [`OpenError::Corrupt`] leave the file as it was; [`OpenError::Sqlite`] for everything else.
pub(super) fn open(path: &Path) -> Result<Connection, OpenError> {
    if path.exists() {
        inspect(path)?;
    }
    let failed = |source| OpenError::of(path, source);
    let mut db = Connection::open(path).map_err(failed)?;
    configure(&db).map_err(failed)?;
    create(&mut db).map_err(failed)?;
    Ok(db)
}

/// Creates a database that no other program sees before it is complete, so nothing of it is synced.
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
    let db = database::open_read_only(path).map_err(failed)?;
    configure_reading(&db).map_err(failed)?;
    Ok(db)
}

/// Makes a new database in memory.
pub(super) fn in_memory() -> rusqlite::Result<Connection> {
    let mut db = Connection::open_in_memory()?;
    create(&mut db)?;
    Ok(db)
}

pub(super) fn configure_reading(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(BUSY)?;
    db.pragma_update(None, "cache_size", CACHE_KIB)
}

/// `auto_vacuum = incremental`: free pages can be given back to the disk.
const SHRINKS: i64 = 2;

/// Page cache of each connection, in negative KiB: the kernel caches the file anyway, and fnd should be small.
const CACHE_KIB: i64 = -1024;

/// Number of 4 KiB pages in the write-ahead log from which [`checkpoint`] copies them into the database. New work waits
/// behind the copy: with SQLite's default of 1000 pages the p99 of a retention step, in ten million rows, was 21 ms; with
/// this value it was 11 to 16 ms.
const CHECKPOINT_PAGES: u32 = 250;

/// Copies the write-ahead log into the database if it has become long. The writer does this after it has acknowledged a
/// commit; SQLite would do it inside the commit, and the caller would wait for it. Returns whether it wrote to the database.
pub(super) fn checkpoint(db: &Connection, LogPages { pages, copied }: LogPages) -> bool {
    let is_long = pages >= CHECKPOINT_PAGES && copied < pages;
    if is_long {
        // Nothing is lost if this fails: what is in the log is stored, and the next call tries again.
        let _ = db.query_row("PRAGMA wal_checkpoint(passive)", (), |_| Ok(()));
    }
    is_long
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
    // rusqlite keeps 16 statements by default; the ledger repeats more than that.
    db.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Makes the tables in a new database, and migrates one of 0.1.0; one that has this schema is not written.
pub(super) fn create(db: &mut Connection) -> rusqlite::Result<()> {
    // The lock for writing is taken at once, so that no other program writes between the reading of the version and the
    // changes.
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match schema_version(&transaction)? {
        // `check` lets no other version but this one and that of 0.1.0 come here.
        Some(found) if found == VERSION.to_string() => return transaction.commit(),
        Some(_) => {
            transaction.execute_batch(NEW_COLUMNS)?;
            renew_condition(&transaction)?;
        }
        None => transaction.execute_batch(TABLES)?,
    }
    transaction.execute_batch(NEW_TABLES)?;
    meta::set(&transaction, "schema", &VERSION.to_string())?;
    transaction.commit()
}

/// Gives the index of unfinished work in a ledger of 0.1.0 the condition that it has now. The old one says the same, so the index stays
/// as it is, at its page.
fn renew_condition(db: &Connection) -> rusqlite::Result<()> {
    let renewed = format!("CREATE INDEX unfinished ON invocation (id) WHERE {UNFINISHED}");
    db.pragma_update(None, "writable_schema", "on")?;
    db.execute("UPDATE sqlite_schema SET sql = ?1 WHERE name = 'unfinished'", [renewed])?;
    // The schema is read again: this connection still has the old condition.
    db.pragma_update(None, "writable_schema", "reset")
}

/// Returns whether a database has the schema of this program.
pub(super) fn is_current(db: &Connection) -> rusqlite::Result<bool> {
    Ok(schema_version(db)?.is_some_and(|found| found == VERSION.to_string()))
}

/// Returns the schema version; nothing for an empty database.
fn schema_version(db: &Connection) -> rusqlite::Result<Option<String>> {
    if !db.table_exists(None, "meta")? {
        return Ok(None);
    }
    meta::get(db, "schema")
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

/// Checks an open database without changing it.
pub(super) fn check(path: &Path, db: &Connection) -> Result<(), OpenError> {
    let failed = |source| OpenError::of(path, source);
    let found = schema_version(db).map_err(failed)?;
    let number = found.as_deref().and_then(|found| found.parse().ok());
    match found {
        Some(_) if number == Some(RELEASED) || number == Some(VERSION) => {}
        Some(found) if number > Some(VERSION) => {
            let path = path.into();
            return Err(OpenError::Newer { path, found });
        }
        Some(found) if number > Some(0) => {
            let path = path.into();
            return Err(OpenError::Older { path, found });
        }
        // No fnd has ever written such a version.
        Some(found) => return Err(OpenError::corrupt(path, format!("its schema version is `{found}`"))),
        // An empty database.
        None if database::has_no_tables(db).map_err(failed)? => {}
        None => {
            let what = "it has tables, but not those of a ledger";
            return Err(OpenError::corrupt(path, what.to_owned()));
        }
    }
    let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
    if size > CHECK_MAX {
        return Ok(());
    }
    // Does not compare indexes with tables, which would be slow; `finds_what_waits` does that for the indexes of queued
    // work.
    database::check_pages(db, "quick_check").map_err(failed)?;
    let unfinished = match number {
        Some(RELEASED) => UNFINISHED_OF_0_1_0,
        _ => UNFINISHED,
    };
    finds_what_waits(db, unfinished).map_err(failed)
}

/// Queued work is found by one index, and its payload by another. Work that they do not list would be lost silently. `unfinished` is the
/// condition of the first index.
fn finds_what_waits(db: &Connection, unfinished: &str) -> rusqlite::Result<()> {
    let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, u64>(0));
    // The `+` keeps SQLite from using the partial index for the condition; `NOT INDEXED` does not prevent that.
    let waiting = "SELECT count(*) FROM invocation WHERE";
    let there = count(&format!("{waiting} +({unfinished})"))?;
    let found = count(&format!("{waiting} {unfinished}"))?;
    let payloads = count(&format!(
        "SELECT count(*) FROM body WHERE +kind = 'payload'
        AND +invocation IN (SELECT id FROM invocation WHERE {unfinished})"
    ))?;
    let found_payloads = count(&format!(
        "{waiting} {unfinished} AND EXISTS (SELECT 1 FROM body WHERE invocation = id AND kind = 'payload')"
    ))?;
    if (there, payloads) != (found, found_payloads) {
        let what = format!(
            "{there} invocations have no end, and the index finds {found}; {payloads} payloads of those, and the index finds \
             {found_payloads}"
        );
        return Err(database::damaged(what));
    }
    Ok(())
}
