//! Requests of an fnd that was taken over, and attacks by functions and by people.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, Outcome, is_root, privileged, root, until};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{AdoptionRecord, Hello, Install, Installed, PROTOCOL_MIN, Reply, Request, Spawn, Sweep};
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use std::fs::{self, File, Permissions};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::Path;
use std::process::Command;

/// A request of a hostile fnd: any source with any manifest for any function.
fn install(directory: u16, function: &str, source: &str, sidecar: Option<&str>, directory_form: bool) -> Install {
    Install {
        directory,
        function: FunctionName::new(function).unwrap(),
        source: source.to_owned(),
        sidecar: sidecar.map(str::to_owned),
        directory_form,
    }
}

fn refused(harness: &mut Harness, install: Install, words: &str) {
    let shown = format!("{install:?}");
    match harness.ask_to_install(install) {
        Outcome::Refused(problems, _) => {
            assert!(problems.iter().any(|problem| problem.message.contains(words)), "{shown}: {problems:?}");
        }
        Outcome::Installed(installed) => panic!("{shown}: {installed:?}"),
    }
}

fn installed(harness: &mut Harness, install: Install) -> Installed {
    match harness.ask_to_install(install) {
        Outcome::Installed(installed) => installed,
        Outcome::Refused(problems, _) => panic!("{problems:?}"),
    }
}

#[test]
fn code_is_installed_as_the_function_that_its_path_names_and_no_other() {
    let mut harness = Harness::start();
    for name in ["victim.sh", "mallory.sh", "ops/tool.sh", ".hidden.sh", "old.sh.bak", "form/main.sh", "form/helper.sh"]
    {
        harness.write(name, "id -u");
    }
    harness.write("form/function.toml", "entry=main.sh");
    let no = "is not the code of function";
    refused(&mut harness, install(0, "victim", "mallory.sh", None, false), no);
    refused(&mut harness, install(0, "tool", "ops/tool.sh", None, false), no);
    refused(&mut harness, install(0, "hidden", ".hidden.sh", None, false), no);
    refused(&mut harness, install(0, "old", "old.sh.bak", None, false), no);
    refused(&mut harness, install(0, "victim", "./victim.sh", None, false), no);
    refused(&mut harness, install(0, "victim", "ops/../victim.sh", None, false), no);
    refused(&mut harness, install(0, "victim", "form", None, true), no);
    refused(&mut harness, install(0, "form/helper", "form/helper.sh", None, false), "is part of the function `form`");
    installed(&mut harness, install(0, "ops/tool", "ops/tool.sh", None, false));
    installed(&mut harness, install(0, "form", "form", None, true));
}

#[test]
fn a_manifest_is_the_file_beside_the_code_whatever_fnd_says() {
    let mut harness = Harness::start();
    harness.write("a.sh", ":");
    harness.write("b.sh", ":");
    harness.write("b.toml", "memory=99999999");
    harness.write("form/function.toml", "entry=main.sh");
    harness.write("form/main.sh", ":");
    refused(&mut harness, install(0, "a", "a.sh", Some("b.toml"), false), "is not the manifest of");
    refused(&mut harness, install(0, "form", "form", Some("b.toml"), true), "is not the manifest of");
    // A manifest may be without code, and is then that of its own function.
    refused(&mut harness, install(0, "a", "b.toml", None, false), "is not the code of function");
    refused(&mut harness, install(0, "b", "b.toml", Some("a.toml"), false), "is not the manifest of");
    // A manifest that fnd does not name counts, too.
    harness.write("a.toml", "refuse=1");
    match harness.ask_to_install(install(0, "a", "a.sh", None, false)) {
        Outcome::Refused(problems, document) => assert!(problems.is_empty() && document.is_some()),
        Outcome::Installed(installed) => panic!("without its manifest: {installed:?}"),
    }
}

#[test]
fn a_directory_that_comes_later_replaces_nothing_of_one_that_comes_first() {
    let mut harness = Harness::with(&Options { uploads: true, ..Options::default() });
    harness.write("a.py", "1");
    harness.write("ops/b", "1");
    harness.write("form/function.toml", "");
    harness.write("data/notes", "");
    harness.write("elsewhere.toml", "");
    for name in ["a.sh", "ops/b.sh", "form.sh", "elsewhere.sh", "data.sh", "free.sh"] {
        let path = harness.path("uploads").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, ":").unwrap();
    }
    let no = "comes before this one";
    refused(&mut harness, install(1, "a", "a.sh", None, false), no);
    refused(&mut harness, install(1, "ops/b", "ops/b.sh", None, false), no);
    refused(&mut harness, install(1, "form", "form.sh", None, false), no);
    refused(&mut harness, install(1, "elsewhere", "elsewhere.sh", None, false), no);
    installed(&mut harness, install(1, "data", "data.sh", None, false));
    installed(&mut harness, install(1, "free", "free.sh", None, false));
    fs::remove_file(harness.path("functions/a.py")).unwrap();
    installed(&mut harness, install(1, "a", "a.sh", None, false));
}

#[test]
fn a_file_of_another_system_takes_no_name_that_its_place_does_not_allow() {
    let mut harness = Harness::with(&Options { uploads: true, ..Options::default() });
    harness.write("victim.sh", "id -u");
    harness.write("form/function.toml", "entry=main.sh");
    for dir in ["functions", "functions/ops", "functions/form", "uploads"] {
        fs::create_dir_all(harness.path(dir)).unwrap();
        fs::write(harness.path(dir).join("evil.yaml"), "kind: Function").unwrap();
    }
    // Only its content says which function it is, so fnd may name any; but not one that another file has.
    refused(&mut harness, install(1, "victim", "evil.yaml", None, false), "comes before this one");
    refused(&mut harness, install(0, "form/evil", "form/evil.yaml", None, false), "is part of the function `form`");
    let no = "is not the code of function";
    for function in ["fnd-check", "fnd-build", "fnd-build-u1000", "ops/tool"] {
        refused(&mut harness, install(0, function, "evil.yaml", None, false), no);
    }
    refused(&mut harness, install(0, "tool", "ops/evil.yaml", None, false), no);
}

#[test]
fn of_two_authors_who_share_a_directory_neither_takes_the_others_name() {
    if !root() {
        return;
    }
    let mut harness = Harness::start();
    fs::set_permissions(harness.path("functions"), Permissions::from_mode(0o1777)).unwrap();
    for (name, owner) in [("a.sh", 12_001), ("a.py", 12_002), ("b.sh", 12_001), ("b.txt", 12_001)] {
        lchown(harness.write(name, ":"), Some(owner), Some(owner)).unwrap();
    }
    refused(&mut harness, install(0, "a", "a.py", None, false), "belongs to another user");
    refused(&mut harness, install(0, "a", "a.sh", None, false), "belongs to another user");
    installed(&mut harness, install(0, "b", "b.sh", None, false));
}

#[test]
fn a_directory_is_read_only_so_deep_and_paths_are_only_so_long() {
    let mut harness = Harness::start();
    let functions = harness.path("functions");
    let form = |name: &str| {
        fs::create_dir(functions.join(name)).unwrap();
        fs::write(functions.join(name).join("function.toml"), "entry=main.sh").unwrap();
        fs::write(functions.join(name).join("main.sh"), ":").unwrap();
    };
    form("deep");
    let mut dir =
        rustix::fs::open(functions.join("deep"), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..1500 {
        rustix::fs::mkdirat(&dir, "d", rustix::fs::Mode::RWXU).unwrap();
        dir = rustix::fs::openat(&dir, "d", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    }
    refused(&mut harness, install(0, "deep", "deep", None, true), "more than 32 levels");
    form("long");
    let mut path = functions.join("long");
    for _ in 0..6 {
        path.push("n".repeat(200));
    }
    fs::create_dir_all(&path).unwrap();
    refused(&mut harness, install(0, "long", "long", None, true), "longer than 1,024 bytes");
    form("fine");
    fs::create_dir_all(functions.join("fine").join("d/".repeat(31))).unwrap();
    installed(&mut harness, install(0, "fine", "fine", None, true));
}

/// Ids and names of the spawner's children.
fn children(harness: &Harness) -> Vec<(i32, String)> {
    let parent = harness.child.id();
    let ids = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let comm = |id: &str| fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default().trim().to_owned();
    ids.split_whitespace().map(|id| (id.parse().unwrap(), comm(id))).collect()
}

fn signal(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn a_large_file_is_copied_beside_the_loop() {
    let mut harness = Harness::start();
    harness.write("large/function.toml", "entry=main.sh");
    harness.write("large/main.sh", ":");
    let sparse = File::create(harness.path("functions/large/data")).unwrap();
    sparse.set_len(48 << 20).unwrap();
    let number = harness.send(&Request::Install(install(0, "large", "large", None, true)), Vec::new());
    let mut helper = None;
    until("a helper copies", || {
        helper = children(&harness).into_iter().find(|(_, comm)| comm == "fnd-spawner:h").map(|(pid, _)| pid);
        helper.is_some()
    });
    signal(helper.unwrap(), rustix::process::Signal::STOP);
    harness.is_served();
    // Other functions are installed meanwhile.
    harness.install("small.sh", ":", "");
    signal(helper.unwrap(), rustix::process::Signal::CONT);
    let Reply::Installed(installed) = harness.answer(number).0 else { panic!("refused") };
    let copy = harness.path(&format!("state/versions/large/{}/code/data", installed.version.hex()));
    assert_eq!(fs::metadata(copy).unwrap().len(), 48 << 20);
    let versions: Vec<_> =
        fs::read_dir(harness.path("state/versions")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(versions.len(), 2, "nothing is left staged: {versions:?}");
}

#[test]
fn a_link_gives_only_what_its_owner_may_read() {
    if !root() {
        return;
    }
    let mut harness = Harness::with(&Options { uploads: true, ..Options::default() });
    let functions = harness.path("functions");
    let link = |target: &str, name: &str, owner: u32| {
        symlink(target, functions.join(name)).unwrap();
        lchown(functions.join(name), Some(owner), Some(owner)).unwrap();
    };
    for (name, mode) in [("secret.sh", 0o600), ("open.sh", 0o644)] {
        fs::set_permissions(harness.write(name, "echo"), Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(functions.join("closed")).unwrap();
    harness.write("closed/inner.sh", ":");
    fs::set_permissions(functions.join("closed"), Permissions::from_mode(0o700)).unwrap();
    fs::write(harness.path("uploads/up.sh"), ":").unwrap();
    link("secret.sh", "steals.sh", 12_001);
    link("steals.sh", "indirect.sh", 0);
    link("closed/inner.sh", "closes.sh", 12_001);
    link("open.sh", "reads.sh", 12_001);
    link("secret.sh", "roots.sh", 0);
    link("../uploads/up.sh", "upload.sh", 12_001);
    link(functions.join("open.sh").to_str().unwrap(), "absolute.sh", 12_001);
    link("../etc/fnd.toml", "out.sh", 0);
    link("loop.sh", "loop.sh", 0);
    for name in ["steals", "indirect", "closes"] {
        refused(&mut harness, install(0, name, &format!("{name}.sh"), None, false), "the owner of the symbolic link");
    }
    for name in ["reads", "roots", "upload", "absolute"] {
        installed(&mut harness, install(0, name, &format!("{name}.sh"), None, false));
    }
    refused(&mut harness, install(0, "out", "out.sh", None, false), "leads out of the functions directories");
    refused(&mut harness, install(0, "loop", "loop.sh", None, false), "symbolic links");
    // The same holds for a manifest, and for a file of a directory.
    harness.write("m.sh", ":");
    link("secret.sh", "m.toml", 12_001);
    refused(&mut harness, install(0, "m", "m.sh", None, false), "the owner of the symbolic link");
    harness.write("form/function.toml", "entry=main.sh");
    harness.write("form/main.sh", ":");
    link("../secret.sh", "form/more", 12_001);
    refused(&mut harness, install(0, "form", "form", None, true), "the owner of the symbolic link");
}

#[test]
fn a_directory_of_the_run_goes_whatever_the_function_did_to_it() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let deep = "cd $TMPDIR; for n in $(seq 400); do mkdir d; cd d; done; touch x";
    let closed = "mkdir -p $TMPDIR/a/b/c; touch $TMPDIR/a/b/c/f; ln -s /etc $TMPDIR/a/l; chmod 000 $TMPDIR/a/b/c $TMPDIR/a/b $TMPDIR/a $TMPDIR";
    let odd =
        "mkfifo $TMPDIR/p; mkdir $TMPDIR/0 $TMPDIR/0/0; touch $TMPDIR/0/0/0 $TMPDIR/-f; chmod 500 $TMPDIR/0 $TMPDIR";
    for (name, script) in [("deep", deep), ("closed", closed), ("odd", odd)] {
        let installed = harness.install(&format!("{name}.sh"), script, "");
        let invocation = InvocationId(7);
        let (worker, number) = harness.order_in(&installed, invocation, (None, None), &[]);
        let run = harness.finish(worker, number);
        assert_eq!(run.stderr, "", "{name}");
        let dir = harness.path(&format!("state/tmp/{name}/{invocation}"));
        assert!(dir.exists());
        assert_eq!(harness.release(&installed, invocation), Reply::Done, "{name}");
        assert!(!dir.exists(), "{name}");
    }
    assert!(Path::new("/etc/passwd").exists());
}

#[test]
fn directories_of_invocations_that_nobody_knows_are_removed() {
    if !privileged() {
        return;
    }
    fn make_leftovers(dir: &Path, first: u32) {
        for (name, id) in [("gone", 101_u128), ("gone", 102), ("here", 103), ("here", 104)] {
            let tmp = dir.join("state/tmp").join(name).join(InvocationId(id).to_string()).join("tmp");
            fs::create_dir_all(&tmp).unwrap();
            fs::write(tmp.join("file"), "").unwrap();
            fs::set_permissions(&tmp, Permissions::from_mode(0o000)).unwrap();
            lchown(&tmp, Some(first), Some(first)).unwrap();
        }
        for home in ["home/gone", "home/ops.gone", "cache/gone", "home/here"] {
            fs::create_dir_all(dir.join("state").join(home)).unwrap();
        }
    }
    let mut harness = Harness::with(&Options { prepare: Some(make_leftovers), ..Options::default() });
    let installed = harness.install("runs.sh", "read line; echo $TMPDIR", "");
    let (read, write) = rustix::pipe::pipe().unwrap();
    let (worker, number) = harness.order_pipe(&installed, read);
    let (_, mut descriptors) = harness.spawned(number);
    let sweep = Sweep {
        functions: ["here", "runs"].map(|name| FunctionName::new(name).unwrap()).into(),
        invocations: vec![InvocationId(104)],
    };
    let number = harness.send(&Request::Sweep(sweep), Vec::new());
    let Reply::Swept(swept) = harness.answer(number).0 else { panic!("no answer") };
    assert_eq!((swept.count, swept.names), (2, vec!["gone".to_owned(), "ops.gone".to_owned()]));
    let there = |name: &str, id| harness.path("state/tmp").join(name).join(InvocationId(id).to_string()).exists();
    until("what nobody knows is gone", || {
        ![("gone", 101), ("gone", 102), ("here", 103)].map(|(n, id)| there(n, id)).contains(&true)
    });
    assert!(there("here", 104) && there("runs", u128::from(worker)), "what is known stays");
    drop(write);
    assert!(common::text(descriptors.pop_front().unwrap()).contains("state/tmp/runs"));
}

#[test]
fn what_the_administrator_took_back_does_not_start_again() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::with(&Options { config: "allow_root allow_nobody", ..Options::default() });
    let fails = |harness: &mut Harness, version: &Installed, words: &str| {
        let (_, number) = harness.order(version, None, &[]);
        match harness.answer(number).0 {
            Reply::SpawnFailed(failed) => assert!(failed.message.contains(words), "{}", failed.message),
            other => panic!("{other:?}"),
        }
    };
    let as_root = harness.install("r.sh", "id -u", "user=root");
    assert_eq!(harness.run(&as_root, None, &[]).stdout, "0\n");
    let as_daemon = harness.install("r.sh", "id -u", "user=daemon");
    assert_eq!(harness.run(&as_daemon, None, &[]).stdout, "1\n");
    let gone = "its files no longer ask for that user";
    fails(&mut harness, &as_root, gone);
    let own = harness.install("r.sh", "id -u", "");
    fails(&mut harness, &as_root, gone);
    fails(&mut harness, &as_daemon, gone);
    assert_eq!(harness.run(&own, None, &[]).stdout, format!("{}\n", own.uid));
    // A refused file changes nothing. If the file asks for the user again, the version may start again.
    let again = harness.install("r.sh", "id -u", "user=root");
    assert_eq!(again.version, as_root.version);
    harness.write("r.toml", "refuse=1");
    assert!(matches!(harness.try_install("r.sh", Some("r.toml")), Outcome::Refused(..)));
    assert_eq!(harness.run(&again, None, &[]).stdout, "0\n");
    // This holds also if fnd does not report that the file was removed.
    fs::remove_file(harness.path("functions/r.sh")).unwrap();
    fails(&mut harness, &again, "no longer exist");
}

fn spawn_with(harness: &mut Harness, installed: &Installed, worker: u64, input: OwnedFd, as_previous: bool) -> Reply {
    let spawn = Spawn {
        worker: WorkerId(worker),
        function: installed.id,
        version: installed.version,
        invocation: InvocationId(u128::from(worker)),
        environment: Vec::new(),
        input: !as_previous,
        previous: as_previous,
        lasts_ms: 0,
        record: Bytes::default(),
    };
    let number = harness.send(&Request::Spawn(spawn), vec![input]);
    harness.answer(number).0
}

#[test]
fn descriptors_are_pipes_and_memory_files_or_refused() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("cat.sh", "cat; cat ${FND_PREVIOUS:-/dev/null}", "");
    let fifo = harness.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let path = harness.path("file");
    fs::write(&path, "secret").unwrap();
    let mut worker = 0;
    let mut try_with = |harness: &mut Harness, input: OwnedFd, as_previous: bool| {
        worker += 1;
        spawn_with(harness, &installed, worker, input, as_previous)
    };
    let opened = |path: &Path| OwnedFd::from(File::options().read(true).write(true).open(path).unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refusals = [
        (opened(&fifo), false),
        (opened(&path), false),
        (File::open("/proc/self/status").unwrap().into(), false),
        (File::open("/proc/self/status").unwrap().into(), true),
        (opened(&path), true),
        (File::open("/").unwrap().into(), false),
        (rustix::pipe::pipe().unwrap().0, true),
        (listener.into(), false),
    ];
    for (number, (fd, as_previous)) in refusals.into_iter().enumerate() {
        match try_with(&mut harness, fd, as_previous) {
            Reply::SpawnFailed(failed) => {
                assert!(failed.message.contains("descriptor"), "{number}: {}", failed.message);
            }
            other => panic!("{number}: {other:?}"),
        }
    }
    assert_eq!(fs::metadata(&fifo).unwrap().uid(), 0);
    let memory = rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert!(matches!(try_with(&mut harness, memory, false), Reply::Spawned(_)));
    let (read, _write) = rustix::pipe::pipe().unwrap();
    assert!(matches!(try_with(&mut harness, read, false), Reply::Spawned(_)));
}

/// A socket whose close waits ten minutes for a peer that does not read.
fn lingering() -> (OwnedFd, std::net::TcpStream) {
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let peer = listener.accept().unwrap().0;
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 65_536]).is_ok() {}
    let linger = nix::libc::linger { l_onoff: 1, l_linger: 600 };
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Linger, &linger).unwrap();
    socket.set_nonblocking(false).unwrap();
    (socket.into(), peer)
}

/// A connection in which a descriptor waits that nobody receives.
fn connection_with(descriptor: &OwnedFd) -> OwnedFd {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(&ours, &[std::io::IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
    theirs.into()
}

#[test]
fn closing_what_fnd_passed_does_not_hold_up_the_loop() {
    let mut harness = Harness::with(&Options { listen: true, ..Options::default() });
    let mut peers = Vec::new();
    let spawner = i32::try_from(harness.child.id()).unwrap();
    let stop = || signal(spawner, rustix::process::Signal::STOP);
    let go_on = || signal(spawner, rustix::process::Signal::CONT);
    // The spawner is stopped until the copy here is closed, so that it has the last one. The frames may have no
    // descriptor.
    let record = || AdoptionRecord { worker: WorkerId(1 << 40), record: Bytes::default() };
    let cases = [
        (Request::Term(WorkerId(1 << 40)), false),
        (Request::Reload, false),
        // A connection may be passed, and such a socket may wait in it.
        (Request::Term(WorkerId(1 << 40)), true),
        (Request::AdoptionRecord(record()), true),
    ];
    for (request, is_inside) in cases {
        let (mut socket, peer) = lingering();
        peers.push(peer);
        if is_inside {
            socket = connection_with(&socket);
        }
        stop();
        harness.send(&request, vec![socket]);
        go_on();
        harness.is_served();
    }
    // In frames that are never read, since the connection ends first.
    let (socket, peer) = lingering();
    peers.push(peer);
    stop();
    harness.send(&Request::Reload, vec![socket]);
    harness.socket = None;
    go_on();
    let ours = common::connect(&harness.path("spawner.sock"));
    harness.socket = Some(fnd_spawner::protocol::Channel::new(ours));
    let number = harness.send(&Request::Hello(Hello { min: PROTOCOL_MIN, max: PROTOCOL_MIN }), Vec::new());
    assert!(matches!(harness.answer(number).0, Reply::Welcome(_)));
    drop(peers);
    harness.socket = None;
    signal(spawner, rustix::process::Signal::TERM);
}

#[test]
fn closing_the_connection_of_an_ended_worker_does_not_hold_up_the_loop() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("true.sh", "true", "");
    let spawner = i32::try_from(harness.child.id()).unwrap();
    let open = || fs::read_dir(format!("/proc/{spawner}/fd")).unwrap().count();
    let acknowledge_with = |harness: &mut Harness, connection: OwnedFd| {
        let (worker, number) = harness.order(&installed, None, &[]);
        drop(harness.spawned(number));
        harness.wait(|_, reply: &Reply| matches!(reply, Reply::Exited(exited) if exited.worker.0 == worker));
        // The spawner is stopped until the copy here is closed, so that it has the last one.
        signal(spawner, rustix::process::Signal::STOP);
        let record = AdoptionRecord { worker: WorkerId(worker), record: Bytes::default() };
        harness.send(&Request::AdoptionRecord(record), vec![connection]);
        harness.send(&Request::Acknowledge(WorkerId(worker)), Vec::new());
        signal(spawner, rustix::process::Signal::CONT);
        harness.is_served();
    };
    let pair = || std::os::unix::net::UnixStream::pair().unwrap();
    acknowledge_with(&mut harness, pair().0.into());
    let before = open();
    let (ours, theirs) = pair();
    acknowledge_with(&mut harness, ours.into());
    until("an empty connection is closed", || open() == before);
    drop(theirs);
    let (socket, peer) = lingering();
    let connection = connection_with(&socket);
    drop(socket);
    acknowledge_with(&mut harness, connection);
    harness.is_served();
    drop(peer);
}

/// Starts a spawner on a directory and returns its error message if it does not run.
fn fails_to_start(prepare: impl FnOnce(&Path)) -> String {
    let dir = tempfile::Builder::new().prefix("fnd-spawner-test").tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    for name in ["functions", "etc", "state", "run"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("etc/fnd.toml"), "").unwrap();
    prepare(dir.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_fnd-spawner"));
    for (name, value) in
        [("--functions", "functions"), ("--config", "etc/fnd.toml"), ("--state", "state"), ("--run-dir", "run")]
    {
        command.arg(name).arg(dir.path().join(value));
    }
    let output = command.args(["--socket-fd", "0"]).stdin(std::process::Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn directories_that_others_can_change_are_not_used() {
    if !root() {
        return;
    }
    let own = |path: &Path| lchown(path, Some(12_001), None).unwrap();
    for bad in ["state", "run"] {
        let message = fails_to_start(|dir| own(&dir.join(bad)));
        assert!(message.contains("users other than root can change") && message.contains(bad), "{bad}: {message}");
    }
    let message = fails_to_start(|dir| fs::set_permissions(dir.join("state"), Permissions::from_mode(0o777)).unwrap());
    assert!(message.contains("users other than root can change"), "{message}");
    for inner in ["state/versions", "state/home", "state/tmp", "state/spawner", "run/creds"] {
        let message = fails_to_start(|dir| {
            fs::create_dir(dir.join(inner)).unwrap();
            own(&dir.join(inner));
        });
        assert!(message.contains("users other than root can change") && message.contains(inner), "{inner}: {message}");
    }
    let message = fails_to_start(|dir| own(dir));
    assert!(message.contains("users other than root can change"), "{message}");
}

#[test]
fn a_number_outside_the_range_makes_no_function_root() {
    if !root() {
        return;
    }
    fn table(dir: &Path, first: u32) {
        fs::create_dir_all(dir.join("state/spawner")).unwrap();
        fs::write(dir.join("state/spawner/uids"), format!("0 hello\n1000 person\n{first} old\n")).unwrap();
    }
    let mut harness = Harness::with(&Options { prepare: Some(table), ..Options::default() });
    for name in ["hello", "person", "old", "fresh"] {
        harness.write(&format!("{name}.sh"), "id -u");
    }
    for name in ["hello", "person"] {
        refused(&mut harness, install(0, name, &format!("{name}.sh"), None, false), "outside `[users] range`");
    }
    let first = harness.users.first();
    assert_eq!(installed(&mut harness, install(0, "old", "old.sh", None, false)).uid, first);
    assert_eq!(installed(&mut harness, install(0, "fresh", "fresh.sh", None, false)).uid, first + 1);
}

#[test]
fn a_lost_uid_table_gives_no_home_to_a_stranger() {
    if !root() {
        return;
    }
    fn homes(dir: &Path, first: u32) {
        for (name, uid) in [("kept", first + 3), ("ops.tool", first + 9), ("Not a name", first + 12), ("named", 1)] {
            let home = dir.join("state/home").join(name);
            fs::create_dir_all(&home).unwrap();
            lchown(&home, Some(uid), Some(uid)).unwrap();
        }
    }
    let mut harness = Harness::with(&Options { prepare: Some(homes), ..Options::default() });
    for name in ["new", "kept", "ops/tool", "named"] {
        harness.write(&format!("{name}.sh"), "id -u");
    }
    let mut uid = |name: &str| installed(&mut harness, install(0, name, &format!("{name}.sh"), None, false)).uid;
    let uids = [uid("new"), uid("kept"), uid("ops/tool"), uid("named")];
    assert_eq!(uids.map(|uid| uid - harness.users.first()), [13, 3, 9, 14]);
}

/// The attack: the author plants files in the home, in the cache and in the `TMPDIR` of a retry, and the file is given to
/// root afterwards.
#[test]
fn code_of_another_owner_finds_nothing_that_the_one_before_has_left() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let text = "cd $HOME; ls -A . $TMPDIR $CACHE_DIRECTORY; id -u; touch $HOME/planted $TMPDIR/planted $CACHE_DIRECTORY/planted";
    let file = harness.write("f.sh", text);
    let own = |uid: u32| lchown(&file, Some(uid), Some(uid)).unwrap();
    let request = || install(0, "f", "f.sh", None, false);
    let runs = |harness: &mut Harness, installed: &Installed| {
        let (worker, number) = harness.order_in(installed, InvocationId(7), (None, None), &[]);
        let run = harness.finish(worker, number);
        assert_eq!(run.stderr, "");
        run.stdout.matches("planted").count()
    };
    own(12_001);
    let author = installed(&mut harness, request());
    assert_eq!(runs(&mut harness, &author), 0);
    assert_eq!(runs(&mut harness, &author), 3, "it finds its own files");
    own(0);
    let root = installed(&mut harness, request());
    assert_eq!((root.id, root.uid != author.uid, root.version != author.version), (author.id, true, true));
    let warning = root.warnings.first().expect("it says so");
    assert!(warning.message.contains("belong to root and belonged to uid 12001 before"), "{}", warning.message);
    assert!(warning.help.contains(&format!("fndctl home f --take {}", author.uid)), "{}", warning.help);
    assert_eq!(runs(&mut harness, &root), 0, "nothing of the author's is there");
    // The version before goes on as the user that it had, until root's serves.
    assert_eq!(runs(&mut harness, &author), 2, "its `TMPDIR` was root's meanwhile");
    let home = harness.path(&format!("state/home/f~{}", root.uid));
    assert_eq!(fs::metadata(home).unwrap().uid(), root.uid);
    let aside = || fs::read_dir(harness.path("state/tmp/f")).unwrap().flatten();
    until("what the others have left is removed", || {
        !aside().any(|entry| entry.file_name().to_string_lossy().starts_with("others-"))
    });
    own(12_001);
    assert_eq!(installed(&mut harness, request()).version, author.version, "each owner has its own again");
    own(12_002);
    let third = installed(&mut harness, request());
    assert!(![author.uid, root.uid].contains(&third.uid) && third.warnings.len() == 2, "{:?}", third.warnings);
    assert_eq!(harness.release(&author, InvocationId(7)), Reply::Done);
}

#[test]
fn directories_that_were_removed_are_made_again() {
    let mut harness = Harness::start();
    let first = harness.install("a.sh", "echo $TMPDIR; touch $TMPDIR/t $HOME/h $CACHE_DIRECTORY/c && echo fine", "");
    let runs = is_root() && privileged();
    if runs {
        assert!(harness.run(&first, None, &[]).stdout.ends_with("fine\n"));
    }
    // Without a run there are not all of them.
    let remove = |harness: &Harness, name: &str| {
        let removed = fs::remove_dir_all(harness.path(name));
        assert!(removed.is_ok() || !runs, "{name}: {removed:?}");
    };
    for name in ["state/tmp", "state/home", "state/cache", "run/creds", "run/bindings"] {
        remove(&harness, name);
    }
    if runs {
        let run = harness.run(&first, None, &[]);
        assert!(run.stdout.ends_with("fine\n"), "{}", run.stderr);
    }
    for name in ["state/versions", "state/tmp", "state/home", "run"] {
        remove(&harness, name);
    }
    let again = harness.install("a.sh", "echo $TMPDIR; touch $TMPDIR/t $HOME/h $CACHE_DIRECTORY/c && echo fine", "");
    if runs {
        let run = harness.run(&again, None, &[]);
        assert!(run.stdout.ends_with("fine\n"), "{}", run.stderr);
    }
}
