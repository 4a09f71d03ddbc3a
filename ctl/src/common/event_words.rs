//! Events in a few words, for people.

use crate::output::Output;
use fnd_core::api::stream::{Kind, StreamEvent};
use fnd_core::lifecycle::release::short;
use fnd_core::records::outcome::{Exhausted, Reason};
use fnd_wire::units::counted;

/// Returns what an event says, without its kind and its function.
pub(crate) fn words(out: &Output, event: &StreamEvent) -> String {
    let reason = event.reason.map(|reason| reason.to_string()).unwrap_or_default();
    let message = event.message.as_deref().unwrap_or_default();
    let attempt = event.attempt.map(|attempt| format!("attempt {attempt}"));
    let attempt = attempt.unwrap_or_default();
    let trigger = event.trigger.map_or("", |trigger| trigger.as_str());
    match event.kind {
        Kind::Loaded => format!("version {}", event.version.map(short).unwrap_or_default()),
        // The diagnostics are printed below this line.
        Kind::Refused if !event.diagnostics.is_empty() => String::new(),
        Kind::Removed => String::new(),
        Kind::State => {
            let words = event.states;
            let words = words.map(|(from, to)| format!("{}, was {}", to.as_str(), from.as_str()));
            words.unwrap_or_default()
        }
        Kind::Accepted => trigger.to_owned(),
        Kind::Started => {
            let worker = event.worker.map(|worker| format!(" as w{worker}")).unwrap_or_default();
            format!("{attempt}{worker} ({trigger})")
        }
        Kind::Ended => {
            let took = event.duration_ms.map(|ms| format!(" after {ms:.0} ms"));
            let took = took.unwrap_or_default();
            let why = match event.reason {
                Some(Reason::Ok) | None => String::new(),
                Some(_) if message.is_empty() => format!(" ({reason})"),
                Some(_) => format!(" ({reason}: {message})"),
            };
            let what = match (&event.state, event.attempt) {
                (_, Some(_)) if event.reason == Some(Reason::Ok) => format!("{attempt} succeeded"),
                (_, Some(_)) => format!("{attempt} ended"),
                (Some(state), None) => state.as_str().to_owned(),
                (None, None) => String::new(),
            };
            format!("{what}{took}{why}")
        }
        Kind::Retried | Kind::Polled => {
            let at = out.instant(event.next_attempt_at.as_deref().unwrap_or_default());
            format!("{attempt} at {at} ({reason})")
        }
        Kind::GaveUp => {
            let exhausted = event.exhausted.map(|exhausted| match exhausted {
                Exhausted::Retries => "no retries are left",
                Exhausted::Poll => "the time for polls is over",
                Exhausted::Deadline => "the deadline is over",
            });
            format!("{} ({reason})", exhausted.unwrap_or_default())
        }
        Kind::Scaled => {
            let words = event.workers.map(|(from, to)| format!("workers: {to}, were {from}"));
            words.unwrap_or_default()
        }
        Kind::Dropped => format!("{reason} ({trigger})"),
        Kind::Request => {
            let took = event.duration_ms.map(|ms| format!(", {ms:.1} ms")).unwrap_or_default();
            format!("{message}{took}")
        }
        Kind::Refused | Kind::Problem | Kind::Solved => message.to_owned(),
        Kind::Missed => match event.missed {
            Some(missed) => format!("{}: {message}", counted(missed, "event", "events")),
            None => message.to_owned(),
        },
    }
}
