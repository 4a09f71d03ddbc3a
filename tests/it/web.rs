//! The web page, from `fndctl web` to fnd and back.

use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A page at a port, with a session.
struct WebPage {
    child: Child,
    host: String,
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
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let started: Value = serde_json::from_str(&line).unwrap();
        let address = started["address"].as_str().unwrap();
        let (host, token) = address.split_once("/#token=").unwrap();
        let mut page = Self {
            child,
            host: host.trim_start_matches("http://").to_owned(),
            cookie: String::new(),
        };
        let welcome = page.post("/login", &format!("token={token}"));
        page.cookie = header(&welcome, "set-cookie").unwrap().to_owned();
        page
    }

    fn get(&self, path: &str) -> String {
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
    let overview = page.get("/");
    assert!(
        overview.starts_with("HTTP/1.1 200 ") && overview.contains("Overview"),
        "{overview}"
    );
    let function = page.get("/functions/hello");
    assert!(
        function.starts_with("HTTP/1.1 200 ") && function.contains("hello"),
        "{function}"
    );
    let queued = page.post("/functions/hello/run", "payload=%7B%7D");
    assert!(queued.starts_with("HTTP/1.1 303 "), "{queued}");
    let run = header(&queued, "location").unwrap();
    let run = run.split('?').next().unwrap();
    let output = page.get(&format!("{run}/follow"));
    assert!(
        output.contains("&lt;b&gt;done&lt;/b&gt;") && output.contains("event: end"),
        "{output}"
    );
    drop(page);
    fnd.finish();
}

#[test]
fn the_page_is_gone_with_the_fndctl_that_started_it() {
    let fnd = Fnd::start();
    let mut page = WebPage::start(&fnd);
    // Killed, fndctl can tell nobody.
    page.child.kill().unwrap();
    let refused = || TcpStream::connect(&page.host).is_err().then_some(());
    wait_until("the page to end", PATIENCE, refused);
    fnd.finish();
}
