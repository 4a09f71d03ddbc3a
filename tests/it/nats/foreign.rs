//! Other programs on the same server, servers and consumers with other settings, and clocks that are wrong.

use super::journal::{Journal, code};
use super::several::{FENCED, node, server};
use super::{
    CONSUMER, ENTRY, KEEP, STREAM, SUBJECTS, lines, runs, serve, setup, sorted, start, view, wait_asked, wait_runs,
};
use crate::secrets::secret;
use async_nats::{ConnectOptions, HeaderMap};
use fnd_core::api::NatsState;
use fnd_tests::nats::{NatsClient, NatsServer};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use serde_json::json;

#[test]
fn a_subject_that_the_stream_does_not_have_is_a_problem_that_names_what_it_has() {
    require!(nats);
    let (_server, _client, fnd) = start();
    let entry = ENTRY.replace("orders.>", "returns.>");
    serve(&fnd, "take", &entry, KEEP);
    let problem = fnd.wait_problem("nats-stream");
    for words in ["`take`", "`returns.>`", "`orders.>`"] {
        assert!(problem.contains(words), "{words}: {problem}");
    }
    assert_eq!(view(&fnd).triggers[0].state, NatsState::Gone);
    fnd.finish();
}

/// A work queue allows one consumer for a subject.
#[test]
fn the_consumer_of_another_program_on_the_work_queue_is_a_problem_until_it_is_gone() {
    require!(nats);
    let (_server, client, fnd) = start();
    let theirs = json!({"stream_name": STREAM, "config": {"durable_name": "theirs", "ack_policy": "explicit",
        "filter_subject": SUBJECTS, "deliver_policy": "all", "replay_policy": "instant"}});
    let made = client.api(&format!("CONSUMER.DURABLE.CREATE.{STREAM}.theirs"), &theirs);
    assert!(made["error"].is_null(), "{made}");
    client.publish("orders.new", &[], "1");
    serve(&fnd, "take", ENTRY, KEEP);
    serve(&fnd, "other", "on_load = false\n", "echo fine\n");
    let problem = fnd.wait_problem("nats-stream");
    assert!(problem.contains("another consumer of this work queue"), "{problem}");
    assert_eq!(fnd.run("other", "").0.text().trim(), "fine");
    assert_eq!(client.messages(STREAM), 1);
    client.delete_consumer(STREAM, "theirs");
    wait_runs(&fnd, "take", 1);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(lines(&fnd, "take", "journal"), ["1"]);
    wait_until("the problem to be solved", PATIENCE, || {
        let problems = fnd.status().problems;
        (!problems.iter().any(|problem| problem.contains("nats-stream"))).then_some(())
    });
    fnd.finish();
}

/// Another program asks the consumer of fnd for messages. It keeps those that it acknowledges, and the others come here.
#[test]
fn what_another_program_takes_and_leaves_runs_here() {
    require!(nats);
    let (_server, client, fnd) = start();
    serve(&fnd, "take", &format!("{ENTRY}ack_wait = \"2s\"\n"), KEEP);
    wait_asked(&client, CONSUMER);
    let _ = fnd.ctl(&["disable", "take"]).expect_code(0);
    wait_until("nobody to ask for messages", PATIENCE, || {
        (client.consumer(STREAM, CONSUMER)?["num_waiting"] == 0).then_some(())
    });
    client.publish_numbers("orders.new", 0..3);
    let next = format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}");
    let mut taken = (0..2).map(|_| client.request(&next, HeaderMap::new(), "1".into()));
    let (done, left) = (taken.next().unwrap(), taken.next().unwrap());
    let address = done.reply.expect("a message of a stream says where it is acknowledged");
    let _ = client.request(&address, HeaderMap::new(), "+ACK".into());
    let _ = fnd.ctl(&["enable", "take"]).expect_code(0);
    wait_runs(&fnd, "take", 2);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(
        (&done.payload[..], &left.payload[..]),
        (b"0".as_slice(), b"1".as_slice())
    );
    assert_eq!(sorted(&fnd, "take", "journal"), ["1", "2"]);
    assert!(runs(&fnd, "take").iter().all(|run| run.attempts == 1));
    fnd.finish();
}

#[test]
fn credentials_that_the_server_does_not_know_are_a_problem_until_they_are_right() {
    require!(nats, root);
    let server = NatsServer::start_with("authorization { user: \"ada\", password: \"right\" }\n");
    let options = ConnectOptions::new().user_and_password("ada".to_owned(), "right".to_owned());
    let client = NatsClient::connect_with(&server.url(), options);
    client.make_stream(STREAM, &[SUBJECTS], "workqueue");
    let mut setup = setup(&server, "vm1");
    setup.config += "credentials = \"nats\"\n";
    let mut fnd = Fnd::prepare(&setup);
    let _ = secret(&fnd, &["set", "nats"], "ada:wrong").expect_code(0);
    fnd.launch();
    serve(&fnd, "take", ENTRY, KEEP);
    let problem = fnd.wait_problem("nats-down");
    assert!(problem.to_lowercase().contains("authorization"), "{problem}");
    assert!(!problem.contains("wrong"), "{problem}");
    client.publish("orders.new", &[], "1");
    let _ = secret(&fnd, &["set", "nats", "--force"], "ada:right").expect_code(0);
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    wait_runs(&fnd, "take", 1);
    client.wait_acknowledged(STREAM, CONSUMER);
    fnd.finish();
}

/// The clock of one node is a day ahead, that of the other one steps. Leases are measured by clocks that do not step.
#[test]
fn clocks_that_are_wrong_end_nothing_and_repeat_nothing() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let directory = tempfile::tempdir().unwrap();
    let nodes = ["vm1", "vm2"].map(|name| {
        let clock = directory.path().join(name);
        std::fs::write(&clock, if name == "vm2" { "86400000" } else { "0" }).unwrap();
        let mut setup = setup(&server, name).detached();
        setup
            .environment
            .push(("FND_TEST_CLOCK".to_owned(), clock.display().to_string()));
        let fnd = Fnd::start_with(&setup);
        serve(&fnd, "take", &format!("{ENTRY}{FENCED}"), &code(name, "sleep 1"));
        fnd
    });
    client.publish_numbers("orders.new", 0..40);
    for (step, count) in [("3600000", 8), ("-3600000", 16), ("0", 24)] {
        wait_until("messages to have ended", PATIENCE, || {
            (Journal::read(&nodes, "take").ended().len() >= count).then_some(())
        });
        // It is replaced at once: fnd never reads a part.
        let new = directory.path().join("new");
        std::fs::write(&new, step).unwrap();
        std::fs::rename(&new, directory.path().join("vm1")).unwrap();
    }
    client.wait_acknowledged(STREAM, CONSUMER);
    let journal = Journal::read(&nodes, "take");
    journal.check_each_ended_once(40);
    assert!(journal.0.values().all(|attempts| attempts.len() == 1), "{journal:?}");
    for fnd in nodes {
        let problems = fnd.status().problems;
        let of_nats = problems.iter().find(|problem| problem.contains("explain nats-"));
        assert_eq!(of_nats, None);
        fnd.finish();
    }
}

/// A consumer that somebody else has made with another `ack_wait`, or that gives up, is used and told.
#[test]
fn a_consumer_with_other_settings_is_used_and_told() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let theirs = json!({"stream_name": STREAM, "config": {"durable_name": "workers", "ack_policy": "explicit",
        "ack_wait": 30_000_000_000_u64, "max_deliver": 3, "filter_subject": SUBJECTS, "deliver_policy": "all",
        "replay_policy": "instant"}});
    let made = client.api(&format!("CONSUMER.DURABLE.CREATE.{STREAM}.workers"), &theirs);
    assert!(made["error"].is_null(), "{made}");
    let fnd = node(&server, "vm1");
    serve(&fnd, "take", &format!("{ENTRY}consumer = \"workers\"\n"), KEEP);
    let problem = fnd.wait_problem("nats-stream");
    assert!(problem.contains("`workers` delivers a message 3 times"), "{problem}");
    client.publish("orders.new", &[], "1");
    wait_runs(&fnd, "take", 1);
    client.wait_acknowledged(STREAM, "workers");
    fnd.finish();
}
