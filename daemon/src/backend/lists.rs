//! The long lists of the API. They are made in pieces, and between two pieces the thread serves others.
//!
//! A list of functions has a weak tag, which says whether the answer that a caller has is the present one, so that fnd need not make
//! an unchanged list again. The tag changes with everything that the list shows, except two kinds of values: the time at which a
//! status was made, and values that are measured (memory, ports, free space). No event says that these change. So a tag also ends
//! after [`PERIOD`], and is weak (RFC 9110, section 8.8.1): these values of an answer with the same tag may be older by that time.

use super::Backend;
use crate::driver::Daemon;
use crate::views::View;
use crate::views::lists::{FunctionFilter, ListPart, PIECE, piece};
use crate::workers::listening::Listening;
use fnd_core::access::Permissions;
use fnd_core::api::{DiskUse, FunctionList, NodeStatus, ScheduleView};
use fnd_core::run::FunctionView;
use fnd_wire::ids::FunctionName;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// Most slots in one list of schedules.
const SLOTS_MAX: usize = 10_000;

/// Longest time for which a tag stays. A client that asks every second is spared nine of ten lists, and the memory that it shows is not
/// so old that a person is misled.
const PERIOD: Duration = Duration::from_secs(10);

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

    /// Returns the tag that a list has now, without quotes. To be called before the list is made: a change meanwhile makes the next tag
    /// another one. `query` is that of the request; `node` is there if the list is a part of the node's status.
    pub(crate) fn list_tag(&self, query: &str, reach: &Permissions, node: Option<&NodeStatus>) -> String {
        let state = self.daemon.state.borrow();
        let period = state.clock.now().mono.as_secs() / PERIOD.as_secs();
        let mut hasher = DefaultHasher::new();
        // The changes are counted anew by each fnd.
        (state.node.started_ms, state.changes, period, query, reach).hash(&mut hasher);
        state.records.ledger.hash_dead_letters(&mut hasher);
        node.map(without_measured).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

/// Returns the status of the node without the values that are measured. Parts with threads of their own change its other values
/// without an event, so these are compared.
fn without_measured(node: &NodeStatus) -> String {
    let disk = node.disk.clone().map(|disk| DiskUse {
        free_bytes: None,
        free_inodes: None,
        ..disk
    });
    let node = NodeStatus {
        memory_bytes: 0,
        disk,
        ..node.clone()
    };
    serde_json::to_string(&node).unwrap_or_default() // an error: the answer itself will say so
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::tests::small::world;
    use fnd_core::report::ReportEvent;
    use fnd_manifest::settings::Role;

    #[test]
    fn a_tag_changes_with_what_a_list_shows() {
        let world = world(None);
        let (backend, daemon) = (world.backend(), world.daemon());
        let admin = Permissions::own();
        let tag = |query: &str, reach: &Permissions| backend.list_tag(query, reach, None);
        // A period may end between the two.
        assert!((0..3).any(|_| tag("", &admin) == tag("", &admin)));
        assert_ne!(tag("", &admin), tag("limit=1", &admin));
        assert_ne!(tag("", &admin), tag("", &Permissions::everywhere(Role::Viewer)));
        let before = tag("", &admin);
        let hello = FunctionName::new("hello").unwrap();
        daemon.state.borrow_mut().report(ReportEvent::StatusChanged(&hello));
        assert_ne!(tag("", &admin), before);
    }

    #[test]
    fn a_tag_of_the_node_changes_with_all_but_what_is_measured() {
        let world = world(None);
        let (backend, daemon) = (world.backend(), world.daemon());
        let node = daemon.state.borrow().node_status();
        let tag = |node: &NodeStatus| backend.list_tag("", &Permissions::own(), Some(node));
        let mut measured = node.clone();
        measured.memory_bytes += 1;
        assert!((0..3).any(|_| tag(&node) == tag(&measured)));
        let mut other = node.clone();
        other.problems.push("the disk is full".to_owned());
        assert_ne!(tag(&node), tag(&other));
    }
}
