//! Ends that publish something.

use super::super::books::MessageStage;
use super::super::fact::WriteRefused;
use super::super::outgoing::tests::{ended, targets};
use super::super::tests::{
    asked_for_key, at, claim, found, function, open_message, sent, up, wanted, wanted_entry, wrote_claim,
};
use super::*;
use fnd_core::records::outcome::Reason;

const ID: InvocationId = InvocationId(1);

/// Returns the part with a message that has ended, and whose dead letter waits until the claim is known to be this node's.
fn ending() -> Messages {
    let mut messages = open_message(ID);
    up(&mut messages);
    let mut entry = wanted_entry("f", "x");
    entry.targets = targets();
    messages.wants(&function("f"), Some(wanted(vec![entry])));
    let message = messages.open.get_mut(&ID).unwrap();
    message.claim = KnownClaim::Written(claim("vm1", ID), 3);
    message.stage = MessageStage::Ending;
    messages.take_effects();
    messages.go_on(at(1), ID);
    read(&mut messages, (1, Reason::Error));
    messages
}

/// Returns the part with a message that has ended, whose dead letter is on its way.
fn publishing() -> Messages {
    let mut messages = ending();
    let (number, _) = wrote_claim(&mut messages, Some(3));
    messages.written(at(1), number, Ok(4));
    assert!(matches!(sent(&mut messages)[..], [NatsRequest::Publish { .. }]));
    messages
}

/// The end is read from the ledger.
fn read(messages: &mut Messages, (second, reason): (u64, Reason)) {
    let effects = messages.take_effects();
    assert!(matches!(effects[..], [MessageEffect::ReadEnd(ID)]));
    messages.end_is_read(at(second), ID, Ok(Some(Box::new(ended(reason)))));
}

#[test]
fn a_record_that_does_not_count_is_not_published() {
    let mut messages = ending();
    let (number, _) = wrote_claim(&mut messages, Some(3));
    messages.written(at(1), number, Err(WriteRefused::Conflict));
    let number = asked_for_key(&mut messages);
    messages.read(at(1), number, Ok(Some(found(&claim("vm2", ID), 4))));
    let effects = messages.take_effects();
    assert!(matches!(&effects[..], [MessageEffect::Supersede(ID, node)] if &**node == "vm2"));
    assert!(!messages.has(ID));
}

#[test]
fn without_an_answer_the_claim_is_asked_for_again_before_anything_is_published() {
    let mut messages = ending();
    let (number, _) = wrote_claim(&mut messages, Some(3));
    messages.written(at(1), number, Err(WriteRefused::Unknown("away".to_owned())));
    let number = asked_for_key(&mut messages);
    messages.read(at(1), number, Err("away".to_owned()));
    assert!(sent(&mut messages).is_empty());
    messages.go_on(at(2), ID);
    let number = asked_for_key(&mut messages);
    // The fnd before this one has written it, and then went down.
    let ended = claim("vm1", ID).ended(1, false);
    messages.read(at(2), number, Ok(Some(found(&ended, 5))));
    assert!(matches!(sent(&mut messages)[..], [NatsRequest::Publish { .. }]));
}

#[test]
fn an_end_that_publishes_nothing_needs_one_claim_only() {
    let mut messages = publishing();
    let message = messages.open.get_mut(&ID).unwrap();
    (message.targets.result, message.outcome, message.is_asking) = (None, EndOutcome::Unread, false);
    messages.go_on(at(2), ID);
    read(&mut messages, (2, Reason::Ok));
    let (_, written) = wrote_claim(&mut messages, Some(4));
    assert!(written.is_final());
}

/// The manifest had an entry before fnd was restarted.
#[test]
fn an_end_whose_entry_is_gone_is_told_to_people() {
    let mut messages = open_message(ID);
    up(&mut messages);
    let message = messages.open.get_mut(&ID).unwrap();
    (message.claim, message.stage) = (KnownClaim::Unknown, MessageStage::Ending);
    messages.go_on(at(1), ID);
    let effects = messages.take_effects();
    assert!(matches!(&effects[0], MessageEffect::Warn(why) if why.starts_with("message 7 of ORDERS has ended")));
}

#[test]
fn the_end_is_published_before_the_claim_says_it() {
    let mut messages = publishing();
    messages.end_is_published(at(2), ID, &Err("away".to_owned()));
    assert!(sent(&mut messages).is_empty());
    messages.go_on(at(7), ID);
    assert!(matches!(sent(&mut messages)[..], [NatsRequest::Publish { .. }]));
    messages.end_is_published(at(8), ID, &Ok(()));
    assert!(matches!(sent(&mut messages)[..], [NatsRequest::Write(_)]));
}

#[test]
fn what_no_stream_takes_is_told_and_published_after_the_end() {
    let mut messages = publishing();
    // The rules by which the message was accepted count, also if no entry wants such messages any more.
    messages.wants(&function("f"), None);
    messages.take_effects();
    let none = || Err("no stream".to_owned());
    for second in [2, 8] {
        messages.end_is_published(at(second), ID, &none());
        assert!(sent(&mut messages).is_empty());
        messages.go_on(at(second + 5), ID);
        assert!(matches!(sent(&mut messages)[..], [NatsRequest::Publish { .. }]));
    }
    let problem = messages.problems(at(8).mono).remove(0);
    assert_eq!((problem.code, problem.about.as_str()), ("nats-stream", "f"));
    assert!(problem.text.contains("`dlq`") && problem.text.contains("no stream"));
    messages.end_is_published(at(14), ID, &none());
    let (number, _) = wrote_claim(&mut messages, Some(4));
    messages.written(at(15), number, Ok(5));
    let requests = sent(&mut messages);
    let [NatsRequest::Settle { number, .. }] = requests[..] else {
        panic!("it is acknowledged");
    };
    messages.settled(at(16), number, &Ok(()));
    assert!(messages.has(ID) && messages.take_effects().is_empty(), "its row stays");
    assert!(!messages.open[&ID].takes_place());
    let mut entry = wanted_entry("f", "x");
    entry.targets = targets();
    messages.wants(&function("f"), Some(wanted(vec![entry])));
    assert_eq!(messages.figures().unwrap().functions[0].here, 0);
    messages.wants(&function("f"), None);
    messages.take_effects();
    messages.go_on(at(316), ID);
    read(&mut messages, (316, Reason::Error));
    assert!(matches!(sent(&mut messages)[..], [NatsRequest::Publish { .. }]));
    messages.end_is_published(at(317), ID, &Ok(()));
    assert!(!messages.has(ID) && messages.problems(at(317).mono).is_empty());
}

#[test]
fn headers_count_for_the_size_that_the_server_takes() {
    let mut messages = publishing();
    let EndOutcome::Publishing(rest, _) = &mut messages.open.get_mut(&ID).unwrap().outcome else {
        panic!("it is published");
    };
    rest[0].headers.push(("Kind".to_owned(), "a".repeat(1000)));
    messages.open.get_mut(&ID).unwrap().is_asking = false;
    messages.go_on(at(2), ID);
    let effects = messages.take_effects();
    assert!(matches!(effects[..], [MessageEffect::Warn(_), ..]));
    let publishes = |effect: &MessageEffect| matches!(effect, MessageEffect::Send(NatsRequest::Publish { .. }));
    assert!(!effects.iter().any(publishes));
}
