//! All about one run: its record, what made its trigger run it, and its attempts.

use crate::common::answers::{fields, or_dash};
use crate::common::tables::{bad_if, widening};
use crate::exit::CommandFailure;
use crate::output::Output;
use crate::text::{between, distance, duration, size};
use fnd_core::api::{AttemptView, InvocationView};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::Reason;
use fnd_core::remedy::remedy;
use fnd_wire::units::counted;
use jiff::Timestamp;

/// Returns what made a trigger run the function, as lines of a name and a text.
fn of_cause(cause: &Cause, out: &Output) -> Vec<(&'static str, String)> {
    match cause {
        Cause::Schedule(slots) => {
            let first = slots
                .first
                .as_deref()
                .map(|first| format!(", from {}", out.instant(first)));
            let count = counted(slots.slots, "slot", "slots");
            let at = out.instant(&slots.scheduled_at);
            vec![("scheduled", format!("{at} ({count}{})", first.unwrap_or_default()))]
        }
        Cause::Event(event) => {
            let attributes = &event.attributes;
            let mut lines = vec![
                ("event", format!("{} {}", attributes.kind, attributes.id)),
                ("source", attributes.source.clone()),
            ];
            lines.extend(attributes.subject.clone().map(|subject| ("subject", subject)));
            lines
        }
        Cause::File(file) => {
            let more = file
                .files
                .filter(|files| *files > 1)
                .map(|files| format!(" and {} more", files - 1));
            let text = format!("{} ({}){}", file.path, file.event.as_str(), more.unwrap_or_default());
            vec![("file", text)]
        }
        Cause::Nats(message) => {
            let place = match (&message.stream, message.sequence) {
                (Some(stream), Some(sequence)) => format!("{stream} {sequence}"),
                _ => "a request".to_owned(),
            };
            vec![("nats", place), ("subject", message.subject.clone())]
        }
        Cause::Hook(hook) => vec![("hook of", format!("{} {}", hook.function, hook.invocation))],
        Cause::Call(call) => {
            let id = call.invocation.map(|id| format!(" {id}")).unwrap_or_default();
            vec![("called by", format!("{}{id}", call.function))]
        }
        Cause::Alert(told) => {
            let about = told.function.as_ref().map_or("the node", |function| function.as_str());
            vec![("alert", format!("{about}: {}", told.alert.as_str()))]
        }
    }
}

/// Prints all about a run.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn print(out: &Output, view: &InvocationView, now: Timestamp) -> Result<(), CommandFailure> {
    let text = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), |text| out.instant(text));
    let exhausted = view
        .exhausted
        .map(|what| format!(" ({} exhausted)", format!("{what:?}").to_lowercase()));
    let hook = view.hook.map(|hook| format!(" (a hook {})", hook.as_str()));
    // Two nodes have a record of one message then, and people look for the one that counts.
    let superseded = view.superseded_by.as_ref().map(|node| {
        let text =
            format!("by {node}, which has taken the message over: its record counts, and this one is no dead letter");
        ("superseded", text)
    });
    let state = view.state.as_str();
    let reason = view.reason.map(|reason| reason.to_string()).unwrap_or_default();
    let version = view.version.map(|version| version.to_string()).unwrap_or_default();
    let took = between(view.started_at.as_deref(), view.ended_at.as_deref(), now);
    let lines = [
        ("id", view.id.to_string()),
        ("function", view.function.to_string()),
        ("trigger", view.trigger.as_str().to_owned()),
        (
            "state",
            format!("{state}{}{}", exhausted.unwrap_or_default(), hook.unwrap_or_default()),
        ),
        ("reason", or_dash(reason)),
        ("message", or_dash(view.message.as_str())),
        ("accepted", out.instant(&view.accepted_at)),
        ("started", text(&view.started_at)),
        ("ended", text(&view.ended_at)),
        ("duration", or_dash(took)),
        ("next attempt", text(&view.next_attempt_at)),
        ("version", or_dash(version)),
    ];
    let remedy = view.reason.and_then(|reason| remedy(reason, &view.message));
    let remedy = remedy.map(|remedy| ("remedy", remedy));
    let cause = view.cause.iter().flat_map(|cause| of_cause(cause, out));
    fields(out, lines.into_iter().chain(remedy).chain(superseded).chain(cause))?;
    if view.attempt_records.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let heads: (&[_], &[_]) = (
        &["TRY", "STARTED", "DURATION", "REASON", "CPU", "MEMORY", "OUTPUT"],
        &["POLL", "WORKER", "EXIT", "SIGNAL", "THROTTLED", "DROPPED", "MESSAGE"],
    );
    let tone = |attempt: &AttemptView| bad_if(attempt.reason != Reason::Ok);
    out.table(&widening(out, heads, &view.attempt_records, tone, |attempt| {
        vec![
            attempt.attempt.to_string(),
            distance(Some(&attempt.started_at), now),
            duration(Some(attempt.duration_ms)),
            attempt.reason.to_string(),
            duration(attempt.cpu_ms),
            size(attempt.memory_peak_bytes),
            size(Some(attempt.stdout_bytes.saturating_add(attempt.stderr_bytes))),
            attempt.poll.to_string(),
            if attempt.cold { "cold" } else { "warm" }.to_owned(),
            attempt.exit_code.map(|code| code.to_string()).unwrap_or_default(),
            attempt.signal.clone().unwrap_or_default(),
            duration(attempt.throttled_ms),
            size(Some(attempt.dropped_bytes)),
            attempt.message.clone(),
        ]
    }))
}
