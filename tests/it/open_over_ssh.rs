//! `fndctl open HOST` and `fndctl -H`: the page of a machine in the browser of another one, and one table of several machines. The
//! machines are network namespaces with a cable between them; an ssh server of one of them has accounts and keys of its own.

use crate::page::for_nobody;
use crate::web::Browser;
use fnd_core::records::outcome::RunState;
use fnd_tests::programs::sshd;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The uid of the person, on both machines.
const NOBODY: u32 = 65534;

const SERVER: &str = "192.0.2.1";
const LAPTOP: &str = "192.0.2.2";

/// Runs sshd. It sees accounts of its own, the directory that it demands, fnd where it is on a machine, and fndctl as installed.
const SERVE: &str = "mount --bind \"$1/passwd\" /etc/passwd && mount -t tmpfs run /run && mkdir /run/sshd /run/fnd && \
                     ln -s \"$2\" /run/fnd/control.sock && mount -t tmpfs bin /usr/local/bin && ln -s \"$3\" /usr/local/bin/ && \
                     LD_LIBRARY_PATH=$5 exec \"$4\" -D -e -f \"$1/settings\"";

/// Runs fndctl as the person, whose home has the settings of ssh.
const AS_PERSON: &str = "mount --bind \"$1/passwd\" /etc/passwd && fndctl=$2 uid=$3 && shift 3 && \
                         exec setpriv --reuid \"$uid\" --regid \"$uid\" --clear-groups \"$fndctl\" \"$@\"";

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A network namespace; a process in it holds it.
struct Machine(Process);

impl Machine {
    fn start() -> Self {
        let mut command = Command::new("unshare");
        command.args([
            "--net",
            "/bin/sh",
            "-c",
            "/usr/sbin/ip link set lo up && echo up && exec cat",
        ]);
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        assert_eq!(first_line(&mut holder), "up\n");
        Self(Process(holder))
    }

    fn pid(&self) -> u32 {
        self.0.0.id()
    }

    /// Returns a command that runs in this machine's network.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.pid())).arg(program);
        command
    }

    /// Returns the command of a shell script that may mount, which no other process sees.
    fn script(&self, script: &str) -> Command {
        let mut command = self.command("unshare");
        command.args(["--mount", "--propagation", "private", "/bin/sh", "-c", script, "script"]);
        command
    }

    fn ip(&self, line: &str) {
        let status = self.command("/usr/sbin/ip").args(line.split(' ')).status().unwrap();
        assert!(status.success(), "ip {line}");
    }

    /// Does something in this machine's network.
    fn inside<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        let network = File::open(format!("/proc/{}/ns/net", self.pid())).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(&network, CloneFlags::CLONE_NEWNET).unwrap();
                action()
            });
            thread.join().unwrap()
        })
    }

    /// Returns the addresses where something listens by TCP, as the kernel writes them (proc_pid_net(5)).
    fn listening(&self) -> BTreeSet<String> {
        /// `TCP_LISTEN`.
        const LISTEN: &str = "0A";
        let tables = ["tcp", "tcp6"]
            .map(|table| fs::read_to_string(format!("/proc/{}/net/{table}", self.pid())).unwrap_or_default());
        let lines = tables.iter().flat_map(|table| table.lines());
        let rows = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row[3] == LISTEN)
            .map(|row| row[1].to_owned())
            .collect()
    }
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    line
}

/// Makes accounts, keys and settings; returns their directory. The person has the same home on both machines.
fn prepare(fnd: &Fnd) -> PathBuf {
    let at = fnd.path("ssh");
    let (shown, home, keys) = (at.display(), at.join("home"), at.join("home/.ssh"));
    fs::create_dir_all(&keys).unwrap();
    make_key(&at.join("host"));
    make_key(&keys.join("id_ed25519"));
    fs::copy(keys.join("id_ed25519.pub"), keys.join("authorized_keys")).unwrap();
    let host_key = fs::read_to_string(at.join("host.pub")).unwrap();
    let accounts = format!(
        "root:x:0:0::/root:/bin/sh\nnobody:x:{NOBODY}:{NOBODY}::{shown}/home:/bin/sh\nsshd:x:65533:65534::/:/bin/false\n"
    );
    let settings = format!(
        "ListenAddress {SERVER}\nHostKey {shown}/host\nPidFile none\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
    );
    for (path, text) in [
        (at.join("passwd"), accounts),
        (at.join("settings"), settings),
        (keys.join("known_hosts"), format!("{SERVER} {host_key}")),
        (
            keys.join("config"),
            format!("Host vm1 vm2\nHostName {SERVER}\nBatchMode yes\nHost vm3\nHostName {SERVER}\nPort 1\n"),
        ),
    ] {
        fs::write(path, text).unwrap();
    }
    let files = fs::read_dir(&keys).unwrap().map(|entry| entry.unwrap().path());
    for path in files.chain([home, keys.clone()]) {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    at
}

fn make_key(path: &Path) {
    let mut command = Command::new("/usr/bin/ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path);
    assert!(command.status().unwrap().success());
}

fn serve(machine: &Machine, at: &Path, fnd: &Fnd, fndctl: &Path) -> Process {
    let (program, libraries) = sshd().unwrap();
    let mut command = machine.script(SERVE);
    command.arg(at).arg(fnd.socket()).arg(fndctl).args([program, libraries]);
    command
        .stdin(Stdio::null())
        .stderr(File::create(at.join("log")).unwrap());
    let server = Process(command.spawn().unwrap());
    wait_until("sshd to listen", PATIENCE, || {
        (!machine.listening().is_empty()).then_some(())
    });
    server
}

/// Returns the command of fndctl as the person.
fn as_person(machine: &Machine, at: &Path, fndctl: &Path) -> Command {
    let mut command = machine.script(AS_PERSON);
    command.arg(at).arg(fndctl).arg(NOBODY.to_string()).current_dir("/");
    for name in ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "FND_SOCKET", "XDG_RUNTIME_DIR"] {
        command.env_remove(name);
    }
    command
}

/// Returns a server and a laptop with a cable between them.
fn two_machines() -> (Machine, Machine) {
    let (server, laptop) = (Machine::start(), Machine::start());
    server.ip(&format!(
        "link add veth0 type veth peer name veth0 netns {}",
        laptop.pid()
    ));
    for (machine, address) in [(&server, SERVER), (&laptop, LAPTOP)] {
        machine.ip(&format!("address add {address}/24 dev veth0"));
        machine.ip("link set veth0 up");
    }
    (server, laptop)
}

/// Opens the page of the server; returns the address that fndctl prints.
fn open(machine: &Machine, at: &Path, fndctl: &Path) -> (Process, String) {
    let mut command = as_person(machine, at, fndctl);
    command.args(["open", "vm1", "-o", "json"]);
    let mut opened = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let line = first_line(&mut opened);
    let opened = Process(opened);
    let log = || fs::read_to_string(at.join("log")).unwrap_or_default();
    let page: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}: {}", log()));
    (opened, page["address"].as_str().unwrap().to_owned())
}

/// Returns the sockets of pages that came over ssh.
fn page_sockets() -> BTreeSet<PathBuf> {
    let paths = fs::read_dir("/tmp").unwrap().map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| path.to_string_lossy().starts_with("/tmp/fnd-web-");
    paths.filter(is_page).collect()
}

#[test]
fn the_page_of_another_machine_comes_through_ssh_alone() {
    require!(root, cgroup, sshd);
    let access = "[[access]]\nuser = \"nobody\"\nrole = \"viewer\"\n";
    let fnd = Fnd::start_with(&Setup::default().config(access));
    let (fndctl, at, before) = (for_nobody(&fnd).unwrap(), prepare(&fnd), page_sockets());
    let (server, laptop) = two_machines();
    let sshd = serve(&server, &at, &fnd, &fndctl);
    let (mut opened, address) = open(&laptop, &at, &fndctl);
    let (mut browser, token) = Browser::at(&address);
    let port: u16 = browser.host.strip_prefix("127.0.0.1:").unwrap().parse().unwrap();

    // Only sshd can be reached from outside, and only the browser's own machine reaches the page.
    assert_eq!(server.listening(), BTreeSet::from(["010200C0:0016".to_owned()]));
    assert_eq!(laptop.listening(), BTreeSet::from([format!("0100007F:{port:04X}")]));
    assert!(server.inside(|| TcpStream::connect((LAPTOP, port)).is_err()));
    let sockets: Vec<PathBuf> = page_sockets().difference(&before).cloned().collect();
    let [socket] = &sockets[..] else { panic!("{sockets:?}") };
    let facts = socket.metadata().unwrap();
    assert_eq!((facts.uid(), facts.mode() & 0o777), (NOBODY, 0o600));

    laptop.inside(|| {
        let has = |answer: &str, status: &str| assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        has(&browser.get("/"), "401");
        has(&browser.sign_in("0000"), "403");
        has(&browser.get("/"), "401");
        has(&browser.sign_in(&token), "303");
        let overview = browser.get("/");
        has(&overview, "200");
        assert!(overview.contains("<h1>Overview</h1>"), "{overview}");
        assert!(TcpStream::connect(("127.0.0.1", port ^ 1)).is_err());
    });

    kill(Pid::from_raw(opened.0.id().cast_signed()), Signal::SIGINT).unwrap();
    assert!(opened.0.wait().unwrap().success());
    assert!(!socket.exists() && laptop.listening().is_empty());
    drop(sshd);
    fnd.finish();
}

#[test]
fn one_table_has_the_answers_of_several_machines_and_of_one_that_refuses() {
    require!(root, cgroup, sshd);
    let access = "[[access]]\nuser = \"nobody\"\nrole = \"viewer\"\n";
    let fnd = Fnd::start_with(&Setup::default().config(access));
    fnd.drop_file("hello.sh", "# /// fnd\n# on_load = false\n# ///\necho hello\n");
    fnd.wait_ready("hello");
    assert_eq!(fnd.wait_end(fnd.queue("hello", "")).state, RunState::Succeeded);
    let (fndctl, at) = (for_nobody(&fnd).unwrap(), prepare(&fnd));
    let (server, laptop) = two_machines();
    let sshd = serve(&server, &at, &fnd, &fndctl);
    let ask = |arguments: &[&str]| {
        let mut command = as_person(&laptop, &at, &fndctl);
        let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };

    let (code, table, errors) = ask(&["-H", "vm1,vm3,nobody@vm2", "history", "--since", "1 hours ago"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 4, "{table}{errors}");
    assert_eq!(rows[0][..3], ["HOST", "ID", "FUNCTION"]);
    for (row, host) in [(&rows[1], "vm1"), (&rows[3], "nobody@vm2")] {
        assert_eq!((row[0], row[2], row[3]), (host, "hello", "succeeded"), "{table}");
    }
    assert_eq!(rows[2][..3], ["vm3", "no", "answer"]);
    assert_eq!(code, Some(4));
    assert!(
        errors.starts_with("error: vm3: does not answer: ssh: connect to host"),
        "{errors}"
    );
    let (code, answers, errors) = ask(&["-H", "vm1,vm2", "status", "-o", "json"]);
    assert_eq!(code, Some(0), "{errors}");
    let answers: Value = serde_json::from_str(&answers).unwrap();
    for (number, host) in ["vm1", "vm2"].into_iter().enumerate() {
        let answer = &answers["hosts"][number];
        assert_eq!(
            (&answer["host"], &answer["functions"][0]["function"]),
            (&host.into(), &"hello".into())
        );
    }
    let (code, _, errors) = ask(&["-H", "vm1", "enable", "hello"]);
    assert!(
        code == Some(2) && errors.contains("`-H` asks several machines"),
        "{errors}"
    );
    drop(sshd);
    fnd.finish();
}
