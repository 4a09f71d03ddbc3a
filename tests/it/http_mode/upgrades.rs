//! Connections that speak another protocol after an upgrade, and answers that never end.

use super::*;

/// A server that echoes what comes after an upgrade, and counts on `/events` until its caller leaves.
const ECHO: &str = r#"import http.server, os, socketserver, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def address_string(self): return "fnd"
    def do_GET(self):
        if self.path == "/events":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            number = 0
            while True:
                number += 1
                self.wfile.write(b"data: %d\n\n" % number)
                self.wfile.flush()
                time.sleep(0.01)
        asked = "%s %s" % (self.headers.get("connection"), self.headers.get("upgrade"))
        if self.path == "/plain" or self.headers.get("upgrade") != "echo":
            body = asked.encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(101)
        self.send_header("connection", "Upgrade")
        self.send_header("upgrade", "echo")
        self.send_header("x-own", "1")
        self.end_headers()
        self.wfile.write(b"hello:")
        while data := self.rfile.read1(): 
            self.wfile.write(data.upper())
            if data.endswith(b"bye"): break
        self.close_connection = True
class Tcp(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
Tcp(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"#;

/// A connection to fnd that has sent a request.
fn ask(fnd: &Fnd, function: &str, path: &str, headers: &str, more: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(fnd.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("GET /v1/functions/{function}/http{path} HTTP/1.1\r\nhost: fnd\r\n{headers}\r\n");
    stream.write_all(&[head.as_bytes(), more].concat()).unwrap();
    stream
}

/// Reads until the bytes end with some; returns all.
fn until(stream: &mut UnixStream, end: &[u8]) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        let mut byte = [0];
        let count = stream.read(&mut byte).unwrap();
        assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&bytes));
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

/// Returns the id in the head of an answer.
fn id_in(head: &str) -> fnd_wire::ids::InvocationId {
    let line = head.lines().find_map(|line| line.strip_prefix("fnd-invocation: "));
    fnd_wire::ids::InvocationId::parse(line.unwrap()).unwrap()
}

const UPGRADE: &str = "connection: Upgrade\r\nupgrade: echo\r\n";

/// Three of these use the same program.
#[test]
fn connections_after_an_upgrade() {
    let fnd = Fnd::start();
    bytes_pass_both_ways_after_an_upgrade_and_the_run_ends_with_them(&fnd);
    without_an_upgrade_nothing_changes(&fnd);
    the_end_of_the_attempt_ends_the_connection(&fnd);
    server_sent_events_come_one_by_one_without_an_end(&fnd);
    a_web_socket_of_deno_is_served(&fnd);
    fnd.finish();
}

fn bytes_pass_both_ways_after_an_upgrade_and_the_run_ends_with_them(fnd: &Fnd) {
    fnd.install("echo.py", "[http_server]\n", ECHO);
    // What is sent with the request, and before the answer, is not lost.
    let mut stream = ask(fnd, "echo", "/", UPGRADE, b"early,");
    let head = until(&mut stream, b"\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let lower = head.to_lowercase();
    for header in ["connection: upgrade\r\n", "upgrade: echo\r\n", "x-own: 1\r\n"] {
        assert!(lower.contains(header), "{header} is not in {head}");
    }
    until(&mut stream, b"hello:EARLY,");
    let large = vec![b'x'; 1 << 20];
    let mut writer = stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || writer.write_all(&large).unwrap());
    let mut echoed = vec![0; 1 << 20];
    stream.read_exact(&mut echoed).unwrap();
    assert!(echoed.iter().all(|byte| *byte == b'X'));
    sending.join().unwrap();
    assert_eq!(
        fnd.client()
            .get(&format!("/v1/invocations/{}", id_in(&head)))
            .json::<serde_json::Value>()["state"],
        "running"
    );
    // The program ends it.
    stream.write_all(b"bye").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "BYE");
    assert_eq!(fnd.wait_end(id_in(&head)).state, RunState::Succeeded);
    // The caller ends it.
    let mut stream = ask(fnd, "echo", "/", UPGRADE, b"");
    let head = until(&mut stream, b"\r\n\r\n");
    drop(stream);
    assert_eq!(fnd.wait_end(id_in(&head)).state, RunState::Succeeded);
}

fn without_an_upgrade_nothing_changes(fnd: &Fnd) {
    fnd.install("echo.py", "[http_server]\n", ECHO);
    for (headers, expected) in [
        ("connection: close\r\n", "close None"),
        // The program does not accept it.
        ("connection: close, Upgrade\r\nupgrade: other\r\n", "upgrade other"),
        // Not asked for in `Connection`, named twice, or HTTP again.
        ("connection: close\r\nupgrade: echo\r\n", "close None"),
        (
            "connection: close, upgrade\r\nupgrade: echo\r\nupgrade: other\r\n",
            "close None",
        ),
        (
            "connection: close, upgrade, http2-settings\r\nhttp2-settings: x\r\nupgrade: h2c\r\n",
            "close None",
        ),
    ] {
        let mut stream = ask(fnd, "echo", "/plain", headers, b"");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with(expected),
            "{headers}: {answer}"
        );
    }
}

fn the_end_of_the_attempt_ends_the_connection(fnd: &Fnd) {
    let limits = "[limits]\ntimeout = \"500ms\"\ngrace = \"200ms\"\n[http_server]\n";
    fnd.install("short.py", limits, ECHO);
    fnd.install("long.py", "[http_server]\n", ECHO);
    for function in ["short", "long"] {
        let mut stream = ask(fnd, function, "/", UPGRADE, b"");
        let head = until(&mut stream, b"hello:");
        if function == "long" {
            fnd.client()
                .post(&format!("/v1/invocations/{}/cancel", id_in(&head)), "");
        }
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest); // a reset connection has ended, too
        let view = fnd.wait_end(id_in(&head));
        let expected = if function == "short" { "timeout" } else { "cancelled" };
        assert_eq!(reason(&view), expected, "{}", view.message);
    }
}

fn server_sent_events_come_one_by_one_without_an_end(fnd: &Fnd) {
    fnd.install("echo.py", "[http_server]\n", ECHO);
    let mut stream = ask(fnd, "echo", "/events", "", b"");
    let head = until(&mut stream, b"\r\n\r\n");
    assert!(
        head.to_lowercase().contains("content-type: text/event-stream"),
        "{head}"
    );
    for number in 1..=20 {
        until(&mut stream, format!("data: {number}\n\n").as_bytes());
    }
    drop(stream);
    let view = fnd.wait_end(id_in(&head));
    assert_eq!(reason(&view), "cancelled", "{}", view.message);
}

fn a_web_socket_of_deno_is_served(fnd: &Fnd) {
    require!(deno);
    fnd.install(
        "chat.ts",
        "permissions = [\"net=127.0.0.1\"]\n[http_server]\n",
        "Deno.serve({ hostname: '127.0.0.1', port: Number(Deno.env.get('PORT')) }, (request) => {\n  const { socket, response } = Deno.upgradeWebSocket(request);\n  socket.onmessage = (event) => socket.send(`you said ${event.data}`);\n  return response;\n});\n",
    );
    let headers = "connection: keep-alive, Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut stream = ask(fnd, "chat", "/", headers, b"");
    let head = until(&mut stream, b"\r\n\r\n");
    // The example of RFC 6455, section 1.3.
    assert!(
        head.starts_with("HTTP/1.1 101") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        "{head}"
    );
    // A text of two letters, masked with zeros; its answer; a close with the code 1000, and its answer.
    stream.write_all(b"\x81\x82\0\0\0\0hi").unwrap();
    let mut answer = [0; 13];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"\x81\x0byou said hi");
    stream.write_all(b"\x88\x82\0\0\0\0\x03\xe8").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.starts_with(b"\x88"), "{rest:?}");
    assert_eq!(fnd.wait_end(id_in(&head)).state, RunState::Succeeded);
}
