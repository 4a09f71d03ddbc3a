//! Queries of the history. A separate thread answers them, on its own read-only connection.
//!
//! Every answer includes all commands that were submitted to the writer before the query: a caller that has seen a run
//! end finds it in the history. Only the search for a message that is new does not wait for the writer.
//!
//! Files:
//! - `audited`: the runs that the audit lists
//! - `dead`: queries for dead letters, and the copy of the whole ledger
//! - `list`: lists of invocations, newest first

mod audited;
mod dead;
pub(super) mod list;

pub use dead::{DeadPage, copy};
pub use list::{PAGE_MAX, RecordPage};

use super::messages;
use super::rows::{self, ATTEMPT, CALLED, PARENT, PAYLOAD, RECORD, blob};
use super::unwritable::Reading;
use super::writer::LedgerWriter;
use crate::database;
use crate::lock::lock;
use fnd_core::idempotency::IdempotencyKey;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_core::records::{AttemptRecord, InvocationFilter, InvocationRecord, Payload, RunResult};
use fnd_core::triggers::nats::memory::KnownMessage;
use fnd_wire::ids::{FunctionName, InvocationId};
use list::list;
use rusqlite::{Connection, Row, params};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tokio::sync::oneshot;

/// Most waiting queries; as many as the control socket has connections (`control/limits.rs` checks that). Further ones are
/// refused as busy.
pub(crate) const WAITING_MAX: usize = 1000;
/// How long a query waits for the writer. After that it is answered with the records on disk, because the disk does not
/// respond.
const FLUSH: Duration = Duration::from_secs(10);

/// An invocation's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultOf {
    /// There is no such invocation.
    Unknown,
    /// The invocation has not ended; this is its state.
    Unfinished(RunState),
    /// The invocation has ended, with a result or without.
    Ended(Option<RunResult>),
}

/// An invocation with all its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeInvocation {
    /// The invocation with its result.
    pub record: InvocationRecord,
    /// Oldest first.
    pub attempts: Vec<AttemptRecord>,
    /// The invocation whose payload this one repeats.
    pub origin: Option<InvocationId>,
    /// The facts that the trigger gave with the invocation.
    pub cause: Option<Arc<Cause>>,
    /// Whether a function that a hook of it called has failed.
    pub hook_failed: bool,
    /// The node whose record of the same work counts, in place of this one.
    pub superseded_by: Option<String>,
    /// How many invocations it has called.
    pub children: u64,
}

/// An invocation with its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredInvocation {
    /// The invocation without its result.
    pub record: InvocationRecord,
    /// The payload; absent if it was not kept.
    pub payload: Option<Payload>,
    /// Whether it is a dead letter.
    pub dead: bool,
    /// The node whose record of the same work counts, in place of this one.
    pub superseded_by: Option<String>,
}

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// Too many queries at once.
    #[error("the history is busy with {WAITING_MAX} other queries: try again")]
    Busy,
    #[error("the history is closed: fnd is stopping")]
    Closed,
    /// SQLite reported an error.
    #[error("failed to read the ledger")]
    Sqlite(#[from] rusqlite::Error),
}

/// A query that waits for the reader.
pub(crate) struct LedgerQuery {
    job: Box<dyn FnOnce(&Connection) + Send>,
    /// Whether its answer includes all commands that were submitted before it, and not only those that are written.
    pub(crate) waits_for_writer: bool,
}

/// The state of the thread that answers queries.
pub(crate) struct HistoryThread {
    db: Reading,
    waiting: Receiver<LedgerQuery>,
    writer: LedgerWriter,
}

impl HistoryThread {
    pub(super) fn spawn(self) -> io::Result<()> {
        let thread = std::thread::Builder::new().name("history".into());
        thread.spawn(move || self.run()).map(drop)
    }

    fn run(self) {
        while let Ok(query) = self.waiting.recv() {
            // Queries that are already waiting share one flush.
            let queries = std::iter::once(query).chain(self.take_now());
            let (later, now): (Vec<_>, Vec<_>) = queries.partition(|query| query.waits_for_writer);
            self.answer(now);
            if !later.is_empty() {
                self.writer.flush(FLUSH);
                self.answer(later);
            }
        }
    }

    /// Takes the queries that wait.
    pub(crate) fn take_now(&self) -> Vec<LedgerQuery> {
        self.waiting.try_iter().collect()
    }

    /// Answers queries from the records that are written now.
    pub(crate) fn answer(&self, queries: Vec<LedgerQuery>) {
        // A lock, because the writer's thread replaces the connection when a makeshift ends.
        // A query that panicked has changed nothing.
        let db = lock(&self.db);
        queries.into_iter().for_each(|query| (query.job)(&db));
    }
}

/// Answers queries; clones share one thread, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct LedgerReader {
    queries: SyncSender<LedgerQuery>,
}

impl LedgerReader {
    /// Makes a reader, and its thread, which is not started yet.
    pub(super) fn prepare(db: Reading, writer: &LedgerWriter) -> (Self, HistoryThread) {
        let (queries, waiting) = sync_channel::<LedgerQuery>(WAITING_MAX);
        let writer = writer.clone();
        (Self { queries }, HistoryThread { db, waiting, writer })
    }

    /// Lists invocations, newest first.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn list(&self, filter: InvocationFilter) -> Result<RecordPage, QueryError> {
        self.ask(move |db| list(db, &filter)).await
    }

    /// Returns an invocation with its result and its attempts.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn get(&self, id: InvocationId) -> Result<Option<WholeInvocation>, QueryError> {
        self.ask(move |db| get(db, id)).await
    }

    /// Returns the function of an invocation.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn function_of(&self, id: InvocationId) -> Result<Option<FunctionName>, QueryError> {
        self.ask(move |db| {
            let sql = "SELECT function FROM invocation WHERE id = ?1";
            database::first(db, sql, [blob(id)], |row| rows::function(row, 0))
        })
        .await
    }

    /// Returns the newest invocation that a trigger made of each function, and its cause.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn last_of(
        &self,
        functions: Vec<FunctionName>,
        trigger: Trigger,
    ) -> Result<HashMap<FunctionName, (InvocationRecord, Option<Arc<Cause>>)>, QueryError> {
        self.ask(move |db| {
            let sql = format!(
                "SELECT {RECORD}, cause FROM invocation INDEXED BY by_function
                WHERE function = ?1 AND trigger = ?2 ORDER BY id DESC LIMIT 1"
            );
            let mut last = HashMap::new();
            for function in functions {
                let read = |row: &Row<'_>| Ok((rows::record(row)?, rows::json_or_none(row, 15)?));
                let found = database::first(db, &sql, params![function.as_str(), trigger.as_str()], read)?;
                last.extend(found.map(|found| (function, found)));
            }
            Ok(last)
        })
        .await
    }

    /// Returns an invocation with its payload.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn stored_invocation(&self, id: InvocationId) -> Result<Option<StoredInvocation>, QueryError> {
        self.ask(move |db| stored_invocation(db, id)).await
    }

    /// Returns the newest invocation of a function with an idempotency key of the same identity, and its key.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn keyed(
        &self,
        function: FunctionName,
        key: IdempotencyKey,
    ) -> Result<Option<(InvocationId, IdempotencyKey)>, QueryError> {
        self.ask(move |db| {
            // All texts that begin with the identity: no character of a digest is greater than `g`.
            let sql = "SELECT id, key FROM invocation INDEXED BY by_key \
                       WHERE function = ?1 AND key >= ?2 AND key < ?2 || 'g' ORDER BY id DESC LIMIT 1";
            database::first(db, sql, params![function.as_str(), key.identity()], |row| {
                let stored = row.get::<_, String>(1)?;
                Ok((rows::id(row, 0)?, IdempotencyKey::stored(stored.into())))
            })
        })
        .await
    }

    /// Returns an invocation's result.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn result(&self, id: InvocationId) -> Result<ResultOf, QueryError> {
        self.ask(move |db| {
            Ok(match rows::find(db, id)? {
                None => ResultOf::Unknown,
                Some(record) if !record.state.is_final() => ResultOf::Unfinished(record.state),
                Some(_) => ResultOf::Ended(rows::result(db, id)?),
            })
        })
        .await
    }

    pub(super) async fn ask<T, F>(&self, question: F) -> Result<T, QueryError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.put(true, question).await
    }

    async fn put<T, F>(&self, waits_for_writer: bool, question: F) -> Result<T, QueryError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move |db: &Connection| {
            // One transaction for all its statements: the invocation may be forgotten between two of them.
            let result = db
                .unchecked_transaction()
                .and_then(|transaction| question(&transaction));
            // The caller may have gone away.
            let _ = answer.send(result);
        });
        let query = LedgerQuery { job, waits_for_writer };
        // The queue is bounded and this never waits: it runs on the main thread.
        self.queries.try_send(query).map_err(|error| match error {
            std::sync::mpsc::TrySendError::Full(_) => QueryError::Busy,
            std::sync::mpsc::TrySendError::Disconnected(_) => QueryError::Closed,
        })?;
        Ok(answered.await.map_err(|_| QueryError::Closed)??)
    }

    /// Returns what is known of the message of NATS of a function with this key. A row that waits to be written may be missed: the
    /// books of the open messages have it, and the ledger takes no second row with its key.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn message(&self, function: FunctionName, key: Arc<str>) -> Result<Option<KnownMessage>, QueryError> {
        let (new_function, new_key) = (function.clone(), Arc::clone(&key));
        // Most messages are new, and the work of a new one must not wait for a commit.
        let look = move |db: &Connection| messages::of_key(db, &new_function, &new_key);
        if self.put(false, look).await?.is_none() {
            return Ok(None);
        }
        // The commands that wait may say more of one that is known.
        self.ask(move |db| messages::of_key(db, &function, &key)).await
    }
}

fn get(db: &Connection, id: InvocationId) -> rusqlite::Result<Option<WholeInvocation>> {
    let sql = format!("SELECT {RECORD}, origin, cause, hook IS NOT NULL, superseded_by FROM invocation WHERE id = ?1");
    let read = |row: &Row<'_>| {
        Ok(WholeInvocation {
            record: rows::record(row)?,
            attempts: Vec::new(),
            origin: rows::id_or_none(row, 15)?,
            cause: rows::json_or_none(row, 16)?,
            hook_failed: row.get(17)?,
            superseded_by: row.get(18)?,
            children: 0,
        })
    };
    let Some(mut whole) = database::first(db, &sql, [blob(id)], read)? else {
        return Ok(None);
    };
    whole.record.result = rows::result(db, id)?;
    let sql = format!("SELECT {ATTEMPT} FROM attempt WHERE invocation = ?1 ORDER BY n");
    let function = &whole.record.function;
    whole.attempts = database::all(db, &sql, [blob(id)], |row| rows::attempt(row, function.clone()))?;
    let sql = format!("SELECT count(*) FROM invocation INDEXED BY children WHERE {CALLED} AND {PARENT} = ?1");
    whole.children = db.prepare_cached(&sql)?.query_row([id.to_string()], |row| row.get(0))?;
    Ok(Some(whole))
}

fn stored_invocation(db: &Connection, id: InvocationId) -> rusqlite::Result<Option<StoredInvocation>> {
    let sql = format!(
        "SELECT {RECORD}, dead IS 1, priority IS NOT NULL, superseded_by, {PAYLOAD}
        FROM invocation WHERE id = ?1"
    );
    let read = |row: &Row<'_>| {
        let record = rows::record(row)?;
        // `priority` has no value where the payload was not kept, also if the row has other parts of it.
        let was_stored: bool = row.get(16)?;
        let payload = (was_stored && record.keeps_payload()).then(|| rows::payload(row, 18));
        Ok(StoredInvocation {
            record,
            dead: row.get(15)?,
            superseded_by: row.get(17)?,
            payload: payload.transpose()?,
        })
    };
    database::first(db, &sql, [blob(id)], read)
}
