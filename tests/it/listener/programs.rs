//! Programs that serve HTTP, behind routes.

use super::*;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

/// A server that answers with the size of the body, echoes what comes after an upgrade, and counts on `/events`.
pub(super) const SERVER: &str = r#"import http.server, os, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def address_string(self): return "fnd"
    def do_POST(self):
        body = b"%d" % len(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        if self.path == "/events":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for number in range(3):
                self.wfile.write(b"data: %d\n\n" % number)
                self.wfile.flush()
            return
        self.send_response(101)
        self.send_header("connection", "Upgrade")
        self.send_header("upgrade", "echo")
        self.end_headers()
        while data := self.rfile.read1():
            self.wfile.write(data)
            if data.endswith(b"bye"): break
        self.close_connection = True
class Tcp(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
Tcp(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"#;

/// Connects to the listener and sends bytes.
fn send(site: &Site, bytes: &str) -> UnixStream {
    let mut stream = UnixStream::connect(site.fnd.path("run/http.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    stream
}

#[test]
fn a_body_that_is_passed_on_must_keep_coming() {
    let site = Site::start("", &[]);
    let manifest = format!("[http_server]\n{}", route("/", "\"none\"", ""));
    site.function("server", "py", SERVER, &manifest);
    let mut stream = send(&site, "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n123");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 408") && answer.contains("slow-request"),
        "{answer}"
    );
    assert_eq!(site.call("POST", "/", &[], "123").text(), "3");
    site.fnd.finish();
}

#[test]
fn the_bytes_after_an_upgrade_are_told() {
    let site = Site::start("", &[]);
    let manifest = format!("[http_server]\n{}", route("/{*path}", "\"none\"", ""));
    site.function("server", "py", SERVER, &manifest);
    let head = "GET /echo HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    let mut stream = send(&site, &format!("{head}early,"));
    let mut early = [0; 1024];
    let mut read = String::new();
    while !read.ends_with("early,") {
        let count = stream.read(&mut early).unwrap();
        read += std::str::from_utf8(&early[..count]).unwrap();
    }
    assert!(read.starts_with("HTTP/1.1 101"), "{read}");
    stream.write_all(b"bye").unwrap();
    stream.read_to_string(&mut read).unwrap();
    assert!(read.ends_with("early,bye"), "{read}");
    let line = || {
        let log = site.fnd.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("GET /echo 101")).collect();
        lines.join("\n")
    };
    eventually("the line of the request", || !line().is_empty());
    assert!(line().contains("then 9 B to it and 9 B from it"), "{}", line());
    assert_eq!(line().lines().count(), 1, "{}", line());
    let metrics = site.fnd.client().get("/metrics");
    for line in [
        "fnd_http_requests_total{route=\"/{*path}\",status=\"1xx\"} 1",
        "fnd_http_upgraded_bytes_total{route=\"/{*path}\",to=\"caller\"} 9",
        "fnd_http_upgraded_bytes_total{route=\"/{*path}\",to=\"function\"} 9",
    ] {
        assert!(metrics.text().contains(line), "{line} in {}", metrics.text());
    }
    site.fnd.finish();
}
