//! How much history is kept: age, count and bytes. `sweeper` enforces it.

use fnd_core::interned::Recent;
use fnd_wire::ids::FunctionName;
use std::sync::Arc;
use std::time::Duration;

/// How much of one function's history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepOf {
    /// How many of its newest invocations are kept.
    pub keep: u32,
    /// How many of its newest failed invocations are kept, even if they are older than those of `keep`.
    pub keep_failed: u32,
    /// Greatest age since acceptance.
    pub keep_for: Duration,
    /// Most bytes of its records, payloads and results; `u64::MAX`: no limit.
    pub keep_bytes: u64,
}

/// Limits of the history, or, with other limits of one function, of the output. Records that exceed any limit are
/// deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention<T = KeepOf> {
    /// The limits of functions with a manifest.
    pub functions: LimitsOf<T>,
    /// The limits of all other functions.
    pub others: T,
    /// Greatest age, for all functions.
    pub keep_for: Duration,
    /// Most bytes of all functions together.
    pub keep_bytes: u64,
}

impl<T: Copy> Retention<T> {
    /// Returns the limits of a function.
    pub(crate) fn of(&self, function: &FunctionName) -> T {
        let limits = &self.functions.0;
        let at = limits.binary_search_by(|(other, _)| other.cmp(function));
        at.map_or(self.others, |at| *limits[at].1)
    }
}

/// The limits of each of some functions. Several threads have those of ten thousand functions, most of which are the
/// same: equal limits are stored once, and clones share everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsOf<T>(Arc<[(FunctionName, Arc<T>)]>);

impl<T> Default for LimitsOf<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: PartialEq> FromIterator<(FunctionName, T)> for LimitsOf<T> {
    fn from_iter<I: IntoIterator<Item = (FunctionName, T)>>(limits: I) -> Self {
        let mut alike = Recent::default();
        let limits = limits.into_iter();
        let mut limits: Vec<_> = limits.map(|(function, of)| (function, alike.share(of))).collect();
        limits.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self(limits.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_its_limits_and_equal_ones_are_stored_once() {
        let name = |text: &str| FunctionName::new(text).unwrap();
        let keep = |keep| KeepOf {
            keep,
            ..KeepOf::default()
        };
        let functions = [("c", 7), ("a", 7), ("b", 8)].map(|(function, of)| (name(function), keep(of)));
        let retention = Retention {
            functions: functions.into_iter().collect(),
            ..Retention::default()
        };
        for (function, expected) in [("a", 7), ("b", 8), ("c", 7), ("d", 1000)] {
            assert_eq!(retention.of(&name(function)).keep, expected, "{function}");
        }
        let [(_, a), (_, b), (_, c)] = &*retention.functions.0 else {
            panic!("three functions");
        };
        assert!(Arc::ptr_eq(a, c) && !Arc::ptr_eq(a, b));
    }
}
