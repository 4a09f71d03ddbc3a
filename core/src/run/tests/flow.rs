//! Groups of functions with a number of attempts together, and the order of invocations with the same value of a key.

use super::bench::*;
use crate::records::{Accepted, InvocationRecord, Payload, Unfinished};
use crate::run::{Adopted, Event, FunctionKind, NodeBudget, Overlap, Pool, Restored, Rules, Submit};
use fnd_manifest::function::route::RequestPlace;
use fnd_wire::ids::WorkerId;

/// Rules of a function with four processes.
fn four() -> Rules {
    Rules {
        max_running: 4,
        memory: 10 * MIB,
        ..rules()
    }
}

fn keyed(per_key: u32) -> Rules {
    let mut rules = four();
    rules.queue.key = Some((RequestPlace::parse("body.customer").unwrap(), per_key));
    rules
}

fn grouped(group: &str) -> Rules {
    let mut rules = four();
    rules.queue.group = Some(group.to_owned());
    rules
}

fn handler(rules: Rules) -> Rules {
    let pool = Pool {
        min: 0,
        most: 4,
        concurrency: 1,
        idle: Some(secs(300)),
        max_invocations: 0,
        max_age: None,
        spare: None,
        load_max: secs(30),
        alone: false,
    };
    Rules {
        kind: FunctionKind::Handler(pool),
        ..rules
    }
}

fn of_customer(n: u128, customer: &str) -> Submit {
    Submit {
        payload: Payload {
            data: Some(format!(r#"{{"customer": "{customer}"}}"#).into_bytes().into()),
            ..Payload::default()
        },
        ..submit("f", n)
    }
}

fn ask(b: &mut Bench, n: u128, customer: &str) -> String {
    b.event(Event::Submit(Box::new(of_customer(n, customer))))
}

/// A bench with the functions `f` and `g` of the group `db`, which has `max` places.
fn two(max: u32, rules: &Rules) -> Bench {
    let mut b = Bench::new();
    b.s.set_groups([("db", max)]);
    b.event(installed("f", 1, rules.clone()));
    b.event(installed("g", 1, rules.clone()));
    b
}

fn held_up(b: &Bench, function: &str) -> Option<(String, usize, usize)> {
    let view = b.s.function(&name(function)).unwrap();
    view.held_up_by
        .map(|(group, taken, max)| (group.to_owned(), taken, max))
}

#[test]
fn runs_of_one_customer_begin_one_after_the_other_and_others_pass_them() {
    let mut b = Bench::with(keyed(1));
    assert_eq!(ask(&mut b, 1, "a"), "note 1; spawn w1 a1 1");
    assert_eq!(ask(&mut b, 2, "a"), "note 2");
    assert_eq!(ask(&mut b, 3, "a"), "note 3");
    assert_eq!(ask(&mut b, 4, "b"), "note 4; spawn w2 a1 4");
    assert_eq!(b.s.function(&name("f")).unwrap().held_back, Some((2, "a")));
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w3 a1 2"
    );
    assert_eq!(
        b.code(3, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w4 a1 3"
    );
    assert_eq!(b.s.function(&name("f")).unwrap().held_back, None);
}

#[test]
fn as_many_of_one_customer_go_on_as_may() {
    let mut b = Bench::with(keyed(2));
    ask(&mut b, 1, "a");
    assert_eq!(ask(&mut b, 2, "a"), "note 2; spawn w2 a1 2");
    assert_eq!(ask(&mut b, 3, "a"), "note 3");
    assert_eq!(
        b.code(2, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w3 a1 3"
    );
}

#[test]
fn a_run_without_the_value_waits_for_none_and_holds_up_none() {
    let mut b = Bench::with(keyed(1));
    assert_eq!(b.submit(1), "note 1; spawn w1 a1 1");
    assert_eq!(b.submit(2), "note 2; spawn w2 a1 2");
    let text = Submit {
        payload: Payload {
            data: Some(b"no JSON".into()),
            ..Payload::default()
        },
        ..submit("f", 3)
    };
    assert_eq!(b.event(Event::Submit(Box::new(text))), "note 3; spawn w3 a1 3");
    assert_eq!(ask(&mut b, 4, "a"), "note 4; spawn w4 a1 4");
}

#[test]
fn a_retry_and_a_poll_keep_their_place() {
    let mut rules = keyed(1);
    rules.retry.retries = 1;
    let mut b = Bench::with(rules);
    ask(&mut b, 1, "a");
    assert_eq!(ask(&mut b, 2, "a"), "note 2");
    assert_eq!(b.code(1, 1), "record exit-1: waiting exit-1");
    assert_eq!(ask(&mut b, 3, "b"), "note 3; spawn w2 a1 3");
    assert_eq!(b.wait(secs(1)), "spawn w3 a2 1");
    assert_eq!(
        b.code(3, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w4 a1 2"
    );
}

#[test]
fn a_cancelled_run_lets_the_next_one_begin() {
    let mut b = Bench::with(keyed(1));
    for n in 1..=3 {
        ask(&mut b, n, "a");
    }
    assert_eq!(
        b.cancel(2),
        "update 2 cancelled cancelled; reply 2: cancelled cancelled; reply 99: done"
    );
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w2 a1 3"
    );
}

#[test]
fn a_delayed_run_takes_its_place_when_its_time_comes() {
    let mut b = Bench::with(keyed(1));
    let later = Submit {
        not_before_ms: Some(EPOCH_MS + 10_000),
        ..of_customer(1, "a")
    };
    assert_eq!(b.event(Event::Submit(Box::new(later))), "note 1");
    assert_eq!(ask(&mut b, 2, "a"), "note 2; spawn w1 a1 2");
    assert_eq!(b.wait(secs(11)), "");
    assert_eq!(ask(&mut b, 3, "a"), "note 3");
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w2 a1 1"
    );
}

#[test]
fn overlap_means_the_customer_where_the_customer_has_no_place() {
    for (overlap, second, other) in [
        (
            Overlap::Skip,
            "note 2; update 2 skipped skipped-overlap; reply 2: skipped skipped-overlap",
            "note 3; spawn w2 a1 3",
        ),
        (Overlap::Reject, "reply 2: rejected Overlap", "note 3; spawn w2 a1 3"),
        (Overlap::Replace, "note 2; term w1", "note 3; spawn w2 a1 3"),
    ] {
        let mut rules = keyed(1);
        rules.queue.overlap = overlap;
        let mut b = Bench::with(rules);
        ask(&mut b, 1, "a");
        b.spawned(1);
        assert_eq!(ask(&mut b, 2, "a"), second, "{overlap:?}");
        assert_eq!(ask(&mut b, 3, "b"), other, "{overlap:?}");
    }
}

#[test]
fn a_replacing_run_ends_the_one_of_its_customer_that_waits_for_a_retry() {
    let mut rules = keyed(1);
    rules.queue.overlap = Overlap::Replace;
    rules.retry.retries = 3;
    let mut b = Bench::with(rules);
    ask(&mut b, 1, "a");
    b.code(1, 1);
    assert_eq!(
        ask(&mut b, 2, "a"),
        "note 2; update 1 failed exit-1; reply 1: failed exit-1; spawn w2 a1 2"
    );
}

#[test]
fn another_key_of_a_new_release_puts_everything_in_its_order() {
    let mut b = Bench::with(four());
    ask(&mut b, 1, "a");
    ask(&mut b, 2, "a");
    for n in 3..=6 {
        ask(&mut b, n, "b");
    }
    // Four run: 1 and 2 of the customer `a`, 3 and 4 of `b`.
    b.event(installed("f", 2, keyed(1)));
    assert_eq!(b.code(3, 0), "record ok: succeeded ok; reply 3: succeeded ok");
    assert_eq!(
        b.code(4, 0),
        "record ok: succeeded ok; reply 4: succeeded ok; spawn w5 a1 5"
    );
    assert_eq!(ask(&mut b, 7, "a"), "note 7");
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; reply 1: succeeded ok");
    assert_eq!(
        b.code(2, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w6 a1 7"
    );
    assert_eq!(b.event(installed("f", 3, four())), "spawn w7 a1 6");
}

#[test]
fn functions_of_a_group_have_its_attempts_together_and_take_turns() {
    let mut b = two(2, &grouped("db"));
    b.event(installed("h", 1, four()));
    assert_eq!(b.submit(1), "note 1; spawn w1 a1 1");
    assert_eq!(b.submit(2), "note 2; spawn w2 a1 2");
    for n in [3, 4] {
        assert_eq!(b.submit(n), format!("note {n}"));
    }
    assert_eq!(b.submit_of("g", 5), "note 5");
    assert_eq!(b.submit_of("g", 6), "note 6");
    assert_eq!(held_up(&b, "f"), Some(("db".to_owned(), 2, 2)));
    assert_eq!(b.submit_of("h", 7), "note 7; spawn w3 a1 7", "it is in no group");
    assert_eq!(held_up(&b, "h"), None);
    // `f` has waited longer than `g`, then each has a turn.
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w4 a1 3"
    );
    assert_eq!(
        b.code(2, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w5 a1 5"
    );
    assert_eq!(
        b.code(4, 0),
        "record ok: succeeded ok; reply 3: succeeded ok; spawn w6 a1 4"
    );
    assert_eq!(
        b.code(5, 0),
        "record ok: succeeded ok; reply 5: succeeded ok; spawn w7 a1 6"
    );
    assert_eq!(held_up(&b, "g"), None);
}

#[test]
fn a_group_bounds_stored_runs_that_are_claimed_first() {
    let mut b = two(1, &grouped("db"));
    b.claims = false;
    for n in 1..=2 {
        b.event(Event::Submit(Box::new(Submit {
            wait: false,
            ..submit("f", n)
        })));
    }
    b.event(Event::Submit(Box::new(Submit {
        wait: false,
        ..submit("g", 3)
    })));
    assert_eq!(b.event(Event::Stored(id(1))), "reply 1: queued; claim 1 a1");
    assert_eq!(b.event(Event::Stored(id(2))), "reply 2: queued");
    assert_eq!(b.event(Event::Stored(id(3))), "reply 3: queued");
    assert_eq!(b.event(Event::Claimed(vec![id(1)])), "spawn w1 a1 1");
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; claim 3 a1");
    // A claim that is not needed any more gives its place back.
    assert_eq!(b.cancel(3), "update 3 cancelled cancelled; reply 99: done; claim 2 a1");
    assert_eq!(b.event(Event::Claimed(vec![id(3), id(2)])), "spawn w2 a1 2");
}

#[test]
fn handlers_of_a_group_start_no_workers_that_could_not_be_called() {
    let mut b = two(1, &handler(grouped("db")));
    assert_eq!(b.submit(1), "note 1; spawn w1");
    b.spawned(1);
    let ready = |b: &mut Bench, worker| {
        b.event(Event::WorkerReady {
            worker: WorkerId(worker),
            concurrency: 1,
            cancels: false,
        })
    };
    assert_eq!(ready(&mut b, 1), "call w1 #1 a1 1");
    assert_eq!(b.submit_of("g", 2), "note 2");
    assert_eq!(b.submit(3), "note 3");
    let answer = |b: &mut Bench, worker, call| {
        b.event(Event::Answered(Box::new(crate::run::Answered {
            worker: WorkerId(worker),
            call,
            reason: crate::records::outcome::Reason::Ok,
            message: String::new(),
            result: None,
        })))
    };
    assert_eq!(
        answer(&mut b, 1, 1),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w2; call w1 #2 a1 3",
        "the place is not kept for a worker that is still coming"
    );
    b.spawned(2);
    assert_eq!(ready(&mut b, 2), "");
    assert_eq!(b.wait(secs(1)), "");
    assert_eq!(
        answer(&mut b, 1, 2),
        "record ok: succeeded ok; reply 3: succeeded ok; call w2 #3 a1 2"
    );
}

#[test]
fn a_canary_and_the_release_count_each_in_its_own_group() {
    let mut b = two(1, &grouped("db"));
    let Event::Installed(canary) = installed("f", 2, grouped("db")) else {
        unreachable!()
    };
    b.event(Event::Canary {
        installed: canary,
        percent: 100,
    });
    assert_eq!(b.submit(1), "note 1; spawn w1 a1 1");
    assert_eq!(b.submit_of("g", 2), "note 2", "the canary has the place");
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w2 a1 2"
    );
}

#[test]
fn a_release_that_leaves_the_group_still_counts_while_it_runs() {
    let mut b = two(1, &grouped("db"));
    b.submit(1);
    assert_eq!(b.submit_of("g", 2), "note 2");
    b.event(installed("f", 2, four()));
    assert_eq!(b.submit(3), "note 3; spawn w2 a1 3");
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w3 a1 2"
    );
}

#[test]
fn a_reload_raises_lowers_and_removes_a_group() {
    let mut b = two(1, &grouped("db"));
    b.submit(1);
    for n in 2..=5 {
        b.submit(n);
    }
    b.s.set_groups([("db", 3)]);
    assert_eq!(b.event(Event::Tick), "spawn w2 a1 2; spawn w3 a1 3");
    b.s.set_groups([]);
    assert_eq!(b.event(Event::Tick), "");
    assert_eq!(
        held_up(&b, "f"),
        Some(("db".to_owned(), 3, 1)),
        "of one that is gone, one runs"
    );
    for worker in 1..=2 {
        b.code(worker, 0);
        assert_eq!(b.s.running(), 3 - usize::try_from(worker).unwrap());
    }
    assert_eq!(
        b.code(3, 0),
        "record ok: succeeded ok; reply 3: succeeded ok; spawn w4 a1 4"
    );
}

#[test]
fn a_function_that_no_longer_waits_gives_its_turn_away() {
    let mut b = two(1, &grouped("db"));
    b.submit(1);
    b.submit(2);
    b.submit_of("g", 3);
    b.cancel(2);
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w2 a1 3"
    );
}

#[test]
fn a_full_budget_holds_up_no_more_than_without_groups() {
    let mut b = two(1, &grouped("db"));
    b.submit(1);
    b.submit_of("g", 2);
    // The group is full, and that does not block the line for the budget.
    b.event(installed("h", 1, rules()));
    assert_eq!(b.submit_of("h", 3), "note 3; spawn w2 a1 3");
}

#[test]
fn a_drain_ends_with_runs_held_up() {
    let mut b = two(1, &{
        let mut rules = grouped("db");
        rules.queue.key = keyed(1).queue.key;
        rules
    });
    for n in 1..=3 {
        b.event(Event::Submit(Box::new(Submit {
            wait: false,
            ..of_customer(n, "a")
        })));
        b.event(Event::Stored(id(n)));
    }
    b.event(Event::Drain);
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; drained");
}

#[test]
fn attempts_that_go_on_over_a_restart_count() {
    let rules = {
        let mut rules = grouped("db");
        rules.queue.key = keyed(1).queue.key;
        rules
    };
    let mut b = two(1, &rules);
    for n in 1..=2 {
        b.event(Event::Submit(Box::new(Submit {
            wait: false,
            ..of_customer(n, "a")
        })));
        b.event(Event::Stored(id(n)));
    }
    let record = b.s.script_record(WorkerId(1)).unwrap();
    let record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    let unfinished: Vec<_> = (1..=2).map(|n| unfinished(&b, n)).collect();
    let mut b = Bench::new();
    b.s.set_groups([("db", 2)]);
    b.restore(Restored {
        unfinished,
        adopted: vec![Adopted {
            worker: WorkerId(1),
            record,
            age: secs(1),
            termed: None,
            ended: false,
        }],
        ..Restored::default()
    });
    b.event(installed("g", 1, rules.clone()));
    assert_eq!(b.submit_of("g", 3), "note 3; spawn w2 a1 3");
    assert_eq!(
        b.event(installed("f", 1, rules)),
        "",
        "the other one of the customer still runs"
    );
    assert_eq!(b.submit_of("g", 4), "note 4", "the adopted attempt has a place");
    assert_eq!(held_up(&b, "g"), Some(("db".to_owned(), 2, 2)));
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; spawn w3 a1 4");
    assert_eq!(
        b.code(3, 0),
        "record ok: succeeded ok; reply 4: succeeded ok; spawn w4 a1 2"
    );
}

fn unfinished(b: &Bench, n: u128) -> Unfinished {
    let record: InvocationRecord = b.s.invocation(id(n)).unwrap();
    let payload = of_customer(n, "a").payload;
    Unfinished {
        accepted: Accepted {
            id: id(n),
            function: name("f"),
            trigger: crate::records::outcome::Trigger::Manual,
            accepted_ms: EPOCH_MS,
            payload,
            durable: true,
            dead_letter: false,
            load_key: None,
            timeout_ms: None,
            not_before_ms: None,
            expires_ms: None,
            deadline_ms: None,
            priority: 0,
            key: None,
            origin: None,
            mark: None,
            files: Vec::new(),
        },
        record,
    }
}

#[test]
fn a_call_that_would_wait_for_its_own_group_or_customer_is_refused() {
    let mut b = two(1, &grouped("db"));
    b.submit(1);
    b.spawned(1);
    let call = |function: &str, n| {
        let calling = crate::run::Calling {
            function: name("f"),
            invocation: Some(id(1)),
        };
        Event::Submit(Box::new(Submit {
            calling: Some(calling),
            ..submit(function, n)
        }))
    };
    assert_eq!(b.event(call("g", 2)), "reply 2: WaitsForItself");
    let mut b = Bench::with(keyed(1));
    ask(&mut b, 1, "a");
    b.spawned(1);
    let Event::Submit(mut submit) = call("f", 2) else {
        unreachable!()
    };
    submit.payload = of_customer(2, "a").payload;
    assert_eq!(b.event(Event::Submit(submit.clone())), "reply 2: WaitsForItself");
    submit.payload = of_customer(2, "b").payload;
    assert_eq!(b.event(Event::Submit(submit)), "note 2; spawn w2 a1 2");
}

#[test]
fn a_replacing_run_touches_no_other_customer_even_if_all_processes_are_busy() {
    let mut rules = keyed(1);
    (rules.queue.overlap, rules.max_running) = (Overlap::Replace, 2);
    let mut b = Bench::with(rules.clone());
    ask(&mut b, 1, "a");
    ask(&mut b, 2, "b");
    b.spawned(1);
    b.spawned(2);
    assert_eq!(ask(&mut b, 3, "b"), "note 3; term w2");
    assert_eq!(ask(&mut b, 4, "c"), "note 4", "it waits for a process");
    // A run that only its customer holds up takes no process.
    let mut b = Bench::with(rules);
    ask(&mut b, 1, "a");
    b.spawned(1);
    assert_eq!(ask(&mut b, 2, "a"), "note 2; term w1");
    assert_eq!(ask(&mut b, 3, "b"), "note 3; spawn w2 a1 3");
}

#[test]
fn a_delayed_run_that_is_being_stored_holds_up_nobody() {
    let mut b = Bench::with(keyed(1));
    let later = Submit {
        wait: false,
        not_before_ms: Some(EPOCH_MS + 10_000),
        ..of_customer(1, "a")
    };
    assert_eq!(b.event(Event::Submit(Box::new(later))), "store 1");
    assert_eq!(ask(&mut b, 2, "a"), "note 2; spawn w1 a1 2");
    assert_eq!(b.event(Event::Stored(id(1))), "reply 1: queued");
    b.code(1, 0);
    assert_eq!(b.wait(secs(11)), "spawn w2 a1 1");
}

#[test]
fn no_call_waits_for_the_group_of_a_canary() {
    let mut b = Bench::new();
    b.s.set_groups([("db", 1)]);
    b.event(installed("f", 1, four()));
    b.event(installed("g", 1, grouped("db")));
    assert_eq!(b.submit_of("g", 1), "note 1; spawn w1 a1 1");
    let Event::Installed(canary) = installed("f", 2, grouped("db")) else {
        unreachable!()
    };
    b.event(Event::Canary {
        installed: canary,
        percent: 50,
    });
    assert_eq!(b.submit(2), "note 2; spawn w2 a1 2");
    assert_eq!(b.submit(3), "note 3; spawn w3 a1 3");
    assert_eq!(b.submit(4), "note 4; spawn w4 a1 4");
    // Once there is room, the canary gets the call that it is owed.
    b.code(1, 0);
    b.submit(5);
    assert_eq!(b.submit_of("g", 6), "note 6", "the canary has the place");
}

#[test]
fn a_function_that_cannot_begin_keeps_no_place_of_its_group() {
    let mut b = Bench::new();
    b.s.set_groups([("db", 2)]);
    let mut rules = handler(grouped("db"));
    rules.max_running = 1;
    if let FunctionKind::Handler(pool) = &mut rules.kind {
        (pool.most, pool.concurrency) = (1, 4);
    }
    b.event(installed("f", 1, rules));
    b.event(installed("g", 1, grouped("db")));
    assert_eq!(b.submit(1), "note 1; spawn w1");
    b.spawned(1);
    // The worker takes one call at once, whatever the manifest allows.
    let ready = Event::WorkerReady {
        worker: WorkerId(1),
        concurrency: 1,
        cancels: false,
    };
    assert_eq!(b.event(ready), "call w1 #1 a1 1");
    assert_eq!(b.submit_of("g", 2), "note 2; spawn w2 a1 2");
    b.submit(3);
    assert_eq!(b.submit_of("g", 4), "note 4");
    assert_eq!(
        b.code(2, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w3 a1 4"
    );
}

#[test]
fn an_end_before_its_function_is_installed_is_announced_with_its_payload() {
    let mut before = Bench::with(rules());
    before.submit(1); // all places are busy
    before.event(Event::Submit(Box::new(Submit {
        wait: false,
        ..of_customer(2, "a")
    })));
    before.event(Event::Stored(id(2)));
    let mut b = Bench::new();
    b.restore(Restored {
        unfinished: vec![unfinished(&before, 2)],
        ..Restored::default()
    });
    assert_eq!(b.cancel(2), "follow 2; update 2 cancelled cancelled; reply 99: done");
}

#[test]
fn a_function_whose_turn_it_is_is_not_held_up_by_its_group() {
    let mut b = two(1, &grouped("db"));
    b.submit(1);
    b.submit_of("g", 2);
    // The node has no room for a worker.
    b.s.set_budget(NodeBudget {
        memory: 1024 * MIB,
        cpu_milli: None,
        workers: 0,
    });
    b.code(1, 0);
    assert_eq!(held_up(&b, "g"), None);
}
