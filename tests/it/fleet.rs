//! Many machines: the role of Ansible, the file for cloud-init and the settings of Litestream do what docs/many-machines.md says. (`fndctl
//! -H` is tested in `open_over_ssh`.)

use fnd_core::records::outcome::RunState;
use fnd_tests::ctl::fndctl;
use fnd_tests::programs::{self, program, repository, runtimes};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const HELLO: &str = "#!/bin/sh\n# /// fnd\n# on_load = false\n# ///\necho hello\n";

/// Runs the role on the private root of an fnd. Returns whether it succeeded, how many tasks have changed something, and what was
/// printed.
fn play(fnd: &Fnd, variables: &Value, options: &[&str]) -> (bool, u32, String) {
    let at = fnd.path("ansible");
    fs::create_dir_all(&at).unwrap();
    let playbook = at.join("site.yml");
    fs::write(&playbook, "- hosts: all\n  gather_facts: false\n  roles: [fnd]\n").unwrap();
    let mut command = Command::new(programs::ansible().unwrap());
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
        .env("LC_ALL", "C.UTF-8")
        .env("HOME", &at)
        .env("ANSIBLE_NOCOLOR", "1");
    command.env("ANSIBLE_ROLES_PATH", repository().join("packaging/ansible/roles"));
    command.env("ANSIBLE_PYTHON_INTERPRETER", "/usr/bin/python3");
    command.env("FND_SOCKET", fnd.socket()).env("FND_RUNTIMES", runtimes());
    command.args(["--inventory", "localhost,", "--connection", "local", "--extra-vars"]);
    command.arg(variables.to_string()).args(options).arg(playbook);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (out, errors) = (&output.stdout, &output.stderr);
    let printed = format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(errors));
    let changed = printed.split("changed=").nth(1);
    let changed = changed.and_then(|text| text.split_whitespace().next());
    let changed = changed.unwrap_or_else(|| panic!("{printed}")).parse().unwrap();
    (output.status.success(), changed, printed)
}

#[test]
fn a_second_run_of_the_role_changes_nothing_and_what_fnd_refuses_fails() {
    require!(ansible);
    let fnd = Fnd::start();
    let functions = fnd.path("controller");
    fs::create_dir_all(functions.join("group")).unwrap();
    fs::write(functions.join("hello.sh"), HELLO).unwrap();
    fs::write(functions.join("group/two.sh"), HELLO).unwrap();
    fnd.drop_file("old.sh", HELLO);
    let before = fs::read_to_string(fnd.path("fnd.toml")).unwrap();
    let config = format!("{before}\n[history]\nkeep_for = \"29d\"\n");
    let mut variables = json!({
        "fnd_install": false,
        "fnd_etc": fnd.path(""),
        "fnd_owner": nix::unistd::geteuid().to_string(),
        "fnd_fndctl": [program("fndctl")],
        "fnd_config": config,
        "fnd_functions": format!("{}/", functions.display()),
        "fnd_functions_absent": ["old.sh"],
    });

    let (is_fine, changed, printed) = play(&fnd, &variables, &["--check"]);
    assert!(is_fine && changed == 3, "{printed}");
    let written = fs::read_to_string(fnd.path("fnd.toml")).unwrap();
    assert!(
        written == before && !fnd.function_path("hello.sh").exists(),
        "{printed}"
    );

    let (is_fine, changed, printed) = play(&fnd, &variables, &[]);
    assert!(is_fine && changed == 4, "{printed}");
    for name in ["hello", "group/two"] {
        fnd.wait_ready(name);
    }
    assert_eq!(fnd.ctl(&["invoke", "hello"]).expect_code(0).out(), "hello\n");
    assert!(!fnd.function_path("old.sh").exists());
    let effective = fnd.ctl(&["config"]).expect_code(0).out();
    assert!(effective.contains("29d"), "{effective}");

    let (is_fine, changed, printed) = play(&fnd, &variables, &[]);
    assert!(is_fine && changed == 0, "{printed}");

    variables["fnd_config"] = format!("{config}nonsense = 1\n").into();
    let (is_fine, _, printed) = play(&fnd, &variables, &[]);
    assert!(!is_fine && printed.contains("nonsense"), "{printed}");
    assert_eq!(fs::read_to_string(fnd.path("fnd.toml")).unwrap(), config);
    variables["fnd_config"] = config.into();

    fs::write(functions.join("bad.sh"), HELLO.replace("on_load", "on_laod")).unwrap();
    // The second run changes nothing, so it does not reload, and still fails.
    for _ in 0..2 {
        let (is_fine, _, printed) = play(&fnd, &variables, &[]);
        assert!(!is_fine && printed.contains("on_laod"), "{printed}");
    }
    assert_eq!(fnd.ctl(&["invoke", "hello"]).expect_code(0).out(), "hello\n");
    fnd.finish();
}

#[test]
fn the_example_of_a_playbook_is_one() {
    require!(ansible);
    let home = tempfile::tempdir().unwrap();
    let directory = repository().join("packaging/ansible");
    let mut command = Command::new(programs::ansible().unwrap());
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C.UTF-8");
    command
        .env("HOME", home.path())
        .env("ANSIBLE_ROLES_PATH", directory.join("roles"));
    command
        .args(["--syntax-check", "--inventory", "vm1,"])
        .arg(directory.join("site.yml"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Prints the result of cloud-init's own check of a file.
fn cloud_schema(file: &Path) -> (bool, String) {
    let mut command = Command::new("/usr/bin/python3");
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C.UTF-8");
    command.env("PYTHONPATH", programs::cloud_init().unwrap());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
        .args(["-m", "cloudinit.cmd.main", "schema", "--config-file"])
        .arg(file);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
}

/// Writes the files of the `write_files` of a file for cloud-init below a directory, by their names.
const WRITE_FILES: &str = "import pathlib, sys, yaml
for file in yaml.safe_load(open(sys.argv[1]))['write_files']:
    path = pathlib.Path(sys.argv[2], pathlib.Path(file['path']).name)
    path.write_text(file['content'])
    print(path)
";

#[test]
fn cloud_init_and_fnd_accept_the_example() {
    require!(cloud_init);
    let example = repository().join("packaging/cloud-init/fnd.yaml");
    let (is_fine, printed) = cloud_schema(&example);
    assert!(is_fine, "{printed}");
    let directory = tempfile::tempdir().unwrap();
    let wrong = directory.path().join("wrong.yaml");
    let text = fs::read_to_string(&example).unwrap();
    let script = fs::read_to_string(repository().join("scripts/repo.sh")).unwrap();
    let is_suite = script.contains("Suites: stable\nComponents: main\n");
    let lines = text.matches("/fnd stable main\n").count();
    assert!(
        is_suite && lines == 2,
        "the example names another suite than that of `make repo`"
    );
    fs::write(
        &wrong,
        text.replace("packages:\n  - fnd\n  - fnd-archive-keyring\n", "packages: 7\n"),
    )
    .unwrap();
    let (is_fine, printed) = cloud_schema(&wrong);
    assert!(!is_fine, "cloud-init finds no mistake: {printed}");

    let files = directory.path().join("files");
    fs::create_dir(&files).unwrap();
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", WRITE_FILES]).args([&example, &files]);
    assert!(command.status().unwrap().success());
    // fndctl takes only a file with this name for a configuration.
    fs::rename(files.join("site.toml"), files.join("fnd.toml")).unwrap();
    for name in ["fnd.toml", "hello.sh"] {
        let file = files.join(name);
        let run = fndctl(
            &[Path::new("validate"), Path::new("--content"), file.as_path()],
            b"",
            &[],
        );
        assert_eq!(run.code, 0, "{name}: {run}");
    }
}

/// Litestream, which ends with the test.
struct Litestream(Child);

impl Drop for Litestream {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Restores the newest copy. Returns the number of its runs, if there is a copy yet.
fn restored(settings: &Path, ledger: &Path, to: &Path) -> Option<u32> {
    if to.exists() {
        fs::remove_file(to).unwrap();
    }
    let mut command = Command::new(programs::litestream().unwrap());
    command
        .arg("restore")
        .arg("-config")
        .arg(settings)
        .arg("-o")
        .arg(to)
        .arg(ledger);
    let output = command.stdin(Stdio::null()).output().unwrap();
    if !output.status.success() {
        return None;
    }
    let mut command = Command::new("/usr/bin/sqlite3");
    command.arg(to).arg("SELECT count(*) FROM invocation");
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

#[test]
fn litestream_copies_the_ledger_of_an_fnd_that_is_killed_and_the_copy_is_a_ledger() {
    require!(root, cgroup, litestream);
    const RUNS: u32 = 20;
    let mut fnd = Fnd::start();
    fnd.drop_file("hello.sh", HELLO);
    fnd.wait_ready("hello");
    let (ledger, replica) = (fnd.path("state/state/ledger.db"), fnd.path("replica"));
    let settings = fnd.path("litestream.yml");
    let text = fs::read_to_string(repository().join("packaging/litestream/litestream.yml")).unwrap();
    // The same settings, but a checkpoint of Litestream at once: in production it comes rarely.
    let text = text
        .replace("/var/lib/fnd/state/ledger.db", &ledger.display().to_string())
        .replace("/srv/backup/fnd-ledger", &replica.display().to_string())
        .replace(
            "    truncate-page-n: 0\n",
            "    truncate-page-n: 0\n    min-checkpoint-page-count: 10\n    checkpoint-interval: 1s\n",
        );
    assert!(text.contains("checkpoint-interval"));
    fs::write(&settings, text).unwrap();
    let mut command = Command::new(programs::litestream().unwrap());
    command
        .arg("replicate")
        .arg("-config")
        .arg(&settings)
        .stdin(Stdio::null());
    let log = File::create(fnd.path("log/litestream")).unwrap();
    command.stdout(log.try_clone().unwrap()).stderr(log);
    let litestream = Litestream(command.spawn().unwrap());

    let copy = fnd.path("copy.db");
    let has = |runs| {
        wait_until("a copy with all runs", PATIENCE, || {
            (restored(&settings, &ledger, &copy) == Some(runs)).then_some(())
        });
    };
    for number in 1..=RUNS {
        assert_eq!(fnd.wait_end(fnd.queue("hello", "")).state, RunState::Succeeded);
        if number % 5 == 0 {
            has(number);
            // The log has then been begun anew by another program than fnd.
            fnd.crash();
            fnd.launch();
            let problems = fnd.ctl(&["status", "--jq", ".problems[]"]).expect_code(0).out();
            assert!(
                !problems.contains("ledger") && !problems.contains("durable"),
                "{problems}"
            );
        }
    }
    has(RUNS);
    fnd.stop();
    drop(litestream);

    // As the page has it: the copy takes the place of the ledger and of its log.
    for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        let path = fnd.path("state/state").join(name);
        if path.exists() {
            fs::remove_file(path).unwrap();
        }
    }
    fs::rename(&copy, &ledger).unwrap();
    let state = fnd.path("state").display().to_string();
    let _ = fnd.ctl(&["verify", "--state", &state]).expect_code(0);
    fnd.launch();
    let runs = fnd
        .ctl(&["history", "hello", "--jq", ".invocations | length"])
        .expect_code(0);
    assert_eq!(runs.out(), format!("{RUNS}\n"));
    assert_eq!(fnd.wait_end(fnd.queue("hello", "")).state, RunState::Succeeded);
    fnd.finish();
}
