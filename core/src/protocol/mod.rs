//! The worker protocol (`runtimes/PROTOCOL.md`): what fnd and a worker say to each other over descriptor 3.
//!
//! Bytes in, messages out, and the other way round; no socket is touched here. What comes from a worker is the most hostile
//! input there is: every length is checked against a bound before anything is allocated.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{Decoder, ProtocolError};
pub use write::{invoke, stop};

use crate::outcome::Reason;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// The version this build speaks.
pub const VERSION: u32 = 1;
/// Bytes of a frame's header.
pub const HEADER: usize = 16;
/// Most bytes behind a header.
pub const FRAME_MAX: usize = 256 << 10;
/// Most bytes of a message beside its body: head, or all of a Ready, Error or Log.
pub const HEAD_MAX: usize = 64 << 10;

/// More frames of this message follow.
const MORE: u8 = 0x01;
/// Who does not know the type may skip the frame.
const OPTIONAL: u8 = 0x02;

/// Types of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Ready = 1,
    Invoke = 2,
    Body = 3,
    Result = 4,
    Error = 5,
    Log = 6,
    Stop = 7,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerMessage {
    /// The code is loaded.
    Ready(Ready),
    /// The answer to a call.
    Result {
        /// Which.
        call: u64,
        /// About the body.
        head: ResultHead,
        /// The body; absent: no result.
        data: Option<Vec<u8>>,
    },
    /// A call failed, or for call 0 the worker cannot serve.
    Error {
        /// Which.
        call: u64,
        /// How.
        failure: Failure,
    },
    /// A record for the log.
    Log {
        /// Of which call; 0: of none.
        call: u64,
        /// The record.
        record: LogRecord,
    },
}

/// The worker serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The newest protocol it speaks.
    pub protocol: u32,
    /// How many calls it can have in flight, at least 1.
    pub concurrency: u32,
    /// Of a worker that serves HTTP: the port of the loopback where it does; it gets requests there and no Invoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Head of an Invoke. Lengths are of the parts that follow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InvokeHead<'a> {
    /// The invocation's id, as text.
    pub invocation: Cow<'a, str>,
    /// Which try, from 1.
    pub attempt: u32,
    /// Polls before it.
    pub poll: u32,
    /// What made it.
    pub trigger: Cow<'a, str>,
    /// End of this attempt, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// W3C `traceparent`.
    pub traceparent: Cow<'a, str>,
    /// Media type of the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Cow<'a, str>>,
    /// Bytes of the payload; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<u64>,
    /// Bytes of what the attempt before left; absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<u64>,
    /// `KEPTN_CONTEXT`, JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// The request that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Cow<'a, HttpRequest>>,
}

/// The request behind an invocation, without its body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HttpRequest {
    /// `POST`.
    pub method: String,
    /// `/orders/7`.
    pub path: String,
    /// Behind the `?`; empty where there is none.
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
}

/// Head of a Result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResultHead {
    /// Media type of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Bytes of the body; absent: no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<u64>,
    /// Status of the response, where the function chose one: 200 to 599.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Headers of the response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
}

/// How a call failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind, which retries and polls go by.
    pub kind: FailureKind,
    /// In words.
    pub message: String,
    /// Where it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// For execute-again: what comes back as `previous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// An exception.
    Error,
    /// Try again.
    Transient,
    /// Trying again is useless.
    Failed,
    /// Poll.
    ExecuteAgain,
    /// What the handler returned cannot be sent.
    BadAnswer,
}

impl FailureKind {
    /// Returns the reason of an attempt that failed so.
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
    /// When, Unix milliseconds.
    pub time_ms: u64,
    /// How important.
    pub level: Level,
    /// What.
    pub message: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub fields: serde_json::Map<String, Value>,
}

/// How important a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// For who looks for a fault.
    Debug,
    /// As expected.
    Info,
    /// It went on, but.
    Warning,
    /// Something failed.
    Error,
}
