//! Deliveries, with what the ledger and the register say of them.

use super::*;
use crate::triggers::nats::books::MessageStage;
use crate::triggers::nats::fact::{FoundMessage, WriteRefused};
use crate::triggers::nats::request::{AckSignal, KeyWrite, NatsRequest};
use crate::triggers::nats::tests::{
    asked_for_key, at, claim, delivered, entry_is_ready, found, function, mark, sent, serving, wanted, wanted_accept,
    wanted_entry, wrote_claim,
};
use crate::triggers::nats::wanted::{Compiled, WantedEntry};
use fnd_core::places::conditions::Test;
use fnd_core::records::StreamPlace;
use fnd_core::run::Overlap;
use fnd_core::triggers::nats::claim::{ClaimLimit, ClaimRecord};
use fnd_manifest::function::route::{Condition, RequestPlace};

const ID: InvocationId = InvocationId(1);
const ROW: InvocationId = InvocationId(9);

/// Returns the part with a function `f` and the first delivery of message 7, which is being stored.
fn storing() -> Messages {
    let mut messages = serving(wanted_entry("f", "x"));
    messages.delivered(at(5), delivered(1, 7, 1), ID);
    messages
}

/// Returns the row of message 7 or of a message with the same identity, which is not in the books.
fn row(sequence: u64, step: LocalStep) -> KnownMessage {
    KnownMessage {
        id: ROW,
        function: function("f"),
        mark: mark("ORDERS", sequence),
        step,
        has_begun: false,
        is_interrupted: false,
    }
}

/// Returns the part with a function `f` and a delivery of message 7 that is looked up, and the number of the question.
fn with_delivery(count: u64) -> (Messages, u64) {
    with_message(delivered(1, 7, count))
}

/// The same with this delivery.
fn with_message(message: DeliveredMessage) -> (Messages, u64) {
    let mut messages = serving(wanted_entry("f", "x"));
    messages.delivered(at(5), message, ID);
    let effects = messages.take_effects();
    let [MessageEffect::LookUp(number, ..)] = effects[..] else {
        panic!("the ledger is asked");
    };
    (messages, number)
}

#[test]
fn a_first_delivery_is_submitted_at_once_and_open_once_it_is_stored() {
    let mut messages = storing();
    let mut effects = messages.take_effects();
    let Some(MessageEffect::Submit(submit)) = effects.pop() else {
        panic!("it is submitted");
    };
    assert_eq!((submit.id, submit.overlap), (ID, Some(Overlap::Queue)));
    assert!(submit.message.is_some() && submit.taken_over.is_none());
    messages.stored(at(5), ID, true);
    assert!(messages.has(ID) && matches!(messages.open[&ID].stage, MessageStage::Open));
    messages.delivered(at(40), delivered(1, 7, 2), InvocationId(2));
    let effects = messages.take_effects();
    assert!(
        matches!(
            effects[..],
            [
                MessageEffect::Store(MessageMemory::Renewed { id: ID, .. }),
                MessageEffect::Send(NatsRequest::Signal {
                    signal: AckSignal::Progress,
                    ..
                })
            ]
        ),
        "it is known"
    );
}

/// Message 8 has the same id as message 7, whose consumer was made again.
#[test]
fn a_duplicate_waits_for_no_acknowledgement_that_nobody_answers() {
    let mut messages = serving(wanted_entry("f", "x"));
    let numbered = |sequence| DeliveredMessage {
        headers: vec![("Nats-Msg-Id".to_owned(), "a".to_owned())],
        ..delivered(1, sequence, 1)
    };
    messages.delivered(at(5), numbered(7), ID);
    messages.stored(at(5), ID, true);
    for (is_unanswered, is_given_back) in [(false, true), (true, false)] {
        let message = messages.open.get_mut(&ID).unwrap();
        (message.stage, message.is_unanswered) = (MessageStage::Ending, is_unanswered);
        messages.take_effects();
        messages.delivered(at(6), numbered(8), InvocationId(2));
        let requests = sent(&mut messages);
        let given_back = matches!(
            requests[..],
            [NatsRequest::Signal {
                signal: AckSignal::GiveBack(_),
                ..
            }]
        );
        let acknowledged = matches!(requests[..], [NatsRequest::Settle { .. }]);
        assert_eq!((given_back, acknowledged), (is_given_back, !is_given_back));
    }
}

#[test]
fn what_cannot_be_stored_is_given_back() {
    let mut messages = storing();
    messages.take_effects();
    entry_is_ready(&mut messages, 1);
    assert_eq!(messages.asking().len(), 1);
    messages.stored(at(5), ID, false);
    assert!(matches!(
        sent(&mut messages)[..],
        [NatsRequest::Signal { signal: AckSignal::GiveBack(pause), .. }] if pause == REFUSED
    ));
    assert!(!messages.has(ID) && messages.keys.is_empty());
    // Else the next message would come at once.
    assert!(messages.asking().is_empty());
    messages.beat(at(9));
    assert!(messages.asking().is_empty());
    messages.beat(at(10));
    assert_eq!(messages.asking().len(), 1);
}

/// Its commit was done, and this fnd was told that it was not.
#[test]
fn a_row_that_nobody_has_is_deleted_so_that_the_next_delivery_is_accepted() {
    for (step, is_deleted) in [(LocalStep::Open, true), (LocalStep::Ending, false)] {
        let (mut messages, number) = with_delivery(2);
        messages.known(at(5), number, Ok(Some(row(7, step))));
        let effects = messages.take_effects();
        let deletes = |effect: &MessageEffect| matches!(effect, MessageEffect::Withdraw(ROW));
        assert_eq!(effects.iter().any(deletes), is_deleted);
        let Some(MessageEffect::Send(NatsRequest::Signal { signal, .. })) = effects.last() else {
            panic!("it is given back");
        };
        assert_eq!(*signal, AckSignal::GiveBack(REFUSED));
        messages.delivered(at(11), delivered(1, 7, 3), InvocationId(3));
        let effects = messages.take_effects();
        assert!(
            matches!(effects[..], [MessageEffect::LookUp(..)]),
            "the ledger is asked again"
        );
    }
}

/// The ledger has refused the row of a first delivery. Returns the part, and the number of the question for the row that it has.
fn with_row() -> (Messages, u64) {
    let mut messages = storing();
    messages.take_effects();
    messages.has_row(at(5), ID);
    assert!(!messages.has(ID) && messages.keys.is_empty());
    assert_eq!(messages.entries[&1].here, 0);
    let effects = messages.take_effects();
    let [MessageEffect::LookUp(number, ..)] = effects[..] else {
        panic!("the row is read");
    };
    (messages, number)
}

/// A consumer that was made anew counts from 1, and a message may be sent twice.
#[test]
fn what_the_ledger_has_already_is_looked_up_and_does_not_stop_the_entry() {
    use LocalStep::{Accepted, Closed, Ending, Open, Superseded};
    // Absent: it is acknowledged.
    let seconds = |count| Some(Duration::from_secs(count));
    for (step, same, other) in [
        (Closed, None, None),
        (Accepted, None, seconds(30)),
        (Open, seconds(5), seconds(30)),
        (Ending, seconds(5), seconds(30)),
        (Superseded, seconds(1), seconds(1)),
    ] {
        for (sequence, pause) in [(7, same), (8, other)] {
            let (mut messages, number) = with_row();
            messages.known(at(5), number, Ok(Some(row(sequence, step))));
            let effects = messages.take_effects();
            let deletes = |effect: &MessageEffect| matches!(effect, MessageEffect::Withdraw(ROW));
            let is_deleted = (step, sequence) == (Open, 7);
            assert_eq!(effects.iter().any(deletes), is_deleted, "{step:?} {sequence}");
            match effects.last() {
                Some(MessageEffect::Send(NatsRequest::Settle { term: None, .. })) => assert_eq!(pause, None),
                Some(MessageEffect::Send(NatsRequest::Signal { signal, .. })) => {
                    assert_eq!(Some(*signal), pause.map(AckSignal::GiveBack), "{step:?} {sequence}");
                }
                _ => panic!("{step:?} {sequence}: the server is told"),
            }
            let counted = messages.counters_of(&function("f")).duplicates;
            assert_eq!(counted, u64::from((step, sequence) == (Closed, 8)));
            assert_eq!(messages.entries[&1].paused_until, None);
        }
    }
}

#[test]
fn a_row_that_is_gone_or_cannot_be_read_stops_the_entry_for_a_while() {
    for known in [Ok(None), Err("busy".to_owned())] {
        let (mut messages, number) = with_row();
        messages.known(at(6), number, known);
        assert!(matches!(
            sent(&mut messages)[..],
            [NatsRequest::Signal { signal: AckSignal::GiveBack(pause), .. }] if pause == REFUSED
        ));
        assert!(messages.entries[&1].paused_until.is_some() && messages.not_stored.is_empty());
    }
}

/// The stream may be another one by then, with another message in that place.
#[test]
fn nothing_is_acknowledged_that_was_delivered_before_the_connection_was_lost() {
    for is_refused_before in [true, false] {
        let mut messages = storing();
        if is_refused_before {
            messages.has_row(at(5), ID);
        }
        messages.disconnected(at(6), "away".to_owned());
        messages.has_row(at(6), ID);
        let effects = messages.take_effects().into_iter();
        let numbers = effects.filter_map(|effect| match effect {
            MessageEffect::LookUp(number, ..) => Some(number),
            _ => None,
        });
        for number in numbers.collect::<Vec<_>>() {
            messages.known(at(7), number, Ok(Some(row(7, LocalStep::Closed))));
        }
        assert!(messages.take_effects().is_empty() && messages.not_stored.is_empty());
    }
    let (mut messages, number) = with_delivery(2);
    messages.disconnected(at(6), "away".to_owned());
    messages.take_effects();
    messages.known(at(7), number, Ok(Some(row(7, LocalStep::Closed))));
    assert!(messages.take_effects().is_empty());
    let mut messages = serving(wanted_accept("f", "x"));
    messages.delivered(at(5), delivered(1, 7, 1), ID);
    messages.disconnected(at(6), "away".to_owned());
    messages.take_effects();
    messages.stored(at(7), ID, true);
    assert!(messages.take_effects().is_empty());
    // It is acknowledged when it comes again.
    messages.delivered(at(40), delivered(1, 7, 2), InvocationId(2));
    assert!(matches!(sent(&mut messages)[..], [NatsRequest::Settle { .. }]));
}

/// The row of the question was deleted meanwhile, and the message accepted by another delivery.
#[test]
fn the_row_of_a_later_delivery_is_not_deleted() {
    let (mut messages, number) = with_row();
    messages.entries.get_mut(&1).unwrap().looks_until = None;
    messages.delivered(at(6), delivered(1, 7, 1), ROW);
    messages.stored(at(6), ROW, true);
    messages.take_effects();
    messages.known(at(6), number, Ok(Some(row(7, LocalStep::Open))));
    assert!(messages.has(ROW));
    let effects = messages.take_effects();
    assert!(matches!(
        effects[..],
        [MessageEffect::Send(NatsRequest::Signal { signal: AckSignal::GiveBack(pause), .. })] if pause == REFUSED
    ));
}

/// Else each message of a consumer that was made anew would be stored in vain.
#[test]
fn after_a_message_that_the_ledger_had_the_next_ones_are_looked_up_first() {
    let (mut messages, _) = with_row();
    // At 10 s they are accepted at once again, but none before one that came earlier.
    let mut questions = Vec::new();
    for (second, sequence) in [(9, 9), (10, 10)] {
        messages.delivered(at(second), delivered(1, sequence, 1), InvocationId(sequence.into()));
        let effects = messages.take_effects();
        let [MessageEffect::LookUp(number, ..)] = effects[..] else {
            panic!("the ledger is asked for {sequence}");
        };
        questions.push(number);
    }
    let submitted = |messages: &mut Messages| match &messages.take_effects()[..] {
        [MessageEffect::Submit(submit)] => submit.id,
        _ => panic!("it is submitted"),
    };
    for (number, sequence) in questions.into_iter().zip([9, 10]) {
        messages.known(at(10), number, Ok(None));
        assert_eq!(submitted(&mut messages), InvocationId(sequence));
    }
    messages.delivered(at(10), delivered(1, 11, 1), InvocationId(11));
    assert_eq!(submitted(&mut messages), InvocationId(11));
}

/// What came earlier and is asked for in the register comes later anyway, and so does what another function waits for.
#[test]
fn a_first_delivery_waits_for_no_register_and_for_no_other_entry() {
    let (mut messages, number) = with_delivery(2);
    let other = Some(wanted(vec![wanted_entry("g", "x")]));
    messages.wants(&function("g"), other);
    messages.take_effects();
    messages.delivered(at(5), delivered(2, 8, 1), InvocationId(8));
    assert!(matches!(messages.take_effects()[..], [MessageEffect::Submit(_)]));
    messages.known(at(5), number, Ok(None));
    messages.take_effects();
    messages.delivered(at(5), delivered(1, 9, 1), InvocationId(9));
    assert!(matches!(messages.take_effects()[..], [MessageEffect::Submit(_)]));
}

/// The run that it replaces, or its share of the rate, would be lost if the ledger had the message.
#[test]
fn a_message_whose_acceptance_costs_something_is_looked_up_first() {
    for (replaces, is_rated) in [(true, false), (false, true)] {
        let mut messages = serving(WantedEntry {
            replaces,
            is_rated,
            ..wanted_entry("f", "x")
        });
        messages.delivered(at(5), delivered(1, 7, 1), ID);
        assert!(matches!(messages.take_effects()[..], [MessageEffect::LookUp(..)]));
    }
}

/// Returns the part, which takes message 7 over, and the number of the request that writes the claim.
fn taking_over() -> (Messages, u64) {
    let (mut messages, number) = with_delivery(2);
    messages.known(at(5), number, Ok(None));
    let number = asked_for_key(&mut messages);
    messages.read(at(6), number, Ok(Some(found(&claim("vm1", InvocationId(9)), 4))));
    let (number, _) = wrote_claim(&mut messages, Some(4));
    (messages, number)
}

/// Checks that a claim with one lost attempt is free for every node from second 7 on.
#[track_caller]
fn is_free(claim: &ClaimRecord) {
    assert_eq!(
        (claim.attempts, claim.lost, claim.limit),
        (1, 1, ClaimLimit::Until(7000))
    );
}

/// Checks that the claim of revision 5 is let go, and the message given back.
#[track_caller]
fn lets_go(messages: &mut Messages) {
    let requests = sent(messages);
    let [
        NatsRequest::Write(KeyWrite {
            value,
            replaces: Some(5),
            ..
        }),
        NatsRequest::Signal { .. },
    ] = &requests[..]
    else {
        panic!("the claim is let go");
    };
    is_free(&ClaimRecord::read(value).unwrap());
}

#[test]
fn what_was_taken_over_and_cannot_be_stored_is_free_for_every_node() {
    let (mut messages, number) = taking_over();
    messages.written(at(6), number, Ok(5));
    messages.take_effects();
    messages.stored(at(7), ID, false);
    lets_go(&mut messages);
}

#[test]
fn what_was_taken_over_for_a_function_without_its_entry_is_free_for_every_node() {
    let (mut messages, number) = taking_over();
    messages.wants(&function("f"), None);
    messages.take_effects();
    messages.written(at(7), number, Ok(5));
    lets_go(&mut messages);
}

#[test]
fn a_takeover_of_which_the_answer_is_lost_is_let_go() {
    let (mut messages, number) = taking_over();
    messages.written(at(6), number, Err(WriteRefused::Unknown("away".to_owned())));
    let requests = sent(&mut messages);
    let [NatsRequest::Read { number, .. }, NatsRequest::Signal { .. }] = requests[..] else {
        panic!("the claim is read, and the message given back");
    };
    let taken = claim("vm1", InvocationId(9)).taken_over(("vm1", 0), ID, 6000);
    messages.read(at(7), number, Ok(Some(found(&taken, 5))));
    let (_, free) = wrote_claim(&mut messages, Some(5));
    is_free(&free);
}

#[test]
fn a_redelivery_is_taken_over_from_a_silent_node_only() {
    let (mut messages, number) = with_delivery(2);
    messages.known(at(5), number, Ok(None));
    let number = asked_for_key(&mut messages);
    messages.read(at(6), number, Ok(Some(found(&claim("vm2", InvocationId(9)), 4))));
    let number = asked_for_key(&mut messages);
    messages.read(at(6), number, Ok(None));
    assert!(
        matches!(
            sent(&mut messages)[..],
            [NatsRequest::Signal {
                signal: AckSignal::GiveBack(_),
                ..
            }]
        ),
        "vm2 was seen for the first time"
    );
    assert_eq!(messages.elsewhere.len(), 1);
}

#[test]
fn what_another_process_with_this_name_has_claimed_may_still_run() {
    for (process, is_own) in [(0, true), (8, false)] {
        let (mut messages, number) = with_delivery(2);
        messages.known(at(5), number, Ok(None));
        let number = asked_for_key(&mut messages);
        let begun = ClaimRecord {
            process,
            ..claim("vm1", InvocationId(9))
        };
        messages.read(at(6), number, Ok(Some(found(&begun, 4))));
        let requests = sent(&mut messages);
        let is_taken = matches!(requests[..], [NatsRequest::Write(_)]);
        let signal = AckSignal::GiveBack(Duration::from_secs(30));
        let is_given_back = matches!(&requests[..], [NatsRequest::Signal { signal: found, .. }] if *found == signal);
        assert_eq!((is_taken, is_given_back), (is_own, !is_own));
    }
}

/// This node has taken message 3 over and has lost its row in a power cut. Message 7 has the same id.
#[test]
fn a_duplicate_goes_on_with_work_whose_own_message_is_gone() {
    let with_id = || vec![("Nats-Msg-Id".to_owned(), "a".to_owned())];
    let original = || FoundMessage {
        place: StreamPlace {
            stream: "ORDERS".into(),
            created_ns: 1,
            sequence: 3,
        },
        headers: with_id(),
        payload: "{}".into(),
    };
    // The stream was made anew, and has another message there.
    let other = FoundMessage {
        headers: Vec::new(),
        ..original()
    };
    for (found_message, takes_over) in [(Some(original()), false), (Some(other), true), (None, true)] {
        let (mut messages, number) = with_message(DeliveredMessage {
            headers: with_id(),
            ..delivered(1, 7, 2)
        });
        messages.known(at(5), number, Ok(None));
        let number = asked_for_key(&mut messages);
        let held = ClaimRecord {
            sequence: 3,
            ..claim("vm1", InvocationId(9))
        };
        messages.read(at(6), number, Ok(Some(found(&held, 4))));
        let requests = sent(&mut messages);
        let [NatsRequest::ReadMessage { number, place: (_, 3) }] = requests[..] else {
            panic!("the message of the claim is read");
        };
        messages.message_read(at(6), number, Ok(found_message.map(Box::new)));
        let requests = sent(&mut messages);
        match &requests[..] {
            [
                NatsRequest::Write(KeyWrite {
                    value,
                    replaces: Some(4),
                    ..
                }),
            ] if takes_over => {
                let taken = ClaimRecord::read(value).unwrap();
                assert_eq!((taken.sequence, taken.invocation), (7, ID));
            }
            [
                NatsRequest::Signal {
                    signal: AckSignal::GiveBack(_),
                    ..
                },
            ] if !takes_over => {}
            _ => panic!("{takes_over}"),
        }
    }
}

/// Returns an entry whose `when` holds for no message without headers.
fn excluding() -> WantedEntry {
    let condition = Condition {
        place: RequestPlace::Header("kind".to_owned()),
        is: vec!["a".to_owned()],
        not: Vec::new(),
        matches: None,
    };
    WantedEntry {
        tests: Compiled(vec![Test::new(&condition)]),
        when: vec![condition],
        ..wanted_entry("f", "x")
    }
}

/// The manifest was another one when it was accepted.
#[test]
fn a_later_when_acknowledges_nothing_that_runs() {
    let mut messages = storing();
    messages.stored(at(5), ID, true);
    messages.wants(&function("f"), Some(wanted(vec![excluding()])));
    messages.take_effects();
    messages.delivered(at(40), delivered(2, 7, 1), InvocationId(2));
    assert!(matches!(
        sent(&mut messages)[..],
        [NatsRequest::Signal {
            signal: AckSignal::Progress,
            ..
        }]
    ));
    // Another node looks at the claim first.
    for (is_claimed, skipped) in [(true, 0), (false, 1)] {
        let mut messages = serving(excluding());
        messages.delivered(at(40), delivered(1, 7, 2), ID);
        let effects = messages.take_effects();
        let [MessageEffect::LookUp(number, ..)] = effects[..] else {
            panic!("the ledger is asked");
        };
        messages.known(at(40), number, Ok(None));
        let number = asked_for_key(&mut messages);
        let claim = is_claimed.then(|| found(&claim("vm2", InvocationId(9)), 4));
        messages.read(at(40), number, Ok(claim));
        let is_settled = matches!(sent(&mut messages)[..], [NatsRequest::Settle { term: None, .. }]);
        assert_eq!(is_settled, !is_claimed);
        assert_eq!(messages.counters_of(&function("f")).skipped, skipped);
    }
}

#[test]
fn a_message_that_waits_for_a_person_is_a_problem() {
    let (mut messages, mut number) = with_delivery(2);
    let endless = ClaimRecord {
        limit: ClaimLimit::Person,
        ..claim("vm2", InvocationId(9))
    };
    for is_shown in [false, true] {
        messages.known(at(5), number, Ok(None));
        let read = asked_for_key(&mut messages);
        messages.read(at(6), read, Ok(Some(found(&endless, 4))));
        let problems = messages.problems(at(6).mono);
        let names = |text: &str| text.contains("vm2") && text.contains("`fndctl nats release f 7`");
        let mut named = problems.iter().filter(|problem| names(&problem.text));
        let code = named.next().map(|problem| problem.code);
        assert_eq!(code, is_shown.then_some("nats-claim"));
        assert_eq!(messages.view().unwrap().triggers[0].error.is_some(), is_shown);
        messages.take_effects();
        messages.delivered(at(70), delivered(1, 7, 3), ID);
        let effects = messages.take_effects();
        let [MessageEffect::LookUp(next, ..)] = effects[..] else {
            panic!("the ledger is asked");
        };
        number = next;
    }
}

/// The claim of message 3 is none that the sequence 7 of the duplicate names.
#[test]
fn the_claim_of_another_message_is_not_remembered() {
    let (mut messages, number) = with_delivery(2);
    messages.known(at(5), number, Ok(None));
    let number = asked_for_key(&mut messages);
    let original = ClaimRecord {
        sequence: 3,
        limit: ClaimLimit::Person,
        ..claim("vm2", InvocationId(9))
    };
    messages.read(at(6), number, Ok(Some(found(&original, 4))));
    assert!(messages.elsewhere.is_empty());
}

#[test]
fn a_message_that_when_excludes_is_acknowledged() {
    let mut messages = serving(excluding());
    messages.delivered(at(5), delivered(1, 7, 1), ID);
    assert!(matches!(
        sent(&mut messages)[..],
        [NatsRequest::Settle { term: None, .. }]
    ));
    assert_eq!(messages.counters_of(&function("f")).skipped, 1);
}
