//! Idempotency keys: what makes two requests the same one.
//!
//! A key is a word of its sender's choice, so it says nothing about who sends it. It counts together with its *owner*:
//! the route and the credential of a request of the public listener, the user or the calling function of one of the
//! API. Otherwise a stranger who guesses a key would get the answer of another caller, or stop that caller's order.
//! A request with a known key must also have the same *content*, so that nobody takes the answer of one request for
//! that of another.
//!
//! Of all this only two digests are kept, in one text: the ledger finds them by the first.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::sync::Arc;

/// Between the digest of owner and key, and that of the content.
const SEPARATOR: char = '.';

/// Whose key it is. Keys of two owners never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOwner<'a> {
    /// The senders who use a route of the public listener with this credential; absent: the route is open.
    Route {
        /// The host of the route; absent: every host.
        host: Option<&'a str>,
        /// The path of the route, as the manifest has it.
        path: &'a str,
        /// The [`Credential`](fnd_manifest::function::route::Credential) and user that admitted the request; absent: none.
        credential: Option<&'a str>,
    },
    /// A user of the control socket.
    User(u32),
    /// A function that calls.
    Function(&'a str),
    /// A person who redrives a dead letter: it is redriven once, whoever asks.
    Redrive,
}

/// The idempotency key of a request, with its owner and the request's content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(Arc<str>);

impl IdempotencyKey {
    /// Returns the key of a request; the parts of `content` are what must be the same in a second request.
    #[must_use]
    pub fn new<'a>(owner: KeyOwner<'_>, key: &str, content: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut text = match owner {
            KeyOwner::Route { host, path, credential } => {
                // An absent part differs from an empty one.
                let (host, credential) = (host.map(str::as_bytes), credential.map(str::as_bytes));
                let (with_host, with_credential) = ([u8::from(host.is_some())], [u8::from(credential.is_some())]);
                digest([
                    &b"route"[..],
                    &with_host,
                    host.unwrap_or_default(),
                    path.as_bytes(),
                    &with_credential,
                    credential.unwrap_or_default(),
                    key.as_bytes(),
                ])
            }
            KeyOwner::User(uid) => digest([&b"user"[..], &uid.to_le_bytes(), key.as_bytes()]),
            KeyOwner::Function(name) => digest([b"function", name.as_bytes(), key.as_bytes()]),
            KeyOwner::Redrive => digest([&b"redrive"[..], key.as_bytes()]),
        };
        text.push(SEPARATOR);
        text.push_str(&digest(content));
        Self(text.into())
    }

    /// Returns a key as the ledger has it. That of an earlier fnd, which stored the sender's word, is the same as no
    /// other.
    #[must_use]
    pub fn stored(text: Arc<str>) -> Self {
        Self(text)
    }

    /// Returns the text that the ledger stores.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what is the same for all requests with this key of this owner: the beginning of the stored text, with
    /// the separator.
    #[must_use]
    pub fn identity(&self) -> &str {
        // A key that an earlier fnd has stored has no separator: then the whole text is its identity.
        let end = self
            .0
            .find(SEPARATOR)
            .map_or(self.0.len(), |at| at + SEPARATOR.len_utf8());
        self.0.get(..end).unwrap_or_default()
    }
}

/// Returns the first half of a digest of parts, each with its length: 128 bits, so that nobody finds another request with
/// the digest of a given one.
fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut text = String::with_capacity(66);
    for byte in hash.finalize().iter().take(16) {
        let _ = write!(text, "{byte:02x}"); // writing to a text cannot fail
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of(owner: KeyOwner<'_>, key: &str, body: &[u8]) -> IdempotencyKey {
        IdempotencyKey::new(owner, key, [body])
    }

    fn route<'a>(host: Option<&'a str>, path: &'a str, credential: Option<&'a str>) -> KeyOwner<'a> {
        KeyOwner::Route { host, path, credential }
    }

    #[test]
    fn a_key_belongs_to_its_owner() {
        let owners = [
            route(None, "/a", None),
            route(None, "/b", None),
            route(Some(""), "/a", None),
            route(Some("h"), "/a", None),
            route(None, "/a", Some("")),
            route(None, "/a", Some("token:s")),
            route(None, "/a", Some("basic:s:ada")),
            route(None, "/a", Some("basic:s:bob")),
            KeyOwner::User(0),
            KeyOwner::User(1000),
            KeyOwner::Function("a"),
            KeyOwner::Function("b"),
            KeyOwner::Redrive,
        ];
        let identities: BTreeSet<String> = owners
            .iter()
            .flat_map(|owner| ["k", "l", "", "ak"].map(|key| of(*owner, key, b"x").identity().to_owned()))
            .collect();
        assert_eq!(identities.len(), owners.len() * 4);
    }

    #[test]
    fn the_content_is_not_part_of_the_identity() {
        let owner = KeyOwner::User(7);
        let (first, again, other) = (of(owner, "k", b"x"), of(owner, "k", b"x"), of(owner, "k", b"y"));
        assert_eq!(first, again);
        assert_eq!(first.identity(), other.identity());
        assert_ne!(first, other);
        let parts = |parts: &[&'static [u8]]| IdempotencyKey::new(owner, "k", parts.iter().copied());
        assert_ne!(parts(&[b"ab", b"c"]), parts(&[b"a", b"bc"]));
        assert_ne!(parts(&[b"", b"x"]), parts(&[b"x", b""]));
    }

    #[test]
    fn a_stored_key_is_the_same_one() {
        let key = of(KeyOwner::User(7), "k", b"x");
        let stored = IdempotencyKey::stored(key.as_str().into());
        assert_eq!((&stored, stored.identity()), (&key, key.identity()));
        // An earlier fnd stored what the sender wrote; no identity begins like it.
        for word in [
            "order-17",
            "",
            "\0redrive 7",
            key.identity().trim_end_matches(SEPARATOR),
        ] {
            let earlier = IdempotencyKey::stored(word.into());
            assert_eq!(earlier.as_str(), word);
            assert_ne!(earlier.identity(), key.identity(), "{word}");
        }
    }
}
