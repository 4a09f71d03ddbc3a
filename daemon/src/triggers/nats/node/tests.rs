//! The key of the node in the register.

use super::super::fact::NatsFact;
use super::super::request::{KeyWrite, NatsRequest};
use super::super::tests::{at, claim, messages, open_message, sent, server, up, wanted_entry};
use super::*;
use crate::triggers::nats::MessageAttempt;
use fnd_core::triggers::nats::claim::{ClaimLimit, ClaimRecord};
use fnd_wire::ids::{Attempt, InvocationId, WorkerId};

const ID: InvocationId = InvocationId(1);

/// Returns the key of a node as one with this instance and this process has written it.
fn written_by(instance: u64, process: u64, revision: u64) -> FoundKey {
    let record = NodeRecord {
        instance,
        process,
        version: "0.2.0".to_owned(),
        at_ms: 1,
    };
    FoundKey {
        value: record.bytes().into(),
        revision,
        stamp: revision,
    }
}

fn found(instance: u64, process: u64, revision: u64) -> Result<Option<FoundKey>, String> {
    Ok(Some(written_by(instance, process, revision)))
}

/// Returns the revisions that the writes that were sent replace.
fn writes(messages: &mut Messages) -> Vec<Option<u64>> {
    let requests = sent(messages).into_iter();
    let writes = requests.filter_map(|request| match request {
        NatsRequest::Write(KeyWrite { replaces, .. }) => Some(replaces),
        _ => None,
    });
    writes.collect()
}

#[test]
fn a_key_that_is_missing_is_created_and_an_own_one_is_renewed() {
    let mut messages = messages();
    messages.node_is_read(at(1), at(1).mono, Ok(None));
    assert_eq!(writes(&mut messages), [None]);
    assert!(!messages.may_claim(), "it is not written yet");
    messages.node_is_written(at(2), at(1).mono, &Ok(5));
    messages.renew(at(3));
    assert_eq!(writes(&mut messages), [Some(5)]);
    messages.node_is_read(at(4), at(4).mono, found(7, 0, 9));
    assert_eq!(writes(&mut messages), [Some(9)]);
}

#[test]
fn a_name_of_another_fnd_is_taken_when_that_one_is_silent() {
    let mut messages = messages();
    messages.node_is_read(at(1), at(1).mono, found(8, 0, 3));
    assert!(writes(&mut messages).is_empty() && messages.node_problem().is_some());
    assert_eq!(messages.node_key, NodeKey::Foreign(at(31).mono));
    messages.node_is_read(at(31), at(31).mono, found(8, 0, 4));
    assert_eq!(
        messages.node_key,
        NodeKey::Foreign(at(61).mono),
        "it has renewed its key"
    );
    messages.node_is_read(at(61), at(61).mono, found(8, 0, 4));
    assert_eq!((writes(&mut messages), messages.node_problem()), (vec![Some(4)], None));
}

/// Else the server would never deliver it to anybody who may begin it.
#[test]
fn work_that_waits_is_left_to_others_while_another_fnd_has_the_name() {
    let mut messages = open_message(ID);
    up(&mut messages);
    let begun = ClaimRecord {
        limit: ClaimLimit::Until(35_000),
        ..claim("vm1", ID)
    };
    let message = messages.open.get_mut(&ID).unwrap();
    (message.claim, message.keep_at) = (KnownClaim::Written(begun, 3), at(3600).mono);
    messages.schedule(ID);
    messages.node_is_read(at(1), at(1).mono, found(8, 0, 3));
    messages.beat(at(2));
    assert!(sent(&mut messages).is_empty());
    messages.beat(at(31));
    assert!(
        matches!(sent(&mut messages)[..], [NatsRequest::Read { .. }]),
        "only the key is asked for again"
    );
    let signals_with = |messages: &mut Messages, attempt: Option<MessageAttempt>| {
        let message = messages.open.get_mut(&ID).unwrap();
        (message.attempt, message.signal_at) = (attempt, at(32).mono);
        messages.schedule(ID);
    };
    let runs = MessageAttempt {
        number: Attempt(1),
        worker: WorkerId(4),
        began_ms: 0,
        ends_at: None,
    };
    signals_with(&mut messages, Some(runs));
    messages.beat(at(32));
    assert!(
        matches!(sent(&mut messages)[..], [NatsRequest::Signal { .. }]),
        "it runs"
    );
    signals_with(&mut messages, None);
    messages.node_is_read(at(33), at(33).mono, found(8, 0, 3));
    assert_eq!(writes(&mut messages), [Some(3)], "the name is free");
    messages.beat(at(34));
    assert!(matches!(
        sent(&mut messages)[..],
        [NatsRequest::Signal { .. }, NatsRequest::Write(_)]
    ));
}

#[test]
fn a_machine_that_is_a_copy_of_this_one_is_another_fnd() {
    let mut messages = messages();
    up(&mut messages);
    messages.node_is_read(at(1), at(1).mono, found(7, 5, 7));
    assert_eq!(writes(&mut messages), [Some(7)], "an fnd before this one has left it");
    messages.node_is_written(at(1), at(1).mono, &Err(WriteRefused::Unknown("away".to_owned())));
    messages.node_is_read(at(2), at(2).mono, found(7, 5, 7));
    assert_eq!(writes(&mut messages), [Some(7)], "the write was lost");
    messages.node_is_written(at(3), at(2).mono, &Ok(8));
    messages.node_is_written(at(4), at(4).mono, &Err(WriteRefused::Conflict));
    messages.node_is_read(at(4), at(4).mono, found(7, 6, 9));
    assert!(!messages.may_claim() && messages.node_problem().is_some());
}

#[test]
fn claims_that_a_new_bucket_has_not_are_read_at_once() {
    for (bucket, is_read) in [(1, false), (2, true)] {
        let mut messages = open_message(ID);
        up(&mut messages);
        let message = messages.open.get_mut(&ID).unwrap();
        message.rules = Some(wanted_entry("f", "x").rules);
        (message.claim, message.mark.revision) = (KnownClaim::Written(claim("vm1", ID), 3), Some(3));
        message.keep_at = at(3600).mono;
        let server = ConnectedServer {
            bucket_created_ns: bucket,
            ..server()
        };
        messages.connected(at(10), server);
        sent(&mut messages);
        messages.beat(at(10));
        let requests = sent(&mut messages).into_iter();
        let reads = requests.filter(|request| matches!(request, NatsRequest::Read { .. }));
        assert_eq!(reads.count(), usize::from(is_read), "{bucket}");
    }
}

#[test]
fn signs_of_life_go_on_while_the_bucket_is_missing() {
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.disconnected(at(5), "away".to_owned());
    messages.fact(at(40), NatsFact::NoBucket("it is gone".to_owned()), InvocationId(2));
    sent(&mut messages);
    messages.beat(at(40));
    // The message was delivered before this connection.
    let [NatsRequest::ReadMessage { number, .. }] = sent(&mut messages)[..] else {
        panic!("its stream is asked whether it has the message");
    };
    messages.message_read(at(40), number, Err("no right to read".to_owned()));
    assert!(matches!(sent(&mut messages)[..], [NatsRequest::Signal { .. }]));
}

#[test]
fn a_refused_renewal_asks_who_has_the_key() {
    let mut messages = messages();
    messages.node_is_read(at(1), at(1).mono, Ok(None));
    sent(&mut messages);
    messages.node_is_written(at(2), at(1).mono, &Err(WriteRefused::Unknown("away".to_owned())));
    assert!(sent(&mut messages).is_empty());
    messages.node_is_written(at(2), at(1).mono, &Err(WriteRefused::Conflict));
    assert!(matches!(sent(&mut messages)[..], [NatsRequest::Read { .. }]));
}

#[test]
fn an_fnd_with_the_name_of_this_one_is_silent_since_this_one_has_it() {
    let mut name = NameBook::default();
    let ten = Duration::from_secs(10);
    assert_eq!(name.silence(ten, at(99).mono), SilenceProof::Wants(ten));
    name.is_written(at(100).mono);
    name.is_written(at(105).mono);
    let second = Duration::from_secs(1);
    assert_eq!(name.silence(ten, at(109).mono), SilenceProof::Wants(second));
    assert_eq!(name.silence(ten, at(110).mono), SilenceProof::Given(ten));
    let key = |process| written_by(7, process, 9);
    assert!(name.is_own(Some(&key(0)), 7));
    assert_eq!(name.silence(ten, at(110).mono), SilenceProof::Given(ten));
    assert!(!name.is_own(Some(&key(6)), 7), "a copy has had it");
    assert_eq!(name.silence(ten, at(110).mono), SilenceProof::Wants(ten));
}
