//! `fndctl doctor` on a real machine finds each problem with its place and its fix, and reports nothing else.

use fnd_tests::ctl::fndctl;
use fnd_tests::{Fnd, Run, Setup, require};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const HELLO: &str = "# /// fnd\n# on_load = false\n# ///\necho hi\n";

/// Returns the findings of an area.
fn findings(run: &Run, check: &str) -> Vec<Value> {
    let report = run.json();
    let all = report["findings"].as_array().expect("a list of findings").clone();
    all.into_iter().filter(|finding| finding["check"] == check).collect()
}

/// Returns the finding of an area at a place.
#[track_caller]
fn at(run: &Run, check: &str, place: &Path) -> Value {
    let place = fs::canonicalize(place).unwrap();
    let found = findings(run, check)
        .into_iter()
        .find(|finding| finding["where"] == place.display().to_string());
    found.unwrap_or_else(|| panic!("no finding of {check} at {}: {run}", place.display()))
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn doctor(fnd: &Fnd) -> Run {
    fnd.ctl(&["doctor", "-o", "json"])
}

/// A machine without a problem comes first, and a problem that stays last.
#[test]
fn files_and_their_modes() {
    let fnd = Fnd::start_with(&Setup::default().file("hello.sh", HELLO).file("ops/hello.sh", HELLO));
    a_machine_that_is_fine_has_no_error(&fnd);
    insecure_modes_are_named_with_their_fix(&fnd);
    a_foreign_owner_above_is_named(&fnd);
    fnd.finish();
}

fn a_machine_that_is_fine_has_no_error(fnd: &Fnd) {
    require!(cgroup);
    let run = doctor(fnd).expect_code(0);
    let report = run.json();
    assert_eq!(report["errors"], 0, "{run}");
    for check in ["daemon", "kernel", "cgroups", "functions", "permissions", "disk"] {
        let levels: Vec<Value> = findings(&run, check)
            .iter()
            .map(|finding| finding["level"].clone())
            .collect();
        assert!(levels.contains(&"ok".into()), "{check}: {run}");
    }
    let runtimes = findings(&run, "runtimes");
    let bash = runtimes
        .iter()
        .find(|finding| finding["what"].as_str().unwrap().starts_with("bash: "));
    let bash = bash.expect("bash is looked at");
    assert!(
        bash["level"] == "ok" && bash["what"].as_str().unwrap().contains("version"),
        "{bash}"
    );
    // Checks of an installation are left out for an fnd in a directory of its own.
    for check in ["units", "access", "journal"] {
        assert_eq!(findings(&run, check), Vec::<Value>::new(), "{check}");
    }
}

fn insecure_modes_are_named_with_their_fix(fnd: &Fnd) {
    let (file, group) = (fnd.function_path("ops/hello.sh"), fnd.function_path("ops"));
    for path in [&file, &group] {
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        chmod(path, mode | 0o020);
        let run = doctor(fnd).expect_code(1);
        let found = at(&run, "permissions", path);
        assert_eq!(found["level"], "error", "{run}");
        assert!(found["what"].as_str().unwrap().contains("INSECURE MODE"), "{found}");
        let fix = found["fix"].as_str().unwrap().strip_prefix("sudo ").unwrap();
        assert!(fix.starts_with("chmod go-w "), "{fix}");
        // The fix works.
        let fixed = std::process::Command::new("/bin/sh")
            .args(["-c", fix])
            .status()
            .unwrap();
        assert!(fixed.success(), "{fix}");
        let levels: Vec<Value> = findings(&doctor(fnd), "permissions")
            .iter()
            .map(|found| found["level"].clone())
            .collect();
        assert_eq!(levels, ["ok"]);
    }
}

/// A directory of another user above a function of root.
fn a_foreign_owner_above_is_named(fnd: &Fnd) {
    require!(root);
    let group = fnd.function_path("ops");
    std::os::unix::fs::chown(&group, Some(12345), None).unwrap();
    let run = doctor(fnd).expect_code(1);
    let found = at(&run, "permissions", &group);
    assert!(found["what"].as_str().unwrap().contains("12345"), "{found}");
}

#[test]
fn invalid_functions_and_files_of_nobody_are_listed() {
    let fnd = Fnd::start();
    fnd.drop_file("README.md", "# Not a function\n");
    fnd.drop_file("ops/lib.txt", "nor this\n");
    fnd.drop_file("bad.toml", "on_load = false\nretires = 3\n");
    fnd.drop_file("bad.sh", "echo hi\n");
    let run = fnd_tests::wait_until("the bad one to be known", fnd_tests::wait::PATIENCE, || {
        let known = |run: &fnd_tests::Run| findings(run, "functions").iter().any(|found| found["where"] == "bad");
        Some(doctor(&fnd)).filter(|run| run.code == 1 && known(run))
    });
    for file in ["README.md", "ops/lib.txt"] {
        let found = at(&run, "functions", &fnd.function_path(file));
        assert_eq!(found["level"], "warning", "{found}");
    }
    let bad = findings(&run, "functions")
        .into_iter()
        .find(|found| found["where"] == "bad")
        .expect("bad");
    assert!(
        bad["level"] == "error" && bad["what"].as_str().unwrap().contains("retires"),
        "{bad}"
    );
    fnd.finish();
}

/// Without a daemon doctor finds the same problems, with the same code; that no daemon answers is one more error.
#[test]
fn it_needs_no_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let functions = directory.path().join("functions");
    fs::create_dir(&functions).unwrap();
    fs::write(functions.join("bad.sh"), "# /// fnd\n# retires = 3\n# ///\n").unwrap();
    fs::write(functions.join("notes.txt"), "").unwrap();
    let config = directory.path().join("fnd.toml");
    fs::write(
        &config,
        "[runtimes.python]\ninterpreters = { \"3.99\" = \"/nonexistent/python3.99\" }\n",
    )
    .unwrap();
    let text = |path: &Path| path.display().to_string();
    let arguments = [
        "doctor".to_owned(),
        "--functions".to_owned(),
        text(&functions),
        "--functions".to_owned(),
        text(&directory.path().join("absent")),
        "--config".to_owned(),
        text(&config),
        "--state".to_owned(),
        text(directory.path()),
    ];
    let nobody = directory.path().join("control.sock");
    let run = fndctl(
        &[&arguments[..], &["-o".to_owned(), "json".to_owned()]].concat(),
        b"",
        &[("FND_SOCKET", &nobody)],
    );
    assert_eq!(run.code, 1, "{run}");
    assert_eq!(findings(&run, "daemon")[0]["level"], "error", "{run}");
    let what = |check: &str, needle: &str| {
        let all = findings(&run, check);
        let found = all.iter().any(|found| found["what"].as_str().unwrap().contains(needle));
        assert!(found, "no {needle:?} of {check}: {run}");
    };
    what("functions", "retires");
    what("functions", "no rule makes it a function");
    what("permissions", "does not exist");
    what("runtimes", "fnd.toml names this interpreter");
    // For people the complete fix is below its finding.
    let run = fndctl(&arguments, b"", &[("FND_SOCKET", &nobody)]);
    assert!(run.out().contains("fix: sudo install -d -m 0755 "), "{run}");
    assert!(run.out().lines().last().unwrap().contains(" errors, "), "{run}");
    let wide = fndctl(
        &[&arguments[..], &["-o".to_owned(), "wide".to_owned()]].concat(),
        b"",
        &[("FND_SOCKET", &nobody)],
    );
    assert!(wide.out().starts_with("LEVEL"), "{wide}");
}

/// A refused configuration is an error with its place.
#[test]
fn a_wrong_configuration_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("fnd.toml");
    fs::write(&config, "keep_version = 5\n").unwrap();
    let nobody = directory.path().join("control.sock");
    let run = fndctl(
        &[
            Path::new("doctor"),
            Path::new("-o"),
            Path::new("json"),
            Path::new("--config"),
            &config,
        ],
        b"",
        &[("FND_SOCKET", &nobody)],
    );
    let found = findings(&run, "configuration");
    assert_eq!(found[0]["level"], "error", "{run}");
    assert!(found[0]["where"].as_str().unwrap().ends_with("fnd.toml:1:1"), "{run}");
}
