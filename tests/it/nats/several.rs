//! Two nodes on one queue: they share the work, and the work of a node that dies is not lost, not silent, and never
//! done by two at once.

use super::journal::{Journal, code, now_ns};
use super::{CONSUMER, ENTRY, STREAM, SUBJECTS, runs, serve, setup, setup_at, wait_runs};
use fnd_core::api::InvocationView;
use fnd_core::records::outcome::{Reason, RunState};
use fnd_tests::nats::{Forwarder, NatsClient, NatsServer};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use nix::sys::signal::Signal;
use std::path::Path;

/// Another node may take a message over, four seconds after this one is silent.
pub(super) const FENCED: &str = "ack_wait = \"4s\"\n[limits]\ntimeout = \"60s\"\ngrace = \"500ms\"\n\
    [retry]\nretries = 3\ninterval = \"500ms\"\non = [\"interrupted\"]\n";
/// No other node begins the work again. After nine seconds it is over in any case.
const UNFENCED: &str = "ack_wait = \"3s\"\n[limits]\ntimeout = \"3s\"\ngrace = \"500ms\"\n";

#[track_caller]
pub(super) fn server() -> (NatsServer, NatsClient) {
    let server = NatsServer::start();
    let client = server.client();
    client.make_stream(STREAM, &[SUBJECTS], "workqueue");
    (server, client)
}

/// Starts a node whose spawner can outlive its fnd.
#[track_caller]
pub(super) fn node(server: &NatsServer, name: &str) -> Fnd {
    Fnd::start_with(&setup(server, name).detached())
}

/// The same, behind a link.
#[track_caller]
pub(super) fn node_behind(link: &Forwarder, name: &str) -> Fnd {
    Fnd::start_with(&setup_at(&link.url(), name).detached())
}

/// Takes a node away with everything on it, as a machine that goes down.
#[track_caller]
pub(super) fn take_away(fnd: &mut Fnd) -> u64 {
    fnd.kill();
    fnd.kill_spawner();
    now_ns()
}

/// Returns the code of a function that runs until there is `go` in a directory.
pub(super) fn gated(name: &str, gate: &Path) -> String {
    code(
        name,
        &format!("until [[ -e {}/go ]]; do sleep 0.02; done", gate.display()),
    )
}

#[track_caller]
pub(super) fn wait_begun(fnd: &Fnd, count: usize) {
    wait_until(&format!("{count} messages to have begun"), PATIENCE, || {
        (Journal::read([fnd], "take").0.len() >= count).then_some(())
    });
}

/// Returns the only run of a node, with its attempts.
#[track_caller]
pub(super) fn only_run(fnd: &Fnd) -> InvocationView {
    let run = wait_runs(fnd, "take", 1).remove(0);
    assert_eq!(runs(fnd, "take").len(), 1);
    fnd.invocation(run.id)
}

#[test]
fn two_nodes_share_the_work_and_each_message_runs_once() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let nodes = ["vm1", "vm2"].map(|name| {
        let fnd = node(&server, name);
        serve(&fnd, "take", &format!("{ENTRY}{FENCED}"), &code(name, "sleep 0.1"));
        fnd
    });
    client.publish_numbers("orders.new", 0..40);
    client.wait_acknowledged(STREAM, CONSUMER);
    let journal = Journal::read(&nodes, "take");
    journal.check_each_ended_once(40);
    assert!(journal.0.values().all(|attempts| attempts.len() == 1), "{journal:?}");
    let of = |name: &str| {
        journal
            .0
            .values()
            .flatten()
            .filter(|attempt| attempt.node == name)
            .count()
    };
    assert!(of("vm1") > 0 && of("vm2") > 0, "{} and {}", of("vm1"), of("vm2"));
    for fnd in nodes {
        assert!(runs(&fnd, "take").iter().all(|run| run.state == RunState::Succeeded));
        fnd.finish();
    }
}

#[test]
fn the_message_of_a_node_that_dies_is_taken_over_where_the_manifest_allows_that() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let mut one = node(&server, "vm1");
    let gate = one.shared_directory("gate");
    serve(&one, "take", &format!("{ENTRY}{FENCED}"), &gated("vm1", &gate));
    client.publish("orders.new", &[], "1");
    wait_begun(&one, 1);
    let two = node(&server, "vm2");
    serve(&two, "take", &format!("{ENTRY}{FENCED}"), &code("vm2", "true"));
    let killed_ns = take_away(&mut one);
    client.wait_acknowledged(STREAM, CONSUMER);
    let run = only_run(&two);
    assert_eq!((run.state, run.attempts), (RunState::Succeeded, 2), "{run:#?}");
    let lost = &run.attempt_records[0];
    assert_eq!(lost.reason, Reason::Interrupted);
    assert!(lost.message.starts_with("vm1 had begun it at "), "{lost:?}");
    let journal = Journal::read([&one, &two], "take");
    journal.check_one_at_a_time(|_| killed_ns);
    let taken = journal.0[&1][1].begun_ns.saturating_sub(killed_ns);
    assert!(taken < 20_000_000_000, "it took {} ms", taken / 1_000_000);

    // The node that comes back knows that another one has the record that counts.
    std::fs::write(gate.join("go"), "").unwrap();
    one.launch();
    let run = only_run(&one);
    assert_eq!(run.superseded_by.as_deref(), Some("vm2"), "{run:#?}");
    let letters = one.ctl(&["dead-letters", "-o", "json"]).expect_code(0).out();
    assert!(!letters.contains(&run.id.to_string()), "{letters}");
    let redrive = one.ctl(&["dead-letters", "redrive", &run.id.to_string()]);
    assert_ne!(redrive.code, 0, "{redrive}");
    let refused = one.client().post(&format!("/v1/dead-letters/{}/redrive", run.id), "");
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert_eq!(Journal::read([&one, &two], "take").0[&1].len(), 2, "nothing runs again");
    one.finish();
    two.finish();
}

#[test]
fn without_interrupted_nobody_begins_the_work_again() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let mut one = node(&server, "vm1");
    serve(&one, "take", &format!("{ENTRY}{UNFENCED}"), &code("vm1", "sleep 2.5"));
    client.publish("orders.new", &[], "1");
    wait_begun(&one, 1);
    take_away(&mut one);
    let two = node(&server, "vm2");
    serve(&two, "take", &format!("{ENTRY}{UNFENCED}"), &code("vm2", "true"));
    client.wait_acknowledged(STREAM, CONSUMER);
    let run = only_run(&two);
    assert_eq!(
        (run.state, run.reason),
        (RunState::Interrupted, Some(Reason::Interrupted)),
        "{run:#?}"
    );
    assert!(run.message.contains("vm1 had begun it at "), "{}", run.message);
    let letters = two.ctl(&["dead-letters", "-o", "json"]).expect_code(0).out();
    assert!(letters.contains(&run.id.to_string()), "{letters}");
    assert!(Journal::read([&two], "take").0.is_empty());
    two.finish();
}

/// fnd is stopped, its function and its spawner are not: the spawner ends the attempt before another node begins one.
#[test]
fn an_attempt_ends_before_another_node_begins_one_also_while_fnd_is_stopped() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let one = node(&server, "vm1");
    let gate = one.shared_directory("gate");
    // It writes when it gets SIGTERM, so that the journal has the true end.
    let work = format!(
        "trap 'say end; exit 1' TERM\nuntil [[ -e {}/go ]]; do sleep 0.02; done",
        gate.display()
    );
    serve(&one, "take", &format!("{ENTRY}{FENCED}"), &code("vm1", &work));
    client.publish("orders.new", &[], "1");
    wait_begun(&one, 1);
    let two = node(&server, "vm2");
    serve(&two, "take", &format!("{ENTRY}{FENCED}"), &code("vm2", "true"));
    one.signal(Signal::SIGSTOP);
    client.wait_acknowledged(STREAM, CONSUMER);
    let run = only_run(&two);
    assert_eq!((run.state, run.attempts), (RunState::Succeeded, 2), "{run:#?}");
    let journal = Journal::read([&one, &two], "take");
    journal.check_one_at_a_time(|attempt| panic!("{attempt:?} has no end"));
    one.signal(Signal::SIGCONT);
    let run = only_run(&one);
    assert_eq!(run.superseded_by.as_deref(), Some("vm2"), "{run:#?}");
    one.finish();
    two.finish();
}

/// As above for a partition: the server does not answer, to nobody. Whoever has the message ends its attempt; nobody
/// else gets it.
#[test]
fn without_an_answer_of_the_server_an_attempt_ends_by_itself() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let one = node(&server, "vm1");
    let gate = one.shared_directory("gate");
    serve(&one, "take", &format!("{ENTRY}{FENCED}"), &gated("vm1", &gate));
    client.publish("orders.new", &[], "1");
    wait_begun(&one, 1);
    server.hold();
    let run = wait_until("the attempt to be ended", PATIENCE, || {
        let run = one.history("take").into_iter().next()?;
        Some(one.invocation(run.id)).filter(|run| !run.attempt_records.is_empty())
    });
    assert_eq!(run.attempt_records[0].reason, Reason::LeaseLost, "{run:#?}");
    std::fs::write(gate.join("go"), "").unwrap();
    server.go_on();
    server.client().wait_acknowledged(STREAM, CONSUMER);
    let run = only_run(&one);
    assert_eq!((run.state, run.attempts), (RunState::Succeeded, 2), "{run:#?}");
    one.finish();
}

#[test]
fn a_second_node_of_the_same_name_takes_nothing() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let one = node(&server, "vm1");
    serve(&one, "take", &format!("{ENTRY}{FENCED}"), &code("one", "true"));
    client.publish("orders.new", &[], "1");
    wait_runs(&one, "take", 1);
    let two = node(&server, "vm1");
    serve(&two, "take", &format!("{ENTRY}{FENCED}"), &code("two", "true"));
    let problem = two.wait_problem("nats-node");
    assert!(problem.contains("vm1"), "{problem}");
    client.publish_numbers("orders.new", 0..10);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert!(runs(&two, "take").is_empty());
    Journal::read([&one], "take").check_each_ended_once(11);
    one.finish();
    two.finish();
}
