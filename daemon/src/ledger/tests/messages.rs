//! Messages of NATS: stored with their invocation, ended with it, and given up for another node.

use super::*;
use fnd_core::records::{MessageMark, StreamPlace};
use fnd_core::triggers::nats::delivery::LocalStep;
use fnd_core::triggers::nats::memory::{KnownMessage, MessageMemory};
use std::slice::from_ref;

pub(super) fn mark(sequence: u64) -> MessageMark {
    MessageMark {
        key: format!("claims.{sequence}").into(),
        place: StreamPlace {
            stream: "ORDERS".into(),
            created_ns: 1_795_248_000_123_456_789,
            sequence,
        },
        consumer: "fnd-f".into(),
        ack: "$JS.ACK.ORDERS.fnd-f.1".into(),
        revision: None,
        received_ms: sequence * 1000,
        begun: 0,
        is_accepted: false,
    }
}

/// The invocation of a second, which has the message with this mark.
pub(super) fn of_message(second: u64, mark: MessageMark) -> Accepted {
    Accepted {
        trigger: Trigger::Nats,
        message: Some(Box::new(mark)),
        ..accepted(second, "f")
    }
}

fn known(second: u64, mark: MessageMark, step: LocalStep) -> KnownMessage {
    KnownMessage {
        id: id(second),
        function: name("f"),
        mark,
        step,
        has_begun: false,
        is_interrupted: false,
    }
}

fn read(ledger: &Ledger, sequence: u64) -> Option<KnownMessage> {
    let key = format!("claims.{sequence}").into();
    wait(ledger.opened.reader.message(name("f"), key)).unwrap()
}

fn update(ledger: &Ledger, accepted: &Accepted, state: RunState) {
    ledger.submit(LedgerCommand::Update(Box::new(record(accepted, state))));
}

fn change(ledger: &Ledger, memory: MessageMemory) {
    ledger.submit(LedgerCommand::Messages(memory));
}

/// Waits until the end of an invocation may be told.
fn ended(ledger: &Ledger, of: &Accepted) {
    match ledger.acknowledged.recv_timeout(LIMIT).unwrap() {
        Acknowledged::MessageEnded { id, function } if id == of.id => assert_eq!(function, of.function),
        other => panic!("{other:?}"),
    }
}

fn superseded(ledger: &Ledger, id: InvocationId) -> Option<String> {
    wait(ledger.opened.reader.get(id)).unwrap().unwrap().superseded_by
}

/// The claim of the first attempt of an invocation.
fn claim(accepted: &Accepted) -> InvocationRecord {
    InvocationRecord {
        attempts: 1,
        started_ms: Some(accepted.accepted_ms),
        ..record(accepted, RunState::Running)
    }
}

/// A damaged page may have had the one and not the other.
#[test]
fn a_message_without_its_invocation_is_not_kept_from_the_others() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for second in [1, 2, 3] {
        ledger.store(of_message(second, mark(second))).unwrap();
    }
    ledger.stop();
    let db = rusqlite::Connection::open(state.path().join(FILE)).unwrap();
    let blob = |second: u64| id(second).0.to_be_bytes().to_vec();
    db.execute("DELETE FROM invocation WHERE id = ?1", [blob(1)]).unwrap();
    let sql = "UPDATE invocation SET state = 'failed', reason = 'error', ended_ms = accepted_ms WHERE id = ?1";
    db.execute(sql, [blob(2)]).unwrap();
    drop(db);
    let ledger = Ledger::open(state.path());
    let expected = [known(2, mark(2), LocalStep::Ending), known(3, mark(3), LocalStep::Open)];
    assert_eq!(ledger.opened.messages, expected);
}

#[test]
fn a_message_is_stored_with_its_invocation_and_is_there_after_a_restart() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    ledger.store(of_message(1, mark(7))).unwrap();
    ledger.store(accepted(2, "f")).unwrap();
    assert_eq!(read(&ledger, 7), Some(known(1, mark(7), LocalStep::Open)));
    assert_eq!(read(&ledger, 8), None);
    ledger.stop();

    let ledger = Ledger::open(state.path());
    assert_eq!(ledger.opened.messages, [known(1, mark(7), LocalStep::Open)]);
    let unfinished = ledger.opened.restored.unfinished.iter();
    let messages: Vec<_> = unfinished
        .map(|found| found.accepted.message.as_deref().cloned())
        .collect();
    assert_eq!(messages, [Some(mark(7)), None]);
}

/// The server has the message until its end, and the synced claim comes before its first attempt.
#[test]
fn the_row_of_a_message_is_written_at_once_and_synced_where_the_server_does_not_bring_it_again() {
    let accepted_at_once = MessageMark {
        is_accepted: true,
        ..mark(7)
    };
    let taken_over = MessageMark {
        revision: Some(3),
        begun: 1,
        ..mark(7)
    };
    // Its row is its end, which the server is told of next.
    let never_begins = Accepted {
        skipped: Some((Reason::Input, "no CloudEvent".into())),
        ..of_message(1, mark(7))
    };
    for (message, is_synced) in [
        (of_message(1, mark(7)), false),
        (of_message(1, accepted_at_once), true),
        (of_message(1, taken_over), true),
        (never_begins, true),
    ] {
        let claim = LedgerCommand::Claim(Box::new(claim(&message)));
        let store = LedgerCommand::Store(Box::new(message));
        assert!(store.is_waited_for() && claim.is_synced());
        assert_eq!(store.is_synced(), is_synced);
    }
}

/// With the claim alone, the next fnd would take its attempt for one that has begun.
#[test]
fn a_claim_that_is_taken_back_is_synced_like_the_claim() {
    let message = of_message(1, mark(7));
    let call = Accepted {
        durable: false,
        ..accepted(2, "f")
    };
    for (accepted, state, is_synced) in [
        (&message, RunState::Queued, true),
        (&message, RunState::Waiting, true),
        (&message, RunState::Polling, true),
        (&message, RunState::Running, false),
        (&call, RunState::Queued, false),
    ] {
        let taken_back = LedgerCommand::Update(Box::new(record(accepted, state)));
        assert_eq!(taken_back.is_synced(), is_synced, "{state:?}");
    }
}

/// A first delivery is stored without a look at what the ledger has. If it has the message, the second invocation is told so.
#[test]
fn no_two_invocations_have_the_same_message() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    ledger.store(of_message(1, mark(7))).unwrap();
    // One that never begins is none, either.
    let never_begins = Accepted {
        skipped: Some((Reason::Input, "no CloudEvent".into())),
        ..of_message(2, mark(7))
    };
    for again in [of_message(2, mark(7)), never_begins] {
        ledger.submit(LedgerCommand::Store(Box::new(again)));
        match ledger.acknowledged.recv_timeout(LIMIT).unwrap() {
            Acknowledged::MessageIsKnown(known) if known == id(2) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(ledger.get(id(2)), None);
        assert_eq!(wait(ledger.opened.reader.stored_invocation(id(2))).unwrap(), None);
    }
    assert_eq!(read(&ledger, 7).unwrap().id, id(1));
    // The same message for another function is other work.
    let other = Accepted {
        function: name("g"),
        ..of_message(3, mark(7))
    };
    ledger.store(other).unwrap();
}

/// A commit may have been done although the writer was told otherwise.
#[test]
fn a_message_that_is_stored_twice_is_there_once() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for _ in 0..2 {
        ledger.store(of_message(1, mark(7))).unwrap();
    }
    assert_eq!(read(&ledger, 7), Some(known(1, mark(7), LocalStep::Open)));
}

#[test]
fn an_address_and_a_revision_replace_the_earlier_ones() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let message = of_message(1, mark(7));
    ledger.store(message.clone()).unwrap();
    change(&ledger, MessageMemory::Claimed { id: id(1), revision: 5 });
    assert_eq!(read(&ledger, 7).unwrap().mark.revision, Some(5));
    let ack: Arc<str> = "$JS.ACK.ORDERS.fnd-f.2".into();
    change(
        &ledger,
        MessageMemory::Renewed {
            id: id(1),
            ack: Arc::clone(&ack),
        },
    );
    change(&ledger, MessageMemory::Claimed { id: id(1), revision: 9 });
    let expected = MessageMark {
        ack,
        revision: Some(9),
        ..mark(7)
    };
    assert_eq!(read(&ledger, 7).unwrap().mark, expected);
    // A claim in the ledger says nothing about the register.
    ledger.claim(claim(&message)).unwrap();
    assert_eq!(read(&ledger, 7).unwrap().mark.revision, Some(9));
}

#[test]
fn the_end_of_a_message_is_synced_and_told_again_after_a_restart() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let message = of_message(1, mark(7));
    ledger.store(message.clone()).unwrap();
    let (attempt, end) = super::ended(&message, Reason::Interrupted, None);
    let end = LedgerCommand::Record(Box::new(attempt), Box::new(end));
    assert!(end.is_synced());
    ledger.submit(end);
    ended(&ledger, &message);
    ledger.stop();

    let ledger = Ledger::open(state.path());
    let ending = KnownMessage {
        has_begun: true,
        is_interrupted: true,
        ..known(1, mark(7), LocalStep::Ending)
    };
    assert_eq!(ledger.opened.messages, from_ref(&ending));
    let step = LocalStep::Closed;
    change(&ledger, MessageMemory::Step { id: id(1), step });
    assert_eq!(read(&ledger, 7), Some(KnownMessage { step, ..ending }));
    ledger.stop();
    let ledger = Ledger::open(state.path());
    assert_eq!(ledger.opened.messages, [], "nothing is left to do");
}

/// An end that is stored stays the end, also if a claim of the invocation comes after it.
#[test]
fn a_claim_that_comes_after_the_end_changes_nothing() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for is_one_batch in [true, false] {
        let second = if is_one_batch { 1 } else { 2 };
        let message = of_message(second, mark(second));
        ledger.store(message.clone()).unwrap();
        let end = InvocationRecord {
            ended_ms: Some(9),
            ..record(&message, RunState::Cancelled)
        };
        let end = LedgerCommand::Update(Box::new(end));
        let late = LedgerCommand::Claim(Box::new(claim(&message)));
        if is_one_batch {
            ledger.submit(LedgerCommand::Together(vec![end, late]));
            ended(&ledger, &message);
        } else {
            ledger.submit(end);
            ended(&ledger, &message);
            ledger.submit(late);
        }
        match ledger.acknowledged.recv_timeout(LIMIT).unwrap() {
            Acknowledged::Claimed { ids, result: Ok(()) } if ids == [id(second)] => {}
            other => panic!("{other:?}"),
        }
        let (stands, _) = ledger.get(id(second)).unwrap();
        assert_eq!((stands.state, stands.attempts), (RunState::Cancelled, 0));
        assert_eq!(read(&ledger, second).unwrap().step, LocalStep::Ending);
    }
    ledger.stop();
    let ledger = Ledger::open(state.path());
    assert_eq!(ledger.opened.restored.unfinished.len(), 0);
}

/// A run that repeats the work of a message is no message.
#[test]
fn only_the_end_of_a_message_is_told() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let redrive = Accepted {
        trigger: Trigger::Redrive,
        ..accepted(1, "f")
    };
    ledger.store(redrive.clone()).unwrap();
    update(&ledger, &redrive, RunState::Succeeded);
    // A request that somebody has sent by NATS is in no stream.
    let request = Accepted {
        trigger: Trigger::Nats,
        ..accepted(2, "f")
    };
    ledger.store(request.clone()).unwrap();
    update(&ledger, &request, RunState::Succeeded);
    let message = of_message(3, mark(7));
    ledger.store(message.clone()).unwrap();
    update(&ledger, &message, RunState::Cancelled);
    ended(&ledger, &message);
}

/// With `ack = "accept"` the server has forgotten the message before its run: only this node knows its duplicates.
#[test]
fn a_message_that_is_acknowledged_at_once_is_remembered_beyond_its_end() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let accepted = MessageMark {
        is_accepted: true,
        ..mark(7)
    };
    let message = of_message(1, accepted.clone());
    ledger.store(message.clone()).unwrap();
    ledger.stop();
    let ledger = Ledger::open(state.path());
    assert_eq!(
        ledger.opened.messages,
        [known(1, accepted.clone(), LocalStep::Accepted)]
    );
    let restored = ledger.opened.restored.unfinished[0].accepted.message.as_deref();
    assert_eq!(restored, Some(&accepted));
    let end = InvocationRecord {
        ended_ms: Some(9),
        ..record(&message, RunState::Succeeded)
    };
    ledger.submit(LedgerCommand::Update(Box::new(end)));
    ended(&ledger, &message);
    // fnd is killed before the end is told: the next fnd must not take the message for one that it has claimed.
    let ending = known(1, accepted, LocalStep::Ending);
    assert_eq!(read(&ledger, 7).as_ref(), Some(&ending));
    ledger.stop();
    let ledger = Ledger::open(state.path());
    assert_eq!(ledger.opened.messages, from_ref(&ending));
    let step = LocalStep::Closed;
    change(&ledger, MessageMemory::Step { id: id(1), step });
    assert_eq!(read(&ledger, 7).unwrap().step, step);
    ledger.stop();
    let ledger = Ledger::open(state.path());
    assert_eq!(ledger.opened.messages, [], "nothing is left to do");
}

/// fnd is killed before it has recorded the attempt of the other node.
#[test]
fn an_attempt_that_another_node_has_begun_is_lost_after_a_restart() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let begun = MessageMark { begun: 2, ..mark(7) };
    let message = of_message(1, begun.clone());
    ledger.store(message.clone()).unwrap();
    // This node claims another one, and is killed before it begins.
    let own = of_message(2, mark(8));
    ledger.store(own.clone()).unwrap();
    ledger.claim(claim(&own)).unwrap();
    ledger.stop();
    for _ in 0..2 {
        let ledger = Ledger::open(state.path());
        let unfinished = ledger.opened.restored.unfinished.iter();
        let states: Vec<_> = unfinished
            .map(|found| (found.record.state, found.record.attempts))
            .collect();
        assert_eq!(states, [(RunState::Running, 2), (RunState::Queued, 0)]);
        assert_eq!(ledger.opened.messages[0], known(1, begun.clone(), LocalStep::Open));
        ledger.stop();
    }
}

#[test]
fn only_what_has_not_begun_is_withdrawn_and_all_of_it_is() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let message = of_message(1, mark(7));
    ledger.store(message.clone()).unwrap();
    ledger.claim(claim(&message)).unwrap();
    ledger.submit(LedgerCommand::Withdraw(id(1)));
    assert!(ledger.get(id(1)).is_some(), "its attempt may have begun");
    // It has not, as the supervisor knows.
    update(&ledger, &message, RunState::Queued);
    ledger.submit(LedgerCommand::Withdraw(id(1)));
    assert_eq!(ledger.get(id(1)), None);
    assert_eq!(wait(ledger.opened.reader.stored_invocation(id(1))).unwrap(), None);
    assert_eq!(read(&ledger, 7), None);
    // A retry of the command finds nothing, and the message may come again.
    ledger.submit(LedgerCommand::Withdraw(id(1)));
    ledger.store(of_message(2, mark(7))).unwrap();
    // The end of an invocation that never began stays.
    let skipped = of_message(3, mark(8));
    ledger.store(skipped.clone()).unwrap();
    let end = InvocationRecord {
        ended_ms: Some(9),
        ..record(&skipped, RunState::Cancelled)
    };
    ledger.submit(LedgerCommand::Update(Box::new(end)));
    ended(&ledger, &skipped);
    ledger.submit(LedgerCommand::Withdraw(id(3)));
    assert!(ledger.get(id(3)).is_some());
    // Only the attempts of another node have begun.
    let begun = MessageMark { begun: 2, ..mark(9) };
    ledger.store(of_message(4, begun)).unwrap();
    ledger.submit(LedgerCommand::Withdraw(id(4)));
    assert_eq!((ledger.get(id(4)), read(&ledger, 9)), (None, None));
}

#[test]
fn a_record_that_does_not_count_is_no_dead_letter() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    // It was final here before another node's record was found to count.
    let message = of_message(1, mark(7));
    ledger.store(message.clone()).unwrap();
    let (attempt, end) = super::ended(&message, Reason::Exit(1), None);
    ledger.submit(LedgerCommand::Record(Box::new(attempt), Box::new(end)));
    ended(&ledger, &message);
    assert_eq!(superseded(&ledger, id(1)), None);
    assert_eq!(ledger.opened.writer.dead_letters_of(&name("f")), 1);
    let node: Box<str> = "vm2".into();
    ledger.submit(LedgerCommand::Supersede {
        id: id(1),
        node: node.clone(),
    });
    assert_eq!(superseded(&ledger, id(1)).as_deref(), Some("vm2"));
    assert_eq!(ledger.opened.writer.dead_letters_of(&name("f")), 0);
    assert_eq!(read(&ledger, 7).unwrap().step, LocalStep::Superseded);

    // It ends here because of that. Nobody is told of this end.
    let other = of_message(2, mark(8));
    ledger.store(other.clone()).unwrap();
    let end = InvocationRecord {
        ended_ms: Some(9),
        attempts: 1,
        reason: Some(Reason::Interrupted),
        ..record(&other, RunState::Interrupted)
    };
    ledger.submit(LedgerCommand::Together(vec![
        LedgerCommand::Supersede { id: id(2), node },
        LedgerCommand::Update(Box::new(end)),
    ]));
    assert_eq!(superseded(&ledger, id(2)).as_deref(), Some("vm2"));
    assert_eq!(ledger.opened.writer.dead_letters_of(&name("f")), 0);
    // The other node is silent by now, and this one takes its message over once more.
    let again = of_message(3, MessageMark { begun: 1, ..mark(8) });
    ledger.store(again).unwrap();
    assert_eq!(read(&ledger, 8).unwrap().id, id(3));
    ledger.stop();
    let ledger = Ledger::open(state.path());
    let open: Vec<_> = ledger.opened.messages.iter().map(|known| known.id).collect();
    assert_eq!(open, [id(3)]);
}

#[test]
fn messages_that_are_done_are_forgotten_in_time() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for (second, step) in [
        (1, LocalStep::Closed),
        (2, LocalStep::Superseded),
        (3, LocalStep::Ending),
        (4, LocalStep::Open),
        (5, LocalStep::Closed),
    ] {
        ledger.store(of_message(second, mark(second))).unwrap();
        change(&ledger, MessageMemory::Step { id: id(second), step });
    }
    change(&ledger, MessageMemory::Forget { before_ms: 5000 });
    let left: Vec<_> = (1..=5).filter(|sequence| read(&ledger, *sequence).is_some()).collect();
    assert_eq!(left, [3, 4, 5]);
}
