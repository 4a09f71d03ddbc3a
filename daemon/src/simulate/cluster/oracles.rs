//! The promises that hold for each message on every machine. The oracles see the events of all machines and the claims in the
//! bucket; they do not know how fnd decides.
//!
//! | oracle | promise |
//! |---|---|
//! | O16 | no two attempts of a message run at once, on any machines |
//! | O17 | no attempt of a message comes again, and a second machine begins one only where the manifest allows it |
//! | O18 | each message has one final record that counts, and none is lost |
//! | O19 | at the end the streams are empty, and each claim is one of an end |
//! | O20 | the work of a machine that is down goes on elsewhere in time |

use super::plan::ClusterPlan;
use crate::simulate::facts::{Began, Fact};
use crate::simulate::faults::FaultKinds;
use crate::simulate::jetstream::{BucketModel, JetStream};
use crate::simulate::oracles::PromiseCheck;
use crate::simulate::rows::MessageRow;
use crate::simulate::spawner::contents::MESSAGE_FUNCTIONS;
use fnd_core::records::StreamPlace;
use fnd_core::triggers::nats::claim::{ClaimLimit, ClaimRecord};
use fnd_core::triggers::nats::delivery::LocalStep;
use fnd_wire::ids::{InvocationId, WorkerId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// After `ack_wait`, a machine that is there needs so much to begin the work of one that is down: it sees the silence, asks for the
/// message, and waits for the pause before a retry.
const ROUNDS: Duration = Duration::from_secs(15);

/// The last attempt of a message that a function has seen.
#[derive(Debug)]
struct SeenAttempt {
    machine: usize,
    invocation: InvocationId,
    number: u32,
    worker: WorkerId,
    is_over: bool,
}

pub(super) struct MessageOracles {
    /// By the key of the message.
    last: BTreeMap<String, SeenAttempt>,
    /// The places of each message that was stored, by its stream and its id.
    stored: BTreeMap<(usize, u32), BTreeSet<StreamPlace>>,
    /// The messages whose stream was deleted since they were stored: if no node had accepted such a message, it is lost.
    gone: BTreeSet<(usize, u32)>,
    /// The places in streams that were deleted.
    lost: BTreeSet<StreamPlace>,
    /// The same, and those whose consumer was deleted: a consumer that is made anew does not answer for its predecessor.
    unanswered: BTreeSet<StreamPlace>,
    /// The claims of a machine that is down, with its name, and the time at which somebody else has to have them.
    waiting: BTreeMap<Arc<str>, (String, Duration)>,
    /// Whether a machine that is there has nothing that hinders it.
    are_quick: bool,
}

impl MessageOracles {
    pub(super) fn new(plan: &ClusterPlan) -> Self {
        let is_quick = |machine| plan.has_own_name(machine) && plan.machines[machine].1.kinds == FaultKinds::NONE;
        Self {
            last: BTreeMap::new(),
            stored: BTreeMap::new(),
            gone: BTreeSet::new(),
            lost: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            waiting: BTreeMap::new(),
            are_quick: (0..plan.machines.len()).all(is_quick),
        }
    }

    /// A stream has stored a message.
    pub(super) fn published(&mut self, stream: usize, id: u32, place: StreamPlace) {
        self.stored.entry((stream, id)).or_default().insert(place);
        self.gone.remove(&(stream, id));
    }

    /// The consumer of a stream is deleted.
    pub(super) fn consumer_deleted(&mut self, stream: usize) {
        let of_stream = self.stored.iter().filter(|((of, _), _)| *of == stream);
        let places = of_stream.flat_map(|(_, places)| places.iter().cloned());
        self.unanswered.extend(places);
    }

    /// A stream is deleted with its messages.
    pub(super) fn deleted(&mut self, stream: usize) {
        self.consumer_deleted(stream);
        for (message, places) in self.stored.iter().filter(|((of, _), _)| *of == stream) {
            self.gone.insert(*message);
            self.lost.extend(places.iter().cloned());
        }
    }

    /// Looks at something that has happened on a machine; `message` reads its ledger, also while no fnd runs.
    pub(super) fn see(
        &mut self,
        machine: usize,
        fact: &Fact,
        message: impl FnOnce(InvocationId) -> Option<MessageRow>,
    ) -> PromiseCheck {
        let here = |seen: &&mut SeenAttempt| seen.machine == machine;
        match fact {
            Fact::Began(began) => return self.begins(machine, began, message),
            Fact::Over(invocation, number) => {
                let attempts = self.last.values_mut().filter(here);
                let it = attempts.filter(|seen| seen.invocation == *invocation && seen.number == *number);
                it.for_each(|seen| seen.is_over = true);
            }
            Fact::Gone(worker) => {
                let of_worker = self
                    .last
                    .values_mut()
                    .filter(here)
                    .filter(|seen| seen.worker == *worker);
                of_worker.for_each(|seen| seen.is_over = true);
            }
            // No other fact is the beginning or the end of an attempt.
            _ => {}
        }
        Ok(())
    }

    fn begins(
        &mut self,
        machine: usize,
        began: &Began,
        message: impl FnOnce(InvocationId) -> Option<MessageRow>,
    ) -> PromiseCheck {
        let mut functions = MESSAGE_FUNCTIONS.iter();
        let Some(function) = functions.find(|function| function.name == began.function.as_str()) else {
            return Ok(());
        };
        let (id, number) = (began.invocation, began.attempt);
        let Some(row) = message(id) else {
            return Err(format!(
                "O17: machine {machine} begins {id}, and its ledger has no message of it"
            ));
        };
        if let Some(seen) = self.last.get(&row.key) {
            let before = format!(
                "attempt {} of {} on machine {}",
                seen.number, seen.invocation, seen.machine
            );
            let after = format!("attempt {number} of {id} on machine {machine}");
            if !seen.is_over {
                return Err(format!(
                    "O16: {after} begins, and {before} of the same message still runs"
                ));
            }
            if number <= seen.number {
                return Err(format!("O17: {after} begins after {before} of the same message"));
            }
            if seen.invocation != id && !function.begins_again {
                return Err(format!("O17: {after} begins after {before}, which nobody has allowed"));
            }
        }
        let seen = SeenAttempt {
            machine,
            invocation: id,
            number,
            worker: began.worker,
            is_over: false,
        };
        self.last.insert(row.key, seen);
        Ok(())
    }

    /// A machine is down from now on: its work has to go on elsewhere.
    pub(super) fn went_down(&mut self, name: &str, bucket: &BucketModel, now: Duration) {
        if !self.are_quick {
            return;
        }
        for (key, claim) in bucket.claims() {
            let is_its = |claim: &ClaimRecord| claim.node == name && !claim.is_final() && !self.is_lost(claim);
            let Some(claim) = claim.filter(is_its) else {
                continue;
            };
            if let ClaimLimit::Silence(ms) = claim.limit {
                let until = now + Duration::from_millis(ms) + ROUNDS;
                self.waiting.insert(Arc::clone(key), (name.to_owned(), until));
            }
        }
    }

    /// Returns whether the message of a claim was in a stream that was deleted: nobody delivers it again.
    fn is_lost(&self, claim: &ClaimRecord) -> bool {
        let is_it = |place: &StreamPlace| *place.stream == *claim.stream && place.sequence == claim.sequence;
        self.lost.iter().any(is_it)
    }

    /// Another fault has happened: nothing is said about the time any more.
    pub(super) fn disturbed(&mut self) {
        self.waiting.clear();
    }

    /// Looks whether the work goes on elsewhere that has to by now.
    pub(super) fn looks(&mut self, bucket: &BucketModel, now: Duration) -> PromiseCheck {
        let mut over = self.waiting.extract_if(.., |_, (_, until)| *until <= now).peekable();
        if over.peek().is_none() {
            return Ok(());
        }
        let claims: BTreeMap<_, _> = bucket.claims().collect();
        for (key, (name, until)) in over {
            let claim = claims.get(&key).and_then(Option::as_ref);
            if claim.is_none_or(|claim| claim.node == name && !claim.is_final()) {
                return Err(format!(
                    "O20: {name} is down, and nobody has taken {key} over until {until:?}"
                ));
            }
        }
        Ok(())
    }

    /// Looks whether streams or claims are left.
    pub(super) fn is_nothing_left(&self, server: &JetStream) -> PromiseCheck {
        if let Some(stream) = server.streams.iter().find(|stream| stream.left() > 0) {
            return Err(format!(
                "O19: {} messages of {} have no end",
                stream.left(),
                stream.name
            ));
        }
        for (key, claim) in server.bucket.claims() {
            let Some(claim) = claim else {
                return Err(format!("O19: {key} is no claim"));
            };
            if !claim.is_final() && !self.is_lost(&claim) {
                return Err(format!("O19: {key} is a claim without an end: {claim:?}"));
            }
        }
        Ok(())
    }

    /// Looks at the messages in the ledgers of all machines at the end.
    pub(super) fn at_end(&self, ledgers: &[Vec<MessageRow>], server: &JetStream) -> PromiseCheck {
        let rows = || ledgers.iter().flatten();
        for ((stream, id), places) in self.stored.iter().filter(|(message, _)| !self.gone.contains(message)) {
            let keys: BTreeSet<&String> = rows()
                .filter(|row| places.contains(&row.place))
                .map(|row| &row.key)
                .collect();
            let ends = rows().filter(|row| keys.contains(&row.key));
            // Of these the row stays, and fnd asks again for long. That the server has the acknowledgement, O19 says.
            let is_told = |row: &MessageRow| {
                row.step == LocalStep::Closed || (row.step == LocalStep::Ending && self.unanswered.contains(&row.place))
            };
            let ends = ends.filter(|row| row.is_ended_here && is_told(row)).count();
            if ends != 1 {
                return Err(format!(
                    "O18: message {id} of stream {stream} has {ends} final records that count"
                ));
            }
        }
        for (key, claim) in server.bucket.claims() {
            let Some(claim) = claim.filter(|claim| claim.is_final()) else {
                continue;
            };
            let is_its = |row: &&MessageRow| row.invocation == claim.invocation && row.is_ended_here;
            if rows().find(is_its).is_none() {
                return Err(format!("O18: {key} is of {}, which has no final record", claim.node));
            }
        }
        Ok(())
    }
}
