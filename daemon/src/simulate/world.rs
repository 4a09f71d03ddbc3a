//! The world: a machine, at most one fnd on it, people, faults. A step of the world lists everything that can happen next,
//! chooses one of these things by the seed, and lets it happen. Nothing happens outside of a step, so a seed repeats everything.

use super::disk::CommitVerdict;
use super::facts::{Death, Fact};
use super::faults::FaultKinds;
use super::life::FndLife;
use super::model::{Promises, is_settled};
use super::node::Node;
use super::oracles::{Oracles, PromiseCheck};
use super::outages::Outages;
use super::people::{self, People, PersonAct};
use super::plan::WorldPlan;
use super::random_streams::RandomStreams;
use super::rows::RowReader;
use super::spawner::{SpawnerModel, SpawnerStep};
use super::trace::WorldTrace;
use super::world_step::WorldStep;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

/// Most microseconds for which something that can happen has to wait.
const BUSY_MAX_US: u64 = 20_000;

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
    act: usize,
    pub(super) oracles: Oracles,
    /// The answers that people have got about releases.
    pub(super) promises: Promises,
    /// Reads the ledger of the fnd that runs.
    pub(super) reader: Option<RowReader>,
    /// The verdict of the oracles on the last death; the next call of [`World::judge`] returns it.
    pub(super) at_death: PromiseCheck,
    pub(super) steps: u32,
    pub(super) invocations: u32,
    /// The steps that are possible now. The two lists keep their memory from step to step.
    can: Vec<WorldStep>,
    spawner_can: Vec<SpawnerStep>,
}

impl<'a> World<'a> {
    pub(super) fn new(runtime: &'a Runtime, plan: &WorldPlan, trace: WorldTrace) -> Self {
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
            oracles: Oracles::new(plan),
            promises: Promises::default(),
            reader: None,
            at_death: Ok(()),
            steps: 0,
            invocations: 0,
            can: Vec::new(),
            spawner_can: Vec::new(),
        }
    }

    /// Lets one thing happen, and judges it.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(super) fn step(&mut self) -> PromiseCheck {
        self.steps += 1;
        let choice = self.choose();
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
            let is_settled = || life.serving.messages.is_empty() && is_settled(life.daemon(), &self.node.files);
            told.iter().for_each(|told| self.promises.told(told, is_settled));
            self.node.facts.extend(told.into_iter().map(Fact::Answered));
        }
        self.judge()
    }

    /// Hands the facts of the step to the hash, the trace and the oracles.
    fn judge(&mut self) -> PromiseCheck {
        std::mem::replace(&mut self.at_death, Ok(()))?;
        let now = self.node.clock.now();
        for fact in self.node.facts.take() {
            self.trace.note(fact.numbers());
            self.trace.say(|| format!("  {fact}"));
            self.oracles.see(now, &fact, self.reader.as_ref())?;
            if let (Fact::Began(began), Some(life)) = (&fact, &self.life)
                && began.is_call
            {
                self.oracles.call(began, life.canary(&began.function))?;
            }
        }
        Ok(())
    }

    /// Lists the steps that are possible now, and draws one of them.
    fn choose(&mut self) -> WorldStep {
        let now = self.node.clock.now();
        self.can.clear();
        match &mut self.life {
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
            _ => self.life.as_ref().is_some_and(|life| life.backend().is_some()),
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
        // Once the faults have stopped, nothing is slow any more.
        if !self.outages.are_over || self.can.is_empty() {
            self.can.push(WorldStep::Wait);
        }
        WorldStep::draw(&self.can, &mut self.streams.order)
    }

    /// Carries out a step.
    fn perform(&mut self, choice: WorldStep) {
        match choice {
            WorldStep::Wait => self.wait(),
            WorldStep::Start => self.start(),
            WorldStep::Person => self.person(),
            WorldStep::Fault => self.fault(),
            WorldStep::Stop => self.end(Death::Stopped),
            WorldStep::Spawner(step) => {
                self.node.spawner(|spawner, turn| spawner.step(step, turn));
                self.turn_of_fnd(choice);
            }
            WorldStep::Ledger(most) => {
                self.write_ledger(most);
                self.turn_of_fnd(choice);
            }
            WorldStep::Frame
            | WorldStep::Message
            | WorldStep::Tasks
            | WorldStep::CatchUp
            | WorldStep::Tick
            | WorldStep::Alarm
            | WorldStep::ClockWasSet
            | WorldStep::Silence
            | WorldStep::History
            | WorldStep::Output
            | WorldStep::Files => self.turn_of_fnd(choice),
        }
    }

    /// Lets fnd do its part of a step, if an fnd runs, and then lets its main loop react.
    fn turn_of_fnd(&mut self, choice: WorldStep) {
        let now = self.node.clock.now();
        let Some(life) = &mut self.life else { return };
        let mut is_connected = true;
        match choice {
            WorldStep::Tasks => life.run_tasks(&self.node),
            WorldStep::History => life.read(),
            WorldStep::Output => life.read_output(now),
            WorldStep::Files => life.look_at_files(&mut self.node.files, &mut self.streams.files, now),
            // The writer has had its turn, and its messages wait for the main loop.
            WorldStep::Ledger(_) => {}
            WorldStep::Spawner(step) => {
                (life.due.frames, life.due.tasks) = (true, true);
                life.due.output |= matches!(
                    step,
                    SpawnerStep::Start(_) | SpawnerStep::Work(_) | SpawnerStep::Report(_)
                );
            }
            _ => {
                is_connected = life.turn(choice);
                life.due.output |= matches!(choice, WorldStep::Frame | WorldStep::Message);
            }
        }
        let was_turn = matches!(choice, WorldStep::Frame | WorldStep::Message | WorldStep::Tick);
        if !(is_connected && life.after_step(was_turn)) {
            self.lose_spawner();
        }
    }

    /// Does a turn of the ledger's writer. Returns whether more may come.
    pub(super) fn write_ledger(&mut self, most: usize) -> bool {
        let Some(life) = &mut self.life else { return false };
        let verdict = CommitVerdict::any(&mut self.streams.disk, self.kinds);
        self.node.disk.decide(verdict);
        let goes_on = life.write(self.node.clock.now(), most);
        let round = self.node.disk.after_round(life.ledger.waiting() == (0, 0));
        self.node.facts.extend(round.commit.map(Fact::Committed));
        if round.death.is_some() {
            self.outages.death = round.death;
        }
        goes_on
    }

    /// Starts the next fnd on the files and the spawner that the one before has left.
    fn start(&mut self) {
        self.lives += 1;
        let mut life = FndLife::start(&mut self.node, self.streams.daemon.u64(..));
        life.after_step(true);
        self.life = Some(life);
        self.reader = Some(RowReader::open(&self.node.ledger()));
        self.node.facts.push(Fact::Life(self.lives));
    }

    /// Ends fnd, because its connection to the spawner has ended.
    fn lose_spawner(&mut self) {
        if let Some(life) = &self.life {
            let _inside = life.tasks.enter();
            life.daemon().spawner_is_lost();
        }
        self.end(Death::Both);
    }

    /// Lets time go on until something is due.
    fn wait(&mut self) {
        let now = self.node.clock.now();
        let elapsed = self.node.clock.elapsed();
        let next_act = self.acts.front().map(|(at, _)| *at).filter(|at| *at > elapsed);
        let of_people = next_act.into_iter().chain(self.outages.wakes_at());
        let of_people = of_people.map(|at| now.mono + at.saturating_sub(elapsed));
        let of_fnd = self.life.iter().filter_map(|life| life.wakes_at(now));
        let of_node = [self.node.files.wakes_at(), self.node.spawner.wakes_at()];
        let next = of_people.chain(of_fnd).chain(of_node.into_iter().flatten());
        // Things that are due already do not need time. They wait until they are chosen.
        let next = next.filter(|at| *at > now.mono).min();
        let mut until = next.unwrap_or(now.mono + Duration::from_secs(1));
        // A thing that is possible now happens within milliseconds on a real machine, so time goes on by no more.
        if self.can.len() > 1 {
            until = until.min(now.mono + Duration::from_micros(self.streams.order.u64(1..BUSY_MAX_US)));
        }
        match &self.life {
            Some(life) => self.node.wait_until(until, &life.tasks.woken.notify),
            None => self.node.wait_until(until, &Notify::new()),
        }
    }

    /// Lets the next person act.
    fn person(&mut self) {
        let Some((_, act)) = self.acts.pop_front() else { return };
        let number = self.act;
        self.act += 1;
        self.node.facts.push(Fact::Asked(number, act.clone()));
        self.promises.begin(number, &act);
        match &act {
            PersonAct::Save(function, content) => self.node.files.save(people::name(*function), *content),
            PersonAct::Remove(function) => self.node.files.remove(&people::name(*function)),
            _ => {
                let Some(life) = &mut self.life else { return };
                let _inside = life.tasks.enter();
                if let Some(backend) = life.backend() {
                    self.people.act(number, &act, backend);
                }
                life.after_step(false);
            }
        }
    }
}
