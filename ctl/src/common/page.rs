//! The program of the web page, `fnd-web`: `fndctl web` starts it here, `fndctl open` here or on another machine.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::local;
use crate::text::span;
use futures_util::{FutureExt as _, StreamExt as _};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};

/// Options that `web` and `open` share.
#[derive(Debug, clap::Args)]
pub(crate) struct PageOptions {
    /// Offer no action, and refuse those that are tried.
    #[arg(long)]
    read_only: bool,

    /// End when nobody has used the page for this time.
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    idle: String,
}

impl PageOptions {
    /// Returns the words for another program.
    ///
    /// # Errors
    /// The time is none.
    pub(crate) fn words(&self) -> Result<Vec<String>, CommandFailure> {
        if span("--idle", &self.idle)?.is_zero() {
            return Err(CommandFailure::usage("`--idle 0`: the page would end at once"));
        }
        let mut words = vec!["--idle".to_owned(), self.idle.clone()];
        words.extend(self.read_only.then(|| "--read-only".to_owned()));
        Ok(words)
    }
}

/// The place of a page that has started, and the token that lets a browser in, once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartedPage {
    /// The address with the token, of a page that listens at a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// The path of the socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) socket: Option<String>,
    pub(crate) token: String,
    /// The command that brings the socket to a port of another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ssh: Option<String>,
}

impl StartedPage {
    /// Reads the line of a page. Another machine may have written it, and the token becomes a part of an address and of a
    /// document of this one, so it has letters and digits only.
    fn parse(line: &str) -> Option<Self> {
        let page: Self = serde_json::from_str(line).ok()?;
        let is_token = !page.token.is_empty() && page.token.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_token.then_some(page)
    }
}

/// A page that runs; it ends when this is dropped.
pub(crate) struct RunningPage {
    pub(crate) started: StartedPage,
    child: Child,
    /// The page ends together with its input, so also when fndctl is killed.
    input: Option<ChildStdin>,
    signals: Signals,
}

/// Starts the page of this machine.
///
/// # Errors
/// There is no program, or the page does not start.
pub(crate) async fn start(
    context: &Context,
    words: Vec<OsString>,
    input: Stdio,
) -> Result<RunningPage, CommandFailure> {
    let mut command = Command::new(program()?);
    command.arg("--control").arg(context.client.path());
    if context.user {
        command.arg("--user");
    }
    command.arg("--end-with-input").args(words);
    follow(command, input).await
}

/// Starts a command that prints the place of its page, and waits for that.
///
/// # Errors
/// It cannot be started, or it ends before.
pub(crate) async fn follow(mut command: Command, input: Stdio) -> Result<RunningPage, CommandFailure> {
    // Before the page starts: a signal that comes earlier than `ended` waits for it.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
    let signals = signals.map_err(|error| CommandFailure::usage(format!("failed to watch for signals: {error}")))?;
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let child = command.stdin(input).stdout(Stdio::piped()).kill_on_drop(true).spawn();
    let failed =
        |error: std::io::Error| CommandFailure::failed(format!("failed to start the page with `{name}`: {error}"));
    let mut child = child.map_err(failed)?;
    let input = child.stdin.take();
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line).await.map_err(failed)?;
    }
    match StartedPage::parse(&line) {
        Some(started) => Ok(RunningPage {
            started,
            child,
            input,
            signals,
        }),
        // The program has said why.
        None if line.is_empty() => Err(CommandFailure::failed("")),
        None => Err(
            CommandFailure::failed(format!("`{name}` is no page of fnd: it printed `{}`", line.trim()))
                .help("fndctl and fnd-web may be of different versions: `fndctl version` shows that of fndctl"),
        ),
    }
}

impl RunningPage {
    /// Waits until the page has ended: by Ctrl-C, or because nobody used it.
    ///
    /// # Errors
    /// It failed.
    pub(crate) async fn ended(mut self) -> Result<Exit, CommandFailure> {
        let (status, is_stopped) = tokio::select! {
            // Cancel-safe: the end of a child can be waited for again.
            // At a terminal Ctrl-C may have ended the page before its signal was taken here.
            status = self.child.wait() => (status, self.signals.next().now_or_never().is_some()),
            // Cancel-safe: a signal is taken or stays pending in the stream's pipe.
            _ = self.signals.next() => {
                self.stop();
                (self.child.wait().await, true)
            }
        };
        match status {
            // ssh calls its own end by a signal a failure.
            Ok(status) if status.success() || is_stopped => Ok(Exit::Fine),
            Ok(status) => Err(CommandFailure::failed(format!("the page ended with {status}"))),
            Err(error) => Err(CommandFailure::failed(format!("failed to wait for the page: {error}"))),
        }
    }

    /// Lets the page end. Ctrl-C at a terminal has reached it already.
    fn stop(&mut self) {
        if self.input.take().is_some() {
            return;
        }
        // The input is that of fndctl, whose end only its other side decides.
        let pid = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // A child that has not been waited for keeps its pid.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// Returns the program that belongs to this `fndctl`: the one beside it, or the installed one.
fn program() -> Result<PathBuf, CommandFailure> {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name("fnd-web"));
    let places: Vec<PathBuf> = beside.into_iter().chain(["/usr/libexec/fnd/fnd-web".into()]).collect();
    let help = "install the package fnd, or run `cargo build` in a checkout";
    local::program("fnd-web", &places, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked_before_anything_starts() {
        let words = |idle: &str, read_only| {
            let idle = idle.to_owned();
            PageOptions { read_only, idle }.words().ok()
        };
        assert_eq!(words("15m", false).unwrap(), ["--idle", "15m"]);
        assert_eq!(words("1h", true).unwrap(), ["--idle", "1h", "--read-only"]);
        assert_eq!(words("0", false), None);
        assert_eq!(words("15m; rm", false), None);
    }

    #[test]
    fn another_machine_gives_a_token_and_no_markup() {
        let token = |line: &str| StartedPage::parse(line).map(|page| page.token);
        assert_eq!(token(r#"{"socket": "/a", "token": "7f"}"#).as_deref(), Some("7f"));
        for hostile in [
            r#"{"token": "7f\"><script>"}"#,
            r#"{"token": "7f\u001b[2J"}"#,
            r#"{"token": ""}"#,
            r#"{"socket": "/a"}"#,
            "Welcome",
            "",
        ] {
            assert_eq!(token(hostile), None, "{hostile}");
        }
    }
}
