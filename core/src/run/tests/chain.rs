//! Functions that call functions.

use super::bench::*;
use crate::records::cause::{CallCause, Cause};
use crate::records::outcome::{Reason, RunState, Trigger};
use crate::records::{Accepted, InvocationRecord, Unfinished};
use crate::run::{Action, Calling, Event, ReplyTo, Restored, Rules, Submit};
use crate::trace::{Span, Trace};
use fnd_wire::frame::ExitStatus;
use fnd_wire::ids::Attempt;
use proptest::prelude::*;
use std::time::Duration;

fn several() -> Rules {
    Rules {
        max_running: 9,
        memory: 10 * MIB,
        ..rules()
    }
}

/// A bench with the functions `a`, `b` and `c`, of which the first invocation of `a` runs in the first worker.
fn bench(rules: &Rules) -> Bench {
    let mut b = Bench::new();
    for function in ["a", "b", "c"] {
        b.event(installed(function, 1, rules.clone()));
    }
    b.submit_of("a", 1);
    b.spawned(1);
    b
}

/// A request of an invocation for a function; the caller waits.
fn call(from: (&str, Option<u128>), to: &str, n: u128) -> Submit {
    Submit {
        calling: Some(Calling {
            function: name(from.0),
            invocation: from.1.map(id),
        }),
        ..submit(to, n)
    }
}

impl Bench {
    fn call(&mut self, from: (&str, Option<u128>), to: &str, n: u128) -> String {
        self.request(call(from, to, n))
    }

    fn queue(&mut self, from: (&str, Option<u128>), to: &str, n: u128) {
        self.enqueue(call(from, to, n));
        self.event(Event::Stored(id(n)));
    }

    /// Returns the invocation that the last event has accepted.
    fn accepted(&self) -> &Accepted {
        let accepted = self.last.iter().find_map(|action| match action {
            Action::Store(accepted) => Some(accepted),
            _ => None,
        });
        accepted.expect("nothing was accepted")
    }

    fn cause(&self) -> CallCause {
        match self.accepted().payload.cause.as_deref() {
            Some(Cause::Call(call)) => call.clone(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_call_names_its_caller_and_continues_the_trace() {
    let mut b = bench(&several());
    assert_eq!(b.call(("a", Some(1)), "b", 2), "note 2; spawn w2 a1 2");
    assert_eq!(b.accepted().trigger, Trigger::Function);
    let expected = CallCause {
        invocation: Some(id(1)),
        function: name("a"),
        depth: 1,
    };
    assert_eq!(b.cause(), expected);
    let trace = b.accepted().payload.trace.clone().unwrap();
    let span = Span::of(None, id(1), Attempt(1));
    assert_eq!((trace.id, trace.parent), (span.trace, span.id));
    // The call's own calls go on in the same trace.
    b.call(("b", None), "c", 3);
    let next = b.accepted().payload.trace.clone().unwrap();
    assert_eq!(
        (next.id, next.parent),
        (trace.id, Span::of(Some(&trace), id(2), Attempt(1)).id)
    );
    assert_eq!((b.cause().invocation, b.cause().depth), (Some(id(2)), 2));
}

#[test]
fn the_caller_is_who_runs_and_a_function_cannot_name_another() {
    let mut b = bench(&several());
    // The only one that runs.
    b.call(("a", None), "c", 2);
    assert_eq!(b.cause().invocation, Some(id(1)));
    b.submit_of("a", 3);
    b.call(("a", None), "c", 4);
    assert_eq!((b.cause().invocation, b.cause().depth), (None, 1), "two run");
    // A trace of one of them says it.
    let span = Span::of(None, id(3), Attempt(1));
    let trace = Trace::of(|name| (name == "traceparent").then(|| span.traceparent()));
    let mut traced = call(("a", None), "c", 5);
    traced.payload.trace.clone_from(&trace);
    b.request(traced);
    assert_eq!(b.cause().invocation, Some(id(3)));
    assert_eq!(b.accepted().payload.trace, trace);
    for other in [2, 77] {
        let said = b.call(("a", Some(other)), "c", 6);
        assert_eq!(said, format!("reply 6: NotRunning({:?})", name("a")), "{other}");
    }
    b.code(1, 0);
    let said = b.call(("a", Some(1)), "c", 6);
    assert!(said.starts_with("reply 6: NotRunning"), "{said}: it has ended");
    b.call(("nobody", None), "c", 7);
    assert_eq!(b.cause().invocation, None);
}

#[test]
fn a_chain_has_at_most_eight_calls() {
    let mut b = Bench::new();
    b.event(installed("a", 1, several()));
    b.submit_of("a", 1);
    b.spawned(1);
    for n in 1..=8 {
        b.call(("a", Some(n)), "a", n + 1);
        assert_eq!(u128::from(b.cause().depth), n);
        b.spawned(u64::try_from(n).unwrap() + 1);
    }
    assert_eq!(b.call(("a", Some(9)), "a", 10), "reply 10: TooLong");
    // Without a name the longest chain counts, so nobody evades the limit by hiding.
    assert_eq!(b.call(("a", None), "a", 10), "reply 10: TooLong");
    let depth = |n| {
        let calling = Calling {
            function: name("a"),
            invocation: Some(id(n)),
        };
        b.s.call_depth(&calling, None)
    };
    assert_eq!(depth(3), Ok((3, Some(id(3)))));
    assert!(depth(9).is_err());
}

#[test]
fn the_end_of_a_caller_ends_what_it_waits_for_and_nothing_else() {
    type How = fn(&mut Bench) -> String;
    let ways: [How; 4] = [
        |b| b.cancel(1),
        |b| b.code(1, 1),
        |b| b.code(1, 0),
        |b| b.wait(secs(180)),
    ];
    for end in ways {
        let mut b = bench(&several());
        let timeout = None;
        b.event(installed("c", 2, Rules { timeout, ..several() }));
        b.call(("a", Some(1)), "b", 2);
        b.spawned(2);
        b.call(("b", Some(2)), "c", 3);
        b.queue(("a", Some(1)), "c", 4);
        b.spawned(3);
        b.spawned(4);
        let actions = end(&mut b);
        assert!(actions.contains("term w2") && actions.contains("term w3"), "{actions}");
        assert!(!actions.contains("term w4"), "nobody waits for 4: {actions}");
    }
}

#[test]
fn a_queued_call_ends_with_its_caller() {
    let one = Rules {
        memory: 10 * MIB,
        ..rules()
    };
    let mut b = bench(&one);
    b.submit_of("b", 9);
    b.spawned(2);
    assert_eq!(b.call(("a", Some(1)), "b", 2), "note 2");
    let actions = b.cancel(1);
    assert!(actions.contains("update 2 cancelled cancelled"), "{actions}");
}

#[test]
fn a_caller_that_leaves_ends_its_running_call() {
    let left = |b: &mut Bench, n| {
        b.event(Event::CallerLeft {
            id: id(n),
            reply: ReplyTo(u64::try_from(n).unwrap()),
        })
    };
    let mut b = bench(&several());
    b.call(("a", Some(1)), "b", 2);
    b.spawned(2);
    assert_eq!(left(&mut b, 2), "term w2");
    // A person's call goes on.
    assert_eq!(left(&mut b, 1), "");
}

#[test]
fn a_call_ends_at_the_end_of_its_callers_time() {
    let mut limited = several();
    limited.deadline = Some(secs(20));
    limited.timeout = None;
    let mut b = bench(&limited);
    b.wait(secs(5));
    let mut longer = several();
    longer.deadline = Some(secs(60));
    b.event(installed("b", 2, longer));
    b.call(("a", Some(1)), "b", 2);
    assert_eq!(b.accepted().deadline_ms, Some(EPOCH_MS + 20_000));
    b.queue(("a", Some(1)), "b", 3);
    // Nobody waits, so the function's own deadline counts; and the timeout of the caller's attempt counts, too.
    b.event(installed("a", 2, several()));
    let stored = b.request(submit("a", 4));
    assert!(stored.contains("spawn"), "{stored}");
    b.call(("a", Some(4)), "b", 5);
    assert_eq!(b.accepted().deadline_ms, Some(EPOCH_MS + 5_000 + 60_000));
    let mut short = several();
    short.timeout = Some(secs(7));
    b.event(installed("c", 2, short));
    b.submit_of("c", 6);
    b.call(("c", Some(6)), "b", 7);
    assert_eq!(b.accepted().deadline_ms, Some(EPOCH_MS + 5_000 + 7_000));
}

#[test]
fn the_end_of_the_callers_time_is_named() {
    let mut b = bench(&several());
    let mut caller = several();
    caller.timeout = Some(secs(7));
    b.event(installed("c", 2, caller));
    b.submit_of("c", 6);
    let mut call = call(("c", Some(6)), "b", 7);
    call.not_before_ms = Some(EPOCH_MS + 60_000);
    b.request(call);
    let actions = b.wait(secs(8));
    let reasons = b.last.iter().filter_map(|action| match action {
        Action::Update(record) if record.id == id(7) => record.reason,
        _ => None,
    });
    let reasons: Vec<Reason> = reasons.collect();
    assert!(
        matches!(reasons.last(), Some(Reason::Deadline | Reason::Cancelled)),
        "{reasons:?} {actions}"
    );
}

#[test]
fn a_call_that_would_wait_for_itself_is_refused() {
    let one = Rules {
        memory: 10 * MIB,
        ..rules()
    };
    let mut b = bench(&one);
    assert_eq!(b.call(("a", Some(1)), "a", 2), "reply 2: WaitsForItself");
    b.call(("a", Some(1)), "b", 3);
    b.spawned(2);
    assert_eq!(b.call(("b", Some(3)), "a", 4), "reply 4: WaitsForItself");
    // A queued call waits for its turn, and one that nobody waits for may wait for anybody.
    b.queue(("b", Some(3)), "a", 5);
    b.queue(("a", Some(1)), "c", 6);
    b.spawned(3);
    assert_eq!(b.call(("c", Some(6)), "a", 7), "note 7", "1 does not wait for 6");
    // With a free place there is nothing to wait for.
    let mut b = bench(&several());
    assert_eq!(b.call(("a", Some(1)), "a", 2), "note 2; spawn w2 a1 2");
}

/// An invocation of which only the table of begun attempts told the ledger.
fn begun(function: &str, n: u128) -> Unfinished {
    let accepted = Accepted {
        function: name(function),
        trigger: Trigger::Function,
        durable: false,
        ..accepted(n)
    };
    let record = InvocationRecord {
        state: RunState::Running,
        started_ms: Some(EPOCH_MS),
        attempts: 1,
        ..InvocationRecord::of(&accepted)
    };
    Unfinished { accepted, record }
}

#[test]
fn an_adopted_call_still_ends_with_its_caller() {
    let mut b = bench(&several());
    b.call(("a", Some(1)), "b", 2);
    b.spawned(2);
    b.event(Event::HandOver);
    let adopted = [1, 2].map(|worker| {
        let worker = fnd_wire::ids::WorkerId(worker);
        let record = serde_json::to_string(&b.s.script_record(worker).unwrap()).unwrap();
        crate::run::Adopted {
            worker,
            record: serde_json::from_str(&record).unwrap(),
            age: Duration::from_secs(1),
            termed: None,
            ended: false,
        }
    });
    let mut next = Bench::new();
    next.now = b.now;
    let [caller, called] = adopted;
    next.restore(Restored {
        adopted: vec![caller.clone(), called.clone()],
        ..Restored::default()
    });
    for function in ["a", "b"] {
        next.event(installed(function, 1, several()));
    }
    next.event(Event::Scanned { whole: true });
    assert_eq!(next.cancel(1), "term w1; term w2; reply 99: done");
    // The ledger knows only that both have begun.
    let mut next = Bench::new();
    next.now = b.now;
    let actions = next.restore(Restored {
        unfinished: vec![begun("a", 1), begun("b", 2)],
        adopted: vec![caller, called.clone()],
        ..Restored::default()
    });
    assert_eq!(actions, "store caller of 2");
    assert_eq!(next.cancel(1), "term w1; term w2; reply 99: done");
    // The caller ended while no fnd ran, and its end is stored.
    let mut next = Bench::new();
    next.now = b.now;
    let actions = next.restore(Restored {
        adopted: vec![called],
        ..Restored::default()
    });
    assert_eq!(actions, "store caller of 2; term w2");
}

#[test]
fn a_lost_spawner_and_a_stop_end_each_for_its_own_reason() {
    let mut b = bench(&several());
    b.call(("a", Some(1)), "b", 2);
    b.spawned(2);
    let actions = b.event(Event::SpawnerLost);
    assert_eq!(actions.matches("interrupted interrupted").count(), 4, "{actions}");
    let mut b = bench(&several());
    b.call(("a", Some(1)), "b", 2);
    b.spawned(2);
    b.event(Event::StopNow);
    b.exited(exit(1, ExitStatus::Signal(9)));
    let actions = b.exited(exit(2, ExitStatus::Signal(9)));
    assert!(actions.starts_with("record interrupted: interrupted"), "{actions}");
}

proptest! {
    /// Against a model of who waits for whom: a call is refused exactly if a function of the chain of waiting callers is
    /// the called one and has no free place.
    #[test]
    fn exactly_the_calls_that_wait_for_themselves_are_refused(
        places in prop::array::uniform3(1..3_u32),
        calls in prop::collection::vec((0..6_usize, 0..3_usize, any::<bool>()), 1..7),
    ) {
        let names = ["a", "b", "c"];
        let mut b = Bench::new();
        for (function, places) in names.iter().zip(places) {
            b.event(installed(function, 1, Rules { max_running: places, memory: 10 * MIB, ..rules() }));
        }
        b.submit_of("a", 1);
        // Of each invocation that runs: its function, and which one waits for it.
        let mut running: Vec<(usize, Option<usize>)> = vec![(0, None)];
        let mut ids = vec![1_u128];
        for (n, (from, to, wait)) in calls.into_iter().enumerate() {
            let from = from % running.len();
            let busy = running.iter().filter(|(function, _)| *function == to).count();
            let is_full = busy >= usize::try_from(places[to]).unwrap();
            let mut chain = vec![running[from].0];
            let mut at = from;
            while let Some(caller) = running[at].1 {
                chain.push(running[caller].0);
                at = caller;
            }
            let number = u128::try_from(n).unwrap() + 2;
            let submit = Submit { wait, ..call((names[running[from].0], Some(ids[from])), names[to], number) };
            let actions = b.request(submit);
            let refused = actions.contains("WaitsForItself");
            prop_assert_eq!(refused, wait && is_full && chain.contains(&to), "{}", actions);
            if is_full && !refused {
                return Ok(()); // it waits in a queue, which the model does not have
            }
            if !refused {
                b.event(Event::Stored(id(number)));
                running.push((to, wait.then_some(from)));
                ids.push(number);
            }
        }
    }
}
