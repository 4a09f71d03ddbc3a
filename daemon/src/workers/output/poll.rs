//! The output thread: one epoll over all pipes, a bounded piece from each in turn.

use super::capture::Capture;
use super::result::{self, Written};
use super::{Captured, Command, Follow, LineSink, Meta, Shared};
use crate::clock;
use crate::logs::{Line, Store, Stream, view};
use fnd_core::api::LogLine;
use fnd_core::ids::WorkerId;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, error::TrySendError};

/// Most bytes read from one pipe in one turn, so that a flood keeps nobody else waiting.
const TURN: usize = 256 << 10;
/// Most bytes taken at the end. A pipe holds 1 MiB at most; more than that can only come from outside the leaf.
const LAST: usize = 2 << 20;
/// How old output of a running attempt may get before it is written.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Read at once: the size of a pipe.
const PIECE: usize = 64 << 10;

/// The wake-up's mark among epoll events; workers count from 1 and each has two.
const WAKE: u64 = u64::MAX;

pub(super) struct Thread {
    shared: Arc<Shared>,
    io: Io,
    store: Store,
    running: HashMap<WorkerId, Running>,
    /// When heads are written next, if one has lines.
    write_at: Option<Instant>,
    /// The last write to disk failed; said once.
    failing: bool,
}

/// What reading a pipe needs beside it.
struct Io {
    epoll: OwnedFd,
    buffer: Vec<u8>,
    sinks: Sinks,
}

struct Running {
    capture: Capture,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

/// Who gets lines as they arrive.
struct Sinks {
    line: LineSink,
    followers: Vec<Follower>,
}

struct Follower {
    follow: Follow,
    lines: mpsc::Sender<LogLine>,
    missed: u64,
}

impl Thread {
    pub(super) fn new(shared: Arc<Shared>, store: Store, line: LineSink) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &shared.wake,
            epoll::EventData::new_u64(WAKE),
            epoll::EventFlags::IN,
        )?;
        let sinks = Sinks {
            line,
            followers: Vec::new(),
        };
        let buffer = vec![0; PIECE];
        let running = HashMap::new();
        Ok(Self {
            shared,
            io: Io { epoll, buffer, sinks },
            store,
            running,
            write_at: None,
            failing: false,
        })
    }

    pub(super) fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        loop {
            events.clear();
            match epoll::wait(
                &self.io.epoll,
                rustix::buffer::spare_capacity(&mut events),
                self.timeout().as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    // Nothing but a defect of ours can make it fail; without it no output is seen.
                    tracing::error!("failed to wait for output ({error}), functions' output is lost from now on");
                    return;
                }
            }
            let mut woken = false;
            for event in &events {
                match event.data.u64() {
                    WAKE => woken = true,
                    mark => self.turn(mark),
                }
            }
            if self.write_at.is_some_and(|at| clock::monotonic() >= at) {
                self.write_heads();
            }
            // Commands last: pipes that are ready are read before their worker is finished.
            if woken {
                for command in self.shared.take() {
                    if matches!(command, Command::Stop) {
                        self.write_heads();
                        return;
                    }
                    self.perform(command);
                }
            }
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let left = self.write_at?.saturating_duration_since(clock::monotonic());
        Timespec::try_from(left).ok()
    }

    fn perform(&mut self, command: Command) {
        match command {
            Command::Start {
                worker,
                stdout,
                stderr,
                meta,
            } => {
                let stdout = self.watch(stdout, worker, 0);
                let stderr = self.watch(stderr, worker, 1);
                self.running.insert(
                    worker,
                    Running {
                        capture: Capture::new(*meta),
                        stdout,
                        stderr,
                    },
                );
            }
            Command::Finish { worker, result, done } => self.finish(worker, result, done),
            Command::Follow { follow, lines, ready } => {
                self.write_heads();
                let kept = follow.function.as_ref().and_then(|function| self.store.end(function));
                if ready.send(kept).is_ok() {
                    self.io.sinks.followers.push(Follower {
                        follow,
                        lines,
                        missed: 0,
                    });
                }
            }
            Command::Settle(done) => {
                self.write_heads();
                // Who asked may have gone away.
                let _ = done.send(());
            }
            Command::Stop => {}
        }
    }

    /// Makes a pipe non-blocking and waits for its bytes; where that fails its output is lost, and said to be.
    fn watch(&self, pipe: OwnedFd, worker: WorkerId, stream: u64) -> Option<OwnedFd> {
        let data = epoll::EventData::new_u64(worker.0 * 2 + stream);
        let watched = rustix::io::ioctl_fionbio(&pipe, true)
            .and_then(|()| epoll::add(&self.io.epoll, &pipe, data, epoll::EventFlags::IN));
        match watched {
            Ok(()) => Some(pipe),
            Err(error) => {
                tracing::error!("failed to watch the output of {worker} ({error}), it is lost");
                None
            }
        }
    }

    /// Reads a bounded piece from a pipe that is ready.
    fn turn(&mut self, mark: u64) {
        let stream = if mark & 1 == 0 { Stream::Stdout } else { Stream::Stderr };
        // Finished in this turn: its pipes are closed already.
        let Some(running) = self.running.get_mut(&WorkerId(mark / 2)) else {
            return;
        };
        running.read(stream, TURN, &mut self.io);
        if self.write_at.is_none() && !running.capture.head.is_empty() {
            self.write_at = Some(clock::monotonic() + WRITE_EVERY);
        }
    }

    fn finish(&mut self, worker: WorkerId, result: Option<OwnedFd>, done: Box<dyn FnOnce(Captured) + Send>) {
        let Some(mut running) = self.running.remove(&worker) else {
            return done(Captured::default());
        };
        for stream in [Stream::Stdout, Stream::Stderr] {
            running.read(stream, LAST, &mut self.io);
            running.close(stream, &self.io.epoll);
        }
        let capture = &mut running.capture;
        let meta = capture.meta.clone();
        let sinks = &mut self.io.sinks;
        capture.end(clock::unix_ms(), &mut |line, in_head| sinks.seen(&meta, line, in_head));
        let mut captured = Captured {
            stdout_bytes: capture.bytes(Stream::Stdout),
            stderr_bytes: capture.bytes(Stream::Stderr),
            dropped_bytes: capture.dropped(),
            result: capture.take_result(),
            result_too_large: None,
            last_error_line: capture.error_line(),
        };
        match result.map(|file| result::read(file, meta.result_max)) {
            None | Some(Ok(Written::No)) => {}
            Some(Ok(Written::Yes(written))) => captured.result = Some(written),
            Some(Ok(Written::TooLarge(size))) => {
                captured.result = None;
                captured.result_too_large = Some(size);
            }
            Some(Err(error)) => tracing::warn!("failed to read the result of {worker} ({error}), taking its output"),
        }
        // The end is told first: a slow disk must not keep a caller waiting.
        done(captured);
        let mut written = self.write(&mut running);
        let tail = running.capture.tail();
        written = written.and_then(|()| self.store.append(&meta.function, meta.invocation, meta.attempt, tail));
        self.note_disk(written);
    }

    fn write(&mut self, running: &mut Running) -> io::Result<()> {
        let Meta {
            function,
            invocation,
            attempt,
            ..
        } = &running.capture.meta;
        let written = self
            .store
            .append(function, *invocation, *attempt, &mut running.capture.head);
        running.capture.head.clear();
        written
    }

    /// Writes what running attempts have printed.
    fn write_heads(&mut self) {
        self.write_at = None;
        let mut running = std::mem::take(&mut self.running);
        for running in running.values_mut().filter(|running| !running.capture.head.is_empty()) {
            let written = self.write(running);
            self.note_disk(written);
        }
        self.running = running;
    }

    fn note_disk(&mut self, written: io::Result<()>) {
        match written {
            Err(error) if !self.failing => {
                self.failing = true;
                tracing::error!("failed to write output of functions ({error}), it is dropped until that works again");
            }
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::info!("output of functions is written again");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

impl Running {
    /// Reads until the pipe is empty, `most` bytes were read, or it has ended, which closes it.
    fn read(&mut self, stream: Stream, most: usize, io: &mut Io) {
        let meta = self.capture.meta.clone();
        let mut read = 0;
        while read < most {
            let Some(pipe) = self.pipe(stream) else { return };
            match rustix::io::read(pipe, &mut *io.buffer) {
                Ok(0) => self.close(stream, &io.epoll),
                Ok(count) => {
                    read += count;
                    let mut seen = |line: &Line<'_>, in_head| io.sinks.seen(&meta, line, in_head);
                    self.capture
                        .feed(stream, clock::unix_ms(), &io.buffer[..count], &mut seen);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!(
                        "failed to read output of `{}` ({error}), the rest of it is lost",
                        meta.function
                    );
                    self.close(stream, &io.epoll);
                }
            }
        }
    }

    fn pipe(&mut self, stream: Stream) -> &mut Option<OwnedFd> {
        if stream == Stream::Stdout {
            &mut self.stdout
        } else {
            &mut self.stderr
        }
    }

    /// Closes a pipe. epoll must be told: the spawner holds a duplicate, so that closing alone would not end the watch.
    fn close(&mut self, stream: Stream, epoll: &OwnedFd) {
        if let Some(pipe) = self.pipe(stream).take()
            && let Err(error) = epoll::delete(epoll, &pipe)
        {
            tracing::error!("failed to end the watch of a pipe ({error})");
        }
    }
}

impl Sinks {
    /// Passes a line on. The journal gets what the head keeps: a flood must not push everything else out of it.
    fn seen(&mut self, meta: &Meta, line: &Line<'_>, in_head: bool) {
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
    fn wants(&self, meta: &Meta) -> bool {
        self.follow
            .function
            .as_ref()
            .is_none_or(|function| *function == meta.function)
            && self
                .follow
                .invocation
                .is_none_or(|invocation| invocation == meta.invocation)
    }

    /// Gives a line, or counts it as missed. Returns whether the follower is still there.
    fn give(&mut self, meta: &Meta, line: &Line<'_>) -> bool {
        let show = |line: &Line<'_>| view(&meta.function, meta.invocation, meta.attempt.0, line);
        if self.missed > 0 {
            let text = format!(
                "{} lines are not shown here: they came faster than they were read",
                self.missed
            );
            let note = Line {
                stream: Stream::Note,
                text: text.as_bytes(),
                ..*line
            };
            match self.lines.try_send(show(&note)) {
                Ok(()) => self.missed = 0,
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Closed(_)) => return false,
            }
        }
        // Not even built where there is no room: a follower that does not read costs nothing.
        if self.lines.capacity() == 0 {
            self.missed += 1;
            return !self.lines.is_closed();
        }
        match self.lines.try_send(show(line)) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.missed += 1;
                true
            }
            Err(TrySendError::Closed(_)) => false,
        }
    }
}
