//! Makes the messages that fnd publishes at the end of a message: the result, and the dead letter. Pure.

use super::request::OutgoingMessage;
use crate::ledger::StoredInvocation;
use fnd_core::records::cause::{Cause, DEPTH_HEADER, NatsCause};
use fnd_core::records::outcome::RunState;
use fnd_core::records::{InvocationRecord, Payload};
use fnd_core::triggers::nats::message::begins_with;
use fnd_manifest::function::NatsTrigger;
use std::sync::Arc;

/// The header by which a stream knows a message that it has already.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// Where the ends of messages are published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EndTargets {
    pub(crate) result: Option<Arc<str>>,
    pub(crate) dead_letters: Option<Arc<str>>,
}

impl EndTargets {
    pub(super) fn of(entry: &NatsTrigger) -> Self {
        Self {
            result: entry.result.as_deref().map(Into::into),
            dead_letters: entry.dead_letters.as_deref().map(Into::into),
        }
    }
}

/// How far the end of a message is published.
#[derive(Debug, Default)]
pub(super) enum EndOutcome {
    /// It is not known yet whether something is to be published.
    #[default]
    Unread,
    /// These are, unless the claim is another node's by now: only one record of a message counts.
    Found(Vec<OutgoingMessage>),
    /// These are, one after the other; the first one was tried so often.
    Publishing(Vec<OutgoingMessage>, u32),
    /// It was tried in vain: the message ends first, and it is tried again.
    Later,
    Told,
}

impl EndOutcome {
    /// Takes that the claim is this node's, so the record counts.
    pub(super) fn counts(&mut self) {
        if let Self::Found(all) = self {
            *self = Self::Publishing(std::mem::take(all), 0);
        }
    }
}

/// Returns the messages that are published about an ended invocation, whose record contains the result.
pub(super) fn outgoing(targets: &EndTargets, ended: &StoredInvocation) -> Vec<OutgoingMessage> {
    let record = &ended.record;
    // Functions that send each other messages are a chain of calls, which has an end.
    let cause = ended.payload.as_ref().and_then(|payload| payload.cause.as_deref());
    let depth = cause.map_or(0, Cause::depth).saturating_add(1);
    let depth = header(DEPTH_HEADER, &depth.to_string());
    let mut all = Vec::new();
    if let Some(subject) = targets.result.as_ref().filter(|_| record.state == RunState::Succeeded) {
        let result = record.result.as_ref();
        let kind = result.map(|result| header("Content-Type", result.media_type()));
        all.push(OutgoingMessage {
            subject: Arc::clone(subject),
            headers: kind.into_iter().chain(named(record)).chain([depth.clone()]).collect(),
            payload: result.map(|result| result.data.clone()).unwrap_or_default(),
        });
    }
    if let Some(subject) = targets.dead_letters.as_ref().filter(|_| record.ends_as_dead_letter()) {
        let payload = ended.payload.as_ref();
        let reason = record.reason.map(|reason| header("Fnd-Reason", &reason.to_string()));
        let why = header("Fnd-Message", &record.message);
        let came = payload.map(as_it_came).unwrap_or_default();
        let data = payload.and_then(|payload| payload.data.as_ref()?.view().ok());
        all.push(OutgoingMessage {
            subject: Arc::clone(subject),
            headers: came
                .into_iter()
                .chain(named(record))
                .chain(reason)
                .chain([why, depth])
                .collect(),
            payload: data.unwrap_or_default(),
        });
    }
    all
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Returns the headers that name the invocation.
fn named(record: &InvocationRecord) -> [(String, String); 3] {
    let id = record.id.to_string();
    [
        header("Fnd-Function", record.function.as_str()),
        header("Fnd-Invocation", &id),
        header(MESSAGE_ID, &id),
    ]
}

/// Returns the headers that a message came with, without those of servers and of fnd. Of an event that was JSON only the data is kept:
/// its attributes become headers.
fn as_it_came(payload: &Payload) -> Vec<(String, String)> {
    let Some(Cause::Nats(NatsCause { headers, event, .. })) = payload.cause.as_deref() else {
        return Vec::new();
    };
    let is_binary = headers.iter().any(|(name, _)| begins_with(name, "ce-"));
    // Servers and fnd obey or believe these headers, so they are not copied from the message that came.
    let is_own = |name: &str| begins_with(name, "Nats-") || begins_with(name, "Fnd-");
    let event = event.as_ref().filter(|_| !is_binary);
    let is_kept = |(name, _): &&(String, String)| {
        let replaced = event.is_some() && name.eq_ignore_ascii_case("Content-Type");
        !is_own(name) && !replaced
    };
    let mut all: Vec<_> = headers.iter().filter(is_kept).cloned().collect();
    if let Some(event) = event {
        let attributes = event.all().filter(|(name, _)| *name != "datacontenttype");
        all.extend(attributes.map(|(name, value)| (format!("ce-{name}"), value.to_owned())));
        all.extend(payload.content_type.as_deref().map(|kind| header("Content-Type", kind)));
    }
    all
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::submission;
    use super::super::tests::{delivered, record};
    use super::*;
    use fnd_core::records::outcome::Reason;
    use fnd_core::triggers::nats::message;
    use fnd_wire::ids::InvocationId;

    const ID: InvocationId = InvocationId(1);

    pub(crate) fn targets() -> EndTargets {
        EndTargets {
            result: Some("done".into()),
            dead_letters: Some("dlq".into()),
        }
    }

    pub(crate) fn ended(reason: Reason) -> StoredInvocation {
        let mut message = delivered(1, 7, 1);
        message.headers.push(header("Nats-Msg-Id", "mine"));
        message.headers.push(header("Kind", "a"));
        message.headers.push(header("fnd-depth", "2"));
        for (name, value) in [
            ("Nats-Expected-Stream", "ORDERS"),
            ("nats-rollup", "all"),
            ("Nats-TTL", "1s"),
            ("Fnd-Function", "mine"),
            ("FND-REASON", "ok"),
        ] {
            message.headers.push(header(name, value));
        }
        let read = message::read(&message.view(), 100).unwrap();
        StoredInvocation {
            record: record(ID, reason),
            payload: Some(submission::payload(&message, &read)),
            dead: false,
            superseded_by: None,
        }
    }

    #[test]
    fn a_success_is_a_result_and_a_failure_a_dead_letter_as_it_came() {
        let subjects = |reason| {
            let all = outgoing(&targets(), &ended(reason)).into_iter();
            all.map(|outgoing| outgoing.subject.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(subjects(Reason::Ok), ["done"]);
        assert_eq!(subjects(Reason::Error), ["dlq"]);
        assert!(subjects(Reason::Cancelled).is_empty());
        let all = outgoing(&targets(), &ended(Reason::Error));
        let id = ID.to_string();
        let expected = [
            ("Kind", "a"),
            ("Fnd-Function", "f"),
            ("Fnd-Invocation", id.as_str()),
            ("Nats-Msg-Id", id.as_str()),
            ("Fnd-Reason", "error"),
            ("Fnd-Message", "no"),
            ("Fnd-Depth", "3"),
        ];
        assert_eq!(all[0].headers, expected.map(|(name, value)| header(name, value)));
        assert_eq!(all[0].payload, "{}");
    }
}
