//! The web page beside ten thousand functions (or some): how long each of its pages takes, and its bytes.

use crate::files;
use crate::http::{Caller, Server};
use crate::load::in_turns;
use crate::table::Table;
use fnd_tests::Fnd;
use fnd_tests::programs::program;
use hyper::body::Bytes;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A function that needs a person.
const FAILS: &str = "# /// fnd\n# on_load = false\n# ///\necho 'no such host: db1' >&2\nexit 3\n";

/// A page that runs, with a session.
struct Page {
    child: Child,
    socket: PathBuf,
    cookie: String,
}

impl Page {
    /// Starts it. An fnd that is compared may be older than the page: then there is none.
    fn start(fnd: &Fnd) -> Option<Self> {
        let socket = fnd.path("page.sock");
        let mut command = Command::new(program("fndctl"));
        command.args(["web", "-o", "json", "--socket"]).arg(&socket);
        command.arg("--control").arg(fnd.socket());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().ok()?;
        let mut page = Self {
            child,
            socket,
            cookie: String::new(),
        };
        let mut line = String::new();
        BufReader::new(page.child.stdout.as_mut()?).read_line(&mut line).ok()?;
        let started: Value = serde_json::from_str(&line).ok()?;
        page.cookie = page.sign_in(started["token"].as_str()?)?;
        Some(page)
    }

    /// Returns the cookie of a new session.
    fn sign_in(&self, token: &str) -> Option<String> {
        let form = format!("token={token}");
        let request = format!(
            "POST /login HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}",
            form.len()
        );
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "))?;
        cookie.split(';').next().map(str::to_owned)
    }

    fn caller(&self, path: &str) -> Caller {
        Caller::asking(&Server::Unix(self.socket.clone()), path).with_session(&self.cookie)
    }

    /// Returns the bytes of a page with those of its style and its script.
    fn first_visit(&self, body: &Bytes) -> usize {
        let text = String::from_utf8_lossy(body);
        let assets = text.split('"').filter(|part| part.starts_with("/assets/"));
        body.len() + assets.map(|path| self.caller(path).body().len()).sum::<usize>()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The pages; `ID` stands for a run.
const PAGES: [&str; 9] = [
    "/",
    "/functions",
    "/functions?q=many-77",
    "/functions/many-0",
    "/runs/ID",
    "/history",
    "/dead-letters",
    "/schedules",
    "/node",
];

/// Measures all of it, with so many functions.
pub(crate) fn measure(rounds: usize, functions: usize, table: &mut Table) {
    let mut fnd = Fnd::prepare(&files::setup(functions).file("fails.sh", FAILS));
    fnd.launch();
    files::wait_ready(&fnd, functions + 1);
    let run = Fnd::id_of(&fnd.invoke("fails", ""));
    fnd.wait_end(run);
    match Page::start(&fnd) {
        Some(page) => {
            let paths = PAGES.map(|path| path.replace("ID", &run.to_string()));
            // Each page asks the API for its caller.
            let access = Caller::asking(&Server::Unix(fnd.socket()), "/v1/access");
            let callers = paths.iter().map(|path| page.caller(path));
            times(
                rounds,
                functions,
                std::iter::once(access).chain(callers).collect(),
                table,
            );
            for (name, path) in PAGES.iter().zip(&paths) {
                let bytes = page.caller(path).body().len();
                table.value(
                    &format!("{functions} functions: {name}, size"),
                    format!("{bytes} bytes"),
                );
            }
            let first = page.first_visit(&page.caller("/").body());
            let row = format!("{functions} functions: first visit, with style and script");
            table.value(&row, format!("{first} bytes"));
        }
        None => table.value("page", "this fnd has none".to_owned()),
    }
    fnd.stop();
}

/// Measures callers: the first asks the API, the others ask for the pages.
fn times(rounds: usize, functions: usize, mut callers: Vec<Caller>, table: &mut Table) {
    let mut actions: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    for caller in &mut callers {
        actions.push(Box::new(|| caller.call()));
    }
    let times = in_turns(rounds.min(50), &mut actions);
    let Some(floor) = times.first() else { return };
    for (name, each) in ["GET /v1/access"].iter().chain(&PAGES).zip(&times) {
        table.times(&format!("{functions} functions: {name}"), each, floor);
    }
}
