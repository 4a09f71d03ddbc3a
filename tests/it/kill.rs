//! Timeouts kill the whole process tree, whatever it did to escape.

use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};

/// Forks, leaves its session, ignores SIGTERM and respawns: everything that keeps naive killers busy.
const ESCAPEE: &str = "#!/usr/bin/env bash
# /// fnd
# on_load = false
# [limits]
# timeout = \"3s\"
# grace = \"500ms\"
# ///
trap '' TERM HUP INT
echo \"before the end\"
for n in 1 2 3 4 5; do
  setsid bash -c 'trap \"\" TERM; (trap \"\" TERM; sleep 1000) & while :; do sleep 1000; done' &
done
while :; do sleep 1000; done
";

#[test]
fn one_that_forks_and_ignores_sigterm_is_killed_at_its_timeout() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    fnd.drop_file("escapee.sh", ESCAPEE);
    fnd.wait_ready("escapee");
    let (answer, view) = fnd.run("escapee", "");
    assert_eq!(answer.status, 408, "{}", answer.text());
    assert_eq!(view.state, RunState::Failed);
    assert_eq!(view.reason.unwrap().to_string(), "timeout");
    assert!(
        view.message.contains("3s") && view.message.contains("timeout"),
        "{}",
        view.message
    );
    // The output until then is kept.
    assert!(fnd.logs(view.id).iter().any(|line| line.text == "before the end"));
    // The record is final, so the leaf is empty: no process of the attempt is in any cgroup of this fnd.
    let sleeping = || {
        fnd.mark()
            .processes()
            .into_iter()
            .filter(|process| process.contains("sleep 1000"))
            .collect::<Vec<_>>()
    };
    assert_eq!(sleeping(), Vec::<String>::new());
    let status = fnd.wait_status_file("escapee", "failed");
    assert_eq!(status["reason"], "timeout");
    fnd.finish();
}

/// Each of these has functions of its own.
#[test]
fn ends_of_processes() {
    let fnd = Fnd::start();
    one_that_listens_to_sigterm_may_clean_up(&fnd);
    a_caller_may_ask_for_less_time(&fnd);
    a_run_that_leaves_processes_in_the_background_says_so(&fnd);
    fnd.finish();
}

fn one_that_listens_to_sigterm_may_clean_up(fnd: &Fnd) {
    let script = "# /// fnd\n# on_load = false\n# [limits]\n# timeout = \"3s\"\n# grace = \"10s\"\n# ///\ntrap 'echo cleaned; exit 0' TERM\nwhile :; do sleep 0.05; done\n";
    fnd.drop_file("polite.sh", script);
    fnd.wait_ready("polite");
    let (_, view) = fnd.run("polite", "");
    // The attempt is a timeout, whatever its exit code is.
    assert_eq!(view.reason.unwrap().to_string(), "timeout");
    assert!(fnd.logs(view.id).iter().any(|line| line.text == "cleaned"));
    assert_eq!(view.attempt_records[0].exit_code, Some(0));
}

#[test]
fn what_outlives_the_script_is_killed_with_it() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    fnd.drop_file(
        "litter.sh",
        "# /// fnd\n# on_load = false\n# ///\nsetsid -f sleep 1000\nsleep 1000 &\necho fine\n",
    );
    fnd.wait_ready("litter");
    let (answer, _) = fnd.run("litter", "");
    assert_eq!(answer.text().trim(), "fine");
    wait_until("the sleepers to be gone", PATIENCE, || {
        fnd.mark()
            .processes()
            .iter()
            .all(|process| !process.contains("sleep 1000"))
            .then_some(())
    });
    fnd.finish();
}

/// This also holds for a fork bomb; the pids limit keeps the machine usable meanwhile.
#[test]
fn a_fork_bomb_ends_at_its_timeout() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    let script = "# /// fnd\n# on_load = false\n# [limits]\n# timeout = \"1s\"\n# grace = \"100ms\"\n# pids = 100\n# ///\ntrap '' TERM\nbomb() { bomb | bomb & }\nbomb\nwhile :; do :; done\n";
    fnd.drop_file("bomb.sh", script);
    fnd.wait_ready("bomb");
    let (_, view) = fnd.run("bomb", "");
    assert_eq!(view.reason.unwrap().to_string(), "timeout");
    fnd.drop_file("next.sh", "# /// fnd\n# on_load = false\n# ///\necho alive\n");
    fnd.wait_ready("next");
    assert_eq!(fnd.invoke("next", "").text().trim(), "alive");
    fnd.finish();
}

/// A caller may shorten the timeout, never lengthen it.
fn a_caller_may_ask_for_less_time(fnd: &Fnd) {
    fnd.drop_file(
        "slow.sh",
        "# /// fnd\n# on_load = false\n# [limits]\n# timeout = \"1m\"\n# grace = \"100ms\"\n# ///\nsleep 1000\n",
    );
    fnd.wait_ready("slow");
    let path = "/v1/functions/slow/invoke";
    assert_eq!(
        fnd.client().call("POST", path, &[("fnd-timeout", "300ms")], b"").status,
        408
    );
    assert_eq!(
        fnd.client().call("POST", path, &[("fnd-timeout", "2m")], b"").status,
        400
    );
}

/// After Ctrl-C fnd waits until running work has finished; a second Ctrl-C kills it. No process remains in both cases.
#[test]
fn a_second_signal_does_not_wait() {
    let mut fnd = Fnd::start();
    fnd.drop_file(
        "long.sh",
        "# /// fnd\n# on_load = false\n# ///\ntrap '' TERM\nsleep 1000\n",
    );
    fnd.wait_ready("long");
    let id = fnd.queue("long", "");
    let _ = fnd.wait_invocation(id, "to run", |view| view.state == RunState::Running);
    fnd.stop_now();
}

fn a_run_that_leaves_processes_in_the_background_says_so(fnd: &Fnd) {
    let body = "# /// fnd\n# on_load = false\n# ///\n";
    fnd.drop_file("leaves.sh", &format!("{body}sleep 300 &\n"));
    fnd.drop_file("waits.sh", &format!("{body}sleep 0.1 &\nwait\n"));
    for (name, expected) in [
        ("leaves", "processes that it left in the background were killed"),
        ("waits", ""),
    ] {
        fnd.wait_ready(name);
        let (_, run) = fnd.run(name, "");
        let message = run.message;
        assert!(
            message.starts_with(expected) && message.is_empty() == expected.is_empty(),
            "{name}: {message}"
        );
    }
}
