//! Requests of callers to the connection: to end a claim, and to publish a message. Each request is answered once, by a channel.

use super::Messages;
use super::books::{ClaimSearch, Question, ReleaseAnswer};
use super::fact::{PublishFailed, ReleaseFailed, WriteAnswer, WriteRefused};
use super::request::{NatsRequest, OutgoingMessage};
use fnd_core::api::ReleasedClaim;
use fnd_core::run::Now;
use fnd_core::triggers::nats::claim::{ClaimLimit, ClaimRecord, ClaimState};
use fnd_core::triggers::nats::delivery::GIVE_BACK_LEAST;
use fnd_core::triggers::nats::server::answers::PubAck;
use fnd_wire::ids::FunctionName;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Answers a caller, unless it has gone.
pub(super) fn tell<T>(answer: oneshot::Sender<T>, result: T) {
    let _ = answer.send(result);
}

/// Returns why a person cannot end a claim: only the silence of its node proves that its attempt has ended, which may begin again.
pub(super) fn ends_itself(claim: &ClaimRecord) -> Option<ReleaseFailed> {
    match claim.limit {
        ClaimLimit::Silence(ms) => {
            let silence = Duration::from_millis(ms);
            Some(ReleaseFailed::EndsItself(claim.node.clone(), silence))
        }
        ClaimLimit::Until(_) | ClaimLimit::Person => None,
    }
}

/// Returns the claim with which the next node that gets the message goes on at once.
fn released(claim: &ClaimRecord, now_ms: u64) -> ClaimRecord {
    ClaimRecord {
        // An attempt that had begun stays one whose end nobody knows.
        state: match claim.state {
            ClaimState::Begun => ClaimState::Begun,
            ClaimState::Held | ClaimState::Done | ClaimState::Interrupted => ClaimState::Held,
        },
        limit: ClaimLimit::Until(now_ms),
        ..claim.clone()
    }
}

impl Messages {
    /// Ends the claim of another node on a message of a function, as `fndctl nats release` asks: a node that does not come back has
    /// it, and nothing else ends it. The next node that gets the message goes on; the attempt counts as interrupted. A claim that
    /// this node has seen is ended as it was seen, any other one as the register has it.
    pub(crate) fn release(
        &mut self,
        now: Now,
        (function, sequence): (&FunctionName, u64),
    ) -> oneshot::Receiver<Result<ReleasedClaim, ReleaseFailed>> {
        let (answer, answered) = oneshot::channel();
        let seen = self.elsewhere.get(&(function.clone(), sequence)).cloned();
        let mut here = self.open.values().filter(|message| message.function == *function);
        let failed = match self.node {
            None => Some(ReleaseFailed::NotConfigured),
            Some(_) if here.any(|message| message.mark.place.sequence == sequence) => Some(ReleaseFailed::Here),
            Some(_) if !self.connection.is_ready() => Some(ReleaseFailed::Failed(self.connection.why_away())),
            Some(_) => seen.as_ref().and_then(|seen| ends_itself(&seen.record)),
        };
        if let Some(failed) = failed {
            tell(answer, Err(failed));
            return answered;
        }
        let Some(seen) = seen else {
            self.search(Box::new(ClaimSearch {
                streams: self.streams_of(function),
                function: function.clone(),
                sequence,
                answer,
            }));
            return answered;
        };
        let claim = (seen.key, &seen.record, seen.revision);
        self.end_claim(now, claim, (sequence, Some((function.clone(), seen.ack))), answer);
        answered
    }

    /// Ends a claim that has this revision. `seen` is its function, and the delivery of its message that this node has given back
    /// because of it.
    pub(super) fn end_claim(
        &mut self,
        now: Now,
        (key, claim, revision): (Arc<str>, &ClaimRecord, u64),
        (sequence, seen): (u64, Option<(FunctionName, Arc<str>)>),
        answer: ReleaseAnswer,
    ) {
        let released_claim = ReleasedClaim {
            stream: claim.stream.clone(),
            sequence,
            node: claim.node.clone(),
        };
        let value = released(claim, now.unix_ms).bytes();
        let question = Question::Release(released_claim, seen, answer);
        self.ask_to_write(question, key, value, Some(revision));
    }

    /// Publishes a message that a stream must confirm.
    pub(crate) fn publish(&mut self, message: OutgoingMessage) -> oneshot::Receiver<Result<PubAck, PublishFailed>> {
        let (answer, answered) = oneshot::channel();
        let size = message.size();
        let failed = match self.connection.max_payload() {
            _ if self.node.is_none() => Some(PublishFailed::NotConfigured),
            None => Some(PublishFailed::Failed(self.connection.why_away())),
            Some(most) if size > most => Some(PublishFailed::TooLarge(size, most)),
            Some(_) => None,
        };
        match failed {
            Some(failed) => tell(answer, Err(failed)),
            None => self.ask(Question::Publish(answer), |number| NatsRequest::Publish {
                number,
                message,
            }),
        }
        answered
    }

    /// Takes the answer to the end of a claim.
    pub(super) fn claim_is_ended(
        &mut self,
        released: ReleasedClaim,
        seen: Option<(FunctionName, Arc<str>)>,
        (answer, result): (ReleaseAnswer, WriteAnswer),
    ) {
        if let Some((function, ack)) = seen {
            // A claim that has changed is not the one that was seen. One that could not be written is.
            if matches!(result, Ok(_) | Err(WriteRefused::Conflict)) {
                self.not_elsewhere(&function, released.sequence);
            }
            // It was given back until the claim ends. Nobody has to wait for that any more.
            if result.is_ok() {
                self.give_back(ack, GIVE_BACK_LEAST);
            }
        }
        let result = match result {
            Ok(_) => Ok(released),
            Err(WriteRefused::Conflict) => Err(ReleaseFailed::Changed),
            Err(WriteRefused::Refused(why) | WriteRefused::Unknown(why)) => Err(ReleaseFailed::Failed(why)),
        };
        tell(answer, result);
    }
}

#[cfg(test)]
mod tests {
    use super::super::books::SeenClaim;
    use super::super::request::AckSignal;
    use super::super::tests::{at, claim, function, messages, sent, up, wrote_claim};
    use super::*;
    use fnd_wire::ids::InvocationId;

    fn answer<T>(mut answered: oneshot::Receiver<T>) -> T {
        answered.try_recv().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_claim_that_was_seen_is_released_and_its_message_comes_again_at_once() {
        let mut messages = messages();
        up(&mut messages);
        let key = (function("f"), 7);
        assert_eq!(
            answer(messages.release(at(1), (&key.0, 7))),
            Err(ReleaseFailed::Unknown),
            "no stream has messages for it"
        );
        let seen = |limit| SeenClaim {
            key: "claims.a".into(),
            ack: "$JS.ACK.ORDERS.fnd-f.2.7.1.1.0".into(),
            revision: 4,
            record: ClaimRecord {
                limit,
                ..claim("vm2", InvocationId(9))
            },
            seen_at: at(1).mono,
            count: 1,
        };
        messages
            .elsewhere
            .insert(key.clone(), seen(ClaimLimit::Silence(30_000)));
        assert_eq!(
            answer(messages.release(at(1), (&key.0, 7))),
            Err(ReleaseFailed::EndsItself("vm2".to_owned(), Duration::from_secs(30)))
        );
        messages.elsewhere.insert(key.clone(), seen(ClaimLimit::Person));
        let answered = messages.release(at(1), (&key.0, 7));
        let (number, _) = wrote_claim(&mut messages, Some(4));
        messages.written(at(1), number, Err(WriteRefused::Unknown("away".to_owned())));
        assert!(matches!(answer(answered), Err(ReleaseFailed::Failed(_))));
        // It is known until it has ended.
        let answered = messages.release(at(1), (&key.0, 7));
        let (number, _) = wrote_claim(&mut messages, Some(4));
        messages.written(at(2), number, Ok(5));
        assert!(matches!(
            sent(&mut messages)[..],
            [NatsRequest::Signal { signal: AckSignal::GiveBack(pause), .. }] if pause == GIVE_BACK_LEAST
        ));
        assert_eq!(answer(answered).map(|released| released.node), Ok("vm2".to_owned()));
        assert!(messages.elsewhere.is_empty());
        let released = released(&claim("vm2", InvocationId(9)), 5000);
        assert_eq!(
            (released.state, released.limit),
            (ClaimState::Begun, ClaimLimit::Until(5000))
        );
    }

    #[test]
    fn a_message_is_published_only_over_a_connection_that_takes_its_size() {
        let message = |size: usize| OutgoingMessage {
            subject: "a".into(),
            headers: Vec::new(),
            payload: vec![0; size].into(),
        };
        let mut none = Messages::default();
        assert_eq!(answer(none.publish(message(1))), Err(PublishFailed::NotConfigured));
        let mut messages = messages();
        assert!(matches!(
            answer(messages.publish(message(1))),
            Err(PublishFailed::Failed(_))
        ));
        up(&mut messages);
        assert_eq!(
            answer(messages.publish(message(2000))),
            Err(PublishFailed::TooLarge(2000, 1000))
        );
        let answered = messages.publish(message(10));
        let requests = sent(&mut messages);
        let [NatsRequest::Publish { number, .. }] = requests[..] else {
            panic!("it is sent");
        };
        let stored = PubAck {
            stream: "S".to_owned(),
            sequence: 3,
            duplicate: false,
        };
        messages.published(at(1), number, Ok(stored.clone()));
        assert_eq!(answer(answered), Ok(stored));
    }
}
