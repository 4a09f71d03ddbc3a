//! Any bytes as what a function of AWS Lambda answers, and as the body of a request: an answer has no header that a browser would
//! read another way, the head of a stream is the same however its bytes come, and the body comes back from the event.
#![no_main]

use fnd_core::records::protocol::HttpRequest;
use fnd_core::records::{Response, RunResult};
use fnd_core::triggers::lambda::{begun, event, read};
use fnd_wire::ids::InvocationId;
use libfuzzer_sys::fuzz_target;

const PRELUDE: &str = "application/vnd.awslambda.http-integration-response";

fn check(response: &Response) {
    assert!(response.status.is_none_or(|status| (200..600).contains(&status)));
    let texts = response.headers.iter().flat_map(|(name, value)| [name, value]);
    for text in texts.chain(&response.content_type) {
        assert!(!text.contains(['\r', '\n', '\0']));
    }
}

fuzz_target!(|bytes: &[u8]| {
    for content_type in ["application/json", "text/plain", PRELUDE] {
        let response = Response {
            content_type: Some(content_type.to_owned()),
            ..Response::default()
        };
        if let Ok(Some(answer)) = read(&RunResult::stated(response, bytes.to_vec().into())) {
            check(&answer.response);
        }
    }
    let stated = Response {
        content_type: Some(PRELUDE.to_owned()),
        ..Response::default()
    };
    if let Ok(Some((response, at))) = begun(&stated, bytes) {
        check(&response);
        assert_eq!(begun(&stated, &bytes[..at]), Ok(Some((response, at))));
        assert_eq!(begun(&stated, &bytes[..at - 1]), Ok(None));
    }
    let request = HttpRequest {
        query: String::from_utf8_lossy(bytes).into_owned(),
        headers: vec![("content-type".to_owned(), "text/plain".to_owned())],
        ..HttpRequest::default()
    };
    let function = "f".parse().expect("a name");
    let event = event(&request, (&function, InvocationId(7)), bytes);
    let event: serde_json::Value = serde_json::from_slice(&event).expect("JSON");
    let text = event["body"].as_str().unwrap_or_default();
    assert_eq!(event["rawQueryString"].as_str(), Some(request.query.as_str()));
    if event["isBase64Encoded"] == false {
        assert_eq!(text.as_bytes(), bytes);
    }
});
