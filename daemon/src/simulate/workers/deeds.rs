//! The deeds of a process: single acts, each with its time.

use super::{Temper, WorkerTurn};
use fastrand::Rng;
use fnd_wire::frame::ExitStatus;
use std::collections::BTreeMap;
use std::time::Duration;

/// Something that a process does. Lines are whole: they end with a line feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    Print(String),
    PrintError(String),
    WriteResult(Vec<u8>),
    /// Bytes to fnd, and the call whose answer ends with them.
    Send(Vec<u8>, Option<u64>),
    /// The worker closes its half of the socket, and goes on.
    CloseWriting,
    Exit(ExitStatus),
    /// The kernel kills it.
    RunOutOfMemory,
}

/// The deeds of a process in the order of their times. Deeds of one time come in the order in which they were planned.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    planned: BTreeMap<(Duration, i64), Deed>,
    count: i64,
}

impl Deeds {
    pub(super) fn plan(&mut self, at: Duration, deed: Deed) {
        self.count += 1;
        self.planned.insert((at, self.count), deed);
    }

    /// Plans a deed before all others.
    pub(super) fn plan_first(&mut self, deed: Deed) {
        self.count += 1;
        self.planned.insert((Duration::ZERO, -self.count), deed);
    }

    /// Takes the next deed whose time has come.
    pub(super) fn take(&mut self, now: Duration) -> Option<Deed> {
        let first = self.planned.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    pub(super) fn wakes_at(&self) -> Option<Duration> {
        self.planned.first_key_value().map(|((at, _), _)| *at)
    }

    /// Forgets everything that was planned.
    pub(super) fn clear(&mut self) {
        self.planned.clear();
    }
}

/// Draws how long something takes.
pub(super) fn takes(random: &mut Rng, temper: Temper) -> Duration {
    let ms = match random.u8(0..100) {
        60.. if temper.lasts => random.u64(3_000..25_000),
        // In the same instant as other things.
        0..10 => 0,
        10..70 => random.u64(1..50),
        70..95 => random.u64(50..2000),
        _ if temper.slow => random.u64(2000..120_000),
        _ => random.u64(2000..4000),
    };
    Duration::from_millis(ms)
}

/// A process gets SIGTERM: it ends soon, as it likes, or does as if nothing had happened.
pub(super) fn term(deeds: &mut Deeds, turn: &mut WorkerTurn<'_>) {
    if (turn.temper.slow && turn.random.u8(0..4) == 0) || (turn.temper.lasts && turn.random.bool()) {
        return;
    }
    deeds.clear();
    let status = match turn.random.u8(0..6) {
        0 => ExitStatus::Code(0),
        1 => ExitStatus::Code(143),
        _ => ExitStatus::Signal(15),
    };
    let at = turn.now + Duration::from_millis(turn.random.u64(0..200));
    deeds.plan(at, Deed::Exit(status));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeds_come_in_the_order_of_their_times_and_not_before() {
        let mut deeds = Deeds::default();
        let second = Duration::from_secs(1);
        let line = |text: &str| Deed::Print(text.to_owned());
        deeds.plan(2 * second, line("c"));
        deeds.plan(second, line("a"));
        deeds.plan(second, line("b"));
        assert_eq!((deeds.wakes_at(), deeds.take(Duration::ZERO)), (Some(second), None));
        assert_eq!(deeds.take(second), Some(line("a")));
        deeds.plan_first(line("first"));
        assert_eq!(deeds.take(3 * second), Some(line("first")));
        assert_eq!(
            [(); 2].map(|()| deeds.take(3 * second)),
            [Some(line("b")), Some(line("c"))]
        );
        assert_eq!(deeds.wakes_at(), None);
    }
}
