//! Which key of the bucket a message has. Two messages with one key are the same work: the second one is a duplicate.
//!
//! Keys of a bucket are made of `A-Z a-z 0-9 - _ / = .` (NATS, ADR-8). Names of functions and ids of senders have other
//! characters, so a key has a digest of them.

use crate::records::StreamPlace;
use fnd_wire::ids::FunctionName;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// The beginning of the keys of claims.
pub const CLAIMS: &str = "claims.";
/// The beginning of the keys of nodes.
pub const NODES: &str = "nodes.";

/// The identity of a message: two messages with the same identity are one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageIdentity<'a> {
    /// A CloudEvent, by its source and its id, whatever stream it came by.
    Event {
        /// The attribute `source`.
        source: &'a str,
        /// The attribute `id`.
        id: &'a str,
    },
    /// A message with the header `Nats-Msg-Id`, within its stream.
    MessageId {
        /// The name of the stream. Programs number their messages from 1, so the ids of two streams may be equal.
        stream: &'a str,
        /// The value of the header.
        id: &'a str,
    },
    /// A message without an id: each place of a stream is a message of its own.
    Place(&'a StreamPlace),
}

/// Returns the key of the claim on a message for a function.
#[must_use]
pub fn claim_key(function: &FunctionName, identity: &MessageIdentity<'_>) -> Arc<str> {
    let mut digest = Sha256::new();
    // The length keeps neighbouring parts apart.
    let mut add = |part: &[u8]| {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    };
    add(function.as_str().as_bytes());
    match identity {
        MessageIdentity::Event { source, id } => {
            add(b"event");
            add(source.as_bytes());
            add(id.as_bytes());
        }
        MessageIdentity::MessageId { stream, id } => {
            add(b"id");
            add(stream.as_bytes());
            add(id.as_bytes());
        }
        MessageIdentity::Place(place) => {
            add(b"place");
            add(place.stream.as_bytes());
            add(&place.created_ns.to_be_bytes());
            add(&place.sequence.to_be_bytes());
        }
    }
    // Half of the digest: 128 bits are never equal by chance.
    let half: [u8; 16] = digest.finalize()[..16].try_into().unwrap_or_default();
    format!("{CLAIMS}{:032x}", u128::from_be_bytes(half)).into()
}

/// Returns the key of a node. The configuration has checked that the name can be a part of a key.
#[must_use]
pub fn node_key(name: &str) -> String {
    format!("{NODES}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn function(name: &str) -> FunctionName {
        FunctionName::new(name).unwrap()
    }

    fn place(stream: &str, created_ns: u64, sequence: u64) -> StreamPlace {
        StreamPlace {
            stream: stream.into(),
            created_ns,
            sequence,
        }
    }

    #[test]
    fn a_key_has_only_characters_that_a_bucket_allows() {
        let identity = MessageIdentity::Event {
            source: "https://example.com/a b",
            id: "ä*>",
        };
        let key = claim_key(&function("shop/orders"), &identity);
        assert_eq!(key.len(), CLAIMS.len() + 32);
        assert!(key.starts_with(CLAIMS));
        assert!(
            key[CLAIMS.len()..]
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        );
        assert_eq!(node_key("vm1.example.com"), "nodes.vm1.example.com");
    }

    /// Nodes with another version of fnd look for the claim under the same key.
    #[test]
    fn a_key_stays_the_same_from_version_to_version() {
        let place = place("ORDERS", 1, 291);
        let key = claim_key(&function("shop/orders"), &MessageIdentity::Place(&place));
        assert_eq!(&*key, "claims.0044c649d39159a6277b56383eb7da93");
    }

    #[test]
    fn everything_that_makes_another_message_makes_another_key() {
        let places = [place("A", 1, 1), place("A", 1, 2), place("A", 2, 1), place("B", 1, 1)];
        let event = |source, id| MessageIdentity::Event { source, id };
        let id = |stream, id| MessageIdentity::MessageId { stream, id };
        let mut identities = vec![
            event("a", "bc"),
            event("ab", "c"),
            event("A", "1"),
            id("A", "1"),
            id("B", "1"),
            id("A", "2"),
        ];
        identities.extend(places.iter().map(MessageIdentity::Place));
        let functions = [function("f"), function("g"), function("g/f")];
        let keys = functions
            .iter()
            .flat_map(|function| identities.iter().map(move |identity| claim_key(function, identity)));
        let keys: BTreeSet<_> = keys.collect();
        assert_eq!(keys.len(), functions.len() * identities.len());
    }

    #[test]
    fn a_duplicate_has_the_key_of_the_first_message() {
        let event = MessageIdentity::Event {
            source: "shop",
            id: "7",
        };
        assert_eq!(claim_key(&function("f"), &event), claim_key(&function("f"), &event));
    }
}
