//! `fndctl validate` gives the verdict of the daemon: on modes, links, interpreters and the syntax of code.

use fnd_tests::ctl::fndctl;
use fnd_tests::programs::{deno_for_functions, program, repository};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Run, wait_until};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

fn validate(path: &Path, more: &[&str]) -> Run {
    fndctl(&[&["validate", &path.display().to_string()], more].concat(), b"", &[])
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Each file is refused by a real fnd for the reason that `validate` gives.
#[test]
fn what_fnd_refuses_is_refused_with_the_same_words() {
    let fnd = Fnd::start();
    let outside = fnd.path("outside.sh");
    fs::write(&outside, "echo\n").unwrap();
    for (file, text, words) in [
        (
            "mode.sh",
            "echo\n",
            "INSECURE MODE: users other than root and the owner can write to it",
        ),
        (
            "link.sh",
            "",
            "the symbolic link leads out of the functions directories",
        ),
        (
            "old.py",
            "# /// fnd\n# runtime = \"python3.9\"\n# ///\nprint(1)\n",
            "no interpreter for runtime `python`",
        ),
    ] {
        let path = fnd.function_path(file);
        let name = file.split('.').next().unwrap();
        if text.is_empty() {
            symlink(&outside, &path).unwrap();
        } else {
            fnd.drop_file(file, text);
        }
        if file.starts_with("mode") {
            let _ = fnd.wait_ready(name);
            set_mode(&path, 0o666);
        }
        if file.starts_with("old") && Path::new("/usr/bin/python3.9").exists() {
            continue;
        }
        let told = wait_until(&format!("fnd to refuse {file}"), PATIENCE, || {
            let status = fnd.ctl(&["status", "-o", "json"]).out();
            status.contains(words).then_some(status)
        });
        assert!(told.contains(name), "{told}");
        let run = validate(&path, &[]).expect_code(8);
        assert!(run.out().contains(words), "{file}: {run}");
        let _ = validate(&path, &["--content"]).expect_code(0);
    }
    let run = validate(&fnd.path("functions"), &[]).expect_code(8);
    assert!(
        run.out().contains("INSECURE MODE") && run.out().contains("leads out"),
        "{run}"
    );
    fnd.finish();
}

/// In a working copy, a file of the group is a warning; a file that everybody may change is an error.
#[test]
fn modes_outside_of_the_functions_directories() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("x.sh");
    fs::write(&path, "echo\n").unwrap();
    for (mode, code, word) in [
        (0o644, 0, ""),
        (0o664, 0, "warning: INSECURE MODE"),
        (0o666, 8, "error: INSECURE MODE"),
    ] {
        set_mode(&path, mode);
        let run = validate(&path, &[]).expect_code(code);
        assert!(run.out().contains(word), "{mode:o}: {run}");
    }
    set_mode(&path, 0o644);
    let below = place.path().join("link.sh");
    symlink("x.sh", &below).unwrap();
    let _ = validate(place.path(), &[]).expect_code(0);
}

#[test]
fn syntax_errors_have_their_place() {
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o755);
    let config = place.path().join("fnd.toml");
    let deno = deno_for_functions(place.path());
    let text = deno.as_ref().map(|deno| {
        format!(
            "[runtimes.deno]\ninterpreters = {{ \"2\" = {:?} }}\n",
            deno.display().to_string()
        )
    });
    fs::write(&config, text.unwrap_or_default()).unwrap();
    let config = config.display().to_string();
    for (file, text, shown) in [
        ("p.py", "def handler(event, context:\n    return 1\n", "p.py:1:12"),
        ("s.sh", "if true; then\n  echo\n", "s.sh:2:1"),
        ("n.cjs", "module.exports = () => {\n  return (;\n};\n", "n.cjs:2:11"),
        ("d.ts", "const a: number = 1;\nexport default () => (;\n", "d.ts:2:23"),
        ("whole/main.py", "import other\n", ""),
        ("whole/other.py", "x = = 1\n", "whole/other.py:1:5"),
    ] {
        if file.ends_with(".ts") && deno.is_none() {
            continue;
        }
        let path = place.path().join(file);
        if file.starts_with("whole") {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(place.path().join("whole/function.toml"), "entry = \"main.py\"\n").unwrap();
        }
        fs::write(&path, text).unwrap();
        let judged = if file.starts_with("whole") {
            path.parent().unwrap()
        } else {
            &path
        };
        let code = if shown.is_empty() { 0 } else { 8 };
        let run = validate(judged, &["--config", &config]).expect_code(code);
        assert!(run.out().contains(shown), "{file}: {run}");
        let json = validate(judged, &["--config", &config, "-o", "json"])
            .expect_code(code)
            .json();
        if code == 8 {
            assert_eq!(json["diagnostics"][0]["code"], "code-syntax", "{json}");
        }
    }
    let run = fndctl(&["explain", "code-syntax"], b"", &[]).expect_code(0);
    assert!(run.out().contains("Nothing of the code was run"), "{run}");
}

#[test]
fn fnd_check_refuses_a_named_directory_that_is_missing() {
    let place = tempfile::tempdir().unwrap();
    let check = |functions: &str| {
        Command::new(program("fnd"))
            .args(["--check", "--functions"])
            .arg(place.path().join(functions))
            .arg("--config")
            .arg(place.path().join("fnd.toml"))
            .arg("--runtimes")
            .arg(repository().join("runtimes"))
            .output()
            .unwrap()
    };
    let output = check("missing");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{errors}");
    assert!(
        errors.contains("missing") && errors.contains("no such directory of functions"),
        "{errors}"
    );
    fs::create_dir(place.path().join("there")).unwrap();
    assert_eq!(check("there").status.code(), Some(0));
}
