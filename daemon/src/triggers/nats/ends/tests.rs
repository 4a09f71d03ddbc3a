//! Ends of messages: each step of them, and the answers of the server.

use super::super::addresses::tests::stored;
use super::super::request::KeyWrite;
use super::super::tests::{
    at, claim, delivered, function, mark, messages, open_message, sent, server, serving, up, wanted, wanted_accept,
    wanted_entry, wrote_claim,
};
use super::*;
use fnd_core::records::MessageMark;
use fnd_wire::ids::Version;

const ID: InvocationId = InvocationId(1);

/// Returns the number of the acknowledgement that is sent once more: the message is in its place.
fn told_again(messages: &mut Messages, seconds: u64) -> u64 {
    let [NatsRequest::ReadMessage { number, .. }] = sent(messages)[..] else {
        panic!("its place is looked at first");
    };
    let found = stored(mark("ORDERS", 7).place.created_ns);
    messages.message_read(at(seconds), number, Ok(Some(found)));
    let [NatsRequest::Settle { number, .. }] = sent(messages)[..] else {
        panic!("it is told again");
    };
    number
}

/// The stream was deleted and made anew, or the server has had the acknowledgement.
#[test]
fn an_end_of_a_message_that_is_gone_ends_no_other_message() {
    for found in [None, Some(stored(2))] {
        let mut messages = open_message(ID);
        up(&mut messages);
        messages.disconnected(at(1), "away".to_owned());
        up(&mut messages);
        let message = messages.open.get_mut(&ID).unwrap();
        message.claim = KnownClaim::Written(claim("vm1", ID).ended(1, false), 4);
        messages.take_effects();
        messages.ended(at(2), ID);
        let [NatsRequest::ReadMessage { number, place: (_, 7) }] = sent(&mut messages)[..] else {
            panic!("its place is looked at");
        };
        messages.message_read(at(2), number, Ok(found));
        assert!(sent(&mut messages).is_empty() && !messages.has(ID));
    }
}

#[test]
fn an_end_writes_the_claim_then_acknowledges_then_is_forgotten() {
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.open.get_mut(&ID).unwrap().claim = KnownClaim::Written(claim("vm1", ID), 3);
    messages.ended(at(1), ID);
    let (number, _) = wrote_claim(&mut messages, Some(3));
    messages.written(at(2), number, Ok(4));
    let requests = sent(&mut messages);
    let [NatsRequest::Settle { number, term: None, .. }] = requests[..] else {
        panic!("then the acknowledgement");
    };
    messages.settled(at(3), number, &Err(SettleFailed::Timeout));
    assert!(messages.has(ID));
    messages.go_on(at(8), ID);
    // The claim says it already.
    let number = told_again(&mut messages, 8);
    messages.settled(at(9), number, &Ok(()));
    assert!(!messages.has(ID) && messages.keys.is_empty() && messages.due.is_empty());
    let effects = messages.take_effects();
    assert!(matches!(
        effects[..],
        [MessageEffect::Store(MessageMemory::Step {
            id: ID,
            step: LocalStep::Closed
        })]
    ));
}

#[test]
fn an_acknowledgement_that_nobody_answers_takes_no_place_and_is_repeated_as_long_as_claims_are_kept() {
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "x")])));
    messages.take_effects();
    messages.open.get_mut(&ID).unwrap().claim = KnownClaim::Written(claim("vm1", ID), 3);
    messages.ended(at(1), ID);
    let [NatsRequest::Write(KeyWrite { number, .. })] = sent(&mut messages)[..] else {
        panic!("the claim comes first");
    };
    messages.written(at(2), number, Ok(4));
    let [NatsRequest::Settle { number, .. }] = sent(&mut messages)[..] else {
        panic!("then the acknowledgement");
    };
    let places = |messages: &Messages| {
        let entries = messages.entries.values();
        entries.map(|entry| (entry.here, entry.ending)).collect::<Vec<_>>()
    };
    assert_eq!(places(&messages), [(0, 1)]);
    messages.settled(at(7), number, &Err(SettleFailed::Timeout));
    assert_eq!((places(&messages), messages.has(ID)), (vec![(0, 0)], true));
    assert!(!messages.open[&ID].signals(), "another message may have its address");
    messages.go_on(at(12), ID);
    let number = told_again(&mut messages, 12);
    messages.settled(at(17), number, &Err(SettleFailed::Timeout));
    assert_eq!((places(&messages), messages.has(ID)), (vec![(0, 0)], true));
    assert_eq!(messages.open[&ID].again_at, Some(at(317).mono));
    messages.go_on(at(90_000), ID);
    let number = told_again(&mut messages, 90_000);
    messages.settled(at(90_000), number, &Err(SettleFailed::Timeout));
    assert_eq!((places(&messages), messages.has(ID)), (vec![(0, 0)], false));
}

#[test]
fn other_settings_wait_for_no_acknowledgement_that_nobody_answers() {
    let mut messages = open_message(ID);
    up(&mut messages);
    let message = messages.open.get_mut(&ID).unwrap();
    message.claim = KnownClaim::Written(claim("vm1", ID).ended(1, false), 4);
    messages.is_closing = true;
    messages.ended(at(1), ID);
    let [NatsRequest::Settle { number, .. }] = sent(&mut messages)[..] else {
        panic!("it is told");
    };
    messages.settled(at(6), number, &Err(SettleFailed::Timeout));
    messages.go_on(at(11), ID);
    let number = told_again(&mut messages, 11);
    messages.settled(at(16), number, &Err(SettleFailed::Timeout));
    assert!(!messages.has(ID));
    let effects = messages.take_effects();
    assert!(matches!(
        effects[..],
        [MessageEffect::Warn(_), MessageEffect::Store(_), MessageEffect::Changed]
    ));
}

#[test]
fn as_many_messages_are_forgotten_as_are_done() {
    let mut messages = open_message(ID);
    up(&mut messages);
    (messages.forget_at, messages.closed) = (at(600).mono, FORGOTTEN_AT_ONCE - 1);
    messages.close(ID);
    messages.take_effects();
    messages.beat(at(1));
    let forgets = |effect: &MessageEffect| matches!(effect, MessageEffect::Store(MessageMemory::Forget { .. }));
    assert!(messages.take_effects().iter().any(forgets));
    assert_eq!((messages.closed, messages.forget_at), (0, at(601).mono));
}

#[test]
fn a_message_that_is_acknowledged_once_it_is_stored_ends_without_a_claim() {
    let mut messages = serving(wanted_accept("f", "x"));
    messages.delivered(at(1), delivered(1, 7, 1), ID);
    let mut effects = messages.take_effects();
    let Some(MessageEffect::Submit(submit)) = effects.pop() else {
        panic!("it is submitted");
    };
    assert!(submit.message.is_some_and(|mark| mark.is_accepted));
    messages.stored(at(1), ID, true);
    assert!(matches!(
        sent(&mut messages)[..],
        [NatsRequest::Settle { term: None, .. }]
    ));
    assert!(messages.has(ID) && !messages.claims(ID), "its end may be published");
    assert_eq!(messages.ledger_answers(at(2), vec![ID], true), [ID]);
    // Its acknowledgement was lost, and a duplicate comes.
    messages.delivered(at(31), delivered(1, 7, 2), InvocationId(2));
    assert!(matches!(
        sent(&mut messages)[..],
        [NatsRequest::Settle { term: None, .. }]
    ));
    messages.disconnected(at(32), "away".to_owned());
    messages.take_effects();
    messages.ended(at(33), ID);
    let effects = messages.take_effects();
    assert!(matches!(
        effects[..],
        [MessageEffect::Store(MessageMemory::Step {
            id: ID,
            step: LocalStep::Closed
        })]
    ));
    assert!(!messages.has(ID) && messages.keys.is_empty());
}

/// Returns a script that an earlier fnd started ten seconds ago with a timeout of a minute.
fn left(worker: u64, attempt: u32) -> Adopted {
    let (version, grace) = (Version([1; 32]).to_string(), Duration::from_secs(5));
    let backoff = serde_json::json!({
        "interval": Duration::ZERO, "factor": 2.0, "max_interval": Duration::ZERO, "jitter": "None",
    });
    let rules = serde_json::json!({
        "enabled": true, "run_on_load": false, "timeout": null, "grace": grace, "deadline": null, "memory": 1,
        "cpu_milli": null, "memory_text": "", "max_running": 1, "poll": null, "result_max": 1, "pids": 1,
        "retry": {"retries": 0, "on": [], "not_on_exit": [], "backoff": backoff},
        "queue": {"max": 1, "overlap": "Queue", "rate": null},
    });
    let record = serde_json::json!({
        "function": "f", "id": 1, "version": version, "load_key": version, "invocation": ID.to_string(),
        "attempt": attempt, "poll": 0, "trigger": "nats", "accepted_ms": 1, "first_ms": 1, "started_ms": 1,
        "timeout": Duration::from_secs(60), "deadline_ms": null, "rules": rules,
    });
    Adopted {
        worker: WorkerId(worker),
        record: serde_json::from_str(&record.to_string()).unwrap(),
        age: Duration::from_secs(10),
        termed: None,
        ended: false,
    }
}

#[test]
fn the_last_attempt_that_an_earlier_fnd_has_left_goes_on_within_its_own_limits() {
    let mut messages = open_message(ID);
    messages.restore(at(100), Vec::new(), (&[left(8, 2), left(7, 1)], &[]));
    let expected = MessageAttempt {
        number: Attempt(2),
        worker: WorkerId(8),
        began_ms: 1,
        ends_at: Some(at(150).mono),
    };
    assert_eq!(messages.open[&ID].attempt, Some(expected));
    assert_eq!(messages.open[&ID].adopts, Some(Duration::from_secs(5)));
}

#[test]
fn an_end_of_an_earlier_fnd_waits_for_the_connection_and_reads_the_claim_first() {
    let mut messages = messages();
    let known = KnownMessage {
        id: ID,
        function: function("f"),
        mark: mark("a", 7),
        step: LocalStep::Ending,
        has_begun: true,
        is_interrupted: true,
    };
    messages.restore(at(0), vec![known], (&[], &[]));
    messages.go_on(at(1), ID);
    assert!(sent(&mut messages).is_empty());
    messages.connected(at(1), server());
    messages.beat(at(2));
    assert!(matches!(sent(&mut messages)[..], [.., NatsRequest::Read { .. }]));
}

#[test]
fn an_end_of_an_earlier_fnd_with_an_acceptance_is_told_to_no_server() {
    let mut messages = messages();
    let accepted = MessageMark {
        is_accepted: true,
        ..mark("ORDERS", 7)
    };
    let known = KnownMessage {
        id: ID,
        function: function("f"),
        mark: accepted,
        step: LocalStep::Ending,
        has_begun: true,
        is_interrupted: false,
    };
    messages.restore(at(0), vec![known], (&[], &[]));
    messages.wants(&function("f"), Some(wanted(vec![wanted_accept("f", "x")])));
    messages.connected(at(1), server());
    messages.take_effects();
    messages.beat(at(2));
    let effects = messages.take_effects();
    let asks = |effect: &MessageEffect| matches!(effect, MessageEffect::Send(_));
    assert!(!messages.has(ID) && !effects.iter().any(asks));
}
