//! The web page, from `fndctl web` to fnd and back.

use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// A page at a port.
struct WebPage {
    child: Child,
    browser: Browser,
}

/// A browser that knows one page.
pub(crate) struct Browser {
    /// `127.0.0.1:PORT`.
    pub(crate) host: String,
    /// Empty without a session.
    cookie: String,
}

impl WebPage {
    fn start(fnd: &Fnd) -> Self {
        let mut child = Command::new(program("fndctl"))
            .args(["web", "--port", "0", "-o", "json"])
            .env("FND_SOCKET", fnd.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let started = started(&mut child);
        let (mut browser, token) = Browser::at(started["address"].as_str().unwrap());
        browser.sign_in(&token);
        Self { child, browser }
    }
}

impl Browser {
    /// Returns a browser without a session, and the token of an address.
    pub(crate) fn at(address: &str) -> (Self, String) {
        let (host, token) = address.split_once("/#token=").unwrap();
        let browser = Self {
            host: host.trim_start_matches("http://").to_owned(),
            cookie: String::new(),
        };
        (browser, token.to_owned())
    }

    /// Returns the answer to a token, and keeps the session that it has.
    pub(crate) fn sign_in(&mut self, token: &str) -> String {
        let answer = self.post("/login", &format!("token={token}"));
        if let Some(cookie) = header(&answer, "set-cookie") {
            cookie.clone_into(&mut self.cookie);
        }
        answer
    }

    pub(crate) fn get(&self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\n"), "")
    }

    fn post(&self, path: &str, form: &str) -> String {
        let (host, length) = (&self.host, form.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nOrigin: http://{host}\r\nSec-Fetch-Site: same-origin\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n"
        );
        self.send(&head, form)
    }

    fn send(&self, head: &str, body: &str) -> String {
        let (host, cookie) = (&self.host, &self.cookie);
        let mut stream = TcpStream::connect(host).unwrap();
        let request = format!("{head}Host: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for WebPage {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the place of a page that has started.
fn started(page: &mut Child) -> Value {
    let mut line = String::new();
    let mut output = BufReader::new(page.stdout.as_mut().unwrap());
    output.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = answer.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(other, _)| *other == name).map(|(_, value)| value)
}

#[test]
fn a_function_is_run_and_followed_in_the_browser() {
    let script = "# /// fnd\n# on_load = false\n# ///\necho \"<b>done</b>\"\n";
    let fnd = Fnd::start_with(&Setup::default().file("hello.sh", script));
    let _ = fnd.wait_ready("hello");
    let page = WebPage::start(&fnd);
    let browser = &page.browser;
    let overview = browser.get("/");
    assert!(
        overview.starts_with("HTTP/1.1 200 ") && overview.contains("Overview"),
        "{overview}"
    );
    let function = browser.get("/functions/hello");
    assert!(
        function.starts_with("HTTP/1.1 200 ") && function.contains("hello"),
        "{function}"
    );
    let queued = browser.post("/functions/hello/run", "payload=%7B%7D");
    assert!(queued.starts_with("HTTP/1.1 303 "), "{queued}");
    let run = header(&queued, "location").unwrap();
    let run = run.split('?').next().unwrap();
    let output = browser.get(&format!("{run}/follow"));
    assert!(
        output.contains("&lt;b&gt;done&lt;/b&gt;") && output.contains("event: end"),
        "{output}"
    );
    drop(page);
    fnd.finish();
}

#[test]
fn a_socket_is_named_and_goes_with_its_page() {
    let fnd = Fnd::start();
    let socket = fnd.path("page.sock");
    let mut command = Command::new(program("fndctl"));
    command.args(["web", "-o", "json", "--socket"]).arg(&socket);
    command.arg("--control").arg(fnd.socket()).env_remove("FND_SOCKET");
    let mut page = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(started(&mut page)["socket"], socket.to_str().unwrap());
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    UnixStream::connect(&socket).unwrap();
    kill(Pid::from_raw(page.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(page.wait().unwrap().success());
    assert!(!socket.exists());
    fnd.finish();
}

#[test]
fn the_browser_gets_a_file_that_leads_to_the_page() {
    let fnd = Fnd::start();
    let seen = fnd.path("seen.html");
    let mut command = Command::new(program("fndctl"));
    command.args(["open", "-o", "json"]).env("FND_SOCKET", fnd.socket());
    // The shell that starts the browser adds the name of the file.
    command.env("BROWSER", format!("tee '{}' <", seen.display()));
    let mut opened = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let page = started(&mut opened);
    let address = page["address"].as_str().unwrap();
    wait_until("the browser to read the file", PATIENCE, || {
        let shown = std::fs::read_to_string(&seen).ok()?;
        shown.contains(&format!("url={address}\"")).then_some(())
    });
    kill(Pid::from_raw(opened.id().cast_signed()), Signal::SIGINT).unwrap();
    assert!(opened.wait().unwrap().success());
    fnd.finish();
}

#[test]
fn the_page_is_gone_with_the_fndctl_that_started_it() {
    let fnd = Fnd::start();
    let mut page = WebPage::start(&fnd);
    // Killed, fndctl can tell nobody.
    page.child.kill().unwrap();
    let refused = || TcpStream::connect(&page.browser.host).is_err().then_some(());
    wait_until("the page to end", PATIENCE, refused);
    fnd.finish();
}
