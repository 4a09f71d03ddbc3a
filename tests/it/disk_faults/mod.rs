//! Each file that fnd writes while writing it fails: fnd goes on or says no, never says yes to what it cannot keep, and is
//! whole again when the fault has gone.
//!
//! Files:
//! - `complete`: every file has a row in the table
//! - `flips`: single bits are wrong
//! - `full`: the disk is full at the start
//! - `rare`: files that are written now and then
//! - `read_only`: the disk becomes read-only while fnd runs
//! - `short`: short writes
//! - `start`: the disk fails at the start
//! - `table`: every file that fnd writes
//! - `warm`: a warm call writes nothing to the disk of the state

mod complete;
mod flips;
mod full;
mod rare;
mod read_only;
mod short;
mod start;
mod table;
mod warm;

use fnd_core::api::Queued;
use fnd_core::records::outcome::RunState;
use fnd_tests::mount::is_in_memory;
use fnd_tests::tamper::{Fate, Tampering};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use fnd_wire::ids::InvocationId;
use nix::sys::signal::Signal;
use std::path::PathBuf;
use table::{Async, ROWS, Row};

/// Prints a little, waits, and prints more, so that some output goes through the spool.
const TALKS: &str = "# /// fnd
# on_load = false
# ///
echo one
sleep 0.15
printf 'padding %0900d\\n' {1..20}
echo three >&2
cat >\"$FND_RESULT\"
";

/// A real fnd with a function that prints.
pub(super) fn talking() -> Fnd {
    talking_for("0.15")
}

/// The same, with a function that takes this many seconds.
pub(super) fn talking_for(seconds: &str) -> Fnd {
    let mut fnd = Fnd::prepare(&Setup::default().detached());
    fnd.drop_file("talks.sh", &TALKS.replace("0.15", seconds));
    fnd.launch();
    fnd.wait_ready("talks");
    fnd
}

/// Checks that a synchronous call gets its own payload as the answer.
fn call(fnd: &Fnd, words: &str) {
    let answer = fnd.invoke("talks", words);
    assert_eq!(
        (answer.status.as_u16(), answer.text().as_str()),
        (200, words),
        "{}",
        fnd.log()
    );
}

/// Sends asynchronous work; a refusal must be 503 with a reason.
fn queue(fnd: &Fnd, words: &str) -> Option<InvocationId> {
    let answer = fnd.client().post("/v1/functions/talks/invocations", words);
    if answer.status == 202 {
        return Some(answer.json::<Queued>().id);
    }
    assert_eq!(answer.status, 503, "{}", answer.text());
    let problem = answer.problem();
    assert!(problem.detail.contains("not accepted"), "{problem:?}");
    None
}

/// Checks that each accepted invocation has run once, with its own payload, and succeeded.
fn check(fnd: &Fnd, accepted: &[(InvocationId, String)]) {
    for (id, words) in accepted {
        let view = fnd.wait_end(*id);
        assert_eq!(
            (view.state, view.attempts),
            (RunState::Succeeded, 1),
            "{view:?} {}",
            fnd.log()
        );
        assert_eq!(fnd.result(*id).text(), *words, "{}", fnd.log());
    }
}

/// Sends requests while the calls of each row fail; then fnd works normally again, also after a kill.
fn rows(paths: &[&str]) {
    let mut fnd = talking();
    let mut accepted = Vec::new();
    let mut number = 0;
    let mut words = || {
        number += 1;
        number.to_string()
    };
    // A table in memory is mapped: no call can fail.
    let is_tried = |row: &&Row| row.path != "run/ledger/in-flight" || !is_in_memory(&fnd.path("run"));
    let rows: Vec<_> = ROWS
        .iter()
        .filter(|row| paths.contains(&row.path))
        .filter(is_tried)
        .collect();
    for row in rows {
        for (calls, error) in row.faults {
            let case = format!("{} {calls} {error}", row.path);
            let log_start = fnd.log().len();
            let fault = tampering(&fnd, row, calls, error).attach(&fnd);
            call(&fnd, &words());
            for _ in 0..3 {
                let words = words();
                let queued = queue(&fnd, &words);
                let expected = row.asynchronous == Async::Accepted;
                assert_eq!(queued.is_some(), expected, "{case}: {}", fnd.log());
                accepted.extend(queued.map(|id| (id, words)));
            }
            if row.path.ends_with("ledger.db") {
                grow(&fnd, &mut accepted);
            }
            for (id, _) in accepted.iter().rev().take(3) {
                fnd.wait_end(*id);
            }
            call(&fnd, &words());
            let report = || format!("{} {:?}", &fnd.log()[log_start..], fnd.status().problems);
            wait_until(&format!("{case}: it to say {:?}", row.says), PATIENCE, || {
                report().contains(row.says).then_some(())
            });
            assert!(fnd.ended().is_none(), "{case}: {}", fnd.log());
            drop(fault);
            recovers(&fnd, &mut accepted, &words());
            check(&fnd, &accepted);
            fnd.replace(Signal::SIGKILL);
            check(&fnd, &accepted);
        }
    }
    fnd.finish();
}

fn tampering(fnd: &Fnd, row: &Row, calls: &str, error: &'static str) -> Tampering {
    let path = match row.path {
        "state/logs/*/*.log" => Some("state/logs/talks/00000000.log"),
        // The file names are not known in advance, so all of these calls fail.
        _ if calls == "splice" || calls == "renameat" => None,
        path => Some(path),
    };
    Tampering {
        calls: calls.to_owned(),
        paths: path.map(|path| fnd.path(path)).into_iter().collect::<Vec<PathBuf>>(),
        fate: Fate::Error(error),
        from: 1,
    }
}

/// Runs enough invocations that SQLite would write its WAL into the database.
fn grow(fnd: &Fnd, accepted: &mut Vec<(InvocationId, String)>) {
    for n in 0..8 {
        let words = format!("\"{}\"", n.to_string().repeat(1 << 20));
        let id = queue(fnd, &words).expect("it can be kept in the log");
        accepted.push((id, words));
    }
}

/// Checks that everything works again by itself after the fault has gone.
fn recovers(fnd: &Fnd, accepted: &mut Vec<(InvocationId, String)>, words: &str) {
    well(fnd);
    let id = wait_until("asynchronous work to be accepted again", PATIENCE, || queue(fnd, words));
    accepted.push((id, words.to_owned()));
    let view = fnd.wait_end(id);
    assert_eq!(view.state, RunState::Succeeded, "{view:?}");
    let lines = fnd.logs(id);
    let count = |stream: &str| lines.iter().filter(|line| line.stream.as_str() == stream).count();
    assert_eq!((count("stdout"), count("stderr")), (21, 1), "{lines:?} {}", fnd.log());
    well(fnd);
}

/// Checks that status and status file become right without another run.
fn well(fnd: &Fnd) {
    wait_until("the status file and the status to be well", PATIENCE, || {
        let file = fnd.status_file("talks")?;
        let runs = fnd.function("talks")?.runs;
        (file["runs"] == runs && fnd.status().problems.is_empty()).then_some(())
    });
}

#[test]
fn the_ledger_cannot_be_written() {
    require!(root, cgroup, strace);
    rows(&["state/state/ledger.db-wal", "state/state/ledger.db"]);
}

#[test]
fn output_cannot_be_written() {
    require!(root, cgroup, strace);
    rows(&["state/state/spool/*", "state/logs/*/*.log"]);
}

#[test]
fn what_is_in_flight_and_statuses_cannot_be_written() {
    require!(root, cgroup, strace);
    rows(&["run/ledger/in-flight", "run/status/.new.json"]);
}

#[test]
fn every_row_with_faults_is_tried() {
    let tried = [
        "state/state/ledger.db-wal",
        "state/state/ledger.db",
        "state/state/spool/*",
        "state/logs/*/*.log",
        "run/ledger/in-flight",
        "run/status/.new.json",
    ];
    for row in ROWS {
        assert_eq!(!row.faults.is_empty(), tried.contains(&row.path), "{}", row.path);
    }
}
