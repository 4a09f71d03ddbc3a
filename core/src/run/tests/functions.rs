//! New, changed and deleted functions; the run of a content by itself; crash loops.

use super::bench::*;
use crate::run::{Action, Event, FunctionState, ReplyTo, Restored, Retry, Rules};
use fnd_wire::ids::{Version, WorkerId};

fn loading() -> Rules {
    Rules {
        run_on_load: true,
        ..rules()
    }
}

fn enable(b: &mut Bench, enabled: bool) -> String {
    b.event(Event::SetEnabled {
        function: name("f"),
        enabled,
        reply: ReplyTo(98),
    })
}

fn statuses(b: &Bench) -> usize {
    let is_status = |action: &&Action| matches!(action, Action::Status(_));
    b.last.iter().filter(is_status).count()
}

fn state(b: &Bench) -> Option<FunctionState> {
    b.s.function(&name("f")).map(|view| view.state)
}

#[test]
fn a_content_runs_by_itself_once_and_never_again() {
    let mut b = Bench::new();
    assert_eq!(b.dropped(1, loading()), "store 1001");
    assert_eq!(b.event(Event::Stored(id(1001))), "spawn w1 a1 1001");
    b.code(1, 0);
    assert_eq!(b.dropped(1, loading()), "");
    assert_eq!(b.dropped(2, loading()), "store 1002");
    b.event(Event::Stored(id(1002)));
    b.code(2, 0);
    assert_eq!(b.dropped(1, loading()), "");
    b.event(Event::Removed(name("f")));
    assert_eq!(b.dropped(1, loading()), "");
}

#[test]
fn a_content_waits_until_the_directories_are_quiet() {
    let mut b = Bench::new();
    assert_eq!(b.event(installed("f", 1, loading())), "");
    // Enabled meanwhile, it still waits.
    enable(&mut b, false);
    assert_eq!(
        enable(&mut b, true),
        "enabled changed; Disabled to Ready; reply 98: done"
    );
    assert_eq!(b.event(installed("f", 2, loading())), "");
    let held = || Event::Quiet([name("f")].into());
    assert_eq!(b.event(held()), "", "it is held");
    enable(&mut b, false);
    enable(&mut b, true);
    assert_eq!(b.event(held()), "");
    assert_eq!(b.event(quiet()), "store 1002");
    assert_eq!(b.event(quiet()), "");
    b.event(installed("g", 3, loading()));
    b.event(Event::Removed(name("g")));
    assert_eq!(b.event(quiet()), "");
}

#[test]
fn what_ran_under_an_earlier_fnd_does_not_run_again() {
    let mut b = Bench::new();
    b.restore(Restored {
        loaded: vec![(name("f"), Version([1; 32]))],
        ..Restored::default()
    });
    assert_eq!(b.dropped(1, loading()), "");
}

#[test]
fn a_disabled_function_runs_by_itself_when_it_is_enabled() {
    let mut b = Bench::new();
    let disabled = vec![name("f")];
    b.restore(Restored {
        disabled,
        ..Restored::default()
    });
    assert_eq!(b.dropped(1, loading()), "");
    assert_eq!(
        enable(&mut b, true),
        "enabled changed; store 1001; Disabled to Ready; reply 98: done"
    );
}

#[test]
fn a_run_by_itself_never_runs_another_content() {
    let mut rules = loading();
    rules.retry = Retry {
        retries: 3,
        ..rules.retry
    };
    let mut b = Bench::new();
    b.dropped(1, rules.clone());
    b.event(Event::Stored(id(1001)));
    b.code(1, 1);
    assert_eq!(b.dropped(2, rules.clone()), "update 1001 failed exit-1; store 1002");
    assert_eq!(b.dropped(3, rules), "store 1003");
    assert_eq!(b.event(Event::Stored(id(1002))), "update 1002 skipped skipped-overlap");
}

#[test]
fn a_run_by_itself_that_could_not_be_stored_is_tried_again() {
    let mut b = Bench::new();
    b.dropped(1, loading());
    b.event(Event::StoreFailed(id(1001)));
    assert_eq!(b.dropped(1, loading()), "store 1001");
}

#[test]
fn the_same_version_again_changes_nothing() {
    let mut b = Bench::with(rules());
    assert_eq!(statuses(&b), 1);
    b.event(installed("f", 1, rules()));
    assert!(b.last.is_empty(), "{:?}", b.last);
}

#[test]
fn disabling_skips_what_is_queued_and_lets_run_what_runs() {
    let mut rules = rules();
    rules.retry.retries = 1;
    let mut b = Bench::with(rules);
    b.submit_stored(1);
    b.submit_stored(2);
    let disabled = "enabled changed; update 2 skipped skipped-disabled; Running to Disabled; reply 98: done";
    assert_eq!(enable(&mut b, false), disabled);
    assert_eq!(enable(&mut b, false), "reply 98: done");
    assert_eq!(b.code(1, 1), "record exit-1: failed exit-1");
    assert_eq!(
        enable(&mut b, true),
        "enabled changed; Disabled to Ready; reply 98: done"
    );
}

#[test]
fn a_person_cannot_enable_what_the_manifest_disables() {
    let mut b = Bench::with(Rules {
        enabled: false,
        ..rules()
    });
    assert_eq!(enable(&mut b, false), "enabled changed; reply 98: done");
    assert_eq!(
        enable(&mut b, true),
        "enabled changed; reply 98: invalid: its manifest says `enabled = false`, or its `nodes` name other machines"
    );
}

#[test]
fn what_waits_for_a_deleted_function_is_given_up_and_what_runs_ends() {
    let mut rules = rules();
    rules.retry.retries = 1;
    let mut b = Bench::with(rules);
    b.submit_stored(1);
    b.submit_stored(2);
    assert_eq!(
        b.event(Event::Removed(name("f"))),
        "follow 2; update 2 skipped skipped-deleted"
    );
    assert_eq!(b.submit(3), "reply 3: no such function");
    assert_eq!(state(&b), Some(FunctionState::Running));
    assert_eq!(b.code(1, 1), "follow 1; record exit-1: failed exit-1");
    assert_eq!(state(&b), None);
}

#[test]
fn a_function_that_reappears_while_its_last_run_ends_goes_on() {
    let mut b = Bench::with(rules());
    b.submit_stored(1);
    b.event(Event::Removed(name("f")));
    b.event(installed("f", 2, rules()));
    b.submit_stored(2);
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; spawn w2 a1 2");
    let view = b.s.function(&name("f")).unwrap();
    assert_eq!((view.runs, view.running, view.queued), (1, 1, 0));
}

#[test]
fn an_invalid_version_leaves_the_old_one_serving() {
    let mut b = Bench::with(rules());
    let refused = || Event::Refused {
        function: name("f"),
        error: "bad".to_owned(),
    };
    b.event(refused());
    assert_eq!((state(&b), statuses(&b)), (Some(FunctionState::Ready), 1));
    b.event(refused());
    assert_eq!(statuses(&b), 0);
    assert_eq!(b.submit(1), "note 1; spawn w1 a1 1");
    b.event(installed("f", 1, rules()));
    assert_eq!(b.s.function(&name("f")).unwrap().error, None);
}

#[test]
fn a_function_is_bad_since_its_first_error() {
    let mut b = Bench::with(rules());
    let refused = |error: &str| Event::Refused {
        function: name("f"),
        error: error.to_owned(),
    };
    let since = |b: &Bench| b.s.function(&name("f")).unwrap().bad_since_ms;
    assert_eq!(since(&b), None);
    let first = b.now.unix_ms;
    b.event(refused("bad"));
    b.wait(secs(9));
    b.event(refused("worse"));
    assert_eq!(since(&b), Some(first));
    b.event(installed("f", 2, rules()));
    assert_eq!(since(&b), None);
    b.event(refused("bad"));
    assert_eq!(since(&b), Some(b.now.unix_ms));
}

#[test]
fn five_workers_that_do_not_start_in_a_minute_are_a_crash_loop() {
    let mut b = Bench::with(rules());
    let fail = |b: &mut Bench, n| {
        b.submit_stored(n);
        b.event(Event::SpawnFailed {
            worker: WorkerId(u64::try_from(n).unwrap()),
            message: "no interpreter".to_owned(),
        })
    };
    for n in 1..=4 {
        assert_eq!(fail(&mut b, n), "record spawn: failed spawn");
    }
    assert_eq!(fail(&mut b, 5), "record spawn: failed spawn; Running to CrashLooping");
    let since = |b: &Bench| b.s.function(&name("f")).unwrap().bad_since_ms;
    assert_eq!(since(&b), Some(b.now.unix_ms));
    // The next start waits for the backoff, and the one after it waits longer.
    assert_eq!(b.submit_stored(6), "reply 6: queued");
    assert_eq!(b.wait(secs(1)), "spawn w6 a1 6");
    fail(&mut b, 6);
    assert_eq!(b.submit_stored(7), "reply 7: queued");
    assert_eq!(b.wait(secs(1)), "");
    assert_eq!(b.wait(secs(1)), "spawn w7 a1 7");
    assert_eq!(b.spawned(7), "CrashLooping to Running");
    assert_eq!(since(&b), None);
}

#[test]
fn a_new_version_ends_a_crash_loop() {
    let mut b = Bench::with(rules());
    for n in 1..=5 {
        b.submit_stored(n);
        b.event(Event::SpawnFailed {
            worker: WorkerId(u64::try_from(n).unwrap()),
            message: String::new(),
        });
    }
    b.submit_stored(6);
    assert_eq!(
        b.event(installed("f", 2, rules())),
        "CrashLooping to Running; spawn w6 a1 6".replace("Running", "Ready")
    );
}

#[test]
fn a_failing_invocation_does_not_change_the_state() {
    let mut b = Bench::with(rules());
    for n in 1..=9 {
        b.submit(n);
        b.code(u64::try_from(n).unwrap(), 1);
        assert_eq!(state(&b), Some(FunctionState::Ready));
    }
    let view = b.s.function(&name("f")).unwrap();
    assert_eq!((view.runs, view.failures), (9, 9));
    assert_eq!(view.last.unwrap().attempt.invocation, id(9));
}
