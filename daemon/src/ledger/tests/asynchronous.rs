//! Dead letters, payloads that are kept, and keys that last.

use super::*;
use fnd_core::idempotency::{IdempotencyKey, KeyOwner};

fn count(ledger: &Ledger, function: &str) -> u64 {
    ledger.opened.writer.dead_letters_of(&name(function))
}

fn since_ms(ledger: &Ledger) -> Option<u64> {
    ledger.opened.writer.figures().dead_since_ms
}

#[test]
fn asynchronous_work_that_failed_is_a_dead_letter_until_it_is_redriven_or_dropped() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    over(&ledger, 1, "f", Reason::Ok);
    let failed = over(&ledger, 2, "f", Reason::Exit(3));
    over(&ledger, 3, "f", Reason::Interrupted);
    over(&ledger, 4, "f", Reason::Cancelled);
    let called = Accepted {
        durable: false,
        ..accepted(5, "f")
    };
    ledger.submit(LedgerCommand::Store(Box::new(called.clone())));
    end(&ledger, &called, Reason::Exit(3), None);
    let loaded = Accepted {
        trigger: Trigger::Load,
        dead_letter: false,
        ..accepted(6, "f")
    };
    ledger.store(loaded.clone()).unwrap();
    end(&ledger, &loaded, Reason::Exit(3), None);
    let other = over(&ledger, 7, "g", Reason::Timeout);
    assert_eq!(dead(&ledger), [7000, 3000, 2000]);
    assert_eq!((count(&ledger, "f"), count(&ledger, "g")), (2, 1));
    assert_eq!(since_ms(&ledger), Some(2002), "the end of the oldest");

    let letter = wait(ledger.opened.reader.dead_letter(failed.id)).unwrap().unwrap();
    assert_eq!((letter.payload.as_deref(), letter.payload_bytes), (Some("{}"), Some(2)));
    let stored = wait(ledger.opened.reader.stored_invocation(failed.id))
        .unwrap()
        .unwrap();
    assert_eq!((stored.dead, stored.payload.as_ref()), (true, Some(&failed.payload)));

    let again = Accepted {
        trigger: Trigger::Redrive,
        origin: Some(failed.id),
        ..accepted(8, "f")
    };
    ledger.store(again.clone()).unwrap();
    assert_eq!(dead(&ledger), [7000, 3000]);
    ledger.submit(LedgerCommand::DiscardDeadLetter(other.id));
    assert_eq!(dead(&ledger), [3000]);
    // Ended twice, as after a write that was tried again: it does not come back.
    end(&ledger, &failed, Reason::Exit(3), None);
    assert_eq!(dead(&ledger), [3000]);
    ledger.stop();

    let ledger = Ledger::open(state.path());
    assert_eq!(dead(&ledger), [3000]);
    assert_eq!((count(&ledger, "f"), count(&ledger, "g")), (1, 0));
    assert_eq!(since_ms(&ledger), Some(3002));
    let whole = wait(ledger.opened.reader.get(again.id)).unwrap().unwrap();
    assert_eq!(whole.origin, Some(failed.id));
    end(&ledger, &again, Reason::Exit(3), None);
    assert_eq!(dead(&ledger), [8000, 3000]);
}

/// The next fnd ends what the killed one has accepted: what the acceptance says of dead letters holds.
#[test]
fn what_never_becomes_a_dead_letter_is_none_over_a_restart_and_a_second_end() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let slots = [(1, false), (2, true)].map(|(second, dead_letter)| Accepted {
        trigger: Trigger::Schedule,
        dead_letter,
        ..accepted(second, "f")
    });
    for slot in &slots {
        ledger.store(slot.clone()).unwrap();
    }
    ledger.stop();
    let ledger = Ledger::open(state.path());
    let unfinished = &ledger.opened.restored.unfinished;
    let restored: Vec<_> = unfinished.iter().map(|one| one.accepted.dead_letter).collect();
    assert_eq!(restored, [false, true]);
    for slot in slots.iter().chain(&slots) {
        end(&ledger, slot, Reason::Exit(3), None);
        ledger.opened.writer.flush(LIMIT);
    }
    assert_eq!((dead(&ledger), count(&ledger, "f")), (vec![2000], 1));
}

/// Its acceptance was refused by SQLite, so there is no payload to run again.
#[test]
fn durable_work_whose_acceptance_is_not_stored_is_no_dead_letter() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let accepted = accepted(1, "f");
    let waiting = record(&accepted, RunState::Waiting);
    ledger.submit(LedgerCommand::Update(Box::new(waiting)));
    ledger.opened.writer.flush(LIMIT);
    end(&ledger, &accepted, Reason::Exit(3), None);
    assert_eq!((dead(&ledger), count(&ledger, "f")), (Vec::new(), 0));
    assert_eq!(since_ms(&ledger), None);
    let stored = wait(ledger.opened.reader.stored_invocation(accepted.id)).unwrap();
    assert_eq!(stored.unwrap().payload, None);
}

#[test]
fn payloads_are_kept_of_all_but_calls_that_went_well() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for (second, durable, reason, kept) in [
        (1, true, Reason::Ok, true),
        (2, true, Reason::Exit(1), true),
        (3, false, Reason::Exit(1), true),
        (4, false, Reason::Ok, false),
    ] {
        let accepted = Accepted {
            durable,
            ..accepted(second, "f")
        };
        ledger.submit(LedgerCommand::Store(Box::new(accepted.clone())));
        if second % 2 == 0 {
            // Written before it ends, or with its end: it makes no difference.
            ledger.opened.writer.flush(LIMIT);
        }
        end(&ledger, &accepted, reason, None);
        let stored = wait(ledger.opened.reader.stored_invocation(accepted.id))
            .unwrap()
            .unwrap();
        assert_eq!(stored.payload, kept.then_some(accepted.payload), "{second}");
    }
}

#[test]
fn a_key_is_found_as_long_as_its_invocation_is_there() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let of =
        |user, key: &str, content: &'static str| IdempotencyKey::new(KeyOwner::User(user), key, [content.as_bytes()]);
    let keyed = Accepted {
        key: Some(of(7, "k", "x")),
        durable: false,
        priority: -3,
        ..accepted(1, "f")
    };
    ledger.submit(LedgerCommand::Store(Box::new(keyed.clone())));
    end(&ledger, &keyed, Reason::Ok, Some(b"1"));
    let live = Accepted {
        key: Some(of(7, "live", "x")),
        priority: 7,
        ..accepted(2, "f")
    };
    ledger.store(live.clone()).unwrap();
    ledger.stop();
    let ledger = Ledger::open(state.path());
    let found = |function, key| wait(ledger.opened.reader.keyed(name(function), key)).unwrap();
    // Another content is found, too: it is the caller's mistake.
    for content in ["x", "y"] {
        assert_eq!(found("f", of(7, "k", content)), Some((keyed.id, of(7, "k", "x"))));
    }
    assert_eq!(
        (found("g", of(7, "k", "x")), found("f", of(7, "other", "x"))),
        (None, None)
    );
    assert_eq!(found("f", of(8, "k", "x")), None, "the key of another user");
    let [restored] = ledger.opened.restored.unfinished.as_slice() else {
        panic!()
    };
    assert_eq!(
        (restored.accepted.priority, &restored.accepted.key),
        (7, &Some(of(7, "live", "x")))
    );
}

/// A caller waits for it, and a request with the same key does not: that one gets an acceptance, which lasts.
#[test]
fn what_becomes_durable_outlives_fnd_and_may_become_a_dead_letter() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let called = |second: u64| Accepted {
        durable: false,
        dead_letter: false,
        // SQLite has no greater number than `i64::MAX`.
        expires_ms: None,
        key: Some(IdempotencyKey::new(KeyOwner::User(1), &second.to_string(), [])),
        ..accepted(second, "f")
    };
    let all = [1, 2, 3].map(called);
    for one in &all {
        ledger.submit(LedgerCommand::Store(Box::new(one.clone())));
    }
    let [never, dead_letter, unfinished] = &all;
    for (one, dead_letter) in [(never, false), (dead_letter, true), (unfinished, true)] {
        assert_eq!(become_durable(&ledger, one.id, dead_letter), Ok(()));
    }
    let durable = |one: &Accepted| Accepted {
        durable: true,
        dead_letter: true,
        ..one.clone()
    };
    end(&ledger, &durable(never), Reason::Exit(3), None);
    assert_eq!(dead(&ledger), []);
    // The next fnd ends the second run.
    let (copy, next) = killed(state.path());
    let restored = &next.opened.restored.unfinished;
    let restored: Vec<_> = restored.iter().map(|found| found.accepted.clone()).collect();
    assert_eq!(restored, [durable(dead_letter), durable(unfinished)]);
    end(&next, &durable(dead_letter), Reason::Exit(3), None);
    assert_eq!(dead(&next), [2000]);
    next.stop();
    drop(copy);
    ledger.stop();
}

#[test]
fn what_was_not_stored_with_its_key_does_not_become_durable() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    assert!(become_durable(&ledger, id(1), true).is_err(), "there is no row");
    let running = record(&accepted(2, "f"), RunState::Running);
    ledger.submit(LedgerCommand::Update(Box::new(running)));
    assert!(become_durable(&ledger, id(2), true).is_err(), "it has no payload");
    // Another program holds the database.
    let other = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let called = Accepted {
        durable: false,
        key: Some(IdempotencyKey::new(KeyOwner::User(1), "k", [])),
        ..accepted(3, "f")
    };
    ledger.submit(LedgerCommand::Store(Box::new(called.clone())));
    assert!(become_durable(&ledger, called.id, true).is_err());
    drop(other);
    ledger.stop();
    let ledger = Ledger::open(state.path());
    let kept = ledger.get(called.id).map(|(record, _)| record.durable);
    assert_eq!(
        kept,
        Some(false),
        "its acceptance was kept, and what was refused was not"
    );
    ledger.stop();
}

fn become_durable(ledger: &Ledger, id: InvocationId, dead_letter: bool) -> Result<(), Arc<str>> {
    ledger.submit(LedgerCommand::MakeDurable { id, dead_letter });
    match ledger.acknowledged.recv_timeout(LIMIT).unwrap() {
        Acknowledged::Stored { id: stored, result } if stored == id => result,
        other => panic!("{other:?}"),
    }
}
