//! `fndctl verify` finds damage and leftovers, and `--repair` makes the safe repairs.

use fnd_core::records::outcome::RunState;
use fnd_tests::ctl::Run;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use std::fs;

const QUICK: &str = "# /// fnd\n# on_load = false\n# ///\necho done\n";

fn verify(fnd: &Fnd, more: &[&str]) -> Run {
    let state = fnd.path("state").display().to_string();
    let mut words = vec!["verify", "--state", &state];
    words.extend(more);
    fnd.ctl(&words)
}

#[test]
fn a_fnd_that_is_well_has_nothing_wrong_whether_it_runs_or_not() {
    require!(root, cgroup);
    let mut fnd = Fnd::start();
    fnd.drop_file("quick.sh", QUICK);
    fnd.wait_ready("quick");
    let id = fnd.queue("quick", "");
    let temporary = fnd.path(&format!("state/tmp/quick/{id}"));
    let _ = fnd.wait_end(id);
    // It is removed a moment after the end; a stop in this moment leaves it to the next start.
    wait_until("its TMPDIR to be removed", PATIENCE, || {
        (!temporary.exists()).then_some(())
    });
    let running = verify(&fnd, &[]).expect_code(0).out();
    assert!(
        running.contains("is whole") && running.contains("fnd is running"),
        "{running}"
    );
    fnd.stop();
    let found = verify(&fnd, &["-o", "json"]).expect_code(0).json();
    assert_eq!(
        (&found["errors"], &found["warnings"], &found["unknown"]),
        (&0.into(), &0.into(), &0.into()),
        "{found}"
    );
    fnd.launch();
    fnd.finish();
}

#[test]
fn leftovers_and_foreign_homes_are_found_and_only_what_is_safe_is_removed() {
    require!(root, cgroup);
    let mut fnd = Fnd::start();
    fnd.drop_file("quick.sh", QUICK);
    fnd.wait_ready("quick");
    let _ = fnd.wait_end(fnd.queue("quick", ""));
    fnd.stop();
    let old = fnd.path("state/tmp/quick/01234567-89ab-7def-8123-456789abcdef");
    let gone = fnd.path("state/versions/gone/abc");
    let home = fnd.path("state/home/gone");
    for path in [&old.join("tmp"), &gone, &home] {
        fs::create_dir_all(path).unwrap();
    }
    let output = verify(&fnd, &[]).expect_code(1).out();
    for what in [
        "TMPDIRs of ended runs",
        "installed versions of deleted functions",
        "no function of this name has a user",
    ] {
        assert!(output.contains(what), "{what}: {output}");
    }
    // The home stays, and is still reported.
    let output = verify(&fnd, &["--repair"]).expect_code(1).out();
    assert!(output.contains("removed 2 directories"), "{output}");
    assert!(!old.exists() && !gone.exists() && home.exists());
    fs::remove_dir(&home).unwrap();
    let _ = verify(&fnd, &[]).expect_code(0);
    fnd.launch();
    fnd.finish();
}

#[test]
fn a_damaged_ledger_is_set_aside_and_what_was_set_aside_is_confirmed() {
    require!(root, cgroup);
    let mut fnd = Fnd::start();
    // Without quotas no measurement is under way when fnd stops: it has a directory, too.
    let block = "# on_load = false\n# [limits]\n# home = \"none\"\n# cache = \"none\"";
    fnd.drop_file("quick.sh", &QUICK.replace("# on_load = false", block));
    fnd.wait_ready("quick");
    let id = fnd.wait_end(fnd.queue("quick", "")).id;
    fnd.stop();
    let ledger = fnd.path("state/state/ledger.db");
    let whole = fs::read(&ledger).unwrap();
    let mut damaged = whole.clone();
    damaged[..100].fill(0);
    fs::write(&ledger, &damaged).unwrap();
    let output = verify(&fnd, &[]).expect_code(1).out();
    assert!(
        output.contains("is damaged") && output.contains("fndctl verify --repair"),
        "{output}"
    );
    assert_eq!(fs::read(&ledger).unwrap(), damaged, "looking changes nothing");
    let output = verify(&fnd, &["--repair"]).expect_code(0).out();
    assert!(output.contains("set the damaged ledger aside"), "{output}");
    fnd.launch();
    assert_eq!(fnd.invocation(id).state, RunState::Succeeded);
    assert_eq!(fnd.status().problems, Vec::<String>::new());
    fnd.stop();

    // The ledger cannot be read at all: fnd serves, refuses durable work, and reports it until `--repair` confirms the
    // loss.
    fs::write(&ledger, [0x5a; 20_000]).unwrap();
    fnd.launch();
    fnd.wait_ready("quick");
    assert_eq!(fnd.invoke("quick", "").status, 200);
    assert_eq!(fnd.client().post("/v1/functions/quick/invocations", "").status, 503);
    assert!(
        fnd.status()
            .problems
            .iter()
            .any(|problem| problem.contains("durable work is refused"))
    );
    let output = verify(&fnd, &[]).expect_code(1).out();
    assert!(output.contains("durable work is refused"), "{output}");
    let _ = verify(&fnd, &["--repair"]);
    wait_until("durable work to be accepted", PATIENCE, || {
        (fnd.client().post("/v1/functions/quick/invocations", "").status == 202).then_some(())
    });
    assert_eq!(fnd.status().problems, Vec::<String>::new());
    fnd.finish();
}
