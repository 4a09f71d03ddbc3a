//! Releases: an edit is undone without losing a call, a release is pinned, and the last good one serves after a restart.

use fnd_core::api::ReleaseList;
use fnd_core::lifecycle::release::{HoldKind, ReleaseState};
use fnd_tests::ctl::Run;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use fnd_wire::ids::Version;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const CALLERS: usize = 8;

/// A handler that answers `n`.
fn handler(n: u32) -> String {
    format!("def handler(event, context):\n    return {n}\n")
}

fn answers(fnd: &Fnd, function: &str) -> String {
    fnd.invoke(function, "").text().trim().to_owned()
}

pub(crate) fn releases(fnd: &Fnd, function: &str) -> ReleaseList {
    let shown = fnd.ctl(&["releases", function, "-o", "json"]).expect_code(0);
    serde_json::from_str(&shown.out()).unwrap()
}

fn states(fnd: &Fnd, function: &str) -> Vec<ReleaseState> {
    let list = releases(fnd, function).versions;
    list.iter().map(|release| release.state).collect()
}

/// Writes the file and waits until its version serves.
fn edit(fnd: &Fnd, file: &str, content: &str) -> Version {
    let name = file.split('.').next().unwrap();
    let before = fnd.function(name).and_then(|function| function.version);
    fnd.drop_file(file, content);
    let now = fnd.wait_function(name, "to serve the edit", |function| {
        function.version.is_some() && function.version != before && function.error.is_none()
    });
    now.version.unwrap()
}

/// Ends the callers when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls a function from several callers, and does something meanwhile. Every call must succeed. Returns the answers of each
/// caller.
pub(crate) fn under_load(fnd: &Fnd, function: &str, meanwhile: impl FnOnce()) -> Vec<Vec<String>> {
    let (over, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        // Also when a check below fails: else the callers would call for ever.
        let end = End(&over);
        let caller = || {
            let mut seen = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let answer = fnd.invoke(function, "");
                assert_eq!(answer.status, 200, "after {} calls: {}", seen.len(), answer.text());
                seen.push(answer.text());
                begun.fetch_add(1, Ordering::Relaxed);
            }
            seen
        };
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
        wait_until("every caller to call", PATIENCE, || {
            (begun.load(Ordering::Relaxed) >= 10 * CALLERS).then_some(())
        });
        meanwhile();
        drop(end);
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    })
}

pub(crate) fn refused(run: &Run, code: i32, words: &str) {
    assert_eq!(run.code, code, "{run}");
    assert!(format!("{run}").contains(words), "{words}: {run}");
}

/// Each of these has functions of its own.
#[test]
fn rollbacks_pins_and_differences() {
    let fnd = Fnd::start();
    a_bad_edit_is_undone_under_load_and_no_call_fails(&fnd);
    a_release_on_trial_serves_no_more_after_a_rollback(&fnd);
    each_rollback_that_cannot_be_says_why(&fnd);
    a_service_goes_back_by_being_replaced(&fnd);
    the_difference_of_two_releases_has_manifest_and_code(&fnd);
    fnd.finish();
}

fn a_bad_edit_is_undone_under_load_and_no_call_fails(fnd: &Fnd) {
    let good = edit(fnd, "busy.py", &handler(1));
    let bad = edit(fnd, "busy.py", &handler(2));
    assert_eq!(answers(fnd, "busy"), "2");
    let calls = under_load(fnd, "busy", || {
        let undone = fnd.ctl(&["rollback", "busy"]).expect_code(0);
        assert!(
            undone.out().contains(&fnd_core::lifecycle::release::short(good)),
            "{undone}"
        );
        assert_eq!(
            fnd.function("busy").unwrap().version,
            Some(good),
            "it serves when the verb returns"
        );
    });
    assert!(calls.iter().all(|seen| seen.is_sorted_by(|a, b| a >= b)), "{calls:?}");
    assert_eq!(answers(fnd, "busy"), "1");
    let list = releases(fnd, "busy");
    let [newest, serving] = &list.versions[..] else {
        panic!("{list:?}")
    };
    assert_eq!((newest.version, serving.version), (bad, good));
    assert_eq!(
        (newest.state, serving.state),
        (ReleaseState::Waiting, ReleaseState::Serving)
    );
    assert!(
        newest.why.as_deref().unwrap().starts_with("rolled back to"),
        "{newest:?}"
    );
    let warning = fnd.function("busy").unwrap().warning.unwrap();
    assert!(warning.contains("rolled back"), "{warning}");
}

/// Each of these has a function of its own.
#[test]
fn rollbacks_over_restarts() {
    let mut fnd = Fnd::start();
    a_rollback_survives_a_restart_and_ends_with_the_next_edit(&mut fnd);
    a_script_that_is_rolled_back_does_not_run_its_load_again(&mut fnd);
    fnd.finish();
}

fn a_rollback_survives_a_restart_and_ends_with_the_next_edit(fnd: &mut Fnd) {
    let good = edit(fnd, "f.py", &handler(1));
    edit(fnd, "f.py", &handler(2));
    let _ = fnd.ctl(&["rollback", "f"]).expect_code(0);
    for crash in [false, true] {
        if crash {
            fnd.crash();
        } else {
            fnd.stop();
        }
        fnd.launch();
        assert_eq!(fnd.wait_ready("f").version, Some(good));
        assert_eq!(answers(fnd, "f"), "1");
        let hold = releases(fnd, "f").hold.unwrap();
        assert_eq!((hold.kind, hold.version), (HoldKind::Rollback, good));
    }
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    assert_eq!(answers(fnd, "f"), "1", "a reload is no edit");
    edit(fnd, "f.py", &handler(3));
    assert_eq!(answers(fnd, "f"), "3");
    let list = releases(fnd, "f");
    assert!(list.hold.is_none(), "{list:?}");
    assert_eq!(list.versions.len(), 3);
}

#[test]
fn a_pinned_release_serves_whatever_the_file_becomes() {
    let mut fnd = Fnd::start_with(&Setup::default().config("keep_versions = 1"));
    let pinned = edit(&fnd, "f.py", &handler(1));
    let _ = fnd.ctl(&["pin", "f"]).expect_code(0);
    for n in 2..5 {
        fnd.drop_file("f.py", &handler(n));
        wait_until("the edit to wait", PATIENCE, || {
            let hold = releases(&fnd, "f").hold.unwrap();
            let list = releases(&fnd, "f").versions;
            let waits = list
                .iter()
                .find(|release| release.state == ReleaseState::Waiting)?
                .version;
            (hold.waiting == Some(waits) && list[0].version == waits && list.len() > 1).then_some(())
        });
        assert_eq!(answers(&fnd, "f"), "1");
    }
    let warning = fnd.function("f").unwrap().warning.unwrap();
    assert!(
        warning.contains("pinned") && warning.contains("fndctl unpin f"),
        "{warning}"
    );
    fnd.stop();
    fnd.launch();
    assert_eq!(fnd.wait_ready("f").version, Some(pinned));
    fnd.drop_file("f.py", "# /// fnd\n# colour = 1\n# ///\n");
    let refused_file = fnd.wait_function("f", "to show the error", |function| function.error.is_some());
    assert_eq!(
        (refused_file.version, refused_file.state.as_str()),
        (Some(pinned), "ready")
    );
    assert_eq!(answers(&fnd, "f"), "1");
    fnd.drop_file("f.py", &handler(5));
    let _ = fnd.wait_function("f", "to be valid again", |function| function.error.is_none());
    let _ = fnd.ctl(&["unpin", "f"]).expect_code(0);
    let _ = fnd.wait_function("f", "to serve its file", |function| function.version != Some(pinned));
    assert_eq!(answers(&fnd, "f"), "5");
    refused(&fnd.ctl(&["unpin", "f"]), 1, "no release of it is pinned");
    fnd.finish();
}

#[test]
fn after_a_restart_the_last_good_release_serves_beside_a_refused_file() {
    let mut fnd = Fnd::start();
    let good = edit(&fnd, "f.py", &handler(1));
    let script = edit(&fnd, "s.sh", "# /// fnd\n# on_load = false\n# ///\necho good\n");
    fnd.stop();
    fnd.drop_file("f.py", "# /// fnd\n# colour = 1\n# ///\n");
    fnd.drop_file("s.sh", "# /// fnd\n# colour = 1\n# ///\n");
    fnd.launch();
    for (name, version) in [("f", good), ("s", script)] {
        let function = fnd.wait_function(name, "to serve with an error", |function| {
            function.version.is_some() && function.error.is_some()
        });
        assert_eq!(
            (function.version, function.state.as_str()),
            (Some(version), "ready"),
            "{name}"
        );
        assert!(function.error.unwrap().contains("colour"), "{name}");
    }
    assert_eq!(
        (answers(&fnd, "f"), answers(&fnd, "s")),
        ("1".to_owned(), "good".to_owned())
    );
    edit(&fnd, "f.py", &handler(2));
    assert_eq!(answers(&fnd, "f"), "2");
    fnd.finish();
}

#[test]
fn after_a_restart_the_last_good_release_serves_beside_one_that_cannot_be_loaded() {
    let mut fnd = Fnd::start();
    let good = edit(&fnd, "f.py", &handler(1));
    fnd.drop_file("f.py", "import no_such_module\ndef handler(event, context): return 2\n");
    let shows = |function: &fnd_core::api::FunctionStatus| {
        let error = function.error.as_deref();
        function.version == Some(good) && error.is_some_and(|error| error.contains("no_such_module"))
    };
    let _ = fnd.wait_function("f", "to show the error", shows);
    wait_until("the release to be listed as failed", PATIENCE, || {
        (states(&fnd, "f") == [ReleaseState::Failed, ReleaseState::Serving]).then_some(())
    });
    fnd.stop();
    fnd.launch();
    let _ = fnd.wait_function("f", "to show the error again", shows);
    assert_eq!(answers(&fnd, "f"), "1");
    let failed = releases(&fnd, "f").versions.remove(0);
    assert!(failed.error.unwrap().contains("no_such_module"));
    // Going back stops the trials of the new version.
    let _ = fnd.ctl(&["rollback", "f"]).expect_code(0);
    let _ = fnd.wait_function("f", "to show no error", |function| {
        function.version == Some(good) && function.error.is_none()
    });
    fnd.finish();
}

fn a_release_on_trial_serves_no_more_after_a_rollback(fnd: &Fnd) {
    let good = edit(fnd, "tried.py", &handler(1));
    fnd.drop_file("tried.py", &format!("import time\ntime.sleep(2)\n{}", handler(2)));
    wait_until("the edit to be tried", PATIENCE, || {
        (states(fnd, "tried") == [ReleaseState::Trying, ReleaseState::Serving]).then_some(())
    });
    let _ = fnd.ctl(&["rollback", "tried"]).expect_code(0);
    assert_eq!(states(fnd, "tried"), [ReleaseState::Waiting, ReleaseState::Serving]);
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    let function = fnd.function("tried").unwrap();
    assert_eq!((function.version, function.error), (Some(good), None));
    let _ = fnd.ctl(&["unpin", "tried"]).expect_code(0);
    let _ = fnd.wait_function("tried", "to serve its file", |function| function.version != Some(good));
    assert_eq!(answers(fnd, "tried"), "2");
}

fn a_script_that_is_rolled_back_does_not_run_its_load_again(fnd: &mut Fnd) {
    let runs = |fnd: &Fnd| fnd.function("s").map_or(0, |function| function.runs);
    for n in 1..=2 {
        edit(fnd, "s.sh", &format!("echo {n}\n"));
        wait_until("the script to run once", PATIENCE, || (runs(fnd) == n).then_some(()));
    }
    let _ = fnd.ctl(&["rollback", "s"]).expect_code(0);
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    fnd.stop();
    fnd.launch();
    fnd.wait_ready("s");
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    assert_eq!(runs(fnd), 2);
    assert_eq!(fnd.run("s", "").0.text().trim(), "1");
}

fn each_rollback_that_cannot_be_says_why(fnd: &Fnd) {
    refused(&fnd.ctl(&["rollback", "none"]), 3, "none");
    let first = edit(fnd, "back.py", &handler(1));
    refused(&fnd.ctl(&["rollback", "back"]), 1, "no release has served before");
    refused(&fnd.ctl(&["rollback", "back", &first.hex()]), 1, "serves already");
    refused(
        &fnd.ctl(&["rollback", "back", "0000000000"]),
        3,
        "no release begins with",
    );
    let second = edit(fnd, "back.py", &handler(2));
    refused(
        &fnd.ctl(&[
            "pin",
            "back",
            &first.hex()[..12].replace(|c: char| c.is_ascii_digit(), "x"),
        ]),
        3,
        "no release",
    );
    // A release that cannot be loaded any more: what serves goes on.
    let broken = "from pathlib import Path\nPath('GATE/go').read_text()\ndef handler(event, context): return 3\n";
    let gate = fnd.shared_directory("gate");
    std::fs::write(gate.join("go"), "").unwrap();
    let third = edit(fnd, "back.py", &broken.replace("GATE", gate.to_str().unwrap()));
    edit(fnd, "back.py", &handler(4));
    std::fs::remove_file(gate.join("go")).unwrap();
    refused(&fnd.ctl(&["rollback", "back", &third.hex()]), 1, "could not be loaded");
    assert_eq!(answers(fnd, "back"), "4");
    let _ = fnd.wait_function("back", "to show no error", |function| function.error.is_none());
    assert!(releases(fnd, "back").hold.is_none());
    let _ = fnd.ctl(&["rollback", "back", &second.hex()[..16]]).expect_code(0);
    assert_eq!(answers(fnd, "back"), "2");
    // A disabled function keeps what was asked for.
    let _ = fnd.ctl(&["disable", "back"]).expect_code(0);
    let _ = fnd.ctl(&["rollback", "back", &first.hex()]).expect_code(0);
    let _ = fnd.ctl(&["enable", "back"]).expect_code(0);
    assert_eq!(answers(fnd, "back"), "1");
    let audit = fnd.ctl(&["audit", "--verb", "rollback"]).expect_code(0).out();
    assert!(audit.contains("rollback"), "{audit}");
}

fn a_service_goes_back_by_being_replaced(fnd: &Fnd) {
    let service = |n: u32| format!("# /// fnd\n# [service]\n# ///\necho begins {n}\nexec sleep 1000\n");
    let prints = |words: &str, times: usize| {
        wait_until(words, PATIENCE, || {
            let logs = fnd.ctl(&["logs", "s"]).out();
            (logs.matches(words).count() == times).then_some(())
        });
    };
    let first = edit(fnd, "s.sh", &service(1));
    prints("begins 1", 1);
    edit(fnd, "s.sh", &service(2));
    prints("begins 2", 1);
    let _ = fnd.ctl(&["rollback", "s"]).expect_code(0);
    let function = fnd.wait_function("s", "to run the first release", |function| {
        function.version == Some(first) && function.running == 1
    });
    assert_eq!(function.version, Some(first));
    prints("begins 1", 2);
}

fn the_difference_of_two_releases_has_manifest_and_code(fnd: &Fnd) {
    fnd.drop_file("pair.toml", "size = \"S\"\n");
    edit(fnd, "pair.py", &handler(1));
    fnd.drop_file("pair.toml", "size = \"M\"\n");
    edit(fnd, "pair.py", &handler(2));
    // The two files may have been two releases: the manifest with the code before, then the new code.
    let oldest = releases(fnd, "pair").versions.last().unwrap().version.hex();
    let diff = wait_until("both to be applied", PATIENCE, || {
        let diff = fnd.ctl(&["diff", "pair", &oldest]).expect_code(0).out();
        (diff.contains("+size = \"M\"") && diff.contains("return 2")).then_some(diff)
    });
    for line in [
        "-    return 1",
        "+    return 2",
        "-size = \"S\"",
        "+size = \"M\"",
        "--- pair.py  (release",
    ] {
        assert!(diff.contains(line), "{line}: {diff}");
    }
}
