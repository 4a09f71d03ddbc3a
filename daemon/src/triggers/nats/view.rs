//! The view of the API, and figures for metrics. Both are made for each request; the part keeps no copy of them.

use super::Messages;
use super::books::{EntryBook, FunctionBook, MessageCounters};
use super::fact::EntryState;
use fnd_core::api::{NatsState, NatsTriggerView, NatsView};
use fnd_core::instant;
use fnd_wire::ids::FunctionName;
use std::time::Duration;

/// The figures of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionFigures {
    pub(crate) function: FunctionName,
    /// Messages that the server has not delivered yet, of all its entries; absent if that is not known: `fnd_nats_pending`.
    pub(crate) pending: Option<u64>,
    /// Messages that this node has and whose runs have not ended, or that are not acknowledged: `fnd_nats_here`.
    pub(crate) here: u64,
    /// Attempts here that end unless the lease is renewed: `fnd_nats_leases`.
    pub(crate) leases: u64,
    /// Counters since fnd started.
    pub(crate) counters: MessageCounters,
}

/// The figures of the part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NatsFigures {
    /// Whether there is a connection: `fnd_nats_connected`.
    pub(crate) connected: bool,
    /// How long the server took for its last answer; absent before the first one: `fnd_nats_round_trip_seconds`.
    pub(crate) round_trip: Option<Duration>,
    /// By function, each that has entries of `[[nats]]`.
    pub(crate) functions: Vec<FunctionFigures>,
}

impl Messages {
    /// Returns the body of `GET /v1/nats`; nothing without `[events.nats]`. The entries are sorted by function, and those of a
    /// function are in the order of its manifest: whoever may not view a function gets the list without it.
    pub(crate) fn view(&self) -> Option<NatsView> {
        let node = self.node.as_ref()?;
        let triggers = self.functions.iter().flat_map(move |(function, book)| {
            let entries = self.entries_of(book);
            entries.map(move |entry| self.entry_view((function, book), entry))
        });
        Some(NatsView {
            connected: self.connection.is_connected(),
            server: self.connection.server().map(str::to_owned),
            node: node.name.clone(),
            since: instant::text(self.connection.since().unix_ms),
            round_trip_ms: self.connection.round_trip().map(|time| time.as_secs_f64() * 1000.0),
            error: self.node_error(),
            triggers: triggers.collect(),
        })
    }

    fn entry_view(
        &self,
        (function, book): (&FunctionName, &FunctionBook),
        (number, entry): (u32, &EntryBook),
    ) -> NatsTriggerView {
        let rules = &entry.wanted.rules;
        let is_streamed = rules.stream.is_some();
        // Restored messages belong to the entry with their stream and their consumer.
        let here = self.open.iter();
        let here = here.filter(|(_, message)| message.entry == Some(number) && message.takes_place());
        let leases = here.clone().filter(|(id, _)| self.lease.has(**id)).count();
        let (state, error) = state_of(book.takes_work && !self.is_draining, self.connection.is_ready(), entry);
        NatsTriggerView {
            function: function.clone(),
            subject: rules.subject.clone(),
            stream: rules.stream.clone(),
            consumer: is_streamed.then(|| rules.consumer.clone()),
            state,
            pending: entry.figures.map(|figures| figures.pending),
            here: here.count() as u64,
            redelivered: entry.figures.map(|figures| figures.redelivered),
            leases: leases as u64,
            leases_lost: self.counters_of(function).leases_lost,
            error: error.or_else(|| self.waits_for_person(function).filter(|_| is_streamed)),
        }
    }

    /// Returns the figures for metrics; nothing without `[events.nats]`.
    pub(crate) fn figures(&self) -> Option<NatsFigures> {
        self.node.as_ref()?;
        let functions = self.functions.iter().map(|(function, book)| {
            let entries = self.entries_of(book);
            let pending = entries.filter_map(|(_, entry)| Some(entry.figures?.pending));
            let here = self.open.iter();
            let here = here.filter(|(_, message)| message.function == *function && message.takes_place());
            FunctionFigures {
                function: function.clone(),
                pending: pending.reduce(|one, other| one + other),
                here: here.clone().count() as u64,
                leases: here.filter(|(id, _)| self.lease.has(**id)).count() as u64,
                counters: self.counters_of(function),
            }
        });
        Some(NatsFigures {
            connected: self.connection.is_connected(),
            round_trip: self.connection.round_trip(),
            functions: functions.collect(),
        })
    }
}

/// Returns the state of an entry and what hinders it. `is_ready` says whether there is a connection and the bucket of the claims.
fn state_of(takes_work: bool, is_ready: bool, entry: &EntryBook) -> (NatsState, Option<String>) {
    if !takes_work {
        return (NatsState::Disabled, None);
    }
    let problem = match &entry.state {
        Some(EntryState::Gone(why)) => return (NatsState::Gone, Some(why.clone())),
        Some(EntryState::Stalled) => {
            let why = "the server says nothing about the messages that were asked for".to_owned();
            return (NatsState::Stalled, Some(why));
        }
        Some(EntryState::Ready { problem, .. }) => problem.clone(),
        // Nobody has looked: there is no connection, or it has just begun. An entry without a stream is never looked for.
        None if entry.wanted.rules.stream.is_some() || !is_ready => return (NatsState::Stalled, None),
        None => return (NatsState::Consuming, None),
    };
    if let Some(figures) = entry.figures.filter(|figures| figures.is_paused) {
        let until = figures.paused_until_ms.map(instant::text);
        let until = until.map(|until| format!("its consumer is paused on the server until {until}"));
        return (NatsState::Paused, problem.or(until));
    }
    let state = match entry.asked {
        // It asks for nothing: it has its most, the server confirms ends too slowly, or its function has no free place.
        0 => NatsState::Full,
        _ => NatsState::Consuming,
    };
    (state, problem)
}

#[cfg(test)]
mod tests {
    use super::super::fact::ConsumerFigures;
    use super::super::tests::{figures, function, ready, wanted_entry};
    use super::*;

    #[test]
    fn an_entry_has_the_state_that_tells_most() {
        let paused = ConsumerFigures {
            is_paused: true,
            ..figures()
        };
        for (takes_work, state, asked, figures, expected) in [
            (false, Some(ready()), 4, None, NatsState::Disabled),
            (true, None, 0, None, NatsState::Stalled),
            (
                true,
                Some(EntryState::Gone("it is gone".to_owned())),
                0,
                None,
                NatsState::Gone,
            ),
            (true, Some(EntryState::Stalled), 4, None, NatsState::Stalled),
            (true, Some(ready()), 4, Some(paused), NatsState::Paused),
            (true, Some(ready()), 4, None, NatsState::Consuming),
            (true, Some(ready()), 0, None, NatsState::Full),
        ] {
            let entry = EntryBook {
                state,
                asked,
                figures,
                ..EntryBook::new(function("f"), wanted_entry("f", "x"))
            };
            assert_eq!(state_of(takes_work, true, &entry).0, expected);
        }
    }

    #[test]
    fn a_pause_is_shown_with_its_end_where_the_server_says_it() {
        for (paused_until_ms, expected) in [
            (
                Some(1_795_248_000_000),
                Some("its consumer is paused on the server until 2026-11-21T08:00:00.000Z"),
            ),
            (None, None),
        ] {
            let paused = ConsumerFigures {
                is_paused: true,
                paused_until_ms,
                ..figures()
            };
            let entry = EntryBook {
                state: Some(ready()),
                figures: Some(paused),
                ..EntryBook::new(function("f"), wanted_entry("f", "x"))
            };
            let (state, why) = state_of(true, true, &entry);
            assert_eq!((state, why.as_deref()), (NatsState::Paused, expected));
        }
    }
}
