//! Attempts of messages, with their claims and their leases.

use super::super::tests::{
    self, at, function, open_message, record, sent, up, wanted, wanted_entry, wanted_fenced, wrote_claim,
};
use super::*;
use crate::triggers::nats::books::{KnownClaim, MessageStage, OpenMessage};
use crate::triggers::nats::request::{KeyWrite, NatsRequest};
use crate::triggers::nats::wanted::WantedEntry;
use fnd_core::records::outcome::Reason;
use fnd_core::run::Event;
use fnd_core::triggers::nats::claim::ClaimRecord;
use fnd_core::triggers::nats::memory::MessageMemory;

const ID: InvocationId = InvocationId(1);
const WORKER: WorkerId = WorkerId(4);

/// Returns the part with an open message of this entry.
fn with_message(entry: WantedEntry) -> Messages {
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.wants(&function("f"), Some(wanted(vec![entry])));
    messages.take_effects();
    messages
}

fn attempt(number: u32, worker: WorkerId) -> MessageAttempt {
    MessageAttempt {
        number: Attempt(number),
        worker,
        began_ms: 0,
        ends_at: None,
    }
}

/// Claims the message in the register; the ledger has not answered.
fn claim(messages: &mut Messages, seconds: u64) {
    assert!(messages.claim(at(seconds), &record(ID, Reason::Ok)));
    let requests = sent(messages);
    let [NatsRequest::Write(KeyWrite { number, .. })] = requests[..] else {
        panic!("the claim is written");
    };
    messages.written(at(seconds), number, Ok(5));
    let effects = messages.take_effects();
    assert!(matches!(
        effects[..],
        [MessageEffect::Store(MessageMemory::Claimed { id: ID, revision: 5 })]
    ));
}

#[test]
fn an_attempt_without_a_lease_begins_also_if_the_ledger_has_its_claim_late() {
    let mut messages = with_message(wanted_entry("f", "x"));
    claim(&mut messages, 1);
    assert_eq!(messages.ledger_answers(at(99), vec![ID], true), [ID]);
    assert_eq!(messages.attempt_begins(at(99), ID, attempt(1, WORKER)), None);
    messages.attempt_ended(at(100), ID, Attempt(1));
    let effects = messages.take_effects();
    let has_lease = effects.iter().any(|effect| matches!(effect, MessageEffect::Lease(..)));
    assert!(!has_lease);
}

/// Its manifest had an entry before fnd was restarted.
#[test]
fn a_message_whose_function_has_no_entry_any_more_runs_where_it_is() {
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.knows_functions = false;
    assert!(!messages.claim(at(1), &record(ID, Reason::Ok)));
    let effects = messages.take_effects();
    assert!(matches!(effects[..], [MessageEffect::Event(Event::ClaimPutOff { .. })]));
    messages.knows_functions = true;
    assert!(messages.claim(at(2), &record(ID, Reason::Ok)));
    let (_, claim) = wrote_claim(&mut messages, None);
    assert_eq!(claim.limit, ClaimLimit::Person);
}

/// Meanwhile it has waited for a free worker.
#[test]
fn an_attempt_that_begins_later_than_it_was_claimed_has_its_limit_from_its_beginning() {
    let mut messages = with_message(wanted_entry("f", "x"));
    claim(&mut messages, 1);
    let begins = |messages: &mut Messages, seconds: u64| {
        let began_ms = at(seconds).unix_ms;
        let begun = MessageAttempt {
            began_ms,
            ..attempt(1, WORKER)
        };
        messages.attempt_begins(at(seconds), ID, begun);
        sent(messages)
    };
    assert!(begins(&mut messages, 2).is_empty());
    let requests = begins(&mut messages, 61);
    let [
        NatsRequest::Write(KeyWrite {
            value,
            replaces: Some(5),
            ..
        }),
    ] = &requests[..]
    else {
        panic!("the other nodes wait for as long");
    };
    let claim = ClaimRecord::read(value).unwrap();
    let limit = wanted_entry("f", "x").rules.limit(at(61).unix_ms);
    assert_eq!((claim.limit, claim.attempts), (limit, 1));
}

/// The spawner brings the end of an attempt after a restart of fnd, when the next one has begun already.
#[test]
fn the_end_of_an_earlier_attempt_takes_the_lease_from_none() {
    let mut messages = with_lease();
    claim(&mut messages, 11);
    let ends_at = Some(at(15).mono);
    let running = MessageAttempt {
        ends_at,
        ..attempt(2, WORKER)
    };
    let deadline = messages.attempt_begins(at(12), ID, running);
    assert_eq!(deadline, ends_at, "its own limits end it before the lease");
    messages.attempt_ended(at(13), ID, Attempt(1));
    assert!(messages.take_effects().is_empty());
    assert!(messages.lease.deadlines().contains_key(&WORKER));
    messages.attempt_ended(at(14), ID, Attempt(2));
    let effects = messages.take_effects();
    assert!(matches!(effects[..], [MessageEffect::Lease(WORKER, None)]));
}

/// It ends before its claim is read, which says how long its lease is.
#[test]
fn a_worker_of_an_earlier_fnd_has_no_deadline_once_its_calls_have_ended() {
    const OTHER: InvocationId = InvocationId(2);
    let mut messages = with_message(wanted_fenced("f", "x"));
    let left = |number| OpenMessage {
        stage: MessageStage::Open,
        attempt: Some(attempt(1, WORKER)),
        adopts: Some(Duration::from_secs(5)),
        ..OpenMessage::new(function("f"), tests::mark("ORDERS", number))
    };
    messages.open.insert(ID, left(7));
    messages.open.insert(OTHER, left(8));
    messages.left.extend([ID, OTHER]);
    messages.attempt_ended(at(1), ID, Attempt(1));
    assert!(messages.take_effects().is_empty());
    messages.attempt_ended(at(1), OTHER, Attempt(1));
    let effects = messages.take_effects();
    assert!(matches!(effects[..], [MessageEffect::Lease(WORKER, None)]));
}

/// A spawner of fnd 0.1 gets no time that it would have to change.
#[test]
fn a_worker_that_the_spawner_cannot_end_by_a_lease_has_no_deadline() {
    let mut messages = with_lease();
    messages.has_fence = false;
    claim(&mut messages, 11);
    assert_eq!(messages.attempt_begins(at(12), ID, attempt(1, WORKER)), None);
}

/// The machine was suspended after the supervisor had let it begin.
#[test]
fn an_attempt_whose_time_is_over_when_it_starts_is_ended_at_once() {
    let mut messages = with_lease();
    claim(&mut messages, 11);
    messages.fence(at(40));
    assert_eq!(
        messages.attempt_begins(at(41), ID, attempt(1, WORKER)),
        Some(at(41).mono)
    );
    assert!(messages.lease.is_fenced(WORKER), "it gets no later deadline");
}

/// Returns the part with a lease that was renewed at 10 s, with a message that came when the grace period was 5 s.
fn with_lease() -> Messages {
    let mut messages = with_message(wanted_fenced("f", "x"));
    messages.open.get_mut(&ID).unwrap().rules = Some(wanted_fenced("f", "x").rules);
    messages.lease.sends(at(10).mono);
    messages.lease.renewed((at(10).mono, at(10).mono));
    messages
}

#[test]
fn an_attempt_has_the_lease_of_the_manifest_as_it_is_when_it_is_claimed() {
    let mut messages = with_lease();
    let slow = tests::wanted_slow("f", "x", 20);
    messages.wants(&function("f"), Some(wanted(vec![slow])));
    messages.take_effects();
    claim(&mut messages, 11);
    assert_eq!(messages.lease.ends_at(), Some(at(18).mono), "30 s without 20 s and 2 s");
    // A running attempt keeps the lease with which it began.
    messages.wants(&function("f"), Some(wanted(vec![wanted_fenced("f", "x")])));
    assert_eq!(messages.open[&ID].lease, Some(Duration::from_secs(8)));
}

#[test]
fn an_attempt_of_an_earlier_fnd_has_the_lease_that_its_claim_says() {
    let mut messages = with_lease();
    let message = messages.open.get_mut(&ID).unwrap();
    (message.claim, message.mark.revision) = (KnownClaim::Unknown, Some(3));
    (message.attempt, message.adopts) = (Some(attempt(1, WORKER)), Some(Duration::from_secs(5)));
    messages.schedule(ID);
    messages.beat(at(10));
    let requests = sent(&mut messages);
    let [NatsRequest::Signal { .. }, NatsRequest::Read { number, .. }] = requests[..] else {
        panic!("the claim is read");
    };
    let short = ClaimRecord {
        limit: ClaimLimit::Silence(10_000),
        ..tests::claim("vm1", ID)
    };
    messages.read(at(10), number, Ok(Some(tests::found(&short, 4))));
    let (number, _) = wrote_claim(&mut messages, Some(4));
    messages.written(at(10), number, Ok(5));
    let effects = messages.take_effects();
    let [MessageEffect::Store(_), MessageEffect::Lease(WORKER, Some(until))] = effects[..] else {
        panic!("the spawner hears of it");
    };
    assert_eq!(until, at(13).mono, "10 s without 5 s and 2 s");
    assert_eq!(messages.lease.ends_at(), Some(until));
}

#[test]
fn a_claim_whose_invocation_has_ended_meanwhile_is_answered_and_has_no_lease() {
    let mut messages = with_message(wanted_fenced("f", "x"));
    messages.lease.sends(at(1).mono);
    messages.lease.renewed((at(1).mono, at(1).mono));
    claim(&mut messages, 2);
    assert!(messages.lease.ends_at().is_some());
    messages.ends(&record(ID, Reason::Cancelled));
    assert!(messages.ledger_answers(at(3), vec![ID], true).is_empty());
    let effects = messages.take_effects();
    assert!(matches!(
        effects[..],
        [MessageEffect::Event(Event::ClaimPutOff { id: ID, .. })]
    ));
    assert_eq!(messages.lease.ends_at(), None);
}

#[test]
fn what_another_node_may_take_over_begins_within_the_lease_only() {
    let mut messages = with_message(wanted_fenced("f", "x"));
    assert!(!messages.claim(at(1), &record(ID, Reason::Ok)));
    let effects = messages.take_effects();
    assert!(matches!(effects[..], [MessageEffect::Event(Event::ClaimPutOff { .. })]));
    messages.lease.sends(at(1).mono);
    messages.lease.renewed((at(1).mono, at(1).mono));
    claim(&mut messages, 2);
    assert_eq!(messages.ledger_answers(at(3), vec![ID], true), [ID]);
    let until = messages.attempt_begins(at(3), ID, attempt(1, WORKER));
    assert_eq!(
        until,
        Some(at(24).mono),
        "the spawner hears of it before the worker gets the call"
    );
    messages.attempt_ended(at(4), ID, Attempt(1));
    let effects = messages.take_effects();
    assert!(matches!(effects[..], [MessageEffect::Lease(WORKER, None)]));
    claim(&mut messages, 5);
    assert!(messages.ledger_answers(at(25), vec![ID], true).is_empty());
    let effects = messages.take_effects();
    assert!(matches!(effects[..], [MessageEffect::Event(Event::ClaimPutOff { .. })]));
}
