//! Copies the readable rows of a damaged database into a new one, and reports whether any row that must not be lost is
//! missing.
//!
//! ```text
//! its log is damaged or gone ─▶ a link to the file, with the log written anew or without one ─┐
//! the file as it is ──────────────────────────────────────────────────────────────────────────┴▶ ...
//!     its schema can be read ─▶ rows by key, forwards and backwards, then by the keys in indexes
//!     it cannot ─▶ a copy with the first page of a new database (`graft`) ─▶ the same
//! ```
//! Without its log, or with a damaged one, a database is of an earlier moment: work that waits in it may have run since.
//! It changes nothing in the damaged files. It decides only [`Salvaged::hold`]; `damage` decides what happens to the
//! files.
//!
//! Files:
//! - `damage`: replaces a damaged database with a new one that has all readable rows, and keeps the damaged one under
//!   another name
//! - `examine`: checks a whole ledger for `fndctl verify` and `fndctl backup --verify`; for `--repair` it also
//!   confirms notices and sets a damaged ledger aside
//! - `graft`: copies a database whose beginning is damaged, and gives the copy the first page and the schema of a new
//!   database

pub(super) mod damage;
pub mod examine;
mod graft;

use super::rows::{self, ATTEMPT, FAILED, RECORD, UNFINISHED, UNFINISHED_OF_0_1_0};
use super::{OpenError, messages, restore, schema};
use crate::database::table::{Copier, DatabaseTable, Read};
use crate::database::{self, Copies, LostCommits, linked};
use fnd_core::records::Response;
use fnd_core::records::cause::Cause;
use fnd_wire::ids::FunctionName;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// The result of a salvage.
#[derive(Debug, Default)]
pub(super) struct Salvaged {
    /// Number of invocations in the new database.
    pub(super) invocations: u64,
    /// How many of them have not ended.
    pub(super) unfinished: u64,
    /// Tables in which rows may be missing.
    pub(super) damaged: Vec<&'static str>,
    /// Why durable work has to be refused; nothing if it need not be.
    pub(super) hold: Option<String>,
    /// Whether the rows may be of an earlier moment.
    pub(super) is_behind: bool,
}

/// The tables, each with its key.
const FUNCTION: DatabaseTable = DatabaseTable::new("function", &["name"]);
const LOAD: DatabaseTable = DatabaseTable::new("load", &["function", "hash"]);
const VERSIONS: DatabaseTable = DatabaseTable::new("versions", &["function"]);
const RELEASES: DatabaseTable = DatabaseTable::new("release", &["function"]);
const INVOCATION: DatabaseTable = DatabaseTable::new("invocation", &["id"]);
const ATTEMPTS: DatabaseTable = DatabaseTable::new("attempt", &["invocation", "n"]);
const BODIES: DatabaseTable = DatabaseTable::new("body", &["invocation", "kind"]).by_rowid();
const MESSAGES: DatabaseTable = DatabaseTable::new("message", &["invocation"]);
const TABLES: [&DatabaseTable; 15] = [
    &DatabaseTable::new("meta", &["key"]),
    &FUNCTION,
    &LOAD,
    &VERSIONS,
    &RELEASES,
    &DatabaseTable::new("schedule", &["function", "key"]),
    &INVOCATION,
    &ATTEMPTS,
    &BODIES,
    &DatabaseTable::new("event", &["key"]),
    &DatabaseTable::new("unfollowed", &["invocation"]),
    &DatabaseTable::new("alert", &["about"]),
    &DatabaseTable::new("file", &["function", "directory", "inode"]),
    &DatabaseTable::new("watched", &["function", "directory"]),
    &MESSAGES,
];
/// Tables that a ledger of 0.1.0 does not have.
const ADDED_LATER: [&str; 8] = [
    "release",
    "schedule",
    "event",
    "unfollowed",
    "alert",
    "file",
    "watched",
    "message",
];

/// Reads a damaged database into a new one, which must not exist yet. `lost` says what its log misses. The new one is synced to disk when this returns.
///
/// # Errors
/// [`OpenError`] if the new database cannot be written.
pub(super) fn salvage(from: &Path, to: &Path, lost: Option<&LostCommits>) -> Result<Salvaged, OpenError> {
    let failed = |source| OpenError::of(to, source);
    let not_set_aside = |source| OpenError::set_aside(to, source);
    let source = DamagedDatabase::open(from, to, lost).map_err(not_set_aside)?;
    let mut new = schema::build(to).map_err(failed)?;
    let transaction = new.transaction().map_err(failed)?;
    let mut salvaged = match &source {
        Some(source) => fill(&source.db, &transaction).map_err(failed)?,
        None => Salvaged {
            damaged: TABLES.iter().map(|table| table.name).collect(),
            hold: Some("queued work and which scripts have run by being there".to_owned()),
            ..Salvaged::default()
        },
    };
    salvaged.is_behind = lost.is_some() || source.as_ref().is_some_and(|source| source.leaves_log_out);
    if salvaged.is_behind {
        let hold = salvaged.hold.map_or_else(String::new, |hold| format!(", {hold}"));
        salvaged.hold = Some(format!("the newest records{hold}"));
    }
    transaction.commit().map_err(failed)?;
    drop(new);
    // The new database was built without any sync, and it is about to replace the damaged one.
    let synced = std::fs::File::open(to).and_then(|file| file.sync_all());
    synced.map_err(not_set_aside)?;
    Ok(salvaged)
}

/// The damaged database, or a copy of it that can be opened.
struct DamagedDatabase {
    db: Connection,
    _copies: Option<Copies>,
    /// Whether there is a log that was not read.
    leaves_log_out: bool,
}

impl DamagedDatabase {
    /// Returns nothing if no row can be read. Errors come from making the copy.
    fn open(path: &Path, to: &Path, lost: Option<&LostCommits>) -> io::Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let linked = lost.map(|lost| linked(path, to, lost)).transpose()?;
        // The link is read instead of the damaged database; the log that it is to have is beside it.
        let from = linked.as_ref().and_then(Copies::database).unwrap_or(path).to_owned();
        if let Some(db) = readable(&from) {
            return Ok(Some(Self {
                db,
                _copies: linked,
                leaves_log_out: false,
            }));
        }
        let mut best: Option<(usize, Self)> = None;
        for graft in graft::ALL {
            let copies = Copies(graft.make(&from, to)?);
            let Some(db) = copies.database().and_then(readable) else {
                continue;
            };
            let source = Self {
                db,
                _copies: Some(copies),
                leaves_log_out: graft.leaves_log_out(&from),
            };
            let wrong = WrongSalvage::of(&source.db).map_or(usize::MAX, |wrong| wrong.much());
            // Of equally good copies the first one stays, since the kinds are in the order of preference.
            if best.as_ref().is_none_or(|(least, _)| wrong < *least) {
                best = Some((wrong, source));
            }
        }
        Ok(best.map(|(_, source)| source))
    }
}

/// Opens a database whose schema can be read.
fn readable(path: &Path) -> Option<Connection> {
    schema::open_read_only(path).ok().filter(has_tables)
}

/// Returns whether the schema can be read and is that of a ledger.
fn has_tables(db: &Connection) -> bool {
    let mut wanted = TABLES.iter().filter(|table| !ADDED_LATER.contains(&table.name));
    wanted.all(|table| db.table_exists(None, table.name) == Ok(true))
}

/// The damage that SQLite finds in a database.
#[derive(Debug, Default)]
struct WrongSalvage {
    /// Root pages of damaged trees.
    roots: BTreeSet<u32>,
    /// Number of rows that do not belong to their table.
    rows: usize,
    /// Tables with a row that has a value which its column cannot have: the other columns of the row may be wrong, too.
    tables: BTreeSet<String>,
    /// SQLite could not check all rows.
    broken_off: bool,
}

impl WrongSalvage {
    /// Returns nothing if SQLite cannot check the database.
    fn of(db: &Connection) -> Option<Self> {
        let mut statement = db.prepare("PRAGMA quick_check(10000)").ok()?;
        let texts = statement.query_map([], |row| row.get::<_, String>(0)).ok()?;
        let mut wrong = Self::default();
        for (n, text) in texts.enumerate() {
            // SQLite first checks all trees and reports the damage. Then it reads all rows, and this can break off.
            let text = match text {
                Ok(text) => text,
                Err(_) if n == 0 => return None,
                Err(_) => {
                    wrong.broken_off = true;
                    break;
                }
            };
            for line in text.lines() {
                // "NULL value in invocation.message"
                let column = line.split_once(" value in ").map(|(_, column)| column);
                let table = column.and_then(|column| column.split('.').next());
                wrong.tables.extend(table.map(str::to_owned));
                // "Tree 12 page 40 cell 3: ..."
                let number = line.strip_prefix("Tree ").and_then(|rest| rest.split(' ').next());
                match number.and_then(|number| number.parse().ok()) {
                    Some(root) => drop(wrong.roots.insert(root)),
                    // Reports about free pages and about pointers between pages belong to no tree.
                    None if ["Page ", "Freelist", "***", "ok"]
                        .iter()
                        .any(|begin| line.starts_with(begin)) => {}
                    None => wrong.rows += 1,
                }
            }
        }
        Some(wrong)
    }

    /// Returns a measure of the damage; larger is worse.
    fn much(&self) -> usize {
        self.roots.len() + self.rows + if self.broken_off { 1 << 20 } else { 0 }
    }
}

/// Returns the names of tables and indexes whose trees may be damaged, and of tables with a damaged row; nothing if SQLite
/// cannot check that.
fn damaged_trees(db: &Connection) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
    let WrongSalvage { roots, tables, .. } = WrongSalvage::of(db)?;
    let sql = "SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0";
    let trees: Vec<(String, u32)> = database::all(db, sql, [], |row| Ok((row.get(0)?, row.get(1)?))).ok()?;
    let damaged = trees.into_iter().filter(|(_, root)| roots.contains(root));
    Some((damaged.map(|(name, _)| name).collect(), tables))
}

/// Copies all rows that can be read. Errors come from the new database.
fn fill(from: &Connection, to: &Connection) -> rusqlite::Result<Salvaged> {
    let damaged = damaged_trees(from);
    let is_sound = |tree: &str| damaged.as_ref().is_some_and(|(trees, _)| !trees.contains(tree));
    // The state of such a row may be wrong, so that queued work seems to have ended.
    let has_damaged_row =
        |table: &DatabaseTable| damaged.as_ref().is_some_and(|(_, tables)| tables.contains(table.name));
    let mut partial = BTreeSet::new();
    for table in TABLES {
        let read = Copier::new(table, from, to)?.all()?;
        let added_later = ADDED_LATER.contains(&table.name) && !from.table_exists(None, table.name).unwrap_or(true);
        if !(read == Read::All && is_sound(table.name) || added_later) {
            partial.insert(table.name);
        }
    }
    let invocations = Copier::new(&INVOCATION, from, to)?;
    if partial.contains(INVOCATION.name) {
        // The indexes list rows that cannot be reached by key. SQLite uses each by its own condition only.
        for condition in [UNFINISHED, UNFINISHED_OF_0_1_0] {
            invocations.by_index("unfinished", &format!("WHERE {condition}"))?;
        }
        invocations.by_index("dead", "WHERE dead = 1")?;
        invocations.by_index("failed", &format!("WHERE {FAILED}"))?;
        invocations.by_index("by_function", "")?;
    }
    for table in [&ATTEMPTS, &BODIES] {
        if partial.contains(table.name) || partial.contains(INVOCATION.name) {
            // Rows between two damaged pages cannot be reached from the ends of the table, but by the id of their
            // invocation.
            Copier::new(table, from, to)?.of_each_invocation()?;
        }
    }
    let dropped = prune(to)?;
    partial.extend(&dropped);
    let count = |condition: &str| -> rusqlite::Result<u64> {
        let sql = format!("SELECT count(*) FROM invocation {condition}");
        to.query_row(&sql, [], |row| row.get(0))
    };
    // This index lists every invocation. If an invocation is missing, it is unknown whether it was queued.
    let (missing, named) = invocations.missing("by_function")?;
    let names_all = named == Read::All && is_sound("by_function");
    let without_payload = count(&format!(
        "WHERE {UNFINISHED} AND durable AND trigger <> 'load'
        AND NOT EXISTS (SELECT 1 FROM body WHERE invocation = id AND kind = 'payload')"
    ))?;
    let knows_all = if partial.contains(INVOCATION.name) {
        names_all && missing == 0
    } else {
        // A missing id is wrong in the index, or its row is missing in the table; in the second case its payload is not
        // found.
        missing == 0 || without_payload == 0
    };
    // Nobody knows whether the server still has such a message: another node may get it, too.
    let without_message = count(&format!(
        "WHERE {UNFINISHED} AND durable AND trigger = 'nats'
        AND NOT EXISTS (SELECT 1 FROM message WHERE message.invocation = id)"
    ))?;
    let (no_payload, no_message) = (without_payload > 0, without_message > 0);
    let lost = [
        (!knows_all || has_damaged_row(&INVOCATION), "queued work"),
        (partial.contains("body") && no_payload, "the payloads of queued work"),
        (
            partial.contains("message") && no_message,
            "which messages of NATS queued work has",
        ),
        (partial.contains("load"), "which scripts have run by being there"),
        (partial.contains("file"), "which files are handled"),
    ];
    let lost: Vec<_> = lost
        .into_iter()
        .filter_map(|(is_lost, what)| is_lost.then_some(what))
        .collect();
    Ok(Salvaged {
        invocations: count("")?,
        unfinished: count(&format!("WHERE {UNFINISHED}"))?,
        damaged: partial.into_iter().collect(),
        hold: (!lost.is_empty()).then(|| lost.join(" and ")),
        is_behind: false,
    })
}

/// Deletes rows of a new database that fnd could not read, and corrects the counts that depend on them. Returns the
/// tables with deleted rows.
fn prune(db: &Connection) -> rusqlite::Result<BTreeSet<&'static str>> {
    let mut pruned = BTreeSet::new();
    let mut prune = |table: &DatabaseTable, select: (&str, &str), read: &dyn Fn(&Row<'_>) -> rusqlite::Result<()>| {
        if table.prune(db, select, read)? > 0 {
            pruned.insert(table.name);
        }
        Ok::<_, rusqlite::Error>(())
    };
    let named = |row: &Row<'_>| rows::function(row, 0).map(drop);
    prune(&FUNCTION, ("name", ""), &named)?;
    prune(&LOAD, ("function, hash", ""), &|row| {
        named(row)?;
        rows::version(row, 1).map(drop)
    })?;
    prune(&VERSIONS, ("function", ""), &named)?;
    prune(&RELEASES, ("function", ""), &named)?;
    clear_unreadable(db, "response", |text| serde_json::from_str::<Response>(text).is_ok())?;
    clear_unreadable(db, "cause", |text| serde_json::from_str::<Cause>(text).is_ok())?;
    prune(&INVOCATION, (RECORD, ""), &|row| rows::record(row).map(drop))?;
    let unfinished = format!("WHERE {UNFINISHED}");
    prune(&INVOCATION, (&restore::columns(), &unfinished), &|row| {
        restore::unfinished(row).map(drop)
    })?;
    // The table of attempts has no names. The name decides nothing here, but reading a row needs one.
    let function = FunctionName::new("x").map_err(|_| rusqlite::Error::InvalidQuery)?;
    prune(&ATTEMPTS, (ATTEMPT, ""), &|row| {
        rows::attempt(row, function.clone()).map(drop)
    })?;
    prune(&MESSAGES, (messages::KNOWN, ""), &|row| messages::known(row).map(drop))?;
    if remove_damaged_bodies(db)? > 0 {
        pruned.insert(BODIES.name);
    }
    db.execute_batch(
        "UPDATE function SET dead = (SELECT count(*) FROM invocation WHERE dead = 1 AND function = name);
        INSERT OR IGNORE INTO function (name, dead)
            SELECT function, count(*) FROM invocation WHERE dead = 1 GROUP BY function;",
    )?;
    Ok(pruned)
}

/// Removes results and kept payloads that are not what was written. Their invocations have no result then, and cannot run again.
/// Unfinished invocations with such a payload were removed before.
fn remove_damaged_bodies(db: &Connection) -> rusqlite::Result<usize> {
    let damaged = BODIES.unreadable(db, ("data, checksum", ""), &|row| rows::check_sum(row, 0, 1))?;
    for key in &damaged {
        let [invocation, kind] = &key[..] else { continue };
        let lost = if *kind == Value::Text("result".to_owned()) {
            "result_json = NULL, response = NULL"
        } else {
            // Without `priority` the payload counts as not kept. A dead letter needs its payload to be run again.
            "priority = NULL, dead = NULL"
        };
        db.execute(&format!("UPDATE invocation SET {lost} WHERE id = ?1"), [invocation])?;
    }
    BODIES.delete(db, &damaged)
}

/// Empties a column of invocations where its text cannot be read: without it an invocation can still be shown and run.
fn clear_unreadable(db: &Connection, column: &str, is_readable: impl Fn(&str) -> bool) -> rusqlite::Result<()> {
    let condition = format!("WHERE {column} IS NOT NULL");
    let unreadable = INVOCATION.unreadable(db, (column, &condition), &|row| {
        let text = row.get_ref(0)?.as_str()?;
        is_readable(text).then_some(()).ok_or(rusqlite::Error::InvalidQuery)
    })?;
    let clear = format!("UPDATE invocation SET {column} = NULL WHERE id = ?1");
    unreadable
        .into_iter()
        .try_for_each(|key| db.execute(&clear, params_from_iter(key)).map(drop))
}
