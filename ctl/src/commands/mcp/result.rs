//! The answers for a client: results, failures and refusals. A text above 64 KiB is cut, and a note says so: it would fill
//! the context of the agent.

use crate::client::Reply;
use crate::exit::CommandFailure;
use fnd_core::api::InvocationView;
use fnd_manifest::diagnostic::Colour;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

/// Most bytes of an answer, with the note.
pub(super) const LONGEST: usize = 64 << 10;

/// Room for the note.
const NOTE: usize = 256;

/// Returns the result of a run that succeeded. A function that answers with an error status says by it that it has failed.
pub(super) fn of_reply(id: &str, reply: &Reply) -> CallToolResult {
    let header = |name| reply.headers.get(name).and_then(|value| value.to_str().ok());
    let media_type = header("content-type").unwrap_or("an unknown type");
    let status = header("fnd-status").and_then(|status| status.parse::<u16>().ok());
    match status.filter(|status| *status >= 400) {
        Some(status) => error(&format!(
            "the function answered with status {status}:\n{}",
            text_of(id, media_type, &reply.body)
        )),
        None => success(id, media_type, &reply.body),
    }
}

fn success(id: &str, media_type: &str, body: &[u8]) -> CallToolResult {
    let mut success = CallToolResult::success(vec![ContentBlock::text(text_of(id, media_type, body))]);
    // A cut document is no document.
    if body.len() <= LONGEST {
        let value = serde_json::from_slice::<Value>(body).ok();
        success.structured_content = value.filter(Value::is_object);
    }
    success
}

/// Returns the result of a function for an agent.
fn text_of(id: &str, media_type: &str, body: &[u8]) -> String {
    match std::str::from_utf8(body) {
        Ok("") => "the run succeeded, without a result".to_owned(),
        Ok(text) => cut(text, &format!("; `fndctl result {id}` prints all of them")),
        Err(_) => format!(
            "the result is no text, but {} bytes of {media_type}: `fndctl result {id} >FILE` saves them",
            body.len()
        ),
    }
}

/// Returns the beginning of a text that is too long, with a note, which ends with `help`.
fn cut(text: &str, help: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(LONGEST - NOTE);
    let (shown, whole) = (&text[..end], text.len());
    format!("{shown}\n[fnd: the first {end} of {whole} bytes{help}]")
}

/// Returns how a run failed, and what to do.
pub(super) fn of_failure(run: &InvocationView) -> CallToolResult {
    let InvocationView {
        function, id, state, ..
    } = run;
    let state = state.as_str();
    let mut text = match run.reason {
        Some(reason) => format!("`{function}` ended as `{state}` (`{reason}`)"),
        None => format!("`{function}` ended as `{state}`"),
    };
    if !run.message.is_empty() {
        text.push_str(&format!(": {}", run.message));
    }
    let logs = super::arguments::LOGS;
    text.push_str(&format!("\nhelp: `{logs}` with the id {id} shows what the run printed"));
    if let Some(reason) = run.reason {
        text.push_str(&format!("; `fndctl explain {reason}` explains the reason"));
    }
    error(&text)
}

/// Returns why fnd refused a request, and what to do.
pub(super) fn refused(failure: &CommandFailure) -> CallToolResult {
    let mut text = failure.message.clone();
    for problem in &failure.diagnostics {
        text.push_str(&format!("\n{}", problem.render(Colour::Plain)));
    }
    if let Some(help) = &failure.help {
        text.push_str(&format!("\nhelp: {help}"));
    }
    error(&text)
}

fn error(text: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(cut(text, ""))])
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, of_failure, refused, success};
    use crate::exit::{CommandFailure, Exit};
    use fnd_core::api::InvocationView;
    use rmcp::model::CallToolResult;
    use serde_json::json;

    fn of(body: &[u8]) -> CallToolResult {
        success("ID", "image/png", body)
    }

    fn text(result: &CallToolResult) -> &str {
        &result.content[0].as_text().unwrap().text
    }

    #[test]
    fn an_object_is_structured_content_and_everything_is_text() {
        let object = of(b"{\"a\": 1.0}");
        assert_eq!(
            (text(&object), object.structured_content.clone()),
            ("{\"a\": 1.0}", Some(json!({ "a": 1.0 })))
        );
        for (body, expected) in [
            (&b"[1]"[..], "[1]"),
            (b"hello\n", "hello\n"),
            (b"", "the run succeeded, without a result"),
            (
                b"\xff\x00",
                "the result is no text, but 2 bytes of image/png: `fndctl result ID >FILE` saves them",
            ),
        ] {
            let result = of(body);
            assert_eq!((text(&result), result.structured_content.clone()), (expected, None));
            assert_eq!(result.is_error, Some(false));
        }
    }

    #[test]
    fn a_long_result_is_cut_between_characters_and_says_so() {
        let whole = "ä".repeat(LONGEST / 2);
        assert_eq!(text(&of(whole.as_bytes())), whole);
        let long = of("ä".repeat(LONGEST).as_bytes());
        assert!(text(&long).len() <= LONGEST);
        assert!(text(&long).ends_with("of 131072 bytes; `fndctl result ID` prints all of them]"));
        let failed = super::error(&"ä".repeat(LONGEST));
        assert!(text(&failed).len() <= LONGEST && text(&failed).ends_with("of 131072 bytes]"));
        let object = of(format!("{{\"a\": \"{}\"}}", "x".repeat(LONGEST)).as_bytes());
        assert_eq!(object.structured_content, None);
    }

    #[test]
    fn errors_say_what_happened_and_what_to_do() {
        let failure = CommandFailure::new(Exit::Busy, "the queue of `hello` is full").help("try again in 1s");
        let result = refused(&failure);
        assert_eq!(
            (text(&result), result.is_error),
            ("the queue of `hello` is full\nhelp: try again in 1s", Some(true))
        );
        let run: InvocationView = serde_json::from_value(json!({
            "id": "01934567-89ab-7def-8123-456789abcdef", "function": "hello", "trigger": "manual", "state": "failed",
            "reason": "exit-3", "message": "no such host", "exhausted": null, "accepted_at": "2026-11-21T08:00:00Z",
            "started_at": null, "ended_at": null, "next_attempt_at": null, "attempts": 1, "polls": 0,
        }))
        .unwrap();
        assert_eq!(
            text(&of_failure(&run)),
            "`hello` ended as `failed` (`exit-3`): no such host\n\
             help: `fnd_logs` with the id 01934567-89ab-7def-8123-456789abcdef shows what the run printed; \
             `fndctl explain exit-3` explains the reason"
        );
    }
}
