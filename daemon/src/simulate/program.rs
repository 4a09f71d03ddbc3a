//! The program: it runs seeds, and prints the results. It reads these variables of its environment:
//! - `SEEDS`: how many seeds, 2,000 if absent; `FIRST`: the first of them
//! - `SEED`: runs this seed alone and prints its trace; `STEPS`: its faults end after so many steps
//! - `CLUSTER=1`: worlds of several machines that share messages
//! - `MUTANT`: with this fault, by its number; `MUTANTS=1`: runs each of them until a seed finds it

use super::WorldOutcome;
use super::cluster::ClusterPlan;
use super::plan::WorldPlan;
use super::program_settings::{ChosenWorlds, ProgramSettings};
use super::{seeds, shorten};
use crate::clock;
use fnd_core::mutants::Mutant;
use std::env;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// After so many seeds that have failed, the others are left out: they would say the same.
const FAILURES_MAX: usize = 5;
/// The time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(15);
/// Most lines of a trace that are printed for each of them. The cause is seldom far from the end.
const LINES_MAX: usize = 60;

pub(super) fn main() -> ExitCode {
    let settings = match ProgramSettings::read(variable, (Mutant::ALL.len(), Mutant::OF_CLUSTER.len())) {
        Ok(settings) => settings,
        Err(why) => {
            say(&why);
            return ExitCode::FAILURE;
        }
    };
    seeds::keep_panics();
    let is_good = match settings.worlds {
        ChosenWorlds::One(seed) => one(seed, &settings),
        ChosenWorlds::Many(first, last) => many(first..=last, &settings),
        ChosenWorlds::Mutants(first, last) => mutants(&(first..=last), &settings),
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name)
}

fn say(text: &str) {
    // An error means that the reader has closed the pipe. The exit code still has the result.
    let _ = writeln!(io::stdout(), "{text}");
}

/// Returns the faults that a world can have.
fn all_mutants(settings: &ProgramSettings) -> &'static [Mutant] {
    if settings.is_cluster {
        &Mutant::OF_CLUSTER
    } else {
        &Mutant::ALL
    }
}

/// Returns the fault of `MUTANT`.
fn chosen_mutant(settings: &ProgramSettings) -> Option<Mutant> {
    let index = settings.mutant?.checked_sub(1)?;
    all_mutants(settings).get(index).copied()
}

/// Returns the plan of a seed with the limit of `STEPS` and the fault of `MUTANT`.
fn plan(seed: u64, settings: &ProgramSettings) -> WorldPlan {
    let mut plan = WorldPlan::of(seed);
    plan.steps = settings.steps.unwrap_or(plan.steps);
    plan.mutant = chosen_mutant(settings);
    plan
}

/// Runs a seed; `mutant` replaces that of the settings.
fn run(seed: u64, settings: &ProgramSettings, mutant: Option<Mutant>, in_words: bool) -> WorldOutcome {
    if settings.is_cluster {
        let mut plan = ClusterPlan::of(seed);
        plan.steps = settings.steps.unwrap_or(plan.steps);
        plan.mutant = mutant.or_else(|| chosen_mutant(settings));
        return seeds::attempt_cluster(&plan, in_words);
    }
    let mut plan = plan(seed, settings);
    plan.mutant = mutant.or(plan.mutant);
    seeds::attempt(&plan, in_words)
}

/// Returns the seeds that have failed once.
fn failed_seeds(settings: &ProgramSettings) -> impl Iterator<Item = u64> {
    seeds::failed(settings.is_cluster)
}

/// Runs one seed, and prints its trace.
fn one(seed: u64, settings: &ProgramSettings) -> bool {
    let outcome = run(seed, settings, None, true);
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
fn many(seeds: RangeInclusive<u64>, settings: &ProgramSettings) -> bool {
    let begun = clock::monotonic();
    let (mut steps, mut invocations, mut done, mut failed) = (0_u64, 0_u64, 0_u32, Vec::new());
    let (mut told, all) = (begun, failed_seeds(settings).chain(seeds.clone()).count());
    each(failed_seeds(settings).chain(seeds), settings, None, |end| {
        done += 1;
        steps += u64::from(end.steps);
        invocations += u64::from(end.invocations);
        if let Some(broken) = end.broken {
            say(&format!("seed {}: {broken}", end.seed));
            failed.push((end.seed, broken));
        }
        let now = clock::monotonic();
        if now.saturating_duration_since(told) >= PROGRESS {
            told = now;
            // As in `say`.
            let _ = writeln!(io::stderr(), "{done} of {all} seeds, {} failed", failed.len());
        }
        failed.len() < FAILURES_MAX
    });
    let lasted = clock::monotonic().saturating_duration_since(begun);
    for (seed, broken) in &failed {
        tell(*seed, broken, settings);
    }
    say(&format!(
        "{done} seeds in {:.1} s, {:.1} a second: {steps} steps, {invocations} invocations, {} failed",
        lasted.as_secs_f64(),
        f64::from(done) / lasted.max(Duration::from_millis(1)).as_secs_f64(),
        failed.len()
    ));
    failed.is_empty()
}

/// Runs seeds in this order, and hands each end to `goes_on`, until that returns false. `mutant` replaces that of the settings.
fn each(
    seeds: impl Iterator<Item = u64> + Send,
    settings: &ProgramSettings,
    mutant: Option<Mutant>,
    mut goes_on: impl FnMut(SeedEnd) -> bool,
) {
    let (seeds, stops) = (Mutex::new(seeds), AtomicBool::new(false));
    let (sender, ends) = mpsc::channel();
    let work = |sender: &mpsc::Sender<SeedEnd>| {
        // A seed stays in its thread: the clock, the fuse and the mutant are of the thread.
        while !stops.load(Ordering::Relaxed) {
            let next = seeds.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(seed) = next else { break };
            let outcome = run(seed, settings, mutant, false);
            let end = SeedEnd {
                seed,
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
        for end in &ends {
            if !goes_on(end) {
                stops.store(true, Ordering::Relaxed);
                break;
            }
        }
    });
}

/// Prints the shortest history that was found for a seed that has failed.
fn tell(seed: u64, broken: &str, settings: &ProgramSettings) {
    if settings.is_cluster {
        // A history of several machines is not made shorter.
        return tell_trace(seed, broken, &run(seed, settings, None, true), settings);
    }
    let (plan, outcome) = shorten::shorten(&plan(seed, settings), broken);
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
    tell_trace(seed, broken, &outcome, settings);
}

/// Prints the end of a trace.
fn tell_trace(seed: u64, broken: &str, outcome: &WorldOutcome, settings: &ProgramSettings) {
    let left_out = outcome.trace.len().saturating_sub(LINES_MAX);
    if left_out > 0 {
        say(&format!("{left_out} lines of the trace are left out here"));
    }
    outcome.trace.iter().skip(left_out).for_each(|line| say(line));
    say(&format!("seed {seed}: {}", outcome.broken.as_deref().unwrap_or(broken)));
    say(&format!(
        "the whole trace, of the history as it was at first: {}\n",
        settings.command(seed)
    ));
}

/// Runs each mutant until a seed finds it. Returns whether all were found.
fn mutants(seeds: &RangeInclusive<u64>, settings: &ProgramSettings) -> bool {
    let mut are_found = true;
    for (number, mutant) in (1..).zip(all_mutants(settings).iter().copied()) {
        let (mut tried, mut found) = (0, None);
        each(seeds.clone(), settings, Some(mutant), |end| {
            tried += 1;
            // A seed that also fails without the mutant has found another fault.
            let is_other = |_: &String| run(end.seed, settings, None, false).broken.is_some();
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
