//! People see the connection and the messages, and act: `fndctl nats`, `doctor`, metrics, `fndctl emit --nats`,
//! `fndctl nats release`.

use super::several::{node, server, take_away};
use super::{ENTRY, STREAM, serve, start, view, wait_runs};
use fnd_core::api::NatsState;
use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_connection_and_the_entries_are_shown() {
    require!(nats);
    let (server, client, fnd) = start();
    let gate = fnd.shared_directory("gate");
    let code = format!("until [[ -e {}/go ]]; do sleep 0.02; done\n", gate.display());
    serve(&fnd, "take", &format!("{ENTRY}[pool]\nmax = 1\n"), &code);
    client.publish_numbers("orders.new", 0..3);
    let shown = wait_until("a message to be here", PATIENCE, || {
        let view = view(&fnd);
        view.triggers
            .first()
            .is_some_and(|entry| entry.here == 1)
            .then_some(view)
    });
    assert!(shown.connected && shown.error.is_none(), "{shown:?}");
    let port = server.port().to_string();
    assert!(
        shown.server.as_ref().is_some_and(|server| server.contains(&port)),
        "{shown:?}"
    );
    assert_eq!(shown.node, "vm1");
    let entry = &shown.triggers[0];
    assert_eq!(
        (entry.subject.as_str(), entry.stream.as_deref()),
        ("orders.>", Some(STREAM))
    );
    assert_eq!(entry.consumer.as_deref(), Some("fnd-take"));
    // Its only place is taken, so it asks for nothing.
    assert_eq!((entry.state, entry.leases), (NatsState::Full, 0));
    let text = fnd.ctl(&["nats"]).expect_code(0).out();
    for part in ["vm1 has been connected to", "take", "fnd-take", "full"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let metrics = fnd.client().get("/metrics").text();
    for line in ["fnd_nats_connected 1", "fnd_nats_here{function=\"take\"} 1"] {
        assert!(
            metrics.lines().any(|found| found.starts_with(line)),
            "{line} is not in {metrics}"
        );
    }
    let doctor = json(&fnd.ctl(&["doctor", "-o", "json"]).out());
    let findings = doctor["findings"].as_array().expect("findings").iter();
    let levels: Vec<_> = findings
        .filter(|finding| finding["check"] == "nats")
        .map(|finding| finding["level"].clone())
        .collect();
    assert_eq!(levels, ["ok", "ok"], "{doctor:#}");
    std::fs::write(gate.join("go"), "").unwrap();
    wait_runs(&fnd, "take", 3);
    fnd.finish();
}

#[test]
fn a_stream_that_is_missing_is_shown_where_people_look() {
    require!(nats);
    let (_server, _client, fnd) = start();
    let entry = ENTRY.replace("ORDERS", "RETURNS");
    serve(&fnd, "take", &entry, "true\n");
    let problem = fnd.wait_problem("nats-stream");
    assert!(problem.contains("RETURNS") && problem.contains("`take`"), "{problem}");
    let shown = view(&fnd);
    assert_eq!(shown.triggers[0].state, NatsState::Gone, "{shown:?}");
    assert!(shown.triggers[0].error.is_some());
    let explained = fnd.ctl(&["explain", "nats-stream"]).expect_code(0).out();
    assert!(explained.contains("30 s"), "{explained}");
    fnd.finish();
}

#[test]
fn without_servers_the_verbs_say_so() {
    let fnd = Fnd::start();
    for arguments in [
        &["nats"][..],
        &["nats", "release", "take", "7"],
        &["emit", "--nats", "orders.new", "-d", "x"],
    ] {
        let run = fnd.ctl(arguments).expect_code(3);
        assert!(run.to_string().contains("no `[events.nats]`"), "{run}");
    }
    fnd.finish();
}

#[test]
fn a_person_publishes_messages_and_a_repeated_one_is_stored_once() {
    require!(nats);
    let (_server, client, fnd) = start();
    serve(&fnd, "take", ENTRY, "cat >>\"$STATE_DIRECTORY/journal\"\n");
    let emit = |arguments: &[&str]| {
        let all = [&["emit", "--nats", "orders.new", "-o", "json"], arguments].concat();
        json(&fnd.ctl(&all).expect_code(0).out())
    };
    let first = emit(&["--id", "a1", "-d", r#"{"order": 7}"#]);
    assert_eq!((&first["stream"], &first["duplicate"]), (&STREAM.into(), &false.into()));
    let second = emit(&["--id", "a1", "-d", r#"{"order": 7}"#]);
    assert_eq!(
        (&second["sequence"], &second["duplicate"]),
        (&first["sequence"], &true.into())
    );
    wait_runs(&fnd, "take", 1);
    assert_eq!(super::lines(&fnd, "take", "journal"), [r#"{"order": 7}"#]);
    client.wait_acknowledged(STREAM, super::CONSUMER);
    let run = fnd.ctl(&["emit", "--nats", "nobody.listens", "-d", "x"]).expect_code(7);
    assert!(run.to_string().contains("no stream has confirmed"), "{run}");
    let _ = fnd.ctl(&["emit", "--nats", "orders.*", "-d", "x"]).expect_code(2);
    fnd.finish();
}

/// A function publishes what its manifest allows, and nothing else.
#[test]
fn a_function_publishes_to_the_subjects_that_its_manifest_names() {
    require!(nats, root);
    let (_server, _client, fnd) = start();
    serve(&fnd, "take", ENTRY, "cat >>\"$STATE_DIRECTORY/journal\"\n");
    let manifest = "on_load = false\n[access]\nemit = [\"nats.orders.new\"]\n";
    let fndctl = program("fndctl");
    let code = format!("exec '{}' emit --nats \"$(cat)\" -d x\n", fndctl.display());
    serve(&fnd, "send", manifest, &code);
    let invoke = ["invoke", "send", "--text", "-d", "orders.new"];
    let _ = fnd.ctl(&invoke).expect_code(0);
    wait_runs(&fnd, "take", 1);
    let run = fnd.ctl(&["invoke", "send", "--text", "-d", "orders.old"]);
    assert!(run.to_string().contains("emit = [\"nats.orders.old\"]"), "{run}");
    fnd.finish();
}

#[test]
fn a_person_ends_a_claim_that_nothing_else_ends() {
    require!(nats, root, cgroup);
    let (server, client) = server();
    let endless = format!("{ENTRY}ack_wait = \"2s\"\n[limits]\ntimeout = \"none\"\n");
    let mut one = node(&server, "vm1");
    serve(&one, "take", &endless, "sleep 600\n");
    client.publish("orders.new", &[], "1");
    wait_until("the message to run", PATIENCE, || {
        (one.function("take")?.running == 1).then_some(())
    });
    let two = node(&server, "vm2");
    serve(&two, "take", &endless, "true\n");
    let run = two.ctl(&["nats", "release", "take", "99"]).expect_code(3);
    assert!(run.to_string().contains("there is no claim on message 99"), "{run}");
    let run = one.ctl(&["nats", "release", "take", "1"]).expect_code(7);
    assert!(run.to_string().contains("itself"), "{run}");
    let _ = take_away(&mut one);
    let out = wait_until("the claim to be seen and ended", PATIENCE, || {
        let run = two.ctl(&["nats", "release", "take", "1"]);
        (run.code == 0).then(|| run.out())
    });
    assert!(out.contains("the claim of vm1 has ended"), "{out}");
    two.finish();
}
