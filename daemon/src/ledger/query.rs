//! Questions about the history, answered by a thread with a connection of its own that can only read.
//!
//! Every answer includes what was submitted to the writer before the question: who has seen a run end finds it here.

use super::list::list;
use super::rows::{self, ATTEMPT, PAYLOAD, RECORD, blob};
use super::unwritable::Reading;
use super::writer::Writer;
use fnd_core::outcome::{Reason, State, Trigger};
use fnd_core::record::{AttemptRecord, InvocationRecord, Payload, RunResult};
use fnd_wire::ids::{FunctionName, InvocationId};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Questions waiting; as many as the control socket has connections. More are refused as busy.
const WAITING_MAX: usize = crate::control::limits::CONNECTIONS_MAX;
/// How long a question waits for the writer before it is answered with what is on disk: the disk does not answer then.
const FLUSH: Duration = Duration::from_secs(10);
/// Most elements of a page.
pub const PAGE_MAX: u32 = 1000;

/// Which invocations to list; absent means all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of one function.
    pub function: Option<FunctionName>,
    /// In one state.
    pub state: Option<State>,
    /// With this last reason.
    pub reason: Option<Reason>,
    /// With this trigger.
    pub trigger: Option<Trigger>,
    /// Whose last attempt ran a version that begins like this, in lower-case hexadecimal.
    pub version: Option<String>,
    /// With this text in their message, whatever the case of its letters (of ASCII).
    pub text: Option<String>,
    /// Dead letters only.
    pub dead: bool,
    /// Accepted at or after, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Accepted before, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Most of them, 1 to [`PAGE_MAX`]; absent: 100.
    pub limit: Option<u32>,
    /// Only older than this one: the cursor of the page before.
    pub after: Option<InvocationId>,
}

/// A page of the history.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Newest first, without results; fewer than asked for, or none, where little of what was looked at fits the filter.
    pub records: Vec<InvocationRecord>,
    /// Cursor of the next page, if there may be one.
    pub next: Option<InvocationId>,
}

/// An invocation's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultOf {
    /// No such invocation.
    Unknown,
    /// It has not ended; the state says why.
    Unfinished(State),
    /// It ended; with a result or without.
    Ended(Option<RunResult>),
}

/// An invocation with all that is kept of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// With its result.
    pub record: InvocationRecord,
    /// Oldest first.
    pub attempts: Vec<AttemptRecord>,
    /// The invocation whose payload it has.
    pub origin: Option<InvocationId>,
}

/// What an invocation brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredInvocation {
    /// Without its result.
    pub record: InvocationRecord,
    /// Absent where it was not kept.
    pub payload: Option<Payload>,
    /// Whether it is a dead letter.
    pub dead: bool,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// Too many questions at once.
    #[error("the history is busy with {WAITING_MAX} other questions: try again")]
    Busy,
    /// fnd is stopping.
    #[error("the history is closed: fnd is stopping")]
    Closed,
    /// SQLite could not.
    #[error("failed to read the ledger")]
    Sqlite(#[from] rusqlite::Error),
}

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// Answers questions; clones share one thread, which ends with the last of them.
#[derive(Clone)]
pub struct Reader {
    jobs: SyncSender<Job>,
}

impl Reader {
    pub(super) fn start(db: Reading, writer: &Writer) -> io::Result<Self> {
        let (jobs, waiting) = sync_channel::<Job>(WAITING_MAX);
        let writer = writer.clone();
        std::thread::Builder::new().name("history".into()).spawn(move || {
            while let Ok(job) = waiting.recv() {
                // Those that wait already share one flush.
                let jobs: Vec<Job> = std::iter::once(job).chain(waiting.try_iter()).collect();
                writer.flush(FLUSH);
                // A question that panics has changed nothing.
                let db = db.lock().unwrap_or_else(PoisonError::into_inner);
                jobs.into_iter().for_each(|job| job(&db));
            }
        })?;
        Ok(Self { jobs })
    }

    /// Lists invocations, newest first.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn list(&self, filter: Filter) -> Result<Page, QueryError> {
        self.ask(move |db| list(db, &filter)).await
    }

    /// Returns an invocation with its result and its attempts.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn get(&self, id: InvocationId) -> Result<Option<Whole>, QueryError> {
        self.ask(move |db| get(db, id)).await
    }

    /// Returns what an invocation brought.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn stored_invocation(&self, id: InvocationId) -> Result<Option<StoredInvocation>, QueryError> {
        self.ask(move |db| stored_invocation(db, id)).await
    }

    /// Returns the newest invocation of a function with an idempotency key.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn keyed(&self, function: FunctionName, key: Arc<str>) -> Result<Option<InvocationId>, QueryError> {
        self.ask(move |db| {
            let sql =
                "SELECT id FROM invocation INDEXED BY by_key WHERE function = ?1 AND key = ?2 ORDER BY id DESC LIMIT 1";
            db.prepare_cached(sql)?
                .query_row(params![function.as_str(), key], |row| rows::id(row, 0))
                .optional()
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
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |db| {
            // One look for all its statements: what it is about may be forgotten between two.
            let looked = db.unchecked_transaction().and_then(|look| question(&look));
            // Who asked may have gone away.
            let _ = answer.send(looked);
        });
        self.jobs.try_send(job).map_err(|error| match error {
            std::sync::mpsc::TrySendError::Full(_) => QueryError::Busy,
            std::sync::mpsc::TrySendError::Disconnected(_) => QueryError::Closed,
        })?;
        Ok(answered.await.map_err(|_| QueryError::Closed)??)
    }
}

fn get(db: &Connection, id: InvocationId) -> rusqlite::Result<Option<Whole>> {
    let Some(mut record) = rows::find(db, id)? else {
        return Ok(None);
    };
    record.result = rows::result(db, id)?;
    let sql = format!("SELECT {ATTEMPT} FROM attempt WHERE invocation = ?1 ORDER BY n");
    let attempts = db
        .prepare_cached(&sql)?
        .query_map([blob(id)], |row| rows::attempt(row, record.function.clone()))?
        .collect::<rusqlite::Result<_>>()?;
    let origin: Option<[u8; 16]> = db
        .prepare_cached("SELECT origin FROM invocation WHERE id = ?1")?
        .query_row([blob(id)], |row| row.get(0))?;
    Ok(Some(Whole {
        record,
        attempts,
        origin: origin.map(|id| InvocationId(u128::from_be_bytes(id))),
    }))
}

fn stored_invocation(db: &Connection, id: InvocationId) -> rusqlite::Result<Option<StoredInvocation>> {
    let sql = format!(
        "SELECT {RECORD}, dead IS 1, priority IS NOT NULL AND (durable OR state <> 'succeeded'), {PAYLOAD}
        FROM invocation WHERE id = ?1"
    );
    let read = |row: &Row<'_>| {
        let kept: bool = row.get(15)?;
        Ok(StoredInvocation {
            record: rows::record(row)?,
            dead: row.get(14)?,
            payload: if kept { Some(rows::payload(row, 16)?) } else { None },
        })
    };
    db.prepare_cached(&sql)?.query_row([blob(id)], read).optional()
}
