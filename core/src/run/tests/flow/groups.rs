//! Functions that have a number of attempts together.

use super::*;
use crate::records::outcome::Reason;
use crate::run::NodeBudget;

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
        b.enqueue(submit("f", n));
    }
    b.enqueue(submit("g", 3));
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
        b.enqueue(of_customer(n, "a"));
        b.event(Event::Stored(id(n)));
    }
    b.event(Event::Drain);
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; drained");
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
fn a_function_with_a_free_worker_passes_one_that_cannot_be_started() {
    let mut b = Bench::new();
    b.s.set_groups([("db", 1)]);
    b.event(installed("f", 1, handler(grouped("db"))));
    b.event(installed("g", 1, grouped("db")));
    b.event(installed("h", 1, four()));
    assert_eq!(b.submit(1), "note 1; spawn w1");
    assert_eq!(b.ready(1), "call w1 #1 a1 1");
    assert_eq!(b.submit_of("g", 2), "note 2");
    assert_eq!(b.submit(3), "note 3");
    assert_eq!(b.submit_of("h", 4), "note 4; spawn w2 a1 4");
    b.event(Event::NodeCannotStart {
        worker: WorkerId(2),
        message: "no memory".to_owned(),
    });
    assert_eq!(
        b.answer(1, 1, Reason::Ok),
        "record ok: succeeded ok; reply 1: succeeded ok; call w1 #2 a1 3"
    );
    assert_eq!(b.wait(secs(1)), "spawn w3 a1 4");
    b.spawned(3);
    assert_eq!(
        b.answer(1, 2, Reason::Ok),
        "record ok: succeeded ok; reply 3: succeeded ok; spawn w4 a1 2"
    );
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
