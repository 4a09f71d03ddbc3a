//! The simulation of the whole daemon: one seed decides everything that happens to an fnd, and repeats it.
//!
//! The parts of fnd are the real ones, with a real ledger in memory and real sockets. They run in one thread, without the main loop
//! and without threads of their own: the world does one turn of one of them after the other, in an order that the seed chooses,
//! and everything else is a model. Both clocks stand still unless the world lets time go on. docs/design/simulation.md explains
//! how to read what a simulation says.
//!
//! Files:
//! - `clock`: both clocks of the machine
//! - `course`: the course of a world: faults, calm, and a restart at the end
//! - `disk`: the verdict on each commit of the ledger, and what a power cut takes
//! - `due`: what one fnd can do next, and the doing of it
//! - `facts`: what has happened, as somebody outside of fnd sees it
//! - `fault_effects`: carries out faults, up to the death of fnd
//! - `faults`: what goes wrong, and when
//! - `files`: the functions directories, and what the catalog says of them
//! - `life`: one fnd, from its start to its end
//! - `model`: which content of a function should serve
//! - `node`: the machine, and what goes on there when fnd ends
//! - `oracles`: what must hold
//! - `outages`: the faults that are to come, and those that last
//! - `people`: people, their requests and what they are told
//! - `plan`: what people do and what goes wrong in a simulation
//! - `program`: the program: which seeds it runs, and what it prints
//! - `random_streams`: the random numbers of a seed
//! - `rows`: the rows of the ledger, read beside fnd
//! - `seeds`: runs seeds, and knows those that have failed once
//! - `shorten`: makes the history of a seed that fails shorter
//! - `spawner`: the model of the spawner
//! - `tasks`: the tasks of one fnd
//! - `trace`: the hash of all events, and their words
//! - `words`: facts in words
//! - `workers`: the models of the processes
//! - `world`: chooses what happens next, and lets it happen
//! - `world_step`: the steps that the world can choose, in words

mod clock;
mod course;
mod disk;
mod due;
mod facts;
mod fault_effects;
mod faults;
mod files;
mod life;
mod model;
mod node;
mod oracles;
mod outages;
mod people;
mod plan;
#[cfg(feature = "simulate")]
mod program;
mod random_streams;
mod rows;
mod seeds;
#[cfg(feature = "simulate")]
mod shorten;
mod spawner;
mod tasks;
#[cfg(test)]
mod tests;
mod trace;
mod words;
mod workers;
mod world;
mod world_step;

use plan::WorldPlan;
use trace::WorldTrace;
use world::World;

/// What has come of a plan.
#[derive(Debug, Default)]
pub(crate) struct WorldOutcome {
    /// The promise that is broken, in words.
    pub(crate) broken: Option<String>,
    pub(crate) steps: u32,
    pub(crate) invocations: u32,
    /// A hash of all events.
    pub(crate) hash: u64,
    /// What has happened, in words.
    pub(crate) trace: Vec<String>,
}

/// Runs the simulations that the environment asks for.
#[cfg(feature = "simulate")]
#[must_use]
pub fn main() -> std::process::ExitCode {
    program::main()
}

/// Runs a plan; `speaks`: with a trace in words.
pub(crate) fn run(plan: &WorldPlan, speaks: bool) -> WorldOutcome {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build();
    let runtime = runtime.expect("the machine has room for descriptors");
    let _inside = runtime.enter();
    #[cfg(feature = "simulate")]
    fnd_core::mutants::Mutant::choose(plan.mutant);
    let mut world = World::new(&runtime, plan, WorldTrace::new(speaks));
    let broken = world.run(plan).err();
    world.outcome(broken)
}
