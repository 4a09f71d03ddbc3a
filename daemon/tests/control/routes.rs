//! Every route: its answers and its refusals.

use crate::fake::{BROKEN, ENDED, FAILED, FAILED_WITH_RESULT, RUNNING, Running, UNKNOWN};
use crate::http::{ask, get, post};
use fnd_core::api::stream::{Kind, Seq};
use fnd_core::idempotency::{IdempotencyKey, KeyOwner};
use fnd_daemon::peer::PeerAccess;
use fnd_daemon::stream::Since;
use fnd_manifest::settings::Role;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

#[test]
fn a_run_gives_the_result_under_its_type() {
    let server = Running::start();
    let run = |function: &str, headers: &str, body: &[u8]| {
        post(
            &server.socket,
            &format!("/v1/functions/{function}/invoke"),
            headers,
            body,
        )
    };
    let answer = run("hello", "content-type: application/json", br#"{"name": "Ada"}"#);
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    assert_eq!(answer.header("fnd-invocation"), Some(ENDED));
    assert_eq!(answer.body, br#"{"name": "Ada"}"#);
    let answer = run("text", "", b"");
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    let answer = run("binary", "", b"");
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    assert_eq!(answer.body, b"\xff\x00\xfe");
}

#[test]
fn a_function_may_choose_status_type_and_headers() {
    let server = Running::start();
    for (function, status, body) in [("teapot", 418, &b"<p>none"[..]), ("void", 204, b"")] {
        let answer = post(&server.socket, &format!("/v1/functions/{function}/invoke"), "", b"");
        assert_eq!((answer.status, &*answer.body), (status, body), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("text/html"));
        assert_eq!(answer.header("x-name"), Some("value"));
        assert_eq!(answer.header("fnd-invocation"), Some(ENDED));
        assert_eq!(answer.header("fnd-state"), Some("succeeded"));
    }
    // Kept, it is the same bytes; the status is not the answer's.
    let answer = get(&server.socket, &format!("/v1/invocations/{ENDED}/result"));
    assert_eq!((answer.status, answer.header("fnd-status")), (200, Some("404")));
    assert_eq!(answer.header("content-type"), Some("text/html"));
    assert_eq!(answer.header("x-name"), None);
}

#[test]
fn the_request_reaches_the_function_without_what_is_not_its() {
    let server = Running::start();
    let headers = "X-Order: 7|authorization: Bearer x|fnd-timeout: 5s|cookie: a=1";
    for verb in ["invoke", "invocations"] {
        let headers = if verb == "invoke" {
            headers
        } else {
            "X-Order: 7|cookie: a=1"
        };
        post(&server.socket, &format!("/v1/functions/hello/{verb}"), headers, b"x");
        let seen = server.seen.lock().unwrap().submitted.take().unwrap();
        let request = seen.payload.request.unwrap();
        assert_eq!(
            (request.method.as_str(), request.path.as_str(), request.query.as_str()),
            ("POST", "/", "")
        );
        let has = |name: &str| {
            request
                .headers
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!((has("x-order"), has("cookie")), (Some("7"), Some("a=1")));
        assert_eq!(
            (has("authorization"), has("fnd-timeout"), has("connection")),
            (None, None, None)
        );
    }
}

#[test]
fn headers_and_bytes_reach_the_function() {
    let server = Running::start();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = format!(
        "content-type: text/csv|fnd-timeout: 5s|idempotency-key: k1|traceparent: {trace}|fnd-context: {{\"a\":1}}"
    );
    assert_eq!(
        post(&server.socket, "/v1/functions/hello/invoke", &headers, b"a;b\xff").status,
        200
    );
    let seen = server.seen.lock().unwrap().submitted.take().unwrap();
    assert!(seen.wait);
    assert_eq!(seen.timeout, Some(Duration::from_secs(5)));
    let content: [&[u8]; 4] = [b"POST", b"/", b"", b"a;b\xff"];
    let own = KeyOwner::User(std::fs::metadata("/proc/self").unwrap().uid());
    assert_eq!(seen.idempotency_key, Some(IdempotencyKey::new(own, "k1", content)));
    assert_eq!(seen.payload.data, Some(b"a;b\xff".into()));
    assert_eq!(seen.payload.content_type.as_deref(), Some("text/csv"));
    assert_eq!(seen.payload.trace.unwrap().to_string(), trace);
    assert_eq!(seen.payload.context.as_deref(), Some("{\"a\":1}"));
    // No body is no payload, whatever length and type the client states.
    for headers in ["content-length: 0", "content-type: text/plain"] {
        assert_eq!(
            post(&server.socket, "/v1/functions/hello/invoke", headers, b"").status,
            200
        );
        let seen = server.seen.lock().unwrap().submitted.take().unwrap();
        assert_eq!(seen.payload.data, None);
    }
}

#[test]
fn queued_work_says_where_it_is() {
    let server = Running::start();
    let headers = "fnd-at: 2026-11-21T10:00:00+02:00|fnd-expires: 2026-11-21T09:00:00Z";
    let answer = post(&server.socket, "/v1/functions/hello/invocations", headers, b"x");
    assert_eq!(
        (answer.status, answer.header("location")),
        (202, Some(&*format!("/v1/invocations/{ENDED}")))
    );
    assert_eq!(answer.json()["id"], ENDED);
    let seen = server.seen.lock().unwrap().submitted.take().unwrap();
    assert!(!seen.wait);
    assert_eq!(
        (seen.not_before_ms, seen.expires_ms),
        (Some(1_795_248_000_000), Some(1_795_251_600_000))
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let server = Running::start();
    let run = "/v1/functions/hello/invoke";
    for (path, headers, body, code, words) in [
        (run, "content-type: application/json", &b"{"[..], "bad-json", "not JSON"),
        (run, "fnd-context: {", b"", "bad-json", "Fnd-Context"),
        (run, "fnd-timeout: 5", b"", "bad-request", "Fnd-Timeout"),
        (run, "fnd-timeout: 0s", b"", "bad-request", "Fnd-Timeout"),
        (run, "fnd-timeout: 10m", b"", "bad-request", "limits.timeout"),
        (
            run,
            "fnd-timeout: 5s|fnd-timeout: 6s",
            b"",
            "bad-request",
            "more than once",
        ),
        (run, "fnd-at: 2026-11-21T10:00:00Z", b"", "bad-request", "queued"),
        (run, "fnd-priority: 3", b"", "bad-request", "are for queued invocations"),
        (
            "/v1/functions/hello/invocations",
            "fnd-priority: 101",
            b"",
            "bad-request",
            "a number from -100 to 100",
        ),
        (run, "idempotency-key: ", b"", "bad-request", "Idempotency-Key"),
        (
            "/v1/functions/hello/invocations",
            "fnd-at: tomorrow",
            b"",
            "bad-request",
            "RFC 3339",
        ),
        (
            "/v1/functions/hello/invoke?x=1",
            "",
            b"",
            "bad-request",
            "unknown parameter `x`",
        ),
        (
            "/v1/functions/hello/invoke?status=later",
            "",
            b"",
            "bad-request",
            "`status`: expected `sync`, found `later`",
        ),
        (
            "/v1/functions/hello/invocations?status=sync",
            "",
            b"",
            "bad-request",
            "unknown parameter `status`",
        ),
        ("/v1/validate", "", b"{}", "bad-json", "name"),
    ] {
        let answer = post(&server.socket, path, headers, body);
        assert_eq!((answer.status, answer.code().as_str()), (400, code), "{path} {headers}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(words), "{answer:?}");
    }
    assert!(server.seen.lock().unwrap().submitted.is_none(), "nothing of that ran");
    for path in [
        "/v1/invocations?state=done",
        "/v1/invocations?limit=0",
        "/v1/invocations?limit=1001",
        "/v1/invocations?since=yesterday",
        "/v1/invocations?reason=bad-luck",
        "/v1/invocations?function=UPPER",
        "/v1/invocations?limit=1&limit=2",
        "/v1/invocations?state=%ff",
        "/v1/functions?label=team",
        "/v1/functions?watch=yes",
        "/v1/logs?follow=yes",
        "/v1/stream?follow=yes",
        "/v1/stream?kind=loaded,exploded",
        "/v1/stream?since=5",
        "/metrics?x=1",
        &format!("/v1/invocations/{ENDED}?wait=2h"),
    ] {
        let answer = get(&server.socket, path);
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad-request"), "{path}");
    }
}

#[test]
fn what_is_private_stays_in_the_journal() {
    let server = Running::start();
    let answer = get(&server.socket, &format!("/v1/invocations/{BROKEN}"));
    assert_eq!((answer.status, answer.code().as_str()), (500, "internal"));
    assert!(
        !String::from_utf8_lossy(&answer.body).contains("/var/lib"),
        "{answer:?}"
    );
}

#[test]
fn results_are_kept_whatever_became_of_the_run() {
    let server = Running::start();
    for (id, state, body) in [
        (ENDED, "succeeded", &br#"{"hello": "Ada"}"#[..]),
        (FAILED_WITH_RESULT, "failed", br#"{"tried": 3}"#),
    ] {
        let answer = get(&server.socket, &format!("/v1/invocations/{id}/result"));
        assert_eq!(
            (
                answer.status,
                answer.header("fnd-state"),
                answer.header("fnd-invocation")
            ),
            (200, Some(state), Some(id))
        );
        assert_eq!(answer.body, body);
    }
}

#[test]
fn changes_say_what_is_so_now() {
    let server = Running::start();
    for (path, body, status, state) in [
        ("/v1/functions/hello/enable", "", 200, "enabled"),
        ("/v1/functions/hello/disable", "", 200, "disabled"),
        (&format!("/v1/invocations/{RUNNING}/cancel"), "", 200, "cancelling"),
        ("/v1/drain", "", 202, "draining"),
        ("/v1/drain?wait=10ms", "", 202, "draining"),
    ] {
        let answer = post(&server.socket, path, "", body.as_bytes());
        assert_eq!(
            (answer.status, answer.json()["state"].as_str()),
            (status, Some(state)),
            "{path}"
        );
    }
    for path in [
        "/v1/functions/nobody/enable",
        &format!("/v1/invocations/{UNKNOWN}/cancel"),
        &format!("/v1/invocations/{ENDED}/cancel"),
    ] {
        assert_eq!(post(&server.socket, path, "", b"").code(), "not-found", "{path}");
    }
    let reload = post(&server.socket, "/v1/reload", "", b"").json();
    assert_eq!(reload["diagnostics"][0]["place"]["line"], 7);
    let validate = |content: &str| {
        let body = serde_json::json!({"name": "a.toml", "content": content}).to_string();
        post(&server.socket, "/v1/validate", "", body.as_bytes()).json()["valid"].clone()
    };
    assert_eq!(
        (validate("runtime = 'python'"), validate("runtime = 'pyhton'")),
        (true.into(), false.into())
    );
}

#[test]
fn filters_and_waits_reach_the_daemon() {
    let server = Running::start();
    let query = format!(
        "function=ops/backup&state=failed&reason=exit-3&trigger=load&since=2026-11-21T10:00:00+02:00&limit=7&after={ENDED}"
    );
    assert_eq!(get(&server.socket, &format!("/v1/invocations?{query}")).status, 200);
    let filter = server.seen.lock().unwrap().filter.take().unwrap();
    assert_eq!(
        filter.function.as_ref().map(ToString::to_string).as_deref(),
        Some("ops/backup")
    );
    assert_eq!(filter.reason, Some(fnd_core::records::outcome::Reason::Exit(3)));
    assert_eq!(
        (filter.since_ms, filter.until_ms, filter.limit),
        (Some(1_795_248_000_000), None, Some(7))
    );
    assert_eq!(filter.after.map(|id| id.to_string()).as_deref(), Some(ENDED));
    let answer = get(&server.socket, &format!("/v1/invocations/{RUNNING}?wait=10ms"));
    assert_eq!((answer.status, answer.json()["state"].as_str()), (200, Some("running")));
}

#[test]
fn followed_lines_come_one_by_one() {
    let server = Running::start();
    let answer = get(
        &server.socket,
        &format!("/v1/invocations/{ENDED}/logs?follow=1&limit=5"),
    );
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/x-ndjson"))
    );
    let lines: Vec<serde_json::Value> = answer
        .body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    let query = server.seen.lock().unwrap().logs.take().unwrap();
    assert!(query.follow);
    assert_eq!(query.limit, 5);
}

#[test]
fn what_ended_runs_again() {
    let server = Running::start();
    for (path, status, code) in [
        (format!("/v1/invocations/{FAILED}/replay"), 202, None),
        (format!("/v1/invocations/{ENDED}/replay"), 409, Some("not-kept")),
        (format!("/v1/invocations/{RUNNING}/replay"), 409, Some("not-ended")),
        (format!("/v1/invocations/{UNKNOWN}/replay"), 404, Some("not-found")),
        (format!("/v1/dead-letters/{FAILED}/redrive"), 202, None),
        (format!("/v1/dead-letters/{ENDED}/redrive"), 404, Some("not-found")),
    ] {
        let answer = post(&server.socket, &path, "", b"");
        assert_eq!(answer.status, status, "{path} {answer:?}");
        match code {
            None => assert_eq!(
                answer.header("location"),
                Some(format!("/v1/invocations/{RUNNING}").as_str())
            ),
            Some(code) => assert_eq!(answer.json()["code"], code, "{path}"),
        }
    }
    let dropped = |id: &str| crate::http::ask(&server.socket, &format!("DELETE /v1/dead-letters/{id} HTTP/1.1"), b"");
    assert_eq!(dropped(FAILED).json()["state"], "dropped");
    assert_eq!(dropped(ENDED).status, 404);
}

#[test]
fn the_history_is_filtered() {
    let server = Running::start();
    get(
        &server.socket,
        "/v1/invocations?version=sha256:AB12&text=no%20such&trigger=redrive",
    );
    let filter = server.seen.lock().unwrap().filter.clone().unwrap();
    assert_eq!(filter.version.as_deref(), Some("ab12"));
    assert_eq!(filter.text.as_deref(), Some("no such"));
    for wrong in ["version=xyz", "version=", "text=", "trigger=sometimes"] {
        let answer = get(&server.socket, &format!("/v1/invocations?{wrong}"));
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

#[test]
fn a_caller_that_asks_for_it_is_answered_when_the_status_file_is_written() {
    let server = Running::start();
    let run = |path: &str| post(&server.socket, &format!("/v1/functions/{path}"), "", b"").status;
    assert_eq!((run("hello/invoke"), run("hello/invoke?status=later")), (200, 400));
    assert_eq!(server.seen.lock().unwrap().waited_for, [""; 0]);
    assert_eq!(
        (run("hello/invoke?status=sync"), run("fails/invoke?status=sync")),
        (200, 500)
    );
    assert_eq!(run("unheard-of/invoke?status=sync"), 404, "it has no file");
    assert_eq!(server.seen.lock().unwrap().waited_for, ["hello", "fails"]);
}

#[test]
fn a_backup_says_how_long_it_is() {
    let server = Running::start();
    let answer = get(&server.socket, "/v1/backup");
    assert_eq!(answer.header("content-length"), Some("15"));
    assert_eq!(answer.body, b"SQLite format 3");
}

#[test]
fn a_stream_is_server_sent_events_or_lines_for_clients_that_accept_them() {
    let server = Running::start();
    let line = r#"{"seq":"7-3","time":"2026-11-21T08:00:00.123Z","kind":"loaded","function":"hello"}"#;
    let path = "/v1/stream?follow=0&function=hello&kind=loaded,removed&limit=5";
    let request = |header: &str| ask(&server.socket, &format!("GET {path} HTTP/1.1\r\n{header}"), b"");
    let answer = request("last-event-id: 7-2");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(body, format!("id: 7-3\nevent: loaded\ndata: {line}\n\n"));
    let seen = server.seen.lock().unwrap().stream.take().unwrap();
    assert_eq!(seen.from, Since::After(Seq { epoch: 7, number: 2 }));
    assert_eq!((seen.kinds, seen.limit), (vec![Kind::Loaded, Kind::Removed], Some(5)));
    let answer = request("accept: application/x-ndjson");
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(String::from_utf8_lossy(&answer.body), format!("{line}\n"));
    assert_eq!(server.seen.lock().unwrap().stream.take().unwrap().from, Since::Kept);
    assert_eq!(request("last-event-id: yesterday").status, 400);
    // A browser that reconnects sends the query of its first request.
    let path = "/v1/stream?follow=0&since=7-1";
    let again = ask(
        &server.socket,
        &format!("GET {path} HTTP/1.1\r\nlast-event-id: 7-2"),
        b"",
    );
    assert_eq!(again.status, 200);
    let seen = server.seen.lock().unwrap().stream.take().unwrap();
    assert_eq!(seen.from, Since::After(Seq { epoch: 7, number: 2 }));
}

#[test]
fn only_an_admin_sees_the_values_of_an_environment() {
    let own = std::os::unix::fs::MetadataExt::gid(&std::fs::metadata("/proc/self").unwrap());
    for (role, shown) in [(None, true), (Some(Role::Operator), false), (Some(Role::Viewer), false)] {
        // A peer whose user does not make it an admin has the role of its group.
        let server = Running::start_for(PeerAccess {
            own_uid: role.is_none().then(|| rustix::process::getuid().as_raw()),
            entries: role.map(|role| crate::crowd::of_group(own, role)).into_iter().collect(),
        });
        if role.is_some() && rustix::process::getuid().is_root() {
            crate::crowd::open_to_all(&server);
        }
        let socket = server.socket.clone();
        let ask = move || {
            let body = |path| String::from_utf8(get(&socket, path).body).unwrap();
            (body("/v1/functions/hello"), body("/v1/config"))
        };
        // Root is always an admin: it asks as somebody else.
        let (function, config) = if role.is_some() && rustix::process::getuid().is_root() {
            crate::crowd::as_user_of(65_530, own, ask).join().unwrap()
        } else {
            ask()
        };
        assert!(
            function.contains("PASSWORD") && config.contains("TOKEN"),
            "{function} {config}"
        );
        assert_eq!(function.contains("hunter2"), shown, "{role:?}: {function}");
        assert_eq!(config.contains("hunter3"), shown, "{role:?}: {config}");
    }
}

#[test]
fn events_are_accepted_in_every_form() {
    let server = Running::start();
    let event =
        |kind: &str| format!(r#"{{"specversion": "1.0", "type": "{kind}", "source": "s", "id": "7", "data": [1]}}"#);
    let binary = "ce-specversion: 1.0|ce-type: order|ce-source: s|ce-id: 7|content-type: application/json|x-b3-traceid: 463ac35c9f6413ad48485a3953bb6124|x-b3-spanid: a2fb4a1d1a96d312";
    let structured = "content-type: application/cloudevents+json";
    for (path, headers, body) in [
        ("/v1/events", binary, "[1]"),
        ("/publish", binary, "[1]"),
        ("/v1/events", structured, event("order").as_str()),
    ] {
        let answer = post(&server.socket, path, headers, body.as_bytes());
        let expected = serde_json::json!({"id": "7", "invocations": [{"id": ENDED, "function": "hello"}]});
        assert_eq!((answer.status, answer.json()), (202, expected), "{answer:?}");
        let published = server.seen.lock().unwrap().published.clone();
        assert_eq!(published[0].data.as_ref().unwrap().bytes().unwrap(), &b"[1]"[..]);
        assert_eq!(published[0].content_type.as_deref(), Some("application/json"));
        assert_eq!(published[0].trace.is_some(), headers == binary);
    }
    let batch = format!("[{}, {}]", event("nobody"), event("again"));
    let headers = "content-type: application/cloudevents-batch+json";
    let answer = post(&server.socket, "/v1/events", headers, batch.as_bytes());
    let none = serde_json::json!({"id": "7", "invocations": []});
    let again = serde_json::json!({"id": "7", "invocations": [{"id": ENDED, "function": "hello"}], "duplicate": true});
    assert_eq!(answer.json(), serde_json::json!({"events": [none, again]}));
}

#[test]
fn events_that_nobody_takes_are_refused_with_the_reason() {
    let server = Running::start();
    let event = |kind: &str| format!(r#"{{"specversion": "1.0", "type": "{kind}", "source": "s", "id": "7"}}"#);
    let ask = |form: &str, body: &str| {
        let headers = format!("content-type: application/cloudevents{form}+json");
        let answer = post(&server.socket, "/v1/events", &headers, body.as_bytes());
        let retry = answer.header("retry-after").map(str::to_owned);
        (
            answer.status,
            answer.json()["detail"].as_str().unwrap().to_owned(),
            retry,
        )
    };
    let (status, detail, _) = ask("", &event("wrong"));
    assert_eq!(status, 422);
    assert_eq!(
        detail,
        "no subscriber takes it: `hello`: the data does not match `order.json`: `/id`: value is not of type \"integer\""
    );
    let (status, detail, retry) = ask("-batch", &format!("[{}, {}]", event("nobody"), event("full")));
    assert_eq!((status, retry.as_deref()), (429, Some("1")));
    assert_eq!(
        detail,
        "event 2 of the batch: no subscriber has room for it: the queue of `hello` is full (queue.max)"
    );
    let (status, detail, _) = ask("", r#"{"specversion": "1.0", "type": "t", "source": "s"}"#);
    assert_eq!((status, detail.as_str()), (400, "the attribute `id` is missing"));
    assert_eq!(ask("", &"x".repeat(1001)).0, 413);
}

#[test]
fn a_value_is_written_over_the_version_that_its_writer_has_read() {
    let server = Running::start();
    let ask = |method: &str, path: &str, headers: &str, body: &str| {
        let headers: String = headers
            .split('|')
            .filter(|line| !line.is_empty())
            .map(|line| format!("\r\n{line}"))
            .collect();
        let answer = ask(
            &server.socket,
            &format!("{method} /v1/state/{path} HTTP/1.1{headers}"),
            body.as_bytes(),
        );
        let code = answer.json()["code"].as_str().unwrap_or_default().to_owned();
        (answer.status, code, answer)
    };
    let (status, _, answer) = ask("GET", "shop/orders", "", "");
    assert_eq!((status, answer.header("etag")), (200, Some("\"7\"")));
    assert!(
        String::from_utf8_lossy(&answer.body).contains("12345678901234567890"),
        "numbers stay as they are"
    );
    let (status, _, answer) = ask("PUT", "shop/orders", "if-match: \"7\"", " [1, 2.50] ");
    assert_eq!((status, answer.header("etag")), (200, Some("\"8\"")));
    assert_eq!(answer.json()["version"], 8);
    assert!(answer.json().get("value").is_none());
    let (status, code, answer) = ask("PUT", "shop/orders", "if-match: \"7\"", "1");
    assert_eq!((status, code.as_str()), (409, "conflict"));
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("has version 8, not 7"), "{detail}");
    let (status, code, _) = ask("PUT", "shop/orders", "if-none-match: *", "1");
    assert_eq!((status, code.as_str()), (409, "conflict"));
    assert_eq!(ask("PUT", "shop/new%20one/a", "if-none-match: *", "1").0, 200);
    assert_eq!(ask("GET", "shop/new%20one/a", "", "").2.json()["key"], "new one/a");
    assert_eq!(ask("DELETE", "shop/orders", "if-match: \"7\"", "").0, 409);
    assert_eq!(ask("DELETE", "shop/orders", "if-match: \"8\"", "").0, 200);
    for (method, path, headers, body, expected) in [
        ("DELETE", "shop/orders", "", "", (404, "not-found")),
        ("GET", "shop/orders", "", "", (404, "not-found")),
        ("PUT", "shop/a", "", "{", (400, "bad-json")),
        ("PUT", "shop/a", "", "", (400, "bad-json")),
        ("PUT", "shop/a", "", "1 2", (400, "bad-json")),
        ("PUT", "shop/a", "if-match: 7", "1", (400, "bad-request")),
        ("PUT", "shop/a", "if-match: *", "1", (400, "bad-request")),
        ("PUT", "shop/a", "if-none-match: \"7\"", "1", (400, "bad-request")),
        (
            "PUT",
            "shop/a",
            "if-none-match: *|if-match: \"7\"",
            "1",
            (400, "bad-request"),
        ),
        ("DELETE", "shop/a", "if-none-match: *", "", (400, "bad-request")),
        ("PUT", "shop/../a", "", "1", (400, "bad-request")),
        ("PUT", "shop/a%00b", "", "1", (400, "bad-request")),
        ("PUT", "shop/%ff", "", "1", (400, "bad-request")),
        ("PUT", "sh%20op/a", "", "1", (400, "bad-request")),
        ("PUT", "full/a", "", "1", (507, "state-full")),
        ("PUT", "broken/a", "", "1", (503, "unavailable")),
    ] {
        let (status, code, _) = ask(method, path, headers, body);
        assert_eq!((status, code.as_str()), expected, "{method} {path} {headers} {body}");
    }
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    assert_eq!(ask("PUT", "shop/a", "", &large).0, 413);
    let deep = "[".repeat(600) + &"]".repeat(600);
    assert_eq!(ask("PUT", "shop/a", "", &deep).0, 400);
    // What is written is in the audit.
    let seen = server.seen.lock().unwrap().audit.clone();
    let verbs = |verb: &str, status| {
        seen.iter()
            .filter(|entry| entry.verb == verb && entry.status == Some(status))
            .count()
    };
    assert_eq!(
        (
            verbs("set-state", 200),
            verbs("set-state", 409),
            verbs("delete-state", 200)
        ),
        (2, 2, 1)
    );
    assert_eq!(seen.iter().filter(|entry| entry.verb == "state").count(), 0);
}
