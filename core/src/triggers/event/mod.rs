//! CloudEvents 1.0: the parts of an event, its forms in HTTP, and the functions that it starts.
//!
//! ```text
//! headers, body ─▶ read ─▶ binary | structured | legacy ─▶ CloudEvent ─▶ subscription ─▶ functions
//! ```
//! The crate `cloudevents-sdk` is not used. Even without its transports it brings chrono, snafu, url, uuid and
//! hostname. It has no batches and does not decode percent-encoded headers. It parses `data` into a tree, which changes
//! numbers. Its errors do not name the attribute.
//!
//! Files:
//! - `attributes`: the rules for the names and values of attributes
//! - `binary`: attributes in headers, the data as the body
//! - `legacy`: the forms of Kubeless, of Kyma, and of CloudEvents 0.1
//! - `read`: a request that may carry events, and its form
//! - `structured`: an event, or a batch of events, as JSON
//! - `subscription`: which functions an event starts

mod attributes;
mod binary;
mod legacy;
mod read;
mod structured;
pub mod subscription;
#[cfg(test)]
mod tests;

pub use legacy::renewed;
pub use read::{EventRequest, read};

use crate::records::Attributes;
use std::borrow::Cow;

/// Most events in a batch. The number is limited because one transaction accepts the whole batch.
pub const BATCH_MAX: usize = 1000;
/// Most bytes of the names and values of an event's attributes. Functions get them as variables and as headers.
pub const ATTRIBUTES_MAX: usize = 16 << 10;

/// An event as CloudEvents 1.0 has it, whatever form it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvent {
    /// Everything but the data.
    pub attributes: Attributes,
    /// The place of the data; an event need not have any.
    pub data: EventContent,
}

/// Where the data of an event is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventContent {
    /// The event has no data.
    None,
    /// The data is the body of the request.
    Body,
    /// The data is a part of the body, decoded.
    Part(Vec<u8>),
}

/// The events of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Events {
    /// One event, in binary or structured mode.
    One(Box<CloudEvent>),
    /// A batch, which may be empty.
    Batch(Vec<CloudEvent>),
}

/// Why a request has no events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No form fits the request.
    #[error(
        "the request is no CloudEvent: send `ce-id`, `ce-source`, `ce-type` and `ce-specversion: 1.0` as headers, or a JSON \
         body with `Content-Type: application/cloudevents+json`"
    )]
    NoEvent,
    /// A form of CloudEvents that fnd does not read.
    #[error(
        "`{0}` is not read here: send `application/cloudevents+json`, `application/cloudevents-batch+json`, or the \
         attributes as headers `ce-...`"
    )]
    Format(String),
    /// The body is not what its content type says.
    #[error("the body is no JSON {expected}: {error}")]
    Json {
        /// `object` or `array of events`.
        expected: &'static str,
        /// The message of the parser.
        error: String,
    },
    /// An attribute is missing or has a wrong value.
    #[error("the attribute `{name}` {problem}")]
    Attribute {
        /// The name of the attribute.
        name: String,
        /// The problem, as the end of a sentence.
        problem: Cow<'static, str>,
    },
    /// An event of a batch is malformed.
    #[error("event {number} of the batch: {problem}")]
    InBatch {
        /// Number of the event, from 1.
        number: usize,
        /// The problem of the event.
        problem: Box<Malformed>,
    },
    /// The batch has too many events.
    #[error("the batch has {0} events, more than {BATCH_MAX}")]
    TooMany(usize),
}

impl Malformed {
    /// Returns the problem of an attribute.
    fn attribute(name: impl Into<String>, problem: impl Into<Cow<'static, str>>) -> Self {
        Self::Attribute {
            name: name.into(),
            problem: problem.into(),
        }
    }
}

/// Says whether a media type, without its parameters, is this one.
fn is_media_type(content_type: &str, expected: &str) -> bool {
    essence(content_type).eq_ignore_ascii_case(expected)
}

/// Returns a media type without its parameters.
fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}
