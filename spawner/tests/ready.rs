//! The next start of a function uses the parts that were made ready for it; they belong to its user and are not left behind.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Run, privileged, until};
use fnd_wire::frame::{ExitStatus, Reply};
use fnd_wire::ids::InvocationId;
use std::fs;
use std::path::PathBuf;

/// Prints the leaf that it is in, its result file with the owner, and what is in its directory for temporary files.
const SCRIPT: &str = "sed -n 's/^0:://p' /proc/self/cgroup\necho \"$FND_RESULT\"\nstat -c %u \"$FND_RESULT\" \"$TMPDIR\"\n\
    ls -A \"$TMPDIR\"\necho \"$DATA\" >\"$FND_RESULT\"\n";

fn lines(run: &Run) -> Vec<&str> {
    assert_eq!(run.exited.status, ExitStatus::Code(0), "{}", run.stderr);
    run.stdout.lines().collect()
}

fn leaf(run: &Run) -> PathBuf {
    let below = PathBuf::from(lines(run)[0].trim_start_matches('/'));
    let trees = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(PathBuf::from);
    let tree = trees.into_iter().find(|tree| tree.join("cgroup.procs").exists()).unwrap();
    tree.join(below)
}

#[test]
fn a_start_is_made_ready_after_the_run_before_and_goes_with_the_function() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("again.sh", SCRIPT, "");
    let uid = installed.uid.to_string();
    let state = harness.path("state/tmp/again");
    let first = harness.run(&installed, None, &[("DATA", "one")]);
    assert!(lines(&first)[1].ends_with("/result.1"), "{}", first.stdout);
    until("the leaf of a run that ended to be gone", || !leaf(&first).exists());
    assert_eq!(harness.release(&installed, InvocationId(1)), Reply::Done);

    // The next run's leaf, result file and directory are there, and nothing is in them.
    let group = leaf(&first).parent().unwrap().to_owned();
    let leaves = || {
        let names = fs::read_dir(&group).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut leaves: Vec<_> = names.filter(|name| name.starts_with('w')).collect();
        leaves.sort();
        leaves
    };
    assert_eq!(leaves(), ["w2"]);
    assert_eq!(fs::read(state.join("spare/result.0")).unwrap(), b"");

    let second = harness.run(&installed, None, &[("DATA", "two")]);
    assert!(leaf(&second).ends_with("w2") && lines(&second)[1].ends_with("/result.0"), "{}", second.stdout);
    assert_eq!((&lines(&second)[2..], second.result.as_str()), (&[&*uid, &*uid][..], "two\n"));
    until("no leaf to be there", || leaves().is_empty());

    // Another attempt of an invocation has a file of its own; what is ready stays for the next invocation.
    assert_eq!(harness.release(&installed, InvocationId(2)), Reply::Done);
    let (worker, number) = harness.order_in(&installed, InvocationId(9), (None, None), &[]);
    let begun = harness.finish(worker, number);
    let (worker, number) = harness.order_in(&installed, InvocationId(9), (None, None), &[]);
    let again = harness.finish(worker, number);
    let files = [&begun, &again].map(|run| lines(run)[1].rsplit('/').next().unwrap().to_owned());
    assert_eq!(files, ["result.0".to_owned(), format!("result.{worker}")]);

    // A launcher that is idle ends after a while, and nothing of the function is left.
    assert_eq!(harness.release(&installed, InvocationId(9)), Reply::Done);
    assert_eq!(leaves().len(), 1);
    until("the function's cgroup to be gone", || !group.exists());
    until("its result file to be gone", || !state.join("spare/result.0").exists());
}

/// R7: the start waits at fnd and begins later, in a cgroup that is there.
#[test]
fn a_start_whose_cgroup_somebody_removed_is_the_nodes_fault() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("again.sh", SCRIPT, "");
    let first = harness.run(&installed, None, &[]);
    until("the leaf of a run that ended to be gone", || !leaf(&first).exists());
    assert_eq!(harness.release(&installed, InvocationId(1)), Reply::Done);
    fs::remove_dir(leaf(&first).with_file_name("w2")).unwrap();
    let (worker, number) = harness.order(&installed, None, &[]);
    match harness.answer(number).0 {
        Reply::NodeCannotStart(failed) => assert_eq!(failed.worker.0, worker),
        other => panic!("{other:?}"),
    }
    let again = harness.run(&installed, None, &[]);
    assert_eq!(again.exited.status, ExitStatus::Code(0), "{}", again.stderr);
}
