//! Messages of NATS that run functions. A thread has the connection. `fnd_core::triggers::nats` reads each message
//! and decides its next step. The part [`Messages`] keeps the books: its methods put effects in a list, which the
//! driver carries out in their order.
//!
//! ```text
//!  driver ─▶ NatsPort ─ NatsRequest ─▶ connection ─▶ server
//!    ▲ │                                   │
//!    │ └─ Messages ◀── NatsFact ◀──────────┘
//!    └────── MessageEffect
//!
//!  delivered ─▶ weighed ─▶ storing ─▶ open ─▶ claiming ─▶ open ─▶ ending ─▶ forgotten
//!              (ledger,     (row)       ▲                  │      (claim `done`, then the acknowledgement)
//!               register)               └── put off, retry ┘
//! ```
//! For callers: [`Messages::view`], [`Messages::figures`], [`Messages::problems`], [`Messages::release`] and
//! [`Messages::publish`].
//!
//! Files:
//! - `acceptance`: from a delivery, or the claim of another node on it, to an invocation on the disk
//! - `addresses`: whether the address of a message still means that message
//! - `attempts`: attempts of messages: whether they may begin, their workers, and messages that are given back
//! - `beats`: the actions that are due: signs of life, the fence, repeated ends
//! - `books`: the tables of functions, entries, messages and questions
//! - `claiming`: the claims of the supervisor, in the register and in the ledger at the same time
//! - `configuration`: the configuration in force
//! - `connection`: the thread
//! - `deliveries`: messages that the server has delivered, until each is decided
//! - `elsewhere`: claims of other nodes that this node has seen
//! - `ends`: the end of a message: its claim, and its acknowledgement
//! - `entries`: the entries of `[[nats]]` of the functions that serve
//! - `fact`: facts and answers of the thread
//! - `forsaken`: messages that were given back, and their claims
//! - `instance`: the number of this node
//! - `link`: the handle of the thread
//! - `node`: the key of this node in the register: its lease, and which fnd has its name
//! - `outcome`: how far the end of a message is published
//! - `outgoing`: the messages that fnd publishes at an end
//! - `port`: what the driver holds: the handle of the thread, and the reader of the ledger
//! - `problems`: problems of the connection, the register and the entries
//! - `pulls`: how many messages are asked for
//! - `register`: the claims of messages: they are written and read, and what follows from the answers
//! - `release`: a claim that a person ends, and messages that callers publish
//! - `replies`: requests that a function answers
//! - `request`: requests to the thread
//! - `search`: the claim on a message that this node was not offered
//! - `server_state`: the connection as the part knows it
//! - `settings`: `[events.nats]` with its secret
//! - `submission`: the request to run that a message becomes
//! - `view`: the view of the API, and figures for metrics
//! - `wanted`: the messages that a function wants, and what it makes of one

mod acceptance;
mod addresses;
mod attempts;
mod beats;
mod books;
mod claiming;
mod configuration;
mod connection;
mod deliveries;
mod elsewhere;
mod ends;
mod entries;
pub(crate) mod fact;
mod forsaken;
pub(crate) mod instance;
pub(crate) mod link;
mod node;
mod outcome;
mod outgoing;
pub(crate) mod port;
mod problems;
mod pulls;
mod register;
mod release;
mod replies;
pub(crate) mod request;
mod search;
mod server_state;
pub(crate) mod settings;
mod submission;
#[cfg(test)]
mod tests;
mod view;
mod wanted;

pub(crate) use books::{MessageAttempt, MessageCounters};
pub(crate) use fact::{PublishFailed, ReleaseFailed};
#[cfg(test)]
pub(crate) use view::FunctionFigures;
pub(crate) use view::NatsFigures;
pub(crate) use wanted::WantedMessages;

use books::{EntryBook, FunctionBook, OpenMessage, Question, SeenClaim};
use deliveries::PendingDelivery;
use fact::{KeyAnswer, NatsAnswer, NatsFact, WriteAnswer};
use fnd_core::run::{Event, Now, Submit};
use fnd_core::triggers::nats::lease::NodeLease;
use fnd_core::triggers::nats::memory::MessageMemory;
use fnd_core::triggers::nats::open_claims::OpenClaims;
use fnd_core::triggers::nats::witness::NodeWitness;
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use node::{NameBook, NodeIdentity, NodeKey};
use release::tell;
use request::{KeyWrite, NatsRequest};
use server_state::ServerState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A step of the driver.
pub(crate) enum MessageEffect {
    /// Hand this to the thread.
    Send(NatsRequest),
    /// There is no thread: try to start it once more.
    StartAgain,
    /// Ask the ledger for the message of a function with this key; [`Messages::known`] gets the answer with the number.
    LookUp(u64, FunctionName, Arc<str>),
    /// Delete an invocation from the ledger of which nothing has begun, and which the supervisor does not have.
    Withdraw(InvocationId),
    /// Submit this; [`Messages::refused`] follows if the supervisor does not take it, else [`Messages::stored`] or
    /// [`Messages::has_row`].
    Submit(Box<Submit>),
    /// Submit this for a caller that waits, whose answer goes to this inbox: [`Messages::answered`]. Absent: nobody waits.
    Request(Box<Submit>, Option<Arc<str>>),
    /// Read an ended invocation from the ledger: [`Messages::end_is_read`].
    ReadEnd(InvocationId),
    /// An event for the supervisor.
    Event(Event),
    /// Store a change of what is remembered.
    Store(MessageMemory),
    /// Store that the record of another node counts in place of that of this invocation, which has ended.
    Supersede(InvocationId, Box<str>),
    /// The spawner ends this worker at that time of the monotonic clock, unless it is told another one before; absent: it never does.
    Lease(WorkerId, Option<Duration>),
    /// Tell the people who operate fnd.
    Warn(String),
    /// Problems may have changed.
    Changed,
}

#[derive(Default)]
pub(crate) struct Messages {
    /// The identity of this node in the register; absent without `[events.nats]`.
    node: Option<NodeIdentity>,
    connection: ServerState,
    node_key: NodeKey,
    /// When the thread is to be started once more; absent: it is there, or nobody wants it.
    start_at: Option<Duration>,
    name: NameBook,
    /// Whether the spawner can end workers by a lease.
    has_fence: bool,
    is_draining: bool,
    /// Whether the functions directories were scanned.
    knows_functions: bool,
    /// Whether the configuration has `[events.nats]`.
    is_wanted: bool,
    /// Whether `[events.nats]` is gone, or names another node or bucket: nothing is asked for until open work has ended.
    is_closing: bool,
    functions: BTreeMap<FunctionName, FunctionBook>,
    /// Also those of functions that have no entries now: they go on when such a function has entries again.
    counters: BTreeMap<FunctionName, MessageCounters>,
    entries: BTreeMap<u32, EntryBook>,
    next_entry: u32,
    /// Whether functions may have more room for messages than when they were looked at last.
    has_new_room: bool,
    /// When they are looked at again: other functions have just asked for the room.
    ask_again_at: Option<Duration>,
    /// How often they were looked at: they take turns.
    turn: usize,
    /// Deliveries of which it is not decided yet what to do.
    deliveries: BTreeMap<u64, PendingDelivery>,
    /// Messages that the ledger has not stored because it has a row of them, by the number of the question for that row.
    not_stored: BTreeMap<u64, OpenMessage>,
    /// Messages with a row in the ledger whose end the server does not know.
    open: BTreeMap<InvocationId, OpenMessage>,
    /// Those with an attempt that an fnd before this one has left, and perhaps some that have none any more.
    left: BTreeSet<InvocationId>,
    /// All open messages by the keys of their claims.
    keys: BTreeMap<(FunctionName, Arc<str>), InvocationId>,
    /// The claims of the supervisor for whose answers attempts wait.
    open_claims: OpenClaims,
    /// Messages that were given back and whose claims may still say that this node has them: the keys, with their invocations, and
    /// from when on no earlier request writes such a claim any more.
    forsaken: BTreeMap<(Arc<str>, InvocationId), Duration>,
    /// When each open message is looked at, by the monotonic clock.
    due: BTreeSet<(Duration, InvocationId)>,
    /// Why the end of a message could not be published last, of each function.
    unpublished: BTreeMap<FunctionName, String>,
    questions: BTreeMap<u64, Question>,
    next_number: u64,
    lease: NodeLease,
    /// For how long the machine was suspended since it was started, as it was seen last.
    suspended: Option<Duration>,
    witness: NodeWitness,
    /// Claims of other nodes, which this node has seen and has left to them.
    elsewhere: BTreeMap<(FunctionName, u64), SeenClaim>,
    /// The last claim that this fnd could not read, and when.
    bad_claim: Option<(String, Duration)>,
    /// When messages are forgotten next, and the claims looked for of messages that were given back.
    forget_at: Duration,
    /// Messages that were done since the last time.
    closed: usize,
    out: Vec<MessageEffect>,
}

impl Messages {
    /// Returns the effects in their order, and forgets them.
    pub(crate) fn take_effects(&mut self) -> Vec<MessageEffect> {
        std::mem::take(&mut self.out)
    }

    /// Says whether effects wait.
    pub(crate) fn has_effects(&self) -> bool {
        !self.out.is_empty()
    }

    /// Says whether the attempts of an invocation are claimed in the register.
    pub(crate) fn claims(&self, id: InvocationId) -> bool {
        self.open.get(&id).is_some_and(|message| !message.mark.is_accepted)
    }

    /// Handles a fact. `id` is for the invocation, if the fact is a delivery that becomes one.
    pub(crate) fn fact(&mut self, now: Now, fact: NatsFact, id: InvocationId) {
        if self.node.is_none() {
            return; // a fact of a thread that was asked to end
        }
        // An answer says itself whether it makes room.
        self.has_new_room |= !matches!(fact, NatsFact::Answer(..) | NatsFact::RoundTrip(_));
        match fact {
            NatsFact::Connected(server) => self.connected(now, *server),
            NatsFact::NoBucket(why) => self.no_bucket(now, why),
            NatsFact::Disconnected(why) => self.disconnected(now, why),
            NatsFact::ServerError(why) => self.connection.complains(why),
            NatsFact::Entry { entry, state } => self.entry_is(entry, state),
            NatsFact::Figures { entry, figures } => self.figures_are(entry, figures),
            NatsFact::Delivered(message) => self.delivered(now, *message, id),
            NatsFact::PullEnded { entry, left } => {
                if let Some(entry) = self.entries.get_mut(&entry) {
                    entry.asked = entry.asked.saturating_sub(left);
                }
            }
            NatsFact::Renewed { node, stamp } => self.witness.heard(&node, stamp, now.mono),
            NatsFact::Answer(number, answer) => self.answered_by_server(now, number, answer),
            NatsFact::Requested(request) => self.requested(now, *request, id),
            NatsFact::RoundTrip(time) => {
                if self.connection.took(time) {
                    self.out.push(MessageEffect::Changed);
                }
            }
        }
    }

    /// Takes the answer to a question. One of another kind than the question is none.
    fn answered_by_server(&mut self, now: Now, number: u64, answer: NatsAnswer) {
        let Some(question) = self.questions.remove(&number) else {
            return;
        };
        // Most answers are about claims and acknowledgements, which make room only where a message moves, begins later or is forgotten.
        self.has_new_room |= !matches!(question, Question::WriteClaim(..) | Question::Settle(_));
        match (question, answer) {
            (question, NatsAnswer::Key(result)) => self.key_is_read(now, question, result),
            (Question::OriginalOfDelivery(of), NatsAnswer::Message(result)) => {
                self.original_of_delivery(now, of, result);
            }
            (Question::SearchMessage(search), NatsAnswer::Message(result)) => {
                self.searched_message_is_read(search, result);
            }
            (Question::PlaceOfEnd(id), NatsAnswer::Message(result)) => self.place_of_end(now, id, &result),
            (Question::PlaceOfLife(id, since), NatsAnswer::Message(result)) => self.place_of_life((id, since), &result),
            (question, NatsAnswer::Written(result)) => self.key_is_written(now, question, result),
            // A message without a row in the ledger needs no answer: the server delivers the message again.
            (Question::Settle(Some(id)), NatsAnswer::Settled(result)) => self.end_is_settled(now, id, &result),
            (Question::Publish(answer), NatsAnswer::Published(result)) => {
                tell(answer, result.map_err(PublishFailed::Failed));
            }
            (Question::PublishEnd(id), NatsAnswer::Published(result)) => {
                self.end_is_published(now, id, &result.map(drop));
            }
            // The thread never answers a question with an answer of another kind.
            _ => {}
        }
    }

    fn key_is_read(&mut self, now: Now, question: Question, result: KeyAnswer) {
        match question {
            Question::ClaimOfDelivery(delivery) => self.claim_of_delivery(now, delivery, result),
            Question::HolderOfDelivery(delivery, asked) => self.holder_of_delivery(now, (delivery, asked), result),
            Question::SearchClaim(search, key) => self.searched_claim_is_read(now, (search, key), result),
            Question::ReadClaim(id, purpose) => self.claim_is_read(now, (id, purpose), result),
            Question::ReadForsaken(key, id) => self.forsaken_is_read(now, (key, id), result),
            Question::ReadNode(asked) => self.node_is_read(now, asked, result),
            // No other question is answered with the value of a key.
            _ => {}
        }
    }

    fn key_is_written(&mut self, now: Now, question: Question, result: WriteAnswer) {
        match question {
            Question::TakeOver(delivery, both) => self.taken_over(now, delivery, *both, &result),
            Question::WriteClaim(claim, wanted) => self.claim_is_written(now, claim, *wanted, result),
            Question::EndForsaken(key, id) => self.forsaken_is_ended(now, (key, id), &result),
            Question::Renew(sent) => self.node_is_written(now, sent, &result),
            Question::Release(released, seen, answer) => self.claim_is_ended(released, seen, (answer, result)),
            // No other question writes a key.
            _ => {}
        }
    }

    /// Sends a request that is answered; the answer finds the question again.
    fn ask(&mut self, question: Question, request: impl FnOnce(u64) -> NatsRequest) {
        let number = self.next_number();
        self.questions.insert(number, question);
        self.out.push(MessageEffect::Send(request(number)));
    }

    /// Asks for a key of the bucket.
    fn ask_for_key(&mut self, question: Question, key: Arc<str>) {
        self.ask(question, |number| NatsRequest::Read { number, key });
    }

    /// Asks for the message with this sequence in a stream.
    fn ask_for_message(&mut self, question: Question, place: (Arc<str>, u64)) {
        self.ask(question, |number| NatsRequest::ReadMessage { number, place });
    }

    /// Writes a key of the bucket in place of this revision; absent: there must be no such key.
    fn ask_to_write(&mut self, question: Question, key: Arc<str>, value: Vec<u8>, replaces: Option<u64>) {
        self.ask(question, |number| {
            NatsRequest::Write(KeyWrite {
                number,
                key,
                value: value.into(),
                replaces,
            })
        });
    }

    fn next_number(&mut self) -> u64 {
        self.next_number = self.next_number.wrapping_add(1);
        self.next_number
    }
}
