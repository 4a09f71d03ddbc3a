//! Reads the answers of JetStream. Fields that fnd does not need are ignored, so that servers from 2.9 on are read
//! alike.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

/// Numbers of errors (`err_code`) on which something depends.
pub mod error {
    /// There is no such consumer.
    pub const CONSUMER_NOT_FOUND: u32 = 10_014;
    /// There is no message with this subject.
    pub const NO_MESSAGE_FOUND: u32 = 10_037;
    /// JetStream is off in this account.
    pub const NOT_ENABLED_FOR_ACCOUNT: u32 = 10_039;
    /// There is a stream of this name with another configuration.
    pub const STREAM_NAME_EXISTS: u32 = 10_058;
    /// There is no such stream.
    pub const STREAM_NOT_FOUND: u32 = 10_059;
    /// The key has another revision.
    pub const WRONG_LAST_SEQUENCE: u32 = 10_071;
    /// JetStream is off in the server.
    pub const NOT_ENABLED: u32 = 10_076;
    /// Another consumer of the work queue has these subjects.
    pub const CONSUMER_NOT_UNIQUE: u32 = 10_100;
    /// The key has another revision, said by a cluster of servers from 2.11 on.
    pub const WRONG_LAST_SEQUENCE_CONSTANT: u32 = 10_164;
}

/// An error that the server answers with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("{description} ({err_code})")]
#[serde(default)]
pub struct ApiError {
    /// The number of the error; 0 if the server gives none.
    pub err_code: u32,
    /// The server's words.
    pub description: String,
}

/// Why an answer brings nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// The server has refused the request.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// It is no answer that fnd knows.
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(String),
}

impl BadAnswer {
    /// Says whether the server has answered with one of these errors.
    #[must_use]
    pub fn is(&self, codes: &[u32]) -> bool {
        matches!(self, Self::Refused(error) if codes.contains(&error.err_code))
    }
}

/// Reads the answer of the server to a request of JetStream.
///
/// # Errors
/// [`BadAnswer`].
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BadAnswer> {
    #[derive(Deserialize)]
    struct Envelope {
        error: Option<ApiError>,
    }
    let unreadable = |error: serde_json::Error| BadAnswer::Unreadable(error.to_string());
    if let Some(error) = serde_json::from_slice::<Envelope>(bytes).map_err(unreadable)?.error {
        return Err(error.into());
    }
    serde_json::from_slice(bytes).map_err(unreadable)
}

/// A stream, as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StreamInfo {
    /// When it was made, nanoseconds since 1970.
    #[serde(rename = "created", deserialize_with = "instant")]
    pub created_ns: u64,
    /// How it is configured.
    pub config: StreamConfig,
}

/// How a stream is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StreamConfig {
    /// The subjects whose messages it stores; none for a stream that copies others.
    pub subjects: Vec<String>,
    /// For how many nanoseconds it keeps a message; 0: for ever.
    pub max_age: u64,
    /// `limits`, `interest` or `workqueue`.
    pub retention: String,
}

/// A consumer of a stream, as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ConsumerInfo {
    /// When it was made, nanoseconds since 1970.
    #[serde(rename = "created", deserialize_with = "instant")]
    pub created_ns: u64,
    /// How it is configured.
    pub config: ConsumerConfig,
    /// The last message that was delivered for the first time.
    #[serde(default)]
    pub delivered: ConsumerPosition,
    /// The last message up to which all are acknowledged.
    #[serde(default)]
    pub ack_floor: ConsumerPosition,
    /// Messages that were not delivered yet.
    #[serde(default)]
    pub num_pending: u64,
    /// Messages that were delivered more than once and are not acknowledged.
    #[serde(default)]
    pub num_redelivered: u64,
    /// Whether somebody has paused it.
    #[serde(default)]
    pub paused: bool,
    /// How long its pause lasts from now on, nanoseconds; servers before 2.11 know no pause.
    #[serde(default)]
    pub pause_remaining: u64,
}

impl ConsumerInfo {
    /// Returns when its pause is over, Unix milliseconds, in whole seconds: each question has another rest. `now_ms` is the wall clock.
    #[must_use]
    pub fn paused_until_ms(&self, now_ms: u64) -> Option<u64> {
        let rest_ms = self.pause_remaining / 1_000_000;
        let until_ms = now_ms.saturating_add(rest_ms).saturating_add(500);
        (self.paused && rest_ms > 0).then_some(until_ms - until_ms % 1000)
    }
}

/// Where a consumer is in its stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ConsumerPosition {
    /// The number of the delivery.
    pub consumer_seq: u64,
    /// The sequence of the message.
    pub stream_seq: u64,
}

/// How a consumer is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ConsumerConfig {
    /// Where it sends its messages unasked; absent: it is asked for them.
    pub deliver_subject: Option<String>,
    /// `explicit`, `all` or `none`.
    pub ack_policy: String,
    /// Nanoseconds without a sign of life until a message is delivered again.
    pub ack_wait: u64,
    /// Most deliveries of a message; -1: without a limit.
    pub max_deliver: i64,
    /// The subject whose messages it has; empty: all, or those of `filter_subjects`.
    pub filter_subject: String,
    /// Several such subjects, from 2.10 on.
    pub filter_subjects: Vec<String>,
    /// Where it begins, in a word of NATS: `all`, `new`, `by_start_time`.
    pub deliver_policy: String,
    /// The time with which it begins, RFC 3339; absent: it begins with none.
    pub opt_start_time: Option<String>,
}

/// The answer to a message that a stream has stored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PubAck {
    /// The name of the stream.
    pub stream: String,
    /// The sequence of the message there.
    #[serde(rename = "seq")]
    pub sequence: u64,
    /// Whether the stream had a message with the same `Nats-Msg-Id`, which this sequence is of.
    #[serde(default)]
    pub duplicate: bool,
}

/// A message as the leader of its stream has it: the last one of a key, or one that is asked for by its sequence.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StoredMessage {
    /// The subject to which it was published.
    #[serde(default)]
    pub subject: String,
    /// Its sequence: the revision of a key.
    pub seq: u64,
    /// When the stream stored it, nanoseconds since 1970.
    #[serde(rename = "time", default, deserialize_with = "instant")]
    pub stored_ns: u64,
    /// Its data: the value of a key.
    #[serde(default, deserialize_with = "base64")]
    pub data: Vec<u8>,
    /// The block of its headers.
    #[serde(default, deserialize_with = "base64")]
    hdrs: Vec<u8>,
}

/// The answer that has such a message.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StoredAnswer {
    /// The message that was asked for.
    pub message: StoredMessage,
}

impl StoredMessage {
    /// Says whether the message is the mark of a deleted key: then there is no value.
    #[must_use]
    pub fn is_deletion(&self) -> bool {
        self.header("KV-Operation").is_some_and(|operation| operation != "PUT")
    }

    /// Returns the first value of a header; absent if the message has no such header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers().find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// Returns the block of the headers as its sender has written it; empty: there is none.
    #[must_use]
    pub fn block(&self) -> &[u8] {
        &self.hdrs
    }

    /// Returns the headers in their order: names and values.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines = str::from_utf8(&self.hdrs).unwrap_or_default().lines().skip(1);
        let headers = lines.filter_map(|line| line.split_once(':'));
        headers.map(|(name, value)| (name.trim(), value.trim()))
    }
}

/// Reads an instant of RFC 3339 as nanoseconds since 1970.
fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let instant: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
    u64::try_from(instant.as_nanosecond()).map_err(D::Error::custom)
}

fn base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    BASE64_STANDARD
        .decode(text.unwrap_or_default())
        .map_err(D::Error::custom)
}

#[cfg(test)]
mod tests;
