//! The entries of `[[nats]]` as the thread knows them: when each is looked for, what was found, and its pull requests.
//! It sends nothing.

use super::pulls::{PullRequest, Pulls};
use super::streams::{DueLook, FoundEntry, NotFound};
use crate::triggers::nats::fact::{EntryState, NatsFact};
use crate::triggers::nats::request::NatsEntry;
use fnd_core::triggers::nats::server::ack_address::AckAddress;
use fnd_core::triggers::nats::server::pull_status::PullStatus;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often an entry, or the bucket, is looked for, whether it is there or not: figures, and what somebody has deleted, made or
/// changed.
pub(super) const LOOK: Duration = Duration::from_secs(30);
/// How soon again if the server has not answered, or if the bucket cannot be used.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// So many pull requests in a row are lost until the entry counts as stalled.
const LOST_MAX: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Entries {
    known: BTreeMap<u32, KnownEntry>,
    /// The number of the next pull request. An entry that comes again has the same number as before, and an answer about a request
    /// of the old entry must not count for a request of the new one.
    next_pull: u64,
}

#[derive(Debug)]
struct KnownEntry {
    entry: NatsEntry,
    /// When its consumer was made first, nanoseconds since 1970; absent: it was never there.
    made_ns: Option<u64>,
    look: NextLook,
    /// The state that was reported last.
    state: Option<EntryState>,
    /// Whether the connection was lost while messages were to come, perhaps by one of them.
    searches: bool,
    pulls: Pulls,
    /// Pull requests in a row that were lost.
    lost: u32,
}

/// When an entry, or the bucket, is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextLook {
    At(Instant),
    /// The question is on its way.
    Asked,
    /// There is no connection, or the entry has no stream.
    Never,
}

impl NextLook {
    pub(super) fn at(self) -> Option<Instant> {
        match self {
            Self::At(at) => Some(at),
            Self::Asked | Self::Never => None,
        }
    }
}

impl Entries {
    /// Replaces the entries. Those whose rules are the same go on.
    pub(super) fn set(&mut self, entries: Vec<NatsEntry>, are_looked_for: bool, now: Instant) {
        let mut before = std::mem::take(&mut self.known);
        for entry in entries {
            let known = before.remove(&entry.number).filter(|known| known.entry == entry);
            let look = match are_looked_for && entry.rules.stream.is_some() {
                true => NextLook::At(now),
                false => NextLook::Never,
            };
            let known = known.unwrap_or_else(|| {
                // A change of other keys does not make the consumer a new one.
                let rules = &entry.rules;
                let stream = rules.stream.as_deref().unwrap_or_default();
                let is_it = |known: &&KnownEntry| known.is_of(stream, &rules.consumer);
                let made_ns = before.values().find(is_it).and_then(|known| known.made_ns);
                KnownEntry {
                    entry,
                    made_ns,
                    look,
                    state: None,
                    searches: false,
                    pulls: Pulls::default(),
                    lost: 0,
                }
            });
            self.known.insert(known.entry.number, known);
        }
    }

    /// Returns the entries that answer requests.
    pub(super) fn services(&self) -> Vec<NatsEntry> {
        let all = self.known.values().map(|known| &known.entry);
        all.filter(|entry| entry.rules.stream.is_none()).cloned().collect()
    }

    /// The connection is there: has every entry looked for that is not yet.
    pub(super) fn connected(&mut self, now: Instant) {
        let begins = |known: &KnownEntry| known.look == NextLook::Never && known.entry.rules.stream.is_some();
        for known in self.known.values_mut().filter(|known| begins(known)) {
            known.look = NextLook::At(now);
        }
    }

    /// Forgets what depends on the connection.
    pub(super) fn disconnected(&mut self) {
        for known in self.known.values_mut() {
            known.searches |= known.pulls.clear() > 0;
            (known.look, known.state, known.lost) = (NextLook::Never, None, 0);
        }
    }

    /// Returns the entries to look for now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<DueLook> {
        let is_due = |known: &KnownEntry| known.look.at().is_some_and(|at| at <= now);
        let due = self.known.values_mut().filter(|known| is_due(known));
        due.map(|known| {
            known.look = NextLook::Asked;
            DueLook {
                entry: known.entry.clone(),
                made_ns: known.made_ns,
                searches: known.searches,
            }
        })
        .collect()
    }

    /// Has the entries of a consumer looked for at once: nobody takes what is said about its deliveries.
    pub(super) fn doubt(&mut self, (stream, consumer): (&str, &str), now: Instant) {
        let known = self.known.values_mut();
        for known in known.filter(|known| known.is_of(stream, consumer)) {
            known.doubt(now);
        }
    }

    /// Takes what was found of an entry.
    pub(super) fn found(&mut self, number: u32, found: Result<FoundEntry, NotFound>, now: Instant) -> Vec<NatsFact> {
        let Some(known) = self.known.get_mut(&number) else {
            return Vec::new(); // it was removed meanwhile
        };
        let mut left = 0;
        let (state, figures, pause) = match found {
            Ok(found) => {
                known.made_ns.get_or_insert(found.figures.made_ns);
                known.searches = false;
                (found.state, Some(found.figures), LOOK)
            }
            Err(NotFound::Missing(why)) => {
                left = known.pulls.clear();
                (EntryState::Gone(why), None, LOOK)
            }
            Err(NotFound::NoAnswer(why)) => match &known.state {
                // One answer that is missing is no news.
                Some(EntryState::Ready { .. } | EntryState::Stalled) => {
                    known.look = NextLook::At(now + LOOK_AGAIN);
                    return Vec::new();
                }
                Some(EntryState::Gone(_)) | None => (EntryState::Gone(why), None, LOOK_AGAIN),
            },
        };
        known.look = NextLook::At(now + pause);
        let figures = figures.map(|figures| NatsFact::Figures { entry: number, figures });
        // A consumer that is there may be stalled all the same, until it says something about a pull request.
        let is_stalled = known.lost >= LOST_MAX && matches!(state, EntryState::Ready { .. });
        let state = if is_stalled { None } else { known.report(state) };
        state.into_iter().chain(figures).chain(ended(number, left)).collect()
    }

    /// Takes note that so many more messages of an entry are wanted.
    pub(super) fn want(&mut self, number: u32, count: usize) -> Option<NatsFact> {
        let can_ask = |known: &&mut KnownEntry| match known.state {
            Some(EntryState::Ready { .. } | EntryState::Stalled) => true,
            Some(EntryState::Gone(_)) | None => false,
        };
        match self.known.get_mut(&number).filter(can_ask) {
            Some(known) => {
                known.pulls.want(count);
                None
            }
            // The connection was lost, or the entry is gone, while the request was on its way.
            None => Some(NatsFact::PullEnded {
                entry: number,
                left: count,
            }),
        }
    }

    /// Returns the pull requests to send now: where to, and the entry.
    pub(super) fn requests(&mut self, now: Instant) -> Vec<(NatsEntry, PullRequest)> {
        let next = &mut self.next_pull;
        let request = |known: &mut KnownEntry| {
            let request = known.pulls.request(*next, now)?;
            *next = next.wrapping_add(1);
            Some((known.entry.clone(), request))
        };
        self.known.values_mut().filter_map(request).collect()
    }

    /// Takes a delivery. A message says its consumer, and not for which entry it was asked for; two entries never have
    /// the same consumer. Returns the number of the entry; nothing if it was removed.
    pub(super) fn delivered(&mut self, address: &AckAddress<'_>, now: Instant) -> Option<u32> {
        let is_it = |known: &&mut KnownEntry| known.is_of(address.stream, address.consumer);
        let known = self.known.values_mut().find(is_it)?;
        known.pulls.delivered(now);
        known.is_heard(now);
        Some(known.entry.number)
    }

    /// Takes what the server says about a pull request.
    pub(super) fn status(&mut self, (number, pull): (u32, u64), status: &PullStatus, now: Instant) -> Vec<NatsFact> {
        let Some(known) = self.known.get_mut(&number) else {
            return Vec::new();
        };
        known.is_heard(now);
        let mut facts = Vec::new();
        match status {
            PullStatus::Waits | PullStatus::Ended => {}
            PullStatus::Gone => known.doubt(now),
            PullStatus::Refused(why) => {
                facts.extend(known.report(EntryState::Gone(format!("the server refuses to be asked: {why}"))));
            }
        }
        facts.extend(ended(number, known.pulls.status(pull, status, now)));
        facts
    }

    /// Takes note of the pull requests about which the server says nothing any more.
    pub(super) fn silent(&mut self, now: Instant) -> Vec<NatsFact> {
        let mut facts = Vec::new();
        for (number, known) in &mut self.known {
            let Some(left) = known.pulls.lost(now) else { continue };
            known.lost = known.lost.saturating_add(1);
            known.doubt(now);
            if known.lost >= LOST_MAX && matches!(known.state, Some(EntryState::Ready { .. })) {
                facts.extend(known.report(EntryState::Stalled));
            }
            facts.extend(ended(*number, left));
        }
        facts
    }

    /// Returns when [`Self::due`] or [`Self::silent`] has something.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let looks = self.known.values().filter_map(|known| known.look.at());
        let pulls = self.known.values().filter_map(|known| known.pulls.next_due());
        looks.chain(pulls).min()
    }
}

fn ended(entry: u32, left: usize) -> Option<NatsFact> {
    (left > 0).then_some(NatsFact::PullEnded { entry, left })
}

impl KnownEntry {
    fn is_of(&self, stream: &str, consumer: &str) -> bool {
        let rules = &self.entry.rules;
        rules.stream.as_deref() == Some(stream) && rules.consumer == consumer
    }

    fn doubt(&mut self, now: Instant) {
        if let NextLook::At(at) = &mut self.look {
            *at = now.min(*at);
        }
    }

    /// Takes note that the server says something about a pull request.
    fn is_heard(&mut self, now: Instant) {
        self.lost = 0;
        if self.state == Some(EntryState::Stalled) {
            self.doubt(now);
        }
    }

    /// Returns the fact of a state that has changed.
    fn report(&mut self, state: EntryState) -> Option<NatsFact> {
        let entry = self.entry.number;
        let is_new = self.state.as_ref() != Some(&state);
        self.state = Some(state.clone());
        is_new.then_some(NatsFact::Entry { entry, state })
    }
}

#[cfg(test)]
pub(super) mod tests;
