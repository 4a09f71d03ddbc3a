//! The output thread: one epoll over all pipes, a bounded piece from each in turn.
//!
//! Files:
//! - `pool`: the output thread's side of warm workers
//! - `recover`: the spools that an earlier fnd has left
//! - `running`: a running attempt of a script: reads its two pipes

pub(super) mod pool;
mod recover;
mod running;

use super::capture::Capture;
use super::first_read_delay::Delayed;
use super::result;
use super::sinks::{Follower, Sinks};
use super::spool::{Spool, Spools};
use super::tee::Tee;
use super::{AttemptKey, Captured, LineSink, OutputCommand, Piped, SharedOutput, SpoolPlaces};
use crate::clock;
use crate::lock::lock;
use crate::output::log_store::{LogStore, Stream};
use fnd_wire::ids::WorkerId;
use pool::{Done, PoolOutput};
use recover::SpooledAttempts;
use running::{Pipe, RunningPoll, stream};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most bytes read from one pipe in one turn, so that a flood does not keep other pipes waiting.
const TURN: usize = 256 << 10;
/// How long output of a running attempt may wait before it is written.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Bytes read at once: the size of a pipe.
pub(super) const PIECE: usize = 64 << 10;

/// How often the thread looks for the release of spools: a release alone does not wake it, and a spool may hold values of secrets.
const RELEASED: Duration = Duration::from_millis(500);
/// The wake-up's number among epoll events; workers count from 1 and each has two.
const WAKE: u64 = u64::MAX;

/// The output thread's state.
pub(crate) struct OutputThread {
    shared: Arc<SharedOutput>,
    io: Io,
    store: LogStore,
    running: HashMap<WorkerId, RunningPoll>,
    pools: HashMap<WorkerId, PoolOutput>,
    /// Calls that have ended in this turn, and their callbacks.
    concluded: Vec<(Capture, Option<Done>)>,
    /// Workers with a spool that are finished and not released yet.
    finished: HashMap<WorkerId, AttemptKey>,
    delayed: Delayed,
    /// The spools that an earlier fnd has left.
    spooled: SpooledAttempts,
    /// When heads are written next, if one has lines.
    write_at: Option<Instant>,
    /// The last write to disk failed, so that a failure is reported once.
    failing: bool,
}

/// The parts that reading a pipe needs.
struct Io {
    epoll: OwnedFd,
    buffer: Vec<u8>,
    sinks: Sinks,
    spools: Spools,
    tee: Tee,
}

impl OutputThread {
    pub(super) fn new(
        shared: Arc<SharedOutput>,
        store: LogStore,
        spool: SpoolPlaces,
        line: LineSink,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = epoll::EventData::new_u64(WAKE);
        epoll::add(&epoll, &shared.wake, wake, epoll::EventFlags::IN)?;
        let followers = Vec::new();
        let sinks = Sinks { line, followers };
        let io = Io {
            epoll,
            buffer: vec![0; PIECE],
            sinks,
            spools: Spools::new(spool),
            tee: Tee::new()?,
        };
        Ok(Self {
            shared,
            io,
            store,
            running: HashMap::new(),
            pools: HashMap::new(),
            concluded: Vec::new(),
            finished: HashMap::new(),
            delayed: Delayed::default(),
            spooled: SpooledAttempts::default(),
            write_at: None,
            failing: false,
        })
    }

    pub(super) fn run(mut self) {
        self.find_spooled();
        loop {
            let wakes_at = self.wakes_at();
            let timeout = wakes_at.map(|at| at.saturating_duration_since(clock::monotonic()));
            if !self.turn(timeout.and_then(|timeout| Timespec::try_from(timeout).ok())) {
                return;
            }
        }
    }

    /// Finds the spools that an earlier fnd has left; called before the first turn.
    pub(crate) fn find_spooled(&mut self) {
        self.spooled = SpooledAttempts::find(&mut self.io.spools, &self.store);
    }

    /// Waits until there is something to do, at most for `timeout`, and does it. Returns whether the thread goes on.
    pub(crate) fn turn(&mut self, timeout: Option<Timespec>) -> bool {
        let woken = match self.collect(timeout) {
            Ok(woken) => woken,
            Err(error) => {
                // Only a defect of fnd can make it fail; without it no output is seen.
                tracing::error!("failed to wait for output ({error}), functions' output is lost from now on");
                return false;
            }
        };
        while let Some(mark) = self.delayed.due(clock::monotonic()) {
            self.let_go(mark);
        }
        while let Some(piped) = self.taken_over() {
            let marks = [0, 1].map(|stream| piped.worker.0 * 2 + stream);
            self.start_fresh(piped);
            // Read at once: these bytes have waited for a moment already. If one pipe were delayed again, its bytes
            // could come behind later bytes of the other pipe.
            marks.into_iter().for_each(|mark| self.read_first(mark));
        }
        if self.write_at.is_some_and(|at| clock::monotonic() >= at) {
            self.write_heads();
        }
        // Commands come last: pipes that are ready are read before their worker is finished.
        // `Release` does not wake this thread, so commands are looked for as long as a finished worker has a spool.
        if woken || !self.finished.is_empty() {
            for command in self.shared.take() {
                if matches!(command, OutputCommand::Stop) {
                    // Scripts need nothing here: all of their output that was read is in their spools.
                    self.leave_pools();
                    self.write_heads();
                    return false;
                }
                self.perform(command);
            }
        }
        self.keep_concluded();
        true
    }

    /// Waits until pipes are ready and reads from them. Returns whether there are commands.
    fn collect(&mut self, timeout: Option<Timespec>) -> rustix::io::Result<bool> {
        let mut events = [const { MaybeUninit::uninit() }; 256];
        let ready = match epoll::wait(&self.io.epoll, &mut events, timeout.as_ref()) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => &mut [],
            Err(error) => return Err(error),
        };
        let mut woken = false;
        for event in ready {
            match event.data.u64() {
                WAKE => woken = true,
                mark => self.ready(mark),
            }
        }
        Ok(woken)
    }

    /// Returns whether pipes or commands wake the thread now.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn is_woken(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        // An epoll is ready when one of its descriptors is: the thread would not wait.
        let mut epoll = [PollFd::new(&self.io.epoll, PollFlags::IN)];
        poll(&mut epoll, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Returns when the thread has something to do although nothing wakes it.
    pub(crate) fn wakes_at(&mut self) -> Option<Instant> {
        let running = &self.running;
        let held = self.delayed.next(|mark| running.contains_key(&WorkerId(mark / 2)));
        let brief = lock(&self.shared.brief).next();
        let released = (!self.finished.is_empty()).then(|| clock::monotonic() + RELEASED);
        let times = self.write_at.into_iter().chain(held).chain(brief).chain(released);
        times.min()
    }

    fn start(&mut self, piped: Piped, (capture, spool, stored): (Capture, Spool, u64)) {
        let worker = piped.worker;
        // Only once: the first read is delayed, and until then the bytes in the pipe would wake the thread each time.
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        let pipes = [(piped.stdout, 0), (piped.stderr, 1)].map(|(end, pipe)| {
            let is_watched = self.io.watch(&end, (worker, pipe), once);
            is_watched.then_some(Pipe { end, first: true })
        });
        let running = RunningPoll {
            capture,
            spool,
            stored,
            pipes,
        };
        self.running.insert(worker, running);
    }

    /// Reads the first bytes of a pipe that has waited for a moment; if there are none yet, they are delayed.
    fn read_first(&mut self, mark: u64) {
        let has_bytes = |pipe: &mut Pipe| rustix::io::ioctl_fionread(&pipe.end).is_ok_and(|bytes| bytes > 0);
        if self.pipe(mark).is_some_and(has_bytes) {
            self.let_go(mark);
        }
    }

    /// Returns a worker that has run for a moment and has not ended.
    fn taken_over(&self) -> Option<Piped> {
        lock(&self.shared.brief).due(clock::monotonic())
    }

    fn start_fresh(&mut self, piped: Piped) {
        let fresh = (Capture::new(piped.meta.clone()), Spool::None, 0);
        self.start(piped, fresh);
    }

    fn perform(&mut self, command: OutputCommand) {
        match command {
            OutputCommand::Start(piped) => self.start_fresh(*piped),
            OutputCommand::Adopt(workers) => {
                self.spooled.count(workers.iter().map(|piped| &piped.meta), &self.store);
                for piped in workers {
                    let recovered = self.recover(piped.meta.clone());
                    self.start(piped, recovered);
                }
            }
            OutputCommand::StartPool(ends, meta) => self.start_pool(ends, *meta),
            OutputCommand::CheckMarks(worker) => self.read_pool(worker),
            OutputCommand::Finish { worker, result, done } => self.finish(worker, result, done),
            OutputCommand::Release(worker) => {
                if let Some(key) = self.finished.remove(&worker) {
                    self.io.spools.remove(key);
                }
            }
            OutputCommand::Salvage(known) => self.salvage(&known),
            OutputCommand::Follow { follow, lines, ready } => {
                self.settle();
                // Everything that came before was written just now, so kept and live lines meet at this position.
                let kept = follow.function.as_ref().and_then(|function| self.store.end(function));
                if ready.send(kept).is_ok() {
                    self.io.sinks.followers.push(Follower {
                        follow,
                        lines,
                        missed: 0,
                    });
                }
            }
            OutputCommand::Settle(done) => {
                self.settle();
                // An error: the caller has gone away.
                let _ = done.send(());
            }
            OutputCommand::Stop => {}
        }
    }

    /// Delays a pipe that is ready for the first time, reads from any other.
    fn ready(&mut self, mark: u64) {
        match self.pipe(mark) {
            Some(pipe) if pipe.first => self.delayed.delay(mark, clock::monotonic()),
            Some(_) => self.read_piece(mark),
            // It is a warm worker's pipe, or was closed in this turn.
            None => self.read_pool(WorkerId(mark / 2)),
        }
    }

    fn pipe(&mut self, mark: u64) -> Option<&mut Pipe> {
        let running = self.running.get_mut(&WorkerId(mark / 2))?;
        running.pipes[stream(mark).pipe()].as_mut()
    }

    /// Reads from a pipe that was delayed; from now on it is read whenever it is ready.
    fn let_go(&mut self, mark: u64) {
        let running = self.running.get_mut(&WorkerId(mark / 2));
        let Some(pipe) = running.and_then(|running| running.pipes[stream(mark).pipe()].as_mut()) else {
            return;
        };
        pipe.first = false;
        let data = epoll::EventData::new_u64(mark);
        if let Err(error) = epoll::modify(&self.io.epoll, &pipe.end, data, epoll::EventFlags::IN) {
            tracing::error!("failed to continue to watch a pipe ({error}), it is read at the end");
        }
        self.read_piece(mark);
    }

    /// Reads a bounded piece from a pipe that is ready.
    fn read_piece(&mut self, mark: u64) {
        let stream = stream(mark);
        let Some(running) = self.running.get_mut(&WorkerId(mark / 2)) else {
            return;
        };
        running.read(stream, TURN, &mut self.io);
        if !running.capture.head.is_empty() {
            self.write_soon();
        }
    }

    /// Schedules the next write of heads.
    fn write_soon(&mut self) {
        self.write_at.get_or_insert_with(|| clock::monotonic() + WRITE_EVERY);
    }

    fn finish(&mut self, worker: WorkerId, result: Option<OwnedFd>, done: Box<dyn FnOnce(Captured) + Send>) {
        if let Some(pool) = self.pools.remove(&worker) {
            return self.finish_pool(pool, done);
        }
        let Some(mut running) = self.running.remove(&worker) else {
            return done(Captured::default());
        };
        for stream in Stream::PIPES {
            running.last(stream, &mut self.io);
            running.close(stream, &self.io);
        }
        let capture = &mut running.capture;
        let key = capture.meta.key();
        // Before the capture ends, because the end would note that standard output is too large for a result.
        if result.as_ref().is_some_and(result::is_written) {
            capture.gives_result = false;
        }
        self.io.sinks.end(capture);
        let captured = capture.conclude(worker, result);
        // Before `done`: once the end is recorded the worker is not adopted any more, and its pipes are gone.
        let kept = self.keep(&mut running.capture, running.stored);
        done(captured);
        // Without room on the disk the spool stays for the next start.
        if kept && !matches!(running.spool, Spool::None) {
            self.finished.insert(worker, key);
        }
    }

    /// Writes the lines of an attempt, of which `stored` are on disk already. Returns whether all are on disk now.
    fn keep(&mut self, capture: &mut Capture, stored: u64) -> bool {
        let (invocation, attempt) = capture.meta.key();
        capture.head.skip_to(stored);
        let lines = [(invocation, attempt, &mut capture.head)];
        let written = self.store.append_all(&capture.meta.function, lines);
        // Lines that could not be written are dropped, too: a full disk must not fill the memory.
        capture.head.clear();
        let kept = written.is_ok();
        self.note_disk(written);
        kept
    }

    /// Reads and writes what running attempts have printed.
    fn settle(&mut self) {
        // Workers whose pipes still wait for their moment have printed, too.
        let waiting: Vec<Piped> = lock(&self.shared.brief).take().collect();
        waiting.into_iter().for_each(|piped| self.start_fresh(piped));
        // Reads bytes that came after this turn began, or before their worker was attached. Commands wait for their
        // turn.
        if let Err(error) = self.collect(Some(Timespec::default())) {
            tracing::error!("failed to check for output ({error})");
        }
        for (_, mark) in self.delayed.take() {
            self.let_go(mark);
        }
        self.write_heads();
    }

    /// Writes what running attempts have printed.
    fn write_heads(&mut self) {
        self.write_at = None;
        // Taken out meanwhile, because `keep` borrows the whole thread.
        let mut running = std::mem::take(&mut self.running);
        for RunningPoll {
            capture, spool, stored, ..
        } in running.values_mut()
        {
            self.io.spools.heal(spool, capture);
            if !capture.head.is_empty() {
                self.keep(capture, *stored);
            }
        }
        self.running = running;
        self.write_pools();
    }

    fn note_disk(&mut self, written: io::Result<()>) {
        match written {
            Err(error) if !self.failing => {
                self.failing = true;
                tracing::error!(
                    "failed to write output of functions ({error}), it is dropped until writes succeed again"
                );
            }
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::info!("output of functions is written again");
            }
            // Nothing has changed, or the failure was reported when it began.
            Ok(()) | Err(_) => {}
        }
    }
}

impl Io {
    /// Makes a pipe of a worker non-blocking and waits for its bytes. If that fails, its output is lost, and an error is logged.
    fn watch(&self, end: &OwnedFd, (worker, pipe): (WorkerId, u64), flags: epoll::EventFlags) -> bool {
        let data = epoll::EventData::new_u64(worker.0 * 2 + pipe);
        let watched = rustix::io::ioctl_fionbio(end, true).and_then(|()| epoll::add(&self.epoll, end, data, flags));
        if let Err(error) = &watched {
            tracing::error!("failed to watch the output of {worker} ({error}), it is lost");
        }
        watched.is_ok()
    }

    /// Ends the watch of a pipe. Closing the pipe alone would not end it: the spawner, and for a warm worker the other thread, hold the
    /// pipe too.
    fn end_watch(&self, end: &OwnedFd) {
        if let Err(error) = epoll::delete(&self.epoll, end) {
            tracing::error!("failed to end the watch of a pipe ({error})");
        }
    }
}
