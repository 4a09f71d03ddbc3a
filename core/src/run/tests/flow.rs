//! Groups of functions with a number of attempts together, and the order of invocations with the same value of a key.
//!
//! - `groups`: functions that have a number of attempts together
//! - `keys`: invocations with the same value of a key

mod groups;
mod keys;

use super::bench::*;
use super::pool;
use crate::records::{Accepted, InvocationRecord, Payload, Unfinished};
use crate::run::{Adopted, Event, FunctionKind, Pool, Restored, Rules, Submit};
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
        most: 4,
        ..pool::pool()
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
    b.request(of_customer(n, customer))
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

fn unfinished(b: &Bench, n: u128) -> Unfinished {
    let record: InvocationRecord = b.s.invocation(id(n)).unwrap();
    Unfinished {
        accepted: Accepted {
            payload: of_customer(n, "a").payload,
            ..accepted(n)
        },
        record,
    }
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
        b.enqueue(of_customer(n, "a"));
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
fn an_end_before_its_function_is_installed_is_announced_with_its_payload() {
    let mut before = Bench::with(rules());
    before.submit(1); // all places are busy
    before.enqueue(of_customer(2, "a"));
    before.event(Event::Stored(id(2)));
    let mut b = Bench::new();
    b.restore(Restored {
        unfinished: vec![unfinished(&before, 2)],
        ..Restored::default()
    });
    assert_eq!(b.cancel(2), "follow 2; update 2 cancelled cancelled; reply 99: done");
}
