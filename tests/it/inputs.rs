//! `[input] schema`: payloads that do not match are refused wherever they come from, and `fndctl` makes payloads of fields.

use fnd_core::api::{DeadLetterList, FunctionDetail};
use fnd_core::records::outcome::Reason;
use fnd_tests::Fnd;
use fnd_tests::ask::word;
use fnd_tests::client::{Answer, Client};
use fnd_tests::fnd::Setup;
use fnd_tests::install::with_manifest;
use fnd_tests::wait::{PATIENCE, wait_until};
use fnd_wire::ids::InvocationId;
use serde_json::json;
use std::fs;

const SCHEMA: &str = r#"{"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
    "name": {"type": "string", "description": "Whom to greet"},
    "n": {"type": "integer", "default": 1, "description": "How often"}}}"#;

const GREET: &str = "description = \"Greets somebody\"\nmcp = true\n[input]\nschema = \"input.schema.json\"\n[[http]]\npath = \"/greet\"\n\
    methods = [\"POST\"]\nauth = \"none\"\n[[event]]\ntype = \"guest.came\"\n";

/// Returns an fnd with the function `greet`, and a caller of its routes.
fn start() -> (Fnd, Client) {
    let mut fnd = Fnd::prepare(&Setup::default());
    let socket = fnd.path("run/http.sock");
    let configuration = fnd.path("fnd.toml");
    let before = fs::read_to_string(&configuration).unwrap();
    let listen = format!("{before}\n[http]\nlisten = \"unix:{}\"\n", socket.display());
    fs::write(&configuration, listen).unwrap();
    fnd.launch();
    fnd.drop_file("greet/input.schema.json", SCHEMA);
    fnd.drop_file("greet/main.sh", "cat\n");
    fnd.drop_file("greet/function.toml", GREET);
    fnd.wait_ready("greet");
    (fnd, Client::new(&socket))
}

/// Checks a refusal: 422 with the reason, and each place that does not match.
#[track_caller]
fn refused(answer: &Answer, pointers: &[&str]) {
    assert_eq!(answer.status, 422, "{answer:?}");
    let problem = answer.problem();
    let places: Vec<&str> = problem.input.iter().map(|mistake| mistake.pointer.as_str()).collect();
    assert_eq!(
        (problem.code.as_str(), problem.reason, places),
        ("input", Some(Reason::Input), pointers.to_vec())
    );
    assert!(problem.detail.contains("`greet`"), "{}", problem.detail);
}

#[test]
fn a_payload_that_does_not_match_runs_nothing() {
    let (fnd, listener) = start();
    let json = [("content-type", "application/json")];
    refused(&fnd.invoke("greet", r#"{"name": "Ada", "n": "x"}"#), &["/n"]);
    refused(&fnd.invoke("greet", "{}"), &[""]);
    refused(&fnd.invoke("greet", ""), &[""]);
    refused(&fnd.client().post("/v1/functions/greet/invocations", "[]"), &[""]);
    refused(&listener.call("POST", "/greet", &json, b"{\"name\": 1}"), &["/name"]);
    let event = |data: serde_json::Value| {
        let event =
            json!({"specversion": "1.0", "type": "guest.came", "source": "door", "id": data.to_string(), "data": data});
        let headers = [("content-type", "application/cloudevents+json")];
        fnd.client()
            .call("POST", "/v1/events", &headers, event.to_string().as_bytes())
    };
    refused(&event(json!({"n": 1})), &[""]);
    assert!(fnd.history("greet").is_empty());

    let greeted = r#"{"name":"Ada"}"#;
    assert_eq!(fnd.invoke("greet", greeted).text(), greeted);
    assert_eq!(
        listener.call("POST", "/greet", &json, greeted.as_bytes()).text(),
        greeted
    );
    assert_eq!(event(json!({"name": "Ada"})).status, 202);
    fnd.finish();
}

#[test]
fn fndctl_shows_the_fields_and_makes_a_payload_of_them() {
    let (fnd, _) = start();
    let detail: FunctionDetail = fnd.client().get("/v1/functions/greet").json();
    let expected: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!((detail.more.input, detail.status.mcp), (Some(expected), true));
    let shown = fnd.ctl(&["show", "greet"]).expect_code(0).out();
    assert!(shown.contains("Whom to greet") && shown.contains("integer"), "{shown}");
    let made = fnd.ctl(&["invoke", "greet", "--set", "name=Ada", "--set", "n=3"]);
    assert_eq!(made.expect_code(0).json(), json!({"name": "Ada", "n": 3}));
    for (arguments, expected) in [
        (&["--set", "name=Ada", "--set", "n=x"][..], "`n`: `x` is not an integer"),
        (&["--set", "n=3"], "\"name\" is a required property"),
        (&["-d", "{\"name\": 1}"], "`/name`: the value is not of type \"string\""),
        (&["--ask"], "no terminal"),
    ] {
        let failed = fnd.ctl(&[&["invoke", "greet"], arguments].concat()).expect_code(2);
        assert!(failed.stderr.contains(expected), "{failed}");
    }
    assert_eq!(fnd.history("greet").len(), 1);
    fnd.finish();
}

#[test]
fn a_schedule_without_a_fitting_payload_is_refused_with_its_place() {
    let fnd = Fnd::start();
    let manifest = "[input.schema]\ntype = \"object\"\n[[schedule]]\nevery = \"1h\"\ndata = 3\n";
    fnd.drop_file("nightly.sh", &with_manifest("nightly.sh", manifest, "cat\n"));
    let error = fnd.wait_error("nightly").error.unwrap();
    assert!(
        error.contains("nightly.sh:6:10") && error.contains("`data` of the schedule"),
        "{error}"
    );
    fnd.finish();
}

/// The schema of now decides, and nothing is lost.
#[test]
fn a_redrive_that_does_not_match_any_more_is_a_dead_letter_again() {
    let fnd = Fnd::start();
    fnd.install("mail.sh", "on_load = false\n", "exit 1\n");
    let id = fnd.wait_end(fnd.queue("mail", "3")).id;
    let before = fnd.function("mail").unwrap().version;
    fnd.drop_file(
        "mail.sh",
        &with_manifest("mail.sh", "[input.schema]\ntype = \"object\"\n", "cat\n"),
    );
    wait_until("the version with the schema to serve", PATIENCE, || {
        fnd.function("mail").filter(|now| now.version != before)
    });
    let replay = fnd.client().post(&format!("/v1/invocations/{id}/replay"), "");
    assert_eq!(
        (replay.status.as_u16(), replay.problem().code),
        (422, "input".to_owned())
    );
    let output = fnd
        .ctl(&["dead-letters", "redrive", &id.to_string()])
        .expect_code(0)
        .out();
    let new = InvocationId::parse(output.trim().rsplit(' ').next().unwrap()).unwrap();
    let ended = fnd.wait_end(new);
    assert_eq!(
        (word(&ended.state), ended.reason),
        ("failed".to_owned(), Some(Reason::Input))
    );
    assert!(ended.message.contains("not of type \"object\""), "{}", ended.message);
    let list: DeadLetterList = fnd.client().get("/v1/dead-letters").json();
    let letters: Vec<_> = list.dead_letters.iter().map(|letter| letter.invocation.id).collect();
    assert_eq!(letters, [new]);
    fnd.finish();
}
