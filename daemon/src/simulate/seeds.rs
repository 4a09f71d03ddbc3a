//! Runs seeds, and has the list of the seeds that have failed once: every run begins with them.

use super::plan::WorldPlan;
use super::{WorldOutcome, run};
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

/// The seeds that have failed, one a line, each with a few words about the fault that it has found.
const FAILED: &str = include_str!("failing_seeds.txt");

thread_local! {
    /// The last panic of this thread: its place and its message.
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// Returns the seeds that have failed once.
pub(super) fn failed() -> impl Iterator<Item = u64> {
    let lines = FAILED
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|seed| !seed.is_empty())
        .map(|seed| seed.parse().expect("a line begins with a seed, and words follow `#`"))
}

/// Runs a plan. A panic is a promise that is broken: fnd asserts much about itself.
pub(super) fn attempt(plan: &WorldPlan, in_words: bool) -> WorldOutcome {
    match panic::catch_unwind(AssertUnwindSafe(|| run(plan, in_words))) {
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
