//! Filters of system calls (seccomp(2)). Profile `strict` allows a list and `standard` refuses one; both refuse the same
//! ways to new namespaces, mounts and kernel interfaces.
//!
//! The launcher gets the large filters once, and everything that it starts inherits them. An attempt gets one more call:
//! the launcher needs `clone3`, whose flags no filter can see. Base of the strict list: `@system-service` of systemd 252,
//! less what reaches into other processes or into the kernel.

use fnd_wire::sandbox::{Network, Profile};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

/// The filters of a function.
#[derive(Debug, Default)]
pub struct Filters {
    /// For the launcher, in this order.
    pub launcher: Vec<BpfProgram>,
    /// For each attempt, in addition.
    pub attempt: BpfProgram,
}

macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// The calls that profile strict allows; every other one does not exist there.
#[rustfmt::skip]
const STRICT: &[i64] = calls! {
    SYS_accept SYS_accept4 SYS_bind SYS_brk SYS_capget SYS_capset SYS_chdir SYS_clock_getres SYS_clock_gettime
    SYS_clock_nanosleep SYS_clone SYS_clone3 SYS_close SYS_close_range SYS_connect SYS_copy_file_range SYS_dup SYS_dup3
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_execve SYS_execveat SYS_exit
    SYS_exit_group SYS_faccessat SYS_faccessat2 SYS_fadvise64 SYS_fallocate SYS_fchdir SYS_fchmod SYS_fchmodat
    SYS_fchown SYS_fchownat SYS_fcntl SYS_fdatasync SYS_fgetxattr SYS_flistxattr SYS_flock
    SYS_fremovexattr SYS_fsetxattr SYS_fstat SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex SYS_futex_waitv SYS_get_robust_list SYS_getcpu SYS_getcwd SYS_getdents64
    SYS_getegid SYS_geteuid SYS_getgid SYS_getgroups SYS_getitimer SYS_getpeername SYS_getpgid SYS_getpid SYS_getppid
    SYS_getpriority SYS_getrandom SYS_getresgid SYS_getresuid SYS_getrlimit SYS_getrusage SYS_getsid SYS_getsockname
    SYS_getsockopt SYS_gettid SYS_gettimeofday SYS_getuid SYS_getxattr SYS_inotify_add_watch SYS_inotify_init1
    SYS_inotify_rm_watch SYS_io_cancel SYS_io_destroy SYS_io_getevents SYS_io_setup SYS_io_submit
    SYS_ioctl SYS_ioprio_get SYS_ioprio_set SYS_kill SYS_landlock_add_rule SYS_landlock_create_ruleset
    SYS_landlock_restrict_self SYS_lgetxattr SYS_linkat SYS_listen SYS_listxattr SYS_llistxattr SYS_lremovexattr
    SYS_lseek SYS_lsetxattr SYS_madvise SYS_membarrier SYS_memfd_create SYS_mincore SYS_mkdirat SYS_mknodat SYS_mlock
    SYS_mlock2 SYS_mlockall SYS_mmap SYS_mprotect SYS_mq_getsetattr SYS_mq_notify SYS_mq_open SYS_mq_timedreceive
    SYS_mq_timedsend SYS_mq_unlink SYS_mremap SYS_mseal SYS_msgctl SYS_msgget SYS_msgrcv SYS_msgsnd SYS_msync
    SYS_munlock SYS_munlockall SYS_munmap SYS_nanosleep SYS_newfstatat SYS_openat SYS_openat2 SYS_personality
    SYS_pidfd_open SYS_pidfd_send_signal SYS_pipe2 SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_ppoll SYS_prctl
    SYS_pread64 SYS_preadv SYS_preadv2 SYS_prlimit64 SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read
    SYS_readahead SYS_readlinkat SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_remap_file_pages SYS_removexattr
    SYS_renameat SYS_renameat2 SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigpending SYS_rt_sigprocmask
    SYS_rt_sigqueueinfo SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_rt_tgsigqueueinfo
    SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_getaffinity SYS_sched_getattr SYS_sched_getparam
    SYS_sched_getscheduler SYS_sched_rr_get_interval SYS_sched_setaffinity SYS_sched_setattr SYS_sched_setparam
    SYS_sched_setscheduler SYS_sched_yield SYS_seccomp SYS_semctl SYS_semget SYS_semop SYS_semtimedop SYS_sendfile
    SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_set_robust_list SYS_set_tid_address SYS_setfsgid SYS_setfsuid SYS_setgid
    SYS_setgroups SYS_setitimer SYS_setpgid SYS_setpriority SYS_setregid SYS_setresgid SYS_setresuid SYS_setreuid
    SYS_setrlimit SYS_setsid SYS_setsockopt SYS_setuid SYS_setxattr SYS_shmat SYS_shmctl SYS_shmdt SYS_shmget
    SYS_shutdown SYS_sigaltstack SYS_signalfd4 SYS_socket SYS_socketpair SYS_splice SYS_statfs SYS_statx SYS_symlinkat
    SYS_sync SYS_sync_file_range SYS_syncfs SYS_sysinfo SYS_tee SYS_tgkill SYS_timer_create SYS_timer_delete
    SYS_timer_getoverrun SYS_timer_gettime SYS_timer_settime SYS_timerfd_create SYS_timerfd_gettime SYS_timerfd_settime
    SYS_times SYS_tkill SYS_truncate SYS_umask SYS_uname SYS_unlinkat SYS_utimensat SYS_wait4 SYS_waitid SYS_write
    SYS_writev
};

/// The same for `fchmodat2`, `futex_wake`, `futex_wait` and `futex_requeue`, which have these numbers everywhere.
const NEW: &[i64] = &[452, 454, 455, 456];

/// The calls of strict that only this architecture has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD: &[i64] = calls! {
    SYS_access SYS_alarm SYS_arch_prctl SYS_chmod SYS_chown SYS_creat SYS_dup2 SYS_epoll_create SYS_epoll_ctl_old
    SYS_epoll_wait SYS_epoll_wait_old SYS_eventfd SYS_fork SYS_futimesat SYS_get_thread_area SYS_getdents SYS_getpgrp
    SYS_inotify_init SYS_lchown SYS_link SYS_lstat SYS_mkdir SYS_mknod SYS_open SYS_pause SYS_pipe SYS_poll
    SYS_readlink SYS_rename SYS_rmdir SYS_select SYS_set_thread_area SYS_signalfd SYS_stat SYS_symlink SYS_time
    SYS_unlink SYS_ustat SYS_utime SYS_utimes SYS_vfork
};
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[i64] = &[];

/// The calls that strict and standard refuse.
#[rustfmt::skip]
const REFUSED: &[i64] = calls! {
    SYS_acct SYS_add_key SYS_adjtimex SYS_bpf SYS_chroot SYS_clock_adjtime SYS_clock_settime SYS_delete_module
    SYS_fanotify_init SYS_finit_module SYS_fsconfig SYS_fsmount SYS_fsopen SYS_fspick SYS_init_module SYS_io_uring_enter
    SYS_io_uring_register SYS_io_uring_setup SYS_kcmp SYS_kexec_file_load SYS_kexec_load SYS_keyctl SYS_mbind
    SYS_migrate_pages SYS_mount SYS_mount_setattr SYS_move_mount SYS_move_pages SYS_name_to_handle_at
    SYS_open_by_handle_at SYS_open_tree SYS_perf_event_open SYS_pidfd_getfd SYS_pivot_root SYS_process_madvise
    SYS_process_vm_readv SYS_process_vm_writev SYS_quotactl SYS_quotactl_fd SYS_reboot SYS_request_key
    SYS_set_mempolicy SYS_setdomainname SYS_sethostname SYS_setns SYS_settimeofday SYS_swapoff SYS_swapon SYS_syslog
    SYS_umount2 SYS_unshare SYS_userfaultfd SYS_vhangup SYS_vmsplice
};
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = calls! { SYS_ioperm SYS_iopl SYS_modify_ldt SYS_uselib SYS_sysfs };
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Flags of `clone` that make a namespace: a user namespace would give back every privilege inside it.
#[rustfmt::skip]
const NAMESPACES: &[i32] = calls! {
    CLONE_NEWNS CLONE_NEWCGROUP CLONE_NEWUTS CLONE_NEWIPC CLONE_NEWUSER CLONE_NEWPID CLONE_NEWNET
};

/// The families of sockets that a function with a network may have.
const FAMILIES: &[i32] = calls! { AF_UNIX AF_INET AF_INET6 AF_NETLINK };

type SeccompRules = std::collections::BTreeMap<i64, Vec<SeccompRule>>;

/// Returns the filters of a profile; for profile off only what the network needs.
///
/// # Errors
/// Why they can't be made: a defect of this program, or another processor than fnd is built for.
pub fn filters(profile: Profile, network: &Network) -> Result<Filters, String> {
    let refused = || SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let mut launcher = Vec::new();
    if matches!(network, Network::Connect(_)) {
        launcher.push(compile(tcp_that_landlock_misses()?, SeccompAction::Allow, refused())?);
    }
    if profile != Profile::Off || !launcher.is_empty() {
        launcher.extend(other_set());
    }
    if profile == Profile::Off {
        return Ok(Filters { launcher, attempt: BpfProgram::new() });
    }
    // Of two filters that refuse a call, the error of the later one counts: first what does not exist, then what is known
    // and refused.
    if profile == Profile::Strict {
        let all = STRICT.iter().chain(NEW).chain(OLD).chain(REFUSED).chain(REFUSED_HERE).chain(&[libc::SYS_ptrace]);
        let rules = all.map(|call| (*call, Vec::new())).collect();
        launcher.push(compile(rules, SeccompAction::Errno(libc::ENOSYS.cast_unsigned()), SeccompAction::Allow)?);
    }
    launcher.push(compile(refused_rules(profile, network)?, SeccompAction::Allow, refused())?);
    let no_clone3 = SeccompAction::Errno(libc::ENOSYS.cast_unsigned()); // programs then use `clone`
    let attempt = compile([(libc::SYS_clone3, Vec::new())].into(), SeccompAction::Allow, no_clone3)?;
    Ok(Filters { launcher, attempt })
}

/// Returns the filter that refuses the second set of calls of x86-64 (x32, for pointers of 32 bits), which some kernels
/// have: the same calls with other numbers, which no list of numbers names. After the check of the architecture, it is
/// the only one with this bit in the number.
fn other_set() -> Option<BpfProgram> {
    const BIT: u32 = 0x4000_0000;
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    // Load the number; if it has the bit, go on, else skip one; refuse; allow. seccomp(2).
    let program = [(0x20, 0, 0), (0x45, 1, BIT), (0x06, 0, refused), (0x06, 0, libc::SECCOMP_RET_ALLOW)];
    let program = program.map(|(code, jf, k)| sock_filter { code, jt: 0, jf, k });
    cfg!(target_arch = "x86_64").then(|| program.to_vec())
}

/// Returns the rules that refuse the ways around Landlock's list of ports, which it checks for `connect` of plain TCP
/// only: other protocols of streams, of which some fall back to TCP, and sending that connects (TCP Fast Open).
fn tcp_that_landlock_misses() -> Result<SeccompRules, String> {
    let plain = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6];
    let plain = plain.map(|protocol| (2, SeccompCmpOp::Ne, u64::from(protocol.cast_unsigned())));
    let mut sockets = vec![other_than(FAMILIES)?];
    for family in [libc::AF_INET, libc::AF_INET6] {
        sockets.push(rule(&[&[(0, SeccompCmpOp::Eq, u64::from(family.cast_unsigned()))], &plain[..]].concat())?);
    }
    let connects = u64::from(libc::MSG_FASTOPEN.cast_unsigned());
    let mut rules = SeccompRules::from([(libc::SYS_socket, sockets)]);
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        rules.insert(call, vec![rule(&[(flags, SeccompCmpOp::MaskedEq(connects), connects)])?]);
    }
    // Its requests are no system calls.
    rules.insert(libc::SYS_io_uring_setup, Vec::new());
    Ok(rules)
}

fn refused_rules(profile: Profile, network: &Network) -> Result<SeccompRules, String> {
    let mut rules: SeccompRules = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    if profile == Profile::Strict {
        rules.insert(libc::SYS_ptrace, Vec::new());
    }
    let flags = NAMESPACES.iter().map(|flag| u64::from(flag.cast_unsigned()));
    let clone = flags.map(|flag| rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)]));
    rules.insert(libc::SYS_clone, clone.collect::<Result<_, _>>()?);
    // Input for a terminal that other programs read.
    let terminal = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| rule(&[(1, SeccompCmpOp::Eq, request)]));
    rules.insert(libc::SYS_ioctl, terminal.into_iter().collect::<Result<_, _>>()?);
    // 0 is ordinary, and all ones asks.
    let other = [(0, SeccompCmpOp::Ne, 0), (0, SeccompCmpOp::Ne, u64::from(u32::MAX))];
    rules.insert(libc::SYS_personality, vec![rule(&other)?]);
    let mut sockets = vec![other_than(if *network == Network::None { &[libc::AF_UNIX] } else { FAMILIES })?];
    if profile == Profile::Strict {
        // Programs need the list of addresses (NETLINK_ROUTE), and not other interfaces of the kernel.
        let netlink = (0, SeccompCmpOp::Eq, u64::from(libc::AF_NETLINK.cast_unsigned()));
        sockets.push(rule(&[netlink, (2, SeccompCmpOp::Ne, 0)])?);
    }
    rules.insert(libc::SYS_socket, sockets);
    Ok(rules)
}

/// Returns a rule that holds for sockets of other families.
fn other_than(families: &[i32]) -> Result<SeccompRule, String> {
    rule(&families.iter().map(|family| (0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned()))).collect::<Vec<_>>())
}

/// Returns a rule that holds if all of these hold: argument, comparison, value of 32 bits.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, String> {
    let one = |(argument, op, value): &(u8, SeccompCmpOp, u64)| {
        // The kernel takes these arguments as 32 bits. A comparison of 64 bits could be evaded by the upper half of the
        // register.
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, op.clone(), *value)
    };
    conditions.iter().map(one).collect::<Result<_, _>>().and_then(SeccompRule::new).map_err(|error| error.to_string())
}

fn compile(rules: SeccompRules, otherwise: SeccompAction, matched: SeccompAction) -> Result<BpfProgram, String> {
    let processor = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let filter = SeccompFilter::new(rules, otherwise, matched, processor);
    filter.and_then(TryInto::try_into).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_both_allowed_and_refused() {
        let both = |call: &&i64| REFUSED.contains(call) || REFUSED_HERE.contains(call);
        assert_eq!(STRICT.iter().chain(OLD).find(both), None);
    }

    #[test]
    fn every_profile_has_its_filters() {
        let none = filters(Profile::Off, &Network::Host).unwrap();
        assert!(none.launcher.is_empty() && none.attempt.is_empty());
        let ports = filters(Profile::Off, &Network::Connect(vec![443])).unwrap();
        assert_eq!((ports.launcher.is_empty(), ports.attempt.len()), (false, 0));
        assert_eq!(
            filters(Profile::Standard, &Network::None).unwrap().launcher.len(),
            1 + usize::from(cfg!(target_arch = "x86_64"))
        );
        let strict = filters(Profile::Strict, &Network::Host).unwrap();
        assert!(strict.launcher.iter().all(|program| program.len() < 4096), "the kernel takes no more");
    }
}
