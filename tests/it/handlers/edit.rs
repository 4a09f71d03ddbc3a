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
fn wait_switch(fnd: &Fnd, before: &FunctionStatus) -> FunctionStatus {
    fnd.wait_function("busy", "to serve the next version", |function| {
        function.version != before.version && function.error.is_none()
    })
}

#[test]
fn edited_under_load_no_call_fails_and_versions_go_forward() {
    let fnd = Fnd::start();
    fnd.drop_file("busy.py", &version(0));
    let mut serving = fnd.wait_ready("busy");
    assert_eq!(ask(&fnd, "busy", ""), 0);
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
            serving = wait_switch(&fnd, &serving);
        }
        over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for seen in &seen {
        assert!(seen.is_sorted(), "{seen:?}");
    }
    let calls: usize = seen.iter().map(Vec::len).sum();
    println!("{calls} calls over {EDITS} edits");
    assert!(calls >= 200);
    assert_eq!(ask(&fnd, "busy", ""), EDITS);
    fnd.finish();
}

#[test]
fn a_version_that_cannot_be_loaded_replaces_nothing() {
    let fnd = Fnd::start();
    fnd.drop_file("busy.py", &version(1));
    let good = fnd.wait_ready("busy");
    assert_eq!(ask(&fnd, "busy", ""), 1);
    let broken = [
        ("def handler(event, context):\n    return (1\n", "never closed"),
        (
            "import no_such_module\ndef handler(event, context): return 2\n",
            "no_such_module",
        ),
    ];
    for (code, word) in broken {
        fnd.drop_file("busy.py", code);
        let bad = fnd.wait_function("busy", &format!("to show {word}"), |function| {
            function.error.as_ref().is_some_and(|error| error.contains(word))
        });
        assert_eq!((bad.version, bad.state.as_str()), (good.version, "ready"));
        assert_eq!(ask(&fnd, "busy", ""), 1);
        for verb in ["status", "show"] {
            let shown = fnd.ctl(&[verb, "busy"]).expect_code(0);
            assert!(shown.out().contains(word), "{verb}: {shown}");
        }
        // Writing the same content again changes nothing, and the error stays.
        fnd.drop_file("busy.py", code);
        let marker = format!("after-{}.sh", word.len());
        fnd.drop_file(&marker, "handler() { :; }\n");
        fnd.wait_ready(marker.trim_end_matches(".sh"));
        let error = fnd.function("busy").unwrap().error.unwrap_or_default();
        assert!(error.contains(word), "{error:?}");
    }
    fnd.drop_file("busy.py", &version(3));
    wait_switch(&fnd, &good);
    assert_eq!(ask(&fnd, "busy", ""), 3);
    // Back to the content that served before.
    fnd.drop_file("busy.py", &version(1));
    let _ = fnd.wait_function("busy", "to serve the first version again", |function| {
        function.version == good.version && function.error.is_none()
    });
    assert_eq!(ask(&fnd, "busy", ""), 1);
    fnd.finish();
}

/// The problem may be solved without a change of the file: a package is installed, or a data file is created.
#[test]
fn a_version_that_could_not_be_loaded_is_tried_again_by_itself() {
    let fnd = Fnd::start();
    let gate = fnd.shared_directory("gate");
    fnd.drop_file("busy.py", &version(1));
    let good = fnd.wait_ready("busy");
    assert_eq!(ask(&fnd, "busy", ""), 1);
    let code = format!(
        "# /// fnd\n# [limits]\n# timeout = \"7s\"\n# ///\nopen({:?}).close()\n{}",
        gate.join("there").display().to_string(),
        version(2)
    );
    fnd.drop_file("busy.py", &code);
    let _ = fnd.wait_function("busy", "to be refused", |function| {
        function
            .error
            .as_deref()
            .is_some_and(|error| error.contains("No such file"))
    });
    // The record shows the version that serves; the error is reported about the newer one.
    let shown = fnd.ctl(&["show", "busy", "-o", "json"]).expect_code(0).json();
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
    let text = fnd.ctl(&["show", "busy"]).expect_code(0);
    assert!(text.out().contains("does not serve, tried"), "{text}");
    assert_eq!(ask(&fnd, "busy", ""), 1);
    std::fs::write(gate.join("there"), "").unwrap();
    let now = wait_switch(&fnd, &good);
    assert_eq!(ask(&fnd, "busy", ""), 2);
    let shown = fnd.ctl(&["show", "busy", "-o", "json"]).expect_code(0).json();
    assert_eq!(
        (&shown["newer"], &shown["version"]),
        (&serde_json::Value::Null, &now.version.unwrap().to_string().into())
    );
    fnd.finish();
}
