//! Facts and answers to requests that the thread of NATS sends to the part. The thread decides nothing. `entry` is the number of
//! an entry.

use bytes::Bytes;
use fnd_core::records::StreamPlace;
use fnd_core::triggers::nats::message::NatsMessage;
use fnd_core::triggers::nats::server::answers::PubAck;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

#[derive(Debug)]
pub enum NatsFact {
    /// The thread is connected to this server, and the bucket of the claims is there. It follows each connection, so
    /// also each reconnect.
    Connected(Box<ConnectedServer>),
    /// The thread is connected, and the bucket cannot be used, and why. It is tried again.
    NoBucket(String),
    /// There is no connection (any more), and why. The messages that were asked for will not come: each entry has asked
    /// for none from now on.
    Disconnected(String),
    /// The server has said that something is wrong, which may be about anything: a right that is missing, for instance.
    ServerError(String),
    /// The state of an entry has changed.
    Entry { entry: u32, state: EntryState },
    /// The server's figures about an entry, every 30 seconds.
    Figures { entry: u32, figures: ConsumerFigures },
    /// A message was delivered.
    Delivered(Box<DeliveredMessage>),
    /// So many messages of those that were asked for will not come.
    PullEnded { entry: u32, left: usize },
    /// Another node, or this one, has sent a renewal of its key.
    Renewed {
        node: Arc<str>,
        /// The stamp of the renewal, as in [`FoundKey`]. It grows with each renewal.
        stamp: u64,
    },
    /// The answer to the request with this number.
    Answer(u64, NatsAnswer),
    /// Somebody waits for an answer of a function.
    Requested(Box<RequestedMessage>),
    /// How long the server took for an answer.
    RoundTrip(Duration),
}

/// The value of a key, nothing if there is none, or why that is not known.
pub(crate) type KeyAnswer = Result<Option<FoundKey>, String>;
/// A message of a stream, nothing if it or its stream is gone, or why that is not known.
pub(crate) type MessageAnswer = Result<Option<Box<FoundMessage>>, String>;
/// The revision of a key that was to be written.
pub(crate) type WriteAnswer = Result<u64, WriteRefused>;

/// An answer to a request.
#[derive(Debug)]
pub enum NatsAnswer {
    Key(KeyAnswer),
    Message(MessageAnswer),
    Written(WriteAnswer),
    /// Whether the server has confirmed the end of a delivery.
    Settled(Result<(), SettleFailed>),
    /// Where a message is stored that was to be published.
    Published(Result<PubAck, String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedServer {
    /// The server: its name, its address and its version, for people.
    pub server: String,
    /// When the bucket was made, nanoseconds since 1970. One that was made anew counts from 1 again.
    pub bucket_created_ns: u64,
    /// The problem of a bucket that can be used all the same; absent: there is none.
    pub bucket_problem: Option<String>,
    /// The largest message that the server takes, in bytes.
    pub max_payload: usize,
}

/// The state of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryState {
    /// Messages can be asked for.
    Ready {
        /// How long the server waits for a sign of life: what its consumer says, which may not be fnd's.
        ack_wait: Duration,
        /// The problem of an entry that can be used all the same; absent: there is none.
        problem: Option<String>,
    },
    /// Its stream or its consumer is not there, or cannot be used, and why. It is looked for again every 30 seconds.
    Gone(String),
    /// The server lets the connection live and says nothing about the messages that were asked for. It is asked again.
    Stalled,
}

/// The server's figures about a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerFigures {
    pub pending: u64,
    pub redelivered: u64,
    /// When it was made, nanoseconds since 1970.
    pub made_ns: u64,
    pub is_paused: bool,
    /// When its pause is over, Unix milliseconds; absent: it is not paused, or the server does not say.
    pub paused_until_ms: Option<u64>,
}

/// Why a claim is not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReleaseFailed {
    /// There is no `[events.nats]`.
    NotConfigured,
    /// There is no such message, or no claim on it that has not ended.
    Unknown,
    /// This node has the message itself.
    Here,
    /// The claim needs no end: another node takes the message over once this node was silent for so long.
    EndsItself(String, Duration),
    /// The claim has changed meanwhile: its holder is there.
    Changed,
    /// Whether it was ended is not known, and why.
    Failed(String),
}

/// Why a message is not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PublishFailed {
    /// There is no `[events.nats]`.
    NotConfigured,
    /// It is larger than the server takes: its bytes, and the most.
    TooLarge(usize, usize),
    /// No stream has confirmed it, and why. It may be stored all the same.
    Failed(String),
}

/// A message that the server has delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredMessage {
    pub entry: u32,
    pub subject: String,
    pub place: StreamPlace,
    /// The address for everything that is said about this delivery.
    pub ack: Arc<str>,
    /// How often it was delivered, by the server's count.
    pub delivered: u64,
    pub headers: Vec<(String, String)>,
    pub payload: Bytes,
}

impl DeliveredMessage {
    /// Returns the message for its readers.
    pub(super) fn view(&self) -> NatsMessage<'_> {
        NatsMessage {
            place: &self.place,
            headers: &self.headers,
            payload: &self.payload,
        }
    }
}

/// A message in its stream, which nobody has delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMessage {
    pub place: StreamPlace,
    pub headers: Vec<(String, String)>,
    pub payload: Bytes,
}

impl FoundMessage {
    /// Returns the message for its readers.
    pub(super) fn view(&self) -> NatsMessage<'_> {
        NatsMessage {
            place: &self.place,
            headers: &self.headers,
            payload: &self.payload,
        }
    }
}

/// A request that a function answers.
#[derive(Debug)]
pub struct RequestedMessage {
    pub entry: u32,
    pub subject: String,
    /// Where the answer is expected; absent: nobody waits for one.
    pub inbox: Option<Arc<str>>,
    pub headers: Vec<(String, String)>,
    pub payload: Bytes,
    /// Its share of the memory for requests that wait for the part; absent: it is counted nowhere.
    pub room: Option<OwnedSemaphorePermit>,
}

/// A key of the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundKey {
    pub value: Bytes,
    pub revision: u64,
    /// Tells one renewal of a node's key from another, also for those that only hear of it: the revision that it has
    /// replaced and one. A subscriber is not told the revision of what it hears.
    pub stamp: u64,
}

/// Why a write has not, or may not have, changed a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteRefused {
    /// The key has another revision, or is there already.
    Conflict,
    /// The server has not written it, and why: the bucket is full, for instance.
    Refused(String),
    /// Whether it was written is not known, and why.
    Unknown(String),
}

/// Why the end of a delivery is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleFailed {
    /// Nobody takes it: the consumer or its stream is gone, and its deliveries with it.
    NoResponders,
    /// The server has not answered in time.
    Timeout,
}
