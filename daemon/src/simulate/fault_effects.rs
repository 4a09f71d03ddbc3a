//! The effects of faults on the node and on fnd, up to the death of fnd.

use super::clock::SimulatedClock;
use super::facts::{Death, Fact};
use super::faults::{Fault, FaultKinds};
use super::life::FndLife;
use super::rows::RowReader;
use super::spawner::{SpawnerModel, SpawnerTurn};
use super::world::World;
use crate::effects::fuse;
use std::time::Duration;

/// Most turns of a thread that ends in order.
const LAST_TURNS: u32 = 1000;

impl World<'_> {
    /// Lets the next fault happen, or ends one that lasts.
    pub(super) fn fault(&mut self) {
        let now = self.node.clock.now().mono;
        let elapsed = self.node.clock.elapsed();
        if self.outages.full_until.take_if(|until| *until <= elapsed).is_some() {
            return self.node.disk.fill(false);
        }
        let Some((_, fault)) = self.outages.faults.pop_front() else {
            return;
        };
        self.trace.say(|| fault.to_string());
        match fault {
            Fault::KillFnd(things) => self.light_fuse(things, Death::Killed),
            Fault::KillBoth(things) => self.light_fuse(things, Death::Both),
            Fault::KillSpawner => self.end_spawner(SpawnerModel::killed),
            Fault::StopSpawner => self.end_spawner(SpawnerModel::stopped),
            Fault::PowerCut => {
                fuse::set(Some(0));
                self.die(Death::PowerCut);
            }
            Fault::StopInOrder => self.life.iter_mut().for_each(FndLife::ask_to_stop),
            Fault::ClockStep(step_ms) => {
                self.outages.stepped_ms += step_ms;
                self.outages.furthest_ms = self.outages.furthest_ms.max(self.outages.stepped_ms);
                self.set_clock(step_ms);
                self.life.iter_mut().for_each(FndLife::clock_set);
            }
            // The kernel reports the time that was slept as a clock that was set, too.
            Fault::Suspend(ms) => {
                self.set_clock(i64::try_from(ms).unwrap_or(i64::MAX));
                self.life.iter_mut().for_each(FndLife::clock_set);
            }
            Fault::DiskFull(ms) => {
                self.node.disk.fill(true);
                self.outages.full_until = Some(elapsed + Duration::from_millis(ms));
            }
            Fault::SpawnerSilent(ms) => self.node.spawner.be_silent(now + Duration::from_millis(ms)),
            Fault::CannotStart(count) => self.node.spawner.lack_descriptors(count),
            Fault::Upgrade => self.node.spawner.replace(false),
            Fault::Downgrade => self.node.spawner.replace(true),
        }
    }

    /// Ends all faults; none comes any more.
    pub(super) fn end_faults(&mut self) {
        self.trace.say(|| "the faults have stopped".to_owned());
        self.kinds = FaultKinds::NONE;
        self.outages.are_over = true;
        self.outages.faults.clear();
        if self.outages.full_until.take().is_some() {
            self.node.disk.fill(false);
        }
        // Delayed work waits for a time of the wall clock: for hours, if the clock stays behind.
        let behind_ms = self.outages.furthest_ms - self.outages.stepped_ms;
        if behind_ms > 0 {
            self.set_clock(behind_ms);
            self.life.iter_mut().for_each(FndLife::clock_set);
        }
        self.node.spawner.recover();
        self.node.temper = FaultKinds::NONE.temper();
        fuse::set(None);
        self.node.spawner.replace(false);
        if self.node.spawner.is_of_0_1() {
            // The spawner of fnd 0.1 cannot install all contents, so O7 could not hold.
            self.node.spawner(SpawnerModel::killed);
            self.die(Death::Both);
        }
    }

    /// Ends the spawner in one of its ways. fnd sees that the connection has ended when it reads the next frame.
    pub(super) fn end_spawner(&mut self, end: fn(&mut SpawnerModel, &mut SpawnerTurn<'_>)) {
        self.node.spawner(end);
        self.node.facts.push(Fact::SpawnerEnded);
        self.life.iter_mut().for_each(|life| life.due.frames = true);
    }

    /// Lets fnd die after so many more things have left it.
    pub(super) fn light_fuse(&mut self, things: u32, death: Death) {
        if self.life.is_some() {
            fuse::set(Some(things));
            self.outages.death = Some(death);
        }
    }

    fn set_clock(&mut self, step_ms: i64) {
        SimulatedClock::step_wall(step_ms);
        self.node.facts.push(Fact::ClockStepped(step_ms));
    }

    /// Lets fnd die if nothing leaves it any more.
    pub(super) fn handle_death(&mut self) {
        if self.life.is_some() && fuse::has_burnt() {
            let death = self.outages.death.take().unwrap_or(Death::Killed);
            if death == Death::Both {
                self.node.spawner(SpawnerModel::killed);
            }
            self.die(death);
        }
    }

    /// Lets fnd end by itself, after it has handed over its work or has lost the spawner: its ledger is written to the end.
    pub(super) fn end(&mut self, death: Death) {
        let Some(life) = &mut self.life else { return };
        life.close();
        for _ in 0..LAST_TURNS {
            if !self.write_ledger(usize::MAX) || fuse::has_burnt() {
                break;
            }
        }
        if !fuse::has_burnt() {
            self.die(death);
        }
    }

    /// Drops the fnd that runs, and everything else that ends with this death. Then the oracles look at the ledger.
    pub(super) fn die(&mut self, death: Death) {
        if let Some(life) = self.life.take() {
            life.hang_up();
            let inside = life.tasks.enter();
            self.people.cut();
            self.promises.cut();
            drop(inside);
            drop(life);
        }
        fuse::set(None);
        self.outages.death = None;
        // The next reader opens the ledger after this death, when nothing writes it.
        self.reader = None;
        match death {
            // The caller has ended the spawner, if it dies with fnd.
            Death::Killed | Death::Stopped | Death::Both => {}
            Death::PowerCut => self.node.lose_power(&mut self.streams.disk),
        }
        self.node.facts.push(Fact::Death(death));
        if self.lives > 0 {
            let rows = RowReader::open(&self.node.ledger()).all();
            self.at_death = self.oracles.at_death(death, &rows);
        }
    }
}
