//! Several machines that share the messages of a server of NATS: one course of events, one seed. Each machine is a world with a
//! real fnd; a step happens on one of them, at the server, or on a link between the two.
//!
//! Files:
//! - `course`: the course: faults, calm, and the checks at the end
//! - `effects`: carries out a step
//! - `fault_effects`: carries out a fault between machines
//! - `faults`: the faults between machines
//! - `machine`: a machine with its link
//! - `oracles`: O16 to O20: the promises that hold for each message on every machine
//! - `plan`: the plan of a seed
//! - `scenes`: faults that are aimed at messages
//! - `steps`: lists what can happen next

mod course;
mod effects;
mod fault_effects;
mod faults;
mod machine;
mod oracles;
mod plan;
mod scenes;
mod steps;
#[cfg(test)]
mod tests;

pub(super) use self::plan::ClusterPlan;

use self::faults::ClusterFault;
use self::machine::{Machine, wall_ms};
use self::oracles::MessageOracles;
use self::steps::ClusterStep;
use super::WorldOutcome;
use super::jetstream::{JetStream, Wire};
use super::journal::DefectReader;
use super::random_streams::RandomStream;
use super::spawner::contents::MESSAGE_FUNCTIONS;
use super::trace::WorldTrace;
use super::world::World;
use fastrand::Rng;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::Runtime;

struct Cluster<'a> {
    runtime: &'a Runtime,
    machines: Vec<Machine<'a>>,
    server: JetStream,
    /// The sum of all steps of the server's wall clock.
    server_stepped_ms: i64,
    /// The messages that are still to come: the time, the stream, the id.
    messages: VecDeque<(Duration, usize, u32)>,
    faults: VecDeque<(Duration, ClusterFault)>,
    /// The machines whose fnd was told that a commit has failed which is done: only the next fnd knows what it has stored.
    in_doubt: BTreeSet<usize>,
    /// Whether the faults have stopped.
    is_calm: bool,
    /// The order in which things happen.
    order: Rng,
    /// The choices of the server.
    random: Rng,
    trace: WorldTrace,
    oracles: MessageOracles,
    steps: u32,
    /// The steps that are possible now, with their weights.
    can: Vec<(ClusterStep, u32)>,
}

/// Runs a plan. `in_words`: the result has a trace in words.
pub(super) fn run(plan: &ClusterPlan, in_words: bool) -> WorldOutcome {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build();
    let runtime = runtime.expect("the machine has room for descriptors");
    let _inside = runtime.enter();
    #[cfg(feature = "simulate")]
    fnd_core::mutants::Mutant::choose(plan.mutant);
    let mut cluster = Cluster::new(&runtime, plan, in_words);
    let broken = cluster.run(plan).err();
    cluster.outcome(broken)
}

impl<'a> Cluster<'a> {
    fn new(runtime: &'a Runtime, plan: &ClusterPlan, in_words: bool) -> Self {
        let journal = Rc::new(DefectReader::begin());
        let mut links = RandomStream::Links.of(plan.seed);
        let machine = |(name, plan): &(String, _)| {
            let world = World::new(runtime, plan, WorldTrace::new(in_words), Rc::clone(&journal));
            Machine::new(name, world, Wire::new(links.fork()))
        };
        let machines: Vec<_> = plan.machines.iter().map(machine).collect();
        let streams = MESSAGE_FUNCTIONS.map(|function| function.stream);
        Self {
            runtime,
            machines,
            server: JetStream::new(&streams, wall_ms(Duration::ZERO)),
            server_stepped_ms: 0,
            messages: plan
                .messages
                .iter()
                .map(|(at_ms, stream, id)| (Duration::from_millis(*at_ms), *stream, *id))
                .collect(),
            faults: plan
                .faults
                .iter()
                .map(|(at_ms, fault)| (Duration::from_millis(*at_ms), *fault))
                .collect(),
            in_doubt: BTreeSet::new(),
            is_calm: false,
            order: RandomStream::Cluster.of(plan.seed),
            random: RandomStream::Server.of(plan.seed),
            trace: WorldTrace::new(in_words),
            oracles: MessageOracles::new(plan),
            steps: 0,
            can: Vec::new(),
        }
    }

    /// Returns the time since the begin of the simulation.
    fn now(&self) -> Duration {
        self.machines
            .first()
            .map_or(Duration::ZERO, |machine| machine.world.node.clock.elapsed())
    }

    /// Returns the wall clock of the server.
    fn server_ms(&self) -> u64 {
        wall_ms(self.now()).saturating_add_signed(self.server_stepped_ms)
    }
}
