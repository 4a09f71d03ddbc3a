//! `GET /v1/backup`: a copy of the ledger as it is now, an SQLite database; `fndctl backup` puts it beside the files.

use crate::control::answer::failed;
use crate::control::request::{Call, Query};
use crate::control::response::{Answered, Refusal, pieces};

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    Query::of(&call, &[])?;
    let (size, bytes) = call.backend.backup().await.map_err(failed("copy the ledger"))?;
    Ok(pieces("application/vnd.sqlite3", size, bytes))
}
