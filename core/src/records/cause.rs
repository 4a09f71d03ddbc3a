//! The cause of a trigger's run, beside the payload: it travels with the payload and is stored with it, so a retry,
//! a replay and the next fnd see the same.

use super::attributes::Attributes;
use crate::instant;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fnd_manifest::function::file::FileChange;
use fnd_manifest::text;
use fnd_manifest::words;
use fnd_wire::ids::{FunctionName, InvocationId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most calls in a chain. The hooks of the eighth call are only recorded as skipped.
pub const DEPTH_MAX: u8 = 8;
/// The header of a message of NATS with the number of calls in its chain, with the one that the message makes.
pub const DEPTH_HEADER: &str = "Fnd-Depth";

/// Returns that number; 0 if no function has sent the message. A number that is too large to count is a chain without an end.
#[must_use]
pub fn depth_of(headers: &[(String, String)]) -> u8 {
    let depth = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(DEPTH_HEADER));
    let depth = depth.map_or("", |(_, depth)| depth.trim());
    let is_number = !depth.is_empty() && depth.bytes().all(|byte| byte.is_ascii_digit());
    depth.parse().unwrap_or(if is_number { u8::MAX } else { 0 })
}

/// The cause of an invocation. Triggers that only bring a payload (`manual`, `load`) have none, and neither has `http`,
/// whose request is in the payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A slot of a schedule.
    Schedule(CauseSlots),
    /// An event that the function subscribes to.
    Event(EventCause),
    /// Files of a directory that the function watches.
    File(FileCause),
    /// A message of NATS.
    Nats(NatsCause),
    /// The end of an invocation whose function has this one in its `[hooks]`.
    Hook(HookCause),
    /// A change that `[alert]` names.
    Alert(AlertCause),
    /// A call of another function.
    Call(CallCause),
}

/// An event, without its data, which is the payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventCause {
    /// The attributes of CloudEvents.
    #[serde(flatten)]
    pub attributes: Attributes,
    /// The value of `key` of the subscription: events with the same value run one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_key: Option<String>,
    /// The number of calls in the chain, with this one, if a function sent the event; else 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}

/// The files that started an invocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileCause {
    /// Absolute path of the first file. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub path: String,
    /// The exact path of the first file, where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The change of the first file.
    pub event: FileChange,
    /// The number of files, where the payload is a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u32>,
    /// The run that had the files first, where this one repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::id_or_null")]
    #[schemars(with = "Option<String>", extend("format" = "uuid"))]
    pub run: Option<InvocationId>,
}

/// A message of NATS, without its data, which is the payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NatsCause {
    /// The subject to which it was published.
    pub subject: String,
    /// The stream that has it; absent for a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Its sequence in the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// How often the server had delivered it, by its own count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<u64>,
    /// The revision of its claim: greater for each node that has begun it. A database that remembers the greatest one can
    /// refuse what a node writes too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<u64>,
    /// When the stream stored it, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// The headers, in order. A handler finds the list also where a message has none.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The attributes, if it is a CloudEvent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Box<Attributes>>,
    /// Whether the result is published, or is the answer to a request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answers: bool,
}

/// The invocation that a hook follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookCause {
    /// The invocation.
    #[serde(with = "text::id")]
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub invocation: InvocationId,
    /// Its function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
    /// The number of calls in the chain of hooks, with this one.
    pub depth: u8,
    /// Whether a failure of this call is shown in the record of the invocation that it follows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marks: bool,
}

/// The function that has called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallCause {
    /// The invocation that has called; absent if several of the function ran and the request named none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::id_or_null")]
    #[schemars(with = "Option<String>", extend("format" = "uuid"))]
    pub invocation: Option<InvocationId>,
    /// The function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
    /// The number of calls in the chain, with this one.
    pub depth: u8,
}

words! {
    /// The word of a call.
    pub enum AlertCondition as "AlertWord" {
        /// Invocations failed, after their retries.
        Failed = "failed",
        /// The workers die before they are ready.
        CrashLooping = "crash-looping",
        /// The newest content cannot serve.
        Invalid = "invalid",
        /// There was no success for too long.
        Missed = "missed",
        /// The bad condition has ended.
        Recovered = "recovered",
        /// The history cannot be written, or is forgotten because the disk is full.
        DiskFull = "disk-full",
        /// Records of the history were lost.
        HistoryLost = "history-lost",
        /// fnd-spawner is gone, or does not answer.
        SpawnerLost = "spawner-lost",
        /// A queue refused work because it was full.
        QueueFull = "queue-full",
    }
}

/// The change of which a function is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AlertCause {
    /// The word of the change.
    pub alert: AlertCondition,
    /// The function that has changed; absent: the node.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub function: Option<FunctionName>,
}

/// The slots of a schedule that one invocation stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Slots")]
pub struct CauseSlots {
    /// The latest of the slots.
    #[schemars(extend("format" = "date-time"))]
    pub scheduled_at: String,
    /// The number of slots: 1, or more where some were missed.
    pub slots: u64,
    /// The first of several slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub first: Option<String>,
}

impl CauseSlots {
    /// Returns `slots` slots from `first_ms` to `last_ms`, both in Unix milliseconds.
    #[must_use]
    pub fn new(first_ms: u64, last_ms: u64, slots: u64) -> Self {
        Self {
            scheduled_at: instant::text(last_ms),
            slots,
            first: (slots > 1).then(|| instant::text(first_ms)),
        }
    }
}

impl FileCause {
    /// Returns the path of the first file, byte for byte.
    #[must_use]
    pub fn exact_path(&self) -> Vec<u8> {
        let exact = self
            .path_base64
            .as_ref()
            .and_then(|text| BASE64_STANDARD.decode(text).ok());
        exact.unwrap_or_else(|| self.path.clone().into_bytes())
    }
}

impl NatsCause {
    /// Returns the identity of a message that is no CloudEvent, as a handler reads it: the id that its sender gave it, else its place
    /// in the stream. A request has none, so the invocation stands for it.
    fn event_headers(&self) -> Vec<(String, String)> {
        let named = self
            .headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("nats-msg-id"));
        let place = self.stream.as_ref().zip(self.sequence);
        let place = place.map(|(stream, sequence)| format!("{stream}.{sequence}"));
        let id = named.map(|(_, id)| id.trim().to_owned()).filter(|id| !id.is_empty());
        let fields = [
            ("event-type", Some(format!("nats.{}", self.subject))),
            ("event-id", id.or(place)),
            ("event-namespace", Some("nats".to_owned())),
        ];
        let fields = fields.into_iter();
        fields
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }
}

impl Cause {
    /// Returns how many calls, of hooks and of functions, led to an invocation with this cause.
    #[must_use]
    pub fn depth(&self) -> u8 {
        match self {
            Self::Hook(after) => after.depth,
            Self::Call(call) => call.depth,
            Self::Event(event) => event.depth,
            Self::Nats(message) => depth_of(&message.headers),
            Self::Schedule(_) | Self::File(_) | Self::Alert(_) => 0,
        }
    }

    /// Returns the invocation whose record shows a failure of the invocation with this cause.
    #[must_use]
    pub fn marks(&self) -> Option<InvocationId> {
        match self {
            Self::Hook(after) => after.marks.then_some(after.invocation),
            Self::Schedule(_) | Self::Event(_) | Self::File(_) | Self::Nats(_) | Self::Alert(_) | Self::Call(_) => None,
        }
    }

    /// Returns the variables that a function sees of the cause. All names begin with `FND_`; a path need not be UTF-8. A text with a
    /// NUL, which no variable can contain, is left out.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, Vec<u8>)> {
        let texts = match self {
            Self::Schedule(slots) => vec![
                ("FND_SCHEDULED_AT", slots.scheduled_at.clone()),
                ("FND_MISSED", slots.slots.to_string()),
            ],
            Self::Event(event) => {
                let attributes = &event.attributes;
                let mut variables = vec![
                    ("FND_EVENT_ID", attributes.id.clone()),
                    ("FND_EVENT_TYPE", attributes.kind.clone()),
                    ("FND_EVENT_SOURCE", attributes.source.clone()),
                ];
                let more = [
                    ("FND_EVENT_SUBJECT", &attributes.subject),
                    ("FND_EVENT_TIME", &attributes.time),
                ];
                let there = more
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value.clone()?)));
                variables.extend(there);
                variables
            }
            Self::Nats(message) => {
                let mut variables = vec![("FND_NATS_SUBJECT", message.subject.clone())];
                variables.extend(message.stream.clone().map(|stream| ("FND_NATS_STREAM", stream)));
                let sequence = message.sequence.map(|sequence| sequence.to_string());
                variables.extend(sequence.map(|sequence| ("FND_NATS_SEQUENCE", sequence)));
                variables
            }
            Self::File(file) if file.files.is_none() => return vec![("FND_FILE", file.exact_path())],
            // Their payload says it all; the trace of a call leads to its caller.
            Self::File(_) | Self::Hook(_) | Self::Alert(_) | Self::Call(_) => Vec::new(),
        };
        let bytes = |(name, text): (_, String)| (name, text.into_bytes());
        // execve(2) takes strings that end with a NUL byte. The subject of a message may have one.
        let texts = texts.into_iter().filter(|(_, text)| !text.contains('\0'));
        texts.map(bytes).collect()
    }

    /// Returns when the cause happened, as a handler's `event-time` (RFC 3339); absent: the invocation itself is the event.
    #[must_use]
    pub fn time(&self) -> Option<&str> {
        match self {
            Self::Schedule(slots) => Some(&slots.scheduled_at),
            Self::Event(event) => event.attributes.time.as_deref(),
            Self::Nats(message) => Some(&message.time),
            Self::File(_) | Self::Hook(_) | Self::Alert(_) | Self::Call(_) => None,
        }
    }

    /// Returns the key whose invocations run one after the other.
    #[must_use]
    pub fn order_key(&self) -> Option<&str> {
        match self {
            Self::Schedule(_) | Self::File(_) | Self::Nats(_) | Self::Hook(_) | Self::Alert(_) | Self::Call(_) => None,
            Self::Event(event) => event.order_key.as_deref(),
        }
    }

    /// Returns headers that carry the cause to a handler and to a program that serves HTTP: an event has the headers of its
    /// binary form, and a message that is no event says in the same places what it is. Names are in lower case; there is no
    /// `content-type`, which the payload has.
    #[must_use]
    pub fn headers(&self) -> Vec<(String, String)> {
        let attributes = match self {
            Self::Schedule(_) | Self::File(_) | Self::Hook(_) | Self::Alert(_) | Self::Call(_) => return Vec::new(),
            Self::Event(event) => &event.attributes,
            Self::Nats(message) => match &message.event {
                Some(attributes) => &**attributes,
                None => return message.event_headers(),
            },
        };
        // In the binary form of an event `datacontenttype` is the header `Content-Type`.
        let attributes = attributes.all().filter(|(name, _)| *name != "datacontenttype");
        attributes
            .map(|(name, value)| (format!("ce-{name}"), value.to_owned()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(stream: Option<&str>, headers: &[(&str, &str)]) -> NatsCause {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        NatsCause {
            subject: "orders.new".to_owned(),
            stream: stream.map(str::to_owned),
            sequence: stream.map(|_| 7),
            delivered: stream.map(|_| 1),
            claim: None,
            time: "2026-11-21T08:00:00.000Z".to_owned(),
            headers: headers.collect(),
            event: None,
            answers: stream.is_none(),
        }
    }

    #[test]
    fn a_message_without_an_event_says_what_it_is() {
        let of = |message: NatsCause| {
            let headers = Cause::Nats(message).headers().into_iter();
            headers
                .map(|(name, value)| format!("{name}: {value}"))
                .collect::<Vec<_>>()
        };
        let kind = "event-type: nats.orders.new";
        assert_eq!(
            of(message(Some("ORDERS"), &[])),
            [kind, "event-id: ORDERS.7", "event-namespace: nats"]
        );
        assert_eq!(
            of(message(Some("ORDERS"), &[("nats-msg-id", " a1 ")])),
            [kind, "event-id: a1", "event-namespace: nats"]
        );
        assert_eq!(of(message(None, &[])), [kind, "event-namespace: nats"]);
        let attributes: Attributes = serde_json::from_value(serde_json::json!({
            "specversion": "1.0", "id": "7", "source": "shop", "type": "order.created",
        }))
        .unwrap();
        let event = NatsCause {
            event: Some(Box::new(attributes)),
            ..message(Some("ORDERS"), &[])
        };
        assert!(of(event).contains(&"ce-type: order.created".to_owned()));
    }

    #[test]
    fn a_message_of_a_function_is_a_call_in_its_chain() {
        let depth = |headers: &[(&str, &str)]| Cause::Nats(message(Some("ORDERS"), headers)).depth();
        assert_eq!(depth(&[("fnd-depth", " 3 ")]), 3);
        assert_eq!((depth(&[]), depth(&[("Fnd-Depth", "x")])), (0, 0));
        assert_eq!(depth(&[("Fnd-Depth", "1000")]), u8::MAX);
    }

    #[test]
    fn a_script_sees_where_its_message_is() {
        let names = |message: NatsCause| {
            let variables = Cause::Nats(message).variables().into_iter();
            variables
                .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(&value)))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(message(Some("ORDERS"), &[])),
            [
                "FND_NATS_SUBJECT=orders.new",
                "FND_NATS_STREAM=ORDERS",
                "FND_NATS_SEQUENCE=7"
            ]
        );
        assert_eq!(names(message(None, &[])), ["FND_NATS_SUBJECT=orders.new"]);
        let subject = "orders.\0x".to_owned();
        let with_nul = NatsCause {
            subject,
            ..message(Some("ORDERS"), &[])
        };
        assert_eq!(names(with_nul), ["FND_NATS_STREAM=ORDERS", "FND_NATS_SEQUENCE=7"]);
    }
}
