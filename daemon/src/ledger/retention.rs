//! How much history is kept: age, count and bytes. `sweeper` keeps to it.

use fnd_wire::ids::FunctionName;
use std::collections::HashMap;
use std::time::Duration;

/// How much of one function's history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepOf {
    /// The newest of its invocations.
    pub keep: u32,
    /// The newest of those that failed, also where they are older than all those.
    pub keep_failed: u32,
    /// Age since acceptance.
    pub keep_for: Duration,
    /// Bytes of its records, payloads and results; the largest number: no bound.
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

/// How much history is kept; what exceeds any of these is forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Of functions that say so.
    pub functions: HashMap<FunctionName, KeepOf>,
    /// Of every other one.
    pub others: KeepOf,
    /// Age since acceptance, whatever functions say.
    pub keep_for: Duration,
    /// Bytes of all of it.
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

impl Retention {
    pub(super) fn of(&self, function: &FunctionName) -> KeepOf {
        self.functions.get(function).copied().unwrap_or(self.others)
    }
}
