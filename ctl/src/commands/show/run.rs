//! One run on one screen: `fndctl show ID` prints its record, its attempts, its last lines, its result and its tree of calls.

use super::tree::{CallTree, read_tree};
use crate::common::answers::mark;
use crate::common::run_record;
use crate::context::{Context, invocation_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Output, escape};
use crate::text::{between, duration};
use fnd_core::api::{InvocationView, LogLine, LogList};
use jiff::Timestamp;

/// Lines of output that the screen has.
const LINES: usize = 20;
/// Most bytes of a result that the screen has; `fndctl result` prints all.
const RESULT_MAX: usize = 2000;

/// The parts of the screen besides the tree.
struct RunScreen {
    view: InvocationView,
    lines: Vec<LogLine>,
    result: Option<String>,
}

/// Prints a run. A document has the tree alone: each run in it has its record.
///
/// # Errors
/// There is no such run, or the daemon does not answer.
pub(super) async fn show(context: &Context, id: &str) -> Result<Exit, CommandFailure> {
    let tree = read_tree(context, id).await?;
    if context.out.format.is_document() {
        context.made(&tree.root, |_| Ok(()))?;
    } else {
        print(&context.out, &read_screen(context, id).await?, &tree)?;
    }
    tree.say_if_cut(context);
    Ok(Exit::Fine)
}

/// Reads what the screen shows. Output and result may be gone, and the record is there without them.
async fn read_screen(context: &Context, id: &str) -> Result<RunScreen, CommandFailure> {
    let path = invocation_path(id);
    let view: InvocationView = context.read(&path).await?;
    let lines = context.read::<LogList>(&format!("{path}/logs?limit={LINES}")).await;
    let result = match view.ended_at {
        Some(_) => context.client.get(&format!("{path}/result")).await.ok(),
        None => None,
    };
    let result = result.and_then(|reply| String::from_utf8(reply.body.to_vec()).ok());
    Ok(RunScreen {
        view,
        lines: lines.map(|list| list.lines).unwrap_or_default(),
        result: result.filter(|text| !text.trim().is_empty()),
    })
}

fn print(out: &Output, screen: &RunScreen, tree: &CallTree) -> Result<(), CommandFailure> {
    let now = Timestamp::now();
    let (view, id) = (&screen.view, screen.view.id);
    run_record::print(out, view, now)?;
    if let Some(times) = times(view, now) {
        out.line(&format!("\n{times}"))?;
    }
    if !screen.lines.is_empty() {
        out.line(&format!("\noutput, the last lines (`fndctl logs {id}` prints all):"))?;
        let hidden = screen.lines.len().saturating_sub(LINES);
        for line in screen.lines.iter().skip(hidden) {
            out.line(&format!("  {} {}", mark(line.stream), out.printed(&line.text)))?;
        }
    }
    // The result of a script is what it printed, so it is on the screen already.
    if let Some(result) = screen.result.as_ref().filter(|result| !is_in(result, &screen.lines)) {
        out.line(&format!("\nresult (`fndctl result {id}` prints it alone):"))?;
        let cut = result.floor_char_boundary(RESULT_MAX);
        let text = result.get(..cut).unwrap_or_default();
        let more = if cut < result.len() { " ..." } else { "" };
        out.line(&format!("  {}{more}", escape(text.trim_end(), true)))?;
    }
    if tree.has_calls() {
        out.line("\ncalls:")?;
        tree.print(out, id)?;
    }
    Ok(())
}

/// Returns where the time of a run went, in one line.
fn times(view: &InvocationView, now: Timestamp) -> Option<String> {
    view.started_at.as_ref()?;
    let waited = between(Some(&view.accepted_at), view.started_at.as_deref(), now);
    let mut parts = vec![format!("waited {waited}")];
    if !view.attempt_records.is_empty() {
        let ran: f64 = view.attempt_records.iter().map(|attempt| attempt.duration_ms).sum();
        let new = view.attempt_records.iter().any(|attempt| attempt.cold);
        let worker = if new { "in a new process" } else { "in a warm worker" };
        parts.push(format!("ran {} {worker}", duration(Some(ran))));
    }
    let throttled = view.attempt_records.iter().filter_map(|attempt| attempt.throttled_ms);
    let throttled: f64 = throttled.sum();
    if throttled > 0.0 {
        parts.push(format!("held back for {} by `limits.cpu`", duration(Some(throttled))));
    }
    Some(format!("time          {}", parts.join(", ")))
}

/// Says whether the lines of a result are among the lines that were printed.
fn is_in(result: &str, lines: &[LogLine]) -> bool {
    let has = |line: &str| lines.iter().any(|printed| printed.text == line);
    result.lines().all(has)
}

#[cfg(test)]
mod tests {
    use super::times;
    use fnd_core::api::InvocationView;

    fn view(attempts: &serde_json::Value) -> InvocationView {
        serde_json::from_value(serde_json::json!({
            "id": "01934567-89ab-7def-8123-456789abcdef", "function": "hello", "trigger": "manual",
            "state": "succeeded", "reason": "ok", "message": "", "exhausted": null,
            "accepted_at": "2026-11-21T08:00:00Z", "started_at": "2026-11-21T08:00:02Z",
            "ended_at": "2026-11-21T08:00:03Z", "next_attempt_at": null, "attempts": 1, "polls": 0,
            "attempt_records": attempts,
        }))
        .unwrap()
    }

    #[test]
    fn one_line_says_where_the_time_went() {
        let now = "2026-11-21T09:00:00Z".parse().unwrap();
        assert_eq!(
            times(&view(&serde_json::json!([])), now).unwrap(),
            "time          waited 2.0s"
        );
        let attempt = serde_json::json!({
            "attempt": 1, "poll": 0, "started_at": "2026-11-21T08:00:02Z", "ended_at": "2026-11-21T08:00:03Z",
            "duration_ms": 1000.0, "exit_code": 0, "signal": null, "class": "success", "reason": "ok", "message": "",
            "cpu_ms": 100.0, "memory_peak_bytes": null, "scope": null, "throttled_ms": 250.0, "worker": null,
            "cold": true, "stdout_bytes": 0, "stderr_bytes": 0, "dropped_bytes": 0,
        });
        assert_eq!(
            times(&view(&serde_json::json!([attempt])), now).unwrap(),
            "time          waited 2.0s, ran 1.00s in a new process, held back for 250ms by `limits.cpu`"
        );
    }
}
