//! Limits of what a peer can use up, and clients that break the rules.

use super::http::{ask, connect, get, load, post, take_apart, wait_until};
use crate::control::limits::{HEAD_TIME, SILENCE_MAX};
use crate::control::{listen, serve};
use crate::http::limits::BODY_GAP;
use crate::start::tests::small::{Running, own, world};
use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::rc::Rc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[test]
fn heads_are_bounded() {
    let server = Running::start();
    let long = format!("GET /healthz HTTP/1.1\r\nx-filler: {}", "x".repeat(20 * 1024));
    assert_eq!(ask(&server.socket, &long, b"").status, 431);
    let many: String = (0..200).map(|n| format!("\r\nx-{n}: 1")).collect();
    assert_eq!(
        ask(&server.socket, &format!("GET /healthz HTTP/1.1{many}"), b"").status,
        431
    );
    assert_eq!(get(&server.socket, "/healthz").status, 200);
}

#[test]
fn bodies_are_bounded_and_the_refusal_is_read() {
    let server = Running::start();
    let large = vec![b'x'; (6 << 20) + 1];
    let answer = post(
        &server.socket,
        "/v1/functions/hello/invoke",
        "content-type: text/plain",
        &large,
    );
    assert_eq!((answer.status, answer.code().as_str()), (413, "too-large"));
    assert!(
        answer.json()["detail"].as_str().unwrap().contains("6M (limits.body)"),
        "{answer:?}"
    );
    // Also where the function is not there, or the length is not said beforehand.
    assert_eq!(
        post(&server.socket, "/v1/functions/nobody/invoke", "", &large).status,
        404
    );
    let mut stream = connect(&server.socket);
    stream.write_all(b"POST /v1/functions/hello/invoke HTTP/1.1\r\nhost: fnd\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    for _ in 0..7 {
        stream.write_all(b"100000\r\n").unwrap();
        stream.write_all(&large[..1 << 20]).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(take_apart(&bytes).status, 413);
    let most = &large[..6 << 20];
    assert_eq!(
        post(
            &server.socket,
            "/v1/functions/hello/invoke",
            "content-type: text/plain",
            most
        )
        .body,
        most
    );
}

/// A full disk is one reason why the file beyond the budget takes nothing; here its directory is not there.
#[test]
fn what_neither_memory_nor_disk_takes_is_refused_with_a_time_to_try_again() {
    const BUDGET: usize = 1 << 20;
    let server = Running::start_with(own(), Some(BUDGET as u64));
    let invoke = |bytes: usize| {
        let body = vec![b'x'; bytes];
        post(
            &server.socket,
            "/v1/functions/hello/invoke",
            "content-type: text/plain",
            &body,
        )
    };
    let refused = |bytes: usize| {
        let answer = invoke(bytes);
        assert_eq!(answer.status, 503, "{}", answer.head);
        assert_eq!(answer.code(), "unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
        answer
    };
    // Bodies have half of the budget. Nothing is run for one that is refused.
    let body = refused(BUDGET / 2 + 1);
    assert!(
        body.json()["detail"].as_str().unwrap().contains("no room for the body"),
        "{body:?}"
    );
    assert_eq!(history(&server), 0);
    // The answer is as long as its body, which is held as well. Where only the answer has no room, the run has ended: its id says
    // where the answer is.
    let answer = refused(BUDGET / 2);
    assert!(
        answer.json()["detail"]
            .as_str()
            .unwrap()
            .contains("no room for the answer"),
        "{answer:?}"
    );
    assert!(answer.header("fnd-invocation").is_some(), "{answer:?}");
    // Requests are served again once there is room.
    wait_until("there is room", || invoke(BUDGET / 4).status == 200);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Running::start();
    let mut stream = connect(&server.socket);
    let (one, two) = (
        "GET /healthz HTTP/1.1\r\nhost: fnd\r\n\r\n",
        "GET /v1/nothing HTTP/1.1\r\nhost: fnd\r\n\r\n",
    );
    let last = "GET /v1/sizes HTTP/1.1\r\nhost: fnd\r\nconnection: close\r\n\r\n";
    stream.write_all(format!("{one}{two}{last}").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let statuses: Vec<&str> = text
        .match_indices("HTTP/1.1 ")
        .map(|(at, _)| &text[at + 9..at + 12])
        .collect();
    assert_eq!(statuses, ["200", "404", "200"], "{text}");
}

#[test]
fn a_half_closed_client_is_answered() {
    let server = Running::start();
    let mut stream = connect(&server.socket);
    stream
        .write_all(b"GET /v1/sizes HTTP/1.1\r\nhost: fnd\r\n\r\n")
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(take_apart(&bytes).status, 200);
}

#[test]
fn what_is_no_http_is_refused_and_others_are_served() {
    let server = Running::start();
    let mut stream = connect(&server.socket);
    stream.write_all(b"\x16\x03\x01 hello there\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(take_apart(&bytes).status, 400);
    drop(connect(&server.socket));
    assert_eq!(get(&server.socket, "/healthz").status, 200);
}

#[test]
fn a_broken_off_body_runs_nothing() {
    let server = Running::start();
    let mut stream = connect(&server.socket);
    stream
        .write_all(b"POST /v1/functions/hello/invoke HTTP/1.1\r\nhost: fnd\r\ncontent-length: 10\r\n\r\nhal")
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut bytes = Vec::new();
    // Answered or closed: either is fine as long as nothing ran.
    let _ = stream.read_to_end(&mut bytes);
    assert_eq!(get(&server.socket, "/healthz").status, 200);
    assert_eq!(history(&server), 0);
}

#[test]
fn stopping_ends_a_request_that_would_wait_for_ever() {
    let server = Running::start();
    let mut stream = connect(&server.socket);
    stream
        .write_all(b"POST /v1/functions/stuck/invoke HTTP/1.1\r\nhost: fnd\r\n\r\n")
        .unwrap();
    while load(&server.socket).0 == 0 {
        std::thread::yield_now();
    }
    drop(server);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let answer = take_apart(&bytes);
    assert_eq!((answer.status, answer.code().as_str()), (503, "unavailable"));
}

/// Returns how many invocations the history has.
fn history(server: &Running) -> usize {
    let list = get(&server.socket, "/v1/invocations").json();
    list["invocations"].as_array().unwrap().len()
}

/// Serves in this thread, with a clock that jumps as soon as nobody has anything to do but wait.
fn serve_here(client: impl AsyncFn(tokio::net::UnixStream)) {
    let mut world = world(None);
    let socket = world.directory().join("control.sock");
    let backend = Rc::new(world.backend());
    world.run_until(async move {
        tokio::time::pause();
        let access = Rc::new(RefCell::new(own()));
        let (server, stop) = serve(listen::bind(&socket).unwrap(), backend, access);
        let serving = tokio::task::spawn_local(server);
        client(tokio::net::UnixStream::connect(&socket).await.unwrap()).await;
        stop.now();
        serving.await.unwrap();
    });
}

#[test]
fn a_head_that_never_ends_is_cut_off() {
    serve_here(async |mut stream| {
        let start = tokio::time::Instant::now();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nx-slow").await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert!(
            start.elapsed() >= HEAD_TIME && start.elapsed() < 2 * HEAD_TIME,
            "{:?}",
            start.elapsed()
        );
    });
}

#[test]
fn a_body_that_never_comes_is_refused() {
    serve_here(async |mut stream| {
        let start = tokio::time::Instant::now();
        stream
            .write_all(b"POST /v1/functions/hello/invoke HTTP/1.1\r\nhost: fnd\r\ncontent-length: 9\r\n\r\n")
            .await
            .unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let answer = take_apart(&bytes);
        assert_eq!((answer.status, answer.code().as_str()), (408, "slow-request"));
        assert!(start.elapsed() >= BODY_GAP, "{:?}", start.elapsed());
    });
}

#[test]
fn a_silent_follower_is_kept_and_hears_that_fnd_lives() {
    serve_here(async |mut stream| {
        stream
            .write_all(b"GET /v1/logs?follow=1 HTTP/1.1\r\nhost: fnd\r\n\r\n")
            .await
            .unwrap();
        let mut bytes = Vec::new();
        // An empty line in a chunk of its own.
        while !bytes.ends_with(b"\r\n1\r\n\n\r\n") {
            assert_ne!(
                stream.read_buf(&mut bytes).await.unwrap(),
                0,
                "{}",
                String::from_utf8_lossy(&bytes)
            );
        }
    });
}

#[test]
fn a_silent_connection_is_closed_soon() {
    serve_here(async |mut stream| {
        let start = tokio::time::Instant::now();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert!(
            start.elapsed() >= SILENCE_MAX && start.elapsed() < HEAD_TIME,
            "{:?}",
            start.elapsed()
        );
    });
}

#[test]
fn messages_that_two_programs_see_differently_are_refused() {
    let server = Running::start();
    let exchange = |request: &str| {
        let mut stream = connect(&server.socket);
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    };
    let fine = "GET /healthz HTTP/1.1\r\nhost: fnd\r\n\r\n";
    let post = "POST /v1/functions/hello/invoke HTTP/1.1\r\nhost: fnd\r\n";
    for (wrong, words) in [
        (
            "GET /healthz HTTP/1.1\r\nhost: fnd\r\nHost: other\r\n\r\n".to_owned(),
            "`Host`",
        ),
        ("GET /healthz HTTP/1.1\nhost: fnd\n\n".to_owned(), "carriage return"),
        ("GET /healthz HTTP/1.1\r\nhost: fnd\n\r\n".to_owned(), "carriage return"),
        (
            format!("{post}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
            "`Transfer-Encoding`",
        ),
        (
            format!("{post}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n"),
            "`Transfer-Encoding`",
        ),
    ] {
        // The bytes after it are not taken for a request.
        let answers = exchange(&format!("{wrong}{fine}"));
        assert!(answers.starts_with("HTTP/1.1 400"), "{wrong:?}: {answers}");
        assert!(answers.contains(words), "{wrong:?}: {answers}");
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{wrong:?}: {answers}");
        // Also behind one that is as it should be.
        let answers = exchange(&format!("{fine}{wrong}{fine}"));
        assert!(
            answers.starts_with("HTTP/1.1 200") && answers.contains(words),
            "{wrong:?}: {answers}"
        );
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 2, "{wrong:?}: {answers}");
    }
    assert_eq!(history(&server), 0);
    assert_eq!(get(&server.socket, "/healthz").status, 200);
}

#[test]
fn json_nested_without_end_is_refused() {
    let server = Running::start();
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let answer = post(
        &server.socket,
        "/v1/functions/hello/invoke",
        "content-type: application/json",
        deep.as_bytes(),
    );
    assert_eq!((answer.status, answer.code().as_str()), (400, "bad-json"));
    for route in ["/v1/validate", "/v1/functions/hello/invocations"] {
        let answer = post(&server.socket, route, "content-type: application/json", deep.as_bytes());
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad-json"), "{route}");
    }
    let context = format!("fnd-context: {}{}", "[".repeat(5000), "]".repeat(5000));
    assert_ne!(
        post(&server.socket, "/v1/functions/hello/invoke", &context, b"").status,
        500
    );
    assert_eq!(get(&server.socket, "/healthz").status, 200);
}
