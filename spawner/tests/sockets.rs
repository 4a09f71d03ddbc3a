//! Directories of the sockets of programs that serve HTTP.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, privileged, until};
use fnd_wire::frame::{Installed, Reply, Request};
use fnd_wire::ids::WorkerId;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes a socket at the path in its environment, reports it, and runs until it is killed.
const SERVER: &str = "/usr/bin/python3 -c '\nimport os, socket, time\n\
    s = socket.socket(socket.AF_UNIX)\ns.bind(os.environ[\"FND_SOCKET_PATH\"])\ns.listen()\n\
    print(\"listens\", flush=True)\ntime.sleep(3600)'\n";

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Returns whether a shell of this user and group can run a command.
fn can((user, group): (u32, u32), what: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.uid(user).gid(group).args(["-c", what]).stdout(Stdio::null()).stderr(Stdio::null());
    shell.status().unwrap().success()
}

/// Starts a server; returns the number of its worker, and its directory.
fn start(harness: &mut Harness, installed: &Installed) -> (u64, PathBuf) {
    let worker = harness.next_worker();
    let dir = harness.path("run/http").join(worker.to_string());
    let socket = dir.join("http.sock");
    let (_, number) = harness.order(installed, None, &[("FND_SOCKET_PATH", socket.to_str().unwrap())]);
    let (_, descriptors) = harness.spawned(number);
    let mut output = [0; 8];
    let length = rustix::io::read(&descriptors[0], &mut output).unwrap();
    if length == 0 {
        panic!("{}", common::text(descriptors.into_iter().nth(1).unwrap()));
    }
    (worker, dir)
}

fn kill(harness: &mut Harness, worker: u64) {
    harness.send(&Request::Kill(WorkerId(worker)), Vec::new());
    harness.exited(worker);
}

#[test]
fn a_socket_has_a_directory_that_its_user_owns_and_only_fnd_may_pass() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("web.sh", SERVER, "");
    let other = harness.install("other.sh", "true", "");
    let reply = harness.wait(|_, reply| matches!(reply, Reply::Sockets(_))).0;
    let http = harness.path("run/http");
    assert_eq!(reply, Reply::Sockets(http.to_str().unwrap().to_owned()));
    let (worker, dir) = start(&mut harness, &installed);
    let meta = fs::metadata(&dir).unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.permissions().mode() & 0o7777), (installed.uid, 0, 0o2710));
    let socket = dir.join("http.sock");
    // The harness acts as fnd, and has root's group; the users of functions have their own groups.
    let usable = format!("test -w {}", socket.display());
    assert!(can((installed.uid, installed.uid), &usable));
    assert!(can((12_345, 0), &usable), "as fnd");
    assert!(!can((other.uid, other.uid), &usable));
    assert!(!can((12_345, 0), &format!("ls {}", dir.display())), "fnd has nothing to look for there");
    assert!(!can((installed.uid, installed.uid), &format!("mv {} {}", dir.display(), http.join("9").display())));
    assert!(!can((installed.uid, installed.uid), &format!("ls {}", http.display())), "no list of the others");
    kill(&mut harness, worker);
    until("it is removed", || names(&http).is_empty());
}

#[test]
fn what_a_function_leaves_beside_its_socket_goes_with_the_worker() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let litter = "cd \"${FND_SOCKET_PATH%/*}\"; mkdir -p $(printf 'd/%.0s' {1..60}); touch f 'g h'; ln -s /etc/passwd link\n\
        chmod 000 d; chmod 000 .; cd /; chmod 2710 \"${FND_SOCKET_PATH%/*}\"\n";
    let installed = harness.install("web.sh", &format!("{litter}{SERVER}"), "");
    let http = harness.path("run/http");
    let (one, _) = start(&mut harness, &installed);
    let (two, kept) = start(&mut harness, &installed);
    kill(&mut harness, one);
    until("the first is removed", || names(&http) == [two.to_string()]);
    assert!(kept.join("http.sock").exists() && kept.join("link").is_symlink());
    kill(&mut harness, two);
    until("all are removed", || names(&http).is_empty());
    assert!(Path::new("/etc/passwd").exists());
    // The function may also have removed its own directory's content.
    let gone = harness.install(
        "gone.sh",
        "rmdir \"${FND_SOCKET_PATH%/*}\" 2>/dev/null; echo $?; rm -rf \"${FND_SOCKET_PATH%/*}\"/*\n",
        "",
    );
    let worker = harness.next_worker();
    let socket = http.join(worker.to_string()).join("http.sock");
    let run = harness.run(&gone, None, &[("FND_SOCKET_PATH", socket.to_str().unwrap())]);
    assert_eq!(run.stdout, "1\n", "its directory is in one of root's");
    until("nothing is left", || names(&http).is_empty());
}

#[test]
fn fnd_chooses_no_other_place_for_a_socket() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("web.sh", SERVER, "");
    let http = harness.path("run/http");
    let next = harness.next_worker().to_string();
    let places = [
        http.join(&next).join("other.sock"),
        http.join(&next).join("sub/http.sock"),
        http.join("77").join("http.sock"),
        http.join("..").join("http").join(&next).join("http.sock"),
        harness.path("elsewhere/http.sock"),
    ];
    for place in places {
        let (_, number) = harness.order(&installed, None, &[("FND_SOCKET_PATH", place.to_str().unwrap())]);
        let Reply::SpawnFailed(failed) = harness.answer(number).0 else { panic!("{place:?}") };
        assert!(failed.message.contains("own directory"), "{failed:?}");
    }
    assert_eq!(names(&http), Vec::<String>::new());
}

#[test]
fn what_a_killed_spawner_left_is_removed_and_in_nobodys_way() {
    if !privileged() {
        return;
    }
    fn make_leftovers(dir: &Path, first: u32) {
        for name in ["1", "earlier-5-2"] {
            let leftover = dir.join("run/http").join(name);
            fs::create_dir_all(leftover.join("below")).unwrap();
            fs::write(leftover.join("http.sock"), "").unwrap();
            std::os::unix::fs::chown(leftover, Some(first), Some(first)).unwrap();
        }
    }
    let mut harness = Harness::with(&Options { prepare: Some(make_leftovers), ..Options::default() });
    let installed = harness.install("web.sh", SERVER, "");
    let (worker, dir) = start(&mut harness, &installed);
    assert_eq!(worker, 1);
    until("only its own is left", || names(&harness.path("run/http")) == ["1"]);
    assert!(dir.join("http.sock").exists() && !dir.join("below").exists());
    kill(&mut harness, worker);
}
