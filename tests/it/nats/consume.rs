//! A function gets the parts of a message, and each message once.

use super::{CONSUMER, ENTRY, KEEP, STREAM, SUBJECTS, lines, serve, setup, sorted, start, wait_runs};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::RunState;
use fnd_tests::nats::NatsServer;
use fnd_tests::{Fnd, require};
use serde_json::json;

#[test]
fn each_message_runs_the_function_once_and_is_acknowledged() {
    require!(nats);
    let (_server, client, fnd) = start();
    client.publish_numbers("orders.new", 0..3);
    serve(&fnd, "take", ENTRY, KEEP);
    client.publish_numbers("orders.new", 3..6);
    let runs = wait_runs(&fnd, "take", 6);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(sorted(&fnd, "take", "journal"), ["0", "1", "2", "3", "4", "5"]);
    assert!(
        runs.iter()
            .all(|run| (run.state, run.attempts) == (RunState::Succeeded, 1)),
        "{runs:#?}"
    );
    assert_eq!(client.messages(STREAM), 0, "a work queue forgets what is acknowledged");
    let info = client.wait_consumer(STREAM, CONSUMER);
    assert_eq!(info["config"]["max_deliver"], -1);
    assert_eq!(info["num_redelivered"], 0);
    fnd.finish();
}

#[test]
fn a_script_gets_the_data_and_where_it_comes_from() {
    require!(nats);
    let (_server, client, fnd) = start();
    let code = "printf '%s|%s|%s|%s|%s\\n' \"$FND_TRIGGER\" \"$FND_NATS_SUBJECT\" \"$FND_NATS_STREAM\" \"$FND_NATS_SEQUENCE\" \
        \"$(cat)\" >>\"$STATE_DIRECTORY/journal\"\n";
    serve(&fnd, "take", ENTRY, code);
    client.publish("orders.new.eu", &[("X-Kind", "a")], r#"{"total": 7}"#);
    let run = wait_runs(&fnd, "take", 1).remove(0);
    let expected = r#"nats|orders.new.eu|ORDERS|1|{"total": 7}"#;
    assert_eq!(lines(&fnd, "take", "journal"), [expected]);
    let run = fnd.invocation(run.id);
    let Some(Cause::Nats(cause)) = &run.cause else {
        panic!("{:?}", run.cause);
    };
    assert_eq!((cause.stream.as_deref(), cause.sequence), (Some("ORDERS"), Some(1)));
    assert_eq!(cause.headers, [("X-Kind".to_owned(), "a".to_owned())]);
    fnd.finish();
}

/// A handler sees the same as of a CloudEvent.
#[test]
fn a_handler_gets_an_event() {
    require!(nats);
    let (_server, client, fnd) = start();
    let code = "import json, os\n\ndef handler(event, context):\n    \
        path = os.environ['STATE_DIRECTORY'] + '/journal'\n    \
        nats = event['extensions']['nats']\n    \
        place = [nats[key] for key in ('subject', 'stream', 'sequence', 'delivered', 'headers')]\n    \
        seen = [event['data'], event['event-type'], event['event-id'], place, nats['claim'] > 0]\n    \
        open(path, 'a').write(json.dumps(seen) + '\\n')\n";
    fnd.install("take.py", ENTRY, code);
    client.publish("orders.new", &[], r#"{"total": 7}"#);
    client.publish("orders.new", &[("Nats-Msg-Id", "a1")], "text");
    let event = r#"{"specversion":"1.0","id":"7","source":"shop","type":"order.created","data":{"n":1}}"#;
    client.publish("orders.new", &[("Content-Type", "application/cloudevents+json")], event);
    wait_runs(&fnd, "take", 3);
    let expected = [
        r#"["text", "nats.orders.new", "a1", ["orders.new", "ORDERS", 2, 1, [["Nats-Msg-Id", "a1"]]], true]"#,
        r#"[{"n": 1}, "order.created", "7", ["orders.new", "ORDERS", 3, 1, [["Content-Type", "application/cloudevents+json"]]], true]"#,
        r#"[{"total": 7}, "nats.orders.new", "ORDERS.1", ["orders.new", "ORDERS", 1, 1, []], true]"#,
    ];
    assert_eq!(sorted(&fnd, "take", "journal"), expected);
    fnd.finish();
}

#[test]
fn no_more_messages_are_here_than_the_manifest_allows() {
    require!(nats);
    let (_server, client, fnd) = start();
    let gate = fnd.shared_directory("gate");
    let code = format!("until [[ -e {}/go ]]; do sleep 0.02; done\n", gate.display());
    let manifest = format!("{ENTRY}max_in_flight = 2\n[pool]\nmax = 8\n");
    client.publish_numbers("orders.new", 0..10);
    serve(&fnd, "take", &manifest, &code);
    fnd_tests::wait_until("two messages to be here", fnd_tests::wait::PATIENCE, || {
        (client.consumer(STREAM, CONSUMER)?["num_ack_pending"] == 2).then_some(())
    });
    assert_eq!(client.waiting(STREAM, CONSUMER), (8, 2));
    std::fs::write(gate.join("go"), "").unwrap();
    wait_runs(&fnd, "take", 10);
    client.wait_acknowledged(STREAM, CONSUMER);
    fnd.finish();
}

/// Debian 12 has this server.
#[test]
fn an_old_server_does_the_same() {
    require!(nats_floor);
    let server = NatsServer::start_floor();
    let client = server.client();
    client.make_stream(STREAM, &[SUBJECTS], "workqueue");
    let fnd = Fnd::start_with(&setup(&server, "vm1"));
    serve(&fnd, "take", ENTRY, KEEP);
    client.publish_numbers("orders.new", 0..4);
    wait_runs(&fnd, "take", 4);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(sorted(&fnd, "take", "journal"), ["0", "1", "2", "3"]);
    fnd.finish();
}

#[test]
fn what_fnd_makes_is_a_work_queue_and_a_bucket_that_is_read_from_its_leader() {
    require!(nats);
    let server = NatsServer::start();
    let client = server.client();
    let fnd = Fnd::start_with(&setup(&server, "vm1"));
    serve(&fnd, "take", &format!("{ENTRY}create = true\n"), "cat >/dev/null\n");
    client.wait_consumer(STREAM, CONSUMER);
    let stream = client.stream(STREAM).unwrap();
    assert_eq!(
        (&stream["config"]["retention"], &stream["config"]["subjects"][0]),
        (&json!("workqueue"), &json!(SUBJECTS))
    );
    let bucket = client.stream("KV_fnd-claims").unwrap();
    let config = &bucket["config"];
    assert_eq!(
        (&config["allow_direct"], &config["max_msgs_per_subject"]),
        (&json!(false), &json!(1))
    );
    assert_eq!(config["max_age"], 24 * 3600 * 1_000_000_000_u64);
    client.publish("orders.new", &[], "1");
    wait_runs(&fnd, "take", 1);
    client.wait_acknowledged(STREAM, CONSUMER);
    let nodes = client.keys("fnd-claims", "nodes.");
    assert!(matches!(&nodes[..], [(key, _)] if key == "nodes.vm1"), "{nodes:?}");
    let claims = client.keys("fnd-claims", "claims.");
    let states: Vec<_> = claims
        .iter()
        .map(|(_, claim)| claim["state"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(states, ["done"], "{claims:?}");
    fnd.finish();
}
