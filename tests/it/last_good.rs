//! A start with a refused configuration: fnd uses the last good one and says so, so that a typing mistake in `fnd.toml`
//! ends no function.

use crate::takeover::start;
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::Signal;
use std::fs;

const GATED: &str = "# /// fnd\n# on_load = false\n# ///\nuntil [[ -e GATE/go ]]; do sleep 0.02; done\necho done\n";
const GOOD: &str = "keep_versions = 3\n";
const TYPO: &str = "keep_versoins = 3\n";

/// Puts a line before the configuration that the harness wrote.
fn configure(fnd: &Fnd, line: &str) {
    let path = fnd.path("fnd.toml");
    let rest = fs::read_to_string(&path).unwrap();
    let rest = [GOOD, TYPO].iter().fold(rest, |rest, before| rest.replace(before, ""));
    fs::write(path, format!("{line}{rest}")).unwrap();
}

fn refusals(fnd: &Fnd) -> Vec<String> {
    let problems = fnd.status().problems;
    problems
        .into_iter()
        .filter(|problem| problem.contains("fnd.toml") || problem.contains("last good"))
        .collect()
}

#[test]
fn a_restart_with_a_typing_mistake_ends_no_function() {
    require!(root, cgroup);
    let (mut fnd, gate) = start(&[("gated.sh", GATED)]);
    let id = fnd.queue("gated", "");
    let _ = fnd.wait_invocation(id, "to run", |view| view.state == RunState::Running);
    configure(&fnd, TYPO);
    for _ in 0..2 {
        fnd.replace(Signal::SIGTERM);
        let refused = wait_until("the refusal to be said", PATIENCE, || {
            let refused = refusals(&fnd);
            (refused.len() == 2).then_some(refused)
        });
        assert!(
            refused
                .iter()
                .any(|line| line.contains("fnd.toml:1:1") && line.contains("keep_versoins")),
            "{refused:?}"
        );
        assert_eq!(fnd.invocation(id).state, RunState::Running);
    }
    let reload = fnd.ctl(&["reload"]);
    assert_eq!(reload.code, 8, "{reload}");
    fs::write(gate.join("go"), "").unwrap();
    assert_eq!(fnd.wait_end(id).state, RunState::Succeeded);

    configure(&fnd, GOOD);
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    assert_eq!(refusals(&fnd), Vec::<String>::new());
    fnd.finish();
}

#[test]
fn the_last_good_one_outlives_the_spawner_and_says_where_the_functions_are() {
    let mut fnd = Fnd::prepare(&Setup::default().file("one.sh", "# /// fnd\n# on_load = false\n# ///\necho one\n"));
    configure(&fnd, GOOD);
    fnd.launch();
    fnd.wait_ready("one");
    fnd.stop();
    configure(&fnd, TYPO);
    fnd.launch();
    fnd.wait_ready("one");
    assert_eq!(fnd.invoke("one", "").text().trim(), "one");
    wait_until("the refusal to be said", PATIENCE, || {
        (refusals(&fnd).len() == 2).then_some(())
    });
    fnd.stop();

    // A damaged copy of the last good configuration is not used.
    fs::write(fnd.path("state/spawner/settings"), "?").unwrap();
    assert_eq!(fnd.command().status().unwrap().code(), Some(78), "{}", fnd.log());
    assert!(
        fnd.log().contains("there is no last good configuration"),
        "{}",
        fnd.log()
    );
    // A configuration that could not be read is not stored as the last good one.
    configure(&fnd, GOOD);
    fnd.launch();
    fnd.stop();
    assert!(fs::read(fnd.path("state/spawner/settings")).unwrap().len() > 100);
}

#[test]
fn the_configuration_alone_can_be_checked() {
    let fnd = Fnd::prepare(&Setup::default().file("bad.sh", "# /// fnd\n# colour = 1\n# ///\necho\n"));
    let check = |what: &str| fnd.command().arg(what).status().unwrap().code();
    assert_eq!(check("--check"), Some(78), "{}", fnd.log());
    assert_eq!(check("--check=config"), Some(0), "{}", fnd.log());
    configure(&fnd, TYPO);
    assert_eq!(check("--check=config"), Some(78), "{}", fnd.log());
    assert!(fnd.log().contains("keep_versoins"), "{}", fnd.log());
    assert_eq!(check("--check=nothing"), Some(2), "{}", fnd.log());
}
