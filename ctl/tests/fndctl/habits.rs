//! Command lines of people who are used to other tools: aliases, advice, patterns, short forms.

use crate::fake::{ENDED, FAILED, RUNNING, Running};
use crate::run;

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
    ] {
        let expected = run(&server, verb);
        assert_eq!((expected.0, run(&server, alias)), (0, expected), "{alias:?}");
    }
    for (typed, advice) in [
        (&["restart", "hello"][..], "fndctl cancel --all F"),
        (&["stop", "hello"], "fndctl disable F"),
        (&["kill", ENDED], "fndctl cancel ID"),
        (&["start", "hello"], "fndctl enable F"),
        (&["run", "/nonexistent"], "fndctl invoke F"),
        (&["exec", "hello", "sh"], "fndctl invoke F"),
        (&["rm", "hello"], "delete the file"),
        (&["delete", "hello"], "delete the file"),
        (&["add", "hello.py"], "save a file"),
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
