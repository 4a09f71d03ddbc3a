//! Sends the output of a run to the client while the run goes on, if the client asks for progress.

use crate::client::{BodyPieces, Client};
use crate::context::invocation_path;
use crate::exit::CommandFailure;
use fnd_core::api::LogLine;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Least time between two notifications: a client shows the newest line, and no person reads faster.
const PACE: Duration = Duration::from_millis(500);

/// Most characters of a notification.
const LINE_MAX: usize = 500;

/// Reports for as long as it is polled. The report never fails the call.
pub(super) async fn report(client: &Client, id: &str, context: &RequestContext<RoleServer>) -> Infallible {
    if let Some(token) = context.meta.get_progress_token()
        && let Ok(lines) = client.stream(&format!("{}/logs?follow=1", invocation_path(id))).await
    {
        // An error: the connection broke off. The end of the run is awaited elsewhere.
        let _ = follow(lines, &token, context).await;
    }
    pending().await
}

/// Sends the newest line, at most one in a time, until the run ends.
async fn follow(
    mut lines: BodyPieces,
    token: &ProgressToken,
    context: &RequestContext<RoleServer>,
) -> Result<(), CommandFailure> {
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut count, mut newest) = (0, None);
    loop {
        tokio::select! {
            // Cancel-safe: a part of a line that was read is kept for the next call.
            line = lines.line() => {
                let Some(line) = line? else { break };
                if let Ok(line) = serde_json::from_slice::<LogLine>(&line) {
                    count = u32::saturating_add(count, 1);
                    newest = Some(line.text);
                }
            }
            _ = pace.tick(), if newest.is_some() => send(context, token, count, newest.take()).await,
        }
    }
    send(context, token, count, newest).await;
    Ok(())
}

/// Sends a line, the last one of so many, if there is one.
async fn send(context: &RequestContext<RoleServer>, token: &ProgressToken, count: u32, line: Option<String>) {
    let Some(line) = line else { return };
    let text: String = line.chars().take(LINE_MAX).collect();
    let progress = ProgressNotificationParam::new(token.clone(), f64::from(count)).with_message(text);
    // An error: the client is gone, which ends the program.
    let _ = context.peer.notify_progress(progress).await;
}
