//! Which functions an event starts (`[[event]]`).

use super::Attributes;
use crate::data::Data;
use crate::glob::glob;
use crate::json::is_json;
use crate::places::conditions::{RequestValues, Test};
use fnd_manifest::function::EventSubscription;
use fnd_manifest::function::payload_schema::{DATA_MAX, PayloadSchema};
use fnd_wire::ids::FunctionName;
use serde_json::Value;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;

/// An entry of `[[event]]` of a function.
#[derive(Debug)]
struct Subscription {
    entry: EventSubscription,
    conditions: Vec<Test>,
    /// The schema, compiled once for each version of the function. If compiling failed, no data matches.
    schema: Option<Result<PayloadSchema, String>>,
}

/// The subscriptions of all functions that serve.
#[derive(Debug, Default)]
pub struct Subscriptions {
    functions: Vec<Subscriber>,
    /// Entries by their type: the index in `functions` and the index in its `entries`. In `prefixes`, by the part
    /// before the `*`.
    exact: BTreeMap<String, Vec<(usize, usize)>>,
    prefixes: BTreeMap<String, Vec<(usize, usize)>>,
}

#[derive(Debug)]
struct Subscriber {
    function: FunctionName,
    /// `limits.body`.
    body_max: u64,
    entries: Vec<Subscription>,
}

/// A function that takes an event, or the reason why it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventShare<'a> {
    /// The function whose subscription matches the event.
    pub function: &'a FunctionName,
    /// The value of `key` (absent if the entry has no `key` or the event has no value there), or the refusal.
    pub taken: Result<Option<String>, SubscriptionRefusal>,
}

/// Why a function whose subscription matches does not take an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionRefusal {
    /// The data does not match the schema.
    #[error("the data does not match `{file}`: {problem}")]
    Schema {
        /// The file of the schema.
        file: String,
        /// The place in the data, and what is wrong there.
        problem: String,
    },
    /// The data is larger than the function takes.
    #[error("the data has {size} bytes, more than {max} ({key})")]
    TooLarge {
        /// Bytes of the data.
        size: u64,
        /// Most bytes that the function takes.
        max: u64,
        /// The limit: `limits.body` or `schema`.
        key: &'static str,
    },
}

/// An event with its data, prepared for comparing it with subscriptions.
pub struct EventSeen<'a> {
    attributes: &'a Attributes,
    size: u64,
    bytes: Cow<'a, [u8]>,
    /// The data as a tree, for schemas. It is parsed when the first schema needs it.
    tree: OnceCell<Result<Value, String>>,
}

impl<'a> EventSeen<'a> {
    /// Returns an event with its data.
    ///
    /// # Errors
    /// The data is on a disk that cannot be read.
    pub fn new(attributes: &'a Attributes, data: Option<&'a Data>) -> io::Result<Self> {
        Ok(Self {
            attributes,
            size: data.map_or(0, Data::size),
            bytes: data.map_or(Ok(Cow::Borrowed(&[][..])), Data::bytes)?,
            tree: OnceCell::new(),
        })
    }

    fn tree(&self) -> Result<&Value, &str> {
        let tree = self.tree.get_or_init(|| match self.bytes.as_ref() {
            [] => Err("the event has no data".to_owned()),
            _ if !self.attributes.has_json() => Err("the data is not JSON".to_owned()),
            bytes => serde_json::from_slice(bytes).map_err(|error| format!("the data is not JSON: {error}")),
        });
        tree.as_ref().map_err(String::as_str)
    }
}

impl Subscriptions {
    /// Returns the table of these functions: each with its name, the entries of its manifest, and its `limits.body`.
    #[must_use]
    pub fn new<'m>(functions: impl IntoIterator<Item = (FunctionName, &'m [EventSubscription], u64)>) -> Self {
        let mut table = Self::default();
        for (function, entries, body_max) in functions {
            let place = table.functions.len();
            for (number, entry) in entries.iter().enumerate() {
                let (by, text) = match entry.r#type.strip_suffix('*') {
                    Some(prefix) => (&mut table.prefixes, prefix),
                    None => (&mut table.exact, entry.r#type.as_str()),
                };
                by.entry(text.to_owned()).or_default().push((place, number));
            }
            table.functions.push(Subscriber {
                function,
                body_max,
                entries: entries.iter().map(Subscription::new).collect(),
            });
        }
        table
    }

    /// Returns the largest `limits.body` of a function with subscriptions.
    #[must_use]
    pub fn body_max(&self) -> Option<u64> {
        self.functions.iter().map(|subscriber| subscriber.body_max).max()
    }

    /// Returns the functions whose subscriptions match an event, each once, in the order in which they were given. A
    /// function takes the event if one of its matching entries does.
    #[must_use]
    pub fn shares(&self, event: &EventSeen<'_>) -> Vec<EventShare<'_>> {
        let kind = &event.attributes.kind;
        // Each beginning of the type is looked up, so the time does not grow with the number of functions.
        let ends = kind.char_indices().map(|(at, _)| at).chain([kind.len()]);
        let prefixes = ends.filter_map(|end| self.prefixes.get(kind.get(..end)?));
        let mut places: Vec<(usize, usize)> = self
            .exact
            .get(kind)
            .into_iter()
            .chain(prefixes)
            .flatten()
            .copied()
            .collect();
        // The entries of one function come one after the other now, so the last share is the one to compare with.
        places.sort_unstable();
        let mut shares: Vec<EventShare<'_>> = Vec::new();
        for (place, number) in places {
            let Some(subscriber) = self.functions.get(place) else {
                continue;
            };
            let Some(entry) = subscriber.entries.get(number).filter(|entry| entry.matches(event)) else {
                continue;
            };
            match shares.last_mut().filter(|share| *share.function == subscriber.function) {
                // An earlier entry takes the event: a function gets each event once.
                Some(share) if share.taken.is_ok() => {}
                Some(share) => {
                    if let Ok(key) = entry.take(event, subscriber.body_max) {
                        share.taken = Ok(key);
                    }
                }
                None => shares.push(EventShare {
                    function: &subscriber.function,
                    taken: entry.take(event, subscriber.body_max),
                }),
            }
        }
        shares
    }
}

impl Subscription {
    fn new(entry: &EventSubscription) -> Self {
        Self {
            conditions: entry.when.iter().map(Test::new).collect(),
            schema: entry.schema.is_some().then(|| {
                let unread = || "its file was not read".to_owned();
                PayloadSchema::new(entry.json_schema.as_ref().ok_or_else(unread)?)
            }),
            entry: entry.clone(),
        }
    }

    /// Says whether everything but the type matches.
    fn matches(&self, event: &EventSeen<'_>) -> bool {
        let EventSubscription { source, version, .. } = &self.entry;
        let attributes = event.attributes;
        let subject = |pattern: &String| {
            attributes
                .subject
                .as_deref()
                .is_some_and(|subject| glob(pattern, subject))
        };
        source.as_ref().is_none_or(|source| *source == attributes.source)
            && self.entry.subject.as_ref().is_none_or(subject)
            && version
                .as_deref()
                .is_none_or(|version| attributes.version() == Some(version))
            && with_facts(event, |facts| self.conditions.iter().all(|test| test.holds(facts)))
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// The function does not take this data.
    fn take(&self, event: &EventSeen<'_>, body_max: u64) -> Result<Option<String>, SubscriptionRefusal> {
        let too_large = |max: u64, key| match event.size > max {
            true => Err(SubscriptionRefusal::TooLarge {
                size: event.size,
                max,
                key,
            }),
            false => Ok(()),
        };
        // The size comes first: data above the limits is never parsed.
        too_large(body_max, "limits.body")?;
        if let Some(schema) = &self.schema {
            too_large(DATA_MAX, "the most that is checked against a schema")?;
            let file = self.entry.schema.clone().unwrap_or_default();
            let checked = match schema {
                Ok(schema) => event
                    .tree()
                    .map_err(str::to_owned)
                    .and_then(|data| schema.check(data, event.size)),
                // The judge compiled the schema before, so this should not happen.
                Err(why) => Err(format!("the schema is unusable: {why}")),
            };
            checked.map_err(|problem| SubscriptionRefusal::Schema { file, problem })?;
        }
        let key = self.entry.key.as_ref();
        Ok(key.and_then(|place| with_facts(event, |facts| facts.values(place).into_iter().next())))
    }
}

/// Calls a function with the facts that conditions look at. Attributes are headers `ce-NAME` for every form of event.
fn with_facts<T>(event: &EventSeen<'_>, look: impl FnOnce(&RequestValues<'_>) -> T) -> T {
    let header = |name: &str| {
        let value = name.strip_prefix("ce-").and_then(|name| event.attributes.get(name));
        value.map(str::to_owned).into_iter().collect()
    };
    let stated = event.attributes.datacontenttype.as_deref();
    look(&RequestValues {
        header: &header,
        query: "",
        content_type: stated.filter(|stated| !is_json(stated)).unwrap_or("application/json"),
        body: &event.bytes,
        ip: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_manifest::function::route::{Condition, RequestPlace};
    use proptest::prelude::*;
    use serde_json::json;

    fn entry(kind: &str) -> EventSubscription {
        EventSubscription {
            r#type: kind.to_owned(),
            source: None,
            subject: None,
            version: None,
            schema: None,
            when: Vec::new(),
            key: None,
            json_schema: None,
        }
    }

    fn name(name: &str) -> FunctionName {
        FunctionName::new(name).unwrap()
    }

    fn attributes(kind: &str) -> Attributes {
        Attributes {
            id: "1".to_owned(),
            source: "shop".to_owned(),
            kind: kind.to_owned(),
            ..Attributes::default()
        }
    }

    /// Returns what a function with one entry makes of an event.
    fn share(
        entry: EventSubscription,
        attributes: &Attributes,
        data: &str,
    ) -> Option<Result<Option<String>, SubscriptionRefusal>> {
        let entries = [entry];
        let table = Subscriptions::new([(name("f"), &entries[..], 1000)]);
        let data = (!data.is_empty()).then(|| Data::from(data.as_bytes()));
        let seen = EventSeen::new(attributes, data.as_ref()).unwrap();
        table.shares(&seen).first().map(|share| share.taken.clone())
    }

    #[test]
    fn everything_that_an_entry_names_must_match() {
        let mut event = attributes("order.created");
        event.subject = Some("orders/7".to_owned());
        event.extensions.insert("eventtypeversion".to_owned(), "v1".to_owned());
        let matches = |change: &dyn Fn(&mut EventSubscription)| {
            let mut entry = entry("order.*");
            change(&mut entry);
            share(entry, &event, "").is_some()
        };
        let some = |text: &str| Some(text.to_owned());
        assert!(matches(&|_| {}));
        assert!(matches(&|entry| entry.source = some("shop")) && !matches(&|entry| entry.source = some("sho")));
        assert!(
            matches(&|entry| entry.subject = some("orders/*")) && !matches(&|entry| entry.subject = some("orders"))
        );
        assert!(matches(&|entry| entry.version = some("v1")) && !matches(&|entry| entry.version = some("v2")));
        let when = |place: &str, is: &str| Condition {
            place: RequestPlace::parse(place).unwrap(),
            is: vec![is.to_owned()],
            not: Vec::new(),
            matches: None,
        };
        assert!(matches(
            &|entry| entry.when = vec![when("header.ce-subject", "orders/7")]
        ));
        assert!(!matches(
            &|entry| entry.when = vec![when("header.ce-subject", "orders/8")]
        ));
        assert!(
            !matches(&|entry| entry.when = vec![when("body.total", "7")]),
            "there is no data"
        );
    }

    #[test]
    fn conditions_and_keys_look_into_the_data() {
        let mut entry = entry("a");
        entry.key = RequestPlace::parse("body.order");
        entry.when = vec![Condition {
            place: RequestPlace::parse("body.total").unwrap(),
            is: Vec::new(),
            not: Vec::new(),
            matches: Some("^[0-9]{4,}$".to_owned()),
        }];
        let event = attributes("a");
        assert_eq!(
            share(entry.clone(), &event, r#"{"total": 1200, "order": 7}"#),
            Some(Ok(Some("7".to_owned())))
        );
        assert_eq!(share(entry.clone(), &event, r#"{"total": 1200}"#), Some(Ok(None)));
        assert_eq!(share(entry, &event, r#"{"total": 120}"#), None);
    }

    #[test]
    fn data_that_a_function_does_not_take_is_refused_with_its_place() {
        let mut entry = entry("a");
        entry.schema = Some("a.json".to_owned());
        entry.json_schema = Some(json!({"properties": {"n": {"type": "integer"}}}));
        let event = attributes("a");
        assert_eq!(share(entry.clone(), &event, r#"{"n": 1}"#), Some(Ok(None)));
        let wrong = share(entry.clone(), &event, r#"{"n": "x"}"#).unwrap().unwrap_err();
        assert!(
            wrong
                .to_string()
                .starts_with("the data does not match `a.json`: `/n`: "),
            "{wrong}"
        );
        let none = share(entry.clone(), &event, "").unwrap().unwrap_err();
        assert!(none.to_string().ends_with("the event has no data"), "{none}");
        let mut text = event.clone();
        text.datacontenttype = Some("text/plain".to_owned());
        assert!(share(entry.clone(), &text, "1").unwrap().is_err());
        let large = share(entry, &event, &format!("\"{}\"", "x".repeat(1000)))
            .unwrap()
            .unwrap_err();
        assert_eq!(
            large.to_string(),
            "the data has 1002 bytes, more than 1000 (limits.body)"
        );
    }

    #[test]
    fn a_function_gets_an_event_once_and_takes_it_by_any_entry() {
        let mut strict = entry("a");
        (strict.schema, strict.json_schema) = (Some("a.json".to_owned()), Some(json!(false)));
        let both = [strict.clone(), entry("a*")];
        let (strict, twice) = ([strict], [entry("*"), entry("a")]);
        let table = Subscriptions::new([
            (name("both"), &both[..], 10),
            (name("strict"), &strict[..], 10),
            (name("twice"), &twice[..], 10),
        ]);
        let event = attributes("a");
        let data = Data::from(b"1");
        let seen = EventSeen::new(&event, Some(&data)).unwrap();
        let shares = table.shares(&seen);
        let taken: Vec<_> = shares
            .iter()
            .map(|share| (share.function.as_str(), share.taken.is_ok()))
            .collect();
        assert_eq!(taken, [("both", true), ("strict", false), ("twice", true)]);
        assert_eq!(table.body_max(), Some(10));
    }

    /// Says whether a text matches a pattern, by trying every length for each `*`.
    fn naive(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|skipped| naive(rest, &text[skipped..])),
            Some((c, rest)) => text
                .split_first()
                .is_some_and(|(first, text)| first == c && naive(rest, text)),
        }
    }

    fn naively(pattern: &str, text: &str) -> bool {
        let characters = |text: &str| text.chars().collect::<Vec<_>>();
        naive(&characters(pattern), &characters(text))
    }

    prop_compose! {
        fn any_entry()(kind in "[ab.ä]{0,3}\\*?", subject in prop::option::of("[ab/*]{1,4}"), source in prop::option::of("[ab]")) -> EventSubscription {
            EventSubscription { source, subject, ..entry(&kind) }
        }
    }

    proptest! {
        #[test]
        fn the_table_finds_what_a_naive_search_finds(
            functions in prop::collection::vec(prop::collection::vec(any_entry(), 0..4), 0..6),
            kind in "[ab.ä]{1,4}", source in "[ab]", subject in prop::option::of("[ab/]{1,4}"),
        ) {
            let named: Vec<_> = functions.iter().enumerate().map(|(number, entries)| (name(&format!("f{number}")), entries)).collect();
            let table = Subscriptions::new(named.iter().map(|(name, entries)| (name.clone(), &entries[..], 10)));
            let event = Attributes { source, subject, ..attributes(&kind) };
            let seen = EventSeen::new(&event, None).unwrap();
            let found: Vec<_> = table.shares(&seen).into_iter().map(|share| share.function.clone()).collect();
            let takes = |entry: &&EventSubscription| {
                naively(&entry.r#type, &event.kind)
                    && entry.source.as_ref().is_none_or(|source| *source == event.source)
                    && entry.subject.as_ref().is_none_or(|pattern| event.subject.as_ref().is_some_and(|text| naively(pattern, text)))
            };
            let expected: Vec<_> = named.iter().filter(|(_, entries)| entries.iter().any(|entry| takes(&entry))).map(|(name, _)| name.clone()).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
