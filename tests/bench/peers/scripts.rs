//! Programs that start a bash script for each request and answer with its output.

use super::{Found, Peer, Preparing, installed};
use std::process::Command;

/// The header of an answer that CGI asks for.
const HEADER: &str = "printf 'Content-Type: text/plain\\nContent-Length: 0\\n\\n'\n";

/// Starts all of them; `script` does nothing.
pub(crate) fn of_scripts(script: &str) -> Vec<Found> {
    vec![webhook(script), classic_watchdog(script), nginx(script), uwsgi(script)]
}

/// webhook (<https://github.com/adnanh/webhook>).
fn webhook(script: &str) -> Result<Peer, String> {
    let program = installed("debian/usr/bin/webhook")?;
    let new = Preparing::new("webhook: bash script");
    let noop = new.write("noop.sh", script);
    // With the output in the answer it waits for the script's end, as fnd does.
    let hook = serde_json::json!([{
        "id": "noop", "execute-command": noop, "include-command-output-in-response": true,
    }]);
    let mut command = Command::new(program);
    command.arg("-hooks").arg(new.write("hooks.json", &hook.to_string()));
    command.args(["-ip", "127.0.0.1", "-port", &new.port.port().to_string()]);
    Ok(new.start("/hooks/noop", vec![command]))
}

/// OpenFaaS' classic-watchdog (<https://github.com/openfaas/classic-watchdog>).
fn classic_watchdog(script: &str) -> Result<Peer, String> {
    let program = installed("watchdogs/classic-watchdog")?;
    let new = Preparing::new("classic-watchdog: bash script");
    let mut command = Command::new(program);
    command.env("fprocess", new.write("noop.sh", script));
    command
        .env("port", new.port.port().to_string())
        .env("suppress_lock", "true");
    Ok(new.start("/", vec![command]))
}

/// nginx in front of fcgiwrap, which starts CGI programs.
fn nginx(script: &str) -> Result<Peer, String> {
    let (nginx, fcgiwrap) = (
        installed("debian/usr/sbin/nginx")?,
        installed("debian/usr/sbin/fcgiwrap")?,
    );
    let new = Preparing::new("nginx + fcgiwrap: bash script");
    let noop = new.write("noop.cgi", &format!("{script}{HEADER}"));
    let (files, socket) = (new.files.path().display(), new.path("fcgi.sock"));
    let configuration = format!(
        "daemon off; worker_processes 1; user root; pid {files}/pid; error_log {files}/error.log;
         events {{ }}
         http {{
           access_log off; keepalive_requests 1000000;
           client_body_temp_path {files}/body; proxy_temp_path {files}/proxy; fastcgi_temp_path {files}/fastcgi;
           uwsgi_temp_path {files}/uwsgi; scgi_temp_path {files}/scgi;
           server {{
             listen {port};
             location / {{
               fastcgi_param SCRIPT_FILENAME {noop};
               fastcgi_param REQUEST_METHOD $request_method;
               fastcgi_pass unix:{socket};
             }}
           }}
         }}",
        port = new.port,
        noop = noop.display(),
        socket = socket.display(),
    );
    let mut server = Command::new(nginx);
    server.arg("-e").arg(new.path("error.log"));
    server.arg("-c").arg(new.write("nginx.conf", &configuration));
    let libraries = format!("debian/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let mut wrap = Command::new(fcgiwrap);
    wrap.env("LD_LIBRARY_PATH", installed(&libraries)?);
    wrap.args(["-c", "8", "-s", &format!("unix:{}", socket.display())]);
    Ok(new.start("/noop", vec![wrap, server]))
}

/// uWSGI with its plugin for CGI: eight processes, each of which serves a connection and starts programs.
fn uwsgi(script: &str) -> Result<Peer, String> {
    let program = installed("python/bin/uwsgi")?;
    let new = Preparing::new("uWSGI, CGI: bash script");
    let noop = new.write("noop.cgi", &format!("{script}{HEADER}"));
    let mut command = Command::new(program);
    command.args(["--http11-socket", &new.port.to_string(), "--http-socket-modifier1", "9"]);
    command.args(["--cgi", &format!("/noop={}", noop.display())]);
    command.args(["--processes", "8", "--master", "--disable-logging", "--die-on-term"]);
    Ok(new.start("/noop", vec![command]))
}
