//! The runtimes: those inside the program where no directory has them, and the error where a named directory has none.

use fnd_tests::ctl::fndctl;
use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use std::path::Path;

/// Takes `--runtimes DIR`, which the harness gives, out of the arguments, and runs the program `$LONE` instead.
const ALONE: &str = r#"shift
left=$#
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    left=$((left - 1))
    if [ "$word" = --runtimes ]; then
        shift
        left=$((left - 1))
    else
        set -- "$@" "$word"
    fi
done
exec "$LONE" "$@" $MORE"#;

fn start(setup: Setup, lone: &Path, more: &str) -> Fnd {
    let mut setup = setup;
    setup.environment = vec![
        ("LONE".into(), lone.display().to_string()),
        ("MORE".into(), more.into()),
    ];
    let mut fnd = Fnd::prepare(&setup);
    fnd.start_behind(["/bin/sh", "-c", ALONE, "sh"].map(str::to_owned).into());
    fnd.launch();
    fnd
}

#[test]
fn four_programs_alone_run_functions() {
    let directory = tempfile::tempdir().unwrap();
    // The judge and the functions' users pass through it.
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for name in ["fnd", "fndctl", "fnd-helper", "fnd-spawner"] {
        let copy = directory.path().join(name);
        std::fs::hard_link(program(name), &copy)
            .or_else(|_| std::fs::copy(program(name), &copy).map(drop))
            .unwrap();
    }
    let setup = Setup::default()
        .file(
            "hello.py",
            "def handler(event, context): return {\"hello\": event[\"data\"]}\n",
        )
        .file("shout.sh", "handler() { tr a-z A-Z; }\n")
        .file("plain.sh", "# /// fnd\n# on_load = false\n# ///\necho plain\n");
    let mut fnd = start(setup, &directory.path().join("fnd"), "");
    for name in ["hello", "shout", "plain"] {
        fnd.wait_ready(name);
    }
    assert_eq!(fnd.invoke("hello", "1").text(), "{\"hello\":1}");
    assert_eq!(fnd.invoke("shout", "\"ada\"").text().trim(), "\"ADA\"");
    let problems = fnd.status().problems;
    assert!(
        !problems.iter().any(|problem| problem.contains("runtimes")),
        "{problems:?}"
    );
    let written = || std::fs::read_dir(fnd.path("state/runtimes")).unwrap().count();
    assert_eq!(written(), 1);
    // The next start uses the same files, so the versions stay the same.
    let version = fnd.function("hello").unwrap().version;
    fnd.stop();
    fnd.launch();
    assert_eq!(fnd.wait_ready("hello").version, version);
    assert_eq!(std::fs::read_dir(fnd.path("state/runtimes")).unwrap().count(), 1);
    fnd.finish();
}

#[test]
fn a_directory_without_runtimes_is_a_problem_that_names_it() {
    let empty = tempfile::tempdir().unwrap();
    let shown = empty.path().display().to_string();
    let fnd = start(Setup::default(), &program("fnd"), &format!("--runtimes {shown}"));
    let problem = fnd.wait_problem("no runtimes were found");
    assert!(
        problem.contains(&format!("`{shown}`")) && problem.contains("--runtimes"),
        "{problem}"
    );
    fnd.drop_file("hello.toml", "runtime = \"python\"\n");
    fnd.drop_file("hello.py", "def handler(event, context): return 1\n");
    let doctor = || {
        let run = fndctl(
            &[Path::new("doctor")],
            b"",
            &[("FND_SOCKET", &fnd.path("run/control.sock"))],
        );
        run.out().contains("no runtimes were found").then_some(())
    };
    wait_until("doctor to say so", PATIENCE, doctor);
    fnd.finish();
}
