//! Programs for AWS Lambda: which directories and archives are some, how they start, and the payload of their routes.

use super::*;
use crate::function::Mode;
use crate::function::route::HttpPayload;
use crate::judge::choose::ARCH;
use fnd_wire::plan::RunMode;

/// Returns a function with these files and this manifest.
fn tree(form: CodeLayout, files: Vec<JudgedFile>, manifest: Option<&str>) -> JudgeFunction {
    JudgeFunction {
        name: FunctionName::new("x").unwrap(),
        files,
        manifest: manifest.map(|text| file("/f/x/function.toml", text.as_bytes())),
        form,
    }
}

fn of(form: CodeLayout, files: Vec<JudgedFile>, manifest: Option<&str>) -> Judged {
    judge("").function(&tree(form, files, manifest))
}

fn bootstrap(manifest: &str) -> Judged {
    let files = vec![executable("bootstrap", b"#!/bin/sh\n")];
    of(CodeLayout::Directory, files, Some(manifest))
}

#[test]
fn an_executable_bootstrap_is_of_the_runtime_lambda_unless_the_manifest_names_another() {
    let (zip, tar) = ("/f/x.zip".to_owned(), "/f/x.tar.gz".to_owned());
    for form in [
        CodeLayout::Directory,
        CodeLayout::Archive(zip),
        CodeLayout::Archive(tar),
    ] {
        for (executes, manifest, expected) in [
            (true, None, "lambda"),
            (true, Some(""), "lambda"),
            (true, Some("handler = \"any::text\""), "lambda"),
            (true, Some("entry = \"bootstrap\""), "lambda"),
            (true, Some("runtime = \"lambda\""), "lambda"),
            (true, Some("runtime = \"lambda\"\nentry = \"bootstrap\""), "lambda"),
            (true, Some("runtime = \"exec\"\nentry = \"bootstrap\""), "exec"),
            (true, Some("runtime = \"bash\""), "bash"),
            (true, Some("entry = \"main.sh\""), "bash"),
            (false, Some(""), "bash"),
        ] {
            let program = if executes { executable } else { file };
            let files = vec![program("bootstrap", b"#!/bin/sh\n"), file("main.sh", b"echo\n")];
            let judged = of(form.clone(), files, manifest);
            let found = judged.plan.as_ref().map(|plan| plan.runtime.as_str());
            let problems = reported(&judged.verdict.diagnostics);
            assert_eq!(found, Some(expected), "{form:?} {executes} {manifest:?}: {problems:?}");
        }
    }
    // A file of its own is a program as any other.
    let alone = judge("").function(&single(executable("/f/bootstrap", b"#!/bin/sh\n"), None));
    assert_eq!(alone.plan.unwrap().runtime, "exec");
}

#[test]
fn fnd_helper_starts_it_and_it_is_a_handler() {
    let judged = bootstrap("handler = \"orders::handle\"\n[pool]\nconcurrency = 4\n");
    assert_eq!(argv(&judged), ["--lambda", "{entry}", "4"]);
    let plan = judged.plan.unwrap();
    assert_eq!(plan.interpreters, [HELPER]);
    assert_eq!(plan.mode, RunMode::Handler(String::new()));
    assert_eq!(plan.entry, "bootstrap");
    let named = |name: &str| {
        let mut variables = plan.environment.iter();
        variables.find(|(found, _)| found == name).unwrap().1.text.as_str()
    };
    assert_eq!([named("MOD_NAME"), named("FUNC_HANDLER")], ["orders::handle", ""]);
    assert_eq!(judged.verdict.manifest.unwrap().mode, Mode::Handler);
    let mut judge = judge("").with_helper("/opt/fnd-helper".to_owned());
    let function = tree(CodeLayout::Directory, vec![executable("bootstrap", b"")], None);
    assert_eq!(
        judge.function(&function).plan.unwrap().interpreters,
        ["/opt/fnd-helper"]
    );
    // Other settings change nothing about where the program is.
    judge.settings(&JudgeSettings {
        files: Vec::new(),
        runtimes: shipped_runtimes(),
    });
    assert_eq!(
        judge.function(&function).plan.unwrap().interpreters,
        ["/opt/fnd-helper"]
    );
}

#[test]
fn the_manifest_may_be_in_the_program() {
    let code = b"#!/bin/sh\n# /// fnd\n# timeout = 1\n# [limits]\n# timeout = \"9s\"\n# ///\n";
    let judged = of(CodeLayout::Directory, vec![executable("bootstrap", code)], None);
    let problems = reported(&judged.verdict.diagnostics);
    assert!(problems.len() == 1 && problems[0].starts_with("3:"), "{problems:?}");
}

#[test]
fn a_directory_that_looks_like_a_group_is_named() {
    let warning = "pointless: `a.toml` is no manifest here: with an executable `bootstrap`, the directory is one function and no \
                   group";
    for (beside, manifest, expected) in [
        (&["a.py", "a.toml"][..], None, vec![warning]),
        (&["a.py", "a.toml"], Some(""), vec![]),
        (&["a.py", "Cargo.toml", "Cargo.lock"], None, vec![]),
        (&["lib/a.py", "lib/a.toml"], None, vec![]),
    ] {
        let mut files: Vec<_> = beside.iter().map(|path| file(path, b"")).collect();
        files.push(executable("bootstrap", b"#!/bin/sh\n"));
        let judged = of(CodeLayout::Directory, files, manifest);
        assert_eq!(reported(&judged.verdict.diagnostics), expected, "{beside:?}");
        assert_eq!(judged.plan.unwrap().runtime, "lambda");
    }
}

#[test]
fn what_cannot_run_is_refused() {
    let main = || file("main.sh", b"echo\n");
    let missing = "no-entry: the directory has no executable `bootstrap`, which runtime `lambda` runs";
    let at_runtime = format!("1:11 {missing}");
    for (files, manifest, expected) in [
        (
            vec![file("bootstrap", b"#!/bin/sh\n")],
            Some("runtime = \"lambda\""),
            "not-executable: runtime `lambda` executes the file itself, but the file is not executable",
        ),
        (vec![main()], Some("runtime = \"lambda\""), at_runtime.as_str()),
        (vec![main()], None, missing),
        (vec![main(), file("bootstrap", b"")], None, missing),
    ] {
        let judged = of(CodeLayout::Directory, files, manifest);
        assert_eq!(reported(&judged.verdict.diagnostics), [expected], "{manifest:?}");
    }
    let packed = of(
        CodeLayout::Archive("/f/x.zip".to_owned()),
        vec![file("bootstrap", b"")],
        None,
    );
    assert_eq!(
        reported(&packed.verdict.diagnostics),
        ["no-entry: no file to run: `bootstrap` is not executable"]
    );
    let help = packed.verdict.diagnostics[0].help.as_deref().unwrap();
    assert!(help.contains("pack it again"), "{help}");
    let packed = of(
        CodeLayout::Archive("/f/x.tar.gz".to_owned()),
        vec![file("bootstrap", b"")],
        None,
    );
    assert_eq!(
        packed.verdict.diagnostics[0].help.as_deref(),
        Some("chmod +x bootstrap")
    );
    assert_eq!(
        reported(&bootstrap("mode = \"script\"").verdict.diagnostics),
        ["1:8 impossible: runtime `lambda` has only handlers"]
    );
    let closed = "2:11 impossible: this `sandbox.network` closes the port of `127.0.0.1` at which the program asks for its calls";
    for (network, expected) in [
        ("\"host\"", vec![]),
        ("\"loopback\"", vec![]),
        ("\"none\"", vec![closed]),
        ("[\"connect:443\"]", vec![closed]),
    ] {
        let judged = bootstrap(&format!("[sandbox]\nnetwork = {network}\n"));
        assert_eq!(reported(&judged.verdict.diagnostics), expected, "{network}");
    }
    for table in ["service", "http_server"] {
        let judged = bootstrap(&format!("[{table}]\n"));
        let [problem] = judged.verdict.diagnostics.as_slice() else {
            panic!("{:?}", judged.verdict.diagnostics);
        };
        assert_eq!(problem.message, "runtime `lambda` has only handlers");
    }
}

#[test]
fn a_program_for_another_machine_is_refused() {
    let elf = |machine: u16| {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(18, 0);
        bytes.extend(machine.to_le_bytes());
        let files = vec![executable("bootstrap", &bytes)];
        reported(&of(CodeLayout::Directory, files, None).verdict.diagnostics)
    };
    for (machine, name) in [(62, "x86_64"), (183, "aarch64")] {
        let said = format!("other-machine: it is a program for `{name}`, and this machine is `{ARCH}`");
        let expected = if name == ARCH { Vec::new() } else { vec![said] };
        assert_eq!(elf(machine), expected);
    }
    // The kernel may run others, such as those of 32 bits.
    assert_eq!(elf(3), [""; 0]);
}

const ROUTE: &str = "[[http]]\npath = \"/a\"\nauth = \"none\"\n";

fn payloads(judged: Judged) -> Vec<HttpPayload> {
    let routes = judged.verdict.manifest.unwrap().http;
    routes.iter().map(|route| route.payload).collect()
}

#[test]
fn the_usual_mistakes_of_a_zip_have_their_remedy() {
    let zip = || CodeLayout::Archive("/f/x.zip".to_owned());
    for (path, manifest, message, help) in [
        (
            "nest/bootstrap",
            None,
            "`nest/bootstrap` is inside a folder",
            "`cd nest && zip -r ../x.zip .`",
        ),
        (
            "a/b/bootstrap",
            Some("runtime = \"lambda\""),
            "`a/b/bootstrap` is inside a folder",
            "`cd a/b && zip -r ../../x.zip .`",
        ),
        (
            "lambda_function.py",
            None,
            "`lambda_function.py` has a name",
            "`--handler`",
        ),
    ] {
        // A second file: the only directory at the top would be left out of the paths.
        let files = vec![executable(path, b"#!/bin/sh\n"), file("read.me", b"")];
        let judged = of(zip(), files, manifest);
        let problem = &judged.verdict.diagnostics[0];
        assert!(problem.message.contains(message), "{}", problem.message);
        let found = problem.help.as_deref().unwrap_or_default();
        assert!(found.contains(help), "{found}");
    }
}

#[test]
fn a_bootstrap_of_bash_that_names_sh_has_a_warning() {
    let files = vec![executable("bootstrap", b"#!/bin/sh\nset -euo pipefail\n")];
    let judged = of(CodeLayout::Directory, files, None);
    let found = judged.verdict.diagnostics[0].help.as_deref();
    assert_eq!(found, Some("write `#!/bin/bash` as the first line"));
}

#[test]
fn runtimes_of_aws_have_the_word_to_write() {
    let python = file("/f/x.py", b"print(1)\n");
    let python = judge("").function(&single(python, Some("runtime = \"python3.12.x\"\n")));
    for (judged, help) in [
        (bootstrap("runtime = \"provided.al2023\"\n"), "write `lambda`"),
        (bootstrap("runtime = \"provided\"\n"), "write `lambda`"),
        (python, "write `python3.12`"),
    ] {
        let found = judged.verdict.diagnostics[0].help.as_deref().unwrap_or_default();
        assert!(found.starts_with(help), "{found}");
    }
}

#[test]
fn a_route_brings_what_its_runtime_expects_unless_it_says_so() {
    let two = format!("{ROUTE}[[http]]\npath = \"/b\"\nauth = \"none\"\npayload = \"data\"\n");
    assert_eq!(payloads(bootstrap(&two)), [HttpPayload::Lambda, HttpPayload::Data]);
    let python = |more: &str| {
        let code = file("/f/x.py", b"def handler(event, context):\n    return 1\n");
        judge("").function(&single(code, Some(&format!("{ROUTE}{more}"))))
    };
    assert_eq!(payloads(python("")), [HttpPayload::Data]);
    assert_eq!(payloads(python("payload = \"lambda\"")), [HttpPayload::Lambda]);
    let wrong = reported(&python("payload = \"aws\"").verdict.diagnostics);
    assert!(wrong.len() == 1 && wrong[0].starts_with("4:11 "), "{wrong:?}");
    let script = single(
        file("/f/x.sh", b"echo\n"),
        Some(&format!("{ROUTE}payload = \"lambda\"")),
    );
    assert_eq!(
        reported(&judge("").function(&script).verdict.diagnostics),
        [
            "4:11 impossible: `payload = \"lambda\"` is for handlers, whose result is an object with `statusCode`, and this \
             function has the mode `script`"
        ]
    );
}

#[test]
fn a_route_of_an_earlier_fnd_has_the_body_as_payload() {
    let mut routes = bootstrap(ROUTE).verdict.manifest.unwrap().http;
    let mut route = routes.remove(0);
    assert_eq!(serde_json::to_value(&route).unwrap()["payload"], "lambda");
    route.payload = HttpPayload::Data;
    let before = serde_json::to_value(&route).unwrap();
    assert_eq!(before.get("payload"), None);
    let read: crate::function::HttpRoute = serde_json::from_value(before).unwrap();
    assert_eq!(read, route);
}

#[test]
fn the_program_of_fnd_is_the_first_item_of_handlers_alone() {
    for (text, expected) in [
        (
            "[phases.handle]\ncommand = [\"{entry}\", \"{helper}\"]",
            vec!["3:11 bad-value: `phases.handle.command`: unknown template `{helper}`"],
        ),
        (
            "[phases.run]\ncommand = [\"{helper}\"]",
            vec![
                "3:11 bad-value: `phases.run.command`: expected `{interpreter}` or `{entry}` as the first item",
                "3:11 bad-value: `phases.run.command`: unknown template `{helper}`",
            ],
        ),
        (
            "interpreters = [\"/bin/x\"]\n[phases.handle]\ncommand = [\"{helper}\"]",
            vec!["2:16 bad-value: `interpreters` has no effect beside `{helper}`"],
        ),
        (
            "description = \"x\"",
            vec!["missing-key: `[phases.run] command` is missing"],
        ),
    ] {
        let problems = runtime::read::runtime("/r/x/runtime.toml", format!("id = \"x\"\n{text}\n").as_bytes());
        assert_eq!(reported(&problems.unwrap_err()), expected, "{text}");
    }
}
