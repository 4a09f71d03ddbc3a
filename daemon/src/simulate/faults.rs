//! The faults of a simulation: of programs, of the machine, of the disk and of the clocks, each with its time. Faults of workers
//! have no time: workers may have those of [`FaultKinds::temper`] at any moment.

use super::workers::Temper;
use fastrand::Rng;
use std::fmt;

/// A kind of faults, which shortening leaves out as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Kills,
    PowerCuts,
    Disk,
    Clock,
    /// The spawner is silent, or the node cannot start processes.
    Spawner,
    /// A spawner of the release before.
    Protocol,
    SlowWorkers,
    DyingWorkers,
    /// Workers that break the worker protocol.
    LyingWorkers,
    /// Workers that run for longer than a lease, and ignore SIGTERM. Only scenes of a cluster have them.
    LastingWorkers,
}

/// The kinds that a simulation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FaultKinds(u16);

impl FaultKinds {
    /// The kinds that every simulation may draw.
    pub(crate) const ALL: [FaultKind; 9] = [
        FaultKind::Kills,
        FaultKind::PowerCuts,
        FaultKind::Disk,
        FaultKind::Clock,
        FaultKind::Spawner,
        FaultKind::Protocol,
        FaultKind::SlowWorkers,
        FaultKind::DyingWorkers,
        FaultKind::LyingWorkers,
    ];
    pub(crate) const NONE: Self = Self(0);

    /// Draws kinds: a fault is found sooner where few others happen, and some need two of them.
    pub(crate) fn any(random: &mut Rng) -> Self {
        let mut kinds = Self::NONE;
        let chance = random.u8(1..=7);
        for kind in Self::ALL {
            if random.u8(0..8) < chance {
                kinds.0 |= Self::bit(kind);
            }
        }
        kinds
    }

    /// Returns these kinds and another one.
    pub(crate) fn with(self, kind: FaultKind) -> Self {
        Self(self.0 | Self::bit(kind))
    }

    pub(crate) fn has(self, kind: FaultKind) -> bool {
        self.0 & Self::bit(kind) != 0
    }

    /// Returns the faults that workers may have.
    pub(crate) fn temper(self) -> Temper {
        Temper {
            slow: self.has(FaultKind::SlowWorkers),
            dies: self.has(FaultKind::DyingWorkers),
            lies: self.has(FaultKind::LyingWorkers),
            lasts: self.has(FaultKind::LastingWorkers),
        }
    }

    fn bit(kind: FaultKind) -> u16 {
        1 << kind as u16
    }
}

/// A fault of a moment. Durations are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// fnd is killed after so many more things have left it.
    KillFnd(u32),
    /// The spawner is killed, and with it everything that it has started.
    KillSpawner,
    /// The spawner is asked to stop: it ends everything that it has started, and the next one tells of those ends.
    StopSpawner,
    /// Both are killed, fnd after so many things.
    KillBoth(u32),
    PowerCut,
    /// fnd is asked to stop, and starts again.
    StopInOrder,
    /// The wall clock is set.
    ClockStep(i64),
    /// The machine sleeps: only the wall clock goes on.
    Suspend(u64),
    /// The disk has no room for so long.
    DiskFull(u64),
    /// The spawner answers nothing for so long.
    SpawnerSilent(u64),
    /// The node cannot start the next so many processes.
    CannotStart(u32),
    /// The next spawner is of this release.
    Upgrade,
    /// The next spawner is of the release before.
    Downgrade,
}

/// Most things that leave fnd before its end, counted from the moment at which that is decided.
const FUSE_MAX: u32 = 12;

impl Fault {
    /// Draws a fault of a kind. Faults of workers have none.
    fn of(kind: FaultKind, random: &mut Rng) -> Option<Self> {
        let short = |random: &mut Rng| random.u64(1..30_000);
        Some(match kind {
            FaultKind::Kills => match random.u8(0..8) {
                0 => Self::KillSpawner,
                1 => Self::StopSpawner,
                2 => Self::KillBoth(random.u32(0..FUSE_MAX)),
                3 => Self::StopInOrder,
                _ => Self::KillFnd(random.u32(0..FUSE_MAX)),
            },
            FaultKind::PowerCuts => Self::PowerCut,
            FaultKind::Disk => Self::DiskFull(short(random)),
            FaultKind::Clock => match random.u8(0..8) {
                0 => Self::Suspend(random.u64(1..86_400_000)),
                1 => Self::Suspend(short(random)),
                // A step across a weekend; history that is kept for weeks stays.
                2 => Self::ClockStep(random.i64(-259_200_000..259_200_000)),
                3 | 4 => Self::ClockStep(random.i64(-7_200_000..7_200_000)),
                _ => Self::ClockStep(random.i64(-60_000..60_000)),
            },
            FaultKind::Spawner => match random.u8(0..2) {
                0 => Self::SpawnerSilent(short(random)),
                _ => Self::CannotStart(random.u32(1..6)),
            },
            FaultKind::Protocol => match random.u8(0..2) {
                0 => Self::Upgrade,
                _ => Self::Downgrade,
            },
            FaultKind::SlowWorkers | FaultKind::DyingWorkers | FaultKind::LyingWorkers | FaultKind::LastingWorkers => {
                return None;
            }
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillFnd(things) => write!(f, "fnd is killed after {things} more things have left it"),
            Self::KillSpawner => f.write_str("the spawner is killed"),
            Self::StopSpawner => f.write_str("the spawner is asked to stop"),
            Self::KillBoth(things) => write!(f, "fnd and the spawner are killed after {things} more things"),
            Self::PowerCut => f.write_str("the power is cut"),
            Self::StopInOrder => f.write_str("fnd is asked to stop"),
            Self::ClockStep(ms) => write!(f, "the wall clock is set by {ms} ms"),
            Self::Suspend(ms) => write!(f, "the machine sleeps for {ms} ms"),
            Self::DiskFull(ms) => write!(f, "the disk is full for {ms} ms"),
            Self::SpawnerSilent(ms) => write!(f, "the spawner is silent for {ms} ms"),
            Self::CannotStart(count) => write!(f, "the node cannot start {count} processes"),
            Self::Upgrade => f.write_str("the next spawner is of this release"),
            Self::Downgrade => f.write_str("the next spawner is of the release before"),
        }
    }
}

/// Draws the faults of a simulation whose faults stop after so many milliseconds, with their times, earliest first.
pub(crate) fn schedule(random: &mut Rng, kinds: FaultKinds, lasts_ms: u64) -> Vec<(u64, Fault)> {
    let mut faults: Vec<(u64, Fault)> = Vec::new();
    for kind in FaultKinds::ALL.into_iter().filter(|kind| kinds.has(*kind)) {
        for _ in 0..random.u8(1..=3) {
            let at_ms = match faults.last() {
                // Some faults of fnd show only if two faults come in the same moment, or one shortly after another.
                Some((before, _)) if random.u8(0..4) == 0 => (before + random.u64(0..20)).min(lasts_ms),
                _ => random.u64(0..=lasts_ms),
            };
            faults.extend(Fault::of(kind, random).map(|fault| (at_ms, fault)));
        }
    }
    // Stable: two faults of one moment keep their order.
    faults.sort_by_key(|(at_ms, _)| *at_ms);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    impl FaultKinds {
        /// Returns these kinds, except for one.
        fn without(self, kind: FaultKind) -> Self {
            Self(self.0 & !Self::bit(kind))
        }
    }

    impl Fault {
        /// Returns the kind that it belongs to.
        fn kind(self) -> FaultKind {
            match self {
                Self::KillFnd(_) | Self::KillSpawner | Self::StopSpawner | Self::KillBoth(_) | Self::StopInOrder => {
                    FaultKind::Kills
                }
                Self::PowerCut => FaultKind::PowerCuts,
                Self::DiskFull(_) => FaultKind::Disk,
                Self::ClockStep(_) | Self::Suspend(_) => FaultKind::Clock,
                Self::SpawnerSilent(_) | Self::CannotStart(_) => FaultKind::Spawner,
                Self::Upgrade | Self::Downgrade => FaultKind::Protocol,
            }
        }
    }

    #[test]
    fn a_schedule_has_no_fault_of_a_kind_that_is_left_out() {
        for seed in 0..200 {
            let mut random = Rng::with_seed(seed);
            let left_out = FaultKinds::ALL[random.usize(0..FaultKinds::ALL.len())];
            let kinds = FaultKinds::any(&mut random).without(left_out);
            let faults = schedule(&mut random, kinds, 60_000);
            assert!(faults.is_sorted_by_key(|(at_ms, _)| *at_ms) && faults.iter().all(|(at_ms, _)| *at_ms <= 60_000));
            assert!(
                faults
                    .iter()
                    .all(|(_, fault)| kinds.has(fault.kind()) && fault.kind() != left_out)
            );
        }
        assert_eq!(schedule(&mut Rng::with_seed(1), FaultKinds::NONE, 60_000), []);
    }
}
