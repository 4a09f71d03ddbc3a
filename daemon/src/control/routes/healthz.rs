//! `GET /healthz`: whether functions can run. It needs no role, because it is for monitoring.

use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal, refuse, whole};
use fnd_core::api::problem::Code;

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    match call.backend.health() {
        Ok(()) => Ok(whole("text/plain; charset=utf-8", "ok\n")),
        Err(reason) => Err(refuse(Code::Unavailable, reason)),
    }
}
