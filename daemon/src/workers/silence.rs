//! Detects whether fnd-spawner answers. No requests are made for this, except a ping: one when an answer is late, and
//! one with each message to the service manager's watchdog. While nothing is asked, nothing wakes fnd.

use crate::report::problems::ReportedProblem;
use crate::workers::Workers;
use fnd_core::run::{Event, Supervisor};
use fnd_wire::frame::Request;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// After this time a ping is sent: a late answer may only belong to a slow request, but a ping is answered at once.
const PING_AFTER: Duration = Duration::from_secs(1);
/// A spawner that has sent nothing for this long after a request counts as silent.
const SILENT_AFTER: Duration = Duration::from_secs(5);

/// The state of the spawner's answers.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// Since when a request is open and nothing was received.
    since: Option<Duration>,
    /// When the next check is due; absent: none is planned.
    pub(crate) wakes_at: Option<Duration>,
    pinged: bool,
    silent: bool,
    /// A request was sent, and no task checks yet whether it is answered.
    pub(crate) begun: Rc<Notify>,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
enum SilenceStep {
    /// No request is open.
    Nothing,
    /// The next check is due then.
    Again(Duration),
    /// A ping is due now, and the next check then.
    Ping(Duration),
    /// The spawner does not answer.
    Silent,
}

impl Silence {
    /// Handles a request that was sent. Returns whether checks must begin now.
    fn asked(&mut self, now: Duration) -> bool {
        self.since.get_or_insert(now);
        // A silent spawner is not checked again: its next frame says that it answers.
        if self.wakes_at.is_some() || self.silent {
            return false;
        }
        self.wakes_at = Some(now + PING_AFTER);
        true
    }

    /// Handles a frame that was received; `waits`: there are more to come. Returns whether the spawner had been silent.
    fn heard(&mut self, now: Duration, waits: bool) -> bool {
        self.since = waits.then_some(now);
        self.pinged = false;
        std::mem::take(&mut self.silent)
    }

    fn check(&mut self, now: Duration) -> SilenceStep {
        let due = self.wakes_at.take().unwrap_or(now);
        let Some(since) = self.since else {
            return SilenceStep::Nothing;
        };
        // fnd itself did not run for a while: frames that came meanwhile are not read yet.
        let since = if now > due + PING_AFTER { now } else { since };
        self.since = Some(since);
        if self.pinged && now >= since + SILENT_AFTER {
            self.silent = true;
            return SilenceStep::Silent;
        }
        let ping = !self.pinged && now >= since + PING_AFTER;
        self.pinged |= ping;
        let next = since + if self.pinged { SILENT_AFTER } else { PING_AFTER };
        self.wakes_at = Some(next);
        if ping {
            SilenceStep::Ping(next)
        } else {
            SilenceStep::Again(next)
        }
    }
}

impl Workers {
    /// Handles a frame of the spawner. Returns an event if it had been silent.
    pub(crate) fn heard(&mut self) -> Option<Event> {
        let waits = self
            .connection
            .as_ref()
            .is_some_and(|connection| !connection.is_answered());
        let was_silent = self.silence.heard(self.clock.now().mono, waits);
        // The checks ended when the spawner became silent, and some requests are still open.
        if was_silent && waits {
            self.await_answer();
        }
        was_silent.then_some(Event::SpawnerAnswers(true))
    }

    /// Handles a request to the spawner that has an answer.
    pub(super) fn await_answer(&mut self) {
        if self.silence.asked(self.clock.now().mono) {
            self.silence.begun.notify_one();
        }
    }

    /// Sends the spawner a ping.
    pub(crate) fn ping(&mut self) {
        if !self.silence.silent {
            self.request(&Request::Ping);
        }
    }

    /// Checks whether the spawner answers. Returns when to check again, and an event if it is silent.
    pub(crate) fn check_silence(&mut self) -> (Option<Duration>, Option<Event>) {
        match self.silence.check(self.clock.now().mono) {
            SilenceStep::Nothing => (None, None),
            SilenceStep::Again(at) => (Some(at), None),
            SilenceStep::Ping(at) => {
                self.ping();
                (Some(at), None)
            }
            SilenceStep::Silent => (None, Some(Event::SpawnerAnswers(false))),
        }
    }
}

/// Returns the problems that keep new processes from being started.
pub(crate) fn start_problems(supervisor: &Supervisor) -> impl Iterator<Item = ReportedProblem> + use<> {
    let silent = supervisor.is_spawner_silent().then(|| {
        let text = "fnd-spawner does not answer: calls that need a new process are refused with 503, queued work waits; see \
            `systemctl status fnd-spawner` (a restart of it ends every function that runs)";
        ReportedProblem::new("spawner-silent", text)
    });
    let shortage = supervisor.cannot_start().map(|why| {
        let text = format!(
            "node cannot start: {why}; what waits is tried again with growing pauses of up to 30 s and begins when the machine \
            has room again (descriptors, processes, memory, disk)"
        );
        ReportedProblem::new("node-cannot-start", text)
    });
    silent.into_iter().chain(shortage)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(100_000 + ms)
    }

    #[test]
    fn nothing_is_checked_while_nothing_is_asked() {
        let mut silence = Silence::default();
        assert!(silence.asked(at(0)));
        assert!(!silence.asked(at(10)), "somebody looks already");
        silence.heard(at(20), false);
        assert_eq!(silence.check(at(1000)), SilenceStep::Nothing);
        assert!(silence.asked(at(2000)));
    }

    #[test]
    fn one_that_answers_something_is_not_silent() {
        let mut silence = Silence::default();
        silence.asked(at(0));
        for n in 1..20 {
            // A slow request is not answered, the ping is.
            assert!(
                matches!(
                    silence.check(at(n * 1000)),
                    SilenceStep::Ping(_) | SilenceStep::Again(_)
                ),
                "{n}"
            );
            silence.heard(at(n * 1000 + 1), true);
        }
    }

    #[test]
    fn one_that_answers_nothing_is_pinged_and_silent_after_five_seconds() {
        let mut silence = Silence::default();
        silence.asked(at(0));
        assert_eq!(silence.check(at(1000)), SilenceStep::Ping(at(5000)));
        assert!(!silence.asked(at(1500)));
        assert_eq!(silence.check(at(5000)), SilenceStep::Silent);
        assert!(!silence.asked(at(6000)), "that is known");
        assert!(silence.heard(at(9000), false));
        assert!(silence.asked(at(9100)));
    }

    #[test]
    fn a_pause_of_fnd_itself_is_no_silence() {
        let mut silence = Silence::default();
        silence.asked(at(0));
        assert_eq!(silence.check(at(1000)), SilenceStep::Ping(at(5000)));
        assert_eq!(silence.check(at(60_000)), SilenceStep::Again(at(65_000)));
        assert_eq!(silence.check(at(65_000)), SilenceStep::Silent);
    }
}
