//! Functions of mode `handler`: how they are detected, how their workers start, and their pools.

use super::*;
use crate::function::{Isolation, Mode, PoolKeys};
use fnd_wire::plan::RunMode;
use std::time::Duration;

const PYTHON: &str = r#"
id = "python"
suffixes = [".py"]
names = ["python", "python3"]
interpreters = ["/usr/bin/python3"]
shim = "lib/shim.py"
floors = { memory = "16M" }
[versions."3.11"]
interpreter = "/usr/bin/python3.11"
[phases.run]
command = ["{interpreter}", "{interpreter_args}", "{entry}", "{args}"]
env = { ONLY_SCRIPTS = "1" }
[phases.handle]
command = ["{interpreter}", "-P", "{interpreter_args}", "{shim}", "{entry}", "{concurrency}", "{args}"]
env = { ONLY_HANDLERS = "{cache}/x" }
"#;

const DENO: &str = r#"
id = "deno"
suffixes = [".ts"]
interpreters = ["/usr/bin/deno"]
shim = "shim.ts"
floors = { memory = "64M" }
[permissions]
read = ["{code}"]
[phases.run]
command = ["{interpreter}", "run", "{permissions}", "{entry}"]
[phases.handle]
command = ["{interpreter}", "run", "{permissions}", "{shim}", "{entry}", "{socket}"]
env = { OF_THE_PHASE = "1" }
permissions = { net = ["unix:{socket}"] }
"#;

const EXEC: &str = r#"
id = "exec"
[phases.run]
command = ["{entry}", "{args}"]
[phases.handle]
command = ["{entry}", "{args}"]
"#;

const RUBY: &str = r#"
id = "ruby"
suffixes = [".rb"]
interpreters = ["/usr/bin/ruby"]
[phases.run]
command = ["{interpreter}", "{entry}"]
"#;

const SHELL: &str = r#"
id = "shell"
suffixes = [".sh"]
names = ["bash", "sh"]
interpreters = ["/usr/bin/bash"]
shim = "shim.sh"
[phases.run]
command = ["{interpreter}", "{entry}"]
[phases.handle]
command = ["{interpreter}", "{interpreter_args}", "{shim}", "{entry}"]
names = ["bash"]
"#;

const CODE: &[u8] = b"import os\n\ndef handler(event, context):\n    return 1\n";

fn with(settings: &str) -> Judge {
    let mut judge = Judge::new();
    let runtimes = [
        ("python", PYTHON),
        ("deno", DENO),
        ("exec", EXEC),
        ("ruby", RUBY),
        ("shell", SHELL),
    ];
    let runtimes =
        runtimes.map(|(id, text)| file(&format!("/usr/lib/fnd/runtimes/{id}/runtime.toml"), text.as_bytes()));
    let (_, document) = judge.settings(&JudgeSettings {
        files: vec![file("/etc/fnd/fnd.toml", settings.as_bytes())],
        runtimes: runtimes.to_vec(),
    });
    assert_eq!(reported(&document.diagnostics), [""; 0]);
    judge
}

fn handler(manifest: &str) -> Judged {
    with("").function(&single(file("/f/x.py", CODE), Some(manifest)))
}

fn problems(manifest: &str) -> Vec<String> {
    reported(&handler(manifest).verdict.diagnostics)
}

fn pool(judged: Judged) -> PoolKeys {
    let reported = reported(&judged.verdict.diagnostics);
    judged.verdict.manifest.unwrap_or_else(|| panic!("{reported:?}")).pool
}

#[track_caller]
fn variable(judged: &Judged, name: &str) -> String {
    let environment = &judged.plan.as_ref().unwrap().environment;
    let found: Vec<&PlanText> = environment
        .iter()
        .filter(|(found, _)| found == name)
        .map(|(_, text)| text)
        .collect();
    assert_eq!(found.len(), 1, "{name}");
    found.first().unwrap().text.clone()
}

#[test]
fn a_shim_learns_how_many_calls_it_gets_at_once() {
    let last = |manifest: &str| argv(&handler(manifest)).last().map(|text| (*text).to_owned());
    assert_eq!(last("[pool]\nconcurrency = 10\n").as_deref(), Some("10"));
    assert_eq!(last("[pool]\nisolation = \"invocation\"\n").as_deref(), Some("1"));
}

#[test]
fn a_handler_in_the_code_is_served_by_the_shim() {
    let judged = handler("args = [\"a b\"]\ninterpreter_args = [\"-X\", \"dev\"]\n");
    assert_eq!(judged.verdict.mode_reason, "`def handler` at line 3");
    assert_eq!(argv(&judged), ["-P", "-X", "dev", "{shim}", "{entry}", "1", "a b"]);
    let plan = judged.plan.as_ref().unwrap();
    assert_eq!(
        plan.mode,
        RunMode::Handler("/usr/lib/fnd/runtimes/python/lib/shim.py".to_owned())
    );
    assert_eq!(plan.interpreters, ["/usr/bin/python3", "/usr/bin/python3.11"]);
    assert_eq!(variable(&judged, "ONLY_HANDLERS"), "{cache}/x");
    assert!(
        plan.environment.iter().all(|(name, _)| name != "ONLY_SCRIPTS"),
        "each phase has its own"
    );
    let manifest = judged.verdict.manifest.unwrap();
    assert_eq!((manifest.mode, manifest.on_load), (Mode::Handler, false));
    let poll = manifest.poll.unwrap();
    assert_eq!(
        (poll.repeat, poll.until),
        (Duration::from_secs(15), Duration::from_secs(3600))
    );
}

#[test]
fn the_manifest_has_the_last_word_on_the_mode() {
    let mode = |path: &str, code: &[u8], manifest: &str| {
        let judged = with("").function(&single(executable(path, code), Some(manifest)));
        let reported = reported(&judged.verdict.diagnostics);
        let manifest = judged.verdict.manifest.unwrap_or_else(|| panic!("{reported:?}"));
        (manifest.mode, judged.verdict.mode_reason)
    };
    let says_so = || "the manifest says so".to_owned();
    assert_eq!(mode("/f/x.py", CODE, "mode = \"script\""), (Mode::Script, says_so()));
    assert_eq!(
        mode("/f/x.py", b"print(1)", "mode = \"handler\""),
        (Mode::Handler, says_so())
    );
    assert_eq!(
        mode("/f/x", b"#!/bin/sh\n", "mode = \"handler\""),
        (Mode::Handler, says_so())
    );
    assert_eq!(
        mode("/f/x.py", b"print(1)", "mode = \"auto\"\nhandler = \"x.work\""),
        (Mode::Handler, "the manifest names `x.work`".to_owned())
    );
    assert_eq!(
        mode("/f/x.py", b"print(1)", ""),
        (Mode::Script, "no handler found in the code".to_owned())
    );
}

#[test]
fn a_program_may_use_the_protocol_itself() {
    let judged = with("").function(&single(
        executable("/f/x", b"\x7fELF"),
        Some("mode = \"handler\"\nargs = [\"-v\"]"),
    ));
    assert_eq!(argv(&judged), ["-v"]);
    assert_eq!(judged.plan.unwrap().mode, RunMode::Handler(String::new()));
}

#[test]
fn workers_have_the_variables_of_kubeless() {
    let judged =
        handler("runtime = \"python3.11\"\nhandler = \"hello.work\"\n[limits]\ntimeout = \"1500ms\"\nmemory = \"64M\"");
    for (name, expected) in [
        ("MOD_NAME", "hello"),
        ("FUNC_HANDLER", "work"),
        ("FUNC_TIMEOUT", "1.5"),
        ("FUNC_RUNTIME", "python3.11"),
        ("FUNC_MEMORY_LIMIT", "67108864"),
        ("FUNC_PORT", "8080"),
    ] {
        assert_eq!(variable(&judged, name), expected);
    }
    let found = handler("[limits]\ntimeout = \"none\"");
    let value = |name| variable(&found, name);
    assert_eq!(
        (value("MOD_NAME"), value("FUNC_HANDLER")),
        ("x".to_owned(), String::new())
    );
    assert_eq!(
        (value("FUNC_RUNTIME"), value("FUNC_TIMEOUT")),
        ("python".to_owned(), "0".to_owned())
    );
    // Of a runtime without versions, too: functions of Kyma have another form from `nodejs26` on.
    let code = file("/f/x.ts", b"export default function () {}");
    let named = with("").function(&single(code, Some("runtime = \"deno2\"")));
    assert_eq!(variable(&named, "FUNC_RUNTIME"), "deno2");
    let script = with("").function(&single(file("/f/x.py", b""), None));
    assert!(
        script
            .plan
            .unwrap()
            .environment
            .iter()
            .all(|(name, _)| name != "MOD_NAME")
    );
}

#[test]
fn deno_may_read_the_variables_of_workers() {
    let judged = with("").function(&single(file("/f/x.ts", b"export default function () {}"), None));
    let flags = argv(&judged);
    let env = flags.iter().find(|flag| flag.starts_with("--allow-env=")).unwrap();
    assert!(
        env.ends_with(",OF_THE_PHASE,MOD_NAME,FUNC_HANDLER,FUNC_TIMEOUT,FUNC_RUNTIME,FUNC_MEMORY_LIMIT,FUNC_PORT"),
        "{env}"
    );
    let expected = [
        "--allow-read={code}",
        "--allow-net=unix:{socket}",
        "{shim}",
        "{entry}",
        "{socket}",
    ];
    assert_eq!(flags.get(2..), Some(&expected[..]));
}

#[test]
fn the_module_names_the_file() {
    let files = || vec![file("hello.py", b"def work(e, c): pass\n"), file("main.py", CODE)];
    let entry = |manifest: &str| {
        let judged = with("").function(&directory(files(), manifest));
        let reported = reported(&judged.verdict.diagnostics);
        judged.plan.map(|plan| plan.entry).ok_or(reported)
    };
    assert_eq!(entry("handler = \"hello.work\"").unwrap(), "hello.py");
    assert_eq!(
        entry("handler = \"hello.work\"\nentry = \"main.py\"").unwrap(),
        "main.py"
    );
    assert_eq!(entry("").unwrap(), "main.py");
    assert_eq!(
        entry("handler = \"gone.work\"").unwrap_err(),
        [
            "no-entry: no file to run: expected `gone.*`, the module of `handler`, with a known suffix, or an executable file"
        ]
    );
}

#[test]
fn memory_caps_the_pool() {
    let counts = |manifest: &str| {
        let pool = pool(handler(manifest));
        (pool.min, pool.max, pool.spare, pool.fit)
    };
    assert_eq!(counts(""), (0, 4, 2, 16));
    assert_eq!(counts("[limits]\nmemory = \"40M\""), (0, 2, 2, 2));
    assert_eq!(counts("[limits]\nmemory = \"16M\""), (0, 1, 1, 1));
    assert_eq!(counts("[pool]\nmin = 3\nmax = 16\nspare = 5"), (3, 16, 5, 16));
    // Values of `[defaults]` are reduced to what is possible for this function.
    let all = with("[defaults.pool]\nmin = 3\nmax = 100\nspare = 50")
        .function(&single(file("/f/x.py", CODE), Some("[pool]\nmax = 2")));
    let pool = pool(all);
    assert_eq!((pool.min, pool.max, pool.spare), (2, 2, 16));
}

#[test]
fn the_keys_of_the_pool_are_taken() {
    let own = "[pool]\nconcurrency = 10\nidle = \"none\"\nmax_invocations = 7\nmax_age = \"1h\"\n";
    let asked = pool(handler(own));
    assert_eq!((asked.concurrency, asked.idle, asked.max_invocations), (10, None, 7));
    assert_eq!(
        (asked.max_age, asked.isolation),
        (Some(Duration::from_secs(3600)), Isolation::Worker)
    );
    let default = pool(handler("[pool]\nisolation = \"invocation\""));
    assert_eq!(
        (default.idle, default.isolation),
        (Some(Duration::from_secs(300)), Isolation::Invocation)
    );
    let judged = handler(own);
    let text = serde_json::to_string(&judged.verdict).unwrap();
    assert!(
        text.contains("\"idle\":\"none\"") && text.contains("\"isolation\":\"worker\""),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), judged.verdict);
}

#[test]
fn a_pool_that_cannot_be() {
    let holds = "has room for 4 workers of runtime `python` with 16M each";
    assert_eq!(
        problems("[limits]\nmemory = \"64M\"\n[pool]\nmin = 5\nmax = 6\n"),
        [
            format!("4:7 impossible: `pool.min` is 5, but `limits.memory` of 64M {holds}"),
            format!("5:7 impossible: `pool.max` is 6, but `limits.memory` of 64M {holds}"),
        ]
    );
    assert_eq!(
        problems("[limits]\nmemory = \"64M\"\n[pool]\nspare = 9\nisolation = \"invocation\"\n"),
        [format!(
            "4:9 impossible: `pool.spare` is 9, but `limits.memory` of 64M {holds}"
        )]
    );
    assert_eq!(
        problems("[pool]\nmin = 3\nmax = 2\n"),
        ["2:7 impossible: `pool.min` is 3, more than `pool.max`, which is 2"]
    );
    assert_eq!(
        problems("[pool]\nconcurrency = 2\nisolation = \"invocation\"\n"),
        [
            "2:15 impossible: `pool.concurrency` is 2, but with `isolation = \"invocation\"` a worker serves only one invocation"
        ]
    );
}

#[test]
fn scripts_have_no_workers_to_keep() {
    let script =
        |settings: &str, manifest: &str| with(settings).function(&single(file("/f/x.py", b"print(1)"), Some(manifest)));
    assert_eq!(
        reported(
            &script("", "[pool]\nmin = 1\nspare = 2\nidle = \"1m\"\nmax = 40\n")
                .verdict
                .diagnostics
        ),
        [
            "2:7 impossible: `pool.min` is only for handlers and HTTP programs: a script has one process for each attempt",
            "4:8 impossible: `pool.idle` is only for handlers and HTTP programs: a script has one process for each attempt",
        ]
    );
    let pool = pool(script("[defaults.pool]\nmin = 3\nmax = 9", "on_load = false"));
    assert_eq!((pool.min, pool.max), (0, 9));
}

#[test]
fn what_no_handler_can_be() {
    assert_eq!(
        problems("handler = \"a.b.c\""),
        ["1:11 bad-value: `handler`: expected module.function, found `a.b.c`"]
    );
    assert_eq!(
        problems("handler = \"work\""),
        ["1:11 bad-value: `handler`: expected module.function, found `work`"]
    );
    assert_eq!(
        problems("mode = \"script\"\nhandler = \"x.work\""),
        ["2:11 impossible: `handler` has no effect with `mode = \"script\"`, which runs the whole file"]
    );
    assert_eq!(
        problems("[env]\nMOD_NAME = \"y\""),
        ["2:12 reserved: the variable `MOD_NAME` is set by fnd itself"]
    );
    let ruby = with("").function(&single(file("/f/x.rb", b"puts 1"), Some("mode = \"handler\"")));
    assert_eq!(
        reported(&ruby.verdict.diagnostics),
        ["1:8 no-handlers: runtime `ruby` has no handlers (the manifest says so)"]
    );
    assert_eq!(
        ruby.verdict.diagnostics.first().unwrap().help.as_deref(),
        Some(
            "runtimes with handlers: `deno`, `exec`, `python`, `shell`; set `mode = \"script\"` to run it as a script"
        )
    );
    let http = with("").function(&single(file("/f/x.ts", b"export default {\n fetch() {} }"), None));
    assert_eq!(
        reported(&http.verdict.diagnostics),
        ["1:1 no-handlers: runtime `deno` cannot serve `export default { fetch }` (line 1)"]
    );
}

#[test]
fn a_phase_that_cannot_start_a_worker() {
    let check = |phase: &str, expected: &str| {
        let text = format!("id = \"x\"\n{phase}\n");
        let problems = runtime::read::runtime("/r/x/runtime.toml", text.as_bytes()).unwrap_err();
        assert_eq!(reported(&problems), [expected], "{phase}");
    };
    let run = "[phases.run]\ncommand = [\"{interpreter}\"]\n[phases.handle]\n";
    check(
        &format!("shim = \"s\"\n{run}command = [\"{{interpreter}}\", \"{{entry}}\"]"),
        "6:11 bad-value: `shim` and `{shim}` in `phases.handle.command`: expected both or none",
    );
    check(
        &format!("{run}command = [\"{{interpreter}}\", \"{{shim}}\"]"),
        "5:11 bad-value: `shim` and `{shim}` in `phases.handle.command`: expected both or none",
    );
    check(
        &format!("{run}command = [\"{{entry}}\"]"),
        "5:11 bad-value: `phases.handle.command`: expected the first item of `phases.run.command`",
    );
    check(run, "4:1 missing-key: `phases.handle`: the key `command` is missing");
    check(
        "[phases.run]\ncommand = [\"{interpreter}\", \"{shim}\"]",
        "3:11 bad-value: `phases.run.command`: unknown template `{shim}`",
    );
    check(
        "[phases.run]\ncommand = [\"{interpreter}\", \"{socket}\"]",
        "3:11 bad-value: `phases.run.command`: unknown template `{socket}`",
    );
    check(
        &format!(
            "shim = \"s\"\n{run}command = [\"{{interpreter}}\", \"{{shim}}\"]\npermissions = {{ net = [\"{{sock}}\"] }}"
        ),
        "7:15 bad-value: `phases.handle.permissions`: unknown template `{sock}`",
    );
}

#[test]
fn an_unknown_template_is_answered_with_those_that_its_place_has() {
    let run = "id = \"x\"\n[phases.run]\ncommand = [\"{interpreter}\", \"{what}\"]\n";
    let handle = "id = \"x\"\nshim = \"s\"\n[phases.run]\ncommand = [\"{interpreter}\"]\n[phases.handle]\n\
                  command = [\"{interpreter}\", \"{shim}\", \"{what}\"]\n";
    for (text, has_shim) in [(run, false), (handle, true)] {
        let problems = runtime::read::runtime("/r/x/runtime.toml", text.as_bytes()).unwrap_err();
        let help = problems.first().unwrap().help.as_deref().unwrap();
        assert!(
            help.starts_with("known templates: ") && help.contains("`entry`"),
            "{help}"
        );
        assert_eq!(
            (help.contains("`shim`"), help.contains("`socket`")),
            (has_shim, has_shim),
            "{help}"
        );
    }
}

#[test]
fn a_least_version_that_cannot_be_compared() {
    let run = "[phases.run]\ncommand = [\"{interpreter}\"]\n";
    let probe = "probe = [\"{interpreter}\", \"-V\"]\n";
    for (keys, expected) in [
        (
            "min_version = \"2.9\"\n".to_owned(),
            "2:15 bad-value: `min_version`: expected `probe` beside it, which prints the version",
        ),
        (
            format!("min_version = \"v2\"\n{probe}"),
            "2:15 bad-value: `min_version`: expected numbers with a dot between them, such as `2.9`",
        ),
    ] {
        let text = format!("id = \"x\"\n{keys}{run}");
        let problems = runtime::read::runtime("/r/x/runtime.toml", text.as_bytes()).unwrap_err();
        assert_eq!(reported(&problems), [expected]);
    }
}

#[test]
fn a_runtime_without_a_name() {
    let text = "aliases = [\"x\"]\n[phases.run]\ncommand = [\"{interpreter}\"]\n";
    let problems = runtime::read::runtime("/r/x/runtime.toml", text.as_bytes()).unwrap_err();
    assert_eq!(reported(&problems), ["1:1 missing-key: the key `id` is missing"]);
}

#[test]
fn an_interpreter_that_serves_no_handlers_runs_scripts_only() {
    let judged = |line: &str, mode: &str| {
        let code = format!("{line}\nhandler() {{\n  cat\n}}\n");
        let manifest = format!("mode = \"{mode}\"");
        with("").function(&single(executable("/f/x.sh", code.as_bytes()), Some(&manifest)))
    };
    let asked = |judged: Judged| judged.plan.map(|plan| (plan.interpreters, plan.asked_interpreters));
    for line in ["#!/bin/sh -e", "#!/usr/bin/env sh"] {
        let handler = judged(line, "handler");
        let warned = reported(&handler.verdict.diagnostics);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(
            warned[0].contains("which cannot serve handlers; `/usr/bin/bash` can"),
            "{warned:?}"
        );
        assert_eq!(asked(handler), Some((vec!["/usr/bin/bash".to_owned()], 0)));
        let script = judged(line, "script");
        assert_eq!(reported(&script.verdict.diagnostics), [""; 0]);
        assert!(asked(script).is_some_and(|(_, asked)| asked > 0));
    }
    let handler = judged("#!/opt/bash", "handler");
    assert_eq!(reported(&handler.verdict.diagnostics), [""; 0]);
    assert!(asked(handler).is_some_and(|(paths, asked)| paths[0] == "/opt/bash" && asked == 1));
}

/// Returns the manifest's `[http_server]` with mode and reason, or the diagnostics.
fn http(path: &str, code: &[u8], text: &str) -> Result<(Judged, crate::function::HttpServer), Vec<String>> {
    let judged = judge("").function(&single(executable(path, code), Some(text)));
    let server = judged
        .verdict
        .manifest
        .as_ref()
        .and_then(|manifest| manifest.http_server.clone());
    let reported = reported(&judged.verdict.diagnostics);
    server.map(|server| (judged, server)).ok_or(reported)
}

#[test]
fn a_program_that_serves_http_is_started_like_a_script() {
    use crate::function::Listen;
    let (judged, server) = http("/f/x.py", b"serve()", "[http_server]\nready = \"/healthz\"\n").unwrap();
    let manifest = judged.verdict.manifest.as_ref().unwrap();
    assert_eq!(
        (manifest.mode, manifest.on_load, manifest.pool.max),
        (Mode::Http, false, 4)
    );
    assert_eq!(judged.verdict.mode_reason, "the manifest has `[http_server]`");
    assert_eq!(judged.plan.as_ref().unwrap().mode, RunMode::Script);
    assert_eq!(argv(&judged).last(), Some(&"{entry}"));
    assert_eq!(
        (server.listen, server.ready.as_deref()),
        (Listen::Free, Some("/healthz"))
    );
    let (judged, server) = http(
        "/f/x.py",
        b"serve()",
        "mode = \"http\"\n[http_server]\nlisten = \"unix\"\n",
    )
    .unwrap();
    assert_eq!(
        (judged.verdict.mode_reason.as_str(), server.listen),
        ("the manifest says so", Listen::Unix)
    );
    let (judged, server) = http("/f/x.py", b"serve()", "[http_server]\nport = 8080\n").unwrap();
    let max = judged.verdict.manifest.as_ref().unwrap().pool.max;
    assert_eq!((server.listen, max), (Listen::Port(8080), 1));
}

#[test]
fn a_module_with_fetch_is_served_by_its_runtime() {
    let code = b"export default {\n  fetch: () => new Response('x'),\n};\n";
    let (judged, server) = http("/f/x.ts", code, "permissions = [\"net=example.com\"]\n").unwrap();
    assert_eq!(judged.verdict.mode_reason, "`export default { fetch }` at line 1");
    assert_eq!(server.listen, crate::function::Listen::Told);
    let plan = judged.plan.as_ref().unwrap();
    assert_eq!(
        plan.mode,
        RunMode::Handler("/usr/lib/fnd/runtimes/deno/shim.mjs".to_owned())
    );
    let argv = argv(&judged);
    assert_eq!(argv.last(), Some(&"http"));
    assert!(
        argv.contains(&"--allow-net=127.0.0.1:0") && argv.contains(&"--allow-net=example.com"),
        "{argv:?}"
    );
    let (judged, _) = http("/f/x.ts", code, "permissions = [\"net\"]\n").unwrap();
    assert!(!super::argv(&judged).iter().any(|flag| flag.starts_with("--allow-net=")));
}

#[test]
fn a_command_is_a_file_of_the_function_or_a_program_by_its_path() {
    let (judged, _) = http(
        "/f/x.py",
        b"",
        "[http_server]\ncommand = [\"/usr/bin/caddy\", \"run\", \"{entry}\"]\n",
    )
    .unwrap();
    let plan = judged.plan.as_ref().unwrap();
    assert_eq!(
        (plan.interpreters.as_slice(), argv(&judged)),
        (&["/usr/bin/caddy".to_owned()][..], vec!["run", "{entry}"])
    );
    assert!(
        plan.argv.iter().all(|text| !text.template),
        "what a manifest says is no template"
    );
    let (judged, _) = http("/f/x.py", b"", "[http_server]\ncommand = [\"./x.py\", \"-v\"]\n").unwrap();
    let plan = judged.plan.as_ref().unwrap();
    assert_eq!((plan.interpreters.len(), plan.entry.as_str()), (0, "x.py"));
}

#[test]
fn what_no_program_that_serves_http_can_be() {
    let fetch: &[u8] = b"export default { fetch }\n";
    for (code, text, expected) in [
        (
            &b"x"[..],
            "[http_server]\ncommand = []\n",
            "2:11 bad-value: `http_server.command` is empty",
        ),
        (
            b"x",
            "[http_server]\ncommand = [\"caddy\"]\n",
            "2:11 bad-value: `http_server.command`: expected a path, found `caddy`",
        ),
        (
            b"x",
            "[http_server]\ncommand = [\"./no\"]\n",
            "2:11 bad-value: `http_server.command`: the function has no file `no`",
        ),
        (
            b"x",
            "mode = \"script\"\n[http_server]\n",
            "2:1 impossible: `[http_server]` has no effect with `mode = \"script\"`",
        ),
        (
            b"x",
            "mode = \"http\"\nhandler = \"x.y\"\n",
            "2:11 impossible: `handler` has no effect with `mode = \"http\"`, which runs the whole file",
        ),
        (
            b"x",
            "[http_server]\n[poll]\n",
            "2:1 impossible: `[poll]` is only for scripts and handlers: no other function can ask to be executed again",
        ),
        (
            b"x",
            "[http_server]\n[env]\nPORT = \"1\"\n",
            "3:8 reserved: the variable `PORT` is set by fnd itself",
        ),
        (
            b"x",
            "[http_server]\nport = 80\nlisten = \"unix\"\n",
            "2:8 impossible: `http_server.port` and `http_server.listen` exclude each other",
        ),
        (
            b"x",
            "[pool]\nmax = 2\n[http_server]\nport = 80\n",
            "2:7 impossible: `http_server.port` is a single port, on which only one worker can listen",
        ),
        (
            fetch,
            "[http_server]\nport = 80\n",
            "2:8 impossible: `http_server.port` has no effect on `export default { fetch }`, for which fnd starts the server",
        ),
    ] {
        let path = if code == fetch { "/f/x.ts" } else { "/f/x.py" };
        assert_eq!(
            http(path, code, text).map(|_| ()),
            Err(vec![expected.to_owned()]),
            "{text}"
        );
    }
}

#[test]
fn a_service_is_started_like_a_script_and_has_no_invocations() {
    let of = |text: &str| judge("").function(&single(file("/f/x.py", CODE), Some(text)));
    let judged = of("[service]\nreplicas = 3\nready = \"path:/up\"\n");
    assert_eq!(reported(&judged.verdict.diagnostics), [""; 0]);
    assert_eq!(judged.verdict.mode_reason, "the manifest has `[service]`");
    assert_eq!(argv(&judged).last(), Some(&"{entry}"));
    assert_eq!(judged.plan.as_ref().unwrap().mode, RunMode::Script);
    let manifest = judged.verdict.manifest.unwrap();
    assert_eq!(
        (manifest.mode, manifest.on_load, manifest.pool.max),
        (Mode::Service, false, 3)
    );
    let service = manifest.service.unwrap();
    assert_eq!((service.replicas, service.ready.as_deref()), (3, Some("/up")));
    for (written, expected) in [
        ("INT", Some(2)),
        ("SIGINT", Some(2)),
        ("SIGUSR1", Some(10)),
        ("WINCH", Some(28)),
        ("TERM", None),
        ("SIGTERM", None),
    ] {
        let judged = of(&format!("[service]\nstop_signal = \"{written}\"\n"));
        assert_eq!(judged.plan.unwrap().stop_signal(), expected, "{written}");
    }
    for (text, expected) in [
        (
            "[service]\nstop_signal = \"SIGKILL\"\n",
            "2:15 bad-value: `service.stop_signal`: expected `TERM`, `INT`, `QUIT`, `HUP`, `USR1`, `USR2`, `WINCH`, `SIGTERM`, `SIGINT`, \
             `SIGQUIT`, `SIGHUP`, `SIGUSR1`, `SIGUSR2` or `SIGWINCH`, found `SIGKILL`",
        ),
        (
            "[service]\n[env]\nFND_STOP_SIGNAL = \"9\"\n",
            "3:19 reserved: the variable `FND_STOP_SIGNAL` is set by fnd itself",
        ),
        (
            "[service]\nready = \"/up\"\n",
            "2:9 bad-value: `service.ready`: expected `none` or `path:/...`, found `/up`",
        ),
        (
            "[service]\n[pool]\nmax = 2\n",
            "2:1 impossible: `pool` has no effect on a service, which is kept running and never invoked",
        ),
        (
            "[service]\n[retry]\nretries = 2\n",
            "3:11 impossible: `retry.retries` has no effect on a service, which is kept running and never invoked",
        ),
        (
            "on_load = true\n[service]\n",
            "1:11 impossible: `on_load` has no effect on a service, which always runs",
        ),
        (
            "[service]\nreplicas = 20\n",
            "2:12 impossible: `service.replicas` is 20, but `limits.memory` of 256M has room for 16 processes of runtime `python` with 16M each",
        ),
        (
            "mode = \"script\"\n[service]\n",
            "2:1 impossible: `[service]` has no effect with `mode = \"script\"`",
        ),
        (
            "[service]\ncommand = [\"x\"]\n",
            "2:11 bad-value: `service.command`: expected a path, found `x`",
        ),
    ] {
        assert_eq!(reported(&of(text).verdict.diagnostics), [expected], "{text}");
    }
}
