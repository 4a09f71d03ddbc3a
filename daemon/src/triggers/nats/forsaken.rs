//! Messages that were given back before anything of them has begun, and whose claims may say that this node has them. As long as this
//! node lives, no other one would begin them. So each claim is ended, which is tried again until the register says so.

use super::Messages;
use super::books::{KnownClaim, OpenMessage, Question};
use super::fact::{KeyAnswer, WriteAnswer, WriteRefused};
use super::register::{FoundClaim, found_claim};
use fnd_core::run::Now;
use fnd_core::triggers::nats::claim::{ClaimLimit, ClaimRecord, ClaimState};
use fnd_wire::ids::InvocationId;
use std::sync::Arc;
use std::time::Duration;

/// How soon a claim is looked for again that could not be read or ended, or that a request may still write whose answer is lost.
/// Without a connection, the next one looks.
const AGAIN: Duration = Duration::from_mins(1);

/// Returns the claim that another node takes over at once, without an attempt that counts as interrupted: nothing of the last one
/// has begun. A claim that was only taken over counts none of this node.
fn given_back(claim: &ClaimRecord, now_ms: u64) -> ClaimRecord {
    let begun = u32::from(claim.state == ClaimState::Begun);
    ClaimRecord {
        state: ClaimState::Held,
        attempts: claim.attempts.saturating_sub(begun),
        at_ms: now_ms,
        limit: ClaimLimit::Until(now_ms),
        ..claim.clone()
    }
}

impl Messages {
    /// Lets the next node that gets a message begin it, if its claim says, or may say, that this node has it.
    pub(super) fn let_go_of(&mut self, now: Now, id: InvocationId, message: &OpenMessage) {
        let key = Arc::clone(&message.mark.key);
        match &message.claim {
            KnownClaim::Written(claim, revision) => self.let_go(now, (key, id), (claim, *revision)),
            // A message that is acknowledged at its beginning has no claim.
            KnownClaim::Unknown if !message.mark.is_accepted => self.look_for(key, id),
            KnownClaim::Unknown | KnownClaim::None => {}
        }
    }

    /// Ends the claim of this node that has this revision.
    pub(super) fn let_go(
        &mut self,
        now: Now,
        (key, id): (Arc<str>, InvocationId),
        (claim, revision): (&ClaimRecord, u64),
    ) {
        self.forsaken.entry((Arc::clone(&key), id)).or_default();
        let value = given_back(claim, now.unix_ms).bytes();
        let question = Question::EndForsaken(Arc::clone(&key), id);
        self.ask_to_write(question, key, value, Some(revision));
    }

    /// Ends the claim that a request may have written whose answer is lost.
    pub(super) fn forsake(&mut self, now: Now, key: Arc<str>, id: InvocationId) {
        let settled_at = now.mono.saturating_add(AGAIN);
        self.forsaken.insert((Arc::clone(&key), id), settled_at);
        self.look_for(key, id);
    }

    /// Reads the claim on a message that was given back. Without a connection, the next one asks.
    fn look_for(&mut self, key: Arc<str>, id: InvocationId) {
        self.forsaken.entry((Arc::clone(&key), id)).or_default();
        if self.connection.is_ready() {
            self.ask_for_key(Question::ReadForsaken(Arc::clone(&key), id), key);
        }
    }

    /// Reads the claims that were to be ended, and of which the register has not said that they are.
    pub(super) fn ask_for_forsaken(&mut self) {
        for (key, id) in self.forsaken.clone().into_keys() {
            self.look_for(key, id);
        }
    }

    /// Takes the answer to the question for the claim on a message that was given back.
    pub(super) fn forsaken_is_read(&mut self, now: Now, forsaken: (Arc<str>, InvocationId), result: KeyAnswer) {
        let (Ok(found), Some(node)) = (result, &self.node) else {
            return self.look_again(now);
        };
        let Some(settled_at) = self.forsaken.get(&forsaken).copied() else {
            return;
        };
        if self.name.is_taken {
            return; // a copy of this machine has the name, and may run it
        }
        match found_claim(found.as_ref(), (&node.name, forsaken.1)) {
            FoundClaim::Own(claim, revision) if !claim.is_final() => self.let_go(now, forsaken, (&claim, revision)),
            _ if now.mono < settled_at => self.look_again(now),
            FoundClaim::Own(..) | FoundClaim::Absent | FoundClaim::Other(_) | FoundClaim::Unreadable(_) => {
                self.forsaken.remove(&forsaken);
            }
        }
    }

    /// Takes the answer to the end of such a claim.
    pub(super) fn forsaken_is_ended(&mut self, now: Now, (key, id): (Arc<str>, InvocationId), result: &WriteAnswer) {
        match result {
            Ok(_) => {
                self.forsaken.remove(&(key, id));
            }
            // A write of this node came between, or another node has taken the message over. A request that was sent twice has
            // ended the claim already.
            Err(WriteRefused::Conflict) => {
                if self.forsaken.contains_key(&(Arc::clone(&key), id)) {
                    self.look_for(key, id);
                }
            }
            Err(WriteRefused::Refused(_) | WriteRefused::Unknown(_)) => self.look_again(now),
        }
    }

    /// Has the claims looked for soon, with all that is looked at when messages are forgotten.
    fn look_again(&mut self, now: Now) {
        self.forget_at = self.forget_at.min(now.mono.saturating_add(AGAIN));
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::{KeyWrite, NatsRequest};
    use super::super::tests::{at, claim, found, messages, open_message, sent, server, up, wrote_claim};
    use super::*;

    const ID: InvocationId = InvocationId(1);

    #[test]
    fn what_is_given_back_counts_no_attempt_and_is_free_at_once() {
        let begun = claim("vm1", ID);
        let free = given_back(&begun, 9000);
        assert_eq!(
            (free.state, free.attempts, free.limit),
            (ClaimState::Held, 0, ClaimLimit::Until(9000))
        );
    }

    /// Returns the numbers of the requests that read the claim.
    fn reads(messages: &mut Messages) -> Vec<u64> {
        let requests = sent(messages).into_iter();
        let reads = requests.filter_map(|request| match request {
            NatsRequest::Read { number, key } if &*key == "claims.7" => Some(number),
            _ => None,
        });
        reads.collect()
    }

    fn read(messages: &mut Messages) -> u64 {
        reads(messages).first().copied().expect("the claim is read")
    }

    /// The message came twice, each time this node took it over and lost the answer, and only the first of these writes was done.
    #[test]
    fn a_later_delivery_does_not_hide_the_claim_of_an_earlier_one() {
        let mut messages = messages();
        for id in [ID, InvocationId(2)] {
            messages.look_for("claims.7".into(), id);
        }
        messages.connected(at(3), server());
        let numbers = reads(&mut messages);
        assert_eq!(numbers.len(), 2);
        for number in numbers {
            messages.read(at(3), number, Ok(Some(found(&claim("vm1", ID), 4))));
        }
        let (number, _) = wrote_claim(&mut messages, Some(4));
        messages.written(at(3), number, Ok(5));
        assert!(messages.forsaken.is_empty());
    }

    #[test]
    fn a_claim_of_which_nothing_is_known_is_ended_when_its_message_was_given_back() {
        let mut messages = open_message(ID);
        up(&mut messages);
        messages.open.get_mut(&ID).unwrap().claim = KnownClaim::Unknown;
        messages.withdrawn(at(1), ID);
        let number = read(&mut messages);
        messages.read(at(2), number, Err("away".to_owned()));
        messages.connected(at(3), server());
        let number = read(&mut messages);
        messages.read(at(3), number, Ok(Some(found(&claim("vm1", ID), 4))));
        let (number, free) = wrote_claim(&mut messages, Some(4));
        assert_eq!((free.state, free.limit), (ClaimState::Held, ClaimLimit::Until(3000)));
        messages.written(at(3), number, Ok(5));
        assert!(messages.forsaken.is_empty());
    }

    #[test]
    fn a_claim_that_was_written_meanwhile_is_read_and_ended() {
        let mut messages = open_message(ID);
        up(&mut messages);
        messages.open.get_mut(&ID).unwrap().claim = KnownClaim::Written(claim("vm1", ID), 3);
        messages.withdrawn(at(1), ID);
        let requests = sent(&mut messages);
        let [NatsRequest::Write(KeyWrite { number, .. }), NatsRequest::Signal { .. }] = requests[..] else {
            panic!("its claim is ended");
        };
        messages.written(at(1), number, Err(WriteRefused::Conflict));
        let number = read(&mut messages);
        messages.read(at(1), number, Ok(Some(found(&claim("vm1", ID), 4))));
        let (number, _) = wrote_claim(&mut messages, Some(4));
        // Another node has it before that.
        messages.written(at(1), number, Err(WriteRefused::Conflict));
        let number = read(&mut messages);
        messages.read(at(1), number, Ok(Some(found(&claim("vm2", InvocationId(2)), 5))));
        assert!(sent(&mut messages).is_empty() && messages.forsaken.is_empty());
    }

    #[test]
    fn a_claim_stays_while_a_copy_of_this_machine_has_the_name() {
        let mut messages = messages();
        up(&mut messages);
        messages.look_for("claims.7".into(), ID);
        let number = read(&mut messages);
        // The key of the node is asked for anew, and until the answer is there the one before holds.
        messages.name.is_taken = true;
        messages.read(at(2), number, Ok(Some(found(&claim("vm1", ID), 4))));
        assert!(sent(&mut messages).is_empty());
        assert_eq!(messages.forsaken.len(), 1);
    }

    #[test]
    fn a_claim_that_is_written_after_it_was_looked_for_is_ended() {
        let mut messages = messages();
        up(&mut messages);
        messages.forget_at = at(600).mono;
        messages.forsake(at(1), "claims.7".into(), ID);
        let number = read(&mut messages);
        messages.read(at(2), number, Ok(None));
        messages.beat(at(61));
        assert!(reads(&mut messages).is_empty());
        messages.beat(at(62));
        let number = read(&mut messages);
        messages.read(at(62), number, Ok(Some(found(&claim("vm1", ID), 4))));
        let (number, _) = wrote_claim(&mut messages, Some(4));
        messages.written(at(62), number, Ok(5));
        // If none comes, that is all.
        messages.forsake(at(70), "claims.7".into(), ID);
        let number = read(&mut messages);
        messages.read(at(130), number, Ok(None));
        assert!(messages.forsaken.is_empty());
    }

    #[test]
    fn a_claim_that_cannot_be_ended_is_looked_for_again_soon() {
        for refused in [
            WriteRefused::Refused("full".to_owned()),
            WriteRefused::Unknown("away".to_owned()),
        ] {
            let mut messages = open_message(ID);
            up(&mut messages);
            messages.forget_at = at(600).mono;
            messages.open.get_mut(&ID).unwrap().claim = KnownClaim::Written(claim("vm1", ID), 3);
            messages.withdrawn(at(1), ID);
            let requests = sent(&mut messages);
            let [NatsRequest::Write(KeyWrite { number, .. }), NatsRequest::Signal { .. }] = requests[..] else {
                panic!("its claim is ended");
            };
            messages.written(at(1), number, Err(refused));
            messages.beat(at(60));
            assert!(reads(&mut messages).is_empty());
            messages.beat(at(61));
            let number = read(&mut messages);
            // The first request was done: it is done once more.
            let free = given_back(&claim("vm1", ID), 1000);
            messages.read(at(61), number, Ok(Some(found(&free, 4))));
            let (number, _) = wrote_claim(&mut messages, Some(4));
            messages.written(at(61), number, Ok(5));
            assert!(messages.forsaken.is_empty());
        }
    }
}
