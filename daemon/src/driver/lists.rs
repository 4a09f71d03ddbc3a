//! The long lists of the API, made in pieces, between which the thread serves others.
//!
//! The status of ten thousand functions takes longer than a call may wait, a piece of it takes a fraction of a
//! millisecond. Between two pieces everything may change, so a list is no picture of one moment:
//!
//! - Names are in order, each at most once: a piece goes on after the last name of the piece before.
//! - A function that exists all the time is in the list. One that appears or disappears meanwhile may be.
//! - Each function is as it is when its piece is made. Sums over a list may differ from the numbers of the node.

use super::{Daemon, Driver};
use crate::workers::listening::Listening;
use fnd_core::access::Permissions;
use fnd_core::api::{FunctionStatus, FunctionUsage, ScheduleView, UsageList};
use fnd_core::instant;
use fnd_core::supervisor::FunctionView;
use fnd_wire::ids::FunctionName;

/// Which functions to list or watch. An absent field does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FunctionFilter {
    pub function: Option<FunctionName>,
    /// Only functions with all of these labels, key and value.
    pub labels: Vec<(String, String)>,
    /// Only functions that the caller may view.
    pub reach: Permissions,
}

impl FunctionFilter {
    /// Returns whether a function matches. The labels of a function that is gone are unknown, so only its name counts.
    #[must_use]
    pub fn takes(&self, name: &FunctionName, now: Option<&FunctionStatus>) -> bool {
        let named = self.function.as_ref().is_none_or(|function| function == name);
        let labelled = |now: &FunctionStatus| {
            self.labels
                .iter()
                .all(|(key, value)| now.labels.get(key) == Some(value))
        };
        named && self.reach.views(name) && now.is_none_or(labelled)
    }
}

/// Most functions in a piece. A function's status takes some 6 us, and up to 20 us with its counters of the kernel.
pub(crate) const PIECE: usize = 64;

/// Most slots in one list of schedules.
const SLOTS_MAX: usize = 10_000;

/// Returns what `of` makes of each shown function, by name.
pub(crate) async fn in_pieces<T>(daemon: &Daemon, of: impl Fn(&Driver, &FunctionView<'_>) -> Option<T>) -> Vec<T> {
    let mut list = Vec::new();
    let mut after = None;
    loop {
        let next = daemon
            .state
            .borrow()
            .piece(after.as_ref(), |state, view| list.extend(of(state, view)));
        if next.is_none() {
            return list;
        }
        after = next;
        tokio::task::yield_now().await;
    }
}

impl Daemon {
    /// Returns the status of each function that a filter takes, by name.
    pub(crate) async fn function_list(&self, filter: &FunctionFilter) -> Vec<FunctionStatus> {
        let listening = Listening::default();
        // The name is compared first: a status is made only of functions that the caller may see and asks for.
        let status = |state: &Driver, view: &FunctionView<'_>| {
            let named = filter.takes(view.name, None).then_some(view.name)?;
            let status = state.with_usage(named, &listening)?;
            filter.takes(named, Some(&status)).then_some(status)
        };
        in_pieces(self, status).await
    }

    /// Returns what is known of the usage of every function, by name, without the values of cgroups.
    pub(crate) async fn usage(&self) -> UsageList {
        let at = instant::text(self.state.borrow().clock.now().unix_ms);
        let functions = in_pieces(self, Driver::usage_of).await;
        UsageList { at, functions }
    }

    /// Returns the schedules of all functions or of one function, each with its next slots (`next` is their number). The
    /// last runs are left out.
    pub(crate) async fn schedule_list(&self, function: Option<&FunctionName>, next: usize) -> Vec<ScheduleView> {
        let count = self.state.borrow().schedules.table.count().max(1);
        let next = next.min((SLOTS_MAX / count).max(1));
        // A slot takes as long as a status.
        let most = (PIECE / next).max(1);
        if let Some(function) = function {
            return self.state.borrow().schedules_of(function, next);
        }
        let mut list = Vec::new();
        let mut after: Option<FunctionName> = None;
        loop {
            {
                let state = self.state.borrow();
                let piece = state.schedules.table.functions_after(after.as_ref()).take(most);
                let mut last = None;
                for function in piece {
                    list.extend(state.schedules_of(function, next));
                    last = Some(function);
                }
                let Some(last) = last.cloned() else { return list };
                after = Some(last);
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Driver {
    /// Shows `each` the functions of a piece, which begins after a name. Returns the name after which the next piece
    /// begins; nothing if the list is over.
    pub(crate) fn piece(
        &self,
        after: Option<&FunctionName>,
        mut each: impl FnMut(&Self, &FunctionView<'_>),
    ) -> Option<FunctionName> {
        let mut views = self.supervisor.functions_after(after);
        let mut last = None;
        for view in views.by_ref().take(PIECE) {
            each(self, &view);
            last = Some(view.name);
        }
        // Whether more follow is asked now: most nodes have fewer functions than a piece, and need no second one.
        views.next().and(last).cloned()
    }

    fn usage_of(&self, view: &FunctionView<'_>) -> Option<FunctionUsage> {
        let serving = self.functions.registry.get(view.name)?.serving(view.version);
        let limits = serving.map(|serving| &serving.manifest.limits);
        Some(FunctionUsage {
            function: view.name.clone(),
            state: view.state,
            running: super::view::count(view.running),
            queued: super::view::count(view.queued),
            runs: view.runs,
            failures: view.failures,
            cpu_ms: None,
            cpu_limit: limits.and_then(|limits| Some(f64::from(limits.cpu?) / 1000.0)),
            cpu_periods: None,
            throttled_periods: None,
            throttled_ms: None,
            memory_bytes: None,
            memory_limit_bytes: limits.map(|limits| limits.memory),
            pids: None,
        })
    }
}
