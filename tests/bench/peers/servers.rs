//! Programs that keep a process for a handler; and plain HTTP servers in the same language, which do nothing else and are an
//! upper bound.

use super::{Found, Peer, Preparing, free_port, installed};
use fnd_tests::programs::deno;
use std::process::Command;

/// A server in deno that answers with a word.
const DENO: &str = "export default { fetch: () => new Response('hello') };\n";

/// An application for uvicorn that answers with a word.
const ASGI: &str = "
async def app(scope, receive, send):
    await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', b'5')]})
    await send({'type': 'http.response.body', 'body': b'hello'})
";

/// Starts those of a language.
pub(crate) fn of_handlers(language: &str) -> Vec<Found> {
    match language {
        "python" => vec![framework_python(), uvicorn()],
        _ => vec![framework_node(), of_watchdog(), deno_serve()],
    }
}

/// The Functions Framework for python, which serves the function from one process with threads.
fn framework_python() -> Result<Peer, String> {
    let program = installed("python/bin/functions-framework")?;
    let new = Preparing::new("Functions Framework, python");
    let source = new.write("main.py", "def handler(request):\n    return 'hello'\n");
    let mut command = Command::new(program);
    command.arg("--target=handler").arg("--source").arg(source);
    command.args(["--port", &new.port.port().to_string()]);
    Ok(new.start("/", vec![command]))
}

/// The Functions Framework for node, whose function the one of deno is compared with.
fn framework_node() -> Result<Peer, String> {
    let program = installed("node/node_modules/.bin/functions-framework")?;
    let new = Preparing::new("Functions Framework, node");
    new.write(
        "index.js",
        "exports.handler = (request, response) => response.send('hello');\n",
    );
    let mut command = Command::new(program);
    command.arg("--target=handler").arg("--source").arg(new.files.path());
    command.args(["--port", &new.port.port().to_string()]);
    Ok(new.start("/", vec![command]))
}

/// OpenFaaS' of-watchdog in front of a server in deno (<https://github.com/openfaas/of-watchdog>).
fn of_watchdog() -> Result<Peer, String> {
    let (program, deno) = (installed("watchdogs/of-watchdog")?, installed_deno()?);
    let new = Preparing::new("of-watchdog + deno serve");
    let (behind, server) = (free_port(), new.write("server.ts", DENO));
    let process = format!(
        "{} serve --quiet --host 127.0.0.1 --port {} {}",
        deno.get_program().to_string_lossy(),
        behind.port(),
        server.display()
    );
    let mut command = Command::new(program);
    command
        .env("fprocess", process)
        .env("mode", "http")
        .env("suppress_lock", "true");
    command
        .env("upstream_url", format!("http://{behind}"))
        .env("DENO_NO_UPDATE_CHECK", "1");
    command
        .env("port", new.port.port().to_string())
        .env("log_callid", "false");
    Ok(new.start("/", vec![command]))
}

/// deno's own server, alone.
fn deno_serve() -> Result<Peer, String> {
    let mut command = installed_deno()?;
    let new = Preparing::new("deno serve alone, an upper bound");
    command.args([
        "serve",
        "--quiet",
        "--host",
        "127.0.0.1",
        "--port",
        &new.port.port().to_string(),
    ]);
    command.arg(new.write("server.ts", DENO));
    Ok(new.start("/", vec![command]))
}

/// uvicorn, alone.
fn uvicorn() -> Result<Peer, String> {
    let program = installed("python/bin/uvicorn")?;
    let new = Preparing::new("uvicorn alone, an upper bound");
    new.write("app.py", ASGI);
    let mut command = Command::new(program);
    command
        .arg("--app-dir")
        .arg(new.files.path())
        .args(["--lifespan", "off", "--no-access-log"]);
    command.args([
        "--log-level",
        "critical",
        "--port",
        &new.port.port().to_string(),
        "app:app",
    ]);
    Ok(new.start("/", vec![command]))
}

fn installed_deno() -> Result<Command, String> {
    let mut command = Command::new(deno().ok_or("deno is not installed: scripts/setup.sh")?);
    command.env("DENO_NO_UPDATE_CHECK", "1");
    Ok(command)
}
