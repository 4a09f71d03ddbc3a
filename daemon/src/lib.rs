//! The daemon: the edges around the supervisor. Each folder is a part; `start` connects them in their order.
//!
//! Files:
//! - `allocator`: how the C library's allocator gives memory back to the kernel
//! - `backend`: the daemon as the control server sees it: what routes may ask
//! - `buffers`: one budget for the bytes that fnd holds for its callers
//! - `callers`: the callers that wait for answers, ends and drains
//! - `cli`: the command line of `fnd` and its environment, and the places that follow from them
//! - `clock`: both clocks, and the ids that come from them
//! - `control`: the control API: HTTP over a Unix socket
//! - `database`: what small databases beside the history have in common
//! - `descriptors`: descriptors of the kernel that tasks wait for
//! - `driver`: the one loop that owns the state: events go to the supervisor, its actions are performed
//! - `effects`: the moment from which on nothing leaves a simulated fnd
//! - `exposition`: samples the metrics, and serves them beside the control socket
//! - `follow_ups`: what follows the end of an invocation: the calls of hooks and of alerts
//! - `free_space`: the free space of a file system
//! - `functions`: from files to installed versions
//! - `fuzzing`: gives `tests/fuzz` access to private code
//! - `http`: HTTP/1.1 to a caller
//! - `input`: what tasks say to the driver, and the one way in
//! - `invoke`: a request to run in HTTP: payload, answer, refusal
//! - `ledger`: the history in a database
//! - `lock`: takes locks, also after a panic
//! - `metrics`: the metrics for Prometheus
//! - `modes`: the other programs of this binary
//! - `output`: what running attempts print, and what is kept of it
//! - `peer`: identifies the peer of a connection, and finds its roles
//! - `public`: answers the requests to the public listener
//! - `quotas`: the processes that measure homes and caches
//! - `report`: reports what happens
//! - `settings`: the configuration in force, and the values that follow from it on this machine
//! - `simulate`: the simulation of the whole daemon, where one seed decides everything
//! - `start`: what happens once: connecting to the spawner, opening the history, serving, stopping
//! - `stores`: the small stores beside the history: the audit, shared values, admitted signed requests
//! - `stream`: the stream of happenings, one line each
//! - `systemd`: tells the service manager what fnd does, and takes the sockets that it opened
//! - `telemetry`: the destination of fnd's own messages
//! - `triggers`: what starts functions: the public listener, schedules, files
//! - `uploads`: functions that are uploaded through the API
//! - `views`: reads the documents, lists and problems that fnd shows of itself
//! - `workers`: the link to the spawner, and the conversations with workers

mod allocator;
mod backend;
pub mod buffers;
mod callers;
pub mod cli;
pub mod clock;
mod control;
mod database;
mod descriptors;
pub mod driver;
mod effects;
mod exposition;
mod follow_ups;
mod free_space;
pub mod functions;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod http;
mod input;
mod invoke;
pub mod ledger;
mod lock;
pub mod metrics;
pub mod modes;
pub mod output;
pub mod peer;
mod public;
mod quotas;
mod report;
pub mod settings;
#[cfg(any(test, feature = "simulate"))]
pub mod simulate;
pub mod start;
mod stores;
pub mod stream;
mod systemd;
pub mod telemetry;
pub mod triggers;
mod uploads;
mod views;
pub mod workers;

use cli::{DaemonCli, PlacesError};
use start::handshake::HandshakeError;
use tokio::runtime::LocalOptions;

/// Runs fnd until it is stopped.
///
/// # Errors
/// Any error that keeps fnd from serving; [`exit_code`] gives each its exit code.
pub fn run(cli: &DaemonCli) -> anyhow::Result<()> {
    allocator::set_bounds();
    // Tasks run on the runtime itself: in a `LocalSet` each wake-up of a task passes two schedulers.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(LocalOptions::default())?;
    let result = runtime.block_on(start::serve(cli));
    // Readers of kept output may still wait for a caller that is gone.
    runtime.shutdown_background();
    result
}

/// Returns the exit code of an error: 75 if another daemon holds the state, 78 for the configuration, else 1.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if matches!(error.downcast_ref(), Some(ledger::LockError::Held(_))) {
        75
    } else if matches!(error.downcast_ref(), Some(HandshakeError::Configuration(_)))
        || matches!(error.downcast_ref(), Some(PlacesError::NoConfiguration(_)))
    {
        78
    } else {
        1
    }
}

/// Returns an error with all its causes: `what failed: why: why`.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Waits for a future; for ever where there is none.
pub(crate) async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
