//! A repository behind a real ssh server: keys of the function and of the server.

use super::{Repository, answers, error_with, says};
use crate::secrets::secret;
use fnd_tests::programs::sshd;
use fnd_tests::{Fnd, require};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// An ssh server on a port of its own: one sshd for each connection, which ends with it. The machine's own accounts, keys and
/// settings are not used.
struct SshServer {
    directory: tempfile::TempDir,
    port: u16,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SshServer {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().to_str().unwrap().to_owned();
        fs::write(
            directory.path().join("passwd"),
            format!("root:x:0:0::{at}:/bin/sh\nsshd:x:65534:65534::/:/bin/false\n"),
        )
        .unwrap();
        let settings = format!(
            "HostKey {at}/host\nAuthorizedKeysFile {at}/client.pub\nStrictModes no\nUsePAM no\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        );
        fs::write(directory.path().join("settings"), settings).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let mut served = Vec::new();
            for connection in listener.incoming().flatten() {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                served.push(serve(&at, connection));
            }
            for mut child in served {
                let _ = child.kill(); // it has ended with its connection, unless a test failed
                let _ = child.wait();
            }
        });
        let server = Self {
            directory,
            port,
            ends,
            thread: Some(thread),
        };
        server.make_key("host", "");
        server.make_key("client", "");
        server
    }

    /// Makes a key in place of the one that is there; returns its private half.
    fn make_key(&self, name: &str, passphrase: &str) -> String {
        let path = self.directory.path().join(name);
        let _ = fs::remove_file(&path);
        let mut command = Command::new("/usr/bin/ssh-keygen");
        let made = command
            .args(["-q", "-t", "ed25519", "-C", name, "-N", passphrase, "-f"])
            .arg(&path);
        assert!(made.status().unwrap().success());
        fs::read_to_string(path).unwrap()
    }

    /// Returns the line of the server's key in `known_hosts`.
    fn host_key(&self) -> String {
        let key = fs::read_to_string(self.directory.path().join("host.pub")).unwrap();
        format!("[127.0.0.1]:{} {}", self.port, key.trim())
    }

    fn address(&self, repository: &Repository) -> String {
        format!("ssh://root@127.0.0.1:{}{}", self.port, repository.path())
    }
}

/// Serves one connection. The server sees accounts of its own, and the directory that it demands, in its own mount namespace.
fn serve(at: &str, connection: TcpStream) -> Child {
    const SERVE: &str = "mount --bind \"$1/passwd\" /etc/passwd && mount -t tmpfs run /run && mkdir /run/sshd && \
                         LD_LIBRARY_PATH=$3 exec \"$2\" -i -e -f \"$1/settings\"";
    let (program, libraries) = sshd().unwrap();
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(Path::new(at).join("log"))
        .unwrap();
    let output = OwnedFd::from(connection.try_clone().unwrap());
    Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "/bin/sh",
            "-c",
            SERVE,
            "serve",
            at,
        ])
        .args([program, libraries])
        .stdin(OwnedFd::from(connection))
        .stdout(output)
        .stderr(Stdio::from(log))
        .spawn()
        .unwrap()
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port)); // so that the thread sees it
        let ended = self.thread.take().unwrap().join();
        if std::thread::panicking() || ended.is_err() {
            let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            show(&log);
        }
    }
}

#[expect(clippy::print_stderr, reason = "a test that fails shows what its server printed")]
fn show(log: &str) {
    eprintln!("--- log of sshd\n{log}");
}

#[test]
fn a_function_comes_by_ssh_from_a_server_whose_key_is_known() {
    require!(root, cgroup, sshd);
    let server = SshServer::start();
    let repository = Repository::new();
    repository.write("main.py", &says("by ssh"));
    repository.commit();
    let fnd = Fnd::start();
    let (address, known) = (server.address(&repository), server.host_key());
    let manifest = |more: &str| fnd.drop_file("shop/function.toml", &format!("[source]\ngit = \"{address}\"\n{more}"));
    // Nobody has said which key the server has: it is not learned at the first contact.
    let client = fs::read_to_string(server.directory.path().join("client")).unwrap();
    let _ = secret(&fnd, &["set", "deploy-key"], &client).expect_code(0);
    manifest("key = \"deploy-key\"\n");
    let error = error_with(&fnd, "shop", "ssh does not know the server");
    assert!(error.contains(&format!("[127.0.0.1]:{}", server.port)), "{error}");
    assert!(error.contains("`known_hosts`"), "{error}");
    let keyed = format!("key = \"deploy-key\"\nknown_hosts = [\"{known}\"]\n");
    manifest(&format!("known_hosts = [\"{known}\"]\n"));
    let _ = error_with(&fnd, "shop", "does not let fnd in: name a secret with its key");
    manifest(&keyed);
    answers(&fnd, "shop", "by ssh");
    // A copy of the key is nowhere.
    for arguments in [
        &["logs", "fnd-build"][..],
        &["show", "shop"],
        &["history", "fnd-build", "-o", "json"],
    ] {
        let shown = fnd.ctl(arguments).out();
        assert!(!shown.contains("PRIVATE KEY"), "{shown}");
    }
    // Another server answers in its place: it gets nothing, and the version before serves.
    let real = fs::read(server.directory.path().join("host")).unwrap();
    server.make_key("host", "");
    let _ = fnd.ctl(&["build", "shop"]);
    let error = error_with(&fnd, "shop", "has another host key than `known_hosts` says");
    assert!(error.contains(&format!("[127.0.0.1]:{}", server.port)), "{error}");
    assert_eq!(fnd.invoke("shop", "").text(), "by ssh");
    // The real one is back, with another commit.
    fs::write(server.directory.path().join("host"), real).unwrap();
    repository.write("main.py", &says("again"));
    repository.commit();
    let _ = fnd.ctl(&["build", "shop"]).expect_code(0);
    answers(&fnd, "shop", "again");
    fnd.finish();
}

#[test]
fn a_key_that_opens_nothing_is_refused_with_the_reason() {
    require!(root, cgroup, sshd);
    let server = SshServer::start();
    let repository = Repository::new();
    repository.write("main.py", &says("by ssh"));
    repository.commit();
    let fnd = Fnd::start();
    let (address, known) = (server.address(&repository), server.host_key());
    let manifest = |key: &str| {
        let manifest = format!("[source]\ngit = \"{address}\"\nkey = \"{key}\"\nknown_hosts = [\"{known}\"]\n");
        fnd.drop_file("shop/function.toml", &manifest);
    };
    let other = server.make_key("other", "");
    let locked = server.make_key("locked", "a passphrase");
    let broken = "-----BEGIN OPENSSH PRIVATE KEY-----\nbroken\n-----END OPENSSH PRIVATE KEY-----\n";
    for (name, key, why) in [
        ("other", other.as_str(), "does not let fnd in with the secret in `key`"),
        ("locked", &locked, "without a passphrase: incorrect passphrase"),
        ("broken", broken, "ssh cannot use the secret in `key`"),
    ] {
        let _ = secret(&fnd, &["set", name], key).expect_code(0);
        manifest(name);
        let error = error_with(&fnd, "shop", why);
        assert!(!error.contains("BEGIN"), "{error}");
    }
    fnd.finish();
}

/// The arguments of ssh, without a server.
#[test]
fn a_private_ssh_key_is_given_to_ssh() {
    let repository = Repository::new();
    repository.write("main.py", &says("by ssh"));
    let commit = repository.commit();
    let home = tempfile::tempdir().unwrap();
    let dir = |name: &str| {
        let dir = home.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    };
    let (bin, code, state, given) = (dir("bin"), dir("TREE/code"), dir("state"), dir("given"));
    let ssh = "#!/bin/bash\nprintf '%s\\n' \"$@\" >\"$STATE_DIRECTORY/arguments\"\nwhile [[ $1 == -* ]]; do\n  \
               if [[ $1 == -i ]]; then cp -p \"$2\" \"$STATE_DIRECTORY/key\"; fi\n  shift 2\ndone\nexec bash -c \"$2\"\n";
    fs::write(bin.join("ssh"), ssh).unwrap();
    fs::set_permissions(bin.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(given.join("key"), "-----BEGIN OPENSSH PRIVATE KEY-----\nx").unwrap();
    let script = fnd_tests::programs::repository().join("runtimes/bash/fetch.sh");
    let output = Command::new("/bin/bash")
        .arg(script)
        .arg(code.join("fnd-build.json"))
        .args([
            "git",
            &format!("ssh://git@example.com{}", repository.path()),
            "main",
            "",
        ])
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()))
        .env("STATE_DIRECTORY", &state)
        .env("CREDENTIALS_DIRECTORY", &given)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let marker = fs::read_to_string(state.join("TREE/.fnd-packages")).unwrap();
    assert_eq!(marker, format!("commit {commit}\n"));
    let arguments = fs::read_to_string(state.join("arguments")).unwrap();
    assert!(
        arguments.contains("BatchMode=yes\n") && arguments.contains("IdentitiesOnly=yes\n-i\n"),
        "{arguments}"
    );
    let mode = fs::metadata(state.join("key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = fs::read_to_string(state.join("key")).unwrap();
    assert!(key.ends_with("x\n"), "ssh wants a line feed: {key}");
    assert!(!state.join("home").exists(), "the key stays nowhere");
}
