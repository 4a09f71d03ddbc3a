use super::*;

fn claims() -> Claims {
    Claims::of(&[".sh".to_owned(), ".py".to_owned()])
}

/// Lists entries by name. The end of a name sets the kind: `*` executable file, `/` directory, `/+` directory that is a
/// function, `|` FIFO.
fn list(names: &[&str], group: Option<&str>) -> Listing {
    let entries: Vec<DirectoryEntry> = names
        .iter()
        .map(|name| {
            let kinds = [
                ("/+", EntryKind::Directory { function: true }),
                ("/", EntryKind::Directory { function: false }),
                ("*", EntryKind::File { executable: true }),
                ("|", EntryKind::Other),
            ];
            let found = kinds
                .into_iter()
                .find_map(|(end, kind)| Some((name.strip_suffix(end)?, kind)));
            let (name, kind) = found.unwrap_or((name, EntryKind::File { executable: false }));
            DirectoryEntry {
                name: name.as_bytes().to_vec(),
                kind,
            }
        })
        .collect();
    let place = ListedDirectory {
        path: "/f",
        group,
        claims: &claims(),
        default_runtime: false,
    };
    let answer = |name: &str, question| match question {
        Question::IsProgram => name != "data.bin",
        Question::NamesSource => name.contains("from"),
    };
    // A file of another system has the functions between the dots of its name.
    let foreign = |name: &str| {
        let names: Vec<&str> = name.split('.').collect();
        let names = names
            .split_last()
            .map_or(&[][..], |(_, names)| names)
            .iter()
            .map(|name| (*name).to_owned());
        match name {
            name if name.contains("none") => ListedYaml::Other,
            name if name.contains("broken") => ListedYaml::Broken,
            _ => ListedYaml::Functions(names.collect()),
        }
    };
    listing(place, &entries, answer, foreign)
}

fn found(listing: &Listing) -> Vec<String> {
    let one = |found: &ListedFunction| {
        format!(
            "{}={}{}",
            found.name,
            found.source,
            found.sidecar.as_deref().map_or(String::new(), |s| format!("+{s}"))
        )
    };
    listing.functions.iter().map(one).collect()
}

#[test]
fn files_and_manifests_are_paired() {
    let listing = list(
        &[
            "a.sh",
            "a.toml",
            "b.py",
            "c/+",
            "ops/",
            "README.md",
            "tool*",
            "data.bin*",
            "lib.txt",
            "d",
            "d.toml",
            ".x.sh",
            "z.tar.gz",
            "z.toml",
            "zip.zip",
        ],
        None,
    );
    let expected = [
        "a=a.sh+a.toml",
        "b=b.py",
        "c=c",
        "d=d+d.toml",
        "tool=tool",
        "z=z.tar.gz+z.toml",
        "zip=zip.zip",
    ];
    assert_eq!(found(&listing), expected);
    assert_eq!(listing.groups, ["ops"]);
    assert_eq!(listing.unclaimed, ["README.md", "data.bin", "lib.txt"]);
    assert_eq!(listing.problems, []);
    assert_eq!(found(&list(&["a.sh"], Some("ops"))), ["ops/a=a.sh"]);
}

#[test]
fn a_manifest_without_code_is_a_function_if_it_names_a_source() {
    let names = [
        "z.sh",
        "from.toml",
        "from-code.py",
        "from-code.toml",
        "alone.toml",
        "From.toml",
    ];
    let listing = list(&names, Some("ops"));
    let expected = [
        "ops/from=from.toml",
        "ops/from-code=from-code.py+from-code.toml",
        "ops/z=z.sh",
    ];
    assert_eq!(found(&listing), expected);
    let problems: Vec<&str> = listing.problems.iter().map(|problem| problem.code.as_str()).collect();
    assert_eq!(problems, ["bad-name", "no-code"]);
    let clash = list(&["from.toml", "from/+"], None);
    assert_eq!((clash.clashes.len(), clash.functions.len()), (1, 0));
}

/// The name may be valid in another encoding, so the person who put the file there expects a function.
#[test]
fn a_program_whose_name_is_not_utf_8_is_reported() {
    let entry = |name: &[u8], executable| DirectoryEntry {
        name: name.to_vec(),
        kind: EntryKind::File { executable },
    };
    let entries = [
        entry(b"caf\xe9", true),
        entry(b"caf\xe9.bin", true),
        // The part before the dot alone would be a valid name.
        entry(b"tool.s\xb7ml", true),
        entry(b"th\xe9", false),
    ];
    let place = ListedDirectory {
        path: "/f",
        group: None,
        claims: &claims(),
        default_runtime: false,
    };
    let listing = listing(
        place,
        &entries,
        |_, _| panic!("its path is not known"),
        |_| ListedYaml::Other,
    );
    let reported: Vec<_> = listing.problems.iter().map(|problem| problem.file.as_deref()).collect();
    let expected = ["/f/caf\u{fffd}", "/f/caf\u{fffd}.bin", "/f/tool.s\u{fffd}ml"];
    assert_eq!(reported, expected.map(Some));
    assert!(listing.problems.iter().all(|problem| problem.code == "bad-name"));
    assert_eq!(
        (listing.functions, listing.unclaimed),
        (vec![], vec!["th\u{fffd}".to_owned()])
    );
}

#[test]
fn a_file_of_another_system_has_the_functions_that_it_names() {
    let listing = list(
        &[
            "a.b.yaml",
            "c.yml",
            "none.yaml",
            ".d.yaml",
            "e.yaml~",
            "c.toml",
            "Bad.yaml",
            "a.sh",
            "x.broken.yaml",
        ],
        Some("ops"),
    );
    assert_eq!(found(&listing), ["ops/b=a.b.yaml", "ops/x=x.broken.yaml"]);
    assert_eq!(listing.broken, ["x.broken.yaml"]);
    assert_eq!(listing.unclaimed, ["none.yaml"]);
    let clashes: Vec<_> = listing.clashes.iter().map(|clash| clash.files.clone()).collect();
    // It has no manifest beside it, and no other file has its name.
    assert_eq!(
        clashes,
        [
            vec!["a.b.yaml".to_owned(), "a.sh".to_owned()],
            vec!["c.yml".to_owned(), "c.toml".to_owned()]
        ]
    );
    assert_eq!(
        listing
            .problems
            .iter()
            .map(|problem| problem.code.as_str())
            .collect::<Vec<_>>(),
        ["bad-name"]
    );
}

#[test]
fn a_python_project_is_one_warning() {
    let listing = list(&["a.py", "pyproject.toml"], Some("ops"));
    assert_eq!(found(&listing), ["ops/a=a.py"]);
    let [warning] = &listing.problems[..] else {
        panic!("{:?}", listing.problems);
    };
    assert_eq!(warning.kind(), Some(Warning::PythonProject));
    assert_eq!(warning.file.as_deref(), Some("/f"));
}

#[test]
fn problems_are_reported() {
    let listing = list(
        &[
            "a.sh", "a.py", "b.toml", "C.sh", "d.sh|", "e.zip", "e.tgz", "f.py", "f/+", "g.sh", "H.zip", "i.tar|",
        ],
        None,
    );
    assert_eq!(found(&listing), ["g=g.sh"]);
    let lines: Vec<String> = listing
        .problems
        .iter()
        .map(|problem| format!("{} {}", problem.code, problem.file.clone().unwrap_or_default()))
        .collect();
    assert_eq!(
        lines,
        [
            "bad-name /f/C.sh",
            "not-a-file /f/d.sh",
            "bad-name /f/H.zip",
            "not-a-file /f/i.tar",
            "no-code /f/b.toml",
        ]
    );
    assert_eq!(listing.clashes[0].files, ["a.py", "a.sh"]);
    let clashes: Vec<&str> = listing
        .clashes
        .iter()
        .map(|clash| clash.problem.code.as_str())
        .collect();
    assert_eq!(clashes, ["name-clash", "name-clash", "name-clash"]);
    assert_eq!(list(&["x/"], Some("ops")).problems[0].code, "bad-name");
    assert_eq!(list(&["a/+", "a.toml"], None).clashes[0].problem.code, "name-clash");
}

#[test]
fn a_bootstrap_that_is_not_executable_is_named_in_a_group() {
    let listed = list(&["a.sh", "bootstrap"], Some("ops"));
    assert_eq!(found(&listed), ["ops/a=a.sh"]);
    let [problem] = listed.problems.as_slice() else {
        panic!("{:?}", listed.problems);
    };
    assert_eq!(
        (problem.code.as_str(), problem.file.as_deref()),
        ("not-executable", Some("/f/bootstrap"))
    );
    assert_eq!(problem.help.as_deref(), Some("chmod +x /f/bootstrap"));
    assert_eq!(list(&["bootstrap"], None).unclaimed, ["bootstrap"]);
}
