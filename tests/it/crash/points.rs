//! The moments at which fnd is killed: at named system calls, at random, and during a planned stop.

use super::functions::FUNCTIONS;
use fastrand::Rng;
use fnd_tests::Fnd;
use fnd_tests::tamper::{Fate, Tampering};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A named failpoint: fnd is killed when it makes one of these calls, before the call has any effect.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) name: &'static str,
    calls: &'static str,
    /// The file below the private root; empty: every file. `*` stands for each function.
    file: Option<&'static str>,
    /// The highest number of the call of a thread that is chosen: from the first call of a start to calls under load.
    up_to: u32,
}

const fn point(name: &'static str, calls: &'static str, file: Option<&'static str>, up_to: u32) -> Point {
    Point {
        name,
        calls,
        file,
        up_to,
    }
}

const WAL: Option<&str> = Some("state/state/ledger.db-wal");
const DB: Option<&str> = Some("state/state/ledger.db");
const IN_FLIGHT: Option<&str> = Some("run/ledger/in-flight");
const STATUS: Option<&str> = Some("run/status/.new.json");
const LOGS: Option<&str> = Some("state/logs/*/00000000.log");

/// Every call with an effect outside of fnd: on the disk, the spawner, a worker or a caller.
pub(super) const POINTS: [Point; 19] = [
    point("ledger-wal-write", "pwrite64", WAL, 150),
    point("ledger-wal-sync", "fsync,fdatasync", WAL, 15),
    point("ledger-open", "openat", WAL, 2),
    point("ledger-checkpoint-write", "pwrite64", DB, 12),
    point("ledger-checkpoint-sync", "fsync,fdatasync", DB, 1),
    point("in-flight-write", "pwrite64", IN_FLIGHT, 30),
    point("in-flight-truncate", "ftruncate", IN_FLIGHT, 1),
    point("spool-splice", "splice", None, 12),
    point("spool-remove", "unlink", None, 6),
    point("log-open", "openat", LOGS, 6),
    point("log-write", "write", LOGS, 8),
    point("status-write", "write", STATUS, 10),
    point("status-rename", "renameat", None, 10),
    point("spawner-ask", "sendmsg", None, 25),
    point("spawner-hear", "recvmsg", None, 50),
    point("worker-call", "sendto", None, 10),
    point("worker-answer", "recvfrom", None, 40),
    point("caller-accept", "accept4", None, 20),
    point("caller-answer", "writev", None, 15),
];

/// How an fnd ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kill {
    /// At a named point, at the first such call after this many.
    Point(&'static Point, u32),
    /// This long after its start, while it is still starting.
    Starting(Duration),
    /// This long after its first answer.
    Moment(Duration),
    /// Stopped this long after its first answer, and killed this long after that, unless it has ended.
    Planned(Duration, Option<Duration>),
    /// The spawner is killed this long after fnd's first answer; fnd then ends by itself.
    Spawner(Duration),
    /// Both are killed at once.
    Both(Duration),
}

impl Kill {
    /// Chooses the next end; the spawner is killed only if the caller allows it.
    pub(super) fn choose(rng: &mut Rng, spawner: bool) -> Self {
        let mut within = |limit: u64| Duration::from_micros(rng.u64(..limit * 1000));
        let (start, moment, cut) = (within(200), within(250), within(12));
        match rng.u32(..if spawner { 26 } else { 20 }) {
            20..23 => Self::Spawner(moment),
            23.. => Self::Both(moment),
            0..10 => {
                let point = &POINTS[rng.usize(..POINTS.len())];
                Self::Point(point, rng.u32(1..=point.up_to))
            }
            10..12 => Self::Starting(start),
            12..17 => Self::Moment(moment),
            17 => Self::Planned(moment, None),
            _ => Self::Planned(moment, Some(cut)),
        }
    }

    /// Returns the command line that starts an fnd which is killed in this way.
    pub(super) fn words(&self, fnd: &Fnd) -> Vec<String> {
        let Self::Point(point, from) = self else {
            return Vec::new();
        };
        let below = |file: &str| fnd.path(file);
        let paths: Vec<PathBuf> = match point.file {
            None => Vec::new(),
            Some(file) if file.contains('*') => FUNCTIONS.map(|f| below(&file.replace('*', f.name))).into(),
            Some(file) => vec![below(file)],
        };
        let tampering = Tampering {
            calls: point.calls.to_owned(),
            paths,
            fate: Fate::Kill,
            from: *from,
        };
        tampering.words()
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Point(point, from) => write!(f, "{} {from}", point.name),
            Self::Starting(after) => write!(f, "starting {after:?}"),
            Self::Moment(after) => write!(f, "moment {after:?}"),
            Self::Planned(after, None) => write!(f, "planned {after:?}"),
            Self::Spawner(after) => write!(f, "the spawner {after:?}"),
            Self::Both(after) => write!(f, "both {after:?}"),
            Self::Planned(after, Some(cut)) => write!(f, "planned {after:?}, cut after {cut:?}"),
        }
    }
}

impl Kill {
    /// Returns the name for the count of such kills.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Point(point, _) => point.name,
            Self::Starting(_) => "starting",
            Self::Moment(_) => "moment",
            Self::Planned(_, None) => "planned",
            Self::Planned(_, Some(_)) => "planned, cut",
            Self::Spawner(_) => "spawner",
            Self::Both(_) => "both",
        }
    }
}
