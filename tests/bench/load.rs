//! How calls follow each other: in turns with others, eight callers at once, or ten times a second.

use crate::table::{ROUNDS, Times};
use fnd_tests::now;
use std::sync::Barrier;
use std::time::Duration;

const CALLERS: usize = 8;

/// Number of calls in a row before the next of several actions has its turn: so each is as warm as under load, and a
/// disturbance of the machine concerns all of them.
const BLOCK: usize = 50;

/// Longest turn of an action in [`in_rounds`]. A server closes a connection that waits longer than some seconds for its turn.
const TURN: Duration = Duration::from_millis(400);

/// Between two calls that come by themselves.
const PACE: Duration = Duration::from_millis(100);

/// Results of callers that call at the same time.
#[derive(Debug)]
pub(crate) struct Load {
    /// How long each call took.
    pub(crate) times: Times,
    /// Calls a second, of all together.
    pub(crate) rates: Rates,
    /// Number of calls, also of those that do not count.
    pub(crate) calls: usize,
}

/// Calls a second in each of some rounds, sorted.
#[derive(Debug, Clone)]
pub(crate) struct Rates(Vec<f64>);

impl Rates {
    fn new(mut rates: Vec<f64>) -> Self {
        rates.sort_by(f64::total_cmp);
        Self(rates)
    }

    pub(crate) fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or_default()
    }

    pub(crate) fn extremes(&self) -> (f64, f64) {
        let [first, last] = [self.0.first(), self.0.last()].map(|end| end.copied().unwrap_or_default());
        (first, last)
    }
}

/// Returns how long an action takes.
pub(crate) fn timed(action: impl FnOnce()) -> Duration {
    let start = now();
    action();
    start.elapsed()
}

/// Does each of some actions `rounds` times, a block of one after a block of the other, first a block that does not count.
pub(crate) fn in_turns(rounds: usize, actions: &mut [Box<dyn FnMut() + '_>]) -> Vec<Times> {
    in_turns_after(0, rounds, actions)
}

/// The same, after this many times that do not count.
pub(crate) fn in_turns_after(first: usize, rounds: usize, actions: &mut [Box<dyn FnMut() + '_>]) -> Vec<Times> {
    let mut times = vec![Vec::new(); actions.len()];
    for action in actions.iter_mut() {
        (0..first).for_each(|_| action());
    }
    for block in 0..=rounds.div_ceil(BLOCK) {
        for (action, times) in actions.iter_mut().zip(&mut times) {
            let block_times = (0..BLOCK).map(|_| timed(&mut *action));
            if block == 0 {
                block_times.for_each(drop);
            } else {
                times.extend(block_times);
            }
        }
    }
    times.into_iter().map(Times::new).collect()
}

/// Does each of some actions up to `times` times: in each round every action has a short turn, and the first round does not
/// count. A slow action is done less often, so that all turns end in time.
pub(crate) fn in_rounds(times: usize, actions: &mut [Box<dyn FnMut() + '_>]) -> Vec<Times> {
    let mut all = vec![Vec::new(); actions.len()];
    for round in 0..=ROUNDS {
        for (action, of_action) in actions.iter_mut().zip(&mut all) {
            let of_turn = turn(times.div_ceil(ROUNDS), &mut *action);
            if round > 0 {
                of_action.extend(of_turn);
            }
        }
    }
    all.into_iter().map(Times::new).collect()
}

/// Does an action once, and then up to `most` times as long as its turn lasts.
fn turn(most: usize, mut action: impl FnMut()) -> Vec<Duration> {
    let start = now();
    let mut times = vec![timed(&mut action)];
    while times.len() < most && start.elapsed() < TURN {
        times.push(timed(&mut action));
    }
    times
}

/// Does an action ten times a second. Each is timed from the moment when it was due, so that a delay by the previous
/// one counts.
pub(crate) fn paced(rounds: usize, mut action: impl FnMut()) -> Times {
    let mut due = now();
    let times = (0..rounds).map(|_| {
        due += PACE;
        wait_for(due);
        action();
        due.elapsed()
    });
    Times::new(times.collect())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pace is time, there is nothing else to wait for"
)]
fn wait_for(due: std::time::Instant) {
    std::thread::sleep(due.saturating_duration_since(now()));
}

/// Lets eight callers do an action about `rounds` times two, each the next as soon as the last is done.
pub(crate) fn run<S>(rounds: usize, prepare: impl Fn() -> S + Sync, action: impl Fn(&mut S) + Sync) -> Load {
    run_at((CALLERS, 0), rounds * 2, prepare, action)
}

/// The same, after each has done it this many times, which do not count.
pub(crate) fn run_after<S>(
    first: usize,
    rounds: usize,
    prepare: impl Fn() -> S + Sync,
    action: impl Fn(&mut S) + Sync,
) -> Load {
    run_at((CALLERS, first), rounds * 2, prepare, action)
}

/// Lets some callers do an action about `times` times together, in short rounds, each the next as soon as the last is done.
/// In each round every caller does it `first` times before, which do not count.
pub(crate) fn run_at<S>(
    (callers, first): (usize, usize),
    times: usize,
    prepare: impl Fn() -> S + Sync,
    action: impl Fn(&mut S) + Sync,
) -> Load {
    let per_caller = (times / callers / ROUNDS).max(1);
    let rounds: Vec<_> = (0..ROUNDS)
        .map(|_| round(callers, (first, per_caller), &prepare, &action))
        .collect();
    let (times, rates): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
    Load {
        times: Times::new(times.concat()),
        rates: Rates::new(rates),
        calls: ROUNDS * callers * (first + per_caller),
    }
}

/// Returns the time of each call, and the calls a second.
fn round<S>(
    callers: usize,
    (first, per_caller): (usize, usize),
    prepare: impl Fn() -> S + Sync,
    action: impl Fn(&mut S) + Sync,
) -> (Vec<Duration>, f64) {
    let ready = Barrier::new(callers + 1);
    let (times, elapsed) = std::thread::scope(|scope| {
        let caller = || {
            let mut state = prepare();
            (0..first).for_each(|_| action(&mut state));
            ready.wait();
            (0..per_caller)
                .map(|_| timed(|| action(&mut state)))
                .collect::<Vec<_>>()
        };
        let callers: Vec<_> = (0..callers).map(|_| scope.spawn(caller)).collect();
        ready.wait();
        let start = now();
        let times = callers
            .into_iter()
            .map(|caller| caller.join().expect("a caller does not panic"));
        let times: Vec<_> = times.flatten().collect();
        (times, start.elapsed())
    });
    let count = u32::try_from(times.len()).unwrap_or(u32::MAX);
    (times, f64::from(count) / elapsed.as_secs_f64())
}
