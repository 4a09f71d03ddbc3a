//! Installed versions: the configured number is kept, and every version that runs.

use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use std::collections::BTreeSet;
use std::fs;

/// Returns the installed versions of a function, by directory name.
fn installed(fnd: &Fnd, name: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(fnd.path("state/versions").join(name))
        .into_iter()
        .flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('.')).collect()
}

/// Changes a function and returns its new version.
fn change(fnd: &Fnd, n: usize) -> String {
    let before = fnd.function("f").and_then(|function| function.version);
    fnd.drop_file(
        "f.sh",
        &format!("# /// fnd\n# on_load = false\n# ///\necho version {n}\n"),
    );
    let changed = fnd.wait_function("f", "to change", |function| {
        function.version.is_some() && function.version != before
    });
    changed.version.unwrap().hex()
}

fn wait_installed(fnd: &Fnd, expected: &[String]) {
    let expected: BTreeSet<_> = expected.iter().cloned().collect();
    wait_until("the older versions to be deleted", PATIENCE, || {
        (installed(fnd, "f") == expected).then_some(())
    });
}

#[test]
fn seven_changes_leave_five_versions() {
    let mut fnd = Fnd::start();
    let versions: Vec<_> = (0..7).map(|n| change(&fnd, n)).collect();
    wait_installed(&fnd, &versions[2..]);
    assert_eq!(fnd.invoke("f", "").text(), "version 6\n");
    // A change back to a kept version makes it the newest one.
    assert_eq!(change(&fnd, 3), versions[3]);
    assert_eq!(fnd.invoke("f", "").text(), "version 3\n");
    // A lower number holds from the next start; the newest versions stay.
    fnd.stop();
    let config = fnd.path("fnd.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("keep_versions = 2\n{text}")).unwrap();
    fnd.launch();
    wait_installed(&fnd, &[versions[3].clone(), versions[6].clone()]);
    assert_eq!(fnd.invoke("f", "").text(), "version 3\n");
    fnd.finish();
}

/// The versions of a deleted function are removed, whether fnd ran or not when the file was deleted.
#[test]
fn a_deleted_function_leaves_no_version() {
    let mut fnd = Fnd::start();
    for n in 0..2 {
        change(&fnd, n);
    }
    fnd.remove("f.sh");
    wait_installed(&fnd, &[]);
    let versions = [change(&fnd, 0), change(&fnd, 1)];
    wait_installed(&fnd, &versions);
    assert_eq!(fnd.invoke("f", "").text(), "version 1\n");
    fnd.stop();
    fnd.remove("f.sh");
    fnd.launch();
    wait_installed(&fnd, &[]);
    fnd.finish();
}

/// A home holds people's data: it stays, and `fndctl status -o wide` says of whom it was, until it is removed or its function is back.
#[test]
fn what_a_deleted_function_left_is_named_until_it_is_gone() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    let wide = || fnd.ctl(&["status", "-o", "wide"]).expect_code(0).out();
    let says = |words: &str| wait_until(words, PATIENCE, || wide().contains(words).then_some(()));
    let code = "# /// fnd\n# on_load = false\n# ///\necho data >\"$STATE_DIRECTORY/kept\"\n";
    for name in ["f.sh", "ops/tool.sh"] {
        fnd.drop_file(name, code);
        let name = name.trim_end_matches(".sh");
        fnd.wait_ready(name);
        assert_eq!(fnd.run(name, "").0.status, 200);
    }
    assert!(!wide().contains("still have files"), "{}", wide());
    fnd.remove("ops/tool.sh");
    fnd.wait_gone("ops/tool");
    says("1 deleted function still has files: ops/tool (");
    fnd.remove("f.sh");
    fnd.wait_gone("f");
    says("2 deleted functions still have files: f, ops/tool (");
    // Without `-o wide` nothing is said: nothing is wrong.
    let status = fnd.ctl(&["status"]).expect_code(0).out();
    assert!(!status.contains("still have files"), "{status}");
    fnd.drop_file("f.sh", code);
    fnd.wait_ready("f");
    says("1 deleted function still has files: ops/tool (");
    assert_eq!(
        fs::read_to_string(fnd.path("state/home/ops.tool/kept")).unwrap(),
        "data\n"
    );
    fnd.finish();
}

#[test]
fn what_runs_keeps_its_version_until_it_ends() {
    let fnd = Fnd::start_with(&Setup::default().config("keep_versions = 1\n"));
    let gate = fnd.path("gate");
    let script = format!(
        "# /// fnd\n# on_load = false\n# ///\nuntil [[ -e {} ]]; do sleep 0.02; done\n",
        gate.display()
    );
    fnd.drop_file("f.sh", &script);
    let old = fnd.wait_ready("f").version.unwrap().hex();
    let id = fnd.queue("f", "");
    let _ = fnd.wait_function("f", "to run", |function| function.running == 1);
    let _ = change(&fnd, 1);
    let new = change(&fnd, 2);
    wait_installed(&fnd, &[old, new.clone()]);
    fs::write(&gate, "").unwrap();
    fnd.wait_end(id);
    // The launcher of the version may still be ending; later ends of attempts try the removal again.
    wait_until("the older versions to be deleted", PATIENCE, || {
        let (answer, _) = fnd.run("f", "");
        assert_eq!(answer.text(), "version 2\n");
        (installed(&fnd, "f") == BTreeSet::from([new.clone()])).then_some(())
    });
    fnd.finish();
}
