//! Functions that call functions and send events, at the socket in `FND_SOCKET`.

use fnd_core::api::AuditList;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{Reason, RunState, Trigger};
use fnd_tests::install::with_manifest;
use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The manifest of a function that only others run, with these lines.
fn with(lines: &str) -> String {
    format!("on_load = false\n{lines}")
}

/// Returns a script in which `fndctl` is the program under test.
fn script(code: &str) -> String {
    let program = program("fndctl");
    format!("fndctl() {{ '{}' \"$@\"; }}\n{code}", program.display())
}

/// Sends a request to the socket in `FND_SOCKET`, and prints status and body: `request METHOD PATH [BODY]`.
const REQUEST: &str = r#"import http.client, json, os, socket, sys

class Fnd(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["FND_SOCKET"])

def request(method, path, body=None, headers={}):
    fnd = Fnd("fnd")
    fnd.request(method, path, body, headers)
    answer = fnd.getresponse()
    return answer.status, answer.read().decode()

out = [request(*asked) for asked in json.load(sys.stdin)]
print(json.dumps(out))
"#;

/// Installs a function with a manifest in its file, and waits until this version serves.
fn put(fnd: &Fnd, file: &str, manifest: &str, code: &str) {
    let (name, _) = file.rsplit_once('.').unwrap();
    let before = fnd.function(name).and_then(|function| function.version);
    fnd.drop_file(file, &with_manifest(file, manifest, code));
    wait_until(&format!("`{name}` to serve"), PATIENCE, || {
        let function = fnd.function(name)?;
        assert_eq!(function.error, None, "{name}");
        (function.version.is_some() && function.version != before).then_some(())
    });
}

/// Installs `ask`, a function that sends the requests in its payload.
fn install_ask(fnd: &Fnd, access: &str) {
    put(fnd, "ask.py", &with(access), REQUEST);
}

/// Has `ask` send requests, and returns the answers: status and body.
#[track_caller]
fn ask(fnd: &Fnd, requests: &serde_json::Value) -> Vec<(u16, String)> {
    let answer = fnd.invoke("ask", &requests.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn sandboxed() -> Fnd {
    Fnd::start_with(&Setup::default().config("[sandbox]\n"))
}

/// The first call of `b` comes first.
#[test]
fn calls_and_events_in_the_strict_sandbox() {
    require!(root);
    let fnd = sandboxed();
    a_function_in_the_strict_sandbox_calls_another_and_gets_its_result(&fnd);
    a_function_in_deno_calls_another_and_needs_no_permission(&fnd);
    what_is_not_listed_is_refused_with_what_to_write(&fnd);
    a_function_sends_the_events_that_it_may(&fnd);
    fnd.finish();
}

fn a_function_in_the_strict_sandbox_calls_another_and_gets_its_result(fnd: &Fnd) {
    put(
        fnd,
        "b.sh",
        &with(""),
        "printf '{\"got\": %s, \"trigger\": \"%s\"}' \"$DATA\" \"$FND_TRIGGER\"\n",
    );
    put(
        fnd,
        "a.sh",
        &with("[access]\ninvoke = [\"b\"]"),
        &script("fndctl invoke b -d \"$DATA\"\n"),
    );
    let (answer, caller) = fnd.run("a", r#"{"n":1}"#);
    assert_eq!(answer.text(), r#"{"got": {"n":1}, "trigger": "function"}"#);
    let child = fnd.history("b").pop().unwrap();
    let child = fnd.invocation(child.id);
    assert_eq!((child.trigger, child.parent), (Trigger::Function, Some(caller.id)));
    assert!(matches!(&child.cause, Some(Cause::Call(call)) if call.depth == 1 && call.function.as_str() == "a"));
    assert_eq!(fnd.invocation(caller.id).children, 1);
    let tree = fnd.ctl(&["show", &child.id.to_string()]).expect_code(0).out();
    let calls = tree.lines().skip_while(|line| !line.starts_with("CALL"));
    let lines: Vec<Vec<&str>> = calls.map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((lines[1][0], lines[1][1]), ("a", "succeeded"), "{tree}");
    assert_eq!((lines[2][0], lines[2].last()), ("b", Some(&"<")), "{tree}");
    let tree = fnd
        .ctl(&["show", &caller.id.to_string(), "-o", "json"])
        .expect_code(0)
        .json();
    assert_eq!(tree["calls"][0]["id"], child.id.to_string());
    // Another function does not see the socket.
    put(fnd, "c.sh", &with(""), "echo \"${FND_SOCKET-none}\"\n");
    assert_eq!(fnd.run("c", "").0.text().trim(), "none");
}

/// Asks fnd over the socket in `FND_SOCKET`, and prints the last line of the answer.
const FROM_DENO: &str = r#"
const fnd = await Deno.connect({ transport: "unix", path: Deno.env.get("FND_SOCKET")! });
const head = "POST /v1/functions/b/invoke HTTP/1.1\r\nHost: fnd\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
await fnd.write(new TextEncoder().encode(head));
let answer = "";
for await (const text of fnd.readable.pipeThrough(new TextDecoderStream())) answer += text;
"#;

fn a_function_in_deno_calls_another_and_needs_no_permission(fnd: &Fnd) {
    require!(deno);
    put(fnd, "b.sh", &with(""), "printf 'b was here'\n");
    let access = with("[access]\ninvoke = [\"b\"]");
    let script = format!("{FROM_DENO}console.log(answer.split(\"\\r\\n\").pop());\n");
    put(fnd, "script.ts", &access, &script);
    assert!(fnd.run("script", "").0.text().contains("b was here"));
    let handler = format!("export default async () => {{{FROM_DENO}return answer.split(\"\\r\\n\").pop();\n}}\n");
    put(fnd, "handler.ts", &access, &handler);
    assert!(fnd.invoke("handler", "").text().contains("b was here"));
}

fn what_is_not_listed_is_refused_with_what_to_write(fnd: &Fnd) {
    put(fnd, "b.sh", &with(""), "echo b\n");
    put(fnd, "c.sh", &with(""), "echo c\n");
    install_ask(fnd, "[access]\ninvoke = [\"b\"]");
    let strange = fnd.queue("c", "");
    fnd.wait_end(strange);
    let answers = ask(
        fnd,
        &serde_json::json!([
            ["POST", "/v1/functions/b/invoke"],
            ["POST", "/v1/functions/c/invoke"],
            ["POST", "/v1/functions/c/invocations"],
            ["POST", "/v1/functions/c/http/x"],
            ["GET", "/v1/functions"],
            ["GET", "/v1/status"],
            ["POST", "/v1/reload"],
            ["GET", format!("/v1/invocations/{strange}")],
            ["POST", format!("/v1/invocations/{strange}/cancel")],
            ["POST", "/v1/events", "{}", {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "paid", "ce-source": "x", "content-type": "application/json"}],
            ["POST", "/v1/functions/b/invoke", null, {"fnd-invocation": strange.to_string()}],
        ]),
    );
    assert_eq!(answers[0], (200, "b\n".to_owned()));
    for (status, body) in &answers[1..] {
        assert_eq!(*status, 403, "{body}");
    }
    assert!(answers[1].1.contains("`invoke = [\\\"c\\\"]`"), "{}", answers[1].1);
    assert!(answers[9].1.contains("`emit = [\\\"paid\\\"]`"), "{}", answers[9].1);
    // Its own calls it may see, wait for, and cancel.
    let (status, body) = ask(fnd, &serde_json::json!([["POST", "/v1/functions/b/invocations"]])).remove(0);
    assert_eq!(status, 202, "{body}");
    let id = serde_json::from_str::<serde_json::Value>(&body).unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let answers = ask(
        fnd,
        &serde_json::json!([
            ["GET", format!("/v1/invocations/{id}?wait=10s")],
            ["GET", format!("/v1/invocations/{id}/result")],
            ["POST", format!("/v1/invocations/{id}/cancel")],
        ]),
    );
    assert_eq!(
        (answers[0].0, &answers[1]),
        (200, &(200, "b\n".to_owned())),
        "{answers:?}"
    );
    assert_eq!(answers[2].0, 404, "it has ended: {answers:?}");
    // fndctl says so by its exit code.
    put(
        fnd,
        "a.sh",
        &with("[access]\ninvoke = [\"b\"]"),
        &script("fndctl invoke c 2>&1; echo $?\n"),
    );
    let text = fnd.run("a", "").0.text();
    assert!(
        text.contains("may not call `c`") && text.trim().ends_with('5'),
        "{text}"
    );
}

/// Returns the only socket of a function.
fn socket(fnd: &Fnd) -> PathBuf {
    let dirs = fs::read_dir(fnd.path("run/spawner/api")).unwrap();
    let sockets = dirs
        .map(|dir| dir.unwrap().path().join("fnd.sock"))
        .filter(|path| path.exists());
    let sockets: Vec<PathBuf> = sockets.collect();
    assert_eq!(sockets.len(), 1, "{sockets:?}");
    sockets[0].clone()
}

/// Returns what a socket answers to whom it refuses. The answer may come before the request, which an HTTP client takes for
/// a fault.
fn refused(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    // An error: the answer was there already, and the connection is closed.
    let _ = stream.write_all(b"POST /v1/functions/b/invoke HTTP/1.1\r\nhost: fnd\r\ncontent-length: 0\r\n\r\n");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer); // an error: what was read before counts
    answer
}

/// The test that expects one socket comes first.
#[test]
fn sockets_ends_and_chains() {
    let fnd = Fnd::start();
    only_the_user_of_a_function_can_use_its_socket(&fnd);
    only_files_of_root_may_ask_for_it(&fnd);
    the_end_of_a_caller_ends_the_call_that_it_waits_for(&fnd);
    a_call_has_no_more_time_than_its_caller(&fnd);
    the_ninth_call_of_a_chain_is_refused(&fnd);
    a_call_that_would_wait_for_itself_is_refused_at_once(&fnd);
    a_chain_of_events_ends(&fnd);
    fnd.finish();
}

fn only_the_user_of_a_function_can_use_its_socket(fnd: &Fnd) {
    require!(root);
    put(fnd, "b.sh", &with(""), "echo b\n");
    install_ask(fnd, "[access]\ninvoke = [\"b\"]");
    let socket = socket(fnd);
    // Another function's user does not reach it: here nothing hides it.
    let code = format!(
        "import socket\nsocket.socket(socket.AF_UNIX).connect({:?})\n",
        socket.display().to_string()
    );
    put(fnd, "other.py", &with(""), &code);
    let (_, view) = fnd.run("other", "");
    assert!(view.message.contains("PermissionError"), "{}", view.message);
    // Root reaches it, and is refused as everybody else.
    let answer = refused(&socket);
    assert!(
        answer.starts_with("HTTP/1.1 403 ") && answer.contains("only the user"),
        "{answer}"
    );
    // Each refusal is in the audit, equal ones as one entry, and in the journal.
    let _ = refused(&socket);
    let list: AuditList = fnd.client().get("/v1/audit?refused=1").json();
    assert_eq!(list.entries.iter().map(|entry| entry.count).sum::<u64>(), 2);
    for entry in &list.entries {
        assert_eq!(
            (entry.verb.as_str(), entry.uid, entry.status),
            ("connect", 0, Some(403))
        );
        assert_eq!(entry.function.as_ref().map(ToString::to_string).as_deref(), Some("ask"));
        assert_eq!(entry.code.as_deref(), Some("not-allowed"));
        assert_eq!(entry.pid, i32::try_from(std::process::id()).ok());
    }
    fnd.wait_log("connect ask by root: refused (403)");
    let table = fnd.ctl(&["audit", "ask", "--refused", "--verb", "connect"]);
    assert!(table.expect_code(0).out().contains("connect"));
    assert_eq!(
        ask(fnd, &serde_json::json!([["POST", "/v1/functions/b/invoke"]]))[0].0,
        200
    );
    // The socket goes with its function, and with the table.
    put(fnd, "ask.py", &with(""), REQUEST);
    wait_until("the socket to go", PATIENCE, || (!socket.exists()).then_some(()));
}

fn only_files_of_root_may_ask_for_it(fnd: &Fnd) {
    require!(root);
    fs::write(
        fnd.path("strange.sh"),
        "# /// fnd\n# [access]\n# invoke = [\"b\"]\n# emit = [\"x\"]\n# ///\n",
    )
    .unwrap();
    std::os::unix::fs::chown(fnd.path("strange.sh"), Some(fnd.users().0), None).unwrap();
    fs::rename(fnd.path("strange.sh"), fnd.function_path("strange.sh")).unwrap();
    let error = fnd.wait_error("strange").error.unwrap();
    assert!(
        error.contains("`access.invoke` is only for functions whose code and manifest belong to root"),
        "{error}"
    );
}

/// Installs `b`, which runs until it is ended, and `a`, which waits for it.
fn with_slow(fnd: &Fnd) {
    put(fnd, "b.sh", &with("[limits]\ngrace = \"1s\""), "exec sleep 1000\n");
    let access = "[access]\ninvoke = [\"b\"]\n[limits]\ngrace = \"1s\"";
    put(
        fnd,
        "a.sh",
        &with(access),
        &script("fndctl invoke b\necho \"ended: $?\"\n"),
    );
}

#[track_caller]
fn running(fnd: &Fnd, name: &str) -> fnd_wire::ids::InvocationId {
    wait_until(&format!("`{name}` to run"), PATIENCE, || {
        let run = fnd
            .history(name)
            .into_iter()
            .find(|view| view.state == RunState::Running)?;
        Some(run.id)
    })
}

fn the_end_of_a_caller_ends_the_call_that_it_waits_for(fnd: &Fnd) {
    with_slow(fnd);
    let caller = fnd.queue("a", "");
    let call = running(fnd, "b");
    let _ = fnd.ctl(&["cancel", &caller.to_string()]).expect_code(0);
    let ended = fnd.wait_end(call);
    assert_eq!(
        (ended.state, ended.message.as_str()),
        (RunState::Cancelled, "its caller waited for it, and was ended")
    );
    assert_eq!(fnd.wait_end(caller).state, RunState::Cancelled);
    // A caller that gives up.
    let marks = fnd.shared_directory("marks");
    let mark = format!("touch {}/called\nexec sleep 1000\n", marks.display());
    put(fnd, "b.sh", &with("[limits]\ngrace = \"1s\""), &mark);
    let code = format!(
        "'{}' invoke b & call=$!\nuntil [ -e {}/called ]; do sleep 0.05; done\nfndctl invoke b --async\nkill $call; wait\n",
        program("fndctl").display(),
        marks.display()
    );
    put(fnd, "a.sh", &with("[access]\ninvoke = [\"b\"]"), &script(&code));
    let (_, view) = fnd.run("a", "");
    assert_eq!(view.state, RunState::Succeeded);
    let ends = |wanted| fnd.history("b").iter().filter(|view| view.state == wanted).count();
    wait_until("the call to end", PATIENCE, || {
        (ends(RunState::Cancelled) == 2).then_some(())
    });
    // The one in the queue lives on.
    let queued = running(fnd, "b");
    let _ = fnd.ctl(&["cancel", &queued.to_string()]).expect_code(0);
    fnd.wait_end(queued);
}

fn a_call_has_no_more_time_than_its_caller(fnd: &Fnd) {
    put(fnd, "b.sh", &with(""), "echo $FND_DEADLINE\n");
    let access = "[access]\ninvoke = [\"b\"]\n[limits]\ntimeout = \"20s\"";
    put(
        fnd,
        "a.sh",
        &with(access),
        &script("echo $FND_DEADLINE; fndctl invoke b\n"),
    );
    let text = fnd.run("a", "").0.text();
    let ends: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert!(ends[1] <= ends[0] + 5 && ends[1] + 1000 > ends[0], "{ends:?}");
    // Its time is over when that of the caller is.
    put(fnd, "b.sh", &with(""), "exec sleep 1000\n");
    let access = "[access]\ninvoke = [\"b\"]\n[limits]\ntimeout = \"1s\"\ngrace = \"1s\"";
    put(fnd, "a.sh", &with(access), &script("fndctl invoke b\n"));
    let (answer, _) = fnd.run("a", "");
    assert_eq!(answer.status, 408);
    let newest = fnd.history("b").remove(0);
    let ended = fnd.wait_end(newest.id);
    assert!(
        matches!(ended.reason, Some(Reason::Deadline | Reason::Cancelled)),
        "{ended:?}"
    );
}

fn the_ninth_call_of_a_chain_is_refused(fnd: &Fnd) {
    let access = "[access]\ninvoke = [\"link\"]\n[pool]\nmax = 10";
    let code = "n=${DATA:-0}; echo \"at $n\" >&2\nfndctl invoke link -d $((n + 1)) 2>&1 || echo \"code $? at $n\"\n";
    put(fnd, "link.sh", &with(access), &script(code));
    let text = fnd.run("link", "0").0.text();
    assert!(
        text.contains("call 9 in a chain of functions") && text.contains("code 5 at 8"),
        "{text}"
    );
    let runs = fnd.history("link");
    assert_eq!(runs.len(), 9);
    let tree = fnd.ctl(&["show", &runs[0].id.to_string()]).expect_code(0).out();
    let calls = tree.lines().skip_while(|line| !line.starts_with("CALL"));
    assert_eq!(calls.count(), 10, "{tree}");
}

fn a_call_that_would_wait_for_itself_is_refused_at_once(fnd: &Fnd) {
    let access = "[access]\ninvoke = [\"a\", \"b\"]\n[pool]\nmax = 1";
    put(fnd, "a.sh", &with(access), &script("fndctl invoke b 2>&1; echo $?\n"));
    put(fnd, "b.sh", &with(access), &script("fndctl invoke a 2>&1; echo $?\n"));
    let text = fnd.run("a", "").0.text();
    assert!(text.contains("would wait for itself") && text.contains('7'), "{text}");
}

#[test]
fn a_running_function_finds_its_socket_again_after_a_restart() {
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    put(&fnd, "b.sh", &with(""), "echo b\n");
    put(&fnd, "slow.sh", &with("[limits]\ngrace = \"1s\""), "exec sleep 1000\n");
    let mark = fnd.shared_directory("marks");
    let mark = mark.display();
    let code = format!(
        "fndctl invoke slow 2>'{mark}/broken'; echo $? >'{mark}/code'\n\
         until fndctl invoke b; do sleep 0.1; done\ntouch '{mark}/called'; until [ -e '{mark}/end' ]; do sleep 0.1; done\n"
    );
    put(
        &fnd,
        "a.sh",
        &with("[access]\ninvoke = [\"b\", \"slow\"]"),
        &script(&code),
    );
    let caller = fnd.queue("a", "");
    let slow = running(&fnd, "slow");
    fnd.replace(Signal::SIGTERM);
    let there = |name: &str| fnd.path("marks").join(name).exists().then_some(());
    wait_until("the call after the restart", PATIENCE, || there("called"));
    let broken = fs::read_to_string(fnd.path("marks/broken")).unwrap();
    assert!(broken.contains(&format!("invocation {slow} continues")), "{broken}");
    let called = fnd.invocation(fnd.history("b")[0].id);
    assert_eq!(called.parent, Some(caller));
    // The call goes on, and still ends with its caller.
    let view = fnd.invocation(slow);
    assert_eq!((view.state, view.parent), (RunState::Running, Some(caller)));
    fs::write(fnd.path("marks/end"), "").unwrap();
    assert_eq!(fnd.wait_end(caller).state, RunState::Succeeded);
    let ended = fnd.wait_end(slow);
    assert_eq!(
        (ended.state, ended.message.as_str()),
        (RunState::Cancelled, "its caller waited for it, and has ended")
    );
    fnd.finish();
}

fn a_function_sends_the_events_that_it_may(fnd: &Fnd) {
    put(fnd, "on.sh", "[[event]]\ntype = \"order.*\"", "cat\n");
    let access = "[access]\nemit = [\"order.*\"]";
    let code = "fndctl emit order.paid -d '{\"n\": 1}'; echo $?; fndctl emit other -d 1 2>&1; echo $?\n";
    put(fnd, "a.sh", &with(access), &script(code));
    let text = fnd.run("a", "").0.text();
    assert!(
        text.contains("may not send `other`") && text.trim().ends_with('5'),
        "{text}"
    );
    let view = fnd.wait_run("on");
    assert_eq!(fnd.result(fnd.history("on")[0].id).text(), "{\"n\": 1}");
    let view = fnd.invocation(view.id);
    assert!(matches!(view.cause, Some(Cause::Event(event)) if event.depth == 1));
}

/// A function that sends the event that runs it would never end.
fn a_chain_of_events_ends(fnd: &Fnd) {
    let manifest = "[[event]]\ntype = \"again\"\n[access]\nemit = [\"again\"]";
    put(fnd, "echoes.sh", manifest, &script("fndctl emit again 2>&1\n"));
    let _ = fnd.ctl(&["emit", "again"]).expect_code(0);
    let refused = wait_until("the chain to end", PATIENCE, || {
        fnd.history("echoes")
            .into_iter()
            .find(|view| view.state == RunState::Failed)
    });
    assert_eq!(fnd.history("echoes").len(), 9, "{refused:?}");
}

/// Functions of a person's own fnd share that person's user: there the socket alone says which function calls.
#[test]
fn functions_of_a_person_call_each_other() {
    require!(root);
    let mut setup = Setup::default().config("[sandbox]\n");
    setup.arguments.push("--best-effort-limits".to_owned());
    let mut fnd = Fnd::prepare(&setup);
    let user = fnd.users().0;
    let files = [
        (
            "a.sh",
            "[access]\ninvoke = [\"b\"]",
            "fndctl invoke b -d 1\nfndctl invoke c 2>&1 || echo $?\n",
        ),
        ("b.sh", "", "echo \"b as $(id -u)\"\n"),
        ("c.sh", "", "echo c\n"),
    ];
    for (file, manifest, code) in files {
        fnd.drop_file(file, &with_manifest(file, &with(manifest), &script(code)));
    }
    let mut places = vec![fnd.path("")];
    while let Some(place) = places.pop() {
        std::os::unix::fs::chown(&place, Some(user), Some(user)).unwrap();
        if place.is_dir() {
            places.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    let ids = [format!("--reuid={user}"), format!("--regid={user}")];
    let mut words = vec!["setpriv".to_owned(), "--clear-groups".to_owned()];
    words.extend(ids);
    fnd.start_behind(words);
    fnd.launch();
    fnd.wait_ready("a");
    let (answer, caller) = fnd.run("a", "");
    let text = answer.text();
    assert!(text.starts_with(&format!("b as {user}\n")), "{text}");
    assert!(
        text.contains("may not call `c`") && text.trim().ends_with('5'),
        "{text}"
    );
    assert_eq!(fnd.invocation(fnd.history("b")[0].id).parent, Some(caller.id));
    fnd.finish();
}
