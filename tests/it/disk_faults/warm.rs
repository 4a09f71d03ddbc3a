//! A slow disk of the state holds up no warm call that is waited for: the thread that answers writes nothing to it.

use fnd_tests::mount::{Mount, is_in_memory};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, tamper, wait_until};

/// All calls that write to a file, or wait until it is written.
const WRITES: &str = "write,writev,pwrite64,pwritev,pwritev2,splice,sendfile,copy_file_range,ftruncate,fallocate,fsync,\
                      fdatasync,sync_file_range,syncfs,msync,renameat,unlinkat";

#[test]
fn the_thread_that_answers_writes_the_in_flight_slots_to_the_run_directory_only() {
    require!(root, cgroup, strace);
    check(Fnd::prepare(&Setup::default()));
}

/// As in `/run`: there the file is mapped.
#[test]
fn the_thread_that_answers_stores_the_in_flight_slots_in_memory_without_a_call() {
    require!(root, cgroup, strace);
    let fnd = Fnd::prepare(&Setup::default());
    let _run = Mount::over(&fnd.path("run"), "16m");
    check(fnd);
}

fn check(mut fnd: Fnd) {
    const CALLS: usize = 20;
    fnd.launch();
    fnd.drop_file("warm.py", "def handler(event, context):\n    return 1\n");
    fnd.wait_ready("warm");
    assert_eq!(fnd.run("warm", "null").0.status, 200);
    let file = fnd.path("log/calls");
    let record = tamper::record(&fnd, WRITES, &file);
    for _ in 0..CALLS {
        assert_eq!(fnd.invoke("warm", "null").status, 200);
    }
    // The ledger's thread writes their records later: then the record shows that writes to the state are seen.
    let wal = fnd.path("state/state/ledger.db-wal").display().to_string();
    let calls = || std::fs::read_to_string(&file).unwrap();
    wait_until("the calls to be stored", PATIENCE, || {
        calls().contains(&wal).then_some(())
    });
    drop(record);
    let record = calls();
    let main = format!("{} ", fnd.pid());
    let of = |below: &str| {
        let path = fnd.path(below).display().to_string();
        let calls = record.lines().filter(|call| call.starts_with(&main));
        calls.filter(|call| call.contains(&path)).collect::<Vec<_>>()
    };
    let slots = of("run/ledger/in-flight").len();
    if is_in_memory(&fnd.path("run")) {
        assert_eq!(slots, 0, "{record}");
    } else {
        // One slot when an attempt begins, and its end before it is answered.
        assert!(slots >= 2 * CALLS, "{record}");
    }
    assert!(of("state/").is_empty(), "{:#?}", of("state/"));
    fnd.finish();
}
