//! The tables of the part: functions, entries, messages and questions.

use super::fact::{ConsumerFigures, EntryState, PublishFailed, ReleaseFailed};
use super::outgoing::{EndOutcome, EndTargets};
use super::wanted::WantedEntry;
use fnd_core::api::ReleasedClaim;
use fnd_core::records::MessageMark;
use fnd_core::triggers::nats::claim::ClaimRecord;
use fnd_core::triggers::nats::delivery::{LocalStep, Takeover};
use fnd_core::triggers::nats::rules::{FunctionLimits, NatsRules};
use fnd_core::triggers::nats::server::answers::PubAck;
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, WorkerId};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A function with entries.
pub(super) struct FunctionBook {
    pub(super) takes_work: bool,
    pub(super) limits: FunctionLimits,
    /// The numbers of its entries, in the order of its manifest.
    pub(super) entries: Vec<u32>,
    /// The entry that asks first the next time.
    pub(super) first: usize,
    /// The group of its attempts, when it was looked at last.
    pub(super) group: Option<Arc<str>>,
}

/// Counters of the messages of a function since fnd started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MessageCounters {
    /// Messages that the server had delivered before: `fnd_nats_redelivered_total`.
    pub(crate) redelivered: u64,
    /// Attempts that were ended because the lease was not renewed in time: `fnd_nats_leases_lost_total`.
    pub(crate) leases_lost: u64,
    /// Claims that the register has refused: `fnd_nats_claims_refused_total`.
    pub(crate) claims_refused: u64,
    /// Messages that were acknowledged because the work of another message with the same identity has ended:
    /// `fnd_nats_duplicates_total`.
    pub(crate) duplicates: u64,
    /// Messages that were acknowledged because `when` does not hold: `fnd_nats_skipped_total`.
    pub(crate) skipped: u64,
}

pub(super) struct EntryBook {
    pub(super) function: FunctionName,
    pub(super) wanted: WantedEntry,
    /// Absent: the thread has said nothing of it since the connection began.
    pub(super) state: Option<EntryState>,
    pub(super) figures: Option<ConsumerFigures>,
    /// When its consumer was made, as the thread has found it last.
    pub(super) made_ns: Option<u64>,
    /// Messages that were asked for and have not come.
    pub(super) asked: usize,
    /// When the last of them were asked for.
    pub(super) asked_at: Duration,
    /// Open messages of this entry whose work has not ended.
    pub(super) here: usize,
    /// Messages whose work has ended, until the server has confirmed their ends.
    pub(super) ending: usize,
    /// Until when it asks for nothing: this node could not take a message. Else the next one would come at once, and so on.
    pub(super) paused_until: Option<Duration>,
    /// Until when the ledger is asked for each message before it is accepted: it had one. The next ones may be such, too.
    pub(super) looks_until: Option<Duration>,
}

/// A message with a row in the ledger.
pub(super) struct OpenMessage {
    pub(super) function: FunctionName,
    pub(super) mark: MessageMark,
    /// The entry that it came by; absent where there is none any more.
    pub(super) entry: Option<u32>,
    /// The rules of that entry, when it came or when its last attempt was claimed. A later manifest does not change that attempt.
    pub(super) rules: Option<Arc<NatsRules>>,
    pub(super) stage: MessageStage,
    pub(super) claim: KnownClaim,
    /// Whether a question about its claim or its end is on its way.
    pub(super) is_asking: bool,
    /// Whether the server has not answered its acknowledgement in time.
    pub(super) is_unanswered: bool,
    /// Whether the address of its last delivery still means it.
    pub(super) address: KnownAddress,
    /// How long its last attempt may go on after a renewal; absent: it has no lease.
    pub(super) lease: Option<Duration>,
    /// The grace period of an attempt that an fnd before this one has begun, until its claim says how long its lease is.
    pub(super) adopts: Option<Duration>,
    /// The attempt of it that runs; known also before the rules are.
    pub(super) attempt: Option<MessageAttempt>,
    /// Whether the fnd before this one has begun an attempt of it. It may have been killed before it stored the revision of the claim.
    pub(super) has_begun: bool,
    /// Whether its final record says `interrupted`.
    pub(super) is_interrupted: bool,
    /// Whether it has a final record, perhaps not on the disk yet.
    pub(super) has_ended: bool,
    /// Where its end is published.
    pub(super) targets: EndTargets,
    /// How far its end is published.
    pub(super) outcome: EndOutcome,
    /// Why the server forgets it without an acknowledgement: it has begun too often without an end.
    pub(super) term: Option<String>,
    /// When the next sign of life is due.
    pub(super) signal_at: Duration,
    /// When its end is tried again.
    pub(super) again_at: Option<Duration>,
    /// When its claim is to be written anew, or read if it is not known.
    pub(super) keep_at: Duration,
    /// When it is looked at: its place in [`Messages::due`](super::Messages).
    pub(super) due_at: Option<Duration>,
}

/// An attempt of a message, in its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageAttempt {
    pub(crate) number: Attempt,
    pub(crate) worker: WorkerId,
    /// When it began, Unix milliseconds.
    pub(crate) began_ms: u64,
    /// When the spawner ends the worker by the attempt's own limits, by the monotonic clock.
    pub(crate) ends_at: Option<Duration>,
}

/// How far a message has come.
#[derive(Debug)]
pub(super) enum MessageStage {
    /// Its row is being stored.
    Storing,
    /// Its invocation waits, runs or waits for a retry.
    Open,
    /// The supervisor waits for the claim of its attempt with this number, and the register has not answered.
    Claiming(u32),
    /// Its final record is on the disk.
    Ending,
}

/// The claim on a message of this node, as far as this node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KnownClaim {
    /// This node has written none.
    None,
    /// This node has written this, with this revision.
    Written(ClaimRecord, u64),
    /// It has to be read.
    Unknown,
}

/// The share of its entry that a message takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenPlace {
    /// One of the places for work.
    Work,
    /// One of the places for ends.
    End,
    Nothing,
}

/// Whether the address of a message still means that message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum KnownAddress {
    #[default]
    Good,
    /// The message was delivered before this connection, or its consumer was gone or made anew since, and its stream perhaps too.
    Doubtful,
    /// The same, and nobody could say: a right is missing, for instance. It is asked once more at the end.
    Unsaid,
    /// The stream has another message there, or none.
    Gone,
}

/// A claim of another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeenClaim {
    pub(super) key: Arc<str>,
    /// The address of the delivery that was given back because of it.
    pub(super) ack: Arc<str>,
    pub(super) revision: u64,
    pub(super) record: ClaimRecord,
    /// When the claim was seen.
    pub(super) seen_at: Duration,
    /// How often deliveries were given back because of it.
    pub(super) count: u32,
}

/// Why a claim is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimPurpose {
    Begin,
    /// The final record is on the disk.
    End,
    /// The bucket forgets what is old.
    Keep,
}

/// A claim that is looked for.
pub(super) struct ClaimSearch {
    pub(super) function: FunctionName,
    pub(super) sequence: u64,
    /// The streams of the function that were not looked at yet, the next one last; each with `limits.body`.
    pub(super) streams: Vec<(Arc<str>, u64)>,
    pub(super) answer: ReleaseAnswer,
}

/// A question that is on its way, and what its answer is for.
pub(super) enum Question {
    /// The claim on a delivered message.
    ClaimOfDelivery(u64),
    /// The key of the node that holds that claim; with the time of the question.
    HolderOfDelivery(u64, Duration),
    /// The message that this claim was made for, which is not the delivered one.
    OriginalOfDelivery(u64),
    /// The claim is written in which this node takes a message over.
    TakeOver(u64, Box<(ClaimRecord, Takeover)>),
    /// The claim on a message of this node, with its key, is written like this.
    WriteClaim((InvocationId, ClaimPurpose, Arc<str>), Box<ClaimRecord>),
    ReadClaim(InvocationId, ClaimPurpose),
    /// The claim with this key, on a message that was given back as this invocation, is read.
    ReadForsaken(Arc<str>, InvocationId),
    EndForsaken(Arc<str>, InvocationId),
    /// The message of a stream is read in whose place a message is to be ended.
    PlaceOfEnd(InvocationId),
    /// The same, of a message for which a sign of life is due; with the time at which the connection began.
    PlaceOfLife(InvocationId, Duration),
    /// A delivery is ended. Absent: it has no row in the ledger, and if this fails it comes again.
    Settle(Option<InvocationId>),
    /// The key of this node is read at its beginning, or because a renewal was refused; with the time of the question.
    ReadNode(Duration),
    /// It is renewed; with the time of the question.
    Renew(Duration),
    /// A message is looked for whose claim a person ends.
    SearchMessage(Box<ClaimSearch>),
    /// The claim on that message, with its key.
    SearchClaim(Box<ClaimSearch>, Arc<str>),
    /// A person ends this claim; with its function and the delivery that this node has given back because of it, if there was one.
    Release(ReleasedClaim, Option<(FunctionName, Arc<str>)>, ReleaseAnswer),
    /// Something is published of the end of a message.
    PublishEnd(InvocationId),
    /// A caller publishes a message.
    Publish(oneshot::Sender<Result<PubAck, PublishFailed>>),
}

/// Where whoever ends a claim waits for the answer.
pub(super) type ReleaseAnswer = oneshot::Sender<Result<ReleasedClaim, ReleaseFailed>>;

impl EntryBook {
    /// Returns an entry of which nothing is known yet.
    pub(super) fn new(function: FunctionName, wanted: WantedEntry) -> Self {
        Self {
            function,
            wanted,
            state: None,
            figures: None,
            made_ns: None,
            asked: 0,
            asked_at: Duration::ZERO,
            here: 0,
            ending: 0,
            paused_until: None,
            looks_until: None,
        }
    }

    /// Says whether a first delivery is looked up before it is accepted. If the ledger refuses the message, a run that the message has
    /// replaced does not come back, nor does its share of `queue.rate`.
    pub(super) fn looks_first(&self, now: Duration) -> bool {
        let costs = self.wanted.replaces || self.wanted.is_rated;
        costs || self.looks_until.is_some_and(|until| now < until)
    }

    /// Moves a message from one place to another one.
    pub(super) fn moves(&mut self, from: TakenPlace, to: TakenPlace) {
        let mut count = |place, add: fn(usize, usize) -> usize| match place {
            TakenPlace::Work => self.here = add(self.here, 1),
            TakenPlace::End => self.ending = add(self.ending, 1),
            TakenPlace::Nothing => {}
        };
        count(from, usize::saturating_sub);
        count(to, usize::saturating_add);
    }
}

impl OpenMessage {
    /// Returns a message whose row is about to be stored.
    pub(super) fn new(function: FunctionName, mark: MessageMark) -> Self {
        Self {
            function,
            mark,
            entry: None,
            rules: None,
            stage: MessageStage::Storing,
            claim: KnownClaim::None,
            is_asking: false,
            is_unanswered: false,
            address: KnownAddress::Good,
            lease: None,
            adopts: None,
            attempt: None,
            has_begun: false,
            is_interrupted: false,
            has_ended: false,
            targets: EndTargets::default(),
            outcome: EndOutcome::default(),
            term: None,
            signal_at: Duration::ZERO,
            again_at: None,
            keep_at: Duration::ZERO,
            due_at: None,
        }
    }

    /// Returns how far this node has come with it.
    pub(super) fn step(&self) -> LocalStep {
        match self.stage {
            MessageStage::Ending if self.mark.is_accepted => LocalStep::Closed,
            MessageStage::Ending => LocalStep::Ending,
            // Until it is on the disk, the server must not forget it.
            MessageStage::Storing => LocalStep::Open,
            MessageStage::Open | MessageStage::Claiming(_) if self.mark.is_accepted => LocalStep::Accepted,
            MessageStage::Open | MessageStage::Claiming(_) => LocalStep::Open,
        }
    }

    /// Returns which of the places of its entry it takes. The next message need not wait until the server is told of the end of this
    /// one. An ended, acknowledged message waits only until its end is published. An ended message whose acknowledgement the server
    /// does not answer must not hold up a delivery that it would answer.
    pub(super) fn place(&self) -> TakenPlace {
        match self.is_ending() {
            true if self.mark.is_accepted || self.is_unanswered => TakenPlace::Nothing,
            true => TakenPlace::End,
            false if self.has_ended => TakenPlace::End,
            false => TakenPlace::Work,
        }
    }

    /// Says whether it takes one of the places of its entry.
    pub(super) fn takes_place(&self) -> bool {
        self.place() != TakenPlace::Nothing
    }

    /// Says whether the server gets signs of life for it. The server waits for none of a message that it has forgotten. If nobody
    /// answers the acknowledgement, another message may have the address, and would never be delivered again. Or it has it for sure.
    pub(super) fn signals(&self) -> bool {
        let is_over = self.mark.is_accepted || (self.is_ending() && self.is_unanswered);
        !is_over && self.address != KnownAddress::Gone
    }

    /// Says whether it waits for an attempt: none runs, and it has no end.
    pub(super) fn waits(&self) -> bool {
        self.attempt.is_none() && !self.has_ended && !self.is_ending()
    }

    /// Says whether its final record is on the disk.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.stage, MessageStage::Ending)
    }
}
