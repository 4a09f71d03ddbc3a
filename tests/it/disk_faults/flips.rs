//! Single bits of the state that are not what was written: fnd starts and has all else, or says what is wrong and touches
//! nothing. Each bit of the parsers' input is flipped beside them (`in_flight`, `uids`, `record`); here a few go through
//! real starts.

use super::{check, queue, talking, talking_for};
use fnd_core::outcome::State;
use fnd_tests::require;
use fnd_tests::wait::PATIENCE;
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;

fn flip(path: &Path, at: usize, bit: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1 << bit;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_of_the_ledger_is_refused_or_harmless() {
    require!(root, cgroup);
    let mut fnd = talking();
    let mut accepted = Vec::new();
    for n in 0..5 {
        let words = n.to_string();
        accepted.push((queue(&fnd, &words).expect("it is accepted"), words));
    }
    check(&fnd, &accepted);
    fnd.leave(Signal::SIGTERM);
    let ledger = fnd.path("state/state/ledger.db");
    let whole = fs::read(&ledger).unwrap();
    let mut refused = 0;
    // The header's fields, then the root page, then what is in the middle.
    let fields = [0, 16, 18, 19, 21, 28, 31, 39, 47, 55, 59, 95, 100, 104, 107, 4096];
    for (n, at) in fields.into_iter().chain([whole.len() / 2, whole.len() - 9]).enumerate() {
        flip(&ledger, at, u8::try_from(n % 8).unwrap());
        let damaged = fs::read(&ledger).unwrap();
        let said_before = fnd.log().len();
        match fnd.try_launch(PATIENCE) {
            Some(status) => {
                refused += 1;
                let said = fnd.log()[said_before..].to_owned();
                assert_eq!(status.code(), Some(1), "byte {at}: {said}");
                assert!(said.contains("ledger.db"), "byte {at}: {said}");
                assert_eq!(fs::read(&ledger).unwrap(), damaged, "byte {at}: it was written to");
            }
            None => {
                check(&fnd, &accepted);
                fnd.leave(Signal::SIGTERM);
            }
        }
        fs::write(&ledger, &whole).unwrap();
    }
    assert!(refused > 5, "{refused}");
    fnd.launch();
    check(&fnd, &accepted);
    fnd.finish();
}

#[test]
fn a_flipped_bit_of_what_is_in_flight_or_ended_costs_nothing_else() {
    require!(root, cgroup);
    // Seen to run, and killed while it does.
    let mut fnd = talking_for("1.5");
    let words = "0".to_owned();
    let mut accepted = vec![(queue(&fnd, &words).expect("it is accepted"), words)];
    check(&fnd, &accepted);
    for (n, share) in [0, 1, 3, 7, 12, 20, 35, 50, 80, 99].into_iter().enumerate() {
        let words = (n + 1).to_string();
        let id = queue(&fnd, &words).expect("it is accepted");
        let _ = fnd.wait_invocation(id, "to run", |view| view.state == State::Running);
        let bit = u8::try_from(n % 8).unwrap();
        let ends = n % 2 == 0;
        let file = if ends {
            "state/spawner/exits"
        } else {
            "state/state/in-flight"
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
        // Of this one what was damaged may say anything but that it goes on.
        if view.state == State::Succeeded {
            accepted.push((id, words));
        }
    }
    fnd.finish();
}
