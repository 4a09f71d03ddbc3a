//! Bodies of the control API and of status files (contract, sections 4 and 5). Version 1; fields are added, never
//! renamed.
//!
//! Instants are RFC 3339 text in UTC with milliseconds, durations are milliseconds, sizes are bytes. Null means that
//! the value is known to be absent.

use crate::diagnostic::Diagnostic;
use crate::instant;
use crate::outcome::{Class, Exhausted, Reason, State, Trigger};
use crate::record::{AttemptRecord, InvocationRecord};
use crate::runtime::RuntimeSummary;
use crate::supervisor::FunctionState;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A function with its last execution: an element of `/v1/functions` and the content of its status file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionStatus {
    /// KEP 90: `succeeded` or `failed` of the last attempt; `pending` before the first.
    pub status: String,
    /// KEP 90: the last attempt's message.
    pub message: String,
    /// KEP 90: when this status was written.
    pub timestamp: String,
    /// Its name.
    #[serde(with = "crate::text::id")]
    pub function: FunctionName,
    /// Serving version.
    #[serde(default, with = "crate::text::id_or_null")]
    pub version: Option<Version>,
    /// Its state.
    pub state: FunctionState,
    /// The last invocation.
    #[serde(default, with = "crate::text::id_or_null")]
    pub invocation: Option<InvocationId>,
    /// The last invocation's trigger.
    pub trigger: Option<Trigger>,
    /// Number of the last attempt.
    pub attempt: Option<u32>,
    /// Polls before the last attempt.
    pub poll: Option<u32>,
    /// Reason of the last attempt.
    pub reason: Option<Reason>,
    /// Exit code of the last attempt.
    pub exit_code: Option<u8>,
    /// Start of the last attempt.
    pub started_at: Option<String>,
    /// Duration of the last attempt.
    pub duration_ms: Option<f64>,
    /// CPU time of the last attempt.
    pub cpu_ms: Option<f64>,
    /// Peak memory of the last attempt.
    pub memory_peak_bytes: Option<u64>,
    /// Memory that all processes of the function use now. Null where no process runs and where the memory cannot be
    /// measured; also in status files, which are not rewritten for a value that always changes.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Start of the next attempt.
    pub next_attempt_at: Option<String>,
    /// Start of the next scheduled run.
    pub next_run_at: Option<String>,
    /// Result of the last attempt: JSON, or a string; null where there is none or where it is not text.
    pub result: Option<Box<RawValue>>,
    /// Number of all ended attempts.
    pub runs: u64,
    /// Number of failed attempts.
    pub failures: u64,
    /// Why the newest content does not serve.
    pub error: Option<String>,
    /// Runtime, for people: `python 3.11`.
    #[serde(default)]
    pub runtime: String,
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Median duration of the last hundred attempts.
    #[serde(default)]
    pub p50_ms: Option<f64>,
    /// 99th percentile of the same durations.
    #[serde(default)]
    pub p99_ms: Option<f64>,
    /// Attempts running now.
    #[serde(default)]
    pub running: u32,
    /// Invocations waiting now.
    #[serde(default)]
    pub queued: u32,
    /// Number of dead letters.
    #[serde(default)]
    pub dead_letters: u64,
}

/// `GET /v1/functions/F`: the status and more that a status file does not contain.
#[derive(Debug, Clone, Serialize)]
pub struct FunctionDetail {
    /// The status.
    #[serde(flatten)]
    pub status: FunctionStatus,
    /// All further fields.
    #[serde(flatten)]
    pub more: FunctionMore,
}

/// The text is read twice, because a flattened field would lose the exact form of the result.
impl<'de> Deserialize<'de> for FunctionDetail {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let parts = || Ok((serde_json::from_str(text.get())?, serde_json::from_str(text.get())?));
        let (status, more) = parts().map_err(|error: serde_json::Error| serde::de::Error::custom(error))?;
        Ok(Self { status, more })
    }
}

/// What [`FunctionDetail`] adds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionMore {
    /// `script` or `handler`.
    pub mode: String,
    /// Why this mode was chosen: "no handler found in the code", "`def handler` at line 3".
    pub mode_reason: String,
    /// The code file or directory.
    pub source: String,
    /// The manifest with every key, defaults filled in.
    pub manifest: serde_json::Value,
    /// Real path of the interpreter.
    pub interpreter: String,
    /// Uid that runs the function; null where no version was ever installed.
    pub uid: Option<u32>,
    /// Newer content that does not serve yet, while an older version serves. All fields above describe the older
    /// version.
    #[serde(default)]
    pub newer: Option<NewerVersion>,
    /// Errors and warnings of the newest content.
    pub diagnostics: Vec<serde_json::Value>,
}

/// Content of a function that is newer than the serving version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewerVersion {
    /// The content's version; null where it was refused.
    #[serde(default, with = "crate::text::id_or_null")]
    pub version: Option<Version>,
    /// Why the content does not serve; null during its first trial.
    pub error: Option<String>,
    /// How often it could not be loaded or started, since it came or a reload asked for a new trial.
    pub failed_trials: u32,
    /// Start of the next trial; null during a trial, and where none follows.
    pub next_trial_at: Option<String>,
}

/// An invocation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InvocationView {
    /// Its id.
    #[serde(with = "crate::text::id")]
    pub id: InvocationId,
    /// Its function.
    #[serde(with = "crate::text::id")]
    pub function: FunctionName,
    /// Its trigger.
    pub trigger: Trigger,
    /// State.
    pub state: State,
    /// Reason of the last attempt.
    pub reason: Option<Reason>,
    /// Message to the reason.
    pub message: String,
    /// The limit that ran out.
    pub exhausted: Option<Exhausted>,
    /// Version of the last attempt.
    #[serde(default, with = "crate::text::id_or_null")]
    pub version: Option<Version>,
    /// When it was accepted.
    pub accepted_at: String,
    /// Start of the first attempt.
    pub started_at: Option<String>,
    /// End of the invocation.
    pub ended_at: Option<String>,
    /// Start of the next attempt.
    pub next_attempt_at: Option<String>,
    /// Number of attempts so far. Lists do not contain their details.
    pub attempts: u32,
    /// Polls so far.
    pub polls: u32,
    /// The invocation from which the payload was copied (triggers `replay` and `redrive`); only in the view of one
    /// invocation.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::text::id_or_null")]
    pub replay_of: Option<InvocationId>,
    /// All attempts, oldest first; only in the view of one invocation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempt_records: Vec<AttemptView>,
}

/// An attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AttemptView {
    /// Number of the attempt.
    pub attempt: u32,
    /// Polls before this attempt.
    pub poll: u32,
    /// Start.
    pub started_at: String,
    /// End.
    pub ended_at: String,
    /// Duration.
    pub duration_ms: f64,
    /// Exit code.
    pub exit_code: Option<u8>,
    /// Name of the signal, `SIGSEGV`.
    pub signal: Option<String>,
    /// Class.
    pub class: Class,
    /// Reason.
    pub reason: Reason,
    /// Message to the reason.
    pub message: String,
    /// CPU time; null with scope `worker`.
    pub cpu_ms: Option<f64>,
    /// Peak memory; null with scope `worker` and where it cannot be measured.
    pub memory_peak_bytes: Option<u64>,
    /// What the peak was measured of: `attempt` or `largest-process`. With `worker`, CPU time and memory belong to a
    /// worker that serves other attempts too, and cannot be separated. Null where there is no peak.
    pub scope: Option<String>,
    /// Time during which the CPU quota held the attempt back; null with scope `worker`.
    pub throttled_ms: Option<f64>,
    /// Number of the worker.
    pub worker: Option<u64>,
    /// Whether the attempt waited for its worker to start. Always true for scripts: each attempt is a process of its
    /// own.
    pub cold: bool,
    /// Version.
    #[serde(default, with = "crate::text::id_or_null")]
    pub version: Option<Version>,
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// Output bytes that were not kept.
    pub dropped_bytes: u64,
}

/// A line of output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogLine {
    /// When it arrived.
    pub time: String,
    /// Function.
    #[serde(with = "crate::text::id")]
    pub function: FunctionName,
    /// The invocation; the nil UUID where a warm worker printed the line outside of calls, or serves several calls at
    /// once.
    #[serde(with = "crate::text::id")]
    pub invocation: InvocationId,
    /// Number of the attempt; 0 with the nil UUID.
    pub attempt: u32,
    /// `stdout`, `stderr`, `log` for a record of a handler (its text begins with the level), or `fnd` for a message of
    /// fnd (about dropped output).
    pub stream: String,
    /// The text without the line end; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// `GET /v1/status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeStatus {
    /// fnd's version.
    pub version: String,
    /// The spawner's version.
    pub spawner_version: String,
    /// `running`, `draining`, `no-spawner`.
    pub state: String,
    /// When fnd started.
    pub started_at: String,
    /// Host name.
    pub node: String,
    /// cgroup layout: `v2`, `hybrid`, `none`.
    pub cgroups: String,
    /// How process trees are contained.
    pub containment: String,
    /// Limits that cannot be enforced on this machine, with the reason.
    pub not_enforced: BTreeMap<String, String>,
    /// Deleted functions that left a home or a cache, by the name of that directory; at most 100.
    #[serde(default)]
    pub left_behind: Vec<String>,
    /// Resident memory of fnd and its spawner together.
    pub memory_bytes: u64,
    /// Number of running attempts.
    pub running: u32,
    /// Number of waiting invocations.
    pub queued: u32,
    /// Number of functions in each state.
    pub functions_by_state: BTreeMap<String, u32>,
    /// Problems of files that belong to no function, and of the configuration.
    pub problems: Vec<String>,
    /// Functions.
    pub functions: Vec<FunctionStatus>,
    /// Number of dead letters of all functions.
    #[serde(default)]
    pub dead_letters: u64,
    /// Disk use of the state; absent if fnd is too old to report it.
    #[serde(default)]
    pub disk: Option<DiskUse>,
    /// Paths of fnd; absent if fnd is too old to report them.
    #[serde(default)]
    pub places: Option<NodePlaces>,
}

/// Disk use of an fnd's state, and the free space.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Bytes of records, payloads and results.
    pub history_bytes: u64,
    /// `[history] keep_bytes`.
    pub history_keep_bytes: u64,
    /// Bytes of kept output, as of the last scan.
    pub logs_bytes: u64,
    /// `[logs] keep_bytes`.
    pub logs_keep_bytes: u64,
    /// Bytes free on the disk of the state directory.
    pub free_bytes: u64,
    /// Inodes free there; null on file systems without a fixed number of them.
    pub free_inodes: Option<u64>,
}

/// Paths that an fnd uses; all are absolute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlaces {
    /// `fnd.toml`; the file may be missing.
    pub config: String,
    /// Functions directories; the first has priority.
    pub functions: Vec<String>,
    /// Directories of runtimes; a later one has priority.
    pub runtimes: Vec<String>,
    /// State directory.
    pub state: String,
}

/// `GET /v1/functions`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionList {
    /// All functions, by name.
    pub functions: Vec<FunctionStatus>,
}

/// A line of `GET /v1/functions?watch=1`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionChange {
    /// The function.
    #[serde(with = "crate::text::id")]
    pub function: FunctionName,
    /// The function's status now; null once it is gone.
    pub now: Option<Box<FunctionStatus>>,
}

/// `GET /v1/invocations`. A page may have fewer elements than requested, or none, and still a next page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InvocationList {
    /// Newest first.
    pub invocations: Vec<InvocationView>,
    /// Cursor of the next page (`after=`); absent on the last page.
    pub next: Option<String>,
}

/// A dead letter: an asynchronous invocation that failed for good.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The invocation.
    #[serde(flatten)]
    pub invocation: InvocationView,
    /// The payload as text; of a long one only the beginning: 200 bytes in lists, 64 KiB for a single dead letter. Null
    /// where there is no payload, and where it is not text.
    pub payload: Option<String>,
    /// Size of the payload in bytes; null where there is none.
    pub payload_bytes: Option<u64>,
    /// Media type of the payload, if the caller stated one.
    pub content_type: Option<String>,
}

/// `GET /v1/dead-letters`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeadLetterList {
    /// Newest first.
    pub dead_letters: Vec<DeadLetter>,
    /// Cursor of the next page (`after=`); absent on the last page, present where a next page is possible.
    pub next: Option<String>,
}

/// Answer to a request that queued an invocation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Queued {
    /// The invocation's id.
    #[serde(with = "crate::text::id")]
    pub id: InvocationId,
}

/// An RFC 9457 problem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Problem {
    /// `about:blank`.
    pub r#type: String,
    /// Text of the HTTP status.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// Stable code for programs: `not-found`, `timeout`, `queue-full`.
    pub code: String,
    /// What happened and what to do.
    pub detail: String,
    /// The function concerned.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "crate::text::id_or_null")]
    pub function: Option<FunctionName>,
    /// The invocation concerned.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "crate::text::id_or_null")]
    pub invocation: Option<InvocationId>,
    /// The invocation's reason, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// Lines of output: `GET /v1/logs` and `GET /v1/invocations/ID/logs`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogList {
    /// Oldest first.
    pub lines: Vec<LogLine>,
}

/// `GET /v1/runtimes`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RuntimeList {
    /// All runtimes, by id.
    pub runtimes: Vec<RuntimeSummary>,
}

/// `GET /v1/sizes`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SizeList {
    /// All sizes, smallest first.
    pub sizes: Vec<SizeView>,
}

/// A size: a preset of `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeView {
    /// The size's name, `M`.
    pub name: String,
    /// The values that the size sets in `[limits]`, key to value as written: `memory` to `512M`.
    pub limits: BTreeMap<String, String>,
}

/// Answer to `POST /v1/reload`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Functions whose serving version changed, by name.
    #[serde(with = "crate::text::ids")]
    pub applied: Vec<FunctionName>,
    /// Functions that are gone, by name.
    #[serde(with = "crate::text::ids")]
    pub removed: Vec<FunctionName>,
    /// Problems of the whole present configuration, applied or not.
    pub diagnostics: Vec<Diagnostic>,
}

/// Body of `POST /v1/validate`: one file, as it would be in the functions directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidateRequest {
    /// Name of the file: `hello.py`, `hello.toml`.
    pub name: String,
    /// Content of the file.
    pub content: String,
}

/// Answer to `POST /v1/validate`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidateReport {
    /// Whether the file would serve.
    pub valid: bool,
    /// Problems in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// Answer to requests that only change something: cancel, enable, disable, drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The state after the request: `cancelling`, `enabled`, `disabled`, `draining`, `drained`, `dropped`.
    pub state: String,
}

/// Level of fnd's own messages: `/v1/log-level`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLevel {
    /// `info`, `debug`, or `target=level` with commas between.
    pub level: String,
    /// When the level from the start returns by itself; null if it does not.
    pub until: Option<String>,
}

impl InvocationView {
    /// Returns the view of a record, without details of its attempts.
    #[must_use]
    pub fn of(record: &InvocationRecord) -> Self {
        Self {
            id: record.id,
            function: record.function.clone(),
            trigger: record.trigger,
            state: record.state,
            reason: record.reason,
            message: record.message.clone(),
            exhausted: record.exhausted,
            version: record.version,
            accepted_at: instant::text(record.accepted_ms),
            started_at: record.started_ms.map(instant::text),
            ended_at: record.ended_ms.map(instant::text),
            next_attempt_at: record.next_attempt_ms.map(instant::text),
            attempts: record.attempts,
            polls: record.polls,
            replay_of: None,
            attempt_records: Vec::new(),
        }
    }
}

impl AttemptView {
    /// Returns the view of a record.
    #[must_use]
    pub fn of(record: &AttemptRecord) -> Self {
        let usage = &record.usage;
        let scope = match usage.memory_peak() {
            _ if usage.scope_worker => Some("worker"),
            Some(_) if usage.peak_of_largest => Some("largest-process"),
            Some(_) => Some("attempt"),
            None => None,
        };
        Self {
            attempt: record.attempt.0,
            poll: record.poll,
            started_at: instant::text(record.started_ms),
            ended_at: instant::text(record.ended_ms),
            duration_ms: milliseconds(record.duration_us),
            exit_code: record.exit_code,
            signal: record
                .signal
                .map(|number| Reason::Signal(number).to_string().replace("signal-", "SIG")),
            class: record.reason.class(),
            reason: record.reason,
            message: record.message.clone(),
            cpu_ms: usage.cpu().map(milliseconds),
            memory_peak_bytes: usage.memory_peak(),
            scope: scope.map(str::to_owned),
            throttled_ms: (!usage.scope_worker).then(|| milliseconds(usage.throttled_us)),
            worker: record.worker.map(|worker| worker.0),
            cold: record.cold.unwrap_or(true),
            version: record.version,
            stdout_bytes: usage.stdout_bytes,
            stderr_bytes: usage.stderr_bytes,
            dropped_bytes: usage.dropped_bytes,
        }
    }
}

/// Converts microseconds to milliseconds; exact to the microsecond for three hundred years.
#[must_use]
pub fn milliseconds(us: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits of microseconds are 285 years")]
    let us = us as f64;
    us / 1000.0
}
