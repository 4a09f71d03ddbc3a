//! Output and events.

use super::{Backend, Failure, LogLines, LogQuery, follow};
use crate::input::TaskOwner;
use crate::stream::{self, StreamQuery};
use fnd_core::api::stream::StreamEvent;

/// Most lines between a reader of kept output and its caller.
const LINES_MAX: usize = 256;

impl Backend {
    /// Returns kept output and, with [`LogQuery::follow`], the output after it without a gap. Following one invocation
    /// ends with its end; following anything else ends with the receiver.
    pub(crate) async fn logs(&self, mut query: LogQuery) -> Result<LogLines, Failure> {
        let output = self.daemon.state.borrow().output.clone();
        let root = self.logs.clone();
        let functions = match &query.function {
            Some(function) => vec![function.clone()],
            None => self
                .daemon
                .state
                .borrow()
                .lifecycle
                .registry
                .iter()
                .map(|(name, _)| name.clone())
                .filter(|name| query.reach.views(name))
                .collect(),
        };
        let end = query.invocation.and_then(|id| self.ended(id));
        // An invocation that has ended prints nothing more: following it would never end.
        query.follow &= query.invocation.is_none() || end.is_some();
        let inbox = self.daemon.inbox.clone();
        let sources = follow::LineSources {
            output,
            root,
            functions,
            end,
            inbox,
        };
        follow::lines(sources, query, LINES_MAX).await
    }

    /// Returns events. The stream ends with the receiver; without [`StreamQuery::follow`] it ends after the kept
    /// events.
    pub(crate) fn stream(&self, query: StreamQuery) -> tokio::sync::mpsc::Receiver<StreamEvent> {
        let state = self.daemon.state.borrow();
        let (events, sending) = stream::subscribe(&state.reporter.ring, query, state.clock.now().unix_ms);
        self.daemon.inbox.spawn(TaskOwner::Caller, sending);
        events
    }
}
