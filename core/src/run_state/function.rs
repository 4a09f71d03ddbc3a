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

use super::queue::QueueBooks;
use super::releases::{Canary, Charge, ServingRelease, SpareCandidate};
use super::to_usize;
use crate::durations::Durations;
use crate::messages::FunctionState;
use crate::messages::event::LastAttempt;
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use fnd_wire::plan;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Whether a function exists and can run.
#[derive(Debug)]
pub(crate) enum Presence {
    /// The function has no file; only its history is known.
    Absent,
    /// The file is there, and its first version waits for its dependencies.
    Building,
    /// The file is there, but no version of it could run.
    Invalid,
    Serving(Arc<ServingRelease>),
}

#[derive(Debug)]
pub(crate) struct SupervisedFunction {
    pub(crate) name: FunctionName,
    pub(crate) presence: Presence,
    /// The function's number at the spawner, once known. Temporary files of a deleted function are released by it.
    pub(crate) id: Option<FunctionId>,
    /// Why the newest content does not serve.
    pub(crate) error: Option<Box<str>>,
    /// Since when it has an error or is in a crash loop, Unix milliseconds.
    pub(crate) bad_since_ms: Option<NonZeroU64>,
    pub(crate) disabled: bool,
    /// Why its home or its cache is over its quota; then no new invocation is accepted.
    pub(crate) full: Option<Box<str>>,
    /// Contents that have run as `load`.
    pub(crate) loaded: Vec<Version>,
    pub(crate) runs: u64,
    pub(crate) failures: u64,
    pub(crate) last: Option<Box<LastAttempt>>,
    pub(crate) work: LazyWork,
    /// A version that is tried before it serves.
    pub(crate) candidate: Option<Box<SpareCandidate>>,
    /// A version that gets a share of the calls.
    pub(crate) canary: Option<Box<Canary>>,
    pub(crate) start_failures: Option<Box<StartFailures>>,
    /// The state that was last announced.
    pub(crate) announced: FunctionState,
    /// Its state as reported last; absent while it is not known.
    pub(crate) reported: Option<LastReported>,
    /// Its part in the counts.
    pub(crate) counted: CountedFunction,
    /// Whether it may have changed since then.
    pub(crate) changed: bool,
}

/// The invocations and the workers of a function, and the traces of its runs.
#[derive(Debug, Default)]
pub(crate) struct FunctionWork {
    /// The function's invocations that are accepted and not ended.
    pub(crate) queue: QueueBooks,
    /// Ended invocations whose temporary files are released once the function's `id` is known.
    pub(crate) unreleased: Vec<InvocationId>,
    pub(crate) durations: Durations,
    /// The function's workers, oldest first.
    pub(crate) running: BTreeSet<WorkerId>,
    /// Number of attempts that run in `running`.
    pub(crate) busy: usize,
    /// Workers of a handler that can take a call now; the one used last is at the end.
    pub(crate) free: Vec<WorkerId>,
    /// When a handler was last called.
    pub(crate) last_call: Option<Duration>,
    /// Runs of a service that were requested and not submitted yet.
    pub(crate) requested: usize,
    /// The part of the node's budget that the function uses while it has workers.
    pub(crate) charged: Charge,
    /// Whether the function is in the line for the budget.
    pub(crate) in_line: bool,
    /// Whether the function is in the list of those with free workers and waiting invocations.
    pub(crate) in_calls: bool,
    /// Instant at which the rate limit is paid off.
    pub(crate) rate_paid: Duration,
}

/// [`FunctionWork`] that is allocated when it is first changed: of ten thousand functions, most do not run for a long time.
#[derive(Debug, Default)]
pub(crate) struct LazyWork(Option<Box<FunctionWork>>);

impl LazyWork {
    /// Returns the work to take something out of it; absent where nothing ever ran. Access through `DerefMut` would allocate it.
    pub(crate) fn allocated(&mut self) -> Option<&mut FunctionWork> {
        self.0.as_deref_mut()
    }
}

impl Deref for LazyWork {
    type Target = FunctionWork;

    fn deref(&self) -> &FunctionWork {
        static NOTHING: LazyLock<FunctionWork> = LazyLock::new(FunctionWork::default);
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for LazyWork {
    fn deref_mut(&mut self) -> &mut FunctionWork {
        self.0.get_or_insert_default()
    }
}

/// Start failures of a function's workers.
#[derive(Debug, Default)]
pub(crate) struct StartFailures {
    /// Instants of the last failures, at most five.
    pub(crate) failures: Vec<Duration>,
    /// Failures in a row since the crash loop began.
    pub(crate) looping: u32,
    /// Runs of a service in a row that ended quickly.
    pub(crate) quick: u32,
    /// Instant before which no worker is started.
    pub(crate) hold: Option<Duration>,
}

/// This many workers that could not be started within [`LOOP_WINDOW`] make a crash loop.
const LOOP_FAILURES: usize = 5;
pub(crate) const LOOP_WINDOW: Duration = Duration::from_secs(60);

impl StartFailures {
    /// Counts a failure; says whether the function is in a crash loop.
    pub(crate) fn count(&mut self, now: Duration) -> bool {
        self.failures.retain(|at| now.saturating_sub(*at) <= LOOP_WINDOW);
        self.failures.push(now);
        if self.failures.len() > LOOP_FAILURES {
            self.failures.remove(0);
        }
        let is_loop = self.looping > 0 || self.failures.len() >= LOOP_FAILURES;
        self.looping = self.looping.saturating_add(is_loop.into());
        is_loop
    }
}

impl SupervisedFunction {
    pub(crate) fn new(name: FunctionName) -> Self {
        Self {
            name,
            presence: Presence::Absent,
            id: None,
            error: None,
            bad_since_ms: None,
            disabled: false,
            full: None,
            loaded: Vec::new(),
            runs: 0,
            failures: 0,
            last: None,
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
    pub(crate) fn serving(&self) -> Option<&Arc<ServingRelease>> {
        match &self.presence {
            Presence::Serving(serving) => Some(serving),
            Presence::Absent | Presence::Building | Presence::Invalid => None,
        }
    }

    /// Returns the version that serves, if it is a service.
    pub(crate) fn service(&self) -> Option<&Arc<ServingRelease>> {
        let serving = self.serving();
        serving.filter(|serving| serving.rules.kind.is_service())
    }

    /// Says whether neither its manifest nor a person disabled it.
    pub(crate) fn is_enabled(&self) -> bool {
        !self.disabled && self.serving().is_none_or(|serving| serving.rules.enabled)
    }

    /// Says whether the function is shown to people.
    pub(crate) fn is_shown(&self) -> bool {
        !matches!(self.presence, Presence::Absent) || self.work.busy > 0
    }

    /// Returns the public state. It is derived from the other fields alone.
    pub(crate) fn state(&self) -> FunctionState {
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

    /// Says whether starts are held back because the workers die before they are ready.
    pub(crate) fn is_held(&self) -> bool {
        self.start_failures
            .as_ref()
            .is_some_and(|failures| failures.hold.is_some())
    }

    /// Says whether one more of a script's invocations could begin or be claimed, apart from the node's budget.
    pub(crate) fn can_start(&self, may_claim: bool) -> bool {
        // A claim that holds a place becomes a worker, so it counts like one.
        let taken = self.work.running.len() + self.work.queue.held();
        let places = |serving: &Arc<ServingRelease>| taken < to_usize(serving.rules.max_running);
        let waits = self.work.queue.has_first(may_claim);
        waits && !self.is_held() && self.is_enabled() && self.serving().is_some_and(places)
    }

    /// Forgets the reported failure of its trial, so that the next failure is reported even if it is the same.
    pub(crate) fn forget_trial(&mut self) {
        if let Some(before) = &mut self.reported {
            before.trial = 0;
        }
    }

    /// Forgets the state that only an existing function needs.
    pub(crate) fn vanish(&mut self) {
        self.error = None;
        self.full = None;
        self.last = None;
        self.start_failures = None;
        if let Some(work) = self.work.allocated() {
            (work.durations, work.rate_paid) = (Durations::default(), Duration::ZERO);
        }
    }
}

/// The state of a function that was reported last, as digests: only a change matters, and ten thousand functions have it. The
/// digest of nothing is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LastReported {
    pub(crate) serving: u64,
    pub(crate) error: u64,
    /// The version on trial, and why it could not be loaded.
    pub(crate) trial: u64,
}

/// The part of one function in the counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CountedFunction {
    /// Its state; absent if it is not shown, or is one of fnd's own.
    pub(crate) state: Option<FunctionState>,
    pub(crate) running: usize,
}

impl CountedFunction {
    /// Returns what the counts should have of a function.
    pub(crate) fn of(function: &SupervisedFunction) -> Self {
        let shown = function.is_shown() && !plan::is_own(function.name.as_str());
        Self {
            state: shown.then(|| function.state()),
            running: function.work.busy,
        }
    }
}
