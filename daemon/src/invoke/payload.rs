//! The payload of a request: its body, checked where fnd knows what it has to be.

use crate::http::response::{Refusal, internal, refuse};
use fnd_core::api::problem::Code;
use fnd_core::data::Data;
use fnd_core::json;
use fnd_core::record::{Payload, is_json};
use fnd_manifest::function::Mode;

/// Makes a body the payload of a function with a mode.
///
/// # Errors
/// [`Code::BadJson`] if it is called JSON and is none.
pub(crate) fn put(payload: &mut Payload, data: Data, mode: Mode) -> Result<(), Refusal> {
    if data.size() == 0 && payload.content_type.is_none() {
        // Many clients send `Content-Length: 0` for a request without a body: that means no payload, not an empty one.
        payload.data = None;
        return Ok(());
    }
    // A program that serves HTTP decides itself which bodies it accepts.
    if mode != Mode::Http && payload.content_type.as_deref().is_some_and(is_json) {
        let bytes = data
            .bytes()
            .map_err(|error| internal("read a body from the disk", &error))?;
        check_json(&bytes)?;
    }
    payload.data = Some(data);
    Ok(())
}

fn check_json(bytes: &[u8]) -> Result<(), Refusal> {
    let checked = serde_json::from_slice::<serde::de::IgnoredAny>(bytes);
    checked.map_err(|error| refuse(Code::BadJson, format!("the body is not JSON: {error}")))?;
    if json::is_too_deep(bytes) {
        let detail = format!("the body is JSON nested deeper than {} levels", json::DEPTH_MAX);
        return Err(refuse(Code::BadJson, detail));
    }
    Ok(())
}
