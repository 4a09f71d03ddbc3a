//! Claims: that an attempt of durable work begins is on the disk before any function sees it, so that after a power cut it is
//! known to have begun and does not run again in silence.
//!
//! ```text
//! Ready ──Claim──▶ Claiming ──Claimed──▶ Claimed ──▶ Running
//!   ▲ ▲               │                     │
//!   │ └──ClaimFailed──┘ (after a pause)     │
//!   └── fnd stops: what has not begun waits for the next fnd
//! ```
//! One that could begin now is claimed: a script with its place in the budget, which it holds meanwhile. Waiting for the disk
//! each time would make a backlog of short runs as slow as the disk. So as many more are claimed ahead as begin within a few of
//! its round trips; where runs are long that is none. What was claimed and not begun is told apart by the table of attempts
//! that have begun (the ledger's), and waits again; after a power cut, which takes that table, it is interrupted.

use super::Supervisor;
use super::action::Action;
use super::event::Now;
use super::function::{Function, FunctionKey, Place, Serving};
use super::invocation::{Invocation, Stage};
use super::timers::Timer;
use fnd_wire::ids::InvocationId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What begins within so many round trips of the ledger is claimed ahead: with fewer, its workers would wait for the disk now
/// and then; with more, a power cut would interrupt more that has not begun.
const ROUND_TRIPS: u128 = 16;
/// The most that is claimed ahead for a function: what the ledger commits at once. Only a disk that is slow beside the runs needs it.
const AHEAD_MAX: usize = 1024;
/// How long the ledger is left alone after the first claim that failed; twice as long after each that follows.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A function's claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Durable invocations that wait for their turn to be claimed.
    pub(super) waiting: BTreeMap<Place, InvocationId>,
    /// Claims on their way to the disk.
    pub(super) under_way: usize,
    /// Those of them that hold a place in the budget.
    pub(super) held: usize,
    /// Claimed and not begun; they are among those ready.
    pub(super) claimed: usize,
}

/// How the ledger takes claims.
#[derive(Debug, Default)]
pub(super) struct ClaimRate {
    /// How long the last one took.
    round_trip: Duration,
    /// Failures in a row.
    failures: u32,
    /// Until when none is tried.
    paused: Option<Duration>,
}

impl ClaimRate {
    /// Says whether something may be claimed now.
    pub(super) fn may_claim(&self) -> bool {
        self.paused.is_none()
    }
}

/// What is first of all that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// It may begin.
    Ready,
    /// It is to be claimed.
    Unclaimed,
}

impl Function {
    /// Returns how many wait for their turn, are claimed, or may begin.
    pub(super) fn waiting(&self) -> usize {
        self.ready.len() + self.claims.waiting.len() + self.claims.under_way
    }

    /// Says what is first of all that may begin or, where that `may` be done, be claimed.
    pub(super) fn first(&self, may: bool) -> Option<First> {
        let ready = self.ready.first_key_value().map(|(place, _)| place);
        let unclaimed = self.claims.waiting.first_key_value().map(|(place, _)| place);
        match (ready, unclaimed.filter(|_| may)) {
            (None, None) => None,
            (Some(ready), Some(unclaimed)) if unclaimed < ready => Some(First::Unclaimed),
            (Some(_), _) => Some(First::Ready),
            (None, Some(_)) => Some(First::Unclaimed),
        }
    }

    /// Takes the first of all that waits out of the queue, claimed or not: for one that will not run.
    pub(super) fn take_first(&mut self) -> Option<InvocationId> {
        let queue = match self.first(true)? {
            First::Ready => &mut self.ready,
            First::Unclaimed => &mut self.claims.waiting,
        };
        queue.pop_first().map(|(_, id)| id)
    }
}

impl Supervisor {
    /// Starts the first of a script's invocations or has it claimed; its place in the budget is taken.
    pub(super) fn start_or_claim(&mut self, now: Now, key: FunctionKey, serving: Arc<Serving>, out: &mut Vec<Action>) {
        match self.functions[key].first(self.claim_rate.may_claim()) {
            Some(First::Unclaimed) => self.claim(now, key, true, out),
            Some(First::Ready) | None => self.start(now, key, serving, out),
        }
    }

    /// Claims the first of those that wait for it.
    pub(super) fn claim(&mut self, now: Now, key: FunctionKey, holds: bool, out: &mut Vec<Action>) {
        let function = &mut self.functions[key];
        let Some((_, id)) = function.claims.waiting.pop_first() else {
            return;
        };
        function.claims.under_way += 1;
        function.claims.held += usize::from(holds);
        if let Some(invocation) = self.invocations.get_mut(&id) {
            invocation.stage = Stage::Claiming { since: now.mono, holds };
            out.push(Action::Claim(Box::new(invocation.claim(&function.name, now))));
        }
    }

    /// Claims what begins soon, so that it need not wait for the disk then.
    pub(super) fn claim_ahead(&mut self, now: Now, key: FunctionKey, out: &mut Vec<Action>) {
        let function = &self.functions[key];
        if function.claims.waiting.is_empty() || !self.claim_rate.may_claim() || function.is_held() {
            return;
        }
        let serving = function.serving().filter(|serving| serving.rules.service.is_none());
        let (Some(serving), Some(lasts_us)) = (serving, function.durations.last()) else {
            return;
        };
        let places = u128::from(serving.rules.places());
        let begin = self.claim_rate.round_trip.as_micros() * ROUND_TRIPS * places / u128::from(lasts_us.max(1));
        let ahead = usize::try_from(begin).unwrap_or(AHEAD_MAX).min(AHEAD_MAX);
        loop {
            let claims = &self.functions[key].claims;
            if claims.waiting.is_empty() || claims.claimed + claims.under_way >= ahead {
                return;
            }
            self.claim(now, key, false, out);
        }
    }

    /// Attempts may begin. Of one that has ended or was given back meanwhile this is no news.
    pub(super) fn claimed(&mut self, now: Now, ids: &[InvocationId], out: &mut Vec<Action>) {
        self.claim_rate.failures = 0;
        for id in ids {
            let Some((key, holds)) = self.leave_claiming(now, *id, Stage::Claimed) else {
                continue;
            };
            if holds {
                self.start_claimed(now, key, out);
            }
            self.line_up(now, key);
        }
    }

    /// Claims are not on disk: what they are of waits.
    pub(super) fn claim_failed(&mut self, now: Now, ids: &[InvocationId]) {
        for id in ids {
            self.leave_claiming(now, *id, Stage::Ready);
        }
        // Otherwise it was asked for before the pause began.
        if !self.claim_rate.may_claim() {
            return;
        }
        let times = 1_u32.checked_shl(self.claim_rate.failures).unwrap_or(u32::MAX);
        self.claim_rate.failures = self.claim_rate.failures.saturating_add(1);
        let until = now.mono.saturating_add(PAUSE.saturating_mul(times).min(PAUSE_MAX));
        self.claim_rate.paused = Some(until);
        self.timers.arm(until, Timer::Claims);
        self.line_up_all(now);
    }

    /// The pause after a failure is over.
    pub(super) fn claim_again(&mut self, now: Now) {
        self.claim_rate.paused = None;
        self.line_up_all(now);
    }

    fn line_up_all(&mut self, now: Now) {
        for key in self.functions.keys().collect::<Vec<_>>() {
            if self.functions[key].waiting() > 0 {
                self.line_up(now, key);
            }
        }
    }

    /// Nothing begins any more: what was claimed and has not begun waits for the next fnd, as if it had not been.
    pub(super) fn release_claims(&mut self, out: &mut Vec<Action>) {
        let is_claimed = |invocation: &&Invocation| matches!(invocation.stage, Stage::Claiming { .. } | Stage::Claimed);
        let claimed = self.invocations.values().filter(is_claimed);
        for id in claimed.map(|invocation| invocation.id).collect::<Vec<_>>() {
            let Some(mut invocation) = self.invocations.remove(&id) else {
                continue;
            };
            self.functions[invocation.function].ready.remove(&invocation.place());
            self.claim_over(&invocation);
            invocation.stage = Stage::Ready;
            let function = &mut self.functions[invocation.function];
            function.claims.waiting.insert(invocation.place(), id);
            out.push(Action::Update(Box::new(invocation.record(&function.name))));
            self.invocations.insert(id, invocation);
        }
    }

    /// Takes an invocation off the books of its function's claims.
    pub(super) fn claim_over(&mut self, invocation: &Invocation) {
        let function = &mut self.functions[invocation.function];
        function.claims.waiting.remove(&invocation.place());
        let claims = &mut function.claims;
        match invocation.stage {
            Stage::Claimed => claims.claimed = claims.claimed.saturating_sub(1),
            Stage::Claiming { holds, .. } => {
                claims.under_way = claims.under_way.saturating_sub(1);
                if holds {
                    claims.held = claims.held.saturating_sub(1);
                    self.node.give_back(function);
                }
            }
            Stage::Storing { .. }
            | Stage::Delayed { .. }
            | Stage::Ready
            | Stage::Running { .. }
            | Stage::BackingOff { .. }
            | Stage::Lost => {}
        }
    }

    /// Ends the claiming of an invocation; returns its function and whether it held a place in the budget, which is given back.
    fn leave_claiming(&mut self, now: Now, id: InvocationId, to: Stage) -> Option<(FunctionKey, bool)> {
        let mut invocation = self.invocations.remove(&id)?;
        let Stage::Claiming { since, holds } = invocation.stage else {
            self.invocations.insert(id, invocation);
            return None;
        };
        self.claim_over(&invocation);
        let (key, place) = (invocation.function, invocation.place());
        let function = &mut self.functions[key];
        if matches!(to, Stage::Claimed) {
            self.claim_rate.round_trip = now.mono.saturating_sub(since);
            function.claims.claimed += 1;
            function.ready.insert(place, id);
        } else {
            function.claims.waiting.insert(place, id);
        }
        invocation.stage = to;
        self.invocations.insert(id, invocation);
        Some((key, holds))
    }

    /// Starts a script's invocation that has just been claimed, in the place it held. Where its function is another now, it
    /// waits for its turn.
    fn start_claimed(&mut self, now: Now, key: FunctionKey, out: &mut Vec<Action>) {
        let function = &self.functions[key];
        let Some(serving) = function.serving().cloned() else {
            return;
        };
        let is_script = serving.rules.pool.is_none() && self.node.refusal(&serving.rules).is_none();
        let waits = serving.rules.service.is_some() && self.runs_another(key, serving.version);
        let serves = self.serves() && self.starts.may_start();
        if serves && is_script && !waits && self.functions[key].can_start(false) {
            let rules = Arc::clone(&serving.rules);
            if self.node.take(&mut self.functions[key], &rules) {
                self.start(now, key, serving, out);
            }
        }
    }
}
