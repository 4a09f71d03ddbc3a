//! Refused input: the position that is marked, and the message.

use super::*;

/// Checks the diagnostics for a manifest of a bash script.
fn check(manifest: &str, expected: &[&str]) {
    let judged = judge("").function(&single(file("/f/x.sh", b"echo\n"), Some(manifest)));
    assert_eq!(reported(&judged.verdict.diagnostics), expected, "{manifest}");
    assert!(judged.plan.is_none() && judged.verdict.manifest.is_none(), "{manifest}");
}

fn help(manifest: &str) -> String {
    let judged = judge("").function(&single(file("/f/x.sh", b"echo\n"), Some(manifest)));
    judged
        .verdict
        .diagnostics
        .first()
        .and_then(|problem| problem.help.clone())
        .unwrap_or_default()
}

#[test]
fn keys_nobody_knows() {
    check(
        "enable = true\n",
        &["1:1 unknown-key: unknown key `enable` in a function's manifest"],
    );
    check(
        "[limits]\ntimout = \"1s\"\n",
        &["2:1 unknown-key: unknown key `timout` in `[limits]`"],
    );
    check(
        "[limit]\n",
        &["1:2 unknown-key: unknown key `limit` in a function's manifest"],
    );
    assert_eq!(help("[limits]\ntimout = \"1s\"\n"), "did you mean `timeout`?");
    assert_eq!(help("timeout = \"1s\"\n"), "`timeout` belongs in `[limits]`");
    assert_eq!(
        help("[retry]\nruntime = \"x\"\n"),
        "`runtime` belongs to the top of the file, before the first `[table]`"
    );
}

#[test]
fn values_of_the_wrong_type() {
    check(
        "enabled = \"true\"\n",
        &["1:11 wrong-type: `enabled`: expected `true` or `false`, found a text"],
    );
    check(
        "[limits]\ntimeout = 30\n",
        &[
            "2:11 wrong-type: `limits.timeout`: expected a duration such as `\"30s\"`, or `\"none\"`, found a whole number",
        ],
    );
    check(
        "limits = 3\n",
        &["1:10 wrong-type: `limits`: expected a table, found a whole number"],
    );
    check(
        "args = \"-x\"\n",
        &["1:8 wrong-type: `args`: expected an array, each item a text, found a text"],
    );
    check(
        "[env]\nA = 1\n",
        &["2:5 wrong-type: `env.A`: expected a text, found a whole number"],
    );
    assert_eq!(help("[limits]\ntimeout = 30\n"), "write it with its unit: `\"30s\"`");
    assert_eq!(help("args = \"-x\"\n"), "write `[\"-x\"]`");
    check(
        "[schedule]\ncron = \"@daily\"\n",
        &["1:1 wrong-type: `schedule`: expected an array of tables, found a table"],
    );
}

#[test]
fn values_out_of_range() {
    check(
        "[limits]\ntimeout = \"0s\"\n",
        &["2:11 bad-value: `limits.timeout`: expected a duration above zero"],
    );
    check(
        "[limits]\ntimeout = \"30 sec\"\n",
        &[
            "2:11 bad-value: `limits.timeout`: expected a duration such as `500ms`, `30s`, `5m`, `1h30m` or `30d`, found `30 sec`",
        ],
    );
    check(
        "[limits]\npids = -1\n",
        &["2:8 bad-value: `limits.pids`: expected a whole number from 1 to 4194304, found -1"],
    );
    check(
        "[limits]\nmemory = \"12\"\n",
        &["2:10 bad-value: `limits.memory`: expected a size from `1M` to `1024T`, found `12`"],
    );
    check(
        "[retry]\nfactor = nan\n",
        &["2:10 bad-value: `retry.factor`: expected a number from 1.0 to 100.0, found nan"],
    );
    check(
        "[retry]\nnot_on_exit = [0, 256]\n",
        &[
            "2:16 bad-value: `retry.not_on_exit`: expected a whole number from 1 to 255, found 0",
            "2:19 bad-value: `retry.not_on_exit`: expected a whole number from 1 to 255, found 256",
        ],
    );
    check(
        "[queue]\noverlap = \"skp\"\n",
        &["2:11 bad-value: `queue.overlap`: expected `queue`, `skip`, `replace` or `reject`, found `skp`"],
    );
    assert_eq!(help("[queue]\noverlap = \"skp\"\n"), "did you mean `skip`?");
    assert_eq!(help("[limits]\nmemory = \"256m\"\n"), "did you mean `\"256M\"`?");
    assert_eq!(help("[limits]\nmemory = \"256MiB\"\n"), "did you mean `\"256M\"`?");
    check(
        "entry = \"../x\"\n",
        &["1:9 bad-value: `entry`: expected a path relative to the function's directory, without `..`, found `../x`"],
    );
    check(
        "[env]\n\"a b\" = \"x\"\n",
        &[
            "2:1 bad-value: `env`: expected the name of a variable: letters, digits and `_`, not beginning with a digit as the key, found `a b`",
        ],
    );
    check(
        "[env]\nA = \"x\\u0000\"\n",
        &["2:5 bad-value: `env.A`: expected text without NUL characters"],
    );
}

#[test]
fn text_that_is_no_toml() {
    check(
        "[limits]\ntimeout = 30s\n",
        &["2:11 syntax: not valid TOML: string values must be quoted, expected literal string"],
    );
    assert_eq!(help("[limits]\ntimeout = 30s\n"), "write text in quotes: `\"30s\"`");
    check(
        "enabled = true\nenabled = false\n",
        &["2:1 duplicate-key: the key `enabled` appears twice"],
    );
    check(
        "\u{feff}enabled = maybe\r\n",
        &["1:11 syntax: not valid TOML: string values must be quoted, expected literal string"],
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    check(
        "enabled = 1\nfoo = 2\n[limits]\ntimeout = 30s\npids = 0\n[retry]\nbackoff = \"expo\"\n",
        &[
            "1:11 wrong-type: `enabled`: expected `true` or `false`, found a whole number",
            "2:1 unknown-key: unknown key `foo` in a function's manifest",
            "4:11 syntax: not valid TOML: string values must be quoted, expected literal string",
            "5:8 bad-value: `limits.pids`: expected a whole number from 1 to 4194304, found 0",
            "7:11 bad-value: `retry.backoff`: expected `exponential` or `fixed`, found `expo`",
        ],
    );
    let many = "x = 1\n"
        .repeat(1000)
        .replace("x", "k")
        .lines()
        .enumerate()
        .map(|(n, _)| format!("k{n} = 1\n"))
        .collect::<String>();
    let judged = judge("").function(&single(file("/f/x.sh", b""), Some(&many)));
    assert_eq!(judged.verdict.diagnostics.len(), 51);
    assert_eq!(
        judged.verdict.diagnostics.last().unwrap().message,
        "950 more problems in this file"
    );
}

#[test]
fn files_that_cannot_be_manifests() {
    let refused = |bytes: &[u8]| {
        let mut function = single(file("/f/x.sh", b""), None);
        function.manifest = Some(file("/f/x.toml", bytes));
        reported(&judge("").function(&function).verdict.diagnostics)
    };
    assert_eq!(
        refused(b"a = 1\nb = '\xff'\n"),
        ["2:6 not-utf8: the file is not UTF-8 text"]
    );
    let large = "#".repeat((256 << 10) + 1);
    assert_eq!(
        refused(large.as_bytes()),
        ["too-large: the file has 262145 bytes, more than the limit of 256 KiB"]
    );
    let deep = format!("data = {}1{}\n", "[".repeat(5000), "]".repeat(5000));
    assert!(
        refused(deep.as_bytes())
            .iter()
            .any(|reported| reported.contains("nested too deeply")),
        "{:?}",
        refused(deep.as_bytes())
    );
    let dotted = format!("data.{} = 1\n", vec!["a"; 5000].join("."));
    assert!(
        refused(dotted.as_bytes())
            .iter()
            .any(|reported| reported.contains("nested too deeply")),
        "{:?}",
        refused(dotted.as_bytes())
    );
}

#[test]
fn what_is_not_built_is_refused() {
    check(
        "[[schedule]]\ncron = \"@daily\"\n",
        &["1:3 not-supported-yet: `schedule` is not supported yet"],
    );
    check(
        "[limits]\ntmp = \"64M\"\n",
        &["2:1 not-supported-yet: `limits.tmp` is not supported yet"],
    );
    check(
        "[sandbox]\nprofile = \"strict\"\n",
        &["2:11 not-supported-yet: `sandbox.profile = \"strict\"` is not supported yet"],
    );
    // The value is checked although the key is not supported yet.
    check(
        "[[http]]\npath = \"x\"\n",
        &[
            "1:1 missing-key: `http`: the key `auth` is missing",
            "1:3 not-supported-yet: `http` is not supported yet",
            "2:8 bad-value: `http.path`: expected a path that begins with `/`, found `x`",
        ],
    );
}

#[test]
fn what_cannot_be_together() {
    check(
        "[retry]\ninterval = \"10s\"\nmax_interval = \"1s\"\n",
        &["3:16 impossible: `retry.max_interval` is 1s, less than `retry.interval` (10s)"],
    );
    check(
        "[limits]\nmemory = \"2M\"\n",
        &["2:10 impossible: `limits.memory` is 2M, less than runtime `bash` needs"],
    );
    check(
        "[limits]\nmemory_high = \"300M\"\n",
        &["2:15 impossible: `limits.memory_high` is 300M, more than `limits.memory` (256M): it would never be reached"],
    );
    check(
        "[poll]\nrepeat = \"1h\"\nuntil = \"1m\"\n",
        &["3:9 impossible: `poll.until` of 60s is shorter than `poll.repeat` of 1h"],
    );
    check(
        "permissions = [\"net\"]\n",
        &["1:15 impossible: `permissions` has no effect for runtime `bash`: only deno has permissions"],
    );
    check(
        "[env]\nDATA = \"x\"\nFND_X = \"y\"\n",
        &[
            "2:8 reserved: the variable `DATA` is set by fnd itself",
            "3:9 reserved: the variable `FND_X` is set by fnd itself",
        ],
    );
    check("size = \"XXL\"\n", &["1:8 unknown-size: unknown size `XXL`"]);
    check(
        "runtime = \"pyhton\"\n",
        &["1:11 unknown-runtime: unknown runtime `pyhton`"],
    );
    assert!(help("runtime = \"pyhton\"\n").starts_with("did you mean `python`?"));
}

#[test]
fn users_are_granted_by_root_alone() {
    check(
        "[sandbox]\nuser = \"postgres\"\n",
        &["2:8 not-allowed: the user `postgres` is not allowed for functions"],
    );
    check(
        "[sandbox]\nuser = \"root\"\n",
        &["2:8 not-allowed: the user `root` is not allowed for functions"],
    );
    check(
        "[sandbox]\nuser = \"0\"\n",
        &["2:8 bad-value: expected the name of a user, found `0`"],
    );
    let allowed = judge("[users]\nallow = [\"postgres\"]\n");
    let mut function = single(
        file("/f/x.sh", b""),
        Some("[sandbox]\nuser = \"postgres\"\nprofile = \"off\"\n"),
    );
    assert!(allowed.function(&function).plan.is_some());
    function.files.iter_mut().for_each(|file| file.trusted = false);
    assert_eq!(
        reported(&allowed.function(&function).verdict.diagnostics),
        [
            "2:8 not-trusted: `sandbox.user` is only for functions whose code and manifest belong to root",
            "3:11 not-trusted: `sandbox.profile` is only for functions whose code and manifest belong to root",
        ]
    );
}

#[test]
fn env_files_that_are_not_there() {
    check(
        "env_file = \"x.env\"\n",
        &["1:12 impossible: `env_file` is only for the directory form (`NAME/function.toml`)"],
    );
    let reported_for = |files: Vec<JudgedFile>| {
        let judged = judge("").function(&directory(files, "env_file = \"x.env\""));
        (
            reported(&judged.verdict.diagnostics),
            judged.verdict.diagnostics[0].file.clone().unwrap_or_default(),
        )
    };
    let main = || file("main.sh", b"");
    assert_eq!(
        reported_for(vec![main()]).0,
        ["1:12 no-env-file: `env_file`: there is no file `x.env` in the directory"]
    );
    let (reported, path) = reported_for(vec![main(), file("x.env", b"A=1\nnothing\n")]);
    assert_eq!(
        reported,
        ["2:1 bad-value: expected `KEY=VALUE`, a comment or an empty line"]
    );
    assert_eq!(path, "/f/x/x.env");
}

#[test]
fn two_manifests_are_one_too_many() {
    let code = b"# /// fnd\n# enabled = true\n# ///\n";
    let judged = judge("").function(&single(file("/f/x.sh", code), Some("")));
    assert_eq!(
        reported(&judged.verdict.diagnostics),
        ["two-manifests: the file has a `/// fnd` block, but there is also `/f/x.toml`"]
    );
}

#[test]
fn inline_problems_point_into_the_code() {
    let code = b"#!/bin/bash\r\n# /// fnd\r\n# [limits]\r\n# pids = 0\r\n# ///\r\n";
    let judged = judge("").function(&single(file("/f/x.sh", code), None));
    assert_eq!(
        reported(&judged.verdict.diagnostics),
        ["4:10 bad-value: `limits.pids`: expected a whole number from 1 to 4194304, found 0"]
    );
    assert_eq!(judged.verdict.diagnostics[0].file.as_deref(), Some("/f/x.sh"));
}

#[test]
fn interpreter_lines_that_cannot_be_honoured_are_warnings() {
    let warned = |code: JudgedFile| {
        let judged = judge("").function(&single(code, None));
        assert!(judged.plan.is_some_and(|plan| plan.asked_interpreters == 0));
        reported(&judged.verdict.diagnostics)
    };
    assert_eq!(
        warned(executable("/f/x.py", b"#!/usr/bin/perl\n")),
        [
            "interpreter: the `#!` line names `/usr/bin/perl`, which is not an interpreter of runtime `python`; `python` runs the file",
        ]
    );
    assert_eq!(
        warned(file("/f/x.sh", b"#!/bin/bash -e\n")),
        ["interpreter: the `#!` line is not used, since the file is not executable; `bash` runs the file as usual",]
    );
    assert_eq!(warned(file("/f/x.sh", b"#!/usr/bin/env bash\n")), [""; 0]);
}

#[test]
fn entries_that_are_not_clear() {
    let reported_for = |files: Vec<JudgedFile>, manifest: &str| {
        reported(&judge("").function(&directory(files, manifest)).verdict.diagnostics)
    };
    assert_eq!(
        reported_for(vec![file("lib.py", b"")], ""),
        [
            "no-entry: no file to run: expected one of `main.*`, `handler.*`, `index.*` with a known suffix, or an executable file",
        ]
    );
    assert_eq!(
        reported_for(vec![file("main.py", b""), file("index.ts", b"")], ""),
        ["no-entry: more than one file could be run: `main.py`, `index.ts`",]
    );
    assert_eq!(
        reported_for(vec![file("main.py", b"")], "entry = \"a.py\""),
        ["1:9 no-entry: the entry `a.py` is not in the directory"]
    );
}

#[test]
fn a_range_of_users_has_no_reserved_number_in_it() {
    for (range, expected) in [
        ("[69990, 80000]", "69999"),
        ("[60000, 70000]", "65534"),
        ("[70000, 3000000000]", "2147483648"),
    ] {
        let text = format!("[users]\nrange = {range}\n");
        let (policy, document) = judge("").settings(&JudgeSettings {
            files: vec![file("/etc/fnd/fnd.toml", text.as_bytes())],
            runtimes: vec![],
        });
        let lines: Vec<String> = document.diagnostics.iter().map(Diagnostic::line).collect();
        assert!(
            policy.is_none() && lines[0].contains(expected) && lines[0].contains("no function may have"),
            "{lines:?}"
        );
    }
}

#[test]
fn the_configuration_points_into_the_right_file() {
    let mut judge = judge("");
    let files = vec![
        file("/etc/fnd/fnd.toml", b"keep_versions = 0\n[users]\nrange = [5, 9]\n"),
        file("/etc/fnd/conf.d/a.toml", b"[defaults.limits]\ntimeot = \"1s\"\ntmp = \"1M\"\n[http]\nlisten = \"127.0.0.1:80\"\n[[access]]\ngroup = \"x\"\n"),
    ];
    let (policy, document) = judge.settings(&JudgeSettings {
        files,
        runtimes: vec![],
    });
    assert!(policy.is_none() && document.settings.is_none());
    let at: Vec<String> = document.diagnostics.iter().map(Diagnostic::line).collect();
    let at: Vec<&str> = at.iter().filter_map(|line| line.split(';').next()).collect();
    assert_eq!(
        at,
        [
            "error: /etc/fnd/fnd.toml:1:17: `keep_versions`: expected a whole number from 1 to 1000, found 0",
            "error: /etc/fnd/conf.d/a.toml:2:1: unknown key `timeot` in `[limits]`",
            "error: /etc/fnd/conf.d/a.toml:3:1: `limits.tmp` is not supported yet",
            "error: /etc/fnd/conf.d/a.toml:5:1: `http.listen` is not supported yet",
            "error: /etc/fnd/conf.d/a.toml:6:1: `access`: the key `role` is missing",
            "error: /etc/fnd/fnd.toml:3:9: `users.range`: expected uids from 1000 on: lower ones belong to users of the system",
        ]
    );
    let (_, document) = judge.settings(&JudgeSettings {
        files: vec![file("fnd.toml", b"[limits]\n")],
        runtimes: vec![],
    });
    assert_eq!(
        document.diagnostics[0].help.as_deref(),
        Some("`limits` belongs in `[defaults]`")
    );
    // The previous configuration stays.
    assert_eq!(judge.runtimes().len(), 5);
}

#[test]
fn diagnostics_are_shown_with_their_line_and_cannot_forge_another() {
    let judged = judge("").function(&single(
        file("/f/x.sh", b""),
        Some("description = \"\"\nruntime = \"pyhton\"\n"),
    ));
    let text = judged.verdict.diagnostics[0].render(crate::diagnostic::Colour::Plain);
    assert!(text.starts_with("error: unknown runtime `pyhton`\n"), "{text}");
    assert!(
        text.contains("--> /f/x.toml:2:11") && text.contains("2 | runtime = \"pyhton\"") && text.contains("^^^^^^^^"),
        "{text}"
    );
    assert!(text.contains("help: did you mean `python`?"), "{text}");
    let mut problem = judged.verdict.diagnostics[0].clone();
    problem.message = "a\nerror: forged \u{1b}[31m\u{202e}".to_owned();
    for shown in [problem.render(crate::diagnostic::Colour::Plain), problem.line()] {
        assert!(
            !shown.contains('\u{1b}') && !shown.contains('\u{202e}') && !shown.contains("\nerror: forged"),
            "{shown:?}"
        );
    }
}
