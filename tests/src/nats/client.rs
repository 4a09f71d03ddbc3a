//! What a test asks a server of NATS: it publishes messages as programs do, and looks at streams, consumers and keys.

use crate::wait::{PATIENCE, wait_until};
use async_nats::client::Request;
use async_nats::{Client, ConnectOptions, HeaderMap, Message};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long a test waits for one answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A client with its connection. The connection lives only while a call runs, so that each test has one thread.
pub struct NatsClient {
    runtime: Runtime,
    client: Client,
}

/// Where a message is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    pub sequence: u64,
    /// Whether it was there already, by its `Nats-Msg-Id`.
    pub is_duplicate: bool,
}

impl NatsClient {
    /// Connects.
    ///
    /// # Panics
    /// When the server does not take the connection.
    #[track_caller]
    #[must_use]
    pub fn connect(url: &str) -> Self {
        Self::connect_with(url, ConnectOptions::new())
    }

    /// Connects with options: credentials, certificates.
    ///
    /// # Panics
    /// As [`connect`](Self::connect).
    #[track_caller]
    #[must_use]
    pub fn connect_with(url: &str, options: ConnectOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let client = runtime
            .block_on(options.connect(url))
            .unwrap_or_else(|error| panic!("{url}: {error}"));
        Self { runtime, client }
    }

    /// Sends a request of the API of JetStream, and returns its answer, whatever it is.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    #[must_use]
    pub fn api(&self, subject: &str, body: &Value) -> Value {
        let payload = match body {
            Value::Null => Bytes::new(),
            body => body.to_string().into(),
        };
        let message = self.request(&format!("$JS.API.{subject}"), HeaderMap::new(), payload);
        serde_json::from_slice(&message.payload).unwrap_or_else(|error| panic!("{subject}: {error}: {message:?}"))
    }

    /// Sends a request and returns its answer.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    #[must_use]
    pub fn request(&self, subject: &str, headers: HeaderMap, payload: Bytes) -> Message {
        self.try_request(subject, headers, payload)
            .unwrap_or_else(|error| panic!("{subject}: {error}"))
    }

    /// Sends a request and returns its answer.
    ///
    /// # Errors
    /// In words: nobody listens, or nobody answers.
    pub fn try_request(&self, subject: &str, headers: HeaderMap, payload: Bytes) -> anyhow::Result<Message> {
        // An inbox of its own: a message of a stream comes there with its own subject.
        let inbox = self.client.new_inbox();
        let mut request = Request::new().payload(payload).inbox(inbox).timeout(Some(ANSWER));
        if !headers.is_empty() {
            request = request.headers(headers);
        }
        let answer = self
            .runtime
            .block_on(self.client.send_request(subject.to_owned(), request));
        Ok(answer?)
    }

    /// Publishes a message to a stream; returns where it is stored.
    ///
    /// # Panics
    /// When no stream stores it.
    #[track_caller]
    pub fn publish(&self, subject: &str, headers: &[(&str, &str)], payload: &str) -> Published {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, *value);
        }
        let answer = self.request(subject, map, payload.to_owned().into());
        let answer: Value = serde_json::from_slice(&answer.payload).expect("a server answers with JSON");
        let sequence = answer["seq"].as_u64().filter(|_| answer["error"].is_null());
        Published {
            sequence: sequence.unwrap_or_else(|| panic!("{subject}: {answer}")),
            is_duplicate: answer["duplicate"] == json!(true),
        }
    }

    /// Publishes messages with the payloads `FIRST`, `FIRST + 1` and so on.
    ///
    /// # Panics
    /// When no stream stores them.
    #[track_caller]
    pub fn publish_numbers(&self, subject: &str, numbers: std::ops::Range<u32>) {
        for number in numbers {
            self.publish(subject, &[], &number.to_string());
        }
    }

    /// Makes a stream with this retention: `workqueue` or `limits`.
    ///
    /// # Panics
    /// When the server refuses that.
    #[track_caller]
    pub fn make_stream(&self, name: &str, subjects: &[&str], retention: &str) {
        let body = json!({
            "name": name, "subjects": subjects, "retention": retention, "storage": "file", "num_replicas": 1,
            "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "discard": "old",
        });
        let answer = self.api(&format!("STREAM.CREATE.{name}"), &body);
        assert!(answer["error"].is_null(), "{name}: {answer}");
    }

    /// Deletes a stream.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn delete_stream(&self, name: &str) {
        let answer = self.api(&format!("STREAM.DELETE.{name}"), &Value::Null);
        assert_eq!(answer["success"], json!(true), "{name}: {answer}");
    }

    /// Deletes a consumer.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn delete_consumer(&self, stream: &str, name: &str) {
        let answer = self.api(&format!("CONSUMER.DELETE.{stream}.{name}"), &Value::Null);
        assert_eq!(answer["success"], json!(true), "{stream} {name}: {answer}");
    }

    /// Returns a stream, if it is there.
    #[track_caller]
    #[must_use]
    pub fn stream(&self, name: &str) -> Option<Value> {
        let answer = self.api(&format!("STREAM.INFO.{name}"), &Value::Null);
        answer["error"].is_null().then_some(answer)
    }

    /// Returns a consumer, if it is there.
    #[track_caller]
    #[must_use]
    pub fn consumer(&self, stream: &str, name: &str) -> Option<Value> {
        let answer = self.api(&format!("CONSUMER.INFO.{stream}.{name}"), &Value::Null);
        answer["error"].is_null().then_some(answer)
    }

    /// Waits until a consumer is there.
    ///
    /// # Panics
    /// When it is not in time.
    #[track_caller]
    pub fn wait_consumer(&self, stream: &str, name: &str) -> Value {
        wait_until(&format!("the consumer {name} of {stream}"), PATIENCE, || {
            self.consumer(stream, name)
        })
    }

    /// Returns the number of messages of a stream.
    ///
    /// # Panics
    /// When there is no such stream.
    #[track_caller]
    #[must_use]
    pub fn messages(&self, stream: &str) -> u64 {
        let info = self.stream(stream).unwrap_or_else(|| panic!("no stream {stream}"));
        info["state"]["messages"].as_u64().expect("a number of messages")
    }

    /// Returns the numbers of messages of a consumer that are not delivered, and not acknowledged.
    ///
    /// # Panics
    /// When there is no such consumer.
    #[track_caller]
    #[must_use]
    pub fn waiting(&self, stream: &str, consumer: &str) -> (u64, u64) {
        let info = self.consumer(stream, consumer);
        let info = info.unwrap_or_else(|| panic!("no consumer {consumer} of {stream}"));
        let number = |name: &str| info[name].as_u64().expect("a number of messages");
        (number("num_pending"), number("num_ack_pending"))
    }

    /// Waits until every message of a consumer is acknowledged.
    ///
    /// # Panics
    /// When it is not in time.
    #[track_caller]
    pub fn wait_acknowledged(&self, stream: &str, consumer: &str) {
        wait_until(&format!("all of {stream} to be acknowledged"), PATIENCE, || {
            (self.waiting(stream, consumer) == (0, 0)).then_some(())
        });
    }

    /// Returns the last message of each subject of a stream with this beginning: of a bucket, its keys and values.
    ///
    /// # Panics
    /// When the server refuses that.
    #[track_caller]
    #[must_use]
    pub fn keys(&self, bucket: &str, beginning: &str) -> Vec<(String, Value)> {
        let filter = format!("$KV.{bucket}.{beginning}>");
        let info = self.api(&format!("STREAM.INFO.KV_{bucket}"), &json!({"subjects_filter": filter}));
        let subjects = info["state"]["subjects"].as_object().cloned().unwrap_or_default();
        let value = |subject: &String| {
            let body = json!({"last_by_subj": subject});
            let message = self.api(&format!("STREAM.MSG.GET.KV_{bucket}"), &body);
            let data = message["message"]["data"].as_str().unwrap_or_default();
            let value = BASE64_STANDARD.decode(data).expect("a server writes base64");
            let key = subject.trim_start_matches(&format!("$KV.{bucket}.")).to_owned();
            (key, serde_json::from_slice(&value).unwrap_or(Value::Null))
        };
        subjects.keys().map(value).collect()
    }

    /// Subscribes to a subject, calls `act`, and returns the first message that follows.
    ///
    /// # Panics
    /// When none follows in time.
    #[track_caller]
    pub fn first_after(&self, subject: &str, act: impl FnOnce()) -> Message {
        let subject = subject.to_owned();
        // A subscriber that is dropped ends its subscription by a task.
        let _entered = self.runtime.enter();
        let mut subscriber = self
            .runtime
            .block_on(async {
                let subscriber = self.client.subscribe(subject.clone()).await;
                // The server has it before anything is published.
                self.client.flush().await.expect("the server answers");
                subscriber
            })
            .unwrap_or_else(|error| panic!("{subject}: {error}"));
        act();
        let first = async { tokio::time::timeout(PATIENCE, subscriber.next()).await };
        let message = self.runtime.block_on(first);
        message
            .ok()
            .flatten()
            .unwrap_or_else(|| panic!("no message to {subject}"))
    }
}
