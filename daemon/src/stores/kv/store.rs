//! The database of the state: it is opened, and its statements.

use super::salvage;
use super::tables::{OpenError, SCHEMA, check_values, check_version, is_whole, lost_commits, totals};
use crate::database::{self, Replacement};
use crate::stores::database::{StoreDatabase, StorePlaces};
use fnd_core::api::{StateEntry, StateKeyView, StateKeys, StateScope, StateScopes, StateWritten};
use fnd_core::instant;
use fnd_core::kv::{KvCondition, KvRefusal, KvRequest, KvResponse, StoredValue, Totals};
use fnd_manifest::state_key::StateKey;
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};
use serde_json::value::RawValue;
use std::path::Path;

/// Bytes of free pages that are kept for further values.
const FREE_MAX: u64 = 16 << 20;

/// The database, opened for writing.
#[derive(Debug)]
pub(super) struct KvStore {
    pub(super) base: StoreDatabase,
    totals: Totals,
    /// Whether what it has is not confirmed yet.
    is_held: bool,
}

impl KvStore {
    /// Opens the database, or makes it. A damaged one is kept under another name; what can be read of it is held
    /// ([`KvStore::hold`]).
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn open(places: &StorePlaces, now_ms: u64) -> Result<Self, OpenError> {
        let replacement = Replacement::of(&places.state, super::FILE);
        let path = replacement.path();
        replacement.finish().map_err(|source| OpenError::SetAside {
            path: path.clone(),
            source,
        })?;
        // Before SQLite opens the database.
        let lost = lost_commits(places)?;
        let damage = match &lost {
            Some(lost) => lost.what.clone(),
            None => match Self::try_open(places, &path) {
                Err(error) if database::is_damage(&error) => error.to_string(),
                opened => return Ok(opened?),
            },
        };
        salvage::replace(replacement, lost.as_ref(), &damage, now_ms)?;
        Ok(Self::try_open(places, &path)?)
    }

    fn try_open(places: &StorePlaces, path: &Path) -> rusqlite::Result<Self> {
        // Damage is found before anything is written: the thread has no caller yet, and 256 MiB are read in a moment.
        let check = |db: &Connection| {
            let version = check_version(db)?;
            database::check_pages(db, "quick_check")?;
            if version > 0 { check_values(db) } else { Ok(()) }
        };
        let base = StoreDatabase::open(path, &places.run, &SCHEMA, check)?;
        Ok(Self {
            totals: totals(&base.db)?,
            is_held: salvage::hold(&base.db)?.is_some(),
            base,
        })
    }

    /// Returns why the state is not used: its files were changed by somebody, or what they have is not confirmed.
    pub(super) fn hold(&mut self) -> rusqlite::Result<Option<String>> {
        let wrong = self.base.present.wrong_or_short();
        if wrong.is_some() || !self.is_held {
            return Ok(wrong);
        }
        // `fndctl verify --repair` confirms it in the database.
        let why = salvage::hold(&self.base.db)?;
        self.is_held = why.is_some();
        Ok(why)
    }

    /// Performs requests in one transaction, which is on the disk when this returns.
    ///
    /// # Errors
    /// From SQLite; then nothing is changed.
    pub(super) fn transact(
        &mut self,
        asks: &[KvRequest],
        now_ms: u64,
    ) -> rusqlite::Result<Vec<Result<KvResponse, KvRefusal>>> {
        // Reads alone need no transaction of their own, so they cost no sync.
        if !asks.iter().any(KvRequest::changes) {
            return asks.iter().map(|ask| self.read(ask)).collect();
        }
        // A deferred transaction that reads first and then writes fails at once if another program has written in
        // between: SQLite does not wait then.
        let transaction = Transaction::new_unchecked(&self.base.db, TransactionBehavior::Immediate)?;
        let mut totals = self.totals;
        let mut told = Vec::with_capacity(asks.len());
        for ask in asks {
            told.push(match ask {
                KvRequest::Put { key, value, condition } => {
                    put(&transaction, &mut totals, (key, value, *condition), now_ms)?.map(KvResponse::Written)
                }
                KvRequest::Delete { key, condition } => {
                    delete(&transaction, &mut totals, key, *condition)?.map(KvResponse::Written)
                }
                KvRequest::Get(_) | KvRequest::Keys { .. } | KvRequest::Scopes => read(&transaction, ask)?,
            });
        }
        if totals.floor != self.totals.floor {
            database::execute(&transaction, "UPDATE floor SET version = ?1", [totals.floor])?;
        }
        transaction.commit()?;
        let smaller = totals.bytes < self.totals.bytes;
        // Taken over after the commit: a transaction that failed has changed nothing.
        self.totals = totals;
        if smaller {
            self.base.shrink(FREE_MAX)?;
        }
        self.base.written();
        Ok(told)
    }

    /// Writes a row as it is, to find out whether the disk takes writes.
    pub(super) fn probe(&mut self) -> rusqlite::Result<()> {
        self.base.db.execute("UPDATE floor SET version = version", [])?;
        self.base.written();
        Ok(())
    }

    /// Performs a request that changes nothing.
    pub(super) fn read(&self, ask: &KvRequest) -> rusqlite::Result<Result<KvResponse, KvRefusal>> {
        read(&self.base.db, ask)
    }
}

/// Returns the stored value of a key and its time of writing in Unix milliseconds.
fn present(db: &Connection, key: &StateKey) -> rusqlite::Result<Option<(StoredValue, u64)>> {
    let sql = "SELECT version, bytes, changed_ms FROM entry WHERE scope = ?1 AND key = ?2";
    database::first(db, sql, [key.scope(), key.key()], |row| {
        let present = StoredValue {
            version: row.get(0)?,
            bytes: row.get(1)?,
        };
        Ok((present, row.get(2)?))
    })
}

fn written(key: &StateKey, version: u64, changed_ms: u64) -> StateWritten {
    StateWritten {
        scope: key.scope().to_owned(),
        key: key.key().to_owned(),
        version,
        changed_at: instant::text(changed_ms),
    }
}

fn put(
    db: &Connection,
    totals: &mut Totals,
    (key, value, condition): (&StateKey, &str, KvCondition),
    now_ms: u64,
) -> rusqlite::Result<Result<StateWritten, KvRefusal>> {
    let bytes = (key.scope().len() + key.key().len() + value.len()) as u64;
    let found = present(db, key)?.map(|(present, _)| present);
    let (version, after) = match totals.put(found, condition, bytes) {
        Ok(allowed) => allowed,
        Err(refused) => return Ok(Err(refused)),
    };
    let checksum = crc32fast::hash(value.as_bytes());
    let sql = "INSERT INTO entry (scope, key, version, changed_ms, bytes, checksum, value)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT (scope, key) DO UPDATE SET version = excluded.version, changed_ms = excluded.changed_ms,
            bytes = excluded.bytes, checksum = excluded.checksum, value = excluded.value";
    let entry = params![key.scope(), key.key(), version, now_ms, bytes, checksum, value];
    database::execute(db, sql, entry)?;
    *totals = after;
    Ok(Ok(written(key, version, now_ms)))
}

fn delete(
    db: &Connection,
    totals: &mut Totals,
    key: &StateKey,
    condition: KvCondition,
) -> rusqlite::Result<Result<StateWritten, KvRefusal>> {
    let found = present(db, key)?;
    let (version, changed_ms) = found.map_or((0, 0), |(present, changed_ms)| (present.version, changed_ms));
    match totals.delete(found.map(|(present, _)| present), condition) {
        Ok(after) => *totals = after,
        Err(refused) => return Ok(Err(refused)),
    }
    let sql = "DELETE FROM entry WHERE scope = ?1 AND key = ?2";
    database::execute(db, sql, [key.scope(), key.key()])?;
    Ok(Ok(written(key, version, changed_ms)))
}

fn read(db: &Connection, ask: &KvRequest) -> rusqlite::Result<Result<KvResponse, KvRefusal>> {
    Ok(match ask {
        KvRequest::Get(key) => get(db, key)?.map(KvResponse::Entry).ok_or(KvRefusal::Missing),
        KvRequest::Keys {
            scope,
            prefix,
            after,
            limit,
        } => Ok(KvResponse::Keys(keys(db, scope, prefix, (after.as_deref(), *limit))?)),
        KvRequest::Scopes => Ok(KvResponse::Scopes(scopes(db)?)),
        // A change is performed in a transaction; here it finds nothing.
        KvRequest::Put { .. } | KvRequest::Delete { .. } => Err(KvRefusal::Missing),
    })
}

fn get(db: &Connection, key: &StateKey) -> rusqlite::Result<Option<StateEntry>> {
    let sql = "SELECT value, checksum, version, changed_ms FROM entry WHERE scope = ?1 AND key = ?2";
    database::first(db, sql, [key.scope(), key.key()], |row| {
        if !is_whole(row)? {
            return Err(database::damaged(format!(
                "the value of `{key}` is not what was written"
            )));
        }
        let value: String = row.get(0)?;
        let value = RawValue::from_string(value);
        Ok(StateEntry {
            scope: key.scope().to_owned(),
            key: key.key().to_owned(),
            // Only JSON is written.
            value: value.map_err(|error| database::damaged(format!("the value of `{key}` is no JSON: {error}")))?,
            version: row.get(2)?,
            changed_at: instant::text(row.get(3)?),
        })
    })
}

fn keys(
    db: &Connection,
    scope: &str,
    prefix: &str,
    (after, limit): (Option<&str>, u32),
) -> rusqlite::Result<StateKeys> {
    // Both are lower bounds: keys that begin with the prefix follow one another.
    let sql = "SELECT key, version, changed_ms, bytes FROM entry
        WHERE scope = ?1 AND key >= ?2 AND (?3 IS NULL OR key > ?3) ORDER BY key LIMIT +?4";
    let read = |row: &Row<'_>| {
        Ok(StateKeyView {
            key: row.get(0)?,
            version: row.get(1)?,
            changed_at: instant::text(row.get(2)?),
            bytes: row.get(3)?,
        })
    };
    // One more than the page shows whether there is a next page.
    let most = params![scope, prefix, after, u64::from(limit) + 1];
    let mut keys: Vec<StateKeyView> = database::all(db, sql, most, read)?;
    let behind = keys.iter().position(|view| !view.key.starts_with(prefix));
    keys.truncate(behind.unwrap_or(keys.len()));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_more = keys.len() > limit;
    keys.truncate(limit);
    let next = keys.last().filter(|_| is_more).map(|last| last.key.clone());
    Ok(StateKeys { keys, next })
}

fn scopes(db: &Connection) -> rusqlite::Result<StateScopes> {
    let sql = "SELECT scope, count(*), sum(bytes) FROM entry GROUP BY scope ORDER BY scope";
    let read = |row: &Row<'_>| {
        Ok(StateScope {
            scope: row.get(0)?,
            keys: row.get(1)?,
            bytes: row.get(2)?,
        })
    };
    let scopes = database::all(db, sql, [], read)?;
    Ok(StateScopes { scopes })
}
