//! The judge as a process: it answers, and has nothing else.
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "a panic is how a test says no"
)]

use fnd_wire::decrypt::{Decrypted, Encrypted};
use fnd_wire::form::{Bytes, Wire as _};
use fnd_wire::frame::{PACKET_MAX, Partial, packets};
use fnd_wire::plan::{JudgeReply, JudgeRequest, JudgeSettings};
use fnd_wire::trust::JUDGE_ID;
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// A judge that has answered, so it is past its start.
struct Judge {
    socket: File,
    child: Child,
}

impl Judge {
    fn start(command: &mut Command) -> Self {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let child = command
            .args(["--judge", "--protocol=4"])
            .stdin(Stdio::from(theirs))
            .spawn()
            .unwrap();
        let mut judge = Self {
            socket: File::from(ours),
            child,
        };
        judge.ask();
        judge
    }

    /// Asks it something and expects the answer.
    fn ask(&mut self) {
        let settings = JudgeSettings {
            files: vec![],
            runtimes: vec![],
        };
        for packet in packets(&JudgeRequest::Settings(settings).to_wire()) {
            self.socket.write_all(&packet).unwrap();
        }
        let (mut partial, mut packet) = (Partial::default(), vec![0; PACKET_MAX]);
        let reply = loop {
            let length = self.socket.read(&mut packet).unwrap();
            assert!(length > 0, "the judge ended");
            if let Some(whole) = partial.add(&packet[..length]).unwrap() {
                break JudgeReply::from_wire(&whole).unwrap();
            }
        };
        assert!(matches!(reply, JudgeReply::Settings(settings) if settings.verdict.policy.is_some()));
    }

    fn proc(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.child.id())
    }

    /// Ends it as the spawner does.
    fn end(mut self) {
        drop(self.socket);
        assert!(self.child.wait().unwrap().success());
    }
}

fn helper() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fnd-helper"))
}

#[test]
fn the_judge_has_no_files_no_network_and_few_system_calls() {
    let judge = Judge::start(&mut helper());
    let of = |name: &str| judge.proc(name);
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
    judge.end();
}

/// Two instances have judges of the same user. proc(5): what `/proc` has of a process belongs to root, instead of to its user, where
/// the process is not dumpable; then its user may neither trace it nor read its memory.
#[test]
fn other_processes_of_its_user_cannot_look_into_the_judge() {
    // By descriptor, as the spawner starts it: its user need not reach the program.
    let program = rustix::fs::open(env!("CARGO_BIN_EXE_fnd-helper"), OFlags::PATH, Mode::empty()).unwrap();
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    let own = rustix::process::geteuid();
    let user = if own.is_root() { JUDGE_ID } else { own.as_raw() };
    if own.is_root() {
        command.uid(user).gid(user);
    }
    let judge = Judge::start(&mut command);
    let status = fs::read_to_string(judge.proc("status")).unwrap();
    assert!(
        status.contains(&format!("Uid:\t{user}\t{user}\t{user}\t{user}\n")),
        "{status}"
    );
    assert_eq!(fs::metadata(judge.proc("mem")).unwrap().uid(), 0);
    judge.end();
}

/// System calls that an attacker in the judge would try. The test makes the judge's process do the calls itself, in
/// place of the read in which it waits. Without the filter each call ends otherwise, if only with another error.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_that_the_judge_does_not_need_is_refused_and_it_goes_on() {
    use nix::libc;
    use nix::sys::ptrace;
    use nix::sys::wait::waitpid;
    use nix::unistd::Pid;

    if !rustix::process::geteuid().is_root() {
        return; // nobody else may trace it
    }
    let mut judge = Judge::start(&mut helper());
    let pid = Pid::from_raw(judge.child.id().cast_signed());
    // It has answered, but may not be in its read yet.
    let in_read = format!("{} ", libc::SYS_read);
    while !fs::read_to_string(judge.proc("syscall")).unwrap().starts_with(&in_read) {
        std::thread::yield_now();
    }
    ptrace::attach(pid).unwrap();
    waitpid(pid, None).unwrap();
    let waiting = ptrace::getregs(pid).unwrap();
    assert_eq!(waiting.orig_rax, libc::SYS_read.cast_unsigned());
    let prepare = |number: u64, arguments: [u64; 6]| {
        let mut registers = waiting;
        // Back to the instruction of the call, which has two bytes; and no call is to be restarted.
        (registers.rip, registers.orig_rax) = (waiting.rip - 2, u64::MAX);
        registers.rax = number;
        [
            registers.rdi,
            registers.rsi,
            registers.rdx,
            registers.r10,
            registers.r8,
            registers.r9,
        ] = arguments;
        ptrace::setregs(pid, registers).unwrap();
    };
    let call = |number: i64, arguments: [u64; 6]| {
        prepare(number.cast_unsigned(), arguments);
        // It stops before the call and after it.
        for _ in 0..2 {
            ptrace::syscall(pid, None).unwrap();
            waitpid(pid, None).unwrap();
        }
        ptrace::getregs(pid).unwrap().rax.cast_signed()
    };
    let none = [0; 6];
    let map = |protection: i32| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let [protection, flags] = [protection, flags].map(|word| u64::from(word.cast_unsigned()));
        [0, 4096, protection, flags, u64::MAX, 0]
    };
    assert_eq!(call(libc::SYS_getpid, none), i64::from(pid.as_raw()));
    assert!(call(libc::SYS_mmap, map(libc::PROT_READ)) > 0);
    let own = judge.child.id().into();
    for (number, arguments) in [
        (libc::SYS_openat, none),
        (libc::SYS_open, none),
        (libc::SYS_memfd_create, none),
        (
            libc::SYS_socket,
            [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, 0, 0, 0],
        ),
        (libc::SYS_connect, [u64::MAX, 0, 0, 0, 0, 0]),
        (libc::SYS_ioctl, [u64::MAX, 0, 0, 0, 0, 0]),
        (libc::SYS_execve, none),
        (libc::SYS_fork, none),
        (libc::SYS_clone3, none),
        (libc::SYS_kill, [own, 0, 0, 0, 0, 0]),
        (libc::SYS_prctl, [libc::PR_GET_DUMPABLE as u64, 0, 0, 0, 0, 0]),
        (libc::SYS_unshare, none),
        (libc::SYS_process_vm_readv, none),
        (libc::SYS_io_uring_setup, none),
        (libc::SYS_getppid, none),
        (libc::SYS_mmap, map(libc::PROT_READ | libc::PROT_EXEC)),
    ] {
        assert_eq!(call(number, arguments), -i64::from(libc::EPERM), "system call {number}");
    }
    // It reads on as if nothing had been.
    prepare(
        waiting.orig_rax,
        [
            waiting.rdi,
            waiting.rsi,
            waiting.rdx,
            waiting.r10,
            waiting.r8,
            waiting.r9,
        ],
    );
    ptrace::detach(pid, None).unwrap();
    judge.ask();
    judge.end();
}

/// The child that decrypts has no more than the judge, before it has read anything.
#[test]
fn the_child_that_decrypts_is_confined_before_it_reads() {
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = helper();
    command
        .arg("--decrypt")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
    let mut child = command.spawn().unwrap();
    drop(command);
    let status = format!("/proc/{}/status", child.id());
    let begun = fnd_helper::clock::monotonic();
    while !fs::read_to_string(&status).unwrap().contains("Seccomp:\t2") {
        assert!(begun.elapsed().as_secs() < 60, "it has no filter");
        std::thread::yield_now();
    }
    if rustix::process::geteuid().is_root() {
        let root = format!("/proc/{}/root", child.id());
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
    }
    let question = Encrypted {
        key: Bytes(b"no key".to_vec()),
        text: Bytes(b"no file".to_vec()),
    };
    ours.write_all(&question.to_wire()).unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    let _ = ours.read_to_end(&mut answer).unwrap();
    assert_eq!(Decrypted::from_wire(&answer).unwrap(), Decrypted::BadKey);
    assert!(child.wait().unwrap().success());
}

/// The child that unpacks has the open archive, and no more than the judge.
#[test]
fn the_child_that_unpacks_is_confined_before_it_reads() {
    use fnd_wire::archive::{ArchiveRefusal, Why};
    use fnd_wire::unpack::{Received, Receiver, Stopped};

    let start = |archive: Stdio| {
        let mut command = helper();
        let child = command.arg("--unpack=.tar").stdin(archive).stdout(Stdio::piped());
        child.spawn().unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.tar");
    // An old header of an empty file: name, mode, size, sum.
    let mut tar = vec![0; 3 * 512];
    for (at, text) in [(0, "name"), (100, "0000644"), (124, "00000000000"), (148, "        ")] {
        tar[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    let sum: u32 = tar.iter().map(|byte| u32::from(*byte)).sum();
    tar[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    fs::write(&path, &tar).unwrap();
    let mut child = start(Stdio::from(File::open(&path).unwrap()));
    let (mut output, mut receiver) = (child.stdout.take().unwrap(), Receiver::default());
    let first = receiver.next(&mut output).unwrap();
    assert!(matches!(first, Received::File(file) if file.path == "name" && file.length == 0));
    assert_eq!(receiver.next(&mut output).unwrap(), Received::End);
    assert!(child.wait().unwrap().success());

    // A pipe that nobody reads holds it in its last step, so its state can be looked at.
    let many: Vec<u8> = (0..9000)
        .flat_map(|number| {
            let mut header = tar[..512].to_vec();
            header[..12].copy_from_slice(format!("name{number:08}").as_bytes());
            header[148..156].fill(b' ');
            let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
            header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
            header
        })
        .chain(vec![0; 1024])
        .collect();
    fs::write(&path, many).unwrap();
    let mut child = start(Stdio::from(File::open(&path).unwrap()));
    let (mut output, mut receiver) = (child.stdout.take().unwrap(), Receiver::default());
    receiver.next(&mut output).unwrap();
    let of = |name: &str| format!("/proc/{}/{name}", child.id());
    let status = fs::read_to_string(of("status")).unwrap();
    assert!(
        status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1"),
        "{status}"
    );
    let limits = fs::read_to_string(of("limits")).unwrap();
    let cpu = limits.lines().find(|line| line.starts_with("Max cpu time")).unwrap();
    assert!(cpu.contains("120"), "{cpu}");
    if rustix::process::geteuid().is_root() {
        assert_eq!(fs::read_dir(of("root")).unwrap().count(), 0);
    }
    while receiver.next(&mut output).unwrap() != Received::End {}
    assert!(child.wait().unwrap().success());

    let mut child = start(Stdio::piped());
    drop(child.stdin.take());
    let refused = Receiver::default().next(&mut child.stdout.take().unwrap());
    let expected = ArchiveRefusal::from(Why::Unreadable);
    assert!(matches!(refused, Err(Stopped::Refused(refusal)) if refusal == expected));
    assert!(child.wait().unwrap().success());
}
