//! How much history is kept: age, count and bytes. `sweeper` enforces it.

use fnd_wire::ids::FunctionName;
use std::collections::HashMap;
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

impl Default for KeepOf {
    fn default() -> Self {
        Self {
            keep: 1000,
            keep_failed: 0,
            keep_for: Duration::from_secs(30 * 86_400),
            keep_bytes: u64::MAX,
        }
    }
}

/// Limits of the history, or, with other limits of one function, of the output. Records that exceed any limit are
/// deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention<T = KeepOf> {
    /// The limits of functions that set their own.
    pub functions: HashMap<FunctionName, T>,
    /// The limits of all other functions.
    pub others: T,
    /// Greatest age, for all functions.
    pub keep_for: Duration,
    /// Most bytes of all functions together.
    pub keep_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            functions: HashMap::new(),
            others: KeepOf::default(),
            keep_for: KeepOf::default().keep_for,
            keep_bytes: 1 << 30,
        }
    }
}

impl<T: Copy> Retention<T> {
    /// Returns the limits of a function.
    pub(crate) fn of(&self, function: &FunctionName) -> T {
        self.functions.get(function).copied().unwrap_or(self.others)
    }
}
