//! Reads what running attempts print, on a thread of its own.
//!
//! ```text
//! pipes -> capture (head | tail, counts, result, last error line) -> kept output (every second, and at the end)
//!                                                                \-> followers, journal (never waited for)
//! ```
//! A worker's pipes are read until it is [finished](Output::finish): its leaf is empty then, so what is in the pipes is all
//! there will be, and a process elsewhere that still holds one is not waited for.
//!
//! What was read is [spooled](spool) until the attempt is [released](Output::release), and what a worker printed first and
//! last stays in its pipes: so another fnd that [adopts](Output::adopt) the worker, given the same pipes, has all of it.

mod call_output;
mod capture;
mod first_read_delay;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod poll;
mod pool;
mod recover;
mod result;
mod spool;
mod tee;

pub use call_output::{CallOutput, Ended};

use crate::logs::{Bell, Line, Position, SEGMENT, Store};
use fnd_core::api::LogLine;
use fnd_core::record::RunResult;
use fnd_wire::form::wire_structs;
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, WorkerId};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// Lines a follower may be behind; more are dropped for it and counted.
const FOLLOW_MAX: usize = 1024;

wire_structs! {
    /// Whose output it is, and its bounds.
    pub struct Meta {
        /// The function.
        pub function: FunctionName,
        /// The invocation.
        pub invocation: InvocationId,
        /// Which try.
        pub attempt: Attempt,
        /// `limits.output`: bytes kept, half from the beginning, half from the end.
        pub output_max: u64,
        /// `limits.result`: most bytes of a result.
        pub result_max: u64,
    }
}

impl Meta {
    pub(crate) fn key(&self) -> (InvocationId, Attempt) {
        (self.invocation, self.attempt)
    }
}

/// What an attempt printed and answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// Bytes of both not kept.
    pub dropped_bytes: u64,
    /// `$FND_RESULT` if it was written, else standard output if it is not larger than a result may be.
    pub result: Option<RunResult>,
    /// Size of `$FND_RESULT`, if that exceeds `limits.result`.
    pub result_too_large: Option<u64>,
    /// Last non-empty line of standard error, at most 4 KiB.
    pub last_error_line: Option<String>,
}

/// Whose lines a follower gets; absent means all.
#[derive(Debug, Clone, Default)]
pub struct Follow {
    /// Of one function.
    pub function: Option<FunctionName>,
    /// Of one invocation.
    pub invocation: Option<InvocationId>,
}

/// Live lines.
#[derive(Debug)]
pub struct Followed {
    /// Every line that arrives from now on; notes (`fnd`) say how many a slow reader missed. Ends when fnd stops.
    pub lines: mpsc::Receiver<LogLine>,
    /// Where the function's kept output ended before the first of them ([`Query::end`](crate::logs::Query)); absent
    /// where it is not one function's, or nothing was kept of it since start.
    pub kept: Option<Position>,
}

/// Gets each kept line as it arrives, on the output thread; must not wait. For the journal.
pub type LineSink = Box<dyn Fn(&Meta, &Line<'_>) + Send>;

/// A worker and the reading ends of its pipes, which are made non-blocking.
#[derive(Debug)]
pub struct Piped {
    /// The worker.
    pub worker: WorkerId,
    /// Its standard output.
    pub stdout: OwnedFd,
    /// Its standard error.
    pub stderr: OwnedFd,
    /// Whose output it is.
    pub meta: Meta,
}

enum Command {
    Start(Box<Piped>),
    Adopt(Vec<Piped>),
    StartPool(Arc<call_output::Ends>, Box<Meta>),
    Look(WorkerId),
    Finish {
        worker: WorkerId,
        result: Option<OwnedFd>,
        done: Box<dyn FnOnce(Captured) + Send>,
    },
    Release(WorkerId),
    Salvage(HashSet<(InvocationId, Attempt)>),
    Follow {
        follow: Follow,
        lines: mpsc::Sender<LogLine>,
        ready: oneshot::Sender<Option<Position>>,
    },
    Settle(oneshot::Sender<()>),
    Stop,
}

/// The output thread's handle; clones share it.
///
/// Commands never wait. There are at most a few for each running worker and open request, which bounds their queue.
#[derive(Clone)]
pub struct Output {
    shared: Arc<Shared>,
}

struct Shared {
    commands: Mutex<Vec<Command>>,
    wake: OwnedFd,
    /// Until it is stopped.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Output {
    /// Starts the thread; kept output goes below `logs`, that of running attempts into the directory `spool`, which is made.
    /// `bell` is rung when there is noticeably more of it.
    ///
    /// # Errors
    /// Where the kernel gives no thread, eventfd or epoll.
    pub fn start(logs: PathBuf, spool: PathBuf, bell: Bell, sink: LineSink) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            commands: Mutex::default(),
            wake,
            thread: Mutex::default(),
        });
        let poll = poll::Thread::new(Arc::clone(&shared), Store::new(logs, SEGMENT, bell), spool, sink)?;
        let thread = std::thread::Builder::new().name("output".into());
        let thread = thread.spawn(move || poll.run())?;
        *shared.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(Self { shared })
    }

    /// Begins to read a worker's pipes.
    pub fn attach(&self, piped: Piped) {
        self.shared.send(Command::Start(Box::new(piped)));
    }

    /// Begins to read the pipes of a warm worker, which serves one call after the other, or several at once where it is not
    /// `exclusive`. What it prints outside of calls is kept as of no invocation (id and attempt 0), with the bounds of
    /// `piped.meta`. It is not spooled: a crash of fnd ends its calls. What is in the pipes already is of the calls `under_way`.
    #[must_use]
    pub fn attach_pool(&self, piped: Piped, exclusive: bool, under_way: impl IntoIterator<Item = Meta>) -> CallOutput {
        let Piped {
            worker,
            stdout,
            stderr,
            meta,
        } = piped;
        let ends = Arc::new(call_output::Ends::new(worker, [stdout, stderr], exclusive, under_way));
        let nobody = Meta {
            invocation: InvocationId(0),
            attempt: Attempt(0),
            ..meta
        };
        self.shared
            .send(Command::StartPool(Arc::clone(&ends), Box::new(nobody)));
        CallOutput {
            shared: Arc::clone(&self.shared),
            ends,
        }
    }

    /// Goes on reading workers that an earlier fnd has attached: with what that has spooled, as if it had gone on itself.
    /// The bounds are those they were attached with, where they have printed anything; followers and the journal get new
    /// lines only. A worker that has ended meanwhile is adopted likewise, and then finished.
    pub fn adopt(&self, workers: Vec<Piped>) {
        self.shared.send(Command::Adopt(workers));
    }

    /// Keeps the output, tail included, of the attempts that an earlier fnd has spooled and nobody adopts, but for the
    /// `known`, which were adopted or will be; removes those spools. At start.
    pub fn salvage(&self, known: HashSet<(InvocationId, Attempt)>) {
        self.shared.send(Command::Salvage(known));
    }

    /// Takes what is left in the pipes of a worker whose leaf is empty, reads `$FND_RESULT` from its descriptor, and
    /// gives both to `done` on the output thread. For a worker that was never attached that is nothing.
    ///
    /// Of a warm worker, `done` gets the output of the call in flight, if there is exactly one, and no result.
    ///
    /// The spool stays until [`Output::release`], and what is left in the pipes too while another descriptor of them is
    /// open: finished, killed, adopted and finished again gives the same, and is kept once.
    pub fn finish(&self, worker: WorkerId, result: Option<OwnedFd>, done: impl FnOnce(Captured) + Send + 'static) {
        self.shared.send(Command::Finish {
            worker,
            result,
            done: Box::new(done),
        });
    }

    /// Removes the spool of a finished worker: nobody will adopt it any more. Done with the next command of another kind.
    pub fn release(&self, worker: WorkerId) {
        self.shared.push(Command::Release(worker));
    }

    /// Returns live lines; absent where fnd is stopping.
    pub async fn follow(&self, follow: Follow) -> Option<Followed> {
        let (sender, lines) = mpsc::channel(FOLLOW_MAX);
        let (ready, begun) = oneshot::channel();
        self.shared.send(Command::Follow {
            follow,
            lines: sender,
            ready,
        });
        let kept = begun.await.ok()?;
        Some(Followed { lines, kept })
    }

    /// Waits until all output that has arrived is where [`read`](crate::logs::read) finds it (but for the tails of attempts
    /// that run and have printed more than is kept).
    pub async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        self.shared.send(Command::Settle(done));
        // An error means that the thread has ended, after writing everything.
        let _ = settled.await;
    }

    /// Writes what is held and ends the thread; later commands do nothing. Workers that run may be adopted by another fnd.
    /// A disk that does not answer keeps this waiting. Not for the output thread.
    pub fn stop(&self) {
        self.shared.send(Command::Stop);
        let thread = self.shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic in it has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn push(&self, command: Command) {
        self.commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(command);
    }

    fn send(&self, command: Command) {
        self.push(command);
        // It can only fail because the counter is full of wake-ups already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<Command> {
        let mut count = [0; 8];
        // Nothing to read: the wake-up was for commands that were taken before.
        let _ = rustix::io::read(&self.wake, &mut count);
        std::mem::take(&mut *self.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
