//! Stores which contents of watched files are handled, and reads them for the watchers.

use super::reader::{LedgerReader, QueryError};
use super::rows::{self, blob, int};
use crate::database::{self, execute};
use fnd_core::records::outcome::RunState;
use fnd_core::records::{FileMark, SeenFile};
use fnd_core::triggers::file::memory::FileMemory;
use fnd_core::triggers::file::message::{KnownFile, RunContent};
use fnd_wire::form::Bytes;
use fnd_wire::ids::{FunctionName, InvocationId};
use rusqlite::{Connection, Row, params};
use std::sync::Arc;

/// Known files of a page: little memory and few milliseconds for each.
const PAGE: usize = 1000;

/// A page of known files of one directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KnownFiles {
    /// The files, by inode. Their number of a directory is 0.
    pub files: Vec<KnownFile>,
    /// The invocations that files wait for, and whether they succeeded; absent while one has not ended.
    pub ends: Vec<(InvocationId, Option<bool>)>,
    /// Where the next page begins; absent after the last one.
    pub next: Option<u64>,
}

/// Stores the marks of an invocation, in its transaction: after a crash either its files are handled, or they are offered
/// again.
pub(super) fn store_marks(
    db: &Connection,
    function: &FunctionName,
    marks: &[FileMark],
    after: Option<InvocationId>,
) -> rusqlite::Result<()> {
    for mark in marks {
        match mark {
            FileMark::Known { directory, file, acts } => {
                // A new name or a new hash does not change what a file waits for. A new content waits for nothing.
                let sql =
                    "INSERT INTO file (function, directory, inode, path, device, size, modified_ns, changed_ns, hash, after, run)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)
                    ON CONFLICT (function, directory, inode) DO UPDATE SET path = excluded.path, device = excluded.device,
                        size = excluded.size, modified_ns = excluded.modified_ns, changed_ns = excluded.changed_ns,
                        hash = excluded.hash,
                        after = iif(?11 OR (size, modified_ns) <> (excluded.size, excluded.modified_ns), excluded.after, after),
                        run = iif(?11 OR (size, modified_ns) <> (excluded.size, excluded.modified_ns), excluded.run, run)";
                db.prepare_cached(sql)?.execute(params![
                    function.as_str(),
                    directory,
                    file.inode.cast_signed(),
                    file.path.0,
                    file.device.cast_signed(),
                    int(file.size),
                    file.modified_ns,
                    file.changed_ns,
                    file.hash.map(u64::cast_signed),
                    after.filter(|_| *acts).map(blob),
                    after.is_some(),
                ])?;
            }
            FileMark::Repeated { run } => {
                let sql = "UPDATE file SET after = ?1 WHERE run = ?2 AND function = ?3";
                let found = execute(db, sql, params![after.map(blob), blob(*run), function.as_str()])?;
                if let (0, Some(id)) = (found, after) {
                    tracing::warn!(
                        FND_FUNCTION = %function, FND_INVOCATION = %id,
                        "`{function}`: the invocation {id} repeats a run for files that have changed since, or are gone: \
                         nothing is done with them afterwards"
                    );
                }
            }
            FileMark::Gone { directory, inode } => {
                let sql = "DELETE FROM file WHERE function = ?1 AND directory = ?2 AND inode = ?3";
                execute(db, sql, params![function.as_str(), directory, inode.cast_signed()])?;
            }
        }
    }
    Ok(())
}

/// Stores a change of what is remembered.
pub(super) fn store(db: &Connection, memory: &FileMemory) -> rusqlite::Result<()> {
    match memory {
        FileMemory::Marks(function, marks) => store_marks(db, function, marks, None)?,
        FileMemory::Since(function, directories, since_ms) => {
            let sql = "INSERT OR IGNORE INTO watched (function, directory, since_ms) VALUES (?1, ?2, ?3)";
            for directory in directories {
                execute(db, sql, params![function.as_str(), directory, int(*since_ms)])?;
            }
        }
        FileMemory::Settled(function, id) => {
            let sql = "UPDATE file SET after = NULL WHERE after = ?1 AND function = ?2";
            execute(db, sql, params![blob(*id), function.as_str()])?;
        }
        FileMemory::Forget(function) => {
            execute(db, "DELETE FROM file WHERE function = ?1", [function.as_str()])?;
            execute(db, "DELETE FROM watched WHERE function = ?1", [function.as_str()])?;
        }
    }
    Ok(())
}

/// Returns the contents that wait for an invocation, each with its directory. Their numbers of a directory are 0.
pub(super) fn waiting(db: &Connection, id: InvocationId) -> rusqlite::Result<Vec<(Arc<str>, RunContent)>> {
    let sql = "SELECT directory, inode, size, modified_ns FROM file WHERE after = ?1";
    let read = |row: &Row<'_>| {
        let content = RunContent {
            directory: 0,
            inode: row.get::<_, i64>(1)?.cast_unsigned(),
            size: row.get::<_, i64>(2)?.cast_unsigned(),
            modified_ns: row.get(3)?,
        };
        Ok((row.get(0)?, content))
    };
    database::all(db, sql, [blob(id)], read)
}

impl LedgerReader {
    /// Returns since when a function watches a directory, Unix milliseconds.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn watched_since(&self, function: FunctionName, directory: Arc<str>) -> Result<Option<u64>, QueryError> {
        self.ask(move |db| {
            let sql = "SELECT since_ms FROM watched WHERE function = ?1 AND directory = ?2";
            database::first(db, sql, params![function.as_str(), directory], |row| row.get(0))
        })
        .await
    }

    /// Returns a page of the files that are known of a function and a directory, from an inode on.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn known_files(
        &self,
        function: FunctionName,
        directory: Arc<str>,
        from: Option<u64>,
    ) -> Result<KnownFiles, QueryError> {
        self.ask(move |db| known_files(db, &function, &directory, from)).await
    }

    /// Returns the functions that have known files or watched directories.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn functions_with_files(&self) -> Result<Vec<FunctionName>, QueryError> {
        self.ask(|db| {
            let sql = "SELECT function FROM watched UNION SELECT function FROM file";
            database::all(db, sql, [], |row| rows::function(row, 0))
        })
        .await
    }
}

fn known_files(
    db: &Connection,
    function: &FunctionName,
    directory: &str,
    from: Option<u64>,
) -> rusqlite::Result<KnownFiles> {
    let sql = "SELECT file.inode, path, device, size, modified_ns, changed_ns, hash, after, state
        FROM file LEFT JOIN invocation ON invocation.id = after
        WHERE file.function = ?1 AND directory = ?2 AND inode >= ?3 ORDER BY inode LIMIT +?4";
    let mut page = KnownFiles::default();
    let read = |row: &Row<'_>| {
        let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
        let file = SeenFile {
            directory: 0,
            inode: number(0)?,
            path: Bytes(row.get(1)?),
            device: number(2)?,
            size: number(3)?,
            modified_ns: row.get(4)?,
            changed_ns: row.get(5)?,
            hash: row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned),
        };
        let after = rows::id_or_none(row, 7)?;
        let state: Option<String> = row.get(8)?;
        Ok((KnownFile { file, after }, state))
    };
    let first = from.map_or(i64::MIN, u64::cast_signed);
    // One row more than a page is read: it says where the next page begins.
    let most = params![function.as_str(), directory, first, PAGE + 1];
    for (mut known, state) in database::all::<_, Vec<_>>(db, sql, most, read)? {
        if page.files.len() == PAGE {
            page.next = Some(known.file.inode);
            break;
        }
        let state = state.as_deref().and_then(RunState::parse);
        if state.is_none() {
            // The history has forgotten the invocation, so nobody knows what is to be done with the file.
            known.after = None;
        }
        if let (Some(id), Some(state)) = (known.after, state) {
            page.ends
                .push((id, state.is_final().then_some(state == RunState::Succeeded)));
        }
        page.files.push(known);
    }
    Ok(page)
}
