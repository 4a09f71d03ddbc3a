//! Hooks of webhook.

use super::{D, N, PublishedFile, R, U, W, check, documents};
use crate::script::LINK;
use crate::webhook::hooks;

#[test]
fn hooks_of_deployments() {
    let files: [PublishedFile; 15] = [
        (
            r#"[{"id": "bot", "execute-command": "/opt/d/bot.sh", "command-working-directory": "/opt/d", "response-message": "started",
            "trigger-rule": {"match": {"type": "payload-hash-sha1", "secret": "s", "parameter": {"source": "header", "name": "X-Hub-Signature"}}}}]"#,
            0,
            &[("match", R), ("response-message", W)],
        ),
        (
            r#"[{"id": "t", "execute-command": "/conf/t.sh", "command-working-directory": "/conf",}]"#,
            1,
            &[
                ("trigger-rule", W),
                ("http-methods", D),
                ("command-working-directory", W),
            ],
        ),
        (
            r#"[{"id": "screen_off", "execute-command": "/usr/bin/xset", "pass-environment-to-command": [
            {"source": "string", "envname": "XAUTHORITY", "name": "/home/ann/.Xauthority"}, {"source": "string", "envname": "DISPLAY", "name": ":0"}],
            "pass-arguments-to-command": [{"source": "string", "name": "dpms"}, {"source": "string", "name": "off"}], "command-working-directory": "/tmp"}]"#,
            1,
            &[("pass-environment-to-command", W), ("pass-arguments-to-command", W)],
        ),
        (
            r#"[{"id": "auto", "execute-command": "/opt/h.sh", "trigger-rule": {"and": [{"match": {"type": "payload-hash-sha1", "secret": "s",
            "parameter": {"source": "header", "name": "X-Hub-Signature"}}}]}, "response-message": "ok", "success-http-code": 200}]"#,
            0,
            &[("match", R), ("success-http-code", U)],
        ),
        (
            r#"[{"id": "app", "execute-command": "/root/re.sh", "command-working-directory": "/root/repo", "trigger-rule": {"and": [
            {"match": {"type": "payload-hmac-sha256", "secret": "s", "parameter": {"source": "header", "name": "X-Hub-Signature-256"}}},
            {"match": {"type": "value", "value": "refs/heads/production", "parameter": {"source": "payload", "name": "ref"}}}]}}]"#,
            1,
            &[("match", W), ("trigger-rule", D)],
        ),
        (
            r#"[{"id": "refresh", "execute-command": "/home/u/update.sh", "command-working-directory": "/home/u"}]"#,
            1,
            &[("trigger-rule", W)],
        ),
        (
            r#"[{"id": "blog", "execute-command": "/usr/bin/make", "pass-arguments-to-command": [{"source": "string", "name": "build"}],
            "pass-environment-to-command": [{"envname": "HUGO_mail", "source": "string", "name": "a@example.com"}],
            "trigger-rule": {"and": [{"match": {"type": "value", "value": "refs/heads/main", "parameter": {"source": "payload", "name": "ref"}}}]}}]"#,
            1,
            &[("match", W), ("command-working-directory", D)],
        ),
        (
            r#"[{"id": "tag", "execute-command": "/opt/tag.sh", "pass-arguments-to-command": [{"source": "payload", "name": "ref"}],
            "trigger-rule": {"and": [{"match": {"type": "payload-hmac-sha256", "secret": "s", "parameter": {"source": "header", "name": "X-Hub-Signature-256"}}},
            {"match": {"type": "regex", "regex": "^refs/tags/v", "parameter": {"source": "payload", "name": "ref"}}}]}}]"#,
            1,
            &[("match", W), ("execute-command", D)],
        ),
        (
            r#"[{"id": "gh", "execute-command": "/home/c/dispatch.py", "pass-arguments-to-command": [{"source": "entire-payload"}],
            "pass-environment-to-command": [{"source": "header", "name": "X-GitHub-Event", "envname": "GITHUB_EVENT"}]}]"#,
            1,
            &[("pass-arguments-to-command", W)],
        ),
        // A template, which webhook fills in before it reads the file.
        (
            r#"[{"id": "chef", "execute-command": "/var/lib/d.sh", "include-command-output-in-response-on-error": true,
            "pass-file-to-command": [{"source": "payload", "name": "env", "envname": "CHEF_ENV"}], "trigger-rule-mismatch-http-response-code": 502,
            "trigger-rule": {"match": {"type": "value", "value": "{{ getenv `TOKEN` }}", "parameter": {"source": "header", "name": "X-Token"}}}}]"#,
            0,
            &[("{{", R)],
        ),
        (
            r#"[{"id": "cms", "execute-command": "/home/h/deploy.sh", "pass-environment-to-command": [
            {"source": "payload", "envname": "COMMIT_MSG", "name": "head_commit.message"}], "trigger-rule": {"match": {"type": "payload-hash-sha256",
            "secret": "s", "parameter": {"source": "header", "name": "X-Hub-Signature-256"}}}}]"#,
            1,
            &[("match", D)],
        ),
        (
            r#"[{"id": "bb", "execute-command": "/home/a/re.sh", "pass-arguments-to-command": [{"source": "payload", "name": "actor.username"}],
            "trigger-rule": {"match": {"type": "ip-whitelist", "ip-range": "104.192.143.0/24"}}}]"#,
            1,
            &[("match", W)],
        ),
        (
            "- id: gl\n  execute-command: /home/a/re.sh\n  response-message: Executing\n  trigger-rule:\n    match:\n      type: value\n      value: TOKEN\n\
             \x20     parameter: {source: header, name: X-Gitlab-Token}\n",
            1,
            &[("match", W), ("response-message", W)],
        ),
        (
            r#"[{"id": "stack", "execute-command": "/srv/stack", "http-methods": ["POST"], "trigger-rule-mismatch-http-response-code": 403,
            "pass-arguments-to-command": [{"source": "string", "name": "update"}],
            "trigger-rule": {"match": {"type": "value", "value": "t", "parameter": {"source": "header", "name": "X-Webhook-Token"}}}}]"#,
            1,
            &[("trigger-rule-mismatch-http-response-code", N), ("http-methods", W)],
        ),
        (
            r#"[{"id": "slack", "execute-command": "/home/a/slash.sh", "include-command-output-in-response": true,
            "trigger-rule": {"match": {"type": "value", "value": "t", "parameter": {"source": "payload", "name": "token"}}},
            "pass-arguments-to-command": [{"source": "payload", "name": "user_name"}]}]"#,
            1,
            &[("include-command-output-in-response", D), ("match", W)],
        ),
    ];
    check(&files, |text| hooks(&documents("hooks.json", text), "hooks.json", LINK));
}
