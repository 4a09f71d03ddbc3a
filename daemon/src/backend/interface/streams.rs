//! Requests of routes for data that is still arriving: output and events.

use crate::backend::{Failure, LogLines, LogQuery, Pending};
use crate::stream::StreamQuery;
use fnd_core::api::stream::StreamEvent;
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
