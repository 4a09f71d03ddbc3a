//! The course of a world: a time with faults, a calm in which all work ends, and a restart at the end. After the calm and
//! after the restart nothing may be left, and both times fnd has to show the same releases.

use super::WorldOutcome;
use super::facts::Death;
use super::life::FndLife;
use super::oracles::{Oracles, PromiseCheck};
use super::people::{self, PersonAct};
use super::plan::WorldPlan;
use super::rows::RowReader;
use super::shown::{Shown, changed_by_restart};
use super::world::World;
use fnd_wire::ids::FunctionName;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the world goes on after the last fault, so that everything can end.
const CALM: Duration = Duration::from_secs(600);
/// How much longer the world goes on for calls of functions in a crash loop. fnd starts a few of their workers, then pauses for
/// up to five minutes (`[retry] max_interval`). Each start that fails ends one attempt, so the calls of a long queue end late.
const CRASH_LOOP: Duration = Duration::from_hours(2);
/// Most steps after the last fault. A world that takes more of them does not come to rest.
const CALM_STEPS: u32 = 60_000;

impl World<'_> {
    /// Lets everything happen that the plan has, and then waits until all work has ended.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(super) fn run(&mut self, plan: &WorldPlan) -> PromiseCheck {
        let lasts = Duration::from_millis(plan.lasts_ms);
        while self.steps < plan.steps && self.node.clock.elapsed() < lasts {
            self.step()?;
        }
        self.end_faults();
        self.acts.clear();
        self.failed_builds.clear();
        let now = self.node.clock.elapsed();
        self.acts.extend(PersonAct::last(plan.functions).map(|act| (now, act)));
        self.come_to_rest()?;
        self.mend_files(plan.functions);
        self.build_again(plan.functions);
        if !self.acts.is_empty() {
            self.come_to_rest()?;
        }
        self.is_nothing_left()?;
        let mut before = self.shown(plan.functions);
        self.promises.check(&before, &self.node.files)?;
        before.retain(|function, _| !self.promises.is_in_doubt(function));
        // A commit may be done that fnd takes for failed. So the next fnd may find work in the ledger that this one did not know.
        self.die(Death::Killed);
        self.come_to_rest()?;
        let after = self.shown(plan.functions);
        if let Some(function) = changed_by_restart(&before, &after) {
            let (before, after) = (before.get(function), after.get(function));
            return Err(format!(
                "O7: a restart makes {after:?} of {before:?}, which `{function}` showed"
            ));
        }
        self.promises.check(&after, &self.node.files)?;
        self.at_rest()
    }

    /// Waits until all work has ended.
    fn come_to_rest(&mut self) -> PromiseCheck {
        let (until, most) = (self.node.clock.elapsed() + CALM, self.steps + CALM_STEPS);
        let mut rest = until;
        loop {
            let elapsed = self.node.clock.elapsed();
            if elapsed > rest && self.life.as_ref().is_some_and(FndLife::waits_for_crash_loop) {
                rest = elapsed.min(until + CRASH_LOOP);
            }
            // A schedule may have begun an invocation just now, or a call in a crash loop its hook: it gets a little more time.
            if elapsed >= rest + CALM / 5 || elapsed >= until && self.is_nothing_left().is_ok() {
                return Ok(());
            }
            if self.steps == most {
                return Err(format!(
                    "O11: {CALM_STEPS} steps after the last fault something still happens, so nothing comes to rest"
                ));
            }
            self.step()?;
        }
    }

    /// Lets people mend each file of which no version could serve. Accepted work of the function waits for that: there is some if
    /// the file took the place of a deleted one, and the machine went down before all work of the deleted one had ended on disk.
    fn mend_files(&mut self, functions: u8) {
        let (now, shown) = (self.node.clock.elapsed(), self.shown(functions));
        for number in 0..functions {
            let function = people::name(number);
            let serves = shown.get(&function).is_some_and(|shown| shown.serving.is_some());
            let file = self.node.files.get(&function);
            let broken = file.filter(|file| !serves && !file.is_good());
            self.acts
                .extend(broken.map(|file| (now, PersonAct::Save(number, file.mended()))));
        }
    }

    /// Lets people ask once more for a build of which they were told in the calm that it has failed, if the file could serve. A
    /// build that was cancelled before may end in the calm, and so it does for those who had asked for it before that.
    fn build_again(&mut self, functions: u8) {
        let (now, shown) = (self.node.clock.elapsed(), self.shown(functions));
        for number in &self.failed_builds {
            let function = people::name(*number);
            let file = self.node.files.get(&function);
            if shown.get(&function).is_some_and(|shown| !shown.fits(file)) {
                self.acts.push_back((now, PersonAct::Rebuild(*number, false)));
            }
        }
    }

    /// Returns the releases of each function, as people see them.
    fn shown(&self, functions: u8) -> BTreeMap<FunctionName, Shown> {
        let Some(life) = &self.life else { return BTreeMap::new() };
        let names = (0..functions).map(people::name);
        names
            .map(|name| (name.clone(), Shown::of(life.daemon(), &name)))
            .collect()
    }

    /// Looks at the whole ledger when everything has ended.
    pub(super) fn at_rest(&mut self) -> PromiseCheck {
        let rows = RowReader::open(&self.node.ledger()).all();
        self.invocations = u32::try_from(rows.invocations.len()).unwrap_or(u32::MAX);
        self.is_nothing_left()?;
        self.oracles.at_end(&rows)
    }

    pub(super) fn is_nothing_left(&self) -> PromiseCheck {
        let of_fnd = self.life.iter().flat_map(|life| life.left(&self.people));
        let left: Vec<_> = of_fnd.chain(self.node.spawner.left()).collect();
        Oracles::is_nothing_left(&left)
    }

    /// Returns the result of the simulation.
    pub(super) fn outcome(&self, broken: Option<String>) -> WorldOutcome {
        WorldOutcome {
            broken,
            steps: self.steps,
            invocations: self.invocations,
            hash: self.trace.hash(),
            trace: self.trace.lines().map(str::to_owned).collect(),
        }
    }
}
