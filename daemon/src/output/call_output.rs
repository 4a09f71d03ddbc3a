//! Assigns a warm worker's output to the invocation in which it was printed.
//!
//! A worker prints for one invocation after the other into the same pipes, and flushes before it answers. So at the
//! begin and at the end of a call the main thread counts the bytes printed so far, read or not, and leaves a [`OutputOffset`]
//! at that position. The output thread counts what it reads under the same lock, and carries out each mark when it
//! reaches it. A call that printed nothing is known to be silent at once, without waking the output thread.
//!
//! Output between calls, and output of a worker that serves several calls at once, belongs to no invocation.
//!
//! A pipe bounds the number of marks of calls that print, [`LOGS_MAX`] that of records that workers send for the log.

use super::{AttemptKey, AttemptOutput, Captured, OutputCommand, SharedOutput};
use crate::lock::lock;
use fnd_core::records::protocol::{Level, LogRecord};
use fnd_wire::ids::WorkerId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

/// Most bytes of records for the log that wait for the output thread; what comes beyond them is dropped.
pub(super) const LOGS_MAX: usize = 1 << 20;
/// Takes the place of the records that were dropped.
pub(super) const DROPPED: &str =
    "records for the log were dropped here, since they came faster than they could be kept";

/// Whether a call has output, known at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutputEnd {
    /// The call has no output; the callback is not called.
    Silent,
    /// The callback is called when all of the output was read.
    Printed,
}

/// The main thread's side of a warm worker's output.
pub struct CallOutput {
    pub(super) shared: Arc<SharedOutput>,
    pub(super) ends: Arc<PipeOffsets>,
}

/// The state of a warm worker that both threads share.
pub(super) struct PipeOffsets {
    pub(super) worker: WorkerId,
    /// Standard output and error.
    pub(super) pipes: [OwnedFd; 2],
    /// Whether it serves one call at a time, so that its output can be assigned to calls.
    pub(super) exclusive: bool,
    state: Mutex<OutputState>,
}

#[derive(Default)]
struct OutputState {
    /// Bytes read from each pipe.
    read: [u64; 2],
    marks: VecDeque<OutputOffset>,
    /// Bytes of the marks with records for the log, and whether the last such record was dropped.
    logged: usize,
    is_dropping: bool,
    calls: Vec<OutputCall>,
    /// A command to check the marks was sent, and the output thread has not done so yet.
    check_sent: bool,
}

/// A call in flight.
struct OutputCall {
    key: AttemptKey,
    /// Bytes printed before it began, by pipe.
    at: [u64; 2],
    logged: bool,
}

/// Something to do when so many bytes of each pipe were read.
struct OutputOffset {
    at: [u64; 2],
    what: OffsetAction,
}

/// The content of a mark.
pub(super) enum OffsetAction {
    Begin(Box<AttemptOutput>),
    /// A call has ended.
    End(AttemptKey, Option<Box<dyn FnOnce(Captured) + Send>>),
    /// A line for the log, of a call or of none.
    Log(Option<AttemptKey>, Level, String),
}

/// The next part of a worker's output.
pub(super) enum OutputStep {
    /// Bytes of a pipe, which are in the buffer: the pipe, and how many.
    Bytes(usize, usize),
    Mark(OffsetAction),
    /// A pipe has ended, or cannot be read.
    Over(usize),
    Nothing,
}

impl CallOutput {
    /// Begins a call: everything printed from now on is its output.
    pub fn begin(&self, meta: AttemptOutput) {
        let mut state = lock(&self.ends.state);
        // Counted under the lock: the output thread reads nothing between the count and the mark.
        let at = self.ends.printed(&state);
        state.begin(meta, at);
    }

    /// Ends a call that has answered. If it has printed or logged, `done` gets its output, on the output thread,
    /// without a result.
    pub fn end(&self, key: AttemptKey, done: impl FnOnce(Captured) + Send + 'static) -> CallOutputEnd {
        let mut state = lock(&self.ends.state);
        let Some(place) = state.calls.iter().position(|call| call.key == key) else {
            return CallOutputEnd::Silent;
        };
        let call = state.calls.swap_remove(place);
        let at = self.ends.printed(&state);
        if at == call.at && !call.logged {
            let begun = |mark: &OutputOffset| matches!(&mark.what, OffsetAction::Begin(meta) if meta.key() == key);
            // If the begin mark was not read yet, it is removed. Else the end mark waits until the output thread has
            // other work.
            match state.marks.iter().rposition(begun) {
                Some(place) => drop(state.marks.remove(place)),
                None => {
                    let what = OffsetAction::End(key, None);
                    state.marks.push_back(OutputOffset { at, what });
                }
            }
            return CallOutputEnd::Silent;
        }
        let what = OffsetAction::End(key, Some(Box::new(done)));
        self.leave(state, OutputOffset { at, what });
        CallOutputEnd::Printed
    }

    /// Adds a log record to the output of a call in flight, or to the worker's own where there is no such call.
    pub fn log(&self, key: Option<AttemptKey>, record: &LogRecord) {
        let mut text = record.message.clone();
        if !record.fields.is_empty() {
            let fields = serde_json::to_string(&record.fields).unwrap_or_default();
            text = format!("{text} {fields}");
        }
        let mut state = lock(&self.ends.state);
        let call = state.calls.iter_mut().find(|call| Some(call.key) == key);
        let known = call.map(|call| {
            call.logged = true;
            call.key
        });
        let mut what = OffsetAction::Log(known, record.level, text);
        let fits = state.logged + what.size() <= LOGS_MAX;
        if !fits && state.is_dropping {
            return;
        }
        // One note stands for all records that are dropped in a row: a note for each of them would fill the memory
        // instead.
        state.is_dropping = !fits;
        if !fits {
            what = OffsetAction::Log(known, Level::Warning, DROPPED.to_owned());
        }
        state.logged += what.size();
        let at = self.ends.printed(&state);
        self.leave(state, OutputOffset { at, what });
    }

    /// Leaves a mark and has the output thread check it.
    fn leave(&self, mut state: MutexGuard<'_, OutputState>, mark: OutputOffset) {
        state.marks.push_back(mark);
        let check_sent = std::mem::replace(&mut state.check_sent, true);
        // Released before the wake-up, since the woken thread needs this lock at once.
        drop(state);
        if !check_sent {
            self.shared.send(OutputCommand::CheckMarks(self.ends.worker));
        }
    }
}

impl OffsetAction {
    /// Returns the bytes of memory of a record for the log; 0 for anything else.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Log(_, _, text) => size_of::<OutputOffset>() + text.len(),
            Self::Begin(_) | Self::End(..) => 0,
        }
    }
}

impl OutputState {
    fn begin(&mut self, meta: AttemptOutput, at: [u64; 2]) {
        let key = meta.key();
        self.calls.push(OutputCall { key, at, logged: false });
        let what = OffsetAction::Begin(Box::new(meta));
        self.marks.push_back(OutputOffset { at, what });
    }
}

impl PipeOffsets {
    /// Returns the state with the calls `under_way`, whose output may be in the pipes already.
    pub(super) fn new(
        worker: WorkerId,
        pipes: [OwnedFd; 2],
        exclusive: bool,
        under_way: impl IntoIterator<Item = AttemptOutput>,
    ) -> Self {
        let mut state = OutputState::default();
        under_way.into_iter().for_each(|meta| state.begin(meta, [0; 2]));
        Self {
            worker,
            pipes,
            exclusive,
            state: Mutex::new(state),
        }
    }

    /// Returns the bytes of the records for the log that wait.
    #[cfg(test)]
    pub(super) fn logged(&self) -> usize {
        lock(&self.state).logged
    }

    /// Returns the bytes printed so far; for a worker that serves several calls the count is not needed, and is 0.
    fn printed(&self, state: &OutputState) -> [u64; 2] {
        if !self.exclusive {
            return [0; 2];
        }
        let [stdout, stderr] = &self.pipes;
        // Mostly both pipes are empty, and one `poll` costs half of two FIONREADs, at the begin and at the end of each call.
        let mut asked = [PollFd::new(stdout, PollFlags::IN), PollFd::new(stderr, PollFlags::IN)];
        if poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0) {
            return state.read;
        }
        let [out, err] = state.read;
        // A pipe that cannot be asked is closed: it has no unread bytes.
        let unread = |pipe| rustix::io::ioctl_fionread(pipe).unwrap_or(0);
        [out + unread(stdout), err + unread(stderr)]
    }

    /// Returns the next part: a mark that was reached, else bytes up to the next mark from an `open` pipe. The pipe
    /// `first` is tried first.
    pub(super) fn next(&self, buffer: &mut [u8], open: [bool; 2], first: usize) -> OutputStep {
        let mut state = lock(&self.state);
        state.check_sent = false;
        let at = state.marks.front().map(|mark| mark.at);
        // Both pipes are read up to the mark before the mark is carried out: the bytes of a call come before its end,
        // whichever pipe they are in.
        for pipe in [first, 1 - first] {
            let read = state.read[pipe];
            let most = at.map_or(u64::MAX, |at| at[pipe].saturating_sub(read));
            let most = usize::try_from(most).unwrap_or(usize::MAX).min(buffer.len());
            if most == 0 || !open[pipe] {
                continue;
            }
            match rustix::io::read(&self.pipes[pipe], &mut buffer[..most]) {
                Ok(0) => return OutputStep::Over(pipe),
                Ok(count) => {
                    state.read[pipe] += count as u64;
                    return OutputStep::Bytes(pipe, count);
                }
                // Before a mark this means that another process has read the bytes.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return OutputStep::Over(pipe),
            }
        }
        match state.marks.pop_front() {
            Some(mark) => {
                state.logged -= mark.what.size();
                OutputStep::Mark(mark.what)
            }
            None => OutputStep::Nothing,
        }
    }
}
