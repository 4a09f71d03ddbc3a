//! Bodies of the control API and of status files (contract, sections 4 and 5). Version 1; fields are added, never renamed.
//!
//! Instants are RFC 3339 text in UTC with milliseconds, durations milliseconds, sizes bytes. A field that is null is known
//! to be absent.

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
    /// KEP 90: when this was written.
    pub timestamp: String,
    /// Its name.
    #[serde(with = "crate::text::id")]
    pub function: FunctionName,
    /// Serving version.
    #[serde(default, with = "crate::text::id_or_null")]
    pub version: Option<Version>,
    /// Its state.
    pub state: FunctionState,
    /// Last invocation.
    #[serde(default, with = "crate::text::id_or_null")]
    pub invocation: Option<InvocationId>,
    /// What made it.
    pub trigger: Option<Trigger>,
    /// Its last attempt.
    pub attempt: Option<u32>,
    /// Polls before that.
    pub poll: Option<u32>,
    /// How it ended.
    pub reason: Option<Reason>,
    /// Exit code.
    pub exit_code: Option<u8>,
    /// Start.
    pub started_at: Option<String>,
    /// Duration.
    pub duration_ms: Option<f64>,
    /// CPU time.
    pub cpu_ms: Option<f64>,
    /// Peak memory.
    pub memory_peak_bytes: Option<u64>,
    /// Memory all its processes use now; null where nothing of it runs, where it cannot be told, and in status files, which
    /// are not written for what changes all the time.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Start of the next attempt.
    pub next_attempt_at: Option<String>,
    /// Start of the next scheduled run.
    pub next_run_at: Option<String>,
    /// Result of the last attempt; JSON, or a string; null where it has none or is not text.
    pub result: Option<Box<RawValue>>,
    /// Ended attempts, ever.
    pub runs: u64,
    /// Failed ones.
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
    /// 99th percentile of them.
    #[serde(default)]
    pub p99_ms: Option<f64>,
    /// Attempts running now.
    #[serde(default)]
    pub running: u32,
    /// Invocations waiting now.
    #[serde(default)]
    pub queued: u32,
    /// Its dead letters.
    #[serde(default)]
    pub dead_letters: u64,
}

/// `GET /v1/functions/F` adds what does not belong into a status file.
#[derive(Debug, Clone, Serialize)]
pub struct FunctionDetail {
    /// The status.
    #[serde(flatten)]
    pub status: FunctionStatus,
    /// The rest.
    #[serde(flatten)]
    pub more: FunctionMore,
}

/// Read in two passes over the same text: a flattened field would lose the result's exact form.
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
    /// Why this mode: "no handler found in the code", "`def handler` at line 3".
    pub mode_reason: String,
    /// The code file or directory.
    pub source: String,
    /// The manifest with every key, defaults filled in.
    pub manifest: serde_json::Value,
    /// Interpreter, real path.
    pub interpreter: String,
    /// Uid it runs as; null where no version was ever installed.
    pub uid: Option<u32>,
    /// Newer content that does not serve (yet), where a version before it does: all above is about that one.
    #[serde(default)]
    pub newer: Option<NewerVersion>,
    /// Problems and warnings of the newest content.
    pub diagnostics: Vec<serde_json::Value>,
}

/// Newer content of a function than what serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewerVersion {
    /// Its version; null where it was refused and so has none.
    #[serde(default, with = "crate::text::id_or_null")]
    pub version: Option<Version>,
    /// Why it does not serve; null while it is tried for the first time.
    pub error: Option<String>,
    /// How often it could not be loaded or started, since it came or a reload asked for it.
    pub failed_trials: u32,
    /// When it is tried again; null while it is tried, and where it is not any more.
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
    /// What made it.
    pub trigger: Trigger,
    /// State.
    pub state: State,
    /// Reason of the last attempt.
    pub reason: Option<Reason>,
    /// In words.
    pub message: String,
    /// What ran out.
    pub exhausted: Option<Exhausted>,
    /// Version of the last attempt.
    #[serde(default, with = "crate::text::id_or_null")]
    pub version: Option<Version>,
    /// Accepted.
    pub accepted_at: String,
    /// First attempt's start.
    pub started_at: Option<String>,
    /// End.
    pub ended_at: Option<String>,
    /// Start of the next attempt.
    pub next_attempt_at: Option<String>,
    /// Attempts so far; in lists without their details.
    pub attempts: u32,
    /// Polls so far.
    pub polls: u32,
    /// The invocation whose payload it has (triggers `replay` and `redrive`); only in the view of one invocation.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::text::id_or_null")]
    pub replay_of: Option<InvocationId>,
    /// Each attempt, oldest first; only in the view of one invocation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempt_records: Vec<AttemptView>,
}

/// An attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AttemptView {
    /// Which try.
    pub attempt: u32,
    /// Polls before it.
    pub poll: u32,
    /// Start.
    pub started_at: String,
    /// End.
    pub ended_at: String,
    /// Duration.
    pub duration_ms: f64,
    /// Exit code.
    pub exit_code: Option<u8>,
    /// Signal, `SIGSEGV`.
    pub signal: Option<String>,
    /// Class.
    pub class: Class,
    /// Reason.
    pub reason: Reason,
    /// In words.
    pub message: String,
    /// CPU time; null with scope `worker`.
    pub cpu_ms: Option<f64>,
    /// Peak memory; null with scope `worker` and where it cannot be told.
    pub memory_peak_bytes: Option<u64>,
    /// What the peak is of: `attempt`, `largest-process`; `worker`: CPU time and memory are those of a worker that serves
    /// other attempts too, so that they cannot be told apart; null where there is no peak.
    pub scope: Option<String>,
    /// Held back by the CPU quota; null with scope `worker`.
    pub throttled_ms: Option<f64>,
    /// Worker.
    pub worker: Option<u64>,
    /// Whether the attempt waited for its worker to start. Scripts always do: each attempt is a process of its own.
    pub cold: bool,
    /// Version.
    #[serde(default, with = "crate::text::id_or_null")]
    pub version: Option<Version>,
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// Bytes not kept.
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
    /// Invocation; the nil UUID where a warm worker printed it outside of calls, or serves several at once.
    #[serde(with = "crate::text::id")]
    pub invocation: InvocationId,
    /// Which try; 0 with the nil UUID.
    pub attempt: u32,
    /// `stdout`, `stderr`, `log` for a record of a handler (its text begins with the level), or `fnd` for a note (what was
    /// dropped).
    pub stream: String,
    /// The text without its line end; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// `GET /v1/status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeStatus {
    /// fnd's version.
    pub version: String,
    /// The spawner's.
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
    /// What cannot be enforced here: limit and why.
    pub not_enforced: BTreeMap<String, String>,
    /// Functions that are no more and left a home or a cache, by its name there; at most 100.
    #[serde(default)]
    pub left_behind: Vec<String>,
    /// Resident memory of fnd and its spawner.
    pub memory_bytes: u64,
    /// Attempts running.
    pub running: u32,
    /// Invocations waiting.
    pub queued: u32,
    /// Functions by state.
    pub functions_by_state: BTreeMap<String, u32>,
    /// Problems of files that belong to no function, and of the configuration.
    pub problems: Vec<String>,
    /// Functions.
    pub functions: Vec<FunctionStatus>,
    /// Dead letters of all functions.
    #[serde(default)]
    pub dead_letters: u64,
    /// What its state takes of the disk; absent in the answer of an fnd that does not say.
    #[serde(default)]
    pub disk: Option<DiskUse>,
    /// Where it has its things; absent in the answer of an fnd that does not say.
    #[serde(default)]
    pub places: Option<NodePlaces>,
}

/// What an fnd's state takes of its disk, and what is left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Bytes of records, payloads and results.
    pub history_bytes: u64,
    /// `[history] keep_bytes`.
    pub history_keep_bytes: u64,
    /// Bytes of kept output, as of the last look at it.
    pub logs_bytes: u64,
    /// `[logs] keep_bytes`.
    pub logs_keep_bytes: u64,
    /// Bytes free on the disk of the state directory.
    pub free_bytes: u64,
    /// Inodes free there; null on file systems without a fixed number of them.
    pub free_inodes: Option<u64>,
}

/// Where an fnd has its things: absolute paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlaces {
    /// `fnd.toml`; it need not be there.
    pub config: String,
    /// Functions directories, the first wins.
    pub functions: Vec<String>,
    /// Directories of runtimes, a later one wins.
    pub runtimes: Vec<String>,
    /// State directory.
    pub state: String,
}

/// `GET /v1/functions`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionList {
    /// By name.
    pub functions: Vec<FunctionStatus>,
}

/// A line of `GET /v1/functions?watch=1`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionChange {
    /// The function.
    #[serde(with = "crate::text::id")]
    pub function: FunctionName,
    /// It as it is now; null once it is gone.
    pub now: Option<Box<FunctionStatus>>,
}

/// `GET /v1/invocations`. A page may have fewer elements than asked for, or none, and still a next one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InvocationList {
    /// Newest first.
    pub invocations: Vec<InvocationView>,
    /// Cursor of the next page (`after=`), if there is one.
    pub next: Option<String>,
}

/// A dead letter: asynchronous work that failed for good.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The invocation.
    #[serde(flatten)]
    pub invocation: InvocationView,
    /// What it brought, as text: of more only the beginning, 200 bytes in lists and 64 KiB alone. Null where it brought
    /// nothing, and where that is not text.
    pub payload: Option<String>,
    /// Bytes of what it brought; null where it brought nothing.
    pub payload_bytes: Option<u64>,
    /// Its media type, if the caller stated one.
    pub content_type: Option<String>,
}

/// `GET /v1/dead-letters`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeadLetterList {
    /// Newest first.
    pub dead_letters: Vec<DeadLetter>,
    /// Cursor of the next page (`after=`), if there may be one.
    pub next: Option<String>,
}

/// Answer to a queued invocation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Queued {
    /// Its id.
    #[serde(with = "crate::text::id")]
    pub id: InvocationId,
}

/// RFC 9457 problem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Problem {
    /// `about:blank`.
    pub r#type: String,
    /// HTTP status in words.
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
    /// Its reason, where it ended.
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
    /// By id.
    pub runtimes: Vec<RuntimeSummary>,
}

/// `GET /v1/sizes`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SizeList {
    /// Smallest first.
    pub sizes: Vec<SizeView>,
}

/// A size: a preset of `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeView {
    /// Its name, `M`.
    pub name: String,
    /// What it sets in `[limits]`, key to value as written: `memory` to `512M`.
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
    /// Problems of everything that is configured now, applied or not.
    pub diagnostics: Vec<Diagnostic>,
}

/// Body of `POST /v1/validate`: one file as it would lie in the functions directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidateRequest {
    /// Its name there: `hello.py`, `hello.toml`.
    pub name: String,
    /// What is in it.
    pub content: String,
}

/// Answer to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidateReport {
    /// Whether it would serve.
    pub valid: bool,
    /// What is wrong with it, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// Answer to requests that only change something: cancel, enable, disable, drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// What is so now: `cancelling`, `enabled`, `disabled`, `draining`, `drained`, `dropped`.
    pub state: String,
}

/// Which of fnd's own messages go out: `/v1/log-level`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLevel {
    /// `info`, `debug`, or `target=level` with commas between.
    pub level: String,
    /// When the level from the start is back by itself; null where it is not going to be.
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

/// Returns microseconds as milliseconds; exact to the microsecond for three hundred years.
#[must_use]
pub fn milliseconds(us: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits of microseconds are 285 years")]
    let us = us as f64;
    us / 1000.0
}
