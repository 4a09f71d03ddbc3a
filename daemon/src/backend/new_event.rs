//! Events that come in a request, and why nothing of it was accepted.

use crate::triggers::nats::PublishFailed;
use fnd_core::access::Permissions;
use fnd_core::data::Data;
use fnd_core::records::Attributes;
use fnd_core::run::{NotTaken, Rejection};
use fnd_core::trace::Trace;
use fnd_wire::ids::FunctionName;

/// The sender of a request's events, with its permissions.
#[derive(Debug, Clone)]
pub(crate) struct EventOrigin {
    /// The permissions of the sender.
    pub(crate) reach: Permissions,
    pub(crate) sender: EventSender,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EventSender {
    /// A user of the control socket.
    User(u32),
    Function(FunctionName),
    /// A caller of the public listener.
    Listener,
}

/// An event that came in a request.
#[derive(Debug, Clone)]
pub(crate) struct NewEvent {
    pub(crate) attributes: Attributes,
    pub(crate) data: Option<Data>,
    /// Media type of the data.
    pub(crate) content_type: Option<String>,
    /// The sender's trace.
    pub(crate) trace: Option<Trace>,
    /// The number of calls in its chain, if a function sends it; else 0.
    pub(crate) depth: u8,
}

/// Why nothing of a request was accepted.
#[derive(Debug)]
pub(crate) enum NotPublished {
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
        rejection: Rejection,
    },
    /// Too many functions subscribe to the events of one request for one transaction.
    TooMuch {
        /// The invocations that they would start.
        shares: usize,
        /// The data of all of them together.
        bytes: u64,
    },
    /// The stream of all nodes has not confirmed an event.
    NotStreamed {
        /// Place of the event in the request.
        event: usize,
        failed: PublishFailed,
    },
    /// The type of an event is longer than a stream takes.
    TypeTooLong {
        /// Place of the event in the request.
        event: usize,
    },
    /// The ledger could not store it.
    StoreFailed,
    Stopping,
    /// The data waited on the disk and cannot be read.
    Unreadable(String),
}
