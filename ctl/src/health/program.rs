//! Runs a program and returns what it prints.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Longest time for a program that only reports something about itself. It takes milliseconds, but many seconds on a
/// machine so busy that a person runs `doctor` on it.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns what a program prints on standard output; it gets no variable but PATH.
///
/// # Errors
/// The program cannot be started, takes too long, or fails; for people.
pub(crate) async fn output(program: &str, arguments: &[impl AsRef<OsStr>]) -> Result<String, String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        // After the limit of time the command is dropped, and the program must not live on.
        .kill_on_drop(true);
    let ended = tokio::time::timeout(LIMIT, command.output()).await;
    let output = ended
        .map_err(|_| format!("it did not answer within {} s", LIMIT.as_secs()))?
        .map_err(|error| format!("it cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.lines().last().unwrap_or_default();
    Err(format!("it failed ({}): {message}", output.status))
}

/// Returns the version in what an interpreter prints: `Python 3.11.2`, `v20.20.2`, `GNU bash, version 5.2.15(1)-release`.
pub(crate) fn number(printed: &str) -> Option<String> {
    // Only the first line counts: deno prints the version of v8 below its own.
    let words = printed.lines().next()?.split_whitespace();
    let mut numbers = words.map(|word| word.strip_prefix('v').unwrap_or(word));
    let word = numbers.find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))?;
    let end = word
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(word.len());
    word.get(..end).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn output_and_failures_of_a_program() {
        let output = super::output("/bin/sh", &["-c", "echo hello; exit $1", "sh", "0"]).await;
        assert_eq!(output.as_deref(), Ok("hello\n"));
        let failed = super::output("/bin/sh", &["-c", "echo why >&2; exit 3"])
            .await
            .unwrap_err();
        assert!(failed.contains("why") && failed.contains('3'), "{failed}");
        let absent = super::output("/nonexistent", &[""; 0]).await.unwrap_err();
        assert!(absent.contains("cannot be started"), "{absent}");
    }

    #[test]
    fn the_version_is_found_in_what_interpreters_print() {
        for (printed, expected) in [
            ("Python 3.11.2\n", Some("3.11.2")),
            ("v20.20.2\n", Some("20.20.2")),
            (
                "GNU bash, version 5.2.15(1)-release (x86_64-pc-linux-gnu)\nmore\n",
                Some("5.2.15"),
            ),
            (
                "deno 2.5.0 (stable, release, x86_64-unknown-linux-gnu)\nv8 14.0\n",
                Some("2.5.0"),
            ),
            ("no number\n", None),
            ("", None),
        ] {
            assert_eq!(super::number(printed).as_deref(), expected, "{printed}");
        }
    }
}
