//! The pull requests of an entry. The part says how many messages it wants in all; a request asks for what is wanted at
//! that moment, waits for thirty seconds, and shows every five seconds that it is alive.
//!
//! There is one request at a time: a message does not say which request has brought it. Messages that are wanted
//! meanwhile are asked for when the request has brought all its messages or is over. So many small requests become one
//! while messages come quickly.

use fnd_core::triggers::nats::server::objects::nanoseconds;
use fnd_core::triggers::nats::server::pull_status::PullStatus;
use serde_json::json;
use std::time::{Duration, Instant};

/// How long the server keeps a request.
const EXPIRES: Duration = Duration::from_secs(30);
/// How often the server says that it keeps a request for which it has no messages.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Without a word for so long, a request is lost: two heartbeats are missing.
const SILENT_MAX: Duration = Duration::from_secs(11);

/// Most messages of one request, so that not all of them are in memory at once before they have a place: each may have the size that
/// the server takes.
const BATCH_MAX: usize = 64;
/// The pause after a request that the server has ended at once, without a message: it would end the next one, too.
const PAUSE: Duration = Duration::from_secs(1);

/// The requests of an entry.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    open: Option<OpenPull>,
    /// Messages that are wanted and not asked for yet.
    owed: usize,
    /// Nothing is asked for before this time.
    pause: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct OpenPull {
    number: u64,
    batch: usize,
    /// Messages that have not come.
    left: usize,
    sent: Instant,
    /// When the server last said something about the request.
    heard: Instant,
}

/// A request to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PullRequest {
    /// Its number, the last part of the subject of what it brings.
    pub(super) number: u64,
    pub(super) batch: usize,
}

impl PullRequest {
    /// Returns the body of the request.
    pub(super) fn body(self) -> Vec<u8> {
        let body = json!({
            "batch": self.batch,
            "expires": nanoseconds(EXPIRES),
            "idle_heartbeat": nanoseconds(HEARTBEAT),
        });
        body.to_string().into_bytes()
    }
}

impl Pulls {
    /// Takes note that so many more messages are wanted.
    pub(super) fn want(&mut self, count: usize) {
        self.owed = self.owed.saturating_add(count);
    }

    /// Returns the request that is to be sent now, if there is one: it gets this number.
    pub(super) fn request(&mut self, number: u64, now: Instant) -> Option<PullRequest> {
        let is_paused = self.pause.is_some_and(|until| now < until);
        if self.owed == 0 || self.open.is_some() || is_paused {
            return None;
        }
        let batch = self.owed.min(BATCH_MAX);
        self.owed -= batch;
        self.open = Some(OpenPull {
            number,
            batch,
            left: batch,
            sent: now,
            heard: now,
        });
        Some(PullRequest { number, batch })
    }

    /// Takes note of a message.
    pub(super) fn delivered(&mut self, now: Instant) {
        // A message of a request that counts as lost may still come; the server has counted it there.
        let Some(pull) = &mut self.open else { return };
        (pull.left, pull.heard) = (pull.left.saturating_sub(1), now);
        if pull.left == 0 {
            self.open = None;
        }
    }

    /// Takes what the server says about a request. Returns how many of its messages will not come.
    pub(super) fn status(&mut self, number: u64, status: &PullStatus, now: Instant) -> usize {
        let Some(pull) = self.open.as_mut().filter(|pull| pull.number == number) else {
            return 0; // a request before this one
        };
        match status {
            PullStatus::Waits => {
                pull.heard = now;
                0
            }
            // The server may have sent more messages than have come here: a message that was dropped on its way does
            // not come.
            PullStatus::Ended | PullStatus::Gone | PullStatus::Refused(_) => {
                let is_at_once = now.saturating_duration_since(pull.sent) < PAUSE && pull.left == pull.batch;
                self.pause = is_at_once.then(|| now + PAUSE);
                self.end()
            }
        }
    }

    /// Ends the request if it is lost. Returns how many messages will not come; nothing if it is not lost.
    pub(super) fn lost(&mut self, now: Instant) -> Option<usize> {
        let is_lost = |pull: &OpenPull| now.saturating_duration_since(pull.heard) >= SILENT_MAX;
        self.open.as_ref().is_some_and(is_lost).then(|| self.end())
    }

    /// Forgets the request, and what is owed. Returns how many messages will not come.
    pub(super) fn clear(&mut self) -> usize {
        self.pause = None;
        self.end().saturating_add(std::mem::take(&mut self.owed))
    }

    fn end(&mut self) -> usize {
        self.open.take().map_or(0, |pull| pull.left)
    }

    /// Returns when the request is lost unless the server says something, or when the next one may be sent.
    pub(super) fn next_due(&self) -> Option<Instant> {
        match self.open {
            Some(pull) => pull.heard.checked_add(SILENT_MAX),
            None => self.pause.filter(|_| self.owed > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Instant {
        crate::clock::monotonic()
    }

    fn batch(pulls: &mut Pulls, now: Instant) -> Option<usize> {
        pulls.request(1, now).map(|request| request.batch)
    }

    #[test]
    fn a_request_asks_for_all_that_is_owed_when_the_one_before_is_over() {
        let (now, mut pulls) = (start(), Pulls::default());
        assert_eq!(batch(&mut pulls, now), None);
        pulls.want(3);
        pulls.want(1);
        let first = PullRequest { number: 0, batch: 4 };
        assert_eq!((pulls.request(0, now), pulls.request(0, now)), (Some(first), None));
        let body: serde_json::Value = serde_json::from_slice(&first.body()).unwrap();
        assert_eq!(
            (&body["batch"], &body["expires"]),
            (&json!(4), &json!(30_000_000_000_u64))
        );
        for _ in 0..3 {
            pulls.delivered(now);
        }
        pulls.want(2);
        assert_eq!(batch(&mut pulls, now), None);
        pulls.delivered(now);
        assert_eq!(batch(&mut pulls, now), Some(2));
        pulls.want(1);
        assert_eq!((pulls.clear(), pulls.clear(), pulls.next_due()), (3, 0, None));
    }

    #[test]
    fn many_messages_are_asked_for_one_part_after_the_other() {
        let (now, mut pulls) = (start(), Pulls::default());
        pulls.want(100);
        assert_eq!((batch(&mut pulls, now), batch(&mut pulls, now)), (Some(64), None));
        for _ in 0..64 {
            pulls.delivered(now);
        }
        assert_eq!(batch(&mut pulls, now), Some(36));
        pulls.want(30);
        assert_eq!((pulls.clear(), batch(&mut pulls, now)), (66, None));
    }

    #[test]
    fn an_end_says_how_many_messages_will_not_come() {
        let (now, mut pulls) = (start(), Pulls::default());
        pulls.want(4);
        pulls.request(0, now);
        pulls.delivered(now);
        assert_eq!(pulls.status(0, &PullStatus::Waits, now), 0);
        assert_eq!(pulls.status(7, &PullStatus::Ended, now), 0, "another request");
        assert_eq!(pulls.status(0, &PullStatus::Ended, now), 3);
        assert_eq!(pulls.status(0, &PullStatus::Ended, now), 0, "it is over already");
        pulls.delivered(now);
        assert_eq!(batch(&mut pulls, now), None);
    }

    #[test]
    fn a_request_that_is_ended_at_once_is_not_repeated_at_once() {
        let (now, mut pulls) = (start(), Pulls::default());
        pulls.want(1);
        pulls.request(0, now);
        assert_eq!(pulls.status(0, &PullStatus::Gone, now), 1);
        pulls.want(1);
        assert_eq!((batch(&mut pulls, now), pulls.next_due()), (None, Some(now + PAUSE)));
        assert_eq!(batch(&mut pulls, now + PAUSE), Some(1));
        assert_eq!(pulls.status(1, &PullStatus::Ended, now + PAUSE + EXPIRES), 1);
        pulls.want(1);
        assert_eq!(batch(&mut pulls, now + PAUSE + EXPIRES), Some(1));
    }

    #[test]
    fn a_request_without_a_word_is_lost() {
        let (now, mut pulls) = (start(), Pulls::default());
        pulls.want(2);
        pulls.request(0, now);
        let later = now + HEARTBEAT;
        pulls.status(0, &PullStatus::Waits, later);
        assert_eq!(pulls.next_due(), Some(later + SILENT_MAX));
        assert_eq!(pulls.lost(now + SILENT_MAX), None);
        assert_eq!(pulls.lost(later + SILENT_MAX), Some(2));
        assert_eq!(pulls.lost(later + SILENT_MAX), None);
    }
}
