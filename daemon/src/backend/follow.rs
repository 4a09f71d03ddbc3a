//! Kept output, then live lines, without a gap: the lines of `logs` and `logs -f`.

use super::{Failure, Pending};
use crate::input::Inbox;
use crate::input::TaskOwner;
use crate::output::log_store;
use crate::output::{Follow, Followed, Output};
use fnd_core::access::Permissions;
use fnd_core::api::LogLine;
use fnd_wire::ids::FunctionName;
use fnd_wire::ids::InvocationId;
use std::path::PathBuf;
use tokio::sync::{mpsc, oneshot};

/// Lines of output, oldest first; the channel closes after the last one.
pub(crate) type LogLines = mpsc::Receiver<LogLine>;

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

/// The sources of lines.
pub(crate) struct LineSources {
    /// Live lines.
    pub(crate) output: Output,
    /// Kept output.
    pub(crate) root: PathBuf,
    /// The functions whose kept output to read.
    pub(crate) functions: Vec<FunctionName>,
    /// Resolves at the end of the invocation that is followed, if it has not ended.
    pub(crate) end: Option<Pending<()>>,
    /// Starts the task that sends live lines.
    pub(crate) inbox: Inbox,
}

/// Returns the lines of a query; `buffer` of them may wait for a slow caller.
///
/// # Errors
/// fnd is stopping.
pub(crate) async fn lines(source: LineSources, query: LogQuery, buffer: usize) -> Result<LogLines, Failure> {
    let LineSources {
        output,
        root,
        functions,
        end,
        inbox,
    } = source;
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
    let (sender, receiver) = mpsc::channel(buffer);
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
        inbox.spawn(TaskOwner::Caller, go_on(live, continued, sender, end));
    }
    Ok(receiver)
}

async fn go_on(
    mut live: Followed,
    kept: oneshot::Receiver<bool>,
    into: mpsc::Sender<LogLine>,
    end: Option<Pending<()>>,
) {
    // Kept lines come first. Live lines wait in their channel meanwhile; if it is full, they are counted as missed.
    if kept.await != Ok(true) {
        return;
    }
    let ended = async {
        match end {
            Some(end) => end.await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(ended);
    loop {
        let line = tokio::select! {
            // Cancel-safe: a line is taken or stays (tokio, `Receiver::recv`). Lines before the end come first.
            biased;
            line = live.lines.recv() => line,
            () = into.closed() => return,
            () = &mut ended => None,
        };
        let Some(line) = line else { return };
        if into.send(line).await.is_err() {
            return;
        }
    }
}
