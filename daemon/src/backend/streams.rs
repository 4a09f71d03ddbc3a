//! Output and events.

use super::{DaemonBackend, Failure, LogLines, LogQuery, Pending, follow};
use super::{InvocationBackend as _, StreamBackend};
use crate::input::TaskOwner;
use crate::stream::{self, StreamQuery};
use fnd_core::api::stream::StreamEvent;

/// Most lines between a reader of kept output and its caller.
const LINES_MAX: usize = 256;

impl StreamBackend for DaemonBackend {
    fn logs(&self, mut query: LogQuery) -> Pending<Result<LogLines, Failure>> {
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
        Box::pin(follow::lines(
            follow::LineSources {
                output,
                root,
                functions,
                end,
                inbox: self.daemon.inbox.clone(),
            },
            query,
            LINES_MAX,
        ))
    }

    fn stream(&self, query: StreamQuery) -> tokio::sync::mpsc::Receiver<StreamEvent> {
        let state = self.daemon.state.borrow();
        let (events, sending) = stream::subscribe(&state.reporter.ring, query, state.clock.now().unix_ms);
        self.daemon.inbox.spawn(TaskOwner::Caller, sending);
        events
    }
}
