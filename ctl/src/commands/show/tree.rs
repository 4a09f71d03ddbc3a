//! The tree of calls that a run is in: from the run that began the chain down to everything that was called. `fndctl show ID`
//! prints it.

use crate::common::tables::bad_if;
use crate::context::{Context, invocation_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Output, TextTable};
use crate::text::{between, short};
use fnd_core::api::{InvocationList, InvocationView};
use fnd_wire::ids::InvocationId;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::VecDeque;

/// Most runs of a tree. A run may have called thousands.
const RUNS_MAX: usize = 200;
/// Most calls in a chain; more can only be an answer that leads in a circle.
const CHAIN_MAX: usize = 16;

/// A run and what it has called.
#[derive(Debug, Serialize)]
pub(super) struct CallNode {
    #[serde(flatten)]
    run: InvocationView,
    /// Oldest first.
    calls: Vec<CallNode>,
}

/// The tree of calls that a run is in, from its root on.
pub(super) struct CallTree {
    /// The document of `-o json`.
    pub(super) root: CallNode,
    /// Whether no run is left out.
    is_whole: bool,
}

impl CallTree {
    /// Says whether any run of the tree has called another one.
    pub(super) fn has_calls(&self) -> bool {
        !self.root.calls.is_empty()
    }

    /// Prints the tree, with a mark at the run that was asked for.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn print(&self, out: &Output, asked: InvocationId) -> Result<(), CommandFailure> {
        let mut table = TextTable::new(&["CALL", "STATE", "REASON", "DURATION", "ID", ""]);
        rows(&mut table, &self.root, 0, (asked, Timestamp::now()));
        out.table(&table)
    }

    /// Says on standard error that the tree has more runs than are shown.
    pub(super) fn say_if_cut(&self, context: &Context) {
        if !self.is_whole {
            let more = format!("only {RUNS_MAX} runs are shown; `fndctl show ID` shows the tree of one of them");
            context.out.progress(&more);
        }
    }
}

/// Reads the tree of a run.
///
/// # Errors
/// There is no such run, or the daemon does not answer.
pub(super) async fn read_tree(context: &Context, id: &str) -> Result<CallTree, CommandFailure> {
    let mut root = get(context, id).await?;
    for _ in 0..CHAIN_MAX {
        let Some(parent) = root.parent else { break };
        match get(context, &parent.to_string()).await {
            Ok(above) => root = above,
            // The history no longer has it.
            Err(failure) if failure.exit == Exit::NoSuchThing => break,
            Err(failure) => return Err(failure),
        }
    }
    let (root, is_whole) = tree(context, root).await?;
    Ok(CallTree { root, is_whole })
}

async fn get(context: &Context, id: &str) -> Result<InvocationView, CommandFailure> {
    context.read(&invocation_path(id)).await
}

/// Returns a run with everything that it has called, level by level, and whether that is all.
async fn tree(context: &Context, root: InvocationView) -> Result<(CallNode, bool), CommandFailure> {
    // Each run, and the place of its caller in the list.
    let mut runs: Vec<(InvocationView, usize)> = vec![(root, 0)];
    let (mut next, mut all) = (VecDeque::from([0]), true);
    while let Some(at) = next.pop_front() {
        let room = RUNS_MAX - runs.len();
        let Some((caller, _)) = runs.get(at).filter(|_| room > 0) else {
            all = false;
            break;
        };
        let path = format!("/v1/invocations?parent={}&limit={room}", caller.id);
        let page: InvocationList = context.read(&path).await?;
        all &= page.next.is_none();
        // The API lists the newest run first, and a tree begins with the oldest.
        for called in page.invocations.into_iter().rev() {
            next.push_back(runs.len());
            runs.push((called, at));
        }
    }
    // Each run stands after its caller. So the calls of the last run are complete, and then those of the one before it.
    let mut calls: Vec<Vec<CallNode>> = runs.iter().map(|_| Vec::new()).collect();
    while let Some((run, caller)) = runs.pop() {
        let mut calls_of_it = calls.pop().unwrap_or_default();
        // The calls were added from the last to the first.
        calls_of_it.reverse();
        let node = CallNode {
            run,
            calls: calls_of_it,
        };
        match calls.get_mut(caller) {
            Some(others) => others.push(node),
            None => return Ok((node, all)),
        }
    }
    Err(CommandFailure::failed("the tree of calls has no root"))
}

fn rows(table: &mut TextTable, node: &CallNode, depth: usize, (asked, now): (InvocationId, Timestamp)) {
    let run = &node.run;
    let superseded = run.superseded_by.as_ref();
    let superseded = superseded.map(|node| format!(" (superseded by {node})"));
    let cells = [
        format!("{}{}", "  ".repeat(depth), run.function),
        format!("{}{}", run.state.as_str(), superseded.unwrap_or_default()),
        run.reason.map(|reason| reason.to_string()).unwrap_or_default(),
        between(run.started_at.as_deref(), run.ended_at.as_deref(), now),
        short(run.id),
        if run.id == asked { "<" } else { "" }.to_owned(),
    ];
    table.row(bad_if(run.state.is_failure()), cells);
    for call in &node.calls {
        rows(table, call, depth + 1, (asked, now));
    }
}
