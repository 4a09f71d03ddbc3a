//! How far the end of a message is published. It is published before the claim says `done`: if this node goes down between the two,
//! the next fnd publishes it once more, with the same `Nats-Msg-Id`. Where nobody takes it, the message ends all the same, and its row
//! in the ledger remembers that something is to be published.

use super::books::{ClaimPurpose, KnownClaim, Question, TakenPlace};
use super::ends::{AGAIN, LATER};
use super::outgoing::{EndOutcome, EndTargets, outgoing};
use super::request::NatsRequest;
use super::{MessageEffect, Messages};
use crate::ledger::StoredInvocation;
use fnd_core::records::StreamPlace;
use fnd_core::run::Now;
use fnd_wire::ids::InvocationId;
use std::sync::Arc;

/// How often something is published before the message ends without it.
const TRIES: u32 = 3;

impl Messages {
    /// Publishes the messages that belong to the end of a message. Returns whether the end can go on at once.
    pub(super) fn tells_end(&mut self, now: Now, id: InvocationId) -> bool {
        let is_ready = self.connection.is_ready();
        let most = self.connection.max_payload().unwrap_or(usize::MAX);
        let Some(message) = self.open.get_mut(&id) else {
            return false;
        };
        let has_targets = message.targets != EndTargets::default();
        let is_known = message.entry.is_some() || has_targets || self.knows_functions;
        match &mut message.outcome {
            EndOutcome::Later | EndOutcome::Told => return true,
            EndOutcome::Unread if !is_known => {
                message.again_at = Some(now.mono.saturating_add(AGAIN));
                return false;
            }
            // The next connection goes on.
            EndOutcome::Unread if has_targets && !is_ready => return false,
            EndOutcome::Found(_) | EndOutcome::Publishing(..) if !is_ready => return false,
            EndOutcome::Unread if has_targets => {
                message.is_asking = true;
                self.out.push(MessageEffect::ReadEnd(id));
                return false;
            }
            EndOutcome::Unread => {
                // A message of an fnd before this one. Its targets were those of its entry.
                if message.entry.is_none() && message.claim == KnownClaim::Unknown {
                    let StreamPlace { stream, sequence, .. } = &message.mark.place;
                    let why = format!(
                        "message {sequence} of {stream} has ended, and `{}` has no entry of `[[nats]]` for it any more: nothing is \
                         published of its end",
                        message.function
                    );
                    self.out.push(MessageEffect::Warn(why));
                }
                message.outcome = EndOutcome::Told;
            }
            EndOutcome::Found(_) => {
                self.write_claim(now, id, ClaimPurpose::Keep);
                return false;
            }
            EndOutcome::Publishing(rest, _) => {
                let too_large = rest.iter().filter(|outgoing| outgoing.size() > most);
                for outgoing in too_large {
                    let (subject, size) = (&outgoing.subject, outgoing.size());
                    let why = format!(
                        "what `{}` is to publish to `{subject}` has {size} bytes, and the server of NATS takes {most}",
                        message.function
                    );
                    self.out.push(MessageEffect::Warn(why));
                }
                rest.retain(|outgoing| outgoing.size() <= most);
                if let Some(next) = rest.first().cloned() {
                    message.is_asking = true;
                    self.ask(Question::PublishEnd(id), |number| NatsRequest::Publish {
                        number,
                        message: next,
                    });
                    return false;
                }
                message.outcome = EndOutcome::Told;
            }
        }
        true
    }

    /// Takes an ended invocation from the ledger; nothing if it has forgotten it.
    pub(crate) fn end_is_read(
        &mut self,
        now: Now,
        id: InvocationId,
        ended: Result<Option<Box<StoredInvocation>>, String>,
    ) {
        let Some(message) = self.open.get_mut(&id) else { return };
        message.is_asking = false;
        match ended {
            Ok(Some(ended)) => {
                let all = outgoing(&message.targets, &ended);
                // There is no claim, or it says the end already; or nothing is published.
                message.outcome = match message.mark.is_accepted || all.is_empty() {
                    true => EndOutcome::Publishing(all, 0),
                    false => EndOutcome::Found(all),
                };
                self.go_on(now, id);
            }
            Ok(None) => {
                message.outcome = EndOutcome::Told;
                let function = message.function.clone();
                self.unpublished.remove(&function);
                self.go_on(now, id);
            }
            Err(_) => {
                message.again_at = Some(now.mono.saturating_add(AGAIN));
                self.schedule(id);
            }
        }
    }

    /// Takes the answer to a publication of the end of a message.
    pub(super) fn end_is_published(&mut self, now: Now, id: InvocationId, result: &Result<(), String>) {
        let gives_up = self.is_closing;
        let Some(message) = self.open.get_mut(&id) else { return };
        message.is_asking = false;
        let EndOutcome::Publishing(rest, tries) = &mut message.outcome else {
            return;
        };
        let function = message.function.clone();
        let Err(why) = result else {
            *tries = 0;
            if !rest.is_empty() {
                rest.remove(0);
            }
            if self.unpublished.remove(&function).is_some() {
                self.out.push(MessageEffect::Changed);
            }
            return self.go_on(now, id);
        };
        *tries = tries.saturating_add(1);
        let is_over = *tries >= TRIES;
        let subject = rest.first().map(|outgoing| Arc::clone(&outgoing.subject));
        let why = format!(
            "nothing is published to `{}` for `{function}`: {why}",
            subject.unwrap_or_default()
        );
        if gives_up {
            // Other settings wait for the end of all messages.
            message.outcome = EndOutcome::Told;
            self.out.push(MessageEffect::Warn(why));
            return self.go_on(now, id);
        }
        let ends_first = is_over && !message.mark.is_accepted;
        if ends_first {
            message.outcome = EndOutcome::Later;
        } else if message.mark.is_accepted {
            (message.outcome, message.again_at) = (EndOutcome::Unread, Some(now.mono.saturating_add(LATER)));
        } else {
            message.again_at = Some(now.mono.saturating_add(AGAIN));
        }
        if self.unpublished.insert(function, why.clone()).as_ref() != Some(&why) {
            self.out.push(MessageEffect::Changed);
        }
        if ends_first {
            return self.go_on(now, id);
        }
        self.schedule(id);
    }

    /// Takes that the server has forgotten a message. Returns whether its end is still to be published: the row in the ledger stays
    /// until then.
    pub(super) fn publishes_later(&mut self, now: Now, id: InvocationId) -> bool {
        let message = self.open.get_mut(&id);
        let Some(message) = message.filter(|message| matches!(message.outcome, EndOutcome::Later)) else {
            return false;
        };
        // From here on it is like one that was acknowledged at its beginning.
        let before = message.place();
        message.mark.is_accepted = true;
        (message.outcome, message.again_at) = (EndOutcome::Unread, Some(now.mono.saturating_add(LATER)));
        self.count_place(id, before);
        self.schedule(id);
        true
    }

    /// Counts a message in the place that it takes now, instead of the one that it took before.
    pub(super) fn count_place(&mut self, id: InvocationId, before: TakenPlace) {
        self.has_new_room = true;
        let Some(message) = self.open.get(&id) else { return };
        if let Some(entry) = message.entry.and_then(|number| self.entries.get_mut(&number)) {
            entry.moves(before, message.place());
        }
    }
}

#[cfg(test)]
mod tests;
