//! Files that are written on request or from time to time: the copy of the ledger, the metrics' text file, and the
//! values that functions share.

use super::talking;
use fnd_tests::tamper::{Fate, Tampering};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{require, wait_until};

fn failing(calls: &str, error: &'static str) -> Tampering {
    Tampering {
        calls: calls.to_owned(),
        paths: Vec::new(),
        fate: Fate::Error(error),
        from: 1,
    }
}

#[test]
fn a_backup_that_cannot_be_written_is_refused_and_leaves_nothing() {
    require!(root, cgroup, strace);
    let fnd = talking();
    for (calls, error) in [("pwrite64", "ENOSPC"), ("pwrite64", "EIO")] {
        let fault = failing(calls, error).attach(&fnd);
        let answer = fnd.client().get("/v1/backup");
        assert!(answer.status.is_server_error(), "{} {}", answer.status, fnd.log());
        drop(fault);
        let names = std::fs::read_dir(fnd.path("state/state")).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert!(
            !names.iter().any(|name| name.to_string_lossy().starts_with("backup")),
            "{names:?}"
        );
        // The ledger could not be written either; fnd tries again within a second or some more.
        wait_until("a backup", PATIENCE, || {
            (fnd.client().get("/v1/backup").status == 200).then_some(())
        });
    }
    fnd.finish();
}

#[test]
fn the_file_of_the_metrics_stays_whole_and_is_written_again() {
    require!(root, cgroup, strace);
    let fnd = talking();
    let directory = fnd.path("metrics");
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join("fnd.prom");
    std::fs::write(&file, "old\n").unwrap();
    let fault = failing("rename,renameat,renameat2", "EIO").attach(&fnd);
    let config = format!("[metrics]\ntextfile = {:?}\n", file.display().to_string());
    std::fs::write(fnd.path("fnd.toml"), config).unwrap();
    assert!(fnd.client().post("/v1/reload", "").status.is_success());
    let problem = fnd.wait_problem("metrics.textfile");
    assert!(problem.contains("fnd.prom"), "{problem}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old\n");
    drop(fault);
    wait_until("the file to be written", PATIENCE, || {
        std::fs::read_to_string(&file).unwrap().contains("fnd_").then_some(())
    });
    wait_until("the problem to be gone", PATIENCE, || {
        fnd.status().problems.is_empty().then_some(())
    });
    let left: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["fnd.prom"]);
    fnd.finish();
}

#[test]
fn the_state_cannot_be_written() {
    require!(root, cgroup, strace);
    let fnd = talking();
    let _ = fnd.ctl(&["state", "set", "shop/a", "1"]).expect_code(0);
    for (calls, error) in [("pwrite64", "ENOSPC"), ("pwrite64", "EIO"), ("fsync,fdatasync", "EIO")] {
        let fault = Tampering {
            paths: vec![fnd.path("state/state/state.db-wal")],
            ..failing(calls, error)
        };
        let fault = fault.attach(&fnd);
        let refused = fnd.ctl(&["state", "set", "shop/a", "2"]).expect_code(7);
        assert!(refused.stderr.contains("the state cannot be used now"), "{refused}");
        let problem = fnd.wait_problem("the state of functions cannot be used");
        assert!(!problem.is_empty());
        // Nothing else waits for it, and values can be read.
        let _ = fnd.ctl(&["state", "get", "shop/a"]).expect_code(0);
        let _ = fnd.ctl(&["invoke", "talks", "-q"]).expect_code(0);
        drop(fault);
        let _ = fnd.ctl(&["state", "set", "shop/a", "3"]).expect_code(0);
        assert_eq!(fnd.ctl(&["state", "get", "shop/a"]).expect_code(0).out(), "3\n");
        wait_until("the problem to be over", PATIENCE, || {
            fnd.status().problems.is_empty().then_some(())
        });
    }
    fnd.finish();
}
