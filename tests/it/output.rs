//! Output is kept for each attempt, limited with an exact count, and harmless where it is shown.

use fnd_tests::Fnd;
use fnd_tests::wait::{PATIENCE, wait_until};

/// Each of these has a function of its own.
#[test]
fn output_and_results() {
    let fnd = Fnd::start();
    both_streams_are_kept_apart(&fnd);
    too_much_output_is_cut_and_counted(&fnd);
    a_result_that_is_too_large_is_refused(&fnd);
    control_characters_are_escaped_where_people_see_them(&fnd);
    following_ends_with_the_invocation(&fnd);
    the_output_of_a_deleted_function_is_shown(&fnd);
    a_flood_of_output_is_survived(&fnd);
    fnd.finish();
}

fn both_streams_are_kept_apart(fnd: &Fnd) {
    fnd.install_beside("both.sh", "", "echo out\necho err >&2\nprintf unfinished\n");
    let (_, view) = fnd.run("both", "");
    let lines = fnd.logs(view.id);
    let of = |stream: &str| {
        lines
            .iter()
            .filter(|l| l.stream.as_str() == stream)
            .map(|l| l.text.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("stdout"), ["out", "unfinished"]);
    assert_eq!(of("stderr"), ["err"]);
    assert!(lines.iter().all(|line| line.attempt == 1 && line.time.ends_with('Z')));
    let attempt = &view.attempt_records[0];
    assert_eq!(
        (attempt.stdout_bytes, attempt.stderr_bytes, attempt.dropped_bytes),
        (14, 4, 0)
    );
}

/// Head and tail are kept, and the dropped bytes between them are counted exactly.
fn too_much_output_is_cut_and_counted(fnd: &Fnd) {
    fnd.install_beside(
        "chatty.sh",
        "[limits]\noutput = \"64K\"\n",
        "echo first >&2\nyes 123456789 | head -c 5000000 >&2\necho last >&2\n",
    );
    let (_, view) = fnd.run("chatty", "");
    let attempt = &view.attempt_records[0];
    let written = 6 + 5_000_000 + 5;
    assert_eq!(attempt.stderr_bytes, written);
    let kept = written - attempt.dropped_bytes;
    assert!((32 << 10..=64 << 10).contains(&kept), "{kept} bytes kept");
    let lines = fnd.logs(view.id);
    assert_eq!(
        lines.iter().find(|line| line.stream.as_str() == "stderr").unwrap().text,
        "first"
    );
    assert!(lines.iter().any(|line| line.text == "last"));
    let note = lines
        .iter()
        .find(|line| line.stream.as_str() == "fnd")
        .expect("a note says what is missing");
    assert!(note.text.contains(&attempt.dropped_bytes.to_string()), "{note:?}");
}

/// A result that is too large is an error; it is not cut.
fn a_result_that_is_too_large_is_refused(fnd: &Fnd) {
    fnd.install_beside(
        "fat.sh",
        "[limits]\nresult = \"1K\"\n",
        "head -c 5000 /dev/zero >\"$FND_RESULT\"\n",
    );
    let (answer, view) = fnd.run("fat", "");
    assert!(answer.status.is_server_error());
    assert_eq!(view.reason.unwrap().to_string(), "result-too-large");
}

/// A function cannot control a terminal or a log with its output.
fn control_characters_are_escaped_where_people_see_them(fnd: &Fnd) {
    fnd.install_beside(
        "hostile.sh",
        "",
        "printf '\\033]0;owned\\007\\033[2Jtext\\n' >&2\nexit 3\n",
    );
    let (_, view) = fnd.run("hostile", "");
    assert!(!view.message.contains('\u{1b}'), "{:?}", view.message);
    for verb in ["logs hostile", "status hostile", "history hostile", "status"] {
        let shown = on_a_terminal(fnd, verb);
        assert!(
            !shown.contains("\u{1b}]0;") && !shown.contains("\u{1b}[2J") && !shown.contains('\u{7}'),
            "{verb}: {shown:?}"
        );
    }
    assert!(on_a_terminal(fnd, "logs hostile").contains("text"));
    // The other end of a pipe often prints to a terminal, too.
    for verb in [&["logs", "hostile"][..], &["invoke", "hostile", "--follow"]] {
        let run = fnd.ctl(verb);
        let shown = format!("{}{}", run.out(), run.stderr);
        assert!(
            !shown.contains('\u{1b}') && shown.contains("\\u{1b}[2Jtext"),
            "{verb:?}: {shown}"
        );
    }
    // With `-o raw` the bytes are unchanged.
    let raw = fnd.ctl(&["logs", "hostile", "-n", "1", "-o", "raw"]);
    assert_eq!(raw.out(), "\u{1b}]0;owned\u{7}\u{1b}[2Jtext\n");
}

/// A gigabyte of output costs neither memory nor disk, and the run ends as it should.
fn a_flood_of_output_is_survived(fnd: &Fnd) {
    fnd.install_beside(
        "flood.sh",
        "[limits]\ntimeout = \"60s\"\n",
        "head -c 300000000 /dev/zero\necho done >\"$FND_RESULT\"\n",
    );
    let (answer, view) = fnd.run("flood", "");
    assert_eq!(answer.text().trim(), "done");
    assert_eq!(view.attempt_records[0].stdout_bytes, 300_000_000);
    assert!(fnd.status().memory_bytes < 200 << 20);
}

fn following_ends_with_the_invocation(fnd: &Fnd) {
    fnd.install_beside(
        "ticks.sh",
        "",
        "for n in 1 2 3; do echo \"tick $n\"; sleep 0.05; done\n",
    );
    let id = fnd.queue("ticks", "").to_string();
    let run = fnd.ctl(&["logs", "--id", &id, "-f"]).expect_code(0);
    for n in 1..=3 {
        assert!(run.out().contains(&format!("tick {n}")), "{run}");
    }
}

/// Runs `fndctl` with a terminal of its own, which script(1) gives it.
fn on_a_terminal(fnd: &Fnd, verb: &str) -> String {
    let command = format!("{} {verb}", fnd_tests::programs::program("fndctl").display());
    let output = std::process::Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("FND_SOCKET", fnd.socket())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The history lists the runs of a deleted function, so their output is shown, too.
fn the_output_of_a_deleted_function_is_shown(fnd: &Fnd) {
    fnd.drop_file("gone.sh", "# /// fnd\n# on_load = false\n# ///\necho it was here\n");
    fnd.wait_ready("gone");
    let _ = fnd.run("gone", "");
    fnd.remove("gone.sh");
    wait_until("the function to be gone", PATIENCE, || {
        fnd.function("gone").is_none().then_some(())
    });
    let logs = fnd.ctl(&["logs", "gone"]).expect_code(0);
    assert!(logs.out().contains("it was here"), "{logs}");
    let _ = fnd.ctl(&["logs", "never"]).expect_code(3);
}
