//! The worker protocol (`runtimes/PROTOCOL.md`): messages between fnd and a worker over descriptor 3.
//!
//! This module converts bytes to messages and messages to bytes; it touches no socket. Input from a worker is the most
//! hostile input of all: every length is checked against a bound before anything is allocated.
//!
//! Files:
//! - `header`: the header of a frame
//! - `read`: joins frames of a worker to messages
//! - `worker_side`: reads messages of fnd and writes those of a worker, for workers
//! - `write`: cuts messages of fnd into frames

mod header;
mod read;
#[cfg(test)]
mod tests;
pub mod worker_side;
mod write;

pub use read::{Decoder, ProtocolError};
pub use write::{OutgoingMessage, cancel, invoke, stop};

use super::cause::Cause;
use super::outcome::Reason;
use fnd_manifest::json_text::JsonText;
use fnd_manifest::words;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// The protocol version of this build.
pub const VERSION: u32 = 1;
/// Size of a frame's header in bytes.
pub const HEADER: usize = 16;
/// Most bytes after a header.
pub const FRAME_MAX: usize = 256 << 10;
/// Most bytes of a message without its body: the head, or the whole of a Ready, Error or Log.
pub const HEAD_MAX: usize = 64 << 10;

/// More frames of this message follow.
const MORE: u8 = 0x01;
/// A receiver that does not know the type may skip the frame.
const OPTIONAL: u8 = 0x02;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum MessageKind {
    Ready = 1,
    Invoke = 2,
    Body = 3,
    Result = 4,
    Error = 5,
    Log = 6,
    Stop = 7,
    Cancel = 8,
}

/// Splits the content of an Invoke or a Result into its head and the bytes behind the head; nothing if it ends inside the head.
#[must_use]
pub fn head_and_parts(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = content.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*size)).unwrap_or(usize::MAX))
}

/// A message from a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerMessage {
    /// The code is loaded.
    Ready(ReadyMessage),
    /// The answer to a call.
    Result {
        /// The number of the call that is answered.
        call: u64,
        /// The facts of the answer besides its body.
        head: ResultHead,
        /// The body; absent: no result.
        data: Option<Vec<u8>>,
    },
    /// The next bytes of a result that comes as a stream. The Result follows with all bytes, or an Error.
    Part {
        /// The number of the call that is answered.
        call: u64,
        /// The head of the result; only the first bytes have it.
        head: Option<ResultHead>,
        /// The bytes of one frame, which may be none.
        data: Vec<u8>,
    },
    /// A call failed; for call 0 the worker cannot serve.
    Error {
        /// The number of the call that failed; 0: the worker itself.
        call: u64,
        /// The kind of the failure and its message.
        failure: ProtocolFailure,
    },
    /// A record for the log.
    Log {
        /// The call to which the record belongs; 0: none.
        call: u64,
        /// The record, whose time and level the worker stated.
        record: LogRecord,
    },
}

/// The worker is ready to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyMessage {
    /// The newest protocol version that the worker supports.
    pub protocol: u32,
    /// Most calls in flight, at least 1.
    pub concurrency: u32,
    /// Only for a worker that serves HTTP: its port on the loopback. It gets its requests there, and no Invoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whether it wants the variables of a request ([`InvokeHead::variables`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub variables: bool,
    /// Whether it ends a call that it is told to cancel, while its other calls go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
}

/// Head of an Invoke. Lengths are those of the parts that follow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct InvokeHead<'a> {
    /// The invocation's id, as text.
    pub invocation: Cow<'a, str>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Polls before this attempt.
    pub poll: u32,
    /// The invocation's trigger.
    pub trigger: Cow<'a, str>,
    /// End of this attempt, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// W3C `traceparent`.
    pub traceparent: Cow<'a, str>,
    /// Media type of the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Cow<'a, str>>,
    /// Size of the payload in bytes; absent: no payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<u64>,
    /// Size of the previous attempt's result in bytes; absent: no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<u64>,
    /// `KEPTN_CONTEXT`, JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<JsonText>,
    /// When the event happened that the invocation is for, RFC 3339: the time of the cause, else when the invocation was
    /// accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Cow<'a, str>>,
    /// The reason why a trigger or another function ran it; absent where there is nothing to state beside the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cow<'a, Cause>>,
    /// The variables of a request that came by a route, as a script has them; only for a worker that wants them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variables: Option<serde_json::Map<String, Value>>,
    /// The HTTP request of the invocation; the last field, because the shim of bash does not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Cow<'a, HttpRequest>>,
}

/// The HTTP request of an invocation, without its body. Fields that only a route fills are absent from the JSON where they
/// are empty; `headers` stay the last field, by which the shim of bash finds the end of the request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HttpRequest {
    /// The method: `POST`.
    pub method: String,
    /// The path as it came, percent-encoded: `/orders/7`.
    pub path: String,
    /// The part after the `?`; empty where there is none.
    pub query: String,
    /// The pattern of the route, `/orders/{id}`; empty without a route.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub route: String,
    /// The parameters of the route in the order of its pattern, percent-decoded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<(String, String)>,
    /// The caller's address; empty if it is unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remote: String,
    /// `http` or `https`; empty without a route.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scheme: String,
    /// The authority that the caller asked: `example.com:8443`; empty without a route.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The version of HTTP: `HTTP/1.1`, `HTTP/2.0`; empty without a route.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// Whether the standard output of a script is a CGI document (`response = "cgi"` of the route).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cgi: bool,
    /// The headers; names are in lower case.
    pub headers: Vec<(String, String)>,
}

/// Head of a Result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResultHead {
    /// Media type of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Size of the body in bytes; absent: no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<u64>,
    /// HTTP status that the function chose, 200 to 599; absent if it chose none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Headers of the HTTP response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Whether the body has all bytes up to the end of the message, so that the worker need not know its size before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
}

/// How a call failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProtocolFailure {
    /// The kind, by which retries and polls are decided.
    pub kind: FailureKind,
    /// The failure in words, for people.
    pub message: String,
    /// The last line of standard error says more than `message`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub printed: bool,
    /// Stack trace of the exception; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// For execute-again: the result that the next attempt gets as `previous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// The kind of a failure, in the words of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The handler raised an exception.
    Error,
    /// A retry may help.
    Transient,
    /// A retry is useless.
    Failed,
    /// The invocation must be polled.
    ExecuteAgain,
    /// The value that the handler returned cannot be sent.
    BadAnswer,
}

impl FailureKind {
    /// Returns the reason of an attempt with this failure.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            Self::Error => Reason::Error,
            Self::Transient => Reason::Transient,
            Self::Failed => Reason::Failed,
            Self::ExecuteAgain => Reason::ExecuteAgain,
            Self::BadAnswer => Reason::BadAnswer,
        }
    }
}

/// A record for the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogRecord {
    /// Time, Unix milliseconds.
    pub time_ms: u64,
    /// Level of the record.
    pub level: Level,
    /// Message of the record.
    pub message: String,
    /// Further fields of the record, in JSON; often empty.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub fields: serde_json::Map<String, Value>,
}

words! {
    /// Levels of log records.
    pub enum Level {
        /// Details for finding faults.
        Debug = "debug",
        /// Normal operation.
        Info = "info",
        /// Something was wrong, but the work went on.
        Warning = "warning",
        /// Something failed.
        Error = "error",
    }
}
