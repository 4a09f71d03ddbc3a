//! Claims of other nodes because of which this node has given messages back. A person may end one that nothing else ends.

use super::books::SeenClaim;
use super::{MessageEffect, Messages};
use fnd_core::instant;
use fnd_core::triggers::nats::claim::ClaimLimit;
use fnd_wire::ids::FunctionName;
use std::time::Duration;

/// A claim without a limit of time is a problem when its message was given back so often: its node sends no signs of life.
const PERSON_NEEDED: u32 = 2;
/// Most claims that are remembered.
const SEEN_MAX: usize = 1000;
/// A claim is forgotten after so long: its message is offered every minute, to any node.
const SEEN_FOR: Duration = Duration::from_mins(20);

impl Messages {
    /// Remembers the claim of another node on a message that is given back.
    pub(super) fn remember_elsewhere(&mut self, seen: SeenClaim) {
        let key = (seen.record.function.clone(), seen.record.sequence);
        let before = self.elsewhere.get(&key).filter(|before| before.key == seen.key);
        let count = before.map_or(1, |before| before.count.saturating_add(1));
        self.elsewhere.insert(key, SeenClaim { count, ..seen });
        if self.elsewhere.len() > SEEN_MAX {
            let oldest = self.elsewhere.iter().min_by_key(|(_, seen)| seen.seen_at);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                self.elsewhere.remove(&key);
            }
        }
        if count == PERSON_NEEDED {
            self.out.push(MessageEffect::Changed);
        }
    }

    /// No other node holds the claim on a message any more.
    pub(super) fn not_elsewhere(&mut self, function: &FunctionName, sequence: u64) {
        let seen = self.elsewhere.remove(&(function.clone(), sequence));
        if seen.is_some_and(|seen| seen.count >= PERSON_NEEDED) {
            self.out.push(MessageEffect::Changed);
        }
    }

    /// Forgets the claims that were not seen for long.
    pub(super) fn forget_elsewhere(&mut self, now: Duration) {
        let before = self.elsewhere.len();
        self.elsewhere
            .retain(|_, seen| seen.seen_at.saturating_add(SEEN_FOR) > now);
        if before != self.elsewhere.len() {
            self.out.push(MessageEffect::Changed);
        }
    }

    /// Returns which message of a function waits for a person: its node sends no signs of life, and nothing else ends its claim.
    pub(super) fn waits_for_person(&self, function: &FunctionName) -> Option<String> {
        let mut waiting = self.elsewhere.iter().filter(|((known, _), seen)| {
            known == function && seen.record.limit == ClaimLimit::Person && seen.count >= PERSON_NEEDED
        });
        let ((_, sequence), SeenClaim { record, .. }) = waiting.next()?;
        let more = match waiting.count() {
            0 => String::new(),
            count => format!("; and {count} more"),
        };
        Some(format!(
            "{} has had message {sequence} of {} since {} and sends no signs of life. The function has no timeout, so nothing else \
             ends its claim: if that node does not come back, `fndctl nats release {function} {sequence}`{more}",
            record.node,
            record.stream,
            instant::text(record.at_ms),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, claim, function, messages};
    use super::*;
    use fnd_core::triggers::nats::claim::ClaimRecord;
    use fnd_wire::ids::InvocationId;

    fn seen(sequence: u64, seconds: u64) -> SeenClaim {
        SeenClaim {
            key: format!("claims.{sequence}").into(),
            ack: "a".into(),
            revision: 1,
            record: ClaimRecord {
                sequence,
                limit: ClaimLimit::Person,
                ..claim("vm2", InvocationId(9))
            },
            seen_at: at(seconds).mono,
            count: 1,
        }
    }

    #[test]
    fn the_oldest_claim_makes_room_and_each_is_forgotten_when_it_was_not_seen_for_long() {
        let mut messages = messages();
        for sequence in 1..=1001 {
            messages.remember_elsewhere(seen(sequence, sequence));
        }
        let has = |messages: &Messages, sequence| messages.elsewhere.contains_key(&(function("f"), sequence));
        assert!(!has(&messages, 1) && has(&messages, 2) && has(&messages, 1001));
        messages.forget_elsewhere(at(2200).mono);
        assert!(!has(&messages, 1000) && has(&messages, 1001));
    }

    #[test]
    fn a_claim_that_was_seen_twice_waits_for_a_person_until_it_has_ended() {
        let mut messages = messages();
        messages.remember_elsewhere(seen(7, 1));
        assert_eq!(messages.waits_for_person(&function("f")), None);
        messages.remember_elsewhere(seen(7, 2));
        messages.remember_elsewhere(seen(8, 2));
        messages.remember_elsewhere(seen(8, 3));
        let why = messages.waits_for_person(&function("f")).unwrap();
        assert!(why.contains("`fndctl nats release f 7`; and 1 more"), "{why}");
        assert_eq!(messages.waits_for_person(&function("g")), None);
        messages.take_effects();
        messages.not_elsewhere(&function("f"), 7);
        messages.not_elsewhere(&function("f"), 8);
        assert_eq!(messages.waits_for_person(&function("f")), None);
        assert_eq!(messages.take_effects().len(), 2, "the problem is over");
    }
}
