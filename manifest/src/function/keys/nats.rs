//! Keys of `[[nats]]`: messages of NATS JetStream that run the function.

use super::TEXTS;
use super::triggers::TEST;
use crate::function::nats::{self, AckMode, DeliverFrom};
use crate::function::route::{self, Condition};
use crate::schema::keys::keys;
use crate::text;
use serde::{Deserialize, Serialize};
use std::time::Duration;

keys! {
    /// An entry of `[[nats]]`: the messages that run the function. All nodes with the function share them.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct NatsTrigger: Default {
        /// The subject; `*` stands for one part of it, `>` for the rest.
        subject: String = Text(TextKind::Grammar(&nats::SUBJECT)), example "orders.>", required true;
        /// The stream of JetStream that stores the messages.
        stream: Option<String> = Text(TextKind::Grammar(&nats::STREAM)), example "ORDERS";
        /// Whether fnd makes the stream if it does not exist: a work queue, from which a message is removed once it is acknowledged.
        create: bool = Bool, default false, example true;
        /// The name of the consumer. All nodes that use the same name share its messages. Default: `fnd-` and the name of the function, in which `_` stands for `/`.
        consumer: Option<String> = Text(TextKind::Grammar(&nats::STREAM)), example "order-workers";
        /// Number of messages that this node works on at once, also those that wait for a retry. Default: `pool.max` times `pool.concurrency`.
        max_in_flight: Option<u32> = Whole(1..=100_000), example 16;
        /// When a message is acknowledged: once its run has ended (`done`), or once it is in the history of this node (`accept`). After `accept` no other node gets it, whatever becomes of this one.
        ack: AckMode = Word(AckMode::WORDS), default "done", example "accept";
        /// How long the server waits for a sign of life of a node before it gives the message to another one. fnd sends such signs while it has the message.
        ack_wait: Duration [with = "text::duration"] = Duration(Zero::Refused), default "30s", example "10s";
        /// Number of attempts that may begin without an end, because a node went down. After them the message is a dead letter.
        max_deliver: u32 = Whole(1..=1000), default 5, example 3;
        /// Where a new consumer begins: with the oldest message of the stream (`all`), or with the next one (`new`).
        deliver: DeliverFrom = Word(DeliverFrom::WORDS), default "all", example "new";
        /// Subject to which dead letters are published, in addition to the list of `fndctl dead-letters`.
        dead_letters: Option<String> = Text(TextKind::Grammar(&nats::TARGET)), example "dlq.orders";
        /// Subject to which results are published.
        result: Option<String> = Text(TextKind::Grammar(&nats::TARGET)), example "orders.done";
        /// Whether the function answers requests on the subject. It needs no stream then, and nobody repeats a request that was lost.
        reply: bool = Bool, default false, example true;
        /// Conditions on the message that must all hold; any other message is acknowledged and runs nothing: `body.NAME` looks into the data, `header.NAME` is a header of the message.
        when: Vec<Condition> = Map(TextKind::Grammar(&route::PLACE), &Either(&Text(TextKind::Any), &Either(&TEXTS, &Table(TEST)))),
            example { "body.total" = { matches = "^[0-9]{4,}$" } };
    }
}
