//! The streams, the consumers and the bucket of the claims: the requests to make them, and the decision whether fnd
//! can use existing ones.
//!
//! Everything in the requests is known to servers from 2.9 on. Names of keys are those of the server's API.

use super::answers::{ApiError, ConsumerInfo, StreamConfig, StreamInfo, error};
use crate::triggers::nats::event::EventStream;
use crate::triggers::nats::rules::NatsRules;
use fnd_manifest::function::nats::{DeliverFrom, overlaps};
use fnd_wire::units::print_duration;
use serde_json::{Value, json};
use std::time::Duration;

/// Most messages that a consumer of fnd has given to all nodes together. The server's default of 1000 would stop 60
/// nodes with 16 messages each; what really bounds them is `max_in_flight` of each node.
const ACK_PENDING_MAX: u32 = 65_536;
/// For how long a stream of fnd refuses a second message with the same `Nats-Msg-Id`: the server's default.
const DUPLICATES: Duration = Duration::from_mins(2);
/// A bucket keeps its keys at least so long, whatever `[events] remember` says.
const KEEPS_LEAST: Duration = Duration::from_hours(24);

/// The retention of a stream in which a message is gone once it is acknowledged.
pub const WORK_QUEUE: &str = "workqueue";
/// Clocks of servers and of this machine differ by less, and a claim is read within less.
const CLAIMS_MARGIN: Duration = Duration::from_hours(1);

/// Where a consumer begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsumerStart {
    /// With the oldest message of the stream, or the next one.
    With(DeliverFrom),
    /// With what was stored since then, RFC 3339.
    Since(String),
}

impl From<DeliverFrom> for ConsumerStart {
    fn from(deliver: DeliverFrom) -> Self {
        Self::With(deliver)
    }
}

/// The facts that this fnd remembers of a consumer that it has seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerBefore<'a> {
    /// When it was made first, nanoseconds since 1970.
    pub made_ns: u64,
    /// The retention of its stream.
    pub retention: &'a str,
    /// For how long claims are kept.
    pub keeps: Duration,
    /// The wall clock, nanoseconds since 1970.
    pub now_ns: u64,
}

/// The next step for a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsumerStep {
    /// It is taken as it is. The text says what is wrong with it all the same; absent: nothing.
    Use(Option<String>),
    /// It is to be made, and begins here.
    Make(ConsumerStart),
    /// It is fnd's own and gets another configuration; where it begins stays as it is.
    Update(ConsumerStart),
    /// It cannot be used, and why.
    Leave(String),
}

/// Returns why the stream of an entry cannot be used; nothing if it can, or if fnd makes it. Without `found`, there is none of that
/// name.
#[must_use]
pub fn stream_problem(rules: &NatsRules, found: Option<&StreamInfo>) -> Option<String> {
    let name = rules.stream.as_deref().unwrap_or_default();
    let Some(found) = found else {
        let why = || format!("there is no stream `{name}` (`create = true` has fnd make it)");
        return (!rules.creates).then(why);
    };
    let (subjects, retention) = (&found.config.subjects, &found.config.retention);
    if rules.events.is_some() && retention != "limits" {
        return Some(format!(
            "the stream `{name}` has the retention `{retention}`: events need `limits`, so that each function gets each event"
        ));
    }
    // A stream that copies others has no subjects of its own.
    if subjects.is_empty() || subjects.iter().any(|subject| overlaps(subject, &rules.subject)) {
        return None;
    }
    let there = subjects.join("`, `");
    Some(format!(
        "the stream `{name}` has no messages with the subject `{}`, only `{there}`",
        rules.subject
    ))
}

/// Returns what is to be done about the consumer of an entry; absent: there is none of that name. `before` is present if this fnd has
/// seen one.
#[must_use]
pub fn consumer_step(
    rules: &NatsRules,
    found: Option<&ConsumerInfo>,
    before: Option<ConsumerBefore<'_>>,
) -> ConsumerStep {
    let name = &rules.consumer;
    let Some(found) = found else {
        return match (before, rules.is_own_consumer) {
            (None, _) => ConsumerStep::Make(rules.deliver.into()),
            (Some(before), true) => ConsumerStep::Make(begins_again(rules, before)),
            (Some(_), false) => ConsumerStep::Leave(format!(
                "the consumer `{name}` is gone: fnd makes only consumers of its default name again"
            )),
        };
    };
    let config = &found.config;
    let leave = |what: &str| ConsumerStep::Leave(format!("the consumer `{name}` {what}"));
    if config.deliver_subject.is_some() {
        return leave("sends its messages unasked (`deliver_subject`): fnd needs one that is asked for them");
    }
    if config.ack_policy != "explicit" {
        return leave(&format!("has `ack_policy` {}: fnd needs `explicit`", config.ack_policy));
    }
    let filters: Vec<&str> = match config.filter_subject.as_str() {
        "" => config.filter_subjects.iter().map(String::as_str).collect(),
        one => vec![one],
    };
    // Without a filter it has every message of its stream.
    let has_subject = filters.iter().any(|filter| overlaps(filter, &rules.subject)) || filters.is_empty();
    if !has_subject && !rules.is_own_consumer {
        return leave(&format!("has no messages with the subject `{}`", rules.subject));
    }
    let ack_wait = Duration::from_nanos(config.ack_wait);
    let is_as_wanted = ack_wait == rules.ack_wait && config.max_deliver == -1 && filters == [rules.subject.as_str()];
    if is_as_wanted {
        return ConsumerStep::Use(None);
    }
    if rules.is_own_consumer {
        // The server refuses to change where a consumer begins.
        let start = match (config.deliver_policy.as_str(), &config.opt_start_time) {
            ("by_start_time", Some(since)) => ConsumerStart::Since(since.clone()),
            ("new", _) => DeliverFrom::New.into(),
            _ => DeliverFrom::All.into(),
        };
        return ConsumerStep::Update(start);
    }
    ConsumerStep::Use(difference(rules, (ack_wait, config.max_deliver)))
}

/// Returns where a consumer begins that is made again. No message that was published since the consumer is gone may be left out.
/// Messages that were done before must be known by their claims: without claims they would run again.
fn begins_again(rules: &NatsRules, before: ConsumerBefore<'_>) -> ConsumerStart {
    if before.retention == WORK_QUEUE {
        return DeliverFrom::All.into(); // it has nothing that was done, and a work queue takes no other beginning
    }
    let known = nanoseconds(before.keeps.saturating_sub(CLAIMS_MARGIN));
    let since = before.now_ns.saturating_sub(known);
    let since = match rules.deliver {
        DeliverFrom::All => since,
        DeliverFrom::New => since.max(before.made_ns),
    };
    match jiff::Timestamp::from_nanosecond(since.into()) {
        Ok(since) => ConsumerStart::Since(since.to_string()),
        Err(_) => DeliverFrom::New.into(), // no clock shows such a time
    }
}

/// Returns the consequences of a consumer's configuration that is not fnd's own.
fn difference(rules: &NatsRules, (ack_wait, max_deliver): (Duration, i64)) -> Option<String> {
    let name = &rules.consumer;
    if ack_wait != rules.ack_wait {
        let (there, here) = (print_duration(ack_wait), print_duration(rules.ack_wait));
        return Some(format!(
            "the consumer `{name}` has an `ack_wait` of {there}, the manifest {here}"
        ));
    }
    (max_deliver != -1).then(|| {
        format!(
            "the consumer `{name}` delivers a message {max_deliver} times at most; after that it stays in the stream"
        )
    })
}

/// Returns the subject and the body of the request that makes the stream of an entry: a work queue, or the stream of events.
#[must_use]
pub fn stream_request(rules: &NatsRules, replicas: u32) -> (String, Vec<u8>) {
    if let Some(events) = &rules.events {
        return event_stream_request(events, replicas);
    }
    let name = rules.stream.as_deref().unwrap_or_default();
    let config = new_stream((name, &rules.subject), WORK_QUEUE, Duration::ZERO, replicas);
    create(&config)
}

/// Returns the same of the stream of events. It keeps an event for a time, whoever has it: a consumer that nobody reads costs nothing.
#[must_use]
pub fn event_stream_request(events: &EventStream, replicas: u32) -> (String, Vec<u8>) {
    let config = new_stream((&events.name, &events.subjects()), "limits", events.keeps, replicas);
    create(&config)
}

/// Returns how a stream is configured. One whose messages are never too old has the age 0.
fn new_stream((name, subject): (&str, &str), retention: &str, max_age: Duration, replicas: u32) -> Value {
    json!({
        "name": name,
        "subjects": [subject],
        "retention": retention,
        "storage": "file",
        "discard": "old",
        "num_replicas": replicas,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": nanoseconds(max_age),
        "duplicate_window": nanoseconds(DUPLICATES),
    })
}

fn create(config: &Value) -> (String, Vec<u8>) {
    let name = config["name"].as_str().unwrap_or_default();
    (format!("$JS.API.STREAM.CREATE.{name}"), bytes(config))
}

/// Returns the subject and the body of the request that makes the consumer of an entry, or gives it another
/// configuration.
#[must_use]
pub fn consumer_request(rules: &NatsRules, start: &ConsumerStart) -> (String, Vec<u8>) {
    let (stream, name) = (rules.stream.as_deref().unwrap_or_default(), &rules.consumer);
    let (policy, since) = match start {
        ConsumerStart::With(deliver) => (deliver.as_str(), None),
        ConsumerStart::Since(since) => ("by_start_time", Some(since)),
    };
    let mut body = json!({
        "stream_name": stream,
        "config": {
            "durable_name": name,
            "deliver_policy": policy,
            "ack_policy": "explicit",
            "ack_wait": nanoseconds(rules.ack_wait),
            // fnd counts; the server would leave a message in its work queue for ever.
            "max_deliver": -1,
            "max_ack_pending": ACK_PENDING_MAX,
            "filter_subject": rules.subject,
            "replay_policy": "instant",
            "num_replicas": 0,
        },
    });
    if let Some(since) = since {
        body["config"]["opt_start_time"] = since.as_str().into();
    }
    if let Some(events) = &rules.events {
        // Nobody knows when the last node forgets a function. After this time, its consumer has missed nothing but old events.
        body["config"]["inactive_threshold"] = nanoseconds(events.keeps).into();
    }
    // The newer subject `CONSUMER.CREATE.STREAM.NAME.FILTER` does the same, and a filter can make it too long.
    (format!("$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{name}"), bytes(&body))
}

/// Returns for how long a bucket must keep its keys.
#[must_use]
pub fn bucket_keeps(remember: Duration) -> Duration {
    remember.max(KEEPS_LEAST)
}

/// Returns the subject and the body of the request that makes the bucket of the claims: a stream, as ADR-8 of NATS
/// describes it.
#[must_use]
pub fn bucket_request(bucket: &str, replicas: u32, keeps: Duration) -> (String, Vec<u8>) {
    let (name, subjects) = (format!("KV_{bucket}"), format!("$KV.{bucket}.>"));
    let mut config = new_stream((&name, &subjects), "limits", keeps, replicas);
    config["discard"] = "new".into();
    config["max_msgs_per_subject"] = 1.into();
    config["duplicate_window"] = nanoseconds(DUPLICATES.min(keeps)).into();
    config["allow_rollup_hdrs"] = true.into();
    config["deny_delete"] = true.into();
    // A follower that lags behind must not prove that a node was silent.
    config["allow_direct"] = false.into();
    create(&config)
}

/// Returns what is wrong with a bucket that is there.
#[must_use]
pub fn bucket_problem(bucket: &str, config: &StreamConfig, keeps: Duration) -> Option<String> {
    let kept = Duration::from_nanos(config.max_age);
    (!kept.is_zero() && kept < keeps).then(|| {
        let (kept, keeps) = (print_duration(kept), print_duration(keeps));
        format!("the bucket `{bucket}` keeps its keys for {kept}; claims need {keeps} (events.remember, at least 24h)")
    })
}

/// Returns why the server has refused to make or to show something, in words that say what to do where fnd knows it.
#[must_use]
pub fn refusal(what: &str, refused: &ApiError) -> String {
    match refused.err_code {
        error::NOT_ENABLED | error::NOT_ENABLED_FOR_ACCOUNT => {
            "JetStream is off for this account of the server".to_owned()
        }
        error::CONSUMER_NOT_UNIQUE => {
            format!(
                "{what}: another consumer of this work queue has messages of the same subject, and a work queue \
                 allows one"
            )
        }
        _ => format!("{what}: {refused}"),
    }
}

/// Returns a time as the server reads it.
#[must_use]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn bytes(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}

#[cfg(test)]
mod tests;
