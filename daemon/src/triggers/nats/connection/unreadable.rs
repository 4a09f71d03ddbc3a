//! Messages at which the client gives its connection up. A server stores whatever a publisher sends: headers that are
//! none, and subjects that are no UTF-8. The client takes bytes that it cannot read for the end of the connection, and the
//! server delivers it again to the next one.
//!
//! Such a message is read in another way, where its headers are data. It becomes a delivery like any other, which the
//! part refuses and acknowledges.

use super::streams::{self, NotFound};
use crate::triggers::nats::fact::{DeliveredMessage, NatsFact};
use crate::triggers::nats::request::NatsEntry;
use async_nats::{Client, HeaderName, StatusCode};
use fnd_core::records::StreamPlace;
use fnd_core::triggers::nats::message::UNREADABLE;
use fnd_core::triggers::nats::server::answers::{self, ConsumerInfo, StoredAnswer, StoredMessage};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

/// Most messages that are read for an entry after a connection was lost, the last ones, and how long that may take.
const READ_MAX: u64 = 1000;
const SEARCH_MAX: Duration = Duration::from_secs(10);
/// The beginning of the first line of a block of headers.
const VERSION: &str = "NATS/1.0";

/// Searches the messages that a consumer has delivered and that may have no end. Returns those that no client can read,
/// as deliveries.
pub(super) async fn search(client: &Client, entry: &NatsEntry, consumer: &ConsumerInfo) -> Vec<NatsFact> {
    let mut found = Vec::new();
    // After an error or a timeout, a message that was not found ends the next connection, too; then it is searched again.
    let _ = timeout(SEARCH_MAX, collect(client, entry, consumer, &mut found)).await;
    found
}

async fn collect(
    client: &Client,
    entry: &NatsEntry,
    consumer: &ConsumerInfo,
    found: &mut Vec<NatsFact>,
) -> Result<(), NotFound> {
    let (rules, config) = (&entry.rules, &consumer.config);
    let subject = format!("$JS.API.STREAM.MSG.GET.{}", rules.stream.as_deref().unwrap_or_default());
    let filter = match config.filter_subject.as_str() {
        "" if config.filter_subjects.is_empty() => ">",
        "" => rules.subject.as_str(),
        filter => filter,
    };
    let first = consumer.ack_floor.stream_seq.saturating_add(1);
    let last = consumer.delivered.stream_seq;
    let mut next = first.max(last.saturating_sub(READ_MAX - 1));
    while next <= last {
        let body = json!({ "seq": next, "next_by_subj": filter });
        let answer = streams::ask(client, (subject.clone(), body.to_string().into_bytes())).await?;
        let Ok(StoredAnswer { message }) = answers::read(&answer) else {
            return Ok(()); // there is none after it
        };
        next = message.seq.max(next).saturating_add(1);
        if message.seq <= last && !is_readable(&message.subject, message.block()) {
            found.push(delivery(entry, consumer.delivered.consumer_seq, message));
        }
    }
    Ok(())
}

/// Says whether the client can read a message with this subject and this block of headers.
fn is_readable(subject: &str, block: &[u8]) -> bool {
    // The server's JSON has this character in place of bytes that are not UTF-8.
    if subject.contains(char::REPLACEMENT_CHARACTER) {
        return false;
    }
    // Before headers, blanks of any alphabet end the subject.
    let is_word = || !subject.contains(char::is_whitespace);
    block.is_empty() || (is_word() && str::from_utf8(block).is_ok_and(are_headers))
}

fn are_headers(block: &str) -> bool {
    let mut lines = block.lines().peekable();
    let Some(status) = lines.next().and_then(|line| line.strip_prefix(VERSION)) else {
        return false;
    };
    let status = status.trim();
    let code = status.split_once(' ').map_or(status, |(code, _)| code.trim());
    if !code.is_empty() && code.parse::<StatusCode>().is_err() {
        return false;
    }
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let is_header = |(name, _): (&str, &str)| name.parse::<HeaderName>().is_ok();
        if !line.split_once(':').is_some_and(is_header) {
            return false;
        }
        // A value goes on in lines that begin with a blank.
        while lines.next_if(|line| line.starts_with(char::is_whitespace)).is_some() {}
    }
    true
}

/// Returns the delivery of a message. Its address is made here: the server looks only at the sequence, and takes the
/// rest from what it knows of the delivery.
fn delivery(entry: &NatsEntry, deliveries: u64, message: StoredMessage) -> NatsFact {
    let stream = entry.rules.stream.as_deref().unwrap_or_default();
    let (consumer, sequence, stored_ns) = (&entry.rules.consumer, message.seq, message.stored_ns);
    let headers = message.headers();
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let is_unreadable = (UNREADABLE.to_owned(), "1".to_owned());
    NatsFact::Delivered(Box::new(DeliveredMessage {
        entry: entry.number,
        place: StreamPlace {
            stream: stream.into(),
            created_ns: stored_ns,
            sequence,
        },
        ack: format!("$JS.ACK.{stream}.{consumer}.1.{sequence}.{deliveries}.{stored_ns}.0").into(),
        // It may have come to another node before, so its claim is read first.
        delivered: 2,
        headers: headers.chain([is_unreadable]).collect(),
        subject: message.subject,
        payload: message.data.into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::triggers::nats::server::ack_address;

    #[test]
    fn what_ends_a_connection_of_the_client_is_unreadable() {
        for (headers, expected) in [
            (&b""[..], true),
            (b"NATS/1.0\r\n\r\n", true),
            (b"NATS/1.0\r\nX-Kind: one\r\n two\r\nX-Empty:\r\n\r\n", true),
            (b"NATS/1.0 404 No Messages\r\n\r\n", true),
            (b"NATS/1.0\r\nX-Kind: \xff\r\n\r\n", false),
            (b"NATS/1.0\r\nMy Name: v\r\n\r\n", false),
            (b"NATS/1.0\r\nname : v\r\n\r\n", false),
            (b"NATS/1.0\r\n\xc3\xa4: v\r\n\r\n", false),
            (b"NATS/1.0\r\nno header\r\n\r\n", false),
            (b"NATS/1.0\r\n two\r\n\r\n", false),
            (b"NATS/1.0 many\r\n\r\n", false),
            (b"HTTP/1.1\r\n\r\n", false),
        ] {
            let text = String::from_utf8_lossy(headers);
            assert_eq!(is_readable("orders.a", headers), expected, "{text}");
        }
        let block = b"NATS/1.0\r\n\r\n";
        assert!(is_readable("orders.\u{3000}a", b"") && !is_readable("orders.\u{3000}a", block));
        assert!(!is_readable("orders.\u{fffd}", b""));
    }

    #[test]
    fn such_a_message_is_a_delivery_that_says_so() {
        let entry = crate::triggers::nats::connection::entries::tests::entry(1, Some("ORDERS"));
        let answer = br#"{"message":{"subject":"orders.a","seq":7,"time":"2026-11-21T08:00:00.5Z","data":"e30="}}"#;
        let StoredAnswer { message } = answers::read(answer).unwrap();
        let NatsFact::Delivered(delivered) = delivery(&entry, 11, message) else {
            panic!("it is delivered");
        };
        let address = ack_address::read(&delivered.ack).unwrap();
        assert_eq!((address.stream, address.consumer), ("ORDERS", "fnd-f"));
        assert_eq!((address.sequence, address.consumer_sequence), (7, 11));
        assert_eq!(address.stored_ns, delivered.place.created_ns);
        assert_eq!(delivered.headers, [(UNREADABLE.to_owned(), "1".to_owned())]);
        assert_eq!(
            (&*delivered.payload, delivered.place.created_ns),
            (&b"{}"[..], 1_795_248_000_500_000_000)
        );
    }
}
