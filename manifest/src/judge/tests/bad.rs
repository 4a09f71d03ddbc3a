//! Refused input: the position that is marked, and the message.

use super::*;
use crate::diagnostic::Colour;

/// Returns problems as a person sees them, each below its code.
fn shown(diagnostics: &[Diagnostic]) -> String {
    let one = |problem: &Diagnostic| format!("{}\n{}\n", problem.code, problem.render(Colour::Plain));
    diagnostics.iter().map(one).collect()
}

/// Returns manifests of a bash script that are refused, and what a person sees of each.
fn refused(manifests: &[&str]) -> String {
    let one = |manifest: &&str| {
        let judged = judge("").function(&single(file("/f/x.sh", b"echo\n"), Some(manifest)));
        assert!(judged.plan.is_none() && judged.verdict.manifest.is_none(), "{manifest}");
        format!("===\n{manifest}---\n{}", shown(&judged.verdict.diagnostics))
    };
    manifests.iter().map(one).collect()
}

#[test]
fn keys_nobody_knows() {
    snapshot!(refused(&[
        "enable = true\n",
        "[limits]\ntimout = \"1s\"\n",
        "[limit]\n",
        "timeout = \"1s\"\n",
        "[retry]\nruntime = \"x\"\n",
    ]));
}

#[test]
fn values_of_the_wrong_type() {
    snapshot!(refused(&[
        "enabled = \"true\"\n",
        "[limits]\ntimeout = 30\n",
        "limits = 3\n",
        "args = \"-x\"\n",
        "[env]\nA = 1\n",
        "[schedule]\ncron = \"@daily\"\n",
    ]));
}

#[test]
fn values_out_of_range() {
    snapshot!(refused(&[
        "[limits]\ntimeout = \"0s\"\n",
        "[limits]\ntimeout = \"30 sec\"\n",
        "[limits]\npids = -1\n",
        "[limits]\nmemory = \"12\"\n",
        "[retry]\nfactor = nan\n",
        "[retry]\nnot_on_exit = [0, 256]\n",
        "[queue]\noverlap = \"skp\"\n",
        "entry = \"../x\"\n",
        "[env]\n\"a b\" = \"x\"\n",
        "[env]\nA = \"x\\u0000\"\n",
        "[limits]\nmemory = \"256m\"\n",
        "[limits]\nmemory = \"256MiB\"\n",
    ]));
}

#[test]
fn routes_that_cannot_be() {
    let route = |rest: &str| format!("[[http]]\npath = \"/x\"\n{rest}\n");
    let none = "auth = \"none\"";
    let written = [
        "[[http]]\npath = \"/x\"\n".to_owned(),
        "[[http]]\npath = \"x\"\nauth = \"none\"\n".to_owned(),
        "[[http]]\npath = \"/users/{id}.json\"\nauth = \"none\"\n".to_owned(),
        "[[http]]\npath = \"/healthz\"\nauth = \"none\"\n".to_owned(),
        route("auth = \"tokn:a\""),
        route("auth = \"token:../a\""),
        route("auth = [\"none\", \"token:a\"]"),
        route("auth = []"),
        route(&format!("{none}\nmethods = [\"get\"]")),
        route(&format!("{none}\nwhen = {{ \"header\" = \"x\" }}")),
        route(&format!("{none}\nwhen = {{ \"body.a\" = {{ matches = \"(\" }} }}")),
        route(&format!("{none}\nwhen = {{ \"body.a\" = 3 }}")),
        route(&format!("{none}\nidempotency = \"cookie.id\"")),
        route(&format!("{none}\ncors = [\"example.com\"]")),
        route(&format!("{none}\nhost = \"Example.com:80\"")),
        route(&format!("{none}\nper = \"ip\"")),
        route(&format!("{none}\nstrip = true")),
        route("auth = \"token:a\"\nauthorization = true"),
        route(&format!("{none}\nanswer = {{ status = 200 }}")),
        route(&format!(
            "{none}\nasync = true\nanswer = {{ status = 99, headers = {{ \"a\" = \"b\" }} }}"
        )),
        route(&format!(
            "{none}\nasync = true\nanswer = {{ headers = {{ \"fnd-x\" = \"b\" }} }}"
        )),
        format!("{}{}", route(none), route(none)),
        format!(
            "[[http]]\npath = \"/u/{{id}}\"\n{none}\n[[http]]\npath = \"/u/{{name}}\"\nmethods = [\"GET\"]\n{none}\n"
        ),
        format!("{}[service]\n", route(none)),
    ];
    snapshot!(refused(&written.each_ref().map(String::as_str)));
}

#[test]
fn text_that_is_no_toml() {
    snapshot!(refused(&[
        "[limits]\ntimeout = 30s\n",
        "enabled = true\nenabled = false\n",
        "\u{feff}enabled = maybe\r\n",
    ]));
}

#[test]
fn all_problems_are_reported_at_once() {
    snapshot!(refused(&[
        "enabled = 1\nfoo = 2\n[limits]\ntimeout = 30s\npids = 0\n[retry]\nbackoff = \"expo\"\n"
    ]));
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
    snapshot!(refused(&[
        "dependencies = [\"requests\"]\n",
        "[[http]]\npath = \"x\"\n",
    ]));
}

#[test]
fn what_cannot_be_together() {
    snapshot!(refused(&[
        "[[file]]\npath = \"/\"\nthen = \"move:done\"\n",
        "[[file]]\npath = \"/srv/in\"\npattern = \"a/*\"\nthen = \"remove\"\n",
        "[[file]]\npath = \"/srv/in\"\nrecursive = true\nthen = \"move:done\"\n",
        "[retry]\ninterval = \"10s\"\nmax_interval = \"1s\"\n",
        "[limits]\nmemory = \"2M\"\n",
        "[limits]\nmemory_high = \"300M\"\n",
        "[poll]\nrepeat = \"1h\"\nuntil = \"1m\"\n",
        "permissions = [\"net\"]\n",
        "[env]\nDATA = \"x\"\nFND_X = \"y\"\n",
        "size = \"XXL\"\n",
        "runtime = \"pyhton\"\n",
        "[alert]\nafter = 2\n",
        "[alert]\ncall = \"page\"\non = [\"recovered\"]\n",
        "[alert]\ncall = \"page\"\non = [\"missed\"]\nafter = 2\n",
        "[alert]\ncall = \"page\"\non = [\"failed\"]\nexpect_success_every = \"1h\"\n",
        "[alert]\ncall = \"page\"\non = [\"node\"]\n",
        "[hooks]\non_failure = [{ on_failure = \"fail\" }]\n",
        "[hooks]\non_failure = [{ call = \"page\", on_failure = \"retry\" }]\n",
    ]));
}

#[test]
fn users_are_granted_by_root_alone() {
    let allowed = judge("[users]\nallow = [\"postgres\"]\n");
    let mut function = single(
        file("/f/x.sh", b""),
        Some("[sandbox]\nuser = \"postgres\"\nprofile = \"off\"\n"),
    );
    assert!(allowed.function(&function).plan.is_some());
    function.files.iter_mut().for_each(|file| file.trusted = false);
    let untrusted = shown(&allowed.function(&function).verdict.diagnostics);
    let refused = refused(&[
        "[sandbox]\nuser = \"postgres\"\n",
        "[sandbox]\nuser = \"root\"\n",
        "[sandbox]\nuser = \"0\"\n",
    ]);
    snapshot!(refused + "===\n" + &untrusted);
}

/// The spawner refuses its id, whatever the configuration allows.
#[test]
fn nobody_is_never_the_user_of_a_function() {
    let allowed = judge("[users]\nallow = [\"nobody\"]\n");
    let function = single(file("/f/x.sh", b""), Some("[sandbox]\nuser = \"nobody\"\n"));
    let judged = allowed.function(&function);
    assert!(judged.plan.is_none());
    assert!(shown(&judged.verdict.diagnostics).contains("is never given to a function"));
}

#[test]
fn env_files_that_are_not_there() {
    let of = |files| {
        shown(
            &judge("")
                .function(&directory(files, "env_file = \"x.env\""))
                .verdict
                .diagnostics,
        )
    };
    let main = || file("main.sh", b"");
    snapshot!(
        [
            refused(&["env_file = \"x.env\"\n"]),
            of(vec![main()]),
            of(vec![main(), file("x.env", b"A=1\nnothing\n")]),
        ]
        .join("===\n")
    );
}

#[test]
fn two_manifests_are_one_too_many() {
    let code = b"# /// fnd\n# enabled = true\n# ///\n";
    let judged = judge("").function(&single(file("/f/x.sh", code), Some("")));
    snapshot!(shown(&judged.verdict.diagnostics));
}

#[test]
fn inline_problems_point_into_the_code() {
    let code = b"#!/bin/bash\r\n# /// fnd\r\n# [limits]\r\n# pids = 0\r\n# ///\r\n";
    let judged = judge("").function(&single(file("/f/x.sh", code), None));
    snapshot!(shown(&judged.verdict.diagnostics));
}

#[test]
fn interpreter_lines_that_cannot_be_honoured_are_problems() {
    let said = |code: JudgedFile, manifest| shown(&judge("").function(&single(code, manifest)).verdict.diagnostics);
    assert_eq!(said(file("/f/x.sh", b"#!/usr/bin/env bash\n"), None), "");
    assert_eq!(said(file("/f/x.sh", b"#!/bin/bash -e\n"), None), "");
    assert_eq!(
        said(file("/f/x.py", b"#!/usr/bin/tclsh\n"), Some("runtime = \"python\"\n")),
        "",
        "the manifest says what is meant"
    );
    snapshot!(
        [
            said(file("/f/x.py", b"#!/usr/bin/tclsh\n"), None),
            said(file("/f/x.py", b"#!venv/bin/python\n"), None),
            said(
                file("/f/x.py", b"#!/usr/bin/python3.13\n"),
                Some("runtime = \"python3.11\"\n")
            ),
            said(file("/f/x.sh", b"#!/bin/sh\nhandler() { :; }\n"), None),
            said(file("/f/x.ts", b"#!/usr/bin/env -S deno run --allow-net\n"), None),
        ]
        .join("===\n")
    );
}

#[test]
fn entries_that_are_not_clear() {
    let of = |files, manifest| shown(&judge("").function(&directory(files, manifest)).verdict.diagnostics);
    snapshot!(
        [
            of(vec![file("lib.py", b"")], ""),
            of(vec![file("main.py", b""), file("index.ts", b"")], ""),
            of(vec![file("main.py", b"")], "entry = \"a.py\""),
        ]
        .join("===\n")
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

/// An entry has a line of its own, so the problem of each is found where it is written.
#[test]
fn an_entry_of_access_names_a_group_or_a_user() {
    let entry = |keys: &str| format!("[[access]]\nrole = \"viewer\"\n{keys}\n");
    let check = |text: String| {
        let (policy, document) = judge("").settings(&JudgeSettings {
            files: vec![file("/etc/fnd/fnd.toml", text.as_bytes())],
            runtimes: vec![],
        });
        let lines: Vec<String> = document.diagnostics.iter().map(Diagnostic::line).collect();
        assert_eq!(policy.is_none(), !lines.is_empty(), "{lines:?}");
        (lines.join("\n"), document.settings)
    };
    for (text, expected) in [
        (entry(""), "fnd.toml:1:1: this entry of `[[access]]` names neither"),
        (
            entry("group = \"adm\"\nuser = \"ada\""),
            "fnd.toml:4:8: this entry of `[[access]]` names both",
        ),
        (entry("user = \"ada\"") + &entry(""), "fnd.toml:4:1: "),
        (entry("user = \"ada\"\nfunctions = [\"Web/*\"]"), "fnd.toml:4:14: "),
        (entry("user = \"ada\"\nfunctions = [\"\"]"), "fnd.toml:4:14: "),
        (entry("user = \"ada\"\nfunctions = \"web/*\""), "fnd.toml:4:13: "),
        (entry("user = \"a da\""), "fnd.toml:3:8: "),
    ] {
        let (lines, _) = check(text);
        assert!(lines.contains(expected), "{expected}: {lines}");
    }
    let text = entry("user = \"ada\"\nfunctions = [\"web/*\", \"hello\"]") + &entry("group = \"adm\"");
    let (lines, settings) = check(text);
    assert_eq!(lines, "");
    let access = settings.unwrap().access;
    assert_eq!(
        (access[0].user.as_deref(), access[0].group.as_deref()),
        (Some("ada"), None)
    );
    let functions = access[0].functions.clone();
    assert_eq!(functions, Some(vec!["web/*".to_owned(), "hello".to_owned()]));
    assert_eq!(
        (access[1].group.as_deref(), access[1].functions.as_ref()),
        (Some("adm"), None)
    );
}

#[test]
fn the_configuration_points_into_the_right_file() {
    let mut judge = judge("");
    let files = vec![
        file("/etc/fnd/fnd.toml", b"keep_versions = 0\n[users]\nrange = [5, 9]\n"),
        file("/etc/fnd/conf.d/a.toml", b"[defaults.limits]\ntimeot = \"1s\"\ntmp = \"1K\"\n[http]\nlisten = \"127.0.0.1:80\"\n[[access]]\ngroup = \"x\"\n"),
    ];
    let (policy, document) = judge.settings(&JudgeSettings {
        files,
        runtimes: vec![],
    });
    assert!(policy.is_none() && document.settings.is_none());
    let (_, misplaced) = judge.settings(&JudgeSettings {
        files: vec![file("fnd.toml", b"[limits]\n")],
        runtimes: vec![],
    });
    snapshot!([shown(&document.diagnostics), shown(&misplaced.diagnostics)].join("===\n"));
    // The previous configuration stays.
    assert_eq!(judge.runtimes().len(), 12);
}

#[test]
fn diagnostics_are_shown_with_their_line_and_cannot_forge_another() {
    let judged = judge("").function(&single(
        file("/f/x.sh", b""),
        Some("description = \"\"\nruntime = \"pyhton\"\n"),
    ));
    let text = judged.verdict.diagnostics[0].render(Colour::Plain);
    assert!(text.starts_with("error: unknown runtime `pyhton`\n"), "{text}");
    assert!(
        text.contains("--> /f/x.toml:2:11") && text.contains("2 | runtime = \"pyhton\"") && text.contains("^^^^^^^^"),
        "{text}"
    );
    assert!(text.contains("help: did you mean `python`?"), "{text}");
    let mut problem = judged.verdict.diagnostics[0].clone();
    problem.message = "a\nerror: forged \u{1b}[31m\u{202e}".to_owned();
    for shown in [problem.render(Colour::Plain), problem.line()] {
        assert!(
            !shown.contains('\u{1b}') && !shown.contains('\u{202e}') && !shown.contains("\nerror: forged"),
            "{shown:?}"
        );
    }
}

#[test]
fn subscriptions_that_cannot_be() {
    let of = |schema: Option<&str>| {
        let mut files = vec![file("main.sh", b"")];
        files.extend(schema.map(|schema| file("a.json", schema.as_bytes())));
        let own = "[[event]]\ntype = \"a\"\nschema = \"a.json\"\n";
        shown(&judge("").function(&directory(files, own)).verdict.diagnostics)
    };
    let refused = refused(&[
        "[[event]]\nsource = \"s\"\n",
        "[[event]]\ntype = \"a.*.b\"\n",
        "[[event]]\ntype = \"a\"\nsource = \"s/*\"\n",
        "[[event]]\ntype = \"a\"\nwhen = { \"query.x\" = \"1\", \"header.host\" = \"1\" }\n",
        "[[event]]\ntype = \"a\"\nkey = \"ip\"\n",
        "[[event]]\ntype = \"a\"\n[[event]]\ntype = \"a\"\n",
        "mode = \"service\"\n[[event]]\ntype = \"a\"\n",
        "[[event]]\ntype = \"a\"\nschema = \"a.json\"\n",
        "[[event]]\ntype = \"a\"\nschema = \"../a.json\"\n",
    ]);
    snapshot!(
        [
            refused,
            of(None),
            of(Some("{")),
            of(Some("{\"type\": \"objekt\"}")),
            of(Some("{\"$ref\": \"https://example.com/a.json\"}")),
        ]
        .join("===\n")
    );
}

#[test]
fn mistakes_are_reported_together_with_a_runtime_that_is_not_known() {
    let own = "runtime = \"pyhton\"\nsize = \"XXL\"\n[queue]\ngroup = \"db\"\nper_key = 2\n[retry]\ninterval = \"10s\"\nmax_interval = \"1s\"\n[poll]\nrepeat = \"1h\"\nuntil = \"1m\"\n";
    let expected = [
        "2:8 unknown-size: ",
        "4:9 unknown-group: ",
        "5:11 impossible: ",
        "8:16 impossible: ",
        "11:9 impossible: ",
    ];
    let check = |found: &[Diagnostic], more: &[&str]| {
        let found = reported(found);
        for expected in expected.iter().chain(more) {
            assert!(
                found.iter().any(|line| line.starts_with(expected)),
                "{expected}: {found:?}"
            );
        }
        assert_eq!(found.len(), expected.len() + more.len(), "{found:?}");
    };
    let of = |code: &[u8]| {
        let judged = judge("").function(&single(file("/f/x.sh", code), Some(own)));
        judged.verdict.diagnostics
    };
    check(&of(b"echo\n"), &["1:11 unknown-runtime: "]);
    check(&judge("").manifest("/f/x.toml", own.as_bytes()), &[]);
    // Neither is the code of a source known before it is fetched.
    let source = JudgeFunction {
        name: FunctionName::new("x").unwrap(),
        files: Vec::new(),
        manifest: Some(file(
            "/f/x/function.toml",
            b"[source]\ngit = \"https://example.com/x.git\"\nref = \"main\"\n[queue]\ngroup = \"db\"\n",
        )),
        form: CodeLayout::Directory,
    };
    let judged = judge("").function(&source);
    assert_eq!(
        reported(&judged.verdict.diagnostics),
        ["5:9 unknown-group: unknown group `db`"]
    );
    assert!(judged.build.is_none(), "nothing is fetched");
}

#[test]
fn groups_and_keys_that_cannot_be() {
    let settings = "[groups]\ndb = { max = 2 }\nlicence = { max = 1 }\n";
    let of = |settings: &str, own: &str| {
        let judged = judge(settings).function(&single(file("/f/x.sh", b"echo\n"), Some(own)));
        judged.verdict.diagnostics
    };
    assert!(
        of(
            settings,
            "[queue]\ngroup = \"db\"\nkey = \"body.customer\"\nper_key = 2\n"
        )
        .is_empty()
    );
    let unknown = of(settings, "[queue]\ngroup = \"bd\"\n");
    assert_eq!(reported(&unknown), ["2:9 unknown-group: unknown group `bd`"]);
    let help = unknown[0].help.as_deref().unwrap_or_default();
    assert!(
        help.contains("`db` and `licence`") || help.contains("db, licence") || help.contains("`db`, `licence`"),
        "{help}"
    );
    let none = of("", "[queue]\ngroup = \"db\"\n");
    assert!(
        none[0]
            .help
            .as_deref()
            .unwrap_or_default()
            .contains("`fnd.toml` has no groups")
    );
    // A stored version goes on without its group. Its other mistakes refuse it, as they refuse a file.
    for (own, is_accepted) in [
        ("[queue]\ngroup = \"db\"\n", true),
        ("[queue]\ngroup = \"db\"\nper_key = 2\n", false),
    ] {
        let function = single(file("/f/x.sh", b"echo\n"), Some(own));
        for (request, is_accepted) in [
            (JudgeRequest::Function(function.clone()), false),
            (JudgeRequest::Check(function.clone()), false),
            (JudgeRequest::Stored(function), is_accepted),
        ] {
            let JudgeReply::Function(judgment) = judge("").answer(&request) else {
                panic!("another answer")
            };
            assert_eq!(judgment.verdict.plan.is_some(), is_accepted, "{own}");
            let verdict: Verdict = serde_json::from_slice(&judgment.verdict.document.0).unwrap();
            let group = verdict
                .manifest
                .as_ref()
                .and_then(|manifest| manifest.queue.group.as_deref());
            assert_eq!(group, is_accepted.then_some("db"), "{own}");
        }
    }
    for (own, expected) in [
        ("[queue]\nper_key = 2\n", "2:11 impossible: `queue.per_key` counts"),
        ("[queue]\nkey = \"body.a\"\nper_key = 0\n", "3:11 "),
        ("[queue]\nkey = \"bdy.a\"\n", "2:7 "),
        ("[queue]\nkey = \"body.\"\n", "2:7 "),
        ("[queue]\nkey = 7\n", "2:7 "),
        ("[queue]\ngroup = \"a b\"\n", "2:9 "),
        (
            "[service]\n[queue]\ngroup = \"db\"\n",
            "2:1 impossible: `queue` has no effect",
        ),
    ] {
        let found = reported(&of(settings, own));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{own}: {found:?}");
    }
    // What `[defaults]` says is for the functions to which it applies.
    assert!(
        of(
            "[groups]\ndb = { max = 2 }\n[defaults.queue]\ngroup = \"db\"\nper_key = 2\n",
            "[service]\n"
        )
        .is_empty()
    );
    for (settings, expected) in [
        (
            "[defaults.queue]\ngroup = \"db\"\n",
            "2:9 unknown-group: unknown group `db`",
        ),
        ("[groups]\ndb = { max = 0 }\n", "2:14 "),
        ("[groups]\ndb = {}\n", "2:"),
        ("[groups]\ndb = 2\n", "2:6 "),
    ] {
        let (policy, document) = Judge::new().settings(&JudgeSettings {
            files: vec![file("/etc/fnd/fnd.toml", settings.as_bytes())],
            runtimes: shipped_runtimes(),
        });
        let found = reported(&document.diagnostics);
        assert!(
            policy.is_none() && found.iter().any(|line| line.starts_with(expected)),
            "{settings}: {found:?}"
        );
    }
}
