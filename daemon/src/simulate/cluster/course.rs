//! The course of a simulation of several machines: a time with faults, a calm in which every message ends, a restart of each fnd,
//! and what must hold then.

use super::Cluster;
use super::plan::ClusterPlan;
use crate::simulate::WorldOutcome;
use crate::simulate::facts::Death;
use crate::simulate::oracles::PromiseCheck;
use crate::simulate::rows::RowReader;
use std::time::Duration;

/// Longest calm, and most steps of it. A world that needs more does not come to rest.
const CALM: Duration = Duration::from_hours(2);
const CALM_STEPS: u32 = 300_000;
/// So many steps are between two looks whether all has ended.
const LOOK_STEPS: u32 = 50;
/// How long each fnd has after the restart: it connects, and tells the server the ends of which its ledger knows no acknowledgement.
const AFTER_RESTART: Duration = Duration::from_secs(60);

impl Cluster<'_> {
    /// Lets everything happen that the plan has, and then waits until all messages have ended.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(super) fn run(&mut self, plan: &ClusterPlan) -> PromiseCheck {
        let lasts = Duration::from_millis(plan.lasts_ms);
        while self.steps < plan.steps && self.now() < lasts {
            self.step()?;
        }
        self.end_faults()?;
        // A commit may be done that fnd takes for failed. So the next fnd may find work in the ledger that this one did not know.
        self.kill(self.in_doubt.clone())?;
        self.come_to_rest(plan, Duration::ZERO)?;
        self.kill(0..self.machines.len())?;
        self.come_to_rest(plan, AFTER_RESTART)?;
        self.at_rest(plan)
    }

    /// Waits until all messages have ended, and for so long at least.
    fn come_to_rest(&mut self, plan: &ClusterPlan, least: Duration) -> PromiseCheck {
        let (from, until, most) = (self.now() + least, self.now() + CALM, self.steps + CALM_STEPS);
        loop {
            let is_over = self.steps >= most || self.now() >= until;
            let is_looked_at = is_over || (self.now() >= from && self.steps.is_multiple_of(LOOK_STEPS));
            let left = if is_looked_at { self.left(plan) } else { Ok(()) };
            if is_over || (is_looked_at && left.is_ok()) {
                return left;
            }
            self.step()?;
        }
    }

    /// Kills the fnd of each of these machines.
    fn kill(&mut self, machines: impl IntoIterator<Item = usize>) -> PromiseCheck {
        let now = self.now();
        self.oracles.disturbed();
        for index in machines {
            self.machines[index].inside(now, |world| {
                world.die(Death::Killed);
                world.judge()
            })?;
            self.see(index)?;
        }
        Ok(())
    }

    /// Looks whether something has not ended.
    fn left(&self, plan: &ClusterPlan) -> PromiseCheck {
        if !self.messages.is_empty() {
            return Err(format!("{} messages are not published", self.messages.len()));
        }
        for (index, machine) in self.machines.iter().enumerate() {
            // While no fnd runs, the unfinished work of the machine cannot be read.
            if machine.world.life.is_none() {
                return Err(format!("machine {index}: no fnd runs"));
            }
            // The second fnd of a name waits with what it has until the first one is gone.
            if plan.has_own_name(index) {
                let left = machine.world.is_nothing_left();
                left.map_err(|broken| format!("machine {index}: {broken}"))?;
            }
        }
        self.oracles.is_nothing_left(&self.server)
    }

    /// Looks at all ledgers when everything has ended.
    fn at_rest(&mut self, plan: &ClusterPlan) -> PromiseCheck {
        let now = self.now();
        let mut all = Vec::new();
        for (index, machine) in self.machines.iter_mut().enumerate() {
            if plan.has_own_name(index) {
                let judged = machine.inside(now, |world| world.at_rest());
                judged.map_err(|broken| format!("machine {index}: {broken}"))?;
            }
            all.push(RowReader::open(&machine.world.node.ledger()).messages());
        }
        self.oracles.at_end(&all, &self.server)
    }

    pub(super) fn outcome(&mut self, broken: Option<String>) -> WorldOutcome {
        for machine in &self.machines {
            self.trace.note([machine.world.trace.hash(), 0, 0]);
        }
        WorldOutcome {
            broken,
            steps: self.steps,
            invocations: self.machines.iter().map(|machine| machine.world.invocations).sum(),
            hash: self.trace.hash(),
            trace: self.trace.lines().map(str::to_owned).collect(),
        }
    }
}
