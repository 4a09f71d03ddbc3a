//! The tools that only read. An answer that is too long leaves out rows, and says how many.

use super::arguments::{self, HistoryArguments, LogsArguments, RUNS_MAX, StatusArguments};
use super::result::LONGEST;
use super::session::McpSession;
use crate::common::answers::read;
use crate::context::{Parameters, function_path, invocation_path};
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::{FunctionStatus, InvocationList, InvocationView, LastEnd, LogList, NodeStatus};
use fnd_wire::ids::InvocationId;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::{Value, json};

/// Bytes that the rows of an answer may have; the rest is for the fields around them.
const ROWS_MAX: usize = LONGEST - (8 << 10);

/// Pages of the history that are read at most, and the runs of each where `--allow` leaves some out.
const PAGES_MAX: u32 = 10;
const PAGE: u32 = 1000;

/// Most problems of the node that are shown.
const PROBLEMS_MAX: usize = 20;

/// `fnd_status`: the node and its functions, those first that do not work.
pub(super) async fn status(session: &McpSession, given: JsonObject) -> Result<CallToolResult, CommandFailure> {
    let StatusArguments {} = arguments::read(arguments::STATUS, given)?;
    let mut node: NodeStatus = read(&session.client, "/v1/status").await?;
    node.functions
        .retain(|function| session.allows(function.function.as_str()));
    // The sort is stable, so that the names stay in their order.
    node.functions
        .sort_by_key(|function| function.status != LastEnd::Failed && function.error.is_none());
    let (functions, left_out) = fitting(node.functions.iter().map(function_row), row_bytes);
    node.problems.truncate(PROBLEMS_MAX);
    if !session.allows_all() {
        // These tell of all functions.
        node.problems.clear();
        node.running = node.functions.iter().map(|function| function.running).sum();
        node.queued = node.functions.iter().map(|function| function.queued).sum();
        node.dead_letters = node.functions.iter().map(|function| function.dead_letters).sum();
    }
    Ok(document(json!({
        "node": node.node,
        "state": node.state,
        "version": node.version,
        "problems": node.problems,
        "running": node.running,
        "queued": node.queued,
        "dead_letters": node.dead_letters,
        "functions": functions,
        "functions_left_out": left_out,
    })))
}

/// `fnd_history`: runs, newest first.
pub(super) async fn history(session: &McpSession, given: JsonObject) -> Result<CallToolResult, CommandFailure> {
    let wanted: HistoryArguments = arguments::read(arguments::HISTORY, given)?;
    if let Some(function) = &wanted.function {
        // Only checks the name: it goes into a parameter, not into the path.
        function_path(function)?;
        permit(session, function)?;
    }
    let limit = wanted.limit.clamp(1, RUNS_MAX);
    let page = if session.allows_all() { limit } else { PAGE };
    let mut runs: Vec<InvocationView> = Vec::new();
    let mut after: Option<String> = None;
    // A page can have few runs, or none, although older ones exist.
    for _ in 0..PAGES_MAX {
        let mut parameters = Parameters::default();
        parameters.add("function", wanted.function.as_deref());
        parameters.add("state", wanted.state.map(|state| state.as_str()));
        parameters.add("limit", Some(&page.to_string()));
        parameters.add("after", after.as_deref());
        let path = format!("/v1/invocations{}", parameters.0);
        let list: InvocationList = read(&session.client, &path).await?;
        let shown = list.invocations.into_iter();
        runs.extend(shown.filter(|run| session.allows(run.function.as_str())));
        after = list.next;
        if runs.len() >= limit as usize || after.is_none() {
            break;
        }
    }
    let is_more = runs.len() > limit as usize || after.is_some();
    let (runs, left_out) = fitting(runs.iter().take(limit as usize).map(run_row), row_bytes);
    Ok(document(
        json!({ "runs": runs, "runs_left_out": left_out, "older_runs": is_more }),
    ))
}

/// `fnd_logs`: what a run printed, its newest lines.
pub(super) async fn logs(session: &McpSession, given: JsonObject) -> Result<CallToolResult, CommandFailure> {
    let LogsArguments { id } = arguments::read(arguments::LOGS, given)?;
    let Some(id) = InvocationId::parse(&id) else {
        let message = format!("`{id}` is not the id of a run: `fnd_history` shows whole ids");
        return Err(CommandFailure::usage(message));
    };
    let path = invocation_path(&id.to_string());
    let run: InvocationView = read(&session.client, &path).await?;
    permit(session, run.function.as_str())?;
    let list: LogList = read(&session.client, &format!("{path}/logs")).await?;
    let text = newest(
        list.lines
            .iter()
            .map(|line| format!("{} {} {}", line.time, line.stream.as_str(), line.text)),
    );
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}

/// Refuses a function that `--allow` does not have.
fn permit(session: &McpSession, function: &str) -> Result<(), CommandFailure> {
    if session.allows(function) {
        return Ok(());
    }
    let message = format!("this `fndctl mcp` does not show the function `{function}`");
    Err(CommandFailure::new(Exit::NotAllowed, message).help("`--allow` names the functions that it shows"))
}

/// Returns what an agent needs of a function. Fields without a value are left out.
fn function_row(function: &FunctionStatus) -> Value {
    without_nulls(json!({
        "function": function.function.as_str(),
        "state": function.state,
        "last": function.status,
        "reason": function.reason,
        "message": Some(&function.message).filter(|message| !message.is_empty()),
        "run": function.invocation.map(|id| id.to_string()),
        "started_at": function.started_at,
        "next_run_at": function.next_run_at,
        "running": Some(function.running).filter(|count| *count > 0),
        "queued": Some(function.queued).filter(|count| *count > 0),
        "dead_letters": Some(function.dead_letters).filter(|count| *count > 0),
        "error": function.error,
        "warning": function.warning,
    }))
}

fn run_row(run: &InvocationView) -> Value {
    without_nulls(json!({
        "id": run.id.to_string(),
        "function": run.function.as_str(),
        "state": run.state,
        "reason": run.reason,
        "message": Some(&run.message).filter(|message| !message.is_empty()),
        "trigger": run.trigger,
        "accepted_at": run.accepted_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "attempts": run.attempts,
    }))
}

fn without_nulls(mut row: Value) -> Value {
    if let Some(row) = row.as_object_mut() {
        row.retain(|_, value| !value.is_null());
    }
    row
}

/// Returns the rows or lines that fit into an answer, and the number of the others. `bytes_of` says how long one is.
fn fitting<T>(rows: impl Iterator<Item = T>, bytes_of: impl Fn(&T) -> usize) -> (Vec<T>, usize) {
    let (mut shown, mut left_out, mut bytes) = (Vec::new(), 0, 0);
    for row in rows {
        bytes += bytes_of(&row) + 1;
        if bytes <= ROWS_MAX {
            shown.push(row);
        } else {
            left_out += 1;
        }
    }
    (shown, left_out)
}

fn row_bytes(row: &Value) -> usize {
    row.to_string().len()
}

/// Returns the last lines that fit into an answer.
fn newest(lines: impl DoubleEndedIterator<Item = String>) -> String {
    let (mut shown, left_out) = fitting(lines.rev(), String::len);
    if left_out > 0 {
        shown.push(format!("[fnd: {left_out} lines before these are left out]"));
    }
    if shown.is_empty() {
        return "nothing was printed, or it is not kept any more".to_owned();
    }
    shown.reverse();
    shown.join("\n")
}

fn document(value: Value) -> CallToolResult {
    CallToolResult::structured(value)
}

#[cfg(test)]
mod tests {
    use super::{ROWS_MAX, fitting, newest, row_bytes};
    use serde_json::json;

    #[test]
    fn rows_that_do_not_fit_are_counted() {
        let row = json!("x".repeat(ROWS_MAX / 4));
        let (shown, left_out) = fitting(vec![row; 10].into_iter(), row_bytes);
        assert_eq!((shown.len(), left_out), (3, 7));
        assert_eq!(fitting(std::iter::empty(), row_bytes), (Vec::new(), 0));
    }

    #[test]
    fn the_newest_lines_are_shown() {
        let lines = |count: usize| (0..count).map(|number| format!("{number} {}", "x".repeat(ROWS_MAX / 4)));
        let text = newest(lines(10));
        assert!(
            text.starts_with("[fnd: 7 lines before these are left out]\n7 "),
            "{}",
            &text[..60]
        );
        assert!(newest(lines(2)).starts_with("0 "));
        assert!(newest(lines(0)).starts_with("nothing was printed"));
    }
}
