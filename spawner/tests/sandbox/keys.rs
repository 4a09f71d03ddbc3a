//! The keys `read_only`, `read_write`, `hide`, `devices`, `proc`.

use crate::common::{Harness, privileged};
use crate::{bash, can, expect, said, start};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use tempfile::TempDir;

/// Makes a directory in a place that profile strict hides, open to everybody, with a file.
fn hidden_dir() -> TempDir {
    let dir = tempfile::Builder::new().prefix("fnd-sandbox").tempdir_in("/srv").unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    for (name, mode) in [("file", 0o666), ("closed", 0o600)] {
        fs::write(dir.path().join(name), "canary\n").unwrap();
        fs::set_permissions(dir.path().join(name), Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(dir.path().join("inner")).unwrap();
    fs::write(dir.path().join("inner/deep"), "treasure\n").unwrap();
    dir
}

fn mounts() -> Option<Harness> {
    privileged().then(start).filter(|harness| can(harness, "mounts"))
}

#[test]
fn a_hidden_place_is_shown_read_only_or_writable() {
    let Some(mut harness) = mounts() else { return };
    let dir = hidden_dir();
    let path = dir.path().display().to_string();
    let script = format!(
        "echo read $(cat {path}/file 2>&1)\n\
         echo closed $(cat {path}/closed 2>&1 | grep -o -e canary -e denied -e No)\n\
         echo write $( (echo x >> {path}/new) 2>&1 | grep -o -e denied -e Read-only -e No)\n\
         echo beside $(ls -A /srv | wc -l)\n\
         echo mode $(stat -c %U:%a /srv)\n"
    );
    let beside = hidden_dir();
    for (name, lines, read, closed, write, own) in [
        ("none", String::new(), "", "No", "No", "0"),
        ("missing", "read_only=/srv/not-there,/srv/not/there\nread_write=/nowhere/x".to_owned(), "", "No", "No", "0"),
        ("only", format!("read_only={path}"), "canary", "denied", "Read-only", "1"),
        ("write", format!("read_write={path}"), "canary", "denied", "", "1"),
        ("file", format!("read_only={path}/file"), "canary", "No", "Read-only", "1"),
    ] {
        let _ = fs::remove_file(dir.path().join("new"));
        let got = bash(&mut harness, name, &format!("profile=strict\n{lines}"), &script);
        if read.is_empty() {
            assert!(said(&got, "read").contains("No such file"), "{name}: {got}");
        } else {
            expect(&got, name, &[("read", read)]);
        }
        expect(&got, name, &[("closed", closed), ("write", write), ("beside", own), ("mode", "root:755")]);
        assert_eq!(dir.path().join("new").exists(), name == "write", "{name}: {got}");
    }
    // In profile standard the place is visible, read-only, until it is named.
    let got = bash(&mut harness, "standard", "profile=standard", &script);
    expect(&got, "standard", &[("read", "canary"), ("closed", "denied"), ("write", "Read-only")]);
    let got = bash(&mut harness, "standard", &format!("profile=standard\nread_write={path}"), &script);
    expect(&got, "standard", &[("write", "")]);
    drop(beside);
}

#[test]
fn what_lies_in_a_writable_place_can_be_read_only_or_hidden() {
    let Some(mut harness) = mounts() else { return };
    let dir = hidden_dir();
    fs::set_permissions(dir.path().join("inner"), Permissions::from_mode(0o777)).unwrap();
    let path = dir.path().display().to_string();
    let script = format!(
        "echo outer $( (echo x > {path}/new) 2>&1 | grep -o -e denied -e Read-only)\n\
         echo inner $( (echo x > {path}/inner/new) 2>&1 | grep -o -e denied -e Read-only)\n\
         echo deep $(cat {path}/inner/deep 2>&1 | grep -o -e treasure -e No)\n\
         echo secret $(cat {path}/file 2>&1 | grep -o -e canary -e denied)\n"
    );
    for profile in ["strict", "standard"] {
        let _ = fs::remove_file(dir.path().join("new"));
        let lines = format!("profile={profile}\nread_write={path}\nread_only={path}/inner");
        let got = bash(&mut harness, profile, &lines, &script);
        expect(&got, profile, &[("outer", ""), ("inner", "Read-only"), ("secret", "canary")]);
        let lines = format!("profile={profile}\nread_write={path}\nhide={path}/inner,{path}/file,/srv/none");
        let got = bash(&mut harness, profile, &lines, &script);
        expect(&got, profile, &[("outer", ""), ("inner", "Read-only"), ("deep", "No"), ("secret", "denied")]);
        // An ordinary place can be hidden, too, and something in it shown.
        let lines = format!("profile={profile}\nhide=/usr/share,/opt\nread_only=/usr/share/zoneinfo");
        let got = bash(&mut harness, profile, &lines, "ls /usr/share; ls /opt | wc -l; ls /usr/share/zoneinfo/UTC\n");
        assert_eq!(got, "zoneinfo\n0\n/usr/share/zoneinfo/UTC\n", "{profile}");
    }
}

#[test]
fn a_link_is_followed_once_by_root_and_shows_its_target() {
    let Some(mut harness) = mounts() else { return };
    let dir = hidden_dir();
    let path = dir.path().display().to_string();
    symlink(format!("{path}/inner"), dir.path().join("link")).unwrap();
    let script = format!("cat {path}/inner/deep {path}/link/deep 2>&1 | sed s,/.*:,,\n");
    let got = bash(&mut harness, "link", &format!("profile=strict\nread_only={path}/link"), &script);
    // The target is shown at its own path. The link itself lies in the hidden place.
    assert!(got.starts_with("treasure\n") && got.contains("No such file"), "{got}");
    let got = bash(&mut harness, "both", &format!("profile=strict\nread_only={path}"), &script);
    assert_eq!(got, "treasure\ntreasure\n");
    // A link of a function does not lead it out of its view.
    let script =
        format!("ln -s {path}/file $HOME/link; ln -s /proc/1/root/srv $HOME/root; cat $HOME/link; ls $HOME/root/\n");
    let got = bash(&mut harness, "own", "profile=strict", &script);
    assert!(!got.contains("canary") && got.matches("No such file").count() == 1 && got.contains("ermission"), "{got}");
}

#[test]
fn devices_are_those_that_everybody_needs_and_the_named_ones() {
    let Some(mut harness) = mounts() else { return };
    let script = "ls /dev | tr '\\n' ' '; echo; head -c 1 /dev/kmsg 2>&1 | wc -c; (echo x > /dev/new) 2>&1 | grep -o Read-only\n";
    let got = bash(&mut harness, "strict", "profile=strict", script);
    let plain = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero \n";
    assert!(got.starts_with(plain) && got.ends_with("Read-only\n"), "{got}");
    for name in ["loop-control", "kvm", "mem", "console"] {
        if fs::exists(format!("/dev/{name}")).unwrap() {
            let got =
                bash(&mut harness, "named", &format!("profile=strict\ndevices=/dev/{name},/dev/not-there"), script);
            assert!(got.contains(&format!("{name} ")), "{got}");
            // It is there, but its mode says who may open it.
            let open = format!("head -c 1 /dev/{name} 2>&1 | grep -c denied\n");
            if fs::metadata(format!("/dev/{name}")).unwrap().permissions().mode() & 0o004 == 0 {
                let got = bash(&mut harness, "open", &format!("profile=strict\ndevices=/dev/{name}"), &open);
                assert_eq!(got, "1\n");
            }
        }
    }
}

#[test]
fn nothing_can_be_left_among_the_machines_devices() {
    let Some(mut harness) = mounts() else { return };
    // Some of its file systems are open to everybody: /dev/mqueue. A device is written to all the same.
    let script = "while read -r _ _ _ _ place options _; do [[ $place == /dev* ]] && echo ${options%%,*} $place; done \
         < /proc/self/mountinfo | grep -v -e /dev/shm -e /dev/pts | sort -u; echo x > /dev/null && echo written\n";
    let got = bash(&mut harness, "standard", "profile=standard", script);
    assert!(got.starts_with("ro /dev\n") && !got.contains("rw ") && got.ends_with("written\n"), "{got}");
}

#[test]
fn proc_is_that_of_the_function_or_of_the_machine() {
    let Some(mut harness) = mounts() else { return };
    if !can(&harness, "pid") {
        return;
    }
    let spawner = harness.child.id();
    let script = format!(
        "echo spawner $(ls -d /proc/{spawner} 2>/dev/null)\n\
         echo kernel $(cat /proc/kcore /proc/kmsg /proc/keys /proc/timer_list /proc/sysrq-trigger 2>/dev/null | wc -c)\n\
         echo write $( (echo 1 > /proc/sys/vm/drop_caches) 2>&1 | grep -o -e Read-only -e denied)\n\
         echo own $(cat /proc/self/comm) $(cat /proc/$$/comm)\n\
         echo written $(bash -c 'echo 5 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj')\n"
    );
    for profile in ["strict", "standard"] {
        let got = bash(&mut harness, profile, &format!("profile={profile}"), &script);
        let expected = [("spawner", ""), ("kernel", "0"), ("write", "Read-only"), ("own", "cat bash")];
        expect(&got, profile, &expected);
        assert_eq!(said(&got, "written"), "5", "{got}");
        let got = bash(&mut harness, profile, &format!("profile={profile}\nproc=full"), &script);
        let full = format!("/proc/{spawner}");
        expect(&got, profile, &[("spawner", full.as_str()), ("write", "Read-only")]);
    }
    let got = bash(&mut harness, "off", "profile=off", &script);
    assert_eq!(said(&got, "spawner"), format!("/proc/{spawner}"));
}
