//! An answered change is stored: each verb of the API that changes durable state, with fnd killed in the instant after the
//! answer, and while the disk is full.
//!
//! The ledger's writes are slowed down, so that a verb that answers before its change is stored loses the change.

use fnd_core::api::Queued;
use fnd_tests::client::Answer;
use fnd_tests::tamper::{Attached, Fate, Tampering, record};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// What a verb does to durable state.
enum Effect {
    /// It changes it: a test of this file.
    Stored(&'static Verb),
    /// It changes it; another test shows that it is stored.
    Elsewhere(&'static str),
    /// It changes nothing that outlives fnd, or nothing at all.
    None,
}
use Effect::{Elsewhere, None as Nothing, Stored};

/// Every verb of the API that is not a question.
const VERBS: &[(&str, &str, Effect)] = &[
    ("post", "/v1/events", Stored(&EMIT)),
    ("post", "/publish", Stored(&PUBLISH)),
    ("put", "/v1/functions/{function}", Stored(&UPLOAD)),
    ("delete", "/v1/functions/{function}", Stored(&REMOVE)),
    (
        "post",
        "/v1/functions/{function}/invoke",
        Elsewhere("crash/answered.rs"),
    ),
    (
        "post",
        "/v1/functions/{function}/http/{path}",
        Elsewhere("crash/answered.rs"),
    ),
    (
        "put",
        "/v1/functions/{function}/http/{path}",
        Elsewhere("crash/answered.rs"),
    ),
    (
        "patch",
        "/v1/functions/{function}/http/{path}",
        Elsewhere("crash/answered.rs"),
    ),
    (
        "delete",
        "/v1/functions/{function}/http/{path}",
        Elsewhere("crash/answered.rs"),
    ),
    ("post", "/v1/functions/{function}/invocations", Stored(&QUEUE)),
    ("post", "/v1/functions/{function}/enable", Stored(&ENABLE)),
    ("post", "/v1/functions/{function}/disable", Stored(&DISABLE)),
    ("post", "/v1/functions/{function}/stop", Stored(&STOP)),
    ("post", "/v1/functions/{function}/start", Stored(&START)),
    ("post", "/v1/functions/{function}/restart", Nothing),
    // Of the entry in the audit, `audit.rs` shows that it is stored.
    ("post", "/v1/functions/{function}/shell", Nothing),
    ("post", "/v1/functions/{function}/schedules/pause", Stored(&PAUSE)),
    ("post", "/v1/functions/{function}/schedules/resume", Stored(&RESUME)),
    ("post", "/v1/functions/{function}/rollback", Stored(&ROLLBACK)),
    ("post", "/v1/functions/{function}/pin", Stored(&PIN)),
    ("post", "/v1/functions/{function}/unpin", Stored(&UNPIN)),
    ("post", "/v1/functions/{function}/canary", Stored(&CANARY)),
    ("delete", "/v1/functions/{function}/canary", Stored(&STOP_CANARY)),
    ("post", "/v1/functions/{function}/promote", Stored(&PROMOTE)),
    // The spawner has synced what it installs before it answers.
    (
        "post",
        "/v1/functions/{function}/build",
        Elsewhere("dependencies/mod.rs"),
    ),
    ("post", "/v1/reload", Elsewhere("reload.rs")),
    ("post", "/v1/invocations/{id}/cancel", Stored(&CANCEL)),
    ("post", "/v1/invocations/{id}/replay", Stored(&REPLAY)),
    ("post", "/v1/dead-letters/{id}/redrive", Stored(&REDRIVE)),
    ("delete", "/v1/dead-letters/{id}", Stored(&DROP)),
    ("put", "/v1/state/{scope}/{key}", Stored(&SET)),
    ("delete", "/v1/state/{scope}/{key}", Stored(&UNSET)),
    // A server of NATS has confirmed the change before the answer.
    ("post", "/v1/nats/publish", Elsewhere("nats/shown.rs")),
    (
        "post",
        "/v1/functions/{function}/nats/release",
        Elsewhere("nats/shown.rs"),
    ),
    // They end with fnd.
    ("post", "/v1/log-level", Nothing),
    ("post", "/v1/drain", Nothing),
    ("delete", "/v1/drain", Nothing),
    // They change nothing.
    ("post", "/v1/routes/test", Nothing),
    ("post", "/v1/validate", Nothing),
];

#[test]
fn every_verb_of_the_api_has_a_row() {
    let api: Value = serde_json::from_str(include_str!("../../daemon/src/control/openapi.json")).unwrap();
    let mut described = BTreeSet::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            if ["post", "put", "patch", "delete"].contains(&method.as_str()) {
                described.insert((method.clone(), path.clone()));
            }
        }
    }
    let rows = VERBS
        .iter()
        .map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()));
    let rows: BTreeSet<_> = rows.collect();
    assert_eq!(rows, described);
    for (_, _, effect) in VERBS {
        if let Elsewhere(file) = effect {
            let file = format!("{}/it/{file}", env!("CARGO_MANIFEST_DIR"));
            assert!(std::path::Path::new(&file).exists(), "{file}");
        }
    }
}

/// A verb that changes durable state.
struct Verb {
    name: &'static str,
    /// Brings fnd into the state before; returns what the request is about.
    prepare: fn(&Fnd) -> String,
    /// Method, path, headers and body.
    request: fn(&str) -> Request,
    /// Whether the change is there.
    holds: fn(&Fnd, &str) -> bool,
}

struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: &'static str,
}

impl Request {
    fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: "",
        }
    }

    fn send(&self, fnd: &Fnd) -> Answer {
        fnd.client()
            .call(self.method, &self.path, &self.headers, self.body.as_bytes())
    }
}

const PLAIN: &str = "# /// fnd\n# on_load = false\n# ///\ncat\n";
const FAILS: &str = "# /// fnd\n# on_load = false\n# ///\nexit 65\n";
const SERVICE: &str = "# /// fnd\n# [service]\n# ///\nexec sleep 1000\n";
const YEARLY: &str = "# /// fnd\n# [[schedule]]\n# cron = \"0 0 1 1 *\"\n# ///\ntrue\n";
const SUBSCRIBES: &str = "# /// fnd\n# [[event]]\n# type = \"order\"\n# ///\ntrue\n";

fn nothing(_: &Fnd) -> String {
    String::new()
}

fn shown(fnd: &Fnd, path: &str) -> Value {
    let answer = fnd.client().get(path);
    if answer.status == 200 {
        answer.json()
    } else {
        Value::Null
    }
}

fn is_disabled(fnd: &Fnd) -> bool {
    shown(fnd, "/v1/functions/plain")["state"] == "disabled"
}

const DISABLE: Verb = Verb {
    name: "disable",
    prepare: nothing,
    request: |_| Request::new("POST", "/v1/functions/plain/disable"),
    holds: |fnd, _| is_disabled(fnd),
};
const ENABLE: Verb = Verb {
    name: "enable",
    prepare: nothing,
    request: |_| Request::new("POST", "/v1/functions/plain/enable"),
    holds: |fnd, _| shown(fnd, "/v1/functions/plain")["state"] == "ready",
};

fn is_stopped(fnd: &Fnd) -> bool {
    let service = shown(fnd, "/v1/functions/service");
    service["state"] == "disabled" && service["stopped"].is_object()
}

const STOP: Verb = Verb {
    name: "stop",
    prepare: |fnd| {
        fnd.drop_file("service.sh", SERVICE);
        let _ = fnd.wait_function("service", "a service to run", |status| status.up_since.is_some());
        String::new()
    },
    request: |_| Request::new("POST", "/v1/functions/service/stop"),
    holds: |fnd, _| is_stopped(fnd),
};
const START: Verb = Verb {
    name: "start",
    prepare: nothing,
    request: |_| Request::new("POST", "/v1/functions/service/start"),
    holds: |fnd, _| {
        let service = shown(fnd, "/v1/functions/service");
        service["state"].is_string() && !is_stopped(fnd)
    },
};

fn schedule_state(fnd: &Fnd) -> Value {
    shown(fnd, "/v1/schedules?function=yearly")["schedules"][0]["state"].clone()
}

const PAUSE: Verb = Verb {
    name: "pause",
    prepare: nothing,
    request: |_| Request::new("POST", "/v1/functions/yearly/schedules/pause"),
    holds: |fnd, _| schedule_state(fnd) == "paused",
};
const RESUME: Verb = Verb {
    name: "resume",
    prepare: nothing,
    request: |_| Request::new("POST", "/v1/functions/yearly/schedules/resume"),
    holds: |fnd, _| schedule_state(fnd) == "active",
};

/// Returns how many runs a function has had, or has to do.
fn runs(fnd: &Fnd, function: &str) -> usize {
    let list = shown(fnd, &format!("/v1/invocations?function={function}"));
    list["invocations"].as_array().map_or(0, Vec::len)
}

/// Returns whether a function has more runs than before.
fn has_run_again(fnd: &Fnd, function: &str, before: &str) -> bool {
    runs(fnd, function).to_string() != before
}

const EVENT: &[(&str, &str)] = &[
    ("ce-specversion", "1.0"),
    ("ce-id", "1"),
    ("ce-source", "/test"),
    ("ce-type", "order"),
];
const EMIT: Verb = Verb {
    name: "emit",
    prepare: |fnd| runs(fnd, "sub").to_string(),
    request: |_| Request {
        headers: EVENT.to_vec(),
        ..Request::new("POST", "/v1/events")
    },
    holds: |fnd, before| has_run_again(fnd, "sub", before),
};
const PUBLISH: Verb = Verb {
    name: "publish",
    prepare: |fnd| runs(fnd, "sub").to_string(),
    request: |_| {
        let mut headers = EVENT.to_vec();
        headers[1].1 = "2";
        Request {
            headers,
            ..Request::new("POST", "/publish")
        }
    },
    holds: |fnd, before| has_run_again(fnd, "sub", before),
};
const QUEUE: Verb = Verb {
    name: "queue",
    prepare: |fnd| runs(fnd, "plain").to_string(),
    request: |_| Request::new("POST", "/v1/functions/plain/invocations"),
    holds: |fnd, before| has_run_again(fnd, "plain", before),
};
const CANCEL: Verb = Verb {
    name: "cancel",
    prepare: |fnd| {
        let headers = [("Fnd-At", "2100-01-01T00:00:00Z")];
        let answer = fnd
            .client()
            .call("POST", "/v1/functions/plain/invocations", &headers, b"");
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer.json::<Queued>().id.to_string()
    },
    request: |id| Request::new("POST", format!("/v1/invocations/{id}/cancel")),
    holds: |fnd, id| shown(fnd, &format!("/v1/invocations/{id}"))["state"] == "cancelled",
};

/// Makes a dead letter.
fn dead_letter(fnd: &Fnd) -> String {
    let id = fnd.queue("fails", "1");
    let _ = fnd.wait_end(id);
    assert!(is_dead(fnd, &id.to_string()));
    id.to_string()
}

fn is_dead(fnd: &Fnd, id: &str) -> bool {
    shown(fnd, &format!("/v1/dead-letters/{id}")) != Value::Null
}

/// Returns whether a run repeats this one.
fn is_repeated(fnd: &Fnd, id: &str) -> bool {
    let list = shown(fnd, "/v1/invocations?function=fails");
    let ids = list["invocations"].as_array().cloned().unwrap_or_default();
    let repeats = |view: &Value| {
        let path = format!("/v1/invocations/{}", view["id"].as_str().unwrap_or_default());
        shown(fnd, &path)["replay_of"] == id
    };
    ids.iter().any(repeats)
}

const REPLAY: Verb = Verb {
    name: "replay",
    prepare: dead_letter,
    request: |id| Request::new("POST", format!("/v1/invocations/{id}/replay")),
    holds: is_repeated,
};
const REDRIVE: Verb = Verb {
    name: "redrive",
    prepare: dead_letter,
    request: |id| Request::new("POST", format!("/v1/dead-letters/{id}/redrive")),
    holds: |fnd, id| is_repeated(fnd, id) && !is_dead(fnd, id),
};
const DROP: Verb = Verb {
    name: "drop",
    prepare: dead_letter,
    request: |id| Request::new("DELETE", format!("/v1/dead-letters/{id}")),
    holds: |fnd, id| !is_dead(fnd, id),
};
const SET: Verb = Verb {
    name: "set-state",
    prepare: nothing,
    request: |_| Request {
        body: "7",
        ..Request::new("PUT", "/v1/state/shop/count")
    },
    holds: |fnd, _| shown(fnd, "/v1/state/shop/count")["value"] == 7,
};
const UNSET: Verb = Verb {
    name: "delete-state",
    prepare: nothing,
    request: |_| Request::new("DELETE", "/v1/state/shop/count"),
    holds: |fnd, _| fnd.client().get("/v1/state/shop/count").status == 404,
};
fn handler(answer: u32) -> String {
    format!("def handler(event, context):\n    return {answer}\n")
}

fn releases(fnd: &Fnd) -> Value {
    shown(fnd, "/v1/functions/f/versions")
}

/// Gives `f` another release that serves.
fn served(fnd: &Fnd, answer: u32) {
    fnd.drop_file("f.py", &handler(answer));
    let answer = answer.to_string();
    wait_until("the new code to serve", PATIENCE, || {
        (fnd.invoke("f", "").text().trim() == answer).then_some(())
    });
}

const ROLLBACK: Verb = Verb {
    name: "rollback",
    prepare: |fnd| {
        served(fnd, 1);
        served(fnd, 2);
        String::new()
    },
    request: |_| Request::new("POST", "/v1/functions/f/rollback"),
    holds: |fnd, _| releases(fnd)["hold"]["kind"] == "rollback",
};
const PIN: Verb = Verb {
    name: "pin",
    prepare: |fnd| {
        served(fnd, 3);
        String::new()
    },
    request: |_| Request::new("POST", "/v1/functions/f/pin"),
    holds: |fnd, _| releases(fnd)["hold"]["kind"] == "pin",
};
const UNPIN: Verb = Verb {
    name: "unpin",
    prepare: nothing,
    request: |_| Request::new("POST", "/v1/functions/f/unpin"),
    holds: |fnd, _| releases(fnd)["versions"].is_array() && releases(fnd)["hold"].is_null(),
};

/// Makes a release wait behind a pin.
fn waiting(fnd: &Fnd) -> String {
    served(fnd, 4);
    let _ = fnd.ctl(&["pin", "f"]).expect_code(0);
    fnd.drop_file("f.py", &handler(5));
    wait_until("the edit to wait", PATIENCE, || {
        releases(fnd)["hold"]["waiting"].as_str().map(str::to_owned)
    })
}

fn has_canary(fnd: &Fnd) -> bool {
    releases(fnd)["canary"].is_object()
}

const CANARY: Verb = Verb {
    name: "canary",
    prepare: waiting,
    request: |_| Request::new("POST", "/v1/functions/f/canary?percent=10"),
    holds: |fnd, _| has_canary(fnd),
};
const STOP_CANARY: Verb = Verb {
    name: "stop-canary",
    prepare: |fnd| {
        wait_until("the canary to get calls", PATIENCE, || {
            releases(fnd)["canary"]["since"].is_string().then_some(String::new())
        })
    },
    request: |_| Request::new("DELETE", "/v1/functions/f/canary"),
    holds: |fnd, _| releases(fnd)["versions"].is_array() && !has_canary(fnd),
};
const PROMOTE: Verb = Verb {
    name: "promote",
    prepare: |fnd| {
        let _ = fnd.ctl(&["unpin", "f"]);
        let version = waiting(fnd);
        let _ = fnd.ctl(&["canary", "f", "--percent", "10"]).expect_code(0);
        version
    },
    request: |_| Request::new("POST", "/v1/functions/f/promote"),
    holds: |fnd, version| !has_canary(fnd) && shown(fnd, "/v1/functions/f")["version"] == version,
};

fn upload(body: &'static str) -> Request {
    Request {
        headers: vec![("content-type", "multipart/form-data; boundary=x-x")],
        body,
        ..Request::new("PUT", "/v1/functions/ops%2Fup")
    }
}

fn prints(fnd: &Fnd, text: &str) -> bool {
    fnd.invoke("ops/up", "").text() == text
}

const UPLOAD: Verb = Verb {
    name: "upload",
    prepare: nothing,
    request: |_| {
        upload(
            "--x-x\r\nContent-Disposition: form-data; name=\"source\"; filename=\"a.sh\"\r\n\r\necho one\r\n--x-x--\r\n",
        )
    },
    holds: |fnd, _| prints(fnd, "one\n"),
};
const REPLACE: Verb = Verb {
    name: "replace",
    prepare: nothing,
    request: |_| {
        upload(
            "--x-x\r\nContent-Disposition: form-data; name=\"source\"; filename=\"a.sh\"\r\n\r\necho two\r\n--x-x--\r\n",
        )
    },
    holds: |fnd, _| prints(fnd, "two\n"),
};
const REMOVE: Verb = Verb {
    name: "remove",
    prepare: nothing,
    request: |_| Request::new("DELETE", "/v1/functions/ops%2Fup"),
    holds: |fnd, _| fnd.client().get("/v1/functions/ops%2Fup").status == 404,
};

/// Returns everything in the directory of uploads, also of those that are under way.
fn uploads(fnd: &Fnd) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let root = fnd.path("state/functions");
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path.clone());
            }
            found.insert(path.clone(), fs::read(&path).unwrap_or_default());
        }
    }
    found.remove(&root.join(".staging"));
    found
}

/// System calls, and files below the private root that they are about.
type Calls<'a> = (&'a str, &'a [&'a str]);

/// The writes to the databases.
const DATABASES: Calls<'_> = ("pwrite64", &["state/state/ledger.db-wal", "state/state/state.db-wal"]);

/// Changes the fate of calls until the result is dropped.
fn tampered(fnd: &Fnd, (calls, files): Calls<'_>, fate: Fate) -> Attached {
    let tampering = Tampering {
        calls: calls.to_owned(),
        paths: files.iter().map(|file| fnd.path(file)).collect(),
        fate,
        from: 1,
    };
    tampering.attach(fnd)
}

/// A write takes longer than a kill.
const SLOW: Duration = Duration::from_millis(100);

/// An fnd with functions, which starts.
fn prepared(setup: &Setup) -> Fnd {
    let fnd = Fnd::prepare(setup);
    for (file, code) in [
        ("plain.sh", PLAIN),
        ("fails.sh", FAILS),
        ("yearly.sh", YEARLY),
        ("sub.sh", SUBSCRIBES),
        (
            "f.py",
            "def handler(event, context):\n    print('prints')\n    return 1\n",
        ),
    ] {
        fnd.drop_file(file, code);
    }
    fnd
}

/// Tries each verb while each of the calls finds a full disk, and then with a kill.
fn check(setup: &Setup, verbs: &[(&Verb, &[Calls<'_>])]) {
    let mut fnd = prepared(setup);
    fnd.launch();
    for (verb, faults) in verbs {
        let name = verb.name;
        for function in ["plain", "fails", "yearly", "sub", "f"] {
            let _ = wait_until("the functions to be known", PATIENCE, || {
                fnd.function(function)?.version
            });
        }
        // Both databases have a log to fail.
        let _ = fnd.client().call("PUT", "/v1/state/shop/other", &[], b"1");
        let subject = (verb.prepare)(&fnd);
        let request = (verb.request)(&subject);
        assert!(!(verb.holds)(&fnd, &subject), "{name}: it is so already");
        for fault in *faults {
            let before = uploads(&fnd);
            let full = tampered(&fnd, *fault, Fate::Error("ENOSPC"));
            let answer = request.send(&fnd);
            assert_eq!(
                answer.status,
                503,
                "{name} on a full disk, {fault:?}: {}",
                answer.text()
            );
            let detail = answer.problem().detail;
            let says = ["no room", "could not be stored", "is full"];
            assert!(
                says.iter().any(|word| detail.contains(word)),
                "{name}, {fault:?}: {detail}"
            );
            assert_eq!(uploads(&fnd), before, "{name} on a full disk, {fault:?}");
            drop(full);
            wait_until("no problem to be left", PATIENCE, || {
                fnd.status().problems.is_empty().then_some(())
            });
            assert!(!(verb.holds)(&fnd, &subject), "{name}, {fault:?}: refused, and done");
        }
        let slow = tampered(&fnd, DATABASES, Fate::Delay(SLOW));
        let answer = request.send(&fnd);
        fnd.kill();
        assert!(answer.status.is_success(), "{name}: {}", answer.text());
        drop(slow);
        fnd.launch();
        wait_until(&format!("{name} to hold after a kill"), PATIENCE, || {
            (verb.holds)(&fnd, &subject).then_some(())
        });
    }
    fnd.finish();
}

fn check_detached(verbs: &[&Verb]) {
    let databases: &[_] = &[DATABASES];
    let verbs: Vec<_> = verbs.iter().map(|verb| (*verb, databases)).collect();
    check(&Setup::default().detached(), &verbs);
}

#[test]
fn changes_of_functions_are_stored_when_they_are_answered() {
    require!(root, cgroup, strace);
    check_detached(&[&DISABLE, &ENABLE, &STOP, &START, &PAUSE, &RESUME]);
}

#[test]
fn changes_of_work_are_stored_when_they_are_answered() {
    require!(root, cgroup, strace);
    check_detached(&[&QUEUE, &CANCEL, &REPLAY, &REDRIVE, &DROP, &EMIT, &PUBLISH, &SET, &UNSET]);
}

#[test]
fn changes_of_releases_are_stored_when_they_are_answered() {
    require!(root, cgroup, strace);
    check_detached(&[&ROLLBACK, &PIN, &UNPIN, &CANARY, &STOP_CANARY, &PROMOTE]);
}

/// The ledger has stored a rollback before it is made. Its consequence is stored later and may fail: the rollback is in
/// force, so 503 would be wrong.
#[test]
fn a_stored_rollback_is_answered_although_the_disk_is_full_when_it_serves() {
    require!(root, cgroup, strace);
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    let gate = fnd.path("gate");
    let waits = format!("import os, time\nwhile os.path.exists({gate:?}):\n    time.sleep(0.01)\n");
    for answer in [1, 2] {
        fnd.drop_file("f.py", &format!("{waits}{}", handler(answer)));
        wait_until("the new code to serve", PATIENCE, || {
            (fnd.invoke("f", "").text().trim() == answer.to_string()).then_some(())
        });
    }
    fs::write(&gate, "").unwrap();
    let client = fnd.client();
    let answered = thread::spawn(move || client.call("POST", "/v1/functions/f/rollback", &[], b""));
    wait_until("the rollback to be stored", PATIENCE, || {
        (releases(&fnd)["hold"]["kind"] == "rollback").then_some(())
    });
    let full = tampered(&fnd, DATABASES, Fate::Error("ENOSPC"));
    fs::remove_file(&gate).unwrap();
    let answer = answered.join().unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    fnd.kill();
    drop(full);
    fnd.launch();
    wait_until("the rollback to serve after a kill", PATIENCE, || {
        (fnd.invoke("f", "").text().trim() == "1").then_some(())
    });
    assert_eq!(releases(&fnd)["hold"]["kind"], "rollback");
    fnd.finish();
}

#[test]
fn uploads_and_removals_are_stored_when_they_are_answered() {
    // strace compares the old name of a rename only.
    const RENAME: &str = "rename,renameat,renameat2";
    const NEW: Calls<'_> = ("mkdir", &["state/functions/.staging/ops.up"]);
    const GROUP: Calls<'_> = ("mkdir", &["state/functions/.staging/ops.up/new/ops"]);
    const UPLOADER: Calls<'_> = ("write", &["state/functions/.staging/ops.up/new/ops/.up.uploader"]);
    const SOURCE: Calls<'_> = ("write", &["state/functions/.staging/ops.up/new/ops/up.sh"]);
    const SYNC: Calls<'_> = ("fsync", &["state/functions/.staging/ops.up/new/ops/up.sh"]);
    const BEFORE: Calls<'_> = ("mkdir", &["state/functions/.staging/ops.up/old.part"]);
    const OLD: Calls<'_> = (RENAME, &["state/functions/.staging/ops.up/old.part"]);
    const PLACED: Calls<'_> = (RENAME, &["state/functions/.staging/ops.up/new/ops/up.sh"]);
    const ENDED: Calls<'_> = (RENAME, &["state/functions/.staging/ops.up"]);
    require!(root, cgroup, strace);
    let put: &[_] = &[
        NEW, GROUP, UPLOADER, SOURCE, SYNC, BEFORE, OLD, PLACED, DATABASES, ENDED,
    ];
    // This spawner reads uploads, which a detached one of the tests does not.
    check(
        &Setup::default(),
        &[
            (&UPLOAD, put),
            (&REPLACE, put),
            (&REMOVE, &[NEW, GROUP, BEFORE, OLD, ENDED]),
        ],
    );
}

/// A power cut loses what the file system has not been asked to store: a name as well as content.
#[test]
fn directories_of_an_upload_are_synced_before_the_answer() {
    require!(root, cgroup, strace);
    let fnd = Fnd::start();
    let calls = fnd.path("calls");
    for verb in [UPLOAD, REPLACE, REMOVE] {
        let recorded = record(&fnd, "mkdir,rename,fsync", &calls);
        let answer = (verb.request)("").send(&fnd);
        drop(recorded);
        assert!(answer.status.is_success(), "{}: {}", verb.name, answer.text());
        let text = fs::read_to_string(&calls).unwrap();
        let unsynced = unsynced(&text, &fnd.path("state/functions"));
        assert!(unsynced.is_empty(), "{}: {unsynced:?}\n{text}", verb.name);
    }
    fnd.finish();
}

/// Returns the directories whose names have changed since they were last synced. The directories of an upload that is over
/// do not count.
fn unsynced(calls: &str, root: &Path) -> BTreeSet<String> {
    let root = root.to_str().unwrap();
    let mut changed = BTreeSet::new();
    for line in calls.lines() {
        if line.contains("fsync(") {
            let path = line.split(['<', '>']).nth(1).unwrap_or_default();
            changed.remove(path);
            continue;
        }
        let names = line.split('"').filter(|part| part.starts_with(root));
        for directory in names.filter_map(|name| Some(name.rsplit_once('/')?.0)) {
            changed.insert(directory.to_owned());
        }
    }
    changed.retain(|directory| !directory.contains("/.staging/") && Path::new(directory).exists());
    changed
}

#[test]
fn every_verb_that_changes_durable_state_is_tried() {
    let tried = [
        "disable",
        "enable",
        "pause",
        "resume",
        "start",
        "stop",
        "queue",
        "cancel",
        "replay",
        "redrive",
        "drop",
        "emit",
        "publish",
        "set-state",
        "delete-state",
        "rollback",
        "pin",
        "unpin",
        "canary",
        "stop-canary",
        "promote",
        "upload",
        "remove",
    ];
    let stored = VERBS.iter().filter_map(|(_, _, effect)| match effect {
        Stored(verb) => Some(verb.name),
        Elsewhere(_) | Nothing => None,
    });
    let stored: BTreeSet<_> = stored.collect();
    assert_eq!(stored, BTreeSet::from(tried));
}
