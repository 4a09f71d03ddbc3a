//! Each limit is enforced, and the reason names it.

use fnd_core::records::outcome::RunState;
use fnd_tests::{Fnd, Setup, require};

#[test]
fn one_that_allocates_past_its_limit_is_reported_as_oom() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    let code = "import sys\nprint('allocating', file=sys.stderr)\ndata = bytearray(400 << 20)\nfor n in range(0, len(data), 4096):\n    data[n] = 1\n";
    fnd.install_beside("greedy.py", "[limits]\nmemory = \"64M\"", code);
    let (answer, view) = fnd.run("greedy", "");
    assert_eq!(answer.status, 500);
    assert_eq!(view.reason.unwrap().to_string(), "oom");
    assert!(view.message.starts_with("at the limit of 64 MiB, "), "{}", view.message);
    let shown = fnd.ctl(&["status"]).expect_code(0).out();
    assert!(shown.contains("greedy: oom: at the limit of 64 MiB, "), "{shown}");
    fnd.wait_log("(oom: at the limit of 64 MiB, ");
    let status = fnd.wait_status_file("greedy", "failed");
    assert_eq!(status["reason"], "oom");
    fnd.finish();
}

/// Each of these has a function of its own.
#[test]
fn limits_of_one_function() {
    let fnd = Fnd::start();
    the_oom_of_a_child_is_not_hidden(&fnd);
    the_pids_limit_is_named_when_it_made_the_attempt_fail(&fnd);
    open_files_and_file_size(&fnd);
    memory_and_cpu_of_an_attempt_are_recorded(&fnd);
    sizes_are_presets(&fnd);
    fnd.finish();
}

/// The exit code alone would hide the kill: a child is killed at the limit, and its parent exits with 0.
fn the_oom_of_a_child_is_not_hidden(fnd: &Fnd) {
    require!(root, cgroup);
    let code = "python3 -c 'data = b\"x\" * (400 << 20)' &\nwait\nexit 0\n";
    fnd.install_beside("parent.sh", "[limits]\nmemory = \"64M\"", code);
    let (_, view) = fnd.run("parent", "");
    assert_eq!(view.reason.unwrap().to_string(), "oom", "{}", view.message);
}

fn the_pids_limit_is_named_when_it_made_the_attempt_fail(fnd: &Fnd) {
    require!(root, cgroup);
    let code = "import os, sys\nfor n in range(50):\n    try:\n        if os.fork() == 0:\n            os.execvp('sleep', ['sleep', '1000'])\n    except OSError:\n        sys.exit(3)\n";
    fnd.install_beside("forker.py", "[limits]\npids = 10", code);
    let (_, view) = fnd.run("forker", "");
    assert_eq!(view.reason.unwrap().to_string(), "pids", "{}", view.message);
    assert!(view.message.contains("10"), "{}", view.message);
}

#[test]
fn the_cpu_quota_throttles() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    let code = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end:\n    pass\n";
    fnd.install_beside("spinner.py", "[limits]\ncpu = \"200m\"", code);
    let (_, view) = fnd.run("spinner", "");
    let attempt = &view.attempt_records[0];
    assert!(attempt.cpu_ms >= Some(250.0), "{attempt:?}");
    // With a fifth of a core, 0.3 s of CPU take more than a second, most of which the attempt is throttled.
    assert!(attempt.throttled_ms > Some(100.0), "{attempt:?}");
    assert!(
        Some(attempt.duration_ms) > attempt.cpu_ms.map(|cpu| 2.0 * cpu),
        "{attempt:?}"
    );
    fnd.finish();
}

fn open_files_and_file_size(fnd: &Fnd) {
    fnd.install_beside(
        "files.sh",
        "[limits]\nopen_files = 99\nfile_size = \"4K\"",
        "ulimit -n\nulimit -f\n",
    );
    assert_eq!(fnd.invoke("files", "").text(), "99\n4\n");
}

fn memory_and_cpu_of_an_attempt_are_recorded(fnd: &Fnd) {
    require!(root, cgroup);
    fnd.install_beside(
        "measured.py",
        "[limits]\nmemory = \"200M\"",
        "data = bytearray(50 << 20)\nfor n in range(0, len(data), 4096):\n    data[n] = 1\n",
    );
    let (_, view) = fnd.run("measured", "");
    let peak = view.attempt_records[0].memory_peak_bytes.unwrap();
    assert!((50 << 20..200 << 20).contains(&peak), "{peak}");
}

/// A size is a preset; limits of the manifest win over it.
fn sizes_are_presets(fnd: &Fnd) {
    fnd.drop_file(
        "sized.sh",
        "# /// fnd\n# on_load = false\n# size = \"M\"\n# [limits]\n# memory = \"300M\"\n# ///\n:\n",
    );
    fnd.wait_ready("sized");
    let shown = fnd.ctl(&["show", "sized", "-o", "json"]).expect_code(0).json();
    let limits = &shown["manifest"]["limits"];
    assert!(
        limits["memory"].to_string().contains("300") || limits["memory"] == 300 << 20,
        "{limits}"
    );
    assert!(limits.to_string().contains("400"), "{limits}");
}

/// One core for all: the second function waits until the first has ended.
#[test]
fn the_cpu_of_the_node_is_shared_by_quotas() {
    let fnd = Fnd::start_with(&Setup::default().config("[node]\ncpu = \"1\"\n"));
    let gate = fnd.path("gate");
    let code = format!("until [[ -e {} ]]; do sleep 0.02; done\n", gate.display());
    for name in ["one", "two"] {
        fnd.install_beside(&format!("{name}.sh"), "[limits]\ncpu = \"600m\"", &code);
    }
    let first = fnd.queue("one", "");
    let _ = fnd.wait_function("one", "to run", |function| function.running == 1);
    let second = fnd.queue("two", "");
    assert_eq!(fnd.invocation(second).state, RunState::Queued);
    std::fs::write(&gate, "").unwrap();
    for id in [first, second] {
        assert_eq!(fnd.wait_end(id).state, RunState::Succeeded);
    }
    fnd.drop_file(
        "wide.sh",
        "# /// fnd\n# on_load = false\n# [limits]\n# cpu = \"1200m\"\n# ///\n:\n",
    );
    let _ = fnd.wait_function("wide", "to be installed", |function| function.version.is_some());
    let refused = fnd.invoke("wide", "");
    assert_eq!(refused.status, 503);
    assert!(refused.problem().detail.contains("[node] cpu"), "{}", refused.text());
    fnd.finish();
}
