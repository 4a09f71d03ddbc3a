//! Requests and answers pass through unchanged, in pieces, and beside each other.

use super::*;

/// Each of these has functions of its own.
#[test]
fn requests_pass_through() {
    let fnd = Fnd::start();
    a_request_and_its_answer_pass_through(&fnd);
    a_deno_module_with_fetch_is_served(&fnd);
    bodies_stream_both_ways(&fnd);
    requests_are_answered_beside_each_other_in_one_worker(&fnd);
    fnd.finish();
}

fn a_request_and_its_answer_pass_through(fnd: &Fnd) {
    for (file, manifest) in [
        ("tcp.py", "[http_server]\nready = \"/healthz\"\n"),
        ("unix.py", "[http_server]\nlisten = \"unix\"\n"),
    ] {
        fnd.install(file, manifest, SERVER);
        let name = file.trim_end_matches(".py");
        let seen = raw(
            fnd,
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
        let answer = get(fnd, name, "/teapot");
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (418, "short"));
        assert_eq!((header(&answer, "x-own"), header(&answer, "set-cookie")), ("1", "a=1"));
        assert_eq!(
            (header(&answer, "fnd-state"), header(&answer, "content-length")),
            ("succeeded", "5")
        );
        for gone in ["x-hop", "keep-alive"] {
            assert_eq!(header(&answer, gone), "", "{gone}");
        }
        assert_eq!(record(fnd, &answer).state, RunState::Succeeded);
        // `invoke` is a POST to `/`; a 5xx answer is a failure, with the body as its message.
        let seen: serde_json::Value = fnd.invoke(name, "{\"a\": 1}").json();
        assert_eq!(
            (&seen["method"], &seen["path"], &seen["body"]),
            (&"POST".into(), &"/".into(), &"{\"a\": 1}".into())
        );
        let answer = get(fnd, name, "/broken");
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (503, "not now"));
        let view = record(fnd, &answer);
        assert_eq!((view.state, reason(&view).as_str()), (RunState::Failed, "error"));
        assert_eq!(view.message, "it answered 503 Service Unavailable");
        let lines: Vec<String> = fnd.logs(view.id).into_iter().map(|line| line.text).collect();
        assert!(lines.iter().any(|line| line == "asked /broken"), "{lines:?}");
    }
}

fn a_deno_module_with_fetch_is_served(fnd: &Fnd) {
    require!(deno);
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
}

fn bodies_stream_both_ways(fnd: &Fnd) {
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
    let before = memory_kib(fnd);
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
    assert!(memory_kib(fnd) < before + (32 << 10), "{} of {before}", memory_kib(fnd));
    assert_eq!(get(fnd, "pipe", "/large").text().len(), 5000);
}

fn requests_are_answered_beside_each_other_in_one_worker(fnd: &Fnd) {
    fnd.install(
        "crowd.py",
        &format!("[pool]\nmax = 1\nconcurrency = 8\n[http_server]\n{}", gated(fnd)),
        SERVER,
    );
    let first = get(fnd, "crowd", "/pid").text();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| get(fnd, "crowd", "/gate").text()))
            .collect();
        let _ = fnd.wait_function("crowd", "to run eight times", |function| function.running == 8);
        open(fnd);
        for call in calls {
            assert_eq!(call.join().unwrap(), first);
        }
    });
}
