//! Accepts the shares of events: one invocation for each function that takes an event, all of a request in one
//! transaction.
//!
//! ```text
//! Publish ─▶ every share is admitted ─┬─ each event has a function that takes it ─▶ Action::Publish ─▶ Published ─▶ reply
//!                                     └─ one has none: nothing is accepted ─▶ reply
//! ```
//! The ledger decides in the transaction whether an event was there before: then its shares are dropped, and the reply is
//! what came of it the first time. If a request is refused, the daemon asks the ledger for earlier events of the request
//! and sends the rest again.

use super::Supervisor;
use super::acceptance::filled_in;
use super::flow::NoPlace;
use crate::messages::ReplyTo;
use crate::messages::action::{Action, Answer, Notice, Rejection};
use crate::messages::publication::{Delivered, EventShares, NotTaken, Publication, Publish, Shares, Taken};
use crate::messages::submit::Submit;
use crate::records::Accepted;
use crate::records::outcome::{Reason, Skip};
use crate::run_state::FunctionKey;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::time::Duration;

/// Events whose shares are being stored.
#[derive(Debug)]
pub(super) struct Publishing {
    reply: ReplyTo,
    events: Vec<Delivered>,
    /// The effects on other invocations, which begin when the shares are on disk.
    after: Vec<(FunctionKey, InvocationId, NoPlace)>,
}

/// The effects of the acceptance of shares on everything but the shares.
#[derive(Debug, Default)]
struct Accepting {
    after: Vec<(FunctionKey, InvocationId, NoPlace)>,
    /// The instants until which the rates of functions were used up before.
    paid: Vec<(FunctionKey, Duration)>,
    notices: Vec<Action>,
}

impl Supervisor {
    pub(super) fn publish(&mut self, publish: Publish) {
        let mut accepting = Accepting::default();
        let mut answered = Vec::new();
        let mut shares = Shares {
            number: self.next_number(),
            accepted_ms: self.now.unix_ms,
            events: Vec::new(),
        };
        for mut publication in publish.events {
            if shares.events.iter().any(|event| event.key == publication.key) {
                // The same event twice in one request. The ledger answers the second as one that was sent before, so
                // it needs no room.
                publication.submits.clear();
                publication.refused.clear();
            }
            let (event, first) = self.share(publication, &mut accepting);
            if let (true, Some((function, rejection))) = (event.accepted.is_empty(), first) {
                let number = shares.events.len();
                let accepted = shares.events.iter().flat_map(|event| &event.accepted);
                // The ledger has heard of none of these shares, so they vanish without a record.
                for id in accepted.map(|accepted| accepted.id).collect::<Vec<_>>() {
                    self.remove_invocation(id);
                }
                // A function may have paid for several shares. The value before the first one is set last, and stays.
                for (key, before) in accepting.paid.into_iter().rev() {
                    self.functions[key].work.rate_paid = before;
                }
                let answer = Answer::NotPublished {
                    event: number,
                    function,
                    rejection,
                };
                return self.answer(publish.reply, answer);
            }
            answered.push(event.delivered.clone());
            shares.events.push(event);
        }
        // A request that is refused as a whole leaves no notices, so they come only after every share was admitted.
        self.out.append(&mut accepting.notices);
        let publishing = Publishing {
            reply: publish.reply,
            events: answered,
            after: accepting.after,
        };
        self.publishing.insert(shares.number, publishing);
        self.out.push(Action::Publish(Box::new(shares)));
    }

    /// Admits the requests of an event. Returns its shares, and the first function that has no room for it.
    fn share(
        &mut self,
        publication: Publication,
        accepting: &mut Accepting,
    ) -> (EventShares, Option<(FunctionName, Rejection)>) {
        let mut event = EventShares {
            key: publication.key,
            accepted: Vec::new(),
            skipped: Vec::new(),
            delivered: Delivered {
                refused: publication.refused,
                ..Delivered::default()
            },
        };
        let mut first = None;
        let outer = std::mem::take(&mut self.out);
        for submit in publication.submits {
            let (id, function) = (submit.id, submit.function.clone());
            let key = self.functions.find(&function);
            let before = key.map(|key| (key, self.functions[key].work.rate_paid));
            match self.take(submit) {
                Ok((key, no_place)) => {
                    accepting.paid.extend(before);
                    accepting.after.extend(no_place.map(|no_place| (key, id, no_place)));
                    event.delivered.invocations.push(Taken { id, function });
                }
                Err(refused) => {
                    let (submit, rejection) = *refused;
                    let why = rejection.words(&function);
                    event.delivered.refused.push(NotTaken {
                        function: function.clone(),
                        why: why.clone(),
                    });
                    if let Some(skip) = rejection.skip()
                        && let Some(accepted) = self.as_skipped(&submit, (Reason::Skipped(skip), why.into()))
                    {
                        accepting.notices.push(Action::Notice(Notice::Rejected {
                            function: function.clone(),
                            trigger: submit.trigger,
                            skip,
                        }));
                        event.skipped.push(accepted);
                    }
                    // A full queue is the reason that tells a sender to come again.
                    let is_busy =
                        |rejection: &Rejection| matches!(rejection.skip(), Some(Skip::QueueFull | Skip::Rate));
                    if first
                        .as_ref()
                        .is_none_or(|(_, first)| !is_busy(first) && is_busy(&rejection))
                    {
                        first = Some((function, rejection));
                    }
                }
            }
        }
        // The shares are stored by one command, so that one transaction has all of them.
        for action in std::mem::replace(&mut self.out, outer) {
            match action {
                Action::Store(accepted) => event.accepted.push(*accepted),
                other => accepting.notices.push(other),
            }
        }
        (event, first)
    }

    /// Returns the record of a share that its function has no room for, with which it can run later. `skipped` says why.
    fn as_skipped(&self, submit: &Submit, skipped: (Reason, Box<str>)) -> Option<Accepted> {
        let serving = self.functions.get(&submit.function)?.serving()?;
        Some(Accepted {
            payload: filled_in(submit.payload.clone(), &serving.rules),
            // The sender need not send the event again, so the function gets its share when somebody redrives it.
            dead_letter: true,
            priority: submit.priority,
            skipped: Some(skipped),
            ..Accepted::new(submit.id, submit.function.clone(), submit.trigger, self.now.unix_ms)
        })
    }

    pub(super) fn published(&mut self, number: u64, earlier: Vec<Option<Delivered>>) {
        let Some(mut publishing) = self.publishing.remove(&number) else {
            // A second answer of the ledger.
            return;
        };
        let mut earlier = earlier.into_iter();
        for delivered in &mut publishing.events {
            let before = earlier.next().flatten();
            for taken in &delivered.invocations {
                match before {
                    // Nothing of it was stored, and nobody has heard of it.
                    Some(_) => self.store_failed(taken.id),
                    None => self.stored(taken.id),
                }
            }
            if let Some(before) = before {
                *delivered = Delivered {
                    duplicate: true,
                    ..before
                };
            }
        }
        for (key, id, no_place) in publishing.after {
            // A share of an event that was sent before is gone by now.
            if self.invocations.contains_key(&id) {
                self.replace(key, id, no_place);
            }
        }
        self.answer(publishing.reply, Answer::Published(publishing.events));
    }

    pub(super) fn publish_failed(&mut self, number: u64) {
        // Without an entry, this is a second answer of the ledger.
        let Some(publishing) = self.publishing.remove(&number) else {
            return;
        };
        for taken in publishing.events.iter().flat_map(|delivered| &delivered.invocations) {
            self.store_failed(taken.id);
        }
        self.answer(publishing.reply, Answer::StoreFailed);
    }
}
