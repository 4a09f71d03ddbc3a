//! The public listener (`[[http]]`): the same calls through it and over the control socket, beside others that serve HTTP.
//!
//! Files:
//! - `calls`: calls of scripts and handlers, through every socket
//! - `connections`: the cost of a connection, with TLS and without
//! - `raw`: requests as bytes, and the echo that is their floor
//! - `routes`: a large table of routes beside a small one

mod calls;
mod connections;
mod raw;
mod routes;

use crate::handlers::WARM;
use crate::http::Server;
use crate::invocations::PRINTS_ENVIRONMENT;
use crate::language::Language;
use crate::peers;
use crate::run_directory_in_memory;
use crate::table::Table;
use calls::Bench;
use fnd_tests::{Fnd, Setup};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;

/// The secret of the routes with a token.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Measures all of it.
pub(crate) fn measure(rounds: usize, table: &mut Table) {
    let languages: Vec<Language> = [Some(Language::python()), Language::deno()]
        .into_iter()
        .flatten()
        .collect();
    let mut setup = crate::as_shipped().file("noop.sh", &with_routes(crate::NOOP, "#", &[("/noop", "none")]));
    setup = setup.file("environment.sh", PRINTS_ENVIRONMENT);
    for language in &languages {
        let (path, token) = (format!("/{}", language.id), format!("/{}/token", language.id));
        let code = with_routes(
            &language.function(&[], false),
            language.comment,
            &[(&path, "none"), (&token, "token:bench")],
        );
        setup = setup.file(&format!("{}-warm.{}", language.id, language.suffix), &code);
    }
    let (mut fnd, tcp) = prepare(&setup, "");
    let _run = run_directory_in_memory(&fnd);
    fnd.launch();
    fnd.wait_ready("noop");
    let mut bench = Bench {
        fnd: &fnd,
        tcp: &tcp,
        rounds,
        table,
    };
    bench.scripts();
    for language in &languages {
        fnd.wait_ready(&format!("{}-warm", language.id));
        bench.handlers(language);
    }
    fnd.stop();
    drop(fnd);
    routes::measure(rounds * WARM, table);
    connections::measure(rounds, table);
}

/// Returns an fnd that listens on a Unix socket and a port, with a secret; `more` is more of `[http]`.
fn prepare(setup: &Setup, more: &str) -> (Fnd, Server) {
    let port = peers::free_port();
    let fnd = Fnd::prepare(setup);
    let configuration = fnd.path("fnd.toml");
    let before = fs::read_to_string(&configuration).expect("the configuration of the set-up");
    let unix = socket(&fnd);
    let Server::Unix(unix) = &unix else {
        unreachable!("it is a Unix socket")
    };
    let http = format!("\n[http]\nlisten = [\"{port}\", \"unix:{}\"]\n{more}\n", unix.display());
    fs::write(&configuration, before + &http).expect("the configuration is written");
    let secrets = fnd.path("secrets");
    fs::create_dir(&secrets).expect("a directory of secrets");
    let set = |path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode can be set");
    set(secrets.clone(), 0o711);
    fs::write(secrets.join("bench"), TOKEN).expect("the secret is written");
    set(secrets.join("bench"), 0o400);
    (fnd, Server::Tcp(port))
}

/// Returns the listener's Unix socket.
fn socket(fnd: &Fnd) -> Server {
    Server::Unix(fnd.path("run/http.sock"))
}

/// Adds routes to the manifest in a function's file: path, and who may call.
fn with_routes(code: &str, comment: &str, routes: &[(&str, &str)]) -> String {
    let end = format!("{comment} ///\n");
    let lines = routes
        .iter()
        .map(|(path, auth)| format!("{comment} [[http]]\n{comment} path = \"{path}\"\n{comment} auth = \"{auth}\"\n"));
    code.replacen(&end, &(lines.collect::<String>() + &end), 1)
}

/// Returns the address of a server on a port.
fn address(server: &Server) -> SocketAddr {
    match server {
        Server::Tcp(address) => *address,
        Server::Unix(_) => unreachable!("it has a port"),
    }
}
