//! Answers and refusals of routes.

use super::UNKNOWN;
use super::http::{Answer, ask, get, post, run, run_stuck, wait_until};
use crate::peer::PeerAccess;
use crate::start::tests::small::{Running, world};
use fnd_core::records::InvocationFilter;
use fnd_core::records::outcome::Trigger;
use fnd_core::run::Event;
use fnd_manifest::settings::Role;
use fnd_wire::ids::InvocationId;
use serde_json::Value;
use std::pin::Pin;
use std::task::Poll;

type HistoryRead<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The history is read only when nothing is put off: the record of a run that has just ended may be.
#[test]
fn every_read_of_the_history_sees_runs_that_have_just_ended() {
    let mut world = world(None);
    let (daemon, backend) = (world.daemon(), world.backend());
    let id = InvocationId(7);
    let filter = InvocationFilter::default;
    let mut reads: [(&str, HistoryRead<'_>); 8] = [
        ("invocation", Box::pin(async { drop(backend.invocation(id).await) })),
        ("function_of", Box::pin(async { drop(backend.function_of(id).await) })),
        (
            "invocations",
            Box::pin(async { drop(backend.invocations(filter()).await) }),
        ),
        ("result", Box::pin(async { drop(backend.result(id).await) })),
        (
            "dead_letters",
            Box::pin(async { drop(backend.dead_letters(filter()).await) }),
        ),
        ("dead_letter", Box::pin(async { drop(backend.dead_letter(id).await) })),
        (
            "repeat",
            Box::pin(async { drop(backend.repeat(id, Trigger::Replay).await) }),
        ),
        (
            "drop_dead_letter",
            Box::pin(async { drop(backend.drop_dead_letter(id).await) }),
        ),
    ];
    world.run_until(async {
        for (name, read) in &mut reads {
            daemon.state.borrow_mut().turn.follow_up.push_back(Event::Tick);
            poll_once(read.as_mut()).await;
            assert!(!daemon.state.borrow().turn.is_put_off(), "{name}");
        }
    });
}

async fn poll_once(mut future: Pin<&mut dyn Future<Output = ()>>) {
    std::future::poll_fn(|cx| {
        let _ = future.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
}

#[test]
fn the_pages_of_functions_are_the_list() {
    let server = Running::start();
    let list = |parameters: &str| {
        let list = get(&server.socket, &format!("/v1/functions{parameters}")).json();
        let functions = list["functions"].as_array().unwrap().iter();
        let names: Vec<String> = functions
            .map(|one| one["function"].as_str().unwrap().to_owned())
            .collect();
        (names, list["next"].as_str().map(str::to_owned))
    };
    let (all, no_page) = list("");
    assert_eq!(no_page, None);
    let (mut pages, mut next) = list("?limit=3");
    while let Some(after) = next {
        let (page, behind) = list(&format!("?limit=3&after={}", after.replace('/', "%2F")));
        assert!(!page.is_empty() && page.len() <= 3, "{page:?}");
        pages.extend(page);
        next = behind;
    }
    assert_eq!(pages, all);
    let in_ops: Vec<_> = all.iter().filter(|name| name.starts_with("ops/")).cloned().collect();
    assert_eq!(list("?q=OPS%2F&limit=1000"), (in_ops, None));
    for state in ["invalid", "attention"] {
        let (found, _) = list(&format!("?state={state}"));
        let is_some = found.iter().any(|name| name == "invalid");
        assert!(is_some && found.len() < all.len(), "{state}: {found:?}");
    }
}

#[test]
fn an_unchanged_list_is_not_sent_again() {
    let server = Running::start();
    for path in [
        "/v1/functions?q=HE&limit=2",
        "/v1/functions",
        "/v1/status",
        "/v1/status?functions=0",
    ] {
        let given = |tags: &str| {
            let head = format!("GET {path} HTTP/1.1\r\nif-none-match: {tags}");
            ask(&server.socket, &head, b"")
        };
        let mut tag = "\"other\"".to_owned();
        // Something may change between two requests, and a tag ends by itself from time to time.
        wait_until("the list stays", || {
            let answer = given(&format!("\"other\", {tag}"));
            if answer.status == 304 {
                assert_eq!(
                    (answer.header("etag"), answer.body.len()),
                    (Some(&*tag), 0),
                    "{answer:?}"
                );
                return true;
            }
            assert_eq!(answer.status, 200, "{answer:?}");
            tag = answer.header("etag").unwrap().to_owned();
            assert!(tag.starts_with("W/\""), "{tag}");
            false
        });
        assert_eq!(given("*").status, 304);
        assert_eq!(given("7").code(), "bad-request");
        let _ = run(&server.socket, "hello", b"1");
        assert_eq!(given(&tag).status, 200, "{path}");
    }
}

/// Calls a function.
fn invoke(server: &Running, function: &str, headers: &str, body: &[u8]) -> Answer {
    post(
        &server.socket,
        &format!("/v1/functions/{function}/invoke"),
        headers,
        body,
    )
}

#[test]
fn a_run_gives_the_result_under_its_type() {
    let server = Running::start();
    for (media, body) in [
        ("application/json", &br#"{"name": "Ada"}"#[..]),
        ("text/plain; charset=utf-8", b"Ada"),
        ("application/octet-stream", b"\xff\x00\xfe"),
    ] {
        let answer = invoke(&server, "hello", &format!("content-type: {media}"), body);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(media)));
        assert!(answer.header("fnd-invocation").is_some(), "{answer:?}");
        assert_eq!(answer.body, body);
    }
}

#[test]
fn a_function_may_choose_status_type_and_headers() {
    let server = Running::start();
    for (status, body) in [(418, &b"<p>none"[..]), (404, b"<p>none")] {
        let answer = invoke(&server, "chooses", "", status.to_string().as_bytes());
        assert_eq!((answer.status, &*answer.body), (status, body), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("text/html"));
        assert_eq!(answer.header("x-name"), Some("value"));
        assert_ne!(answer.header("fnd-invocation"), Some("forged"));
        assert_eq!(answer.header("fnd-state"), Some("succeeded"));
    }
    // Kept, it is the same bytes; the status is not the answer's.
    let id = run(&server.socket, "chooses", b"404");
    let answer = get(&server.socket, &format!("/v1/invocations/{id}/result"));
    assert_eq!((answer.status, answer.header("fnd-status")), (200, Some("404")));
    assert_eq!(answer.header("content-type"), Some("text/html"));
    assert_eq!(answer.header("x-name"), None);
}

/// Returns what `mirror` got, once as a call and once from the queue.
fn mirrored(server: &Running, headers: &str, body: &[u8]) -> [Value; 2] {
    let called = invoke(server, "mirror", headers, body);
    assert_eq!(called.status, 200, "{called:?}");
    let queued = post(&server.socket, "/v1/functions/mirror/invocations", headers, body);
    let id = queued.json()["id"].as_str().unwrap().to_owned();
    get(&server.socket, &format!("/v1/invocations/{id}?wait=60s"));
    [
        called.json(),
        get(&server.socket, &format!("/v1/invocations/{id}/result")).json(),
    ]
}

#[test]
fn the_request_reaches_the_function_without_what_is_not_its() {
    let server = Running::start();
    let headers = "X-Order: 7|authorization: Bearer x|fnd-timeout: 5s|cookie: a=1";
    for seen in mirrored(&server, headers, b"x") {
        let request = &seen["request"];
        assert_eq!(
            (&request["method"], &request["path"], &request["query"]),
            (&"POST".into(), &"/".into(), &"".into())
        );
        let headers = request["headers"].as_array().unwrap();
        let has = |name: &str| {
            headers
                .iter()
                .find(|header| header[0] == name)
                .map(|header| header[1].as_str().unwrap())
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
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let headers = format!(
        "content-type: text/csv|fnd-timeout: 5s|traceparent: 00-{trace}-00f067aa0ba902b7-01|fnd-context: {{\"a\":1}}"
    );
    let before = crate::clock::unix_ms();
    for seen in mirrored(&server, &headers, b"a;b\xff") {
        assert_eq!((&seen["content_type"], &seen["data"]), (&"text/csv".into(), &4.into()));
        assert_eq!(seen["context"], serde_json::json!({"a": 1}));
        assert!(seen["traceparent"].as_str().unwrap().contains(trace), "{seen}");
        let deadline = seen["deadline_ms"].as_u64().unwrap();
        assert!(
            (before + 5000..crate::clock::unix_ms() + 5001).contains(&deadline),
            "{seen}"
        );
    }
    assert_eq!(
        invoke(&server, "hello", "content-type: text/csv", b"a;b\xff").body,
        b"a;b\xff"
    );
    // No body is no payload, whatever length and type the client states.
    for headers in ["content-length: 0", "content-type: text/plain"] {
        let [called, _] = mirrored(&server, headers, b"");
        assert!(called.get("data").is_none(), "{called}");
    }
    // A key belongs to the user and to the content.
    let keyed = |body: &[u8]| {
        post(
            &server.socket,
            "/v1/functions/hello/invocations",
            "idempotency-key: k1",
            body,
        )
    };
    let first = keyed(b"1").json()["id"].clone();
    assert_eq!(keyed(b"1").json()["id"], first);
    assert_eq!(keyed(b"2").code(), "key-reused");
}

#[test]
fn queued_work_says_where_it_is() {
    let server = Running::start();
    let queue = |headers: &str| {
        let answer = post(&server.socket, "/v1/functions/hello/invocations", headers, b"x");
        let id = answer.json()["id"]
            .as_str()
            .unwrap_or_else(|| panic!("{headers}: {answer:?}"))
            .to_owned();
        let location = format!("/v1/invocations/{id}");
        assert_eq!((answer.status, answer.header("location")), (202, Some(&*location)));
        get(&server.socket, &format!("{location}?wait=100ms")).json()["state"].clone()
    };
    assert_eq!(
        queue("fnd-at: 2100-11-21T10:00:00+02:00|fnd-expires: 2100-11-21T09:00:00Z"),
        "queued"
    );
    assert_eq!(queue("fnd-at: 2026-11-21T10:00:00+02:00"), "succeeded");
    let expired = "fnd-expires: 2026-11-21T09:00:00Z";
    let answer = post(&server.socket, "/v1/functions/hello/invocations", expired, b"x");
    assert_eq!((answer.status, answer.code().as_str()), (503, "skipped"));
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
    let history = get(&server.socket, "/v1/invocations").json();
    assert_eq!(history["invocations"], serde_json::json!([]), "nothing of that ran");
    for path in [
        "/v1/invocations?state=done",
        "/v1/invocations?limit=0",
        "/v1/invocations?limit=1001",
        "/v1/invocations?since=yesterday",
        "/v1/invocations?reason=bad-luck",
        "/v1/invocations?function=UPPER",
        "/v1/invocations?limit=1&limit=2",
        "/v1/invocations?state=%ff",
        "/v1/invocations?version=xyz",
        "/v1/invocations?version=",
        "/v1/invocations?text=",
        "/v1/invocations?trigger=sometimes",
        "/v1/functions?label=team",
        "/v1/functions?watch=yes",
        "/v1/logs?follow=yes",
        "/v1/stream?follow=yes",
        "/v1/stream?kind=loaded,exploded",
        "/v1/stream?since=5",
        "/metrics?x=1",
        &format!("/v1/invocations/{UNKNOWN}?wait=2h"),
    ] {
        let answer = get(&server.socket, path);
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad-request"), "{path}");
    }
}

#[test]
fn results_are_kept_whatever_became_of_the_run() {
    let server = Running::start();
    for (status, state) in [("200", "succeeded"), ("503", "succeeded")] {
        let id = run(&server.socket, "chooses", status.as_bytes());
        let answer = get(&server.socket, &format!("/v1/invocations/{id}/result"));
        let headers = (
            answer.header("fnd-state"),
            answer.header("fnd-invocation"),
            answer.header("fnd-status"),
        );
        assert_eq!((answer.status, headers), (200, (Some(state), Some(&*id), Some(status))));
        assert_eq!(answer.body, b"<p>none");
    }
}

#[test]
fn changes_say_what_is_so_now() {
    let server = Running::start();
    let ended = run(&server.socket, "hello", b"1");
    let running = run_stuck(&server.socket);
    for (path, status, state) in [
        ("/v1/functions/hello/disable", 200, "disabled"),
        ("/v1/functions/hello/enable", 200, "enabled"),
        ("/v1/functions/hello/restart", 200, "restarting"),
        ("/v1/drain", 202, "draining"),
        ("/v1/drain?wait=10ms", 202, "draining"),
        (&format!("/v1/invocations/{running}/cancel"), 200, "cancelling"),
    ] {
        let answer = post(&server.socket, path, "", b"");
        assert_eq!(
            (answer.status, answer.json()["state"].as_str()),
            (status, Some(state)),
            "{path}"
        );
    }
    for path in [
        "/v1/functions/nobody/enable",
        &format!("/v1/invocations/{UNKNOWN}/cancel"),
        &format!("/v1/invocations/{ended}/cancel"),
    ] {
        assert_eq!(post(&server.socket, path, "", b"").code(), "not-found", "{path}");
    }
    let validate = |content: &str| {
        let body = serde_json::json!({"name": "a.toml", "content": content}).to_string();
        post(&server.socket, "/v1/validate", "", body.as_bytes()).json()["valid"].clone()
    };
    assert_eq!(
        (validate("size = 'S'"), validate("siez = 'S'")),
        (true.into(), false.into())
    );
}

#[test]
fn filters_and_waits_reach_the_daemon() {
    let server = Running::start();
    let ended = run(&server.socket, "hello", b"1");
    let failed = run(&server.socket, "fails", b"1");
    let version = get(&server.socket, &format!("/v1/invocations/{ended}")).json()["version"]
        .as_str()
        .unwrap()
        .to_owned();
    for (query, expected) in [
        ("", vec![&failed, &ended]),
        ("limit=1", vec![&failed]),
        (&format!("after={failed}"), vec![&ended]),
        ("function=hello", vec![&ended]),
        ("function=ops/backup", vec![]),
        ("state=failed&reason=failed&trigger=manual", vec![&failed]),
        ("reason=exit-3", vec![]),
        ("trigger=load", vec![]),
        ("since=2026-11-21T10:00:00%2B02:00", vec![&failed, &ended]),
        ("until=2026-11-21T10:00:00%2B02:00", vec![]),
        (
            &format!("version={}", version[..15].to_uppercase().replace("SHA", "sha")),
            vec![&failed, &ended],
        ),
        ("version=sha256:AB12", vec![]),
        ("text=no%20such", vec![&failed]),
    ] {
        let list = get(&server.socket, &format!("/v1/invocations?{query}")).json();
        let found = list["invocations"]
            .as_array()
            .unwrap_or_else(|| panic!("{query}: {list}"));
        let found: Vec<_> = found.iter().map(|view| view["id"].as_str().unwrap()).collect();
        assert_eq!(found, expected, "{query}");
    }
    let running = run_stuck(&server.socket);
    let answer = get(&server.socket, &format!("/v1/invocations/{running}?wait=10ms"));
    assert_eq!((answer.status, answer.json()["state"].as_str()), (200, Some("running")));
}

#[test]
fn lines_of_an_ended_run_are_followed_to_their_end() {
    let server = Running::start();
    let id = run(&server.socket, "hello", b"1");
    let answer = get(&server.socket, &format!("/v1/invocations/{id}/logs?follow=1&limit=5"));
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/x-ndjson"))
    );
}

#[test]
fn what_ended_runs_again() {
    let server = Running::start();
    let ended = invoke(&server, "hello", "", b"1")
        .header("fnd-invocation")
        .unwrap()
        .to_owned();
    let [failed, dropped] = [b"1", b"2"].map(|body| run(&server.socket, "fails", body));
    let running = run_stuck(&server.socket);
    for (path, status, code) in [
        (format!("/v1/invocations/{failed}/replay"), 202, None),
        (format!("/v1/invocations/{ended}/replay"), 409, Some("not-kept")),
        (format!("/v1/invocations/{running}/replay"), 409, Some("not-ended")),
        (format!("/v1/invocations/{UNKNOWN}/replay"), 404, Some("not-found")),
        (format!("/v1/dead-letters/{failed}/redrive"), 202, None),
        (format!("/v1/dead-letters/{ended}/redrive"), 404, Some("not-found")),
    ] {
        let answer = post(&server.socket, &path, "", b"");
        assert_eq!(answer.status, status, "{path} {answer:?}");
        match code {
            None => {
                let id = answer.json()["id"].as_str().unwrap().to_owned();
                assert_eq!(answer.header("location"), Some(&*format!("/v1/invocations/{id}")));
            }
            Some(code) => assert_eq!(answer.json()["code"], code, "{path}"),
        }
    }
    let drop = |id: &str| ask(&server.socket, &format!("DELETE /v1/dead-letters/{id} HTTP/1.1"), b"");
    assert_eq!(drop(&dropped).json()["state"], "dropped");
    assert_eq!(drop(&ended).status, 404);
}

#[test]
fn a_caller_that_asks_for_it_is_answered_when_the_status_file_is_written() {
    let server = Running::start();
    let run = |path: &str| post(&server.socket, &format!("/v1/functions/{path}"), "", b"").status;
    assert_eq!((run("hello/invoke"), run("hello/invoke?status=later")), (200, 400));
    assert_eq!(
        (run("hello/invoke?status=sync"), run("fails/invoke?status=sync")),
        (200, 500)
    );
    assert_eq!(run("unheard-of/invoke?status=sync"), 404, "it has no file");
}

#[test]
fn a_backup_says_how_long_it_is() {
    let server = Running::start();
    let answer = get(&server.socket, "/v1/backup");
    assert_eq!(answer.header("content-length"), Some(&*answer.body.len().to_string()));
    assert!(answer.body.starts_with(b"SQLite format 3"), "{:?}", answer.head);
}

#[test]
fn a_stream_is_server_sent_events_or_lines_for_clients_that_accept_them() {
    let server = Running::start();
    let request = |query: &str, header: &str| {
        let path = format!("/v1/stream?follow=0&{query}");
        ask(&server.socket, &format!("GET {path} HTTP/1.1\r\n{header}"), b"")
    };
    let query = "function=hello&kind=loaded,removed&limit=5";
    let answer = request(query, "accept: application/x-ndjson");
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let line = String::from_utf8(answer.body).unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&event["kind"], &event["function"]),
        (&"loaded".into(), &"hello".into())
    );
    let seq = event["seq"].as_str().unwrap();
    let answer = request(query, "accept: text/event-stream");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let body = String::from_utf8(answer.body).unwrap();
    assert_eq!(body, format!("id: {seq}\nevent: loaded\ndata: {line}\n"));
    assert_eq!(request("", "last-event-id: yesterday").status, 400);
    // A browser that reconnects sends the query of its first request.
    let again = request(
        &format!("function=hello&kind=loaded&since={}-0", seq.split('-').next().unwrap()),
        "x: y",
    );
    assert_eq!(String::from_utf8(again.body).unwrap(), body);
    let again = request("function=hello&kind=loaded&since=0", &format!("last-event-id: {seq}"));
    assert_eq!((again.status, again.body), (200, Vec::new()));
}

#[test]
fn only_an_admin_sees_the_values_of_an_environment() {
    let own = rustix::process::getgid().as_raw();
    for (role, shown) in [(None, true), (Some(Role::Operator), false), (Some(Role::Viewer), false)] {
        // A peer whose user does not make it an admin has the role of its group.
        let server = Running::start_with(
            PeerAccess {
                own_uid: role.is_none().then(|| rustix::process::getuid().as_raw()),
                entries: role.map(|role| super::crowd::of_group(own, role)).into_iter().collect(),
            },
            None,
        );
        if role.is_some() && rustix::process::getuid().is_root() {
            super::crowd::open_to_all(&server);
        }
        let socket = server.socket.clone();
        let ask = move || {
            let body = |path| String::from_utf8(get(&socket, path).body).unwrap();
            (body("/v1/functions/mirror"), body("/v1/config"))
        };
        // Root is always an admin: it asks as somebody else.
        let (function, config) = if role.is_some() && rustix::process::getuid().is_root() {
            super::crowd::as_user_of(65_530, own, ask).join().unwrap()
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
    let event = |kind: &str, id: u8| {
        format!(r#"{{"specversion": "1.0", "type": "{kind}", "source": "s", "id": "{id}", "data": [1]}}"#)
    };
    let binary = |id: u8| {
        format!(
            "ce-specversion: 1.0|ce-type: order|ce-source: s|ce-id: {id}|content-type: application/json|x-b3-traceid: 463ac35c9f6413ad48485a3953bb6124|x-b3-spanid: a2fb4a1d1a96d312"
        )
    };
    let structured = "content-type: application/cloudevents+json".to_owned();
    for (path, headers, body) in [
        ("/v1/events", binary(1), "[1]"),
        ("/publish", binary(2), "[1]"),
        ("/v1/events", structured, event("order", 3).as_str()),
    ] {
        let answer = post(&server.socket, path, &headers, body.as_bytes());
        assert_eq!(answer.status, 202, "{answer:?}");
        let run = answer.json()["invocations"][0].clone();
        assert_eq!(run["function"], "orders");
        let path = format!("/v1/invocations/{}", run["id"].as_str().unwrap());
        assert_eq!(
            get(&server.socket, &format!("{path}?wait=60s")).json()["trigger"],
            "event"
        );
        let result = get(&server.socket, &format!("{path}/result"));
        assert_eq!(
            (result.header("content-type"), &*result.body),
            (Some("application/json"), &b"[1]"[..])
        );
    }
    let batch = format!("[{}, {}]", event("nobody", 4), event("order", 3));
    let headers = "content-type: application/cloudevents-batch+json";
    let answer = post(&server.socket, "/v1/events", headers, batch.as_bytes()).json();
    assert_eq!(answer["events"][0], serde_json::json!({"id": "4", "invocations": []}));
    let again = &answer["events"][1];
    assert_eq!(
        (&again["duplicate"], &again["invocations"][0]["function"]),
        (&true.into(), &"orders".into())
    );
    let wrong = r#"{"specversion": "1.0", "type": "t", "source": "s"}"#;
    let answer = post(
        &server.socket,
        "/v1/events",
        "content-type: application/cloudevents+json",
        wrong.as_bytes(),
    );
    assert_eq!(
        (answer.status, answer.json()["detail"].as_str()),
        (400, Some("the attribute `id` is missing"))
    );
    let large = vec![b'x'; (6 << 20) + 1];
    let answer = post(
        &server.socket,
        "/v1/events",
        "content-type: application/cloudevents+json",
        &large,
    );
    assert_eq!(answer.status, 413);
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
    let first = ask("PUT", "shop/orders", "", "{\"open\": 12345678901234567890}").2;
    let first = first.json()["version"].as_u64().unwrap();
    let (status, _, answer) = ask("GET", "shop/orders", "", "");
    assert_eq!((status, answer.header("etag")), (200, Some(&*format!("\"{first}\""))));
    assert!(
        String::from_utf8_lossy(&answer.body).contains("12345678901234567890"),
        "numbers stay as they are"
    );
    let matches_first = format!("if-match: \"{first}\"");
    let (status, _, answer) = ask("PUT", "shop/orders", &matches_first, " [1, 2.50] ");
    let second = answer.json()["version"].as_u64().unwrap();
    assert_eq!((status, answer.header("etag")), (200, Some(&*format!("\"{second}\""))));
    assert!(second > first);
    assert!(answer.json().get("value").is_none());
    let (status, code, answer) = ask("PUT", "shop/orders", &matches_first, "1");
    assert_eq!((status, code.as_str()), (409, "conflict"));
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.contains(&format!("has version {second}, not {first}")),
        "{detail}"
    );
    let (status, code, _) = ask("PUT", "shop/orders", "if-none-match: *", "1");
    assert_eq!((status, code.as_str()), (409, "conflict"));
    assert_eq!(ask("PUT", "shop/new%20one/a", "if-none-match: *", "1").0, 200);
    assert_eq!(ask("GET", "shop/new%20one/a", "", "").2.json()["key"], "new one/a");
    assert_eq!(ask("DELETE", "shop/orders", &matches_first, "").0, 409);
    assert_eq!(
        ask("DELETE", "shop/orders", &format!("if-match: \"{second}\""), "").0,
        200
    );
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
    ] {
        let (status, code, _) = ask(method, path, headers, body);
        assert_eq!((status, code.as_str()), expected, "{method} {path} {headers} {body}");
    }
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    assert_eq!(ask("PUT", "shop/a", "", &large).0, 413);
    let deep = "[".repeat(600) + &"]".repeat(600);
    assert_eq!(ask("PUT", "shop/a", "", &deep).0, 400);
    // Each change of a value is in the audit.
    let audit = get(&server.socket, "/v1/audit").json();
    let entries = audit["entries"].as_array().unwrap().iter();
    let count = |verb: &str, status: u16| {
        let of = |entry: &&Value| entry["verb"] == verb && entry["status"] == status;
        entries.clone().filter(of).count()
    };
    assert_eq!(
        (
            count("set-state", 200),
            count("set-state", 409),
            count("delete-state", 200)
        ),
        (3, 2, 1)
    );
    assert_eq!(entries.clone().filter(|entry| entry["verb"] == "state").count(), 0);
}

/// Refusals as people and programs read them, as a snapshot.
#[test]
fn every_refusal() {
    let server = Running::start();
    let failed = run(&server.socket, "fails", b"1");
    let running = run_stuck(&server.socket);
    let unknown = format!("GET /v1/invocations/{UNKNOWN}");
    let mut shown = String::new();
    for line in [
        "POST /v1/functions/fails/invoke",
        "POST /v1/functions/nobody/invoke",
        "POST /v1/functions/No-Name/invoke",
        "GET /",
        "GET /v1/nothing",
        "GET /v1/functions/nobody",
        "GET /v1/state/shop/nothing",
        "GET /v1/state/.shop",
        "GET /v1/state/shop/a/../b",
        "GET /v1/state/shop/",
        "GET /v1/logs?function=nobody",
        "GET /v1/schedules?next=x",
        "GET /v1/functions/hello/invoke",
        "GET /v1/functions?label=team",
        "GET /v1/invocations/17",
        &unknown,
        &format!("{unknown}/logs"),
        &format!("{unknown}/result"),
        &format!("GET /v1/invocations/{running}/result"),
        &format!("GET /v1/invocations/{failed}/result"),
    ] {
        let answer = ask(&server.socket, &format!("{line} HTTP/1.1"), b"");
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{line}"
        );
        let headers = ["allow", "fnd-invocation", "retry-after"].into_iter();
        let headers = headers.filter_map(|name| Some(format!("{name}: {}\n", answer.header(name)?)));
        let text = format!(
            "{line}\n{}\n{}{:#}\n\n",
            answer.status,
            headers.collect::<String>(),
            answer.json()
        );
        // The id of the call is no other one.
        let id = answer
            .header("fnd-invocation")
            .filter(|id| *id != UNKNOWN)
            .unwrap_or(&running);
        shown += &text.replace(id, "ID").replace(&running, "ID");
    }
    insta::with_settings!(
        { omit_expression => true, prepend_module_to_snapshot => false },
        { insta::assert_snapshot!(shown) }
    );
}

#[test]
fn uploads_and_removals_are_refused_with_a_code() {
    const FORM: &str =
        "--x\r\nContent-Disposition: form-data; name=\"source\"; filename=\"a.py\"\r\n\r\nprint()\r\n--x--\r\n";
    let server = Running::start();
    let matching = format!("If-Match: \"sha256:{}\"\r\n", "ab".repeat(32));
    for (line, headers, status, code) in [
        // The spawner of this test reads no uploads.
        ("PUT /v1/functions/new", "", 503, "unavailable"),
        ("PUT /v1/functions/new", &matching, 409, "conflict"),
        ("PUT /v1/functions/hello", "", 409, "not-uploaded"),
        ("PUT /v1/functions/hello", "If-None-Match: x\r\n", 400, "bad-request"),
        ("PUT /v1/functions/hello", "If-Match: 7\r\n", 400, "bad-request"),
        (
            "PUT /v1/functions/hello",
            "If-Match: x\r\nIf-None-Match: *\r\n",
            400,
            "bad-request",
        ),
        ("PUT /v1/functions/Hello", "", 400, "bad-request"),
        ("PUT /v1/functions/..", "", 400, "bad-request"),
        ("DELETE /v1/functions/hello", "", 409, "not-uploaded"),
        ("DELETE /v1/functions/nobody", "", 404, "not-found"),
        ("DELETE /v1/functions/hello", "If-None-Match: *\r\n", 400, "bad-request"),
    ] {
        let kind = "Content-Type: multipart/form-data; boundary=x";
        let head = format!("{line} HTTP/1.1\r\n{kind}\r\n{}", headers.trim_end());
        let answer = ask(&server.socket, head.trim_end(), FORM.as_bytes());
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{line} {headers}: {answer:?}"
        );
    }
    let shown = get(&server.socket, "/v1/functions/hello");
    let version = format!("\"{}\"", shown.json()["version"].as_str().unwrap());
    assert_eq!(shown.header("etag"), Some(&*version));
}
