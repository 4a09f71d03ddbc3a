//! Runs `fndctl` on a terminal of 80 columns.

use fnd_tests::Fnd;
use fnd_tests::programs::program;
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};

/// Returns what `fndctl` prints on a terminal, standard error included.
pub(super) fn text(fnd: &Fnd, words: &[String], no_color: bool) -> String {
    let size = Winsize {
        ws_row: 500,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = openpty(Some(&size), None).unwrap();
    let mut command = Command::new(program("fndctl"));
    command
        .args(words)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("TERM", "xterm-256color")
        .env("TZ", "UTC")
        .env("FND_SOCKET", fnd.socket());
    if no_color {
        command.env("NO_COLOR", "1");
    }
    command
        .stdin(Stdio::null())
        .stdout(pty.slave.try_clone().unwrap())
        .stderr(pty.slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut read = Vec::new();
    // A read ends with EIO, pty(7), when no process has the terminal any more.
    let _ = File::from(pty.master).read_to_end(&mut read);
    child.wait().unwrap();
    String::from_utf8_lossy(&read).replace("\r\n", "\n")
}

/// Removes the sequences that set colours (ECMA-48: SGR).
pub(super) fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        all + part.split_once('m').map_or(part, |(_, rest)| rest)
    })
}
