//! The subscriptions of the connection: answers, messages that were asked for, renewals of nodes, and requests of
//! others. The client subscribes again by itself after each reconnect.

use crate::triggers::nats::request::NatsEntry;
use async_nats::{Client, Message, Subscriber};
use futures_util::StreamExt as _;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::poll_fn;
use std::task::Poll;

/// Where a message has come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Answers,
    Renewals,
    Pulls,
    /// A request of others, for the entry of this number.
    Service(u32),
}

/// The subscriptions of a connection.
#[derive(Default)]
pub(super) struct Subscriptions {
    /// In this order they are read: an answer may be waited for, and messages can wait.
    own: Vec<(Source, Subscriber)>,
    services: BTreeMap<u32, (NatsEntry, Subscriber)>,
}

impl Subscriptions {
    /// Subscribes to what the thread itself needs.
    ///
    /// # Errors
    /// Why the client does not take it, for people.
    pub(super) async fn listen(&mut self, client: &Client, subjects: [(Source, String); 3]) -> Result<(), String> {
        self.own.clear();
        for (source, subject) in subjects {
            let subscriber = client.subscribe(subject).await.map_err(|error| error.to_string())?;
            self.own.push((source, subscriber));
        }
        Ok(())
    }

    /// Subscribes to the requests of these entries and of no others. All nodes of an entry are one group, in which each
    /// request goes to one.
    pub(super) async fn serve(&mut self, client: &Client, entries: &[NatsEntry]) {
        // A subscriber that is dropped ends its subscription.
        self.services.retain(|_, (entry, _)| entries.contains(entry));
        for entry in entries {
            if let Entry::Vacant(vacant) = self.services.entry(entry.number) {
                let subject = entry.rules.subject.clone();
                // An error: the client has ended, and a new one begins with all entries.
                if let Ok(subscriber) = client.queue_subscribe(subject, entry.group.clone()).await {
                    vacant.insert((entry.clone(), subscriber));
                }
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.own.clear();
        self.services.clear();
    }

    /// Waits for the next message. Cancel-safe: a message is taken only when it is returned. Nothing once the client
    /// has ended.
    pub(super) async fn next(&mut self) -> Option<(Source, Message)> {
        poll_fn(|context| {
            let own = self.own.iter_mut().map(|(source, subscriber)| (*source, subscriber));
            let services = self.services.iter_mut();
            let services = services.map(|(number, (_, subscriber))| (Source::Service(*number), subscriber));
            for (source, subscriber) in own.chain(services) {
                if let Poll::Ready(message) = subscriber.poll_next_unpin(context) {
                    return Poll::Ready(message.map(|message| (source, message)));
                }
            }
            Poll::Pending
        })
        .await
    }
}
