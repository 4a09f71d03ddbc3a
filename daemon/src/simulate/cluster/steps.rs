//! Lists what can happen next on the machines, at the server and on the links, and draws one of it.

use super::Cluster;
use crate::simulate::world_step::WorldStep;
use std::fmt;
use std::time::Duration;

/// One step. Machines and streams have numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClusterStep {
    /// Something happens on a machine.
    On(usize, WorldStep),
    /// The thread of NATS of a machine takes a request of fnd.
    Request(usize),
    /// It reads what has arrived.
    Read(usize),
    /// It does what is due.
    Due(usize),
    /// The server carries out what a machine has asked.
    Serve(usize),
    /// A stream gives a message to a machine.
    Deliver(usize),
    /// The server ends the pull requests whose time is over.
    Expire,
    /// Somebody publishes the next message.
    Publish,
    /// The next fault between machines happens.
    Fault,
    /// Time goes on until something is due.
    Wait,
}

impl ClusterStep {
    /// Returns two numbers for the hash of all events.
    pub(super) fn numbers(self) -> [u64; 2] {
        match self {
            Self::On(machine, step) => [200 + step.number(), machine as u64],
            Self::Request(machine) => [1, machine as u64],
            Self::Read(machine) => [2, machine as u64],
            Self::Due(machine) => [3, machine as u64],
            Self::Serve(machine) => [4, machine as u64],
            Self::Deliver(stream) => [5, stream as u64],
            Self::Expire => [6, 0],
            Self::Publish => [7, 0],
            Self::Fault => [8, 0],
            Self::Wait => [9, 0],
        }
    }
}

impl fmt::Display for ClusterStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(machine, step) => write!(f, "machine {machine}: {step}"),
            Self::Request(machine) => write!(f, "the link of machine {machine} takes a request"),
            Self::Read(machine) => write!(f, "the link of machine {machine} reads"),
            Self::Due(machine) => write!(f, "the link of machine {machine} does what is due"),
            Self::Serve(machine) => write!(f, "the server serves machine {machine}"),
            Self::Deliver(stream) => write!(f, "stream {stream} gives a message away"),
            Self::Expire => f.write_str("the server ends pull requests"),
            Self::Publish => f.write_str("somebody publishes a message"),
            Self::Fault => f.write_str("a fault between machines"),
            Self::Wait => f.write_str("time goes on"),
        }
    }
}

impl Cluster<'_> {
    /// Lists the steps that are possible now, and draws one of them by their weights.
    pub(super) fn choose(&mut self) -> ClusterStep {
        let (now, server_ms) = (self.now(), self.server_ms());
        self.can.clear();
        for index in 0..self.machines.len() {
            self.list_of(index, now);
        }
        let streams = self.server.can_deliver(server_ms);
        self.can.extend(streams.map(|stream| (ClusterStep::Deliver(stream), 8)));
        let is_due = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        let others = [
            (
                self.server.expires_at().is_some_and(|at| at <= server_ms),
                ClusterStep::Expire,
            ),
            (
                is_due(self.messages.front().map(|(at, ..)| *at)) && self.server.run.is_some(),
                ClusterStep::Publish,
            ),
            (is_due(self.faults.front().map(|(at, _)| *at)), ClusterStep::Fault),
        ];
        self.can
            .extend(others.into_iter().filter(|(can, _)| *can).map(|(_, step)| (step, 4)));
        // Once the faults have stopped, nothing is slow any more.
        if !self.is_calm || self.can.is_empty() {
            self.can.push((ClusterStep::Wait, 1));
        }
        let sum: u32 = self.can.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.order.u32(0..sum);
        for (step, weight) in &self.can {
            match drawn.checked_sub(*weight) {
                Some(rest) => drawn = rest,
                None => return *step,
            }
        }
        ClusterStep::Wait
    }

    /// Lists the steps of a machine and of its link.
    fn list_of(&mut self, index: usize, now: Duration) {
        let machine = &mut self.machines[index];
        let is_held = machine.is_held();
        // A list costs some questions to the kernel, and most steps change that of one machine only.
        if !machine.is_listed {
            machine.inside(now, |world| world.list(is_held));
            machine.is_listed = true;
        }
        let steps = machine.world.can.iter();
        self.can
            .extend(steps.map(|step| (ClusterStep::On(index, *step), step.weight())));
        let (up, down) = machine.wire.has_arrived(now);
        let runs = machine.has_running_link();
        let is_due = machine.link_wakes_at(self.server.run, now).is_some_and(|at| at <= now);
        let all = [
            (machine.has_request(), ClusterStep::Request(index)),
            (down && runs, ClusterStep::Read(index)),
            (is_due, ClusterStep::Due(index)),
            (up && self.server.run.is_some(), ClusterStep::Serve(index)),
        ];
        self.can
            .extend(all.into_iter().filter(|(can, _)| *can).map(|(_, step)| (step, 8)));
    }

    /// Returns the time until something is due that is not due now.
    pub(super) fn sleeps(&mut self) -> Option<Duration> {
        let (now, server_ms) = (self.now(), self.server_ms());
        let mut wakes = vec![
            self.messages.front().map(|(at, ..)| *at),
            self.faults.front().map(|(at, _)| *at),
        ];
        for machine in &mut self.machines {
            let is_held = machine.is_held();
            let sleeps = machine.inside(now, |world| world.sleeps(is_held));
            wakes.push(sleeps.map(|sleeps| now + sleeps));
            wakes.push(machine.link_wakes_at(self.server.run, now));
            wakes.push(machine.wire.wakes_at(now));
        }
        for at_ms in [self.server.expires_at(), self.server.again_after(server_ms)] {
            let rest_ms = at_ms.map(|at_ms| at_ms.saturating_sub(server_ms));
            wakes.push(rest_ms.map(|rest_ms| now + Duration::from_millis(rest_ms)));
        }
        // Things that are due already do not need time. They wait until they are chosen.
        let later = wakes.into_iter().flatten().filter(|at| *at > now);
        later.min().map(|at| at - now)
    }
}
