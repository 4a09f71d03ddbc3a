//! Sources that may be installed, and the messages of refusals.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, Outcome, is_root, root};
use fnd_wire::frame::{Install, Prune, Reply, Request};
use fnd_wire::ids::FunctionName;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

fn mode(harness: &Harness, name: &str, mode: u32) {
    fs::set_permissions(harness.path("functions").join(name), Permissions::from_mode(mode)).unwrap();
}

fn check(harness: &mut Harness, source: &str, manifest: Option<&str>, words: &[&str]) {
    let text = harness.refusal(source, manifest);
    assert!(words.iter().all(|word| text.contains(word)), "{source}: {text}");
}

#[test]
fn what_is_not_a_safe_regular_file_is_refused() {
    let mut harness = Harness::start();
    let functions = harness.path("functions");
    let path = functions.join("fifo.sh");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    check(&mut harness, "fifo.sh", None, &["not a regular file"]);
    let _socket = std::os::unix::net::UnixListener::bind(functions.join("socket.sh")).unwrap();
    check(&mut harness, "socket.sh", None, &["not a regular file"]);
    symlink("/etc/passwd", functions.join("out.sh")).unwrap();
    check(&mut harness, "out.sh", None, &["leads out of the functions directories, to `/etc/passwd`"]);
    symlink("nowhere", functions.join("dangling.sh")).unwrap();
    check(&mut harness, "dangling.sh", None, &["without a target"]);
    check(&mut harness, "absent.sh", None, &["failed to open it", "was removed"]);
    harness.write("open.sh", ":");
    for bits in [0o666, 0o664] {
        mode(&harness, "open.sh", bits);
        check(&mut harness, "open.sh", None, &["INSECURE MODE", "chmod go-w", "open.sh"]);
    }
    harness.write("dir/function.toml", "");
    harness.write("dir/main.sh", ":");
    mode(&harness, "dir", 0o777);
    check(&mut harness, "dir", None, &["INSECURE MODE", "dir`"]);
    mode(&harness, "dir", 0o755);
    symlink("/etc/passwd", functions.join("dir/extra")).unwrap();
    check(&mut harness, "dir", None, &["leads out"]);
    harness.write("m.sh", ":");
    harness.write("m.toml", "");
    mode(&harness, "m.toml", 0o646);
    check(&mut harness, "m.sh", Some("m.toml"), &["INSECURE MODE", "m.toml"]);
    mode(&harness, "", 0o777);
    harness.write("n.sh", ":");
    check(&mut harness, "n.sh", None, &["INSECURE MODE", "functions`"]);
}

#[test]
fn a_link_inside_is_followed() {
    let mut harness = Harness::start();
    harness.write("real.sh", "echo real");
    symlink("real.sh", harness.path("functions/alias.sh")).unwrap();
    let Outcome::Installed(installed) = harness.try_install("alias.sh", None) else { panic!("refused") };
    let code = harness.path(&format!("state/versions/alias/{}/code/alias.sh", installed.version.hex()));
    assert_eq!(fs::read_to_string(code).unwrap(), "echo real");
}

#[test]
fn a_file_exchanged_while_it_is_read_is_never_installed_half() {
    let mut harness = Harness::start();
    let path = harness.write("swap.sh", "");
    let (a, b) = ("a\n".repeat(200_000), "b\n".repeat(200_000));
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            fs::write(&path, &a).unwrap();
            fs::write(&path, &b).unwrap();
        }
    });
    let mut refused = 0;
    for _ in 0..100 {
        match harness.try_install("swap.sh", None) {
            Outcome::Refused(problems, _) => {
                refused += 1;
                assert!(problems[0].message.contains("changed while being read"), "{problems:?}");
            }
            Outcome::Installed(installed) => {
                let path = harness.path(&format!("state/versions/swap/{}/code/swap.sh", installed.version.hex()));
                let text = fs::read_to_string(path).unwrap();
                assert!(!(text.contains('a') && text.contains('b')), "a mixture was installed");
            }
        }
    }
    drop(stop);
    writer.join().unwrap();
    println!("{refused} of 100 refused");
}

#[test]
fn versions_go_by_content_and_stay_until_pruned() {
    let mut harness = Harness::start();
    let first = harness.install("v.sh", "echo 1", "");
    let same = harness.install("v.sh", "echo 1", "");
    assert_eq!((first.version, first.load_key, first.id), (same.version, same.load_key, same.id));
    let second = harness.install("v.sh", "echo 2", "");
    let manifest = harness.install("v.sh", "echo 2", "memory=99999999");
    assert!(
        first.version != second.version && second.version != manifest.version && second.load_key != manifest.load_key
    );
    let dir = harness.path("state/versions/v");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
    let other = harness.install("v.sh", "echo 2", "interpreters=/bin/sh");
    let prune = Prune { function: FunctionName::new("v").unwrap(), keep: vec![other.version] };
    let number = harness.send(&Request::Prune(prune), Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Done);
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [other.version.hex().as_str()]);
    if is_root() {
        let meta = fs::metadata(dir.join(other.version.hex())).unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o777), (0, other.uid, 0o750));
    }
}

#[test]
fn a_directory_is_installed_with_all_it_holds() {
    let mut harness = Harness::start();
    harness.write("big/function.toml", "entry=main.sh");
    harness.write("big/main.sh", "cat lib/text; wc -c <data; ls -a");
    harness.write("big/lib/text", "from lib\n");
    harness.write("big/.git/config", "x");
    harness.write("big/data", &"d".repeat(3 << 20));
    let Outcome::Installed(installed) = harness.try_install("big", None) else { panic!("refused") };
    assert_eq!(fs::read_dir(harness.path("state/versions")).unwrap().count(), 1, "nothing is left staged");
    if is_root() {
        let run = harness.run(&installed, None, &[]);
        assert!(
            run.stdout.contains("from lib\n3145728\n") && !run.stdout.contains(".git"),
            "{} {}",
            run.stdout,
            run.stderr
        );
    }
}

#[test]
fn the_judge_may_refuse_or_die_and_others_are_served() {
    let mut harness = Harness::start();
    harness.write("bad.sh", ":");
    harness.write("bad.toml", "refuse=1");
    let Outcome::Refused(problems, Some(_)) = harness.try_install("bad.sh", Some("bad.toml")) else { panic!() };
    assert!(problems.is_empty());
    harness.write("bad.toml", "crash=1");
    check(&mut harness, "bad.sh", Some("bad.toml"), &["the judge ended while reading this file"]);
    harness.install("good.sh", ":", "document=100000");
    harness.write("odd.sh", ":");
    harness.write("odd.toml", "entry=other.sh");
    check(&mut harness, "odd.sh", Some("odd.toml"), &["entry is not among the files"]);
}

/// Requests are sent to the judge ahead of its answers: the one that it was reading is lost, and no other.
#[test]
fn files_behind_one_that_ends_the_judge_are_judged_by_the_next() {
    let mut harness = Harness::start();
    let names: Vec<String> = (0..100).map(|number| format!("f{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        harness.write(&format!("{name}.sh"), ":");
        harness.write(&format!("{name}.toml"), if number % 10 == 7 { "crash=1" } else { "" });
    }
    let ask = |name: &String| {
        let function = FunctionName::new(name).unwrap();
        let (source, sidecar) = (format!("{name}.sh"), Some(format!("{name}.toml")));
        Request::Install(Install { directory: 0, function, source, sidecar, directory_form: false })
    };
    let asked: Vec<u32> = names.iter().map(|name| harness.send(&ask(name), Vec::new())).collect();
    for (number, asked) in asked.into_iter().enumerate() {
        match harness.answer(asked).0 {
            Reply::Installed(installed) => {
                assert_eq!(installed.function.as_str(), names[number]);
                assert_ne!(number % 10, 7, "it ends the judge");
            }
            Reply::Refused(refused) => {
                assert_eq!((refused.function.as_str(), number % 10), (&*names[number], 7), "{:?}", refused.problems);
                assert_eq!(refused.problems[0].message, "the judge ended while reading this file");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_judge_reads_files_of_one_owner_only() {
    if !common::root() {
        return;
    }
    let mut harness = Harness::start();
    let parent = harness.child.id();
    let judge = || {
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
        let is =
            |pid: &&str| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("--judge"));
        children.split_whitespace().find(is).unwrap().to_owned()
    };
    let (first, mut judges) = (judge(), Vec::new());
    for (name, owner) in [("a.sh", 0), ("b.sh", 0), ("c.sh", 4321), ("d.sh", 4321), ("e.sh", 0)] {
        let path = harness.write(name, "echo");
        std::os::unix::fs::chown(path, Some(owner), None).unwrap();
        assert!(matches!(harness.try_install(name, None), Outcome::Installed(_)));
        judges.push(judge());
    }
    let [a, b, c, d, e] = &judges[..] else { panic!() };
    assert!(*a == first && a == b && b != c && c == d && d != e && e != a, "{first} {judges:?}");
    // The configuration is root's.
    let path = harness.write("f.sh", "echo");
    std::os::unix::fs::chown(path, Some(4321), None).unwrap();
    assert!(matches!(harness.try_install("f.sh", None), Outcome::Installed(_)));
    let before = judge();
    let number = harness.send(&Request::Reload, Vec::new());
    harness.answer(number);
    assert_ne!(judge(), before);
}

/// Asks for functions of these owners, all at once, and returns the owners in the order in which they are installed.
fn order_of_owners(owners: &[u32]) -> Vec<u32> {
    let mut harness = Harness::start();
    // The spawner is stopped until it has been asked for all: their order depends on nothing else.
    let pid = rustix::process::Pid::from_raw(harness.child.id().cast_signed()).unwrap();
    let signal = |signal| rustix::process::kill_process(pid, signal).unwrap();
    signal(rustix::process::Signal::STOP);
    let mut asked = BTreeMap::new();
    for (index, owner) in owners.iter().enumerate() {
        let source = format!("f{index}.sh");
        std::os::unix::fs::chown(harness.write(&source, "echo"), Some(*owner), None).unwrap();
        let function = FunctionName::new(&format!("f{index}")).unwrap();
        let install = Install { directory: 0, function, source, sidecar: None, directory_form: false };
        asked.insert(harness.send(&Request::Install(install), Vec::new()), *owner);
    }
    signal(rustix::process::Signal::CONT);
    let next = |_: &u32| {
        let request = Cell::new(0);
        harness.wait(|number, reply| {
            request.set(number);
            matches!(reply, Reply::Installed(_))
        });
        asked[&request.get()]
    };
    owners.iter().map(next).collect()
}

#[test]
fn files_of_one_owner_are_judged_together_and_no_owner_waits_for_ever() {
    if !common::root() {
        return;
    }
    // The judge has read root's configuration, so root's files come first: one more judge does for all others.
    let mixed: Vec<u32> = [4321, 0].repeat(20);
    assert_eq!(order_of_owners(&mixed), [[0; 20], [4321; 20]].concat());
    // However many of root's there are, not more than 64 of them go before one that was there earlier.
    let mut many = vec![0; 100];
    many[0] = 4321;
    let order = order_of_owners(&many);
    let before = order.iter().take_while(|owner| **owner == 0).count();
    assert!((32..=64).contains(&before), "{order:?}");
}

#[test]
fn interpreters_are_real_and_safe() {
    let mut harness = Harness::start();
    harness.write("i.sh", ":");
    let bad = harness.path("bash");
    fs::copy("/bin/bash", &bad).unwrap();
    fs::set_permissions(&bad, Permissions::from_mode(0o777)).unwrap();
    fs::create_dir(harness.path("shims")).unwrap();
    fs::copy("/bin/bash", harness.path("shims/bash")).unwrap();
    let list = format!("{},{},/no/bash", bad.display(), harness.path("shims/bash").display());
    harness.write("i.toml", &format!("interpreters={list}"));
    check(
        &mut harness,
        "i.sh",
        Some("i.toml"),
        &["no interpreter", "can write", "shim", "`/no/bash` does not exist", "apt install bash"],
    );
    // A link is executed by its own path.
    let alias = harness.path("alias");
    symlink("/bin/bash", &alias).unwrap();
    let installed = harness.install(
        "i.sh",
        "echo $0 $BASH; readlink /proc/$$/exe",
        &format!("interpreters=/no/bash,{}\nasked=1", alias.display()),
    );
    assert!(installed.warnings.is_empty(), "{:?}", installed.warnings);
    assert_eq!(installed.interpreter, alias.to_str().unwrap());
    if is_root() {
        assert!(harness.run(&installed, None, &[]).stdout.contains(alias.to_str().unwrap()));
    }
}

#[test]
fn other_users_need_leave() {
    if !root() {
        return;
    }
    let mut harness = Harness::start();
    harness.write("u.sh", "id -u");
    for (user, words) in [("root", "allow_root"), ("daemon", "[users] allow"), ("nobody", "[users] allow")] {
        harness.write("u.toml", &format!("user={user}"));
        check(&mut harness, "u.sh", Some("u.toml"), &[words]);
    }
    drop(harness);
    let mut harness = Harness::with(&Options { config: "allow_root allow_nobody", ..Options::default() });
    let installed = harness.install("u.sh", "id -u; id -G; cat /etc/shadow >/dev/null && echo read", "user=daemon");
    assert_eq!(harness.run(&installed, None, &[]).stdout, "1\n1\n");
    let root = harness.install("r.sh", "id -u; grep CapEff /proc/self/status", "user=root");
    assert_eq!(harness.run(&root, None, &[]).stdout, "0\nCapEff:\t0000000000000000\n");
    // It is refused if another user owns the code.
    std::os::unix::fs::chown(harness.path("functions/r.sh"), Some(12_345), None).unwrap();
    check(&mut harness, "r.sh", Some("r.toml"), &["only files of root may name a user"]);
    std::os::unix::fs::chown(harness.path("functions/u.sh"), Some(12_345), None).unwrap();
    check(&mut harness, "u.sh", Some("u.toml"), &["only files of root may name a user"]);
}
