//! Samples the current values for a scrape.
//!
//! The functions and their workers are sampled in pieces, between which the thread serves others (`driver/lists.rs` says
//! what may change meanwhile). Only a scrape reads the gauges, and the scrapes wait for each other, so nobody sees a part.

use super::{LabelValues, Labels, MetricCounts, Metrics, micros, millis, number, value};
use crate::driver::Driver;
use crate::driver::lists::PIECE;
use crate::http::connections::ConnectionOwner;
use crate::report::problems;
use crate::workers::usage;
use fnd_core::records::outcome::Reason;
use fnd_core::supervisor::FunctionView;
use fnd_wire::ids::{FunctionName, WorkerId};
use procfs::process::Process;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

/// How far the functions and workers are sampled.
#[derive(Default)]
pub(super) struct SampleWalk {
    /// The last function of the piece before.
    after: Option<FunctionName>,
    functions_done: bool,
    /// The last worker of the piece before.
    worker: Option<WorkerId>,
    /// Functions whose newest content does not serve.
    errors: usize,
}

type SampleValue = Gauge<f64, AtomicU64>;
type Sum = Counter<f64, AtomicU64>;

/// The gauges, and the counters that other parts keep.
pub(super) struct Sampled {
    functions: LabelValues,
    with_errors: SampleValue,
    queue_depth: LabelValues,
    dead_letters: LabelValues,
    last_run_failed: LabelValues,
    files_waiting: LabelValues,
    running: LabelValues,
    workers: LabelValues,
    memory: LabelValues,
    spawner_up: SampleValue,
    problems: LabelValues,
    connections: Family<[(&'static str, String); 1], SampleValue>,
    refused: Counter,
    silent: Counter,
    buffers: LabelValues,
    buffers_refused: Counter,
    history_failing: SampleValue,
    history_lost: Counter,
    history_forgotten: MetricCounts,
    history_failed: Counter,
    history_queue_age: SampleValue,
    process_cpu: Sum,
    process_resident: SampleValue,
    process_virtual: SampleValue,
    process_fds: SampleValue,
    process_fds_max: SampleValue,
    process_threads: SampleValue,
    process_started: SampleValue,
}

impl Sampled {
    pub(super) fn new(r: &mut Registry) -> Self {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        r.register("fnd", "The version of fnd", Info::new(version));
        let plain = |r: &mut Registry, name: &str, help: &str| {
            let family = Family::default();
            r.register(name, help, Family::clone(&family));
            family
        };
        Self {
            functions: plain(r, "fnd_functions", "Functions by state"),
            with_errors: gauge(
                r,
                "fnd_functions_with_errors",
                "Functions whose newest content does not serve",
                None,
            ),
            queue_depth: plain(r, "fnd_queue_depth", "Invocations accepted and not running"),
            dead_letters: plain(
                r,
                "fnd_dead_letters",
                "Dead letters, until they are redriven or dropped",
            ),
            last_run_failed: plain(r, "fnd_last_run_failed", "Whether the last attempt failed"),
            files_waiting: plain(
                r,
                "fnd_files_waiting",
                "Files that are ready and have no invocation yet",
            ),
            running: plain(r, "fnd_attempts_running", "Attempts running"),
            workers: plain(r, "fnd_workers", "Processes of functions by state"),
            memory: value(r, "fnd_memory", "Memory functions with processes use", Unit::Bytes),
            problems: plain(r, "fnd_problems", "Problems of the node, by code"),
            connections: {
                let family = Family::default();
                let help = "Open connections of the control socket, by user";
                r.register("fnd_control_connections", help, Family::clone(&family));
                family
            },
            refused: counter(
                r,
                "fnd_control_connections_refused",
                "Connections of the control socket refused because too many were open",
            ),
            silent: counter(
                r,
                "fnd_control_connections_silent",
                "Connections of the control socket closed because nothing was sent on them",
            ),
            buffers: value(r, "fnd_buffers", "Bodies and answers held for callers", Unit::Bytes),
            buffers_refused: counter(
                r,
                "fnd_buffers_refused",
                "Bodies and answers that neither memory nor disk had room for",
            ),
            spawner_up: gauge(
                r,
                "fnd_spawner_up",
                "Whether fnd-spawner is connected and answers",
                None,
            ),
            history_failing: gauge(r, "fnd_history_failing", "Whether the history cannot be written", None),
            history_lost: {
                let counter = Counter::default();
                r.register(
                    "fnd_history_lost_records",
                    "Records of the history that were lost",
                    counter.clone(),
                );
                counter
            },
            history_forgotten: {
                let family = MetricCounts::default();
                r.register(
                    "fnd_history_forgotten_records",
                    "Records of the history that were forgotten, by why",
                    family.clone(),
                );
                family
            },
            history_failed: {
                let counter = Counter::default();
                r.register(
                    "fnd_history_failed_writes",
                    "Writes of the history that failed",
                    counter.clone(),
                );
                counter
            },
            history_queue_age: gauge(
                r,
                "fnd_history_queue_age",
                "How long the oldest record has waited for the disk",
                Some(Unit::Seconds),
            ),
            process_cpu: {
                let counter = Sum::default();
                let help = "CPU time of fnd itself";
                r.register_with_unit("process_cpu", help, Unit::Seconds, counter.clone());
                counter
            },
            process_resident: gauge(
                r,
                "process_resident_memory",
                "Resident memory of fnd itself",
                Some(Unit::Bytes),
            ),
            process_virtual: gauge(
                r,
                "process_virtual_memory",
                "Virtual memory of fnd itself",
                Some(Unit::Bytes),
            ),
            process_fds: gauge(r, "process_open_fds", "Descriptors fnd has open", None),
            process_fds_max: gauge(r, "process_max_fds", "Descriptors fnd may have open", None),
            process_threads: gauge(r, "process_threads", "Threads of fnd", None),
            process_started: gauge(
                r,
                "process_start_time",
                "When fnd was started, in Unix time",
                Some(Unit::Seconds),
            ),
        }
    }
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

fn gauge(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>) -> SampleValue {
    let gauge = SampleValue::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, gauge.clone()),
        None => registry.register(name, help, gauge.clone()),
    }
    gauge
}

/// Returns a count of objects in memory as a gauge's value.
fn count(count: usize) -> f64 {
    number(count as u64)
}

impl Metrics {
    /// Samples all values that are not of a function, after the last piece of these.
    pub(super) fn sample(&mut self, state: &Driver, walk: &SampleWalk) {
        for (function, waiting) in state.watchers.waiting() {
            let own = Labels(Some(self.label(function)), None);
            self.sampled.files_waiting.get_or_create(&own).inc_by(number(waiting));
        }
        let sampled = &self.sampled;
        sampled.with_errors.set(count(walk.errors));
        for (word, functions) in state.supervisor.by_state() {
            let labels = Labels(None, Some(("state", word.as_str())));
            sampled.functions.get_or_create(&labels).set(count(functions));
        }
        let health = state.records.ledger.health();
        let up = state.workers.connection.is_some() && !state.supervisor.is_spawner_silent();
        sampled.spawner_up.set(f64::from(u8::from(up)));
        sampled
            .history_failing
            .set(f64::from(u8::from(health.failing.is_some())));
        sampled
            .history_lost
            .inner()
            .store(health.lost, std::sync::atomic::Ordering::Relaxed);
        sampled
            .history_failed
            .inner()
            .store(health.failed, std::sync::atomic::Ordering::Relaxed);
        sampled
            .history_queue_age
            .set(state.records.ledger.queue_age().as_secs_f64());
        let forgotten = [
            ("kept", state.records.ledger.figures().forgotten),
            ("room", health.forgetting.for_room),
        ];
        for (reason, count) in forgotten {
            let series = sampled
                .history_forgotten
                .get_or_create(&Labels(None, Some(("reason", reason))));
            series.inner().store(count, std::sync::atomic::Ordering::Relaxed);
        }
        let labels = |code| Labels(None, Some(("code", code)));
        // Every code has a series, so that an alert sees a problem begin and end.
        for &code in problems::CODES {
            sampled.problems.get_or_create(&labels(code)).set(0.0);
        }
        for problem in state.problems() {
            sampled.problems.get_or_create(&labels(problem.code)).inc();
        }
        let store = |counter: &Counter, count| counter.inner().store(count, std::sync::atomic::Ordering::Relaxed);
        // A user that has no connection any more would keep its last number.
        sampled.connections.clear();
        for (owner, open) in state.callers.connections.by_owner() {
            let ConnectionOwner::User(uid) = owner else { continue };
            let user = [("uid", uid.to_string())];
            sampled.connections.get_or_create(&user).set(count(open));
        }
        store(&sampled.refused, state.callers.connections.refused());
        store(&sampled.silent, state.callers.connections.silent());
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
            sampled
                .process_resident
                .set(number(stat.rss.saturating_mul(procfs::page_size())));
            sampled.process_virtual.set(number(stat.vsize));
            sampled
                .process_threads
                .set(number(u64::try_from(stat.num_threads).unwrap_or(0)));
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

    /// Forgets the values of functions before they are sampled.
    pub(super) fn forget_functions(&self) {
        let sampled = &self.sampled;
        for family in [
            &sampled.functions,
            &sampled.queue_depth,
            &sampled.dead_letters,
            &sampled.last_run_failed,
            &sampled.files_waiting,
            &sampled.running,
            &sampled.workers,
            &sampled.memory,
        ] {
            family.clear();
        }
    }

    /// Samples the values of some functions, or of some workers after the last function. Returns whether more follow.
    pub(super) fn sample_piece(&mut self, state: &Driver, walk: &mut SampleWalk) -> bool {
        if walk.functions_done {
            return self.of_workers(state, walk);
        }
        let next = state.piece(walk.after.as_ref(), |state, view| {
            walk.errors += self.of_function(state, view);
        });
        walk.functions_done = next.is_none();
        walk.after = next;
        true
    }

    /// Samples the values of a function. Returns 1 if its newest content does not serve.
    fn of_function(&mut self, state: &Driver, view: &FunctionView<'_>) -> usize {
        let own = Labels(Some(self.label(view.name)), None);
        // Added, not set: many functions may share the label of the others.
        let sampled = &self.sampled;
        sampled.queue_depth.get_or_create(&own).inc_by(count(view.queued));
        sampled.running.get_or_create(&own).inc_by(count(view.running));
        let dead = number(state.records.ledger.dead_letters_of(view.name));
        sampled.dead_letters.get_or_create(&own).inc_by(dead);
        if let Some(last) = view.last {
            // Between two polls nothing has failed.
            let polls = last.attempt.reason == Reason::ExecuteAgain && last.attempt.next_attempt_ms.is_some();
            let ended_badly = last.attempt.reason.final_state().is_failure() && !polls;
            let has_failed = view.up_since_ms.is_none() && ended_badly;
            let failed = f64::from(u8::from(has_failed));
            sampled.last_run_failed.get_or_create(&own).inc_by(failed);
        }
        if view.workers > 0
            && let Some(bytes) = usage::memory_now(&state.workers.welcome.memory, &view.name.file_form())
        {
            sampled.memory.get_or_create(&own).inc_by(number(bytes));
        }
        let known = state.functions.registry.get(view.name);
        let refused = known.is_some_and(|function| function.findings.error.is_some());
        usize::from(refused || view.error.is_some())
    }

    fn of_workers(&mut self, state: &Driver, walk: &mut SampleWalk) -> bool {
        let mut workers = state.supervisor.workers_after(walk.worker);
        let mut last = None;
        for (worker, function, phase) in workers.by_ref().take(PIECE) {
            let labels = Labels(Some(self.label(function)), Some(("state", phase)));
            self.sampled.workers.get_or_create(&labels).inc();
            last = Some(worker);
        }
        walk.worker = last;
        workers.next().is_some()
    }
}
