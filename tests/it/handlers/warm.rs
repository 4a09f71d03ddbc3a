//! One worker answers call after call, and its output belongs to exactly the call during which it was printed.

use super::{ask, lines, reason};
use fnd_core::api::UsageScope;
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};

/// Each of these has functions of its own.
#[test]
fn calls_of_warm_workers() {
    let fnd = Fnd::start();
    the_second_call_is_warm_and_output_is_of_its_call(&fnd);
    an_exception_is_kept_with_its_stack_and_harms_nobody(&fnd);
    kinds_of_failures_drive_retries_and_polls(&fnd);
    fnd.finish();
}

fn the_second_call_is_warm_and_output_is_of_its_call(fnd: &Fnd) {
    let code = "import os, sys
def handler(event, context):
    print('out', event['data'])
    print('err', event['data'], file=sys.stderr)
    return {'pid': os.getpid(), 'invocation': context['invocation']}
";
    fnd.drop_file("hello.py", code);
    fnd.wait_ready("hello");
    let mut pids = Vec::new();
    let mut views = Vec::new();
    for n in 1..=3 {
        let (answer, view) = fnd.run("hello", &n.to_string());
        let body: serde_json::Value = answer.json();
        assert_eq!(body["invocation"], view.id.to_string());
        pids.push(body["pid"].clone());
        views.push(view);
    }
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    let cold: Vec<bool> = views.iter().map(|view| view.attempt_records[0].cold).collect();
    assert_eq!(cold, [true, false, false]);
    for (view, n) in views.iter().zip(1..) {
        let mut printed = lines(fnd, view.id);
        printed.sort();
        assert_eq!(printed, [format!("err {n}"), format!("out {n}")]);
        let attempt = &view.attempt_records[0];
        assert_eq!((attempt.stdout_bytes, attempt.stderr_bytes), (6, 6));
        assert_eq!(attempt.worker, views[0].attempt_records[0].worker);
        assert_eq!(attempt.scope, Some(UsageScope::Worker));
        assert_eq!((attempt.cpu_ms, attempt.memory_peak_bytes), (None, None));
    }
}

fn an_exception_is_kept_with_its_stack_and_harms_nobody(fnd: &Fnd) {
    let python = "import os\ndef handler(event, context):\n    deeper(event['data'])\n    return os.getpid()\ndef deeper(n):\n    1 / n\n";
    fnd.install("py.py", "", python);
    let node = "const deeper = (n) => { if (!n) throw new Error('division by zero'); };\nmodule.exports = (event) => { deeper(event.data); return process.pid; };\n";
    fnd.install("js.cjs", "", node);
    for (name, trace) in [("py", "ZeroDivisionError"), ("js", "at deeper")] {
        let before = ask(fnd, name, "1");
        let (answer, view) = fnd.run(name, "0");
        assert_eq!(answer.status, 500);
        assert_eq!(
            (view.state, reason(&view).as_str()),
            (RunState::Failed, "error"),
            "{name}"
        );
        assert_eq!(view.message, "division by zero", "{name}");
        let printed = lines(fnd, view.id).join("\n");
        assert!(
            printed.contains(trace) && printed.contains("deeper"),
            "{name}: {printed}"
        );
        assert_eq!(ask(fnd, name, "1"), before, "{name}");
    }
}

fn kinds_of_failures_drive_retries_and_polls(fnd: &Fnd) {
    let code = "import fnd
def handler(event, context):
    kind, attempt, previous = event['data'], context['attempt'], context['previous']
    if kind == 'failed': raise fnd.FailedException('no use')
    if kind == 'transient' and attempt < 3: raise fnd.TransientException('not yet')
    if kind == 'again':
        seen = (previous or {'seen': 0})['seen'] + 1
        if seen < 4: raise fnd.ExecuteAgainException('later', seen=seen)
        return seen
    return attempt
";
    let manifest = "[retry]\nretries = 5\ninterval = \"5ms\"\n[poll]\nrepeat = \"10ms\"\n";
    fnd.install("kinds.py", manifest, code);
    let (answer, view) = fnd.run("kinds", "\"failed\"");
    assert_eq!(answer.status, 500);
    assert_eq!((reason(&view).as_str(), view.attempts), ("failed", 1));
    assert_eq!((view.message.as_str(), view.exhausted), ("no use", None));

    let (answer, view) = fnd.run("kinds", "\"transient\"");
    assert_eq!(answer.text(), "3");
    let attempts: Vec<(u32, String)> = view
        .attempt_records
        .iter()
        .map(|attempt| (attempt.attempt, attempt.reason.to_string()))
        .collect();
    let expected = [(1, "transient"), (2, "transient"), (3, "ok")];
    assert_eq!(attempts, expected.map(|(n, word)| (n, word.to_owned())));

    let (answer, view) = fnd.run("kinds", "\"again\"");
    assert_eq!(answer.text(), "4");
    assert_eq!((view.attempts, view.polls), (4, 3));
}

#[test]
fn with_a_spin_calls_are_answered_and_fnd_sleeps_when_none_comes() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        eprintln!("skipped: a spin needs more than one CPU");
        return;
    }
    let fnd = Fnd::start_with(&Setup::default().config("[node]\nspin = \"1000us\"\n"));
    fnd.install(
        "echo.py",
        "",
        "def handler(event, context):\n    return event['data']\n",
    );
    for n in 1..=20 {
        assert_eq!(ask(&fnd, "echo", &n.to_string()), n);
    }
    wait_until("the main thread to sleep", PATIENCE, || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", fnd.pid())).ok()?;
        stat.contains(") S ").then_some(())
    });
    let more = fnd.path("conf.d");
    std::fs::create_dir_all(&more).unwrap();
    std::fs::write(more.join("spin.toml"), "[node]\nspin = \"1001us\"\n").unwrap();
    let _ = fnd.ctl(&["reload"]).expect_code(8);
    let _ = fnd.wait_problem("spin.toml:2:8");
    std::fs::write(more.join("spin.toml"), "[node]\nspin = \"0\"\n").unwrap();
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    assert_eq!(ask(&fnd, "echo", "7"), 7);
    fnd.finish();
}
