//! The public listener: which requests run a function, and what everybody else learns.
//!
//! Files:
//! - `admission`: credentials: who may call, and the one answer for all others
//! - `browser`: what a page may do in a browser
//! - `decisions`: conditions, idempotency keys, rates, pages of other origins, queued requests
//! - `events`: the route for events
//! - `programs`: programs that serve HTTP, behind routes
//! - `routing`: paths, methods and hosts; two functions with one route
//! - `sockets`: addresses, TLS, proxies, restarts, what is told of requests

mod admission;
mod browser;
mod decisions;
mod events;
mod programs;
mod routing;
mod sockets;

use fnd_tests::client::{Answer, Client};
use fnd_tests::wait::{PATIENCE, wait_until};
use fnd_tests::{Fnd, Setup};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// Prints the method, the path and the standard input.
const ECHO: &str =
    "printf '%s %s %s' \"$REQUEST_METHOD\" \"$REQUEST_URI\" \"$(cat)\"; echo run >> \"$STATE_DIRECTORY/runs\"\n";

/// An fnd with a listener on a Unix socket.
struct Site {
    fnd: Fnd,
    caller: Client,
}

impl Site {
    /// Starts it with secrets (name, content); `http` is more of `[http]`.
    fn start(http: &str, secrets: &[(&str, &str)]) -> Self {
        Self::start_with(&Setup::default(), http, secrets)
    }

    fn start_with(setup: &Setup, http: &str, secrets: &[(&str, &str)]) -> Self {
        let mut fnd = Fnd::prepare(setup);
        let socket = fnd.path("run/http.sock");
        let configuration = fnd.path("fnd.toml");
        let before = fs::read_to_string(&configuration).unwrap();
        let text = format!("{before}\n[http]\nlisten = \"unix:{}\"\n{http}\n", socket.display());
        fs::write(&configuration, text).unwrap();
        for (name, content) in secrets {
            secret(&fnd, name, content);
        }
        fnd.launch();
        let caller = Client::new(&socket);
        Self { fnd, caller }
    }

    /// Adds a script with routes, and waits until it serves.
    fn script(&self, name: &str, code: &str, manifest: &str) {
        self.function(name, "sh", code, &format!("on_load = false\n{manifest}"));
    }

    /// Adds a function, and waits until it serves.
    fn function(&self, name: &str, suffix: &str, code: &str, manifest: &str) {
        self.fnd.drop_file(&format!("{name}.toml"), manifest);
        self.fnd.drop_file(&format!("{name}.{suffix}"), code);
        self.serves(name);
        let names_secret = |line: &str| line.starts_with("auth") && line.contains(':');
        if manifest.lines().any(names_secret) {
            // While the secret is on its way, the route answers 503. A reload ends when all secrets are read.
            let reloaded = self.fnd.client().post("/v1/reload", "");
            assert_eq!(reloaded.status, 200, "{}", reloaded.text());
        }
    }

    /// Waits until a function is ready.
    fn serves(&self, name: &str) {
        let detail = || self.fnd.client().get(&format!("/v1/functions/{name}"));
        eventually(&format!("{name} to serve"), || {
            let answer = detail();
            let is = |key: &str, value: Value| answer.json::<Value>()[key] == value;
            answer.status == 200 && is("state", "ready".into()) && is("error", Value::Null)
        });
    }

    fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.caller.call(method, path, headers, body.as_bytes())
    }

    /// Returns how often a script has run.
    fn runs(&self, name: &str) -> usize {
        let runs = fs::read_to_string(self.fnd.path(&format!("state/home/{name}/runs")));
        runs.unwrap_or_default().lines().count()
    }
}

/// Waits until a condition holds.
#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    wait_until(what, PATIENCE, || holds().then_some(()));
}

/// Returns a port of the loopback that was free a moment ago.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Replaces `[http]` of the configuration and reloads.
fn configure(fnd: &Fnd, http: &str) {
    let path = fnd.path("fnd.toml");
    let text = fs::read_to_string(&path).unwrap();
    let before = text.split("\n[http]\n").next().unwrap();
    fs::write(&path, format!("{before}\n[http]\n{http}\n")).unwrap();
    let run = fnd.ctl(&["reload"]);
    assert_eq!(run.code, 0, "{}{}", run.out(), run.stderr);
}

/// Writes a secret as an administrator does.
pub(crate) fn secret(fnd: &Fnd, name: &str, content: &str) {
    let directory = fnd.path("secrets");
    fs::create_dir_all(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o711)).unwrap();
    let path = directory.join(name);
    let _ = fs::remove_file(&path);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
}

/// Returns a route as a manifest has it.
fn route(path: &str, auth: &str, more: &str) -> String {
    format!("[[http]]\npath = \"{path}\"\nauth = {auth}\n{more}\n")
}

/// Returns the HMAC-SHA256 of a text in hexadecimal digits, made by openssl.
pub(crate) fn hmac(secret: &str, text: &str) -> String {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let mut openssl = Command::new("openssl")
        .args(["dgst", "-sha256", "-hmac", secret, "-r"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    openssl.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = openssl.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned()
}
