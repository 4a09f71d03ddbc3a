//! What `fnd --examine` prints for `fndctl verify`: one JSON object.

use serde::{Deserialize, Serialize};

/// How much something matters that `fndctl verify` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// It could not be looked at.
    Unknown,
    /// Something takes room, or wants to be read.
    Warning,
    /// Something is lost or does not work.
    Error,
}

/// Something that was found at the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerFinding {
    /// How much it matters.
    pub level: Severity,
    /// The area, a stable word.
    pub check: String,
    /// What it is: lower case, no final period.
    pub what: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// What `fnd --examine` prints for `fndctl verify`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examined {
    /// A fnd runs on the state: what it holds open could not be looked at.
    pub running: bool,
    /// What was found.
    pub findings: Vec<LedgerFinding>,
    /// What was repaired.
    pub repaired: Vec<String>,
    /// Invocations and contents that have run by being there; absent where the ledger cannot be read.
    pub rows: Option<u64>,
    /// Ids of invocations without an end.
    pub unfinished: Vec<String>,
}
