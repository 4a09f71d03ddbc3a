//! Questions about the history, answered by a thread with a connection of its own that can only read.
//!
//! Every answer includes what was submitted to the writer before the question: who has seen a run end finds it here.

use super::rows::{self, ATTEMPT, RECORD, blob, int};
use super::writer::Writer;
use fnd_core::ids::{FunctionName, InvocationId};
use fnd_core::outcome::{Reason, State, Trigger};
use fnd_core::record::{AttemptRecord, InvocationRecord, RunResult};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use tokio::sync::oneshot;

/// Questions waiting; as many as the control socket has connections. More are refused as busy.
const WAITING_MAX: usize = 256;
/// How long a question waits for the writer before it is answered with what is on disk: the disk does not answer then.
const FLUSH: Duration = Duration::from_secs(2);
/// Most elements of a page.
pub const PAGE_MAX: u32 = 1000;
/// Ids are made a little before their invocation is accepted; ids of that time may lie before `since` by this much.
const ID_SLACK_MS: u64 = 60_000;

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
    /// Newest first, without results.
    pub records: Vec<InvocationRecord>,
    /// Cursor of the next page, if there is one.
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
    pub(super) fn start(db: Connection, writer: &Writer) -> io::Result<Self> {
        let (jobs, waiting) = sync_channel::<Job>(WAITING_MAX);
        let writer = writer.clone();
        std::thread::Builder::new().name("history".into()).spawn(move || {
            for job in waiting {
                writer.flush(FLUSH);
                job(&db);
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

    /// Returns an invocation with its result, and its attempts, oldest first.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn get(&self, id: InvocationId) -> Result<Option<(InvocationRecord, Vec<AttemptRecord>)>, QueryError> {
        self.ask(move |db| get(db, id)).await
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

    async fn ask<T, F>(&self, question: F) -> Result<T, QueryError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |db| {
            // Who asked may have gone away.
            let _ = answer.send(question(db));
        });
        self.jobs.try_send(job).map_err(|error| match error {
            std::sync::mpsc::TrySendError::Full(_) => QueryError::Busy,
            std::sync::mpsc::TrySendError::Disconnected(_) => QueryError::Closed,
        })?;
        Ok(answered.await.map_err(|_| QueryError::Closed)??)
    }
}

fn list(db: &Connection, filter: &Filter) -> rusqlite::Result<Page> {
    let limit = filter.limit.unwrap_or(100).clamp(1, PAGE_MAX);
    let mut conditions = String::from("1");
    let mut values: Vec<Value> = Vec::new();
    let mut add = |condition: &str, value: Value| {
        conditions.push_str(" AND ");
        conditions.push_str(condition);
        values.push(value);
    };
    let text = |word: &str| Value::Text(word.to_owned());
    if let Some(function) = &filter.function {
        add("function = ?", text(function.as_str()));
    }
    if let Some(state) = filter.state {
        add("state = ?", text(state.as_str()));
    }
    if let Some(reason) = filter.reason {
        add("reason = ?", Value::Text(reason.to_string()));
    }
    if let Some(trigger) = filter.trigger {
        add("trigger = ?", text(trigger.as_str()));
    }
    if let Some(since) = filter.since_ms {
        add("accepted_ms >= ?", int(since).into());
        let first = u128::from(since.saturating_sub(ID_SLACK_MS)) << 80;
        add("id >= ?", Value::Blob(first.to_be_bytes().into()));
    }
    if let Some(until) = filter.until_ms {
        add("accepted_ms < ?", int(until).into());
    }
    if let Some(after) = filter.after {
        add("id < ?", Value::Blob(blob(after).into()));
    }
    // One more than asked for tells whether there is a next page.
    let sql = format!(
        "SELECT {RECORD} FROM invocation WHERE {conditions} ORDER BY id DESC LIMIT {}",
        limit + 1
    );
    let mut records: Vec<InvocationRecord> = db
        .prepare_cached(&sql)?
        .query_map(params_from_iter(values), rows::record)?
        .collect::<rusqlite::Result<_>>()?;
    let more = records.len() > limit as usize;
    records.truncate(limit as usize);
    let next = records.last().filter(|_| more).map(|record| record.id);
    Ok(Page { records, next })
}

fn get(db: &Connection, id: InvocationId) -> rusqlite::Result<Option<(InvocationRecord, Vec<AttemptRecord>)>> {
    let Some(mut record) = rows::find(db, id)? else {
        return Ok(None);
    };
    record.result = rows::result(db, id)?;
    let sql = format!("SELECT {ATTEMPT} FROM attempt WHERE invocation = ?1 ORDER BY n");
    let attempts = db
        .prepare_cached(&sql)?
        .query_map([blob(id)], |row| rows::attempt(row, record.function.clone()))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some((record, attempts)))
}
