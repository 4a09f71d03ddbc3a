//! `GET /v1/log-level`, `POST /v1/log-level?level=debug[&for=10m]`: the level from which fnd logs its own messages.

use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal, json, refuse};
use crate::telemetry::level;
use fnd_core::api::LogLevel;
use fnd_core::api::problem::Code;
use fnd_core::instant;
use std::time::Duration;

/// Longest time for which a temporary level can be set.
const FOR_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

pub(super) async fn show(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    now()
}

pub(super) async fn set(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["level", "for"])?;
    let time = query.duration("for", FOR_MAX)?;
    let Some(text) = query.get("level", "a level such as `debug`", |text| Some(text.to_owned()))? else {
        return Err(refuse(Code::BadRequest, "`level` is missing: use `?level=debug`"));
    };
    let set = call.backend.set_log_level(&text, time);
    set.map_err(|why| refuse(Code::BadRequest, why))?;
    now()
}

fn now() -> Result<Answered, Refusal> {
    let (level, until) = level::now();
    json(&LogLevel {
        level,
        until: until.map(instant::text),
    })
}
