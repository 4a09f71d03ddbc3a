//! Accepted input and its result.

use super::*;
use crate::function::{Manifest, Mode, RetryOn};
use fnd_wire::plan::User;
use std::time::Duration;

#[test]
fn a_script_without_manifest_has_every_default() {
    let judged = judge("").function(&single(file("/f/x.sh", b"echo hi\n"), None));
    let plan = judged.plan.as_ref().unwrap();
    assert_eq!(plan.interpreters, ["/usr/bin/bash", "/bin/bash"]);
    assert_eq!(
        (plan.asked_interpreters, plan.unix_text, &plan.user),
        (0, true, &User::Own)
    );
    assert_eq!(argv(&judged), ["{entry}"]);
    let manifest = judged.verdict.manifest.unwrap();
    assert_eq!(
        (manifest.mode, manifest.on_load, manifest.pool.max),
        (Mode::Script, true, 1)
    );
    assert_eq!(manifest.limits.timeout, Some(Duration::from_secs(180)));
    assert_eq!((manifest.limits.memory, manifest.limits.swap), (256 << 20, 0));
    assert_eq!(manifest.retry.on.len(), 6);
    assert!(!manifest.retry.on.contains(&RetryOn::Interrupted) && manifest.poll.is_none());
    assert_eq!(judged.verdict.diagnostics, []);
}

/// The spawner checks the bounds of a plan again. A limit that the judge accepts and the spawner refuses would be found only at
/// the installation, after `fndctl validate` found nothing wrong.
#[test]
fn the_spawner_takes_the_smallest_and_the_largest_limits_of_a_manifest() {
    let largest = "grace = \"36500d\"\nmemory = \"1125899906842624\"\nmemory_high = \"1125899906842624\"\nswap = \"1152921504606846976\"\n\
        cpu = \"10000\"\ncpu_weight = 10000\npids = 4194304\nopen_files = 1048576\nio_weight = 10000\n";
    let smallest = "grace = \"0\"\nmemory = \"4M\"\nmemory_high = \"1M\"\nswap = \"0\"\ncpu = \"1m\"\ncpu_weight = 1\n\
        pids = 1\nopen_files = 16\nio_weight = 1\n";
    for limits in [largest, smallest] {
        let manifest = format!("[limits]\n{limits}");
        let judged = judge("").function(&single(file("/f/x.sh", b"echo hi\n"), Some(&manifest)));
        assert_eq!(reported(&judged.verdict.diagnostics), [""; 0]);
        let plan = judged.plan.unwrap();
        assert_eq!(plan.flaw(&FunctionName::new("x").unwrap(), true), None);
    }
}

#[test]
fn documents_survive_their_json() {
    let judged = judge("").function(&single(
        file("/f/x.py", b"print(1)\n"),
        Some("data = {a = [1, 2.5, {b = true}]}\n[poll]\n"),
    ));
    let text = serde_json::to_string(&judged.verdict).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), judged.verdict);
    assert!(
        text.contains("\"timeout\":\"180s\"") && text.contains("\"file_size\":\"none\""),
        "{text}"
    );
    let mut judge = Judge::new();
    let (_, document) = judge.settings(&JudgeSettings {
        files: vec![],
        runtimes: shipped_runtimes(),
    });
    let text = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<SettingsDocument>(&text).unwrap(), document);
}

/// A script whose author probably expects something else of the file runs only when it is asked to.
#[test]
fn a_script_in_doubt_does_not_run_by_itself() {
    const METADATA: &[u8] = b"# /// script\n# dependencies = [\"requests\"]\n# ///\nimport requests\n";
    const WITH_MANIFEST: &[u8] = b"# /// script\n# dependencies = []\n# ///\n# /// fnd\n# ///\n";
    for (code, manifest, expected) in [
        (METADATA, None, (true, vec![])),
        (METADATA, Some("description = \"x\"\n"), (true, vec![])),
        (WITH_MANIFEST, None, (true, vec![])),
        (b"def main(args):\n    return 1\n", None, (false, vec!["not-called"])),
        (
            b"def main(args):\n    return 1\n",
            Some("on_load = true\n"),
            (true, vec!["not-called"]),
        ),
        (
            b"def main(args):\n    return 1\n",
            Some("mode = \"script\"\n"),
            (true, vec![]),
        ),
        (b"def main(args):\n    return 1\nmain(0)\n", None, (true, vec![])),
        (
            b"def foo(event, context):\n    return 1\n",
            None,
            (false, vec!["not-called"]),
        ),
        (
            b"def foo(event, context):\n    return 1\n",
            Some("handler = \"x.foo\"\n"),
            (false, vec![]),
        ),
        (b"#!/usr/bin/env -S uv run\n", None, (false, vec!["interpreter"])),
        (
            b"#!/usr/bin/env -S uv run\n",
            Some("runtime = \"python\"\n"),
            (true, vec![]),
        ),
        (
            b"#!/usr/bin/python3.13\n",
            Some("runtime = \"python3.11\"\n"),
            (true, vec!["two-interpreters"]),
        ),
    ] {
        let judged = judge("").function(&single(file("/f/x.py", code), manifest)).verdict;
        let codes: Vec<_> = judged.diagnostics.iter().map(|problem| problem.code.as_str()).collect();
        assert_eq!((judged.manifest.unwrap().on_load, codes), expected, "{manifest:?}");
    }
    let judged = judge("[defaults]\non_load = true\n")
        .function(&single(file("/f/x.py", b"def main(args):\n    return 1\n"), None));
    assert!(
        !judged.verdict.manifest.unwrap().on_load,
        "the default knows nothing of this file"
    );
}

#[test]
fn on_load_false_gives_the_whole_pool() {
    let judged = judge("").function(&single(file("/f/x.sh", b""), Some("on_load = false\n")));
    let manifest = judged.verdict.manifest.unwrap();
    assert_eq!((manifest.on_load, manifest.pool.max), (false, 4));
}

#[test]
fn sizes_fill_limits_and_limits_win() {
    let limits = |settings: &str, own: &str| {
        let judged = judge(settings).function(&single(file("/f/x.sh", b""), Some(own)));
        let limits = judged
            .verdict
            .manifest
            .unwrap_or_else(|| panic!("{:?}", reported(&judged.verdict.diagnostics)))
            .limits;
        (limits.memory >> 20, limits.cpu, limits.asked.join(","))
    };
    assert_eq!(limits("", "size = \"L\""), (1024, Some(800), String::new()));
    assert_eq!(
        limits("", "size = \"L\"\n[limits]\nmemory = \"100M\""),
        (100, Some(800), "memory".into())
    );
    assert_eq!(limits("[defaults]\nsize = \"S\"", ""), (256, Some(200), String::new()));
    assert_eq!(
        limits("[defaults.limits]\nmemory = \"64M\"\npids = 9", "size = \"M\""),
        (512, Some(400), String::new())
    );
    assert_eq!(
        limits("[defaults.limits]\nmemory = \"64M\"", "[limits]\npids = 5\ncpu = 2"),
        (64, Some(2000), "cpu,pids".into())
    );
    assert_eq!(
        limits(
            "[sizes]\nM = { memory = \"300M\" }\nhuge = { cpu = \"8\" }",
            "size = \"M\""
        ),
        (300, Some(400), String::new())
    );
}

#[test]
fn an_inline_block_is_a_manifest() {
    let code = b"#!/bin/bash\n# /// fnd\n# [limits]\n# timeout = \"30s\"\n# ///\necho\n";
    let judged = judge("").function(&single(file("/f/x.sh", code), None));
    assert_eq!(
        judged.verdict.manifest.unwrap().limits.timeout,
        Some(Duration::from_secs(30))
    );
}

/// The `#!` line decides alone, whether or not the file is executable: there is no other interpreter to fall back to.
#[test]
fn the_interpreter_line_decides() {
    let check = |name: &str, code: &str, interpreters: &[&str], asked: u32, expected: &[&str]| {
        for of in [executable, file] {
            let judged = judge("").function(&single(of(name, code.as_bytes()), None));
            assert_eq!(argv(&judged), expected, "{code}");
            let plan = judged.plan.unwrap();
            let found = &plan.interpreters[..interpreters.len()];
            assert_eq!(found, interpreters, "{code}");
            assert!(asked == 0 || found.len() == plan.interpreters.len(), "{code}");
            assert_eq!(plan.asked_interpreters, asked, "{code}");
            assert_eq!(judged.verdict.diagnostics, [], "{code}");
        }
    };
    let default = &["/usr/bin/python3", "/usr/local/bin/python3"];
    check("/f/x.py", "#!/usr/bin/env python3\n", default, 0, &["{entry}"]);
    for (line, interpreter) in [
        ("#!/srv/venv/bin/python", "/srv/venv/bin/python"),
        ("#!/usr/bin/python3.13", "/usr/bin/python3.13"),
    ] {
        check("/f/x.py", line, &[interpreter], 1, &["{entry}"]);
    }
    check(
        "/f/x.py",
        "#!/usr/local/bin/python3 -u\r\n",
        &["/usr/local/bin/python3"],
        1,
        &["-u", "{entry}"],
    );
    check(
        "/f/x.py",
        "#!/usr/bin/env python3.12\n",
        &["/usr/bin/python3.12", "/usr/local/bin/python3.12", "/bin/python3.12"],
        3,
        &["{entry}"],
    );
    check("/f/x.sh", "#!/bin/bash -e\n", &["/bin/bash"], 1, &["-e", "{entry}"]);
    check("/f/x.sh", "#!/bin/sh\n", &["/bin/sh"], 1, &["{entry}"]);
    check(
        "/f/x.sh",
        "#!/usr/bin/env -S bash -eu\n",
        &["/usr/bin/bash"],
        0,
        &["-eu", "{entry}"],
    );
    check(
        "/f/x.py",
        "#!/usr/bin/env bash\necho\n",
        &["/usr/bin/bash"],
        0,
        &["{entry}"],
    );
}

#[test]
fn what_the_kernel_executes_is_run_by_exec() {
    let run = |name: &str, code: &[u8]| judge("").function(&single(executable(name, code), Some("args = [\"a b\"]")));
    for (name, code) in [
        ("/f/x", b"\x7fELF\x02".as_slice()),
        ("/f/x.tcl", b"#!/usr/bin/tclsh\n"),
        ("/f/x", b"#!/bin/sh\n"),
    ] {
        let judged = run(name, code);
        assert_eq!(argv(&judged), ["a b"]);
        let plan = judged.plan.unwrap();
        assert_eq!(
            (plan.runtime.as_str(), plan.interpreters.len(), plan.unix_text),
            ("exec", 0, false)
        );
    }
    assert!(run("/f/x", b"#!/bin/sh\r\necho\r\n").plan.unwrap().unix_text);
}

#[test]
fn the_suffix_and_the_code_choose_the_runtime() {
    let runtime = |name: &str, code: &str| {
        judge("")
            .function(&single(file(name, code.as_bytes()), None))
            .plan
            .map(|plan| plan.runtime)
    };
    for (name, code, expected) in [
        ("/f/x.ts", "console.log(1)", "deno"),
        ("/f/x.js", "console.log(1)", "deno"),
        ("/f/x.js", "const fs = require('fs'); console.log(fs)", "node"),
        ("/f/x.cjs", "console.log(1)", "node"),
        ("/f/x.bash", "", "bash"),
    ] {
        assert_eq!(runtime(name, code).as_deref(), Some(expected), "{name} {code}");
    }
    let plain = |settings: &str, own: Option<&str>| {
        judge(settings)
            .function(&single(file("/f/x", b"print(1)"), own))
            .plan
            .map(|plan| plan.runtime)
    };
    assert_eq!(plain("[defaults]\nruntime = \"deno\"", None).as_deref(), Some("deno"));
    assert_eq!(
        plain("[defaults]\nruntime = \"deno\"", Some("runtime = \"python\"")).as_deref(),
        Some("python")
    );
    assert_eq!(plain("", None), None);
}

#[test]
fn versions_come_from_runtime_and_configuration() {
    let run = |settings: &str, name: &str| {
        let judged = judge(settings).function(&single(file("/f/x.py", b""), Some(&format!("runtime = \"{name}\""))));
        (
            judged.plan.map(|plan| plan.interpreters),
            reported(&judged.verdict.diagnostics),
        )
    };
    assert_eq!(run("", "python3.11").0.unwrap(), ["/usr/bin/python3.11"]);
    let own = "[runtimes]\npython = { interpreters = { \"3.12\" = \"/opt/py/bin/python3.12\" } }\n";
    assert_eq!(run(own, "python3.12").0.unwrap(), ["/opt/py/bin/python3.12"]);
    assert_eq!(
        run("", "python2.7").1,
        ["1:11 unknown-version: runtime `python` has no version `2.7`"]
    );
    // The names of other systems: without the dot, or with a part of the version only.
    assert_eq!(run("", "python311").0.unwrap(), ["/usr/bin/python3.11"]);
    assert_eq!(run("", "python3").0, run("", "python").0);
    assert_eq!(run("", "python3").1, [""; 0]);
    let default = "[runtimes.python.interpreters]\ndefault = \"/opt/py\"\n";
    assert_eq!(run(default, "python").0.unwrap().first().unwrap(), "/opt/py");
}

#[test]
fn deno_is_granted_what_the_contract_says_and_what_the_manifest_adds() {
    let run = |own: &str| judge("").function(&single(file("/f/x.ts", b""), Some(own)));
    let plain = run("[env]\nTOKEN = \"x\"\n");
    let flags = argv(&plain);
    assert_eq!(flags.get(..3).unwrap(), ["run", "--no-prompt", "--no-lock"]);
    let env = flags.iter().find(|flag| flag.starts_with("--allow-env=")).unwrap();
    assert!(env.contains("FND_FUNCTION,") && env.ends_with(",TOKEN"), "{env}");
    assert!(
        env.contains(",REQUEST_METHOD,") && env.contains(",HTTP_*,FND_PARAM_*,"),
        "{env}"
    );
    assert!(flags.contains(&"--allow-read={code},{credentials},{bindings},{tmp}"));
    assert!(flags.contains(&"--allow-write={tmp},{state},{result}"));
    assert_eq!(flags.iter().filter(|flag| flag.starts_with("--allow-")).count(), 3);

    let more = run("permissions = [\"net\", \"read=/srv/{code}\"]");
    let argv = &more.plan.as_ref().unwrap().argv;
    let own = argv
        .iter()
        .find(|text| text.text == "--allow-read=/srv/{code}")
        .unwrap();
    assert!(!own.template, "a manifest's text is no template");
    assert!(argv.iter().any(|text| text.text == "--allow-net"));

    let asks = run("[access]\ninvoke = [\"b\"]");
    for flag in [
        "--allow-read={api}/fnd.sock",
        "--allow-write={api}/fnd.sock",
        "--allow-net=unix:{api}/fnd.sock",
    ] {
        assert!(super::argv(&asks).contains(&flag), "{flag}");
    }

    let keptn = run("permissions = [\"keptn\"]");
    let flags = super::argv(&keptn);
    for flag in ["--allow-net", "--allow-read", "--allow-write"] {
        assert!(flags.contains(&flag), "{flag}");
    }
    assert!(
        !flags.iter().any(|flag| flag.starts_with("--allow-read=")),
        "a list would narrow it"
    );
}

#[test]
fn a_program_cannot_grant_itself_permissions() {
    let code = b"#!/usr/bin/env -S deno run --allow-net --no-check -A\n";
    let judged = judge("").function(&single(executable("/f/x.ts", code), None));
    let flags = argv(&judged);
    assert!(!flags.contains(&"--allow-net") && !flags.contains(&"-A") && flags.contains(&"--no-check"));
    assert_eq!(flags.iter().filter(|flag| **flag == "run").count(), 1);
    assert_eq!(
        reported(&judged.verdict.diagnostics),
        ["permissions: `--allow-net -A` of the `#!` line has no effect"]
    );
    assert!(
        !judged.verdict.manifest.unwrap().on_load,
        "it would run without what its author gave it"
    );
    let judged = judge("").function(&single(executable("/f/x.ts", code), Some("permissions = [\"net\"]\n")));
    assert_eq!(reported(&judged.verdict.diagnostics), [""; 0]);
    assert!(
        judged.verdict.manifest.unwrap().on_load,
        "the manifest says what is meant"
    );
}

#[test]
fn arguments_and_environment_are_in_order() {
    let own = "args = [\"-i\", \"a b\"]\ninterpreter_args = [\"-X\", \"dev\"]\n[env]\nPYTHONUNBUFFERED = \"0\"\n";
    let judged = judge("[defaults.env]\nA = \"1\"").function(&single(file("/f/x.py", b""), Some(own)));
    assert_eq!(argv(&judged), ["-X", "dev", "{entry}", "-i", "a b"]);
    let names: Vec<(String, String)> = judged
        .plan
        .unwrap()
        .environment
        .into_iter()
        .map(|(name, text)| (name, text.text))
        .collect();
    let names: Vec<(&str, &str)> = names
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let (always, own) = names.split_at(fnd_wire::plan::ALWAYS.len());
    assert_eq!(always, fnd_wire::plan::ALWAYS);
    assert_eq!(
        own,
        [
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("PYTHONUNBUFFERED", "0"),
            ("CMD_ARGS", "-X dev"),
            ("A", "1")
        ]
    );
}

#[test]
fn a_directory_has_one_entry() {
    let files = || {
        vec![
            file("main.py", b"print(1)\n"),
            file("lib.py", b""),
            file("README.md", b""),
        ]
    };
    let judged = judge("").function(&directory(files(), ""));
    assert_eq!(judged.plan.unwrap().entry, "main.py");
    let judged = judge("").function(&directory(files(), "entry = \"lib.py\""));
    assert_eq!(judged.plan.unwrap().entry, "lib.py");
}

#[test]
fn an_env_file_is_read() {
    let own = "env_file = \"x.env\"\n[env]\nB = \"own\"\n";
    let files = vec![file("main.sh", b""), file("x.env", b"A=1\nB=2\n")];
    let judged = judge("").function(&directory(files, own));
    let env: Vec<(String, String)> = judged.verdict.manifest.unwrap().env.into_iter().collect();
    assert_eq!(env, [("A".into(), "1".into()), ("B".into(), "own".into())]);
}

#[test]
fn a_long_first_interval_lifts_the_cap() {
    let judged = judge("").function(&single(file("/f/x.sh", b""), Some("[retry]\ninterval = \"10m\"")));
    assert_eq!(
        judged.verdict.manifest.unwrap().retry.max_interval,
        Duration::from_secs(600)
    );
}

#[test]
fn the_configuration_merges_in_order() {
    let mut judge = Judge::new();
    let files = vec![
        file(
            "/etc/fnd/fnd.toml",
            b"[users]\nallow = [\"a\", \"b\"]\n[node]\nmax_workers = 7\nreserve_memory = \"64M\"\n",
        ),
        file(
            "/etc/fnd/conf.d/10.toml",
            b"[users]\nallow = [\"c\"]\nallow_root = true\n[node]\nmax_workers = 8\n",
        ),
    ];
    let (policy, document) = judge.settings(&JudgeSettings {
        files,
        runtimes: vec![],
    });
    let settings = document.settings.unwrap();
    assert_eq!((settings.node.reserve_memory, settings.node.max_workers), (64 << 20, 8));
    let policy = policy.unwrap();
    assert_eq!(
        (policy.allow_users, policy.allow_root, policy.uid_range),
        (vec!["c".to_owned()], true, (70000, 99999))
    );
}

#[test]
fn a_spin_needs_more_than_one_cpu() {
    let settings = |spin: &str, cpus| {
        let text = format!("[node]\nspin = \"{spin}\"\n");
        let files = vec![file("/etc/fnd/fnd.toml", text.as_bytes())];
        let (_, document) = Judge::new().with_cpus(cpus).settings(&JudgeSettings {
            files,
            runtimes: vec![],
        });
        let lines: Vec<String> = document.diagnostics.iter().map(Diagnostic::line).collect();
        (document.settings.map(|settings| settings.node.spin), lines.join("\n"))
    };
    assert_eq!(settings("50us", 2), (Some(50), String::new()));
    assert_eq!(settings("0", 1), (Some(0), String::new()));
    let (refused, line) = settings("50us", 1);
    assert_eq!(refused, None);
    assert!(
        line.starts_with("error: /etc/fnd/fnd.toml:2:8: `node.spin` needs more than one CPU"),
        "{line}"
    );
    let (refused, line) = settings("2000us", 2);
    assert_eq!(refused, None);
    let expected = "expected a number of microseconds from `\"0\"` to `\"1000us\"`, found `2000us`";
    assert!(line.ends_with(expected) && line.contains("fnd.toml:2:8"), "{line}");
}

/// After an upgrade the judge of the older fnd may run until the next restart.
#[test]
fn a_verdict_without_interpreters_is_read() {
    let judged = judge("").function(&single(file("/f/x.sh", b"echo\n"), None));
    assert!(!judged.verdict.interpreters.is_empty());
    let mut document = serde_json::to_value(&judged.verdict).unwrap();
    document.as_object_mut().unwrap().remove("interpreters");
    let read: Verdict = serde_json::from_value(document).unwrap();
    assert_eq!(read.interpreters, Vec::<String>::new());
    assert_eq!(read.manifest, judged.verdict.manifest);
}

#[test]
fn events_are_subscribed_to_with_a_schema_beside_the_code() {
    let own = "[[event]]\ntype = \"order.*\"\nsubject = \"orders/*\"\nschema = \"order.json\"\nkey = \"body.order\"\n\
        when = { \"header.ce-source\" = \"shop\" }\n";
    let files = vec![file("main.sh", b""), file("order.json", b"{\"type\": \"object\"}")];
    let manifest = judge("").function(&directory(files, own)).verdict.manifest.unwrap();
    assert!(!manifest.on_load, "a script with a trigger does not run by itself");
    let [event] = manifest.event.as_slice() else { panic!() };
    assert_eq!(
        (event.r#type.as_str(), event.subject.as_deref()),
        ("order.*", Some("orders/*"))
    );
    assert_eq!(event.json_schema, Some(serde_json::json!({"type": "object"})));
    assert_eq!((event.when.len(), event.key.is_some()), (1, true));
    let text = serde_json::to_string(&manifest).unwrap();
    assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
}

/// The help names the manifest's key, or the system whose form it is.
#[test]
fn a_form_of_another_system_is_named() {
    for (path, code, expected) in [
        (
            "/f/x.py",
            "def foo(event, context):\n    pass\n",
            "write `handler = \"x.foo\"` into the manifest",
        ),
        (
            "/f/x.rb",
            "def foo(event, context)\nend\n",
            "write `handler = \"x.foo\"` into the manifest",
        ),
        (
            "/f/x.php",
            "<?php\nfunction foo($event, $context) {\n}\n",
            "write `handler = \"x.foo\"` into the manifest",
        ),
        (
            "/f/x.py",
            "def main():\n    pass\n",
            "if it is Kyma's `main()`, write `handler = \"x.main\"`",
        ),
        (
            "/f/x.py",
            "def main(args):\n    pass\n",
            "`main(args)` of OpenWhisk is not supported",
        ),
        (
            "/f/x.py",
            "def handle(req):\n    pass\n",
            "`handle(request)` of OpenFaaS is not supported",
        ),
    ] {
        let judged = judge("").function(&single(file(path, code.as_bytes()), None)).verdict;
        let help = judged
            .diagnostics
            .iter()
            .filter_map(|problem| problem.help.clone())
            .next()
            .unwrap_or_default();
        assert!(help.contains(expected), "{code}: {:?}", judged.diagnostics);
    }
}

/// Keptn's programs read the context as it was written.
#[test]
fn the_context_keeps_the_order_of_the_file() {
    let manifest = "[context]\nworkloadName = \"w\"\nappName = \"a\"\nlist = [{ z = 1, b = 2.5 }]\n[context.objectType]\nb = true\na = 'x\"'\n";
    let judged = judge("")
        .function(&single(file("/f/x.sh", b"echo\n"), Some(manifest)))
        .verdict;
    let expected = r#"{"workloadName":"w","appName":"a","list":[{"z":1,"b":2.5}],"objectType":{"b":true,"a":"x\""}}"#;
    assert_eq!(judged.manifest.unwrap().context.unwrap().get(), expected);
}
