//! `fndctl validate` gives the verdict of the daemon: on modes, links, interpreters and the syntax of code.

use fnd_tests::ctl::fndctl;
use fnd_tests::programs::{deno, program, runtimes};
use fnd_tests::require::is_root;
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

/// Each of these has functions of its own.
#[test]
fn verdicts_of_fnd_and_of_validate() {
    let fnd = Fnd::start();
    versions_are_those_that_are_installed(&fnd);
    another_version_than_the_named_one_is_a_warning_that_names_both(&fnd);
    what_fnd_refuses_is_refused_with_the_same_words(&fnd);
    fnd.finish();
}

/// Each file is refused by a real fnd for the reason that `validate` gives.
fn what_fnd_refuses_is_refused_with_the_same_words(fnd: &Fnd) {
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
    // fnd takes an interpreter of root only, and without root the tests' own is a copy of the user.
    let deno = deno().filter(|_| is_root());
    let text = deno.as_ref().map(|deno| {
        let path = deno.display().to_string();
        format!("[runtimes.deno]\ninterpreters = {{ \"2\" = {path:?} }}\n")
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
    let config = place.path().join("fnd.toml");
    let check = |functions: &str| {
        Command::new(program("fnd"))
            .args(["--check", "--functions"])
            .arg(place.path().join(functions))
            .arg("--config")
            .arg(&config)
            .arg("--runtimes")
            .arg(runtimes())
            .output()
            .unwrap()
    };
    let output = check("there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{errors}");
    assert!(errors.contains("there is no configuration file"), "{errors}");
    fs::write(&config, "").unwrap();
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

/// Where one interpreter serves all versions of a language, `validate` asks it for its version.
fn another_version_than_the_named_one_is_a_warning_that_names_both(fnd: &Fnd) {
    let Ok(output) = Command::new("/usr/bin/node").arg("--version").output() else {
        return;
    };
    let printed = String::from_utf8(output.stdout).unwrap();
    let version = printed.trim().trim_start_matches('v');
    let major = version.split('.').next().unwrap();
    let code = "module.exports = () => 1;\n";
    for (name, runtime, expected) in [
        ("same", format!("nodejs{major}"), "0 warnings"),
        ("elder", "nodejs8".to_owned(), "1 warning"),
    ] {
        fnd.drop_file(&format!("{name}.toml"), &format!("runtime = \"{runtime}\"\n"));
        fnd.drop_file(&format!("{name}.cjs"), code);
        let file = fnd.function_path(&format!("{name}.cjs"));
        let run = fnd.ctl(&["validate", &file.display().to_string()]).expect_code(0);
        let shown = format!("{}{}", run.out(), run.stderr);
        assert!(shown.contains(expected), "{shown}");
        if name == "elder" {
            assert!(shown.contains(&format!("version {version} and not `8`")), "{shown}");
        }
        let run = fnd
            .ctl(&["validate", "--content", &file.display().to_string()])
            .expect_code(0);
        let shown = format!("{}{}", run.out(), run.stderr);
        assert!(shown.contains("fnd does not check for"), "{shown}");
    }
}

/// Names of versions, as other systems have them, mean what is installed; `validate` and fnd say the same.
fn versions_are_those_that_are_installed(fnd: &Fnd) {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]);
    let minor = String::from_utf8(python.output().unwrap().stdout).unwrap();
    let minor = minor.trim();
    let listed = fnd.ctl(&["runtimes", "-o", "wide"]).expect_code(0).out();
    let row = listed.lines().find(|line| line.starts_with("python")).unwrap();
    assert!(
        row.contains(&format!("{minor}.")) && row.contains("/usr/bin/python3"),
        "{listed}"
    );
    let json = fnd.ctl(&["runtimes", "-o", "json"]).expect_code(0).json();
    let python = json["runtimes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|runtime| runtime["id"] == "python")
        .unwrap();
    for version in python["versions"].as_array().unwrap() {
        let interpreter = version["interpreter"].as_str().unwrap();
        assert_eq!(version["installed"], Path::new(interpreter).exists(), "{version}");
        assert_eq!(version["path"].is_string(), version["installed"] == true, "{version}");
        if version["installed"] == false && version["name"] != "default" {
            assert!(
                !row.contains(&format!("{}.", version["name"].as_str().unwrap())),
                "{row}"
            );
        }
    }
    let dotless = format!("python{}", minor.replace('.', ""));
    let node = "module.exports = () => process.version;\n";
    let code = "def handler(event, context):\n    import sys\n    return sys.version\n";
    for (name, runtime, suffix, code, accepted) in [
        ("dotless", dotless.as_str(), "py", code, true),
        ("major", "python3", "py", code, true),
        ("node20", "nodejs20", "cjs", node, true),
        ("ancient", "python2.7", "py", code, false),
    ] {
        fnd.drop_file(&format!("{name}.toml"), &format!("runtime = \"{runtime}\"\n"));
        fnd.drop_file(&format!("{name}.{suffix}"), code);
        let file = fnd.function_path(&format!("{name}.{suffix}"));
        if accepted {
            let _ = fnd.wait_ready(name);
            let _ = fnd.ctl(&["invoke", name, "-d", ""]).expect_code(0);
            let _ = validate(&file, &[]).expect_code(0);
        } else {
            let _ = fnd.wait_error(name);
            let run = validate(&file, &[]).expect_code(8);
            assert!(run.out().contains("`fndctl runtimes` lists what is installed"), "{run}");
        }
    }
}
