//! `fndctl` as people and scripts use it.

use fnd_tests::ctl::fndctl;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Run, Setup, wait_until};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn node() -> Fnd {
    let fnd = Fnd::start();
    fnd.drop_file("hello.py", "# /// fnd\n# on_load = false\n# labels = { team = \"ops\" }\n# ///\nimport json, sys\ndata = sys.stdin.read()\nprint(json.dumps({\"got\": data}))\n");
    fnd.drop_file(
        "fails.sh",
        "# /// fnd\n# on_load = false\n# ///\necho why >&2\nexit 3\n",
    );
    fnd.drop_file(
        "slow.sh",
        "# /// fnd\n# on_load = false\n# [limits]\n# timeout = \"200ms\"\n# grace = \"100ms\"\n# ///\nsleep 1000\n",
    );
    for name in ["hello", "fails", "slow"] {
        fnd.wait_ready(name);
    }
    fnd
}

/// The functions of `node`. The count of runs comes first, and a run that fails last.
#[test]
fn invocations_and_lists() {
    let fnd = node();
    broken_json_and_silent_pipes_start_nothing(&fnd);
    tables_fit_and_other_forms_are_whole(&fnd);
    lists_by_label(&fnd);
    show_prints_how_it_is_run(&fnd);
    every_form_of_payload(&fnd);
    asynchronous_and_its_result(&fnd);
    runs_are_named_by_the_end_of_their_ids(&fnd);
    exit_codes(&fnd);
    fnd.finish();
}

fn exit_codes(fnd: &Fnd) {
    for (code, arguments) in [
        (0, vec!["invoke", "hello"]),
        (1, vec!["invoke", "fails"]),
        (2, vec!["no-such-verb"]),
        (2, vec!["invoke"]),
        (3, vec!["invoke", "nobody"]),
        (3, vec!["result", "00000000-0000-7000-8000-000000000000"]),
        (6, vec!["invoke", "slow"]),
        (0, vec!["status"]),
        (0, vec!["status", "hello"]),
        (3, vec!["status", "nobody"]),
        (0, vec!["version"]),
    ] {
        let run = fnd.ctl(&arguments);
        assert_eq!(run.code, code, "{arguments:?}: {run}");
    }
}

/// Without a daemon fndctl says so, and what to check.
#[test]
fn no_daemon_is_an_answer_with_advice() {
    let run = fndctl(
        &["status"],
        b"",
        &[("FND_SOCKET", Path::new("/nonexistent/control.sock"))],
    );
    assert_eq!(run.code, 4, "{run}");
    assert!(run.stderr.contains("/nonexistent/control.sock"), "{run}");
    assert!(
        run.stderr.contains("fnd running") || run.stderr.contains("systemctl"),
        "{run}"
    );
    // A socket on which no process listens any more gives the same answer.
    let directory = tempfile::tempdir().unwrap();
    let stale = directory.path().join("control.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let run = fndctl(&["status"], b"", &[("FND_SOCKET", &stale)]);
    assert_eq!(run.code, 4, "{run}");
}

fn every_form_of_payload(fnd: &Fnd) {
    let file = fnd.path("payload.json");
    std::fs::write(&file, "{\"from\": \"file\"}").unwrap();
    let got = |run: Run| run.expect_code(0).json()["got"].as_str().unwrap_or_default().to_owned();
    assert_eq!(got(fnd.ctl(&["invoke", "hello"])), "");
    assert_eq!(got(fnd.ctl(&["invoke", "hello", "-d", "{\"a\":1}"])), "{\"a\":1}");
    assert_eq!(got(fnd.ctl(&["invoke", "hello", "-d", "plain words"])), "plain words");
    assert_eq!(
        got(fnd.ctl(&["invoke", "hello", "-d", &format!("@{}", file.display())])),
        "{\"from\": \"file\"}"
    );
    assert_eq!(
        got(fnd.ctl_with(&["invoke", "hello", "-d", "-"], b"from a pipe")),
        "from a pipe"
    );
    let run = fnd.ctl(&["invoke", "hello", "-d", "@/nonexistent"]);
    assert!(run.code == 2 && run.stderr.contains("/nonexistent"), "{run}");
}

fn asynchronous_and_its_result(fnd: &Fnd) {
    let run = fnd
        .ctl(&["invoke", "hello", "-d", "later", "--async", "-o", "json"])
        .expect_code(0);
    let id = run.json()["id"].as_str().unwrap().to_owned();
    fnd.wait_end(fnd_wire::ids::InvocationId::parse(&id).unwrap());
    assert_eq!(fnd.ctl(&["result", &id]).expect_code(0).json()["got"], "later");
    let payload = fnd.ctl(&["result", &id, "--payload"]).expect_code(0);
    assert_eq!(payload.out().trim_end(), "later");
    let history = fnd.ctl(&["history", "hello", "-o", "json"]).expect_code(0).json();
    assert_eq!(history["invocations"][0]["id"], id.as_str());
}

fn tables_fit_and_other_forms_are_whole(fnd: &Fnd) {
    let _ = fnd.ctl(&["invoke", "hello"]).expect_code(0);
    for verb in ["status", "list", "history", "runtimes", "sizes"] {
        let table = fnd.ctl(&[verb]).expect_code(0);
        // The lines below a table are sentences, which a terminal wraps.
        for line in table
            .out()
            .lines()
            .take_while(|line| !line.is_empty() && !line.starts_with("not enforced"))
        {
            assert!(line.chars().count() <= 80, "{verb}: {line:?} is wider than 80 columns");
        }
        let json = fnd.ctl(&[verb, "-o", "json"]).expect_code(0).json();
        assert!(json.is_object(), "{verb}: {json}");
        let yaml = fnd.ctl(&[verb, "-o", "yaml"]).expect_code(0).out();
        assert!(
            yaml.contains(':') && !yaml.trim_start().starts_with('{'),
            "{verb}: {yaml}"
        );
    }
    let table = fnd.ctl(&["status"]).out();
    assert!(
        table.contains("FUNCTION") && table.contains("hello") && table.contains("python"),
        "{table}"
    );
}

/// Several names, patterns and advice against the real daemon.
#[test]
fn names_patterns_and_advice() {
    let fnd = node();
    let named = |arguments: &[&str]| fnd.ctl(arguments).expect_code(0).out();
    assert_eq!(named(&["status", "*l*", "-o", "name"]), "fails\nhello\nslow\n");
    assert_eq!(named(&["ls", "-o", "name"]), "fails\nhello\nslow\n");
    assert_eq!(named(&["disable", "hello", "s*"]), "hello: disabled\nslow: disabled\n");
    assert_eq!(named(&["enable", "hello"]), "hello: enabled\n");
    let _ = fnd.ctl(&["invoke", "fails"]).expect_code(1);
    wait_until("the failed function", PATIENCE, || {
        (named(&["status", "--failed", "-o", "name"]) == "fails\n").then_some(())
    });
    let run = fnd.ctl(&["invoke", "helo"]).expect_code(3);
    assert!(run.stderr.contains("did you mean `hello`?"), "{run}");
    let run = fnd.ctl(&["invoke", "hello", "Ada"]).expect_code(2);
    assert!(run.stderr.contains("fndctl invoke hello -d Ada"), "{run}");
    fnd.finish();
}

/// The count of dead letters comes first.
#[test]
fn dead_letters_cancels_and_terminals() {
    let fnd = Fnd::start();
    requests_that_change_nothing_are_told(&fnd);
    cancel_all_ends_waiting_and_running_runs(&fnd);
    an_empty_payload_is_none_and_an_error_names_its_function(&fnd);
    a_terminal_shows_output_once_and_the_next_attempt(&fnd);
    a_terminal_shows_how_many_runs_are_before_a_new_one(&fnd);
    the_log_level_changes_while_it_runs_and_comes_back(&fnd);
    fnd.finish();
}

/// All runs of a function end at once: the waiting ones first, so that none starts.
fn cancel_all_ends_waiting_and_running_runs(fnd: &Fnd) {
    fnd.drop_file(
        "long.sh",
        "# /// fnd\n# on_load = false\n# [pool]\n# max = 1\n# ///\nsleep 1000\n",
    );
    fnd.wait_ready("long");
    for _ in 0..3 {
        let _ = fnd.ctl(&["invoke", "long", "--async"]).expect_code(0);
    }
    let running = || fnd.ctl(&["history", "long", "--state", "running", "-o", "name"]).out();
    wait_until("a run", PATIENCE, || (!running().is_empty()).then_some(()));
    let cancelled = fnd.ctl(&["cancel", "--all", "l*", "-o", "json"]).expect_code(0).json();
    assert_eq!(cancelled.as_array().map(Vec::len), Some(3), "{cancelled}");
    wait_until("all runs to end", PATIENCE, || {
        let ended = fnd
            .ctl(&["history", "long", "--state", "cancelled", "-o", "name"])
            .out();
        (ended.lines().count() == 3).then_some(())
    });
}

fn requests_that_change_nothing_are_told(fnd: &Fnd) {
    for verb in [&["cancel", "--all", "nosuch"][..], &["history", "nosuch"]] {
        let run = fnd.ctl(verb).expect_code(3);
        assert!(run.stderr.contains("there is no function `nosuch`"), "{run}");
    }
    let gone = "# /// fnd\n# on_load = false\n# ///\nexit 3\n";
    fnd.drop_file("gone.sh", gone);
    fnd.wait_ready("gone");
    for _ in 0..2 {
        let _ = fnd.ctl(&["invoke", "gone", "--async"]);
    }
    let letters = || fnd.ctl(&["dead-letters", "-o", "name"]).out().lines().count();
    wait_until("both to be dead letters", PATIENCE, || (letters() == 2).then_some(()));
    std::fs::remove_file(fnd.path("functions/gone.sh")).unwrap();
    wait_until("the function to be gone", PATIENCE, || {
        fnd.function("gone").is_none().then_some(())
    });
    for which in ["gone", "--all"] {
        let run = fnd.ctl(&["dead-letters", "redrive", which]).expect_code(3);
        assert!(
            run.stderr.contains("no function `gone`") && run.stderr.contains("2 dead letters stay"),
            "{run}"
        );
    }
    assert_eq!(letters(), 2);
}

fn an_empty_payload_is_none_and_an_error_names_its_function(fnd: &Fnd) {
    fnd.drop_file(
        "dd.sh",
        "# /// fnd\n# on_load = false\n# data = { a = 1 }\n# ///\necho \"$DATA\"\n",
    );
    fnd.drop_file(
        "e.sh",
        "# /// fnd\n# on_load = false\n# ///\necho 'the customer' >&2\nexit 7\n",
    );
    fnd.wait_ready("dd");
    fnd.wait_ready("e");
    assert_eq!(
        fnd.ctl(&["invoke", "dd", "-d", ""]).expect_code(0).out().trim(),
        "{\"a\":1}"
    );
    let run = fnd.ctl(&["invoke", "e"]).expect_code(1);
    assert!(run.stderr.contains("`e` ended with `exit-7`: the customer"), "{run}");
}

/// Runs by the end of an id and by `--last`, and both from the candidates of completion.
fn runs_are_named_by_the_end_of_their_ids(fnd: &Fnd) {
    let id = fnd
        .ctl(&["invoke", "hello", "-d", "one", "--async"])
        .expect_code(0)
        .out();
    let id = id.trim();
    fnd.wait_end(fnd_wire::ids::InvocationId::parse(id).unwrap());
    let end = &id[id.len() - 8..];
    assert_eq!(fnd.ctl(&["result", end]).expect_code(0).json()["got"], "one");
    assert_eq!(
        fnd.ctl(&["result", "--last", "hello"]).expect_code(0).json()["got"],
        "one"
    );
    let table = fnd.ctl(&["history", "hello", "--no-headers"]).expect_code(0).out();
    assert!(table.starts_with(&format!("{end}  hello")), "{table}");
    for arguments in [&["history", "--id", end][..], &["history", "--last"]] {
        let shown = fnd.ctl(&[arguments, &["-o", "json"]].concat()).expect_code(0).json();
        assert_eq!(shown["id"], id);
    }
    let run = fnd.ctl(&["cancel", end]).expect_code(3);
    assert!(run.stderr.contains("has ended"), "{run}");
    let run = fnd.ctl(&["logs", "--last", "nobody"]).expect_code(3);
    assert!(run.stderr.contains("no run of a function `nobody`"), "{run}");
}

fn broken_json_and_silent_pipes_start_nothing(fnd: &Fnd) {
    let run = fnd.ctl(&["invoke", "hello", "-d", "{name: Ada}"]).expect_code(2);
    assert!(
        run.stderr.contains("line 1 column 2") && run.stderr.contains("--text"),
        "{run}"
    );
    let text = fnd
        .ctl(&["invoke", "hello", "--text", "-d", "{name: Ada}"])
        .expect_code(0);
    assert_eq!(text.json()["got"], "{name: Ada}");
    assert_eq!(
        fnd.ctl_with(&["invoke", "hello"], b"piped").expect_code(0).json()["got"],
        "piped"
    );
    assert_eq!(
        fnd.ctl_with(&["invoke", "hello", "-d", ""], b"piped")
            .expect_code(0)
            .json()["got"],
        ""
    );
    let _ = fnd.ctl_with(&["invoke", "hello"], b"[1, 2").expect_code(2);
    let runs = fnd.ctl(&["history", "hello", "-o", "name"]).out();
    assert_eq!(runs.lines().count(), 3);
}

/// Returns a command line on a terminal.
fn on_a_terminal(fnd: &Fnd, line: &str) -> Command {
    let line = format!("{} {line}", fnd_tests::programs::program("fndctl").display());
    let mut command = Command::new("/usr/bin/script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
    command.env("FND_SOCKET", fnd.socket()).env("SHELL", "/bin/sh");
    command
}

/// Returns what a command line shows on a terminal.
fn shown(fnd: &Fnd, line: &str) -> String {
    let output = on_a_terminal(fnd, line).output().unwrap();
    String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n")
}

/// On a terminal, the output of a script and its result are the same text in the same place; and somebody who waits sees
/// for what.
fn a_terminal_shows_output_once_and_the_next_attempt(fnd: &Fnd) {
    fnd.drop_file(
        "says.sh",
        "# /// fnd\n# on_load = false\n# ///\necho one\necho aside >&2\necho two\n",
    );
    fnd.drop_file(
        "flaky.sh",
        "# /// fnd\n# on_load = false\n# [retry]\n# retries = 1\n# interval = \"1s\"\n# jitter = \"none\"\n# ///\nexit 75\n",
    );
    fnd.wait_ready("says");
    fnd.wait_ready("flaky");
    let text = shown(fnd, "invoke says --follow");
    for line in ["one", "two", "aside"] {
        assert_eq!(text.matches(line).count(), 1, "{text}");
    }
    // In two pipes, each has its own.
    let run = fnd.ctl(&["invoke", "says", "--follow"]).expect_code(0);
    assert_eq!(run.out(), "one\ntwo\n");
    assert!(run.stderr.contains("one\n") && run.stderr.contains("aside\n"), "{run}");
    let text = shown(fnd, "invoke flaky");
    assert!(text.contains("attempt 2 in ") && text.contains("(transient)"), "{text}");
}

fn a_terminal_shows_how_many_runs_are_before_a_new_one(fnd: &Fnd) {
    fnd.drop_file(
        "long.sh",
        "# /// fnd\n# on_load = false\n# [pool]\n# max = 1\n# ///\nsleep 1000\n",
    );
    fnd.wait_ready("long");
    let _ = fnd.ctl(&["invoke", "long", "--async"]).expect_code(0);
    let mut waiting = on_a_terminal(fnd, "invoke long")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(waiting.stdout.take().unwrap()).lines();
    let found = lines
        .map_while(Result::ok)
        .find(|line| line.contains("waiting for its turn"));
    assert_eq!(
        found.as_deref().map(str::trim_end),
        Some("waiting for its turn: 1 running, 1 queued")
    );
    let _ = fnd.ctl(&["cancel", "--all", "long"]).expect_code(0);
    waiting.wait().unwrap();
}

fn lists_by_label(fnd: &Fnd) {
    let listed = fnd.ctl(&["list", "-l", "team=ops", "-o", "json"]).expect_code(0).json();
    assert_eq!(listed["functions"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["functions"][0]["function"], "hello");
}

#[test]
fn explains_reasons_codes_and_keys() {
    for word in ["oom", "exit-3", "queue-full", "limits.memory", "retry.jitter"] {
        let run = fndctl(&["explain", word], b"", &[]).expect_code(0);
        assert!(run.out().len() > 20, "{word}: {run}");
    }
    let run = fndctl(&["explain", "no-such-word"], b"", &[]);
    assert_ne!(run.code, 0);
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            fndctl(&["completion", shell], b"", &[])
                .expect_code(0)
                .out()
                .contains("fndctl")
        );
    }
}

/// `validate` needs no daemon, and names every problem with its place.
#[test]
fn validate_names_every_problem() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("broken.toml");
    std::fs::write(directory.path().join("broken.sh"), "echo\n").unwrap();
    std::fs::write(
        &path,
        "retires = 3\n[limits]\ntimeout = \"5 parsecs\"\nmemory = \"0\"\n",
    )
    .unwrap();
    let run = fndctl(&[Path::new("validate"), directory.path()], b"", &[]);
    assert_eq!(run.code, 8, "{run}");
    let text = format!("{}{}", run.out(), run.stderr);
    for needle in [
        "broken.toml:1:",
        "retires",
        "broken.toml:3:",
        "parsecs",
        "broken.toml:4:",
    ] {
        assert!(text.contains(needle), "no {needle:?} in {text}");
    }
    std::fs::write(&path, "on_load = false\n").unwrap();
    let _ = fndctl(&[Path::new("validate"), directory.path()], b"", &[]).expect_code(0);
}

fn show_prints_how_it_is_run(fnd: &Fnd) {
    let short = fnd.ctl(&["show", "hello"]).expect_code(0).out();
    assert!(!short.contains("180s"), "no default:\n{short}");
    let shown = fnd.ctl(&["show", "hello", "-o", "wide"]).expect_code(0).out();
    for needle in ["script", "python", "hello.py", "180s"] {
        assert!(shown.contains(needle), "no {needle:?} in {shown}");
    }
}

/// The log level changes for a time, without a restart. A filter with a typing mistake, which would silence fnd, is
/// refused.
fn the_log_level_changes_while_it_runs_and_comes_back(fnd: &Fnd) {
    assert_eq!(fnd.ctl(&["log-level"]).expect_code(0).out().trim(), "info");
    let run = fnd.ctl(&["log-level", "debug", "--for", "2s"]).expect_code(0);
    assert!(run.out().starts_with("debug until "), "{run}");
    fnd.drop_file("said.sh", "# /// fnd\n# on_load = false\n# ///\n:\n");
    fnd.wait_ready("said");
    assert_eq!(fnd.invoke("said", "").status, 200);
    fnd.wait_log("attempt 1 started");
    wait_until("the level before to be back", PATIENCE, || {
        (fnd.ctl(&["log-level"]).out().trim() == "info").then_some(())
    });
    for wrong in ["loud", "debug,", "x".repeat(300).as_str()] {
        let run = fnd.ctl(&["log-level", wrong]).expect_code(2);
        assert!(run.stderr.contains("expected a level"), "{run}");
    }
    let _ = fnd.ctl(&["log-level", "--for", "2s"]).expect_code(2);
    assert_eq!(
        fnd.ctl(&["log-level", "-o", "json"]).json(),
        serde_json::json!({"level": "info", "until": null})
    );
}

/// The archive has what a bug report needs, and no private data of functions.
#[test]
fn a_bundle_has_what_a_report_needs_and_no_secret() {
    let fnd = Fnd::start_with(&Setup::default().config("[defaults.env]\nTOKEN = \"hunter-one\"\n"));
    fnd.drop_file(
        "leaky.sh",
        "# /// fnd\n# on_load = false\n# [env]\n# OWN = \"hunter-two\"\n# ///\necho hunter-three >&2\nexit 1\n",
    );
    fnd.wait_ready("leaky");
    let _ = fnd.invoke("leaky", "\"hunter-four\"");
    let file = fnd.path("report.tar").display().to_string();
    let run = fnd.ctl(&["bundle", &file]).expect_code(0);
    for name in [
        "status.json",
        "config.json",
        "events.ndjson",
        "metrics.txt",
        "doctor.json",
        "machine.txt",
    ] {
        assert!(run.out().contains(name), "{name}: {run}");
    }
    let bytes = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
    for kept in ["fnd_problems", "leaky", "keep_versions"] {
        assert!(bytes.contains(kept), "{kept}");
    }
    for secret in ["hunter-one", "hunter-two", "hunter-three", "hunter-four"] {
        assert!(!bytes.contains(secret), "{secret}");
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    // No file is overwritten.
    let again = fnd.ctl(&["bundle", &file]);
    assert!(again.code != 0 && again.stderr.contains("report.tar"), "{again}");
    fnd.finish();
}

/// The overview names a function that failed, with its last words, and counts its end.
#[test]
fn the_overview_says_what_needs_a_person() {
    let fnd = node();
    let fails = |times: u64| {
        let _ = fnd.ctl(&["invoke", "fails"]).expect_code(1);
        wait_until("the end to be counted", PATIENCE, || {
            let overview = fnd.ctl(&["overview", "-o", "json"]).expect_code(0).json();
            let hours = overview["hours"].as_array().unwrap().iter();
            let failed: u64 = hours.filter_map(|hour| hour["failed"].as_u64()).sum();
            (failed == times).then_some(overview)
        })
    };
    let overview = fails(1);
    assert_eq!(overview["attention_count"], 1, "{overview}");
    let first = &overview["attention"][0];
    assert_eq!(first["function"], "fails", "{overview}");
    assert_eq!(
        (first["why"].as_str(), first["message"].as_str()),
        (Some("failed"), Some("why"))
    );
    assert_eq!(overview["functions"], 3, "{overview}");
    let again = fails(2);
    assert_eq!(again["attention"][0]["since"], first["since"], "{again}");
    let shown = fnd.ctl(&["overview"]).expect_code(0);
    assert!(
        shown.out().contains("fails") && shown.out().contains("nothing runs"),
        "{shown}"
    );
    assert_eq!(
        fnd.ctl(&["whoami", "-o", "json"]).expect_code(0).json()["role"],
        "admin"
    );
    fnd.finish();
}
