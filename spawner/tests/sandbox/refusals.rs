//! Refusals at the installation, and machines that lack layers.

use crate::common::{Options, Outcome, privileged};
use crate::{bash, can, expect, python, start, with};
use fnd_wire::frame::{Reply, Request};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};

#[test]
fn paths_that_lead_elsewhere_and_keys_of_strangers_are_refused() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    harness.write("a.sh", "echo\n");
    for lines in [
        "read_write=/srv/../etc",
        "read_only=srv",
        "read_only=/",
        "hide=/srv//x",
        "devices=/etc/shadow",
        "devices=/dev/../etc/shadow",
        "tmp=0",
    ] {
        harness.write("a.toml", &format!("profile=strict\n{lines}"));
        let text = harness.refusal("a.sh", Some("a.toml"));
        assert!(text.contains("sandbox") || text.contains("temporary files"), "{lines}: {text}");
    }
    // The owner of the files is another user than root.
    let path = harness.path("functions/a.sh");
    chown(&path, Some(12_345), None).unwrap();
    for (lines, key) in
        [("read_write=/srv/x", "read_write"), ("read_only=/srv/x", "read_only"), ("devices=/dev/kvm", "devices")]
    {
        harness.write("a.toml", &format!("profile=strict\n{lines}"));
        let text = harness.refusal("a.sh", Some("a.toml"));
        assert!(text.contains(&format!("`sandbox.{key}`")) && text.contains("chown root"), "{lines}: {text}");
    }
    for lines in ["profile=strict", "profile=strict\nhide=/srv\nnetwork=none"] {
        harness.write("a.toml", lines);
        assert!(matches!(harness.try_install("a.sh", Some("a.toml")), Outcome::Installed(_)), "{lines}");
    }
    chown(&path, Some(0), None).unwrap();
    harness.write("a.toml", "profile=strict\nread_write=/srv/x");
    assert!(matches!(harness.try_install("a.sh", Some("a.toml")), Outcome::Installed(_)), "root's may");
}

#[test]
fn a_configuration_of_a_stranger_makes_no_profile_weaker() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    harness.write("a.toml", "profile=standard");
    let path = harness.write("a.sh", "echo\n");
    chown(&path, Some(12_345), None).unwrap();
    assert!(matches!(harness.try_install("a.sh", Some("a.toml")), Outcome::Installed(_)), "root's says `off`");
    chown(harness.path("etc/fnd.toml"), Some(12_345), None).unwrap();
    let number = harness.send(&Request::Reload, Vec::new());
    assert!(matches!(harness.answer(number).0, Reply::Settings(read) if read.applied));
    let text = harness.refusal("a.sh", Some("a.toml"));
    assert!(text.contains("`sandbox.profile`"), "{text}");
    harness.write("a.toml", "profile=strict");
    assert!(matches!(harness.try_install("a.sh", Some("a.toml")), Outcome::Installed(_)));
}

#[test]
fn an_interpreter_in_a_hidden_place_is_refused_until_it_is_shown() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "mounts") {
        return;
    }
    let dir = tempfile::Builder::new().prefix("fnd-sandbox").tempdir_in("/srv").unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    let program = dir.path().join("bin/bash");
    fs::copy("/bin/bash", &program).unwrap();
    let (dir, program) = (dir.path().display(), program.display());
    harness.write("a.sh", "echo $BASH\n");
    harness.write("a.toml", &format!("profile=strict\ninterpreters={program}"));
    let text = harness.refusal("a.sh", Some("a.toml"));
    assert!(text.contains(&format!("hides its interpreter `{program}`")), "{text}");
    assert!(text.contains(&format!("`read_only = [\"{dir}\"]`")), "{text}");
    let lines = format!("profile=strict\ninterpreters={program}\nread_only={dir}");
    assert_eq!(bash(&mut harness, "a", &lines, "echo $BASH\n"), format!("{program}\n"));
    let lines = format!("profile=standard\ninterpreters={program}");
    assert_eq!(bash(&mut harness, "b", &lines, "echo $BASH\n"), format!("{program}\n"));
}

#[test]
fn an_interpreter_beside_the_runtimes_is_shown_wherever_it_lies() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "mounts") {
        return;
    }
    let version = harness.path("interpreters/bash/5");
    fs::create_dir_all(version.join("bin")).unwrap();
    fs::copy("/bin/bash", version.join("bin/bash")).unwrap();
    std::os::unix::fs::symlink("5", version.with_file_name("current")).unwrap();
    let program = version.with_file_name("current").join("bin/bash");
    let lines = format!("profile=strict\ninterpreters={}", program.display());
    assert_eq!(bash(&mut harness, "a", &lines, "echo $BASH\n"), format!("{}\n", program.display()));
    let lines = format!("{lines}\nhide={}", version.display());
    harness.write("a.toml", &lines);
    assert!(harness.refusal("a.sh", Some("a.toml")).contains("hides its interpreter"));
}

#[test]
fn a_layer_that_is_missing_refuses_who_asked_for_it_and_no_other() {
    if !crate::common::root() {
        return;
    }
    let mut harness =
        with(&Options { uid: Some(12_351), no_namespaces: true, best_effort: true, ..Options::default() });
    let missing: Vec<_> = harness.welcome.missing.iter().map(|(what, _)| what.clone()).collect();
    assert!(missing.iter().any(|what| what == "mounts") && missing.iter().any(|what| what == "network"), "{missing:?}");
    harness.write("a.sh", "echo\n");
    for layer in ["mounts", "pid", "network"] {
        harness.write("a.toml", &format!("profile=strict\nasked_layers={layer}"));
        let text = harness.refusal("a.sh", Some("a.toml"));
        assert!(text.contains(&format!("its sandbox needs `{layer}`")) && text.contains("another machine"), "{text}");
    }
    let script = format!(
        "call('unknown', 999)\ncall('mount', {}, b'none', b'/tmp', b'tmpfs', 0, 0)\ncall('unshare', {}, 0x10000000)\n\
         call('clone3', {}, 0, 0)\nsay('write', lambda: open('/usr/x', 'w'))\nsay('user', os.getuid)\n",
        libc::SYS_mount,
        libc::SYS_unshare,
        libc::SYS_clone3
    );
    let got = python(&mut harness, "b", "profile=strict", &script);
    let expected = [("unknown", "ENOSYS"), ("write", "EACCES"), ("user", "12351")];
    expect(&got, "strict", &expected);
    // The other layers are in force.
    if can(&harness, "seccomp") {
        expect(&got, "strict", &[("mount", "EPERM"), ("unshare", "EPERM"), ("clone3", "ENOSYS")]);
    }
}

#[test]
fn a_launcher_that_could_not_build_its_sandbox_is_replaced_at_the_next_start() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "mounts") {
        return;
    }
    let installed = harness.install("again.sh", "echo hello\n", "profile=strict");
    let root = harness.path("run/root");
    fs::remove_dir(&root).unwrap();
    fs::write(&root, "").unwrap();
    for _ in 0..2 {
        let (_, number) = harness.order(&installed, None, &[]);
        let Reply::SpawnFailed(failed) = harness.answer(number).0 else { panic!("it ran") };
        assert!(failed.message.contains("failed to build the sandbox"), "{}", failed.message);
    }
    // What was missing is there again, long before an idle launcher ends.
    fs::remove_file(&root).unwrap();
    fs::create_dir(&root).unwrap();
    assert_eq!(harness.run(&installed, None, &[]).stdout, "hello\n");
}
