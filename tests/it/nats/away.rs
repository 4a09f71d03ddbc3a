//! Servers, consumers, streams and buckets that are gone, and come back.

use super::{CONSUMER, ENTRY, KEEP, STREAM, SUBJECTS, lines, serve, setup, sorted, start, wait_runs};
use fnd_tests::nats::NatsServer;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};

/// Waits until a problem with this text is no problem any more.
#[track_caller]
fn wait_solved(fnd: &Fnd, text: &str) {
    wait_until(&format!("no problem with {text:?}"), PATIENCE, || {
        let problems = fnd.status().problems;
        (!problems.iter().any(|problem| problem.contains(text))).then_some(())
    });
}

#[test]
fn a_start_waits_for_no_server_and_other_functions_run_without_it() {
    require!(nats);
    let mut server = NatsServer::start();
    server.client().make_stream(STREAM, &[SUBJECTS], "workqueue");
    server.stop();
    let fnd = Fnd::start_with(&setup(&server, "vm1"));
    serve(&fnd, "take", ENTRY, KEEP);
    serve(&fnd, "other", "on_load = false\n", "echo fine\n");
    let (answer, _) = fnd.run("other", "");
    assert_eq!(answer.text().trim(), "fine");
    let problem = fnd.wait_problem("nats-down");
    assert!(problem.contains("refused"), "{problem}");
    server.launch();
    server.client().publish_numbers("orders.new", 0..3);
    wait_runs(&fnd, "take", 3);
    wait_solved(&fnd, "nats-down");
    server.client().wait_acknowledged(STREAM, CONSUMER);
    fnd.finish();
}

/// Runs begin and end while the server is away; nothing is lost and nothing is done twice.
#[test]
fn a_server_may_go_and_come_back_while_functions_run() {
    require!(nats);
    let (mut server, client, fnd) = start();
    let gate = fnd.shared_directory("gate");
    let code = format!("{KEEP}until [[ -e {}/go ]]; do sleep 0.02; done\n", gate.display());
    serve(
        &fnd,
        "take",
        &format!("{ENTRY}ack_wait = \"5s\"\n[pool]\nmax = 2\n"),
        &code,
    );
    client.publish_numbers("orders.new", 0..4);
    wait_until("two runs to have begun", PATIENCE, || {
        (lines(&fnd, "take", "journal").len() == 2).then_some(())
    });
    for kills in [false, true] {
        if kills {
            server.kill();
        } else {
            server.stop();
        }
        // Their ends cannot be told to the server.
        std::fs::write(gate.join("go"), "").unwrap();
        wait_until("the runs to have ended", PATIENCE, || {
            (fnd.function("take")?.running == 0).then_some(())
        });
        server.launch();
    }
    wait_runs(&fnd, "take", 4);
    server.client().wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(sorted(&fnd, "take", "journal"), ["0", "1", "2", "3"]);
    fnd.finish();
}

/// The server is there and says nothing, as behind a network that drops everything.
#[test]
fn a_server_that_is_held_is_noticed_and_used_again() {
    require!(nats);
    let (server, client, fnd) = start();
    serve(&fnd, "take", ENTRY, KEEP);
    client.publish_numbers("orders.new", 0..2);
    wait_runs(&fnd, "take", 2);
    server.hold();
    let _ = fnd.wait_problem("nats-down");
    server.go_on();
    wait_solved(&fnd, "nats-down");
    server.client().publish_numbers("orders.new", 2..4);
    wait_runs(&fnd, "take", 4);
    server.client().wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(sorted(&fnd, "take", "journal"), ["0", "1", "2", "3"]);
    fnd.finish();
}

#[test]
fn a_consumer_of_the_default_name_is_made_again_and_nothing_runs_twice() {
    require!(nats);
    let (_server, client, fnd) = start();
    let gate = fnd.shared_directory("gate");
    let code = format!("{KEEP}until [[ -e {}/go ]]; do sleep 0.02; done\n", gate.display());
    serve(&fnd, "take", &format!("{ENTRY}[pool]\nmax = 2\n"), &code);
    client.publish_numbers("orders.new", 0..3);
    wait_until("two runs to have begun", PATIENCE, || {
        (lines(&fnd, "take", "journal").len() == 2).then_some(())
    });
    client.delete_consumer(STREAM, CONSUMER);
    // A consumer that is made anew delivers everything that is not acknowledged, and counts from 1.
    client.wait_consumer(STREAM, CONSUMER);
    std::fs::write(gate.join("go"), "").unwrap();
    wait_runs(&fnd, "take", 3);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(sorted(&fnd, "take", "journal"), ["0", "1", "2"]);
    assert_eq!(client.messages(STREAM), 0);
    fnd.finish();
}

#[test]
fn a_consumer_of_another_name_is_a_problem_until_somebody_makes_it_again() {
    require!(nats);
    let (_server, client, fnd) = start();
    serve(&fnd, "take", &format!("{ENTRY}consumer = \"workers\"\n"), KEEP);
    client.publish("orders.new", &[], "1");
    wait_runs(&fnd, "take", 1);
    client.wait_acknowledged(STREAM, "workers");
    client.delete_consumer(STREAM, "workers");
    let problem = fnd.wait_problem("nats-stream");
    assert!(problem.contains("workers"), "{problem}");
    client.publish("orders.new", &[], "2");
    let body = serde_json::json!({"stream_name": STREAM, "config": {"durable_name": "workers", "ack_policy": "explicit",
        "ack_wait": 30_000_000_000_u64, "max_deliver": -1, "filter_subject": SUBJECTS, "deliver_policy": "all",
        "replay_policy": "instant"}});
    let made = client.api(&format!("CONSUMER.DURABLE.CREATE.{STREAM}.workers"), &body);
    assert!(made["error"].is_null(), "{made}");
    wait_runs(&fnd, "take", 2);
    wait_solved(&fnd, "nats-stream");
    fnd.finish();
}

/// A stream that is deleted and made anew counts from 1: its messages are others, and none of them is a duplicate.
#[test]
fn a_stream_that_is_made_anew_has_new_messages() {
    require!(nats);
    let (_server, client, fnd) = start();
    serve(&fnd, "take", ENTRY, KEEP);
    client.publish_numbers("orders.new", 0..2);
    wait_runs(&fnd, "take", 2);
    client.wait_acknowledged(STREAM, CONSUMER);
    client.delete_stream(STREAM);
    let _ = fnd.wait_problem("nats-stream");
    client.make_stream(STREAM, &[SUBJECTS], "workqueue");
    client.publish_numbers("orders.new", 2..4);
    wait_runs(&fnd, "take", 4);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(sorted(&fnd, "take", "journal"), ["0", "1", "2", "3"]);
    wait_solved(&fnd, "nats-stream");
    fnd.finish();
}

/// The same, so quickly that fnd has not seen the stream missing: another node has made the consumer again.
#[test]
fn a_stream_that_is_made_anew_unseen_has_new_messages() {
    require!(nats);
    let (_server, client, fnd) = start();
    serve(&fnd, "take", &format!("{ENTRY}[pool]\nmax = 4\n"), KEEP);
    client.publish_numbers("orders.new", 0..3);
    wait_runs(&fnd, "take", 3);
    client.wait_acknowledged(STREAM, CONSUMER);
    client.delete_stream(STREAM);
    client.make_stream(STREAM, &[SUBJECTS], "workqueue");
    let body = serde_json::json!({"stream_name": STREAM, "config": {"durable_name": CONSUMER, "ack_policy": "explicit",
        "ack_wait": 30_000_000_000_u64, "max_deliver": -1, "filter_subject": SUBJECTS, "deliver_policy": "all",
        "replay_policy": "instant"}});
    let made = client.api(&format!("CONSUMER.DURABLE.CREATE.{STREAM}.{CONSUMER}"), &body);
    assert!(made["error"].is_null(), "{made}");
    client.publish_numbers("orders.new", 3..6);
    wait_runs(&fnd, "take", 6);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(sorted(&fnd, "take", "journal"), ["0", "1", "2", "3", "4", "5"]);
    fnd.finish();
}

/// The first message of the new stream has the number of one that runs, whose end must not end it.
#[test]
fn a_stream_that_fnd_may_make_is_made_again() {
    require!(nats);
    let server = NatsServer::start();
    let client = server.client();
    let fnd = Fnd::start_with(&setup(&server, "vm1"));
    let gate = fnd.shared_directory("gate");
    let code = format!("{KEEP}until [[ -e {}/go ]]; do sleep 0.02; done\n", gate.display());
    serve(&fnd, "take", &format!("{ENTRY}create = true\n"), &code);
    client.wait_consumer(STREAM, CONSUMER);
    client.publish("orders.new", &[], "0");
    wait_until("the run to have begun", PATIENCE, || {
        (lines(&fnd, "take", "journal").len() == 1).then_some(())
    });
    client.delete_stream(STREAM);
    client.wait_consumer(STREAM, CONSUMER);
    client.publish("orders.new", &[], "1");
    std::fs::write(gate.join("go"), "").unwrap();
    wait_runs(&fnd, "take", 2);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(sorted(&fnd, "take", "journal"), ["0", "1"]);
    assert_eq!(client.messages(STREAM), 0);
    fnd.finish();
}

#[test]
fn a_bucket_that_is_deleted_is_made_again() {
    require!(nats);
    let (_server, client, fnd) = start();
    serve(&fnd, "take", ENTRY, KEEP);
    client.publish("orders.new", &[], "0");
    wait_runs(&fnd, "take", 1);
    client.wait_acknowledged(STREAM, CONSUMER);
    client.delete_stream("KV_fnd-claims");
    wait_until("the bucket to be there", PATIENCE, || client.stream("KV_fnd-claims"));
    client.publish("orders.new", &[], "1");
    wait_runs(&fnd, "take", 2);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(sorted(&fnd, "take", "journal"), ["0", "1"]);
    fnd.finish();
}

#[test]
fn a_server_that_does_not_know_the_user_says_so() {
    require!(nats);
    let server = NatsServer::start_with("authorization { user: \"ada\", password: \"s3cret\" }\n");
    let fnd = Fnd::start_with(&setup(&server, "vm1"));
    serve(&fnd, "take", ENTRY, KEEP);
    let problem = fnd.wait_problem("nats-down").to_lowercase();
    assert!(problem.contains("authorization"), "{problem}");
    fnd.finish();
}
