//! What `fndctl` prints on a terminal. `script` of util-linux, which is essential in Debian, provides one.

use crate::fake::{ENDED, Running};
use std::process::{Command, Stdio};

/// Returns what a command line shows on a terminal of 60 columns in a zone nine hours ahead of UTC.
fn shown(server: &Running, line: &str) -> String {
    let line = format!("stty cols 60; {} {line}", env!("CARGO_BIN_EXE_fndctl"));
    let mut command = Command::new("/usr/bin/script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
    command.env_clear().env("PATH", "/usr/bin:/bin").env("SHELL", "/bin/sh");
    command
        .env("FND_SOCKET", &server.socket)
        .env("TZ", "JST-9")
        .env("TERM", "dumb");
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
}

#[test]
fn times_are_local_and_long_lines_wrap() {
    let server = Running::start();
    assert!(shown(&server, "logs hello").starts_with("2026-11-21 17:00:00.123 | first\n"));
    assert!(shown(&server, "events").starts_with("2026-11-21 17:00:00.123 loaded"));
    let json = shown(&server, "logs hello -o json");
    assert!(json.contains("2026-11-21T08:00:00.123Z"), "{json}");
    let of_one = shown(&server, &format!("history --id {ENDED}"));
    assert!(
        of_one.contains("duration      113ms\n") && !of_one.contains('Z'),
        "{of_one}"
    );
    let doctor = shown(&server, "doctor");
    let fix = doctor.lines().find(|line| line.contains("  fix: ")).unwrap();
    assert!(fix.chars().count() <= 60, "{doctor}");
    let further = format!("\n{:23}", "");
    assert!(doctor.contains(&further), "{doctor}");
}
