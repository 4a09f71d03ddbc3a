//! The status file of a function has exactly the keys of KEP 90, and is complete at any moment.

use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt as _;

/// Each of these has functions of its own.
#[test]
fn its_content_name_and_mode() {
    let fnd = Fnd::start_with(&Setup::default().config("[status]\nmode = \"0600\"\n"));
    its_name_and_mode(&fnd);
    pending_before_the_first_run_and_true_after_each(&fnd);
    it_is_never_torn(&fnd);
    fnd.finish();
}

fn pending_before_the_first_run_and_true_after_each(fnd: &Fnd) {
    fnd.drop_file(
        "hello.sh",
        "# /// fnd\n# on_load = false\n# ///\nread -r n\n: \"${n:=0}\"\necho '{\"n\": '\"$n\"'}'\nexit \"$n\"\n",
    );
    fnd.wait_ready("hello");
    let pending = wait_until("the status file", PATIENCE, || fnd.status_file("hello"));
    assert_eq!(pending["status"], "pending");
    assert_eq!(pending["function"], "hello");

    let (_, view) = fnd.run("hello", "0");
    let fine = wait_until("the first run in the status file", PATIENCE, || {
        fnd.status_file("hello")
            .filter(|status| status["invocation"] == view.id.to_string())
    });
    assert_eq!(
        (fine["status"].as_str(), fine["reason"].as_str()),
        (Some("succeeded"), Some("ok"))
    );
    assert_eq!(fine["result"], serde_json::json!({"n": 0}));
    for key in [
        "message",
        "timestamp",
        "version",
        "state",
        "trigger",
        "attempt",
        "poll",
        "exit_code",
        "started_at",
        "duration_ms",
        "cpu_ms",
        "memory_peak_bytes",
        "next_attempt_at",
        "next_run_at",
        "runs",
        "failures",
        "error",
    ] {
        assert!(fine.get(key).is_some(), "no `{key}` in {fine}");
    }
    assert_eq!(
        (
            fine["attempt"].as_u64(),
            fine["exit_code"].as_u64(),
            fine["runs"].as_u64()
        ),
        (Some(1), Some(0), Some(1))
    );

    let (_, view) = fnd.run("hello", "3");
    let failed = wait_until("the second run in the status file", PATIENCE, || {
        fnd.status_file("hello")
            .filter(|status| status["invocation"] == view.id.to_string())
    });
    assert_eq!(
        (failed["status"].as_str(), failed["reason"].as_str()),
        (Some("failed"), Some("exit-3"))
    );
    assert_eq!(
        (failed["runs"].as_u64(), failed["failures"].as_u64()),
        (Some(2), Some(1))
    );
}

fn its_name_and_mode(fnd: &Fnd) {
    fnd.drop_file("ops/grouped.sh", "# /// fnd\n# on_load = false\n# ///\n:\n");
    fnd.wait_ready("ops/grouped");
    wait_until("the status file", PATIENCE, || fnd.status_file("ops/grouped"));
    let path = fnd.path("run/status/ops.grouped.json");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    fnd.remove("ops/grouped.sh");
    wait_until("the status file to go with the function", PATIENCE, || {
        (!path.exists()).then_some(())
    });
}

#[test]
fn that_of_a_function_deleted_meanwhile_goes_at_the_start() {
    let mut fnd = Fnd::start();
    for name in ["stays", "goes"] {
        fnd.drop_file(&format!("{name}.sh"), "# /// fnd\n# on_load = false\n# ///\n:\n");
        fnd.wait_ready(name);
    }
    fnd.stop();
    assert!(fnd.status_file("goes").is_some(), "it outlives fnd");
    fnd.remove("goes.sh");
    fnd.launch();
    fnd.wait_ready("stays");
    assert!(fnd.status_file("goes").is_none() && fnd.status_file("stays").is_some());
    fnd.finish();
}

/// Several ends within 50 ms, then fnd ends: the last end is in the file.
#[test]
fn what_waits_to_be_written_is_written_at_the_end() {
    let mut fnd = Fnd::start();
    let gate = fnd.path("gate");
    let script = format!("until [[ -e {} ]]; do sleep 0.02; done\n", gate.display());
    fnd.drop_file("gated.toml", "on_load = false\n[pool]\nmax = 6\n");
    fnd.drop_file("gated.sh", &script);
    fnd.wait_ready("gated");
    for _ in 0..6 {
        let _ = fnd.queue("gated", "");
    }
    let _ = fnd.wait_function("gated", "to run six times", |function| function.running == 6);
    fnd.signal(Signal::SIGTERM);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(fnd.wait_stopped(), Some(0));
    assert_eq!(fnd.status_file("gated").unwrap()["runs"], 6);
}

/// A reader finds a complete file at any moment, since the file is replaced, not rewritten.
fn it_is_never_torn(fnd: &Fnd) {
    fnd.drop_file(
        "busy.sh",
        "# /// fnd\n# on_load = false\n# ///\nhead -c 20000 /dev/zero | tr '\\0' z\n",
    );
    fnd.wait_ready("busy");
    wait_until("the status file", PATIENCE, || fnd.status_file("busy"));
    let ids: Vec<_> = (0..20).map(|_| fnd.queue("busy", "")).collect();
    let mut ended = 0;
    while ended < ids.len() {
        for _ in 0..50 {
            // Panics if the file is torn.
            assert!(fnd.status_file("busy").is_some());
        }
        ended = fnd.history("busy").iter().filter(|view| view.state.is_final()).count();
    }
}

/// This includes answers of handlers, which come before the end is recorded, and ends that are no success.
#[test]
fn with_status_sync_it_says_how_the_invocation_has_ended_before_the_answer_comes() {
    let warm = "# /// fnd\n# ///\ndef handler(event, context):\n    return 10 / event['data']\n";
    let script = "# /// fnd\n# on_load = false\n# ///\nread -r n\nexit \"$n\"\n";
    let slow = "# /// fnd\n# on_load = false\n# [limits]\n# timeout = \"200ms\"\n# grace = \"100ms\"\n# ///\ntrap '' TERM\nsleep 60\n";
    let setup = Setup::default()
        .file("warm.py", warm)
        .file("script.sh", script)
        .file("slow.sh", slow);
    let fnd = Fnd::start_with(&setup);
    let run = |function: &str, body: &str, code: u16| {
        let answer = fnd
            .client()
            .post(&format!("/v1/functions/{function}/invoke?status=sync"), body);
        assert_eq!(answer.status, code, "{function} {body} {}", answer.text());
        let status = fnd.status_file(function).expect("its file");
        let id = match answer.header("fnd-invocation") {
            Some(id) => id.to_owned(),
            None => answer.problem().invocation.expect("an invocation").to_string(),
        };
        assert_eq!(status["invocation"], id, "{function} {body}: {status}");
        status["reason"].as_str().unwrap_or_default().to_owned()
    };
    for function in ["warm", "script", "slow"] {
        fnd.wait_ready(function);
    }
    for n in 1..=50 {
        assert_eq!(run("warm", &n.to_string(), 200), "ok");
    }
    assert_eq!(run("warm", "0", 500), "error");
    for _ in 0..5 {
        assert_eq!(
            (run("script", "0", 200), run("script", "3", 500)),
            ("ok".into(), "exit-3".into())
        );
    }
    assert_eq!(run("slow", "", 408), "timeout");

    let before = fnd.history("warm").len();
    let refused = fnd.client().post("/v1/functions/warm/invoke?status=soon", "1");
    assert_eq!(refused.status, 400);
    assert!(
        refused.problem().detail.contains("expected `sync`, found `soon`"),
        "{}",
        refused.text()
    );
    assert_eq!(fnd.history("warm").len(), before, "it did not run");

    let run = fnd.ctl(&["invoke", "warm", "--status-sync", "-d", "5"]);
    assert_eq!((run.code, run.out().trim()), (0, "2.0"), "{run:?}");
    let status = fnd.status_file("warm").unwrap();
    assert_eq!(status["result"], 2.0, "{status}");
    let refused = fnd.ctl(&["invoke", "warm", "--status-sync", "--async"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    fnd.finish();
}
