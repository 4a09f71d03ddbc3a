//! Bodies about events.

use crate::run::Delivered;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An event that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventAccepted {
    /// The attribute `id` of the event.
    pub id: String,
    /// The invocations that it started, and the functions that did not take it.
    #[serde(flatten)]
    pub delivered: Delivered,
}

/// A batch of events that was accepted, in the order of the batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BatchAccepted {
    /// The events.
    pub events: Vec<EventAccepted>,
}
