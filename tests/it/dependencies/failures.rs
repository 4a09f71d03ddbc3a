//! Installations that fail, hang or are ended: the version before serves.

use super::*;

const BEFORE: &str = "def handler(event, context):\n    return 'before'\n";

/// Returns an fnd whose function `pads` serves, and the text with dependencies that is to replace it.
fn serving(setup: &Setup) -> (Fnd, String) {
    let fnd = Fnd::start_with(setup);
    fnd.drop_file("pads.py", BEFORE);
    answers(&fnd, "pads", "before");
    (fnd, with_list(PYTHON))
}

#[test]
fn the_version_before_serves_until_the_packages_are_there() {
    require!(root, cgroup);
    let index = Index::start();
    index.mode("hang");
    // The machine has less memory than `[build] memory`.
    let (fnd, after) = serving(&index.setup("", "[node]\nmemory = \"1G\""));
    fnd.drop_file("pads.py", &after);
    index.wait_request();
    assert_eq!(fnd.invoke("pads", "\"Ada\"").text(), "before");
    let said = fnd.ctl(&["status"]).expect_code(0).out();
    assert!(said.contains("pads: its dependencies are being installed"), "{said}");
    // A function that is new.
    fnd.drop_file("new.py", &after);
    let status = fnd.wait_function("new", "building", |new| {
        new.state == fnd_core::run::FunctionState::Building
    });
    assert_eq!(status.error, None);
    let refused = fnd.invoke("new", "1");
    assert_eq!(refused.status, 503);
    assert!(
        refused.text().contains("its dependencies are being installed"),
        "{}",
        refused.text()
    );
    index.mode("ok");
    answers(&fnd, "pads", "one .....Ada");
    answers(&fnd, "new", "one .....Ada");
    assert_eq!(builds(&fnd), 1);
    fnd.finish();
}

#[test]
fn an_index_that_fails_is_asked_again_and_a_wrong_file_is_refused() {
    require!(root, cgroup);
    let index = Index::start();
    index.mode("500");
    let (fnd, after) = serving(&index.setup("", ""));
    fnd.drop_file("pads.py", &after);
    let build = wait_until("a failed attempt", PATIENCE, || {
        let build = fnd.history("fnd-build").pop()?;
        fnd.invocation(build.id).next_attempt_at.is_some().then_some(build.id)
    });
    index.mode("damaged");
    let error = error_with(&fnd, "pads", "installation of its dependencies failed");
    assert!(error.contains("HASH") || error.contains("hash"), "{error}");
    assert_eq!(fnd.invocation(build).attempts, 2);
    assert_eq!(fnd.status().dead_letters, 0, "fnd itself installs again");
    assert_eq!(fnd.invoke("pads", "\"Ada\"").text(), "before");
    assert_eq!(trees(&fnd), <[PathBuf; 0]>::default());
    let shown = fnd.ctl(&["show", "pads"]).out();
    assert!(shown.contains("--build"), "{shown}");
    // The same files again, once the index is well.
    index.mode("ok");
    let _ = fnd.ctl(&["build", "pads"]).expect_code(0);
    answers(&fnd, "pads", "one .....Ada");
    fnd.finish();
}

#[test]
fn an_installation_ends_at_its_timeout_or_when_somebody_cancels_it() {
    require!(root, cgroup);
    let index = Index::start();
    index.mode("hang");
    let (fnd, after) = serving(&index.setup("timeout = \"3s\"", ""));
    fnd.drop_file("pads.py", &after);
    let _ = error_with(&fnd, "pads", "timeout");
    fnd.drop_file("pads.py", &after.replace("fndpad\"", "fndpad>=1\""));
    wait_until("a second installation", PATIENCE, || (builds(&fnd) == 2).then_some(()));
    let _ = fnd.ctl(&["cancel", "--all", "fnd-build"]).expect_code(0);
    let _ = error_with(&fnd, "pads", "cancelled");
    assert_eq!(fnd.invoke("pads", "\"Ada\"").text(), "before");
    fnd.finish();
}

#[test]
fn a_fnd_that_is_killed_during_an_installation_ends_it_later() {
    require!(root, cgroup);
    let index = Index::start();
    index.mode("hang");
    let (mut fnd, after) = serving(&index.setup("", "").detached());
    fnd.drop_file("pads.py", &after);
    index.wait_request();
    fnd.kill();
    index.mode("ok");
    fnd.launch();
    answers(&fnd, "pads", "one .....Ada");
    assert_eq!(trees(&fnd).len(), 1);
    fnd.finish();
}

#[test]
fn what_a_killed_installation_has_left_is_removed_at_the_next_start() {
    require!(root, cgroup);
    let index = Index::start();
    index.mode("hang");
    let (mut fnd, after) = serving(&index.setup("", ""));
    fnd.drop_file("pads.py", &after);
    index.wait_request();
    fnd.kill();
    // Nothing is to be installed any more.
    fnd.drop_file("pads.py", BEFORE);
    let home = fnd.path("state/home/fnd-build");
    let left = || fs::read_dir(&home).unwrap().count();
    assert_ne!(left(), 0);
    fnd.launch();
    wait_until("an empty home", PATIENCE, || (left() == 0).then_some(()));
    answers(&fnd, "pads", "before");
    assert_eq!(trees(&fnd).len(), 0);
    fnd.finish();
}

#[test]
fn the_name_of_fnds_own_function_is_refused() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    fnd.drop_file("fnd-build.sh", "echo mine\n");
    let problem = fnd.wait_problem("fnd-build");
    assert!(problem.contains("fnd's own"), "{problem}");
    fnd.finish();
}

#[test]
fn after_a_restart_the_version_before_serves_until_the_packages_are_there() {
    require!(root, cgroup);
    let index = Index::start();
    let (mut fnd, after) = serving(&index.setup("", ""));
    fnd.drop_file("pads.py", &after);
    answers(&fnd, "pads", "one .....Ada");
    fnd.stop();
    index.mode("hang");
    let newer = after.replace("fndpad\"", "fndpad>=1\"").replace("one", "two");
    fnd.drop_file("pads.py", &newer);
    fnd.launch();
    answers(&fnd, "pads", "one .....Ada");
    let said = fnd.ctl(&["status"]).expect_code(0).out();
    assert!(said.contains("pads: its dependencies are being installed"), "{said}");
    index.mode("ok");
    answers(&fnd, "pads", "two .....Ada");
    fnd.finish();
}

#[test]
fn the_file_of_a_pinned_function_is_installed_and_waits() {
    require!(root, cgroup);
    let index = Index::start();
    let (fnd, after) = serving(&index.setup("", ""));
    let _ = fnd.ctl(&["pin", "pads"]).expect_code(0);
    fnd.drop_file("pads.py", &after);
    wait_until("an installation", PATIENCE, || (builds(&fnd) == 1).then_some(()));
    let _ = fnd.ctl(&["build", "pads"]).expect_code(0);
    assert_eq!(fnd.invoke("pads", "\"Ada\"").text(), "before");
    let _ = fnd.ctl(&["unpin", "pads"]).expect_code(0);
    answers(&fnd, "pads", "one .....Ada");
    fnd.finish();
}

#[test]
fn offline_uses_what_is_there_and_fetches_nothing() {
    require!(root, cgroup);
    let index = Index::start();
    let mut fnd = Fnd::start_with(&index.setup("", ""));
    fnd.drop_file("pads.py", &with_list(PYTHON));
    answers(&fnd, "pads", "one .....Ada");
    let before = (builds(&fnd), trees(&fnd).len());
    fnd.stop();
    let file = fnd.path("fnd.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("[build]\n", "[build]\noffline = true\n", 1)).unwrap();
    fnd.launch();
    answers(&fnd, "pads", "one .....Ada");
    assert_eq!((builds(&fnd), trees(&fnd).len()), before, "the tree is a good one");
    fnd.drop_file(
        "more.py",
        &with_list(PYTHON).replace("\"fndpad\"", "\"fndpad\", \"fndpad>=1\""),
    );
    let asked = fs::read_to_string(index.directory.path().join("requests")).unwrap();
    let why = wait_until("the error", PATIENCE, || fnd.function("more")?.error);
    assert!(why.contains("No matching distribution found for fndpad"), "{why}");
    let after = fs::read_to_string(index.directory.path().join("requests")).unwrap();
    assert_eq!(asked, after, "nobody was asked");
    fnd.drop_file(
        "shop/function.toml",
        "[source]\ngit = \"https://git.example.com/shop.git\"\n",
    );
    let why = wait_until("the error", PATIENCE, || fnd.function("shop")?.error);
    assert!(why.contains("`[build] offline` of fnd.toml is set"), "{why}");
    fnd.finish();
}
