//! The state of one function: the serving version, its history and its waiting invocations.
//!
//! ```text
//! Absent ──Installed──▶ Serving ──Installed──▶ Serving (waiting invocations run on it; running ones end by themselves)
//!   │ ▲                    │ └──Refused──▶ Serving (with an error)
//!   │ └──────Removed───────┘
//!   └──Refused──▶ Invalid ──Installed──▶ Serving
//! ```
//! An absent function is not shown, unless it still runs. Its counts, the contents that have run and whether a person
//! disabled it outlive its file, both in memory and in the ledger.

use super::admission::NodeShare;
use super::canary::Canary;
use super::changes::LastReported;
use super::counts::{CountedFunction, Counts};
use super::pool::SpareCandidate;
use super::queue::Queue;
use crate::durations::Durations;
use crate::interned::packed;
use crate::messages::FunctionState;
use crate::messages::event::{InstalledVersion, LastAttempt};
use crate::messages::rules::Rules;
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Deref, DerefMut, Index, IndexMut};
use std::sync::Arc;
use std::time::Duration;

/// A function's index in the table; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FunctionKey(usize);

/// A version that serves.
#[derive(Debug)]
pub(super) struct ServingRelease {
    pub(super) id: FunctionId,
    pub(super) version: Version,
    pub(super) load_key: Version,
    /// The id for the run by itself. That run may come later, when the function is enabled.
    pub(super) load_id: InvocationId,
    pub(super) rules: Arc<Rules>,
}

impl ServingRelease {
    pub(super) fn of(installed: InstalledVersion) -> Self {
        Self {
            id: installed.id,
            version: installed.version,
            load_key: installed.load_key,
            load_id: installed.load_id,
            rules: installed.rules,
        }
    }
}

/// Whether a function exists and can run.
#[derive(Debug)]
pub(super) enum Presence {
    /// The function has no file; only its history is known.
    Absent,
    /// The file is there, and its first version waits for its dependencies.
    Building,
    /// The file is there, but no version of it could run.
    Invalid,
    Serving(Arc<ServingRelease>),
}

#[derive(Debug)]
pub(super) struct SupervisedFunction {
    pub(super) name: FunctionName,
    pub(super) presence: Presence,
    /// The function's number at the spawner, once known. Temporary files of a deleted function are released by it.
    pub(super) id: Option<FunctionId>,
    /// Why the newest content does not serve.
    pub(super) error: Option<Box<str>>,
    pub(super) disabled: bool,
    /// Why its home or its cache is over its quota; then no new invocation is accepted.
    pub(super) full: Option<Box<str>>,
    /// Contents that have run as `load`.
    pub(super) loaded: Vec<Version>,
    pub(super) runs: u64,
    pub(super) failures: u64,
    pub(super) last: Option<Box<LastAttempt>>,
    /// The function's invocations that are accepted and not ended.
    pub(super) queue: Queue,
    pub(super) work: LazyWork,
    /// A version that is tried before it serves.
    pub(super) candidate: Option<Box<SpareCandidate>>,
    /// A version that gets a share of the calls.
    pub(super) canary: Option<Box<Canary>>,
    pub(super) start_failures: Option<Box<StartFailures>>,
    /// The state that was last announced.
    pub(super) announced: FunctionState,
    /// Its state as reported last; absent while it is not known.
    pub(super) reported: Option<LastReported>,
    /// Its part in the counts.
    counted: CountedFunction,
    /// Whether it may have changed since then.
    changed: bool,
}

/// The workers of a function and the traces of its runs.
#[derive(Debug)]
pub(super) struct FunctionWork {
    /// Ended invocations whose temporary files are released once the function's `id` is known.
    pub(super) unreleased: Vec<InvocationId>,
    pub(super) durations: Durations,
    /// The function's workers, oldest first.
    pub(super) running: BTreeSet<WorkerId>,
    /// Number of attempts that run in `running`.
    pub(super) busy: usize,
    /// Workers of a handler that can take a call now; the one used last is at the end.
    pub(super) free: Vec<WorkerId>,
    /// When a handler was last called.
    pub(super) last_call: Option<Duration>,
    /// Runs of a service that were requested and not submitted yet.
    pub(super) requested: usize,
    pub(super) share: NodeShare,
    /// Instant at which the rate limit is paid off.
    pub(super) rate_paid: Duration,
}

impl FunctionWork {
    /// The work of a function that has not run.
    const NOTHING: Self = Self {
        unreleased: Vec::new(),
        durations: Durations::new(),
        running: BTreeSet::new(),
        busy: 0,
        free: Vec::new(),
        last_call: None,
        requested: 0,
        share: NodeShare::NOTHING,
        rate_paid: Duration::ZERO,
    };
}

/// [`FunctionWork`] that is allocated when it is first changed: of ten thousand functions, most do not run for a long time.
#[derive(Debug, Default)]
pub(super) struct LazyWork(Option<Box<FunctionWork>>);

impl LazyWork {
    /// Returns the ended invocations whose temporary files can be released now.
    pub(super) fn take_unreleased(&mut self) -> Vec<InvocationId> {
        // Access through `DerefMut` would allocate the work of each function that is installed.
        let work = self.0.as_mut();
        work.map(|work| std::mem::take(&mut work.unreleased))
            .unwrap_or_default()
    }

    /// Forgets how long its runs took and how many there were lately.
    fn forget_runs(&mut self) {
        // Access through `DerefMut` would allocate the work of a function that has none.
        if let Some(work) = &mut self.0 {
            (work.durations, work.rate_paid) = (Durations::new(), Duration::ZERO);
        }
    }
}

impl Deref for LazyWork {
    type Target = FunctionWork;

    fn deref(&self) -> &FunctionWork {
        static NOTHING: FunctionWork = FunctionWork::NOTHING;
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for LazyWork {
    fn deref_mut(&mut self) -> &mut FunctionWork {
        self.0.get_or_insert_with(|| Box::new(FunctionWork::NOTHING))
    }
}

/// Start failures of a function's workers.
#[derive(Debug, Default)]
pub(super) struct StartFailures {
    /// Instants of the last failures, at most five.
    pub(super) failures: Vec<Duration>,
    /// Failures in a row since the crash loop began.
    pub(super) looping: u32,
    /// Runs of a service in a row that ended quickly.
    pub(super) quick: u32,
    /// Instant before which no worker is started.
    pub(super) hold: Option<Duration>,
}

impl SupervisedFunction {
    fn new(name: FunctionName) -> Self {
        Self {
            name,
            presence: Presence::Absent,
            id: None,
            error: None,
            disabled: false,
            full: None,
            loaded: Vec::new(),
            runs: 0,
            failures: 0,
            last: None,
            queue: Queue::default(),
            work: LazyWork::default(),
            candidate: None,
            canary: None,
            start_failures: None,
            announced: FunctionState::Building,
            reported: None,
            counted: CountedFunction::default(),
            changed: false,
        }
    }

    /// Returns the version that serves.
    pub(super) fn serving(&self) -> Option<&Arc<ServingRelease>> {
        match &self.presence {
            Presence::Serving(serving) => Some(serving),
            Presence::Absent | Presence::Building | Presence::Invalid => None,
        }
    }

    /// Says whether neither its manifest nor a person disabled it.
    pub(super) fn is_enabled(&self) -> bool {
        !self.disabled && self.serving().is_none_or(|serving| serving.rules.enabled)
    }

    /// Says whether the function is shown to people.
    pub(super) fn is_shown(&self) -> bool {
        !matches!(self.presence, Presence::Absent) || self.work.busy > 0
    }

    /// Returns the public state. It is derived from the other fields alone.
    pub(super) fn state(&self) -> FunctionState {
        let looping = self
            .start_failures
            .as_ref()
            .is_some_and(|failures| failures.looping > 0);
        match &self.presence {
            Presence::Absent if self.work.busy > 0 => FunctionState::Running,
            Presence::Absent | Presence::Building => FunctionState::Building,
            Presence::Invalid => FunctionState::Invalid,
            Presence::Serving(_) if !self.is_enabled() => FunctionState::Disabled,
            Presence::Serving(_) if looping => FunctionState::CrashLooping,
            Presence::Serving(_) if self.work.busy > 0 => FunctionState::Running,
            Presence::Serving(_) => FunctionState::Ready,
        }
    }

    /// Says whether one more of a script's invocations could begin or be claimed, apart from the node's budget.
    pub(super) fn can_start(&self, may_claim: bool) -> bool {
        // A claim that holds a place becomes a worker, so it counts like one.
        let taken = self.work.running.len() + self.queue.held();
        let places = |serving: &Arc<ServingRelease>| taken < to_usize(serving.rules.max_running);
        let waits = self.queue.first(may_claim).is_some();
        waits && !self.is_held() && self.is_enabled() && self.serving().is_some_and(places)
    }

    /// Forgets the state that only an existing function needs.
    pub(super) fn vanish(&mut self) {
        self.error = None;
        self.full = None;
        self.last = None;
        self.start_failures = None;
        self.work.forget_runs();
    }
}

/// Converts a number of a manifest, 32 bits wide, to the machine's length type.
pub(super) fn to_usize(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// All functions that were ever known, by key and by name.
#[derive(Debug, Default)]
pub(super) struct SupervisedFunctions {
    table: Vec<SupervisedFunction>,
    names: BTreeMap<FunctionName, FunctionKey>,
    counts: Counts,
    /// Functions that may have changed since they were counted.
    changed: Vec<FunctionKey>,
}

impl SupervisedFunctions {
    /// Returns the key of a name.
    pub(super) fn find(&self, name: &FunctionName) -> Option<FunctionKey> {
        self.names.get(name).copied()
    }

    /// Returns the key of a name; adds the function if there is none.
    pub(super) fn find_or_add(&mut self, name: &FunctionName) -> FunctionKey {
        if let Some(key) = self.find(name) {
            return key;
        }
        let key = FunctionKey(self.table.len());
        self.table.push(SupervisedFunction::new(name.clone()));
        self.names.insert(name.clone(), key);
        key
    }

    /// Gives back the room for more functions. To be called when all functions of a scan are here.
    pub(super) fn pack(&mut self) {
        self.names = packed(std::mem::take(&mut self.names));
        self.changed.shrink_to_fit();
    }

    /// Returns every key, by name.
    pub(super) fn keys(&self) -> impl Iterator<Item = FunctionKey> {
        self.names.values().copied()
    }

    /// Returns the keys of the names after this one, by name; all keys without one.
    pub(super) fn keys_after(&self, name: Option<&FunctionName>) -> impl Iterator<Item = FunctionKey> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.names
            .range::<FunctionName, _>((from, Bound::Unbounded))
            .map(|(_, key)| *key)
    }

    /// Returns the counts, as of the last call of [`Self::count`].
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Brings the counts up to date.
    pub(super) fn count(&mut self) {
        while let Some(key) = self.changed.pop() {
            let function = &mut self.table[key.0];
            let now = CountedFunction::of(function);
            self.counts.replace(function.counted, now);
            (function.counted, function.changed) = (now, false);
        }
    }
}

impl Index<FunctionKey> for SupervisedFunctions {
    type Output = SupervisedFunction;
    fn index(&self, key: FunctionKey) -> &SupervisedFunction {
        // Only `find_or_add` makes keys, and the table never shrinks.
        &self.table[key.0]
    }
}

impl IndexMut<FunctionKey> for SupervisedFunctions {
    fn index_mut(&mut self, key: FunctionKey) -> &mut SupervisedFunction {
        let function = &mut self.table[key.0];
        // It is not known whether the caller changes anything, so the function counts as changed.
        if !function.changed {
            function.changed = true;
            self.changed.push(key);
        }
        function
    }
}
