//! The metrics for Prometheus: the names of Kubeless first, then fnd's own (`docs/metrics.md` describes each).
//!
//! Counters begin at 0 with each fnd; gauges are sampled for each scrape (`crate::exposition`). Labels are bounded: functions by
//! [`labels::FUNCTIONS_MAX`], everything else by closed lists; no id is ever a label.
//!
//! Files:
//! - `counting`: counts what happens
//! - `encode`: writes metrics as text in two forms
//! - `labels`: labels, and the series of each function
//! - `registering`: the metrics that are counted, with their names and descriptions
//! - `sampled`: the values that are read for each scrape

mod counting;
mod encode;
mod labels;
mod registering;
mod sampled;
/// The outcome of an event, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOutcome {
    /// At least one function takes it.
    Accepted,
    /// It was sent before.
    Duplicate,
    /// No function subscribes to it.
    Unmatched,
    /// No subscriber takes it.
    Refused,
    /// It is no CloudEvent.
    Malformed,
}

impl EventOutcome {
    pub const ALL: [Self; 5] = [
        Self::Accepted,
        Self::Duplicate,
        Self::Unmatched,
        Self::Refused,
        Self::Malformed,
    ];

    /// Returns the label of the metric.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Duplicate => "duplicate",
            Self::Unmatched => "unmatched",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

pub use encode::MetricsFormat;
pub(crate) use encode::write;
pub(crate) use labels::{Labels, OTHER};
use labels::{Series, series};
use registering::Counted;
use sampled::Sampled;

use fnd_core::records::cause::AlertCondition;
use fnd_core::records::outcome::{Reason, RunState};
use fnd_core::records::{AttemptRecord, InvocationRecord, Usage};
use fnd_core::report::RequestEnd;
use fnd_wire::ids::FunctionName;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Methods of requests; `NONE` for an invocation that no request started.
pub(crate) const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "OTHER", "NONE",
];

/// Returns the label of a request's method.
pub(crate) fn method(of_request: Option<&str>) -> &'static str {
    let Some(method) = of_request else { return "NONE" };
    METHODS
        .into_iter()
        // `NONE` stands for an invocation without a request, so a request with this method counts as `OTHER`.
        .find(|known| *known == method && method != "NONE")
        .unwrap_or("OTHER")
}

type MetricCounts = Family<Labels, Counter>;
type Sums = Family<Labels, Counter<f64, AtomicU64>>;
type SampleValue = Gauge<f64, AtomicU64>;
type LabelValues = Family<Labels, SampleValue>;
type DurationMetrics = Family<Labels, Histogram, fn() -> Histogram>;

/// The labels of a request to the public listener.
type RequestLabels = Vec<(&'static str, String)>;

type RequestDurations = Family<RequestLabels, Histogram, fn() -> Histogram>;

/// All metrics, and the series that functions have.
pub(crate) struct Metrics {
    pub(crate) registry: Arc<Registry>,
    /// Functions with series of their own.
    functions: BTreeMap<FunctionName, Series>,
    other: Series,
    /// Whether the series of all other functions have begun.
    other_known: bool,
    /// The paths of routes that have series.
    routes: HashSet<String>,
    pub(crate) counted: Counted,
    pub(crate) sampled: Sampled,
    /// Lets one scrape run at a time: gauges are sampled, then written as text on another thread.
    pub(crate) asking: Arc<tokio::sync::Mutex<()>>,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact to 2^53: bytes of a petabyte, microseconds of 285 years"
)]
pub(crate) fn number(number: u64) -> f64 {
    number as f64
}

pub(crate) fn micros(us: u64) -> f64 {
    number(us) / 1e6
}

pub(crate) fn millis(ms: u64) -> f64 {
    number(ms) / 1e3
}
