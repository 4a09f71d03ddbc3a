//! Settings of installations: how many run at once, their network, packages of the machine.

use super::*;
use fnd_tests::ctl::fndctl;
use fnd_tests::programs::runtimes;

/// Returns a directory with the wheel of the index, which the sandbox of installations shows.
fn wheels(index: &Index) -> tempfile::TempDir {
    let directory = tempfile::Builder::new()
        .prefix("fnd-test-wheels-")
        .tempdir_in("/var/cache")
        .unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let name = "fndpad-1.0-py3-none-any.whl";
    let code = "import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])";
    let fetched = Command::new("/usr/bin/python3")
        .args([
            "-I",
            "-c",
            code,
            &format!("http://127.0.0.1:{}/wheels/{name}", index.port),
        ])
        .arg(directory.path().join(name))
        .status()
        .unwrap();
    assert!(fetched.success());
    directory
}

fn requests(index: &Index) -> String {
    fs::read_to_string(index.directory.path().join("requests")).unwrap_or_default()
}

#[test]
fn an_installation_without_network_installs_what_the_machine_has_and_nothing_else() {
    require!(root, cgroup);
    let index = Index::start();
    let wheels = wheels(&index);
    let asked = requests(&index);
    let without = with_list(PYTHON).replace("# ///\ni", "# [build]\n# network = \"none\"\n# ///\ni");
    let fnd = Fnd::start_with(&index.setup("", ""));
    fnd.drop_file("pads.py", &without);
    let error = error_with(&fnd, "pads", "without network (`[build] network = \"none\"`)");
    assert!(error.contains("No matching distribution found for fndpad"), "{error}");
    assert_eq!(requests(&index), asked, "nobody was asked");
    let local = format!(
        "[build.env]\n# PIP_FIND_LINKS = \"{}\"\n# ///\ni",
        wheels.path().display()
    );
    fnd.drop_file("pads.py", &without.replace("///\ni", &local));
    answers(&fnd, "pads", "one .....Ada");
    assert_eq!(requests(&index), asked, "nobody was asked");
    fnd.finish();
}

#[test]
fn a_node_may_have_no_network_for_any_installation() {
    require!(root, cgroup);
    let index = Index::start();
    let fnd = Fnd::start_with(&index.setup("network = \"none\"", ""));
    fnd.drop_file("pads.py", &with_list(PYTHON));
    let _ = error_with(&fnd, "pads", "without network (`[build] network = \"none\"`)");
    assert_eq!(requests(&index), "");
    fnd.finish();
}

#[test]
fn packages_of_the_machine_count_as_installed_only_where_the_function_says_so() {
    require!(root, cgroup);
    let index = Index::start();
    let fnd = Fnd::start_with(&index.setup("", ""));
    let code = "import fndpad, pip\n\ndef handler(event, context):\n    return f'{pip.__file__} {fndpad.pad(event[\"data\"])}'\n";
    let listed = |build: &str| format!("# /// fnd\n# dependencies = [\"pip\", \"fndpad\"]\n{build}# ///\n{code}");
    fnd.drop_file("pads.py", &listed(""));
    // The index has no pip.
    let _ = error_with(&fnd, "pads", "No matching distribution found for pip");
    fnd.drop_file("pads.py", &listed("# [build]\n# system_packages = true\n"));
    answers(&fnd, "pads", "/usr/lib/python3/dist-packages/pip/__init__.py .....Ada");
    let [tree] = trees(&fnd).try_into().unwrap();
    assert_eq!(fs::read_to_string(tree.join(".fnd-packages")).unwrap(), "fndpad 1.0\n");
    fnd.finish();
}

const NODE: &str = "// /// fnd\n// dependencies = [\"fndpad@1\"]\n// ///\nconst pad = require('fndpad');\n\
                    module.exports.handler = (event) => 'one ' + pad(event.data);\n";

#[test]
fn two_installations_run_at_once_each_as_a_user_of_its_own() {
    require!(root, cgroup);
    let index = Index::start();
    // One is answered only when the other one has asked, too.
    index.mode("pair");
    let fnd = Fnd::start_with(&Setup::default().config(
        "[build]\njobs = 2\nsecrets = [\"npmrc\", \"pip.conf\"]\n[build.env]\nnpm_config_fetch_retries = \"0\"\n",
    ));
    let at = format!("http://127.0.0.1:{}", index.port);
    let _ = secret(&fnd, &["set", "npmrc"], &format!("registry={at}/\n")).expect_code(0);
    let pip = format!("[global]\nindex-url = {at}/simple\n");
    let _ = secret(&fnd, &["set", "pip.conf"], &pip).expect_code(0);
    fnd.drop_file("pads.py", &with_list(PYTHON));
    fnd.drop_file("web.cjs", NODE);
    // It has the packages of the first one.
    fnd.drop_file("more.py", &with_list(PYTHON).replace("one", "more"));
    answers(&fnd, "pads", "one .....Ada");
    answers(&fnd, "web", "one .....Ada");
    answers(&fnd, "more", "more .....Ada");
    assert_eq!(trees(&fnd).len(), 2);
    let runs = ["fnd-build", "fnd-build-2"].map(|function| fnd.history(function).len());
    assert_eq!(runs, [1, 1]);
    let homes = ["fnd-build", "fnd-build-2"].map(|name| fs::metadata(fnd.path(&format!("state/home/{name}"))).unwrap());
    assert_ne!(
        homes[0].uid(),
        homes[1].uid(),
        "one cannot change the files of the other"
    );
    for (function, installed) in [("pads", "installed fndpad 1.0"), ("web", "installed 1 package")] {
        let logs = fnd.ctl(&["logs", function, "--build"]).expect_code(0).out();
        assert!(logs.contains(installed), "{logs}");
    }
    let listed = fnd.ctl(&["list", "-q"]).expect_code(0).out();
    assert_eq!(
        listed.lines().count(),
        3,
        "fnd's own functions are not listed: {listed}"
    );
    fnd.drop_file("fnd-build-2.sh", "echo mine\n");
    let problem = fnd.wait_problem("fnd-build-2");
    assert!(problem.contains("fnd's own"), "{problem}");
    fnd.finish();
}

#[test]
fn a_fnd_that_is_killed_during_two_installations_ends_both_later() {
    require!(root, cgroup);
    let index = Index::start();
    index.mode("hang");
    let mut fnd = Fnd::start_with(&index.setup("jobs = 2", "").detached());
    fnd.drop_file("pads.py", &with_list(PYTHON));
    fnd.drop_file("web.cjs", NODE);
    wait_until("both to ask", PATIENCE, || {
        let asked = requests(&index);
        let has = |path: &str| asked.lines().any(|line| line.trim_end_matches('/') == path);
        (has("/simple/fndpad") && has("/fndpad")).then_some(())
    });
    fnd.kill();
    index.mode("ok");
    fnd.launch();
    answers(&fnd, "pads", "one .....Ada");
    answers(&fnd, "web", "one .....Ada");
    assert_eq!(trees(&fnd).len(), 2);
    wait_until("empty homes", PATIENCE, || {
        let left = |name: &str| fs::read_dir(fnd.path(&format!("state/home/{name}"))).unwrap().count();
        (left("fnd-build") + left("fnd-build-2") == 0).then_some(())
    });
    fnd.finish();
}

#[test]
fn without_a_setting_one_installation_runs_at_a_time() {
    require!(root, cgroup);
    let index = Index::start();
    index.mode("hang");
    let fnd = Fnd::start_with(&index.setup("", ""));
    fnd.drop_file("pads.py", &with_list(PYTHON));
    index.wait_request();
    fnd.drop_file("web.cjs", NODE);
    wait_until("both functions", PATIENCE, || {
        let said = fnd.ctl(&["status"]).out();
        (said.contains("pads: its dependencies are being installed")
            && said.contains("web: its dependencies wait for another installation"))
        .then_some(())
    });
    assert_eq!((builds(&fnd), fnd.history("fnd-build-2").len()), (1, 0));
    index.mode("ok");
    answers(&fnd, "pads", "one .....Ada");
    answers(&fnd, "web", "one .....Ada");
    fnd.finish();
}

#[test]
fn packages_are_built_anew_into_another_tree_and_an_earlier_release_keeps_its_own() {
    require!(root, cgroup);
    let index = Index::start();
    let mut fnd = Fnd::start_with(&index.setup("", ""));
    let code = "import fndpad, os\n\ndef handler(event, context):\n    return os.path.realpath(fndpad.__file__)\n";
    let code = with_list(code);
    fnd.drop_file("pads.py", &code);
    answers(&fnd, "pads", "/site/fndpad.py");
    let tree = |fnd: &Fnd| fnd.invoke("pads", "1").text();
    let first = tree(&fnd);
    let _ = fnd.ctl(&["build", "pads"]).expect_code(0);
    assert_eq!((builds(&fnd), tree(&fnd)), (1, first.clone()), "it is there");
    let _ = fnd.ctl(&["build", "pads", "--clean"]).expect_code(0);
    // The version before serves until the new one is loaded.
    let second = wait_until("another tree", PATIENCE, || {
        Some(tree(&fnd)).filter(|now| *now != first)
    });
    assert!(second.ends_with("/site/fndpad.py"), "{second}");
    assert_eq!(
        (builds(&fnd), trees(&fnd).len()),
        (2, 2),
        "the one before stays as it is"
    );
    // An earlier release has the packages that it had, also after a restart.
    let releases = fnd.ctl(&["releases", "pads", "-q"]).expect_code(0).out();
    let oldest = releases.lines().last().unwrap();
    let _ = fnd.ctl(&["rollback", "pads", oldest]).expect_code(0);
    answers(&fnd, "pads", &first);
    fnd.stop();
    fnd.launch();
    answers(&fnd, "pads", &first);
    // The file has the newest ones, and so has another function with the same list.
    fnd.drop_file("pads.py", &format!("{code}\n# edited\n"));
    answers(&fnd, "pads", &second);
    fnd.drop_file("more.py", &code);
    answers(&fnd, "more", &second);
    assert_eq!(builds(&fnd), 2);
    // A build that fails changes nothing.
    index.mode("damaged");
    let failed = fnd.ctl(&["build", "pads", "--clean"]).expect_code(1);
    assert!(
        failed.stderr.contains("installation of its dependencies failed"),
        "{failed}"
    );
    assert_eq!(tree(&fnd), second);
    fnd.stop();
    fnd.launch();
    answers(&fnd, "pads", &second);
    assert_eq!(fnd.function("pads").unwrap().error, None);
    fnd.finish();
}

#[test]
fn a_run_without_a_daemon_installs_with_the_settings_of_its_configuration() {
    require!(root, cgroup);
    let index = Index::start();
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    fs::write(path("pads.py"), with_list(PYTHON)).unwrap();
    let config = format!(
        "[build]\nsecrets = [\"netrc\"]\n[build.env]\nPIP_INDEX_URL = \"http://127.0.0.1:{}/simple\"\n",
        index.port
    );
    fs::write(path("fnd.toml"), config).unwrap();
    let runtimes = runtimes();
    let environment = [("FND_RUNTIMES", runtimes.as_path())];
    let arguments = ["run", &path("pads.py"), "-d", "\"Ada\"", "--config", &path("fnd.toml")];
    let run = fndctl(&arguments, b"", &environment).expect_code(0);
    assert_eq!(run.out(), "one .....Ada", "{run}");
    assert!(run.stderr.contains("without the secrets of `[build]`: netrc"), "{run}");
}
