//! `GET /metrics`: all metrics, in the form that the request accepts.

use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal, whole};
use crate::metrics::MetricsFormat;

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let form = MetricsFormat::accepted(call.request.header("accept")?.unwrap_or(""));
    let text = call.backend.metrics(form).await;
    Ok(whole(form.content_type(), text))
}
