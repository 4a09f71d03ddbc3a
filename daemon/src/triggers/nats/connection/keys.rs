//! Keys of the bucket: how they are read and written, and how renewals of the nodes' keys are heard of. A bucket is a
//! stream, so a key is written by a message with a condition (ADR-8 of NATS). The client's own store would read a key
//! from any server that has a copy, and fnd must not take over work because a copy is old.

use super::headers;
use super::pending_replies::Question;
use crate::triggers::nats::fact::{FoundKey, NatsAnswer, NatsFact, WriteRefused};
use crate::triggers::nats::request::{KeyWrite, OutgoingMessage};
use async_nats::Message;
use fnd_core::triggers::nats::claim_key::NODES;
use fnd_core::triggers::nats::server::answers::{self, BadAnswer, PubAck, StoredAnswer, StoredMessage, error};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// The condition of a write: the revision that the key has now, 0 where there is none.
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
/// The mark of a deleted key.
const OPERATION: &str = "KV-Operation";

/// Returns the request that reads a key. The leader of the stream answers it.
pub(super) fn read_request(bucket: &str, key: &str) -> OutgoingMessage {
    let body = json!({ "last_by_subj": format!("$KV.{bucket}.{key}") });
    OutgoingMessage::plain(format!("$JS.API.STREAM.MSG.GET.KV_{bucket}"), body.to_string())
}

/// Returns the message that writes a key.
pub(super) fn write_message(bucket: &str, write: &KeyWrite) -> OutgoingMessage {
    let replaces = write.replaces.unwrap_or(0).to_string();
    OutgoingMessage {
        headers: vec![(EXPECTED.to_owned(), replaces)],
        ..OutgoingMessage::plain(format!("$KV.{bucket}.{}", write.key), write.value.clone())
    }
}

/// Returns the fact of the answer to a read.
pub(super) fn read_answer(number: u64, answer: &[u8]) -> NatsFact {
    let result = match stored(answer) {
        Ok(found) => Ok(found.filter(|message| !message.is_deletion()).map(|message| FoundKey {
            stamp: stamp_of(message.header(EXPECTED)).unwrap_or(message.seq),
            revision: message.seq,
            value: message.data.into(),
        })),
        Err(bad) => Err(bad.to_string()),
    };
    NatsFact::Answer(number, NatsAnswer::Key(result))
}

/// The next step after the answer to a write.
pub(super) enum WriteStep {
    Fact(NatsFact),
    /// Ask this before the fact is known.
    Ask(Question),
}

/// Reads the answer to a write.
pub(super) fn write_answer(write: KeyWrite, answer: &[u8]) -> WriteStep {
    let result = match answers::read::<PubAck>(answer) {
        Ok(ack) => Ok(ack.sequence),
        Err(bad) if bad.is(&[error::WRONG_LAST_SEQUENCE, error::WRONG_LAST_SEQUENCE_CONSTANT]) => {
            // A key that somebody has deleted has a mark in its place, which has a revision.
            if write.replaces.is_none() {
                return WriteStep::Ask(Question::Deleted(write));
            }
            Err(WriteRefused::Conflict)
        }
        // The server has refused it for another reason: a full bucket, for instance.
        Err(BadAnswer::Refused(error)) => Err(WriteRefused::Refused(error.to_string())),
        Err(bad @ BadAnswer::Unreadable(_)) => Err(WriteRefused::Unknown(bad.to_string())),
    };
    let number = write.number;
    WriteStep::Fact(NatsFact::Answer(number, NatsAnswer::Written(result)))
}

/// Reads the answer to the question whether the key that should not be there was deleted.
pub(super) fn deleted_answer(write: KeyWrite, answer: &[u8]) -> WriteStep {
    let number = write.number;
    let result = match stored(answer) {
        Ok(Some(message)) if message.is_deletion() => {
            let replaces = Some(message.seq);
            return WriteStep::Ask(Question::Write(KeyWrite { replaces, ..write }));
        }
        Ok(_) => Err(WriteRefused::Conflict),
        Err(bad) => Err(WriteRefused::Unknown(bad.to_string())),
    };
    WriteStep::Fact(NatsFact::Answer(number, NatsAnswer::Written(result)))
}

/// Returns the last message of a key, nothing if there is none.
fn stored(answer: &[u8]) -> Result<Option<StoredMessage>, BadAnswer> {
    match answers::read::<StoredAnswer>(answer) {
        Ok(StoredAnswer { message }) => Ok(Some(message)),
        Err(bad) if bad.is(&[error::NO_MESSAGE_FOUND]) => Ok(None),
        Err(bad) => Err(bad),
    }
}

/// Returns the stamp of a write: greater than that of every write before it. The write names the revision that it
/// replaces, and each one that succeeds names another one.
fn stamp_of(replaced: Option<&str>) -> Option<u64> {
    replaced?.parse::<u64>().ok()?.checked_add(1)
}

/// The renewals that were heard of.
#[derive(Debug, Default)]
pub(super) struct HeardRenewals(HashMap<Arc<str>, u64>);

impl HeardRenewals {
    /// Returns the subject of all renewals.
    pub(super) fn subject(bucket: &str) -> String {
        format!("$KV.{bucket}.{NODES}>")
    }

    /// Takes a message with the key of a node. Returns the fact if it is a new renewal.
    pub(super) fn heard(&mut self, bucket: &str, message: &Message) -> Option<NatsFact> {
        let key = message
            .subject
            .strip_prefix("$KV.")?
            .strip_prefix(bucket)?
            .strip_prefix('.')?;
        let node: Arc<str> = key.strip_prefix(NODES)?.into();
        if headers::first(message, OPERATION).is_some() {
            return None;
        }
        // fnd makes no write without a condition. The next read of the key shows such a write.
        let stamp = stamp_of(headers::first(message, EXPECTED))?;
        // Everybody hears of a write, also if the stream refuses it. One that is refused does not grow.
        let last = self.0.entry(Arc::clone(&node)).or_default();
        if stamp <= *last {
            return None;
        }
        *last = stamp;
        Some(NatsFact::Renewed { node, stamp })
    }
}

#[cfg(test)]
mod tests;
