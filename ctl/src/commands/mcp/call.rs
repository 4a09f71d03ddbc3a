//! One run of a function. The run is queued, because the answer to that has its id at once: with the id the run can be
//! followed and cancelled, and it outlives a restart of fnd.

use super::session::McpSession;
use super::{progress, result};
use crate::client::{Client, request};
use crate::common::answers::read;
use crate::common::payload::JSON;
use crate::common::results::queued;
use crate::context::{function_path, invocation_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::parse;
use fnd_core::api::InvocationView;
use fnd_core::records::outcome::RunState;
use fnd_wire::ids::FunctionName;
use hyper::Method;
use hyper::body::Bytes;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, JsonObject};
use rmcp::service::RequestContext;
use serde_json::Value;

/// How often a broken connection is made anew: systemd keeps the socket while fnd restarts.
const CONNECTIONS: u32 = 3;

/// A call of the tool of a function.
#[derive(Debug)]
pub(super) struct FunctionCall {
    pub(super) function: FunctionName,
    /// JSON; absent: the run has no payload.
    pub(super) payload: Option<JsonObject>,
}

impl FunctionCall {
    /// Runs the function, and returns its result. If the call is cancelled or its client ends, the run is
    /// cancelled.
    ///
    /// # Errors
    /// The daemon refuses the request, or it cannot be reached.
    pub(super) async fn perform(
        self,
        session: &McpSession,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, CommandFailure> {
        let client = &session.client;
        let id = self.queue(client).await?;
        let ended = tokio::select! {
            // Cancel-safe: a request that is dropped changes nothing, and its run goes on without it.
            ended = end(client, &id) => ended?,
            never = progress::report(client, &id, context) => match never {},
            () = session.cancelled(context) => cancel(client, &id).await?,
        };
        result_of(client, &id, &ended).await
    }

    /// Queues the run, and returns its id.
    async fn queue(self, client: &Client) -> Result<String, CommandFailure> {
        let path = format!("{}/invocations", function_path(self.function.as_str())?);
        // An agent that edits a function calls it right after it has saved the file.
        let mut headers = vec![("Fnd-Saved".to_owned(), "1".to_owned())];
        let mut body = Bytes::new();
        if let Some(payload) = self.payload {
            headers.push(("Content-Type".to_owned(), JSON.to_owned()));
            body = Value::Object(payload).to_string().into();
        }
        let reply = client.send(request(Method::POST, &path, &headers, body)?).await?;
        queued(&reply.body)
    }
}

/// Waits for the end of a run.
async fn end(client: &Client, id: &str) -> Result<InvocationView, CommandFailure> {
    let path = format!("{}?wait=1h", invocation_path(id));
    let mut connections = 0;
    loop {
        match client.get(&path).await.map_err(CommandFailure::from) {
            Ok(reply) => {
                let view: InvocationView = parse(&reply.body)?;
                if view.state.is_final() {
                    return Ok(view);
                }
            }
            Err(failure) if failure.exit == Exit::NotReachable && connections < CONNECTIONS => connections += 1,
            Err(failure) => {
                return Err(failure.help(format!(
                    "the run may go on: `fndctl history --id {id}` shows it when fnd answers again"
                )));
            }
        }
    }
}

/// Cancels a run. A run that has ended meanwhile is returned, so that its result is not lost: a client that writes all of its
/// requests at once may close standard input before it has read an answer.
///
/// # Errors
/// The run was cancelled, or the daemon refuses that.
async fn cancel(client: &Client, id: &str) -> Result<InvocationView, CommandFailure> {
    let path = invocation_path(id);
    let Err(failure) = client.post(&format!("{path}/cancel")).await else {
        let message = "the call was cancelled, and so was its run";
        return Err(CommandFailure::failed(message));
    };
    let view: InvocationView = read(client, &path).await?;
    if view.state.is_final() {
        Ok(view)
    } else {
        Err(failure.into())
    }
}

/// Returns what the client gets of a run that has ended.
async fn result_of(client: &Client, id: &str, run: &InvocationView) -> Result<CallToolResult, CommandFailure> {
    if run.state == RunState::Succeeded {
        let reply = client.get(&format!("{}/result", invocation_path(id))).await?;
        return Ok(result::of_reply(id, &reply));
    }
    if matches!(run.state, RunState::Failed | RunState::Interrupted) {
        // The client learns of the failure here, so that nobody has to work it off. An error is ignored: without the right to
        // drop it, the dead letter stays.
        let dropped = request(Method::DELETE, &format!("/v1/dead-letters/{id}"), &[], Bytes::new())?;
        let _ = client.send(dropped).await;
    }
    Ok(result::of_failure(run))
}
