//! The effects of a step: the part that was chosen does its turn, and the main loop of fnd reacts. The module `fault_effects`
//! carries out the faults.

use super::disk::CommitVerdict;
use super::facts::{Death, Fact};
use super::faults::FaultKind;
use super::life::FndLife;
use super::people::{self, PersonAct};
use super::rows::RowReader;
use super::world::World;
use super::world_step::WorldStep;
use std::time::Duration;
use tokio::sync::Notify;

/// Most microseconds for which something that can happen has to wait.
const BUSY_MAX_US: u64 = 20_000;
/// After one of so many failed commits, fnd is killed, and after fewer than so many more things have left it.
const KILLED_AFTER_FAILURE: u8 = 8;
const THINGS_MAX: u32 = 30;

impl World<'_> {
    /// Carries out a step.
    pub(super) fn perform(&mut self, choice: WorldStep) {
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
            | WorldStep::Nats
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
            WorldStep::Spawner(_) => (life.due.frames, life.due.tasks) = (true, true),
            _ => is_connected = life.turn(choice),
        }
        let was_turn = matches!(
            choice,
            WorldStep::Frame | WorldStep::Message | WorldStep::Nats | WorldStep::Tick
        );
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
        if round.commit.is_some_and(|commit| commit.is_done && commit.is_denied) {
            self.promises.commit_is_unknown();
        }
        self.node.facts.extend(round.commit.map(Fact::Committed));
        if round.death.is_some() {
            self.outages.death = round.death;
        } else if round.commit.is_some_and(|commit| commit.is_denied) && self.kinds.has(FaultKind::Kills) {
            // A fault in the handling of a failed commit shows best if fnd dies before it can repeat the commit.
            if self.streams.disk.u8(0..KILLED_AFTER_FAILURE) == 0 {
                let things = self.streams.disk.u32(0..THINGS_MAX);
                self.light_fuse(things, Death::Killed);
            }
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

    /// Returns the time until something is due that is not due now; absent: nothing will be. `is_held`: fnd does nothing.
    pub(super) fn sleeps(&self, is_held: bool) -> Option<Duration> {
        let now = self.node.clock.now();
        let elapsed = self.node.clock.elapsed();
        let next_act = self.acts.front().map(|(at, _)| *at).filter(|at| *at > elapsed);
        let of_people = next_act.into_iter().chain(self.outages.wakes_at());
        let of_people = of_people.map(|at| now.mono + at.saturating_sub(elapsed));
        let runs = self.life.iter().filter(|_| !is_held);
        let of_fnd = runs.filter_map(|life| life.wakes_at(now));
        let of_node = [self.node.files.wakes_at(), self.node.spawner.wakes_at()];
        let next = of_people.chain(of_fnd).chain(of_node.into_iter().flatten());
        // Things that are due already do not need time. They wait until they are chosen.
        next.filter(|at| *at > now.mono).min().map(|at| at - now.mono)
    }

    /// Lets time go on until something is due.
    fn wait(&mut self) {
        let now = self.node.clock.now();
        let mut until = now.mono + self.sleeps(false).unwrap_or(Duration::from_secs(1));
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
