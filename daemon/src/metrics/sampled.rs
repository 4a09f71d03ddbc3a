//! The values that are read for each scrape (`exposition/sample.rs`): gauges, and counters that other parts keep.

use super::nats::NatsMetrics;
use super::{LabelValues, MetricCounts, Metrics, value};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

pub(super) type SampleValue = Gauge<f64, AtomicU64>;
type Sum = Counter<f64, AtomicU64>;

/// The gauges, and the counters that other parts keep.
pub(crate) struct Sampled {
    pub(crate) functions: LabelValues,
    pub(crate) with_errors: SampleValue,
    pub(crate) queue_depth: LabelValues,
    pub(crate) dead_letters: LabelValues,
    pub(crate) last_run_failed: LabelValues,
    pub(crate) files_waiting: LabelValues,
    pub(crate) running: LabelValues,
    pub(crate) workers: LabelValues,
    pub(crate) memory: LabelValues,
    pub(crate) spawner_up: SampleValue,
    pub(crate) problems: LabelValues,
    pub(crate) connections: Family<[(&'static str, String); 1], SampleValue>,
    pub(crate) refused: Counter,
    pub(crate) silent: Counter,
    pub(crate) buffers: LabelValues,
    pub(crate) buffers_refused: Counter,
    pub(crate) history_failing: SampleValue,
    pub(crate) history_lost: Counter,
    pub(crate) history_forgotten: MetricCounts,
    pub(crate) history_failed: Counter,
    pub(crate) history_queue_age: SampleValue,
    pub(crate) nats: NatsMetrics,
    pub(crate) process_cpu: Sum,
    pub(crate) process_resident: SampleValue,
    pub(crate) process_virtual: SampleValue,
    pub(crate) process_fds: SampleValue,
    pub(crate) process_fds_max: SampleValue,
    pub(crate) process_threads: SampleValue,
    pub(crate) process_started: SampleValue,
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
            nats: NatsMetrics::new(r),
            // The names `process_*` are those that Prometheus' client libraries give to the values of their process.
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

pub(super) fn gauge(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>) -> SampleValue {
    let gauge = SampleValue::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, gauge.clone()),
        None => registry.register(name, help, gauge.clone()),
    }
    gauge
}

impl Metrics {
    /// Forgets the values of functions before they are sampled.
    pub(crate) fn forget_functions(&self) {
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
}
