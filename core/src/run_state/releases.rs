//! Releases of a function: the one that serves, the one on trial, and a canary with its share of the calls; and what they take of the
//! budget of the node.

use super::invocation::WallTime;
use crate::messages::event::InstalledVersion;
use crate::messages::rules::{FunctionKind, Rules};
use fnd_wire::ids::{FunctionId, InvocationId, Version, WorkerId};
use std::sync::Arc;

/// A version that serves.
#[derive(Debug)]
pub(crate) struct ServingRelease {
    pub(crate) id: FunctionId,
    pub(crate) version: Version,
    pub(crate) load_key: Version,
    /// The id for the run by itself. That run may come later, when the function is enabled.
    pub(crate) load_id: InvocationId,
    pub(crate) rules: Arc<Rules>,
}

impl ServingRelease {
    pub(crate) fn of(installed: InstalledVersion) -> Self {
        Self {
            id: installed.id,
            version: installed.version,
            load_key: installed.load_key,
            load_id: installed.load_id,
            rules: installed.rules,
        }
    }

    /// Returns the group in which its attempts count.
    pub(crate) fn group(&self) -> Option<&str> {
        self.rules.queue.group.as_deref()
    }
}

/// A version that is tried before it serves.
#[derive(Debug)]
pub(crate) struct SpareCandidate {
    pub(crate) serving: Arc<ServingRelease>,
    pub(crate) worker: Option<WorkerId>,
    /// Whether a trial starts as soon as there is room.
    pub(crate) wanted: bool,
    /// Why the last trial failed.
    pub(crate) error: Option<Box<str>>,
    /// Failed trials since the version came or somebody asked for a new one.
    pub(crate) failures: u32,
    /// The share of the calls that it is to get; absent: it is to serve.
    pub(crate) canary: Option<u32>,
    /// A canary that came while the version that serves was being renewed; it is tried afterwards.
    pub(crate) behind: Option<(Arc<ServingRelease>, u32)>,
    /// When the next trial starts: the cause (a missing package, a file that is not there yet) may be gone by then.
    pub(crate) again: Option<WallTime>,
}

impl SpareCandidate {
    /// Returns a candidate that is tried as soon as there is room.
    pub(crate) fn new(serving: Arc<ServingRelease>, canary: Option<u32>) -> Self {
        Self {
            serving,
            worker: None,
            wanted: true,
            error: None,
            failures: 0,
            canary,
            behind: None,
            again: None,
        }
    }
}

/// A call, in the hundredths in which shares are counted.
pub(crate) const CALL: u32 = 100;

/// Most calls that a canary is owed: after a pause it gets no burst.
const OWED_MAX: u32 = 2 * CALL;

/// A release that gets a share of the calls.
#[derive(Debug)]
pub(crate) struct Canary {
    pub(crate) serving: Arc<ServingRelease>,
    /// Its share of the calls, 1 to 100.
    pub(crate) percent: u32,
    /// Its claim to calls, in hundredths of a call.
    pub(crate) owed: u32,
    /// Its workers that can take a call now; the one used last is at the end.
    pub(crate) free: Vec<WorkerId>,
    /// Whether it had no worker for a call of its own since its last worker was started.
    pub(crate) lacks_worker: bool,
    /// Its attempts that have ended, and those of them that failed, since it began here.
    pub(crate) attempts: u64,
    pub(crate) failures: u64,
}

impl Canary {
    pub(crate) fn new(serving: Arc<ServingRelease>, percent: u32) -> Self {
        Self {
            serving,
            percent,
            owed: 0,
            free: Vec::new(),
            lacks_worker: false,
            attempts: 0,
            failures: 0,
        }
    }

    /// Gives it another share of the calls.
    pub(crate) fn set_share(&mut self, percent: u32) {
        if percent != self.percent {
            self.percent = percent;
            // The calls that it is owed are of the old share: a person who lowers the share wants no more of them.
            self.owed = 0;
        }
    }

    /// Says whether the next call is for it.
    pub(crate) fn is_due(&self) -> bool {
        self.owed + self.percent >= CALL
    }

    /// Counts a call that begins, and whether it is the canary's own.
    pub(crate) fn begins(&mut self, own: bool) {
        // `is_due` is asked before `owed` grows: it is about the call that begins now.
        self.lacks_worker |= !own && self.is_due();
        #[cfg(feature = "simulate")]
        if own && crate::mutants::Mutant::CanaryTwice.is_on() {
            self.owed = (self.owed + self.percent).min(OWED_MAX);
        }
        self.owed = (self.owed + self.percent).min(OWED_MAX);
        if own {
            self.owed = self.owed.saturating_sub(CALL);
        }
    }
}

/// Says whether calls can be shared between two versions of a function. A service has no calls, and of workers that need one
/// port there is only one. If the mode changes, no worker of one version can stand in for one of the other.
pub(crate) fn shares_calls(old: &Rules, new: &Rules) -> bool {
    let kinds = (&old.kind, &new.kind);
    let same = match (old.kind.pool(), new.kind.pool()) {
        (Some(old), Some(new)) => !old.alone && !new.alone,
        (None, None) => matches!(kinds, (FunctionKind::Script, FunctionKind::Script)),
        _ => false,
    };
    same && new.enabled
}

/// Memory and CPU that a function takes of the node's budget, for all its workers together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) memory: u64,
    pub(crate) cpu_milli: u64,
}

impl Charge {
    pub(crate) fn of(rules: &Rules) -> Self {
        Self {
            memory: rules.memory,
            // Without a quota the function has only a weight on the CPU that others leave, which cannot be counted.
            cpu_milli: rules.cpu_milli.map_or(0, u64::from),
        }
    }

    pub(crate) fn both(self, with: impl Fn(u64, u64) -> u64, other: Self) -> Self {
        Self {
            memory: with(self.memory, other.memory),
            cpu_milli: with(self.cpu_milli, other.cpu_milli),
        }
    }
}
