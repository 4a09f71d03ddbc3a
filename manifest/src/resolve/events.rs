//! Checks the entries of `[[event]]`: what they exclude.

use super::subject::FunctionProblems;
use crate::function::Mode;
use crate::function::keys::EventSubscription;
use crate::function::route::RequestPlace;
use crate::schema::tree::{TomlTable, entries, place};

/// Reports what is wrong with the subscriptions; `own` is the manifest in which they are written.
pub(super) fn check(
    subscriptions: &[EventSubscription],
    own: &TomlTable,
    mode: Mode,
    report: &mut FunctionProblems<'_>,
) {
    let written = entries(own, "event");
    for (number, subscription) in subscriptions.iter().enumerate() {
        let node = written.get(number);
        let mut wrong = |key: &str, code, message: String, help: &str| {
            report.error(place(node, key), code, message, help);
        };
        let impossible = "impossible";
        if mode == Mode::Service {
            let message = "`[[event]]` has no effect on a service, which is kept running and never invoked".to_owned();
            wrong("type", impossible, message, "remove it");
        }
        let kind = &subscription.r#type;
        if kind.find('*').is_some_and(|at| at + 1 < kind.len()) {
            let message = format!("`{kind}`: a `*` is only possible at the end of `type`");
            let help = "match the rest with `when`: `{ \"header.ce-type\" = { matches = \"...\" } }`";
            wrong("type", "bad-value", message, help);
        }
        if subscription.source.iter().any(|source| source.contains('*')) {
            let message = "`source` is compared as it is, so a `*` in it matches no other text".to_owned();
            let help = "match with `when`: `{ \"header.ce-source\" = { matches = \"^shop/\" } }`";
            wrong("source", impossible, message, help);
        }
        for condition in &subscription.when {
            if let Some(name) = elsewhere(&condition.place) {
                let message = format!("`{name}` in `when`: an event has only `body.NAME` and `header.ce-NAME`");
                wrong("when", impossible, message, HELP);
            }
        }
        if let Some(name) = subscription.key.as_ref().and_then(elsewhere) {
            let message = format!("`key = \"{name}\"`: an event has only `body.NAME` and `header.ce-NAME`");
            wrong("key", impossible, message, HELP);
        }
        if subscriptions.iter().take(number).any(|other| other == subscription) {
            let message = "two entries of `[[event]]` are the same".to_owned();
            wrong("type", "twice", message, "remove one of the two");
        }
    }
}

const HELP: &str =
    "`body.order` looks into the data, `header.ce-subject` is the attribute `subject` in every form of event";

/// Returns the text of a place that events do not have: it depends on how the event was sent.
fn elsewhere(place: &RequestPlace) -> Option<String> {
    match place {
        RequestPlace::Body(_) => None,
        RequestPlace::Header(name) if name.strip_prefix("ce-").is_some_and(|name| !name.is_empty()) => None,
        RequestPlace::Header(_) | RequestPlace::Query(_) | RequestPlace::Ip => Some(place.clone().into()),
    }
}
