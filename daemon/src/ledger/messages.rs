//! Stores which messages of NATS this node has and how far it has come with each, and reads them for the connection.
//!
//! ```text
//! stored with its invocation: open ─▶ its final record: ending ─▶ acknowledged: closed ─▶ forgotten
//!                              │          │
//!                              │          └─ another node's record counts: superseded ─▶ forgotten, or open again
//!                              └─ not begun and given back: no row
//! acknowledged once it is stored: accepted, also with its final record ─▶ its end is published: closed ─▶ forgotten
//! ```

use super::rows::{self, blob, int};
use crate::database::{self, execute};
use fnd_core::records::{Accepted, MessageMark, StreamPlace};
use fnd_core::triggers::nats::delivery::LocalStep;
use fnd_core::triggers::nats::memory::{FORGOTTEN_AT_ONCE, KnownMessage, MessageMemory};
use fnd_wire::ids::{FunctionName, InvocationId};
use rusqlite::{Connection, Row, params};
use std::sync::Arc;

/// Messages whose end the server does not know yet: the condition of the partial index `message_open`.
const OPEN: &str = "(step = 'open' OR step = 'accepted' OR step = 'ending')";

/// The columns that [`known`] reads, in this order.
pub(super) const KNOWN: &str = "message.invocation, message.function, message.key, stream, created_ns, sequence, consumer, ack, \
    revision, step, received_ms, begun";

/// Stores the message of an accepted invocation, in its transaction: after a crash this node either has the message, or the server
/// delivers it again. Returns whether the invocation has it: that is not so if another invocation of the function has it. This is no
/// error, since an error would undo the transaction, and whoever sends a message twice could make fnd write all others twice.
pub(super) fn store_mark(db: &Connection, accepted: &Accepted, mark: &MessageMark) -> rusqlite::Result<bool> {
    // A retry may bring a message that is stored already.
    if insert(db, accepted, mark)? > 0 || tells_end(db, accepted.id)?.is_some() {
        return Ok(true);
    }
    // A message that another node has taken over may come back to this node. Few do, so only a refusal is a reason to look for one.
    let sql = "DELETE FROM message WHERE function = ?1 AND key = ?2 AND step = 'superseded'";
    Ok(execute(db, sql, params![accepted.function.as_str(), mark.key])? > 0 && insert(db, accepted, mark)? > 0)
}

/// Stores that other nodes have begun so many attempts of a new invocation. How the last of them ended is not known: if fnd is killed
/// now, the next fnd finds an attempt that was lost.
pub(super) fn store_begun(db: &Connection, id: InvocationId, begun: u32) -> rusqlite::Result<()> {
    if begun > 0 {
        let sql = "UPDATE invocation SET state = 'running', attempts = ?2 WHERE id = ?1 AND state = 'queued' AND attempts = 0";
        execute(db, sql, params![blob(id), begun])?;
    }
    Ok(())
}

fn insert(db: &Connection, accepted: &Accepted, mark: &MessageMark) -> rusqlite::Result<usize> {
    let step = match mark.is_accepted {
        true => LocalStep::Accepted,
        false => LocalStep::Open,
    };
    let sql =
        "INSERT INTO message (invocation, function, key, stream, created_ns, sequence, consumer, ack, revision, step,
            received_ms, begun)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?12, ?10, ?11) ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?.execute(params![
        blob(accepted.id),
        accepted.function.as_str(),
        mark.key,
        mark.place.stream,
        int(mark.place.created_ns),
        int(mark.place.sequence),
        mark.consumer,
        mark.ack,
        mark.revision.map(int),
        int(mark.received_ms),
        mark.begun,
        step.as_str(),
    ])
}

/// Stores a change of what is remembered.
pub(super) fn store(db: &Connection, memory: &MessageMemory) -> rusqlite::Result<()> {
    match memory {
        MessageMemory::Renewed { id, ack } => {
            let sql = "UPDATE message SET ack = ?2 WHERE invocation = ?1";
            execute(db, sql, params![blob(*id), ack])?;
        }
        MessageMemory::Claimed { id, revision } => {
            let sql = "UPDATE message SET revision = ?2 WHERE invocation = ?1";
            execute(db, sql, params![blob(*id), int(*revision)])?;
        }
        MessageMemory::Step { id, step } => {
            let sql = "UPDATE message SET step = ?2 WHERE invocation = ?1";
            execute(db, sql, params![blob(*id), step.as_str()])?;
        }
        MessageMemory::Forget { before_ms } => {
            let sql = "DELETE FROM message WHERE invocation IN (SELECT invocation FROM message
                WHERE received_ms < ?1 AND step IN ('closed', 'superseded') ORDER BY received_ms LIMIT +?2)";
            execute(db, sql, params![int(*before_ms), FORGOTTEN_AT_ONCE])?;
        }
    }
    Ok(())
}

/// Stores that the invocation of a message has its final record, in the transaction of that record.
pub(super) fn ends(db: &Connection, id: InvocationId) -> rusqlite::Result<()> {
    // One that is accepted stays so: the next fnd must neither claim it nor acknowledge it again.
    let sql = "UPDATE message SET step = 'ending' WHERE invocation = ?1 AND step = 'open'";
    execute(db, sql, [blob(id)]).map(drop)
}

/// Says whether the end of an invocation is to be told to the server, if it has one; nothing if no message of it is stored.
pub(super) fn tells_end(db: &Connection, id: InvocationId) -> rusqlite::Result<Option<bool>> {
    let sql = "SELECT step IN ('ending', 'accepted') FROM message WHERE invocation = ?1";
    database::first(db, sql, [blob(id)], |row| row.get(0))
}

/// Deletes an invocation of which nothing has begun here, with its payload and its message.
pub(super) fn withdraw(db: &Connection, id: InvocationId) -> rusqlite::Result<()> {
    let sql = "DELETE FROM invocation WHERE id = ?1 AND durable AND ended_ms IS NULL
        AND attempts = coalesce((SELECT begun FROM message WHERE message.invocation = ?1), 0)";
    if execute(db, sql, [blob(id)])? > 0 {
        execute(db, "DELETE FROM body WHERE invocation = ?1", [blob(id)])?;
        execute(db, "DELETE FROM message WHERE invocation = ?1", [blob(id)])?;
    }
    Ok(())
}

/// Stores that the record of another node counts in place of that of an invocation, which is no dead letter from then on.
pub(super) fn supersede(db: &Connection, id: InvocationId, node: &str) -> rusqlite::Result<()> {
    let sql = "UPDATE invocation SET superseded_by = ?2, dead = 0 WHERE id = ?1";
    execute(db, sql, params![blob(id), node])?;
    let sql = "UPDATE message SET step = 'superseded' WHERE invocation = ?1";
    execute(db, sql, [blob(id)]).map(drop)
}

/// Reads a message from the columns [`KNOWN`]; how far its invocation has come is read separately.
pub(super) fn known(row: &Row<'_>) -> rusqlite::Result<KnownMessage> {
    let text = |column: usize| Ok::<Arc<str>, rusqlite::Error>(row.get_ref(column)?.as_str()?.into());
    let step = rows::word(row, 9, LocalStep::parse)?;
    Ok(KnownMessage {
        id: rows::id(row, 0)?,
        function: rows::function(row, 1)?,
        mark: MessageMark {
            key: text(2)?,
            place: StreamPlace {
                stream: text(3)?,
                created_ns: row.get(4)?,
                sequence: row.get(5)?,
            },
            consumer: text(6)?,
            ack: text(7)?,
            revision: row.get(8)?,
            received_ms: row.get(10)?,
            begun: row.get(11)?,
            is_accepted: step == LocalStep::Accepted,
        },
        step,
        has_begun: false,
        is_interrupted: false,
    })
}

/// Reads the message of an unfinished invocation.
pub(super) fn mark(db: &Connection, id: InvocationId) -> rusqlite::Result<Option<MessageMark>> {
    let sql = format!("SELECT {KNOWN} FROM message WHERE invocation = ?1");
    Ok(database::first(db, &sql, [blob(id)], known)?.map(|found| found.mark))
}

/// Corrects what a damaged ledger may have left: a message without its invocation is delivered again, and the end of one that has
/// ended is told.
pub(super) fn tidy(db: &Connection) -> rusqlite::Result<()> {
    let without = format!(
        "DELETE FROM message WHERE {OPEN} AND step = 'open'
        AND NOT EXISTS (SELECT 1 FROM invocation WHERE id = message.invocation)"
    );
    db.execute(&without, [])?;
    let ended = format!(
        "UPDATE message SET step = 'ending' WHERE {OPEN} AND step = 'open'
        AND EXISTS (SELECT 1 FROM invocation WHERE id = message.invocation AND ended_ms IS NOT NULL)"
    );
    db.execute(&ended, []).map(drop)
}

/// Reads the messages whose end the server does not know yet, oldest first.
pub(super) fn open(db: &Connection) -> rusqlite::Result<Vec<KnownMessage>> {
    select(db, &format!("{OPEN} ORDER BY message.invocation"), [])
}

/// Reads the messages for which a condition holds.
fn select(db: &Connection, condition: &str, values: impl rusqlite::Params) -> rusqlite::Result<Vec<KnownMessage>> {
    let sql = format!(
        "SELECT {KNOWN}, state IS 'interrupted', invocation.id IS NULL OR ended_ms IS NOT NULL,
            ifnull(attempts > message.begun, 0)
        FROM message LEFT JOIN invocation ON invocation.id = message.invocation
        WHERE {condition}"
    );
    let read = |row: &Row<'_>| {
        let (found, is_over) = (known(row)?, row.get(13)?);
        Ok(KnownMessage {
            step: match found.step {
                LocalStep::Accepted if is_over => LocalStep::Ending,
                step => step,
            },
            has_begun: row.get(14)?,
            is_interrupted: row.get(12)?,
            ..found
        })
    };
    database::all(db, &sql, values, read)
}

/// Returns the message of a function with this key, if it is known.
pub(super) fn of_key(db: &Connection, function: &FunctionName, key: &str) -> rusqlite::Result<Option<KnownMessage>> {
    let condition = "message.function = ?1 AND message.key = ?2";
    Ok(select(db, condition, params![function.as_str(), key])?.pop())
}
