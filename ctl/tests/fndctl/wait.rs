//! `fndctl wait`: how runs ended, and its exit code; `fndctl top` without a terminal.

use crate::run;
use crate::server::{ENDED, FAILED, RUNNING, Running, UNKNOWN};

#[test]
fn wait_prints_how_a_run_ended_and_ends_as_it_did() {
    let server = Running::start();
    for (typed, code, expected) in [
        (&[ENDED][..], 0, "89abcdef hello succeeded after 113ms\n"),
        (&["89abcdef"], 0, "89abcdef hello succeeded after 113ms\n"),
        (&["hello"], 0, "89abcdef hello succeeded after 113ms\n"),
        (
            &["fa11"],
            1,
            "0000fa11 fails failed after 113ms: exit-3: no such host\n",
        ),
        (
            &["hello", FAILED],
            1,
            "89abcdef hello succeeded after 113ms\n0000fa11 fails failed after 113ms: exit-3: no such host\n",
        ),
        (&[ENDED, "-q"], 0, ""),
        (
            &["hello", "fa11", "--jq", ".invocations[].state"],
            1,
            "succeeded\nfailed\n",
        ),
        (&["hello", "--jq", ".state"], 0, "succeeded\n"),
    ] {
        let (found, out, errors) = run(&server, &[&["wait"], typed].concat());
        assert_eq!((found, out.as_str()), (code, expected), "{typed:?}: {errors}");
        assert_eq!(errors, "");
    }
}

#[test]
fn a_wait_that_is_over_is_no_end_of_the_run() {
    let server = Running::start();
    for (typed, expected, words) in [
        (&[RUNNING, "--timeout", "10ms"][..], 6, "has not ended: it is running"),
        (&[RUNNING, ENDED, "--timeout", "0"], 6, "fndctl cancel 0000face"),
        (&[UNKNOWN], 3, "there is no invocation"),
        (&["helo"], 3, "did you mean `hello`?"),
        (&["void"], 3, "the history has no run of a function `void`"),
        (&["Hello"], 2, "Hello"),
        (&["hello", "--timeout", "soon"], 2, "soon"),
        (&[], 2, "<ID|FUNCTION>"),
    ] {
        let (code, out, errors) = run(&server, &[&["wait"], typed].concat());
        assert_eq!((code, out.as_str()), (expected, ""), "{typed:?}: {errors}");
        assert!(errors.contains(words), "{typed:?}: {errors}");
    }
}

#[test]
fn top_prints_one_reading_where_there_is_no_terminal() {
    let server = Running::start();
    let (code, out, errors) = run(&server, &["top", "-b", "--interval", "1ms"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines[0],
        [
            "FUNCTION",
            "CPU",
            "THROTTLED",
            "MEMORY",
            "LIMIT",
            "PIDS",
            "RUNNING",
            "QUEUED",
            "RUNS/S"
        ]
    );
    assert_eq!(
        lines[1],
        ["hello", "25.0%", "40.0%", "52M", "256M", "3", "1", "2", "3.0"]
    );
    assert_eq!(lines[2], ["bad-answer", "-", "-", "-", "256M", "-", "0", "0", "0.0"]);
    let once = |typed: &[&str]| run(&server, &[&["top", "--interval", "1ms"], typed].concat()).1;
    assert_eq!(
        once(&["--jq", ".functions[0] | [.function, .cpu_percent, .seconds]"]),
        "[\"hello\",25.0,null]\n"
    );
    assert!(once(&["--sort", "name", "-o", "name"]).starts_with("bad-answer\nbinary\n"));
    assert!(once(&["-q"]).starts_with("hello\n"));
    let (code, _, errors) = run(&server, &["top", "--sort", "disk"]);
    assert!(
        code == 2 && errors.contains("[possible values: cpu, memory, runs, name]"),
        "{errors}"
    );
}

#[test]
fn a_drain_can_be_cancelled_and_says_what_it_waits_for() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    let server = Running::start();
    let (code, out, errors) = run(&server, &["drain", "--cancel"]);
    assert_eq!((code, out.as_str(), errors.as_str()), (0, "running\n", ""));
    // Another client cancels the drain that this one waits for, once it has said what it waits for.
    let mut command = crate::fndctl(&server.socket);
    command
        .args(["drain", "--progress"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "draining: 0 runs have not ended (); 0 stay queued\n");
    assert_eq!(run(&server, &["drain", "--cancel", "-q"]).1, "");
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("somebody cancelled the drain"), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let (code, _, errors) = run(&server, &["undrain"]);
    assert!(code == 2 && errors.contains("`fndctl drain --cancel`"), "{errors}");
    let (code, _, errors) = run(&server, &["drain", "--cancel", "--wait", "1s"]);
    assert!(code == 2 && errors.contains("cannot be used with"), "{errors}");
}
