//! The values that are read for each scrape (`exposition`): gauges, and counters that other parts keep.

use super::registering::{MetricRegistry, metric_set};
use super::{LabelValues, MetricCounts, Metrics, SampleValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::sync::atomic::AtomicU64;

metric_set! {
    /// The connection, and by function what this node has of its messages.
    NatsMetrics(r) {
        connected: SampleValue = r.plain("fnd_nats_connected", "Whether fnd is connected to a server of NATS");
        round_trip: SampleValue = r.seconds(
            "fnd_nats_round_trip",
            "How long the server of NATS took for its last answer",
        );
        pending: LabelValues = r.plain(
            "fnd_nats_pending",
            "Messages that the server has not delivered yet, to any node",
        );
        here: LabelValues = r.plain(
            "fnd_nats_here",
            "Messages that this node has and whose runs have not ended, or that are not acknowledged",
        );
        leases: LabelValues = r.plain("fnd_nats_leases", "Attempts that end unless the lease of this node is renewed");
        redelivered: MetricCounts = r.plain(
            "fnd_nats_redelivered",
            "Messages that came to this node and were delivered before",
        );
        leases_lost: MetricCounts = r.plain(
            "fnd_nats_leases_lost",
            "Attempts that were ended because the lease was not renewed in time",
        );
        claims_refused: MetricCounts = r.plain(
            "fnd_nats_claims_refused",
            "Claims that were refused because another node has the message",
        );
        duplicates: MetricCounts = r.plain(
            "fnd_nats_duplicates",
            "Messages that were acknowledged because another one with the same identity has run",
        );
        skipped: MetricCounts = r.plain(
            "fnd_nats_skipped",
            "Messages that were acknowledged because `when` does not hold",
        );
    }
}

impl NatsMetrics {
    /// Forgets the values of functions before they are read.
    pub(crate) fn forget_functions(&self) {
        for values in [&self.pending, &self.here, &self.leases] {
            values.clear();
        }
        for counts in [
            &self.redelivered,
            &self.leases_lost,
            &self.claims_refused,
            &self.duplicates,
            &self.skipped,
        ] {
            counts.clear();
        }
    }
}

metric_set! {
    /// The gauges, and the counters that other parts keep.
    Sampled(r) {
        functions: LabelValues = r.plain("fnd_functions", "Functions by state");
        with_errors: SampleValue = r.plain(
            "fnd_functions_with_errors",
            "Functions whose newest content does not serve",
        );
        queue_depth: LabelValues = r.plain("fnd_queue_depth", "Invocations accepted and not running");
        dead_letters: LabelValues = r.plain("fnd_dead_letters", "Dead letters, until they are redriven or dropped");
        last_run_failed: LabelValues = r.plain("fnd_last_run_failed", "Whether the last attempt failed");
        files_waiting: LabelValues = r.plain("fnd_files_waiting", "Files that are ready and have no invocation yet");
        running: LabelValues = r.plain("fnd_attempts_running", "Attempts running");
        workers: LabelValues = r.plain("fnd_workers", "Processes of functions by state");
        memory: LabelValues = r.bytes("fnd_memory", "Memory functions with processes use");
        problems: LabelValues = r.plain("fnd_problems", "Problems of the node, by code");
        connections: Family<[(&'static str, String); 1], SampleValue> = r.plain(
            "fnd_control_connections",
            "Open connections of the control socket, by user",
        );
        refused: Counter = r.plain(
            "fnd_control_connections_refused",
            "Connections of the control socket refused because too many were open",
        );
        silent: Counter = r.plain(
            "fnd_control_connections_silent",
            "Connections of the control socket closed because nothing was sent on them",
        );
        buffers: LabelValues = r.bytes("fnd_buffers", "Bodies and answers held for callers");
        buffers_refused: Counter = r.plain(
            "fnd_buffers_refused",
            "Bodies and answers that neither memory nor disk had room for",
        );
        spawner_up: SampleValue = r.plain("fnd_spawner_up", "Whether fnd-spawner is connected and answers");
        history_failing: SampleValue = r.plain("fnd_history_failing", "Whether the history cannot be written");
        history_lost: Counter = r.plain("fnd_history_lost_records", "Records of the history that were lost");
        history_forgotten: MetricCounts = r.plain(
            "fnd_history_forgotten_records",
            "Records of the history that were forgotten, by why",
        );
        history_failed: Counter = r.plain("fnd_history_failed_writes", "Writes of the history that failed");
        history_queue_age: SampleValue = r.seconds(
            "fnd_history_queue_age",
            "How long the oldest record has waited for the disk",
        );
        nats: NatsMetrics = NatsMetrics::new(r);
        // The names `process_*` are those that Prometheus' client libraries give to the values of their process.
        process_cpu: Counter<f64, AtomicU64> = r.seconds("process_cpu", "CPU time of fnd itself");
        process_resident: SampleValue = r.bytes("process_resident_memory", "Resident memory of fnd itself");
        process_virtual: SampleValue = r.bytes("process_virtual_memory", "Virtual memory of fnd itself");
        process_fds: SampleValue = r.plain("process_open_fds", "Descriptors fnd has open");
        process_fds_max: SampleValue = r.plain("process_max_fds", "Descriptors fnd may have open");
        process_threads: SampleValue = r.plain("process_threads", "Threads of fnd");
        process_started: SampleValue = r.seconds("process_start_time", "When fnd was started, in Unix time");
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
