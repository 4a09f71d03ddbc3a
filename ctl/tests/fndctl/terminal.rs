//! What `fndctl` prints on a terminal. `script` of util-linux, which is essential in Debian, provides one.

use crate::server::{ENDED, Running};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Returns a command that runs a command line of a shell on a terminal, with fndctl talking to the server.
fn on_terminal(server: &Running, line: &str) -> Command {
    let mut command = Command::new("/usr/bin/script");
    command.args(["-qec", line, "/dev/null"]);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("SHELL", "/bin/sh");
    command.env("FND_SOCKET", &server.socket);
    command
}

/// Returns what a command line shows on a terminal of 60 columns in a zone nine hours ahead of UTC.
fn shown(server: &Running, line: &str) -> String {
    let line = format!("stty cols 60; {} {line}", env!("CARGO_BIN_EXE_fndctl"));
    let mut command = on_terminal(server, &line);
    command.stdin(Stdio::null()).env("TZ", "JST-9").env("TERM", "dumb");
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

/// Returns what is shown on a terminal of some rows, with these variables.
fn shown_with(server: &Running, rows: u16, variables: &str, line: &str) -> String {
    let line = format!(
        "stty cols 80 rows {rows}; {variables} {} {line}",
        env!("CARGO_BIN_EXE_fndctl")
    );
    let mut command = on_terminal(server, &line);
    command.stdin(Stdio::null()).env("TERM", "vt100").env("NO_COLOR", "1");
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n")
}

#[test]
fn a_text_longer_than_the_terminal_goes_to_the_pager() {
    let server = Running::start();
    let plain = shown_with(&server, 200, "", "list");
    assert!(plain.starts_with("FUNCTION"), "{plain}");
    let numbered = |text: &str| text.contains("     1\tFUNCTION");
    // As a shell reads it: with options.
    assert!(numbered(&shown_with(
        &server,
        3,
        "FND_PAGER='cat -n' PAGER=false",
        "list"
    )));
    assert!(numbered(&shown_with(&server, 3, "PAGER='cat -n'", "list")));
    for (rows, variables, line) in [
        (200, "PAGER='cat -n'", "list"),
        (3, "PAGER='cat -n'", "list --no-pager"),
        (3, "FND_PAGER= PAGER='cat -n'", "list"),
        (3, "PAGER='cat -n'", "list | /bin/cat"),
        (3, "PAGER='cat -n'", "enable hello"),
    ] {
        let shown = shown_with(&server, rows, variables, line);
        assert!(!shown.contains("     1\t"), "{rows} {variables} {line}: {shown}");
    }
    // A pager that is missing hides nothing, and the shell names it.
    let shown = shown_with(&server, 3, "PAGER=no-such-pager", "list");
    assert!(shown.contains("no-such-pager") && shown.ends_with(&plain), "{shown}");
    // A pager that reads a part shows enough: that is no failure.
    let shown = shown_with(&server, 3, "PAGER='head -n 1'", "list && echo fine");
    assert!(shown.ends_with("fine\n") && shown.lines().count() == 2, "{shown}");
    // What was printed before a failure is shown before it.
    let shown = shown_with(&server, 3, "PAGER='cat -n'", "show nobody");
    assert!(shown.contains("error: "), "{shown}");
}

#[test]
fn top_is_live_until_q_and_leaves_the_terminal_as_it_was() {
    use std::io::{Read as _, Write as _};
    let server = Running::start();
    let line = format!(
        "stty cols 80 rows 24; {} top --interval 100ms; echo ended; stty -a | grep -o -- '-*icanon'",
        env!("CARGO_BIN_EXE_fndctl")
    );
    let mut command = on_terminal(&server, &line);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .env("TERM", "xterm");
    let mut child = command.spawn().unwrap();
    let (mut keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = String::new();
    // Each key is pressed once the screen shows what the one before did; a screen that never does ends the test by its
    // own time limit.
    for (awaited, key) in [
        ("25.0%", "\r"),
        ("25.0% of 50.0%", "?"),
        ("sort by CPU", "q"),
        ("ended", ""),
    ] {
        while !seen.contains(awaited) {
            let mut bytes = [0; 4096];
            let count = out.read(&mut bytes).unwrap();
            assert!(count > 0, "no {awaited}: {seen}");
            seen += &String::from_utf8_lossy(&bytes[..count]);
        }
        keys.write_all(key.as_bytes()).unwrap();
    }
    out.read_to_string(&mut seen).unwrap();
    child.wait().unwrap();
    let (screen, after) = seen.split_once("ended").unwrap();
    assert!(
        screen.contains("\u{1b}[?1049h") && screen.contains("\u{1b}[?1049l"),
        "{screen:?}"
    );
    assert!(screen.contains("\u{1b}[?25l") && screen.ends_with("\u{1b}[?1049l") || screen.contains("\u{1b}[?25h"));
    assert_eq!(after.trim(), "icanon", "the terminal is as before");
}

#[test]
fn each_field_of_an_input_is_asked_for() {
    let server = Running::start();
    let line = format!("{} invoke greet --ask", env!("CARGO_BIN_EXE_fndctl"));
    let mut command = on_terminal(&server, &line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).env("TERM", "dumb");
    let mut child = command.spawn().unwrap();
    // The second answer is wrong, so the field is asked for again; the field `to.city` is left out.
    let mut terminal = child.stdin.take().unwrap();
    terminal.write_all(b"Ada\nx\n3\n\n2\n").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(terminal);
    let shown = String::from_utf8_lossy(&output.stdout);
    for part in [
        "Whom to greet",
        "name (string, required): ",
        "n (integer) [1]: ",
        "`n`: `x` is not an integer",
        "  2) formal",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    let sent = server.run_request().unwrap();
    assert_eq!(sent.body, br#"{"n":3,"name":"Ada","tone":"formal"}"#);
}

#[test]
fn mcp_at_a_terminal_says_what_starts_it() {
    let server = Running::start();
    let text = shown(&server, "mcp");
    let words = ["standard input is a terminal", "claude mcp add fnd -- fndctl mcp"];
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}
