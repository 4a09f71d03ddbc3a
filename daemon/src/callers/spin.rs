//! Keeps the main thread awake for a moment while one caller waits (`[node] spin`).
//!
//! After a call was sent to its worker, and after an answer, the next message usually comes within some 50 us. A CPU that
//! was halted meanwhile needs 15-20 us to wake. So the main thread looks for messages without sleeping, for as long as
//! `spin` says.
//!
//! ```text
//! asleep ─▶ looking (a call is sent, a caller is answered) ─▶ the next message: looking again
//!    ▲          │
//!    └──────────┴─ nothing came within `spin`
//! ```
//!
//! It never looks while several callers wait: then messages come anyway, and workers need the CPUs. The time without a
//! success is bounded: see [`Search`].

use crate::clock::monotonic;
use std::cell::RefCell;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::yield_now;

/// Most callers that wait while the main thread looks.
const CALLERS_MAX: usize = 1;

/// Without any success, the main thread looks for one hundredth of the time, after calls and after answers each.
const PART_IN_VAIN: u32 = 100;

/// Searches in a row that may find nothing after a time of success.
const IN_A_ROW: u32 = 20;

/// The message that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpinStep {
    /// A call was sent: the worker's answer.
    Answer,
    /// A caller was answered: its next request.
    Request,
}

/// The search of the main thread for the next message.
#[derive(Debug)]
pub(crate) struct Spin {
    search: RefCell<Search>,
    begins: Notify,
}

impl Spin {
    pub(crate) fn new() -> Self {
        Self {
            search: RefCell::new(Search::new(monotonic())),
            begins: Notify::new(),
        }
    }

    /// Sets for how long the main thread looks; zero: never.
    pub(crate) fn set_limit(&self, limit: Duration) {
        self.search.borrow_mut().set_limit(limit);
    }

    /// A call was sent to its worker, or a caller was answered. `callers` is the number of those that wait now.
    pub(crate) fn message_follows(&self, next: SpinStep, callers: usize) {
        let mut search = self.search.borrow_mut();
        if search.limit.is_zero() {
            return;
        }
        // The search before has found its message, however many callers wait. Their number only decides about the next
        // search.
        search.message_follows(monotonic(), next, callers <= CALLERS_MAX);
        // A permit that the task does not need costs one turn of it.
        if search.since.is_some() {
            self.begins.notify_one();
        }
    }

    /// Looks whenever a message follows.
    pub(crate) async fn run(&self) {
        loop {
            self.begins.notified().await;
            while self.search.borrow_mut().goes_on(monotonic()) {
                // The runtime looks for events without waiting, and runs every task that has one, before this one.
                yield_now().await;
            }
        }
    }
}

/// When to look, by the searches before.
///
/// Each search that finds nothing is paid from a credit. The credit grows by the time of the searches that found
/// something, and by a hundredth of all time, up to the price of [`IN_A_ROW`] searches. Answers and requests have credits
/// of their own: a worker may be quick and its caller slow. So where no message ever comes in time, the searches take
/// two percent of a CPU.
#[derive(Debug)]
struct Search {
    limit: Duration,
    /// When the present search began, and for what.
    since: Option<(Instant, SpinStep)>,
    answers: Credit,
    requests: Credit,
}

#[derive(Debug)]
struct Credit {
    time: Duration,
    /// The time up to which it has grown.
    grown: Instant,
}

impl Credit {
    fn grow(&mut self, now: Instant, limit: Duration) {
        let more = now.saturating_duration_since(self.grown) / PART_IN_VAIN;
        self.grown = now;
        self.add(more, limit);
    }

    fn add(&mut self, more: Duration, limit: Duration) {
        self.time = self.time.saturating_add(more).min(limit * IN_A_ROW);
    }
}

impl Search {
    fn new(now: Instant) -> Self {
        let credit = || Credit {
            time: Duration::ZERO,
            grown: now,
        };
        Self {
            limit: Duration::ZERO,
            since: None,
            answers: credit(),
            requests: credit(),
        }
    }

    fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
        self.since = None;
        // A new limit begins with full credit, so that it takes effect at once.
        self.answers.time = limit * IN_A_ROW;
        self.requests.time = limit * IN_A_ROW;
    }

    fn credit(&mut self, next: SpinStep) -> &mut Credit {
        match next {
            SpinStep::Answer => &mut self.answers,
            SpinStep::Request => &mut self.requests,
        }
    }

    /// Ends the present search with success, and begins another one where that `may` be.
    fn message_follows(&mut self, now: Instant, next: SpinStep, may: bool) {
        let limit = self.limit;
        if let Some((since, found)) = self.since.take() {
            self.credit(found).add(now.saturating_duration_since(since), limit);
        }
        let credit = self.credit(next);
        credit.grow(now, limit);
        // A search begins only if its price can be paid in case it finds nothing.
        if may && credit.time >= limit {
            self.since = Some((now, next));
        }
    }

    /// Returns whether the search goes on.
    fn goes_on(&mut self, now: Instant) -> bool {
        let Some((since, next)) = self.since else { return false };
        if now.saturating_duration_since(since) < self.limit {
            return true;
        }
        self.since = None;
        let limit = self.limit;
        let credit = self.credit(next);
        credit.time = credit.time.saturating_sub(limit);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);

    fn search() -> (Search, Instant) {
        let now = monotonic();
        let mut search = Search::new(now);
        search.set_limit(LIMIT);
        (search, now)
    }

    /// Returns for how many microseconds of `messages`, which come in this interval, it looks in vain.
    fn in_vain(interval: Duration, messages: u32) -> u128 {
        let (mut search, mut now) = search();
        let mut vain = Duration::ZERO;
        for _ in 0..messages {
            search.message_follows(now, SpinStep::Request, true);
            if search.since.is_some() && interval >= LIMIT {
                assert!(!search.goes_on(now + LIMIT));
                vain += LIMIT;
            }
            now += interval;
        }
        vain.as_micros()
    }

    #[test]
    fn it_looks_until_the_next_message_or_the_limit() {
        let (mut search, now) = search();
        assert!(!search.goes_on(now), "no message follows");
        search.message_follows(now, SpinStep::Request, true);
        assert!(search.goes_on(now + LIMIT - Duration::from_micros(1)));
        search.message_follows(now + LIMIT, SpinStep::Request, true);
        assert!(search.goes_on(now + LIMIT), "the limit counts from the last message");
        assert!(!search.goes_on(now + 2 * LIMIT));
        assert!(!search.goes_on(now + 2 * LIMIT));
    }

    #[test]
    fn it_does_not_look_while_several_callers_wait() {
        let (mut search, now) = search();
        search.message_follows(now, SpinStep::Request, true);
        search.message_follows(now, SpinStep::Request, false);
        assert!(!search.goes_on(now));
    }

    #[test]
    fn messages_in_time_are_always_looked_for() {
        let (mut search, mut now) = search();
        for _ in 0..10_000 {
            search.message_follows(now, SpinStep::Request, true);
            now += LIMIT / 2;
            assert!(search.goes_on(now));
        }
    }

    #[test]
    fn without_success_it_looks_for_a_hundredth_of_the_time() {
        // The credit of the beginning is 1 ms.
        assert_eq!(in_vain(Duration::from_millis(1), 1000), 1_000 + 10_000 - 50);
        assert_eq!(in_vain(Duration::from_millis(5), 1000), 1000 * 50);
    }

    #[test]
    fn a_slow_caller_does_not_end_the_search_for_answers() {
        let (mut search, mut now) = search();
        let (mut found, mut vain) = (0, 0);
        for _ in 0..10_000 {
            for (next, time) in [(SpinStep::Answer, LIMIT / 2), (SpinStep::Request, 4 * LIMIT)] {
                search.message_follows(now, next, true);
                let looks = search.since.is_some();
                now += time;
                match (looks, search.goes_on(now)) {
                    (true, true) => found += 1,
                    (true, false) => vain += 1,
                    (false, _) => {}
                }
            }
        }
        assert_eq!(found, 10_000, "each answer is looked for");
        // 1 ms at the beginning, and a hundredth of 2.25 s.
        assert!((450..=470).contains(&vain), "{vain}");
    }

    #[test]
    fn without_a_limit_it_never_looks() {
        let (mut search, now) = search();
        search.message_follows(now, SpinStep::Request, true);
        search.set_limit(Duration::ZERO);
        assert!(!search.goes_on(now));
    }
}
