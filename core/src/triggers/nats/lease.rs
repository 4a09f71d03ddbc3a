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
    /// How many attempts have each lease, without those whose time is over. Before each event the shortest one is asked for, and there may
    /// be thousands of attempts.
    leases: BTreeMap<Duration, usize>,
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
            self.insert(invocation, lease, None);
        }
        has_time
    }

    fn insert(&mut self, invocation: InvocationId, lease: Duration, worker: Option<(WorkerId, Option<Duration>)>) {
        let attempt = LeasedAttempt {
            lease,
            worker,
            is_over: false,
        };
        self.remove(invocation);
        self.attempts.insert(invocation, attempt);
        *self.leases.entry(lease).or_default() += 1;
    }

    fn remove(&mut self, invocation: InvocationId) {
        let removed = self.attempts.remove(&invocation);
        if let Some(attempt) = removed.filter(|attempt| !attempt.is_over) {
            count_out(&mut self.leases, attempt.lease);
        }
    }

    /// Takes an attempt that an earlier fnd of this node has begun. Its time is the deadline that the spawner has from that fnd,
    /// until a renewal is answered: a worker that is there then has not reached its deadline, so the lease has no gap.
    pub fn adopt(&mut self, invocation: InvocationId, lease: Duration, worker: (WorkerId, Option<Duration>)) {
        self.insert(invocation, lease, Some(worker));
    }

    /// Says whether an attempt ends with the lease, and its time is not over.
    #[must_use]
    pub fn has(&self, invocation: InvocationId) -> bool {
        self.attempts.get(&invocation).is_some_and(|attempt| !attempt.is_over)
    }

    /// Says whether the time of an attempt that has not ended is over.
    #[must_use]
    pub fn is_over(&self, invocation: InvocationId) -> bool {
        self.attempts.get(&invocation).is_some_and(|attempt| attempt.is_over)
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
        self.remove(invocation);
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
                #[cfg(feature = "simulate")]
                if attempt.worker.is_none() && crate::mutants::Mutant::LateClaimBegins.is_on() {
                    count_out(&mut self.leases, attempt.lease);
                    attempt.lease = Duration::from_hours(1);
                    *self.leases.entry(attempt.lease).or_default() += 1;
                    continue;
                }
                attempt.is_over = true;
                count_out(&mut self.leases, attempt.lease);
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
        self.leases.keys().next().copied()
    }

    /// Returns the deadline of each worker as the spawner is to know it, a time of the monotonic clock that may be over: that of its
    /// attempt that ends first. Other calls in the worker end with it: nothing else would keep two nodes apart.
    /// Without those of [`Self::is_fenced`].
    #[must_use]
    pub fn deadlines(&self) -> BTreeMap<WorkerId, Duration> {
        let mut deadlines = BTreeMap::new();
        for (worker, end) in self.ends() {
            let known = deadlines.entry(worker).or_insert(end);
            *known = end.min(*known);
        }
        deadlines.retain(|worker, _| !self.is_fenced(*worker));
        deadlines
    }

    /// Returns the deadline of one worker, as [`Self::deadlines`] does.
    #[must_use]
    pub fn end_of_worker(&self, worker: WorkerId) -> Option<Duration> {
        let ends = self.ends().filter(|(its, _)| *its == worker);
        ends.map(|(_, end)| end).min().filter(|_| !self.is_fenced(worker))
    }

    /// Returns the workers of the attempts, and when each attempt ends.
    fn ends(&self) -> impl Iterator<Item = (WorkerId, Duration)> {
        self.attempts.values().filter_map(|attempt| {
            // Before the first renewal the spawner has the deadline that it got from an earlier fnd, which is the right one.
            let (worker, ends_at) = attempt.worker?;
            let end = self.end_of(attempt.lease)?;
            Some((worker, ends_at.map_or(end, |ends_at| end.min(ends_at))))
        })
    }

    /// Says whether a worker has an attempt whose time is over and that has not ended. The spawner keeps the deadline that it has: if
    /// fnd is stopped before the attempt has ended, nothing else ends it.
    #[must_use]
    pub fn is_fenced(&self, worker: WorkerId) -> bool {
        let mut over = self.attempts.values().filter(|attempt| attempt.is_over);
        over.any(|attempt| attempt.worker.is_some_and(|(its, _)| its == worker))
    }
}

/// Counts one attempt fewer with this lease.
fn count_out(leases: &mut BTreeMap<Duration, usize>, lease: Duration) {
    if let Some(count) = leases.get_mut(&lease) {
        *count -= 1;
        if *count == 0 {
            leases.remove(&lease);
        }
    }
}

#[cfg(test)]
mod tests;
