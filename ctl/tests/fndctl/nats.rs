//! `fndctl nats`, `fndctl nats release` and `fndctl emit --nats`.

use crate::server::Running;
use crate::{fndctl, outcome, run};

#[test]
fn the_connection_comes_before_the_entries_and_what_hinders_them_after() {
    let server = Running::start();
    // Into a pipe, nothing is cut off.
    let (code, out, errors) = outcome(&fndctl(&server.socket).arg("nats").output().unwrap());
    assert_eq!((code, errors.as_str()), (0, ""));
    let lines: Vec<&str> = out.lines().collect();
    let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>();
    assert!(
        lines[0].starts_with("vm1 has been connected to n1 (nats://n1:4222, 2.15.1) for "),
        "{out}"
    );
    let header = 1;
    assert_eq!(
        words(header)[..5],
        ["FUNCTION", "SUBJECT", "STREAM", "CONSUMER", "STATE"]
    );
    assert_eq!(
        words(header + 1)[..6],
        ["hello", "orders.>", "ORDERS", "fnd-hello", "consuming", "12"]
    );
    assert!(words(header + 2).contains(&"gone"), "{out}");
    assert!(out.contains("text returns.>: there is no stream RETURNS"), "{out}");
    let (code, out, _) = run(&server, &["nats", "-o", "name"]);
    assert_eq!((code, out.as_str()), (0, "hello\ntext\n"));
    let (code, out, _) = run(&server, &["nats", "--jq", ".connected"]);
    assert_eq!((code, out.as_str()), (0, "true\n"));
}

#[test]
fn without_servers_there_is_no_such_thing() {
    let server = Running::start();
    let (code, _, errors) = run(&server, &["nats", "hello"]);
    assert_eq!(code, 3);
    assert!(errors.contains("fnd.toml has no `[events.nats]`"), "{errors}");
    let (code, _, errors) = run(&server, &["nats", "nobody"]);
    assert_eq!(code, 3);
    assert!(errors.contains("`nobody`"), "{errors}");
}

#[test]
fn a_claim_that_is_released_names_its_node() {
    let server = Running::start();
    let (code, out, _) = run(&server, &["nats", "release", "hello", "7"]);
    assert_eq!(code, 0);
    assert!(out.contains("ORDERS 7: the claim of vm2 has ended"), "{out}");
    let (code, _, errors) = run(&server, &["nats", "release", "hello", "8"]);
    assert_eq!(code, 3);
    assert!(errors.contains("has seen no claim"), "{errors}");
    assert_eq!(run(&server, &["nats", "release", "hello"]).0, 2);
}

#[test]
fn a_published_message_says_where_it_is_stored() {
    let server = Running::start();
    let (code, out, errors) = run(&server, &["emit", "--nats", "orders.new", "-d", "{\"order\": 7}"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let words: Vec<&str> = out.split_whitespace().collect();
    assert_eq!(words, ["SEQUENCE", "STREAM", "SUBJECT", "7", "ORDERS", "orders.new"]);
    let (code, _, errors) = run(&server, &["emit", "--nats", "orders.new", "--id", "a1", "-d", "x"]);
    assert_eq!(code, 0);
    assert!(errors.contains("ORDERS has a message with this id already"), "{errors}");
    // An event and a message at once, an option of events, and neither of the two.
    for arguments in [
        &["emit", "order.created", "--nats", "orders.new"][..],
        &["emit", "--nats", "orders.new", "--source", "shop"],
        &["emit", "-d", "x"],
    ] {
        assert_eq!(run(&server, arguments).0, 2, "{arguments:?}");
    }
}

#[test]
fn the_help_names_every_trigger_and_every_state() {
    let server = Running::start();
    let (_, out, _) = run(&server, &["history", "--help"]);
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    let list = |words: &[&str]| words.join(", ");
    let triggers = list(fnd_core::records::outcome::Trigger::WORDS);
    let states = list(fnd_core::records::outcome::RunState::WORDS);
    assert!(out.contains(&format!("with this trigger: {triggers}")), "{out}");
    assert!(out.contains(&format!("in this state: {states}")), "{out}");
}
