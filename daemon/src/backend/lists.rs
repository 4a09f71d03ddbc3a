//! Makes the long lists of the API in pieces. Between two pieces the thread serves others.

use super::Backend;
use crate::driver::Daemon;
use crate::views::View;
use crate::views::lists::{FunctionFilter, ListPart, PIECE, piece};
use crate::workers::listening::Listening;
use fnd_core::api::{FunctionList, ScheduleView};
use fnd_core::run::FunctionView;
use fnd_wire::ids::FunctionName;

/// Most slots in one list of schedules.
const SLOTS_MAX: usize = 10_000;

/// Adds the results of `of` for the functions after a name to a list, in the order of their names, until it has `most`. A function
/// without a result is left out. Returns the list.
pub(super) async fn in_pieces<T>(
    daemon: &Daemon,
    mut after: Option<FunctionName>,
    (mut list, most): (Vec<T>, usize),
    mut of: impl FnMut(&View<'_>, &FunctionView<'_>) -> Option<T>,
) -> Vec<T> {
    loop {
        let next = {
            let state = daemon.state.borrow();
            let parts = state.look();
            piece(parts.supervisor, after.as_ref(), |view| {
                if list.len() < most {
                    list.extend(of(&parts, view));
                }
            })
        };
        if next.is_none() || list.len() >= most {
            return list;
        }
        after = next;
        tokio::task::yield_now().await;
    }
}

impl Backend {
    /// Returns the status of each function of a part that a filter takes, in the order of their names. Others are served meanwhile, so
    /// the list is no picture of one moment.
    pub(crate) async fn functions(&self, filter: FunctionFilter, part: ListPart) -> FunctionList {
        let listening = Listening::default();
        // Name and state are compared first, so that fnd makes a status only of functions that the caller may view and asks for.
        let status = |parts: &View<'_>, view: &FunctionView<'_>| {
            let is_asked = filter.takes(view.name, None) && part.has_state(parts, view);
            let status = is_asked.then(|| parts.function_now(view, &listening))?;
            (filter.takes(view.name, Some(&status)) && part.has_text(&status)).then_some(status)
        };
        let limit = part.limit.unwrap_or(usize::MAX);
        // One function more than the page has says that there is a next page.
        let most = limit.saturating_add(1);
        let all: usize = {
            let state = self.daemon.state.borrow();
            state.supervisor.by_state().map(|(_, number)| number).sum()
        };
        // Ten thousand statuses have eight megabytes: while such a list grows, each copy of it would hold up other calls.
        let empty = Vec::with_capacity(all.min(most));
        let mut functions = in_pieces(&self.daemon, part.after.clone(), (empty, most), status).await;
        let is_more = functions.len() > limit;
        functions.truncate(limit);
        let last = functions.last().filter(|_| is_more);
        let next = last.map(|last| last.function.to_string());
        FunctionList { functions, next }
    }

    /// Returns the schedules of all functions or of one function, each with its next slots (`next` is their number). The
    /// last runs are left out.
    pub(super) async fn schedule_list(&self, function: Option<&FunctionName>, next: usize) -> Vec<ScheduleView> {
        let count = self.daemon.state.borrow().schedules.table.count().max(1);
        let next = next.min((SLOTS_MAX / count).max(1));
        // A slot takes as long as a status.
        let most = (PIECE / next).max(1);
        if let Some(function) = function {
            return self.daemon.state.borrow().schedules.views_of(function, next);
        }
        let mut list = Vec::new();
        let mut after: Option<FunctionName> = None;
        loop {
            {
                let state = self.daemon.state.borrow();
                let piece = state.schedules.table.functions_after(after.as_ref()).take(most);
                let mut last = None;
                for function in piece {
                    list.extend(state.schedules.views_of(function, next));
                    last = Some(function);
                }
                let Some(last) = last.cloned() else { return list };
                after = Some(last);
            }
            tokio::task::yield_now().await;
        }
    }
}
