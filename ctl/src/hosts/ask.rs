//! Runs fndctl on a host over ssh, and reads what it prints.

use crate::common::ssh;
use crate::exit::{CommandFailure, Exit};
use std::io;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

/// Options of ssh: nobody is there to type a password, a host that is down is found out soon, and only errors are printed.
const OPTIONS: [&str; 6] = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "LogLevel=ERROR"];

/// Longest wait for the whole answer of a host.
const LIMIT: Duration = Duration::from_secs(60);

/// Bytes that the answers of all hosts may have together, so that they do not fill the memory of this machine; but one host may always
/// have as many as the status of twenty thousand functions. A text of errors has a limit of its own.
const ANSWERS_MAX: usize = 256 << 20;
const ANSWER_LEAST: usize = 16 << 20;
const ERRORS_MAX: usize = 64 << 10;

/// Longest message of another program, characters.
const MESSAGE_MAX: usize = 1000;

/// Exit codes of fndctl that have a meaning.
const EXITS: [Exit; 7] = [
    Exit::Usage,
    Exit::NoSuchThing,
    Exit::NotReachable,
    Exit::NotAllowed,
    Exit::Timeout,
    Exit::Busy,
    Exit::InvalidManifest,
];

/// Returns how large the answer of each of so many hosts may be.
pub(super) fn answer_max(hosts: usize) -> usize {
    (ANSWERS_MAX / hosts.max(1)).max(ANSWER_LEAST)
}

/// Returns the answer of a host to the words of a command, if it has less than `most` bytes.
///
/// # Errors
/// The host does not answer, or the command fails there.
pub(super) async fn ask(host: &str, words: &[String], most: usize) -> Result<Vec<u8>, CommandFailure> {
    let answer = timeout(LIMIT, answer(host, words, most)).await;
    answer.unwrap_or_else(|_| {
        let message = format!("does not answer: no whole answer within {} seconds", LIMIT.as_secs());
        Err(CommandFailure::new(Exit::NotReachable, message))
    })
}

async fn answer(host: &str, words: &[String], most: usize) -> Result<Vec<u8>, CommandFailure> {
    let failed = |error: io::Error| {
        CommandFailure::failed(format!("failed to run `ssh`: {error}")).help("apt install openssh-client")
    };
    let mut command = Command::new("ssh");
    command.args(ssh::arguments(&OPTIONS, host, words));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
    // Both at once: ssh would wait for room in the pipe that nobody reads.
    let (out, errors) = tokio::join!(read(child.stdout.take(), most), read(child.stderr.take(), ERRORS_MAX));
    let (out, errors) = (out.map_err(failed)?, errors.map_err(failed)?);
    if out.len() >= most {
        let message = format!("its answer is larger than {} MiB", most >> 20);
        return Err(CommandFailure::failed(message));
    }
    let status = child.wait().await.map_err(failed)?;
    if status.success() {
        return Ok(without_greeting(out));
    }
    Err(failure(status.code(), &String::from_utf8_lossy(&errors)))
}

/// Reads a pipe to its end, or to the limit; then it is closed.
async fn read(pipe: Option<impl AsyncRead + Unpin>, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(most as u64).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Returns an answer without the lines that a login script of the host has printed before the document.
fn without_greeting(mut out: Vec<u8>) -> Vec<u8> {
    let lines = out.split_inclusive(|byte| *byte == b'\n');
    let greeting: usize = lines.take_while(|line| !line.starts_with(b"{")).map(<[u8]>::len).sum();
    // Without a document, the whole text is what cannot be read.
    if greeting < out.len() {
        out.drain(..greeting);
    }
    out
}

/// Returns why there is no answer, from the exit code of ssh and from what was printed on standard error.
fn failure(code: Option<i32>, errors: &str) -> CommandFailure {
    let why = why(code, errors);
    match code {
        // ssh's own failure has this code. Every other one is that of the command on the host (ssh(1)).
        Some(255) => CommandFailure::new(Exit::NotReachable, format!("does not answer: {why}")),
        // A shell ends with this code if it finds no such program.
        Some(127) => CommandFailure::failed(format!("has no fndctl that its shell finds: {why}")),
        _ => {
            let exit = EXITS.into_iter().find(|exit| Some(*exit as i32) == code);
            let failure = CommandFailure::new(exit.unwrap_or(Exit::FunctionFailed), why);
            let help = errors.lines().find_map(|line| line.trim().strip_prefix("help: "));
            CommandFailure {
                help: help.map(cut),
                ..failure
            }
        }
    }
}

/// Returns the message of fndctl, or the last line of another program.
fn why(code: Option<i32>, errors: &str) -> String {
    let mut lines = errors.lines().map(str::trim).filter(|line| !line.is_empty());
    let own = lines.clone().find_map(|line| line.strip_prefix("error: "));
    match (own.or(lines.next_back()), code) {
        (Some(line), _) => cut(line),
        (None, Some(code)) => format!("ended with exit code {code} and printed no reason"),
        (None, None) => "ssh was killed".to_owned(),
    }
}

fn cut(line: &str) -> String {
    line.chars().take(MESSAGE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_before_the_document_is_no_part_of_it() {
        for (printed, expected) in [
            ("{\"functions\": []}\n", "{\"functions\": []}\n"),
            ("Welcome to {vm1}\n\n{\"a\":\n{}}\n", "{\"a\":\n{}}\n"),
            ("Welcome\n", "Welcome\n"),
            ("", ""),
        ] {
            assert_eq!(without_greeting(printed.into()), expected.as_bytes(), "{printed}");
        }
    }

    #[test]
    fn many_hosts_share_the_memory_for_answers() {
        assert_eq!(answer_max(1), ANSWERS_MAX);
        assert_eq!(answer_max(4), ANSWERS_MAX / 4);
        assert_eq!(answer_max(1000), ANSWER_LEAST);
    }

    #[test]
    fn the_advice_of_the_other_machine_stays() {
        let failure = failure(Some(3), "error: no function `x`\n  help: did you mean `y`?\n");
        assert_eq!(failure.help.as_deref(), Some("did you mean `y`?"));
    }

    #[test]
    fn a_host_without_an_answer_says_why() {
        for (code, errors, exit, message) in [
            (
                Some(255),
                "banner\nssh: connect to host vm1 port 22: Connection refused\r\n",
                4,
                "does not answer: ssh: connect to host vm1 port 22: Connection refused",
            ),
            (
                Some(127),
                "bash: line 1: fndctl: command not found\n",
                1,
                "has no fndctl that its shell finds: bash: line 1: fndctl: command not found",
            ),
            (
                Some(3),
                "error: there is no function `x`\n  help: did you mean `y`?\n",
                3,
                "there is no function `x`",
            ),
            (Some(5), "error: not allowed\n", 5, "not allowed"),
            (Some(4), "", 4, "ended with exit code 4 and printed no reason"),
            (Some(77), "odd\n", 1, "odd"),
            (None, "", 1, "ssh was killed"),
        ] {
            let failure = failure(code, errors);
            assert_eq!((failure.exit as u8, failure.message.as_str()), (exit, message));
        }
    }
}
