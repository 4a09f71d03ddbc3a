//! The content of a message: a CloudEvent (NATS Protocol Binding for CloudEvents, with the headers of its binary mode), or data.
//!
//! - `Content-Type: application/cloudevents+json`: an event as JSON. Batches are not read: each event is a message of its own.
//! - headers `ce-NAME`, percent-encoded as in HTTP: an event whose data is the payload. `ce-datacontenttype` is the media type.
//! - anything else is data. Without `Content-Type` it is JSON if it parses, else text, else bytes.

use super::claim_key::MessageIdentity;
use crate::json::is_json;
use crate::places::conditions::{RequestValues, Test};
use crate::records::cause::{DEPTH_MAX, depth_of};
use crate::records::{Attributes, StreamPlace};
use crate::triggers::event::subscription::SubscriptionRefusal;
use crate::triggers::event::{self, CloudEvent, EventContent, EventRequest, Events, Malformed};
use serde::de::IgnoredAny;

/// The header with the id that a sender gives its message.
const MESSAGE_ID: &str = "nats-msg-id";
/// The header that fnd gives a message whose own headers or whose subject are none.
pub const UNREADABLE: &str = "Fnd-Unreadable";
/// The media type of events, which `+json` and other formats follow.
const CLOUD_EVENTS: &str = "application/cloudevents";

/// Most bytes of the headers: they are kept with the run, beside its data.
pub const HEADERS_MAX: usize = 64 << 10;

/// A message as the server has delivered it.
#[derive(Debug, Clone, Copy)]
pub struct NatsMessage<'a> {
    /// Its place in the stream.
    pub place: &'a StreamPlace,
    /// The headers, in order. Upper and lower case of their names are as the sender wrote them.
    pub headers: &'a [(String, String)],
    /// The payload as it was sent, not decoded.
    pub payload: &'a [u8],
}

/// A message that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadMessage {
    /// The attributes, if it is a CloudEvent.
    pub event: Option<Box<Attributes>>,
    /// Where its data is: nowhere, in the payload, or in the event's JSON.
    pub content: EventContent,
    /// Media type of the data; absent without data.
    pub content_type: Option<String>,
    /// The rules of its subscription; absent unless the function gets the message by `[[event]]`.
    pub subscribed: Option<SubscribedEvent>,
}

/// The rules of a subscription for one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribedEvent {
    /// The value of `key`: events with the same value run one after the other.
    pub order_key: Option<String>,
    /// The number of calls in the chain, with this one, if a function sent the event; else 0.
    pub depth: u8,
}

/// Why a message runs nothing: it becomes a dead letter with the reason `input`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// It has more bytes than the function takes.
    #[error("the message has {size} bytes, more than {max} (limits.body)")]
    TooLarge {
        /// Bytes of the payload.
        size: u64,
        /// `limits.body`.
        max: u64,
    },
    /// Its headers are longer than fnd keeps them.
    #[error("the headers of the message have {size} bytes, more than {max}: put what is large into the data", max = HEADERS_MAX)]
    LongHeaders {
        /// Bytes of their names and values.
        size: usize,
    },
    /// A batch of events.
    #[error("it is a batch of CloudEvents: publish each event as a message of its own")]
    Batch,
    /// Its headers say that it is a CloudEvent, and it is none.
    #[error(transparent)]
    Event(#[from] Malformed),
    /// The subscription matches, and the function does not take the data.
    #[error(transparent)]
    Refused(#[from] SubscriptionRefusal),
    /// Its headers or its subject break the protocol.
    #[error("its headers or its subject are none: a client of NATS ends its connection at such a message")]
    Unreadable,
    /// Functions send each other messages without an end.
    #[error("it would be call {0} in a chain of functions that call functions: at most {max} are allowed", max = DEPTH_MAX)]
    TooDeep(u8),
}

/// Reads a message for a function that takes at most `max` bytes.
///
/// # Errors
/// [`BadMessage`].
pub fn read(message: &NatsMessage<'_>, max: u64) -> Result<ReadMessage, BadMessage> {
    // The size comes first: data above the limit is never parsed.
    let size = message.payload.len() as u64;
    if size > max {
        return Err(BadMessage::TooLarge { size, max });
    }
    let size = message.header_size();
    if size > HEADERS_MAX {
        return Err(BadMessage::LongHeaders { size });
    }
    if message.header(UNREADABLE).is_some() {
        return Err(BadMessage::Unreadable);
    }
    let depth = message.depth();
    if depth > DEPTH_MAX {
        return Err(BadMessage::TooDeep(depth));
    }
    let event = cloud_event(message)?;
    let (attributes, content) = match event {
        Some(CloudEvent { attributes, data }) => (Some(Box::new(attributes)), data),
        None if message.payload.is_empty() => (None, EventContent::None),
        None => (None, EventContent::Body),
    };
    let stated = match &attributes {
        Some(attributes) => attributes.datacontenttype.clone(),
        None => message.header("content-type").map(str::to_owned),
    };
    let content_type = match &content {
        EventContent::None => None,
        // In an event's JSON, data without a media type is JSON.
        EventContent::Part(_) => stated.or_else(|| Some("application/json".to_owned())),
        EventContent::Body => stated.or_else(|| Some(guessed(message.payload).to_owned())),
    };
    Ok(ReadMessage {
        event: attributes,
        content,
        content_type,
        subscribed: None,
    })
}

/// Returns the event of a message; nothing if it is none.
fn cloud_event(message: &NatsMessage<'_>) -> Result<Option<CloudEvent>, BadMessage> {
    let names: Vec<String> = message
        .headers
        .iter()
        .map(|(name, _)| name.to_ascii_lowercase())
        .collect();
    let stated = message.header("content-type");
    let is_structured = stated.is_some_and(|stated| begins_with(stated, CLOUD_EVENTS));
    let is_binary = names.iter().any(|name| name.starts_with("ce-"));
    if !is_structured && !is_binary {
        return Ok(None);
    }
    // In HTTP the attribute is the header `Content-Type`, and the reader of events refuses it under its own name.
    let has_own = !is_structured && names.iter().any(|name| name == "ce-datacontenttype");
    let headers: Vec<(&str, &[u8])> = names
        .iter()
        .zip(message.headers)
        .filter_map(|(name, (_, value))| match name.as_str() {
            "content-type" if has_own => None,
            "ce-datacontenttype" if has_own => Some(("content-type", value.as_bytes())),
            name => Some((name, value.as_bytes())),
        })
        .collect();
    let request = EventRequest {
        headers: &headers,
        body: message.payload,
        // Only old forms need an id, and they are not read here.
        id: "",
    };
    match event::read(&request)? {
        Events::One(event) => Ok(Some(*event)),
        Events::Batch(_) => Err(BadMessage::Batch),
    }
}

/// Says whether a text begins with another one; upper and lower case are the same.
#[must_use]
pub fn begins_with(text: &str, start: &str) -> bool {
    text.get(..start.len())
        .is_some_and(|found| found.eq_ignore_ascii_case(start))
}

/// Returns the media type of data of which nothing is stated.
fn guessed(payload: &[u8]) -> &'static str {
    if serde_json::from_slice::<IgnoredAny>(payload).is_ok() {
        return "application/json";
    }
    match str::from_utf8(payload) {
        Ok(_) => "text/plain; charset=utf-8",
        Err(_) => "application/octet-stream",
    }
}

impl<'a> NatsMessage<'a> {
    /// Returns the first value of a header; `name` is in lower case.
    fn header(&self, name: &str) -> Option<&'a str> {
        let first = self.values(name).next()?;
        Some(first.trim()).filter(|value| !value.is_empty())
    }

    /// Returns the values of a header in their order; upper and lower case of the name are the same.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let headers = self.headers.iter();
        let named = headers.filter(move |(found, _)| found.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    /// Returns how many bytes its headers have, names and values.
    #[must_use]
    pub fn header_size(&self) -> usize {
        self.headers.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Returns how many calls, of hooks and of functions, led to the message, with the one that it makes; 0 if no function sent it.
    pub(super) fn depth(&self) -> u8 {
        depth_of(self.headers)
    }

    /// Returns the id that the sender gave the message.
    fn message_id(&self) -> Option<&'a str> {
        self.header(MESSAGE_ID)
    }
}

impl ReadMessage {
    /// Returns what makes another message the same one.
    #[must_use]
    pub fn identity<'a>(&'a self, message: &NatsMessage<'a>) -> MessageIdentity<'a> {
        match (&self.event, message.message_id()) {
            (Some(event), _) => MessageIdentity::Event {
                source: &event.source,
                id: &event.id,
            },
            (None, Some(id)) => MessageIdentity::MessageId {
                stream: &message.place.stream,
                id,
            },
            (None, None) => MessageIdentity::Place(message.place),
        }
    }

    /// Returns the bytes of the data.
    #[must_use]
    pub fn data<'a>(&'a self, message: &NatsMessage<'a>) -> &'a [u8] {
        match &self.content {
            EventContent::None => &[],
            EventContent::Body => message.payload,
            EventContent::Part(data) => data,
        }
    }

    /// Says whether all conditions of `when` hold. `header.NAME` is a header of the message; an attribute of an event is
    /// `header.ce-NAME`, whatever its form.
    #[must_use]
    pub fn holds(&self, message: &NatsMessage<'_>, conditions: &[Test]) -> bool {
        let header = |name: &str| -> Vec<String> {
            let attribute = match (&self.event, name.strip_prefix("ce-")) {
                (Some(event), Some(name)) => event.get(name),
                _ => None,
            };
            if let Some(value) = attribute {
                return vec![value.to_owned()];
            }
            message.values(name).map(str::to_owned).collect()
        };
        let stated = self.content_type.as_deref();
        let facts = RequestValues {
            header: &header,
            query: "",
            content_type: stated.filter(|stated| !is_json(stated)).unwrap_or("application/json"),
            body: self.data(message),
            ip: None,
        };
        conditions.iter().all(|condition| condition.holds(&facts))
    }
}

#[cfg(test)]
mod tests;
