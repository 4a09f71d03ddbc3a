//! `GET /v1/schedules[?function=F&next=N]`; `POST /v1/functions/F/schedules/pause` and `resume`.

use crate::control::call::ControlCall;
use crate::control::refusal::{failed, not_stored};
use crate::http::response::{Answered, Refusal, json, long_json, refuse};
use crate::invoke::refusal::no_function;
use fnd_core::api::Changed;
use fnd_core::api::problem::Code;
use fnd_wire::ids::FunctionName;

/// Most slots of a schedule in one answer.
const NEXT_MAX: usize = 100;

pub(super) async fn list(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["function", "next"])?;
    let function = query.get("function", "the name of a function", |text| {
        FunctionName::new(text).ok()
    })?;
    let count = |text: &str| text.parse().ok().filter(|count| (1..=NEXT_MAX).contains(count));
    let next = query.get("next", "a number from 1 to 100", count)?.unwrap_or(1);
    let schedules = call.backend.schedules(function, next).await;
    let mut list = schedules.map_err(failed("read the last scheduled runs"))?;
    list.schedules.retain(|schedule| call.reach.views(&schedule.function));
    let items = list.schedules.len();
    long_json(list, items).await
}

pub(super) async fn pause(call: ControlCall) -> Result<Answered, Refusal> {
    set(call, true).await
}

pub(super) async fn resume(call: ControlCall) -> Result<Answered, Refusal> {
    set(call, false).await
}

async fn set(call: ControlCall, paused: bool) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let function = call.function()?;
    let changed = call.backend.pause_schedules(&function, paused).await;
    match changed.map_err(|why| not_stored(&why))? {
        None => Err(no_function(&function)),
        Some(false) => Err(refuse(Code::BadRequest, format!("`{function}` has no schedule"))),
        Some(true) => json(&Changed {
            state: if paused { "paused" } else { "active" }.to_owned(),
        }),
    }
}
