//! Other programs that run the same function, if they are installed. They do not limit, contain or record it.

use crate::http::{Caller, Server};
use fnd_tests::programs::repository;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A server of our own, ended at the end.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) server: Server,
    pub(crate) path: &'static str,
    child: Child,
    _files: TempDir,
}

impl Peer {
    fn start(
        name: &'static str,
        path: &'static str,
        mut command: Command,
        (address, files): (SocketAddr, TempDir),
    ) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self {
            name,
            server: Server::Tcp(address),
            path,
            child: command.spawn().expect("an installed server starts"),
            _files: files,
        }
    }

    /// Returns a caller of its function.
    pub(crate) fn caller(&self) -> Caller {
        Caller::open(&self.server, self.path)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SIGTERM, not SIGKILL, since some of them have children.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM); // it has ended by itself
        }
        let _ = self.child.wait();
    }
}

/// Starts webhook (<https://github.com/adnanh/webhook>), which runs a script for each request; else says why not.
pub(crate) fn webhook(script: &str) -> Result<Peer, String> {
    let program = on_path("webhook").ok_or("webhook is not installed: scripts/bench-peers.sh")?;
    let (address, files) = (free_port(), tempfile::tempdir().expect("a temporary directory"));
    let (noop, hooks) = (files.path().join("noop.sh"), files.path().join("hooks.json"));
    fs::write(&noop, script).expect("the script is written");
    fs::set_permissions(&noop, fs::Permissions::from_mode(0o755)).expect("its mode can be set");
    // With the output in the answer it waits for the script's end, as fnd does.
    let hook = serde_json::json!([{
        "id": "noop", "execute-command": noop, "include-command-output-in-response": true,
    }]);
    fs::write(&hooks, hook.to_string()).expect("its configuration is written");
    let mut command = Command::new(program);
    command.arg("-hooks").arg(&hooks);
    command.args(["-ip", "127.0.0.1", "-port", &address.port().to_string()]);
    Ok(Peer::start(
        "webhook: bash script",
        "/hooks/noop",
        command,
        (address, files),
    ))
}

/// Starts the Functions Framework for python, which serves the function from one process with threads; else says why not.
pub(crate) fn framework_python() -> Result<Peer, String> {
    let program = installed("python/bin/functions-framework")?;
    let function = ("main.py", "def handler(request):\n    return 'hello'\n");
    Ok(framework("Functions Framework, python", &program, function))
}

/// Starts the Functions Framework for node, whose function the one of deno is compared with; else says why not.
pub(crate) fn framework_node() -> Result<Peer, String> {
    let program = installed("node/node_modules/.bin/functions-framework")?;
    let function = (
        "index.js",
        "exports.handler = (request, response) => response.send('hello');\n",
    );
    Ok(framework("Functions Framework, node", &program, function))
}

fn framework(name: &'static str, program: &Path, (file, text): (&str, &str)) -> Peer {
    let (address, files) = (free_port(), tempfile::tempdir().expect("a temporary directory"));
    let source = files.path().join(file);
    fs::write(&source, text).expect("the function is written");
    // The one for node takes a directory, the one for python the file.
    let source = if file == "index.js" { files.path() } else { &source };
    let mut command = Command::new(program);
    command.arg("--target=handler").arg("--source").arg(source);
    command.arg("--port").arg(address.port().to_string());
    Peer::start(name, "/", command, (address, files))
}

/// Returns the path of what `scripts/bench-peers.sh` has installed.
fn installed(below: &str) -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let path = target.join("bench").join(below);
    if path.exists() {
        Ok(path)
    } else {
        let name = below.rsplit('/').next().unwrap_or(below);
        Err(format!("{name} is not installed: scripts/bench-peers.sh"))
    }
}

/// Returns the path of an installed program.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|path| path.exists())
}

/// Returns an address whose port was free a moment ago.
pub(crate) fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it has an address")
}
