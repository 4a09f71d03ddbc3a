//! Output, first what is kept and then live lines, without a gap (the lines of `logs` and `logs -f`); and events.

use super::{Backend, Failure};
use crate::input::TaskOwner;
use crate::output::{Follow, Followed, log_store};
use crate::stream::{self, StreamQuery};
use fnd_core::access::Permissions;
use fnd_core::api::LogLine;
use fnd_core::api::stream::StreamEvent;
use fnd_wire::ids::{FunctionName, InvocationId};
use tokio::sync::{mpsc, oneshot};

/// Most lines between a reader of kept output and its caller.
const LINES_MAX: usize = 256;

/// Which lines of output to return. An absent field does not restrict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogQuery {
    /// Lines of this function.
    pub(crate) function: Option<FunctionName>,
    /// Lines of this invocation.
    pub(crate) invocation: Option<InvocationId>,
    /// Lines that arrived at this time or later, Unix milliseconds.
    pub(crate) since_ms: Option<u64>,
    /// Lines that arrived before this time, Unix milliseconds.
    pub(crate) until_ms: Option<u64>,
    /// Most kept lines, at least 1: the newest that match. Lines that arrive while following do not count.
    pub(crate) limit: u32,
    /// Whether to continue with new lines.
    pub(crate) follow: bool,
    /// Lines of functions that the caller may view.
    pub(crate) reach: Permissions,
}

impl Backend {
    /// Returns kept output and, with [`LogQuery::follow`], the output after it without a gap: oldest first. Following one invocation
    /// ends with its end; following anything else ends with the receiver.
    ///
    /// # Errors
    /// fnd is stopping.
    pub(crate) async fn logs(&self, mut query: LogQuery) -> Result<mpsc::Receiver<LogLine>, Failure> {
        let output = self.daemon.state.borrow().output.clone();
        let root = self.logs.clone();
        let functions = self.kept_functions(&query);
        let end = query.invocation.and_then(|id| self.ended(id));
        // An invocation that has ended prints nothing more: following it would never end.
        query.follow &= query.invocation.is_none() || end.is_some();
        // Live lines first: kept lines are read up to the place where the live ones begin.
        let live = if query.follow {
            let follow = Follow {
                function: query.function.clone(),
                invocation: query.invocation,
                reach: query.reach.clone(),
            };
            let followed = output
                .follow(follow)
                .await
                .ok_or_else(|| Failure("fnd is stopping".into()))?;
            Some(followed)
        } else {
            // Output of running attempts waits in memory for up to a second before it is kept.
            output.settle().await;
            None
        };
        let kept = log_store::Query {
            invocation: query.invocation,
            since_ms: query.since_ms,
            until_ms: query.until_ms,
            tail: Some(usize::try_from(query.limit).unwrap_or(usize::MAX)),
            end: live.as_ref().and_then(|live| live.kept),
        };
        let (sender, receiver) = mpsc::channel(LINES_MAX);
        let (rest, continued) = oneshot::channel();
        let into = sender.clone();
        // The disk is read on a thread of the blocking pool: both the disk and the caller may be slow.
        tokio::task::spawn_blocking(move || {
            let mut lines = log_store::read(&root, &functions, &kept);
            let is_there = lines.all(|line| into.blocking_send(line).is_ok());
            let _ = rest.send(is_there); // an error: the caller has gone
        });
        if let Some(live) = live {
            // The task ends when the caller drops the receiver.
            let following = go_on(live, continued, sender, end);
            self.daemon.inbox.spawn(TaskOwner::Caller, following);
        }
        Ok(receiver)
    }

    /// Returns the functions whose kept output to read.
    fn kept_functions(&self, query: &LogQuery) -> Vec<FunctionName> {
        if let Some(function) = &query.function {
            return vec![function.clone()];
        }
        let state = self.daemon.state.borrow();
        let known = state.lifecycle.registry.iter().map(|(name, _)| name);
        known.filter(|name| query.reach.views(name)).cloned().collect()
    }

    /// Returns events. The stream ends with the receiver; without [`StreamQuery::follow`] it ends after the kept
    /// events.
    pub(crate) fn stream(&self, query: StreamQuery) -> mpsc::Receiver<StreamEvent> {
        let state = self.daemon.state.borrow();
        let (events, sending) = stream::subscribe(&state.reporter.ring, query, state.clock.now().unix_ms);
        self.daemon.inbox.spawn(TaskOwner::Caller, sending);
        events
    }
}

async fn go_on(
    mut live: Followed,
    kept: oneshot::Receiver<bool>,
    into: mpsc::Sender<LogLine>,
    end: Option<impl Future<Output = ()>>,
) {
    // Kept lines come first. Live lines wait in their channel meanwhile; if it is full, they are counted as missed.
    if kept.await != Ok(true) {
        return;
    }
    let ended = crate::or_never(end);
    tokio::pin!(ended);
    loop {
        let line = tokio::select! {
            // Cancel-safe: a line is taken or stays (tokio, `Receiver::recv`). Lines before the end come first.
            biased;
            line = live.lines.recv() => line,
            // Cancel-safe: only waits until the caller has gone.
            () = into.closed() => return,
            () = &mut ended => None,
        };
        let Some(line) = line else { return };
        if into.send(line).await.is_err() {
            return;
        }
    }
}
