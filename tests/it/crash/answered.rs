//! fnd and its spawner die together in the moment after a caller was answered, before that is in the history.

use fnd_core::outcome::State;
use fnd_tests::tamper::{Fate, Tampering};
use fnd_tests::{Fnd, Setup, require};
use fnd_wire::ids::InvocationId;
use nix::sys::signal::Signal;

/// Has the history fail, lets a caller be answered, kills both and starts them again. Returns the view of the invocation.
fn answered_and_killed(script: &str, status: u16) -> (Fnd, fnd_core::api::InvocationView) {
    let mut fnd = Fnd::prepare(&Setup::default().detached());
    fnd.drop_file("answers.sh", script);
    fnd.launch();
    fnd.wait_ready("answers");
    // What the disk does not take stays in memory, as it does for the moment before it is written.
    let tampering = Tampering {
        calls: "pwrite64".to_owned(),
        paths: vec![fnd.path("state/state/ledger.db-wal")],
        fate: Fate::Error("EIO"),
        from: 1,
    };
    let fault = tampering.attach(&fnd);
    let answer = fnd.invoke("answers", "{}");
    assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
    let id = answer.header("fnd-invocation").and_then(InvocationId::parse);
    // Neither sees how the other ends.
    fnd.signal(Signal::SIGSTOP);
    fnd.signal_spawner(Signal::SIGKILL);
    fnd.kill();
    fnd.kill_spawner();
    drop(fault);
    fnd.launch();
    let view = fnd.wait_end(id.expect("an answer names its invocation"));
    (fnd, view)
}

#[test]
fn a_script_whose_caller_was_answered_is_not_interrupted_where_the_spawner_died_as_well() {
    require!(root, cgroup, strace);
    let script = "# /// fnd\n# on_load = false\n# ///\necho said\n";
    let (fnd, view) = answered_and_killed(script, 200);
    assert_eq!(
        (view.state, view.attempts),
        (State::Succeeded, 1),
        "{view:?}\n{}",
        fnd.log()
    );
    let lines: Vec<String> = fnd.logs(view.id).into_iter().map(|line| line.text).collect();
    assert_eq!(lines, ["said"]);
    fnd.finish();
}

#[test]
fn a_script_that_left_a_result_says_that_it_is_lost() {
    require!(root, cgroup, strace);
    let script = "# /// fnd\n# on_load = false\n# ///\necho '{}' >\"$FND_RESULT\"\n";
    let (fnd, view) = answered_and_killed(script, 200);
    assert_eq!(view.state, State::Succeeded, "{view:?}\n{}", fnd.log());
    assert_eq!(
        view.message,
        "its result is lost: fnd was killed before that was on disk"
    );
    fnd.finish();
}
