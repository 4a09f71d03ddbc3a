//! `fndctl web`: serves the web page with the rights of the caller.

use crate::common::page::{PageOptions, StartedPage, start};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use clap::{Arg, value_parser};
use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fs::{File, Metadata, remove_file, symlink_metadata};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::process::Stdio;

#[derive(Debug, clap::Args)]
#[command(
    arg = control(),
    after_help = "The page shows functions and runs, and does what you may do: fnd asks for the same roles as for fndctl. Nobody else reaches it: \
    its socket is yours, and a browser needs the token of the printed address, once. Ctrl-C ends the page.\n\nExamples:\n  \
    fndctl web                   at a socket, for a laptop: the printed ssh line brings it there\n  \
    fndctl web --port 8080       at http://127.0.0.1:8080, for a browser on this machine\n  \
    fndctl web --read-only\n  \
    fndctl open vm1              all of it from a laptop"
)]
pub(crate) struct Args {
    /// Listen at this socket [default: $XDG_RUNTIME_DIR/fnd/web.sock].
    #[arg(long = "socket", value_name = "PATH", conflicts_with = "port")]
    pub(crate) listen: Option<PathBuf>,

    /// Listen at this port of 127.0.0.1; 0 chooses a free one.
    #[arg(long, value_name = "N")]
    port: Option<u16>,

    #[command(flatten)]
    page: PageOptions,

    /// End when standard input ends, as `fndctl open` needs it.
    #[arg(long, hide = true)]
    end_with_input: bool,
}

/// Returns the option of the control socket. The socket of this verb is that of the page, so the global option `--socket`, whose
/// id is the same, has another name here: its value comes to the place of the global one.
fn control() -> Arg {
    Arg::new("socket")
        .long("control")
        .value_name("PATH")
        .env("FND_SOCKET")
        .hide_env(true)
        .value_parser(value_parser!(PathBuf))
        .conflicts_with("user")
        .help_heading("Global options")
        .help("Path of fnd's control socket; before `web` it is `--socket`, as with every verb")
        .display_order(0)
}

/// The socket of a page; removed when this is dropped. The page itself has given up all files.
struct SocketFile {
    path: PathBuf,
    /// Open, so that no other file gets the number of this one.
    file: File,
}

impl SocketFile {
    fn at(path: PathBuf) -> Option<Self> {
        // A socket can be opened as a place only (`O_PATH`).
        let flags = (OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC).bits();
        let file = File::options()
            .read(true)
            .custom_flags(flags.cast_signed())
            .open(&path)
            .ok()?;
        Some(Self { path, file })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let identity = |file: Metadata| (file.dev(), file.ino());
        let own = self.file.metadata().ok().map(identity);
        // A page that was started in the meantime has taken the place of the one that ended.
        if own.is_some() && symlink_metadata(&self.path).ok().map(identity) == own {
            // Without the file there is nothing to remove.
            let _ = remove_file(&self.path);
        }
    }
}

/// Serves the page until it ends.
///
/// # Errors
/// The page does not start, or fails.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let mut words: Vec<OsString> = args.page.words()?.into_iter().map(OsString::from).collect();
    if let Some(path) = args.listen {
        if path == context.client.path() {
            return Err(CommandFailure::usage(format!(
                "{} is the socket of fnd, and `--socket` names that of the page: fnd's own is `--control`",
                path.display()
            )));
        }
        words.extend([OsString::from("--socket"), path.into_os_string()]);
    }
    if let Some(port) = args.port {
        words.extend(["--port".to_owned(), port.to_string()].map(OsString::from));
    }
    let input = if args.end_with_input {
        Stdio::inherit()
    } else {
        Stdio::piped()
    };
    let mut page = start(context, words, input).await?;
    let _socket = page.started.socket.clone().and_then(|path| SocketFile::at(path.into()));
    page.started.ssh = page.started.socket.as_deref().map(|socket| ssh(socket, &host()));
    context.made(&page.started, |out| out.line(&line(&page.started)))?;
    page.ended().await
}

/// Returns the one line that says how a browser gets to the page.
fn line(page: &StartedPage) -> String {
    match page {
        StartedPage {
            address: Some(address), ..
        } => address.clone(),
        StartedPage { socket, token, ssh, .. } => format!(
            "{}: on a laptop `{}`, then open http://127.0.0.1:{PORT}/#token={token}",
            socket.as_deref().unwrap_or_default(),
            ssh.as_deref().unwrap_or_default()
        ),
    }
}

/// The port of the laptop.
const PORT: u16 = 8080;

fn ssh(socket: &str, host: &str) -> String {
    format!("ssh -N -L 127.0.0.1:{PORT}:{socket} {host}")
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_removed_unless_another_page_has_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let [own, other] = ["own.sock", "other.sock"].map(|name| directory.path().join(name));
        for path in [&own, &other] {
            std::fs::write(path, "").unwrap();
        }
        let socket = SocketFile::at(own.clone());
        assert!(socket.is_some());
        std::fs::rename(&other, &own).unwrap();
        drop(socket);
        assert!(own.exists());
        drop(SocketFile::at(own.clone()));
        assert!(!own.exists());
        assert!(SocketFile::at(own).is_none());
    }

    #[test]
    fn one_line_leads_to_the_page() {
        let socket = "/run/user/1000/fnd/web.sock";
        let mut page = StartedPage {
            address: None,
            socket: Some(socket.to_owned()),
            token: "7f".to_owned(),
            ssh: Some(ssh(socket, "vm1")),
        };
        assert_eq!(
            line(&page),
            "/run/user/1000/fnd/web.sock: on a laptop `ssh -N -L 127.0.0.1:8080:/run/user/1000/fnd/web.sock vm1`, \
             then open http://127.0.0.1:8080/#token=7f"
        );
        page.address = Some("http://127.0.0.1:1/#token=7f".to_owned());
        assert_eq!(line(&page), "http://127.0.0.1:1/#token=7f");
    }
}
