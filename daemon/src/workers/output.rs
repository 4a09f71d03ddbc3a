//! Reads what running attempts print, on a thread of its own.
//!
//! ```text
//! pipes -> capture (head | tail, counts, result, last error line) -> kept output (every second, and at the end)
//!                                                                \-> followers, journal (never waited for)
//! ```
//! A worker's pipes are read until it is [finished](Output::finish): its leaf is empty then, so what is in the pipes is all
//! there will be, and a process elsewhere that still holds one is not waited for.

mod capture;
mod poll;
mod result;

use crate::logs::{Bounds, Line, Position, Store};
use fnd_core::api::LogLine;
use fnd_core::ids::{Attempt, FunctionName, InvocationId, WorkerId};
use fnd_core::record::RunResult;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Lines a follower may be behind; more are dropped for it and counted.
const FOLLOW_MAX: usize = 1024;

/// Whose output it is, and its bounds.
#[derive(Debug, Clone)]
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

enum Command {
    Start {
        worker: WorkerId,
        stdout: OwnedFd,
        stderr: OwnedFd,
        meta: Box<Meta>,
    },
    Finish {
        worker: WorkerId,
        result: Option<OwnedFd>,
        done: Box<dyn FnOnce(Captured) + Send>,
    },
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
}

impl Output {
    /// Starts the thread; kept output goes below `logs`.
    ///
    /// # Errors
    /// Where the kernel gives no thread, eventfd or epoll.
    pub fn start(logs: PathBuf, bounds: Bounds, sink: LineSink) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            commands: Mutex::default(),
            wake,
        });
        let thread = poll::Thread::new(Arc::clone(&shared), Store::new(logs, bounds), sink)?;
        std::thread::Builder::new()
            .name("output".into())
            .spawn(move || thread.run())?;
        Ok(Self { shared })
    }

    /// Begins to read a worker's pipes (the reading ends; they are made non-blocking).
    pub fn attach(&self, worker: WorkerId, stdout: OwnedFd, stderr: OwnedFd, meta: Meta) {
        self.shared.send(Command::Start {
            worker,
            stdout,
            stderr,
            meta: Box::new(meta),
        });
    }

    /// Takes what is left in the pipes of a worker whose leaf is empty, reads `$FND_RESULT` from its descriptor, and
    /// gives both to `done` on the output thread. For a worker that was never attached that is nothing.
    pub fn finish(&self, worker: WorkerId, result: Option<OwnedFd>, done: impl FnOnce(Captured) + Send + 'static) {
        self.shared.send(Command::Finish {
            worker,
            result,
            done: Box::new(done),
        });
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

    /// Writes what is held and ends the thread; later commands do nothing.
    pub fn stop(&self) {
        self.shared.send(Command::Stop);
    }
}

impl Shared {
    fn send(&self, command: Command) {
        self.commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(command);
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
