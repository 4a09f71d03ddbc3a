//! Bad input gives a clear error with the fix in it, and all other functions keep serving.

use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

/// Starts an fnd with a function that must keep serving, whatever file is added beside it.
fn with_witness() -> Fnd {
    let fnd = Fnd::start();
    fnd.drop_file("witness.sh", "# /// fnd\n# on_load = false\n# ///\necho serving\n");
    fnd.wait_ready("witness");
    fnd
}

#[track_caller]
fn witness_serves(fnd: &Fnd) {
    assert_eq!(fnd.invoke("witness", "").text().trim(), "serving");
}

/// Adds a manifest beside a script and checks that each needle is in the error.
#[track_caller]
fn refused(fnd: &Fnd, name: &str, manifest: &str, needles: &[&str]) {
    fnd.drop_file(&format!("{name}.toml"), manifest);
    fnd.drop_file(&format!("{name}.sh"), "echo never\n");
    let function = fnd.wait_error(name);
    let error = function.error.unwrap();
    for needle in needles {
        assert!(error.contains(needle), "{name}: no {needle:?} in {error}");
    }
    assert!(fnd.history(name).is_empty(), "{name} was run");
}

/// The test that lists all functions comes first.
#[test]
fn bad_files_beside_a_good_one() {
    let fnd = with_witness();
    what_nobody_claims_is_no_function(&fnd);
    a_comment_that_is_nearly_a_manifest_keeps_its_script_from_running(&fnd);
    a_main_with_other_parameters_is_warned_about(&fnd);
    manifests(&fnd);
    a_manifest_that_is_not_text(&fnd);
    both_a_sidecar_and_an_inline_block(&fnd);
    a_world_writable_file(&fnd);
    a_world_writable_directory(&fnd);
    links_fifos_and_devices(&fnd);
    names_that_are_none(&fnd);
    root_is_refused(&fnd);
    a_limit_that_cannot_be_enforced_is_refused(&fnd);
    ten_broken_files_beside_a_good_one(&fnd);
    fnd.finish();
}

fn manifests(fnd: &Fnd) {
    refused(fnd, "runtime", "runtime = \"pyhton\"\n", &["pyhton", "python"]);
    refused(fnd, "syntax", "on_load = = false\n", &["syntax.toml:1:"]);
    refused(
        fnd,
        "key",
        "[limits]\nmemroy = \"1M\"\n",
        &["memroy", "memory", "key.toml:2:1"],
    );
    refused(
        fnd,
        "unit",
        "[limits]\ntimeout = \"soon\"\n",
        &["soon", "unit.toml:2:11"],
    );
    refused(fnd, "zero", "[limits]\ntimeout = \"0\"\n", &["timeout"]);
    refused(fnd, "negative", "[retry]\nretries = -1\n", &["retries"]);
    refused(fnd, "type", "enabled = \"yes\"\n", &["enabled"]);
    refused(fnd, "double", "on_load = false\non_load = true\n", &["on_load"]);
    refused(
        fnd,
        "packages",
        "dependencies = [\"requests\"]\n",
        &["dependencies", "fnd installs no dependencies for runtime `bash`"],
    );
    refused(fnd, "tiny", "[limits]\nmemory = \"1\"\n", &["memory"]);
    witness_serves(fnd);
}

fn a_manifest_that_is_not_text(fnd: &Fnd) {
    fnd.drop_bytes("bytes.toml", b"description = \"\xff\xfe\"\n", 0o644);
    fnd.drop_file("bytes.sh", "echo never\n");
    assert!(fnd.wait_error("bytes").error.unwrap().contains("UTF-8"));
    witness_serves(fnd);
}

fn both_a_sidecar_and_an_inline_block(fnd: &Fnd) {
    fnd.drop_file("two.toml", "on_load = false\n");
    fnd.drop_file("two.sh", "# /// fnd\n# on_load = false\n# ///\necho never\n");
    let error = fnd.wait_error("two").error.unwrap();
    assert!(error.contains("two.toml"), "{error}");
    witness_serves(fnd);
}

#[test]
fn a_missing_interpreter() {
    let fnd = Fnd::start_with(
        &Setup::default().config("[runtimes.python]\ninterpreters = { \"3.99\" = \"/nonexistent/python3.99\" }\n"),
    );
    fnd.drop_file(
        "versioned.py",
        "# /// fnd\n# on_load = false\n# runtime = \"python3.99\"\n# ///\nprint(1)\n",
    );
    let error = fnd.wait_error("versioned").error.unwrap();
    assert!(
        error.contains("/nonexistent/python3.99") || error.contains("3.99"),
        "{error}"
    );
    fnd.finish();
}

/// A sticky ancestor such as /tmp is fine; a file that others can write is not.
fn a_world_writable_file(fnd: &Fnd) {
    fnd.drop_bytes("open.sh", b"echo never\n", 0o666);
    let error = fnd.wait_error("open").error.unwrap();
    assert!(error.contains("INSECURE MODE") && error.contains("chmod"), "{error}");
    // The fix that the error names is enough.
    fs::set_permissions(fnd.function_path("open.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    fnd.drop_file("open.toml", "on_load = false\n");
    fnd.wait_ready("open");
    witness_serves(fnd);
}

fn a_world_writable_directory(fnd: &Fnd) {
    fs::create_dir(fnd.function_path("wide")).unwrap();
    fs::set_permissions(fnd.function_path("wide"), fs::Permissions::from_mode(0o777)).unwrap();
    fnd.drop_file("wide/inner.sh", "echo never\n");
    let error = fnd.wait_error("wide/inner").error.unwrap();
    assert!(error.contains("INSECURE MODE"), "{error}");
    witness_serves(fnd);
}

/// Root can read every file, so this test is for a person's own fnd, or for root without that capability.
#[test]
fn an_unreadable_file() {
    let fnd = Fnd::prepare(&Setup::default().file("fine.sh", "echo fine\n"));
    fnd.drop_bytes("closed.sh", b"echo never\n", 0o000);
    let command = fnd.command();
    let mut check = Command::new(command.get_program());
    if require::is_root() {
        check = Command::new("setpriv");
        check.arg("--bounding-set=-dac_override,-dac_read_search");
        check.arg(command.get_program());
    }
    let output = check.args(command.get_args()).arg("--check").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(78), "{printed}");
    assert!(
        printed.contains("closed.sh") && printed.contains("cannot be read"),
        "{printed}"
    );
    assert!(!printed.contains("fine.sh"), "{printed}");
}

fn links_fifos_and_devices(fnd: &Fnd) {
    let outside = fnd.path("outside.sh");
    fs::write(&outside, "echo never\n").unwrap();
    symlink(&outside, fnd.function_path("link.sh")).unwrap();
    symlink("/nonexistent", fnd.function_path("dangling.sh")).unwrap();
    nix::unistd::mkfifo(
        &fnd.function_path("pipe.sh"),
        nix::sys::stat::Mode::from_bits_truncate(0o644),
    )
    .unwrap();
    assert!(fnd.wait_error("link").error.unwrap().contains("link.sh"));
    let _ = fnd.wait_problem_or_error("dangling");
    let _ = fnd.wait_problem_or_error("pipe");
    // A link that stays inside is followed.
    fnd.drop_file("real/main.sh", "echo real\n");
    fnd.drop_file("real/function.toml", "on_load = false\n");
    fnd.wait_ready("real");
    witness_serves(fnd);
}

fn names_that_are_none(fnd: &Fnd) {
    fnd.drop_file("Über Name.sh", "echo never\n");
    fnd.drop_file("UPPER.sh", "echo never\n");
    let problem = fnd.wait_problem("UPPER.sh");
    assert!(problem.contains("a-z"), "{problem}");
    let _ = fnd.wait_problem("ber Name.sh");
    witness_serves(fnd);
}

#[test]
fn a_configuration_that_is_wrong_stops_the_start() {
    let fnd = Fnd::prepare(&Setup::default().config("functons_dirs = []\n[status]\nmode = 640\n"));
    let status = fnd.command().status().unwrap();
    assert_eq!(status.code(), Some(78), "{}", fnd.log());
    for needle in ["functons_dirs", "functions_dirs", "fnd.toml:1:", "fnd.toml:3:"] {
        assert!(fnd.log().contains(needle), "no {needle:?} in {}", fnd.log());
    }
    let status = fnd.command().arg("--no-such-flag").status().unwrap();
    assert_eq!(status.code(), Some(2), "{}", fnd.log());
}

#[test]
fn check_judges_without_running() {
    let good = Fnd::prepare(&Setup::default().file("fine.sh", "echo fine\n"));
    assert_eq!(
        good.command().arg("--check").status().unwrap().code(),
        Some(0),
        "{}",
        good.log()
    );
    let bad = Fnd::prepare(&Setup::default().file("bad.sh", "# /// fnd\n# colour = 1\n# ///\necho\n"));
    assert_eq!(
        bad.command().arg("--check").status().unwrap().code(),
        Some(78),
        "{}",
        bad.log()
    );
    assert!(
        bad.log().contains("bad.sh:2:") && bad.log().contains("colour"),
        "{}",
        bad.log()
    );
}

/// A function runs as root only if manifest and configuration both allow it; here the configuration does not.
fn root_is_refused(fnd: &Fnd) {
    require!(root);
    refused(
        fnd,
        "rooted",
        "on_load = false\n[sandbox]\nprofile = \"off\"\nuser = \"root\"\n",
        &["root"],
    );
    witness_serves(fnd);
}

/// A limit in a manifest is enforced, or the function is refused. `open_files` can always be enforced, IO limits only
/// on cgroup v2.
fn a_limit_that_cannot_be_enforced_is_refused(fnd: &Fnd) {
    require!(root, cgroup);
    let missing = fnd.status().not_enforced;
    if missing.contains_key("io_read") {
        refused(
            fnd,
            "io",
            "on_load = false\n[limits]\nio_read = \"1M/s\"\n",
            &["io_read"],
        );
    }
    witness_serves(fnd);
}

fn what_nobody_claims_is_no_function(fnd: &Fnd) {
    fnd.drop_file("README.md", "# Notes\n");
    fnd.drop_file("data.txt", "1 2 3\n");
    fnd.drop_file("after.sh", "# /// fnd\n# on_load = false\n# ///\n:\n");
    fnd.wait_ready("after");
    let names: Vec<String> = fnd
        .status()
        .functions
        .iter()
        .map(|function| function.function.to_string())
        .collect();
    assert_eq!(names, ["after", "witness"]);
    witness_serves(fnd);
}

/// The test that counts problems comes first.
#[test]
fn projects_and_files_of_nobody() {
    let fnd = with_witness();
    a_python_project_does_not_run_by_itself(&fnd);
    a_file_that_no_rule_claims_is_named(&fnd);
    fnd.finish();
}

/// A file that does nothing is named where people look: in the status and in the journal, once.
fn a_file_that_no_rule_claims_is_named(fnd: &Fnd) {
    fnd.drop_file("x.tcl", "puts 1\n");
    fnd.drop_file("ops/data", "1 2 3\n");
    let paths = ["x.tcl", "ops/data"].map(|name| fnd.function_path(name).display().to_string());
    let status = wait_until("both files to be named", PATIENCE, || {
        Some(fnd.status()).filter(|status| status.unclaimed_count == 2)
    });
    assert_eq!(status.unclaimed, paths);
    let shown = fnd.ctl(&["status"]).expect_code(0).out();
    let line = format!("2 files are no functions: {}", paths.join(", "));
    assert!(shown.contains(&line), "{shown}");
    // Whatever else changes, each is logged once.
    fnd.drop_file("after.sh", "# /// fnd\n# on_load = false\n# ///\n:\n");
    fnd.remove("x.tcl");
    fnd.wait_ready("after");
    wait_until("the file to be forgotten", PATIENCE, || {
        (fnd.status().unclaimed_count == 1).then_some(())
    });
    for path in &paths {
        assert_eq!(fnd.log().matches(path.as_str()).count(), 1, "{}", fnd.log());
    }
    witness_serves(fnd);
}

/// A manifest that is not read must not let its script run.
fn a_comment_that_is_nearly_a_manifest_keeps_its_script_from_running(fnd: &Fnd) {
    fnd.drop_file(
        "near.sh",
        "#!/bin/bash\n# // fnd\n# on_load = false\n# ///\necho never\n",
    );
    fnd.drop_file("mixed.py", "# /// script\n# on_load = false\n# ///\nprint('never')\n");
    fnd.drop_file(
        "pep.sh",
        "# /// script\n# dependencies = [\"requests\"]\n# ///\necho never\n",
    );
    let error = fnd.wait_error("near").error.unwrap();
    assert!(
        error.contains("near.sh:2:1") && error.contains("write a manifest as `# /// fnd`"),
        "{error}"
    );
    let error = fnd.wait_error("mixed").error.unwrap();
    assert!(error.contains("mixed.py:2:1") && error.contains("on_load"), "{error}");
    let pep = fnd.wait_ready("pep");
    let warning = pep.warning.unwrap();
    assert!(
        warning.contains("pep.sh:1:1") && warning.contains("is for Python"),
        "{warning}"
    );
    assert!(
        fnd.ctl(&["status"]).out().contains(&warning) && fnd.log().contains(warning.trim_start_matches("warning: "))
    );
    // By the time that another script has run, these would have run as well.
    fnd.drop_file("after.sh", "echo ran\n");
    fnd.wait_run("after");
    for name in ["near", "mixed", "pep"] {
        assert_eq!(fnd.history(name).len(), 0, "{name}");
    }
    // It still runs when it is asked to.
    assert_eq!(fnd.invoke("pep", "").text().trim(), "never");
    witness_serves(fnd);
}

fn a_main_with_other_parameters_is_warned_about(fnd: &Fnd) {
    fnd.drop_file("almost.py", "import os\n\ndef main(args):\n    return {}\n");
    let warning = fnd.wait_ready("almost").warning.unwrap();
    for needle in [
        "almost.py:3:1",
        "1 parameter",
        "main(event, context)",
        "handler(event, context)",
        "handle(logger, request)",
    ] {
        assert!(warning.contains(needle), "{needle:?} in {warning}");
    }
    fnd.drop_file("later.sh", "echo ran\n");
    fnd.wait_run("later");
    assert_eq!(fnd.history("almost").len(), 0);
    // The fix that the warning names is enough.
    fnd.drop_file("almost.py", "def main(event, context):\n    return 5\n");
    wait_until("the handler to answer", PATIENCE, || {
        (fnd.invoke("almost", "").text().trim() == "5").then_some(())
    });
    assert_eq!(fnd.function("almost").unwrap().warning, None);
    witness_serves(fnd);
}

/// Each module of a project would be a function, and would run without the others.
fn a_python_project_does_not_run_by_itself(fnd: &Fnd) {
    fnd.drop_file("words.py", "print('never')\n");
    fnd.drop_file("job.py", "import json, words\nprint('never')\n");
    fnd.drop_file("packaged/pyproject.toml", "[project]\nname = \"x\"\n");
    fnd.drop_file("packaged/work.py", "print('never')\n");
    fnd.drop_file(
        "packaged/asked.py",
        "# /// fnd\n# on_load = true\n# ///\nprint('asked')\n",
    );
    // The scripts of other directories run. By then these would have run as well.
    fnd.drop_file("other/after.sh", "echo ran\n");
    fnd.wait_run("other/after");
    fnd.wait_run("packaged/asked");
    for name in ["words", "job", "packaged/work"] {
        fnd.wait_ready(name);
        assert_eq!(fnd.history(name).len(), 0, "{name}");
    }
    let problems = fnd.status().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems
            .iter()
            .all(|problem| problem.starts_with("warning: ") && problem.contains("function.toml"))
    );
    let _ = fnd.wait_problem("`job.py` imports `words.py`");
    let _ = fnd.wait_problem("packaged: `pyproject.toml`");
    let judged = fnd
        .ctl(&["validate", &fnd.path("functions").display().to_string()])
        .expect_code(0);
    assert!(
        (judged.out() + &judged.stderr).contains("`job.py` imports `words.py`"),
        "{judged}"
    );
    // What is no project any more runs.
    fnd.drop_file("job.py", "print('alone')\n");
    fnd.remove("packaged/pyproject.toml");
    for name in ["words", "job", "packaged/work"] {
        fnd.wait_run(name);
    }
    assert_eq!(fnd.status().problems, [""; 0]);
    witness_serves(fnd);
}

fn ten_broken_files_beside_a_good_one(fnd: &Fnd) {
    for n in 0..10 {
        fnd.drop_file(&format!("broken-{n}.sh"), "# /// fnd\n# [[[\n# ///\n");
    }
    for n in 0..10 {
        let function = fnd.wait_error(&format!("broken-{n}"));
        assert_eq!(fnd_tests::ask::word(&function.state), "invalid");
    }
    witness_serves(fnd);
}
