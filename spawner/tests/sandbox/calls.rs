//! System calls that are refused, unknown or ordinary.

use crate::common::privileged;
use crate::{PROFILES, can, expect, python, said, start};

/// Calls that reach into the kernel or into other processes, and some that must work.
fn script() -> String {
    format!(
        r"
import fcntl
say('filters', lambda: [line.split()[1] for line in open('/proc/self/status') if line.startswith('Seccomp:')][0])
say('privileges', lambda: [line.split()[1] for line in open('/proc/self/status') if line.startswith('NoNewPrivs:')][0])
say('capabilities', lambda: set(line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')) == {{'0' * 16}})
call('io_uring_setup', {io_uring}, 0, 0)
call('userfaultfd', {userfaultfd}, 1)
call('bpf', {bpf}, 0, 0, 0)
call('perf_event_open', {perf}, 0, 0, -1, -1, 0)
call('keyctl', {keyctl}, 0, -3, 0)
call('add_key', {add_key}, b'user', b'x', b'x', 1, -3)
call('process_vm_readv', {readv}, os.getpid(), 0, 0, 0, 0, 0)
call('pidfd_getfd', {getfd}, os.pidfd_open(os.getpid()), 0, 0)
call('kcmp', {kcmp}, os.getpid(), os.getpid(), 0, 0, 1)
call('personality', {personality}, 0x0040000)
call('personality-asked', {personality}, 0xffffffff)
call('unknown', 999)
# The same calls for programs with pointers of 32 bits (x32), which some kernels have.
call('other-set', 0x40000000 | {keyctl}, 0, -3, 0)
call('other-plain', 0x40000000 | {getpid})
call('clone3', {clone3}, 0, 0)
say('terminal', lambda: fcntl.ioctl(os.open('/dev/null', os.O_RDONLY), {tiocsti}, b'x') and None)
# The upper half of the argument, which the kernel ignores.
call('terminal-high', {ioctl}, os.open('/dev/null', os.O_RDONLY), {tiocsti} | 1 << 32, b'x')
call('clone-high', {clone}, 0x10000000 | 1 << 40 | 17, 0, 0, 0, 0) or os._exit(0)
call('quotactl', {quotactl}, 0x80000700, 0, 0, 0)
call('syslog', {syslog}, 10, 0, 0)
call('acct', {acct}, 0)
child = os.fork()
if child == 0:
    call('ptrace', {ptrace}, 0, 0, 0, 0)
    os._exit(0)
os.waitpid(child, 0)
call('memfd', {memfd}, b'x', 1)
",
        io_uring = libc::SYS_io_uring_setup,
        userfaultfd = libc::SYS_userfaultfd,
        bpf = libc::SYS_bpf,
        perf = libc::SYS_perf_event_open,
        keyctl = libc::SYS_keyctl,
        add_key = libc::SYS_add_key,
        readv = libc::SYS_process_vm_readv,
        getfd = libc::SYS_pidfd_getfd,
        kcmp = libc::SYS_kcmp,
        personality = libc::SYS_personality,
        clone3 = libc::SYS_clone3,
        clone = libc::SYS_clone,
        ioctl = libc::SYS_ioctl,
        tiocsti = libc::TIOCSTI,
        getpid = libc::SYS_getpid,
        quotactl = libc::SYS_quotactl,
        syslog = libc::SYS_syslog,
        acct = libc::SYS_acct,
        ptrace = libc::SYS_ptrace,
        memfd = libc::SYS_memfd_create,
    )
}

const REFUSED: [&str; 16] = [
    "io_uring_setup",
    "userfaultfd",
    "bpf",
    "perf_event_open",
    "keyctl",
    "add_key",
    "process_vm_readv",
    "pidfd_getfd",
    "kcmp",
    "personality",
    "terminal",
    "terminal-high",
    "clone-high",
    "quotactl",
    "syslog",
    "acct",
];

#[test]
fn calls_into_the_kernel_and_other_processes_are_refused() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "seccomp") {
        return;
    }
    for profile in PROFILES {
        let got = python(&mut harness, profile, &format!("profile={profile}"), &script());
        let filtered = profile != "off";
        // In profile strict, what is on no list does not exist.
        let other = if profile == "strict" || cfg!(not(target_arch = "x86_64")) { "ENOSYS" } else { "EPERM" };
        if filtered {
            expect(&got, profile, &REFUSED.map(|name| (name, "EPERM")));
            expect(&got, profile, &[("filters", "2"), ("clone3", "ENOSYS")]);
            expect(&got, profile, &[("other-set", other), ("other-plain", other)]);
        } else {
            expect(&got, profile, &[("filters", "0"), ("personality", "ok"), ("process_vm_readv", "ok")]);
            expect(&got, profile, &[("clone3", "EINVAL"), ("terminal", "ENOTTY")]);
        }
        expect(&got, profile, &[("ptrace", if profile == "strict" { "EPERM" } else { "ok" })]);
        expect(&got, profile, &[("unknown", "ENOSYS"), ("personality-asked", "ok"), ("memfd", "ok")]);
        expect(&got, profile, &[("privileges", "1"), ("capabilities", "True")]);
    }
}

/// A program of 64 bits can also make the calls of 32 bits, which have other numbers. The kernel kills a process that tries it.
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_another_architecture_end_the_process() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "seccomp") {
        return;
    }
    // `mov eax, 20; int 0x80; ret`: getpid of i386.
    let script = r"
import ctypes, mmap
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(bytes.fromhex('b814000000cd80c3'))
other = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
child = os.fork()
if child == 0:
    os._exit(0 if other() == os.getpid() else 1)
status = os.waitpid(child, 0)[1]
print('ended', os.WTERMSIG(status) if os.WIFSIGNALED(status) else 'by itself')
";
    for profile in PROFILES {
        let got = python(&mut harness, profile, &format!("profile={profile}"), script);
        let how = said(&got, "ended");
        if profile == "off" {
            // A kernel without these calls ends the process by another signal.
            assert!(["by itself", "11"].contains(&how), "{got}");
        } else {
            assert_eq!(how, libc::SIGSYS.to_string(), "{profile}: {got}");
        }
    }
}

/// The key `syscalls` chooses the list apart from the view of the files.
#[test]
fn the_list_of_calls_can_be_another_one_than_the_profiles() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "seccomp") || !can(&harness, "mounts") {
        return;
    }
    let script = format!(
        "say('write', lambda: open('/usr/x', 'w'))\ncall('keyctl', {}, 0, -3, 0)\ncall('ptrace', {}, 0, 0, 0, 0)\n",
        libc::SYS_keyctl,
        libc::SYS_ptrace
    );
    let mut run = |name: &str, lines: &str| python(&mut harness, name, lines, &script);
    let got = run("open", "profile=strict\nsyscalls=off");
    expect(&got, "syscalls=off", &[("write", "EROFS"), ("ptrace", "ok")]);
    let got = run("some", "profile=strict\nsyscalls=standard");
    expect(&got, "syscalls=standard", &[("write", "EROFS"), ("keyctl", "EPERM"), ("ptrace", "ok")]);
    let got = run("narrow", "profile=off\nsyscalls=strict");
    expect(&got, "profile=off", &[("write", "EACCES"), ("keyctl", "EPERM"), ("ptrace", "EPERM")]);
}
