//! Canaries: new code gets a share of the calls, is promoted or rolled back, and no call is lost.

use crate::releases::{refused, releases, under_load};
use fnd_core::api::FunctionStatus;
use fnd_core::lifecycle::release::{HoldKind, ReleaseState, short};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use fnd_wire::ids::Version;
use std::collections::BTreeMap;

/// A handler that answers `n`, with keys of `[release]`.
fn handler(n: u32, keys: &str) -> String {
    let keys: Vec<_> = keys.lines().map(|key| format!("# {key}\n")).collect();
    format!(
        "# /// fnd\n# [release]\n{}# ///\ndef handler(event, context):\n    return {n}\n",
        keys.concat()
    )
}

/// A handler that fails with every call.
fn failing(keys: &str) -> String {
    handler(0, keys).replace("return 0", "raise ValueError('bad release')")
}

/// Calls the function so many times; returns how many calls had each answer.
fn answers(fnd: &Fnd, name: &str, calls: u32) -> BTreeMap<String, u32> {
    let mut seen = BTreeMap::new();
    for _ in 0..calls {
        *seen.entry(fnd.invoke(name, "").text().trim().to_owned()).or_default() += 1;
    }
    seen
}

fn counts<const N: usize>(answers: [(&str, u32); N]) -> BTreeMap<String, u32> {
    answers.map(|(answer, count)| (answer.to_owned(), count)).into()
}

fn wait_for_canary(fnd: &Fnd, name: &str) -> Version {
    wait_until("the canary to get calls", PATIENCE, || {
        let canary = releases(fnd, name).canary?;
        canary.since.map(|_| canary.version)
    })
}

/// Installs the first code, which serves, and the second one as its canary.
fn with_canary(fnd: &Fnd, file: &str, code: [&str; 2]) -> (Version, Version) {
    let name = file.split('.').next().unwrap();
    fnd.drop_file(file, code[0]);
    let good = fnd.wait_ready(name).version.unwrap();
    fnd.drop_file(file, code[1]);
    (good, wait_for_canary(fnd, name))
}

#[test]
fn new_code_gets_its_share_also_after_a_restart_until_a_person_promotes_it() {
    let mut fnd = Fnd::start();
    let (good, canary) = with_canary(&fnd, "f.py", [&handler(1, ""), &handler(2, "canary = \"25%\"")]);
    assert_eq!(answers(&fnd, "f", 20), counts([("1", 15), ("2", 5)]));
    assert_eq!(fnd.function("f").unwrap().version, Some(good));
    let list = releases(&fnd, "f");
    let states: Vec<_> = list.versions.iter().map(|release| release.state).collect();
    assert_eq!(states, [ReleaseState::Canary, ReleaseState::Serving]);
    let shown = list.canary.unwrap();
    assert_eq!(
        (shown.percent, shown.attempts, shown.failures, shown.promote_at),
        (25, 5, 0, None)
    );
    let warning = fnd.function("f").unwrap().warning.unwrap();
    assert!(
        warning.contains(&format!("release {} gets 25 % of the calls", short(canary))),
        "{warning}"
    );
    for crash in [false, true] {
        if crash {
            fnd.crash();
        } else {
            fnd.stop();
        }
        fnd.launch();
        assert_eq!(fnd.wait_ready("f").version, Some(good));
        assert_eq!(wait_for_canary(&fnd, "f"), canary);
        let reached = wait_until("the canary to answer", PATIENCE, || {
            let seen = answers(&fnd, "f", 8);
            (seen.len() == 2).then_some(seen)
        });
        assert!(reached.contains_key("1") && reached.contains_key("2"), "{reached:?}");
    }
    let changed = fnd.ctl(&["canary", "f", "--percent", "100"]).expect_code(0);
    assert!(changed.out().contains("gets 100 % of the calls"), "{changed}");
    assert_eq!(answers(&fnd, "f", 5), counts([("2", 5)]));
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    assert_eq!(
        releases(&fnd, "f").canary.unwrap().percent,
        100,
        "what a person asked for stays"
    );
    let shown = fnd.ctl(&["canary", "f"]).expect_code(0).out();
    assert!(shown.contains("gets 100 %") && shown.contains("--promote"), "{shown}");
    let promoted = fnd.ctl(&["canary", "f", "--promote"]).expect_code(0);
    assert!(
        promoted.out().contains(&format!("release {} serves", short(canary))),
        "{promoted}"
    );
    let function = fnd.function("f").unwrap();
    assert_eq!((function.version, function.warning), (Some(canary), None));
    assert_eq!(answers(&fnd, "f", 4), counts([("2", 4)]));
    refused(
        &fnd.ctl(&["canary", "f", "--promote"]),
        1,
        "none of its releases is a canary",
    );
    fnd.stop();
    fnd.launch();
    assert_eq!(fnd.wait_ready("f").version, Some(canary));
    assert!(releases(&fnd, "f").canary.is_none());
    fnd.finish();
}

/// The promotion that nobody asks for comes first: the log has its words.
#[test]
fn canaries_under_load_and_over_their_time() {
    let fnd = Fnd::start();
    a_canary_is_promoted_when_its_time_is_over(&fnd);
    a_canary_is_promoted_under_load_and_no_call_fails(&fnd);
    a_canary_with_too_many_failures_is_rolled_back_until_the_next_edit(&fnd);
    an_upload_is_answered_when_its_canary_gets_calls(&fnd);
    one_that_cannot_be_loaded_gets_no_calls_and_says_why(&fnd);
    a_script_and_an_http_program_have_canaries_too(&fnd);
    a_service_and_a_program_with_its_own_port_cannot_have_one(&fnd);
    fnd.finish();
}

fn a_canary_is_promoted_under_load_and_no_call_fails(fnd: &Fnd) {
    let (_, canary) = with_canary(fnd, "busy.py", [&handler(1, ""), &handler(2, "canary = \"50%\"")]);
    let calls = under_load(fnd, "busy", || {
        let _ = fnd.ctl(&["canary", "busy", "--promote"]).expect_code(0);
        let version = fnd.function("busy").unwrap().version;
        assert_eq!(version, Some(canary), "it serves when the verb returns");
    });
    let all: Vec<_> = calls.concat();
    assert!(all.iter().any(|answer| answer == "1") && all.iter().any(|answer| answer == "2"));
    assert_eq!(answers(fnd, "busy", 4), counts([("2", 4)]));
}

fn a_canary_with_too_many_failures_is_rolled_back_until_the_next_edit(fnd: &Fnd) {
    let keys = "canary = \"50%\"\nmax_failures = 1\npromote_after = \"1h\"";
    let (good, canary) = with_canary(fnd, "failing.py", [&handler(1, ""), &failing(keys)]);
    assert!(releases(fnd, "failing").canary.unwrap().promote_at.is_some());
    let mut failed = 0;
    wait_until("the canary to be rolled back", PATIENCE, || {
        failed += usize::from(fnd.invoke("failing", "").status != 200);
        releases(fnd, "failing").canary.is_none().then_some(())
    });
    assert_eq!(failed, 2, "one is allowed, the second ends it");
    assert_eq!(answers(fnd, "failing", 6), counts([("1", 6)]));
    let list = releases(fnd, "failing");
    let hold = list.hold.unwrap();
    assert_eq!((hold.kind, hold.version), (HoldKind::Rollback, good));
    let [newest, ..] = &list.versions[..] else {
        panic!("no release")
    };
    assert_eq!((newest.version, newest.state), (canary, ReleaseState::Failed));
    assert_eq!(
        newest.error.as_deref(),
        Some("as a canary, 2 runs failed; `max_failures` is 1")
    );
    fnd.wait_log(&format!(
        "release {} is rolled back: as a canary, 2 runs failed",
        short(canary)
    ));
    fnd.drop_file("failing.py", &handler(3, keys));
    let next = wait_for_canary(fnd, "failing");
    assert_ne!(next, canary);
    assert!(answers(fnd, "failing", 4).contains_key("3"));
    let stopped = fnd.ctl(&["canary", "failing", "--stop"]).expect_code(0);
    assert!(stopped.out().contains("gets no more calls"), "{stopped}");
    assert_eq!(answers(fnd, "failing", 4), counts([("1", 4)]));
}

fn an_upload_is_answered_when_its_canary_gets_calls(fnd: &Fnd) {
    let file = fnd.path("sent.py");
    let deploy = |code: &str| {
        std::fs::write(&file, code).unwrap();
        fnd.ctl(&["deploy", file.to_str().unwrap()]).expect_code(0)
    };
    let keys = "canary = \"10%\"";
    let _ = deploy(&handler(1, keys));
    let run = deploy(&handler(2, keys));
    let canary = releases(fnd, "sent").canary.unwrap();
    assert!(canary.since.is_some(), "{run}");
    let told = format!("release {} gets 10 % of the calls", short(canary.version));
    assert!(run.stderr.contains(&told), "{run}");
    let _ = fnd.ctl(&["pin", "sent"]).expect_code(0);
    let run = deploy(&handler(3, ""));
    assert!(run.stderr.contains("waits, because that one is held"), "{run}");
}

fn a_canary_is_promoted_when_its_time_is_over(fnd: &Fnd) {
    let keys = "canary = \"10%\"\npromote_after = \"500ms\"";
    fnd.drop_file("timed.py", &handler(1, ""));
    let good = fnd.wait_ready("timed").version;
    fnd.drop_file("timed.py", &handler(2, keys));
    let serves = |function: &FunctionStatus| function.version != good && function.error.is_none();
    let _ = fnd.wait_function("timed", "to serve the promoted canary", serves);
    assert_eq!(answers(fnd, "timed", 4), counts([("2", 4)]));
    fnd.wait_log("its canary is promoted");
}

#[test]
fn a_release_that_waits_behind_a_pin_gets_calls_when_a_person_asks_for_it() {
    let mut fnd = Fnd::start_with(&Setup::default().config("keep_versions = 1"));
    fnd.drop_file("f.py", &handler(1, ""));
    fnd.wait_ready("f");
    refused(
        &fnd.ctl(&["canary", "f", "--percent", "10"]),
        1,
        "no release waits for calls",
    );
    refused(&fnd.ctl(&["canary", "none", "--percent", "10"]), 3, "none");
    refused(
        &fnd.ctl(&["canary", "f", "--stop"]),
        1,
        "none of its releases is a canary",
    );
    refused(&fnd.ctl(&["canary", "f", "--percent", "101"]), 2, "101");
    let _ = fnd.ctl(&["pin", "f"]).expect_code(0);
    fnd.drop_file("f.py", &handler(2, ""));
    wait_until("the edit to wait", PATIENCE, || releases(&fnd, "f").hold?.waiting);
    assert_eq!(answers(&fnd, "f", 4), counts([("1", 4)]));
    let begun = fnd.ctl(&["canary", "f", "--percent", "50"]).expect_code(0);
    assert!(begun.out().contains("gets 50 % of the calls"), "{begun}");
    assert_eq!(answers(&fnd, "f", 4), counts([("1", 2), ("2", 2)]));
    fnd.stop();
    fnd.launch();
    wait_for_canary(&fnd, "f");
    assert_eq!(releases(&fnd, "f").hold.unwrap().kind, HoldKind::Pin);
    let _ = fnd.ctl(&["canary", "f", "--promote"]).expect_code(0);
    assert!(releases(&fnd, "f").hold.is_none(), "the pin is over");
    assert_eq!(answers(&fnd, "f", 4), counts([("2", 4)]));
    let audit = fnd.ctl(&["audit", "--verb", "canary"]).expect_code(0).out();
    assert!(audit.contains("canary"), "{audit}");
    fnd.finish();
}

fn one_that_cannot_be_loaded_gets_no_calls_and_says_why(fnd: &Fnd) {
    let broken = format!("import no_such_module\n{}", handler(2, "canary = \"100%\""));
    fnd.drop_file("broken.py", &handler(1, ""));
    let good = fnd.wait_ready("broken").version;
    fnd.drop_file("broken.py", &broken);
    let function = fnd.wait_function("broken", "to say why", |function| function.error.is_some());
    assert!(function.error.unwrap().contains("no_such_module"));
    assert_eq!(answers(fnd, "broken", 4), counts([("1", 4)]));
    assert_eq!(fnd.function("broken").unwrap().version, good);
    let _ = fnd.ctl(&["canary", "broken", "--stop"]).expect_code(0);
    let _ = fnd.wait_function("broken", "to show no error", |function| function.error.is_none());
}

fn a_script_and_an_http_program_have_canaries_too(fnd: &Fnd) {
    let script = |n: u32, keys: &str| format!("# /// fnd\n# [release]\n{keys}# ///\necho {n}\n");
    with_canary(fnd, "script.sh", [&script(1, ""), &script(2, "# canary = \"50%\"\n")]);
    let seen: Vec<_> = (0..4)
        .map(|_| fnd.run("script", "").0.text().trim().to_owned())
        .collect();
    assert_eq!(seen, ["1", "2", "1", "2"]);
}

fn a_service_and_a_program_with_its_own_port_cannot_have_one(fnd: &Fnd) {
    for (tables, words) in [
        ("# [service]\n", "a service has no calls"),
        (
            "# mode = \"http\"\n# [http_server]\n# port = 18080\n",
            "the port of `http_server.port`",
        ),
    ] {
        let mode = if tables.contains("service") {
            "# mode = \"service\"\n"
        } else {
            ""
        };
        let code = format!("# /// fnd\n{mode}{tables}# [release]\n# canary = \"10%\"\n# ///\nsleep 1000\n");
        fnd.drop_file("service.sh", &code);
        let function = fnd.wait_function("service", "to be refused", |function| {
            function.error.as_deref().is_some_and(|error| error.contains(words))
        });
        assert!(function.error.unwrap().contains("`canary` is impossible here"));
    }
}
