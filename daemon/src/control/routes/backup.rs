//! `GET /v1/backup[?of=state]`: a copy of a database in its present state, in the form of SQLite; `fndctl backup` adds
//! the files.

use crate::backend::{Database, Failure};
use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal, refuse};
use crate::http::stream::pieces;
use fnd_core::api::problem::Code;

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["of"])?;
    let of = query.get("of", "`history` or `state`", |text| match text {
        "history" => Some(Database::Ledger),
        "state" => Some(Database::State),
        _ => None,
    })?;
    let of = of.unwrap_or(Database::Ledger);
    let copied = call.backend.backup(of).await;
    let (size, bytes) = copied.map_err(|failure| refused(of, &failure))?;
    Ok(pieces("application/vnd.sqlite3", size, bytes))
}

/// Returns the refusal with its reason: a caller that may read the whole history may read this too, and has to make
/// room.
fn refused(of: Database, failure: &Failure) -> Refusal {
    let what = match of {
        Database::Ledger => "the ledger",
        Database::State => "the state of functions",
    };
    tracing::error!("failed to copy {what}: {failure}");
    refuse(Code::Internal, format!("failed to copy {what}: {failure}"))
}
