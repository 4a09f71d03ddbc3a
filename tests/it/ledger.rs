//! The history is right after a restart, after a crash, and with two daemons at once.

use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, wait_until};

const QUICK: &str = "# /// fnd\n# on_load = false\n# ///\necho '{\"kept\": true}'\necho words >&2\n";
const SLOW: &str = "# /// fnd\n# on_load = false\n# [pool]\n# max = 1\n# ///\nsleep 1000\n";

/// Each of these has functions of its own.
#[test]
fn history_and_work_over_stops_and_crashes() {
    let mut fnd = Fnd::start();
    a_second_daemon_on_the_same_state_is_refused(&fnd);
    a_restart_shows_the_same_history_and_runs_nothing_again(&mut fnd);
    a_stop_right_after_a_run_is_clean(&mut fnd);
    temporary_files_do_not_outlive_a_crash(&mut fnd);
    what_was_queued_at_a_crash_goes_on(&mut fnd);
    an_interrupted_attempt_is_retried_where_the_policy_says_so(&mut fnd);
    a_retry_that_waits_survives_a_restart(&mut fnd);
    fnd.finish();
}

fn a_restart_shows_the_same_history_and_runs_nothing_again(fnd: &mut Fnd) {
    fnd.drop_file("quick.sh", QUICK);
    fnd.drop_file("loaded.sh", "echo loaded\n");
    fnd.wait_ready("quick");
    let ids: Vec<_> = (0..5).map(|_| fnd.wait_end(fnd.queue("quick", "")).id).collect();
    fnd.wait_run("loaded");
    let before = serde_json::to_value(fnd.history("quick")).unwrap();
    fnd.stop();
    fnd.launch();
    fnd.wait_ready("quick");
    fnd.wait_ready("loaded");
    assert_eq!(serde_json::to_value(fnd.history("quick")).unwrap(), before);
    assert_eq!(fnd.result(ids[0]).json::<serde_json::Value>()["kept"], true);
    assert!(fnd.logs(ids[0]).iter().any(|line| line.text == "words"));
    let function = fnd.function("quick").unwrap();
    assert_eq!((function.runs, function.failures), (5, 0));
    assert_eq!(fnd.history("loaded").len(), 1);
}

/// After SIGKILL, as after a crash, running attempts are `interrupted` and are not run again.
#[test]
fn what_ran_at_a_crash_is_interrupted() {
    let mut fnd = Fnd::start();
    fnd.drop_file("slow.sh", SLOW);
    fnd.wait_ready("slow");
    let id = fnd.queue("slow", "");
    let _ = fnd.wait_invocation(id, "to run", |view| view.state == RunState::Running);
    fnd.crash();
    fnd.launch();
    let view = fnd.wait_end(id);
    assert_eq!(view.state, RunState::Interrupted);
    assert_eq!(view.reason.unwrap().to_string(), "interrupted");
    assert_eq!(view.attempts, 1);
    fnd.stop_now();
}

/// Counts the invocations that have files in a function's directory; an empty one is kept for the next.
fn invocations(directory: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    entries.filter(|entry| entry.file_name() != "spare").count()
}

/// Files in `TMPDIR` are removed with their invocation, also if a crash ended it.
fn temporary_files_do_not_outlive_a_crash(fnd: &mut Fnd) {
    let script = "# /// fnd\n# on_load = false\n# ///\nhead -c 1000 /dev/zero >\"$TMPDIR/scratch\"\nsleep 1000\n";
    fnd.drop_file("scratch.sh", script);
    fnd.wait_ready("scratch");
    let temporary = fnd.path("state/tmp/scratch");
    let scratch = || {
        let invocations = std::fs::read_dir(&temporary).into_iter().flatten().flatten();
        invocations
            .filter(|dir| dir.path().join("tmp/scratch").exists())
            .count()
    };
    let durable = fnd.queue("scratch", "");
    std::thread::scope(|scope| {
        // A synchronous call, which gets no answer.
        let client = fnd.client();
        scope.spawn(move || client.try_call("POST", "/v1/functions/scratch/invoke", &[], b""));
        wait_until("both to write", PATIENCE, || (scratch() == 2).then_some(()));
        fnd.crash();
    });
    fnd.launch();
    assert_eq!(fnd.wait_end(durable).state, RunState::Interrupted);
    wait_until("their files to be removed", PATIENCE, || {
        (invocations(&temporary) == 0).then_some(())
    });
}

/// fnd closes the connection only after the spawner has answered, so the spawner never writes to a closed connection,
/// and all work is finished.
fn a_stop_right_after_a_run_is_clean(fnd: &mut Fnd) {
    fnd.drop_file(
        "writes.sh",
        "# /// fnd\n# on_load = false\n# ///\nhead -c 1000 /dev/zero >\"$TMPDIR/scratch\"\n",
    );
    fnd.wait_ready("writes");
    let mut clean = 0;
    while clean < 3 {
        let log_start = fnd.log().len();
        let _ = fnd.run("writes", "");
        fnd.stop();
        let log = fnd.log();
        // On a machine that stalls for a second some work may remain, and the log says so.
        if !log[log_start..].contains("fnd-spawner has not answered") {
            assert!(!log[log_start..].contains("Broken pipe"), "{log}");
            assert_eq!(invocations(&fnd.path("state/tmp/writes")), 0);
            clean += 1;
        }
        fnd.launch();
    }
}

/// 202 means durable: the next fnd runs accepted work that had not begun, once.
fn what_was_queued_at_a_crash_goes_on(fnd: &mut Fnd) {
    let gate = fnd.shared_directory("gate");
    let script = format!(
        "# /// fnd\n# on_load = false\n# [pool]\n# max = 1\n# ///\nuntil [[ -e {0}/go ]]; do sleep 0.02; done\necho ran >>{0}/\"$FND_INVOCATION\"\n",
        gate.display()
    );
    fnd.drop_file("queued.sh", &script);
    fnd.wait_ready("queued");
    let running = fnd.queue("queued", "");
    let _ = fnd.wait_invocation(running, "to run", |view| view.state == RunState::Running);
    let waiting: Vec<_> = (0..3).map(|_| fnd.queue("queued", "")).collect();
    fnd.crash();
    std::fs::write(gate.join("go"), "").unwrap();
    fnd.launch();
    for id in &waiting {
        assert_eq!(fnd.wait_end(*id).state, RunState::Succeeded);
        assert_eq!(std::fs::read_to_string(gate.join(id.to_string())).unwrap(), "ran\n");
    }
    assert_eq!(fnd.wait_end(running).state, RunState::Interrupted);
    assert!(!gate.join(running.to_string()).exists());
}

/// `interrupted` is retried only if `retry.on` names it.
fn an_interrupted_attempt_is_retried_where_the_policy_says_so(fnd: &mut Fnd) {
    let script = "# /// fnd\n# on_load = false\n# [retry]\n# retries = 1\n# interval = \"10ms\"\n# on = [\"interrupted\"]\n# ///\n((FND_ATTEMPT == 2)) || sleep 1000\necho again\n";
    fnd.drop_file("again.sh", script);
    fnd.wait_ready("again");
    let id = fnd.queue("again", "");
    let _ = fnd.wait_invocation(id, "to run", |view| view.state == RunState::Running);
    fnd.crash();
    fnd.launch();
    let view = fnd.wait_end(id);
    assert_eq!(view.state, RunState::Succeeded, "{view:?}");
    let reasons: Vec<String> = view
        .attempt_records
        .iter()
        .map(|attempt| attempt.reason.to_string())
        .collect();
    assert_eq!(reasons, ["interrupted", "ok"]);
}

fn a_retry_that_waits_survives_a_restart(fnd: &mut Fnd) {
    let script = "# /// fnd\n# on_load = false\n# [retry]\n# retries = 1\n# interval = \"5s\"\n# jitter = \"none\"\n# ///\n((FND_ATTEMPT == 2)) || exit 1\necho second\n";
    fnd.drop_file("patient.sh", script);
    fnd.wait_ready("patient");
    let id = fnd.queue("patient", "");
    let _ = fnd.wait_invocation(id, "to wait for its retry", |view| view.state == RunState::Waiting);
    fnd.crash();
    fnd.launch();
    let view = fnd.wait_end(id);
    assert_eq!((view.state, view.attempts), (RunState::Succeeded, 2));
}

fn a_second_daemon_on_the_same_state_is_refused(fnd: &Fnd) {
    let status = fnd.command().status().unwrap();
    assert_eq!(status.code(), Some(75), "{}", fnd.log());
    // The first daemon is not affected.
    assert!(fnd.client().get("/healthz").status.is_success());
}

/// If the spawner dies, its processes die with it. fnd reports it and ends, too; the service manager decides about a
/// restart.
#[test]
fn the_death_of_the_spawner_interrupts_what_ran() {
    let mut fnd = Fnd::start();
    fnd.drop_file("slow.sh", SLOW);
    fnd.wait_ready("slow");
    let id = fnd.queue("slow", "");
    let _ = fnd.wait_invocation(id, "to run", |view| view.state == RunState::Running);
    let spawner = child_named(fnd.pid(), "fnd-spawner").expect("the spawner is fnd's child");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(spawner), nix::sys::signal::Signal::SIGKILL).unwrap();
    assert_eq!(fnd.wait_died(), Some(1), "{}", fnd.log());
    let message = "error: fnd-spawner ended (signal: 9 (SIGKILL)), and all running work with it, which is recorded as interrupted";
    assert!(fnd.log().contains(message), "{}", fnd.log());
    fnd.launch();
    let view = fnd.wait_end(id);
    assert_eq!((view.state, view.attempts), (RunState::Interrupted, 1));
    assert_eq!(view.message, "fnd-spawner went down during the attempt");
    fnd.stop_now();
}

/// Returns the pid of a child process by its name.
fn child_named(parent: u32, name: &str) -> Option<i32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let mut pids = children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok());
    // The kernel cuts names after 15 bytes.
    pids.find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| name.starts_with(comm.trim()))
    })
}
