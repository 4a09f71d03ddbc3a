//! Samples the current values for a scrape.
//!
//! The functions and their workers are sampled in pieces, between which the thread serves others (`views/lists.rs` says
//! what may change meanwhile). Only a scrape reads the gauges, and the scrapes wait for each other, so nobody
//! sees a sample that is not complete.

use super::nats;
use crate::driver::{Daemon, Driver};
use crate::http::connections::ConnectionOwner;
use crate::ledger::Figures;
use crate::metrics::{self, Labels, Metrics, MetricsFormat, OTHER, micros, millis, number};
use crate::report::problems;
use crate::views::lists::{PIECE, piece};
use crate::workers::usage;
use fnd_core::records::outcome::Reason;
use fnd_core::run::FunctionView;
use fnd_wire::ids::{FunctionName, WorkerId};
use procfs::process::Process;
use prometheus_client::metrics::counter::Counter;
use std::rc::Rc;
use std::sync::Arc;

/// How far the functions and workers are sampled.
#[derive(Default)]
struct SampleWalk {
    /// The last function of the piece before.
    after: Option<FunctionName>,
    functions_done: bool,
    /// The last worker of the piece before.
    worker: Option<WorkerId>,
    /// Functions whose newest content does not serve.
    errors: usize,
    /// Whether the series that many functions share have begun.
    has_others: bool,
    /// The sizes of the history when the walk began.
    figures: Figures,
}

/// Returns all metrics with their current values. With a thousand functions these are megabytes of text, so they are
/// not written on the thread that serves all callers.
pub(crate) async fn scrape(daemon: &Rc<Daemon>, form: MetricsFormat) -> String {
    let counted = Rc::clone(&daemon.state.borrow().reporter.metrics);
    let asking = Arc::clone(&counted.borrow().asking);
    let _alone = asking.lock().await;
    // The gauges begin empty, so that a function that is gone has no series any more.
    counted.borrow().forget_functions();
    keep_routes(&mut counted.borrow_mut(), &mut daemon.state.borrow_mut());
    let mut walk = SampleWalk {
        figures: daemon.state.borrow().records.ledger.figures(),
        ..SampleWalk::default()
    };
    while sample_piece(&mut counted.borrow_mut(), &daemon.state.borrow(), &mut walk) {
        tokio::task::yield_now().await;
    }
    sample_node(&mut counted.borrow_mut(), &daemon.state.borrow(), &walk);
    let registry = Arc::clone(&counted.borrow().registry);
    let written = tokio::task::spawn_blocking(move || metrics::write(&registry, form));
    // A panic there would be a defect of the library: the answer is empty then.
    written.await.unwrap_or_default()
}

/// Removes the series of routes that are gone, by manifest or with their function.
fn keep_routes(metrics: &mut Metrics, state: &mut Driver) {
    let routes = state.lifecycle.route_table();
    let events = state.listener.events.borrow();
    let paths = routes.all().iter().map(|route| route.entry.path.as_str());
    metrics.keep_routes(
        &paths
            .chain(events.as_ref().map(|events| events.path.as_str()))
            .collect(),
    );
}

/// Returns a count of objects in memory as a gauge's value.
fn count(count: usize) -> f64 {
    number(count as u64)
}

/// Samples all values that are not of a function, after the last piece of these.
fn sample_node(metrics: &mut Metrics, state: &Driver, walk: &SampleWalk) {
    for (function, waiting) in state.watchers.waiting() {
        let own = Labels(Some(metrics.label(function)), None);
        let files = &metrics.sampled.files_waiting;
        files.get_or_create(&own).inc_by(number(waiting));
    }
    nats::sample(metrics, state.look().nats.figures().as_ref());
    let sampled = &metrics.sampled;
    sampled.with_errors.set(count(walk.errors));
    for (word, functions) in state.supervisor.by_state() {
        let labels = Labels(None, Some(("state", word.as_str())));
        sampled.functions.get_or_create(&labels).set(count(functions));
    }
    let health = state.records.ledger.health();
    let up = state.workers.connection.is_some() && !state.supervisor.is_spawner_silent();
    sampled.spawner_up.set(f64::from(up));
    sampled.history_failing.set(f64::from(health.failing.is_some()));
    let store = |counter: &Counter, count| counter.inner().store(count, std::sync::atomic::Ordering::Relaxed);
    store(&sampled.history_lost, health.lost);
    store(&sampled.history_failed, health.failed);
    let age = state.records.ledger.queue_age();
    sampled.history_queue_age.set(age.as_secs_f64());
    let forgotten = [("kept", walk.figures.forgotten), ("room", health.forgetting.for_room)];
    for (reason, count) in forgotten {
        let labels = Labels(None, Some(("reason", reason)));
        store(&sampled.history_forgotten.get_or_create(&labels), count);
    }
    let labels = |code| Labels(None, Some(("code", code)));
    // Every code has a series, so that an alert sees a problem begin and end.
    for code in problems::codes() {
        sampled.problems.get_or_create(&labels(code)).set(0.0);
    }
    for problem in state.look().problems() {
        sampled.problems.get_or_create(&labels(problem.code)).inc();
    }
    // A user that has no connection any more would keep its last number.
    sampled.connections.clear();
    for (owner, open) in state.callers.connections.by_owner() {
        let ConnectionOwner::User(uid) = owner else { continue };
        let user = [("uid", uid.to_string())];
        sampled.connections.get_or_create(&user).set(count(open));
    }
    store(&sampled.refused, state.callers.connections.refused.get());
    store(&sampled.silent, state.callers.connections.silent.get());
    let (memory, disk) = state.callers.buffers.held();
    for (place, bytes) in [("memory", memory), ("disk", disk)] {
        let labels = Labels(None, Some(("place", place)));
        sampled.buffers.get_or_create(&labels).set(number(bytes));
    }
    store(&sampled.buffers_refused, state.callers.buffers.refused());
    sampled.process_started.set(millis(state.node.started_ms));
    // Values that cannot be read stay as they were.
    let Ok(process) = Process::myself() else { return };
    if let Ok(stat) = process.stat() {
        let ticks = procfs::ticks_per_second().max(1);
        let cpu_us = (stat.utime + stat.stime).saturating_mul(1_000_000 / ticks);
        // A counter of this library can only be increased, so the difference is added.
        let before = sampled.process_cpu.get();
        sampled.process_cpu.inc_by((micros(cpu_us) - before).max(0.0));
        let resident = stat.rss.saturating_mul(procfs::page_size());
        sampled.process_resident.set(number(resident));
        sampled.process_virtual.set(number(stat.vsize));
        let threads = u64::try_from(stat.num_threads).unwrap_or(0);
        sampled.process_threads.set(number(threads));
    }
    if let Ok(open) = process.fd_count() {
        sampled.process_fds.set(count(open));
    }
    if let Ok(limits) = process.limits()
        && let procfs::process::LimitValue::Value(most) = limits.max_open_files.soft_limit
    {
        sampled.process_fds_max.set(number(most));
    }
}

/// Samples the values of some functions, or of some workers after the last function. Returns whether more follow.
fn sample_piece(metrics: &mut Metrics, state: &Driver, walk: &mut SampleWalk) -> bool {
    if walk.functions_done {
        return sample_workers(metrics, state, walk);
    }
    let after = walk.after.take();
    walk.after = piece(&state.supervisor, after.as_ref(), |view| {
        sample_function(metrics, state, walk, view);
    });
    walk.functions_done = walk.after.is_none();
    true
}

fn sample_function(metrics: &mut Metrics, state: &Driver, walk: &mut SampleWalk, view: &FunctionView<'_>) {
    let label = metrics.label(view.name);
    // Of ten thousand functions, nine thousand share one series, which has to be begun once only.
    let is_new = &*label != OTHER || !std::mem::replace(&mut walk.has_others, true);
    let own = Labels(Some(label), None);
    let sampled = &metrics.sampled;
    let dead_letters = walk.figures.dead_letters.get(view.name);
    for (family, value) in [
        (&sampled.queue_depth, count(view.queued)),
        (&sampled.running, count(view.running)),
        (&sampled.dead_letters, number(dead_letters.copied().unwrap_or(0))),
    ] {
        if is_new || value > 0.0 {
            // Added, not set: the values of all functions with this label count.
            family.get_or_create(&own).inc_by(value);
        }
    }
    if let Some(last) = view.last {
        // Between two polls nothing has failed.
        let polls = last.attempt.reason == Reason::ExecuteAgain && last.attempt.next_attempt_ms.is_some();
        let ended_badly = last.attempt.reason.final_state().is_failure() && !polls;
        let has_failed = view.up_since_ms.is_none() && ended_badly;
        sampled
            .last_run_failed
            .get_or_create(&own)
            .inc_by(f64::from(has_failed));
    }
    if view.workers > 0
        && let Some(bytes) = usage::memory_now(&state.workers.welcome.memory, &view.name.file_form())
    {
        sampled.memory.get_or_create(&own).inc_by(number(bytes));
    }
    let known = state.lifecycle.registry.get(view.name);
    let refused = known.is_some_and(|function| function.findings.error.is_some());
    walk.errors += usize::from(refused || view.error.is_some());
}

fn sample_workers(metrics: &mut Metrics, state: &Driver, walk: &mut SampleWalk) -> bool {
    let mut workers = state.supervisor.workers_after(walk.worker);
    let mut last = None;
    for (worker, function, phase) in workers.by_ref().take(PIECE) {
        let labels = Labels(Some(metrics.label(function)), Some(("state", phase)));
        metrics.sampled.workers.get_or_create(&labels).inc();
        last = Some(worker);
    }
    walk.worker = last;
    workers.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::tests::spawner::Content;
    use crate::start::tests::world::World;
    use fnd_core::records::outcome::Trigger;

    fn name(text: &str) -> FunctionName {
        FunctionName::new(text).unwrap()
    }

    #[test]
    fn functions_beyond_the_most_share_series_that_begin_at_0_and_are_sums() {
        let mut world = World::new();
        let daemon = world.daemon();
        let metrics = Rc::clone(&daemon.state.borrow().reporter.metrics);
        let mut labels = (0..).map(|number| metrics.borrow_mut().label(&name(&format!("f{number}"))));
        assert!(labels.any(|label| &*label == OTHER));
        let functions = ["a", "b", "c"].map(name);
        for function in &functions {
            world.write(function, Some(Content(1)));
        }
        world.settle();
        let scraped = |world: &mut World| {
            let text = world.run_until(scrape(&daemon, MetricsFormat::Older));
            let value = |family: &str| -> f64 {
                let series = format!("{family}{{function=\"{OTHER}\"}} ");
                let value = text.lines().find_map(|line| line.strip_prefix(&series));
                value.expect(&text).parse().unwrap()
            };
            let accepted = value("fnd_queue_depth") + value("fnd_attempts_running");
            (accepted, value("fnd_dead_letters"))
        };
        assert_eq!(scraped(&mut world), (0.0, 0.0));
        let [_, b, c] = functions;
        let submit = |function| daemon.state.borrow_mut().new_submit(function, Trigger::Manual);
        let submitted = [b.clone(), b, c].map(submit);
        let _waiting = submitted.map(|submit| world.backend().submit(submit));
        assert_eq!(scraped(&mut world), (3.0, 0.0));
    }
}
