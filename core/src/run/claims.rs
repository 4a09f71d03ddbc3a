//! Claims: the start of an attempt of durable work is stored on disk before any function sees it. So fnd knows after a
//! power cut that the attempt had begun, and does not silently run it again.
//!
//! ```text
//! Ready ──Claim──▶ Claiming ──Claimed──▶ Claimed ──▶ Running
//!   ▲ ▲               │  │                  │
//!   │ └──ClaimFailed──┘  └─ClaimPutOff──▶ BackingOff ──▶ Ready (messages: see `register`)
//!   │    (after a pause)                    │
//!   └── fnd stops: invocations that have not begun wait for the next fnd
//! ```
//! An invocation is claimed when it could begin now. A script's invocation holds its place in the budget meanwhile.
//! With a wait for the disk each time, a backlog of short runs would be as slow as the disk. So fnd claims ahead as
//! many more as will begin within a few round trips of the ledger; with long runs that is none. The ledger's table of
//! begun attempts tells which claimed invocations have not begun: those wait again. A power cut destroys that table;
//! then they are interrupted.

use super::{Supervisor, pause_after};
use crate::messages::action::Action;
use crate::messages::rules::FunctionKind;
use crate::run_state::FunctionKey;
use crate::run_state::invocation::InvocationStage;
use crate::run_state::releases::ServingRelease;
use crate::run_state::timers::Timer;
use fnd_wire::ids::InvocationId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// fnd claims ahead what begins within this many round trips of the ledger. With fewer, workers would sometimes wait
/// for the disk; with more, a power cut would interrupt more invocations that have not begun.
const ROUND_TRIPS: u128 = 16;
/// Most claims ahead for one function: as many as the ledger commits at once. Reached only if the disk is slow compared
/// to the runs.
const AHEAD_MAX: usize = 1024;

/// How fast and how well the ledger takes claims.
#[derive(Debug, Default)]
pub(super) struct ClaimRate {
    /// How long the last claim took.
    round_trip: Duration,
    /// Failures in a row.
    failures: u32,
    /// End of the pause during which nothing is claimed.
    paused: Option<Duration>,
    /// Claims that the ledger has not answered, also those that were given back meanwhile.
    unanswered: usize,
    /// Those among them of work that several nodes share: the register of all nodes may have them.
    shared: BTreeSet<InvocationId>,
}

impl ClaimRate {
    /// Says whether an invocation may be claimed now.
    pub(super) fn may_claim(&self) -> bool {
        self.paused.is_none()
    }

    /// Says whether the ledger has answered every claim.
    pub(super) fn is_answered(&self) -> bool {
        self.unanswered == 0
    }

    /// Says whether every claim of work that several nodes share is answered.
    pub(super) fn is_shared_answered(&self) -> bool {
        self.shared.is_empty()
    }

    pub(super) fn answered(&mut self, ids: &[InvocationId]) {
        self.unanswered = self.unanswered.saturating_sub(ids.len());
        for id in ids {
            self.shared.remove(id);
        }
    }
}

impl Supervisor {
    /// Starts or claims the first of a script's invocations. Its place in the budget is already taken.
    pub(super) fn start_or_claim(&mut self, key: FunctionKey, serving: Arc<ServingRelease>) {
        let claims = self.claim_rate.may_claim() && self.functions[key].work.queue.is_first_unclaimed();
        match claims {
            true => self.claim(key, true),
            false => self.start(key, serving),
        }
    }

    /// Claims the first of the invocations that wait for it.
    pub(super) fn claim(&mut self, key: FunctionKey, holds: bool) {
        let group: Option<Arc<str>> = self.group_of_next(key).map(Arc::from);
        let function = &mut self.functions[key];
        let Some(id) = function.work.queue.take_unclaimed() else {
            return;
        };
        if let Some(invocation) = self.invocations.get_mut(&id) {
            self.groups.take(group.as_deref(), key);
            let stage = InvocationStage::Claiming {
                since: self.now.mono,
                holds,
                group,
            };
            function.work.queue.change(invocation, stage);
            self.claim_rate.unanswered += 1;
            if invocation.of_stream {
                self.claim_rate.shared.insert(id);
            }
            self.out
                .push(Action::Claim(Box::new(invocation.claim(&function.name, self.now))));
        }
    }

    /// Claims invocations that begin soon, so that they need not wait for the disk then.
    pub(super) fn claim_ahead(&mut self, key: FunctionKey) {
        let function = &self.functions[key];
        if function.work.queue.first_unclaimed().is_none() || !self.claim_rate.may_claim() || function.is_held() {
            return;
        }
        let serving = function.serving().filter(|serving| !serving.rules.kind.is_service());
        // Others of its group may begin before it, so nobody knows how soon the next one begins.
        let in_group = self.group_of_next(key).is_some();
        // Before the first run has ended nobody knows how soon further ones begin, so none is claimed ahead.
        let (Some(serving), Some(lasts_us)) = (serving.filter(|_| !in_group), function.work.durations.last()) else {
            return;
        };
        let places = u128::from(serving.rules.places());
        // During these round trips each place begins a new run every `lasts_us`.
        let begin = self.claim_rate.round_trip.as_micros() * ROUND_TRIPS * places / u128::from(lasts_us.max(1));
        let ahead = usize::try_from(begin).unwrap_or(AHEAD_MAX).min(AHEAD_MAX);
        loop {
            let queue = &self.functions[key].work.queue;
            let Some(first) = queue.first_unclaimed().filter(|_| queue.claimed_ahead() < ahead) else {
                return;
            };
            // The claim of a message tells the other nodes that its attempt has begun. If this node went down before the attempt
            // begins, they would take it for one whose end nobody knows.
            let first = self.invocations.get(&first);
            if first.is_some_and(|first| first.of_stream) {
                return;
            }
            self.claim(key, false);
        }
    }

    /// Handles stored claims: the attempts may begin. A claim of an invocation that has ended or was put back meanwhile
    /// is ignored.
    pub(super) fn claimed(&mut self, ids: &[InvocationId]) {
        self.claim_rate.failures = 0;
        self.claim_rate.answered(ids);
        for id in ids {
            let Some((key, holds)) = self.leave_claiming(*id, InvocationStage::Claimed) else {
                continue;
            };
            if holds {
                self.start_claimed(key);
            }
            self.line_up(key);
        }
    }

    /// Handles claims that could not be stored: their invocations wait.
    pub(super) fn claim_failed(&mut self, ids: &[InvocationId]) {
        self.claim_rate.answered(ids);
        for id in ids {
            self.leave_claiming(*id, InvocationStage::Ready);
        }
        // This claim was sent before the pause began, so its failure must not lengthen the pause.
        if !self.claim_rate.may_claim() {
            return;
        }
        let until = self.now.mono.saturating_add(pause_after(&mut self.claim_rate.failures));
        self.claim_rate.paused = Some(until);
        self.timers.arm(until, Timer::Claims);
        // Invocations that need no claim may begin in the places that the failed claims held.
        self.line_up_all();
    }

    /// Handles the end of the pause after a failure.
    pub(super) fn claim_again(&mut self) {
        self.claim_rate.paused = None;
        self.line_up_all();
    }

    fn line_up_all(&mut self) {
        for key in self.functions.keys().collect::<Vec<_>>() {
            if self.functions[key].work.queue.waiting() > 0 {
                self.line_up(key);
            }
        }
    }

    /// Gives all claims back, because nothing begins any more: claimed invocations that have not begun wait for the
    /// next fnd.
    pub(super) fn release_claims(&mut self) {
        for id in self.invocations_with(|invocation| invocation.stage.is_claimed()) {
            if self.leave_claiming(id, InvocationStage::Ready).is_none() {
                self.change(id, InvocationStage::Ready);
            }
            // The claim on disk says that the attempt runs. This record replaces it, so that the next fnd finds queued
            // work.
            self.update(id);
        }
    }

    /// Ends the claiming of an invocation and gives its place in the budget back. Returns its function and whether it
    /// held a place.
    pub(super) fn leave_claiming(&mut self, id: InvocationId, to: InvocationStage) -> Option<(FunctionKey, bool)> {
        let invocation = self.invocations.get(&id)?;
        let InvocationStage::Claiming { since, holds, group } = &invocation.stage else {
            return None;
        };
        let (since, holds, group, key) = (*since, *holds, group.clone(), invocation.function);
        self.groups.give_back(group.as_deref());
        // A failed claim says nothing about how long the ledger takes for one.
        if matches!(to, InvocationStage::Claimed) {
            self.claim_rate.round_trip = self.now.mono.saturating_sub(since);
            if let Some(group) = group {
                self.groups.wait_first(&group, key);
            }
        }
        self.change(id, to);
        if holds {
            self.node.give_back(&mut self.functions[key]);
        }
        Some((key, holds))
    }

    /// Starts a script's invocation that was just claimed, in the place that it held. If the function has changed in a
    /// way that prevents this, the invocation waits for its turn.
    fn start_claimed(&mut self, key: FunctionKey) {
        let Some(serving) = self.next_version(key).cloned() else {
            return;
        };
        let is_possible = match serving.rules.kind {
            FunctionKind::Script => true,
            FunctionKind::Service(_) => !self.runs_another(key, serving.version),
            FunctionKind::Handler(_) | FunctionKind::Http(..) => false,
        };
        let fits = self.node.refusal(&serving.rules).is_none();
        let serves = self.serves() && self.starts.may_start();
        let may_start = self.functions[key].can_start(false) && self.group_has_room(key);
        if serves && is_possible && fits && may_start {
            // The place of the claim was given back and is taken anew, because a version with other limits may serve by
            // now.
            if self.node.take(&mut self.functions[key], &serving.rules) {
                self.start(key, serving);
            }
        }
    }
}
