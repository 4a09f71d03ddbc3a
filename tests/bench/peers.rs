//! What others do with the same script, where they are installed: nothing of them limits, contains or records it.

use crate::http::{Caller, Server};
use crate::load::{Load, run, timed};
use crate::table::{Table, Times};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Where Debian's package puts it.
const WEBHOOK: &str = "/usr/bin/webhook";

/// A server of our own, killed at the end.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it has ended by itself
        let _ = self.0.wait();
    }
}

/// Measures webhook (<https://github.com/adnanh/webhook>), a bash script per request.
pub(crate) fn webhook(script: &str, rounds: usize, floor: (&Times, &Load), table: &mut Table) {
    if !Path::new(WEBHOOK).exists() {
        table.value("webhook", "not installed: apt-get install webhook".to_owned());
        return;
    }
    let root = tempfile::tempdir().expect("a temporary directory");
    let (program, hooks) = (root.path().join("noop.sh"), root.path().join("hooks.json"));
    fs::write(&program, script).expect("the script is written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode can be set");
    // With the output in the answer it waits for the script's end, as fnd does.
    let hook = serde_json::json!([{
        "id": "noop", "execute-command": program, "include-command-output-in-response": true,
    }]);
    fs::write(&hooks, hook.to_string()).expect("its configuration is written");
    let address = free_port();
    let child = Command::new(WEBHOOK)
        .arg("-hooks")
        .arg(&hooks)
        .args(["-ip", "127.0.0.1", "-port", &address.port().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _peer = Peer(child.expect("webhook starts"));
    let server = Server::Tcp(address);
    let mut caller = Caller::open(&server, "/hooks/noop");
    caller.call();
    let one = Times::new((0..rounds).map(|_| timed(|| caller.call())).collect());
    table.times("webhook: bash script over HTTP", &one, floor.0);
    let eight = run(rounds, || Caller::open(&server, "/hooks/noop"), Caller::call);
    table.load("webhook: bash script over HTTP, 8 at once", &eight, floor.1);
}

fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it has an address")
}
