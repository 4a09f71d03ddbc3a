//! The node at a glance, and what its caller may do.

use super::Backend;
use super::lists::in_pieces;
use crate::views::View;
use fnd_core::access::Permissions;
use fnd_core::api::{AttentionView, CallerView, InvocationView, NextRun, Overview};
use fnd_core::instant;
use fnd_core::run::FunctionView;
use fnd_wire::ids::FunctionName;
use fnd_wire::plan::is_own;
use std::collections::BTreeSet;

/// Most functions that need a person.
const ATTENTION: u64 = 20;
/// Most runs.
const RUNNING: usize = 10;
/// Most scheduled runs.
const NEXT: usize = 10;

/// The findings of one pass over all functions.
struct Pass<'a> {
    reach: &'a Permissions,
    functions: u64,
    attention: u64,
    running: u64,
    next: BTreeSet<(u64, FunctionName)>,
}

impl Pass<'_> {
    /// Counts a function. Returns what a person has to do, if it is among the first.
    fn see(&mut self, parts: &View<'_>, view: &FunctionView<'_>) -> Option<AttentionView> {
        // The name is compared first: a caller may view few of many functions.
        if !self.reach.views(view.name) {
            return None;
        }
        self.functions += 1;
        // A service has no runs for people: it is up.
        if view.up_since_ms.is_none() {
            self.running += view.running as u64;
        }
        if let Some(at_ms) = parts.schedules.table.next_of(view.name) {
            self.keep(at_ms, view.name);
        }
        let why = parts.attention(view)?;
        self.attention += 1;
        (self.attention <= ATTENTION).then(|| parts.attention_view(view, why))
    }

    /// Keeps a scheduled run, if it is among the first.
    fn keep(&mut self, at_ms: u64, name: &FunctionName) {
        let next = &mut self.next;
        if next.len() == NEXT && next.last().is_some_and(|(last, _)| *last <= at_ms) {
            return;
        }
        next.insert((at_ms, name.clone()));
        if next.len() > NEXT {
            next.pop_last();
        }
    }
}

impl Backend {
    /// Returns the node at a glance, with what a caller may view. It makes no status of a function, so that ten thousand
    /// functions take a few milliseconds; others are served meanwhile.
    pub(crate) async fn overview(&self, reach: &Permissions) -> Overview {
        let mut pass = Pass {
            reach,
            functions: 0,
            attention: 0,
            running: 0,
            next: BTreeSet::new(),
        };
        let every = (Vec::new(), usize::MAX);
        let attention = in_pieces(&self.daemon, None, every, |parts, view| pass.see(parts, view)).await;
        let state = self.daemon.state.borrow();
        let parts = state.look();
        let is_for_node = reach.node().is_some();
        let next = pass.next.into_iter().map(|(at_ms, function)| NextRun {
            at: instant::text(at_ms),
            function,
        });
        let now_ms = parts.now.unix_ms;
        let (dead_letters, dead_letters_since) = dead_letters(&parts, reach);
        Overview {
            at: instant::text(now_ms),
            attention,
            attention_count: pass.attention,
            problems: if is_for_node { parts.problem_views() } else { Vec::new() },
            dead_letters,
            dead_letters_since,
            running: running(&parts, reach),
            running_count: pass.running,
            functions: pass.functions,
            next: next.collect(),
            hours: if is_for_node {
                parts.reporter.hours.borrow().last(now_ms)
            } else {
                Vec::new()
            },
            hours_since: instant::text(parts.node.started_ms),
        }
    }

    /// Returns a caller with its roles.
    pub(crate) fn caller(&self, uid: u32, reach: &Permissions) -> CallerView {
        let node = self.daemon.state.borrow().node.settings.host.clone();
        CallerView::of(node, uid, reach)
    }
}

/// Returns the number of dead letters that a caller may view, and since when there are dead letters.
fn dead_letters(parts: &View<'_>, reach: &Permissions) -> (u64, Option<String>) {
    let figures = parts.ledger.figures();
    let viewed = figures.dead_letters.iter().filter(|(name, _)| reach.views(name));
    // The oldest one of all may be of a function that a caller without a role for the node may not view.
    let since_ms = figures.dead_since_ms.filter(|_| reach.node().is_some());
    (viewed.map(|(_, number)| *number).sum(), since_ms.map(instant::text))
}

/// Returns the runs that run now, oldest first.
fn running(parts: &View<'_>, reach: &Permissions) -> Vec<InvocationView> {
    // Thousands may wait, and a record has copies of texts.
    let running = parts.supervisor.running_invocations();
    let records = running.filter_map(|id| parts.supervisor.invocation(id));
    let is_up = |name: &FunctionName| {
        let function = parts.supervisor.function(name);
        function.is_some_and(|function| function.up_since_ms.is_some())
    };
    let runs = records.filter(|record| reach.views(&record.function));
    let runs = runs.filter(|record| !is_own(record.function.as_str()) && !is_up(&record.function));
    runs.take(RUNNING).map(|record| InvocationView::of(&record)).collect()
}
