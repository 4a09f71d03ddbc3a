//! The web page beside ten thousand functions (or some), of which some have failed, have dead letters or have a schedule: how
//! long each page takes, and its bytes on the wire.

use crate::files;
use crate::http::{Caller, Server};
use crate::load::in_rounds;
use crate::table::Table;
use fnd_tests::programs::program;
use fnd_tests::{Fnd, Setup, now};
use fnd_wire::ids::InvocationId;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A function that needs a person, and of which each queued run becomes a dead letter.
const FAILS: &str = "# /// fnd\n# on_load = false\n# ///\necho 'no such host: db1' >&2\nexit 3\n";

/// A function with a schedule that is not due while the page is measured.
const DUE: &str = "# /// fnd\n# on_load = false\n# [[schedule]]\n# cron = \"0 0 1 1 *\"\n# ///\n:\n";

/// More than the first page shows.
const FAILING_FUNCTIONS: usize = 30;
const SCHEDULED_FUNCTIONS: usize = 100;
/// Functions that have run and succeeded.
const SUCCEEDED_FUNCTIONS: usize = 30;

/// Returns the set-up of so many functions together. fnd has 10,000 users for them here (`fnd_tests::users`): one function
/// more would never become ready.
fn setup(functions: usize) -> Setup {
    let failing = (0..FAILING_FUNCTIONS).map(|n| (format!("fails-{n}.sh"), FAILS));
    let scheduled = (0..SCHEDULED_FUNCTIONS).map(|n| (format!("due-{n}.sh"), DUE));
    let others = files::setup(functions.saturating_sub(FAILING_FUNCTIONS + SCHEDULED_FUNCTIONS));
    failing
        .chain(scheduled)
        .fold(others, |setup, (path, text)| setup.file(&path, text))
}

/// Runs some functions, and returns a run that failed.
fn make_history(fnd: &Fnd) -> InvocationId {
    let failing = (0..FAILING_FUNCTIONS).map(|n| fnd.queue(&format!("fails-{n}"), "{}"));
    let failed: Vec<InvocationId> = failing.collect();
    for n in 0..SUCCEEDED_FUNCTIONS {
        let _ = fnd.invoke(&format!("many-{n}"), "");
    }
    for id in &failed {
        fnd.wait_end(*id);
    }
    failed.first().copied().expect("some functions fail")
}

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
        let answer = self.exchange(&format!(
            "POST /login HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}",
            form.len()
        ))?;
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "))?;
        cookie.split(';').next().map(str::to_owned)
    }

    /// Returns an answer as it is on the wire, with its head.
    fn get(&self, path: &str) -> String {
        let cookie = &self.cookie;
        let answer = self.exchange(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        ));
        let answer = answer.expect("the page answers");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        answer
    }

    /// Sends the bytes of a request, and returns all that comes back.
    fn exchange(&self, request: &str) -> Option<String> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn caller(&self, path: &str) -> Caller {
        Caller::asking(&Server::Unix(self.socket.clone()), path).with_session(&self.cookie)
    }

    /// Returns the callers that are measured, with their names; first the floor, an answer as large as a page that fnd-web has
    /// in memory.
    fn callers(&self, fnd: &Fnd, run: InvocationId) -> Vec<(String, Caller)> {
        let first = self.get("/");
        let style = assets(&first).next().expect("the page has a style");
        let floor = ("style, a file in memory".to_owned(), self.caller(style));
        let control = Server::Unix(fnd.socket());
        let of_fnd = CALLS_OF_FND.map(|path| (format!("GET {path}"), Caller::asking(&control, path)));
        let of_page = PAGES.map(|path| (path.to_owned(), self.caller(&address(path, run))));
        std::iter::once(floor).chain(of_fnd).chain(of_page).collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the paths of the style and the script of a page.
fn assets(document: &str) -> impl Iterator<Item = &str> {
    document.split('"').filter(|part| part.starts_with("/assets/"))
}

/// Calls of the control socket, which say how much of a page's time is fnd's: each page asks for the access, the first page for
/// the overview, the list of functions for a page of them; the last one finds none of all functions.
const CALLS_OF_FND: [&str; 5] = [
    "/v1/access",
    "/v1/status?functions=0",
    "/v1/overview",
    "/v1/functions?limit=200",
    "/v1/functions?limit=200&state=invalid",
];

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

fn address(page: &str, run: InvocationId) -> String {
    page.replace("ID", &run.to_string())
}

/// Measures all of it, with so many functions.
pub(crate) fn measure(rounds: usize, functions: usize, table: &mut Table) {
    let start = now();
    let mut fnd = Fnd::prepare(&setup(functions));
    // A disk that writes ten thousand versions slowly would delay the set-up, and no page waits for it.
    let _mounts = ["run", "state"].map(|directory| crate::in_memory(fnd.path(directory)));
    fnd.launch();
    files::wait_ready(&fnd, functions);
    let run = make_history(&fnd);
    let seconds = format!("{:.2} s", start.elapsed().as_secs_f64());
    table.value(&format!("{functions} functions: set-up"), seconds);
    match Page::start(&fnd) {
        Some(page) => {
            times(rounds, functions, page.callers(&fnd, run), table);
            sizes(functions, &page, run, table);
        }
        None => table.value("page", "this fnd has none".to_owned()),
    }
    fnd.stop();
}

/// Measures callers, each beside the first.
fn times(rounds: usize, functions: usize, callers: Vec<(String, Caller)>, table: &mut Table) {
    let (names, mut callers): (Vec<String>, Vec<Caller>) = callers.into_iter().unzip();
    let mut actions: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    for caller in &mut callers {
        actions.push(Box::new(|| caller.call()));
    }
    let times = in_rounds(rounds, &mut actions);
    let Some(floor) = times.first() else { return };
    for (name, each) in names.iter().zip(&times) {
        table.times(&format!("{functions} functions: {name}"), each, floor);
    }
    for (name, each) in names.iter().zip(&times) {
        let p90 = each.percentile(90).as_secs_f64() * 1e3;
        table.value(&format!("{functions} functions: {name}, p90"), format!("{p90:.3} ms"));
    }
}

/// Counts the bytes of each page on the wire, and those of a first visit.
fn sizes(functions: usize, page: &Page, run: InvocationId, table: &mut Table) {
    let mut row = |name: &str, bytes: usize| {
        table.value(&format!("{functions} functions: {name}"), format!("{bytes} bytes"));
    };
    for path in PAGES {
        row(&format!("{path}, on the wire"), page.get(&address(path, run)).len());
    }
    let first = page.get("/");
    let of_assets: usize = assets(&first).map(|path| page.get(path).len()).sum();
    row("first visit, with style and script", first.len() + of_assets);
}
