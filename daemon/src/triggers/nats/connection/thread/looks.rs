//! Looks through the connection for objects on the server: the bucket, the streams and consumers of the entries, and single messages.

use super::NatsThread;
use crate::clock::monotonic;
use crate::triggers::nats::connection::entries::{LOOK, LOOK_AGAIN, NextLook};
use crate::triggers::nats::connection::keys::HeardRenewals;
use crate::triggers::nats::connection::pending_replies::NoAnswer;
use crate::triggers::nats::connection::streams::{self, FoundBucket, FoundEntry, NotFound};
use crate::triggers::nats::connection::unreadable;
use crate::triggers::nats::fact::{ConnectedServer, FoundMessage, NatsAnswer, NatsFact};
use futures_util::FutureExt as _;
use futures_util::future::join;
use std::sync::Arc;
use std::time::Instant;

/// The end of a question that has several steps.
pub(super) enum JobDone {
    Bucket(Result<FoundBucket, NotFound>, Instant),
    /// With the messages that no client can read.
    Entry((u32, Vec<NatsFact>), Result<FoundEntry, NotFound>, Instant),
    Message(u64, Result<Option<Box<FoundMessage>>, NotFound>, Instant),
}

impl NatsThread {
    /// Begins to look for the bucket.
    pub(super) fn look_for_bucket(&mut self) {
        let (Some(client), Some(settings)) = (self.client.clone(), &self.settings) else {
            return;
        };
        let (bucket, events, asked) = (settings.bucket.clone(), settings.events.clone(), monotonic());
        self.bucket = NextLook::Asked;
        let job = async move {
            let looked = streams::look_for_bucket(&client, &bucket);
            let kept = streams::keep_event_stream(&client, events.as_ref(), bucket.replicas);
            let (found, ()) = join(looked, kept).await;
            JobDone::Bucket(found, asked)
        };
        self.jobs.push(job.boxed_local());
    }

    /// Has the bucket looked for at once: nobody takes what is written to it.
    pub(super) fn doubt_bucket(&mut self) {
        if let NextLook::At(at) = &mut self.bucket {
            *at = monotonic();
        }
    }

    /// Takes the end of a job.
    pub(super) fn job_done(&mut self, done: JobDone) {
        match done {
            JobDone::Bucket(found, asked) => self.bucket_found(found, asked),
            JobDone::Entry((number, unreadable), found, asked) => {
                let found = found.map_err(|missing| self.explained(missing, asked));
                // They come first: with what follows, messages are asked for again.
                self.out.extend(unreadable);
                let facts = self.entries.found(number, found, monotonic());
                self.out.extend(facts);
            }
            JobDone::Message(number, found, asked) => {
                let result = found.map_err(|missing| match self.explained(missing, asked) {
                    NotFound::Missing(why) | NotFound::NoAnswer(why) => why,
                });
                self.out.push(NatsFact::Answer(number, NatsAnswer::Message(result)));
            }
        }
    }

    /// Begins to read a message of a stream.
    pub(super) fn read_message(&mut self, number: u64, (stream, sequence): (Arc<str>, u64)) {
        let Some(client) = self.connection().cloned() else {
            let answer = NatsAnswer::Message(Err(NoAnswer::Disconnected.words().to_owned()));
            return self.out.push(NatsFact::Answer(number, answer));
        };
        let asked = monotonic();
        let job = async move {
            let found = streams::read_message(&client, (&*stream, sequence)).await;
            JobDone::Message(number, found, asked)
        };
        self.jobs.push(job.boxed_local());
    }

    fn bucket_found(&mut self, found: Result<FoundBucket, NotFound>, asked: Instant) {
        if self.bucket != NextLook::Asked {
            return; // of a connection before this one
        }
        let now = monotonic();
        match found.map_err(|missing| self.explained(missing, asked)) {
            Ok(found) => {
                self.bucket = NextLook::At(now + LOOK);
                if self.bucket_made_ns.replace(found.created_ns) != Some(found.created_ns) {
                    // Another bucket counts its revisions from 1 again.
                    self.heard = HeardRenewals::default();
                    self.say_connected(found);
                }
            }
            Err(NotFound::NoAnswer(_)) if self.bucket_made_ns.is_some() => self.bucket = NextLook::At(now + LOOK_AGAIN),
            Err(NotFound::Missing(why) | NotFound::NoAnswer(why)) => {
                (self.bucket, self.bucket_made_ns) = (NextLook::At(now + LOOK_AGAIN), None);
                if self.told.as_ref() != Some(&why) {
                    self.told = Some(why.clone());
                    self.out.push(NatsFact::NoBucket(why));
                }
            }
        }
        // After the bucket, so that nobody hears of an entry before the connection. Functions that claim nothing need
        // none.
        self.entries.connected(now);
    }

    fn say_connected(&mut self, found: FoundBucket) {
        let Some(client) = self.connection() else { return };
        let info = client.server_info();
        let connected = ConnectedServer {
            server: format!(
                "{} ({}:{}, version {})",
                info.server_name, info.host, info.port, info.version
            ),
            bucket_created_ns: found.created_ns,
            bucket_problem: found.problem,
            max_payload: client.max_payload(),
        };
        self.told = None;
        self.out.push(NatsFact::Connected(Box::new(connected)));
    }

    /// Returns why nothing was found, in the server's words if it has complained meanwhile: a right that is missing
    /// shows as an answer that never comes.
    fn explained(&self, missing: NotFound, asked: Instant) -> NotFound {
        let complaint = self.complaint.as_ref().filter(|(_, at)| *at >= asked);
        match (missing, complaint) {
            (NotFound::NoAnswer(_), Some((complaint, _))) => NotFound::NoAnswer(complaint.clone()),
            (missing, _) => missing,
        }
    }

    /// Says whether entries are looked for: the bucket was.
    pub(super) fn looks_for_entries(&self) -> bool {
        match self.bucket {
            NextLook::Never => false,
            NextLook::Asked => self.bucket_made_ns.is_some(),
            NextLook::At(_) => true,
        }
    }

    /// Looks for the entries that are to be looked for now.
    pub(super) fn look_for_entries(&mut self, now: Instant) {
        let (Some(client), Some(settings)) = (self.connection().cloned(), &self.settings) else {
            return;
        };
        for due in self.entries.due(now) {
            let (client, bucket) = (client.clone(), settings.bucket.clone());
            let job = async move {
                let found = streams::look(&client, &due, &bucket).await;
                let unreadable = match &found {
                    Ok(found) if due.searches => unreadable::search(&client, &due.entry, &found.consumer).await,
                    Ok(_) | Err(_) => Vec::new(),
                };
                JobDone::Entry((due.entry.number, unreadable), found, now)
            };
            self.jobs.push(job.boxed_local());
        }
    }
}
