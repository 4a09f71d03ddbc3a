//! Labels of series, and the series that each function has of its own.

use super::*;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};

/// Most functions with series of their own; all others share the series of [`OTHER`]. A thousand functions have some
/// 60,000 series.
pub(super) const FUNCTIONS_MAX: usize = 1000;

/// No function can have this name.
pub(crate) const OTHER: &str = "_other";

/// The labels of a series: the function, and one more where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Labels(
    pub(crate) Option<Arc<str>>,
    pub(crate) Option<(&'static str, &'static str)>,
);

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

/// The series of a function that each of its attempts counts in. They are kept here because a look-up by labels takes 2
/// us for each attempt.
pub(super) struct Series {
    pub(super) label: Arc<str>,
    pub(super) by_method: Cached<(Counter, Counter)>,
    pub(super) durations: Cached<Histogram>,
    pub(super) by_reason: Cached<Counter>,
    pub(super) by_state: Cached<Counter>,
    pub(super) last_success: Option<Gauge<f64, AtomicU64>>,
}

impl Series {
    pub(super) fn new(label: &str) -> Self {
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
pub(super) struct Cached<M>(Vec<(&'static str, M)>);

impl<M> Cached<M> {
    pub(super) fn of(&mut self, value: &'static str, make: impl FnOnce() -> M) -> &M {
        let known = self.0.iter().position(|(other, _)| *other == value);
        let place = known.unwrap_or_else(|| {
            self.0.push((value, make()));
            self.0.len() - 1
        });
        &self.0[place].1
    }
}

/// Returns the series of a function; a new function gets its own while there is room.
pub(super) fn series<'a>(
    functions: &'a mut BTreeMap<FunctionName, Series>,
    other: &'a mut Series,
    function: &FunctionName,
) -> &'a mut Series {
    // Each scrape writes all series, and a thousand functions are megabytes already.
    if functions.len() >= FUNCTIONS_MAX && !functions.contains_key(function) {
        return other;
    }
    let new = || Series::new(function.as_str());
    functions.entry(function.clone()).or_insert_with(new)
}
