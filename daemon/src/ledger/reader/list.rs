//! Lists of invocations, newest first. The work for a page is bounded, whatever the filter and the number of
//! invocations.
//!
//! A page checks at most [`CHECK_MAX`] rows. If few of them match the filter, the page is short, and its cursor
//! continues after the last row that was checked. The most frequent searches have an index: a function, failed
//! invocations, unfinished invocations, dead letters, the calls of an invocation. A cursor is an id, and ids grow with time, so new invocations
//! appear in no later page.

use crate::ledger::rows::{self, CALLED, FAILED, PARENT, RECORD, UNFINISHED, int};
use fnd_core::records::outcome::RunState;
use fnd_core::records::{InvocationFilter, InvocationRecord, UsageSum};
use fnd_wire::ids::InvocationId;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use std::collections::BTreeSet;

/// Most rows that a page checks: about 20 ms if each is read from another place of a file of gigabytes.
pub(in crate::ledger) const CHECK_MAX: usize = 2000;
/// An id is made shortly before its invocation is accepted; so the time of an id may be before `since` by this much.
pub(super) const ID_SLACK_MS: u64 = 60_000;

/// Most elements of a page.
pub const PAGE_MAX: u32 = 1000;

/// A page of the history.
#[derive(Debug, Clone, Default)]
pub struct RecordPage {
    /// Newest first, without results. There are fewer than requested, or none, if few of the checked rows match the
    /// filter.
    pub records: Vec<InvocationRecord>,
    /// The usage of each record, if the filter asks for it; else empty.
    pub usage: Vec<UsageSum>,
    /// Those whose hooks have failed.
    pub hook_failed: BTreeSet<InvocationId>,
    /// Cursor of the next page, if there may be one.
    pub next: Option<InvocationId>,
}

/// An SQL statement with its values.
#[derive(Debug, Default)]
pub(in crate::ledger) struct Statement {
    pub(in crate::ledger) sql: String,
    pub(in crate::ledger) values: Vec<Value>,
}

impl Statement {
    fn add(&mut self, condition: &str, value: Value) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.push(value);
    }

    /// Calls `take` with the rows that this lists and with their ids, for a page of at most `most` elements; `take` returns how
    /// many it has. Returns the last id if more rows may follow.
    pub(super) fn page(
        self,
        db: &Connection,
        most: usize,
        mut take: impl FnMut(&Row<'_>, InvocationId) -> rusqlite::Result<usize>,
    ) -> rusqlite::Result<Option<InvocationId>> {
        let mut statement = db.prepare_cached(&self.sql)?;
        let mut found = statement.query(params_from_iter(self.values))?;
        let (mut last, mut checked, mut taken) = (None, 0, 0);
        while let Some(row) = found.next()? {
            if taken == most || checked == CHECK_MAX {
                return Ok(last);
            }
            checked += 1;
            let id = rows::id(row, 0)?;
            last = Some(id);
            taken = take(row, id)?;
        }
        Ok(None)
    }
}

/// Returns the statement of a filter: it lists all candidates, each with whether it matches.
pub(in crate::ledger) fn statement(filter: &InvocationFilter) -> Statement {
    let text = |word: &str| Value::Text(word.to_owned());
    let mut fits = Statement {
        sql: "1".to_owned(),
        ..Statement::default()
    };
    let by_parent = filter.parent.filter(|_| !filter.dead);
    if let Some(function) = filter.function.as_ref().filter(|_| filter.dead || by_parent.is_some()) {
        fits.add("function = ?", text(function.as_str()));
    }
    if let Some(version) = &filter.version {
        fits.add("substr(lower(hex(version)), 1, length(?)) = ?", text(version));
        fits.values.push(text(version));
    }
    let number = |number: Option<u64>| number.map(|number| Value::Integer(int(number)));
    for (condition, value) in [
        ("state = ?", filter.state.map(|state| text(state.as_str()))),
        ("reason = ?", filter.reason.map(|reason| text(&reason.to_string()))),
        ("trigger = ?", filter.trigger.map(|trigger| text(trigger.as_str()))),
        ("instr(lower(message), lower(?)) > 0", filter.text.as_deref().map(text)),
        ("accepted_ms >= ?", number(filter.since_ms)),
        ("accepted_ms < ?", number(filter.until_ms)),
    ] {
        if let Some(value) = value {
            fits.add(condition, value);
        }
    }
    let (index, only) = match (filter.state, &filter.function) {
        _ if filter.dead => ("INDEXED BY dead", "dead = 1"),
        _ if by_parent.is_some() => ("INDEXED BY children", CALLED),
        (Some(RunState::Failed | RunState::Interrupted), Some(_)) => ("INDEXED BY failed_of", FAILED),
        (Some(RunState::Failed | RunState::Interrupted), None) => ("INDEXED BY failed", FAILED),
        (Some(state), None) if !state.is_final() => ("INDEXED BY unfinished", UNFINISHED),
        (_, Some(_)) => ("INDEXED BY by_function", "1"),
        (_, None) => ("NOT INDEXED", "1"),
    };
    let mut all = Statement {
        sql: format!(
            "SELECT {RECORD}, ({}), hook IS NOT NULL FROM invocation {index} WHERE {only}",
            fits.sql
        ),
        values: fits.values,
    };
    if let Some(parent) = by_parent {
        all.add(&format!("{PARENT} = ?"), Value::Text(parent.to_string()));
    } else if let Some(function) = filter.function.as_ref().filter(|_| !filter.dead) {
        all.add("function = ?", text(function.as_str()));
    }
    // There is always an upper bound on the id, so that SQLite searches the index and does not scan it.
    let below = filter.after.map_or(u128::MAX, |after| after.0);
    all.add("id < ?", Value::Blob(below.to_be_bytes().into()));
    if let Some(since) = filter.since_ms {
        let first = u128::from(since.saturating_sub(ID_SLACK_MS)) << 80;
        all.add("id >= ?", Value::Blob(first.to_be_bytes().into()));
    }
    all.sql.push_str(" ORDER BY id DESC");
    all
}

pub(in crate::ledger) fn list(db: &Connection, filter: &InvocationFilter) -> rusqlite::Result<RecordPage> {
    let limit = filter.limit.unwrap_or(100).clamp(1, PAGE_MAX) as usize;
    let mut page = RecordPage::default();
    let next = statement(filter).page(db, limit, |row, id| {
        // A missing version or reason makes the condition null, which counts as no match.
        if row.get::<_, Option<bool>>(15)?.unwrap_or(false) {
            let record = rows::record(row)?;
            // The row counts as checked: otherwise a limited caller could have the whole history read for one page.
            if filter.reach.views(&record.function) {
                // Only where somebody asks for it, because it reads the attempts of each record.
                if filter.usage {
                    page.usage.push(rows::usage(db, id)?);
                }
                if row.get(16)? {
                    page.hook_failed.insert(id);
                }
                page.records.push(record);
            }
        }
        Ok(page.records.len())
    })?;
    Ok(RecordPage { next, ..page })
}
