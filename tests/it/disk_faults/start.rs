//! A disk that fails while fnd starts: fnd starts, or it says why not and has changed nothing.

use super::{check, queue, talking};
use fnd_tests::tamper::{Fate, Tampering};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{require, wait_until};
use nix::sys::signal::Signal;

/// Calls of a start, and their file.
const CASES: &[(&str, &str)] = &[
    ("open,openat", "state/state/lock"),
    ("openat", "state/state/ledger.db"),
    ("pread64", "state/state/ledger.db"),
    ("openat", "state/state/ledger.db-wal"),
    ("openat", "run/ledger/in-flight"),
    ("ftruncate", "run/ledger/in-flight"),
    ("pwrite64", "state/state/ledger.db-wal"),
];

#[test]
fn a_start_on_a_failing_disk_loses_nothing() {
    require!(root, cgroup, strace);
    let mut fnd = talking();
    let mut accepted = Vec::new();
    let mut refused = 0;
    for (n, (calls, file)) in CASES.iter().enumerate() {
        let words = n.to_string();
        accepted.push((queue(&fnd, &words).expect("it is accepted"), words));
        fnd.leave(Signal::SIGKILL);
        let tampering = Tampering {
            calls: (*calls).to_owned(),
            paths: vec![fnd.path(file)],
            fate: Fate::Error("EIO"),
            from: 1,
        };
        let log_start = fnd.log().len();
        fnd.start_behind(tampering.words());
        if let Some(status) = fnd.try_launch(PATIENCE) {
            refused += 1;
            let log = fnd.log()[log_start..].to_owned();
            let name = file.rsplit('/').next().unwrap().trim_end_matches("-wal");
            assert_eq!(status.code(), Some(1), "{calls} {file}: {log}");
            assert!(log.contains(name), "{calls} {file}: it does not say what failed: {log}");
        }
        fnd.kill();
        fnd.start_behind(Vec::new());
        fnd.launch();
        check(&fnd, &accepted);
    }
    assert!(refused > 0, "no fault was met");
    fnd.finish();
}

/// If the ledger was deleted, records written to it would be lost at the next start, so new work is refused.
#[test]
fn a_ledger_that_is_deleted_under_fnd_takes_no_new_work() {
    require!(root, cgroup);
    let mut fnd = talking();
    let accepted = [(queue(&fnd, "0").expect("it is accepted"), "0".to_owned())];
    check(&fnd, &accepted);
    let [ledger, kept] = ["ledger.db", "kept"].map(|name| fnd.path("state/state").join(name));
    for replaced in [false, true] {
        std::fs::rename(&ledger, &kept).unwrap();
        if replaced {
            std::fs::copy(&kept, &ledger).unwrap();
        }
        let what = if replaced { "was replaced" } else { "was moved away" };
        let problems = fnd.status().problems;
        assert!(problems.iter().any(|problem| problem.contains(what)), "{problems:?}");
        assert_eq!(queue(&fnd, "1"), None);
        super::call(&fnd, "2");
        std::fs::rename(&kept, &ledger).unwrap();
        // When the file has its name again, fnd works as before, and the runs that ended meanwhile are in the history.
        let again = wait_until("new work to be accepted", PATIENCE, || queue(&fnd, "3"));
        check(&fnd, &[(again, "3".to_owned())]);
        assert_eq!(fnd.status().problems, Vec::<String>::new());
    }
    fnd.replace(Signal::SIGKILL);
    check(&fnd, &accepted);
    fnd.finish();
}
