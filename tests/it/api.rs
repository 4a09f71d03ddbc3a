//! The control socket: roles, malformed requests, limits, errors in their documented form.

use fnd_core::api::NodeState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Answer, Fnd, Setup, require, wait_until};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Command;

const HELLO: &str = "# /// fnd\n# on_load = false\n# [limits]\n# body = \"1K\"\n# ///\necho hello\n";

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let problem = answer.problem();
    assert_eq!((problem.code.as_str(), problem.status), (code, status));
    assert!(!problem.detail.is_empty() && !problem.title.is_empty());
}

/// An fnd without functions comes first.
#[test]
fn requests_and_their_answers() {
    let fnd = Fnd::start();
    without_functions_status_says_where_they_go(&fnd);
    errors_have_their_documented_form(&fnd);
    a_failed_run_names_itself(&fnd);
    malformed_http_is_refused_and_nobody_else_notices(&fnd);
    history_has_filters_and_pages(&fnd);
    an_unchanged_list_is_not_sent_again(&fnd);
    the_same_idempotency_key_is_the_same_invocation(&fnd);
    descriptions_of_itself(&fnd);
    a_function_without_a_version_has_no_user(&fnd);
    fnd.finish();
}

fn errors_have_their_documented_form(fnd: &Fnd) {
    fnd.drop_file("hello.sh", HELLO);
    fnd.wait_ready("hello");
    let client = fnd.client();
    refused(&client.get("/v1/functions/nobody"), 404, "not-found");
    refused(&client.get("/v1/no/such/path"), 404, "not-found");
    refused(&client.get("/v1/functions/..%2F..%2Fetc"), 404, "not-found");
    refused(&client.get("/v1/invocations/not-an-id"), 404, "not-found");
    refused(
        &client.get("/v1/invocations/00000000-0000-7000-8000-000000000000"),
        404,
        "not-found",
    );
    refused(&client.post("/v1/functions/hello/invoke", "{not json"), 400, "bad-json");
    refused(&client.get("/v1/invocations?state=finished"), 400, "bad-request");
    let large = format!("\"{}\"", "x".repeat(2000));
    refused(&client.post("/v1/functions/hello/invoke", &large), 413, "too-large");
    let wrong = client.call("DELETE", "/v1/status", &[], b"");
    refused(&wrong, 405, "method-not-allowed");
    assert!(wrong.header("allow").unwrap_or_default().contains("GET"));
    // No request of these ran the function.
    assert!(fnd.history("hello").is_empty());
}

fn a_failed_run_names_itself(fnd: &Fnd) {
    fnd.drop_file(
        "fails.sh",
        "# /// fnd\n# on_load = false\n# ///\necho 'the reason' >&2\nexit 4\n",
    );
    fnd.wait_ready("fails");
    let answer = fnd.invoke("fails", "");
    refused(&answer, 500, "function-failed");
    let problem = answer.problem();
    assert_eq!(problem.reason.unwrap().to_string(), "exit-4");
    assert_eq!(problem.function.unwrap().as_str(), "fails");
    assert_eq!(problem.invocation.unwrap(), Fnd::id_of(&answer));
    assert!(problem.detail.contains("the reason"), "{}", problem.detail);
}

fn malformed_http_is_refused_and_nobody_else_notices(fnd: &Fnd) {
    for garbage in [
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\0\u{1}\u{2}\r\n\r\n",
        "POST /v1/reload HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ] {
        let mut stream = UnixStream::connect(fnd.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(garbage.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // A connection that is closed without an answer is right, too.
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{garbage:?}: {text}");
    }
    let mut stream = UnixStream::connect(fnd.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "GET /v1/status HTTP/1.1\r\nHost: fnd\r\nX-Long: {}\r\n\r\n",
        "y".repeat(200_000)
    );
    // fnd may close the connection before the whole request is sent.
    let _ = stream.write_all(head.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 2"));
    assert!(fnd.client().get("/healthz").status.is_success());
}

fn history_has_filters_and_pages(fnd: &Fnd) {
    fnd.drop_file(
        "odd.sh",
        "# /// fnd\n# on_load = false\n# ///\nread -r n\n((n % 2 == 0))\n",
    );
    fnd.wait_ready("odd");
    for n in 0..7 {
        fnd.wait_end(fnd.queue("odd", &n.to_string()));
    }
    let list =
        |query: &str| -> fnd_core::api::InvocationList { fnd.client().get(&format!("/v1/invocations?{query}")).json() };
    assert_eq!(list("function=odd&state=failed").invocations.len(), 3);
    assert_eq!(list("function=odd&reason=exit-1").invocations.len(), 3);
    assert_eq!(list("function=odd&trigger=load").invocations.len(), 0);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = list(&format!("function=odd&limit=3{after}"));
        assert!(page.invocations.len() <= 3);
        seen.extend(page.invocations.iter().map(|view| view.id));
        let Some(next) = page.next else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen.len(), 7);
    assert!(seen.is_sorted_by(|a, b| a > b), "newest first: {seen:?}");
}

/// An end of a run makes the list another one.
fn an_unchanged_list_is_not_sent_again(fnd: &Fnd) {
    for path in ["/v1/functions?limit=1000", "/v1/status"] {
        let ask = |tag: &str| fnd.client().call("GET", path, &[("if-none-match", tag)], b"");
        let mut tag = "\"none\"".to_owned();
        // Something may change between two requests, and a tag ends by itself from time to time.
        let unchanged = wait_until("the list to stay", PATIENCE, || {
            let answer = ask(&tag);
            if answer.status == 200 {
                tag = answer.header("etag").unwrap().to_owned();
            }
            (answer.status == 304).then_some(answer)
        });
        assert_eq!(unchanged.header("etag"), Some(&*tag), "{path}");
        assert!(unchanged.body.is_empty() && unchanged.header("content-length").is_none());
        let runs = fnd.status().functions.iter().map(|function| function.runs).sum::<u64>();
        fnd.wait_end(fnd.queue("odd", "1"));
        let changed = ask(&tag);
        assert_eq!(changed.status, 200, "{path}");
        let list: serde_json::Value = changed.json();
        let functions = list["functions"].as_array().unwrap().iter();
        let now: u64 = functions.filter_map(|function| function["runs"].as_u64()).sum();
        assert_eq!(now, runs + 1, "{path}");
    }
}

/// A second request with the same key, while the first one runs, gets the invocation of the first.
fn the_same_idempotency_key_is_the_same_invocation(fnd: &Fnd) {
    // Only while it runs: fnd remembers keys for longer only for durable work.
    fnd.drop_file("once.sh", "# /// fnd\n# on_load = false\n# ///\nsleep 1\n");
    fnd.wait_ready("once");
    let key = [("idempotency-key", "order-17")];
    let path = "/v1/functions/once/invocations";
    let ask = || {
        fnd.client()
            .call("POST", path, &key, b"")
            .json::<fnd_core::api::Queued>()
            .id
    };
    let first = ask();
    assert_eq!(ask(), first);
    let other = fnd.client().call("POST", path, &key, b"another order");
    assert_eq!(
        (other.status.as_u16(), other.problem().code.as_str()),
        (422, "key-reused")
    );
    fnd.wait_end(first);
    // From the history, too.
    let other = fnd.client().call("POST", path, &key, b"another order");
    assert_eq!(other.status, 422, "{}", other.text());
    assert_eq!(ask(), first);
    assert_eq!(fnd.history("once").len(), 1);
}

fn descriptions_of_itself(fnd: &Fnd) {
    let openapi: serde_json::Value = fnd.client().get("/v1/openapi.json").json();
    assert!(openapi["openapi"].as_str().unwrap_or_default().starts_with('3'));
    assert!(
        openapi["paths"]["/v1/functions/{function}/invoke"].is_object()
            || openapi["paths"].as_object().unwrap().len() > 10
    );
    for path in ["/v1/runtimes", "/v1/sizes", "/v1/config"] {
        let answer = fnd.client().get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
}

/// A user who is not root and has no role gets nothing; a group with the role `viewer` may only read.
#[test]
fn roles_go_by_the_kernels_word() {
    require!(root);
    let setup = Setup::default().config("[[access]]\ngroup = \"nogroup\"\nrole = \"viewer\"\n");
    let fnd = Fnd::start_with(&setup);
    fnd.drop_file("hello.sh", HELLO);
    fnd.wait_ready("hello");
    // systemd sets the mode of the socket. Here everybody may connect, so that only the roles decide.
    std::fs::set_permissions(fnd.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
    // The program is in a build directory, which other users may not enter.
    let fndctl = fnd.path("fndctl");
    std::fs::copy(fnd_tests::programs::program("fndctl"), &fndctl).unwrap();
    let run_as = |uid: u32, gid: u32, arguments: &[&str]| {
        use std::os::unix::process::CommandExt as _;
        let output = Command::new(&fndctl)
            .args(arguments)
            .env_clear()
            .env("FND_SOCKET", fnd.socket())
            .uid(uid)
            .gid(gid)
            .output()
            .unwrap();
        output.status.code()
    };
    let nogroup = nix::unistd::Group::from_name("nogroup").unwrap().unwrap().gid.as_raw();
    assert_eq!(run_as(54_321, nogroup, &["status"]), Some(0));
    assert_eq!(run_as(54_321, nogroup, &["invoke", "hello"]), Some(5));
    assert_eq!(run_as(54_321, nogroup, &["reload"]), Some(5));
    assert_eq!(run_as(54_321, 54_321, &["status"]), Some(5));
    // Without the right to open the socket, no request is possible.
    std::fs::set_permissions(fnd.socket(), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(run_as(54_321, nogroup, &["status"]), Some(5));
    fnd.finish();
}

fn without_functions_status_says_where_they_go(fnd: &Fnd) {
    let status = fnd.ctl(&["status"]).expect_code(0);
    let place = fnd.path("functions");
    assert!(
        status.out().contains(&format!("save a file in {}", place.display())),
        "{status}"
    );
}

#[test]
fn reload_waits_and_says_what_is_wrong() {
    let fnd = Fnd::start();
    fnd.drop_file("good.sh", HELLO);
    let good = fnd.client().post("/v1/reload", "");
    assert_eq!(good.status, 200);
    let report: serde_json::Value = good.json();
    assert_eq!(report["diagnostics"].as_array().map(Vec::len), Some(0), "{report}");
    // The reload has waited: the files that were on disk before are functions now.
    assert!(fnd.function("good").is_some_and(|function| function.version.is_some()));
    fnd.drop_file("bad.toml", "memroy = 3\n");
    fnd.drop_file("bad.sh", "echo\n");
    let refused = fnd.ctl(&["reload"]).expect_code(8);
    assert!(refused.out().contains("memroy"), "{refused}");
    // Its files did not change since: the reload itself is fine.
    let again = fnd.ctl(&["reload"]).expect_code(0);
    let expected = "1 function was invalid before and did not change: bad";
    assert!(
        again.out().contains(expected) && !again.out().contains("memroy"),
        "{again}"
    );
    fnd.drop_file("worse.toml", "memroy = 3\n");
    fnd.drop_file("worse.sh", "echo\n");
    let ignored = fnd.ctl(&["reload", "--ignore-invalid"]).expect_code(0);
    assert!(ignored.out().contains("worse.toml:1:1"), "{ignored}");
    std::fs::write(fnd.path("fnd.toml"), "keep_versoins = 5\n").unwrap();
    let _ = fnd.ctl(&["reload", "--ignore-invalid"]).expect_code(8);
    fnd.finish();
}

/// A function that was never installed has no user; in particular it does not have root's.
fn a_function_without_a_version_has_no_user(fnd: &Fnd) {
    fnd.drop_file("bad.sh", "# /// fnd\n# retires = 3\n# ///\n");
    fnd.drop_file("good.sh", "# /// fnd\n# on_load = false\n# ///\n");
    fnd.wait_ready("good");
    let _ = fnd.wait_function("bad", "to be known", |function| function.error.is_some());
    let uid = |name: &str| {
        let answer = fnd.client().get(&format!("/v1/functions/{name}"));
        answer.json::<serde_json::Value>()["uid"].clone()
    };
    assert_eq!(uid("bad"), serde_json::Value::Null);
    assert!(uid("good").is_u64());
    let shown = fnd.ctl(&["show", "bad"]).expect_code(0).out();
    assert!(
        shown.lines().any(|line| line.split_whitespace().eq(["uid", "-"])),
        "{shown}"
    );
}

#[test]
fn drain_finishes_and_accepts_nothing_new() {
    let mut fnd = Fnd::start();
    let gate = fnd.shared_directory("gate").join("open");
    let script = format!(
        "# /// fnd\n# on_load = false\n# ///\nuntil [[ -e {} ]]; do sleep 0.02; done\n",
        gate.display()
    );
    fnd.drop_file("short.sh", &script);
    fnd.wait_ready("short");
    let id = fnd.queue("short", "");
    // An invocation that has not begun stays for the next start.
    wait_until("it to run", PATIENCE, || (fnd.status().running == 1).then_some(()));
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| fnd.ctl(&["drain"]));
        wait_until("the state to say so", PATIENCE, || {
            (fnd.status().state == NodeState::Draining).then_some(())
        });
        let answer = fnd.invoke("short", "");
        refused(&answer, 503, "unavailable");
        assert!(!drained.is_finished(), "it waits for what runs");
        std::fs::write(&gate, "").unwrap();
        let _ = drained.join().unwrap().expect_code(0);
    });
    assert_eq!(fnd.wait_end(id).state.as_str(), "succeeded");
    fnd.stop();
}

#[test]
fn a_stop_waits_for_callers_only() {
    let mut fnd = Fnd::start();
    assert_eq!(fnd.status().state, NodeState::Running);
    fnd.stop();
    assert!(!fnd.log().contains("callers have no answer yet"), "{}", fnd.log());
}
