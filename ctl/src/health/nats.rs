//! Checks the connection to the servers of NATS, and the streams of `[[nats]]`. fnd asks the servers all the time, with its own
//! credentials, so its answer also says which rights are missing.

use super::finding::Finding;
use crate::client::Client;
use crate::text::brief;
use fnd_core::api::{NatsState, NatsTriggerView, NatsView, NodeStatus};

const CHECK: &str = "nats";

/// Returns fnd's view of the servers; nothing where `fnd.toml` names none, or fnd does not answer.
pub(crate) async fn inspect(client: &Client) -> Option<Box<NatsView>> {
    // Without `[events.nats]` this is refused. Whether fnd answers at all, `daemon` has found out.
    let reply = client.get("/v1/nats").await.ok()?;
    serde_json::from_slice(&reply.body).ok()
}

/// Judges the view. A problem that the status of the node names already is not repeated.
pub(crate) fn judge(view: Option<&NatsView>, node: Option<&NodeStatus>) -> Vec<Finding> {
    let Some(view) = view else { return Vec::new() };
    let is_known = |why: &str| {
        let mut problems = node.into_iter().flat_map(|node| &node.problems);
        problems.any(|problem| problem.contains(why))
    };
    let mut findings = vec![connection(view)];
    // Without a connection nothing is known of them.
    if view.connected {
        findings.extend(view.triggers.iter().map(entry));
    }
    // A finding that is fine has no reason to be left out.
    findings.retain(|finding| finding.fix.is_none() || !is_known(&finding.what));
    findings
}

fn connection(view: &NatsView) -> Finding {
    let server = view.server.as_deref().unwrap_or("a server");
    let took = view
        .round_trip_ms
        .map(|took| format!(", round trip {}", brief(Some(took))));
    match (view.connected, &view.error) {
        (true, None) => {
            let took = took.unwrap_or_default();
            Finding::ok(CHECK, format!("`{}` is connected to {server}{took}", view.node))
        }
        (_, Some(error)) => Finding::error(CHECK, error).fix("fndctl nats; `[events.nats]` in fnd.toml"),
        // For the first seconds nothing is wrong yet.
        (false, None) => Finding::unknown(CHECK, "fnd is connecting to the servers of NATS").fix("fndctl nats"),
    }
}

/// Judges an entry of `[[nats]]`.
fn entry(trigger: &NatsTriggerView) -> Finding {
    let what = |words: &str| match (&trigger.stream, &trigger.error) {
        (_, Some(error)) => error.clone(),
        (Some(stream), None) => format!("`{}` of the stream {stream}: {words}", trigger.subject),
        (None, None) => format!("`{}`: {words}", trigger.subject),
    };
    let fix = "fndctl nats shows what the server says";
    let found = match trigger.state {
        NatsState::Consuming | NatsState::Full if trigger.error.is_some() => Finding::warning(CHECK, what("")).fix(fix),
        NatsState::Consuming | NatsState::Full => Finding::ok(CHECK, what("it gets messages")),
        NatsState::Disabled => Finding::ok(CHECK, what("the function takes no work now")),
        NatsState::Paused => Finding::warning(CHECK, what("its consumer is paused on the server"))
            .fix("nats consumer resume, or wait until the pause is over"),
        NatsState::Gone => Finding::error(CHECK, what("its stream or its consumer is missing")).fix(fix),
        NatsState::Stalled => Finding::error(CHECK, what("the server does not deliver its messages")).fix(fix),
    };
    found.at(trigger.function.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{brief, node};
    use super::*;
    use serde_json::json;

    fn view(connected: bool, error: Option<&str>, state: &str) -> NatsView {
        let error_of_entry = (state == "gone").then_some("there is no stream ORDERS");
        serde_json::from_value(json!({
            "connected": connected, "server": "n1", "node": "vm1", "since": "", "round_trip_ms": 0.4, "error": error,
            "triggers": [{
                "function": "orders", "subject": "orders.>", "stream": "ORDERS", "consumer": "fnd-orders", "state": state,
                "pending": 1, "here": 0, "redelivered": 0, "leases": 0, "leases_lost": 0, "error": error_of_entry,
            }],
        }))
        .unwrap()
    }

    #[test]
    fn connection_and_entries_are_judged() {
        let fine = "ok `vm1` is connected to n1, round trip 0.4ms";
        for (connected, error, state, expected) in [
            (
                true,
                None,
                "consuming",
                vec![fine, "ok `orders.>` of the stream ORDERS: it gets messages"],
            ),
            (
                true,
                None,
                "disabled",
                vec![
                    fine,
                    "ok `orders.>` of the stream ORDERS: the function takes no work now",
                ],
            ),
            (true, None, "gone", vec![fine, "error there is no stream ORDERS"]),
            (
                true,
                None,
                "paused",
                vec![
                    fine,
                    "warning `orders.>` of the stream ORDERS: its consumer is paused on the server",
                ],
            ),
            (
                false,
                Some("connection refused"),
                "stalled",
                vec!["error connection refused"],
            ),
            (
                false,
                None,
                "stalled",
                vec!["unknown fnd is connecting to the servers of NATS"],
            ),
        ] {
            let view = view(connected, error, state);
            assert_eq!(brief(&judge(Some(&view), None)), expected);
        }
        assert_eq!(judge(None, None), []);
    }

    #[test]
    fn what_the_status_says_is_not_repeated() {
        let problems = json!({"problems": ["no connection to NATS: connection refused", "there is no stream ORDERS"]});
        let node = node(&problems);
        let away = view(false, Some("connection refused"), "stalled");
        assert_eq!(judge(Some(&away), Some(&node)), []);
        let gone = view(true, None, "gone");
        assert_eq!(judge(Some(&gone), Some(&node)).len(), 1);
    }
}
