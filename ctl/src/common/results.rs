//! The result of a run: waits for it, shows its output meanwhile, and prints it.

use crate::client::{Outgoing, Reply};
use crate::common::answers::next;
use crate::context::{Context, invocation_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::parse;
use fnd_core::api::{InvocationView, LogLine, LogStream, Queued};
use fnd_core::records::outcome::Reason;
use fnd_wire::units::print_duration;
use std::time::Duration;

/// A duration that is longer than any useful wait.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// How long one request waits; a longer wait takes several requests, since the daemon bounds each.
const WAIT_STEP: Duration = Duration::from_secs(3600);

/// The most bytes of followed output that are compared with the result.
const COMPARED: usize = 16 << 20;

/// Queues a run, prints its output while it runs, then its result. `reworded` changes each printed line. The result of a script is what it printed: where both
/// go to the same place, it is printed once.
pub(crate) async fn follow(
    context: &Context,
    request: Outgoing,
    reworded: impl Fn(&str) -> String,
) -> Result<Exit, CommandFailure> {
    let reply = context.client.send(request).await?;
    let id = queued(&reply.body)?;
    let mut shown = context.out.is_one_place().then(String::new);
    let path = invocation_path(&id);
    let mut lines = context.client.stream(&format!("{path}/logs?follow=1")).await?;
    while let Some(line) = next::<LogLine>(&mut lines).await? {
        // Standard output is for the result alone.
        context.out.aside(&reworded(&line.text));
        if let Some(shown) = shown.as_mut().filter(|_| line.stream == LogStream::Stdout) {
            shown.push_str(&line.text);
            shown.push('\n');
        }
        // With more output nothing is compared, and the result is printed in any case.
        shown = shown.filter(|shown| shown.len() <= COMPARED);
    }
    print(context, &path, LONGEST, shown.as_deref()).await
}

/// Returns the id of a run that was queued.
pub(crate) fn queued(body: &[u8]) -> Result<String, CommandFailure> {
    Ok(parse::<Queued>(body)?.id.to_string())
}

/// Waits for the end of an invocation and prints its result, unless that was shown already.
pub(crate) async fn print(
    context: &Context,
    path: &str,
    mut wait: Duration,
    shown: Option<&str>,
) -> Result<Exit, CommandFailure> {
    while !wait.is_zero() {
        let step = wait.min(WAIT_STEP);
        let path = format!("{path}?wait={}", print_duration(step));
        let reply = context.client.get(&path).await?;
        let ended = serde_json::from_slice::<InvocationView>(&reply.body).is_ok_and(|view| view.state.is_final());
        wait = if ended { Duration::ZERO } else { wait - step };
    }
    let reply = context.client.get(&format!("{path}/result")).await?;
    // Lines of output have no line ends, so those at the end of the result do not count.
    if shown.is_none_or(|shown| shown.trim_end().as_bytes() != reply.body.trim_ascii_end()) {
        context.out.result(&reply.body)?;
    }
    let header = |name| reply.headers.get(name).and_then(|value| value.to_str().ok());
    // A stored result is answered with 200, so the status that the function chose is in a header.
    print_status(context, header("fnd-status").and_then(|status| status.parse().ok()));
    let state = header("fnd-state").unwrap_or("succeeded");
    if state == "succeeded" {
        return Ok(Exit::Fine);
    }
    let id = path.rsplit('/').next().unwrap_or_default();
    let view: InvocationView = context.read(path).await?;
    let why = match view.reason {
        Some(reason) => format!("`{}` ended with `{reason}`: {}", view.function, view.message),
        None => format!("the run ended as `{state}`"),
    };
    let message = format!("{why}; the result is that of its last attempt");
    let help = format!("fndctl history --id {id} shows how it ended");
    Err(CommandFailure::new(exit_of_failed(view.reason), message).help(help))
}

/// Returns the exit code for the end of a run that did not succeed.
pub(crate) fn exit_of_failed(reason: Option<Reason>) -> Exit {
    match reason {
        Some(Reason::Timeout | Reason::Deadline) => Exit::Timeout,
        _ => Exit::FunctionFailed,
    }
}

/// Fails if a function has failed, whose answer has a body, too.
///
/// # Errors
/// It has failed.
pub(crate) fn refuse_failed(reply: &Reply) -> Result<(), CommandFailure> {
    let state = reply.headers.get("fnd-state").and_then(|state| state.to_str().ok());
    if state.is_none_or(|state| state == "succeeded") {
        return Ok(());
    }
    let message = format!("the function failed: it answered {}", reply.status);
    Err(CommandFailure::failed(message))
}

/// Prints the status that a function chose for its answer, if it is an error status: the run succeeded all the same.
pub(crate) fn print_status(context: &Context, status: Option<u16>) {
    if let Some(status) = status.filter(|status| *status >= 400) {
        let text = format!("the function answered with status {status}");
        context.out.aside(&text);
    }
}
