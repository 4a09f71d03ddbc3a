//! Payloads that do not match the schema of their function.

use super::bench::*;
use crate::data::Data;
use crate::input::InputSchema;
use crate::records::outcome::Trigger;
use crate::run::{Action, Event, Rules, Submit};
use serde_json::json;
use std::sync::Arc;

/// Rules of a function that takes an object with `n`, an integer.
fn strict() -> Rules {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    Rules {
        input: Some(Arc::new(InputSchema::new(&schema))),
        ..rules()
    }
}

fn with(payload: &str, mut submit: Submit) -> Event {
    submit.payload.data = Some(Data::from(payload.as_bytes()));
    submit.payload.content_type = Some("application/json".into());
    Event::Submit(Box::new(submit))
}

/// A request of a trigger to which nobody waits for the answer.
fn unattended(n: u128, trigger: Trigger) -> Submit {
    Submit::new(id(n), name("f"), trigger)
}

#[test]
fn a_caller_learns_what_is_wrong_and_nothing_is_accepted() {
    let mut b = Bench::with(strict());
    let refused = b.event(with("{\"n\": \"x\"}", submit("f", 1)));
    assert!(
        refused.contains("1 wrong in the input") && !refused.contains("note"),
        "{refused}"
    );
    let missing = b.submit(2);
    assert!(missing.contains("1 wrong in the input"), "{missing}");
    let fine = b.event(with("{\"n\": 1}", submit("f", 3)));
    assert!(fine.contains("note 3"), "{fine}");
}

#[test]
fn a_run_without_a_payload_gets_the_data_of_the_manifest() {
    let mut rules = strict();
    rules.default_payload.data = Some(Data::from(&b"{\"n\": 1}"[..]));
    let mut b = Bench::with(rules);
    let fine = b.submit(1);
    assert!(fine.contains("note 1"), "{fine}");
}

/// No caller waits for the refusal, and a redrive has replaced its dead letter.
#[test]
fn a_run_that_a_trigger_or_a_redrive_wants_is_recorded_as_failed() {
    let redrive = Submit {
        wait: false,
        trigger: Trigger::Redrive,
        ..submit("f", 1)
    };
    for (submit, is_dead_letter) in [
        (redrive, true),
        (unattended(1, Trigger::File), true),
        (unattended(1, Trigger::Nats), true),
        (unattended(1, Trigger::Hook), true),
        (unattended(1, Trigger::Schedule), false),
    ] {
        let (trigger, mut b) = (submit.trigger, Bench::with(strict()));
        b.event(with("[]", submit));
        let stored = b.last.iter().find_map(|action| match action {
            Action::Store(accepted) => Some(accepted),
            _ => None,
        });
        assert_eq!(
            stored.expect("it is recorded").dead_letter,
            is_dead_letter,
            "{trigger:?}"
        );
        let ended = b.event(Event::Stored(id(1)));
        assert!(ended.contains("update 1 failed input"), "{trigger:?}: {ended}");
        assert_eq!((b.s.queued(), b.s.running()), (0, 0));
    }
}
