//! Lists of invocations, newest first: bounded work for a page, whatever the filter and however many there are.
//!
//! A page looks at so many rows and no more. Where few of them fit the filter it is short, and its cursor goes on from the last
//! one looked at. What people look for most has an index: a function, what failed, what has not ended, dead letters. A cursor
//! is an id, and ids grow with time: what comes meanwhile is in no later page.

use super::query::{Filter, PAGE_MAX, Page};
use super::rows::{self, FAILED, RECORD, UNFINISHED, int};
use fnd_core::outcome::State;
use fnd_core::record::InvocationRecord;
use fnd_wire::ids::InvocationId;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

/// Most rows a page looks at: some 20 ms where each is read from another place of a file of gigabytes.
pub(super) const LOOK_MAX: usize = 2000;
/// Ids are made a little before their invocation is accepted; ids of that time may lie before `since` by this much.
const ID_SLACK_MS: u64 = 60_000;

/// A statement put together.
#[derive(Debug, Default)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl Statement {
    fn add(&mut self, condition: &str, value: Value) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.push(value);
    }
}

/// Returns the statement of a filter: all that comes in question, each with whether it fits.
pub(super) fn statement(filter: &Filter) -> Statement {
    let text = |word: &str| Value::Text(word.to_owned());
    let mut fits = Statement {
        sql: "1".to_owned(),
        ..Statement::default()
    };
    if let Some(function) = filter.function.as_ref().filter(|_| filter.dead) {
        fits.add("function = ?", text(function.as_str()));
    }
    if let Some(state) = filter.state {
        fits.add("state = ?", text(state.as_str()));
    }
    if let Some(reason) = filter.reason {
        fits.add("reason = ?", Value::Text(reason.to_string()));
    }
    if let Some(trigger) = filter.trigger {
        fits.add("trigger = ?", text(trigger.as_str()));
    }
    if let Some(version) = &filter.version {
        fits.add("substr(lower(hex(version)), 1, length(?)) = ?", text(version));
        fits.values.push(text(version));
    }
    if let Some(words) = &filter.text {
        fits.add("instr(lower(message), lower(?)) > 0", text(words));
    }
    if let Some(since) = filter.since_ms {
        fits.add("accepted_ms >= ?", int(since).into());
    }
    if let Some(until) = filter.until_ms {
        fits.add("accepted_ms < ?", int(until).into());
    }
    let (index, only) = match (filter.state, &filter.function) {
        _ if filter.dead => ("INDEXED BY dead", "dead = 1"),
        (Some(State::Failed | State::Interrupted), Some(_)) => ("INDEXED BY failed_of", FAILED),
        (Some(State::Failed | State::Interrupted), None) => ("INDEXED BY failed", FAILED),
        (Some(state), None) if !state.is_final() => ("INDEXED BY unfinished", UNFINISHED),
        (_, Some(_)) => ("INDEXED BY by_function", "1"),
        (_, None) => ("NOT INDEXED", "1"),
    };
    let mut all = Statement {
        sql: format!("SELECT {RECORD}, ({}) FROM invocation {index} WHERE {only}", fits.sql),
        values: fits.values,
    };
    if let Some(function) = filter.function.as_ref().filter(|_| !filter.dead) {
        all.add("function = ?", text(function.as_str()));
    }
    // Always a bound above: the statement is a search, not a scan.
    let below = filter.after.map_or(u128::MAX, |after| after.0);
    all.add("id < ?", Value::Blob(below.to_be_bytes().into()));
    if let Some(since) = filter.since_ms {
        let first = u128::from(since.saturating_sub(ID_SLACK_MS)) << 80;
        all.add("id >= ?", Value::Blob(first.to_be_bytes().into()));
    }
    all.sql.push_str(" ORDER BY id DESC");
    all
}

/// Lists a page.
pub(super) fn list(db: &Connection, filter: &Filter) -> rusqlite::Result<Page> {
    let limit = filter.limit.unwrap_or(100).clamp(1, PAGE_MAX) as usize;
    let Statement { sql, values } = statement(filter);
    let mut statement = db.prepare_cached(&sql)?;
    let mut found = statement.query(params_from_iter(values))?;
    let mut records: Vec<InvocationRecord> = Vec::new();
    let mut last: Option<InvocationId> = None;
    let mut looked = 0;
    while let Some(row) = found.next()? {
        if records.len() == limit || looked == LOOK_MAX {
            return Ok(Page { records, next: last });
        }
        looked += 1;
        last = Some(rows::id(row, 0)?);
        // No version and no reason are null, which fits no filter.
        if row.get::<_, Option<bool>>(14)?.unwrap_or(false) {
            records.push(rows::record(row)?);
        }
    }
    Ok(Page { records, next: None })
}
