//! A release that gets a share of the calls.

use super::bench::*;
use super::pool::{handler, pool, warm};
use crate::records::outcome::Reason;
use crate::run::{Action, Event, InstalledVersion, Pool, Rules};
use fnd_wire::frame::ExitStatus::Code;
use fnd_wire::ids::{FunctionId, Version};

/// A version of `f` that gets a share of the calls.
pub(super) fn canary(version: u8, percent: u32, rules: Rules) -> Event {
    let installed = Box::new(InstalledVersion {
        function: name("f"),
        id: FunctionId(7),
        version: Version([version; 32]),
        load_key: Version([version; 32]),
        load_id: id(1000 + u128::from(version)),
        rules: rules.into(),
    });
    Event::Canary { installed, percent }
}

/// A handler whose worker 1 has served one call, and whose canary has worker 2 and gets `percent` of the calls.
fn with_canary(percent: u32) -> Bench {
    let mut b = warm();
    assert_eq!(b.event(canary(2, percent, handler(pool()))), "spawn w2");
    assert_eq!(b.ready(2), "");
    b
}

/// Submits, and returns the worker that is called.
fn called(b: &mut Bench, n: u128) -> u64 {
    let words = b.submit(n);
    let worker = words.split("call w").nth(1).unwrap_or_else(|| panic!("{words}"));
    worker[..1].parse().unwrap()
}

/// The versions that serve and get a share, and the counts of the latter.
fn versions(b: &Bench) -> (u8, Option<(u8, u64, u64)>) {
    let view = b.s.function(&name("f")).unwrap();
    let canary = view
        .canary
        .map(|canary| (canary.version.0[0], canary.attempts, canary.failures));
    (view.version.unwrap().0[0], canary)
}

/// The versions of the processes that the last event has started.
fn started(b: &Bench) -> Vec<u8> {
    let version = |action: &Action| match action {
        Action::Spawn(order) => Some(order.version.0[0]),
        _ => None,
    };
    b.last.iter().filter_map(version).collect()
}

/// A script of which four processes may run, and its canary, which gets every call that it can take and may have `most`.
fn scripts(most: u32) -> Bench {
    let with = |max_running| Rules { max_running, ..rules() };
    let mut b = Bench::with(with(4));
    b.event(canary(2, 100, with(most)));
    b
}

#[test]
fn it_gets_its_share_of_the_calls() {
    for (percent, share) in [(1, 2), (10, 20), (25, 50), (50, 100), (99, 198), (100, 200)] {
        let mut b = with_canary(percent);
        let mut own = 0;
        for n in 2..202 {
            let worker = called(&mut b, n);
            own += u32::from(worker == 2);
            b.answer(worker, u64::try_from(n).unwrap(), Reason::Ok);
        }
        assert_eq!(own, share, "{percent} %");
        assert_eq!(versions(&b), (1, Some((2, share.into(), 0))));
    }
}

#[test]
fn the_version_that_serves_is_no_canary() {
    let mut b = warm();
    // As a canary, it would get a worker more, and nobody would take the calls that are not the canary's.
    assert_eq!(b.event(canary(1, 25, handler(pool()))), "");
    assert_eq!(versions(&b), (1, None));
}

#[test]
fn no_call_waits_for_it() {
    let mut b = with_canary(100);
    assert_eq!(called(&mut b, 2), 2);
    // It is busy, so the release that serves takes the call, and a second worker of the canary is started.
    assert_eq!(b.submit(3), "note 3; call w1 #3 a1 3; spawn w3");
    b.answer(1, 3, Reason::Ok);
    assert_eq!(called(&mut b, 4), 1);
    b.answer(1, 4, Reason::Ok);
    b.ready(3);
    assert_eq!(called(&mut b, 5), 3);
}

#[test]
fn calls_that_it_is_owed_end_with_the_share_that_they_are_of() {
    let mut b = with_canary(100);
    // Its worker is busy with the first of these calls, so the others are not its own, and it is owed two.
    assert_eq!(called(&mut b, 2), 2);
    for n in 3..5 {
        assert_eq!(called(&mut b, n), 1);
        b.answer(1, u64::try_from(n).unwrap(), Reason::Ok);
    }
    b.answer(2, 2, Reason::Ok);
    let percent = |b: &Bench| b.s.function(&name("f")).unwrap().canary.unwrap().percent;
    assert_eq!(percent(&b), 100);
    b.event(canary(2, 10, handler(pool())));
    assert_eq!(percent(&b), 10);
    let mut own = 0;
    for n in 5..25 {
        let worker = called(&mut b, n);
        own += u32::from(worker == 2);
        b.answer(worker, u64::try_from(n).unwrap(), Reason::Ok);
    }
    assert_eq!(own, 2, "of 20 calls");
}

#[test]
fn a_fault_of_its_start_meets_no_call() {
    let mut b = with_canary(50);
    assert_eq!(b.exited(exit(2, Code(1))), "forget w2");
    assert_eq!(called(&mut b, 2), 1);
    b.answer(1, 2, Reason::Ok);
    assert_eq!(b.submit(3), "note 3; call w1 #3 a1 3; spawn w3");
    b.answer(1, 3, Reason::Ok);
    b.spawned(3);
    assert_eq!(b.exited(exit(3, Code(1))), "canary failed; forget w3");
    assert_eq!(versions(&b), (1, Some((2, 0, 1))));
    assert_eq!(called(&mut b, 4), 1);
}

#[test]
fn its_failed_attempts_are_told() {
    let mut b = with_canary(100);
    called(&mut b, 2);
    let end = b.answer(2, 2, Reason::Error);
    assert_eq!(end, "canary failed; record error: failed error; reply 2: failed error");
    called(&mut b, 3);
    b.answer(2, 3, Reason::Ok);
    assert_eq!(versions(&b), (1, Some((2, 2, 1))));
}

#[test]
fn it_is_promoted_with_its_workers_and_no_call_is_lost() {
    let mut b = with_canary(50);
    assert_eq!(called(&mut b, 2), 1);
    assert_eq!(called(&mut b, 3), 2);
    assert_eq!(b.event(installed("f", 2, handler(pool()))), "");
    assert_eq!(versions(&b), (2, None));
    assert_eq!(
        b.answer(1, 2, Reason::Ok),
        "record ok: succeeded ok; reply 2: succeeded ok; stop w1"
    );
    b.answer(2, 3, Reason::Ok);
    assert_eq!(called(&mut b, 4), 2);
}

#[test]
fn its_running_calls_end_when_it_is_over() {
    let mut b = with_canary(100);
    assert_eq!(called(&mut b, 2), 2);
    assert_eq!(b.event(Event::CanaryOver(name("f"))), "");
    assert_eq!(versions(&b), (1, None));
    assert_eq!(called(&mut b, 3), 1);
    assert_eq!(
        b.answer(2, 2, Reason::Ok),
        "record ok: succeeded ok; reply 2: succeeded ok; stop w2"
    );
}

#[test]
fn another_version_takes_its_place_and_the_serving_one_may_be_installed_again() {
    let mut b = with_canary(100);
    assert_eq!(b.event(installed("f", 1, handler(pool()))), "");
    assert_eq!(versions(&b).1, Some((2, 0, 0)));
    assert_eq!(b.event(canary(3, 100, handler(pool()))), "stop w2; spawn w3");
    assert_eq!(versions(&b), (1, None));
    b.ready(3);
    assert_eq!(called(&mut b, 2), 3);
    // The file of the function is deleted while a call of its canary runs.
    b.event(Event::Removed(name("f")));
    b.answer(3, 2, Reason::Ok);
    assert!(b.s.function(&name("f")).is_none());
}

#[test]
fn one_that_cannot_be_loaded_gets_no_calls() {
    let mut b = warm();
    b.event(canary(2, 100, handler(pool())));
    b.spawned(2);
    assert_eq!(b.exited(exit(2, Code(1))), "forget w2");
    assert_eq!(versions(&b), (1, None));
    assert_eq!(b.s.function(&name("f")).unwrap().trial.unwrap().failures, 1);
    assert_eq!(called(&mut b, 2), 1);
    assert_eq!(b.event(Event::CanaryOver(name("f"))), "");
    assert!(b.s.function(&name("f")).unwrap().trial.is_none());
}

#[test]
fn a_load_run_needs_room_for_its_own_version_not_for_the_canarys() {
    let with = |memory, run_on_load| Rules {
        memory,
        run_on_load,
        ..rules()
    };
    let mut b = Bench::with(with(700 * MIB, true));
    b.event(canary(2, 100, with(MIB, false)));
    b.event(installed("g", 1, with(700 * MIB, false)));
    let begun = b.request(submit("g", 1));
    assert_eq!(begun, "note 1; spawn w1 a1 1");
    b.spawned(1);
    assert_eq!(b.event(quiet()), "store 1001");
    assert_eq!(b.event(Event::Stored(id(1001))), "", "the canary would fit beside it");
    let end = b.code(1, 0);
    assert!(end.contains("spawn w2 a1 1001"), "{end}");
}

#[test]
fn a_script_gets_its_share_and_its_load_run_is_not_the_canarys() {
    let mut b = Bench::with(rules());
    let on_load = Rules {
        run_on_load: true,
        ..rules()
    };
    assert_eq!(b.event(canary(2, 50, on_load)), "");
    assert_eq!(b.event(quiet()), "");
    let mut versions_run = Vec::new();
    for n in 1..5u64 {
        assert_eq!(
            b.submit(n.into()),
            format!("note {n}; spawn w{n} a1 {n}; Ready to Running").replace("; Ready to Running", "")
        );
        versions_run.extend(started(&b));
        b.spawned(n);
        b.code(n, u8::from(n == 4));
    }
    assert_eq!(versions_run, [1, 2, 1, 2]);
    assert_eq!(versions(&b), (1, Some((2, 2, 1))));
    // Promoted, it runs by itself as every new content does.
    let on_load = Rules {
        run_on_load: true,
        ..rules()
    };
    assert_eq!(b.dropped(2, on_load), "store 1002");
}

#[test]
fn a_script_has_no_more_processes_than_its_own_pool_allows() {
    for (most, expected) in [(1, [2_u8, 1, 1, 1]), (2, [2, 2, 1, 1]), (9, [2, 2, 2, 2])] {
        let mut b = scripts(most);
        for (n, version) in (1..).zip(expected) {
            b.submit(n);
            assert_eq!(started(&b), [version], "call {n} with a pool of {most}");
        }
        b.submit(5);
        assert!(started(&b).is_empty(), "the release that serves allows four of both");
        b.code(1, 0);
        assert_eq!(started(&b), [2], "its place is free again");
    }
}

#[test]
fn claims_that_hold_places_start_no_more_of_a_script_than_its_own_pool_allows() {
    let mut b = scripts(1);
    b.claims = false;
    assert_eq!(b.submit_stored(1), "reply 1: queued; claim 1 a1");
    assert_eq!(b.submit_stored(2), "reply 2: queued; claim 2 a1");
    b.event(Event::Claimed(vec![id(1), id(2)]));
    assert_eq!(started(&b), [2, 1]);
}

#[test]
fn calls_are_not_shared_where_the_mode_changes() {
    let mut b = Bench::with(rules());
    b.event(canary(2, 10, handler(pool())));
    assert_eq!(versions(&b), (2, None));
    let alone = Pool { alone: true, ..pool() };
    b.event(canary(3, 10, handler(alone)));
    assert_eq!(versions(&b), (3, None));
}

#[test]
fn the_end_of_a_canary_does_not_end_the_trial_of_a_newer_version() {
    let mut b = with_canary(50);
    assert_eq!(b.event(installed("f", 3, handler(pool()))), "spawn w3");
    b.event(Event::CanaryOver(name("f")));
    assert!(!b.spawned(3).contains("stop w3"), "{:?}", b.last);
    b.ready(3);
    assert_eq!(versions(&b), (3, None));
}

/// A content of `f` that is installed as another version, because a secret has changed.
fn renewed(content: u8, version: u8) -> Box<InstalledVersion> {
    Box::new(InstalledVersion {
        function: name("f"),
        id: FunctionId(7),
        version: Version([version; 32]),
        load_key: Version([content; 32]),
        load_id: id(1000 + u128::from(version)),
        rules: handler(pool()).into(),
    })
}

/// W6: a new secret reaches the release that serves and its canary, in whichever order they are installed.
#[test]
fn a_new_secret_reaches_the_release_that_serves_and_its_canary() {
    let percent = 50;
    for canary_first in [true, false] {
        let mut b = with_canary(percent);
        let canary = || Event::Canary {
            installed: renewed(2, 12),
            percent,
        };
        if canary_first {
            b.event(canary());
        }
        b.event(Event::Installed(renewed(1, 11)));
        b.event(canary());
        let mut started: u64 = 2;
        for version in [11, 12] {
            let trial = b.s.function(&name("f")).unwrap().trial.unwrap();
            assert_eq!(trial.version, Version([version; 32]), "canary first: {canary_first}");
            // A worker of a trial that was given up ends meanwhile.
            if canary_first && version == 11 {
                started += 1;
                b.spawned(started);
                b.code(started, 0);
            }
            started += 1;
            b.ready(started);
        }
        assert_eq!(versions(&b), (11, Some((12, 0, 0))));
    }
}

#[test]
fn new_code_gives_a_trial_up_for_its_canary() {
    let mut b = with_canary(50);
    b.event(installed("f", 3, handler(pool())));
    b.event(canary(4, 50, handler(pool())));
    assert_eq!(
        b.s.function(&name("f")).unwrap().trial.unwrap().version,
        Version([4; 32])
    );
}
