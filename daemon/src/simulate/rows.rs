//! The rows of the ledger, read beside fnd through a connection of its own. The statements are not those of the ledger: an
//! error in them would hide itself.

use crate::database;
use fnd_core::records::StreamPlace;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{Reason, RunState, Trigger};
use fnd_core::triggers::nats::delivery::LocalStep;
use fnd_wire::ids::{FunctionName, InvocationId};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The columns that [`row`] reads, in this order. A long result is not in the row itself.
const COLUMNS: &str = "id, function, trigger, state, attempts, reason,
    coalesce(result, (SELECT data FROM body WHERE invocation = id AND kind = 'result')), cause, dead, durable";

/// A row of an invocation: the columns at which oracles look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvocationRow {
    pub(crate) function: FunctionName,
    pub(crate) trigger: Trigger,
    pub(crate) state: RunState,
    pub(crate) attempts: u32,
    pub(crate) reason: Option<Reason>,
    pub(crate) result: Option<Vec<u8>>,
    pub(crate) cause: Option<Cause>,
    pub(crate) is_dead_letter: bool,
    pub(crate) durable: bool,
}

/// The columns that [`message_row`] reads, in this order.
const MESSAGES: &str =
    "SELECT message.invocation, message.key, message.stream, message.created_ns, message.sequence, message.step,
    invocation.state, invocation.superseded_by IS NULL
    FROM message LEFT JOIN invocation ON invocation.id = message.invocation";

/// A message of NATS that a node has or had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageRow {
    pub(crate) invocation: InvocationId,
    pub(crate) key: String,
    pub(crate) place: StreamPlace,
    pub(crate) step: LocalStep,
    /// Whether its invocation has a final record, and no other node's record counts in its place.
    pub(crate) is_ended_here: bool,
}

/// Everything that the ledger says at one moment.
#[derive(Debug, Default)]
pub(crate) struct LedgerRows {
    pub(crate) invocations: BTreeMap<InvocationId, InvocationRow>,
    /// The numbers of the attempts that have a row.
    pub(crate) attempts: BTreeMap<InvocationId, BTreeSet<u32>>,
    /// The number of dead letters of each function, as the ledger has counted them.
    pub(crate) dead_letters: BTreeMap<FunctionName, u64>,
    /// The ends whose follow-ups are not decided yet.
    pub(crate) unfollowed: BTreeSet<InvocationId>,
}

/// A connection that reads beside the fnd that writes.
pub(crate) struct RowReader {
    db: Connection,
}

impl RowReader {
    /// Opens the database of a node.
    ///
    /// # Panics
    /// It cannot be opened: then the simulation itself is broken, and so with every other panic here.
    pub(crate) fn open(path: &Path) -> Self {
        let db = database::open_read_only(path).expect("the ledger is there");
        // The log has to stay when nothing else has the database open: the next fnd begins with it.
        database::keep_log_on_close(&db, true).expect("a setting of the connection");
        Self { db }
    }

    /// Returns the row of an invocation.
    pub(crate) fn row(&self, id: InvocationId) -> Option<InvocationRow> {
        let sql = format!("SELECT {COLUMNS} FROM invocation WHERE id = ?1");
        let mut statement = self.db.prepare_cached(&sql).expect("a statement");
        let read = statement.query_row(params![id.0.to_be_bytes()], row);
        read.optional().expect("a row that can be read").map(|(_, row)| row)
    }

    /// Returns the message of an invocation.
    pub(crate) fn message(&self, id: InvocationId) -> Option<MessageRow> {
        let sql = format!("{MESSAGES} WHERE message.invocation = ?1");
        let mut statement = self.db.prepare_cached(&sql).expect("a statement");
        let read = statement.query_row(params![id.0.to_be_bytes()], message_row);
        read.optional().expect("a row that can be read")
    }

    pub(crate) fn messages(&self) -> Vec<MessageRow> {
        let mut rows = Vec::new();
        self.each(MESSAGES, |found| {
            rows.push(message_row(found)?);
            Ok(())
        });
        rows
    }

    /// Reads all rows that an oracle looks at.
    pub(crate) fn all(&self) -> LedgerRows {
        let mut rows = LedgerRows::default();
        let sql = format!("SELECT {COLUMNS} FROM invocation");
        self.each(&sql, |found| {
            let (id, row) = row(found)?;
            rows.invocations.insert(id, row);
            Ok(())
        });
        self.each("SELECT invocation, n FROM attempt", |found| {
            rows.attempts.entry(id(found, 0)?).or_default().insert(found.get(1)?);
            Ok(())
        });
        self.each("SELECT name, dead FROM function", |found| {
            rows.dead_letters.insert(name(found, 0)?, found.get(1)?);
            Ok(())
        });
        self.each("SELECT invocation FROM unfollowed", |found| {
            rows.unfollowed.insert(id(found, 0)?);
            Ok(())
        });
        rows
    }

    fn each(&self, sql: &str, mut read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<()>) {
        let mut statement = self.db.prepare_cached(sql).expect("a statement");
        let mut found = statement.query([]).expect("rows");
        while let Some(row) = found.next().expect("the next row") {
            read(row).expect("a row that can be read");
        }
    }
}

fn row(found: &rusqlite::Row<'_>) -> rusqlite::Result<(InvocationId, InvocationRow)> {
    let word = |column| found.get::<_, String>(column);
    let reason: Option<String> = found.get(5)?;
    let cause: Option<String> = found.get(7)?;
    let row = InvocationRow {
        function: name(found, 1)?,
        trigger: Trigger::parse(&word(2)?).expect("a trigger"),
        state: RunState::parse(&word(3)?).expect("a state"),
        attempts: found.get(4)?,
        reason: reason.map(|word| Reason::parse(&word).expect("a reason")),
        result: found.get(6)?,
        cause: cause.map(|text| serde_json::from_str(&text).expect("a cause")),
        is_dead_letter: found.get::<_, Option<u8>>(8)? == Some(1),
        durable: found.get(9)?,
    };
    Ok((id(found, 0)?, row))
}

fn message_row(found: &rusqlite::Row<'_>) -> rusqlite::Result<MessageRow> {
    let state: Option<String> = found.get(6)?;
    let is_final = state.is_some_and(|word| RunState::parse(&word).expect("a state").is_final());
    Ok(MessageRow {
        invocation: id(found, 0)?,
        key: found.get(1)?,
        place: StreamPlace {
            stream: found.get::<_, String>(2)?.into(),
            created_ns: found.get(3)?,
            sequence: found.get(4)?,
        },
        step: LocalStep::parse(&found.get::<_, String>(5)?).expect("a step"),
        is_ended_here: is_final && found.get(7)?,
    })
}

fn id(found: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<InvocationId> {
    Ok(InvocationId(u128::from_be_bytes(found.get(column)?)))
}

fn name(found: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<FunctionName> {
    let text: String = found.get(column)?;
    Ok(FunctionName::new(&text).expect("a name of a function"))
}
