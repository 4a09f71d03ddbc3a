//! `GET /metrics`: all metrics, in the form that the request accepts.

use crate::control::call::Call;
use crate::http::response::{Answered, Refusal, whole};
use crate::metrics::Form;

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let form = Form::accepted(call.request.header("accept")?.unwrap_or(""));
    let text = call.backend.metrics(form).await;
    Ok(whole(form.content_type(), text))
}
