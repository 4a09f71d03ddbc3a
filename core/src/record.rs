//! Records of invocations and attempts: the supervisor produces them, the ledger stores them.
//!
//! Wall-clock instants are Unix milliseconds, durations are microseconds, sizes are bytes.

use crate::access::Permissions;
use crate::data::Data;
use crate::idempotency::IdempotencyKey;
use crate::outcome::{Exhausted, Reason, RunState, Trigger};
use crate::protocol::{HttpRequest, ResultHead};
use crate::trace::Trace;
use crate::triggers::cause::Cause;
use crate::triggers::file::memory::FileMark;
use crate::triggers::schedule::LastSlot;
use bytes::Bytes;
use fnd_wire::form::wire_structs;
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, Version, WorkerId};
use fnd_wire::plan;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The input of an invocation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// The bytes; absent differs from empty.
    pub data: Option<Data>,
    /// Media type, as the caller stated it.
    pub content_type: Option<String>,
    /// `KEPTN_CONTEXT`, JSON.
    pub context: Option<Arc<str>>,
    /// The caller's trace; absent if it sent none.
    pub trace: Option<Trace>,
    /// The HTTP request; its body is `data`. A script gets it as variables, and only where it came by a route.
    pub request: Option<Arc<HttpRequest>>,
    /// The reason why a trigger or another function ran it; absent where there is nothing to state beside the payload.
    pub cause: Option<Arc<Cause>>,
}

impl Payload {
    /// Returns whether a script answers with a CGI document.
    #[must_use]
    pub fn is_cgi(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.cgi)
    }
}

/// An accepted invocation, as it is first stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The id of the invocation, a UUID that fnd gives.
    pub id: InvocationId,
    /// The function that runs.
    pub function: FunctionName,
    /// The trigger that made the invocation.
    pub trigger: Trigger,
    /// When it was accepted.
    pub accepted_ms: u64,
    /// The input, from the caller or from the trigger.
    pub payload: Payload,
    /// Whether it must be on disk before it is acknowledged ([`Event::Stored`](crate::supervisor::Event::Stored) follows).
    pub durable: bool,
    /// Whether it becomes a dead letter if it [fails](InvocationRecord::ends_as_dead_letter).
    pub dead_letter: bool,
    /// For trigger `load`: the content that is stored as run, in the same transaction.
    pub load_key: Option<Version>,
    /// A shorter timeout from the caller, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Instant before which no attempt begins, Unix milliseconds; absent: it may begin at once.
    pub not_before_ms: Option<u64>,
    /// Instant after which it is skipped, if it has not begun.
    pub expires_ms: Option<u64>,
    /// Instant at which the whole invocation ends, from `limits.deadline`.
    pub deadline_ms: Option<u64>,
    /// Waiting invocations with a greater priority begin first.
    pub priority: i8,
    /// Idempotency key: a later request with the same key shares this invocation.
    pub key: Option<IdempotencyKey>,
    /// The invocation from which the payload was copied (triggers `replay` and `redrive`).
    pub origin: Option<InvocationId>,
    /// For trigger `schedule`: the schedule's mark after it, stored in the same transaction.
    pub mark: Option<LastSlot>,
    /// For trigger `file`: what is remembered of the files with it, in the same transaction.
    pub files: Vec<FileMark>,
}

/// Says whether asynchronous work becomes a dead letter if it fails: work that comes once, so that it is lost unless a
/// person redrives it. `asked` says whether the manifest asks for dead letters of this trigger.
#[must_use]
pub fn may_become_dead_letter(trigger: Trigger, function: &FunctionName, asked: bool) -> bool {
    let comes_once = match trigger {
        // A script that runs because it was saved runs again once it is corrected; a service is started again.
        Trigger::Load => false,
        // The next slot brings the same payload.
        Trigger::Schedule => asked,
        // A payload, a request, an event, a file, the end that a hook follows and the change that an alert names come once.
        // A replay and a redrive are the wish of a person.
        Trigger::Manual
        | Trigger::Http
        | Trigger::Event
        | Trigger::File
        | Trigger::Hook
        | Trigger::Alert
        | Trigger::Function
        | Trigger::Replay
        | Trigger::Redrive => true,
    };
    // fnd itself repeats its builds and checks.
    comes_once && !plan::is_own(function.as_str())
}

/// The function's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunResult {
    /// Whether the bytes are one JSON value; otherwise they are text if they are UTF-8, else binary.
    pub json: bool,
    /// The bytes of the answer; they may be empty.
    pub data: Bytes,
    /// Properties that the function stated besides the bytes; absent where the bytes alone imply them.
    pub response: Option<Arc<Response>>,
    /// The result with the values of secrets [masked](crate::mask); absent where it contains none. It takes the place of
    /// the result in every record.
    pub kept: Option<Arc<Self>>,
}

/// Properties that a handler can state besides the bytes of its answer. Their values are unchecked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Response {
    /// Media type of the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// HTTP status, 200 to 599.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Headers, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
}

impl RunResult {
    /// Converts a worker's Result. Returns nothing for one without a body, status and headers.
    #[must_use]
    pub fn of(head: ResultHead, data: Option<Vec<u8>>) -> Option<Self> {
        let response = Response {
            content_type: head.content_type,
            status: head.status,
            headers: head.headers,
        };
        if data.is_none() && response.status.is_none() && response.headers.is_empty() {
            return None;
        }
        Some(Self::stated(response, data.unwrap_or_default().into()))
    }

    /// Returns a result with what the function stated about it.
    #[must_use]
    pub fn stated(response: Response, data: Bytes) -> Self {
        // A result without a media type is classified as the output of a script is.
        let json = response.content_type.as_deref().is_none_or(is_json)
            && serde_json::from_slice::<serde::de::IgnoredAny>(&data).is_ok();
        let mut result = Self {
            json,
            data,
            response: None,
            kept: None,
        };
        // Most handlers return JSON or text and state just that: then nothing needs to be stored for each run.
        let plain = response.status.is_none() && response.headers.is_empty();
        let stated = response.content_type.as_deref();
        if !plain || stated.is_some_and(|stated| stated != result.media_type()) {
            result.response = Some(Arc::new(response));
        }
        result
    }

    /// Returns what is kept of the result.
    #[must_use]
    pub fn to_kept(&self) -> Self {
        self.kept.as_deref().unwrap_or(self).clone()
    }

    /// Returns the media type of the bytes: the function's own, else one derived from the bytes.
    #[must_use]
    pub fn media_type(&self) -> &str {
        match self.response.as_deref() {
            Some(Response {
                content_type: Some(stated),
                ..
            }) => stated,
            _ if self.json => "application/json",
            _ if str::from_utf8(&self.data).is_ok() => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        }
    }
}

/// Says whether a media type is JSON: `application/json` or `.../...+json`.
#[must_use]
pub fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// One attempt that has ended, as it is stored in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The invocation of which this was an attempt.
    pub invocation: InvocationId,
    /// The function that ran.
    pub function: FunctionName,
    /// Number of the attempt; counts from 1 over retries and polls.
    pub attempt: Attempt,
    /// Number of polls before it.
    pub poll: u32,
    /// The worker; absent if none could be started.
    pub worker: Option<WorkerId>,
    /// Whether the call waited for the worker to start; absent for scripts, where each attempt is a process of its own.
    pub cold: Option<bool>,
    /// The version that ran.
    pub version: Option<Version>,
    /// Start of the attempt, Unix milliseconds.
    pub started_ms: u64,
    /// End: the instant when the leaf was empty.
    pub ended_ms: u64,
    /// Time from start to end by the monotonic clock.
    pub duration_us: u64,
    /// Reason of the end.
    pub reason: Reason,
    /// Message to the reason, at most 4 KiB.
    pub message: String,
    /// Exit code; absent if the process did not exit.
    pub exit_code: Option<u8>,
    /// Signal number; absent if no signal ended the process.
    pub signal: Option<u8>,
    /// Resource usage and output counts.
    pub usage: Usage,
    /// When the next attempt begins; absent if none follows.
    pub next_attempt_ms: Option<u64>,
}

wire_structs! {
    /// Resource usage and output counts of an attempt.
    #[derive(Copy, Default, Serialize, Deserialize)]
    pub struct Usage {
        /// CPU time of the whole process tree.
        pub cpu_us: u64,
        /// Peak memory; absent where it cannot be measured.
        pub memory_peak_bytes: Option<u64>,
        /// Whether the peak is that of the largest process only.
        pub peak_of_largest: bool,
        /// Time during which the CPU quota held the attempt back.
        pub throttled_us: u64,
        /// Bytes on standard output.
        pub stdout_bytes: u64,
        /// Bytes on standard error.
        pub stderr_bytes: u64,
        /// Output bytes that were not kept.
        pub dropped_bytes: u64,
        /// Whether the attempt shared its worker with others. Then CPU time, memory and throttling cannot be assigned to
        /// it.
        pub scope_worker: bool,
    }
}

impl Usage {
    /// Returns the CPU time in microseconds; absent where it cannot be separated from other attempts.
    #[must_use]
    pub fn cpu(&self) -> Option<u64> {
        (!self.scope_worker).then_some(self.cpu_us)
    }

    /// Returns the peak memory in bytes; absent where it cannot be measured, or separated from other attempts.
    #[must_use]
    pub fn memory_peak(&self) -> Option<u64> {
        self.memory_peak_bytes.filter(|_| !self.scope_worker)
    }
}

/// The state of an invocation, final or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvocationRecord {
    /// The id of the invocation.
    pub id: InvocationId,
    /// The function that runs.
    pub function: FunctionName,
    /// The trigger that made the invocation.
    pub trigger: Trigger,
    /// Whether it was on disk before it was acknowledged, as [`Accepted::durable`]. No caller waits for such work.
    pub durable: bool,
    /// State of the invocation, as the API shows it.
    pub state: RunState,
    /// When it was accepted.
    pub accepted_ms: u64,
    /// When its first attempt began.
    pub started_ms: Option<u64>,
    /// When it ended, Unix milliseconds; absent until then.
    pub ended_ms: Option<u64>,
    /// Attempts that have begun, with polls.
    pub attempts: u32,
    /// Attempts that were polls, of those in `attempts`.
    pub polls: u32,
    /// Reason of the last attempt, or why there was no attempt.
    pub reason: Option<Reason>,
    /// Message to the reason.
    pub message: String,
    /// The limit that ran out.
    pub exhausted: Option<Exhausted>,
    /// When the next attempt begins; absent if none is planned.
    pub next_attempt_ms: Option<u64>,
    /// Version of the last attempt.
    pub version: Option<Version>,
    /// Result of the last attempt. After execute-again the next attempt gets it as `previous`.
    pub result: Option<RunResult>,
}

impl InvocationRecord {
    /// Returns the record as it is kept: of its result, only [what is kept](RunResult::to_kept).
    #[must_use]
    pub fn to_kept(&self) -> Self {
        let mut kept = self.clone();
        if let Some(result) = &mut kept.result {
            *result = result.to_kept();
        }
        kept
    }

    /// Says whether its end makes the invocation a dead letter, if [its acceptance](Accepted::dead_letter) says that it may
    /// become one. It stays one until somebody redrives or drops it, which the record does not show.
    #[must_use]
    pub fn ends_as_dead_letter(&self) -> bool {
        match self.state {
            // A caller that waits learns of the failure.
            RunState::Failed | RunState::Interrupted => self.durable,
            RunState::Queued
            | RunState::Running
            | RunState::Waiting
            | RunState::Polling
            | RunState::Succeeded
            | RunState::Cancelled
            | RunState::Skipped => false,
        }
    }

    /// Returns the limit that ran out and made the invocation fail; nothing for any other end.
    #[must_use]
    pub fn gave_up(&self) -> Option<Exhausted> {
        self.exhausted.filter(|_| self.state == RunState::Failed)
    }

    /// Says whether the invocation is over and at least one attempt of it began: it counts in its function's `runs`.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.state.is_final() && self.attempts > 0
    }

    /// Says whether the payload and the HTTP request of the invocation are kept, so that it can run again. They are
    /// kept of all work but calls that succeeded: the caller of such a call has its result.
    #[must_use]
    pub fn keeps_payload(&self) -> bool {
        self.durable || self.state != RunState::Succeeded
    }
}

/// Which invocations to list; absent means all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InvocationFilter {
    /// Invocations of this function.
    pub function: Option<FunctionName>,
    /// Invocations in this state.
    pub state: Option<RunState>,
    /// Invocations whose last reason is this one.
    pub reason: Option<Reason>,
    /// Invocations with this trigger.
    pub trigger: Option<Trigger>,
    /// Invocations that this one has called.
    pub parent: Option<InvocationId>,
    /// Invocations whose last attempt ran a version that begins with this text, in lower-case hexadecimal.
    pub version: Option<String>,
    /// Invocations whose message contains this text, ignoring the case of ASCII letters.
    pub text: Option<String>,
    /// Whether to list only dead letters.
    pub dead: bool,
    /// Accepted at this time or later, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Accepted before this time, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Most invocations of the page, 1 to 1000; absent: 100.
    pub limit: Option<u32>,
    /// Only invocations older than this one: the cursor of the previous page.
    pub after: Option<InvocationId>,
    /// Whether to add up what the attempts of each invocation used.
    pub usage: bool,
    /// Only invocations of functions that the caller may view.
    pub reach: Permissions,
}

/// The sum of the usage of an invocation's attempts. Attempts that shared their worker do not count, because their usage cannot
/// be separated; absent if all did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageSum {
    /// CPU time in microseconds.
    pub cpu_us: Option<u64>,
    /// The highest peak of memory.
    pub memory_peak_bytes: Option<u64>,
}

/// An invocation without an end, as the ledger has it at the start of fnd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The invocation as it was accepted.
    pub accepted: Accepted,
    /// Its last stored state. `Running` means that the end of that attempt is unknown.
    pub record: InvocationRecord,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_result(content_type: Option<&str>, data: Option<&[u8]>) -> Option<RunResult> {
        let head = ResultHead {
            content_type: content_type.map(Into::into),
            ..ResultHead::default()
        };
        RunResult::of(head, data.map(Into::into))
    }

    #[test]
    fn a_result_is_json_where_it_says_so_and_is() {
        for (content_type, data, json, media_type, kept) in [
            (Some("application/json"), &b"{}"[..], true, "application/json", false),
            (
                Some("application/cloudevents+json"),
                b"{}",
                true,
                "application/cloudevents+json",
                true,
            ),
            (Some("application/json"), b"{", false, "application/json", true),
            (
                Some("text/plain; charset=utf-8"),
                b"{}",
                false,
                "text/plain; charset=utf-8",
                false,
            ),
            (Some("text/html"), b"<p>", false, "text/html", true),
            (None, b"text", false, "text/plain; charset=utf-8", false),
            (None, b"{}", true, "application/json", false),
            (None, b"\xff", false, "application/octet-stream", false),
        ] {
            let result = run_result(content_type, Some(data)).unwrap();
            let found = (result.json, result.media_type(), result.response.is_some());
            assert_eq!(found, (json, media_type, kept), "{content_type:?} {data:?}");
        }
    }

    fn record(trigger: Trigger, durable: bool, state: RunState) -> InvocationRecord {
        InvocationRecord {
            id: InvocationId(1),
            function: FunctionName::new("f").unwrap(),
            trigger,
            durable,
            state,
            accepted_ms: 1,
            started_ms: None,
            ended_ms: None,
            attempts: 0,
            polls: 0,
            reason: None,
            message: String::new(),
            exhausted: None,
            next_attempt_ms: None,
            version: None,
            result: None,
        }
    }

    #[test]
    fn the_end_of_durable_work_decides_on_dead_letter_and_payload() {
        use RunState::{Cancelled, Failed, Interrupted, Polling, Queued, Running, Skipped, Succeeded, Waiting};
        let unended = [Queued, Running, Waiting, Polling];
        let ended = [Succeeded, Failed, Interrupted, Cancelled, Skipped];
        for state in unended.into_iter().chain(ended) {
            for durable in [true, false] {
                let record = record(Trigger::Manual, durable, state);
                let decided = (record.ends_as_dead_letter(), record.keeps_payload());
                let expected = match (state, durable) {
                    (Failed | Interrupted, true) => (true, true),
                    (Succeeded, false) => (false, false),
                    _ => (false, true),
                };
                assert_eq!(decided, expected, "{state:?} {durable}");
            }
        }
    }

    /// A trigger that comes again by itself makes none, a schedule only where its manifest asks, and fnd's own work never.
    #[test]
    fn the_trigger_decides_who_may_become_a_dead_letter() {
        use Trigger::{Alert, Event, File, Function, Hook, Http, Load, Manual, Redrive, Replay, Schedule};
        for (trigger, unasked, asked) in [
            (Load, false, false),
            (Schedule, false, true),
            (Manual, true, true),
            (Http, true, true),
            (Event, true, true),
            (File, true, true),
            (Hook, true, true),
            (Alert, true, true),
            (Function, true, true),
            (Replay, true, true),
            (Redrive, true, true),
        ] {
            let decided = |function: &str| {
                let function = FunctionName::new(function).unwrap();
                [false, true].map(|asked| may_become_dead_letter(trigger, &function, asked))
            };
            assert_eq!(decided("f"), [unasked, asked], "{trigger:?}");
            for internal in ["fnd-build", "fnd-build-u1000-2", "fnd-check"] {
                assert_eq!(decided(internal), [false; 2], "{trigger:?} {internal}");
            }
        }
    }

    #[test]
    fn only_an_invocation_that_failed_gave_up() {
        for (state, exhausted, expected) in [
            (RunState::Failed, Some(Exhausted::Retries), Some(Exhausted::Retries)),
            (RunState::Failed, None, None),
            (RunState::Cancelled, Some(Exhausted::Deadline), None),
        ] {
            let record = InvocationRecord {
                exhausted,
                ..record(Trigger::Manual, true, state)
            };
            assert_eq!(record.gave_up(), expected, "{state:?} {exhausted:?}");
        }
    }

    #[test]
    fn no_data_is_no_result_but_a_status_alone_is() {
        assert_eq!(run_result(None, None), None);
        let head = ResultHead {
            status: Some(204),
            ..ResultHead::default()
        };
        let result = RunResult::of(head, None).unwrap();
        assert_eq!((result.data.len(), result.response.unwrap().status), (0, Some(204)));
    }

    #[test]
    fn media_types_of_json() {
        for (text, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/cloudevents+json", true),
            ("text/plain", false),
            ("application/jsonl", false),
        ] {
            assert_eq!(is_json(text), expected, "{text}");
        }
    }
}
