//! Events for the functions that subscribe to them, and the shares that functions get.

use super::ReplyTo;
use super::submit::Submit;
use crate::records::Accepted;
use fnd_manifest::text;
use fnd_wire::ids::{FunctionName, InvocationId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The events of a request. All of them are accepted, or none.
#[derive(Debug)]
pub struct Publish {
    /// Where the answer goes.
    pub reply: ReplyTo,
    /// The events in the order of the request.
    pub events: Vec<Publication>,
}

/// An event for the functions that subscribe to it.
#[derive(Debug)]
pub struct Publication {
    /// Identifies the event: one with the same key is the same event.
    pub key: Arc<str>,
    /// A request for each function that takes the data.
    pub submits: Vec<Submit>,
    /// The functions that do not.
    pub refused: Vec<NotTaken>,
}

/// An invocation that an event started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taken {
    /// Its id.
    #[serde(with = "text::id")]
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub id: InvocationId,
    /// Its function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
}

/// A function that subscribes to an event and does not take it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotTaken {
    /// The function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
    /// Why.
    pub why: String,
}

/// Where the stream of all nodes has an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamedEvent {
    /// The name of the stream.
    pub name: String,
    /// The sequence of the event in it.
    pub sequence: u64,
}

/// The result of sending an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delivered {
    /// The invocations; none if the event goes through a stream.
    pub invocations: Vec<Taken>,
    /// The functions that do not take it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<NotTaken>,
    /// Whether the event was sent before: then this is what came of it the first time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// Where it waits for the nodes; absent unless it goes through a stream (`events.nats.stream`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamedEvent>,
}

/// The shares of events, to be stored in one transaction.
#[derive(Debug, Clone)]
pub struct Shares {
    /// Their number, by which they are acknowledged.
    pub number: u64,
    /// When they were accepted.
    pub accepted_ms: u64,
    /// The shares of each event, in the order of the request.
    pub events: Vec<EventShares>,
}

/// The shares of an event.
#[derive(Debug, Clone)]
pub struct EventShares {
    /// [`Publication::key`].
    pub key: Arc<str>,
    /// The invocations that the event has made, without the skipped ones.
    pub accepted: Vec<Accepted>,
    /// Invocations that the function has no room for. They are stored as [skipped](Accepted::skipped).
    pub skipped: Vec<Accepted>,
    /// The answer to a sender that sends the event again.
    pub delivered: Delivered,
}
