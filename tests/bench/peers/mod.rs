//! Other programs that run the same function, if they are installed (`scripts/bench-peers.sh`). They do not limit, contain or
//! record it.
//!
//! Files:
//! - `scripts`: programs that start a script for each request
//! - `servers`: programs that keep a process, and plain HTTP servers, which are an upper bound

mod scripts;
mod servers;

use crate::http::{Caller, Server};
use fnd_tests::programs::repository;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
pub(crate) use scripts::of_scripts;
pub(crate) use servers::of_handlers;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A server of our own, ended at the end.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    server: Server,
    path: &'static str,
    children: Vec<Child>,
    _files: TempDir,
}

/// A peer, or its name and why it is not measured.
pub(crate) type Found = Result<Peer, String>;

impl Peer {
    /// Returns a caller of its function.
    pub(crate) fn caller(&self) -> Caller {
        Caller::open(&self.server, self.path)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        for child in &mut self.children {
            // SIGTERM, not SIGKILL, since some of them have children.
            if let Ok(pid) = i32::try_from(child.id()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM); // it has ended by itself
            }
            let _ = child.wait();
        }
    }
}

/// The files and the port of a peer that is about to start.
struct Preparing {
    name: &'static str,
    files: TempDir,
    port: SocketAddr,
}

impl Preparing {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            files: tempfile::tempdir().expect("a temporary directory"),
            port: free_port(),
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.files.path().join(file)
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.path(file);
        fs::write(&path, text).expect("a file of the peer is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode can be set");
        path
    }

    /// Starts its programs; requests go to `path`.
    fn start(self, path: &'static str, commands: Vec<Command>) -> Peer {
        let start = |mut command: Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("an installed server starts")
        };
        Peer {
            name: self.name,
            server: Server::Tcp(self.port),
            path,
            children: commands.into_iter().map(start).collect(),
            _files: self.files,
        }
    }
}

/// Returns the path of what `scripts/bench-peers.sh` has installed.
fn installed(below: &str) -> Result<PathBuf, String> {
    let peers = std::env::var_os("FND_BENCH_PEERS").map_or_else(|| repository().join("target/bench"), PathBuf::from);
    let path = peers.join(below);
    if path.exists() {
        return Ok(path);
    }
    let name = below.rsplit('/').next().unwrap_or(below);
    Err(format!("{name} is not installed: scripts/bench-peers.sh"))
}

/// Returns an address whose port was free a moment ago.
pub(crate) fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it has an address")
}
