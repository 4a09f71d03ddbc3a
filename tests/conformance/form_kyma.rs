//! Functions of Kyma in JavaScript: `main(event, context, sendResponse)`, and `main(req, res)` with the module `sdk`.

use crate::form_express::both;
use crate::forms::{request, runtime, serve};
use crate::runtimes;
use crate::worker::{Answer, Call};
use fnd_core::records::protocol::FailureKind;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const EVENT: &str =
    r#"{"specversion":"1.0","id":"1","type":"made","source":"shop","eventtypeversion":"v1","data":{"a":1}}"#;

#[test]
fn a_main_of_kyma_has_its_helpers() {
    let code = "
export async function main(event, context) {
  const { setResponseHeader, setResponseStatus, tracer } = event;
  setResponseHeader('X-A', 'b');
  setResponseStatus(202);
  const span = tracer.startSpan('work').setAttribute('a', 1).addEvent('begun').setStatus({ code: 1 });
  span.recordException(new Error('no'));
  span.end();
  const answer = event.buildResponseCloudEvent('7', 'done', 'text');
  return {
    answer, body: event.extensions.request.body, data: event.data, trace: span.spanContext().traceId,
    active: tracer.startActiveSpan('more', (span) => span.isRecording()), name: context['function-name'],
  };
}
";
    both(|runtime| {
        let (mut worker, _function) = serve(runtime, "handler.mjs", code, "");
        let event: Value = serde_json::from_str(EVENT).unwrap();
        let Answer::Result(head, Some(body)) = worker.call(&Call::of("application/cloudevents+json", EVENT.as_bytes()))
        else {
            panic!("{} did not answer", runtime.id);
        };
        assert_eq!(head.status, Some(202), "{}", runtime.id);
        assert_eq!(head.headers, [("x-a".to_owned(), "b".to_owned())], "{}", runtime.id);
        let expected = json!({
            "answer": {
                "type": "done", "source": "shop", "eventtypeversion": "v1", "specversion": "1.0", "id": "7", "data": "text",
                "datacontenttype": "text/plain",
            },
            "body": event, "data": {"a": 1}, "trace": "0af7651916cd43dd8448eb211c80319c", "active": false, "name": "main",
        });
        assert_eq!(
            serde_json::from_slice::<Value>(&body).unwrap(),
            expected,
            "{}",
            runtime.id
        );
    });
}

/// Kyma parses the body of a request; Kubeless leaves it as bytes.
#[test]
fn the_body_is_parsed_in_a_main_of_kyma_and_in_a_handler_for_express() {
    let kyma = "export function main(event) { return JSON.stringify(event.extensions.request.body); }";
    let express = "export default function (_, res) { res.json(_.body); }";
    both(|runtime| {
        for code in [kyma, express] {
            let (mut worker, _function) = serve(runtime, "handler.mjs", code, "");
            for (content_type, body, expected) in [
                ("application/json", r#"{"a":[1]}"#, r#"{"a":[1]}"#),
                (
                    "application/x-www-form-urlencoded",
                    "a=1&b=x+y&b=z",
                    r#"{"a":"1","b":["x y","z"]}"#,
                ),
                ("text/plain", "x", r#""x""#),
                ("application/octet-stream", "", "{}"),
                ("application/octet-stream", "a", r#"{"type":"Buffer","data":[97]}"#),
            ] {
                let found = worker.call(&Call::of(content_type, body.as_bytes())).text();
                assert_eq!(found, expected, "{}, {content_type}: {code}", runtime.id);
            }
            assert_eq!(worker.call(&Call::default()).text(), "{}", "{}: {code}", runtime.id);
        }
        let kubeless = "export const handler = (event) => event.extensions.request.body.toString();";
        let (mut worker, _function) = serve(runtime, "handler.mjs", kubeless, "");
        assert_eq!(worker.call(&Call::json("[1]")).text(), "[1]", "{}", runtime.id);
    });
}

#[test]
fn a_handler_for_express_is_known_by_its_parameters() {
    both(|runtime| {
        for (code, name) in [
            ("module.main = function (req, res) { res.send('yes'); }", "names"),
            (
                "module.main = async (request, response) => { await 1; response.send('yes'); }",
                "other names",
            ),
            (
                "module.main = ({ method }, res) => { res.send(method && 'yes'); }",
                "a pattern",
            ),
            (
                "module.main = function (req /* (, */, res = null) { res.send('yes'); }",
                "a comment and a default",
            ),
            ("module.main = (req, res, next) => { next(); }", "next"),
            ("module.main = (event, context) => context.trigger && 'yes'", "an event"),
            (
                "module.main = (event, { trigger }) => trigger && 'yes'",
                "a pattern for the context",
            ),
            ("module.main = event => 'yes'", "one parameter"),
        ] {
            let code = format!("const module = {{}};\n{code};\nexport const main = module.main;");
            let (mut worker, _function) = serve(runtime, "handler.mjs", &code, "");
            let Answer::Result(head, Some(body)) = worker.call(&Call::default()) else {
                panic!("{}, {name}", runtime.id);
            };
            let (status, text) = if name == "next" {
                (Some(404), "Not Found")
            } else {
                (None, "yes")
            };
            let found = (head.status, String::from_utf8(body).unwrap());
            assert_eq!(found, (status, text.to_owned()), "{}, {name}", runtime.id);
        }
    });
}

#[test]
fn a_callback_of_another_system_says_what_the_third_argument_is() {
    let code = "export function handler(event, context, callback) { callback(null, { a: 1 }); }";
    both(|runtime| {
        let (mut worker, _function) = serve(runtime, "lambda.mjs", code, "");
        let (kind, message) = worker.call(&Call::default()).error();
        assert_eq!(kind, FailureKind::Error, "{}", runtime.id);
        assert!(
            message.contains("no `callback(error, result)`"),
            "{}: {message}",
            runtime.id
        );
    });
}

#[test]
fn a_function_imports_the_sdk_of_kyma() {
    let node = runtime!("node");
    let body = "(req, res) {
  const event = getCloudEvent(req);
  getTracer().startSpan('x').end();
  res.json([getFunctionName(), getRuntime(), getTimeout(), event && [event.type, event.source, event.data]]);
}";
    let names = "{ getCloudEvent, getFunctionName, getRuntime, getTimeout, getTracer }";
    let files = [
        (
            "handler.mjs",
            format!("import {names} from 'sdk';\nexport function main{body}\n"),
        ),
        (
            "handler.cjs",
            format!("const {names} = require('sdk');\nexports.main = function {body};\n"),
        ),
    ];
    for (name, code) in &files {
        let (mut worker, _function) = serve(&node, name, code, "");
        let found = worker
            .call(&Call::of("application/cloudevents+json", EVENT.as_bytes()))
            .json();
        assert_eq!(
            found,
            json!(["handler", "node", 180, ["made", "shop", {"a": 1}]]),
            "{name}"
        );
        let mut binary = Call::json("[2]");
        binary.request = request(&[("ce-type", "made"), ("ce-source", "shop"), ("ce-id", "1")]);
        assert_eq!(worker.call(&binary).json()[3], json!(["made", "shop", [2]]), "{name}");
        assert_eq!(worker.call(&Call::json("{}")).json()[3], Value::Null, "{name}");
    }
}

/// What a handler sends is part of the trace of its call, and it sees the answer as in Kyma.
#[test]
fn an_event_is_sent_with_the_trace_of_its_call() {
    let node = runtime!("node");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let code = format!(
        "process.env.PUBLISHER_PROXY_ADDRESS = 'http://{address}/publish';
exports.main = async (event) => (await event.emitCloudEvent('made', 'shop', {{ a: 1 }}, {{ eventtypeversion: 'v1' }})).status;
"
    );
    let server = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        let mut buffer = [0; 4096];
        while !asked.ends_with(b"}") {
            let size = caller.read(&mut buffer).unwrap();
            asked.extend_from_slice(&buffer[..size]);
        }
        let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        caller.write_all(answer).unwrap();
        String::from_utf8(asked).unwrap()
    });
    let (mut worker, _function) = serve(&node, "emitter.cjs", &code, "");
    assert_eq!(worker.call(&Call::default()).json(), json!(204));
    let asked = server.join().unwrap();
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("traceparent: {TRACE}")), "{head}");
    let sent: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        [
            &sent["type"],
            &sent["source"],
            &sent["datacontenttype"],
            &sent["eventtypeversion"],
            &sent["data"]
        ],
        [
            &json!("made"),
            &json!("shop"),
            &json!("application/json"),
            &json!("v1"),
            &json!({"a": 1})
        ]
    );
}

#[test]
fn a_handler_finds_the_headers_of_its_trace() {
    let code = "export default (event, context) => [context.trace.traceparent, context.trace.headers()];";
    both(|runtime| {
        let (mut worker, _function) = serve(runtime, "trace.mjs", code, "");
        let expected = json!([TRACE, {"traceparent": TRACE}]);
        assert_eq!(worker.call(&Call::default()).json(), expected, "{}", runtime.id);
        let call = Call {
            request: request(&[("tracestate", "a=b"), ("b3", "0af7-b7ad-1"), ("x-other", "c")]),
            ..Call::default()
        };
        let expected = json!([TRACE, {"traceparent": TRACE, "tracestate": "a=b", "b3": "0af7-b7ad-1"}]);
        assert_eq!(worker.call(&call).json(), expected, "{}", runtime.id);
    });
}

/// Kubeless's runtime for CloudEvents 0.1.
#[test]
fn the_attributes_of_the_first_cloud_events_keep_their_names() {
    let code = "export default ({ eventID, eventType, source, data }) => ({ eventID, eventType, source, data });";
    let expected = json!({"eventID": "123", "eventType": "made", "source": "shop", "data": {"a": 1}});
    both(|runtime| {
        let (mut worker, _function) = serve(runtime, "first.mjs", code, "");
        let mut call = Call::json(r#"{"a":1}"#);
        call.request = request(&[
            ("ce-eventid", "123"),
            ("ce-eventtype", "made"),
            ("ce-eventsource", "shop"),
        ]);
        assert_eq!(worker.call(&call).json(), expected, "{}", runtime.id);
        let structured =
            r#"{"cloudEventsVersion":"0.1","eventID":"123","eventType":"made","source":"shop","data":{"a":1}}"#;
        let call = Call::of("application/cloudevents+json", structured.as_bytes());
        assert_eq!(worker.call(&call).json(), expected, "{}", runtime.id);
    });
}
