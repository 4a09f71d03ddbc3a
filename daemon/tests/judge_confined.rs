//! The judge as a process: it answers, and has nothing else.
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "a panic is how a test says no"
)]

use fnd_wire::form::Wire as _;
use fnd_wire::frame::{PACKET_MAX, Partial, packets};
use fnd_wire::plan::{JudgeReply, JudgeRequest, JudgeSettings};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

#[test]
fn the_judge_has_no_files_no_network_and_few_system_calls() {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let mut judge = Command::new(env!("CARGO_BIN_EXE_fnd"))
        .arg("--judge")
        .stdin(Stdio::from(theirs))
        .spawn()
        .unwrap();
    let mut socket = File::from(ours);
    let settings = JudgeSettings {
        files: vec![],
        runtimes: vec![],
    };
    for packet in packets(&JudgeRequest::Settings(settings).to_wire()) {
        socket.write_all(&packet).unwrap();
    }
    let (mut partial, mut packet) = (Partial::default(), vec![0; PACKET_MAX]);
    let reply = loop {
        let length = socket.read(&mut packet).unwrap();
        assert!(length > 0, "the judge ended");
        if let Some(whole) = partial.add(&packet[..length]).unwrap() {
            break JudgeReply::from_wire(&whole).unwrap();
        }
    };
    assert!(matches!(reply, JudgeReply::Settings(settings) if settings.policy.is_some()));
    // Its answer says that it is past its start.
    let of = |name: &str| format!("/proc/{}/{name}", judge.id());
    let status = fs::read_to_string(of("status")).unwrap();
    assert!(
        status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1"),
        "{status}"
    );
    if rustix::process::geteuid().is_root() {
        for name in ["net", "ipc", "uts", "mnt"] {
            let own = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            assert_ne!(fs::read_link(of(&format!("ns/{name}"))).unwrap(), own, "{name}");
        }
        assert_eq!(fs::read_dir(of("root")).unwrap().count(), 0);
        let interfaces = fs::read_to_string(of("net/dev")).unwrap();
        assert_eq!(
            interfaces
                .lines()
                .skip(2)
                .filter(|line| !line.trim().starts_with("lo:"))
                .count(),
            0,
            "{interfaces}"
        );
    }
    drop(socket);
    assert!(judge.wait().unwrap().success());
}
