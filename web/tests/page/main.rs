//! The program `fnd-web` with a server in the place of fnd: attacks of other sites, addresses without a token, large bodies.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod harness;

use harness::{Fnd, Page};

const NO_PAGE: &str = "/nowhere";

#[test]
fn a_token_opens_the_page_once() {
    let page = Page::start(&Fnd::start(), &[]);
    let stranger = page.get("/runs/1?a=b", "");
    stranger.has_status(401);
    assert!(stranger.text.contains("value=\"/runs/1?a=b\""), "{}", stranger.text);
    page.login("0000", "/").has_status(403);
    let welcome = page.login(page.token(), "/history?state=failed");
    welcome.has_status(303);
    assert_eq!(welcome.header("location"), Some("/history?state=failed"));
    let cookie = welcome.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
    page.get(NO_PAGE, cookie).has_status(404);
    page.get(NO_PAGE, "fnd=1").has_status(401);
    // A stolen address is worth nothing once the token was used.
    page.login(page.token(), "/").has_status(403);
    page.get(NO_PAGE, cookie).has_status(404);
}

#[test]
fn a_token_leads_to_no_other_host() {
    let page = Page::start(&Fnd::start(), &[]);
    let welcome = page.login(page.token(), "//evil.example");
    assert_eq!(welcome.header("location"), Some("/"));
}

#[test]
fn other_hosts_and_sites_reach_nothing() {
    let fnd = Fnd::start();
    let page = Page::start(&fnd, &[]);
    let cookie = page.session();
    for path in ["/", "/login", "/assets/app.css", "/stream"] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: evil.example:80\r\nCookie: {cookie}\r\n");
        page.send(&head, b"").has_status(421);
    }
    for origin in [
        "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n",
        "Origin: http://127.0.0.1:8081\r\nSec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: same-origin\r\n",
        "Origin: http://localhost\r\n",
        "",
    ] {
        for path in ["/functions/hello", "/login"] {
            page.post(path, origin, &cookie, b"a=b").has_status(403);
        }
    }
    assert!(fnd.requests().is_empty(), "{:?}", fnd.requests());
}

#[test]
fn no_answer_can_be_framed_or_stored() {
    let page = Page::start(&Fnd::start(), &[]);
    let cookie = page.session();
    for answer in [
        page.get("/login", ""),
        page.get("/", ""),
        page.get(NO_PAGE, &cookie),
        page.get("/stream", &cookie),
        page.send("GET / HTTP/1.1\r\nHost: evil.example\r\n", b""),
        page.post("/", "", &cookie, b""),
    ] {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; "),
            "{policy}"
        );
        assert!(policy.ends_with("; frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

#[test]
fn a_large_form_is_refused() {
    let page = Page::start(&Fnd::start(), &[]);
    let cookie = page.session();
    page.post(NO_PAGE, harness::SAME_SITE, &cookie, &vec![b'a'; 5 << 20])
        .has_status(413);
    page.post(NO_PAGE, harness::SAME_SITE, &cookie, &vec![b'a'; 1 << 20])
        .has_status(404);
    // A stranger sends a token and no more.
    page.post("/login", harness::SAME_SITE, "", &vec![b'a'; 1 << 20])
        .has_status(413);
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n", "a".repeat(64 * 1024));
    page.send(&head, b"").has_status(431);
}

#[test]
fn a_page_that_only_reads_refuses_every_form() {
    let fnd = Fnd::start();
    let page = Page::start(&fnd, &["--read-only"]);
    let answer = page.post("/functions/hello", harness::SAME_SITE, &page.session(), b"a=b");
    answer.has_status(403);
    assert!(answer.text.contains("--read-only"), "{}", answer.text);
    assert!(fnd.requests().is_empty(), "{:?}", fnd.requests());
}

#[test]
fn output_and_events_are_followed_and_a_refusal_is_shown_as_such() {
    let fnd = Fnd::start();
    let page = Page::start(&fnd, &[]);
    let cookie = page.session();
    let output = page.get("/runs/01934567-89ab-7def-8123-456789abcdef/follow", &cookie);
    output.has_status(200);
    assert_eq!(output.header("content-type"), Some("text/event-stream"));
    assert!(
        output.text.contains("id: 2026-01-01T00:00:00Z/1\ndata: "),
        "{}",
        output.text
    );
    assert!(
        output.text.contains("&lt;b&gt;") && output.text.ends_with("event: end\ndata: end\n\n\r\n0\r\n\r\n"),
        "{}",
        output.text
    );
    let back = "GET /runs/01934567-89ab-7def-8123-456789abcdef/follow HTTP/1.1\r\nHost: localhost\r\n\
                Last-Event-ID: 2026-01-01T00:00:00Z/1\r\n";
    let back = page.send(&format!("{back}Cookie: {cookie}\r\n"), b"");
    assert!(
        back.text.contains("event: end") && !back.text.contains("&lt;b&gt;"),
        "{}",
        back.text
    );
    let events = page.get("/stream?since=now", &cookie);
    assert!(
        events.text.contains("id: 7\nevent: run\ndata: {}\n\n"),
        "{}",
        events.text
    );
    page.get("/runs/none/follow", &cookie).has_status(403);
    let requests = fnd.requests();
    assert!(requests[0].starts_with("GET /v1/invocations/01934567-89ab-7def-8123-456789abcdef/logs?follow=1 "));
    assert!(
        requests[1].contains("logs?follow=1&since=2026-01-01T00%3A00%3A00Z&limit=100000 "),
        "{requests:?}"
    );
    assert!(
        requests[2].starts_with("GET /v1/stream?follow=1&since=now "),
        "{requests:?}"
    );
}

#[test]
fn the_last_line_of_an_output_says_if_there_may_be_more() {
    let page = Page::start(&Fnd::start(), &[]);
    let output = page.get("/runs/01934567-89ab-7def-8123-456789abcdef/raw", &page.session());
    output.has_status(200);
    let last = output.text.lines().last().unwrap();
    assert_eq!(
        last,
        "--- These are the newest 100000 lines. Lines before these, if there are any: fndctl logs --id \
         01934567-89ab-7def-8123-456789abcdef -n 100000 --until 2026-01-01T00:00:00.001Z"
    );
}

#[test]
fn a_search_looks_through_all_of_an_output() {
    let fnd = Fnd::start();
    let page = Page::start(&fnd, &[]);
    let found = page.get("/runs/01934567-89ab-7def-8123-456789abcdef?q=%3CB", &page.session());
    found.has_status(200);
    assert!(found.text.contains("100000 lines have “&lt;B”"), "{}", found.text);
    let searched = fnd
        .requests()
        .iter()
        .filter(|line| line.contains("/logs?limit=100000"))
        .count();
    assert_eq!(searched, 2, "{:?}", fnd.requests());
}

#[test]
fn a_missing_fnd_is_a_page_that_comes_back() {
    let page = Page::start(&Fnd::missing(), &[]);
    let answer = page.get("/", &page.session());
    answer.has_status(503);
    assert_eq!(answer.header("refresh"), Some("5"));
    assert!(answer.text.contains("There is no control socket"), "{}", answer.text);
    assert!(answer.text.contains("systemctl status fnd"), "{}", answer.text);
}

#[test]
fn the_page_ends_with_its_starter() {
    let mut page = Page::start(&Fnd::start(), &[]);
    page.close_input();
    assert!(page.wait().success());
}

#[test]
fn an_unused_page_ends() {
    let mut page = Page::start(&Fnd::start(), &["--idle", "50ms"]);
    assert!(page.wait().success());
}
