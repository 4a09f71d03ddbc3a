//! The life of a worker: starts that fail, calls that end badly, many calls at once, restarts of fnd, extensions.

use super::{ask, bash, executable, install, reason, stage, start};
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// Does what the event, a text, names.
const MISCHIEF: &str = "  case $event in
    '\"exit\"') exit 0 ;;
    '\"hang\"') sleep 1000 ;;
    '\"fail\"')
      curl -sS \"$api/invocation/$id/error\" -H 'Lambda-Runtime-Function-Error-Type: Odd' -d '{\"errorMessage\": \"no\", \"errorType\": \"Odd\"}' >/dev/null
      continue ;;
  esac
  answer='{\"worker\": '${worker:=$RANDOM$RANDOM}', \"api\": \"'$AWS_LAMBDA_RUNTIME_API'\"}'";

/// Each of these has functions of its own.
#[test]
fn calls_that_end_badly() {
    let (fnd, _) = start();
    a_failure_a_timeout_and_an_end_fail_only_their_call(&fnd);
    a_bootstrap_that_cannot_begin_is_a_load_failure(&fnd);
    fnd.finish();
}

fn a_failure_a_timeout_and_an_end_fail_only_their_call(fnd: &Fnd) {
    install(
        fnd,
        "odd",
        "[limits]\ntimeout = \"2s\"\ngrace = \"1s\"\n[pool]\nmax = 1\n",
        &bash(MISCHIEF),
    );
    let first = ask(fnd, "odd", "")["worker"].clone();
    let (_, view) = fnd.run("odd", "\"fail\"");
    assert_eq!((view.state, view.message.as_str()), (RunState::Failed, "Odd: no"));
    assert_eq!(
        ask(fnd, "odd", "")["worker"],
        first,
        "a failure that is told leaves the worker"
    );
    let (answer, view) = fnd.run("odd", "\"exit\"");
    assert!(answer.status.is_server_error(), "{}", answer.status);
    assert_eq!(reason(&view), "exit-0");
    assert!(view.message.contains("ended before it answered"), "{}", view.message);
    let second = ask(fnd, "odd", "")["worker"].clone();
    assert_ne!(second, first);
    let (answer, view) = fnd.run("odd", "\"hang\"");
    assert_eq!(answer.status, 408, "{}", answer.text());
    assert_eq!(reason(&view), "timeout");
    assert_ne!(ask(fnd, "odd", "")["worker"], second);
}

fn a_bootstrap_that_cannot_begin_is_a_load_failure(fnd: &Fnd) {
    let error = "{\"errorMessage\": \"no configuration\", \"errorType\": \"Config\"}";
    let told = format!(
        "#!/bin/bash\ncurl -sS http://$AWS_LAMBDA_RUNTIME_API/2018-06-01/runtime/init/error -d '{error}' >/dev/null\nexit 1\n"
    );
    for (name, bootstrap, words) in [
        ("unready", told.as_bytes(), "Config: no configuration"),
        ("brief", b"#!/bin/sh\nexit 3\n".as_slice(), "bootstrap"),
    ] {
        install(fnd, name, "", bootstrap);
        let (answer, view) = fnd.run(name, "");
        assert!(answer.status.is_server_error(), "{name}: {}", answer.status);
        assert_eq!(reason(&view), "load", "{name}: {}", view.message);
        assert!(view.message.contains(words), "{name}: {}", view.message);
    }
}

/// Where other programs for the same interface hang: a worker has one call at a time, and the others wait.
#[test]
fn fifteen_calls_at_once_are_all_answered() {
    let (fnd, _) = start();
    install(&fnd, "many", "[pool]\nmax = 3\n", &bash("  answer=$event"));
    let callee = &fnd;
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..15)
            .map(|number| scope.spawn(move || (number, callee.invoke("many", &number.to_string()))))
            .collect();
        for call in calls {
            let (number, answer) = call.join().unwrap();
            assert_eq!((answer.status.as_u16(), answer.text()), (200, number.to_string()));
        }
    });
    fnd.finish();
}

/// A planned restart hands a worker over with its call, whose answer the next fnd gets.
#[test]
fn a_worker_and_its_call_go_on_over_a_restart() {
    require!(root, cgroup);
    let mut fnd = Fnd::prepare(&Setup::default().detached());
    let gate = fnd.shared_directory("gate").join("go");
    fnd.launch();
    let manifest = format!("[env]\nGATE = \"{}\"\n[pool]\nmax = 1\n", gate.display());
    let body = "  echo before\n  until [[ $event != '\"wait\"' || -e $GATE ]]; do sleep 0.05; done\n  echo after\n\
        \x20 answer=${worker:=1$RANDOM$RANDOM}";
    install(&fnd, "kept", &manifest, &bash(body));
    let worker = ask(&fnd, "kept", "");
    let id = fnd.queue("kept", "\"wait\"");
    let printed = || fnd.logs(id).into_iter().map(|line| line.text).collect::<Vec<_>>();
    wait_until("its first words", PATIENCE, || (printed() == ["before"]).then_some(()));
    fnd.replace(Signal::SIGTERM);
    assert_eq!(fnd.invocation(id).state, RunState::Running, "{}", fnd.log());
    fs::write(&gate, "").unwrap();
    let view = fnd.wait_end(id);
    assert_eq!((view.state, view.attempts), (RunState::Succeeded, 1), "{}", fnd.log());
    assert_eq!(fnd.result(id).json::<serde_json::Value>(), worker);
    let texts: Vec<_> = fnd.logs(id).into_iter().map(|line| line.text).collect();
    assert_eq!(texts, ["before", "after"]);
    assert_eq!(ask(&fnd, "kept", ""), worker, "the same worker serves on");
    fnd.finish();
}

/// An extension that registers, makes the file `$NOTE`, and is killed once there is a file `$NOTE.end`.
const EXTENSION: &str = "#!/bin/bash
api=http://$AWS_LAMBDA_RUNTIME_API/2020-01-01/extension
id=$(curl -sS -D - -o /dev/null \"$api/register\" -H 'Lambda-Extension-Name: watch' -d '{\"events\": [\"INVOKE\", \"SHUTDOWN\"]}' |
  grep -Fi Lambda-Extension-Identifier | tr -d '[:space:]' | cut -d: -f2)
while curl -sS \"$api/event/next\" -H \"Lambda-Extension-Identifier: $id\" >/dev/null; do :; done &
touch \"$NOTE\"
until [[ -e $NOTE.end ]]; do sleep 0.05; done
rm \"$NOTE.end\"
kill -KILL $$
";

#[test]
fn an_extension_registers_and_takes_its_worker_with_it() {
    let (fnd, _) = start();
    let note = fnd.shared_directory("notes").join("registered");
    let extensions = stage(&fnd, "watched").join("extensions");
    fs::create_dir(&extensions).unwrap();
    executable(&extensions.join("watch"), EXTENSION.as_bytes());
    let manifest = format!("[env]\nNOTE = \"{}\"\n[pool]\nmax = 1\n", note.display());
    install(&fnd, "watched", &manifest, &bash("  answer=${worker:=$RANDOM$RANDOM}"));
    let first = ask(&fnd, "watched", "");
    wait_until("the extension to register", PATIENCE, || note.exists().then_some(()));
    fs::write(note.with_extension("end"), "").unwrap();
    wait_until("another worker", PATIENCE, || {
        let answer = fnd.invoke("watched", "");
        // A call that comes while the worker goes may fail with it.
        let told: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
        (answer.status == 200 && told != first).then_some(())
    });
    fnd.finish();
}

/// The port is open to all programs of the machine, and answers only those of the function's own user.
#[test]
fn another_user_is_refused_at_the_port() {
    require!(root);
    let (fnd, _) = start();
    install(&fnd, "open", "[sandbox]\nnetwork = \"host\"\n", &bash(MISCHIEF));
    let told = ask(&fnd, "open", "");
    let mut stream = TcpStream::connect(told["api"].as_str().unwrap()).unwrap();
    stream
        .write_all(b"GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(ask(&fnd, "open", "\"again\"")["api"], told["api"]);
    fnd.finish();
}

/// Several requests for `next` at once are several calls at once.
#[test]
fn a_worker_has_as_many_calls_as_its_client_takes() {
    let (fnd, _) = start();
    // Each part of the loop ends with its own request, and no part waits for another one.
    let part = String::from_utf8(bash("  answer='{\"pid\": '$PPID'}'")).unwrap();
    let bootstrap = format!(
        "#!/bin/bash\npart() {{\n{part}\n}}\nfor one in $(seq \"$AWS_LAMBDA_MAX_CONCURRENCY\"); do part & done\nwait\n"
    );
    install(&fnd, "wide", "[pool]\nmax = 1\nconcurrency = 3\n", bootstrap.as_bytes());
    let callee = &fnd;
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..9).map(|_| scope.spawn(move || ask(callee, "wide", "{}"))).collect();
        let answers: Vec<_> = calls.into_iter().map(|call| call.join().unwrap()).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        assert_ne!(answers[0], json!({}));
    });
    fnd.finish();
}
