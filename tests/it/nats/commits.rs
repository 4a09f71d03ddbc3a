//! A node dies before and after each step that counts: its ledger has the message, the server has its claim, the server has its
//! acknowledgement. Where the step goes over the network, it goes through a link that holds it.

use super::journal::{Journal, code};
use super::several::{FENCED, gated, node, node_behind, only_run, server, take_away, wait_begun};
use super::{
    CONSUMER, ENTRY, STREAM, runs, serve, wait_asked, wait_delivered, wait_nothing_here, wait_over, wait_runs,
};
use fnd_core::records::outcome::{Reason, RunState};
use fnd_tests::nats::{Forwarder, Way};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use nix::sys::signal::Signal;
use std::time::Duration;

/// Acknowledged once it is in the ledger. Work that was interrupted begins again.
const ACCEPTED: &str = "ack = \"accept\"\nack_wait = \"5s\"\n[limits]\ngrace = \"500ms\"\n\
    [retry]\nretries = 1\ninterval = \"500ms\"\non = [\"interrupted\"]\n";

/// Waits until a node has stored an invocation.
#[track_caller]
fn wait_stored(fnd: &Fnd) {
    wait_until("the message to be stored", PATIENCE, || {
        (!fnd.history("take").is_empty()).then_some(())
    });
}

/// Waits until a node has stored the claim of an attempt.
#[track_caller]
fn wait_claimed(fnd: &Fnd) {
    wait_until("the claim to be stored", PATIENCE, || {
        let runs = fnd.history("take");
        runs.iter().any(|run| run.state == RunState::Running).then_some(())
    });
}

/// The server has delivered the message to a node that never reads it.
#[test]
fn a_node_that_dies_before_it_has_stored_a_message_loses_nothing() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let mut one = node(&server, "vm1");
    serve(&one, "take", &format!("{ENTRY}{FENCED}"), &code("vm1", "true"));
    wait_asked(&client, CONSUMER);
    one.signal(Signal::SIGSTOP);
    client.publish("orders.new", &[], "1");
    wait_delivered(&client, 1);
    let _ = take_away(&mut one);
    let two = node(&server, "vm2");
    serve(&two, "take", &format!("{ENTRY}{FENCED}"), &code("vm2", "true"));
    client.wait_acknowledged(STREAM, CONSUMER);
    let run = only_run(&two);
    assert_eq!((run.state, run.attempts), (RunState::Succeeded, 1), "{run:#?}");
    one.launch();
    wait_nothing_here(&one);
    assert!(one.history("take").is_empty());
    Journal::read([&one, &two], "take").check_each_ended_once(1);
    one.finish();
    two.finish();
}

/// The message and its claim are in the ledger of the node, and no claim has reached the server: nothing has begun.
#[test]
fn a_node_that_dies_before_its_claim_leaves_a_message_that_has_not_begun() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let link = Forwarder::to(server.port());
    let mut one = node_behind(&link, "vm1");
    serve(&one, "take", &format!("{ENTRY}{FENCED}"), &code("vm1", "true"));
    wait_asked(&client, CONSUMER);
    link.hold(Way::ToServer);
    client.publish("orders.new", &[], "1");
    wait_claimed(&one);
    let _ = take_away(&mut one);
    // Requests that it had sent never come.
    link.cut();
    let two = node(&server, "vm2");
    serve(&two, "take", &format!("{ENTRY}{FENCED}"), &code("vm2", "true"));
    client.wait_acknowledged(STREAM, CONSUMER);
    let run = only_run(&two);
    assert_eq!(
        (run.state, run.attempts),
        (RunState::Succeeded, 1),
        "nothing was interrupted: {run:#?}"
    );
    // The node that comes back has the message in its ledger, and finds that another one has ended it.
    link.mend();
    one.launch();
    wait_nothing_here(&one);
    assert!(one.history("take").is_empty(), "no attempt of it was interrupted");
    let journal = Journal::read([&one, &two], "take");
    journal.check_each_ended_once(1);
    assert_eq!(journal.0[&1].len(), 1, "{journal:?}");
    one.finish();
    two.finish();
}

/// The server has the claim, and the node never hears of that: its function has not begun. The other node cannot know it, so the
/// attempt counts as one that had begun.
#[test]
fn a_node_that_dies_between_its_claim_and_the_start_counts_as_one_that_had_begun() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let link = Forwarder::to(server.port());
    let mut one = node_behind(&link, "vm1");
    // The lease outlasts the pause between the message and the claim also on a busy machine.
    let fenced = FENCED.replace("\"4s\"", "\"15s\"");
    serve(&one, "take", &format!("{ENTRY}{fenced}"), &code("vm1", "true"));
    wait_asked(&client, CONSUMER);
    link.hold(Way::ToServer);
    client.publish("orders.new", &[], "1");
    wait_stored(&one);
    link.hold(Way::FromServer);
    link.release(Way::ToServer);
    wait_until("the message to be claimed", PATIENCE, || {
        let claims = client.keys("fnd-claims", "claims.");
        claims.iter().any(|(_, claim)| claim["state"] == "begun").then_some(())
    });
    let _ = take_away(&mut one);
    link.cut();
    let two = node(&server, "vm2");
    serve(&two, "take", &format!("{ENTRY}{fenced}"), &code("vm2", "true"));
    client.wait_acknowledged(STREAM, CONSUMER);
    let run = only_run(&two);
    assert_eq!((run.state, run.attempts), (RunState::Succeeded, 2), "{run:#?}");
    let lost = &run.attempt_records[0];
    assert_eq!(lost.reason, Reason::Interrupted, "{run:#?}");
    assert!(lost.message.starts_with("vm1 had begun it at "), "{lost:?}");
    let journal = Journal::read([&one, &two], "take");
    assert_eq!(journal.0[&1].len(), 1, "{journal:?}");
    two.finish();
}

/// The claim that the message has ended is written, and its answer is lost with the connection.
#[test]
fn an_end_of_which_the_answer_is_lost_is_told_again_and_nothing_runs_again() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let link = Forwarder::to(server.port());
    let one = node_behind(&link, "vm1");
    let gate = one.shared_directory("gate");
    serve(
        &one,
        "take",
        &format!("{ENTRY}ack_wait = \"10s\"\n"),
        &gated("vm1", &gate),
    );
    client.publish("orders.new", &[], "1");
    wait_begun(&one, 1);
    link.hold(Way::FromServer);
    std::fs::write(gate.join("go"), "").unwrap();
    wait_until("the claim to be done", PATIENCE, || {
        let claims = client.keys("fnd-claims", "claims.");
        claims.iter().any(|(_, claim)| claim["state"] == "done").then_some(())
    });
    assert_eq!(client.messages(STREAM), 1, "it is acknowledged after the answer only");
    link.cut();
    link.mend();
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(client.messages(STREAM), 0);
    let run = only_run(&one);
    assert_eq!((run.state, run.attempts), (RunState::Succeeded, 1), "{run:#?}");
    assert_eq!(Journal::read([&one], "take").0[&1].len(), 1);
    one.finish();
}

/// The server has the acknowledgement, and its answer is lost with the connection.
#[test]
fn an_acknowledgement_of_which_the_answer_is_lost_is_harmless() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let link = Forwarder::to(server.port());
    let one = node_behind(&link, "vm1");
    serve(&one, "take", &format!("{ENTRY}{ACCEPTED}"), &code("vm1", "true"));
    wait_asked(&client, CONSUMER);
    link.hold(Way::ToServer);
    client.publish("orders.new", &[], "1");
    wait_runs(&one, "take", 1);
    link.hold(Way::FromServer);
    link.release(Way::ToServer);
    client.wait_acknowledged(STREAM, CONSUMER);
    link.cut();
    link.mend();
    client.publish("orders.new", &[], "2");
    wait_runs(&one, "take", 2);
    client.wait_acknowledged(STREAM, CONSUMER);
    let journal = Journal::read([&one], "take");
    journal.check_each_ended_once(2);
    assert!(journal.0.values().all(|attempts| attempts.len() == 1), "{journal:?}");
    one.finish();
}

/// With `accept`, the ledger of a node knows what the server offers to it once more.
#[test]
fn with_accept_a_message_that_comes_again_to_its_node_runs_once() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let link = Forwarder::to(server.port());
    let mut one = node_behind(&link, "vm1");
    serve(&one, "take", &format!("{ENTRY}{ACCEPTED}"), &code("vm1", "true"));
    wait_asked(&client, CONSUMER);
    link.hold(Way::ToServer);
    client.publish("orders.new", &[], "1");
    wait_runs(&one, "take", 1);
    assert_eq!(client.waiting(STREAM, CONSUMER), (0, 1), "its acknowledgement is held");
    let _ = take_away(&mut one);
    link.cut();
    link.mend();
    one.launch();
    wait_delivered(&client, 2);
    client.wait_acknowledged(STREAM, CONSUMER);
    let journal = Journal::read([&one], "take");
    assert_eq!(journal.0[&1].len(), 1, "{journal:?}");
    one.finish();
}

/// A message that a node has accepted is its own, whatever becomes of the node.
#[test]
fn with_accept_a_message_waits_for_the_node_that_has_it() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let mut one = node(&server, "vm1");
    let gate = one.shared_directory("gate");
    serve(&one, "take", &format!("{ENTRY}{ACCEPTED}"), &gated("vm1", &gate));
    client.publish("orders.new", &[], "1");
    wait_begun(&one, 1);
    client.wait_acknowledged(STREAM, CONSUMER);
    let two = node(&server, "vm2");
    serve(&two, "take", &format!("{ENTRY}{ACCEPTED}"), &code("vm2", "true"));
    let _ = take_away(&mut one);
    wait_over(Duration::from_secs(4));
    assert!(runs(&two, "take").is_empty());
    std::fs::write(gate.join("go"), "").unwrap();
    one.launch();
    let run = only_run(&one);
    assert_eq!((run.state, run.attempts), (RunState::Succeeded, 2), "{run:#?}");
    assert_eq!(run.attempt_records[0].reason, Reason::Interrupted, "{run:#?}");
    assert!(runs(&two, "take").is_empty());
    one.finish();
    two.finish();
}
