//! Real short writes for every file at once: with a limit on the size of files the kernel writes the part that fits and
//! then fails; and a file system that is full.

use super::{call, check, queue, recovers, talking};
use fnd_tests::{Fnd, require};
use nix::sys::signal::Signal;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// Limits the size of the files that fnd writes; absent: no limit.
fn bound(fnd: &Fnd, bytes: Option<u64>) {
    let pid = Pid::from_raw(fnd.pid().cast_signed()).expect("a pid is not 0");
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(Some(pid), Resource::Fsize, limit).expect("root may limit anybody");
}

#[test]
fn every_file_is_cut_in_the_middle_of_a_write() {
    require!(root, cgroup);
    let mut fnd = talking();
    // Otherwise SIGXFSZ would kill fnd at the limit; a full disk sends no signal.
    let ignoring = ["/bin/sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];
    fnd.start_behind(ignoring.map(str::to_owned).into());
    fnd.replace(Signal::SIGTERM);
    let mut accepted = Vec::new();
    let mut refused = 0;
    // The smallest limits cut status files and slots, the others spools, kept output and the ledger's WAL.
    for (n, bytes) in [1, 7, 100, 300, 1000, 3000, 9000, 20_000, 50_000, 100_001]
        .into_iter()
        .enumerate()
    {
        let words = |more: usize| (n * 10 + more).to_string();
        bound(&fnd, Some(bytes));
        call(&fnd, &words(1));
        for more in 2..5 {
            let words = words(more);
            match queue(&fnd, &words) {
                Some(id) => accepted.push((id, words)),
                None => refused += 1,
            }
        }
        call(&fnd, &words(5));
        assert!(fnd.ended().is_none(), "{bytes}: {}", fnd.log());
        assert!(fnd.status_file("talks").is_some(), "whole, if old");
        bound(&fnd, None);
        recovers(&fnd, &mut accepted, &words(6));
        check(&fnd, &accepted);
        fnd.replace(Signal::SIGKILL);
        check(&fnd, &accepted);
    }
    assert!(refused > 0, "nothing was cut");
    fnd.finish();
}
