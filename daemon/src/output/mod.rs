//! Reads what running attempts print, on a thread of its own.
//!
//! ```text
//! pipes -> masker -> capture (head | tail, counts, result, last error line) -> kept output (every second, and at the end)
//!                                                                          \-> followers, journal (never waited for)
//! ```
//! The output thread reads a worker's pipes until the worker is [finished](Output::finish). Its leaf is empty then, so
//! nothing more comes than what is in the pipes. The thread does not wait for a process elsewhere that still holds a
//! pipe.
//!
//! The values of a function's secrets are masked in everything but the result, of which a masked copy is kept.
//!
//! Bytes that were read are [spooled](spool) until the attempt is [released](Output::release). The first and the last
//! bytes of a worker stay in its pipes. So another fnd that [adopts](Output::adopt) the worker, given the same pipes,
//! has all of its output.
//!
//! Files:
//! - `deferred_pipes`: workers that the output thread has not seen yet
//! - `call_output`: assigns a warm worker's output to the invocation in which it was printed
//! - `capture`: the part of one attempt's output that is kept
//! - `first_read_delay`: delays the first read of a worker's pipe for a moment
//! - `fuzzing`: the fuzzer's entry to spools
//! - `log_store`: the kept output of attempts
//! - `message`: messages of functions and interpreters, as records have them
//! - `poll`: the output thread
//! - `records`: sends records to the ledger, and keeps those that wait for their output
//! - `result`: makes a function's result from its bytes
//! - `sinks`: passes lines on as they arrive, to the journal and to callers that follow the output
//! - `spool`: the bytes read from the pipes of running attempts, on disk
//! - `tee`: reads a pipe without taking anything out of it, by `tee(2)`

mod call_output;
mod capture;
mod deferred_pipes;
mod first_read_delay;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
pub mod log_store;
pub(crate) mod message;
mod poll;
mod records;
mod result;
mod sinks;
mod spool;
mod tee;

pub use call_output::{CallOutput, CallOutputEnd};
pub(crate) use poll::OutputThread;
pub(crate) use records::{EndedRecords, Records};
pub(crate) use sinks::output_line;

use crate::clock;
use crate::ledger::Retention;
use crate::lock::lock;
use crate::output::deferred_pipes::Brief;
use crate::output::log_store::{KeepOutput, Keeper, Line, LogStore, Position, SEGMENT};
use fnd_core::access::Permissions;
use fnd_core::api::LogLine;
use fnd_core::mask::Mask;
use fnd_core::records::{RunResult, Usage};
use fnd_core::run::{Exited, TooLarge};
use fnd_core::triggers::cgi;
use fnd_wire::frame::Exited as ExitFrame;
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, WorkerId};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Most lines a follower may be behind; more are dropped for it and counted.
const FOLLOW_MAX: usize = 1024;

/// An attempt of an invocation.
pub(crate) type AttemptKey = (InvocationId, Attempt);

/// The invocation whose output it is, and the bounds of that output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOutput {
    pub function: FunctionName,
    pub invocation: InvocationId,
    /// The number of the try.
    pub attempt: Attempt,
    /// `limits.output`: bytes kept, half from the beginning, half from the end.
    pub output_max: u64,
    /// `limits.result`: most bytes of a result.
    pub result_max: u64,
    /// Whether standard output is a CGI document: it is the answer only, and no log.
    pub cgi: bool,
    /// The fingerprints of the function's secrets; absent where it has none.
    pub mask: Option<Arc<Mask>>,
}

impl AttemptOutput {
    pub(crate) fn key(&self) -> AttemptKey {
        (self.invocation, self.attempt)
    }
}

/// The output and the result of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// Bytes of both streams that were not kept.
    pub dropped_bytes: u64,
    /// The content of `$FND_RESULT` if it was written, else standard output if that is not larger than a result may be.
    pub result: Option<RunResult>,
    /// The facts about a result that exceeds `limits.result` and is therefore no result.
    pub result_too_large: Option<TooLarge>,
    /// Why standard output is no CGI document.
    pub bad_answer: Option<String>,
    /// The line of standard error that says why the program failed, at most 4 KiB.
    pub last_error_line: Option<String>,
    /// The last lines of both streams, at most 20 and 4 KiB.
    pub last_lines: String,
}

impl Captured {
    /// Joins the reports of the spawner and of the output thread about a worker's end. `state` is the state directory.
    pub(crate) fn with_exit(self, frame: &ExitFrame, state: &str) -> Exited {
        Exited {
            worker: frame.worker,
            late: frame
                .late
                .map(|(ago, lasted)| (Duration::from_micros(ago), Duration::from_micros(lasted))),
            status: frame.status,
            usage: Usage {
                cpu_us: frame.cpu_us,
                memory_peak_bytes: frame.memory_peak,
                peak_of_largest: frame.peak_of_largest,
                throttled_us: frame.throttled_us,
                stdout_bytes: self.stdout_bytes,
                stderr_bytes: self.stderr_bytes,
                dropped_bytes: self.dropped_bytes,
                scope_worker: false,
            },
            oom_kills: frame.oom_kills,
            oom_shared: frame.oom_shared,
            pids_refused: frame.pids_refused,
            stragglers: frame.stragglers,
            result: self.result,
            result_too_large: self.result_too_large,
            bad_answer: self.bad_answer.map(|why| message::shown(state, &why)),
            last_error_line: self.last_error_line.map(|line| message::shown(state, &line)),
        }
    }

    /// Masks the values of secrets that are not masked yet, and states what is kept of the result.
    fn mask(&mut self, mask: &Mask) {
        if let Some(result) = &mut self.result {
            mask.result(result);
        }
        if let Some(why) = &mut self.bad_answer {
            mask.message(why);
        }
    }

    /// Reads standard output as a CGI document.
    fn read_document(&mut self, result_max: u64) {
        if self.stdout_bytes > result_max {
            self.result_too_large = Some(TooLarge {
                bytes: self.stdout_bytes,
                is_output: false, // a document is no log
            });
            return;
        }
        let printed = self.result.take().map(|printed| printed.data).unwrap_or_default();
        match cgi::read(&printed) {
            Ok((response, at)) => {
                let body = printed.slice(at.min(printed.len())..);
                self.result = Some(RunResult::stated(response, body));
            }
            Err(why) => self.bad_answer = Some(why.to_string()),
        }
    }
}

/// The directories of spools.
#[derive(Debug, Clone)]
pub struct SpoolPlaces {
    /// In the state directory.
    pub state: PathBuf,
    /// In the run directory, which is in memory: for functions with secrets.
    pub memory: PathBuf,
}

/// The lines that a follower gets; absent means all.
#[derive(Debug, Clone, Default)]
pub struct Follow {
    /// Only lines of this function.
    pub function: Option<FunctionName>,
    /// Only lines of this invocation.
    pub invocation: Option<InvocationId>,
    /// Only lines of functions that the follower may view.
    pub reach: Permissions,
}

/// The lines that a follower gets as they arrive.
#[derive(Debug)]
pub struct Followed {
    /// Every line that arrives from now on; lines of fnd itself (`fnd`) say how many a slow reader missed. Ends when
    /// fnd stops.
    pub lines: mpsc::Receiver<LogLine>,
    /// Where the function's kept output ended before the first of these lines ([`Query::end`](crate::output::log_store::Query));
    /// absent where the lines are not of one function, or nothing was kept of it since start.
    pub kept: Option<Position>,
}

/// Gets each kept line as it arrives, on the output thread, so it must not wait. Used for the journal.
pub type LineSink = Box<dyn Fn(&AttemptOutput, &Line<'_>) + Send>;

/// A worker and the reading ends of its pipes, which are made non-blocking.
#[derive(Debug)]
pub struct Piped {
    pub worker: WorkerId,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// The invocation whose output it is.
    pub meta: AttemptOutput,
}

enum OutputCommand {
    Start(Box<Piped>),
    Adopt(Vec<Piped>),
    StartPool(Arc<call_output::PipeOffsets>, Box<AttemptOutput>),
    CheckMarks(WorkerId),
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
/// Sending a command never waits. There are at most a few for each running worker and open request, which bounds the
/// queue.
#[derive(Clone)]
pub struct Output {
    shared: Arc<SharedOutput>,
    /// Forgets old output.
    keeper: Keeper,
}

struct SharedOutput {
    commands: Mutex<Vec<OutputCommand>>,
    brief: Mutex<Brief>,
    wake: OwnedFd,
    /// Present until the thread is stopped.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Output {
    /// Starts the thread. Kept output goes below `logs`; the output of running attempts goes into the directories
    /// `spool`, which are made. `keeper` forgets old output.
    ///
    /// # Errors
    /// The kernel gives no thread, eventfd or epoll.
    pub fn start(logs: PathBuf, spool: SpoolPlaces, keeper: Keeper, sink: LineSink) -> io::Result<Self> {
        let (output, poll) = Self::prepare(logs, spool, keeper, sink)?;
        let thread = std::thread::Builder::new().name("output".into());
        let thread = thread.spawn(move || poll.run())?;
        *lock(&output.shared.thread) = Some(thread);
        Ok(output)
    }

    /// Returns the handle, and what the thread runs; starts no thread.
    ///
    /// # Errors
    /// The kernel gives no eventfd or epoll.
    pub(crate) fn prepare(
        logs: PathBuf,
        spool: SpoolPlaces,
        keeper: Keeper,
        sink: LineSink,
    ) -> io::Result<(Self, OutputThread)> {
        // The output thread waits for pipes and commands with one epoll, which needs a descriptor for each. A channel
        // of the standard library has none, so this eventfd announces commands.
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(SharedOutput {
            commands: Mutex::default(),
            brief: Mutex::default(),
            wake,
            thread: Mutex::default(),
        });
        let store = LogStore::new(logs, SEGMENT, keeper.clone());
        let poll = OutputThread::new(Arc::clone(&shared), store, spool, sink)?;
        Ok((Self { shared, keeper }, poll))
    }

    /// Sets how much output is kept; what exceeds that is forgotten soon.
    pub fn retain(&self, keep: Retention<KeepOutput>) {
        self.keeper.keep(keep);
    }

    /// Returns the bytes of all kept output at the last check.
    pub fn kept_bytes(&self) -> u64 {
        self.keeper.bytes()
    }

    /// Takes a worker's pipes, which the output thread begins to read after a moment.
    pub fn attach(&self, piped: Piped) {
        if lock(&self.shared.brief).add(piped, clock::monotonic()) {
            self.shared.wake();
        }
    }

    /// Begins to read the pipes of a warm worker, which serves one call after the other, or several at once where it is
    /// not `exclusive`. Output outside of calls is kept under no invocation (id and attempt 0), with the bounds of
    /// `piped.meta`. It is not spooled: a crash of fnd ends the worker's calls. Bytes that are already in the pipes
    /// belong to the calls `under_way`.
    #[must_use]
    pub fn attach_pool(
        &self,
        piped: Piped,
        exclusive: bool,
        under_way: impl IntoIterator<Item = AttemptOutput>,
    ) -> CallOutput {
        let pipes = [piped.stdout, piped.stderr];
        let ends = call_output::PipeOffsets::new(piped.worker, pipes, exclusive, under_way);
        let ends = Arc::new(ends);
        let nobody = AttemptOutput {
            invocation: InvocationId(0),
            attempt: Attempt(0),
            ..piped.meta
        };
        let command = OutputCommand::StartPool(Arc::clone(&ends), Box::new(nobody));
        self.shared.send(command);
        let shared = Arc::clone(&self.shared);
        CallOutput { shared, ends }
    }

    /// Continues to read workers that an earlier fnd has attached, from what that fnd has spooled. Where a worker has
    /// printed anything, the bounds are those it was attached with. Followers and the journal get new lines only. A
    /// worker that has ended meanwhile is adopted likewise, and then finished.
    pub fn adopt(&self, workers: Vec<Piped>) {
        self.shared.send(OutputCommand::Adopt(workers));
    }

    /// Keeps the output, tail included, of attempts that an earlier fnd has spooled and that are not adopted, and
    /// removes their spools. The `known` attempts, which were adopted or will be, are left alone. Called at start.
    pub fn salvage(&self, known: HashSet<(InvocationId, Attempt)>) {
        self.shared.send(OutputCommand::Salvage(known));
    }

    /// Reads the rest of the pipes of a worker whose leaf is empty, and `$FND_RESULT` from its descriptor, and gives
    /// both to `done` on the output thread. For a worker that was never attached both are empty.
    ///
    /// For a warm worker, `done` gets the output of the call in flight, if there is exactly one, and no result.
    ///
    /// The spool stays until [`Output::release`]. The rest of the pipes stays too while another descriptor of them is
    /// open. So a worker that is finished, killed, adopted and finished again gives the same output, and it is kept
    /// once.
    pub fn finish(&self, worker: WorkerId, result: Option<OwnedFd>, done: impl FnOnce(Captured) + Send + 'static) {
        if let Some(piped) = lock(&self.shared.brief).remove(worker) {
            // Without a wake-up of its own: the next command wakes the thread for both.
            self.shared.push(OutputCommand::Start(Box::new(piped)));
        }
        let done = Box::new(done);
        self.shared.send(OutputCommand::Finish { worker, result, done });
    }

    /// The same for a worker of which the output thread has not begun to read, if it has printed nothing: the caller gets its
    /// result at once. Absent for every other worker; then nothing has happened.
    pub fn finish_silent(&self, worker: WorkerId, result: &mut Option<OwnedFd>) -> Option<Captured> {
        let piped = lock(&self.shared.brief).remove(worker)?;
        let captured = deferred_pipes::silent(&piped, result);
        if captured.is_none() {
            // The thread need not be woken: the worker is finished next.
            self.shared.push(OutputCommand::Start(Box::new(piped)));
        }
        captured
    }

    /// Removes the spool of a finished worker, which is not adopted any more. Done within half a second: the thread is not woken
    /// for that alone.
    pub fn release(&self, worker: WorkerId) {
        self.shared.push(OutputCommand::Release(worker));
    }

    /// Returns live lines; absent where fnd is stopping.
    pub async fn follow(&self, follow: Follow) -> Option<Followed> {
        // Bounded: the output thread drops lines of a follower that does not read, and never waits for it.
        let (lines, followed) = mpsc::channel(FOLLOW_MAX);
        let (ready, begun) = oneshot::channel();
        self.shared.send(OutputCommand::Follow { follow, lines, ready });
        let (kept, lines) = (begun.await.ok()?, followed);
        Some(Followed { lines, kept })
    }

    /// Waits until [`read`](crate::output::log_store::read) sees all output that has arrived, except for the tails of running
    /// attempts that have printed more than is kept.
    pub async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        self.shared.send(OutputCommand::Settle(done));
        // An error means that the thread has ended, and it wrote everything before.
        let _ = settled.await;
    }

    /// Writes the output that is held and ends the thread; later commands do nothing. Running workers may be adopted by
    /// another fnd. Waits as long as the disk does not answer. Not to be called on the output thread.
    pub fn stop(&self) {
        self.shared.send(OutputCommand::Stop);
        let thread = lock(&self.shared.thread).take();
        if let Some(thread) = thread {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

impl SharedOutput {
    fn push(&self, command: OutputCommand) {
        lock(&self.commands).push(command);
    }

    fn send(&self, command: OutputCommand) {
        self.push(command);
        self.wake();
    }

    fn wake(&self) {
        // The write fails only if the counter is full of wake-ups already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<OutputCommand> {
        let mut count = [0; 8];
        // Nothing to read: the wake-up was for commands that were taken before.
        let _ = rustix::io::read(&self.wake, &mut count);
        // Taken after the wake-up was read: a command that comes in between wakes the thread once more.
        std::mem::take(&mut *lock(&self.commands))
    }
}

#[cfg(test)]
mod tests;
