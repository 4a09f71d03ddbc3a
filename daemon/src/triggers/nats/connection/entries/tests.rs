use super::*;
use crate::triggers::nats::fact::ConsumerFigures;
use crate::triggers::nats::tests::{figures, ready};
use fnd_core::triggers::nats::rules::{FunctionLimits, NatsRules};
use fnd_core::triggers::nats::server::answers;
use fnd_manifest::function::NatsTrigger;
use fnd_wire::ids::FunctionName;
use std::sync::Arc;

pub(in crate::triggers::nats::connection) fn entry(number: u32, stream: Option<&str>) -> NatsEntry {
    let trigger = NatsTrigger {
        subject: "orders.>".to_owned(),
        stream: stream.map(str::to_owned),
        reply: stream.is_none(),
        ..NatsTrigger::default()
    };
    let limits = FunctionLimits {
        places: 4,
        timeout: None,
        grace: Duration::from_secs(5),
        retries_interrupted: true,
    };
    NatsEntry {
        number,
        rules: Arc::new(NatsRules::of(&FunctionName::new("f").unwrap(), &trigger, limits)),
        group: "f".to_owned(),
    }
}

fn start() -> Instant {
    crate::clock::monotonic()
}

fn found() -> Result<FoundEntry, NotFound> {
    Ok(FoundEntry {
        consumer: Box::new(answers::read(br#"{"created":"2026-11-21T08:00:00Z","config":{}}"#).unwrap()),
        state: ready(),
        figures: ConsumerFigures {
            pending: 1,
            made_ns: 7,
            ..figures()
        },
    })
}

/// Returns entry 1 as it is after its stream and its consumer were found.
fn known(now: Instant) -> Entries {
    let mut entries = Entries::default();
    entries.set(vec![entry(1, Some("ORDERS"))], true, now);
    assert_eq!(entries.due(now).len(), 1);
    assert_eq!(states(&entries.found(1, found(), now)), [ready()]);
    entries
}

fn states(facts: &[NatsFact]) -> Vec<EntryState> {
    let state = |fact: &NatsFact| match fact {
        NatsFact::Entry { entry: 1, state } => Some(state.clone()),
        _ => None,
    };
    facts.iter().filter_map(state).collect()
}

/// Returns a delivery of a consumer; that of entry 1 is `fnd-f`.
fn delivery(consumer: &'static str) -> AckAddress<'static> {
    AckAddress {
        stream: "ORDERS",
        consumer,
        delivered: 1,
        sequence: 1,
        consumer_sequence: 1,
        stored_ns: 1,
    }
}

fn left(facts: &[NatsFact]) -> usize {
    let left = |fact: &NatsFact| match fact {
        NatsFact::PullEnded { entry: 1, left } => *left,
        _ => 0,
    };
    facts.iter().map(left).sum()
}

#[test]
fn an_entry_is_looked_for_every_half_minute_and_reported_when_it_changes() {
    let now = start();
    let mut entries = known(now);
    assert!(entries.due(now).is_empty());
    assert_eq!(entries.next_due(), Some(now + LOOK));
    let later = now + LOOK;
    let due = entries.due(later);
    assert_eq!((due.len(), due[0].entry.number, due[0].made_ns), (1, 1, Some(7)));
    assert_eq!(entries.next_due(), None, "the question is on its way");
    assert!(states(&entries.found(1, found(), later)).is_empty());
    let gone = NotFound::Missing("it is gone".to_owned());
    assert_eq!(
        states(&entries.found(1, Err(gone), later)),
        [EntryState::Gone("it is gone".to_owned())]
    );
    // The same entries go on; another one begins anew, and one without a stream is never looked for.
    entries.set(vec![entry(1, Some("ORDERS")), entry(2, None)], true, later);
    assert!(entries.due(later).is_empty() && entries.services().len() == 1);
    entries.set(vec![entry(3, Some("ORDERS"))], true, later);
    assert_eq!(entries.due(later)[0].made_ns, Some(7), "its consumer is the same");
    entries.set(vec![entry(3, Some("OTHER"))], true, later);
    assert_eq!(entries.due(later)[0].made_ns, None);
}

#[test]
fn one_answer_that_is_missing_changes_nothing() {
    let now = start();
    let mut entries = known(now);
    let silent = || Err(NotFound::NoAnswer("silent".to_owned()));
    assert!(entries.found(1, silent(), now).is_empty());
    assert_eq!(entries.next_due(), Some(now + LOOK_AGAIN));
    entries.disconnected();
    entries.connected(now);
    assert_eq!(entries.due(now).len(), 1);
    assert_eq!(
        states(&entries.found(1, silent(), now)),
        [EntryState::Gone("silent".to_owned())]
    );
}

/// One of the messages may have ended the connection.
#[test]
fn a_connection_that_is_lost_while_messages_were_to_come_has_them_searched_once() {
    let now = start();
    let mut entries = known(now);
    let mut searches = |wanted: usize| {
        entries.want(1, wanted);
        entries.requests(now);
        entries.disconnected();
        // It is lost again before anybody has looked.
        entries.disconnected();
        entries.connected(now);
        let searches = entries.due(now)[0].searches;
        entries.found(1, found(), now);
        searches
    };
    assert_eq!([searches(0), searches(2), searches(0)], [false, true, false]);
}

#[test]
fn messages_are_asked_for_only_where_they_can_come() {
    let now = start();
    let mut entries = known(now);
    assert!(entries.want(1, 4).is_none());
    let requests = entries.requests(now);
    assert!(
        matches!(&requests[..], [(_, PullRequest { number: 0, batch: 4 })]),
        "{requests:?}"
    );
    assert_eq!(entries.delivered(&delivery("fnd-f"), now), Some(1));
    assert_eq!(left(&entries.status((1, 0), &PullStatus::Ended, now)), 3);
    let refused = entries.want(2, 4);
    assert!(
        matches!(refused, Some(NatsFact::PullEnded { entry: 2, left: 4 })),
        "{refused:?}"
    );
    entries.want(1, 2);
    entries.requests(now);
    let gone = entries.found(1, Err(NotFound::Missing("gone".to_owned())), now);
    assert_eq!(left(&gone), 2);
    assert!(entries.want(1, 1).is_some());
}

/// The server may still say how the last request of the entry before has ended.
#[test]
fn an_entry_that_comes_again_numbers_its_requests_anew() {
    let now = start();
    let mut entries = known(now);
    entries.want(1, 4);
    assert_eq!(entries.requests(now)[0].1.number, 0);
    entries.set(Vec::new(), true, now);
    entries.set(vec![entry(1, Some("ORDERS"))], true, now);
    entries.found(1, found(), now);
    assert!(entries.want(1, 2).is_none());
    assert_eq!(entries.requests(now)[0].1.number, 1);
    assert_eq!(left(&entries.status((1, 0), &PullStatus::Ended, now)), 0);
}

#[test]
fn a_message_of_another_consumer_is_of_no_entry() {
    let now = start();
    let mut entries = known(now);
    assert_eq!(entries.delivered(&delivery("fnd-g"), now), None);
}

#[test]
fn two_requests_without_a_word_are_a_stalled_consumer_until_it_says_something() {
    let now = start();
    let mut entries = known(now);
    let mut at = now;
    for expected in [vec![], vec![EntryState::Stalled]] {
        entries.want(1, 1);
        entries.requests(at);
        at += Duration::from_secs(11);
        let facts = entries.silent(at);
        assert_eq!((states(&facts), left(&facts)), (expected, 1));
        assert_eq!(entries.due(at).len(), 1, "it is looked for at once");
        assert!(states(&entries.found(1, found(), at)).is_empty());
    }
    entries.want(1, 1);
    entries.requests(at);
    entries.status((1, 2), &PullStatus::Waits, at);
    assert_eq!(entries.due(at).len(), 1);
    assert_eq!(states(&entries.found(1, found(), at)), [ready()]);
}

#[test]
fn a_consumer_whose_deliveries_nobody_takes_is_looked_for() {
    let now = start();
    let mut entries = known(now);
    entries.doubt(("ORDERS", "other"), now);
    assert!(entries.due(now).is_empty());
    entries.doubt(("ORDERS", "fnd-f"), now);
    assert_eq!(entries.due(now).len(), 1);
    entries.found(1, found(), now);
    entries.status((1, 0), &PullStatus::Gone, now);
    assert_eq!(entries.due(now).len(), 1);
}
