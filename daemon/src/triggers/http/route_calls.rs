//! The last calls of each route.

use fnd_core::durations::{Durations, quantile};
use fnd_core::triggers::route::Route;
use fnd_wire::ids::FunctionName;
use std::collections::HashMap;
use std::time::Duration;

/// The calls of one route since fnd's start.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// How many requests were answered.
    pub(crate) count: u64,
    /// The status of the last answer.
    pub(crate) last_status: u16,
    durations: Durations,
}

impl Calls {
    /// Returns a quantile of the durations of the last hundred requests, in microseconds.
    pub(crate) fn quantile_us(&self, of: f64) -> Option<u64> {
        quantile(self.durations.as_slice(), of)
    }
}

/// The calls of all routes, by function and path.
#[derive(Debug, Default)]
pub(crate) struct RouteCalls(HashMap<(FunctionName, String), Calls>);

impl RouteCalls {
    /// Returns the calls of a route.
    pub(crate) fn of(&self, route: &Route) -> Option<&Calls> {
        self.0.get(&(route.function.clone(), route.entry.path.clone()))
    }

    /// Adds the answer of a request.
    pub(crate) fn add(&mut self, route: &Route, status: u16, took: Duration) {
        let key = (route.function.clone(), route.entry.path.clone());
        let calls = self.0.entry(key).or_default();
        calls.count += 1;
        calls.last_status = status;
        calls
            .durations
            .push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }
}
