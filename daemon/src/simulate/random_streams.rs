//! The random numbers of a simulation. One seed decides all of them. Each part has a stream of its own, so that a simulation from
//! which something was left out goes on as before in all other parts.

use fastrand::Rng;

/// The streams of random numbers.
#[derive(Debug)]
pub(super) struct RandomStreams {
    /// What happens next.
    pub(super) order: Rng,
    /// The verdicts of the disk.
    pub(super) disk: Rng,
    /// What workers do.
    pub(super) workers: Rng,
    /// The random numbers of fnd itself.
    pub(super) daemon: Rng,
    /// What the catalog of files does first.
    pub(super) files: Rng,
}

/// A stream of random numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum RandomStream {
    Order,
    Disk,
    Workers,
    Files,
    /// What the plan asks for in general, and what people and faults do.
    Plan,
    People,
    Faults,
    /// The random numbers of fnd itself.
    Daemon,
}

impl RandomStream {
    /// Returns the numbers of this stream.
    pub(super) fn of(self, seed: u64) -> Rng {
        // Seeds are small numbers, and neighbours. The factor (of splitmix64) spreads them over all bits, so that no two streams
        // of two seeds are the same.
        let spread = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Rng::with_seed(spread ^ self as u64)
    }
}

impl RandomStreams {
    pub(super) fn of(seed: u64) -> Self {
        Self {
            order: RandomStream::Order.of(seed),
            disk: RandomStream::Disk.of(seed),
            workers: RandomStream::Workers.of(seed),
            daemon: RandomStream::Daemon.of(seed),
            files: RandomStream::Files.of(seed),
        }
    }
}
