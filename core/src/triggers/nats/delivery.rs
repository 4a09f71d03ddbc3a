//! Decides the next step for a delivered message. The decision uses the ledger's row of the message, its claim, and whether the
//! holder of the claim is silent.
//!
//! ```text
//!  nobody has looked in the ledger, and it was delivered before ───▶ look, then decide again
//!  in the ledger, without an end ──────────────────────────────────▶ renew
//!  in the ledger, its end is not acknowledged ─────────────────────▶ renew, which goes on with its end
//!  its claim is not read, and it was delivered before ─────────────▶ read the claim, then decide again
//!  no claim ───────────────────────────────────────────────────────▶ accept
//!  the claim says that it has ended ───────────────────────────────▶ acknowledge
//!  the claim of another message that can still be delivered ───────▶ give back: that one goes on with its work
//!  the claim of a node that is there, or whose time is not over ───▶ give back
//!  the claim of a node that is silent, or whose time is over ──────▶ take over: one attempt counts as interrupted
//! ```
//! Nothing is decided by the server's count of deliveries but whether to look first: a consumer that was made anew counts from 1.

use super::claim::{ClaimLimit, ClaimRecord, ClaimState};
use super::rules::NatsRules;
use super::witness::SilenceProof;
use crate::instant;
use crate::records::StreamPlace;
use fnd_manifest::words;
use fnd_wire::units::print_duration;
use std::sync::Arc;
use std::time::Duration;

/// Shortest time after which a message that is given back is delivered again. Without one, nodes that cannot take it would
/// hand it around without end.
pub const GIVE_BACK_LEAST: Duration = Duration::from_secs(1);
/// Longest such time: a claim that was released must not wait long for its message.
pub const GIVE_BACK_MOST: Duration = Duration::from_secs(60);

/// A message that the server has delivered, with the facts that decide its next step.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    /// The entry of `[[nats]]` that it came by.
    pub rules: &'a NatsRules,
    /// Its place in the stream.
    pub place: &'a StreamPlace,
    /// How often the server has delivered it, by its own count; at least 1.
    pub delivered: u64,
    /// Whether the function takes messages: it is enabled and has a version that can run, and fnd does not drain.
    pub takes_work: bool,
    /// The row of a message with the same identity in the ledger of this node; absent: there is none, or nobody has looked.
    pub local: Option<LocalMessage<'a>>,
    /// Whether somebody has looked.
    pub is_looked_up: bool,
    /// Whether a first delivery is looked up, too. Else it may be accepted at once: the ledger refuses it if it has a row of it.
    pub looks_first: bool,
    /// The claim on the message, as far as this node has read it.
    pub claim: &'a ClaimSeen,
    /// Whether the holder of the claim is silent; used only if the claim is one that ends by silence.
    pub silence: HolderSilence,
    /// Whether the message can still be delivered that the claim was made for; used only if this is another one.
    pub original: OriginalMessage,
    /// The wall clock, Unix milliseconds.
    pub now_ms: u64,
}

/// A message in the ledger of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalMessage<'a> {
    /// Its place in the stream.
    pub place: &'a StreamPlace,
    /// How far this node has come with it.
    pub step: LocalStep,
}

words! {
    /// How far this node has come with a message.
    pub enum LocalStep {
        /// Its invocation waits, runs or waits for a retry.
        Open = "open",
        /// The same, of a message that was acknowledged once it was in the ledger (`ack = "accept"`). It has no claim.
        Accepted = "accepted",
        /// Its final record is on the disk. The claim does not say so yet, or the server has not confirmed the acknowledgement.
        Ending = "ending",
        /// The acknowledgement was confirmed.
        Closed = "closed",
        /// Another node has taken it over, or has a final record of it.
        Superseded = "superseded",
    }
}

/// The claim on a message, as far as this node has read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimSeen {
    /// This node has not read it.
    Unread,
    /// No claim on the message exists.
    Absent,
    /// It says this; with its revision.
    Found(Box<ClaimRecord>, u64),
    /// Its value is none that this fnd can read.
    Unreadable,
}

/// Whether the holder of a claim is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderSilence {
    /// This node has not looked.
    Unseen,
    /// The holder is this node, whose ledger does not know the message: it was lost or set aside.
    Own,
    /// The holder is another node.
    Other(SilenceProof),
}

/// The message that a claim was made for. One with the same identity is a duplicate of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginalMessage {
    /// This node has not looked.
    Unread,
    /// It is in its stream.
    There,
    /// It is in no stream any more, so nobody gets it again.
    Gone,
}

/// The next step for a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryStep {
    /// Remember the address of this delivery for the acknowledgement, and send a sign of life or go on with its end.
    Renew,
    /// Acknowledge it; nothing runs. The work has ended, on this node or on another one.
    Acknowledge {
        /// Whether it was the work of another message with the same identity. Else the server has delivered it once more.
        is_duplicate: bool,
    },
    /// Give it back: the server delivers it again after this time, to any node.
    GiveBack(Duration),
    /// Look for its row in the ledger of this node and decide again.
    LookUp,
    /// Read its claim and decide again.
    ReadClaim,
    /// Read the key of the claim's holder and decide again.
    ReadHolder,
    /// Look whether the message of the claim, with this sequence, is still in this stream, and decide again.
    ReadOriginal(Arc<str>, u64),
    /// Accept it: its invocation is stored, and claimed when it begins.
    Accept,
    /// Replace the claim of this revision, then accept it with what has gone before.
    TakeOver(Box<Takeover>),
}

/// The claim and the attempts that a node takes over from another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takeover {
    /// The revision of the claim.
    pub revision: u64,
    /// Attempts that have begun; the last one counts as interrupted.
    pub attempts: u32,
    /// Whether no further attempt is made, whatever `retry` says: it has begun too often without an end.
    pub is_last: bool,
    /// The message of the interrupted attempt.
    pub message: String,
}

/// Decides what to do with a delivery.
#[must_use]
pub fn decide(delivery: &Delivery<'_>) -> DeliveryStep {
    match delivery.local {
        Some(local) => {
            if let Some(step) = of_row(local, delivery.place, delivery.rules) {
                return step;
            }
        }
        None if !delivery.is_looked_up && !is_accepted_unseen(delivery) => return DeliveryStep::LookUp,
        None => {}
    }
    if !delivery.takes_work {
        return DeliveryStep::GiveBack(GIVE_BACK_LEAST); // another node may take it
    }
    if !delivery.rules.claims() {
        return DeliveryStep::Accept;
    }
    match delivery.claim {
        // The claim is created when the work begins, and the server refuses that if there is one. So the first delivery of a
        // message need not wait for an answer here.
        ClaimSeen::Unread if delivery.delivered <= 1 && delivery.local.is_none() => DeliveryStep::Accept,
        ClaimSeen::Unread => DeliveryStep::ReadClaim,
        ClaimSeen::Absent => DeliveryStep::Accept,
        // A newer fnd may hold it. Nobody loses the message: it comes again.
        ClaimSeen::Unreadable => give_back(GIVE_BACK_MOST),
        ClaimSeen::Found(claim, revision) => of_claim(delivery, claim, *revision),
    }
}

/// Says whether a delivery is accepted before anybody has looked in the ledger. Most first deliveries are new, and the ledger takes no
/// second row of a message.
fn is_accepted_unseen(delivery: &Delivery<'_>) -> bool {
    delivery.delivered <= 1 && delivery.takes_work && !delivery.looks_first
}

/// Decides by the row of a message with the same identity alone; absent: only the claim says what another node has made of it.
#[must_use]
pub fn of_row(local: LocalMessage<'_>, place: &StreamPlace, rules: &NatsRules) -> Option<DeliveryStep> {
    let is_same = local.place == place;
    let acknowledge = DeliveryStep::Acknowledge { is_duplicate: !is_same };
    match local.step {
        LocalStep::Open | LocalStep::Ending if is_same => Some(DeliveryStep::Renew),
        // It is in the ledger. Its acknowledgement was lost.
        LocalStep::Accepted if is_same => Some(acknowledge),
        // The first message is not lost while its work goes on here: the duplicate must outlast it.
        LocalStep::Open | LocalStep::Accepted | LocalStep::Ending => Some(give_back(rules.ack_wait)),
        LocalStep::Closed => Some(acknowledge),
        LocalStep::Superseded => None,
    }
}

fn of_claim(delivery: &Delivery<'_>, claim: &ClaimRecord, revision: u64) -> DeliveryStep {
    let place = delivery.place;
    let is_same = claim.sequence == place.sequence && *claim.stream == *place.stream;
    if claim.is_final() {
        return DeliveryStep::Acknowledge { is_duplicate: !is_same };
    }
    let rest = match (claim.limit, delivery.silence) {
        #[cfg(feature = "simulate")]
        (ClaimLimit::Silence(_), HolderSilence::Unseen) if crate::mutants::Mutant::SilentByDelivery.is_on() => None,
        (ClaimLimit::Silence(_), HolderSilence::Unseen) => return DeliveryStep::ReadHolder,
        (ClaimLimit::Silence(_), HolderSilence::Other(SilenceProof::Wants(rest))) => Some(rest),
        // This node runs nothing of which its ledger does not know, so the attempt has ended.
        (ClaimLimit::Silence(_), HolderSilence::Other(SilenceProof::Given(_)) | HolderSilence::Own) => None,
        (ClaimLimit::Until(until_ms), _) => {
            let rest = Duration::from_millis(until_ms.saturating_sub(delivery.now_ms));
            Some(rest).filter(|rest| !rest.is_zero())
        }
        (ClaimLimit::Person, _) => Some(GIVE_BACK_MOST),
    };
    match (rest, delivery.original) {
        (Some(rest), _) if is_same => give_back(rest),
        (Some(_), _) => give_back(delivery.rules.ack_wait),
        // The message of the claim goes on with its work when it is delivered again.
        (None, OriginalMessage::Unread) if !is_same => {
            DeliveryStep::ReadOriginal(claim.stream.as_str().into(), claim.sequence)
        }
        (None, OriginalMessage::There) if !is_same => give_back(delivery.rules.ack_wait),
        (None, _) => DeliveryStep::TakeOver(Box::new(Takeover {
            revision,
            attempts: claim.attempts,
            is_last: claim.lost_with_holder() >= delivery.rules.max_deliver,
            message: message(claim, delivery.silence),
        })),
    }
}

fn give_back(rest: Duration) -> DeliveryStep {
    DeliveryStep::GiveBack(rest.clamp(GIVE_BACK_LEAST, GIVE_BACK_MOST))
}

/// Returns the message of the attempt whose end no node knows.
fn message(claim: &ClaimRecord, silence: HolderSilence) -> String {
    let ClaimRecord { node, at_ms, state, .. } = claim;
    let at = instant::text(*at_ms);
    let had = match state {
        ClaimState::Held => format!("{node} had taken it over at {at}"),
        ClaimState::Begun | ClaimState::Done | ClaimState::Interrupted => format!("{node} had begun it at {at}"),
    };
    match (claim.limit, silence) {
        (_, HolderSilence::Own) => format!("{had}, and its history does not know the end"),
        (ClaimLimit::Silence(_), HolderSilence::Other(SilenceProof::Given(silent))) => {
            // Whole seconds: people compare the time with that of the record.
            let silent = print_duration(Duration::from_secs(silent.as_secs()));
            format!("{had} and was silent for {silent}")
        }
        _ => format!("{had} and has not ended it in its time"),
    }
}

#[cfg(test)]
mod tests;
