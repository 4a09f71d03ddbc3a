//! The payload of a function that a hook calls: the record, its result, the last lines of output, and the beginning of
//! the payload that led to it.

use crate::api::InvocationView;
use crate::data::Data;
use crate::records::InvocationRecord;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A call gets at most this many bytes of the first invocation's payload.
const PAYLOAD_MAX: usize = 64 << 10;

/// Returns the payload of a call, as JSON.
///
/// `output` has the last lines that the function printed. A result or a payload that is JSON is passed on as JSON, else
/// as text. If a payload is longer than 64 KiB, only its first 64 KiB are passed on, as text. A payload that cannot be
/// read is left out.
#[must_use]
pub fn payload(record: &InvocationRecord, output: &str, data: Option<&Data>) -> Vec<u8> {
    let bytes = data.and_then(|data| data.bytes().ok());
    let payload = bytes.as_ref().map(|bytes| {
        let first = bytes.get(..PAYLOAD_MAX).unwrap_or(bytes);
        // The beginning of a JSON text may be JSON as well, such as that of a long number, and would be another value.
        shown(first, first.len() == bytes.len())
    });
    let result = record.result.as_ref();
    let body = HookBody {
        record: InvocationView::of(record),
        result: result.map(|result| shown(&result.data, result.json)),
        output,
        payload,
    };
    serde_json::to_vec(&body).unwrap_or_default()
}

#[derive(serde::Serialize)]
struct HookBody<'a> {
    record: InvocationView,
    result: Option<ShownOutput<'a>>,
    output: &'a str,
    payload: Option<ShownOutput<'a>>,
}

/// A result or a payload in the body of a call: JSON as it is, anything else as text.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum ShownOutput<'a> {
    Json(&'a RawValue),
    Text(Cow<'a, str>),
}

/// Returns bytes as JSON if they are allowed to be JSON and are JSON, else as text. JSON that is nested too deep stays
/// text, because parsers of functions fail on it.
fn shown(bytes: &[u8], may_be_json: bool) -> ShownOutput<'_> {
    let is_fit = may_be_json && !crate::json::is_too_deep(bytes);
    match serde_json::from_slice::<&RawValue>(bytes) {
        Ok(json) if is_fit => ShownOutput::Json(json),
        _ => ShownOutput::Text(String::from_utf8_lossy(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;
    use crate::records::RunResult;
    use crate::records::outcome::RunState;
    use serde_json::{Value, json};

    fn body(record: &InvocationRecord, data: Option<&[u8]>) -> Value {
        let data = data.map(Data::from);
        serde_json::from_slice(&payload(record, "last\nlines", data.as_ref())).unwrap()
    }

    #[test]
    fn a_call_gets_record_result_output_and_payload() {
        let mut record = record(RunState::Failed);
        let found = body(&record, None);
        assert_eq!(found["record"]["function"], "f");
        assert_eq!(found["record"]["state"], "failed");
        assert_eq!((&found["result"], &found["payload"]), (&Value::Null, &Value::Null));
        assert_eq!(found["output"], "last\nlines");
        record.result = Some(RunResult {
            json: true,
            data: br#"{"a": 1.10}"#.as_slice().into(),
            response: None,
            kept: None,
        });
        let found = body(&record, Some(br#"{"url": "x"}"#));
        assert_eq!(
            (&found["result"]["a"], &found["payload"]),
            (&json!(1.10), &json!({"url": "x"}))
        );
        record.result = Some(RunResult {
            json: false,
            data: b"text".as_slice().into(),
            response: None,
            kept: None,
        });
        assert_eq!(body(&record, Some(b"\xffno json"))["payload"], "\u{fffd}no json");
        assert_eq!(body(&record, Some(b"\"x\""))["result"], "text");
    }

    #[test]
    fn a_long_payload_is_cut_and_text() {
        let long = format!("[{}1]", "1,".repeat(PAYLOAD_MAX));
        let found = body(&record(RunState::Succeeded), Some(long.as_bytes()));
        assert_eq!(found["payload"].as_str().unwrap().len(), PAYLOAD_MAX);
        let fits = format!("\"{}\"", "x".repeat(PAYLOAD_MAX - 2));
        assert_eq!(
            body(&record(RunState::Succeeded), Some(fits.as_bytes()))["payload"]
                .as_str()
                .unwrap()
                .len(),
            PAYLOAD_MAX - 2
        );
    }

    #[test]
    fn json_that_is_too_deep_stays_text() {
        let deep = format!("{}1{}", "[".repeat(600), "]".repeat(600));
        assert!(body(&record(RunState::Succeeded), Some(deep.as_bytes()))["payload"].is_string());
    }
}
