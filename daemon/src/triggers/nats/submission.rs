//! The request to run that a message becomes. Pure.

use super::books::EntryBook;
use super::fact::DeliveredMessage;
use fnd_core::data::Data;
use fnd_core::instant;
use fnd_core::records::cause::{Cause, EventCause, NatsCause};
use fnd_core::records::outcome::{Reason, Trigger};
use fnd_core::records::{MessageMark, Payload};
use fnd_core::run::{Overlap, Submit, TakenOver};
use fnd_core::trace::Trace;
use fnd_core::triggers::event::EventContent;
use fnd_core::triggers::nats::message::{BadMessage, HEADERS_MAX, ReadMessage};
use fnd_wire::ids::InvocationId;

/// Of a message that is larger than the function takes, so many bytes are kept.
const TOO_LARGE_KEPT: usize = 64 << 10;

/// Returns the request to run a message, or to keep it as a dead letter. A message that cannot be read becomes one that never begins.
pub(super) fn submission(
    id: InvocationId,
    entry: &EntryBook,
    (message, read): (&DeliveredMessage, &Result<ReadMessage, BadMessage>),
    mark: MessageMark,
    taken_over: Option<TakenOver>,
) -> Submit {
    let payload = match read {
        Ok(read) => payload(message, read),
        Err(_) => unread_payload(message, entry.wanted.body_max),
    };
    let bad = read.as_ref().err();
    Submit {
        payload,
        // Messages wait, whatever the policy of the function is, unless a newer one is worth more than an older one.
        overlap: (!entry.wanted.replaces).then_some(Overlap::Queue),
        skipped: bad.map(|bad| (Reason::Input, bad.to_string().into())),
        message: Some(Box::new(mark)),
        taken_over: taken_over.map(Box::new),
        ..Submit::new(id, entry.function.clone(), Trigger::Nats)
    }
}

/// Returns the payload of a message that can be read.
pub(super) fn payload(message: &DeliveredMessage, read: &ReadMessage) -> Payload {
    let data = match &read.content {
        EventContent::None => None,
        EventContent::Body => Some(Data::from(&message.payload[..])),
        EventContent::Part(part) => Some(Data::from(&part[..])),
    };
    Payload {
        data,
        content_type: read.content_type.as_deref().map(Into::into),
        trace: trace(message, read),
        cause: Some(cause_of(message, read).into()),
        ..Payload::default()
    }
}

/// Returns the part of an unreadable message that is kept, for the readers of its dead letter.
fn unread_payload(message: &DeliveredMessage, body_max: u64) -> Payload {
    let size = message.payload.len();
    let kept = match size as u64 > body_max {
        true => &message.payload[..size.min(TOO_LARGE_KEPT)],
        false => &message.payload[..],
    };
    Payload {
        data: Some(Data::from(kept)),
        content_type: header(message, "content-type")
            .filter(|_| !has_long_headers(message))
            .map(Into::into),
        cause: Some(Cause::Nats(cause(message, None)).into()),
        ..Payload::default()
    }
}

fn has_long_headers(message: &DeliveredMessage) -> bool {
    message.view().header_size() > HEADERS_MAX
}

/// Returns the cause of the run: an event that came by `[[event]]` is the same as on a node of its own.
fn cause_of(message: &DeliveredMessage, read: &ReadMessage) -> Cause {
    match (&read.subscribed, &read.event) {
        (Some(subscribed), Some(attributes)) => Cause::Event(EventCause {
            attributes: (**attributes).clone(),
            order_key: subscribed.order_key.clone(),
            depth: subscribed.depth,
        }),
        _ => Cause::Nats(cause(message, Some(read))),
    }
}

fn cause(message: &DeliveredMessage, read: Option<&ReadMessage>) -> NatsCause {
    // A request has no place and no acknowledgement.
    let place = Some(&message.place).filter(|_| !message.ack.is_empty());
    NatsCause {
        subject: message.subject.clone(),
        stream: place.map(|place| place.stream.to_string()),
        sequence: place.map(|place| place.sequence),
        delivered: place.map(|_| message.delivered),
        claim: None,
        time: instant::text(message.place.created_ns / 1_000_000),
        // Headers that are too long are not kept: they would be in the history for as long as the dead letter is.
        headers: match has_long_headers(message) {
            true => Vec::new(),
            false => message.headers.clone(),
        },
        event: read.and_then(|read| read.event.clone()),
        answers: place.is_none(),
    }
}

/// Returns the trace of the sender: that of the headers, else that of the event.
fn trace(message: &DeliveredMessage, read: &ReadMessage) -> Option<Trace> {
    let attribute = |name: &str| read.event.as_ref()?.get(name).map(str::to_owned);
    Trace::of(|name| header(message, name).or_else(|| attribute(name)))
}

/// Returns the values of a header, joined by commas; `name` is in lower case.
fn header(message: &DeliveredMessage, name: &str) -> Option<String> {
    let values: Vec<&str> = message.view().values(name).map(str::trim).collect();
    (!values.is_empty()).then(|| values.join(","))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{delivered, function, mark, wanted_entry};
    use super::super::wanted::WantedEntry;
    use super::*;
    use fnd_core::triggers::nats::message::{self, SubscribedEvent};

    fn submitted(message: &DeliveredMessage, body_max: u64) -> Submit {
        let read = message::read(&message.view(), body_max);
        let wanted = WantedEntry {
            body_max,
            ..wanted_entry("f", "x")
        };
        let entry = EntryBook::new(function("f"), wanted);
        submission(InvocationId(1), &entry, (message, &read), mark("ORDERS", 7), None)
    }

    fn bytes(submit: &Submit) -> Vec<u8> {
        submit.payload.data.as_ref().unwrap().bytes().unwrap().into_owned()
    }

    #[test]
    fn a_message_is_payload_and_cause() {
        let mut message = delivered(1, 7, 2);
        message.place.created_ns = 1_795_248_000_123_456_789;
        message
            .headers
            .push(("traceparent".to_owned(), format!("00-{:032x}-{:016x}-01", 5, 6)));
        let submit = submitted(&message, 100);
        assert_eq!(bytes(&submit), b"{}");
        assert_eq!(submit.payload.content_type.as_deref(), Some("application/json"));
        let Some(Cause::Nats(cause)) = submit.payload.cause.as_deref() else {
            panic!("the cause is the message");
        };
        assert_eq!(
            (cause.sequence, cause.delivered, cause.headers.len()),
            (Some(7), Some(2), 1)
        );
        assert_eq!(cause.time, "2026-11-21T08:00:00.123Z");
        assert!(submit.skipped.is_none() && submit.payload.trace.is_some());
        assert_eq!(submit.trigger, Trigger::Nats);
    }

    #[test]
    fn an_event_of_all_nodes_is_one_as_on_a_single_node() {
        let mut message = delivered(1, 7, 1);
        for (name, value) in [
            ("specversion", "1.0"),
            ("id", "7"),
            ("source", "shop"),
            ("type", "order"),
        ] {
            message.headers.push((format!("ce-{name}"), value.to_owned()));
        }
        let mut read = message::read(&message.view(), 100).unwrap();
        let cause = |read: &ReadMessage| payload(&message, read).cause.unwrap();
        assert!(matches!(&*cause(&read), Cause::Nats(_)));
        read.subscribed = Some(SubscribedEvent {
            order_key: Some("a".to_owned()),
            depth: 2,
        });
        let cause = cause(&read);
        assert_eq!((cause.order_key(), cause.depth()), (Some("a"), 2));
        assert!(matches!(&*cause, Cause::Event(event) if event.attributes.kind == "order"));
    }

    #[test]
    fn a_message_that_cannot_be_read_is_kept_and_never_begins() {
        let message = DeliveredMessage {
            payload: vec![b'x'; 100_000].into(),
            ..delivered(1, 7, 1)
        };
        let submit = submitted(&message, 99_999);
        let (reason, why) = submit.skipped.as_ref().unwrap();
        assert_eq!(*reason, Reason::Input);
        assert!(why.contains("100000 bytes"), "{why}");
        assert_eq!(bytes(&submit).len(), TOO_LARGE_KEPT);
        let long = DeliveredMessage {
            headers: vec![("Kind".to_owned(), "a".repeat(HEADERS_MAX))],
            ..delivered(1, 7, 1)
        };
        let submit = submitted(&long, 100);
        assert!(matches!(submit.payload.cause.as_deref(), Some(Cause::Nats(cause)) if cause.headers.is_empty()));
        assert!(submit.skipped.is_some());
        let batch = DeliveredMessage {
            headers: vec![(
                "Content-Type".to_owned(),
                "application/cloudevents-batch+json".to_owned(),
            )],
            payload: "[]".into(),
            ..delivered(1, 7, 1)
        };
        let submit = submitted(&batch, 100);
        assert_eq!(bytes(&submit), b"[]");
        assert!(submit.skipped.is_some());
    }
}
