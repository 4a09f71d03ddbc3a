//! `GET /v1/config`: the effective configuration. It never contains secrets; it contains values of `[env]` only for an
//! admin.

use super::functions::hide_values;
use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal, json};
use fnd_manifest::settings::Role;

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let mut config = call.backend.config();
    if call.reach.node() < Some(Role::Admin) {
        hide_values(&mut config);
    }
    json(&config)
}
