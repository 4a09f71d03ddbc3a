//! The end of a message: its final record is on the disk, then its claim says so, then the server forgets it. Each step is repeated
//! until it is answered, also by the next fnd.
//!
//! A stream that was made anew gives its numbers once more, and the server compares nothing else: an acknowledgement for a message of
//! the stream before it would end another message, which nobody has run. So an acknowledgement that comes late looks first.

use super::beats::ms;
use super::books::{ClaimPurpose, KnownClaim, MessageAttempt, MessageStage, OpenMessage, Question};
use super::fact::{FoundMessage, SettleFailed};
use super::outcome::EndOutcome;
use super::request::NatsRequest;
use super::view::MessageCounters;
use super::{MessageEffect, Messages};
use fnd_core::records::InvocationRecord;
use fnd_core::records::outcome::RunState;
use fnd_core::run::{Adopted, AdoptedMember, Now, RunRecord};
use fnd_core::triggers::nats::delivery::LocalStep;
use fnd_core::triggers::nats::memory::{FORGOTTEN_AT_ONCE, KnownMessage, MessageMemory};
use fnd_wire::ids::{Attempt, InvocationId, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// The pause before an end is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// The pause before an acknowledgement is repeated that nobody has answered twice. A new connection repeats it at once.
const LATER: Duration = Duration::from_mins(5);

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
                is_interrupted: message.is_interrupted,
                is_doubtful: true,
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
        }
    }

    /// Takes a record of an invocation that is not on the disk yet: a final one, or it waits for its next attempt.
    pub(crate) fn ends(&mut self, record: &InvocationRecord) {
        self.has_new_room = true;
        let Some(message) = self.open.get_mut(&record.id) else {
            return;
        };
        if record.state.is_final() {
            message.is_interrupted = record.state == RunState::Interrupted;
        } else {
            // Its claim may promise an end that comes before that attempt.
            message.signal_at = Duration::ZERO;
            self.schedule(record.id);
        }
    }

    /// Handles that the final record is on the disk.
    pub(crate) fn ended(&mut self, now: Now, id: InvocationId) {
        let Some(message) = self.open.get_mut(&id) else { return };
        let frees_place = message.mark.is_accepted && !message.is_ending();
        // The supervisor's claim that was on its way is answered when its own answer comes.
        message.stage = MessageStage::Ending;
        message.again_at = Some(now.mono);
        if frees_place {
            self.free_place(id);
        }
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

    /// Has the server forget a message whose claim says that it has ended.
    pub(super) fn settle_end(&mut self, id: InvocationId) {
        let Some(message) = self.open.get_mut(&id) else { return };
        message.is_asking = true;
        if !(message.is_doubtful || message.is_unanswered) {
            return self.acknowledge_end(id);
        }
        let (stream, sequence) = (Arc::clone(&message.mark.place.stream), message.mark.place.sequence);
        self.ask(Question::PlaceOfEnd(id), |number| NatsRequest::ReadMessage {
            number,
            stream,
            sequence,
        });
    }

    /// Takes what the stream of a message that has ended has in its place.
    pub(super) fn place_of_end(
        &mut self,
        now: Now,
        id: InvocationId,
        read: &Result<Option<Box<FoundMessage>>, String>,
    ) {
        let Some(message) = self.open.get_mut(&id) else { return };
        let is_it = |found: &FoundMessage| found.place == message.mark.place;
        match read {
            // Where the right to read it is missing, nobody knows better.
            Err(_) => self.acknowledge_end(id),
            Ok(found) if found.as_deref().is_some_and(is_it) => self.acknowledge_end(id),
            // The server has forgotten it already.
            Ok(_) => {
                message.is_asking = false;
                self.end_is_confirmed(now, id);
            }
        }
    }

    fn acknowledge_end(&mut self, id: InvocationId) {
        let Some(message) = self.open.get(&id) else { return };
        let (ack, term) = (Arc::clone(&message.mark.ack), message.term.clone());
        self.ask(Question::Settle(Some(id)), |number| NatsRequest::Settle {
            number,
            ack,
            term,
        });
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
    pub(super) fn settled(&mut self, now: Now, number: u64, result: &Result<(), SettleFailed>) {
        // A message without a row in the ledger needs no answer: the server delivers the message again.
        let Some(Question::Settle(Some(id))) = self.questions.remove(&number) else {
            return;
        };
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
                let frees_place = message.takes_place();
                let pause = if message.is_unanswered { LATER } else { AGAIN };
                if message.is_unanswered && matches!(message.outcome, EndOutcome::Later) {
                    // A result that is still to be published does not wait for the acknowledgement.
                    message.outcome = EndOutcome::Unread;
                }
                message.is_unanswered = true;
                message.again_at = Some(now.mono.saturating_add(pause));
                if frees_place && !message.takes_place() {
                    self.free_place(id);
                }
                self.schedule(id);
            }
            // The consumer is gone, and its deliveries with it. If it comes back, the message is known here.
            Ok(()) | Err(SettleFailed::NoResponders | SettleFailed::Timeout) => self.end_is_confirmed(now, id),
        }
    }

    /// The server has forgotten a message.
    fn end_is_confirmed(&mut self, now: Now, id: InvocationId) {
        if !self.publishes_later(now, id) {
            self.close(id);
        }
    }

    /// Removes a message from the books.
    pub(super) fn forget(&mut self, id: InvocationId) -> Option<OpenMessage> {
        self.unlease(id);
        if self.open.get(&id)?.takes_place() {
            self.free_place(id);
        }
        self.has_new_room = true;
        let message = self.open.remove(&id)?;
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
        let function = self.open.get(&id).map(|message| &message.function);
        if let Some(book) = function.and_then(|function| self.functions.get_mut(function)) {
            add(&mut book.counters);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{
        at, claim, delivered, function, mark, messages, open_message, sent, server, serving, up, wanted, wanted_accept,
        wanted_entry, wrote_claim,
    };
    use super::*;
    use fnd_core::records::{MessageMark, StreamPlace};
    use fnd_wire::ids::Version;

    const ID: InvocationId = InvocationId(1);

    /// Returns what a stream has in the place of message 7, which was stored at this time.
    fn stored(created_ns: u64) -> Box<FoundMessage> {
        let place = StreamPlace {
            created_ns,
            ..mark("ORDERS", 7).place
        };
        Box::new(FoundMessage {
            subject: "orders.new".to_owned(),
            place,
            headers: Vec::new(),
            payload: "{}".into(),
        })
    }

    /// Returns the number of the acknowledgement that is sent once more: the message is in its place.
    fn told_again(messages: &mut Messages, seconds: u64) -> u64 {
        let [NatsRequest::ReadMessage { number, .. }] = sent(messages)[..] else {
            panic!("its place is looked at first");
        };
        let found = stored(mark("ORDERS", 7).place.created_ns);
        messages.message_read(at(seconds), number, Ok(Some(found)));
        let [NatsRequest::Settle { number, .. }] = sent(messages)[..] else {
            panic!("it is told again");
        };
        number
    }

    /// The stream was deleted and made anew, or the server has had the acknowledgement.
    #[test]
    fn an_end_of_a_message_that_is_gone_ends_no_other_message() {
        for found in [None, Some(stored(2))] {
            let mut messages = open_message(ID);
            up(&mut messages);
            messages.disconnected(at(1), "away".to_owned());
            up(&mut messages);
            let message = messages.open.get_mut(&ID).unwrap();
            message.claim = KnownClaim::Written(claim("vm1", ID).ended(1, false), 4);
            messages.take_effects();
            messages.ended(at(2), ID);
            let [
                NatsRequest::ReadMessage {
                    number, sequence: 7, ..
                },
            ] = sent(&mut messages)[..]
            else {
                panic!("its place is looked at");
            };
            messages.message_read(at(2), number, Ok(found));
            assert!(sent(&mut messages).is_empty() && !messages.has(ID));
        }
    }

    #[test]
    fn an_end_writes_the_claim_then_acknowledges_then_is_forgotten() {
        let mut messages = open_message(ID);
        up(&mut messages);
        messages.open.get_mut(&ID).unwrap().claim = KnownClaim::Written(claim("vm1", ID), 3);
        messages.ended(at(1), ID);
        let (number, _) = wrote_claim(&mut messages, Some(3));
        messages.written(at(2), number, Ok(4));
        let requests = sent(&mut messages);
        let [NatsRequest::Settle { number, term: None, .. }] = requests[..] else {
            panic!("then the acknowledgement");
        };
        messages.settled(at(3), number, &Err(SettleFailed::Timeout));
        assert!(messages.has(ID));
        messages.go_on(at(8), ID);
        // The claim says it already.
        let number = told_again(&mut messages, 8);
        messages.settled(at(9), number, &Ok(()));
        assert!(!messages.has(ID) && messages.keys.is_empty() && messages.due.is_empty());
        let effects = messages.take_effects();
        assert!(matches!(
            effects[..],
            [MessageEffect::Store(MessageMemory::Step {
                id: ID,
                step: LocalStep::Closed
            })]
        ));
    }

    #[test]
    fn an_acknowledgement_that_nobody_answers_takes_no_place_and_is_repeated_as_long_as_claims_are_kept() {
        let mut messages = open_message(ID);
        up(&mut messages);
        messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "x")])));
        messages.take_effects();
        messages.open.get_mut(&ID).unwrap().claim = KnownClaim::Written(claim("vm1", ID), 3);
        messages.ended(at(1), ID);
        let [NatsRequest::Write { number, .. }] = sent(&mut messages)[..] else {
            panic!("the claim comes first");
        };
        messages.written(at(2), number, Ok(4));
        let [NatsRequest::Settle { number, .. }] = sent(&mut messages)[..] else {
            panic!("then the acknowledgement");
        };
        let here = |messages: &Messages| messages.entries.values().map(|entry| entry.here).collect::<Vec<_>>();
        assert_eq!(here(&messages), [1]);
        messages.settled(at(7), number, &Err(SettleFailed::Timeout));
        assert_eq!((here(&messages), messages.has(ID)), (vec![0], true));
        assert!(!messages.open[&ID].signals(), "another message may have its address");
        messages.go_on(at(12), ID);
        let number = told_again(&mut messages, 12);
        messages.settled(at(17), number, &Err(SettleFailed::Timeout));
        assert_eq!((here(&messages), messages.has(ID)), (vec![0], true));
        assert_eq!(messages.open[&ID].again_at, Some(at(317).mono));
        messages.go_on(at(90_000), ID);
        let number = told_again(&mut messages, 90_000);
        messages.settled(at(90_000), number, &Err(SettleFailed::Timeout));
        assert_eq!((here(&messages), messages.has(ID)), (vec![0], false));
    }

    #[test]
    fn other_settings_wait_for_no_acknowledgement_that_nobody_answers() {
        let mut messages = open_message(ID);
        up(&mut messages);
        let message = messages.open.get_mut(&ID).unwrap();
        message.claim = KnownClaim::Written(claim("vm1", ID).ended(1, false), 4);
        messages.is_closing = true;
        messages.ended(at(1), ID);
        let [NatsRequest::Settle { number, .. }] = sent(&mut messages)[..] else {
            panic!("it is told");
        };
        messages.settled(at(6), number, &Err(SettleFailed::Timeout));
        messages.go_on(at(11), ID);
        let number = told_again(&mut messages, 11);
        messages.settled(at(16), number, &Err(SettleFailed::Timeout));
        assert!(!messages.has(ID));
        let effects = messages.take_effects();
        assert!(matches!(
            effects[..],
            [MessageEffect::Warn(_), MessageEffect::Store(_), MessageEffect::Changed]
        ));
    }

    #[test]
    fn as_many_messages_are_forgotten_as_are_done() {
        let mut messages = open_message(ID);
        up(&mut messages);
        (messages.forget_at, messages.closed) = (at(600).mono, FORGOTTEN_AT_ONCE - 1);
        messages.close(ID);
        messages.take_effects();
        messages.beat(at(1));
        let forgets = |effect: &MessageEffect| matches!(effect, MessageEffect::Store(MessageMemory::Forget { .. }));
        assert!(messages.take_effects().iter().any(forgets));
        assert_eq!((messages.closed, messages.forget_at), (0, at(601).mono));
    }

    #[test]
    fn a_message_that_is_acknowledged_once_it_is_stored_ends_without_a_claim() {
        let mut messages = serving(wanted_accept("f", "x"));
        messages.delivered(at(1), delivered(1, 7, 1), ID);
        let effects = messages.take_effects();
        let [MessageEffect::LookUp(number, ..)] = effects[..] else {
            panic!("the ledger knows duplicates");
        };
        messages.known(at(1), number, Ok(None));
        let mut effects = messages.take_effects();
        let Some(MessageEffect::Submit(submit)) = effects.pop() else {
            panic!("it is submitted");
        };
        assert!(submit.message.is_some_and(|mark| mark.is_accepted));
        messages.stored(at(1), ID, true);
        assert!(matches!(
            sent(&mut messages)[..],
            [NatsRequest::Settle { term: None, .. }]
        ));
        assert!(messages.has(ID) && !messages.claims(ID), "its end may be published");
        assert_eq!(messages.claimed(at(2), vec![ID]), [ID]);
        // Its acknowledgement was lost, and a duplicate comes.
        messages.delivered(at(31), delivered(1, 7, 2), InvocationId(2));
        assert!(matches!(
            sent(&mut messages)[..],
            [NatsRequest::Settle { term: None, .. }]
        ));
        messages.disconnected(at(32), "away".to_owned());
        messages.take_effects();
        messages.ended(at(33), ID);
        let effects = messages.take_effects();
        assert!(matches!(
            effects[..],
            [MessageEffect::Store(MessageMemory::Step {
                id: ID,
                step: LocalStep::Closed
            })]
        ));
        assert!(!messages.has(ID) && messages.keys.is_empty());
    }

    /// Returns a script that an earlier fnd started ten seconds ago with a timeout of a minute.
    fn left(worker: u64, attempt: u32) -> Adopted {
        let (version, grace) = (Version([1; 32]).to_string(), Duration::from_secs(5));
        let backoff = serde_json::json!({
            "interval": Duration::ZERO, "factor": 2.0, "max_interval": Duration::ZERO, "jitter": "None",
        });
        let rules = serde_json::json!({
            "enabled": true, "run_on_load": false, "timeout": null, "grace": grace, "deadline": null, "memory": 1,
            "cpu_milli": null, "memory_text": "", "max_running": 1, "poll": null, "result_max": 1, "pids": 1,
            "retry": {"retries": 0, "on": [], "not_on_exit": [], "backoff": backoff},
            "queue": {"max": 1, "overlap": "Queue", "rate": null},
        });
        let record = serde_json::json!({
            "function": "f", "id": 1, "version": version, "load_key": version, "invocation": ID.to_string(),
            "attempt": attempt, "poll": 0, "trigger": "nats", "accepted_ms": 1, "first_ms": 1, "started_ms": 1,
            "timeout": Duration::from_secs(60), "deadline_ms": null, "rules": rules,
        });
        Adopted {
            worker: WorkerId(worker),
            record: serde_json::from_str(&record.to_string()).unwrap(),
            age: Duration::from_secs(10),
            termed: None,
            ended: false,
        }
    }

    #[test]
    fn the_last_attempt_that_an_earlier_fnd_has_left_goes_on_within_its_own_limits() {
        let mut messages = open_message(ID);
        messages.restore(at(100), Vec::new(), (&[left(8, 2), left(7, 1)], &[]));
        let expected = MessageAttempt {
            number: Attempt(2),
            worker: WorkerId(8),
            began_ms: 1,
            ends_at: Some(at(150).mono),
        };
        assert_eq!(messages.open[&ID].attempt, Some(expected));
        assert_eq!(messages.open[&ID].adopts, Some(Duration::from_secs(5)));
    }

    #[test]
    fn an_end_of_an_earlier_fnd_waits_for_the_connection_and_reads_the_claim_first() {
        let mut messages = messages();
        let known = KnownMessage {
            id: ID,
            function: function("f"),
            mark: mark("a", 7),
            step: LocalStep::Ending,
            is_interrupted: true,
        };
        messages.restore(at(0), vec![known], (&[], &[]));
        messages.go_on(at(1), ID);
        assert!(sent(&mut messages).is_empty());
        messages.connected(at(1), server());
        messages.beat(at(2));
        assert!(matches!(sent(&mut messages)[..], [.., NatsRequest::Read { .. }]));
    }

    #[test]
    fn an_end_of_an_earlier_fnd_with_an_acceptance_is_told_to_no_server() {
        let mut messages = messages();
        let accepted = MessageMark {
            is_accepted: true,
            ..mark("ORDERS", 7)
        };
        let known = KnownMessage {
            id: ID,
            function: function("f"),
            mark: accepted,
            step: LocalStep::Ending,
            is_interrupted: false,
        };
        messages.restore(at(0), vec![known], (&[], &[]));
        messages.wants(&function("f"), Some(wanted(vec![wanted_accept("f", "x")])));
        messages.connected(at(1), server());
        messages.take_effects();
        messages.beat(at(2));
        let effects = messages.take_effects();
        let asks = |effect: &MessageEffect| matches!(effect, MessageEffect::Send(_));
        assert!(!messages.has(ID) && !effects.iter().any(asks));
    }
}
