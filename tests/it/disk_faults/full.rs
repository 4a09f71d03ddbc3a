//! Starts on a full disk: fnd starts, refuses work that it would have to store, and keeps work that it accepted before.

use super::{check, queue};
use fnd_core::records::outcome::RunState;
use fnd_tests::mount::Mount;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use fnd_wire::ids::InvocationId;
use nix::sys::signal::Signal;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

/// Reports that it has begun, and waits for `GATE/go`. Only one runs at a time.
const GATED: &str = "# /// fnd
# on_load = false
# [pool]
# max = 1
# ///
w=$(cat)
echo \"$w\" >>GATE/begun
until [[ -e GATE/go ]]; do sleep 0.02; done
echo \"$w\" >\"$FND_RESULT\"
";
/// Prints its result: a result in a file would need room.
const TALKS: &str = "# /// fnd\n# on_load = false\n# ///\ncat\n";
const WARM: &str = "# /// fnd\n# on_load = false\n# ///\ndef handler(event, context):\n    return event['data']\n";

/// The disk has blocks of this size.
const BLOCK: usize = 4096;

/// A prepared fnd whose state is on a small disk of its own.
fn on_small_disk() -> (Fnd, Mount, PathBuf) {
    on_disk(|fnd| Mount::over(&fnd.path("state"), "4m"))
}

/// A prepared fnd whose state is on such a disk.
pub(super) fn on_disk(mount: impl FnOnce(&Fnd) -> Mount) -> (Fnd, Mount, PathBuf) {
    let fnd = Fnd::prepare(&Setup::default().detached());
    let mount = mount(&fnd);
    let gate = fnd.shared_directory("gate");
    fnd.drop_file("gated.sh", &GATED.replace("GATE", &gate.display().to_string()));
    fnd.drop_file("talks.sh", TALKS);
    fnd.drop_file("warm.py", WARM);
    (fnd, mount, gate)
}

/// Fills the last free block. Returns the file to remove to get room.
fn fill(fnd: &Fnd) -> PathBuf {
    let filler = fnd.path("state/filler");
    let mut file = OpenOptions::new().append(true).create(true).open(&filler).unwrap();
    while file.write_all(&[0; BLOCK]).is_ok() {}
    filler
}

pub(super) fn call(fnd: &Fnd, function: &str, words: &str) -> InvocationId {
    let answer = fnd.invoke(function, words);
    assert_eq!(
        (answer.status.as_u16(), answer.text().as_str()),
        (200, words),
        "{}",
        fnd.log()
    );
    Fnd::id_of(&answer)
}

/// Checks that fnd reports the problem, refuses work that it cannot store, and answers synchronous calls.
fn does_without_room(fnd: &Fnd, words: &str) -> Vec<(InvocationId, String)> {
    let problems = fnd.status().problems;
    assert!(
        problems
            .iter()
            .any(|problem| problem.contains("the history cannot be written")),
        "{problems:?}"
    );
    assert_eq!(queue(fnd, words), None, "{}", fnd.log());
    let calls = ["talks", "warm"].map(|function| (call(fnd, function, words), words.to_owned()));
    wait_until("the status file", PATIENCE, || {
        let status = fnd.status_file("warm")?;
        (status["invocation"] == calls[1].0.to_string()).then_some(())
    });
    calls.into()
}

fn has_room_again(fnd: &Fnd, filler: &PathBuf) {
    fs::remove_file(filler).unwrap();
    let id = wait_until("new work to be accepted", PATIENCE, || queue(fnd, "9"));
    check(fnd, &[(id, "9".to_owned())]);
    wait_until("no problem to be left", PATIENCE, || {
        fnd.status().problems.is_empty().then_some(())
    });
}

#[test]
fn what_was_accepted_before_runs_once_when_there_is_room_again() {
    require!(root, cgroup);
    for (signal, with_spawner) in [
        (Signal::SIGTERM, true),
        (Signal::SIGKILL, true),
        (Signal::SIGTERM, false),
        (Signal::SIGKILL, false),
    ] {
        let what = format!("{signal} {with_spawner}");
        let (mut fnd, mount, gate) = on_small_disk();
        fnd.launch();
        let mut accepted: Vec<_> = (0..4)
            .map(|n| (fnd.queue("gated", &n.to_string()), n.to_string()))
            .collect();
        let _ = fnd.wait_invocation(accepted[0].0, "to run", |view| view.state == RunState::Running);
        let answered = call(&fnd, "warm", "5");
        let _ = fnd.wait_end(answered); // on the disk, with its result
        accepted.push((answered, "5".to_owned()));
        fnd.leave(signal);
        if with_spawner {
            fnd.stop_spawner();
        }
        let filler = fill(&fnd);
        fnd.launch();
        // This also holds after a kill while the disk is full.
        let _ = does_without_room(&fnd, "1");
        fnd.leave(Signal::SIGKILL);
        fnd.launch();
        let calls = does_without_room(&fnd, "2");
        has_room_again(&fnd, &filler);
        // Only now: the function needs room for its result.
        fs::write(gate.join("go"), "").unwrap();
        let interrupted = if with_spawner { Some(accepted.remove(0)) } else { None };
        if let Some((id, _)) = interrupted {
            assert_eq!(fnd.wait_end(id).state, RunState::Interrupted, "{what}");
        }
        check(&fnd, &accepted);
        check(&fnd, &calls);
        let begun = fs::read_to_string(gate.join("begun")).unwrap();
        assert_eq!(begun, "0\n1\n2\n3\n", "{what}: each began once");
        fnd.replace(Signal::SIGKILL);
        check(&fnd, &accepted);
        check(&fnd, &calls);
        fnd.finish();
        drop(mount);
    }
}

#[test]
fn a_first_start_on_a_full_disk_begins_a_history_when_there_is_room() {
    require!(root, cgroup);
    let (mut fnd, mount, gate) = on_small_disk();
    fnd.drop_file("once.sh", &format!("echo ran >>{}/ran\n", gate.display()));
    let ran = || fs::read_to_string(gate.join("ran")).unwrap_or_default().lines().count();
    // The functions are installed, and the history is gone, as well as what the run directory says of it.
    fnd.launch();
    wait_until("it to run as it is loaded", PATIENCE, || (ran() == 1).then_some(()));
    // One that still runs would be taken over, with what is known of it.
    let _ = fnd.wait_run("once");
    fnd.leave(Signal::SIGTERM);
    for file in fs::read_dir(fnd.path("state/state")).unwrap().flatten() {
        if file.file_name().to_string_lossy().starts_with("ledger.db") {
            fs::remove_file(file.path()).unwrap();
        }
    }
    fs::remove_file(fnd.path("run/ledger/ledger.db-end")).unwrap();
    let filler = fill(&fnd);
    fnd.launch();
    let calls = does_without_room(&fnd, "1");
    assert_eq!(ran(), 1, "that it has run could not be kept");
    has_room_again(&fnd, &filler);
    check(&fnd, &calls);
    wait_until("it to run in the new history", PATIENCE, || (ran() == 2).then_some(()));
    fnd.replace(Signal::SIGTERM);
    check(&fnd, &calls);
    fnd.finish();
    drop(mount);
}

#[test]
fn a_backup_that_would_take_the_room_of_the_history_is_refused() {
    require!(root, cgroup);
    let (mut fnd, _mount, _) = on_small_disk();
    fnd.launch();
    fnd.wait_ready("talks");
    let archive = fnd.path("backup.tar");
    let output = fnd
        .ctl(&["backup", &archive.display().to_string()])
        .expect_code(1)
        .stderr;
    assert!(output.contains("a copy of the ledger needs"), "{output}");
    assert!(!archive.exists());
    fnd.finish();
}
