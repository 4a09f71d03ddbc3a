//! Programs that serve HTTP: requests and answers pass through unchanged, in pieces; a broken answer fails only its
//! call.

use fnd_core::api::InvocationView;
use fnd_core::outcome::State;
use fnd_tests::client::Answer;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::Signal;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server that answers by the path of the request; it listens on a Unix socket if it was given one.
const SERVER: &str = r#"import http.server, json, os, socketserver, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def address_string(self): return "fnd"
    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items(): self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD": self.wfile.write(body)
    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        got = b""
        while size := int(self.rfile.readline(), 16):
            got += self.rfile.read(size)
            self.rfile.readline()
            if self.path == "/echo-chunks": self.piece(got); got = b""
        self.rfile.readline()
        return got
    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()
    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/echo-chunks":
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.body()
            self.wfile.write(b"0\r\n\r\n")
            return
        body = self.body()
        print("asked", path, flush=True)
        if path == "/pid": self.answer(200, b"%d" % os.getpid())
        elif path == "/teapot": self.answer(418, b"short", x_own="1", connection="x-hop, close", x_hop="gone", keep_alive="timeout=5", fnd_state="forged", Set_Cookie="a=1")
        elif path == "/broken": self.answer(503, b"not now", content_type="text/plain")
        elif path == "/garbage": self.wfile.write(b"what?\r\n\r\n"); self.close_connection = True
        elif path == "/drop": self.close_connection = True
        elif path == "/cut":
            self.send_response(200)
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b"begun")
            self.close_connection = True
        elif path == "/exit": os._exit(3)
        elif path == "/hang": time.sleep(1000)
        elif path == "/gate":
            while not os.path.exists(os.environ["GATE"]): time.sleep(0.01)
            self.answer(200, b"%d" % os.getpid())
        elif path == "/large": self.answer(200, b"x" * 5000)
        elif path == "/length": self.answer(200, b"%d" % len(body))
        else:
            seen = {"method": self.command, "path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body.decode()}
            self.answer(200, json.dumps(seen).encode(), content_type="application/json")
    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = do_GET
class Tcp(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
class Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): daemon_threads = True
path = os.environ.get("FND_SOCKET_PATH")
(Unix(path, Handler) if path else Tcp(("127.0.0.1", int(os.environ["PORT"])), Handler)).serve_forever()
"#;

/// Makes a gate for requests of `/gate` to wait at, and returns what the manifest says of it.
fn gated(fnd: &Fnd) -> String {
    let gate = fnd.shared_directory("gate");
    format!("[env]\nGATE = \"{}/open\"\n", gate.display())
}

fn open(fnd: &Fnd) {
    std::fs::write(fnd.path("gate/open"), "").unwrap();
}

fn get(fnd: &Fnd, name: &str, path: &str) -> Answer {
    fnd.client().get(&format!("/v1/functions/{name}/http{path}"))
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

/// Returns the record of an answer's invocation after its end.
fn record(fnd: &Fnd, answer: &Answer) -> InvocationView {
    fnd.wait_end(Fnd::id_of(answer))
}

fn reason(view: &InvocationView) -> String {
    view.reason.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Sends bytes on a connection of its own and returns all that comes back.
fn raw(fnd: &Fnd, request: &[u8]) -> String {
    let mut stream = UnixStream::connect(fnd.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request).unwrap();
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text); // a reset connection has been read to its end, too
    String::from_utf8_lossy(&text).into_owned()
}

fn memory_kib(fnd: &Fnd) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", fnd.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn kill_process(pid: &str) {
    let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
    nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
}

#[test]
fn a_request_and_its_answer_pass_through() {
    let fnd = Fnd::start();
    for (file, manifest) in [
        ("tcp.py", "[http_server]\nready = \"/healthz\"\n"),
        ("unix.py", "[http_server]\nlisten = \"unix\"\n"),
    ] {
        fnd.install(file, manifest, SERVER);
        let name = file.trim_end_matches(".py");
        let seen = raw(
            &fnd,
            format!(
                "PUT /v1/functions/{name}/http/a%20b/c?x=1&y=%2F HTTP/1.1\r\nhost: example.com\r\nx-mine: 1\r\nauthorization: Bearer x\r\n\
                 te: trailers\r\nconnection: close, x-hop\r\nx-hop: 1\r\nce-id: 7\r\ncontent-length: 4\r\n\r\nbody"
            )
            .as_bytes(),
        );
        let (head, body) = seen.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{seen}");
        let seen: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (&seen["method"], &seen["path"]),
            (&"PUT".into(), &"/a%20b/c?x=1&y=%2F".into())
        );
        assert_eq!(seen["body"], "body");
        let headers = &seen["headers"];
        assert_eq!(
            (&headers["host"], &headers["x-mine"]),
            (&"example.com".into(), &"1".into())
        );
        assert_eq!(
            (&headers["event-id"], &headers["content-length"]),
            (&"7".into(), &"4".into())
        );
        assert!(headers["traceparent"].is_string() && headers["fnd-invocation"].is_string());
        for gone in ["authorization", "te", "x-hop"] {
            assert!(headers[gone].is_null(), "{gone} of {headers}");
        }
        let answer = get(&fnd, name, "/teapot");
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (418, "short"));
        assert_eq!((header(&answer, "x-own"), header(&answer, "set-cookie")), ("1", "a=1"));
        assert_eq!(
            (header(&answer, "fnd-state"), header(&answer, "content-length")),
            ("succeeded", "5")
        );
        for gone in ["x-hop", "keep-alive"] {
            assert_eq!(header(&answer, gone), "", "{gone}");
        }
        assert_eq!(record(&fnd, &answer).state, State::Succeeded);
        // `invoke` is a POST to `/`; a 5xx answer is a failure, with the body as its message.
        let seen: serde_json::Value = fnd.invoke(name, "{\"a\": 1}").json();
        assert_eq!(
            (&seen["method"], &seen["path"], &seen["body"]),
            (&"POST".into(), &"/".into(), &"{\"a\": 1}".into())
        );
        let answer = get(&fnd, name, "/broken");
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (503, "not now"));
        let view = record(&fnd, &answer);
        assert_eq!((view.state, reason(&view).as_str()), (State::Failed, "error"));
        assert_eq!(view.message, "it answered 503 Service Unavailable");
        let lines: Vec<String> = fnd.logs(view.id).into_iter().map(|line| line.text).collect();
        assert!(lines.iter().any(|line| line == "asked /broken"), "{lines:?}");
    }
    fnd.finish();
}

/// An installed fnd has no privileges: it reaches a socket through the group of its directory, and no other user does.
#[test]
fn a_socket_is_for_fnd_and_nobody_else_and_goes_with_its_worker() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    require!(root);
    let fnd = Fnd::start();
    let litter = "import os\nos.umask(0o007)\nbeside = os.path.dirname(os.environ['FND_SOCKET_PATH'])\n\
        for _ in range(40):\n    beside += '/deeper'\n    os.mkdir(beside)\nopen(beside + '/file', 'w').close()\n\
        os.chmod(beside, 0)\n";
    fnd.install(
        "unix.py",
        "[http_server]\nlisten = \"unix\"\n",
        &format!("{litter}{SERVER}"),
    );
    let pid = get(&fnd, "unix", "/pid").text();
    let sockets = || std::fs::read_dir(fnd.path("run/spawner/http")).unwrap();
    let [directory] = <[_; 1]>::try_from(sockets().collect::<Vec<_>>()).unwrap();
    let directory = directory.unwrap().path();
    let meta = |path: &std::path::Path| {
        let meta = std::fs::metadata(path).unwrap();
        (meta.uid(), meta.gid(), meta.permissions().mode() & 0o7777)
    };
    let uid = fnd.client().get("/v1/functions/unix").json::<serde_json::Value>()["uid"].as_u64();
    let uid = u32::try_from(uid.unwrap()).unwrap();
    // In this test fnd's group is that of root.
    assert_eq!(meta(&directory), (uid, 0, 0o2710));
    assert_eq!(meta(&directory.join("http.sock")), (uid, 0, 0o770));
    kill_process(&pid);
    wait_until("its directory to be gone", PATIENCE, || {
        sockets().next().is_none().then_some(())
    });
    fnd.finish();
}

/// A function controls the file at its socket's path. A link to the control socket would make fnd send a caller's
/// request to itself, with its own rights.
#[test]
fn a_socket_that_leads_elsewhere_is_not_followed() {
    let fnd = Fnd::start();
    let control = fnd.socket().display().to_string();
    let code = format!("import os, time\nos.symlink({control:?}, os.environ[\"FND_SOCKET_PATH\"])\ntime.sleep(3600)\n");
    let manifest = "# /// fnd\n# [http_server]\n# listen = \"unix\"\n# start_timeout = \"2s\"\n# ///\n";
    fnd.drop_file("link.py", &format!("{manifest}{code}"));
    let _ = wait_until("the function to be known", PATIENCE, || fnd.function("link"));
    let answer = fnd.client().get("/v1/functions/link/http/v1/status");
    assert!(answer.status.is_server_error(), "{answer:?}");
    assert!(!answer.text().contains("spawner_version"), "{}", answer.text());
    assert!(
        answer.text().contains("is not a socket of its user"),
        "{}",
        answer.text()
    );
    fnd.finish();
}

/// Returns a port of the loopback that a process of a user listens on.
fn port_of(uid: u64) -> Option<u16> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let listens = fields[3] == "0A" && fields[7] == uid.to_string();
        let port = fields[1].strip_prefix("0100007F:").filter(|_| listens)?;
        u16::from_str_radix(port, 16).ok()
    })
}

fn forged(port: u16, key: &str) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\nfnd-invocation: 1\r\n{key}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A server that answers whether a request came from fnd.
const OWN_SERVER: &str = r#"// /// fnd
// permissions = ["net"]
// [http_server]
// ///
const key = Deno.env.get("FND_WORKER_KEY");
Deno.serve({ hostname: "127.0.0.1", port: Number(Deno.env.get("PORT")) }, (request) =>
  new Response(request.headers.get("fnd-worker-key") === key ? "fnd" : "stranger"));
"#;

/// Every user of the machine can reach a port; a request with the worker's key comes from fnd.
#[test]
fn a_request_that_does_not_come_from_fnd_is_recognised_by_its_key() {
    require!(root, deno);
    let fnd = Fnd::start();
    fnd.drop_file("fetch.ts", "export default { fetch: () => new Response(`reached`) };\n");
    fnd.drop_file("own.ts", OWN_SERVER);
    let uid = |name: &str| {
        fnd.client()
            .get(&format!("/v1/functions/{name}"))
            .json::<serde_json::Value>()["uid"]
            .as_u64()
            .unwrap()
    };
    for (name, ours, theirs) in [("fetch", "reached", "403"), ("own", "fnd", "stranger")] {
        fnd.wait_ready(name);
        let forged_key = [("fnd-worker-key", "0123456789abcdef0123456789abcdef")];
        let answer = fnd
            .client()
            .call("GET", &format!("/v1/functions/{name}/http/"), &forged_key, b"");
        assert_eq!(answer.text(), ours, "{name}");
        let port = port_of(uid(name)).expect("its port");
        for key in [
            "",
            "fnd-worker-key: \r\n",
            "fnd-worker-key: 0123456789abcdef0123456789abcdef\r\n",
            "fnd-worker-key: \u{fc}\r\n",
        ] {
            let answer = forged(port, key);
            assert!(
                answer.contains(theirs) && !answer.contains("reached"),
                "{name}: {answer}"
            );
        }
    }
    fnd.finish();
}

#[test]
fn a_deno_module_with_fetch_is_served() {
    require!(deno);
    let fnd = Fnd::start();
    let code = "export default {\n  async fetch(request) {\n    const url = new URL(request.url);\n    if (url.pathname === '/stream') return new Response(request.body);\n    return Response.json({ path: url.pathname, body: await request.text() }, { status: 201 });\n  },\n};\n";
    fnd.drop_file("fetch.ts", code);
    fnd.wait_ready("fetch");
    let detail: serde_json::Value = fnd.client().get("/v1/functions/fetch").json();
    assert_eq!(
        (&detail["mode"], &detail["mode_reason"]),
        (&"http".into(), &"`export default { fetch }` at line 1".into())
    );
    let answer = fnd.invoke("fetch", "\"x\"");
    assert_eq!(
        (answer.status.as_u16(), answer.text().as_str()),
        (201, "{\"path\":\"/\",\"body\":\"\\\"x\\\"\"}")
    );
    let answer = fnd.client().post("/v1/functions/fetch/http/stream", "[1, 2]");
    assert_eq!(answer.text(), "[1, 2]");
    // It has no network permission, so it cannot even reach its own port.
    fnd.drop_file("shut.ts", "try { await fetch('http://127.0.0.1:1/'); } catch (error) { console.log(error.name); }\nexport default { fetch: () => new Response('up') };\n");
    fnd.wait_ready("shut");
    assert_eq!(fnd.invoke("shut", "").text(), "up");
    fnd.drop_file(
        "wrong.ts",
        "const other = { fetch: 1 };\nexport default { fetch: other.fetch };\n",
    );
    fnd.wait_ready("wrong");
    let (answer, view) = fnd.run("wrong", "");
    assert_eq!(
        (answer.status.as_u16(), reason(&view).as_str()),
        (500, "load"),
        "{}",
        answer.text()
    );
    assert!(
        view.message.contains("the default export has no function `fetch`"),
        "{}",
        view.message
    );
    // A server of its own, on the port it is given.
    fnd.install(
        "own.ts",
        "permissions = [\"net=127.0.0.1\"]\n[http_server]\n",
        "Deno.serve({ hostname: '127.0.0.1', port: Number(Deno.env.get('PORT')) }, () => new Response('own'));\n",
    );
    assert_eq!(fnd.invoke("own", "").text(), "own");
    fnd.finish();
}

#[test]
fn bodies_stream_both_ways() {
    let fnd = Fnd::start();
    fnd.install(
        "pipe.py",
        "[limits]\nbody = \"1G\"\nresult = \"1K\"\n[http_server]\n",
        SERVER,
    );
    let mut stream = UnixStream::connect(fnd.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(b"POST /v1/functions/pipe/http/echo-chunks HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    // Each piece comes back before the next is sent.
    for word in ["one", "two", "three"] {
        stream
            .write_all(format!("{:x}\r\n{word}\r\n", word.len()).as_bytes())
            .unwrap();
        while !String::from_utf8_lossy(&seen).contains(word) {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&buffer[..count]);
        }
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    stream.read_to_end(&mut seen).unwrap();
    assert!(String::from_utf8_lossy(&seen).ends_with("0\r\n\r\n"));
    // The body is not kept: a body above `limits.result` is not refused, and fnd's memory does not grow by 64 MiB.
    let before = memory_kib(&fnd);
    let mut stream = UnixStream::connect(fnd.socket()).unwrap();
    let size = 64 << 20;
    write!(
        stream,
        "POST /v1/functions/pipe/http/length HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {size}\r\n\r\n"
    )
    .unwrap();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..size >> 20 {
        stream.write_all(&piece).unwrap();
    }
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.ends_with(&size.to_string()), "{text}");
    assert!(
        memory_kib(&fnd) < before + (32 << 10),
        "{} of {before}",
        memory_kib(&fnd)
    );
    assert_eq!(get(&fnd, "pipe", "/large").text().len(), 5000);
    fnd.finish();
}

#[test]
fn requests_are_answered_beside_each_other_in_one_worker() {
    let fnd = Fnd::start();
    fnd.install(
        "crowd.py",
        &format!("[pool]\nmax = 1\nconcurrency = 8\n[http_server]\n{}", gated(&fnd)),
        SERVER,
    );
    let first = get(&fnd, "crowd", "/pid").text();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| get(&fnd, "crowd", "/gate").text()))
            .collect();
        let _ = fnd.wait_function("crowd", "to run eight times", |function| function.running == 8);
        open(&fnd);
        for call in calls {
            assert_eq!(call.join().unwrap(), first);
        }
    });
    fnd.finish();
}

#[test]
fn what_breaks_fails_its_own_call_and_says_why() {
    let fnd = Fnd::start();
    fnd.install(
        "risky.py",
        "[limits]\nbody = \"1K\"\nresult = \"1K\"\n[pool]\nmax = 1\n[http_server]\n",
        SERVER,
    );
    let pid = get(&fnd, "risky", "/pid").text();
    for path in ["/garbage", "/drop"] {
        let answer = get(&fnd, "risky", path);
        let problem: serde_json::Value = answer.json();
        assert_eq!(
            (answer.status.as_u16(), &problem["code"]),
            (502, &"bad-answer".into()),
            "{path}: {problem}"
        );
        assert_eq!(get(&fnd, "risky", "/pid").text(), pid, "{path}: the worker serves on");
    }
    // If an answer ends early, after its head, fnd closes the caller's connection.
    let text = raw(
        &fnd,
        b"GET /v1/functions/risky/http/cut HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    assert!(
        text.ends_with("begun") && text.contains("content-length: 1000"),
        "{text}"
    );
    let last = fnd.wait_function("risky", "to have failed", |function| function.failures == 3);
    assert_eq!(last.reason.unwrap().to_string(), "bad-answer");
    let answer = fnd
        .client()
        .post("/v1/functions/risky/http/length", &format!("\"{}\"", "x".repeat(2000)));
    assert_eq!(answer.status.as_u16(), 413, "{}", answer.text());
    let chunked = format!(
        "POST /v1/functions/risky/http/length HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n7d0\r\n{}\r\n0\r\n\r\n",
        "x".repeat(2000)
    );
    let text = raw(&fnd, chunked.as_bytes());
    assert!(
        text.starts_with("HTTP/1.1 413") && text.contains("limits.body"),
        "{text}"
    );
    // The answer of a queued request is kept, so its size is limited.
    let id = fnd.queue("risky", "1");
    assert_eq!(fnd.wait_end(id).state, State::Succeeded);
    let kept: serde_json::Value = fnd.result(id).json();
    assert_eq!((&kept["method"], &kept["body"]), (&"POST".into(), &"1".into()));
    wait_until("an exit to be told in time", PATIENCE, || {
        let answer = get(&fnd, "risky", "/exit");
        let view = record(&fnd, &answer);
        let outcome = (answer.status.as_u16(), reason(&view));
        // If fnd learns of the exit late, it only knows that the connection broke.
        assert!(
            [(500, "exit-3".to_owned()), (502, "bad-answer".to_owned())].contains(&outcome),
            "{}",
            view.message
        );
        (outcome.0 == 500).then_some(())
    });
    assert_ne!(get(&fnd, "risky", "/pid").text(), pid);
    assert_eq!(fnd.function("risky").unwrap().state.as_str(), "ready");
    fnd.finish();
}

#[test]
fn a_timeout_ends_the_worker_and_an_attempt_may_follow() {
    let fnd = Fnd::start();
    fnd.install(
        "late.py",
        "[limits]\ntimeout = \"500ms\"\ngrace = \"200ms\"\n[http_server]\n",
        SERVER,
    );
    let pid: i32 = wait_until("an answer in time", PATIENCE, || {
        get(&fnd, "late", "/pid").text().parse().ok()
    });
    let answer = get(&fnd, "late", "/hang");
    assert_eq!(answer.status.as_u16(), 408, "{}", answer.text());
    assert_eq!(reason(&record(&fnd, &answer)), "timeout");
    wait_until("its worker to be gone", PATIENCE, || {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None)
            .is_err()
            .then_some(())
    });
    // If the function has retries, bodies are kept, since each attempt needs them.
    let twice = SERVER.replace(
        "        if path == \"/pid\"",
        "        if self.headers['fnd-attempt'] == '1' and path == '/': os._exit(9)\n        if path == \"/pid\"",
    );
    fnd.install(
        "twice.py",
        "[retry]\nretries = 1\ninterval = \"1s\"\n[http_server]\n",
        &twice,
    );
    let answer = fnd.invoke("twice", "\"again\"");
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    assert_eq!(answer.json::<serde_json::Value>()["body"], "\"again\"");
    let view = record(&fnd, &answer);
    assert_eq!((view.attempts, view.state), (2, State::Succeeded));
    assert_eq!(get(&fnd, "twice", "/broken").text(), "not now");
    fnd.finish();
}

#[test]
fn what_never_is_ready_says_why() {
    let fnd = Fnd::start();
    let manifest = |ready: &str, within: &str| {
        format!("[limits]\ngrace = \"100ms\"\n[http_server]\nready = \"{ready}\"\nstart_timeout = \"{within}\"\n")
    };
    // Long enough that it answers.
    fnd.install("unwell.py", &manifest("/broken", "10s"), SERVER);
    let cases = [
        (
            "unwell",
            "it was not ready within 10s: `/broken` answered 503 Service Unavailable",
        ),
        ("deaf", "it was not ready within 700ms: it accepts no connections"),
        ("brief", "no port for me"),
    ];
    fnd.install("deaf.py", &manifest("/", "700ms"), "import time\ntime.sleep(1000)\n");
    fnd.install(
        "brief.py",
        &manifest("/", "30s"),
        "import sys\nsys.exit('no port for me')\n",
    );
    for (name, expected) in cases {
        let (answer, view) = fnd.run(name, "");
        assert_eq!(
            (answer.status.as_u16(), reason(&view).as_str()),
            (500, "load"),
            "{name}"
        );
        assert!(view.message.starts_with(expected), "{name}: {}", view.message);
    }
    fnd.finish();
}

#[test]
fn a_new_version_serves_once_it_is_ready_and_one_port_is_handed_on() {
    let fnd = Fnd::start();
    fnd.install("site.py", "[pool]\nmin = 1\n[http_server]\n", SERVER);
    let old = get(&fnd, "site", "/pid").text();
    fnd.drop_file(
        "site.py",
        "# /// fnd\n# [pool]\n# min = 1\n# [http_server]\n# ///\nimport sys\nsys.exit('bad')\n",
    );
    let error = fnd.wait_error("site").error.unwrap();
    assert!(
        error.contains("the previous version serves") && error.contains("bad"),
        "{error}"
    );
    assert_eq!(get(&fnd, "site", "/pid").text(), old);
    let port = crate::metrics::free_address().port();
    let fixed = format!("[pool]\nmin = 1\n[http_server]\nport = {port}\n");
    fnd.install("fixed.py", &fixed, SERVER);
    let old = get(&fnd, "fixed", "/pid").text();
    fnd.install("fixed.py", &fixed, &SERVER.replace("not now", "never"));
    wait_until("the new version to have the port", PATIENCE, || {
        let answer = get(&fnd, "fixed", "/broken");
        (answer.text() == "never").then_some(())
    });
    assert_ne!(get(&fnd, "fixed", "/pid").text(), old);
    fnd.finish();
}

#[test]
fn a_restart_of_fnd_leaves_workers_and_says_what_was_lost() {
    require!(root, cgroup);
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    for (file, manifest) in [
        ("tcp.py", "[pool]\nconcurrency = 4\n[http_server]\n"),
        ("unix.py", "[http_server]\nlisten = \"unix\"\n"),
    ] {
        fnd.install(file, manifest, SERVER);
    }
    let pids = ["tcp", "unix"].map(|name| get(&fnd, name, "/pid").text());
    let socket = fnd.socket();
    let caller = std::thread::spawn(move || {
        let mut stream = UnixStream::connect(socket).unwrap();
        let request = b"GET /v1/functions/tcp/http/hang HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text); // the connection may be reset
        text
    });
    let _ = fnd.wait_function("tcp", "to run", |function| function.running == 1);
    fnd.replace(Signal::SIGTERM);
    let response = String::from_utf8(caller.join().unwrap()).unwrap();
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    let lost = wait_until("the lost request to be told", PATIENCE, || {
        let history = fnd.history("tcp");
        history.into_iter().find(|view| view.state == State::Interrupted)
    });
    assert_eq!(
        lost.message,
        "fnd was restarted during the attempt, which ended its connection"
    );
    assert_eq!(["tcp", "unix"].map(|name| get(&fnd, name, "/pid").text()), pids);
    let answer = get(&fnd, "tcp", "/teapot");
    assert_eq!(answer.status.as_u16(), 418);
    fnd.finish();
}

/// The connections end with fnd, so it waits for requests that end soon.
#[test]
fn a_planned_restart_lets_requests_in_flight_end() {
    require!(root, cgroup);
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    let manifest = format!("[pool]\nconcurrency = 4\n[http_server]\n{}", gated(&fnd));
    fnd.install("tcp.py", &manifest, SERVER);
    let pid = get(&fnd, "tcp", "/pid").text();
    let client = fnd.client();
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || client.get("/v1/functions/tcp/http/gate"))
        })
        .collect();
    let _ = fnd.wait_function("tcp", "to run", |function| function.running == 3);
    std::thread::scope(|scope| {
        let (log, gate) = (fnd.path("log/fnd.log"), fnd.path("gate/open"));
        scope.spawn(move || {
            wait_until("the stop to begin", PATIENCE, || {
                std::fs::read_to_string(&log)
                    .unwrap()
                    .contains("stopping: ")
                    .then_some(())
            });
            std::fs::write(gate, "").unwrap();
        });
        fnd.replace(Signal::SIGTERM);
    });
    for caller in callers {
        let answer = caller.join().unwrap();
        assert_eq!((answer.status.as_u16(), answer.text()), (200, pid.clone()));
    }
    let ended = fnd.history("tcp");
    assert_eq!(ended.len(), 4);
    assert!(ended.iter().all(|view| view.state == State::Succeeded), "{ended:?}");
    fnd.finish();
}

/// If another process listens at a function's port, fnd sends it no request.
#[test]
fn a_neighbour_at_the_port_gets_no_request() {
    require!(root);
    let fnd = Fnd::start();
    let neighbour = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = neighbour.local_addr().unwrap().port();
    let over = Arc::new(AtomicBool::new(false));
    let asked = {
        let (neighbour, over) = (neighbour.try_clone().unwrap(), Arc::clone(&over));
        std::thread::spawn(move || {
            let mut asked = Vec::new();
            while let Ok((mut stream, _)) = neighbour.accept() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let mut head = [0; 1024];
                let count = stream.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..count]).into_owned();
                // A connection without a line is a probe that fnd gave up, as when the worker's time to start ends.
                asked.extend(head.lines().next().map(str::to_owned));
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\ngrabbed");
            }
            asked
        })
    };
    // The function's worker waits for its port as long as another process has it.
    let (program, _) = SERVER.rsplit_once("(Unix(path").unwrap();
    let code = format!(
        "{program}while True:\n    try: Tcp((\"127.0.0.1\", int(os.environ[\"PORT\"])), Handler).serve_forever()\n    except OSError: time.sleep(0.05)\n"
    );
    let manifest = format!(
        "[limits]\ngrace = \"100ms\"\n[http_server]\nport = {port}\nready = \"/pid\"\nstart_timeout = \"5s\"\n"
    );
    fnd.install("guarded.py", &manifest, &code);
    let (answer, view) = fnd.run("guarded", "secret");
    assert_eq!(
        (answer.status.as_u16(), reason(&view).as_str()),
        (500, "load"),
        "{}",
        answer.text()
    );
    let expected = format!("port {port} is not its own: a process of another user (0) listens there");
    assert!(view.message.contains(&expected), "{}", view.message);
    over.store(true, Ordering::Relaxed);
    drop(neighbour);
    let _ = std::net::TcpStream::connect(("127.0.0.1", port));
    let asked = asked.join().unwrap();
    assert!(asked.iter().all(|line| line == "GET /pid HTTP/1.1"), "{asked:?}");
    // The port is free: the next worker gets it.
    let answer = wait_until("its own answer", PATIENCE, || {
        Some(get(&fnd, "guarded", "/teapot")).filter(|answer| answer.status.as_u16() == 418)
    });
    assert_eq!(answer.text(), "short");
    fnd.finish();
}
