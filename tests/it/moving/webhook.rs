//! `fndctl import webhook`: what a caller gets is what webhook answered.

use super::Ground;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn a_hook_of_webhook_answers_as_before() {
    let ground = Ground::new();
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
    ground.fnd.finish();
}
