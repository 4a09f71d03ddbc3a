//! The disk of the state has an error while fnd runs, so the kernel makes its file system read-only.

use super::full::{call, on_disk};
use super::{check, queue};
use fnd_core::records::outcome::RunState;
use fnd_tests::mount::Mount;
use fnd_tests::{Fnd, require};
use nix::sys::signal::Signal;

fn mount(fnd: &Fnd) -> Mount {
    Mount::of_disk(&fnd.path("disk.img"), &fnd.path("state"))
}

#[test]
fn a_disk_that_becomes_read_only_loses_no_accepted_work() {
    require!(root, cgroup, disk);
    let (mut fnd, disk, gate) = on_disk(mount);
    fnd.launch();
    let mut accepted: Vec<_> = (0..3)
        .map(|n| (fnd.queue("gated", &n.to_string()), n.to_string()))
        .collect();
    let _ = fnd.wait_invocation(accepted[0].0, "to run", |view| view.state == RunState::Running);
    // The next call finds a warm worker, which needs no directory of its own.
    let _ = call(&fnd, "warm", "5");

    disk.fail();
    assert_eq!(queue(&fnd, "6"), None, "{}", fnd.log());
    let _ = call(&fnd, "warm", "7");
    let problem = fnd.wait_problem("the history cannot be written");
    let place = format!("`{}` is on a read-only file system", fnd.path("state/state").display());
    assert!(problem.contains(&place), "{problem}");
    let problem = fnd.wait_problem("the audit cannot be written");
    assert!(problem.contains(&place), "{problem}");
    let doctor = fnd.ctl(&["doctor"]);
    assert!(doctor.out().contains("it is on a read-only file system"), "{doctor}");

    fnd.leave(Signal::SIGKILL);
    fnd.stop_spawner();
    drop(disk);
    let disk = mount(&fnd);
    // The machine boots after such an error. Without that fnd finds that records which had not reached the disk are missing, and
    // asks for `fndctl verify --repair`.
    std::fs::remove_dir_all(fnd.path("run/ledger")).unwrap();
    std::fs::write(gate.join("go"), "").unwrap();
    fnd.launch();
    let (interrupted, _) = accepted.remove(0);
    assert_eq!(fnd.wait_end(interrupted).state, RunState::Interrupted);
    check(&fnd, &accepted);
    assert!(queue(&fnd, "8").is_some(), "{}", fnd.log());
    assert_eq!(fnd.status().problems, Vec::<String>::new());
    fnd.finish();
    drop(disk);
}
