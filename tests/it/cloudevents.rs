//! Events (`[[event]]`): fan-out, duplicates, schemas, full queues, order, and kills between acceptance and run.

use fnd_core::api::{DeadLetterList, EventAccepted, InvocationView};
use fnd_tests::ask::word;
use fnd_tests::client::Answer;
use fnd_tests::fnd::Setup;
use fnd_tests::wait::{PATIENCE, now};
use fnd_tests::{Fnd, wait_until};
use fnd_wire::ids::InvocationId;
use serde_json::json;
use std::time::Duration;

fn script(event: &str, code: &str) -> String {
    let block: String = event.lines().map(|line| format!("# {line}\n")).collect();
    format!("# /// fnd\n{block}# ///\n{code}\n")
}

/// Sends an event as JSON.
fn send(fnd: &Fnd, event: &serde_json::Value) -> Answer {
    let headers = [("content-type", "application/cloudevents+json")];
    fnd.client()
        .call("POST", "/v1/events", &headers, event.to_string().as_bytes())
}

fn event(kind: &str, id: &str, data: serde_json::Value) -> serde_json::Value {
    let mut event = json!({"specversion": "1.0", "type": kind, "source": "shop", "id": id, "subject": "orders/7"});
    event["data"] = data;
    event
}

fn accepted(answer: &Answer) -> EventAccepted {
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()
}

fn ids(event: &EventAccepted) -> Vec<InvocationId> {
    event.delivered.invocations.iter().map(|taken| taken.id).collect()
}

const SHOWS: &str = "echo \"$FND_TRIGGER $FND_EVENT_TYPE $FND_EVENT_ID $FND_EVENT_SOURCE $FND_EVENT_SUBJECT $(cat)\"";

#[test]
fn every_subscriber_gets_the_event_once_and_sees_its_attributes() {
    let mut fnd = Fnd::start();
    fnd.drop_file("exact.sh", &script("[[event]]\ntype = \"order.created\"", SHOWS));
    fnd.drop_file(
        "all.sh",
        &script("[[event]]\ntype = \"order.*\"\nsubject = \"orders/*\"", SHOWS),
    );
    fnd.drop_file(
        "other.sh",
        &script("[[event]]\ntype = \"order.created\"\nsource = \"web\"", SHOWS),
    );
    fnd.drop_file(
        "handles.py",
        "# /// fnd\n# [[event]]\n# type = \"order.*\"\n# when = { \"body.order\" = \"7\" }\n# ///\ndef handler(event, context):\n    names = [\"event-type\", \"event-id\", \"event-time\", \"ce-source\", \"ce-subject\", \"ce-shelf\"]\n    return [event[name] for name in names] + [event[\"data\"][\"order\"], event[\"extensions\"][\"event\"][\"type\"]]\n",
    );
    for name in ["exact", "all", "other", "handles"] {
        fnd.wait_ready(name);
    }
    let mut sent = event("order.created", "A1", json!({"order": 7}));
    sent["time"] = "2026-11-21T08:00:00Z".into();
    sent["shelf"] = 3.into();
    let first = accepted(&send(&fnd, &sent));
    let functions: Vec<_> = first
        .delivered
        .invocations
        .iter()
        .map(|taken| taken.function.as_str())
        .collect();
    assert_eq!((first.id.as_str(), functions), ("A1", vec!["all", "exact", "handles"]));
    for taken in &first.delivered.invocations {
        let view = fnd.wait_end(taken.id);
        assert_eq!(
            (word(&view.state), word(&view.trigger)),
            ("succeeded".into(), "event".into()),
            "{view:?}"
        );
        let result = fnd.result(taken.id).text();
        if taken.function.as_str() == "handles" {
            let expected = json!([
                "order.created",
                "A1",
                "2026-11-21T08:00:00Z",
                "shop",
                "orders/7",
                "3",
                7,
                "order.created"
            ]);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&result).unwrap(), expected);
        } else {
            assert_eq!(result.trim(), "event order.created A1 shop orders/7 {\"order\":7}");
        }
    }
    // The same source and id is the same event, after a restart too.
    for _ in 0..2 {
        let again = accepted(&send(&fnd, &sent));
        assert_eq!((ids(&again), again.delivered.duplicate), (ids(&first), true));
        fnd.crash();
        fnd.launch();
        fnd.wait_ready("handles");
    }
    assert_eq!(fnd.history("exact").len(), 1);
    let nobody = accepted(&send(&fnd, &event("invoice.paid", "A2", json!(1))));
    assert_eq!((ids(&nobody), nobody.delivered.duplicate), (vec![], false));
    let metrics = fnd.client().get("/metrics").text();
    assert!(
        metrics.contains("fnd_events_total{outcome=\"unmatched\"} 1"),
        "{metrics}"
    );
    fnd.finish();
}

/// The count of dead letters comes first.
#[test]
fn events_schemas_and_full_queues() {
    let fnd = Fnd::start();
    a_full_queue_refuses_its_function_only_and_its_share_can_be_redriven(&fnd);
    data_that_matches_no_schema_is_refused_with_its_place(&fnd);
    fndctl_emits_and_says_what_came_of_it(&fnd);
    events_of_one_key_run_one_after_the_other(&fnd);
    fnd.finish();
}

fn fndctl_emits_and_says_what_came_of_it(fnd: &Fnd) {
    fnd.drop_file("mail.sh", &script("[[event]]\ntype = \"order.*\"", SHOWS));
    fnd.wait_ready("mail");
    let emitted = fnd.ctl(&[
        "emit",
        "order.created",
        "-d",
        "{\"n\": 1}",
        "--subject",
        "a \u{e4}",
        "--id",
        "x",
        "-o",
        "json",
    ]);
    let event: EventAccepted = serde_json::from_value(emitted.expect_code(0).json()).unwrap();
    let [id] = ids(&event)[..] else { panic!("{event:?}") };
    fnd.wait_end(id);
    assert_eq!(
        fnd.result(id).text().trim(),
        "event order.created x fndctl a \u{e4} {\"n\": 1}"
    );
    let again = fnd
        .ctl(&["emit", "order.created", "--id", "x", "-o", "name"])
        .expect_code(0);
    assert_eq!(again.out().trim(), id.to_string());
    assert!(again.stderr.contains("was sent before"), "{again}");
    let nobody = fnd.ctl(&["emit", "invoice"]).expect_code(0);
    assert!(
        nobody.stderr.contains("no function subscribes to `invoice`"),
        "{nobody}"
    );
    let wrong = fnd.ctl(&["emit", "order", "--source", "a b"]).expect_code(2);
    assert!(
        wrong.stderr.contains("the attribute `source` is not a URI reference"),
        "{wrong}"
    );
}

fn data_that_matches_no_schema_is_refused_with_its_place(fnd: &Fnd) {
    fnd.drop_file("strict/main.sh", "cat\n");
    fnd.drop_file(
        "strict/order.json",
        "{\"properties\": {\"order\": {\"type\": \"integer\"}}}",
    );
    fnd.drop_file(
        "strict/function.toml",
        "[[event]]\ntype = \"order\"\nschema = \"order.json\"\n",
    );
    fnd.wait_ready("strict");
    let wrong = send(fnd, &event("order", "1", json!({"order": "x"})));
    let detail = wrong.problem().detail;
    assert_eq!(wrong.status, 422);
    assert!(
        detail.contains("`strict`: the data does not match `order.json`: `/order`"),
        "{detail}"
    );
    // With another subscriber the event is accepted, and the refusal is in the answer.
    fnd.drop_file("lax.sh", &script("[[event]]\ntype = \"order\"", "cat"));
    fnd.wait_ready("lax");
    let sent = event("order", "1", json!({"order": "x"}));
    let event = accepted(&send(fnd, &sent));
    let refused = &event.delivered.refused;
    assert_eq!(
        (ids(&event).len(), refused.len(), refused[0].function.as_str()),
        (1, 1, "strict")
    );
    fnd.wait_end(ids(&event)[0]);
    // An event that was accepted keeps its answer when no function is left that takes its data.
    fnd.remove("lax.sh");
    fnd.wait_gone("lax");
    let again = accepted(&send(fnd, &sent));
    assert_eq!((ids(&again), again.delivered.duplicate), (ids(&event), true));
}

fn a_full_queue_refuses_its_function_only_and_its_share_can_be_redriven(fnd: &Fnd) {
    let waits = "until [ -e \"$STATE_DIRECTORY/go\" ]; do sleep 0.05; done; cat";
    let small = "[[event]]\ntype = \"e\"\n[pool]\nmax = 1\n[queue]\nmax = 0";
    fnd.drop_file("small.sh", &script(small, waits));
    fnd.wait_ready("small");
    let first = accepted(&send(fnd, &event("e", "full-1", json!(1))));
    let full = send(fnd, &event("e", "full-2", json!(2)));
    assert_eq!(
        (full.status.as_u16(), full.header("retry-after")),
        (429, Some("1")),
        "{full:?}"
    );
    assert_eq!(fnd.status().dead_letters, 0, "its sender sends it again");
    fnd.drop_file("large.sh", &script("[[event]]\ntype = \"e\"", "cat"));
    fnd.wait_ready("large");
    let second = accepted(&send(fnd, &event("e", "full-2", json!(2))));
    let refused = &second.delivered.refused;
    assert_eq!((ids(&second).len(), refused[0].function.as_str()), (1, "small"));
    assert!(refused[0].why.contains("queue.max"), "{refused:?}");
    let letters: DeadLetterList = fnd.client().get("/v1/dead-letters").json();
    let letter = &letters.dead_letters[0].invocation;
    assert_eq!(
        (word(&letter.state), word(&letter.reason)),
        ("skipped".into(), "skipped-queue-full".into())
    );
    std::fs::write(fnd.path("state/home/small/go"), "").unwrap();
    fnd.wait_end(ids(&first)[0]);
    fnd.wait_end(ids(&second)[0]);
    let redriven = fnd
        .ctl(&["dead-letters", "redrive", &letter.id.to_string()])
        .expect_code(0)
        .out();
    let id = InvocationId::parse(redriven.trim().rsplit(' ').next().unwrap()).unwrap();
    assert_eq!(word(&fnd.wait_end(id).state), "succeeded");
    assert_eq!(fnd.result(id).text().trim(), "2");
    assert_eq!(fnd.status().dead_letters, 0);
}

/// A sender that got no answer sends the event again: it gets the first answer also while no subscriber takes an event.
#[test]
fn an_event_that_was_sent_before_gets_its_first_answer_without_room_for_it() {
    let mut fnd = Fnd::start();
    let waits = "until [ -e \"$STATE_DIRECTORY/go\" ]; do sleep 0.05; done; cat";
    for (name, kind) in [("small", "a"), ("other", "b")] {
        let one = format!("[[event]]\ntype = \"{kind}\"\n[pool]\nmax = 1\n[queue]\nmax = 0");
        fnd.drop_file(&format!("{name}.sh"), &script(&one, waits));
        fnd.wait_ready(name);
    }
    let old = event("a", "1", json!(1));
    let first = accepted(&send(&fnd, &old));
    let again = accepted(&send(&fnd, &old));
    assert_eq!((ids(&again), again.delivered.duplicate), (ids(&first), true));
    assert_eq!(send(&fnd, &event("a", "2", json!(2))).status, 429, "another event");

    // In a batch, the old event keeps its answer, and the new one is accepted, once.
    let headers = [("content-type", "application/cloudevents-batch+json")];
    let batch = |events: &[serde_json::Value]| {
        let body = serde_json::Value::from(events).to_string();
        fnd.client().call("POST", "/v1/events", &headers, body.as_bytes())
    };
    let new = event("b", "3", json!(3));
    let of_nobody = event("c", "4", json!(4));
    let answer = batch(&[of_nobody, old.clone(), new.clone(), new]);
    assert_eq!(answer.status, 202, "{answer:?}");
    let answer: serde_json::Value = answer.json();
    let of = |number: usize| {
        let event = &answer["events"][number];
        (
            event["invocations"].as_array().unwrap().len(),
            event["duplicate"] == true,
        )
    };
    let expected = [(0, false), (1, true), (1, false), (1, true)];
    assert_eq!([0, 1, 2, 3].map(of), expected, "{answer}");
    assert_eq!(batch(&[old, event("b", "5", json!(5))]).status, 429);
    let metrics = fnd.client().get("/metrics").text();
    for counted in ["accepted\"} 2", "duplicate\"} 3", "refused\"} 3", "unmatched\"} 1"] {
        let line = format!("fnd_events_total{{outcome=\"{counted}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    fnd.stop_now();
}

#[test]
fn a_batch_is_accepted_whole_or_not_at_all() {
    let fnd = Fnd::start();
    fnd.drop_file("a.sh", &script("[[event]]\ntype = \"a\"", "cat"));
    fnd.drop_file(
        "none.sh",
        &script("[[event]]\ntype = \"b\"\n[queue]\nmax = 0\n[pool]\nmax = 1", "sleep 60"),
    );
    fnd.wait_ready("a");
    fnd.wait_ready("none");
    let headers = [("content-type", "application/cloudevents-batch+json")];
    let batch = |events: &[serde_json::Value]| {
        let body = serde_json::Value::from(events).to_string();
        fnd.client().call("POST", "/v1/events", &headers, body.as_bytes())
    };
    let fine = batch(&[
        event("a", "1", json!(1)),
        event("b", "2", json!(2)),
        event("c", "3", json!(3)),
    ]);
    assert_eq!(fine.status, 202, "{fine:?}");
    let counts: Vec<_> = fine.json::<serde_json::Value>()["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["invocations"].as_array().unwrap().len())
        .collect();
    assert_eq!(counts, [1, 1, 0]);
    let full = batch(&[event("a", "4", json!(1)), event("b", "5", json!(2))]);
    assert_eq!(full.status, 429, "{full:?}");
    let malformed = batch(&[
        event("a", "6", json!(1)),
        json!({"specversion": "1.0", "type": "a", "id": "7"}),
    ]);
    assert_eq!(
        (malformed.status.as_u16(), malformed.problem().detail.as_str()),
        (400, "event 2 of the batch: the attribute `source` is missing")
    );
    fnd.wait_run("a");
    assert_eq!(fnd.history("a").len(), 1);
    let mut fnd = fnd;
    fnd.stop_now();
}

/// Accepted is on the disk: a kill right after the answer loses nothing and repeats nothing.
#[test]
fn a_kill_between_the_answer_and_the_run_loses_nothing() {
    let mut fnd = Fnd::start();
    let code = "cat >>\"$STATE_DIRECTORY/ran\"; echo >>\"$STATE_DIRECTORY/ran\"";
    for name in ["one", "two"] {
        let small = "[[event]]\ntype = \"e\"\n[pool]\nmax = 1\n[retry]\nretries = 1\non = [\"interrupted\"]\n[queue]\nmax = 1000";
        fnd.drop_file(&format!("{name}.sh"), &script(small, code));
        fnd.wait_ready(name);
    }
    let mut all = Vec::new();
    for round in 0..3 {
        for number in 0..10 {
            let id = format!("{round}-{number}");
            all.extend(ids(&accepted(&send(&fnd, &event("e", &id, json!(id))))));
        }
        fnd.crash();
        fnd.launch();
    }
    assert_eq!(all.len(), 60);
    for id in &all {
        let view = fnd.wait_end(*id);
        assert!(view.state.is_final(), "{view:?}");
    }
    for name in ["one", "two"] {
        let ran = std::fs::read_to_string(fnd.path(&format!("state/home/{name}/ran"))).unwrap();
        let mut lines: Vec<_> = ran.lines().collect();
        let ended: Vec<InvocationView> = fnd.history(name);
        let interrupted = ended
            .iter()
            .filter(|view| view.attempts > 1 || word(&view.state) == "interrupted")
            .count();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(
            (ended.len(), lines.len() + interrupted.min(30 - lines.len())),
            (30, 30),
            "{ran}"
        );
    }
    fnd.finish();
}

fn events_of_one_key_run_one_after_the_other(fnd: &Fnd) {
    let own = "[[event]]\ntype = \"keyed\"\nkey = \"body.key\"\n[pool]\nmax = 4";
    let code = "data=$(cat); echo \"begin $data\" >>\"$STATE_DIRECTORY/ran\"; sleep 0.05; echo \"end $data\" >>\"$STATE_DIRECTORY/ran\"";
    fnd.drop_file("keyed.sh", &script(own, code));
    fnd.wait_ready("keyed");
    let mut last = Vec::new();
    for number in 0..12 {
        let data = json!({"key": number % 3, "n": number});
        last = ids(&accepted(&send(fnd, &event("keyed", &format!("keyed-{number}"), data))));
    }
    fnd.wait_end(last[0]);
    wait_until("every run has ended", PATIENCE, || {
        fnd.history("keyed")
            .iter()
            .all(|view| view.state.is_final())
            .then_some(())
    });
    let ran = std::fs::read_to_string(fnd.path("state/home/keyed/ran")).unwrap();
    for key in 0..3 {
        let of_key: Vec<_> = ran
            .lines()
            .filter(|line| line.contains(&format!("\"key\":{key}")))
            .collect();
        let numbers = (0..4).map(|n| format!("{{\"key\":{key},\"n\":{}}}", key + 3 * n));
        let expected: Vec<_> = numbers
            .flat_map(|data| [format!("begin {data}"), format!("end {data}")])
            .collect();
        assert_eq!(of_key, expected, "{ran}");
    }
    let first_ends = ran.lines().position(|line| line.starts_with("end")).unwrap();
    assert!(first_ends > 1, "different keys run beside each other:\n{ran}");
}

/// Prints how long it takes until an event with a hundred subscribers is accepted and on the disk.
#[test]
#[ignore = "a measurement, run by hand"]
fn a_hundred_subscribers() {
    let fnd = Fnd::start_with(&Setup::default());
    for number in 0..100 {
        fnd.drop_file(
            &format!("f{number}.sh"),
            &script("enabled = true\n[[event]]\ntype = \"e\"\n[queue]\nmax = 10000", "true"),
        );
    }
    for number in 0..100 {
        fnd.wait_ready(&format!("f{number}"));
    }
    let mut took: Vec<Duration> = Vec::new();
    for number in 0..60 {
        let sent = event("e", &number.to_string(), json!({"order": number}));
        let begun = now();
        let answer = send(&fnd, &sent);
        took.push(begun.elapsed());
        assert_eq!(accepted(&answer).delivered.invocations.len(), 100);
        // The runs themselves are not measured.
        wait_until("the runs have ended", PATIENCE, || {
            let status = fnd.status();
            (status.queued == 0 && status.running == 0).then_some(())
        });
    }
    took.sort_unstable();
    println!(
        "100 subscribers: p50 {:?}, p90 {:?}, most {:?}",
        took[30], took[54], took[59]
    );
    let mut fnd = fnd;
    fnd.stop_now();
}
