//! What made a trigger run a function, beside the payload: it travels with the payload and is stored with it, so a retry,
//! a replay and the next fnd see the same.

use super::event::Attributes;
use crate::instant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cause of an invocation. Triggers that only bring a payload (`manual`, `load`) have none, and neither has `http`,
/// whose request is in the payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A slot of a schedule.
    Schedule(Slots),
    /// An event that the function subscribes to.
    Event(EventCause),
}

/// An event, without its data, which is the payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventCause {
    /// The attributes of CloudEvents.
    #[serde(flatten)]
    pub attributes: Attributes,
    /// The value of `key` of the subscription: events with the same value run one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_key: Option<String>,
}

/// The slots of a schedule that one invocation stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Slots {
    /// The latest of the slots.
    #[schemars(extend("format" = "date-time"))]
    pub scheduled_at: String,
    /// The number of slots: 1, or more where some were missed.
    pub slots: u64,
    /// The first of several slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub first: Option<String>,
}

impl Slots {
    /// Returns `slots` slots from `first_ms` to `last_ms`, both in Unix milliseconds.
    #[must_use]
    pub fn new(first_ms: u64, last_ms: u64, slots: u64) -> Self {
        Self {
            scheduled_at: instant::text(last_ms),
            slots,
            first: (slots > 1).then(|| instant::text(first_ms)),
        }
    }
}

impl Cause {
    /// Returns the variables that a function sees of the cause. All names begin with `FND_`.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Schedule(slots) => vec![
                ("FND_SCHEDULED_AT", slots.scheduled_at.clone()),
                ("FND_MISSED", slots.slots.to_string()),
            ],
            Self::Event(event) => {
                let attributes = &event.attributes;
                let mut variables = vec![
                    ("FND_EVENT_ID", attributes.id.clone()),
                    ("FND_EVENT_TYPE", attributes.kind.clone()),
                    ("FND_EVENT_SOURCE", attributes.source.clone()),
                ];
                let more = [
                    ("FND_EVENT_SUBJECT", &attributes.subject),
                    ("FND_EVENT_TIME", &attributes.time),
                ];
                let there = more
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value.clone()?)));
                variables.extend(there);
                variables
            }
        }
    }

    /// Returns when the cause happened, as a handler's `event-time` (RFC 3339); absent: the begin of the invocation counts.
    #[must_use]
    pub fn time(&self) -> Option<&str> {
        match self {
            Self::Schedule(slots) => Some(&slots.scheduled_at),
            Self::Event(event) => event.attributes.time.as_deref(),
        }
    }

    /// Returns the key whose invocations run one after the other.
    #[must_use]
    pub fn order_key(&self) -> Option<&str> {
        match self {
            Self::Schedule(_) => None,
            Self::Event(event) => event.order_key.as_deref(),
        }
    }

    /// Returns headers that carry the cause to a handler and to a program that serves HTTP: an event has the headers of its
    /// binary form. Names are in lower case; there is no `content-type`, which the payload has.
    #[must_use]
    pub fn headers(&self) -> Vec<(String, String)> {
        match self {
            Self::Schedule(_) => Vec::new(),
            Self::Event(event) => {
                let attributes = event.attributes.all().filter(|(name, _)| *name != "datacontenttype");
                attributes
                    .map(|(name, value)| (format!("ce-{name}"), value.to_owned()))
                    .collect()
            }
        }
    }
}
