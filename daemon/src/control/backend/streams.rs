//! Requests of routes for data that is still arriving: output and events.

use super::{Failure, Pending};
use crate::stream::StreamQuery;
use fnd_core::access::Permissions;
use fnd_core::api::LogLine;
use fnd_core::api::stream::StreamEvent;
use fnd_wire::ids::{FunctionName, InvocationId};
use tokio::sync::mpsc;

/// Output and events.
pub trait StreamBackend {
    /// Returns kept output and, with [`LogQuery::follow`], the output after it without a gap. Following one invocation
    /// ends with its end; following anything else ends with the receiver.
    fn logs(&self, query: LogQuery) -> Pending<Result<LogLines, Failure>>;

    /// Returns events. The stream ends with the receiver; without [`StreamQuery::follow`] it ends after the kept
    /// events.
    fn stream(&self, query: StreamQuery) -> mpsc::Receiver<StreamEvent>;
}

/// Lines of output, oldest first; the channel closes after the last one.
pub type LogLines = mpsc::Receiver<LogLine>;

/// Which lines of output to return. An absent field does not restrict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogQuery {
    /// Lines of this function.
    pub function: Option<FunctionName>,
    /// Lines of this invocation.
    pub invocation: Option<InvocationId>,
    /// Lines that arrived at this time or later, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Lines that arrived before this time, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Most kept lines, at least 1: the newest that match. Lines that arrive while following do not count.
    pub limit: u32,
    /// Whether to continue with new lines.
    pub follow: bool,
    /// Lines of functions that the caller may view.
    pub reach: Permissions,
}
