//! Events of all nodes, which go through one stream (`[events.nats] stream`).

use super::{lines, runs, serve, sorted, view, wait_runs};
use fnd_core::api::{EventAccepted, NatsState};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{Reason, RunState};
use fnd_tests::client::Answer;
use fnd_tests::install::with_manifest;
use fnd_tests::nats::NatsServer;
use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use serde_json::json;

/// The stream of the nodes.
const STREAM: &str = "fnd";
/// The parts of an event that a function gets, a line each.
const NOTES: &str = "echo \"$FND_TRIGGER $FND_EVENT_TYPE $FND_EVENT_ID $(cat)\" >>\"$STATE_DIRECTORY/journal\"\n";

fn node(server: &NatsServer, name: &str) -> Fnd {
    let url = server.url();
    let config = format!("[events.nats]\nservers = \"{url}\"\nnode = \"{name}\"\nstream = \"{STREAM}\"\n");
    Fnd::start_with(&Setup::default().config(&config))
}

/// Sends an event with an order.
fn send(fnd: &Fnd, kind: &str, id: &str, order: &str) -> Answer {
    let headers = [
        ("ce-specversion", "1.0"),
        ("ce-type", kind),
        ("ce-source", "shop"),
        ("ce-id", id),
        ("content-type", "application/json"),
    ];
    let data = json!({ "order": order }).to_string();
    fnd.client().call("POST", "/v1/events", &headers, data.as_bytes())
}

/// Sends an event; returns its answer once the stream has it. A node that has just started is not connected yet.
#[track_caller]
fn sent(fnd: &Fnd, kind: &str, id: &str, order: &str) -> EventAccepted {
    wait_until(&format!("the stream to take {id}"), PATIENCE, || {
        let answer = send(fnd, kind, id, order);
        (answer.status == 202).then(|| answer.json())
    })
}

#[test]
fn each_function_gets_each_event_once_on_one_of_the_nodes_that_have_it() {
    require!(nats);
    let server = NatsServer::start();
    let client = server.client();
    let nodes = ["vm1", "vm2"].map(|name| node(&server, name));
    for fnd in &nodes {
        serve(fnd, "mail", "[[event]]\ntype = \"order.*\"\n", NOTES);
    }
    serve(&nodes[1], "invoice", "[[event]]\ntype = \"order.created\"\n", NOTES);
    for consumer in ["fnd-event-mail", "fnd-event-invoice"] {
        client.wait_consumer(STREAM, consumer);
    }
    for number in 0..10 {
        let accepted = sent(&nodes[number % 2], "order.created", &format!("e{number}"), "7");
        let stored = accepted.delivered.stream.expect("a place in the stream");
        assert_eq!((stored.name.as_str(), stored.sequence), (STREAM, number as u64 + 1));
        assert!(accepted.delivered.invocations.is_empty());
    }
    let expected: Vec<String> = (0..10)
        .map(|number| format!("event order.created e{number} {{\"order\":\"7\"}}"))
        .collect();
    for consumer in ["fnd-event-mail", "fnd-event-invoice"] {
        client.wait_acknowledged(STREAM, consumer);
    }
    let mut mails: Vec<String> = nodes.iter().flat_map(|fnd| lines(fnd, "mail", "journal")).collect();
    mails.sort();
    assert_eq!(mails, expected);
    assert_eq!(sorted(&nodes[1], "invoice", "journal"), expected);
    let run = wait_runs(&nodes[1], "invoice", 10).remove(0);
    let cause = nodes[1].invocation(run.id).cause;
    assert!(
        matches!(&cause, Some(Cause::Event(event)) if event.attributes.source == "shop"),
        "{cause:?}"
    );
    // Both consumers have had each event, and the stream keeps them for others.
    assert_eq!(client.messages(STREAM), 10);
    let config = &client.stream(STREAM).expect("the stream")["config"];
    assert_eq!(
        (&config["retention"], &config["subjects"]),
        (&json!("limits"), &json!(["fnd.events.>"]))
    );
    for fnd in nodes {
        fnd.finish();
    }
}

#[test]
fn the_same_event_runs_nothing_again_whichever_node_gets_it() {
    require!(nats);
    let server = NatsServer::start();
    let client = server.client();
    let nodes = ["vm1", "vm2"].map(|name| node(&server, name));
    serve(&nodes[0], "mail", "[[event]]\ntype = \"*\"\n", NOTES);
    client.wait_consumer(STREAM, "fnd-event-mail");
    assert!(!sent(&nodes[0], "order", "a", "7").delivered.duplicate);
    wait_runs(&nodes[0], "mail", 1);
    assert!(sent(&nodes[1], "order", "a", "7").delivered.duplicate);
    client.wait_acknowledged(STREAM, "fnd-event-mail");
    // A sender beside fnd gives it no id that the stream knows; the claim knows the event.
    let headers = [
        ("ce-specversion", "1.0"),
        ("ce-type", "order"),
        ("ce-source", "shop"),
        ("ce-id", "a"),
    ];
    client.publish("fnd.events.order", &headers, "{}");
    sent(&nodes[1], "order", "b", "8");
    wait_runs(&nodes[0], "mail", 2);
    client.wait_acknowledged(STREAM, "fnd-event-mail");
    let expected = ["event order a {\"order\":\"7\"}", "event order b {\"order\":\"8\"}"];
    assert_eq!(sorted(&nodes[0], "mail", "journal"), expected);
    for fnd in nodes {
        fnd.finish();
    }
}

#[test]
fn what_a_function_does_not_want_is_acknowledged_and_what_it_cannot_take_is_a_dead_letter() {
    require!(nats);
    let server = NatsServer::start();
    let client = server.client();
    let fnd = node(&server, "vm1");
    let manifest = "[[event]]\ntype = \"order.created\"\nwhen = { \"body.order\" = { matches = \"^7+$\" } }\n\
        [[event]]\ntype = \"order.paid\"\nsource = \"bank\"\n[limits]\nbody = \"1K\"\n";
    serve(&fnd, "take", manifest, NOTES);
    let info = client.wait_consumer(STREAM, "fnd-event-take");
    assert_eq!(info["config"]["filter_subject"], "fnd.events.order.>");
    sent(&fnd, "order.created", "a", "8");
    sent(&fnd, "order.paid", "b", "7");
    sent(&fnd, "order.late", "c", "7");
    sent(&fnd, "invoice", "d", "7");
    sent(&fnd, "order.created", "e", &"7".repeat(2000));
    sent(&fnd, "order.created", "f", "7");
    let runs = wait_runs(&fnd, "take", 2);
    client.wait_acknowledged(STREAM, "fnd-event-take");
    assert_eq!(
        lines(&fnd, "take", "journal"),
        ["event order.created f {\"order\":\"7\"}"]
    );
    let bad = runs.iter().find(|run| run.reason == Some(Reason::Input));
    let bad = bad.unwrap_or_else(|| panic!("{runs:#?}"));
    assert!(
        bad.state == RunState::Failed && bad.message.contains("limits.body"),
        "{bad:#?}"
    );
    assert_eq!(super::runs(&fnd, "take").len(), 2);
    fnd.finish();
}

#[test]
fn without_the_stream_an_event_is_refused_until_it_is_there() {
    require!(nats);
    let mut server = NatsServer::start();
    let fnd = node(&server, "vm1");
    serve(&fnd, "take", "[[event]]\ntype = \"order\"\n", NOTES);
    server.client().wait_consumer(STREAM, "fnd-event-take");
    sent(&fnd, "order", "a", "7");
    wait_runs(&fnd, "take", 1);
    server.stop();
    let refused = wait_until("an answer without a server", PATIENCE, || {
        Some(send(&fnd, "order", "b", "7")).filter(|answer| answer.status == 503)
    });
    assert!(refused.text().contains("events.nats.stream"), "{}", refused.text());
    assert!(refused.headers.contains_key("retry-after"));
    server.launch();
    sent(&fnd, "order", "b", "7");
    wait_runs(&fnd, "take", 2);
    server.client().wait_acknowledged(STREAM, "fnd-event-take");
    assert_eq!(runs(&fnd, "take").len(), 2);
    fnd.finish();
}

#[test]
fn a_node_that_the_manifest_does_not_name_gets_no_events() {
    require!(nats);
    let server = NatsServer::start();
    let client = server.client();
    let (one, other) = (node(&server, "vm1"), node(&server, "vm2"));
    let manifest = "nodes = [\"nowhere\"]\n[[event]]\ntype = \"order\"\n";
    one.drop_file("take.sh", &with_manifest("take.sh", manifest, NOTES));
    serve(&other, "take", "[[event]]\ntype = \"order\"\n", NOTES);
    wait_until("vm1 to know the function", PATIENCE, || {
        let shown = view(&one);
        (shown.triggers.first()?.state == NatsState::Disabled).then_some(())
    });
    client.wait_consumer(STREAM, "fnd-event-take");
    for number in 0..5 {
        sent(&one, "order", &number.to_string(), "7");
    }
    assert_eq!(wait_runs(&other, "take", 5).len(), 5);
    assert!(runs(&one, "take").is_empty());
    one.finish();
    other.finish();
}

/// A function that sends the event that runs it would never end. The number of its call goes with the event.
#[test]
fn a_chain_over_the_stream_ends() {
    require!(nats);
    let server = NatsServer::start();
    let fnd = node(&server, "vm1");
    let manifest = "[[event]]\ntype = \"again\"\n[access]\nemit = [\"again\"]\n";
    let code = format!("'{}' emit again 2>&1\n", program("fndctl").display());
    serve(&fnd, "chain", manifest, &code);
    server.client().wait_consumer(STREAM, "fnd-event-chain");
    sent(&fnd, "again", "a", "7");
    let refused = wait_until("the chain to end", PATIENCE, || {
        runs(&fnd, "chain")
            .into_iter()
            .find(|run| run.state == RunState::Failed)
    });
    assert_eq!(runs(&fnd, "chain").len(), 9, "{refused:?}");
    fnd.finish();
}

/// Whoever publishes an event with `fndctl` sees where it is.
#[test]
fn a_person_sees_where_an_event_is() {
    require!(nats);
    let server = NatsServer::start();
    let fnd = node(&server, "vm1");
    sent(&fnd, "order", "a", "7");
    let run = fnd.ctl(&["emit", "order", "-d", "1", "--id", "b"]).expect_code(0);
    let words: Vec<String> = run.out().split_whitespace().map(str::to_owned).collect();
    assert_eq!(words, ["SEQUENCE", "STREAM", "TYPE", "2", "fnd", "order"]);
    fnd.finish();
}
