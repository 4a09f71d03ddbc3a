//! The values that are read for each scrape (`exposition/sample.rs`): gauges, and counters that other parts keep.

use super::nats::NatsMetrics;
use super::registering::MetricRegistry;
use super::{LabelValues, MetricCounts, Metrics, SampleValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::info::Info;
use std::sync::atomic::AtomicU64;

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
    pub(crate) process_cpu: Counter<f64, AtomicU64>,
    pub(crate) process_resident: SampleValue,
    pub(crate) process_virtual: SampleValue,
    pub(crate) process_fds: SampleValue,
    pub(crate) process_fds_max: SampleValue,
    pub(crate) process_threads: SampleValue,
    pub(crate) process_started: SampleValue,
}

impl Sampled {
    pub(super) fn new(r: &mut MetricRegistry) -> Self {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        r.0.register("fnd", "The version of fnd", Info::new(version));
        Self {
            functions: r.plain("fnd_functions", "Functions by state"),
            with_errors: r.plain(
                "fnd_functions_with_errors",
                "Functions whose newest content does not serve",
            ),
            queue_depth: r.plain("fnd_queue_depth", "Invocations accepted and not running"),
            dead_letters: r.plain("fnd_dead_letters", "Dead letters, until they are redriven or dropped"),
            last_run_failed: r.plain("fnd_last_run_failed", "Whether the last attempt failed"),
            files_waiting: r.plain("fnd_files_waiting", "Files that are ready and have no invocation yet"),
            running: r.plain("fnd_attempts_running", "Attempts running"),
            workers: r.plain("fnd_workers", "Processes of functions by state"),
            memory: r.bytes("fnd_memory", "Memory functions with processes use"),
            problems: r.plain("fnd_problems", "Problems of the node, by code"),
            connections: r.plain(
                "fnd_control_connections",
                "Open connections of the control socket, by user",
            ),
            refused: r.plain(
                "fnd_control_connections_refused",
                "Connections of the control socket refused because too many were open",
            ),
            silent: r.plain(
                "fnd_control_connections_silent",
                "Connections of the control socket closed because nothing was sent on them",
            ),
            buffers: r.bytes("fnd_buffers", "Bodies and answers held for callers"),
            buffers_refused: r.plain(
                "fnd_buffers_refused",
                "Bodies and answers that neither memory nor disk had room for",
            ),
            spawner_up: r.plain("fnd_spawner_up", "Whether fnd-spawner is connected and answers"),
            history_failing: r.plain("fnd_history_failing", "Whether the history cannot be written"),
            history_lost: r.plain("fnd_history_lost_records", "Records of the history that were lost"),
            history_forgotten: r.plain(
                "fnd_history_forgotten_records",
                "Records of the history that were forgotten, by why",
            ),
            history_failed: r.plain("fnd_history_failed_writes", "Writes of the history that failed"),
            history_queue_age: r.seconds(
                "fnd_history_queue_age",
                "How long the oldest record has waited for the disk",
            ),
            nats: NatsMetrics::new(r),
            // The names `process_*` are those that Prometheus' client libraries give to the values of their process.
            process_cpu: r.seconds("process_cpu", "CPU time of fnd itself"),
            process_resident: r.bytes("process_resident_memory", "Resident memory of fnd itself"),
            process_virtual: r.bytes("process_virtual_memory", "Virtual memory of fnd itself"),
            process_fds: r.plain("process_open_fds", "Descriptors fnd has open"),
            process_fds_max: r.plain("process_max_fds", "Descriptors fnd may have open"),
            process_threads: r.plain("process_threads", "Threads of fnd"),
            process_started: r.seconds("process_start_time", "When fnd was started, in Unix time"),
        }
    }
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
