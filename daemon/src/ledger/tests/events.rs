//! The shares of events: one transaction, events that are remembered, shares that are skipped.

use super::*;
use crate::ledger::command::StoredShares;
use fnd_core::records::outcome::{RunState, Skip};
use fnd_core::run::{Delivered, EventShares, Shares, Taken};

fn shares(key: &str, accepted: Vec<Accepted>, skipped: Vec<Accepted>) -> EventShares {
    let taken = |accepted: &Accepted| Taken {
        id: accepted.id,
        function: accepted.function.clone(),
    };
    EventShares {
        key: key.into(),
        delivered: Delivered {
            invocations: accepted.iter().map(taken).collect(),
            ..Delivered::default()
        },
        accepted,
        skipped: skipped
            .into_iter()
            .map(|accepted| Accepted {
                skipped: Some((Reason::Skipped(Skip::QueueFull), "full".into())),
                ..accepted
            })
            .collect(),
    }
}

/// Stores the shares of events that come at a second; events are remembered for ten.
fn publish(ledger: &Ledger, second: u64, events: Vec<EventShares>) -> StoredShares {
    let shares = Shares {
        number: second,
        accepted_ms: second * 1000,
        events,
    };
    ledger.submit(LedgerCommand::Publish {
        shares: Box::new(shares),
        since_ms: second.saturating_sub(10) * 1000,
    });
    match ledger.acknowledged.recv_timeout(LIMIT).unwrap() {
        Acknowledged::Published { number, result } if number == second => result.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn shares_are_stored_once_for_an_event_that_is_remembered() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let first = publish(
        &ledger,
        1,
        vec![shares(
            "a",
            vec![accepted(1, "f"), accepted(2, "g")],
            vec![accepted(3, "h")],
        )],
    );
    assert_eq!(first.invocations, [(name("f"), id(1)), (name("g"), id(2))]);
    assert_eq!(first.earlier, [None]);
    assert_eq!(ledger.get(id(1)).unwrap().0.state, RunState::Queued);
    // The share that had no room is skipped, and can be redriven.
    let skipped = wait(ledger.opened.reader.stored_invocation(id(3))).unwrap().unwrap();
    assert_eq!(
        (skipped.record.state, skipped.dead, skipped.payload.is_some()),
        (RunState::Skipped, true, true)
    );
    assert_eq!(ledger.opened.writer.dead_letters_of(&name("h")), 1);
    // After a kill too; a new event in the same request is stored.
    let (_copy, killed) = killed(state.path());
    let again = publish(
        &killed,
        5,
        vec![
            shares("a", vec![accepted(4, "f")], vec![]),
            shares("b", vec![accepted(5, "f")], vec![]),
        ],
    );
    let before = again.earlier[0].as_ref().unwrap();
    assert_eq!(
        before.invocations.iter().map(|taken| taken.id).collect::<Vec<_>>(),
        [id(1), id(2)]
    );
    assert_eq!(
        (again.earlier[1].as_ref(), again.invocations),
        (None, vec![(name("f"), id(5))])
    );
    assert!(killed.get(id(4)).is_none());
    killed.stop();
    // One event twice in one request is one event; and an old one is a new one.
    let twice = vec![
        shares("c", vec![accepted(6, "f")], vec![]),
        shares("c", vec![accepted(7, "f")], vec![]),
    ];
    let twice = publish(&ledger, 6, twice);
    assert_eq!(twice.invocations, [(name("f"), id(6))]);
    assert!(twice.earlier[0].is_none() && twice.earlier[1].is_some());
    let later = publish(&ledger, 12, vec![shares("a", vec![accepted(8, "f")], vec![])]);
    assert_eq!((later.earlier, later.invocations.len()), (vec![None], 1));
    ledger.stop();
}
