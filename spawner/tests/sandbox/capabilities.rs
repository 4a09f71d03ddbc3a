//! Capabilities: what a function that has one can do, and what it still can't.

use crate::common::{Harness, Options, Users, privileged, root};
use crate::{PROFILES, bash, can, expect, python, with};
use fnd_wire::frame::{Installed, Reply, Request};
use std::fs;
use std::os::unix::fs::chown;

const CHOWN: &str = "groups=capability:chown";

fn start(config: &'static str) -> Harness {
    with(&Options { config, ..Options::default() })
}

/// Prints its sets, and what happens to a file that it gives away and to attempts to get more.
fn script() -> String {
    format!(
        r"
def sets(lines):
    return ' '.join(line.split()[1] for line in lines if line.startswith('Cap'))
def give():
    path = os.environ['HOME'] + '/given'
    open(path, 'w').close()
    os.chown(path, 12345, 12346)
    found = os.stat(path)
    return str(found.st_uid) + ':' + str(found.st_gid)
say('sets', lambda: sets(open('/proc/self/status')))
say('program', lambda: sets(os.popen('cat /proc/self/status')))
say('privileges', lambda: [line.split()[1] for line in open('/proc/self/status') if line.startswith('NoNewPrivs:')][0])
say('give', give)
say('chmod', lambda: os.chmod(os.environ['HOME'] + '/given', 0o666))
say('setuid', lambda: os.setuid(0))
call('unshare', {unshare}, 0x10000000)
call('setns', {setns}, os.open('/proc/self/ns/user', os.O_RDONLY), 0)
call('clone', {clone}, 0x10000000 | 17, 0, 0, 0, 0) or os._exit(0)
call('clone3', {clone3}, 0, 0)
",
        unshare = libc::SYS_unshare,
        setns = libc::SYS_setns,
        clone = libc::SYS_clone,
        clone3 = libc::SYS_clone3,
    )
}

#[test]
fn a_function_has_the_capability_that_it_asks_for_and_no_way_to_more() {
    if !privileged() {
        return;
    }
    let mut harness = start("allow_root\nallow=capability:chown");
    if !can(&harness, "seccomp") {
        return;
    }
    // Inheritable, permitted, effective, bounding, ambient.
    let only = ["0000000000000001"; 5].join(" ");
    for profile in PROFILES {
        let got = python(&mut harness, profile, &format!("profile={profile}\n{CHOWN}"), &script());
        expect(&got, profile, &[("sets", &*only), ("program", &*only), ("privileges", "1"), ("give", "12345:12346")]);
        // Another one would be needed: FOWNER, SETUID.
        expect(&got, profile, &[("chmod", "EPERM"), ("setuid", "EPERM")]);
        // Also in profile off, which has no filter otherwise: in a namespace of its own it would have all of them.
        expect(&got, profile, &[("unshare", "EPERM"), ("setns", "EPERM"), ("clone", "EPERM"), ("clone3", "ENOSYS")]);
    }
}

#[test]
fn root_gets_no_more_capabilities_than_other_users() {
    if !privileged() {
        return;
    }
    let mut harness = start("allow_root\nallow=capability:chown,capability:kill");
    let sets = "awk '/^Cap/ { print $2 }' /proc/self/status | sort | uniq -c | tr -s ' '";
    for (name, lines, expected) in [
        ("a", format!("user=root\n{CHOWN}"), " 5 0000000000000001\n"),
        ("b", format!("user=root\n{CHOWN},capability:kill"), " 5 0000000000000021\n"),
        ("c", "user=root".to_owned(), " 5 0000000000000000\n"),
        ("d", String::new(), " 5 0000000000000000\n"),
    ] {
        assert_eq!(bash(&mut harness, name, &lines, sets), expected, "{lines}");
    }
}

#[test]
fn only_files_of_root_get_capabilities_and_only_those_that_the_configuration_allows() {
    if !privileged() {
        return;
    }
    // The judge may have been taken over, so the list of possible ones is this program's own.
    let mut harness = start("allow=capability:chown,capability:sys_admin,capability:,capability:KILL");
    let path = harness.write("a.sh", "echo\n");
    for (name, said) in [
        // It is as good as root.
        ("chown", "`[users] allow_root` of fnd.toml does not allow `capability:chown`"),
        ("fowner", "`[users] capabilities` of fnd.toml does not allow `capability:fowner`"),
        ("sys_admin", "lacks the capability `sys_admin`"),
        ("", "lacks the capability ``"),
        ("KILL", "lacks the capability `KILL`"),
    ] {
        harness.write("a.toml", &format!("groups=capability:{name}"));
        let text = harness.refusal("a.sh", Some("a.toml"));
        assert!(text.contains(said), "{name}: {text}");
    }
    harness.write("a.toml", CHOWN);
    chown(&path, Some(12_345), None).unwrap();
    let text = harness.refusal("a.sh", Some("a.toml"));
    assert!(text.contains("only files of root may name a user, groups and capabilities"), "{text}");
}

#[test]
fn a_spawner_that_is_not_root_gives_no_capabilities() {
    if !root() {
        return;
    }
    let config = "allow=capability:chown";
    let mut harness = with(&Options { uid: Some(12_354), best_effort: true, config, ..Options::default() });
    harness.write("a.sh", "echo\n");
    harness.write("a.toml", CHOWN);
    let text = harness.refusal("a.sh", Some("a.toml"));
    assert!(text.contains("does not run as root") && text.contains("no capabilities"), "{text}");
}

#[test]
fn a_capability_that_was_taken_back_does_not_come_back() {
    if !privileged() {
        return;
    }
    let mut harness = start("allow_root\nallow=capability:chown");
    let fails = |harness: &mut Harness, version: &Installed, words: &str| {
        let (_, number) = harness.order(version, None, &[]);
        match harness.answer(number).0 {
            Reply::SpawnFailed(failed) => assert!(failed.message.contains(words), "{}", failed.message),
            other => panic!("{other:?}"),
        }
    };
    let with_it = harness.install("a.sh", "grep CapAmb /proc/self/status", CHOWN);
    assert_eq!(harness.run(&with_it, None, &[]).stdout, "CapAmb:\t0000000000000001\n");
    // The files no longer ask for it.
    let without = harness.install("a.sh", "grep CapAmb /proc/self/status", "");
    fails(&mut harness, &with_it, "its files no longer ask for that user or right");
    assert_eq!(harness.run(&without, None, &[]).stdout, "CapAmb:\t0000000000000000\n");
    let again = harness.install("a.sh", "grep CapAmb /proc/self/status", CHOWN);
    assert_eq!(harness.run(&again, None, &[]).stdout, "CapAmb:\t0000000000000001\n");
    // The configuration no longer allows it; the version's launcher still waits for work.
    fs::write(harness.path("etc/fnd.toml"), "").unwrap();
    let number = harness.send(&Request::Reload, Vec::new());
    assert!(matches!(harness.answer(number).0, Reply::Settings(read) if read.applied));
    fails(&mut harness, &again, "does not allow `capability:chown`");
}

/// The launcher is checked again before each start; a function that asks for nothing has no right that could be taken back.
#[test]
fn a_function_that_asks_for_nothing_goes_on_while_it_runs_when_the_range_becomes_narrower() {
    if !privileged() {
        return;
    }
    let mut harness = start("");
    let version = harness.install("a.sh", "read -r line; echo $line $UID", "");
    let (input, write) = rustix::pipe::pipe().unwrap();
    let (worker, number) = harness.order_pipe(&version, input);
    Users::configure(&harness.path("etc"), (version.uid + 1, version.uid + 1));
    let reload = harness.send(&Request::Reload, Vec::new());
    assert!(matches!(harness.answer(reload).0, Reply::Settings(read) if read.applied));
    let expected = format!("x {}\n", version.uid);
    assert_eq!(harness.run(&version, Some(b"x\n"), &[]).stdout, expected);
    rustix::io::write(&write, b"x\n").unwrap();
    assert_eq!(harness.finish(worker, number).stdout, expected);
}
