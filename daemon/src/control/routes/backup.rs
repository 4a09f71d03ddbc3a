//! `GET /v1/backup`: a copy of the ledger in its present state, an SQLite database; `fndctl backup` adds the files.

use crate::control::backend::Failure;
use crate::control::call::Call;
use crate::http::response::{Answered, Refusal, refuse};
use crate::http::stream::pieces;
use fnd_core::api::problem::Code;

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let (size, bytes) = call.backend.backup().await.map_err(|failure| refused(&failure))?;
    Ok(pieces("application/vnd.sqlite3", size, bytes))
}

/// Returns the refusal with its reason: a caller that may read the whole history may read this too, and has to make
/// room.
fn refused(failure: &Failure) -> Refusal {
    tracing::error!("failed to copy the ledger: {failure}");
    refuse(Code::Internal, format!("failed to copy the ledger: {failure}"))
}
