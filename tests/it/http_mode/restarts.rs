//! New versions, and restarts of fnd while requests are in flight.

use super::*;

#[test]
fn a_new_version_serves_once_it_is_ready_and_one_port_is_handed_on() {
    require!(cgroup);
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
        history.into_iter().find(|view| view.state == RunState::Interrupted)
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
    assert!(ended.iter().all(|view| view.state == RunState::Succeeded), "{ended:?}");
    fnd.finish();
}
