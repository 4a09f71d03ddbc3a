//! Services are kept running, restarted with a delay, and ended with their function; they survive a restart of fnd.

use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;

/// Returns a service that writes its process id to a file, and then runs some commands.
fn code(marks: &Path, manifest: &str, then: &str) -> String {
    let manifest: String = manifest.lines().map(|line| format!("# {line}\n")).collect();
    let marks = marks.display();
    format!("#!/usr/bin/env bash\n# /// fnd\n{manifest}# ///\necho up; touch {marks}/$$\n{then}\n")
}

fn pids(marks: &Path) -> Vec<i32> {
    let names = std::fs::read_dir(marks)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

fn alive(marks: &Path) -> Vec<i32> {
    let is_alive = |pid: &i32| kill(Pid::from_raw(*pid), None).is_ok();
    pids(marks).into_iter().filter(is_alive).collect()
}

#[track_caller]
fn wait_alive(marks: &Path, count: usize) -> Vec<i32> {
    wait_until(&format!("{count} processes of it"), PATIENCE, || {
        Some(alive(marks)).filter(|pids| pids.len() == count)
    })
}

const STAYS: &str = "exec sleep 1000";

/// Each of these has functions of its own.
#[test]
fn services_of_one_fnd() {
    let fnd = Fnd::start();
    it_is_kept_running_until_its_file_is_gone(&fnd);
    one_that_dies_at_once_is_crash_looping_and_a_better_version_is_not(&fnd);
    it_is_asked_to_end_by_its_own_signal(&fnd);
    status_says_where_one_listens(&fnd);
    a_stop_is_no_failure_and_lasts_until_a_start(&fnd);
    fnd.finish();
}

fn a_stop_is_no_failure_and_lasts_until_a_start(fnd: &Fnd) {
    require!(cgroup);
    let marks = fnd.shared_directory("planned");
    fnd.drop_file("planned.sh", &code(&marks, "[service]", STAYS));
    let first = wait_alive(&marks, 1);
    let restarted = fnd.ctl(&["restart", "planned"]).expect_code(0);
    assert_eq!(restarted.out(), "planned: restarting\n");
    let second = wait_until("another process", PATIENCE, || {
        Some(alive(&marks)).filter(|pids| pids.len() == 1 && *pids != first)
    });
    let stopped = fnd.ctl(&["stop", "planned"]).expect_code(0);
    assert!(stopped.out().contains("`fndctl start planned` does"), "{stopped}");
    wait_alive(&marks, 0);
    let shown = fnd.ctl(&["status", "planned"]).expect_code(0);
    let out = shown.out();
    assert!(
        out.contains(" stopped ") && out.contains("planned: stopped by "),
        "{shown}"
    );
    let failed = fnd.ctl(&["status", "--failed", "-o", "name"]).expect_code(0);
    assert!(!failed.out().contains("planned"), "{failed}");
    // An edit and a reload do not start it.
    fnd.drop_file("planned.sh", &code(&marks, "[service]\nreplicas = 1", STAYS));
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    let status = fnd.function("planned").unwrap();
    assert_eq!((status.state.as_str(), status.failures), ("disabled", 0));
    assert!(status.stopped.is_some() && alive(&marks).is_empty());
    let refused = fnd.ctl(&["restart", "planned"]).expect_code(2);
    assert!(refused.stderr.contains("fndctl start"), "{refused}");
    let _ = fnd.ctl(&["start", "planned"]).expect_code(0);
    assert_ne!(wait_alive(&marks, 1), second);
    assert_eq!(fnd.function("planned").unwrap().stopped, None);
    fnd.remove("planned.sh");
    fnd.wait_gone("planned");
}

fn it_is_kept_running_until_its_file_is_gone(fnd: &Fnd) {
    require!(cgroup);
    let marks = fnd.shared_directory("marks");
    fnd.drop_file(
        "keeper.sh",
        &code(&marks, "[service]\nreplicas = 2\n[retry]\ninterval = \"10ms\"", STAYS),
    );
    let before = wait_alive(&marks, 2);
    let function = fnd.wait_function("keeper", "to run", |function| function.running == 2);
    assert_eq!(function.state.as_str(), "running");
    let detail: serde_json::Value = fnd.client().get("/v1/functions/keeper").json();
    assert_eq!(
        (&detail["mode"], &detail["mode_reason"]),
        (&"service".into(), &"the manifest has `[service]`".into())
    );
    let answer = fnd.invoke("keeper", "1");
    assert_eq!(answer.status.as_u16(), 400);
    assert!(
        answer
            .text()
            .contains("`keeper` is a service: it runs by itself and cannot be invoked"),
        "{}",
        answer.text()
    );
    // A process that dies is replaced, and the history says how it ended.
    kill(Pid::from_raw(before[0]), Signal::SIGKILL).unwrap();
    let after = wait_until("another process", PATIENCE, || {
        Some(alive(&marks)).filter(|pids| pids.len() == 2 && !pids.contains(&before[0]))
    });
    assert!(after.contains(&before[1]));
    let ended = fnd
        .history("keeper")
        .into_iter()
        .find(|view| view.state == RunState::Failed)
        .unwrap();
    assert_eq!(ended.reason.unwrap().to_string(), "signal-KILL");
    assert_eq!((ended.trigger.as_str(), ended.attempts), ("load", 1));
    assert!(fnd.logs(ended.id).iter().any(|line| line.text == "up"));
    // A new version takes the place of the old one.
    fnd.drop_file("keeper.sh", &code(&marks, "[service]", STAYS));
    let newer = wait_until("the new version alone", PATIENCE, || {
        Some(alive(&marks)).filter(|pids| pids.len() == 1 && !after.contains(&pids[0]))
    });
    assert_eq!(fnd.ctl(&["disable", "keeper"]).code, 0);
    wait_alive(&marks, 0);
    assert_eq!(fnd.function("keeper").unwrap().state.as_str(), "disabled");
    assert_eq!(fnd.ctl(&["enable", "keeper"]).code, 0);
    assert_ne!(wait_alive(&marks, 1), newer);
    fnd.remove("keeper.sh");
    wait_alive(&marks, 0);
    fnd.wait_gone("keeper");
}

fn one_that_dies_at_once_is_crash_looping_and_a_better_version_is_not(fnd: &Fnd) {
    let marks = fnd.shared_directory("brief");
    let manifest = "[service]\n[retry]\ninterval = \"20ms\"\nbackoff = \"fixed\"";
    fnd.drop_file("brief.sh", &code(&marks, manifest, "echo 'no database' >&2; exit 4"));
    let function = fnd.wait_function("brief", "to be crash-looping", |function| {
        function.state.as_str() == "crash-looping"
    });
    assert!(
        function.failures >= 5 && function.message == "no database",
        "{function:?}"
    );
    wait_until("the status file to say so", PATIENCE, || {
        let file = fnd.status_file("brief")?;
        (file["state"] == "crash-looping" && file["reason"] == "exit-4").then_some(())
    });
    let delays: Vec<_> = fnd.history("brief").into_iter().map(|view| view.attempts).collect();
    assert!(
        delays.iter().all(|attempts| *attempts <= 1),
        "each run is one of its own: {delays:?}"
    );
    fnd.drop_file("brief.sh", &code(&marks, manifest, STAYS));
    let _ = fnd.wait_function("brief", "to run", |function| function.state.as_str() == "running");
}

#[test]
fn one_that_must_be_ready_is_asked_on_its_port() {
    let fnd = Fnd::start();
    let marks = fnd.shared_directory("marks");
    let server = |status: u16| {
        format!(
            "exec /usr/bin/python3 -c '
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response({status}); self.end_headers()
http.server.HTTPServer((\"127.0.0.1\", int(os.environ[\"PORT\"])), Handler).serve_forever()'"
        )
    };
    let manifest = "[service]\nready = \"path:/up\"\nstart_timeout = \"15s\"\n[limits]\ngrace = \"100ms\"";
    fnd.drop_file("unwell.sh", &code(&marks, manifest, &server(500)));
    let function = fnd.wait_function("unwell", "to have failed", |function| function.failures > 0);
    assert_eq!(function.reason.unwrap().to_string(), "load");
    assert_eq!(
        function.message,
        "it was not ready within 15s: `/up` answered 500 Internal Server Error"
    );
    fnd.drop_file("well.sh", &code(&marks, manifest, &server(200)));
    let _ = fnd.wait_function("well", "to run", |function| function.running == 1);
    // Waits as long as the first one had to become ready, which failed.
    let _ = fnd.wait_function("unwell", "to have failed again", |function| function.failures > 1);
    assert_eq!(fnd.function("well").unwrap().failures, 0);
    fnd.finish();
}

fn it_is_asked_to_end_by_its_own_signal(fnd: &Fnd) {
    let marks = fnd.shared_directory("signals");
    let mark = |name: &str| marks.join(name).display().to_string();
    let traps = format!(
        "trap 'touch {}; exit 3' INT\ntrap 'touch {}; exit 0' TERM\ntouch {}\nwhile :; do sleep 0.05; done",
        mark("INT"),
        mark("TERM"),
        mark("ready")
    );
    let manifest = "[service]\nstop_signal = \"SIGINT\"\n[limits]\ngrace = \"1m\"";
    fnd.drop_file("own-signal.sh", &code(&marks, manifest, &traps));
    wait_until("its traps", PATIENCE, || marks.join("ready").exists().then_some(()));
    let _ = fnd.ctl(&["disable", "own-signal"]).expect_code(0);
    wait_until("a signal", PATIENCE, || {
        ["INT", "TERM"]
            .iter()
            .any(|name| marks.join(name).exists())
            .then_some(())
    });
    assert!(!marks.join("TERM").exists());
    // The end was planned, although the program calls it a failure.
    let ended = wait_until("its end in the history", PATIENCE, || {
        fnd.history("own-signal").into_iter().find(|view| view.state.is_final())
    });
    assert_eq!(ended.state, RunState::Cancelled);
    fnd.remove("own-signal.sh");
    fnd.wait_gone("own-signal");
}

fn status_says_where_one_listens(fnd: &Fnd) {
    require!(root);
    fnd.drop_file(
        "listens.py",
        "# /// fnd\n# [service]\n# ///\nimport socket, time\nlistener = socket.create_server(('127.0.0.1', 0))\n\
         print('port', listener.getsockname()[1], flush=True)\ntime.sleep(1000)\n",
    );
    let function = fnd.wait_function("listens", "to listen", |function| !function.ports.is_empty());
    let [port] = function.ports[..] else {
        panic!("{:?}", function.ports)
    };
    let said = fnd.ctl(&["logs", "listens", "-o", "raw"]).expect_code(0).out();
    assert_eq!(said.trim(), format!("port {port}"));
    let table = fnd.ctl(&["status", "listens"]).expect_code(0).out();
    assert!(
        table.contains("up ") && table.contains(&format!(", :{port}")),
        "{table}"
    );
}

#[test]
fn it_goes_on_over_a_restart_and_a_crash_of_fnd() {
    require!(root, cgroup);
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    let marks = fnd.shared_directory("marks");
    fnd.drop_file(
        "keeper.sh",
        &code(&marks, "[service]\n[retry]\ninterval = \"10ms\"", STAYS),
    );
    let before = wait_alive(&marks, 1);
    let _ = fnd.wait_function("keeper", "to run", |function| function.running == 1);
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        fnd.replace(signal);
        let _ = fnd.wait_function("keeper", "to run", |function| function.running == 1);
        assert_eq!((alive(&marks), pids(&marks).len()), (before.clone(), 1), "{signal}");
    }
    // The next fnd keeps it running, as the previous one did.
    kill(Pid::from_raw(before[0]), Signal::SIGKILL).unwrap();
    wait_until("another process", PATIENCE, || {
        (alive(&marks).len() == 1 && alive(&marks) != before).then_some(())
    });
    fnd.finish();
}

#[test]
fn a_drain_ends_it() {
    require!(cgroup);
    let mut fnd = Fnd::start();
    let marks = fnd.shared_directory("marks");
    fnd.drop_file("keeper.sh", &code(&marks, "[service]", STAYS));
    wait_alive(&marks, 1);
    fnd.signal(Signal::SIGTERM);
    assert_eq!(fnd.wait_stopped(), Some(0), "{}", fnd.log());
    wait_alive(&marks, 0);
    fnd.launch();
    wait_alive(&marks, 1);
    fnd.finish();
}
