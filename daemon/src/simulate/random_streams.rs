//! The random numbers of a simulation. One seed decides all of them. Each part has a stream of its own, so that a simulation from
//! which something was left out goes on as before in all other parts.

use fastrand::Rng;

/// The streams of random numbers.
#[derive(Debug)]
pub(super) struct RandomStreams {
    /// The order in which things happen.
    pub(super) order: Rng,
    /// The verdicts of the disk, and the bytes that a power cut leaves.
    pub(super) disk: Rng,
    /// The behaviour of workers.
    pub(super) workers: Rng,
    /// The random numbers of fnd itself.
    pub(super) daemon: Rng,
    /// Whether the catalog of files answers or reports first.
    pub(super) files: Rng,
}

/// A stream of random numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum RandomStream {
    Order,
    Disk,
    Workers,
    Files,
    /// The functions, their contents and the kinds of faults. The acts and the faults of a plan have streams of their own.
    Plan,
    People,
    Faults,
    /// The random numbers of fnd itself.
    Daemon,
    /// The order in which things happen on several machines, and their plan.
    Cluster,
    ClusterPlan,
    /// The server of NATS, and the links to it.
    Server,
    Links,
    /// The scenes of a cluster.
    Scenes,
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
