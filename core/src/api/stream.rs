//! Bodies that come line by line: output, and events as `GET /v1/stream` sends them, with a sequence position from which
//! a reader can resume.

use crate::records::outcome::{Exhausted, Reason, RunState, Trigger};
use crate::run::FunctionState;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::{text, words};
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::borrow::Cow;
use std::fmt;

/// A position in the sequence, `EPOCH-NUMBER`. Each fnd begins a new epoch, so that a position of an earlier fnd is
/// recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seq {
    /// When the fnd was started, Unix milliseconds.
    pub epoch: u64,
    /// Number of the event; counts from 1 by one.
    pub number: u64,
}

impl Seq {
    /// Parses the text form of a position.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (epoch, number) = text.split_once('-')?;
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?;
        Some(Self {
            epoch: digits(epoch)?,
            number: digits(number)?,
        })
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.number)
    }
}

impl Serialize for Seq {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Seq {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("expected a place in the sequence, `EPOCH-NUMBER`"))
    }
}

words! {
    /// The kind of an event.
    pub enum Kind as "EventKind" {
        /// A version of a function serves from now on.
        Loaded = "loaded",
        /// New content of a function does not serve; the version before it goes on serving.
        Refused = "refused",
        /// A function was deleted.
        Removed = "removed",
        /// A function's state changed for another reason than its runs.
        State = "state",
        /// A request to run was accepted.
        Accepted = "accepted",
        /// An attempt began.
        Started = "started",
        /// An attempt ended, or an invocation ended without one (cancelled while it waited).
        Ended = "ended",
        /// A retry follows a failed attempt.
        Retried = "retried",
        /// A poll follows an attempt that ended with execute-again.
        Polled = "polled",
        /// An invocation failed because its retries, polls or deadline ran out.
        GaveUp = "gave-up",
        /// A function's number of workers changed.
        Scaled = "scaled",
        /// A request did not run: it was refused on arrival, or skipped later.
        Dropped = "dropped",
        /// A request to the public listener was answered.
        Request = "request",
        /// The node has a problem.
        Problem = "problem",
        /// A problem of the node is over.
        Solved = "solved",
        /// This reader missed events: it was too slow, came too late, or fnd was restarted.
        Missed = "missed",
    }
}

/// An event. Fields that do not apply to its kind are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamEvent {
    /// The event's position, `EPOCH-NUMBER`, from which a reader can resume; an epoch is the life of one fnd. In a
    /// `missed` line it is the position of the last missed event.
    #[schemars(with = "String")]
    pub seq: Seq,
    /// When it happened.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// Kind of the event.
    pub kind: Kind,
    /// The function.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub function: Option<FunctionName>,
    /// The invocation.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::id_or_null")]
    #[schemars(with = "Option<String>", extend("format" = "uuid"))]
    pub invocation: Option<InvocationId>,
    /// Number of the attempt; for `retried` and `polled` the one that follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The invocation's trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// The worker of an attempt that began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u64>,
    /// The version that serves, or that ran.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// Reason of the end, or why it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Kind of the node's problem: a label of the metric `fnd_problems`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The invocation's state after the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunState>,
    /// Duration of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// The attempt's trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// When the next attempt begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub next_attempt_at: Option<String>,
    /// The limit that ran out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exhausted: Option<Exhausted>,
    /// The function's states before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<(FunctionState, FunctionState)>,
    /// The function's number of workers before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<(u32, u32)>,
    /// Problems of the refused content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// Number of missed events; absent where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

words! {
    /// The source of a line of output.
    pub enum LogStream {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
        /// A record of a handler; its text begins with the level.
        Log = "log",
        /// A message of fnd, about output that was not kept.
        Fnd = "fnd",
    }
}

/// A line of output.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// When it arrived.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// Function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
    /// The invocation; the nil UUID where a warm worker printed the line outside of calls, or serves several calls at
    /// once.
    #[serde(with = "text::id")]
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub invocation: InvocationId,
    /// Number of the attempt; 0 with the nil UUID.
    pub attempt: u32,
    /// The source of the line.
    pub stream: LogStream,
    /// The text without the line end; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// Lines of output.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LogList {
    /// Oldest first.
    pub lines: Vec<LogLine>,
}

impl StreamEvent {
    /// Returns an event with all optional fields absent.
    #[must_use]
    pub fn new(seq: Seq, unix_ms: u64, kind: Kind) -> Self {
        Self {
            seq,
            time: crate::instant::text(unix_ms),
            kind,
            function: None,
            invocation: None,
            attempt: None,
            trigger: None,
            worker: None,
            version: None,
            reason: None,
            code: None,
            message: None,
            state: None,
            duration_ms: None,
            trace_id: None,
            next_attempt_at: None,
            exhausted: None,
            states: None,
            workers: None,
            diagnostics: Vec::new(),
            missed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_places_survive_their_text() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        let seq = Seq {
            epoch: 1_795_248_000_000,
            number: 42,
        };
        assert_eq!(Seq::parse(&seq.to_string()), Some(seq));
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-+2",
            "1-2-3",
            "1-99999999999999999999",
            "a-b",
        ] {
            assert_eq!(Seq::parse(text), None, "{text}");
        }
    }
}
