//! The connection as the part knows it.

use super::fact::ConnectedServer;
use fnd_core::run::Now;
use std::collections::VecDeque;
use std::time::Duration;

/// How long there may be no connection until that is a problem: a server that starts again is back by then.
const DOWN_AFTER: Duration = Duration::from_secs(10);
/// So many round trips say how long an answer usually takes.
const ROUND_TRIPS: usize = 10;

/// So many connections that are lost within this time are one problem, however short each loss is.
const LOSSES: usize = 3;
const LOSSES_WITHIN: Duration = Duration::from_mins(1);

/// Whether there is a connection.
#[derive(Debug, Default, PartialEq, Eq)]
enum Link {
    /// There is none yet.
    #[default]
    Down,
    /// There is none, and why.
    Failed(String),
    /// There is one, but the bucket of the claims cannot be used, and why.
    NoBucket(String),
    Up(ConnectedServer),
}

/// The state of the connection.
#[derive(Debug, Default)]
pub(super) struct ServerState {
    link: Link,
    /// Since when there is a connection, or none.
    since: Option<Now>,
    /// The last ones, oldest first.
    round_trips: VecDeque<Duration>,
    /// When the last connections were lost, oldest first.
    losses: VecDeque<Duration>,
    /// The last complaint of the server since the connection began.
    complaint: Option<String>,
    /// Whether it was told that the connection is missing for too long.
    is_told: bool,
    /// When the bucket of the last connection was made.
    bucket_created_ns: Option<u64>,
}

impl ServerState {
    /// Begins: fnd connects for the first time, or with other settings.
    pub(super) fn begins(&mut self, now: Now) {
        *self = Self {
            since: Some(now),
            ..Self::default()
        };
    }

    /// Takes a connection. Returns whether its bucket is another one than that of the last connection.
    pub(super) fn up(&mut self, now: Now, server: ConnectedServer) -> bool {
        self.complaint = None;
        let bucket = server.bucket_created_ns;
        self.is_linked(now, Link::Up(server));
        let before = self.bucket_created_ns.replace(bucket);
        before.is_some_and(|before| before != bucket)
    }

    pub(super) fn no_bucket(&mut self, now: Now, why: String) {
        self.is_linked(now, Link::NoBucket(why));
    }

    fn is_linked(&mut self, now: Now, link: Link) {
        if !self.is_connected() {
            self.since = Some(now);
        }
        (self.link, self.is_told) = (link, false);
    }

    pub(super) fn down(&mut self, now: Now, why: String) {
        if self.is_connected() {
            if self.losses.len() == LOSSES {
                self.losses.pop_front();
            }
            self.losses.push_back(now.mono);
        }
        if self.is_connected() || self.since.is_none() {
            self.since = Some(now);
        }
        (self.link, self.complaint) = (Link::Failed(why), None);
        self.round_trips.clear();
    }

    pub(super) fn complains(&mut self, why: String) {
        self.complaint = Some(why);
    }

    /// Takes how long an answer took. Returns whether the answers usually take another time than before.
    pub(super) fn took(&mut self, time: Duration) -> bool {
        let before = self.usual_round_trip();
        if self.round_trips.len() == ROUND_TRIPS {
            self.round_trips.pop_front();
        }
        self.round_trips.push_back(time);
        self.usual_round_trip() != before
    }

    /// Says whether there is a connection.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.link, Link::Up(_) | Link::NoBucket(_))
    }

    /// Says whether messages can be claimed.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    fn connected(&self) -> Option<&ConnectedServer> {
        match &self.link {
            Link::Up(server) => Some(server),
            Link::Down | Link::Failed(_) | Link::NoBucket(_) => None,
        }
    }

    /// Returns the server, for people.
    pub(super) fn server(&self) -> Option<&str> {
        self.connected().map(|server| server.server.as_str())
    }

    /// Returns the largest message that the server takes.
    pub(super) fn max_payload(&self) -> Option<usize> {
        self.connected().map(|server| server.max_payload)
    }

    pub(super) fn since(&self) -> Now {
        self.since.unwrap_or_default()
    }

    /// Returns when a connection that is missing becomes a problem. Nothing once that was told.
    pub(super) fn counts_as_down_at(&self) -> Option<Duration> {
        (!self.is_connected() && !self.is_told).then(|| self.since().mono.saturating_add(DOWN_AFTER))
    }

    /// Says once whether the missing connection has become a problem.
    pub(super) fn tells_down(&mut self, now: Duration) -> bool {
        let tells = self.counts_as_down_at().is_some_and(|at| at <= now);
        self.is_told |= tells;
        tells
    }

    /// Returns why there is no connection, if there was none for a while.
    pub(super) fn down_since(&self, now: Duration) -> Option<&str> {
        let is_over = self.since().mono.saturating_add(DOWN_AFTER) <= now;
        self.error().filter(|_| !self.is_connected() && is_over)
    }

    /// Says whether one connection after the other was lost within the last minute.
    pub(super) fn breaks_again(&self, now: Duration) -> bool {
        let first = self.losses.front().filter(|_| self.losses.len() == LOSSES);
        first.is_some_and(|at| now.saturating_sub(*at) < LOSSES_WITHIN)
    }

    /// Returns what is wrong with the bucket.
    pub(super) fn bucket_problem(&self) -> Option<&str> {
        match &self.link {
            Link::NoBucket(why) => Some(why),
            Link::Up(server) => server.bucket_problem.as_deref(),
            Link::Down | Link::Failed(_) => None,
        }
    }

    /// Returns what hinders, for people.
    pub(super) fn error(&self) -> Option<&str> {
        match &self.link {
            Link::Down => Some("no server has answered yet"),
            Link::Failed(why) => Some(why),
            Link::NoBucket(_) | Link::Up(_) => self.bucket_problem().or(self.complaint.as_deref()),
        }
    }

    /// Returns why messages can neither be claimed nor published; empty if they can, and the server has not complained.
    pub(super) fn why_away(&self) -> String {
        self.error().unwrap_or_default().to_owned()
    }

    /// Returns how long the last answer took.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trips.back().copied()
    }

    /// Returns how long an answer usually takes; nothing before there are enough.
    pub(super) fn usual_round_trip(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.round_trips.iter().copied().collect();
        sorted.sort_unstable();
        (sorted.len() == ROUND_TRIPS).then(|| sorted[ROUND_TRIPS / 2])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, server};
    use super::*;

    #[test]
    fn a_missing_connection_is_a_problem_after_a_while_and_counts_from_its_loss() {
        let mut state = ServerState::default();
        state.begins(at(10));
        assert_eq!((state.down_since(at(19).mono), state.is_connected()), (None, false));
        state.down(at(15), "refused".to_owned());
        assert_eq!(state.down_since(at(20).mono), Some("refused"));
        assert!(!state.tells_down(at(19).mono) && state.tells_down(at(20).mono));
        assert!(!state.tells_down(at(21).mono) && state.counts_as_down_at().is_none());
        state.up(at(21), server());
        assert_eq!((state.down_since(at(60).mono), state.server()), (None, Some("n1")));
        state.down(at(70), "lost".to_owned());
        state.down(at(75), "refused".to_owned());
        assert_eq!((state.since().unix_ms, state.error()), (70_000, Some("refused")));
        assert_eq!(state.down_since(at(80).mono), Some("refused"));
    }

    #[test]
    fn connections_that_are_lost_one_after_the_other_are_a_problem_for_a_minute() {
        let mut state = ServerState::default();
        for (second, breaks) in [(10, false), (20, false), (65, true), (130, false)] {
            state.up(at(second), server());
            state.down(at(second), "lost".to_owned());
            // A try that fails is no loss.
            state.down(at(second), "refused".to_owned());
            assert_eq!(state.breaks_again(at(second).mono), breaks, "{second}");
        }
        state.up(at(135), server());
        state.down(at(136), "lost".to_owned());
        // The first one of the last three was at 65.
        assert!(!state.breaks_again(at(136).mono));
        state.up(at(137), server());
        state.down(at(138), "lost".to_owned());
        assert!(state.breaks_again(at(189).mono) && !state.breaks_again(at(190).mono));
    }

    #[test]
    fn answers_usually_take_the_time_in_the_middle_of_the_last_ten() {
        let mut state = ServerState::default();
        for number in 0..9 {
            assert!(!state.took(Duration::from_millis(number)));
        }
        assert!(state.took(Duration::from_secs(9)));
        assert_eq!(state.usual_round_trip(), Some(Duration::from_millis(5)));
        assert_eq!(state.round_trip(), Some(Duration::from_secs(9)));
    }

    #[test]
    fn a_bucket_that_cannot_be_used_is_no_missing_connection() {
        let mut state = ServerState::default();
        state.begins(at(1));
        state.no_bucket(at(2), "it is full".to_owned());
        assert_eq!((state.is_connected(), state.is_ready()), (true, false));
        assert_eq!(
            (state.error(), state.down_since(at(99).mono)),
            (Some("it is full"), None)
        );
    }
}
