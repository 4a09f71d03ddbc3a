//! Every warning and every setting without an effect: where it is shown (`status`, `validate`, `reload`, `doctor`), and whether
//! the first run of a script waits. [`made_by`] matches every kind, so a new kind needs a row here.

use fnd_core::records::outcome::{Class, RunState};
use fnd_manifest::warning::{Warning, WarningPlaces};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use nix::sys::signal::Signal;

/// How a warning comes about.
enum Made {
    /// These files in the functions directory, with words of the warning.
    Files(&'static [(&'static str, &'static str)], &'static str),
    /// Like `Files`, for one that needs fnd: `validate` does not show it.
    OnlyInFnd(&'static [(&'static str, &'static str)], &'static str),
    /// The configuration of the test, with words of the warning.
    Configured(&'static str),
    /// Another test shows it, which has what the warning needs.
    Elsewhere(&'static str),
}

const CONFIG: &str =
    "[runtimes.python]\ninterpreters = { \"3.98\" = \"/usr/bin/python3\" }\n[runtimes.klingon]\nenabled = true\n";

fn made_by(kind: Warning) -> Made {
    match kind {
        Warning::Interpreter => Made::Files(
            &[("by-uv.py", "#!/usr/bin/env -S uv run --script\nprint(1)\n")],
            "the `#!` line names `uv`, which is not an interpreter of runtime `python`",
        ),
        Warning::TwoInterpreters => Made::Files(
            &[
                ("two.toml", "runtime = \"python3.98\"\non_load = false\n"),
                ("two.py", "#!/usr/bin/python3.99\nprint(1)\n"),
            ],
            "the `#!` line names `/usr/bin/python3.99`, but the manifest names a version, which is used",
        ),
        Warning::NotCalled => Made::Files(
            &[("almost.py", "def main(args):\n    return {}\n")],
            "`def main` takes 1 parameter, so it is no handler",
        ),
        Warning::ScriptMetadata => Made::Files(
            &[(
                "pep.sh",
                "# /// script\n# dependencies = [\"requests\"]\n# ///\necho never\n",
            )],
            "the block `# /// script` (PEP 723) is for Python",
        ),
        Warning::Permissions => Made::Files(
            &[("nets.ts", "#!/usr/bin/env -S deno run --allow-net\nconsole.log(1)\n")],
            "`--allow-net` of the `#!` line has no effect",
        ),
        Warning::Pointless => Made::Files(
            &[(
                "short.sh",
                "# /// fnd\n# on_load = false\n# [limits]\n# timeout = \"10s\"\n# deadline = \"5s\"\n# ///\n:\n",
            )],
            "`limits.deadline` of 5s is shorter than `limits.timeout` of 10s",
        ),
        Warning::EachSecond => Made::Files(
            &[(
                "often.sh",
                "# /// fnd\n# [[schedule]]\n# cron = \"* 0 3 1 1 *\"\n# ///\n:\n",
            )],
            "`* 0 3 1 1 *` has a field of seconds, so it runs 60 times in a minute",
        ),
        Warning::UncheckedVersion => Made::Files(
            &[
                ("old.toml", "runtime = \"bash9\"\non_load = false\n"),
                ("old.sh", ":\n"),
            ],
            // `validate` asks the interpreter: it says `other-version`.
            "`9`",
        ),
        Warning::ForeignDiffers | Warning::ForeignNotHere => Made::Files(
            &[(
                "cube.yaml",
                "apiVersion: kubeless.io/v1beta1\nkind: Function\nmetadata: {name: cube, namespace: default}\nspec:\n  \
                 runtime: python2.7\n  handler: cube.foo\n  function: |\n    def foo(event, context):\n        return 1\n",
            )],
            if matches!(kind, Warning::ForeignDiffers) {
                "`spec.runtime`: "
            } else {
                "`metadata.namespace` has no effect"
            },
        ),
        Warning::ForeignUnknown => Made::Files(
            &[(
                "odd.yaml",
                "apiVersion: kubeless.io/v1beta1\nkind: Function\nmetadata: {name: odd}\nspec:\n  runtime: python3.11\n  \
                 handler: odd.foo\n  colour: red\n  function: |\n    def foo(event, context):\n        return 1\n",
            )],
            "`spec.colour` has no effect",
        ),
        Warning::NoSuchFunction => Made::Files(
            &[(
                "calls.sh",
                "# /// fnd\n# on_load = false\n# [alert]\n# call = \"nosuch\"\n# ///\n:\n",
            )],
            "`calls` calls `nosuch`, and there is no such function",
        ),
        Warning::AlertItself => Made::Files(
            &[(
                "self.sh",
                "# /// fnd\n# on_load = false\n# [alert]\n# call = \"self\"\n# ///\n:\n",
            )],
            "`alert.call` of `self` names the function itself, so nobody is told",
        ),
        Warning::HookCycle => Made::OnlyInFnd(
            &[
                (
                    "ping.sh",
                    "# /// fnd\n# on_load = false\n# [hooks]\n# on_success = [\"pong\"]\n# ///\n:\n",
                ),
                (
                    "pong.sh",
                    "# /// fnd\n# on_load = false\n# [hooks]\n# on_success = [\"ping\"]\n# ///\n:\n",
                ),
            ],
            "are off, because they are part of a cycle",
        ),
        Warning::PythonProject => Made::Files(
            &[("proj/pyproject.toml", ""), ("proj/part.py", "print(1)\n")],
            "`pyproject.toml` means a Python project",
        ),
        Warning::NoFunction => Made::Files(&[("notes.md", "# notes\n")], "notes.md"),
        Warning::UnknownRuntime => Made::Configured("names the runtime `klingon`, which does not exist"),
        Warning::UnknownHolder => Made::Elsewhere("peer: of an fnd that a person starts, the groups may be missing"),
        Warning::NotOperated => Made::Elsewhere("authors: it needs files of another user"),
        Warning::HomeSetAside => Made::Elsewhere("users: it needs files that get another owner"),
        Warning::NotEnforced => Made::Elsewhere("units: it needs a machine that cannot enforce a limit"),
        Warning::Shadowed => Made::Elsewhere("deploy: it needs a second functions directory"),
        Warning::OtherVersion => Made::Elsewhere("validate::a_version_that_is_not_the_installed_one"),
        Warning::InsecureMode => Made::Elsewhere("validate: only files of a working copy"),
    }
}

#[test]
fn each_warning_is_shown_where_people_look_and_holds_the_first_run_if_it_changes_what_runs() {
    let fnd = Fnd::start_with(&Setup::default().config(CONFIG));
    let mut dropped = Vec::new();
    for kind in Warning::ALL {
        if let Made::Files(files, _) | Made::OnlyInFnd(files, _) = made_by(kind) {
            for (name, content) in files {
                if !dropped.contains(name) {
                    fnd.drop_file(name, content);
                    dropped.push(name);
                }
            }
        }
    }
    let reloaded = fnd.ctl(&["reload"]).to_string();
    let status = fnd.ctl(&["status"]).to_string();
    let doctor = fnd.ctl(&["doctor"]).to_string();
    let directory = fnd.path("functions").display().to_string();
    let config = fnd.path("fnd.toml").display().to_string();
    let validated = fnd.ctl(&["validate", "--config", &config, &directory]).to_string();
    // By the time that another script has run, the others would have run as well.
    fnd.drop_file("after.sh", "echo ran\n");
    fnd.wait_run("after");
    // The table breaks lines.
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut wrong = Vec::new();
    for kind in Warning::ALL {
        let (files, words, validates) = match made_by(kind) {
            Made::Files(files, words) => (files, words, true),
            Made::OnlyInFnd(files, words) => (files, words, false),
            Made::Configured(words) => (&[][..], words, true),
            Made::Elsewhere(why) => {
                assert!(!why.is_empty());
                continue;
            }
        };
        let counted = || {
            let (name, _) = files[0].0.split_once('.').unwrap();
            format!("(`fndctl show {name}` says which)")
        };
        let listed = match kind.shown() {
            WarningPlaces::Function | WarningPlaces::Node | WarningPlaces::File => words.to_owned(),
            WarningPlaces::Counted => counted(),
            WarningPlaces::Validate => unreachable!("{kind:?}: it is not made here"),
        };
        for (place, text, words, is_wanted) in [
            ("validate", &validated, words, validates),
            ("reload", &reloaded, words, true),
            ("status", &status, &*listed, true),
            ("doctor", &doctor, &*listed, true),
        ] {
            if flat(text).contains(&flat(words)) != is_wanted {
                wrong.push(format!("{kind:?}: {place} {is_wanted}"));
            }
        }
        for (file, _) in files
            .iter()
            .filter(|(file, _)| kind.holds() && !file.ends_with(".toml"))
        {
            let name = file.rsplit_once('.').unwrap().0;
            if !fnd.history(name).is_empty() {
                wrong.push(format!("{kind:?}: `{name}` has run"));
            }
        }
    }
    let shown = [
        ("validate", validated),
        ("reload", reloaded),
        ("status", status),
        ("doctor", doctor),
    ];
    assert!(wrong.is_empty(), "{wrong:#?}\n{shown:#?}");
    fnd.finish();
}

/// `bash -e` in the `#!` line of a file that is not executable: the script ends at its first error, as its author says.
#[test]
fn options_of_the_first_line_count_and_an_interpreter_that_is_gone_is_no_other_one() {
    let fnd = Fnd::start();
    fnd.drop_file(
        "strict.sh",
        "#!/bin/bash -e\n# /// fnd\n# on_load = false\n# ///\nfalse\necho went on\n",
    );
    fnd.wait_ready("strict");
    let (_, view) = fnd.run("strict", "");
    assert_eq!(
        (view.state, view.reason.map(|reason| reason.class())),
        (RunState::Failed, Some(Class::Error))
    );
    for (name, line) in [
        ("venv", "/srv/nowhere/venv/bin/python"),
        ("newer", "/usr/bin/python3.99"),
        ("found", "/usr/bin/env python3.99"),
    ] {
        fnd.drop_file(&format!("{name}.py"), &format!("#!{line}\nprint(1)\n"));
        let error = fnd.wait_error(name).error.unwrap();
        let interpreter = line.rsplit('/').next().unwrap().trim_start_matches("env ");
        assert!(
            error.contains("no interpreter for runtime `python`")
                && error.contains(interpreter)
                && error.contains("the `#!` line asks for it: install"),
            "{error}"
        );
    }
    fnd.finish();
}

/// Nobody was told: `status` says so, at the failure and before it.
#[test]
fn an_alert_to_a_function_that_does_not_exist_is_a_problem_and_was_not_delivered() {
    let mut fnd = Fnd::start_with(&Setup::default().config("[alert]\ncall = \"pager\"\n").detached());
    let job = "# /// fnd\n# on_load = false\n# [alert]\n# call = \"nosuch\"\n# ///\nexit 1\n";
    fnd.drop_file("job.sh", job);
    fnd.wait_ready("job");
    let _ = fnd.wait_problem("`[alert]` of fnd.toml calls `pager`, and there is no such function");
    let _ = fnd.wait_problem("`job` calls `nosuch`, and there is no such function");
    let metrics = fnd.client().get("/metrics").text();
    assert!(
        metrics.contains("fnd_problems{code=\"no-such-function\"} 2"),
        "{metrics}"
    );
    let (_, _) = fnd.run("job", "");
    let alert = wait_until("the alert", PATIENCE, || fnd.function("job")?.alert);
    assert_eq!(alert.not_delivered.as_deref(), Some("there is no function `nosuch`"));
    let status = fnd.ctl(&["status"]);
    assert!(
        status.out().contains("not delivered: there is no function `nosuch`"),
        "{status}"
    );
    // The next fnd knows it, too.
    fnd.replace(Signal::SIGTERM);
    let alert = wait_until("the alert", PATIENCE, || fnd.function("job")?.alert);
    assert!(alert.not_delivered.is_some());
    for name in ["pager", "nosuch"] {
        fnd.drop_file(&format!("{name}.sh"), "# /// fnd\n# on_load = false\n# ///\ncat\n");
    }
    wait_until("the problems to be over", PATIENCE, || {
        fnd.status().problems.is_empty().then_some(())
    });
    fnd.finish();
}
