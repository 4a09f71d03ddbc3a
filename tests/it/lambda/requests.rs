//! Requests to routes are events of function URLs (payload 2.0), their answers are those of AWS; schedules are events of EventBridge,
//! CloudEvents are their data.

use super::{bash, install, start};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{programs, require, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

/// Answers with the event as body.
const MIRROR: &str = "  answer=$(jq -c '{statusCode: 201, headers: {\"x-shop\": \"open\"}, cookies: [\"a=1; Path=/\", \"b=2\"], \
    body: tostring}' <<<\"$event\")";

#[test]
fn a_request_is_an_event_and_its_answer_a_response() {
    let (fnd, caller) = start();
    let route = |path: &str| format!("[[http]]\npath = \"{path}\"\nauth = \"none\"\n");
    install(&fnd, "mirror", &route("/mirror/{*rest}"), &bash(MIRROR));
    let headers = [("cookie", "s=1; t=2"), ("x-order", "7"), ("content-type", "text/plain")];
    let answer = caller.call("POST", "/mirror/a%20b?x=1&x=2&y=", &headers, b"hello");
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.header("x-shop"), Some("open"));
    let cookies: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1; Path=/", "b=2"]);
    let event: Value = answer.json();
    for (pointer, expected) in [
        ("/version", json!("2.0")),
        ("/rawPath", json!("/mirror/a%20b")),
        ("/rawQueryString", json!("x=1&x=2&y=")),
        ("/queryStringParameters/x", json!("1,2")),
        ("/cookies", json!(["s=1", "t=2"])),
        ("/headers/x-order", json!("7")),
        ("/requestContext/http/method", json!("POST")),
        ("/body", json!("hello")),
        ("/isBase64Encoded", json!(false)),
    ] {
        assert_eq!(event.pointer(pointer), Some(&expected), "{pointer}: {event}");
    }
    let bytes: [u8; 4] = [0, 159, 146, 150];
    let headers = [("content-type", "application/octet-stream")];
    let event: Value = caller.call("POST", "/mirror/x", &headers, &bytes).json();
    assert_eq!(
        (&event["body"], &event["isBase64Encoded"]),
        (&json!(STANDARD.encode(bytes)), &json!(true))
    );
    assert_eq!(fnd.history("mirror").len(), 2);

    let packed = format!(
        "  answer='{{\"statusCode\": 200, \"body\": \"{}\", \"isBase64Encoded\": true}}'",
        STANDARD.encode(bytes)
    );
    install(&fnd, "packed", &route("/packed"), &bash(&packed));
    let answer = caller.get("/packed");
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &bytes[..]));
    // Without `statusCode`, all of the answer is the body.
    install(&fnd, "plain", &route("/plain"), &bash("  answer='{\"a\": 1}'"));
    let answer = caller.get("/plain");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json::<Value>(), json!({"a": 1}));
    let data = format!("{}payload = \"data\"\n", route("/data"));
    install(&fnd, "data", &data, &bash("  answer=$event"));
    let answer = caller.post("/data", "{\"order\": 7}");
    assert_eq!(answer.json::<Value>(), json!({"order": 7}));
    fnd.finish();
}

#[test]
fn a_schedule_is_an_event_of_eventbridge() {
    let (fnd, _) = start();
    let note = fnd.shared_directory("notes").join("event");
    let manifest = format!("[env]\nNOTE = \"{}\"\n[[schedule]]\nevery = \"1s\"\n", note.display());
    let body = "  printf %s \"$event\" >\"$NOTE.$id\"; mv \"$NOTE.$id\" \"$NOTE\"; answer=null";
    install(&fnd, "tick", &manifest, &bash(body));
    let event: Value = wait_until("the event of a schedule", PATIENCE, || {
        serde_json::from_slice(&fs::read(&note).ok()?).ok()
    });
    assert_eq!(event["detail-type"], "Scheduled Event", "{event}");
    assert_eq!(event["source"], "aws.events", "{event}");
    assert_eq!(event["detail"], json!({}), "{event}");
    let time = event["time"].as_str().unwrap();
    assert!(
        time.ends_with('Z') && time.len() == "2026-11-30T12:00:00Z".len(),
        "{event}"
    );
    fnd.finish();
}

#[test]
fn a_cloud_event_is_its_data() {
    let (fnd, _) = start();
    install(
        &fnd,
        "mail",
        "[[event]]\ntype = \"order.*\"\n",
        &bash("  answer=$event"),
    );
    let event =
        json!({"specversion": "1.0", "type": "order.created", "source": "shop", "id": "1", "data": {"order": 7}});
    let headers = [("content-type", "application/cloudevents+json")];
    let answer = fnd
        .client()
        .call("POST", "/v1/events", &headers, event.to_string().as_bytes());
    assert_eq!(answer.status, 202, "{}", answer.text());
    let view = fnd.wait_run("mail");
    assert_eq!(fnd.result(view.id).json::<Value>(), json!({"order": 7}));
    fnd.finish();
}

/// The first part arrives while the function still works on the last one.
#[test]
fn a_streamed_answer_arrives_as_it_is_made() {
    require!(lambda_rust);
    let (fnd, _) = start();
    let go = fnd.shared_directory("gate").join("go");
    let manifest = format!(
        "handler = \"stream\"\n[env]\nGO = \"{}\"\n[[http]]\npath = \"/stream\"\nauth = \"none\"\n",
        go.display()
    );
    let program = fs::read(programs::lambda_rust().unwrap()).unwrap();
    install(&fnd, "stream", &manifest, &program);
    let mut stream = UnixStream::connect(fnd.path("run/http.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(b"GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 8192];
    while seen.iter().filter(|byte| **byte == b'x').count() < 100_000 {
        let read = stream.read(&mut buffer).unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..read]);
    }
    assert!(
        seen.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&seen[..200])
    );
    fs::write(&go, "").unwrap();
    stream.read_to_end(&mut seen).unwrap();
    let text = String::from_utf8_lossy(&seen).into_owned();
    assert!(text.contains("end\n"), "{}", &text[text.len().saturating_sub(200)..]);
    // All others get it whole.
    let answer = fnd.invoke("stream", "{}");
    assert!(answer.text().ends_with("end\n"), "{}", answer.status);
    fnd.finish();
}
