//! Looks for streams, consumers and the bucket, and has the server make what may be made. `fnd_core`
//! decides the next step; this file sends the questions, one after the other. None of them needs an order towards other requests.

use super::pending_replies::ANSWER_MAX;
use crate::clock::unix_ms;
use crate::triggers::nats::fact::{ConsumerFigures, EntryState, FoundMessage};
use crate::triggers::nats::request::{ClaimBucket, NatsEntry};
use async_nats::Client;
use async_nats::client::{Request, RequestErrorKind};
use fnd_core::records::StreamPlace;
use fnd_core::triggers::nats::event::EventStream;
use fnd_core::triggers::nats::rules::NatsRules;
use fnd_core::triggers::nats::server::answers::{self, BadAnswer, ConsumerInfo, StoredAnswer, StreamInfo, error};
use fnd_core::triggers::nats::server::objects::{self, ConsumerBefore, ConsumerStep, WORK_QUEUE};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

/// An entry that is to be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DueLook {
    pub(super) entry: NatsEntry,
    /// When its consumer was made first, nanoseconds since 1970; absent: this fnd has not seen it.
    pub(super) made_ns: Option<u64>,
    /// Whether messages are searched that no client can read: the connection was lost while messages were to come.
    pub(super) searches: bool,
}

/// The consumer of an entry, as the server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundEntry {
    pub(super) consumer: Box<ConsumerInfo>,
    pub(super) state: EntryState,
    pub(super) figures: ConsumerFigures,
}

/// The bucket, as the server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundBucket {
    pub(super) created_ns: u64,
    pub(super) problem: Option<String>,
}

/// Why nothing was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotFound {
    /// It is not there or cannot be used, and why.
    Missing(String),
    /// The server does not answer, and to what.
    NoAnswer(String),
}

/// Looks for the stream and the consumer of an entry.
pub(super) async fn look(client: &Client, due: &DueLook, bucket: &ClaimBucket) -> Result<FoundEntry, NotFound> {
    let rules = &*due.entry.rules;
    let stream = rules.stream.as_deref().unwrap_or_default();
    let found = stream_info(client, stream).await?;
    if let Some(why) = objects::stream_problem(rules, found.as_ref()) {
        return Err(NotFound::Missing(why));
    }
    if found.is_none() {
        make_stream(client, objects::stream_request(rules, bucket.replicas), stream).await?;
    }
    let before = due.made_ns.map(|made_ns| ConsumerBefore {
        made_ns,
        retention: found
            .as_ref()
            .map_or(WORK_QUEUE, |found| found.config.retention.as_str()),
        keeps: bucket.keeps,
        now_ns: unix_ms().saturating_mul(1_000_000),
    });
    let (consumer, problem) = consumer(client, rules, before).await?;
    Ok(FoundEntry {
        state: EntryState::Ready {
            ack_wait: Duration::from_nanos(consumer.config.ack_wait),
            problem,
        },
        figures: ConsumerFigures {
            pending: consumer.num_pending,
            redelivered: consumer.num_redelivered,
            made_ns: consumer.created_ns,
            is_paused: consumer.paused,
            paused_until_ms: consumer.paused_until_ms(unix_ms()),
        },
        consumer: Box::new(consumer),
    })
}

/// Returns the consumer of an entry, and what is wrong with it although it is used.
async fn consumer(
    client: &Client,
    rules: &NatsRules,
    before: Option<ConsumerBefore<'_>>,
) -> Result<(ConsumerInfo, Option<String>), NotFound> {
    let (stream, name) = (rules.stream.as_deref().unwrap_or_default(), &rules.consumer);
    let subject = format!("$JS.API.CONSUMER.INFO.{stream}.{name}");
    let missing = [error::CONSUMER_NOT_FOUND, error::STREAM_NOT_FOUND];
    let found = find::<ConsumerInfo>(client, subject, &missing).await?;
    let step = objects::consumer_step(rules, found.as_ref(), before);
    let start = match (step, found) {
        (ConsumerStep::Leave(why), _) => return Err(NotFound::Missing(why)),
        (ConsumerStep::Use(problem), Some(found)) => return Ok((found, problem)),
        (ConsumerStep::Make(start) | ConsumerStep::Update(start), _) => start,
        (ConsumerStep::Use(_), None) => return Err(NotFound::Missing(format!("there is no consumer `{name}`"))),
    };
    // If another node does the same at this moment, both ask for the same consumer, and both get it.
    let made = ask(client, objects::consumer_request(rules, &start)).await?;
    let made = answers::read::<ConsumerInfo>(&made);
    Ok((
        made.map_err(|bad| refused(&format!("cannot make the consumer `{name}`"), &bad))?,
        None,
    ))
}

/// Looks for the bucket of the claims, and makes it if it is not there.
pub(super) async fn look_for_bucket(client: &Client, bucket: &ClaimBucket) -> Result<FoundBucket, NotFound> {
    let name = format!("KV_{}", bucket.name);
    if let Some(found) = stream_info(client, &name).await? {
        return Ok(FoundBucket {
            created_ns: found.created_ns,
            problem: objects::bucket_problem(&bucket.name, &found.config, bucket.keeps),
        });
    }
    let request = objects::bucket_request(&bucket.name, bucket.replicas, bucket.keeps);
    Ok(FoundBucket {
        created_ns: make_stream(client, request, &name).await?,
        problem: None,
    })
}

/// Reads a message of a stream; nothing if it or its stream is gone.
pub(super) async fn read_message(
    client: &Client,
    (stream, sequence): (&str, u64),
) -> Result<Option<Box<FoundMessage>>, NotFound> {
    let subject = format!("$JS.API.STREAM.MSG.GET.{stream}");
    let body = json!({ "seq": sequence }).to_string().into_bytes();
    let answer = ask(client, (subject, body)).await?;
    let message = match answers::read::<StoredAnswer>(&answer) {
        Ok(StoredAnswer { message }) => message,
        Err(bad) if bad.is(&[error::NO_MESSAGE_FOUND, error::STREAM_NOT_FOUND]) => return Ok(None),
        Err(bad) => return Err(refused(&format!("cannot read message {sequence} of `{stream}`"), &bad)),
    };
    let headers = message.headers();
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Some(Box::new(FoundMessage {
        headers: headers.collect(),
        place: StreamPlace {
            stream: stream.into(),
            created_ns: message.stored_ns,
            sequence,
        },
        payload: message.data.into(),
    })))
}

/// Makes the stream of all events if it is not there: also where no function of this node has `[[event]]`, events are published to
/// it. Why that fails shows at the functions that have, and whoever sends an event hears that no stream takes it.
pub(super) async fn keep_event_stream(client: &Client, events: Option<&EventStream>, replicas: u32) {
    let Some(events) = events else { return };
    if let Ok(None) = stream_info(client, &events.name).await {
        let _ = make_stream(client, objects::event_stream_request(events, replicas), &events.name).await; // see above
    }
}

async fn stream_info(client: &Client, name: &str) -> Result<Option<StreamInfo>, NotFound> {
    let subject = format!("$JS.API.STREAM.INFO.{name}");
    find(client, subject, &[error::STREAM_NOT_FOUND]).await
}

/// Makes a stream; returns when it was made.
async fn make_stream(client: &Client, request: (String, Vec<u8>), name: &str) -> Result<u64, NotFound> {
    let what = || format!("cannot make the stream `{name}`");
    let answer = ask(client, request).await?;
    match answers::read::<StreamInfo>(&answer) {
        Ok(made) => Ok(made.created_ns),
        // Another node was quicker, with another number of replicas perhaps.
        Err(bad) if bad.is(&[error::STREAM_NAME_EXISTS]) => match stream_info(client, name).await? {
            Some(found) => Ok(found.created_ns),
            None => Err(refused(&what(), &bad)),
        },
        Err(bad) => Err(refused(&what(), &bad)),
    }
}

/// Asks for something; nothing if the server answers with one of these errors.
async fn find<T: DeserializeOwned>(client: &Client, subject: String, missing: &[u32]) -> Result<Option<T>, NotFound> {
    let what = subject.trim_start_matches("$JS.API.").to_owned();
    let answer = ask(client, (subject, Vec::new())).await?;
    match answers::read(&answer) {
        Ok(found) => Ok(Some(found)),
        Err(bad) if bad.is(missing) => Ok(None),
        Err(bad) => Err(refused(&what, &bad)),
    }
}

fn refused(what: &str, bad: &BadAnswer) -> NotFound {
    NotFound::Missing(match bad {
        BadAnswer::Refused(error) => objects::refusal(what, error),
        BadAnswer::Unreadable(_) => format!("{what}: {bad}"),
    })
}

/// Sends a request and returns its answer.
pub(super) async fn ask(client: &Client, (subject, body): (String, Vec<u8>)) -> Result<Vec<u8>, NotFound> {
    let request = Request::new().payload(body.into()).timeout(Some(ANSWER_MAX));
    // The client's own time counts from the moment in which the connection has taken the request.
    let answer = timeout(ANSWER_MAX * 2, client.send_request(subject.clone(), request)).await;
    match answer {
        Ok(Ok(message)) => Ok(message.payload.into()),
        Ok(Err(failed)) => Err(match failed.kind() {
            // A server without JetStream has nothing that listens there.
            RequestErrorKind::NoResponders => {
                NotFound::Missing("JetStream is off in the server, or its cluster has no leader".to_owned())
            }
            // A right that is missing shows only in this way, and in an error that the server sends.
            RequestErrorKind::TimedOut => NotFound::NoAnswer(format!(
                "the server does not answer to `{subject}`: the user of `events.nats.credentials` may not have the \
                 right to it"
            )),
            RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded | RequestErrorKind::Other => {
                NotFound::Missing(failed.to_string())
            }
        }),
        Err(_) => Err(NotFound::NoAnswer("the connection is stalled".to_owned())),
    }
}
