//! Decides what may begin, by the node's budget over all functions and by each function's rate.
//!
//! All functions wait in one line for the budget, and each turn starts one attempt. The first in line is never
//! overtaken. So a big function gets its memory and CPU as soon as enough others have ended; the price is that small
//! functions wait with it.

use super::Supervisor;
use super::pool::Want;
use crate::messages::rules::{FunctionKind, NodeBudget, Rules};
use crate::records::outcome::Reason;
use crate::run_state::function::SupervisedFunction;
use crate::run_state::invocation::InvocationEnd;
use crate::run_state::releases::{Charge, ServingRelease};
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::units::{print_cpu, spell_size};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The node's budget and the functions that wait for it.
#[derive(Debug, Default)]
pub(super) struct BudgetQueue {
    pub(super) budget: NodeBudget,
    charged: Charge,
    workers: u32,
    line: VecDeque<FunctionKey>,
    /// Functions with free workers and waiting invocations.
    calls: Vec<FunctionKey>,
}

impl BudgetQueue {
    pub(super) fn new(budget: NodeBudget) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    /// Charges one more worker, if it fits.
    pub(super) fn take(&mut self, function: &mut SupervisedFunction, rules: &Rules) -> bool {
        let (_, total) = self.with(function, rules);
        #[cfg(feature = "simulate")]
        let total = if crate::mutants::Mutant::BudgetOneBehind.is_on() {
            self.charged
        } else {
            total
        };
        let cpu = self.budget.cpu_milli.map(u64::from);
        let cpu_fits = cpu.is_none_or(|cpu| total.cpu_milli <= cpu);
        let fits = self.workers < self.budget.workers && total.memory <= self.budget.memory && cpu_fits;
        if fits {
            self.take_over(function, rules);
        }
        fits
    }

    /// Charges a worker that already runs, whatever the budget says.
    pub(super) fn take_over(&mut self, function: &mut SupervisedFunction, rules: &Rules) {
        (function.work.charged, self.charged) = self.with(function, rules);
        self.workers += 1;
    }

    /// Returns the charge of a function and the charge of all functions, both with one more worker. While a new version
    /// with other limits starts, the larger limits count.
    fn with(&self, function: &SupervisedFunction, rules: &Rules) -> (Charge, Charge) {
        // The limits are for all workers of a function together, so a further worker adds no memory and no CPU.
        let charge = function.work.charged.both(u64::max, Charge::of(rules));
        let rest = self.charged.both(u64::saturating_sub, function.work.charged);
        (charge, rest.both(u64::saturating_add, charge))
    }

    /// Gives back the charge of a worker: its place now, memory and CPU with the function's last worker.
    pub(super) fn give_back(&mut self, function: &mut SupervisedFunction) {
        self.workers = self.workers.saturating_sub(1);
        // A claim that holds a place is about to become a worker, so it keeps the function's charge, too.
        if function.work.running.is_empty() && function.work.queue.held() == 0 {
            let charged = std::mem::take(&mut function.work.charged);
            self.charged = self.charged.both(u64::saturating_sub, charged);
        }
    }

    /// Returns a message why a function can never run here; absent if it can.
    pub(super) fn refusal(&self, rules: &Rules) -> Option<String> {
        let needs = Charge::of(rules);
        if needs.memory > self.budget.memory {
            // The memory of a machine is no round number. The need is also above its whole mebibytes.
            let whole = self.budget.memory & !((1 << 20) - 1);
            return Some(format!(
                "it needs {} of memory (limits.memory), more than the {} that all functions together may use ([node] memory)",
                rules.memory_text,
                spell_size(if whole == 0 { self.budget.memory } else { whole })
            ));
        }
        let (quota, budget) = (rules.cpu_milli?, self.budget.cpu_milli?);
        (quota > budget).then(|| {
            format!(
                "it may use {} of CPU (limits.cpu), more than the {} that all functions together may use ([node] cpu)",
                print_cpu(quota),
                print_cpu(budget)
            )
        })
    }
}

impl Supervisor {
    /// Replaces the node's budget. Running work goes on; the next event (a `Tick` is enough) starts the work that now
    /// fits.
    pub fn set_budget(&mut self, budget: NodeBudget) {
        self.node.budget = budget;
    }

    /// Puts a function into the line if it needs to start something, and into the list of calls if its free workers
    /// have work.
    pub(super) fn line_up(&mut self, key: FunctionKey) {
        let may_claim = self.claim_rate.may_claim();
        let function = &self.functions[key];
        let has_call = !function.work.in_calls && function.work.queue.has_first(may_claim);
        if has_call && self.next_free(key).is_some() {
            self.functions[key].work.in_calls = true;
            self.node.calls.push(key);
        }
        if !self.functions[key].work.in_line && self.want(key).is_some() {
            self.functions[key].work.in_line = true;
            self.node.line.push_back(key);
        }
        self.wait_for_group(key);
    }

    /// Returns what a function needs to start, and of which release.
    fn want(&self, key: FunctionKey) -> Option<(Want, &Arc<ServingRelease>)> {
        let function = &self.functions[key];
        let serving = function.serving()?;
        match serving.rules.kind {
            FunctionKind::Handler(_) | FunctionKind::Http(..) => self.wants_member(key),
            FunctionKind::Service(_) if self.runs_another(key, serving.version) => None,
            FunctionKind::Script | FunctionKind::Service(_) => {
                let can_start = function.can_start(self.claim_rate.may_claim()) && self.group_has_room(key);
                let release = can_start.then(|| self.next_version(key)).flatten()?;
                Some((Want::Attempt, release))
            }
        }
    }

    fn is_urgent(&self, key: FunctionKey) -> bool {
        self.want(key).is_some_and(|(want, _)| want != Want::Ahead)
    }

    /// Says whether attempts may begin at all.
    pub(super) fn serves(&self) -> bool {
        self.phase.is_serving() && self.spawner
    }

    /// Returns how many attempts of a function may begin now, as far as the workers of the node decide. Its own attempts that
    /// wait are not taken off. Memory and CPU are not looked at: a function has its part of them as long as it has a worker.
    pub(super) fn node_room(&self, key: FunctionKey) -> usize {
        let function = &self.functions[key];
        let pool = function.serving().and_then(|serving| serving.rules.kind.pool());
        let each = pool.map_or(1, |pool| to_usize(pool.concurrency));
        // A worker without an attempt is stopped if another one needs its place.
        let idle = self.workers.values().filter(|worker| worker.runs.is_empty());
        let free = to_usize(self.node.budget.workers.saturating_sub(self.node.workers)) + idle.count();
        let others = self.node.line.iter().filter(|other| **other != key);
        let before: usize = others.map(|other| self.functions[*other].work.queue.startable()).sum();
        let runs = self.workers_of(key).map(|(_, worker)| worker.runs.len());
        let busy = runs.filter(|runs| *runs > 0);
        let more: usize = busy.map(|runs| each.saturating_sub(runs)).sum();
        free.saturating_sub(before).saturating_mul(each).saturating_add(more)
    }

    /// Starts everything that may begin now.
    pub(super) fn dispatch(&mut self) {
        if !self.serves() {
            return;
        }
        self.call_groups();
        // Calls come first: a free worker takes an invocation for which a worker would be started otherwise.
        self.call_free();
        while let Some(key) = self.node.line.front().copied().filter(|_| self.starts.may_start()) {
            let wanted = self.want(key).map(|(want, release)| (want, Arc::clone(release)));
            if let Some((want, release)) = wanted {
                if let Some(refusal) = self.node.refusal(&release.rules) {
                    // The function's limit grew or the budget shrank: it would block the line for ever.
                    self.refuse_ready(key, &refusal);
                } else if self.node.take(&mut self.functions[key], &release.rules) {
                    match want {
                        Want::Attempt => self.start_or_claim(key, release),
                        _ => self.start_member(key, want, release),
                    }
                } else if want != Want::Ahead {
                    // The first in line is never overtaken, so nothing else starts until this function has its room.
                    self.evict();
                    return;
                } else if self.node.line.iter().any(|other| self.is_urgent(*other)) {
                    // No invocation waits for this worker, so functions with waiting invocations go first.
                    self.node.line.rotate_left(1);
                    continue;
                } else {
                    return;
                }
            }
            // The function goes to the end of the line after one start, so that its queue does not hold up the others.
            self.node.line.pop_front();
            self.functions[key].work.in_line = false;
            self.line_up(key);
            self.call_groups();
            self.call_free();
        }
        // A claim that holds a place leads to a start, and that start is the trial. Without any start to come, the
        // trial ends here: otherwise people would read for ever that the node cannot start workers.
        let is_claimed = |key| self.functions[key].work.queue.held() > 0;
        if self.starts.is_to_be_tried() && self.node.line.is_empty() && !self.functions.keys().any(is_claimed) {
            self.open_starts();
        }
    }

    /// Hands waiting invocations to free workers, which have their place in the budget already.
    fn call_free(&mut self) {
        while let Some(key) = self.node.calls.pop() {
            self.functions[key].work.in_calls = false;
            self.serve(key);
        }
    }

    fn refuse_ready(&mut self, key: FunctionKey, refusal: &str) {
        for id in self.functions[key].work.queue.ready_and_unclaimed().collect::<Vec<_>>() {
            self.finish(id, InvocationEnd::new(Reason::Spawn, refusal));
        }
    }
}

/// Returns how long until a rate (count per period), as a token bucket of `count`, allows one more; `None` if it does
/// now. `paid` is the instant when all acceptances so far are paid for.
pub(super) fn rate_wait((count, period): (u32, Duration), paid: Duration, now: Duration) -> Option<Duration> {
    // A full bucket takes `count` acceptances at once, so `paid` may be ahead of now by all of them but one.
    let burst = period.saturating_sub(rate_cost((count, period)));
    let wait = paid.saturating_sub(burst).saturating_sub(now);
    (wait > Duration::ZERO).then_some(wait)
}

/// Returns the time that one acceptance costs.
pub(super) fn rate_cost((count, period): (u32, Duration)) -> Duration {
    period / count.max(1)
}
