//! Payloads and headers that are too large, of several lines, or none at all: in both directions.

use super::{CONSUMER, ENTRY, KEEP, STREAM, SUBJECTS, runs, serve, setup, sorted, start, wait_runs};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{Reason, RunState};
use fnd_tests::nats::NatsServer;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

/// A result may be larger than the server takes. fnd says so, and the message is over.
#[test]
fn a_result_above_the_servers_limit_is_told_and_holds_nothing_up() {
    require!(nats);
    let server = NatsServer::start_with("max_payload: 8192\n");
    let client = server.client();
    client.make_stream(STREAM, &[SUBJECTS], "workqueue");
    client.make_stream("DONE", &["done.>"], "limits");
    let fnd = Fnd::start_with(&setup(&server, "vm1"));
    let code = "def handler(event, context):\n    return 'x' * event['data']\n";
    fnd.install("take.py", &format!("{ENTRY}result = \"done.orders\"\n"), code);
    client.publish("orders.new", &[], "20000");
    let result = client.first_after("done.orders", || {
        client.publish("orders.new", &[], "5");
    });
    assert_eq!(&result.payload[..], b"xxxxx");
    client.wait_acknowledged(STREAM, CONSUMER);
    let runs = wait_runs(&fnd, "take", 2);
    assert!(runs.iter().all(|run| run.state == RunState::Succeeded), "{runs:#?}");
    fnd.wait_log("bytes, and the server of NATS takes 8192");
    assert_eq!((client.messages("DONE"), client.messages(STREAM)), (1, 0));
    fnd.finish();
}

/// The text of an error is a header of the dead letter. Its lines are no headers of their own.
#[test]
fn an_error_of_several_lines_is_one_header() {
    require!(nats);
    let (_server, client, fnd) = start();
    client.make_stream("DEAD", &["dlq.>"], "limits");
    let code = "def handler(event, context):\n    raise ValueError('first\\r\\nEvil: 1\\n\\nlast')\n";
    fnd.install("take.py", &format!("{ENTRY}dead_letters = \"dlq.orders\"\n"), code);
    let letter = client.first_after("dlq.orders", || {
        client.publish("orders.new", &[], "1");
    });
    let headers = letter.headers.as_ref().expect("a dead letter has headers");
    assert!(headers.get("Fnd-Message").is_some(), "{headers:?}");
    assert!(headers.get("Evil").is_none(), "{headers:?}");
    assert_eq!(&letter.payload[..], b"1");
    client.wait_acknowledged(STREAM, CONSUMER);
    fnd.finish();
}

/// Publishes a message with headers that no client library writes.
#[track_caller]
fn publish_raw(server: &NatsServer, headers: &[u8], payload: &[u8]) {
    let headers = [b"NATS/1.0\r\n", headers, b"\r\n\r\n"].concat();
    let head = format!(
        "CONNECT {{\"verbose\":false,\"pedantic\":false,\"headers\":true,\"protocol\":1,\"name\":\"raw\",\"lang\":\"raw\",\
         \"version\":\"1\"}}\r\nHPUB orders.new {} {}\r\n",
        headers.len(),
        headers.len() + payload.len()
    );
    let all = [head.as_bytes(), &headers, payload, b"\r\nPING\r\n"].concat();
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("the server runs");
    connection.set_read_timeout(Some(PATIENCE)).expect("a time");
    connection.write_all(&all).expect("the server reads");
    let mut said = String::new();
    let mut part = [0; 4096];
    while !said.contains("PONG") {
        let count = connection.read(&mut part).expect("the server answers");
        assert!(count > 0, "the server has ended the connection: {said}");
        said += &String::from_utf8_lossy(&part[..count]);
    }
    assert!(!said.contains("-ERR"), "{said}");
}

#[test]
fn a_header_of_two_lines_is_one_header() {
    require!(nats);
    let (server, client, fnd) = start();
    serve(&fnd, "take", ENTRY, KEEP);
    publish_raw(&server, b"X-Kind: one\r\n two", b"1");
    let run = wait_runs(&fnd, "take", 1).remove(0);
    let run = fnd.invocation(run.id);
    let Some(Cause::Nats(cause)) = &run.cause else {
        panic!("{:?}", run.cause);
    };
    assert_eq!(cause.headers, [("X-Kind".to_owned(), "one two".to_owned())]);
    client.wait_acknowledged(STREAM, CONSUMER);
    fnd.finish();
}

/// The client library ends its connection at such a message. It becomes one dead letter, and all others run.
#[test]
fn a_message_whose_headers_are_none_is_one_dead_letter_and_holds_no_other_up() {
    require!(nats);
    let (server, client, fnd) = start();
    client.make_stream("OTHER", &["other.>"], "workqueue");
    serve(&fnd, "take", &format!("{ENTRY}ack_wait = \"3s\"\n"), KEEP);
    let entry = "[[nats]]\nsubject = \"other.>\"\nstream = \"OTHER\"\nack_wait = \"3s\"\n";
    serve(&fnd, "other", entry, KEEP);
    let bad = [&b"no header"[..], b"Bad Name: 1", b"X-Kind: \xff"];
    for (number, headers) in bad.into_iter().enumerate() {
        client.publish("orders.new", &[], &format!("a{number}"));
        publish_raw(&server, headers, b"bad");
        client.publish("orders.new", &[], &format!("b{number}"));
        client.publish("other.new", &[], &number.to_string());
        wait_runs(&fnd, "take", 3 * (number + 1));
        wait_runs(&fnd, "other", number + 1);
    }
    // Three connections were lost.
    let problem = fnd.wait_problem("nats-down");
    assert!(problem.contains("again and again"), "{problem}");
    client.wait_acknowledged(STREAM, CONSUMER);
    let all = runs(&fnd, "take");
    let refused: Vec<_> = all.iter().filter(|run| run.reason == Some(Reason::Input)).collect();
    assert_eq!((all.len(), refused.len()), (9, 3), "{all:#?}");
    assert!(
        refused
            .iter()
            .all(|run| run.message.contains("headers") && run.attempts == 0),
        "{refused:#?}"
    );
    let letters = fnd.ctl(&["dead-letters", "-o", "json"]).expect_code(0).out();
    assert!(
        refused.iter().all(|run| letters.contains(&run.id.to_string())),
        "{letters}"
    );
    assert_eq!(sorted(&fnd, "take", "journal"), ["a0", "a1", "a2", "b0", "b1", "b2"]);
    assert_eq!(sorted(&fnd, "other", "journal"), ["0", "1", "2"]);
    assert_eq!((client.messages(STREAM), client.messages("OTHER")), (0, 0));
    fnd.finish();
}

#[test]
fn a_message_that_the_schema_of_the_input_refuses_is_a_dead_letter_with_its_payload() {
    require!(nats);
    let (_server, client, fnd) = start();
    serve(
        &fnd,
        "take",
        &format!("{ENTRY}[input.schema]\ntype = \"object\"\n"),
        KEEP,
    );
    for data in ["no JSON", "7", "{}"] {
        client.publish("orders.new", &[], data);
    }
    let all = wait_runs(&fnd, "take", 3);
    client.wait_acknowledged(STREAM, CONSUMER);
    let refused: Vec<_> = all.iter().filter(|run| run.reason == Some(Reason::Input)).collect();
    assert!(refused.iter().all(|run| run.attempts == 0), "{refused:#?}");
    let payloads = refused.iter().map(|run| {
        let path = format!("/v1/invocations/{}/payload", run.id);
        fnd.client().get(&path).text()
    });
    let mut payloads: Vec<String> = payloads.collect();
    payloads.sort();
    assert_eq!(payloads, ["7", "no JSON"]);
    let letters = fnd.ctl(&["dead-letters", "-o", "json"]).expect_code(0).out();
    assert!(
        refused.iter().all(|run| letters.contains(&run.id.to_string())),
        "{letters}"
    );
    assert_eq!(sorted(&fnd, "take", "journal"), ["{}"]);
    assert_eq!(client.messages(STREAM), 0);
    fnd.finish();
}

/// A program beside fnd publishes to the stream of events what the schema of a function refuses.
#[test]
fn an_event_that_is_no_json_is_a_dead_letter_where_a_schema_is_set() {
    require!(nats);
    let server = NatsServer::start();
    let client = server.client();
    let mut setup = setup(&server, "vm1");
    setup.config += "stream = \"fnd\"\n";
    let fnd = Fnd::start_with(&setup);
    let manifest = "[[event]]\ntype = \"order\"\nschema = \"order.json\"\n";
    fnd.drop_file("take/main.sh", KEEP);
    fnd.drop_file("take/order.json", "{\"type\": \"object\"}");
    fnd.drop_file("take/function.toml", manifest);
    fnd.wait_ready("take");
    client.wait_consumer("fnd", "fnd-event-take");
    for (id, data) in [("a", "no JSON"), ("b", "7"), ("c", "{}")] {
        let headers = [
            ("ce-specversion", "1.0"),
            ("ce-type", "order"),
            ("ce-source", "shop"),
            ("ce-id", id),
            ("Content-Type", "application/json"),
        ];
        client.publish("fnd.events.order", &headers, data);
    }
    wait_runs(&fnd, "take", 3);
    client.wait_acknowledged("fnd", "fnd-event-take");
    let all = runs(&fnd, "take");
    let refused: Vec<_> = all.iter().filter(|run| run.reason == Some(Reason::Input)).collect();
    assert_eq!(refused.len(), 2, "{all:#?}");
    assert!(
        refused.iter().all(|run| run.attempts == 0
            && ["order.json", "is not JSON"]
                .iter()
                .any(|text| run.message.contains(text))),
        "{refused:#?}"
    );
    let letters = fnd.ctl(&["dead-letters", "-o", "json"]).expect_code(0).out();
    assert!(
        refused.iter().all(|run| letters.contains(&run.id.to_string())),
        "{letters}"
    );
    assert_eq!(sorted(&fnd, "take", "journal"), ["{}"]);
    fnd.finish();
}
