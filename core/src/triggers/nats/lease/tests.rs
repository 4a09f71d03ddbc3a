//! The lease of a node, with the times of its renewals.

use super::*;

const LEASE: Duration = Duration::from_secs(6);
const BEAT: Duration = Duration::from_secs(2);
const ONE: InvocationId = InvocationId(1);
const TWO: InvocationId = InvocationId(2);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns a lease that was renewed at 100 s.
fn lease() -> NodeLease {
    let mut lease = NodeLease::default();
    lease.sends(at(100));
    lease.renewed((at(100), at(100)));
    lease
}

fn fenced(lease: &mut NodeLease, seconds: u64) -> Vec<InvocationId> {
    lease.fence(at(seconds)).into_iter().collect()
}

#[test]
fn nothing_is_claimed_before_the_first_answer_and_after_the_end() {
    let mut lease = NodeLease::default();
    assert_eq!(lease.due_at(BEAT), Duration::ZERO);
    lease.sends(at(100));
    assert!(!lease.hold(ONE, LEASE, at(101)));
    lease.renewed((at(100), at(101)));
    assert!(lease.hold(ONE, LEASE, at(105)) && !lease.hold(TWO, LEASE, at(106)));
}

#[test]
fn the_time_counts_from_the_sending_and_an_older_answer_shortens_nothing() {
    let mut lease = lease();
    lease.sends(at(102));
    lease.sends(at(104));
    lease.renewed((at(104), at(105)));
    lease.renewed((at(102), at(105)));
    assert!(lease.hold(ONE, LEASE, at(109)) && !lease.hold(TWO, LEASE, at(110)));
}

#[test]
fn a_renewal_is_due_in_each_beat_and_sooner_after_a_lost_connection() {
    let mut lease = lease();
    assert_eq!(lease.due_at(BEAT), at(102));
    lease.sends(at(103));
    assert_eq!(lease.due_at(BEAT), at(105), "the answer is missing");
    lease.disconnected();
    assert_eq!(lease.due_at(BEAT), at(102));
}

#[test]
fn the_shortest_lease_is_that_of_an_attempt_that_has_time() {
    let mut lease = lease();
    assert_eq!(lease.shortest(), None);
    for (id, time) in [(ONE, LEASE), (TWO, LEASE), (InvocationId(3), LEASE * 2)] {
        assert!(lease.hold(id, time, at(100)));
    }
    // The next attempt of the same invocation has another lease.
    assert!(lease.hold(ONE, LEASE * 2, at(100)));
    assert_eq!(lease.shortest(), Some(LEASE));
    assert_eq!(fenced(&mut lease, 106), [TWO]);
    assert_eq!(lease.shortest(), Some(LEASE * 2), "it has not ended, and has no time");
    for id in [TWO, ONE, InvocationId(3)] {
        assert!(lease.shortest().is_some());
        lease.ended(id);
    }
    assert_eq!(lease.shortest(), None);
}

#[test]
fn an_attempt_whose_time_is_over_is_fenced_once() {
    let mut lease = lease();
    assert!(lease.hold(ONE, LEASE, at(100)) && lease.hold(TWO, LEASE * 2, at(100)));
    lease.starts(TWO, (WorkerId(2), None));
    assert_eq!((lease.ends_at(), fenced(&mut lease, 105)), (Some(at(106)), vec![]));
    assert_eq!(fenced(&mut lease, 106), [ONE]);
    assert_eq!(fenced(&mut lease, 107), []);
    lease.ended(TWO);
    assert_eq!(lease.ends_at(), None);
}

/// fnd was stopped after its claim was written. Meanwhile another node may have taken the message over.
#[test]
fn a_late_renewal_brings_no_claim_back() {
    let mut lease = lease();
    assert!(lease.hold(ONE, LEASE, at(101)) && lease.is_held(ONE, at(105)));
    lease.sends(at(120));
    lease.renewed((at(120), at(121)));
    assert!(!lease.is_held(ONE, at(121)));
    assert_eq!(lease.ends_at(), Some(Duration::ZERO));
    assert!(lease.hold(ONE, LEASE, at(121)) && lease.is_held(ONE, at(122)));
    assert_eq!(fenced(&mut lease, 122), [], "the new claim is not the old one");
}

#[test]
fn a_worker_has_the_deadline_of_its_attempt_that_ends_first() {
    let mut lease = lease();
    for (id, length, worker, ends_at) in [
        (1, LEASE * 2, 1, None),
        (2, LEASE, 1, None),
        (3, LEASE, 2, Some(at(103))),
    ] {
        assert!(lease.hold(InvocationId(id), length, at(100)));
        lease.starts(InvocationId(id), (WorkerId(worker), ends_at));
    }
    assert!(lease.hold(InvocationId(4), LEASE, at(100)), "it has no worker yet");
    let deadlines: Vec<_> = lease.deadlines().into_iter().collect();
    assert_eq!(deadlines, [(WorkerId(1), at(106)), (WorkerId(2), at(103))]);
}

/// If fnd is stopped while the fenced call ends, the spawner ends it.
#[test]
fn a_renewal_gives_the_worker_of_a_fenced_attempt_no_more_time() {
    let mut lease = lease();
    assert!(lease.hold(ONE, LEASE, at(100)) && lease.hold(TWO, LEASE * 2, at(100)));
    for id in [ONE, TWO] {
        lease.starts(id, (WorkerId(1), None));
    }
    assert_eq!(fenced(&mut lease, 106), [ONE]);
    lease.sends(at(106));
    lease.renewed((at(106), at(107)));
    let deadline = |lease: &NodeLease| {
        let end = lease.deadlines().get(&WorkerId(1)).copied();
        assert_eq!(end, lease.end_of_worker(WorkerId(1)));
        end
    };
    assert_eq!((deadline(&lease), lease.is_fenced(WorkerId(1))), (None, true));
    assert!(!lease.is_held(ONE, at(107)) && fenced(&mut lease, 108).is_empty());
    lease.ended(ONE);
    assert_eq!(deadline(&lease), Some(at(118)));
}

#[test]
fn an_adopted_attempt_has_the_deadline_of_the_spawner_until_the_first_renewal() {
    let mut lease = NodeLease::default();
    lease.adopt(ONE, LEASE, (WorkerId(1), Some(at(104))));
    assert_eq!((lease.ends_at(), fenced(&mut lease, 99)), (None, vec![]));
    assert!(
        lease.deadlines().is_empty(),
        "the deadline that it has is the right one"
    );
    lease.sends(at(100));
    lease.renewed((at(100), at(101)));
    let deadlines: Vec<_> = lease.deadlines().into_iter().collect();
    assert_eq!(
        deadlines,
        [(WorkerId(1), at(104))],
        "its timeout comes before the end of the lease"
    );
    assert!(lease.is_held(ONE, at(105)));
    assert_eq!(fenced(&mut lease, 106), [ONE]);
}

#[test]
fn a_suspended_machine_has_less_time() {
    let mut lease = lease();
    assert!(lease.hold(ONE, LEASE, at(100)));
    lease.slept(at(5), at(101));
    assert!(!lease.is_held(ONE, at(101)));
    assert_eq!(fenced(&mut lease, 101), [ONE]);
    assert_eq!(lease.due_at(BEAT), at(97));
    let mut adopted = NodeLease::default();
    adopted.adopt(TWO, LEASE, (WorkerId(1), None));
    adopted.slept(at(5), at(101));
    assert_eq!(fenced(&mut adopted, 101), [TWO]);
}

#[test]
fn a_renewal_from_before_the_machine_was_suspended_renews_nothing() {
    let mut lease = lease();
    lease.sends(at(101));
    lease.slept(at(60), at(102));
    lease.renewed((at(101), at(103)));
    assert!(!lease.hold(ONE, LEASE, at(103)));
    lease.sends(at(104));
    lease.renewed((at(104), at(105)));
    assert!(lease.hold(ONE, LEASE, at(105)));
}
