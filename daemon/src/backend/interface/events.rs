//! Requests of routes about events.

use crate::backend::{EventOrigin, NewEvent, NotPublished, Pending};
use crate::metrics::EventOutcome;
use fnd_core::supervisor::Delivered;
use fnd_wire::ids::InvocationId;

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
