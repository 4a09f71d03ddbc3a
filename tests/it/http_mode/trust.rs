//! Sockets and ports: only fnd reaches a worker, and only the worker gets fnd's requests.

use super::*;

/// The test that expects one socket comes first.
#[test]
fn sockets_and_ports_of_workers() {
    let fnd = Fnd::start();
    a_socket_is_for_fnd_and_nobody_else_and_goes_with_its_worker(&fnd);
    a_socket_that_leads_elsewhere_is_not_followed(&fnd);
    a_request_that_does_not_come_from_fnd_is_recognised_by_its_key(&fnd);
    a_neighbour_at_the_port_gets_no_request(&fnd);
    fnd.finish();
}

/// An installed fnd has no privileges: it reaches a socket through the group of its directory, and no other user does.
fn a_socket_is_for_fnd_and_nobody_else_and_goes_with_its_worker(fnd: &Fnd) {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    require!(root);
    let litter = "import os\nos.umask(0o007)\nbeside = os.path.dirname(os.environ['FND_SOCKET_PATH'])\n\
        for _ in range(40):\n    beside += '/deeper'\n    os.mkdir(beside)\nopen(beside + '/file', 'w').close()\n\
        os.chmod(beside, 0)\n";
    fnd.install(
        "unix.py",
        "[http_server]\nlisten = \"unix\"\n",
        &format!("{litter}{SERVER}"),
    );
    let pid = get(fnd, "unix", "/pid").text();
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
}

/// A function controls the file at its socket's path. A link to the control socket would make fnd send a caller's
/// request to itself, with its own rights.
fn a_socket_that_leads_elsewhere_is_not_followed(fnd: &Fnd) {
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
fn a_request_that_does_not_come_from_fnd_is_recognised_by_its_key(fnd: &Fnd) {
    require!(root, deno);
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
}

/// If another process listens at a function's port, fnd sends it no request.
fn a_neighbour_at_the_port_gets_no_request(fnd: &Fnd) {
    require!(root);
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
        Some(get(fnd, "guarded", "/teapot")).filter(|answer| answer.status.as_u16() == 418)
    });
    assert_eq!(answer.text(), "short");
}
