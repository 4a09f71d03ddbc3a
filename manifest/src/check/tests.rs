use super::*;
use fnd_wire::archive::Why;
use std::collections::BTreeMap;

/// Files in memory: path to mode and text.
struct Memory(BTreeMap<String, (bool, &'static str)>);

impl CheckedFiles for Memory {
    fn list(&self, directory: &str) -> Result<Vec<DirectoryEntry>, String> {
        let mut names: Vec<String> = Vec::new();
        for path in self.0.keys() {
            let name = path
                .strip_prefix(&format!("{directory}/"))
                .and_then(|rest| rest.split('/').next());
            if let Some(name) = name.filter(|name| !names.iter().any(|known| known == name)) {
                names.push(name.to_owned());
            }
        }
        let entry = |name: String| {
            Some(DirectoryEntry {
                kind: self.kind(&format!("{directory}/{name}")).ok()?,
                name: name.into_bytes(),
            })
        };
        if names.is_empty() {
            Err("no such directory".into())
        } else {
            Ok(names.into_iter().filter_map(entry).collect())
        }
    }

    fn read(&self, path: &str, max: usize) -> Result<Vec<u8>, String> {
        let (_, text) = self.0.get(path).ok_or("no such file")?;
        Ok(text.bytes().take(max).collect())
    }

    fn unpack(&self, path: &str, _: Format) -> Result<Vec<JudgedFile>, ArchiveRefusal> {
        let (_, text) = self.0.get(path).ok_or(Why::Unreadable)?;
        let file = |line: &str| {
            let (name, text) = line.split_once(": ")?;
            Some(judged(name, text.as_bytes().to_vec(), false))
        };
        text.lines().map(|line| file(line).ok_or(Why::Damaged.into())).collect()
    }

    fn kind(&self, path: &str) -> Result<EntryKind, String> {
        if let Some((executable, _)) = self.0.get(path) {
            return Ok(EntryKind::File {
                executable: *executable,
            });
        }
        let below = format!("{path}/");
        let runs = self
            .0
            .get(&format!("{below}bootstrap"))
            .is_some_and(|(executable, _)| *executable);
        let function = runs || self.0.contains_key(&format!("{below}function.toml"));
        self.0
            .keys()
            .any(|path| path.starts_with(&below))
            .then_some(EntryKind::Directory { function })
            .ok_or("nothing".into())
    }
}

fn memory() -> Memory {
    let files = [
        ("/e/fnd.toml", false, "[node]\nmax_workers = 1\n"),
        ("/e/conf.d/b.toml", false, "[node]\nmax_workers = 3\n"),
        ("/e/conf.d/a.toml", false, "[node]\nmax_workers = 2\n"),
        (
            "/r/python/runtime.toml",
            false,
            include_str!("../../../runtimes/python/runtime.toml"),
        ),
        (
            "/r/exec/runtime.toml",
            false,
            include_str!("../../../runtimes/exec/runtime.toml"),
        ),
        ("/f/a.py", false, "print(1)\n"),
        ("/f/b.py", false, "print(1)\n"),
        ("/f/b.toml", false, "enabld = true\n"),
        ("/f/ops/c/function.toml", false, "env_file = \"x.env\"\n"),
        ("/f/ops/c/main.py", false, "print(1)\n"),
        ("/f/ops/c/x.env", false, "A=1\n"),
        ("/f/tool", true, "#!/bin/sh\n"),
        ("/f/README.md", false, ""),
    ];
    Memory(
        files
            .into_iter()
            .map(|(path, executable, text)| (path.to_owned(), (executable, text)))
            .collect(),
    )
}

fn judge() -> Judge {
    let (judge, problems) = super::judge(&memory(), "/e/fnd.toml", &["/r".to_owned(), "/none".to_owned()]);
    assert_eq!(problems, []);
    let judge = judge.unwrap();
    assert_eq!(judge.configuration().settings.node.max_workers, 3);
    judge
}

#[test]
fn a_text_is_judged_by_the_name_it_would_have() {
    let codes = |name: &str, text: &str| {
        let checked = text_of(name, text);
        checked.all().map(|problem| problem.code.clone()).collect::<Vec<_>>()
    };
    fn text_of(name: &str, text: &str) -> Checked {
        super::text(&judge(), name, text.as_bytes())
    }
    assert_eq!(codes("a.py", "print(1)\n"), [""; 0]);
    assert_eq!(codes("a.py", "# /// fnd\n# x = 1\n# ///\n"), ["unknown-key"]);
    assert_eq!(codes("A.py", ""), ["bad-name"]);
    assert_eq!(codes("a.toml", "permissions = [\"net\"]\nsize = \"M\"\n"), [""; 0]);
    assert_eq!(
        codes("a.toml", "size = \"XXXL\"\nx = 1\n"),
        ["unknown-key", "unknown-size"]
    );
    assert_eq!(codes("fnd.toml", "keep_versions = 0\n"), ["bad-value"]);
}

#[test]
fn a_directory_is_judged_whole() {
    let checked = check(&judge(), &memory(), "/f/");
    let names: Vec<&str> = checked
        .verdicts
        .iter()
        .map(|verdict| verdict.function.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "tool", "ops/c"]);
    let lines: Vec<String> = checked
        .all()
        .map(|problem| format!("{} {}", problem.code, problem.file.clone().unwrap_or_default()))
        .collect();
    assert_eq!(lines, ["unknown-key /f/b.toml"]);
    assert!(!checked.valid());
}

#[test]
fn a_directory_whose_files_import_each_other_gets_one_warning() {
    let files = |names: &[&'static str]| {
        let mut memory = memory();
        for name in names {
            let text = if name.ends_with("one.py") {
                "import two\nimport json\n"
            } else {
                "import one\n"
            };
            memory.0.insert((*name).to_owned(), (false, text));
        }
        memory
    };
    let both = files(&["/p/one.py", "/p/two.py", "/p/json.py"]);
    let project = files(&["/p/one.py", "/p/two.py", "/p/pyproject.toml"]);
    let apart = files(&["/p/one.py", "/p/json.py"]);
    for (memory, path, expected) in [
        (&both, "/p", Some("`json.py` imports `one.py`")),
        (&both, "/p/two.py", Some("`two.py` imports `one.py`")),
        (&project, "/p", Some("`pyproject.toml` means")),
        (&apart, "/p/json.py", Some("`json.py` imports `one.py`")),
        (&apart, "/p/one.py", None),
    ] {
        let checked = check(&judge(), memory, path);
        assert!(checked.valid());
        let found: Vec<&str> = checked.all().map(|problem| problem.message.as_str()).collect();
        assert_eq!(found.len(), usize::from(expected.is_some()), "{path}: {found:?}");
        assert!(
            expected.is_none_or(|expected| found[0].starts_with(expected)),
            "{path}: {found:?}"
        );
    }
}

#[test]
fn one_function_is_judged_by_any_of_its_files() {
    for (path, name) in [
        ("/f/b.toml", "b"),
        ("/f/a.py", "a"),
        ("/f/ops/c", "c"),
        ("/f/ops/c/function.toml", "c"),
    ] {
        let checked = check(&judge(), &memory(), path);
        assert_eq!(
            checked
                .verdicts
                .iter()
                .map(|verdict| verdict.function.as_str())
                .collect::<Vec<_>>(),
            [name]
        );
    }
    for (path, code) in [("/f/README.md", "no-function"), ("/f/none.py", "unreadable")] {
        let checked = check(&judge(), &memory(), path);
        assert_eq!(
            checked.all().map(|problem| problem.code.as_str()).collect::<Vec<_>>(),
            [code]
        );
    }
}

/// An archive of the test has a line for each of its files.
#[test]
fn an_archive_is_judged_as_a_directory_with_its_files() {
    let judged = |archive: &'static str, sidecar: Option<&'static str>| {
        let mut memory = memory();
        memory.0.insert("/a/x.zip".to_owned(), (false, archive));
        memory
            .0
            .extend(sidecar.map(|text| ("/a/x.toml".to_owned(), (false, text))));
        let checked = check(&judge(), &memory, "/a");
        let one = |problem: &Diagnostic| {
            let place = problem.place.as_ref().map(|place| format!(":{}", place.line));
            let file = problem.file.clone().unwrap_or_default();
            format!(
                "{} {file}{}: {}",
                problem.code,
                place.unwrap_or_default(),
                problem.message
            )
        };
        let entries = checked.sources.iter().filter_map(|source| source.plan.as_ref());
        let entries: Vec<String> = entries.map(|plan| plan.entry.clone()).collect();
        (entries, checked.all().map(one).collect::<Vec<_>>())
    };
    let none = Vec::<String>::new;
    let main = || vec!["main.py".to_owned()];
    assert_eq!(judged("main.py: print(1)", None), (main(), none()));
    assert_eq!(judged("main.py: print(1)", Some("env_file = \"e\"\n")).0, none());
    assert_eq!(
        judged("e: A=1\nmain.py: print(1)", Some("env_file = \"e\"\n")),
        (main(), none())
    );
    let inside = "function.toml: entry = \"run.py\"\nmain.py: print(1)\nrun.py: print(2)";
    assert_eq!(judged(inside, None), (vec!["run.py".to_owned()], none()));
    for (archive, sidecar, expected) in [
        (
            inside,
            Some(""),
            "two-manifests /a/x.zip: the archive has a `function.toml`, but there is also `/a/x.toml`",
        ),
        (
            "function.toml: entri = 1\nmain.py: print(1)",
            None,
            "unknown-key /a/x.zip/function.toml:1: unknown key `entri`",
        ),
        (
            "main.py: print(1)",
            Some("entri = 1\n"),
            "unknown-key /a/x.toml:1: unknown key `entri`",
        ),
        (
            "a.txt: text",
            None,
            "no-entry /a/x.zip: no file to run: expected one of `main.*`, `handler.*`, `index.*` with",
        ),
        (
            "function.toml: entry = \"b\"\na: 1",
            None,
            "no-entry /a/x.zip/function.toml:1: the entry `b` is not in the archive",
        ),
        (
            "no file",
            None,
            "archive /a/x.zip: it is damaged: it was changed or cut off",
        ),
    ] {
        let (entries, problems) = judged(archive, sidecar);
        assert_eq!(entries, none());
        assert!(problems[0].starts_with(expected), "{problems:?}");
    }
    let codes: Vec<_> = text(&judge(), "x.tar.gz", b"")
        .all()
        .map(|problem| problem.code.clone())
        .collect();
    assert_eq!(codes, ["archive"]);
}

#[test]
fn a_function_named_function_has_its_manifest_beside_its_code() {
    let files = |names: &[(&str, &'static str)]| {
        let mut memory = memory();
        let new = names.iter().map(|(path, text)| ((*path).to_owned(), (false, *text)));
        memory.0.extend(new);
        memory
    };
    let names = |checked: &Checked| -> Vec<String> {
        assert_eq!(
            checked.all().map(Diagnostic::line).collect::<Vec<_>>(),
            Vec::<String>::new()
        );
        checked
            .verdicts
            .iter()
            .map(|verdict| verdict.function.to_string())
            .collect()
    };
    let (judge, zip) = (judge(), "main.py: print(1)");
    let alone = files(&[("/z/function.zip", zip), ("/z/function.toml", "")]);
    for path in ["/z", "/z/", "/z/function.zip", "/z/function.toml"] {
        assert_eq!(names(&check(&judge, &alone, path)), ["function"], "{path}");
    }
    assert_eq!(names(&check_functions(&judge, &alone, "/z")), ["function"]);
    // A directory that is known to hold functions is no function itself.
    let code = files(&[("/z/function.py", "print(1)\n"), ("/z/function.toml", "")]);
    assert_eq!(names(&check_functions(&judge, &code, "/z")), ["function"]);
    // An archive beside code was made of it, and is not the code of the directory.
    let made = files(&[
        ("/z/main.py", "print(1)\n"),
        ("/z/function.zip", zip),
        ("/z/function.toml", ""),
    ]);
    assert_eq!(names(&check(&judge, &made, "/z")), ["z"]);
}
