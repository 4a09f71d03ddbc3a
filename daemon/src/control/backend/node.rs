//! Requests of routes about the node: its state, its configuration, its metrics.

use super::{Failure, Pending};
use crate::buffers::Buffers;
use crate::http::connections::Connections;
use crate::metrics::MetricsFormat;
use fnd_core::api::{AuditList, NodeStatus, ReloadReport, SizeView, ValidateReport, ValidateRequest};
use fnd_core::audit::{AuditFilter, AuditedCalls};
use fnd_manifest::runtime::RuntimeSummary;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

pub trait NodeBackend {
    /// Returns the memory budget of bodies and answers.
    fn buffers(&self) -> Arc<Buffers>;

    /// Returns the accounting of the server's connections.
    fn connections(&self) -> Rc<Connections>;

    /// Returns an error if fnd cannot run functions: `GET /healthz`.
    ///
    /// # Errors
    /// The reason as text for people, such as "no spawner".
    fn health(&self) -> Result<(), String>;

    /// Returns the node without its functions.
    fn node_status(&self) -> NodeStatus;

    /// Returns all metrics as text.
    fn metrics(&self, form: MetricsFormat) -> Pending<String>;

    /// Returns a copy of a database in its present state: its size and its bytes.
    fn backup(&self, of: Database) -> Pending<Result<(u64, BundlePieces), Failure>>;

    /// Records a call in the audit. Returns a future that resolves when the entry is written, or cannot be; nothing if
    /// the answer need not wait for it.
    fn audit(&self, entry: AuditedCalls) -> Option<Pending<()>>;

    /// Returns a page of the audit, newest first.
    fn audited(&self, filter: AuditFilter) -> Pending<Result<AuditList, Failure>>;

    /// Reads configuration and functions again, and waits until every difference is applied or refused.
    fn reload(&self, accept_empty: bool) -> Pending<Result<ReloadReport, Failure>>;

    /// Checks a file as if it were in the functions directory; the file is neither run nor kept.
    fn validate(&self, request: ValidateRequest) -> Pending<Result<ValidateReport, Failure>>;

    /// Accepts no new work from now on; resolves with true when nothing runs any more, or with false when the drain is
    /// cancelled. Calling it twice has the same effect as once.
    fn drain(&self) -> oneshot::Receiver<bool>;

    /// Accepts and starts work again. Returns false if fnd stops.
    fn cancel_drain(&self) -> bool;

    /// Sets the level from which fnd logs its own messages, for a time or until the next change.
    ///
    /// # Errors
    /// The reason why it is no level, for people.
    fn set_log_level(&self, level: &str, time: Option<Duration>) -> Result<(), String>;

    /// Returns the runtimes, sorted by id.
    fn runtimes(&self) -> Vec<RuntimeSummary>;

    /// Returns the sizes, smallest first.
    fn sizes(&self) -> Vec<SizeView>;

    /// Returns the effective configuration: every key of `fnd.toml` that has an effect, defaults filled in.
    fn config(&self) -> serde_json::Value;
}

/// A database that a backup has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    Ledger,
    /// The values that functions share.
    State,
}

/// A file in pieces; the channel closes after the last piece, or when the file could not be read further.
pub type BundlePieces = mpsc::Receiver<Vec<u8>>;
