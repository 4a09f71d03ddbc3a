//! Makes all metrics that are counted, with their names and descriptions.

use super::*;

/// Upper bounds of the buckets for the main loop's lag, in seconds: a timer by itself is late by one millisecond.
const LAGS: [f64; 8] = [0.002, 0.005, 0.02, 0.05, 0.2, 0.5, 2.0, 10.0];

/// Upper bounds of the buckets of durations, seconds: from a warm handler's call to a nightly backup.
const BUCKETS: [f64; 13] = [
    0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0,
];

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let durations = DurationMetrics::new_with_constructor(|| Histogram::new(BUCKETS));
        // prometheus-client appends the unit to the name, and `_total` to the name of a counter. So this is
        // `function_duration_seconds`.
        r.register_with_unit(
            "function_duration",
            "How long attempts took",
            Unit::Seconds,
            durations.clone(),
        );
        let metrics = Self {
            functions: HashMap::new(),
            other: Series::new(OTHER),
            other_known: false,
            calls: count(r, "function_calls", "Invocations that ran and are over"),
            failures: count(r, "function_failures", "Invocations that failed or were interrupted"),
            durations,
            attempts: count(r, "fnd_attempts", "Attempts that ended, by reason"),
            invocations: count(r, "fnd_invocations", "Invocations that ended, by state"),
            retries: count(r, "fnd_retries", "Failed attempts after which another one followed"),
            gave_up: count(
                r,
                "fnd_gave_up",
                "Invocations that failed because retries, polls or deadline ran out",
            ),
            dropped: count(r, "fnd_requests_dropped", "Requests that were not run, by why"),
            cold_starts: count(r, "fnd_cold_starts", "Attempts that waited for a process to start"),
            workers_started: count(r, "fnd_workers_started", "Processes that were started"),
            cpu: sum(r, "fnd_cpu", "CPU time of processes that ended", Unit::Seconds),
            throttled: sum(
                r,
                "fnd_cpu_throttled",
                "Time that processes which ended were held back by their CPU limit",
                Unit::Seconds,
            ),
            memory_peak: value(
                r,
                "fnd_memory_peak",
                "Peak memory of the last process that ended",
                Unit::Bytes,
            ),
            output_dropped: {
                let family = MetricCounts::default();
                r.register_with_unit(
                    "fnd_output_dropped",
                    "Output that was not kept because it was too much",
                    Unit::Bytes,
                    family.clone(),
                );
                family
            },
            last_success: value(
                r,
                "fnd_last_success_timestamp",
                "When an attempt last ended well, in Unix time",
                Unit::Seconds,
            ),
            routes: HashSet::new(),
            requests: {
                let family = Family::default();
                r.register(
                    "fnd_http_requests",
                    "Requests to the public listener, by route and status",
                    family.clone(),
                );
                family
            },
            request_durations: {
                // The field names the type of the constructor, so the closure becomes a function pointer.
                let family = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
                let help = "How long requests to the public listener took until their answer began, by route";
                r.register_with_unit("fnd_http_request_duration", help, Unit::Seconds, family.clone());
                family
            },
            missed: count(r, "fnd_schedule_missed", "Scheduled runs that were missed for too long"),
            lateness: {
                let histogram = Histogram::new(LAGS);
                let help = "How long after their time scheduled runs were requested";
                r.register_with_unit("fnd_schedule_lateness", help, Unit::Seconds, histogram.clone());
                histogram
            },
            upgraded_bytes: {
                let family = Family::default();
                let help = "Bytes of connections that spoke another protocol after an upgrade, by route and receiver";
                r.register("fnd_http_upgraded_bytes", help, family.clone());
                family
            },
            events: {
                let family = Family::default();
                r.register(
                    "fnd_events",
                    "Events that were sent, by what became of them",
                    family.clone(),
                );
                family
            },
            rescans: {
                let counter = Counter::default();
                r.register(
                    "fnd_rescans",
                    "Looks at the functions directories that were asked for",
                    counter.clone(),
                );
                counter
            },
            put_back: {
                let counter = Counter::default();
                let help = "Starts that failed because the node had run out of something, and are made again";
                r.register("fnd_starts_put_back", help, counter.clone());
                counter
            },
            hooks: count(r, "fnd_hooks", "Calls of hooks that are over, by outcome"),
            alerts: count(r, "fnd_alerts", "Calls of alerts, by what they tell"),
            lag: {
                let histogram = Histogram::new(LAGS);
                let help = "By how much the main loop came later than it wanted to";
                r.register_with_unit("fnd_main_loop_lag", help, Unit::Seconds, histogram.clone());
                histogram
            },
            sampled: sampled::Sampled::new(r),
            asking: Arc::default(),
            // The real one follows below: here it is still borrowed.
            registry: Arc::default(),
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
        Self {
            registry: Arc::new(registry),
            ..metrics
        }
    }
}

pub(super) fn count(registry: &mut Registry, name: &str, help: &str) -> MetricCounts {
    let family = MetricCounts::default();
    registry.register(name, help, family.clone());
    family
}

fn sum(registry: &mut Registry, name: &str, help: &str, unit: Unit) -> Sums {
    let family = Sums::default();
    registry.register_with_unit(name, help, unit, family.clone());
    family
}

pub(super) fn value(registry: &mut Registry, name: &str, help: &str, unit: Unit) -> LabelValues {
    let family = LabelValues::default();
    registry.register_with_unit(name, help, unit, family.clone());
    family
}
