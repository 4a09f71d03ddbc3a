//! The connection: tried, up, lost.

use super::NatsThread;
use crate::clock::monotonic;
use crate::triggers::nats::connection::connect::{self, ConnectionEvent};
use crate::triggers::nats::connection::entries::NextLook;
use crate::triggers::nats::connection::keys::HeardRenewals;
use crate::triggers::nats::connection::pending_replies::{NoAnswer, PendingReplies, unanswered};
use crate::triggers::nats::connection::subscriptions::Source;
use crate::triggers::nats::fact::NatsFact;
use crate::triggers::nats::request::NatsConnect;
use async_nats::Client;
use async_nats::connection::State;
use futures_util::FutureExt as _;
use std::time::{Duration, Instant};

/// The pause between two tries of the first connection.
const TRY: Duration = Duration::from_secs(1);
/// How often the client is asked whether it has a connection.
const CHECK: Duration = Duration::from_secs(5);

impl NatsThread {
    /// Connects with other settings than before.
    pub(super) fn connect(&mut self, settings: Box<NatsConnect>) {
        if self.settings.as_deref() == Some(&*settings) {
            return;
        }
        self.lose("the settings have changed");
        (self.client, self.connecting) = (None, None);
        self.subscriptions.clear();
        self.settings = Some(settings);
        self.told = None;
        self.try_now();
    }

    /// Begins a try of the first connection.
    fn try_now(&mut self) {
        self.try_at = None;
        self.number = self.number.wrapping_add(1);
        let Some(settings) = &self.settings else { return };
        // With its number, since a client that was given up may still say something.
        let (client, events) = (self.number, self.events.clone());
        let send = move |event| {
            let _ = events.send((client, event)); // an error: the thread ends
        };
        match connect::connect(settings, send) {
            Ok(connecting) => self.connecting = Some(connecting.boxed_local()),
            // The secret is none: only other settings change that.
            Err(why) => self.tell(why),
        }
    }

    /// Takes the end of a try.
    pub(super) async fn tried(&mut self, tried: Result<Client, String>) {
        self.connecting = None;
        let client = match tried {
            Ok(client) => client,
            Err(why) => return self.try_later(why),
        };
        let Some(settings) = &self.settings else { return };
        // Two inboxes, so that messages and answers have a subscription each.
        self.pending = PendingReplies::new(&client.new_inbox());
        self.pulls = format!("{}.", client.new_inbox());
        let subjects = [
            (Source::Answers, self.pending.subject()),
            (Source::Renewals, HeardRenewals::subject(&settings.bucket.name)),
            (Source::Pulls, format!("{}>", self.pulls)),
        ];
        if let Err(why) = self.subscriptions.listen(&client, subjects).await {
            return self.try_later(why);
        }
        self.subscriptions.serve(&client, &self.entries.services()).await;
        self.client = Some(client);
        self.up();
    }

    fn try_later(&mut self, why: String) {
        self.tell(why);
        self.try_at = Some(monotonic() + TRY);
    }

    /// Takes what the client says.
    pub(super) fn event(&mut self, event: ConnectionEvent) {
        match event {
            // The first connection is known from the end of its try.
            ConnectionEvent::Up if self.client.is_some() && !self.is_up => self.up(),
            ConnectionEvent::Up => {}
            ConnectionEvent::Down => self.lose("the connection to the server was lost"),
            ConnectionEvent::TryFailed(why) => {
                if !self.is_up {
                    self.tell(why);
                }
            }
            ConnectionEvent::ServerError(why) => {
                self.complaint = Some((why.clone(), monotonic()));
                self.out.push(NatsFact::ServerError(why));
            }
        }
    }

    fn up(&mut self) {
        (self.is_up, self.told, self.checked) = (true, None, monotonic());
        self.bucket_made_ns = None;
        self.look_for_bucket();
    }

    /// Takes note that there is no connection any more, if there was one.
    fn lose(&mut self, why: &str) {
        if !std::mem::take(&mut self.is_up) {
            return;
        }
        let lost = self.pending.drain();
        let facts = lost
            .iter()
            .filter_map(|reply| unanswered(&reply.question, NoAnswer::Disconnected));
        self.out.extend(facts);
        self.jobs.clear();
        self.entries.disconnected();
        self.heard = HeardRenewals::default();
        self.bucket = NextLook::Never;
        self.tell(why.to_owned());
    }

    /// Says why there is no connection, if that is new.
    fn tell(&mut self, why: String) {
        if self.told.as_ref() != Some(&why) {
            self.told = Some(why.clone());
            self.out.push(NatsFact::Disconnected(why));
        }
    }

    /// The client has ended by itself: another one takes its place.
    pub(super) fn client_ended(&mut self) {
        self.lose("the client of NATS has ended");
        self.client = None;
        self.subscriptions.clear();
        self.try_at = Some(monotonic() + TRY);
    }

    /// Does what is due.
    pub(super) fn due(&mut self) {
        let now = monotonic();
        for reply in self.pending.overdue(now) {
            self.out.extend(unanswered(&reply.question, NoAnswer::Timeout));
        }
        if self.try_at.is_some_and(|at| at <= now) {
            self.try_now();
        }
        if let Some(client) = &self.client
            && now.saturating_duration_since(self.checked) >= CHECK
        {
            self.checked = now;
            match (client.connection_state(), self.is_up) {
                (State::Connected, false) => self.up(),
                (State::Disconnected, true) => self.lose("the connection to the server was lost"),
                // The client agrees with what is known. `Pending` becomes one of the other two.
                (State::Connected, true) | (State::Disconnected, false) | (State::Pending, _) => {}
            }
        }
        if self.bucket.at().is_some_and(|at| at <= now) {
            self.look_for_bucket();
        }
        let silent = self.entries.silent(now);
        self.out.extend(silent);
        self.look_for_entries(now);
    }

    /// Returns when [`Self::due`] has something to do.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let check = self.client.as_ref().map(|_| self.checked + CHECK);
        let entries = self.connection().and_then(|_| self.entries.next_due());
        let all = [self.pending.next_due(), self.try_at, check, self.bucket.at(), entries];
        all.into_iter().flatten().min()
    }
}
