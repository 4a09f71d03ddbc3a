//! Sends the requests of the part to the server, also the answers about a delivery, whose texts are those of the protocol (ADR-15 of
//! NATS).

use super::NatsThread;
use crate::clock::monotonic;
use crate::triggers::nats::connection::headers;
use crate::triggers::nats::connection::keys;
use crate::triggers::nats::connection::pending_replies::{NoAnswer, Question, unanswered};
use crate::triggers::nats::fact::{NatsAnswer, NatsFact};
use crate::triggers::nats::request::{AckSignal, NatsEntry, NatsRequest, OutgoingMessage};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a message waits for a place among the commands of the client: there is one at once, unless the connection
/// is stalled.
const SEND_MAX: Duration = Duration::from_secs(1);

/// From this version on a server takes a reason with the end of a message. One before it ignores an end with a reason,
/// and answers as if it had not.
const TAKES_REASON: (i64, i64, i64) = (2, 10, 4);

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
                let message = keys::read_request(&self.bucket_name(), &key);
                self.ask(Question::Read { number }, message).await;
            }
            NatsRequest::Write(write) => self.ask_again(Question::Write(write)).await,
            NatsRequest::ReadMessage { number, place } => self.read_message(number, place),
            NatsRequest::Signal { ack, signal } => {
                let message = OutgoingMessage::plain(Arc::clone(&ack), signal_text(signal));
                self.ask(Question::Signal { ack }, message).await;
            }
            NatsRequest::Settle { number, ack, term } => {
                let (major, minor, patch) = TAKES_REASON;
                let client = self.connection();
                let takes_reason = client.is_some_and(|client| client.is_server_compatible(major, minor, patch));
                let message = OutgoingMessage::plain(ack, end_text(takes_reason, term.as_deref()));
                self.ask(Question::Settle { number }, message).await;
            }
            NatsRequest::Publish { number, message } => self.ask(Question::Publish { number }, message).await,
            NatsRequest::Answer(message) => {
                // After an error, the sender of the request waits until its own timeout, as if fnd had gone.
                let _ = self.send(message, None).await;
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
        if let Some(client) = self.client.clone() {
            self.subscriptions.serve(&client, &self.entries.services()).await;
        }
        self.look_for_entries(now);
    }

    /// Sends a question about a key: it may follow from an answer.
    pub(super) async fn ask_again(&mut self, question: Question) {
        let bucket = self.bucket_name();
        let message = match &question {
            Question::Write(write) => keys::write_message(&bucket, write),
            Question::Deleted(write) => keys::read_request(&bucket, &write.key),
            Question::Read { .. } | Question::Settle { .. } | Question::Publish { .. } | Question::Signal { .. } => {
                return;
            }
        };
        self.ask(question, message).await;
    }

    /// Sends a message whose answer is waited for. Without a connection the answer is that there is none.
    async fn ask(&mut self, question: Question, message: OutgoingMessage) {
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
            Question::Publish { number } => Some(NatsFact::Answer(number, NatsAnswer::Published(Err(why)))),
            question => unanswered(&question, NoAnswer::Timeout),
        });
    }

    /// Hands a message to the client.
    async fn send(&self, message: OutgoingMessage, inbox: Option<&str>) -> Result<(), String> {
        let Some(client) = self.connection() else {
            return Err(NoAnswer::Disconnected.words().to_owned());
        };
        // The client sends no headers where the map has none.
        let (subject, headers) = (message.subject.to_string(), headers::map(&message.headers));
        let sending = async {
            match inbox.map(str::to_owned) {
                Some(inbox) => {
                    client
                        .publish_with_reply_and_headers(subject, inbox, headers, message.payload)
                        .await
                }
                None => client.publish_with_headers(subject, headers, message.payload).await,
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
                .send(OutgoingMessage::plain(subject, pull.body()), Some(&inbox))
                .await;
        }
    }

    /// Gives a message back that the part does not hear of.
    pub(super) async fn give_back(&self, ack: String, rest: Duration) {
        // An error: the server delivers it again after `ack_wait`.
        let message = OutgoingMessage::plain(ack, signal_text(AckSignal::GiveBack(rest)));
        let _ = self.send(message, None).await;
    }
}

/// Returns the text of a signal.
fn signal_text(signal: AckSignal) -> Bytes {
    match signal {
        AckSignal::Progress => Bytes::from_static(b"+WPI"),
        AckSignal::GiveBack(rest) => format!("-NAK {{\"delay\": {}}}", rest.as_nanos()).into(),
    }
}

/// Returns the text that ends a message; `term` is why it can never run.
fn end_text(takes_reason: bool, term: Option<&str>) -> Bytes {
    match term {
        None => Bytes::from_static(b"+ACK"),
        Some(why) if takes_reason => format!("+TERM {}", why.replace(['\r', '\n'], " ")).into(),
        Some(_) => Bytes::from_static(b"+TERM"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_has_its_text() {
        let half = Duration::from_millis(1500);
        assert_eq!(signal_text(AckSignal::Progress), "+WPI");
        assert_eq!(signal_text(AckSignal::GiveBack(half)), r#"-NAK {"delay": 1500000000}"#);
        assert_eq!(
            (end_text(true, None), end_text(false, None)),
            ("+ACK".into(), "+ACK".into())
        );
        assert_eq!(end_text(true, Some("begun 5\ntimes")), "+TERM begun 5 times");
        assert_eq!(end_text(false, Some("begun 5 times")), "+TERM");
    }
}
