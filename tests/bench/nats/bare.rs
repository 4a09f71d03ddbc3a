//! A consumer of the same client library without fnd: it takes messages, sixteen ahead as fnd does, and acknowledges them.

use super::{HANDLERS, now_ns};
use async_nats::jetstream::consumer::pull::Config;
use async_nats::{Client, jetstream};
use futures_util::StreamExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// A consumer in a thread of its own.
pub(super) struct BareConsumer {
    received: Receiver<Duration>,
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl BareConsumer {
    /// Begins to take the messages of a subject. Each has the time of its publication as its payload.
    pub(super) fn begin(url: &str, stream: &str, subject: &str) -> Self {
        let (sender, received) = channel();
        let (end, ended) = oneshot::channel();
        let [url, stream, subject] = [url, stream, subject].map(str::to_owned);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let client = async_nats::connect(url).await.expect("the server runs");
                tokio::select! {
                    () = consume(&client, (&stream, &subject), &sender) => {}
                    _ = ended => {}
                }
                // The last acknowledgement has not left yet.
                client.flush().await.expect("the connection is there");
            });
        });
        Self { received, end, thread }
    }

    /// Returns how long after its publication the next message was received.
    pub(super) fn next(&self, limit: Duration) -> Duration {
        self.received.recv_timeout(limit).expect("the consumer receives")
    }

    /// Ends it.
    pub(super) fn end(self) {
        let _ = self.end.send(()); // an error: it has ended already, and its panic was printed
        let _ = self.thread.join();
    }
}

/// Takes messages until nobody wants to know of them.
async fn consume(client: &Client, (stream, subject): (&str, &str), received: &Sender<Duration>) {
    let stream = jetstream::new(client.clone()).get_stream(stream).await;
    let stream = stream.expect("the stream is there");
    let config = Config {
        durable_name: Some("bare".to_owned()),
        filter_subject: subject.to_owned(),
        ..Config::default()
    };
    let consumer = stream.create_consumer(config).await;
    let consumer = consumer.expect("the server makes a consumer");
    let messages = consumer.stream().max_messages_per_batch(HANDLERS).messages().await;
    let mut messages = messages.expect("the consumer can be asked");
    while let Some(message) = messages.next().await {
        let message = message.expect("the server delivers");
        let at = now_ns();
        message.ack().await.expect("the connection is there");
        let published = std::str::from_utf8(&message.message.payload).ok();
        let published: u64 = published.and_then(|text| text.parse().ok()).expect("a time");
        let took = Duration::from_nanos(at.saturating_sub(published));
        if received.send(took).is_err() {
            return;
        }
    }
}
