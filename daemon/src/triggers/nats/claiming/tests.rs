//! Claims in the register and in the ledger: the answers in each order, and what happens between them.

use super::super::tests::{
    asked_for_key, at, claim, found, function, open_message, record, up, wanted, wanted_entry, wanted_fenced,
    wrote_claim,
};
use super::*;
use crate::triggers::nats::fact::WriteRefused;
use fnd_core::records::outcome::Reason;
use fnd_core::triggers::nats::memory::MessageMemory;

const ID: InvocationId = InvocationId(1);

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The register has the claim.
    Registered,
    /// The answer of the register is lost, so the claim is read and written anew; the answer to that is a step of its own.
    AnswerLost,
    /// The server refuses to write it.
    Refused,
    /// Another node has the message.
    Elsewhere,
    Stored,
    NotStored,
    LeaseEnds,
    /// The invocation has its final record, which is not on the disk.
    Cancelled,
    /// It is on the disk.
    Ended,
    GivenBack,
}

/// Returns the part that has claimed its message in both places at 11 s, and the number of the request to the register. Its lease was
/// renewed at 10 s.
fn claiming() -> (Messages, u64) {
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.wants(&function("f"), Some(wanted(vec![wanted_fenced("f", "x")])));
    messages.lease.sends(at(10).mono);
    messages.lease.renewed((at(10).mono, at(10).mono));
    messages.take_effects();
    assert!(messages.claim(at(11), &record(ID, Reason::Ok)));
    let (number, _) = wrote_claim(&mut messages, None);
    (messages, number)
}

/// Returns the events for the supervisor in words.
fn events(messages: &mut Messages) -> Vec<String> {
    let effects = messages.take_effects().into_iter();
    let events = effects.filter_map(|effect| match effect {
        MessageEffect::Event(event) => Some(event),
        _ => None,
    });
    let in_words = events.map(|event| match event {
        Event::Claimed(ids) if ids == [ID] => "begins".to_owned(),
        Event::ClaimFailed(ids) if ids == [ID] => "failed".to_owned(),
        Event::ClaimPutOff { id: ID, pause } => format!("put off {pause:?}"),
        Event::Superseded { id: ID, node } => format!("{node} has it"),
        _ => "another event".to_owned(),
    });
    in_words.collect()
}

/// Returns everything that the supervisor hears of a claim while these steps follow one another.
fn heard(steps: &[Step]) -> Vec<String> {
    let (mut messages, mut number) = claiming();
    let (mut now, mut heard) = (at(12), Vec::new());
    for step in steps {
        match step {
            Step::Registered => messages.written(now, number, Ok(5)),
            Step::AnswerLost => {
                messages.written(now, number, Err(WriteRefused::Unknown("away".to_owned())));
                let read = asked_for_key(&mut messages);
                messages.read(now, read, Ok(Some(found(&claim("vm1", ID), 4))));
                (number, _) = wrote_claim(&mut messages, Some(4));
            }
            Step::Refused => messages.written(now, number, Err(WriteRefused::Refused("full".to_owned()))),
            Step::Elsewhere => {
                messages.written(now, number, Err(WriteRefused::Conflict));
                let read = asked_for_key(&mut messages);
                messages.read(now, read, Ok(Some(found(&claim("vm2", InvocationId(2)), 4))));
            }
            Step::Stored | Step::NotStored => {
                let is_stored = matches!(step, Step::Stored);
                let word = if is_stored { "begins" } else { "failed" };
                let told = messages.ledger_answers(now, vec![ID], is_stored);
                heard.extend(told.iter().map(|_| word.to_owned()));
            }
            Step::LeaseEnds => now = at(40),
            Step::Cancelled => messages.ends(&record(ID, Reason::Cancelled)),
            Step::Ended => messages.ended(now, ID),
            Step::GivenBack => messages.withdrawn(now, ID),
        }
        heard.extend(events(&mut messages));
    }
    assert!(!messages.open_claims.is_open(ID));
    heard
}

#[test]
fn the_supervisor_hears_of_each_claim_once_whatever_comes_first() {
    use Step::{AnswerLost, Cancelled, Elsewhere, Ended, GivenBack, LeaseEnds, NotStored, Refused, Registered, Stored};
    let [begins, failed, put_off, refused]: [&[&str]; 4] = [&["begins"], &["failed"], &["put off 1s"], &["put off 5s"]];
    let elsewhere: &[&str] = &["vm2 has it", "put off 1s"];
    for (steps, expected) in [
        (vec![Registered, Stored], begins),
        (vec![Stored, Registered], begins),
        (vec![AnswerLost, Stored, Registered], begins),
        (vec![Stored, AnswerLost, Registered], begins),
        (vec![Registered, NotStored], failed),
        (vec![NotStored, Registered], failed),
        (vec![Refused, Stored], refused),
        (vec![Stored, Refused], refused),
        (vec![Refused, NotStored], refused),
        (vec![NotStored, Refused], refused),
        (vec![Elsewhere, Stored], elsewhere),
        (vec![Stored, Elsewhere], elsewhere),
        (vec![NotStored, Elsewhere], elsewhere),
        (vec![Registered, LeaseEnds, Stored], put_off),
        (vec![Stored, LeaseEnds, Registered], put_off),
        (vec![LeaseEnds, NotStored, Registered], failed),
        (vec![Registered, Cancelled, Stored], put_off),
        (vec![Stored, Cancelled, Registered], put_off),
        (vec![Registered, Cancelled, Ended, Stored], put_off),
        (vec![Stored, Cancelled, Ended, Registered], put_off),
        (vec![Registered, GivenBack, Stored], put_off),
        (vec![Stored, GivenBack, Registered], put_off),
        (vec![GivenBack, Stored, Registered], put_off),
    ] {
        assert_eq!(heard(&steps), expected, "{steps:?}");
    }
}

/// Another attempt must not take its answers for its own.
#[test]
fn nothing_is_claimed_while_answers_are_missing() {
    for is_registered in [true, false] {
        let (mut messages, number) = claiming();
        match is_registered {
            true => messages.written(at(12), number, Ok(5)),
            false => assert!(messages.ledger_answers(at(12), vec![ID], true).is_empty()),
        }
        messages.take_effects();
        assert!(!messages.claim(at(13), &record(ID, Reason::Ok)));
        assert_eq!(events(&mut messages), ["put off 1s"]);
    }
}

#[test]
fn the_ledger_answers_for_other_work_at_once() {
    let (mut messages, _) = claiming();
    let other = InvocationId(2);
    for is_stored in [true, false] {
        assert_eq!(messages.ledger_answers(at(12), vec![other], is_stored), [other]);
    }
    assert_eq!(messages.ledger_answers(at(12), vec![ID, other], true), [other]);
}

#[test]
fn the_revision_of_a_claim_is_stored_before_its_attempt_begins() {
    let (mut messages, number) = claiming();
    assert!(messages.ledger_answers(at(12), vec![ID], true).is_empty());
    messages.written(at(12), number, Ok(5));
    let effects = messages.take_effects();
    assert!(matches!(
        effects[..],
        [
            MessageEffect::Store(MessageMemory::Claimed { id: ID, revision: 5 }),
            MessageEffect::Event(Event::Claimed(_))
        ]
    ));
    assert_eq!(messages.revision(ID), Some(5));
}

/// fnd was stopped in between, and another node may have the message by now.
#[test]
fn an_attempt_whose_lease_ends_before_the_supervisor_hears_of_its_claim_is_put_off() {
    let (mut messages, number) = claiming();
    messages.written(at(12), number, Ok(5));
    let mut told = messages.ledger_answers(at(12), vec![ID], true);
    told.push(InvocationId(2));
    let mut event = Event::Claimed(told);
    messages.take_late(at(13), &mut event);
    assert!(matches!(&event, Event::Claimed(ids) if *ids == [ID, InvocationId(2)]));
    messages.take_late(at(40), &mut event);
    assert!(matches!(&event, Event::Claimed(ids) if *ids == [InvocationId(2)]));
    assert_eq!(events(&mut messages), ["put off 1s"]);
}

/// From then on another node may record the attempt as `interrupted`.
#[test]
fn an_attempt_without_a_lease_begins_before_the_end_that_its_claim_promises_or_not() {
    for (now, told, put_off) in [
        (at(200), vec![ID], Vec::new()),
        (at(201), Vec::new(), vec!["put off 1s".to_owned()]),
    ] {
        let mut messages = open_message(ID);
        up(&mut messages);
        messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "x")])));
        messages.take_effects();
        assert!(messages.claim(at(11), &record(ID, Reason::Ok)));
        let (number, _) = wrote_claim(&mut messages, None);
        messages.written(at(11), number, Ok(5));
        assert_eq!(messages.ledger_answers(now, vec![ID], true), told);
        assert_eq!(events(&mut messages), put_off);
    }
}

/// The place that it has had in its group is free.
#[test]
fn a_claim_that_the_ledger_has_not_stored_makes_room() {
    let (mut messages, number) = claiming();
    messages.written(at(12), number, Ok(5));
    messages.takes_new_room();
    assert_eq!(messages.ledger_answers(at(12), vec![ID], false), [ID]);
    assert!(messages.takes_new_room());
}

/// The bucket is another one, or a later write of the claim was refused.
#[test]
fn a_claim_that_is_doubted_before_the_ledger_answers_is_claimed_again() {
    let (mut messages, number) = claiming();
    messages.written(at(12), number, Ok(5));
    messages.open.get_mut(&ID).unwrap().claim = KnownClaim::Unknown;
    assert!(messages.ledger_answers(at(12), vec![ID], true).is_empty());
    assert_eq!(events(&mut messages), ["put off 1s"]);
}

/// That fnd has the same ledger, and may run it.
#[test]
fn nothing_begins_while_a_copy_of_this_machine_has_the_name() {
    let (mut messages, number) = claiming();
    messages.written(at(12), number, Ok(5));
    messages.name.is_taken = true;
    assert!(messages.ledger_answers(at(12), vec![ID], true).is_empty());
    assert_eq!(events(&mut messages), ["put off 1s"]);
}
