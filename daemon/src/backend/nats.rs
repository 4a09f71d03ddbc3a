//! NATS: claims that a person ends, messages that callers publish, and events that go through the stream of all nodes
//! (`[events.nats] stream`). Such events are published here, and accepted when the stream has them. The functions of this node get
//! them from there, like those of the others.

use super::events::key;
use super::{Backend, EventOrigin, EventSender, NewEvent, NotPublished};
use crate::triggers::nats::request::OutgoingMessage;
use crate::triggers::nats::settings::event_stream;
use crate::triggers::nats::{PublishFailed, ReleaseFailed};
use bytes::Bytes;
use fnd_core::access::Permissions;
use fnd_core::api::{PublishedMessage, ReleasedClaim};
use fnd_core::run::{Delivered, StreamedEvent};
use fnd_core::triggers::nats::event::{self, EventStream, TYPE_MAX};
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
            duplicate: stored.duplicate,
        })
    }

    /// Says whether the author of a function may let it publish messages: a message may run functions of everybody, on every node.
    pub(crate) fn may_publish(&self, function: &FunctionName) -> bool {
        self.daemon.state.borrow().may_reach_all(function)
    }

    /// Returns the stream for the events of a sender. Nothing: they stay on this node. So do those of a sender who may not operate
    /// every function: an event in the stream runs functions of everybody, on nodes that do not know the sender.
    pub(super) fn event_stream(&self, origin: &EventOrigin) -> Option<EventStream> {
        let stream = event_stream(&self.daemon.state.borrow().node.settings.settings.events)?;
        let reaches_all = origin.reach.limit_of_operation().is_none()
            && match &origin.sender {
                EventSender::Function(function) => self.may_publish(function),
                EventSender::User(_) | EventSender::Listener => true,
            };
        reaches_all.then_some(stream)
    }

    /// Publishes events, and waits until the stream has confirmed each. If it has not, the sender sends all of them again: the stream
    /// and the functions know those that were there.
    pub(super) async fn publish_to_stream(
        &self,
        stream: &EventStream,
        events: &[NewEvent],
        reach: &Permissions,
    ) -> Result<Vec<Delivered>, NotPublished> {
        let messages = events.iter().enumerate();
        let messages: Vec<OutgoingMessage> = messages
            .map(|(place, event)| message(stream, (place, event), reach))
            .collect::<Result<_, _>>()?;
        // All are on their way before the first answer is waited for.
        let answers: Vec<_> = self
            .daemon
            .with_messages(|part, _| messages.into_iter().map(|message| part.publish(message)).collect());
        let mut delivered = Vec::with_capacity(answers.len());
        for (event, answered) in answers.into_iter().enumerate() {
            let stored = answered.await.map_err(|_| NotPublished::Stopping)?;
            let stored = stored.map_err(|failed| NotPublished::NotStreamed { event, failed })?;
            delivered.push(Delivered {
                duplicate: stored.duplicate,
                stream: Some(StreamedEvent {
                    name: stored.stream,
                    sequence: stored.sequence,
                }),
                ..Delivered::default()
            });
        }
        Ok(delivered)
    }
}

/// Returns the message of an event; `place` is that in the request.
fn message(
    stream: &EventStream,
    (place, event): (usize, &NewEvent),
    reach: &Permissions,
) -> Result<OutgoingMessage, NotPublished> {
    if event.attributes.kind.len() > TYPE_MAX {
        return Err(NotPublished::TypeTooLong { event: place });
    }
    let unreadable = |error: std::io::Error| NotPublished::Unreadable(error.to_string());
    let data = event.data.as_ref().map(|data| data.view().map_err(unreadable));
    let mut headers = event::headers(&event.attributes, &key(&event.attributes, reach), event.depth);
    if let Some(trace) = &event.trace {
        let text = trace.to_string();
        // The first line of its stored form is the header.
        let parent = text.lines().next().unwrap_or_default().to_owned();
        headers.push(("traceparent".to_owned(), parent));
        headers.extend(trace.state.clone().map(|state| ("tracestate".to_owned(), state)));
    }
    Ok(OutgoingMessage {
        subject: stream.subject(&event.attributes.kind).into(),
        headers,
        payload: data.transpose()?.unwrap_or_else(Bytes::new),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::records::Attributes;
    use std::time::Duration;

    fn of(kind: &str) -> Result<OutgoingMessage, NotPublished> {
        let stream = EventStream {
            name: "fnd".into(),
            keeps: Duration::from_hours(24),
        };
        let event = NewEvent {
            attributes: Attributes {
                id: "7".to_owned(),
                source: "shop".to_owned(),
                kind: kind.to_owned(),
                ..Attributes::default()
            },
            data: Some(b"[1]".to_vec().into()),
            content_type: None,
            trace: None,
            depth: 2,
        };
        message(&stream, (3, &event), &Permissions::own())
    }

    #[test]
    fn an_event_is_a_message_that_the_stream_knows_again() {
        let message = of("order.created").unwrap();
        assert_eq!(&*message.subject, "fnd.events.order.created");
        assert_eq!(message.payload, "[1]");
        let header = |name: &str| {
            let found = message.headers.iter().find(|(found, _)| found == name);
            found.map(|(_, value)| value.clone())
        };
        assert_eq!(
            header("Nats-Msg-Id"),
            of("order.created").unwrap().headers.first().map(|(_, id)| id.clone())
        );
        assert_eq!(
            (header("ce-id").as_deref(), header("Fnd-Depth").as_deref()),
            (Some("7"), Some("2"))
        );
        assert!(message.size() > message.payload.len());
    }

    #[test]
    fn a_type_that_is_no_subject_is_refused() {
        let long = "a".repeat(TYPE_MAX + 1);
        assert!(matches!(of(&long), Err(NotPublished::TypeTooLong { event: 3 })));
        assert!(of(&long[1..]).is_ok());
    }
}
