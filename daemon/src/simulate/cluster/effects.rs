//! The effects of a step.

use super::Cluster;
use super::steps::ClusterStep;
use crate::simulate::clock::SimulatedClock;
use crate::simulate::facts::Fact;
use crate::simulate::jetstream::{Peer, ToNode};
use crate::simulate::oracles::PromiseCheck;
use crate::simulate::world_step::WorldStep;
use std::sync::Arc;
use std::time::Duration;

/// Most microseconds for which something that can happen has to wait.
const BUSY_MAX_US: u64 = 20_000;

impl Cluster<'_> {
    /// Lets one thing happen, and judges it.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(super) fn step(&mut self) -> PromiseCheck {
        self.steps += 1;
        let choice = self.choose();
        let (now, server_ms) = (self.now(), self.server_ms());
        self.trace.step(self.steps, now, server_ms);
        let [kind, number] = choice.numbers();
        self.trace
            .note([kind, number, u64::try_from(now.as_micros()).unwrap_or(0)]);
        match choice {
            // The world says its step itself.
            ClusterStep::On(machine, step) => return self.on_machine(machine, step, now),
            ClusterStep::Wait => return self.wait(),
            _ => self.trace.say(|| choice.to_string()),
        }
        match choice {
            ClusterStep::On(..) | ClusterStep::Wait => {}
            ClusterStep::Request(index) => self.machines[index].take_request(now),
            ClusterStep::Read(index) => {
                let machine = &mut self.machines[index];
                machine.link.read(&mut machine.wire, now);
                machine.hand_over();
            }
            ClusterStep::Due(index) => {
                let machine = &mut self.machines[index];
                machine.link.due(self.server.run, &mut machine.wire, now);
                machine.hand_over();
            }
            ClusterStep::Serve(index) => self.serve(index, now),
            ClusterStep::Deliver(stream) => {
                self.forget_closed();
                let delivered = self.server.deliver(stream, server_ms, &mut self.random);
                self.say(delivered, now);
            }
            ClusterStep::Expire => {
                self.forget_closed();
                let over = self.server.expire(server_ms);
                self.say(over, now);
            }
            ClusterStep::Publish => self.publish(),
            ClusterStep::Fault => self.fault(now)?,
        }
        self.oracles.looks(&self.server.bucket, now)
    }

    /// Lets something happen on a machine, and shows it to the oracles that know all machines.
    fn on_machine(&mut self, index: usize, step: WorldStep, now: Duration) -> PromiseCheck {
        let machine = &mut self.machines[index];
        let judged = machine.inside(now, |world| world.make(step));
        self.trace.adopt(&machine.name, &mut machine.world.trace);
        judged?;
        if matches!(step, WorldStep::Fault | WorldStep::Person) {
            self.oracles.disturbed();
        }
        self.see(index)
    }

    /// Shows what has happened on a machine to the oracles.
    pub(super) fn see(&mut self, index: usize) -> PromiseCheck {
        let machine = &self.machines[index];
        for fact in &machine.world.judged {
            match fact {
                Fact::Committed(commit) if commit.is_done && commit.is_denied => {
                    self.in_doubt.insert(index);
                }
                Fact::Death(_) => {
                    self.in_doubt.remove(&index);
                }
                // Only commits in doubt and deaths count here. The oracles see every fact below.
                _ => {}
            }
            self.oracles.see(index, fact, |id| machine.message(id))?;
        }
        Ok(())
    }

    fn forget_closed(&mut self) {
        let machines = &self.machines;
        self.server.forget_closed(|peer| machines[peer.node].wire.is_open(peer));
    }

    /// Lets the server carry out what a machine has asked.
    fn serve(&mut self, index: usize, now: Duration) {
        let server_ms = self.server_ms();
        let Some((connection, asked)) = self.machines[index].wire.take_up(now) else {
            return;
        };
        self.trace.say(|| format!("  machine {index} {}", asked.words()));
        let node = index;
        let (answer, heard) = self.server.serve(Peer { node, connection }, asked, server_ms);
        if let Some(answer) = answer {
            self.trace.say(|| format!("  machine {index} is told {answer:?}"));
            self.machines[index].wire.say(connection, answer, now);
        }
        let Some((node, stamp)) = heard else { return };
        // All hear of it that are connected.
        for machine in self.machines.iter_mut().filter(|machine| machine.link.is_up()) {
            let connection = machine.wire.connection();
            machine
                .wire
                .say(connection, ToNode::Heard(Arc::clone(&node), stamp), now);
        }
    }

    /// Says something to machines.
    pub(super) fn say(&mut self, said: impl IntoIterator<Item = (Peer, ToNode)>, now: Duration) {
        for (peer, said) in said {
            self.trace.say(|| format!("  machine {} is told {said:?}", peer.node));
            self.machines[peer.node].wire.say(peer.connection, said, now);
        }
    }

    /// Lets somebody publish the next message. Ids that a stream knows store nothing.
    fn publish(&mut self) {
        let server_ms = self.server_ms();
        let Some((_, stream, id)) = self.messages.pop_front() else {
            return;
        };
        let stored = self.server.streams[stream].publish(id, server_ms);
        self.trace
            .say(|| format!("  message {id} of stream {stream}: {stored:?}"));
        if let Ok(Some(place)) = stored {
            self.oracles.published(stream, id, place);
        }
    }

    /// Lets time go on until something is due.
    fn wait(&mut self) -> PromiseCheck {
        let mut time = self.sleeps().unwrap_or(Duration::from_secs(1));
        // A thing that is possible now happens within milliseconds on a real machine, so time goes on by no more.
        if self.can.len() > 1 {
            time = time.min(Duration::from_micros(self.order.u64(1..BUSY_MAX_US)));
        }
        self.machines.iter_mut().for_each(|machine| machine.is_listed = false);
        let running = self.machines.iter().filter(|machine| !machine.is_held());
        let lives = running.filter_map(|machine| machine.world.life.as_ref());
        SimulatedClock::wait_for(self.runtime, time, lives.map(|life| &life.tasks.woken.notify));
        Ok(())
    }
}
