//! A disk that fails while fnd starts: it starts, or says why not and has touched nothing.

use super::{check, queue, talking};
use fnd_tests::require;
use fnd_tests::tamper::{Fate, Tampering};
use fnd_tests::wait::PATIENCE;
use nix::sys::signal::Signal;

/// Calls of a start, and the file they are about.
const CASES: &[(&str, &str)] = &[
    ("open,openat", "state/state/lock"),
    ("openat", "state/state/ledger.db"),
    ("pread64", "state/state/ledger.db"),
    ("openat", "state/state/ledger.db-wal"),
    ("openat", "state/state/in-flight"),
    ("ftruncate", "state/state/in-flight"),
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
        let said_before = fnd.log().len();
        fnd.start_behind(tampering.words());
        if let Some(status) = fnd.try_launch(PATIENCE) {
            refused += 1;
            let said = fnd.log()[said_before..].to_owned();
            let name = file.rsplit('/').next().unwrap().trim_end_matches("-wal");
            assert_eq!(status.code(), Some(1), "{calls} {file}: {said}");
            assert!(
                said.contains(name),
                "{calls} {file}: it does not say what failed: {said}"
            );
        }
        fnd.kill();
        fnd.start_behind(Vec::new());
        fnd.launch();
        check(&fnd, &accepted);
    }
    assert!(refused > 0, "no fault was met");
    fnd.finish();
}
