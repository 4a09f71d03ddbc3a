//! `fndctl import webhook`: what a caller gets is what webhook answered.

use super::Ground;
use fnd_tests::wait::PATIENCE;
use fnd_tests::wait_until;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// Each of these has hooks of its own.
#[test]
fn hooks_of_one_listener() {
    let ground = Ground::new();
    a_hook_of_webhook_answers_as_before(&ground);
    status_headers_and_body_are_those_of_webhook(&ground);
    ground.fnd.finish();
}

fn a_hook_of_webhook_answers_as_before(ground: &Ground) {
    ground.file(
        "deploy.sh",
        "#!/bin/sh\necho \"$# $1 $2 $3 $EVENT $PWD\"; cat \"$COMMITS\" >&2\n",
    );
    let hooks = ground.file(
        "hooks.json",
        r#"[{"id": "deploy", "execute-command": "DIR/deploy.sh", "command-working-directory": "DIR/",
	"http-methods": ["POST"], "include-command-output-in-response": true,
	"pass-arguments-to-command": [{"source": "payload", "name": "pusher.name"}, {"source": "url", "name": "to"}, {"source": "payload", "name": "commits.0.id"}],
	"pass-environment-to-command": [{"source": "header", "name": "X-GitHub-Event", "envname": "EVENT"}],
	"pass-file-to-command": [{"source": "payload", "name": "commits", "envname": "COMMITS"}],
	"trigger-rule": {"and": [
		{"match": {"type": "payload-hmac-sha256", "secret": "s3cret", "parameter": {"source": "header", "name": "X-Hub-Signature-256"}}},
		{"match": {"type": "value", "value": "refs/heads/main", "parameter": {"source": "payload", "name": "ref"}}},
		{"or": [{"match": {"type": "value", "value": "push", "parameter": {"source": "header", "name": "X-GitHub-Event"}}},
			{"match": {"type": "value", "value": "yes", "parameter": {"source": "url", "name": "force"}}}]}]}},
	{"id": "old", "execute-command": "x", "trigger-rule": {"match": {"type": "payload-hmac-sha1", "secret": "s",
		"parameter": {"source": "header", "name": "X-Hub-Signature"}}}}]"#,
    );
    let document = ground.import(&["webhook", &hooks, "--link"], 8);
    assert_eq!(document["functions"], serde_json::json!(["deploy"]), "{document}");
    let kept = ground.fnd.path("functions/.secrets/deploy-hook");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    crate::listener::secret(&ground.fnd, "deploy-hook", &fs::read_to_string(kept).unwrap());
    let _ = ground.fnd.ctl(&["reload"]).expect_code(0);
    let _ = ground.fnd.wait_ready("deploy");
    let caller = fnd_tests::client::Client::new(&ground.fnd.path("run/http.sock"));
    let call = |path: &str, body: &str, event: &str, secret: &str| {
        let signature = format!("sha256={}", crate::listener::hmac(secret, body));
        let headers = [
            ("x-hub-signature-256", signature.as_str()),
            ("x-github-event", event),
            ("content-type", "application/json"),
        ];
        caller.call("POST", path, &headers, body.as_bytes())
    };
    let body = r#"{"ref": "refs/heads/main", "pusher": {"name": "Ada L"}, "commits": [{"id": 7}]}"#;
    let answer = call("/hooks/deploy?to=a%20b+c", body, "push", "s3cret");
    let directory = ground.files.display().to_string();
    let expected = format!("3 Ada L a b c 7 push {directory}\n[{{\"id\":7}}]");
    assert_eq!((answer.status.as_u16(), answer.text()), (200, expected));
    let answer = call("/hooks/deploy", body, "issue", "s3cret");
    assert_eq!(
        (answer.status.as_u16(), answer.text().trim_end()),
        (200, "Hook rules were not satisfied.")
    );
    assert_eq!(call("/hooks/deploy?force=yes", body, "issue", "s3cret").status, 200);
    assert_eq!(
        call("/hooks/deploy", &body.replace("main", "x"), "push", "s3cret").status,
        204
    );
    assert_eq!(call("/hooks/deploy", body, "push", "wrong").status, 401);
}

fn status_headers_and_body_are_those_of_webhook(ground: &Ground) {
    let hooks = ground.file(
        "hooks.yaml",
        "- id: plain\n  execute-command: /bin/echo\n\
         - id: message\n  execute-command: /bin/false\n  response-message: 'Executing: it'\n  success-http-response-code: 201\n\
         \x20 response-headers:\n    - {name: X-A, value: it works}\n    - {name: Content-Type, value: text/html}\n\
         - id: output\n  execute-command: /bin/echo\n  include-command-output-in-response: true\n  response-message: not sent\n\
         \x20 success-http-response-code: 202\n  response-headers: [{name: X-A, value: it works}]\n\
         \x20 pass-arguments-to-command: [{source: string, name: hi}]\n\
         - id: broken\n  execute-command: /bin/false\n  include-command-output-in-response: true\n",
    );
    let document = ground.import(&["webhook", &hooks], 0);
    let caller = fnd_tests::client::Client::new(&ground.fnd.path("run/http.sock"));
    let text = "text/plain; charset=utf-8";
    // Status, `X-A` and body are those of webhook 2.8.0. It sends no content type with an empty body, and guesses one from
    // the first bytes of others.
    for (id, status, kind, header, body) in [
        ("plain", 200, Some(text), None, Some("")),
        (
            "message",
            201,
            Some("text/html"),
            Some("it works"),
            Some("Executing: it"),
        ),
        ("output", 202, Some(text), Some("it works"), Some("hi\n")),
        // Here webhook has a sentence, and fnd the reason.
        ("broken", 500, None, None, None),
    ] {
        let _ = ground.fnd.wait_ready(id);
        let answer = caller.call("POST", &format!("/hooks/{id}"), &[], b"");
        assert_eq!(
            (answer.status.as_u16(), answer.header("x-a")),
            (status, header),
            "{id}: {document}"
        );
        if kind.is_some() {
            assert_eq!(
                (answer.header("content-type"), Some(answer.text().as_str())),
                (kind, body),
                "{id}"
            );
        }
    }
    // The command of `message` runs although its caller has the answer, and its failure is in the history.
    let ended = wait_until("the queued run to end", PATIENCE, || {
        ground
            .fnd
            .history("message")
            .into_iter()
            .find(|view| view.ended_at.is_some())
    });
    assert_eq!(ended.reason.unwrap().to_string(), "exit-1");
}
