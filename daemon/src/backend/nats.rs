//! Requests about NATS: the connection and its entries, claims that a person ends, and messages that callers publish.

use super::Backend;
use crate::triggers::nats::request::OutgoingMessage;
use crate::triggers::nats::{PublishFailed, ReleaseFailed};
use fnd_core::api::{PublishedMessage, ReleasedClaim};
use fnd_wire::ids::FunctionName;

/// Why there is no answer.
const STOPPING: &str = "fnd is stopping";

impl Backend {
    /// Ends the claim of another node on a message, so that the next node that gets the message runs it.
    pub(crate) async fn release_claim(
        &self,
        function: &FunctionName,
        sequence: u64,
    ) -> Result<ReleasedClaim, ReleaseFailed> {
        let answered = self
            .daemon
            .with_messages(|messages, now| messages.release(now, (function, sequence)));
        let stopping = |_| Err(ReleaseFailed::Failed(STOPPING.to_owned()));
        answered.await.unwrap_or_else(stopping)
    }

    /// Publishes a message, and waits until a stream has stored it.
    pub(crate) async fn publish_message(&self, message: OutgoingMessage) -> Result<PublishedMessage, PublishFailed> {
        let subject = message.subject.to_string();
        let answered = self.daemon.with_messages(|messages, _| messages.publish(message));
        let stopping = |_| Err(PublishFailed::Failed(STOPPING.to_owned()));
        let stored = answered.await.unwrap_or_else(stopping)?;
        Ok(PublishedMessage {
            subject,
            stream: stored.stream,
            sequence: stored.sequence,
            duplicate: stored.is_duplicate,
        })
    }

    /// Says whether the author of a function may let it publish messages: a message may run functions of everybody, on every node.
    pub(crate) fn may_publish(&self, function: &FunctionName) -> bool {
        self.daemon.state.borrow().may_reach_all(function)
    }
}
