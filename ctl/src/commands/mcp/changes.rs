//! Tells the client that the list of tools has changed, soon after a function was loaded or removed.

use super::server::McpServer;
use crate::exit::{CommandFailure, Exit};
use rmcp::{Peer, RoleServer};
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Time without an event after which the list is read: many functions may change together.
const QUIET: Duration = Duration::from_millis(200);

/// Time between two attempts to connect.
const RECONNECT: Duration = Duration::from_secs(5);

/// Tells the client of changes for as long as it is polled.
pub(super) async fn announce(server: &McpServer, peer: &Peer<RoleServer>) -> Infallible {
    loop {
        let followed = follow(server, peer).await;
        if followed.is_err_and(|failure| failure.exit == Exit::NotAllowed) {
            // The caller may run functions, but not see events. The list is read when the client asks for it.
            return pending().await;
        }
        // fnd has stopped, and nothing says when it is back.
        sleep(RECONNECT).await;
    }
}

/// Tells of changes until the events end.
async fn follow(server: &McpServer, peer: &Peer<RoleServer>) -> Result<(), CommandFailure> {
    let mut changes = server.changes();
    let mut events = server
        .session
        .client
        .stream("/v1/stream?since=now&kind=loaded,removed")
        .await?;
    loop {
        // The first time, too: functions may have changed before the events began.
        server.update().await?;
        // A client of a newer version subscribes, and `McpServer::listen` tells it.
        if changes.has_changed().unwrap_or(false) && peer.peer_info().is_some() {
            changes.mark_unchanged();
            // An error: the client is gone, which ends the program.
            let _ = peer.notify_tool_list_changed().await;
        }
        if events.line().await?.is_none() {
            return Ok(());
        }
        // Cancel-safe: a part of a line that was read is kept for the next call.
        while let Ok(more) = timeout(QUIET, events.line()).await {
            if more?.is_none() {
                return Ok(());
            }
        }
    }
}
