//! The simulation in the ordinary tests: few seeds, because the tests are not optimized. `make simulate` runs thousands.

use super::facts::Fact;
use super::faults::FaultKinds;
use super::journal::DefectReader;
use super::life::FndLife;
use super::node::Node;
use super::people::{self, PersonAct};
use super::plan::WorldPlan;
use super::seeds;
use super::spawner::SpawnerModel;
use super::spawner::contents::SourceContent;
use super::trace::WorldTrace;
use super::world::World;
use super::world_step::WorldStep;
use fastrand::Rng;
use fnd_wire::plan::is_builder;
use std::env;
use std::rc::Rc;
use std::time::Duration;

/// The first seed that four tests try, and the number of their seeds, where the environment names none (`FND_FIRST_SEED`,
/// `FND_SEEDS`).
const FIRST: u64 = 2152;
const SEEDS: u64 = 40;
const TESTS: u64 = 4;
/// Most lines of the trace of a world that fails.
const LINES_MAX: usize = 60;
/// Most steps of a world until a test cancels its build.
const STEPS_MAX: u32 = 10_000;

/// Returns the number that a variable of the environment has.
fn number_of(variable: &str, default: u64) -> u64 {
    let Ok(text) = env::var(variable) else {
        return default;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("{variable}={text} is not a whole number"))
}

fn keeps_its_promises(seed: u64) {
    let outcome = seeds::attempt(&WorldPlan::of(seed), true);
    if let Some(broken) = outcome.broken {
        let end = outcome.trace.len().saturating_sub(LINES_MAX);
        let end = outcome.trace[end..].join("\n");
        panic!("{end}\nseed {seed}: {broken}\nthe whole trace: make simulate SEED={seed}");
    }
}

/// Tries the worlds of one of the four tests. Tests run beside each other, a world stays in its thread.
fn keeps_its_promises_in_part(part: u64) {
    let seeds = number_of("FND_SEEDS", SEEDS);
    let first = number_of("FND_FIRST_SEED", FIRST);
    (0..seeds)
        .filter(|seed| seed % TESTS == part)
        .for_each(|seed| keeps_its_promises(first.wrapping_add(seed)));
}

#[test]
fn fnd_keeps_its_promises_in_a_few_worlds() {
    keeps_its_promises_in_part(0);
}

#[test]
fn fnd_keeps_its_promises_in_a_few_other_worlds() {
    keeps_its_promises_in_part(1);
}

#[test]
fn fnd_keeps_its_promises_in_more_worlds() {
    keeps_its_promises_in_part(2);
}

#[test]
fn fnd_keeps_its_promises_in_still_more_worlds() {
    keeps_its_promises_in_part(3);
}

#[test]
fn seeds_that_have_failed_once_fail_no_more() {
    seeds::failed(false).for_each(keeps_its_promises);
}

#[test]
fn the_same_seed_has_the_same_history() {
    for seed in 1..=3 {
        let [first, second] = [(); 2].map(|()| seeds::attempt(&WorldPlan::of(seed), false));
        let [first, second] = [first, second].map(|end| (end.hash, end.steps, end.invocations));
        assert_eq!(first, second, "seed {seed}");
        assert_ne!(first.2, 0, "seed {seed} runs nothing");
    }
}

#[test]
fn a_file_of_which_no_version_could_serve_is_mended_in_the_calm() {
    let save = PersonAct::Save;
    let plan = WorldPlan {
        lasts_ms: 10_000,
        functions: 3,
        kinds: FaultKinds::NONE,
        acts: vec![
            (0, save(0, SourceContent(0))),
            (0, save(1, SourceContent(2))),
            (0, save(2, SourceContent(0))),
            // A release of this function serves beside its file.
            (5_000, save(2, SourceContent(2))),
        ],
        faults: Vec::new(),
        ..WorldPlan::of(1)
    };
    let outcome = seeds::attempt(&plan, true);
    assert_eq!(outcome.broken, None);
    let is_saved = |function, content| {
        let act = format!("{:?}", save(function, SourceContent(content)));
        outcome.trace.iter().any(|line| line.ends_with(&act))
    };
    assert!(is_saved(1, 1) && !is_saved(2, 1));
}

/// Lets a world go on until this holds.
fn go_on(world: &mut World<'_>, until: impl Fn(&World<'_>) -> bool) {
    while !until(world) {
        assert!(world.steps < STEPS_MAX, "it never holds");
        world.step().unwrap();
    }
}

/// Has a build begin, and has a person cancel it. Then the calm of the world comes, in which the build ends. Returns whether
/// people were told that it has failed.
fn hears_of_cancelled_build(seed: u64) -> bool {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    let _inside = runtime.enter();
    let plan = WorldPlan {
        steps: 0,
        functions: 2,
        kinds: FaultKinds::NONE,
        acts: Vec::new(),
        faults: Vec::new(),
        ..WorldPlan::of(seed)
    };
    let journal = Rc::new(DefectReader::begin());
    let mut world = World::new(&runtime, &plan, WorldTrace::new(true), journal);
    go_on(&mut world, |world| {
        world.life.as_ref().is_some_and(|life| life.backend().is_some())
    });
    world.node.files.save(people::name(1), SourceContent(5));
    let builds = |fact: &Fact| matches!(fact, Fact::Started(started) if is_builder(started.function.as_str()));
    go_on(&mut world, |world| world.judged.iter().any(builds));
    world.acts.push_back((Duration::ZERO, PersonAct::Cancel(0)));
    world.make(WorldStep::Person).unwrap();
    let broken = world.run(&plan).err();
    assert_eq!(broken, None, "seed {seed}");
    world.trace.lines().any(|line| line.ends_with("is told: Failed"))
}

#[test]
fn a_build_that_is_asked_for_in_the_calm_does_not_fail_with_one_that_was_cancelled_before() {
    let failed = (1..=6).filter(|seed| hears_of_cancelled_build(*seed));
    assert_eq!(failed.count(), 0);
}

/// Lets fnd handle all messages of its threads before it looks at the connection to the spawner.
fn hear_all(life: &mut FndLife, node: &mut Node<'_>) {
    let (now, mut order) = (node.clock.now(), Rng::with_seed(1));
    node.files.take_requests(&life.catalog);
    while node.files.has_work(now.mono) {
        life.look_at_files(&mut node.files, &mut order, now);
    }
    while !life.serving.messages.is_empty() {
        life.turn(WorldStep::Message);
        life.run_tasks(node);
    }
}

#[test]
fn what_a_spawner_that_has_ended_was_not_asked_for_is_not_done() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    let _inside = runtime.enter();
    for has_function in [true, false] {
        let mut node = Node::new(&runtime, FaultKinds::NONE, Rng::with_seed(1));
        if has_function {
            node.files.save(people::name(1), SourceContent(0));
        }
        let mut life = FndLife::start(&mut node, 1);
        node.spawner(SpawnerModel::killed);
        hear_all(&mut life, &mut node);
        // A node on which every function is known serves people. A function that is not known counts as deleted.
        assert_ne!(life.backend().is_some(), has_function);
        let inside = life.tasks.enter();
        let mut reloaded = life.daemon().reload(false);
        drop(inside);
        hear_all(&mut life, &mut node);
        assert!(reloaded.try_recv().is_err(), "the configuration was not read");
    }
}

#[test]
fn the_output_thread_is_due_as_soon_as_a_task_asks_it_and_not_before() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    let _inside = runtime.enter();
    let mut node = Node::new(&runtime, FaultKinds::NONE, Rng::with_seed(1));
    let mut life = FndLife::start(&mut node, 1);
    let now = node.clock.now();
    let is_due = |life: &mut FndLife| {
        let mut can = Vec::new();
        life.steps(now, &mut Rng::with_seed(1), &mut can);
        can.contains(&WorldStep::Output)
    };
    life.read_output(now);
    assert!(!is_due(&mut life), "it has done all that the start asked for");
    let output = life.daemon().state.borrow().output.clone();
    life.tasks.spawn(async move { output.settle().await });
    life.run_tasks(&node);
    assert!(is_due(&mut life));
    life.read_output(now);
    assert!(!is_due(&mut life));
}
