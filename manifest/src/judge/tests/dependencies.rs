//! Dependencies: where they are found, and the build that installs them.

use super::*;
use crate::function::BuildNetwork;
use fnd_wire::plan::{BUILD, OFFLINE, PlannedBuild};
use fnd_wire::sandbox::Network;

const SCRIPT: &[u8] =
    b"# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\"requests\"]\n# ///\nimport requests\n";

fn build_of(function: &JudgeFunction) -> Option<PlannedBuild> {
    let judged = judge("").function(function);
    assert!(judged.plan.is_some(), "{:?}", reported(&judged.verdict.diagnostics));
    judged.build
}

/// Returns what the installer reads, and the files that it gets.
fn found(function: &JudgeFunction) -> Option<(serde_json::Value, Vec<String>)> {
    let build = build_of(function)?;
    Some((serde_json::from_slice(&build.made.1.0).unwrap(), build.inputs))
}

fn list(items: &[&str]) -> serde_json::Value {
    serde_json::json!({ "list": items, "file": null, "language": null })
}

fn named(file: &str) -> serde_json::Value {
    serde_json::json!({ "list": [], "file": file, "language": null })
}

#[test]
fn a_list_of_the_manifest_is_used_before_everything_else() {
    let with = |manifest: &str| found(&single(file("/f/x.py", SCRIPT), Some(manifest)));
    let inputs = Vec::new();
    assert_eq!(
        with("dependencies = [\"six>=1\", \"idna\"]"),
        Some((list(&["six>=1", "idna"]), inputs.clone()))
    );
    assert_eq!(with("dependencies = []"), None);
    let metadata = serde_json::json!({ "list": ["requests"], "file": null, "language": ">=3.11" });
    assert_eq!(with(""), Some((metadata, inputs)));
}

#[test]
fn a_file_of_the_directory_is_used_if_it_lists_something() {
    let with = |name: &str, files: &[(&str, &str)], manifest: &str| {
        let mut all = vec![file(name, b"")];
        all.extend(files.iter().map(|(path, text)| file(path, text.as_bytes())));
        found(&directory(all, manifest))
    };
    let inputs = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let requirements = [
        ("requirements.txt", "# all\n-r more.txt\nsix==1.16.0\n"),
        ("more.txt", "-c limits.txt\n"),
        ("limits.txt", "idna<4\n"),
    ];
    assert_eq!(
        with("main.py", &requirements, ""),
        Some((
            named("requirements.txt"),
            inputs(&["requirements.txt", "more.txt", "limits.txt"])
        ))
    );
    assert_eq!(with("main.py", &requirements, "dependencies = []"), None);
    assert_eq!(with("main.py", &[("requirements.txt", "# none\n\n")], ""), None);
    let project = (
        "pyproject.toml",
        "[project]\nrequires-python = \">=3.9\"\ndependencies = [\"six\"]\n",
    );
    let listed = serde_json::json!({ "list": ["six"], "file": null, "language": ">=3.9" });
    assert_eq!(with("main.py", &[project], ""), Some((listed, Vec::new())));
    assert_eq!(with("main.py", &[("pyproject.toml", "[tool.black]\n")], ""), None);
    assert_eq!(
        with("main.py", &[project, ("uv.lock", "version = 1\n")], ""),
        Some((named("uv.lock"), inputs(&["uv.lock", "pyproject.toml"])))
    );
    let package = ("package.json", "{\"dependencies\": {\"pad\": \"1\"}}");
    let lock = ("package-lock.json", "{}");
    assert_eq!(
        with("main.cjs", &[package, lock], ""),
        Some((named("package.json"), inputs(&["package.json", "package-lock.json"])))
    );
    // Packages that came along with the code are used as they are.
    assert_eq!(
        with("main.cjs", &[package, ("node_modules/pad/index.js", "")], ""),
        None
    );
    assert_eq!(with("main.cjs", &[("package.json", "{\"name\": \"x\"}")], ""), None);
    // The file of another language is not this one's.
    assert_eq!(with("main.sh", &requirements, ""), None);
    let own = [("deps/prod.txt", "-r base.txt\n"), ("deps/base.txt", "six\n")];
    assert_eq!(
        with("main.py", &own, "dependencies = \"deps/prod.txt\""),
        Some((named("deps/prod.txt"), inputs(&["deps/prod.txt", "deps/base.txt"])))
    );
}

#[test]
fn dependencies_that_cannot_be_are_refused() {
    let problems = |function: &JudgeFunction| reported(&judge("").function(function).verdict.diagnostics);
    let python = |manifest: &str| single(file("/f/x.py", b""), Some(manifest));
    let bash = single(file("/f/x.sh", b""), Some("dependencies = [\"x\"]\n"));
    assert_eq!(
        problems(&bash),
        ["1:16 impossible: fnd installs no dependencies for runtime `bash`"]
    );
    assert_eq!(
        problems(&python("dependencies = \"requirements.txt\"\n")),
        ["1:16 impossible: a file of `dependencies` is only for the directory form (`NAME/function.toml`)"]
    );
    assert_eq!(
        problems(&python("dependencies = [\"six\", \"--index-url=x\"]\n")),
        ["1:16 bad-value: `dependencies`: `--index-url=x` is no package"]
    );
    let absent = directory(vec![file("main.py", b"")], "dependencies = \"r.txt\"\n");
    assert_eq!(
        problems(&absent),
        ["1:16 no-dependencies: `dependencies`: there is no file `r.txt` in the directory"]
    );
    let broken = single(file("/f/x.py", b"# /// script\n# dependencies = [\n# ///\n"), None);
    assert!(
        problems(&broken)[0].starts_with("2:19 script-metadata: the block `# /// script` (PEP 723) is not valid"),
        "{:?}",
        problems(&broken)
    );
}

#[test]
fn an_installation_has_the_network_only_if_the_function_and_the_node_allow_it() {
    let build = |settings: &str, manifest: &str| {
        let manifest = format!("dependencies = [\"six\"]\n{manifest}");
        let judged = judge(settings).function(&single(file("/f/x.py", b"1"), Some(&manifest)));
        let manifest = judged.verdict.manifest.unwrap();
        (manifest.build.network, judged.build.unwrap())
    };
    let none = "[build]\nnetwork = \"none\"\n";
    let offline = |build: &PlannedBuild| build.plan.environment.iter().any(|(name, _)| name == OFFLINE);
    let (network, with) = build("", "[build]\nnetwork = \"host\"\n");
    assert_eq!((network, &with.sandbox.network), (BuildNetwork::Host, &Network::Host));
    assert!(!offline(&with));
    for (settings, manifest) in [("", none), (none, ""), (none, "[build]\nnetwork = \"host\"\n")] {
        let (network, without) = build(settings, manifest);
        assert_eq!(
            (network, &without.sandbox.network),
            (BuildNetwork::None, &Network::None),
            "{settings:?} {manifest:?}"
        );
        assert!(offline(&without), "an installer must not wait for an index");
    }
}

#[test]
fn packages_of_the_machine_are_for_python_and_make_another_tree() {
    let manifest = "dependencies = [\"six\"]\n[build]\nsystem_packages = true\n";
    let made = |settings: &str, manifest: &str| {
        let judged = judge(settings).function(&single(file("/f/x.py", b"1"), Some(manifest)));
        serde_json::from_slice::<serde_json::Value>(&judged.build.unwrap().made.1.0).unwrap()
    };
    let with = serde_json::json!({ "list": ["six"], "file": null, "language": null, "system_packages": true });
    assert_eq!(made("", manifest), with);
    assert_eq!(made("", &manifest.replace("true", "false")), list(&["six"]));
    let defaults = "[defaults.build]\nsystem_packages = true\n";
    assert_eq!(made(defaults, "dependencies = [\"six\"]\n"), with);
    let node =
        |settings: &str, manifest: &str| judge(settings).function(&single(file("/f/x.cjs", b"1"), Some(manifest)));
    assert_eq!(
        reported(&node("", manifest).verdict.diagnostics),
        ["3:19 impossible: `build.system_packages` has no effect with runtime `node`"]
    );
    let by_default = node(defaults, "dependencies = [\"pad\"]\n");
    assert_eq!(reported(&by_default.verdict.diagnostics), <[String; 0]>::default());
    let made = by_default.build.unwrap().made.1.0;
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&made).unwrap(),
        list(&["pad"])
    );
}

#[test]
fn metadata_of_a_script_may_have_many_lines() {
    let packages: String = (0..500).map(|number| format!("#   \"package{number}\",\n")).collect();
    let text = format!("# /// script\n# dependencies = [\n{packages}# ]\n# ///\n");
    let build = build_of(&single(file("/f/x.py", text.as_bytes()), None)).unwrap();
    assert!(String::from_utf8(build.made.1.0).unwrap().contains("package499"));
}

#[test]
fn functions_with_the_same_dependencies_have_the_same_build() {
    let one = build_of(&single(file("/f/x.py", b"1"), Some("dependencies = [\"six\"]\n"))).unwrap();
    let mut other = single(
        file("/f/y.py", b"def handler(event, context): pass"),
        Some("dependencies = [\"six\"]\n[env]\nA = \"b\"\n[limits]\nmemory = \"1G\"\n"),
    );
    other.name = FunctionName::new("group/y").unwrap();
    assert_eq!(build_of(&other).unwrap(), one);
    assert_eq!(one.plan.function.as_str(), BUILD);
    let texts: Vec<_> = one.plan.argv.iter().map(|text| text.text.as_str()).collect();
    assert_eq!(texts, ["-I", "/usr/lib/fnd/runtimes/python/install.py", "{entry}"]);
    assert_eq!(one.plan.limits.timeout_ms, Some(30 * 60 * 1000));
}

#[test]
fn only_functions_of_root_get_the_secrets_of_builds() {
    let secrets = |function: &JudgeFunction| {
        let build = judge("[build]\nsecrets = [\"npmrc\"]\n")
            .function(function)
            .build
            .unwrap();
        let named = build
            .credentials
            .secrets
            .into_iter()
            .map(|mapped| (mapped.name, mapped.secret));
        named.collect::<Vec<_>>()
    };
    let mut function = single(file("/f/x.py", b"1"), Some("dependencies = [\"six\"]\n"));
    assert_eq!(secrets(&function), [("npmrc".to_owned(), "npmrc".to_owned())]);
    function.files[0].trusted = false;
    assert_eq!(secrets(&function), []);
}

#[test]
fn settings_and_defaults_reach_a_build_only_through_its_own_table() {
    let settings = "[build]\ntimeout = \"1m\"\nmemory = \"3G\"\nenv = { PIP_INDEX_URL = \"http://x/{state}\" }\n\
                    [defaults]\nenv = { A = \"b\" }\n[defaults.limits]\nmemory = \"64M\"\n";
    let function = single(file("/f/x.py", b"1"), Some("dependencies = [\"six\"]\n"));
    let build = judge(settings).function(&function).build.unwrap();
    assert_eq!(
        (build.plan.limits.timeout_ms, build.plan.limits.memory),
        (Some(60_000), 3 << 30)
    );
    let value = |name: &str| build.plan.environment.iter().find(|(found, _)| found == name);
    assert_eq!(value("A"), None);
    let index = value("PIP_INDEX_URL").map(|(_, text)| (text.text.as_str(), text.template));
    assert_eq!(
        index,
        Some(("http://x/{state}", false)),
        "no text of a person is a template"
    );
}

#[test]
fn a_function_with_dependencies_finds_them() {
    let plan = |manifest: &str| {
        judge("")
            .function(&single(file("/f/x.py", b"1"), Some(manifest)))
            .plan
            .unwrap()
    };
    let path = |plan: &fnd_wire::plan::Plan| {
        let found = plan.environment.iter().find(|(name, _)| name == "PYTHONPATH");
        found.map(|(_, text)| (text.text.clone(), text.template))
    };
    assert_eq!(
        path(&plan("dependencies = [\"six\"]\n")),
        Some(("{deps}/site".to_owned(), true))
    );
    assert_eq!(path(&plan("")), None);
    let own = "dependencies = [\"six\"]\n[env]\nPYTHONPATH = \"lib\"\n";
    assert_eq!(path(&plan(own)), Some(("lib".to_owned(), false)));
}

#[test]
fn a_function_in_go_is_compiled_with_all_of_its_files() {
    let handler = b"package x\nfunc Hello(e functions.Event, c functions.Context) (string, error) {";
    let program =
        |entry: &str, handler: &str, mode: &str| serde_json::json!({"entry": entry, "handler": handler, "mode": mode});
    let made = |file: Option<&str>, program: serde_json::Value| serde_json::json!({"list": [], "file": file, "language": null, "program": program});
    let single = single(file("/f/x.go", handler), None);
    assert_eq!(
        found(&single),
        Some((made(None, program("x.go", "", "handler")), vec!["x.go".to_owned()]))
    );
    let all = vec![
        file("main.go", b"package main"),
        file("go.mod", b"module x"),
        file("a/b.go", b"package a"),
    ];
    let tree = directory(all, "handler = \"main.Foo\"");
    let (task, mut inputs) = found(&tree).unwrap();
    inputs.sort_unstable();
    assert_eq!(task, made(Some("go.mod"), program("main.go", "Foo", "handler")));
    assert_eq!(inputs, ["a/b.go", "go.mod", "main.go"]);
    let judged = judge("").function(&single);
    let texts = |plan: &fnd_wire::plan::Plan| plan.argv.iter().map(|text| text.text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(judged.plan.as_ref().unwrap()), ["{instead}", "{deps}/program"]);
    let build = texts(&judged.build.unwrap().plan);
    assert_eq!(build[..2], ["{instead}", "/bin/sh"]);
    assert_eq!(
        build[4..],
        ["{interpreter}", "/usr/lib/fnd/runtimes/go/build.go", "{entry}"]
    );
    assert!(judged.verdict.compiled);
}

#[test]
fn more_files_than_a_build_reads_are_refused() {
    let mut all: Vec<_> = (0..300).map(|n| file(&format!("f{n}.go"), b"package main")).collect();
    all.push(file("main.go", b"package main\nfunc main() {}"));
    let judged = judge("").function(&directory(all, ""));
    assert!(judged.plan.is_none());
    let expected = "too-many-files: it has 301 files, and at most 256 are compiled";
    assert_eq!(reported(&judged.verdict.diagnostics), [expected]);
}

#[test]
fn a_function_has_settings_of_its_own_for_its_build() {
    let built = |settings: &str, manifest: &str, trusted: bool| {
        let mut function = single(file("/f/x.py", SCRIPT), Some(manifest));
        function.files[0].trusted = trusted;
        let judged = judge(settings).function(&function);
        (judged.build, reported(&judged.verdict.diagnostics))
    };
    let value = |build: &PlannedBuild, name: &str| {
        let found = build.plan.environment.iter().find(|(found, _)| found == name);
        found.map(|(_, text)| text.text.clone())
    };
    let settings = "[build]\nenv = { A = \"1\", B = \"1\" }\nsecrets = [\"netrc\"]\ncpu = \"500m\"\noffline = true\n";
    let own = "[build]\nenv = { B = \"2\" }\nsecrets = [\"npmrc\", \"netrc\"]\n";
    let (build, problems) = built(settings, own, true);
    let build = build.unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    let names = ["A", "B", "FND_OFFLINE"].map(|name| value(&build, name));
    assert_eq!(names, ["1", "2", "1"].map(|text| Some(text.to_owned())));
    let secrets: Vec<_> = build
        .credentials
        .secrets
        .iter()
        .map(|secret| secret.name.as_str())
        .collect();
    assert_eq!(secrets, ["netrc", "npmrc"]);
    assert_eq!(build.plan.limits.cpu_milli, Some(500));
    let (build, _) = built("", "", true);
    assert_eq!(value(&build.unwrap(), "FND_OFFLINE"), None);
    let (build, problems) = built(settings, own, false);
    assert!(build.is_none() && problems[0].contains("not-trusted"), "{problems:?}");
}

#[test]
fn a_build_gets_no_variable_that_fnd_sets_itself() {
    let expected = ["2:23 reserved: the variable `FND_OFFLINE` is set by fnd itself"];
    let own = "[build]\nenv = { FND_OFFLINE = \"\", FNDX = \"1\" }\n";
    let defaults = "[defaults.build]\nenv = { FND_OFFLINE = \"\" }\n";
    for (settings, manifest) in [("", own), (defaults, "")] {
        let judged = judge(settings).function(&single(file("/f/x.py", SCRIPT), Some(manifest)));
        assert!(
            judged.build.is_none() && judged.plan.is_none(),
            "{settings:?} {manifest:?}"
        );
        assert_eq!(reported(&judged.verdict.diagnostics), expected);
    }
    let problems = crate::settings::resolve::configuration([("fnd.toml", own.as_bytes())]).unwrap_err();
    assert_eq!(reported(&problems), expected);
    assert_eq!(problems[0].help.as_deref(), Some("use another name"));
}

/// Returns a list as it is found in code, with the file that says what stands for its items.
fn imported(items: &[&str], file: Option<&str>) -> serde_json::Value {
    serde_json::json!({ "list": items, "file": file, "language": null })
}

#[test]
fn remote_imports_in_code_are_dependencies_and_an_edit_beside_them_is_none() {
    let with = |code: &str, manifest: Option<&str>| found(&single(file("/f/x.ts", code.as_bytes()), manifest));
    let code = "import pad from 'npm:pad@1';\nimport { x } from \"https://h.example/x.ts\";\nimport fs from 'node:fs';\n\
                import './y.ts';\nawait import('jsr:@a/b');\n// import 'npm:not'\nimport type { T } from 'npm:types';\n";
    let expected = Some((
        imported(&["https://h.example/x.ts", "jsr:@a/b", "npm:pad@1"], None),
        Vec::new(),
    ));
    assert_eq!(with(code, None), expected);
    assert_eq!(
        with(&format!("import 'npm:pad@1';\n{code}console.log(1);"), None),
        expected
    );
    let listed = Some("dependencies = [\"npm:other@2\"]\n");
    let both = imported(&["npm:other@2", "npm:pad@1"], None);
    assert_eq!(with("import 'npm:pad@1'", listed), Some((both, Vec::new())));
    assert_eq!(with(code, Some("dependencies = []\n")), None);
    assert_eq!(with("import fs from 'node:fs';\nimport './y.ts'", None), None);
    // Node knows no such imports.
    assert_eq!(found(&single(file("/f/x.cjs", b"import('npm:pad@1')"), None)), None);
    let script = single(
        executable("/f/x", b"#!/usr/bin/deno\nimport 'npm:pad@1'"),
        Some("runtime = \"deno\""),
    );
    assert_eq!(found(&script), Some((imported(&["npm:pad@1"], None), Vec::new())));
}

#[test]
fn imports_of_a_directory_go_through_its_deno_json() {
    let with = |config: (&str, &str), code: &str, more: &[&str]| {
        let mut all = vec![file("main.ts", code.as_bytes()), file(config.0, config.1.as_bytes())];
        all.extend(more.iter().map(|name| file(name, b"")));
        found(&directory(all, ""))
    };
    let config = "{ // ours\n \"imports\": { \"pad\": \"npm:pad@1\", \"lib\": \"jsr:@a/lib\", \"own/\": \"./own/\",\n\
                  \"h/\": \"https://h.example/\", \"h/own/\": \"./h/\" },\n \"$schema\": \"https://x.example/s.json\", }";
    let code = "import 'lib/part';\nimport 'h/x.ts';\nimport 'h/own/y.ts';\nimport 'own/z.ts';\nimport 'unknown';";
    let all = imported(&["h/x.ts", "lib", "lib/part", "pad"], Some("deno.jsonc"));
    assert_eq!(
        with(("deno.jsonc", config), code, &["deno.lock"]),
        Some((all, vec!["deno.jsonc".to_owned(), "deno.lock".to_owned()]))
    );
    let local = ("deno.json", "{\"imports\": {\"slug\": \"./vendor/slug.ts\"}}");
    assert_eq!(with(local, "import 'slug'", &[]), None);
    let both = imported(&["npm:pad"], Some("deno.json"));
    assert_eq!(
        with(local, "import 'slug'; import 'npm:pad'", &[]),
        Some((both, vec!["deno.json".to_owned()]))
    );
    // Another file of the function may be the one that imports.
    let tree = directory(
        vec![file("main.ts", b"import './a.ts'"), file("a.ts", b"import 'npm:a'")],
        "",
    );
    assert_eq!(found(&tree), Some((imported(&["npm:a"], None), Vec::new())));
    assert_eq!(with(local, "import 'npm:pad'", &["node_modules/pad/index.js"]), None);
}

#[test]
fn deno_is_told_where_dependencies_are_only_if_there_are_some() {
    let arguments = |function: &JudgeFunction| {
        let plan = judge("").function(function).plan.unwrap();
        let env = plan.environment.iter().find(|(name, _)| name == "DENO_DIR");
        let texts: Vec<_> = plan.argv.into_iter().map(|text| text.text).collect();
        (texts, env.map(|(_, text)| text.text.clone()).unwrap())
    };
    let code = |text: &str| file("main.ts", text.as_bytes());
    let (with, env) = arguments(&directory(
        vec![code("import 'npm:pad'"), file("deno.json", b"{}")],
        "interpreter_args = [\"--quiet\"]",
    ));
    let expected = [
        "run",
        "--no-prompt",
        "--cached-only",
        "--lock={deps}/deno.lock",
        "--frozen",
        "--allow-import",
        "--node-modules-dir=none",
        "--config=deno.json",
    ];
    assert_eq!(
        (&with[..8], env.as_str()),
        (&expected.map(str::to_owned)[..], "{deps}/deno")
    );
    let (with, _) = arguments(&single(file("/f/x.ts", b"import 'npm:pad'"), None));
    assert!(
        !with.iter().any(|argument| argument.starts_with("--config")),
        "{with:?}"
    );
    let (without, env) = arguments(&directory(vec![code("import './a.ts'"), file("deno.json", b"{}")], ""));
    assert_eq!(without[..3], ["run", "--no-prompt", "--no-lock"].map(str::to_owned));
    assert_eq!(env, "{cache}/deno");
}

#[test]
fn more_imports_than_are_installed_are_refused() {
    let code: String = (0..1001).map(|n| format!("import 'npm:p{n}';\n")).collect();
    let judged = judge("").function(&single(file("/f/x.ts", code.as_bytes()), None));
    let expected = "too-many-files: it has 1001 remote imports, and at most 1000 are installed";
    assert_eq!(reported(&judged.verdict.diagnostics), [expected]);
}
