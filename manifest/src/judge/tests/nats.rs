//! `[[nats]]` and `[events.nats]`: what is refused, where it is marked, and in which words.

use super::*;

const NODE: &str = "[events.nats]\nservers = \"nats://127.0.0.1:4222\"\nstream = \"fnd\"\n";
const ENTRY: &str = "[[nats]]\nsubject = \"orders.>\"\nstream = \"ORDERS\"\n";

/// Checks what is reported about a manifest. It is refused exactly if something is.
#[track_caller]
fn check(settings: &str, manifest: &str, expected: &[&str]) {
    let judged = judge(settings).function(&single(file("/f/x.sh", b"echo\n"), Some(manifest)));
    assert_eq!(reported(&judged.verdict.diagnostics), expected, "{manifest}");
    assert_eq!(judged.plan.is_none(), !expected.is_empty(), "{manifest}");
    let without_help = judged.verdict.diagnostics.iter().find(|one| one.help.is_none());
    assert_eq!(without_help, None, "{manifest}");
}

/// Returns the entry of most tests with more keys.
fn with(keys: &str) -> String {
    format!("{ENTRY}{keys}\n")
}

#[test]
fn an_entry_needs_a_server_and_a_stream() {
    check(NODE, ENTRY, &[]);
    check(
        "[events]\nnats = { servers = [\"tls://n1:4222\", \"n2\"] }\n",
        ENTRY,
        &[],
    );
    check(
        "",
        ENTRY,
        &["2:11 impossible: `[[nats]]` needs a server, and fnd.toml has no `[events.nats]`"],
    );
    check(
        NODE,
        "[[nats]]\nsubject = \"orders.>\"\n",
        &["2:11 impossible: the entry names no `stream`, which stores the messages until they are handled"],
    );
    check(
        NODE,
        "[[nats]]\nsubject = \"orders.>\"\nstream = \"fnd\"\n",
        &[
            "3:10 impossible: `stream = \"fnd\"` is the stream of `[events.nats]` in fnd.toml, through which `[[event]]` of all \
             nodes goes",
        ],
    );
}

#[test]
fn a_subject_that_is_none_is_refused_where_it_is_written() {
    for subject in ["a..b", "a b", "a.>.b", "$JS.API.>"] {
        let manifest = ENTRY.replace("orders.>", subject);
        let judged = judge(NODE).function(&single(file("/f/x.sh", b"echo\n"), Some(&manifest)));
        let lines = reported(&judged.verdict.diagnostics);
        assert!(judged.plan.is_none() && lines[0].starts_with("2:11 "), "{lines:?}");
    }
}

#[test]
fn keys_that_exclude_each_other_are_marked() {
    check(NODE, "[[nats]]\nsubject = \"orders.price\"\nreply = true\n", &[]);
    check(
        NODE,
        "[[nats]]\nsubject = \"orders.price\"\nreply = true\nstream = \"ORDERS\"\n",
        &["4:10 impossible: `stream` has no effect with `reply`: a request is in no stream, and its answer is its end"],
    );
    check(
        NODE,
        &with("create = true\ndeliver = \"new\""),
        &[
            "5:11 impossible: `deliver = \"new\"` is impossible with `create`: the stream is a work queue, which delivers all \
             messages",
        ],
    );
    for key in ["dead_letters", "result"] {
        let column = key.len() + 4;
        check(NODE, &with(&format!("{key} = \"done.orders\"")), &[]);
        check(
            NODE,
            &with(&format!("{key} = \"orders.done\"")),
            &[&format!(
                "4:{column} impossible: `{key} = \"orders.done\"` is one of the subjects of this entry: it would run the \
                 function again"
            )],
        );
    }
    check(
        NODE,
        &with("when = { \"query.a\" = \"x\" }"),
        &["4:8 impossible: `query.a` in `when`: a message has only `body.NAME` and `header.NAME`"],
    );
}

#[test]
fn ack_wait_leaves_time_for_the_end_of_an_attempt() {
    check(NODE, &with("ack_wait = \"2s\""), &[]);
    check(
        NODE,
        &with("ack_wait = \"1s\""),
        &["4:12 impossible: `ack_wait` is 1s, less than 2s"],
    );
    let again = |ack_wait: &str| {
        let keys = format!("ack_wait = \"{ack_wait}\"\n[retry]\nretries = 1\non = [\"interrupted\"]");
        with(&keys)
    };
    check(NODE, &again("8s"), &[]);
    check(
        NODE,
        &again("7s"),
        &[
            "4:12 impossible: `ack_wait` of 7s is not above `limits.grace` of 5s and 2s: with `interrupted` in `retry.on` another \
             node may begin the work again, and an attempt must have ended before that",
        ],
    );
    // After `accept` no other node gets the message.
    check(NODE, &again("7s\"\nack = \"accept"), &[]);
}

#[test]
fn two_entries_share_no_consumer() {
    check(
        NODE,
        &format!("{ENTRY}{ENTRY}"),
        &["5:11 twice: two entries of `[[nats]]` are the same (entry 1)"],
    );
    let other = ENTRY.replace("orders.>", "returns.>");
    check(
        NODE,
        &format!("{ENTRY}{other}"),
        &["5:11 twice: two entries of `[[nats]]` have the same stream and the same consumer (entry 1)"],
    );
    check(NODE, &format!("{ENTRY}{other}consumer = \"returns\"\n"), &[]);
}

#[test]
fn a_function_with_an_entry_does_not_run_by_itself() {
    let function = single(file("/f/x.sh", b"echo\n"), Some(ENTRY));
    let judged = judge(NODE).function(&function);
    let manifest = judged.verdict.manifest.as_ref().unwrap();
    assert!(!manifest.on_load);
}

/// Returns the problems of a configuration.
fn settings(text: &str) -> Vec<String> {
    let (_, document) = Judge::new().settings(&JudgeSettings {
        files: vec![file("/etc/fnd/fnd.toml", text.as_bytes())],
        runtimes: vec![],
    });
    document.diagnostics.iter().map(Diagnostic::line).collect()
}

#[test]
fn the_servers_have_their_keys_beside_them() {
    let of = |keys: &str| settings(&format!("[events.nats]\nservers = \"tls://n1:4222\"\n{keys}\n"));
    assert_eq!(
        of("certificate = \"/c\"\nkey = \"/k\"\ncredentials = \"nats-creds\""),
        [""; 0]
    );
    for (alone, other) in [("certificate", "key"), ("key", "certificate")] {
        let lines = of(&format!("{alone} = \"/x\""));
        let expected = format!("`events.nats.{alone}` has no effect without `events.nats.{other}`");
        assert!(lines.len() == 1 && lines[0].contains(&expected), "{lines:?}");
    }
    let lines = settings("[events.nats]\nservers = \"nats://ada:secret@n1:4222\"\n");
    assert!(lines.len() == 1 && lines[0].contains("without a password"), "{lines:?}");
    let lines = settings("[events.nats]\nnode = \"vm1\"\n");
    assert!(
        lines.len() == 1 && lines[0].contains("`servers` is missing"),
        "{lines:?}"
    );
}

/// The spawner opens only secrets that the judge names.
#[test]
fn the_secret_of_the_servers_is_named_to_the_spawner() {
    let text = format!("{NODE}credentials = \"nats-creds\"\n");
    let answer = Judge::new().answer(&JudgeRequest::Settings(JudgeSettings {
        files: vec![file("/etc/fnd/fnd.toml", text.as_bytes())],
        runtimes: vec![],
    }));
    let JudgeReply::Settings(judgment) = answer else {
        panic!("it is the answer to another request");
    };
    assert_eq!(judgment.secrets, ["nats-creds"]);
}
