//! The audit: who did what, what was refused, over a kill and a restart.

use fnd_core::api::{AuditEntry, AuditList};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const SCRIPT: &str = "# /// fnd\n# on_load = false\n# ///\necho done\n";

fn entries(fnd: &Fnd, query: &str) -> Vec<AuditEntry> {
    let answer = fnd.client().get(&format!("/v1/audit{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json::<AuditList>().entries
}

fn started() -> Fnd {
    let fnd = Fnd::start();
    for name in ["hello", "web/a"] {
        fnd.drop_file(&format!("{name}.sh"), SCRIPT);
        fnd.wait_ready(name);
    }
    fnd
}

#[test]
fn calls_are_recorded_with_who_and_what() {
    let fnd = started();
    let (answer, view) = fnd.run("hello", "{}");
    assert_eq!(answer.status, 200);
    let queued = fnd.queue("web/a", "");
    fnd.wait_end(queued);
    let _ = fnd.ctl(&["disable", "hello"]).expect_code(0);
    let refused = fnd.invoke("hello", "");
    let _ = fnd.ctl(&["enable", "hello"]).expect_code(0);
    let _ = fnd.ctl(&["replay", &queued.to_string()]).expect_code(0);
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    let _ = fnd.ctl(&["history"]).expect_code(0);
    let all = entries(&fnd, "");
    let verbs: Vec<&str> = all.iter().rev().map(|entry| entry.verb.as_str()).collect();
    assert_eq!(
        verbs,
        ["invoke", "queue", "disable", "invoke", "enable", "replay", "reload"]
    );
    let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap();
    for entry in &all {
        assert_eq!(
            (entry.uid, entry.user.as_deref()),
            (own.uid.as_raw(), Some(own.name.as_str()))
        );
        assert!(entry.pid.is_some() && !entry.refused && entry.count == 1, "{entry:?}");
    }
    let [reload, replay, _, rejected, disable, queue, invoke] = &all[..] else {
        panic!("{all:?}");
    };
    let function = |entry: &AuditEntry| entry.function.as_ref().map(ToString::to_string);
    assert_eq!(
        (function(invoke).as_deref(), invoke.invocation),
        (Some("hello"), Some(view.id))
    );
    assert_eq!((invoke.status, &invoke.code), (Some(200), &None));
    assert_eq!(
        (function(queue).as_deref(), queue.invocation),
        (Some("web/a"), Some(queued))
    );
    assert!(
        disable.exe.as_deref().is_some_and(|exe| exe.ends_with("fndctl")),
        "{disable:?}"
    );
    assert_eq!(
        (rejected.status, &rejected.code),
        (Some(refused.status.as_u16()), &Some(refused.problem().code))
    );
    // The function of an invocation is looked up.
    assert_eq!(
        (function(replay).as_deref(), replay.invocation),
        (Some("web/a"), Some(queued))
    );
    assert_eq!((function(reload), reload.status), (None, Some(200)));
    // The same as a table.
    let table = fnd.ctl(&["audit", "web/a", "-o", "wide"]).expect_code(0).out();
    assert!(table.contains("replay") && !table.contains("hello"), "{table}");
    let names = fnd
        .ctl(&["audit", "--verb", "disable", "-o", "name"])
        .expect_code(0)
        .out();
    assert_eq!(names, "disable\n");
    assert!(fnd.log().contains("disable hello by"), "{}", fnd.log());
    assert!(!fnd.log().contains("invoke hello by"), "{}", fnd.log());
    // Entries and records in pages.
    let mut paged = Vec::new();
    let mut after = String::new();
    loop {
        let page: AuditList = fnd.client().get(&format!("/v1/audit?limit=2{after}")).json();
        paged.extend(page.entries);
        let Some(next) = page.next else { break };
        after = format!("&after={next}");
    }
    assert_eq!(paged, all);
    fnd.finish();
}

/// A run keeps its caller over a restart, whether it succeeds or fails, and a call with a key is an entry each time.
#[test]
fn runs_are_listed_once_with_their_ends() {
    let journal = "[audit]\nruns = \"journal\"\n";
    let mut fnd = Fnd::start_with(&Setup::default().config(journal));
    fnd.drop_file("hello.sh", SCRIPT);
    fnd.drop_file("broken.sh", "# /// fnd\n# on_load = false\n# ///\nexit 3\n");
    for name in ["hello", "broken"] {
        fnd.wait_ready(name);
    }
    assert_eq!(fnd.invoke("hello", "").status, 200);
    assert_eq!(fnd.invoke("broken", "").status, 500);
    for _ in 0..2 {
        let key = [("idempotency-key", "one")];
        let answer = fnd.client().call("POST", "/v1/functions/hello/invoke", &key, b"");
        assert_eq!(answer.status, 200);
    }
    fnd.wait_log("invoke hello by");
    fnd.wait_log("invoke broken by");
    fnd.stop();
    fnd.launch();
    let runs: Vec<_> = entries(&fnd, "?verb=invoke")
        .into_iter()
        .map(|entry| (entry.function.unwrap().to_string(), entry.status, entry.code))
        .collect();
    let ended = |name: &str, status, code: Option<&str>| (name.to_owned(), Some(status), code.map(str::to_owned));
    let expected = [
        ended("hello", 200, None),
        ended("hello", 200, None),
        ended("broken", 500, Some("function-failed")),
        ended("hello", 200, None),
    ];
    assert_eq!(runs, expected);
    let own = nix::unistd::geteuid().to_string();
    assert_eq!(entries(&fnd, &format!("?verb=invoke&user={own}")).len(), 4);
    assert_eq!(entries(&fnd, "?verb=invoke&user=no-such-user-fnd").len(), 0);
    assert_eq!(entries(&fnd, "?function=broken").len(), 1);
    fnd.finish();
}

/// The answer to a change comes after its entry, so a kill at once loses nothing.
#[test]
fn a_change_that_was_answered_survives_a_kill() {
    let mut fnd = started();
    for _ in 0..5 {
        assert_eq!(fnd.client().post("/v1/functions/hello/disable", "").status, 200);
        assert_eq!(fnd.client().post("/v1/functions/hello/enable", "").status, 200);
    }
    assert!(fnd.kill());
    fnd.launch();
    assert_eq!(entries(&fnd, "?verb=disable").len(), 5);
    assert_eq!(entries(&fnd, "?verb=enable").len(), 5);
    // A planned stop writes everything.
    let _ = fnd.invoke("hello", "");
    fnd.stop();
    fnd.launch();
    assert_eq!(entries(&fnd, "?verb=invoke").len(), 1);
    fnd.finish();
}

#[test]
fn refusals_are_recorded_and_counted() {
    require!(root);
    let roles = "[[access]]\nuser = \"nobody\"\nrole = \"viewer\"\nfunctions = [\"web/*\"]\n";
    let fnd = Fnd::start_with(&Setup::default().config(roles));
    for name in ["hello", "web/a"] {
        fnd.drop_file(&format!("{name}.sh"), SCRIPT);
        fnd.wait_ready(name);
    }
    std::fs::set_permissions(fnd.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
    let fndctl = fnd.path("fndctl");
    std::fs::copy(fnd_tests::programs::program("fndctl"), &fndctl).unwrap();
    let run_as = |uid: u32, arguments: &[&str]| {
        let mut command = Command::new(&fndctl);
        command.args(arguments).env_clear().env("FND_SOCKET", fnd.socket());
        let output = command.uid(uid).gid(uid).current_dir("/").output().unwrap();
        output.status.code()
    };
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap().uid.as_raw();
    assert_eq!(run_as(nobody, &["disable", "web/a"]), Some(5));
    assert_eq!(run_as(nobody, &["show", "hello"]), Some(3));
    assert_eq!(run_as(nobody, &["config"]), Some(5));
    assert_eq!(run_as(54_321, &["status"]), Some(5));
    // Reading is not recorded, and neither is a name that no function has.
    assert_eq!(run_as(nobody, &["show", "web/a"]), Some(0));
    assert_eq!(run_as(nobody, &["show", "web/nothing"]), Some(3));
    // The audit is for admins.
    assert_eq!(run_as(nobody, &["audit"]), Some(5));
    let found: Vec<_> = entries(&fnd, "?refused=1").into_iter().rev().collect();
    let shown: Vec<_> = found
        .iter()
        .map(|entry| (entry.verb.as_str(), entry.uid, entry.status.unwrap_or(0)))
        .collect();
    let expected = [
        ("disable", nobody, 403),
        ("show", nobody, 404),
        ("config", nobody, 403),
        ("status", 54_321, 403),
        ("audit", nobody, 403),
    ];
    assert_eq!(shown, expected);
    assert_eq!(
        found[1].function.as_ref().map(ToString::to_string).as_deref(),
        Some("hello")
    );
    assert_eq!(
        (found[0].user.as_deref(), found[3].user.as_deref()),
        (Some("nobody"), None)
    );
    // A flood makes few entries: at most one for each minute.
    for _ in 0..30 {
        assert_eq!(run_as(54_321, &["invoke", "hello"]), Some(5));
    }
    let flood = wait_until("all of them", PATIENCE, || {
        let flood = entries(&fnd, "?verb=invoke&user=54321");
        (flood.iter().map(|entry| entry.count).sum::<u64>() == 30).then_some(flood)
    });
    assert!(flood.len() <= 3, "{flood:?}");
    fnd.finish();
}
