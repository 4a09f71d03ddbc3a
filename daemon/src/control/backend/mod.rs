//! The interface of the daemon for the control server, cut by resource, in plain types of core, so that the server can
//! be tested with a fake.
//!
//! Everything runs on one `current_thread` runtime, so nothing here is `Send`. Data in memory is returned at once; data
//! on disk and slow operations are a [`Pending`]. It knows nothing about HTTP.
//!
//! ```text
//! events.rs       publish
//! functions.rs    list, show, limits, enable, watch
//! invocations.rs  submit, cancel, history, results, dead letters
//! streams.rs      output, events
//! node.rs         state, configuration, metrics, backup, drain
//! state.rs        values that functions share
//! uploads.rs      deploy, remove
//! answering.rs    answers of the supervisor, and callers that leave before theirs
//! ```
//!
//! Files:
//! - `answering`: the answers of the supervisor, and callers that leave before theirs
//! - `events`: requests about events
//! - `functions`: requests about functions
//! - `invocations`: requests about invocations
//! - `node`: requests about the node
//! - `state`: requests about the state
//! - `streams`: requests for data that is still arriving
//! - `uploads`: requests that change the files of functions

mod answering;
mod events;
mod functions;
mod invocations;
mod node;
mod state;
mod streams;
mod uploads;

pub use answering::{Answering, CallerLeft};
pub use events::{EventBackend, EventOrigin, EventOutcome, EventSender, NewEvent, NotPublished};
pub use functions::{FunctionBackend, FunctionChanges, FunctionFilter, PageBounds, ReleaseChange};
pub use invocations::{InvocationBackend, PassedOn, Repeated};
pub use node::{BundlePieces, Database, NodeBackend};
pub use state::StateBackend;
pub use streams::{LogLines, LogQuery, StreamBackend};
pub use uploads::{Deployed, NotDone, Upload, UploadBackend, UploadCondition};

use futures_util::future::LocalBoxFuture;
use std::sync::Arc;

/// The daemon behind the control socket.
pub trait Backend:
    EventBackend + FunctionBackend + InvocationBackend + StreamBackend + NodeBackend + StateBackend + UploadBackend
{
}

impl<T: EventBackend + FunctionBackend + InvocationBackend + StreamBackend + NodeBackend + StateBackend + UploadBackend>
    Backend for T
{
}

/// A value that comes later.
pub type Pending<T> = LocalBoxFuture<'static, T>;

/// Why the daemon could not do an operation that usually works (for example, a read of the ledger failed). The text is
/// for the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// Why a change was not made: it could not be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotStored(pub Arc<str>);
