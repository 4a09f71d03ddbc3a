//! What fails: an answer, a call that takes too long, a worker that is never ready.

use super::*;

/// Each of these has functions of its own.
#[test]
fn failures_of_programs() {
    let fnd = Fnd::start();
    what_breaks_fails_its_own_call_and_says_why(&fnd);
    a_body_that_breaks_off_after_the_answer_began_is_no_failure_of_the_function(&fnd);
    a_timeout_ends_the_worker_and_an_attempt_may_follow(&fnd);
    what_never_is_ready_says_why(&fnd);
    a_cancelled_request_is_closed_and_the_others_of_its_worker_go_on(&fnd);
    fnd.finish();
}

fn what_breaks_fails_its_own_call_and_says_why(fnd: &Fnd) {
    require!(cgroup);
    fnd.install(
        "risky.py",
        "[limits]\nbody = \"1K\"\nresult = \"1K\"\n[pool]\nmax = 1\n[http_server]\n",
        SERVER,
    );
    let pid = get(fnd, "risky", "/pid").text();
    for path in ["/garbage", "/drop"] {
        let answer = get(fnd, "risky", path);
        let problem: serde_json::Value = answer.json();
        assert_eq!(
            (answer.status.as_u16(), &problem["code"]),
            (502, &"bad-answer".into()),
            "{path}: {problem}"
        );
        assert_eq!(get(fnd, "risky", "/pid").text(), pid, "{path}: the worker serves on");
    }
    // If an answer ends early, after its head, fnd closes the caller's connection.
    let text = raw(
        fnd,
        b"GET /v1/functions/risky/http/cut HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    assert!(
        text.ends_with("begun") && text.contains("content-length: 1000"),
        "{text}"
    );
    let last = fnd.wait_function("risky", "to have failed", |function| function.failures == 3);
    assert_eq!(last.reason.unwrap().to_string(), "bad-answer");
    let answer = fnd
        .client()
        .post("/v1/functions/risky/http/length", &format!("\"{}\"", "x".repeat(2000)));
    assert_eq!(answer.status.as_u16(), 413, "{}", answer.text());
    let chunked = format!(
        "POST /v1/functions/risky/http/length HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n7d0\r\n{}\r\n0\r\n\r\n",
        "x".repeat(2000)
    );
    let text = raw(fnd, chunked.as_bytes());
    assert!(
        text.starts_with("HTTP/1.1 413") && text.contains("limits.body"),
        "{text}"
    );
    // The answer of a queued request is kept, so its size is limited.
    let id = fnd.queue("risky", "1");
    assert_eq!(fnd.wait_end(id).state, RunState::Succeeded);
    let kept: serde_json::Value = fnd.result(id).json();
    assert_eq!((&kept["method"], &kept["body"]), (&"POST".into(), &"1".into()));
    wait_until("an exit to be told in time", PATIENCE, || {
        let answer = get(fnd, "risky", "/exit");
        let view = record(fnd, &answer);
        let outcome = (answer.status.as_u16(), reason(&view));
        // If fnd learns of the exit late, it only knows that the connection broke.
        assert!(
            [(500, "exit-3".to_owned()), (502, "bad-answer".to_owned())].contains(&outcome),
            "{}",
            view.message
        );
        (outcome.0 == 500).then_some(())
    });
    assert_ne!(get(fnd, "risky", "/pid").text(), pid);
    assert_eq!(fnd.function("risky").unwrap().state.as_str(), "ready");
}

/// The program answers while it still reads the request.
fn a_body_that_breaks_off_after_the_answer_began_is_no_failure_of_the_function(fnd: &Fnd) {
    fnd.install("early.py", "[limits]\nbody = \"1K\"\n[http_server]\n", SERVER);
    for (runs, rest) in [(1, format!("7d0\r\n{}\r\n", "x".repeat(2000))), (2, String::new())] {
        let mut stream = UnixStream::connect(fnd.socket()).unwrap();
        let head =
            "POST /v1/functions/early/http/echo-chunks HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}5\r\nabcde\r\n").as_bytes()).unwrap();
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).contains("abcde") {
            let mut piece = [0; 1024];
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&text));
            text.extend_from_slice(&piece[..count]);
        }
        stream.write_all(rest.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.read_to_end(&mut text).unwrap();
        let function = fnd.wait_function("early", "to have ended", |function| function.runs == runs);
        assert_eq!(
            (function.reason.unwrap().to_string(), function.failures),
            ("cancelled".to_owned(), 0)
        );
    }
}

fn a_timeout_ends_the_worker_and_an_attempt_may_follow(fnd: &Fnd) {
    fnd.install(
        "late.py",
        "[limits]\ntimeout = \"500ms\"\ngrace = \"200ms\"\n[http_server]\n",
        SERVER,
    );
    let pid: i32 = wait_until("an answer in time", PATIENCE, || {
        get(fnd, "late", "/pid").text().parse().ok()
    });
    let answer = get(fnd, "late", "/hang");
    assert_eq!(answer.status.as_u16(), 408, "{}", answer.text());
    assert_eq!(reason(&record(fnd, &answer)), "timeout");
    wait_until("its worker to be gone", PATIENCE, || {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None)
            .is_err()
            .then_some(())
    });
    // If the function has retries, bodies are kept, since each attempt needs them.
    let twice = SERVER.replace(
        "        if path == \"/pid\"",
        "        if self.headers['fnd-attempt'] == '1' and path == '/': os._exit(9)\n        if path == \"/pid\"",
    );
    fnd.install(
        "twice.py",
        "[retry]\nretries = 1\ninterval = \"1s\"\n[http_server]\n",
        &twice,
    );
    let answer = fnd.invoke("twice", "\"again\"");
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    assert_eq!(answer.json::<serde_json::Value>()["body"], "\"again\"");
    let view = record(fnd, &answer);
    assert_eq!((view.attempts, view.state), (2, RunState::Succeeded));
    assert_eq!(get(fnd, "twice", "/broken").text(), "not now");
}

fn what_never_is_ready_says_why(fnd: &Fnd) {
    let manifest = |ready: &str, within: &str| {
        format!("[limits]\ngrace = \"100ms\"\n[http_server]\nready = \"{ready}\"\nstart_timeout = \"{within}\"\n")
    };
    // Long enough that it answers.
    fnd.install("unwell.py", &manifest("/broken", "10s"), SERVER);
    let cases = [
        (
            "unwell",
            "it was not ready within 10s: `/broken` answered 503 Service Unavailable",
        ),
        (
            "deaf",
            "it was not ready within 700ms: it accepts no connections on $PORT",
        ),
        ("brief", "no port for me"),
    ];
    fnd.install("deaf.py", &manifest("/", "700ms"), "import time\ntime.sleep(1000)\n");
    fnd.install(
        "brief.py",
        &manifest("/", "30s"),
        "import sys\nsys.exit('no port for me')\n",
    );
    for (name, expected) in cases {
        let (answer, view) = fnd.run(name, "");
        assert_eq!(
            (answer.status.as_u16(), reason(&view).as_str()),
            (500, "load"),
            "{name}"
        );
        assert!(view.message.starts_with(expected), "{name}: {}", view.message);
    }
}

/// A1: as if its caller had left.
fn a_cancelled_request_is_closed_and_the_others_of_its_worker_go_on(fnd: &Fnd) {
    let manifest = format!("[pool]\nmax = 1\nconcurrency = 8\n[http_server]\n{}", gated(fnd));
    fnd.install("f.py", &manifest, SERVER);
    let pid = get(fnd, "f", "/pid").text();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..3).map(|_| scope.spawn(|| get(fnd, "f", "/gate"))).collect();
        let running: Vec<String> = wait_until("the requests to run", PATIENCE, || {
            let list = fnd.client().get("/v1/invocations?function=f&state=running");
            let list = list.json::<serde_json::Value>();
            let ids = list["invocations"].as_array()?.iter();
            let ids: Vec<String> = ids.filter_map(|one| Some(one["id"].as_str()?.to_owned())).collect();
            (ids.len() == 3).then_some(ids)
        });
        let _ = fnd.ctl(&["cancel", &running[0]]).expect_code(0);
        let view = fnd.wait_end(fnd_wire::ids::InvocationId::parse(&running[0]).unwrap());
        assert_eq!(
            (reason(&view).as_str(), view.message.as_str()),
            ("cancelled", "cancelled on request")
        );
        super::open(fnd);
        let mut answers: Vec<_> = calls.into_iter().map(|call| call.join().unwrap()).collect();
        answers.retain(|answer| answer.status == 200);
        assert_eq!(answers.len(), 2);
        assert!(answers.iter().all(|answer| answer.text() == pid));
    });
    assert_eq!(get(fnd, "f", "/pid").text(), pid, "the worker goes on");
}
