//! Sends the requests of the part to the server.

use super::NatsThread;
use crate::clock::monotonic;
use crate::triggers::nats::connection::acknowledgements;
use crate::triggers::nats::connection::headers;
use crate::triggers::nats::connection::keys;
use crate::triggers::nats::connection::pending_replies::{KeyWrite, NoAnswer, Question, unanswered};
use crate::triggers::nats::fact::NatsFact;
use crate::triggers::nats::request::{NatsEntry, NatsRequest, OutgoingMessage};
use async_nats::HeaderMap;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a message waits for a place among the commands of the client: there is one at once, unless the connection
/// is stalled.
const SEND_MAX: Duration = Duration::from_secs(1);

/// A message that goes out.
pub(super) struct Outgoing {
    subject: String,
    headers: Option<HeaderMap>,
    payload: Bytes,
}

impl NatsThread {
    /// Carries out a request of the part.
    pub(super) async fn request(&mut self, request: NatsRequest) {
        match request {
            NatsRequest::Connect(settings) => self.connect(settings),
            NatsRequest::Entries(entries) => self.set_entries(entries).await,
            NatsRequest::Pull { entry, count } => {
                let refused = self.entries.want(entry, count);
                self.out.extend(refused);
            }
            NatsRequest::Read { number, key } => {
                let (subject, payload) = keys::read_request(&self.bucket_name(), &key);
                self.ask(Question::Read { number }, Outgoing::plain(subject, payload))
                    .await;
            }
            NatsRequest::Write {
                number,
                key,
                value,
                replaces,
            } => {
                let write = KeyWrite {
                    number,
                    key,
                    value,
                    replaces,
                };
                self.ask_again(Question::Write(write)).await;
            }
            NatsRequest::ReadMessage {
                number,
                stream,
                sequence,
            } => self.read_message(number, (stream, sequence)),
            NatsRequest::Signal { ack, signal } => {
                let message = Outgoing::plain(ack.to_string(), acknowledgements::signal(signal));
                self.ask(Question::Signal { ack }, message).await;
            }
            NatsRequest::Settle { number, ack, term } => {
                let payload = match self.connection() {
                    Some(client) => acknowledgements::end(client, term.as_deref()),
                    None => Bytes::new(), // nothing is sent
                };
                let message = Outgoing::plain(ack.to_string(), payload);
                self.ask(Question::Settle { number }, message).await;
            }
            NatsRequest::Publish { number, message } => {
                self.ask(Question::Publish { number }, Outgoing::of(message)).await;
            }
            NatsRequest::Answer(message) => {
                // After an error, the sender of the request waits until its own timeout, as if fnd had gone.
                let _ = self.send(Outgoing::of(message), None).await;
            }
            NatsRequest::Stop => {} // the loop takes it
        }
    }

    fn bucket_name(&self) -> Arc<str> {
        let settings = self.settings.as_ref();
        settings.map_or_else(|| "".into(), |settings| Arc::clone(&settings.bucket.name))
    }

    async fn set_entries(&mut self, entries: Vec<NatsEntry>) {
        let now = monotonic();
        self.entries.set(entries, self.looks_for_entries(), now);
        let services: Vec<NatsEntry> = self.entries.services().cloned().collect();
        if let Some(client) = self.client.clone() {
            self.subscriptions.serve(&client, &services).await;
        }
        self.look_for_entries(now);
    }

    /// Sends a question about a key: it may follow from an answer.
    pub(super) async fn ask_again(&mut self, question: Question) {
        let bucket = self.bucket_name();
        let message = match &question {
            Question::Write(write) => {
                let (subject, headers) = keys::write_message(&bucket, &write.key, write.replaces);
                Outgoing {
                    subject,
                    headers: Some(headers),
                    payload: write.value.clone(),
                }
            }
            Question::Deleted(write) => {
                let (subject, payload) = keys::read_request(&bucket, &write.key);
                Outgoing::plain(subject, payload)
            }
            Question::Read { .. } | Question::Settle { .. } | Question::Publish { .. } | Question::Signal { .. } => {
                return;
            }
        };
        self.ask(question, message).await;
    }

    /// Sends a message whose answer is waited for. Without a connection the answer is that there is none.
    async fn ask(&mut self, question: Question, message: Outgoing) {
        if self.connection().is_none() {
            self.out.extend(unanswered(&question, NoAnswer::Disconnected));
            return;
        }
        let inbox = self.pending.add(question, monotonic());
        let Err(why) = self.send(message, Some(&inbox)).await else {
            return;
        };
        let Some(reply) = self.pending.take(&inbox) else { return };
        self.out.extend(match reply.question {
            // The client refuses what is too large for the server.
            Question::Publish { number } => Some(NatsFact::Published {
                number,
                result: Err(why),
            }),
            question => unanswered(&question, NoAnswer::Timeout),
        });
    }

    /// Hands a message to the client.
    async fn send(&self, message: Outgoing, inbox: Option<&str>) -> Result<(), String> {
        let Some(client) = self.connection() else {
            return Err(NoAnswer::Disconnected.words().to_owned());
        };
        let Outgoing {
            subject,
            headers,
            payload,
        } = message;
        let sending = async {
            match (inbox.map(str::to_owned), headers) {
                (Some(inbox), Some(headers)) => {
                    client
                        .publish_with_reply_and_headers(subject, inbox, headers, payload)
                        .await
                }
                (Some(inbox), None) => client.publish_with_reply(subject, inbox, payload).await,
                (None, Some(headers)) => client.publish_with_headers(subject, headers, payload).await,
                (None, None) => client.publish(subject, payload).await,
            }
        };
        match timeout(SEND_MAX, sending).await {
            Ok(sent) => sent.map_err(|error| error.to_string()),
            Err(_) => Err("the connection to the server is stalled".to_owned()),
        }
    }

    /// Sends the pull requests for what is wanted.
    pub(super) async fn send_pulls(&mut self) {
        if self.connection().is_none() {
            return;
        }
        for (entry, pull) in self.entries.requests(monotonic()) {
            let (stream, consumer) = (entry.rules.stream.as_deref().unwrap_or_default(), &entry.rules.consumer);
            let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
            let inbox = format!("{}{}.{}", self.pulls, entry.number, pull.number);
            // An error: the request counts as lost when its time is over.
            let _ = self
                .send(Outgoing::plain(subject, pull.body().into()), Some(&inbox))
                .await;
        }
    }

    /// Gives a message back that the part does not hear of.
    pub(super) async fn give_back(&self, ack: String, rest: Duration) {
        // An error: the server delivers it again after `ack_wait`.
        let _ = self
            .send(Outgoing::plain(ack, acknowledgements::give_back(rest)), None)
            .await;
    }
}

impl Outgoing {
    fn plain(subject: String, payload: Bytes) -> Self {
        Self {
            subject,
            headers: None,
            payload,
        }
    }

    fn of(message: OutgoingMessage) -> Self {
        let headers = headers::map(&message.headers);
        Self {
            subject: message.subject.to_string(),
            headers: (!headers.is_empty()).then_some(headers),
            payload: message.payload,
        }
    }
}
