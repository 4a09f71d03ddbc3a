//! Helpers for the tests of the part's files.

use super::books::{MessageStage, OpenMessage};
use super::fact::{
    ConnectedServer, ConsumerFigures, DeliveredMessage, EntryState, FoundKey, FoundMessage, NatsAnswer, NatsFact,
    SettleFailed, WriteRefused,
};
use super::node::{NodeIdentity, NodeKey};
use super::outgoing::EndTargets;
use super::request::{ClaimBucket, KeyWrite, NatsConnect, NatsRequest};
use super::wanted::{Compiled, WantedEntry, WantedMessages};
use super::{MessageEffect, Messages};
use fnd_core::records::outcome::{Reason, Trigger};
use fnd_core::records::{InvocationRecord, MessageMark, StreamPlace};
use fnd_core::run::Now;
use fnd_core::triggers::nats::claim::{ClaimLimit, ClaimRecord, ClaimState};
use fnd_core::triggers::nats::rules::{FunctionLimits, NatsRules};
use fnd_core::triggers::nats::server::answers::PubAck;
use fnd_manifest::function::NatsTrigger;
use fnd_manifest::function::nats::AckMode;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::sync::Arc;
use std::time::Duration;

/// Questions to the part, and answers of the thread to the request with a number.
impl Messages {
    /// Says whether the message of an invocation is in the books.
    pub(super) fn has(&self, id: InvocationId) -> bool {
        self.open.contains_key(&id)
    }

    pub(super) fn read(&mut self, now: Now, number: u64, result: Result<Option<FoundKey>, String>) {
        self.answered_by_server(now, number, NatsAnswer::Key(result));
    }

    pub(super) fn message_read(&mut self, now: Now, number: u64, result: Result<Option<Box<FoundMessage>>, String>) {
        self.answered_by_server(now, number, NatsAnswer::Message(result));
    }

    pub(super) fn written(&mut self, now: Now, number: u64, result: Result<u64, WriteRefused>) {
        self.answered_by_server(now, number, NatsAnswer::Written(result));
    }

    pub(super) fn settled(&mut self, now: Now, number: u64, result: &Result<(), SettleFailed>) {
        self.answered_by_server(now, number, NatsAnswer::Settled(result.clone()));
    }

    pub(super) fn published(&mut self, now: Now, number: u64, result: Result<PubAck, String>) {
        self.answered_by_server(now, number, NatsAnswer::Published(result));
    }
}

/// A time of both clocks.
pub(super) fn at(seconds: u64) -> Now {
    Now {
        mono: Duration::from_secs(seconds),
        unix_ms: seconds * 1000,
    }
}

pub(super) fn function(name: &str) -> FunctionName {
    FunctionName::new(name).unwrap()
}

fn place(stream: &str, sequence: u64) -> StreamPlace {
    StreamPlace {
        stream: stream.into(),
        created_ns: 1,
        sequence,
    }
}

/// Returns the mark of a message of the consumer `fnd-f`.
pub(super) fn mark(stream: &str, sequence: u64) -> MessageMark {
    MessageMark {
        key: format!("claims.{sequence}").into(),
        place: place(stream, sequence),
        consumer: "fnd-f".into(),
        ack: format!("$JS.ACK.{stream}.fnd-f.1.{sequence}.1.1.0").into(),
        revision: None,
        received_ms: 1,
        begun: 0,
        is_accepted: false,
    }
}

/// Returns the claim of a node on message 7 of the stream `ORDERS`: its first attempt has begun, and another node may go on.
pub(super) fn claim(node: &str, id: InvocationId) -> ClaimRecord {
    ClaimRecord {
        function: function("f"),
        node: node.to_owned(),
        process: 0,
        invocation: id,
        state: ClaimState::Begun,
        attempts: 1,
        lost: 0,
        at_ms: 1,
        limit: ClaimLimit::Silence(30_000),
        stream: "ORDERS".to_owned(),
        sequence: 7,
    }
}

pub(super) fn found(claim: &ClaimRecord, revision: u64) -> FoundKey {
    FoundKey {
        value: claim.bytes().into(),
        revision,
        stamp: revision,
    }
}

/// Returns the first delivery, or a later one, of a message of `ORDERS` with the data `{}`.
pub(super) fn delivered(entry: u32, sequence: u64, count: u64) -> DeliveredMessage {
    DeliveredMessage {
        entry,
        subject: "orders.new".to_owned(),
        place: place("ORDERS", sequence),
        ack: format!("$JS.ACK.ORDERS.fnd-f.{count}.{sequence}.1.1.0").into(),
        delivered: count,
        headers: Vec::new(),
        payload: "{}".into(),
    }
}

fn wanted_of(name: &str, entry: &NatsTrigger, limits: FunctionLimits) -> WantedEntry {
    WantedEntry {
        rules: Arc::new(NatsRules::of(&function(name), entry, limits)),
        when: Vec::new(),
        tests: Compiled(Vec::new()),
        body_max: 1 << 20,
        replaces: false,
        is_rated: false,
        targets: EndTargets::default(),
        is_mute: false,
        events: None,
    }
}

fn trigger(subject: &str) -> NatsTrigger {
    NatsTrigger {
        subject: subject.to_owned(),
        stream: Some("ORDERS".to_owned()),
        ..NatsTrigger::default()
    }
}

/// Returns an entry for messages of `ORDERS` with this subject.
pub(super) fn wanted_entry(name: &str, subject: &str) -> WantedEntry {
    wanted_of(name, &trigger(subject), limits())
}

/// Returns an entry whose messages another node may take over.
pub(super) fn wanted_fenced(name: &str, subject: &str) -> WantedEntry {
    wanted_slow(name, subject, 5)
}

/// The same with a grace period of so many seconds.
pub(super) fn wanted_slow(name: &str, subject: &str, grace: u64) -> WantedEntry {
    let limits = FunctionLimits {
        retries_interrupted: true,
        grace: Duration::from_secs(grace),
        ..limits()
    };
    wanted_of(name, &trigger(subject), limits)
}

/// Returns an entry whose messages are acknowledged once they are stored.
pub(super) fn wanted_accept(name: &str, subject: &str) -> WantedEntry {
    let entry = NatsTrigger {
        ack: AckMode::Accept,
        ..trigger(subject)
    };
    wanted_of(name, &entry, limits())
}

/// Returns an entry that answers requests.
pub(super) fn wanted_reply(name: &str, subject: &str) -> WantedEntry {
    let entry = NatsTrigger {
        stream: None,
        reply: true,
        ..trigger(subject)
    };
    wanted_of(name, &entry, limits())
}

/// Returns the record of an invocation of `f` that has ended.
pub(super) fn record(id: InvocationId, reason: Reason) -> InvocationRecord {
    InvocationRecord {
        id,
        function: function("f"),
        trigger: Trigger::Nats,
        durable: true,
        state: reason.final_state(),
        accepted_ms: 1,
        started_ms: Some(1),
        ended_ms: Some(2),
        attempts: 1,
        polls: 0,
        reason: Some(reason),
        message: "no".to_owned(),
        exhausted: None,
        next_attempt_ms: None,
        version: None,
        result: None,
        caller: None,
    }
}

fn limits() -> FunctionLimits {
    FunctionLimits {
        places: 4,
        timeout: Some(Duration::from_secs(180)),
        grace: Duration::from_secs(5),
        retries_interrupted: false,
    }
}

pub(super) fn wanted(entries: Vec<WantedEntry>) -> WantedMessages {
    WantedMessages {
        takes_work: true,
        limits: limits(),
        entries,
    }
}

/// Returns the part of the node `vm1`, which has the instance 7, without a connection.
pub(super) fn messages() -> Messages {
    Messages {
        node: Some(NodeIdentity {
            name: "vm1".to_owned(),
            instance: 7,
            bucket: "fnd-claims".into(),
            keeps: Duration::from_hours(24),
        }),
        has_fence: true,
        knows_functions: true,
        ..Messages::default()
    }
}

pub(super) fn server() -> ConnectedServer {
    ConnectedServer {
        server: "n1".to_owned(),
        bucket_created_ns: 1,
        bucket_problem: None,
        max_payload: 1000,
    }
}

/// Returns the settings of a connection to these servers.
pub(super) fn connect_to(servers: &[&str]) -> NatsConnect {
    NatsConnect {
        servers: servers.iter().map(|server| (*server).to_owned()).collect(),
        credentials: None,
        ca: None,
        certificate: None,
        tls_first: false,
        node: "vm1".to_owned(),
        events: None,
        bucket: ClaimBucket {
            name: "b".into(),
            replicas: 1,
            keeps: Duration::from_hours(24),
        },
    }
}

/// Returns the state of an entry that asks for messages.
pub(super) fn ready() -> EntryState {
    EntryState::Ready {
        ack_wait: Duration::from_secs(30),
        problem: None,
    }
}

/// Says that the consumer of an entry is ready.
pub(super) fn entry_is_ready(messages: &mut Messages, entry: u32) {
    let state = ready();
    messages.fact(at(0), NatsFact::Entry { entry, state }, InvocationId(1));
}

/// Returns the figures of a consumer that was made at 1 and has nothing to do.
pub(super) fn figures() -> ConsumerFigures {
    ConsumerFigures {
        pending: 0,
        redelivered: 0,
        made_ns: 1,
        is_paused: false,
        paused_until_ms: None,
    }
}

/// Connects the part, and gives it its name.
pub(super) fn up(messages: &mut Messages) {
    messages.connection.up(at(0), server());
    messages.node_key = NodeKey::Own(Some(1));
}

/// Returns the part with message 7 of `ORDERS`, whose invocation waits. The function is not known yet.
pub(super) fn open_message(id: InvocationId) -> Messages {
    let mut messages = messages();
    let message = OpenMessage {
        stage: MessageStage::Open,
        ..OpenMessage::new(function("f"), mark("ORDERS", 7))
    };
    let key = (message.function.clone(), Arc::clone(&message.mark.key));
    messages.keys.insert(key, id);
    messages.open.insert(id, message);
    messages
}

/// Returns the part with a connection, and with this entry of the function `f`.
pub(super) fn serving(entry: WantedEntry) -> Messages {
    let mut messages = messages();
    up(&mut messages);
    messages.wants(&function("f"), Some(wanted(vec![entry])));
    messages.take_effects();
    messages
}

/// Takes the requests to the thread; other effects are dropped.
pub(super) fn sent(messages: &mut Messages) -> Vec<NatsRequest> {
    let effects = messages.take_effects().into_iter();
    effects
        .filter_map(|effect| match effect {
            MessageEffect::Send(request) => Some(request),
            _ => None,
        })
        .collect()
}

/// Returns the number of the only request, which asks for a key.
#[track_caller]
pub(super) fn asked_for_key(messages: &mut Messages) -> u64 {
    let requests = sent(messages);
    let [NatsRequest::Read { number, .. }] = requests[..] else {
        panic!("a key is read");
    };
    number
}

/// Returns the number of the only request, which writes a claim in place of this revision, and the claim.
#[track_caller]
pub(super) fn wrote_claim(messages: &mut Messages, expected: Option<u64>) -> (u64, ClaimRecord) {
    let requests = sent(messages);
    match &requests[..] {
        [
            NatsRequest::Write(KeyWrite {
                number,
                value,
                replaces,
                ..
            }),
        ] if *replaces == expected => (*number, ClaimRecord::read(value).unwrap()),
        _ => panic!("a claim is written in place of {expected:?}"),
    }
}
