//! Shows on a terminal why a run does not go on: it waits for its turn, or for its next attempt.

use crate::client::BodyPieces;
use crate::common::answers::next;
use crate::common::results::LONGEST;
use crate::context::{Context, Parameters};
use crate::exit::CommandFailure;
use crate::text::distance;
use fnd_core::api::stream::{Kind, StreamEvent};
use jiff::{SignedDuration, Timestamp};
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

/// A run that starts within this time does not wait for people.
const SOON: Duration = Duration::from_secs(1);

/// Does work that runs a function, and reports meanwhile what the run waits for. The report never fails the work.
pub(crate) async fn reporting<T>(context: &Context, function: &str, work: impl Future<Output = T>) -> T {
    if !context.out.shows_progress() {
        return work.await;
    }
    let mut parameters = Parameters::default();
    parameters.add("function", Some(function));
    parameters.add("kind", Some("accepted,started,retried,polled"));
    // Earlier events are about other runs.
    parameters.add("since", Some("now"));
    let events = context.client.stream(&format!("/v1/stream{}", parameters.0)).await;
    let mut work = pin!(work);
    if let Ok(mut events) = events {
        // The work is polled on after the report has ended; the report is only dropped when the work is done.
        tokio::select! {
            done = &mut work => return done,
            _ = report(context, function, &mut events) => {}
        }
    }
    work.await
}

/// Reports until the events end.
async fn report(context: &Context, function: &str, events: &mut BodyPieces) -> Result<(), CommandFailure> {
    // The first run that is accepted is the caller's own, unless another caller is quicker; then the lines are about that
    // one. fnd says the id only in its answer.
    let mut run = None;
    let mut waits = false;
    loop {
        let patience = if waits { SOON } else { LONGEST };
        // Cancel-safe: a part of a line that was read is kept for the next call.
        let Ok(event) = timeout(patience, next::<StreamEvent>(events)).await else {
            waits = false;
            context.out.progress(&turn(context, function).await?);
            continue;
        };
        let Some(event) = event? else { return Ok(()) };
        if event.kind == Kind::Accepted && run.is_none() {
            run = event.invocation;
            waits = true;
        } else if run.is_some() && event.invocation == run {
            waits = false;
            if let Some(line) = next_attempt(&event, Timestamp::now()) {
                context.out.progress(&line);
            }
        }
    }
}

/// Returns how many runs are before a new one.
async fn turn(context: &Context, function: &str) -> Result<String, CommandFailure> {
    let detail = context.detail(function).await?;
    let (running, queued) = (detail.status.running, detail.status.queued);
    let waits_for = detail.status.waits_for.as_ref();
    let waits_for = waits_for.map(|waits_for| format!(", waiting for {}", waits_for.words()));
    let waits_for = waits_for.unwrap_or_default();
    Ok(format!(
        "waiting for its turn: {running} running, {queued} queued{waits_for}"
    ))
}

/// Returns when and why another attempt follows.
fn next_attempt(event: &StreamEvent, now: Timestamp) -> Option<String> {
    let (attempt, reason) = (event.attempt?, event.reason?);
    // Rounded to the nearest second.
    let now = now - SignedDuration::from_millis(500);
    let at = distance(event.next_attempt_at.as_deref(), now);
    (event.kind != Kind::Started).then(|| format!("attempt {attempt} {at} ({reason})"))
}

#[cfg(test)]
mod tests {
    use crate::common::waiting::*;

    #[test]
    fn the_next_attempt_is_announced() {
        let event = |kind: &str| {
            serde_json::from_value::<StreamEvent>(serde_json::json!({
                "seq": "1-1", "time": "", "kind": kind, "attempt": 2, "reason": "exit-1",
                "next_attempt_at": "2026-11-21T08:00:02Z",
            }))
            .unwrap()
        };
        let now = "2026-11-21T08:00:00.1Z".parse().unwrap();
        assert_eq!(
            next_attempt(&event("retried"), now).unwrap(),
            "attempt 2 in 2s (exit-1)"
        );
        assert_eq!(next_attempt(&event("started"), now), None);
    }
}
