//! Queries for dead letters, and the copy of the whole ledger.

use super::list::list;
use super::{LedgerReader, QueryError};
use crate::database;
use crate::free_space::{BYTES_LOW, FreeSpace};
use crate::ledger::room::Pages;
use crate::ledger::rows::{self, RECORD, blob};
use crate::ledger::{FILE, OpenError, in_flight, schema};
use fnd_core::api::{DeadLetter, InvocationView};
use fnd_core::records::InvocationFilter;
use fnd_wire::ids::InvocationId;
use rusqlite::{Connection, params};
use std::fs::File;
use std::path::Path;

/// Most bytes of a payload that are shown: in a list, and for a single dead letter.
const SHOWN: (usize, usize) = (200, 64 << 10);

/// A page of dead letters.
#[derive(Debug, Clone, Default)]
pub struct DeadPage {
    /// Newest first.
    pub letters: Vec<DeadLetter>,
    /// Cursor of the next page, if there may be one.
    pub next: Option<InvocationId>,
}

impl LedgerReader {
    /// Lists dead letters, newest first; [`InvocationFilter::dead`] counts as set.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn dead_letters(&self, filter: InvocationFilter) -> Result<DeadPage, QueryError> {
        self.ask(move |db| {
            let page = list(db, &InvocationFilter { dead: true, ..filter })?;
            let letter = |record| letter(db, InvocationView::of(record), SHOWN.0);
            let letters = page.records.iter().map(letter).collect::<rusqlite::Result<_>>()?;
            let next = page.next;
            Ok(DeadPage { letters, next })
        })
        .await
    }

    /// Returns a dead letter; nothing if no dead letter has that id.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn dead_letter(&self, id: InvocationId) -> Result<Option<DeadLetter>, QueryError> {
        self.ask(move |db| {
            let sql = format!("SELECT {RECORD} FROM invocation WHERE id = ?1 AND dead = 1");
            let record = database::first(db, &sql, [blob(id)], rows::record)?;
            let letter = record.map(|record| letter(db, InvocationView::of(&record), SHOWN.1));
            letter.transpose()
        })
        .await
    }
}

fn letter(db: &Connection, invocation: InvocationView, shown: usize) -> rusqlite::Result<DeadLetter> {
    // Only the beginning of a payload is read: a page may have a thousand of any size.
    let sql = "SELECT content_type, length(data), substr(data, 1, ?2) FROM invocation
        LEFT JOIN body ON invocation = id AND kind = 'payload' WHERE id = ?1";
    let id = blob(invocation.id);
    let (content_type, payload_bytes, data): (_, _, Option<Vec<u8>>) = db
        .prepare_cached(sql)?
        .query_row(params![id, shown], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(DeadLetter {
        invocation,
        payload: data.and_then(text),
        payload_bytes,
        content_type,
    })
}

/// Returns bytes as text, without a character that was cut off at the end; nothing if they are not UTF-8.
fn text(mut bytes: Vec<u8>) -> Option<String> {
    if let Err(error) = str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).ok()
}

/// Refuses a copy that would fill the disk so much that history would be forgotten to make room.
fn has_room(db: &Connection, state: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::of(&state.join(FILE), source);
    // `VACUUM INTO` copies the pages in use only, so free pages of the database need no room.
    let needed = Pages::of(db).map_err(failed)?.used().saturating_add(BYTES_LOW);
    match FreeSpace::at(state).map(|free| free.bytes) {
        Some(free) if free < needed => Err(OpenError::NoRoom {
            path: state.to_owned(),
            needed,
            free,
        }),
        _ => Ok(()),
    }
}

/// Copies the ledger of a state directory in its present state, while fnd may write to the ledger. Returns the
/// copy, which has no name.
///
/// # Errors
/// [`OpenError`].
pub fn copy(state: &Path) -> Result<File, OpenError> {
    let path = state.join(FILE);
    let to = database::copy_path(state);
    let failed = |source| OpenError::of(&path, source);
    let db = schema::open_read_only(&path)?;
    has_room(&db, state)?;
    let copied = database::copy(&db, &to, in_flight::disown).map_err(failed)?;
    copied.map_err(|source| OpenError::Copy { path: to, source })
}
