//! A node without its server while functions run, and another node beside it that has one.

use super::journal::{Journal, code};
use super::several::{FENCED, gated, node, node_behind, only_run, server, wait_begun};
use super::{CONSUMER, ENTRY, STREAM, runs, serve, wait_delivered, wait_runs};
use fnd_core::records::outcome::{Reason, RunState};
use fnd_tests::nats::Forwarder;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{require, wait_until};
use std::time::Duration;

/// No other node begins the work again, however long it takes.
const PATIENT: &str = "ack_wait = \"2s\"\n[limits]\ntimeout = \"300s\"\n";

/// The attempt ends by itself, before the other node begins one.
fn is_taken_over(part: fn(&Forwarder)) {
    let (server, client) = server();
    let link = Forwarder::to(server.port());
    let one = node_behind(&link, "vm1");
    let gate = one.shared_directory("gate");
    let work = format!(
        "trap 'say fenced; exit 1' TERM\nuntil [[ -e {}/go ]]; do sleep 0.02; done",
        gate.display()
    );
    serve(&one, "take", &format!("{ENTRY}{FENCED}"), &code("vm1", &work));
    client.publish("orders.new", &[], "1");
    wait_begun(&one, 1);
    let two = node(&server, "vm2");
    serve(&two, "take", &format!("{ENTRY}{FENCED}"), &code("vm2", "true"));
    part(&link);
    client.wait_acknowledged(STREAM, CONSUMER);
    let run = only_run(&two);
    assert_eq!((run.state, run.attempts), (RunState::Succeeded, 2), "{run:#?}");
    let lost = &run.attempt_records[0];
    assert_eq!(lost.reason, Reason::Interrupted, "{run:#?}");
    assert!(lost.message.starts_with("vm1 had begun it at "), "{lost:?}");
    let journal = Journal::read([&one, &two], "take");
    journal.check_one_at_a_time(|attempt| panic!("{attempt:?} has no end"));
    let [first, second] = &journal.0[&1][..] else {
        panic!("{journal:?}");
    };
    assert!(first.is_fenced && second.is_done(), "{journal:?}");
    link.mend();
    let run = only_run(&one);
    assert_eq!(run.superseded_by.as_deref(), Some("vm2"), "{run:#?}");
    assert_eq!(run.attempt_records[0].reason, Reason::LeaseLost, "{run:#?}");
    one.finish();
    two.finish();
}

#[test]
fn what_runs_on_a_node_whose_link_is_cut_is_taken_over_after_its_end() {
    require!(nats, root, cgroup);
    is_taken_over(Forwarder::cut);
}

/// The connection stays open, and nothing comes through: nobody is told that it is lost.
#[test]
fn what_runs_on_a_node_whose_link_is_stalled_is_taken_over_after_its_end() {
    require!(nats, root, cgroup);
    is_taken_over(Forwarder::stall);
}

/// Without `interrupted` in `retry.on` nobody else begins the work, so nothing ends it either.
#[test]
fn what_nobody_may_take_over_ends_on_its_node_and_is_told_later() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let link = Forwarder::to(server.port());
    let one = node_behind(&link, "vm1");
    let gate = one.shared_directory("gate");
    serve(&one, "take", &format!("{ENTRY}{PATIENT}"), &gated("vm1", &gate));
    client.publish("orders.new", &[], "1");
    wait_begun(&one, 1);
    let two = node(&server, "vm2");
    serve(&two, "take", &format!("{ENTRY}{PATIENT}"), &code("vm2", "true"));
    link.cut();
    // The other node gets it and gives it back.
    wait_delivered(&client, 2);
    std::fs::write(gate.join("go"), "").unwrap();
    wait_runs(&one, "take", 1);
    assert_eq!(client.messages(STREAM), 1);
    link.mend();
    client.wait_acknowledged(STREAM, CONSUMER);
    let run = only_run(&one);
    assert_eq!((run.state, run.attempts), (RunState::Succeeded, 1), "{run:#?}");
    assert!(run.superseded_by.is_none(), "{run:#?}");
    assert!(runs(&two, "take").is_empty());
    assert_eq!(Journal::read([&one, &two], "take").0[&1].len(), 1);
    one.finish();
    two.finish();
}

/// Signs of life are held for longer than `ack_wait`, so that the server offers the message to the node that has it.
#[test]
fn a_message_that_comes_again_while_it_runs_here_runs_once() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let link = Forwarder::to(server.port());
    let one = node_behind(&link, "vm1");
    let gate = one.shared_directory("gate");
    serve(&one, "take", &format!("{ENTRY}{PATIENT}"), &gated("vm1", &gate));
    client.publish("orders.new", &[], "1");
    wait_begun(&one, 1);
    link.stall();
    wait_delivered(&client, 2);
    link.mend();
    client.publish("orders.new", &[], "2");
    wait_begun(&one, 2);
    std::fs::write(gate.join("go"), "").unwrap();
    client.wait_acknowledged(STREAM, CONSUMER);
    let journal = Journal::read([&one], "take");
    journal.check_each_ended_once(2);
    assert!(journal.0.values().all(|attempts| attempts.len() == 1), "{journal:?}");
    let first = runs(&one, "take").pop().expect("both have run");
    assert_eq!((first.state, first.attempts), (RunState::Succeeded, 1), "{first:#?}");
    one.finish();
}

/// A slow network is told, and ends nothing while answers come within the lease.
#[test]
fn a_server_that_is_far_away_is_told_and_used() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let link = Forwarder::to(server.port());
    let one = node_behind(&link, "vm1");
    // A lease of 3.5 s: a claim and a renewal have to be answered within it.
    let fenced = FENCED.replace("\"4s\"", "\"6s\"");
    serve(&one, "take", &format!("{ENTRY}{fenced}"), &code("vm1", "true"));
    client.publish("orders.new", &[], "1");
    wait_runs(&one, "take", 1);
    // Both ways together: 1.1 s, and a sixth of `ack_wait` is 1 s.
    link.delay(Duration::from_millis(550));
    let problem = one.wait_problem("nats-slow");
    assert!(problem.contains("`take`") && problem.contains("ack_wait"), "{problem}");
    client.publish("orders.new", &[], "2");
    wait_runs(&one, "take", 2);
    client.wait_acknowledged(STREAM, CONSUMER);
    Journal::read([&one], "take").check_each_ended_once(2);
    link.mend();
    wait_until("the slowness to be over", PATIENCE, || {
        let problems = one.status().problems;
        (!problems.iter().any(|problem| problem.contains("nats-slow"))).then_some(())
    });
    one.finish();
}
