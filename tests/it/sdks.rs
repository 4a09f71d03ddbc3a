//! Events of the CloudEvents SDKs for Python and JavaScript, sent as their users send them: in the binary and in the
//! structured form, with text that is not ASCII.

use fnd_core::api::EventAccepted;
use fnd_tests::{Fnd, programs, require};
use std::path::Path;
use std::process::Command;

/// Sends one event in both forms, and prints the status and the body of each answer.
const PYTHON: &str = r#"
import http.client, socket, sys
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

class Control(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])

attributes = {"type": "order.created", "source": "/shop", "id": "of-python", "subject": "Größe 7 %", "shelf": "3"}
event = CloudEvent(attributes, {"order": 7, "name": "Zoë"})
for message in (to_binary_event(event), to_structured_event(event)):
    connection = Control("fnd")
    connection.request("POST", "/v1/events", message.body, message.headers)
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
"#;

const JAVASCRIPT: &str = r#"
globalThis.self = globalThis;
const { CloudEvent, HTTP } = require(process.argv[3]);
const { request } = require("node:http");
const attributes = { type: "order.created", source: "/shop", id: "of-javascript", subject: "Größe 7 %", shelf: 3 };
const event = new CloudEvent({ ...attributes, data: { order: 7, name: "Zoë" } });
const send = ({ headers, body }) => new Promise((resolve, reject) => {
  // HTTP has no place for other characters in a header; the SDK leaves their encoding to its user.
  const encode = (name, value) => (name.startsWith("ce-") ? encodeURI(value) : value);
  const encoded = Object.entries(headers).map(([name, value]) => [name, encode(name, String(value))]);
  const options = { socketPath: process.argv[2], path: "/v1/events", method: "POST", headers: Object.fromEntries(encoded) };
  request(options, (answer) => {
    let text = "";
    answer.on("data", (part) => { text += part; });
    answer.on("end", () => { console.log(answer.statusCode, text); resolve(); });
  }).on("error", reject).end(body);
});
send(HTTP.binary(event)).then(() => send(HTTP.structured(event)));
"#;

/// Prints the attributes and the data as Python reads it.
const SHOWS: &str = "# /// fnd
# [[event]]
# type = \"order.*\"
# ///
def handler(event, context):
    names = [\"event-type\", \"event-id\", \"ce-source\", \"ce-subject\", \"ce-shelf\"]
    return [event[name] for name in names] + [event[\"data\"]]
";

#[test]
fn events_of_the_sdks_are_accepted_in_both_forms_and_each_is_one_event() {
    require!(sdk);
    let sdks = programs::sdks().unwrap();
    let fnd = Fnd::start();
    fnd.drop_file("shows.py", SHOWS);
    fnd.wait_ready("shows");
    let directory = tempfile::tempdir().unwrap();
    let program = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let bundle = sdks.join("package/bundles/cloudevents.js");
    for (language, interpreter, program) in [
        ("python", sdks.join("python/bin/python"), program("send.py", PYTHON)),
        ("javascript", "node".into(), program("send.cjs", JAVASCRIPT)),
    ] {
        let arguments = [&*program, &fnd.socket(), &*bundle];
        let printed = run(&interpreter, &arguments);
        let answers: Vec<EventAccepted> = printed
            .lines()
            .map(|line| match line.split_once(' ') {
                Some(("202", body)) => serde_json::from_str(body).unwrap(),
                _ => panic!("{language}: {printed}"),
            })
            .collect();
        let [binary, structured] = &answers[..] else {
            panic!("{language}: {printed}")
        };
        let first = &binary.delivered;
        assert_eq!((first.invocations.len(), first.duplicate), (1, false), "{printed}");
        // The same source and id: so both forms mean the same event.
        assert_eq!(structured.delivered.invocations, first.invocations, "{printed}");
        assert!(structured.delivered.duplicate, "{printed}");
        let id = first.invocations[0].id;
        let _ = fnd.wait_end(id);
        let seen: serde_json::Value = fnd.result(id).json();
        let expected = serde_json::json!([
            "order.created",
            format!("of-{language}"),
            "/shop",
            "Größe 7 %",
            "3",
            {"order": 7, "name": "Zoë"}
        ]);
        assert_eq!(seen, expected, "{language}");
    }
    fnd.finish();
}

/// Runs a program and returns what it prints.
fn run(interpreter: &Path, arguments: &[&Path]) -> String {
    let output = Command::new(interpreter).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", interpreter.display());
    String::from_utf8(output.stdout).unwrap()
}
