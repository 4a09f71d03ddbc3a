//! Every shipped example runs, with local stand-ins for what it would reach.

use fnd_core::records::outcome::RunState;
use fnd_tests::client::Answer;
use fnd_tests::http_stub::HttpStub;
use fnd_tests::programs::repository;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts fnd on a copy of the named examples, or of all if none is named.
fn with_examples(names: &[&str]) -> Fnd {
    let base = repository().join("examples/functions");
    // With the sandbox, as users have them.
    let mut setup = Setup::default().config("[sandbox]\n");
    let mut directories = vec![base.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let below = path.strip_prefix(&base).unwrap().to_string_lossy().into_owned();
            if names.is_empty() || names.iter().any(|name| below.starts_with(name)) {
                let mode = path.metadata().unwrap().permissions().mode() & 0o755;
                setup.files.push((below, fs::read(&path).unwrap(), mode));
            }
        }
    }
    let mut fnd = Fnd::prepare(&setup);
    // The test's directories stand for those that the examples show to themselves.
    for (path, content, mode) in &setup.files {
        let text = String::from_utf8_lossy(content);
        if text.contains("[\"/srv\"") {
            let root = fnd.path("functions").parent().unwrap().display().to_string();
            let text = text.replace("[\"/srv\"", &format!("[\"{root}\""));
            fnd.drop_bytes(path, text.as_bytes(), *mode);
        }
    }
    fnd.launch();
    fnd
}

/// Shows a directory of the test to an example.
fn show(fnd: &Fnd, file: &str, directory: &Path) {
    let path = fnd.path("functions").join(file);
    let text = fs::read_to_string(&path).unwrap();
    let keys = format!(
        "# [sandbox]\n# read_only = [{:?}]\n# [limits]\n",
        directory.display().to_string()
    );
    fs::write(path, text.replacen("# [limits]\n", &keys, 1)).unwrap();
    let _ = fnd.ctl(&["reload"]).expect_code(0);
}

#[track_caller]
fn result_of(fnd: &Fnd, name: &str, payload: &Value) -> Value {
    fnd.wait_ready(name);
    let answer = fnd.invoke(name, &payload.to_string());
    assert_eq!(answer.status, 200, "{name}: {}", answer.text());
    answer.json()
}

#[track_caller]
fn reason_of(fnd: &Fnd, name: &str, payload: &Value) -> String {
    fnd.wait_ready(name);
    let (_, view) = fnd.run(name, &payload.to_string());
    view.reason.map(|reason| reason.to_string()).unwrap_or_default()
}

/// All examples are accepted, and those that need no other machine have run, as `make run` shows.
#[test]
fn all_of_them_are_accepted_and_the_local_ones_run_by_themselves() {
    require!(deno, go, java, lua, php, ruby);
    let fnd = with_examples(&[]);
    let names = ["disk-space", "dns-check", "inventory", "load-average", "ops/heartbeat"];
    for name in names {
        let view = fnd.wait_run(name);
        assert_eq!(view.state, RunState::Succeeded, "{name}: {}", view.message);
    }
    let status = fnd.status();
    assert!(status.functions.len() >= 10, "{}", status.functions.len());
    assert_eq!(status.problems, Vec::<String>::new());
    for function in &status.functions {
        assert_eq!(function.error, None, "{}", function.function);
        let runs_itself = names.contains(&function.function.as_str());
        assert_eq!(function.runs > 0, runs_itself, "{}", function.function);
    }
    fnd.finish();
}

/// One fnd has all of these.
#[test]
fn examples_that_need_no_other_interpreter() {
    let fnd = with_examples(&[
        "backup",
        "cert-expiry",
        "csv-report",
        "desktop",
        "disk-space",
        "dns-check",
        "dump-database",
        "inventory",
        "load-average",
        "mail",
        "mirror-git",
        "ops",
        "ping",
        "rotate-logs",
        "wait-for",
        "web/files",
    ]);
    disk_space(&fnd);
    cert_expiry(&fnd);
    mail(&fnd);
    desktop(&fnd);
    ping(&fnd);
    rotate_logs(&fnd);
    dump_database(&fnd);
    wait_for(&fnd);
    dns_check(&fnd);
    backup(&fnd);
    csv_report(&fnd);
    mirror_git(&fnd);
    inventory_group_and_exec(&fnd);
    a_program_that_serves_http(&fnd);
    a_service(&fnd);
    fnd.finish();
}

fn disk_space(fnd: &Fnd) {
    let report = result_of(fnd, "disk-space", &json!({"paths": ["/"], "warn_percent": 101}));
    assert_eq!(report["disks"][0]["path"], "/");
    assert_eq!(
        reason_of(fnd, "disk-space", &json!({"paths": ["/"], "warn_percent": 0})),
        "exit-1"
    );
}

/// A TLS server of openssl, ended with the test.
struct TlsServer {
    child: Child,
    port: u16,
}

impl TlsServer {
    fn start(directory: &Path, days: &str) -> Self {
        let key = directory.join("key.pem");
        let certificate = directory.join("cert.pem");
        let made = Command::new("/usr/bin/openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                days,
                "-subj",
                "/CN=localhost",
            ])
            .args(["-addext", "subjectAltName=DNS:localhost", "-keyout"])
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success());
        fs::set_permissions(&certificate, fs::Permissions::from_mode(0o644)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("/usr/bin/openssl")
            .args(["s_server", "-quiet", "-accept", &format!("127.0.0.1:{port}"), "-key"])
            .arg(&key)
            .arg("-cert")
            .arg(&certificate)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, port };
        wait_until("openssl to listen", PATIENCE, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        server
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cert_expiry(fnd: &Fnd) {
    let server = TlsServer::start(&fnd.shared_directory("tls"), "30");
    show(fnd, "cert-expiry.py", &fnd.path("tls"));
    let host = format!("localhost:{}", server.port);
    let ca_file = fnd.path("tls/cert.pem").display().to_string();
    let report = result_of(
        fnd,
        "cert-expiry",
        &json!({"hosts": [&host], "days": 14, "ca_file": ca_file}),
    );
    assert_eq!(report[&host]["ok"], true, "{report}");
    let soon = json!({"hosts": [&host], "days": 60, "ca_file": ca_file});
    assert_eq!(reason_of(fnd, "cert-expiry", &soon), "exit-1");
    // A certificate of an unknown authority is a result, not a reason to retry.
    assert_eq!(reason_of(fnd, "cert-expiry", &json!({"hosts": [&host]})), "exit-1");
}

/// One fnd has all of these.
#[test]
fn examples_in_deno() {
    require!(deno);
    let fnd = with_examples(&[
        "checksum",
        "http-probe",
        "notify",
        "slug",
        "web/load",
        "web/yaml-to-json",
    ]);
    http_probe(&fnd);
    notify(&fnd);
    notify_of_an_alert(&fnd);
    handlers_with_dependencies(&fnd);
    fnd.finish();
}

fn http_probe(fnd: &Fnd) {
    let server = HttpStub::start(&[200], "all is well");
    let report = result_of(fnd, "http-probe", &json!({"url": server.url(), "contains": "well"}));
    assert_eq!(report["status"], 200);
    assert_eq!(
        reason_of(fnd, "http-probe", &json!({"url": server.url(), "contains": "ill"})),
        "exit-1"
    );
    let missing = HttpStub::start(&[404], "no");
    assert_eq!(reason_of(fnd, "http-probe", &json!({"url": missing.url()})), "exit-1");
}

/// A webhook that fails twice: the third attempt gets through.
fn notify(fnd: &Fnd) {
    let server = HttpStub::start(&[503, 429, 200], "ok");
    let report = result_of(
        fnd,
        "notify",
        &json!({"url": format!("{}/hook", server.url()), "text": "Backup done"}),
    );
    assert_eq!(report, json!({"sent": true, "attempt": 3}));
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[2].line, "POST /hook");
    assert_eq!(
        serde_json::from_str::<Value>(&seen[2].body).unwrap(),
        json!({"text": "Backup done"})
    );
    let gone = HttpStub::start(&[410], "gone");
    assert_eq!(
        reason_of(fnd, "notify", &json!({"url": gone.url(), "text": "x"})),
        "failed"
    );
    assert_eq!(gone.seen().len(), 1);
}

/// An alert, as fnd calls with it.
fn alert(word: &str) -> Value {
    json!({
        "alert": word, "function": "backup", "since": "2026-11-21T08:00:00.123Z", "message": "no space", "invocation": null,
        "output": "packing\nno space", "help": "make room",
    })
}

/// Replaces an example by one with another environment.
fn set_env(fnd: &Fnd, name: &str, file: &str, changes: &[(&str, &str)]) {
    let before = fnd.wait_ready(name).version;
    let mut source = fs::read_to_string(repository().join("examples/functions").join(file)).unwrap();
    for (from, to) in changes {
        assert!(source.contains(from), "{from}");
        source = source.replace(from, to);
    }
    fnd.drop_file(file, &source);
    let _ = fnd.wait_function(name, "to have its environment", |function| function.version != before);
}

/// An alert reaches each receiver in its own form.
fn notify_of_an_alert(fnd: &Fnd) {
    for (form, expected) in [
        ("slack", "\"text\":\"*backup: failed*"),
        ("discord", "\"content\":\"**backup: failed**"),
        ("teams", "AdaptiveCard"),
        ("ntfy", "no space\n"),
    ] {
        let server = HttpStub::start(&[200], "ok");
        let url = format!("NOTIFY_URL = \"{}/hook\"", server.url());
        let form = format!("NOTIFY_FORM = \"{form}\"");
        let changes = [
            ("NOTIFY_URL = \"\"", url.as_str()),
            ("NOTIFY_FORM = \"auto\"", &form),
            ("rate = \"1/s\"", "rate = \"100/s\""),
        ];
        set_env(fnd, "notify", "notify.ts", &changes);
        assert_eq!(result_of(fnd, "notify", &alert("failed"))["sent"], true);
        let seen = server.seen();
        assert!(seen.len() == 1 && seen[0].body.contains(expected), "{seen:?}");
        assert!(seen[0].body.contains("make room"), "{seen:?}");
    }
}

/// A mail server that keeps what it is sent: enough of RFC 5321 for one client after the other.
fn mail_server(refuse: &'static str) -> (u16, std::sync::mpsc::Receiver<String>) {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut writer = stream.try_clone().unwrap();
            let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
            writer.write_all(b"220 test\r\n").unwrap();
            let mut session = String::new();
            while let Some(line) = lines.next() {
                session += &format!("{line}\n");
                let verb = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
                let answer = match verb.as_str() {
                    "RCPT" if !refuse.is_empty() => refuse,
                    "DATA" => {
                        writer.write_all(b"354 go on\r\n").unwrap();
                        for line in lines.by_ref().take_while(|line| line != ".") {
                            session += &format!("{line}\n");
                        }
                        "250 kept"
                    }
                    "QUIT" => "221 bye",
                    _ => "250 fine",
                };
                writer.write_all(format!("{answer}\r\n").as_bytes()).unwrap();
                if verb == "QUIT" {
                    break;
                }
            }
            if sender.send(session).is_err() {
                return;
            }
        }
    });
    (port, received)
}

fn mail(fnd: &Fnd) {
    let (port, sent) = mail_server("");
    let to = format!("SMTP = \"127.0.0.1:{port}\"");
    set_env(fnd, "mail", "mail.py", &[("SMTP = \"127.0.0.1:25\"", &to)]);
    let report = result_of(fnd, "mail", &alert("failed"));
    assert_eq!(report, json!({"sent": "root@localhost", "subject": "backup: failed"}));
    let session = sent.recv_timeout(PATIENCE).unwrap();
    for expected in [
        "FROM:<fnd@localhost>",
        "TO:<root@localhost>",
        "Subject: backup: failed",
        "no space",
        "make room",
    ] {
        assert!(session.contains(expected), "{expected}: {session}");
    }
    let record =
        json!({"record": {"id": "1", "function": "job", "state": "failed", "message": "broken"}, "output": "x"});
    assert_eq!(result_of(fnd, "mail", &record)["subject"], "job: failed");
    for (refusal, reason) in [("550 no such mailbox", "failed"), ("451 later", "transient")] {
        let (port, _sent) = mail_server(refusal);
        let to = format!("SMTP = \"127.0.0.1:{port}\"");
        set_env(
            fnd,
            "mail",
            "mail.py",
            &[("SMTP = \"127.0.0.1:25\"", &to), ("retries = 10", "retries = 0")],
        );
        assert_eq!(reason_of(fnd, "mail", &alert("failed")), reason);
    }
}

fn desktop(fnd: &Fnd) {
    set_env(
        fnd,
        "desktop",
        "desktop.sh",
        &[("NOTIFY_SEND = \"notify-send\"", "NOTIFY_SEND = \"echo\"")],
    );
    for (word, urgency) in [("failed", "critical"), ("recovered", "normal")] {
        let (answer, _) = fnd.run("desktop", &alert(word).to_string());
        let expected = format!("--app-name=fnd --urgency={urgency} backup {word} no space");
        assert_eq!(answer.text().trim(), expected);
    }
}

/// A hook that tells a watcher of each run.
fn ping(fnd: &Fnd) {
    let server = HttpStub::start(&[200], "OK");
    let url = format!("PING_URL = \"{}/uuid\"", server.url());
    set_env(fnd, "ping", "ping.py", &[("PING_URL = \"\"", &url)]);
    let hooks = "on_load = false\n[hooks]\non_success = [\"ping\"]\non_failure = [\"ping\"]\n";
    fnd.install("job.sh", hooks, "echo printed\nread -r code\nexit $code\n");
    for code in ["0", "3"] {
        let _ = fnd.run("job", code);
    }
    let seen = wait_until("two pings", PATIENCE, || {
        Some(server.seen()).filter(|seen| seen.len() == 2)
    });
    let mut lines: Vec<&str> = seen.iter().map(|seen| seen.line.as_str()).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["POST /uuid", "POST /uuid/fail"]);
    assert!(seen.iter().all(|seen| seen.body.contains("printed")), "{seen:?}");
}

fn rotate_logs(fnd: &Fnd) {
    let logs = fnd.shared_directory("logs");
    let write = |text: &str| {
        let path = logs.join("app.log");
        fs::write(&path, text.repeat(100)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    };
    let payload = json!({"directory": logs.display().to_string(), "larger_than": 50, "keep": 2});
    for round in ["one\n", "two\n", "three\n"] {
        write(round);
        assert_eq!(result_of(fnd, "rotate-logs", &payload), json!({"rotated": 1}));
    }
    let mut names: Vec<String> = fs::read_dir(&logs)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["app.log", "app.log.1.gz", "app.log.2.gz"]);
    assert_eq!(fs::metadata(logs.join("app.log")).unwrap().len(), 0);
    // Small logs stay as they are.
    assert_eq!(result_of(fnd, "rotate-logs", &payload), json!({"rotated": 0}));
}

fn dump_database(fnd: &Fnd) {
    let directory = fnd.shared_directory("db");
    let database = directory.join("app.db");
    let made = Command::new("/usr/bin/sqlite3")
        .arg(&database)
        .arg("create table t(x); insert into t values (42);")
        .status()
        .unwrap();
    assert!(made.success());
    fs::set_permissions(&database, fs::Permissions::from_mode(0o666)).unwrap();
    let payload = json!({"sqlite": database.display().to_string(), "keep": 2});
    for removed in [0, 0, 1] {
        let report = result_of(fnd, "dump-database", &payload);
        assert_eq!(report["removed"], removed, "{report}");
    }
    assert_eq!(
        reason_of(fnd, "dump-database", &json!({"sqlite": "/nonexistent/app.db"})),
        "failed"
    );

    // The database is locked by another process: the failure is transient, so fnd retries.
    let mut holder = Command::new("/usr/bin/sqlite3")
        .arg(&database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = holder.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"begin exclusive;\n.print locked\n").unwrap();
    let mut locked = [0; 7];
    std::io::Read::read_exact(&mut holder.stdout.take().unwrap(), &mut locked).unwrap();
    let id = fnd.queue("dump-database", &payload.to_string());
    let view = fnd.wait_invocation(id, "to wait for its retry", |view| view.state == RunState::Waiting);
    assert_eq!(view.reason.unwrap().to_string(), "transient");
    assert!(
        fnd.client()
            .post(&format!("/v1/invocations/{id}/cancel"), "")
            .status
            .is_success()
    );
    fnd.wait_end(id);
    drop(input);
    holder.wait().unwrap();
}

/// Two polls find nothing, the third one finds the file. The example polls every 15 s, which is too slow for a test.
fn wait_for(fnd: &Fnd) {
    fnd.wait_ready("wait-for");
    let source = fs::read_to_string(repository().join("examples/functions/wait-for.py")).unwrap();
    let before = fnd.function("wait-for").unwrap().version;
    fnd.drop_file("wait-for.py", &source.replace("repeat = \"15s\"", "repeat = \"20ms\""));
    let _ = fnd.wait_function("wait-for", "to be the quick one", |function| function.version != before);
    let server = HttpStub::start(&[503, 503, 200], "done");
    let (answer, view) = fnd.run("wait-for", &json!({"url": server.url(), "until": "done"}).to_string());
    assert_eq!(answer.json::<Value>(), json!({"looks": 3, "answer": "done"}));
    assert_eq!((view.attempts, view.polls), (3, 2));
}

fn dns_check(fnd: &Fnd) {
    let right = result_of(fnd, "dns-check", &json!({"localhost": ["127.0.0.1", "::1"]}));
    assert_eq!(right, json!({"wrong": {}}));
    assert_eq!(
        reason_of(fnd, "dns-check", &json!({"localhost": ["192.0.2.1"]})),
        "exit-1"
    );
}

fn backup(fnd: &Fnd) {
    let data = fnd.shared_directory("data");
    fs::write(data.join("kept.txt"), "kept").unwrap();
    fs::write(data.join("left-out.tmp"), "no").unwrap();
    for path in ["kept.txt", "left-out.tmp"] {
        fs::set_permissions(data.join(path), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let payload = json!({"source": data.display().to_string(), "keep": 2});
    for removed in [0, 0, 1] {
        let report = result_of(fnd, "backup", &payload);
        assert_eq!(
            (report["files"].as_u64(), report["removed"].as_u64()),
            (Some(1), Some(removed)),
            "{report}"
        );
    }
    assert_eq!(
        reason_of(fnd, "backup", &json!({"source": "/nonexistent/data"})),
        "exit-2"
    );
}

fn csv_report(fnd: &Fnd) {
    fnd.wait_ready("csv-report");
    let run = fnd
        .ctl_with(&["invoke", "csv-report", "-d", "-"], b"name,size\na,1\nb,3\n")
        .expect_code(0);
    assert_eq!(
        run.json(),
        json!({"rows": 2, "columns": {"size": {"sum": 4.0, "min": 1.0, "max": 3.0, "mean": 2.0}}})
    );
    let empty = fnd.ctl(&["invoke", "csv-report"]);
    assert_eq!(empty.code, 1, "{empty}");
}

fn mirror_git(fnd: &Fnd) {
    let origin = fnd.shared_directory("origin");
    show(fnd, "mirror-git.sh", origin.parent().unwrap());
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args([
                "-C",
                &origin.display().to_string(),
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@example.com",
            ])
            .args(arguments)
            .env_remove("GIT_DIR")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "first"]);
    // git refuses a repository of another user on the disk; over HTTP the server would decide that.
    let settings = origin.with_file_name("gitconfig");
    fs::write(&settings, "[safe]\n\tdirectory = *\n").unwrap();
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o644)).unwrap();
    let payload = json!({"url": format!("file://{}", origin.display())});
    let source = fs::read_to_string(fnd.path("functions/mirror-git.sh")).unwrap();
    let prompt = "# GIT_TERMINAL_PROMPT = \"0\"\n";
    let more = format!("{prompt}# GIT_CONFIG_GLOBAL = {:?}\n", settings.display().to_string());
    fnd.drop_file("mirror-git.sh", &source.replace(prompt, &more));
    wait_until("the test's settings of git to serve", PATIENCE, || {
        fnd.ctl(&["show", "mirror-git", "-o", "json"])
            .out()
            .contains("GIT_CONFIG_GLOBAL")
            .then_some(())
    });
    let first = result_of(fnd, "mirror-git", &payload);
    assert!(first["refs"]["refs/heads/main"].is_string(), "{first}");
    git(&["commit", "--quiet", "--allow-empty", "-m", "second"]);
    let second = result_of(fnd, "mirror-git", &payload);
    assert_ne!(first, second);
}

fn inventory_group_and_exec(fnd: &Fnd) {
    let inventory = result_of(fnd, "inventory", &json!({}));
    assert!(
        inventory["memory_bytes"].as_u64().unwrap() > 0 && inventory["kernel"].is_string(),
        "{inventory}"
    );
    assert!(result_of(fnd, "load-average", &json!({}))["one"].is_number());
    let beat = result_of(fnd, "ops/heartbeat", &json!({}));
    assert!(beat["up_seconds"].is_number() && beat["run"].is_string(), "{beat}");
    let top = result_of(fnd, "ops/top-memory", &json!({"count": 2}));
    assert!(top.as_array().is_some_and(|list| list.len() <= 2), "{top}");
}

fn get(fnd: &Fnd, name: &str, path: &str) -> Answer {
    let name = name.replace('/', "%2F");
    fnd.client().get(&format!("/v1/functions/{name}/http{path}"))
}

/// One fnd has all of these; each needs interpreters of its own.
#[test]
fn examples_in_several_languages() {
    let fnd = with_examples(&["web/hello", "web/order", "web/words"]);
    handlers_that_read_the_request(&fnd);
    handlers_that_take_json(&fnd);
    scripts_in_perl_and_lua(&fnd);
    a_script_in_java(&fnd);
    fnd.finish();
}

/// The handlers read query and method. Each is loaded once: the second call finds the state of the first.
fn handlers_that_read_the_request(fnd: &Fnd) {
    require!(deno, go, java, php, ruby);
    let names = [
        "web/hello.py",
        "web/hello-deno.ts",
        "web/hello-node.cjs",
        "web/hello-ruby.rb",
        "web/hello-php.php",
        "web/hello-go.go",
        "web/hello-java.java",
    ];
    for file in names {
        let (name, _) = file.rsplit_once('.').unwrap();
        fnd.wait_ready(name);
        for (query, who, calls) in [("?name=Ada", "Ada", 1), ("", "you", 2)] {
            let answer = get(fnd, name, &format!("/{query}"));
            assert_eq!(answer.status, 200, "{name}: {}", answer.text());
            let expected = json!({"hello": who, "method": "GET", "calls": calls});
            assert_eq!(answer.json::<Value>(), expected, "{name}");
        }
    }
}

fn handlers_that_take_json(fnd: &Fnd) {
    require!(deno, go, java, php, ruby);
    let names = [
        "web/order.py",
        "web/order-deno.ts",
        "web/order-node.cjs",
        "web/order-ruby.rb",
        "web/order-php.php",
        "web/order-go.go",
        "web/order-java.java",
    ];
    for file in names {
        let (name, _) = file.rsplit_once('.').unwrap();
        let order = json!({"items": [{"price": 2.5, "count": 2}, {"price": 0.1}]});
        assert_eq!(result_of(fnd, name, &order), json!({"total": 5.1}), "{name}");
        let answer = fnd.invoke(name, "{}");
        assert_eq!(answer.status, 422, "{name}: {}", answer.text());
        assert_eq!(answer.json::<Value>(), json!({"error": "an order has `items`"}));
    }
}

fn scripts_in_perl_and_lua(fnd: &Fnd) {
    require!(lua);
    assert_eq!(result_of(fnd, "web/hello-perl", &Value::Null)["hello"], "you");
    fnd.wait_ready("web/hello-lua");
    assert_eq!(fnd.invoke("web/hello-lua", "").text().trim_end(), "hello, you");
    let order = json!({"items": [{"price": 2.5, "count": 2}, {"price": 0.1}]});
    assert_eq!(result_of(fnd, "web/order-perl", &order), json!({"total": 5.1}));
    let words = json!({"lines": 0, "words": 2, "bytes": 5});
    assert_eq!(result_of(fnd, "web/words-lua", &json!("a b")), words);
}

fn a_script_in_java(fnd: &Fnd) {
    require!(java);
    let words = json!({"lines": 0, "words": 2, "bytes": 5});
    assert_eq!(result_of(fnd, "web/words-java", &json!("a b")), words);
}

fn handlers_with_dependencies(fnd: &Fnd) {
    let post = |name: &str, kind: &str, body: &[u8]| {
        fnd.wait_ready(name);
        let path = format!("/v1/functions/{}/invoke", name.replace('/', "%2F"));
        fnd.client().call("POST", &path, &[("content-type", kind)], body)
    };
    let answer = post("web/yaml-to-json", "text/yaml", b"a: [1, two]\n");
    assert_eq!(answer.json::<Value>(), json!({"a": [1, "two"]}));
    assert_eq!(post("web/yaml-to-json", "text/yaml", b"a: [").status, 422);
    let answer = post("checksum", "application/octet-stream", b"abc");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.json::<Value>(),
        json!({
            "bytes": 3,
            "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "md5": "900150983cd24fb0d6963f7d28e17f72",
        })
    );
    let answer = post("slug", "text/plain", "Größere Füße, größere Schuhe!".as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.json::<Value>(),
        json!({"slug": "grossere-fusse-grossere-schuhe"})
    );
    fnd.wait_ready("web/load");
    let answer = fnd.invoke("web/load", "");
    assert!(answer.json::<Value>()["load"].is_number(), "{}", answer.text());
    assert_eq!(reason_of(fnd, "web/load", &json!({"limit": -1})), "transient");
}

fn a_program_that_serves_http(fnd: &Fnd) {
    fnd.wait_ready("web/files");
    let url = "/v1/functions/web%2Ffiles/http/notes.txt";
    let answer = fnd
        .client()
        .call("PUT", url, &[("content-type", "text/plain")], b"kept\n");
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(get(fnd, "web/files", "/notes.txt").text(), "kept\n");
    assert!(get(fnd, "web/files", "/").text().contains("notes.txt"));
    assert_eq!(get(fnd, "web/files", "/other.txt").status, 404);
    assert_eq!(
        fnd.client().call("PUT", &url.replace("notes", ".."), &[], b"x").status,
        400
    );
}

fn a_service(fnd: &Fnd) {
    let _ = fnd.wait_function("ops/watch-root", "to run", |function| function.running == 1);
    wait_until("it to say how the disk is", PATIENCE, || {
        let logs = fnd.ctl(&["logs", "ops/watch-root"]);
        logs.out().contains("the disk is").then_some(())
    });
}
