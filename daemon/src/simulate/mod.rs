//! The simulation of the whole daemon: one seed decides everything that happens to an fnd, and repeats it.
//!
//! The parts of fnd are the real ones, with a real ledger on a file system in memory, and real sockets. They run in one thread,
//! without the main loop and without threads of their own: the world does one turn of one part after the other, in an order that
//! the seed chooses. Everything else is a model. Both clocks stand still unless the world lets time go on.
//! docs/design/simulation.md explains how to read the output of a simulation.
//!
//! A seed makes a `plan`; `seeds` runs it; `course` leads a `world` through it, step by step. Read these four first.
//!
//! Files:
//! - `clock`: both clocks of the machine
//! - `cluster`: several machines that share messages
//! - `course`: the course of a world: faults, calm, and a restart at the end
//! - `disk`: the verdict on each commit of the ledger, and the power cut
//! - `due`: the turns that one fnd can do next
//! - `facts`: the events that can be seen from outside of fnd
//! - `fault_effects`: carries out faults, up to the death of fnd
//! - `faults`: the kinds of faults, and their times
//! - `files`: the functions directories, and the reports of the catalog
//! - `jetstream`: the model of a NATS server and of the connections to it
//! - `journal`: the defects of itself that fnd reports
//! - `life`: one fnd, from its start to its end
//! - `node`: the machine, and everything on it that outlives fnd
//! - `oracles`: the promises that must hold
//! - `outages`: the list of faults to come, and the state of those that last
//! - `people`: people, their requests and the answers to them
//! - `plan`: the acts and the faults of a simulation, with their times
//! - `program`: the program: runs seeds, and prints the results
//! - `program_settings`: the settings of the program, from its environment
//! - `promises`: which content of a function should serve, by the files and by the answers to people
//! - `random_streams`: the random numbers of a seed
//! - `rows`: the rows of the ledger, read beside fnd
//! - `seeds`: runs seeds, and has the list of those that have failed once
//! - `shorten`: makes the history of a seed that fails shorter
//! - `shown`: the releases that fnd shows, and how a restart may change them
//! - `spawner`: the model of the spawner
//! - `step_effects`: carries out the step that was chosen
//! - `tasks`: the tasks of one fnd
//! - `trace`: the hash of all events, and their words
//! - `words`: facts in words
//! - `workers`: the models of the processes
//! - `world`: lists all that can happen, chooses one step, and has it judged
//! - `world_step`: the steps that the world can choose, in words

mod clock;
mod cluster;
mod course;
mod disk;
mod due;
mod facts;
mod fault_effects;
mod faults;
mod files;
mod jetstream;
mod journal;
mod life;
mod node;
mod oracles;
mod outages;
mod people;
mod plan;
#[cfg(feature = "simulate")]
mod program;
mod program_settings;
mod promises;
mod random_streams;
mod rows;
mod seeds;
#[cfg(feature = "simulate")]
mod shorten;
mod shown;
mod spawner;
mod step_effects;
mod tasks;
#[cfg(test)]
mod tests;
mod trace;
mod words;
mod workers;
mod world;
mod world_step;

// The tests of `start` have these pieces, too, and with them the fuzzer.
#[cfg(any(test, fuzzing))]
pub(crate) use files::files_of;
#[cfg(any(test, fuzzing))]
pub(crate) use node::places_below;
#[cfg(any(test, fuzzing))]
pub(crate) use spawner::contents::{Fate, SourceContent};
#[cfg(any(test, fuzzing))]
pub(crate) use spawner::ends::exited;
#[cfg(any(test, fuzzing))]
pub(crate) use spawner::verdicts::{judged_file, runtimes};

use journal::DefectReader;
use plan::WorldPlan;
use std::rc::Rc;
use trace::WorldTrace;
use world::World;

/// The result of the run of a plan.
#[derive(Debug, Default)]
pub(crate) struct WorldOutcome {
    /// The promise that is broken, in words.
    pub(crate) broken: Option<String>,
    pub(crate) steps: u32,
    pub(crate) invocations: u32,
    /// A hash of all events.
    pub(crate) hash: u64,
    /// The steps and facts in words; empty unless they were asked for.
    pub(crate) trace: Vec<String>,
}

/// Runs the simulations that the environment asks for.
#[cfg(feature = "simulate")]
#[must_use]
pub fn main() -> std::process::ExitCode {
    program::main()
}

/// Runs a plan. `in_words`: the result has a trace in words.
pub(crate) fn run(plan: &WorldPlan, in_words: bool) -> WorldOutcome {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build();
    let runtime = runtime.expect("the machine has room for descriptors");
    let _inside = runtime.enter();
    #[cfg(feature = "simulate")]
    fnd_core::mutants::Mutant::choose(plan.mutant);
    let journal = Rc::new(DefectReader::begin());
    let mut world = World::new(&runtime, plan, WorldTrace::new(in_words), journal);
    let broken = world.run(plan).err();
    world.outcome(broken)
}
