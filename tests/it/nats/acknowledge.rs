//! When a message is acknowledged, and when it comes again: not before its work has ended, and never for work that has.

use super::{CONSUMER, ENTRY, KEEP, STREAM, SUBJECTS, lines, runs, serve, setup, start, wait_runs};
use fnd_core::records::outcome::{Reason, RunState};
use fnd_tests::nats::NatsServer;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use serde_json::json;
use std::path::Path;

/// Waits for `DIRECTORY/go`, after it has said that it runs.
fn gated(directory: &Path) -> String {
    let directory = directory.display();
    format!("echo begin >>\"$STATE_DIRECTORY/journal\"\nuntil [[ -e {directory}/go ]]; do sleep 0.02; done\n")
}

#[track_caller]
fn wait_begun(fnd: &Fnd, count: usize) {
    wait_until(&format!("{count} runs to have begun"), PATIENCE, || {
        (lines(fnd, "take", "journal").len() >= count).then_some(())
    });
}

#[test]
fn a_message_is_acknowledged_when_its_run_has_ended() {
    require!(nats);
    let (_server, client, fnd) = start();
    let gate = fnd.shared_directory("gate");
    // The run lasts longer than the server waits for a sign of life.
    serve(&fnd, "take", &format!("{ENTRY}ack_wait = \"2s\"\n"), &gated(&gate));
    client.publish("orders.new", &[], "1");
    wait_begun(&fnd, 1);
    let begun = fnd_tests::now();
    wait_until("five seconds to be over", PATIENCE, || {
        (begun.elapsed().as_secs() >= 5).then_some(())
    });
    let info = client.wait_consumer(STREAM, CONSUMER);
    assert_eq!(
        (&info["num_ack_pending"], &info["num_redelivered"]),
        (&json!(1), &json!(0)),
        "{info}"
    );
    assert_eq!(client.messages(STREAM), 1);
    std::fs::write(gate.join("go"), "").unwrap();
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(lines(&fnd, "take", "journal").len(), 1);
    fnd.finish();
}

#[test]
fn with_accept_a_message_is_acknowledged_when_this_node_has_it() {
    require!(nats);
    let (_server, client, fnd) = start();
    let gate = fnd.shared_directory("gate");
    serve(&fnd, "take", &format!("{ENTRY}ack = \"accept\"\n"), &gated(&gate));
    client.publish("orders.new", &[], "1");
    wait_begun(&fnd, 1);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert!(runs(&fnd, "take").is_empty());
    assert!(
        client.keys("fnd-claims", "claims.").is_empty(),
        "no other node gets it, so it needs no claim"
    );
    std::fs::write(gate.join("go"), "").unwrap();
    wait_runs(&fnd, "take", 1);
    fnd.finish();
}

/// The message stays with this node over the pause between two attempts.
#[test]
fn a_retry_keeps_its_message() {
    require!(nats);
    let (_server, client, fnd) = start();
    let manifest = format!("{ENTRY}ack_wait = \"2s\"\n[retry]\nretries = 1\ninterval = \"4s\"\njitter = \"none\"\n");
    let code = "echo x >>\"$STATE_DIRECTORY/journal\"\n[[ $(wc -l <\"$STATE_DIRECTORY/journal\") == 2 ]] || exit 75\n";
    serve(&fnd, "take", &manifest, code);
    client.publish("orders.new", &[], "1");
    let run = wait_runs(&fnd, "take", 1).remove(0);
    assert_eq!((run.state, run.attempts), (RunState::Succeeded, 2));
    client.wait_acknowledged(STREAM, CONSUMER);
    let info = client.wait_consumer(STREAM, CONSUMER);
    assert_eq!(info["delivered"]["consumer_seq"], 1, "it was delivered once: {info}");
    fnd.finish();
}

#[test]
fn a_failed_run_is_acknowledged_and_a_dead_letter() {
    require!(nats);
    let (_server, client, fnd) = start();
    serve(&fnd, "take", ENTRY, "exit 3\n");
    client.publish("orders.new", &[], "1");
    let run = wait_runs(&fnd, "take", 1).remove(0);
    assert_eq!(run.state, RunState::Failed);
    client.wait_acknowledged(STREAM, CONSUMER);
    let letters = fnd.ctl(&["dead-letters", "-o", "json"]).expect_code(0).out();
    assert!(letters.contains(&run.id.to_string()), "{letters}");
    fnd.finish();
}

#[test]
fn a_cancelled_run_is_acknowledged_and_no_dead_letter() {
    require!(nats);
    let (_server, client, fnd) = start();
    let gate = fnd.shared_directory("gate");
    serve(&fnd, "take", ENTRY, &gated(&gate));
    client.publish("orders.new", &[], "1");
    wait_begun(&fnd, 1);
    let id = fnd.history("take").remove(0).id.to_string();
    let _ = fnd.ctl(&["cancel", &id]).expect_code(0);
    let run = wait_runs(&fnd, "take", 1).remove(0);
    assert_eq!((run.state, run.reason), (RunState::Cancelled, Some(Reason::Cancelled)));
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!((client.messages(STREAM), runs(&fnd, "take").len()), (0, 1));
    let letters = fnd.ctl(&["dead-letters", "-o", "json"]).expect_code(0).out();
    assert!(!letters.contains(&id), "{letters}");
    fnd.finish();
}

/// A message that is a duplicate of another one runs nothing, and is not acknowledged before the other one has ended.
#[test]
fn a_duplicate_waits_for_the_first_message_and_runs_nothing() {
    require!(nats);
    let (_server, client, fnd) = start();
    let gate = fnd.shared_directory("gate");
    serve(&fnd, "take", &format!("{ENTRY}ack_wait = \"2s\"\n"), &gated(&gate));
    let headers = [
        ("ce-specversion", "1.0"),
        ("ce-id", "7"),
        ("ce-source", "shop"),
        ("ce-type", "order.created"),
    ];
    client.publish("orders.new", &headers, "1");
    wait_begun(&fnd, 1);
    client.publish("orders.again", &headers, "1");
    wait_until("the duplicate to be given back", PATIENCE, || {
        let info = client.consumer(STREAM, CONSUMER)?;
        (info["delivered"]["consumer_seq"].as_u64()? >= 3).then_some(())
    });
    assert_eq!(client.messages(STREAM), 2);
    std::fs::write(gate.join("go"), "").unwrap();
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!((lines(&fnd, "take", "journal").len(), runs(&fnd, "take").len()), (1, 1));
    fnd.finish();
}

#[test]
fn a_disabled_function_leaves_messages_to_others_until_it_is_enabled() {
    require!(nats);
    let (_server, client, fnd) = start();
    serve(
        &fnd,
        "take",
        &format!("{ENTRY}ack_wait = \"2s\"\n"),
        "echo x >>\"$STATE_DIRECTORY/journal\"\n",
    );
    client.wait_consumer(STREAM, CONSUMER);
    let _ = fnd.ctl(&["disable", "take"]).expect_code(0);
    client.publish_numbers("orders.new", 0..3);
    let disabled = fnd_tests::now();
    wait_until("three seconds to be over", PATIENCE, || {
        (disabled.elapsed().as_secs() >= 3).then_some(())
    });
    assert!(runs(&fnd, "take").is_empty());
    let _ = fnd.ctl(&["enable", "take"]).expect_code(0);
    wait_runs(&fnd, "take", 3);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(lines(&fnd, "take", "journal").len(), 3);
    fnd.finish();
}

/// A stream with limits flushes the state of its consumers late: after a kill it delivers what was acknowledged once
/// more.
#[test]
fn a_killed_server_repeats_what_has_ended_and_nothing_runs_again() {
    require!(nats);
    let mut server = NatsServer::start();
    let client = server.client();
    client.make_stream(STREAM, &[SUBJECTS], "limits");
    let fnd = Fnd::start_with(&setup(&server, "vm1"));
    serve(&fnd, "take", &format!("{ENTRY}ack_wait = \"3s\"\n"), KEEP);
    client.publish_numbers("orders.new", 0..20);
    wait_runs(&fnd, "take", 20);
    client.wait_acknowledged(STREAM, CONSUMER);
    server.kill();
    server.launch();
    let client = server.client();
    client.publish_numbers("orders.new", 20..22);
    wait_runs(&fnd, "take", 22);
    client.wait_acknowledged(STREAM, CONSUMER);
    let mut numbers: Vec<u32> = lines(&fnd, "take", "journal")
        .iter()
        .map(|line| line.parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..22).collect::<Vec<_>>());
    fnd.finish();
}

/// A run that fnd leaves behind at a restart goes on, and its message is acknowledged by the next fnd.
#[test]
fn a_restart_of_fnd_loses_no_message_and_repeats_none() {
    require!(nats, root, cgroup);
    let server = NatsServer::start();
    let client = server.client();
    client.make_stream(STREAM, &[SUBJECTS], "workqueue");
    let mut fnd = Fnd::start_with(&setup(&server, "vm1").detached());
    let gate = fnd.shared_directory("gate");
    for signal in [nix::sys::signal::Signal::SIGTERM, nix::sys::signal::Signal::SIGKILL] {
        let _ = std::fs::remove_file(gate.join("go"));
        serve(&fnd, "take", &format!("{ENTRY}ack_wait = \"10s\"\n"), &gated(&gate));
        let before = lines(&fnd, "take", "journal").len();
        client.publish("orders.new", &[], "1");
        wait_begun(&fnd, before + 1);
        fnd.replace(signal);
        std::fs::write(gate.join("go"), "").unwrap();
        client.wait_acknowledged(STREAM, CONSUMER);
        assert_eq!(lines(&fnd, "take", "journal").len(), before + 1, "{signal}");
        let run = wait_runs(&fnd, "take", 1).remove(0);
        assert_eq!(
            (run.state, run.attempts, run.reason),
            (RunState::Succeeded, 1, Some(Reason::Ok)),
            "{signal}"
        );
    }
    fnd.finish();
}
