//! The stream of events: `fndctl events` and `GET /v1/stream`.

use fnd_core::api::stream::{Kind, StreamEvent};
use fnd_core::records::outcome::{Reason, RunState, Skip};
use fnd_tests::Setup;
use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, wait_until};
use nix::sys::signal::Signal;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

const FLAKY: &str =
    "# /// fnd\n# on_load = false\n# [retry]\n# retries = 1\n# interval = \"50ms\"\n# ///\necho why >&2\nexit 75\n";
const HELLO: &str = "# /// fnd\n# on_load = false\n# ///\ndef handler(event, context):\n    return 1\n";

/// Returns the lines of `fndctl events` about a function.
fn events(fnd: &Fnd, arguments: &[&str]) -> Vec<StreamEvent> {
    let run = fnd.ctl(&[&["events", "-o", "json"], arguments].concat());
    assert_eq!(run.code, 0, "{run}");
    run.out()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn kinds(events: &[StreamEvent]) -> Vec<Kind> {
    events.iter().map(|event| event.kind).collect()
}

/// The problems of the node come first.
#[test]
fn what_happens_is_told() {
    let fnd = Fnd::start();
    a_problem_of_the_node_is_reported_when_it_begins_and_when_it_is_over(&fnd);
    each_thing_that_happens_is_a_line(&fnd);
    a_refused_new_version_and_its_correction_are_reported(&fnd);
    a_wrong_question_is_refused_with_what_is_right(&fnd);
    the_list_shows_itself_again(&fnd);
    fnd.finish();
}

fn each_thing_that_happens_is_a_line(fnd: &Fnd) {
    fnd.drop_file("hello.py", HELLO);
    fnd.drop_file("flaky.sh", FLAKY);
    fnd.drop_file("bad.sh", "# /// fnd\n# memmory = 3\n# ///\n:\n");
    fnd.wait_ready("hello");
    fnd.wait_ready("flaky");
    let _ = fnd.wait_error("bad");

    let (_, view) = fnd.run("hello", "{}");
    let hello = events(fnd, &["--function", "hello"]);
    let expected = [Kind::Loaded, Kind::Accepted, Kind::Scaled, Kind::Started, Kind::Ended];
    assert_eq!(kinds(&hello), expected, "{hello:#?}");
    assert_eq!(hello[2].workers, Some((0, 1)));
    let ended = &hello[4];
    assert_eq!(
        (ended.invocation, ended.attempt, ended.reason, ended.state),
        (Some(view.id), Some(1), Some(Reason::Ok), Some(RunState::Succeeded))
    );
    assert_eq!(
        ended.trace_id.as_deref(),
        Some(view.id.to_string().replace('-', "").as_str())
    );

    let failed = fnd.wait_end(fnd.queue("flaky", ""));
    let flaky = events(fnd, &["--function", "flaky"]);
    let expected = [
        Kind::Loaded,
        Kind::Accepted,
        Kind::Started,
        Kind::Ended,
        Kind::Retried,
        Kind::Started,
        Kind::Ended,
        Kind::GaveUp,
    ];
    assert_eq!(kinds(&flaky), expected, "{flaky:#?}");
    assert_eq!((flaky[4].attempt, flaky[4].reason), (Some(2), Some(Reason::Transient)));
    assert_eq!(flaky[7].exhausted, failed.exhausted);

    assert_eq!(fnd.ctl(&["disable", "flaky"]).code, 0);
    assert_eq!(fnd.ctl(&["invoke", "flaky"]).code, 1);
    let last = events(fnd, &["--function", "flaky", "-n", "2"]);
    assert_eq!(kinds(&last), [Kind::State, Kind::Dropped]);
    assert_eq!(last[1].reason, Some(Reason::Skipped(Skip::Disabled)));

    let refused = events(fnd, &["--kind", "refused"]);
    assert_eq!(refused.len(), 1);
    let problem = &refused[0].diagnostics[0];
    assert_eq!(
        (problem.code.as_str(), problem.place.as_ref().unwrap().line),
        ("unknown-key", 2)
    );
    fnd.remove("bad.sh");
    fnd.wait_gone("bad");
    assert_eq!(
        kinds(&events(fnd, &["--function", "bad"])),
        [Kind::Refused, Kind::Removed]
    );
}

fn a_refused_new_version_and_its_correction_are_reported(fnd: &Fnd) {
    fnd.drop_file("greeter.py", HELLO);
    let first = fnd.wait_ready("greeter").version;
    fnd.drop_file("greeter.py", "# /// fnd\n# nonsense = 1\n# ///\n");
    let _ = fnd.wait_error("greeter");
    fnd.drop_file("greeter.py", &HELLO.replace("return 1", "return 2"));
    let _ = fnd.wait_function("greeter", "it is another version", |now| now.version != first);
    let received = events(fnd, &["--function", "greeter", "--kind", "loaded,refused"]);
    assert_eq!(kinds(&received), [Kind::Loaded, Kind::Refused, Kind::Loaded]);
    assert_eq!(received[0].version, first);
    assert_ne!(received[2].version, first);
}

#[test]
fn a_reader_that_comes_back_goes_on_where_it_stopped_and_learns_of_a_restart() {
    let mut fnd = Fnd::start_with(&Setup::default().detached().file("flaky.sh", FLAKY));
    fnd.wait_ready("flaky");
    fnd.wait_end(fnd.queue("flaky", ""));
    let all = events(&fnd, &[]);
    let middle = all[all.len() / 2].seq.to_string();
    let rest = events(&fnd, &["--since", &middle]);
    assert_eq!(rest, all[all.len() / 2 + 1..]);
    let last = all.last().unwrap().seq.to_string();
    assert!(events(&fnd, &["--since", &last]).is_empty());

    // As a browser does after it lost its connection.
    let answer = fnd
        .client()
        .call("GET", "/v1/stream?follow=0", &[("last-event-id", &middle)], b"");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let text = answer.text();
    let pieces: Vec<&str> = text.trim_end().split("\n\n").collect();
    assert_eq!(pieces.len(), rest.len(), "{text}");
    let (first, expected) = (pieces[0], &rest[0]);
    let json = serde_json::to_string(expected).unwrap();
    assert_eq!(
        first,
        format!("id: {}\nevent: {}\ndata: {json}", expected.seq, expected.kind.as_str())
    );

    fnd.replace(Signal::SIGTERM);
    fnd.wait_ready("flaky");
    let received = events(&fnd, &["--since", &last]);
    assert_eq!((received[0].kind, received[0].missed), (Kind::Missed, None));
    assert!(received[0].message.as_ref().unwrap().contains("restarted"));
    assert_eq!(received[1].kind, Kind::Loaded);
    fnd.finish();
}

/// `fndctl events -f`, and what it prints.
struct Follow(Child, Receiver<String>);

impl Follow {
    fn start(fnd: &Fnd, arguments: &[&str]) -> Self {
        let mut command = Command::new(program("fndctl"));
        command
            .env_clear()
            .env("FND_SOCKET", fnd.socket())
            .args(["events", "-f"]);
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, receiver) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        Self(child, receiver)
    }

    fn next(&self) -> String {
        self.1.recv_timeout(PATIENCE).expect("a line comes")
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn followers_hear_what_they_chose_as_it_happens() {
    let fnd = Fnd::start();
    fnd.drop_file("flaky.sh", FLAKY);
    fnd.drop_file("other.sh", "# /// fnd\n# on_load = false\n# ///\n:\n");
    fnd.wait_ready("flaky");
    fnd.wait_ready("other");
    let ends = Follow::start(&fnd, &["--function", "flaky", "--kind", "ended,gave-up"]);
    let refusals = Follow::start(&fnd, &["--kind", "refused"]);
    let _ = fnd.run("other", "");
    let _ = fnd.run("flaky", "");
    for expected in ["attempt 1 ended", "attempt 2 ended", "no retries are left (transient)"] {
        let line = ends.next();
        assert!(line.contains("flaky") && line.contains(expected), "{line}");
    }
    fnd.drop_file("bad.sh", "# /// fnd\n# memmory = 3\n# ///\n:\n");
    assert!(refusals.next().contains("refused  bad"));
    assert_eq!(refusals.next(), "error: unknown key `memmory` in a function's manifest");
    fnd.finish();
}

fn a_wrong_question_is_refused_with_what_is_right(fnd: &Fnd) {
    for (path, expected) in [
        ("/v1/stream?kind=exploded", "some of `loaded`"),
        ("/v1/stream?since=yesterday", "the `seq` of an event"),
        ("/v1/stream?function=No+Name", "the name of a function"),
        ("/v1/stream?limit=0", "a number from 1"),
    ] {
        let problem = fnd.client().get(path).problem();
        assert_eq!(problem.status, 400, "{path}");
        assert!(problem.detail.contains(expected), "{path}: {}", problem.detail);
    }
    for arguments in [["events", "--kind", "exploded"], ["events", "--since", "yesterday"]] {
        assert_eq!(fnd.ctl(&arguments).code, 2, "{arguments:?}");
    }
}

/// A reader that does not read holds up no other client, and learns how much it missed when it does read.
#[test]
fn a_reader_that_does_not_read_loses_lines_and_learns_how_many() {
    let fnd = Fnd::start();
    fnd.drop_file("hello.py", HELLO);
    fnd.wait_ready("hello");
    let mut slow = UnixStream::connect(fnd.socket()).unwrap();
    slow.write_all(b"GET /v1/stream HTTP/1.1\r\nhost: fnd\r\naccept: application/x-ndjson\r\n\r\n")
        .unwrap();
    let client = fnd.client();
    // Three events each: more than the ring, its channel and the socket's buffers hold.
    let burst = || {
        for _ in 0..500 {
            assert_eq!(client.post("/v1/functions/hello/invoke", "{}").status, 200);
        }
    };
    std::thread::scope(|scope| (0..10).for_each(|_| drop(scope.spawn(burst))));
    let last = events(&fnd, &["-n", "1"])[0].seq.number;
    let (mut text, mut buffer) = (String::new(), [0; 65536]);
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    let end = format!("-{last}\"");
    while !text.contains(&end) {
        let count = slow.read(&mut buffer).unwrap();
        assert!(count > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    let received: Vec<StreamEvent> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line.trim()).ok())
        .collect();
    let missed: u64 = received.iter().filter_map(|event| event.missed).sum();
    let heard = received.iter().filter(|event| event.kind != Kind::Missed).count() as u64;
    assert!(missed > 0);
    // A chunk of HTTP may end inside a line, which is then not counted; this concerns a few lines at most.
    assert!(
        heard + missed <= last && heard + missed + 50 >= last,
        "{heard} + {missed}, {last}"
    );
    fnd.finish();
}

fn the_list_shows_itself_again(fnd: &Fnd) {
    let mut command = Command::new(program("fndctl"));
    command.env_clear().env("FND_SOCKET", fnd.socket());
    let mut child = command
        .args(["list", "--watch", "-l", "team=ops"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, receiver) = channel();
    std::thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    fnd.drop_file("other.sh", "# /// fnd\n# on_load = false\n# ///\n:\n");
    fnd.wait_ready("other");
    fnd.drop_file(
        "seen.sh",
        "# /// fnd\n# on_load = false\n# labels = { team = \"ops\" }\n# ///\n:\n",
    );
    for row in [" ready ", " disabled "] {
        wait_until("a row of the list", PATIENCE, || {
            let line = receiver.recv_timeout(PATIENCE).unwrap();
            assert!(!line.starts_with("other"), "{line}");
            (line.starts_with("seen ") && line.contains(row)).then_some(())
        });
        assert_eq!(fnd.ctl(&["disable", "seen"]).code, 0);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn a_problem_of_the_node_is_reported_when_it_begins_and_when_it_is_over(fnd: &Fnd) {
    let reported = |kind: &str| events(fnd, &["--kind", kind]);
    let gauge = || {
        fnd.client()
            .get("/metrics")
            .text()
            .contains("fnd_problems{code=\"functions-directory\"} 1")
    };
    fnd.drop_file("Not A Name.sh", "# /// fnd\n# on_load = false\n# ///\n:\n");
    let began = wait_until("the problem is told", PATIENCE, || reported("problem").pop());
    assert_eq!(began.code.as_deref(), Some("functions-directory"));
    assert_eq!(began.function, None);
    let message = began.message.clone().unwrap();
    assert!(message.contains("Not A Name.sh"), "{message}");
    assert!(fnd.status().problems.contains(&message), "{:?}", fnd.status().problems);
    assert!(gauge());
    assert!(reported("solved").is_empty());

    fnd.remove("Not A Name.sh");
    let over = wait_until("its end is told", PATIENCE, || reported("solved").pop());
    assert_eq!((over.code, over.message), (began.code, Some(message)));
    assert_eq!(reported("problem").len(), 1);
    assert!(fnd.status().problems.is_empty());
    assert!(!gauge());
}
