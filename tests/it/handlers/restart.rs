//! fnd ends while a handler works: after a crash its calls are interrupted, once; a planned stop finishes them.

use super::{ask, is_alive, pid_in, reason, start};
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::Signal;
use std::path::Path;

fn waits(gate: &Path) -> String {
    format!(
        "import os, time
def handler(event, context):
    if event['data'] is None: return os.getpid()
    open(os.environ['TMPDIR'] + '/kept', 'w').close()
    with open('{0}/waiting', 'w') as file: print(os.getpid(), file=file)
    while not os.path.exists('{0}/go'): time.sleep(0.01)
    return 'done'
",
        gate.display()
    )
}

/// Returns the temporary directories of workers; empty if all are removed.
fn temporary(fnd: &Fnd) -> Vec<std::path::PathBuf> {
    fn kept(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                kept(&path, found);
            } else if entry.file_name() == "kept" {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    kept(&fnd.path("run"), &mut found);
    kept(&fnd.path("state"), &mut found);
    found
}

#[test]
fn a_crash_interrupts_a_call_exactly_once() {
    require!(root, cgroup);
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    let gate = fnd.shared_directory("gate");
    fnd.install("works.py", "[limits]\ngrace = \"300ms\"\n", &waits(&gate));
    let before = ask(&fnd, "works", "").as_i64().unwrap();
    let id = start(&fnd, "works", "1");
    assert_eq!(pid_in(&gate.join("waiting")), before);
    assert_eq!(temporary(&fnd).len(), 1);
    fnd.replace(Signal::SIGKILL);
    let view = fnd.wait_end(id);
    assert_eq!(
        (view.state, reason(&view).as_str(), view.attempts),
        (RunState::Interrupted, "interrupted", 1)
    );
    wait_until("the torn worker to be gone", PATIENCE, || {
        (!is_alive(before)).then_some(())
    });
    wait_until("its temporary files to be gone", PATIENCE, || {
        temporary(&fnd).is_empty().then_some(())
    });
    assert_ne!(ask(&fnd, "works", "").as_i64().unwrap(), before);
    // There is only one record, also after another crash.
    fnd.replace(Signal::SIGKILL);
    let again = fnd.invocation(id);
    assert_eq!((again.state, again.attempts), (RunState::Interrupted, 1));
    let records = fnd.history("works").into_iter().filter(|view| view.id == id);
    assert_eq!(records.count(), 1);
    fnd.finish();
}

/// After Ctrl-C the call in flight finishes, idle workers end, and no process remains.
#[test]
fn draining_finishes_calls_and_ends_idle_workers() {
    require!(cgroup);
    let mut fnd = Fnd::start();
    let gate = fnd.shared_directory("gate");
    fnd.install("works.py", "", &waits(&gate));
    fnd.install(
        "rests.py",
        "",
        "import os\ndef handler(event, context): return os.getpid()\n",
    );
    let idle = ask(&fnd, "rests", "").as_i64().unwrap();
    let id = start(&fnd, "works", "1");
    let busy = pid_in(&gate.join("waiting"));
    fnd.signal(Signal::SIGTERM);
    wait_until("the idle worker to leave", PATIENCE, || (!is_alive(idle)).then_some(()));
    assert!(is_alive(busy));
    std::fs::write(gate.join("go"), "").unwrap();
    assert_eq!(fnd.wait_stopped(), Some(0), "{}", fnd.log());
    fnd.launch();
    let view = fnd.invocation(id);
    assert_eq!((view.state, view.attempts), (RunState::Succeeded, 1));
    fnd.finish();
}
