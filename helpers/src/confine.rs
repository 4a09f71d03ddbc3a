//! Confines the judge, and the children that decrypt secrets and unpack archives, before they read untrusted input: they lose
//! every access to files, the network and other processes. An attacker who controls such a process can only use its sockets and
//! pipes, allocate memory, and end it.

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, mount_remount, unmount};
use rustix::process::{DumpableBehavior, chdir, pivot_root, set_dumpable_behavior};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::io;

/// The system calls that the judge may use: to communicate, allocate memory, read the clock, panic and end.
const CALLS: [i64; 27] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
];

/// Gives up all rights that the judge does not need. They cannot be got back.
///
/// # Errors
/// The process could not be confined. It must not read untrusted input then.
pub fn confine() -> io::Result<()> {
    confine_with(&[])
}

/// Gives up all rights but those of [`confine`] and these system calls. They cannot be got back.
///
/// # Errors
/// As for [`confine`].
pub fn confine_with(more: &[i64]) -> io::Result<()> {
    // First, because until then another process of the same user may attach to this one (ptrace(2)).
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // The namespaces are a second wall behind the filter. Where they are not allowed (a container), the process has the filter
    // only.
    let _ = empty_namespaces();
    // The filter comes last, because it forbids the calls of the other steps.
    let filter = filter(more).map_err(io::Error::other)?;
    seccompiler::apply_filter_all_threads(&filter).map_err(io::Error::other)
}

/// Moves into empty namespaces without files, network and System V objects, by means of a user namespace.
#[expect(
    unsafe_code,
    reason = "unshare may take away what other threads rely on; there are none"
)]
fn empty_namespaces() -> rustix::io::Result<()> {
    let empty = UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    // SAFETY: neither memory nor descriptors are taken away.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | empty) }?;
    // pivot_root(2) refuses shared mounts, and nothing that is mounted here may appear outside.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    // Any directory that every user can enter is good enough. Everything below it goes away with the old root.
    mount(
        "none",
        "/proc",
        "tmpfs",
        MountFlags::empty(),
        c"size=4k,nr_inodes=1,mode=555",
    )?;
    chdir("/proc")?;
    // The old root then lies on top of the new one, and the unmount takes it away (pivot_root(2), notes).
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    let nothing = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_remount("/", nothing, "")
}

/// Makes the filter: a call that is not on the list fails with EPERM, memory is never executable, calls of another
/// architecture kill.
fn filter(more: &[i64]) -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = CALLS.iter().chain(more).map(|call| (*call, Vec::new()));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = calls.collect();
    let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
    let without = SeccompCmpOp::MaskedEq(executable);
    let rule = SeccompRule::new(vec![SeccompCondition::new(2, SeccompCmpArgLen::Dword, without, 0)?])?;
    rules.extend([libc::SYS_mmap, libc::SYS_mprotect].map(|call| (call, vec![rule.clone()])));
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?.try_into()
}
