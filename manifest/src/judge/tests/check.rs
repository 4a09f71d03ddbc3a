//! The syntax check of code: what is checked, and how.

use super::*;
use fnd_wire::plan::{CHECK, JudgeReply, JudgeRequest, PlannedBuild};
use std::io::Read as _;

/// Returns the check of a function, as the spawner gets it.
fn check_with(settings: &str, function: &JudgeFunction) -> Option<PlannedBuild> {
    let mut judge = judge(settings);
    let checkable = judge.function(function).verdict.checkable;
    let JudgeReply::Function(reply) = judge.answer(&JudgeRequest::Check(function.clone())) else {
        panic!("another answer");
    };
    assert_eq!(reply.build.is_some(), checkable, "fnd asks only for what there is");
    reply.build
}

/// Returns what the run of a check gets of a function: paths and contents.
fn checked(build: &PlannedBuild) -> Vec<(String, Vec<u8>)> {
    let verdict: Verdict = serde_json::from_slice(&build.document.0).unwrap();
    let mut archive = verdict.checked_files().unwrap();
    archive.extend([0; 1024]);
    let mut archive = tar::Archive::new(archive.as_slice());
    let entry = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (entry.path().unwrap().display().to_string(), bytes)
    };
    archive.entries().unwrap().map(entry).collect()
}

fn check(function: &JudgeFunction) -> Option<PlannedBuild> {
    check_with("", function)
}

#[test]
fn the_interpreter_of_a_script_only_reads_it() {
    let code = b"import os\nprint(1)\n";
    let build = check(&single(file("/f/job.py", code), Some("[limits]\nmemory = \"1G\"\n"))).unwrap();
    assert_eq!(build.plan.function.as_str(), CHECK);
    assert_eq!(checked(&build), [("f/x/fnd-checked.py".to_owned(), code.to_vec())]);
    let texts: Vec<_> = build.plan.argv.iter().map(|text| text.text.as_str()).collect();
    assert_eq!(texts[..3], ["{instead}", "/bin/sh", "-c"]);
    assert_eq!(
        texts[4..12].join(" "),
        "sh fnd-checked.py 1 {interpreter} -I -S -W ignore"
    );
    assert_eq!(build.plan.interpreters[0], "/usr/bin/python3");
    assert_eq!(build.plan.limits.timeout_ms, Some(10_000));
    assert_eq!(build.plan.limits.memory, 256 << 20);
    assert!(build.credentials.secrets.is_empty());
    // The manifest in the code is that of the function, not of the check.
    let inline = file("/f/job.sh", b"# /// fnd\n# on_load = false\n# ///\necho\n");
    assert!(check(&single(inline, None)).is_some());
    // Code and name are in the input only, so one run checks many functions.
    let mut other = single(file("/g/other.py", b"print(2)\n"), None);
    other.name = FunctionName::new("group/other").unwrap();
    let of_other = check(&other).unwrap();
    assert_eq!((of_other.plan, of_other.made), (build.plan, build.made));
    let bash = check(&single(file("/f/job.sh", b"\xef\xbb\xbfecho\r\n\r"), None)).unwrap();
    let code = checked(&bash).pop().unwrap().1;
    assert_eq!(code, b"echo\n\r", "as the function itself gets it");
    let less = check_with("[build]\ntimeout = \"2s\"\nmemory = \"100M\"\n", &other).unwrap();
    assert_eq!(
        (less.plan.limits.timeout_ms, less.plan.limits.memory),
        (Some(2000), 100 << 20)
    );
}

#[test]
fn services_and_programs_that_serve_http_are_checked_and_others_are_not() {
    let python = |code: &str, manifest: &str| check(&single(file("/f/x.py", code.as_bytes()), Some(manifest)));
    assert!(python("1", "[service]\n").is_some());
    assert!(python("1", "[http_server]\n").is_some());
    // It is loaded before it serves.
    assert_eq!(python("def handler(event, context): pass", ""), None);
    assert_eq!(python("1", "[release]\ncheck = false\n"), None);
    // Another program may read the file.
    assert_eq!(python("1", "[service]\ncommand = [\"/opt/own\", \"x.py\"]\n"), None);
    for name in ["/f/x.pl", "/f/x.java"] {
        assert_eq!(check(&single(file(name, b"1"), None)), None, "{name}");
    }
    assert_eq!(check(&single(executable("/f/x", b"#!/bin/own\n"), None)), None);
}

#[test]
fn code_that_is_here_only_in_part_is_not_checked() {
    let python = |code: Vec<u8>| check(&single(file("/f/x.py", &code), None));
    assert_eq!(python(Vec::new()), None);
    assert_eq!(python(vec![b'\n'; fnd_wire::plan::CODE_MAX]), None);
    assert!(python(vec![b'\n'; fnd_wire::plan::CODE_MAX - 1]).is_some());
    // A shell never reads the bytes after `exit`.
    assert_eq!(check(&single(file("/f/x.sh", b"exit\n\0\0"), None)), None);
}

#[test]
fn a_directory_is_checked_by_its_entry_and_the_file_that_says_how_to_read_it() {
    let files = vec![
        file("src/job.js", b"import 'x'"),
        file("src/other.js", b""),
        file("package.json", b"{}"),
    ];
    let manifest = "runtime = \"node\"\nentry = \"src/job.js\"\nmode = \"script\"\n";
    let build = check(&directory(files, manifest)).unwrap();
    let paths: Vec<_> = checked(&build).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["f/x/package.json", "f/x/src/fnd-checked.js"]);
    let texts: Vec<_> = build.plan.argv.iter().map(|text| text.text.as_str()).collect();
    assert_eq!(
        texts[5..],
        [
            "src/fnd-checked.js",
            "",
            "{interpreter}",
            "--check",
            "src/fnd-checked.js"
        ]
    );
}

#[test]
fn only_files_above_the_entry_say_how_to_read_it() {
    let others = (0..300).map(|number| file(&format!("a/{number}/package.json"), b"{}"));
    let mut files: Vec<_> = others.collect();
    files.extend([
        file("package.json", b"{\"type\":\"module\"}"),
        file("src/package.json", b"{}"),
    ]);
    files.push(file("src/job.js", b"import 'x'"));
    let build = check(&directory(
        files,
        "runtime = \"node\"\nentry = \"src/job.js\"\nmode = \"script\"\n",
    ))
    .unwrap();
    let paths: Vec<_> = checked(&build).into_iter().map(|(path, _)| path).collect();
    assert_eq!(
        paths,
        ["f/x/package.json", "f/x/src/package.json", "f/x/src/fnd-checked.js"]
    );
}

#[test]
fn no_interpreter_takes_a_path_for_an_option() {
    for (runtime, entry) in [("node", "-e/job.js"), ("bash", "-c/job.sh")] {
        let manifest = format!("runtime = \"{runtime}\"\nentry = \"{entry}\"\nmode = \"script\"\n");
        let build = check(&directory(vec![file(entry, b"1")], &manifest)).unwrap();
        let path = build.plan.argv.iter().find(|text| text.text.contains("fnd-checked"));
        assert!(path.unwrap().text.starts_with("./-"), "{path:?}");
    }
}

#[test]
fn files_that_no_frame_can_hold_are_not_checked() {
    let large = vec![b' '; fnd_wire::plan::CODE_MAX - 1];
    let directories = (0..14).map(|depth| "d/".repeat(depth));
    let mut files: Vec<_> = directories
        .map(|above| file(&(above + "package.json"), &large))
        .collect();
    let entry = "d/".repeat(13) + "job.js";
    files.push(file(&entry, b"1"));
    let manifest = format!("runtime = \"node\"\nentry = \"{entry}\"\nmode = \"script\"\n");
    let mut judge = judge("");
    let reply = judge.answer(&JudgeRequest::Check(directory(files, &manifest)));
    assert!(matches!(reply, JudgeReply::Function(reply) if reply.build.is_none()));
}
