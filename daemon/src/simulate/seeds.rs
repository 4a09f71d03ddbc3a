//! Runs seeds, and has the list of the seeds that have failed once: every run begins with them.

use super::cluster::{self, ClusterPlan};
use super::plan::WorldPlan;
use super::{WorldOutcome, run};
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

/// The seeds that have failed, one a line, each with a few words about the fault that it has found.
const FAILED: &str = include_str!("failing_seeds.txt");
/// Such a line begins with this if its world has several machines.
const OF_CLUSTER: &str = "cluster ";

thread_local! {
    /// The last panic of this thread: its place and its message.
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// Returns the seeds of worlds of one machine that have failed once, or those of worlds of several.
pub(super) fn failed(of_clusters: bool) -> impl Iterator<Item = u64> {
    let lines = FAILED
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let seeds = lines.filter(move |seed| !seed.is_empty() && seed.starts_with(OF_CLUSTER) == of_clusters);
    seeds.map(|seed| {
        let number = seed.trim_start_matches(OF_CLUSTER).parse();
        number.expect("a line begins with a seed, and words follow `#`")
    })
}

/// Runs a plan. A panic is a promise that is broken: fnd asserts much about itself.
pub(super) fn attempt(plan: &WorldPlan, in_words: bool) -> WorldOutcome {
    caught(|| run(plan, in_words))
}

/// Runs a plan of several machines likewise.
pub(super) fn attempt_cluster(plan: &ClusterPlan, in_words: bool) -> WorldOutcome {
    caught(|| cluster::run(plan, in_words))
}

fn caught(run: impl FnOnce() -> WorldOutcome) -> WorldOutcome {
    match panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome,
        Err(_) => WorldOutcome {
            broken: Some(PANIC.take().unwrap_or_else(|| "panic".to_owned())),
            ..WorldOutcome::default()
        },
    }
}

/// From now on a panic is kept in words, and is not printed.
#[cfg(feature = "simulate")]
pub(super) fn keep_panics() {
    panic::set_hook(Box::new(|panic| PANIC.set(Some(panic.to_string().replace('\n', " ")))));
}
