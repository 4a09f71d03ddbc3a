//! The pager: shows text that is longer than the terminal.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// `-F`: end if all fits; `-R`: colours; `-X`: leave the text on the terminal.
const DEFAULT: &str = "less -FRX";

/// Exit codes of a shell that cannot run a command (POSIX, `sh`, "Exit Status for Commands").
const CANNOT_RUN: [i32; 2] = [126, 127];

/// Shows a text with `$FND_PAGER`, else `$PAGER`, else less. An empty variable and `cat` want no pager.
///
/// Returns whether the text was shown. It was not if there is no pager; a shell then names the one of the environment.
pub(super) fn show(text: &[u8]) -> bool {
    let named = ["FND_PAGER", "PAGER"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok());
    let command = named.as_deref().unwrap_or(DEFAULT).trim();
    if command.is_empty() || command == "cat" {
        return false;
    }
    // If the environment names no pager, a missing `less` is nobody's mistake.
    let errors = if named.is_some() {
        Stdio::inherit()
    } else {
        Stdio::null()
    };
    // A shell reads the command, since it may have options and quoted words.
    let mut shell = Command::new("/bin/sh");
    let spawned = shell.args(["-c", command]).stdin(Stdio::piped()).stderr(errors).spawn();
    let Ok(mut child) = spawned else { return false };
    // Ctrl-C is for the pager: without this, fndctl would end while less still uses the terminal. An error is ignored:
    // then Ctrl-C ends fndctl, and less stays.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)));
    if let Some(mut to) = child.stdin.take() {
        // An error is ignored: a pager that was closed before the end of the text has shown enough.
        let _ = to.write_all(text);
    }
    let code = child.wait().ok().and_then(|status| status.code());
    // Without a code a signal has ended the pager: it had run, and had shown the text.
    code.is_none_or(|code| !CANNOT_RUN.contains(&code))
}
