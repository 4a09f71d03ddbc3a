//! Answers of the register about claims, and their effects.

use super::*;
use crate::report::problems::ReportedProblem;
use crate::triggers::nats::request::{KeyWrite, NatsRequest};
use crate::triggers::nats::tests::{
    asked_for_key, at, claim, found, function, mark, open_message, record, sent, up, wanted, wanted_entry, wrote_claim,
};
use fnd_core::records::outcome::Reason;

const ID: InvocationId = InvocationId(1);

/// An attempt waits for its claim, and the ledger has it already.
fn is_stored(messages: &mut Messages) {
    messages.open_claims.asks(ID);
    assert!(messages.ledger_answers(at(1), vec![ID], true).is_empty());
}

#[test]
fn a_claim_that_was_read_is_own_only_with_node_and_invocation() {
    let own = ("vm1", ID);
    let begun = claim("vm1", ID);
    assert_eq!(found_claim(None, own), FoundClaim::Absent);
    assert_eq!(found_claim(Some(&found(&begun, 4)), own), FoundClaim::Own(begun, 4));
    for other in [claim("vm2", ID), claim("vm1", InvocationId(2))] {
        let node = other.node.clone();
        assert_eq!(found_claim(Some(&found(&other, 4)), own), FoundClaim::Other(node));
    }
    let newer = FoundKey {
        value: "{}".into(),
        revision: 4,
        stamp: 4,
    };
    assert!(matches!(found_claim(Some(&newer), own), FoundClaim::Unreadable(_)));
}

/// The answer to a write is lost, and the server is away for a minute after it.
#[test]
fn an_attempt_that_begins_after_an_outage_has_its_limit_from_then_on() {
    let mut messages = open_message(ID);
    up(&mut messages);
    let rules = Arc::clone(&wanted_entry("f", "x").rules);
    messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "x")])));
    sent(&mut messages);
    assert!(messages.claim(at(1), &record(ID, Reason::Ok)));
    let (number, written) = wrote_claim(&mut messages, None);
    messages.written(at(6), number, Err(WriteRefused::Unknown("away".to_owned())));
    let number = asked_for_key(&mut messages);
    messages.read(at(66), number, Ok(Some(found(&written, 5))));
    let (number, claim) = wrote_claim(&mut messages, Some(5));
    assert_eq!((claim.limit, claim.attempts), (rules.limit(at(66).unix_ms), 1));
    messages.written(at(66), number, Ok(6));
    assert_eq!(messages.ledger_answers(at(66), vec![ID], true), [ID]);
}

#[test]
fn a_refused_claim_of_another_node_is_superseded_and_answered() {
    let mut messages = open_message(ID);
    sent(&mut messages);
    is_stored(&mut messages);
    messages.claim_is_read(at(1), (ID, ClaimPurpose::Begin), Ok(Some(found(&claim("vm2", ID), 3))));
    let effects = messages.take_effects();
    assert!(matches!(
        effects[..],
        [
            MessageEffect::Event(Event::Superseded { .. }),
            MessageEffect::Event(Event::ClaimPutOff { .. })
        ]
    ));
}

#[test]
fn a_message_that_was_given_back_while_it_was_claimed_is_let_go() {
    let mut messages = open_message(ID);
    messages.withdrawn(at(1), ID);
    assert!(matches!(sent(&mut messages)[..], [NatsRequest::Signal { .. }]));
    is_stored(&mut messages);
    let key = (ID, ClaimPurpose::Begin, Arc::from("claims.a"));
    messages.claim_is_written(at(1), key, claim("vm1", ID), Ok(3));
    let effects = messages.take_effects();
    assert!(matches!(
        effects[..],
        [
            MessageEffect::Send(NatsRequest::Write(KeyWrite { replaces: Some(3), .. })),
            MessageEffect::Event(Event::ClaimPutOff { .. })
        ]
    ));
}

/// The bucket was made anew, and the claim that is written there comes after the message was given back.
#[test]
fn a_message_that_was_given_back_while_its_claim_was_written_anew_is_let_go() {
    let mut messages = open_message(ID);
    messages.withdrawn(at(1), ID);
    messages.take_effects();
    let key = (ID, ClaimPurpose::Keep, Arc::from("claims.7"));
    messages.claim_is_written(at(1), key, claim("vm1", ID), Ok(3));
    let effects = messages.take_effects();
    let [
        MessageEffect::Send(NatsRequest::Write(KeyWrite {
            value,
            replaces: Some(3),
            ..
        })),
    ] = &effects[..]
    else {
        panic!("the claim is let go, and no attempt waits for it");
    };
    let free = ClaimRecord::read(value).unwrap();
    assert_eq!((free.state, free.attempts), (ClaimState::Held, 0));
}

/// The first request was done, and its answer was lost: the second one was in conflict with it.
#[test]
fn a_message_whose_claim_was_written_twice_before_it_was_given_back_is_let_go() {
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.withdrawn(at(1), ID);
    sent(&mut messages);
    let key = (ID, ClaimPurpose::Begin, Arc::from("claims.7"));
    messages.claim_is_written(at(1), key, claim("vm1", ID), Err(WriteRefused::Conflict));
    let number = asked_for_key(&mut messages);
    messages.read(at(1), number, Ok(Some(found(&claim("vm1", ID), 3))));
    let (_, free) = wrote_claim(&mut messages, Some(3));
    assert_eq!((free.state, free.limit), (ClaimState::Held, ClaimLimit::Until(1000)));
}

#[test]
fn an_end_that_another_node_has_replaced_is_not_told_to_the_server() {
    let mut messages = open_message(ID);
    messages.open.get_mut(&ID).unwrap().stage = MessageStage::Ending;
    sent(&mut messages);
    messages.claim_is_read(at(1), (ID, ClaimPurpose::End), Ok(Some(found(&claim("vm2", ID), 3))));
    let effects = messages.take_effects();
    assert!(matches!(&effects[..], [MessageEffect::Supersede(ID, node)] if &**node == "vm2"));
    assert!(messages.open.is_empty());
}

/// The history of this node is that of a backup: the work has ended since.
#[test]
fn work_that_has_ended_here_once_does_not_begin_again() {
    let ended = claim("vm1", ID).ended(1, false);
    for (purpose, answers) in [(ClaimPurpose::Begin, 1), (ClaimPurpose::Keep, 0)] {
        let mut messages = open_message(ID);
        up(&mut messages);
        is_stored(&mut messages);
        messages.claim_is_read(at(1), (ID, purpose), Ok(Some(found(&ended, 5))));
        let effects = messages.take_effects();
        assert!(matches!(
            effects[0],
            MessageEffect::Event(Event::Superseded { id: ID, .. })
        ));
        let put_off = |effect: &&MessageEffect| matches!(effect, MessageEffect::Event(Event::ClaimPutOff { .. }));
        assert_eq!(
            (effects.iter().filter(put_off).count(), effects.len()),
            (answers, 1 + answers)
        );
    }
    // Its end is told as before.
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.open.get_mut(&ID).unwrap().stage = MessageStage::Ending;
    messages.claim_is_read(at(1), (ID, ClaimPurpose::End), Ok(Some(found(&ended, 5))));
    assert!(matches!(sent(&mut messages)[..], [NatsRequest::Settle { .. }]));
}

#[test]
fn a_claim_that_the_server_refuses_is_tried_again_after_a_pause_and_told() {
    let full = || Err(WriteRefused::Refused("maximum bytes exceeded".to_owned()));
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "x")])));
    sent(&mut messages);
    assert!(messages.claim(at(1), &record(ID, Reason::Ok)));
    let (number, _) = wrote_claim(&mut messages, None);
    assert!(messages.ledger_answers(at(1), vec![ID], true).is_empty());
    messages.written(at(1), number, full());
    let effects = messages.take_effects();
    assert!(!effects.iter().any(|effect| matches!(effect, MessageEffect::Send(_))));
    let put_off = |effect: &MessageEffect| matches!(effect, MessageEffect::Event(Event::ClaimPutOff { pause, .. }) if *pause == AWAY);
    assert!(effects.iter().any(put_off));
    let problems = messages.problems(at(1).mono);
    let is_told = |problem: &ReportedProblem| problem.code == "nats-claim" && problem.text.contains("maximum bytes");
    assert!(problems.iter().any(is_told));
    // The end of a message waits, too.
    messages.open.get_mut(&ID).unwrap().stage = MessageStage::Ending;
    messages.go_on(at(2), ID);
    let (number, _) = wrote_claim(&mut messages, None);
    messages.written(at(2), number, full());
    assert!(sent(&mut messages).is_empty());
    assert_eq!(messages.open[&ID].again_at, Some(at(7).mono));
}

#[test]
fn a_new_claim_counts_no_attempt() {
    let new = new_claim("vm1", ID, &OpenMessage::new(function("f"), mark("a", 7)));
    assert_eq!((new.sequence, new.attempts, new.node.as_str()), (7, 0, "vm1"));
}

#[test]
fn a_claim_is_put_off_without_a_connection() {
    let mut messages = open_message(ID);
    messages.disconnected(at(1), "away".to_owned());
    messages.take_effects();
    assert!(!messages.claim(at(1), &record(ID, Reason::Ok)));
    let effects = messages.take_effects();
    assert!(matches!(
        effects[..],
        [MessageEffect::Event(Event::ClaimPutOff { id: ID, pause })] if pause == AWAY
    ));
}
