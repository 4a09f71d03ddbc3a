//! Bodies about the audit.

use fnd_manifest::text;
use fnd_wire::ids::{FunctionName, InvocationId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of the audit.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AuditList {
    /// Newest first.
    pub entries: Vec<AuditEntry>,
    /// Cursor of the next page (`after=`); null on the last page.
    pub next: Option<String>,
}

/// What a caller of the control socket did, or what was refused to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// When the call came; for several refusals the first of them.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// The user.
    pub uid: u32,
    /// The user's name at that time; null if it had none.
    pub user: Option<String>,
    /// The process. As `exe`, `function`, `invocation` and `code`, it is null if several refusals differ in it.
    pub pid: Option<i32>,
    /// The program of the process; null if fnd may not read its path.
    pub exe: Option<String>,
    /// The short name of the route, such as `invoke`; `lost` for calls that could not be stored.
    pub verb: String,
    /// The function that the call was about.
    #[serde(with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub function: Option<FunctionName>,
    /// The invocation that the call was about, or that it started.
    #[serde(with = "text::id_or_null")]
    #[schemars(with = "Option<String>", extend("format" = "uuid"))]
    pub invocation: Option<InvocationId>,
    /// The HTTP status of the answer; null if the caller left before it.
    pub status: Option<u16>,
    /// The code of the problem that was the answer.
    pub code: Option<String>,
    /// Whether the caller's role was too small.
    pub refused: bool,
    /// How long the answer took, in microseconds.
    pub duration_us: u64,
    /// How many calls this is: equal refusals of one user within a minute are counted.
    pub count: u64,
}
