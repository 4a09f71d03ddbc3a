//! The metrics that are counted, with their names and descriptions; makes all metrics.

use super::*;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Metric;

/// Defines a set of metrics. Each has its field, its type, and how it is made with the registry `r`.
macro_rules! metric_set {
    ($(#[$about:meta])* $set:ident($r:ident) { $($field:ident: $kind:ty = $made:expr;)* }) => {
        $(#[$about])*
        pub(crate) struct $set {
            $(pub(crate) $field: $kind,)*
        }

        impl $set {
            pub(super) fn new($r: &mut MetricRegistry) -> Self {
                Self {
                    $($field: $made,)*
                }
            }
        }
    };
}
pub(super) use metric_set;

/// Upper bounds of the buckets for the main loop's lag, in seconds: a timer by itself is late by one millisecond.
const LAGS: [f64; 8] = [0.002, 0.005, 0.02, 0.05, 0.2, 0.5, 2.0, 10.0];

/// Upper bounds of the buckets of durations, seconds: from a warm handler's call to a nightly backup.
const BUCKETS: [f64; 13] = [
    0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0,
];

/// A registry, to which each metric is added when it is made. It appends the unit to the name, and `_total` to the name of a
/// counter, so that `function_duration` is `function_duration_seconds`.
#[derive(Default)]
pub(super) struct MetricRegistry(pub(super) Registry);

impl MetricRegistry {
    /// Makes a metric without a unit.
    pub(super) fn plain<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register(name, help, metric.clone());
        metric
    }

    /// Makes a metric in bytes.
    pub(super) fn bytes<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register_with_unit(name, help, Unit::Bytes, metric.clone());
        metric
    }

    /// Makes a metric in seconds.
    pub(super) fn seconds<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.durations(name, help, M::default())
    }

    /// Adds a metric in seconds.
    fn durations<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register_with_unit(name, help, Unit::Seconds, metric.clone());
        metric
    }
}

metric_set! {
    /// The metrics that are counted as the events happen.
    Counted(r) {
        durations: DurationMetrics = {
            let family = DurationMetrics::new_with_constructor(|| Histogram::new(BUCKETS));
            r.durations("function_duration", "How long attempts took", family)
        };
        calls: MetricCounts = r.plain("function_calls", "Invocations that ran and are over");
        failures: MetricCounts = r.plain("function_failures", "Invocations that failed or were interrupted");
        attempts: MetricCounts = r.plain("fnd_attempts", "Attempts that ended, by reason");
        invocations: MetricCounts = r.plain("fnd_invocations", "Invocations that ended, by state");
        retries: MetricCounts = r.plain("fnd_retries", "Failed attempts after which another one followed");
        gave_up: MetricCounts = r.plain(
            "fnd_gave_up",
            "Invocations that failed because retries, polls or deadline ran out",
        );
        dropped: MetricCounts = r.plain("fnd_requests_dropped", "Requests that were not run, by why");
        cold_starts: MetricCounts = r.plain("fnd_cold_starts", "Attempts that waited for a process to start");
        workers_started: MetricCounts = r.plain("fnd_workers_started", "Processes that were started");
        cpu: Sums = r.seconds("fnd_cpu", "CPU time of processes that ended");
        throttled: Sums = r.seconds(
            "fnd_cpu_throttled",
            "Time that processes which ended were held back by their CPU limit",
        );
        memory_peak: LabelValues = r.bytes("fnd_memory_peak", "Peak memory of the last process that ended");
        output_dropped: MetricCounts = r.bytes(
            "fnd_output_dropped",
            "Output that was not kept because it was too much",
        );
        last_success: LabelValues = r.seconds(
            "fnd_last_success_timestamp",
            "When an attempt last ended well, in Unix time",
        );
        requests: Family<RequestLabels, Counter> = r.plain(
            "fnd_http_requests",
            "Requests to the public listener, by route and status",
        );
        request_durations: RequestDurations = {
            let family = RequestDurations::new_with_constructor(|| Histogram::new(BUCKETS));
            let help = "How long requests to the public listener took until their answer began, by route";
            r.durations("fnd_http_request_duration", help, family)
        };
        missed: MetricCounts = r.plain("fnd_schedule_missed", "Scheduled runs that were missed for too long");
        lateness: Histogram = r.durations(
            "fnd_schedule_lateness",
            "How long after their time scheduled runs were requested",
            Histogram::new(LAGS),
        );
        upgraded_bytes: Family<RequestLabels, Counter> = r.plain(
            "fnd_http_upgraded_bytes",
            "Bytes of connections that spoke another protocol after an upgrade, by route and receiver",
        );
        events: Family<[(&'static str, &'static str); 1], Counter> = r.plain(
            "fnd_events",
            "Events that were sent, by what became of them",
        );
        rescans: Counter = r.plain("fnd_rescans", "Looks at the functions directories that were asked for");
        put_back: Counter = r.plain(
            "fnd_starts_put_back",
            "Starts that failed because the node had run out of something, and are made again",
        );
        hooks: MetricCounts = r.plain("fnd_hooks", "Calls of hooks that are over, by outcome");
        alerts: MetricCounts = r.plain("fnd_alerts", "Calls of alerts, by what they tell");
        lag: Histogram = r.durations(
            "fnd_main_loop_lag",
            "By how much the main loop came later than it wanted to",
            Histogram::new(LAGS),
        );
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut r = MetricRegistry::default();
        let counted = Counted::new(&mut r);
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        r.0.register("fnd", "The version of fnd", Info::new(version));
        let sampled = Sampled::new(&mut r);
        let metrics = Self {
            registry: Arc::new(r.0),
            functions: BTreeMap::new(),
            other: Series::new(OTHER),
            other_known: false,
            routes: HashSet::new(),
            counted,
            sampled,
            asking: Arc::default(),
        };
        // Prometheus does not see an increase in a counter that first appears with the value 1.
        for word in AlertCondition::ALL {
            metrics.alerts(word);
        }
        for state in RunState::ALL.into_iter().filter(|state| state.is_final()) {
            metrics.hooks(state);
        }
        for outcome in EventOutcome::ALL {
            metrics.events(outcome.as_str(), 0);
        }
        metrics
    }
}
