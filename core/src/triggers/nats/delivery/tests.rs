//! The meaning of a delivery, case by case.

use super::super::claim::tests::claim;
use super::super::rules::tests::rules;
use super::*;

const NOW_MS: u64 = 1_795_248_100_000;
const PROVEN: HolderSilence = HolderSilence::Other(SilenceProof::Given(Duration::from_millis(31_400)));

fn place(sequence: u64) -> StreamPlace {
    StreamPlace {
        stream: "ORDERS".into(),
        created_ns: 1,
        sequence,
    }
}

fn seen(claim: ClaimRecord) -> ClaimSeen {
    ClaimSeen::Found(Box::new(claim), 3)
}

/// Returns the step for message 7 of ORDERS after a change of a first delivery of which the ledger knows nothing.
fn step(retries_interrupted: bool, change: impl for<'a> FnOnce(&mut Delivery<'a>, &'a Known)) -> DeliveryStep {
    let known = Known {
        place: place(7),
        other: place(8),
        silence: seen(claim(ClaimLimit::Silence(30_000))),
        until: seen(claim(ClaimLimit::Until(NOW_MS + 40_000))),
        person: seen(claim(ClaimLimit::Person)),
        ended: seen(claim(ClaimLimit::Person).ended(1, false)),
    };
    let rules = rules(retries_interrupted);
    let mut delivery = Delivery {
        rules: &rules,
        place: &known.place,
        delivered: 1,
        takes_work: true,
        local: None,
        is_looked_up: true,
        looks_first: false,
        claim: &ClaimSeen::Unread,
        silence: HolderSilence::Unseen,
        original: OriginalMessage::Unread,
        now_ms: NOW_MS,
    };
    change(&mut delivery, &known);
    decide(&delivery)
}

/// The parts of a delivery that a test chooses.
struct Known {
    place: StreamPlace,
    other: StreamPlace,
    silence: ClaimSeen,
    until: ClaimSeen,
    person: ClaimSeen,
    ended: ClaimSeen,
}

fn seconds(seconds: u64) -> DeliveryStep {
    DeliveryStep::GiveBack(Duration::from_secs(seconds))
}

fn acknowledge(is_same: bool) -> DeliveryStep {
    DeliveryStep::Acknowledge { is_duplicate: !is_same }
}

#[test]
fn a_new_message_is_accepted_and_one_that_comes_again_is_looked_up_first() {
    assert_eq!(step(true, |_, _| {}), DeliveryStep::Accept);
    assert_eq!(step(true, |d, _| d.delivered = 2), DeliveryStep::ReadClaim);
    let absent = step(true, |d, _| (d.delivered, d.claim) = (2, &ClaimSeen::Absent));
    assert_eq!(absent, DeliveryStep::Accept);
    // Another node may take it.
    assert_eq!(step(true, |d, _| d.takes_work = false), seconds(1));
}

/// The ledger refuses a second row of a message, so a first delivery need not wait for its answer.
#[test]
fn only_a_first_delivery_that_is_taken_is_accepted_before_the_ledger_has_answered() {
    for (delivered, takes_work, looks_first, is_accepted) in [
        (1, true, false, true),
        (2, true, false, false),
        // What has ended here is acknowledged, also if the function takes nothing new.
        (1, false, false, false),
        (1, true, true, false),
    ] {
        let found = step(true, |d, _| {
            (d.is_looked_up, d.delivered) = (false, delivered);
            (d.takes_work, d.looks_first) = (takes_work, looks_first);
        });
        let expected = if is_accepted {
            DeliveryStep::Accept
        } else {
            DeliveryStep::LookUp
        };
        assert_eq!(found, expected, "{delivered} {takes_work} {looks_first}");
    }
    // The books of open messages know more than the ledger, which is not asked then.
    let open = step(true, |d, known| {
        d.is_looked_up = false;
        d.local = Some(LocalMessage {
            place: &known.place,
            step: LocalStep::Open,
        });
    });
    assert_eq!(open, DeliveryStep::Renew);
}

#[test]
fn what_the_ledger_knows_decides_first() {
    use LocalStep::{Accepted, Closed, Ending, Open, Superseded};
    for (local, same, other) in [
        (Open, DeliveryStep::Renew, seconds(30)),
        (Ending, DeliveryStep::Renew, seconds(30)),
        (Accepted, acknowledge(true), seconds(30)),
        (Closed, acknowledge(true), acknowledge(false)),
        (Superseded, DeliveryStep::ReadClaim, DeliveryStep::ReadClaim),
    ] {
        // A disabled function ends what it has.
        let found = |is_same: bool| {
            step(true, move |d, known| {
                let place = if is_same { &known.place } else { &known.other };
                d.local = Some(LocalMessage { place, step: local });
                d.takes_work = local == Superseded;
            })
        };
        assert_eq!((found(true), found(false)), (same, other), "{local:?}");
    }
}

#[test]
fn work_that_has_ended_anywhere_is_acknowledged() {
    let ended = step(true, |d, known| d.claim = &known.ended);
    assert_eq!(ended, acknowledge(true));
    let duplicate = step(true, |d, known| {
        (d.place, d.claim) = (&known.other, &known.ended);
    });
    assert_eq!(duplicate, acknowledge(false));
}

#[test]
fn a_duplicate_takes_over_only_what_no_other_message_goes_on_with() {
    let found = |silence, original| {
        step(true, move |d, known| {
            (d.place, d.claim) = (&known.other, &known.silence);
            (d.silence, d.original) = (silence, original);
        })
    };
    let alive = HolderSilence::Other(SilenceProof::Wants(Duration::from_secs(7)));
    assert_eq!(found(alive, OriginalMessage::Gone), seconds(30), "its work goes on");
    assert_eq!(
        found(HolderSilence::Unseen, OriginalMessage::Unread),
        DeliveryStep::ReadHolder
    );
    for silence in [PROVEN, HolderSilence::Own] {
        assert_eq!(
            found(silence, OriginalMessage::Unread),
            DeliveryStep::ReadOriginal("ORDERS".into(), 7)
        );
        assert_eq!(found(silence, OriginalMessage::There), seconds(30));
        let taken = found(silence, OriginalMessage::Gone);
        assert!(matches!(taken, DeliveryStep::TakeOver(_)), "{taken:?}");
    }
    let person = step(false, |d, known| {
        (d.place, d.claim) = (&known.other, &known.person);
        (d.silence, d.original) = (PROVEN, OriginalMessage::Gone);
    });
    assert_eq!(person, seconds(30));
}

#[test]
fn only_a_silent_node_loses_its_message() {
    let found = |silence| {
        step(true, move |d, known| {
            (d.claim, d.silence) = (&known.silence, silence);
        })
    };
    assert_eq!(found(HolderSilence::Unseen), DeliveryStep::ReadHolder);
    let wants = |ms| HolderSilence::Other(SilenceProof::Wants(Duration::from_millis(ms)));
    assert_eq!(found(wants(7000)), seconds(7));
    assert_eq!(found(wants(20)), DeliveryStep::GiveBack(GIVE_BACK_LEAST));
    let takeover = Takeover {
        revision: 3,
        attempts: 1,
        is_last: false,
        message: "vm1 had begun it at 2026-11-21T08:00:00.123Z and was silent for 31s".to_owned(),
    };
    assert_eq!(found(PROVEN), DeliveryStep::TakeOver(Box::new(takeover)));
    let DeliveryStep::TakeOver(own) = found(HolderSilence::Own) else {
        panic!("the own claim");
    };
    assert!(
        own.message.ends_with("its history does not know the end"),
        "{}",
        own.message
    );
}

#[test]
fn work_that_nobody_begins_again_waits_for_its_time_or_for_a_person() {
    let found = |passed_ms: u64| {
        step(false, move |d, known| {
            d.now_ms += passed_ms;
            (d.claim, d.silence) = (&known.until, PROVEN);
        })
    };
    assert_eq!(found(0), seconds(40));
    let DeliveryStep::TakeOver(over) = found(40_000) else {
        panic!("its time is over");
    };
    assert!(
        over.message.ends_with("has not ended it in its time"),
        "{}",
        over.message
    );
    let person = step(false, |d, known| {
        (d.claim, d.silence) = (&known.person, PROVEN);
    });
    assert_eq!(person, DeliveryStep::GiveBack(GIVE_BACK_MOST));
    let unreadable = step(true, |d, _| (d.delivered, d.claim) = (2, &ClaimSeen::Unreadable));
    assert_eq!(unreadable, DeliveryStep::GiveBack(GIVE_BACK_MOST));
}

#[test]
fn a_message_that_begins_too_often_without_an_end_gets_no_further_attempt() {
    // The attempt that has begun and has no end counts, too; attempts that failed do not.
    for (lost, is_last) in [(3, false), (4, true), (5, true)] {
        let claim = ClaimRecord {
            attempts: 9,
            lost,
            ..claim(ClaimLimit::Silence(30_000))
        };
        let rules = rules(true);
        let place = place(7);
        let step = decide(&Delivery {
            rules: &rules,
            place: &place,
            delivered: 1,
            takes_work: true,
            local: None,
            is_looked_up: true,
            looks_first: false,
            claim: &seen(claim),
            silence: PROVEN,
            original: OriginalMessage::Unread,
            now_ms: NOW_MS,
        });
        let DeliveryStep::TakeOver(takeover) = step else {
            panic!("{lost}: {step:?}");
        };
        assert_eq!((takeover.is_last, takeover.attempts), (is_last, 9), "{lost}");
    }
}
