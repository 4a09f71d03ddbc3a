//! Secrets of functions: the function has them, nobody else does, and nothing that fnd keeps or shows contains one.

use super::secrets::{child_of, files_with, in_memory, processes_with, secret};
use fnd_tests::{Fnd, require, wait_until};
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Values that no other process and no file contains by chance.
const CANARY: &str = "canary-7ab3e210-never-to-be-seen";
const ROTATED: &str = "rotated-0c44d91e-never-to-be-seen";

/// A script that says its secret wherever it can.
const TELL: &str = r#"# /// fnd
# on_load = false
# secrets = { DB = "db", TOKEN = { secret = "db", as = "env" } }
# [sandbox]
# profile = "strict"
# ///
echo "file $(cat $CREDENTIALS_DIRECTORY/DB)"
echo "variable $TOKEN" >&2
printf '%s' "${TOKEN:0:10}"; printf '%s\n' "${TOKEN:10}"
echo "{\"token\": \"$TOKEN\"}" > $FND_RESULT
[ "$1" = fail ] || [ "$(cat)" != '"fail"' ] || { echo "it failed with $TOKEN" >&2; exit 1; }
"#;

/// The search for the value comes first.
#[test]
fn values_masks_and_bindings() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    the_direct_caller_gets_the_value_and_everything_kept_is_masked(&fnd);
    a_task_of_keptn_and_a_service_binding_work(&fnd);
    a_new_value_reaches_warm_workers_without_a_restart_of_fnd(&fnd);
    fnd.finish();
}

fn the_direct_caller_gets_the_value_and_everything_kept_is_masked(fnd: &Fnd) {
    let _ = secret(fnd, &["set", "db"], CANARY).expect_code(0);
    fnd.drop_file("tell.sh", TELL);
    let _ = fnd.wait_ready("tell");
    let listed = secret(fnd, &["list"], "").expect_code(0);
    assert!(listed.out().contains("tell"), "{listed}");

    let answer = fnd.invoke("tell", "null");
    assert!(
        answer.text().contains(CANARY),
        "its caller gets the whole result: {}",
        answer.text()
    );
    let failed = fnd.invoke("tell", "\"fail\"");
    assert!(!failed.text().contains("it failed with canary"), "{}", failed.text());
    assert_eq!(
        in_memory(child_of(fnd.pid()), CANARY),
        0,
        "the spawner has it in its memory"
    );

    let logs = fnd.ctl(&["logs", "tell"]).expect_code(0);
    assert!(
        logs.out().contains("file ***") && logs.out().contains("variable ***"),
        "{logs}"
    );
    for arguments in [
        &["logs", "tell"][..],
        &["history", "tell", "-o", "json"],
        &["result", "--last"],
        &["show", "--last", "-o", "json"],
        &["show", "tell", "-o", "json"],
        &["status", "tell", "-o", "json"],
        &["dead-letters", "-o", "json"],
    ] {
        let run = fnd.ctl(arguments);
        assert!(!run.out().contains(CANARY), "{arguments:?}: {run}");
    }
    let shown = fnd.ctl(&["history", "tell", "-o", "json"]).expect_code(0);
    assert!(shown.out().contains("it failed with ***"), "{shown}");
    wait_until("its processes and its spools are gone", PATIENCE, || {
        let left = [processes_with(CANARY), files_with(&fnd.path("run"), CANARY)].concat();
        left.is_empty().then_some(())
    });
    assert!(!fnd.log().contains(CANARY));
    for directory in ["state", "run", "log", "functions"] {
        assert_eq!(files_with(&fnd.path(directory), CANARY), Vec::<String>::new());
    }
}

/// A warm worker keeps the value with which it began; a rotation replaces it by a new one, and no call is lost.
fn a_new_value_reaches_warm_workers_without_a_restart_of_fnd(fnd: &Fnd) {
    let _ = secret(fnd, &["set", "key"], CANARY).expect_code(0);
    fnd.drop_file("warm.toml", "secrets = { DB = \"key\" }\n");
    fnd.drop_file(
        "warm.py",
        "import os\nVALUE = open(os.environ['CREDENTIALS_DIRECTORY'] + '/DB').read()\ndef handler(event, context):\n    return VALUE\n",
    );
    let _ = fnd.wait_ready("warm");
    assert_eq!(fnd.invoke("warm", "null").text().trim_matches('"'), CANARY);
    let rotated = secret(fnd, &["set", "key", "--force"], ROTATED).expect_code(0);
    assert!(rotated.out().contains("used by warm"), "{rotated}");
    // The old worker serves until a new one has loaded the code.
    wait_until("the new value", PATIENCE, || {
        (fnd.invoke("warm", "null").text().trim_matches('"') == ROTATED).then_some(())
    });
    // A value that can't be read changes nothing.
    fs::remove_file(fnd.path("secrets/key")).unwrap();
    let _ = fnd.ctl(&["reload"]);
    assert_eq!(fnd.invoke("warm", "null").text().trim_matches('"'), ROTATED);
}

/// A function of Keptn finds its secret in `SECURE_DATA`; a service binding has its own directory.
fn a_task_of_keptn_and_a_service_binding_work(fnd: &Fnd) {
    let config = fnd.path("fnd.toml").display().to_string();
    let _ = secret(fnd, &["set", "keptn"], "{\"password\": \"hunter-twelve\"}").expect_code(0);
    let new = [
        "binding",
        "--config",
        &config,
        "new",
        "orders-db",
        "type=postgresql",
        "host=db.example.com",
        "password=-",
    ];
    let _ = fnd.ctl_with(&new, b"open sesame\n").expect_code(0);
    let refused = [
        "binding",
        "--config",
        &config,
        "new",
        "other",
        "type=x",
        "password=argument",
    ];
    let refused = fnd.ctl_with(&refused, b"").expect_code(2);
    assert!(
        refused
            .to_string()
            .contains("every user of the machine can see arguments"),
        "{refused}"
    );
    fnd.drop_file(
        "task.sh",
        "# /// fnd\n# on_load = false\n# bindings = [\"orders-db\"]\n# secrets = { SECURE_DATA = \"keptn\" }\n# ///\n\
         echo $SECURE_DATA > $STATE_DIRECTORY/seen; cd $SERVICE_BINDING_ROOT/orders-db; \
         echo \"$(cat type) $(cat host) $(wc -c < password)\"\n",
    );
    let _ = fnd.wait_ready("task");
    assert_eq!(fnd.invoke("task", "null").text().trim(), "postgresql db.example.com 11");
    let seen = fs::read_to_string(fnd.path("state/home/task/seen")).unwrap();
    assert_eq!(seen.trim(), "{\"password\": \"hunter-twelve\"}");
    let listed = fnd
        .ctl_with(&["binding", "--config", &config, "list"], b"")
        .expect_code(0);
    assert!(
        listed.out().contains("host,password,type") && listed.out().contains("task"),
        "{listed}"
    );
}

/// A handler that answers which release it is, and with which value it began.
fn release(n: u32, keys: &str) -> String {
    format!(
        "# /// fnd\n# secrets = {{ DB = \"db\" }}\n{keys}# ///\nimport os\n\
         VALUE = open(os.environ['CREDENTIALS_DIRECTORY'] + '/DB').read()\n\
         def handler(event, context):\n    return '{n} ' + VALUE\n"
    )
}

/// The answers of some calls, without doubles.
fn answers(fnd: &Fnd) -> BTreeSet<String> {
    let answer = |_| fnd.invoke("f", "null").text().trim_matches('"').to_owned();
    (0..8).map(answer).collect()
}

/// W6: a key that was revoked is not used any more, whatever release a call gets.
#[test]
fn a_new_value_reaches_the_release_that_serves_and_its_canary() {
    require!(root, cgroup);
    for pinned in [false, true] {
        let fnd = Fnd::start();
        let _ = secret(&fnd, &["set", "db"], CANARY).expect_code(0);
        fnd.drop_file("f.py", &release(1, ""));
        let _ = fnd.wait_ready("f");
        let both = |value: &str| BTreeSet::from([format!("1 {value}"), format!("2 {value}")]);
        if pinned {
            let _ = fnd.ctl(&["pin", "f"]).expect_code(0);
            fnd.drop_file("f.py", &release(2, ""));
            wait_until("the edit to wait behind the pin", PATIENCE, || {
                fnd.ctl(&["canary", "f", "--percent", "50"]).code.eq(&0).then_some(())
            });
        } else {
            fnd.drop_file("f.py", &release(2, "# [release]\n# canary = \"50%\"\n"));
        }
        wait_until("the canary to get calls", PATIENCE, || {
            (answers(&fnd) == both(CANARY)).then_some(())
        });
        let _ = secret(&fnd, &["set", "db", "--force"], ROTATED).expect_code(0);
        wait_until("the new value in both", PATIENCE, || {
            (answers(&fnd) == both(ROTATED)).then_some(())
        });
        fnd.finish();
    }
}
