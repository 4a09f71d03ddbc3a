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

impl Cause {
    /// Returns how many calls, of hooks and of functions, led to an invocation with this cause.
    #[must_use]
    pub fn depth(&self) -> u8 {
        match self {
            Self::Hook(after) => after.depth,
            Self::Call(call) => call.depth,
            Self::Event(event) => event.depth,
            Self::Schedule(_) | Self::File(_) | Self::Alert(_) => 0,
        }
    }

    /// Returns the invocation whose record shows a failure of the invocation with this cause.
    #[must_use]
    pub fn marks(&self) -> Option<InvocationId> {
        match self {
            Self::Hook(after) => after.marks.then_some(after.invocation),
            Self::Schedule(_) | Self::Event(_) | Self::File(_) | Self::Alert(_) | Self::Call(_) => None,
        }
    }

    /// Returns the variables that a function sees of the cause. All names begin with `FND_`; a path need not be UTF-8.
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
            Self::File(file) if file.files.is_none() => return vec![("FND_FILE", file.exact_path())],
            // Their payload says it all; the trace of a call leads to its caller.
            Self::File(_) | Self::Hook(_) | Self::Alert(_) | Self::Call(_) => Vec::new(),
        };
        let bytes = |(name, text): (_, String)| (name, text.into_bytes());
        texts.into_iter().map(bytes).collect()
    }

    /// Returns when the cause happened, as a handler's `event-time` (RFC 3339); absent: the invocation itself is the event.
    #[must_use]
    pub fn time(&self) -> Option<&str> {
        match self {
            Self::Schedule(slots) => Some(&slots.scheduled_at),
            Self::Event(event) => event.attributes.time.as_deref(),
            Self::File(_) | Self::Hook(_) | Self::Alert(_) | Self::Call(_) => None,
        }
    }

    /// Returns the key whose invocations run one after the other.
    #[must_use]
    pub fn order_key(&self) -> Option<&str> {
        match self {
            Self::Schedule(_) | Self::File(_) | Self::Hook(_) | Self::Alert(_) | Self::Call(_) => None,
            Self::Event(event) => event.order_key.as_deref(),
        }
    }

    /// Returns headers that carry the cause to a handler and to a program that serves HTTP: an event has the headers of its
    /// binary form. Names are in lower case; there is no `content-type`, which the payload has.
    #[must_use]
    pub fn headers(&self) -> Vec<(String, String)> {
        match self {
            Self::Schedule(_) | Self::File(_) | Self::Hook(_) | Self::Alert(_) | Self::Call(_) => Vec::new(),
            Self::Event(event) => {
                // In the binary form of an event `datacontenttype` is the header `Content-Type`.
                let attributes = event.attributes.all().filter(|(name, _)| *name != "datacontenttype");
                attributes
                    .map(|(name, value)| (format!("ce-{name}"), value.to_owned()))
                    .collect()
            }
        }
    }
}
