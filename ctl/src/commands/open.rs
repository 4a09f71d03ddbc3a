//! `fndctl open`: opens the web page of this machine, or of another one over ssh, in the browser.

use crate::common::page::{PageOptions, RunningPage, follow, start};
use crate::common::{random, ssh};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::NamedTempFile;
use tokio::process::Command;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The page runs on HOST with your rights there, as `fndctl web` does, and ends with Ctrl-C, with the connection or when nobody uses it. \
    Nothing listens on the network: ssh forwards a port of this machine to a socket of HOST. The browser is that of $BROWSER, or xdg-open's; without \
    one, open the printed address.\n\nExamples:\n  \
    fndctl open                  the page of this machine\n  \
    fndctl open vm1              that of the host vm1 of ~/.ssh/config\n  \
    fndctl open ada@192.0.2.7 --read-only"
)]
pub(crate) struct Args {
    /// The machine, as ssh knows it [default: this one].
    #[arg(value_name = "HOST", value_parser = ssh::host)]
    host: Option<String>,

    #[command(flatten)]
    page: PageOptions,
}

/// Opens the page, and waits until it ends.
///
/// # Errors
/// The page does not start, or fails.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let words = args.page.words()?;
    let (page, address) = match &args.host {
        Some(host) => remote(context, host, &words).await?,
        None => local(context, words).await?,
    };
    context.made(&json!({"address": address}), |out| out.line(&address))?;
    // The browser may read the file at any time until the page ends.
    let _file = browser().and_then(|browser| browse(context, &browser, &address));
    page.ended().await
}

async fn local(context: &Context, words: Vec<String>) -> Result<(RunningPage, String), CommandFailure> {
    let port = ["--port", "0"].map(OsString::from);
    let words: Vec<OsString> = port.into_iter().chain(words.into_iter().map(OsString::from)).collect();
    let page = start(context, words, Stdio::piped()).await?;
    let address = page.started.address.clone().unwrap_or_default();
    Ok((page, address))
}

async fn remote(context: &Context, host: &str, words: &[String]) -> Result<(RunningPage, String), CommandFailure> {
    let port = free_port()?;
    // The name cannot be guessed, so another user of that machine cannot take it first.
    let socket = format!("/tmp/fnd-web-{}.sock", random::hex()?);
    let mut command = Command::new("ssh");
    command.args(arguments(port, &socket, host, words));
    if context.user {
        command.arg("--user");
    }
    let page = follow(command, Stdio::piped()).await?;
    let address = format!("http://127.0.0.1:{port}/#token={}", page.started.token);
    Ok((page, address))
}

/// Returns the arguments of ssh: one connection forwards the port and starts the page, which ends with it. A connection that is
/// shared (`ControlMaster`) would keep the port after the page, for whoever takes its socket's name then.
fn arguments(port: u16, socket: &str, host: &str, words: &[String]) -> Vec<String> {
    let forward = format!("127.0.0.1:{port}:{socket}");
    let options = ["-S", "none", "-o", "ExitOnForwardFailure=yes", "-L", &forward];
    let page = ["fndctl", "web", "-o", "json", "--end-with-input", "--socket", socket];
    let page: Vec<String> = page
        .into_iter()
        .map(str::to_owned)
        .chain(words.iter().cloned())
        .collect();
    ssh::arguments(&options, host, &page)
}

/// Returns a port that nobody uses now. If another program takes it before ssh does, ssh ends with an error.
fn free_port() -> Result<u16, CommandFailure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let port = listener
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port());
    port.map_err(|error| CommandFailure::failed(format!("found no free port: {error}")))
}

/// Returns the command of the browser; nothing where there is none, or no screen.
fn browser() -> Option<OsString> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    // Without a screen, `xdg-open` would start a browser in this terminal.
    let screen = || set("DISPLAY").or_else(|| set("WAYLAND_DISPLAY"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let opener = || std::env::split_paths(&path).any(|directory| directory.join("xdg-open").is_file());
    set("BROWSER").or_else(|| screen().filter(|_| opener()).map(|_| "xdg-open".into()))
}

/// Starts the browser with a file that leads to the address. The address itself has the token, and every user of this machine
/// can read the arguments of a process. Without a browser the page goes on: its address was printed.
fn browse(context: &Context, browser: &OsStr, address: &str) -> Option<NamedTempFile> {
    let directory = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let started = leading_to(&directory, address).and_then(|file| shown(browser, file));
    if let Err(error) = &started {
        context.out.aside(&format!(
            "failed to start the browser: {error}; open the address yourself"
        ));
    }
    started.ok()
}

fn shown(browser: &OsStr, file: NamedTempFile) -> std::io::Result<NamedTempFile> {
    let mut script = browser.to_owned();
    script.push(" \"$1\"");
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(script).arg("sh").arg(file.path());
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.spawn()?;
    Ok(file)
}

/// Writes a file that only its owner may read.
fn leading_to(directory: &Path, address: &str) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix("fnd-")
        .suffix(".html")
        .tempfile_in(directory)?;
    writeln!(
        file,
        "<!doctype html><meta charset=utf-8><title>fnd</title><meta http-equiv=refresh content=\"0;url={address}\">\
         <a href=\"{address}\">The page of fnd</a>"
    )?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn one_connection_forwards_the_port_and_starts_the_page() {
        let words = ["--idle".to_owned(), "15m".to_owned()];
        assert_eq!(
            arguments(4711, "/tmp/fnd-web-7f.sock", "ada@vm1", &words).join(" "),
            "-T -S none -o ExitOnForwardFailure=yes -L 127.0.0.1:4711:/tmp/fnd-web-7f.sock -- ada@vm1 \
             fndctl web -o json --end-with-input --socket /tmp/fnd-web-7f.sock --idle 15m"
        );
    }

    #[test]
    fn only_the_owner_reads_the_file_with_the_token() {
        let directory = tempfile::tempdir().unwrap();
        let file = leading_to(directory.path(), "http://127.0.0.1:1/#token=7f").unwrap();
        assert_eq!(file.as_file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(text.contains("url=http://127.0.0.1:1/#token=7f\""), "{text}");
        assert!(leading_to(Path::new("/nonexistent"), "http://127.0.0.1:1/").is_err());
    }
}
