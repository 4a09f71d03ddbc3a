//! Eight callers at once, each with the next call as soon as the last is answered.

use crate::table::Times;
use fnd_tests::now;
use std::sync::Barrier;
use std::time::Duration;

/// Callers at once.
const CALLERS: usize = 8;

/// What they saw.
#[derive(Debug)]
pub(crate) struct Load {
    /// How long each call took.
    pub(crate) times: Times,
    /// Calls a second, of all together.
    pub(crate) per_second: f64,
}

/// Returns how long an action takes.
pub(crate) fn timed(action: impl FnOnce()) -> Duration {
    let start = now();
    action();
    start.elapsed()
}

/// Lets them do an action about `rounds` times two.
pub(crate) fn run<S>(rounds: usize, prepare: impl Fn() -> S + Sync, action: impl Fn(&mut S) + Sync) -> Load {
    let per_caller = (rounds / CALLERS * 2).max(1);
    let ready = Barrier::new(CALLERS + 1);
    let (times, elapsed) = std::thread::scope(|scope| {
        let caller = || {
            let mut state = prepare();
            ready.wait();
            (0..per_caller)
                .map(|_| timed(|| action(&mut state)))
                .collect::<Vec<_>>()
        };
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
        ready.wait();
        let start = now();
        let times = callers
            .into_iter()
            .map(|caller| caller.join().expect("a caller does not panic"));
        let times: Vec<_> = times.flatten().collect();
        (times, start.elapsed())
    });
    let count = u32::try_from(times.len()).unwrap_or(u32::MAX);
    Load {
        times: Times::new(times),
        per_second: f64::from(count) / elapsed.as_secs_f64(),
    }
}
