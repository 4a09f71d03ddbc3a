//! The beats: signs of life, the fence, and claims that are kept.

use super::super::tests::{
    at, claim, function, mark, messages, open_message, record, sent, serving, up, wanted, wanted_entry, wrote_claim,
};
use super::*;
use crate::triggers::nats::MessageAttempt;
use crate::triggers::nats::request::{AckSignal, NatsRequest};
use fnd_core::records::InvocationRecord;
use fnd_core::records::outcome::{Reason, RunState};
use fnd_core::triggers::nats::claim::ClaimRecord;
use fnd_core::triggers::nats::delivery::LocalStep;
use fnd_core::triggers::nats::memory::KnownMessage;
use fnd_wire::ids::{Attempt, WorkerId};

const ID: InvocationId = InvocationId(1);

#[test]
fn each_message_gets_a_sign_of_life_in_each_beat() {
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "x")])));
    messages.schedule(ID);
    messages.beat(at(10));
    let signals = |messages: &mut Messages| {
        let requests = sent(messages).into_iter();
        requests
            .filter(|request| {
                matches!(
                    request,
                    NatsRequest::Signal {
                        signal: AckSignal::Progress,
                        ..
                    }
                )
            })
            .count()
    };
    assert_eq!(signals(&mut messages), 1);
    messages.beat(at(11));
    assert_eq!(signals(&mut messages), 0);
    messages.beat(at(90));
    assert_eq!(signals(&mut messages), 1);
}

#[test]
fn the_claim_of_work_that_waits_for_a_retry_promises_no_end_that_comes_before() {
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "x")])));
    let begun = ClaimRecord {
        limit: ClaimLimit::Until(40_000),
        ..claim("vm1", ID)
    };
    let message = messages.open.get_mut(&ID).unwrap();
    (message.claim, message.keep_at) = (KnownClaim::Written(begun, 3), at(3600).mono);
    message.signal_at = at(60).mono;
    messages.schedule(ID);
    let waiting = InvocationRecord {
        state: RunState::Waiting,
        ..record(ID, Reason::Error)
    };
    messages.ends(&waiting);
    assert_eq!(messages.due.first(), Some(&(Duration::ZERO, ID)), "it is looked at now");
    messages.take_effects();
    messages.keep_claim(at(14), ID);
    assert!(sent(&mut messages).is_empty());
    messages.keep_claim(at(15), ID);
    // In two beats it may be over. The new end: three beats of 10 s, then the longest attempt.
    let (_, kept) = wrote_claim(&mut messages, Some(3));
    assert_eq!((kept.limit, kept.attempts), (ClaimLimit::Until(235_000), 1));
}

/// That fnd was killed before it had stored the revision of the claim. Its attempt has ended since.
#[test]
fn the_claim_of_work_that_an_earlier_fnd_has_begun_is_kept_while_it_waits_for_a_retry() {
    for has_begun in [true, false] {
        let known = KnownMessage {
            id: ID,
            function: function("f"),
            mark: mark("ORDERS", 7),
            step: LocalStep::Open,
            has_begun,
            is_interrupted: false,
        };
        let mut messages = messages();
        messages.restore(at(0), vec![known], (&[], &[]));
        up(&mut messages);
        messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "x")])));
        messages.take_effects();
        messages.keep_claim(at(10), ID);
        let is_read = matches!(sent(&mut messages)[..], [NatsRequest::Read { .. }]);
        assert_eq!(is_read, has_begun);
    }
}

#[test]
fn nothing_is_due_without_servers_and_an_attempt_is_fenced_once() {
    assert_eq!(Messages::default().next_due(), None);
    let mut messages = open_message(ID);
    let lease = Duration::from_secs(6);
    messages.lease.sends(at(10).mono);
    messages.lease.renewed((at(10).mono, at(10).mono));
    assert!(messages.lease.hold(ID, lease, at(10).mono));
    messages.fence(at(15));
    assert!(messages.take_effects().is_empty());
    messages.fence(at(16));
    let effects = messages.take_effects();
    assert!(matches!(&effects[..], [MessageEffect::Event(Event::LeaseLost(lost))] if lost.len() == 1));
    messages.fence(at(17));
    assert!(messages.take_effects().is_empty());
}

#[test]
fn what_is_over_is_told_once_also_between_two_beats() {
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.lease.sends(at(10).mono);
    messages.lease.renewed((at(10).mono, at(10).mono));
    assert!(messages.lease.hold(ID, Duration::from_secs(6), at(10).mono));
    assert!(messages.over(at(15)).is_none());
    let lost = messages.over(at(16));
    assert!(matches!(&lost, Some(Event::LeaseLost(lost)) if matches!(lost[..], [(ID, _)])));
    assert!(messages.over(at(17)).is_none() && messages.take_effects().is_empty());
}

/// The event that is about to be handled may be its end, which counts.
#[test]
fn an_attempt_that_runs_is_ended_after_the_event_that_is_handled() {
    let mut messages = open_message(ID);
    messages.lease.sends(at(10).mono);
    messages.lease.renewed((at(10).mono, at(10).mono));
    assert!(messages.lease.hold(ID, Duration::from_secs(6), at(10).mono));
    messages.open.get_mut(&ID).unwrap().attempt = Some(MessageAttempt {
        number: Attempt(1),
        worker: WorkerId(4),
        began_ms: 0,
        ends_at: None,
    });
    assert!(messages.over(at(16)).is_none());
    let effects = messages.take_effects();
    assert!(matches!(effects[..], [MessageEffect::Event(Event::LeaseLost(_))]));
}

#[test]
fn an_attempt_is_renewed_by_its_own_lease_whatever_the_manifest_says_by_now() {
    let mut messages = open_message(ID);
    up(&mut messages);
    messages.lease.sends(at(100).mono);
    messages.lease.renewed((at(100).mono, at(100).mono));
    let (lease, second) = (Duration::from_secs(3), Duration::from_secs(1));
    assert!(messages.lease.hold(ID, lease, at(100).mono));
    messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "x")])));
    assert_eq!(messages.beat_of_node(), second, "the entry says 10 s");
    messages.wants(&function("f"), None);
    assert_eq!(messages.beat_of_node(), second);
    messages.lease.ended(ID);
    assert_eq!(messages.beat_of_node(), BEAT);
}

#[test]
fn a_thread_that_cannot_be_started_is_tried_again() {
    let mut messages = serving(wanted_entry("f", "x"));
    messages.has_no_thread(at(1), "no thread".to_owned());
    messages.take_effects();
    assert_eq!(messages.connection.error(), Some("no thread"));
    let due = messages.next_due().unwrap();
    assert!(due <= at(31).mono);
    messages.beat(at(31));
    let effects = messages.take_effects();
    let starts = |effect: &MessageEffect| matches!(effect, MessageEffect::StartAgain);
    let position = effects.iter().position(starts).expect("it is started");
    let told = |effect: &MessageEffect| matches!(effect, MessageEffect::Send(NatsRequest::Entries(_)));
    assert!(effects[position..].iter().any(told));
    messages.beat(at(32));
    assert!(!messages.take_effects().iter().any(starts));
}

#[test]
fn a_machine_that_was_suspended_has_less_time() {
    let mut messages = open_message(ID);
    messages.lease.sends(at(10).mono);
    messages.lease.renewed((at(10).mono, at(10).mono));
    assert!(messages.lease.hold(ID, Duration::from_secs(6), at(10).mono));
    for (suspended, is_fenced) in [(50, false), (50, false), (56, true)] {
        messages.was_suspended(at(11), Duration::from_secs(suspended));
        assert_eq!(messages.take_effects().len(), usize::from(is_fenced));
    }
}
