//! Passes lines of output on as they arrive: to the journal, and to callers that follow the output.

use super::capture::Capture;
use super::{AttemptOutput, Follow, LineSink};
use crate::clock;
use crate::output::log_store::{Line, Stream, view};
use crate::telemetry::escape;
use fnd_core::api::LogLine;
use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{BUILD, is_builder};
use tokio::sync::mpsc::{self, error::TrySendError};

/// The receivers of lines as they arrive.
pub(super) struct Sinks {
    pub(super) line: LineSink,
    pub(super) followers: Vec<Follower>,
}

pub(super) struct Follower {
    pub(super) follow: Follow,
    pub(super) lines: mpsc::Sender<LogLine>,
    pub(super) missed: u64,
}

impl Sinks {
    /// Gives bytes of a stream to a capture and passes the lines on.
    pub(super) fn feed(&mut self, capture: &mut Capture, (stream, time_ms): (Stream, u64), bytes: &[u8]) {
        let meta = capture.meta.clone();
        capture.feed(stream, time_ms, bytes, &mut |line, in_head| {
            self.seen(&meta, line, in_head);
        });
    }

    /// Ends a capture and passes its unfinished lines on.
    pub(super) fn end(&mut self, capture: &mut Capture) {
        let meta = capture.meta.clone();
        capture.end(clock::unix_ms(), &mut |line, in_head| self.seen(&meta, line, in_head));
    }

    /// Passes a line on. The journal gets only the lines that the head keeps: a flood must not push everything else out
    /// of it.
    pub(super) fn seen(&mut self, meta: &AttemptOutput, line: &Line<'_>, in_head: bool) {
        if in_head {
            (self.line)(meta, line);
        }
        if !self.followers.is_empty() {
            self.followers
                .retain_mut(|follower| !follower.wants(meta) || follower.give(meta, line));
        }
    }
}

impl Follower {
    fn wants(&self, meta: &AttemptOutput) -> bool {
        // The output of `fnd-build` is that of all builds, whichever of its functions they run in.
        let is_build = |function: &FunctionName| function.as_str() == BUILD && is_builder(meta.function.as_str());
        let is_of = |function: &FunctionName| *function == meta.function || is_build(function);
        let Follow { function, reach, .. } = &self.follow;
        let invocation = self.follow.invocation.unwrap_or(meta.invocation);
        function.as_ref().is_none_or(is_of) && invocation == meta.invocation && reach.views(&meta.function)
    }

    /// Sends a line, or counts it as missed. Returns whether the follower is still there.
    fn give(&mut self, meta: &AttemptOutput, line: &Line<'_>) -> bool {
        let show = |line: &Line<'_>| view(&meta.function, meta.invocation, meta.attempt.0, line);
        if self.missed > 0 {
            let text = format!(
                "{} lines are not shown here: they came faster than they were read",
                self.missed
            );
            match self.lines.try_send(show(&Line::note(line.time_ms, &text))) {
                Ok(()) => self.missed = 0,
                // There is no room for this note either: it comes before a later line.
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Closed(_)) => return false,
            }
        }
        // The line is not even built where there is no room: a follower that does not read costs nothing.
        if self.lines.capacity() == 0 {
            self.missed += 1;
            return !self.lines.is_closed();
        }
        // This is the only sender of the follower, so the room is still there: an error means that the follower has left.
        self.lines.try_send(show(line)).is_ok()
    }
}

/// Logs a line of a function's output.
pub(crate) fn output_line(meta: &AttemptOutput, line: &Line<'_>) {
    let text = line.text.strip_suffix(b"\r").unwrap_or(line.text);
    let text = String::from_utf8_lossy(text);
    let mark = if line.stream == Stream::Note { "-" } else { "|" };
    // Without an invocation: a warm worker printed it between calls.
    let invocation = (meta.invocation.0 != 0).then(|| tracing::field::display(meta.invocation));
    macro_rules! say {
        ($level:ident) => {
            tracing::$level!(
                fnd_event = "output",
                fnd_function = meta.function.as_str(),
                fnd_invocation = invocation,
                fnd_attempt = u64::from(meta.attempt.0),
                fnd_stream = line.stream.shown().as_str(),
                "{}  {mark} {}",
                meta.function,
                escape(&text)
            )
        };
    }
    // `Capture::say` has put the level in front of the line.
    let level = text.split(' ').next().filter(|_| line.stream == Stream::Log);
    match level {
        Some("error") => say!(error),
        Some("warning") => say!(warn),
        Some("debug") => say!(debug),
        _ => say!(info),
    }
}
