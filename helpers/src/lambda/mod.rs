//! `fnd-helper --lambda ENTRY CONCURRENCY`: the worker of a function that is made for AWS Lambda.
//!
//! It speaks the worker protocol of fnd (`runtimes/PROTOCOL.md`) on descriptor 3, and Lambda's Runtime API on a port of
//! 127.0.0.1. `bootstrap` is its child, so that both are in the function's cgroup and sandbox, and have its limits. It has the
//! rights of the function's user, and no others.
//!
//! ```text
//! fnd ◀──descriptor 3──▶ worker ── state ── server ◀──127.0.0.1──▶ bootstrap, extensions
//!        Ready, Result            calls                next, response, error
//! ```
//!
//! It ends as `bootstrap` ends, with the same exit code or signal, so that fnd's reason for the failure is the right one. It keeps
//! no limits: fnd ends a worker that answers too late or too much.
//!
//! Files:
//! - `answer`: reads a response, and passes it on
//! - `api`: which request asks for which thing; answers
//! - `calls`: the book of the calls in flight
//! - `child`: the processes of the function, and their environment
//! - `extensions`: the register of extensions
//! - `peer`: the user of a connection
//! - `server`: serves the APIs
//! - `state`: the state that the tasks share
//! - `trace`: traces in the form of X-Ray
//! - `worker`: reads and writes descriptor 3

mod answer;
mod api;
mod calls;
mod child;
mod extensions;
mod peer;
mod server;
mod state;
#[cfg(test)]
mod tests;
mod trace;
mod worker;

use child::{Children, FunctionFacts};
use fnd_core::records::protocol::{ProtocolFailure, worker_side};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use state::WorkerState;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::rc::Rc;
use tokio::net::TcpListener;
use tokio::net::unix::OwnedReadHalf;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinSet, LocalSet};

/// Serves the function whose `bootstrap` is `entry`, with at most so many calls at once, until fnd or the function ends that.
#[must_use]
pub fn run(entry: &Path, concurrency: u32) -> ExitCode {
    crate::allocator::set_bounds();
    let ended = worker::connection().and_then(|fnd| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, serve(fnd, entry, concurrency))
    });
    match ended {
        Ok(end) => end.exit(),
        Err(error) => {
            complain(&format!("the worker cannot serve: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line to standard error, which is the log of the function.
fn complain(line: &str) {
    // An error: nobody reads the log.
    let _ = writeln!(io::stderr(), "fnd: {line}");
}

/// How the worker ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerEnd {
    Stopped,
    Failed,
    /// As `bootstrap` ended.
    Like(ExitStatus),
}

impl WorkerEnd {
    fn exit(self) -> ExitCode {
        let status = match self {
            Self::Stopped => return ExitCode::SUCCESS,
            Self::Failed => return ExitCode::FAILURE,
            Self::Like(status) => status,
        };
        if let Some(signal) = status.signal() {
            // The core of this program would say nothing about the function.
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            // It returns only for a signal that has no name.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        code.map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

/// The parts of a worker that run before the function does.
struct OpenWorker {
    state: Rc<WorkerState>,
    port: u16,
    reader: OwnedReadHalf,
    /// The server, and the writer of descriptor 3.
    tasks: JoinSet<()>,
}

impl OpenWorker {
    async fn new(fnd: UnixStream, facts: FunctionFacts) -> io::Result<Self> {
        fnd.set_nonblocking(true)?;
        let (reader, writer) = tokio::net::UnixStream::from_std(fnd)?.into_split();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (state, queue) = WorkerState::new(facts);
        let state = Rc::new(state);
        let mut tasks = JoinSet::new();
        tasks.spawn_local(worker::write(writer, queue));
        tasks.spawn_local(server::accept(listener, Rc::clone(&state)));
        Ok(Self {
            state,
            port,
            reader,
            tasks,
        })
    }
}

async fn serve(fnd: UnixStream, entry: &Path, concurrency: u32) -> io::Result<WorkerEnd> {
    let entry = std::path::absolute(entry)?;
    let facts = FunctionFacts::of(&child::own_variable, &entry, concurrency);
    let worker = OpenWorker::new(fnd, facts).await?;
    let root = entry.parent().unwrap_or(&entry);
    let environment = child::environment(&child::own_variable, &worker.state.facts, root, worker.port);
    // Before the function starts: from then on fnd may ask everything here to end.
    let terminated = signal(SignalKind::terminate())?;
    let children = match Children::start(&entry, &environment) {
        Ok(children) => children,
        Err(why) => {
            worker.state.send(worker_side::failure(0, &api::error_of(why, None)));
            worker.state.flush().await;
            return Ok(WorkerEnd::Failed);
        }
    };
    // No request is answered before this, since all run on this thread.
    let names = children.names.clone();
    worker.state.extensions.borrow_mut().await_all(names);
    supervise(worker, children, terminated).await
}

/// Why the worker ends.
enum EndCause {
    /// The function reported that it cannot be loaded.
    Load(ProtocolFailure),
    Bootstrap(io::Result<ExitStatus>),
    Extension(String, io::Result<ExitStatus>),
    /// fnd sent SIGTERM to this process and to all others of the function.
    Terminated,
    /// fnd sent Stop, and no call is in flight.
    Stopped,
}

/// Waits for the end of the worker, and carries it out.
async fn supervise(worker: OpenWorker, mut children: Children, mut terminated: Signal) -> io::Result<WorkerEnd> {
    let OpenWorker {
        state, reader, tasks, ..
    } = worker;
    let reading = worker::read(reader, &state);
    tokio::pin!(reading);
    // In this order: a function that cannot be loaded says so and ends, and the end of fnd ends everything at once. No arm loses
    // anything by being dropped, because each of them ends the worker.
    let cause = tokio::select! {
        biased;
        closed = &mut reading => return Ok(closed_end(closed)),
        failure = state.load_failed() => EndCause::Load(failure),
        _ = terminated.recv() => EndCause::Terminated,
        status = children.bootstrap.wait() => EndCause::Bootstrap(status),
        Some(Ok((name, status))) = children.extensions.join_next() => EndCause::Extension(name, status),
        () = state.stopped() => EndCause::Stopped,
    };
    let end = tokio::select! {
        biased;
        closed = &mut reading => closed_end(closed),
        end = finish(cause, &state, &mut children) => end,
    };
    drop(tasks);
    Ok(end)
}

/// Returns the end of a worker whose connection to fnd has ended. What the function does is dropped with its processes.
fn closed_end(closed: Result<(), String>) -> WorkerEnd {
    match closed {
        Ok(()) => WorkerEnd::Stopped,
        Err(why) => {
            complain(&why);
            WorkerEnd::Failed
        }
    }
}

/// Reports the end to fnd, and ends the processes of the function.
async fn finish(cause: EndCause, state: &WorkerState, children: &mut Children) -> WorkerEnd {
    let end = match cause {
        EndCause::Load(failure) => {
            state.send(worker_side::failure(0, &failure));
            shut_down(state, children, "failure").await;
            WorkerEnd::Failed
        }
        EndCause::Bootstrap(status) => {
            let end = bootstrap_end(state, &status);
            state.retire();
            shut_down(state, children, "failure").await;
            end
        }
        EndCause::Extension(name, status) => {
            report_extension(state, &name, &status);
            state.retire();
            shut_down(state, children, "failure").await;
            WorkerEnd::Failed
        }
        EndCause::Terminated => terminated_end(state, children).await,
        EndCause::Stopped => {
            shut_down(state, children, "spindown").await;
            WorkerEnd::Stopped
        }
    };
    state.flush().await;
    end
}

/// Tells the extensions that the worker ends, asks `bootstrap` to end, and waits for both.
async fn shut_down(state: &WorkerState, children: &mut Children, reason: &str) {
    let is_asked = state.announce_end(reason, child::END_MAX);
    children.terminate();
    children.ended(is_asked).await;
}

/// Ends after SIGTERM, which `bootstrap` has got, too. fnd limits the time: after the grace period it sends SIGKILL.
async fn terminated_end(state: &WorkerState, children: &mut Children) -> WorkerEnd {
    let reason = if state.has_calls() { "timeout" } else { "spindown" };
    let is_asked = state.announce_end(reason, child::END_MAX);
    let status = children.bootstrap.wait().await;
    children.ended(is_asked).await;
    status.map_or(WorkerEnd::Failed, WorkerEnd::Like)
}

/// Reports to fnd why `bootstrap` has ended before it asked for an invocation. Later its exit code or signal says it.
fn bootstrap_end(state: &WorkerState, status: &io::Result<ExitStatus>) -> WorkerEnd {
    let succeeded = status.as_ref().is_ok_and(ExitStatus::success);
    if !state.is_ready() {
        let why = format!(
            "`bootstrap` ended before it asked for an invocation ({})",
            end_words(status)
        );
        state.send(worker_side::failure(0, &api::error_of(why, None)));
    }
    match status {
        // A worker that cannot serve ends with another code than 0.
        Ok(_) if succeeded && !state.is_ready() => WorkerEnd::Failed,
        Ok(status) => WorkerEnd::Like(*status),
        Err(_) => WorkerEnd::Failed,
    }
}

fn report_extension(state: &WorkerState, name: &str, status: &io::Result<ExitStatus>) {
    let why = format!(
        "the extension `{name}` ended ({}), and its worker with it",
        end_words(status)
    );
    if !state.is_ready() {
        state.send(worker_side::failure(0, &api::error_of(why, None)));
    } else if state.has_calls() {
        state.fail_calls(&api::error_of(why, None));
    } else {
        complain(&why);
    }
}

fn end_words(status: &io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => child::words(*status),
        Err(error) => error.to_string(),
    }
}
