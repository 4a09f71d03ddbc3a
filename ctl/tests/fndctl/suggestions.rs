//! Command lines of people who are used to other tools: aliases, advice, patterns, short forms.

use crate::run;
use crate::server::{ENDED, FAILED, RUNNING, Running};

#[test]
fn verbs_of_other_tools_work_or_name_what_does_it() {
    let server = Running::start();
    for (alias, verb) in [
        (&["ps", "hello"][..], &["status", "hello"][..]),
        (&["ls"], &["list"]),
        (&["describe", "hello"], &["show", "hello"]),
        (&["inspect", "hello"], &["show", "hello"]),
        (&["tail", "--id", ENDED], &["logs", "-f", "--id", ENDED]),
        (&["list", "--json"], &["list", "-o", "json"]),
        (&["dead-letters", "ls"], &["dead-letters", "list"]),
        (&["rm", "hello"], &["remove", "hello"]),
        (&["delete", "hello"], &["remove", "hello"]),
    ] {
        let expected = run(&server, verb);
        assert_eq!((expected.0, run(&server, alias)), (0, expected), "{alias:?}");
    }
    for (typed, advice) in [
        (&["up", "hello"][..], "fndctl start F"),
        (&["down", "hello"], "fndctl disable F"),
        (&["kill", ENDED], "fndctl cancel ID"),
        (&["run", "/nonexistent"], "fndctl invoke F"),
        (&["exec", "hello", "sh"], "fndctl invoke F"),
        (&["uninstall", "hello"], "fndctl remove F"),
        (&["add", "hello.py"], "fndctl deploy FILE"),
        (&["view", "hello"], "fndctl history --id ID"),
        (&["is-active", "hello"], "fndctl status F"),
        (&["list-timers"], "fndctl schedules"),
        (&["prune"], "fndctl dead-letters drop"),
        (&["undrain"], "fndctl drain --cancel"),
        (&["watch"], "fndctl top"),
        (
            &["invoke", "hello", "{\"a\": 1}"],
            "fndctl invoke hello -d '{\"a\": 1}'",
        ),
        (
            &["invoke", "hello", "-o", "json", "Ada"],
            "fndctl invoke hello -o json -d Ada",
        ),
    ] {
        let (code, out, errors) = run(&server, typed);
        assert_eq!((code, out.as_str()), (2, ""), "{typed:?}: {errors}");
        assert!(
            errors.contains("  help: ") && errors.contains(advice) && !errors.contains("similar"),
            "{typed:?}: {errors}"
        );
    }
}

#[test]
fn an_unknown_function_names_the_nearest_one() {
    let server = Running::start();
    for (typed, near) in [
        (&["invoke", "helo"][..], "hello"),
        (&["show", "backup"], "ops/backup"),
        (&["logs", "tea-pot"], "teapot"),
        (&["disable", "helo"], "hello"),
        (&["status", "hello", "faiks"], "fails"),
    ] {
        let (code, _, errors) = run(&server, typed);
        assert_eq!(code, 3, "{typed:?}: {errors}");
        assert!(
            errors.contains(&format!("did you mean `{near}`?")),
            "{typed:?}: {errors}"
        );
    }
}

#[test]
fn several_functions_and_patterns() {
    let server = Running::start();
    for (typed, expected) in [
        (&["status", "ops/*", "hello", "-o", "name"][..], "hello\nops/backup\n"),
        (&["status", "--failed", "-o", "name"], "fails\ninvalid\n"),
        (&["status", "--failed", "f*", "-o", "name"], "fails\n"),
        (
            &["disable", "hello", "ops/*"],
            "hello: disabled\nops/backup: disabled\n",
        ),
        (&["enable", "te?t"], "text: enabled\n"),
        (
            &["history", "-n", "2", "-o", "name"],
            &format!("{ENDED}\n{FAILED}\n{RUNNING}\n"),
        ),
    ] {
        let (code, out, errors) = run(&server, typed);
        assert_eq!((code, out.as_str()), (0, expected), "{typed:?}: {errors}");
    }
    let (_, json, _) = run(&server, &["status", "hello", "ops/*", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["functions"].as_array().unwrap().len(), 2);
    assert_eq!(json["functions"][0]["function"], "hello");
    let (_, json, _) = run(&server, &["disable", "hello", "ops/*", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json[1],
        serde_json::json!({"function": "ops/backup", "state": "disabled"})
    );
    let (code, _, errors) = run(&server, &["status", "web/*"]);
    assert!(code == 3 && errors.contains("no function matches `web/*`"), "{errors}");
    let (code, _, errors) = run(&server, &["config", "-o", "name"]);
    assert!(code == 2 && errors.contains("-o name"), "{errors}");
}

#[test]
fn tables_without_their_first_line() {
    let server = Running::start();
    let with = run(&server, &["sizes"]).1;
    let without = run(&server, &["sizes", "--no-headers"]).1;
    assert_eq!(with.split_once('\n').unwrap().1, without);
}

#[test]
fn jq_without_jq() {
    let server = Running::start();
    for (typed, expected) in [
        (
            &[
                "list",
                "--jq",
                ".functions[] | select(.function | startswith(\"ops\")).function",
            ][..],
            "ops/backup\n",
        ),
        (&["status", "hello", "--jq", "[.function, .runs]"], "[\"hello\",0]\n"),
        (&["result", ENDED, "--jq", ".hello"], "Ada\n"),
        (
            &[
                "invoke",
                "hello",
                "-d",
                "{\"name\": \"Ada\"}",
                "--jq",
                ".name",
                "--json",
            ],
            "Ada\n",
        ),
        (&["version", "--jq", ".fndctl | length > 0"], "true\n"),
        (&["explain", "oom", "--jq", ".meanings | length"], "1\n"),
        (&["explain", "--jq", ".[0].kind"], "reasons\n"),
        // A result that is no JSON is a text of JSON.
        (&["invoke", "text", "-o", "json"], "\"héllo\\u001b[2J\"\n"),
    ] {
        let (code, out, errors) = run(&server, typed);
        assert_eq!((code, out.as_str()), (0, expected), "{typed:?}: {errors}");
    }
    for (typed, words) in [
        (
            &["list", "--jq", ".functions["][..],
            "wrong at 1:12: expected closing bracket",
        ),
        (&["list", "--jq", ".functions.x"], "does not fit this document"),
        (&["list", "--jq", ".", "-o", "yaml"], "no other `-o` than `json`"),
        (
            &["completion", "bash", "--jq", "."],
            "which `completion` does not print",
        ),
        (&["invoke", "text", "--jq", "."], "needs JSON"),
    ] {
        let (code, out, errors) = run(&server, typed);
        assert_eq!((code, out.as_str()), (2, ""), "{typed:?}: {errors}");
        assert!(errors.contains(words), "{typed:?}: {errors}");
    }
    // A wrong expression runs nothing.
    let _ = server.run_request();
    assert_eq!(run(&server, &["invoke", "hello", "--jq", "("]).0, 2);
    assert!(server.run_request().is_none());
}

#[test]
fn quiet_prints_names_ids_and_results_only() {
    let server = Running::start();
    for (typed, expected) in [
        (&["list", "ops/*", "-q"][..], "ops/backup\n"),
        (
            &["history", "-n", "1", "-q"],
            &format!("{ENDED}\n{FAILED}\n{RUNNING}\n"),
        ),
        (&["invoke", "hello", "--async", "-q"], &format!("{ENDED}\n")),
        (&["enable", "hello", "-q"], ""),
        (&["cancel", RUNNING, "-q"], ""),
        (&["dead-letters", "drop", FAILED, "-q"], ""),
        (&["result", ENDED, "-q"], "{\"hello\": \"Ada\"}"),
    ] {
        let (code, out, errors) = run(&server, typed);
        assert_eq!((code, out.as_str()), (0, expected), "{typed:?}: {errors}");
    }
    let (_, json, _) = run(&server, &["list", "-q", "-o", "json"]);
    assert!(json.starts_with('{'), "{json}");
}

#[test]
fn functions_and_runs_are_selected_and_sorted() {
    let server = Running::start();
    let names = |typed: &[&str]| {
        let (code, out, errors) = run(&server, &[typed, &["-o", "name"]].concat());
        assert_eq!(code, 0, "{typed:?}: {errors}");
        out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&["list", "te?t", "ops/*"]), ["ops/backup", "text"]);
    assert_eq!(names(&["status", "-l", "team=web"]), names(&["list", "-l", "team=web"]));
    let failing = names(&["status", "--sort", "failed"]);
    assert_eq!(failing.first().map(String::as_str), Some("fails"), "{failing:?}");
    for key in ["name", "last", "runs", "memory", "cpu", "p50", "p99", "state"] {
        let mut sorted = names(&["list", "--sort", key]);
        sorted.sort();
        assert_eq!(sorted, names(&["list", "--sort", "name"]), "{key}");
    }
    let (_, json, _) = run(&server, &["list", "--sort", "failed", "--jq", ".functions[0].function"]);
    assert_eq!(json, "fails\n");
    for key in ["name", "accepted", "duration", "attempts", "state"] {
        assert_eq!(names(&["history", "--sort", key]).len(), names(&["history"]).len());
    }
    for (typed, words) in [
        (&["list", "--sort", "memry"][..], "a similar value exists: 'memory'"),
        (
            &["status", "--sort", "size"],
            "[possible values: name, last, runs, failed, memory",
        ),
        (&["history", "--sort", "runs"], "[possible values: name, accepted"),
        (&["status", "-l", "team"], "expected KEY=VALUE"),
        (&["list", "hello", "--watch", "-o", "json"], "of one function or of all"),
    ] {
        let (code, _, errors) = run(&server, typed);
        assert!(code == 2 && errors.contains(words), "{typed:?}: {errors}");
    }
    assert_eq!(run(&server, &["list", "nobody"]).0, 3);
}

#[test]
fn dead_letters_by_short_ids_and_the_newest() {
    let server = Running::start();
    for verb in ["show", "redrive", "drop"] {
        let whole = run(&server, &["dead-letters", verb, FAILED]);
        assert_eq!(whole.0, 0, "{verb}: {}", whole.2);
        for typed in [&["fa11"][..], &["0000FA11"], &["--last"], &["--last", "fails"]] {
            assert_eq!(
                run(&server, &[&["dead-letters", verb], typed].concat()),
                whole,
                "{verb} {typed:?}"
            );
        }
        let (code, _, errors) = run(&server, &["dead-letters", verb, "beef"]);
        assert!(
            code == 3 && errors.contains("none of the dead letters"),
            "{verb}: {errors}"
        );
    }
    let (code, _, errors) = run(&server, &["dead-letters", "redrive", "--last", "--all"]);
    assert!(code == 2 && errors.contains("cannot be used with"), "{errors}");
    let (code, out, _) = run(&server, &["dead-letters", "redrive", "--last", "-q"]);
    assert_eq!((code, out.trim()), (0, RUNNING));
}
