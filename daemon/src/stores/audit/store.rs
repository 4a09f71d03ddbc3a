//! The database of the audit, its bounds, and queries.
//!
//! SQLite, because entries are searched by user, verb and function, and because refusals of a minute are counted in the row
//! that is there. It has a file of its own: a damaged or full audit must not stop the history, and the other way round.

use crate::database::{self, Replacement};
use crate::stores::database::{StoreDatabase, StorePlaces, StoreSchema};
use fnd_core::api::AuditEntry;
use fnd_core::audit::{AuditFilter, AuditKind, AuditPart, AuditedCalls, forgotten_first};
use fnd_core::instant;
use fnd_wire::ids::{FunctionName, InvocationId};
use rusqlite::types::Value;
use rusqlite::{Row, params, params_from_iter};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// `kind` is the place in [`AuditKind::ALL`], `size` about how many bytes the row needs. Refusals of a user, a verb and a status
/// within a minute are one row.
const SCHEMA: StoreSchema = StoreSchema {
    tables: "
    CREATE TABLE entry (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind INTEGER NOT NULL,
        minute INTEGER NOT NULL,
        at_ms INTEGER NOT NULL,
        uid INTEGER NOT NULL,
        user TEXT,
        pid INTEGER,
        exe TEXT,
        verb TEXT NOT NULL,
        function TEXT,
        invocation BLOB,
        status INTEGER NOT NULL,
        code TEXT,
        duration_us INTEGER NOT NULL,
        count INTEGER NOT NULL,
        size INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX of_kind ON entry (kind, id, size);
    CREATE UNIQUE INDEX refusal ON entry (minute, uid, verb, status) WHERE kind = 2;
",
    is_synced: false,
    cache_kib: -512,
};

/// Bytes of a row without its texts, with its places in the indexes.
const ROW: usize = 96;
/// Most entries that one step forgets.
const STEP: usize = 1000;
/// The part of the room that may be free pages before they are given back to the disk.
const FREE_SHARE: u64 = 16;

/// The database, opened for writing.
pub(super) struct AuditStore {
    pub(super) base: StoreDatabase,
    /// Bytes of the rows of each kind.
    bytes: [u64; 3],
}

impl AuditStore {
    /// Opens the database, or makes it. A damaged one is kept under another name, which says the time. The text that is
    /// returned says what is missing.
    pub(super) fn open(
        StorePlaces { state, run }: &StorePlaces,
        now_ms: u64,
    ) -> rusqlite::Result<(Self, Option<String>)> {
        let replacement = Replacement::of(state, super::FILE);
        let path = replacement.path();
        let shown = path.display();
        // Asked before SQLite opens the database, because opening could copy the rest of a damaged log into it.
        // If that cannot be read, nothing is known to be missing.
        let lost = database::lost_commits(run, &path).ok().flatten();
        match Self::try_open(&path, run) {
            Err(error) if database::is_damage(&error) => {
                let aside = replacement.set_aside(now_ms);
                let kept = aside.display();
                let damage = format!("the audit `{shown}` was damaged ({error}) and is kept as `{kept}`");
                Ok((Self::try_open(&path, run)?, Some(damage)))
            }
            opened => {
                let missing = lost.map(|lost| format!("entries of the audit `{shown}` are missing: {}", lost.what));
                Ok((opened?, missing))
            }
        }
    }

    fn try_open(path: &Path, run: &Path) -> rusqlite::Result<Self> {
        let base = StoreDatabase::open(path, run, &SCHEMA, |_| Ok(()))?;
        let mut bytes = [0; 3];
        for (place, sum) in bytes.iter_mut().enumerate() {
            let sql = "SELECT coalesce(sum(size), 0) FROM entry WHERE kind = ?1";
            *sum = base.db.query_row(sql, [place as u64], |row| row.get(0))?;
        }
        Ok(Self { base, bytes })
    }

    /// Stores entries with the names of their users, in one transaction.
    ///
    /// # Errors
    /// From SQLite; then none is stored.
    pub(super) fn add(&mut self, entries: &[(AuditedCalls, Option<Arc<str>>)]) -> rusqlite::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut bytes = self.bytes;
        let transaction = self.base.db.transaction()?;
        {
            // Refusals that share a row may differ in other columns: these become NULL, so that the row says nothing wrong.
            let mut insert = transaction.prepare_cached(
                "INSERT INTO entry (kind, minute, at_ms, uid, user, pid, exe, verb, function, invocation, status, code,
                    duration_us, count, size)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
                ON CONFLICT (minute, uid, verb, status) WHERE kind = 2 DO UPDATE SET
                    count = count + excluded.count,
                    pid = iif(pid IS excluded.pid, pid, NULL),
                    exe = iif(exe IS excluded.exe, exe, NULL),
                    function = iif(function IS excluded.function, function, NULL),
                    invocation = iif(invocation IS excluded.invocation, invocation, NULL),
                    code = iif(code IS excluded.code, code, NULL)
                RETURNING count",
            )?;
            for (entry, user) in entries {
                let texts = [
                    entry.exe.as_deref(),
                    user.as_deref(),
                    entry.code.as_deref(),
                    Some(entry.verb),
                ];
                let function = entry.function.as_ref().map(FunctionName::as_str);
                let size =
                    ROW + texts.iter().flatten().map(|text| text.len()).sum::<usize>() + function.map_or(0, str::len);
                let kind = entry.kind() as usize;
                let count: u64 = insert.query_row(
                    params![
                        kind as u64,
                        entry.minute(),
                        entry.at_ms,
                        entry.uid,
                        user.as_deref(),
                        entry.pid,
                        entry.exe.as_deref(),
                        entry.verb,
                        function,
                        entry.invocation.map(|id| id.0.to_be_bytes()),
                        entry.status.unwrap_or(0),
                        entry.code,
                        entry.duration_us,
                        entry.count,
                        size as u64
                    ],
                    |row| row.get(0),
                )?;
                // With a larger count the row was there before, and its bytes are counted already.
                if let Some(sum) = bytes.get_mut(kind).filter(|_| count == entry.count) {
                    *sum += size as u64;
                }
            }
        }
        transaction.commit()?;
        // Taken over after the commit: the entries of a transaction that failed do not count.
        self.bytes = bytes;
        self.base.written();
        Ok(())
    }

    /// Forgets entries that are too old, and while the database is too large the oldest of the kind that uses most.
    pub(super) fn forget(&mut self, now_ms: u64, keep_for: Duration, bytes_max: u64) -> rusqlite::Result<()> {
        let keep_ms = u64::try_from(keep_for.as_millis()).unwrap_or(u64::MAX);
        let before_ms = now_ms.saturating_sub(keep_ms);
        for kind in AuditKind::ALL {
            while self.forget_step(kind, before_ms)? > 0 {}
        }
        // The integers of SQLite have a sign, so this is the latest time that it can compare.
        while self.used()? > bytes_max && self.forget_step(forgotten_first(self.bytes), u64::MAX >> 1)? > 0 {}
        self.base.shrink(bytes_max / FREE_SHARE)?;
        self.base.written();
        Ok(())
    }

    /// Forgets some of the oldest entries of a kind, as long as they are from before a time. Returns how many.
    fn forget_step(&mut self, kind: AuditKind, before_ms: u64) -> rusqlite::Result<usize> {
        // Each row is read when its turn comes, because mostly the first one is too young already. `+`: SQLite compiles a statement
        // anew at each use if a parameter could decide whether the index with `WHERE kind = 2` applies, or is a `LIMIT`.
        let sql = "SELECT id, size, at_ms FROM entry WHERE kind = +?1 ORDER BY id";
        let mut statement = self.base.db.prepare_cached(sql)?;
        let rows = statement.query_map([kind as u64], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let (mut last, mut bytes) = (None, 0);
        for row in rows.take(STEP) {
            let (id, size, at_ms): (i64, u64, u64) = row?;
            // Rows are in the order in which they came, so those behind this one are newer too, unless the clock was
            // set back.
            if at_ms >= before_ms {
                break;
            }
            last = Some(id);
            bytes += size;
        }
        let Some(last) = last else { return Ok(0) };
        let sql = "DELETE FROM entry WHERE kind = +?1 AND id <= ?2";
        let count = database::execute(&self.base.db, sql, params![kind as u64, last])?;
        if let Some(sum) = self.bytes.get_mut(kind as usize) {
            *sum = sum.saturating_sub(bytes);
        }
        Ok(count)
    }

    /// Returns the bytes of pages in use.
    fn used(&self) -> rusqlite::Result<u64> {
        let sql = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()";
        self.base.db.prepare_cached(sql)?.query_row([], |row| row.get(0))
    }
}

/// Lists the entries of a page, newest first; none if there is no database.
pub(super) fn list(path: &Path, filter: &AuditFilter) -> rusqlite::Result<AuditPart> {
    if !path.exists() {
        return Ok(AuditPart::default());
    }
    let db = database::open_read_only(path)?;
    let mut sql =
        "SELECT id, at_ms, uid, user, pid, exe, verb, function, invocation, status, code, kind, duration_us, count
        FROM entry WHERE id < ?"
            .to_owned();
    let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let before = filter.after.unwrap_or_default().entry;
    let mut values = vec![number(u64::try_from(before).unwrap_or(u64::MAX))];
    let mut add = |condition: &str, value: Value| {
        sql.push_str(" AND ");
        sql.push_str(condition);
        values.push(value);
    };
    let is_uid = filter.user.as_deref().is_some_and(|user| user.parse::<u32>().is_ok());
    let of_user = if is_uid { "uid = CAST(? AS INTEGER)" } else { "user = ?" };
    let refused = filter.refused.then_some(AuditKind::Refusal as u64);
    let function = filter.function.as_ref().map(ToString::to_string);
    for (condition, value) in [
        ("function = ?", function.map(Value::Text)),
        (of_user, filter.user.clone().map(Value::Text)),
        ("verb = ?", filter.verb.clone().map(Value::Text)),
        ("kind = ?", refused.map(number)),
        ("at_ms >= ?", filter.since_ms.map(number)),
        ("at_ms < ?", filter.until_ms.map(number)),
    ] {
        if let Some(value) = value {
            add(condition, value);
        }
    }
    // One more than the page shows whether there is a next page.
    add("1 ORDER BY id DESC LIMIT ?", number(u64::from(filter.limit) + 1));
    let read = |row: &Row<'_>| Ok((u128::from(row.get::<_, u64>(0)?), entry(row)?));
    let mut found: Vec<(u128, AuditEntry)> = database::all(&db, &sql, params_from_iter(values), read)?;
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let more = found.len() > limit;
    found.truncate(limit);
    let rest = found.last().map(|(place, _)| *place).filter(|_| more);
    Ok(AuditPart { found, rest })
}

fn entry(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    let function: Option<String> = row.get(7)?;
    let invocation: Option<[u8; 16]> = row.get(8)?;
    let status: u16 = row.get(9)?;
    Ok(AuditEntry {
        time: instant::text(row.get(1)?),
        uid: row.get(2)?,
        user: row.get(3)?,
        pid: row.get(4)?,
        exe: row.get(5)?,
        verb: row.get(6)?,
        function: function.and_then(|name| FunctionName::new(&name).ok()),
        invocation: invocation.map(|id| InvocationId(u128::from_be_bytes(id))),
        status: Some(status).filter(|status| *status > 0),
        code: row.get(10)?,
        refused: row.get::<_, u64>(11)? == AuditKind::Refusal as u64,
        duration_us: row.get(12)?,
        count: row.get(13)?,
    })
}
