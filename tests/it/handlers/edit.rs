//! A handler is replaced while it is used: the new version starts, then gets the calls, then the old version ends.

use super::ask;
use fnd_core::api::FunctionStatus;
use fnd_tests::Fnd;
use std::sync::atomic::{AtomicBool, Ordering};

const CLIENTS: usize = 8;
const EDITS: u64 = 5;
const LEAST_CALLS: usize = 30;

fn version(n: u64) -> String {
    format!("import time\ndef handler(event, context):\n    time.sleep(0.005)\n    return {n}\n")
}

#[track_caller]
fn wait_switch(fnd: &Fnd, name: &str, before: &FunctionStatus) -> FunctionStatus {
    fnd.wait_function(name, "to serve the next version", |function| {
        function.version != before.version && function.error.is_none()
    })
}

/// Each of these has functions of its own.
#[test]
fn versions_of_handlers() {
    let fnd = Fnd::start();
    edited_under_load_no_call_fails_and_versions_go_forward(&fnd);
    a_version_that_cannot_be_loaded_replaces_nothing(&fnd);
    a_reload_waits_until_the_new_version_is_loaded_or_refused(&fnd);
    a_version_that_could_not_be_loaded_is_tried_again_by_itself(&fnd);
    fnd.finish();
}

fn edited_under_load_no_call_fails_and_versions_go_forward(fnd: &Fnd) {
    fnd.drop_file("busy.py", &version(0));
    let mut serving = fnd.wait_ready("busy");
    assert_eq!(ask(fnd, "busy", ""), 0);
    let over = AtomicBool::new(false);
    let seen: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let client = || {
            let mut seen = Vec::new();
            while !over.load(Ordering::Relaxed) || seen.len() < LEAST_CALLS {
                let answer = fnd.invoke("busy", "");
                assert_eq!(answer.status, 200, "after {} calls: {}", seen.len(), answer.text());
                seen.push(answer.json());
            }
            seen
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        for n in 1..=EDITS {
            fnd.drop_file("busy.py", &version(n));
            serving = wait_switch(fnd, "busy", &serving);
        }
        over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for seen in &seen {
        assert!(seen.is_sorted(), "{seen:?}");
    }
    let calls: usize = seen.iter().map(Vec::len).sum();
    assert!(calls >= 200, "{calls} calls over {EDITS} edits");
    assert_eq!(ask(fnd, "busy", ""), EDITS);
}

fn a_version_that_cannot_be_loaded_replaces_nothing(fnd: &Fnd) {
    fnd.drop_file("steady.py", &version(1));
    let good = fnd.wait_ready("steady");
    assert_eq!(ask(fnd, "steady", ""), 1);
    let broken = [
        ("def handler(event, context):\n    return (1\n", "never closed"),
        (
            "import no_such_module\ndef handler(event, context): return 2\n",
            "no_such_module",
        ),
    ];
    for (code, word) in broken {
        fnd.drop_file("steady.py", code);
        let bad = fnd.wait_function("steady", &format!("to show {word}"), |function| {
            function.error.as_ref().is_some_and(|error| error.contains(word))
        });
        assert_eq!((bad.version, bad.state.as_str()), (good.version, "ready"));
        assert_eq!(ask(fnd, "steady", ""), 1);
        for verb in ["status", "show"] {
            let shown = fnd.ctl(&[verb, "steady"]).expect_code(0);
            assert!(shown.out().contains(word), "{verb}: {shown}");
        }
        // Writing the same content again changes nothing, and the error stays.
        fnd.drop_file("steady.py", code);
        let marker = format!("after-{}.sh", word.len());
        fnd.drop_file(&marker, "handler() { :; }\n");
        fnd.wait_ready(marker.trim_end_matches(".sh"));
        let error = fnd.function("steady").unwrap().error.unwrap_or_default();
        assert!(error.contains(word), "{error:?}");
    }
    fnd.drop_file("steady.py", &version(3));
    wait_switch(fnd, "steady", &good);
    assert_eq!(ask(fnd, "steady", ""), 3);
    // Back to the content that served before.
    fnd.drop_file("steady.py", &version(1));
    let _ = fnd.wait_function("steady", "to serve the first version again", |function| {
        function.version == good.version && function.error.is_none()
    });
    assert_eq!(ask(fnd, "steady", ""), 1);
}

fn a_reload_waits_until_the_new_version_is_loaded_or_refused(fnd: &Fnd) {
    fnd.drop_file("reloaded.py", &version(1));
    fnd.wait_ready("reloaded");
    assert_eq!(ask(fnd, "reloaded", ""), 1);
    fnd.drop_file("reloaded.py", &format!("import no_such_module\n{}", version(2)));
    let refused = fnd.ctl(&["reload"]).expect_code(8);
    for words in ["functions/reloaded.py", "could not be loaded", "no_such_module"] {
        assert!(refused.out().contains(words), "{refused}");
    }
    assert!(!refused.out().contains("reloaded: applied"), "{refused}");
    assert_eq!(ask(fnd, "reloaded", ""), 1);
    let again = fnd.ctl(&["reload"]).expect_code(0);
    assert!(again.out().contains("invalid before"), "{again}");
    fnd.drop_file("reloaded.py", &format!("import time\ntime.sleep(1)\n{}", version(3)));
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    assert_eq!(ask(fnd, "reloaded", ""), 3);
}

/// The problem may be solved without a change of the file: a package is installed, or a data file is created.
fn a_version_that_could_not_be_loaded_is_tried_again_by_itself(fnd: &Fnd) {
    let gate = fnd.shared_directory("gate");
    fnd.drop_file("patient.py", &version(1));
    let good = fnd.wait_ready("patient");
    assert_eq!(ask(fnd, "patient", ""), 1);
    let code = format!(
        "# /// fnd\n# [limits]\n# timeout = \"7s\"\n# ///\nopen({:?}).close()\n{}",
        gate.join("there").display().to_string(),
        version(2)
    );
    fnd.drop_file("patient.py", &code);
    let _ = fnd.wait_function("patient", "to be refused", |function| {
        function
            .error
            .as_deref()
            .is_some_and(|error| error.contains("No such file"))
    });
    // The record shows the version that serves; the error is reported about the newer one.
    let shown = fnd.ctl(&["show", "patient", "-o", "json"]).expect_code(0).json();
    assert_eq!(shown["version"], good.version.unwrap().to_string());
    assert_eq!(
        shown["manifest"]["limits"]["timeout"], "180s",
        "{}",
        shown["manifest"]["limits"]
    );
    let newer = &shown["newer"];
    assert!(
        newer["version"].is_string() && newer["version"] != shown["version"],
        "{newer}"
    );
    assert!(newer["failed_trials"].as_u64() >= Some(1), "{newer}");
    assert!(newer["error"].as_str().unwrap().contains("No such file"), "{newer}");
    let text = fnd.ctl(&["show", "patient"]).expect_code(0);
    assert!(text.out().contains("does not serve, tried"), "{text}");
    assert_eq!(ask(fnd, "patient", ""), 1);
    std::fs::write(gate.join("there"), "").unwrap();
    let now = wait_switch(fnd, "patient", &good);
    assert_eq!(ask(fnd, "patient", ""), 2);
    let shown = fnd.ctl(&["show", "patient", "-o", "json"]).expect_code(0).json();
    assert_eq!(
        (&shown["newer"], &shown["version"]),
        (&serde_json::Value::Null, &now.version.unwrap().to_string().into())
    );
}
