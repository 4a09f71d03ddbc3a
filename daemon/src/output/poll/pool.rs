//! The output thread's side of warm workers: turns bytes and marks into captures of calls.

use super::{Io, OutputThread, TURN};
use crate::clock;
use crate::output::call_output::{LOGS_MAX, OffsetAction, OutputStep, PipeOffsets};
use crate::output::capture::Capture;
use crate::output::log_store::Stream;
use crate::output::{AttemptOutput, Captured, OutputCommand};
use fnd_wire::ids::WorkerId;
use rustix::event::{Timespec, epoll};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most bytes read at the end: two pipes of 1 MiB, and the records for the log that wait. More than that can only come from
/// a process outside the leaf.
const LAST: usize = (2 << 20) + 2 * LOGS_MAX;
/// The output of a worker outside of calls is bounded like one attempt's for this long; then it has as much room again.
const RENEW: Duration = Duration::from_secs(10);

/// How long a stop waits for the rest of a line that is being printed, possibly in several writes: the next fnd would
/// take the rest for a line of its own. A line that never ends is a prompt.
pub(in crate::output) const REST_OF_LINE: Duration = Duration::from_millis(100);
/// Pause between two checks of that.
const CHECK_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// Receives the output of a call, or of a worker.
pub(super) type Done = Box<dyn FnOnce(Captured) + Send>;

/// The output of a warm worker.
pub(super) struct PoolOutput {
    ends: Arc<PipeOffsets>,
    open: [bool; 2],
    /// Which pipe is read first in the next turn.
    first: usize,
    /// The output that belongs to no call.
    own: Capture,
    own_since: Instant,
    calls: Vec<Capture>,
}

impl OutputThread {
    pub(super) fn start_pool(&mut self, ends: Arc<PipeOffsets>, meta: AttemptOutput) {
        let worker = ends.worker;
        let (io, flags) = (&self.io, epoll::EventFlags::IN);
        let open = [0, 1].map(|pipe: usize| io.watch(&ends.pipes[pipe], (worker, pipe as u64), flags));
        let pool = PoolOutput {
            ends,
            open,
            first: 0,
            own: Capture::of_worker(meta),
            own_since: clock::monotonic(),
            calls: Vec::new(),
        };
        self.pools.insert(worker, pool);
    }

    /// Reads a bounded piece of a warm worker's output, and carries out its marks.
    pub(super) fn read_pool(&mut self, worker: WorkerId) {
        // Taken out of the map meanwhile, because `take_in` borrows the whole thread.
        if let Some(mut pool) = self.pools.remove(&worker) {
            self.take_in(&mut pool, TURN);
            let has_lines = |capture: &Capture| !capture.head.is_empty();
            if has_lines(&pool.own) || pool.calls.iter().any(has_lines) {
                self.write_soon();
            }
            self.pools.insert(worker, pool);
        }
    }

    fn take_in(&mut self, pool: &mut PoolOutput, most: usize) {
        let mut left = most;
        loop {
            // Marks that are reached are always carried out: no later event would wake the thread for them.
            let open = pool.open.map(|open| open && left > 0);
            if left == 0 && pool.has_unread() {
                return;
            }
            let ends = Arc::clone(&pool.ends);
            // In turns, so that a flood on one pipe does not hold back the lines of the other.
            pool.first = 1 - pool.first;
            let next = ends.next(&mut self.io.buffer, open, pool.first);
            if let OutputStep::Mark(what) = &next {
                left = left.saturating_sub(what.size());
            }
            match next {
                OutputStep::Bytes(pipe, count) => {
                    left = left.saturating_sub(count);
                    pool.feed(pipe, count, &mut self.io);
                }
                OutputStep::Mark(OffsetAction::Begin(meta)) => pool.calls.push(Capture::of_worker(*meta)),
                OutputStep::Mark(OffsetAction::End(key, done)) => {
                    let place = pool.calls.iter().position(|call| call.meta.key() == key);
                    if let Some(place) = place {
                        let call = pool.calls.swap_remove(place);
                        self.conclude(call, done);
                    }
                }
                OutputStep::Mark(OffsetAction::Log(key, level, text)) => {
                    let call = pool.calls.iter_mut().find(|call| Some(call.meta.key()) == key);
                    let capture = call.unwrap_or(&mut pool.own);
                    let (meta, sinks) = (capture.meta.clone(), &mut self.io.sinks);
                    capture.say(clock::unix_ms(), level, &text, &mut |line, in_head| {
                        sinks.seen(&meta, line, in_head);
                    });
                    if left == 0 {
                        // The pipes may be empty, so no event would bring the thread back to the marks that are left.
                        return self.shared.send(OutputCommand::CheckMarks(ends.worker));
                    }
                }
                OutputStep::Over(pipe) => pool.close(pipe, &self.io),
                OutputStep::Nothing => return,
            }
        }
    }

    /// Ends a capture; it is kept and reported at the end of this turn.
    fn conclude(&mut self, mut capture: Capture, done: Option<Done>) {
        self.io.sinks.end(&mut capture);
        self.concluded.push((capture, done));
    }

    /// Keeps the captures that have ended in this turn, with one write for each function, and then reports them. So no
    /// call is recorded whose output a crash could still lose.
    pub(super) fn keep_concluded(&mut self) {
        while let Some((first, _)) = self.concluded.first() {
            let function = first.meta.function.clone();
            let same = |(capture, _): &mut (Capture, Option<Done>)| capture.meta.function == function;
            let mut ended: Vec<_> = self.concluded.extract_if(.., same).collect();
            let lines = ended.iter_mut().map(|(capture, _)| {
                let (invocation, attempt) = capture.meta.key();
                (invocation, attempt, &mut capture.head)
            });
            let written = self.store.append_all(&function, lines);
            self.note_disk(written);
            for (capture, done) in ended {
                if let Some(done) = done {
                    done(capture.captured());
                }
            }
        }
    }

    /// Reads the last output of an ended warm worker. The output belongs to the call in flight if there is one, else to
    /// no call.
    pub(super) fn finish_pool(&mut self, mut pool: PoolOutput, done: Done) {
        self.take_in(&mut pool, LAST);
        for pipe in [0, 1] {
            pool.close(pipe, &self.io);
        }
        let mut done = Some(done);
        let single = pool.calls.len() == 1;
        for call in std::mem::take(&mut pool.calls) {
            let done = if single { done.take() } else { None };
            self.conclude(call, done);
        }
        if let Some(done) = done {
            // With several calls the last error line belongs to each of them: the line was printed before the worker
            // ended.
            done(Captured {
                last_error_line: pool.own.error_line(),
                ..Captured::default()
            });
        }
        self.conclude(pool.own, None);
    }

    /// Ends the captures of warm workers' calls, including unfinished lines and bytes beyond the bounds: this output is
    /// not spooled, and another fnd reads on behind it.
    pub(super) fn leave_pools(&mut self) {
        let begun = clock::monotonic();
        loop {
            let in_a_line = |(worker, pool): (&WorkerId, &PoolOutput)| pool.is_in_a_line().then_some(*worker);
            let printing: Vec<_> = self.pools.iter().filter_map(in_a_line).collect();
            // Output that is ready meanwhile is not lost. Commands queued after `Stop` are dropped: no caller waits for
            // them.
            let waited = clock::monotonic().saturating_duration_since(begun);
            if printing.is_empty() || waited > REST_OF_LINE || self.collect(Some(CHECK_PAUSE)).is_err() {
                break;
            }
            printing.into_iter().for_each(|worker| self.read_pool(worker));
        }
        for pool in std::mem::take(&mut self.pools).into_values() {
            for capture in pool.calls.into_iter().chain([pool.own]) {
                self.conclude(capture, None);
            }
        }
    }

    /// Writes what warm workers have printed.
    pub(super) fn write_pools(&mut self) {
        let mut pools = std::mem::take(&mut self.pools);
        let now = clock::monotonic();
        for pool in pools.values_mut() {
            for capture in pool.calls.iter_mut().chain([&mut pool.own]) {
                if !capture.head.is_empty() {
                    // The output of a warm worker is not spooled, so none of these lines can be on the disk already.
                    self.keep(capture, 0);
                }
            }
            if now.saturating_duration_since(pool.own_since) >= RENEW && pool.own.is_full() {
                let fresh = Capture::of_worker(pool.own.meta.clone());
                self.conclude(std::mem::replace(&mut pool.own, fresh), None);
                pool.own_since = now;
            }
        }
        self.pools = pools;
        self.keep_concluded();
    }
}

impl PoolOutput {
    fn is_in_a_line(&self) -> bool {
        self.calls.iter().chain([&self.own]).any(Capture::is_in_a_line)
    }

    fn feed(&mut self, pipe: usize, count: usize, io: &mut Io) {
        // Where several calls run at once, nothing tells which of them has printed the bytes.
        let call = self.calls.last_mut().filter(|_| self.ends.exclusive);
        let capture = call.unwrap_or(&mut self.own);
        let bytes = io.buffer.get(..count).unwrap_or_default();
        io.sinks.feed(capture, (Stream::PIPES[pipe], clock::unix_ms()), bytes);
    }

    /// Returns whether a pipe has unread bytes, so that there will be another turn.
    fn has_unread(&self) -> bool {
        let unread = |pipe| rustix::io::ioctl_fionread(pipe).unwrap_or(0) > 0;
        let mut pipes = self.ends.pipes.iter().zip(self.open);
        pipes.any(|(pipe, open)| open && unread(pipe))
    }

    fn close(&mut self, pipe: usize, io: &Io) {
        if std::mem::replace(&mut self.open[pipe], false) {
            io.end_watch(&self.ends.pipes[pipe]);
        }
    }
}
