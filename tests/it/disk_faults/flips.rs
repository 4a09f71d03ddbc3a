//! Single bits of the state that are not what was written: fnd starts and has all else, and says what was wrong. Each bit of the parsers' input is flipped beside them (`in_flight`, `uids`, `record`); here a few go through
//! real starts.

use super::{check, queue, talking, talking_for};
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require};
use fnd_wire::ids::InvocationId;
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};

fn flip(path: &Path, at: usize, bit: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1 << bit;
    fs::write(path, bytes).unwrap();
}

/// Bits in fields of the header, then in the root page, then in the second page.
const FIELDS: [usize; 16] = [0, 16, 18, 19, 21, 28, 31, 39, 47, 55, 59, 95, 100, 104, 107, 4096];

/// Returns a stopped fnd with a ledger that has some runs.
fn stopped(fnd: &mut Fnd) -> (Accepted, Vec<u8>) {
    let mut accepted = Vec::new();
    for n in 0..5 {
        let words = n.to_string();
        accepted.push((queue(fnd, &words).expect("it is accepted"), words));
    }
    check(fnd, &accepted);
    fnd.leave(Signal::SIGTERM);
    let whole = fs::read(fnd.path(LEDGER)).unwrap();
    (accepted, whole)
}

type Accepted = Vec<(InvocationId, String)>;

const LEDGER: &str = "state/state/ledger.db";

fn asides(fnd: &Fnd) -> Vec<PathBuf> {
    let entries = fs::read_dir(fnd.path("state/state")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.to_string_lossy().contains("damaged-"))
        .collect()
}

#[test]
fn a_flipped_bit_of_the_ledger_is_set_aside_or_harmless() {
    require!(root, cgroup);
    let mut fnd = talking();
    let (accepted, whole) = stopped(&mut fnd);
    let ledger = fnd.path(LEDGER);
    let mut set_aside = 0;
    for (n, at) in FIELDS.into_iter().chain([whole.len() / 2, whole.len() - 9]).enumerate() {
        flip(&ledger, at, u8::try_from(n % 8).unwrap());
        fnd.launch();
        let problems = fnd.status().problems;
        if !asides(&fnd).is_empty() {
            set_aside += 1;
            assert!(
                problems.iter().any(|problem| problem.contains("was set aside")),
                "byte {at}: {problems:?}"
            );
        }
        assert!(
            !problems
                .iter()
                .any(|problem| problem.contains("durable work is refused")),
            "byte {at}: {problems:?}"
        );
        check(&fnd, &accepted);
        let more = (queue(&fnd, "7").expect("it is accepted"), "7".to_owned());
        check(&fnd, &[more]);
        fnd.leave(Signal::SIGTERM);
        asides(&fnd).iter().for_each(|path| fs::remove_file(path).unwrap());
        fs::write(&ledger, &whole).unwrap();
    }
    assert!(set_aside > 5, "{set_aside}");
    fnd.launch();
    check(&fnd, &accepted);
    fnd.finish();
}

/// The newest work is in the write-ahead log only. SQLite would take the damaged place for its end.
#[test]
fn a_flipped_bit_of_the_log_after_a_kill_holds_all_work_until_that_is_confirmed() {
    require!(root, cgroup);
    let mut fnd = Fnd::prepare(&Setup::default().detached());
    let gate = fnd.shared_directory("gate");
    let gate = gate.display();
    let counts = format!(
        "# /// fnd\n# on_load = false\n# ///\nuntil [[ -e {gate}/go ]]; do sleep 0.02; done\necho \"$FND_INVOCATION\" >>{gate}/ran\n"
    );
    fnd.drop_file("counts.sh", &counts);
    fnd.launch();
    fnd.wait_ready("counts");
    // The next fnd finds the tables in the file of the ledger: in the log, all would be behind the damage.
    fnd.leave(Signal::SIGTERM);
    fnd.stop_spawner();
    fnd.launch();
    fnd.wait_ready("counts");
    let queued: Vec<_> = (0..8).map(|_| fnd.queue("counts", "")).collect();
    let _ = fnd.wait_invocation(queued[0], "to run", |view| view.state == RunState::Running);
    fnd.leave(Signal::SIGKILL);
    fnd.stop_spawner();
    fs::write(fnd.path("gate/go"), "").unwrap();
    let state = fnd.path("state").display().to_string();
    let log = fnd.path("state/state/ledger.db-wal");
    let length = fs::read(&log).unwrap().len();
    flip(&log, length / 2, 3);
    let verified = fnd.ctl(&["verify", "--state", &state]).expect_code(1);
    assert!(verified.out().contains("its log is damaged after"), "{verified}");
    fnd.launch();
    let problem = fnd.wait_problem("durable work is refused");
    assert!(
        problem.contains("the newest records") && problem.contains("queued work waits"),
        "{problem}"
    );
    assert_eq!(fnd.client().post("/v1/functions/counts/invocations", "").status, 503);
    assert!(!fnd.path("gate/ran").exists(), "nothing runs that may have run");
    let _ = fnd.ctl(&["verify", "--state", &state, "--repair"]);
    // Those that ran at the kill are interrupted; one that was on the damaged page may be missing.
    let ended = queued
        .iter()
        .filter(|id| fnd.client().get(&format!("/v1/invocations/{id}")).status == 200);
    let ended: Vec<_> = ended.map(|id| fnd.wait_end(*id).state).collect();
    assert!(
        ended.len() + 1 >= queued.len() && ended.contains(&RunState::Succeeded),
        "{ended:?}"
    );
    let ran = fs::read_to_string(fnd.path("gate/ran")).unwrap();
    let ran: Vec<_> = ran.lines().collect();
    assert_eq!(
        ran.iter().collect::<std::collections::BTreeSet<_>>().len(),
        ran.len(),
        "each ran once"
    );
    let _ = fnd.wait_end(fnd.queue("counts", ""));
    fnd.finish();
}

#[test]
fn a_ledger_that_fnd_may_not_set_aside_is_refused_untouched() {
    require!(root, cgroup);
    let mut fnd = talking();
    let (accepted, whole) = stopped(&mut fnd);
    fs::write(fnd.path("fnd.toml"), "[history]\non_damage = \"refuse\"\n").unwrap();
    // The spawner, which keeps running, has read the other file.
    fnd.stop_spawner();
    let ledger = fnd.path(LEDGER);
    let mut refused = 0;
    for (n, at) in FIELDS.into_iter().enumerate().step_by(3) {
        flip(&ledger, at, u8::try_from(n % 8).unwrap());
        let damaged = fs::read(&ledger).unwrap();
        let log_start = fnd.log().len();
        match fnd.try_launch(PATIENCE) {
            Some(status) => {
                refused += 1;
                let log = fnd.log()[log_start..].to_owned();
                assert_eq!(status.code(), Some(1), "byte {at}: {log}");
                assert!(
                    log.contains("ledger.db") && log.contains("fndctl verify --repair"),
                    "byte {at}: {log}"
                );
                assert_eq!(fs::read(&ledger).unwrap(), damaged, "byte {at}: it was written to");
            }
            None => {
                check(&fnd, &accepted);
                fnd.leave(Signal::SIGTERM);
            }
        }
        assert_eq!(asides(&fnd), Vec::<PathBuf>::new(), "byte {at}");
        fs::write(&ledger, &whole).unwrap();
    }
    assert!(refused > 2, "{refused}");
    fnd.launch();
    check(&fnd, &accepted);
    fnd.finish();
}

#[test]
fn a_flipped_bit_of_what_is_in_flight_or_ended_costs_nothing_else() {
    require!(root, cgroup);
    // fnd is killed while the attempt is known to run.
    let mut fnd = talking_for("1.5");
    let words = "0".to_owned();
    let mut accepted = vec![(queue(&fnd, &words).expect("it is accepted"), words)];
    check(&fnd, &accepted);
    for (n, share) in [0, 1, 3, 7, 12, 20, 35, 50, 80, 99].into_iter().enumerate() {
        let words = (n + 1).to_string();
        let id = queue(&fnd, &words).expect("it is accepted");
        let _ = fnd.wait_invocation(id, "to run", |view| view.state == RunState::Running);
        let bit = u8::try_from(n % 8).unwrap();
        let ends = n % 2 == 0;
        let file = if ends {
            "state/spawner/exits"
        } else {
            "run/ledger/in-flight"
        };
        fnd.leave(Signal::SIGKILL);
        if ends {
            fnd.stop_spawner();
        }
        let path = fnd.path(file);
        let length = fs::read(&path).map_or(0, |bytes| bytes.len());
        assert!(length > 0, "{file} is empty");
        flip(&path, length * share / 100, bit);
        fnd.launch();
        check(&fnd, &accepted);
        let view = fnd.wait_end(id);
        // The damaged record may say anything about this run, except that it still runs.
        if view.state == RunState::Succeeded {
            accepted.push((id, words));
        }
    }
    fnd.finish();
}
