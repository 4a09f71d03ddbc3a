//! Messages that end the node that has them, and messages that come again after their end, to another node than the one that knows
//! them.

use super::journal::{Journal, code};
use super::several::{FENCED, gated, node, only_run, server, take_away, wait_begun};
use super::{CONSUMER, ENTRY, STREAM, SUBJECTS, runs, serve, wait_nothing_here, wait_runs};
use fnd_core::records::outcome::{Reason, RunState};
use fnd_tests::nats::NatsServer;
use fnd_tests::require;
use serde_json::Value;

/// Each node that begins the message goes down. The claim counts that over all nodes, whatever the server's own count says.
#[test]
fn a_message_that_ends_every_node_is_a_dead_letter_after_max_deliver() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let manifest = format!("{ENTRY}max_deliver = 2\n{FENCED}");
    let mut taken = Vec::new();
    for name in ["vm1", "vm2"] {
        let mut fnd = node(&server, name);
        let gate = fnd.shared_directory("gate");
        serve(&fnd, "take", &manifest, &gated(name, &gate));
        if taken.is_empty() {
            client.publish("orders.new", &[], r#"{"order": 7}"#);
        }
        wait_begun(&fnd, 1);
        let _ = take_away(&mut fnd);
        taken.push(fnd);
    }
    let three = node(&server, "vm3");
    let terminated = client.first_after(
        &format!("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{STREAM}.{CONSUMER}"),
        || serve(&three, "take", &manifest, &code("vm3", "true")),
    );
    let terminated: Value = serde_json::from_slice(&terminated.payload).unwrap();
    let reason = terminated["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("2 times"), "{terminated}");
    client.wait_acknowledged(STREAM, CONSUMER);
    let run = only_run(&three);
    assert_eq!(run.reason, Some(Reason::Interrupted), "{run:#?}");
    assert_ne!(run.state, RunState::Succeeded);
    assert!(run.message.contains("vm2 had begun it at "), "{}", run.message);
    let letters = three.ctl(&["dead-letters", "-o", "json"]).expect_code(0).out();
    assert!(letters.contains(&run.id.to_string()), "{letters}");
    assert!(Journal::read([&three], "take").0.is_empty());
    assert_eq!(client.messages(STREAM), 0);
    // Its payload is here: a person runs it again.
    let _ = three
        .ctl(&["dead-letters", "redrive", &run.id.to_string()])
        .expect_code(0);
    fnd_tests::wait_until("the message to run", fnd_tests::wait::PATIENCE, || {
        let runs = three.history("take");
        runs.iter().any(|run| run.state == RunState::Succeeded).then_some(())
    });
    three.finish();
}

/// The server has lost what it knew of the consumer, and counts from 1. The node that has run the messages is away.
#[test]
fn what_has_ended_elsewhere_is_acknowledged_and_does_not_run_again() {
    require!(nats, root, cgroup);
    let mut server = NatsServer::start();
    let client = server.client();
    client.make_stream(STREAM, &[SUBJECTS], "limits");
    let one = node(&server, "vm1");
    serve(&one, "take", &format!("{ENTRY}{FENCED}"), &code("vm1", "true"));
    client.publish_numbers("orders.new", 0..10);
    wait_runs(&one, "take", 10);
    client.wait_acknowledged(STREAM, CONSUMER);
    Journal::read([&one], "take").check_each_ended_once(10);
    one.finish();
    server.kill();
    server.launch();
    let client = server.client();
    client.delete_consumer(STREAM, CONSUMER);
    let two = node(&server, "vm2");
    serve(&two, "take", &format!("{ENTRY}{FENCED}"), &code("vm2", "true"));
    client.wait_consumer(STREAM, CONSUMER);
    client.publish("orders.new", &[], "new");
    wait_runs(&two, "take", 1);
    client.wait_acknowledged(STREAM, CONSUMER);
    wait_nothing_here(&two);
    assert_eq!(runs(&two, "take").len(), 1);
    let journal = Journal::read([&two], "take");
    assert_eq!(journal.0.keys().copied().collect::<Vec<_>>(), [11], "{journal:?}");
    two.finish();
}
