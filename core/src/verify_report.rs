//! The output of `fnd --examine` for `fndctl verify`: one JSON object.

use fnd_manifest::words;
use serde::{Deserialize, Serialize};

words! {
    /// How bad a finding of `fndctl doctor` or `fndctl verify` is.
    pub enum FindingLevel {
        /// Nothing is wrong.
        Ok = "ok",
        /// It could not be checked.
        Unknown = "unknown",
        /// fnd works, but not as well as it could; something uses up space, or somebody should read about it.
        Warning = "warning",
        /// Something is lost or does not work.
        Error = "error",
    }
}

/// A finding about the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerFinding {
    /// How bad the finding is.
    pub level: FindingLevel,
    /// The area of the check, as a stable word.
    pub check: String,
    /// Message: lower case, no final period.
    pub what: String,
    /// Advice on how to solve the problem; absent where none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// The output of `fnd --examine` for `fndctl verify`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examined {
    /// Whether an fnd runs on the state, so that its open files could not be checked.
    pub running: bool,
    /// The findings of all checks; empty: nothing is wrong.
    pub findings: Vec<LedgerFinding>,
    /// The repairs that were made, for people; empty: nothing was changed.
    pub repaired: Vec<String>,
    /// Number of invocations and of contents that have run on load; absent where the ledger cannot be read.
    pub rows: Option<u64>,
    /// Ids of invocations without an end.
    pub unfinished: Vec<String>,
}
