//! Messages that run nothing: those that `when` leaves out, and those that are no input of the function.

use super::{CONSUMER, ENTRY, KEEP, STREAM, lines, runs, serve, start, wait_runs};
use fnd_core::records::outcome::{Reason, RunState};
use fnd_tests::require;

#[test]
fn a_message_that_when_leaves_out_is_acknowledged_and_runs_nothing() {
    require!(nats);
    let (_server, client, fnd) = start();
    let manifest =
        format!("{ENTRY}when = {{ \"body.total\" = {{ matches = \"^[0-9]{{3,}}$\" }}, \"header.x-kind\" = \"a\" }}\n");
    serve(&fnd, "take", &manifest, KEEP);
    for (kind, total) in [("a", 7), ("b", 700), ("a", 700)] {
        client.publish("orders.new", &[("X-Kind", kind)], &format!("{{\"total\": {total}}}"));
    }
    client.publish("orders.new", &[], "no JSON");
    client.wait_acknowledged(STREAM, CONSUMER);
    wait_runs(&fnd, "take", 1);
    assert_eq!(lines(&fnd, "take", "journal"), [r#"{"total": 700}"#]);
    assert_eq!(client.messages(STREAM), 0);
    fnd.finish();
}

#[test]
fn what_is_no_input_is_a_dead_letter_with_its_payload() {
    require!(nats);
    let (_server, client, fnd) = start();
    serve(&fnd, "take", &format!("{ENTRY}[limits]\nbody = \"1K\"\n"), KEEP);
    let structured = [("Content-Type", "application/cloudevents+json")];
    client.publish("orders.new", &structured, r#"{"specversion":"1.0","id":"7"}"#);
    client.publish("orders.new", &[("ce-id", "7")], "1");
    client.publish(
        "orders.new",
        &[("Content-Type", "application/cloudevents-batch+json")],
        "[]",
    );
    client.publish("orders.new", &[], &"1".repeat(2000));
    client.publish("orders.new", &[], "fine");
    client.wait_acknowledged(STREAM, CONSUMER);
    let all = wait_runs(&fnd, "take", 5);
    let refused: Vec<_> = all.iter().filter(|run| run.reason == Some(Reason::Input)).collect();
    assert_eq!(refused.len(), 4, "{all:#?}");
    assert!(
        refused
            .iter()
            .all(|run| (run.state, run.attempts) == (RunState::Failed, 0)),
        "{refused:#?}"
    );
    for words in [
        "`source`",
        "`specversion`",
        "batch",
        "2000 bytes, more than 1024 (limits.body)",
    ] {
        assert!(
            refused.iter().any(|run| run.message.contains(words)),
            "{words}: {refused:#?}"
        );
    }
    assert_eq!(lines(&fnd, "take", "journal"), ["fine"]);
    let letters = fnd.ctl(&["dead-letters", "-o", "json"]).expect_code(0).out();
    assert!(
        refused.iter().all(|run| letters.contains(&run.id.to_string())),
        "{letters}"
    );
    assert_eq!(client.messages(STREAM), 0);
    fnd.finish();
}

/// The second one has another subject and another sequence; the server's window of duplicates does not know it.
#[test]
fn the_same_id_in_another_stream_is_another_message() {
    require!(nats);
    let (_server, client, fnd) = start();
    client.make_stream("OTHER", &["other.>"], "workqueue");
    let manifest = format!("{ENTRY}[[nats]]\nsubject = \"other.>\"\nstream = \"OTHER\"\n");
    serve(&fnd, "take", &manifest, KEEP);
    client.publish("orders.new", &[("Nats-Msg-Id", "1")], "a");
    client.publish("other.new", &[("Nats-Msg-Id", "1")], "b");
    let again = client.publish("orders.new", &[("Nats-Msg-Id", "1")], "c");
    assert!(again.is_duplicate);
    wait_runs(&fnd, "take", 2);
    client.wait_acknowledged(STREAM, CONSUMER);
    client.wait_acknowledged("OTHER", CONSUMER);
    let mut all = lines(&fnd, "take", "journal");
    all.sort();
    assert_eq!(
        (all, runs(&fnd, "take").len()),
        (vec!["a".to_owned(), "b".to_owned()], 2)
    );
    fnd.finish();
}
