//! The world: a machine, at most one fnd on it, people, faults. A step of the world lists everything that can happen next,
//! chooses one of these things by the seed, and lets it happen. Nothing happens outside of a step, so a seed repeats everything.

use super::facts::Fact;
use super::faults::FaultKinds;
use super::journal::DefectReader;
use super::life::FndLife;
use super::node::Node;
use super::oracles::{Oracles, PromiseCheck};
use super::outages::Outages;
use super::people::{AnsweredAct, People, PersonAct};
use super::plan::WorldPlan;
use super::promises::{Promises, is_settled};
use super::random_streams::RandomStreams;
use super::rows::RowReader;
use super::spawner::{SpawnerModel, SpawnerStep};
use super::trace::WorldTrace;
use super::world_step::WorldStep;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::Runtime;

pub(super) struct World<'a> {
    pub(super) node: Node<'a>,
    pub(super) life: Option<FndLife>,
    pub(super) lives: u32,
    pub(super) people: People,
    pub(super) streams: RandomStreams,
    pub(super) trace: WorldTrace,
    /// The faults that can still happen; none once the faults have stopped.
    pub(super) kinds: FaultKinds,
    pub(super) outages: Outages,
    /// The acts that are still to come, with the times since the begin of the simulation.
    pub(super) acts: VecDeque<(Duration, PersonAct)>,
    /// The number of the next act.
    pub(super) act: usize,
    /// The functions of which people were told that a build has failed.
    pub(super) failed_builds: BTreeSet<u8>,
    pub(super) oracles: Oracles,
    /// The answers that people have got about releases.
    pub(super) promises: Promises,
    /// Reads the ledger of the fnd that runs.
    pub(super) reader: Option<RowReader>,
    journal: Rc<DefectReader>,
    /// The verdict of the oracles on the last death; the next call of [`World::judge`] returns it.
    pub(super) at_death: PromiseCheck,
    pub(super) steps: u32,
    pub(super) invocations: u32,
    /// The steps that are possible now. The two lists keep their memory from step to step.
    pub(super) can: Vec<WorldStep>,
    /// The facts of the last step, which the oracles have seen.
    pub(super) judged: Vec<Fact>,
    spawner_can: Vec<SpawnerStep>,
}

impl<'a> World<'a> {
    pub(super) fn new(runtime: &'a Runtime, plan: &WorldPlan, trace: WorldTrace, journal: Rc<DefectReader>) -> Self {
        let streams = RandomStreams::of(plan.seed);
        let acts = plan.acts.iter();
        Self {
            node: Node::new(runtime, plan.kinds, streams.workers.clone()),
            life: None,
            lives: 0,
            people: People::default(),
            streams,
            trace,
            kinds: plan.kinds,
            outages: Outages::new(plan),
            acts: acts
                .map(|(at_ms, act)| (Duration::from_millis(*at_ms), act.clone()))
                .collect(),
            act: 0,
            failed_builds: BTreeSet::new(),
            oracles: Oracles::new(plan),
            promises: Promises::default(),
            reader: None,
            journal,
            at_death: Ok(()),
            steps: 0,
            invocations: 0,
            can: Vec::new(),
            judged: Vec::new(),
            spawner_can: Vec::new(),
        }
    }

    /// Lets one thing happen, and judges it.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(super) fn step(&mut self) -> PromiseCheck {
        let choice = self.choose();
        self.make(choice)
    }

    /// Lets this happen, and judges it.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(super) fn make(&mut self, choice: WorldStep) -> PromiseCheck {
        self.steps += 1;
        let now = self.node.clock.now();
        self.trace.step(self.steps, self.node.clock.elapsed(), now.unix_ms);
        self.trace.note([
            100 + choice.number(),
            u64::try_from(now.mono.as_micros()).unwrap_or(0),
            now.unix_ms,
        ]);
        self.trace.say(|| choice.to_string());
        self.perform(choice);
        self.handle_death();
        if let Some(life) = &self.life {
            let _inside = life.tasks.enter();
            let told = self.people.hear();
            let failed_builds = told.iter().filter_map(AnsweredAct::failed_build);
            self.failed_builds.extend(failed_builds);
            let is_settled = || life.serving.messages.is_empty() && is_settled(life.daemon(), &self.node.files);
            told.iter().for_each(|told| self.promises.told(told, is_settled));
            self.node.facts.extend(told.into_iter().map(Fact::Answered));
        }
        self.judge()
    }

    /// Hands the facts of the step to the hash, the trace and the oracles.
    pub(super) fn judge(&mut self) -> PromiseCheck {
        std::mem::replace(&mut self.at_death, Ok(()))?;
        let now = self.node.clock.now();
        let defects = self.journal.take().into_iter().map(Fact::Defect);
        self.node.facts.extend(defects);
        self.judged.clear();
        for fact in self.node.facts.take() {
            self.trace.note(fact.numbers());
            self.trace.say(|| format!("  {fact}"));
            self.oracles.see(now, &fact, self.reader.as_ref())?;
            if let (Fact::Began(began), Some(life)) = (&fact, &self.life)
                && began.is_call
            {
                self.oracles.call(began, life.canary(&began.function))?;
            }
            self.judged.push(fact);
        }
        Ok(())
    }

    /// Lists the steps that are possible now, and draws one of them.
    fn choose(&mut self) -> WorldStep {
        self.list(false);
        // Once the faults have stopped, nothing is slow any more.
        if !self.outages.are_over || self.can.is_empty() {
            self.can.push(WorldStep::Wait);
        }
        WorldStep::draw(&self.can, &mut self.streams.order)
    }

    /// Lists the steps that are possible now, except that time goes on. `is_held`: fnd is stopped by a signal, or is not to start.
    pub(super) fn list(&mut self, is_held: bool) {
        let now = self.node.clock.now();
        self.can.clear();
        match &mut self.life {
            _ if is_held => {}
            None => self.can.push(WorldStep::Start),
            Some(life) => {
                life.steps(now, &mut self.streams.order, &mut self.can);
                self.node.files.take_requests(&life.catalog);
                if self.node.files.has_work(now.mono) {
                    self.can.push(WorldStep::Files);
                }
            }
        }
        self.node.spawner(SpawnerModel::hear);
        self.node.spawner.steps(now, &mut self.spawner_can);
        self.can.extend(self.spawner_can.drain(..).map(WorldStep::Spawner));
        let elapsed = self.node.clock.elapsed();
        let can_act = |act: &PersonAct| match act {
            PersonAct::Save(..) | PersonAct::Remove(_) => true,
            _ => !is_held && self.life.as_ref().is_some_and(|life| life.backend().is_some()),
        };
        if self
            .acts
            .front()
            .is_some_and(|(at, act)| *at <= elapsed && can_act(act))
        {
            self.can.push(WorldStep::Person);
        }
        if self.outages.wakes_at().is_some_and(|at| at <= elapsed) {
            self.can.push(WorldStep::Fault);
        }
    }
}
