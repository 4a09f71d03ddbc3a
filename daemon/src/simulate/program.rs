//! The program: it runs seeds, and prints the results. It reads these variables of its environment:
//! - `SEEDS`: how many seeds, 2,000 if absent; `FIRST`: the first of them
//! - `SEED`: runs this seed alone and prints its trace; `STEPS`: at most so many steps
//! - `MUTANT`: with this fault, by its number; `MUTANTS`: runs each of them until a seed finds it

use super::plan::WorldPlan;
use super::{seeds, shorten};
use crate::clock;
use fnd_core::mutants::Mutant;
use std::env;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// After so many seeds that have failed, the others are left out: they would say the same.
const FAILURES_MAX: usize = 5;

/// Within so many seeds each mutant has to be found.
const MUTANT_SEEDS: u64 = 2000;

pub(super) fn main() -> ExitCode {
    // Wrong values are said at once: from `keep_panics` on, a panic is not printed.
    for variable in ["SEEDS", "FIRST", "SEED", "STEPS", "MUTANT", "MUTANTS"] {
        assert!(
            env::var(variable).is_err() || is_number(variable),
            "{variable} is a number from 0 on"
        );
    }
    seeds::keep_panics();
    let first = number("FIRST").unwrap_or(1);
    let is_good = match number("SEED") {
        Some(seed) => one(seed),
        None if number("MUTANTS").is_some() => mutants(first),
        None => many(first, number("SEEDS").unwrap_or(2000)),
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_number(variable: &str) -> bool {
    env::var(variable).is_ok_and(|text| text.is_empty() || text.parse::<u64>().is_ok())
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().expect("the variable has a number"))
}

fn say(text: &str) {
    // An error means that the reader has closed the pipe. The exit code still has the result.
    let _ = writeln!(io::stdout(), "{text}");
}

/// Returns the plan of a seed with the limit of `STEPS` and the fault of `MUTANT`.
fn plan(seed: u64) -> WorldPlan {
    let mut plan = WorldPlan::of(seed);
    if let Some(steps) = number("STEPS").and_then(|steps| u32::try_from(steps).ok()) {
        plan.steps = steps;
    }
    let mutant = number("MUTANT").and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
    plan.mutant = mutant.and_then(|place| Mutant::ALL.get(place).copied());
    plan
}

/// Runs one seed, and prints its trace.
fn one(seed: u64) -> bool {
    let outcome = seeds::attempt(&plan(seed), true);
    outcome.trace.iter().for_each(|line| say(line));
    say(&format!(
        "seed {seed}: {} steps, {} invocations, hash {:016x}: {}",
        outcome.steps,
        outcome.invocations,
        outcome.hash,
        outcome.broken.as_deref().unwrap_or("no promise is broken")
    ));
    outcome.broken.is_none()
}

/// The end of one seed.
struct SeedEnd {
    seed: u64,
    steps: u32,
    invocations: u32,
    broken: Option<String>,
}

/// Runs many seeds, one thread for each processor. Returns whether all promises were kept.
fn many(first: u64, count: u64) -> bool {
    let known: Vec<u64> = seeds::failed().collect();
    let all = known.iter().copied().chain(first..first.saturating_add(count));
    let begun = clock::monotonic();
    let (mut steps, mut invocations, mut done, mut failed) = (0_u64, 0_u64, 0_u32, Vec::new());
    let all: Vec<u64> = all.collect();
    each(&all, None, |end| {
        done += 1;
        steps += u64::from(end.steps);
        invocations += u64::from(end.invocations);
        if let Some(broken) = end.broken {
            say(&format!("seed {}: {broken}", end.seed));
            failed.push((end.seed, broken));
        }
        failed.len() < FAILURES_MAX
    });
    let lasted = clock::monotonic().saturating_duration_since(begun);
    for (seed, broken) in &failed {
        tell(*seed, broken);
    }
    say(&format!(
        "{done} seeds in {:.1} s, {:.1} a second: {steps} steps, {invocations} invocations, {} failed",
        lasted.as_secs_f64(),
        f64::from(done) / lasted.max(Duration::from_millis(1)).as_secs_f64(),
        failed.len()
    ));
    failed.is_empty()
}

/// Runs seeds in this order, and hands each end to `goes_on`, until that returns false.
fn each(seeds: &[u64], mutant: Option<Mutant>, mut goes_on: impl FnMut(SeedEnd) -> bool) {
    let (next, stops) = (AtomicU64::new(0), AtomicBool::new(false));
    let (sender, ends) = mpsc::channel();
    let work = |sender: &mpsc::Sender<SeedEnd>| {
        // A seed stays in its thread: the clock, the fuse and the mutant are of the thread.
        while !stops.load(Ordering::Relaxed) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(seed) = usize::try_from(place).ok().and_then(|place| seeds.get(place)) else {
                break;
            };
            let mut plan = plan(*seed);
            plan.mutant = mutant.or(plan.mutant);
            let outcome = seeds::attempt(&plan, false);
            let end = SeedEnd {
                seed: *seed,
                steps: outcome.steps,
                invocations: outcome.invocations,
                broken: outcome.broken,
            };
            if sender.send(end).is_err() {
                break;
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work(&sender));
        }
        // The channel ends with the last of the threads.
        drop(sender);
        let mut count = 0;
        while count < seeds.len() {
            let Ok(end) = ends.recv() else { break };
            count += 1;
            if !goes_on(end) {
                stops.store(true, Ordering::Relaxed);
                break;
            }
        }
    });
}

/// Prints the shortest history that was found for a seed that has failed.
fn tell(seed: u64, broken: &str) {
    let (plan, outcome) = shorten::shorten(&plan(seed), broken);
    say(&format!(
        "\nseed {seed}, made shorter: {} faults and {} acts",
        plan.faults.len(),
        plan.acts.len()
    ));
    plan.acts
        .iter()
        .for_each(|(at_ms, act)| say(&format!("  at {at_ms} ms {act:?}")));
    plan.faults
        .iter()
        .for_each(|(at_ms, fault)| say(&format!("  at {at_ms} ms {fault:?}")));
    outcome.trace.iter().for_each(|line| say(line));
    say(&format!("seed {seed}: {}", outcome.broken.as_deref().unwrap_or(broken)));
    say(&format!("again, with its whole trace: make simulate SEED={seed}\n"));
}

/// Runs each mutant until a seed finds it. Returns whether all were found.
fn mutants(first: u64) -> bool {
    let mut are_found = true;
    let numbers: Vec<u64> = (first..first.saturating_add(MUTANT_SEEDS)).collect();
    for (number, mutant) in (1..).zip(Mutant::ALL) {
        let (mut tried, mut found) = (0, None);
        each(&numbers, Some(mutant), |end| {
            tried += 1;
            // A seed that also fails without the mutant has found another fault.
            let is_other = |_: &String| seeds::attempt(&plan(end.seed), false).broken.is_some();
            found = end
                .broken
                .filter(|broken| !is_other(broken))
                .map(|broken| (end.seed, broken));
            found.is_none()
        });
        are_found &= found.is_some();
        say(&match found {
            Some((seed, broken)) => {
                format!("mutant {number} {mutant:?}: found by seed {seed} after {tried} seeds: {broken}")
            }
            None => format!("mutant {number} {mutant:?}: NOT FOUND in {tried} seeds"),
        });
    }
    are_found
}
