//! The entries of `[[nats]]` of the functions that serve, and those of `[[event]]` where events go through a stream: all of a
//! function are one entry. Each has a number, which stays the same as long as its rules do. Entries of functions that take no
//! messages are known, but the thread does not hear of them: it makes no consumer for them.

use super::books::{EntryBook, FunctionBook, TakenPlace};
use super::request::{NatsEntry, NatsRequest};
use super::wanted::WantedMessages;
use super::{MessageEffect, Messages};
use fnd_core::records::MessageMark;
use fnd_core::triggers::nats::rules::{FunctionLimits, NatsRules, queue_group};
use fnd_manifest::function::NatsTrigger;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::sync::Arc;
use std::time::Duration;

/// The limits for a message that an earlier fnd has accepted and whose function has no entry any more. The rules by which the
/// message was claimed are not known, so no other node begins the message.
const NO_ENTRY: FunctionLimits = FunctionLimits {
    places: 1,
    timeout: None,
    grace: Duration::ZERO,
    retries_interrupted: false,
};

impl Messages {
    /// Says whether a function takes messages.
    pub(super) fn takes_work(&self, function: &FunctionName) -> bool {
        self.functions.get(function).is_some_and(|book| book.takes_work)
    }

    /// Returns the entries of a function with their numbers, in the order of its manifest.
    pub(super) fn entries_of<'a>(&'a self, book: &'a FunctionBook) -> impl Iterator<Item = (u32, &'a EntryBook)> {
        let numbers = book.entries.iter();
        numbers.filter_map(move |number| Some((*number, self.entries.get(number)?)))
    }

    /// Takes the messages that a function wants from now on; absent: none. Messages that it has already go on.
    pub(crate) fn wants(&mut self, function: &FunctionName, wanted: Option<WantedMessages>) {
        let before = self.functions.remove(function);
        if before.is_none() && wanted.is_none() {
            return;
        }
        let numbers = before.map(|book| book.entries).unwrap_or_default();
        let mut kept: Vec<(u32, EntryBook)> = numbers
            .into_iter()
            .filter_map(|number| Some((number, self.entries.remove(&number)?)))
            .collect();
        if let Some(wanted) = wanted {
            let entries = wanted.entries.into_iter().map(|entry| {
                let known = kept.iter().position(|(_, known)| known.wanted == entry);
                let (number, book) = match known.map(|known| kept.swap_remove(known)) {
                    Some(known) => known,
                    None => {
                        self.next_entry = self.next_entry.wrapping_add(1);
                        (self.next_entry, EntryBook::new(function.clone(), entry))
                    }
                };
                self.entries.insert(number, book);
                number
            });
            let book = FunctionBook {
                entries: entries.collect(),
                takes_work: wanted.takes_work,
                limits: wanted.limits,
                first: 0,
                group: None,
            };
            self.functions.insert(function.clone(), book);
        }
        self.tell_entries();
        self.assign(function);
        self.has_new_room = true;
        self.out.push(MessageEffect::Changed);
    }

    /// Forgets what has happened to the messages of a function that no longer exists.
    pub(crate) fn forget_counters(&mut self, function: &FunctionName) {
        if !self.functions.contains_key(function) {
            self.counters.remove(function);
        }
    }

    /// Hands all entries of functions that take messages to the thread; those for requests only as long as fnd does not drain.
    pub(super) fn tell_entries(&mut self) {
        let told = self.entries.iter().filter(|(_, entry)| {
            let is_answering = !self.is_draining || entry.wanted.rules.stream.is_some();
            is_answering && self.takes_work(&entry.function)
        });
        let entries = told.map(|(number, entry)| NatsEntry {
            number: *number,
            rules: Arc::clone(&entry.wanted.rules),
            group: queue_group(&entry.function),
        });
        let entries = NatsRequest::Entries(entries.collect());
        // The others have asked for nothing from now on, and nobody looks for them.
        for entry in self.entries.values_mut() {
            if !self.functions.get(&entry.function).is_some_and(|book| book.takes_work) {
                (entry.asked, entry.state, entry.figures) = (0, None, None);
            }
        }
        self.out.push(MessageEffect::Send(entries));
    }

    /// Finds the entries of the messages of a function: they have changed, or the messages are of an fnd before this one.
    fn assign(&mut self, function: &FunctionName) {
        let numbers = self
            .functions
            .get(function)
            .map(|book| book.entries.clone())
            .unwrap_or_default();
        for message in self.open.values_mut().filter(|message| message.function == *function) {
            let is_its = |number: &&u32| {
                let rules = self.entries.get(*number).map(|entry| &entry.wanted.rules);
                rules.is_some_and(|rules| is_of(rules, &message.mark))
            };
            message.entry = numbers.iter().find(is_its).copied();
            if let Some(entry) = message.entry.and_then(|number| self.entries.get(&number)) {
                message.targets = entry.wanted.targets.clone();
            }
        }
        for number in numbers {
            let Some(entry) = self.entries.get_mut(&number) else {
                continue;
            };
            (entry.here, entry.ending) = (0, 0);
            for message in self.open.values().filter(|message| message.entry == Some(number)) {
                entry.moves(TakenPlace::Nothing, message.place());
            }
        }
    }

    /// Returns the rules by which a message came, or by which its last attempt was claimed. Nothing: the function is not known yet.
    pub(super) fn rules_of(&self, id: InvocationId) -> Option<Arc<NatsRules>> {
        let known = self.open.get(&id)?.rules.as_ref();
        known.map(Arc::clone).or_else(|| self.rules_now(id))
    }

    /// Returns the rules for the next attempt of a message: those of its entry as it is now. If the entry is gone, the manifest as it
    /// is now and the defaults decide. If the manifest has no entry any more, the earlier manifest decides; if that is not known,
    /// [`NO_ENTRY`].
    pub(super) fn rules_now(&self, id: InvocationId) -> Option<Arc<NatsRules>> {
        let message = self.open.get(&id)?;
        let entry = message.entry.and_then(|number| self.entries.get(&number));
        // An entry that acknowledges at once says nothing about what is claimed.
        if let Some(rules) = entry.map(|entry| &entry.wanted.rules).filter(|rules| rules.claims()) {
            return Some(Arc::clone(rules));
        }
        match self.functions.get(&message.function) {
            Some(book) => Some(Arc::new(without_entry(&message.function, &message.mark, book.limits))),
            None => {
                let known = message.rules.as_ref().map(Arc::clone);
                let left = || Arc::new(without_entry(&message.function, &message.mark, NO_ENTRY));
                known.or_else(|| self.knows_functions.then(left))
            }
        }
    }
}

/// Says whether a message was delivered by the consumer of an entry.
fn is_of(rules: &NatsRules, mark: &MessageMark) -> bool {
    rules.stream.as_deref() == Some(&*mark.place.stream) && *rules.consumer == *mark.consumer
}

/// Returns the rules of a message whose entry is gone.
fn without_entry(function: &FunctionName, mark: &MessageMark, limits: FunctionLimits) -> NatsRules {
    let entry = NatsTrigger {
        subject: ">".to_owned(),
        stream: Some(mark.place.stream.to_string()),
        consumer: Some(mark.consumer.to_string()),
        ack_wait: limits.ack_wait(),
        ..NatsTrigger::default()
    };
    NatsRules::of(function, &entry, limits)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{function, mark, messages, wanted, wanted_entry};
    use super::*;

    fn told(messages: &mut Messages) -> Vec<u32> {
        let effects = messages.take_effects().into_iter();
        let mut entries = effects.filter_map(|effect| match effect {
            MessageEffect::Send(NatsRequest::Entries(entries)) => Some(entries),
            _ => None,
        });
        let last = entries.next_back().unwrap();
        last.iter().map(|entry| entry.number).collect()
    }

    #[test]
    fn an_entry_keeps_its_number_as_long_as_its_rules_are_the_same() {
        let mut messages = messages();
        messages.wants(
            &function("f"),
            Some(wanted(vec![wanted_entry("f", "a"), wanted_entry("f", "b")])),
        );
        assert_eq!(told(&mut messages), [1, 2]);
        messages.wants(
            &function("f"),
            Some(wanted(vec![wanted_entry("f", "b"), wanted_entry("f", "c")])),
        );
        assert_eq!(messages.functions[&function("f")].entries, [2, 3]);
        assert_eq!(told(&mut messages), [2, 3]);
        messages.wants(&function("f"), None);
        assert_eq!(told(&mut messages), [0; 0]);
        assert!(messages.entries.is_empty());
    }

    #[test]
    fn counters_go_on_when_the_entries_of_a_function_come_back() {
        let mut messages = messages();
        let wanted_one = || Some(wanted(vec![wanted_entry("f", "a")]));
        messages.wants(&function("f"), wanted_one());
        messages.count_for(&function("f"), |counters| counters.duplicates = 3);
        messages.wants(&function("f"), None);
        assert!(messages.figures().unwrap().functions.is_empty());
        messages.wants(&function("f"), wanted_one());
        assert_eq!(messages.counters_of(&function("f")).duplicates, 3);
        messages.wants(&function("f"), None);
        messages.forget_counters(&function("f"));
        messages.wants(&function("f"), wanted_one());
        assert_eq!(messages.counters_of(&function("f")).duplicates, 0);
    }

    #[test]
    fn the_thread_does_not_hear_of_a_function_that_takes_no_messages() {
        let mut messages = messages();
        let disabled = WantedMessages {
            takes_work: false,
            ..wanted(vec![wanted_entry("f", "a")])
        };
        messages.wants(&function("f"), Some(disabled));
        assert_eq!(told(&mut messages), [0; 0]);
        assert_eq!(messages.functions[&function("f")].entries, [1]);
    }

    #[test]
    fn a_message_without_its_entry_goes_on_by_its_manifest() {
        let limits = wanted(Vec::new()).limits;
        let rules = without_entry(&function("f"), &mark("a", 7), limits);
        assert_eq!(rules.limit(0), wanted_entry("f", "x").rules.limit(0));
        assert!(is_of(&rules, &mark("a", 7)) && !is_of(&rules, &mark("b", 7)));
    }
}
