//! The runs that the audit lists: their rows have the caller of the control socket.
//!
//! A page checks no more rows than a list of the history does.

use super::list::{ID_SLACK_MS, Statement};
use super::{LedgerReader, QueryError};
use crate::ledger::rows::{self, int};
use fnd_core::api::AuditEntry;
use fnd_core::api::problem::Code;
use fnd_core::audit::{AuditFilter, AuditPart};
use fnd_core::instant;
use fnd_core::records::Response;
use fnd_core::records::outcome::{Reason, RunState};
use rusqlite::types::Value;
use rusqlite::{Connection, Result, Row};

const COLUMNS: &str = "id, function, accepted_ms, ended_ms, state, reason, response, caller_uid, caller_pid, caller_exe, \
    caller_verb";

impl LedgerReader {
    /// Lists the runs with a caller that a filter takes, newest first, without the names of users. `uid`: only what this user asked for.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn audited(&self, filter: AuditFilter, uid: Option<u32>) -> std::result::Result<AuditPart, QueryError> {
        self.ask(move |db| list(db, &filter, uid)).await
    }
}

fn list(db: &Connection, filter: &AuditFilter, uid: Option<u32>) -> Result<AuditPart> {
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    let rest = statement(filter).page(db, limit, |row, id| {
        if row.get(11)? {
            let entry = entry(row)?;
            let is_of = |verb: &String| *verb == entry.verb;
            if filter.verb.as_ref().is_none_or(is_of) && uid.is_none_or(|uid| uid == entry.uid) {
                found.push((id.0, entry));
            }
        }
        Ok(found.len())
    })?;
    let rest = rest.map(|id| id.0);
    Ok(AuditPart { found, rest })
}

/// Returns the statement that lists the rows of a filter's function, each with whether it is an ended run of its time.
fn statement(filter: &AuditFilter) -> Statement {
    let times = [filter.since_ms.unwrap_or(0), filter.until_ms.unwrap_or(u64::MAX)];
    let mut values = times.map(|time| Value::Integer(int(time))).to_vec();
    let (index, only) = match &filter.function {
        Some(function) => {
            values.push(Value::Text(function.to_string()));
            ("by_function", "function = ?")
        }
        None => ("audited", "caller_uid IS NOT NULL"),
    };
    let since_ms = filter.since_ms.map_or(0, |since| since.saturating_sub(ID_SLACK_MS));
    let ids = [filter.after.unwrap_or_default().run, u128::from(since_ms) << 80];
    values.extend(ids.map(|id| Value::Blob(id.to_be_bytes().into())));
    let sql = format!(
        "SELECT {COLUMNS}, caller_uid IS NOT NULL AND ended_ms IS NOT NULL AND accepted_ms >= ? AND accepted_ms < ?
        FROM invocation INDEXED BY {index} WHERE {only} AND id < ? AND id >= ? ORDER BY id DESC"
    );
    Statement { sql, values }
}

/// Reads the entry of a run: its end stands for the answer, which follows from the end (`invoke/answer.rs`).
fn entry(row: &Row<'_>) -> Result<AuditEntry> {
    let (accepted_ms, ended_ms): (u64, u64) = (row.get(2)?, row.get(3)?);
    let state = rows::word(row, 4, RunState::parse)?;
    let reason = rows::word_or_none(row, 5, Reason::parse)?.unwrap_or(Reason::Error);
    let chosen = rows::json_or_none::<Response>(row, 6)?.and_then(|response| response.status);
    let (status, code) = answer(state, reason, chosen);
    Ok(AuditEntry {
        time: instant::text(accepted_ms),
        uid: row.get(7)?,
        user: None,
        pid: row.get(8)?,
        exe: row.get(9)?,
        verb: row.get(10)?,
        function: Some(rows::function(row, 1)?),
        invocation: Some(rows::id(row, 0)?),
        status: Some(status),
        code: code.map(|code| code.as_str().to_owned()),
        refused: false,
        duration_us: ended_ms.saturating_sub(accepted_ms).saturating_mul(1000),
        count: 1,
    })
}

/// Returns status and code of the answer for the end of a run; `chosen` is the status that the function chose.
fn answer(state: RunState, reason: Reason, chosen: Option<u16>) -> (u16, Option<Code>) {
    // A handler reports its own failure with an answer of its own.
    let is_worded = state == RunState::Failed && reason == Reason::Error && chosen >= Some(500);
    if state == RunState::Succeeded || is_worded {
        return (chosen.unwrap_or(200), None);
    }
    let code = Code::of_end(reason);
    (code.status(), Some(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::records::outcome::Skip;

    #[test]
    fn the_end_of_a_run_says_what_its_caller_got() {
        use RunState::{Cancelled, Failed, Skipped, Succeeded};
        for (state, reason, chosen, status, code) in [
            (Succeeded, Reason::Ok, None, 200, None),
            (Succeeded, Reason::Ok, Some(404), 404, None),
            (Failed, Reason::Error, Some(503), 503, None),
            (Failed, Reason::Error, Some(404), 500, Some("function-failed")),
            (Failed, Reason::Exit(3), None, 500, Some("function-failed")),
            (Failed, Reason::Timeout, None, 408, Some("timeout")),
            (Cancelled, Reason::Cancelled, None, 500, Some("cancelled")),
            (Skipped, Reason::Skipped(Skip::Overlap), None, 503, Some("skipped")),
        ] {
            let (found, found_code) = answer(state, reason, chosen);
            assert_eq!((found, found_code.map(Code::as_str)), (status, code), "{reason}");
        }
    }
}
