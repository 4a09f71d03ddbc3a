//! The context of the tools: the daemon, the functions that `--allow` has, and the end of the client.

use crate::client::Client;
use crate::common::names;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tokio::sync::watch;

/// The session of one client.
#[derive(Debug)]
pub(super) struct McpSession {
    pub(super) client: Client,
    /// The names and patterns of `--allow`; none allows all functions.
    allowed: Vec<String>,
    /// Whether the client has closed standard input.
    pub(super) has_ended: watch::Sender<bool>,
}

impl McpSession {
    /// Returns the session of a client that has just started.
    pub(super) fn new(client: Client, allowed: Vec<String>) -> Self {
        Self {
            client,
            allowed,
            has_ended: watch::Sender::new(false),
        }
    }

    /// Returns whether every function is offered and shown.
    pub(super) fn allows_all(&self) -> bool {
        self.allowed.is_empty()
    }

    /// Returns whether `--allow` has a function.
    pub(super) fn allows(&self, function: &str) -> bool {
        let matches = |pattern: &String| names::matches(pattern.as_bytes(), function.as_bytes());
        self.allows_all() || self.allowed.iter().any(matches)
    }

    /// Waits until a request is cancelled, or its client is gone.
    pub(super) async fn cancelled(&self, request: &RequestContext<RoleServer>) {
        let mut has_ended = self.has_ended.subscribe();
        tokio::select! {
            () = request.ct.cancelled() => {}
            // An error: the sender is gone, which lives as long as the session.
            _ = has_ended.wait_for(|has_ended| *has_ended) => {}
        }
    }
}
