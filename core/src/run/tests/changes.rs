use super::bench::*;
use super::pool::{handler, pool};
use crate::run::{Action, Event, Rules};
use fnd_wire::frame::ExitStatus::Code;
use fnd_wire::ids::Version;

/// Returns what the last event has said of the function, in order.
fn said(b: &Bench) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Known(_) => Some("known".to_owned()),
        Action::Gone(_) => Some("gone".to_owned()),
        Action::Serves(_, version) => Some(format!("serves {}", version.0[0])),
        Action::CanaryServes(_, version) => Some(format!("canary {}", version.0[0])),
        Action::Refused(_, error) => Some(format!("refused: {}", error.split(':').next_back().unwrap().trim())),
        Action::TrialFailed { version, error, .. } => {
            let why = error.split(':').next_back().unwrap().trim();
            Some(format!("trial of {} failed: {why}", version.0[0]))
        }
        Action::Status(_) => Some("status".to_owned()),
        _ => None,
    };
    b.last.iter().filter_map(word).collect()
}

#[test]
fn each_change_is_said_once_and_before_the_status() {
    let mut b = Bench::new();
    let refused = |error: &str| Event::Refused {
        function: name("f"),
        error: error.to_owned(),
    };
    for (event, expected) in [
        (refused("bad"), &["known", "refused: bad", "status"][..]),
        (refused("bad"), &[]),
        (installed("f", 1, rules()), &["serves 1", "status"]),
        (installed("f", 1, rules()), &[]),
        (refused("bad"), &["refused: bad", "status"]),
        (refused("worse"), &["refused: worse", "status"]),
        (installed("f", 2, rules()), &["serves 2", "status"]),
        (installed("f", 1, rules()), &["serves 1", "status"]),
        (Event::Building(name("f")), &["status"]),
        (Event::Removed(name("f")), &["gone", "status"]),
        (Event::Removed(name("f")), &[]),
        (installed("f", 1, rules()), &["known", "serves 1", "status"]),
        (Event::Removed(name("f")), &["gone", "status"]),
        // Its file is deleted before its first build has ended.
        (Event::Building(name("f")), &["known", "status"]),
        (Event::Removed(name("f")), &["gone", "status"]),
    ] {
        let what = format!("{event:?}");
        b.event(event);
        assert_eq!(said(&b), expected, "{what}");
    }
}

#[test]
fn a_trial_that_failed_and_a_canary_are_said() {
    let mut b = Bench::with(handler(pool()));
    b.submit(1);
    b.ready(1);
    b.answer(1, 1, crate::records::outcome::Reason::Ok);
    b.event(installed("f", 2, handler(pool())));
    b.spawned(2);
    b.exited(exit(2, Code(1)));
    assert_eq!(
        said(&b),
        ["refused: exit code 1", "trial of 2 failed: exit code 1", "status"]
    );
    // A version that can never fit the node fails within the event, each time that somebody asks for it.
    let large = Rules {
        memory: 2048 * MIB,
        ..handler(pool())
    };
    for expected in [&["refused", "trial of 4 failed"][..], &["trial of 4 failed"]] {
        b.event(installed("f", 4, large.clone()));
        let said = said(&b);
        let words: Vec<_> = said.iter().filter_map(|word| Some(word.split_once(':')?.0)).collect();
        assert_eq!(words, expected);
    }
    b.event(super::canary::canary(3, 10, handler(pool())));
    b.spawned(3);
    b.ready(3);
    assert_eq!(said(&b), ["canary 3", "status"]);
    // A person asks for another share, and waits for the answer.
    b.event(super::canary::canary(3, 20, handler(pool())));
    assert_eq!(said(&b), ["canary 3", "status"]);
    b.event(installed("f", 3, handler(pool())));
    assert_eq!(said(&b), ["serves 3", "status"]);
    assert_eq!(b.s.function(&name("f")).unwrap().version, Some(Version([3; 32])));
}

#[test]
fn a_function_whose_file_comes_back_while_it_runs_serves_again() {
    let mut b = Bench::with(rules());
    b.submit(1);
    b.spawned(1);
    b.event(Event::Removed(name("f")));
    assert_eq!(said(&b), ["status"]);
    b.event(installed("f", 1, rules()));
    assert_eq!(said(&b), ["serves 1", "status"]);
}
