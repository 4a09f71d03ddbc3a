//! Requests to the thread of NATS. No request names a function: entries of `[[nats]]` are numbers.
//!
//! A request with a number is answered with a fact of the same number, exactly once, unless the thread ends before.

use bytes::Bytes;
use fnd_core::triggers::nats::event::EventStream;
use fnd_core::triggers::nats::rules::NatsRules;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// A request to the thread.
pub(crate) enum NatsRequest {
    /// Connect with these settings, or go on as they are now. Without a change nothing happens.
    Connect(Box<NatsConnect>),
    /// These are all entries from now on: make sure of their streams and consumers, and report each.
    Entries(Vec<NatsEntry>),
    /// Ask for so many messages of an entry, in addition to those that were asked for.
    Pull { entry: u32, count: usize },
    /// Read a key of the bucket, as the leader of its stream has it.
    Read { number: u64, key: Arc<str> },
    /// Write a key of the bucket, if nobody else has written it.
    Write(KeyWrite),
    /// Read a message of a stream, as the leader of the stream has it.
    /// The place is the stream, and the sequence of the message there.
    ReadMessage { number: u64, place: (Arc<str>, u64) },
    /// Say something about a delivery. The server's answer is not waited for.
    Signal { ack: Arc<str>, signal: AckSignal },
    /// End a delivery, and wait until the server confirms that.
    Settle {
        number: u64,
        ack: Arc<str>,
        /// Why the message can never run; absent: its work has ended.
        term: Option<String>,
    },
    /// Publish a message that a stream must confirm.
    Publish { number: u64, message: OutgoingMessage },
    /// Answer a request of somebody else. Nobody confirms that.
    Answer(OutgoingMessage),
    /// Close the connection and end the thread, once everything before is sent.
    Stop,
}

/// A key that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyWrite {
    /// The number of the request.
    pub(crate) number: u64,
    pub(crate) key: Arc<str>,
    pub(crate) value: Bytes,
    /// The revision that it replaces; absent: there must be no such key.
    pub(crate) replaces: Option<u64>,
}

/// The answer to the server about a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AckSignal {
    /// The work goes on: the server's timer begins anew.
    Progress,
    /// The message is given back, and delivered again after this time.
    GiveBack(Duration),
}

/// A message to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutgoingMessage {
    /// The subject, or the inbox of whoever waits for the answer.
    pub(crate) subject: Arc<str>,
    /// The headers, in order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) payload: Bytes,
}

impl OutgoingMessage {
    /// Returns a message without headers.
    pub(crate) fn plain(subject: impl Into<Arc<str>>, payload: impl Into<Bytes>) -> Self {
        Self {
            subject: subject.into(),
            headers: Vec::new(),
            payload: payload.into(),
        }
    }

    /// Returns its bytes as the server counts them. A server closes the connection on which too many of them come.
    pub(crate) fn size(&self) -> usize {
        // Each header is a line, behind one with the version of the protocol and before one that is empty.
        let lines = self.headers.iter().map(|(name, value)| name.len() + value.len() + 4);
        let headers = if self.headers.is_empty() {
            0
        } else {
            12 + lines.sum::<usize>()
        };
        headers + self.payload.len()
    }
}

/// Where and how to connect: `[events.nats]` with its secret.
#[derive(PartialEq, Eq)]
pub(crate) struct NatsConnect {
    pub(crate) servers: Vec<String>,
    /// The content of the secret; absent: none is named.
    pub(crate) credentials: Option<Zeroizing<String>>,
    /// Certificates of authorities; absent: those of the machine.
    pub(crate) ca: Option<PathBuf>,
    /// The certificate of this node and its key.
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) tls_first: bool,
    /// The name of this node, by which the server lists the connection.
    pub(crate) node: String,
    pub(crate) bucket: ClaimBucket,
    /// The stream of all events, which fnd makes if it is missing.
    pub(crate) events: Option<EventStream>,
}

/// The bucket of the claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimBucket {
    pub(crate) name: Arc<str>,
    /// Number of servers that store what fnd makes.
    pub(crate) replicas: u32,
    /// For how long it must keep a key.
    pub(crate) keeps: Duration,
}

/// An entry of `[[nats]]`, or all entries of `[[event]]` of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NatsEntry {
    /// Its number. It stays the same as long as its rules do.
    pub(crate) number: u32,
    pub(crate) rules: Arc<NatsRules>,
    /// The name by which all nodes share the requests of a function that answers them.
    pub(crate) group: String,
}
