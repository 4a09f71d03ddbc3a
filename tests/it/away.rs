//! A functions directory that is away, unreadable or not mounted yet: none of its functions and none of their work is
//! lost.

use fnd_tests::ask::word;
use fnd_tests::mount::Mount;
use fnd_tests::tamper::{Fate, Tampering};
use fnd_tests::wait::{PATIENCE, pause};
use fnd_tests::{Fnd, Setup, now, require, wait_until};
use fnd_wire::ids::InvocationId;
use std::fs;
use std::time::Duration;

/// Waits for a file, then ends; one invocation at a time.
const WORKS: &str = "#!/usr/bin/env bash\n# /// fnd\n# on_load = false\n# [pool]\n# max = 1\n# ///\n\
    while [ ! -e \"$STATE_DIRECTORY/go\" ]; do sleep 0.02; done\necho done\n";
/// Runs once because its file appears.
const ONCE: &str = "#!/usr/bin/env bash\necho once\n";
const MANY: usize = 30;

fn queue(fnd: &Fnd) -> Vec<InvocationId> {
    (0..MANY).map(|n| fnd.queue("works", &n.to_string())).collect()
}

/// Lets the functions run.
fn go(fnd: &Fnd) {
    fs::write(fnd.path("state/home/works/go"), "").unwrap();
}

#[track_caller]
fn all_ended_well(fnd: &Fnd, ids: &[InvocationId]) {
    let reasons: Vec<String> = ids.iter().map(|id| word(&fnd.wait_end(*id).reason)).collect();
    assert!(reasons.iter().all(|reason| reason == "ok"), "{reasons:?}");
}

/// Waits while fnd scans several times, for longer than the half second after which it removes a function. A removal
/// that must not happen has no event to wait for.
fn rescan_repeatedly(fnd: &Fnd) {
    let start = now();
    while start.elapsed() < Duration::from_millis(900) {
        let _ = fnd.ctl(&["reload"]);
        pause();
    }
}

#[test]
fn queued_work_goes_on_over_an_absence() {
    let fnd = Fnd::start_with(&Setup::default().file("works.sh", WORKS).file("once.sh", ONCE));
    fnd.wait_ready("works");
    fnd.wait_run("once");
    let ids = queue(&fnd);
    fs::rename(fnd.path("functions"), fnd.path("elsewhere")).unwrap();
    let _ = fnd.wait_problem("functions");
    rescan_repeatedly(&fnd);
    go(&fnd);
    all_ended_well(&fnd, &ids[..MANY / 2]);
    assert_eq!(fnd.invoke("works", "").status, 200, "new calls are answered, too");
    fs::rename(fnd.path("elsewhere"), fnd.path("functions")).unwrap();
    wait_until("the problem to be gone", PATIENCE, || {
        fnd.status().problems.is_empty().then_some(())
    });
    all_ended_well(&fnd, &ids);
    assert_eq!(fnd.history("once").len(), 1);
    fnd.remove("works.sh");
    fnd.wait_gone("works");
    fnd.finish();
}

/// The directory is away when fnd starts, for example because it is mounted later: queued work stays queued, and
/// nothing runs twice.
#[test]
fn a_start_without_the_directory_loses_nothing() {
    let mut fnd = Fnd::prepare(&Setup::default().file("works.sh", WORKS).file("once.sh", ONCE));
    fnd.launch();
    fnd.wait_ready("works");
    fnd.wait_run("once");
    let ids = queue(&fnd);
    // First an empty directory in its place, as an unmounted file system leaves it, then none at all.
    for there in [true, false] {
        fnd.stop_now();
        fs::rename(fnd.path("functions"), fnd.path("elsewhere")).unwrap();
        if there {
            fs::create_dir(fnd.path("functions")).unwrap();
        }
        fnd.launch();
        let _ = fnd.wait_problem("functions");
        rescan_repeatedly(&fnd);
        // The first invocation was running and has ended; the others wait.
        let mut waiting = ids.iter().skip(2);
        assert!(waiting.all(|id| fnd.invocation(*id).ended_at.is_none()));
        let status = fnd.ctl(&["status"]).out();
        assert!(status.contains("functions"), "{status}");
        assert_eq!(fnd.invoke("works", "").status, 503, "it may be there");
        assert_eq!(fnd.invoke("never-heard-of", "").status, 404);
        if there {
            fs::remove_dir(fnd.path("functions")).unwrap();
        }
        fs::rename(fnd.path("elsewhere"), fnd.path("functions")).unwrap();
        fnd.wait_ready("works");
        wait_until("the problem to be gone", PATIENCE, || {
            fnd.status().problems.is_empty().then_some(())
        });
    }
    go(&fnd);
    all_ended_well(&fnd, &ids[2..]);
    assert_eq!(
        fnd.history("once").len(),
        1,
        "what has run by being there does not run again"
    );
    fnd.finish();
}

/// A function that was deleted while fnd did not run stays deleted, however late its directory appears.
#[test]
fn what_is_not_there_when_the_directory_comes_was_deleted() {
    let mut fnd = Fnd::prepare(&Setup::default().file("works.sh", WORKS).file("stays.sh", WORKS));
    fnd.launch();
    fnd.wait_ready("works");
    let ids = queue(&fnd);
    fnd.stop_now();
    fs::rename(fnd.path("functions"), fnd.path("elsewhere")).unwrap();
    fnd.launch();
    let _ = fnd.wait_problem("functions");
    assert!(fnd.status_file("works").is_some(), "it is not known to be gone");
    fs::remove_file(fnd.path("elsewhere/works.sh")).unwrap();
    fs::rename(fnd.path("elsewhere"), fnd.path("functions")).unwrap();
    assert_eq!(word(&fnd.wait_end(ids[MANY - 1]).reason), "skipped-deleted");
    wait_until("its status file to be gone", PATIENCE, || {
        fnd.status_file("works").is_none().then_some(())
    });
    fnd.finish();
}

/// A directory that is empty on purpose has to be confirmed with `--accept-empty`.
#[test]
fn an_empty_directory_is_accepted_when_somebody_says_so() {
    let fnd = Fnd::start_with(&Setup::default().file("works.sh", WORKS));
    fnd.wait_ready("works");
    let id = fnd.queue("works", "");
    // The old directory is not removed: the new one could get its inode, and fnd would take it for the old one.
    fs::rename(fnd.path("functions"), fnd.path("elsewhere")).unwrap();
    let problem = fnd.wait_problem("functions");
    assert!(problem.contains("does not exist"), "{problem}");
    // There is no directory that could be empty.
    let refused = fnd.ctl(&["reload", "--accept-empty"]).expect_code(8);
    assert!(refused.to_string().contains("does not exist"), "{refused}");
    fs::create_dir(fnd.path("functions")).unwrap();
    let _ = fnd.wait_problem("it is empty");
    assert_eq!(fnd.invocation(id).ended_at, None);
    let metrics = fnd.client().get("/metrics").text();
    assert!(metrics.contains("fnd_problems{code=\"directory-away\"} 1"), "{metrics}");
    let accepted = fnd.ctl(&["reload", "--accept-empty"]).expect_code(0);
    assert!(accepted.out().contains("works: removed"), "{accepted}");
    wait_until("the problem to be gone", PATIENCE, || {
        fnd.status().problems.is_empty().then_some(())
    });
    go(&fnd);
    fnd.finish();
}

/// Errors of the file system and of fnd itself, when fnd opens the directory and when it lists it.
#[test]
fn a_directory_that_cannot_be_read_loses_nothing() {
    require!(strace);
    let fnd = Fnd::start_with(&Setup::default().file("works.sh", WORKS));
    fnd.wait_ready("works");
    let ids = queue(&fnd);
    for (calls, error) in [
        ("getdents64", "EIO"),
        ("openat", "EMFILE"),
        ("openat", "ESTALE"),
        ("statx", "EIO"),
    ] {
        let fault = Tampering {
            calls: calls.to_owned(),
            paths: vec![fnd.path("functions"), fnd.path("functions/works.sh")],
            fate: Fate::Error(error),
            from: 1,
        };
        let attached = fault.attach(&fnd);
        rescan_repeatedly(&fnd);
        let problem = fnd.wait_problem("functions");
        drop(attached);
        assert_ne!(problem, "", "{calls} {error}");
        let _ = fnd.ctl(&["reload"]).expect_code(0);
        wait_until("the problem to be gone", PATIENCE, || {
            fnd.status().problems.is_empty().then_some(())
        });
    }
    go(&fnd);
    all_ended_well(&fnd, &ids);
    fnd.finish();
}

/// A file system is unmounted and mounted again under a running fnd; the directory it is mounted on is empty.
#[test]
fn an_unmounted_file_system_loses_nothing() {
    require!(root);
    let mut fnd = Fnd::prepare(&Setup::default());
    let mount = Mount::over(&fnd.path("functions"), "1m");
    fnd.drop_file("works.sh", WORKS);
    fnd.drop_file("once.sh", ONCE);
    fnd.launch();
    fnd.wait_ready("works");
    fnd.wait_run("once");
    let ids = queue(&fnd);
    // Another file system, still empty, is mounted over it.
    let over = Mount::over(&fnd.path("functions"), "1m");
    let _ = fnd.wait_problem("functions");
    drop(over);
    wait_until("the problem to be gone", PATIENCE, || {
        fnd.status().problems.is_empty().then_some(())
    });
    drop(mount);
    let _ = fnd.wait_problem("functions");
    rescan_repeatedly(&fnd);
    go(&fnd);
    all_ended_well(&fnd, &ids);
    assert_eq!(fnd.history("once").len(), 1);
    fnd.finish();
}

/// The problem is not in the file, so the function serves as soon as the problem has gone.
#[test]
fn a_file_refused_for_want_of_room_serves_when_there_is_room() {
    require!(root);
    let fnd = Fnd::start_with(&Setup::default().file("first.sh", WORKS));
    fnd.wait_ready("first");
    let mount = Mount::over(&fnd.path("state/versions"), "64k");
    let filler = fnd.path("state/versions/filler");
    fs::write(&filler, vec![0; 64 << 10]).unwrap();
    fnd.drop_file("works.sh", WORKS);
    let refused = fnd.wait_error("works");
    let error = refused.error.unwrap_or_default();
    assert!(error.contains("No space left"), "{error}");
    fs::remove_file(&filler).unwrap();
    fnd.wait_ready("works");
    assert_eq!(fnd.function("works").unwrap().error, None);
    drop(mount);
    fnd.finish();
}
