//! Events of all nodes, which go through one stream (`[events.nats] stream`): the form in which an event is published, and what a
//! function makes of one that is delivered.
//!
//! ```text
//!  sender ─▶ fnd ─▶ STREAM.events.TYPE ─┬─ consumer of function f ─▶ a node that has f
//!                                       └─ consumer of function g ─▶ a node that has g
//! ```
//! A consumer has one pattern of subjects, since servers before 2.10 know no more. So it gets all events with a common beginning of
//! the types that its function wants; those that it does not want are acknowledged where they are delivered.

use super::message::{self, BadMessage, NatsMessage, ReadMessage, SubscribedEvent};
use crate::data::Data;
use crate::records::Attributes;
use crate::records::cause::DEPTH_HEADER;
use crate::triggers::event::subscription::{EventSeen, Subscriptions};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;
use std::time::Duration;

/// Longest type of an event that goes through a stream: its subject is in one line of the protocol, which the server limits to 4 KiB,
/// and each of its bytes may take three.
pub const TYPE_MAX: usize = 1000;
/// The second part of all subjects.
const EVENTS: &str = "events";
/// A part of a type that is empty; a subject has no empty part. No other part is encoded like this.
const EMPTY: &str = "%";
/// The pattern for one part or more.
const REST: &str = ">";
/// Characters that are encoded as `%XX` in a subject: its own signs, and all but letters and digits.
const IN_SUBJECT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');
/// Characters that are encoded as `%XX` in a header of an event, as in HTTP.
const IN_HEADER: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// The stream of all events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventStream {
    /// Its name on the server of NATS.
    pub name: Arc<str>,
    /// For how long it keeps an event. A claim is kept as long, so an event that the stream still has never runs a function again.
    pub keeps: Duration,
}

impl EventStream {
    /// Returns the pattern of the subjects of all events.
    #[must_use]
    pub fn subjects(&self) -> String {
        format!("{}.{EVENTS}.{REST}", self.name)
    }

    /// Returns the subject of an event with this type.
    #[must_use]
    pub fn subject(&self, kind: &str) -> String {
        self.joined(&parts(kind))
    }

    /// Returns the narrowest pattern that has the subjects of all events with these types; a `*` at the end of one matches the rest.
    #[must_use]
    pub fn filter<'a>(&self, kinds: impl Iterator<Item = &'a str>) -> String {
        let all = kinds.map(pattern).reduce(|one, other| common(one, &other));
        self.joined(&all.unwrap_or_else(|| vec![REST.to_owned()]))
    }

    fn joined(&self, parts: &[String]) -> String {
        format!("{}.{EVENTS}.{}", self.name, parts.join("."))
    }
}

fn parts(kind: &str) -> Vec<String> {
    let part = |part: &str| match part {
        "" => EMPTY.to_owned(),
        part => utf8_percent_encode(part, IN_SUBJECT).to_string(),
    };
    kind.split('.').map(part).collect()
}

fn pattern(kind: &str) -> Vec<String> {
    let Some(prefix) = kind.strip_suffix('*') else {
        return parts(kind);
    };
    let mut parts = parts(prefix);
    // The text before the `*` may be the beginning of a longer part.
    parts.pop();
    parts.push(REST.to_owned());
    parts
}

/// Returns the narrowest pattern that has the subjects of both.
fn common(mut one: Vec<String>, other: &[String]) -> Vec<String> {
    if one == other {
        return one;
    }
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    // The rest has one part or more, so a pattern that is the beginning of the other one gives up its last part.
    one.truncate(same.min(one.len() - 1).min(other.len() - 1));
    one.push(REST.to_owned());
    one
}

/// Returns the headers of an event whose data is the payload. `id` is the same for each copy of the event; `depth` is the number of
/// calls in its chain, 0 if no function sends it.
#[must_use]
pub fn headers(attributes: &Attributes, id: &str, depth: u8) -> Vec<(String, String)> {
    let mut headers = vec![("Nats-Msg-Id".to_owned(), id.to_owned())];
    headers.extend(attributes.all().map(|(name, value)| {
        let value = utf8_percent_encode(value, IN_HEADER).to_string();
        (format!("ce-{name}"), value)
    }));
    headers.extend((depth > 0).then(|| (DEPTH_HEADER.to_owned(), depth.to_string())));
    headers
}

/// Reads a message of the stream for the only function in `subscriptions`. Nothing: the function does not want it.
///
/// # Errors
/// [`BadMessage`]: the function wants it, and cannot take it; or it is malformed, so nobody knows who wants it.
#[must_use]
pub fn read(message: &NatsMessage<'_>, subscriptions: &Subscriptions) -> Option<Result<ReadMessage, BadMessage>> {
    // The subscription checks the size: a large event of another type is no dead letter of this function.
    let mut read = match message::read(message, u64::MAX) {
        Ok(read) => read,
        Err(bad) => return Some(Err(bad)),
    };
    // A function that wants events ignores every other message.
    let attributes = read.event.as_deref()?;
    let data = Some(read.data(message)).filter(|data| !data.is_empty()).map(Data::from);
    let taken = {
        // Only data on a disk can be unreadable.
        let seen = EventSeen::new(attributes, data.as_ref()).ok()?;
        let share = subscriptions.shares(&seen).into_iter().next()?;
        share.taken
    };
    Some(match taken {
        Ok(order_key) => {
            read.subscribed = Some(SubscribedEvent {
                order_key,
                depth: message.depth(),
            });
            Ok(read)
        }
        Err(refused) => Err(refused.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::StreamPlace;
    use fnd_manifest::function::EventSubscription;
    use fnd_manifest::schema::pick::FromValue as _;
    use fnd_wire::ids::FunctionName;

    fn stream() -> EventStream {
        EventStream {
            name: "fnd".into(),
            keeps: Duration::from_hours(24),
        }
    }

    #[test]
    fn a_type_is_a_subject_and_a_pattern_of_types_one_of_subjects() {
        for (kind, expected) in [
            ("order.created", "fnd.events.order.created"),
            ("order..x", "fnd.events.order.%.x"),
            ("a b.*.>", "fnd.events.a%20b.%2A.%3E"),
            ("grün", "fnd.events.gr%C3%BCn"),
        ] {
            assert_eq!(stream().subject(kind), expected, "{kind}");
        }
        for (kinds, expected) in [
            (&["order.created"][..], "order.created"),
            (&["order.*"], "order.>"),
            (&["order.cre*"], "order.>"),
            (&["order*"], ">"),
            (&["*"], ">"),
            (&[], ">"),
            (&["order.created", "order.created"], "order.created"),
            (&["order.created", "order.paid.late"], "order.>"),
            // `order.>` has no message with the subject `order`.
            (&["order", "order.*"], ">"),
            (&["a.b", "a.b.c"], "a.>"),
            (&["order.*", "invoice.*"], ">"),
        ] {
            let filter = stream().filter(kinds.iter().copied());
            assert_eq!(filter, format!("fnd.events.{expected}"), "{kinds:?}");
        }
    }

    fn entry(kind: &str) -> EventSubscription {
        EventSubscription {
            r#type: kind.to_owned(),
            ..EventSubscription::from_value(None).unwrap()
        }
    }

    fn attributes(kind: &str) -> Attributes {
        Attributes {
            id: "7".to_owned(),
            source: "shop".to_owned(),
            kind: kind.to_owned(),
            subject: Some("grün \"7\" 100%".to_owned()),
            datacontenttype: Some("application/json".to_owned()),
            ..Attributes::default()
        }
    }

    /// Publishes an event, and reads it for a function that wants events of the type `order.*` with at most 10 bytes of data.
    fn delivered(headers: &[(String, String)], data: &str) -> Option<Result<ReadMessage, BadMessage>> {
        let entries = [entry("order.*")];
        let table = Subscriptions::new([(FunctionName::new("f").unwrap(), &entries[..], 10)]);
        let place = StreamPlace {
            stream: "fnd".into(),
            created_ns: 1,
            sequence: 1,
        };
        let message = NatsMessage {
            place: &place,
            headers,
            payload: data.as_bytes(),
        };
        read(&message, &table)
    }

    #[test]
    fn an_event_arrives_as_it_was_sent() {
        let sent = attributes("order.created");
        let read = delivered(&headers(&sent, "a", 3), "[7]").unwrap().unwrap();
        assert_eq!(read.event.as_deref(), Some(&sent));
        assert_eq!(read.content_type.as_deref(), Some("application/json"));
        let subscribed = read.subscribed.unwrap();
        assert_eq!((subscribed.depth, subscribed.order_key), (3, None));
        // Without data there is no payload.
        let read = delivered(&headers(&sent, "a", 0), "").unwrap().unwrap();
        assert_eq!((read.content_type, read.subscribed.unwrap().depth), (None, 0));
    }

    #[test]
    fn what_the_function_does_not_want_is_nothing_and_what_it_cannot_take_is_bad() {
        let of = |kind: &str, depth: u8, data: &str| delivered(&headers(&attributes(kind), "a", depth), data);
        assert_eq!(of("invoice", 0, "[1,2,3,4,5,6]"), None);
        assert_eq!(delivered(&[], "{}"), None);
        let words = |read: Option<Result<ReadMessage, BadMessage>>| read.unwrap().unwrap_err().to_string();
        assert!(words(of("order.created", 0, "[1,2,3,4,5,6]")).contains("limits.body"));
        assert!(words(of("order.created", 9, "1")).contains("call 9"));
        let malformed = [("ce-id".to_owned(), "7".to_owned())];
        assert!(matches!(delivered(&malformed, "1"), Some(Err(BadMessage::Event(_)))));
    }
}
