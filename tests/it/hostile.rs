//! What people, programs and the machine do to fnd that no feature has in its own tests.

use fnd_tests::ctl::Run;
use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::Signal;
use nix::unistd::{Uid, chown};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

const SCRIPT: &str = "# /// fnd\n# on_load = false\n# ///\necho fine\n";

/// The user `nobody` of every Debian.
const NOBODY: u32 = 65534;

/// The list of all functions comes first.
#[test]
fn signals_links_callers_and_clients() {
    let fnd = Fnd::start();
    fndctl_reads_answers_of_another_version(&fnd);
    a_client_that_is_killed_in_a_stream_leaves_nothing(&fnd);
    a_caller_is_who_connected_whatever_it_sends(&fnd);
    a_thousand_reload_signals_end_in_one_state_that_serves(&fnd);
    a_hard_link_to_a_file_of_another_user_has_only_that_users_rights(&fnd);
    fnd.finish();
}

/// The owner of a file decides what it may ask for, and a hard link has the owner of the file that it links.
fn a_hard_link_to_a_file_of_another_user_has_only_that_users_rights(fnd: &Fnd) {
    require!(root);
    let original = fnd.path("of-nobody.sh");
    fs::write(
        &original,
        "# /// fnd\n# on_load = false\n# [sandbox]\n# read_only = [\"/root\"]\n# ///\necho fine\n",
    )
    .unwrap();
    // Not 65534, which no function's file may belong to.
    chown(&original, Some(Uid::from_raw(2)), None).unwrap();
    fs::hard_link(&original, fnd.function_path("linked.sh")).unwrap();
    let refused = fnd.wait_error("linked");
    let error = refused.error.unwrap_or_default();
    assert!(error.contains("belong to root"), "{error}");
    // What the owner may have, the link has.
    fs::write(&original, SCRIPT).unwrap();
    fnd.wait_ready("linked");
    assert_eq!(fnd.run("linked", "").0.text().trim(), "fine");
}

fn a_thousand_reload_signals_end_in_one_state_that_serves(fnd: &Fnd) {
    fnd.drop_file("x.sh", SCRIPT);
    fnd.wait_ready("x");
    for _ in 0..1000 {
        fnd.signal(Signal::SIGHUP);
    }
    fnd.drop_file("y.sh", SCRIPT);
    fnd.wait_ready("y");
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    assert_eq!(fnd.run("x", "").0.text().trim(), "fine");
}

/// A program that is started with closed standard streams gets them as the first files that it opens: no file of fnd may
/// get what others print.
#[test]
fn it_starts_with_closed_standard_streams() {
    let mut fnd = Fnd::prepare(&Setup::default());
    let closes = ["/bin/bash", "-c", "exec \"$@\" <&- >&- 2>&-", "bash"];
    fnd.start_behind(closes.map(str::to_owned).to_vec());
    fnd.drop_file(
        "x.sh",
        "# /// fnd\n# on_load = false\n# ///\necho loud >&2; echo fine\n",
    );
    fnd.launch();
    fnd.wait_ready("x");
    assert_eq!(fnd.run("x", "").0.text().trim(), "fine");
    let _ = fnd.ctl(&["verify"]).expect_code(0);
    for name in ["ledger.db", "state.db", "audit.db"] {
        let bytes = fs::read(fnd.path("state").join(name)).unwrap_or_default();
        assert!(bytes.is_empty() || bytes.starts_with(b"SQLite format 3\0"), "{name}");
    }
    fnd.finish();
}

/// Starts fnd where there are 400 numbers for processes, and passes SIGTERM on to it.
const FEW_PIDS: &str = r#"unshare --pid --fork --kill-child --mount-proc \
    /bin/bash -c 'echo 400 >/proc/sys/kernel/pid_max && exec "$@"' bash "$@" &
child=$!
trap 'kill -TERM $(cat /proc/$child/task/$child/children)' TERM
while kill -0 $child; do
    wait $child
    status=$?
done
exit $status"#;

/// Where numbers of processes are few, a number soon belongs to another process: the end of a run is that of the process that
/// was started, and what a timeout kills has not the number of a run that began meanwhile.
#[test]
fn numbers_of_processes_that_come_back_mix_up_no_runs() {
    require!(root, cgroup, pid_max);
    const CALLERS: u32 = 4;
    const RUNS: u32 = 200;
    let mut fnd = Fnd::prepare(&Setup::default());
    fnd.start_behind(["/bin/bash", "-c", FEW_PIDS, "bash"].map(str::to_owned).to_vec());
    fnd.drop_file(
        "short.sh",
        "# /// fnd\n# on_load = false\n# ///\nread -r n; (:); (:); echo \"$n\"; exit $((n % 90))\n",
    );
    fnd.drop_file(
        "killed.sh",
        "# /// fnd\n# on_load = false\n# [limits]\n# timeout = \"1s\"\n# grace = \"0s\"\n# ///\nsleep 1000 & sleep 1000\n",
    );
    fnd.launch();
    fnd.wait_ready("short");
    fnd.wait_ready("killed");
    let short = |number: u32| {
        let (answer, view) = fnd.run("short", &number.to_string());
        let code = number % 90;
        assert_eq!(
            view.attempt_records[0].exit_code,
            u8::try_from(code).ok(),
            "run {number}: {view:?}"
        );
        if code == 0 {
            assert_eq!(answer.text().trim(), number.to_string());
        }
    };
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| scope.spawn(move || (0..RUNS).for_each(|run| short(caller * RUNS + run))))
            .collect();
        while !callers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let (answer, view) = fnd.run("killed", "");
            assert_eq!(answer.status, 408, "{view:?}");
        }
    });
    fnd.stop();
}

/// Runs a program of Python as another user.
fn python_as(uid: u32, code: &str) -> String {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", code]).uid(uid).gid(uid).current_dir("/").env_clear();
    let output = python.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    String::from_utf8(output.stdout).unwrap() + &errors
}

/// The kernel says who connected. Nothing that a caller sends, and nothing that it becomes later, changes that.
fn a_caller_is_who_connected_whatever_it_sends(fnd: &Fnd) {
    require!(root);
    fnd.drop_file("asked.sh", SCRIPT);
    fnd.wait_ready("asked");
    fs::set_permissions(fnd.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let socket = fnd.socket().display().to_string();
    let connect = format!("import socket, struct, os, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect({socket:?})\n");
    let request = "POST /v1/functions/asked/invoke HTTP/1.1\\r\\nHost: fnd\\r\\nX-Uid: 0\\r\\nX-Forwarded-User: root\\r\\n\
                   X-Forwarded-For: 127.0.0.1\\r\\nForwarded: for=127.0.0.1\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n";
    let answer = "print(s.recv(65536).decode().split('\\r\\n')[0])\n";
    // Headers that name somebody else.
    let forged = format!("{connect}s.sendall(b\"{request}\")\n{answer}");
    // Credentials beside the bytes: the kernel refuses those of another user, and fnd asks for none.
    let passed = format!(
        "{connect}try:\n  s.sendmsg([b\"{request}\"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack('3i', os.getpid(), 0, 0))])\n\
         except PermissionError:\n  s.sendmsg([b\"{request}\"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack('3i', os.getpid(), os.getuid(), os.getgid()))])\n{answer}"
    );
    let quoted = request.replace('\\', "\\\\");
    // It becomes another program between connecting and asking.
    let executes = format!(
        "{connect}os.set_inheritable(s.fileno(), True)\nos.execv('/usr/bin/python3', ['python3', '-c', \
         \"import socket; s = socket.socket(fileno=\" + str(s.fileno()) + \"); s.sendall(b'{quoted}'); print(s.recv(65536).decode().split(chr(13))[0])\"])\n"
    );
    for code in [&forged, &passed, &executes] {
        let status = python_as(NOBODY, code);
        assert!(status.starts_with("HTTP/1.1 403"), "{status}\n{code}");
        let status = python_as(0, code);
        assert!(status.starts_with("HTTP/1.1 200"), "{status}\n{code}");
    }
    // It is gone before fnd looks: nothing runs, and fnd serves on.
    let gone = format!("{connect}s.sendall(b\"{request}\")\nos._exit(0)\n");
    for _ in 0..20 {
        assert_eq!(python_as(NOBODY, &gone), "");
    }
    assert_eq!(fnd.run("asked", "").0.text().trim(), "fine");
    // Three calls of root above, and this one.
    assert_eq!(fnd.history("asked").len(), 4);
}

/// A follower that is killed frees its place; the others read on.
fn a_client_that_is_killed_in_a_stream_leaves_nothing(fnd: &Fnd) {
    fnd.drop_file("x.sh", SCRIPT);
    fnd.wait_ready("x");
    let sockets = || {
        let table = fs::read_dir(format!("/proc/{}/fd", fnd.pid())).unwrap();
        table
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    };
    let before = sockets();
    let mut followers: Vec<_> = (0..5)
        .map(|_| {
            let mut follower = Command::new(program("fndctl"));
            follower.args(["events", "-f"]).env("FND_SOCKET", fnd.socket());
            follower.stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for follower in &mut followers {
        // It is connected when it prints the first event.
        let mut line = String::new();
        let printed = follower.stdout.take().unwrap();
        assert!(BufReader::new(printed).read_line(&mut line).unwrap() > 0);
        follower.kill().unwrap();
        follower.wait().unwrap();
    }
    let _ = fnd.run("x", "");
    wait_until("their connections to end", PATIENCE, || {
        (sockets() <= before).then_some(())
    });
}

/// A newer fnd may say more than this client knows, and an older one less: the client shows what it understands.
fn fndctl_reads_answers_of_another_version(fnd: &Fnd) {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;
    fnd.drop_file("x.sh", SCRIPT);
    fnd.wait_ready("x");
    let mut answer = fnd.client().get("/v1/functions").json::<Value>();
    answer["a_later_list"] = serde_json::json!([{"and": "more"}]);
    answer["functions"][0]["a_later_key"] = Value::from(7);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("later.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let body = answer.to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        let _ = stream.read(&mut head).unwrap();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
    });
    let output = Command::new(program("fndctl"))
        .args(["list", "-o", "name"])
        .env("FND_SOCKET", &path)
        .output()
        .unwrap();
    server.join().unwrap();
    let run = Run {
        code: output.status.code().unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert_eq!(run.expect_code(0).out().trim(), "x");
}
