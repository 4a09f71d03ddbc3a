//! The messages that a version of a function wants: its entries of `[[nats]]`, and its events where these go through a stream. And
//! what it makes of a message.

use super::fact::DeliveredMessage;
use super::outgoing::EndTargets;
use fnd_core::lifecycle::installed_version::ServingVersion;
use fnd_core::places::conditions::Test;
use fnd_core::triggers::event::subscription::Subscriptions;
use fnd_core::triggers::nats::event::{self, EventStream};
use fnd_core::triggers::nats::message::{self, BadMessage, ReadMessage};
use fnd_core::triggers::nats::rules::{FunctionLimits, NatsRules};
use fnd_manifest::function::route::Condition;
use fnd_manifest::function::{EventSubscription, Manifest, NatsTrigger, OverlapKey};
use fnd_wire::ids::FunctionName;
use std::sync::Arc;

/// The messages that a function wants.
#[derive(Debug)]
pub(crate) struct WantedMessages {
    /// Whether it takes messages: it is enabled, and a version of it serves.
    pub(crate) takes_work: bool,
    pub(crate) limits: FunctionLimits,
    /// In the order of the manifest.
    pub(crate) entries: Vec<WantedEntry>,
}

/// An entry of `[[nats]]` that a function wants, or all its entries of `[[event]]`.
#[derive(Debug, PartialEq)]
pub(crate) struct WantedEntry {
    pub(crate) rules: Arc<NatsRules>,
    /// `when`, and the same with its expressions compiled.
    pub(crate) when: Vec<Condition>,
    pub(crate) tests: Compiled<Vec<Test>>,
    /// `limits.body`.
    pub(crate) body_max: u64,
    /// Whether a message replaces an older run (`queue.overlap = "replace"`). Other policies are not for messages, which wait.
    pub(crate) replaces: bool,
    /// Whether each accepted message counts for `queue.rate`.
    pub(crate) is_rated: bool,
    pub(crate) targets: EndTargets,
    /// Whether the manifest names targets, and its author may not publish to them.
    pub(crate) is_mute: bool,
    /// The entries of `[[event]]`; absent: it is one of `[[nats]]`.
    pub(crate) events: Option<WantedEvents>,
}

/// The events that a function wants.
#[derive(Debug, PartialEq)]
pub(crate) struct WantedEvents {
    pub(crate) entries: Vec<EventSubscription>,
    /// The same, with their schemas and expressions compiled.
    pub(crate) table: Compiled<Subscriptions>,
}

/// Something that is compiled of a part of the manifest, which is compared in its place.
#[derive(Debug)]
pub(crate) struct Compiled<T>(pub(crate) T);

impl<T> PartialEq for Compiled<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl WantedMessages {
    /// Returns the messages that a version wants; nothing if it wants none. Its events come through `stream`; absent: not as messages.
    /// `may_publish` says whether its author may have messages published, which may run functions of everybody.
    pub(crate) fn of(
        function: &FunctionName,
        serving: &ServingVersion,
        (takes_work, may_publish): (bool, bool),
        stream: Option<&EventStream>,
    ) -> Option<Self> {
        let manifest = &*serving.manifest;
        let limits = FunctionLimits::from(manifest);
        let entries = manifest.nats.iter();
        let events = stream.and_then(|stream| WantedEntry::of_events(function, manifest, stream));
        let entries: Vec<WantedEntry> = entries
            .map(|entry| WantedEntry::of(function, (manifest, entry), may_publish))
            .chain(events)
            .collect();
        (!entries.is_empty()).then_some(Self {
            takes_work,
            limits,
            entries,
        })
    }
}

impl WantedEntry {
    /// Returns an entry of `[[nats]]`.
    fn of(function: &FunctionName, (manifest, entry): (&Manifest, &NatsTrigger), may_publish: bool) -> Self {
        let rules = NatsRules::of(function, entry, FunctionLimits::from(manifest));
        let named = EndTargets::of(entry);
        let is_mute = !may_publish && named != EndTargets::default();
        Self {
            rules: Arc::new(rules),
            when: entry.when.clone(),
            tests: Compiled(entry.when.iter().map(Test::new).collect()),
            body_max: manifest.limits.body,
            replaces: manifest.queue.overlap == OverlapKey::Replace,
            is_rated: manifest.queue.rate.is_some(),
            targets: if may_publish { named } else { EndTargets::default() },
            is_mute,
            events: None,
        }
    }

    /// Returns the entry for all events that a function wants; nothing if it wants none.
    fn of_events(function: &FunctionName, manifest: &Manifest, stream: &EventStream) -> Option<Self> {
        let entries = manifest.event.clone();
        let rules = NatsRules::of_events(function, &entries, stream, FunctionLimits::from(manifest));
        let table = Subscriptions::new([(function.clone(), &entries[..], manifest.limits.body)]);
        (!entries.is_empty()).then(|| Self {
            rules: Arc::new(rules),
            events: Some(WantedEvents {
                table: Compiled(table),
                entries,
            }),
            // Such an entry has no conditions of its own and publishes nothing.
            ..Self::of(function, (manifest, &NatsTrigger::default()), true)
        })
    }

    /// Reads a message. Nothing: the function does not want it.
    pub(super) fn read(&self, message: &DeliveredMessage) -> Option<Result<ReadMessage, BadMessage>> {
        let view = message.view();
        if let Some(events) = &self.events {
            return event::read(&view, &events.table.0);
        }
        let read = message::read(&view, self.body_max);
        let holds = read.as_ref().map_or(true, |read| read.holds(&view, &self.tests.0));
        holds.then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, delivered, function, serving, wanted, wanted_entry};
    use super::*;
    use fnd_core::records::Attributes;
    use fnd_manifest::schema::pick::FromValue as _;

    /// Its author may operate some functions only, and a message may run all of them.
    #[test]
    fn what_an_author_may_not_publish_is_a_problem() {
        let manifest = Manifest::from_value(None).unwrap();
        let entry = NatsTrigger {
            subject: "x".to_owned(),
            stream: Some("ORDERS".to_owned()),
            result: Some("done".to_owned()),
            ..NatsTrigger::default()
        };
        let of = |may_publish| WantedEntry::of(&function("f"), (&manifest, &entry), may_publish);
        assert_eq!((of(true).targets, of(true).is_mute), (EndTargets::of(&entry), false));
        let mut messages = serving(of(true));
        assert!(messages.problems(at(1).mono).is_empty());
        let mute = of(false);
        assert_eq!(mute.targets, EndTargets::default());
        messages.wants(&function("f"), Some(wanted(vec![mute])));
        let problems = messages.problems(at(1).mono);
        assert_eq!((problems.len(), problems[0].code), (1, "nats-stream"));
        assert!(problems[0].text.contains("its author may not operate every function"));
    }

    #[test]
    fn an_event_is_read_if_the_function_wants_it() {
        let entries = vec![EventSubscription {
            r#type: "order.*".to_owned(),
            ..EventSubscription::from_value(None).unwrap()
        }];
        let entry = WantedEntry {
            events: Some(WantedEvents {
                table: Compiled(Subscriptions::new([(function("f"), &entries[..], 100)])),
                entries,
            }),
            ..wanted_entry("f", "x")
        };
        let read = |kind: &str| {
            let attributes = Attributes {
                id: "7".to_owned(),
                source: "shop".to_owned(),
                kind: kind.to_owned(),
                ..Attributes::default()
            };
            let message = DeliveredMessage {
                headers: event::headers(&attributes, "a", 0),
                ..delivered(1, 7, 1)
            };
            entry.read(&message)
        };
        assert!(matches!(read("order.paid"), Some(Ok(read)) if read.subscribed.is_some()));
        assert_eq!(read("invoice"), None);
        // As an entry of `[[nats]]`, it is a message.
        let message = wanted_entry("f", "x").read(&delivered(1, 7, 1));
        assert!(matches!(message, Some(Ok(read)) if read.subscribed.is_none()));
    }
}
