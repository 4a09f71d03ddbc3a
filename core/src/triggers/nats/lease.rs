//! The lease of this node: as long as the node renews its key in the bucket, no other node begins what this one has. The lease
//! is one for the whole node; each attempt ends with it a little earlier or later, by its own `ack_wait` and grace.
//!
//! ```text
//!  hold ─▶ claim sent ─▶ claim written ─▶ starts ─▶ ended
//!   └──────────┴──────────────┴─────────────┴─ the time since the last renewal is over ─▶ fenced
//! ```
//! The time counts from the moment in which a renewal was *sent*. Its answer may come much later, and the others count from the
//! moment in which they hear of the renewal, which is later, too. An attempt whose time is over gets SIGTERM from fnd; if fnd is
//! stopped, from the spawner, which has the same time as a deadline of the worker. A renewal that comes after that brings
//! nothing back: neither an attempt that has begun, nor a claim of one that has not.

use fnd_wire::ids::{InvocationId, WorkerId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An attempt that ends with the lease, from the moment in which it is about to be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LeasedAttempt {
    /// Time from a renewal to its SIGTERM: [`NatsRules::lease`](super::rules::NatsRules::lease).
    lease: Duration,
    /// The worker that runs it, and when the attempt's own limits end it; absent before it starts.
    worker: Option<(WorkerId, Option<Duration>)>,
    /// Whether its time was over. It is known until it has ended: until then its worker gets no later deadline.
    is_over: bool,
}

/// The lease of this node.
#[derive(Debug, Default)]
pub struct NodeLease {
    /// When the last renewal was sent that was answered.
    renewed: Option<Duration>,
    /// When a renewal was sent that is not answered yet.
    sent: Option<Duration>,
    /// When the machine was found to have been suspended. A renewal that was sent before has an unknown age.
    resumed: Duration,
    attempts: BTreeMap<InvocationId, LeasedAttempt>,
    /// Attempts whose time was over when a renewal came.
    over: BTreeSet<InvocationId>,
}

impl NodeLease {
    /// Takes an attempt that is about to be claimed. Returns whether it may be: the lease has time left.
    #[must_use]
    pub fn hold(&mut self, invocation: InvocationId, lease: Duration, now: Duration) -> bool {
        let has_time = self.end_of(lease).is_some_and(|end| end > now);
        #[cfg(feature = "simulate")]
        let lease = match crate::mutants::Mutant::NoFence.is_on() {
            true => Duration::from_hours(1),
            false => lease,
        };
        if has_time {
            // An earlier attempt of the invocation has ended, or never began: only the new one is to be fenced from now on.
            self.over.remove(&invocation);
            let attempt = LeasedAttempt {
                lease,
                worker: None,
                is_over: false,
            };
            self.attempts.insert(invocation, attempt);
        }
        has_time
    }

    /// Takes an attempt that an earlier fnd of this node has begun. Its time is the deadline that the spawner has from that fnd,
    /// until a renewal is answered: a worker that is there then has not reached its deadline, so the lease has no gap.
    pub fn adopt(&mut self, invocation: InvocationId, lease: Duration, worker: (WorkerId, Option<Duration>)) {
        let attempt = LeasedAttempt {
            lease,
            worker: Some(worker),
            is_over: false,
        };
        self.attempts.insert(invocation, attempt);
    }

    /// Says whether an attempt that was claimed may start: the lease was renewed in time ever since [`Self::hold`].
    #[must_use]
    pub fn is_held(&self, invocation: InvocationId, now: Duration) -> bool {
        let attempt = self.attempts.get(&invocation).filter(|attempt| !attempt.is_over);
        attempt.is_some_and(|attempt| self.end_of(attempt.lease).is_some_and(|end| end > now))
    }

    /// Takes note of the worker in which a held attempt starts.
    pub fn starts(&mut self, invocation: InvocationId, worker: (WorkerId, Option<Duration>)) {
        if let Some(attempt) = self.attempts.get_mut(&invocation) {
            attempt.worker = Some(worker);
        }
    }

    /// Removes an attempt that has ended, or whose claim was refused.
    pub fn ended(&mut self, invocation: InvocationId) {
        self.over.remove(&invocation);
        self.attempts.remove(&invocation);
    }

    /// Returns when attempts with this lease end if it is not renewed again; nothing if it never was.
    fn end_of(&self, lease: Duration) -> Option<Duration> {
        Some(self.renewed?.saturating_add(lease))
    }

    /// Returns when the next renewal is due, `beat` after the last one; [`Duration::ZERO`] before the first one. An answer that is
    /// missing is not waited for longer than that.
    #[must_use]
    pub fn due_at(&self, beat: Duration) -> Duration {
        let last = self.sent.max(self.renewed);
        last.map_or(Duration::ZERO, |last| last.saturating_add(beat))
    }

    /// Takes note that a renewal is sent now.
    pub fn sends(&mut self, now: Duration) {
        self.sent = Some(now);
    }

    /// Takes the answer, at `now`, to the renewal that was sent at `sent`.
    pub fn renewed(&mut self, (sent, now): (Duration, Duration)) {
        #[cfg(feature = "simulate")]
        let (sent, now) = match crate::mutants::Mutant::LeaseFromAnswer.is_on() {
            true => (now, now),
            false => (sent, now),
        };
        #[cfg(feature = "simulate")]
        let now = match crate::mutants::Mutant::LateRenewalRevives.is_on() {
            true => Duration::ZERO,
            false => now,
        };
        // First move the attempts whose lease has ended: a renewal does not bring them back.
        self.move_over(now);
        if sent >= self.resumed {
            self.renewed = self.renewed.max(Some(sent));
        }
        self.sent = self.sent.filter(|last| *last > sent);
    }

    /// The connection was lost: an answer that is missing will not come. The lease goes on until its end.
    pub fn disconnected(&mut self) {
        self.sent = None;
    }

    /// The machine was suspended for so long before `now`: the other nodes have counted on, and the clock of this one has not.
    pub fn slept(&mut self, time: Duration, now: Duration) {
        self.resumed = now;
        match &mut self.renewed {
            Some(renewed) => *renewed = renewed.saturating_sub(time),
            // The clock of the spawner has not counted on either, so its deadlines are too late now.
            None => self.move_over_if(|_| true),
        }
        self.sent = None;
    }

    /// Moves the attempts whose time is over, so that no renewal brings them back.
    fn move_over(&mut self, now: Duration) {
        // Before the first renewal there are only attempts of an earlier fnd.
        let Some(renewed) = self.renewed else { return };
        self.move_over_if(|attempt| renewed.saturating_add(attempt.lease) <= now);
    }

    fn move_over_if(&mut self, is_over: impl Fn(&LeasedAttempt) -> bool) {
        for (id, attempt) in &mut self.attempts {
            if !attempt.is_over && is_over(attempt) {
                attempt.is_over = true;
                self.over.insert(*id);
            }
        }
    }

    /// Returns the attempts whose time is over, each once. Those that run are to be ended; the claim of any other one is to be
    /// written anew before it may begin.
    pub fn fence(&mut self, now: Duration) -> BTreeSet<InvocationId> {
        self.move_over(now);
        std::mem::take(&mut self.over)
    }

    /// Returns when [`Self::fence`] has something to return; nothing without attempts.
    #[must_use]
    pub fn ends_at(&self) -> Option<Duration> {
        if !self.over.is_empty() {
            return Some(Duration::ZERO);
        }
        self.end_of(self.shortest()?)
    }

    /// Returns the shortest lease of an attempt; nothing without attempts.
    #[must_use]
    pub fn shortest(&self) -> Option<Duration> {
        let have_time = self.attempts.values().filter(|attempt| !attempt.is_over);
        have_time.map(|attempt| attempt.lease).min()
    }

    /// Returns the deadline of each worker as the spawner is to know it, as the time from `now`: that of its attempt that ends
    /// first. Other calls in the worker end with it: nothing else would keep two nodes apart. Without those of [`Self::is_fenced`].
    #[must_use]
    pub fn deadlines(&self, now: Duration) -> BTreeMap<WorkerId, Duration> {
        let mut deadlines = BTreeMap::new();
        for attempt in self.attempts.values() {
            // Before the first renewal the spawner has the deadline that it got from an earlier fnd, which is the right one.
            let (Some((worker, ends_at)), Some(end)) = (attempt.worker, self.end_of(attempt.lease)) else {
                continue;
            };
            let end = ends_at.map_or(end, |ends_at| end.min(ends_at));
            let rest = end.saturating_sub(now);
            let known = deadlines.entry(worker).or_insert(rest);
            *known = rest.min(*known);
        }
        deadlines.retain(|worker, _| !self.is_fenced(*worker));
        deadlines
    }

    /// Says whether a worker has an attempt whose time is over and that has not ended. The spawner keeps the deadline that it has: if
    /// fnd is stopped before the attempt has ended, nothing else ends it.
    #[must_use]
    pub fn is_fenced(&self, worker: WorkerId) -> bool {
        let mut over = self.attempts.values().filter(|attempt| attempt.is_over);
        over.any(|attempt| attempt.worker.is_some_and(|(its, _)| its == worker))
    }
}

#[cfg(test)]
mod tests {
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
        let deadlines: Vec<_> = lease.deadlines(at(101)).into_iter().collect();
        assert_eq!(deadlines, [(WorkerId(1), at(5)), (WorkerId(2), at(2))]);
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
        let deadline = |lease: &NodeLease| lease.deadlines(at(107)).get(&WorkerId(1)).copied();
        assert_eq!((deadline(&lease), lease.is_fenced(WorkerId(1))), (None, true));
        assert!(!lease.is_held(ONE, at(107)) && fenced(&mut lease, 108).is_empty());
        lease.ended(ONE);
        assert_eq!(deadline(&lease), Some(at(11)));
    }

    #[test]
    fn an_adopted_attempt_has_the_deadline_of_the_spawner_until_the_first_renewal() {
        let mut lease = NodeLease::default();
        lease.adopt(ONE, LEASE, (WorkerId(1), Some(at(104))));
        assert_eq!((lease.ends_at(), fenced(&mut lease, 99)), (None, vec![]));
        assert!(
            lease.deadlines(at(99)).is_empty(),
            "the deadline that it has is the right one"
        );
        lease.sends(at(100));
        lease.renewed((at(100), at(101)));
        let deadlines: Vec<_> = lease.deadlines(at(101)).into_iter().collect();
        assert_eq!(
            deadlines,
            [(WorkerId(1), at(3))],
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
}
