//! Makes a payload of the headers and the body of a request. A body that is called JSON is checked.

use crate::buffers::{Buffers, keeping};
use crate::http::headers::joined;
use crate::http::request::{IncomingRequest, bytes_of};
use crate::http::response::{Refusal, no_room, refuse};
use fnd_core::api::problem::Code;
use fnd_core::data::Data;
use fnd_core::json;
use fnd_core::json::is_json;
use fnd_core::records::Payload;
use fnd_core::records::outcome::Trigger;
use fnd_core::run::Submit;
use fnd_core::trace::Trace;
use fnd_core::triggers::lambda;
use fnd_manifest::function::Mode;
use fnd_wire::ids::{FunctionName, InvocationId};
use hyper::header::CONTENT_TYPE;
use std::sync::Arc;

/// The type that `curl -d` states for every body.
const FORM: &str = "application/x-www-form-urlencoded";

/// Returns the trace that a request continues.
pub(crate) fn trace(request: &IncomingRequest) -> Option<Trace> {
    Trace::of(|name| joined(&request.parts.headers, name))
}

/// Returns the run that a request asks for, without its body, target and id. The backend sets the id when it accepts the request,
/// because an id contains that time.
///
/// # Errors
/// As [`IncomingRequest::header`].
pub(crate) fn of_headers(
    request: &IncomingRequest,
    function: FunctionName,
    trigger: Trigger,
) -> Result<Submit, Refusal> {
    let content_type = request.header(&CONTENT_TYPE)?.filter(|text| !text.is_empty());
    let mut submit = Submit::new(InvocationId(0), function, trigger);
    submit.payload.content_type = content_type.map(Arc::from);
    submit.payload.trace = trace(request);
    Ok(submit)
}

/// Makes a body the payload of a function with a mode.
///
/// # Errors
/// [`Code::BadJson`] if it is called JSON and is none.
pub(crate) fn put(payload: &mut Payload, data: Data, mode: Mode) -> Result<(), Refusal> {
    // Many clients send `Content-Length: 0`, or a content type, with a request without a body: that means no payload, not an
    // empty one. A program that serves HTTP gets the request as it came.
    if data.size() == 0 && (mode != Mode::Http || payload.content_type.is_none()) {
        payload.data = None;
        return Ok(());
    }
    let of_type = |is: fn(&str) -> bool| payload.content_type.as_deref().is_some_and(is);
    // A program that serves HTTP decides itself which bodies it accepts.
    if mode != Mode::Http && (of_type(is_json) || of_type(is_form)) {
        let bytes = bytes_of(&data)?;
        if of_type(is_json) {
            check_json(&bytes)?;
        } else if bytes.first().is_some_and(|first| b"{[".contains(first)) && check_json(&bytes).is_ok() {
            // The names of a form's fields are never a JSON value by chance: its sender forgot to state the type.
            payload.content_type = Some("application/json".into());
        }
    }
    payload.data = Some(data);
    Ok(())
}

/// Makes a request with its body the payload of a run that has its id: an event of AWS Lambda.
///
/// # Errors
/// [`Code::Unavailable`] if neither memory nor disk has room for the event.
pub(crate) async fn put_event(
    submit: &mut Submit,
    body: Data,
    (buffers, is_strangers): (&Arc<Buffers>, bool),
) -> Result<(), Refusal> {
    let request = submit.payload.request.clone().unwrap_or_default();
    let event = lambda::event(&request, (&submit.function, submit.id), &bytes_of(&body)?);
    let event = buffers.hold_body(event).await;
    let event = event.map_err(|error| no_room("the event", &error))?;
    submit.payload.data = Some(match is_strangers {
        // A stranger's body has a share of the budget, which ends with the body.
        true => keeping(event, body),
        false => event,
    });
    submit.payload.content_type = Some("application/json".into());
    Ok(())
}

fn is_form(content_type: &str) -> bool {
    let (media, _) = content_type.split_once(';').unwrap_or((content_type, ""));
    media.trim().eq_ignore_ascii_case(FORM)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns content type and payload, or the code of the refusal.
    fn check(mode: Mode, content_type: Option<&str>, body: &str) -> String {
        let mut payload = Payload {
            content_type: content_type.map(Arc::from),
            ..Payload::default()
        };
        let data = Data::from(body.as_bytes().to_vec());
        match put(&mut payload, data, mode) {
            Ok(()) => {
                let data = payload
                    .data
                    .map(|data| String::from_utf8(data.bytes().unwrap().into_owned()).unwrap());
                format!("{} {data:?}", payload.content_type.unwrap_or_default())
            }
            Err(refusal) => format!("{:?}", refusal.problem.code),
        }
    }

    #[tokio::test]
    async fn the_event_of_a_request_has_the_body_and_its_room() {
        let directory = tempfile::tempdir().unwrap();
        let buffers = Buffers::new(1 << 20, directory.path().to_owned());
        for is_strangers in [false, true] {
            let mut submit = Submit::new(InvocationId(7), FunctionName::new("f").unwrap(), Trigger::Http);
            let body = Data::from(b"\xff");
            assert!(put_event(&mut submit, body, (&buffers, is_strangers)).await.is_ok());
            assert_eq!(submit.payload.content_type.as_deref(), Some("application/json"));
            let data = submit.payload.data.unwrap();
            let event: serde_json::Value = serde_json::from_slice(&data.bytes().unwrap()).unwrap();
            assert_eq!(
                (&event["body"], &event["isBase64Encoded"]),
                (&"/w==".into(), &true.into())
            );
            assert_eq!(buffers.held(), (data.size(), 0));
        }
        assert_eq!(buffers.held(), (0, 0));
    }

    #[test]
    fn no_body_is_no_payload_whatever_its_type() {
        for content_type in [None, Some("application/json"), Some("text/plain"), Some(FORM)] {
            for mode in [Mode::Script, Mode::Handler] {
                let expected = format!("{} None", content_type.unwrap_or_default());
                assert_eq!(check(mode, content_type, ""), expected);
            }
        }
        let json = Some("application/json");
        assert_eq!(check(Mode::Http, json, ""), "application/json Some(\"\")");
        assert_eq!(check(Mode::Script, json, " "), "\"bad-json\"");
    }

    #[test]
    fn json_that_is_called_a_form_is_json() {
        let form = |mode, body| check(mode, Some("application/x-www-form-urlencoded; charset=utf-8"), body);
        assert_eq!(form(Mode::Handler, "[1]"), "application/json Some(\"[1]\")");
        for body in ["a=1", "{", "{a}=1", "1"] {
            assert!(form(Mode::Handler, body).starts_with(FORM), "{body}");
        }
        assert!(form(Mode::Http, "[1]").starts_with(FORM));
    }
}
