//! The actions of the storm, and their choice. An action is chosen completely before it is performed, so that a seed
//! repeats the same choices.

use crate::crash::functions::FUNCTIONS;
use fastrand::Rng;
use std::time::Duration;

/// Kinds of actions, which `STORM` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Edits,
    Moves,
    Away,
    Reloads,
    Enables,
    Cancels,
    Callers,
    Clock,
    Descriptors,
    Inodes,
    Disk,
    Stops,
    Kills,
    Backups,
}

pub(super) const KINDS: [Kind; 14] = [
    Kind::Edits,
    Kind::Moves,
    Kind::Away,
    Kind::Reloads,
    Kind::Enables,
    Kind::Cancels,
    Kind::Callers,
    Kind::Clock,
    Kind::Descriptors,
    Kind::Inodes,
    Kind::Disk,
    Kind::Stops,
    Kind::Kills,
    Kind::Backups,
];

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Edits => "edits",
            Self::Moves => "moves",
            Self::Away => "away",
            Self::Reloads => "reloads",
            Self::Enables => "enables",
            Self::Cancels => "cancels",
            Self::Callers => "callers",
            Self::Clock => "clock",
            Self::Descriptors => "descriptors",
            Self::Inodes => "inodes",
            Self::Disk => "disk",
            Self::Stops => "stops",
            Self::Kills => "kills",
            Self::Backups => "backups",
        }
    }
}

/// The processes that an action concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    Fnd,
    Spawner,
    Both,
}

/// The ways to write a function's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// Written beside it, then renamed.
    Renamed,
    /// Overwritten, in two halves.
    InPlace,
    /// Written with a manifest that is refused, and corrected after a while.
    Broken,
}

/// Changes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// Deleted, and written again after a while.
    Deleted,
    /// Renamed for a while.
    Renamed,
}

/// The ways in which the functions directory is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absence {
    /// It does not exist.
    Renamed,
    /// An empty file system is mounted over it.
    Mounted,
}

/// How fnd ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Killed(Whom),
    /// SIGTERM, then the next fnd is started.
    Planned,
}

/// An action with all of its random values.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Edit(&'static str, Edit, Duration),
    Move(Move, Duration),
    Away(Absence, Duration),
    Reload(u32),
    Disable(Duration),
    Cancel(u32),
    /// How many callers break off, and how.
    Callers(u32, u32, Duration),
    /// Sets the clock to this many milliseconds from the machine's time.
    Clock(i64, Duration),
    /// Allows this many more than the process has.
    Descriptors(Whom, u64, Duration),
    Inodes(Duration),
    Disk(Duration),
    Stop(Whom, Duration),
    End(End, Duration),
    Backup,
}

const HOUR_MS: i64 = 3_600_000;
/// Steps of the clock: to the day before and after, and to the time that a machine with a broken battery has.
const STEPS: [i64; 7] = [0, 0, 1_500, -HOUR_MS, 20 * HOUR_MS, -20 * HOUR_MS, 40 * 24 * HOUR_MS];

impl Action {
    /// Chooses an action of a kind.
    pub(super) fn choose(kind: Kind, rng: &mut Rng) -> Self {
        let mut millis = |from: u64, to: u64| Duration::from_millis(rng.u64(from..to));
        let (moment, while_) = (millis(0, 300), millis(100, 2_500));
        let whom = [Whom::Fnd, Whom::Spawner, Whom::Both][rng.usize(..3)];
        match kind {
            Kind::Edits => {
                let edit = [Edit::Renamed, Edit::InPlace, Edit::Broken][rng.usize(..3)];
                Self::Edit(FUNCTIONS[rng.usize(..FUNCTIONS.len())].name, edit, moment)
            }
            Kind::Moves => Self::Move(if rng.bool() { Move::Deleted } else { Move::Renamed }, while_),
            Kind::Away => Self::Away(if rng.bool() { Absence::Renamed } else { Absence::Mounted }, while_),
            Kind::Reloads => Self::Reload(rng.u32(1..4)),
            Kind::Enables => Self::Disable(moment),
            Kind::Cancels => Self::Cancel(rng.u32(1..20)),
            Kind::Callers => Self::Callers(rng.u32(1..60), rng.u32(..), moment),
            Kind::Clock => Self::Clock(STEPS[rng.usize(..STEPS.len())], while_),
            Kind::Descriptors => Self::Descriptors(whom, rng.u64(0..12), while_),
            Kind::Inodes => Self::Inodes(while_),
            Kind::Disk => Self::Disk(while_),
            Kind::Stops => Self::Stop(whom, while_),
            Kind::Kills => {
                let end = if rng.u32(..4) == 0 {
                    End::Planned
                } else {
                    End::Killed(whom)
                };
                Self::End(end, moment)
            }
            Kind::Backups => Self::Backup,
        }
    }
}
