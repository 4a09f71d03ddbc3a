//! An entry of `[[nats]]` as the thread of fnd knows it: when it is looked for, what was found, and its pull request.

use crate::triggers::nats::fact::{ConsumerFigures, DeliveredMessage, EntryState, NatsFact};
use crate::triggers::nats::request::NatsEntry;
use std::time::Duration;

/// How often it is looked for.
const LOOK: Duration = Duration::from_secs(30);
/// The pause after a pull request that was ended at once.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct LinkedEntry {
    pub(super) entry: NatsEntry,
    pub(super) was_there: bool,
    /// When it is looked for; absent: there is no connection, or the question is on its way.
    pub(super) look_at: Option<Duration>,
    state: Option<EntryState>,
    /// When messages were asked for, and how many have not come.
    pull: Option<(Duration, usize)>,
    /// Messages that are wanted and not asked for.
    pub(super) owed: usize,
    pause: Option<Duration>,
}

impl LinkedEntry {
    pub(super) fn new(entry: NatsEntry, look_at: Option<Duration>) -> Self {
        Self {
            entry,
            was_there: false,
            look_at,
            state: None,
            pull: None,
            owed: 0,
            pause: None,
        }
    }

    pub(super) fn is_of(&self, stream: &str) -> bool {
        self.entry.rules.stream.as_deref() == Some(stream)
    }

    /// Returns whether messages can be asked for.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, Some(EntryState::Ready { .. }))
    }

    /// Returns how many messages are asked for now, if any are.
    pub(super) fn asks(&mut self, now: Duration) -> Option<usize> {
        let is_paused = self.pause.is_some_and(|until| until > now);
        if self.owed == 0 || self.pull.is_some() || is_paused {
            return None;
        }
        let count = std::mem::take(&mut self.owed);
        self.pull = Some((now, count));
        Some(count)
    }

    /// Takes what was found: `ack_wait` of its consumer, and when that was made.
    pub(super) fn found(&mut self, found: Result<(Duration, u64), String>, now: Duration) -> Vec<NatsFact> {
        self.look_at = Some(now + LOOK);
        let (entry, mut left, mut figures) = (self.entry.number, 0, None);
        let state = match found {
            Ok((ack_wait, made_ns)) => {
                self.was_there = true;
                figures = Some(ConsumerFigures {
                    pending: 0,
                    redelivered: 0,
                    made_ns,
                    is_paused: false,
                    paused_until_ms: None,
                });
                let problem = None;
                EntryState::Ready { ack_wait, problem }
            }
            Err(why) => {
                left = std::mem::take(&mut self.owed) + self.pull.take().map_or(0, |(_, left)| left);
                EntryState::Gone(why)
            }
        };
        let is_new = self.state.replace(state.clone()).as_ref() != Some(&state);
        let state = is_new.then_some(NatsFact::Entry { entry, state });
        let over = (left > 0).then_some(NatsFact::PullEnded { entry, left });
        let figures = figures.map(|figures| NatsFact::Figures { entry, figures });
        state.into_iter().chain(figures).chain(over).collect()
    }

    pub(super) fn delivered(&mut self, mut message: Box<DeliveredMessage>) -> NatsFact {
        let pull = self.pull.map(|(sent, left)| (sent, left.saturating_sub(1)));
        self.pull = pull.filter(|(_, left)| *left > 0);
        message.entry = self.entry.number;
        NatsFact::Delivered(message)
    }

    /// So many messages that were asked for will not come.
    pub(super) fn pull_over(&mut self, left: usize, now: Duration) -> Option<NatsFact> {
        let (sent, _) = self.pull.take()?;
        if now - sent < PAUSE {
            self.pause = Some(now + PAUSE);
            self.doubt(now);
        }
        let entry = self.entry.number;
        Some(NatsFact::PullEnded { entry, left })
    }

    /// Has it looked for at once, unless the question is on its way.
    pub(super) fn doubt(&mut self, now: Duration) {
        self.look_at = self.look_at.map(|_| now);
    }

    /// The connection was lost.
    pub(super) fn lose(&mut self) {
        (self.pull, self.owed, self.pause) = (None, 0, None);
        (self.look_at, self.state) = (None, None);
    }

    /// Returns when it is looked for, and when messages are asked for.
    pub(super) fn wakes_at(&self) -> [Option<Duration>; 2] {
        let asks = self.owed > 0 && self.pull.is_none();
        [self.look_at, self.pause.filter(|_| asks)]
    }
}
