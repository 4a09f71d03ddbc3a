//! The metrics for Prometheus: the names of Kubeless first, then fnd's own (`docs/metrics.md` describes each).
//!
//! Counters begin at 0 with each fnd; gauges are sampled for each scrape ([`sample`]). Labels are bounded: functions by
//! [`FUNCTIONS_MAX`], everything else by closed lists; no id is ever a label.
//!
//! Files:
//! - `encode`: writes metrics as text in two forms
//! - `expose`: exposes metrics beside the control socket, in the places that the configuration in force names
//! - `listen`: `[metrics] listen`
//! - `sample`: samples the current values for a scrape
//! - `textfile`: `[metrics] textfile`

mod encode;
mod expose;
mod listen;
mod sample;
#[cfg(test)]
pub(crate) mod tests;
mod textfile;

pub use encode::Form;
pub(crate) use encode::scrape;
pub(crate) use expose::Exposed;

use crate::control::backend::EventOutcome;
use fnd_core::outcome::{Reason, State};
use fnd_core::record::{AttemptRecord, InvocationRecord, Usage};
use fnd_core::report::RequestEnd;
use fnd_core::triggers::alerts::Word;
use fnd_wire::ids::FunctionName;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Most functions with series of their own; all others share the series of [`OTHER`]. A thousand functions have some
/// 60,000 series.
const FUNCTIONS_MAX: usize = 1000;

/// No function can have this name.
const OTHER: &str = "_other";

/// Upper bounds of the buckets for the main loop's lag, in seconds: a timer by itself is late by one millisecond.
const LAGS: [f64; 8] = [0.002, 0.005, 0.02, 0.05, 0.2, 0.5, 2.0, 10.0];

/// Upper bounds of the buckets of durations, seconds: from a warm handler's call to a nightly backup.
const BUCKETS: [f64; 13] = [
    0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0,
];

/// Methods of requests; `NONE` for an invocation that no request started.
pub(crate) const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "OTHER", "NONE",
];

/// Returns the label of a request's method.
pub(crate) fn method(of_request: Option<&str>) -> &'static str {
    let Some(method) = of_request else { return "NONE" };
    METHODS
        .into_iter()
        .find(|known| *known == method && method != "NONE")
        .unwrap_or("OTHER")
}

/// The labels of a series: the function, and one more where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Labels(Option<Arc<str>>, Option<(&'static str, &'static str)>);

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        use prometheus_client::encoding::EncodeLabel as _;
        if let Some(function) = &self.0 {
            ("function", &**function).encode(encoder.encode_label())?;
        }
        match self.1 {
            Some(pair) => pair.encode(encoder.encode_label()),
            None => Ok(()),
        }
    }
}

type Counts = Family<Labels, Counter>;
type Sums = Family<Labels, Counter<f64, AtomicU64>>;
type Values = Family<Labels, Gauge<f64, AtomicU64>>;
type Durations = Family<Labels, Histogram, fn() -> Histogram>;

/// The series of a function that each of its attempts counts in. They are kept here because a look-up by labels takes 2
/// us for each attempt.
struct Series {
    label: Arc<str>,
    by_method: Cached<(Counter, Counter)>,
    durations: Cached<Histogram>,
    by_reason: Cached<Counter>,
    by_state: Cached<Counter>,
    last_success: Option<Gauge<f64, AtomicU64>>,
}

impl Series {
    fn new(label: &str) -> Self {
        Self {
            label: label.into(),
            by_method: Cached(Vec::new()),
            durations: Cached(Vec::new()),
            by_reason: Cached(Vec::new()),
            by_state: Cached(Vec::new()),
            last_success: None,
        }
    }
}

/// A few series, by the value of one label.
struct Cached<M>(Vec<(&'static str, M)>);

impl<M> Cached<M> {
    fn of(&mut self, value: &'static str, make: impl FnOnce() -> M) -> &M {
        let known = self.0.iter().position(|(other, _)| *other == value);
        let place = known.unwrap_or_else(|| {
            self.0.push((value, make()));
            self.0.len() - 1
        });
        &self.0[place].1
    }
}

/// Returns the series of a function; a new function gets its own while there is room.
fn series<'a>(
    functions: &'a mut HashMap<FunctionName, Series>,
    other: &'a mut Series,
    function: &FunctionName,
) -> &'a mut Series {
    if !functions.contains_key(function) {
        if functions.len() >= FUNCTIONS_MAX {
            return other;
        }
        functions.insert(function.clone(), Series::new(function.as_str()));
    }
    functions.get_mut(function).unwrap_or(other)
}

/// The labels of a request to the public listener.
type RequestLabels = Vec<(&'static str, String)>;

/// All metrics that are counted as the events happen.
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    /// Functions with series of their own.
    functions: HashMap<FunctionName, Series>,
    other: Series,
    /// Whether the series of all other functions have begun.
    other_known: bool,
    calls: Counts,
    failures: Counts,
    durations: Durations,
    attempts: Counts,
    invocations: Counts,
    retries: Counts,
    gave_up: Counts,
    dropped: Counts,
    cold_starts: Counts,
    workers_started: Counts,
    cpu: Sums,
    throttled: Sums,
    memory_peak: Values,
    output_dropped: Counts,
    last_success: Values,
    requests: Family<RequestLabels, Counter>,
    request_durations: Family<RequestLabels, Histogram, fn() -> Histogram>,
    events: Family<[(&'static str, &'static str); 1], Counter>,
    missed: Counts,
    lateness: Histogram,
    upgraded_bytes: Family<RequestLabels, Counter>,
    rescans: Counter,
    put_back: Counter,
    hooks: Counts,
    alerts: Counts,
    lag: Histogram,
    sampled: sample::Sampled,
    /// Lets one scrape run at a time: gauges are sampled, then written as text on another thread.
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let durations = Durations::new_with_constructor(|| Histogram::new(BUCKETS));
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
                let family = Counts::default();
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
            sampled: sample::Sampled::new(r),
            asking: Arc::default(),
            registry: Arc::default(),
        };
        // Prometheus does not see an increase in a counter that first appears with the value 1.
        for word in Word::ALL {
            metrics.alerts(word);
        }
        for state in State::ALL.into_iter().filter(|state| state.is_final()) {
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

    /// Counts a call of a hook that is over.
    pub(crate) fn hook_ended(&self, state: State) {
        self.hooks(state).inc();
    }

    /// Counts a call of an alert.
    pub(crate) fn told(&self, word: Word) {
        self.alerts(word).inc();
    }

    fn hooks(&self, state: State) -> Counter {
        let labels = Labels(None, Some(("outcome", state.as_str())));
        self.hooks.get_or_create_owned(&labels)
    }

    fn alerts(&self, word: Word) -> Counter {
        let labels = Labels(None, Some(("alert", word.as_str())));
        self.alerts.get_or_create_owned(&labels)
    }

    /// Counts a start that is repeated.
    pub(crate) fn put_back(&self) {
        self.put_back.inc();
    }

    /// Counts events that were sent, by what became of them.
    pub(crate) fn events(&self, outcome: &'static str, events: u64) {
        self.events.get_or_create(&[("outcome", outcome)]).inc_by(events);
    }

    /// Counts a late turn of the main loop.
    pub(crate) fn late(&self, by: Duration) {
        self.lag.observe(by.as_secs_f64());
    }

    /// Returns the label of a function.
    fn label(&mut self, function: &FunctionName) -> Arc<str> {
        Arc::clone(&series(&mut self.functions, &mut self.other, function).label)
    }

    /// Adds a function. Counters that alerts watch begin at 0 now: Prometheus does not see an increase in a counter
    /// that first appears with the value 1.
    pub(crate) fn known(&mut self, function: &FunctionName) {
        let label = self.label(function);
        // Of ten thousand functions, nine thousand share these series.
        if &*label == OTHER && std::mem::replace(&mut self.other_known, true) {
            return;
        }
        let with = |pair| Labels(Some(Arc::clone(&label)), pair);
        for reason in ["ok", "timeout", "oom"] {
            drop(self.attempts.get_or_create(&with(Some(("reason", reason)))));
        }
        for reason in ["skipped-queue-full", "skipped-rate", "skipped-expired", "skipped-quota"] {
            drop(self.dropped.get_or_create(&with(Some(("reason", reason)))));
        }
        let own = with(None);
        for counts in self.plain_counts() {
            drop(counts.get_or_create(&own));
        }
        drop(self.cpu.get_or_create(&own));
        drop(self.throttled.get_or_create(&own));
    }

    /// Returns the counters with no label but the function.
    fn plain_counts(&self) -> [&Counts; 6] {
        [
            &self.missed,
            &self.retries,
            &self.gave_up,
            &self.cold_starts,
            &self.workers_started,
            &self.output_dropped,
        ]
    }

    /// Counts an invocation that has run and is over, and says by which method it was requested.
    pub(crate) fn call_ended(&mut self, record: &InvocationRecord, method: &'static str) {
        let series = series(&mut self.functions, &mut self.other, &record.function);
        let labels = || Labels(Some(Arc::clone(&series.label)), Some(("method", method)));
        let (calls, failures) = series.by_method.of(method, || {
            (
                self.calls.get_or_create_owned(&labels()),
                self.failures.get_or_create_owned(&labels()),
            )
        });
        calls.inc();
        failures.inc_by(u64::from(record.state.is_failure()));
    }

    /// Counts a request to the public listener. A route is named as its manifest writes it, so that callers cannot make
    /// series.
    pub(crate) fn requested(&mut self, request: &RequestEnd<'_>) {
        let path = request.route.map_or("", |(_, path)| path);
        let route = || ("route", path.to_owned());
        let status = ("status", request.class().to_owned());
        self.requests.get_or_create(&vec![route(), status]).inc();
        let durations = self.request_durations.get_or_create(&vec![route()]);
        durations.observe(request.took.as_secs_f64());
        if let Some(upgraded) = request.upgraded {
            for (to, bytes) in [("caller", upgraded.to_caller), ("function", upgraded.from_caller)] {
                let labels = vec![route(), ("to", to.to_owned())];
                self.upgraded_bytes.get_or_create(&labels).inc_by(bytes);
            }
        }
    }

    /// Counts slots of a schedule: how late the run is, and how many slots were missed.
    pub(crate) fn slots_due(&mut self, function: &FunctionName, late: Option<Duration>, missed: u64) {
        if let Some(late) = late {
            self.lateness.observe(late.as_secs_f64());
        }
        if missed > 0 {
            let series = series(&mut self.functions, &mut self.other, function);
            let own = Labels(Some(Arc::clone(&series.label)), None);
            self.missed.get_or_create_owned(&own).inc_by(missed);
        }
    }

    /// Counts an attempt that has ended.
    pub(crate) fn attempt_ended(&mut self, attempt: &AttemptRecord, method: &'static str) {
        let series = series(&mut self.functions, &mut self.other, &attempt.function);
        let label = &series.label;
        let with = |key, value| Labels(Some(Arc::clone(label)), Some((key, value)));
        let own = || Labels(Some(Arc::clone(label)), None);
        let durations = || self.durations.get_or_create_owned(&with("method", method));
        series
            .durations
            .of(method, durations)
            .observe(micros(attempt.duration_us));
        let ended_well = attempt.reason.final_state() == State::Succeeded;
        let reason = attempt.reason.word();
        let by_reason = || self.attempts.get_or_create_owned(&with("reason", reason));
        series.by_reason.of(reason, by_reason).inc();
        if ended_well {
            let last_success = || self.last_success.get_or_create_owned(&own());
            let last_success = series.last_success.get_or_insert_with(last_success);
            last_success.set(millis(attempt.ended_ms));
        }
        // For a script each attempt starts a process.
        if attempt.cold.unwrap_or(attempt.worker.is_some()) {
            self.cold_starts.get_or_create(&own()).inc();
        }
        if attempt.next_attempt_ms.is_some() && attempt.reason != Reason::ExecuteAgain {
            self.retries.get_or_create(&own()).inc();
        }
        if attempt.usage.dropped_bytes > 0 {
            self.output_dropped
                .get_or_create(&own())
                .inc_by(attempt.usage.dropped_bytes);
        }
    }

    /// Sets the time of the last success from the history of an earlier fnd.
    pub(crate) fn succeeded_before(&mut self, attempt: &AttemptRecord) {
        if attempt.reason.final_state() == State::Succeeded {
            let own = Labels(Some(self.label(&attempt.function)), None);
            self.last_success.get_or_create(&own).set(millis(attempt.ended_ms));
        }
    }

    /// Counts an invocation that has ended.
    pub(crate) fn invocation_ended(&mut self, function: &FunctionName, state: State, gave_up: bool) {
        let series = series(&mut self.functions, &mut self.other, function);
        let label = &series.label;
        let by_state = || {
            let pair = ("state", state.as_str());
            self.invocations
                .get_or_create_owned(&Labels(Some(Arc::clone(label)), Some(pair)))
        };
        series.by_state.of(state.as_str(), by_state).inc();
        if gave_up {
            self.gave_up.get_or_create(&Labels(Some(Arc::clone(label)), None)).inc();
        }
    }

    /// Counts a request that was not run.
    pub(crate) fn dropped(&mut self, function: &FunctionName, reason: Reason) {
        let by_reason = Labels(Some(self.label(function)), Some(("reason", reason.word())));
        self.dropped.get_or_create(&by_reason).inc();
    }

    /// Counts a process that was asked for.
    pub(crate) fn worker_started(&mut self, function: &FunctionName) {
        let own = Labels(Some(self.label(function)), None);
        self.workers_started.get_or_create(&own).inc();
    }

    /// Counts the usage of a process that has ended, independent of the calls it had.
    pub(crate) fn worker_ended(&mut self, function: &FunctionName, usage: &Usage) {
        let own = Labels(Some(self.label(function)), None);
        self.cpu.get_or_create(&own).inc_by(micros(usage.cpu_us));
        if usage.throttled_us > 0 {
            self.throttled.get_or_create(&own).inc_by(micros(usage.throttled_us));
        }
        if let Some(peak) = usage.memory_peak_bytes {
            self.memory_peak.get_or_create(&own).set(number(peak));
        }
    }

    /// Counts a scan that is over.
    pub(crate) fn rescanned(&self) {
        self.rescans.inc();
    }

    /// Removes the series of a function that is gone.
    pub(crate) fn forget(&mut self, function: &FunctionName) {
        let Some(Series { label, .. }) = self.functions.remove(function) else {
            return;
        };
        let with = |pair| Labels(Some(Arc::clone(&label)), pair);
        for method in METHODS {
            let labels = with(Some(("method", method)));
            self.calls.remove(&labels);
            self.failures.remove(&labels);
            self.durations.remove(&labels);
        }
        for reason in Reason::words() {
            let labels = with(Some(("reason", reason)));
            self.attempts.remove(&labels);
            self.dropped.remove(&labels);
        }
        for state in State::ALL {
            self.invocations.remove(&with(Some(("state", state.as_str()))));
        }
        let own = with(None);
        for counts in self.plain_counts() {
            counts.remove(&own);
        }
        self.cpu.remove(&own);
        self.throttled.remove(&own);
        self.memory_peak.remove(&own);
        self.last_success.remove(&own);
    }
}

fn count(registry: &mut Registry, name: &str, help: &str) -> Counts {
    let family = Counts::default();
    registry.register(name, help, family.clone());
    family
}

fn sum(registry: &mut Registry, name: &str, help: &str, unit: Unit) -> Sums {
    let family = Sums::default();
    registry.register_with_unit(name, help, unit, family.clone());
    family
}

fn value(registry: &mut Registry, name: &str, help: &str, unit: Unit) -> Values {
    let family = Values::default();
    registry.register_with_unit(name, help, unit, family.clone());
    family
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact to 2^53: bytes of a petabyte, microseconds of 285 years"
)]
fn number(number: u64) -> f64 {
    number as f64
}

fn micros(us: u64) -> f64 {
    number(us) / 1e6
}

fn millis(ms: u64) -> f64 {
    number(ms) / 1e3
}
