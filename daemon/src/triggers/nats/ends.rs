//! The end of a message: its final record is on the disk, then its claim says so, then the server forgets it. Each step is repeated
//! until it is answered, also by the next fnd.

use super::beats::ms;
use super::books::{
    ClaimPurpose, KnownAddress, KnownClaim, MessageAttempt, MessageCounters, MessageStage, OpenMessage, Question,
    TakenPlace,
};
use super::fact::SettleFailed;
use super::outgoing::EndOutcome;
use super::request::NatsRequest;
use super::{MessageEffect, Messages};
use fnd_core::records::InvocationRecord;
use fnd_core::records::outcome::RunState;
use fnd_core::run::{Adopted, AdoptedMember, Now, RunRecord};
use fnd_core::triggers::nats::delivery::LocalStep;
use fnd_core::triggers::nats::memory::{FORGOTTEN_AT_ONCE, KnownMessage, MessageMemory};
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// The pause before an end is tried again, or what is published of it.
pub(super) const AGAIN: Duration = Duration::from_secs(5);
/// The pause before an acknowledgement is repeated that nobody has answered twice, or before a message is published that was tried
/// in vain. A new connection repeats an acknowledgement at once.
pub(super) const LATER: Duration = Duration::from_mins(5);

impl Messages {
    /// Takes the messages of an fnd before this one, and the workers in which it has left attempts.
    pub(crate) fn restore(
        &mut self,
        now: Now,
        known: Vec<KnownMessage>,
        (scripts, members): (&[Adopted], &[AdoptedMember]),
    ) {
        for message in known {
            let (id, key) = (message.id, Arc::clone(&message.mark.key));
            self.keys.insert((message.function.clone(), key), id);
            let stage = match message.step {
                LocalStep::Open | LocalStep::Accepted => MessageStage::Open,
                LocalStep::Ending | LocalStep::Closed | LocalStep::Superseded => MessageStage::Ending,
            };
            let restored = OpenMessage {
                stage,
                claim: KnownClaim::Unknown,
                has_begun: message.has_begun,
                is_interrupted: message.is_interrupted,
                address: KnownAddress::Doubtful,
                ..OpenMessage::new(message.function, message.mark)
            };
            self.open.insert(id, restored);
        }
        for script in scripts {
            let began = now.mono.saturating_sub(script.age);
            let ends_at = script.record.run.lasts().map(|lasts| began.saturating_add(lasts));
            let (run, grace) = (&script.record.run, script.record.rules.grace);
            self.restore_attempt(run, (script.worker, ends_at), grace);
        }
        for member in members {
            for call in &member.record.calls {
                // Its worker goes on when the call has reached its limits.
                self.restore_attempt(&call.run, (member.worker, None), member.record.rules.grace);
            }
        }
    }

    /// Takes an attempt that an fnd before this one has left. Of the attempts of a message, the last one goes on: the spawner keeps
    /// the worker of an ended attempt until its end is stored.
    fn restore_attempt(&mut self, run: &RunRecord, (worker, ends_at): (WorkerId, Option<Duration>), grace: Duration) {
        let attempt = MessageAttempt {
            number: Attempt(run.attempt),
            worker,
            began_ms: run.started_ms,
            ends_at,
        };
        if let Some(message) = self.open.get_mut(&run.invocation)
            && message.attempt.is_none_or(|known| known.number < attempt.number)
        {
            (message.attempt, message.adopts) = (Some(attempt), Some(grace));
            self.left.insert(run.invocation);
        }
    }

    /// Takes a record of an invocation that is not on the disk yet: a final one, or it waits for its next attempt.
    pub(crate) fn ends(&mut self, record: &InvocationRecord) {
        self.has_new_room = true;
        let Some(message) = self.open.get_mut(&record.id) else {
            return;
        };
        if record.state.is_final() {
            let before = message.place();
            (message.is_interrupted, message.has_ended) = (record.state == RunState::Interrupted, true);
            self.count_place(record.id, before);
        } else {
            // Its claim may promise an end that comes before that attempt.
            message.signal_at = Duration::ZERO;
            self.schedule(record.id);
        }
    }

    /// Handles that the final record is on the disk.
    pub(crate) fn ended(&mut self, now: Now, id: InvocationId) {
        let Some(message) = self.open.get_mut(&id) else { return };
        let before = message.place();
        // The supervisor's claim that was on its way is answered when its own answer comes.
        message.stage = MessageStage::Ending;
        message.again_at = Some(now.mono);
        self.count_place(id, before);
        self.go_on(now, id);
    }

    /// Goes on with the end of a message, unless an answer is waited for.
    pub(super) fn go_on(&mut self, now: Now, id: InvocationId) {
        let is_alone = self.has_no_servers();
        let Some(message) = self.open.get_mut(&id) else { return };
        // A message that was acknowledged at its beginning, and publishes nothing at its end, needs no server.
        let is_accepted = message.mark.is_accepted;
        let is_ready = self.connection.is_ready() || is_accepted;
        if message.is_ending() && !message.is_asking {
            if is_ready {
                message.again_at = None;
                if self.tells_end(now, id) {
                    self.end_is_told(now, id, is_accepted);
                }
            }
            if is_alone {
                self.end_alone(id);
            }
        }
        self.schedule(id);
    }

    /// Nobody will be told the end of a message: `[events.nats]` is gone.
    fn end_alone(&mut self, id: InvocationId) {
        let Some(message) = self.open.get(&id) else { return };
        let place = &message.mark.place;
        let why = format!(
            "nobody is told the end of message {} of {} (`{}`): fnd.toml has no `[events.nats]` any more",
            place.sequence, place.stream, message.function
        );
        self.out.push(MessageEffect::Warn(why));
        self.close(id);
    }

    /// Everything that is published of the end of a message is published.
    fn end_is_told(&mut self, now: Now, id: InvocationId, is_accepted: bool) {
        if is_accepted {
            return self.close(id);
        }
        #[cfg(feature = "simulate")]
        if fnd_core::mutants::Mutant::AcknowledgedBeforeDone.is_on() {
            return self.settle_end(id);
        }
        self.write_claim(now, id, ClaimPurpose::End);
    }

    /// Nothing is left to do for a message.
    fn close(&mut self, id: InvocationId) {
        let step = LocalStep::Closed;
        self.out.push(MessageEffect::Store(MessageMemory::Step { id, step }));
        self.forget(id);
        // As many are forgotten as are done: the ledger would grow for ever.
        self.closed += 1;
        if self.closed >= FORGOTTEN_AT_ONCE {
            self.forget_at = Duration::ZERO;
        }
    }

    /// Has the server forget a delivery that has no row in the ledger.
    pub(super) fn settle_delivery(&mut self, ack: Arc<str>) {
        self.ask(Question::Settle(None), |number| NatsRequest::Settle {
            number,
            ack,
            term: None,
        });
    }

    /// Takes the answer to the end of a delivery.
    pub(super) fn end_is_settled(&mut self, now: Now, id: InvocationId, result: &Result<(), SettleFailed>) {
        let keeps = self.node.as_ref().map_or(Duration::ZERO, |node| node.keeps);
        let gives_up = self.is_closing;
        let Some(message) = self.open.get_mut(&id) else { return };
        message.is_asking = false;
        // If the message comes after that, nobody knows it any more.
        let is_forgotten = message.mark.received_ms.saturating_add(ms(keeps)) <= now.unix_ms;
        match result {
            Err(SettleFailed::Timeout) if gives_up && message.is_unanswered => {
                // Other settings wait for the end of all messages.
                let place = &message.mark.place;
                let why = format!(
                    "the server has not confirmed the acknowledgement of message {} of {} (`{}`)",
                    place.sequence, place.stream, message.function
                );
                self.out.push(MessageEffect::Warn(why));
                self.close(id);
            }
            // A consumer that was made again answers nothing about a message that it has not delivered. When it does, the message is
            // known here, and its new address is answered. Until then the row stays, and takes no place.
            Err(SettleFailed::Timeout) if !is_forgotten => {
                let before = message.place();
                let pause = if message.is_unanswered { LATER } else { AGAIN };
                if message.is_unanswered && matches!(message.outcome, EndOutcome::Later) {
                    // A result that is still to be published does not wait for the acknowledgement.
                    message.outcome = EndOutcome::Unread;
                }
                message.is_unanswered = true;
                message.again_at = Some(now.mono.saturating_add(pause));
                self.count_place(id, before);
                self.schedule(id);
            }
            // The consumer is gone, and its deliveries with it. If it comes back, the message is known here.
            Ok(()) | Err(SettleFailed::NoResponders | SettleFailed::Timeout) => self.end_is_confirmed(now, id),
        }
    }

    /// The server has forgotten a message.
    pub(super) fn end_is_confirmed(&mut self, now: Now, id: InvocationId) {
        if !self.publishes_later(now, id) {
            self.close(id);
        }
    }

    /// Removes a message from the books.
    pub(super) fn forget(&mut self, id: InvocationId) -> Option<OpenMessage> {
        self.lease.ended(id);
        let message = self.open.remove(&id)?;
        self.has_new_room = true;
        if let Some(entry) = message.entry.and_then(|number| self.entries.get_mut(&number)) {
            entry.moves(message.place(), TakenPlace::Nothing);
        }
        let key = (message.function.clone(), Arc::clone(&message.mark.key));
        // A later message may have the key by now.
        if self.keys.get(&key) == Some(&id) {
            self.keys.remove(&key);
        }
        if let Some(due) = message.due_at {
            self.due.remove(&(due, id));
        }
        if (self.is_closing || self.node.is_none()) && self.open.is_empty() {
            self.out.push(MessageEffect::Changed);
        }
        Some(message)
    }

    /// Counts something for the function of a message.
    pub(super) fn count(&mut self, id: InvocationId, add: impl FnOnce(&mut MessageCounters)) {
        if let Some(function) = self.open.get(&id).map(|message| message.function.clone()) {
            self.count_for(&function, add);
        }
    }

    /// Counts something for a function with entries.
    pub(super) fn count_for(&mut self, function: &FunctionName, add: impl FnOnce(&mut MessageCounters)) {
        if self.functions.contains_key(function) {
            add(self.counters.entry(function.clone()).or_default());
        }
    }

    pub(super) fn counters_of(&self, function: &FunctionName) -> MessageCounters {
        self.counters.get(function).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
