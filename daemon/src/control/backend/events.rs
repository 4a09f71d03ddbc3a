//! Requests of routes about events.

use super::Pending;
use fnd_core::access::Permissions;
use fnd_core::data::Data;
use fnd_core::records::Attributes;
use fnd_core::supervisor::{Delivered, NotTaken, Rejection};
use fnd_core::trace::Trace;
use fnd_wire::ids::{FunctionName, InvocationId};

/// Events and their subscribers.
pub trait EventBackend {
    /// Returns the most bytes of a request with events: the largest `limits.body` of a subscriber.
    fn event_bytes_max(&self) -> u64;

    /// Returns a fresh id.
    fn fresh_id(&self) -> InvocationId;

    /// Queues an invocation for each function that takes one of the events, that the sender may operate, and whose author may
    /// get events of this sender, all in one transaction. The result has one item for each event.
    fn publish(&self, events: Vec<NewEvent>, from: EventOrigin) -> Pending<Result<Vec<Delivered>, NotPublished>>;

    fn count_events(&self, outcome: EventOutcome, events: u64);
}

/// Who sends the events of a request.
#[derive(Debug, Clone)]
pub struct EventOrigin {
    /// What the sender may do.
    pub reach: Permissions,
    /// Who it is.
    pub sender: EventSender,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventSender {
    /// A user of the control socket.
    User(u32),
    Function(FunctionName),
    /// A caller of the public listener.
    Listener,
}

/// An event that came in a request.
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub attributes: Attributes,
    pub data: Option<Data>,
    /// Media type of the data.
    pub content_type: Option<String>,
    /// The sender's trace.
    pub trace: Option<Trace>,
    /// The number of calls in its chain, if a function sends it; else 0.
    pub depth: u8,
}

/// Why nothing of a request was accepted.
#[derive(Debug)]
pub enum NotPublished {
    /// No subscriber takes the data of an event.
    Refused {
        /// Place of the event in the request.
        event: usize,
        subscribers: Vec<NotTaken>,
        /// Whether the data is too large for each of them.
        too_large: bool,
    },
    /// No subscriber has room for an event.
    Rejected {
        /// Place of the event in the request.
        event: usize,
        /// The first of them.
        function: FunctionName,
        /// Why.
        rejection: Rejection,
    },
    /// Too many functions subscribe to the events of one request for one transaction.
    TooMuch {
        /// The invocations that they would start.
        shares: usize,
        /// The data of all of them together.
        bytes: u64,
    },
    /// The ledger could not store it.
    StoreFailed,
    Stopping,
    /// The data waited on the disk and cannot be read.
    Unreadable(String),
}

/// The outcome of an event, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOutcome {
    /// At least one function takes it.
    Accepted,
    /// It was sent before.
    Duplicate,
    /// No function subscribes to it.
    Unmatched,
    /// No subscriber takes it.
    Refused,
    /// It is no CloudEvent.
    Malformed,
}

impl EventOutcome {
    /// All outcomes.
    pub const ALL: [Self; 5] = [
        Self::Accepted,
        Self::Duplicate,
        Self::Unmatched,
        Self::Refused,
        Self::Malformed,
    ];

    /// Returns the label of the metric.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Duplicate => "duplicate",
            Self::Unmatched => "unmatched",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
        }
    }
}
