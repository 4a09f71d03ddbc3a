//! Files that are wrong: what happened, where, and nothing is written.

use fnd_tests::ctl::fndctl;
use std::fs;

#[test]
fn wrong_files_are_refused_with_their_place() {
    let directory = tempfile::tempdir().unwrap();
    for (kind, file, content, expected) in [
        ("crontab", "cron", &b"61 * * * * x\n"[..], "cron:1:1"),
        ("crontab", "binary", b"\xff\x00", "no text in UTF-8"),
        (
            "supervisord",
            "web.conf",
            b"[program:x]\ncommand=a\nnumprocs=two\n",
            "web.conf:3:1",
        ),
        (
            "supervisord",
            "odd.conf",
            b"[odd]\na=b\n",
            "supervisord has no such section",
        ),
        ("supervisord", "none.conf", b"", "there is no program"),
        (
            "systemd",
            "./a.service",
            b"[Service]\nExecStart=/bin/a\nRestartSec=x\n",
            "a.service:3:1",
        ),
        ("systemd", "./b.service", b"[Service]\nUser=app\n", "no `ExecStart=`"),
        (
            "webhook",
            "hooks.json",
            b"[{\"id\": \"a\", \"execute-command\": [\"x\"]}]",
            "it is a list",
        ),
        (
            "webhook",
            "rule.json",
            b"[{\"id\": \"a\", \"execute-command\": \"x\",\n\"trigger-rule\": [1]}]",
            "rule.json:2:1",
        ),
        ("webhook", "broken.json", b"[{\"id\": ", "broken.json:1"),
        (
            "pm2",
            "app.json",
            b"{\"apps\": [{\"script\": \"a\",\n\"cwd\": []}]}",
            "app.json:2:1",
        ),
        (
            "pm2",
            "a.config.js",
            b"const a = 1;\nthrow new Error(\"boom\");\n",
            "a.config.js:2",
        ),
        ("dagu", "a.yaml", b"steps:\n  - name: a\n\tcommand: x\n", "a.yaml:2"),
        (
            "dagu",
            "b.yaml",
            b"steps:\n  - name: a\n    command: [x, [y]]\n",
            "b.yaml:3:5",
        ),
        ("compose", "c.yaml", b"services:\n  web: 7\n", "c.yaml:2:3"),
        (
            "compose",
            "d.yaml",
            b"services:\n  web:\n    command: a\n    restart: sometimes\n",
            "d.yaml:4:5",
        ),
        ("sam", "e.yaml", b"Resources: {}\n", "no template of SAM"),
        (
            "sam",
            "f.yaml",
            b"Transform: AWS::Serverless-2016-10-31\nResources:\n  A:\n    Type: AWS::Serverless::Function\n\
              \x20   Properties:\n      Runtime: nodejs22.x\n",
            "f.yaml:6:7",
        ),
        ("sam", "g.yaml", b"Resources: [\n", "g.yaml:"),
    ] {
        let path = directory.path().join(file.trim_start_matches("./"));
        fs::write(&path, content).unwrap();
        let shown = path.display().to_string();
        let run = fndctl(&["import", kind, &shown, "--dry-run"], b"", &[]).expect_code(8);
        let printed = run.out() + &run.stderr;
        assert!(printed.contains(expected), "{kind} {file}: no `{expected}`\n{printed}");
    }
}

#[test]
fn a_missing_file_and_a_directory_are_named() {
    let directory = tempfile::tempdir().unwrap();
    for kind in ["crontab", "supervisord", "webhook", "pm2", "dagu", "compose"] {
        let none = directory.path().join("none").display().to_string();
        let run = fndctl(&["import", kind, &none], b"", &[]).expect_code(2);
        assert!(
            run.stderr.contains(&format!("failed to read `{none}`")),
            "{kind}: {run}"
        );
        let above = directory.path().display().to_string();
        let run = fndctl(&["import", kind, &above], b"", &[]).expect_code(2);
        assert!(run.stderr.contains("is a directory"), "{kind}: {run}");
    }
}
