//! `fndctl mcp`: functions as tools of agents, over the Model Context Protocol (modelcontextprotocol.io) on standard
//! input and output.
//!
//! The verb has no rights and no checks of its own: each call of a tool is a request to the control socket as the caller,
//! so roles, access, limits and audit hold as for every other request. It opens no port.
//!
//! Files:
//! - `arguments`: the names and the arguments of the tools that only read
//! - `call`: one run of a function: queues it, waits for its end, cancels it
//! - `changes`: tells the client that the list of tools has changed
//! - `input`: standard input, and its end
//! - `progress`: sends the output of a run while it goes on
//! - `reports`: the tools that only read: status, history, output
//! - `result`: what a client gets: results, failures, refusals, each of a bounded size
//! - `server`: requests of the protocol
//! - `session`: what the tools need: the daemon, `--allow`, the end of the client
//! - `tools`: the list of tools

mod arguments;
mod call;
mod changes;
mod input;
mod progress;
mod reports;
mod result;
mod server;
mod session;
mod tools;

use crate::client::Client;
use crate::common::candidates;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use input::ClientInput;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use server::McpServer;
use session::McpSession;
use std::io::IsTerminal as _;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "An MCP client starts this program and talks to it. Functions with `mcp = true` are its tools, beside\n\
    fnd_status, fnd_history and fnd_logs, which only read.\n\nExamples:\n  \
    claude mcp add fnd -- fndctl mcp                     add it to a client\n  \
    fndctl mcp --allow 'web/*' --allow report            offer only these functions"
)]
pub(crate) struct Args {
    /// Offer and show only functions with this name, which may have `*` and `?`; may be repeated.
    #[arg(long, value_name = "PATTERN", add = candidates::functions())]
    allow: Vec<String>,
}

/// Runs the verb until the client closes standard input.
///
/// # Errors
/// Standard input is a terminal, the daemon cannot be reached, or the client does not speak the protocol.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if std::io::stdin().is_terminal() {
        let message = "`fndctl mcp` talks to a program on standard input, and standard input is a terminal";
        return Err(CommandFailure::usage(message)
            .help("give the line to an MCP client, which starts it: `claude mcp add fnd -- fndctl mcp`"));
    }
    let client = Client::new(context.client.path().to_owned(), context.user);
    let server = Arc::new(McpServer::new(McpSession::new(client, args.allow)));
    // A client shows standard error in its log.
    for reason in server.update().await? {
        context.out.aside(&reason);
    }
    let streams = (ClientInput::new(server.session.has_ended.clone()), tokio::io::stdout());
    let running = match Arc::clone(&server).serve(streams).await {
        Ok(running) => running,
        // The client has ended before it sent a request.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(Exit::Fine),
        Err(error) => {
            let message = format!("the client does not speak the Model Context Protocol: {error}");
            return Err(CommandFailure::failed(message));
        }
    };
    let peer = running.peer().clone();
    tokio::select! {
        // An error is a panic of the task, which has printed it.
        _ = running.waiting() => {}
        never = changes::announce(&server, &peer) => match never {},
    }
    Ok(Exit::Fine)
}
