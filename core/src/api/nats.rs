//! Bodies about NATS: the connection, and the entries of `[[nats]]` with what this node has of each.

use fnd_manifest::text;
use fnd_manifest::words;
use fnd_wire::ids::FunctionName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// Whether an entry of `[[nats]]` gets messages.
    pub enum NatsState {
        /// It asks for messages and gets them.
        Consuming = "consuming",
        /// This node has as many as it may have at once; it asks again when one has ended.
        Full = "full",
        /// Its consumer is paused on the server.
        Paused = "paused",
        /// Its stream or its consumer is gone.
        Gone = "gone",
        /// The server answers, and its consumer does not.
        Stalled = "stalled",
        /// The function is disabled, has no version that can run, or fnd drains.
        Disabled = "disabled",
    }
}

/// The connection to the servers of NATS, and the entries of `[[nats]]` of all functions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NatsView {
    /// Whether fnd is connected.
    pub connected: bool,
    /// The address of the server; null without a connection.
    pub server: Option<String>,
    /// The name of this node.
    pub node: String,
    /// Since when fnd is connected, or is not.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// How long the server took for its last answer, in milliseconds; null before the first one.
    pub round_trip_ms: Option<f64>,
    /// Why fnd is not connected, or takes no messages; null if all is well.
    pub error: Option<String>,
    /// By function, each function's in the order of its manifest.
    pub triggers: Vec<NatsTriggerView>,
}

/// An entry of `[[nats]]`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NatsTriggerView {
    /// The function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
    /// The subject.
    pub subject: String,
    /// The stream; null for a function that answers requests.
    pub stream: Option<String>,
    /// The consumer; null likewise.
    pub consumer: Option<String>,
    /// Whether it gets messages.
    pub state: NatsState,
    /// Messages that the server has not delivered yet; null if that is not known.
    pub pending: Option<u64>,
    /// Messages that this node has and whose runs have not ended, or that are not acknowledged.
    pub here: u64,
    /// Messages that the server has delivered more than once and that are not acknowledged; null if that is not known.
    pub redelivered: Option<u64>,
    /// Attempts here that end unless the lease of this node is renewed.
    pub leases: u64,
    /// Attempts that were ended because it was not, since fnd started.
    pub leases_lost: u64,
    /// What hinders it; null if nothing does.
    pub error: Option<String>,
}

/// A claim that a person has ended: the next node that gets the message runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleasedClaim {
    /// The stream of the message.
    pub stream: String,
    /// The sequence of the message in it.
    pub sequence: u64,
    /// The node that had the claim.
    pub node: String,
}

/// A message that fnd has published, and that a stream has stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedMessage {
    /// The subject.
    pub subject: String,
    /// The stream that has it.
    pub stream: String,
    /// Its sequence there.
    pub sequence: u64,
    /// Whether the stream had it already, by its id.
    pub duplicate: bool,
}
