//! Events: who subscribes to them, and their shares in one transaction.

use super::{Backend, EventOrigin, EventSender, NewEvent, NotPublished};
use crate::metrics::EventOutcome;
use fnd_core::access::{Author, Permissions};
use fnd_core::data::Data;
use fnd_core::records::cause::{Cause, EventCause};
use fnd_core::records::outcome::Trigger;
use fnd_core::records::{Attributes, Payload};
use fnd_core::report::ReportEvent;
use fnd_core::run::{Answer, Delivered, Event, NotTaken, Publication, Publish, Submit};
use fnd_core::triggers::event::subscription::{EventSeen, SubscriptionRefusal, Subscriptions};
use fnd_wire::ids::FunctionName;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;

/// Least size that a request with events may have, whatever the subscribers take: the default of `limits.body`.
const BYTES_LEAST: u64 = 6 << 20;

/// Most invocations, and most data of all of them together, that one request with events may start: they are stored in one
/// transaction, and all other work that has to be stored waits for it.
const SHARES_MAX: usize = 10_000;
const SHARED_BYTES_MAX: u64 = 256 << 20;

impl Backend {
    /// Returns the most bytes of a request with events: the largest `limits.body` of a subscriber.
    pub(crate) fn event_bytes_max(&self) -> u64 {
        self.subscriptions().body_max().unwrap_or(0).max(BYTES_LEAST)
    }

    /// Queues an invocation for each function that takes one of the events, that the sender may operate, and whose author may
    /// get events of this sender, all in one transaction; or hands the events to the stream of all nodes. The result has one item for
    /// each event.
    pub(crate) async fn publish(
        &self,
        events: Vec<NewEvent>,
        origin: EventOrigin,
    ) -> Result<Vec<Delivered>, NotPublished> {
        let count = events.len() as u64;
        let published = match self.event_stream(&origin) {
            Some(stream) => self.publish_to_stream(&stream, &events, &origin.reach).await,
            None => self.publish_all(events, &origin).await,
        };
        if published.is_err() {
            self.count_events(EventOutcome::Refused, count);
        }
        for delivered in published.iter().flatten() {
            let outcome = match delivered {
                Delivered { duplicate: true, .. } => EventOutcome::Duplicate,
                // Nobody knows here which functions of other nodes want it.
                Delivered { stream: Some(_), .. } => EventOutcome::Accepted,
                Delivered { invocations, .. } if invocations.is_empty() => EventOutcome::Unmatched,
                Delivered { .. } => EventOutcome::Accepted,
            };
            self.count_events(outcome, 1);
        }
        published
    }

    pub(crate) fn count_events(&self, outcome: EventOutcome, count: u64) {
        let outcome = outcome.as_str();
        let mut state = self.daemon.state.borrow_mut();
        state.report(ReportEvent::EventsSent { outcome, count });
    }

    /// Returns the subscriptions of the functions that serve.
    fn subscriptions(&self) -> Rc<Subscriptions> {
        self.daemon.state.borrow_mut().lifecycle.subscriptions()
    }

    /// Publishes events. If they are refused, those that were accepted before get their first answer, and the others are
    /// tried again without them. An event that is accepted costs no look-up.
    async fn publish_all(&self, events: Vec<NewEvent>, origin: &EventOrigin) -> Result<Vec<Delivered>, NotPublished> {
        let refusal = match self.publish_except(&events, origin, &HashMap::new()).await {
            Err(
                refusal @ (NotPublished::Refused { .. } | NotPublished::Rejected { .. } | NotPublished::TooMuch { .. }),
            ) => refusal,
            other => return other,
        };
        let keys = events
            .iter()
            .map(|event| key(&event.attributes, &origin.reach))
            .collect();
        let since_ms = {
            let state = self.daemon.state.borrow();
            state.node.settings.settings.events.since_ms(state.clock.now().unix_ms)
        };
        match self.reader.earlier_events(keys, since_ms).await {
            Ok(earlier) if !earlier.is_empty() => self.publish_except(&events, origin, &earlier).await,
            // If the ledger cannot be read, the sender comes again.
            _ => Err(refusal),
        }
    }

    /// Publishes events except earlier ones, whose answers are known.
    async fn publish_except(
        &self,
        events: &[NewEvent],
        origin: &EventOrigin,
        earlier: &HashMap<Arc<str>, Delivered>,
    ) -> Result<Vec<Delivered>, NotPublished> {
        let table = self.subscriptions();
        let mut delivered: Vec<Delivered> = events.iter().map(|_| Delivered::default()).collect();
        // The places of the events that have subscribers.
        let (mut places, mut publications) = (Vec::new(), Vec::new());
        for (place, (event, delivered)) in events.iter().zip(&mut delivered).enumerate() {
            let key = key(&event.attributes, &origin.reach);
            if let Some(earlier) = earlier.get(&key) {
                delivered.clone_from(earlier);
                delivered.duplicate = true;
            } else if let Some(publication) = self.publication(&table, origin, (place, key), event)? {
                places.push(place);
                publications.push(publication);
            }
        }
        if publications.is_empty() {
            return Ok(delivered);
        }
        let shares: usize = publications.iter().map(|publication| publication.submits.len()).sum();
        let bytes = publications.iter().flat_map(|publication| &publication.submits);
        let bytes = bytes
            .filter_map(|submit| submit.payload.data.as_ref())
            .map(Data::size)
            .fold(0, u64::saturating_add);
        if shares > SHARES_MAX || bytes > SHARED_BYTES_MAX {
            return Err(NotPublished::TooMuch { shares, bytes });
        }
        let answer = self.ask(|reply| {
            Event::Publish(Box::new(Publish {
                reply,
                events: publications,
            }))
        });
        match answer.await {
            Ok(Answer::Published(published)) => {
                for (place, published) in places.into_iter().zip(published) {
                    if let Some(delivered) = delivered.get_mut(place) {
                        *delivered = published;
                    }
                }
                Ok(delivered)
            }
            Ok(Answer::NotPublished {
                event,
                function,
                rejection,
            }) => Err(NotPublished::Rejected {
                event: places.get(event).copied().unwrap_or(event),
                function,
                rejection,
            }),
            Ok(_) => Err(NotPublished::StoreFailed),
            Err(_) => Err(NotPublished::Stopping),
        }
    }

    /// Returns the requests for the functions that take an event; nothing if no function subscribes to it.
    fn publication(
        &self,
        table: &Subscriptions,
        origin: &EventOrigin,
        (place, key): (usize, Arc<str>),
        event: &NewEvent,
    ) -> Result<Option<Publication>, NotPublished> {
        let unreadable = |error: std::io::Error| NotPublished::Unreadable(error.to_string());
        let seen = EventSeen::new(&event.attributes, event.data.as_ref()).map_err(unreadable)?;
        let shares = table.shares(&seen).into_iter();
        let shares = shares
            .filter(|share| origin.reach.operates(share.function) && self.may_get(share.function, &origin.sender));
        let (mut submits, mut refused, mut too_large) = (Vec::new(), Vec::new(), true);
        for share in shares {
            match share.taken {
                Ok(order_key) => submits.push(self.share(share.function, event, order_key)),
                Err(why) => {
                    too_large &= matches!(why, SubscriptionRefusal::TooLarge { .. });
                    refused.push(NotTaken {
                        function: share.function.clone(),
                        why: why.to_string(),
                    });
                }
            }
        }
        match (submits.is_empty(), refused.is_empty()) {
            (true, true) => Ok(None),
            (true, false) => Err(NotPublished::Refused {
                event: place,
                subscribers: refused,
                too_large,
            }),
            (false, _) => Ok(Some(Publication { key, submits, refused })),
        }
    }

    /// Says whether a function gets the events of a sender. If its author may not operate every function, these are the
    /// events that the author sends, or functions that the author may operate: `[[event]] type = "*"` would read those
    /// of everybody otherwise.
    fn may_get(&self, function: &FunctionName, sender: &EventSender) -> bool {
        let state = self.daemon.state.borrow();
        let author = state.lifecycle.author(function);
        if author == Author::Root {
            return true;
        }
        let reach = state.node.settings.reach_of(author);
        if reach.limit_of_operation().is_none() {
            return true;
        }
        match sender {
            EventSender::User(uid) => author == Author::User(*uid),
            EventSender::Function(sender) => author == state.lifecycle.author(sender) || reach.operates(sender),
            EventSender::Listener => false,
        }
    }

    fn share(&self, function: &FunctionName, event: &NewEvent, order_key: Option<String>) -> Submit {
        let cause = Cause::Event(EventCause {
            attributes: event.attributes.clone(),
            order_key,
            depth: event.depth,
        });
        Submit {
            payload: Payload {
                data: event.data.clone(),
                content_type: event.content_type.as_deref().map(Arc::from),
                trace: event.trace.clone(),
                cause: Some(Arc::new(cause)),
                ..Payload::default()
            },
            ..self.new_submit(function.clone(), Trigger::Event)
        }
    }
}

/// Returns a digest of what identifies an event. The length keeps source and id apart. Events that not all functions can
/// get have other digests: otherwise such a sender could make the same event of another sender count as known.
pub(super) fn key(attributes: &Attributes, reach: &Permissions) -> Arc<str> {
    let mut digest = Sha256::new();
    if let Some(limit) = reach.limit_of_operation() {
        // No source is as long as this.
        digest.update(u64::MAX.to_be_bytes());
        digest.update((limit.len() as u64).to_be_bytes());
        digest.update(limit);
    }
    digest.update((attributes.source.len() as u64).to_be_bytes());
    digest.update(&attributes.source);
    digest.update(&attributes.id);
    let mut text = String::with_capacity(32);
    // Half of the digest: 128 bits are never equal by chance, and the ledger remembers one key for each event.
    for byte in digest.finalize().iter().take(16) {
        let _ = write!(text, "{byte:02x}"); // writing to a text cannot fail
    }
    text.into()
}
