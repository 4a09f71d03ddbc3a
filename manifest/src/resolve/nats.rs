//! Checks the entries of `[[nats]]`: what they exclude, and what cannot work.

use super::subject::FunctionProblems;
use crate::function::nats::{AckMode, DeliverFrom, overlaps};
use crate::function::route::RequestPlace;
use crate::function::{Manifest, Mode, NatsTrigger, RetryOn};
use crate::schema::tree::{TomlNode, TomlTable, entries, place};
use crate::settings::NatsSettings;
use fnd_wire::units::print_duration;
use std::time::Duration;

/// Shortest `ack_wait`: signs of life come three times in it, and a busy machine may be late by half a second.
const ACK_WAIT_LEAST: Duration = Duration::from_secs(2);
/// The time that the end of an attempt takes beyond its grace period: see `LEASE_MARGIN` in fnd-core.
const LEASE_MARGIN: Duration = Duration::from_secs(2);
/// Keys that have a meaning only where a stream delivers the messages.
const OF_STREAMS: [&str; 10] = [
    "ack",
    "ack_wait",
    "consumer",
    "create",
    "dead_letters",
    "deliver",
    "max_deliver",
    "max_in_flight",
    "result",
    "stream",
];

/// Reports what is wrong with the entries; `own` is the manifest in which they are written. `node` is `[events.nats]` of fnd.toml.
pub(super) fn check(
    manifest: &Manifest,
    own: &TomlTable,
    (mode, settings): (Mode, Option<&NatsSettings>),
    report: &mut FunctionProblems<'_>,
) {
    let of_events = settings.and_then(|settings| settings.stream.as_deref());
    let nodes = entries(own, "nats");
    for (number, entry) in manifest.nats.iter().enumerate() {
        let node = nodes.get(number);
        let mut wrong = |key: &str, code, (message, help): (String, &str)| {
            report.error(place(node, key), code, message, help);
        };
        if mode == Mode::Service {
            let message = "`[[nats]]` has no effect on a service, which is kept running and never invoked".to_owned();
            wrong("subject", "impossible", (message, "remove it"));
        }
        if settings.is_none() {
            let message = "`[[nats]]` needs a server, and fnd.toml has no `[events.nats]`".to_owned();
            let help =
                "add `[events.nats]` with `servers = [\"nats://HOST:4222\"]` to fnd.toml, then run `fndctl reload`";
            wrong("subject", "impossible", (message, help));
        }
        for (key, message, help) in excluded(entry, node).into_iter().chain(times(entry, manifest)) {
            wrong(key, "impossible", (message, help));
        }
        if let Some(stream) = entry.stream.as_deref().filter(|stream| of_events == Some(*stream)) {
            let message = format!(
                "`stream = \"{stream}\"` is the stream of `[events.nats]` in fnd.toml, through which `[[event]]` of all nodes goes"
            );
            let help = "subscribe with `[[event]]`, or name another stream";
            wrong("stream", "impossible", (message, help));
        }
        for condition in &entry.when {
            if let Some(name) = elsewhere(&condition.place) {
                let message = format!("`{name}` in `when`: a message has only `body.NAME` and `header.NAME`");
                wrong("when", "impossible", (message, "use one of these two"));
            }
        }
        for (other, earlier) in manifest.nats.iter().take(number).enumerate() {
            let Some((key, message, help)) = twice(entry, earlier) else {
                continue;
            };
            wrong(key, "twice", (format!("{message} (entry {})", other + 1), help));
        }
    }
}

type Wrong = (&'static str, String, &'static str);

/// Returns which keys exclude each other.
fn excluded(entry: &NatsTrigger, node: Option<&TomlNode>) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if entry.reply {
        let table = node.and_then(|node| node.value.as_table());
        let is_written = |key: &&str| table.is_some_and(|table| table.contains_key(*key));
        wrong.extend(OF_STREAMS.into_iter().filter(is_written).map(|key| {
            let message =
                format!("`{key}` has no effect with `reply`: a request is in no stream, and its answer is its end");
            (key, message, "remove one of the two")
        }));
        // A wildcard at the beginning stands for `_INBOX`, `$JS` and `$KV`.
        if overlaps(&entry.subject, "_INBOX.>") {
            let message = format!(
                "`subject = \"{}\"` has what fnd itself asks the server, or the answers that others wait for: the function would \
                 answer that, too",
                entry.subject
            );
            let help = "begin the subject with a word of your own, as in `prices.>`";
            wrong.push(("subject", message, help));
        }
        return wrong;
    }
    if entry.stream.is_none() {
        let message = "the entry names no `stream`, which stores the messages until they are handled".to_owned();
        let help = "name the stream (`nats stream ls` lists them), or set `reply = true` to answer requests";
        wrong.push(("subject", message, help));
    }
    if entry.create && entry.deliver == DeliverFrom::New {
        let message =
            "`deliver = \"new\"` is impossible with `create`: the stream is a work queue, which delivers all messages";
        wrong.push(("deliver", message.to_owned(), "remove one of the two"));
    }
    for (key, target) in [("dead_letters", &entry.dead_letters), ("result", &entry.result)] {
        if let Some(target) = target.as_ref().filter(|target| overlaps(target, &entry.subject)) {
            let message =
                format!("`{key} = \"{target}\"` is one of the subjects of this entry: it would run the function again");
            wrong.push((key, message, "name a subject that `subject` does not match"));
        }
    }
    wrong
}

/// Returns what the times of an entry exclude.
fn times(entry: &NatsTrigger, manifest: &Manifest) -> Option<Wrong> {
    if entry.reply {
        return None;
    }
    let least = print_duration(ACK_WAIT_LEAST);
    if entry.ack_wait < ACK_WAIT_LEAST {
        let message = format!("`ack_wait` is {}, less than {least}", print_duration(entry.ack_wait));
        let help = "the server would deliver messages again while they run: set it to 2s or more";
        return Some(("ack_wait", message, help));
    }
    let grace = manifest.limits.grace;
    let rest = grace.saturating_add(LEASE_MARGIN);
    let may_begin_again = manifest.retry.on.contains(&RetryOn::Interrupted);
    if entry.ack == AckMode::Done && may_begin_again && entry.ack_wait <= rest {
        let message = format!(
            "`ack_wait` of {} is not above `limits.grace` of {} and {}: with `interrupted` in `retry.on` another node may begin the \
             work again, and an attempt must have ended before that",
            print_duration(entry.ack_wait),
            print_duration(grace),
            print_duration(LEASE_MARGIN),
        );
        return Some(("ack_wait", message, "raise `ack_wait`, or lower `limits.grace`"));
    }
    None
}

/// Returns what two entries of a function have in common that they must not.
fn twice(entry: &NatsTrigger, earlier: &NatsTrigger) -> Option<Wrong> {
    if entry == earlier {
        let message = "two entries of `[[nats]]` are the same".to_owned();
        return Some(("subject", message, "remove one of the two"));
    }
    let is_stream = |entry: &NatsTrigger| entry.stream.is_some() && !entry.reply;
    // Without a name, both have that of the function.
    if is_stream(entry) && is_stream(earlier) && entry.stream == earlier.stream && entry.consumer == earlier.consumer {
        let message = "two entries of `[[nats]]` have the same stream and the same consumer".to_owned();
        let help =
            "give one of them another `consumer`, or make one entry whose `subject` matches the messages of both";
        let key = if entry.consumer.is_some() {
            "consumer"
        } else {
            "subject"
        };
        return Some((key, message, help));
    }
    None
}

/// Returns the text of a place that messages do not have.
fn elsewhere(place: &RequestPlace) -> Option<String> {
    match place {
        RequestPlace::Body(_) | RequestPlace::Header(_) => None,
        RequestPlace::Query(_) | RequestPlace::Ip => Some(place.clone().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(subject: &str) -> NatsTrigger {
        NatsTrigger {
            subject: subject.to_owned(),
            stream: Some("ORDERS".to_owned()),
            ..NatsTrigger::default()
        }
    }

    #[track_caller]
    fn check(wrong: &[Wrong], expected: &[(&str, &str)]) {
        assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
        for ((key, message, help), (expected_key, part)) in wrong.iter().zip(expected) {
            assert_eq!(key, expected_key, "{message}");
            assert!(message.contains(part) && !help.is_empty(), "{message}");
        }
    }

    #[test]
    fn keys_that_exclude_each_other_are_named() {
        check(&excluded(&entry("orders.>"), None), &[]);
        let no_stream = NatsTrigger {
            stream: None,
            ..entry("orders.>")
        };
        check(&excluded(&no_stream, None), &[("subject", "names no `stream`")]);
        let new = NatsTrigger {
            create: true,
            deliver: DeliverFrom::New,
            ..entry("orders.>")
        };
        check(&excluded(&new, None), &[("deliver", "work queue")]);
        let around = NatsTrigger {
            dead_letters: Some("orders.dead".to_owned()),
            result: Some("done.orders".to_owned()),
            ..entry("orders.>")
        };
        check(&excluded(&around, None), &[("dead_letters", "run the function again")]);
        let reply = NatsTrigger {
            reply: true,
            stream: None,
            ..entry("orders.price")
        };
        check(&excluded(&reply, None), &[]);
    }

    #[test]
    fn a_function_answers_nothing_that_is_asked_of_the_server() {
        let wrong = |subject: &str| {
            let reply = NatsTrigger {
                reply: true,
                stream: None,
                ..entry(subject)
            };
            excluded(&reply, None)
        };
        for subject in [">", "*.>", "*.price", "_INBOX.a"] {
            check(&wrong(subject), &[("subject", "what fnd itself asks the server")]);
        }
        for subject in ["prices.>", "prices.*", "*"] {
            check(&wrong(subject), &[]);
        }
    }

    #[test]
    fn two_entries_share_no_consumer() {
        let named = |consumer: &str| NatsTrigger {
            consumer: Some(consumer.to_owned()),
            ..entry("returns.>")
        };
        let twice = |one: &NatsTrigger, other: &NatsTrigger| twice(one, other).map(|(key, ..)| key);
        assert_eq!(twice(&entry("a"), &entry("a")), Some("subject"));
        assert_eq!(twice(&entry("a"), &entry("b")), Some("subject"));
        assert_eq!(twice(&named("c"), &entry("a")), None);
        let of_orders = NatsTrigger {
            subject: "a".to_owned(),
            ..named("c")
        };
        assert_eq!(twice(&named("c"), &of_orders), Some("consumer"));
    }
}
