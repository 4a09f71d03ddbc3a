//! Invocations: payload and result over the API, queues, concurrency, cancel, enable and disable.

use fnd_core::records::outcome::{Reason, RunState};
use fnd_tests::ask::word;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use fnd_wire::ids::InvocationId;
use nix::sys::signal::Signal;
use std::fs;
use std::path::PathBuf;

/// A script that waits until a file `go` is in the directory given by `GATE`.
const GATED: &str = "#!/usr/bin/env bash\ntouch \"$GATE/$FND_INVOCATION\"\nuntil [[ -e $GATE/go ]]; do sleep 0.02; done\necho through\n";

/// Installs a gated function and returns its gate, a directory that any user may write to.
fn gated(fnd: &Fnd, name: &str, manifest: &str) -> PathBuf {
    let gate = fnd.shared_directory(&format!("gate-{name}"));
    fnd.drop_file(
        &format!("{name}.toml"),
        &format!(
            "on_load = false\n{manifest}\n[env]\nGATE = {:?}\n",
            gate.display().to_string()
        ),
    );
    fnd.drop_file(&format!("{name}.sh"), GATED);
    fnd.wait_ready(name);
    gate
}

#[track_caller]
fn wait_started(gate: &std::path::Path, id: InvocationId) {
    let mark = gate.join(id.to_string());
    wait_until("a gated run to start", PATIENCE, || mark.exists().then_some(()));
}

/// Each of these has functions of its own.
#[test]
fn payloads_pools_queues_and_cancels() {
    let fnd = Fnd::start();
    payload_in_result_out(&fnd);
    an_asynchronous_invocation_is_kept_and_found_again(&fnd);
    no_more_run_at_once_than_the_pool_allows(&fnd);
    overlap_reject_refuses_and_records_nothing(&fnd);
    overlap_skip_is_recorded_whoever_called(&fnd);
    overlap_replace_cancels_the_one_that_runs(&fnd);
    a_full_queue_says_so_and_when_to_come_back(&fnd);
    cancel_ends_what_runs_and_what_waits(&fnd);
    a_function_is_a_user_of_its_own(&fnd);
    files_that_a_function_makes_have_the_modes_of_its_umask(&fnd);
    a_control_socket_that_was_removed_comes_back(&fnd);
    fnd.finish();
}

fn payload_in_result_out(fnd: &Fnd) {
    fnd.drop_file(
        "echo.py",
        "# /// fnd\n# on_load = false\n# ///\nimport sys\nsys.stdout.write(sys.stdin.read())\n",
    );
    fnd.wait_ready("echo");
    let answer = fnd.invoke("echo", r#"{"name": "Ada"}"#);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json::<serde_json::Value>(), serde_json::json!({"name": "Ada"}));

    let plain = fnd.client().call(
        "POST",
        "/v1/functions/echo/invoke",
        &[("content-type", "text/plain")],
        b"just text",
    );
    assert_eq!(plain.text(), "just text");
    assert!(
        plain
            .header("content-type")
            .unwrap_or_default()
            .starts_with("text/plain")
    );
}

fn an_asynchronous_invocation_is_kept_and_found_again(fnd: &Fnd) {
    fnd.drop_file("later.sh", "# /// fnd\n# on_load = false\n# ///\necho '{\"n\": 1}'\n");
    fnd.wait_ready("later");
    let id = fnd.queue("later", "");
    let view = fnd.wait_end(id);
    assert_eq!(view.state, RunState::Succeeded);
    assert_eq!(word(&view.trigger), "manual");
    assert_eq!(view.attempts, 1);
    let attempt = view.attempt_records.first().unwrap();
    assert_eq!(attempt.exit_code, Some(0));
    assert!(attempt.duration_ms > 0.0 && attempt.cpu_ms > Some(0.0), "{attempt:?}");
    assert_eq!(fnd.result(id).json::<serde_json::Value>(), serde_json::json!({"n": 1}));
}

fn no_more_run_at_once_than_the_pool_allows(fnd: &Fnd) {
    let gate = gated(fnd, "narrow", "[pool]\nmax = 2");
    let ids: Vec<InvocationId> = (0..4).map(|_| fnd.queue("narrow", "")).collect();
    wait_started(&gate, ids[0]);
    wait_started(&gate, ids[1]);
    let function = fnd.wait_function("narrow", "to have two waiting", |function| function.queued == 2);
    assert_eq!(function.running, 2);
    assert_eq!(fs::read_dir(&gate).unwrap().count(), 2);
    fs::write(gate.join("go"), "").unwrap();
    for id in ids {
        assert_eq!(fnd.wait_end(id).state, RunState::Succeeded);
    }
}

fn overlap_reject_refuses_and_records_nothing(fnd: &Fnd) {
    let gate = gated(fnd, "rejects", "[pool]\nmax = 1\n[queue]\noverlap = \"reject\"");
    let running = fnd.queue("rejects", "");
    wait_started(&gate, running);
    let refused = fnd.invoke("rejects", "");
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert_eq!(refused.problem().code, "overlap");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    fs::write(gate.join("go"), "").unwrap();
    assert_eq!(fnd.wait_end(running).state, RunState::Succeeded);
    assert_eq!(fnd.history("rejects").len(), 1);
}

fn overlap_skip_is_recorded_whoever_called(fnd: &Fnd) {
    let gate = gated(fnd, "skips", "[pool]\nmax = 1\n[queue]\noverlap = \"skip\"");
    let running = fnd.queue("skips", "");
    wait_started(&gate, running);
    let before = fnd.status_file("skips");
    let refused = fnd.invoke("skips", "");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.problem().code, "skipped");
    let queued = fnd.queue("skips", "");
    for id in [Fnd::id_of(&refused), queued] {
        let view = fnd.wait_end(id);
        assert_eq!(view.state, RunState::Skipped);
        assert_eq!(view.reason.unwrap().to_string(), "skipped-overlap");
        assert_eq!(view.attempts, 0);
    }
    let output = fnd.ctl(&["invoke", "skips"]).expect_code(1);
    assert!(output.stderr.contains("was skipped (`skipped-overlap`)"), "{output}");
    assert_eq!(fnd.status_file("skips"), before, "only attempts change it");
    fs::write(gate.join("go"), "").unwrap();
    assert_eq!(fnd.wait_end(running).state, RunState::Succeeded);
    assert_eq!(fnd.history("skips").len(), 4);
}

fn overlap_replace_cancels_the_one_that_runs(fnd: &Fnd) {
    let gate = gated(fnd, "replaces", "[pool]\nmax = 1\n[queue]\noverlap = \"replace\"");
    let old = fnd.queue("replaces", "");
    wait_started(&gate, old);
    let new = fnd.queue("replaces", "");
    wait_started(&gate, new);
    assert_eq!(fnd.wait_end(old).state, RunState::Cancelled);
    fs::write(gate.join("go"), "").unwrap();
    assert_eq!(fnd.wait_end(new).state, RunState::Succeeded);
}

fn a_full_queue_says_so_and_when_to_come_back(fnd: &Fnd) {
    let gate = gated(fnd, "full", "[pool]\nmax = 1\n[queue]\nmax = 1");
    let first = fnd.queue("full", "");
    wait_started(&gate, first);
    let second = fnd.queue("full", "");
    let refused = fnd.invoke("full", "");
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(refused.problem().code, "queue-full");
    fs::write(gate.join("go"), "").unwrap();
    for id in [first, second] {
        assert_eq!(fnd.wait_end(id).state, RunState::Succeeded);
    }
}

fn cancel_ends_what_runs_and_what_waits(fnd: &Fnd) {
    let gate = gated(fnd, "cancelled", "[pool]\nmax = 1");
    let running = fnd.queue("cancelled", "");
    wait_started(&gate, running);
    let waiting = fnd.queue("cancelled", "");
    for id in [waiting, running] {
        let answer = fnd.client().post(&format!("/v1/invocations/{id}/cancel"), "");
        assert!(answer.status.is_success(), "{}", answer.text());
        let view = fnd.wait_end(id);
        assert_eq!(view.state, RunState::Cancelled);
        assert_eq!(view.reason.unwrap().to_string(), "cancelled");
    }
    assert!(!gate.join(waiting.to_string()).exists(), "a cancelled one was started");
}

#[test]
fn a_disabled_function_does_not_run_until_enabled() {
    let mut fnd = Fnd::start();
    fnd.drop_file("switch.sh", "# /// fnd\n# on_load = false\n# ///\necho on\n");
    fnd.wait_ready("switch");
    let _ = fnd.ctl(&["disable", "switch"]).expect_code(0);
    let disabled = fnd.wait_function("switch", "to be disabled", |function| {
        word(&function.state) == "disabled"
    });
    assert!(disabled.version.is_some());
    assert_eq!(fnd.invoke("switch", "").status, 503);
    // A function that a person disabled stays disabled after a restart.
    fnd.stop();
    fnd.launch();
    let _ = fnd.wait_function("switch", "to be still disabled", |function| {
        word(&function.state) == "disabled"
    });
    let _ = fnd.ctl(&["enable", "switch"]).expect_code(0);
    fnd.wait_ready("switch");
    assert_eq!(fnd.invoke("switch", "").text().trim(), "on");
    fnd.finish();
}

/// If a signal ends the program, the invocation ends with the signal's name, and the function stays ready.
#[test]
fn a_crash_is_an_end_like_another() {
    let fnd = Fnd::start();
    fnd.drop_file(
        "crashes.sh",
        "# /// fnd\n# on_load = false\n# ///\nif [[ $(cat) == *crash* ]]; then kill -SEGV $$; fi\necho fine\n",
    );
    fnd.wait_ready("crashes");
    let (answer, view) = fnd.run("crashes", "\"crash\"");
    assert_eq!(answer.status, 500);
    assert_eq!(view.reason, Some(Reason::Signal(11)));
    let (answer, _) = fnd.run("crashes", "");
    assert_eq!(answer.text().trim(), "fine");
    assert_eq!(word(&fnd.function("crashes").unwrap().state), "ready");
    fnd.finish();
}

/// Failed invocations never change the state of their function.
#[test]
fn a_failing_function_stays_ready() {
    let fnd = Fnd::start();
    fnd.drop_file("fails.sh", "# /// fnd\n# on_load = false\n# ///\nexit 1\n");
    fnd.wait_ready("fails");
    for _ in 0..6 {
        let (answer, view) = fnd.run("fails", "");
        assert_eq!(answer.status, 500);
        assert_eq!(view.state, RunState::Failed);
    }
    let function = fnd.function("fails").unwrap();
    assert_eq!(word(&function.state), "ready");
    assert_eq!((function.runs, function.failures), (6, 6));
    fnd.finish();
}

/// A function gets nothing of the daemon's environment or rights.
fn a_function_is_a_user_of_its_own(fnd: &Fnd) {
    fnd_tests::require!(root);
    let script = "# /// fnd\n# on_load = false\n# ///\necho \"$(id -u) $(grep -c . /proc/self/status) $(grep -E '^(CapEff|NoNewPrivs):' /proc/self/status | tr -d '\\t\\n')\"\nenv | cut -d= -f1 | sort >&2\n";
    for name in ["one", "two"] {
        fnd.drop_file(&format!("{name}.sh"), script);
        fnd.wait_ready(name);
    }
    let mut uids = Vec::new();
    for name in ["one", "two"] {
        let (answer, view) = fnd.run(name, "");
        let text = answer.text();
        assert!(
            text.contains("CapEff:0000000000000000") && text.contains("NoNewPrivs:1"),
            "{text}"
        );
        let uid: u32 = text.split(' ').next().unwrap().parse().unwrap();
        let (first, last) = fnd.users();
        assert!((first..=last).contains(&uid), "{uid}");
        uids.push(uid);
        let names: Vec<String> = fnd
            .logs(view.id)
            .into_iter()
            .filter(|l| l.stream.as_str() == "stderr")
            .map(|l| l.text)
            .collect();
        assert!(
            !names.iter().any(|name| name.starts_with("CARGO") || name == "NEXTEST"),
            "{names:?}"
        );
        assert!(
            names.contains(&"FND_DEADLINE".to_owned()) && names.contains(&"TRACEPARENT".to_owned()),
            "{names:?}"
        );
    }
    assert_ne!(uids[0], uids[1]);
}

/// Files for a web server or for node_exporter must be readable for others, as those of a program under cron or systemd are.
fn files_that_a_function_makes_have_the_modes_of_its_umask(fnd: &Fnd) {
    use std::os::unix::fs::PermissionsExt as _;
    let out = fnd.shared_directory("out");
    let script = |head: &str| {
        format!(
            "# /// fnd\n# on_load = false\n{head}# ///\necho x >{}/$FND_FUNCTION; stat -c %a \"$HOME\" \"$TMPDIR\"\n",
            out.display()
        )
    };
    for (name, head, expected) in [("usual", "", 0o644), ("closed", "# umask = \"027\"\n", 0o640)] {
        fnd.drop_file(&format!("{name}.sh"), &script(head));
        fnd.wait_ready(name);
        let (answer, _) = fnd.run(name, "");
        assert_eq!(answer.text().trim(), "700\n700", "home and TMPDIR are closed");
        let mode = std::fs::metadata(out.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, expected, "{name}");
    }
}

/// Somebody cleans the run directory up. A socket of systemd is not fnd's.
fn a_control_socket_that_was_removed_comes_back(fnd: &Fnd) {
    for _ in 0..2 {
        std::fs::remove_file(fnd.socket()).unwrap();
        wait_until("the control socket", PATIENCE, || {
            fnd.ctl(&["status"]).code.eq(&0).then_some(())
        });
    }
    assert!(fnd.log().contains("was removed; it is made again"));
}

/// The bound of a group holds over a restart and follows reloads; a group that is removed stops nothing, also at the next start.
#[test]
fn a_group_of_functions_follows_restarts_and_reloads() {
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    let configure = |fnd: &Fnd, text: &str| {
        fs::create_dir_all(fnd.path("conf.d")).unwrap();
        fs::write(fnd.path("conf.d/groups.toml"), text).unwrap();
        let _ = fnd.ctl(&["reload", "--ignore-invalid"]).expect_code(0);
    };
    configure(&fnd, "[groups]\ndb = { max = 1 }\n");
    let one = gated(&fnd, "one", "[queue]\ngroup = \"db\"");
    let two = gated(&fnd, "two", "[queue]\ngroup = \"db\"");
    let running = fnd.queue("one", "");
    wait_started(&one, running);
    let waiting: Vec<_> = (0..2).map(|_| fnd.queue("two", "")).collect();
    let waits_for = |fnd: &Fnd| {
        let two = fnd.function("two").and_then(|function| function.waits_for);
        two.map(|waits_for| waits_for.words())
    };
    assert_eq!(waits_for(&fnd).as_deref(), Some("group db (1 of 1)"));
    fnd.replace(Signal::SIGTERM);
    fnd.wait_ready("two");
    assert_eq!(
        waits_for(&fnd).as_deref(),
        Some("group db (1 of 1)"),
        "the attempt goes on"
    );
    assert!(!two.join(waiting[0].to_string()).exists());
    configure(&fnd, "[groups]\ndb = { max = 2 }\n");
    wait_started(&two, waiting[0]);
    configure(&fnd, "");
    let unknown = fnd.wait_error("two").error.unwrap_or_default();
    assert!(unknown.contains("unknown group `db`"), "{unknown}");
    assert_eq!(waits_for(&fnd).as_deref(), Some("group db (2 of 1)"));
    fs::write(one.join("go"), "").unwrap();
    assert_eq!(fnd.wait_end(running).state, RunState::Succeeded);
    assert!(
        !two.join(waiting[1].to_string()).exists(),
        "one more would be two of one"
    );
    fs::write(two.join("go"), "").unwrap();
    assert_eq!(fnd.wait_end(waiting[1]).state, RunState::Succeeded);
    fnd.replace(Signal::SIGTERM);
    let warning = |name: &str| fnd.function(name).and_then(|function| function.warning);
    let is_kept = |name: &str| warning(name)?.contains("names the group `db`").then_some(());
    for (name, gate) in [("one", &one), ("two", &two)] {
        wait_until("the release from before", PATIENCE, || is_kept(name));
        fs::write(gate.join("go"), "").unwrap();
        let run = fnd.queue(name, "");
        assert_eq!(
            fnd.wait_end(run).state,
            RunState::Succeeded,
            "{name} serves its stored release"
        );
    }
    let status = fnd.ctl(&["status"]).out();
    assert!(
        status.contains("two: error: ") && status.contains("one attempt at once"),
        "{status}"
    );
    fnd.finish();
}
