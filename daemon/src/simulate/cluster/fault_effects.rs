//! The effects of faults between machines.

use super::Cluster;
use super::faults::ClusterFault;
use super::machine::Machine;
use crate::effects::fuse;
use crate::simulate::facts::Death;
use crate::simulate::oracles::PromiseCheck;
use crate::simulate::people::PersonAct;
use crate::simulate::spawner::SpawnerModel;
use crate::simulate::spawner::contents::MESSAGE_FUNCTIONS;
use crate::simulate::world::World;
use std::time::Duration;

impl Cluster<'_> {
    /// Lets the next fault happen.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(super) fn fault(&mut self, now: Duration) -> PromiseCheck {
        let Some((_, fault)) = self.faults.pop_front() else {
            return Ok(());
        };
        self.trace.say(|| format!("  {fault}"));
        self.oracles.disturbed();
        self.machines.iter_mut().for_each(|machine| machine.is_listed = false);
        match fault {
            ClusterFault::Stop(machine) => self.machines[machine].is_stopped = true,
            ClusterFault::Continue(machine) => self.machines[machine].is_stopped = false,
            ClusterFault::Down(machine) => {
                self.machines[machine].is_down = true;
                let judged = self.machines[machine].inside(now, go_down);
                judged?;
                self.see(machine)?;
                let others = self.machines.iter().filter(|machine| !machine.is_down);
                if self.server.run.is_some() && others.clone().count() > 0 && others.clone().all(Machine::is_fine) {
                    let name = &self.machines[machine].name;
                    self.oracles.went_down(name, &self.server.bucket, now);
                }
            }
            ClusterFault::Up(machine) => self.machines[machine].is_down = false,
            ClusterFault::Cut(machine) => {
                let wire = &mut self.machines[machine].wire;
                wire.cut_since.get_or_insert(now);
                wire.is_unheard = false;
            }
            ClusterFault::CutToServer(machine) => {
                let wire = &mut self.machines[machine].wire;
                // A link that is cut in both directions stays so.
                wire.is_unheard = wire.cut_since.is_none() || wire.is_unheard;
                wire.cut_since.get_or_insert(now);
            }
            ClusterFault::Join(machine) => {
                let wire = &mut self.machines[machine].wire;
                (wire.cut_since, wire.is_unheard) = (None, false);
            }
            ClusterFault::Slow(machine, ms) => self.machines[machine].wire.slow = Some(Duration::from_millis(ms)),
            ClusterFault::LateAnswers(machine, ms) => {
                self.machines[machine].wire.late = Some(Duration::from_millis(ms));
            }
            ClusterFault::Fast(machine) => {
                let wire = &mut self.machines[machine].wire;
                (wire.slow, wire.late) = (None, None);
            }
            ClusterFault::Reset(machine) => {
                let machine = &mut self.machines[machine];
                machine.link.lose(&mut machine.wire, now);
                machine.hand_over();
            }
            ClusterFault::KillServer => {
                let server_ms = self.server_ms();
                self.server.kill(server_ms, &mut self.random);
                self.machines.iter_mut().for_each(|machine| machine.wire.reset());
            }
            ClusterFault::StartServer => {
                if self.server.run.is_none() {
                    self.server.start();
                }
            }
            ClusterFault::DeleteConsumer(stream) => {
                self.oracles.consumer_deleted(stream);
                let over = self.server.streams[stream].delete_consumer();
                self.say(over, now);
            }
            ClusterFault::DeleteStream(stream) => {
                self.oracles.deleted(stream);
                let over = self.server.streams[stream].delete();
                self.say(over, now);
            }
            ClusterFault::MakeStream(stream) => {
                let created_ns = self.server_ms() * 1_000_000;
                let stream = &mut self.server.streams[stream];
                if stream.created_ns().is_none() {
                    stream.make_again(created_ns);
                }
            }
            ClusterFault::ServerClock(ms) => self.server_stepped_ms += ms,
        }
        Ok(())
    }

    /// Ends all faults, and has people enable what they have disabled.
    pub(super) fn end_faults(&mut self) -> PromiseCheck {
        let now = self.now();
        let machines = 0..self.machines.len();
        let ends = machines.clone().flat_map(|machine| {
            [
                ClusterFault::Continue(machine),
                ClusterFault::Up(machine),
                ClusterFault::Join(machine),
                ClusterFault::Fast(machine),
            ]
        });
        let streams = (0..self.server.streams.len()).map(ClusterFault::MakeStream);
        let ends = ends.chain([ClusterFault::StartServer]).chain(streams);
        self.faults = ends.map(|end| (now, end)).collect();
        while !self.faults.is_empty() {
            self.fault(now)?;
        }
        self.is_calm = true;
        for machine in machines {
            self.machines[machine].inside(now, |world| {
                world.end_faults();
                let enabled = MESSAGE_FUNCTIONS.map(|function| PersonAct::SetEnabled(function.number, true));
                let acts = [PersonAct::CancelDrain].into_iter().chain(enabled);
                // Those that are left come before: a file may still be saved.
                let left: Vec<_> = world.acts.drain(..).map(|(_, act)| act).collect();
                let left = left.into_iter().filter(|act| *act != PersonAct::Drain);
                world.acts = left.chain(acts).map(|act| (now, act)).collect();
            });
        }
        Ok(())
    }
}

/// The machine loses fnd, the spawner and all workers.
fn go_down(world: &mut World<'_>) -> PromiseCheck {
    if world.life.is_some() {
        fuse::set(Some(0));
        world.node.spawner(SpawnerModel::killed);
        world.die(Death::Both);
    } else {
        world.end_spawner(SpawnerModel::killed);
    }
    world.judge()
}
